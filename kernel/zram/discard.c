// SPDX-License-Identifier: GPL-2.0-only
/*
 * discard.c - tells the backing device which blocks are free, if `writeback_discard` says so.
 *
 *     free, and perhaps written since the last discard
 *       |   runs of 64 KiB or what the device can discard, if that is more (core/backed.h)
 *       v
 *     out: nobody is given them --discard--> free
 *
 * The device's thread does it (policy.c), a unit at a time, and waits for each discard.  So nothing
 * is in flight when it is frozen or ends, and what it is to do first waits for one discard at most.
 */
#include "zram.h"

#include <linux/blkdev.h>
#include <linux/math.h>

#include "wb.h"

#define RUN_BYTES SZ_64K
#define UNIT_BYTES SZ_64M       /* that are discarded in a unit, */
#define UNIT_TAKES 32u          /* or so many times that blocks are looked for */

int zram_discard_set(struct zram *z)
{
	struct zram_backing *b = &z->backing;
	u64 least, run = 0;

	if (b->discards && b->bdev && !bdev_max_discard_sectors(b->bdev)) {
		pr_notice("%s: writeback_discard is 0: the backing device takes no discards\n",
			  z->disk->disk_name);
		WRITE_ONCE(b->discards, false);
	}
	if (b->discards && b->bdev) {
		least = max_t(u64, bdev_discard_granularity(b->bdev), PAGE_SIZE);
		run = roundup(RUN_BYTES, least) >> PAGE_SHIFT;
	}
	return backed_set_run(&z->store.backed, run);
}

/* The device says that it can, and fails to. */
static void give_up(struct zram *z, int err)
{
	pr_err("%s: writeback_discard is 0: a discard failed with error %d\n", z->disk->disk_name,
	       err);
	down_write(&z->dev_lock);
	WRITE_ONCE(z->backing.discards, false);
	backed_set_run(&z->store.backed, 0);
	up_write(&z->dev_lock);
}

static int discard(struct zram *z, u64 block, u64 n)
{
	const unsigned int shift = PAGE_SHIFT - SECTOR_SHIFT;
	int err = blkdev_issue_discard(z->backing.bdev, block << shift, n << shift, GFP_NOIO);

	down_read(&z->dev_lock);
	backed_untake(&z->store.backed, block, n);
	up_read(&z->dev_lock);
	/* Who found no other block. */
	wake_up_all(&z->read_ended);
	zram_incoming_look(z);
	return err;
}

bool zram_discard(struct zram *z, u64 *at)
{
	struct backed *b = &z->store.backed;
	u64 left = UNIT_BYTES >> PAGE_SHIFT, block, n;
	unsigned int takes = UNIT_TAKES;
	bool more = true;
	int err;

	while (more && left && takes-- && !zram_wb_stopped(z)) {
		/* Half of what is free is left to who writes, if it is more than a run. */
		down_read(&z->dev_lock);
		more = backed_take(b, at, min(left, host_read_once(b->nfree) / 2), &block, &n);
		up_read(&z->dev_lock);
		left -= min(left, n);
		err = n ? discard(z, block, n) : 0;
		if (err) {
			give_up(z, err);
			return false;
		}
		/* Perhaps pages are to be written ahead. */
		if (READ_ONCE(z->policy.kicked))
			break;
		cond_resched();
	}
	return more;
}
