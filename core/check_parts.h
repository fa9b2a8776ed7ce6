/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * check_parts.h - what check.c and cell_check.c share: nobody else includes it.
 */
#ifndef EBB_CORE_CHECK_PARTS_H
#define EBB_CORE_CHECK_PARTS_H

#include "check.h"

struct pool_walk {
	struct pool *p;
	const char *bad;
	u64 pages, partial, used;
};

/* All zspages of a pool, as of pool_check(); *w is zeroed.  Returns the sentence. */
const char *check_zspages(struct pool *p, struct pool_walk *w);

/* Of a store, or, s being NULL, of cells. */
struct check_walk {
	struct store *s;
	struct pool *pool;
	struct counters sum;
	const char *bad;
	u64 objects, held;
	u64 blocks;                     /* that slots and buffers name */
	u64 *seen;                      /* a bit for each block; NULL: no memory for it */
};

/* A reference names an object that is in use; *key is its owner's. */
const char *check_ref(struct pool *p, u64 ref, u32 *key);

/* What is held back; adds its objects to w->objects, and sets w->bad. */
void check_release(struct check_walk *w, struct release *r);

#endif
