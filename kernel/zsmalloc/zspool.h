/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * zspool.h - what a pool of the zs_* interface is, and what its parts ask of each other.
 *
 *     zs_malloc(), zs_free(), ...   zs.c       the interface, one call at a time
 *                                   main.c     pools made and unmade, parameters, the budget
 *                                   shrink.c   memory given back under pressure
 *                                   migrate.c  pages that the kernel moves
 *                                   stat.c     debugfs
 *          |
 *          v
 *     struct cells (core/cell.h)    a slot word for each object; its handle is the caller's
 *          |
 *          v
 *     struct pcp, struct host_pages page lists of CPUs, the kernel's pages
 *
 * Lock order: pools_lock > what release_set_limit() takes.  zs.c takes none of its own.
 */
#ifndef EBB_ZSMALLOC_ZSPOOL_H
#define EBB_ZSMALLOC_ZSPOOL_H

#include "cell.h"
#include "shrink.h"

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/zsmalloc.h>

struct dentry;
struct shrinker;

struct zs_pool {
	struct cells cells;
	struct shrink shrink;
	struct host_pages pages;        /* of what stays where it is: descriptors, cells */
	struct pcp pcp;
	struct host_pages movable;      /* of objects; migrate.c */
	struct pcp movable_pcp;
	refcount_t movers;              /* who moves a page now; 1 more until the pool ends */
	struct completion unmoved;      /* nobody does, and nobody will */
	struct host_work tend;          /* page lists that are idle, the reserve */
	struct host_work grow;          /* tables whose users may not wait for memory */
	struct host_work rest;          /* what the shrinker leaves */
	host_a64 compacting;            /* 1: somebody is in zs_compact() */
	bool dry;                       /* the reserve could not be filled; READ_ONCE */
	bool help;                      /* who allocates is to free some; READ_ONCE */
	struct shrinker *shrinker;      /* NULL: there was no memory for one */
	struct dentry *files;           /* in debugfs */
	struct list_head all;           /* in the list of pools; pools_lock */
	char *name;
};

/* As many as callers of zs_free_bulk() collect.  Without linux/series nobody declared it. */
#ifndef ZS_FREE_BULK_MAX
#define ZS_FREE_BULK_MAX 32
void zs_free_bulk(struct zs_pool *pool, unsigned long *handles, unsigned int nr);
#endif

/* shrink.c; process context, with cells there. */
void zs_shrink_init(struct zs_pool *pool);
void zs_shrinker_add(struct zs_pool *pool);
void zs_shrinker_remove(struct zs_pool *pool);
/* The work that does what the shrinker leaves. */
void zs_shrink_rest(struct host_work *w);

/*
 * migrate.c; process context.  zs_movable_init() before pages are taken, zs_movable_stop() while
 * the cells are still there: then no page is pinned and none will be.
 */
#ifdef CONFIG_COMPACTION
int zs_mops_init(void);
void zs_mops_exit(void);
void zs_movable_init(struct zs_pool *pool);
void zs_movable_stop(struct zs_pool *pool);
/* Of struct cells_config. */
void zs_tag(void *ctx, host_page page, u64 tag);
#else
static inline int zs_mops_init(void)
{
	return 0;
}

static inline void zs_mops_exit(void)
{
}

static inline void zs_movable_init(struct zs_pool *pool)
{
}

static inline void zs_movable_stop(struct zs_pool *pool)
{
}

static inline void zs_tag(void *ctx, host_page page, u64 tag)
{
}
#endif

/* stat.c; process context.  Nothing without CONFIG_ZSMALLOC_STAT. */
#ifdef CONFIG_ZSMALLOC_STAT
void zs_stat_init(void);
void zs_stat_exit(void);
void zs_stat_add(struct zs_pool *pool);
void zs_stat_remove(struct zs_pool *pool);
#else
static inline void zs_stat_init(void)
{
}

static inline void zs_stat_exit(void)
{
}

static inline void zs_stat_add(struct zs_pool *pool)
{
}

static inline void zs_stat_remove(struct zs_pool *pool)
{
}
#endif

#endif
