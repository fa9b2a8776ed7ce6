/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pages.h - the home's page source, with a reserve behind it.
 *
 *     pool --pages_free--> [own reserve, the shared one, if it is short] --> host_pages_free
 *          <-pages_alloc-  host_pages_alloc; then, if the caller may wait or reclaims, the shared
 *                          reserve and at last the own one
 *
 * A device writes swapped-out pages so that memory is freed.  If such a write fails for want of a
 * page, no memory is freed and the next one fails, too.  The reserve is for these writes:
 * pages_alloc() draws on it when the source gives none.  Pages that are freed fill it first, and so
 * does pages_refill(), which the home's worker calls.
 *
 * One such write may need PAGES_TAKE before a page comes back.  Most of them are in the reserve
 * that all devices share.  Each has PAGES_TAKE_BATCH for itself, for the case that another device,
 * which used up the shared ones, writes to it.
 *
 * A page whose memory the machine finds broken (host_page_is_bad()) leaves the reserve for the
 * source only, which drops it.
 *
 * Lists of pages for each CPU are the home's: the kernel has them, and user space has
 * user/home/pcp.h.
 */
#ifndef EBB_CORE_PAGES_H
#define EBB_CORE_PAGES_H

#include "host.h"

#define PAGES_BATCH 64          /* pages of one call, or of one hold of a reserve's lock, at most */

static inline unsigned int pages_at_most(unsigned int n, unsigned int most)
{
	return n < most ? n : most;
}

/*
 * Orderings (docs/internals/locking.md).
 *
 * pcp_list.used, pages_reserve.count by the worker.  Writes: the lock, then host_work.wake is
 *     read.  Reads: worker: wake cleared, then the lock.  Order: the lock, which the worker
 *     takes whatever it may find: who came before is found, who comes after sees NO_WAKE.
 *     Without it: a list that never decays, a reserve that stays short.  Model: kick (the
 *     shape).
 * pages_reserve.count by who frees or fails.  Writes: pages_reserve.lock, write_once.  Reads:
 *     relaxed.  Order: none: looked at again under the lock.
 */
struct pages_reserve {
	spinlock_t lock ____cacheline_aligned;
	u32 size;                       /* pages when it is full; fixed */
	u32 count;                      /* pages in it; lock, READ_ONCE */
	host_page *page;                /* [size]; lock */
};

struct pages {
	struct host_pages *src;
	struct pages_reserve *shared;   /* by all devices, or NULL */
	/* Each pages_free() reads it, so no other field is written on its line. */
	struct pages_reserve own;
};

/*
 * The most pages that writing a folio of 2 MiB takes, in pages of 4 KiB: one each, chunks of
 * descriptors and leaves of the directory in each of 19 groups of classes, a mid in one of them,
 * and pages of the slot table (docs/internals/design.md).
 */
#define PAGES_TAKE (512 + 24 + 19 + 1 + 1)
#define PAGES_TAKE_BATCH (31 + 19 + 19 + 1 + 2)   /* for 31 folios of a page, reclaim's batch */

/*
 * Pages for the reserve of a device that swap may lie on: 1/440 of memory, so that a machine of
 * 1 GiB, of which the kernel itself takes a part, has PAGES_TAKE; at least PAGES_TAKE_BATCH, at
 * most 1024; and 2 for each CPU, since all may be writing.
 */
static inline unsigned int pages_reserve_for(u64 bytes, unsigned int cpus)
{
	u64 n = (bytes >> PAGE_SHIFT) / 440;

	return (unsigned int)(n < PAGES_TAKE_BATCH ? PAGES_TAKE_BATCH : n > 1024 ? 1024 : n) +
	       2 * cpus;
}

/* Makes an empty reserve for size pages.  Process context.  -ENOMEM. */
int pages_reserve_init(struct pages_reserve *r, unsigned int size);

/* Gives the pages back; nobody uses the reserve any more.  Process context. */
void pages_reserve_destroy(struct pages_reserve *r, struct host_pages *src);

/*
 * reserve: pages of the own one, or 0; shared: outlives s, or NULL.  Fills both as far as the
 * source has pages.  Process context.  -ENOMEM.
 */
int pages_init(struct pages *s, struct host_pages *src, unsigned int reserve,
	       struct pages_reserve *shared);

/* All pages are free.  Process context. */
void pages_destroy(struct pages *s);

/*
 * Allocates n <= PAGES_BATCH pages, all or none: of node as long as it has any, else of another.
 * NUMA_NO_NODE: that of the CPU.  how: as host_pages_alloc(); 0 does not draw on the reserve.
 * -ENOMEM.
 */
int pages_alloc(struct pages *s, host_page *out, unsigned int n, unsigned int node,
		unsigned int how);

/* Gives n <= PAGES_BATCH pages back.  Any context. */
void pages_free(struct pages *s, const host_page *page, unsigned int n);

static inline bool pages_reserve_is_short(const struct pages_reserve *r)
{
	return READ_ONCE(r->count) < r->size;
}

/* Whether a reserve is short: pages_refill() is due.  Any context. */
static inline bool pages_are_short(const struct pages *s)
{
	return pages_reserve_is_short(&s->own) || (s->shared && pages_reserve_is_short(s->shared));
}

/*
 * Fills the reserves with what the source gives without waiting.  True: one is still short, and
 * the caller tries again later.  Process context; reclaim may wait for it.
 */
bool pages_refill(struct pages *s);

/* Pages in the own reserve.  Any context. */
static inline u64 pages_reserved(const struct pages *s)
{
	return READ_ONCE(s->own.count);
}

#endif
