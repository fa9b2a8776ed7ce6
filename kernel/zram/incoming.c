// SPDX-License-Identifier: GPL-2.0-only
/*
 * incoming.c - pages for which there is no room: they go to the backing device themselves, if
 * writeback_auto says so.
 *
 *     submit_bio() --no room--> handed --one work a device--> the store, if it has room by now
 *          |                      |                           a block: written, then in the slot
 *          |                      |                           neither, and no write or read under
 *          |                      |                           way that may change it: the error
 *     waits while HANDED are,     +-- a page, whose writer waits for it:
 *     as for any slow device          where others may write parts of it (blkdev.c)
 *
 * A bio that is submitted while another is being submitted is only begun when that one is done.  So
 * it is the work that submits, and it never waits for the device: what ends a write queues it anew.
 * Each device has a queue of its own, since one may be the backing device of another.
 *
 * A page that finds no block waits for those that others are writing.  These threads have the
 * priority of any other as long as they have a block (writeback.c).
 *
 * Reclaim may be waiting for the work.  So the work waits for no memory: its requests are made
 * before.  For a page of a thread that reclaims, the store may use the kernel's reserve; for the
 * pages of others, only what is there at once.
 */
#include "zram.h"

#include <linux/completion.h>
#include <linux/highmem.h>
#include <linux/sched/mm.h>
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "wb.h"

#define REQUESTS 32u            /* pages that are written at once */
#define HANDED 64u              /* bios that wait for that, or for their end */
#define AGAIN_DELAY usecs_to_jiffies(RELEASE_TIMER_US)

/* What is to be written: the rest of a bio, whole pages in memory pages, or one page. */
struct handed {
	struct list_head entry;         /* in->handed, or of none */
	struct bio *bio;                /* NULL: one page, whose writer waits for done */
	struct bvec_iter iter;          /* what is left of the bio */
	u64 slot;                       /* of one page */
	struct page *page;              /* NULL: it is begun */
	struct completion done;
	unsigned int pending;           /* requests of it that are in flight */
	u64 full;                       /* pages of the pool when there was no room; 0: not tried */
	unsigned int how;               /* memory is had for it: HOST_RECLAIMS, or 0 */
	int err;
};

struct zram_incoming {
	struct zram *z;
	struct workqueue_struct *queue;
	struct delayed_work work;       /* at once, but for what is held (AGAIN_DELAY) */
	bool held;                      /* what was freed may be in others' hands; the work's */
	struct list_head idle;          /* requests; the work's */
	struct semaphore room;          /* for who hands a bio over: those of unused */
	bool waits;                     /* for zram_incoming_look() */

	spinlock_t lock;                /* what follows; taken in interrupts */
	struct list_head unused;        /* of handed_bio[] */
	struct list_head handed;        /* struct handed, of which something is to be begun */
	struct list_head done;          /* requests that came to an end */

	struct zram_write *request;             /* REQUESTS of them */
	struct handed handed_bio[HANDED];
};

/* ---- what is handed over ---- */

static void incoming_hand_over(struct zram_incoming *in, struct handed *h)
{
	h->full = pool_pages(&in->z->store.pool);
	h->how = current->flags & PF_MEMALLOC ? HOST_RECLAIMS : 0;
	spin_lock_irq(&in->lock);
	list_add_tail(&h->entry, &in->handed);
	spin_unlock_irq(&in->lock);
	mod_delayed_work(in->queue, &in->work, 0);
}

void zram_incoming_bio(struct zram *z, struct bio *bio, const struct bvec_iter *rest)
{
	struct zram_incoming *in = z->incoming;
	struct handed *h;

	down(&in->room);
	h = list_entry(zram_take_first(&in->lock, &in->unused), struct handed, entry);
	*h = (struct handed){ .bio = bio, .iter = *rest };
	bio_inc_remaining(bio);
	incoming_hand_over(in, h);
}

int zram_incoming_page(struct zram *z, u64 slot, struct page *page)
{
	struct handed h = { .slot = slot, .page = page };

	init_completion(&h.done);
	incoming_hand_over(z->incoming, &h);
	wait_for_completion(&h.done);
	return h.err;
}

static bool is_begun(const struct handed *h)
{
	return h->err || (h->bio ? !h->iter.bi_size : !h->page);
}

/*
 * After the bio has ended, or the writer goes on, the store may go; in stays, as long as the work.
 */
static void incoming_end(struct zram_incoming *in, struct handed *h)
{
	struct bio *bio = h->bio;

	if (h->err)
		store_note(&in->z->store, CNT_FAILED_WRITE);
	zram_note_written(in->z);
	if (!bio) {
		complete(&h->done);
		return;
	}
	if (h->err)
		bio->bi_status = BLK_STS_IOERR;
	spin_lock_irq(&in->lock);
	list_add(&h->entry, &in->unused);
	spin_unlock_irq(&in->lock);
	up(&in->room);
	bio_endio(bio);
}

/* ---- requests ---- */

/* An interrupt's context.  The work may only end when the lock is let go. */
static void incoming_endio(struct bio *bio)
{
	struct zram_write *r = container_of(bio, struct zram_write, io.bio);
	struct zram_incoming *in = r->owner;
	unsigned long flags;

	spin_lock_irqsave(&in->lock, flags);
	list_add_tail(&r->entry, &in->done);
	mod_delayed_work(in->queue, &in->work, 0);
	spin_unlock_irqrestore(&in->lock, flags);
}

static void incoming_finish(struct zram_incoming *in, struct zram_write *r)
{
	struct zram *z = in->z;
	struct handed *h = r->of;

	if (zram_write_ended(z, r)) {
		pr_err_ratelimited("%s: block %llu cannot be written\n", z->disk->disk_name, r->block);
		h->err = -EIO;
	} else {
		store_put_backed(&z->store, r->slot, r->block);
		zram_touch(z, r->slot);
	}
	list_add(&r->entry, &in->idle);
	if (!--h->pending && list_empty(&h->entry))
		incoming_end(in, h);
}

/*
 * Has a page written for slot.  -EBUSY: all blocks that no slot has are being read; another error:
 * there is no block for it, or no more may be written.
 */
static int incoming_begin(struct zram_incoming *in, struct handed *h, u64 slot, struct page *page)
{
	struct zram_write *r = list_first_entry(&in->idle, struct zram_write, entry);
	int err = store_need_slot(&in->z->store, slot, page_to_nid(page));

	if (!err)
		err = zram_write_reserve(in->z, r);
	if (err)
		return err;
	list_del(&r->entry);
	r->of = h;
	r->slot = slot;
	h->pending++;
	zram_write_submit(in->z, r, page, incoming_endio);
	return 0;
}

/* ---- the work ---- */

/* The next page of h. */
static struct page *next_page(const struct handed *h, u64 *slot)
{
	if (!h->bio) {
		*slot = h->slot;
		return h->page;
	}
	*slot = h->iter.bi_sector >> (PAGE_SHIFT - SECTOR_SHIFT);
	return bio_iter_iovec(h->bio, h->iter).bv_page;
}

/* Which is no more to be begun. */
static void pass_next(struct handed *h)
{
	h->page = NULL;
	if (h->bio)
		bio_advance_iter_single(h->bio, &h->iter, PAGE_SIZE);
}

/* Asks the store once more, if it may have shrunk, or was not asked for this page yet. */
static int try_store(struct zram_incoming *in, struct handed *h, u64 slot, struct page *page)
{
	struct store *s = &in->z->store;
	void *mem;
	int err;

	if (h->full && pool_pages(&s->pool) >= h->full)
		return -ENOMEM;
	mem = kmap_local_page(page);
	err = store_try_now(s, slot, mem, page_to_nid(page), h->how);
	kunmap_local(mem);
	if (!err)
		zram_touch(in->z, slot);
	else if (err == -EIO)
		pr_err_ratelimited("%s: page %llu cannot be compressed\n",
				   in->z->disk->disk_name, slot);
	return err;
}

/*
 * -EBUSY: there is neither room nor a block, but there may be soon.  Somebody has blocks in hand,
 * or had some meanwhile, and puts them in the place of pages or of other blocks; or somebody reads
 * blocks that no slot has, or is freeing what was held back.  Before this asks the store again it
 * frees all that is held back and that nobody else has.
 */
static int try_next(struct zram_incoming *in, struct handed *h)
{
	struct release *r = &in->z->store.release;
	struct backed *b = &in->z->backed;
	u64 reserved = READ_ONCE(b->reserved), slot;
	bool in_hand = host_a64_read_acquire(&b->in_hand);
	struct page *page = next_page(h, &slot);
	int err = try_store(in, h, slot, page), begun;

	h->full = 0;
	if (store_no_room(err)) {
		begun = incoming_begin(in, h, slot, page);
		if (!begun)
			return 0;
		/* What died in units is room, too. */
		if (in->z->units.pages)
			units_tidy(&in->z->store);
		in->held |= !release_help_all(r);
		err = try_store(in, h, slot, page);
		if (begun == -EBUSY && store_no_room(err))
			return -EBUSY;
	}
	if (store_no_room(err) && (in->held || in_hand || READ_ONCE(b->reserved) != reserved))
		return -EBUSY;
	return err;
}

/* False: it is to be tried when the work is queued again. */
static bool begin_next(struct zram_incoming *in, struct handed *h)
{
	int err = try_next(in, h);

	/* Who lets a block go did so before the second try, or sees that we wait for it. */
	if (err == -EBUSY || store_no_room(err)) {
		smp_store_mb(in->waits, true);
		in->held = false;
		err = try_next(in, h);
		if (err == -EBUSY) {
			/* Who is freeing what was held back does not call zram_incoming_look(). */
			if (in->held)
				queue_delayed_work(in->queue, &in->work, AGAIN_DELAY);
			return false;
		}
		WRITE_ONCE(in->waits, false);
	}
	pass_next(h);
	if (err)
		h->err = err;
	return true;
}

/*
 * The first that was handed over and has a page to be begun; NULL: there is none.  Those before it
 * leave the list, and end unless something of them is in flight.
 */
static struct handed *next_handed(struct zram_incoming *in)
{
	struct handed *h;

	for (;;) {
		spin_lock_irq(&in->lock);
		h = list_first_entry_or_null(&in->handed, struct handed, entry);
		if (h && is_begun(h))
			list_del_init(&h->entry);
		spin_unlock_irq(&in->lock);
		if (!h || !is_begun(h))
			return h;
		if (!h->pending)
			incoming_end(in, h);
	}
}

static void incoming_work(struct work_struct *w)
{
	struct zram_incoming *in = container_of(w, struct zram_incoming, work.work);
	unsigned int noreclaim = memalloc_noreclaim_save(), noio = memalloc_noio_save();
	struct list_head *done;
	struct handed *h;

	WRITE_ONCE(in->waits, false);
	for (;;) {
		done = zram_take_first(&in->lock, &in->done);
		h = done ? NULL : next_handed(in);
		if (done)
			incoming_finish(in, list_entry(done, struct zram_write, entry));
		else if (!h || list_empty(&in->idle) || !begin_next(in, h))
			break;
		cond_resched();
	}
	memalloc_noio_restore(noio);
	memalloc_noreclaim_restore(noreclaim);
}

void zram_incoming_look(struct zram *z)
{
	struct zram_incoming *in = z->incoming;

	/* What is looked for comes before the look. */
	smp_mb();
	if (in && READ_ONCE(in->waits))
		mod_delayed_work(in->queue, &in->work, 0);
}

/* ---- its life ---- */

static void incoming_free(struct zram_incoming *in)
{
	if (in->queue)
		destroy_workqueue(in->queue);
	kvfree(in->request);
	kvfree(in);
}

int zram_incoming_start(struct zram *z)
{
	struct zram_incoming *in;
	unsigned int i;

	if (!z->backing.blocks)
		return 0;
	in = kvzalloc(sizeof(*in), GFP_KERNEL);
	if (!in)
		return -ENOMEM;
	in->queue = alloc_workqueue("%s_in", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 1,
				    z->disk->disk_name);
	in->request = kvcalloc(REQUESTS, sizeof(*in->request), GFP_KERNEL);
	if (!in->queue || !in->request) {
		incoming_free(in);
		return -ENOMEM;
	}
	in->z = z;
	INIT_DELAYED_WORK(&in->work, incoming_work);
	spin_lock_init(&in->lock);
	sema_init(&in->room, HANDED);
	INIT_LIST_HEAD(&in->idle);
	INIT_LIST_HEAD(&in->unused);
	INIT_LIST_HEAD(&in->handed);
	INIT_LIST_HEAD(&in->done);
	for (i = 0; i < REQUESTS; i++) {
		in->request[i].owner = in;
		list_add_tail(&in->request[i].entry, &in->idle);
	}
	for (i = 0; i < HANDED; i++)
		list_add_tail(&in->handed_bio[i].entry, &in->unused);
	z->incoming = in;
	return 0;
}

void zram_incoming_stop(struct zram *z)
{
	struct zram_incoming *in = z->incoming;

	if (!in)
		return;
	/* All that was handed over has ended, so the work has nothing to do. */
	cancel_delayed_work_sync(&in->work);
	incoming_free(in);
	z->incoming = NULL;
}
