// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release_drain.c - who frees what was deferred: workers, flushes, and who is short of memory.
 *
 *     queue --next_full()--> worker, flush, help --next_full()--> empty buffers
 *     item  --take()-------> worker, flush, help
 *
 * Whoever has taken references, or reads the address of a CPU's buffer, is counted in
 * inflight[] of a node, by the parity of its epoch, under its lock.  A flush takes from the items,
 * then what is queued at that time, then moves each epoch on and waits for the old count alone:
 * nobody new is counted there, and each who is has at most a buffer's worth in hand.  So it is over
 * when what was held back as it began is freed, whatever comes meanwhile.  A CPU that frees in place
 * says so in its item (spilling); it is waited for by host_settle().
 *
 * The timer.  armed is set as long as worker 0 is to run within RELEASE_TIMER_US.  A run that found
 * nothing asks for release_disarm_run(), which clears armed, waits until every section under an
 * item that may have seen it set is over, and looks again: so no push is forgotten, and a push
 * looks at a line that hardly ever changes.
 *
 * Lock order: flushing > node lock; pool_free_bulk() is called under neither.
 */
#include "release.h"

/* ---- taking ---- */

/* References in an item, at some moment. */
static u64 in_item(const struct release_cpu *rc)
{
	u64 head = host_a64_read_acquire(&rc->head), tail = host_a64_read_acquire(&rc->tail);

	/* tail is the later one. */
	return tail - head;
}

/*
 * Takes the oldest references of an item, at most max of them and of RELEASE_REFS.  0: there are
 * none, or another took some.  The caller is counted in flight, or has flushing.
 */
static unsigned int take(struct release *r, struct release_cpu *rc, u64 *out, unsigned int max)
{
	u64 head = host_a64_read_acquire(&rc->head), n = host_a64_read_acquire(&rc->tail) - head;

	/* More than fits: head is no longer what it was. */
	if (!n || n > RELEASE_REFS)
		return 0;
	if (n > max)
		n = max;
	release_copy(out, host_read_once(rc->buf), head, (unsigned int)n);
	if (!host_a64_cas(&rc->head, &head, head + n))
		return 0;
	host_a64_add(&rc->taken, release_bytes_of(r, out, (unsigned int)n));
	return (unsigned int)n;
}

static unsigned int enter_locked(struct release_node *node) HOST_REQUIRES(node->lock)
{
	unsigned int e = node->epoch & 1;

	host_a64_set(&node->inflight[e], host_a64_read(&node->inflight[e]) + 1);
	return e;
}

/* True: a flush may wait for it, and is to be woken once the lock is dropped. */
static bool leave_locked(struct release_node *node, unsigned int e) HOST_REQUIRES(node->lock)
{
	u64 left = host_a64_read(&node->inflight[e]) - 1;

	host_a64_set_release(&node->inflight[e], left);
	return !left && e != (node->epoch & 1);
}

static unsigned int enter(struct release_node *node)
{
	unsigned int e;

	host_lock(&node->lock);
	e = enter_locked(node);
	host_unlock(&node->lock);
	return e;
}

static void leave(struct release_node *node, unsigned int e, unsigned int freed)
{
	bool wake;

	host_lock(&node->lock);
	host_write_once(node->deferred, node->deferred + freed);
	wake = leave_locked(node, e);
	host_unlock(&node->lock);
	if (wake)
		host_wake_zero(&node->inflight[e]);
}

/* Puts an empty buffer back. */
static void give_back(struct release_node *node, struct release_buf *b) HOST_REQUIRES(node->lock)
{
	struct release_budget *budget = node->r->budget;

	host_write_once(node->deferred, node->deferred + (b->to - b->from));
	host_write_once(node->queued, node->queued - b->bytes);
	if (budget)
		host_a64_add(&budget->share[node->nr].queued, (u64)0 - b->bytes);
	release_buf_push(&node->empty, b);
	host_write_once(node->nempty, node->nempty + 1);
}

/*
 * In one hold of the lock: gives back a buffer that was freed, or NULL, and takes the next one, if
 * more; *e is what it is counted in.
 */
static struct release_buf *next_full(struct release_node *node, struct release_buf *done,
				     unsigned int *e, bool more)
{
	unsigned int was = *e;
	struct release_buf *b = NULL;
	bool wake = false;

	host_lock(&node->lock);
	if (done) {
		give_back(node, done);
		wake = leave_locked(node, was);
	}
	if (more)
		b = release_buf_pop(&node->full);
	if (b) {
		if (!node->full)
			node->full_tail = &node->full;
		host_write_once(node->nfull, node->nfull - 1);
		*e = enter_locked(node);
	}
	host_unlock(&node->lock);
	if (wake)
		host_wake_zero(&node->inflight[was]);
	return b;
}

/* ---- draining ---- */

/* Frees at most max buffers of the queue; returns how many. */
static unsigned int drain_queue(struct release_node *node, u64 *scratch, unsigned int max)
{
	struct release_buf *b = NULL;
	unsigned int n = 0, e = 0;

	while ((b = next_full(node, b, &e, n < max))) {
		unsigned int refs = (unsigned int)(b->to - b->from);

		release_copy(scratch, b, b->from, refs);
		pool_free_bulk(node->r->pool, scratch, scratch + RELEASE_REFS, refs);
		n++;
		host_resched();
	}
	return n;
}

/* Frees what is in the node's items, each looked at once; whether there was anything. */
static bool collect(struct release_node *node, u64 *scratch)
{
	bool found = false;
	unsigned int i;

	for (i = 0; i < node->nitems; i++) {
		unsigned int e, n;

		if (!in_item(node->item[i]))
			continue;
		found = true;
		e = enter(node);
		n = take(node->r, node->item[i], scratch, RELEASE_REFS);
		pool_free_bulk(node->r->pool, scratch, scratch + RELEASE_REFS, n);
		leave(node, e, n);
		host_resched();
	}
	return found;
}

/* Queue first, then items: against the way that buffers go, so that none counts twice. */
static void note_peak(struct release_node *node)
{
	u64 held = host_read_once(node->queued);
	unsigned int i;

	for (i = 0; i < node->nitems; i++)
		held += release_cpu_bytes(node->item[i]);
	if (held > host_read_once(node->peak))
		host_write_once(node->peak, held);
}

/* More workers for a long queue. */
static void call_others(struct release_node *node, u32 nfull)
{
	unsigned int i;

	for (i = 1; i < node->nworkers && nfull >= i * RELEASE_BACKLOG; i++)
		host_work_queue(&node->worker[i].work);
}

/* What worker 0 does beside the queue: the items, the timer. */
static void timer(struct release_worker *w)
{
	struct release_node *node = w->node;
	u64 now = host_now_ns();
	bool found = true;

	if (now - node->collected >= (u64)RELEASE_TIMER_US * 1000) {
		found = collect(node, w->scratch);
		node->collected = now;
	}
	if (host_read_once(node->nfull)) {
		host_work_queue(&w->work);
	} else if (found) {
		host_work_queue_delayed(&w->work, RELEASE_TIMER_US);
	} else {
		host_a64_set(&node->idle, 1);
		host_work_queue(&node->r->disarm);
	}
}

void release_worker_run(struct host_work *work)
{
	struct release_worker *w =
		(struct release_worker *)((char *)work - offsetof(struct release_worker, work));
	struct release_node *node = w->node;
	bool first = w == node->worker, kicked;
	u32 nfull;

	host_lock(&node->lock);
	nfull = node->nfull;
	kicked = node->kicked;
	if (first)
		node->kicked = 0;
	host_unlock(&node->lock);

	if (first) {
		note_peak(node);
		if (kicked)
			host_write_once(node->flush_full, node->flush_full + 1);
		else
			host_write_once(node->flush_timer, node->flush_timer + 1);
		call_others(node, nfull);
	}
	/* What comes meanwhile is the next round's. */
	drain_queue(node, w->scratch, nfull < RELEASE_ROUND ? nfull : RELEASE_ROUND);
	if (first)
		timer(w);
	else if (host_read_once(node->nfull) >= RELEASE_BACKLOG)
		host_work_queue(work);
}

static bool is_empty(const struct release_node *node)
{
	unsigned int i;

	for (i = 0; i < node->nitems; i++)
		if (in_item(node->item[i]))
			return false;
	return !host_read_once(node->nfull);
}

void release_disarm_run(struct host_work *work)
{
	struct release *r = (struct release *)((char *)work - offsetof(struct release, disarm));
	unsigned int k;

	for (k = 0; k < r->nodes; k++) {
		r->node[k].disarming = host_a64_and(&r->node[k].idle, 0);
		if (r->node[k].disarming)
			host_a64_and(&r->node[k].armed, 0);
	}
	host_settle(r->cpus);
	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];

		if (node->disarming && !is_empty(node) && !host_a64_or(&node->armed, 1))
			host_work_queue_delayed(&node->worker->work, RELEASE_TIMER_US);
	}
}

/* ---- flush ---- */

static void count_freed(struct release_node *node, unsigned int n)
{
	host_lock(&node->lock);
	host_write_once(node->deferred, node->deferred + n);
	host_unlock(&node->lock);
}

/*
 * Frees what was in an item at the call.  Whenever a take comes to nothing another has moved head
 * on, so there are at most as many turns as there were references.
 */
static void flush_item(struct release *r, struct release_cpu *rc)
{
	u64 until = host_a64_read_acquire(&rc->tail), left;

	while ((s64)(left = until - host_a64_read_acquire(&rc->head)) > 0) {
		unsigned int n = take(r, rc, r->scratch, (unsigned int)left);

		if (!n)
			continue;
		pool_free_bulk(r->pool, r->scratch, r->scratch + RELEASE_REFS, n);
		count_freed(rc->node, n);
		host_resched();
	}
}

void release_wait_inflight(struct release *r)
{
	unsigned int k, e;

	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];

		/* The other count is 0: the last call waited for it, and since then nobody was added. */
		host_lock(&node->lock);
		e = node->epoch++ & 1;
		host_unlock(&node->lock);
		host_wait_zero(&node->inflight[e]);
	}
}

void release_flush_locked(struct release *r)
{
	bool spilling = false;
	unsigned int k;

	for (k = 0; k < r->nodes; k++)
		note_peak(&r->node[k]);
	for (k = 0; k < r->items; k++)
		flush_item(r, r->item[k]);
	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];
		unsigned int nfull;

		host_lock(&node->lock);
		nfull = node->nfull;
		host_unlock(&node->lock);
		drain_queue(node, r->scratch, nfull);
	}
	for (k = 0; k < r->items; k++)
		spilling |= host_a64_read_acquire(&r->item[k]->spilling) != 0;
	if (spilling)
		host_settle(r->cpus);
	release_wait_inflight(r);
}

void release_flush(struct release *r)
{
	host_a64_add(&r->flush_asked, 1);
	host_mutex_lock(&r->flushing);
	release_flush_locked(r);
	host_mutex_unlock(&r->flushing);
}

void release_quiesce(struct release *r)
{
	unsigned int k, i;

	release_flush(r);
	/* A worker that saw something in an item before may only now be about to take it. */
	for (k = 0; k < r->nodes; k++)
		for (i = 0; i < r->node[k].nworkers; i++)
			host_work_flush(&r->node[k].worker[i].work);
}

/* ---- for who is short of memory ---- */

/* Frees one buffer of the node's queue, with no room to sort but the stack's. */
static u64 help_queue(struct release_node *node)
{
	u64 batch[POOL_BULK_SMALL], at;
	unsigned int e = 0;
	struct release_buf *b;

	if (!host_read_once(node->nfull))
		return 0;
	b = next_full(node, NULL, &e, true);
	if (!b)
		return 0;
	for (at = b->from; at != b->to;) {
		unsigned int n = b->to - at < POOL_BULK_SMALL ? (unsigned int)(b->to - at)
							      : POOL_BULK_SMALL;

		release_copy(batch, b, at, n);
		pool_free_bulk(node->r->pool, batch, NULL, n);
		at += n;
	}
	at -= b->from;
	next_full(node, b, &e, false);
	return at;
}

/* Frees what is in an item, as far as nobody else takes it, a buffer's worth at most. */
static u64 help_item(struct release *r, struct release_cpu *rc)
{
	u64 batch[POOL_BULK_SMALL];
	unsigned int e, n, freed = 0;

	if (!in_item(rc))
		return 0;
	e = enter(rc->node);
	do {
		n = take(r, rc, batch, POOL_BULK_SMALL);
		pool_free_bulk(r->pool, batch, NULL, n);
		freed += n;
	} while (n == POOL_BULK_SMALL && freed < RELEASE_REFS);
	leave(rc->node, e, freed);
	return freed;
}

u64 release_help(struct release *r, unsigned int node, unsigned int max_bufs)
{
	u64 freed = 0, more, at;
	unsigned int bufs = 0, k = 0, looks, most;

	if (node >= r->nodes)
		node = host_node();
	while (k < r->nodes && bufs < max_bufs) {
		more = help_queue(&r->node[(node + k) % r->nodes]);
		freed += more;
		if (more)
			bufs++;
		else
			k++;
	}
	if (bufs == max_bufs)
		return freed;
	/* Its turn of the items is nobody else's: who helps at the same time looks at the next ones. */
	most = r->items < RELEASE_LOOKS ? r->items : RELEASE_LOOKS;
	at = host_a64_add(&r->cursor, most) - most;
	for (looks = 0; looks < most && bufs < max_bufs; looks++) {
		more = help_item(r, r->item[at++ % r->items]);
		freed += more;
		bufs += more != 0;
	}
	return freed;
}
