// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release.c - the CPU's side of the release stage: push, hand-over, spill.  Buffers and budget
 * are in release_budget.c, who takes from CPUs and queues in release_drain.c.
 *
 * Lock order: flushing > queue lock > node lock;  owner's per-CPU item > queue lock, what
 * pool_free_bulk() takes.
 *
 * A buffer goes from its CPU to the CPU's queue under the queue's lock, with head moved inside: so
 * who finds a ring empty that was not, and then takes the lock, finds the buffer in the queue.
 */
#include "release.h"

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
		w->at = i * node->nitems / n;
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

/* Its items' buffers and queues. */
static int node_init(struct release *r, struct release_node *node, u64 limit)
{
	struct release_buf *list = NULL;
	unsigned int i;
	int err;

	if (!node->nitems)
		return 0;
	node->queue = host_zalloc_node(node->nitems * sizeof(*node->queue), node->nr);
	if (!node->queue)
		return -ENOMEM;
	err = release_bufs_alloc(&list, (u64)node->nitems + release_spare_of(r, node, limit),
				 node->nr);
	if (err) {
		release_bufs_free(list);
		return err;
	}
	for (i = 0; i < node->nitems; i++) {
		struct release_queue *q = &node->queue[i];
		struct release_cpu *rc = node->item[i];

		q->node = node;
		q->full_tail = &q->full;
		host_lock_init(&q->lock, "ebb_release");
		rc->queue = q;
		rc->buf = release_buf_pop(&list);
		rc->at = rc->buf->ref;
		set_end(rc);
	}
	release_set_spare(r, node, limit, &list);
	return workers_init(node);
}

/* All that release_init() made, or began to; the works have ended. */
static void release_end(struct release *r)
{
	unsigned int k, i;

	for (k = 0; r->node && k < r->nodes; k++)
		release_budget_end(&r->node[k]);
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
	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];

		node->r = r;
		node->nr = k;
		host_lock_init(&node->lock, "ebb_release_node");
	}
	release_set_limits(r, limit);
	for (k = 0; k < r->nodes; k++) {
		err = node_init(r, &r->node[k], limit);
		if (err)
			goto no_node;
	}
	err = host_work_init_slow(&r->disarm, release_disarm_run, host_node());
	if (!err)
		return 0;
no_node:
	for (k = 0; k < r->nodes; k++)
		workers_destroy(&r->node[k]);
no_memory:
	release_end(r);
	return err;
}

void release_destroy(struct release *r)
{
	unsigned int k;

	release_flush(r);
	host_work_destroy(&r->disarm);
	for (k = 0; k < r->nodes; k++)
		workers_destroy(&r->node[k]);
	release_end(r);
}

/*
 * The CPU's side.  Its item is held.
 */

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

/* Puts the buffer with positions head to tail, which are its CPU's, into the queue. */
static void queue_buf(struct release_queue *q, struct release_cpu *rc, u64 head, u64 tail,
		      u64 bytes) HOST_REQUIRES(q->lock)
{
	struct release_buf *b = rc->buf, *new = release_buf_pop(&q->empty);

	b->from = head;
	b->n = (u32)(tail - head);
	b->bytes = (u32)bytes;
	new->era = host_a64_read(&rc->node->r->era);
	*q->full_tail = b;
	q->full_tail = &b->next;
	host_write_once(q->nfull, q->nfull + 1);
	host_write_once(q->nempty, q->nempty - 1);
	host_write_once(q->queued, q->queued + bytes);

	/* Who sees the next tail sees the buffer: tail is set with release. */
	host_write_once(rc->buf, new);
	rc->at = &new->ref[tail % RELEASE_REFS];
	rc->known = tail;
	rc->before = rc->pushed;
	/* After queued: who adds the two up finds the bytes in one of them at least. */
	host_a64_set_release(&rc->gone, host_a64_read(&rc->gone) + bytes);
}

/* Queues the buffer.  False: there is no room for it. */
static bool release_hand_over(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	u64 tail = host_a64_read(&rc->tail), head = host_a64_read_acquire(&rc->head), bytes;
	struct release_queue *q = rc->queue;
	bool done, kick = false;

	/* Others took all of it, and have not said yet of how many bytes. */
	if (head == tail)
		return true;
	if (!release_fits(q, release_cpu_bytes(rc)))
		return false;
	bytes = bytes_from(r, rc, head, tail);
	host_lock(&q->lock);
	done = release_provide(q, bytes, &kick);
	/* If another took some since, there is room. */
	if (done && host_a64_cas(&rc->head, &head, tail))
		queue_buf(q, rc, head, tail, bytes);
	else if (done)
		release_trim(q);
	host_unlock(&q->lock);
	if (kick) {
		/*
		 * Before the look whether the worker is to run: it clears this, then looks for
		 * work.
		 */
		host_a64_or(&rc->node->kicked, 1);
		todo->node = rc->node;
		todo->kick = true;
	}
	return done;
}

/* Frees the oldest references of the buffer.  If another takes some meanwhile, there is room. */
static void release_spill(struct release *r, struct release_cpu *rc, struct release_todo *todo)
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
	if ((tail - head == RELEASE_REFS ||
	     release_cpu_bytes(rc) >= host_read_once(r->buf_bytes)) &&
	    !release_hand_over(r, rc, todo))
		release_spill(r, rc, todo);
	set_end(rc);
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

u64 release_queued(struct release *r)
{
	unsigned int i;
	u64 bytes = 0;

	for (i = 0; i < r->items; i++)
		bytes += host_read_once(r->item[i]->queue->queued);
	return bytes;
}

u64 release_full_bufs(struct release *r)
{
	unsigned int i;
	u64 n = 0;

	for (i = 0; i < r->items; i++)
		n += host_read_once(r->item[i]->queue->nfull);
	return n;
}

u64 release_backlog(struct release *r)
{
	unsigned int k;
	u64 bytes = 0;

	for (k = 0; k < r->nodes; k++)
		bytes += host_read_once(r->node[k].claimed);
	return bytes;
}

u64 release_held(struct release *r)
{
	unsigned int i;
	u64 bytes = 0;

	/* The ring first, then the queue: the way that buffers go. */
	for (i = 0; i < r->items; i++) {
		bytes += release_cpu_bytes(r->item[i]);
		bytes += host_read_once(r->item[i]->queue->queued);
	}
	return bytes;
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
		st->deferred += host_a64_read(&r->node[i].deferred);
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
