/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * private_file.h - opens the files that have what users store, for none but their owner.
 *
 * The library and nbdkit's plugin build private_file.c each for itself, so it needs nothing of
 * either.  Its system calls are raw where the C library's are cancellation points.
 */
#ifndef EBB_USER_PRIVATE_FILE_H
#define EBB_USER_PRIVATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Opens path for reading and writing, empty, and with its lock (flock): a new file of mode 0600, or
 * what a process of the same use left, which begins with magic, or is empty, or is zeros alone, as
 * a power loss leaves it.  If others may have that open (another owner, another name, or a mode
 * that lets them), a new file takes its place, and what they have open stays as it is.
 *
 * Returns a descriptor that is closed by exec(2), or an error, after which nothing was changed:
 * -EBUSY: another process has the lock; -EEXIST: there is something else; -ELOOP: there is a
 * symbolic link; -EPERM: the file system gives the file to somebody else, or lets others read it;
 * others as open(2) and rename(2) have them.  Process context.
 */
int private_file_open(const char *path, const void *magic, size_t magic_bytes);

/* Whether path leads to the file, and not to another or to none. */
bool private_file_is_at(int fd, const char *path);

/*
 * SYS_pread64 or SYS_pwrite64 of n bytes, from byte at of the file on.  False: there is an error,
 * or there are no more.
 */
bool private_file_move(long call, int fd, void *data, size_t n, uint64_t at);

#endif
