// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_private_file.c - a file with what users store is its owner's alone, and nothing that is
 * somebody else's, or that somebody else may have open, is changed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include "home/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char magic[] = "test";
static const char left[] = "test, and what was before";

static char folder[100], path[110], other[110];

/* What another process does as soon as a file is open. */
static void (*when_opened)(int fd);

long __real_syscall(long n, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long ret = __real_syscall(n, a, b, c, d, e, f);

	if (n == SYS_openat && ret >= 0 && when_opened)
		when_opened((int)ret);
	return ret;
}

static uid_t more;              /* what geteuid() adds to our number */

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);

uid_t __wrap_geteuid(void)
{
	return __real_geteuid() + more;
}

void before_each(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%s/ebb-file-XXXXXX", tmp ? tmp : "/tmp");
	must(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	when_opened = NULL;
	more = 0;
}

/* Nothing else is left there. */
void clean_up(void)
{
	unlink(path);
	unlink(other);
	must_eq(rmdir(folder), 0);
}

static int open_it(void)
{
	return private_file_open(path, magic, sizeof(magic) - 1);
}

/* What a process of the same use left; a descriptor that others may have, too. */
static int leave(mode_t mode)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);

	must(fd >= 0);
	must_eq(fchmod(fd, mode), 0);
	must_eq(write(fd, left, sizeof(left)), sizeof(left));
	return fd;
}

static void must_be_as_left(int fd)
{
	char now[sizeof(left) + 1];

	must_eq(pread(fd, now, sizeof(now), 0), sizeof(left));
	must(!memcmp(now, left, sizeof(left)));
}

/* Empty, locked, ours alone, and none of a program that we execute. */
static void must_be_private(int fd)
{
	struct stat st;
	int again;

	must(fd >= 0);
	must(private_file_is_at(fd, path));
	must_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	must_eq(fstat(fd, &st), 0);
	must(S_ISREG(st.st_mode));
	must_eq(st.st_mode & 07777, 0600);
	must_eq(st.st_uid, geteuid());
	must_eq(st.st_nlink, 1);
	must_eq(st.st_size, 0);
	again = open(path, O_RDWR);
	must(again >= 0);
	must_eq(flock(again, LOCK_EX | LOCK_NB), -1);
	must_eq(close(again), 0);
}

CASE(a_new_file_is_private)
{
	mode_t mask = umask(0);
	int fd = open_it();

	umask(mask);
	must_be_private(fd);
	must_eq(close(fd), 0);
}

CASE(what_was_left_is_taken_over)
{
	int was = leave(0600), fd;

	fd = open_it();
	must_be_private(fd);
	must(private_file_is_at(was, path));
	must_eq(close(fd), 0);
	must_eq(close(was), 0);
}

CASE(one_process_has_it)
{
	int fd = open_it();

	must_eq(write(fd, left, sizeof(left)), sizeof(left));
	must_eq(open_it(), -EBUSY);
	must_be_as_left(fd);
	must_eq(fchmod(fd, 0644), 0);
	must_eq(open_it(), -EBUSY);
	must(private_file_is_at(fd, path));
	must_be_as_left(fd);
	must_eq(close(fd), 0);
}

/* A new file is there, and the one that was left is as it was, with so many names. */
static void is_replaced(int was, nlink_t names)
{
	struct stat st, now;
	int fd;

	must_eq(fstat(was, &st), 0);
	fd = open_it();
	must_be_private(fd);
	must_be_as_left(was);
	must_eq(fstat(was, &now), 0);
	must_eq(now.st_nlink, names);
	must_eq(now.st_mode, st.st_mode);
	must_eq(close(fd), 0);
	must_eq(close(was), 0);
}

CASE(who_has_the_file_open_gets_nothing)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0666 };
	unsigned int i;

	for (i = 0; i < ARRAY_LEN(modes); i++) {
		is_replaced(leave(modes[i]), 0);
		must_eq(unlink(path), 0);
	}
}

CASE(a_file_with_a_second_name_is_replaced)
{
	int was = leave(0600);

	must_eq(link(path, other), 0);
	is_replaced(was, 1);
}

CASE(another_users_file_is_replaced_by_root_too)
{
	int was;

	if (geteuid())
		skip_because("only root makes a file another user's");
	was = leave(0600);
	must_eq(fchown(was, 65534, 65534), 0);
	is_replaced(was, 0);
}

CASE(a_link_is_not_followed)
{
	int was;

	must_eq(symlink(other, path), 0);
	must_eq(open_it(), -ELOOP);
	must_eq(access(other, F_OK), -1);
	must_eq(unlink(path), 0);
	was = leave(0600);
	must_eq(rename(path, other), 0);
	must_eq(symlink(other, path), 0);
	must_eq(open_it(), -ELOOP);
	must_be_as_left(was);
	must_eq(close(was), 0);
}

CASE(something_else_is_left_alone)
{
	char now[4] = "";
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);

	must(fd >= 0);
	must_eq(write(fd, "tes", 3), 3);
	must_eq(open_it(), -EEXIST);
	must_eq(pread(fd, now, sizeof(now), 0), 3);
	must(!memcmp(now, "tes", 3));
	must_eq(close(fd), 0);
	must_eq(unlink(path), 0);
	must_eq(mkfifo(path, 0600), 0);
	must_eq(open_it(), -EEXIST);
	must_eq(unlink(path), 0);
	must_eq(mkdir(path, 0700), 0);
	must_eq(open_it(), -EISDIR);
	must_eq(rmdir(path), 0);
}

/* As a power loss leaves them; but what others may read is no such file, a disk image perhaps. */
CASE(zeros_are_empty_if_they_are_private)
{
	static const off_t sizes[] = { 5007, 100000, 1 << 30 };

	for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++) {
		int was = open(path, O_RDWR | O_CREAT, 0600), fd;
		off_t size = sizes[i];

		must(was >= 0);
		/* Zeros that are there, and a hole. */
		must_eq(pwrite(was, "\0\0\0", 3, 5000), 3);
		must_eq(ftruncate(was, size), 0);
		must_eq(fchmod(was, 0644), 0);
		must_eq(open_it(), -EEXIST);
		must_eq(lseek(was, 0, SEEK_END), size);
		must_eq(fchmod(was, 0600), 0);
		must_eq(pwrite(was, "1", 1, size - 1), 1);
		must_eq(open_it(), -EEXIST);
		must_eq(lseek(was, 0, SEEK_END), size);
		must_eq(pwrite(was, "", 1, size - 1), 1);
		fd = open_it();
		must_be_private(fd);
		must(private_file_is_at(was, path));
		must_eq(close(fd), 0);
		must_eq(close(was), 0);
	}
}

/* Neither what was left is taken, nor a new file where there is none. */
static void must_be_refused(int was)
{
	must_eq(open_it(), -EPERM);
	must(private_file_is_at(was, path));
	must_be_as_left(was);
	must_eq(close(was), 0);
	must_eq(unlink(path), 0);
	must_eq(open_it(), -EPERM);
	must_eq(access(path, F_OK), -1);
}

/* As on a file system that gives all files to one user. */
CASE(a_file_that_is_given_to_another_user_is_refused)
{
	int was = leave(0600);

	more = 1;
	must_be_refused(was);
}

static void let_others_read(int fd)
{
	must_eq(fchmod(fd, 0644), 0);
}

/* As on a file system without modes. */
CASE(what_cannot_be_private_is_refused)
{
	int was = leave(0644);

	when_opened = let_others_read;
	must_be_refused(was);
}

/* Its owner gives it another name, and the lock up. */
static void move_away(int fd)
{
	if (access(other, F_OK))
		must_eq(rename(path, other), 0);
}

CASE(what_was_moved_before_the_lock_is_left_alone)
{
	int was = leave(0600), fd;

	when_opened = move_away;
	fd = open_it();
	must_be_private(fd);
	must(private_file_is_at(was, other));
	must_be_as_left(was);
	must_eq(close(fd), 0);
	must_eq(close(was), 0);
}

/* Another process is faster, again and again. */
static void take_away(int fd)
{
	must_eq(unlink(path), 0);
}

CASE(who_is_always_too_late_is_told)
{
	when_opened = take_away;
	must_eq(open_it(), -EBUSY);
}
