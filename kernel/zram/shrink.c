// SPDX-License-Identifier: GPL-2.0-only
/*
 * shrink.c - gives memory back under pressure: core/mm/shrink.c, asked by the kernel.
 *
 * The caller is anybody who allocates, with any locks, maybe throttled: it takes no lock of the
 * device's, and does a bounded piece.  What it leaves is done by a worker.  The shrinker is there
 * as long as the store is.
 */
#include "zram.h"

#include <linux/shrinker.h>

static unsigned long count_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct zram *z = shrinker->private_data;

	return shrink_count(&z->store.shrink);
}

static unsigned long scan_objects(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct zram *z = shrinker->private_data;
	unsigned long freed;

	if (release_backlog(&z->store.release))
		host_a64_add(&z->flush_pressure, 1);
	freed = shrink_some(&z->store.shrink);
	if (shrink_count(&z->store.shrink))
		host_work_queue(&z->rest);
	return freed ? freed : SHRINK_STOP;
}

void zram_shrink_rest(struct host_work *w)
{
	struct zram *z = container_of(w, struct zram, rest);

	shrink_rest(&z->store.shrink, U64_MAX);
}

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
	z->shrinker = NULL;
}
