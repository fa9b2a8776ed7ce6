// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Reads a device that is in use as swap, at random, until told to stop.
 *
 *   rawread DEVICE SECONDS THREADS
 *
 * What it reads is someone else's and may be anything; that it does not disturb them,
 * and that nothing is lost when a slot is freed under a reader, is for others to see.
 */
#define _GNU_SOURCE
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const char *path;
static unsigned long reads, errors;
static double seconds;

static void *reader(void *arg)
{
	uint64_t s = (uintptr_t)arg * 0x9e3779b97f4a7c15ULL | 1, size = 0;
	int fd = open(path, O_RDONLY | O_DIRECT);
	time_t start = time(NULL);
	void *buf;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) || posix_memalign(&buf, 4096, 16 * 4096)) {
		fprintf(stderr, "rawread: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	for (unsigned long n = 0; time(NULL) - start < seconds; n++) {
		next(&s);
		/* Mostly the low end, which is where swap is dense. */
		uint64_t page = (n & 3 ? s % 4096 : s) % (size / 4096);
		size_t len = 4096 * (1 + (s >> 32) % 16);

		if (page * 4096 + len > size)
			len = 4096;
		__atomic_add_fetch(pread(fd, buf, len, page * 4096) == (ssize_t)len ?
				   &reads : &errors, 1, __ATOMIC_RELAXED);
	}
	close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[32];
	int n;

	if (argc != 4 || (n = atoi(argv[3])) < 1 || n > 32)
		return fprintf(stderr, "usage: rawread DEVICE SECONDS THREADS (1 to 32)\n"), 2;
	path = argv[1];
	seconds = atof(argv[2]);
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, reader, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	printf("# rawread: %lu reads, %lu failed\n", reads, errors);
	return errors != 0;
}
