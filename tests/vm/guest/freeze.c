// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * freeze.c - freezes all processes but this one, as a hibernation does, and looks at files
 * meanwhile.
 *
 *     freeze SECONDS FILE...     the kernel gives up by itself after 20 s, which is an error here
 *
 * Prints "frozen in N ms", then each file's first line as it was right after the freeze, and once
 * more after SECONDS: "FILE: LINE | LINE".  Exit status 1: there was no freeze.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/suspend_ioctls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"

#define FILES_MAX 16
#define LINE_MAX_BYTES 256

static void first_line(const char *path, char *line)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, LINE_MAX_BYTES - 1);

	if (fd >= 0)
		close(fd);
	line[n < 0 ? 0 : n] = 0;
	line[strcspn(line, "\n")] = 0;
	if (n < 0)
		strcpy(line, strerror(errno));
}

int main(int argc, char **argv)
{
	static char before[FILES_MAX][LINE_MAX_BYTES], after[FILES_MAX][LINE_MAX_BYTES];
	int fd = open("/dev/snapshot", O_RDONLY), n = argc - 2, i;
	long start, took;

	if (fd < 0 || n < 1 || n > FILES_MAX) {
		fprintf(stderr, "freeze: /dev/snapshot: %s\n", strerror(errno));
		return 2;
	}
	start = ms();
	if (ioctl(fd, SNAPSHOT_FREEZE)) {
		fprintf(stderr, "freeze: %s after %ld ms\n", strerror(errno), ms() - start);
		return 1;
	}
	took = ms() - start;
	for (i = 0; i < n; i++)
		first_line(argv[i + 2], before[i]);
	sleep((unsigned int)atoi(argv[1]));
	for (i = 0; i < n; i++)
		first_line(argv[i + 2], after[i]);
	if (ioctl(fd, SNAPSHOT_UNFREEZE)) {
		fprintf(stderr, "freeze: thaw: %s\n", strerror(errno));
		return 1;
	}
	printf("frozen in %ld ms\n", took);
	for (i = 0; i < n; i++)
		printf("%s: %s | %s\n", argv[i + 2], before[i], after[i]);
	return 0;
}
