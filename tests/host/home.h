/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * home.h - the hostile home as the tests steer it.
 *
 *     arena:  | struct home | block . block . ...        | frame . frame . ...        |
 *               control       host_zalloc(); never used    pages of the source; oldest
 *                             twice                        free one first
 *
 * Blocks and frames have a red zone behind them (the dots).  Free frames and red zones hold
 * HOME_POISON, and it is looked for when a frame is handed out or home_close() ends the round.
 */
#ifndef EBB_TESTS_HOME_H
#define EBB_TESTS_HOME_H

#include "host.h"

#define HOME_PAGES 96           /* frames */
#define HOME_WORKS 2
#define HOME_POISON 0xdb

struct home {
	/* The test's to set after home_open(). */
	u32 online;             /* mask of CPUs; at least one */
	bool move;              /* an actor may change its CPU where it is not atomic */
	bool may_be_dry;        /* any call to the source may find it dry */
	u64 fail;               /* this many allocations from now one fails; 0: none does */
	bool fail_all;          /* and all that come after it */

	u32 cpus, pages_out, nblocks, nworks;
	u32 first_free, nfree;
	u32 free_frame[HOME_PAGES];     /* a ring */
	bool frame_live[HOME_PAGES];
	size_t heap_used;
	struct home_block {
		u32 at, bytes;
		bool live;
	} block[128];
	struct hostile_lock source_lock;
	struct host_work *work[HOME_WORKS];
};

extern struct home *home;
extern u64 home_failures;       /* allocations that were made to fail, ever */
extern u64 home_longest;        /* most accesses in one hold of a class lock since it was 0 */

/* A fresh home with n CPUs and a source of pages pages.  n is 1 .. 8. */
void home_open(unsigned int cpus, unsigned int pages);

/* Ends a round: everything must be back and unharmed. */
void home_close(void);

/* Keeps the whole home as it is now, and puts it back. */
void home_snapshot(void);
void home_restore(void);

/* No CPU cpu from now on: who runs there moves. */
void home_offline(unsigned int cpu);

/* Runs a work item that was queued, in the actor that calls. */
void home_run_work(struct host_work *w);

/* Asked by the explorer for each access: the granule of an address, or -1 outside the arena. */
#define HOME_GRANULE 8
size_t home_granules(void);
ptrdiff_t home_granule(const void *p);
/* The granule that stands for whether the frame of p is live, or -1. */
ptrdiff_t home_frame_granule(const void *p);
/* NULL, or why these bytes must not be touched. */
const char *home_why_dead(const void *p, size_t n);

#endif
