/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * store_calls.h - writes that count those that fail, as who calls store_try_write() does, and what
 * the library asks of a store.
 */
#ifndef EBB_TESTS_STORE_CALLS_H
#define EBB_TESTS_STORE_CALLS_H

#include "../user/api/blob.h"
#include "../user/api/compact.h"
#include "../user/api/meta.h"

static inline int store_write(struct store *s, u64 i, const void *page, unsigned int node)
{
	int err = store_try_write(s, i, page, node);

	if (err && err != -ERANGE)
		store_note(s, CNT_FAILED_WRITE);
	return err;
}

static inline int store_put(struct store *s, u64 i, const void *data, size_t n, unsigned int node)
{
	int err = blob_put(s, i, data, n, node);

	if (store_no_room(err))
		store_note(s, CNT_FAILED_WRITE);
	return err;
}

/* Holds the object of slot i, if it has one, until store_drop(). */
static inline u64 store_hold(struct store *s, u64 i)
{
	return hold_take(&s->holds, store_slot(s, i));
}

#endif
