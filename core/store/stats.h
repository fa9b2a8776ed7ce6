/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stats.h - the store's counters, one table.
 *
 * Each CPU counts in its item.  A count is the sum over the items, read one after the other: exact
 * when nobody counts meanwhile, and close otherwise.  One item's part may be negative.
 */
#ifndef EBB_CORE_STATS_H
#define EBB_CORE_STATS_H

#include "host.h"

/*          name           unit and meaning                                            */
#define STORE_COUNTERS(X)                                                                 \
	X(ORIG_BYTES)   /* bytes of what is stored, before compression                 */ \
	X(COMPR_BYTES)  /* bytes of the objects that hold it                           */ \
	X(ROOM)         /* bytes of pages that they take, each its part of a full zspage */ \
	X(SAME)         /* slots that are one repeated word                            */ \
	X(HUGE)         /* slots stored raw                                            */ \
	X(HUGE_SINCE)   /* the same, ever                                              */ \
	X(FAILED_READ)  /* reads that returned an error                                */ \
	X(FAILED_WRITE) /* writes that returned an error                               */ \
	X(FREED)        /* slots emptied by store_free()                               */ \
	X(SYNC)         /* objects freed by the caller, synchronous mode               */ \
	X(BACKED)       /* slots on the backing device                                 */ \
	X(BD_READS)     /* reads of such slots                                         */ \
	X(BD_WRITES)    /* pages written to the backing device                         */ \
	X(UNITS)        /* units that some slot names                                  */ \
	X(UNIT_PAGES)   /* slots that name one                                         */ \
	X(UNIT_ROOM)    /* of ROOM, what their pieces take                             */ \
	X(UNIT_WASTE)   /* of that the share of dead pages, in UNIT_SHARE              */

enum store_counter {
#define X(name) CNT_##name,
	STORE_COUNTERS(X)
#undef X
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
