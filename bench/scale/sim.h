/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sim.h - simulated CPUs with clocks, cache lines that know who wrote them, locks with queues.
 *
 * A context is a coroutine that is bound to a CPU; a CPU has one clock, and runs one of its
 * contexts at a time.  Contexts change places in these functions only.  Before a context touches
 * what other CPUs may see it waits until no CPU's clock is behind its own, so what happens on
 * shared lines and locks happens in the order of simulated time.
 *
 *     a line that only this CPU has       sim_cost.access
 *     a line that another CPU wrote, or   sim_cost.remote, after those who write the same line at
 *     that others have and this one       that time; readers pass a tenth of it apart
 *     writes
 *     a lock that is taken                until all who came before are through, and a line
 */
#ifndef EBB_SCALE_SIM_H
#define EBB_SCALE_SIM_H

#include "host.h"

#define SIM_CPUS 512
#define SIM_NODES 8
#define SIM_NAMES 24            /* of locks */

enum sim_role {
	SIM_SETUP,              /* takes no time, and is not counted */
	SIM_OP,                 /* who does what the scenario counts */
	SIM_WORKER,
	SIM_RECLAIM,
	SIM_ROLES
};

/* In ps. */
struct sim_cost {
	u64 access;             /* one of the core's to a line that is here */
	u64 rmw;                /* a locked instruction more */
	u64 remote;             /* a line from another CPU */
	u64 wake;               /* from waking a sleeper to its first instruction */
	u64 waker;              /* that waking takes the waker */
	u64 page;               /* that the source takes for a page, with its lock held */
	u64 settle;             /* that waiting for sections on all CPUs takes */
	u64 slice;              /* after which a context lets another of its CPU run */
};
extern struct sim_cost sim_cost;

struct sim_counts {
	u64 remote_own, remote_other;   /* lines last written by a CPU of the own, another node */
	u64 taken_back;                 /* lines written that others had read */
	u64 accesses, rmws;
	u64 holds[SIM_NAMES];           /* of locks, by name */
	u64 waits[SIM_NAMES];           /* of them after waiting */
	u64 refused;                    /* trylocks that found it taken */
	u64 sleeps;                     /* on a mutex or for a counter */
	u64 visits;                     /* of other CPUs' items */
	u64 wakes;                      /* of workers */
	u64 hold_objects;               /* objects freed in one hold of a class lock, the most */
	u64 hold_rmws;	/* locked instructions in one hold of a spin lock, the most */
	u64 hold_ps;                    /* the longest hold of a spin lock */
};

struct sim_ctx;

/* A machine of cpus CPUs on nodes nodes.  Once a process. */
void sim_open(unsigned int cpus, unsigned int nodes);

/* A context that runs fn(arg) on cpu from the next sim_run() on. */
struct sim_ctx *sim_begin(unsigned int cpu, enum sim_role role, void (*fn)(void *arg), void *arg);

/* One for work: sleeps from the start, and wakes up on any CPU of its node. */
struct sim_ctx *sim_begin_worker(unsigned int node, void (*fn)(void *arg), void *arg);

/* Who waits for something that sim_wake() tells him, from now or the time at on. */
void sim_sleep(void);
void sim_sleep_until(u64 at);
void sim_wake(struct sim_ctx *ctx, u64 at);

/* Calls fn(arg) at a time; the earlier of two for one arg counts if the caller sees to it. */
void sim_timer(u64 at, void (*fn)(void *arg), void *arg);

/* Runs until nothing is left to run.  All clocks start at the same time, which is returned. */
u64 sim_run(void);

/* When the contexts of a role ended, the last of them; of workers, when they last slept. */
u64 sim_ended(enum sim_role role);

/* Inside of sim_run(); between the times at which a timer fires, when it does. */
bool sim_running(void);
u64 sim_timer_now(void);

struct sim_counts *sim_counts(enum sim_role role);
struct sim_counts *sim_counts_of_self(void);
void sim_reset_counts(void);

/* In sequential code: who does what follows. */
void sim_be(unsigned int cpu);

unsigned int sim_cpus(void);
unsigned int sim_nodes(void);
unsigned int sim_cpu(void);
unsigned int sim_node_of(unsigned int cpu);
u64 sim_now(void);
void sim_pass(u64 ps);
/* Lets go first who is behind. */
void sim_order(void);

/* Memory whose lines are watched: zeroed and aligned, never given back. */
void *sim_memory(size_t bytes);

void sim_access(const void *p, size_t n, bool write);
void sim_rmw(const void *p);
/* n bits of a bitmap went from 1 to 0. */
void sim_cleared(unsigned int n);

/* The items of per-CPU data, one for each CPU: whoever looks at another's is counted. */
void sim_items(const void *base, size_t stride);

/* From where in the core the access comes; and lines that came or were taken back, by that. */
#define SIM_WHERE 65536
extern uintptr_t sim_pc;
extern struct sim_where {
	uintptr_t pc;
	u64 n;
} sim_where[SIM_WHERE];

#define SIM_ITEM "item"         /* the name of the locks of per-CPU items */

/* A lock; its line is that of p. */
u32 sim_lock_new(const char *name, bool sleeping);
void sim_lock(u32 id, const void *p);
/* The same by a plain store, as only its CPU and who excludes it from all others take it. */
void sim_item_lock(u32 id, const void *p);
bool sim_trylock(u32 id, const void *p);
void sim_unlock(u32 id, const void *p);
bool sim_locked(u32 id);
const char *sim_lock_name(unsigned int name);    /* NULL from the last on */

__attribute__((noreturn, format(printf, 1, 2))) void sim_fail(const char *fmt, ...);

#endif
