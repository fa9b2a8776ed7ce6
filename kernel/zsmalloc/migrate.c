// SPDX-License-Identifier: GPL-2.0-only
/*
 * migrate.c - pages of a pool that the kernel moves: zsmalloc_mops.
 *
 * A page says whose it is from the moment in which it was taken from the kernel:
 *
 *     page type        PGTY_zsmalloc, until the kernel has it back, and PG_movable_ops with it
 *     __folio_index    the pool; 0: it was given back, and only who isolated it still has it
 *     private          the tag of its zspage (core/migrate.h); 0: it is in none, but in a page list
 *
 *     isolate   any page of a pool, whatever becomes of it afterwards
 *     migrate   in a zspage: pinned, moved, unpinned.  In a page list: taken out of it.  Given back
 *               since: nothing to do
 *     putback   nothing: nobody was kept from anything
 *
 * So an isolated page may go on to be freed and used again, which lasts no longer than it would
 * without.  The pool that a page names is there as long as somebody holds pool->movers, which is
 * taken under RCU: a pool ends when there are none, and its memory goes a grace period later.
 *
 * Context: the kernel calls with the pages locked, and may sleep.  Nothing here does.
 */
#include "zspool.h"

#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/vmstat.h>

#include "migrate.h"

/* ---- of a page ---- */

static struct zs_pool *pool_of(struct page *page)
{
	return (struct zs_pool *)READ_ONCE(page->__folio_index);
}

static void set_pool(struct page *page, struct zs_pool *pool)
{
	WRITE_ONCE(page->__folio_index, (unsigned long)pool);
}

/*
 * What others find comes before the flag by which they come.  Pairs with the acquire of
 * folio_trylock() in isolate_movable_ops_page(), after it saw the flag: both are bits of one word.
 */
static void make_movable(struct page *page)
{
	smp_wmb();
	SetPageMovableOps(page);
}

void zs_tag(void *ctx, host_page page, u64 tag)
{
	WRITE_ONCE(((struct page *)page)->private, tag);
}

static void taken(struct host_pages *src, struct page *page)
{
	struct zs_pool *pool = container_of(src, struct zs_pool, movable);

	__SetPageZsmalloc(page);
	zs_tag(NULL, (host_page)page, 0);
	set_pool(page, pool);
	make_movable(page);
}

/* The type and the flag stay: they are the kernel's to clear, once nobody has the page. */
static void given(struct host_pages *src, struct page *page)
{
	set_pool(page, NULL);
	zs_tag(NULL, (host_page)page, 0);
}

void zs_movable_init(struct zs_pool *pool)
{
	refcount_set(&pool->movers, 1);
	init_completion(&pool->unmoved);
	pool->movable.taken = taken;
	pool->movable.given = given;
}

/* ---- who moves ---- */

/* The page's pool, which stays until put_pool().  NULL: it has none; an error: it is ending. */
static struct zs_pool *get_pool(struct page *page)
{
	struct zs_pool *pool;

	rcu_read_lock();
	pool = pool_of(page);
	if (pool && !refcount_inc_not_zero(&pool->movers))
		pool = ERR_PTR(-EAGAIN);
	rcu_read_unlock();
	return pool;
}

static void put_pool(struct zs_pool *pool)
{
	if (refcount_dec_and_test(&pool->movers))
		complete(&pool->unmoved);
}

void zs_movable_stop(struct zs_pool *pool)
{
	put_pool(pool);
	wait_for_completion(&pool->unmoved);
}

static bool isolate_page(struct page *page, isolate_mode_t mode)
{
	return pool_of(page);
}

/* dst counts for src, in whose place it is, and takes over what the pool had of it. */
static void exchange(struct zs_pool *pool, struct page *dst, struct page *src)
{
	get_page(dst);
	make_movable(dst);
	if (page_zone(dst) != page_zone(src)) {
		mod_zone_page_state(page_zone(src), NR_ZSPAGES, -1);
		mod_zone_page_state(page_zone(dst), NR_ZSPAGES, 1);
	}
	given(&pool->movable, src);
	put_page(src);
}

/* The zspage of src is pinned, and is not when this returns. */
static int move(struct zs_pool *pool, struct page *dst, struct page *src, u64 tag)
{
	int err;

	__SetPageZsmalloc(dst);
	set_pool(dst, pool);
	err = cells_move(&pool->cells, tag, (host_page)src, (host_page)dst);
	if (!err) {
		exchange(pool, dst, src);
	} else {
		set_pool(dst, NULL);
		__ClearPageZsmalloc(dst);
	}
	cells_unpin(&pool->cells, tag);
	return err;
}

/* A page that waits in a list is given back, so there is nothing left to move. */
static int take_from_list(struct zs_pool *pool, struct page *page)
{
	host_page p = (host_page)page;

	if (!pcp_remove(&pool->movable_pcp, p, page_to_nid(page)))
		return -EAGAIN;
	host_pages_free(&pool->movable, &p, 1);
	return 0;
}

static int migrate_page(struct page *dst, struct page *src, enum migrate_mode mode)
{
	struct zs_pool *pool = get_pool(src);
	u64 tag;
	int err;

	if (IS_ERR_OR_NULL(pool))
		return PTR_ERR_OR_ZERO(pool);
	tag = READ_ONCE(src->private);
	/* What is in no zspage is in a list, or in somebody's hands for a moment. */
	if (tag && !cells_pin(&pool->cells, (host_page)src, tag))
		err = move(pool, dst, src, tag);
	else
		err = take_from_list(pool, src);
	put_pool(pool);
	return err;
}

static void putback_page(struct page *page)
{
}

const struct movable_operations zsmalloc_mops = {
	.isolate_page = isolate_page,
	.migrate_page = migrate_page,
	.putback_page = putback_page,
};

int zs_mops_init(void)
{
	return set_movable_ops(&zsmalloc_mops, PGTY_zsmalloc);
}

void zs_mops_exit(void)
{
	set_movable_ops(NULL, PGTY_zsmalloc);
}
