// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* backed.c - owns which blocks of a backing device are free. */
#include "backed.h"

#define NO_BLOCK (~(u64)0)

/* ---- sets of numbers ---- */

static int blockset_init(struct blockset *t, u64 n)
{
	unsigned int k;

	for (k = 0;; k++) {
		n = (n + 63) / 64;
		t->words[k] = n;
		t->level[k] = host_zalloc(n * sizeof(u64));
		if (!t->level[k])
			return -ENOMEM;
		t->levels = k + 1;
		if (n == 1)
			return 0;
	}
}

static void blockset_destroy(struct blockset *t)
{
	unsigned int k;

	for (k = 0; k < t->levels; k++)
		host_free(t->level[k], t->words[k] * sizeof(u64));
	memset(t, 0, sizeof(*t));
}

/* All numbers below n. */
static void blockset_fill(struct blockset *t, u64 n)
{
	unsigned int k;
	u64 i;

	for (k = 0; k < t->levels; k++) {
		for (i = 0; i < n / 64; i++) {
			t->level[k][i] = ~(u64)0;
			if (i % 4096 == 0)
				cond_resched();
		}
		if (n % 64)
			t->level[k][i] = ((u64)1 << n % 64) - 1;
		n = (n + 63) / 64;
	}
}

static void blockset_add(struct blockset *t, u64 i)
{
	unsigned int k;

	for (k = 0; k < t->levels; k++, i /= 64) {
		u64 was = t->level[k][i / 64];

		t->level[k][i / 64] = was | (u64)1 << i % 64;
		if (was)
			return;
	}
}

static void blockset_del(struct blockset *t, u64 i)
{
	unsigned int k;

	for (k = 0; k < t->levels; k++, i /= 64) {
		t->level[k][i / 64] &= ~((u64)1 << i % 64);
		if (t->level[k][i / 64])
			return;
	}
}

bool blockset_has(const struct blockset *t, u64 i)
{
	return t->level[0][i / 64] >> i % 64 & 1;
}

/* Up until a word has a bit from i on, and down again by the lowest ones. */
u64 blockset_next(const struct blockset *t, u64 i)
{
	unsigned int k;
	u64 word = 0;

	for (k = 0; k < t->levels; k++) {
		if (i / 64 >= t->words[k])
			return NO_BLOCK;
		word = t->level[k][i / 64] & ~(u64)0 << i % 64;
		if (word)
			break;
		i = i / 64 + 1;
	}
	if (!word)
		return NO_BLOCK;
	i = i / 64 * 64 + (u64)__builtin_ctzll(word);
	while (k--)
		i = i * 64 + (u64)__builtin_ctzll(t->level[k][i]);
	return i;
}

bool blockset_is_tidy(const struct blockset *t)
{
	unsigned int k;
	u64 i;

	for (k = 0; k + 1 < t->levels; k++) {
		for (i = 0; i < t->words[k]; i++)
			if (!t->level[k][i] != !(t->level[k + 1][i / 64] >> i % 64 & 1))
				return false;
		/* Of no word below. */
		if (i % 64 && t->level[k + 1][i / 64] >> i % 64)
			return false;
	}
	return true;
}

/* ---- blocks ---- */

int backed_init(struct backed *b, u64 blocks)
{
	unsigned int k;

	memset(b, 0, sizeof(*b));
	if (!blocks)
		return 0;
	if (host_percpu_init(&b->cpus, sizeof(struct backed_batch)))
		return -ENOMEM;
	for (k = 0; k < host_percpu_items(&b->cpus); k++)
		spin_lock_init(&backed_batch_of(b, k)->lock);
	spin_lock_init(&b->lock);
	b->late_row = (blocks + BACKED_READERS - 1) / BACKED_READERS;
	b->readers = host_zalloc(BACKED_READERS * sizeof(*b->readers));
	if (!b->readers || blockset_init(&b->free, blocks) ||
	    blockset_init(&b->late, BACKED_READERS * b->late_row)) {
		backed_destroy(b);
		return -ENOMEM;
	}
	blockset_fill(&b->free, blocks);
	b->nfree = blocks;
	b->blocks = blocks;
	return 0;
}

void backed_destroy(struct backed *b)
{
	blockset_destroy(&b->late);
	blockset_destroy(&b->free);
	host_percpu_destroy(&b->cpus);
	host_free(b->readers, BACKED_READERS * sizeof(*b->readers));
	memset(b, 0, sizeof(*b));
}

static void make_free(struct backed *b, u64 block) __must_hold(&b->lock)
{
	blockset_add(&b->free, block);
	WRITE_ONCE(b->nfree, b->nfree + 1);
}

/*
 * Makes late blocks free that nobody reads any more, of the next ones up to the end of the set.
 * Each call begins where the last one ended, so that blocks that are read again and again do not
 * hide the others.
 */
static void look_at_late(struct backed *b) __must_hold(&b->lock)
{
	unsigned int left;

	for (left = BACKED_LATE_LOOKS; left && b->nlate; left--) {
		u64 place = blockset_next(&b->late, b->late_at), block;

		if (place == NO_BLOCK) {
			b->late_at = 0;
			b->late_turns++;
			return;
		}
		block = backed_late_block(b, place);
		if (host_a64_read_acquire(backed_readers(b, block))) {
			b->late_at = (place / b->late_row + 1) * b->late_row;
			continue;
		}
		b->late_at = place + 1;
		blockset_del(&b->late, place);
		WRITE_ONCE(b->nlate, b->nlate - 1);
		make_free(b, block);
	}
}

static u64 backed_lowest_free(struct backed *b) __must_hold(&b->lock)
{
	u64 block = blockset_next(&b->free, b->from);

	if (block != NO_BLOCK)
		return block;
	b->from = 0;
	return blockset_next(&b->free, 0);
}

/*
 * If no block is free it looks at all late ones, in short holds of the lock.  That is done when
 * looks, its own or those of other threads, have met the end of the set twice.
 */
int backed_reserve(struct backed *b, u64 *block)
{
	u64 until = ~(u64)0;
	bool more;
	int err;

	do {
		spin_lock(&b->lock);
		if (until == ~(u64)0)
			until = b->late_turns + 2;
		look_at_late(b);
		err = b->nlate ? -EBUSY : -ENOSPC;
		if (b->nfree) {
			*block = backed_lowest_free(b);
			blockset_del(&b->free, *block);
			WRITE_ONCE(b->nfree, b->nfree - 1);
			WRITE_ONCE(b->reserved, b->reserved + 1);
			host_a64_add(&b->in_hand, 1);
			err = 0;
		}
		more = err == -EBUSY && b->nlate && b->late_turns < until;
		spin_unlock(&b->lock);
	} while (more);
	return err;
}

void backed_unreserve(struct backed *b, u64 block)
{
	spin_lock(&b->lock);
	make_free(b, block);
	spin_unlock(&b->lock);
	host_a64_add(&b->in_hand, ~(u64)0);
}

void backed_failed(struct backed *b, u64 block)
{
	spin_lock(&b->lock);
	b->from = block + 1;
	spin_unlock(&b->lock);
	backed_unreserve(b, block);
}

static void backed_put_batch(struct backed *b, struct backed_batch *batch)
	__must_hold(&batch->lock)
{
	unsigned int i;

	spin_lock(&b->lock);
	for (i = 0; i < batch->n; i++) {
		u64 block = batch->block[i];

		/* Whoever looked at the slot before the block left it is counted by now. */
		if (!host_a64_read_acquire(backed_readers(b, block))) {
			make_free(b, block);
		} else {
			blockset_add(&b->late, backed_late_place(b, block));
			WRITE_ONCE(b->nlate, b->nlate + 1);
		}
	}
	/* Who sees that there is none left, and then takes the lock, finds them. */
	WRITE_ONCE(batch->n, 0);
	spin_unlock(&b->lock);
}

void backed_collect(struct backed *b, struct backed_batch *batch)
{
	if (!READ_ONCE(batch->n))
		return;
	spin_lock(&batch->lock);
	backed_put_batch(b, batch);
	spin_unlock(&batch->lock);
}

void backed_let_go(struct backed *b, struct backed_batch *batch, u64 block)
{
	spin_lock(&batch->lock);
	batch->block[batch->n] = block;
	WRITE_ONCE(batch->n, batch->n + 1);
	if (batch->n == BACKED_BATCH)
		backed_put_batch(b, batch);
	spin_unlock(&batch->lock);
}
