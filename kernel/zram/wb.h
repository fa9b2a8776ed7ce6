/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * wb.h - the writeback engine: pages are chosen, copied out, written, and put in their slots as
 * blocks.  Its users are the file `writeback` and the device's policy.
 *
 * pp_lock is held from the first choice to the last page that came back, so the store and the
 * device stay, and no slot is chosen by two.  Nothing is in flight when it is let go.  check_lock
 * is held for reading, for a page or a piece of slots at a time.
 *
 * Who may have pages in flight has a nice value of 0 at most: pages without room may wait for him.
 */
#ifndef EBB_KERNEL_WB_H
#define EBB_KERNEL_WB_H

#include "writeback.h"
#include "zram.h"

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#define WB_UNITS ((u64)1 << (PAGE_SHIFT - 12))  /* of the limit, for a page */

/* One writeback.  Made by zram_wb_make(); used by one thread. */
struct wb_work {
	struct zram *z;
	bool by_itself;                 /* the budget holds for it */
	bool stop;                      /* zram_wb_stop() */
	struct list_head idle;          /* requests that are not in flight */
	unsigned int in_flight;
	int err;	/* the last one of a bio; 0 again is the caller's to make it */
	u64 begun;                      /* pages that were submitted; the caller's to set back */
	u64 written;                    /* pages that are on the device now */
	struct chosen chosen;
	struct stream *own;             /* by priority, so that no reader waits for it; or NULL */
	unsigned long next_flush;       /* jiffies: none before, while blocks are read */

	spinlock_t lock;                /* taken in interrupts */
	struct list_head done;          /* lock */
	wait_queue_head_t wait;
};

/*
 * With up to `requests` requests, a page of memory each: as many as there is memory for.
 * by_itself: nobody asked for it, so the budget holds.  NULL: there is no memory for one.  Process
 * context; no lock is needed.
 */
struct wb_work *zram_wb_make(struct zram *z, unsigned int requests, bool by_itself);
/* Nothing of it is in flight. */
void zram_wb_free(struct wb_work *w);

/*
 * 0, or why the work is to end now, with what is chosen let go: -EINTR: a fatal signal, a reset, a
 * removal, or the end of the thread; -ERESTARTNOINTR: the thread is to be frozen, and may begin
 * again.
 */
int zram_wb_stopped(const struct zram *z);

/*
 * Marks the slots from..end-1 that are as wanted (CHOOSE_...), and counts them in w->chosen by
 * size.  0, or as zram_wb_stopped().  pp_lock is held.
 */
int zram_wb_choose(struct wb_work *w, u64 from, u64 end, unsigned int want);

/*
 * Writes what is chosen, the largest first, as far as device, limit and budget have room, and waits
 * for all of it.  0; -EIO: the limit or the budget is used up; -ENOSPC: the device is full, or, for
 * by_itself, all blocks that are left are being read; what a bio ended with; or as
 * zram_wb_stopped().  After an error pages may still be chosen.  pp_lock is
 * held.
 */
int zram_wb_write(struct wb_work *w);

/*
 * Lets go of all that is chosen, in the whole store.  Where it is to end meanwhile
 * (zram_wb_stopped()) the next choice does that first.  pp_lock is held.
 */
void zram_wb_unchoose(struct zram *z);

/*
 * The next slots of *at to end - 1, STORE_PIECE of them at most: chooses and begins to write those
 * that are as wanted, and moves *at past them.  What it began may be in flight still: before
 * pp_lock is let go comes zram_wb_drain().  1: there are slots left; 0: there are none; or an error
 * as of zram_wb_write(), with nothing of the piece chosen but what is in flight.  -ERESTARTNOINTR:
 * it is to be called again, for the same piece: after a freeze, or because what was left chosen
 * (zram_wb_unchoose()) was more than one call clears.  pp_lock is held.
 */
int zram_wb_piece(struct wb_work *w, u64 *at, u64 end, unsigned int want);

/*
 * Looks at the next STORE_PIECE slots of *at to end - 1, without choosing.  True: slot *at is as
 * wanted; false: none was, and *at is past them.  pp_lock is held.
 */
bool zram_wb_find(struct wb_work *w, u64 *at, u64 end, unsigned int want);

/* Ends zram_wb_write(), in which another thread is, as soon as may be: with -EINTR.  Any thread. */
void zram_wb_stop(struct wb_work *w);

/* Waits for all that is in flight.  The last error of a bio since w->err was 0. */
int zram_wb_drain(struct wb_work *w);

/* Pages that the device, the limit and the budget (by_itself) have room for.  Any context. */
u64 zram_wb_room(struct zram *z, bool by_itself);

/* ---- blocks, for all who read or write them ---- */

/* Makes bio, which has room for the one bv, a read or a write of a block.  Any context. */
void zram_block_bio(struct zram *z, struct bio *bio, struct bio_vec *bv, blk_opf_t op, u64 block,
		    struct page *page);

/* ---- wear.c ---- */

/*
 * A page is about to be written: takes it from the limit, and counts it for the budget.  False:
 * there is nothing left of the limit or, for what the device does by itself, of the budget.  *from:
 * for zram_wear_failed().  Process context.
 */
bool zram_wear_take(struct zram *z, bool by_itself, u64 *from);
/* It was not written after all.  Process context. */
void zram_wear_failed(struct zram *z, u64 from);
/* Pages that limit and budget allow just now; U64_MAX: there is neither.  Process context. */
u64 zram_wear_room(struct zram *z, bool by_itself);
/* Bytes written in the last 24 hours, to the hour.  Process context. */
u64 zram_wear_spent(struct zram *z);
void zram_wear_init(struct zram *z);

#endif
