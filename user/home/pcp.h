/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pcp.h - per-CPU page lists in front of the zone: the user home's host_pages_alloc() and
 * host_pages_free().
 *
 *     core --host_pages_free--> list of this CPU: count <= high --batch--> zone_pages_free
 *          <-host_pages_alloc-  own list, the zone's, other CPUs' lists, the zone's by waiting
 *
 * Each list has a lock, so that other CPUs reach it; from afar it is only tried, but for drain and
 * decay.  A list longer than high gives pages back in chunks of batch; no hold of a list's lock or
 * of the zone's moves more than batch pages, whatever the backlog.  high grows by a batch when a
 * list runs over or dry, up to high_max; pcp_decay() halves it on a list that was idle for a
 * period, and makes it 0 after two.
 *
 *     pages out of the zone == pages that the core has + pages in lists
 */
#ifndef EBB_USER_PCP_H
#define EBB_USER_PCP_H

#include "host.h"

#define PCP_BATCH_MAX 64
#define PCP_PERIOD_US ((u64)100000)       /* at least, between two times that lists age */

/* Lists of other CPUs that one attempt to take pages from them looks at. */
#define PCP_LOOK 64

/*
 * Orderings (docs/internals/locking.md).
 *
 * pcp_list.count.  Writes: its lock, write_once.  Reads: who looks for pages, drain,
 *     pcp_count(), relaxed.  Order: none: who looks takes the lock, or tries it, before it
 *     believes a count that is not 0; a list that is passed over was empty at some moment of the
 *     call.
 * pcp.cursor.  Writes: full add.  Reads: relaxed.  Order: none: its value is nobody's alone.
 */

/* Of one CPU. */
struct pcp_list {
	spinlock_t lock;
	u32 count;              /* lock; read with READ_ONCE */
	u32 high;               /* lock */
	bool used;              /* since the last pcp_decay(); lock */
	bool idle;              /* in the period before; lock */
	host_page page[];       /* high_max + PCP_BATCH_MAX; [0 .. count) are free pages; lock */
};

struct pcp {
	struct host_pages *zone;
	struct pcp_list **list;         /* [nr_cpu_ids] */
	unsigned int batch;             /* pages, 1 .. PCP_BATCH_MAX */
	unsigned int high_max;          /* pages, >= batch */
	u64 aged;                       /* ktime_get_ns() when the lists last aged; pcp_tend()'s */

	/* Where the next one who takes pages of others looks. */
	host_a64 cursor ____cacheline_aligned;
};

/*
 * Lists that zone's pages go through from now on.  batch: pages moved in one hold of the zone's
 * lock.  high_max: most pages of a list.  Process context.  -EINVAL: out of range; -ENOMEM.
 */
int pcp_init(struct pcp *pcp, struct host_pages *zone, unsigned int batch, unsigned int high_max);

/* Gives all pages back and ends.  Process context; nobody uses the zone any more. */
void pcp_destroy(struct pcp *pcp);

/*
 * One refresh: lists that were idle since the last one shrink.  Returns whether anything
 * changed, a list's having been used included: if not, the next refresh has nothing to do
 * until a list is used.  Process context.
 */
bool pcp_decay(struct pcp *pcp);

/* Empties each list once into the zone, batch by batch.  Process context. */
void pcp_drain(struct pcp *pcp);

/*
 * What a worker does, at most a period after lists were used: pcp_decay(), if PCP_PERIOD_US have
 * passed.  *aged: whether they had.  True: it is to be called again, after a period.  Process
 * context, one at a time.
 */
bool pcp_tend(struct pcp *pcp, bool *aged);

/* Pages in all lists, each read at some moment of the call: a look at each CPU.  Any context. */
u64 pcp_count(struct pcp *pcp);

#endif
