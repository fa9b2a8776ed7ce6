// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unit.c - pages that are compressed together: what slots name, who lets go of it, what dies.
 */
#include "unit_rig.h"

#include <pthread.h>

/* ---- one at a time ---- */

static void a_unit_is_read_by_pages_and_ends_with_its_last(void **state)
{
	static const unsigned int sizes[] = { 2, 4, 8, 16 };
	const struct codec_ops *codecs[] = { &codec_lz4, &codec_zstd };

	for (unsigned int c = 0; c < ARRAY_LEN(codecs); c++)
		for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++)
			for (u64 limit = 0; limit <= 1 << 20; limit += 1 << 20) {
				struct store *s = open_units(codecs[c], sizes[i], limit, 0);
				unsigned int n = sizes[i], k;

				must_eq(put_unit(s, 0, 4), 0);
				must_eq(put_unit(s, n, 2), 0);
				must_have_all(s);
				must_eq(stats(s).units, 2);
				must_eq(stats(s).pages, 2 * n);
				must_eq(stats(s).dead, 0);
				must_eq(store_count(s, CNT_ORIG_BYTES), 2 * n * PAGE_SIZE);
				must(store_count(s, CNT_COMPR_BYTES) < 2 * n * PAGE_SIZE);
				must_hold(store_check(s));
				for (k = 0; k < n - 1; k++)
					drop(s, k);
				must_have_all(s);
				must_eq(stats(s).units, 2);
				must_eq(stats(s).dead, n - 1);
				must_hold(store_check(s));
				drop(s, n - 1);
				must_eq(stats(s).units, 1);
				must_eq(stats(s).dead, 0);
				must_have_all(s);
				for (k = n; k < 2 * n; k++)
					drop(s, k);
				release_flush(&s->release);
				must_eq(pool_pages(&s->pool), 0);
				must_eq(stats(s).room, 0);
				close_units();
			}
}

static void a_write_takes_the_place_of_pages_and_pages_of_a_unit(void **state)
{
	struct store *s = open_units(&codec_lz4, 4, 1 << 20, 0);

	put_page(s, 4, 1);
	put_page(s, 6, 3);
	must_eq(put_unit(s, 4, 5), 0);
	must_have_all(s);
	put_page(s, 5, 9);
	must_have_all(s);
	must_eq(stats(s).dead, 1);
	must_eq(put_unit(s, 4, 6), 0);
	must_have_all(s);
	must_eq(stats(s).units, 1);
	must_eq(put_unit(s, 4, 8), 0);
	must_eq(put_unit(s, 0, 8), 0);
	must_have_all(s);
	must_eq(stats(s).units, 2);
	must_eq(stats(s).pages, 8);
	close_units();
}

static void what_does_not_compress_together_is_refused_and_changes_nothing(void **state)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);

	must_eq(put_unit(s, 8, 1), 0);
	must_eq(put_unit(s, 8, 3), -EAGAIN);
	must_have_all(s);
	must_eq(stats(s).units, 1);
	close_units();
}

static void a_disk_that_ends_within_a_unit_has_none_there(void **state)
{
	const struct store_config cfg = {
		.slots = 6, .codec = &codec_lz4, .level = codec_lz4.default_level, .chain = 4,
		.unit_pages = 4,
	};
	struct store *s = rig_make(&cfg);

	must_eq(store_set_units(s, &units, 4), 0);
	must_eq(put_unit(s, 0, 1), 0);
	must_eq(put_unit(s, 4, 1), -EAGAIN);
	close_units();
}

/* Keeps others from stream i, or from all but that. */
__no_context_analysis
static void lock_streams(struct streams *t, unsigned int i, bool one)
{
	for (unsigned int k = 0; k < t->n; k++)
		if ((k == i) == one)
			mutex_lock(&t->stream[k].lock);
}

__no_context_analysis
static void unlock_streams(struct streams *t, unsigned int i, bool one)
{
	for (unsigned int k = 0; k < t->n; k++)
		if ((k == i) == one)
			mutex_unlock(&t->stream[k].lock);
}

/*
 * What a stream unpacked before is not what the same word means now: the words of a unit are used
 * again, and say the same, as if as many units as there are tags had been made meanwhile.
 */
static void a_tag_that_comes_again_is_another_unit(void **state)
{
	struct store *s = open_units(&codec_lz4, 2, 0, 0);
	u64 first, tag, inst, tags = 1 << 14;
	struct streams *t = s->streams[0];
	unsigned int again = 0, had = 0;
	host_a64 *word;

	must_eq(put_unit(s, 0, 4), 0);
	must_have(s, 0);
	first = host_a64_read(store_slot(s, 0)) & SLOT_VALUE;
	word = store_slot(s, units.first + 2 * (first & 0x7fffffff));
	tag = first >> 31;
	while (t->stream[had].unit_is != first + 1)
		must(++had < t->n);
	/* Others write; where there is but one stream, what it has goes with the write. */
	for (u64 v = 8; v < 1000; v += 4) {
		drop(s, 0);
		drop(s, 1);
		inst = host_a64_read(word) & ~((tags - 1) << 19);
		host_a64_set(word, inst | ((tag - 1) & (tags - 1)) << 19);
		host_a64_add(&units.made, tags);
		lock_streams(t, had, t->n > 1);
		must_eq(put_unit(s, 0, v), 0);
		unlock_streams(t, had, t->n > 1);
		if ((host_a64_read(store_slot(s, 0)) & SLOT_VALUE) != first)
			continue;
		again++;
		lock_streams(t, had, false);
		must_have(s, 0);
		unlock_streams(t, had, false);
		/* The first one is in its way no more. */
		break;
	}
	must(again > 0);
	must_have(s, 1);
	close_units();
}

static void pages_of_one_word_take_no_memory(void **state)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 word;

	memset(whole, 0, sizeof(whole));
	must_eq(unit_make(s, 0, copy_whole, whole, NUMA_NO_NODE, 0, &word), -EAGAIN);
	page_of(whole, 0, 4);
	must_eq(unit_make(s, 0, copy_whole, whole, NUMA_NO_NODE, 0, &word), -EAGAIN);
	must_eq(pool_pages(&s->pool), 0);
	close_units();
}

static void scribble(void *arg, void *to)
{
	memcpy(to, arg, (size_t)units.pages * PAGE_SIZE);
	/* Who writes goes on with the memory. */
	memset(arg, 0x5a, PAGE_SIZE);
}

static void a_page_that_changes_spoils_no_other(void **state)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	u64 word;

	/* So that there is a page at hand, and one look at the memory is enough. */
	must_eq(put_unit(s, 4, 4), 0);
	for (unsigned int k = 0; k < 4; k++)
		page_of(whole + k * PAGE_SIZE, k, 4);
	must_eq(unit_make(s, 0, scribble, whole, NUMA_NO_NODE, 0, &word), 0);
	for (unsigned int k = 0; k < 4; k++) {
		unit_put(s, k, word);
		version[k] = 4;
	}
	must_have_all(s);
	close_units();
}

static void a_small_disk_goes_on_making_units(void **state)
{
	const struct store_config cfg = {
		.slots = 128, .codec = &codec_lz4, .level = codec_lz4.default_level, .chain = 4,
		.unit_pages = 16,
	};
	struct store *s = rig_make(&cfg);

	must_eq(store_set_units(s, &units, 16), 0);
	for (unsigned int n = 0; n < 1000; n++)
		must_eq(put_unit(s, n % 8 * 16, 4), 0);
	close_units();
}

/* Keys have 32 bits: a disk that needs nearly all of them has no units, or few. */
static void the_largest_disks_have_what_numbers_are_left(void **state)
{
	static const u64 sizes[] = { 0xffffffff, 0xfffffff1, 0xffffff00, 0x55555555 };

	for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++) {
		const struct store_config cfg = {
			.slots = sizes[i], .codec = &codec_lz4, .level = codec_lz4.default_level,
			.chain = 4, .unit_pages = 16,
		};
		struct store *s = rig_make(&cfg);
		int err;

		must_eq(store_set_units(s, &units, 16), 0);
		must_be_at_most(s->words, 0xffffffff);
		err = put_unit(s, 0, 4);
		must_eq(err, units.most ? 0 : -ENOSPC);
		must_hold(store_check(s));
		if (!err)
			must_have(s, 3);
		close_units();
	}
}

static void compaction_moves_pieces(void **state)
{
	struct store *s = open_units(&codec_zstd, 8, 0, 0);
	u64 was;

	for (u64 i = 0; i < SLOTS; i += 8)
		must_eq(put_unit(s, i, 4 + i), 0);
	for (u64 i = 0; i < SLOTS; i++)
		if (i / 8 % 4)
			drop(s, i);
	was = pool_pages(&s->pool);
	must(store_compact(s) > 0);
	must(pool_pages(&s->pool) < was);
	must_have_all(s);
	must_hold(store_check(s));
	close_units();
}

static void marks_and_writeback_take_pages_of_units(void **state)
{
	struct store *s = open_units_backed(1 << 20);
	struct chosen c = { { 0 } };
	u64 at = 0, block;
	int size;

	must_eq(put_unit(s, 0, 4), 0);
	must_eq(put_unit(s, 4, 2), 0);
	while (store_mark_idle(s, &at, SLOTS, NULL, 0))
		;
	must(host_a64_read(store_slot(s, 1)) & SLOT_IDLE);
	must_have(s, 1);
	must(!(host_a64_read(store_slot(s, 1)) & SLOT_IDLE));
	must_hold(tier_check(s));
	at = 0;
	while (store_choose_piece(s, &at, SLOTS, CHOOSE_IDLE, &c))
		;
	for (at = 0, size = 0; size < CHOOSE_SIZES; size++)
		at += c.n[size];
	must_eq(at, 7);
	/* Slot 2 is read meanwhile, and stays. */
	must_have(s, 2);
	must_eq(store_copy_out(s, 2, got, false), -ENOENT);
	for (u64 i = 0; i < 8; i++) {
		if (i == 1 || i == 2)
			continue;
		must_eq(store_copy_out(s, i, got, i % 2), 0);
		page_of(want, i, version[i]);
		must(!memcmp(got, want, PAGE_SIZE));
		must_eq(store_reserve_block(s, &block), 0);
		must(store_to_backed(s, i, block));
		must_eq(store_read(s, i, got), STORE_BACKED);
	}
	must_eq(stats(s).units, 1);
	must_eq(stats(s).pages, 2);
	must_have(s, 1);
	must_have(s, 2);
	must_hold(tier_check(s));
	close_units();
}

/* ---- waste ---- */

static void who_keeps_one_page_of_each_unit_keeps_no_more_than_that(void **state)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 was;

	for (u64 i = 0; i < SLOTS; i += 16)
		must_eq(put_unit(s, i, 4 + i), 0);
	must_eq(units_tidy(s), 0);
	was = pool_pages(&s->pool);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 16 != 7)
			drop(s, i);
	must_eq(pool_pages(&s->pool), was);
	must_eq(stats(s).dead, SLOTS / 16 * 15);
	tidy(s);
	must_have_all(s);
	must_hold(store_check(s));
	must_be_at_most(pool_pages(&s->pool), was / 4);
	close_units();
}

static void units_with_few_live_pages_are_taken_apart_first(void **state)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	unsigned int k;

	for (u64 i = 0; i < SLOTS; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	/* A quarter of the units have one page left, and a quarter three. */
	for (u64 i = 0; i < SLOTS; i += 16) {
		for (k = 0; k < 3; k++)
			drop(s, i + k);
		drop(s, i + 4);
	}
	tidy(s);
	must_have_all(s);
	for (u64 i = 0; i < SLOTS; i += 16)
		must_eq(slot_type(host_a64_read(store_slot(s, i + 5))), SLOT_UNIT);
	close_units();
}

/* However many pages of each unit died. */
static void waste_ends_at_an_eighth(void **state)
{
	static const unsigned int sizes[] = { 2, 4, 8, 16 };

	for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++)
		for (unsigned int dead = 1; dead < sizes[i]; dead++) {
			struct store *s = open_units(&codec_lz4, sizes[i], 0, 0);
			struct unit_stats st;

			for (u64 k = 0; k < SLOTS; k += sizes[i])
				must_eq(put_unit(s, k, 4), 0);
			for (u64 k = 0; k < SLOTS; k++)
				if (k % sizes[i] < dead)
					drop(s, k);
			tidy(s);
			st = stats(s);
			must_be_at_most(st.room * st.dead / (st.pages + st.dead + 1),
					store_count(s, CNT_ROOM) / 8);
			must_have_all(s);
			close_units();
		}
}

static void at_the_limit_waste_comes_back(void **state)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 64 * PAGE_SIZE);
	int err = 0;
	u64 i;

	for (i = 0; i < SLOTS && !err; i += 16)
		err = put_unit(s, i, 2);
	must_eq(err, -EDQUOT);
	for (i = 0; i < SLOTS; i++)
		if (i % 16 != 7)
			drop(s, i);
	tidy(s);
	must_be_at_most(pool_pages(&s->pool), 32);
	put_page(s, 1000, 3);
	must_have_all(s);
	close_units();
}

static void taking_apart_that_finds_no_memory_changes_nothing(void **state)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);

	for (u64 i = 0; i < SLOTS; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4)
			drop(s, i);
	pcp_drain(&rig.source.pcp);
	host_user_fail = always;
	units_tidy(s);
	host_user_fail = NULL;
	must_have_all(s);
	must_hold(store_check(s));
	tidy(s);
	must_have_all(s);
	close_units();
}

/* What others do while a page that is taken out is compressed. */
static void (*meanwhile)(struct store *s);
static struct codec_ops watched;

static int watched_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	void (*now)(struct store *s) = n == PAGE_SIZE ? meanwhile : NULL;
	unsigned char page[PAGE_SIZE];

	if (now) {
		meanwhile = NULL;
		memcpy(page, src, n);
		now(&rig.store);
		src = page;
	}
	return codec_lz4.compress(ctx, src, n, dst, cap);
}

static void write_again(struct store *s)
{
	/* Of another stream: this one is at work. */
	must_eq(put_unit(s, 0, 8), 0);
}

static void write_page_again(struct store *s)
{
	u64 word = slot_make(SLOT_FILL, 0);

	store_put_word(s, store_slot(s, 0), word);
	version[0] = 0;
}

static void a_write_that_comes_first_wins(void **state)
{
	void (*others[])(struct store *) = { write_again, write_page_again };

	for (unsigned int i = 0; i < ARRAY_LEN(others); i++) {
		struct store *s;

		watched = codec_lz4;
		watched.compress = watched_compress;
		s = open_units(&watched, 2, 0, 0);
		must_eq(put_unit(s, 0, 4), 0);
		drop(s, 1);
		if (s->streams[0]->n < 2 && !i) {
			close_units();
			continue;
		}
		meanwhile = others[i];
		units_tidy(s);
		must(!meanwhile);
		must_have(s, 0);
		must_hold(store_check(s));
		close_units();
	}
}

static void what_is_taken_out_is_chosen_no_more(void **state)
{
	struct store *s = open_units_backed(0);
	struct chosen c = { { 0 } };
	u64 at = 0, block;

	for (u64 i = 0; i < 64; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	for (u64 i = 0; i < 64; i++)
		if (i % 4)
			drop(s, i);
	while (store_choose_piece(s, &at, SLOTS, 0, &c))
		;
	must_eq(store_reserve_block(s, &block), 0);
	/* It is written as it was before it was compressed, and then taken out. */
	must_eq(store_copy_out(s, 0, got, true), 0);
	tidy(s);
	must_eq(slot_type(host_a64_read(store_slot(s, 0))), SLOT_PAGE);
	must(!store_to_backed(s, 0, block));
	backed_unreserve(s->backed, block);
	must_have(s, 0);
	close_units();
}

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
	unsigned int nr = (unsigned int)(uintptr_t)arg;
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
	u64 at;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		units_tidy(s);
		store_compact(s);
		for (at = 0; store_mark_idle(s, &at, SLOTS, NULL, 0);)
			;
	}
	return NULL;
}

static void threads_see_whole_pages_of_their_slots(void **state)
{
	static const unsigned int sizes[] = { 2, 4, 16 };
	pthread_t other;

	use_seed(41);
	for (unsigned int i = 0; i < ARRAY_LEN(sizes) * 2; i++) {
		struct store *s = open_units(&codec_lz4, sizes[i / 2], i % 2 ? 1 << 20 : 0, 0);

		over = false;
		must_eq(pthread_create(&other, NULL, disturb, NULL), 0);
		for (uintptr_t t = 0; t < THREADS; t++) {
			thread[t].rng.s = test_seed * THREADS + t;
			thread[t].steps = scaled(8000);
			must_eq(pthread_create(&thread[t].id, NULL, run, (void *)t), 0);
		}
		for (unsigned int t = 0; t < THREADS; t++)
			must_eq(pthread_join(thread[t].id, NULL), 0);
		__atomic_store_n(&over, true, __ATOMIC_RELAXED);
		must_eq(pthread_join(other, NULL), 0);
		for (u64 slot = 0; slot < BUSY; slot++) {
			must_eq(store_read(s, slot, got), 0);
			must_be_whole(got, slot);
		}
		close_units();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_unit_is_read_by_pages_and_ends_with_its_last),
		cmocka_unit_test(a_write_takes_the_place_of_pages_and_pages_of_a_unit),
		cmocka_unit_test(what_does_not_compress_together_is_refused_and_changes_nothing),
		cmocka_unit_test(a_disk_that_ends_within_a_unit_has_none_there),
		cmocka_unit_test(a_tag_that_comes_again_is_another_unit),
		cmocka_unit_test(pages_of_one_word_take_no_memory),
		cmocka_unit_test(a_page_that_changes_spoils_no_other),
		cmocka_unit_test(a_small_disk_goes_on_making_units),
		cmocka_unit_test(the_largest_disks_have_what_numbers_are_left),
		cmocka_unit_test(compaction_moves_pieces),
		cmocka_unit_test(marks_and_writeback_take_pages_of_units),
		cmocka_unit_test(who_keeps_one_page_of_each_unit_keeps_no_more_than_that),
		cmocka_unit_test(units_with_few_live_pages_are_taken_apart_first),
		cmocka_unit_test(waste_ends_at_an_eighth),
		cmocka_unit_test(at_the_limit_waste_comes_back),
		cmocka_unit_test(taking_apart_that_finds_no_memory_changes_nothing),
		cmocka_unit_test(a_write_that_comes_first_wins),
		cmocka_unit_test(what_is_taken_out_is_chosen_no_more),
		cmocka_unit_test(threads_see_whole_pages_of_their_slots),
	};

	return cmocka_run_group_tests_name("unit", tests, NULL, NULL);
}
