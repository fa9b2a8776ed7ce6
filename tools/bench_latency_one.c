// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One run of one allocator for `ebb bench latency`, in a process of its own.
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
#include <unistd.h>

#include "allocators.h"
#include "bench.h"
#include "bench_latency.h"
#include "codec_alone.h"
#include "config.h"
#include "ebb.h"

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

struct run {
	bool nothing, store;
	uint64_t release_limit;
	unsigned int others, exits;
	uint64_t each;           /* objects of each other thread */
	struct packed_set objects;
	unsigned char *page;     /* does not compress */
	struct ebb_store *ebb;
	void **held;             /* malloc's: object in slot i; the timed thread's come last */
	uint64_t slots;
	pthread_barrier_t all;
	atomic_uint freeing;     /* other threads that are not done */
	atomic_bool open;
	struct samples op[LATENCY_OPS];
};

static int put(struct run *r, uint64_t slot, const void *data, size_t n)
{
	if (r->nothing)
		return 0;
	if (r->store)
		return ebb_put(r->ebb, slot, data, n);
	r->held[slot] = malloc(n);
	if (!r->held[slot])
		return -ENOMEM;
	memcpy(r->held[slot], data, n);
	return 0;
}

static int get(struct run *r, uint64_t slot, void *buf, size_t n)
{
	size_t found;

	if (r->nothing)
		return 0;
	if (r->store)
		return ebb_get(r->ebb, slot, buf, ebb_page_size(), &found);
	memcpy(buf, r->held[slot], n);
	return 0;
}

static int drop(struct run *r, uint64_t slot)
{
	if (r->nothing)
		return 0;
	if (r->store)
		return ebb_free(r->ebb, slot, 1);
	free(r->held[slot]);
	return 0;
}

/* Object i of the endless sequence that the timed thread stores. */
static const void *object(const struct run *r, uint64_t i, size_t *n)
{
	size_t k = i % r->objects.count;

	if (i % PAGE_EVERY == 0) {
		*n = ebb_page_size();
		return r->page;
	}
	*n = packed_size(&r->objects, k);
	return r->objects.bytes + r->objects.at[k];
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
	uint64_t base = r->slots - LIVE, slot = base + *i % LIVE, read = rng_below(seed, LIVE - 1);
	const void *data;
	size_t n;
	int ret = 0;

	data = object(r, *i - LIVE, &n);
	if (n == ebb_page_size())
		TIMED(r, LATENCY_GIVE_BACK, drop(r, slot));
	else
		TIMED(r, LATENCY_FREE, drop(r, slot));
	data = object(r, *i, &n);
	if (n == ebb_page_size())
		ret |= put(r, slot, data, n);
	else
		TIMED(r, LATENCY_STORE, put(r, slot, data, n));
	/* Of those that stay, counted from the newest. */
	object(r, *i - read, &n);
	if (n < ebb_page_size())
		TIMED(r, LATENCY_READ, get(r, base + (*i - read) % LIVE, buf, n));
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

		ret |= put(r, r->slots - LIVE + i, data, n);
	}
	for (unsigned int k = 0; k < ALONE_CALLS && !r->others && !interrupted(); k++)
		ret |= turn(r, &i, &seed, buf);
	for (unsigned int e = 0; r->others && e < r->exits; e++) {
		pthread_barrier_wait(&r->all);
		while (atomic_load_explicit(&r->open, memory_order_acquire))
			ret |= turn(r, &i, &seed, buf);
		pthread_barrier_wait(&r->all);
	}
	for (uint64_t s = r->slots - LIVE; s < r->slots; s++)
		ret |= drop(r, s);
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
	while (r->store && now_ns() - since < WINDOW_MOST_NS) {
		store_stat(r->ebb, &st);
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

	for (unsigned int e = 0; e < r->exits; e++) {
		for (uint64_t s = first; s < end; s++) {
			size_t k = s % r->objects.count;

			ret |= put(r, s, r->objects.bytes + r->objects.at[k],
				   packed_size(&r->objects, k));
		}
		if (!who) {
			atomic_store(&r->freeing, r->others);
			atomic_store(&r->open, !interrupted());
		}
		pthread_barrier_wait(&r->all);
		if (r->nothing) {
			uint64_t until = now_ns() + r->each * NOTHING_NS;

			while (now_ns() < until)
				;
		}
		for (uint64_t s = first; s < end; s++)
			ret |= drop(r, s);
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

static void summarize(struct samples *s, struct latency_op_result *out)
{
	out->samples = (double)s->n;
	out->lost = (double)s->lost;
	out->lost_max_ns = s->lost_max;
	if (!s->n)
		return;
	qsort(s->ns, s->n, sizeof(*s->ns), by_size);
	out->p50_ns = rank(s, 500);
	out->p99_ns = rank(s, 990);
	out->p999_ns = rank(s, 999);
	out->max_ns = s->ns[s->n - 1];
}

static void measure(struct run *r, uint64_t bytes, const char *data, struct latency_result *res)
{
	static struct team_times times;
	struct page_set set;
	uint64_t seed = 99;

	data_load(&set, data, bytes);
	packed_load(&r->objects, &set, "lz4", EBB_LEVEL_DEFAULT);
	data_unload(&set);
	r->page = xmap(ebb_page_size());
	for (size_t i = 0; i < ebb_page_size(); i += sizeof(seed)) {
		uint64_t v = rng_next(&seed);

		memcpy(r->page + i, &v, sizeof(v));
	}
	r->each = bytes / ebb_page_size();
	r->slots = r->others * r->each + LIVE;
	for (int k = 0; k < LATENCY_OPS; k++) {
		r->op[k].ns = xmap(SAMPLES_MOST * sizeof(*r->op[k].ns));
		memset(r->op[k].ns, 1, SAMPLES_MOST * sizeof(*r->op[k].ns));
	}
	if (r->store) {
		struct ebb_config cfg;

		ebb_config_init(&cfg);
		cfg.slots = r->slots;
		cfg.release_limit = r->release_limit;
		must(ebb_open(&r->ebb, &cfg), "cannot open a store");
	} else {
		r->held = xmap(r->slots * sizeof(*r->held));
	}
	if (pthread_barrier_init(&r->all, NULL, r->others + 1))
		fail("cannot make a barrier");
	team_run(r->others + 1, work, r, &times, "cannot store an object");
	for (int k = 0; k < LATENCY_OPS; k++)
		summarize(&r->op[k], &res->op[k]);
	ebb_close(r->ebb);
}

static int latency_one(const struct command *cmd, int argc, char **argv)
{
	const struct allocator *a;
	struct latency_result res = { .loaded = true };
	static struct run r;

	if (argc != LATENCY_ONE_ARGS)
		usage_fail("%s: expected an allocator, threads, exits, bytes and data", cmd->name);
	a = allocator_find(argv[0]);
	r.nothing = !strcmp(argv[0], LATENCY_NOTHING);
	if (!r.nothing && !a)
		usage_fail("%s: expected the name of an allocator", argv[0]);
	if (a) {
		r.store = a->store;
		r.release_limit = a->release_limit;
		res.loaded = allocator_is_here(a);
	}
	r.others = (unsigned int)strtoul(argv[1], NULL, 10);
	r.exits = (unsigned int)strtoul(argv[2], NULL, 10);
	if (r.others >= THREADS_MAX)
		usage_fail("%s: expected fewer than %d threads", argv[1], THREADS_MAX);
	/* Without an exit this only says whether the allocator is there. */
	if (r.exits)
		measure(&r, strtoull(argv[3], NULL, 10), argv[4], &res);
	if (write(STDOUT_FILENO, &res, sizeof(res)) != (ssize_t)sizeof(res))
		fail("standard output: cannot write the result");
	return 0;
}

const struct command bench_latency_one_command = {
	.name = "bench " LATENCY_ONE_COMMAND,
	.operands = "NAME OTHERS EXITS BYTES DATA",
	.summary = "one run of bench latency",
	.about = "",
	.examples = "",
	.run = latency_one,
	.hidden = true,
};
