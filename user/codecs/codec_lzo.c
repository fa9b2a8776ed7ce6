/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codec_lzo.c - lzo1x over liblzo2 (which is GPL-2.0-or-later: so is a program linked to it).
 *
 * Owns: a context is liblzo2's work memory (128 KiB), and a bounce buffer, since the
 * compressor takes no bound on its output: where dst has less room than the worst case, it
 * writes here first.  Decompression needs neither.
 */
#include "codecs.h"

#include <lzo/lzo1x.h>

/* Most that n bytes can become. */
#define LZO_BOUND(n) ((n) + (n) / 16 + 64 + 3)

/* The most bytes at once where there is no room for LZO_BOUND() of them: a page, a block. */
#define LZO_MOST ((size_t)64 << 10)

struct lzo_ctx {
	_Alignas(SMP_CACHE_BYTES) unsigned char work[LZO1X_1_MEM_COMPRESS];
	unsigned char bounce[LZO_BOUND(LZO_MOST)];      /* what is not used takes no memory */
};

_Static_assert(sizeof(struct lzo_ctx) <= CODEC_LZO_BYTES, "what a context counts for");

static void *lzo_create(const struct codec_params *p)
{
	(void)p;
	if (lzo_init() != LZO_E_OK)
		return NULL;
	return host_zalloc(sizeof(struct lzo_ctx));
}

static void lzo_destroy(void *ctx)
{
	host_free(ctx, sizeof(struct lzo_ctx));
}

static int lzo_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct lzo_ctx *c = ctx;
	bool direct = cap >= LZO_BOUND(n);
	lzo_uint len = 0;

	if (n > LZO_MOST && !direct)
		return -EINVAL;
	if (lzo1x_1_compress(src, n, direct ? dst : c->bounce, &len, c->work) != LZO_E_OK)
		return -EIO;
	if (len > cap || len > INT32_MAX)
		return -ENOSPC;
	if (!direct)
		memcpy(dst, c->bounce, len);
	return (int)len;
}

static int lzo_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	lzo_uint len = cap;

	(void)ctx;
	if (lzo1x_decompress_safe(src, n, dst, &len, NULL) != LZO_E_OK || len != cap)
		return -EIO;
	return 0;
}

const struct codec_ops codec_lzo = {
	.name = "lzo",
	.create = lzo_create,
	.destroy = lzo_destroy,
	.compress = lzo_compress,
	.decompress = lzo_decompress,
};
