/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zspage.h - descriptors: where the objects of a zspage are, and which are in use.
 *
 * A zspage is a chain of 1 to 16 order-0 pages cut into equal objects; an object may span
 * two pages.  Everything about it lives in its descriptor, beside the pages, so that freeing
 * an object does not touch the object:
 *
 *     +------+------+-------+-------+-----------+-------+-------+----------------+---------+
 *     | next | prev | owner | class | group     | words | pages | used[words](+1)| page[]  |
 *     +------+------+-------+-------+-----------+-------+-------+----------------+---------+
 *
 * used[] has a bit for each object, 1 = in use.  With one word the word itself is the
 * zspage's state; with more, used[words] counts the bits and is its state.  A free changes
 * the state with one compare-and-swap and needs the class lock only if the zspage thereby
 * leaves "full" or becomes empty (pool.c).
 *
 * Pages come one by one, as objects first reach into them: objects are placed lowest first,
 * so page[0 .. pages) is always a prefix, and a half-filled zspage wastes half a page, not
 * half a chain.
 *
 * Descriptors live in pages of their own ("chunks"), 8-byte units, all of one size in a
 * chunk.  A descriptor's number is  chunk number * units of a page + its first unit; that
 * number is what object references and list links hold.  0 is none (unit 0 of every chunk
 * is the chunk's header).  A chunk whose descriptors are all free goes back to pcp.
 */
#ifndef EBB_CORE_ZSPAGE_H
#define EBB_CORE_ZSPAGE_H

#include "host.h"
#include "pcp.h"
#include "size_class.h"

/* 1: object references carry the class index.  0: they have room for more zspages instead. */
#ifndef POOL_REF_CLASS
#define POOL_REF_CLASS 1
#endif

#if POOL_REF_CLASS
#define ZSPAGE_BITS (HOST_PAGE_SHIFT == 12 ? 27 : 38 - HOST_PAGE_SHIFT) /* of a number */
#else
#define ZSPAGE_BITS 32
#endif
#define ZSPAGE_UNIT 8u
#define ZSPAGE_UNIT_BITS (HOST_PAGE_SHIFT - 3)  /* units of a chunk */
#define ZSPAGE_LEAF_BITS 9                      /* chunks of a leaf of the directory */
#define ZSPAGE_TOP_BITS (ZSPAGE_BITS - ZSPAGE_UNIT_BITS - ZSPAGE_LEAF_BITS)
#define ZSPAGE_UNITS_MAX 64                     /* of a descriptor */

#define ZSPAGE_NO_CLASS 0xff                    /* class of a free descriptor */

struct zspage {
	u32 next, prev; /* of its list; class lock.  A free descriptor: next free unit */
	u32 owner;      /* of the only object of a huge zspage, which has no header */
	u8 class;       /* place in class_table.class[]; fixed while allocated */
	u8 group;       /* list it is on; class lock */
	u8 words;       /* of used[]; fixed while allocated */
	u8 pages;       /* in page[]; class lock */
	host_a64 used[];
};

_Static_assert(sizeof(struct zspage) == 16, "descriptors are counted per object");

struct zspage_table {
	/* Read by every free. */
	struct pcp *pcp;
	struct zspage_leaf **top;               /* [1 << ZSPAGE_TOP_BITS] */

	host_lock_t lock HOST_OWN_LINE;
	u32 partial[ZSPAGE_UNITS_MAX + 1];      /* by units: chunk number + 1; table lock */
	u32 hint;                               /* no free chunk number is lower; table lock */
	host_a64 chunks;
};

struct zspage_leaf {
	void *chunk[1 << ZSPAGE_LEAF_BITS];
};

/* Process context.  -ENOMEM. */
int zspage_table_init(struct zspage_table *t, struct pcp *pcp);

/* Process context; all descriptors are free. */
void zspage_table_destroy(struct zspage_table *t);

static inline struct zspage *zspage_at(const struct zspage_table *t, u32 no)
{
	u32 chunk = no >> ZSPAGE_UNIT_BITS;
	char *base = host_read_once(t->top[chunk >> ZSPAGE_LEAF_BITS]->
				    chunk[chunk & ((1u << ZSPAGE_LEAF_BITS) - 1)]);

	return (struct zspage *)(base + (no & ((1u << ZSPAGE_UNIT_BITS) - 1)) * ZSPAGE_UNIT);
}

static inline unsigned int zspage_words(unsigned int objs)
{
	return (objs + 63) / 64;
}

/* Units of a descriptor for objs objects on pages pages. */
static inline unsigned int zspage_units(unsigned int objs, unsigned int pages)
{
	unsigned int words = zspage_words(objs) + (objs > 64);
	size_t bytes = sizeof(struct zspage) + words * sizeof(host_a64) + pages * sizeof(host_page);

	return (unsigned int)((bytes + ZSPAGE_UNIT - 1) / ZSPAGE_UNIT);
}

static inline host_a64 *zspage_state(struct zspage *z)
{
	return z->words > 1 ? &z->used[z->words] : &z->used[0];
}

static inline host_page *zspage_pages(struct zspage *z)
{
	return (host_page *)(zspage_state(z) + 1);
}

/* Whether object obj is in use. */
static inline bool zspage_is_used(const struct zspage *z, unsigned int obj)
{
	return host_a64_read(&z->used[obj / 64]) >> (obj % 64) & 1;
}

/* Objects in use. */
static inline unsigned int zspage_inuse(struct zspage *z)
{
	u64 state = host_a64_read(zspage_state(z));

	return z->words > 1 ? (unsigned int)state : (unsigned int)__builtin_popcountll(state);
}

/*
 * A descriptor of units units for a zspage of class with nothing in it.  *no is its number.
 * Process context.  -ENOMEM: no memory, or all 2^ZSPAGE_BITS units are taken.
 */
int zspage_new(struct zspage_table *t, unsigned int class, unsigned int objs, unsigned int pages,
	       u32 *no);

/* Gives n descriptors back.  Any context. */
void zspage_free(struct zspage_table *t, const u32 *no, unsigned int n);

/*
 * Calls fn for each allocated descriptor, under the table lock; fn is atomic.  Zspages may
 * come, go and change meanwhile.  Process context.
 */
void zspage_each(struct zspage_table *t, void (*fn)(struct zspage *z, u32 no, void *arg), void *arg);

/* Whether no chunk is wholly free, and all are counted; for check.c.  Process context. */
bool zspage_table_is_tidy(struct zspage_table *t);

/* Pages in chunks.  Any context. */
static inline u64 zspage_table_pages(struct zspage_table *t)
{
	return host_a64_read(&t->chunks);
}

#endif
