/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sysfs_disk.h - the disk behind the device of sysfs.c, a part of that file: what opens it, what it
 * says of itself, and its BLOCKS pages.
 */
#ifndef EBB_FUZZ_SYSFS_DISK_H
#define EBB_FUZZ_SYSFS_DISK_H

static struct gendisk disk_behind = { .disk_name = "disk" };
static struct block_device bdev = { .bd_disk = &disk_behind };
static struct inode inode = { .bdev = &bdev };
static struct address_space mapping = { .host = &inode };
static struct file opened = { .f_mapping = &mapping };
static char opened_path[PAGE_SIZE];
static int opens, reads;        /* and sets of what its reads take */
static struct page block[BLOCKS];

/*
 * What a path names: the disk, of a page for each of its letters past "/d"; one with large blocks
 * if the last of them is L; else a file.
 */
static bool is_disk(const char *path)
{
	return !strncmp(path, "/d", 2);
}

static bool has_large_blocks(const char *path)
{
	return is_disk(path) && path[strlen(path) - 1] == 'L';
}

/* One after the other may be open for a moment: the old one, and the new one in its place. */
struct file *filp_open(const char *path, int flags, mode_t mode)
{
	(void)mode;
	must(shim_at_rest() && flags & O_EXCL && opens <= 1);
	if (below)
		return ERR_PTR(below);
	if (strlen(path) >= PAGE_SIZE - 1)
		return ERR_PTR(-ENAMETOOLONG);
	if (!*path)
		return ERR_PTR(-ENOENT);
	/* The old one's path is not asked for any more, unless this one is refused. */
	if (!opens || (is_disk(path) && path[2] && !has_large_blocks(path)))
		strcpy(opened_path, path);
	inode.i_mode = is_disk(path) ? S_IFBLK : S_IFREG;
	inode.size = is_disk(path) ? (long long)(strlen(path) - 2) << PAGE_SHIFT : 1;
	disk_behind.private_data = has_large_blocks(path) ? &disk_behind : NULL;
	opens++;
	return &opened;
}

int filp_close(struct file *file, void *id)
{
	must(file == &opened && !id && opens-- > 0);
	return 0;
}

char *file_path(struct file *file, char *buf, int room)
{
	size_t n = strlen(opened_path);

	must(file == &opened);
	if (n >= (size_t)room)
		return ERR_PTR(-ENAMETOOLONG);
	return strcpy(buf + (size_t)room - n - 1, opened_path);
}

unsigned int bdev_logical_block_size(const struct block_device *b)
{
	return b->bd_disk->private_data ? 2 * PAGE_SIZE : 512;
}

/* Its errors are what `below` says. */
void submit_bio(struct bio *bio)
{
	u64 at = bio->bi_iter.bi_sector >> (PAGE_SHIFT - SECTOR_SHIFT);

	must(shim_mutexes() == 1 && bio->op == REQ_OP_WRITE && bio->bi_iter.bi_size == PAGE_SIZE);
	must(at < BLOCKS && bio->bi_bdev == &bdev);
	bio->bi_status = below == -ENODEV ? BLK_STS_IOERR : BLK_STS_OK;
	if (!bio->bi_status)
		memcpy(&block[at], bio->bi_io_vec->bv_page, PAGE_SIZE);
	bio->bi_end_io(bio);
}

#endif
