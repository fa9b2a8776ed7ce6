/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * values_rivals.h - what a program would keep compressed values in without ebb_values.h or
 * ebb_cache.h, for `ebb values bench` and `ebb cache bench`: small models, each with the codec that
 * the bench runs.
 */
#ifndef EBB_VALUES_RIVALS_H
#define EBB_VALUES_RIVALS_H

#include "codec_alone.h"

struct rival;

struct rival_ops {
	const char *name;
	/*
	 * limit: bytes, after which what was not asked for the longest time goes (LRU), and a
	 * delete is not of use; 0: none.
	 */
	struct rival *(*open)(uint64_t values, uint64_t limit);
	void (*close)(struct rival *r);
	/* 0 or -errno; -ENOENT, -ENOMEM.  c is the thread's own. */
	int (*put)(struct rival *r, struct codec_alone *c, uint64_t id, const void *data, size_t n);
	int (*get)(struct rival *r, struct codec_alone *c, uint64_t id, void *buf, size_t cap,
		   size_t *n);
	int (*del)(struct rival *r, uint64_t id);
	/* Gives what was deleted back to the system; NULL: it does so by itself, or never. */
	void (*give)(void);
};

/*
 * map: a hash table of malloc()ed compressed strings, as std::unordered_map of std::string would
 * have them; map_trim: the same of who calls malloc_trim() after deletes; slabs: the same table,
 * with strings in chunks of size classes that grow by a quarter, out of slabs of 1 MiB that are
 * never given back, as memcached keeps items.
 *
 * With a limit, map counts the bytes of strings, nodes and buckets, which is what a program can
 * count, and slabs the slabs; map has one LRU list, slabs have one for each class, in which what is
 * put looks for a place.  Both then have one lock, as a map and a list with a mutex around them
 * have.
 */
extern const struct rival_ops rival_map, rival_map_trim, rival_slabs;

/* The one of that name, which is among them. */
const struct rival_ops *rival_find(const struct rival_ops *const *among, const char *name);

#endif
