/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * recompress.h - pages in the store that are not new any more: which are idle, and those that
 * another codec makes smaller.
 *
 *     slot: ref, codec 0 --hold, read--> page --codec p--> new object
 *       |                                                      |
 *       +-- one compare-and-swap, if it is still that page <---+       slot: new ref, codec p
 *
 * A write, a free or a read goes on meanwhile as ever.  Who reads the old object keeps it to the
 * end of the read; a write or a free that came first wins, and the new object is let go.
 *
 * Semantics are in-tree zram's: a page is tried once by each codec of a higher priority than the
 * one that made it, and it is replaced if the size class gets smaller.  A unit is tried as a whole,
 * where the request is about each of its pages, and counts as so many; it is replaced if its pieces
 * take less room.  Its pages keep their ages.
 */
#ifndef EBB_ZRAM_RECOMPRESS_H
#define EBB_ZRAM_RECOMPRESS_H

#include "store/store.h"

/* What recompression needs of its caller: PAGE_SIZE bytes each, page those of a unit. */
struct recompress_work {
	void *page, *packed;
};

/* Pages that are tried between two rests: 64 KiB, and a page at least. */
#define RECOMPRESS_PIECE (PAGE_SIZE < 65536u ? 65536u / (unsigned int)PAGE_SIZE : 1u)
#define RECOMPRESS_STEP 64u             /* bytes of a band of sizes */
#define RECOMPRESS_BANDS (PAGE_SIZE / RECOMPRESS_STEP + 1)

struct recompress_request {
	unsigned int priority;          /* 1 .. STORE_CODECS - 1; there is a codec of it */
	bool idle, huge;                /* only pages that are idle; that are stored raw */
	size_t threshold;      /* bytes: smaller objects stay, and a new one has fewer; 0: any */
	unsigned int from, to;          /* bands of sizes, from .. to - 1 */
	u64 left;                       /* pages that may still be tried */
	u64 tried, done;                /* so far */
	u32 *ages;                      /* NULL, or seconds by slot: who gets smaller has 0 then */
};

enum recompress_outcome {
	RECOMPRESS_PASSED,      /* not one that the request is about: not tried */
	RECOMPRESS_KEPT,        /* tried; it does not get smaller, or was written meanwhile */
	RECOMPRESS_DONE,        /* it is smaller now */
};

/* All pages, of all sizes. */
void recompress_request_init(struct recompress_request *r, unsigned int priority);

/*
 * The highest priority of which the store has a codec, or one that takes units: what it does not
 * make smaller is incompressible, and is not tried again.
 */
unsigned int store_last_codec(const struct store *s, bool units);

/*
 * Tries slot i < slots, and counts in the request.  An enum recompress_outcome, or an error with
 * which nothing has changed but that the page is not idle any more: -EIO: a codec failed; -ENOMEM;
 * -ENOSPC as store_try_write(), but not of a unit, which is passed over then.
 * Memory is not waited for.  mem_limit is not looked at, since less is taken than is given back.
 * Process context; one caller at a time for each store (hold.h counts on it).
 */
int store_recompress(struct store *s, u64 i, struct recompress_request *r,
		     const struct recompress_work *w);

/*
 * Tries the next slots of *at to end - 1, STORE_PIECE of them or RECOMPRESS_PIECE pages, and moves
 * *at past them; counts in the request.  1: there are more, and pages may still be tried; 0: that
 * was all; or the first error.  As store_recompress(), with rests.
 */
int store_recompress_piece(struct store *s, u64 *at, u64 end, struct recompress_request *r,
			   const struct recompress_work *w);

/*
 * Adds to count[RECOMPRESS_BANDS] the pages that the request is about, by bands of sizes, among the
 * next STORE_PIECE slots of *at to end - 1; moves *at past them.  False: these were the last.  Any
 * context.
 */
bool store_recompressible(struct store *s, u64 *at, u64 end, const struct recompress_request *r,
			  u64 *count);

#endif
