/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool_rig.h - a pool alone, over a zone, for the tests of it.
 *
 * The owner here is a plain table: word[key] is the reference, and a pinned key refuses to be
 * moved, as a slot does that a reader holds.  When a case is over, every object is freed, and no
 * page may be left.
 */
#ifndef EBB_TESTS_POOL_RIG_H
#define EBB_TESTS_POOL_RIG_H

#include "store/check.h"
#include "support.h"

#define KEYS 2000

struct rig {
	bool is_open;
	struct source source;
	struct pool pool;
	u64 word[KEYS];
	bool pinned[KEYS];
	bool gone[KEYS];                /* freed as it was moved */
	uint64_t seed[KEYS];            /* of the bytes */
	size_t size[KEYS];
	unsigned int swings;
	void (*before_swing)(struct rig *r, u64 from, u64 to);
};

static struct rig rig;
static unsigned char bytes[PAGE_SIZE], bounce[PAGE_SIZE];

static inline u64 look(void *ctx, u32 key)
{
	struct rig *r = ctx;

	return key < KEYS && !r->pinned[key] ? r->word[key] : 0;
}

static inline bool swing(void *ctx, u32 key, u64 from, u64 to)
{
	struct rig *r = ctx;

	if (r->before_swing)
		r->before_swing(r, from, to);
	if (r->pinned[key] || r->word[key] != from)
		return false;
	r->word[key] = r->gone[key] ? 0 : to;
	r->swings++;
	return true;
}

static inline struct rig *rig_open(unsigned int chain)
{
	const struct pool_owner owner = { .ctx = &rig, .look = look, .swing = swing };

	memset(&rig, 0, sizeof(rig));
	source_open(&rig.source);
	must_eq(pool_init(&rig.pool, &rig.source.pages, chain, &owner), 0);
	rig.is_open = true;
	return &rig;
}

/* Where the object of a word is. */
static inline u32 zspage_of(struct rig *r, u64 word)
{
	return ref_zspage(ref_class(&r->pool, word), word);
}

static inline u32 obj_of(struct rig *r, u64 word)
{
	return ref_obj(ref_class(&r->pool, word), word);
}

static inline int try_make(struct rig *r, u32 key, size_t size, uint64_t seed, unsigned int how)
{
	int err = pool_make(&r->pool, size, NULL, key, NUMA_NO_NODE, how, &r->word[key]);

	if (err)
		return err;
	must_eq(r->word[key] & ~REF_MASK, 0);
	must_eq(pool_ref_size(&r->pool, r->word[key]), size);
	must(pool_ref_room(&r->pool, r->word[key]) >= size);
	r->size[key] = size;
	r->seed[key] = seed;
	fill_random(bytes, size, seed);
	pool_write(&r->pool, r->word[key], bytes);
	return 0;
}

static inline void make(struct rig *r, u32 key, size_t size, uint64_t seed)
{
	must_eq(try_make(r, key, size, seed, HOST_MAY_WAIT), 0);
}

static inline void verify(struct rig *r, u32 key)
{
	must_eq(pool_ref_size(&r->pool, r->word[key]), r->size[key]);
	fill_random(bytes, r->size[key], r->seed[key]);
	must(!memcmp(pool_map(&r->pool, r->word[key], bounce), bytes, r->size[key]));
}

static inline void drop(struct rig *r, u32 key)
{
	pool_free(&r->pool, r->word[key]);
	r->word[key] = 0;
}

static inline void verify_all(struct rig *r)
{
	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key])
			verify(r, key);
}

static inline void drop_all(struct rig *r)
{
	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key])
			drop(r, key);
}

static inline void rig_close(struct rig *r)
{
	must_hold(pool_check(&r->pool, NULL));
	drop_all(r);
	must_hold(pool_check(&r->pool, NULL));
	must_eq(pool_pages(&r->pool), 0);
	must_eq(host_a64_read(&r->pool.zspages.chunks), 0);
	pool_destroy(&r->pool);
	source_close(&r->source);
	r->is_open = false;
}

void after_each(void)
{
	if (rig.is_open)
		rig_close(&rig);
}

static inline size_t any_size(struct pool *p, struct rng *rng)
{
	size_t edge[] = {
		1, 8, 11, 12, 13, 28, 29, pool_max_small(p) - 1, pool_max_small(p),
		pool_max_small(p) + 1, p->table.largest, p->table.largest + 1, PAGE_SIZE - 1,
		PAGE_SIZE,
	};

	if (!rng_below(rng, 4))
		return edge[rng_below(rng, ARRAY_LEN(edge))];
	return 1 + rng_below(rng, rng_below(rng, 2) ? PAGE_SIZE : PAGE_SIZE / 4);
}

/* The payload that just fills an object of class i. */
static inline size_t payload(struct rig *r, unsigned int i)
{
	const struct size_class *c = &r->pool.table.class[i];

	return c->objs == 1 ? c->size : c->size - POOL_HEADER;
}

/* A class with from min to max objects to a zspage, more than one page of them. */
static inline unsigned int class_with(struct rig *r, unsigned int min, unsigned int max)
{
	for (unsigned int i = 0; i < r->pool.table.nclasses; i++)
		if (r->pool.table.class[i].objs >= min && r->pool.table.class[i].objs <= max &&
		    r->pool.table.class[i].pages > 1)
			return i;
	must_failed(__FILE__, __LINE__, "no class with as many objects", min, max);
}

#endif
