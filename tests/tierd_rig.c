// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * tierd_rig.c - is loaded into `ebb tierd` by tests/test_tierd.py, which plays the kernel: what is
 * written to a file of a device goes to it, and it answers "ERRNO UPTIME", an error or 0 and the
 * seconds that the machine has been up.  Once memory is locked, who allocates some ends with 70.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static bool started;
static int kernel = -1;
static long uptime = 100000;

static void refuse(void)
{
	static const char text[] = "rig: memory was allocated\n";

	if (!started)
		return;
	syscall(SYS_write, 2, text, sizeof(text) - 1);
	_exit(70);
}

void *malloc(size_t size)
{
	refuse();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	refuse();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	refuse();
	return __libc_realloc(p, size);
}

int mlockall(int flags)
{
	started = flags == (MCL_CURRENT | MCL_FUTURE);
	return 0;
}

int uname(struct utsname *u)
{
	const char *release = getenv("RIG_RELEASE");

	snprintf(u->release, sizeof(u->release), "%s", release ? release : "7.3.0");
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, clock, ts);
	ts->tv_sec = uptime;
	ts->tv_nsec = 0;
	return 0;
}

static void connect_kernel(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", getenv("RIG_SOCKET"));
	kernel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(kernel, (const struct sockaddr *)&to, sizeof(to)))
		_exit(71);
}

ssize_t write(int fd, const void *text, size_t len)
{
	char link[64], path[512], line[1024], *file;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	file = strstr(path, "/block/zram");
	if (!file)
		return syscall(SYS_write, fd, text, len);
	if (kernel < 0)
		connect_kernel();
	n = snprintf(line, sizeof(line), "%s %.*s", file + strlen("/block/"), (int)len,
		     (const char *)text);
	send(kernel, line, (size_t)n, 0);
	do {
		n = recv(kernel, line, sizeof(line) - 1, 0);
	} while (n < 0 && errno == EINTR);
	line[n > 0 ? n : 0] = '\0';
	if (sscanf(line, "%d %ld", &errno, &uptime) != 2)
		_exit(72);
	return errno ? -1 : (ssize_t)len;
}
