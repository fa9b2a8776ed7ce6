/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* codec.h - lz4 and zstd without a store, and pages compressed beforehand. */
#ifndef EBB_BENCH_CODEC_H
#define EBB_BENCH_CODEC_H

#include "bench.h"

struct codec;

/* One stream, for one thread, at the codec's own level. */
struct codec *codec_open(const char *name);
void codec_close(struct codec *c);

/* Of n bytes, at most this. */
#define CODEC_MOST ((size_t)64 << 10)
/* Returns the bytes in dst[n], 0 if it does not get smaller. */
size_t codec_compress(struct codec *c, const void *src, size_t n, void *dst);
/* The same, but what does not get smaller is copied, and read back as it is. */
size_t codec_pack(struct codec *c, const void *src, size_t n, void *dst);
/* False: it is not n bytes. */
bool codec_unpack(struct codec *c, const void *src, size_t bytes, void *dst, size_t n);

/* Objects as a store would keep them: compressed, or as they are. */
struct packed_set {
	unsigned char *bytes;
	uint64_t *at;          /* object i is bytes[at[i]] .. bytes[at[i + 1] - 1] */
	size_t count;
	uint64_t plain;        /* bytes before */
};

struct packed_set *packed_make(const char *codec, size_t count, size_t most,
			       const void *(*one)(const void *arg, size_t i, size_t *n),
			       const void *arg);

/* For struct bench's load(): the pages of a set. */
void *packed_load(const struct bench_run *r);

/* Object i, and its bytes. */
static inline const unsigned char *packed_object(const struct packed_set *p, size_t i, size_t *n)
{
	*n = (size_t)(p->at[i + 1] - p->at[i]);
	return p->bytes + p->at[i];
}

#endif
