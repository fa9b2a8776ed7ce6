/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codec_lz4hc.c - lz4hc over liblz4: the stream of lz4, searched for longer.
 *
 * Owns: a context is liblz4's tables (256 KiB); decompression needs none.
 */
#include "codecs.h"

#include <limits.h>
#include <lz4.h>
#include <lz4hc.h>

struct lz4hc_ctx {
	int level;
	_Alignas(SMP_CACHE_BYTES) LZ4_streamHC_t state;
};

_Static_assert(sizeof(struct lz4hc_ctx) <= CODEC_LZ4HC_BYTES, "what a context counts for");

static void *lz4hc_create(const struct codec_params *p)
{
	struct lz4hc_ctx *c = host_zalloc(sizeof(*c));

	if (c)
		c->level = p->level;
	return c;
}

static void lz4hc_destroy(void *ctx)
{
	host_free(ctx, sizeof(struct lz4hc_ctx));
}

static int lz4hc_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct lz4hc_ctx *c = ctx;
	int len;

	if (n > LZ4_MAX_INPUT_SIZE)
		return -EINVAL;
	len = LZ4_compress_HC_extStateHC(&c->state, src, dst, (int)n,
					 cap < INT_MAX ? (int)cap : INT_MAX, c->level);
	return len > 0 ? len : -ENOSPC;
}

static int lz4hc_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	(void)ctx;
	if (n > INT_MAX || cap > INT_MAX)
		return -EIO;
	return LZ4_decompress_safe(src, dst, (int)n, (int)cap) == (int)cap ? 0 : -EIO;
}

const struct codec_ops codec_lz4hc = {
	.name = "lz4hc",
	.min_level = 3,
	.max_level = LZ4HC_CLEVEL_MAX,
	.default_level = LZ4HC_CLEVEL_DEFAULT,
	.create = lz4hc_create,
	.destroy = lz4hc_destroy,
	.compress = lz4hc_compress,
	.decompress = lz4hc_decompress,
};
