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
#ifndef EBB_CORE_WRITEBACK_H
#define EBB_CORE_WRITEBACK_H

#include "age.h"
#include "store.h"

/* What a page has to be, all of it; 0: any page that is an object. */
#define CHOOSE_IDLE 1u
#define CHOOSE_HUGE 2u
#define CHOOSE_INCOMPRESSIBLE 4u
#define CHOOSE_AGED 8u                  /* of min_age at least, by ages (age.h) */

#define CHOOSE_SIZES 65

/* Pages chosen, by size: 64ths of a page. */
struct chosen {
	u64 n[CHOOSE_SIZES];
	const struct store_ages *ages;          /* both for CHOOSE_AGED */
	unsigned int min_age;
};

/*
 * Chooses among the next STORE_PIECE slots of *at to end - 1 and moves *at past them; end <= slots.
 * False: these were the last.  Any context.
 */
bool store_choose_piece(struct store *s, u64 *at, u64 end, unsigned int want, struct chosen *c);

/*
 * From the largest sizes not above *top: the smallest size of which room pages, or what there is,
 * cover all of the larger ones and some of its own.  -1: nothing is chosen.
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
 * Begins a read of a backed slot i < slots: what its block has at this moment stays there until
 * store_backed_end().  *word: store_unpack_backed() wants it, slot_block() tells the block.  False:
 * the slot is not backed by now.  Process context.
 */
bool store_backed_begin(struct store *s, u64 i, u64 *word);

/* Ends that.  Any context, an interrupt's, too. */
static inline void store_backed_end(struct store *s, u64 word)
{
	backed_drop(&s->backed, slot_block(word));
}

#endif
