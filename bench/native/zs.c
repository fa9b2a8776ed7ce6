// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* zs.c - native.h for mm/zsmalloc.c, as zram and zswap call it. */
#include "shim.h"
#include <linux/zsmalloc.h>
#include "native.h"

const char *const native_ways[] = {
	"single",
#ifdef ZS_FREE_BULK_MAX
	"bulk32",
#endif
	NULL
};

static struct zs_pool *pool;
static __thread struct native_object object, copy;

void native_open(size_t bytes, uint64_t objects)
{
	/* Handles, and zspages' own. */
	if (!shim_open(bytes + objects * 32 + (64 << 20)) || shim_init_module())
		native_die("no memory");
	pool = zs_create_pool("native");
	if (!pool)
		native_die("no pool");
}

void native_thread(unsigned int number)
{
	if (number >= SHIM_CPUS)
		native_die("too many threads");
	shim_cpu = number;
}

void native_store(uint64_t *word, const uint16_t *size, uint32_t key, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		word[i] = zs_malloc(pool, size[i], __GFP_HIGHMEM | __GFP_MOVABLE, 0);
		if (IS_ERR_VALUE(word[i]))
			native_die("no memory for an object");
		native_mark(&object, size[i], key + i);
		zs_obj_write(pool, word[i], object.byte, size[i]);
	}
}

bool native_read(uint64_t *word, const uint16_t *size, uint32_t key, unsigned int n)
{
	static __thread struct native_object bounce;

	for (unsigned int i = 0; i < n; i++) {
		void *at = zs_obj_read_begin(pool, word[i], size[i], bounce.byte);

		memcpy(copy.byte, at, size[i]);
		zs_obj_read_end(pool, word[i], size[i], at);
		if (!native_is(&copy, size[i], key + i))
			return false;
	}
	return true;
}

void native_free(uint64_t *word, unsigned int n, unsigned int way)
{
	unsigned int i;

	if (!way)
		for (i = 0; i < n; i++)
			zs_free(pool, word[i]);
#ifdef ZS_FREE_BULK_MAX
	else
		for (i = 0; i < n; i += ZS_FREE_BULK_MAX)
			zs_free_bulk(pool, word + i, min(n - i, ZS_FREE_BULK_MAX + 0u));
#endif
}

unsigned long native_settle(void)
{
	/* Nobody keeps a page locked, so nothing is left to the pool's own deferred free. */
	return zs_get_total_pages(pool);
}

unsigned long native_pages(void)
{
	return zs_get_total_pages(pool);
}

void native_compact(void)
{
	zs_compact(pool);
}
