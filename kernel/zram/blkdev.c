// SPDX-License-Identifier: GPL-2.0-only
/*
 * blkdev.c - bios in, pages to and from the store.
 *
 *     bio: | segment | segment |  segment  | ...     pieces of memory pages, any lengths
 *     disk:    | page | page | page | ...            a slot each
 *
 * Where a segment is a whole page for a whole slot, the store works on it in place.  Anything
 * else goes through a bounce page, gathered or scattered; a write of less than a page reads the
 * rest of the slot first.  Bounce pages come from a reserve, so they never fail.  Each device has
 * reserves of its own, since a bounce page is held while the backing device is read, which may take
 * for ever.  One of the two is for reads alone: a write that finds no room keeps its bounce page
 * until a read lets a block go, and that read may want a bounce page for the rest of its bio.
 *
 * Slots are written whole, so on pages larger than a block two writers of different blocks of
 * one page would lose one of them: there, every writer of a slot takes a mutex of the device,
 * hashed from its number.  With 4 KiB pages a slot is a block, and nobody does.
 */
#include "zram.h"

#include <linux/bio.h>
#include <linux/hash.h>
#include <linux/highmem.h>
#include <linux/kasan.h>
#include <linux/mempool.h>
#include <linux/sched/mm.h>

#define SLOT_SECTORS_SHIFT (PAGE_SHIFT - SECTOR_SHIFT)
#define BOUNCE_PAGES 4          /* in each reserve */
#define HANDED_OVER 1           /* of a write: the rest of the bio is others' (incoming.c) */

/* A slot, or a part of one, that a bio reaches. */
struct piece {
	u64 slot;
	u32 off, len;           /* in the page */
};

static struct piece next_piece(const struct bvec_iter *iter)
{
	struct piece p = {
		.slot = iter->bi_sector >> SLOT_SECTORS_SHIFT,
		.off = (u32)(iter->bi_sector << SECTOR_SHIFT) & ~PAGE_MASK,
	};

	p.len = min_t(u32, iter->bi_size, PAGE_SIZE - p.off);
	return p;
}

static struct mutex *lock_slot(struct zram *z, u64 slot)
{
	struct mutex *m;

	if (!ZRAM_PARTIAL_BITS)
		return NULL;
	m = &z->partial_write[hash_64(slot, ZRAM_PARTIAL_BITS)];
	mutex_lock(m);
	return m;
}

static void unlock_slot(struct mutex *m)
{
	if (m)
		mutex_unlock(m);
}

/* Copies len bytes between buf and the bio's memory at iter, which moves on. */
static void copy_segments(struct bio *bio, struct bvec_iter *iter, char *buf, u32 len, bool to_bio)
{
	sector_t end = iter->bi_sector + (len >> SECTOR_SHIFT);

	while (len) {
		struct bio_vec bv = bio_iter_iovec(bio, *iter);

		bv.bv_len = min(bv.bv_len, len);
		if (to_bio)
			memcpy_to_bvec(&bv, buf);
		else
			memcpy_from_bvec(buf, &bv);
		bio_advance_iter_single(bio, iter, bv.bv_len);
		buf += bv.bv_len;
		len -= bv.bv_len;
	}
	/* A segment may end within a sector; the steps have lost what is left of it. */
	iter->bi_sector = end;
}

/* Whether the segment at iter is a page for the whole of p. */
static bool in_place(struct bio *bio, const struct bvec_iter *iter, const struct piece *p)
{
	return p->len == PAGE_SIZE && bio_iter_iovec(bio, *iter).bv_len == PAGE_SIZE;
}

/* Into a page of ours, at once, wherever it is; an error of the backing device counts as failed. */
static int read_slot(struct zram *z, u64 slot, struct page *page, enum store_counter failed)
{
	int err = store_read(&z->store, slot, page_address(page));

	if (ZRAM_HAS(WRITEBACK) && unlikely(err == STORE_BACKED))
		err = zram_backing_read_wait(z, slot, page, failed);
	return err;
}

static int read_piece(struct zram *z, struct bio *bio, struct bvec_iter *iter,
		      const struct piece *p)
{
	struct page *bounce;
	int err;

	if (likely(in_place(bio, iter, p))) {
		struct page *page = bio_iter_iovec(bio, *iter).bv_page;
		void *mem = kmap_local_page(page);

		err = store_read(&z->store, p->slot, mem);
		kunmap_local(mem);
		flush_dcache_page(page);
		if (ZRAM_HAS(WRITEBACK) && unlikely(err == STORE_BACKED))
			err = zram_backing_read(z, p->slot, page, bio);
		bio_advance_iter_single(bio, iter, PAGE_SIZE);
		return err;
	}
	bounce = mempool_alloc(z->read_bounces, GFP_NOIO);
	err = read_slot(z, p->slot, bounce, CNT_FAILED_READ);
	if (!err)
		copy_segments(bio, iter, page_address(bounce) + p->off, p->len, true);
	mempool_free(bounce, z->read_bounces);
	return err;
}

/* Whether all that is left of a bio is whole pages for whole slots. */
static bool rest_in_place(struct bio *bio, struct bvec_iter iter)
{
	while (iter.bi_size) {
		struct piece p = next_piece(&iter);

		if (!in_place(bio, &iter, &p))
			return false;
		bio_advance_iter_single(bio, &iter, PAGE_SIZE);
	}
	return true;
}

/*
 * A page for which the store has no room.  Where parts of pages are written the slot is locked, and
 * the writer waits.  bio: NULL, or the page is the next one in it.
 */
static int write_elsewhere(struct zram *z, u64 slot, struct page *page, struct bio *bio,
			   const struct bvec_iter *iter)
{
	if (ZRAM_PARTIAL_BITS || !bio || !rest_in_place(bio, *iter))
		return zram_incoming_page(z, slot, page);
	zram_incoming_bio(z, bio, iter);
	return HANDED_OVER;
}

static int blkdev_write_page(struct zram *z, u64 slot, struct page *page, struct bio *bio,
			     const struct bvec_iter *iter)
{
	void *mem = kmap_local_page(page);
	int err, node = page_to_nid(page);
	/* Asked once: who tries less for it may not find it gone then. */
	bool elsewhere = zram_incoming_on(z);

	/* Who has another place for the page does not wait for those who free. */
	if (elsewhere)
		err = store_try_now(&z->store, slot, mem, node, HOST_MAY_WAIT);
	else
		err = store_try_write(&z->store, slot, mem, node);
	kunmap_local(mem);
	if (elsewhere && store_no_room(err))
		return write_elsewhere(z, slot, page, bio, iter);
	if (unlikely(err) && err != -ERANGE)
		store_note(&z->store, CNT_FAILED_WRITE);
	return err;
}

/* bio: NULL, and then iter, too: zeros to a part of a page. */
static int write_piece(struct zram *z, struct bio *bio, struct bvec_iter *iter,
		       const struct piece *p)
{
	struct mutex *m = lock_slot(z, p->slot);
	struct page *bounce;
	int err = 0;

	if (likely(in_place(bio, iter, p))) {
		err = blkdev_write_page(z, p->slot, bio_iter_iovec(bio, *iter).bv_page, bio, iter);
		bio_advance_iter_single(bio, iter, PAGE_SIZE);
	} else {
		bounce = mempool_alloc(z->write_bounces, GFP_NOIO);
		if (p->len < PAGE_SIZE)
			err = read_slot(z, p->slot, bounce, CNT_FAILED_WRITE);
		if (!err) {
			if (bio)
				copy_segments(bio, iter, page_address(bounce) + p->off, p->len,
					      false);
			else
				memset(page_address(bounce) + p->off, 0, p->len);
			err = blkdev_write_page(z, p->slot, bounce, NULL, NULL);
		}
		mempool_free(bounce, z->write_bounces);
	}
	unlock_slot(m);
	return err;
}

/* The bytes of a bio from an iter on, for unit_make(). */
struct gather {
	struct bio *bio;
	struct bvec_iter iter;
	u32 bytes;
};

static void gather_unit(void *arg, void *to)
{
	struct gather *g = arg;
	struct bvec_iter iter = g->iter;

	copy_segments(g->bio, &iter, to, g->bytes, false);
}

/* Whether a unit begins with p.  In line: where there are none nothing of them is compiled. */
static __always_inline bool at_unit(const struct zram *z, const struct piece *p)
{
	unsigned int pages = zram_unit_pages(z);

	return pages && !p->off && !(p->slot & (pages - 1));
}

/*
 * Writes the unit that begins at iter with slot; iter moves past it.  False: what is left of the
 * bio does not cover one, or its pages are to be written one by one.
 */
static bool write_unit(struct zram *z, struct bio *bio, struct bvec_iter *iter, u64 slot)
{
	struct gather g = { bio, *iter, z->units.pages << PAGE_SHIFT };
	unsigned int k;
	u64 word;

	if (iter->bi_size < g.bytes ||
	    unit_make(&z->store, slot, gather_unit, &g,
		      page_to_nid(bio_iter_iovec(bio, *iter).bv_page),
		      zram_incoming_on(z) ? 0 : HOST_MAY_WAIT, &word))
		return false;
	for (k = 0; k < z->units.pages; k++) {
		struct mutex *m = lock_slot(z, slot + k);

		unit_put(&z->store, slot + k, word);
		unlock_slot(m);
		zram_touch(z, slot + k);
	}
	bio_advance_iter(bio, iter, g.bytes);
	return true;
}

/*
 * Reads it, straight to memory that is in a row, as a large folio's is.  False: what is left of the
 * bio is to be read page by page.
 */
static bool read_unit(struct zram *z, struct bio *bio, struct bvec_iter *iter, u64 slot)
{
	struct bio_vec bv = mp_bvec_iter_bvec(bio->bi_io_vec, *iter);
	u32 bytes = z->units.pages << PAGE_SHIFT, at;
	char *to;

	if (bv.bv_len < bytes || bv.bv_offset & ~PAGE_MASK)
		return false;
	/* Pages of a segment may have other tags than its first. */
	to = (char *)kasan_reset_tag(page_address(bv.bv_page)) + bv.bv_offset;
	if (!unit_read_whole(&z->store, slot, to))
		return false;
	for (at = 0; at < bytes; at += PAGE_SIZE) {
		flush_dcache_page(virt_to_page(to + at));
		zram_touch(z, slot + (at >> PAGE_SHIFT));
	}
	bio_advance_iter(bio, iter, bytes);
	return true;
}

static void read_write(struct zram *z, struct bio *bio, bool write)
{
	unsigned long start = bio_start_io_acct(bio);
	struct bvec_iter iter = bio->bi_iter;
	unsigned int noio = 0;
	int err = 0;

	/* The store allocates: not by writing to a disk, which may be this one. */
	if (write)
		noio = memalloc_noio_save();
	while (iter.bi_size && !err) {
		struct piece p = next_piece(&iter);

		if (at_unit(z, &p) && (write ? write_unit(z, bio, &iter, p.slot) :
					       read_unit(z, bio, &iter, p.slot)))
			continue;
		err = write ? write_piece(z, bio, &iter, &p) : read_piece(z, bio, &iter, &p);
		if (likely(!err))
			zram_touch(z, p.slot);
		if (unlikely(err == -EIO))
			pr_err_ratelimited("%s: page %llu cannot be %s\n", z->disk->disk_name, p.slot,
					   write ? "compressed" : "decompressed");
		if (unlikely(err == -ENOSPC))
			pr_err_ratelimited("%s: page %llu finds 4 TiB or 2^32 objects of its size\n",
					   z->disk->disk_name, p.slot);
	}
	if (write) {
		memalloc_noio_restore(noio);
		zram_note_written(z);
	}
	if (err < 0)
		bio->bi_status = BLK_STS_IOERR;
	bio_end_io_acct(bio, start);
}

/*
 * Whole pages are freed, and read as zeros from then on.  Of a part of one, a discard may do as
 * it likes, and leaves it: rewriting the page would take memory where some was to be freed.
 */
static void blkdev_discard(struct zram *z, struct bio *bio, bool zero)
{
	struct bvec_iter iter = bio->bi_iter;
	unsigned int noio = memalloc_noio_save();
	int err = 0;

	while (iter.bi_size && !err) {
		struct piece p = next_piece(&iter);

		if (p.len == PAGE_SIZE) {
			struct mutex *m = lock_slot(z, p.slot);

			err = store_free(&z->store, p.slot);
			unlock_slot(m);
		} else if (zero) {
			err = write_piece(z, NULL, NULL, &p);
			if (!err)
				zram_touch(z, p.slot);
		}
		iter.bi_sector += p.len >> SECTOR_SHIFT;
		iter.bi_size -= p.len;
		if (p.slot % STORE_PIECE == STORE_PIECE - 1)
			cond_resched();
	}
	memalloc_noio_restore(noio);
	zram_note_freed(z);
	if (err)
		bio->bi_status = BLK_STS_IOERR;
}

static void zram_submit_bio(struct bio *bio)
{
	const struct bvec_iter *iter = &bio->bi_iter;
	struct zram *z = bio->bi_bdev->bd_disk->private_data;

	if (unlikely((iter->bi_sector << SECTOR_SHIFT | iter->bi_size) & (ZRAM_BLOCK - 1))) {
		/* The block layer asks for whole blocks of all but the kernel's own users. */
		pr_err_ratelimited("%s: %u bytes at sector %llu are not blocks of %d\n",
				   z->disk->disk_name, iter->bi_size, (u64)iter->bi_sector,
				   ZRAM_BLOCK);
		bio->bi_status = BLK_STS_IOERR;
		goto out;
	}
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		read_write(z, bio, false);
		break;
	case REQ_OP_WRITE:
		read_write(z, bio, true);
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		blkdev_discard(z, bio, bio_op(bio) == REQ_OP_WRITE_ZEROES);
		break;
	default:
		bio->bi_status = BLK_STS_NOTSUPP;
	}
out:
	bio_endio(bio);
}

/*
 * Swap calls this for each slot it no longer needs, with a cluster's spin lock held.  Swap has
 * the device open, so the store is there (zram.h); store_free() waits for nobody.
 */
static void zram_slot_free_notify(struct block_device *bdev, unsigned long index)
{
	struct zram *z = bdev->bd_disk->private_data;

	store_free(&z->store, index);
	zram_note_freed(z);
}

static int zram_open(struct gendisk *disk, blk_mode_t mode)
{
	struct zram *z = disk->private_data;

	return z->claim ? -EBUSY : 0;
}

const struct block_device_operations zram_devops = {
	.owner = THIS_MODULE,
	.open = zram_open,
	.submit_bio = zram_submit_bio,
	.swap_slot_free_notify = zram_slot_free_notify,
};

int zram_blkdev_make(struct zram *z)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(z->partial_write); i++)
		mutex_init(&z->partial_write[i]);
	z->read_bounces = mempool_create_page_pool(BOUNCE_PAGES, 0);
	z->write_bounces = mempool_create_page_pool(BOUNCE_PAGES, 0);
	return z->read_bounces && z->write_bounces ? 0 : -ENOMEM;
}

void zram_blkdev_drop(struct zram *z)
{
	mempool_destroy(z->write_bounces);
	mempool_destroy(z->read_bounces);
}
