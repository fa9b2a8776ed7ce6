// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tier_check.c - walks the slots for blocks, and compares them with what is known of those. */
#include "tier_check.h"

struct blocks_walk {
	struct backed *b;
	u64 named;                      /* blocks that slots and batches name */
	u64 *seen;                      /* a bit for each block; NULL: no memory for it */
};

/* A block that a slot or a buffer names is nobody else's. */
static const char *check_block(struct blocks_walk *w, u64 block)
{
	struct backed *b = w->b;

	if (block >= b->blocks)
		return "a block is not of the backing device";
	if (blockset_has(&b->free, block) || blockset_has(&b->late, backed_late_place(b, block)))
		return "a block that is named is free";
	if (w->seen && w->seen[block / 64] >> block % 64 & 1)
		return "a block is named twice";
	if (w->seen)
		w->seen[block / 64] |= (u64)1 << block % 64;
	w->named++;
	return NULL;
}

/* The sets of free and of late blocks are what is said of them. */
static const char *check_sets(const struct backed *b)
{
	u64 nfree = 0, nlate = 0, block, i;

	if (!blockset_is_tidy(&b->free) || !blockset_is_tidy(&b->late))
		return "a level of a set of blocks does not say what is below it";
	for (i = 0; i < b->free.words[0]; i++) {
		nfree += (u64)hweight64(b->free.level[0][i]);
		if (i % 4096 == 0)
			cond_resched();
	}
	for (i = 0; (i = blockset_next(&b->late, i)) < BACKED_READERS * b->late_row; i++) {
		block = backed_late_block(b, i);
		if (block >= b->blocks)
			return "a late block is not of the backing device";
		if (blockset_has(&b->free, block))
			return "a block is free and late";
		nlate++;
		if (nlate % 4096 == 0)
			cond_resched();
	}
	return nfree == b->nfree && nlate == b->nlate ? NULL :
	       "blocks that are free or late are not what was counted";
}

/* Blocks that CPUs let go of. */
static const char *check_batch(struct blocks_walk *w, const struct backed_batch *batch)
{
	const char *bad = NULL;
	unsigned int i;

	if (batch->n >= BACKED_BATCH)
		return "a batch of blocks is full";
	for (i = 0; i < batch->n && !bad; i++)
		bad = check_block(w, batch->block[i]);
	return bad;
}

/* Blocks that slots have. */
static const char *check_slots(struct blocks_walk *w, struct store *s)
{
	const char *bad = NULL;
	u64 at = 0;

	while (at < s->slots && !bad) {
		unsigned int left = STORE_PIECE;
		host_a64 *slot;

		while (!bad && (slot = store_next_slot(s, &at, s->slots, &left))) {
			u64 word = host_a64_read(slot);

			if (slot_type(word) == SLOT_BACKED)
				bad = check_block(w, slot_block(word));
		}
		cond_resched();
	}
	return bad;
}

static const char *check_blocks(struct blocks_walk *w, struct store *s)
{
	struct backed *b = w->b;
	const char *bad = check_slots(w, s);
	unsigned int i;

	for (i = 0; b->blocks && i < host_percpu_items(&b->cpus) && !bad; i++)
		bad = check_batch(w, backed_batch_of(b, i));
	if (bad || !b->blocks)
		return bad;
	bad = check_sets(b);
	if (bad)
		return bad;
	if (b->nfree + b->nlate + w->named + host_a64_read(&b->in_hand) != b->blocks)
		return "blocks are not all free, late, in hand or named";
	for (i = 0; i < BACKED_READERS; i++)
		if (host_a64_read(&b->readers[i]))
			return "a block is read by nobody";
	return NULL;
}

const char *tier_check(struct store *s)
{
	size_t bytes = (size_t)(s->backed->blocks + 63) / 64 * sizeof(u64);
	struct blocks_walk w = { .b = s->backed };
	const char *bad;

	if (bytes)
		w.seen = host_zalloc(bytes);
	bad = check_blocks(&w, s);
	host_free(w.seen, bytes);
	return bad ? bad : store_check(s);
}
