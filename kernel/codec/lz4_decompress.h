/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lz4_decompress.h - how lz4 and lz4hc decompress, which share the format.  A kernel may have one
 * of them and not the other.
 *
 * It reaches back 64 KiB, and the library takes no longer dictionary as it is.  ctx: begins with
 * the address of its parameters.
 */
#ifndef EBB_KERNEL_LZ4_DECOMPRESS_H
#define EBB_KERNEL_LZ4_DECOMPRESS_H

#include "codecs.h"

#include <linux/lz4.h>

#define LZ4_MAX_DICT SZ_64K

static int lz4_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	const struct codec_params *p = *(const struct codec_params **)ctx;
	int len;

	host_kernel_touches(src, n, dst, cap);
	if (p->dict)
		len = LZ4_decompress_safe_usingDict(src, dst, (int)n, (int)cap, p->dict,
						    (int)p->dict_bytes);
	else
		len = LZ4_decompress_safe(src, dst, (int)n, (int)cap);
	return len == (int)cap ? 0 : -EIO;
}

static int lz4_decompress_part(void *ctx, const void *src, size_t n, void *dst, size_t part,
			       size_t cap)
{
	host_kernel_touches(src, n, dst, cap);
	return LZ4_decompress_safe_partial(src, dst, (int)n, (int)part, (int)cap) < (int)part ?
		       -EIO : 0;
}

#endif
