/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wb.h - the writeback engine: pages are chosen, copied out, written, and put in their slots as
 * blocks.  Its user is the file `writeback`.
 *
 * pp_lock is held from the first choice to the last page that came back, so the store and the
 * device stay, and no slot is chosen by two.  Nothing is in flight when it is let go.  check_lock
 * is held for reading, for a page or a piece of slots at a time.
 */
#ifndef EBB_KERNEL_WB_H
#define EBB_KERNEL_WB_H

#include "tier/writeback.h"
#include "zram.h"

#include <linux/bio.h>
#include <linux/freezer.h>
#include <linux/list.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#define WB_UNITS ((u64)1 << (PAGE_SHIFT - 12))  /* of the limit, for a page */

/* One writeback.  Made by zram_wb_make(); used by one thread. */
struct wb_work {
	struct zram *z;
	bool stop;      /* by any thread: zram_wb_write() ends as soon as may be, with -EINTR */
	struct list_head idle;          /* requests that are not in flight */
	unsigned int in_flight;
	int err;                        /* the last one of a bio */
	struct chosen chosen;

	spinlock_t lock;                /* taken in interrupts */
	struct list_head done;          /* lock */
	wait_queue_head_t wait;
};

/*
 * With up to `requests` requests, a page of memory each: as many as there is memory for.  NULL:
 * there is no memory for one.  Process context; no lock is needed.
 */
struct wb_work *zram_wb_make(struct zram *z, unsigned int requests);
/* Nothing of it is in flight. */
void zram_wb_free(struct wb_work *w);

/*
 * 0, or why the work is to end now and let go of what is chosen.  -EINTR: a fatal signal, a reset
 * or a removal.  -ERESTARTNOINTR: the thread is to be frozen, and may begin again when it is
 * thawed.  (After a hibernation the slot table is that of the image, so nothing may be written once
 * the image is made.)
 */
static inline int zram_wb_stopped(const struct zram *z)
{
	if (READ_ONCE(z->claim) || host_interrupted())
		return -EINTR;
	return freezing(current) && signal_pending(current) ? -ERESTARTNOINTR : 0;
}

/* Takes check_lock for reading, for a piece; otherwise as zram_wb_stopped(), and it is not held. */
static inline int zram_wb_lock_piece(struct zram *z)
{
	int err = zram_wb_stopped(z);

	return err ? err : down_read_killable(&z->check_lock);
}

/*
 * Marks the slots from..end-1 that are as wanted (CHOOSE_...), and counts them in w->chosen by
 * size.  0, or as zram_wb_stopped().  pp_lock is held.
 */
int zram_wb_choose(struct wb_work *w, u64 from, u64 end, unsigned int want);

/*
 * Writes what is chosen, the largest first, as far as device and limit have room, and waits for all
 * of it.  0; -EIO: the limit is used up; -ENOSPC: the device is full; what a bio ended with; or as
 * zram_wb_stopped().  After an error pages may still be chosen.  pp_lock is held.
 */
int zram_wb_write(struct wb_work *w);

/*
 * Lets go of all that is chosen, in the whole store.  If it has to end before (zram_wb_stopped())
 * the next choice lets go of the rest first.  pp_lock is held.
 */
void zram_wb_unchoose(struct zram *z);

/* ---- blocks, for all who read or write them ---- */

/* What is made for a backing device by zram_reads_make(). */
struct zram_reads {
	mempool_t *works, *pages;
	struct workqueue_struct *queue;
	struct workqueue_struct *writes;        /* of who writes back by hand: one work at a time */
};

struct zram_io {
	struct bio_vec bv;
	struct bio bio;
};

/* Makes io's bio a read or a write of a block.  Any context. */
void zram_io_init(struct zram *z, struct zram_io *io, blk_opf_t op, u64 block, struct page *page);

/* A page that is written: by writeback.c, or by incoming.c. */
struct zram_write {
	struct list_head entry;
	void *owner;                    /* struct wb_work, or struct zram_incoming */
	struct handed *of;              /* incoming.c's: the page is one of it */
	struct page *page;              /* writeback.c's own, which it was copied to */
	u64 slot, block;
	u64 from;                       /* zram_wear.set when it was taken; 0: no limit was on */
	struct zram_io io;
};

/*
 * Takes a block for r, and takes it from the limit.  -EIO: nothing is left of that; or as
 * store_reserve_block().  Process context, as the others.
 */
int zram_write_reserve(struct zram *z, struct zram_write *r);
/* Gives both back: it is not written. */
void zram_write_cancel(struct zram *z, struct zram_write *r);
/* end: an interrupt's, when it is written. */
void zram_write_submit(struct zram *z, struct zram_write *r, struct page *page, bio_end_io_t *end);
/* After that: 0, or what the bio ended with; then both are given back. */
int zram_write_ended(struct zram *z, struct zram_write *r);

/* Takes the first of a list that interrupts add to, or NULL.  Process context. */
static inline struct list_head *zram_take_first(spinlock_t *lock, struct list_head *list)
{
	struct list_head *first = NULL;

	spin_lock_irq(lock);
	if (!list_empty(list)) {
		first = list->next;
		list_del(first);
	}
	spin_unlock_irq(lock);
	return first;
}

#endif
