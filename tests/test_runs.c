// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_runs.c - pages of the slot table that no block is in are given back, and nobody who puts or
 * reads meanwhile loses anything.
 */
#include "cache_rig.h"
#include "api/ebb_in.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST ((u64)7 * HOST_USER_PART)
#define PAGES 9u
/* The last page is one in part. */
#define NUMBERS (PAGES * HOST_USER_PART + 3 * 64)

enum { FREE, TAKEN, HIDDEN };

static unsigned char is[NUMBERS];
static bool used_since[PAGES + 1];      /* it was given back */

static void becomes(u32 first, u32 n, unsigned char from, unsigned char to)
{
	u64 at = first - FIRST;

	must(first >= FIRST && at + n <= NUMBERS);
	for (u32 k = 0; k < n; k++) {
		must_eq(is[at + k], from);
		is[at + k] = to;
		used_since[(at + k) / HOST_USER_PART] |= to == TAKEN;
	}
}

static bool page_is_idle(u64 page)
{
	for (u64 i = page * HOST_USER_PART; i < NUMBERS && i < (page + 1) * HOST_USER_PART; i++)
		if (is[i] != FREE)
			return false;
	return used_since[page];
}

struct hidden {
	u32 first, n;
};

static void hide_all(struct runs *runs, struct hidden *hidden, unsigned int *n)
{
	struct hidden *h;

	while (h = &hidden[*n], (h->n = runs_hide(runs, &h->first)) != 0) {
		u64 page = (h->first - FIRST) / HOST_USER_PART;

		becomes(h->first, h->n, FREE, HIDDEN);
		must_eq((h->first - FIRST) % HOST_USER_PART, 0);
		for (u64 k = 0; k < h->n; k += HOST_USER_PART, page++) {
			must(used_since[page]);
			used_since[page] = false;
		}
		must(++*n <= PAGES + 1);
	}
	for (u64 page = 0; page <= PAGES; page++)
		must(!page_is_idle(page));
}

CASE(a_hidden_number_is_given_to_nobody)
{
	struct rng r = { use_seed(0x1d1e) };
	static u32 first[NUMBERS / 8];
	static unsigned char length[NUMBERS / 8];
	struct hidden hidden[PAGES + 2];
	unsigned int hides = 0, n, steps = (unsigned int)scaled(200);
	struct runs runs;

	memset(is, 0, sizeof(is));
	memset(used_since, 0, sizeof(used_since));
	memset(length, 0, sizeof(length));
	must_eq(runs_init(&runs, FIRST, NUMBERS), 0);
	for (unsigned int step = 0; step < steps; step++) {
		/* Nearly empty, and then more or less full. */
		u64 most = ARRAY_LEN(first) >> rng_below(&r, 8);

		for (size_t i = 0; i < ARRAY_LEN(first); i++)
			if (length[i] && rng_below(&r, 8)) {
				must_eq(runs_length(&runs, first[i]), length[i]);
				becomes(first[i], length[i], TAKEN, FREE);
				runs_give(&runs, first[i]);
				length[i] = 0;
			}
		must_hold(runs_check(&runs));
		n = 0;
		if (rng_below(&r, 2))
			hide_all(&runs, hidden, &n);
		hides += n;
		for (size_t i = 0; i < most; i++) {
			unsigned int want = 1 + (unsigned int)rng_below(&r, RUNS_LENGTH_MAX);

			if (length[i] || runs_take(&runs, want, &first[i]))
				continue;
			length[i] = (unsigned char)want;
			becomes(first[i], want, FREE, TAKEN);
		}
		while (n--) {
			runs_show(&runs, hidden[n].first, hidden[n].n);
			becomes(hidden[n].first, hidden[n].n, HIDDEN, FREE);
		}
		must_hold(runs_check(&runs));
	}
	must(hides >= steps / 8);
	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		if (length[i])
			runs_give(&runs, first[i]);
	must_hold(runs_check(&runs));
	must_eq(runs.numbers, 0);
	runs_destroy(&runs);
}

CASE(the_lowest_words_are_taken_first)
{
	struct runs runs;
	u32 first;

	must_eq(runs_init(&runs, 0, 64 * 200), 0);
	for (u32 i = 0; i < 64 * 200; i++) {
		must_eq(runs_take(&runs, 1, &first), 0);
		must_eq(first, i);
	}
	must_eq(runs_take(&runs, 1, &first), -ENOSPC);
	/* A word with room goes before an unused one. */
	for (u32 i = 64 * 50; i < 64 * 150; i++)
		runs_give(&runs, i);
	runs_give(&runs, 64 * 170 + 5);
	runs_give(&runs, 64 * 190 + 7);
	must_eq(runs_take(&runs, 1, &first), 0);
	must_eq(first, 64 * 170 + 5);
	must_eq(runs_take(&runs, 1, &first), 0);
	must_eq(first, 64 * 190 + 7);
	must_eq(runs_take(&runs, 20, &first), 0);
	must_eq(first, 64 * 50);
	must_eq(runs_take(&runs, 1, &first), 0);
	must_eq(first, 64 * 51);
	must_hold(runs_check(&runs));
	runs_destroy(&runs);
}

/* ---- tables ---- */

static unsigned int pages_there(const struct host_table *t)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes, i;
	static unsigned char there[HOST_USER_SEGMENT * sizeof(u64) / 4096];
	unsigned int n = 0;
	u64 first;

	for (first = 0; first < t->n; first += HOST_USER_SEGMENT) {
		bytes = (t->n - first < HOST_USER_SEGMENT ? t->n - first : HOST_USER_SEGMENT) *
			sizeof(u64);
		must_eq(mincore(host_table_at(t, first), bytes, there), 0);
		for (i = 0; i < bytes / page; i++)
			n += there[i] & 1;
	}
	return n;
}

#define IN_SEGMENT (HOST_USER_SEGMENT / HOST_USER_PART)

/* Segments that are whole with large pages: a small one has no memory of its own, and is kept. */
#define PARTS 112u

CASE(what_a_table_forgets_is_not_there)
{
	struct host_table t;
	u64 n = PARTS * HOST_USER_PART, i, bytes;

	must_eq(host_table_init(&t, n), 0);
	bytes = host_table_bytes(&t);
	must_eq(host_table_skip(&t, 5), IN_SEGMENT * HOST_USER_PART - 5);
	must_eq(host_a64_read(host_table_at(&t, n - 1)), 0);
	for (i = 0; i < n; i++) {
		must(host_table_has(&t, i));
		host_a64_set(host_table_at(&t, i), i + 1);
	}
	must_eq(host_table_bytes(&t), bytes + PARTS * PAGE_SIZE);
	must(host_table_forget(&t, 10 * HOST_USER_PART, 75 * HOST_USER_PART));
	must_eq(host_table_bytes(&t), bytes + (PARTS - 75) * PAGE_SIZE);
	for (i = 0; i < n; i++) {
		u64 part = i / HOST_USER_PART, skip = host_table_skip(&t, i);

		/* A look goes at most as far as a segment does. */
		u64 end = (part / IN_SEGMENT + 1) * IN_SEGMENT;

		if (part < 10 || part >= 85)
			must_eq(skip, 0);
		else
			must_eq(skip, (end < 85 ? end : 85) * HOST_USER_PART - i);
	}
	must_eq(pages_there(&t), (PARTS - 75) * PAGE_SIZE / (size_t)sysconf(_SC_PAGESIZE));
	for (i = 0; i < n; i++) {
		u64 part = i / HOST_USER_PART;

		must_eq(host_a64_read(host_table_at(&t, i)), part < 10 || part >= 85 ? i + 1 : 0);
	}
	must(host_table_has(&t, 20 * HOST_USER_PART));
	must_eq(host_table_bytes(&t), bytes + (PARTS - 74) * PAGE_SIZE);
	must(host_table_forget(&t, 0, n));
	must_eq(host_table_bytes(&t), bytes);
	host_table_destroy(&t);
}

/* ---- blocks ---- */

#define SLOTS (40 * HOST_USER_PART)

static struct ebb_store *store;
static struct blocks blocks;

static void open_blocks(void)
{
	struct blocks_config bc = { .count = SLOTS, .level = EBB_LEVEL_DEFAULT };
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = SLOTS;
	cfg.release_limit = 0;
	must_eq(ebb_open(&store, &cfg), 0);
	bc.store = store;
	must_eq(blocks_init(&blocks, &bc), 0);
}

static void close_blocks(void)
{
	must_hold(blocks_check(&blocks));
	blocks_destroy(&blocks);
	ebb_close(store);
}

static u64 meta_bytes(void)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_stat(store, &stat), 0);
	return stat.meta_bytes;
}

static bool any_is_idle(void)
{
	struct runs *r = &blocks.runs;
	bool any;

	spin_lock(&r->lock);
	any = runs_level(r, r->levels - 1, 0)[RUNS_IDLE] != 0;
	spin_unlock(&r->lock);
	return any;
}

static block_ref put_small(struct scratch *s)
{
	block_ref ref;

	s->packed[0] = 'x';
	must_eq(block_put(&blocks, s, 1, 1, &ref), 0);
	return ref;
}

static block_ref *fill_slots(struct scratch *s)
{
	block_ref *ref = calloc(SLOTS, sizeof(*ref));

	for (u64 i = 0; i < SLOTS; i++)
		ref[i] = put_small(s);
	return ref;
}

CASE(the_table_of_freed_blocks_is_given_back)
{
	struct scratch *s;
	block_ref *ref;
	unsigned char byte;
	u64 i, full;
	size_t n;

	open_blocks();
	s = scratch_get(&blocks);
	ref = fill_slots(s);
	full = meta_bytes();
	/* One is left: its page stays. */
	for (i = 0; i < SLOTS; i++)
		if (i != 3 * HOST_USER_PART)
			block_free(&blocks, ref[i]);
	must_eq(ebb_trim(store, NULL), 0);
	must_be_at_most(meta_bytes(), full - 39 * PAGE_SIZE);
	for (i = 0; i < SLOTS; i++)
		must_eq(block_get(&blocks, s, ref[i], &byte, 1, &n),
			i == 3 * HOST_USER_PART ? 0 : -ESTALE);
	block_free(&blocks, ref[3 * HOST_USER_PART]);
	/* The last one goes without a call, and none is given back twice. */
	must_become(!any_is_idle());
	must(!blocks_give_table(&blocks, 0));
	must_be_at_most(meta_bytes(), full - 40 * PAGE_SIZE);
	free(ref);
	ref = fill_slots(s);
	must_eq(meta_bytes(), full);
	for (i = 0; i < SLOTS; i++)
		must_eq(block_get(&blocks, s, ref[i], &byte, 1, &n), 0);
	for (i = 0; i < SLOTS; i++)
		block_free(&blocks, ref[i]);
	free(ref);
	scratch_put(&blocks, s);
	close_blocks();
}

static int late_err = 1;

static void *put_late(void *arg)
{
	struct scratch *s = scratch_get(&blocks);
	block_ref ref;
	int err = block_put(&blocks, s, 1, 1, &ref);

	if (!err)
		block_free(&blocks, ref);
	scratch_put(&blocks, s);
	__atomic_store_n(&late_err, err, __ATOMIC_RELEASE);
	return arg;
}

/* In place of the C library's: all is idle and hidden, so now there is nothing to be had. */
static __thread struct runs *look_at;
static unsigned int looks, seen_free;

int madvise(void *p, size_t bytes, int advice)
{
	u32 first;

	if (advice == MADV_DONTNEED && look_at) {
		looks++;
		seen_free += runs_take(look_at, 1, &first) != -ENOSPC;
	}
	return (int)syscall(SYS_madvise, p, bytes, advice);
}

CASE(nothing_is_taken_while_it_is_given_back)
{
	struct scratch *s;
	block_ref *ref;
	u64 i;

	open_blocks();
	s = scratch_get(&blocks);
	ref = fill_slots(s);
	/* Nobody else gives. */
	ebb_give_also(store, NULL, NULL);
	for (i = 0; i < SLOTS; i++)
		block_free(&blocks, ref[i]);
	look_at = &blocks.runs;
	must(!blocks_give_table(&blocks, UINT64_MAX));
	look_at = NULL;
	/* A call for each segment of the slot table. */
	must_eq(looks, (SLOTS + HOST_USER_SEGMENT - 1) / HOST_USER_SEGMENT);
	must_eq(seen_free, 0);
	free(ref);
	scratch_put(&blocks, s);
	close_blocks();
}

CASE(who_finds_all_numbers_hidden_waits)
{
	struct hidden hidden[8] = { { 0 } };
	struct scratch *s;
	pthread_t thread;
	block_ref *ref;
	unsigned int n = 0;
	u64 i;

	open_blocks();
	s = scratch_get(&blocks);
	ref = fill_slots(s);
	mutex_lock(&blocks.giving);
	for (i = 0; i < SLOTS; i++)
		block_free(&blocks, ref[i]);
	while ((hidden[n].n = runs_hide(&blocks.runs, &hidden[n].first)))
		must(++n < ARRAY_LEN(hidden));
	must(n > 0);
	must_eq(pthread_create(&thread, NULL, put_late, NULL), 0);
	for (i = 0; i < 20; i++) {
		must_eq(__atomic_load_n(&late_err, __ATOMIC_ACQUIRE), 1);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	while (n--)
		runs_show(&blocks.runs, hidden[n].first, hidden[n].n);
	mutex_unlock(&blocks.giving);
	must_eq(pthread_join(thread, NULL), 0);
	must_eq(late_err, 0);
	free(ref);
	scratch_put(&blocks, s);
	close_blocks();
}

/* Threads put, read and free; one reads what others have, and one gives back all the time. */
#define CHANGERS 3u
#define MINE 1000u
#define PHASE 4000u                     /* changes of each thread, then all free what they have */
#define LENGTH_MOST 9000u

static host_a64 of_all[CHANGERS][MINE];
static pthread_barrier_t barrier;
static u32 wrong_at, stop;

static void found(u32 line)
{
	__atomic_store_n(&wrong_at, line, __ATOMIC_RELAXED);
}

/* Bytes that the first of them say. */
static void fill_block(unsigned char *p, size_t n, u32 seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i < sizeof(seed) ? seed >> 8 * i :
					seed * (i / 4 % 3) + seed / 7 * (i % 4));
}

/* A block that may be freed meanwhile, unless it is the caller's own. */
static void read_block(struct scratch *s, block_ref ref, bool own)
{
	static __thread unsigned char got[LENGTH_MOST], want[LENGTH_MOST];
	u32 seed;
	size_t n;
	int err = block_get(&blocks, s, ref, got, sizeof(got), &n);

	if (err) {
		if (own || err != -ESTALE)
			found(__LINE__);
		return;
	}
	memcpy(&seed, got, sizeof(seed));
	fill_block(want, n, seed);
	if (memcmp(got, want, n))
		found(__LINE__);
}

static void free_mine(struct scratch *s, uintptr_t me)
{
	for (unsigned int i = 0; i < MINE; i++) {
		block_ref ref = host_a64_xchg(&of_all[me][i], 0);

		if (ref) {
			read_block(s, ref, true);
			block_free(&blocks, ref);
		}
	}
}

static void *change(void *arg)
{
	static __thread unsigned char data[LENGTH_MOST];
	uintptr_t me = (uintptr_t)arg;
	struct rng r = { me + 1 };
	struct scratch *s = scratch_get(&blocks);
	unsigned long phases = 2 + scaled(20);

	for (unsigned long step = 0; step < phases * PHASE; step++) {
		host_a64 *at = &of_all[me][rng_below(&r, MINE)];
		block_ref ref = host_a64_read(at);

		if (step % PHASE == 0) {
			free_mine(s, me);
			pthread_barrier_wait(&barrier);
			ref = 0;
		}
		if (ref) {
			read_block(s, ref, true);
			host_a64_set(at, 0);
			block_free(&blocks, ref);
		}
		if (rng_below(&r, 3)) {
			size_t n = 4 + rng_below(&r, rng_below(&r, 4) ? 100 : LENGTH_MOST - 4);
			int packed;

			fill_block(data, n, (u32)rng_next(&r));
			packed = block_pack(&blocks, s, data, n);
			if (packed <= 0 || block_put(&blocks, s, (size_t)packed, n, &ref))
				found(__LINE__);
			else
				host_a64_set_release(at, ref);
		}
	}
	free_mine(s, me);
	scratch_put(&blocks, s);
	return NULL;
}

static void *read_others(void *arg)
{
	struct scratch *s = scratch_get(&blocks);
	struct rng r = { 99 };

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		block_ref ref = host_a64_read_acquire(&of_all[rng_below(&r, CHANGERS)]
							     [rng_below(&r, MINE)]);

		if (ref)
			read_block(s, ref, false);
	}
	scratch_put(&blocks, s);
	return arg;
}

static void *give(void *arg)
{
	u64 *given = arg;
	unsigned int i;

	for (i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		u32 first, n;

		if (i % 8) {
			*given += any_is_idle();
			blocks_give_table(&blocks, UINT64_MAX);
			continue;
		}
		/* The same, with a pause in which others go on. */
		mutex_lock(&blocks.giving);
		n = runs_hide(&blocks.runs, &first);
		if (n) {
			sched_yield();
			*given += ebb_forget_slots(store, first, n);
			runs_show(&blocks.runs, first, n);
		}
		mutex_unlock(&blocks.giving);
		sched_yield();
	}
	return NULL;
}

/* Threads that put and free, one that reads, and one that gives back; how much that was. */
static u64 play(void)
{
	pthread_t thread[CHANGERS], reader, giver;
	u64 given = 0;

	wrong_at = stop = 0;
	memset(of_all, 0, sizeof(of_all));
	pthread_barrier_init(&barrier, NULL, CHANGERS);
	must_eq(pthread_create(&reader, NULL, read_others, NULL), 0);
	must_eq(pthread_create(&giver, NULL, give, &given), 0);
	for (uintptr_t i = 0; i < CHANGERS; i++)
		must_eq(pthread_create(&thread[i], NULL, change, (void *)i), 0);
	for (unsigned int i = 0; i < CHANGERS; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(reader, NULL);
	pthread_join(giver, NULL);
	pthread_barrier_destroy(&barrier);
	must_eq(wrong_at, 0);
	return given;
}

CASE(puts_and_reads_go_on_while_pages_are_given_back)
{
	u64 given = 0;

	open_blocks();
	/* On a busy machine the giver may not have come to anything while the others played. */
	for (unsigned int i = 0; i < 10 && !given; i++)
		given = play();
	must(given > 0 || scaled(100) < 50);
	must_eq(blocks.runs.numbers, 0);
	must_eq(ebb_check(store, NULL, 0), 0);
	close_blocks();
}

/* Values of at most 19 bytes, one for each 128 bytes of the capacity. */
static void put_tiny_ones(struct ebb_cache *c, u64 capacity)
{
	static unsigned char data[1 << 20];
	u64 k;

	fill(data, sizeof(data), 0);
	for (k = 0; k < capacity / 128; k++)
		must_eq(put(c, k, data + k * 3 % 1000000, k % 20, 0), 0);
}

/* Tables of what was there do not stand in the way of what comes, nor do they take it along. */
CASE(tables_become_smaller_with_the_capacity)
{
	const u64 capacity = scaled(100) < 100 ? 24 * MIB : 64 * MIB;
	struct ebb_cache *c = open_cache(capacity, NULL);
	struct ebb_cache_stat empty = stat_of(c), st;

	put_tiny_ones(c, capacity);
	must(stat_of(c).meta_bytes > empty.meta_bytes + capacity / 64);
	must_eq(ebb_cache_set_capacity(c, 0), 0);
	st = stat_of(c);
	must_eq(st.values, 0);
	must_be_at_most(st.meta_bytes, empty.meta_bytes + capacity / 96);
	must_eq(ebb_cache_set_capacity(c, capacity), 0);
	put_tiny_ones(c, capacity);
	must_eq(ebb_cache_set_capacity(c, EBB_CACHE_CAPACITY_MIN), 0);
	st = stat_of(c);
	must(st.values > 10000);
	must_be_at_most(st.used_bytes, EBB_CACHE_CAPACITY_MIN);
}
