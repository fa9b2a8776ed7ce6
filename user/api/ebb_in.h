/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ebb_in.h - what other files of the library ask of ebb.c, and programs do not.
 */
#ifndef EBB_USER_EBB_IN_H
#define EBB_USER_EBB_IN_H

#include "ebb.h"

struct codec_ops;

/*
 * The codec that a configuration names (NULL: lz4), and its level (EBB_LEVEL_DEFAULT: the codec's).
 * -ENOENT: there is no such codec.  -EINVAL: it has no such level.
 */
int ebb_find_codec(const char *name, int32_t level, const struct codec_ops **codec, int *found);

/* Bytes of the store's zspages now: what mem_limit is about.  One load. */
uint64_t ebb_pool_bytes(struct ebb_store *store);

/* The same and what the CPUs' lists have of free pages.  One load. */
uint64_t ebb_taken_bytes(struct ebb_store *store);

/* Has a slot's word be there, so that a put into it needs no memory for that.  -ERANGE; -ENOMEM. */
int ebb_need_slot(struct ebb_store *store, uint64_t slot);

/*
 * For who found no room, and holds nothing that a compaction waits for: flushes what is held back,
 * and closes the holes, if any may have come since this was done last.  True: try again.
 */
bool ebb_close_holes(struct ebb_store *store);

/*
 * Gives the memory of some slots' words back: all are empty, and nobody writes to one before it
 * returns.  They begin with a page of the slot table (HOST_USER_PART words) and end with one, or
 * with the last slot.  Whoever has a reference or a hold of what they had may use it meanwhile.
 * False: the system does not take it.
 */
bool ebb_forget_slots(struct ebb_store *store, uint64_t first, uint64_t count);

/*
 * give(ctx, ns) is called now and then while something is freed, and by ebb_trim(): it gives back
 * what it can of its own memory, for about ns, and says whether there may be more.  Its caller may
 * hold locks of the store's owner.  NULL: no more; it does not run when this returns, unless by
 * ebb_trim().
 */
void ebb_give_also(struct ebb_store *store, bool (*give)(void *ctx, uint64_t ns), void *ctx);

#endif
