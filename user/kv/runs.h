/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * runs.h - numbers of slots, given out in runs: 1 to RUNS_LENGTH_MAX consecutive ones.
 *
 * Numbers come in words of 64.  A word has runs of one length while any of it is taken:
 *
 *     word   | 0 .. 63 | 64 .. 127 | 128 .. 191 | ...
 *              runs of    runs of      unused
 *              1          17: 3 of them, 13 numbers are left over
 *
 * A page of the slot table has the slots of RUNS_PAGE_WORDS words.  One of which all words are
 * unused is idle, and its memory can be given back:
 *
 *     runs_hide()    takes idle pages out of reach: nobody is given a number of theirs
 *     the caller     gives their memory back
 *     runs_show()    puts them back among the unused words, where they read as zeros
 *
 * The lowest word with room is taken first, so that what is stored comes to be in few pages, and
 * the highest idle pages are hidden first.
 *
 * Words are found in bit trees, one for each length: bit i of a level says whether word i of the
 * level below is not 0.  Taking and giving back are each one hold of a spin lock and a fixed number
 * of steps.  What a word costs is some 19 bytes, which are there once it was used: the table grows
 * with the words.
 */
#ifndef EBB_USER_RUNS_H
#define EBB_USER_RUNS_H

#include "home/grown.h"

#define RUNS_LENGTH_MAX 20u
#define RUNS_PAGE_WORDS (1u << (HOST_USER_PART_SHIFT - 6))
#define RUNS_HIDE_MOST 64u              /* pages at once */

/*
 * Of which words there is a tree: those with room for runs of a length have the length's, the
 * first of each idle page has RUNS_IDLE.
 */
#define RUNS_UNUSED 0u
#define RUNS_IDLE (RUNS_LENGTH_MAX + 1)
#define RUNS_TREES (RUNS_LENGTH_MAX + 2)
#define RUNS_LEVELS 5u

struct runs_word {
	u64 taken;              /* bit i: run i of the word; lock */
	u8 length;              /* of the runs, 0: unused; READ_ONCE for who has one */
};

struct runs {
	spinlock_t lock;
	u64 first;              /* the first number */
	u32 words;              /* fixed */
	u32 fresh;              /* words from here on were never used; lock, READ_ONCE */
	u32 ready;              /* words that there is memory for; lock */
	u32 hidden;             /* words; lock */
	unsigned int levels;
	u64 numbers;            /* in runs that are taken; lock, READ_ONCE */
	struct grown word;      /* struct runs_word [words] */
	struct grown level[RUNS_LEVELS];        /* u64 [words >> 6 >> 6 * level][RUNS_TREES] */
};

/*
 * Numbers first to first + count - 1, as far as they fill words.  What a page of the slot table has
 * beside them is nobody's, or first is not the first of a page and nothing is to be hidden.
 * Process context; -ENOMEM.
 */
int runs_init(struct runs *r, u64 first, u64 count);
void runs_destroy(struct runs *r);

/*
 * Takes length numbers from *first on, 1 to RUNS_LENGTH_MAX.  Process context.  -ENOSPC: there are
 * none, or those that there are are hidden; -ENOMEM: there is no memory for the table to grow.
 */
int runs_take(struct runs *r, unsigned int length, u32 *first);

static inline struct runs_word *runs_word(const struct runs *r, u32 w)
{
	return grown_at(&r->word, w, sizeof(struct runs_word));
}

/* The words of all trees that say what element i of the level below them has. */
static inline u64 *runs_level(const struct runs *r, unsigned int level, u32 i)
{
	return grown_at(&r->level[level], i, RUNS_TREES * sizeof(u64));
}

/* The length of the run that begins at first, which the caller has. */
static inline unsigned int runs_length(struct runs *r, u32 first)
{
	return READ_ONCE(runs_word(r, (u32)((first - r->first) >> 6))->length);
}

/* Gives a run back, whose slots are empty.  Any context. */
void runs_give(struct runs *r, u32 first);

/*
 * Hides consecutive idle pages, RUNS_HIDE_MOST at most; returns how many numbers they have, from
 * *first on, or 0: no page is idle.  They are not idle any more.  Any context.
 */
u32 runs_hide(struct runs *r, u32 *first);

/* What runs_hide() returned may be taken again. */
void runs_show(struct runs *r, u32 first, u32 numbers);

/* Bytes of the table as far as it is there. */
size_t runs_meta_bytes(struct runs *r);

/* Whether trees and words say the same; NULL, or a sentence.  Nothing is hidden or in use. */
const char *runs_check(struct runs *r);

#endif
