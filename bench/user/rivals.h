/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rivals.h - what compressed values are kept in: tables and caches of Ebb, and small models of what
 * a program would have without them, each with the codec that the bench runs.
 */
#ifndef EBB_RIVALS_H
#define EBB_RIVALS_H

#include "codec.h"

struct rival;

/*
 * ebb, ebb-key: ebb_values.h, by ids or by keys of 8 bytes; with a limit of bytes, ebb and
 * ebb-second: ebb_cache.h, and one in which a key's first miss only notes it.
 *
 * map: a hash table of malloc()ed compressed strings, as std::unordered_map of std::string would
 * have them; map-trim: the same of who calls malloc_trim() after deletes; slabs: the same table,
 * with strings in chunks of size classes that grow by a quarter, out of slabs of 1 MiB that are
 * never given back, as memcached keeps items.  One lock each, which no codec runs under.
 *
 * With a limit, what was not asked for the longest time goes (LRU).  map counts the bytes of
 * strings, nodes and buckets, which is what a program can count, and slabs the slabs; map has one
 * list, slabs have one for each class, in which what is put looks for a place.
 */
struct rival *rival_open(const struct bench_run *r, uint64_t values, uint64_t limit);

/* 0 or -errno; -ENOENT, -ENOMEM.  c is the thread's own. */
int rival_put(struct rival *r, struct codec *c, uint64_t id, const void *data, size_t n);
int rival_get(struct rival *r, struct codec *c, uint64_t id, void *buf, size_t cap, size_t *n);
int rival_delete(struct rival *r, uint64_t id);

/* After deletes: gives memory back, if it is of those that do so when they are told. */
void rival_trim(const struct rival *r);

/* What the codec made of all values, as Ebb's table tells; 0: it does not. */
uint64_t rival_packed(const struct rival *r);

#endif
