// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zram_dev.c - owns the keeper, the process that makes the device and takes it away.  A pipe to it
 * says that the device is wanted; another brings its answer.
 */
#define _GNU_SOURCE
#include "zram_dev.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"
#include "tool.h"

#define CONTROL "/sys/class/zram-control/"

/* What the keeper says once the device stands, or why it does not. */
struct keeper_word {
	int number;          /* -1: failed */
	char why[240];
};

/* State of the keeper, to be undone in the opposite order. */
struct kept {
	int number;
	bool own_node;
	char node[64];
};

static int say_why(struct keeper_word *word, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int say_why(struct keeper_word *word, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(word->why, sizeof(word->why), fmt, ap);
	va_end(ap);
	return -1;
}

/* 0 or an error number. */
static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		err = errno;
	close(fd);
	return err;
}

static int read_text(const char *path, char *text, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	ssize_t n;

	if (fd < 0)
		return errno;
	n = read(fd, text, len - 1);
	if (n < 0)
		err = errno;
	text[n > 0 ? n : 0] = '\0';
	close(fd);
	return err;
}

static int set_attr(int number, const char *attr, const char *value)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/block/zram%d/%s", number, attr);
	return write_text(path, value);
}

/* Where no device manager made /dev/zramN, a node beside it is made for the while. */
static int find_node(struct kept *k)
{
	char path[96], text[32];
	unsigned int major, minor;
	struct stat st;
	int err;

	snprintf(k->node, sizeof(k->node), "/dev/zram%d", k->number);
	if (!stat(k->node, &st) && S_ISBLK(st.st_mode))
		return 0;
	snprintf(path, sizeof(path), "/sys/block/zram%d/dev", k->number);
	err = read_text(path, text, sizeof(text));
	if (err)
		return err;
	if (sscanf(text, "%u:%u", &major, &minor) != 2)
		return EINVAL;
	if (mknod(k->node, S_IFBLK | 0600, makedev(major, minor)))
		return errno;
	k->own_node = true;
	return 0;
}

static int start_device(struct kept *k, struct keeper_word *word, const char *codec,
			uint64_t bytes)
{
	char text[64];
	int err;

	if (geteuid() != 0)
		return say_why(word, "needs root, to make a zram device; expected user id 0, not %u",
			       (unsigned int)geteuid());
	err = read_text(CONTROL "hot_add", text, sizeof(text));
	if (err)
		return say_why(word, CONTROL "hot_add: %s; expected a kernel with zram (modprobe zram)",
			       strerror(err));
	k->number = atoi(text);
	err = set_attr(k->number, "comp_algorithm", codec);
	if (err)
		return say_why(word, "the kernel's zram does not take codec %s: %s", codec,
			       strerror(err));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	err = set_attr(k->number, "disksize", text);
	if (err)
		return say_why(word, "cannot size zram%d to %s bytes: %s", k->number, text,
			       strerror(err));
	err = find_node(k);
	if (err)
		return say_why(word, "%s: %s; expected a block device", k->node, strerror(err));
	return 0;
}

/* udev's probes hold a new device open for moments: EBUSY is tried again for 5 s. */
static int stop_device(const struct kept *k)
{
	char text[16];
	int err;

	if (k->number < 0)
		return 0;
	if (k->own_node)
		unlink(k->node);
	snprintf(text, sizeof(text), "%d", k->number);
	for (int tries = 0; tries < 100; tries++) {
		err = write_text(CONTROL "hot_remove", text);
		if (err != EBUSY)
			break;
		usleep(50000);
	}
	if (err)
		fprintf(stderr, "ebb: zram%d stays behind: %s; expected by hand: echo %d >" CONTROL
			"hot_remove\n", k->number, strerror(err), k->number);
	return err;
}

static void keep(int wanted, int answer, const char *codec, uint64_t bytes)
{
	struct kept k = { .number = -1 };
	struct keeper_word word;
	char c;

	/*
	 * A session of its own, so that a terminal's ^C and hang-up do not reach it, nor the end of
	 * a unit, which kills all of its group.
	 */
	setsid();
	cgroup_leave("");
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	memset(&word, 0, sizeof(word));
	word.number = start_device(&k, &word, codec, bytes) ? -1 : k.number;
	if (write(answer, &word, sizeof(word)) == (ssize_t)sizeof(word) && word.number >= 0)
		while (read(wanted, &c, 1) < 0 && errno == EINTR)
			;
	_exit(stop_device(&k) ? EXIT_FAILED : 0);
}

static struct zram_dev *open_dev;

static void close_at_exit(void)
{
	if (open_dev)
		zram_close(open_dev);
}

void zram_open(struct zram_dev *dev, const char *codec, uint64_t bytes)
{
	static bool registered;
	int wanted[2], answer[2];
	struct keeper_word word;
	char node[32];

	if (pipe2(wanted, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		fail("cannot make a pipe: %s", strerror(errno));
	/* Callers open the device before any store: no thread holds a lock over the fork. */
	dev->keeper = fork();
	if (dev->keeper < 0)
		fail("cannot start the process that keeps the zram device: %s", strerror(errno));
	if (!dev->keeper) {
		close(wanted[1]);
		close(answer[0]);
		keep(wanted[0], answer[1], codec, bytes);
	}
	close(wanted[0]);
	close(answer[1]);
	dev->pipe = wanted[1];
	dev->fd = -1;
	if (!registered)
		atexit(close_at_exit);
	registered = true;
	open_dev = dev;
	for (;;) {
		ssize_t n = read(answer[0], &word, sizeof(word));

		if (n == (ssize_t)sizeof(word))
			break;
		stop_if_interrupted();
		if (n >= 0 || errno != EINTR)
			fail("--vs-kernel: the process that keeps the zram device died");
	}
	close(answer[0]);
	dev->number = word.number;
	if (word.number < 0)
		fail("--vs-kernel: %s", word.why);
	snprintf(node, sizeof(node), "/dev/zram%d", dev->number);
	dev->fd = open(node, O_WRONLY | O_CLOEXEC | O_EXCL | O_DIRECT);
	if (dev->fd < 0)
		fail("%s: %s", node, strerror(errno));
	stop_if_interrupted();
}

void zram_close(struct zram_dev *dev)
{
	int status;

	open_dev = NULL;
	/* The keeper cannot remove what is open. */
	if (dev->fd >= 0)
		close(dev->fd);
	close(dev->pipe);
	while (waitpid(dev->keeper, &status, 0) < 0 && errno == EINTR)
		;
}

void zram_read_stat(const struct zram_dev *dev, struct zram_stat *st)
{
	unsigned long long orig, compr, used;
	char path[96], text[256];
	int err;

	snprintf(path, sizeof(path), "/sys/block/zram%d/mm_stat", dev->number);
	err = read_text(path, text, sizeof(text));
	if (err)
		fail("%s: %s", path, strerror(err));
	if (sscanf(text, "%llu %llu %llu", &orig, &compr, &used) != 3)
		fail("%s: expected three numbers, not %s", path, text);
	*st = (struct zram_stat){ orig, compr, used };
}

void zram_compact(const struct zram_dev *dev)
{
	int err = set_attr(dev->number, "compact", "1");

	if (err)
		fail("zram%d: cannot compact: %s", dev->number, strerror(err));
}
