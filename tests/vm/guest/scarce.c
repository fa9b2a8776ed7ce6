// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * scarce.c - zram0 while the kernel has no page to give.
 *
 *     scarce MIB     a recompression, while somebody writes and reads files of the device:
 *                    "N ms; ERROR", how long he waits, and what ended the recompression
 *
 * The device has at least so many MiB, an algorithm to recompress by, and no users.
 *
 * The kernel is told to keep more than is free (min_free_kbytes), of which tasks of real-time
 * priority may have half: so some wait for memory, and others do not.
 *
 * One page of 16 is idle and gets smaller, so new objects take pages and old ones give none back.
 * A file that waits for dev_lock to write waits for who has it to read, and those who read behind
 * it.  2: something failed that is not what this is about.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "pages.h"

#define Z "/sys/block/zram0/"
#define KEEP "/proc/sys/vm/min_free_kbytes"
#define EACH 16u                /* pages, of which one is idle */
#define KTHREADD 2              /* it makes a thread for works, if it has to, and has no reserve */
#define LONGEST 3000            /* ms, after which there is memory again in any case */

/* Of all processes; there before memory is short. */
static struct shared {
	volatile int armed;             /* who undoes it is there */
	volatile int begun, ended;      /* the recompression */
	volatile int err;
} *shared;

static void die(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static void rest(long n)
{
	nanosleep(&(struct timespec){ n / 1000, n % 1000 * 1000000 }, NULL);
}

static int opened(const char *path, int flags)
{
	int fd = open(path, flags);

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	return fd;
}

/* 0, or an errno. */
static int put(int fd, const char *text)
{
	return pwrite(fd, text, strlen(text), 0) < 0 ? errno : 0;
}

static void must_put(int fd, const char *text)
{
	int err = put(fd, text);

	if (err)
		die("'%s': %s", text, strerror(err));
}

static long number_at(int fd, const char *after)
{
	char text[512];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	const char *s;

	text[n < 0 ? 0 : n] = 0;
	s = strstr(text, after);
	if (!s)
		die("no '%s'", after);
	return atol(s + strlen(after));
}

/* Half of it is hexadecimal digits: lz4 makes half a page of it, zstd a quarter. */
static void fill(char *page, uint64_t *seed)
{
	unsigned int i;

	memset(page, 0, PAGE);
	for (i = 0; i < PAGE / 2; i++)
		page[i] = "0123456789abcdef"[next(seed) >> 60];
}

static void make_pages(unsigned int pages)
{
	static char buf[EACH * PAGE] __attribute__((aligned(PAGE)));
	int disk = opened("/dev/zram0", O_RDWR | O_DIRECT), idle = opened(Z "idle", O_WRONLY);
	uint64_t seed = 1;
	unsigned int at, i;

	for (at = 0; at + EACH <= pages; at += EACH) {
		for (i = 0; i < EACH; i++)
			fill(buf + i * PAGE, &seed);
		if (pwrite(disk, buf, sizeof(buf), at * PAGE) != sizeof(buf))
			die("a write: %s", strerror(errno));
	}
	must_put(idle, "all");
	for (at = 0; at + EACH <= pages; at += EACH)
		if (pread(disk, buf, sizeof(buf) - PAGE, at * PAGE) != sizeof(buf) - PAGE)
			die("a read: %s", strerror(errno));
	close(idle);
	close(disk);
}

static void make_realtime(pid_t pid)
{
	if (sched_setscheduler(pid, SCHED_FIFO, &(struct sched_param){ 1 }))
		die("SCHED_FIFO: %s", strerror(errno));
}

static pid_t begin(void (*what)(int fd, const char *text), int fd, const char *text)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid)
		return pid;
	mlockall(MCL_CURRENT);
	what(fd, text);
	_exit(0);
}

static void recompress(int fd, const char *text)
{
	shared->begun = 1;
	shared->err = put(fd, text);
	shared->ended = 1;
}

/* Of real-time priority: whoever waits has memory again in the end. */
static void undo(int fd, const char *text)
{
	make_realtime(0);
	shared->armed = 1;
	rest(LONGEST);
	put(fd, text);
}

/* There is no memory from here on, until `undo` or who puts the old value back. */
static void begin_scarcity(int keep, int info)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", number_at(info, "MemFree:") * 7 / 5);
	must_put(keep, text);
}

static void files(int keep, int info, const char *old)
{
	int limit = opened(Z "mem_limit", O_WRONLY), stat = opened(Z "mm_stat", O_RDONLY);
	int file = opened(Z "recompress", O_WRONLY);
	pid_t pid;
	long at;

	/* Each has done once what it does later, so that it has what that takes. */
	must_put(limit, "0");
	number_at(stat, " ");
	pid = begin(recompress, file, "type=idle");
	make_realtime(0);
	while (!shared->begun)
		rest(1);
	rest(5);
	begin_scarcity(keep, info);
	rest(200);
	at = ms();
	must_put(limit, "0");
	number_at(stat, " ");
	at = ms() - at;
	while (!shared->ended)
		rest(10);
	put(keep, old);
	waitpid(pid, NULL, 0);
	printf("%ld ms; %s\n", at, shared->err ? strerrorname_np(shared->err) : "recompressed");
}

int main(int argc, char **argv)
{
	unsigned int pages = (unsigned int)(argc == 2 ? atoi(argv[1]) : 0) * 256;
	int keep = opened(KEEP, O_RDWR), info = opened("/proc/meminfo", O_RDONLY);
	char old[32];
	pid_t pid;

	if (!pages)
		die("usage: scarce MIB");
	snprintf(old, sizeof(old), "%ld", number_at(keep, ""));
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || mlockall(MCL_CURRENT))
		die("mmap, mlockall: %s", strerror(errno));
	make_pages(pages);
	pid = begin(undo, keep, old);
	make_realtime(KTHREADD);
	while (!shared->armed)
		rest(1);
	files(keep, info, old);
	waitpid(pid, NULL, 0);
	return 0;
}
