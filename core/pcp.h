/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pcp.h - per-CPU page lists and a reserve in front of the home's page source.
 *
 *     pool --pcp_free--> [own reserve, the shared one, if it is short]
 *                        [list of this CPU: count <= high] --batch--> host_pages_free
 *          <-pcp_alloc-  own list, source, other CPUs' lists; if the caller may wait: source,
 *                        waiting, and the reserves
 *
 * Lists.  Each has a lock, so that other CPUs reach it; from afar it is only tried, but for
 * drain and decay.  A list holds pages of its CPU's node alone: a request for another node goes
 * past the lists to the source, for what it needs, and pages of another node that are freed go
 * straight to the source.  A list longer than high gives pages back in chunks of batch; no hold
 * of a list's lock, the reserve's or the source's moves more than batch pages, whatever the
 * backlog.  high grows by a batch when a list runs over or dry, up to high_max; pcp_decay()
 * halves it on a list that was idle for a period, and makes it 0 after two.
 *
 * Reserve.  A stock that is drawn on when nothing else gives a page, and filled again before
 * anything else: by the pages that are freed, and by pcp_tend(), which the home calls from its
 * worker.  It is for who writes in order to free memory: there a write that fails frees nothing,
 * so that the next one fails, too.  PCP_TAKE is what one such write may need before any of it
 * comes back (pcp_reserve_for()).  Most of it is shared by all who have one; what each has for
 * itself, PCP_TAKE_BATCH, is there for a device that another one writes to.
 *
 * Bad pages.  A page whose memory the machine finds broken (host_page_is_bad()) is given to nobody
 * any more: whoever comes to it in a list or the reserve gives it back to the source, which drops
 * it.  Who has such a page in use keeps it for as long.
 *
 *     pages taken from the source == in use + in lists + in the own reserve
 */
#ifndef EBB_CORE_PCP_H
#define EBB_CORE_PCP_H

#include "host.h"

#define PCP_BATCH_MAX 64
#define PCP_PERIOD_US ((u64)100000)       /* at least, between two times that lists age */

/* Lists of other CPUs that one attempt to take pages from them looks at. */
#define PCP_LOOK 64

/* Of one CPU. */
struct pcp_list {
	host_lock_t lock;
	u32 count;              /* lock; read with host_read_once */
	u32 high;               /* lock */
	u32 node;               /* of the CPU and of all pages; fixed */
	struct pcp_list *next;  /* the next CPU's of the node, in a ring; fixed */
	bool used;              /* since the last pcp_decay(); lock */
	bool idle;              /* in the period before; lock */
	u8 strayed;             /* the source last gave pages of another node; host_read_once */
	host_page page[];       /* high_max + PCP_BATCH_MAX; [0 .. count) are free pages; lock */
};

struct pcp_node {
	/* By CPUs of the node, a batch at a time; a sum over the nodes makes sense. */
	host_a64 taken HOST_OWN_LINE;   /* pages from the source less those given back */
	host_a64 strayed;       /* pages that were asked for of a node and came of another */
	host_a64 cursor;        /* where rob() looks next, among the lists of the node */
	u32 first, cpus;        /* by_node[first .. first + cpus) are its CPUs; fixed */
};

struct pcp_reserve {
	host_lock_t lock HOST_OWN_LINE;
	u32 size;                       /* pages; fixed */
	u32 count;                      /* page[0 .. count) are free ones; lock, host_read_once */
	host_page *page;                /* [size]; lock */
};

struct pcp {
	struct host_pages *src;
	struct pcp_list **list;         /* [host_nr_cpus()] */
	struct pcp_node *node;          /* [host_nr_nodes()] */
	u32 *by_node;                   /* [host_nr_cpus()]: CPUs, by node */
	unsigned int batch;             /* pages, 1 .. PCP_BATCH_MAX */
	unsigned int high_max;          /* pages, >= batch */
	u64 aged;                       /* host_now_ns() when the lists last aged; pcp_tend()'s */

	host_a64 cursor HOST_OWN_LINE;  /* where rob() and pcp_drain_some() look next */

	/* Read by every pcp_free(), so not on a line that is written while they are full. */
	struct pcp_reserve own;
	struct pcp_reserve *shared;     /* with others, or NULL */
};

/*
 * The most pages that writing a folio of 2 MiB takes, in pages of 4 KiB: one each, chunks of
 * descriptors and pages of the directory in each of 19 groups of classes, and pages of the slot
 * table (docs/design.md).
 */
#define PCP_TAKE (512 + 24 + 19 + 1)
#define PCP_TAKE_BATCH (31 + 19 + 19 + 2)     /* the same of 31 folios of a page, reclaim's batch */

/*
 * Pages for the reserve of a device that swap may lie on: 1/440 of memory, so that a machine of
 * 1 GiB, of which the kernel itself takes a part, has PCP_TAKE; at least PCP_TAKE_BATCH, at most
 * 1024; and 2 for each CPU, which may all be writing.
 */
static inline unsigned int pcp_reserve_for(u64 bytes, unsigned int cpus)
{
	u64 n = (bytes >> HOST_PAGE_SHIFT) / 440;

	return (unsigned int)(n < 72 ? 72 : n > 1024 ? 1024 : n) + 2 * cpus;
}

/* One of size pages, all to come.  Process context.  -ENOMEM. */
int pcp_reserve_init(struct pcp_reserve *r, unsigned int size);

/* Gives its pages back; nobody uses it any more.  Process context. */
void pcp_reserve_destroy(struct pcp_reserve *r, struct host_pages *src);

/*
 * batch: pages moved in one hold of the source's lock.  high_max: most pages of a list.
 * reserve: pages of the own one, 0 none; shared: outlives it, or NULL.  Both are filled as far as
 * the source gives.  Process context.  -EINVAL: out of range; -ENOMEM.
 */
int pcp_init(struct pcp *pcp, struct host_pages *src, unsigned int batch, unsigned int high_max,
	     unsigned int reserve, struct pcp_reserve *shared);

/* Gives all pages back and ends.  Process context; nobody uses the lists any more. */
void pcp_destroy(struct pcp *pcp);

/*
 * Takes n pages, all or none: of node, or the own node if it is HOST_ANY_NODE, as long as there
 * are any, else of another, which is counted.  how: HOST_MAY_WAIT, process context; or 0, any
 * context, and it neither sleeps nor draws on the reserve; or HOST_RECLAIMS, any context, and it
 * does not sleep.  -ENOMEM.
 */
int pcp_alloc(struct pcp *pcp, host_page *out, unsigned int n, unsigned int node,
	      unsigned int how);

/*
 * Takes up to n pages that lie in the own CPU's list; returns how many.  For who may turn out to
 * need none: nobody else is asked, and nobody else's list is looked at.  Any context.
 */
unsigned int pcp_take_own(struct pcp *pcp, host_page *out, unsigned int n);

/* Gives n pages back, all of node, or HOST_ANY_NODE: each is asked.  Any context. */
void pcp_free(struct pcp *pcp, const host_page *pages, unsigned int n, unsigned int node);

/*
 * One refresh: lists that were idle since the last one shrink.  Returns whether anything
 * changed, a list's having been used included: if not, the next refresh has nothing to do
 * until a list is used.  Process context.
 */
bool pcp_decay(struct pcp *pcp);

/* Empties each list once into the source, batch by batch.  Process context. */
void pcp_drain(struct pcp *pcp);

/*
 * Empties at most lists lists, other ones at each call, leaving out those whose lock is taken.
 * Returns the pages.  Any context.
 */
u64 pcp_drain_some(struct pcp *pcp, unsigned int lists);

static inline bool pcp_reserve_is_short(const struct pcp_reserve *r)
{
	return host_read_once(r->count) < r->size;
}

/* Whether a reserve is short: pcp_refill() is due.  Any context. */
static inline bool pcp_is_short(const struct pcp *pcp)
{
	return pcp_reserve_is_short(&pcp->own) ||
	       (pcp->shared && pcp_reserve_is_short(pcp->shared));
}

/*
 * Fills the reserves with what the source has at once.  True: it is short still, and may be less so
 * in a while.  Process context; it waits for no memory, so reclaim may wait for it.
 */
bool pcp_refill(struct pcp *pcp);

/*
 * What a home's worker does, at most a period after lists were used and as often as it likes when
 * the reserve is short: pcp_refill(), and, if PCP_PERIOD_US have passed, pcp_decay().  *aged:
 * whether they had.  True: it is to be called again, after a period.  As pcp_refill(), and one at
 * a time.
 */
bool pcp_tend(struct pcp *pcp, bool *aged);

/* Pages in all lists, each read at some moment of the call: a look at each CPU.  Any context. */
u64 pcp_count(struct pcp *pcp);

/* Pages in the own reserve.  Any context. */
static inline u64 pcp_reserved(const struct pcp *pcp)
{
	return host_read_once(pcp->own.count);
}

/* Pages that the source gave and has not back: a look at each node.  Any context. */
u64 pcp_taken(struct pcp *pcp);

/* Pages that came of another node than they were asked for, ever.  Any context. */
u64 pcp_strayed(struct pcp *pcp);

/*
 * NULL, or the sentence of the invariant that does not hold: a list is no longer than it may be
 * and of its node, and the pages taken are accounted for.  used: pages in the caller's use.
 * Process context; nobody uses the lists meanwhile.
 */
const char *pcp_check(struct pcp *pcp, u64 used);

#endif
