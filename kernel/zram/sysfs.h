/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sysfs.h - the files, for main.c, which hands them to device.c: the files call the device, and the
 * device knows of no file.  Also what the files share.
 */
#ifndef EBB_KERNEL_SYSFS_H
#define EBB_KERNEL_SYSFS_H

#include <linux/device.h>
#include <linux/sysfs.h>

#include "zram.h"

static inline struct zram *zram_of(struct device *dev)
{
	return dev_to_disk(dev)->private_data;
}

/* What a file shows that is one number of the device. */
#define ZRAM_SHOW(name, format, field)                                                          \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf) \
	{                                                                                       \
		return sysfs_emit(buf, format "\n", READ_ONCE(zram_of(dev)->field));            \
	}

/*
 * Says in the log, at a limited rate, that file did not take buf, and why; returns err.
 * dev is NULL for a file of zram-control.  Any context.
 */
ssize_t zram_refuse(struct device *dev, const char *file, const char *buf, const char *why,
		    ssize_t err);

/*
 * Takes dev_lock for writing, for what is fixed while the device has a size.  On an error it is not
 * held: -EBUSY: there is a size, and the log says so; -EINTR.
 */
int zram_lock_unused(struct device *dev, const char *file, const char *buf);

/*
 * Frees what is held back, and compacts the pool.  dev_lock is let go after each piece, so that
 * nobody waits behind a writer who waits for a whole compaction.  -EINTR; -EINVAL: no size yet.
 */
int zram_compact(struct zram *z);

/*
 * Takes the next word off *text, which is split in place; false: there is none left.
 * *value is what stands behind its '=', quotes off, or NULL.  Any context.
 */
bool zram_next_word(char **text, char **name, char **value);

/* algorithm.c */
extern struct device_attribute dev_attr_comp_algorithm, dev_attr_recomp_algorithm,
	dev_attr_algorithm_params;

/* idle.c, recompress.c */
extern struct device_attribute dev_attr_idle, dev_attr_recompress;

/* backing_file.c */
extern struct device_attribute dev_attr_backing_dev, dev_attr_compressed_writeback,
	dev_attr_writeback_auto, dev_attr_bd_stat;

/* writeback_file.c: its files, and those of backing_file.c */
extern const struct attribute_group zram_backing_group;

/* Of /sys/block/zramN, NULL at the end. */
extern const struct attribute_group *zram_disk_groups[];

/* /sys/class/zram-control; after zram_devices_init(), since its files add and remove devices. */
extern const struct class zram_control;

#endif
