/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hold.h - holds on objects: how many read one, and which of them disposes of it.
 *
 *     holders of an object == readers in the word that names it + what its record says
 *
 *     record      when
 *     none        0: all readers are in the word
 *     > 0         more than seven read (the word stays at seven), or the object is an orphan
 *     < 0         a reader dropped its hold between a swap and the hold_orphan() after it
 *
 * A hold and a drop are a compare-and-swap on the word, tried until it succeeds or the word names
 * another object.  If the word has seven readers, holds and drops change the number under the lock
 * alone.  An eighth is counted in the record, once a compare-and-swap has shown that the word still
 * names the object; a drop takes a reader off the record first, and then off the word.  A swap
 * takes no lock, but the hold_orphan() after it does.
 *
 * Records are found by hash of the reference and never allocated.  A store has enough of them.
 * Each reader has a stream, or in blob_get() a per-CPU item, and only one recompression holds an
 * object without either.  A record < 0 is of a swap, which has an item.  So records <= streams +
 * items + 1.
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
	u32 next;               /* record + 1 of its bucket, or of the unused; 0: the last */
	bool orphan;            /* no word names the object, and n counts all its readers */
};

struct holds {
	spinlock_t lock;
	u32 unused;             /* record + 1; lock */
	u32 max;
	u32 mask;               /* buckets - 1 */
	u32 *bucket;            /* [mask + 1], each record + 1, or 0; lock */
	struct hold_record *record;     /* [max]; lock */
};

/* Makes room for max records.  Process context.  -ENOMEM; then holds_destroy() is still due. */
int holds_init(struct holds *h, u32 max);
/* Nobody holds anything; or h is zeros.  Process context. */
void holds_destroy(struct holds *h);

/* Whether some object has a record.  Any context. */
bool holds_any(struct holds *h);

/* The parts of hold_take_and() and hold_drop() that take the lock. */
u64 hold_take_slow(struct holds *h, host_a64 *slot, u64 clear);
bool hold_drop_slow(struct holds *h, host_a64 *slot, u64 ref);

/* hold_take() that clears other bits than SLOT_TOUCHED, or none. */
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
 * Holds the slot's object, if there is one, clears SLOT_TOUCHED, and returns the word without
 * readers.  The reference in it stays valid until hold_drop().  Any context.
 */
static inline u64 hold_take(struct holds *h, host_a64 *slot)
{
	return hold_take_and(h, slot, SLOT_TOUCHED);
}

/*
 * Holds the object of word, which has fewer than seven readers, and clears SLOT_TOUCHED, if the
 * slot still has that word.  Tried once.  Any context.
 */
static inline bool hold_take_seen(host_a64 *slot, u64 word)
{
	return host_a64_cas(slot, &word, (word & ~SLOT_TOUCHED) + SLOT_READER);
}

/*
 * Ends a hold on ref, which was taken on this slot.  True: it was the last one of an orphan, which
 * the caller then disposes of; the counters are right already.  Any context.
 */
static inline bool hold_drop(struct holds *h, host_a64 *slot, u64 ref)
{
	u64 word = host_a64_read(slot);

	while (slot_names(word, ref) && (word & SLOT_READERS) != SLOT_READERS) {
		/* The caller is one of the readers. */
		host_assert(word & SLOT_READERS);
		if (host_a64_cas(slot, &word, word - SLOT_READER))
			return false;
	}
	return hold_drop_slow(h, slot, ref);
}

/*
 * Makes an orphan of the object of word, which had readers, and which slot_swap() or slot_replace()
 * took out of its slot under the per-CPU item that is still held.  True: nobody holds the object,
 * and the caller disposes of it; false: the last hold_drop() does.  Any context.
 */
bool hold_orphan(struct holds *h, u64 word);

#endif
