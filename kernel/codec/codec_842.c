// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_842.c - 842 over the kernel's software for what POWER machines do in hardware.
 *
 * Owns: a context is the library's hash tables (60 KiB); decompression needs none.  A stream ends
 * in a checksum of the page, which the library compares.  It may come out longer than the page, and
 * the library then says that there is no room.
 *
 * Until late in 2026 the library checked the bounds of some operations only: corrupt bytes, as a
 * backing device may have, made it write past the page.  So what they make is added up first.  A
 * stream is a row of
 *
 *     5 bits            then bits           makes bytes
 *     0 .. 25           SIZE_842 of it      8
 *     27, repeat        6: n                8 * (n + 1), of the 8 before
 *     28, zeros         none                8
 *     29, short data    3: n, and 8 * n     n
 *     30, end           the checksum
 */
#include "codecs.h"

#include <linux/sw842.h>

static void *create_842(const struct codec_params *p)
{
	return host_zalloc(SW842_MEM_COMPRESS);
}

static int compress_842(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	unsigned int len = (unsigned int)cap;
	int err;

	host_kernel_touches(src, n, dst, cap);
	err = sw842_compress(src, (unsigned int)n, dst, &len, ctx);
	if (!err)
		return (int)len;
	return err == -ENOSPC ? -ENOSPC : -EIO;
}

#define OP_REPEAT 27
#define OP_ZEROS 28
#define OP_SHORT_DATA 29
#define OP_END 30

static const u8 size_842[] = {
	64, 56, 56, 48, 41, 56, 48, 48, 40, 33, 56, 48, 48,
	40, 33, 48, 40, 40, 32, 25, 41, 33, 33, 25, 18, 8,
};

/* n bits, 8 at most, from bit *at on, which moves; past the end they are 0. */
static unsigned int take_bits(const u8 *src, size_t bytes, size_t *at, unsigned int n)
{
	size_t i = *at / 8;
	unsigned int two = (i < bytes ? src[i] << 8 : 0) | (i + 1 < bytes ? src[i + 1] : 0);

	two >>= 16 - *at % 8 - n;
	*at += n;
	return two & ((1 << n) - 1);
}

/* Whether n bytes at src make cap bytes at most, and repeat nothing from before them. */
static bool keeps_to(const u8 *src, size_t n, size_t cap)
{
	size_t at = 0, made = 0;

	while (made <= cap && at < 8 * n) {
		unsigned int op = take_bits(src, n, &at, 5), bytes = 8;

		if (op < ARRAY_SIZE(size_842)) {
			at += size_842[op];
		} else if (op == OP_REPEAT && made >= 8) {
			bytes = 8 * (take_bits(src, n, &at, 6) + 1);
		} else if (op == OP_SHORT_DATA) {
			bytes = take_bits(src, n, &at, 3);
			at += 8 * bytes;
		} else if (op != OP_ZEROS) {
			return op == OP_END;
		}
		made += bytes;
	}
	return made <= cap;
}

static int decompress_842(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	unsigned int len = (unsigned int)cap;

	host_kernel_touches(src, n, dst, cap);
	if (!keeps_to(src, n, cap))
		return -EIO;
	return sw842_decompress(src, (unsigned int)n, dst, &len) || len != cap ? -EIO : 0;
}

const struct codec_ops codec_842 = {
	.name = "842",
	.create = create_842,
	.destroy = codec_free,
	.compress = compress_842,
	.decompress = decompress_842,
};
