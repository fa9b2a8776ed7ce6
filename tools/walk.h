/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * walk.h - every regular file under some paths, in the same order each time, and its pages.
 */
#ifndef EBB_WALK_H
#define EBB_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* A regular file that is not empty.  False ends the walk. */
typedef bool walk_file_fn(void *arg, const char *path, const struct stat *st);
/* Something else, or unreadable.  named: it is one of the paths asked for. */
typedef void walk_other_fn(void *arg, const char *path, bool named, const char *what);

/*
 * Walks the paths (NULL at the end) in the order given, folders sorted by name; other may be NULL.
 * A symbolic link is followed where it is one of the paths, not below them.
 */
void walk(char *const *paths, walk_file_fn *file, walk_other_fn *other, void *arg);

/* A file that is read page by page.  Pages of a sparse file that are holes are passed over. */
struct walk_file {
	int fd;
	bool sparse;
	uint64_t size;           /* when it was opened */
	uint64_t at, data_end;   /* of the next page; up to where there is no hole */
	uint64_t holes;          /* pages that were passed over */
};

/*
 * Opens a regular file to read.  -errno, or -EINVAL if it is not a regular file: it was when
 * the walk saw it.
 */
int walk_open(struct walk_file *f, const char *path);
void walk_close(struct walk_file *f);

/*
 * Fills page[bytes] with the next bytes of the file and zeros after the end.  Returns how many
 * were read, 0 at the end, or -errno.
 */
long walk_read_page(struct walk_file *f, unsigned char *page, size_t bytes);

/* Pages of a file, holes and all; and those that walk_read_page() would read. */
uint64_t walk_pages(const struct stat *st, size_t bytes);
uint64_t walk_data_pages(const char *path, const struct stat *st, size_t bytes);

#endif
