/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * check.h - every invariant of the core as a function: of the store, and of its allocator
 * (pool_check.h).
 *
 * Nobody else uses the store during a check, which changes nothing.  It returns NULL, or the
 * sentence of the invariant that does not hold.  Process context.
 *
 *   objects   used objects == slot words with one + references in buffers, each named once,
 *             of the right class, with the slot's key
 *   counters  == what the words say
 */
#ifndef EBB_CORE_CHECK_H
#define EBB_CORE_CHECK_H

#include "mm/pool_check.h"
#include "store.h"

const char *store_check(struct store *s);

#endif
