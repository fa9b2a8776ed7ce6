// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * private_file.c - see private_file.h.
 *
 *     open     what is there, or a new file if there is nothing
 *     flock
 *     look     does path still lead to it?  If not, begin anew: its owner may have moved it away
 *              before he gave up the lock, and it is somebody's now
 *              is it one of ours?
 *              can others have it open?  Then a new file gets its name
 *     empty    the first change
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRIES 100               /* each is lost to another process that came in between */

bool private_file_move(long call, int fd, void *data, size_t n, uint64_t at)
{
	unsigned char *p = data;

	while (n) {
		long done = syscall(call, fd, p, n, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		p += done;
		n -= (size_t)done;
		at += (uint64_t)done;
	}
	return true;
}

bool private_file_is_at(int fd, const char *path)
{
	struct stat file, named;

	return !fstat(fd, &file) && !lstat(path, &named) && file.st_dev == named.st_dev &&
	       file.st_ino == named.st_ino;
}

static bool is_owners(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & 077);
}

static bool is_private(const struct stat *st)
{
	return is_owners(st) && st->st_nlink == 1;
}

/* A descriptor, or an error.  A FIFO at path holds nobody up. */
static int open_at(const char *path, int flags)
{
	flags |= O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	flags = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
	return flags < 0 ? -errno : flags;
}

/* Makes a file where there is nothing. */
static int make_at(const char *path)
{
	int fd = open_at(path, O_CREAT | O_EXCL), err = 0;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		err = -errno;
	else if (!is_owners(&st))
		err = -EPERM;
	if (!err)
		return fd;
	unlink(path);
	syscall(SYS_close, fd);
	return err;
}

static int lock_file(int fd)
{
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return 0;
	return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

/* A new file, locked, in the place of what is at path; the other one stays with who has it. */
static int replace(const char *path)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash + 1 - path) : 0, fd, err;
	char beside[PATH_MAX];
	uint64_t number;

	if (syscall(SYS_getrandom, &number, sizeof(number), 0) != (long)sizeof(number))
		return -EIO;
	if (snprintf(beside, sizeof(beside), "%.*s.ebb-%016" PRIx64, folder, path, number) >=
	    (int)sizeof(beside))
		return -ENAMETOOLONG;
	fd = make_at(beside);
	if (fd < 0)
		return fd;
	err = lock_file(fd);
	if (!err && rename(beside, path))
		err = -errno;
	if (!err)
		return fd;
	unlink(beside);
	syscall(SYS_close, fd);
	return err;
}

/* A power loss can leave zeros: the size was on the disk, the head was not. */
static bool is_zeros(int fd, uint64_t bytes)
{
	unsigned char buf[4096];
	uint64_t at = 0;

	while (at < bytes) {
		size_t n = bytes - at < sizeof(buf) ? bytes - at : sizeof(buf), i;
		off_t data = lseek(fd, (off_t)at, SEEK_DATA);

		if (data < 0 && errno == ENXIO)
			return true;
		if (data > (off_t)at) {
			at = (uint64_t)data;
			continue;
		}
		if (!private_file_move(SYS_pread64, fd, buf, n, at))
			return false;
		for (i = 0; i < n; i++)
			if (buf[i])
				return false;
		at += n;
	}
	return true;
}

static bool begins_with(int fd, const void *magic, size_t n)
{
	char head[64];

	return n <= sizeof(head) && private_file_move(SYS_pread64, fd, head, n, 0) &&
	       !memcmp(head, magic, n);
}

/*
 * Looks at a file that is locked, and empties it.  Returns it, or the one that took its place, or
 * an error: -ESTALE if path leads elsewhere by now.
 */
static int take(int fd, const char *path, const void *magic, size_t magic_bytes)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EEXIST;
	if (!private_file_is_at(fd, path))
		return -ESTALE;
	/* Ours are private from the first moment: zeros that are not are a disk's, or a file's. */
	if (st.st_size && !begins_with(fd, magic, magic_bytes) &&
	    !(is_private(&st) && is_zeros(fd, (uint64_t)st.st_size)))
		return -EEXIST;
	if (!is_private(&st))
		return replace(path);
	return ftruncate(fd, 0) ? -errno : fd;
}

int private_file_open(const char *path, const void *magic, size_t magic_bytes)
{
	int fd, taken, tries = 0;

	do {
		fd = open_at(path, 0);
		if (fd == -ENOENT)
			fd = make_at(path);
		if (fd < 0) {
			taken = fd == -EEXIST ? -ESTALE : fd;
			continue;
		}
		taken = lock_file(fd);
		if (!taken)
			taken = take(fd, path, magic, magic_bytes);
		if (taken != fd)
			syscall(SYS_close, fd);
	} while (taken == -ESTALE && ++tries < TRIES);
	return taken == -ESTALE ? -EBUSY : taken;
}
