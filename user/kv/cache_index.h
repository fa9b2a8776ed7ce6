/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cache_index.h - what a shard of a cache has, and what goes next: a table of hashes and S3-FIFO.
 *
 *     put --> | small: a tenth of the bytes | --not asked for--> evicted, its hash to the ghost
 *                         |  asked for
 *                         v
 *             | main: the rest, FIFO |  asked for: once more round    not: evicted
 *                         ^
 *     put, and the ghost has the hash
 *
 * S3-FIFO (Yang et al., SOSP 2023): a hit sets two bits and moves nothing, so that it needs no
 * lock; what is asked for once, as by a scan, passes through a tenth of the room and leaves the
 * rest alone.
 *
 * Entries are dense: the last one takes the place of one that goes, so the table has the memory of
 * what is there now (grown.h) and gives the rest back.  They are found through a linear hash of one
 * chain an entry.  What is stored is found by its 64-bit hash alone: the newer of two keys with one
 * hash stays, and who reads compares the key.
 *
 * Lock: the owner's, for all but cache_index_look() and cache_index_hit().  Those read words that
 * may change meanwhile, and see by seq whether they did.
 */
#ifndef EBB_USER_CACHE_INDEX_H
#define EBB_USER_CACHE_INDEX_H

#include "home/grown.h"

/* Where an entry waits. */
enum cache_queue {
	CACHE_NO_QUEUE,                 /* it is about to be evicted */
	CACHE_SMALL,
	CACHE_MAIN,
	CACHE_QUEUES
};

#define CACHE_ENTRY_BYTES_MOST (((u32)1 << 28) - 1)

/* An entry; written under the lock, but for the hits of mark. */
struct cache_entry {
	u64 hash;
	u64 ref;                        /* what the owner finds it by; never 0 */
	u32 mark;                       /* bytes << 4 | queue << 2 | hits */
	u32 chain;                      /* next of its bucket; entry + 1, 0: none, as all below */
	u32 newer, older;               /* of its queue */
};

struct cache_queue_ends {
	u32 newest, oldest;
	u32 entries;
	u64 bytes;
};

struct cache_index {
	host_a64 seq ____cacheline_aligned;     /* odd: a change is under way */
	u32 buckets;
	u32 entries;
	struct grown entry;             /* struct cache_entry [entries] */
	struct grown bucket;            /* u32 [buckets] */
	u32 most;                       /* entries, at most; 0: there is no table */
	u32 entry_top, bucket_top;      /* from here on nothing was touched */
	struct cache_queue_ends queue[CACHE_QUEUES];
	struct grown ghost;             /* u16 [ghost_sets][CACHE_GHOST_WAYS], newest first */
	u32 ghost_sets;                 /* a power of two; 0: it has none */
	u32 ghost_least;                /* sets that it keeps; a power of two */
	u64 ghosts;                     /* hashes that were found in it */
};

#define CACHE_GHOST_WAYS 8u
#define CACHE_INDEX_LEAST 64u           /* buckets, and entries that the ghost remembers */

/* What a look found. */
struct cache_seen {
	u64 ref;
	u32 entry, mark;
};

/* At most so many entries, CACHE_INDEX_LEAST to 2^31.  ghost: it has one.  -ENOMEM. */
int cache_index_init(struct cache_index *x, u32 most, bool ghost);
void cache_index_destroy(struct cache_index *x);

/* An entry that there is, or was since the table began. */
static inline struct cache_entry *cache_index_entry(const struct cache_index *x, u32 entry)
{
	return grown_at(&x->entry, entry, sizeof(struct cache_entry));
}

/* Any thread, without the lock.  -ENOENT; -ESTALE: it changed meanwhile, and may be there. */
int cache_index_look(struct cache_index *x, u64 hash, struct cache_seen *seen);

/* Notes a hit of what was seen.  Any thread, without the lock; lost if it changed meanwhile. */
void cache_index_hit(struct cache_index *x, const struct cache_seen *seen);

/* entry + 1; 0: there is none. */
u32 cache_index_find(struct cache_index *x, u64 hash);

/*
 * Adds an entry for a hash that has none, as the newest of a queue.  -ENOSPC: there are most;
 * -ENOMEM: there is no memory for one more.
 */
int cache_index_add(struct cache_index *x, u64 hash, u64 ref, u32 bytes, enum cache_queue queue);

/* The entry is of something else from now on; it comes back to a queue if it had left it. */
void cache_index_replace(struct cache_index *x, u32 entry, u64 ref, u32 bytes);

/* The last entry takes its place: entry numbers that the caller has are void. */
void cache_index_remove(struct cache_index *x, u32 entry);

static inline u32 cache_mark_bytes(u32 mark)
{
	return mark >> 4;
}

/*
 * Chooses what goes next and takes it out of its queue; it can be found until it is removed.
 * entry + 1; 0: no queue has any.  Looks at CACHE_VICTIM_STEPS entries at most.
 */
#define CACHE_VICTIM_STEPS 64u
u32 cache_index_victim(struct cache_index *x);

/* The oldest of a queue; entry + 1, 0: none. */
static inline u32 cache_index_oldest(const struct cache_index *x, enum cache_queue queue)
{
	return x->queue[queue].oldest;
}

/* Notes the hash of what was evicted, or asked for in vain. */
void cache_ghost_add(struct cache_index *x, u64 hash);
/* From now on it remembers n hashes at least, as far as its table has room for them. */
void cache_ghost_keep(struct cache_index *x, u64 n);
/* Whether it was noted, not too long ago; then it is forgotten. */
bool cache_ghost_take(struct cache_index *x, u64 hash);

/* Bytes of memory that the tables have. */
size_t cache_index_bytes(const struct cache_index *x);

/* NULL, or what is wrong.  Nobody uses it meanwhile. */
const char *cache_index_check(struct cache_index *x);

#endif
