/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tier_check.h - every invariant of a store with a backing device as a function: those of blocks,
 * and then those of the store (check.h), on the same terms.
 *
 *   blocks    free, late, in hand or named by one slot or batch; nobody reads one
 */
#ifndef EBB_ZRAM_TIER_CHECK_H
#define EBB_ZRAM_TIER_CHECK_H

#include "store/check.h"
#include "writeback.h"

/* store_back() has been called.  Process context. */
const char *tier_check(struct store *s);

#endif
