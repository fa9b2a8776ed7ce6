/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * explore.h - actors, and every order in which they can take their turns.
 *
 * A run starts from a snapshot of the home, lets the actors go on until all are done, and takes a
 * choice at each point where there is one:
 *
 *     before an access to shared memory   go on, or let another actor go on      costs 1
 *     the actor waits or is done          any that can go on                     free
 *     the home may be moody               no, or: other CPU, dry source          costs 1
 *
 * explore() makes a run for every sequence of choices whose cost is at most the bound, depth
 * first.  docs/internals/testing.md has the two reductions and what they rest on.
 */
#ifndef EBB_TESTS_EXPLORE_H
#define EBB_TESTS_EXPLORE_H

#include <setjmp.h>

#include "host.h"

#define EXPLORE_ACTORS 3        /* of the test; workers come after them */
#define EXPLORE_ALL 8           /* with the workers, and the sequential one, the last */

struct actor {
	u32 id;
	u32 cpu;
	u32 held;               /* mask of ranks */
	u32 atomic;             /* locks held in which it may not sleep, and the caller's */
	u32 working;            /* work items it is in: it waits for no memory */
	/* Until this says yes the actor waits; NULL: it can go on. */
	bool (*ready)(const void *on);
	const void *on;
	bool done;
	bool worker;            /* may wait for ever */
	const struct hostile_lock *lock;        /* that it last took, and as whom; in a fair home */
	u32 ticket;
	u64 past;               /* hash of all it saw */
	u64 steps;              /* accesses to shared memory and locks taken, in this run */
	char *stack;
	jmp_buf at, start;
};

/* Who runs. */
extern struct actor *me;
extern u64 explore_accesses;    /* by the core, ever */

struct explore_job {
	const char *name;
	unsigned int number;                    /* of its case in TAP */
	unsigned int actors;
	unsigned int asleep;	/* so many of the home's last work items never run */
	void (*begin)(void);                    /* sequential; its end is the snapshot */
	void (*act)(unsigned int actor);        /* each actor's life */
	void (*end)(void);                      /* sequential; checks, and gives all back */
};

struct explore_result {
	u64 schedules;          /* runs to the end */
	u64 cut;                /* runs that came to a state that was explored */
	u64 steps;              /* points passed */
	unsigned int outcomes;  /* different ones that end() told */
	unsigned int points;    /* that could be chosen at, the most of a run */
	unsigned int stack;     /* bytes used, the most of an actor */
};

/* All runs of at most bound.  A violation prints what reproduces it and ends the program. */
void explore(const struct explore_job *job, unsigned int bound, struct explore_result *res);

/* Without the reductions: a choice before every access, and no run is cut. */
extern bool explore_plain;

/*
 * Who goes on, of n others that could: 1 to n, or, unless he must give way, 0 for who runs now.
 * Asked before every access.
 */
typedef unsigned int explore_pick(struct actor *const *list, unsigned int n, bool must);

/* So many runs in which pick decides.  A violation cannot be replayed but by the same test. */
void explore_duel(const struct explore_job *job, explore_pick *pick, unsigned int runs);

/* For end(): what this run came to. */
void explore_outcome(u64 hash);

/* The one run that a violation printed. */
void explore_replay(const struct explore_job *job, const char *schedule);

/* For the home: one of n, of which all but 0 cost 1.  0 when nothing is being explored. */
unsigned int explore_choose(unsigned int n);
/* Waits until ready(on).  In sequential code it must be ready. */
void explore_wait(bool (*ready)(const void *on), const void *on);
bool explore_running(void);

/* A violation: prints it with the schedule, exits. */
__attribute__((noreturn, format(printf, 1, 2))) void explore_fail(const char *fmt, ...);

/* What the test was doing, for explore_fail(); kept, not copied. */
void explore_doing(const char *what);

#endif
