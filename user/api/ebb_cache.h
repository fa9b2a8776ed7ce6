/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ebb_cache.h - a compressed cache: bytes of any length under keys of bytes, in so much memory.
 *
 *     ebb_cache_config_init(&cfg);
 *     cfg.capacity = (uint64_t)1 << 30;
 *     ebb_cache_open(&cache, &cfg);
 *     ebb_cache_put(cache, key, key_bytes, data, bytes, bytes, 0);
 *     if (ebb_cache_get(cache, key, key_bytes, buf, sizeof(buf), &bytes) == -ENOENT)
 *             ...     a miss: fetch it and put it
 *
 * The capacity is of memory, and everything counts: values, keys, tables, buffers, and what the
 * allocator keeps free.  What goes when it is full is chosen by S3-FIFO.  It can go on to a file,
 * the spill, of a capacity of its own; what is asked for there comes back.  Whatever happens to
 * that file, a get answers with the bytes that were put, or with a miss.
 *
 * A get of what is in memory takes no lock, unless eight looks in a row meet a writer at work.  A
 * put replaces in one step: who gets meanwhile gets the old or the new value, whole; after a put
 * or a delete returned, nobody gets what was before.
 *
 * Threads, signals, cancellation, fork() and dlclose() are as ebb.h says, and so are errors.
 * -ENOENT: there is no such value (any more).
 */
#ifndef EBB_CACHE_H
#define EBB_CACHE_H

#include "ebb.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EBB_CACHE_VALUE_MAX ((size_t)64 << 20)  /* bytes of a value */
#define EBB_CACHE_KEY_MAX 1024                  /* bytes of a key; at least 1 */
#define EBB_CACHE_SPILL_MIN ((uint64_t)1 << 20) /* bytes of a spill */

/*
 * Bytes of the least capacity, but for 0.  Less would go for tables and buffers: 1.5 MiB, a half
 * more with a spill, and for each thread that is in a call at once 0.3 MiB with lz4, 1.3 with zstd.
 * The latter take at most half of the capacity: so many threads are in calls, and others wait.
 */
#define EBB_CACHE_CAPACITY_MIN ((uint64_t)8 << 20)

struct ebb_cache;

enum ebb_cache_why {
	EBB_CACHE_EVICTED,       /* there was no room for it */
	EBB_CACHE_SPILLED,       /* the same, and it is in the spill now */
	EBB_CACHE_REPLACED,      /* by a put */
	EBB_CACHE_DELETED
};

/* A value that left memory. */
struct ebb_cache_gone {
	size_t struct_size;      /* sizeof(struct ebb_cache_gone), set by the library */
	const void *key;         /* valid during the call */
	size_t key_bytes;
	size_t bytes;            /* of the value */
	uint64_t charge;
	uint32_t why;            /* enum ebb_cache_why */
	uint32_t reserved;
};

struct ebb_cache_config {
	size_t struct_size;      /* sizeof(struct ebb_cache_config); ebb_cache_config_init() */
	uint64_t capacity;       /* bytes of memory, at least EBB_CACHE_CAPACITY_MIN, or 0: nothing
				    is kept */
	const char *codec;       /* a name of ebb_codec_name(); NULL: lz4 */
	int32_t level;           /* of the codec; EBB_LEVEL_DEFAULT: the codec's own */
	uint32_t flags;          /* of EBB_CACHE_SECOND_MISS, EBB_CACHE_NO_DICTIONARY */
	const char *spill;       /* path of a file for what is evicted; NULL: none.  It is made if
				    it is not there, with mode 0600.  What it has from before is
				    dropped; if others may have it open, a new file replaces it */
	uint64_t spill_capacity; /* its bytes, at least EBB_CACHE_SPILL_MIN */
	/*
	 * Called for each value that leaves memory, by the thread that made it leave, at the end of
	 * the call that did, with nothing of the library's in hand.  It may call what it likes but
	 * ebb_cache_close().  What those calls make leave is told after it returned, not within it.
	 * To put each value again that leaves would never end: of those that its own puts made
	 * leave, it may put 16 in one call of the program's, and its next puts fail with -ENOMEM.
	 * A child that it forks has no cache to return to: the child is to end or exec(2) in it.
	 * NULL: not called.
	 */
	void (*gone)(void *ctx, const struct ebb_cache_gone *what);
	void *gone_ctx;
};

/*
 * The first put of a key only notes it; the next one stores.  The notes take 1/512 of the capacity
 * from the beginning, and 1/32 of the machine's memory at the most.
 */
#define EBB_CACHE_SECOND_MISS 1u

/*
 * With zstd, a cache of 32 MiB and more learns from its first puts what values of 32 bytes to
 * 24 KiB have in common, and compresses them with that, if it saves more than it takes.  For this
 * a thread of the library works some 20 ms per 64 MiB of the capacity, once, 100 at the most, at
 * zstd's own level; a high one takes as much longer as it takes for values.  ebb_cache_close()
 * waits for it.  With this flag the cache does not.
 */
#define EBB_CACHE_NO_DICTIONARY 2u

/* Fills *cfg with the defaults; the capacity must be set. */
void ebb_cache_config_init(struct ebb_cache_config *cfg);

/*
 * Opens an empty cache.  -EINVAL: a field is out of its range; -ENOENT: no such codec, or no
 * folder for the spill; -EBUSY: the spill is another cache's, or that of a process that ended
 * without ebb_cache_close() while a child that it forked goes on, who has the lock, too; -EEXIST:
 * the file is something else's, and was not touched; -ELOOP: it is a symbolic link, which is not
 * followed; -EPERM: the file system does not keep the file from others, or the folder does not let
 * it be replaced; -ENOMEM; other errors as open(2) has them.
 */
int ebb_cache_open(struct ebb_cache **cache, const struct ebb_cache_config *cfg);

/* Ends it.  Its pins were released before, and nobody else uses it any more.  NULL is allowed. */
void ebb_cache_close(struct ebb_cache *cache);

#define EBB_CACHE_ADMIT 1u       /* stores it, whether its key was noted or not */

/*
 * Stores a value under a key, in the place of what was there.  charge is a number that comes back
 * with it: what it stands for where it is used.  flags: 0 or EBB_CACHE_ADMIT.  When this fails the
 * key has no value, but for -EINVAL, which leaves what was there.  -EAGAIN: EBB_CACHE_SECOND_MISS
 * noted the key.  -EFBIG: more than EBB_CACHE_VALUE_MAX, or than a quarter of the capacity once it
 * is compressed.  A smaller one evicts others until it has room, and waits where other threads
 * store such values.  One of at most 64 KiB waits for those 10 ms at most, and as long again if it
 * finds no room.  -ENOMEM: the capacity is 0, pins have it, or the system has no memory; -EIO: the
 * codec failed.
 */
int ebb_cache_put(struct ebb_cache *cache, const void *key, size_t key_bytes, const void *data,
		  size_t bytes, uint64_t charge, unsigned int flags);

/*
 * Reads a value to buf[cap]; *bytes is its size.  -ENOSPC: cap is less, and *bytes tells the size.
 * Without a buffer (NULL, and cap 0) it only asks, which counts as neither a hit nor a miss.  After
 * an error, what buf has means nothing.  -EIO: what is stored does not decompress; -ENOMEM.
 */
int ebb_cache_get(struct ebb_cache *cache, const void *key, size_t key_bytes, void *buf, size_t cap,
		  size_t *bytes);

/*
 * The same, and the value is deleted in the same step, and noted, as EBB_CACHE_TAKE has it.  After
 * -ENOSPC and -ENOMEM it is still there.  Others stay, as large as it may be, unless more threads
 * are in calls at once than a short while ago: the memory that a call works in counts, and room is
 * made for it.
 */
int ebb_cache_take(struct ebb_cache *cache, const void *key, size_t key_bytes, void *buf,
		   size_t cap, size_t *bytes);

/*
 * A value that was looked up, decompressed, in memory of its own: it stays as it is until it is
 * released, although the cache evicts, replaces or deletes the value.  It takes whole pages, which
 * count: a pin evicts others, as a put does.
 */
struct ebb_cache_pin {
	const void *data;
	size_t bytes;
	uint64_t charge;
};

#define EBB_CACHE_TAKE 1u        /* the cache has it no longer: it is deleted in the same step,
				    and noted, so that EBB_CACHE_SECOND_MISS stores it again */

/* Looks up and pins; flags: 0 or EBB_CACHE_TAKE.  -EIO, -ENOMEM. */
int ebb_cache_pin(struct ebb_cache *cache, const void *key, size_t key_bytes, unsigned int flags,
		  struct ebb_cache_pin **pin);
/* NULL is allowed. */
void ebb_cache_unpin(struct ebb_cache *cache, struct ebb_cache_pin *pin);

/* Deletes a value, from memory and from the spill. */
int ebb_cache_delete(struct ebb_cache *cache, const void *key, size_t key_bytes);

/*
 * Changes the capacity.  To a smaller one, it returns when the memory is given back.  -EINVAL: it
 * is more than 0 and less than EBB_CACHE_CAPACITY_MIN.
 */
int ebb_cache_set_capacity(struct ebb_cache *cache, uint64_t bytes);

/* Returns when what was evicted before the call is in the spill's file, or has failed. */
int ebb_cache_flush(struct ebb_cache *cache);

struct ebb_cache_stat {
	size_t struct_size;      /* sizeof(struct ebb_cache_stat), set by the caller */
	uint64_t capacity;
	uint64_t used_bytes;     /* of it: all that follows down to pinned_bytes */
	uint64_t pool_bytes;     /* pages that have values */
	uint64_t idle_bytes;     /* free memory of the allocator's, not yet given back */
	uint64_t index_bytes;    /* the cache's tables */
	uint64_t meta_bytes;     /* the store's tables, and buffers */
	uint64_t pinned_bytes;
	uint64_t values;         /* now in memory */
	uint64_t object_bytes;   /* of their objects: compressed bytes, keys and heads */
	uint64_t hits;           /* in memory and in the spill */
	uint64_t misses;
	uint64_t puts;           /* that stored */
	uint64_t noted;          /* that EBB_CACHE_SECOND_MISS did not store */
	uint64_t failed;         /* that found no room */
	uint64_t evicted;        /* spilled or not */
	uint64_t ghost_hits;     /* puts of what had been evicted a short while ago */
	uint64_t spill_values;   /* now in the spill */
	uint64_t spill_hits;
	uint64_t spilled;        /* values that went there */
	uint64_t spill_dropped;  /* that could not: too large, too many at once, the file failed */
	uint64_t spill_bad;      /* lookups of what the file did not give back as it was */
	uint64_t spill_errors;   /* writes that failed */
	uint64_t dictionary_bytes; /* of meta_bytes, for what values have in common; 0: none */
};

/* Fills *stat, but for struct_size, which the caller has set (-EINVAL: it has not). */
int ebb_cache_stat(struct ebb_cache *cache, struct ebb_cache_stat *stat);

/* The store that has the objects, for ebb_stat().  Its slots are not the caller's.  NULL: none. */
struct ebb_store *ebb_cache_store(struct ebb_cache *cache);

/*
 * Checks all that is stored; no other thread may use it meanwhile.  0, or -EUCLEAN with a sentence
 * in why[len] (cut to fit).
 */
int ebb_cache_check(struct ebb_cache *cache, char *why, size_t len);

#ifdef __cplusplus
}
#endif
#endif
