// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* idle.c - marks slots of a store as idle. */
#include "idle.h"

#include "store/store_word.h"

static void mark_idle(host_a64 *slot, bool idle)
{
	u64 word;

	do
		word = host_a64_read(slot);
	while (slot_has_page(word) && idle != !!(word & SLOT_IDLE) &&
	       !slot_mark(slot, word, idle ? SLOT_IDLE : 0, idle ? 0 : SLOT_IDLE));
}

bool store_mark_idle(struct store *s, u64 *at, u64 end, const u32 *ages, u32 cutoff)
{
	unsigned int left = STORE_PIECE;
	host_a64 *slot;

	while ((slot = store_next_slot(s, at, end, &left)))
		mark_idle(slot, !ages || READ_ONCE(ages[*at - 1]) < cutoff);
	return *at < end;
}
