// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unit_threads.c - units that many threads write, read, free and take apart at once.
 */
#include "tier/idle.h"
#include "unit_rig.h"

#include <pthread.h>

/* ---- many at a time ---- */

#define THREADS 4
#define BUSY 64u                /* slots that they meet at */

static struct {
	pthread_t id;
	struct rng rng;
	u64 steps;
} thread[THREADS];
static u64 versions;
static bool over;

/* A page is of its slot, and whole: no other one's, and no mix. */
static void must_be_whole(const unsigned char *page, u64 slot)
{
	unsigned char expect[PAGE_SIZE];
	u64 of, v;

	memcpy(&of, page, sizeof(of));
	memcpy(&v, page + 8, sizeof(v));
	if (!v) {
		for (size_t k = 0; k < PAGE_SIZE; k++)
			must_eq(page[k], 0);
		return;
	}
	must_eq(of, slot);
	page_of(expect, slot, v);
	must(!memcmp(page, expect, PAGE_SIZE));
}

static void write_unit(struct store *s, unsigned char *buf, u64 first)
{
	u64 v = __atomic_add_fetch(&versions, 1, __ATOMIC_RELAXED), word;
	unsigned int k;

	for (k = 0; k < units.pages; k++)
		page_of(buf + k * PAGE_SIZE, first + k, v);
	if (!unit_make(s, first, copy_whole, buf, NUMA_NO_NODE, HOST_MAY_WAIT, &word))
		for (k = 0; k < units.pages; k++)
			unit_put(s, first + k, word);
}

static void *run(void *arg)
{
	unsigned int nr = (unsigned int)(uintptr_t)arg, k;
	struct rng *rng = &thread[nr].rng;
	unsigned char *buf = malloc(MOST);
	struct store *s = &rig.store;

	must(buf);
	for (u64 n = thread[nr].steps; n; n--) {
		u64 slot = rng_below(rng, BUSY), v;

		switch (rng_below(rng, 8)) {
		case 0:
		case 1:
			write_unit(s, buf, slot & ~(u64)(units.pages - 1));
			break;
		case 2:
			v = __atomic_add_fetch(&versions, 1, __ATOMIC_RELAXED);
			page_of(buf, slot, v);
			must_eq(store_write(s, slot, buf, NUMA_NO_NODE), 0);
			break;
		case 3:
			must_eq(store_free(s, slot), 0);
			break;
		case 4:
			slot &= ~(u64)(units.pages - 1);
			if (unit_read_whole(s, slot, buf))
				for (k = 0; k < units.pages; k++)
					must_be_whole(buf + k * PAGE_SIZE, slot + k);
			break;
		default:
			must_eq(store_read(s, slot, buf), 0);
			must_be_whole(buf, slot);
		}
	}
	free(buf);
	return NULL;
}

static void *disturb(void *arg)
{
	struct store *s = &rig.store;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		units_tidy(s);
		store_compact(s);
		mark_all_idle(s);
	}
	return NULL;
}

static void run_threads(void *(*fn)(void *arg))
{
	for (uintptr_t t = 0; t < THREADS; t++) {
		thread[t].rng.s = test_seed * THREADS + t;
		thread[t].steps = scaled(8000);
		must_eq(pthread_create(&thread[t].id, NULL, fn, (void *)t), 0);
	}
	for (unsigned int t = 0; t < THREADS; t++)
		must_eq(pthread_join(thread[t].id, NULL), 0);
}

CASE(threads_see_whole_pages_of_their_slots)
{
	static const unsigned int sizes[] = { 2, 4, 16 };
	pthread_t other;

	use_seed(41);
	for (unsigned int i = 0; i < ARRAY_LEN(sizes) * 2; i++) {
		struct store *s = open_units(&codec_lz4, sizes[i / 2], i % 2 ? 1 << 20 : 0, 0);

		over = false;
		must_eq(pthread_create(&other, NULL, disturb, NULL), 0);
		run_threads(run);
		__atomic_store_n(&over, true, __ATOMIC_RELAXED);
		must_eq(pthread_join(other, NULL), 0);
		for (u64 slot = 0; slot < BUSY; slot++) {
			must_eq(store_read(s, slot, got), 0);
			must_be_whole(got, slot);
		}
		rig_close();
	}
}

/* ---- each thread has units of its own, and knows what is in them; others do all the rest ---- */

#define OWN 64u
#define BLOCKS 128u

static unsigned char device[BLOCKS][PAGE_SIZE];
static u64 moved, recompressed;
static bool is_packed;

static int read_wherever(struct store *s, u64 i, unsigned char *buf)
{
	unsigned char packed[PAGE_SIZE];
	u64 word;
	int err;

	while ((err = store_read(s, i, buf)) == STORE_BACKED) {
		if (!store_backed_begin(s, i, &word))
			continue;
		memcpy(packed, device[slot_block(word)], PAGE_SIZE);
		if (is_packed)
			err = store_unpack_backed(s, word, packed, buf);
		else
			memcpy(buf, packed, PAGE_SIZE), err = 0;
		store_backed_end(s, word);
		return err;
	}
	return err;
}

static void *run_own(void *arg)
{
	unsigned int nr = (unsigned int)(uintptr_t)arg, k;
	struct rng *rng = &thread[nr].rng;
	unsigned char *buf = malloc(MOST), *expect = malloc(PAGE_SIZE);
	u64 have[OWN] = { 0 }, base = (u64)nr * OWN, v = 0, word;
	struct store *s = &rig.store;

	must(buf && expect);
	for (u64 n = thread[nr].steps; n; n--) {
		u64 slot = rng_below(rng, OWN), first = slot & ~(u64)(units.pages - 1);

		switch (rng_below(rng, 8)) {
		case 0:
		case 1:
			v++;
			for (k = 0; k < units.pages; k++)
				page_of(buf + k * PAGE_SIZE, base + first + k, v);
			if (unit_make(s, base + first, copy_whole, buf, NUMA_NO_NODE,
				      HOST_MAY_WAIT, &word))
				break;
			for (k = 0; k < units.pages; k++) {
				unit_put(s, base + first + k, word);
				have[first + k] = v;
			}
			break;
		case 2:
			page_of(buf, base + slot, ++v);
			must_eq(store_write(s, base + slot, buf, NUMA_NO_NODE), 0);
			have[slot] = v;
			break;
		case 3:
			must_eq(store_free(s, base + slot), 0);
			have[slot] = 0;
			break;
		default:
			must_eq(read_wherever(s, base + slot, buf), 0);
			memset(expect, 0, PAGE_SIZE);
			if (have[slot])
				page_of(expect, base + slot, have[slot]);
			must(!memcmp(buf, expect, PAGE_SIZE));
		}
	}
	free(buf);
	free(expect);
	return NULL;
}

static void *write_back(void *arg)
{
	static unsigned char pages[MOST], packed[PAGE_SIZE];
	const struct recompress_work w = { pages, packed };
	struct recompress_request r;
	struct store *s = &rig.store;
	u64 at, block;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		struct chosen c = { { 0 } };

		mark_all_idle(s);
		for (at = 0; store_choose_piece(s, &at, THREADS * OWN, CHOOSE_IDLE, &c);)
			;
		for (at = 0; at < THREADS * OWN;) {
			if (!store_next_chosen(s, &at, 0, CHOOSE_SIZES - 1))
				continue;
			if (store_reserve_block(s, &block))
				break;
			if (store_copy_out(s, at, pages, is_packed)) {
				backed_unreserve(s->backed, block);
				store_unchoose(s, at);
			} else {
				memcpy(device[block], pages, PAGE_SIZE);
				if (!store_to_backed(s, at, block)) {
					backed_unreserve(s->backed, block);
					store_unchoose(s, at);
				} else {
					moved++;
				}
			}
			at++;
		}
		for (at = 0; store_unchoose_piece(s, &at);)
			;
		recompress_request_init(&r, 1);
		for (at = 0; store_recompress_piece(s, &at, SLOTS, &r, &w) > 0;)
			;
		recompressed += r.done;
	}
	return NULL;
}

CASE(owners_find_what_they_wrote)
{
	static const unsigned int sizes[] = { 2, 4, 16 };
	pthread_t other, back;

	use_seed(47);
	for (unsigned int i = 0; i < ARRAY_LEN(sizes) * 4; i++) {
		const struct store_config cfg = {
			.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
			.slots = SLOTS, .chain = 8, .release_limit = i % 2 ? 1 << 20 : 0,
			.unit_pages = sizes[i / 4],
			.codec[1] = { .ops = &codec_zstd, .level = codec_zstd.default_level },
		};
		struct store *s = rig_make_backed(&cfg, BLOCKS);

		is_packed = i / 2 % 2;
		must_eq(store_set_units(s, &units, sizes[i / 4]), 0);
		over = false;
		must_eq(pthread_create(&other, NULL, disturb, NULL), 0);
		must_eq(pthread_create(&back, NULL, write_back, NULL), 0);
		run_threads(run_own);
		__atomic_store_n(&over, true, __ATOMIC_RELAXED);
		must_eq(pthread_join(other, NULL), 0);
		must_eq(pthread_join(back, NULL), 0);
		rig_close();
	}
	printf("# moved %" PRIu64 ", recompressed %" PRIu64 "\n", moved, recompressed);
}
