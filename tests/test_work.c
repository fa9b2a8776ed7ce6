// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_work.c - the user home's executor: what is queued runs, in time, once at a time, on few
 * threads, on none that stays, and without any if none can be made.
 */
#include "support.h"
#include "codecs/codecs.h"
#include "api/ebb.h"
#include "api/lazy.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#define WORKS 1000u
#define MS 1000000ull

/* ---- threads that are made, or are not ---- */

static bool none_can_be_made;
static struct streams *being_made;
static u32 made;
static u32 refused;

typedef void *(*thread_fn)(void *arg);

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr, thread_fn fn, void *arg)
{
	if (READ_ONCE(none_can_be_made)) {
		__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
		return EAGAIN;
	}
	/* Whoever wants a stream meanwhile need not wait for a thread to be made. */
	for (u32 i = 0; being_made && i < being_made->n; i++) {
		must(mutex_trylock(&being_made->stream[i].lock));
		mutex_unlock(&being_made->stream[i].lock);
		made++;
	}
	return __real_pthread_create(id, attr, fn, arg);
}

/* Threads of the process whose name begins so; what a sanitizer has of its own is not counted. */
static unsigned int threads_named(const char *begin)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;
	struct dirent *d;

	must(dir != NULL);
	while ((d = readdir(dir))) {
		char path[300], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", d->d_name);
		f = d->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (!f)
			continue;
		n += fgets(name, sizeof(name), f) && !strncmp(name, begin, strlen(begin));
		fclose(f);
	}
	closedir(dir);
	return n;
}

static unsigned int most_threads(void)
{
	return nr_cpu_ids / 4 + 2;
}

/* ---- items ---- */

static struct item {
	struct host_work work;
	u32 in, twice, runs;
	u64 ran_at;
} *item;

static u32 run_us;             /* how long a run takes */

static void count_run(struct host_work *w)
{
	struct item *it = (struct item *)w;

	if (__atomic_fetch_add(&it->in, 1, __ATOMIC_ACQ_REL))
		WRITE_ONCE(it->twice, 1);
	WRITE_ONCE(it->ran_at, ktime_get_ns());
	if (READ_ONCE(run_us))
		usleep(run_us);
	__atomic_fetch_add(&it->runs, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_sub(&it->in, 1, __ATOMIC_ACQ_REL);
}

/* For a case that begins with it; clean_up() ends them. */
static void items(void)
{
	unsigned int i;

	item = calloc(WORKS, sizeof(*item));
	must(item != NULL);
	for (i = 0; i < WORKS; i++)
		must_eq(host_work_init(&item[i].work, count_run, 0), 0);
}

void clean_up(void)
{
	unsigned int i;

	for (i = 0; item && i < WORKS; i++)
		host_work_destroy(&item[i].work);
	free(item);
	item = NULL;
	host_user_idle_ns = 10000 * MS;
	run_us = 0;
}

static u32 runs_of(const struct item *it)
{
	return __atomic_load_n(&it->runs, __ATOMIC_ACQUIRE);
}

/* Waits until all items ran so often in all; 20 s are for ever. */
static void wait_for_runs(u64 runs)
{
	u64 end = ktime_get_ns() + 20000 * MS, n;
	unsigned int i;

	do {
		usleep(100);
		for (n = i = 0; i < WORKS; i++)
			n += runs_of(&item[i]);
		must(ktime_get_ns() < end);
	} while (n < runs);
	must_eq(n, runs);
}

/* ---- cases ---- */

CASE(a_thousand_items_share_a_few_threads)
{
	unsigned int i, most = 0, n;

	items();
	must_eq(threads_named("ebb-"), 0);
	for (i = 0; i < WORKS; i++) {
		host_work_queue(&item[i].work);
		if (i % 50 == 0) {
			n = threads_named("ebb-");
			most = n > most ? n : most;
		}
	}
	wait_for_runs(WORKS);
	must_be_at_most(most, most_threads());
	must(threads_named("ebb-count") >= 1);
}

static u64 delay_of(unsigned int i)
{
	return i * 37 % 100 + 1;
}

CASE(a_delay_is_kept_and_the_earlier_time_wins)
{
	u64 begun = ktime_get_ns();
	unsigned int i, k;

	items();
	/* In an order that is not theirs. */
	for (i = 0; i < 100; i++)
		host_work_queue_delayed(&item[i].work, delay_of(i) * 1000);
	host_work_queue_delayed(&item[200].work, 3600ull * 1000000);
	host_work_queue_delayed(&item[200].work, 50000);
	host_work_queue_delayed(&item[200].work, 90000);
	wait_for_runs(101);
	for (i = 0; i < 100; i++) {
		must(item[i].ran_at - begun >= delay_of(i) * MS);
		/*
		 * They go by their times, but for those that run side by side, on a busy machine.
		 */
		for (k = 0; k < 100; k++)
			must(delay_of(i) + 60 > delay_of(k) || item[i].ran_at <= item[k].ran_at);
	}
	must(item[200].ran_at - begun >= 50 * MS);
	for (i = 0; i < 100; i++)
		must_eq(runs_of(&item[i]), 1);
}

CASE(a_flush_cuts_a_delay_short)
{
	items();
	host_work_queue_delayed(&item[0].work, 3600ull * 1000000);
	host_work_queue_delayed(&item[1].work, 3600ull * 1000000);
	host_work_flush(&item[0].work);
	must_eq(runs_of(&item[0]), 1);
	must_eq(runs_of(&item[1]), 0);
	host_work_flush(&item[0].work);
	must_eq(runs_of(&item[0]), 1);
}

static u64 queued[4];

static void *queue_and_flush(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg;
	struct rng r = { me + test_seed };
	unsigned long steps = scaled(4000);

	while (steps--) {
		struct item *it = &item[rng_below(&r, 8)];
		u32 before = runs_of(it);

		switch (rng_below(&r, 8)) {
		case 0:
			host_work_flush(&it->work);
			break;
		case 1:
			host_work_queue(&it->work);
			host_work_flush(&it->work);
			if (runs_of(it) == before)
				queued[me] = 1;
			break;
		case 2:
			host_user_work_hold(&it->work);
			host_user_work_let(&it->work);
			break;
		default:
			host_work_queue_delayed(&it->work, rng_below(&r, 200));
		}
	}
	return NULL;
}

CASE(an_item_runs_once_at_a_time_and_no_queuing_is_lost)
{
	pthread_t id[4];
	unsigned int i;

	items();
	use_seed(0x776f726b);
	run_us = 50;
	for (i = 0; i < 4; i++)
		must_eq(pthread_create(&id[i], NULL, queue_and_flush, (void *)(uintptr_t)i), 0);
	for (i = 0; i < 4; i++) {
		must_eq(pthread_join(id[i], NULL), 0);
		must_eq(queued[i], 0);
	}
	for (i = 0; i < 8; i++) {
		host_work_flush(&item[i].work);
		must_eq(item[i].twice, 0);
		must_eq(READ_ONCE(item[i].work.wake), HOST_USER_NO_WAKE);
	}
	must_be_at_most(threads_named("ebb-"), most_threads());
}

CASE(without_threads_callers_run_what_is_due)
{
	unsigned int i;

	items();
	WRITE_ONCE(none_can_be_made, true);
	for (i = 0; i < WORKS; i++)
		host_work_queue_delayed(&item[i].work, i % 2 ? 0 : 1000000);
	must(refused >= 1);
	must_eq(threads_named("ebb-"), 0);
	/* The others wait for who can. */
	wait_for_runs(WORKS / 2);
	host_work_flush(&item[2].work);
	wait_for_runs(WORKS / 2 + 1);
	WRITE_ONCE(none_can_be_made, false);
	/*
	 * Whoever comes next has a thread made for all of them, though this one is queued already.
	 */
	usleep(20000);
	host_work_queue_delayed(&item[0].work, 1000000);
	wait_for_runs(WORKS);
}

CASE(threads_without_work_end)
{
	u64 end = ktime_get_ns() + 60000 * MS;
	unsigned int turn;

	items();
	WRITE_ONCE(host_user_idle_ns, 5 * MS);
	/* More often than there are places for threads. */
	for (turn = 1; turn <= 80; turn++) {
		host_work_queue(&item[turn].work);
		host_work_queue(&item[0].work);
		while (!runs_of(&item[turn]) || threads_named("ebb-")) {
			usleep(500);
			must(ktime_get_ns() < end);
		}
	}
}

static void slow(struct host_work *w)
{
	WRITE_ONCE(((struct item *)w)->ran_at, 1);
	usleep(50000);
	count_run(w);
}

CASE(what_is_queued_in_a_run_runs_after_it)
{
	items();
	run_us = 20000;
	host_work_queue(&item[0].work);
	while (!READ_ONCE(item[0].ran_at))
		usleep(100);
	host_work_queue(&item[0].work);
	wait_for_runs(2);
	must_eq(item[0].twice, 0);
}

CASE(destroying_waits_for_what_runs_and_cancels_the_rest)
{
	struct item *it = calloc(1, sizeof(*it));

	must(it != NULL);
	must_eq(host_work_init(&it->work, slow, 0), 0);
	host_work_queue(&it->work);
	while (!READ_ONCE(it->ran_at))
		usleep(100);
	host_work_queue(&it->work);
	host_work_destroy(&it->work);
	must_eq(runs_of(it), 1);
	/* Until its memory is given back. */
	host_work_queue(&it->work);
	usleep(1000);
	must_eq(runs_of(it), 1);
	free(it);
}

CASE(one_that_takes_long_holds_up_no_timer)
{
	struct item *it = calloc(1, sizeof(*it));
	u64 begun;

	items();
	must(it != NULL);
	must_eq(host_work_init(&it->work, slow, 0), 0);
	begun = ktime_get_ns();
	host_work_queue_delayed(&item[0].work, 2000);
	host_work_queue(&it->work);
	wait_for_runs(1);
	must(runs_of(it) == 0 || item[0].ran_at - begun < 40 * MS);
	host_work_destroy(&it->work);
	free(it);
}

static u32 hang;

static void hangs(struct host_work *w)
{
	while (READ_ONCE(hang))
		usleep(1000);
	count_run(w);
}

/* Each waits for a disk of its own, however many there are; what others queue runs. */
CASE(slow_items_that_hang_hold_up_nobody)
{
	unsigned int n = most_threads() + 67, i;
	struct item *it = calloc(n, sizeof(*it));

	items();
	must(it != NULL);
	WRITE_ONCE(hang, 1);
	for (i = 0; i < n; i++) {
		must_eq(host_work_init_slow(&it[i].work, hangs, 0), 0);
		host_work_queue(&it[i].work);
	}
	usleep(20000);
	for (i = 0; i < 10; i++)
		host_work_queue_delayed(&item[i].work, 1000 * i);
	wait_for_runs(10);
	for (i = 0; i < n; i++)
		must_eq(runs_of(&it[i]), 0);
	WRITE_ONCE(hang, 0);
	for (i = 0; i < n; i++) {
		host_work_flush(&it[i].work);
		must_eq(runs_of(&it[i]), 1);
		host_work_destroy(&it[i].work);
	}
	free(it);
}

#define STORES 20

CASE(stores_share_threads_and_leave_none)
{
	struct ebb_store *store[STORES];
	static char page[PAGE_SIZE];
	struct ebb_config cfg;
	unsigned int i;

	ebb_config_init(&cfg);
	cfg.slots = 100;
	for (i = 0; i < STORES; i++)
		must_eq(ebb_open(&store[i], &cfg), 0);
	must_eq(threads_named("ebb-"), 0);
	for (i = 0; i < STORES; i++) {
		fill_random(page, sizeof(page), i);
		must_eq(ebb_write(store[i], 1, page, sizeof(page)), 0);
		must_eq(ebb_free(store[i], 1, 1), 0);
	}
	/* One more for each slow item that runs: a store that is at rest again has one. */
	must_be_at_most(threads_named("ebb-"), most_threads() + STORES / 4);
	for (i = 0; i < STORES; i++)
		ebb_close(store[i]);
	must_eq(threads_named("ebb-"), 0);
}

#define ZSTD_STORES 32

static u32 contexts;

ZSTD_CCtx *__real_ZSTD_createCCtx_advanced(ZSTD_customMem memory);
ZSTD_CCtx *__wrap_ZSTD_createCCtx_advanced(ZSTD_customMem memory);

ZSTD_CCtx *__wrap_ZSTD_createCCtx_advanced(ZSTD_customMem memory)
{
	__atomic_fetch_add(&contexts, 1, __ATOMIC_RELAXED);
	return __real_ZSTD_createCCtx_advanced(memory);
}

CASE(stores_share_codec_contexts)
{
	struct ebb_store *store[ZSTD_STORES];
	static char page[PAGE_SIZE];
	struct ebb_config cfg;
	unsigned int i;

	ebb_config_init(&cfg);
	cfg.slots = 100;
	cfg.codec = "zstd";
	host_user_set_nr_cpus(64);
	for (i = 0; i < ZSTD_STORES; i++) {
		must_eq(ebb_open(&store[i], &cfg), 0);
		fill_random(page, sizeof(page) / 2, i);
		must_eq(ebb_write(store[i], 1, page, sizeof(page)), 0);
	}
	for (i = 0; i < ZSTD_STORES; i++)
		ebb_close(store[i]);
	host_user_set_nr_cpus(0);
	/* Each CPU that this thread was on may have asked for one. */
	must(contexts > 0);
	must_be_at_most(contexts, ZSTD_STORES / 4);
}

CASE(no_thread_is_made_with_a_stream_in_hand)
{
	const struct codec_params params = { .level = codec_lz4.default_level };
	struct lazy_streams lazy;
	struct streams *t = &lazy.streams;
	struct stream *st;

	must_eq(lazy_init(&lazy, &codec_lz4, &params), 0);
	/* The first has its context: all CPUs go to another, if there is one. */
	for (u32 i = 0; i < nr_cpu_ids; i++)
		t->first[i] = t->n > 1 ? 2 : 1;
	being_made = t;
	made = 0;
	st = stream_get(t);
	must(st->ctx != NULL);
	stream_put(st);
	being_made = NULL;
	print_message("# %u streams seen free as a thread was made\n", made);
	must(made || t->n == 1);
	lazy_destroy(&lazy);
}
