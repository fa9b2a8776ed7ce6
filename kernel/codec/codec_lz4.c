// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_lz4.c - lz4 over the kernel's lz4 library.
 *
 * Owns: a context is the library's hash table (16 KiB); decompression needs none.  The level is
 * lz4's acceleration: 1 compresses best, more is faster.
 */
#include "codecs.h"

#include <linux/lz4.h>

/* Steps past this one skip whole pages, and the library's arithmetic would overflow. */
#define LZ4_ACCELERATION_SANE 65537

struct lz4_ctx {
	u8 work[LZ4_MEM_COMPRESS] __aligned(HOST_CACHELINE);
	int acceleration;
};

static void *lz4_create(int level)
{
	struct lz4_ctx *c = host_zalloc(sizeof(*c));

	if (c)
		c->acceleration = min(level, LZ4_ACCELERATION_SANE);
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

	host_kernel_touches(src, n, dst, cap);
	len = LZ4_compress_fast(src, dst, (int)n, (int)cap, c->acceleration, c->work);
	return len > 0 ? len : -ENOSPC;
}

static int lz4_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	host_kernel_touches(src, n, dst, cap);
	return LZ4_decompress_safe(src, dst, (int)n, (int)cap) == (int)cap ? 0 : -EIO;
}

const struct codec_ops codec_lz4 = {
	.name = "lz4",
	.min_level = LZ4_ACCELERATION_DEFAULT,
	.max_level = INT_MAX,
	.default_level = LZ4_ACCELERATION_DEFAULT,
	.create = lz4_create,
	.destroy = lz4_destroy,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
};
