// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define _GNU_SOURCE
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFIFO:
		return "is a FIFO";
	case S_IFSOCK:
		return "is a socket";
	case S_IFCHR:
	case S_IFBLK:
		return "is a device";
	case S_IFLNK:
		return "is a symbolic link";
	}
	return "is neither a file nor a folder";
}

/* One entry; false ends the walk. */
static bool visit(const FTSENT *e, const struct walk_ops *ops, void *arg)
{
	bool named = e->fts_level == FTS_ROOTLEVEL;

	switch (e->fts_info) {
	case FTS_F:
		return e->fts_statp->st_size == 0 || ops->file(arg, e->fts_path, e->fts_statp);
	case FTS_NS:
	case FTS_ERR:
	case FTS_DNR:
		ops->other(arg, e->fts_path, true, strerror(e->fts_errno));
		return true;
	case FTS_SL:
	case FTS_SLNONE:
	case FTS_DEFAULT:
		ops->other(arg, e->fts_path, named,
			   named && e->fts_info == FTS_SLNONE ? strerror(ENOENT) :
			   type_name(e->fts_statp->st_mode));
		return true;
	}
	return true;
}

void walk(char *const *paths, const struct walk_ops *ops, void *arg)
{
	bool more = true;

	for (; *paths && more; paths++) {
		char *const one[] = { *paths, NULL };
		FTS *fts;
		FTSENT *e;

		/* fts_open() gives up on an empty path for the whole list. */
		if (!**paths) {
			ops->other(arg, "''", true, strerror(ENOENT));
			continue;
		}
		fts = fts_open(one, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
		if (!fts)
			fail("%s: cannot walk: %s", *paths, strerror(errno));
		errno = 0;
		while (more && (e = fts_read(fts))) {
			stop_if_interrupted();
			more = visit(e, ops, arg);
			errno = 0;
		}
		if (more && errno)
			fail("%s: cannot walk: %s", *paths, strerror(errno));
		fts_close(fts);
	}
}

int walk_open(const char *path)
{
	/* Not blocking: a FIFO may have taken the file's place since it was seen. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

long walk_read_page(int fd, unsigned char *page, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t n = read(fd, page + got, bytes - got);

		if (n < 0 && errno == EINTR && !interrupted())
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	memset(page + got, 0, bytes - got);
	return (long)got;
}
