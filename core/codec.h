/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codec.h - what the store asks of a compressor.  The homes bring the codecs, one a file,
 * each ending in one const struct codec_ops.
 */
#ifndef EBB_CORE_CODEC_H
#define EBB_CORE_CODEC_H

#include "host.h"

struct codec_ops {
	const char *name;
	/* Levels the codec takes, inclusive; all three 0 if it has none. */
	int min_level, max_level, default_level;

	/*
	 * A context for one stream; used by one thread at a time.  Process context.
	 * NULL when memory is short.  level is in range.
	 */
	void *(*create)(int level);
	void (*destroy)(void *ctx);

	/*
	 * Compresses n bytes into at most cap bytes.  Returns the bytes written (> 0),
	 * -ENOSPC if they do not fit in cap, or another negative error.  Process context;
	 * need not be able to sleep.
	 */
	int (*compress)(void *ctx, const void *src, size_t n, void *dst, size_t cap);

	/*
	 * Decompresses exactly n bytes of src, which may be corrupt, into exactly cap bytes.
	 * Returns 0, or -EIO if src is not a valid stream of cap bytes; never writes past
	 * dst + cap and never reads past src + n.
	 */
	int (*decompress)(void *ctx, const void *src, size_t n, void *dst, size_t cap);
};

#endif
