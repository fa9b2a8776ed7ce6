/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * heap.h - small memory of the library's structures, in mappings of its own.
 *
 * A store takes some 100 KiB of it.  Out of malloc() it would stay in the process when the store is
 * closed, for as long as anything that came later is in use.
 */
#ifndef EBB_USER_HEAP_H
#define EBB_USER_HEAP_H

#include <stddef.h>

#define HEAP_MOST ((size_t)64 << 10)    /* the largest piece */
#define HEAP_STEP ((size_t)512 << 10)   /* of address space, that an allocation may take */

/*
 * bytes of zeros, at most HEAP_MOST, at an address that is a multiple of align, a power of two of
 * at most a page.  NULL when short.  A forked child's heap is empty.
 */
void *heap_alloc(size_t bytes, size_t align);
/* The same bytes; the pages that nobody else has a part of go back to the system at once. */
void heap_free(void *p, size_t bytes);

#endif
