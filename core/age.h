/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * age.h - how long the pages of a store were not touched.
 *
 *     a pass of ageing looks at a page    it is not SLOT_OLD: it is from now on, at the age of 0
 *                                         it still is: one older
 *     a read or a write                   takes SLOT_OLD away, in the step that it takes anyway
 *
 * So an age is counted in passes, and who reads or writes pays nothing for it.  It is one byte a
 * slot, in pieces that are there as far as pages became old.  To reach far it counts 64 passes at
 * a time past AGE_FINE:
 *
 *     age      0 .. AGE_FINE    AGE_FINE + n
 *     passes   the age          over AGE_FINE + (n - 1) * AGE_STRIDE
 *
 * One thread ages, and uses the ages: then the word and the age that it sees are of the same page.
 */
#ifndef EBB_CORE_AGE_H
#define EBB_CORE_AGE_H

#include "slot.h"

#define AGE_PIECE 4096u                 /* slots */
#define AGE_FINE 128u
#define AGE_STRIDE 64u                  /* passes */
#define AGE_MAX 255u
/* The most passes that an age tells. */
#define AGE_PASSES (AGE_FINE + (AGE_MAX - AGE_FINE - 1) * AGE_STRIDE)

struct store;

struct store_ages {
	u64 slots;
	u8 **piece;                     /* of AGE_PIECE slots; NULL: ages of 0 */
	u64 at;                         /* the pass under way has come so far */
	u64 passes;                     /* that are over */
	struct age_counts {
		u64 pages[AGE_MAX + 1];         /* by age */
		/* of these, what the last codec has not tried (recompress.h) */
		u64 to_try[AGE_MAX + 1];
	} count, last;                  /* of the pass under way, and of the last whole one */
};

/* Of a store of so many slots, all of age 0.  Process context; -ENOMEM. */
int store_ages_init(struct store_ages *a, u64 slots);
void store_ages_destroy(struct store_ages *a);

/*
 * Ages the pages among the next STORE_PIECE slots.  False: these were the last of a pass.  Without
 * memory for a piece its pages stay young.  Process context.
 */
bool store_age_piece(struct store *s, struct store_ages *a);

/* The least age that says that a page was not touched for so many passes; AGE_MAX at most. */
static inline unsigned int age_of_passes(u64 passes)
{
	if (passes <= AGE_FINE)
		return (unsigned int)passes;
	if (passes >= AGE_PASSES)
		return AGE_MAX;
	return AGE_FINE + 1 + (unsigned int)((passes - AGE_FINE + AGE_STRIDE - 1) / AGE_STRIDE);
}

/* The age of slot i, if its word has SLOT_OLD. */
static inline unsigned int store_age(const struct store_ages *a, u64 i)
{
	const u8 *piece = a->piece[i / AGE_PIECE];

	return piece ? piece[i % AGE_PIECE] : 0;
}

/* Whether the page of slot i, which had that word, is of this age or older. */
static inline bool store_is_aged(const struct store_ages *a, u64 i, u64 word, unsigned int age)
{
	return word & SLOT_OLD && store_age(a, i) >= age;
}

#endif
