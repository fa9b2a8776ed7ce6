/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shrink.h - memory given back under pressure: how much there would be, and a little at a time.
 *
 *     shrink_count()   pages queued for release, past pockets + what is sparse
 *     shrink_some()    a bounded piece of both, by whoever is short of memory
 *     shrink_rest()    the rest, by a worker
 *     shrink_look()    by the worker's tick: how much is sparse
 *
 * What is sparse: the pool has so many pages more than its objects would fill.
 *
 *     sparse = pages - (room of live objects + of those held back) - one page for each class with
 *              zspages that are not full - stuck
 *
 * Room counts what a chain leaves over at its end as its objects' (pool_ref_room()), so it is no
 * hope of anybody.  stuck is what a whole pass of compaction left of what seemed sparse when it
 * began (objects that readers hold, a place lost in rounding), so after a pass that freed nothing
 * sparse is 0, until more is freed.  It shrinks with the room of objects.  While others free and
 * allocate, a pass leaves what they made after it came by, and stuck is too large: who sees that
 * they have stopped looks anew.
 */
#ifndef EBB_CORE_SHRINK_H
#define EBB_CORE_SHRINK_H

#include "release.h"

/* Whose memory it is: a store's (store.h). */
struct shrink_owner {
	void *ctx;
	/* Bytes of pages that live objects take, a chain's rest included.  A look at each CPU. */
	u64 (*room)(void *ctx);
};

/*
 * Orderings (docs/internals/locking.md).
 *
 * shrink.sparse, .until.  Writes: the look, and who shrinks, write_once.  Reads: relaxed.
 *     Order: none: a figure; a change that is lost comes with the next look.
 */
struct shrink {
	struct pool *pool;
	struct release *release;
	struct shrink_owner owner;

	u64 sparse;         /* pages, at the last look less what compaction freed; host_read_once */
	u32 ended;              /* 1: nothing of it is promised any more; host_read_once */
	u64 until;         /* pool.compact_at by when a pass was made since *then; host_read_once */

	/* Of shrink_look() alone. */
	u64 then;               /* pages that seemed sparse at a look before that pass */
	u64 compacted;          /* pool.pages_compacted at that look */
	u64 stuck;              /* pages */
	u64 stuck_room;         /* room of objects when stuck was found out */
};

#define SHRINK_BUFS 1           /* buffers of what is held back that a call frees */
#define SHRINK_STEPS 16         /* of compaction in a call: 8 moves each at most */

/* All three outlive it. */
void shrink_init(struct shrink *sh, struct pool *pool, struct release *release,
		 const struct shrink_owner *owner);

/*
 * Pages that giving back would yield, as far as is known: a look at each node, no lock.  0 when
 * there is nothing to be had.  Any context.
 */
u64 shrink_count(struct shrink *sh);

/*
 * Gives back what it can within its bounds, and returns the pages that the pool has less, as far
 * as others who take pages meanwhile let it know.  Takes no sleeping lock, waits for nobody and
 * interrupts no CPU.  Process context.
 */
u64 shrink_some(struct shrink *sh);

/*
 * Compacts while something seems sparse, a pass at most and for about ns, with rests.  True:
 * something still does.  Process context.
 */
bool shrink_sparse(struct shrink *sh, u64 ns);

/*
 * Gives back all that shrink_count() counts and a whole compaction can free, with rests; ends
 * early when host_interrupted().  Process context.
 */
void shrink_rest(struct shrink *sh);

/*
 * Finds out how much is sparse: a look at each CPU and class.  Process context, one at a time,
 * until the owner begins to end.
 */
void shrink_look(struct shrink *sh);

/*
 * The same, but nothing is stuck until another whole pass was made: for who knows that the last
 * one met frees and allocations, and that there are none now.  As shrink_look().
 */
void shrink_look_anew(struct shrink *sh);

/*
 * From now on nothing sparse is promised, so a shrink_rest() that runs ends with its next
 * step.  Any context.
 */
void shrink_end(struct shrink *sh);

/* The owner goes on after all: what was sparse is promised again.  Any context. */
void shrink_resume(struct shrink *sh);

#endif
