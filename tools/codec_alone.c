// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* codec_alone.c - owns a context of each codec's own library, and calls that without a store. */
#include "codec_alone.h"

#include <lz4.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#if EBB_LZO
#include <lzo/lzo1x.h>
#endif

#include "ebb.h"
#include "tool.h"

enum kind { LZ4, LZ4HC, ZSTD, LZO };

struct codec_alone {
	enum kind kind;
	int level;
	size_t page;
	void *work;              /* of all but zstd */
	ZSTD_CCtx *zc;
	ZSTD_DCtx *zd;
	unsigned char *out;      /* lzo cannot be told how much room there is */
};

struct codec_alone *codec_alone_open(const char *name, int32_t level)
{
	struct codec_alone *c = xalloc(1, sizeof(*c));
	int32_t min, max, def;

	c->page = ebb_page_size();
	must(ebb_codec_levels(name, &min, &max, &def), name);
	c->level = level == EBB_LEVEL_DEFAULT ? def : level;
	c->out = xalloc(1, CODEC_ALONE_MOST + CODEC_ALONE_MOST / 16 + 67);
	if (!strcmp(name, "lz4")) {
		c->kind = LZ4;
		c->work = xalloc(1, (size_t)LZ4_sizeofState());
	} else if (!strcmp(name, "lz4hc")) {
		c->kind = LZ4HC;
		c->work = xalloc(1, (size_t)LZ4_sizeofStateHC());
	} else if (!strcmp(name, "zstd")) {
		c->kind = ZSTD;
		c->zc = ZSTD_createCCtx();
		c->zd = ZSTD_createDCtx();
		if (!c->zc || !c->zd ||
		    ZSTD_isError(ZSTD_CCtx_setParameter(c->zc, ZSTD_c_compressionLevel,
							c->level)) ||
		    ZSTD_isError(ZSTD_CCtx_setParameter(c->zc, ZSTD_c_contentSizeFlag, 0)))
			fail("out of memory for a zstd context");
#if EBB_LZO
	} else if (!strcmp(name, "lzo")) {
		c->kind = LZO;
		if (lzo_init() != LZO_E_OK)
			fail("lzo does not start");
		c->work = xalloc(1, LZO1X_1_MEM_COMPRESS);
#endif
	} else {
		usage_fail("--codec %s: this bench does not know it; expected another", name);
	}
	return c;
}

void codec_alone_close(struct codec_alone *c)
{
	ZSTD_freeCCtx(c->zc);
	ZSTD_freeDCtx(c->zd);
	free(c->work);
	free(c->out);
	free(c);
}

size_t codec_alone_pack(struct codec_alone *c, const void *src, size_t n, void *dst)
{
	size_t ret;
	int len;
#if EBB_LZO
	lzo_uint lzo_len = 0;
#endif

	switch (c->kind) {
	case LZ4:
		len = LZ4_compress_fast_extState(c->work, src, dst, (int)n, (int)n,
						 c->level > 0 ? c->level : 1);
		return len > 0 ? (size_t)len : 0;
	case LZ4HC:
		len = LZ4_compress_HC_extStateHC(c->work, src, dst, (int)n, (int)n,
						 c->level);
		return len > 0 ? (size_t)len : 0;
	case ZSTD:
		ret = ZSTD_compress2(c->zc, dst, n, src, n);
		return ZSTD_isError(ret) ? 0 : ret;
	case LZO:
#if EBB_LZO
		if (lzo1x_1_compress(src, n, c->out, &lzo_len, c->work) != LZO_E_OK ||
		    lzo_len >= n)
			return 0;
		memcpy(dst, c->out, lzo_len);
		return lzo_len;
#endif
		break;
	}
	return 0;
}

bool codec_alone_unpack(struct codec_alone *c, const void *src, size_t bytes, void *dst, size_t n)
{
#if EBB_LZO
	lzo_uint lzo_len = n;
#endif

	switch (c->kind) {
	case LZ4:
	case LZ4HC:
		return LZ4_decompress_safe(src, dst, (int)bytes, (int)n) == (int)n;
	case ZSTD:
		return ZSTD_decompressDCtx(c->zd, dst, n, src, bytes) == n;
	case LZO:
#if EBB_LZO
		return lzo1x_decompress_safe(src, bytes, dst, &lzo_len, NULL) == LZO_E_OK &&
		       lzo_len == n;
#endif
		break;
	}
	return false;
}

size_t codec_alone_compress(struct codec_alone *c, const void *page, void *dst)
{
	return codec_alone_pack(c, page, c->page, dst);
}

bool codec_alone_decompress(struct codec_alone *c, const void *src, size_t bytes, void *page)
{
	return codec_alone_unpack(c, src, bytes, page, c->page);
}

void packed_load(struct packed_set *packed, const struct page_set *set, const char *codec,
		 int32_t level)
{
	struct codec_alone *c = codec_alone_open(codec, level);
	size_t page = ebb_page_size();
	uint64_t at = 0;

	packed->count = set->count;
	packed->mapped = set->count * page;
	packed->at_mapped = (set->count + 1) * sizeof(*packed->at);
	packed->bytes = xmap(packed->mapped);
	packed->at = xmap(packed->at_mapped);
	for (size_t i = 0; i < set->count; i++) {
		/* Object i ends below i + 1 pages: there is a page of room for it. */
		size_t n = codec_alone_compress(c, data_page(set, i), packed->bytes + at);

		if (!n || n >= page) {
			memcpy(packed->bytes + at, data_page(set, i), page);
			n = page;
		}
		at += n;
		packed->at[i + 1] = at;
		if (i % 4096 == 0) {
			progress("compressing %s: %zu of %zu pages", set->name, i, set->count);
			stop_if_interrupted();
		}
	}
	codec_alone_close(c);
}

void packed_unload(struct packed_set *packed)
{
	xunmap(packed->bytes, packed->mapped);
	xunmap(packed->at, packed->at_mapped);
	memset(packed, 0, sizeof(*packed));
}
