// SPDX-License-Identifier: GPL-2.0-only
/*
 * discard.c - tells the backing device which blocks are free, if `writeback_discard` says so.
 *
 *     free, and perhaps written since the last discard
 *       |   runs of 64 KiB or what the device can discard, if that is more (core/backed.h)
 *       v
 *     out: nobody is given them --discard--> free
 *
 * The device's thread does it (policy.c), a unit at a time, and waits for what it sends at once: as
 * many blocks as four requests take, but a run at least.  So nothing is in flight when it is frozen
 * or ends, and what it is to do first waits that long at most.
 *
 * Half of the free blocks are left to who writes.  Those who use them up while the other half is
 * out wait for the discard.
 */
#include "zram.h"

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/math.h>
#include <linux/math64.h>

#include "wb.h"

#define RUN_BYTES SZ_64K
#define UNIT_BYTES SZ_64M       /* that are discarded in a unit; no run is larger */
#define UNIT_TAKES 32u          /* times that a unit looks for blocks, at most */
#define REQUESTS 4u             /* in flight at once */

static u64 run_bytes(struct block_device *bdev)
{
	return roundup(RUN_BYTES, max_t(u64, bdev_discard_granularity(bdev), PAGE_SIZE));
}

const char *zram_discard_wrong(const struct zram *z)
{
	struct block_device *bdev = z->backing.bdev;

	if (bdev && !bdev_max_discard_sectors(bdev))
		return "the backing device takes no discards";
	if (bdev && run_bytes(bdev) > UNIT_BYTES)
		return "the backing device discards more than 64 MiB at once, or nothing";
	return NULL;
}

/* In pages; 0: nothing is discarded. */
static u64 run_of(const struct zram *z, bool on)
{
	if (!on || !z->backing.bdev || zram_discard_wrong(z))
		return 0;
	return run_bytes(z->backing.bdev) >> PAGE_SHIFT;
}

int zram_discard_set(struct zram *z)
{
	struct zram_backing *b = &z->backing;
	const char *wrong = b->discards ? zram_discard_wrong(z) : NULL;

	if (wrong) {
		pr_notice("%s: writeback_discard is 0: %s\n", z->disk->disk_name, wrong);
		WRITE_ONCE(b->discards, false);
	}
	return backed_set_run(&z->store.backed, run_of(z, b->discards));
}

int zram_discard_make_runs(struct zram *z, bool on, struct zram_runs *runs)
{
	if (down_read_killable(&z->dev_lock))
		return -EINTR;
	runs->blocks = z->store.backed.blocks;
	runs->run = runs->blocks && !z->backing.discards ? run_of(z, on) : 0;
	up_read(&z->dev_lock);
	return backed_make_runs(&runs->stale, runs->blocks, runs->run);
}

void zram_discard_drop_runs(struct zram_runs *runs)
{
	backed_drop_runs(&runs->stale);
}

bool zram_discard_turn(struct zram *z, bool on, struct zram_runs *runs)
{
	struct backed *b = &z->store.backed;

	/* Another 1 is not to have all of it discarded anew. */
	if (on == z->backing.discards)
		return true;
	if (b->blocks && (runs->blocks != b->blocks || runs->run != run_of(z, on)))
		return false;
	backed_use_runs(b, runs->run, &runs->stale);
	WRITE_ONCE(z->backing.discards, on);
	return true;
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

/*
 * The sectors that one request takes, of n: if they are not all, its end is where one begins that
 * the device can discard.
 */
static sector_t take_sectors(struct block_device *bdev, sector_t at, sector_t n)
{
	const u32 grain = bdev_discard_granularity(bdev) >> SECTOR_SHIFT;
	sector_t most = bdev_max_discard_sectors(bdev);
	u32 rest;

	if (n <= most || grain <= 1)
		return min(n, most);
	div_u64_rem(get_start_sect(bdev) + at + most, grain, &rest);
	return rest < most ? most - rest : most;
}

/*
 * Each request is here, and none comes from a reserve that all of the kernel has in common: who
 * waits for blocks that are out may be what others wait for, who have that reserve.
 */
struct requests {
	struct bio *bio[REQUESTS];      /* bios have room for any number of pages: in no array */
	atomic_t in_flight;     /* and the one who sends them */
	int err;
	struct completion over;
};

static void put_request(struct requests *r)
{
	if (atomic_dec_and_test(&r->in_flight))
		complete(&r->over);
}

static void end_request(struct bio *bio)
{
	struct requests *r = bio->bi_private;
	int err = blk_status_to_errno(bio->bi_status);

	/* A part of a device may lose them, which is no error to blkdev_issue_discard(), either. */
	if (err && err != -EOPNOTSUPP)
		WRITE_ONCE(r->err, err);
	put_request(r);
}

/* As many as go at once; moves *at. */
static int send_requests(struct block_device *bdev, sector_t *at, sector_t end)
{
	struct requests r = {
		.bio = { &(struct bio){}, &(struct bio){}, &(struct bio){}, &(struct bio){} },
		.in_flight = ATOMIC_INIT(1),
	};
	unsigned int i, n;
	sector_t take;

	static_assert(REQUESTS == 4);
	init_completion(&r.over);
	for (n = 0; n < REQUESTS && *at < end; n++, *at += take) {
		take = take_sectors(bdev, *at, end - *at);
		/* A device may lose its discards. */
		if (!take) {
			r.err = -EOPNOTSUPP;
			break;
		}
		bio_init(r.bio[n], bdev, NULL, 0, REQ_OP_DISCARD);
		r.bio[n]->bi_iter.bi_sector = *at;
		r.bio[n]->bi_iter.bi_size = take << SECTOR_SHIFT;
		r.bio[n]->bi_private = &r;
		r.bio[n]->bi_end_io = end_request;
		atomic_inc(&r.in_flight);
		submit_bio(r.bio[n]);
	}
	put_request(&r);
	wait_for_completion_io(&r.over);
	for (i = 0; i < n; i++)
		bio_uninit(r.bio[i]);
	return READ_ONCE(r.err);
}

static int discard_sectors(struct block_device *bdev, sector_t at, sector_t n)
{
	const sector_t end = at + n;
	int err = bdev_read_only(bdev) ? -EPERM : 0;

	while (!err && at < end)
		err = send_requests(bdev, &at, end);
	return err;
}

/* Blocks that go at once. */
static u64 blocks_at_once(struct block_device *bdev)
{
	return (u64)bdev_max_discard_sectors(bdev) * REQUESTS >> (PAGE_SHIFT - SECTOR_SHIFT);
}

static int discard(struct zram *z, u64 block, u64 n)
{
	const unsigned int shift = PAGE_SHIFT - SECTOR_SHIFT;
	int err = discard_sectors(z->backing.bdev, block << shift, n << shift);

	down_read(&z->check_lock);
	backed_untake(&z->store.backed, block, n);
	up_read(&z->check_lock);
	/* Who found no other block. */
	wake_up_all(&z->read_ended);
	zram_incoming_look(z);
	return err;
}

bool zram_discard(struct zram *z, u64 *at)
{
	struct backed *b = &z->store.backed;
	const u64 most = blocks_at_once(z->backing.bdev);
	u64 left = UNIT_BYTES >> PAGE_SHIFT, block, n;
	unsigned int takes = UNIT_TAKES;
	bool more = true;
	int err;

	while (more && left && takes-- && !zram_wb_stopped(z)) {
		down_read(&z->check_lock);
		more = backed_take(b, at, min(left, most), &block, &n);
		up_read(&z->check_lock);
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
