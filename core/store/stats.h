/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stats.h - the store's counters.
 *
 * Each CPU counts in its item.  A count is the sum over the items, read one after the other: exact
 * when nobody counts meanwhile, and close otherwise.  One item's part may be negative.
 */
#ifndef EBB_CORE_STATS_H
#define EBB_CORE_STATS_H

#include "host.h"

enum store_counter {
	CNT_ORIG_BYTES,		/* bytes of what is stored, before compression */
	CNT_COMPR_BYTES,	/* bytes of the objects that hold it */
	CNT_ROOM,		/* bytes of pages that they take, each its part of a full zspage */
	CNT_SAME,		/* slots that are one repeated word */
	CNT_HUGE,		/* slots stored raw */
	CNT_HUGE_SINCE,		/* the same, ever */
	CNT_FAILED_READ,	/* reads that returned an error */
	CNT_FAILED_WRITE,	/* writes that returned an error */
	CNT_FREED,		/* slots emptied by store_free() */
	CNT_SYNC,		/* objects freed by the caller, synchronous mode */
	CNT_BACKED,		/* slots on the backing device */
	CNT_BD_READS,		/* reads of such slots */
	CNT_BD_WRITES,		/* pages written to the backing device */
	CNT_UNITS,		/* units that some slot names */
	CNT_UNIT_PAGES,		/* slots that name one */
	CNT_UNIT_ROOM,		/* of ROOM, what their pieces take */
	CNT_UNIT_WASTE,		/* of that the share of dead pages, in UNIT_SHARE */
	CNT_N
};

struct counters {
	s64 v[CNT_N];
};

static inline void counter_add(struct counters *c, enum store_counter i, s64 by)
{
	WRITE_ONCE(c->v[i], c->v[i] + by);
}

#endif
