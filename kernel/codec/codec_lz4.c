// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_lz4.c - lz4 over the kernel's lz4 library.
 *
 * Owns: a context is the library's hash table (16 KiB); decompression needs none.  The level is
 * lz4's acceleration: 1 compresses best, more is faster.  Of a dictionary there is a second such
 * table, filled once for all contexts, which each page starts from a copy of.
 */
#include "lz4_decompress.h"

/* Steps past this one skip whole pages, and the library's arithmetic would overflow. */
#define LZ4_ACCELERATION_SANE 65537

struct lz4_ctx {
	const struct codec_params *params;      /* first: lz4_decompress() */
	int acceleration;
	union {
		u8 work[LZ4_MEM_COMPRESS];
		LZ4_stream_t stream;    /* with a dictionary */
	} __aligned(SMP_CACHE_BYTES);
};

static int lz4_prepare(struct codec_params *p)
{
	LZ4_stream_t *s;

	if (!p->dict)
		return 0;
	s = host_zalloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	p->prepared = s;
	if (LZ4_loadDict(s, p->dict, (int)p->dict_bytes) == (int)p->dict_bytes)
		return 0;
	codec_release(p);
	return -EINVAL;
}

static void *lz4_create(const struct codec_params *p)
{
	struct lz4_ctx *c = host_zalloc(sizeof(*c));

	if (c) {
		c->acceleration = min(p->level, LZ4_ACCELERATION_SANE);
		c->params = p;
	}
	return c;
}

static int lz4_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct lz4_ctx *c = ctx;
	int len;

	host_kernel_touches(src, n, dst, cap);
	if (c->params->prepared) {
		memcpy(&c->stream, c->params->prepared, sizeof(c->stream));
		len = LZ4_compress_fast_continue(&c->stream, src, dst, (int)n, (int)cap,
						 c->acceleration);
	} else {
		len = LZ4_compress_fast(src, dst, (int)n, (int)cap, c->acceleration, c->work);
	}
	return len > 0 ? len : -ENOSPC;
}

const struct codec_ops codec_lz4 = {
	.name = "lz4",
	.min_level = LZ4_ACCELERATION_DEFAULT,
	.max_level = INT_MAX,
	.default_level = LZ4_ACCELERATION_DEFAULT,
	.min_dict = sizeof(u64),
	.max_dict = LZ4_MAX_DICT,
	.prepare = lz4_prepare,
	.release = codec_release,
	.create = lz4_create,
	.destroy = codec_free,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
	.decompress_part = lz4_decompress_part,
};
