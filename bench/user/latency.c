// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user latency: how long one call takes at most, alone and while other threads let go of
 * everything.
 *
 *   timed thread    | fill | .... | store, read, free, each with a clock around it | .... |
 *   other threads   | .... | fill | free everything, one object after another      | rest |
 *                                 ^ the window opens                               ^ it closes
 *
 * The window closes when what Ebb holds back has been released, too: the release shares the CPUs
 * with the timed thread.  Without other threads there is one window of a fixed number of calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "allocators.h"
#include "codec.h"
#include "team.h"

#define EXITS 20u            /* times that the others fill and free everything */
#define LIVE 4096            /* objects that the timed thread has at a time */
#define ALONE_CALLS 200000   /* of each kind, without other threads */
#define SAMPLES_MOST (1u << 20)
#define PAGE_EVERY 8         /* of so many objects one has a page for itself */
/* A window stays open until less than this is held back, or for so long. */
#define HELD_BACK_ENOUGH (1u << 20)
#define WINDOW_MOST_NS 500000000u
/* What a free that does nothing takes, so that its windows last. */
#define NOTHING_NS 50

struct samples {
	uint32_t *ns;
	size_t n, lost;
	uint32_t lost_max;
};

/* GIVE_BACK is a free of an object that has a page for itself. */
enum { STORE, READ, FREE, GIVE_BACK, OPS };

static const char *const ops[] = { "store", "read", "free", "give-back", NULL };

enum { CALLS, P50, P99, P999, LONGEST, LOST, LOST_LONGEST };

static const struct column columns[] = {
	COUNT(CALLS, "samples"), SPREAD(P50, "p50_ns", 0), SPREAD(P99, "p99_ns", 0),
	SPREAD(P999, "p999_ns", 0), SPREAD(LONGEST, "max_ns", 0), COUNT(LOST, "lost"),
	SPREAD(LOST_LONGEST, "lost_max_ns", 0),
	{ .key = NULL },
};

struct run {
	struct objects objects;  /* the timed thread's slots come last */
	unsigned int others;
	uint64_t each;           /* objects of each other thread */
	const struct packed_set *packed;
	unsigned char *page;     /* does not compress */
	pthread_barrier_t all;
	atomic_uint freeing;     /* other threads that are not done */
	atomic_bool open;
	struct samples op[OPS];
};

/* Object i of the endless sequence that the timed thread stores. */
static const void *object(const struct run *r, uint64_t i, size_t *n)
{
	if (i % PAGE_EVERY == 0) {
		*n = ebb_page_size();
		return r->page;
	}
	return packed_object(r->packed, i % r->packed->count, n);
}

/* How often this thread had to leave its CPU to another one. */
static long cpu_losses(void)
{
	struct rusage use;

	getrusage(RUSAGE_THREAD, &use);
	return use.ru_nivcsw;
}

static void add(struct samples *s, uint64_t ns, bool lost)
{
	uint32_t v = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;

	if (lost) {
		s->lost++;
		if (v > s->lost_max)
			s->lost_max = v;
	} else if (s->n < SAMPLES_MOST) {
		s->ns[s->n++] = v;
	}
}

#define TIMED(r, which, call) do { \
	long losses = cpu_losses(); \
	uint64_t at = now_ns(), took; \
	\
	ret |= (call); \
	took = now_ns() - at; \
	add(&(r)->op[which], took, cpu_losses() != losses); \
} while (0)

/* One object comes, one is read, the oldest one goes; *i counts them. */
static int turn(struct run *r, uint64_t *i, uint64_t *seed, void *buf)
{
	uint64_t base = r->objects.slots - LIVE, slot = base + *i % LIVE;
	uint64_t read = rng_below(seed, LIVE - 1);
	const void *data;
	size_t n;
	int ret = 0;

	data = object(r, *i - LIVE, &n);
	if (n == ebb_page_size())
		TIMED(r, GIVE_BACK, objects_drop(&r->objects, slot));
	else
		TIMED(r, FREE, objects_drop(&r->objects, slot));
	data = object(r, *i, &n);
	if (n == ebb_page_size())
		ret |= objects_put(&r->objects, slot, data, n);
	else
		TIMED(r, STORE, objects_put(&r->objects, slot, data, n));
	/* Of those that stay, counted from the newest. */
	object(r, *i - read, &n);
	if (n < ebb_page_size())
		TIMED(r, READ, objects_get(&r->objects, base + (*i - read) % LIVE, buf, n));
	++*i;
	return ret;
}

static int timed_thread(struct run *r)
{
	void *buf = xmap(ebb_page_size());
	uint64_t seed = 1, i;
	int ret = 0;

	for (i = 0; i < LIVE; i++) {
		size_t n;
		const void *data = object(r, i, &n);

		ret |= objects_put(&r->objects, r->objects.slots - LIVE + i, data, n);
	}
	for (unsigned int k = 0; k < ALONE_CALLS && !r->others && !interrupted(); k++)
		ret |= turn(r, &i, &seed, buf);
	for (unsigned int e = 0; r->others && e < EXITS; e++) {
		pthread_barrier_wait(&r->all);
		while (atomic_load_explicit(&r->open, memory_order_acquire))
			ret |= turn(r, &i, &seed, buf);
		pthread_barrier_wait(&r->all);
	}
	for (uint64_t s = r->objects.slots - LIVE; s < r->objects.slots; s++)
		ret |= objects_drop(&r->objects, s);
	xunmap(buf, ebb_page_size());
	return ret;
}

/* The last one to be done waits for what is held back, and closes the window. */
static void done_freeing(struct run *r)
{
	uint64_t since = now_ns();
	struct ebb_stat st;

	if (atomic_fetch_sub(&r->freeing, 1) > 1)
		return;
	while (r->objects.store && now_ns() - since < WINDOW_MOST_NS) {
		store_stat(r->objects.store, &st);
		if (st.held_back_bytes < HELD_BACK_ENOUGH)
			break;
		sleep_us(50);
	}
	atomic_store_explicit(&r->open, false, memory_order_release);
}

static int other_thread(struct run *r, unsigned int who)
{
	uint64_t first = who * r->each, end = first + r->each;
	int ret = 0;

	for (unsigned int e = 0; e < EXITS; e++) {
		for (uint64_t s = first; s < end; s++) {
			size_t n;
			const void *data = packed_object(r->packed, s % r->packed->count, &n);

			ret |= objects_put(&r->objects, s, data, n);
		}
		if (!who) {
			atomic_store(&r->freeing, r->others);
			atomic_store(&r->open, !interrupted());
		}
		pthread_barrier_wait(&r->all);
		if (r->objects.a->nothing) {
			uint64_t until = now_ns() + r->each * NOTHING_NS;

			while (now_ns() < until)
				;
		}
		for (uint64_t s = first; s < end; s++)
			ret |= objects_drop(&r->objects, s);
		done_freeing(r);
		pthread_barrier_wait(&r->all);
	}
	return ret;
}

static int work(void *arg, unsigned int i)
{
	struct run *r = arg;

	return (i ? other_thread(r, i - 1) : timed_thread(r)) ? -ENOMEM : 0;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Of sorted samples the least that so many thousandths do not pass. */
static double rank(const struct samples *s, size_t thousandths)
{
	return s->ns[(s->n * thousandths + 999) / 1000 - 1];
}

static void summarize(struct samples *s, double *v)
{
	v[CALLS] = (double)s->n;
	v[LOST] = (double)s->lost;
	v[LOST_LONGEST] = s->lost_max;
	v[P50] = v[P99] = v[P999] = v[LONGEST] = 0;
	if (!s->n)
		return;
	qsort(s->ns, s->n, sizeof(*s->ns), by_size);
	v[P50] = rank(s, 500);
	v[P99] = rank(s, 990);
	v[P999] = rank(s, 999);
	v[LONGEST] = s->ns[s->n - 1];
}

static void latency_run(const struct bench_run *b, bench_figures v)
{
	static struct run r;
	uint64_t seed = 99;

	r.packed = b->loaded;
	r.others = b->threads;
	r.page = xmap(ebb_page_size());
	for (size_t i = 0; i < ebb_page_size(); i += sizeof(seed)) {
		uint64_t word = rng_next(&seed);

		memcpy(r.page + i, &word, sizeof(word));
	}
	r.each = b->o->size / ebb_page_size();
	for (int k = 0; k < OPS; k++) {
		r.op[k].ns = xmap(SAMPLES_MOST * sizeof(*r.op[k].ns));
		memset(r.op[k].ns, 1, SAMPLES_MOST * sizeof(*r.op[k].ns));
	}
	objects_open(&r.objects, allocator_find(b->variant), r.others * r.each + LIVE);
	objects_open_store(&r.objects);
	if (pthread_barrier_init(&r.all, NULL, r.others + 1))
		fail("cannot make a barrier");
	team_run(r.others + 1, work, &r, "cannot store an object");
	for (int k = 0; k < OPS; k++)
		summarize(&r.op[k], v[k]);
	objects_close(&r.objects);
}

static const char *const variants[] = {
	"ebb", "ebb-sync", "mimalloc", "jemalloc", "tcmalloc", "glibc", "nothing", NULL,
};

const struct bench latency_bench = {
	BENCH("latency", "how long a single store, read or free takes at most",
"One thread stores, reads and frees objects, pages compressed with lz4, and looks at the clock\n"
"around each call: alone, and while other threads free all that they have, one object after\n"
"another.  Objects are kept by ebb_put() and ebb_free() (`ebb`, deferred, and `ebb-sync`), and\n"
"by malloc() and free() of each allocator that is installed.  `nothing` is calls that do\n"
"nothing: what the clock and the machine add.  `give-back` is the free of an object that has a\n"
"page for itself; with `ebb-sync` the page goes back in that call.\n"
"\n"
"A call in which the thread lost its CPU to another one is counted under lost, and is in\n"
"none of the other columns; one that waited for a lock is.  The columns are medians of the\n"
"rounds, max_ns too.  While the others free, calls are timed until what Ebb holds back has\n"
"been released."),
	.data_key = "data", .rows = 4,
	.defaults = {
		.threads = { { 0, 4 }, 2 }, .data = { { "system" }, 1 }, .size = 64 << 20,
		.rounds = 3,
	},
	.variants = variants, .variant_key = "allocator", .threads_key = "others",
	.part_key = "op", .parts = ops, .columns = columns, .copies = 2, .copies_each = true,
	.preloads = true, .load = packed_load, .run = latency_run,
};
