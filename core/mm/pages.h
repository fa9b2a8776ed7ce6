/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pages.h - the home's page source, with a reserve behind it.
 *
 *     pool --pages_free--> [own reserve, the shared one, if it is short] --> host_pages_free
 *          <-pages_alloc-  host_pages_alloc; then, if the caller may wait or reclaims, the shared
 *                          reserve and at last the own one
 *
 * The reserve is a stock that is drawn on when the source gives no page, and filled again before
 * anything else: by the pages that are freed, and by pages_refill(), which the home calls from its
 * worker.  It is for who writes in order to free memory: there a write that fails frees nothing,
 * so that the next one fails, too.  PAGES_TAKE is what one such write may need before any of it
 * comes back (pages_reserve_for()).  Most of it is shared by all who have one; what each has for
 * itself, PAGES_TAKE_BATCH, is there for a device that another one writes to.
 *
 * Bad pages.  A page whose memory the machine finds broken (host_page_is_bad()) is given to nobody
 * any more: whoever comes to it in the reserve gives it back to the source, which drops it.  Who
 * has such a page in use keeps it for as long.
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
	host_lock_t lock HOST_OWN_LINE;
	u32 size;                       /* pages; fixed */
	u32 count;                      /* page[0 .. count) are free ones; lock, host_read_once */
	host_page *page;                /* [size]; lock */
};

struct pages {
	struct host_pages *src;
	struct pages_reserve *shared;   /* with others, or NULL */
	/* Read by every pages_free(), so not on a line that is written while it is full. */
	struct pages_reserve own;
};

/*
 * The most pages that writing a folio of 2 MiB takes, in pages of 4 KiB: one each, chunks of
 * descriptors and leaves of the directory in each of 19 groups of classes, a mid in one of them,
 * and pages of the slot table (docs/internals/design.md).
 */
#define PAGES_TAKE (512 + 24 + 19 + 1 + 1)
#define PAGES_TAKE_BATCH (31 + 19 + 19 + 1 + 2)   /* of 31 folios of a page, reclaim's batch */

/*
 * Pages for the reserve of a device that swap may lie on: 1/440 of memory, so that a machine of
 * 1 GiB, of which the kernel itself takes a part, has PAGES_TAKE; at least PAGES_TAKE_BATCH, at
 * most 1024; and 2 for each CPU, which may all be writing.
 */
static inline unsigned int pages_reserve_for(u64 bytes, unsigned int cpus)
{
	u64 n = (bytes >> HOST_PAGE_SHIFT) / 440;

	return (unsigned int)(n < PAGES_TAKE_BATCH ? PAGES_TAKE_BATCH : n > 1024 ? 1024 : n) +
	       2 * cpus;
}

/* One of size pages, 2^20 at most, all to come.  Process context.  -EINVAL, -ENOMEM. */
int pages_reserve_init(struct pages_reserve *r, unsigned int size);

/* Gives its pages back; nobody uses it any more.  Process context. */
void pages_reserve_destroy(struct pages_reserve *r, struct host_pages *src);

/*
 * reserve: pages of the own one, 0 none; shared: outlives it, or NULL.  Both are filled as far as
 * the source gives.  Process context.  As pages_reserve_init().
 */
int pages_init(struct pages *s, struct host_pages *src, unsigned int reserve,
	       struct pages_reserve *shared);

/* Process context; nobody has a page any more. */
void pages_destroy(struct pages *s);

/*
 * Takes n <= PAGES_BATCH pages, all or none: of node, or the own node if it is HOST_ANY_NODE, as
 * long as there are any, else of another.  how: as host_pages_alloc(); 0 does not draw on the
 * reserve.  -ENOMEM.
 */
int pages_alloc(struct pages *s, host_page *out, unsigned int n, unsigned int node,
		unsigned int how);

/* Gives n <= PAGES_BATCH pages back.  Any context. */
void pages_free(struct pages *s, const host_page *page, unsigned int n);

static inline bool pages_reserve_is_short(const struct pages_reserve *r)
{
	return host_read_once(r->count) < r->size;
}

/* Whether a reserve is short: pages_refill() is due.  Any context. */
static inline bool pages_are_short(const struct pages *s)
{
	return pages_reserve_is_short(&s->own) || (s->shared && pages_reserve_is_short(s->shared));
}

/*
 * Fills the reserves with what the source has at once.  True: one is short still, and may be less
 * so in a while.  Process context; it waits for no memory, so reclaim may wait for it.
 */
bool pages_refill(struct pages *s);

/* Pages in the own reserve.  Any context. */
static inline u64 pages_reserved(const struct pages *s)
{
	return host_read_once(s->own.count);
}

#endif
