// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release_budget.c - how much may be held back: the buffers, and who has them.
 *
 *     areas --> empty[] --release_budget_draw()--> a CPU's pocket --> its ring, its queue
 *                  ^                                                          |
 *                  +---release_budget_give()------ who frees what is in them -+
 *
 * A CPU draws some at a time, so CPUs that free at the same time meet at the lock of their node
 * once in several buffers.  The price is that nobody gets what is in another's pocket: a quarter of
 * the budget at most, until nothing is held back.  Then each pocket has a few buffers, which are
 * there beside the budget: so short bursts of all CPUs do not meet at all.
 *
 * Lock order: the budget's lock > the home's;  queue lock > the home's.
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
	unsigned int k;

	b->limit = limit;
	b->nodes = host_nr_nodes();
	b->node = host_zalloc(b->nodes * sizeof(*b->node));
	if (!b->node)
		return -ENOMEM;
	host_mutex_init(&b->lock);
	for (k = 0; k < b->nodes; k++)
		host_lock_init(&b->node[k].lock, "ebb_release_node");
	return 0;
}

void release_budget_destroy(struct release_budget *b)
{
	unsigned int k;

	if (!b->node)
		return;
	for (k = 0; k < b->nodes; k++)
		host_warn_on(b->node[k].own, "a budget ends while it is used");
	host_mutex_destroy(&b->lock);
	host_free(b->node, b->nodes * sizeof(*b->node));
}

static size_t bufs_bytes(u32 n)
{
	return (size_t)n * sizeof(struct release_buf);
}

/* Makes it n buffers at least, near node nr. */
static int budget_grow(struct release_home *home, unsigned int nr, u32 n)
{
	struct release_buf **empty, **old = home->empty, *area;
	u32 more, i;

	if (n <= home->n)
		return 0;
	more = n - home->n;
	/* The first tells of the others. */
	area = host_zalloc_node(bufs_bytes(more + 1), nr);
	empty = host_zalloc_node(n * sizeof(*empty), nr);
	if (!area || !empty) {
		host_free(area, bufs_bytes(more + 1));
		host_free(empty, n * sizeof(*empty));
		return -ENOMEM;
	}
	area->next = home->areas;
	area->n = more;
	home->areas = area;
	host_lock(&home->lock);
	/* Those that were in use before are drawn first, and then from the area's front. */
	for (i = 0; i < more; i++)
		empty[i] = area + more - i;
	if (home->nempty)
		memcpy(empty + more, old, home->nempty * sizeof(*empty));
	home->nempty += more;
	home->empty = empty;
	host_unlock(&home->lock);
	host_free(old, home->n * sizeof(*old));
	home->n = n;
	return 0;
}

static void budget_free(struct release_home *home)
{
	struct release_buf *area;

	host_warn_on(home->nempty != home->n, "a buffer is missing");
	while ((area = home->areas)) {
		home->areas = area->next;
		host_free(area, bufs_bytes(area->n + 1));
	}
	host_free(home->empty, home->n * sizeof(*home->empty));
	home->empty = NULL;
	home->n = home->nempty = 0;
}

/* Buffers of each node for a limit: no more than all memory takes, or all objects, as raw pages. */
static u32 budget_bufs(const struct release *r, u64 limit, u64 objects)
{
	u64 bytes = limit < host_total_bytes() ? limit : host_total_bytes();
	u64 n = bytes / RELEASE_BUF_BYTES, most = objects / (RELEASE_REFS / 4);

	return (u32)(((n < most ? n : most) + r->homes - 1) / r->homes);
}

static u32 budget_of_node(const struct release_node *node, u64 limit)
{
	return node->nitems ? budget_bufs(node->r, limit, node->r->objects) : 0;
}

/* What a CPU's pocket has of a quarter of bufs, but most at most. */
static u32 pocket_share(const struct release_node *node, u32 bufs, u32 most)
{
	u32 each = node->nitems ? bufs / (4 * node->nitems) : 0;

	return each < most ? each : most;
}

/* Buffers of a pocket while nothing is held back. */
static u32 pocket_own(const struct release_node *node, u32 bufs)
{
	return pocket_share(node, bufs, RELEASE_POCKET / 4);
}

/* Buffers that a node's CPUs have past their own. */
static u32 budget_lent(const struct release_node *node)
{
	u32 own = host_read_once(node->own), out = host_read_once(node->out);

	return out > own ? out - own : 0;
}

/* Buffers for the CPUs' rings and pockets, or none, and so many beside them. */
static int budget_set_node(struct release_budget *b, struct release_node *node, bool rings,
			   u32 bufs)
	HOST_REQUIRES(b->lock)
{
	struct release_home *home = node->home;
	u32 own = rings ? node->nitems * (1 + pocket_own(node, bufs)) : 0;
	u32 pocket = pocket_share(node, bufs, RELEASE_POCKET);
	u64 sum = home->sum - node->bufs + bufs, all = budget_bufs(node->r, b->limit, ~(u64)0);
	u32 most, lent;
	int err;

	all = sum < all ? sum : all;
	/* By an older limit more may be out than by the new one, but no more than this later. */
	most = host_read_once(home->lent);
	most = most > home->bufs ? most : home->bufs;
	most = most > all ? most : (u32)all;
	err = budget_grow(home, node->nr, home->own - node->own + own + most);
	if (err)
		return err;
	host_lock(&home->lock);
	lent = home->lent - budget_lent(node);
	home->own += own - node->own;
	host_write_once(node->own, own);
	host_write_once(node->bufs, bufs);
	host_write_once(node->pocket, pocket ? pocket : 1);
	host_write_once(home->lent, lent + budget_lent(node));
	host_write_once(home->bufs, (u32)all);
	host_unlock(&home->lock);
	home->sum = sum;
	return 0;
}

/*
 * Buffers that a node's CPUs may still have: what is left of their own, and of what the limits of
 * the store and of all leave.  Nobody gets what is another's own.
 */
static u32 budget_room(const struct release_node *node)
{
	const struct release_home *home = node->home;
	u32 own = host_read_once(node->own), out = host_read_once(node->out);
	u32 lent = budget_lent(node), bufs = host_read_once(node->bufs);
	u32 all_lent = host_read_once(home->lent), all = host_read_once(home->bufs);

	bufs = bufs > lent ? bufs - lent : 0;
	all = all > all_lent ? all - all_lent : 0;
	return (own > out ? own - out : 0) + (bufs < all ? bufs : all);
}

/* n less are empty; it may be negative, modulo 2^32. */
static void budget_take(struct release_home *home, struct release_node *node, u32 n)
	HOST_REQUIRES(home->lock)
{
	u32 lent = budget_lent(node);

	host_assert((int)(home->nempty - n) >= 0 && (int)(node->out + n) >= 0);
	home->nempty -= n;
	host_write_once(node->out, node->out + n);
	host_write_once(home->lent, home->lent - lent + budget_lent(node));
}

/* Gives back what a CPU's pocket has over n buffers, or draws: it may be fewer, or none. */
static void pocket_set(struct release_cpu *rc, u32 n) HOST_REQUIRES(rc->queue.lock)
{
	struct release_home *home = rc->node->home;
	struct release_queue *q = &rc->queue;
	u32 more, was = q->nempty;

	host_lock(&home->lock);
	if (n > was) {
		more = budget_room(rc->node);
		more = n - was < more ? n - was : more;
		n = was + more;
		memcpy(q->empty + was, home->empty + home->nempty - more, more * sizeof(*q->empty));
	} else {
		memcpy(home->empty + home->nempty, q->empty + n, (was - n) * sizeof(*q->empty));
	}
	budget_take(home, rc->node, n - was);
	host_unlock(&home->lock);
	host_write_once(q->nempty, n);
}

bool release_budget_has(const struct release_node *node)
{
	return budget_room(node) != 0;
}

bool release_budget_draw(struct release_cpu *rc, bool *kick)
{
	struct release_node *node = rc->node;

	pocket_set(rc, host_read_once(node->pocket));
	*kick = budget_room(node) < host_read_once(node->bufs) / 2;
	return rc->queue.nempty != 0;
}

void release_budget_give(struct release_node *node, struct release_buf **buf, u32 n)
{
	struct release_home *home = node->home;

	host_lock(&home->lock);
	memcpy(home->empty + home->nempty, buf, n * sizeof(*buf));
	budget_take(home, node, (u32)0 - n);
	host_unlock(&home->lock);
}

static void pocket_set_all(struct release_node *node, u32 n)
{
	unsigned int i;

	for (i = 0; i < node->nitems; i++) {
		struct release_cpu *rc = node->item[i];

		if (host_read_once(rc->queue.nempty) == n)
			continue;
		host_lock(&rc->queue.lock);
		pocket_set(rc, n);
		host_unlock(&rc->queue.lock);
	}
}

void release_fill_pockets(struct release_node *node)
{
	pocket_set_all(node, pocket_own(node, host_read_once(node->bufs)));
}

int release_budget_set(struct release *r, u64 limit)
{
	struct release_budget *b = r->budget;
	u64 was = r->limit, of_all;
	unsigned int k;
	int err = 0;

	host_mutex_lock(&b->lock);
	of_all = b->limit;
	if (limit > of_all)
		b->limit = limit;
	for (k = 0; k < r->nodes && !err; k++)
		err = budget_set_node(b, &r->node[k], true, budget_of_node(&r->node[k], limit));
	if (err) {
		b->limit = of_all;
		while (k--)
			budget_set_node(b, &r->node[k], true, budget_of_node(&r->node[k], was));
	}
	host_mutex_unlock(&b->lock);
	for (k = 0; k < r->nodes && !err; k++)
		release_fill_pockets(&r->node[k]);
	return err;
}

int release_budget_join(struct release *r)
{
	struct release_budget *b = r->budget;
	unsigned int k, i;
	int err = 0;

	host_mutex_lock(&b->lock);
	for (k = 0; k < r->nodes && !err; k++) {
		r->node[k].home = &b->node[k];
		err = budget_set_node(b, &r->node[k], true, 0);
	}
	host_mutex_unlock(&b->lock);
	for (i = 0; i < r->items && !err; i++) {
		struct release_cpu *rc = r->item[i];

		host_lock(&rc->queue.lock);
		pocket_set(rc, 1);
		rc->queue.nempty = 0;
		host_unlock(&rc->queue.lock);
		rc->buf = rc->queue.empty[0];
		/* Another store may have had it. */
		rc->buf->era = 0;
	}
	return err;
}

void release_budget_leave(struct release *r)
{
	struct release_budget *b = r->budget;
	unsigned int k, i;

	for (k = 0; k < r->nodes; k++)
		pocket_set_all(&r->node[k], 0);
	for (i = 0; i < r->items; i++)
		if (r->item[i]->buf)
			release_budget_give(r->item[i]->node, &r->item[i]->buf, 1);
	host_mutex_lock(&b->lock);
	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];

		/* It may not have come to join. */
		if (!node->home)
			continue;
		host_warn_on(node->out, "a store ends that holds something back");
		budget_set_node(b, node, false, 0);
		if (!node->home->own)
			budget_free(node->home);
	}
	host_mutex_unlock(&b->lock);
}
