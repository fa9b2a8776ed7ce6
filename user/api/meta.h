/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* meta.h - figures of a store that ebb.h has, and the device has not. */
#ifndef EBB_USER_META_H
#define EBB_USER_META_H

#include "store/store.h"

/* What is held back now is the peak (release_peak()).  Any context. */
void release_reset_peak(struct release *r);

/* Bytes of buffers, those for the limit, which stores share, included.  Any context. */
u64 release_meta_bytes(struct release *r);

/* Bytes of the slot table as far as it is there, of descriptors and of buffers.  Any context. */
u64 store_meta_bytes(struct store *s);

/* Pages of the source that the store has, without the reserve.  Any context. */
u64 store_pages_taken(struct store *s);

#endif
