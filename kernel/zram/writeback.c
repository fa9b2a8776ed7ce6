// SPDX-License-Identifier: GPL-2.0-only
/*
 * writeback.c - the engine that writes pages to the backing device (wb.h).
 *
 *     choose: kernel/zram/tier/writeback.h marks them and counts them by size
 *     write:  largest first, as many at once as there are requests; each has a page of its own,
 *             all there before
 *     then:   what came to an end is put in its slot, by the same thread
 *
 * A page for which there is no room may wait for blocks that a writeback has in hand (incoming.c).
 * So the thread that has them waits for no thread that may have lost its CPU.  It has the nice
 * value of any thread, does not flush, and does not take dev_lock, for which it might wait for the
 * reader of a file.  It may wait for a stream, as that page may, too.
 */
#include "wb.h"

#include <linux/fs.h>
#include <linux/slab.h>

/*
 * ---- the limit ----
 *
 * `writeback_limit`: how much may be written to the backing device, whoever writes.  A page is
 * taken from the limit before it is written.  If the write fails it is given back, as in-tree does
 * it, unless the limit was off then or was set since.
 */

static bool wear_take(struct zram_wear *w, u64 *from)
{
	bool may;

	spin_lock(&w->lock);
	may = !w->limit_on || w->limit;
	*from = w->limit_on ? w->set : 0;
	if (may && w->limit_on)
		w->limit -= WB_UNITS;
	spin_unlock(&w->lock);
	return may;
}

static void wear_failed(struct zram_wear *w, u64 from)
{
	spin_lock(&w->lock);
	if (from == w->set)
		w->limit += WB_UNITS;
	spin_unlock(&w->lock);
}

/* Pages that the limit allows just now; U64_MAX: there is none. */
static u64 wear_room(struct zram_wear *w)
{
	u64 pages;

	spin_lock(&w->lock);
	pages = w->limit_on ? w->limit / WB_UNITS : U64_MAX;
	spin_unlock(&w->lock);
	return pages;
}

/* ---- a block that is written ---- */

void zram_io_init(struct zram *z, struct zram_io *io, blk_opf_t op, u64 block, struct page *page)
{
	bio_init(&io->bio, file_bdev(z->backing.file), &io->bv, 1, op);
	io->bio.bi_iter.bi_sector = block << (PAGE_SHIFT - SECTOR_SHIFT);
	__bio_add_page(&io->bio, page, PAGE_SIZE, 0);
}

static void writeback_give_back(struct zram *z, u64 block)
{
	backed_unreserve(&z->backed, block);
	zram_incoming_look(z);
}

int zram_write_reserve(struct zram *z, struct zram_write *r)
{
	int err = wear_room(&z->wear) ? store_reserve_block(&z->store, &r->block) : -EIO;

	if (err || wear_take(&z->wear, &r->from))
		return err;
	/* Another had the last of it meanwhile. */
	writeback_give_back(z, r->block);
	return -EIO;
}

/* The block last: a page without room that finds it in hand tries again. */
void zram_write_cancel(struct zram *z, struct zram_write *r)
{
	wear_failed(&z->wear, r->from);
	writeback_give_back(z, r->block);
}

void zram_write_submit(struct zram *z, struct zram_write *r, struct page *page, bio_end_io_t *end)
{
	/* Somebody waits for a page of incoming.c. */
	zram_io_init(z, &r->io, REQ_OP_WRITE | (r->of ? REQ_SYNC : 0), r->block, page);
	r->io.bio.bi_end_io = end;
	submit_bio(&r->io.bio);
}

int zram_write_ended(struct zram *z, struct zram_write *r)
{
	int err = blk_status_to_errno(r->io.bio.bi_status);

	bio_uninit(&r->io.bio);
	if (err) {
		wear_failed(&z->wear, r->from);
		backed_failed(&z->backed, r->block);
	} else {
		store_note(&z->store, CNT_BD_WRITES);
	}
	return err;
}

/* ---- requests ---- */

void zram_wb_free(struct wb_work *w)
{
	struct zram_write *r, *next;

	list_for_each_entry_safe(r, next, &w->idle, entry) {
		__free_page(r->page);
		kfree(r);
	}
	kfree(w);
}

struct wb_work *zram_wb_make(struct zram *z, unsigned int requests)
{
	struct wb_work *w = kzalloc(sizeof(*w), GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
	struct zram_write *r;

	if (!w)
		return NULL;
	w->z = z;
	INIT_LIST_HEAD(&w->idle);
	INIT_LIST_HEAD(&w->done);
	spin_lock_init(&w->lock);
	init_waitqueue_head(&w->wait);
	while (requests--) {
		r = kzalloc(sizeof(*r), GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
		if (r)
			r->page = alloc_page(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
		if (!r || !r->page) {
			kfree(r);
			break;
		}
		r->owner = w;
		list_add(&r->entry, &w->idle);
	}
	if (!list_empty(&w->idle))
		return w;
	zram_wb_free(w);
	return NULL;
}

/* The last step is to let the lock go: who finds the request then may free it all. */
static void writeback_endio(struct bio *bio)
{
	struct zram_write *r = container_of(bio, struct zram_write, io.bio);
	struct wb_work *w = r->owner;
	unsigned long flags;

	spin_lock_irqsave(&w->lock, flags);
	list_add_tail(&r->entry, &w->done);
	wake_up(&w->wait);
	spin_unlock_irqrestore(&w->lock, flags);
}

static void writeback_finish(struct wb_work *w, struct zram_write *r)
{
	struct zram *z = w->z;
	bool there;
	int err;

	w->in_flight--;
	down_read(&z->check_lock);
	err = zram_write_ended(z, r);
	there = !err && store_to_backed(&z->store, r->slot, r->block);
	if (err)
		w->err = err;
	else if (!there)
		/* Somebody read or wrote the slot meanwhile, so the page stays here. */
		backed_unreserve(&z->backed, r->block);
	if (!there)
		store_unchoose(&z->store, r->slot);
	zram_incoming_look(z);
	up_read(&z->check_lock);
	list_add(&r->entry, &w->idle);
}

/* Waits for one request at least; those that are done are put in their slots. */
static void writeback_reap(struct wb_work *w)
{
	struct list_head *done;

	wait_event(w->wait, !list_empty_careful(&w->done));
	while ((done = zram_take_first(&w->lock, &w->done)))
		writeback_finish(w, list_entry(done, struct zram_write, entry));
}

/* ---- writing ---- */

/*
 * Has r write a slot that was chosen.  -ENOENT: it no longer is; -EBUSY: all blocks that are left
 * are being read; -EIO, -ENOSPC: the end.
 */
static int writeback_fill(struct wb_work *w, struct zram_write *r, u64 slot)
{
	struct zram *z = w->z;
	int err = zram_write_reserve(z, r);

	if (err)
		return err;
	r->slot = slot;
	if (!store_copy_out(&z->store, slot, page_address(r->page), z->backing.packed))
		return 0;
	zram_write_cancel(z, r);
	store_unchoose(&z->store, slot);
	return -ENOENT;
}

static int begin_writes(struct wb_work *w, int smallest, int largest)
{
	struct zram *z = w->z;
	struct zram_write *r;
	bool found;
	u64 at = 0;
	int err;

	while (at < z->store.slots) {
		err = READ_ONCE(w->stop) ? -EINTR : zram_wb_stopped(z);
		if (err)
			return err;
		if (list_empty(&w->idle))
			writeback_reap(w);
		r = list_first_entry(&w->idle, struct zram_write, entry);
		if (down_read_killable(&z->check_lock))
			return -EINTR;
		found = store_next_chosen(&z->store, &at, smallest, largest);
		err = found ? writeback_fill(w, r, at) : 0;
		up_read(&z->check_lock);
		/* Blocks in flight may come back, and reads of blocks that no slot has end. */
		if (err == -EBUSY || (err == -ENOSPC && w->in_flight)) {
			if (w->in_flight)
				writeback_reap(w);
			else
				schedule_timeout_killable(1);
			continue;
		}
		if (err && err != -ENOENT)
			return err;
		if (found && !err) {
			list_del(&r->entry);
			w->in_flight++;
			zram_write_submit(z, r, r->page, writeback_endio);
		}
		at += found;
		cond_resched();
	}
	return 0;
}

/*
 * Begins to write those of some sizes.  Blocks are mostly taken in order, so what is held back
 * until this thread waits becomes few requests of the device.
 */
static int writeback_pass(struct wb_work *w, int smallest, int largest)
{
	struct blk_plug plug;
	int err;

	blk_start_plug(&plug);
	err = begin_writes(w, smallest, largest);
	blk_finish_plug(&plug);
	return err;
}

/* Pages that the device and the limit have room for. */
static u64 writeback_room(struct zram *z)
{
	const struct backed *b = &z->backed;

	return min(READ_ONCE(b->nfree) + READ_ONCE(b->nlate), wear_room(&z->wear));
}

/* The largest first, as far as there is room for all of a size: then their order is no matter. */
int zram_wb_write(struct wb_work *w)
{
	int top = CHOOSE_SIZES - 1, smallest, err = 0;

	if (down_read_killable(&w->z->check_lock))
		return -EINTR;
	store_collect_blocks(&w->z->store);
	up_read(&w->z->check_lock);
	while (!err) {
		smallest = chosen_down_to(&w->chosen, top, writeback_room(w->z));
		if (smallest < 0)
			break;
		err = writeback_pass(w, smallest, top);
		top = smallest - 1;
	}
	while (w->in_flight)
		writeback_reap(w);
	return w->err ?: err;
}

/* ---- choosing ---- */

/* What an earlier writeback left chosen is nobody's choice any more. */
static int writeback_unchoose(struct zram *z)
{
	int err;

	while (z->backing.left_chosen) {
		err = zram_wb_lock_piece(z);
		if (err)
			return err;
		z->backing.left_chosen = store_unchoose_piece(&z->store, &z->backing.unchosen);
		up_read(&z->check_lock);
		cond_resched();
	}
	return 0;
}

void zram_wb_unchoose(struct zram *z)
{
	z->backing.left_chosen = true;
	z->backing.unchosen = 0;
	writeback_unchoose(z);
}

int zram_wb_choose(struct wb_work *w, u64 from, u64 end, unsigned int want)
{
	struct zram *z = w->z;
	int err = writeback_unchoose(z);
	bool more = true;

	if (err)
		return err;
	while (more) {
		err = zram_wb_lock_piece(z);
		if (err)
			return err;
		more = store_choose_piece(&z->store, &from, end, want, &w->chosen);
		up_read(&z->check_lock);
		cond_resched();
	}
	return 0;
}
