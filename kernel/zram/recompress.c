// SPDX-License-Identifier: GPL-2.0-only
/*
 * recompress.c - the file `recompress`: who asks for it has old pages compressed anew, by a codec
 * of a higher priority (recomp_algorithm).
 *
 *     type=idle|huge|huge_idle    only pages that are so; without it all
 *     threshold=BYTES             only those of at least that many
 *     max_pages=N                 N tries at most, of the largest first
 *     algo=NAME priority=1..3     which codec (that of priority 1)
 *
 * Neither the other files nor the shrinker wait for it: it does not have dev_lock, and it has
 * check_lock, for which only a check waits, for a piece of the slots at a time.  A piece waits for
 * no memory, since a check that waits for it has dev_lock.  After a piece that found no memory the
 * thread waits for some, but not for ever: while it has pp_lock nobody can write pages back, which
 * might be what frees some.
 */
#include "zram.h"

#include <linux/device.h>
#include <linux/gfp.h>
#include <linux/kstrtox.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "tier/recompress.h"
#include "sysfs.h"
#include "wb.h"

#define DRY_TRIES 8u            /* pieces in a row that find no memory, and then it ends */

struct words {
	const char *algo;
	unsigned long long max_pages;
	u32 threshold;
	int priority;
	bool idle, huge, has_priority;
};

/* A type that is none is passed over after one that is, as in-tree does. */
static int recompress_parse_type(const char *value, struct words *w)
{
	bool idle = !strcmp(value, "idle"), huge = !strcmp(value, "huge"),
	     both = !strcmp(value, "huge_idle");

	if (idle || huge || both) {
		w->idle = idle || both;
		w->huge = huge || both;
	}
	return w->idle || w->huge ? 0 : -EINVAL;
}

/* Unknown names are passed over. */
static int recompress_parse(char *text, struct words *w)
{
	char *name, *value;
	int err = 0;

	while (!err && zram_next_word(&text, &name, &value)) {
		if (!value)
			return -EINVAL;
		if (!strcmp(name, "type")) {
			err = recompress_parse_type(value, w);
		} else if (!strcmp(name, "max_pages")) {
			err = kstrtoull(value, 10, &w->max_pages);
		} else if (!strcmp(name, "threshold")) {
			err = kstrtouint(value, 10, &w->threshold);
		} else if (!strcmp(name, "algo")) {
			w->algo = value;
		} else if (!strcmp(name, "priority")) {
			w->has_priority = true;
			err = kstrtoint(value, 10, &w->priority);
		}
	}
	return err;
}

/* Finds the codec.  dev_lock is held; NULL: the request stands, or what is wrong with it. */
static const char *recompress_judge(struct zram *z, struct words *w)
{
	unsigned int p;

	if (!z->disksize)
		return "the device has no size yet";
	if (w->threshold > pool_max_small(&z->store.pool))
		return "a threshold that only raw pages are over";
	if (w->has_priority && (w->priority < 1 || w->priority >= STORE_CODECS))
		return "no such priority";
	for (p = 1; w->algo && !w->has_priority && p < STORE_CODECS; p++) {
		if (z->algorithm[p].codec && !strcmp(z->algorithm[p].codec->name, w->algo)) {
			w->priority = p;
			w->has_priority = true;
		}
	}
	if (w->algo && !w->has_priority)
		return "not an algorithm of recomp_algorithm";
	if (!z->store.streams[w->priority])
		return "recomp_algorithm has none of this priority";
	if (w->algo && strcmp(z->algorithm[w->priority].codec->name, w->algo))
		return "not the algorithm of this priority";
	return NULL;
}

/* ---- what it needs, all there before it has pp_lock ---- */

struct room {
	char page[PAGE_SIZE > SZ_64K ? PAGE_SIZE : SZ_64K], packed[PAGE_SIZE];
	u64 count[RECOMPRESS_BANDS];    /* pages by band of sizes */
};

/* ---- the work; pp_lock is held, so that the store stays ---- */

/* The band of sizes from which on there are at least max_pages. */
static int first_band(struct zram *z, const struct recompress_request *r, u64 *count,
		      unsigned int *band)
{
	u64 sum = 0, at = 0;
	bool more = true;
	int err;

	while (more) {
		err = zram_wb_lock_piece(z);
		if (err)
			return err;
		more = store_recompressible(&z->store, &at, z->store.slots, r, count);
		up_read(&z->check_lock);
		cond_resched();
	}
	for (*band = RECOMPRESS_BANDS; *band && sum < r->left;)
		sum += count[--*band];
	return 0;
}

/* -ENOMEM: there is none, and waiting on would kill somebody for it. */
static int await_memory(struct zram *z)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);

	if (!page)
		return -ENOMEM;
	__free_page(page);
	return 0;
}

static int recompress_walk(struct zram *z, struct recompress_request *r,
			   const struct recompress_work *w)
{
	unsigned int dry = 0;
	int more = 1;
	u64 at = 0;

	while (more > 0) {
		int err = zram_wb_lock_piece(z);

		if (err)
			return err;
		/* They may come meanwhile. */
		r->ages = READ_ONCE(z->ages);
		more = store_recompress_piece(&z->store, &at, z->store.slots, r, w);
		up_read(&z->check_lock);
		dry = more == -ENOMEM ? dry + 1 : 0;
		if (dry && dry < DRY_TRIES)
			more = await_memory(z) ?: 1;
		cond_resched();
	}
	return more;
}

static int recompress_device(struct zram *z, const struct words *w, struct room *room)
{
	const struct recompress_work work = { room->page, room->packed };
	struct recompress_request r;
	unsigned int band = 0;
	int err = 0;

	recompress_request_init(&r, w->priority);
	r.idle = w->idle;
	r.huge = w->huge;
	r.threshold = w->threshold;
	r.left = w->max_pages;
	if (r.left != U64_MAX)
		err = first_band(z, &r, room->count, &band);
	/* Of the last band not all are wanted. */
	if (!err && band) {
		r.from = band + 1;
		err = recompress_walk(z, &r, &work);
		r.to = band + 1;
	}
	r.from = band;
	return err ?: recompress_walk(z, &r, &work);
}

static ssize_t recompress_locked(struct device *dev, const char *buf, struct words *w,
				 struct room *room)
{
	struct zram *z = zram_of(dev);
	const char *wrong;
	int err;

	if (down_read_killable(&z->dev_lock))
		return -EINTR;
	wrong = recompress_judge(z, w);
	up_read(&z->dev_lock);
	if (wrong)
		return zram_refuse(dev, "recompress", buf, wrong, -EINVAL);
	err = recompress_device(z, w, room);
	zram_note_written(z);
	/* Old and new pieces are of the same classes, and leave zspages half empty. */
	if (!err && zram_unit_pages(z))
		err = zram_compact(z);
	return err;
}

static ssize_t recompress_store(struct device *dev, struct device_attribute *attr, const char *buf,
				size_t len)
{
	struct words w = { .max_pages = U64_MAX, .priority = 1 };
	struct zram *z = zram_of(dev);
	char *text = kstrdup(buf, GFP_KERNEL);
	struct room *room = kvzalloc(sizeof(*room), GFP_KERNEL);
	ssize_t err = -ENOMEM;

	if (text && room) {
		err = recompress_parse(text, &w);
		if (err)
			zram_refuse(dev, "recompress", buf, "not name=value with numbers in range",
				    err);
	}
	if (!err)
		err = mutex_lock_killable(&z->pp_lock);
	if (!err) {
		err = recompress_locked(dev, buf, &w, room);
		mutex_unlock(&z->pp_lock);
	}
	kvfree(room);
	kfree(text);
	return err ?: len;
}
DEVICE_ATTR_WO(recompress);
