/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A backing device for zram in a guest: a loop device whose file lies in memory that is never
 * swapped.  All of the file is there before anything is measured.
 */
#ifndef EBB_BACKING_H
#define EBB_BACKING_H

#include "zramdev.h"

#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define BACKING "/dev/loop0"

/* Writes all of fd, which is open with O_DIRECT, a MiB at a time; MB/s. */
static inline double backing_fill(int fd, unsigned long mb)
{
	char *buf = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double t = now_ms();

	if (buf == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	memset(buf, 0x5a, MB);
	for (unsigned long i = 0; i < mb; i++)
		if (pwrite(fd, buf, MB, (off_t)(i * MB)) != (ssize_t)MB)
			die("%s: a write at MiB %lu: %s", BACKING, i, strerror(errno));
	munmap(buf, MB);
	return (double)mb / (now_ms() - t) * 1e3;
}

/* A loop device that has none yet gets a file of so many MiB. */
static inline void backing_attach(int fd, unsigned long mb)
{
	struct loop_config c = { 0 };
	int file;

	mkdir("/back", 0700);
	if (mount("back", "/back", "tmpfs", 0, "noswap,size=100%"))
		die("a tmpfs on /back: %s", strerror(errno));
	file = open("/back/file", O_RDWR | O_CREAT | O_EXCL, 0600);
	if (file < 0 || ftruncate(file, (off_t)(mb * MB)))
		die("/back/file: %s", strerror(errno));
	c.fd = (unsigned)file;
	c.block_size = 4096;
	if (ioctl(fd, LOOP_CONFIGURE, &c))
		die("%s: LOOP_CONFIGURE: %s", BACKING, strerror(errno));
	close(file);
	backing_fill(fd, mb);
}

/*
 * BACKING of at least so many MiB; the MB/s of writing as much in order, in pieces of a MiB.  A
 * program that needs a larger one than an earlier program of this boot had fails.
 */
static inline double backing_make(unsigned long mb)
{
	int fd = open(BACKING, O_RDWR | O_DIRECT);
	unsigned long long bytes;
	double speed;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		die("%s: %s", BACKING, strerror(errno));
	if (!bytes)
		backing_attach(fd, mb);
	speed = backing_fill(fd, mb);
	close(fd);
	return speed;
}

struct bd_stat { unsigned long long blocks, reads, writes; };

static inline struct bd_stat zram_bd_stat(int dev)
{
	struct bd_stat s;
	char path[128], buf[256];

	snprintf(path, sizeof(path), "/sys/block/zram%d/bd_stat", dev);
	if (file_read(path, buf, sizeof(buf)) ||
	    sscanf(buf, "%llu %llu %llu", &s.blocks, &s.reads, &s.writes) != 3)
		die("no %s", path);
	return s;
}

/* All pages of zram that are idle from now on go to its backing device; ms of the writeback. */
static inline double backing_write_all(int dev)
{
	double t;

	zram_must_set(dev, "idle", "all");
	t = now_ms();
	zram_must_set(dev, "writeback", "idle");
	return now_ms() - t;
}

#endif
