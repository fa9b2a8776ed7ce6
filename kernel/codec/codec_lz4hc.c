// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_lz4hc.c - lz4hc over the kernel's lz4 library: slower to compress, lz4 to decompress.
 *
 * Owns: a context is the library's match finder (256 KiB).
 */
#include "codecs.h"

#include <linux/lz4.h>

struct lz4hc_ctx {
	u8 work[LZ4HC_MEM_COMPRESS] __aligned(HOST_CACHELINE);
	int level;
};

static void *lz4hc_create(int level)
{
	struct lz4hc_ctx *c = host_zalloc(sizeof(*c));

	if (c)
		c->level = level;
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

	host_kernel_touches(src, n, dst, cap);
	len = LZ4_compress_HC(src, dst, (int)n, (int)cap, c->level, c->work);
	return len > 0 ? len : -ENOSPC;
}

static int lz4hc_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	host_kernel_touches(src, n, dst, cap);
	return LZ4_decompress_safe(src, dst, (int)n, (int)cap) == (int)cap ? 0 : -EIO;
}

const struct codec_ops codec_lz4hc = {
	.name = "lz4hc",
	/* The library takes 1 and 2 too, below the minimum that it advertises. */
	.min_level = 1,
	.max_level = LZ4HC_MAX_CLEVEL,
	.default_level = LZ4HC_DEFAULT_CLEVEL,
	.create = lz4hc_create,
	.destroy = lz4hc_destroy,
	.compress = lz4hc_compress,
	.decompress = lz4hc_decompress,
};
