// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release_budget.c - how much may be held back: buffers and bytes, and who has them.
 *
 *                  batch of buffers, bytes by the grain
 *     CPU's queue  <-- release_provide() -----  node: pool, common
 *      stock, grain  -- release_give_back() -->
 *
 * Each queue begins with a stock of empty buffers and may hold a grain of bytes for nothing, so
 * CPUs that free at the same time meet at their node's lock once in several buffers.  The price is
 * that nobody gets what another CPU has and does not use: grains are an eighth of the budget, and
 * the buffers of stocks are there in addition.
 *
 * Lock order: flushing > queue lock > node lock.
 */
#include "release.h"

u64 release_default_limit(void)
{
	u64 share = host_total_bytes() / RELEASE_LIMIT_SHARE;
	u64 most = RELEASE_LIMIT_CPU * host_nr_cpus();

	return share < most ? share : most;
}

int release_budget_init(struct release_budget *b, u64 limit)
{
	b->limit = limit;
	host_lock_init(&b->lock, "ebb_release_budget");
	b->nodes = host_nr_nodes();
	b->share = host_zalloc(b->nodes * sizeof(*b->share));
	return b->share ? 0 : -ENOMEM;
}

void release_budget_destroy(struct release_budget *b)
{
	unsigned int i;

	for (i = 0; i < b->nodes; i++)
		host_warn_on(host_a64_read(&b->share[i].reserved) ||
			     host_a64_read(&b->share[i].claimed), "a budget ends while it is used");
	host_free(b->share, b->nodes * sizeof(*b->share));
}

/*
 * Buffers
 */

/* Buffers for the budget: as many as it takes with objects of 1 KiB, or all there can be. */
static u32 spare_for(const struct release *r, u64 limit)
{
	u64 bytes = limit < host_total_bytes() ? limit : host_total_bytes();
	u64 n = bytes / (RELEASE_REFS * (u64)1024), most = r->objects / RELEASE_REFS;

	return (u32)(n < most ? n : most);
}

/* Those of one node's pool. */
static u32 pool_of(const struct release *r, const struct release_node *node, u64 limit)
{
	return node->nitems ? (spare_for(r, limit) + r->homes - 1) / r->homes : 0;
}

/* And beside them each CPU has a stock: a quarter more in all, or four if there are as many. */
static u32 stock_of(const struct release_node *node, u32 pool)
{
	u32 each = node->nitems ? pool / node->nitems : 0, least = each < 4 ? each : 4;

	each = each / 4 < RELEASE_STOCK ? each / 4 : RELEASE_STOCK;
	return each > least ? each : least;
}

u32 release_spare_of(const struct release *r, const struct release_node *node, u64 limit)
{
	u32 pool = pool_of(r, node, limit);

	return pool + node->nitems * stock_of(node, pool);
}

void release_bufs_free(struct release_buf *list)
{
	struct release_buf *b;

	while ((b = release_buf_pop(&list))) {
		host_free(b, sizeof(*b));
		host_resched();
	}
}

int release_bufs_alloc(struct release_buf **list, u64 n, unsigned int node)
{
	while (n--) {
		struct release_buf *b = NULL;

		if (!host_interrupted())
			b = host_zalloc_node(sizeof(*b), node);
		if (!b)
			return host_interrupted() ? -EINTR : -ENOMEM;
		release_buf_push(list, b);
		host_resched();
	}
	return 0;
}

/* The first n buffers of a list, which has as many. */
static struct release_buf *release_cut(struct release_buf **list, u32 n)
{
	struct release_buf *first = *list, **at = list;

	while (n--)
		at = &(*at)->next;
	*list = *at;
	*at = NULL;
	return first;
}

static void stock_put(struct release_node *node, struct release_buf *first, u32 n)
	HOST_REQUIRES(node->lock)
{
	first->batch = node->pool;
	first->count = n;
	node->pool = first;
	host_write_once(node->nempty, node->nempty + n);
}

/* A batch; *n: its buffers. */
static struct release_buf *stock_get(struct release_node *node, u32 *n) HOST_REQUIRES(node->lock)
{
	struct release_buf *first = node->pool;

	*n = first->count;
	node->pool = first->batch;
	host_write_once(node->nempty, node->nempty - *n);
	return first;
}

/*
 * The budget
 */

void release_budget_raise(struct release_budget *b, u64 bytes)
{
	host_lock(&b->lock);
	if (bytes > b->limit)
		host_write_once(b->limit, bytes);
	host_unlock(&b->lock);
}

/*
 * Raises what the node has of the budget of all stores for grains to want, or to half of what the
 * other stores left: the same however often it is asked for.
 */
static void budget_reserve(struct release_node *node, u64 want)
{
	struct release_budget *b = node->r->budget;
	u64 own = node->reserved, most, others, all;

	if (b) {
		host_a64 *reserved = &b->share[node->nr].reserved;

		most = host_read_once(b->limit) / node->r->homes / 4;
		others = host_a64_read(reserved) - own;
		if (want > (most > others ? (most - others) / 2 : 0))
			want = most > others ? (most - others) / 2 : 0;
		if (want <= own)
			return;
		all = host_a64_add(reserved, want - own);
		/* Others came in between. */
		if (all > most) {
			others = all - most < want - own ? all - most : want - own;
			host_a64_add(reserved, (u64)0 - others);
			want -= others;
		}
	}
	if (want > own)
		node->reserved = want;
}

/* Gives back what the grains no longer take. */
static void budget_unreserve(struct release_node *node)
{
	u64 less = node->reserved - node->nitems * node->grain;

	node->reserved -= less;
	if (less && node->r->budget)
		host_a64_add(&node->r->budget->share[node->nr].reserved, (u64)0 - less);
}

/* An eighth of the node's limit. */
static void set_grain(struct release *r, struct release_node *node)
{
	u64 each = r->node_limit / 8 / node->nitems, want;

	want = (each < RELEASE_GRAIN ? each : RELEASE_GRAIN) * node->nitems;
	if (want > node->reserved)
		budget_reserve(node, want);
	want = want < node->reserved ? want : node->reserved;
	host_write_once(node->grain, want / node->nitems);
	host_write_once(node->common, r->node_limit - want / node->nitems * node->nitems);
}

void release_set_limits(struct release *r, u64 bytes)
{
	u64 share = bytes / (2 * host_nr_cpus());
	unsigned int k;

	host_write_once(r->limit, bytes);
	host_write_once(r->node_limit, bytes / r->homes);
	host_write_once(r->buf_bytes, share ? share : 1);
	if (r->budget)
		release_budget_raise(r->budget, bytes);
	for (k = 0; k < r->nodes; k++)
		if (r->node[k].nitems)
			set_grain(r, &r->node[k]);
}

/* Adjusts the buffers of a queue to the node's stock, as far as *list and want allow. */
static void set_stock(struct release_node *node, struct release_queue *q, u32 want,
		      struct release_buf **list)
{
	host_lock(&q->lock);
	while (q->nempty < node->stock && node->spare < want && *list) {
		release_buf_push(&q->empty, release_buf_pop(list));
		host_write_once(q->nempty, q->nempty + 1);
		host_write_once(node->spare, node->spare + 1);
	}
	while (q->nempty > node->stock && node->spare > want) {
		release_buf_push(list, release_buf_pop(&q->empty));
		host_write_once(q->nempty, q->nempty - 1);
		host_write_once(node->spare, node->spare - 1);
	}
	host_unlock(&q->lock);
}

void release_set_spare(struct release *r, struct release_node *node, u64 limit,
		       struct release_buf **list)
{
	u32 want = release_spare_of(r, node, limit), n = 1, i;
	struct release_buf *first;

	host_write_once(node->stock, stock_of(node, pool_of(r, node, limit)));
	host_write_once(node->batch, node->stock > 2 ? node->stock / 2 : 1);
	for (i = 0; i < node->nitems; i++) {
		set_stock(node, &node->queue[i], want, list);
		host_resched();
	}
	while (node->spare < want && *list) {
		for (n = 1, first = *list;
		     n < node->batch && node->spare + n < want && first->next; n++)
			first = first->next;
		first = release_cut(list, n);
		host_lock(&node->lock);
		stock_put(node, first, n);
		host_unlock(&node->lock);
		host_write_once(node->spare, node->spare + n);
		host_resched();
	}
	while (node->spare > want) {
		host_lock(&node->lock);
		first = node->pool ? stock_get(node, &n) : NULL;
		if (first && n > node->spare - want) {
			struct release_buf *rest = first;

			first = release_cut(&rest, node->spare - want);
			stock_put(node, rest, n - (node->spare - want));
			n = node->spare - want;
		}
		host_unlock(&node->lock);
		if (!first)
			break;
		host_write_once(node->spare, node->spare - n);
		while (first)
			release_buf_push(list, release_buf_pop(&first));
		host_resched();
	}
}

int release_set_limit(struct release *r, u64 bytes)
{
	struct release_buf *list = NULL;
	unsigned int k;
	int err = 0;

	/* Unlocked, for an allocation may want memory back. */
	for (k = 0; k < r->nodes && !err; k++) {
		u32 want = release_spare_of(r, &r->node[k], bytes);
		u32 have = host_read_once(r->node[k].spare);

		err = release_bufs_alloc(&list, want > have ? want - have : 0, k);
	}
	if (err)
		goto out;

	host_mutex_lock(&r->flushing);
	if (bytes < r->limit) {
		release_set_limits(r, bytes);
		/* Who pushed by the old limit is found by the flush. */
		host_settle(r->cpus);
		host_a64_add(&r->flush_asked, 1);
		release_flush_locked(r);
		for (k = 0; k < r->nodes; k++)
			budget_unreserve(&r->node[k]);
	} else {
		release_set_limits(r, bytes);
	}
	/* The last node's were made last, and are first in the list. */
	for (k = r->nodes; k--;)
		release_set_spare(r, &r->node[k], bytes, &list);
	/* Who takes from a CPU may still read in a buffer that was the CPU's. */
	if (list)
		release_wait_inflight(r);
	host_mutex_unlock(&r->flushing);
out:
	release_bufs_free(list);
	return err;
}

HOST_NO_ANALYSIS
void release_budget_end(struct release_node *node)
{
	unsigned int i;
	u32 n;

	for (i = 0; node->queue && i < node->nitems; i++)
		release_bufs_free(node->queue[i].empty);
	while (node->pool)
		release_bufs_free(stock_get(node, &n));
	node->grain = 0;
	budget_unreserve(node);
	host_free(node->queue, node->nitems * sizeof(*node->queue));
}

/*
 * A queue and its node
 */

/* What a queue with so many bytes claims of the node. */
static u64 claim_for(const struct release_node *node, u64 bytes)
{
	u64 grain = host_read_once(node->grain);

	bytes = bytes > grain ? bytes - grain : 0;
	return grain ? (bytes + grain - 1) / grain * grain : bytes;
}

static u64 more_for(const struct release_queue *q, u64 bytes)
{
	u64 claim = claim_for(q->node, host_read_once(q->queued) + bytes);
	u64 has = host_read_once(q->claim);

	return claim > has ? claim - has : 0;
}

bool release_fits(const struct release_queue *q, u64 bytes)
{
	const struct release_node *node = q->node;
	u64 more = more_for(q, bytes);

	return (host_read_once(q->nempty) || host_read_once(node->nempty)) &&
	       (!more || host_read_once(node->claimed) + more <= host_read_once(node->common));
}

/* So much more of what all stores may hold back beside grains.  False: too much. */
static bool claim_of_all(struct release_node *node, u64 more)
{
	struct release_budget *b = node->r->budget;
	host_a64 *claimed;
	u64 most;

	if (!b || !more)
		return true;
	claimed = &b->share[node->nr].claimed;
	most = host_read_once(b->limit) / node->r->homes;
	if (host_a64_read(claimed) + more > most - most / 4)
		return false;
	if (host_a64_add(claimed, more) <= most - most / 4)
		return true;
	host_a64_add(claimed, (u64)0 - more);
	return false;
}

bool release_provide(struct release_queue *q, u64 bytes, bool *kick)
{
	struct release_node *node = q->node;
	u64 more = more_for(q, bytes);
	bool empty = !q->empty, done;
	u32 n;

	if (!release_fits(q, bytes))
		return false;
	if (!more && !empty)
		return true;
	host_lock(&node->lock);
	done = release_fits(q, bytes) && claim_of_all(node, more);
	if (done) {
		host_write_once(node->claimed, node->claimed + more);
		host_write_once(q->claim, q->claim + more);
		if (empty) {
			q->empty = stock_get(node, &n);
			host_write_once(q->nempty, n);
		}
		*kick = node->claimed > host_read_once(node->common) / 2 ||
			(empty && node->nempty < (host_read_once(node->spare) -
						  node->nitems * host_read_once(node->stock)) / 2);
	}
	host_unlock(&node->lock);
	return done;
}

/* With some play, so that not each buffer that comes or goes has to do with the node. */
void release_trim(struct release_queue *q)
{
	struct release_node *node = q->node;
	struct release_buf *first = NULL;
	u64 keep = claim_for(node, q->queued), back = 0;
	u32 n = host_read_once(node->batch);

	if (q->claim > keep + host_read_once(node->grain) || !q->queued)
		back = q->claim - keep;
	if (q->nempty >= host_read_once(node->stock) + n) {
		first = release_cut(&q->empty, n);
		host_write_once(q->nempty, q->nempty - n);
	}
	if (!back && !first)
		return;
	host_write_once(q->claim, q->claim - back);
	host_lock(&node->lock);
	host_write_once(node->claimed, node->claimed - back);
	if (first)
		stock_put(node, first, n);
	host_unlock(&node->lock);
	if (node->r->budget && back)
		host_a64_add(&node->r->budget->share[node->nr].claimed, (u64)0 - back);
}

void release_give_back(struct release_queue *q, struct release_buf *b)
{
	host_write_once(q->queued, q->queued - b->bytes);
	release_buf_push(&q->empty, b);
	host_write_once(q->nempty, q->nempty + 1);
	release_trim(q);
}
