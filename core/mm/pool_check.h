/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool_check.h - every invariant of the allocator as a function.
 *
 * Nobody else uses it during a check; nothing is changed.  Each returns NULL, or the sentence of
 * the invariant that does not hold.  Process context.
 *
 *   zspages   popcount(used) == in use > 0;  page[] covers every used object and is of its node;
 *             on a list <=> not full, and filed at its group or a higher one
 *   lists     links agree both ways, members are of the class
 *   pool      sum of page[] == pool_pages(); every chunk of descriptors has one in use
 *   release   bytes held back == sum of pages that objects take in buffers; a full queue has
 *             nothing more
 */
#ifndef EBB_CORE_POOL_CHECK_H
#define EBB_CORE_POOL_CHECK_H

#include "release.h"

/* *used, which may be NULL: objects in use. */
const char *pool_check(struct pool *p, u64 *used);
/* The object of a reference is there; *key is what it says of its slot. */
const char *pool_check_ref(struct pool *p, u64 ref, u32 *key);
/* *objects: that its buffers name, each of which is there. */
const char *release_check(struct release *r, u64 *objects);

#endif
