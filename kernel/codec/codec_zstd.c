// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_zstd.c - zstd over the kernel's zstd library.
 *
 * Owns: a context is one compressor and one decompressor in workspaces of their own, reused
 * for every page, so nothing is allocated while pages come and go.  A frame carries neither its
 * size, which the store knows, nor a checksum.
 *
 * With a dictionary the library wants to allocate for itself.  It does so at the first page, which
 * is one of zeros when the context is made; the pages after it are as long and ask for no more.
 * The dictionary's tables are there once, for all contexts.
 */
#include "codecs.h"

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/zstd.h>
#include <linux/zstd_errors.h>

/* All that a dictionary may be; the library counts in 32 bits, some of which it takes. */
#define ZSTD_DICT_MAX SZ_1G

struct zstd_dict {
	zstd_cdict *c;
	zstd_ddict *d;
};

struct zstd_ctx {
	const struct zstd_dict *dict;   /* NULL: none */
	zstd_parameters params;
	zstd_cctx *c;
	zstd_dctx *d;
	void *c_space, *d_space;        /* without a dictionary */
	size_t c_bytes, d_bytes;
};

/* Should the library allocate after all while a page is worked on, that must not wait for I/O. */
static void *zstd_own_alloc(void *opaque, size_t bytes)
{
	return kvmalloc(bytes, GFP_NOIO | __GFP_NOWARN);
}

static void zstd_own_free(void *opaque, void *p)
{
	kvfree(p);
}

static const zstd_custom_mem zstd_own_mem = {
	.customAlloc = zstd_own_alloc, .customFree = zstd_own_free,
};

static void codec_zstd_release(struct codec_params *p)
{
	struct zstd_dict *dict = p->prepared;

	if (!dict)
		return;
	zstd_free_cdict(dict->c);
	zstd_free_ddict(dict->d);
	host_free(dict, sizeof(*dict));
	p->prepared = NULL;
}

static int codec_zstd_prepare(struct codec_params *p)
{
	struct zstd_dict *dict;

	if (!p->dict)
		return 0;
	dict = host_zalloc(sizeof(*dict));
	if (!dict)
		return -ENOMEM;
	p->prepared = dict;
	dict->c = zstd_create_cdict_byreference(p->dict, p->dict_bytes,
						zstd_get_cparams(p->level, PAGE_SIZE,
								 p->dict_bytes),
						zstd_own_mem);
	dict->d = zstd_create_ddict_byreference(p->dict, p->dict_bytes, zstd_own_mem);
	if (dict->c && dict->d)
		return 0;
	/* It says no more; in-tree zram takes it for this, too. */
	codec_zstd_release(p);
	return -EINVAL;
}

static void codec_zstd_destroy(void *ctx)
{
	struct zstd_ctx *z = ctx;

	if (z->dict) {
		zstd_free_cctx(z->c);
		zstd_free_dctx(z->d);
	}
	host_free(z->c_space, z->c_bytes);
	host_free(z->d_space, z->d_bytes);
	host_free(z, sizeof(*z));
}

static int codec_zstd_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct zstd_ctx *z = ctx;
	size_t len;

	host_kernel_touches(src, n, dst, cap);
	if (z->dict)
		len = zstd_compress_using_cdict(z->c, dst, cap, src, n, z->dict->c);
	else
		len = zstd_compress_cctx(z->c, dst, cap, src, n, &z->params);
	if (likely(!zstd_is_error(len)))
		return (int)len;
	return zstd_get_error_code(len) == ZSTD_error_dstSize_tooSmall ? -ENOSPC : -EIO;
}

static bool create_with_dict(struct zstd_ctx *z)
{
	u8 out[64];
	int n;

	z->c = zstd_create_cctx_advanced(zstd_own_mem);
	z->d = zstd_create_dctx_advanced(zstd_own_mem);
	if (!z->c || !z->d)
		return false;
	/* The lowest levels find no room for the page, when they have all they need. */
	n = codec_zstd_compress(z, page_address(ZERO_PAGE(0)), PAGE_SIZE, out, sizeof(out));
	return n > 0 || n == -ENOSPC;
}

static void *codec_zstd_create(const struct codec_params *p)
{
	struct zstd_ctx *z = host_zalloc(sizeof(*z));

	if (!z)
		return NULL;
	z->dict = p->prepared;
	if (z->dict) {
		if (create_with_dict(z))
			return z;
		goto fail;
	}
	z->params = zstd_get_params(p->level, codec_bytes(p));
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
fail:
	codec_zstd_destroy(z);
	return NULL;
}

static int codec_zstd_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct zstd_ctx *z = ctx;
	size_t len;

	host_kernel_touches(src, n, dst, cap);
	if (z->dict)
		len = zstd_decompress_using_ddict(z->d, dst, cap, src, n, z->dict->d);
	else
		len = zstd_decompress_dctx(z->d, dst, cap, src, n);
	return len == cap ? 0 : -EIO;
}

/* The library tells its bounds by functions only; these have stood since it came to the kernel. */
const struct codec_ops codec_zstd = {
	.name = "zstd",
	.min_level = -(1 << 17),
	.max_level = 22,
	.default_level = 3,
	.min_dict = 1,
	.max_dict = ZSTD_DICT_MAX,
	.prepare = codec_zstd_prepare,
	.release = codec_zstd_release,
	.create = codec_zstd_create,
	.destroy = codec_zstd_destroy,
	.compress = codec_zstd_compress,
	.decompress = codec_zstd_decompress,
};
