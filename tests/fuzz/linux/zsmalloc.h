/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* zsmalloc.h - the interface of Linux 7.3 that kernel/zsmalloc/ answers, with zs_free_bulk(). */
#ifndef EBB_TESTS_LINUX_ZSMALLOC_H
#define EBB_TESTS_LINUX_ZSMALLOC_H

#include "../kernel_shim.h"

#define ZS_FREE_BULK_MAX 32

struct zs_pool;
struct zs_pool_stats {
	atomic_long_t pages_compacted;
};

unsigned long zs_malloc(struct zs_pool *pool, size_t size, gfp_t gfp, const int nid);
void zs_free(struct zs_pool *pool, unsigned long handle);
void zs_free_bulk(struct zs_pool *pool, unsigned long *handles, unsigned int nr);
size_t zs_huge_class_size(struct zs_pool *pool);
unsigned long zs_get_total_pages(struct zs_pool *pool);
unsigned long zs_compact(struct zs_pool *pool);
unsigned int zs_lookup_class_index(struct zs_pool *pool, unsigned int size);
void zs_pool_stats(struct zs_pool *pool, struct zs_pool_stats *stats);
void *zs_obj_read_begin(struct zs_pool *pool, unsigned long handle, size_t mem_len, void *copy);
void zs_obj_read_end(struct zs_pool *pool, unsigned long handle, size_t mem_len, void *mem);
void zs_obj_read_sg_begin(struct zs_pool *pool, unsigned long handle, struct scatterlist *sg,
			  size_t mem_len);
void zs_obj_read_sg_end(struct zs_pool *pool, unsigned long handle);
void zs_obj_write(struct zs_pool *pool, unsigned long handle, void *mem, size_t mem_len);

#endif
