/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * slot.h - the slot word and what may be done to it in one step.
 *
 *      62     61 60   59     58   57   55   54   53     51 50                              0
 *     |chosen|codec|incompr.|idle| type  | none | readers | reference, fill, block or unit |
 *
 * One atomic word is the whole state of a slot.  Bits 58 to 62 say something about a page, in an
 * object, in a unit or on the backing device; they are 0 in other words, and in a page that was
 * just written.
 *
 *     swap     puts a word in place of any other: a write, or a free if it is 0.  One exchange,
 *              which waits for no other thread and is never tried again
 *     hold     readers + 1, and SLOT_TOUCHED cleared: the object stays as and where it is (hold.h)
 *     swing    by compaction: another reference and nothing else, only if there are no readers
 *     mark     sets and clears bits 58, 59 and 62 (store_mark_idle())
 *     replace  puts another object for the same page in place of the one the caller holds, whoever
 *              else reads that (recompress.h)
 *
 * An object that was swapped out of its word while it had readers is an orphan: a record counts its
 * readers from then on, and the last of them disposes of it (hold.h).
 */
#ifndef EBB_CORE_SLOT_H
#define EBB_CORE_SLOT_H

#include "mm/pool.h"

/*
 * Orderings (docs/internals/locking.md).
 *
 * slot word: swap.  Writes: writer or free, exchange.  Reads: hold, look.  Order: full (acquire
 *     and release are enough): bytes, header, descriptor before the word; readers' drops before
 *     the free.  Without it: a reader of a torn object; bytes that are written again under a
 *     reader.  Model: slot_publish, slot_orphan.
 * slot word: hold.  Writes: reader, CAS.  Reads: writer, free, compaction.  Order: full (acquire
 *     is enough), first look acquire: word before bytes; a fill word has no bytes.  Without it:
 *     the same.  Model: slot_publish.
 * slot word: drop.  Writes: reader, CAS.  Reads: who frees.  Order: full (release is enough):
 *     reads of the object before the word.  Without it: bytes that are written again under a
 *     reader.  Model: slot_publish, slot_orphan.
 * slot word: replace.  Writes: recompression, CAS.  Reads: all.  Order: full, as a swap.
 *     Without it: as for a swap.  Model: slot_publish, slot_orphan (the shape).
 * slot word: mark.  Writes: who marks, CAS; who no longer wants a page written, full AND; a
 *     hold, CAS.  Reads: who looks for marks, relaxed.  Order: none: it is about no bytes.
 * slot word: swing.  Writes: compaction, CAS.  Reads: all.  Order: look acquire: word before the
 *     bytes that are copied; CAS full: the copy before the word.  Without it: a copy of old
 *     bytes.  Model: compact.
 */

#define SLOT_READER ((u64)1 << 51)
#define SLOT_READERS ((u64)7 << 51)
#define SLOT_NONE ((u64)1 << 54 | (u64)1 << 63)  /* these bits are always 0 */
#define SLOT_TYPE_SHIFT 55
#define SLOT_TYPE ((u64)7 << SLOT_TYPE_SHIFT)
#define SLOT_VALUE (SLOT_READER - 1)
#define SLOT_IDLE ((u64)1 << 58)                /* neither read nor written since it was marked */
#define SLOT_INCOMPRESSIBLE ((u64)1 << 59)      /* no codec makes it smaller than it is */
#define SLOT_CODEC_SHIFT 60                     /* priority of the codec that made the object */
#define SLOT_CODEC ((u64)3 << SLOT_CODEC_SHIFT)
#define SLOT_CHOSEN ((u64)1 << 62)              /* to be written back */
#define SLOT_ABOUT ((u64)31 << 58)              /* all of these */
#define SLOT_TOUCHED (SLOT_IDLE | SLOT_CHOSEN)  /* a read or a write clears them */

/* The value of a backed slot: the block, and 1 + PAGE_SHIFT bits of size above it. */
#define SLOT_BLOCK_BITS (50 - PAGE_SHIFT)
#define SLOT_BLOCK_MASK (((u64)1 << SLOT_BLOCK_BITS) - 1)

enum slot_type {
	SLOT_EMPTY,     /* the whole word is 0 */
	SLOT_FILL,      /* one repeated machine word, coded in the value */
	SLOT_BACKED,    /* a page on the backing device: size and block */
	SLOT_UNIT,      /* a page of a unit, which several slots name (unit.h) */
	SLOT_FILL_OBJ,  /* the same, in an object of 8 bytes: the value has no code for it */
	SLOT_PAGE,      /* an object: compressed, or raw if its size is a page */
	SLOT_BLOB,      /* an object: bytes as the owner gave them */
	SLOT_PIECE,     /* an object: a part of a unit; in no slot, but in a word of its own */
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

/* The priority of the codec that made a page's object or unit; 0 of anything else. */
static inline unsigned int slot_codec(u64 word)
{
	return (unsigned int)(word >> SLOT_CODEC_SHIFT & 3);
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
 * bytes: the size of the object that the page was, or 0: it was in a unit.  block has these bytes
 * if pages are packed; otherwise, and of a page of a unit, it has the whole page.
 */
static inline u64 slot_backed_value(size_t bytes, u64 block)
{
	return (u64)bytes << SLOT_BLOCK_BITS | block;
}

static inline u64 slot_block(u64 word)
{
	return word & SLOT_BLOCK_MASK;
}

static inline size_t slot_backed_size(u64 word)
{
	return (size_t)((word & SLOT_VALUE) >> SLOT_BLOCK_BITS);
}

/* What the block has of it, if pages are packed. */
static inline size_t slot_backed_bytes(u64 word)
{
	size_t size = slot_backed_size(word);

	return size ? size : PAGE_SIZE;
}

/* Whether two words of a slot say the same content, by the same codec; readers and marks aside. */
static inline bool slot_same_value(u64 a, u64 b)
{
	return !((a ^ b) & (SLOT_TYPE | SLOT_VALUE | SLOT_CODEC));
}

/* Whether a word names object ref.  The caller holds that, so no other has the reference. */
static inline bool slot_names(u64 word, u64 ref)
{
	return slot_has_object(word) && slot_ref(word) == ref;
}

/* Whether memory has the word's page, in an object of its own or in a unit. */
static inline bool slot_has_page(u64 word)
{
	return slot_type(word) == SLOT_PAGE || slot_type(word) == SLOT_UNIT;
}

/* Whether words of a type may have bits of SLOT_ABOUT. */
static inline bool slot_is_page(enum slot_type type)
{
	return type == SLOT_PAGE || type == SLOT_UNIT || type == SLOT_BACKED;
}

/* Whether a word may be in a slot: SLOT_NONE 0, and SLOT_ABOUT 0 without a page. */
static inline bool slot_is_word(u64 word)
{
	enum slot_type type = slot_type(word);

	if (type == SLOT_EMPTY)
		return !word;
	return !(word & SLOT_NONE) && (type >= SLOT_FILL_OBJ || !(word & SLOT_READERS)) &&
	       (!(word & SLOT_ABOUT) || slot_is_page(type));
}

/* Puts new in a slot and returns the old word, with its readers (hold_orphan()).  Any context. */
static inline u64 slot_swap(host_a64 *slot, u64 new)
{
	u64 old;

	host_assert(slot_is_word(new) && !(new & SLOT_READERS));
	old = host_a64_xchg(slot, new);
	host_assert(slot_is_word(old));
	return old;
}

/*
 * Puts new in place of a word that names ref, which the caller holds.  *old: that word, with its
 * readers.  False: the slot names another object by now, or none.
 */
static inline bool slot_replace(host_a64 *slot, u64 ref, u64 new, u64 *old)
{
	host_assert(slot_is_word(new) && !(new & SLOT_READERS));
	*old = host_a64_read(slot);
	while (slot_names(*old, ref))
		if (host_a64_cas(slot, old, new))
			return true;
	return false;
}

/* Sets and clears bits of SLOT_ABOUT.  Tried once; false: the slot no longer has word. */
static inline bool slot_mark(host_a64 *slot, u64 word, u64 set, u64 clear)
{
	return host_a64_cas(slot, &word, (word & ~clear) | set);
}

/* The same, tried as long as the slot says what word does and any of the bits is to change. */
static inline void slot_mark_same(host_a64 *slot, u64 word, u64 set, u64 clear)
{
	u64 now;

	do
		now = host_a64_read(slot);
	while ((now & clear || ~now & set) && slot_same_value(now, word) &&
	       !slot_mark(slot, now, set, clear));
}

/* The reference that compaction may move now, or 0. */
static inline u64 slot_movable(const host_a64 *slot)
{
	u64 word = host_a64_read_acquire(slot);

	return slot_has_object(word) && !(word & SLOT_READERS) ? slot_ref(word) : 0;
}

/* Puts to in place of from.  Tried once: any other change of the word goes before compaction. */
static inline bool slot_swing(host_a64 *slot, u64 from, u64 to)
{
	u64 word = host_a64_read(slot);

	host_assert(!((from ^ to) & ~REF_LOC_MASK));
	return slot_names(word, from) && !(word & SLOT_READERS) &&
	       host_a64_cas(slot, &word, (word & ~REF_MASK) | to);
}

#endif
