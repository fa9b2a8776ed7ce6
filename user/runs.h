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
 * Taking and giving back are each one hold of a spin lock and a fixed number of steps.  What a
 * word costs is 20 bytes, which are there once it was used.
 */
#ifndef EBB_USER_RUNS_H
#define EBB_USER_RUNS_H

#include "host.h"

#define RUNS_LENGTH_MAX 20u

struct runs_word {
	u64 taken;              /* bit i: run i of the word; lock */
	u32 next, prev;         /* of words with room for this length; word + 1, 0: none; lock */
	u8 length;              /* of the runs, 0: unused; host_read_once for who has one */
};

struct runs {
	host_lock_t lock;
	u64 first;              /* the first number */
	u32 words;              /* fixed */
	u32 fresh;              /* words from here on were never used; lock */
	u32 unused;             /* word + 1, by next; lock */
	u32 head[RUNS_LENGTH_MAX + 1];  /* word + 1, by length; lock */
	u64 numbers;            /* in runs that are taken; lock, host_read_once */
	struct runs_word *word; /* [words] */
};

/* Numbers first to first + count - 1, as far as they fill words.  Process context; -ENOMEM. */
int runs_init(struct runs *r, u64 first, u64 count);
void runs_destroy(struct runs *r);

/* Takes length numbers from *first on, 1 to RUNS_LENGTH_MAX.  Any context.  -ENOSPC. */
int runs_take(struct runs *r, unsigned int length, u32 *first);

/* The length of the run that begins at first, which the caller has. */
static inline unsigned int runs_length(struct runs *r, u32 first)
{
	return host_read_once(r->word[(first - r->first) >> 6].length);
}

/* Gives a run back, whose slots are empty.  Any context. */
void runs_give(struct runs *r, u32 first);

/* Bytes of the table as far as it is there. */
size_t runs_meta_bytes(struct runs *r);

/* Whether lists and words say the same; NULL, or a sentence.  Nobody uses it meanwhile. */
const char *runs_check(struct runs *r);

#endif
