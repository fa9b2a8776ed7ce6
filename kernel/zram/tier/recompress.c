// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * recompress.c - owns the second lives of objects.
 *
 * The thread that recompresses a page holds the old object from its first look to its last.  So the
 * object is neither moved nor freed, its reference names nothing else, and the slot's word tells by
 * it whether the page is still the one that was read.  The thread has a stream only while a codec
 * works, so that no reader or writer waits while it makes an object.  There are enough records of
 * holds for it (store.c, most_holds()).
 */
#include "recompress.h"
#include "unit.h"

#define HELP_BUFS 4             /* buffers freed before memory is asked for once more */

void recompress_request_init(struct recompress_request *r, unsigned int priority)
{
	*r = (struct recompress_request){
		.priority = priority, .to = RECOMPRESS_BANDS, .left = ~(u64)0,
	};
}

unsigned int store_last_codec(const struct store *s, bool units)
{
	unsigned int p = STORE_CODECS - 1;

	while (p && (!s->streams[p] || (units && !unit_fits(s, p))))
		p--;
	return p;
}

static unsigned int band_of(size_t bytes)
{
	return (unsigned int)(bytes / RECOMPRESS_STEP);
}

/* Whether the request is about the page of this word. */
static bool is_meant(const struct store *s, const struct recompress_request *r, u64 word)
{
	size_t bytes;

	if (!slot_has_page(word) || word & SLOT_INCOMPRESSIBLE ||
	    slot_codec(word) >= r->priority || (r->idle && !(word & SLOT_IDLE)) ||
	    (slot_type(word) == SLOT_UNIT && !unit_fits(s, r->priority)))
		return false;
	bytes = unit_page_bytes(s, word);
	return bytes >= r->threshold && (!r->huge || bytes == PAGE_SIZE) &&
	       band_of(bytes) >= r->from && band_of(bytes) < r->to;
}

/*
 * How many pages are tried with slot i, which had word; 0: none.  Those of a unit are tried with
 * the first of them, if the request is about each of them and so many may still be tried.
 */
static unsigned int pages_meant(struct store *s, u64 i, const struct recompress_request *r,
				u64 word)
{
	unsigned int n = 0;
	u64 at, end;

	if (slot_type(word) != SLOT_UNIT)
		return is_meant(s, r, word);
	at = i & ~(u64)(s->units->pages - 1);
	for (end = at + s->units->pages; at < end; at++) {
		u64 now = host_a64_read(store_slot(s, at));

		if (!slot_same_value(now, word))
			continue;
		if (at < i || !is_meant(s, r, now))
			return 0;
		n++;
	}
	return n <= r->left ? n : 0;
}

/* Holds the page of slot i if the request is about it; false: not, or seven read it. */
static bool recompress_hold(struct store *s, u64 i, const struct recompress_request *r, u64 *word)
{
	host_a64 *slot = store_slot(s, i);

	do {
		*word = host_a64_read_acquire(slot);
		if (slot_type(*word) != SLOT_PAGE || !is_meant(s, r, *word) ||
		    (*word & SLOT_READERS) == SLOT_READERS)
			return false;
	} while (!hold_take_seen(slot, *word));
	return true;
}

/*
 * The bytes in w->packed that the request's codec makes of w->page; PAGE_SIZE: not below huge.
 */
static int recompress_pack(struct store *s, const struct recompress_request *r,
			   const struct recompress_work *w)
{
	struct streams *t = s->streams[r->priority];
	struct stream *st = stream_get(t);
	int bytes = stream_pack(t->codec, st, w->page, pool_max_small(&s->pool));

	if (bytes > 0 && bytes < (int)PAGE_SIZE)
		memcpy(w->packed, st->buf, (size_t)bytes);
	stream_put(st);
	return bytes;
}

/* Whether an object of so many bytes is worth its making. */
static bool is_smaller(const struct store *s, const struct recompress_request *r, u64 word,
		       int bytes)
{
	const struct class_table *t = &s->pool.table;

	if (bytes == (int)PAGE_SIZE || (r->threshold && (size_t)bytes >= r->threshold))
		return false;
	return t->merged[class_raw_index(t, (size_t)bytes + POOL_HEADER)] <
	       t->merged[slot_ref(word) >> REF_CLASS_SHIFT];
}

/* It waits for no memory: what it makes is worth none that others would have to give back. */
static int recompress_object(struct store *s, u64 i, const void *data, size_t bytes, u64 *ref)
{
	int err = pool_make(&s->pool, bytes, data, (u32)i, NUMA_NO_NODE, 0, ref);

	if (err == -ENOMEM && release_help(&s->release, numa_mem_id(), HELP_BUFS))
		err = pool_make(&s->pool, bytes, data, (u32)i, NUMA_NO_NODE, 0, ref);
	return err;
}

/*
 * A recompressed page has no age, as in-tree.  That is written before the swap, and only if nobody
 * touched the page since `age` was read: who touches it later says so later.
 */
static bool recompress_replace(struct store *s, u64 i, const struct recompress_request *r, u64 word,
			       u64 new, u32 age)
{
	bool reset = r->ages && READ_ONCE(r->ages[i]) == age;

	if (reset)
		WRITE_ONCE(r->ages[i], 0);
	if (store_replace(s, i, word, new))
		return true;
	if (reset && !READ_ONCE(r->ages[i]))
		WRITE_ONCE(r->ages[i], age);
	return false;
}

/* Tries the page of word, which is held.  As store_recompress(). */
static int try_page(struct store *s, u64 i, struct recompress_request *r,
		    const struct recompress_work *w, u64 word)
{
	u32 age = r->ages ? READ_ONCE(r->ages[i]) : 0;
	int bytes, err = store_unpack(s, word, w->page);
	u64 ref, new;

	if (err)
		return err;
	bytes = recompress_pack(s, r, w);
	if (bytes < 0)
		return bytes;
	if (!is_smaller(s, r, word, bytes)) {
		/* It will not be tried again; a write that came first wins. */
		if (r->priority == store_last_codec(s, false))
			slot_mark_same(store_slot(s, i), word, SLOT_INCOMPRESSIBLE, 0);
		return RECOMPRESS_KEPT;
	}
	err = recompress_object(s, i, w->packed, (size_t)bytes, &ref);
	if (err)
		return err;
	new = slot_make(SLOT_PAGE, ref) | (u64)r->priority << SLOT_CODEC_SHIFT;
	if (recompress_replace(s, i, r, word, new, age))
		return RECOMPRESS_DONE;
	pool_free(&s->pool, ref);
	return RECOMPRESS_KEPT;
}

/*
 * Tries the unit that word, of slot i, names.  As store_recompress(), but if no number is left for
 * another unit, this one is passed over.
 */
static int try_unit(struct store *s, u64 i, struct recompress_request *r,
		    const struct recompress_work *w, u64 word)
{
	u64 kept = r->priority == store_last_codec(s, true) ? SLOT_INCOMPRESSIBLE : 0;
	int done = unit_recompress(s, i, word, r->priority, r->threshold, kept, w->page);

	if (done == -ENOSPC)
		return RECOMPRESS_PASSED;
	return done < 0 ? done : done ? RECOMPRESS_DONE : RECOMPRESS_KEPT;
}

int store_recompress(struct store *s, u64 i, struct recompress_request *r,
		     const struct recompress_work *w)
{
	u64 word = host_a64_read_acquire(store_slot(s, i));
	unsigned int pages = pages_meant(s, i, r, word);
	int outcome = RECOMPRESS_PASSED;

	if (!pages)
		return outcome;
	if (slot_type(word) == SLOT_UNIT) {
		outcome = try_unit(s, i, r, w, word);
	} else if (recompress_hold(s, i, r, &word)) {
		outcome = try_page(s, i, r, w, word);
		store_drop(s, i, word);
	}
	if (outcome > RECOMPRESS_PASSED) {
		r->left -= pages;
		r->tried += pages;
	}
	if (outcome == RECOMPRESS_DONE)
		r->done += pages;
	return outcome;
}

int store_recompress_piece(struct store *s, u64 *at, u64 end, struct recompress_request *r,
			   const struct recompress_work *w)
{
	u64 until = r->tried + RECOMPRESS_PIECE;
	unsigned int slots = STORE_PIECE;
	int outcome;

	while (r->tried < until && r->left && store_next_slot(s, at, end, &slots)) {
		outcome = store_recompress(s, *at - 1, r, w);
		if (outcome < 0) {
			--*at;
			return outcome;
		}
		if (outcome != RECOMPRESS_PASSED)
			cond_resched();
	}
	return r->left && *at < end;
}

bool store_recompressible(struct store *s, u64 *at, u64 end, const struct recompress_request *r,
			  u64 *count)
{
	unsigned int left = STORE_PIECE;
	host_a64 *slot;

	while ((slot = store_next_slot(s, at, end, &left))) {
		u64 word = host_a64_read_acquire(slot);
		unsigned int pages = pages_meant(s, *at - 1, r, word);

		if (pages)
			count[band_of(unit_page_bytes(s, word))] += pages;
	}
	return *at < end;
}
