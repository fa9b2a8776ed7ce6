/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sysfs.h - the files, for main.c, which hands them to device.c: the files call the device, and the
 * device knows of no file.
 */
#ifndef EBB_KERNEL_SYSFS_H
#define EBB_KERNEL_SYSFS_H

struct attribute_group;

/* Of /sys/block/zramN, NULL at the end. */
extern const struct attribute_group *zram_disk_groups[];

/* /sys/class/zram-control; after zram_devices_init(), since its files add and remove devices. */
int zram_control_register(void);
void zram_control_unregister(void);

#endif
