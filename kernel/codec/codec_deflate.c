// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_deflate.c - deflate over the kernel's zlib library.
 *
 * Owns: a context is one compressor and one decompressor in workspaces of their own (about 140 and
 * 45 KiB), reused for every page.  A window of fewer than 0 bits means its size without zlib's
 * header and checksum, which are 6 bytes of a page.
 */
#include "codecs.h"

#include <linux/zlib.h>

/* As in-tree zram and the kernel's crypto have them. */
#define DEFLATE_WINBITS (-11)
#define DEFLATE_MEM_LEVEL 8

struct deflate_ctx {
	struct z_stream_s c, d;
};

static void deflate_destroy(void *ctx)
{
	struct deflate_ctx *z = ctx;

	/* zlib has nothing beside the workspaces. */
	codec_free(z->c.workspace);
	codec_free(z->d.workspace);
	codec_free(z);
}

static void *deflate_create(const struct codec_params *p)
{
	int winbits = p->winbits ?: DEFLATE_WINBITS;
	struct deflate_ctx *z = host_zalloc(sizeof(*z));

	if (!z)
		return NULL;
	z->c.workspace = host_zalloc(zlib_deflate_workspacesize(winbits, DEFLATE_MEM_LEVEL));
	z->d.workspace = host_zalloc(zlib_inflate_workspacesize());
	if (z->c.workspace && z->d.workspace &&
	    zlib_deflateInit2(&z->c, p->level, Z_DEFLATED, winbits, DEFLATE_MEM_LEVEL,
			      Z_DEFAULT_STRATEGY) == Z_OK &&
	    zlib_inflateInit2(&z->d, winbits) == Z_OK)
		return z;
	deflate_destroy(z);
	return NULL;
}

static int deflate_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct z_stream_s *c = &((struct deflate_ctx *)ctx)->c;
	int ret;

	host_kernel_touches(src, n, dst, cap);
	if (zlib_deflateReset(c) != Z_OK)
		return -EIO;
	c->next_in = src;
	c->avail_in = n;
	c->next_out = dst;
	c->avail_out = cap;
	ret = zlib_deflate(c, Z_FINISH);
	if (likely(ret == Z_STREAM_END))
		return (int)c->total_out;
	/* Stopped half way: it wants more room. */
	return ret == Z_OK || ret == Z_BUF_ERROR ? -ENOSPC : -EIO;
}

static int deflate_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct z_stream_s *d = &((struct deflate_ctx *)ctx)->d;

	host_kernel_touches(src, n, dst, cap);
	if (zlib_inflateReset(d) != Z_OK)
		return -EIO;
	d->next_in = src;
	d->avail_in = n;
	d->next_out = dst;
	d->avail_out = cap;
	return zlib_inflate(d, Z_FINISH) == Z_STREAM_END && d->total_out == cap ? 0 : -EIO;
}

const struct codec_ops codec_deflate = {
	.name = "deflate",
	.min_level = Z_DEFAULT_COMPRESSION,
	.max_level = Z_BEST_COMPRESSION,
	.default_level = Z_DEFAULT_COMPRESSION,
	.has_winbits = true,
	.create = deflate_create,
	.destroy = deflate_destroy,
	.compress = deflate_compress,
	.decompress = deflate_decompress,
};
