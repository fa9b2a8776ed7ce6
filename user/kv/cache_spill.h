/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cache_spill.h - a file for what a cache evicts: a log that wraps around.
 *
 *     file  | head | chunk 8 | chunk 9 | chunk 6 | chunk 7 |      ring of 4, chunk 10 is filled
 *                                          ^                      in memory, and written to the
 *                                          gone when 10 is begun  place of 6 by a worker
 *
 *     record  | sum | position | hash | bytes | bytes of the cache |
 *
 * The file is not trusted.  A record is one if its sum is right, which covers its position in the
 * log and a secret of this opening: neither another record, nor one of an earlier round or of an
 * earlier process, nor a damaged one is taken for it.  Writes that fail leave records that are
 * none.
 *
 * Who evicts does not wait for the file: he copies to memory, and a value is dropped if two chunks
 * wait already.
 *
 * Lock: spill.lock, a leaf.
 */
#ifndef EBB_USER_CACHE_SPILL_H
#define EBB_USER_CACHE_SPILL_H

#include "host.h"

#define SPILL_CHUNK ((size_t)256 << 10)
#define SPILL_HEAD ((size_t)4096)       /* of the file */
#define SPILL_PAUSE_NS 1000000000ull    /* without a try, after a write failed */

struct cache_spill {
	int fd;
	u64 seed;
	u64 chunks;                     /* in the file */
	struct mutex lock;
	u64 filled;                     /* the chunk that is filled; lock, READ_ONCE */
	size_t fill;                    /* bytes of it; lock */
	bool writing;                   /* chunk filled - 1 is on its way; lock */
	size_t write_bytes;             /* of that; lock */
	u64 paused;                     /* ktime_get_ns() time until which nothing is taken; lock */
	bool has_head;                  /* the worker's */
	unsigned char *buf[2];          /* [SPILL_CHUNK], of even and odd chunks */
	struct host_work work;
	host_a64 errors, dropped, bad, spilled;
};

/* Errors as ebb_cache_open().  capacity: at least EBB_CACHE_SPILL_MIN.  Process context. */
int cache_spill_open(struct cache_spill **spill, const char *path, u64 capacity);
void cache_spill_close(struct cache_spill *sp);

/* Takes a record of n bytes; *at is its position.  False: there is no room for it now. */
bool cache_spill_put(struct cache_spill *sp, u64 hash, const void *data, size_t n, u64 *at);

/* Whether what was put there can still be there.  Any context. */
bool cache_spill_has(struct cache_spill *sp, u64 at);

/* Reads a record of at most cap bytes; *n is how many.  -ESTALE: it is gone. */
int cache_spill_get(struct cache_spill *sp, u64 hash, u64 at, void *data, size_t cap, size_t *n);

/* Writes what was put, or fails. */
void cache_spill_flush(struct cache_spill *sp);

size_t cache_spill_bytes(void);

#endif
