/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * home.h - the hostile home as the tests steer it.
 *
 *     arena:  | struct home, its arrays | block . block . ...      | frame . frame . ...      |
 *               control                   host_zalloc(); never       pages of the source;
 *                                         used twice                 oldest free one first
 *
 * The arena has room for what home_open() is told: up to HOME_CPUS_SMALL CPUs and HOME_PAGES
 * pages it is as large as the explorer, which copies it for each run, likes it; from there on it
 * grows with both.
 *
 * Blocks and frames have a red zone behind them (the dots).  Free frames and red zones hold
 * HOME_POISON, and it is looked for when a frame is handed out or home_close() ends the round.
 */
#ifndef EBB_TESTS_HOME_H
#define EBB_TESTS_HOME_H

#include "host.h"

#define HOME_PAGES 96           /* frames, unless more are asked for */
#define HOME_PAGES_MAX 16384
#define HOME_CPUS 512           /* most */
#define HOME_CPUS_SMALL 8
#define HOME_NODES 8            /* most; frame and CPU numbers are cut into equal parts */
#define HOME_POISON 0xdb

struct home {
	/* The test's to set after home_open(). */
	bool move;              /* an actor may change its CPU where it is not atomic */
	bool interrupted;       /* what host_interrupted() says */
	bool may_be_dry;        /* any call to the source may find it dry */
	u32 dry_nodes;          /* mask of nodes that give nothing */
	u32 emergency;          /* pages that only who may wait gets */
	bool sparse;            /* tables are made page by page */
	bool still;             /* the clock stands */
	bool fair;              /* locks go to who came first; if not, to anybody */
	u64 fail;               /* this many allocations from now one fails; 0: none does */
	bool fail_all;          /* and all that come after it */
	bool no_heap;           /* host_zalloc() fails */
	u64 memory;             /* what host_total_bytes() says; 0: 1 GiB */

	u64 now;
	u32 cpus, nodes, frames, pages_out;
	u32 nonline;
	u64 online[HOME_CPUS / 64];     /* bit n % 64 of word n / 64: CPU n; at least one is set */
	struct home_node {
		u32 first_free, nfree;
		u32 *free_frame;        /* [frames], a ring */
	} node[HOME_NODES];
	bool *frame_live;               /* [frames] */
	bool *frame_bad;                /* [frames]; home_spoil() */
	size_t heap_used;
	u32 nblocks, max_blocks;
	struct home_block {
		u32 at, bytes;
		bool live;
	} *block;                       /* [max_blocks] */
	struct hostile_lock source_lock;
	u32 nworks, max_works;
	struct host_work **work;        /* [max_works] */
};

extern struct home *home;
extern u64 home_failures;       /* allocations that were made to fail, ever */
/* Called at each point where a loop may rest, and at no other while it runs; or NULL. */
extern void (*home_rests)(void);
/* Called after each batch that went back to the source; or NULL. */
extern void (*home_gave)(void);
extern u64 home_longest;        /* most accesses in one hold of a class lock since it was 0 */

/* What was done with the locks of a name since home_stat_reset(). */
struct home_lock_stat {
	u64 holds;
	u64 tries;              /* that found it taken */
	u64 copied;             /* bytes, the most in one memcpy under it */
};
const struct home_lock_stat *home_lock_stat(const char *name);
void home_stat_reset(void);
extern u64 home_source_calls, home_source_most; /* since then: calls, the most pages of one */

/*
 * A fresh home with 1 .. HOME_CPUS CPUs, one node, and a source of 1 .. HOME_PAGES_MAX pages.  The
 * explorer's turns are for few CPUs: what has more than HOME_CPUS_SMALL is for sequential tests.
 */
void home_open(unsigned int cpus, unsigned int pages);
/* The same with nodes, 1 .. HOME_NODES. */
void home_open_nodes(unsigned int cpus, unsigned int nodes, unsigned int pages);

/* Ends a round: everything must be back and unharmed. */
void home_close(void);

/* Keeps the whole home as it is now, and puts it back. */
void home_snapshot(void);
void home_restore(void);

/* No CPU cpu from now on, unless it is the only one: who runs there moves. */
void home_offline(unsigned int cpu);

/* Only CPU cpu from now on. */
void home_only(unsigned int cpu);

/* The memory of a page is broken from now on.  The source drops it when it has it back. */
void home_spoil(host_page page);

/* Runs a work item that was queued, in the actor that calls. */
void home_run_work(struct host_work *w);

/* Asked by the explorer for each access: the granule of an address, or -1 outside the arena. */
#define HOME_GRANULE 8
size_t home_granules(void);
size_t home_granules_max(void);         /* of any home */
ptrdiff_t home_granule(const void *p);
/* The granule that stands for whether the frame of p is live, or -1. */
ptrdiff_t home_frame_granule(const void *p);
/* NULL, or why these bytes must not be touched. */
const char *home_why_dead(const void *p, size_t n);

#endif
