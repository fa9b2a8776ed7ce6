/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hold.h - holds on objects: who reads one, and who disposes of it.
 *
 *     holders of an object == readers in the word that names it + what its record says
 *
 *     record      when
 *     none        0: all readers are in the word
 *     > 0         more than seven read (the word stays at seven), or the object is an orphan
 *     < 0         a reader let go between a swap and its hold_orphan()
 *
 * A hold and a drop are a compare-and-swap on the word, tried until it succeeds or the word names
 * another object.  From seven readers on their number is changed under the lock alone, but by a
 * swap: who is the eighth is counted in the record, once a compare-and-swap said that the word
 * still named the object, and who lets go is taken off the record before the word.  A swap comes to
 * the lock afterwards.
 *
 * Records are found by hash of the reference and never allocated.  In a store there are enough: who
 * holds has a stream or, as store_get(), a per-CPU item, but for who recompresses; a record < 0 is
 * of a swap that is under way under an item.  So records <= streams + items + 1.
 *
 * Lock order: the lock is a leaf, under the store's per-CPU item.
 */
#ifndef EBB_CORE_HOLD_H
#define EBB_CORE_HOLD_H

#include "slot.h"

/*
 * Orderings (docs/internals/locking.md).
 *
 * hold_record.n, .orphan.  Writes: holds.lock.  Reads: the same.  Order: the lock: reads before
 *     a drop before the free; who brings an orphan to 0 is one.  Without it: an object freed
 *     twice, never, or under a reader.  Model: slot_orphan.
 */
struct hold_record {
	u64 ref;
	s64 n;                  /* never 0 */
	u32 next;               /* of its bucket, or of the unused: record + 1, 0: the last */
	bool orphan;           /* no word names it any more, and its readers are all counted here */
};

struct holds {
	host_lock_t lock;
	u32 unused;             /* record + 1 */
	u32 max;
	u32 mask;               /* buckets - 1 */
	u32 *bucket;            /* record + 1 */
	struct hold_record *record;     /* [max] */
};

/* Room for max records.  Process context; -ENOMEM. */
int holds_init(struct holds *h, u32 max);
void holds_destroy(struct holds *h);

/* Any context. */
size_t holds_meta_bytes(const struct holds *h);

/* Whether some object has a record.  Any context. */
bool holds_any(struct holds *h);

/* The halves of the next two under the lock: the word has seven readers, or is not the object's. */
u64 hold_take_slow(struct holds *h, host_a64 *slot, u64 clear);
bool hold_drop_slow(struct holds *h, host_a64 *slot, u64 ref);

/* hold_take() that takes other bits of SLOT_ABOUT away, or none. */
static inline u64 hold_take_and(struct holds *h, host_a64 *slot, u64 clear)
{
	u64 word = host_a64_read_acquire(slot);

	while (slot_has_object(word)) {
		if ((word & SLOT_READERS) == SLOT_READERS)
			return hold_take_slow(h, slot, clear);
		if (host_a64_cas(slot, &word, (word & ~clear) + SLOT_READER))
			return word & ~(SLOT_READERS | clear);
	}
	return word;
}

/*
 * Holds what the slot has and returns its word, without readers and SLOT_TOUCHED, which it takes
 * away; if that has no object, nothing is held.  The reference in it stays valid until hold_drop().
 * Any context.
 */
static inline u64 hold_take(struct holds *h, host_a64 *slot)
{
	return hold_take_and(h, slot, SLOT_TOUCHED);
}

/*
 * Holds the page that word, with fewer than seven readers, was read from, if nothing about it has
 * changed since.  Takes SLOT_TOUCHED away.  Tried once.  Any context.
 */
static inline bool hold_take_seen(host_a64 *slot, u64 word)
{
	return host_a64_cas(slot, &word, (word & ~SLOT_TOUCHED) + SLOT_READER);
}

/*
 * Ends a hold on ref, which was taken on this slot.  True: it was the last one of an orphan,
 * whose object is the caller's to dispose of (and not to account for).  Any context.
 */
static inline bool hold_drop(struct holds *h, host_a64 *slot, u64 ref)
{
	u64 word = host_a64_read(slot);

	while (slot_names(word, ref) && (word & SLOT_READERS) != SLOT_READERS) {
		/* The caller is one of them. */
		host_assert(word & SLOT_READERS);
		if (host_a64_cas(slot, &word, word - SLOT_READER))
			return false;
	}
	return hold_drop_slow(h, slot, ref);
}

/*
 * word had an object and readers, and slot_swap() took it out of its slot, under the per-CPU item
 * that is still held.  True: nobody holds the object, so it is the caller's to dispose of;
 * false: it is for who drops it last.  Any context.
 */
bool hold_orphan(struct holds *h, u64 word);

#endif
