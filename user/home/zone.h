/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zone.h - the user-space home's page source: pages carved out of 2 MiB blocks of address space
 * that grows with use, and given on to the operating system when they stay free.
 *
 * struct host_pages (host_impl.h) has a knob: max_blocks.
 */
#ifndef EBB_USER_ZONE_H
#define EBB_USER_ZONE_H

#include "host.h"

#define ZONE_BLOCK_SHIFT 21      /* of the unit of book-keeping */
#define ZONE_BLOCK_BYTES ((size_t)1 << ZONE_BLOCK_SHIFT)

struct zone_stat {
	u64 pages_out;           /* handed out */
	u64 free_pages;          /* free in the blocks taken so far, resident or not */
	u64 free_resident;       /* of them, those that hold memory of the system */
	u64 blocks;              /* taken so far; at most max_blocks */
	u64 resident_bytes;      /* memory from the system: (out + free_resident) pages */
	u64 holds;               /* of the lock, to give pages back */
	u64 max_pages_per_hold;
};

/* Process context, as all below.  Maps nothing yet.  0 or -ENOMEM. */
int zone_open(struct host_pages **src);

/*
 * Whether there is memory for a first page, and for the heap to grow, together with what fn(arg),
 * which may be NULL, makes and ends; what that returns, or -ENOMEM.
 */
int zone_try_out(int (*fn)(void *arg), void *arg);

/* Unmaps everything, pages that are out included.  NULL is allowed. */
void zone_close(struct host_pages *src);

/* As host_pages_alloc() and host_pages_free(), which have lists in front of them (pcp.h). */
unsigned int zone_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int how);
void zone_pages_free(struct host_pages *src, const host_page *pages, unsigned int n);

/*
 * Gives all free memory on to the system; *bytes (may be NULL) is how much it took.  The lock is
 * not held while the system works; the pages it works on cannot be allocated meanwhile.
 */
void zone_trim(struct host_pages *src, u64 *bytes);

enum zone_decay {
	ZONE_IDLE,               /* nothing is left to give on, or the system takes nothing */
	ZONE_LATER,              /* call again in a period */
	ZONE_MORE,               /* time was up: call again soon */
};

/*
 * One tick of the idle decay: gives on three quarters, and at least 32 MiB, of the pages that were
 * free all the time since the last tick.  Ends after about ns.
 */
enum zone_decay zone_decay(struct host_pages *src, u64 ns);

void zone_stat(struct host_pages *src, struct zone_stat *stat);

/* Pages that it has given out and not back.  One load. */
u64 zone_pages_out(struct host_pages *src);

/* 0, or -EUCLEAN and a sentence in why[len]. */
int zone_check(struct host_pages *src, char *why, size_t len);

#endif
