// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zsleak.c - makes a pool of zsmalloc, and ends it with three objects in it, as it is loaded.
 */
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/module.h>
#include <linux/numa.h>
#include <linux/zsmalloc.h>

static int __init zsleak_init(void)
{
	struct zs_pool *pool = zs_create_pool("zsleak");
	unsigned long handle = 0;
	int i;

	if (!pool)
		return -ENOMEM;
	for (i = 0; i < 4 && !IS_ERR_VALUE(handle); i++)
		handle = zs_malloc(pool, 100 + 900 * i, GFP_KERNEL, NUMA_NO_NODE);
	/* What was freed, and may be held back, is none of them. */
	zs_free(pool, handle);
	zs_destroy_pool(pool);
	return IS_ERR_VALUE(handle) ? (int)handle : 0;
}

static void __exit zsleak_exit(void)
{
}

module_init(zsleak_init);
module_exit(zsleak_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Ends a pool with objects in it");
