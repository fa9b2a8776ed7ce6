// SPDX-License-Identifier: GPL-2.0-only
/*
 * writeback_file.c - the file `writeback`: who asks for it has pages written to the backing device,
 * and the files of its limit and of how many are written at once.
 *
 *     idle | huge | huge_idle | incompressible     also as type=...: what they have to be
 *     page_index=N page_indexes=A-B ...            these, whatever they are
 *
 * The thread that writes to the file chooses the pages, and a work has them written by the engine,
 * writeback.c: a page without room may wait for blocks that are being written, and the thread may
 * be of a low priority, or throttled.
 */
#include "zram.h"

#include <linux/completion.h>
#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "sysfs.h"
#include "wb.h"

#define REQUESTS_MAX 1024u      /* whatever the batch */
#define LOOK (HZ / 20)          /* jiffies: who waits looks so often whether it is to be frozen */

/* ---- choosing ---- */

static int writeback_parse_type(const char *text, unsigned int *want)
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

	while (!err && zram_next_word(&text, &name, &value)) {
		if (!value || !strcmp(name, "type")) {
			err = writeback_parse_type(value ?: name, &want);
			return err ?: zram_wb_choose(w, from, end, want);
		}
		if (strcmp(name, "page_index") && strcmp(name, "page_indexes"))
			continue;
		err = parse_range(value, !strcmp(name, "page_indexes"), slots, &from, &end);
		if (!err)
			err = zram_wb_choose(w, from, end, 0);
	}
	return err;
}

/* ---- writing ---- */

struct by_hand {
	struct work_struct work;
	struct wb_work *w;
	struct completion over;
	int err;
};

static void write_chosen(struct work_struct *work)
{
	struct by_hand *h = container_of(work, struct by_hand, work);
	/* Memory is not to be had by writing to a disk, which may be this one. */
	unsigned int noio = memalloc_noio_save();

	h->err = zram_wb_write(h->w);
	memalloc_noio_restore(noio);
	complete(&h->over);
}

/* As zram_wb_write().  The work ends with what it has in flight, whatever comes to who waits. */
static int write_by_work(struct wb_work *w)
{
	struct by_hand h = { .w = w };
	int err = 0;

	init_completion(&h.over);
	INIT_WORK_ONSTACK(&h.work, write_chosen);
	queue_work(w->z->backing.reads->writes, &h.work);
	while (!err && wait_for_completion_killable_timeout(&h.over, LOOK) <= 0)
		err = zram_wb_stopped(w->z);
	if (err)
		WRITE_ONCE(w->stop, true);
	flush_work(&h.work);
	destroy_work_on_stack(&h.work);
	return err ?: h.err;
}

/* pp_lock is held. */
static ssize_t write_back(struct device *dev, const char *buf, char *text, struct wb_work *w)
{
	struct zram *z = zram_of(dev);
	u64 disksize;
	ssize_t err;

	if (down_read_killable(&z->dev_lock))
		return -EINTR;
	disksize = z->disksize;
	up_read(&z->dev_lock);
	if (!disksize)
		return zram_refuse(dev, "writeback", buf, "the device has no size yet", -EINVAL);
	if (!z->backing.file)
		return zram_refuse(dev, "writeback", buf, "there is no backing device", -ENODEV);
	err = choose_by(w, text);
	if (!err)
		err = write_by_work(w);
	else if (err != -EINTR && err != -ERESTARTNOINTR)
		zram_refuse(dev, "writeback", buf, "not idle, huge, huge_idle, incompressible or pages", err);
	if (err)
		zram_wb_unchoose(z);
	zram_note_freed(z);
	return err;
}

static ssize_t writeback_store(struct device *dev, struct device_attribute *attr, const char *buf,
			       size_t len)
{
	struct zram *z = zram_of(dev);
	char *text = kstrdup(buf, GFP_KERNEL);
	u64 slots = READ_ONCE(z->disksize) >> PAGE_SHIFT;
	u32 most = slots ? min_t(u64, slots, REQUESTS_MAX) : 1;
	struct wb_work *w = zram_wb_make(z, min(READ_ONCE(z->backing.batch), most));
	ssize_t err = text && w ? mutex_lock_killable(&z->pp_lock) : -ENOMEM;

	if (!err) {
		err = write_back(dev, buf, text, w);
		mutex_unlock(&z->pp_lock);
	}
	if (w)
		zram_wb_free(w);
	kfree(text);
	return err ?: len;
}
static DEVICE_ATTR_WO(writeback);

/* ---- its limit, and how many at once ---- */

ZRAM_SHOW(writeback_limit, "%llu", wear.limit)

static ssize_t writeback_limit_store(struct device *dev, struct device_attribute *attr,
				     const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	u64 units;

	if (kstrtoull(buf, 10, &units))
		return zram_refuse(dev, "writeback_limit", buf, "not a number", -EINVAL);
	spin_lock(&z->wear.lock);
	/* Whole pages, so that it does not pass by 0. */
	WRITE_ONCE(z->wear.limit, rounddown(units, WB_UNITS));
	z->wear.set++;
	spin_unlock(&z->wear.lock);
	return len;
}
static DEVICE_ATTR_RW(writeback_limit);

ZRAM_SHOW(writeback_limit_enable, "%d", wear.limit_on)

static ssize_t writeback_limit_enable_store(struct device *dev, struct device_attribute *attr,
					    const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	u64 on;

	if (kstrtoull(buf, 10, &on))
		return zram_refuse(dev, "writeback_limit_enable", buf, "not a number", -EINVAL);
	spin_lock(&z->wear.lock);
	WRITE_ONCE(z->wear.limit_on, on != 0);
	spin_unlock(&z->wear.lock);
	return len;
}
static DEVICE_ATTR_RW(writeback_limit_enable);

ZRAM_SHOW(writeback_batch_size, "%u", backing.batch)

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
	&dev_attr_writeback_auto.attr,
	&dev_attr_bd_stat.attr,
	&dev_attr_writeback.attr,
	&dev_attr_writeback_limit.attr,
	&dev_attr_writeback_limit_enable.attr,
	&dev_attr_writeback_batch_size.attr,
	NULL,
};
const struct attribute_group zram_backing_group = { .attrs = attrs };
