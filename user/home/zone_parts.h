/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zone_parts.h - what the zone's files share: its blocks and extents, and what they have free.
 * zone.c draws them.  Nobody else includes it.
 */
#ifndef EBB_USER_ZONE_PARTS_H
#define EBB_USER_ZONE_PARTS_H

#include "advise.h"
#include "zone.h"
#include "zone_set.h"

#define PPB_SHIFT (ZONE_BLOCK_SHIFT - PAGE_SHIFT)
#define PPB (1u << PPB_SHIFT)                /* pages per block */
#define WORDS ((PPB + 63) / 64)              /* of one block's bitmap */
#define WORD_FULL (PPB >= 64 ? ~(u64)0 : ((u64)1 << (PPB & 63)) - 1)

#define EXTENTS 19	/* the k-th has blocks 2^k to 2^(k+1) - 1: 1 TiB in all */
#define BLOCKS (1u << EXTENTS)          /* numbers of blocks */

_Static_assert((u64)BLOCKS << PPB_SHIFT <= UINT32_MAX, "host_page is u32");

struct block {
	u64 free[WORDS];
	u64 gone[WORDS];
	u16 nfree;                   /* popcount(free) */
	u16 resident;                /* popcount(free & ~gone) */
};

struct extent {
	struct block *block;         /* [blocks] */
	u32 blocks;                  /* 0: not there */
};

struct zone {
	struct host_pages pub;       /* first: host_page_addr() reads it */
	struct extent extent[EXTENTS];     /* commit; fixed once committed is past it */
	struct block_set res, gone;
	void *sets;                  /* their words: one lazily touched mapping */
	size_t page;                 /* bytes of a page of the system */
	struct advise advise;
	struct mutex commit;

	_Alignas(SMP_CACHE_BYTES) spinlock_t lock;
	u32 next;                    /* block to open */
	u32 committed;               /* end of what is accessible */
	u64 opened;                  /* blocks */
	u64 out, free, free_res, limbo; /* out: READ_ONCE */
	u64 idle;                    /* least free_res since the last decay tick */
	u64 holds, max_pages;
};

static inline struct zone *zone_of(struct host_pages *src)
{
	return (struct zone *)src;
}

static inline char *block_addr(const struct zone *z, u32 b)
{
	return (char *)(z->pub.bias[high_bit(b) + PPB_SHIFT] + ((size_t)b << ZONE_BLOCK_SHIFT));
}

static inline struct block *block_of(const struct zone *z, u32 b)
{
	u32 k = high_bit(b);

	return &z->extent[k].block[b - (1u << k)];
}

/* Pages join (> 0) or leave (< 0) block b's free ones; of them, d_res are resident. */
void zone_block_change(struct zone *z, u32 b, int d_free, int d_res) __must_hold(&z->lock);

/* The system takes all of n blocks from b on, which nobody has a page of.  Process context. */
void zone_give_blocks(struct zone *z, u32 b, u32 n);

#endif
