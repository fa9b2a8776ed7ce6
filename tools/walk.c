// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * walk.c - walks the files under some paths by name, and reads their pages without holes.  Nothing
 * but a regular file is read, even where one was replaced since it was seen.
 */
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

/* One entry; false ends the walk. */
static bool visit(const FTSENT *e, walk_file_fn *file, walk_other_fn *other, void *arg)
{
	bool named = e->fts_level == FTS_ROOTLEVEL;
	const char *what = NULL;

	switch (e->fts_info) {
	case FTS_F:
		return e->fts_statp->st_size == 0 || file(arg, e->fts_path, e->fts_statp);
	case FTS_NS:
	case FTS_ERR:
	case FTS_DNR:
		named = true;
		what = strerror(e->fts_errno);
		break;
	case FTS_SLNONE:
		what = strerror(ENOENT);
		break;
	case FTS_SL:
	case FTS_DEFAULT:
		what = "is neither a file nor a folder";
	}
	if (what && other)
		other(arg, e->fts_path, named, what);
	return true;
}

void walk(char *const *paths, walk_file_fn *file, walk_other_fn *other, void *arg)
{
	bool more = true;

	for (; *paths && more; paths++) {
		char *const one[] = { *paths, NULL };
		FTS *fts;
		FTSENT *e;

		/* fts_open() gives up on an empty path for the whole list. */
		if (!**paths) {
			if (other)
				other(arg, "''", true, strerror(ENOENT));
			continue;
		}
		fts = fts_open(one, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
		if (!fts)
			fail("%s: cannot walk: %s", *paths, strerror(errno));
		errno = 0;
		while (more && (e = fts_read(fts))) {
			stop_if_interrupted();
			more = visit(e, file, other, arg);
			errno = 0;
		}
		if (more && errno)
			fail("%s: cannot walk: %s", *paths, strerror(errno));
		fts_close(fts);
	}
}

static bool is_sparse(const struct stat *st)
{
	return st->st_blocks * 512 < st->st_size;
}

int walk_open(struct walk_file *f, const char *path)
{
	struct stat st;

	memset(f, 0, sizeof(*f));
	/* Not blocking: a FIFO may have taken the file's place since it was seen. */
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f->fd < 0)
		return -errno;
	if (fstat(f->fd, &st) || !S_ISREG(st.st_mode)) {
		close(f->fd);
		return -EINVAL;
	}
	f->sparse = is_sparse(&st);
	f->size = (uint64_t)st.st_size;
	return 0;
}

void walk_close(struct walk_file *f)
{
	close(f->fd);
}

/*
 * Goes to the page of a sparse file's next data, which is known up to data_end then.  False:
 * there is none.  Where a file system cannot tell, the file is not sparse any more.
 */
static bool find_data(struct walk_file *f, size_t bytes)
{
	off_t data, hole = 0;

	if (f->at < f->data_end)
		return true;
	data = lseek(f->fd, (off_t)f->at, SEEK_DATA);
	if (data < 0 && errno == ENXIO) {
		if (f->size > f->at)
			f->holes += (f->size - f->at + bytes - 1) / bytes;
		f->at = f->size;
		return false;
	}
	if (data >= 0)
		hole = lseek(f->fd, data, SEEK_HOLE);
	if (hole > data && data >= (off_t)f->at) {
		f->holes += (uint64_t)data / bytes - f->at / bytes;
		f->at = (uint64_t)data / bytes * bytes;
		f->data_end = (uint64_t)hole;
	} else {
		f->sparse = false;
	}
	return lseek(f->fd, (off_t)f->at, SEEK_SET) >= 0;
}

long walk_read_page(struct walk_file *f, unsigned char *page, size_t bytes)
{
	size_t got = 0;

	if (f->sparse && !find_data(f, bytes))
		return 0;
	while (got < bytes) {
		ssize_t n = read(f->fd, page + got, bytes - got);

		if (n < 0 && errno == EINTR && !interrupted())
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	f->at += bytes;
	memset(page + got, 0, bytes - got);
	return (long)got;
}

uint64_t walk_pages(const struct stat *st, size_t bytes)
{
	return ((uint64_t)st->st_size + bytes - 1) / bytes;
}

uint64_t walk_data_pages(const char *path, const struct stat *st, size_t bytes)
{
	uint64_t all = walk_pages(st, bytes), pages = 0;
	struct walk_file f;

	if (!is_sparse(st) || walk_open(&f, path))
		return all;
	while (f.sparse && find_data(&f, bytes) && f.sparse) {
		uint64_t n = (f.data_end - f.at + bytes - 1) / bytes;

		pages += n;
		f.at += n * bytes;
		stop_if_interrupted();
	}
	walk_close(&f);
	return f.sparse ? pages : all;
}
