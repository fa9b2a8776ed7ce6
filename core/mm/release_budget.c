// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release_budget.c - how much may be held back: the buffers, and who has them (release.h).
 *
 * What pockets cost: no other CPU gets what is in one, a quarter of the limit at most.  When
 * nothing is held back each has a few buffers that are made beside the limit (cpu_bufs), so that
 * short bursts of all CPUs do not meet at the stock's lock at all.
 *
 * Lock order: the budget's lock > the stock's;  queue lock > the stock's.
 */
#include "release.h"

u64 release_default_limit(void)
{
	u64 share = host_total_bytes() / RELEASE_LIMIT_SHARE;
	u64 most = RELEASE_LIMIT_CPU * nr_cpu_ids;

	return share < most ? share : most;
}

int release_budget_init(struct release_budget *b, u64 limit)
{
	unsigned int k;

	b->limit = limit;
	b->node = host_zalloc(nr_node_ids * sizeof(*b->node));
	if (!b->node)
		return -ENOMEM;
	mutex_init(&b->mutex);
	for (k = 0; k < nr_node_ids; k++)
		spin_lock_init(&b->node[k].lock);
	return 0;
}

void release_budget_destroy(struct release_budget *b)
{
	unsigned int k;

	if (!b->node)
		return;
	for (k = 0; k < nr_node_ids; k++)
		WARN_ONCE(b->node[k].cpu_bufs, "a budget ends while it is used\n");
	mutex_destroy(&b->mutex);
	host_free(b->node, nr_node_ids * sizeof(*b->node));
}

static size_t bufs_bytes(u32 n)
{
	return (size_t)n * sizeof(struct release_buf);
}

/* Makes a stock n buffers at least, near node nr.  -ENOMEM. */
static int budget_grow(struct release_stock *stock, unsigned int nr, u32 n)
{
	struct release_buf **empty, **old = stock->empty, *area;
	u32 more, i;

	if (n <= stock->n)
		return 0;
	more = n - stock->n;
	/* The first says how many follow. */
	area = host_zalloc_node(bufs_bytes(more + 1), nr);
	empty = host_zalloc_node(n * sizeof(*empty), nr);
	if (!area || !empty) {
		host_free(area, bufs_bytes(more + 1));
		host_free(empty, n * sizeof(*empty));
		return -ENOMEM;
	}
	area->next = stock->areas;
	area->n = more;
	stock->areas = area;
	/* Older buffers are drawn first, then the new ones from the area's front. */
	for (i = 0; i < more; i++)
		empty[i] = area + more - i;
	spin_lock(&stock->lock);
	if (stock->nempty)
		memcpy(empty + more, old, stock->nempty * sizeof(*empty));
	stock->nempty += more;
	stock->empty = empty;
	spin_unlock(&stock->lock);
	host_free(old, stock->n * sizeof(*old));
	stock->n = n;
	return 0;
}

static void budget_free(struct release_stock *stock)
{
	struct release_buf *area;

	WARN_ONCE(stock->nempty != stock->n, "a buffer is missing\n");
	while ((area = stock->areas)) {
		stock->areas = area->next;
		host_free(area, bufs_bytes(area->n + 1));
	}
	host_free(stock->empty, stock->n * sizeof(*stock->empty));
	stock->empty = NULL;
	stock->n = stock->nempty = 0;
}

/* Buffers of each node for a limit, but no more than all memory or all objects fill. */
static u32 budget_bufs(const struct release *r, u64 limit, u64 objects)
{
	u64 bytes = limit < host_total_bytes() ? limit : host_total_bytes();
	u64 n = bytes / RELEASE_BUF_BYTES, most = objects / (RELEASE_REFS / 4);

	return (u32)(((n < most ? n : most) + r->item_nodes - 1) / r->item_nodes);
}

static u32 budget_of_node(const struct release_node *node, u64 limit)
{
	return node->nitems ? budget_bufs(node->r, limit, node->r->objects) : 0;
}

/* A pocket's part of a quarter of bufs, but most at most. */
static u32 pocket_share(const struct release_node *node, u32 bufs, u32 most)
{
	u32 each = node->nitems ? bufs / (4 * node->nitems) : 0;

	return each < most ? each : most;
}

/* Buffers in a pocket while nothing is held back. */
static u32 pocket_own(const struct release_node *node, u32 bufs)
{
	return pocket_share(node, bufs, RELEASE_POCKET / 4);
}

/* Buffers that a node's CPUs have beyond cpu_bufs. */
static u32 budget_lent(const struct release_node *node)
{
	u32 own = READ_ONCE(node->cpu_bufs), out = READ_ONCE(node->out);

	return out > own ? out - own : 0;
}

/*
 * Gives a node of a store bufs for the limit and, with rings, cpu_bufs: a ring and a pocket for
 * each CPU, which no other store may have.  The stock then has the cpu_bufs of all stores and, for
 * the limits, what all stores ask for together or what the budget allows them, if that is less.
 * -ENOMEM.
 */
static int budget_set_node(struct release_budget *b, struct release_node *node, bool rings,
			   u32 bufs)
	__must_hold(&b->mutex)
{
	struct release_stock *stock = node->stock;
	u32 own = rings ? node->nitems * (1 + pocket_own(node, bufs)) : 0;
	u32 pocket = pocket_share(node, bufs, RELEASE_POCKET);
	u64 sum = stock->sum - node->limit_bufs + bufs;
	u64 all = budget_bufs(node->r, b->limit, ~(u64)0);
	u32 most, lent;
	int err;

	all = sum < all ? sum : all;
	/* With an older limit more may be out than the new one allows, and comes back later. */
	most = READ_ONCE(stock->lent);
	most = most > stock->limit_bufs ? most : stock->limit_bufs;
	most = most > all ? most : (u32)all;
	err = budget_grow(stock, node->nr, stock->cpu_bufs - node->cpu_bufs + own + most);
	if (err)
		return err;
	spin_lock(&stock->lock);
	lent = stock->lent - budget_lent(node);
	stock->cpu_bufs += own - node->cpu_bufs;
	WRITE_ONCE(node->cpu_bufs, own);
	WRITE_ONCE(node->limit_bufs, bufs);
	WRITE_ONCE(node->pocket, pocket ? pocket : 1);
	WRITE_ONCE(stock->lent, lent + budget_lent(node));
	WRITE_ONCE(stock->limit_bufs, (u32)all);
	spin_unlock(&stock->lock);
	stock->sum = sum;
	return 0;
}

u32 release_budget_room(const struct release_node *node)
{
	const struct release_stock *stock = node->stock;
	u32 own = READ_ONCE(node->cpu_bufs), out = READ_ONCE(node->out);
	u32 lent = budget_lent(node), bufs = READ_ONCE(node->limit_bufs);
	u32 all_lent = READ_ONCE(stock->lent), all = READ_ONCE(stock->limit_bufs);

	bufs = bufs > lent ? bufs - lent : 0;
	all = all > all_lent ? all - all_lent : 0;
	return (own > out ? own - out : 0) + (bufs < all ? bufs : all);
}

/* Counts n buffers out of the stock; of n that come back, -n modulo 2^32. */
static void budget_take(struct release_stock *stock, struct release_node *node, u32 n)
	__must_hold(&stock->lock)
{
	u32 lent = budget_lent(node);

	host_assert((int)(stock->nempty - n) >= 0 && (int)(node->out + n) >= 0);
	stock->nempty -= n;
	WRITE_ONCE(node->out, node->out + n);
	WRITE_ONCE(stock->lent, stock->lent - lent + budget_lent(node));
}

/* Gives back what a pocket has over n buffers, or draws up to n, as many as there are. */
static void pocket_set(struct release_cpu *rc, u32 n) __must_hold(&rc->queue.lock)
{
	struct release_stock *stock = rc->node->stock;
	struct release_queue *q = &rc->queue;
	u32 more, was = q->nempty;

	spin_lock(&stock->lock);
	if (n > was) {
		more = release_budget_room(rc->node);
		more = n - was < more ? n - was : more;
		n = was + more;
		memcpy(q->empty + was, stock->empty + stock->nempty - more,
		       more * sizeof(*q->empty));
	} else {
		memcpy(stock->empty + stock->nempty, q->empty + n, (was - n) * sizeof(*q->empty));
	}
	budget_take(stock, rc->node, n - was);
	spin_unlock(&stock->lock);
	WRITE_ONCE(q->nempty, n);
}

bool release_budget_draw(struct release_cpu *rc, bool *kick)
{
	struct release_node *node = rc->node;

	pocket_set(rc, READ_ONCE(node->pocket));
	*kick = release_budget_room(node) < READ_ONCE(node->limit_bufs) / 2;
	return rc->queue.nempty != 0;
}

void release_budget_give(struct release_node *node, struct release_buf **buf, u32 n)
{
	struct release_stock *stock = node->stock;

	spin_lock(&stock->lock);
	memcpy(stock->empty + stock->nempty, buf, n * sizeof(*buf));
	budget_take(stock, node, (u32)0 - n);
	spin_unlock(&stock->lock);
}

static void pocket_set_all(struct release_node *node, u32 n)
{
	unsigned int i;

	for (i = 0; i < node->nitems; i++) {
		struct release_cpu *rc = node->item[i];

		if (READ_ONCE(rc->queue.nempty) == n)
			continue;
		spin_lock(&rc->queue.lock);
		pocket_set(rc, n);
		spin_unlock(&rc->queue.lock);
	}
}

void release_fill_pockets(struct release_node *node)
{
	pocket_set_all(node, pocket_own(node, READ_ONCE(node->limit_bufs)));
}

int release_budget_set(struct release *r, u64 limit)
{
	struct release_budget *b = r->budget;
	u64 was = r->limit, of_all;
	unsigned int k;
	int err = 0;

	mutex_lock(&b->mutex);
	of_all = b->limit;
	if (limit > of_all)
		b->limit = limit;
	for (k = 0; k < nr_node_ids && !err; k++)
		err = budget_set_node(b, &r->node[k], true, budget_of_node(&r->node[k], limit));
	if (err) {
		b->limit = of_all;
		while (k--)
			budget_set_node(b, &r->node[k], true, budget_of_node(&r->node[k], was));
	}
	mutex_unlock(&b->mutex);
	for (k = 0; k < nr_node_ids && !err; k++)
		release_fill_pockets(&r->node[k]);
	return err;
}

int release_budget_join(struct release *r)
{
	struct release_budget *b = r->budget;
	unsigned int k, i;
	int err = 0;

	mutex_lock(&b->mutex);
	for (k = 0; k < nr_node_ids && !err; k++) {
		r->node[k].stock = &b->node[k];
		err = budget_set_node(b, &r->node[k], true, 0);
	}
	mutex_unlock(&b->mutex);
	for (i = 0; i < r->items && !err; i++) {
		struct release_cpu *rc = r->item[i];

		spin_lock(&rc->queue.lock);
		pocket_set(rc, 1);
		rc->queue.nempty = 0;
		spin_unlock(&rc->queue.lock);
		rc->buf = rc->queue.empty[0];
		/* It may be that of another store. */
		rc->buf->era = 0;
	}
	return err;
}

void release_budget_leave(struct release *r)
{
	struct release_budget *b = r->budget;
	unsigned int k, i;

	for (k = 0; k < nr_node_ids; k++)
		pocket_set_all(&r->node[k], 0);
	for (i = 0; i < r->items; i++)
		if (r->item[i]->buf)
			release_budget_give(r->item[i]->node, &r->item[i]->buf, 1);
	mutex_lock(&b->mutex);
	for (k = 0; k < nr_node_ids; k++) {
		struct release_node *node = &r->node[k];

		/* release_init() may have failed before it joined. */
		if (!node->stock)
			continue;
		WARN_ONCE(node->out, "a store ends that holds something back\n");
		budget_set_node(b, node, false, 0);
		if (!node->stock->cpu_bufs)
			budget_free(node->stock);
	}
	mutex_unlock(&b->mutex);
}
