// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Threads on a few pages of a zram device, without turns: reads, writes, discards, compaction,
 * sysfs.
 *
 *   contend N [--ms MS] [--threads N] [--files N] [--pages N]       of /dev/zramN
 *
 * --files threads, 1 if not said, read and write files of the device in sysfs all the while.
 * Whatever the others read must be a whole page that somebody wrote to this place, or zeros. A page
 * says which: its first word is (place, version), and all others follow from it. The versions are
 * of a few lengths, so that objects of one class come, go and move all the time.
 */
#define _GNU_SOURCE
#include "options.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define WORDS (PAGE / 8)

/* Those with a text are written, or read at other times if they can be. */
static const struct {
	const char *name, *text;
	bool both;
} files[] = {
	{ "mm_stat", NULL, 0 }, { "io_stat", NULL, 0 }, { "release_stat", NULL, 0 }, { "disksize", NULL, 0 },
	{ "release_limit", "0", 1 }, { "release_limit", "64M", 1 }, { "mem_limit", "0", 0 }, { "mem_limit", "1G", 0 },
	{ "compact", "1", 0 },
};
static const char *number;
static unsigned long pages = 64, ms = 3000, threads = 3, lookers = 1;
static atomic_ulong reads, writes, discards, wrong;
static double end;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Noise in front, 32 to 3600 bytes of it, then a word that repeats. */
static void make(uint64_t *p, uint64_t name)
{
	static const unsigned short noise[] = { 4, 30, 34, 150, 250, 450 };

	page_fill(p, name, noise[name % 6]);
	p[0] = name;
}

static void check(const uint64_t *p, uint64_t place)
{
	uint64_t good[WORDS] = { 0 };

	if (p[0])
		make(good, p[0]);
	if (memcmp(p, good, PAGE) || (p[0] && p[0] >> 32 != place + 1)) {
		if (!atomic_fetch_add(&wrong, 1))
			printf("contend: place %lu holds %016lx...\n", (unsigned long)place, (unsigned long)p[0]);
	}
}

/* One that is not there, as in-tree zram has not all, is passed over. */
static void touch(unsigned int which, bool read_it)
{
	const char *text = files[which].text;
	char path[80], buf[512];
	int fd;

	if (read_it && files[which].both)
		text = NULL;
	snprintf(path, sizeof(path), "/sys/block/zram%s/%s", number, files[which].name);
	fd = open(path, text ? O_WRONLY : O_RDONLY);
	if (fd < 0)
		return;
	if ((text ? write(fd, text, strlen(text)) : read(fd, buf, sizeof(buf))) < 0)
		atomic_fetch_add(&wrong, 1);
	close(fd);
}

static void *look(void *arg)
{
	uint64_t s = (uint64_t)(uintptr_t)arg * 0x2545f4914f6cdd1d, r;
	unsigned int n = sizeof(files) / sizeof(*files);

	while (now() < end) {
		r = next(&s);
		/* A walk over all classes is long: less often. */
		touch((unsigned int)(r >> 8) % (r % 8 ? n - 1 : n), r >> 40 & 1);
	}
	return NULL;
}

static void *work(void *arg)
{
	uint64_t s = (uint64_t)(uintptr_t)arg * 0x2545f4914f6cdd1d, *p, version = 0, range[2];
	unsigned long at, n, i;
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/dev/zram%s", number);
	fd = open(path, O_RDWR | O_DIRECT);
	if (fd < 0 || posix_memalign((void **)&p, PAGE, 8 * PAGE)) {
		printf("contend: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	while (now() < end) {
		uint64_t r = next(&s);

		at = next(&s) % pages, n = 1 + next(&s) % (pages - at < 8 ? pages - at : 8);
		if (r % 8 == 1) {
			page_widen(&at, &n);
			range[0] = at * PAGE, range[1] = n * PAGE;
			atomic_fetch_add(ioctl(fd, BLKDISCARD, range) ? &wrong : &discards, 1);
		} else if (r & 1) {
			for (i = 0; i < n; i++)
				make(p + i * WORDS, (at + i + 1) << 32 |
				     (uintptr_t)arg << 24 | (++version & 0xffffff));
			atomic_fetch_add(pwrite(fd, p, n * PAGE, (off_t)(at * PAGE)) ==
					 (ssize_t)(n * PAGE) ? &writes : &wrong, 1);
		} else {
			atomic_fetch_add(pread(fd, p, n * PAGE, (off_t)(at * PAGE)) ==
					 (ssize_t)(n * PAGE) ? &reads : &wrong, 1);
			for (i = 0; i < n; i++)
				check(p + i * WORDS, at + i);
		}
	}
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct option o[] = {
		{ "ms", &ms, 1, 3600000 }, { "threads", &threads, 1, 8 }, { "files", &lookers, 0, 8 }, { "pages", &pages, 1, 1 << 20 }, { }
	};
	pthread_t t[16];

	if (argc < 2)
		return fprintf(stderr, "usage: contend N [--ms MS] [--threads N] [--files N] [--pages N]\n"), 2;
	number = argv[1];
	options(argc, argv, 2, o);
	end = now() + (double)ms / 1000;
	for (unsigned long i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(i + 1));
	for (unsigned long i = 0; i < lookers; i++)
		pthread_create(&t[threads + i], NULL, look, (void *)(uintptr_t)(i + 1));
	for (unsigned long i = 0; i < threads + lookers; i++)
		pthread_join(t[i], NULL);
	printf("# contend: %lu reads, %lu writes, %lu discards, %lu wrong\n", reads, writes, discards, wrong);
	return wrong || !reads || !writes || !discards;
}
