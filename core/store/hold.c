// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* hold.c - owns the records of readers that the slot word has no room for. */
#include "hold.h"

static u32 *bucket_of(struct holds *h, u64 ref)
{
	return &h->bucket[ref * 0x9e3779b97f4a7c15u >> 32 & h->mask];
}

/* The link to ref's record, in a bucket or in another record; *link is 0 if there is none. */
static u32 *hold_find(struct holds *h, u64 ref) __must_hold(&h->lock)
{
	u32 *at = bucket_of(h, ref);

	while (*at && h->record[*at - 1].ref != ref)
		at = &h->record[*at - 1].next;
	return at;
}

static s64 hold_recorded(struct holds *h, u64 ref) __must_hold(&h->lock)
{
	u32 *at = hold_find(h, ref);

	return *at ? h->record[*at - 1].n : 0;
}

/* Adds by to ref's record, and makes it an orphan's.  True: ref is an orphan with no readers. */
static bool hold_note(struct holds *h, u64 ref, s64 by, bool orphan) __must_hold(&h->lock)
{
	u32 *at = hold_find(h, ref), i = *at;
	struct hold_record *r;
	bool last;

	host_assert(i <= h->max && h->unused <= h->max);
	if (!i) {
		i = h->unused;
		if (WARN_ONCE(!i, "more holds than records\n"))
			return false;
		r = &h->record[i - 1];
		h->unused = r->next;
		*r = (struct hold_record){ .ref = ref };
		*at = i;
	}
	r = &h->record[i - 1];
	/* An orphan's record counts all its readers, and an object becomes an orphan once. */
	host_assert(!r->orphan || (!orphan && r->n > 0));
	r->n += by;
	r->orphan |= orphan;
	if (r->n)
		return false;
	last = r->orphan;
	*at = r->next;
	r->next = h->unused;
	h->unused = i;
	return last;
}

int holds_init(struct holds *h, u32 max)
{
	u32 i;

	memset(h, 0, sizeof(*h));
	spin_lock_init(&h->lock);
	for (h->mask = 1; h->mask + 1 < max; h->mask = h->mask << 1 | 1)
		;
	h->max = max;
	h->bucket = host_zalloc((h->mask + 1) * sizeof(*h->bucket));
	h->record = host_zalloc(max * sizeof(*h->record));
	if (!h->bucket || !h->record)
		return -ENOMEM;
	for (i = 0; i < max; i++)
		h->record[i].next = i + 1 < max ? i + 2 : 0;
	h->unused = 1;
	return 0;
}

void holds_destroy(struct holds *h)
{
	host_free(h->bucket, (h->mask + 1) * sizeof(*h->bucket));
	host_free(h->record, h->max * sizeof(*h->record));
}

bool holds_any(struct holds *h)
{
	bool any = false;
	u32 i;

	spin_lock(&h->lock);
	for (i = 0; i <= h->mask; i++)
		any |= h->bucket[i] != 0;
	spin_unlock(&h->lock);
	return any;
}

u64 hold_take_slow(struct holds *h, host_a64 *slot, u64 clear)
{
	u64 word, more;

	spin_lock(&h->lock);
	word = host_a64_read(slot);
	while (slot_has_object(word)) {
		more = (word & SLOT_READERS) == SLOT_READERS ? 0 : SLOT_READER;
		if (!host_a64_cas(slot, &word, (word & ~clear) + more))
			continue;
		if (!more)
			hold_note(h, slot_ref(word), 1, false);
		break;
	}
	spin_unlock(&h->lock);
	return slot_has_object(word) ? word & ~(SLOT_READERS | clear) : word;
}

/* Takes a reader off the word, if that names ref.  No reader is counted in ref's record. */
static bool drop_from_word(host_a64 *slot, u64 ref)
{
	u64 word = host_a64_read(slot);

	while (slot_names(word, ref)) {
		host_assert(word & SLOT_READERS);
		if (host_a64_cas(slot, &word, word - SLOT_READER))
			return true;
	}
	return false;
}

bool hold_drop_slow(struct holds *h, host_a64 *slot, u64 ref)
{
	bool last = false;

	spin_lock(&h->lock);
	/*
	 * Off the record if that counts a reader, else off the word.  If a swap took the word and
	 * its hold_orphan() is still to come, the record goes below 0.
	 */
	if (hold_recorded(h, ref) > 0 || !drop_from_word(slot, ref))
		last = hold_note(h, ref, -1, false);
	spin_unlock(&h->lock);
	return last;
}

bool hold_orphan(struct holds *h, u64 word)
{
	bool mine;

	spin_lock(&h->lock);
	mine = hold_note(h, slot_ref(word), (s64)((word & SLOT_READERS) / SLOT_READER), true);
	spin_unlock(&h->lock);
	return mine;
}
