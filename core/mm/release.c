// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release.c - the CPU's side of the release stage: push, hand-over, spill.  release_budget.c has
 * the buffers, and release_drain.c the takers.
 *
 * Hand-over, under the queue's lock: nfull + 1, then head = tail, then the ring goes to the queue.
 * So a taker that finds a ring empty, which was not, sees nfull, and finds the buffer in the queue
 * once it has the lock.
 *
 * Lock order: flushing > queue lock > the stock's;  the per-CPU item > queue lock, and the locks
 * that pool_free_bulk() takes.
 */
#include "release.h"

/* Sets end to what tail comes to first: the buffer's end, or RELEASE_REFS past head. */
static void release_set_end(struct release_cpu *rc)
{
	u64 tail = host_a64_read(&rc->tail), room = host_a64_read_acquire(&rc->head) + RELEASE_REFS;
	u64 end = tail - tail % RELEASE_REFS + RELEASE_REFS;

	rc->end = room < end ? room : end;
}

static struct release_cpu *item_at(struct release *r, unsigned int i)
{
	return host_percpu_peek(r->cpus, i);
}

/* Fills r->item node by node, and sets each node's part of it. */
static void sort_items(struct release *r)
{
	struct release_cpu **at = r->item;
	unsigned int k, i;

	/* Asked once: the node of a CPU that is not there yet may change meanwhile. */
	for (i = 0; i < r->items; i++)
		item_at(r, i)->node = &r->node[host_percpu_node(r->cpus, i)];
	for (k = 0; k < nr_node_ids; k++) {
		struct release_node *node = &r->node[k];

		node->r = r;
		node->nr = k;
		node->item = at;
		for (i = 0; i < r->items; i++)
			if (item_at(r, i)->node == node)
				*at++ = item_at(r, i);
		node->nitems = (unsigned int)(at - node->item);
		r->item_nodes += node->nitems != 0;
	}
}

/* Workers of a node: one for each four of its CPUs, since four free faster than one drains. */
static unsigned int workers_of(const struct release_node *node)
{
	return node->nitems / 4 > 1 ? node->nitems / 4 : node->nitems != 0;
}

static int workers_init(struct release_node *node)
{
	unsigned int n = workers_of(node);
	int err = 0;

	node->worker = host_zalloc_node(n * sizeof(*node->worker), node->nr);
	if (!node->worker)
		return n ? -ENOMEM : 0;
	while (node->nworkers < n && !err) {
		struct release_worker *w = &node->worker[node->nworkers];

		w->node = node;
		w->at = node->nworkers * node->nitems / n;
		err = host_work_init(&w->work, release_worker_run, node->nr);
		node->nworkers += !err;
	}
	return err;
}

static void workers_destroy(struct release_node *node)
{
	unsigned int i;

	for (i = 0; i < node->nworkers; i++)
		host_work_destroy(&node->worker[i].work);
	host_free(node->worker, workers_of(node) * sizeof(*node->worker));
}

/* Undoes release_init(), or what it did before it failed; r->disarm has ended. */
static void release_end(struct release *r)
{
	unsigned int k;

	for (k = 0; r->node && k < nr_node_ids; k++)
		workers_destroy(&r->node[k]);
	if (r->budget)
		release_budget_leave(r);
	release_budget_destroy(&r->own_budget);
	host_free(r->item, r->items * sizeof(*r->item));
	host_free(r->node, nr_node_ids * sizeof(*r->node));
	host_free(r->scratch, RELEASE_SCRATCH_BYTES);
	mutex_destroy(&r->flushing);
}

void release_set_limits(struct release *r, u64 bytes)
{
	u64 share = bytes / (2 * nr_cpu_ids);

	WRITE_ONCE(r->limit, bytes);
	share = share < RELEASE_BUF_BYTES ? share : RELEASE_BUF_BYTES;
	WRITE_ONCE(r->buf_bytes, share ? share : 1);
}

int release_init(struct release *r, struct pool *pool, struct host_percpu *cpus, u64 limit,
		 u64 objects, struct release_budget *budget)
{
	unsigned int k, i;
	int err;

	memset(r, 0, sizeof(*r));
	r->pool = pool;
	r->cpus = cpus;
	r->objects = objects;
	r->items = host_percpu_items(cpus);
	mutex_init(&r->flushing);
	r->node = host_zalloc(nr_node_ids * sizeof(*r->node));
	r->item = host_zalloc(r->items * sizeof(*r->item));
	r->scratch = host_zalloc(RELEASE_SCRATCH_BYTES);
	err = r->node && r->item && r->scratch ? 0 : -ENOMEM;
	if (!err && !budget)
		err = release_budget_init(&r->own_budget, limit);
	if (err)
		goto failed;
	sort_items(r);
	r->budget = budget ? budget : &r->own_budget;
	for (i = 0; i < r->items; i++)
		spin_lock_init(&r->item[i]->queue.lock);
	err = release_budget_join(r);
	for (i = 0; i < r->items && !err; i++) {
		struct release_cpu *rc = r->item[i];

		rc->queue.full_tail = &rc->queue.full;
		rc->at = rc->buf->ref;
		release_set_end(rc);
	}
	for (k = 0; k < nr_node_ids && !err; k++)
		err = workers_init(&r->node[k]);
	if (!err)
		err = release_budget_set(r, limit);
	if (!err)
		err = host_work_init_slow(&r->disarm, release_disarm_run, numa_mem_id());
	if (err)
		goto failed;
	release_set_limits(r, limit);
	return 0;

failed:
	release_end(r);
	return err;
}

void release_destroy(struct release *r)
{
	release_flush(r);
	host_work_destroy(&r->disarm);
	release_end(r);
}

/*
 * The CPU's side, with its item held
 */

u64 release_look(struct release *r, struct release_cpu *rc)
{
	u64 tail = host_a64_read(&rc->tail), head = host_a64_read_acquire(&rc->head), at;

	if (head == rc->head_seen)
		return tail - head;
	rc->head_seen = head;
	rc->pushed_at_head = rc->pushed;
	for (at = head; at != tail; at++)
		rc->pushed_at_head -= pool_ref_room(r->pool, rc->buf->ref[at % RELEASE_REFS]);
	return tail - head;
}

/* Queues the ring, all of which the CPU has taken, and begins a new one. */
static void queue_buf(struct release_cpu *rc) __must_hold(&rc->queue.lock)
{
	struct release_queue *q = &rc->queue;
	struct release_buf *b = rc->buf, *new = q->empty[q->nempty - 1];
	u64 tail = host_a64_read(&rc->tail);

	host_assert(q->nempty && q->nempty <= RELEASE_POCKET && new != b);
	host_assert(tail - rc->head_seen && tail - rc->head_seen <= RELEASE_REFS);
	b->next = NULL;
	b->from = rc->head_seen;
	b->n = (u32)(tail - rc->head_seen);
	b->bytes = (u32)(rc->pushed - rc->pushed_at_head);
	new->era = host_a64_read(&rc->node->r->era);
	*q->full_tail = b;
	q->full_tail = &b->next;
	WRITE_ONCE(q->nempty, q->nempty - 1);

	/* Before the next push, which sets tail with release: a taker that sees it sees new. */
	WRITE_ONCE(rc->buf, new);
	rc->at = &new->ref[tail % RELEASE_REFS];
	rc->head_seen = tail;
	rc->pushed_at_head = rc->pushed;
}

/* Queues the ring.  False: no empty buffer can take its place. */
static bool release_hand_over(struct release_cpu *rc, struct release_todo *todo)
{
	u64 tail = host_a64_read(&rc->tail), head = rc->head_seen;
	struct release_queue *q = &rc->queue;
	bool done, kick = false;

	if (!READ_ONCE(q->nempty) && !release_budget_room(rc->node))
		return false;
	spin_lock(&rc->queue.lock);
	done = q->nempty || release_budget_draw(rc, &kick);
	if (done) {
		/* Before head moves: a taker that then finds the ring empty looks in the queue. */
		WRITE_ONCE(q->nfull, q->nfull + 1);
		/* If a taker was faster there is room in the ring. */
		if (host_a64_cas(&rc->head, &head, tail))
			queue_buf(rc);
		else
			WRITE_ONCE(q->nfull, q->nfull - 1);
	}
	spin_unlock(&rc->queue.lock);
	if (kick) {
		/* Before release_wake(): the worker clears kicked and then looks for work. */
		host_a64_or(&rc->node->kicked, 1);
		todo->node = rc->node;
		todo->kick = true;
	}
	return done;
}

/* Frees the oldest objects of the ring.  If a taker is faster there is room as well. */
static void release_spill(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	u64 left = host_a64_read(&rc->tail) - rc->head_seen, head = rc->head_seen;
	unsigned int n = left < RELEASE_SPILL ? (unsigned int)left : RELEASE_SPILL;
	u64 batch[RELEASE_SPILL], bytes;

	host_assert(left && left <= RELEASE_REFS && !host_a64_read(&rc->spilling));
	todo->node = rc->node;
	todo->kick = true;
	release_copy(batch, rc->buf, head, n);
	/* Before head moves: a flush that does not find them in the ring waits for spilling. */
	host_a64_set(&rc->spilling, 1);
	if (host_a64_cas(&rc->head, &head, head + n)) {
		bytes = release_bytes_of(r, batch, n);
		rc->pushed_at_head += bytes;
		rc->head_seen += n;
		host_a64_add(&rc->freed, bytes);
		pool_free_bulk(r->pool, batch, NULL, n);
		WRITE_ONCE(rc->in_place, rc->in_place + n);
	}
	host_a64_set_release(&rc->spilling, 0);
}

void release_full(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	u64 n = release_look(r, rc);

	if (!(host_a64_read(&rc->tail) % RELEASE_REFS))
		rc->at = rc->buf->ref;
	if ((n == RELEASE_REFS ||
	     rc->pushed - rc->pushed_at_head >= READ_ONCE(r->buf_bytes)) &&
	    !release_hand_over(rc, todo))
		release_spill(r, rc, todo);
	release_set_end(rc);
}

void release_wake(const struct release_todo *todo)
{
	struct release_node *node = todo->node;

	if (todo->kick)
		host_work_queue(&node->worker->work);
	release_arm(node);
}

/*
 * Figures
 */

u64 release_backlog(struct release *r)
{
	unsigned int k;
	u64 bufs = 0;

	for (k = 0; k < nr_node_ids; k++) {
		struct release_node *node = &r->node[k];
		u32 pockets = (1 + READ_ONCE(node->pocket)) * node->nitems;
		u32 out = READ_ONCE(node->out);

		bufs += out > pockets ? out - pockets : 0;
	}
	return bufs * READ_ONCE(r->buf_bytes);
}

u64 release_held(struct release *r)
{
	return release_held_in(r->item, r->items);
}

u64 release_peak(struct release *r)
{
	u64 held = release_held(r), peak = 0;
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++)
		peak += READ_ONCE(r->node[k].peak);
	return held > peak ? held : peak;
}

void release_stats(struct release *r, struct release_stats *st)
{
	unsigned int i;

	*st = (struct release_stats){ 0 };
	for (i = 0; i < r->items; i++)
		st->in_place += READ_ONCE(r->item[i]->in_place);
	for (i = 0; i < nr_node_ids; i++)
		st->deferred += host_a64_read(&r->node[i].deferred);
}
