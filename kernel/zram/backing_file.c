// SPDX-License-Identifier: GPL-2.0-only
/*
 * backing_file.c - which backing device there is: its opening and closing, and the files that say
 * it, how it keeps pages, whether those go there that find no room, and what went there and came
 * back (backing_dev, compressed_writeback, writeback_auto, bd_stat).
 */
#include "zram.h"

#include <linux/device.h>
#include <linux/fs.h>
#include <linux/kstrtox.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "sysfs.h"
#include "tier/writeback.h"

#define FOUR_K(pages) ((pages) << (PAGE_SHIFT - 12))

bool zram_backing_used;

void zram_backing_drop(struct zram *z)
{
	if (z->backing.file)
		filp_close(z->backing.file, NULL);
	zram_reads_drop(z->backing.reads);
	z->backing.file = NULL;
	z->backing.reads = NULL;
	z->backing.blocks = 0;
	z->backing.left_chosen = false;
	WRITE_ONCE(z->backing.is_auto, false);
}

static ssize_t backing_dev_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	ssize_t n;
	char *path;

	down_read(&z->dev_lock);
	if (!z->backing.file) {
		n = sysfs_emit(buf, "none\n");
	} else {
		path = file_path(z->backing.file, buf, PAGE_SIZE - 1);
		n = IS_ERR(path) ? PTR_ERR(path) : (ssize_t)strlen(path);
		if (n >= 0) {
			memmove(buf, path, n);
			buf[n++] = '\n';
		}
	}
	up_read(&z->dev_lock);
	return n;
}

/* What path names, for us alone, and its pages; an error was said in the log. */
static struct file *open_device(struct device *dev, const char *buf, const char *path, u64 *blocks)
{
	struct file *file = filp_open(path, O_RDWR | O_LARGEFILE | O_EXCL, 0);
	const char *wrong = NULL;
	struct inode *inode;
	int err = -EINVAL;

	if (IS_ERR(file)) {
		zram_refuse(dev, "backing_dev", buf, "it cannot be opened", PTR_ERR(file));
		return file;
	}
	inode = file->f_mapping->host;
	*blocks = i_size_read(inode) >> PAGE_SHIFT;
	if (!S_ISBLK(inode->i_mode)) {
		wrong = "not a block device";
		err = -ENOTBLK;
	} else if (!*blocks) {
		/* A zram without a size, this one for instance, has none, either. */
		wrong = "less than a page";
	} else if (*blocks > SLOT_BLOCK_MASK + 1) {
		wrong = "too large";
	} else if (bdev_logical_block_size(I_BDEV(inode)) > PAGE_SIZE) {
		wrong = "its blocks are larger than a page";
	}
	if (!wrong)
		return file;
	filp_close(file, NULL);
	return ERR_PTR(zram_refuse(dev, "backing_dev", buf, wrong, err));
}

/*
 * To open a device takes a lock of its disk's, which may be this one, and as long as it likes: so
 * that is done without dev_lock.
 */
static ssize_t set_device(struct device *dev, const char *buf, const char *path)
{
	struct zram *z = zram_of(dev);
	struct zram_reads *reads;
	struct file *file;
	ssize_t err;
	u64 blocks;

	err = zram_lock_unused(dev, "backing_dev", buf);
	if (err)
		return err;
	up_write(&z->dev_lock);
	file = open_device(dev, buf, path, &blocks);
	if (IS_ERR(file))
		return PTR_ERR(file);
	reads = zram_reads_make(z);
	if (!reads)
		err = zram_refuse(dev, "backing_dev", buf, "no memory for its reads", -ENOMEM);
	else
		err = zram_lock_unused(dev, "backing_dev", buf);
	if (!err) {
		WRITE_ONCE(zram_backing_used, true);
		/* The one that goes is closed later: to drop it only queues that. */
		swap(z->backing.file, file);
		swap(z->backing.reads, reads);
		z->backing.blocks = blocks;
		pr_info("%s: %llu pages go to %pg\n", z->disk->disk_name, blocks,
			file_bdev(z->backing.file));
		up_write(&z->dev_lock);
	}
	zram_reads_drop(reads);
	if (file)
		filp_close(file, NULL);
	return err;
}

static ssize_t backing_dev_store(struct device *dev, struct device_attribute *attr,
				 const char *buf, size_t len)
{
	char *path = kstrdup(buf, GFP_KERNEL);
	size_t n;
	ssize_t err;

	if (!path)
		return -ENOMEM;
	n = strlen(path);
	if (n && path[n - 1] == '\n')
		path[n - 1] = 0;
	err = set_device(dev, buf, path);
	kfree(path);
	return err ?: len;
}
DEVICE_ATTR_RW(backing_dev);

ZRAM_SHOW(compressed_writeback, "%d", backing.packed)

static ssize_t compressed_writeback_store(struct device *dev, struct device_attribute *attr,
					  const char *buf, size_t len)
{
	struct zram *z = zram_of(dev);
	bool on;
	int err;

	if (kstrtobool(buf, &on))
		return zram_refuse(dev, "compressed_writeback", buf, "neither yes nor no", -EINVAL);
	err = zram_lock_unused(dev, "compressed_writeback", buf);
	if (err)
		return err;
	WRITE_ONCE(z->backing.packed, on);
	up_write(&z->dev_lock);
	return len;
}
DEVICE_ATTR_RW(compressed_writeback);

ZRAM_SHOW(writeback_auto, "%d", backing.is_auto)

static ssize_t writeback_auto_store(struct device *dev, struct device_attribute *attr,
				    const char *buf, size_t len)
{
	bool on;

	if (kstrtobool(buf, &on))
		return zram_refuse(dev, "writeback_auto", buf, "neither yes nor no", -EINVAL);
	WRITE_ONCE(zram_of(dev)->backing.is_auto, on);
	return len;
}
DEVICE_ATTR_RW(writeback_auto);

static ssize_t bd_stat_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct zram *z = zram_of(dev);
	u64 blocks = 0, nreads = 0, writes = 0;

	down_read(&z->dev_lock);
	if (z->disksize) {
		blocks = store_blocks(&z->store);
		nreads = store_count(&z->store, CNT_BD_READS);
		writes = store_count(&z->store, CNT_BD_WRITES);
	}
	up_read(&z->dev_lock);
	return sysfs_emit(buf, "%8llu %8llu %8llu\n", FOUR_K(blocks), FOUR_K(nreads), FOUR_K(writes));
}
DEVICE_ATTR_RO(bd_stat);
