// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * runs.c - see runs.h.
 *
 * Lock: runs->lock, a leaf.
 *
 *     a word is on the list of its length <=> one of its runs is taken, and one is not
 *     a word that was used is on `unused' <=> length == 0
 */
#include "runs.h"

#define WORD_BITS 64u

/* The bits of a word that stand for runs of this length. */
static u64 all_of(unsigned int length)
{
	unsigned int n = WORD_BITS / length;

	return n == WORD_BITS ? ~(u64)0 : ((u64)1 << n) - 1;
}

int runs_init(struct runs *r, u64 first, u64 count)
{
	memset(r, 0, sizeof(*r));
	host_lock_init(&r->lock, "runs");
	r->first = first;
	r->words = (u32)(count / WORD_BITS);
	r->word = host_zalloc(r->words * sizeof(*r->word));
	return r->word ? 0 : -ENOMEM;
}

void runs_destroy(struct runs *r)
{
	host_free(r->word, r->words * sizeof(*r->word));
	r->word = NULL;
}

static void link_in(struct runs *r, u32 w) HOST_REQUIRES(r->lock)
{
	struct runs_word *word = &r->word[w];
	u32 *head = &r->head[word->length];

	word->prev = 0;
	word->next = *head;
	if (*head)
		r->word[*head - 1].prev = w + 1;
	*head = w + 1;
}

static void link_out(struct runs *r, u32 w) HOST_REQUIRES(r->lock)
{
	struct runs_word *word = &r->word[w];

	if (word->prev)
		r->word[word->prev - 1].next = word->next;
	else
		r->head[word->length] = word->next;
	if (word->next)
		r->word[word->next - 1].prev = word->prev;
}

/* A word for runs of this length, on its list; false: there is none left. */
static bool new_word(struct runs *r, unsigned int length) HOST_REQUIRES(r->lock)
{
	u32 w;

	if (r->unused) {
		w = r->unused - 1;
		r->unused = r->word[w].next;
	} else if (r->fresh < r->words) {
		w = r->fresh;
		host_write_once(r->fresh, w + 1);
	} else {
		return false;
	}
	host_write_once(r->word[w].length, (u8)length);
	link_in(r, w);
	return true;
}

int runs_take(struct runs *r, unsigned int length, u32 *first)
{
	struct runs_word *word;
	unsigned int i;
	u32 w;

	host_lock(&r->lock);
	if (!r->head[length] && !new_word(r, length)) {
		host_unlock(&r->lock);
		return -ENOSPC;
	}
	w = r->head[length] - 1;
	word = &r->word[w];
	i = (unsigned int)__builtin_ctzll(~word->taken);
	word->taken |= (u64)1 << i;
	if (word->taken == all_of(length))
		link_out(r, w);
	host_write_once(r->numbers, r->numbers + length);
	host_unlock(&r->lock);
	*first = (u32)(r->first + (u64)w * WORD_BITS + (u64)i * length);
	return 0;
}

void runs_give(struct runs *r, u32 first)
{
	u64 at = first - r->first;
	u32 w = (u32)(at / WORD_BITS);
	struct runs_word *word = &r->word[w];
	unsigned int length;

	host_lock(&r->lock);
	length = word->length;
	if (word->taken == all_of(length))
		link_in(r, w);
	word->taken &= ~((u64)1 << at % WORD_BITS / length);
	if (!word->taken) {
		link_out(r, w);
		host_write_once(word->length, (u8)0);
		word->next = r->unused;
		r->unused = w + 1;
	}
	host_write_once(r->numbers, r->numbers - length);
	host_unlock(&r->lock);
}

size_t runs_meta_bytes(struct runs *r)
{
	return (size_t)host_read_once(r->fresh) * sizeof(*r->word);
}

const char *runs_check(struct runs *r)
{
	u64 numbers = 0, on_lists = 0, with_room = 0, unused = 0, empty = 0;
	unsigned int length;
	u32 w;

	for (w = 0; w < r->fresh; w++) {
		const struct runs_word *word = &r->word[w];

		empty += !word->length;
		if (!word->length)
			continue;
		if (!word->taken || word->taken & ~all_of(word->length))
			return "a word of slot numbers has runs that it cannot have";
		numbers += (u64)__builtin_popcountll(word->taken) * word->length;
		with_room += word->taken != all_of(word->length);
	}
	for (length = 1; length <= RUNS_LENGTH_MAX; length++)
		for (w = r->head[length]; w; w = r->word[w - 1].next, on_lists++)
			if (r->word[w - 1].length != length)
				return "a word of slot numbers is on the list of another length";
	for (w = r->unused; w; w = r->word[w - 1].next)
		unused++;
	if (on_lists != with_room || unused != empty)
		return "words of slot numbers with room != words on lists";
	return numbers == r->numbers ? NULL : "slot numbers that are taken != what is counted";
}
