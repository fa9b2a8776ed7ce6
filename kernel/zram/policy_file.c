// SPDX-License-Identifier: GPL-2.0-only
/*
 * policy_file.c - the files that say what a device does by itself (policy.c), and tell what it did.
 *
 * They may be written in any order, before disksize or after it; a reset sets them back.
 */
#include "zram.h"

#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "sysfs.h"
#include "wb.h"

/* ---- what is done for the ages of pages ---- */

/* Sets a number of the policy's; without a thread that is wanted it stays as it was. */
static int set(struct zram *z, u32 *field, u32 value, bool on)
{
	struct policy_run *spare;
	int err = zram_policy_lock(z, on, &spare);

	if (err)
		return err;
	WRITE_ONCE(*field, value);
	zram_policy_unlock(z, spare);
	return 0;
}

static ssize_t set_age(struct device *dev, const char *file, const char *buf, size_t len,
		       u32 *field)
{
	u32 seconds;
	int err;

	if (kstrtouint(buf, 10, &seconds))
		return zram_refuse(dev, file, buf, "not a number of seconds", -EINVAL);
	err = set(zram_of(dev), field, seconds, seconds);
	if (err == -ENOMEM)
		zram_refuse(dev, file, buf, "no memory for a thread", err);
	return err ?: len;
}

ZRAM_SHOW(writeback_age, "%u", policy.writeback_age)

static ssize_t writeback_age_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t len)
{
	return set_age(dev, "writeback_age", buf, len, &zram_of(dev)->policy.writeback_age);
}
static DEVICE_ATTR_RW(writeback_age);

ZRAM_SHOW(recompress_age, "%u", policy.recompress_age)

static ssize_t recompress_age_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t len)
{
	return set_age(dev, "recompress_age", buf, len, &zram_of(dev)->policy.recompress_age);
}
static DEVICE_ATTR_RW(recompress_age);

ZRAM_SHOW(recompress_cpu, "%u", policy.cpu)

static ssize_t recompress_cpu_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	u32 percent;
	int err;

	if (kstrtouint(buf, 10, &percent) || !percent || percent > 100)
		return zram_refuse(dev, "recompress_cpu", buf, "not a number from 1 to 100", -EINVAL);
	err = set(z, &z->policy.cpu, percent, false);
	return err ?: len;
}
static DEVICE_ATTR_RW(recompress_cpu);

/* ---- room for what is written ---- */

ZRAM_SHOW(writeback_auto, "%d", policy.is_auto)

/*
 * On an error nothing has changed.  0 without *done: neither, as the device is another by now, and
 * this is to be called again.
 */
static int try_auto(struct zram *z, bool on, bool *done)
{
	struct zram_incoming *in = NULL;
	struct policy_run *spare;
	int err = on ? zram_incoming_make(z, &in) : 0;

	if (err)
		return err;
	err = zram_policy_lock(z, on, &spare);
	if (!err) {
		*done = !on || zram_incoming_use(z, &in);
		if (*done) {
			WRITE_ONCE(z->policy.is_auto, on);
			/* Before the thread looks at the marks. */
			zram_ahead_set(z);
		}
		zram_policy_unlock(z, spare);
	}
	zram_incoming_drop(in);
	return err;
}

static ssize_t writeback_auto_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	bool on, done = false;
	int err = 0;

	if (kstrtobool(buf, &on))
		return zram_refuse(dev, "writeback_auto", buf, "neither yes nor no", -EINVAL);
	while (!err && !done)
		err = try_auto(z, on, &done);
	if (err == -ENOMEM)
		zram_refuse(dev, "writeback_auto", buf, "no memory for its requests", err);
	return err ?: len;
}
static DEVICE_ATTR_RW(writeback_auto);

static ssize_t set_mark(struct device *dev, const char *file, const char *buf, size_t len,
			u64 *mark)
{
	struct zram *z = zram_of(dev);
	u64 bytes;

	if (!zram_parse_size(buf, &bytes))
		return zram_refuse(dev, file, buf, "not a size", -EINVAL);
	if (down_write_killable(&z->dev_lock))
		return -EINTR;
	WRITE_ONCE(*mark, bytes);
	zram_ahead_set(z);
	up_write(&z->dev_lock);
	zram_policy_kick(z);
	return len;
}

ZRAM_SHOW(writeback_high, "%llu", policy.high)

static ssize_t writeback_high_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t len)
{
	return set_mark(dev, "writeback_high", buf, len, &zram_of(dev)->policy.high);
}
static DEVICE_ATTR_RW(writeback_high);

ZRAM_SHOW(writeback_low, "%llu", policy.low)

static ssize_t writeback_low_store(struct device *dev, struct device_attribute *attr,
				   const char *buf, size_t len)
{
	return set_mark(dev, "writeback_low", buf, len, &zram_of(dev)->policy.low);
}
static DEVICE_ATTR_RW(writeback_low);

/* ---- how much may be written for all that ---- */

ZRAM_SHOW(writeback_budget, "%llu", wear.budget)

static ssize_t writeback_budget_store(struct device *dev, struct device_attribute *attr,
				      const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	u64 bytes;

	if (!zram_parse_size(buf, &bytes))
		return zram_refuse(dev, "writeback_budget", buf, "not a size", -EINVAL);
	spin_lock(&z->wear.lock);
	WRITE_ONCE(z->wear.budget, bytes);
	spin_unlock(&z->wear.lock);
	zram_policy_kick(z);
	return len;
}
static DEVICE_ATTR_RW(writeback_budget);

/* ---- what was done ---- */

/*
 * passes looked (of ageing: whole ones, slots of the one under way)
 * tried smaller saved (recompressed: pages, pages, bytes)
 * aged ahead incoming (pages written for their age, ahead of need, instead of being kept)
 * spent (bytes written in the last 24 hours)  works (0 or 1: now)
 */
static ssize_t policy_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	struct zram_policy_stats *p = &z->policy.stats;

	return sysfs_emit(buf, "%8llu %8llu %8llu %8llu %8llu %8llu %8llu %8llu %8llu %8u\n",
			  READ_ONCE(p->passes), READ_ONCE(p->looked), READ_ONCE(p->tried),
			  READ_ONCE(p->smaller), READ_ONCE(p->saved), READ_ONCE(p->aged),
			  READ_ONCE(p->ahead), host_a64_read(&p->incoming), zram_wear_spent(z),
			  READ_ONCE(p->works));
}
static DEVICE_ATTR_RO(policy_stat);

static struct attribute *attrs[] = {
	&dev_attr_writeback_auto.attr,
	&dev_attr_writeback_high.attr,
	&dev_attr_writeback_low.attr,
	&dev_attr_writeback_age.attr,
	&dev_attr_writeback_budget.attr,
	&dev_attr_recompress_age.attr,
	&dev_attr_recompress_cpu.attr,
	&dev_attr_policy_stat.attr,
	NULL,
};
const struct attribute_group zram_policy_group = { .attrs = attrs };
