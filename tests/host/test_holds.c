// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_holds.c - how often a class lock is held, and for how long, in a pool whose objects are
 * owned here.  Sequential.
 */
#include "explore.h"
#include "rig.h"

static struct {
	struct host_pages src;
	struct pages pages;
	struct pool pool;
	u64 *ref;               /* [OWNED], by key; 0: none */
	bool refuse;            /* lets no object go */
} own;

#define OWNED 16384u

static u64 own_look(void *ctx, u32 key)
{
	(void)ctx;
	return own.refuse || key >= OWNED ? 0 : own.ref[key];
}

static bool own_swing(void *ctx, u32 key, u64 from, u64 to)
{
	(void)ctx;
	if (own.ref[key] != from)
		return false;
	own.ref[key] = to;
	return true;
}

/* Opens own's pool. */
static void own_open(unsigned int pages)
{
	static const struct pool_owner owner = { .look = own_look, .swing = own_swing };

	home_open(1, pages);
	own.src.dry = 0;
	own.ref = host_zalloc(OWNED * sizeof(*own.ref));
	must_eq(pages_init(&own.pages, &own.src, 0, NULL), 0);
	must_eq(pool_init(&own.pool, &own.pages, CHAIN_MIN, &owner), 0);
}

static void own_close(void)
{
	pool_destroy(&own.pool);
	pages_destroy(&own.pages);
	host_free(own.ref, OWNED * sizeof(*own.ref));
	home_close();
}

/* Makes object key, of class c. */
static void own_make(const struct pool_class *c, u32 key)
{
	if (key >= OWNED || pool_make(&own.pool, c->size - POOL_HEADER, NULL, key, NUMA_NO_NODE,
				      HOST_MAY_WAIT, &own.ref[key]))
		explore_fail("no room for object %u", key);
}

/* A missing page costs no second hold: the object before it said so.  A new zspage costs one. */
CASE(an_object_takes_a_class_lock_once)
{
	const struct pool_class *c = NULL;
	const u32 zspages = 8;
	u64 holds;
	u32 i, n;

	own_open(256);
	for (i = 0; i < own.pool.table.nclasses; i++) {
		c = &own.pool.class[i];
		if (c->pages >= 4 && c->objs >= 8)
			break;
	}
	must(i != own.pool.table.nclasses);
	n = zspages * c->objs;
	home_stat_reset();
	for (i = 0; i < n; i++)
		own_make(c, i);
	holds = home_lock_stat("&c->lock")->holds;
	if (holds < n || holds > n + zspages || pool_pages(&own.pool) != zspages * c->pages)
		explore_fail("%lu holds of a class lock for %u objects in %u zspages of %u pages",
			     holds, n, zspages, c->pages);
	for (i = 0; i < n; i++)
		pool_free(&own.pool, own.ref[i]);
	own_close();
}

/* Frees n objects of two classes in turn, all that are there; their zspages were full. */
static void own_free_in_turn(u32 n, const struct pool_class *const of[2])
{
	u64 *tmp = host_zalloc(n * sizeof(*tmp)), holds;
	u32 i;

	for (i = 0; i < n; i++)
		own_make(of[i % 2], i);
	home_stat_reset();
	pool_free_bulk(&own.pool, own.ref, n > POOL_BULK_SMALL ? tmp : NULL, n);
	holds = home_lock_stat("&c->lock")->holds;
	must_eq(holds, 0);
	must_eq(pool_pages(&own.pool), 0);
	host_free(tmp, n * sizeof(*tmp));
}

/* Sorted, the objects of a zspage go at once: it is never on a list, however they came. */
CASE(a_bulk_free_of_full_zspages_takes_no_class_lock)
{
	const struct pool_class *of[2] = { NULL, NULL };
	unsigned int i;

	own_open(1024);
	for (i = 0; i < own.pool.table.nclasses; i++) {
		const struct pool_class *c = &own.pool.class[i];

		if (c->objs > 2 && c->objs <= POOL_BULK_SMALL / 4 &&
		    (!of[0] || (!of[1] && c->objs == of[0]->objs)))
			of[of[0] != NULL] = c;
	}
	must(of[1]);
	own_free_in_turn(2 * of[0]->objs * (POOL_BULK_SMALL / 2 / of[0]->objs), of);
	own_free_in_turn(POOL_BULK_SMALL * of[0]->objs, of);
	own_close();
}

/* Of n zspages from that of object key on, leaves the first objs objects; returns the next key. */
static u32 own_leave(struct pool_class *c, u32 key, unsigned int n, unsigned int objs)
{
	unsigned int i;

	for (i = 0; i < n * c->objs; i++) {
		if (i % c->objs < objs)
			continue;
		pool_free(&own.pool, own.ref[key + i]);
		own.ref[key + i] = 0;
	}
	return key + n * c->objs;
}

/*
 * To find a target for an object takes a walk past all the fuller zspages, on whose pages there is
 * no place.  Each target has one place, so each object asks for a walk.
 */
CASE(no_hold_of_a_class_lock_walks_for_each_object)
{
	const unsigned int fuller = POOL_LOOK - 12;
	struct pool_class *c = NULL;
	unsigned int on1, on2, i;
	u32 keys, at;

	own_open(2048);
	for (i = 0; i < own.pool.table.nclasses; i++) {
		c = &own.pool.class[i];
		if (c->pages > 2 && PAGE_SIZE / c->size > 2 * POOL_MOVES &&
		    PAGE_SIZE / c->size <= 12 * POOL_MOVES)
			break;
	}
	must(i != own.pool.table.nclasses);
	on1 = (unsigned int)PAGE_SIZE / c->size;
	on2 = 2 * (unsigned int)PAGE_SIZE / c->size;
	keys = (fuller + POOL_MOVES + 3) * c->objs;
	for (i = 0; i < keys; i++)
		own_make(c, i);
	at = own_leave(c, 0, fuller, on2);
	at = own_leave(c, at, POOL_MOVES + 2, on1 - 1);
	own_leave(c, at, 1, on1 / 2);
	/* Nothing moves, but the pages at the ends go. */
	own.refuse = true;
	pool_compact(&own.pool);
	must_eq(pool_pages(&own.pool), 2 * fuller + POOL_MOVES + 3);
	own.refuse = false;
	home_longest = 0;
	pool_compact(&own.pool);
	/* Of two walks, and of eight moves: an access or more a look. */
	must_be_at_most(home_longest, 16 * POOL_LOOK);
	for (i = 0; i < keys; i++)
		if (own.ref[i])
			pool_free(&own.pool, own.ref[i]);
	own_close();
}
