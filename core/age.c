// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * age.c - owns the ages: a byte a slot, in pieces that come when a page in them has an age.  A pass
 * goes over the slots in steps, and others see its counts when it has ended.
 */
#include "age.h"

#include "recompress.h"

#define AGE_REST 256            /* pieces that are freed between two rests */

static u64 pieces(const struct store_ages *a)
{
	return (a->slots + AGE_PIECE - 1) / AGE_PIECE;
}

int store_ages_init(struct store_ages *a, u64 slots)
{
	memset(a, 0, sizeof(*a));
	a->slots = slots;
	a->piece = host_zalloc(pieces(a) * sizeof(*a->piece));
	return a->piece ? 0 : -ENOMEM;
}

void store_ages_destroy(struct store_ages *a)
{
	u64 i;

	for (i = 0; a->piece && i < pieces(a); i++) {
		host_free(a->piece[i], AGE_PIECE);
		if (i % AGE_REST == 0)
			host_resched();
	}
	host_free(a->piece, pieces(a) * sizeof(*a->piece));
	a->piece = NULL;
}

/*
 * False: there is no memory to say so.  It is not waited for: where memory is short, who ages pages
 * may be who is to make some, by writing out those that are old.
 */
static bool set_age(struct store_ages *a, u64 i, unsigned int age)
{
	u8 **piece = &a->piece[i / AGE_PIECE];

	if (!*piece && age)
		*piece = host_zalloc_now(AGE_PIECE);
	if (*piece)
		(*piece)[i % AGE_PIECE] = (u8)age;
	return *piece || !age;
}

/* The age of a page that was this old at the last pass, and was not touched since. */
static unsigned int older(const struct store_ages *a, unsigned int age)
{
	if (age == AGE_MAX || (age >= AGE_FINE && a->passes % AGE_STRIDE))
		return age;
	return age + 1;
}

static void age_page(struct store_ages *a, u64 i, host_a64 *slot, unsigned int codec)
{
	u64 word = host_a64_read(slot);
	unsigned int age = 0;

	if (slot_type(word) != SLOT_PAGE)
		return;
	if (word & SLOT_OLD)
		age = older(a, store_age(a, i));
	else
		/* Who is quicker touches the page or moves it; the next pass comes. */
		slot_mark(slot, word, SLOT_OLD, 0);
	if (!set_age(a, i, age))
		age = 0;
	a->count.pages[age]++;
	a->count.to_try[age] += !(word & SLOT_INCOMPRESSIBLE) && slot_codec(word) < codec;
}

bool store_age_piece(struct store *s, struct store_ages *a)
{
	unsigned int left = STORE_PIECE, codec = store_last_codec(s);
	host_a64 *slot;

	while ((slot = store_next_slot(s, &a->at, a->slots, &left)))
		age_page(a, a->at - 1, slot, codec);
	if (a->at < a->slots)
		return true;
	a->last = a->count;
	memset(&a->count, 0, sizeof(a->count));
	a->at = 0;
	a->passes++;
	return false;
}
