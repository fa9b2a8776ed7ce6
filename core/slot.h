/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * slot.h - the slot word and its transitions.
 *
 *     63     58 57   55   54   53     51 50                       0
 *     | spare   | type  | FREE | readers | reference or fill value |
 *
 * One atomic word is the whole state of a slot.  spare is kept for what later comes with
 * idle tracking, writeback and recompression.
 *
 *     empty --publish--> page, fill, object --detach--> empty
 *     readers > 0: detach leaves FREE; the last reader to drop makes the word empty and
 *                  disposes of the object
 *
 *     publish  waits for readers (process context), replaces the word
 *     detach   never waits (any context)
 *     hold     pins a reference: no detach completes, no swing succeeds
 *     swing    compaction's: other reference, same everything, only if nobody holds it
 *
 * A word with FREE set reads as empty: its owner has freed it.
 */
#ifndef EBB_CORE_SLOT_H
#define EBB_CORE_SLOT_H

#include "pool.h"

#define SLOT_READER ((u64)1 << 51)
#define SLOT_READERS ((u64)7 << 51)
#define SLOT_FREE ((u64)1 << 54)
#define SLOT_TYPE_SHIFT 55
#define SLOT_TYPE ((u64)7 << SLOT_TYPE_SHIFT)
#define SLOT_VALUE (SLOT_READER - 1)

enum slot_type {
	SLOT_EMPTY,     /* the whole word is 0 */
	SLOT_FILL,      /* one repeated machine word, coded in the value */
	SLOT_FILL_OBJ,  /* the same, in an object of 8 bytes: it did not fit in the value */
	SLOT_PAGE,      /* an object: compressed, or raw if its size is a page */
	SLOT_BLOB,      /* an object: bytes as the owner gave them */
};

static inline enum slot_type slot_type(u64 word)
{
	return (enum slot_type)(word >> SLOT_TYPE_SHIFT & 7);
}

static inline u64 slot_make(enum slot_type type, u64 value)
{
	return (u64)type << SLOT_TYPE_SHIFT | value;
}

static inline bool slot_has_object(u64 word)
{
	return slot_type(word) >= SLOT_FILL_OBJ;
}

static inline u64 slot_ref(u64 word)
{
	return word & REF_MASK;
}

/*
 * A repeated word fits in 51 bits if it is a sign-extended 48-bit number (0, small numbers,
 * pointers), one 32-bit number twice (repeated bytes), or has 16 low zero bits (most
 * doubles).  Bits 50..49 say which.
 */
static inline bool slot_fill_code(u64 fill, u64 *value)
{
	const u64 low48 = ((u64)1 << 48) - 1;
	u64 top = fill >> 47;

	if (top == 0 || top == (u64)0x1ffff)
		*value = fill & low48;
	else if (fill >> 32 == (fill & 0xffffffff))
		*value = (u64)1 << 49 | (fill & 0xffffffff);
	else if (!(fill & 0xffff))
		*value = (u64)2 << 49 | fill >> 16;
	else
		return false;
	return true;
}

static inline u64 slot_fill_value(u64 word)
{
	const u64 low48 = ((u64)1 << 48) - 1;
	u64 v = word & low48;

	switch (word >> 49 & 3) {
	case 0:
		return v >> 47 ? v | ~low48 : v;
	case 1:
		return v << 32 | v;
	default:
		return v << 16;
	}
}

/*
 * Takes a reference that stays valid until slot_drop(), and returns the word; no hold is taken
 * if it has no object (an empty or freed slot: 0).  Process context: waits if seven others
 * read the same slot.
 */
static inline u64 slot_hold(host_a64 *slot)
{
	unsigned int spins = 0;
	u64 word = host_a64_read_acquire(slot);

	for (;;) {
		if (!slot_has_object(word))
			return word;
		if (word & SLOT_FREE)
			return 0;
		if ((word & SLOT_READERS) == SLOT_READERS) {
			host_relax(&spins);
			word = host_a64_read_acquire(slot);
		} else if (host_a64_cas(slot, &word, word + SLOT_READER)) {
			return word;
		}
	}
}

/* Ends a hold.  Not 0: the word that was freed meanwhile; its object is the caller's. */
static inline u64 slot_drop(host_a64 *slot)
{
	u64 word = host_a64_read(slot), next;

	do {
		next = word - SLOT_READER;
		if ((next & (SLOT_FREE | SLOT_READERS)) == SLOT_FREE)
			next = 0;
	} while (!host_a64_cas(slot, &word, next));
	return next ? 0 : word & ~(SLOT_FREE | SLOT_READERS);
}

/* Empties a slot.  Not 0: the word it had; its object is the caller's. */
static inline u64 slot_detach(host_a64 *slot)
{
	u64 word = host_a64_read(slot), next;

	do {
		if (!word || word & SLOT_FREE)
			return 0;
		next = word & SLOT_READERS ? word | SLOT_FREE : 0;
	} while (!host_a64_cas(slot, &word, next));
	return next ? 0 : word;
}

/* Puts a word in place and returns the one it replaces; its object is the caller's. */
static inline u64 slot_publish(host_a64 *slot, u64 new)
{
	unsigned int spins = 0;
	u64 word = host_a64_read(slot);

	for (;;) {
		if (word & SLOT_READERS) {
			host_relax(&spins);
			word = host_a64_read(slot);
		} else if (host_a64_cas(slot, &word, new)) {
			return word;
		}
	}
}

/* The reference that compaction may move now, or 0. */
static inline u64 slot_movable(const host_a64 *slot)
{
	u64 word = host_a64_read_acquire(slot);

	if (!slot_has_object(word) || word & (SLOT_FREE | SLOT_READERS))
		return 0;
	return slot_ref(word);
}

static inline bool slot_swing(host_a64 *slot, u64 from, u64 to)
{
	u64 word = host_a64_read(slot);

	do {
		if (!slot_has_object(word) || word & (SLOT_FREE | SLOT_READERS) ||
		    slot_ref(word) != from)
			return false;
	} while (!host_a64_cas(slot, &word, (word & ~REF_MASK) | to));
	return true;
}

#endif
