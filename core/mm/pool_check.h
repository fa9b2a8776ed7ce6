/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool_check.h - every invariant of the allocator as a function.
 *
 * Nobody else uses the pool during a check, which changes nothing.  Each returns NULL, or the
 * sentence of the invariant that does not hold.  Process context.
 *
 *   zspages   popcount(used) == in use > 0;  page[] covers every used object and is of its node;
 *             on a list <=> not full, and list >= class_list(inuse)
 *   lists     links agree both ways, members are of the class
 *   pool      sum of page[] == pool_pages(); every chunk of descriptors has one in use
 *   release   bytes held back == sum of pool_ref_room() over buffers; each buffer is a ring,
 *             queued, or empty in a pocket
 */
#ifndef EBB_CORE_POOL_CHECK_H
#define EBB_CORE_POOL_CHECK_H

#include "release.h"

/* *used: objects in use; used may be NULL. */
const char *pool_check(struct pool *p, u64 *used);
/* A reference names an object in use; *key: the object's. */
const char *pool_check_ref(struct pool *p, u64 ref, u32 *key);
/* *objects: objects that buffers name. */
const char *release_check(struct release *r, u64 *objects);

#endif
