// SPDX-License-Identifier: GPL-2.0-only
/*
 * backing.c - the backing device as it is read.
 *
 *     read of a slot that is on it      how
 *     a whole page, kept as a page      one more bio, into the reader's own page, which ends his
 *     a whole page, kept compressed     a bio into a page of ours, which a work decompresses
 *     both, when memory is short        a work does all of it
 *     a part of a page                  the same, and the reader waits for the work
 *
 * A bio that is submitted while another is being submitted is only begun when that one is done, so
 * nobody waits for I/O here but a work.  What ends a read runs in an interrupt, and does no more
 * there than to count.
 *
 * Each backing device has a reserve of its own for reads that find no memory.  So a disk that hangs
 * makes no other's reads wait, and one zram may be the backing device of another.
 */
#include "zram.h"

#include <linux/highmem.h>
#include <linux/mempool.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "wb.h"

/* What is there when there is no memory: works, and pages for them. */
#define WORKS 16
#define PAGES 4
/* Of the reader's bio, what goes for the device's, too. */
#define PASSED_ON (REQ_SYNC | REQ_META | REQ_PRIO)

struct backing_read {
	struct work_struct work;
	struct zram *z;
	struct bio *parent;     /* NULL: somebody waits for the work */
	struct page *page;
	struct page *packed;    /* what was read before the work; NULL: the work reads */
	enum store_counter failed;      /* for who waits: what an error of the device counts as */
	u64 word;
	int err;
	struct zram_io io;      /* into packed, or else into page */
};

/* ---- reading ---- */

/*
 * Waits for the device, so it is not called from within submit_bio().  As in-tree does, it counts
 * an error only where somebody waits for the read: another reader's bio ends with the error.
 */
static int read_block(const struct backing_read *r, struct page *page)
{
	struct zram_io io;
	int err;

	zram_io_init(r->z, &io, REQ_OP_READ | REQ_SYNC, slot_block(r->word), page);
	err = submit_bio_wait(&io.bio);
	bio_uninit(&io.bio);
	if (err && !r->parent)
		store_note(&r->z->store, r->failed);
	return err;
}

static int backing_unpack(struct zram *z, u64 word, struct page *packed, struct page *page)
{
	void *mem = kmap_local_page(page);
	int err = store_unpack_backed(&z->store, word, page_address(packed), mem);

	kunmap_local(mem);
	flush_dcache_page(page);
	return err;
}

/* It has one page of the reserve at most, so who waits for a page waits for one read. */
static int read_packed(const struct backing_read *r)
{
	mempool_t *pages = r->z->backing.reads->pages;
	struct page *packed = mempool_alloc(pages, GFP_NOIO);
	int err = read_block(r, packed);

	if (!err)
		err = backing_unpack(r->z, r->word, packed, r->page);
	mempool_free(packed, pages);
	return err;
}

/* Any context.  After the parent has ended the device may go. */
static void backing_read_ended(struct backing_read *r)
{
	struct bio *parent = r->parent;

	if (r->err)
		pr_err_ratelimited("%s: block %llu cannot be read or decompressed\n",
				   r->z->disk->disk_name, slot_block(r->word));
	store_backed_end(&r->z->store, r->word);
	zram_incoming_look(r->z);
	if (r->packed)
		__free_page(r->packed);
	if (parent) {
		if (r->err && !READ_ONCE(parent->bi_status))
			WRITE_ONCE(parent->bi_status, errno_to_blk_status(r->err));
		/* It may not be of the reserve: then this is kfree(), or the reserve has it now. */
		mempool_free(r, r->z->backing.reads->works);
		bio_endio(parent);
	}
}

static void backing_read_work(struct work_struct *work)
{
	struct backing_read *r = container_of(work, struct backing_read, work);
	unsigned int noio = memalloc_noio_save();

	if (!r->packed)
		r->err = r->z->backing.packed ? read_packed(r) : read_block(r, r->page);
	else if (!r->err)
		r->err = backing_unpack(r->z, r->word, r->packed, r->page);
	backing_read_ended(r);
	memalloc_noio_restore(noio);
}

/* An interrupt's context. */
static void backing_read_endio(struct bio *bio)
{
	struct backing_read *r = container_of(bio, struct backing_read, io.bio);

	r->err = blk_status_to_errno(bio->bi_status);
	bio_uninit(bio);
	if (r->packed)
		queue_work(r->z->backing.reads->queue, &r->work);
	else
		backing_read_ended(r);
}

/*
 * Reads before there is a work, so that no work sleeps for a page; what is not packed needs none.
 * Not into the reserve of pages: works wait for those.  False: there is no memory at once.
 */
static bool read_ahead_of_work(struct backing_read *r)
{
	if (r->z->backing.packed) {
		r->packed = alloc_page(GFP_NOWAIT | __GFP_NOWARN);
		if (!r->packed)
			return false;
	}
	zram_io_init(r->z, &r->io, REQ_OP_READ | (r->parent->bi_opf & PASSED_ON),
		     slot_block(r->word), r->packed ?: r->page);
	r->io.bio.bi_end_io = backing_read_endio;
	submit_bio(&r->io.bio);
	return true;
}

/* A slot that was on the device may be here by now, and the other way round. */
static int backing_begin(struct zram *z, u64 slot, struct page *page, u64 *word)
{
	while (!store_backed_begin(&z->store, slot, word)) {
		void *mem = kmap_local_page(page);
		int err = store_read(&z->store, slot, mem);

		/* A block that was read for a moment may be what a page waits for. */
		zram_incoming_look(z);
		kunmap_local(mem);
		flush_dcache_page(page);
		if (err != STORE_BACKED)
			return err;
	}
	return STORE_BACKED;
}

/*
 * A read ahead of its work is only begun when the reader's bio has been submitted.  So such a read
 * has nothing of the reserve: the reader may wait for that, for the next page of the same bio.
 */
int zram_backing_read(struct zram *z, u64 slot, struct page *page, struct bio *parent)
{
	struct backing_read *r;
	bool from_reserve;
	u64 word;
	int err = backing_begin(z, slot, page, &word);

	if (err != STORE_BACKED)
		return err;
	r = kmalloc(sizeof(*r), GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC);
	from_reserve = !r;
	if (from_reserve)
		r = mempool_alloc(z->backing.reads->works, GFP_NOIO);
	*r = (struct backing_read){ .z = z, .parent = parent, .page = page, .word = word };
	INIT_WORK(&r->work, backing_read_work);
	bio_inc_remaining(parent);
	if (from_reserve || !read_ahead_of_work(r))
		queue_work(z->backing.reads->queue, &r->work);
	return 0;
}

int zram_backing_read_wait(struct zram *z, u64 slot, struct page *page, enum store_counter failed)
{
	struct backing_read r = { .z = z, .page = page, .failed = failed };
	int err = backing_begin(z, slot, page, &r.word);

	if (err != STORE_BACKED)
		return err;
	INIT_WORK_ONSTACK(&r.work, backing_read_work);
	queue_work(z->backing.reads->queue, &r.work);
	flush_work(&r.work);
	destroy_work_on_stack(&r.work);
	return r.err;
}

/* ---- what reads take ---- */

struct zram_reads *zram_reads_make(const struct zram *z)
{
	struct zram_reads *t = kzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return NULL;
	t->works = mempool_create_kmalloc_pool(WORKS, sizeof(struct backing_read));
	t->pages = mempool_create_page_pool(PAGES, 0);
	t->queue = alloc_workqueue("%s_back", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0,
				   z->disk->disk_name);
	t->writes = alloc_workqueue("%s_wb", WQ_UNBOUND | WQ_MEM_RECLAIM, 1, z->disk->disk_name);
	if (t->works && t->pages && t->queue && t->writes)
		return t;
	zram_reads_drop(t);
	return NULL;
}

void zram_reads_drop(struct zram_reads *t)
{
	if (!t)
		return;
	if (t->writes)
		destroy_workqueue(t->writes);
	if (t->queue)
		destroy_workqueue(t->queue);
	mempool_destroy(t->pages);
	mempool_destroy(t->works);
	kfree(t);
}

void zram_backing_exit(void)
{
	/*
	 * When backing_read_endio() has ended the reader's bio, the device and the module may go,
	 * and it still has to return.  In an interrupt that is an RCU section, which the module
	 * loader waits for; a task that ran it may have lost its CPU there.
	 */
	if (READ_ONCE(zram_backing_used))
		synchronize_rcu_tasks();
}
