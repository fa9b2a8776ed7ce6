// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * writeback.c - chooses pages by walks over the slots and counts of sizes, without memory; copies
 * them out, and puts a block in a slot's word if the page is still the one that was chosen.
 */
#include "writeback.h"
#include "unit.h"

static int size_of(struct store *s, u64 word)
{
	return (int)(unit_page_bytes(s, word) >> (PAGE_SHIFT - 6));
}

static bool is_wanted(struct store *s, u64 word, unsigned int want)
{
	return slot_has_page(word) && !(word & SLOT_CHOSEN) &&
	       (!(want & CHOOSE_IDLE) || word & SLOT_IDLE) &&
	       (!(want & CHOOSE_INCOMPRESSIBLE) || word & SLOT_INCOMPRESSIBLE) &&
	       (!(want & CHOOSE_HUGE) || unit_page_bytes(s, word) == PAGE_SIZE);
}

bool store_choose_piece(struct store *s, u64 *at, u64 end, unsigned int want, struct chosen *c)
{
	unsigned int left = STORE_PIECE;
	host_a64 *slot;

	while ((slot = store_next_slot(s, at, end, &left))) {
		u64 word = host_a64_read(slot);

		if (is_wanted(s, word, want) && slot_mark(slot, word, SLOT_CHOSEN, 0))
			c->n[size_of(s, word)]++;
	}
	return *at < end;
}

int chosen_down_to(const struct chosen *c, int top, u64 room)
{
	int size, found = -1;
	u64 n = 0;

	for (size = top; size >= 0 && (found < 0 || n < room); size--) {
		if (found >= 0 && c->n[size] > room - n)
			break;
		n += c->n[size];
		if (c->n[size])
			found = size;
	}
	return found;
}

bool store_next_chosen(struct store *s, u64 *at, int smallest, int largest)
{
	unsigned int left;

	for (left = STORE_PIECE; left && *at < s->slots; left--) {
		u64 skip = host_table_skip(&s->table, *at), word;

		word = skip ? 0 : host_a64_read(store_slot(s, *at));
		if (slot_has_page(word) && word & SLOT_CHOSEN &&
		    size_of(s, word) >= smallest && size_of(s, word) <= largest)
			return true;
		*at += skip ? skip : 1;
	}
	return false;
}

void store_unchoose(struct store *s, u64 i)
{
	host_a64 *slot = store_slot(s, i);
	u64 word = host_a64_read(slot);

	if (!(word & SLOT_CHOSEN))
		return;
	host_a64_and(slot, ~SLOT_CHOSEN);
	/* Its unit may be taken apart again. */
	if (slot_type(word) == SLOT_UNIT)
		WRITE_ONCE(s->units->spared, 0);
}

bool store_unchoose_piece(struct store *s, u64 *at)
{
	unsigned int left = STORE_PIECE;

	while (store_next_slot(s, at, s->slots, &left))
		store_unchoose(s, *at - 1);
	return *at < s->slots;
}

/* Who writes back keeps others from recompressing, so the codec is still that of the look. */
int store_copy_out(struct store *s, u64 i, void *buf, bool packed)
{
	u64 seen = host_a64_read(store_slot(s, i)), word;
	struct streams *t = s->streams[slot_codec(seen)];
	const void *data;
	struct stream *st;
	size_t bytes;
	int err = 0;

	if (slot_type(seen) == SLOT_UNIT && seen & SLOT_CHOSEN) {
		err = unit_copy(s, i, buf, &word);
		return err < 0 ? err : err || !(word & SLOT_CHOSEN) ? -ENOENT : 0;
	}
	if (slot_type(seen) != SLOT_PAGE || !(seen & SLOT_CHOSEN))
		return -ENOENT;
	st = stream_get(t);
	word = hold_take_and(&s->holds, store_slot(s, i), 0);
	if (slot_type(word) != SLOT_PAGE || !(word & SLOT_CHOSEN) || (word ^ seen) & SLOT_CODEC) {
		err = -ENOENT;
	} else {
		bytes = pool_ref_size(&s->pool, slot_ref(word));
		data = pool_map(&s->pool, slot_ref(word), st->bounce);
		if (!packed && bytes < PAGE_SIZE) {
			err = stream_unpack(t->codec, st, data, bytes, buf);
		} else {
			memcpy(buf, data, bytes);
			memset((char *)buf + bytes, 0, PAGE_SIZE - bytes);
		}
	}
	if (slot_has_object(word))
		store_drop(s, i, word);
	stream_put(st);
	return err;
}

/* More than the readers of a slot word, each of which may just be going, and as many moves. */
#define BACKED_TRIES 16

/*
 * As a swap, but only if the page is still chosen; the object that its readers hold is an orphan
 * then.  Compaction, and readers that go, change the word without touching the page, so it tries
 * again.  If they do so again and again the page stays here.
 */
bool store_to_backed(struct store *s, u64 i, u64 block)
{
	host_a64 *slot = store_slot(s, i);
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);
	struct release_todo todo = { NULL, false };
	u64 old = host_a64_read(slot), word = 0;
	bool now = false, done = false;
	unsigned int tries;
	size_t bytes;

	for (tries = 0; !done && tries < BACKED_TRIES; tries++) {
		if (!slot_has_page(old) || !(old & SLOT_CHOSEN))
			break;
		bytes = slot_type(old) == SLOT_UNIT ? 0 :
						      pool_ref_size(&s->pool, slot_ref(old));
		word = slot_make(SLOT_BACKED, slot_backed_value(bytes, block));
		done = host_a64_cas(slot, &old, word | (old & (SLOT_INCOMPRESSIBLE | SLOT_CODEC)));
	}
	if (done) {
		store_account(s, &cpu->counters, word, 1);
		store_account(s, &cpu->counters, old, -1);
		if (slot_type(old) == SLOT_UNIT)
			unit_drop(s, cpu, old, &todo);
		else if (!(old & SLOT_READERS) || hold_orphan(&s->holds, old))
			now = store_release(s, cpu, slot_ref(old), &todo);
	}
	host_percpu_unlock(&s->cpus, cpu);
	store_release_finish(s, slot_ref(old), now, &todo);
	/* When no block is in hand, what they took the place of is free, or held back. */
	if (done)
		host_a64_add(&s->backed->in_hand, ~(u64)0);
	return done;
}

int store_back(struct store *s, struct backed *b, u64 blocks)
{
	unsigned int k;
	int err = blocks > SLOT_BLOCK_MASK + 1 ? -EINVAL : backed_init(b, blocks);

	if (err)
		return err;
	s->backed = b;
	s->free_block = backed_let_go;
	for (k = 0; blocks && k < host_percpu_items(&s->cpus); k++) {
		struct store_cpu *cpu = host_percpu_peek(&s->cpus, k);

		cpu->blocks = backed_batch_of(b, k);
	}
	return 0;
}

u64 store_blocks(struct store *s)
{
	return store_count(s, CNT_BACKED) + host_a64_read(&s->backed->in_hand);
}

void store_collect_blocks(struct store *s)
{
	struct backed *b = s->backed;
	unsigned int k;

	for (k = 0; b->blocks && k < host_percpu_items(&b->cpus); k++)
		backed_collect(b, backed_batch_of(b, k));
}

int store_reserve_block(struct store *s, u64 *block)
{
	int err = backed_reserve(s->backed, block);

	if (!err)
		return 0;
	store_collect_blocks(s);
	return backed_reserve(s->backed, block);
}

void store_put_backed(struct store *s, u64 i, u64 block)
{
	u64 value = slot_backed_value(PAGE_SIZE, block);

	store_put_word(s, store_slot(s, i), slot_make(SLOT_BACKED, value));
	host_a64_add(&s->backed->in_hand, ~(u64)0);
}

/*
 * The count comes before the second look, as the swap of a free comes before its look at the count:
 * one of the two sees the other.  *word is that of the second look: the block may have come back to
 * the slot with another page of the same size, which another codec made.  A turn is lost only if a
 * whole writeback came in between.
 */
bool store_backed_begin(struct store *s, u64 i, u64 *word)
{
	host_a64 *slot = store_slot(s, i);
	u64 seen;

	for (;;) {
		seen = host_a64_read(slot);
		if (slot_type(seen) != SLOT_BACKED)
			return false;
		backed_hold(s->backed, slot_block(seen));
		*word = host_a64_read_acquire(slot);
		if (slot_same_value(*word, seen))
			break;
		backed_drop(s->backed, slot_block(seen));
	}
	store_note(s, CNT_BD_READS);
	return true;
}

int store_unpack_backed(struct store *s, u64 word, const void *data, void *page)
{
	struct streams *t = s->streams[slot_codec(word)];
	size_t bytes = slot_backed_bytes(word);
	struct stream *st;
	int err = 0;

	if (bytes == PAGE_SIZE) {
		memcpy(page, data, bytes);
		return 0;
	}
	st = stream_get(t);
	err = stream_unpack(t->codec, st, data, bytes, page);
	stream_put(st);
	if (err)
		store_note(s, CNT_FAILED_READ);
	return err;
}
