/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * codecs.h - the codecs of the user-space home.  Each is over a system library, in a file of
 * its own; codec_lz4.c, the default codec, also holds the table.
 */
#ifndef EBB_USER_CODECS_H
#define EBB_USER_CODECS_H

#include "codec.h"

extern const struct codec_ops codec_lz4, codec_lz4hc, codec_zstd, codec_lzo;

/* lz4, lz4hc, zstd, lzo (where EBB_LZO, which the build sets), NULL */
extern const struct codec_ops *const user_codecs[];

#endif
