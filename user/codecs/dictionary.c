// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * dictionary.c - chooses what a dictionary has.  See dictionary.h; codec_zstd.c uses it.
 *
 * ZDICT_trainFromBuffer() would choose, too, and does it as well.  It takes 11 MiB for that, of
 * which 7 stay with malloc(): a cache of 64 MiB has none to spare.  So the choice is made here, in
 * half a MiB, and ZDICT makes the tables of what was chosen.
 *
 * The choice is what ZDICT does, without its search for parameters: a run of GRAM bytes is worth as
 * much as there are samples that have it.  The samples are cut into as many parts as there are
 * pieces; of each the piece goes in whose runs are worth most together, and they are worth nothing
 * from then on.
 */
#include "dictionary.h"

#include <errno.h>
#include <zdict.h>

#include "codecs.h"

#define GRAM 8u
#define PIECE 64u                       /* bytes */
#define PIECE_GRAMS (PIECE - GRAM + 1)
#define HASH_BITS 16
#define HASHES (1u << HASH_BITS)
#define WORTH_MOST 65535u
#define TABLES_ROOM 1024u               /* bytes of a dictionary that ZDICT's tables may take */
#define SAMPLES_LEAST 16u
#define CHECKED_PART 4u                 /* of the samples */

struct choice {
	u16 worth[HASHES];
	u16 in[HASHES];                 /* runs of the piece that is looked at */
	u32 last[HASHES];               /* sample + 1 that had it last */
};

static u32 hash_of(const unsigned char *p)
{
	u64 run;

	memcpy(&run, p, sizeof(run));
	return (u32)(run * 0x9e3779b97f4a7c15ull >> (64 - HASH_BITS));
}

/* Returns the bytes of all samples. */
static size_t count_runs(struct choice *t, const struct samples *s)
{
	size_t i, k, at = 0;

	for (i = 0; i < s->count; at += s->len[i++])
		for (k = 0; k + GRAM <= s->len[i]; k++) {
			u32 h = hash_of(s->bytes + at + k);

			if (t->last[h] == (u32)i + 1)
				continue;
			t->last[h] = (u32)i + 1;
			if (t->worth[h] < WORTH_MOST)
				t->worth[h]++;
		}
	return at;
}

/* What only one sample has is worth nothing. */
static u32 worth_of(const struct choice *t, u32 h)
{
	return t->worth[h] > 1 ? t->worth[h] : 0;
}

/* The best piece that begins at p[0] to p[n - 1]; NULL: all are worth nothing. */
static const unsigned char *best_piece(struct choice *t, const unsigned char *p, size_t n)
{
	const unsigned char *best = NULL;
	size_t i, runs = n + PIECE_GRAMS - 1;
	u64 sum = 0, most = 0;

	for (i = 0; i < runs; i++) {
		u32 h = hash_of(p + i);

		if (!t->in[h]++)
			sum += worth_of(t, h);
		if (i >= PIECE_GRAMS) {
			u32 left = hash_of(p + i - PIECE_GRAMS);

			if (!--t->in[left])
				sum -= worth_of(t, left);
		}
		if (i + 1 >= PIECE_GRAMS && sum > most) {
			most = sum;
			best = p + i + 1 - PIECE_GRAMS;
		}
	}
	for (i = runs > PIECE_GRAMS ? runs - PIECE_GRAMS : 0; i < runs; i++)
		t->in[hash_of(p + i)] = 0;
	return best;
}

/* Chooses at most n bytes, a multiple of PIECE, to the end of to[n]; how many they are. */
static size_t choose(struct choice *t, const struct samples *s, unsigned char *to, size_t n)
{
	size_t total = count_runs(t, s), parts = n / PIECE, part, left = n, i, k, none = 0;

	part = parts ? total / parts : 0;
	if (part < PIECE)
		return 0;
	/* What comes first is what most have, and is to be nearest to the input: at the end. */
	for (i = 0; left && none < parts; i = (i + 1) % parts) {
		size_t at = i * part;
		size_t starts = at + part + PIECE <= total ? part : part - PIECE + 1;
		const unsigned char *p = best_piece(t, s->bytes + at, starts);

		none = p ? 0 : none + 1;
		if (!p)
			continue;
		for (k = 0; k < PIECE_GRAMS; k++)
			t->worth[hash_of(p + k)] = 0;
		left -= PIECE;
		memcpy(to + left, p, PIECE);
	}
	return n - left;
}

/* Bytes of a value as it would be stored: raw, if it does not pay. */
static u64 stored_bytes(const struct dictionary *d, void *ctx, const unsigned char *p, size_t n,
			unsigned char *room)
{
	size_t cap = n ? n - (n >> 4) - 1 : 0;
	int bytes = cap ? dictionary_compress(d, ctx, p, n, room, cap) : -ENOSPC;

	return bytes > 0 ? (u64)bytes : n;
}

/* Samples from the first one on, with the dictionary and without. */
static int compare(const struct dictionary *d, const struct samples *s, size_t first, int level,
		   u64 *with, u64 *without)
{
	struct codec_params params = { .level = level };
	void *ctx = codec_zstd.create(&params);
	const unsigned char *p = s->bytes;
	size_t i, longest = 0;
	unsigned char *room;

	*with = 0;
	*without = 0;
	for (i = 0; i < s->count; i++)
		longest = s->len[i] > longest ? s->len[i] : longest;
	room = host_zalloc(longest);
	for (i = 0; ctx && room && i < s->count; p += s->len[i++]) {
		if (i < first)
			continue;
		*with += stored_bytes(d, ctx, p, s->len[i], room);
		*without += stored_bytes(NULL, ctx, p, s->len[i], room);
	}
	host_free(room, longest);
	if (!ctx)
		return -ENOMEM;
	codec_zstd.destroy(ctx);
	return room ? 0 : -ENOMEM;
}

static struct dictionary *make(const struct samples *s, unsigned char *room, size_t most, int level)
{
	size_t want = (most - TABLES_ROOM) / PIECE * PIECE, n = 0, made;
	ZDICT_params_t params = { .compressionLevel = level };
	struct choice *t = host_zalloc(sizeof(*t));

	if (!t)
		return NULL;
	n = choose(t, s, room, want);
	host_free(t, sizeof(*t));
	if (!n)
		return NULL;
	made = ZDICT_finalizeDictionary(room + most, most, room + want - n, n, s->bytes, s->len,
					(unsigned int)s->count, params);
	return ZDICT_isError(made) ? NULL : dictionary_make(room + most, made, level);
}

struct dictionary *dictionary_train(const struct samples *s, size_t most, int level, u64 *with,
				    u64 *without)
{
	struct samples first = *s;
	struct dictionary *d;
	unsigned char *room;

	first.count -= s->count / CHECKED_PART;
	if (s->count < SAMPLES_LEAST || most <= TABLES_ROOM + PIECE)
		return NULL;
	room = host_zalloc(2 * most);
	if (!room)
		return NULL;
	d = make(&first, room, most, level);
	host_free(room, 2 * most);
	if (d && compare(d, s, first.count, level, with, without)) {
		dictionary_free(d);
		return NULL;
	}
	return d;
}
