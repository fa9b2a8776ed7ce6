/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * codecs.h - the codecs of the kernel home.  Each is over a library of the kernel, in a file
 * of its own, built if the kernel has the library (Kbuild); codecs.c holds the table.
 *
 * The libraries share one level convention with in-tree zram, which takes
 *
 *     lzo, lzo-rle, 842  no level     lz4      1 and up, more is faster
 *     lz4hc              1 .. 16      zstd     -131072 .. 22
 *                                     deflate  -1 (which is 6) .. 9
 */
#ifndef EBB_KERNEL_CODECS_H
#define EBB_KERNEL_CODECS_H

#include "store/codec.h"

#include <linux/sizes.h>

extern const struct codec_ops codec_lzo, codec_lzorle, codec_lz4, codec_lz4hc, codec_zstd,
	codec_deflate, codec_842;

/* lzo-rle, lzo, lz4, lz4hc, zstd, deflate, 842 as far as they are there, NULL */
extern const struct codec_ops *const kernel_codecs[];

#define KERNEL_CODECS 7         /* most of them */

/* The one that the kernel's configuration prefers for zram, or the first. */
const struct codec_ops *codec_default(void);

/* By name, which may end in a newline; NULL: not there. */
const struct codec_ops *codec_find(const char *name);

/* Frees what host_zalloc() gave, of any length: a context, or what was prepared. */
void codec_free(void *ctx);
void codec_release(struct codec_params *p);

#endif
