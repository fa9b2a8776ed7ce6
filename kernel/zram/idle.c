// SPDX-License-Identifier: GPL-2.0-only
/*
 * idle.c - owns the ages of slots, and the file `idle`, which marks pages that nobody has touched.
 *
 *     all        every page in an object is idle
 *     SECONDS    those not touched for longer are, and the others are not
 *
 * In-tree keeps a second in each slot for that.  Here the seconds are an array that is there when
 * somebody asks for an age, or from the start with track_actime=1; what was not touched since then
 * counts as touched at that moment.  Until then I/O pays a look at a pointer.
 */
#include "zram.h"

#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/vmalloc.h>

#include "tier/idle.h"
#include "sysfs.h"

bool zram_track_actime;

static u32 now_s(void)
{
	return (u32)ktime_get_boottime_seconds();
}

u32 *zram_ages_new(u64 slots)
{
	u32 *ages = __vmalloc(slots * sizeof(*ages),
			      GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
	u32 now = now_s();
	u64 i;

	for (i = 0; ages && i < slots; i++) {
		ages[i] = now;
		if (i % SZ_64K == 0)
			cond_resched();
	}
	return ages;
}

void zram_ages_drop(struct zram *z)
{
	vfree(z->ages);
	WRITE_ONCE(z->ages, NULL);
}

/*
 * Makes them for a device in use.  The array is made without dev_lock, which others wait for; it is
 * no matter if the device was reset meanwhile, as long as it has as many slots.
 */
static int need_ages(struct zram *z)
{
	u64 slots = READ_ONCE(z->disksize) >> PAGE_SHIFT;
	u32 *ages;
	int err = 0;

	if (READ_ONCE(z->ages))
		return 0;
	if (!slots)
		return -EINVAL;
	ages = zram_ages_new(slots);
	if (!ages)
		return fatal_signal_pending(current) ? -EINTR : -ENOMEM;
	if (down_write_killable(&z->dev_lock)) {
		vfree(ages);
		return -EINTR;
	}
	if (z->store.slots != slots)
		err = -EINVAL;
	else if (!z->ages)
		/* Who touches a slot finds either none or an array that is filled. */
		smp_store_release(&z->ages, ages);
	if (z->ages != ages)
		vfree(ages);
	up_write(&z->dev_lock);
	return err;
}

/* ages: whether the cutoff counts.  -EINVAL: there is no size (any more); -EINTR. */
static int idle_mark(struct zram *z, bool ages, u32 cutoff)
{
	bool more = true;
	int err = 0;
	u64 at = 0;

	while (more && !err) {
		if (host_interrupted() || down_read_killable(&z->dev_lock))
			return -EINTR;
		if (!z->disksize || (ages && !z->ages))
			err = -EINVAL;
		else
			more = store_mark_idle(&z->store, &at, z->store.slots,
					       ages ? z->ages : NULL, cutoff);
		up_read(&z->dev_lock);
		cond_resched();
	}
	return err;
}

static ssize_t idle_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t len)
{
	struct zram *z = zram_of(dev);
	u32 age = 0, now = now_s();
	bool all = sysfs_streq(buf, "all");
	int err;

	if (!all && (!ZRAM_HAS(TRACK_ENTRY_ACTIME) || kstrtouint(buf, 0, &age)))
		return zram_refuse(dev, "idle", buf, "neither all nor seconds", -EINVAL);
	err = all ? 0 : need_ages(z);
	/* No page is older than the machine is up. */
	if (!all && age >= now && (!err || err == -EINVAL))
		return len;
	if (!err)
		err = idle_mark(z, !all, now - age);
	if (err == -EINVAL)
		return zram_refuse(dev, "idle", buf, "the device has no size yet", err);
	if (err == -ENOMEM)
		return zram_refuse(dev, "idle", buf, "no memory for the ages of pages", err);
	return err ?: len;
}
DEVICE_ATTR_WO(idle);
