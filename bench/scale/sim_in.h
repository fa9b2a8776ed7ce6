/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* sim_in.h - between sim.c, which has the CPUs, and lines.c, which has what they share. */
#ifndef EBB_SCALE_SIM_IN_H
#define EBB_SCALE_SIM_IN_H

#include "sim.h"

#include <setjmp.h>

struct sim_ctx {
	jmp_buf at;
	void (*fn)(void *arg);
	void *arg;
	struct sim_ctx *next;           /* on its CPU */
	struct sim_ctx *after;          /* in the queue of a lock */
	u32 cpu, node;
	enum sim_role role;
	u32 atomic;
	u32 class_locks;
	bool worker, sleeping, done;
	u64 turn;                       /* when its CPU last began to run it */
	u64 hold_objects, hold_rmws;
	const char *item;               /* of another CPU, at which it looked last */
};

struct cpu {
	u64 clock;
	u32 heap;                       /* place + 1, 0: not ready */
	struct sim_ctx *first;          /* runs; then who waits for the CPU */
};

extern unsigned int ncpus, nnodes;
extern struct cpu cpus[SIM_CPUS];
extern struct sim_ctx *self;            /* who runs */
extern bool running;
extern struct sim_counts counts[SIM_ROLES];

void *sim_map(size_t bytes);
void lines_open(void);

/* A CPU whose first context can go on, or waits for a spin lock. */
void make_ready(u32 cpu);
void not_ready(u32 cpu);

/* Goes on with the first context of the CPU that is furthest behind, or ends sim_run(). */
void switch_over(void);

/* Before self touches what others may see. */
void in_order(void);

#endif
