/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * grown.h - arrays that grow at their end and never move: who reads needs no lock, and an empty one
 * takes nothing.
 *
 *     part[0]   elements 0 .. 15
 *     part[1]            16 .. 47        each twice as large as the one before
 *     part[2]            48 .. 111
 *
 * A part is made when its first element is to be there, all zeros, and stays to the end: its memory
 * may be given back meanwhile, and then it reads as zeros.  The size of an element is the caller's
 * to know, the same in each call.
 */
#ifndef EBB_USER_GROWN_H
#define EBB_USER_GROWN_H

#include "host.h"

#define GROWN_SHIFT 4u                  /* log2 of the first part's elements */
#define GROWN_PARTS (33u - GROWN_SHIFT)

struct grown {
	void *part[GROWN_PARTS];        /* atomic; NULL: not there yet */
};

/* The part of element i, and which of the part's it is. */
static inline unsigned int grown_part(u32 i, u32 *at)
{
	u64 n = i + ((u64)1 << GROWN_SHIFT);
	unsigned int bit = 63 - (unsigned int)__builtin_clzll(n);

	*at = (u32)(n ^ (u64)1 << bit);
	return bit - GROWN_SHIFT;
}

/* Element i; NULL: its part is not there, as far as the caller sees.  Any thread. */
static inline void *grown_look(const struct grown *g, u32 i, size_t bytes)
{
	u32 at;
	unsigned int k = grown_part(i, &at);
	char *part = __atomic_load_n(&g->part[k], __ATOMIC_ACQUIRE);

	return likely(part != NULL) ? part + at * bytes : NULL;
}

/* Element i, whose part is there; another thread may just find that, too. */
static inline void *grown_at(const struct grown *g, u32 i, size_t bytes)
{
	u32 at;
	unsigned int k = grown_part(i, &at);

	return (char *)__atomic_load_n(&g->part[k], __ATOMIC_RELAXED) + at * bytes;
}

/*
 * Has elements 0 to n - 1 be there, of which the caller says that the first ones are.  Process
 * context; several threads may do so.  False: there is no memory.
 */
bool grown_need(struct grown *g, u32 n, size_t bytes);

/* Gives the memory of elements from to to - 1 back, as far as it is whole pages. */
void grown_give(struct grown *g, u32 from, u32 to, size_t bytes);

/* Nobody looks at it any more. */
void grown_end(struct grown *g, size_t bytes);

#endif
