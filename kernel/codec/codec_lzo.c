// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_lzo.c - lzo and lzo-rle over the kernel's lzo library; they differ in the compressor
 * and share the decompressor.
 *
 * Owns: a context is the library's work memory (16 KiB) and a bounce buffer, since the
 * compressors take no bound on their output: where dst has less room than the worst case, they
 * write here first.  (The bounded ones pay for a check at each byte, and are not in 6.12.)
 */
#include "codecs.h"

#include <linux/lzo.h>

struct lzo_ctx {
	u8 work[LZO1X_1_MEM_COMPRESS] __aligned(SMP_CACHE_BYTES);
	u8 bounce[];                    /* [lzo1x_worst_compress(codec_bytes())] */
};

typedef int lzo_fn(const unsigned char *src, size_t n, unsigned char *dst, size_t *len, void *work);

static void *lzo_create(const struct codec_params *p)
{
	return host_zalloc(sizeof(struct lzo_ctx) + lzo1x_worst_compress(codec_bytes(p)));
}

static __always_inline int lzo_compress_with(lzo_fn *fn, struct lzo_ctx *c, const void *src,
					     size_t n, void *dst, size_t cap)
{
	bool direct = cap >= lzo1x_worst_compress(n);
	void *out = direct ? dst : c->bounce;
	size_t len = cap;

	host_kernel_touches(src, n, out, direct ? cap : lzo1x_worst_compress(n));
	if (fn(src, n, out, &len, c->work) != LZO_E_OK)
		return -EIO;
	if (len > cap)
		return -ENOSPC;
	if (!direct)
		memcpy(dst, c->bounce, len);
	return (int)len;
}

static int lzo_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return lzo_compress_with(lzo1x_1_compress, ctx, src, n, dst, cap);
}

static int lzorle_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return lzo_compress_with(lzorle1x_1_compress, ctx, src, n, dst, cap);
}

static int lzo_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	size_t len = cap;

	host_kernel_touches(src, n, dst, cap);
	if (lzo1x_decompress_safe(src, n, dst, &len) != LZO_E_OK || len != cap)
		return -EIO;
	return 0;
}

const struct codec_ops codec_lzo = {
	.name = "lzo",
	.create = lzo_create,
	.destroy = codec_free,
	.compress = lzo_compress,
	.decompress = lzo_decompress,
};

const struct codec_ops codec_lzorle = {
	.name = "lzo-rle",
	.create = lzo_create,
	.destroy = codec_free,
	.compress = lzorle_compress,
	.decompress = lzo_decompress,
};
