// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_values_hard.c - values when memory fails, and when others do what they want: all is as it
 * was, or as it should be then.
 */
#include "values_rig.h"

#include <pthread.h>

/*
 * What comes between two steps of a call: these stand before the library's own calls of the two.
 * Others of the caller's may go on there, since nothing is locked.
 */
int __real_ebb_get(struct ebb_store *store, uint64_t slot, void *buf, size_t cap, size_t *bytes);
int __wrap_ebb_get(struct ebb_store *store, uint64_t slot, void *buf, size_t cap, size_t *bytes);
int __real_ebb_put(struct ebb_store *store, uint64_t slot, const void *data, size_t bytes);
int __wrap_ebb_put(struct ebb_store *store, uint64_t slot, const void *data, size_t bytes);

static _Thread_local void (*meanwhile)(void);   /* done once, before a get */
static _Thread_local bool spoils;               /* the next get of a part of a block */
static _Thread_local void (*before_put)(void);  /* done once, before a put */
static bool (*put_fails)(void);
static unsigned long put_calls, get_calls;

int __wrap_ebb_get(struct ebb_store *store, uint64_t slot, void *buf, size_t cap, size_t *bytes)
{
	void (*fn)(void) = meanwhile;
	int err;

	meanwhile = NULL;
	if (fn)
		fn();
	__atomic_fetch_add(&get_calls, 1, __ATOMIC_RELAXED);
	err = __real_ebb_get(store, slot, buf, cap, bytes);
	if (spoils && !err && *bytes > 1000) {
		memset((char *)buf + *bytes / 2, 0xff, *bytes - *bytes / 2);
		spoils = false;
	}
	return err;
}

int __wrap_ebb_put(struct ebb_store *store, uint64_t slot, const void *data, size_t bytes)
{
	void (*fn)(void) = before_put;

	before_put = NULL;
	if (fn)
		fn();
	__atomic_fetch_add(&put_calls, 1, __ATOMIC_RELAXED);
	return put_fails && put_fails() ? -ENOMEM : __real_ebb_put(store, slot, data, bytes);
}

/* ---- what is refused ---- */

static struct ebb_values *refusing;

static void put_seven(void)
{
	must_eq(ebb_values_put(refusing, 7, "theirs", 6, 0), 0);
}

static void delete_seven(void)
{
	must_eq(ebb_values_delete(refusing, 7), 0);
}

/* The look comes first, so nothing is packed and stored in vain. */
CASE(a_put_that_is_refused_stores_nothing)
{
	struct ebb_values *v = open_values(NULL);
	unsigned long before, looks;
	uint64_t id, next;
	char is[8];
	size_t n;

	refusing = v;
	fill_random(value, 200000, 3);
	for (id = 1; id <= 3000; id++)
		must_eq(ebb_values_put(v, id, "x", 1, 0), 0);
	before = put_calls;
	must_eq(ebb_values_put(v, 4000, value, 200000, 0), 0);
	n = put_calls - before;
	/* Beside any number of ids, an add is one put and a few looks. */
	before = put_calls;
	looks = get_calls;
	must_eq(ebb_values_add(v, value, 200000, &id), 0);
	must_be_at_most(put_calls - before, 2 * n);
	must_be_at_most(get_calls - looks, 40);
	must(id > 3000 && id != 4000);
	must_eq(ebb_values_add(v, "y", 1, &next), 0);
	must_eq(next, id + 1);
	before = put_calls;
	must_eq(ebb_values_put(v, 1, value, 200000, EBB_PUT_NEW), -EEXIST);
	must_eq(ebb_values_put(v, 5000, value, 200000, EBB_PUT_REPLACE), -ENOENT);
	must_eq(put_calls, before);
	must_eq(ebb_values_delete(v, 7), 0);
	/* What others do between the look and the put counts, and nothing is left behind. */
	before_put = put_seven;
	must_eq(ebb_values_put(v, 7, value, 200000, EBB_PUT_NEW), -EEXIST);
	must_eq(ebb_values_get(v, 7, is, sizeof(is), &n), 0);
	must(n == 6 && !memcmp(is, "theirs", 6));
	values_are_sound(v);
	before_put = delete_seven;
	must_eq(ebb_values_put(v, 7, value, 200000, EBB_PUT_REPLACE), -ENOENT);
	must_eq(stat_of(v).values, 3002);
}

/* What was unpacked as far as it went is in the reader's buffer then. */
CASE(a_reader_that_met_a_damaged_block_reads_the_others)
{
	struct ebb_values *v = open_values(NULL);
	struct ebb_value_reader *reader;
	char is[100];
	size_t n;

	fill(value, 200000, 1);
	must_eq(ebb_values_put(v, 1, value, 200000, 0), 0);
	must_eq(ebb_values_read_open(v, 1, &reader), 0);
	must_eq(ebb_value_read(reader, 500, is, sizeof(is), &n), 0);
	spoils = true;
	must_eq(ebb_value_read(reader, 100000, is, sizeof(is), &n), -EIO);
	must(!spoils);
	must_eq(ebb_value_read(reader, 500, is, sizeof(is), &n), 0);
	must(n == sizeof(is) && !memcmp(is, value + 500, n));
	ebb_value_reader_close(reader);
}

/* ---- short of memory ---- */

static unsigned long fail_in, asked;

static bool fail_now(void)
{
	return ++asked % fail_in == 0;
}

static unsigned int puts_left;

static bool at_the_last(void)
{
	return !--puts_left;
}

/* Whichever object of its blocks, leaves, map or bucket fails, nothing of a large value stays. */
CASE(each_put_of_a_large_value_may_fail)
{
	struct ebb_values *v = open_values(NULL);
	unsigned int n;
	int err;

	fill_random(value, 200000, 3);
	for (n = 1;; n++) {
		puts_left = n;
		put_fails = at_the_last;
		err = ebb_values_put(v, 1, value, 200000, 0);
		put_fails = NULL;
		if (!err)
			break;
		must_eq(err, -ENOMEM);
		values_are_sound(v);
		must_eq(stat_of(v).object_bytes, 0);
	}
	/* Four blocks, a leaf, a map, a bucket. */
	must(n > 7);
	must_eq(ebb_values_delete(v, 1), 0);
	must_eq(stat_of(v).object_bytes, 0);
}

/*
 * What a put of n bytes, or a delete, came to.  True: memory was short, and all is as it was;
 * else the value is what is wanted from now on.
 */
static bool ran_short(struct ebb_values *v, uint32_t i, int err, bool put, size_t n, uint64_t seed)
{
	if (err == -ENOMEM) {
		get_and_compare(v, i);
		return true;
	}
	must_eq(err, put || want[i].there ? 0 : -ENOENT);
	want[i].there = put;
	want[i].bytes = n;
	want[i].seed = seed;
	return false;
}

static struct rng fate;

static bool at_random(void)
{
	return !rng_below(&fate, 3);
}

/* A third of the library's own puts fail: of blocks, of maps, of buckets that are split. */
__no_context_analysis        /* it has the lock for some of its turns */
CASE(whatever_put_fails_all_is_as_it_was)
{
	struct ebb_values *v = open_values(NULL);
	unsigned long failed = 0, steps = scaled(40000);

	fate.s = use_seed(0x98);
	memset(want, 0, sizeof(want));
	for (unsigned long step = 0; step < steps; step++) {
		uint32_t i = (uint32_t)rng_below(&fate, NAMES);
		bool less = step * 6 / steps % 2, put = rng_below(&fate, 4) ? !less : less;
		size_t n = rng_below(&fate, 50) ? rng_below(&fate, 600) : random_size(&fate);
		uint64_t seed = rng_next(&fate);
		int err;

		if (step % (steps / 3 + 1) == 5)
			mutex_lock(&v->growing);
		if (step % (steps / 3 + 1) == steps / 6)
			mutex_unlock(&v->growing);
		fill(value, n, seed);
		put_fails = at_random;
		err = put ? put_name(v, i, value, n) : delete_name(v, i);
		put_fails = NULL;
		if (ran_short(v, i, err, put, n, seed)) {
			failed++;
			continue;
		}
		if (step % (steps / 12 + 1) == 0) {
			values_are_sound(v);
			iterate_and_compare(v);
		}
	}
	must(failed > steps / 10);
	for (uint32_t i = 0; i < NAMES; i++)
		get_and_compare(v, i);
	iterate_and_compare(v);
}

/* The third put of a put of a small value is the last of a split. */
static unsigned int nth_put;

static bool last_of_a_split(void)
{
	return ++nth_put == 3;
}

CASE(copies_that_splits_left_behind_stay_dead)
{
	struct ebb_values *v = open_values(NULL);
	uint64_t most;

	memset(want, 0, sizeof(want));
	for (unsigned int turn = 0; turn < 3; turn++) {
		for (uint32_t i = 0; i < NAMES; i++) {
			want[i].bytes = 50;
			want[i].seed = i + turn;
			want[i].there = true;
			fill(value, 50, i + turn);
			nth_put = 0;
			put_fails = last_of_a_split;
			must_eq(put_name(v, i, value, 50), 0);
			put_fails = NULL;
		}
		most = stat_of(v).buckets;
		must(most > 4 * VALUES_STRIPES);
		values_are_sound(v);
		iterate_and_compare(v);
		for (uint32_t i = 0; i < NAMES; i++) {
			must_eq(delete_name(v, i), 0);
			want[i].there = false;
			if (i % 100 == 0)
				values_are_sound(v);
		}
		must(stat_of(v).buckets < most / 2);
		values_are_sound(v);
		for (uint32_t i = 0; i < NAMES; i++)
			get_and_compare(v, i);
	}
}

CASE(whatever_allocation_fails_all_is_as_it_was)
{
	struct ebb_values_config cfg;
	struct ebb_values *v = NULL;
	struct rng r = { use_seed(0x99) };
	unsigned long failed = 0;

	/* Opening, as far as it takes. */
	ebb_values_config_init(&cfg);
	cfg.slots = 1 << 20;
	for (fail_in = 1; fail_in < 200; fail_in++) {
		int err;

		asked = 0;
		host_user_fail = fail_now;
		err = ebb_values_open(&v, &cfg);
		host_user_fail = NULL;
		must(!err || err == -ENOMEM);
		ebb_values_close(v);
	}
	v = open_values_of(&cfg);
	memset(want, 0, sizeof(want));
	for (unsigned long step = 0; step < scaled(20000); step++) {
		uint32_t i = (uint32_t)rng_below(&r, NAMES);
		size_t n = random_size(&r);
		uint64_t seed = rng_next(&r);
		bool put = rng_below(&r, 3);
		int err;

		fill(value, n, seed);
		fail_in = 1 + rng_below(&r, 4);
		host_user_fail = step % 2 ? fail_now : NULL;
		err = put ? put_name(v, i, value, n) : delete_name(v, i);
		host_user_fail = NULL;
		failed += ran_short(v, i, err, put, n, seed);
	}
	must(failed);
	for (uint32_t i = 0; i < NAMES; i++)
		get_and_compare(v, i);
	iterate_and_compare(v);
}

CASE(who_lets_go_needs_no_memory_for_a_scratch)
{
	struct ebb_values *v = open_values(NULL);
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	struct scratch *taken[200];
	struct ebb_value_reader *reader;
	unsigned int n, i;

	fill(value, 200000, 4);
	must_eq(ebb_values_put(v, 1, value, 200000, 0), 0);
	must_eq(ebb_values_read_open(v, 1, &reader), 0);
	/* The one that is idle, and whatever comes after it: others would wait for them now. */
	for (n = 0; n < 20; n++)
		taken[n] = scratch_get(&v->blocks);
	host_user_fail = always;
	must_eq(ebb_values_next(v, &cursor, &entry, NULL), 0);
	must_eq(ebb_values_delete(v, 1), 0);
	ebb_value_reader_close(reader);
	host_user_fail = NULL;
	for (i = 0; i < n; i++)
		scratch_put(&v->blocks, taken[i]);
	values_are_sound(v);
	must_eq(stat_of(v).object_bytes, 0);
}

/* ---- what others do ---- */

#define SHARED 40u

static struct ebb_values *shared;
static u32 wrong, stop;

static void note_wrong(u32 line)
{
	__atomic_store_n(&wrong, line, __ATOMIC_RELAXED);
}

/* A value says all about itself: 8 bytes of seed, then what fill() makes of it. */
static size_t make_value(unsigned char *p, struct rng *r)
{
	uint64_t seed = rng_next(r);
	size_t n = 8 + (seed % 50 ? seed % 3000 : seed % 200000);

	memcpy(p, &seed, sizeof(seed));
	fill(p + 8, n - 8, seed);
	return n;
}

static bool is_value(const unsigned char *p, size_t n, unsigned char *other)
{
	uint64_t seed;

	memcpy(&seed, p, sizeof(seed));
	if (n != 8 + (seed % 50 ? seed % 3000 : seed % 200000))
		return false;
	fill(other, n - 8, seed);
	return !memcmp(p + 8, other, n - 8);
}

/* The table grows or shrinks by so many that what is looked for moves; or it is replaced. */
#define MANY 3000u

static struct rng others;
static bool many;
static unsigned char theirs[200008];

static void others_act(void)
{
	uint32_t i;

	if (rng_below(&others, 2)) {
		for (i = 0; i < SHARED; i++)
			must_eq(put_name(shared, i, theirs, make_value(theirs, &others)), 0);
		return;
	}
	for (i = 0; i < MANY; i++)
		must_eq(many ? delete_name(shared, SHARED + i) : put_name(shared, SHARED + i, "x", 1), 0);
	many = !many;
}

CASE(between_two_looks_anything_may_happen)
{
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	static unsigned char mine[200008], other[200008];

	others.s = use_seed(0x2100);
	many = false;
	shared = open_values(NULL);
	for (uint32_t i = 0; i < SHARED; i++)
		must_eq(put_name(shared, i, theirs, make_value(theirs, &others)), 0);
	for (unsigned long turn = 0; turn < scaled(1500); turn++) {
		uint32_t i = (uint32_t)rng_below(&others, SHARED);
		struct ebb_values_cursor cursor = { 0 };
		unsigned int seen = 0, at = (unsigned int)rng_below(&others, 300);
		uint64_t size;
		size_t n;

		meanwhile = others_act;
		must_eq(get_name(shared, i, mine, sizeof(mine), &n), 0);
		must(is_value(mine, n, other));
		meanwhile = others_act;
		must_eq(size_name(shared, i, &size), 0);
		if (turn % 10)
			continue;
		/* One of a cursor's looks. */
		for (; !ebb_values_next(shared, &cursor, &entry, mine); at--) {
			memcpy(&i, mine, sizeof(i));
			if (!entry.key_bytes)
				i = (uint32_t)entry.id;
			seen += i < SHARED;
			if (!at)
				meanwhile = others_act;
		}
		must_eq(seen, SHARED);
	}
	meanwhile = NULL;
}

/* Some names are always there; the others come and go, and have the table grow and shrink. */
static void *change_values(void *arg)
{
	unsigned char *mine = malloc(200008);
	struct rng r = { (uintptr_t)arg };

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint32_t i = (uint32_t)rng_below(&r, SHARED * 30);
		int err = 0;

		if (i >= SHARED && rng_below(&r, 2))
			err = delete_name(shared, i);
		else
			err = put_name(shared, i, mine, make_value(mine, &r));
		if (err && err != -ENOENT)
			note_wrong(__LINE__);
	}
	free(mine);
	return NULL;
}

static void *get_values(void *arg)
{
	unsigned char *mine = malloc(200008), *other = malloc(200008);
	struct rng r = { (uintptr_t)arg };
	size_t n;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint32_t i = (uint32_t)rng_below(&r, rng_below(&r, 2) ? SHARED : SHARED * 30);
		int err = get_name(shared, i, mine, 200008, &n);

		if (err ? err != -ENOENT || i < SHARED : !is_value(mine, n, other))
			note_wrong(__LINE__);
	}
	free(mine);
	free(other);
	return NULL;
}

static void *read_values(void *arg)
{
	unsigned char *mine = malloc(200008), *other = malloc(200008);
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_value_reader *reader;
	struct rng r = { (uintptr_t)arg };
	unsigned char key[EBB_VALUES_KEY_MAX];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct ebb_values_cursor cursor = { 0 };
		unsigned int seen[SHARED] = { 0 };
		size_t n = 0, piece = 1;

		if (!open_name(shared, (uint32_t)rng_below(&r, SHARED), &reader)) {
			for (; piece; n += piece)
				if (ebb_value_read(reader, n, mine + n, 1 + rng_below(&r, 90000),
						   &piece))
					note_wrong(__LINE__);
			if (n != ebb_value_reader_size(reader) || !is_value(mine, n, other))
				note_wrong(__LINE__);
			ebb_value_reader_close(reader);
		} else {
			note_wrong(__LINE__);
		}
		while (!ebb_values_next(shared, &cursor, &entry, key)) {
			uint32_t i = (uint32_t)entry.id;

			if (entry.key_bytes)
				memcpy(&i, key, sizeof(i));
			if (i < SHARED)
				seen[i]++;
		}
		for (unsigned int i = 0; i < SHARED; i++)
			if (seen[i] != 1)
				note_wrong(__LINE__);
	}
	free(mine);
	free(other);
	return NULL;
}

CASE(who_gets_a_value_sees_it_old_or_new_and_whole)
{
	void *(*const does[])(void *) = { change_values, change_values, get_values, get_values,
					  read_values };
	pthread_t thread[ARRAY_LEN(does)];
	struct timespec rest = { 0, 10000000 };
	struct rng r = { 5 };

	shared = open_values(NULL);
	wrong = stop = 0;
	for (uint32_t i = 0; i < SHARED; i++)
		must_eq(put_name(shared, i, value, make_value(value, &r)), 0);
	for (uintptr_t i = 0; i < ARRAY_LEN(does); i++)
		must_eq(pthread_create(&thread[i], NULL, does[i], (void *)(i + 1)), 0);
	for (unsigned long i = 0; i < scaled(200) && !wrong; i++)
		nanosleep(&rest, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < ARRAY_LEN(does); i++)
		pthread_join(thread[i], NULL);
	must_eq(wrong, 0);
}
