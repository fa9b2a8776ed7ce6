// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_backed_check.c - what kernel/zram/tier/tier_check.c says of blocks of a backing device: each
 * is broken once, and told by its sentence, as all else is in test_check.c.
 */
#include "backed_rig.h"
#include "wound.h"

static u64 *backed_word(u64 i)
{
	return (u64 *)(void *)store_slot(&rig.store, i);
}

static u64 *free_blocks(void)
{
	return &rig.store.backed->free.level[0][0];
}

static void no_block(void) { HURT(*backed_word(0), *backed_word(0) | SLOT_BLOCK_MASK); }
static void free_block(void) { HURT(*free_blocks(), *free_blocks() | 1); }
static void twice(void) { HURT(*backed_word(1), *backed_word(0)); }
static void no_size(void) { HURT(*backed_word(0), slot_make(SLOT_BACKED, 0)); }
static void batch_full(void) { HURT(backed_batch_of(rig.store.backed, 0)->n, BACKED_BATCH); }
static void in_batch_twice(void) { HURT(backed_batch_of(rig.store.backed, 0)->n, 1); }
static void in_hand(void) { HURT(*(u64 *)(void *)&rig.store.backed->in_hand, 1); }
static void read_by_nobody(void) { HURT(*(u64 *)(void *)rig.store.backed->readers, 1); }
static void level(void) { HURT(rig.store.backed->late.level[1][0], 1); }

/* A word that is not there, of the last one that says so. */
static void no_word(void)
{
	const struct blockset *t = &rig.store.backed->late;

	HURT(t->level[1][t->words[1] - 1], t->level[1][t->words[1] - 1] | (u64)1 << 63);
}

static void is_late(u64 block)
{
	const struct blockset *t = &rig.store.backed->late;
	u64 place = backed_late_place(rig.store.backed, block);

	HURT(t->level[0][place / 64], (u64)1 << place % 64);
	HURT(t->level[1][0], (u64)1 << place / 64);
}

static void named_and_late(void) { is_late(0); }
static void late_past_the_end(void) { is_late(BLOCKS); }

static void level_of_free(void)
{
	HURT(rig.store.backed->free.level[1][0], ~rig.store.backed->free.level[1][0]);
}

static const char *check(void)
{
	return tier_check(&rig.store);
}

/* Slots 0 and 1 are on the device, in blocks 0 and 1. */
CASE(each_invariant_of_blocks_that_is_broken_is_told)
{
	static const struct damage table[] = {
		{ no_block, "a block is not of the backing device" },
		{ free_block, "a block that is named is free" },
		{ twice, "a block is named twice" },
		{ batch_full, "a batch of blocks is full" },
		{ in_batch_twice, "a block is named twice" },
		{ no_size, "a backed slot was of no size" },
		{ in_hand, "blocks are not all free, late, in hand or named" },
		{ read_by_nobody, "a block is read by nobody" },
		{ named_and_late, "a block that is named is free" },
		{ late_past_the_end, "a late block is not of the backing device" },
		{ no_word, "a level of a set of blocks does not say what is below it" },
		{ level, "a level of a set of blocks does not say what is below it" },
		{ level_of_free, "a level of a set of blocks does not say what is below it" },
	};
	struct store *s = open_rig(1 << 20, BLOCKS);
	struct chosen c = { { 0 } };
	u64 at = 0, block;

	for (u64 i = 0; i < 2; i++) {
		make_page(page, i, 0);
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	}
	while (store_choose_piece(s, &at, s->slots, 0, &c))
		;
	for (u64 i = 0; i < 2; i++) {
		must_eq(backed_reserve(s->backed, &block), 0);
		must_eq(block, i);
		must_eq(store_to_backed(s, i, block), true);
	}
	/* The objects that the blocks took the place of are gone, and nobody is at them. */
	release_flush(&s->release);
	release_quiesce(&s->release);
	must_tell_each(table, ARRAY_LEN(table), check);
}
