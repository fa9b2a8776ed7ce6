/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* team.h - threads that start at once on CPUs of their own, and what they store. */
#ifndef EBB_TEAM_H
#define EBB_TEAM_H

#include "data.h"

#define THREADS_MAX 256

struct team_times {
	uint64_t first_ns, last_ns;   /* earliest start, latest end */
	uint64_t start_cpu_ns;        /* the process's CPU time when they were let go */
	double mean_ns;               /* of end - start */
};

/*
 * Runs fn(arg, i) in threads i = 0 .. n - 1, pinned in turn to the CPUs that the process may
 * use.  A barrier lets all of them go at once.  fn returns 0 or -errno, which ends the
 * program with what; so does a signal.
 */
struct team_times team_run(unsigned int n, int (*fn)(void *arg, unsigned int i), void *arg,
			   const char *what);

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

/* CPUs that the process may use. */
unsigned int team_cpus(void);

/*
 * What the process has in memory, without files, of whose code more is there with each call that is
 * made first.  Exact, unlike statm, whose counters lag per CPU.
 */
uint64_t resident_bytes(void);

#endif
