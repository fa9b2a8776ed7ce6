/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codec_lz4.c - lz4 over liblz4, and the table of all codecs.
 *
 * Owns: a context is liblz4's hash table (16 KiB); decompression needs none.  The level is
 * lz4's acceleration: 1 compresses best, more is faster.
 */
#include "codecs.h"

#include <limits.h>
#include <lz4.h>

struct lz4_ctx {
	int acceleration;
	_Alignas(SMP_CACHE_BYTES) LZ4_stream_t state;
};

_Static_assert(sizeof(struct lz4_ctx) <= CODEC_LZ4_BYTES, "what a context counts for");

static void *lz4_create(const struct codec_params *p)
{
	struct lz4_ctx *c = host_zalloc(sizeof(*c));

	if (c)
		c->acceleration = p->level;
	return c;
}

static void lz4_destroy(void *ctx)
{
	host_free(ctx, sizeof(struct lz4_ctx));
}

static int lz4_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct lz4_ctx *c = ctx;
	int len;

	if (n > LZ4_MAX_INPUT_SIZE)
		return -EINVAL;
	len = LZ4_compress_fast_extState(&c->state, src, dst, (int)n,
					 cap < INT_MAX ? (int)cap : INT_MAX, c->acceleration);
	return len > 0 ? len : -ENOSPC;
}

static int lz4_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	(void)ctx;
	if (n > INT_MAX || cap > INT_MAX)
		return -EIO;
	return LZ4_decompress_safe(src, dst, (int)n, (int)cap) == (int)cap ? 0 : -EIO;
}

static int lz4_decompress_part(void *ctx, const void *src, size_t n, void *dst, size_t part,
			       size_t cap)
{
	(void)ctx;
	if (n > INT_MAX || cap > INT_MAX)
		return -EIO;
	return LZ4_decompress_safe_partial(src, dst, (int)n, (int)part, (int)cap) < (int)part ?
		       -EIO : 0;
}

const struct codec_ops codec_lz4 = {
	.name = "lz4",
	.min_level = 1,
	.max_level = 65537,
	.default_level = 1,
	.create = lz4_create,
	.destroy = lz4_destroy,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
	.decompress_part = lz4_decompress_part,
};

const struct codec_ops *const user_codecs[] = {
	&codec_lz4, &codec_lz4hc, &codec_zstd,
#if EBB_LZO
	&codec_lzo,
#endif
	NULL,
};
