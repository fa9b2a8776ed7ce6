/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* compact.h - a whole compaction while its caller waits (ebb_compact()), and a look for holes. */
#ifndef EBB_USER_COMPACT_H
#define EBB_USER_COMPACT_H

#include "store/store.h"

/*
 * With a rest after each step; it ends early when host_interrupted().  Returns the pages that it
 * freed.  Process context.
 */
u64 pool_compact(struct pool *p);

/* Flushes, then compacts; returns the pages that compaction freed.  Process context. */
u64 store_compact(struct store *s);

/*
 * As shrink_look(), but nothing is stuck until another whole pass was made: for a caller that knows
 * that the last pass met frees and allocations, and that they have stopped.
 */
void shrink_look_anew(struct shrink *sh, u64 room);

#endif
