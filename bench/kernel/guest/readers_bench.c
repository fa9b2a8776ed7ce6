// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long does a write of one page take that others read without a pause?
 *
 *   readers_bench --readers N [--writes N] [--codec NAME] [--tag TEXT]
 *
 * N threads read the first page of a zram device (O_DIRECT) and check it; the main thread
 * writes it, and times each write.  It begins a write when somebody has read since the last one: on
 * a busy machine it would otherwise be done before the readers have their turn.
 *
 * One line of JSON goes to the console: "bench: {...}".
 */
#define _GNU_SOURCE
#include "zramdev.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#define MAX_READERS 64
#define MAX_WRITES  100000

static atomic_ulong reads, reading;
static atomic_bool stop;
static double ms[MAX_WRITES];

static void *page(void)
{
	void *p;

	if (posix_memalign(&p, PAGE, PAGE))
		die("no memory");
	return p;
}

static int device(void)
{
	int fd = open("/dev/zram0", O_RDWR | O_DIRECT);

	if (fd < 0)
		die("/dev/zram0: %s", strerror(errno));
	return fd;
}

/* The last word of a page is the one that it was made from. */
static void *reader(void *arg)
{
	uint64_t *p = page(), want[PAGE / 8];
	int fd = device();

	(void)arg;
	for (unsigned long n = 0; !stop; n++) {
		if (pread(fd, p, PAGE, 0) != (ssize_t)PAGE)
			die("read: %s", strerror(errno));
		page_fill(want, p[PAGE / 8 - 1], 200);
		if (memcmp(p, want, PAGE))
			die("a page that nobody wrote");
		atomic_fetch_add(n ? &reads : &reading, 1);
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static const char *codec = "lz4", *tag = "-";
	static unsigned long readers = 1, writes = 100;
	static const struct option known[] = {
		{ "readers", &readers, 1, MAX_READERS }, { "writes", &writes, 1, MAX_WRITES },
		{ "codec", .text = &codec }, { "tag", .text = &tag }, { }
	};
	pthread_t thread[MAX_READERS];
	unsigned long before, last = 0;
	uint64_t *p;
	int err, fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	if ((err = zram_set(0, "reset", "1")) || (err = zram_set(0, "comp_algorithm", codec)) ||
	    (err = zram_set(0, "disksize", "16M")))
		die("a device of '%s': %s", codec, strerror(-err));
	p = page();
	fd = device();
	page_fill(p, 1, 200);
	if (pwrite(fd, p, PAGE, 0) != (ssize_t)PAGE)
		die("write: %s", strerror(errno));
	for (unsigned long i = 0; i < readers; i++)
		if (pthread_create(&thread[i], NULL, reader, NULL))
			die("no thread");
	while (reading < readers)
		sleep_ms(1);
	before = reads;
	for (unsigned long i = 0; i < writes; i++) {
		double t;

		page_fill(p, i + 2, 200);
		while (reads == last)
			sched_yield();
		last = reads;
		t = now_ms();
		if (pwrite(fd, p, PAGE, 0) != (ssize_t)PAGE)
			die("write: %s", strerror(errno));
		ms[i] = now_ms() - t;
	}
	before = reads - before;
	stop = true;
	for (unsigned long i = 0; i < readers; i++)
		pthread_join(thread[i], NULL);
	close(fd);
	qsort(ms, writes, sizeof(*ms), by_size);
	printf("bench: {\"tag\": \"%s\", \"kind\": \"readers\", \"readers\": %lu, \"codec\": \"%s\", "
	       "\"writes\": %lu, \"reads\": %lu, \"write_p50_us\": %.2f, "
	       "\"write_p90_us\": %.2f, \"write_max_us\": %.1f}\n",
	       tag, readers, codec, writes, before, ms[writes / 2] * 1e3, ms[writes * 9 / 10] * 1e3,
	       ms[writes - 1] * 1e3);
	return 0;
}
