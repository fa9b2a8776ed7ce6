// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_zstd.c - zstd over the kernel's zstd library.
 *
 * Owns: a context is one compressor and one decompressor in workspaces of their own, reused
 * for every page, so nothing is allocated while pages come and go.  A frame carries neither its
 * size, which the store knows, nor a checksum.
 */
#include "codecs.h"

#include <linux/zstd.h>
#include <linux/zstd_errors.h>

struct zstd_ctx {
	zstd_parameters params;
	zstd_cctx *c;
	zstd_dctx *d;
	void *c_space, *d_space;
	size_t c_bytes, d_bytes;
};

static void codec_zstd_destroy(void *ctx)
{
	struct zstd_ctx *z = ctx;

	host_free(z->c_space, z->c_bytes);
	host_free(z->d_space, z->d_bytes);
	host_free(z, sizeof(*z));
}

static void *codec_zstd_create(int level)
{
	struct zstd_ctx *z = host_zalloc(sizeof(*z));

	if (!z)
		return NULL;
	z->params = zstd_get_params(level, PAGE_SIZE);
	z->params.fParams.contentSizeFlag = 0;
	z->c_bytes = zstd_cctx_workspace_bound(&z->params.cParams);
	z->d_bytes = zstd_dctx_workspace_bound();
	z->c_space = host_zalloc(z->c_bytes);
	z->d_space = host_zalloc(z->d_bytes);
	if (z->c_space && z->d_space) {
		z->c = zstd_init_cctx(z->c_space, z->c_bytes);
		z->d = zstd_init_dctx(z->d_space, z->d_bytes);
	}
	if (z->c && z->d)
		return z;
	codec_zstd_destroy(z);
	return NULL;
}

static int codec_zstd_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct zstd_ctx *z = ctx;
	size_t len;

	host_kernel_touches(src, n, dst, cap);
	len = zstd_compress_cctx(z->c, dst, cap, src, n, &z->params);
	if (likely(!zstd_is_error(len)))
		return (int)len;
	return zstd_get_error_code(len) == ZSTD_error_dstSize_tooSmall ? -ENOSPC : -EIO;
}

static int codec_zstd_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct zstd_ctx *z = ctx;

	host_kernel_touches(src, n, dst, cap);
	return zstd_decompress_dctx(z->d, dst, cap, src, n) == cap ? 0 : -EIO;
}

/* The library tells its bounds by functions only; these have stood since it came to the kernel. */
const struct codec_ops codec_zstd = {
	.name = "zstd",
	.min_level = -(1 << 17),
	.max_level = 22,
	.default_level = 3,
	.create = codec_zstd_create,
	.destroy = codec_zstd_destroy,
	.compress = codec_zstd_compress,
	.decompress = codec_zstd_decompress,
};
