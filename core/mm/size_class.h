/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * size_class.h - the class table: object sizes, chain sizes, merging.
 *
 * Raw classes i = 0, 1, ... have sizes  min(32 + i * delta, page_size),  delta = page_size / 256;
 * there are 255 of them for 4 KiB pages, 257 for larger ones.  A zspage of a class has n = 1 .. max
 * pages, by one of two rules:
 *
 *     CLASS_LEAST_WASTE  the first n with the fewest bytes left over, n * page mod size (1 for
 *                        powers of two).  Linux 7.3 does so, and pools do.
 *     CLASS_MOST_USED    the first n with the highest used percentage, in integers:
 *                        (n * page - (n * page mod size)) * 100 / (n * page).  The documentation
 *                        of zsmalloc says so, and Linux did up to 6.18.  Pools of 64 KiB pages do,
 *                        since the other rule would leave some classes too few zspage numbers
 *                        for 4 TiB (test_pool).
 *
 * From the largest down, a raw class is merged with the one above it if both put the same number of
 * objects on the same number of pages.  A class with one object to a zspage of one page is huge:
 * its objects are raw pages and have no header.  (docs/internals/design.md, "Class table".)
 */
#ifndef EBB_CORE_SIZE_CLASS_H
#define EBB_CORE_SIZE_CLASS_H

#include "host.h"

#define CLASS_RAW_MAX 257       /* raw classes at most */
#define CLASS_MIN_SIZE 32
#define CHAIN_MIN 4
#define CHAIN_MAX 16
#define CLASS_OBJS_MAX 2048     /* objects of a zspage never exceed it, checked at init */

enum class_rule { CLASS_LEAST_WASTE, CLASS_MOST_USED };

struct size_class {
	u32 size;       /* bytes of an object, its header included */
	u32 room;       /* an object's part of a full zspage, in bytes, rounded up */
	u16 objs;       /* objects of a zspage */
	u16 index;      /* the largest of the raw classes that were merged to it */
	u8 pages;       /* pages of a zspage, 1 .. chain size */
};

struct class_table {
	u32 page_size;
	u32 delta;              /* bytes between raw classes: 1 << delta_shift */
	u32 delta_shift;
	u32 nraw;               /* raw classes */
	u32 nclasses;           /* merged classes */
	u32 largest;            /* size of the largest class that is not huge */
	u8 merged[CLASS_RAW_MAX];   /* raw class -> its place in class[] */
	struct size_class class[CLASS_RAW_MAX]; /* merged classes, smallest first */
};

/*
 * Fills *t.  page_size: a power of two, 4096 to 65536; chain: CHAIN_MIN to CHAIN_MAX.
 * Any context.  -EINVAL when either is out of range.
 */
int class_table_init(struct class_table *t, size_t page_size, unsigned int chain,
		     enum class_rule rule);

/* The rule for a pool of pages of page bytes. */
static inline enum class_rule class_pool_rule(size_t page)
{
	return page < 65536 ? CLASS_LEAST_WASTE : CLASS_MOST_USED;
}

/* Bits for the number of an object, 0 .. objs - 1. */
static inline unsigned int class_obj_bits(unsigned int objs)
{
	return objs > 1 ? 32u - (unsigned int)__builtin_clz(objs - 1) : 0;
}

/* The raw class for objects of bytes (1 .. page_size, header included). */
static inline unsigned int class_raw_index(const struct class_table *t, size_t bytes)
{
	if (bytes <= CLASS_MIN_SIZE)
		return 0;
	return (unsigned int)((bytes - CLASS_MIN_SIZE + t->delta - 1) >> t->delta_shift);
}

/* Bytes of an object of raw class i. */
static inline u32 class_raw_size(const struct class_table *t, unsigned int i)
{
	u32 size = CLASS_MIN_SIZE + i * t->delta;

	return size < t->page_size ? size : t->page_size;
}

#endif
