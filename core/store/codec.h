/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codec.h - what the store asks of a compressor.  The homes bring the codecs, one a file,
 * each ending in one const struct codec_ops.
 */
#ifndef EBB_CORE_CODEC_H
#define EBB_CORE_CODEC_H

#include "host.h"

/* The parameters of all contexts.  0 in a field that the codec does not take. */
struct codec_params {
	int level;                      /* min_level .. max_level */
	int winbits;                    /* 0: the codec's own */
	const void *dict;               /* outlives the contexts; NULL: none */
	size_t dict_bytes;              /* min_dict .. max_dict, or 0 */
	void *prepared;                 /* what prepare() made */
	size_t bytes;                   /* the most that is compressed at a time; 0: a page */
};

static inline size_t codec_bytes(const struct codec_params *p)
{
	return p->bytes ? p->bytes : PAGE_SIZE;
}

struct codec_ops {
	const char *name;
	/* Levels the codec takes, inclusive; all three 0 if it has none. */
	int min_level, max_level, default_level;
	/* Bytes of a dictionary, inclusive; both 0 if it takes none. */
	size_t min_dict, max_dict;
	bool has_winbits;               /* deflate: -15 .. -9 and 9 .. 15, as zlib means it */

	/*
	 * Sets p->prepared to what all contexts with p share, such as a dictionary's tables;
	 * release() frees that after the last context.  NULL: there is nothing to share.  Process
	 * context.  -ENOMEM; -EINVAL: it does not take the dictionary.
	 */
	int (*prepare)(struct codec_params *p);
	void (*release)(struct codec_params *p);

	/*
	 * A context for one stream; used by one thread at a time.  Process context.
	 * NULL when memory is short.  p is in range and prepared, and outlives the context.
	 */
	void *(*create)(const struct codec_params *p);
	void (*destroy)(void *ctx);

	/*
	 * Compresses n bytes, at most codec_bytes(), into at most cap bytes.  Returns the
	 * bytes written (> 0), -ENOSPC if they do not fit in cap, or another negative error.
	 * Process context; need not be able to sleep.
	 */
	int (*compress)(void *ctx, const void *src, size_t n, void *dst, size_t cap);

	/*
	 * Decompresses exactly n bytes of src, which may be corrupt, into exactly cap bytes.
	 * Returns 0, or -EIO if src is not a valid stream of cap bytes; never writes past
	 * dst + cap and never reads past src + n.
	 */
	int (*decompress)(void *ctx, const void *src, size_t n, void *dst, size_t cap);

	/*
	 * As decompress(), but what is behind the first part bytes of dst may be anything then.
	 * Not with a dictionary.  NULL: the codec cannot stop.
	 */
	int (*decompress_part)(void *ctx, const void *src, size_t n, void *dst, size_t part,
			       size_t cap);
};

#endif
