/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* blob.h - objects of 1 .. PAGE_SIZE bytes that a store keeps as they are: ebb_put, ebb_get. */
#ifndef EBB_USER_BLOB_H
#define EBB_USER_BLOB_H

#include "store/store.h"

/* As store_try_write(), for an object; -EINVAL: bytes is out of range. */
int blob_put(struct store *s, u64 i, const void *data, size_t bytes, unsigned int node);

/*
 * Reads an object into buf; *bytes: its length, 0 if the slot is empty.  Any context.  -ERANGE;
 * -EINVAL: the slot has a page; -ENOSPC: cap is less than *bytes.
 */
int blob_get(struct store *s, u64 i, void *buf, size_t cap, size_t *bytes);

#endif
