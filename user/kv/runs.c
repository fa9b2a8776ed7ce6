// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * runs.c - see runs.h.
 *
 * Lock: runs->lock, a leaf.
 *
 *     a word is in the tree of its length <=> one of its runs is taken, and one is not
 *     a word that was used is in the tree of unused ones <=> length == 0, and it is not hidden
 *     a page is in the tree of idle ones => all of its words are in that of unused ones
 */
#include "runs.h"

#define WORD_BITS 64u
#define WORD_SHIFT 6u

/* The bits of a word that stand for runs of this length. */
static u64 all_of(unsigned int length)
{
	unsigned int n = WORD_BITS / length;

	return n == WORD_BITS ? ~(u64)0 : ((u64)1 << n) - 1;
}

/* ---- trees ---- */

/* Trees lie beside each other, so that they take memory as far as words were used. */
static u64 *bits_of(struct runs *r, unsigned int level, unsigned int tree, u32 w)
{
	return &runs_level(r, level, w >> WORD_SHIFT)[tree];
}

static u64 bit_of(u32 w)
{
	return (u64)1 << w % WORD_BITS;
}

static bool has(struct runs *r, unsigned int tree, u32 w) __must_hold(&r->lock)
{
	return *bits_of(r, 0, tree, w) & bit_of(w);
}

static void set(struct runs *r, unsigned int tree, u32 w) __must_hold(&r->lock)
{
	unsigned int level;

	for (level = 0; level < r->levels; level++, w >>= WORD_SHIFT) {
		u64 *bits = bits_of(r, level, tree, w), was = *bits;

		*bits = was | bit_of(w);
		if (was)
			return;
	}
}

static void clear(struct runs *r, unsigned int tree, u32 w) __must_hold(&r->lock)
{
	unsigned int level;

	for (level = 0; level < r->levels; level++, w >>= WORD_SHIFT) {
		u64 *bits = bits_of(r, level, tree, w);

		*bits &= ~bit_of(w);
		if (*bits)
			return;
	}
}

/* The lowest word of a tree, or the highest; false: it has none. */
static bool find(struct runs *r, unsigned int tree, bool lowest, u32 *w) __must_hold(&r->lock)
{
	unsigned int level = r->levels;

	*w = 0;
	while (level--) {
		u64 bits = runs_level(r, level, *w)[tree];

		if (!bits)
			return false;
		*w = *w << WORD_SHIFT | (u32)(lowest ? __builtin_ctzll(bits) :
						       63 - __builtin_clzll(bits));
	}
	return true;
}

/* ---- begin and end ---- */

/* Bytes of a level that has a bit for each of n. */
static size_t level_bytes(u64 n)
{
	return (size_t)((n + WORD_BITS - 1) / WORD_BITS) * RUNS_TREES * sizeof(u64);
}

/* Memory for words 0 to n - 1, of which the first have it.  False: there is none. */
static bool need_words(struct runs *r, u32 n)
{
	bool need = grown_need(&r->word, n, sizeof(struct runs_word));
	unsigned int level;

	for (level = 0; need && level < r->levels; level++) {
		n = (u32)(((u64)n + WORD_BITS - 1) / WORD_BITS);
		need = grown_need(&r->level[level], n, RUNS_TREES * sizeof(u64));
	}
	return need;
}

int runs_init(struct runs *r, u64 first, u64 count)
{
	u64 n = count / WORD_BITS;

	memset(r, 0, sizeof(*r));
	spin_lock_init(&r->lock);
	r->first = first;
	r->words = (u32)n;
	do {
		r->levels++;
		n = (n + WORD_BITS - 1) / WORD_BITS;
	} while (n > 1);
	/* Who looks for a word begins at the first of the highest level. */
	if (need_words(r, 1))
		return 0;
	runs_destroy(r);
	return -ENOMEM;
}

void runs_destroy(struct runs *r)
{
	unsigned int level;

	grown_end(&r->word, sizeof(struct runs_word));
	for (level = 0; level < RUNS_LEVELS; level++)
		grown_end(&r->level[level], RUNS_TREES * sizeof(u64));
}

/* ---- pages ---- */

/* The words of the page of w: from there to *end. */
static u32 page_of(const struct runs *r, u32 w, u32 *end)
{
	w -= w % RUNS_PAGE_WORDS;
	*end = r->words - w < RUNS_PAGE_WORDS ? r->words : w + RUNS_PAGE_WORDS;
	return w;
}

/* The words of the next page are unused from now on; false: there is none, or no memory yet. */
static bool fresh_page(struct runs *r) __must_hold(&r->lock)
{
	u32 w = r->fresh, end;

	page_of(r, w, &end);
	if (w == r->words || end > r->ready)
		return false;
	WRITE_ONCE(r->fresh, end);
	for (; w < end; w++)
		set(r, RUNS_UNUSED, w);
	return true;
}

/* Word w has become unused: perhaps it was the last of its page. */
static void note_unused(struct runs *r, u32 w) __must_hold(&r->lock)
{
	u32 end, page = page_of(r, w, &end);

	for (w = page; w < end; w++)
		if (!has(r, RUNS_UNUSED, w))
			return;
	set(r, RUNS_IDLE, page);
}

static void hide_page(struct runs *r, u32 page) __must_hold(&r->lock)
{
	u32 w, end;

	clear(r, RUNS_IDLE, page);
	page_of(r, page, &end);
	for (w = page; w < end; w++)
		clear(r, RUNS_UNUSED, w);
	r->hidden += end - page;
}

u32 runs_hide(struct runs *r, u32 *first)
{
	u32 pages, w, end, numbers = 0;

	spin_lock(&r->lock);
	if (find(r, RUNS_IDLE, false, &w)) {
		page_of(r, w, &end);
		hide_page(r, w);
		for (pages = 1; pages < RUNS_HIDE_MOST && w; pages++) {
			if (!has(r, RUNS_IDLE, w - RUNS_PAGE_WORDS))
				break;
			w -= RUNS_PAGE_WORDS;
			hide_page(r, w);
		}
		*first = (u32)(r->first + (u64)w * WORD_BITS);
		numbers = (end - w) * WORD_BITS;
	}
	spin_unlock(&r->lock);
	return numbers;
}

void runs_show(struct runs *r, u32 first, u32 numbers)
{
	u32 w = (u32)((first - r->first) / WORD_BITS), end = w + numbers / WORD_BITS;

	spin_lock(&r->lock);
	r->hidden -= end - w;
	for (; w < end; w++)
		set(r, RUNS_UNUSED, w);
	spin_unlock(&r->lock);
}

/* ---- runs ---- */

/* A word for runs of this length, in its tree; false: there is none left. */
static bool new_word(struct runs *r, unsigned int length, u32 *w) __must_hold(&r->lock)
{
	u32 end, page;

	if (!find(r, RUNS_UNUSED, true, w) &&
	    !(fresh_page(r) && find(r, RUNS_UNUSED, true, w)))
		return false;
	clear(r, RUNS_UNUSED, *w);
	page = page_of(r, *w, &end);
	if (has(r, RUNS_IDLE, page))
		clear(r, RUNS_IDLE, page);
	WRITE_ONCE(runs_word(r, *w)->length, (u8)length);
	set(r, length, *w);
	return true;
}

int runs_take(struct runs *r, unsigned int length, u32 *first)
{
	struct runs_word *word;
	unsigned int i;
	u32 w, end;

	spin_lock(&r->lock);
	while (!find(r, length, true, &w) && !new_word(r, length, &w)) {
		w = r->fresh;
		spin_unlock(&r->lock);
		if (w == r->words)
			return -ENOSPC;
		page_of(r, w, &end);
		if (!need_words(r, end))
			return -ENOMEM;
		spin_lock(&r->lock);
		if (end > r->ready)
			r->ready = end;
	}
	word = runs_word(r, w);
	i = (unsigned int)__builtin_ctzll(~word->taken);
	word->taken |= (u64)1 << i;
	if (word->taken == all_of(length))
		clear(r, length, w);
	WRITE_ONCE(r->numbers, r->numbers + length);
	spin_unlock(&r->lock);
	*first = (u32)(r->first + (u64)w * WORD_BITS + (u64)i * length);
	return 0;
}

void runs_give(struct runs *r, u32 first)
{
	u64 at = first - r->first;
	u32 w = (u32)(at / WORD_BITS);
	struct runs_word *word = runs_word(r, w);
	unsigned int length;

	spin_lock(&r->lock);
	length = word->length;
	if (word->taken == all_of(length))
		set(r, length, w);
	word->taken &= ~((u64)1 << at % WORD_BITS / length);
	if (!word->taken) {
		clear(r, length, w);
		WRITE_ONCE(word->length, (u8)0);
		set(r, RUNS_UNUSED, w);
		note_unused(r, w);
	}
	WRITE_ONCE(r->numbers, r->numbers - length);
	spin_unlock(&r->lock);
}

size_t runs_meta_bytes(struct runs *r)
{
	u64 words = READ_ONCE(r->fresh);

	return (size_t)words * sizeof(struct runs_word) + level_bytes(words);
}

/* ---- checks ---- */

/* Whether each level says what the one below it has. */
__no_context_analysis
static bool trees_are_sound(struct runs *r)
{
	unsigned int tree, level;
	u32 n = r->fresh, w;

	for (level = 1; level < r->levels; level++) {
		n = (n + WORD_BITS - 1) / WORD_BITS;
		for (tree = 0; tree < RUNS_TREES; tree++)
			for (w = 0; w < n; w++)
				if (!(*bits_of(r, level, tree, w) & bit_of(w)) !=
				    !runs_level(r, level - 1, w)[tree])
					return false;
	}
	return true;
}

__no_context_analysis
const char *runs_check(struct runs *r)
{
	u64 numbers = 0;
	unsigned int tree;
	u32 w;

	for (w = 0; w < r->fresh; w++) {
		const struct runs_word *word = runs_word(r, w);
		bool unused = !word->length;

		if (!unused && (!word->taken || word->taken & ~all_of(word->length)))
			return "a word of slot numbers has runs that it cannot have";
		if (unused != has(r, RUNS_UNUSED, w))
			return "a word of slot numbers that is unused cannot be found";
		for (tree = 1; tree <= RUNS_LENGTH_MAX; tree++)
			if (has(r, tree, w) !=
			    (word->length == tree && word->taken != all_of(tree)))
				return "a word of slot numbers is not where its length has it";
		if (has(r, RUNS_IDLE, w) && (w % RUNS_PAGE_WORDS || !unused))
			return "a page of the slot table is said to be idle and is not";
		if (!unused)
			numbers += (u64)hweight64(word->taken) * word->length;
	}
	if (r->hidden || !trees_are_sound(r))
		return "the trees of slot numbers are not what is at their feet";
	return numbers == r->numbers ? NULL : "slot numbers that are taken != what is counted";
}
