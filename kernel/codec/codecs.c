// SPDX-License-Identifier: GPL-2.0-only
/* codecs.c - the table of codecs, in the order in which in-tree zram lists them. */
#include "codecs.h"

#include <linux/kconfig.h>
#include <linux/slab.h>

/* As in Kbuild. */
#if IS_ENABLED(CONFIG_ZRAM_EBB)
#define HAVE(name, comp, decomp) IS_ENABLED(CONFIG_ZRAM_BACKEND_##name)
#else
#define HAVE(name, comp, decomp) (IS_ENABLED(CONFIG_##comp) && IS_ENABLED(CONFIG_##decomp))
#endif

const struct codec_ops *const kernel_codecs[] = {
#if HAVE(LZO, LZO_COMPRESS, LZO_DECOMPRESS)
	&codec_lzorle,
	&codec_lzo,
#endif
#if HAVE(LZ4, LZ4_COMPRESS, LZ4_DECOMPRESS)
	&codec_lz4,
#endif
#if HAVE(LZ4HC, LZ4HC_COMPRESS, LZ4_DECOMPRESS)
	&codec_lz4hc,
#endif
#if HAVE(ZSTD, ZSTD_COMPRESS, ZSTD_DECOMPRESS)
	&codec_zstd,
#endif
#if HAVE(DEFLATE, ZLIB_DEFLATE, ZLIB_INFLATE)
	&codec_deflate,
#endif
#if HAVE(842, 842_COMPRESS, 842_DECOMPRESS)
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
