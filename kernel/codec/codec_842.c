// SPDX-License-Identifier: GPL-2.0-only
/*
 * codec_842.c - 842 over the kernel's software for what POWER machines do in hardware.
 *
 * Owns: a context is the library's hash tables (60 KiB); decompression needs none.  A stream ends in
 * a checksum of the page, which the library compares.  It may come out longer than the page, and
 * the library then says that there is no room.
 */
#include "codecs.h"

#include <linux/sw842.h>

struct ctx_842 {
	u8 work[SW842_MEM_COMPRESS] __aligned(HOST_CACHELINE);
};

static void *create_842(const struct codec_params *p)
{
	return host_zalloc(sizeof(struct ctx_842));
}

static void destroy_842(void *ctx)
{
	host_free(ctx, sizeof(struct ctx_842));
}

static int compress_842(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	struct ctx_842 *c = ctx;
	unsigned int len = (unsigned int)cap;
	int err;

	host_kernel_touches(src, n, dst, cap);
	err = sw842_compress(src, (unsigned int)n, dst, &len, c->work);
	if (!err)
		return (int)len;
	return err == -ENOSPC ? -ENOSPC : -EIO;
}

static int decompress_842(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	unsigned int len = (unsigned int)cap;

	host_kernel_touches(src, n, dst, cap);
	return sw842_decompress(src, (unsigned int)n, dst, &len) || len != cap ? -EIO : 0;
}

const struct codec_ops codec_842 = {
	.name = "842",
	.create = create_842,
	.destroy = destroy_842,
	.compress = compress_842,
	.decompress = decompress_842,
};
