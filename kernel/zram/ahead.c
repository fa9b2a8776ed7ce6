// SPDX-License-Identifier: GPL-2.0-only
/*
 * ahead.c - owns the water marks: pages are written to the backing device before their room is
 * asked for.
 *
 *     above high, a write without room, memory pressure
 *       |
 *       v
 *     weigh     all slots: how much room pages take, by coldness and size (core/writeback.h)
 *     write     the coldest, of these the largest, as many as it takes to come to low
 *     flush     what they had is free
 *     compact   until that is pages: then again, if it was not enough
 *
 * The device's thread does it (policy.c), a unit at a time.  Who writes to the disk or is short of
 * memory wakes it, and waits for nothing.
 */
#include "zram.h"

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "wb.h"

#define UNIT_PAGES 32u                  /* that are written in a unit, at once */
#define UNIT_PIECES 64u                 /* of slots that are weighed in one, or looked at */
#define UNIT_STEPS 16u                  /* of compaction */
#define UNIT_BUFS 32u                   /* that are freed in one, of what is held back */
#define PAUSE (HZ)                      /* jiffies, when it is of no use */
#define CALM (HZ / 50)                  /* jiffies, when memory was pressed but not short */
#define SHORT_SHIFT 4                   /* memory is short when 1/16 of it is available, */
#define SHORTER_SHIFT 5                 /* and very short when half of that is */
#define ROUND_SHIFT 5                   /* of the pool, for each time that memory was short */

enum stage { STAGE_WEIGH, STAGE_WRITE, STAGE_FLUSH, STAGE_COMPACT };

/* What the thread has. */
struct zram_ahead {
	struct wb_work *wb;
	bool going;
	bool once;                      /* one round, for memory pressure */
	int coldest;                    /* 0, or pages of a lower level stay */
	enum stage stage;
	u64 target;                     /* pages of the pool to come to */
	u64 at;                         /* slot */
	u64 left;                       /* pages that are to be written in this round */
	u64 wrote, before;	/* in this round: pages; and those of the pool at its beginning */
	u64 queued;     /* buffers that a flush has left to free, and one; 0: none is under way */
	bool begun;                     /* compaction is */
	struct pool_compaction pc;
	struct weights weights;
};

/* ---- the marks ---- */

void zram_ahead_set(struct zram *z)
{
	struct zram_policy *p = &z->policy;
	u64 high = p->high ?: z->mem_limit - z->mem_limit / 16;
	u64 low = p->low ?: z->mem_limit - z->mem_limit / 8;

	if (!low || low > high)
		low = high - high / 16;
	if (!p->is_auto || !high || !z->backing.blocks)
		low = high = U64_MAX;
	WRITE_ONCE(p->low_pages, low >> PAGE_SHIFT);
	WRITE_ONCE(z->high_pages, high >> PAGE_SHIFT);
}

void zram_ahead_kick(struct zram *z)
{
	if (!READ_ONCE(z->policy.kicked) && time_after_eq(jiffies, READ_ONCE(z->policy.pause)))
		zram_policy_kick(z);
}

void zram_ahead_short(struct zram *z)
{
	WRITE_ONCE(z->policy.is_short, true);
	zram_ahead_kick(z);
}

void zram_ahead_press(struct zram *z)
{
	if (!zram_incoming_on(z) || time_before(jiffies, READ_ONCE(z->policy.calm)))
		return;
	WRITE_ONCE(z->policy.is_pressed, true);
	zram_ahead_kick(z);
}

/* ---- when ---- */

static void pause(struct zram *z)
{
	WRITE_ONCE(z->policy.pause, jiffies + PAUSE);
	z->ahead->going = false;
	WRITE_ONCE(z->policy.is_short, false);
	WRITE_ONCE(z->policy.is_pressed, false);
}

static void begin(struct zram_ahead *a, u64 target, bool once, int coldest)
{
	a->going = true;
	a->stage = STAGE_WEIGH;
	a->at = 0;
	a->queued = 0;
	a->target = target;
	a->once = once;
	a->coldest = coldest;
}

/*
 * The shrinker is asked wherever memory is reclaimed, which need not mean that there is little.
 * Then the next calls wake nobody for a while.
 */
static void begin_if_short(struct zram *z, u64 pages)
{
	long available = si_mem_available();

	if (available < (long)(totalram_pages() >> SHORT_SHIFT))
		begin(z->ahead, pages - (pages >> ROUND_SHIFT), true,
		      available < (long)(totalram_pages() >> SHORTER_SHIFT) ? 0 : COLD_OLD);
	else
		WRITE_ONCE(z->policy.calm, jiffies + CALM);
}

static void make(struct zram *z)
{
	struct zram_ahead *a = host_zalloc(sizeof(*a));

	/* At once, since memory may be short when they are needed. */
	if (a)
		a->wb = zram_wb_make(z, UNIT_PAGES, true);
	z->ahead = a;
}

bool zram_ahead_wanted(struct zram *z)
{
	struct zram_policy *p = &z->policy;
	struct zram_ahead *a = z->ahead;
	u64 pages, low;

	/* Of a device that is claimed nothing is begun: the thread is to rest until it ends. */
	if (!zram_incoming_on(z) || READ_ONCE(z->claim) ||
	    time_before(jiffies, READ_ONCE(p->pause)))
		return false;
	if (!a)
		make(z);
	a = z->ahead;
	if (!a)
		return false;
	pages = pool_pages(&z->store.pool);
	low = READ_ONCE(p->low_pages);
	if (a->going && !a->once)
		return true;
	if (pages > READ_ONCE(z->high_pages))
		begin(a, low, false, 0);
	else if (READ_ONCE(p->is_short))
		begin(a, min(low, pages - pages / 16), false, 0);
	else if (!a->going && READ_ONCE(p->is_pressed))
		begin_if_short(z, pages);
	WRITE_ONCE(p->is_pressed, false);
	return a->going;
}

/* ---- how: each returns whether that stage is over, or an error ---- */

/*
 * What is held back is freed, but what others are freeing: they may have lost their CPU.  What was
 * queued comes first, in units.
 */
static int flush(struct zram *z, struct zram_ahead *a)
{
	struct release *r = &z->store.release;

	down_read(&z->check_lock);
	if (!a->queued)
		a->queued = release_full_bufs(r) + 1;
	if (a->queued > 1 && release_help(r, HOST_ANY_NODE, UNIT_BUFS)) {
		a->queued -= min_t(u64, a->queued - 1, UNIT_BUFS);
	} else {
		release_help_all(r, release_begin_era(r), NULL);
		a->queued = 0;
	}
	up_read(&z->check_lock);
	return !a->queued;
}

static int weigh(struct zram *z, struct zram_ahead *a)
{
	struct store *s = &z->store;
	u64 room = zram_wb_room(z, true), now = pool_pages(&s->pool);
	unsigned int pieces = UNIT_PIECES;
	bool more = true;

	if (!room) {
		/* What freed slots had may be held back. */
		if (!flush(z, a))
			return 0;
		room = zram_wb_room(z, true);
	}
	if (!room)
		return -ENOSPC;
	a->queued = 0;
	if (!a->at) {
		memset(&a->weights, 0, sizeof(a->weights));
		a->before = now;
		a->wrote = 0;
	}
	down_read(&z->check_lock);
	while (more && pieces--)
		more = store_weigh_piece(s, &a->at, s->slots, READ_ONCE(z->policy.ages),
					 &a->weights);
	up_read(&z->check_lock);
	if (more)
		return 0;
	a->at = 0;
	/* What came since the beginning was not weighed, perhaps, and is for the next round. */
	now = min(now, a->before);
	a->left = weights_cut(&a->weights, (now - min(now, a->target)) << PAGE_SHIFT,
			      a->coldest, &a->wb->chosen);
	a->left = min(a->left, room);
	return 1;
}

static int write(struct zram *z, struct zram_ahead *a)
{
	struct store *s = &z->store;
	struct wb_work *w = a->wb;
	u64 before = w->written, end, wrote;
	unsigned int pieces = UNIT_PIECES;
	struct blk_plug plug;
	int err = 0, more = 1;

	w->err = 0;
	w->begun = 0;
	w->chosen.ages = READ_ONCE(z->policy.ages);
	/* The few of each piece go to the device together. */
	blk_start_plug(&plug);
	while (more >= 0 && pieces-- && a->at < s->slots &&
	       w->begun < min_t(u64, UNIT_PAGES, a->left)) {
		end = min(s->slots, a->at + UNIT_PAGES);
		more = zram_wb_piece(w, &a->at, end, CHOOSE_COLD);
	}
	blk_finish_plug(&plug);
	err = zram_wb_drain(w);
	wrote = w->written - before;
	a->wrote += wrote;
	a->left -= min(a->left, max(wrote, w->begun));
	WRITE_ONCE(z->policy.stats.ahead, z->policy.stats.ahead + wrote);
	if (err || more < 0)
		return err ?: more;
	return !a->left || a->at >= s->slots;
}

static int compact(struct zram *z, struct zram_ahead *a)
{
	struct pool *pool = &z->store.pool;
	bool more;

	down_read(&z->check_lock);
	if (!a->begun)
		pool_compact_begin(pool, &a->pc);
	a->begun = true;
	more = pool_pages(pool) > a->target && pool_compact_go(pool, &a->pc, UNIT_STEPS);
	up_read(&z->check_lock);
	return !more;
}

/* A round is over. */
static void judge(struct zram *z, struct zram_ahead *a)
{
	u64 now = pool_pages(&z->store.pool);

	pcp_drain(&z->pcp);
	zram_note_freed(z);
	a->stage = STAGE_WEIGH;
	a->at = 0;
	if (now <= a->target || a->once) {
		a->going = false;
		WRITE_ONCE(z->policy.is_short, false);
	}
	/* Nothing to write, and no page the less: it is of no use just now. */
	if (!a->wrote && (now >= a->before || a->once))
		pause(z);
}

static void unit(struct zram *z, struct zram_ahead *a)
{
	int over = 1;

	switch (a->stage) {
	case STAGE_WEIGH:
		over = weigh(z, a);
		break;
	case STAGE_WRITE:
		over = a->left ? write(z, a) : 1;
		break;
	case STAGE_FLUSH:
		over = flush(z, a);
		a->begun = false;
		break;
	case STAGE_COMPACT:
		over = compact(z, a);
		if (over > 0)
			judge(z, a);
		return;
	}
	if (over > 0)
		a->stage++;
	else if (over < 0 && over != -ERESTARTNOINTR)
		pause(z);
}

/* Takes pp_lock if it is free; else there is a pause until zram_pp_unlock(). */
static bool take_pp_lock(struct zram *z)
{
	struct zram_policy *p = &z->policy;

	if (mutex_trylock(&z->pp_lock))
		return true;
	WRITE_ONCE(p->pause, jiffies + PAUSE);
	WRITE_ONCE(p->wants_pp_lock, true);
	/* Who let it go before this sees that; else it is free. */
	smp_mb();
	if (!mutex_trylock(&z->pp_lock))
		return false;
	WRITE_ONCE(p->wants_pp_lock, false);
	WRITE_ONCE(p->pause, jiffies);
	return true;
}

int zram_pp_lock(struct zram *z)
{
	int err;

	atomic_inc(&z->pp_wanted);
	err = mutex_lock_killable(&z->pp_lock);
	atomic_dec(&z->pp_wanted);
	return err;
}

void zram_pp_unlock(struct zram *z)
{
	struct zram_policy *p = &z->policy;

	mutex_unlock(&z->pp_lock);
	smp_mb();
	if (!READ_ONCE(p->wants_pp_lock))
		return;
	WRITE_ONCE(p->wants_pp_lock, false);
	WRITE_ONCE(p->pause, jiffies);
	zram_policy_kick(z);
}

void zram_ahead(struct zram *z)
{
	struct zram_ahead *a = z->ahead;

	if (!a->wb)
		a->wb = zram_wb_make(z, UNIT_PAGES, true);
	if (!a->wb) {
		pause(z);
		return;
	}
	/* Somebody may go through all pages by hand. */
	if (!take_pp_lock(z))
		return;
	if (!zram_wb_stopped(z))
		unit(z, a);
	mutex_unlock(&z->pp_lock);
}

void zram_ahead_end(struct zram *z)
{
	if (z->ahead && z->ahead->wb)
		zram_wb_free(z->ahead->wb);
	host_free(z->ahead, sizeof(*z->ahead));
	z->ahead = NULL;
}
