// SPDX-License-Identifier: GPL-2.0-only
/* codecs.c - the table of codecs, in the order in which in-tree zram lists them. */
#include "codecs.h"

#include <linux/kconfig.h>
#include <linux/slab.h>

/* As in Kbuild: both halves of the library. */
#define HAVE(comp, decomp) \
	(IS_ENABLED(CONFIG_##comp##_COMPRESS) && IS_ENABLED(CONFIG_##decomp##_DECOMPRESS))
#define HAVE_DEFLATE (IS_ENABLED(CONFIG_ZLIB_DEFLATE) && IS_ENABLED(CONFIG_ZLIB_INFLATE))

const struct codec_ops *const kernel_codecs[] = {
#if HAVE(LZO, LZO)
	&codec_lzorle,
	&codec_lzo,
#endif
#if HAVE(LZ4, LZ4)
	&codec_lz4,
#endif
#if HAVE(LZ4HC, LZ4)
	&codec_lz4hc,
#endif
#if HAVE(ZSTD, ZSTD)
	&codec_zstd,
#endif
#if HAVE_DEFLATE
	&codec_deflate,
#endif
#if HAVE(842, 842)
	&codec_842,
#endif
	NULL
};

static_assert(ARRAY_SIZE(kernel_codecs) > 1, "the kernel has no library that zram can use");
static_assert(ARRAY_SIZE(kernel_codecs) <= KERNEL_CODECS + 1, "KERNEL_CODECS counts them");

#ifdef CONFIG_ZRAM_DEF_COMP
#define DEFAULT_NAME CONFIG_ZRAM_DEF_COMP
#else
#define DEFAULT_NAME "lzo-rle"
#endif

const struct codec_ops *codec_find(const char *name)
{
	unsigned int i;

	for (i = 0; kernel_codecs[i]; i++)
		if (sysfs_streq(name, kernel_codecs[i]->name))
			break;
	return kernel_codecs[i];
}

const struct codec_ops *codec_default(void)
{
	return codec_find(DEFAULT_NAME) ?: kernel_codecs[0];
}

void codec_free(void *ctx)
{
	kvfree(ctx);
}

void codec_release(struct codec_params *p)
{
	codec_free(p->prepared);
	p->prepared = NULL;
}
