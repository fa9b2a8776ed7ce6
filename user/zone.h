/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zone.h - the user-space home's page source: pages carved out of 2 MiB blocks of one
 * reserved range of addresses, and given on to the operating system when they stay free.
 *
 * host_pages_alloc(), host_pages_free() and host_page_addr() of core/host.h work on it; this
 * is what the library needs besides.  struct host_pages (host_impl.h) has two knobs:
 * max_blocks and measure.
 */
#ifndef EBB_USER_ZONE_H
#define EBB_USER_ZONE_H

#include "host.h"

#define ZONE_BLOCK_SHIFT 21
#define ZONE_BLOCK_BYTES ((size_t)1 << ZONE_BLOCK_SHIFT)

#define ZONE_NO_HUGEPAGE 1u  /* zone_open(): do not ask for transparent huge pages */

enum zone_trim_how {
	ZONE_TRIM_BLOCKS,    /* blocks that are wholly free */
	ZONE_TRIM_ALL,       /* free pages inside used blocks too; splits huge pages */
};

struct zone_stat {
	u64 pages_out;           /* handed out */
	u64 free_pages;          /* free in the blocks taken so far, resident or not */
	u64 free_resident;       /* of them, those that hold memory of the system */
	u64 blocks;              /* taken so far; at most max_blocks */
	u64 idle_blocks;         /* wholly free, not yet given on */
	u64 resident_bytes;      /* memory from the system: (out + free_resident) pages; with
				    huge pages a block counts whole once it is used */
	/* host_pages_free() since zone_reset_stat() */
	u64 holds;
	u64 max_pages_per_hold;
	/* the same, of holds made while measure was set; to the upper end of 1/16 steps */
	u64 max_hold_ns, p999_hold_ns;
};

/* Process context, as all below.  0 or -ENOMEM. */
int zone_open(struct host_pages **src, unsigned int flags);

/* Unmaps everything, pages that are out included.  NULL is allowed. */
void zone_close(struct host_pages *src);

/*
 * Gives free memory on to the system; *bytes (may be NULL) is how much.  The lock is not held
 * while the system works; the pages it works on cannot be allocated meanwhile.
 */
void zone_trim(struct host_pages *src, enum zone_trim_how how, u64 *bytes);

/*
 * One tick of the idle decay: gives on half, and at least 32 MiB, of the blocks that were not
 * needed since the last tick; none if a new or wholly free block was taken since.  True: idle
 * blocks remain, call again in a period.
 */
bool zone_decay(struct host_pages *src, u64 *bytes);

void zone_stat(struct host_pages *src, struct zone_stat *stat);
void zone_reset_stat(struct host_pages *src);

/* 0, or -EUCLEAN and a sentence in why[len]. */
int zone_check(struct host_pages *src, char *why, size_t len);

#endif
