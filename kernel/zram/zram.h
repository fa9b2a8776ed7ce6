/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * zram.h - one device, and what its parts ask of each other.
 *
 *     module             --> main.c   --> all of these
 *     files              --> sysfs.c  --> algorithm.c, recompress.c, idle.c, device.c, store
 *                            device.c (life) --> algorithm.c, idle.c, blkdev.c, shrink.c,
 *                                                debugfs.c, store
 *                            writeback_file.c --> writeback.c --> store, the backing device
 *     block layer, swap  --> blkdev.c --> store, backing.c (reads of the backing device),
 *                                         incoming.c (writes to it without room in memory)
 *     memory pressure    --> shrink.c --> store
 *
 * A device has a store from the moment its disksize is written until it is reset.  Who uses
 * the store without dev_lock has the disk open: bios and slot-free notifies come only while
 * somebody does, and reset is refused then.
 *
 * Lock order, outermost first: device_mutex (device.c) > disk->open_mutex > pp_lock > limit_lock >
 * dev_lock > check_lock > the core's; partial-write mutex (blkdev.c) > the core's.  The shrinker
 * takes none but the core's spin locks, since its caller may hold any.  A backing device is opened
 * with none of these: that takes its open_mutex, and it may be this disk.
 *
 * A device in use makes what takes memory without dev_lock: swapping out may have to free that
 * memory first, and while a thread waits for dev_lock to write, all who read a file wait, too.
 */
#ifndef EBB_KERNEL_ZRAM_H
#define EBB_KERNEL_ZRAM_H

#undef pr_fmt
#define pr_fmt(fmt) "zram: " fmt

#include "tier/backed.h"
#include "tier/unit.h"
#include "store/store.h"
#include "codec/codecs.h"

#include <linux/blkdev.h>
#include <linux/kconfig.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/mempool.h>
#include <linux/printk.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

#define ZRAM_BLOCK SZ_4K                /* logical block, whatever the page size */
#define ZRAM_UNSET INT_MIN              /* of a codec's number */
/* Whether a part is compiled (Kbuild): all are, but in a kernel's tree what its options say. */
#define ZRAM_HAS(option) (!IS_ENABLED(CONFIG_ZRAM_EBB) || IS_ENABLED(CONFIG_ZRAM_##option))

struct attribute_group;
struct zram_incoming;
struct zram_reads;
/* Locks for writers of parts of pages: 64, or one that nobody takes where a page is a block. */
#define ZRAM_PARTIAL_BITS (PAGE_SHIFT > 12 ? 6 : 0)

struct shrinker;

/* A codec, and what it is told. */
struct zram_algorithm {
	const struct codec_ops *codec;  /* NULL: none */
	int level, winbits;             /* or ZRAM_UNSET */
	void *dict;                     /* NULL: none */
	size_t dict_bytes;
	bool named;                     /* these were given with algo= */
};

/* The backing device.  Written with dev_lock for writing, but for what is said. */
struct zram_backing {
	struct file *file;              /* NULL: none; while disksize is not 0 it stays */
	struct zram_reads *reads;       /* wb.h; as file */
	u64 blocks;                     /* pages that it has room for */
	bool packed;	/* it keeps compressed pages; fixed while disksize is not 0 */
	bool left_chosen;               /* a writeback may have left slots chosen; pp_lock */
	u64 unchosen;                   /* but none below this one; pp_lock */
	u32 batch;                      /* pages written at once; no lock */
	bool is_auto;                   /* writeback_auto; no lock */
};

/* writeback.c: how much may be written to it.  It stays over a reset. */
struct zram_wear {
	spinlock_t lock;                /* what follows; reads without are looks */
	bool limit_on;
	u64 limit;                      /* of what may be written, 4 KiB each */
	u64 set;                        /* 1 + how often limit was set */
};

/*
 * Orderings (docs/internals/locking.md).
 *
 * zram.ages (kernel), the array's address; a second.  Writes: dev_lock, release; who reads or
 *     writes a slot, WRITE_ONCE.  Reads: I/O and recompress, READ_ONCE, the access depends on
 *     it; idle, relaxed.  Order: release: the array is filled before its address; it goes when
 *     the disk is closed.  Without it: an age of nothing.
 * zram_incoming.waits (kernel).  Writes: the work, before its second try, followed by a full
 *     fence.  Reads: who let a block go, after a full fence.  Order: full on both sides: the
 *     second try sees that the block went, or the work is queued anew.  Without it: a write that
 *     waits for ever.
 */
struct zram {
	/* For every I/O. */
	u32 *ages;	/* idle.c: the second of the last touch by slot; NULL: not kept */
	struct store store;             /* zeroed while disksize is 0 */
	struct backed backed;           /* the blocks of its backing device; as store */
	struct units units;             /* as store; its pages are 0 without units */
	struct host_work tick;          /* while disksize is not 0 */
	struct host_work rest;          /* what the shrinker leaves; as tick */
	u64 looked;             /* ktime_get_ns() of the tick's last look for what is sparse */
	struct host_pages source;
	struct pages pages;             /* of it */

	/*
	 * Written with dev_lock for writing; release_limit with limit_lock, too, and dev_lock for
	 * reading or a store.  disksize and release_limit are read without, too.
	 */
	struct rw_semaphore dev_lock;
	u64 disksize;                   /* bytes; 0: there is no store */
	struct zram_algorithm algorithm[STORE_CODECS];  /* by priority; see algorithm.c */
	struct zram_algorithm early[STORE_CODECS + KERNEL_CODECS];      /* sets that wait */
	u64 mem_limit;                  /* bytes, whole pages; 0: none */
	u32 comp_unit;                  /* bytes that are compressed together */
	u64 release_limit;              /* bytes */
	/* Who writes release_limit; while he has it a store that is there stays. */
	struct mutex limit_lock;

	struct zram_backing backing;
	struct zram_wear wear;
	struct zram_incoming *incoming; /* incoming.c; as tick; NULL: no device to write to */
	struct mutex partial_write[1 << ZRAM_PARTIAL_BITS];     /* blkdev.c */
	mempool_t *read_bounces, *write_bounces;                /* the same */

	/*
	 * Held, maybe for minutes, by a thread that goes through all pages, so that the store
	 * stays.  It takes check_lock for a piece of them at a time.
	 */
	struct mutex pp_lock;
	/*
	 * Taken for reading by who writes pages back or recompresses, under pp_lock, and by the
	 * tick, which only tries to; for writing by who checks the store while the disk is closed.
	 * So no bio waits for it.
	 */
	struct rw_semaphore check_lock;

	struct gendisk *disk;
	bool claim;                     /* being reset or removed: no opens; disk->open_mutex */
	bool leaving;                   /* being removed: the claim is for good; disk->open_mutex */
	struct shrinker *shrinker;      /* as tick; NULL: there was no memory for one */
	host_a64 flush_pressure;        /* times that the shrinker had some freed */
	struct dentry *debugfs;
};

/* At least, between two looks for what is sparse. */
#define ZRAM_TICK_US ((u64)100000)

/*
 * After slots were emptied or memory was given back: asks for the tick, which fills the reserve and
 * looks for what is sparse.  Any context.
 */
static inline void zram_note_freed(struct zram *z)
{
	host_work_queue_delayed(&z->tick, ZRAM_TICK_US);
}

/* After a write: the same, and a reserve that was drawn on filled at once.  Any context. */
static inline void zram_note_written(struct zram *z)
{
	host_work_queue_delayed(&z->tick, unlikely(pages_are_short(&z->pages)) ? 0 : ZRAM_TICK_US);
}

/* Whether so many bytes may be compressed together. */
static inline bool zram_fits_unit(u64 bytes)
{
	u64 most = ZRAM_HAS(UNITS) ? max_t(u64, SZ_64K, PAGE_SIZE) : PAGE_SIZE;

	return is_power_of_2(bytes) && bytes >= PAGE_SIZE && bytes <= most;
}

/* Pages of a unit of a device with a store; 0: it has none. */
static inline unsigned int zram_unit_pages(const struct zram *z)
{
	return ZRAM_HAS(UNITS) ? z->units.pages : 0;
}

/* device.c */

/* The module's parameters: the most pages of a zspage, and comp_unit of a new device. */
extern unsigned int zram_chain_size, zram_comp_unit;

/* Before any other, with the files of each disk's folder in sysfs.  -EBUSY: no major number. */
int zram_devices_init(const struct attribute_group **files);
/* Removes the devices that there are.  Nobody adds one any more. */
void zram_devices_exit(void);
/* dev_lock is held for writing.  -EINVAL, -EOPNOTSUPP: algorithm_params; -ENOMEM. */
int zram_start(struct zram *z, u64 disksize);
/*
 * -EBUSY: open, mounted, in use for swap, or being reset; -EINTR: a fatal signal, and the device is
 * as it was, but some of its slots may be empty.
 */
int zram_reset(struct zram *z);
/* The device's number, or an error; -EINTR: a fatal signal, while others add or remove one. */
int zram_add(void);
/*
 * -ENODEV; -EBUSY: as zram_reset(), but that a reset under way is waited for; -EINTR: as
 * zram_reset() or zram_add().
 */
int zram_remove_nr(int nr);

/*
 * algorithm.c.  dev_lock is held for writing.  default: one codec, no parameters.  judge: 0, or
 * what disksize is to return, with the parameter named in the log.  config: sets what cfg has of
 * codecs.
 */
void zram_algorithms_default(struct zram *z);
int zram_algorithms_judge(const struct zram *z);
void zram_algorithms_config(const struct zram *z, struct store_config *cfg);

/*
 * idle.c.  new: of so many slots, as if each was touched now; NULL: there is no memory.  drop:
 * dev_lock is held for writing, and the disk is closed.
 */
extern bool zram_track_actime;                  /* the module's parameter */
u32 *zram_ages_new(u64 slots);
void zram_ages_drop(struct zram *z);

/* Notes that a slot was read or written now.  Any context. */
static inline void zram_touch(struct zram *z, u64 slot)
{
	u32 *ages = ZRAM_HAS(TRACK_ENTRY_ACTIME) ? READ_ONCE(z->ages) : NULL;

	if (unlikely(ages))
		WRITE_ONCE(ages[slot], (u32)ktime_get_boottime_seconds());
}

/* blkdev.c */
extern const struct block_device_operations zram_devops;
extern struct release_budget zram_budget;       /* of all devices together */
/* Of a new device, before its disk is there, -ENOMEM; and when that is gone, or was not made. */
int zram_blkdev_make(struct zram *z);
void zram_blkdev_drop(struct zram *z);

#define ZRAM_BATCH 32           /* pages written at once, unless told */

/* backing_file.c */
extern bool zram_backing_used;                  /* some device had one */
/* Closes it, if there is one.  dev_lock is held for writing, and the store is gone. */
void zram_backing_drop(struct zram *z);

/* backing.c */
/* The devices are gone, and the module goes. */
void zram_backing_exit(void);
/*
 * What reads of a backing device take, which are the device's own.  make: process context; NULL:
 * there is no memory.  drop: nothing is read any more; NULL is none.
 */
struct zram_reads *zram_reads_make(const struct zram *z);
void zram_reads_drop(struct zram_reads *t);
/*
 * Reads slot, which was on the backing device, into page.  0: parent ends when that is done, too;
 * or it was read at once; or an error of store_read().  Sleeps for memory only.
 */
int zram_backing_read(struct zram *z, u64 slot, struct page *page, struct bio *parent);
/* The same at once: sleeps for the device, and counts its error in `failed`. */
int zram_backing_read_wait(struct zram *z, u64 slot, struct page *page, enum store_counter failed);

/*
 * incoming.c: pages that the store has no room for.  start: makes what they take, if there is a
 * device to write to; dev_lock is held for writing, there is a store, and nobody uses it yet.
 * -ENOMEM.  stop: the disk is closed.
 */
int zram_incoming_start(struct zram *z);
void zram_incoming_stop(struct zram *z);

/* Whether it is for such pages now.  Who asks has the disk open. */
static inline bool zram_incoming_on(const struct zram *z)
{
	return ZRAM_HAS(WRITEBACK) && READ_ONCE(z->backing.is_auto) && z->incoming;
}

/*
 * Both count a write that fails.  Process context; they wait while many others are under way.
 *
 * bio: takes what is left of a bio, whole pages for whole slots.  The bio ends once more when that
 * has.
 * page: writes one page, and waits for it.  0, or an error of store_try_write(); -EIO: the device.
 */
void zram_incoming_bio(struct zram *z, struct bio *bio, const struct bvec_iter *rest);
int zram_incoming_page(struct zram *z, u64 slot, struct page *page);

/*
 * A block is no longer in somebody's hand, or no longer read: pages that wait for one are tried.
 * The caller keeps the store.  Any context.
 */
void zram_incoming_look(struct zram *z);

/* debugfs.c */
void zram_debugfs_init(void);
void zram_debugfs_exit(void);
void zram_debugfs_add(struct zram *z);
void zram_debugfs_remove(struct zram *z);

/*
 * shrink.c.  dev_lock is held for writing; remove waits for who is in the shrinker.  A store
 * without one works; it gives memory back later.
 */
void zram_shrink_rest(struct host_work *w);
void zram_shrinker_add(struct zram *z);
void zram_shrinker_remove(struct zram *z);

#endif
