// SPDX-License-Identifier: GPL-2.0-only
/*
 * zs.c - the zs_* interface over cells, one call at a time.
 *
 * A handle is what cells_alloc() gives, so no call looks anything up here.  Nothing calls back into
 * the user of a pool: when zs_free() returns the handle is free, whatever is held back behind it.
 *
 * Locks are plain spin locks, here and below, so calls that take any are for process context alone:
 * one from an interrupt or a softirq could wait for whom it has interrupted.
 */
#include "zspool.h"

#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

/*
 * What a caller lets the allocator do.  zswap stores without waiting, but from reclaim, which may
 * use the kernel's emergency pages since it frees more than it takes: so may we for it.
 *
 * Flags that say how hard to try are not passed on.  For pages of order 0, and there are no others,
 * __GFP_NORETRY means that who may wait gets none rather than call the OOM killer.  Of the callers
 * only zswap sets it, and does not wait.
 */
static unsigned int how_of(gfp_t gfp)
{
	unsigned int how = gfp & __GFP_MOVABLE ? HOST_MOVABLE : 0;

	if (gfpflags_allow_blocking(gfp))
		return how | HOST_MAY_WAIT;
	if (in_task() && current->flags & PF_MEMALLOC && !(gfp & __GFP_NOMEMALLOC))
		return how | HOST_RECLAIMS;
	return how;
}

/*
 * Of a pool, when somebody asks how large it is: if more than the first is held back, the worker
 * begins at once; if it is more than the second, who allocates next frees some of it as well.
 */
#define KICK_SHARE 64
#define HELP_SHARE 8

/*
 * Page lists are looked after for a while; at once, if the reserve is short and was not found to be
 * just before, with nothing to fill it.
 */
static void note(struct zs_pool *pool, bool taken)
{
	bool now = taken && unlikely(pcp_is_short(&pool->pcp)) && !READ_ONCE(pool->dry);

	host_work_queue_delayed(&pool->tend, now ? 0 : PCP_PERIOD_US);
}

/* Whoever allocates while much is held back frees some of it. */
static void help(struct zs_pool *pool, unsigned int node)
{
	WRITE_ONCE(pool->help, false);
	release_help(&pool->cells.release, node, 1);
}

/**
 * zs_malloc() - Allocates an object.
 * @pool: pool to allocate from
 * @size: bytes, 1 to a page
 * @gfp: whether the caller may wait, and the pages be moved
 * @nid: node of the pages, if it takes new ones; or NUMA_NO_NODE
 *
 * Context: Process context; also under spinlocks or with interrupts off, if @gfp does not let it
 *	    wait.  Not from interrupts or softirqs.
 * Return: a handle, never 0; or an error number, for IS_ERR_VALUE(): -EINVAL if @size is 0, -ENOSPC
 *	   if it is over a page, -ENOMEM.
 */
unsigned long zs_malloc(struct zs_pool *pool, size_t size, gfp_t gfp, const int nid)
{
	cell_handle handle;
	unsigned int noio;
	int err;

	if (unlikely(!size))
		return (unsigned long)-EINVAL;
	if (unlikely(size > PAGE_SIZE))
		return (unsigned long)-ENOSPC;
	if (unlikely(READ_ONCE(pool->help)))
		help(pool, nid);
	/* Who may wait may be who writes to swap: what is allocated below starts no I/O either. */
	noio = memalloc_noio_save();
	err = cells_alloc(&pool->cells, size, nid, how_of(gfp), &handle);
	memalloc_noio_restore(noio);
	note(pool, true);
	/* That there are 4 TiB of pages is want of memory to the caller; -ENOSPC is about sizes. */
	return unlikely(err) ? (unsigned long)-ENOMEM : handle;
}
EXPORT_SYMBOL_GPL(zs_malloc);

/**
 * zs_free() - Frees an object.
 * @pool: pool that it was allocated from
 * @handle: its handle, which may be given to another object from now on; 0 and errors are ignored
 *
 * Context: Process context, also under spinlocks or with interrupts off; not from interrupts or
 *	    softirqs.  Does not sleep; swap calls it with the lock of a cluster held.
 */
void zs_free(struct zs_pool *pool, unsigned long handle)
{
	if (IS_ERR_OR_NULL((void *)handle))
		return;
	cells_free(&pool->cells, handle);
	note(pool, false);
}
EXPORT_SYMBOL_GPL(zs_free);

/**
 * zs_free_bulk() - Frees a number of objects.
 * @pool: pool that they were allocated from
 * @handles: their handles, which must be valid: unlike with zs_free(), 0 and errors are not allowed
 * @nr: number of handles, as a rule at most ZS_FREE_BULK_MAX
 *
 * Context: Process context, also under spinlocks or with interrupts off, as when reclaim removes a
 *	    folio from the swap cache; not from interrupts or softirqs.  Neither this nor zs_free()
 *	    calls the slab allocator, whose bulk frees want interrupts on, or turns them on.
 */
void zs_free_bulk(struct zs_pool *pool, unsigned long *handles, unsigned int nr)
{
	cells_free_bulk(&pool->cells, handles, nr);
	note(pool, false);
}
EXPORT_SYMBOL_GPL(zs_free_bulk);

/*
 * Where mem_len bytes of the object are, in one piece or two; it is held, so they stay there.  The
 * caller's mistake, a handle that is not in use, has them nowhere.
 */
static unsigned int hold(struct zs_pool *pool, unsigned long handle, size_t mem_len,
			 struct cells_piece *piece)
{
	if (unlikely(!cells_begin(&pool->cells, handle, piece)))
		piece[0] = (struct cells_piece){ NULL, mem_len };
	if (mem_len <= piece[0].bytes) {
		piece[0].bytes = mem_len;
		return 1;
	}
	piece[1].bytes = mem_len - piece[0].bytes;
	return 2;
}

/**
 * zs_obj_read_begin() - Shows the bytes of an object.
 * @pool: pool that it was allocated from
 * @handle: its handle
 * @mem_len: bytes to show, at most those that it was allocated with
 * @local_copy: room for so many; may be NULL if @mem_len is a page, since such an object is in one
 *
 * Context: As zs_free().  The caller may sleep until zs_obj_read_end().
 * Return: where the bytes are: in the object, or in @local_copy if it lies on two pages.
 */
void *zs_obj_read_begin(struct zs_pool *pool, unsigned long handle, size_t mem_len,
			void *local_copy)
{
	struct cells_piece piece[2];

	if (hold(pool, handle, mem_len, piece) == 1)
		return piece[0].at;
	memcpy(local_copy, piece[0].at, piece[0].bytes);
	memcpy(local_copy + piece[0].bytes, piece[1].at, piece[1].bytes);
	return local_copy;
}
EXPORT_SYMBOL_GPL(zs_obj_read_begin);

/**
 * zs_obj_read_end() - Ends zs_obj_read_begin().
 * @pool: pool of the object
 * @handle: its handle
 * @mem_len: as there
 * @handle_mem: what it returned
 *
 * Context: As zs_free().
 */
void zs_obj_read_end(struct zs_pool *pool, unsigned long handle, size_t mem_len, void *handle_mem)
{
	cells_end(&pool->cells, handle);
}
EXPORT_SYMBOL_GPL(zs_obj_read_end);

/**
 * zs_obj_read_sg_begin() - Shows the bytes of an object as a scatterlist.
 * @pool: pool that it was allocated from
 * @handle: its handle
 * @sg: two entries; filled, and ended after the first if the object lies on one page
 * @mem_len: bytes to show, at most those that it was allocated with
 *
 * Context: As zs_free().  The caller may sleep until zs_obj_read_sg_end().
 */
void zs_obj_read_sg_begin(struct zs_pool *pool, unsigned long handle, struct scatterlist *sg,
			  size_t mem_len)
{
	struct cells_piece piece[2];
	unsigned int n = hold(pool, handle, mem_len, piece), i;

	sg_init_table(sg, n);
	for (i = 0; i < n; i++)
		sg_set_page(&sg[i], virt_to_page(piece[i].at), piece[i].bytes,
			    offset_in_page(piece[i].at));
}
EXPORT_SYMBOL_GPL(zs_obj_read_sg_begin);

/**
 * zs_obj_read_sg_end() - Ends zs_obj_read_sg_begin().
 * @pool: pool of the object
 * @handle: its handle
 *
 * Context: As zs_free().
 */
void zs_obj_read_sg_end(struct zs_pool *pool, unsigned long handle)
{
	cells_end(&pool->cells, handle);
}
EXPORT_SYMBOL_GPL(zs_obj_read_sg_end);

/**
 * zs_obj_write() - Fills an object.
 * @pool: pool that it was allocated from
 * @handle: its handle
 * @handle_mem: the bytes
 * @mem_len: how many, at most those that it was allocated with
 *
 * Context: As zs_free().  Nobody reads the object meanwhile; it may be moved, and is not while this
 *	    writes.
 */
void zs_obj_write(struct zs_pool *pool, unsigned long handle, void *handle_mem, size_t mem_len)
{
	cells_write(&pool->cells, handle, handle_mem, mem_len);
}
EXPORT_SYMBOL_GPL(zs_obj_write);

/**
 * zs_get_total_pages() - Pages that the objects of a pool are on.
 * @pool: the pool
 *
 * What was freed and is held back is not counted: it goes without anybody's doing.  Who asks wants
 * to keep to a limit, so if it is more than a little, it is freed from now on, and not later.  The
 * total may rise when it is freed, by pages that others are on.
 *
 * Context: As zs_free().
 */
unsigned long zs_get_total_pages(struct zs_pool *pool)
{
	u64 pages = cells_pages(&pool->cells), held = cells_held(&pool->cells) >> PAGE_SHIFT;

	if (unlikely(held > pages / KICK_SHARE))
		cells_kick(&pool->cells);
	if (unlikely(held > pages / HELP_SHARE))
		WRITE_ONCE(pool->help, true);
	return pages > held ? pages - held : 0;
}
EXPORT_SYMBOL_GPL(zs_get_total_pages);

/**
 * zs_huge_class_size() - The size from which on an object takes a page for itself.
 * @pool: the pool
 *
 * Context: Any.
 */
size_t zs_huge_class_size(struct zs_pool *pool)
{
	return pool_max_small(&pool->cells.pool) + 1;
}
EXPORT_SYMBOL_GPL(zs_huge_class_size);

/**
 * zs_lookup_class_index() - The number of a size class, as the table in debugfs has it.
 * @pool: the pool
 * @size: bytes of an object, 1 to a page
 *
 * Context: Any.
 * Return: a number that is larger for no smaller size, and the same for sizes of one class.
 */
unsigned int zs_lookup_class_index(struct zs_pool *pool, unsigned int size)
{
	return pool->cells.pool.table.class[cells_class(&pool->cells, size)].index;
}
EXPORT_SYMBOL_GPL(zs_lookup_class_index);

/**
 * zs_compact() - Moves objects together, and frees pages by it.
 * @pool: the pool
 *
 * Context: Process context, may sleep.
 * Return: pages that were freed; 0 if somebody is at it already.
 */
unsigned long zs_compact(struct zs_pool *pool)
{
	unsigned long pages;

	if (host_a64_xchg(&pool->compacting, 1))
		return 0;
	pages = cells_compact(&pool->cells);
	host_a64_set_release(&pool->compacting, 0);
	return pages;
}
EXPORT_SYMBOL_GPL(zs_compact);

/**
 * zs_pool_stats() - Figures of a pool.
 * @pool: the pool
 * @stats: where they go
 *
 * Context: Any.
 */
void zs_pool_stats(struct zs_pool *pool, struct zs_pool_stats *stats)
{
	atomic_long_set(&stats->pages_compacted,
			host_a64_read(&pool->cells.pool.pages_compacted));
}
EXPORT_SYMBOL_GPL(zs_pool_stats);
