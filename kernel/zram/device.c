// SPDX-License-Identifier: GPL-2.0-only
/*
 * device.c - the life of devices: made, started, reset, removed.
 *
 *     added --disksize--> started --reset--> added --hot_remove--> gone
 *
 * Owns the table of devices (device_mutex).  Reset and removal need the disk to be closed, and
 * claim it so that it stays closed.
 */
#include "zram.h"

#include <linux/idr.h>
#include <linux/mutex.h>
#include <linux/part_stat.h>
#include <linux/slab.h>

#include "tier/writeback.h"

static DEFINE_IDR(devices);             /* device_mutex */
static DEFINE_MUTEX(device_mutex);

/* From zram_devices_init(), and the same ever after. */
static int major;
static const struct attribute_group **disk_files;

/* ---- the reserve of all devices that have a store ---- */

static struct pages_reserve reserve;
static unsigned int reserve_users;      /* reserve_mutex, as the pages' array */
static DEFINE_MUTEX(reserve_mutex);

/* It has what one device needs at most (pages.h), but for what each has for itself. */
static int device_reserve_get(void)
{
	int err = 0;

	mutex_lock(&reserve_mutex);
	if (!reserve_users)
		err = pages_reserve_init(&reserve,
					 pages_reserve_for(host_total_bytes(), nr_cpu_ids) -
					 PAGES_TAKE_BATCH);
	reserve_users += !err;
	mutex_unlock(&reserve_mutex);
	return err;
}

static void device_reserve_put(struct zram *z)
{
	mutex_lock(&reserve_mutex);
	if (!--reserve_users)
		pages_reserve_destroy(&reserve, &z->source);
	mutex_unlock(&reserve_mutex);
}

/* ---- a device's store ---- */

/* As units_tidy(); -EBUSY: somebody checks the store, and wants it to stay as it is. */
static int device_tidy(struct zram *z)
{
	int more;

	if (!zram_unit_pages(z))
		return 0;
	if (!down_read_trylock(&z->check_lock))
		return -EBUSY;
	more = units_tidy(&z->store);
	up_read(&z->check_lock);
	return more;
}

static void device_tick(struct host_work *w)
{
	struct zram *z = container_of(w, struct zram, tick);
	bool again = pages_refill(&z->pages);
	u64 now = ktime_get_ns();
	int more;

	if (now - z->looked >= ZRAM_TICK_US * 1000) {
		z->looked = now;
		shrink_look(&z->store.shrink, store_count(&z->store, CNT_ROOM));
	} else {
		/* Too early: who freed something meanwhile saw us queued, so come again. */
		again = true;
	}
	more = device_tidy(z);
	if (more > 0)
		host_work_queue(w);
	else if (more < 0 || again)
		host_work_queue_delayed(w, ZRAM_TICK_US);
}

unsigned int zram_chain_size = 16, zram_comp_unit = PAGE_SIZE;

static void set_defaults(struct zram *z)
{
	zram_algorithms_default(z);
	z->mem_limit = 0;
	z->comp_unit = zram_comp_unit;
	WRITE_ONCE(z->release_limit, release_default_limit());
}

struct release_budget zram_budget;

/* Undoes zram_start() from store_init() on.  Who comes too late finds no slots: -ERANGE. */
static void device_end_store(struct zram *z)
{
	if (ZRAM_HAS(WRITEBACK))
		zram_incoming_stop(z);
	zram_shrinker_remove(z);
	host_work_destroy(&z->tick);
	shrink_set_ended(&z->store.shrink, true);
	host_work_destroy(&z->rest);
	store_destroy(&z->store);
	if (ZRAM_HAS(WRITEBACK))
		backed_destroy(&z->backed);
	if (ZRAM_HAS(UNITS))
		units_destroy(&z->units);
	pages_destroy(&z->pages);
	device_reserve_put(z);
	zram_ages_drop(z);
	memset(&z->store, 0, sizeof(z->store));
}

int zram_start(struct zram *z, u64 disksize)
{
	struct store_config cfg = {
		.slots = disksize >> PAGE_SHIFT,
		.unit_pages = z->comp_unit > PAGE_SIZE ? z->comp_unit >> PAGE_SHIFT : 0,
		.chain = zram_chain_size,
		.mem_limit = z->mem_limit,
		.release_limit = z->release_limit,
		.release_budget = &zram_budget,
	};
	int err = zram_algorithms_judge(z);

	if (err) {
		/* Tools that try one codec after the other count on a clean slate. */
		zram_algorithms_default(z);
		return err;
	}
	zram_algorithms_config(z, &cfg);
	/*
	 * The slot numbers in objects have 32 bits; a table past that is past most memories, too.
	 */
	if (cfg.slots > U32_MAX)
		return -ENOMEM;
	err = device_reserve_get();
	if (err)
		return err;
	err = pages_init(&z->pages, &z->source, PAGES_TAKE_BATCH, &reserve);
	if (err)
		goto no_pages;
	err = host_work_init(&z->tick, device_tick, numa_node_id());
	if (err)
		goto no_work;
	err = host_work_init_slow(&z->rest, zram_shrink_rest, numa_node_id());
	if (err)
		goto no_rest;
	err = store_init(&z->store, &z->pages, &cfg);
	if (err)
		goto no_store;
	if (ZRAM_HAS(WRITEBACK))
		err = store_back(&z->store, &z->backed, z->backing.blocks);
	if (ZRAM_HAS(UNITS) && !err && cfg.unit_pages)
		err = store_set_units(&z->store, &z->units, cfg.unit_pages);
	if (!err && zram_track_actime) {
		/* Nobody does I/O yet. */
		z->ages = zram_ages_new(cfg.slots);
		err = z->ages ? 0 : -ENOMEM;
	}
	if (ZRAM_HAS(WRITEBACK) && !err)
		err = zram_incoming_start(z);
	if (err) {
		device_end_store(z);
		return err;
	}
	host_a64_set(&z->flush_pressure, 0);
	zram_shrinker_add(z);
	/* If there was no memory for all of the reserve, it comes before the first write. */
	if (unlikely(pages_are_short(&z->pages)))
		zram_note_written(z);
	WRITE_ONCE(z->disksize, disksize);
	set_capacity_and_notify(z->disk, disksize >> SECTOR_SHIFT);
	return 0;

no_store:
	memset(&z->store, 0, sizeof(z->store));
	if (err == -EINVAL) {
		pr_notice_ratelimited("%s: algorithm_params dict: none that this algorithm takes\n",
				      z->disk->disk_name);
		zram_algorithms_default(z);
	}
	host_work_destroy(&z->rest);
no_rest:
	host_work_destroy(&z->tick);
no_work:
	pages_destroy(&z->pages);
no_pages:
	device_reserve_put(z);
	return err;
}

/* The disk is closed and claimed, or deleted. */
static void device_stop(struct zram *z)
{
	mutex_lock(&z->pp_lock);
	mutex_lock(&z->limit_lock);
	down_write(&z->dev_lock);
	set_capacity_and_notify(z->disk, 0);
	part_stat_set_all(z->disk->part0, 0);
	if (z->disksize) {
		WRITE_ONCE(z->disksize, 0);
		device_end_store(z);
	}
	if (ZRAM_HAS(WRITEBACK))
		zram_backing_drop(z);
	set_defaults(z);
	up_write(&z->dev_lock);
	mutex_unlock(&z->limit_lock);
	mutex_unlock(&z->pp_lock);
}

/*
 * Waits for who has pp_lock.  He ends soon (zram_wb_stopped()), but not before his writes, which on
 * a backing device that hangs may never end.  Afterwards nobody begins anything on a device that is
 * claimed.  -EINTR: a fatal signal, and nothing has changed.
 */
static int await_others(struct zram *z)
{
	if (mutex_lock_killable(&z->pp_lock))
		return -EINTR;
	mutex_unlock(&z->pp_lock);
	return 0;
}

/* ---- claims ---- */

static int device_claim(struct zram *z)
{
	int err = 0;

	if (mutex_lock_killable(&z->disk->open_mutex))
		return -EINTR;
	if (disk_openers(z->disk) || z->claim)
		err = -EBUSY;
	else
		WRITE_ONCE(z->claim, true);
	mutex_unlock(&z->disk->open_mutex);
	return err;
}

static void device_unclaim(struct zram *z)
{
	mutex_lock(&z->disk->open_mutex);
	WRITE_ONCE(z->claim, z->leaving);
	mutex_unlock(&z->disk->open_mutex);
}

/* Empties the slots with rests, so that device_stop() has little left.  -EINTR: not all of them. */
static int empty_slots(struct zram *z)
{
	bool more = true;
	u64 at = 0;

	while (more) {
		if (host_interrupted() || down_read_killable(&z->dev_lock))
			return -EINTR;
		more = z->disksize && store_free_piece(&z->store, &at, z->store.slots);
		if (more)
			zram_note_freed(z);
		up_read(&z->dev_lock);
		cond_resched();
	}
	return 0;
}

int zram_reset(struct zram *z)
{
	int err = device_claim(z);

	if (err)
		return err;
	sync_blockdev(z->disk->part0);
	err = await_others(z);
	if (!err)
		err = empty_slots(z);
	if (!err)
		device_stop(z);
	device_unclaim(z);
	return err;
}

/* ---- devices ---- */

int zram_add(void)
{
	struct queue_limits lim = {
		.logical_block_size = ZRAM_BLOCK,
		.physical_block_size = PAGE_SIZE,
		.io_min = PAGE_SIZE,
		.io_opt = PAGE_SIZE,
		.max_hw_discard_sectors = UINT_MAX,
		.max_write_zeroes_sectors = UINT_MAX,
		.features = BLK_FEAT_SYNCHRONOUS | BLK_FEAT_STABLE_WRITES,
	};
	struct zram *z;
	int nr, err;

	z = kvzalloc(sizeof(*z), GFP_KERNEL);
	if (!z)
		return -ENOMEM;
	init_rwsem(&z->dev_lock);
	mutex_init(&z->limit_lock);
	mutex_init(&z->pp_lock);
	init_rwsem(&z->check_lock);
	z->backing.batch = ZRAM_BATCH;
	spin_lock_init(&z->wear.lock);
	z->wear.set = 1;
	err = zram_blkdev_make(z);
	if (!err)
		err = mutex_lock_killable(&device_mutex);
	if (err)
		goto no_mutex;
	nr = idr_alloc(&devices, z, 0, 0, GFP_KERNEL);
	if (nr < 0) {
		err = nr;
		goto no_number;
	}
	z->disk = blk_alloc_disk(&lim, NUMA_NO_NODE);
	if (IS_ERR(z->disk)) {
		err = PTR_ERR(z->disk);
		goto no_disk;
	}
	z->disk->major = major;
	z->disk->first_minor = nr;
	z->disk->minors = 1;
	z->disk->flags |= GENHD_FL_NO_PART;
	z->disk->fops = &zram_devops;
	z->disk->private_data = z;
	snprintf(z->disk->disk_name, DISK_NAME_LEN, "zram%d", nr);
	set_defaults(z);
	set_capacity(z->disk, 0);
	err = device_add_disk(NULL, z->disk, disk_files);
	if (err)
		goto no_add;
	if (ZRAM_HAS(MEMORY_TRACKING))
		zram_debugfs_add(z);
	mutex_unlock(&device_mutex);
	/* By its number: another may remove it by now. */
	pr_info("Added device: zram%d\n", nr);
	return nr;

no_add:
	put_disk(z->disk);
no_disk:
	pr_err("cannot add device zram%d: error %d\n", nr, err);
	idr_remove(&devices, nr);
no_number:
	mutex_unlock(&device_mutex);
no_mutex:
	zram_blkdev_drop(z);
	kvfree(z);
	return err;
}

/* device_mutex is held.  must: a fatal signal does not end it. */
static int device_remove(struct zram *z, bool must)
{
	bool resetting;

	/*
	 * del_gendisk() waits for a reset under way, since it removes the file that reset came by.
	 * The reset must not let openers in when it is over, since nobody looks for them again.
	 */
	mutex_lock(&z->disk->open_mutex);
	resetting = z->claim;
	if (disk_openers(z->disk)) {
		mutex_unlock(&z->disk->open_mutex);
		return -EBUSY;
	}
	WRITE_ONCE(z->claim, true);
	z->leaving = true;
	mutex_unlock(&z->disk->open_mutex);

	if (!resetting) {
		sync_blockdev(z->disk->part0);
		if (!must && (await_others(z) || empty_slots(z))) {
			z->leaving = false;
			device_unclaim(z);
			return -EINTR;
		}
		device_stop(z);
	}
	if (ZRAM_HAS(MEMORY_TRACKING))
		zram_debugfs_remove(z);
	pr_info("Removed device: %s\n", z->disk->disk_name);
	del_gendisk(z->disk);
	/* A disksize may have been written until the file was gone. */
	device_stop(z);
	put_disk(z->disk);
	zram_blkdev_drop(z);
	kvfree(z);
	return 0;
}

int zram_remove_nr(int nr)
{
	struct zram *z;
	int err = -ENODEV;

	if (mutex_lock_killable(&device_mutex))
		return -EINTR;
	z = idr_find(&devices, nr);
	if (z) {
		err = device_remove(z, false);
		if (!err)
			idr_remove(&devices, nr);
	}
	mutex_unlock(&device_mutex);
	return err;
}

/* ---- all of them ---- */

int zram_devices_init(const struct attribute_group **files)
{
	int err = register_blkdev(0, "zram");

	if (err <= 0) {
		pr_err("cannot get a major number: error %d\n", err);
		return -EBUSY;
	}
	major = err;
	disk_files = files;
	return 0;
}

void zram_devices_exit(void)
{
	struct zram *z;
	int nr;

	mutex_lock(&device_mutex);
	idr_for_each_entry(&devices, z, nr)
		WARN_ONCE(device_remove(z, true) != 0, "ebb: a device is open while the module goes\n");
	mutex_unlock(&device_mutex);
	idr_destroy(&devices);
	unregister_blkdev(major, "zram");
}
