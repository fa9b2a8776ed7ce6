// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* codec.c - owns contexts of a codec's own library, and calls that without a store. */
#include "codec.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "ebb.h"
#include "tool.h"

struct codec {
	void *lz4;               /* NULL: zstd */
	ZSTD_CCtx *zc;
	ZSTD_DCtx *zd;
};

struct codec *codec_open(const char *name)
{
	struct codec *c = xalloc(1, sizeof(*c));
	int32_t min, max, level;

	if (!strcmp(name, "lz4")) {
		c->lz4 = xalloc(1, (size_t)LZ4_sizeofState());
		return c;
	}
	if (strcmp(name, "zstd"))
		usage_fail("--codec %s: this bench knows lz4 and zstd alone", name);
	must(ebb_codec_levels(name, &min, &max, &level), name);
	c->zc = ZSTD_createCCtx();
	c->zd = ZSTD_createDCtx();
	if (!c->zc || !c->zd ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(c->zc, ZSTD_c_compressionLevel, level)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(c->zc, ZSTD_c_contentSizeFlag, 0)))
		fail("out of memory for a zstd context");
	return c;
}

void codec_close(struct codec *c)
{
	ZSTD_freeCCtx(c->zc);
	ZSTD_freeDCtx(c->zd);
	free(c->lz4);
	free(c);
}

size_t codec_compress(struct codec *c, const void *src, size_t n, void *dst)
{
	size_t ret;

	if (c->lz4)
		return (size_t)LZ4_compress_fast_extState(c->lz4, src, dst, (int)n, (int)n, 1);
	ret = ZSTD_compress2(c->zc, dst, n, src, n);
	return ZSTD_isError(ret) ? 0 : ret;
}

size_t codec_pack(struct codec *c, const void *src, size_t n, void *dst)
{
	size_t bytes = codec_compress(c, src, n, dst);

	if (bytes && bytes < n)
		return bytes;
	memcpy(dst, src, n);
	return n;
}

bool codec_unpack(struct codec *c, const void *src, size_t bytes, void *dst, size_t n)
{
	if (bytes == n) {
		memcpy(dst, src, n);
		return true;
	}
	if (c->lz4)
		return LZ4_decompress_safe(src, dst, (int)bytes, (int)n) == (int)n;
	return ZSTD_decompressDCtx(c->zd, dst, n, src, bytes) == n;
}

struct packed_set *packed_make(const char *codec, size_t count, size_t most,
			       const void *(*one)(const void *arg, size_t i, size_t *n),
			       const void *arg)
{
	struct packed_set *p = xmap(sizeof(*p));        /* it stays to the end */
	struct codec *c = codec_open(codec);

	p->count = count;
	p->bytes = xmap(count * most);
	p->at = xmap((count + 1) * sizeof(*p->at));
	for (size_t i = 0; i < count; i++) {
		size_t n;
		const void *data = one(arg, i, &n);

		/* Object i ends below i + 1 times the most: there is room for it as it is. */
		p->at[i + 1] = p->at[i] + codec_pack(c, data, n, p->bytes + p->at[i]);
		p->plain += n;
		stop_if_interrupted();
	}
	codec_close(c);
	return p;
}

static const void *page_of(const void *set, size_t i, size_t *n)
{
	*n = ebb_page_size();
	return data_page(set, i);
}

void *packed_load(const struct bench_run *r)
{
	return packed_make(r->store.codec, r->set->count, ebb_page_size(), page_of, r->set);
}
