/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codec_alone.h - a codec without a store, to tell what of a store's time is the codec's,
 * and pages compressed beforehand.
 */
#ifndef EBB_CODEC_ALONE_H
#define EBB_CODEC_ALONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data.h"

struct codec_alone;

/* One stream, for one thread; level EBB_LEVEL_DEFAULT: the codec's own. */
struct codec_alone *codec_alone_open(const char *name, int32_t level);
void codec_alone_close(struct codec_alone *c);

/* Compresses a page; returns the bytes in dst[page size], 0 if it does not get smaller. */
size_t codec_alone_compress(struct codec_alone *c, const void *page, void *dst);
/* Decompresses to a page; false: it is not one. */
bool codec_alone_decompress(struct codec_alone *c, const void *src, size_t bytes, void *page);

/* The same for n bytes, at most CODEC_ALONE_MOST; dst[n] */
#define CODEC_ALONE_MOST ((size_t)64 << 10)
size_t codec_alone_pack(struct codec_alone *c, const void *src, size_t n, void *dst);
bool codec_alone_unpack(struct codec_alone *c, const void *src, size_t bytes, void *dst, size_t n);

/* Each page of a set as the object that a store would keep: compressed, or the page itself. */
struct packed_set {
	unsigned char *bytes;
	uint64_t *at;          /* object i is bytes[at[i]] .. bytes[at[i + 1] - 1] */
	size_t count;
	size_t mapped, at_mapped;
};

void packed_load(struct packed_set *packed, const struct page_set *set, const char *codec,
		 int32_t level);
void packed_unload(struct packed_set *packed);

static inline size_t packed_size(const struct packed_set *p, size_t i)
{
	return (size_t)(p->at[i + 1] - p->at[i]);
}

#endif
