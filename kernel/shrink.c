// SPDX-License-Identifier: GPL-2.0-only
/*
 * shrink.c - gives memory back under pressure: held-back objects first, as that is nearly
 * free; then compaction; then the page lists.
 *
 * The caller is anybody who allocates, with any locks.  dev_lock is only tried.  The core's
 * mutexes may be waited for: who holds release.draining or pool.compacting never allocates,
 * and a codec stream's (held by writers, who do) is not taken here.
 */
#include "zram.h"

#include <linux/shrinker.h>

/*
 * Pages that compaction might free: what the pool has beyond its objects and the 1/16 that
 * classes and chains cost it at best.
 */
static u64 sparse_pages(struct zram *z)
{
	u64 bytes = store_count(&z->store, CNT_COMPR_BYTES);
	u64 need = (bytes + bytes / 16) >> PAGE_SHIFT, have = pool_pages(&z->store.pool);

	return have > need ? have - need : 0;
}

static u64 held_pages(struct zram *z)
{
	return release_held(&z->store.release) >> PAGE_SHIFT;
}

static unsigned long count_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct zram *z = shrinker->private_data;
	u64 pages = 0;

	if (!down_read_trylock(&z->dev_lock))
		return 0;
	if (z->disksize)
		pages = held_pages(z) + sparse_pages(z) + pcp_count(&z->pcp);
	up_read(&z->dev_lock);
	return pages;
}

static unsigned long scan_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct zram *z = shrinker->private_data;
	unsigned long freed = 0;

	if (!down_read_trylock(&z->dev_lock))
		return SHRINK_STOP;
	if (z->disksize) {
		u64 before = pool_pages(&z->store.pool) + pcp_count(&z->pcp), after;

		if (held_pages(z)) {
			host_a64_add(&z->flush_pressure, 1);
			release_flush(&z->store.release);
		}
		pcp_drain(&z->pcp);
		after = pool_pages(&z->store.pool);
		if (after + sc->nr_to_scan > before) {
			pool_compact(&z->store.pool);
			pcp_drain(&z->pcp);
			after = pool_pages(&z->store.pool);
		}
		freed = before > after ? before - after : 0;
	}
	up_read(&z->dev_lock);
	return freed ? freed : SHRINK_STOP;
}

/* A device without one works; it gives memory back later. */
void zram_shrinker_add(struct zram *z)
{
	z->shrinker = shrinker_alloc(0, "zram-%s", z->disk->disk_name);
	if (!z->shrinker)
		return;
	z->shrinker->count_objects = count_objects;
	z->shrinker->scan_objects = scan_objects;
	z->shrinker->private_data = z;
	shrinker_register(z->shrinker);
}

void zram_shrinker_remove(struct zram *z)
{
	if (z->shrinker)
		shrinker_free(z->shrinker);
}
