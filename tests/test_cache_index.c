// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_cache_index.c - the table and the policy of a cache, without values. */
#include "support.h"
#include "kv/cache_index.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST (1u << 20)

static u64 hash_of(u64 key)
{
	struct rng r = { key };

	return rng_next(&r);
}

static void is_sound(struct cache_index *x)
{
	const char *what = cache_index_check(x);

	if (what)
		must_failed(__FILE__, __LINE__, what, 0, 1);
}

/* ---- the table ---- */

#define KEYS 3000u

CASE(random_changes_agree_with_an_array)
{
	static struct { u64 ref; u32 bytes; } want[KEYS];
	struct rng r = { use_seed(11) };
	struct cache_index x;
	struct cache_seen seen;
	unsigned long i, steps = scaled(400000);
	u64 ref = 0;
	u32 n = 0, k;

	memset(want, 0, sizeof(want));
	must_eq(cache_index_init(&x, MOST, true), 0);
	for (i = 0; i < steps; i++) {
		u32 e, bytes = (u32)rng_below(&r, 5000);
		/* It fills up, and empties again. */
		bool fill = i / (steps / 6 + 1) % 2 == 0;

		k = (u32)rng_below(&r, KEYS);
		e = cache_index_find(&x, hash_of(k));
		must_eq(!e, !want[k].ref);
		if (rng_below(&r, 4) == 0) {
			must_eq(cache_index_look(&x, hash_of(k), &seen), e ? 0 : -ENOENT);
			if (e) {
				must_eq(seen.ref, want[k].ref);
				must_eq(cache_mark_bytes(seen.mark), want[k].bytes);
				cache_index_hit(&x, &seen);
			}
		} else if (!e && fill) {
			ref++;
			must_eq(cache_index_add(&x, hash_of(k), ref, bytes,
						ref % 3 ? CACHE_SMALL : CACHE_MAIN), 0);
			want[k].ref = ref;
			want[k].bytes = bytes;
			n++;
		} else if (e && fill) {
			cache_index_replace(&x, e - 1, ++ref, bytes);
			want[k].ref = ref;
			want[k].bytes = bytes;
		} else if (e) {
			cache_index_remove(&x, e - 1);
			want[k].ref = 0;
			n--;
		}
		must_eq(x.entries, n);
		if (i % 1024 == 0)
			is_sound(&x);
	}
	is_sound(&x);
	for (k = 0; k < KEYS; k++)
		must_eq(cache_index_look(&x, hash_of(k), &seen), want[k].ref ? 0 : -ENOENT);
	cache_index_destroy(&x);
}

CASE(memory_follows_what_is_there)
{
	struct cache_index x;
	u32 i, many = 200000;

	must_eq(cache_index_init(&x, MOST, true), 0);
	for (i = 0; i < many; i++)
		must_eq(cache_index_add(&x, hash_of(i), i + 1, 1, CACHE_SMALL), 0);
	must(cache_index_bytes(&x) >= many * 36u);
	must_be_at_most(cache_index_bytes(&x), many * 48);
	for (i = 1000; i < many; i++)
		cache_index_remove(&x, cache_index_find(&x, hash_of(i)) - 1);
	must_be_at_most(cache_index_bytes(&x), 1000 * 48 + 3 * (16 << 10));
	is_sound(&x);
	for (i = 0; i < 1000; i++)
		must_eq(cache_index_entry(&x, cache_index_find(&x, hash_of(i)) - 1)->ref, i + 1);
	for (i = 0; i < 1000; i++)
		cache_index_remove(&x, cache_index_find(&x, hash_of(i)) - 1);
	must_eq(x.entries, 0);
	is_sound(&x);
	cache_index_destroy(&x);
}

CASE(a_full_table_says_so)
{
	struct cache_index x;
	u32 i;

	must_eq(cache_index_init(&x, CACHE_INDEX_LEAST, true), 0);
	for (i = 0; i < CACHE_INDEX_LEAST; i++)
		must_eq(cache_index_add(&x, hash_of(i), i + 1, 1, CACHE_SMALL), 0);
	must_eq(cache_index_add(&x, hash_of(i), i + 1, 1, CACHE_SMALL), -ENOSPC);
	is_sound(&x);
	cache_index_destroy(&x);
}

/* ---- who looks without the lock ---- */

static struct cache_index shared;
static bool stop;

static void *look_all_the_time(void *arg)
{
	struct rng r = { (uintptr_t)arg };
	struct cache_seen seen;
	uintptr_t wrong = 0;

	while (!READ_ONCE(stop)) {
		u64 k = rng_below(&r, KEYS);
		int err = cache_index_look(&shared, hash_of(k), &seen);

		/* Odd keys stay; a reference says its key. */
		wrong += err == -ENOENT && k % 2;
		wrong += !err && seen.ref % KEYS != k;
		if (!err)
			cache_index_hit(&shared, &seen);
	}
	return (void *)wrong;
}

CASE(a_look_finds_what_is_there_while_others_move)
{
	struct rng r = { use_seed(12) };
	pthread_t thread[2];
	unsigned long i;
	void *wrong;
	u64 k;

	WRITE_ONCE(stop, false);
	must_eq(cache_index_init(&shared, MOST, true), 0);
	for (k = 0; k < KEYS; k++)
		must_eq(cache_index_add(&shared, hash_of(k), KEYS + k, 1, CACHE_SMALL), 0);
	for (i = 0; i < 2; i++)
		must_eq(pthread_create(&thread[i], NULL, look_all_the_time, (void *)(i + 1)), 0);
	for (i = 0; i < scaled(200000); i++) {
		u32 e;

		k = rng_below(&r, KEYS / 2) * 2;
		e = cache_index_find(&shared, hash_of(k));
		if (i / 20000 % 2 ? !e : e != 0)
			continue;
		if (e)
			cache_index_remove(&shared, e - 1);
		else
			cache_index_add(&shared, hash_of(k), (i + 2) * KEYS + k, 1, CACHE_MAIN);
	}
	WRITE_ONCE(stop, true);
	for (i = 0; i < 2; i++) {
		must_eq(pthread_join(thread[i], &wrong), 0);
		must_eq((uintptr_t)wrong, 0);
	}
	is_sound(&shared);
	cache_index_destroy(&shared);
}

CASE(a_look_while_somebody_writes_is_none)
{
	struct cache_index x;
	struct cache_seen seen;

	must_eq(cache_index_init(&x, MOST, true), 0);
	must_eq(cache_index_add(&x, hash_of(1), 1, 1, CACHE_SMALL), 0);
	must_eq(cache_index_look(&x, hash_of(1), &seen), 0);
	host_a64_add(&x.seq, 1);
	must_eq(cache_index_look(&x, hash_of(1), &seen), -ESTALE);
	host_a64_add(&x.seq, 1);
	must_eq(cache_index_look(&x, hash_of(1), &seen), 0);
	cache_index_destroy(&x);
}

static void *writes_at;
static unsigned int writes;

/* The first look at the buckets comes here: somebody writes in between. */
static void write_in_between(int sig)
{
	(void)sig;
	mprotect(writes_at, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
	host_a64_add(&shared.seq, 2);
	writes++;
}

CASE(a_look_sees_that_it_lost_to_a_writer)
{
	const struct sigaction act = { .sa_handler = write_in_between };
	struct sigaction was;
	struct cache_seen seen;
	void *buckets;
	u64 key = 0;
	int err;

	must_eq(cache_index_init(&shared, MOST, true), 0);
	/* One whose bucket is in the first part. */
	while (hash_of(++key) % CACHE_INDEX_LEAST >= 1u << GROWN_SHIFT)
		;
	must_eq(cache_index_add(&shared, hash_of(key), 1, 1, CACHE_SMALL), 0);
	/* A page that the table has to itself: no part of a small one is. */
	writes_at = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(writes_at != MAP_FAILED);
	buckets = shared.bucket.part[0];
	memcpy(writes_at, buckets, sizeof(u32) << GROWN_SHIFT);
	shared.bucket.part[0] = writes_at;
	writes = 0;
	must_eq(sigaction(SIGSEGV, &act, &was), 0);
	must_eq(mprotect(writes_at, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE), 0);
	err = cache_index_look(&shared, hash_of(key), &seen);
	must_eq(sigaction(SIGSEGV, &was, NULL), 0);
	must_eq(writes, 1);
	must_eq(err, -ESTALE);
	must_eq(cache_index_look(&shared, hash_of(key), &seen), 0);
	shared.bucket.part[0] = buckets;
	munmap(writes_at, (size_t)sysconf(_SC_PAGESIZE));
	cache_index_destroy(&shared);
}

/* ---- the policy ---- */

/* A cache of so many entries of one byte. */
struct model {
	struct cache_index x;
	u32 room;
	u64 hits, asked;
};

static void ask(struct model *m, u64 key)
{
	u64 hash = hash_of(key);
	struct cache_seen seen;

	m->asked++;
	if (!cache_index_look(&m->x, hash, &seen)) {
		m->hits++;
		cache_index_hit(&m->x, &seen);
		return;
	}
	if (m->x.entries == m->room) {
		u32 e = cache_index_victim(&m->x);

		must(e);
		cache_ghost_add(&m->x, cache_index_entry(&m->x, e - 1)->hash);
		cache_index_remove(&m->x, e - 1);
	}
	must_eq(cache_index_add(&m->x, hash, key + 1, 1,
				cache_ghost_take(&m->x, hash) ? CACHE_MAIN : CACHE_SMALL), 0);
}

static void model_open(struct model *m, u32 room)
{
	memset(m, 0, sizeof(*m));
	m->room = room;
	must_eq(cache_index_init(&m->x, MOST, true), 0);
}

/* In percent, of what was asked since the last time. */
static unsigned int hit_rate(struct model *m)
{
	unsigned int rate = m->asked ? (unsigned int)(m->hits * 100 / m->asked) : 0;

	m->hits = 0;
	m->asked = 0;
	return rate;
}

CASE(a_scan_leaves_what_is_asked_for)
{
	struct model m;
	u64 i, round;

	model_open(&m, 1000);
	for (round = 0; round < 20; round++)
		for (i = 0; i < 700; i++)
			ask(&m, i);
	hit_rate(&m);
	for (i = 0; i < 50000; i++)
		ask(&m, 10000 + i);
	must_eq(hit_rate(&m), 0);
	for (i = 0; i < 700; i++)
		ask(&m, i);
	must(hit_rate(&m) >= 95);
	is_sound(&m.x);
	cache_index_destroy(&m.x);
}

CASE(a_loop_larger_than_the_room_has_hits)
{
	struct model m;
	u64 i;

	model_open(&m, 1000);
	for (i = 0; i < 1200 * 20; i++)
		ask(&m, i % 1200);
	hit_rate(&m);
	for (i = 0; i < 1200 * 20; i++)
		ask(&m, i % 1200);
	/* LRU and FIFO have none at all. */
	must(hit_rate(&m) >= 5);
	cache_index_destroy(&m.x);
}

CASE(what_comes_back_soon_is_kept)
{
	struct model m;
	u64 i;

	model_open(&m, 1000);
	for (i = 0; i < 2000; i++)
		ask(&m, i);
	must_eq(m.x.ghosts, 0);
	/* It was evicted a short while ago: it goes to main, and no scan moves it from there. */
	must(!cache_index_find(&m.x, hash_of(900)));
	ask(&m, 900);
	must_eq(m.x.ghosts, 1);
	for (i = 3000; i < 5000; i++)
		ask(&m, i);
	must(cache_index_find(&m.x, hash_of(900)));
	cache_index_destroy(&m.x);
}

CASE(the_ghost_remembers_as_many_as_there_are)
{
	struct model m;
	u32 i, known = 0;

	model_open(&m, 8000);
	for (i = 0; i < 16000; i++)
		ask(&m, i);
	for (i = 8000 - 4000; i < 8000; i++)
		known += cache_ghost_take(&m.x, hash_of(i));
	must(known > 3800);
	for (i = 100000, known = 0; i < 104000; i++)
		known += cache_ghost_take(&m.x, hash_of(i));
	must_be_at_most(known, 2);
	/* Memory of the ghost goes with the entries. */
	while (m.x.entries)
		cache_index_remove(&m.x, m.x.entries - 1);
	must_be_at_most(m.x.ghost_sets, CACHE_INDEX_LEAST / CACHE_GHOST_WAYS);
	cache_index_destroy(&m.x);
}

CASE(a_victim_is_found_in_bounded_steps)
{
	struct cache_seen seen;
	struct model m;
	unsigned int k;
	u32 i, e, moved;

	model_open(&m, 10000);
	for (i = 0; i < 10000; i++)
		ask(&m, i);
	for (k = 0; k < 5; k++)
		for (i = 0; i < 10000; i++)
			if (!cache_index_look(&m.x, hash_of(i), &seen))
				cache_index_hit(&m.x, &seen);
	e = cache_index_victim(&m.x);
	must(e);
	moved = m.x.queue[CACHE_MAIN].entries;
	must_be_at_most(moved, CACHE_VICTIM_STEPS);
	/* It can be found, and comes back if it is replaced. */
	must_eq(cache_index_find(&m.x, cache_index_entry(&m.x, e - 1)->hash), e);
	is_sound(&m.x);
	cache_index_replace(&m.x, e - 1, 77777, 5);
	is_sound(&m.x);
	must_eq(m.x.queue[CACHE_MAIN].entries + m.x.queue[CACHE_SMALL].entries, 10000);
	cache_index_destroy(&m.x);
}
