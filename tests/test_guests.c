// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_guests.c - units, values and caches in a process that is not the library's own: one that
 * forks, cancels its threads, or loads the library and closes it again.
 */
#include "process.h"
#include "api/ebb_cache.h"
#include "api/ebb_units.h"
#include "api/ebb_values.h"

#include <pthread.h>

#define DISK ((u64)4 << 20)
#define NAMES 500u
#define THREADS 3u
#define LARGE 100000u

static struct ebb_units *units;
static struct ebb_values *values;
static struct ebb_value_reader *reader;
static struct ebb_cache *cache;
static struct ebb_cache_pin *pinned;
static unsigned char data[LARGE];

static bool open_all(void)
{
	struct ebb_cache_config k;
	struct ebb_units_config u;
	struct ebb_values_config v;

	ebb_units_config_init(&u);
	u.bytes = DISK;
	ebb_values_config_init(&v);
	ebb_cache_config_init(&k);
	k.capacity = 8 << 20;
	return !ebb_units_open(&units, &u) && !ebb_values_open(&values, &v) &&
	       !ebb_cache_open(&cache, &k);
}

static void close_all(void)
{
	ebb_units_close(units);
	ebb_values_close(values);
	ebb_cache_close(cache);
}

static int use_what_is_the_parents(void)
{
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_stat vs = { .struct_size = sizeof(vs) };
	struct ebb_units_stat us = { .struct_size = sizeof(us) };
	struct ebb_cache_stat cs = { .struct_size = sizeof(cs) };
	struct ebb_values_cursor cursor = { 0 };
	struct ebb_value_reader *other;
	struct ebb_cache_pin *pin;
	size_t n;
	u64 x;
	int is;

	ANSWERS(ebb_units_write(units, 0, data, 100), -EINVAL);
	ANSWERS(ebb_units_read(units, 0, data, 100), -EINVAL);
	ANSWERS(ebb_units_zero(units, 0, 100), -EINVAL);
	ANSWERS(ebb_units_extent(units, 0, &x, &is), -EINVAL);
	ANSWERS(ebb_units_stat(units, &us), -EINVAL);
	ANSWERS(ebb_units_check(units, NULL, 0), -EINVAL);
	ANSWERS(ebb_units_store(units) == NULL, true);
	ANSWERS(ebb_values_add(values, data, 10, &x), -EINVAL);
	ANSWERS(ebb_values_put(values, 1, data, 10, 0), -EINVAL);
	ANSWERS(ebb_values_get(values, 1, data, 10, &n), -EINVAL);
	ANSWERS(ebb_values_size(values, 1, &x), -EINVAL);
	ANSWERS(ebb_values_delete(values, 1), -EINVAL);
	ANSWERS(ebb_values_put_key(values, "k", 1, data, 10, 0), -EINVAL);
	ANSWERS(ebb_values_read_open(values, 1, &other), -EINVAL);
	ANSWERS(ebb_values_next(values, &cursor, &entry, NULL), -EINVAL);
	ANSWERS(ebb_values_stat(values, &vs), -EINVAL);
	ANSWERS(ebb_values_set_mem_limit(values, 0), -EINVAL);
	ANSWERS(ebb_values_check(values, NULL, 0), -EINVAL);
	ANSWERS(ebb_values_store(values) == NULL, true);
	ANSWERS(ebb_value_read(reader, 0, data, 1, &n), -EINVAL);
	ANSWERS(ebb_value_reader_size(reader), 0);
	ebb_value_reader_close(reader);
	ANSWERS(ebb_cache_put(cache, "k", 1, data, 10, 0, 0), -EINVAL);
	ANSWERS(ebb_cache_get(cache, "k", 1, data, 10, &n), -EINVAL);
	ANSWERS(ebb_cache_pin(cache, "k", 1, 0, &pin), -EINVAL);
	ANSWERS(ebb_cache_delete(cache, "k", 1), -EINVAL);
	ANSWERS(ebb_cache_set_capacity(cache, 1), -EINVAL);
	ANSWERS(ebb_cache_flush(cache), -EINVAL);
	ANSWERS(ebb_cache_stat(cache, &cs), -EINVAL);
	ANSWERS(ebb_cache_check(cache, NULL, 0), -EINVAL);
	ANSWERS(ebb_cache_store(cache) == NULL, true);
	/* What was pinned is the child's own copy. */
	ANSWERS(pinned->bytes, LARGE);
	ANSWERS(memcmp(pinned->data, data, LARGE), 0);
	ebb_cache_unpin(cache, pinned);
	close_all();
	return 0;
}

static int use_its_own(void)
{
	static unsigned char copy[LARGE];
	size_t n;

	/* Sanitizers have locks of their own, and bad luck in a child of several threads. */
	if (SHADOWED)
		return 0;
	close_all();
	ANSWERS(open_all(), true);
	ANSWERS(ebb_units_write(units, 5000, data, LARGE), 0);
	ANSWERS(ebb_units_read(units, 5000, copy, LARGE), 0);
	ANSWERS(memcmp(copy, data, LARGE), 0);
	ANSWERS(ebb_values_put(values, 1, data, LARGE, 0), 0);
	ANSWERS(ebb_values_get(values, 1, copy, LARGE, &n), 0);
	ANSWERS(memcmp(copy, data, LARGE), 0);
	ANSWERS(ebb_values_check(values, NULL, 0), 0);
	ANSWERS(ebb_cache_put(cache, "k", 1, data, LARGE, 0, 0), 0);
	ANSWERS(ebb_cache_get(cache, "k", 1, copy, LARGE, &n), 0);
	ANSWERS(memcmp(copy, data, LARGE), 0);
	ANSWERS(ebb_cache_check(cache, NULL, 0), 0);
	close_all();
	return 0;
}

CASE(units_values_and_caches_are_none_in_a_forked_child)
{
	fill_random(data, LARGE / 2, 7);
	must(open_all());
	must_eq(ebb_units_write(units, 0, data, LARGE), 0);
	must_eq(ebb_values_put(values, 1, data, LARGE, 0), 0);
	must_eq(ebb_values_read_open(values, 1, &reader), 0);
	must_eq(ebb_cache_put(cache, "k", 1, data, LARGE, 0, 0), 0);
	must_eq(ebb_cache_pin(cache, "k", 1, 0, &pinned), 0);
	must_eq(status_of_child(use_what_is_the_parents), 0);
	must_eq(status_of_child(use_its_own), 0);
	ebb_value_reader_close(reader);
	ebb_cache_unpin(cache, pinned);
	must_eq(ebb_cache_check(cache, NULL, 0), 0);
	must_eq(ebb_units_check(units, NULL, 0), 0);
	must_eq(ebb_values_check(values, NULL, 0), 0);
	close_all();
}

/* ---- threads that do all there is ---- */

static bool stop;

static void *use_all(void *arg)
{
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	struct rng r = { (uintptr_t)arg };
	static __thread unsigned char own[LARGE];
	size_t n;
	u64 x;

	while (!READ_ONCE(stop)) {
		u64 at = rng_below(&r, DISK - LARGE), id = rng_below(&r, NAMES);
		size_t bytes = rng_below(&r, rng_below(&r, 10) ? 3000 : LARGE);
		struct ebb_value_reader *mine;

		pthread_testcancel();
		switch (rng_below(&r, 11)) {
		case 0:
			ebb_units_write(units, at, data, bytes);
			break;
		case 1:
			ebb_units_read(units, at, own, bytes);
			break;
		case 2:
			ebb_units_zero(units, at, bytes);
			break;
		case 3:
		case 4:
			ebb_values_put(values, id, data, bytes, 0);
			break;
		case 5:
			ebb_values_get(values, id, own, sizeof(own), &n);
			ebb_values_size(values, id, &x);
			break;
		case 6:
			ebb_values_delete(values, id);
			break;
		case 7:
		case 8:
			ebb_cache_put(cache, &id, sizeof(id), data, bytes, 0, 0);
			break;
		case 9:
			ebb_cache_get(cache, &id, sizeof(id), own, sizeof(own), &n);
			break;
		default:
			if (!ebb_values_read_open(values, id, &mine)) {
				ebb_value_read(mine, 0, own, sizeof(own), &n);
				ebb_value_reader_close(mine);
			}
			if (ebb_values_next(values, &cursor, &entry, NULL))
				cursor = (struct ebb_values_cursor){ 0 };
		}
	}
	return NULL;
}

static void start(pthread_t *id, u64 seed)
{
	must_eq(pthread_create(id, NULL, use_all, (void *)(uintptr_t)(seed | 1)), 0);
}

static void end_and_check(pthread_t *id)
{
	char why[200] = "";

	WRITE_ONCE(stop, true);
	for (unsigned int i = 0; i < THREADS; i++)
		must_eq(pthread_join(id[i], NULL), 0);
	if (ebb_units_check(units, why, sizeof(why)) ||
	    ebb_values_check(values, why, sizeof(why)) ||
	    ebb_cache_check(cache, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
	close_all();
}

CASE(a_child_of_a_busy_process_has_its_own)
{
	pthread_t id[THREADS];

	must(open_all());
	WRITE_ONCE(stop, false);
	for (unsigned int i = 0; i < THREADS; i++)
		start(&id[i], i * 2);
	for (unsigned long turns = scaled(40); turns; turns--)
		must_eq(status_of_child(use_its_own), 0);
	end_and_check(id);
}

CASE(a_cancelled_thread_leaves_no_call_half_done)
{
	struct rng r = { use_seed(0x63616e63) };
	pthread_t id[THREADS];

#ifdef HOST_USER_ASAN
	skip_because("AddressSanitizer takes the stack of a cancelled thread for one still in use");
#endif
	must(open_all());
	WRITE_ONCE(stop, false);
	for (unsigned int i = 0; i < THREADS; i++)
		start(&id[i], i * 2);
	for (unsigned long turns = scaled(200); turns; turns--) {
		unsigned int i = (unsigned int)rng_below(&r, THREADS);
		void *how;

		usleep((useconds_t)rng_below(&r, 2000));
		must_eq(pthread_cancel(id[i]), 0);
		must_eq(pthread_join(id[i], &how), 0);
		must(how == PTHREAD_CANCELED);
		start(&id[i], rng_next(&r));
	}
	end_and_check(id);
}

/* ---- unloading ---- */

static __typeof__(&ebb_values_put) put_value;
static __typeof__(&ebb_values_get) get_value;
static bool closed;

static void *use_then_outlive(void *arg)
{
	unsigned char got[100];
	size_t n;

	for (u64 i = 0; i < 2000; i++)
		if (put_value(arg, i % 50, data, 100, 0) || get_value(arg, i % 50, got, 100, &n))
			abort();
	tell(&stop, true);
	while (!seen(&closed))
		;
	return NULL;
}

CASE(a_thread_that_used_values_outlives_their_dlclose)
{
	const char *path = getenv("LIBEBB");
	struct ebb_values_config cfg;
	struct ebb_values *theirs;
	pthread_t id;

	if (!path)
		skip_because("LIBEBB does not say where libebb.so is");
	for (unsigned int turn = 0; turn < 10; turn++) {
		void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

		must(lib != NULL);
		((__typeof__(&ebb_values_config_init))symbol(lib, "ebb_values_config_init"))(&cfg);
		must_eq(((__typeof__(&ebb_values_open))symbol(lib, "ebb_values_open"))(&theirs, &cfg),
			0);
		put_value = (__typeof__(put_value))symbol(lib, "ebb_values_put");
		get_value = (__typeof__(get_value))symbol(lib, "ebb_values_get");
		WRITE_ONCE(stop, false);
		WRITE_ONCE(closed, false);
		must_eq(pthread_create(&id, NULL, use_then_outlive, theirs), 0);
		while (!seen(&stop))
			;
		((__typeof__(&ebb_values_close))symbol(lib, "ebb_values_close"))(theirs);
		must_eq(dlclose(lib), 0);
		tell(&closed, true);
		must_eq(pthread_join(id, NULL), 0);
	}
}
