/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * data.h - sets of pages that the benches store: real ones of this machine, or made ones.
 *
 *   system   the shared libraries under /usr/lib, then the programs in /usr/bin
 *   libs     shared libraries            source   C and C++ under /usr/include and /usr/src
 *   python   Python's library            exec     programs in /usr/bin and /usr/sbin
 *   mix      made: compresses to 64 bytes .. 3.5 KB, half a page on average
 *   PATH     every regular file there
 *
 * A file's last page is padded with zeros; holes of sparse files are left out.
 */
#ifndef EBB_DATA_H
#define EBB_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page_set {
	const char *name;
	unsigned char *pages;   /* count times the page size */
	size_t count;
	size_t mapped;          /* bytes of address space at pages */
};

#define DATA_WORDS "system, libs, source, python, exec, mix or a path"

/* Before anything is measured: ends the program if a set cannot be named or has no page. */
void data_check(const char *name);

#define DATA_LIMIT ((uint64_t)64 << 20)         /* of what values are cut from */

/*
 * Reads at most limit bytes (a multiple of the page size).  Fails when there are not the least
 * bytes to read; a path that is missing is a wrong command line.
 */
void data_load(struct page_set *set, const char *name, uint64_t limit, uint64_t least);
void data_unload(struct page_set *set);

/* Page i of the set, which starts again at its end. */
const unsigned char *data_page(const struct page_set *set, size_t i);

/*
 * Value i of so many, of least to most bytes, somewhere in the set, which has that many; *n tells
 * how many bytes.  The same i gives the same value.
 */
const unsigned char *data_value(const struct page_set *set, uint64_t i, uint64_t values,
				uint64_t least, uint64_t most, size_t *n);

#endif
