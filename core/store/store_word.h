/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * store_word.h - a word that comes to a slot and one that goes, for the files of the store: nobody
 * else includes it.
 *
 *     swap --> counters --> an object: a release buffer --> after the item: finish
 *                                      or free at once
 *                           a block:   its tier, in the CPU's batch
 */
#ifndef EBB_CORE_STORE_WORD_H
#define EBB_CORE_STORE_WORD_H

#include "store.h"

/* Counts what a word holds, by = 1 when it comes and -1 when it goes. */
static HOST_INLINE void store_account(struct store *s, struct counters *c, u64 word, s64 by)
{
	enum slot_type type = slot_type(word);
	size_t bytes;

	if (type == SLOT_FILL || type == SLOT_FILL_OBJ)
		counter_add(c, CNT_SAME, by);
	if (host_unlikely(type < SLOT_FILL_OBJ)) {
		counter_add(c, CNT_ORIG_BYTES, by * (s64)HOST_PAGE_SIZE);
		if (type == SLOT_BACKED)
			counter_add(c, CNT_BACKED, by);
		return;
	}
	bytes = pool_ref_size(&s->pool, slot_ref(word));
	counter_add(c, CNT_COMPR_BYTES, by * (s64)bytes);
	counter_add(c, CNT_ROOM, by * (s64)pool_ref_room(&s->pool, slot_ref(word)));
	counter_add(c, CNT_ORIG_BYTES, by * (s64)(type == SLOT_BLOB ? bytes : HOST_PAGE_SIZE));
	if (bytes == HOST_PAGE_SIZE) {
		counter_add(c, CNT_HUGE, by);
		if (by > 0)
			counter_add(c, CNT_HUGE_SINCE, 1);
	}
}

/*
 * Lets go of an object that is accounted for and takes room bytes of pages, under the item.  True:
 * it is left to store_let_go_finish(), after that.
 */
static HOST_INLINE bool store_let_go(struct store *s, struct store_cpu *cpu, u64 ref, u32 room,
				     struct release_todo *todo)
{
	if (!host_read_once(s->release.limit)) {
		counter_add(&cpu->counters, CNT_SYNC, 1);
		return true;
	}
	release_push(&s->release, &cpu->release, ref, room, todo);
	return false;
}

static HOST_INLINE void store_let_go_finish(struct store *s, u64 ref, bool now,
					    struct release_todo *todo)
{
	if (!now)
		release_finish(todo);
	else
		pool_free(&s->pool, ref);
}

/*
 * Puts word in a slot, 0 to empty it, and lets go of what was there.  Any context.
 *
 * The item is held from the swap until the object is an orphan, so at most one swap per
 * item is between the two (hold.h), and who waits for it waits for no sleeper.
 */
static HOST_INLINE void store_put_word(struct store *s, host_a64 *slot, u64 word)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);
	struct release_todo todo = { NULL, false };
	u64 old, ref;
	bool now = false;

	if (word)
		store_account(s, &cpu->counters, word, 1);
	old = slot_swap(slot, word);
	ref = slot_ref(old);
	if (host_likely(slot_type(old) != SLOT_EMPTY)) {
		store_account(s, &cpu->counters, old, -1);
		if (!word)
			counter_add(&cpu->counters, CNT_FREED, 1);
		if (slot_has_object(old)) {
			if (host_likely(!(old & SLOT_READERS)) || hold_orphan(&s->holds, old))
				now = store_let_go(s, cpu, ref, pool_ref_room(&s->pool, ref),
						   &todo);
		} else if (slot_type(old) == SLOT_BACKED) {
			s->let_go_block(s->backed, cpu->blocks, slot_block(old));
		}
	}
	host_percpu_unlock(&s->cpus, cpu);
	store_let_go_finish(s, ref, now, &todo);
}

#endif
