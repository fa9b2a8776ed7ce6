// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* blob.c - how an object that is no page comes to a slot, and is read there. */
#include "blob.h"
#include "store/store_word.h"

int blob_put(struct store *s, u64 i, const void *data, size_t bytes, unsigned int node)
{
	u64 ref;
	int err;

	if (i >= s->slots)
		return -ERANGE;
	if (!bytes || bytes > PAGE_SIZE)
		return -EINVAL;
	err = store_make_room(s, i, node, HOST_MAY_WAIT, data, bytes, &ref);
	if (unlikely(store_no_room(err))) {
		release_flush(&s->release);
		err = store_make_room(s, i, node, HOST_MAY_WAIT, data, bytes, &ref);
	}
	if (!err)
		store_put_word(s, store_slot(s, i), slot_make(SLOT_BLOB, ref));
	return err;
}

static int blob_read(struct store *s, u64 word, void *buf, size_t cap, size_t *bytes)
{
	if (slot_type(word) != SLOT_BLOB)
		return -EINVAL;
	*bytes = pool_ref_size(&s->pool, slot_ref(word));
	if (*bytes > cap)
		return -ENOSPC;
	pool_read(&s->pool, slot_ref(word), buf);
	return 0;
}

int blob_get(struct store *s, u64 i, void *buf, size_t cap, size_t *bytes)
{
	struct release_todo todo = { NULL, false };
	bool last = false, now = false;
	struct store_cpu *cpu;
	host_a64 *slot;
	int err = 0;
	u64 word;

	if (i >= s->slots)
		return -ERANGE;
	*bytes = 0;
	slot = store_slot(s, i);
	word = host_a64_read(slot);
	if (!slot_has_object(word))
		return slot_type(word) == SLOT_EMPTY ? 0 : -EINVAL;
	/* Without a stream: here the item bounds the number of holds (hold.h). */
	cpu = host_percpu_lock(&s->cpus);
	word = hold_take(&s->holds, slot);
	if (slot_has_object(word)) {
		err = blob_read(s, word, buf, cap, bytes);
		last = hold_drop(&s->holds, slot, slot_ref(word));
		if (last)
			now = store_release(s, cpu, slot_ref(word), &todo);
	} else if (slot_type(word) != SLOT_EMPTY) {
		err = -EINVAL;
	}
	host_percpu_unlock(&s->cpus, cpu);
	if (last)
		store_release_finish(s, slot_ref(word), now, &todo);
	return err;
}
