// SPDX-License-Identifier: GPL-2.0-only
/*
 * shrink.c - gives a pool's memory back under pressure: core/shrink.c, asked by the kernel.
 *
 * The caller is anybody who allocates, with any locks, and perhaps in the middle of a store to this
 * very pool.  It takes no sleeping lock and does a bounded piece; a worker does the rest.  The
 * shrinker has the name that the kernel's own zsmalloc gives it, so tools find it.
 */
#include "zspool.h"

#include <linux/shrinker.h>

static unsigned long count_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct zs_pool *pool = shrinker->private_data;

	return shrink_count(&pool->shrink);
}

static unsigned long scan_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct zs_pool *pool = shrinker->private_data;
	unsigned long freed = shrink_some(&pool->shrink);

	if (shrink_count(&pool->shrink))
		host_work_queue(&pool->rest);
	return freed ? freed : SHRINK_STOP;
}

void zs_shrink_rest(struct host_work *w)
{
	struct zs_pool *pool = container_of(w, struct zs_pool, rest);

	shrink_rest(&pool->shrink);
}

/* What only cells know of their memory. */

static u64 room(void *ctx)
{
	return cells_room(ctx);
}

static u64 tables(void *ctx)
{
	return cells_table_pages(ctx);
}

void zs_shrink_init(struct zs_pool *pool)
{
	const struct shrink_owner owner = { .ctx = &pool->cells, .room = room, .tables = tables };

	shrink_init(&pool->shrink, &pool->cells.pool, &pool->cells.release, &owner);
}

void zs_shrinker_add(struct zs_pool *pool)
{
	pool->shrinker = shrinker_alloc(0, "mm-zspool:%s", pool->name);
	if (!pool->shrinker)
		return;
	pool->shrinker->count_objects = count_objects;
	pool->shrinker->scan_objects = scan_objects;
	pool->shrinker->private_data = pool;
	shrinker_register(pool->shrinker);
}

void zs_shrinker_remove(struct zs_pool *pool)
{
	if (pool->shrinker)
		shrinker_free(pool->shrinker);
	pool->shrinker = NULL;
}
