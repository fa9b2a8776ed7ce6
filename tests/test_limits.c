// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_limits.c - what a store, a table, a disk and a cache take of a process that has limits:
 * little while they are empty, and no more than they may; and what they do where a limit is
 * reached.
 */
#include "process.h"
#include "api/ebb.h"
#include "api/ebb_cache.h"
#include "api/ebb_units.h"
#include "api/ebb_values.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#define MIB ((u64)1 << 20)

static void skip_if_shadowed(void)
{
	if (!SHADOWED)
		return;
	skip_because("a sanitizer has address space and memory of its own");
}

/* ---- one of each kind ---- */

static struct ebb_store *store;
static struct ebb_values *values;
static struct ebb_units *units;
static struct ebb_cache *cache;

static int open_store(void)
{
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = ((u64)64 << 30) / PAGE_SIZE;
	return ebb_open(&store, &cfg);
}

static int open_values(void)
{
	struct ebb_values_config cfg;

	ebb_values_config_init(&cfg);
	return ebb_values_open(&values, &cfg);
}

static int open_units(void)
{
	struct ebb_units_config cfg;

	ebb_units_config_init(&cfg);
	cfg.bytes = (u64)256 << 30;
	return ebb_units_open(&units, &cfg);
}

static int open_cache(void)
{
	struct ebb_cache_config cfg;

	ebb_cache_config_init(&cfg);
	cfg.capacity = 8 * MIB;
	cfg.codec = "zstd";
	return ebb_cache_open(&cache, &cfg);
}

static unsigned char bytes[100000];

static int store_one(void) { return ebb_write(store, 0, bytes, PAGE_SIZE); }
static int put_value(void) { return ebb_values_put(values, 1, bytes, 1000, 0); }
static int write_unit(void) { return ebb_units_write(units, 0, bytes, 32768); }
static int put_in_cache(void) { return ebb_cache_put(cache, "k", 1, bytes, 1000, 0, 0); }

static const struct {
	const char *what;
	int (*open)(void), (*put)(void);
} kinds[] = {
	{ "store", open_store, store_one },
	{ "values", open_values, put_value },
	{ "disk", open_units, write_unit },
	{ "cache", open_cache, put_in_cache },
};

static unsigned int kind;

static u64 values_put(u64 first, u64 most, size_t n)
{
	u64 i;

	for (i = 0; i < most; i++) {
		fill_random(bytes, n, first + i);
		if (ebb_values_put(values, first + i, bytes, n, 0))
			break;
	}
	return i;
}

/* ---- without a thread, and so before there is one ---- */

typedef void *(*thread_fn)(void *arg);

static bool no_threads;

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg)
{
	return no_threads ? EAGAIN : __real_pthread_create(id, attr, fn, arg);
}

CASE(without_a_thread_memory_comes_back_by_calls)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	unsigned int i;
	u64 k;

	no_threads = true;
	must_eq(open_values(), 0);
	must_eq(values_put(0, 8000, 4000), 8000);
	for (k = 0; k < 8000; k++)
		must_eq(ebb_values_delete(values, k), 0);
	for (i = 0; i < 100; i++) {
		must_eq(ebb_values_put(values, 1, bytes, 100, 0), 0);
		must_eq(ebb_stat(ebb_values_store(values), &stat), 0);
		if (stat.zone_bytes < 2 * MIB)
			break;
		usleep(50000);
	}
	must_be_at_most(stat.zone_bytes, 2 * MIB);
	must_eq(ebb_values_check(values, (char *)bytes, 200), 0);
	ebb_values_close(values);
	no_threads = false;
}

CASE(without_a_thread_a_spill_is_written_by_callers)
{
	char path[] = "/tmp/ebb-test-limits-XXXXXX";
	struct ebb_cache_stat stat = { .struct_size = sizeof(stat) };
	struct ebb_cache_config cfg;
	u64 k;
	int fd;

	fd = mkstemp(path);
	must(fd >= 0);
	no_threads = true;
	ebb_cache_config_init(&cfg);
	cfg.capacity = 8 * MIB;
	cfg.spill = path;
	cfg.spill_capacity = 32 * MIB;
	must_eq(ebb_cache_open(&cache, &cfg), 0);
	for (k = 0; k < 6000; k++) {
		fill_random(bytes, 4000, k);
		must_eq(ebb_cache_put(cache, &k, sizeof(k), bytes, 4000, 0, 0), 0);
	}
	must_eq(ebb_cache_stat(cache, &stat), 0);
	must(stat.spilled > 1000);
	must_be_at_most(stat.spill_dropped, stat.spilled / 100);
	ebb_cache_close(cache);
	no_threads = false;
	close(fd);
	unlink(path);
}

/* ---- empty ones ---- */

/* RLIMIT_AS; RLIMIT_DATA, and overcommit_memory 2; mlockall(), twice. */
static const char *const counts[] = { "VmSize", "VmData", "VmLck", "RssAnon" };

static int open_an_empty_one(void)
{
	u64 before[ARRAY_LEN(counts)];
	unsigned int i;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return 100;
	for (i = 0; i < ARRAY_LEN(counts); i++)
		before[i] = status_bytes(counts[i]);
	ANSWERS(kinds[kind].open(), 0);
	for (i = 0; i < ARRAY_LEN(counts); i++)
		if (status_bytes(counts[i]) > before[i] + 4 * MIB)
			return 1 + (int)i;
	return 0;
}

CASE(an_empty_one_takes_little_of_any_limit)
{
	int status;

	skip_if_shadowed();
	for (kind = 0; kind < ARRAY_LEN(kinds); kind++) {
		status = status_of_child(open_an_empty_one);
		must(WIFEXITED(status));
		if (WEXITSTATUS(status) == 100)
			skip_because("mlockall() is refused");
		if (WEXITSTATUS(status) && WEXITSTATUS(status) <= (int)ARRAY_LEN(counts))
			print_message("# %s: %s grew by more than 4 MiB\n", kinds[kind].what,
				      counts[WEXITSTATUS(status) - 1]);
		must_eq(WEXITSTATUS(status), 0);
	}
}

static u64 limit;

static int open_and_store_one(void)
{
	u64 has = status_bytes("VmSize") + limit;
	struct rlimit r = { has, has };

	fill_random(bytes, sizeof(bytes), 1);
	if (setrlimit(RLIMIT_AS, &r))
		return 2;
	if (kinds[kind].open())
		return 1;
	return kinds[kind].put() ? 3 : 0;
}

CASE(an_open_that_succeeds_can_store)
{
	unsigned int refused, opened;
	int status;

	skip_if_shadowed();
	for (kind = 0; kind < ARRAY_LEN(kinds); kind++) {
		refused = opened = 0;
		for (limit = 128 << 10; limit < 12 * MIB; limit += 128 << 10) {
			status = status_of_child(open_and_store_one);
			must(WIFEXITED(status));
			must(WEXITSTATUS(status) < 2);
			refused += WEXITSTATUS(status) == 1;
			opened += WEXITSTATUS(status) == 0;
		}
		must(refused);
		must(opened);
	}
}

/* ---- contexts ---- */

#define THREADS 24u
#define ONE_CONTEXT (2 * MIB)

static unsigned char data_of[THREADS][MIB];
static bool over;

static void *put_all_sizes(void *of)
{
	unsigned char *data = of;
	struct rng r = { (u64)(uintptr_t)of };
	void *arena = malloc(100);
	size_t n;

	while (!seen(&over)) {
		n = rng_below(&r, 2) ? MIB : 1 + rng_below(&r, 100000);
		memset(data + rng_below(&r, MIB - 50000), (int)rng_below(&r, 256), 50000);
		if (ebb_cache_put(cache, &r.s, sizeof(r.s), data, n, 0, 0))
			return of;
	}
	free(arena);
	return NULL;
}

/* glibc has an arena for each of the threads, and keeps what was freed there. */
static int put_by_many(void)
{
	u64 before, most = 0, now, until;
	pthread_t thread[THREADS];
	void *failed;
	unsigned int i;

	/* The threads' own memory comes first, and stays: their stacks, arenas and values. */
	tell(&over, true);
	for (i = 0; i < THREADS; i++) {
		fill_random(data_of[i], MIB, i);
		ANSWERS(pthread_create(&thread[i], NULL, put_all_sizes, data_of[i]), 0);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], &failed);
	tell(&over, false);
	before = status_bytes("RssAnon");
	ANSWERS(open_cache(), 0);
	for (i = 0; i < THREADS; i++)
		ANSWERS(pthread_create(&thread[i], NULL, put_all_sizes, data_of[i]), 0);
	until = ktime_get_ns() + scaled(2000) * 1000000;
	while (ktime_get_ns() < until) {
		now = status_bytes("RssAnon");
		most = now > most ? now : most;
		usleep(10000);
	}
	tell(&over, true);
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &failed);
		ANSWERS(failed == NULL, true);
	}
	if (getenv("EBB_TEST_FIGURES"))
		fprintf(stderr, "# %.3f of the capacity\n",
			((double)most - (double)before) / (8.0 * MIB));
	ANSWERS(most <= before + 8 * MIB / 100 * 106 + ONE_CONTEXT, true);
	ebb_cache_close(cache);
	ANSWERS(status_bytes("RssAnon") <= before + MIB, true);
	return 0;
}

CASE(contexts_of_many_threads_are_within_the_capacity)
{
	skip_if_shadowed();
	child_does(put_by_many);
}

/* ---- at mem_limit ---- */

CASE(a_value_that_fits_after_a_compaction_fits)
{
	static const size_t sizes[] = { 1000, 3000, 9000, 100000 };
	struct ebb_values_config cfg;
	unsigned int i;
	u64 n, k, gone;

	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		ebb_values_config_init(&cfg);
		cfg.mem_limit = 16 * MIB;
		must_eq(ebb_values_open(&values, &cfg), 0);
		n = values_put(0, UINT64_MAX, sizes[i]);
		must(n > 100);
		/* What is put in its place needs no more than it had. */
		fill_random(bytes, sizes[i], n);
		must_eq(ebb_values_put(values, 5, bytes, sizes[i], 0), 0);
		must_eq(ebb_values_put(values, 6, bytes, 10, 0), 0);
		for (k = 0, gone = 0; k < n; k += 16, gone++)
			must_eq(ebb_values_delete(values, k), 0);
		must(values_put(n, gone, sizes[i]) >= gone / 8 * 7);
		must_be_at_most(ebb_values_check(values, (char *)bytes, 200), 0);
		ebb_values_close(values);
	}
}

CASE(a_page_that_fits_after_a_compaction_fits)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct ebb_config cfg;
	u64 n, k, more;

	ebb_config_init(&cfg);
	cfg.slots = 200000;
	cfg.mem_limit = 16 * MIB;
	must_eq(ebb_open(&store, &cfg), 0);
	for (n = 0; n < cfg.slots; n++) {
		fill_random(bytes, 1000, n);
		if (ebb_put(store, n, bytes, 1000))
			break;
	}
	must(n > 10000);
	/* One in four is a hole that no page of another size goes into. */
	for (k = 0; k < n; k += 4)
		must_eq(ebb_free(store, k, 1), 0);
	for (more = 0; !ebb_put(store, n + more, bytes, 2000); more++)
		;
	must(more * 2000 >= n / 4 * 1000 / 8 * 7);
	must_eq(ebb_stat(store, &stat), 0);
	must_be_at_most(stat.mem_used_total, cfg.mem_limit);
	must_eq(ebb_check(store, (char *)bytes, 200), 0);
	ebb_close(store);
}
