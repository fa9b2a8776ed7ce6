// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* check.c - walks the slots, and compares them with the pool and the release stage. */
#include "check.h"
#include "store_word.h"

struct check_walk {
	struct store *s;
	struct counters sum;
	u64 objects;                    /* named by slots */
};

static const char *check_word(struct check_walk *w, u64 i, u64 word)
{
	u64 ref = slot_ref(word);
	const char *bad;
	size_t bytes;
	u32 key;

	if (word & SLOT_READERS)
		return "a slot is held by nobody";
	if (slot_type(word) == SLOT_PIECE || !slot_is_word(word))
		return "a slot word is of no type";
	if (!w->s->streams[slot_codec(word)])
		return "a page is of a codec that the store does not have";
	if (slot_type(word) == SLOT_FILL || slot_type(word) == SLOT_FILL_OBJ)
		w->sum.v[CNT_SAME]++;
	if (slot_type(word) && slot_type(word) < SLOT_FILL_OBJ)
		w->sum.v[CNT_ORIG_BYTES] += (s64)PAGE_SIZE;
	if (slot_type(word) == SLOT_BACKED) {
		w->sum.v[CNT_BACKED]++;
		if ((!slot_backed_size(word) && !w->s->units) || slot_backed_size(word) > PAGE_SIZE)
			return "a backed slot was of no size";
	}
	if (slot_type(word) == SLOT_UNIT) {
		w->sum.v[CNT_UNIT_PAGES]++;
		if (!w->s->units)
			return "a slot is of a unit, and there are none";
	}
	if (!slot_has_object(word))
		return NULL;
	bad = pool_check_ref(&w->s->pool, ref, &key);
	if (bad)
		return bad;
	if (key != i)
		return "an object has another slot's key";
	bytes = pool_ref_size(&w->s->pool, ref);
	w->objects++;
	w->sum.v[CNT_COMPR_BYTES] += (s64)bytes;
	w->sum.v[CNT_ROOM] += pool_ref_room(&w->s->pool, ref);
	w->sum.v[CNT_ORIG_BYTES] += (s64)(slot_type(word) == SLOT_BLOB ? bytes : PAGE_SIZE);
	w->sum.v[CNT_HUGE] += bytes == PAGE_SIZE;
	return bytes == PAGE_SIZE && slot_codec(word) ? "a raw page is of a codec" : NULL;
}

const char *store_check(struct store *s)
{
	static const enum store_counter counted[] = {
		CNT_ORIG_BYTES, CNT_COMPR_BYTES, CNT_ROOM, CNT_SAME, CNT_HUGE, CNT_BACKED,
		CNT_UNITS, CNT_UNIT_PAGES, CNT_UNIT_ROOM,
	};
	struct check_walk w = { .s = s };
	u64 at = 0, used, held;
	const char *bad = pool_check(&s->pool, &used);
	unsigned int k, left;
	host_a64 *slot;

	while (at < s->slots && !bad) {
		left = STORE_PIECE;
		while (!bad && (slot = store_next_slot(s, &at, s->slots, &left)))
			bad = check_word(&w, at - 1, host_a64_read(slot));
		cond_resched();
	}
	if (!bad && s->units)
		bad = s->unit_ops->check(s, &w.sum, &w.objects);
	if (!bad)
		bad = release_check(&s->release, &held);
	if (bad)
		return bad;
	if (holds_any(&s->holds))
		return "an object is held by nobody";
	if (w.objects + held != used)
		return "objects in use != references in slots and buffers";
	for (k = 0; k < sizeof(counted) / sizeof(counted[0]); k++)
		if (store_count(s, counted[k]) != (u64)w.sum.v[counted[k]])
			return "a counter does not match the slots";
	return NULL;
}
