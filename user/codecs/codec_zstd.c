/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codec_zstd.c - zstd over libzstd.
 *
 * Owns: a context is one compressor and one decompressor, reused for every page; and what a
 * dictionary is to both (dictionary.h).
 *
 * A frame carries neither its size (the store knows it) nor a checksum, and no magic number
 * where the library agrees to leave it out: 2 bytes of header instead of 6 to 7.  Leaving
 * it out is an experimental parameter, so the library is asked for both directions, and a refusal
 * means plain frames.
 * What is stored never outlives the process, so the two need not be told apart.
 *
 * Contexts get their memory from the home, and count what they have: out of malloc() it would come
 * from the arena of whichever thread asked, and stay there.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include "codecs.h"
#include "dictionary.h"

/* What contexts with the same parameters share, if these were prepared. */
struct zstd_shared {
	host_a64 bytes;                 /* of memory that they have */
};

struct dictionary {
	ZSTD_CDict *c;
	ZSTD_DDict *d;
};

struct zstd_ctx {
	ZSTD_CCtx *c;
	ZSTD_DCtx *d;
	const struct dictionary *of_c, *of_d;   /* that they work with now */
};

/* ---- memory ---- */

/* Before each piece stands how large it is. */
#define PIECE_HEAD ((size_t)SMP_CACHE_BYTES)

static void *zstd_alloc(void *shared, size_t bytes)
{
	struct zstd_shared *z = shared;
	char *p = host_zalloc(PIECE_HEAD + bytes);

	if (!p)
		return NULL;
	bytes += PIECE_HEAD;
	memcpy(p, &bytes, sizeof(bytes));
	if (z)
		host_a64_add(&z->bytes, bytes);
	return p + PIECE_HEAD;
}

static void zstd_free(void *shared, void *piece)
{
	struct zstd_shared *z = shared;
	char *p = (char *)piece - PIECE_HEAD;
	size_t bytes;

	if (!piece)
		return;
	memcpy(&bytes, p, sizeof(bytes));
	host_free(p, bytes);
	if (z)
		host_a64_add(&z->bytes, (u64)0 - bytes);
}

static int zstd_prepare(struct codec_params *p)
{
	p->prepared = host_zalloc(sizeof(struct zstd_shared));
	return p->prepared ? 0 : -ENOMEM;
}

static void zstd_release(struct codec_params *p)
{
	host_free(p->prepared, sizeof(struct zstd_shared));
	p->prepared = NULL;
}

u64 codec_zstd_bytes(const struct codec_params *p)
{
	const struct zstd_shared *z = p->prepared;

	return host_a64_read(&z->bytes);
}

size_t codec_zstd_context_bytes(int level, size_t n)
{
	ZSTD_compressionParameters c = ZSTD_getCParams(level, n, 0);

	return sizeof(struct zstd_ctx) + ZSTD_estimateCCtxSize_usingCParams(c) +
	       ZSTD_estimateDCtxSize() + 3 * PIECE_HEAD;
}

/* ---- contexts ---- */

static bool zstd_set(ZSTD_CCtx *c, ZSTD_cParameter what, int v)
{
	return !ZSTD_isError(ZSTD_CCtx_setParameter(c, what, v));
}

/* Both directions or neither. */
static void zstd_drop_magic(struct zstd_ctx *z)
{
	if (!zstd_set(z->c, ZSTD_c_format, ZSTD_f_zstd1_magicless))
		return;
	if (ZSTD_isError(ZSTD_DCtx_setParameter(z->d, ZSTD_d_format, ZSTD_f_zstd1_magicless)))
		zstd_set(z->c, ZSTD_c_format, ZSTD_f_zstd1);
}

static void zstd_destroy(void *ctx)
{
	struct zstd_ctx *z = ctx;

	ZSTD_freeCCtx(z->c);
	ZSTD_freeDCtx(z->d);
	host_free(z, sizeof(*z));
}

/* A reset, since what failed before leaves a compressor in the middle of it. */
static bool use_compressor(struct zstd_ctx *z, const struct dictionary *d)
{
	if (likely(z->of_c == d))
		return true;
	if (ZSTD_isError(ZSTD_CCtx_reset(z->c, ZSTD_reset_session_only)) ||
	    ZSTD_isError(ZSTD_CCtx_refCDict(z->c, d ? d->c : NULL)))
		return false;
	z->of_c = d;
	return true;
}

static bool use_decompressor(struct zstd_ctx *z, const struct dictionary *d)
{
	if (likely(z->of_d == d))
		return true;
	if (ZSTD_isError(ZSTD_DCtx_reset(z->d, ZSTD_reset_session_only)) ||
	    ZSTD_isError(ZSTD_DCtx_refDDict(z->d, d ? d->d : NULL)))
		return false;
	z->of_d = d;
	return true;
}

int dictionary_compress(const struct dictionary *d, void *ctx, const void *src, size_t n, void *dst,
			size_t cap)
{
	struct zstd_ctx *z = ctx;
	size_t len;

	if (!use_compressor(z, d))
		return -EIO;
	len = ZSTD_compress2(z->c, dst, cap, src, n);
	if (likely(!ZSTD_isError(len)))
		return len <= INT32_MAX ? (int)len : -ENOSPC;
	switch (ZSTD_getErrorCode(len)) {
	case ZSTD_error_dstSize_tooSmall:
		return -ENOSPC;
	case ZSTD_error_memory_allocation:
		return -ENOMEM;
	default:
		return -EIO;
	}
}

int dictionary_decompress(const struct dictionary *d, void *ctx, const void *src, size_t n,
			  void *dst, size_t cap)
{
	struct zstd_ctx *z = ctx;

	/*
	 * A frame has a header of 2 bytes and a block header of 3; libzstd 1.5.4 reads 4 unasked.
	 */
	if (n < 5 || !use_decompressor(z, d))
		return -EIO;
	return ZSTD_decompressDCtx(z->d, dst, cap, src, n) == cap ? 0 : -EIO;
}

static int zstd_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return dictionary_compress(NULL, ctx, src, n, dst, cap);
}

static int zstd_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return dictionary_decompress(NULL, ctx, src, n, dst, cap);
}

static void *zstd_create(const struct codec_params *p)
{
	static const char page[PAGE_SIZE];
	const ZSTD_customMem memory = { zstd_alloc, zstd_free, p->prepared };
	struct zstd_ctx *z = host_zalloc(sizeof(*z));
	char out[64];

	if (!z)
		return NULL;
	z->c = ZSTD_createCCtx_advanced(memory);
	z->d = ZSTD_createDCtx_advanced(memory);
	if (!z->c || !z->d)
		goto fail;
	if (!zstd_set(z->c, ZSTD_c_compressionLevel, p->level) ||
	    !zstd_set(z->c, ZSTD_c_contentSizeFlag, 0) ||
	    !zstd_set(z->c, ZSTD_c_checksumFlag, 0) ||
	    !zstd_set(z->c, ZSTD_c_dictIDFlag, 0))
		goto fail;
	zstd_drop_magic(z);
	/* The first page makes the library allocate its tables: have that fail here, if it does. */
	if (zstd_compress(z, page, sizeof(page), out, sizeof(out)) < 0)
		goto fail;
	return z;
fail:
	zstd_destroy(z);
	return NULL;
}

/* ---- dictionaries ---- */

struct dictionary *dictionary_make(const void *made, size_t n, int level)
{
	struct dictionary *d = host_zalloc(sizeof(*d));

	if (!d)
		return NULL;
	d->c = ZSTD_createCDict(made, n, level);
	d->d = ZSTD_createDDict(made, n);
	if (d->c && d->d)
		return d;
	dictionary_free(d);
	return NULL;
}

void dictionary_free(struct dictionary *d)
{
	if (!d)
		return;
	ZSTD_freeCDict(d->c);
	ZSTD_freeDDict(d->d);
	host_free(d, sizeof(*d));
}

size_t dictionary_bytes(const struct dictionary *d)
{
	return sizeof(*d) + ZSTD_sizeof_CDict(d->c) + ZSTD_sizeof_DDict(d->d);
}

const struct codec_ops codec_zstd = {
	.name = "zstd",
	.min_level = -5,
	.max_level = 22,
	.default_level = 3,
	.prepare = zstd_prepare,
	.release = zstd_release,
	.create = zstd_create,
	.destroy = zstd_destroy,
	.compress = zstd_compress,
	.decompress = zstd_decompress,
};
