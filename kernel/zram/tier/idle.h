/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* idle.h - marks of pages that nobody touches, which a read or a write takes away (hold.h). */
#ifndef EBB_ZRAM_TIER_IDLE_H
#define EBB_ZRAM_TIER_IDLE_H

#include "store/store.h"

/*
 * Says of the next STORE_PIECE slots of *at to end - 1 that they are idle, if they are pages in
 * objects, and moves *at past them; end <= slots.  With ages, seconds by slot, only those with an
 * age below cutoff are, and the others are not.  A page that is touched just then is not.  False:
 * these were the last.  Any context.
 */
bool store_mark_idle(struct store *s, u64 *at, u64 end, const u32 *ages, u32 cutoff);

#endif
