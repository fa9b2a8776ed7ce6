// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* writeback.c - see writeback.h. */
#include "writeback.h"

static int size_of(struct store *s, u64 word)
{
	return (int)(pool_ref_size(&s->pool, slot_ref(word)) >> (HOST_PAGE_SHIFT - 6));
}

static bool is_wanted(struct store *s, u64 i, u64 word, unsigned int want, const struct chosen *c)
{
	return slot_type(word) == SLOT_PAGE && !(word & SLOT_CHOSEN) &&
	       (!(want & CHOOSE_IDLE) || word & SLOT_IDLE) &&
	       (!(want & CHOOSE_INCOMPRESSIBLE) || word & SLOT_INCOMPRESSIBLE) &&
	       (!(want & CHOOSE_AGED) || store_is_aged(c->ages, i, word, c->min_age)) &&
	       (!(want & CHOOSE_HUGE) ||
		pool_ref_size(&s->pool, slot_ref(word)) == HOST_PAGE_SIZE);
}

bool store_choose_piece(struct store *s, u64 *at, u64 end, unsigned int want, struct chosen *c)
{
	unsigned int left = STORE_PIECE;
	host_a64 *slot;

	while ((slot = store_next_slot(s, at, end, &left))) {
		u64 word = host_a64_read(slot);

		if (is_wanted(s, *at - 1, word, want, c) && slot_mark(slot, word, SLOT_CHOSEN, 0))
			c->n[size_of(s, word)]++;
	}
	return *at < end;
}

int chosen_down_to(const struct chosen *c, int top, u64 room)
{
	int size, found = -1;
	u64 n = 0;

	for (size = top; size >= 0 && (found < 0 || n < room); size--) {
		if (found >= 0 && c->n[size] > room - n)
			break;
		n += c->n[size];
		if (c->n[size])
			found = size;
	}
	return found;
}

bool store_next_chosen(struct store *s, u64 *at, int smallest, int largest)
{
	unsigned int left;

	for (left = STORE_PIECE; left && *at < s->slots; left--) {
		u64 skip = host_table_skip(&s->table, *at), word;

		word = skip ? 0 : host_a64_read(store_slot(s, *at));
		if (slot_type(word) == SLOT_PAGE && word & SLOT_CHOSEN &&
		    size_of(s, word) >= smallest && size_of(s, word) <= largest)
			return true;
		*at += skip ? skip : 1;
	}
	return false;
}

void store_unchoose(struct store *s, u64 i)
{
	host_a64 *slot = store_slot(s, i);
	u64 word = host_a64_read(slot);

	if (word & SLOT_CHOSEN && !slot_mark(slot, word, 0, SLOT_CHOSEN))
		hold_unmark(&s->holds, slot, SLOT_CHOSEN);
}

bool store_unchoose_piece(struct store *s, u64 *at)
{
	unsigned int left = STORE_PIECE;

	while (store_next_slot(s, at, s->slots, &left))
		store_unchoose(s, *at - 1);
	return *at < s->slots;
}

/*
 * The count comes before the second look, as the swap of a free comes before its look at the count:
 * one of the two sees the other.  What is read is of the second look: the block may have come back
 * to the slot with another page of the same size, which another codec made.  Each turn that is lost
 * was lost to a whole writeback.
 */
bool store_backed_begin(struct store *s, u64 i, u64 *word)
{
	host_a64 *slot = store_slot(s, i);
	u64 seen;

	for (;;) {
		seen = host_a64_read(slot);
		if (slot_type(seen) != SLOT_BACKED)
			return false;
		backed_hold(&s->backed, slot_block(seen));
		*word = host_a64_read_acquire(slot);
		if (slot_same_value(*word, seen))
			break;
		backed_drop(&s->backed, slot_block(seen));
	}
	store_note(s, CNT_BD_READS);
	return true;
}
