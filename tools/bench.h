/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bench.h - what the benches share: threads that start at once on CPUs of their own, the
 * common options, and where the results go.
 */
#ifndef EBB_BENCH_H
#define EBB_BENCH_H

#include "args.h"
#include "data.h"
#include "table.h"

#define THREADS_MAX 256
#define ROUNDS_MAX 1000

struct bench_opts {
	const char *out;     /* NULL: nowhere */
	bool json;
	uint64_t rounds;
};

#define OPT_JSON(b) \
	{ "json", OPT_FLAG, &(b), 0, 0, 0, NULL, NULL, "print JSON instead of tables" }
#define OPT_OUT(b) \
	{ "out", OPT_WORD, &(b).out, 0, 0, 0, NULL, "FILE", "write JSON there, too" }
#define OPTS_BENCH(b) \
	{ "rounds", OPT_COUNT, &(b).rounds, 1, ROUNDS_MAX, 0, NULL, "N", \
	  "times that everything is measured; medians are shown" }, \
	OPT_JSON((b).json), \
	OPT_OUT(b)
#define OPT_THREADS(list) \
	{ "threads", OPT_COUNT_LIST, &(list), 1, THREADS_MAX, 0, NULL, "N,...", \
	  "threads at once; a list is measured one by one" }

/* Before anything is measured: ends the program if the results could not be written. */
void bench_start(const struct bench_opts *opts);

/*
 * Prints the table, or with --json {"machine", "rows"}, and writes the latter to the file that was
 * asked for.  Returns the exit status.
 */
int bench_report(const struct bench_opts *opts, const struct table *t);

/* One thread's share of a run: the times it started and ended. */
struct span {
	uint64_t start_ns, end_ns;
};

struct team_times {
	struct span span[THREADS_MAX];
	uint64_t first_ns, last_ns;   /* earliest start, latest end */
	uint64_t start_cpu_ns;        /* the process's CPU time when they were let go */
	double mean_ns;               /* of end - start */
};

/*
 * Runs fn(arg, i) in threads i = 0 .. n - 1, pinned in turn to the CPUs that the process may
 * use.  A barrier lets all of them go at once.  fn returns 0 or -errno, which ends the
 * program with what; so does a signal.
 */
void team_run(unsigned int n, int (*fn)(void *arg, unsigned int i), void *arg,
	      struct team_times *times, const char *what);

/* Slots of one store, as many for each thread of a team, which hold pages of a set. */
struct team_slots {
	struct ebb_store *store;
	const struct page_set *set;
	unsigned int threads;
	size_t each;
};

/* Which page of the set thread i stores p-th: all store the same, each from another place on. */
size_t slots_page(const struct team_slots *s, unsigned int i, size_t p);
/* For team_run(), arg a struct team_slots: fill them; compare them with what was put there. */
int slots_fill(void *arg, unsigned int i);
int slots_verify(void *arg, unsigned int i);

#endif
