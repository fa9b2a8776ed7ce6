// SPDX-License-Identifier: GPL-2.0-only
/*
 * policy.c - owns the thread of a device that does what nobody asks for at the moment.
 *
 *     first     pages are written out ahead of need (ahead.c), at the priority of any thread
 *     always    one pass of ageing a period (core/age.h)
 *     else      walks, at the lowest priority: after a pass pages are written, or recompressed,
 *               for their age
 *     by turns  free blocks of the backing device are discarded (discard.c), at the priority of any
 *               thread
 *
 * It works in units of a few milliseconds.  Between them it has no lock and nothing in flight, and
 * looks whether it is to end, to be frozen, or to write ahead.  It takes pp_lock, for which only
 * files wait, if that is free.
 *
 * Walks rest while the disk is read or written, and may lose their CPU for long.  Nobody who reads
 * or writes a page waits for one even then: walks have codec contexts of their own.  Who writes
 * ahead has not.  It is of no lower priority than those who may wait for its context, and they do
 * that for one page at most, as for any who reads.  A write may wait for blocks that are being
 * written or discarded (incoming.c), so who has some is of no lower priority, either: a walk goes
 * over slots at the lowest, and from the first page that it writes to the last at that of any.
 *
 * To make memory by writing ahead may be the thread's own to do, so recompression waits for none
 * for objects and for its pages.  It may for its contexts and for the table of ages, which it takes
 * once, as long as reclaim brings something; it has no lock then.
 */
#include "zram.h"

#include <linux/freezer.h>
#include <linux/kthread.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/part_stat.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "age.h"
#include "recompress.h"
#include "wb.h"

#define UNIT_PAGES 32u          /* that are written in a unit, at once */
#define UNIT_TRIES RECOMPRESS_PIECE     /* that are recompressed in one */
#define UNIT_PIECES 16u         /* of slots that are aged in one */
#define UNIT_NS NSEC_PER_MSEC   /* of a unit of a walk, but for its last page and the disk */
#define QUIET_MS 100u	/* walks go on when nobody used the disk for so long, else once in it */
#define LONG_MS 60000u          /* when there is nothing to do */

#define DISCARD_MS 5000u        /* from the end of a walk over free blocks to the next */

#define PERIOD_MIN 1u           /* seconds from a pass of ageing to the next */
#define PERIOD_MAX 300u
#define PERIOD_AHEAD 15u        /* where ages are only for who writes ahead */
#define PERIODS 8u              /* in the least age that is asked for */
#define SECOND_SHIFT 23u /* slots that are looked at in a second, at most: some per cent of a CPU */

/* What the thread has. */
struct policy_run {
	struct zram *z;
	struct task_struct *task;
	int nice;

	struct store_ages ages;         /* while policy.ages names them */
	u32 period;                     /* seconds; 0: there are no ages */
	bool in_pass;
	u64 next_pass;                  /* ns */
	u64 try_ages;                   /* ns: no memory is asked for before */

	/* Walks over all slots, each of what a pass of ageing found. */
	bool writes, recompresses;      /* one is under way */
	u64 write_at, recompress_at;    /* the next slot */
	/* of the next unit, which is not to see a file change */
	unsigned int write_age, recompress_age;
	u64 work_at;	/* ns: recompression has used its share of the CPU until then */
	unsigned long used;             /* times the disk was, at the last look */
	u64 discard_at, next_discard;   /* the next block; ns: when the next walk begins */
	u64 used_at, unit_at;	/* ns: when that was seen to change; when the last unit began */
	bool walked;                    /* the last unit was a walk's: discards are next */

	bool has_own;
	struct stream own[STORE_CODECS];
	struct recompress_work pages;
	struct wb_work *wb;
};

static void set_nice(struct policy_run *r, int nice)
{
	if (r->nice != nice)
		sched_set_normal(current, nice);
	r->nice = nice;
}

/* ---- ages ---- */

/*
 * For what a pass has to look at: each slot of the table that is there, and each piece that is not.
 * It grows by steps, since ages begin anew with each.
 */
static u32 least_period(const struct zram *z)
{
	const struct store *s = &z->store;
	u64 there = host_a64_read(&s->pieces);
	u64 looks = s->table.pieces + (there << HOST_KERNEL_PIECE_SHIFT);
	u64 seconds = looks >> SECOND_SHIFT;

	return seconds ? roundup_pow_of_two((u32)seconds) : 0;
}

/* The period of ageing that suits the ages that are asked for, and the table; 0: none are. */
static u32 period_for(const struct zram *z)
{
	const struct zram_policy *p = &z->policy;
	u32 a = READ_ONCE(p->writeback_age), b = READ_ONCE(p->recompress_age);
	u32 least = a && b ? min(a, b) : a + b, period = PERIOD_AHEAD;

	if (!least && !READ_ONCE(p->is_auto))
		return 0;
	/* The largest is to be told, too. */
	if (least)
		period = max(clamp(least / PERIODS, PERIOD_MIN, PERIOD_MAX),
			     (max(a, b) - 1) / AGE_PASSES + 1);
	return max(period, least_period(z));
}

static unsigned int min_age(const struct policy_run *r, u32 seconds)
{
	return age_of_passes(DIV_ROUND_UP((u64)seconds, r->period));
}

/* Whether the last pass found pages as old, by one of its counts. */
static bool has_aged(const struct policy_run *r, const u64 *last, u32 seconds)
{
	unsigned int age;
	u64 n = 0;

	for (age = min_age(r, seconds); age <= AGE_MAX; age++)
		n += last[age];
	return n;
}

static void end_ages(struct policy_run *r)
{
	WRITE_ONCE(r->z->policy.ages, NULL);
	store_ages_destroy(&r->ages);
	r->period = 0;
	r->in_pass = r->writes = r->recompresses = false;
}

/* Ages are counted in periods, so with another all begin anew. */
static void keep_ages(struct policy_run *r)
{
	u64 now = ktime_get_ns();
	u32 period = period_for(r->z);

	if (period == r->period || now < r->try_ages)
		return;
	end_ages(r);
	if (!period)
		return;
	r->try_ages = now + NSEC_PER_SEC;
	if (store_ages_init(&r->ages, r->z->store.slots))
		return;
	r->period = period;
	r->next_pass = now;
	r->try_ages = 0;
	WRITE_ONCE(r->z->policy.ages, &r->ages);
}

/* A unit of ageing, which is some tens of microseconds, if a pass is due.  False: none is. */
static bool age_unit(struct policy_run *r)
{
	struct zram_policy *p = &r->z->policy;
	unsigned int pieces = UNIT_PIECES;

	keep_ages(r);
	if (!r->period || (!r->in_pass && ktime_get_ns() < r->next_pass))
		return false;
	if (!r->in_pass)
		r->next_pass = ktime_get_ns() + (u64)r->period * NSEC_PER_SEC;
	r->in_pass = true;
	while (r->in_pass && pieces--)
		r->in_pass = store_age_piece(&r->z->store, &r->ages);
	WRITE_ONCE(p->stats.looked, r->ages.at);
	if (r->in_pass)
		return true;
	WRITE_ONCE(p->stats.passes, p->stats.passes + 1);
	/* A walk that is under way goes on first. */
	if (!r->writes)
		r->write_at = 0;
	if (!r->recompresses)
		r->recompress_at = 0;
	r->writes = r->recompresses = true;
	return true;
}

/* ---- walks ---- */

static bool has_own_streams(struct policy_run *r)
{
	struct store *s = &r->z->store;

	if (!r->has_own && !streams_own(s->codecs, STORE_CODECS, r->own))
		r->has_own = true;
	return r->has_own;
}

static bool may_write(struct policy_run *r)
{
	u32 seconds = READ_ONCE(r->z->policy.writeback_age);

	if (!seconds || !r->z->backing.file || !zram_wb_room(r->z, true) ||
	    (!r->write_at && !has_aged(r, r->ages.last.pages, seconds)) || !has_own_streams(r))
		return false;
	r->write_age = min_age(r, seconds);
	if (!r->wb)
		r->wb = zram_wb_make(r->z, UNIT_PAGES, true);
	return r->wb;
}

static bool is_over(u64 begun)
{
	return ktime_get_ns() >= begun + UNIT_NS;
}

/*
 * pp_lock is held.  An error is tried anew after the next pass.  A unit is as long as it takes, not
 * so many slots: a piece of the table that was never written is one look.
 */
static void write_unit(struct policy_run *r)
{
	struct zram_policy *p = &r->z->policy;
	struct wb_work *w = r->wb;
	u64 slots = r->z->store.slots, begun = r->unit_at, before = w->written;
	int more = 1;

	w->own = r->own;
	w->err = 0;
	w->chosen.ages = &r->ages;
	w->chosen.min_age = r->write_age;
	while (more >= 0 && r->write_at < slots && w->begun < UNIT_PAGES && !is_over(begun)) {
		if (!zram_wb_find(w, &r->write_at, slots, CHOOSE_AGED))
			continue;
		set_nice(r, 0);
		more = zram_wb_piece(w, &r->write_at, min(slots, r->write_at + UNIT_PAGES),
				     CHOOSE_AGED);
	}
	w->begun = 0;
	if (zram_wb_drain(w) || (more < 0 && more != -ERESTARTNOINTR) || r->write_at >= slots)
		r->writes = false;
	WRITE_ONCE(p->stats.aged, p->stats.aged + (w->written - before));
	zram_note_freed(r->z);
}

static bool may_recompress(struct policy_run *r)
{
	u32 seconds = READ_ONCE(r->z->policy.recompress_age);

	if (!seconds || !store_last_codec(&r->z->store) ||
	    (!r->recompress_at && !has_aged(r, r->ages.last.to_try, seconds)) ||
	    !has_own_streams(r))
		return false;
	r->recompress_age = min_age(r, seconds);
	if (!r->pages.page)
		r->pages.page = kmalloc(PAGE_SIZE, GFP_NOWAIT | __GFP_NOWARN);
	if (!r->pages.packed)
		r->pages.packed = kmalloc(PAGE_SIZE, GFP_NOWAIT | __GFP_NOWARN);
	return r->pages.page && r->pages.packed;
}

/* Somebody waits for pp_lock, or for pages to be written ahead. */
static bool is_wanted(struct zram *z)
{
	return atomic_read(&z->pp_wanted) || READ_ONCE(z->policy.kicked);
}

/* pp_lock is held.  An error is tried anew after the next pass.  A page may take milliseconds. */
static void recompress_unit(struct policy_run *r)
{
	struct zram_policy *p = &r->z->policy;
	struct store *s = &r->z->store;
	u64 begun = r->unit_at, percent = READ_ONCE(p->cpu), took;
	struct recompress_request q;
	int err = 0;

	recompress_request_init(&q, store_last_codec(s));
	q.aged = &r->ages;
	q.min_age = r->recompress_age;
	q.own = r->own;
	while (err >= 0 && r->recompress_at < s->slots && q.tried < UNIT_TRIES &&
	       !is_over(begun) && !is_wanted(r->z) && !zram_wb_stopped(r->z)) {
		q.left = 1;
		down_read(&r->z->check_lock);
		err = store_recompress_piece(s, &r->recompress_at, s->slots, &q, &r->pages);
		up_read(&r->z->check_lock);
		/* A page that cannot be read is not to keep those behind it from their turn. */
		if (err == -EIO) {
			r->recompress_at++;
			err = 0;
		}
		cond_resched();
	}
	if (err < 0 || r->recompress_at >= s->slots)
		r->recompresses = false;
	WRITE_ONCE(p->stats.tried, p->stats.tried + q.tried);
	WRITE_ONCE(p->stats.smaller, p->stats.smaller + q.done);
	WRITE_ONCE(p->stats.saved, p->stats.saved + q.saved);
	zram_note_freed(r->z);
	took = ktime_get_ns() - begun;
	r->work_at = begun + div64_u64(took * 100, percent);
}

static unsigned int ms_to(u64 now, u64 then)
{
	return then > now ?
	       (unsigned int)min_t(u64, div_u64(then - now, NSEC_PER_MSEC) + 1, LONG_MS) : 0;
}

/* Milliseconds until a unit of a walk may begin, for the sake of those who use the disk. */
static unsigned int give_way(struct policy_run *r, u64 now)
{
	const u64 quiet = (u64)QUIET_MS * NSEC_PER_MSEC;
	unsigned long used = part_stat_read_accum(r->z->disk->part0, ios);

	if (used != r->used)
		r->used_at = now;
	r->used = used;
	return now >= r->used_at + quiet ? 0 : ms_to(now, r->unit_at + quiet);
}

/* ---- the thread ---- */

/* Not ahead of a file that waits for it. */
static bool try_pp_lock(struct zram *z)
{
	return !atomic_read(&z->pp_wanted) && mutex_trylock(&z->pp_lock);
}

/*
 * The next unit of what is done when there is nothing better.  Milliseconds until there is another.
 */
static unsigned int idle_unit(struct policy_run *r)
{
	u64 now = ktime_get_ns();
	unsigned int ms, others;

	if (!r->period)
		return now < r->try_ages ? ms_to(now, r->try_ages) : LONG_MS;
	/* A reset is under way, which ends the thread or fails. */
	if (READ_ONCE(r->z->claim))
		return QUIET_MS;
	ms = ms_to(now, r->next_pass);
	if (r->writes)
		r->writes = may_write(r);
	if (r->recompresses)
		r->recompresses = may_recompress(r);
	if (!r->writes && !r->recompresses)
		return ms;
	if (!r->writes && now < r->work_at)
		return min(ms, ms_to(now, r->work_at));
	others = give_way(r, now);
	if (others)
		return min(ms, others);
	/* Somebody does by hand what this is about. */
	if (!try_pp_lock(r->z))
		return min(ms, QUIET_MS);
	/* Not now, which was before what may have waited for memory. */
	r->unit_at = ktime_get_ns();
	if (r->writes)
		write_unit(r);
	else
		recompress_unit(r);
	mutex_unlock(&r->z->pp_lock);
	return 0;
}

/* Milliseconds until a unit of discards is due, though it may have to give way then. */
static unsigned int discards_due(const struct policy_run *r, u64 now)
{
	if (!READ_ONCE(r->z->backing.discards) || !r->z->backing.blocks)
		return LONG_MS;
	return ms_to(now, r->next_discard);
}

/* The next unit of discards.  Milliseconds until there is another. */
static unsigned int discard_unit(struct policy_run *r)
{
	u64 now = ktime_get_ns();
	unsigned int ms = discards_due(r, now);

	if (!ms && READ_ONCE(r->z->claim))
		ms = QUIET_MS;
	if (!ms)
		ms = give_way(r, now);
	if (ms)
		return ms;
	if (!try_pp_lock(r->z))
		return QUIET_MS;
	r->unit_at = now;
	/* Those who may wait for what is discarded do not wait for a CPU, too. */
	set_nice(r, 0);
	if (!zram_discard(r->z, &r->discard_at)) {
		r->discard_at = 0;
		r->next_discard = ktime_get_ns() + (u64)DISCARD_MS * NSEC_PER_MSEC;
	}
	mutex_unlock(&r->z->pp_lock);
	return 0;
}

/*
 * By turns, so that blocks do not wait for the end of a walk over a large disk.  A turn that has to
 * give way is not lost: both give way from the last unit on, whosever it was.  Milliseconds until
 * there is another unit.
 */
static unsigned int next_unit(struct policy_run *r)
{
	unsigned int ms;

	if (r->walked && !discards_due(r, ktime_get_ns())) {
		ms = discard_unit(r);
		r->walked = ms;
		return ms;
	}
	ms = idle_unit(r);
	r->walked = !ms;
	return ms ? min(ms, discard_unit(r)) : 0;
}

static bool is_called(struct zram_policy *p)
{
	return READ_ONCE(p->kicked) || kthread_should_stop();
}

static void rest(struct policy_run *r, unsigned int ms)
{
	struct zram_policy *p = &r->z->policy;

	/* It may be woken to write ahead. */
	set_nice(r, 0);
	WRITE_ONCE(p->stats.works, false);
	wait_event_freezable_timeout(p->wait, is_called(p), msecs_to_jiffies(ms) + 1);
}

static void leave(struct policy_run *r)
{
	zram_ahead_end(r->z);
	end_ages(r);
	if (r->wb)
		zram_wb_free(r->wb);
	if (r->has_own)
		streams_disown(r->z->store.codecs, STORE_CODECS, r->own);
	kfree(r->pages.page);
	kfree(r->pages.packed);
	WRITE_ONCE(r->z->policy.stats.works, false);
}

static int run(void *data)
{
	struct policy_run *r = data;
	struct zram *z = r->z;
	bool ahead, aged;
	unsigned int noio, ms;

	set_freezable();
	/* What it allocates is not to be had by writing to a disk, which may be this one. */
	noio = memalloc_noio_save();
	while (!kthread_should_stop()) {
		try_to_freeze();
		/* Before the looks, as what was done to be found is before the kick. */
		smp_store_mb(z->policy.kicked, false);
		ahead = zram_ahead_wanted(z);
		set_nice(r, ahead ? 0 : MAX_NICE);
		WRITE_ONCE(z->policy.stats.works, true);
		/* Who writes ahead wants to know what is cold, however long that takes. */
		aged = age_unit(r);
		if (ahead) {
			zram_ahead(z);
		} else if (!aged) {
			ms = next_unit(r);
			if (ms)
				rest(r, ms);
		}
		cond_resched();
	}
	leave(r);
	memalloc_noio_restore(noio);
	return 0;
}

/* ---- its life ---- */

bool zram_policy_on(const struct zram *z)
{
	const struct zram_policy *p = &z->policy;

	return p->is_auto || p->writeback_age || p->recompress_age || z->backing.discards;
}

/* A thread that has not begun. */
static struct policy_run *make_thread(struct zram *z)
{
	struct policy_run *r = kzalloc(sizeof(*r), GFP_KERNEL);
	struct task_struct *task;

	if (!r)
		return ERR_PTR(-ENOMEM);
	r->z = z;
	task = kthread_create(run, r, "%s-policy", z->disk->disk_name);
	if (IS_ERR(task)) {
		kfree(r);
		return ERR_CAST(task);
	}
	r->task = task;
	return r;
}

/* It may end before it began; what it had is given back in any case. */
static void end_thread(struct policy_run *r)
{
	if (!r)
		return;
	kthread_stop(r->task);
	kfree(r);
}

static void begin_thread(struct zram_policy *p, struct policy_run *r)
{
	WRITE_ONCE(p->run, r);
	wake_up_process(r->task);
}

int zram_policy_start(struct zram *z)
{
	struct policy_run *r;

	if (z->policy.run || !zram_policy_on(z) || z->policy.ends)
		return 0;
	r = make_thread(z);
	if (IS_ERR(r))
		return PTR_ERR(r);
	begin_thread(&z->policy, r);
	return 0;
}

void zram_policy_stop(struct zram *z)
{
	struct zram_policy *p = &z->policy;
	struct policy_run *r;

	down_write(&z->dev_lock);
	r = p->run;
	WRITE_ONCE(p->run, NULL);
	p->ends = true;
	up_write(&z->dev_lock);
	end_thread(r);
}

int zram_policy_lock(struct zram *z, bool on, struct policy_run **spare)
{
	struct zram_policy *p = &z->policy;
	struct policy_run *r = NULL;

	for (;;) {
		if (on && !r && READ_ONCE(z->disksize) && !READ_ONCE(p->run))
			r = make_thread(z);
		if (IS_ERR(r))
			return PTR_ERR(r);
		if (down_write_killable(&z->dev_lock)) {
			end_thread(r);
			return -EINTR;
		}
		/* Unless the device was given its size just now. */
		if (!on || r || !z->disksize || p->run || p->ends)
			break;
		up_write(&z->dev_lock);
	}
	*spare = r;
	return 0;
}

void zram_policy_unlock(struct zram *z, struct policy_run *spare)
{
	struct zram_policy *p = &z->policy;

	if (spare && z->disksize && !p->run && !p->ends && zram_policy_on(z)) {
		begin_thread(p, spare);
		spare = NULL;
	}
	up_write(&z->dev_lock);
	end_thread(spare);
	zram_policy_kick(z);
}

void zram_policy_kick(struct zram *z)
{
	smp_mb();
	WRITE_ONCE(z->policy.kicked, true);
	wake_up(&z->policy.wait);
}

void zram_policy_defaults(struct zram *z)
{
	struct zram_policy *p = &z->policy;

	WRITE_ONCE(p->is_auto, false);
	WRITE_ONCE(p->high, 0);
	WRITE_ONCE(p->low, 0);
	WRITE_ONCE(p->writeback_age, 0);
	WRITE_ONCE(p->recompress_age, 0);
	WRITE_ONCE(p->cpu, 10);
	p->ends = false;
	/* What was asked of the old store is not asked of a new one. */
	p->is_short = p->is_pressed = p->wants_pp_lock = false;
	p->pause = p->calm = jiffies;
	memset(&p->stats, 0, sizeof(p->stats));
}

void zram_policy_init(struct zram *z)
{
	init_waitqueue_head(&z->policy.wait);
}
