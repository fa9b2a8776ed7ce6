/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * zram.h - one device, and what its parts ask of each other.
 *
 *     sysfs.c, debugfs.c --> device.c (life) --> store, pcp (core/)
 *     block layer, swap  --> blkdev.c        --> store
 *     memory pressure    --> shrink.c        --> store, pcp
 *
 * A device has a store from the moment its disksize is written until it is reset.  Who uses
 * the store without dev_lock has the disk open: bios and slot-free notifies come only while
 * somebody does, and reset is refused then.
 *
 * Lock order, outermost first: disk->open_mutex > dev_lock > partial-write mutex (blkdev.c) >
 * the core's.  The shrinker takes dev_lock by trylock alone, since its caller may hold any.
 */
#ifndef EBB_KERNEL_ZRAM_H
#define EBB_KERNEL_ZRAM_H

#undef pr_fmt
#define pr_fmt(fmt) "zram: " fmt

#include "store.h"

#include <linux/blkdev.h>
#include <linux/limits.h>
#include <linux/printk.h>
#include <linux/rwsem.h>
#include <linux/sizes.h>

#define ZRAM_BLOCK SZ_4K                /* logical block, whatever the page size */
#define ZRAM_DECAY_US 100000            /* between two looks at idle page lists */
#define ZRAM_LEVEL_UNSET INT_MIN

struct shrinker;

struct zram {
	/* For every I/O. */
	struct store store;             /* zeroed while disksize is 0 */
	struct host_work decay;         /* while disksize is not 0 */
	struct pcp pcp;
	struct host_pages pages;

	/* Written with dev_lock for writing; disksize and release_limit are read without, too. */
	struct rw_semaphore dev_lock;
	u64 disksize;                   /* bytes; 0: there is no store */
	const struct codec_ops *codec;
	int level;                      /* or ZRAM_LEVEL_UNSET */
	u64 mem_limit;                  /* bytes, whole pages; 0: none */
	u64 release_limit;              /* bytes */

	struct gendisk *disk;
	bool claim;                     /* being reset or removed: no opens; disk->open_mutex */
	bool leaving;                   /* being removed: the claim is for good; disk->open_mutex */
	struct shrinker *shrinker;      /* NULL: had no memory for one */
	host_a64 flush_pressure;        /* by the shrinker; the core counts the other causes */
	struct dentry *debugfs;
};

/* After memory was given back: have idle page lists looked after.  Any context. */
static inline void zram_note_freed(struct zram *z)
{
	host_work_queue_delayed(&z->decay, ZRAM_DECAY_US);
}

/* device.c */

/* dev_lock is held for writing.  -EINVAL, -EOPNOTSUPP: the level; -ENOMEM. */
int zram_start(struct zram *z, u64 disksize);
/* -EBUSY: open, mounted, in use for swap, or being reset. */
int zram_reset(struct zram *z);
/* The device's number, or an error. */
int zram_add(void);
/* -ENODEV; -EBUSY: as zram_reset(), but that a reset under way is waited for. */
int zram_remove_nr(int nr);

/* blkdev.c */
extern const struct block_device_operations zram_devops;
void zram_limits(struct queue_limits *lim);
int zram_blkdev_init(void);
void zram_blkdev_exit(void);

/* sysfs.c */
int zram_add_disk(struct zram *z);
int zram_control_register(void);
void zram_control_unregister(void);

/* debugfs.c */
void zram_debugfs_init(void);
void zram_debugfs_exit(void);
void zram_debugfs_add(struct zram *z);
void zram_debugfs_remove(struct zram *z);

/* shrink.c */
void zram_shrinker_add(struct zram *z);
void zram_shrinker_remove(struct zram *z);

#endif
