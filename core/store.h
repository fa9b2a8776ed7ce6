/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * store.h - pages in, pages out: an array of slots over a pool.
 *
 *     page --same word?--> fill value in the slot word
 *          --codec-------> object, or the raw page if the codec does not get it below huge
 *
 * A slot's content is never written in place: a write makes a new object and publishes it,
 * so a failed write leaves the slot as it was, and a reader sees the old or the new page.
 *
 * Lock order: slot hold > stream > draining > the per-CPU item > the pool's locks (release.c).
 */
#ifndef EBB_CORE_STORE_H
#define EBB_CORE_STORE_H

#include "codec.h"
#include "release.h"
#include "slot.h"
#include "stats.h"

struct store_config {
	u64 slots;                      /* 1 .. 2^32 - 1 */
	const struct codec_ops *codec;
	int level;
	unsigned int chain;             /* CHAIN_MIN .. CHAIN_MAX */
	u64 mem_limit;                  /* bytes, 0: none */
	u64 release_limit;              /* bytes, 0: synchronous */
};

struct store_cpu {
	struct release_cpu release;     /* first: release.h */
	struct counters counters;
};

struct stream {
	host_mutex_t lock;
	void *ctx;
	void *buf;                      /* compressed bytes out; HOST_PAGE_SIZE */
	void *bounce;                   /* for objects that span pages; HOST_PAGE_SIZE */
};

struct store {
	host_a64 *slot;                 /* [slots] */
	u64 slots;
	u64 mem_limit;                  /* bytes, 0: none; host_read_once */
	const struct codec_ops *codec;
	struct host_percpu cpus;        /* of struct store_cpu */
	struct pool pool;
	struct release release;
	struct stream *stream;          /* [streams] */
	unsigned int streams;           /* CPUs when the store was made; fixed */
};

/* Process context.  -EINVAL: a field is out of range; -ENOMEM; what host_work_init() says. */
int store_init(struct store *s, struct pcp *pcp, const struct store_config *cfg);

/* Empties the store and ends it.  Process context; nobody uses it any more. */
void store_destroy(struct store *s);

/*
 * Stores a page of HOST_PAGE_SIZE bytes in slot i.  Process context.
 * -ERANGE: no such slot; -ENOMEM: memory or mem_limit is exhausted; -EIO: the codec failed.
 */
int store_write(struct store *s, u64 i, const void *page);

/* Stores 1 .. HOST_PAGE_SIZE bytes as they are.  As store_write(); -EINVAL: bytes. */
int store_put(struct store *s, u64 i, const void *data, size_t bytes);

/*
 * Reads slot i into page; an empty slot reads as zeros.  Process context.  -ERANGE;
 * -EINVAL: the slot holds an object of store_put(); -EIO: it does not decompress.  After -EIO
 * page is zeros, after another error it is as it was.
 */
int store_read(struct store *s, u64 i, void *page);

/* Reads an object of store_put(); *bytes is its length, 0 if empty.  -ENOSPC: cap is less. */
int store_get(struct store *s, u64 i, void *buf, size_t cap, size_t *bytes);

/* Empties slot i.  Any context: no sleep, no allocation, no wait for a reader.  -ERANGE. */
int store_free(struct store *s, u64 i);

/* Empties all slots and gives their memory back.  Process context. */
void store_reset(struct store *s);

/* Flushes, then compacts; returns the pages that freed.  Process context. */
u64 store_compact(struct store *s);

/* Sum of a counter over the CPUs.  Any context. */
u64 store_count(struct store *s, enum store_counter i);

/* Bytes of the slot table, descriptors and buffers.  Any context. */
u64 store_meta_bytes(struct store *s);

#endif
