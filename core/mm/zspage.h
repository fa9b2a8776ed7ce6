/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zspage.h - descriptors: where the objects of a zspage are, and which are in use.
 *
 * A zspage is a chain of 1 to 16 order-0 pages cut into equal objects; an object may span
 * two pages.  Everything about it lives in its descriptor, beside the pages, so that freeing
 * an object does not touch the object:
 *
 *     +------+------+-------+-------+------+------+-------+-----------------+--------+
 *     | next | prev | owner | class | list | node | pages | used[words](+1) | page[] |
 *     +------+------+-------+-------+------+------+-------+-----------------+--------+
 *
 * used[] has a bit for each object, 1 = in use.  words is the same for all zspages of a class.  If
 * it is 1, used[0] is the zspage's state; else used[words] counts the bits and is its state.  A
 * free changes the state by one compare-and-swap.  It needs the class lock only if the zspage was
 * full or becomes empty (pool.c).
 *
 * An allocation takes the lowest free object, and adds a page when the object reaches into it.  So
 * page[0 .. pages) is a prefix of the chain, and a half-filled zspage wastes half a page at most.
 * Pages are of the node that the zspage was made for, as long as the node has any.  The lists of
 * partial zspages know no nodes, so that nodes cost no density.
 *
 * Descriptors live in pages of their own ("chunks").  All classes whose descriptors have the
 * same size are a group: they share chunks, a directory that finds a chunk by its number, and
 * a lock.  Within its group a descriptor has a number, which object references and list links
 * hold:
 *
 *     number = chunk number << index_bits | place in the chunk          0 is none
 *
 *     root -> mid -> leaf: entries -> chunk: | header | descriptor | descriptor | ... |
 *
 * An entry is the address of a chunk or, odd, the next free chunk number.  Leaves and mids are
 * pages, which come as numbers need them and stay until the table ends.  The end of the first leaf
 * (few) and of the first mid (near), where numbers begin, are in the group itself: a small pool has
 * no page of a directory.  Leaves and mids are never replaced.  They are set before a number that
 * needs them is known, so who has a number follows them without a lock.
 */
#ifndef EBB_CORE_ZSPAGE_H
#define EBB_CORE_ZSPAGE_H

#include "host.h"
#include "pages.h"
#include "size_class.h"

#define ZSPAGE_UNIT 8u                          /* a descriptor's size is a multiple of it */
#define ZSPAGE_UNITS_MAX 64                     /* of a descriptor */
#define ZSPAGE_LINE 64u                         /* a cache line */
#define ZSPAGE_LINE_SHARE 1024u                 /* padding is 1/1024 of a zspage at most */
#define ZSPAGE_CHUNK_HEADER ZSPAGE_LINE         /* bytes before a chunk's first descriptor */
#define ZSPAGE_LEAF_BITS (PAGE_SHIFT - 3)  /* log2 of the entries of a leaf */
#define ZSPAGE_LEAF (1u << ZSPAGE_LEAF_BITS)
#define ZSPAGE_MID_BITS (PAGE_SHIFT - 4)   /* log2 of the leaves of a mid */
#define ZSPAGE_MID (1u << ZSPAGE_MID_BITS)
#define ZSPAGE_ROOT 72u                         /* mids of a group: 4 TiB of pages of 4 KiB */
#define ZSPAGE_FEW 16u                          /* entries in the group itself */
#define ZSPAGE_NEAR 8u                          /* leaves of the first mid in the group itself */
/* The place of chunk number 0 among all entries that a root leads to. */
#define ZSPAGE_FIRST ((ZSPAGE_MID - ZSPAGE_NEAR) * ZSPAGE_LEAF + ZSPAGE_LEAF - ZSPAGE_FEW)

#define ZSPAGE_NO_CLASS 0xff                    /* class of a free descriptor */
#define ZSPAGE_ANY_NODE 0xff

/*
 * Orderings (docs/internals/locking.md).
 *
 * used[], one word.  Writes: allocation (class lock), full OR; free (mostly no lock), CAS.
 *     Reads: the same.  Order: full: what a thread did with object and descriptor before its
 *     free; the last free acquires all of it before it reaps.  Without it: a descriptor reused
 *     under its reader.  Model: last_free.
 * used[] and count.  Writes: the same.  Reads: class_lowest_free(), zspage_inuse(), relaxed.
 *     Order: full on both changes, bit before count.  Without it: a listed zspage without a
 *     clear bit: pool_make() takes object objs.  Model: count.
 * zspage.pages, page[].  Writes: class lock.  Reads: class lock; reap; who holds an object.
 *     Order: to a reap: the state's CAS that follows in the allocator; to a reader: publish and
 *     hold.  Without it: pages leaked, or bytes elsewhere.  Model: last_free (the shape).
 * zspage.group, .pages by statistics.  Writes: class lock, write_once.  Reads: group lock,
 *     read_once.  Order: none: a figure.
 * zspage.class.  Writes: group lock, before the number is known.  Reads: who has the number.
 *     Order: that of the reference: slot word, class lock or buffer.  Without it: a free in
 *     another class.
 * zspage.node.  Writes: group lock, before the number is known; then class lock.  Reads: class
 *     lock.  Order: the lock.  Without it: a page of another node than the rest.
 * a directory's entries, leaves, mids.  Writes: group lock, each once but for entries.  Reads:
 *     zspage_at(), no lock, plain.  Order: none of its own: who has a descriptor's number got it
 *     through the slot word, a class lock or a buffer, after the entry was set, and while he has
 *     it the entry stays.  Without it: a NULL chunk.
 */
struct zspage {
	u32 next, prev; /* on its list; class lock.  If it is free, next is a place + 1, or 0 */
	u32 owner;      /* key of a huge zspage's object, which has no header */
	u8 class;       /* place in class_table.class[]; fixed while allocated */
	u8 list;        /* pool_class.head[list] leads to it, 0: on no list; class lock */
	u8 node;        /* all its pages are of this node, or ZSPAGE_ANY_NODE; class lock */
	u8 pages;       /* in page[]; class lock */
	host_a64 used[];
};

_Static_assert(sizeof(struct zspage) == 16, "descriptors are counted per object");

/* Leaves, each by its address and by its page; page 0: the leaf is in the group. */
struct zspage_mid {
	size_t *leaf[ZSPAGE_MID];
	host_page page[ZSPAGE_MID];
};

_Static_assert(sizeof(struct zspage_mid) <= PAGE_SIZE, "a mid is a page");
_Static_assert(offsetof(struct zspage_mid, leaf) == 0, "a root names the leaves");

/*
 * How a number leads to a descriptor.  Each class has a copy of its group's map, so that a free
 * finds all it needs in one line, which is never written.
 */
struct zspage_map {
	size_t **const *root;                   /* the group's */
	u32 bytes;                              /* of a descriptor */
	u32 index_mask;                         /* (1 << index_bits) - 1 */
	u8 index_bits;                          /* bits of a number that say the place */
};

struct zspage_group {
	struct zspage_map map;
	u16 capacity;                           /* descriptors of a chunk */

	spinlock_t lock ____cacheline_aligned;
	u32 limit;                              /* chunk numbers are below it; fixed */
	/* Chunk numbers; lock. */
	u32 partial;                            /* the first with a free descriptor, or 0 */
	u32 unused;                             /* the first that was given back, or 0 */
	u32 fresh;                              /* the lowest that was never used */
	/*
	 * The mids, by the address of their leaves, and by page; lock, or by a number that the
	 * reader has.  Each free reads root[0], so it is not on the line of the lock.
	 */
	size_t **root[ZSPAGE_ROOT] ____cacheline_aligned;
	host_page mid_page[ZSPAGE_ROOT];
	/* The end of the first mid, and of the first leaf. */
	size_t *near[ZSPAGE_NEAR];
	host_page near_page[ZSPAGE_NEAR];
	size_t few[ZSPAGE_FEW];
};

/* Zeros at first, but for pages. */
struct zspage_table {
	struct pages *pages;
	host_a64 chunks;                        /* pages that are chunks */
	host_a64 leaves;                        /* pages that are leaves or mids */
	struct zspage_group *group[ZSPAGE_UNITS_MAX + 1];       /* by units of a descriptor */
};

/* A descriptor, by its number. */
struct zspage_id {
	struct zspage_group *group;
	u32 no;
};

struct zspage_layout {
	unsigned int capacity;                  /* descriptors of a chunk */
	unsigned int index_bits;                /* bits of a number that say the place */
};

/*
 * The layout of a chunk of page bytes with descriptors of units units.  It has as many as there is
 * room for, less those over a power of two if they are an eighth at most: a number then needs a bit
 * less, and with pages of 64 KiB bits are short.
 */
static inline struct zspage_layout zspage_layout(size_t page, unsigned int units)
{
	unsigned int n = (unsigned int)(page - ZSPAGE_CHUNK_HEADER) / (units * ZSPAGE_UNIT),
		     bits = 0;

	while (1u << bits < n)
		bits++;
	if (bits && n - (1u << (bits - 1)) <= n / 8)
		n = 1u << --bits;
	return (struct zspage_layout){ .capacity = n, .index_bits = bits };
}

/* The first chunk number for which numbers of bits bits are too short. */
static inline u32 zspage_limit(struct zspage_layout l, unsigned int bits)
{
	return (u32)(((u64)1 << (bits < 32 ? bits : 32)) >> l.index_bits);
}

/* All descriptors are free; also after a zspage_group_get() that failed.  Process context. */
void zspage_table_destroy(struct zspage_table *t);

/*
 * The group for descriptors of units units, made if it is not there; its numbers take at most the
 * least bits that any caller asked for.  *map: the group's.  Process context, before any
 * zspage_new().  NULL: no memory.
 */
struct zspage_group *zspage_group_get(struct zspage_table *t, unsigned int units,
				      unsigned int bits, struct zspage_map *map);

/* The entry of a chunk number, whose leaf is there. */
static inline size_t *zspage_entry(size_t **const *root, u32 chunk)
{
	u32 at = chunk + ZSPAGE_FIRST, leaf = at >> ZSPAGE_LEAF_BITS;

	return &root[leaf >> ZSPAGE_MID_BITS][leaf % ZSPAGE_MID][at % ZSPAGE_LEAF];
}

/* The descriptor of a number that the caller has. */
static inline struct zspage *zspage_at(const struct zspage_map *m, u32 no)
{
	char *base = (char *)*zspage_entry(m->root, no >> m->index_bits);

	/* The entry of an allocated number is a chunk. */
	host_assert(no >> m->index_bits && base && !((size_t)base & 1));
	return (struct zspage *)(base + ZSPAGE_CHUNK_HEADER + (no & m->index_mask) * m->bytes);
}

static inline unsigned int zspage_words(unsigned int objs)
{
	return (objs + 63) / 64;
}

/* Units of a descriptor with words words and pages pages. */
static inline unsigned int zspage_units(unsigned int words, unsigned int pages)
{
	size_t bytes = sizeof(struct zspage) + (words + (words > 1)) * sizeof(host_a64) +
		       pages * sizeof(host_page);
	size_t lines = (bytes + ZSPAGE_LINE - 1) / ZSPAGE_LINE * ZSPAGE_LINE;

	/*
	 * Where it costs next to no memory a descriptor fills its lines: CPUs that free in two
	 * zspages write no line in turn, and an allocation touches one.  With many objects, or
	 * pages of 64 KiB, numbers would be short.
	 */
	if (PAGE_SHIFT < 16 && words == 1 &&
	    lines - bytes <= pages * PAGE_SIZE / ZSPAGE_LINE_SHARE)
		bytes = lines;
	return (unsigned int)((bytes + ZSPAGE_UNIT - 1) / ZSPAGE_UNIT);
}

/* words, here and below: zspage_words() of the objects of its class. */
static inline host_a64 *zspage_state(struct zspage *z, unsigned int words)
{
	return words > 1 ? &z->used[words] : &z->used[0];
}

static inline host_page *zspage_pages(struct zspage *z, unsigned int words)
{
	return (host_page *)(zspage_state(z, words) + 1);
}

/* Whether object obj is in use. */
static inline bool zspage_is_used(const struct zspage *z, unsigned int obj)
{
	return host_a64_read(&z->used[obj / 64]) >> (obj % 64) & 1;
}

/* Objects in use, by the state of a zspage. */
static inline unsigned int zspage_inuse_of(u64 state, unsigned int words)
{
	return words > 1 ? (unsigned int)state : (unsigned int)hweight64(state);
}

static inline unsigned int zspage_inuse(struct zspage *z, unsigned int words)
{
	return zspage_inuse_of(host_a64_read(zspage_state(z, words)), words);
}

/*
 * Allocates a descriptor for an empty zspage of class with words words, whose pages are to be of
 * node.  *no: its number in g.  node, how: as pages_alloc(), for a chunk and its leaf.  -ENOMEM;
 * -ENOSPC: all numbers are in use.
 */
int zspage_new(struct zspage_table *t, struct zspage_group *g, unsigned int class,
	       unsigned int words, unsigned int node, unsigned int how, u32 *no);

/* Frees n descriptors.  Any context; takes the lock of each group. */
void zspage_free(struct zspage_table *t, const struct zspage_id *id, unsigned int n);

/*
 * Calls fn for each allocated descriptor, 16 at most in one hold of a group's lock; fn is atomic.
 * Zspages may come, go and change meanwhile.  Process context.
 */
void zspage_each(struct zspage_table *t, void (*fn)(struct zspage *z, void *arg), void *arg);

/* For pool_check.c: whether no is the number of an allocated descriptor.  Any context. */
bool zspage_is_there(struct zspage_group *g, u32 no);

/*
 * For pool_check.c: whether the chunks with an allocated descriptor are as many as t->chunks says,
 * so that none is wholly free.  Process context.
 */
bool zspage_table_is_tidy(struct zspage_table *t);

/* Pages that are chunks, leaves and mids.  Any context. */
static inline u64 zspage_table_pages(struct zspage_table *t)
{
	return host_a64_read(&t->chunks) + host_a64_read(&t->leaves);
}

#endif
