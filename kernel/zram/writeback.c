// SPDX-License-Identifier: GPL-2.0-only
/*
 * writeback.c - the file `writeback`: who asks for it has pages written to the backing device, and
 * the files of its limit and of how many are written at once.
 *
 *     idle | huge | huge_idle | incompressible     also as type=...: what they have to be
 *     page_index=N page_indexes=A-B ...            these, whatever they are
 *
 *     choose: core/writeback.h marks them and counts them by size, as the words are read
 *     write:  largest first, `batch` at once; each has a page of its own, all there before
 *     then:   what came to an end is put in its slot, by the same thread
 *
 * pp_lock is held throughout, so the store and the device stay; dev_lock is held for reading, for a
 * page or a piece of slots at a time, so that all others go on.
 */
#include "zram.h"

#include <linux/bio.h>
#include <linux/device.h>
#include <linux/freezer.h>
#include <linux/kstrtox.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "sysfs.h"
#include "writeback.h"

#define REQUESTS_MAX 1024u      /* whatever the batch */
#define UNITS ((u64)1 << (PAGE_SHIFT - 12))     /* of the limit, for a page */

struct wb_request {
	struct list_head entry;
	struct wb_work *work;
	struct page *page;
	u64 slot, block;
	struct bio_vec bv;
	struct bio bio;
};

/* One writeback. */
struct wb_work {
	struct zram *z;
	struct list_head idle;
	unsigned int in_flight;
	int err;                        /* the last one of a bio */
	struct chosen chosen;

	spinlock_t lock;                /* taken in interrupts */
	struct list_head done;          /* lock */
	wait_queue_head_t wait;
};

/* ---- requests ---- */

static void work_free(struct wb_work *w)
{
	struct wb_request *r, *next;

	list_for_each_entry_safe(r, next, &w->idle, entry) {
		__free_page(r->page);
		kfree(r);
	}
	kfree(w);
}

/* With as many requests as there is memory for; NULL: not even one. */
static struct wb_work *work_make(struct zram *z)
{
	unsigned int n = min3(READ_ONCE(z->backing.batch), REQUESTS_MAX,
			      (u32)min_t(u64, z->store.slots, U32_MAX));
	struct wb_work *w = kzalloc(sizeof(*w), GFP_KERNEL);
	struct wb_request *r;

	if (!w)
		return NULL;
	w->z = z;
	INIT_LIST_HEAD(&w->idle);
	INIT_LIST_HEAD(&w->done);
	spin_lock_init(&w->lock);
	init_waitqueue_head(&w->wait);
	while (n--) {
		r = kzalloc(sizeof(*r), GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
		if (r)
			r->page = alloc_page(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
		if (!r || !r->page) {
			kfree(r);
			break;
		}
		r->work = w;
		list_add(&r->entry, &w->idle);
	}
	if (!list_empty(&w->idle))
		return w;
	work_free(w);
	return NULL;
}

/* The last step is to let the lock go: who finds the request then may free it all. */
static void request_end(struct bio *bio)
{
	struct wb_request *r = container_of(bio, struct wb_request, bio);
	struct wb_work *w = r->work;
	unsigned long flags;

	spin_lock_irqsave(&w->lock, flags);
	list_add_tail(&r->entry, &w->done);
	wake_up(&w->wait);
	spin_unlock_irqrestore(&w->lock, flags);
}

static struct wb_request *take_done(struct wb_work *w)
{
	struct wb_request *r;

	spin_lock_irq(&w->lock);
	r = list_first_entry_or_null(&w->done, struct wb_request, entry);
	if (r)
		list_del(&r->entry);
	spin_unlock_irq(&w->lock);
	return r;
}

/* Each page that is submitted takes from the limit, and gives it back if it fails. */
static void account(struct zram *z, s64 units)
{
	if (z->backing.limit_on)
		WRITE_ONCE(z->backing.limit, z->backing.limit + units);
}

static void finish(struct wb_work *w, struct wb_request *r)
{
	struct store *s = &w->z->store;
	int err = blk_status_to_errno(r->bio.bi_status);

	bio_uninit(&r->bio);
	w->in_flight--;
	down_read(&w->z->dev_lock);
	if (err) {
		w->err = err;
		account(w->z, UNITS);
	} else {
		store_note(s, CNT_BD_WRITES);
	}
	/* If somebody read or wrote the slot meanwhile, it stays here. */
	if (err || !store_to_backed(s, r->slot, r->block)) {
		backed_unreserve(&s->backed, r->block);
		store_unchoose(s, r->slot);
	}
	up_read(&w->z->dev_lock);
	list_add(&r->entry, &w->idle);
}

/* Waits for one request at least; those that are done are put in their slots. */
static void reap(struct wb_work *w)
{
	struct wb_request *r;

	wait_event(w->wait, !list_empty_careful(&w->done));
	while ((r = take_done(w)))
		finish(w, r);
}

/* ---- writing ---- */

/* What freed slots had may wait in a release buffer still. */
static int reserve(struct store *s, u64 *block)
{
	int err = backed_reserve(&s->backed, block);

	if (err) {
		release_flush(&s->release);
		err = backed_reserve(&s->backed, block);
	}
	return err;
}

/* Has r write a slot that was chosen.  -ENOENT: it no longer is; -EIO, -ENOSPC: the end. */
static int fill(struct zram *z, struct wb_request *r, u64 slot)
{
	struct store *s = &z->store;
	int err;

	if (z->backing.limit_on && !z->backing.limit)
		return -EIO;
	err = reserve(s, &r->block);
	if (err)
		return err;
	err = store_copy_out(s, slot, page_address(r->page), z->backing.packed);
	if (err) {
		backed_unreserve(&s->backed, r->block);
		store_unchoose(s, slot);
		return -ENOENT;
	}
	r->slot = slot;
	account(z, -(s64)UNITS);
	return 0;
}

static void submit(struct wb_work *w, struct wb_request *r)
{
	bio_init(&r->bio, w->z->backing.bdev, &r->bv, 1, REQ_OP_WRITE);
	r->bio.bi_iter.bi_sector = r->block << (PAGE_SHIFT - SECTOR_SHIFT);
	r->bio.bi_end_io = request_end;
	__bio_add_page(&r->bio, r->page, PAGE_SIZE, 0);
	w->in_flight++;
	submit_bio(&r->bio);
}

/*
 * A task that is to be frozen lets go of all it has and begins again when it is thawed: nothing is
 * written between the image of a hibernation and its resume, whose slot table is the image's.
 */
static int stopped(struct zram *z)
{
	if (zram_pp_ends(z))
		return -EINTR;
	return freezing(current) && signal_pending(current) ? -ERESTARTNOINTR : 0;
}

/* Writes those of some sizes. */
static int pass(struct wb_work *w, int smallest, int largest)
{
	struct zram *z = w->z;
	struct wb_request *r;
	bool found;
	u64 at = 0;
	int err;

	while (at < z->store.slots) {
		err = stopped(z);
		if (err)
			return err;
		if (list_empty(&w->idle))
			reap(w);
		r = list_first_entry(&w->idle, struct wb_request, entry);
		down_read(&z->dev_lock);
		found = store_next_chosen(&z->store, &at, smallest, largest);
		err = found ? fill(z, r, at) : 0;
		up_read(&z->dev_lock);
		if (err && err != -ENOENT)
			return err;
		if (found && !err) {
			list_del(&r->entry);
			submit(w, r);
		}
		at += found;
		cond_resched();
	}
	return 0;
}

/* Pages that the limit and the device have room for. */
static u64 room(struct zram *z)
{
	u64 n = host_read_once(z->store.backed.nfree) + host_read_once(z->store.backed.nlate);

	return z->backing.limit_on ? min(n, z->backing.limit / UNITS) : n;
}

/* The largest first, as far as there is room for all of a size: then their order is no matter. */
static int write_chosen(struct wb_work *w)
{
	int top = CHOOSE_SIZES - 1, smallest, err = 0;

	down_read(&w->z->dev_lock);
	release_flush(&w->z->store.release);
	up_read(&w->z->dev_lock);
	while (!err) {
		smallest = chosen_down_to(&w->chosen, top, room(w->z));
		if (smallest < 0)
			break;
		err = pass(w, smallest, top);
		top = smallest - 1;
	}
	while (w->in_flight)
		reap(w);
	return w->err ?: err;
}

/* ---- choosing ---- */

static int choose(struct wb_work *w, u64 from, u64 end, unsigned int want)
{
	struct zram *z = w->z;
	bool more = true;
	int err;

	while (more) {
		err = stopped(z);
		if (err)
			return err;
		down_read(&z->dev_lock);
		more = store_choose_piece(&z->store, &from, end, want, &w->chosen);
		up_read(&z->dev_lock);
		cond_resched();
	}
	return 0;
}

static void unchoose(struct zram *z)
{
	bool more = true;
	u64 at = 0;

	while (more) {
		down_read(&z->dev_lock);
		more = store_unchoose_piece(&z->store, &at);
		up_read(&z->dev_lock);
		cond_resched();
	}
}

static int parse_type(const char *text, unsigned int *want)
{
	if (!strcmp(text, "idle"))
		*want = CHOOSE_IDLE;
	else if (!strcmp(text, "huge"))
		*want = CHOOSE_HUGE;
	else if (!strcmp(text, "huge_idle"))
		*want = CHOOSE_HUGE | CHOOSE_IDLE;
	else if (!strcmp(text, "incompressible"))
		*want = CHOOSE_INCOMPRESSIBLE;
	else
		return -EINVAL;
	return 0;
}

/* N, or A-B; *end is the one after. */
static int parse_range(char *text, bool two, u64 slots, u64 *from, u64 *end)
{
	char *second = strchr(text, '-');
	unsigned long a, b;
	int err;

	if (two && !second)
		return -EINVAL;
	if (two)
		*second++ = 0;
	err = kstrtoul(text, 10, &a);
	if (!err && a >= slots)
		err = -ERANGE;
	b = a;
	if (!err && two)
		err = kstrtoul(second, 10, &b);
	if (err)
		return err;
	if (b >= slots || a > b)
		return -ERANGE;
	*from = a;
	*end = (u64)b + 1;
	return 0;
}

/* A type is about the range given last, or all, and is the last word; a range is by itself. */
static int choose_by(struct wb_work *w, char *text)
{
	u64 slots = w->z->store.slots, from = 0, end = slots;
	char *name, *value;
	unsigned int want;
	int err = 0;

	text = skip_spaces(text);
	while (*text && !err) {
		text = next_arg(text, &name, &value);
		if (!value || !*value || !strcmp(name, "type")) {
			err = parse_type(value && *value ? value : name, &want);
			return err ?: choose(w, from, end, want);
		}
		if (strcmp(name, "page_index") && strcmp(name, "page_indexes"))
			continue;
		err = parse_range(value, !strcmp(name, "page_indexes"), slots, &from, &end);
		if (!err)
			err = choose(w, from, end, 0);
	}
	return err;
}

/* pp_lock is held. */
static ssize_t write_back(struct device *dev, const char *buf, char *text)
{
	struct zram *z = zram_of(dev);
	struct wb_work *w;
	u64 disksize;
	ssize_t err;

	down_read(&z->dev_lock);
	disksize = z->disksize;
	up_read(&z->dev_lock);
	if (!disksize)
		return zram_refuse(dev, "writeback", buf, "the device has no size yet", -EINVAL);
	if (!z->backing.file)
		return zram_refuse(dev, "writeback", buf, "there is no backing device", -ENODEV);
	w = work_make(z);
	if (!w)
		return -ENOMEM;
	err = choose_by(w, text);
	if (!err)
		err = write_chosen(w);
	else if (err != -EINTR && err != -ERESTARTNOINTR)
		zram_refuse(dev, "writeback", buf, "not idle, huge, huge_idle, incompressible or pages", err);
	if (err)
		unchoose(z);
	work_free(w);
	zram_note_freed(z);
	return err;
}

static ssize_t writeback_store(struct device *dev, struct device_attribute *attr, const char *buf,
			       size_t len)
{
	struct zram *z = zram_of(dev);
	char *text = kstrdup(buf, GFP_KERNEL);
	ssize_t err;

	if (!text)
		return -ENOMEM;
	err = mutex_lock_killable(&z->pp_lock);
	if (!err) {
		err = write_back(dev, buf, text);
		mutex_unlock(&z->pp_lock);
	}
	kfree(text);
	return err ?: len;
}
static DEVICE_ATTR_WO(writeback);

/* ---- its limit, and how many at once ---- */

static ssize_t writeback_limit_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(zram_of(dev)->backing.limit));
}

static ssize_t writeback_limit_store(struct device *dev, struct device_attribute *attr,
				     const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	u64 units;

	if (kstrtoull(buf, 10, &units))
		return zram_refuse(dev, "writeback_limit", buf, "not a number", -EINVAL);
	if (down_write_killable(&z->dev_lock))
		return -EINTR;
	/* Whole pages, so that it does not pass by 0. */
	WRITE_ONCE(z->backing.limit, rounddown(units, UNITS));
	up_write(&z->dev_lock);
	return len;
}
static DEVICE_ATTR_RW(writeback_limit);

static ssize_t writeback_limit_enable_show(struct device *dev, struct device_attribute *attr,
					   char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(zram_of(dev)->backing.limit_on));
}

static ssize_t writeback_limit_enable_store(struct device *dev, struct device_attribute *attr,
					    const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	u64 on;

	if (kstrtoull(buf, 10, &on))
		return zram_refuse(dev, "writeback_limit_enable", buf, "not a number", -EINVAL);
	if (down_write_killable(&z->dev_lock))
		return -EINTR;
	WRITE_ONCE(z->backing.limit_on, on != 0);
	up_write(&z->dev_lock);
	return len;
}
static DEVICE_ATTR_RW(writeback_limit_enable);

static ssize_t writeback_batch_size_show(struct device *dev, struct device_attribute *attr,
					 char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(zram_of(dev)->backing.batch));
}

static ssize_t writeback_batch_size_store(struct device *dev, struct device_attribute *attr,
					  const char *buf, size_t len)
{
	u32 n;

	if (kstrtouint(buf, 10, &n) || !n)
		return zram_refuse(dev, "writeback_batch_size", buf, "not a number over 0", -EINVAL);
	WRITE_ONCE(zram_of(dev)->backing.batch, n);
	return len;
}
static DEVICE_ATTR_RW(writeback_batch_size);

static struct attribute *attrs[] = {
	&dev_attr_backing_dev.attr,
	&dev_attr_compressed_writeback.attr,
	&dev_attr_bd_stat.attr,
	&dev_attr_writeback.attr,
	&dev_attr_writeback_limit.attr,
	&dev_attr_writeback_limit_enable.attr,
	&dev_attr_writeback_batch_size.attr,
	NULL,
};
const struct attribute_group zram_backing_group = { .attrs = attrs };
