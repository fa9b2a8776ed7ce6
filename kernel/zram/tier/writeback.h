/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * writeback.h - which pages go to the backing device, and how they are read there.
 *
 *     choose: mark pages, count them by size
 *     then, largest first:  copy out, write, store_to_backed()
 *
 * No memory is taken for that: what is chosen is said by a bit in the slot word, which a read or a
 * write of the slot clears.  One caller at a time chooses and writes back.
 */
#ifndef EBB_ZRAM_WRITEBACK_H
#define EBB_ZRAM_WRITEBACK_H

#include "backed.h"
#include "store/store.h"

/* What a page has to be, all of it; 0: any page that is an object. */
#define CHOOSE_IDLE 1u
#define CHOOSE_HUGE 2u
#define CHOOSE_INCOMPRESSIBLE 4u

#define CHOOSE_SIZES 65

/* Pages chosen, by size: 64ths of a page. */
struct chosen {
	u64 n[CHOOSE_SIZES];
};

/*
 * Chooses among the next STORE_PIECE slots of *at to end - 1 and moves *at past them; end <= slots.
 * False: these were the last.  Any context.
 */
bool store_choose_piece(struct store *s, u64 *at, u64 end, unsigned int want, struct chosen *c);

/*
 * The smallest size for which room pages are enough for all chosen pages from it up to top; or, if
 * they are not enough for those of the largest size there is up to top, that.  -1: none is chosen.
 */
int chosen_down_to(const struct chosen *c, int top, u64 room);

/*
 * Looks at the next STORE_PIECE slots from *at on.  True: slot *at is chosen and of one of these
 * sizes; false: there was none, and *at is past them, at the end if it is slots.  Any context.
 */
bool store_next_chosen(struct store *s, u64 *at, int smallest, int largest);

/* What is left chosen, no longer is: as store_choose_piece(), for all slots.  Any context. */
bool store_unchoose_piece(struct store *s, u64 *at);
/* Slot i is no longer chosen, whatever becomes of it.  Any context. */
void store_unchoose(struct store *s, u64 i);

/*
 * Puts a block, which the caller reserved and wrote, in the place of the object of slot i < slots,
 * if that is still chosen: then nobody has touched it since it was.  False: it is not, or others
 * were quicker many times, and the block is still the caller's.  Any context.
 */
bool store_to_backed(struct store *s, u64 i, u64 block);

/*
 * Copies the page of slot i < slots, or, if packed and it is in no unit, the bytes that it came to
 * and zeros after them, into buf, PAGE_SIZE bytes.  That is no read: the slot stays chosen.
 * Process context.  -ENOENT: it is no longer; -EIO: it does not decompress.
 */
int store_copy_out(struct store *s, u64 i, void *buf, bool packed);

/*
 * Makes a page of what store_copy_out() packed, which may have become anything meanwhile; word is
 * that of the backed slot.  Process context.  -EIO: it does not decompress, and page is zeros.
 */
int store_unpack_backed(struct store *s, u64 word, const void *data, void *page);

/*
 * Gives a store that nobody uses yet a backing device of so many blocks, 0: none.  b is what is
 * known of them; backed_destroy() ends it after store_destroy().  Process context.  -EINVAL: more
 * than a slot word can name; -ENOMEM; then the store has none.
 */
int store_back(struct store *s, struct backed *b, u64 blocks);

/* Blocks that slots have, or that are about to be theirs.  Any context. */
u64 store_blocks(struct store *s);

/* Gives back the blocks of all batches (backed.h); a look at each CPU.  Any context. */
void store_collect_blocks(struct store *s);

/*
 * As backed_reserve(); if there is none it collects what CPUs let go of, so an error means that all
 * that was let go of before the call is free or late.
 */
int store_reserve_block(struct store *s, u64 *block);

/*
 * Puts a block, which the caller reserved and wrote a page to, in slot i < slots, whatever is
 * there: a write whose page was never in memory.  The slot has a word (store_need_slot()).  Any
 * context.
 */
void store_put_backed(struct store *s, u64 i, u64 block);

/*
 * Begins a read of a backed slot i < slots: what its block has at this moment stays there until
 * store_backed_end().  *word: store_unpack_backed() wants it, slot_block() tells the block.  False:
 * the slot is not backed by now.  Process context.
 */
bool store_backed_begin(struct store *s, u64 i, u64 *word);

/* Ends that.  Any context, an interrupt's, too. */
static inline void store_backed_end(struct store *s, u64 word)
{
	backed_drop(s->backed, slot_block(word));
}

#endif
