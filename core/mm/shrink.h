/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shrink.h - memory given back under pressure: how much there would be, and a little at a time.
 *
 *     shrink_count()   how much there is: pages queued for release, past pockets + sparse
 *     shrink_some()    gives back a bounded piece; called by the thread that is short of memory
 *     shrink_rest()    gives back the rest; called by a worker
 *     shrink_look()    finds out what is sparse; called by the worker's tick
 *
 * What is sparse: the pages that the pool has beyond those that its objects would fill.
 *
 *     sparse = pages - (room of live objects + of those held back) - one page for each class with
 *              zspages that are not full - stuck
 *
 * The bytes that a chain leaves over at its end are part of its objects' room (pool_ref_room()),
 * since no compaction frees them.
 *
 * stuck is what a whole pass of compaction left of what seemed sparse when it began: objects that
 * readers hold, a place lost in rounding.  So after a pass that freed nothing sparse is 0, until
 * more is freed.  stuck shrinks with the room of objects.  If other threads free and allocate
 * during the pass, stuck is too large until the next.
 */
#ifndef EBB_CORE_SHRINK_H
#define EBB_CORE_SHRINK_H

#include "release.h"

/*
 * Orderings (docs/internals/locking.md).
 *
 * shrink.sparse, .until.  Writes: the look, and who shrinks, write_once.  Reads: relaxed.
 *     Order: none: a figure; a change that is lost comes with the next look.
 */
struct shrink {
	struct pool *pool;
	struct release *release;        /* both outlive it */

	u64 sparse;             /* pages, by the last look and what was freed; READ_ONCE */
	u32 ended;              /* 1: shrink_count() leaves sparse out; READ_ONCE */
	u64 until;              /* pool.compact_at, a pass after seemed; READ_ONCE */

	/* Of shrink_look() alone. */
	u64 seemed;             /* pages that seemed sparse at the look before that pass */
	u64 compacted;          /* pool.pages_compacted at that look */
	u64 stuck;              /* pages */
	u64 stuck_room;         /* room of objects when stuck was found out */
};

#define SHRINK_BUFS 1           /* buffers of what is held back that shrink_some() frees */
#define SHRINK_STEPS 16         /* steps of compaction that it takes: 8 moves each at most */

/* Pages that may be given back, by what is known: a look at each node, no lock.  Any context. */
u64 shrink_count(struct shrink *sh);

/*
 * Gives back what it can within its bounds.  Returns by how many pages the pool shrank, less what
 * others took meanwhile.  Process context; takes no sleeping lock, and waits for no other thread.
 */
u64 shrink_some(struct shrink *sh);

/*
 * Compacts while anything is sparse, for a pass at most and for about ns, with rests; ends early
 * when host_interrupted().  True: something still is.  Process context.
 */
bool shrink_rest(struct shrink *sh, u64 ns);

/*
 * Finds out how much is sparse: a look at each CPU and class.  room: the sum of pool_ref_room() of
 * live objects.  Process context, one call at a time, and none once the owner begins to end.
 */
void shrink_look(struct shrink *sh, u64 room);

/*
 * ended: the owner begins to end, so shrink_count() leaves sparse out, and a shrink_rest() that
 * runs ends with its next step; or the owner goes on after all.  Any context.
 */
void shrink_set_ended(struct shrink *sh, bool ended);

#endif
