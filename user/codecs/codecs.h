/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codecs.h - the codecs of the user-space home.  Each is over a system library, in a file of
 * its own; codec_lz4.c, the default codec, also holds the table.
 */
#ifndef EBB_USER_CODECS_H
#define EBB_USER_CODECS_H

#include "store/codec.h"

extern const struct codec_ops codec_lz4, codec_lz4hc, codec_zstd, codec_lzo;

/* Bytes of a context, in whole pages of 4 KiB: of those whose size no parameter says. */
#define CODEC_LZ4_BYTES ((size_t)20 << 10)
#define CODEC_LZ4HC_BYTES ((size_t)260 << 10)
#define CODEC_LZO_BYTES ((size_t)200 << 10)

/* lz4, lz4hc, zstd, lzo (where EBB_LZO, which the build sets), NULL */
extern const struct codec_ops *const user_codecs[];

/*
 * Bytes of all contexts of zstd that were made with p, which is prepared; and the most that one
 * takes with a level, for inputs of n bytes.
 */
u64 codec_zstd_bytes(const struct codec_params *p);
size_t codec_zstd_context_bytes(int level, size_t n);

#endif
