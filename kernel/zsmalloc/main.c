// SPDX-License-Identifier: GPL-2.0-only
/*
 * main.c - pools made and unmade; what all of them share.
 *
 * Owns the list of pools (pools_lock) and the budget of what they hold back together.  Nothing here
 * is on a path that reclaim takes: pools come and go in process context, and the lock may be held
 * over allocations.
 */
#define pr_fmt(fmt) "zsmalloc: " fmt
#include "zspool.h"

#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

/* Pages that a CPU's list moves at once, and holds at most: 32 and 64 of 4 KiB. */
#define PCP_BATCH (SZ_128K >> PAGE_SHIFT)
#define PCP_HIGH (SZ_256K >> PAGE_SHIFT)

/*
 * What all pools may hold back, beside the CPUs' own buffers, is 1/200 of memory.  zswap stops
 * taking pages at 20 % of memory, and writes some out until it is at 18 %: a quarter of the
 * difference is little enough for it not to see what is held back and what is not.  Of the memory
 * at boot: what is added later, or taken away, does not change it.
 */
#define BUDGET_SHARE 200

/*
 * The reserve where pages of objects move: what PCP_TAKE has beside these, and a page of cells for
 * each 510 of them.  Pages that move need none.  Reclaim frees such pages, and so has some for who
 * stores at that moment; a reserve of them would have to be moved, too.
 */
#define RESERVE_FIXED (19 + 24 + 2)

static DEFINE_MUTEX(pools_lock);
static LIST_HEAD(pools);                /* pools_lock */
static struct release_budget budget;
static bool ready;                      /* zs_init() is over; nobody writes it later */

/* pools_lock, but before ready */
static bool deferred_free = IS_ENABLED(CONFIG_ZSMALLOC_DEFERRED_FREE);

static u64 limit(void)
{
	return deferred_free ? READ_ONCE(budget.limit) : 0;
}

/* The page lists, ten times a second while they are used, and at once when the reserve is short. */
static void tend(struct host_work *w)
{
	struct zs_pool *pool = container_of(w, struct zs_pool, tend);
	bool aged, aged_too, again = pcp_tend(&pool->pcp, &aged);

	again |= pcp_tend(&pool->movable_pcp, &aged_too);
	WRITE_ONCE(pool->dry, pcp_is_short(&pool->pcp));
	if (again)
		host_work_queue_delayed(w, PCP_PERIOD_US);
	if (aged || aged_too)
		shrink_look(&pool->shrink);
	if (zspage_table_wants(&pool->cells.pool.zspages))
		host_work_queue(&pool->grow);
}

/* May wait for memory, as nobody waits for it who frees some. */
static void grow(struct host_work *w)
{
	struct zs_pool *pool = container_of(w, struct zs_pool, grow);

	zspage_table_provide(&pool->cells.pool.zspages);
}

/* pools_lock is held. */
static int start(struct zs_pool *pool)
{
	struct cells_config cfg = {
		.chain = CONFIG_ZSMALLOC_EBB_CHAIN_SIZE,
		.release_limit = limit(),
		.release_budget = &budget,
		.most = CELLS_MOST,     /* memory may be added while the pool is there */
		.movable = IS_ENABLED(CONFIG_COMPACTION) ? &pool->movable_pcp : NULL,
		.tag = zs_tag,
	};
	unsigned int cpus = num_present_cpus();
	unsigned int reserve = cfg.movable ? RESERVE_FIXED + 2 * cpus :
					     pcp_reserve_for(host_total_bytes(), cpus);
	int err;

	/* Of a caller who may wait: swap is written by it, so it must not wait for I/O. */
	pool->pages.gfp = pool->movable.gfp = GFP_NOIO | __GFP_NOWARN;
	zs_movable_init(pool);
	err = pcp_init(&pool->pcp, &pool->pages, PCP_BATCH, PCP_HIGH, reserve);
	if (err)
		goto no_pcp;
	err = pcp_init(&pool->movable_pcp, &pool->movable, PCP_BATCH, PCP_HIGH, 0);
	if (err)
		goto no_movable;
	err = host_work_init(&pool->tend, tend, numa_node_id());
	if (err)
		goto no_tend;
	err = host_work_init_slow(&pool->grow, grow, numa_node_id());
	if (err)
		goto no_grow;
	err = host_work_init_slow(&pool->rest, zs_shrink_rest, numa_node_id());
	if (err)
		goto no_rest;
	err = cells_init(&pool->cells, &pool->pcp, &cfg);
	if (err)
		goto no_cells;
	zs_shrink_init(pool);
	return 0;

no_cells:
	host_work_destroy(&pool->rest);
no_rest:
	host_work_destroy(&pool->grow);
no_grow:
	host_work_destroy(&pool->tend);
no_tend:
	pcp_destroy(&pool->movable_pcp);
no_movable:
	pcp_destroy(&pool->pcp);
no_pcp:
	zs_movable_stop(pool);
	return err;
}

static void stop(struct zs_pool *pool)
{
	host_work_destroy(&pool->tend);
	host_work_destroy(&pool->grow);
	shrink_end(&pool->shrink);
	host_work_destroy(&pool->rest);
	zs_movable_stop(pool);
	cells_destroy(&pool->cells);
	pcp_destroy(&pool->movable_pcp);
	pcp_destroy(&pool->pcp);
}

/**
 * zs_create_pool() - Makes a pool.
 * @name: what its shrinker and its folder in debugfs are called; copied
 *
 * Context: Process context, may sleep; not from reclaim.
 * Return: the pool, or NULL if memory is short, or was when the kernel started.
 */
struct zs_pool *zs_create_pool(const char *name)
{
	struct zs_pool *pool = ready ? host_zalloc(sizeof(*pool)) : NULL;
	int err;

	if (!pool)
		return NULL;
	pool->name = kstrdup(name, GFP_KERNEL);
	if (!pool->name)
		goto no_name;
	mutex_lock(&pools_lock);
	err = start(pool);
	if (!err)
		list_add(&pool->all, &pools);
	mutex_unlock(&pools_lock);
	if (err)
		goto no_start;
	zs_stat_add(pool);
	zs_shrinker_add(pool);
	return pool;

no_start:
	synchronize_rcu();
	kfree(pool->name);
no_name:
	host_free(pool, sizeof(*pool));
	return NULL;
}
EXPORT_SYMBOL_GPL(zs_create_pool);

/* Whoever ends a pool with objects in it has lost their handles.  What is held back was freed. */
static void tell_leaks(struct zs_pool *pool)
{
	u64 left = cells_objects(&pool->cells);

	if (left)
		pr_err("pool %s ends with %llu objects in use\n", pool->name, left);
}

/**
 * zs_destroy_pool() - Ends a pool.
 * @pool: nobody uses it any more; objects that are still there are freed, and the log says so
 *
 * Context: Process context, may sleep.
 */
void zs_destroy_pool(struct zs_pool *pool)
{
	if (!pool)
		return;
	zs_shrinker_remove(pool);
	zs_stat_remove(pool);
	mutex_lock(&pools_lock);
	list_del(&pool->all);
	mutex_unlock(&pools_lock);
	tell_leaks(pool);
	stop(pool);
	/* Who read in a page whose it was, before that was taken away (migrate.c). */
	synchronize_rcu();
	kfree(pool->name);
	host_free(pool, sizeof(*pool));
}
EXPORT_SYMBOL_GPL(zs_destroy_pool);

/*
 * Whether frees are deferred, for all pools.  A pool that gets no buffers stays as it was, and the
 * error says so; writing it again tries again.  If the parameter stands alone on the command line,
 * word is NULL, and frees are deferred.
 */
static int set_deferred_free(const char *word, const struct kernel_param *kp)
{
	struct zs_pool *pool;
	bool on;
	int err = kstrtobool(word ? word : "1", &on), one;

	if (err)
		return err;
	if (!ready) {
		deferred_free = on;
		return 0;
	}
	mutex_lock(&pools_lock);
	deferred_free = on;
	list_for_each_entry(pool, &pools, all) {
		one = release_set_limit(&pool->cells.release, limit());
		err = err ? err : one;
	}
	mutex_unlock(&pools_lock);
	return err;
}

static const struct kernel_param_ops deferred_free_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = set_deferred_free,
	.get = param_get_bool,
};
module_param_cb(deferred_free, &deferred_free_ops, &deferred_free, 0644);
MODULE_PARM_DESC(deferred_free, "Free objects in batches, a little later");

static int __init zs_init(void)
{
	u64 bytes = min(host_total_bytes() / BUDGET_SHARE, release_default_limit());
	int err = host_kernel_init("zsmalloc");

	if (err)
		return err;
	err = release_budget_init(&budget, bytes);
	if (err)
		goto no_budget;
	err = zs_mops_init();
	if (err)
		goto no_mops;
	zs_stat_init();
	ready = true;
	return 0;

no_mops:
	release_budget_destroy(&budget);
no_budget:
	host_kernel_exit();
	return err;
}

static void __exit zs_exit(void)
{
	zs_stat_exit();
	zs_mops_exit();
	release_budget_destroy(&budget);
	host_kernel_exit();
}

/* Before whoever makes pools, wherever they are linked; in a module this is module_init(). */
subsys_initcall(zs_init);
module_exit(zs_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The Ebb project");
MODULE_DESCRIPTION("Allocator for compressed pages with deferred frees (Ebb)");
