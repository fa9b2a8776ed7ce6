// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release.c - the CPU's side of the release stage: push, hand-over, spill; buffers and budget.
 * Who takes from CPUs and queues is in release_drain.c.
 *
 * Lock order: flushing > node lock;  owner's per-CPU item > node lock, what pool_free_bulk()
 * takes.
 *
 * A buffer goes from its CPU to the queue under the node's lock, with head moved inside: so who
 * finds a ring empty that was not, and then takes the lock, finds the buffer in the queue.
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
	b->nodes = host_nr_nodes();
	b->share = host_zalloc(b->nodes * sizeof(*b->share));
	return b->share ? 0 : -ENOMEM;
}

void release_budget_destroy(struct release_budget *b)
{
	unsigned int i;

	for (i = 0; i < b->nodes; i++)
		host_warn_on(host_a64_read(&b->share[i].queued) != 0, "a budget ends while it is used");
	host_free(b->share, b->nodes * sizeof(*b->share));
}

/*
 * Buffers
 */

/* Spare buffers of all nodes: as many as it takes with objects of 1 KiB, or all there can be. */
static u32 spare_for(const struct release *r, u64 limit)
{
	u64 bytes = limit < host_total_bytes() ? limit : host_total_bytes();
	u64 n = bytes / (RELEASE_REFS * (u64)1024), most = r->objects / RELEASE_REFS;

	return (u32)(n < most ? n : most);
}

/* Those of one node. */
static u32 spare_of(const struct release *r, const struct release_node *node, u64 limit)
{
	return node->nitems ? (spare_for(r, limit) + r->homes - 1) / r->homes : 0;
}

static void bufs_free(struct release_buf *list)
{
	struct release_buf *b;

	while ((b = release_buf_pop(&list))) {
		host_free(b, sizeof(*b));
		host_resched();
	}
}

/* Adds n buffers of a node to *list.  -ENOMEM: fewer, which are the caller's to free. */
static int bufs_alloc(struct release_buf **list, u64 n, unsigned int node)
{
	while (n--) {
		struct release_buf *b = host_zalloc_node(sizeof(*b), node);

		if (!b)
			return -ENOMEM;
		release_buf_push(list, b);
		host_resched();
	}
	return 0;
}

static void set_limits(struct release *r, u64 bytes)
{
	u64 share = bytes / (2 * host_nr_cpus());

	host_write_once(r->limit, bytes);
	host_write_once(r->node_limit, bytes / r->homes);
	host_write_once(r->buf_bytes, share ? share : 1);
	if (r->budget && bytes > host_read_once(r->budget->limit))
		host_write_once(r->budget->limit, bytes);
}

/* From where a push looks further: the buffer's end, or its being full by number or bytes. */
static void set_end(struct release_cpu *rc)
{
	u64 tail = host_a64_read(&rc->tail), room = host_a64_read_acquire(&rc->head) + RELEASE_REFS;
	u64 end = tail - tail % RELEASE_REFS + RELEASE_REFS;

	rc->end = room < end ? room : end;
	rc->left = rc->pushed - release_cpu_bytes(rc);
}

static struct release_cpu *item_at(struct release *r, unsigned int i)
{
	return host_percpu_peek(r->cpus, i);
}

/* Which items a node has: r->item is filled node by node. */
static void sort_items(struct release *r)
{
	struct release_cpu **at = r->item;
	unsigned int k, i;

	/* Asked once: where a CPU that comes later belongs may change meanwhile. */
	for (i = 0; i < r->items; i++)
		item_at(r, i)->node = &r->node[host_percpu_node(r->cpus, i)];
	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];

		node->item = at;
		for (i = 0; i < r->items; i++)
			if (item_at(r, i)->node == node)
				*at++ = item_at(r, i);
		node->nitems = (unsigned int)(at - node->item);
		r->homes += node->nitems != 0;
	}
}

/* A node's workers: one, and one for each four of its CPUs, which free faster than one drains. */
static unsigned int workers_of(const struct release_node *node)
{
	return node->nitems / 4 > 1 ? node->nitems / 4 : node->nitems != 0;
}

#define SCRATCH_BYTES (2 * RELEASE_REFS * sizeof(u64))

static int workers_init(struct release_node *node)
{
	unsigned int n = workers_of(node), i;
	int err;

	node->worker = host_zalloc(n * sizeof(*node->worker));
	if (!node->worker)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		struct release_worker *w = &node->worker[i];

		w->node = node;
		w->scratch = host_zalloc_node(SCRATCH_BYTES, node->nr);
		err = w->scratch ? host_work_init(&w->work, release_worker_run, node->nr) : -ENOMEM;
		if (err) {
			host_free(w->scratch, SCRATCH_BYTES);
			return err;
		}
		node->nworkers++;
	}
	return 0;
}

static void workers_destroy(struct release_node *node)
{
	unsigned int i;

	if (!node->worker)
		return;
	for (i = 0; i < node->nworkers; i++)
		host_work_destroy(&node->worker[i].work);
	for (i = 0; i < node->nworkers; i++)
		host_free(node->worker[i].scratch, SCRATCH_BYTES);
	host_free(node->worker, workers_of(node) * sizeof(*node->worker));
}

/* Its items' buffers and its spare ones. */
static int node_init(struct release *r, struct release_node *node, u64 limit)
{
	u32 spare = spare_of(r, node, limit);
	unsigned int i;
	int err;

	err = bufs_alloc(&node->empty, (u64)node->nitems + spare, node->nr);
	if (err)
		return err;
	for (i = 0; i < node->nitems; i++) {
		struct release_cpu *rc = node->item[i];

		rc->buf = release_buf_pop(&node->empty);
		rc->at = rc->buf->ref;
		set_end(rc);
	}
	node->nempty = node->spare = spare;
	return node->nitems ? workers_init(node) : 0;
}

/* All that release_init() made, or began to; the works have ended. */
static void end(struct release *r)
{
	unsigned int k, i;

	for (k = 0; r->node && k < r->nodes; k++)
		bufs_free(r->node[k].empty);
	for (i = 0; r->item && i < r->items; i++)
		if (item_at(r, i)->buf)
			host_free(item_at(r, i)->buf, sizeof(struct release_buf));
	host_free(r->item, r->items * sizeof(*r->item));
	host_free(r->node, r->nodes * sizeof(*r->node));
	host_free(r->scratch, SCRATCH_BYTES);
	host_mutex_destroy(&r->flushing);
}

int release_init(struct release *r, struct pool *pool, struct host_percpu *cpus, u64 limit,
		 u64 objects, struct release_budget *budget)
{
	int err = -ENOMEM;
	unsigned int k;

	memset(r, 0, sizeof(*r));
	r->pool = pool;
	r->cpus = cpus;
	r->budget = budget;
	r->objects = objects;
	r->nodes = host_nr_nodes();
	r->items = host_percpu_items(cpus);
	host_mutex_init(&r->flushing);
	r->node = host_zalloc(r->nodes * sizeof(*r->node));
	r->item = host_zalloc(r->items * sizeof(*r->item));
	r->scratch = host_zalloc(SCRATCH_BYTES);
	if (!r->node || !r->item || !r->scratch)
		goto no_memory;
	sort_items(r);
	set_limits(r, limit);
	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];

		node->r = r;
		node->nr = k;
		node->full_tail = &node->full;
		host_lock_init(&node->lock, "ebb_release");
	}
	for (k = 0; k < r->nodes; k++) {
		err = node_init(r, &r->node[k], limit);
		if (err)
			goto no_node;
	}
	err = host_work_init(&r->disarm, release_disarm_run, host_node());
	if (!err)
		return 0;
no_node:
	for (k = 0; k < r->nodes; k++)
		workers_destroy(&r->node[k]);
no_memory:
	end(r);
	return err;
}

void release_destroy(struct release *r)
{
	unsigned int k;

	release_flush(r);
	host_work_destroy(&r->disarm);
	for (k = 0; k < r->nodes; k++)
		workers_destroy(&r->node[k]);
	end(r);
}

/*
 * The CPU's side.  Its item is held.
 */

/* Whether a buffer with so many bytes may be queued; without a lock it is a guess. */
static bool fits(struct release *r, struct release_node *node, u64 bytes)
{
	struct release_budget *b = r->budget;

	if (!host_read_once(node->nempty) ||
	    host_read_once(node->queued) + bytes > host_read_once(r->node_limit))
		return false;
	return !b || host_a64_read(&b->share[node->nr].queued) + bytes <=
		     host_read_once(b->limit) / r->homes;
}

/* Bytes of the references from position head on. */
static u64 bytes_from(struct release *r, struct release_cpu *rc, u64 head, u64 tail)
{
	u64 bytes = 0;

	if (rc->known == head)
		return rc->pushed - rc->before;
	/* Others took some: count what they left. */
	for (; head != tail; head++)
		bytes += pool_ref_room(r->pool, rc->buf->ref[head % RELEASE_REFS]);
	return bytes;
}

/* Puts the buffer with positions head to tail, which are its CPU's, into the queue.  True: kick. */
static bool queue_buf(struct release_node *node, struct release_cpu *rc, u64 head, u64 tail,
		      u64 bytes) HOST_REQUIRES(node->lock)
{
	struct release *r = node->r;
	struct release_buf *b = rc->buf, *new = release_buf_pop(&node->empty);
	bool kick;

	b->from = head;
	b->to = tail;
	b->bytes = bytes;
	*node->full_tail = b;
	node->full_tail = &b->next;
	host_write_once(node->nfull, node->nfull + 1);
	host_write_once(node->nempty, node->nempty - 1);
	host_write_once(node->queued, node->queued + bytes);
	if (r->budget)
		host_a64_add(&r->budget->share[node->nr].queued, bytes);
	kick = node->queued > host_read_once(r->node_limit) / 2 || node->nempty < node->spare / 2;
	node->kicked |= kick;

	/* Who sees the next tail sees the buffer: tail is set with release. */
	host_write_once(rc->buf, new);
	rc->at = &new->ref[tail % RELEASE_REFS];
	rc->known = tail;
	rc->before = rc->pushed;
	/* After queued: who adds the two up finds the bytes in one of them at least. */
	host_a64_set_release(&rc->gone, host_a64_read(&rc->gone) + bytes);
	return kick;
}

/* Queues the buffer.  False: there is no room for it. */
static bool hand_over(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	u64 tail = host_a64_read(&rc->tail), head = host_a64_read_acquire(&rc->head), bytes;
	struct release_node *node = rc->node;
	bool done;

	if (!fits(r, node, release_cpu_bytes(rc)))
		return false;
	bytes = bytes_from(r, rc, head, tail);
	host_lock(&node->lock);
	done = fits(r, node, bytes);
	/* If another took some since, there is room. */
	if (done && host_a64_cas(&rc->head, &head, tail) && queue_buf(node, rc, head, tail, bytes)) {
		todo->node = node;
		todo->kick = true;
	}
	host_unlock(&node->lock);
	return done;
}

/* Frees the oldest references of the buffer.  If another takes some meanwhile, there is room. */
static void spill(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	u64 tail = host_a64_read(&rc->tail), head = host_a64_read_acquire(&rc->head);
	u64 batch[RELEASE_SPILL], bytes, was = head;
	unsigned int n = tail - head < RELEASE_SPILL ? (unsigned int)(tail - head) : RELEASE_SPILL;

	todo->node = rc->node;
	todo->kick = true;
	if (!n)
		return;
	release_copy(batch, rc->buf, head, n);
	/* Before head moves: a flush that misses them there waits for this. */
	host_a64_set(&rc->spilling, 1);
	if (host_a64_cas(&rc->head, &head, head + n)) {
		bytes = release_bytes_of(r, batch, n);
		rc->before += bytes;
		rc->known = rc->known == was ? was + n : RELEASE_UNKNOWN;
		host_a64_set_release(&rc->gone, host_a64_read(&rc->gone) + bytes);
		pool_free_bulk(r->pool, batch, NULL, n);
		host_write_once(rc->in_place, rc->in_place + n);
		host_write_once(rc->spills, rc->spills + 1);
	}
	host_a64_set_release(&rc->spilling, 0);
}

void release_full(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	u64 tail = host_a64_read(&rc->tail), head = host_a64_read_acquire(&rc->head);

	if (!(tail % RELEASE_REFS))
		rc->at = rc->buf->ref;
	if ((tail - head == RELEASE_REFS || release_cpu_bytes(rc) >= host_read_once(r->buf_bytes)) &&
	    !hand_over(r, rc, todo))
		spill(r, rc, todo);
	set_end(rc);
}

void release_wake(const struct release_todo *todo)
{
	struct release_node *node = todo->node;

	if (todo->kick)
		host_work_queue(&node->worker->work);
	if (!host_a64_read(&node->armed) && !host_a64_or(&node->armed, 1))
		host_work_queue_delayed(&node->worker->work, RELEASE_TIMER_US);
}

/*
 * The budget
 */

/* Hands spare buffers from *list to the node, or takes from it, until it has want, piece by piece. */
static void set_spare(struct release_node *node, u32 want, struct release_buf **list)
{
	unsigned int n = 1;

	while (n) {
		host_lock(&node->lock);
		for (n = 0; n < RELEASE_ROUND && node->spare < want && *list; n++) {
			release_buf_push(&node->empty, release_buf_pop(list));
			host_write_once(node->nempty, node->nempty + 1);
			host_write_once(node->spare, node->spare + 1);
		}
		/* Those that are queued again by now stay. */
		for (; n < RELEASE_ROUND && node->spare > want && node->empty; n++) {
			release_buf_push(list, release_buf_pop(&node->empty));
			host_write_once(node->nempty, node->nempty - 1);
			host_write_once(node->spare, node->spare - 1);
		}
		host_unlock(&node->lock);
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
		u32 want = spare_of(r, &r->node[k], bytes), have = host_read_once(r->node[k].spare);

		err = bufs_alloc(&list, want > have ? want - have : 0, k);
	}
	if (err)
		goto out;

	host_mutex_lock(&r->flushing);
	if (bytes < r->limit) {
		set_limits(r, bytes);
		/* Who pushed by the old limit is found by the flush. */
		host_settle(r->cpus);
		host_a64_add(&r->flush_asked, 1);
		release_flush_locked(r);
	} else {
		set_limits(r, bytes);
	}
	/* The last node's were made last, and are first in the list. */
	for (k = r->nodes; k--;)
		set_spare(&r->node[k], spare_of(r, &r->node[k], bytes), &list);
	/* Who takes from a CPU may still read in a buffer that was the CPU's. */
	if (list)
		release_wait_inflight(r);
	host_mutex_unlock(&r->flushing);
out:
	bufs_free(list);
	return err;
}

/*
 * Figures
 */

u64 release_queued(struct release *r)
{
	unsigned int k;
	u64 bytes = 0;

	for (k = 0; k < r->nodes; k++)
		bytes += host_read_once(r->node[k].queued);
	return bytes;
}

u64 release_held(struct release *r)
{
	unsigned int i;
	u64 bytes = 0;

	/* Items first, then the queue: the way that buffers go. */
	for (i = 0; i < r->items; i++)
		bytes += release_cpu_bytes(r->item[i]);
	return bytes + release_queued(r);
}

u64 release_peak(struct release *r)
{
	u64 held = release_held(r), peak = 0;
	unsigned int k;

	for (k = 0; k < r->nodes; k++)
		peak += host_read_once(r->node[k].peak);
	return held > peak ? held : peak;
}

void release_reset_peak(struct release *r)
{
	unsigned int k;

	for (k = 0; k < r->nodes; k++)
		host_write_once(r->node[k].peak, 0);
}

void release_stats(struct release *r, struct release_stats *st)
{
	unsigned int i;

	*st = (struct release_stats){ .flush_asked = host_a64_read(&r->flush_asked) };
	for (i = 0; i < r->items; i++) {
		st->in_place += host_read_once(r->item[i]->in_place);
		st->flush_budget += host_read_once(r->item[i]->spills);
	}
	for (i = 0; i < r->nodes; i++) {
		st->deferred += host_read_once(r->node[i].deferred);
		st->flush_full += host_read_once(r->node[i].flush_full);
		st->flush_timer += host_read_once(r->node[i].flush_timer);
	}
}

u64 release_meta_bytes(struct release *r)
{
	u64 bufs = r->items, scratches = 1;
	unsigned int k;

	for (k = 0; k < r->nodes; k++) {
		bufs += host_read_once(r->node[k].spare);
		scratches += r->node[k].nworkers;
	}
	return bufs * sizeof(struct release_buf) + scratches * SCRATCH_BYTES;
}
