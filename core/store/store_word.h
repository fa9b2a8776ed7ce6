/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * store_word.h - how a word comes to a slot and the old one goes, for the store and the tiers.
 *
 *     swap --> counters --> an object: store_release() --> item unlocked --> store_release_finish()
 *                           a block:   store.free_block()
 *                           a unit's:  unit_ops.drop()
 */
#ifndef EBB_CORE_STORE_WORD_H
#define EBB_CORE_STORE_WORD_H

#include "store.h"

/* What a store asks of its units (unit.c). */
struct unit_ops {
	/* A slot that had word no longer names its unit.  The item is held. */
	void (*drop)(struct store *s, struct store_cpu *cpu, u64 word, struct release_todo *todo);
	/* Reads slot i.  STORE_AGAIN: it is of no unit by now; -EIO: page is zeros. */
	int (*read)(struct store *s, u64 i, void *page);
	/* For who found no room: gives back what dead pages take.  1: there may be more. */
	int (*tidy)(struct store *s);
	/* Checks words past the slots', as store_check(), and adds to what that counts. */
	const char *(*check)(struct store *s, struct counters *sum, u64 *objects);
};

/* Lets go of what a word named that is neither an object nor a fill value.  The item is held. */
void store_let_go(struct store *s, struct store_cpu *cpu, u64 word, struct release_todo *todo);

/* In `how`: past mem_limit, for what gives back more soon. */
#define STORE_PAST_LIMIT POOL_LIMITED

/* Makes word i one that may be written.  node, how: as store_try_now().  -ENOMEM. */
static inline int store_need_word(struct store *s, u64 i, unsigned int node, unsigned int how)
{
	return likely(host_table_has(&s->table, i)) ? 0 :
	       store_make_room(s, i, node, how, NULL, 0, NULL);
}

/* Whether a page is one repeated word, *fill. */
bool store_is_fill(const void *page, u64 *fill);

/* Counts what a word holds, by = 1 when it comes and -1 when it goes. */
static __always_inline void store_account(struct store *s, struct counters *c, u64 word, s64 by)
{
	enum slot_type type = slot_type(word);
	size_t bytes;

	if (type == SLOT_FILL || type == SLOT_FILL_OBJ)
		counter_add(c, CNT_SAME, by);
	if (unlikely(type < SLOT_FILL_OBJ)) {
		counter_add(c, CNT_ORIG_BYTES, by * (s64)PAGE_SIZE);
		if (type == SLOT_BACKED)
			counter_add(c, CNT_BACKED, by);
		return;
	}
	bytes = pool_ref_size(&s->pool, slot_ref(word));
	counter_add(c, CNT_COMPR_BYTES, by * (s64)bytes);
	counter_add(c, CNT_ROOM, by * (s64)pool_ref_room(&s->pool, slot_ref(word)));
	counter_add(c, CNT_ORIG_BYTES, by * (s64)(type == SLOT_BLOB ? bytes : PAGE_SIZE));
	if (bytes == PAGE_SIZE) {
		counter_add(c, CNT_HUGE, by);
		if (by > 0)
			counter_add(c, CNT_HUGE_SINCE, 1);
	}
}

/*
 * Releases an object that no slot names and nobody holds, and that was taken off the counters.
 * True: it is for store_release_finish() to free.  The item is held.
 */
static __always_inline bool store_release(struct store *s, struct store_cpu *cpu, u64 ref,
					  struct release_todo *todo)
{
	if (!READ_ONCE(s->release.limit)) {
		counter_add(&cpu->counters, CNT_SYNC, 1);
		return true;
	}
	release_push(&s->release, &cpu->release, ref, pool_ref_room(&s->pool, ref), todo);
	return false;
}

/* now: what store_release() returned, or false without it.  Any context, no item held. */
static __always_inline void store_release_finish(struct store *s, u64 ref, bool now,
						 struct release_todo *todo)
{
	if (!now)
		release_finish(todo);
	else
		pool_free(&s->pool, ref);
}

/*
 * Puts word in a slot, 0 to empty it, and releases what was there.  Any context.
 *
 * The item is held from the swap until an object with readers is an orphan: so at most one swap an
 * item is between the two (hold.h), and host_settle() waits for it.
 */
static __always_inline void store_put_word(struct store *s, host_a64 *slot, u64 word)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);
	struct release_todo todo = { NULL, false };
	u64 old, ref;
	bool now = false;

	if (word)
		store_account(s, &cpu->counters, word, 1);
	old = slot_swap(slot, word);
	ref = slot_ref(old);
	if (likely(slot_type(old) != SLOT_EMPTY)) {
		store_account(s, &cpu->counters, old, -1);
		if (!word)
			counter_add(&cpu->counters, CNT_FREED, 1);
		if (slot_has_object(old)) {
			if (likely(!(old & SLOT_READERS)) || hold_orphan(&s->holds, old))
				now = store_release(s, cpu, ref, &todo);
		} else if (slot_type(old) != SLOT_FILL) {
			store_let_go(s, cpu, old, &todo);
		}
	}
	host_percpu_unlock(&s->cpus, cpu);
	store_release_finish(s, ref, now, &todo);
}

#endif
