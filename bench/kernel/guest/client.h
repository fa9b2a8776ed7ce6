/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who keeps the pages that a guest swaps out: zram, or zswap over a disk.
 *
 *   disk NULL    swap on /dev/zram0
 *   disk a path  swap on that disk, zswap before it with room for everything, so nothing is written
 */
#ifndef EBB_CLIENT_H
#define EBB_CLIENT_H

#include "zramdev.h"

#include <linux/fs.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define ZSWAP_PARAM "/sys/module/zswap/parameters/"
#define ZSWAP_STAT  "/sys/kernel/debug/zswap/"
#define GROUPS      "/sys/fs/cgroup"

static inline void zswap_set(const char *name, const char *text)
{
	char path[128];
	int err;

	snprintf(path, sizeof(path), ZSWAP_PARAM "%s", name);
	err = file_write(path, text);
	if (err)
		die("zswap: %s '%s': %s", name, text, strerror(-err));
}

/* A number of debugfs. */
static inline unsigned long long zswap_stat(const char *name)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), ZSWAP_STAT "%s", name);
	if (file_read(path, text, sizeof(text)))
		die("no %s", path);
	return strtoull(text, NULL, 10);
}

/* The number after `key`, which begins with a newline unless it is in the first line. */
static inline unsigned long long keyed(const char *path, const char *key)
{
	static char text[1 << 16];
	char *p;

	if (file_read(path, text, sizeof(text)) || !(p = strstr(text, key)))
		die("no '%s' in %s", key, path);
	return strtoull(p + strlen(key), NULL, 10);
}

static inline const char *client_device(const char *disk)
{
	return disk ? disk : "/dev/zram0";
}

/* Swap of `bytes` at least, without what it had before; of `s` zswap takes the codec alone. */
static inline void client_on(const char *disk, const struct zram_setup *s, unsigned long bytes)
{
	unsigned long long size = 0;
	int fd;

	if (!disk) {
		zram_swapon(0, s, bytes);
		return;
	}
	swapoff(disk);
	fd = open(disk, O_RDONLY);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) || size < bytes)
		die("%s: %llu bytes, %lu are wanted", disk, size, bytes);
	close(fd);
	zswap_set("compressor", s->codec);
	zswap_set("max_pool_percent", "60");
	zswap_set("shrinker_enabled", "N");
	zswap_set("enabled", "Y");
	swap_header(disk, bytes);
	if (swapon(disk, SWAP_FLAG_PREFER | 100))
		die("swapon %s: %s", disk, strerror(errno));
}

static inline void client_off(const char *disk)
{
	swapoff(client_device(disk));
}

/* Bytes of the pool, and of compressed pages where those are counted (zram; else 0). */
struct client_use { unsigned long long pool, compr; };

static inline struct client_use client_use(const char *disk)
{
	struct mm_stat s;

	if (disk)
		return (struct client_use){ zswap_stat("pool_total_size"), 0 };
	if (zram_mm_stat(0, &s))
		die("cannot read mm_stat");
	return (struct client_use){ s.used, s.compr };
}

/* Reads (0) or writes (1) that zram0 failed. */
static inline unsigned long zram_failed(int writes)
{
	unsigned long n[2];
	char text[256];

	if (file_read("/sys/block/zram0/io_stat", text, sizeof(text)) ||
	    sscanf(text, "%lu %lu", &n[0], &n[1]) != 2)
		die("no io_stat");
	return n[writes];
}

/* Pages that the client could not take since the boot: zram's are lost, zswap's go to the disk. */
static inline unsigned long long client_refused(const char *disk)
{
	return disk ? zswap_stat("reject_alloc_fail") + zswap_stat("reject_kmemcache_fail") :
		      zram_failed(1);
}

static inline unsigned long client_failed_reads(const char *disk)
{
	return disk ? zswap_stat("decompress_fail") : zram_failed(0);
}

/* All that was swapped out is in zswap's memory, but for a hundredth. */
static inline void client_has(const char *disk, unsigned long bytes)
{
	unsigned long long stored;

	if (!disk)
		return;
	stored = zswap_stat("stored_pages");
	if (stored < bytes / PAGE / 100 * 99 || zswap_stat("written_back_pages"))
		die("zswap has %llu of %lu pages", stored, bytes / PAGE);
}

/* Pages that went out and came in since the boot, through zswap or not. */
static inline unsigned long long client_out(const char *disk)
{
	return keyed("/proc/vmstat", "\npswpout ") +
	       (disk ? keyed("/proc/vmstat", "\nzswpout ") : 0);
}

static inline unsigned long long client_in(const char *disk)
{
	return keyed("/proc/vmstat", "\npswpin ") +
	       (disk ? keyed("/proc/vmstat", "\nzswpin ") : 0);
}

/* Pages of compressed memory, whoever's, by the kernel's count. Each CPU may owe some dozens. */
static inline unsigned long client_pages_now(void)
{
	return keyed("/proc/vmstat", "\nnr_zspages ");
}

/* The same with what CPUs owe. */
static inline unsigned long client_pages(void)
{
	if (file_write("/proc/sys/vm/stat_refresh", "1"))
		die("no stat_refresh");
	return client_pages_now();
}

/* Bytes of slabs that zsmalloc.c has for its descriptors and handles; none if it is not built. */
static inline unsigned long long allocator_slabs(void)
{
	static const char *const cache[] = { "\nzs_handle ", "\nzspage " };
	static char text[1 << 17];
	unsigned long pages, slabs, sum = 0;
	char *p;

	if (file_read("/proc/slabinfo", text, sizeof(text)))
		die("no slabinfo");
	for (unsigned i = 0; i < 2; i++) {
		p = strstr(text, cache[i]);
		if (!p)
			continue;
		if (sscanf(p + strlen(cache[i]), "%*u %*u %*u %*u %lu : tunables %*u %*u %*u : slabdata %*u %lu",
			   &pages, &slabs) != 2)
			die("slabinfo is not as expected");
		sum += pages * slabs;
	}
	return sum * PAGE;
}

/*
 * For how long the locks of swap clusters were held since held_begin(), in a kernel that counts it
 * (bench/linux/holds); false in another.
 */
#define HELD "/sys/module/swapfile/parameters/held"
#define HELD_COUNTS 160

struct held { unsigned long max_ns, p99_ns, p50_ns, holds; };

static inline bool held_begin(void)
{
	char zeros[2 * HELD_COUNTS + 1];

	for (int i = 0; i < HELD_COUNTS; i++)
		memcpy(zeros + 2 * i, "0,", 2);
	zeros[2 * HELD_COUNTS - 1] = 0;
	return !file_write(HELD, zeros) && !file_write(HELD "_max", "0");
}

static inline bool held_end(struct held *h)
{
	unsigned long n[HELD_COUNTS], sum = 0;
	char text[8192], *p = text;

	memset(h, 0, sizeof(*h));
	if (file_read(HELD, text, sizeof(text)))
		return false;
	for (int i = 0; i < HELD_COUNTS; i++) {
		n[i] = strtoul(p, &p, 10);
		p += *p == ',';
		h->holds += n[i];
	}
	/* The upper end of a count's range. */
	for (int i = 0; i < HELD_COUNTS; i++) {
		unsigned long end = (5UL + i % 4) << (i / 4) >> 2;

		sum += n[i];
		if (!h->p50_ns && sum * 2 >= h->holds)
			h->p50_ns = end;
		if (!h->p99_ns && sum * 100 >= h->holds * 99)
			h->p99_ns = end;
	}
	if (file_read(HELD "_max", text, sizeof(text)))
		die("no " HELD "_max");
	h->max_ns = strtoul(text, NULL, 10);
	h->p99_ns = h->p99_ns < h->max_ns ? h->p99_ns : h->max_ns;
	h->p50_ns = h->p50_ns < h->max_ns ? h->p50_ns : h->max_ns;
	return true;
}

/* The calling process, and those that it starts, are in a group of their own from now on. */
static inline void group_enter(const char *name)
{
	char path[128];

	mount("none", GROUPS, "cgroup2", 0, NULL);
	snprintf(path, sizeof(path), GROUPS "/%s", name);
	if (file_write(GROUPS "/cgroup.subtree_control", "+memory") ||
	    (mkdir(path, 0755) && errno != EEXIST))
		die("no group %s: %s", name, strerror(errno));
	snprintf(path, sizeof(path), GROUPS "/%s/cgroup.procs", name);
	if (file_write(path, "0"))
		die("%s refuses", path);
}

/* Compressed bytes that zswap keeps for a group. */
static inline unsigned long long group_zswap(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), GROUPS "/%s/memory.stat", name);
	return keyed(path, "\nzswap ");
}

#endif
