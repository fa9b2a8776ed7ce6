// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_lz4hc.c - lz4hc over the kernel's lz4 library: slower to compress, lz4 to decompress.
 *
 * Owns: a context is the library's match finder (256 KiB).  Of a dictionary there is a second one,
 * filled once for all contexts, which each page starts from a copy of.
 */
#include "lz4_decompress.h"

struct lz4hc_ctx {
	const struct codec_params *params;      /* first: lz4_decompress() */
	union {
		u8 work[LZ4HC_MEM_COMPRESS];
		LZ4_streamHC_t stream;  /* with a dictionary */
	} __aligned(SMP_CACHE_BYTES);
};

static int lz4hc_prepare(struct codec_params *p)
{
	LZ4_streamHC_t *s;

	if (!p->dict)
		return 0;
	s = host_zalloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	p->prepared = s;
	LZ4_resetStreamHC(s, p->level);
	if (LZ4_loadDictHC(s, p->dict, (int)p->dict_bytes) == (int)p->dict_bytes)
		return 0;
	codec_release(p);
	return -EINVAL;
}

static void *lz4hc_create(const struct codec_params *p)
{
	struct lz4hc_ctx *c = host_zalloc(sizeof(*c));

	if (c)
		c->params = p;
	return c;
}

static int lz4hc_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct lz4hc_ctx *c = ctx;
	int len;

	host_kernel_touches(src, n, dst, cap);
	if (c->params->prepared) {
		memcpy(&c->stream, c->params->prepared, sizeof(c->stream));
		len = LZ4_compress_HC_continue(&c->stream, src, dst, (int)n, (int)cap);
	} else {
		len = LZ4_compress_HC(src, dst, (int)n, (int)cap, c->params->level, c->work);
	}
	return len > 0 ? len : -ENOSPC;
}

const struct codec_ops codec_lz4hc = {
	.name = "lz4hc",
	/* The library takes 1 and 2 too, below the minimum that it advertises. */
	.min_level = 1,
	.max_level = LZ4HC_MAX_CLEVEL,
	.default_level = LZ4HC_DEFAULT_CLEVEL,
	.min_dict = 1,
	.max_dict = LZ4_MAX_DICT,
	.prepare = lz4hc_prepare,
	.release = codec_release,
	.create = lz4hc_create,
	.destroy = codec_free,
	.compress = lz4hc_compress,
	.decompress = lz4_decompress,
	.decompress_part = lz4_decompress_part,
};
