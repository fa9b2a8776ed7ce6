// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One call whose 1st, 2nd, 3rd ... allocation fails, until it makes no more of them.
 *
 *   nth [FILE=TEXT...] DO [ARG]     the working folder is the device's, /sys/block/zramN
 *
 *     fill             no failure: writes PAGES pages to the device, that every other call looks at
 *     set FILE=TEXT    writes a file of sysfs
 *     show FILE        reads a file to its end
 *     open             opens the device
 *     write, read      pages of it, by direct I/O; write: others than those that are there
 *     discard          some of the pages, as many again are then written
 *     add              hot_add; what came of it is removed
 *     remove           hot_remove of a device that was added before
 *     load FILE        the module, which is taken away again
 *
 * Before each try the files that come first are written, without a failure, in their order.  A try
 * in which an allocation failed must succeed or say ENOMEM (I/O: or EIO; where a device is added:
 * or EINVAL, as the block layer does that had no memory for a name); when none failed, it must
 * succeed, and that is the last.  After each try the pages are what they were, if the device has
 * some, but for those of a write that failed, each of which may be the old or the new one, whole.
 *
 * With NTH_STEP=N, of the allocations past the 64th each Nth fails alone.
 *
 * Failures are the calling thread's alone (/proc/thread-self/fail-nth); the rest of fault injection
 * is off.  Prints what it did in one line; a wrong end is told in others, and is the exit status.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 96UL
#define MOST 5000               /* allocations of a call */
#define WORDS "/tmp/nth"        /* what the pages are made from, between two runs */

static uint64_t is[PAGES], maybe[PAGES];
static uint64_t (*data)[PAGE / 8], want[PAGE / 8];
static char device[40], *arg;
static int nth, wrong;

static void tell(const char *format, ...)
{
	va_list args;

	wrong = 1;
	va_start(args, format);
	printf("# nth: ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

/* All sorts: one word, 60 to 500 words of noise. */
static void make(uint64_t word, uint64_t *page)
{
	page_fill(page, word, word & 7 ? (unsigned)(word & 7) * 70 : 0);
}

/* From the next allocation on; 0: none fails. */
static void fail(unsigned n)
{
	char text[12];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(nth, text, (size_t)len, 0) != len)
		exit((perror("nth: fail-nth"), 2));
}

/* Whether it has. */
static int failed(void)
{
	char text[12] = "";

	return pread(nth, text, sizeof(text) - 1, 0) > 0 && !atoi(text);
}

/* rc; errno stays what it is. */
static int closed(int fd, int rc)
{
	int err = errno;

	close(fd);
	errno = err;
	return rc;
}

/* -1: errno says why. */
static int set(const char *file, const char *text, size_t len)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0)
		return -1;
	return closed(fd, write(fd, text, len) == (ssize_t)len ? 0 : -1);
}

static int set_as(char *assignment)
{
	char file[64], *text = strchr(assignment, '=');

	snprintf(file, sizeof(file), "%.*s", (int)(text - assignment), assignment);
	return set(file, text + 1, strlen(text + 1));
}

static int show(const char *file, char *buf, size_t room)
{
	int fd = open(file, O_RDONLY);
	ssize_t n, sum = 0;

	if (fd < 0)
		return -1;
	while ((n = read(fd, buf + sum, room - 1 - (size_t)sum)) > 0 && sum + n < (ssize_t)room - 1)
		sum += n;
	buf[sum + (n > 0 ? n : 0)] = 0;
	return closed(fd, n < 0 ? -1 : 0);
}

/* ---- the device's pages ---- */

static int pages_io(int do_write)
{
	int fd = open(device, O_RDWR | O_DIRECT);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = do_write ? pwrite(fd, data, PAGES * PAGE, 0) : pread(fd, data, PAGES * PAGE, 0);
	if (n >= 0)
		errno = EIO;
	return closed(fd, n == (ssize_t)(PAGES * PAGE) ? 0 : -1);
}

/* The next contents. */
static void prepare(void)
{
	static uint64_t rnd = 0x9e3779b97f4a7c15ULL;

	for (unsigned long i = 0; i < PAGES; i++) {
		maybe[i] = next(&rnd);
		make(maybe[i], data[i]);
	}
}

static void settle(int good)
{
	unsigned long i, bad = 0;

	if (pages_io(0)) {
		tell("the pages cannot be read: %s", strerror(errno));
		return;
	}
	for (i = 0; i < PAGES; i++) {
		make(is[i], want);
		if (memcmp(data[i], want, PAGE) || (good && maybe[i] != is[i])) {
			make(maybe[i], want);
			bad += memcmp(data[i], want, PAGE) != 0;
			is[i] = maybe[i];
		}
		maybe[i] = is[i];
	}
	if (bad)
		tell("%lu pages are not what was written", bad);
}

static int discard(void)
{
	uint64_t range[2] = { 0, PAGES / 2 * PAGE };
	int fd = open(device, O_RDWR | O_DIRECT);

	if (fd < 0)
		return -1;
	for (unsigned long i = 0; i < PAGES / 2; i++)
		maybe[i] = 0;
	return closed(fd, ioctl(fd, BLKDISCARD, range));
}

/* ---- devices, the module ---- */

#define CONTROL "/sys/class/zram-control/"
static char added[16];

static int add(void)
{
	return show(CONTROL "hot_add", added, sizeof(added));
}

static int take_away(void)
{
	return set(CONTROL "hot_remove", added, strlen(added));
}

static int load(void)
{
	int fd = open(arg, O_RDONLY);

	if (fd < 0)
		return -1;
	return closed(fd, (int)syscall(SYS_finit_module, fd, "num_devices=2", 0));
}

static int is_do(const char *what, const char *name)
{
	return !strcmp(what, name);
}

static int once(const char *what)
{
	static char text[1 << 20];
	int fd;

	if (is_do(what, "set"))
		return set_as(arg);
	if (is_do(what, "show"))
		return show(arg, text, sizeof(text));
	if (is_do(what, "open")) {
		fd = open(device, O_RDWR);
		return fd < 0 ? -1 : close(fd);
	}
	if (is_do(what, "write") || is_do(what, "read"))
		return pages_io(*what == 'w');
	if (is_do(what, "discard"))
		return discard();
	if (is_do(what, "add"))
		return add();
	if (is_do(what, "remove"))
		return take_away();
	if (is_do(what, "load"))
		return load();
	exit((fprintf(stderr, "nth: %s?\n", what), 2));
}

/* A try; 1: an allocation failed.  *refused: and the call, for that. */
static int try(const char *what, unsigned n, unsigned *refused)
{
	int io = is_do(what, "write") || is_do(what, "read") || is_do(what, "discard");
	int adds = is_do(what, "add") || is_do(what, "load"), rc, err, hit;

	if (is_do(what, "remove") && !*added && add())
		tell("hot_add before it: %s", strerror(errno));
	memset(data, 0, PAGES * PAGE);
	if (is_do(what, "write"))
		prepare();
	errno = 0;
	fail(n);
	rc = once(what);
	err = errno;
	hit = failed();
	fail(0);
	if (rc && hit && (err == ENOMEM || (io && err == EIO) || (adds && err == EINVAL)))
		++*refused;
	else if (rc)
		tell("%s %s, %s %u: %s", what, arg, hit ? "failure" : "no failure by allocation", n,
		     strerror(err));
	if (!rc && is_do(what, "add") && take_away())
		tell("hot_remove of what came: %s", strerror(errno));
	if (!rc && is_do(what, "load") && syscall(SYS_delete_module, "zram", O_NONBLOCK))
		tell("the module stays: %s", strerror(errno));
	if (!rc && is_do(what, "remove"))
		*added = 0;
	if (*is || is[1])
		settle(!rc && is_do(what, "write"));
	return hit;
}

static void words(int keep)
{
	int fd = open(WORDS, keep ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0600);
	ssize_t n = fd < 0 ? 0 : keep ? write(fd, is, sizeof(is)) : read(fd, is, sizeof(is));

	if (fd >= 0)
		close(fd);
	if (n && n != sizeof(is))
		exit((perror("nth: " WORDS), 2));
	memcpy(maybe, is, sizeof(is));
}

int main(int argc, char **argv)
{
	unsigned n = 0, refused = 0, tries = 0;
	const char *step = getenv("NTH_STEP");
	long began = ms();
	char folder[64], *what;
	int first = 1, hit;

	while (first < argc && strchr(argv[first], '='))
		first++;
	if (first >= argc)
		return fprintf(stderr, "usage: nth [FILE=TEXT...] DO [ARG]\n"), 2;
	what = argv[first];
	arg = first + 1 < argc ? argv[first + 1] : "";
	if (getcwd(folder, sizeof(folder)))
		snprintf(device, sizeof(device), "/dev/%.20s", strrchr(folder, '/') + 1);
	nth = open("/proc/thread-self/fail-nth", O_RDWR);
	data = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nth < 0 || data == MAP_FAILED || mlockall(MCL_CURRENT | MCL_FUTURE))
		return perror("nth"), 2;
	if (is_do(what, "fill")) {
		prepare();
		if (pages_io(1))
			tell("fill: %s", strerror(errno));
		settle(1);
		words(1);
		return wrong;
	}
	words(0);
	do {
		n++;
		for (int i = 1; i < first; i++)
			if (set_as(argv[i]))
				tell("%s before failure %u: %s", argv[i], n, strerror(errno));
		tries++;
		hit = try(what, n, &refused);
		n += !hit || n < 64 || !step ? 0 : (unsigned)atoi(step) - 1;
	} while (hit && n < MOST && !wrong);
	if (n >= MOST)
		tell("it has no end");
	words(1);
	printf("# nth: %s %s: %u tries with about %u allocations, %u calls failed, in %ld ms\n", what,
	       arg, tries, n - 1, refused, ms() - began);
	return wrong;
}
