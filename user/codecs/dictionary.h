/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dictionary.h - what short inputs of zstd have in common, told to it once.
 *
 *     samples --pieces that many of them have--> content --ZDICT--> tables of both directions
 *
 * A dictionary never changes, and any number of threads use it at once.  What was compressed with
 * one is decompressed with the same one, so it lives as long as that does.
 */
#ifndef EBB_USER_DICTIONARY_H
#define EBB_USER_DICTIONARY_H

#include "host.h"

struct dictionary;

/* Inputs one after the other. */
struct samples {
	const unsigned char *bytes;
	const size_t *len;
	size_t count;
};

/* Bytes of memory that dictionary_train() has for a moment, beside what it returns. */
#define DICTIONARY_TRAIN_BYTES ((size_t)2 << 20)
/* Of them, what malloc() keeps when zstd has freed it: measured. */
#define DICTIONARY_LEFT_BYTES ((size_t)512 << 10)

/*
 * Makes one of at most so many bytes from samples, for a level of zstd.  The last quarter of them
 * is compressed with and without it: *with and *without are bytes.  NULL: they have nothing in
 * common, are too few, or there is no memory.  Takes 20 ms for a MiB of samples.
 */
struct dictionary *dictionary_train(const struct samples *s, size_t most, int level, u64 *with,
				    u64 *without);

/* NULL is allowed. */
void dictionary_free(struct dictionary *d);

/* Bytes of its memory. */
size_t dictionary_bytes(const struct dictionary *d);

/*
 * As compress() and decompress() of codec_zstd (codec.h), whose context ctx is; with d, which
 * outlives the context.  NULL: without one.
 */
int dictionary_compress(const struct dictionary *d, void *ctx, const void *src, size_t n, void *dst,
			size_t cap);
int dictionary_decompress(const struct dictionary *d, void *ctx, const void *src, size_t n,
			  void *dst, size_t cap);

/* ---- between dictionary.c and codec_zstd.c ---- */

/* From what ZDICT made.  NULL: it is none, or there is no memory. */
struct dictionary *dictionary_make(const void *made, size_t n, int level);

#endif
