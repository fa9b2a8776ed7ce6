/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * check.h - every invariant of the core as a function.
 *
 * Nobody else uses the store during a check; nothing is changed.  Each returns NULL, or the
 * sentence of the invariant that does not hold.  Process context.
 *
 *   zspages   popcount(used) == in use > 0;  page[] covers every used object and is of its node;
 *             on a list <=> not full, and filed at its group or a higher one
 *   lists     links agree both ways, members are of the class
 *   pool      sum of page[] == pool_pages(); every chunk of descriptors has one in use
 *   objects   used objects == slot words with one + references in buffers, each named once,
 *             of the right class, with the slot's key
 *   blocks    free, late, out, in hand or named by one slot or buffer; nobody reads one
 *   counters  == what the words say
 *   release   bytes held back == sum of pages that objects take in buffers; a full queue has
 *             nothing more
 */
#ifndef EBB_CORE_CHECK_H
#define EBB_CORE_CHECK_H

#include "store.h"

const char *pool_check(struct pool *p);
const char *store_check(struct store *s);

/* Pages that the store took from the source and still has, the reserve left out. */
u64 store_pages_taken(struct store *s);

#endif
