/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One zram device as swap, and pages whose compressed size is known: what every
 * program that runs inside a guest needs. Header only, so that each is one static file.
 *
 * A page of kind (data, seed) is: R random words, then one word repeated to the end. R
 * decides the compressed size. (A longer motif would do, but a codec that skips ahead
 * in random data then overlooks it for long.) No page is one repeated word from start to
 * end, so each takes a slot and an object. The same seed gives the same page, which is
 * how contents are verified.
 */
#ifndef EBB_ZRAMDEV_H
#define EBB_ZRAMDEV_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE        /* O_DIRECT */
#endif

#include <options.h>
#include <pages.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/swap.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#define MB (1UL << 20)

__attribute__((noreturn, format(printf, 1, 2)))
static inline void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "error: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static inline double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static inline void sleep_ms(double ms)
{
	struct timespec t = { (time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000L };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* A clock that takes no system call where there is one; now_ms() beside it tells its unit. */
static inline uint64_t ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return (uint64_t)(now_ms() * 1e6);
#endif
}

/* Whoever watches the console reads this machine's CPU clock then, while the guest is idle. */
static inline void mark(const char *what, const char *tag)
{
	printf("mark: %s %s\n", what, tag);
	fflush(stdout);
	sleep_ms(30);
}

/* -------------------------------------------------------------- contents */

enum data_kind { DATA_UNIFORM, DATA_MIXED, DATA_TEXT };

static inline uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* Bytes that do not compress: about 600 all told, or 64 to 3.5 KB, 1.8 KB on average. */
static inline unsigned data_random_words(enum data_kind kind, uint64_t seed)
{
	return kind == DATA_UNIFORM ? 68 : 4 + mix64(~seed) % 425;
}

/*
 * Words of 2 to 9 letters out of 4,096, the first ones more often: what a codec with an entropy
 * stage makes smaller than one without.
 */
static inline void data_text(char *page, uint64_t seed)
{
	uint64_t s = mix64(seed) | 1, word;
	unsigned at = 0, letters;

	while (at < PAGE) {
		word = next(&s);
		word = mix64((word & 0xfff) & (word >> 12) & 0xfff);
		for (letters = 2 + word % 8; letters && at < PAGE; letters--, word >>= 5)
			page[at++] = (char)('a' + (word & word >> 32 & 15));
		if (at < PAGE)
			page[at++] = ' ';
	}
}

static inline void data_fill(void *page, enum data_kind kind, uint64_t seed)
{
	uint64_t *w = page, s = mix64(seed) | 1;
	unsigned i, r = data_random_words(kind, seed);

	if (kind == DATA_TEXT) {
		data_text(page, seed);
		return;
	}
	for (i = 0; i < r; i++) {
		w[i] = next(&s);
	}
	s = mix64(s);
	for (i = r; i < PAGE / 8; i++)
		w[i] = s;
}

/* The first byte that is not as written, or -1. */
static inline long data_check(const void *page, enum data_kind kind, uint64_t seed)
{
	uint64_t want[PAGE / 8];
	const unsigned char *a = page, *b = (void *)want;
	long i;

	data_fill(want, kind, seed);
	if (!memcmp(page, want, PAGE))
		return -1;
	for (i = 0; a[i] == b[i]; i++)
		;
	return i;
}

static inline enum data_kind data_parse(const char *s)
{
	if (!strcmp(s, "uniform"))
		return DATA_UNIFORM;
	if (!strcmp(s, "mixed"))
		return DATA_MIXED;
	if (!strcmp(s, "text"))
		return DATA_TEXT;
	die("data '%s' is none of uniform, mixed, text", s);
}

/* -------------------------------------------------------------- the device */

static inline int file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static inline int file_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return -errno;
	buf[n] = 0;
	return 0;
}

static inline int zram_set(int dev, const char *attr, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/block/zram%d/%s", dev, attr);
	return file_write(path, text);
}

struct mm_stat { unsigned long long orig, compr, used, limit, peak, same, compacted, huge; };

static inline int zram_mm_stat(int dev, struct mm_stat *s)
{
	char path[128], buf[512];

	memset(s, 0, sizeof(*s));
	snprintf(path, sizeof(path), "/sys/block/zram%d/mm_stat", dev);
	if (file_read(path, buf, sizeof(buf)))
		return -1;
	return sscanf(buf, "%llu %llu %llu %llu %llu %llu %llu %llu", &s->orig, &s->compr, &s->used,
		      &s->limit, &s->peak, &s->same, &s->compacted, &s->huge) >= 7 ? 0 : -1;
}

/* A swap header as mkswap writes it: version 1, no bad pages. */
static inline void swap_header(const char *path, unsigned long bytes)
{
	static char page[1 << 16];
	unsigned long size = (unsigned long)sysconf(_SC_PAGESIZE);
	uint32_t *info = (uint32_t *)(page + 1024);
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	memset(page, 0, size);
	info[0] = 1;
	info[1] = bytes / size - 1;
	memcpy(page + size - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, page, size, 0) != (ssize_t)size || fsync(fd) || close(fd))
		die("%s: cannot write the swap header: %s", path, strerror(errno));
}

static inline void zram_must_set(int dev, const char *attr, const char *text)
{
	int err = zram_set(dev, attr, text);

	if (err)
		die("zram%d: %s '%s': %s", dev, attr, text, strerror(-err));
}

/* A device, and what it has from the first; what is NULL is left as it comes. */
struct zram_setup {
	const char *codec;
	const char *release_limit;      /* Ebb's */
	const char *comp_unit;          /* the same */
	const char *second;             /* of recomp_algorithm, priority 1 */
	const char *backing;            /* a block device, */
	const char *packed;             /* and its compressed_writeback */
};

/* A fresh one of so many bytes, which nobody uses. */
static inline void zram_make(int dev, const struct zram_setup *s, unsigned long bytes)
{
	char text[64];

	snprintf(text, sizeof(text), "/dev/zram%d", dev);
	swapoff(text);
	zram_must_set(dev, "reset", "1");
	if (s->codec)
		zram_must_set(dev, "comp_algorithm", s->codec);
	if (s->release_limit)
		zram_must_set(dev, "release_limit", s->release_limit);
	if (s->comp_unit)
		zram_must_set(dev, "comp_unit", s->comp_unit);
	if (s->second) {
		snprintf(text, sizeof(text), "algo=%s priority=1", s->second);
		zram_must_set(dev, "recomp_algorithm", text);
	}
	if (s->packed)
		zram_must_set(dev, "compressed_writeback", s->packed);
	if (s->backing)
		zram_must_set(dev, "backing_dev", s->backing);
	snprintf(text, sizeof(text), "%lu", bytes);
	zram_must_set(dev, "disksize", text);
}

/* The same as swap, of half the memory as distributions have it, or `bytes` if that is more. */
static inline void zram_swapon(int dev, const struct zram_setup *s, unsigned long bytes)
{
	struct sysinfo mem;
	unsigned long half;
	char path[64];

	if (sysinfo(&mem))
		die("sysinfo: %s", strerror(errno));
	half = mem.totalram / 2 * mem.mem_unit / MB * MB;
	if (bytes < half)
		bytes = half;
	snprintf(path, sizeof(path), "/dev/zram%d", dev);
	zram_make(dev, s, bytes);
	swap_header(path, bytes);
	if (swapon(path, SWAP_FLAG_PREFER | 100))
		die("swapon %s: %s", path, strerror(errno));
}

/* What this process has in swap, in bytes. */
static inline unsigned long swapped_bytes(void)
{
	char buf[4096], *p;

	if (file_read("/proc/self/smaps_rollup", buf, sizeof(buf)) || !(p = strstr(buf, "\nSwap:")))
		die("no Swap line in /proc/self/smaps_rollup");
	return strtoul(p + 6, NULL, 10) * 1024;
}

/*
 * Pages out [p, p + bytes) and says how much of it is in swap. Pages that are still in
 * a CPU's batch on their way to the lists are passed over, hence the rounds; what is
 * left in the end (a page or two shared with the fork) is not worth a failure.
 */
static inline unsigned long page_out(void *p, unsigned long bytes)
{
	unsigned long before = swapped_bytes(), done = 0;

	for (int round = 0; round < 20; round++) {
		if (madvise(p, bytes, MADV_PAGEOUT))
			die("MADV_PAGEOUT: %s", strerror(errno));
		done = swapped_bytes() - before;
		if (done >= bytes)
			break;
	}
	return done;
}

#endif
