/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cell.h - objects for callers that have no table of slots: a handle for each.
 *
 * A cell is a slot word (slot.h) in a table that grows.  Its address is the handle that the caller
 * keeps, and its number is the key that the object carries for compaction:
 *
 *     handle --> cell: word --> reference --> object
 *                 |                              |
 *                 +--- number <-- chunk ---------+ key: directory --> chunk --> cell
 *
 * So a free loads the cell and nothing that leads to it.  A chunk is a page of cells.  Its first
 * words say its number and which page it is, by which an address gives the number:
 *
 *     directory (struct host_table): chunk number -> address of the chunk
 *     chunk:  | number | page | cell | cell | ... |
 *     number of a cell: chunk number << CELL_BITS | place in the chunk
 *
 * Chunks are never given back before the end, since one cell in use keeps all of a chunk.
 *
 *     in use   word with an object; holds, compaction and migration as for a slot
 *     freed while it is read
 *              SLOT_EMPTY and the reference: nobody may have the cell yet.  The last reader
 *              disposes of both
 *     free     0; on a list of all CPUs, SLOT_EMPTY and the number of the next free cell
 *
 * Free cells are kept by CPU, up to CELLS_MAG of them, and go to the list of all and come from it
 * CELLS_BATCH at a time.  When that is empty too, cells are cut from the newest chunk, and the next
 * chunk from a page that was made ready before (CELLS_SPARES, by a work).  So who may not wait
 * finds a cell as long as the work keeps up.
 *
 * The caller's side of the bargain: he frees a handle once, and not while he or another reads or
 * writes it.  If he does the latter all the same, the object stays until its readers have ended,
 * and no other object is harmed.
 *
 * Lock order: the per-CPU item > cells' lock, a leaf;  a hold > nothing.
 */
#ifndef EBB_CORE_CELL_H
#define EBB_CORE_CELL_H

#include "hold.h"
#include "release.h"

/* The address of a cell: never 0, a multiple of 8, and no error number in disguise. */
typedef size_t cell_handle;

#define CELL_BITS (HOST_PAGE_SHIFT - 3)
#define CELL_FIRST 2u           /* words of a chunk before its first cell */
#define CELLS_OF_CHUNK ((1u << CELL_BITS) - CELL_FIRST)
#define CELLS_MAG 64u           /* free cells that a CPU keeps, at most */
#define CELLS_BATCH 16u         /* that go to the list of all, or come from it, in one hold */
#define CELLS_SPARES 3u         /* empty pages: two chunks, and what the directory may need */
#define CELLS_MOST 0xffffffffu  /* there can be: a number has 32 bits, and 0 is none */
#define CELLS_BULK 32u          /* handles that are freed in one section */
#define CELLS_TELL ((u64)64 << 10)      /* bytes of a CPU that cells_held() may not know of */
#define CELLS_MOVES 2u          /* pages that move at a time */

struct cells_config {
	unsigned int chain;             /* CHAIN_MIN .. CHAIN_MAX */
	u64 release_limit;              /* bytes held back at most; 0: frees are synchronous */
	struct release_budget *release_budget;  /* of all pools, or NULL */
	/*
	 * The most cells, a little more at most: 1 .. CELLS_MOST; 0: as many as there may be of the
	 * smallest objects in the memory that this machine has now.  Only the directory's own array
	 * is as large as that asks for: in the kernel 8 bytes for 261,120 cells of 4 KiB pages, so
	 * 128 KiB for CELLS_MOST.
	 */
	u64 most;
	/*
	 * Where pages of zspages come from, if they can be moved (migrate.h); NULL: from pcp, and
	 * they stay.  All else comes from pcp in any case.
	 */
	struct pcp *movable;
	/*
	 * Tells the home which zspage a page is of, from now on until the page goes back to its
	 * lists or source; atomic context, under a class lock.  tag is not 0.  Needed if there is
	 * movable.
	 */
	void (*tag)(void *ctx, host_page page, u64 tag);
	void *ctx;                      /* of tag */
};

/* Of one CPU.  Counters are host_read_once for others. */
struct cells_cpu {
	struct release_cpu release;     /* first: release.h */
	s64 room;                       /* bytes of pages that live objects take; may be < 0 */
	s64 objects;
	u64 sync;                       /* objects freed by the caller, synchronous mode; ever */
	u64 told;                       /* of release.pushed, bytes that cells.held knows of */
	u32 n;                          /* of free[] */
	host_a64 *free[CELLS_MAG];
};

struct cells {
	struct pool pool;
	struct release release;
	struct holds holds;
	struct host_percpu cpus;        /* of struct cells_cpu */
	struct host_table chunks;       /* address of a chunk, by number; 0: not there */
	struct pcp *pcp;                /* of chunks and their directory */
	u32 limit;                      /* chunk numbers are below it */
	struct cells_config cfg;
	struct cells_held {
		host_a64 bytes HOST_OWN_LINE;   /* pushed, as told, less those freed; s64 */
	} *held;                        /* [nodes] */
	host_a64 moves;                 /* pages that move now */

	host_lock_t lock HOST_OWN_LINE;
	u32 list;                       /* number of the first cell of the list of all; 0: none */
	u32 chunks_cut;                 /* chunk numbers given out */
	host_a64 *cut, *cut_end;        /* cells of the newest chunk that nobody had yet */
	u32 nspare;                     /* host_read_once */
	host_page spare[CELLS_SPARES];  /* pages of zeros */
	host_a64 pages;                 /* in chunks, their directory, and spares */
	struct host_work top_up;
};

/* A part of an object. */
struct cells_piece {
	void *at;
	size_t bytes;
};

/* Process context.  -EINVAL: out of range; -ENOMEM; what host_work_init() says. */
int cells_init(struct cells *s, struct pcp *pcp, const struct cells_config *cfg);

/*
 * Ends it, with all objects that are still there.  Process context; nobody uses it any more and no
 * page is pinned.
 */
void cells_destroy(struct cells *s);

/*
 * Makes an object of bytes, 1 .. HOST_PAGE_SIZE, whose content is undefined.  node, how: as
 * pool_alloc(); beside HOST_MOVABLE, of how only what a pcp_alloc() knows matters.  *h is its
 * handle. If memory is short it frees some of what is held back, a bounded number of buffers,
 * before it fails.  -EINVAL: bytes; -ENOMEM; -ENOSPC: no number is left for a zspage or a cell.
 */
int cells_alloc(struct cells *s, size_t bytes, unsigned int node, unsigned int how, cell_handle *h);

/*
 * Frees an object.  The handle may be another's by the return.  Any context: no sleep, no
 * allocation, no wait for a reader.
 */
void cells_free(struct cells *s, cell_handle h);

/* The same for n handles, CELLS_BULK in one section. */
void cells_free_bulk(struct cells *s, const cell_handle *h, unsigned int n);

/* The size that the object was made with.  Any context. */
static inline size_t cells_size(struct cells *s, cell_handle h)
{
	return pool_ref_size(&s->pool, slot_ref(host_a64_read((host_a64 *)h)));
}

/*
 * Holds an object where it is and as it is, until cells_end(), and says where its bytes are:
 * piece[0] and, if the return value is 2, piece[1].  0: the handle is free, which is its caller's
 * fault, and nothing is held.  In between the caller may sleep, and reads, or writes if nobody
 * reads.  Any context.
 */
unsigned int cells_begin(struct cells *s, cell_handle h, struct cells_piece piece[2]);

/* Ends one hold of the object.  Any context. */
void cells_end(struct cells *s, cell_handle h);

/*
 * cells_begin() for who wants the bytes in one piece: in place, or copied to bounce, which has room
 * for cells_size().  Objects larger than pool_max_small() need no bounce.  NULL: as 0 there.
 */
const void *cells_read_begin(struct cells *s, cell_handle h, void *bounce);

/* Writes the first bytes of an object, as many as it has at most.  Any context. */
void cells_write(struct cells *s, cell_handle h, const void *data, size_t bytes);

/* The place of the class of objects of bytes, which only grows with bytes.  Any context. */
unsigned int cells_class(const struct cells *s, size_t bytes);

/* Pages in zspages, those of what is held back included.  Any context; O(1). */
static inline u64 cells_pages(struct cells *s)
{
	return pool_pages(&s->pool);
}

/*
 * Bytes of pages that what is held back takes, CELLS_TELL a CPU more or less.  Any context; a look
 * at each node.
 */
u64 cells_held(struct cells *s);

/* The workers begin to free what is held back, if they sleep.  Any context; a look at each node. */
void cells_kick(struct cells *s);

/* Bytes of pages that live objects take; how many they are.  A look at each CPU.  Any context. */
u64 cells_room(struct cells *s);
u64 cells_objects(struct cells *s);

/* Pages in chunks of cells, their directory and spares.  Any context; O(1). */
static inline u64 cells_table_pages(struct cells *s)
{
	return host_a64_read(&s->pages);
}

/* Pages that it took of pcp and of cfg.movable.  Any context; O(1). */
static inline u64 cells_pages_taken(struct cells *s)
{
	return pool_pages(&s->pool) + zspage_table_pages(&s->pool.zspages) + cells_table_pages(s);
}

/* Flushes, then compacts; returns the pages that freed.  Process context. */
u64 cells_compact(struct cells *s);

#endif
