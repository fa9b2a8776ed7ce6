// SPDX-License-Identifier: GPL-2.0-only
/* codecs.c - the table of codecs, in the order in which in-tree zram lists them. */
#include "codecs.h"

#include <linux/slab.h>

const struct codec_ops *const kernel_codecs[] = {
#ifdef CODEC_lzo
	&codec_lzorle,
	&codec_lzo,
#endif
#ifdef CODEC_lz4
	&codec_lz4,
#endif
#ifdef CODEC_lz4hc
	&codec_lz4hc,
#endif
#ifdef CODEC_zstd
	&codec_zstd,
#endif
#ifdef CODEC_deflate
	&codec_deflate,
#endif
#ifdef CODEC_842
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
