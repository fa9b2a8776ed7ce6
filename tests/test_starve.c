// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_starve.c - threads that would keep another one out, if it could be kept out.
 *
 * test_progress.c counts steps where an adversary decides who runs.  Here it is the system that
 * decides, and what is measured is time.  The figures are printed as comments.
 */
#include "support.h"
#include "api/ebb.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define WRITES 100
#define MOST_READERS 64
#define FEW_READERS 8           /* against whom a write ends within FEW_NS, at the full dose */
#define FEW_NS 250000000u

static struct ebb_store *store;
static bool stop;

static void *read_without_a_pause(void *arg)
{
	char buf[PAGE_SIZE];
	u64 *reads = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		if (ebb_read(store, 0, buf, PAGE_SIZE))
			abort();
		__atomic_fetch_add(reads, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static u64 sum(const u64 *reads, unsigned int n)
{
	u64 all = 0;

	while (n--)
		all += __atomic_load_n(&reads[n], __ATOMIC_RELAXED);
	return all;
}

/* Writes one slot while n threads read it, and returns the longest of the writes in ns. */
static u64 writes_against(const char *codec, unsigned int n)
{
	static u64 took[WRITES], reads[MOST_READERS];
	unsigned char page[PAGE_SIZE];
	pthread_t reader[MOST_READERS];
	struct ebb_config cfg;
	u64 begun, all;
	unsigned int i;

	ebb_config_init(&cfg);
	cfg.slots = 1;
	cfg.codec = codec;
	must_eq(ebb_open(&store, &cfg), 0);
	for (i = 0; i < PAGE_SIZE; i++)
		page[i] = "text that compresses, but not to nothing"[(i * 7 + i / 64 * 5) % 40];
	must_eq(ebb_write(store, 0, page, PAGE_SIZE), 0);
	stop = false;
	for (i = 0; i < n; i++) {
		reads[i] = 0;
		must_eq(pthread_create(&reader[i], NULL, read_without_a_pause, &reads[i]), 0);
	}
	for (i = 0; i < WRITES; i++) {
		page[7] = (unsigned char)i;
		/* Not before they all are in the middle of it. */
		for (all = sum(reads, n); sum(reads, n) < all + 2 * n;)
			sched_yield();
		begun = ktime_get_ns();
		must_eq(ebb_write(store, 0, page, PAGE_SIZE), 0);
		took[i] = ktime_get_ns() - begun;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < n; i++)
		pthread_join(reader[i], NULL);
	must_eq(ebb_check(store, NULL, 0), 0);
	ebb_close(store);
	qsort(took, WRITES, sizeof(took[0]), by_time);
	print_message("# %s, %u readers: %d writes of one slot, median %.3f ms, longest %.1f ms; %lu reads\n",
		      codec, n, WRITES, (double)took[WRITES / 2] / 1e6,
		      (double)took[WRITES - 1] / 1e6, sum(reads, n));
	return took[WRITES - 1];
}

CASE(writes_of_a_slot_end_however_many_read_it)
{
	static const char *const codecs[] = { "lz4", "zstd" };
	static const unsigned int readers[] = { 1, 2, FEW_READERS, MOST_READERS };
	bool quick = scaled(100) >= 100 && !SHADOWED;

	for (unsigned int c = 0; c < ARRAY_LEN(codecs); c++)
		for (unsigned int r = 0; r < ARRAY_LEN(readers); r++)
			must_be_at_most(writes_against(codecs[c], readers[r]),
					quick && readers[r] <= FEW_READERS ? FEW_NS : 5000000000u);
}

static struct mutex mutex;
static u64 turns;

/* Gives it back and takes it again at once, as long as it is allowed to. */
static void *hog(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		u64 until;

		mutex_lock(&mutex);
		for (until = ktime_get_ns() + 100000; ktime_get_ns() < until;)
			;
		__atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED);
		mutex_unlock(&mutex);
	}
	return NULL;
}

CASE(who_waits_for_a_sleeping_lock_gets_it_after_a_bounded_number_of_others)
{
	enum { HOGS = 6, ROUNDS = 30 };
	pthread_t thread[HOGS];
	u64 before, most = 0;

	mutex_init(&mutex);
	stop = false;
	for (unsigned int i = 0; i < HOGS; i++)
		must_eq(pthread_create(&thread[i], NULL, hog, NULL), 0);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		before = __atomic_load_n(&turns, __ATOMIC_RELAXED);
		mutex_lock(&mutex);
		before = __atomic_load_n(&turns, __ATOMIC_RELAXED) - before;
		mutex_unlock(&mutex);
		most = before > most ? before : most;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < HOGS; i++)
		pthread_join(thread[i], NULL);
	must_eq(mutex.state, 0);
	print_message("# %u threads hold a lock for 0.1 ms, again and again: another waits for at most %lu turns\n",
		      (unsigned int)HOGS, most);
	/*
	 * A turn of each, those of a starving time, and those of a machine that does other things.
	 */
	must(most < 200);
	mutex_destroy(&mutex);
}

static void *take(void *arg)
{
	mutex_lock(&mutex);
	__atomic_store_n((bool *)arg, true, __ATOMIC_RELEASE);
	mutex_unlock(&mutex);
	return NULL;
}

__no_context_analysis        /* it tries what it holds */
CASE(nobody_comes_in_before_a_waiter_that_starves)
{
	bool taken = false;
	pthread_t thread;
	u64 until;

	mutex_init(&mutex);
	mutex.state = HOST_USER_WAITER + HOST_USER_STARVER;
	must(!mutex_trylock(&mutex));
	must_eq(pthread_create(&thread, NULL, take, &taken), 0);
	while ((__atomic_load_n(&mutex.state, __ATOMIC_RELAXED) & HOST_USER_WAITERS) <
	       2 * HOST_USER_WAITER)
		must(!__atomic_load_n(&taken, __ATOMIC_ACQUIRE));
	for (until = ktime_get_ns() + 20000000; ktime_get_ns() < until;)
		must(!__atomic_load_n(&taken, __ATOMIC_ACQUIRE));
	/* The starving one had its turn. */
	__atomic_fetch_sub(&mutex.state, HOST_USER_WAITER + HOST_USER_STARVER, __ATOMIC_RELAXED);
	host_user_mutex_ring(&mutex);
	pthread_join(thread, NULL);
	must_eq(mutex.state, 0);
	must(mutex_trylock(&mutex));
	must(!mutex_trylock(&mutex));
	mutex_unlock(&mutex);
	mutex_destroy(&mutex);
}
