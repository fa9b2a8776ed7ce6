// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release_drain.c - the takers: workers, flushes, and help by threads that are short of memory.
 *
 *     queue --queue_take()----> worker, flush, help --hands_give()--> empty buffers
 *     ring  --release_take()--> worker, flush, help
 *
 * Before it reads the address of a CPU's buffer, or takes references, a taker counts itself in
 * inflight[] of the node, by the parity of its epoch.  Before each further take it looks at the
 * epoch, and counts itself anew if a flush has moved it.  If the epoch moves just as a taker counts
 * itself, it is in both counts.  A flush takes from each ring, then from its queue what was queued
 * by then.  Then it moves each epoch on and waits for the old count alone, whose takers have at
 * most two buffers each to free.  So the flush is over when what was held back as it began is
 * freed, whatever is pushed meanwhile.  A CPU that frees in place sets spilling in its item, and
 * host_settle() waits for it.
 *
 * The timer.  armed is odd while worker 0 is to run within RELEASE_TIMER_US.  A run that found
 * nothing makes it the next even number and queues release_disarm_run(), which waits until every
 * section under an item that may have read it as odd is over, and then looks again.  So no object
 * is forgotten, and armed, which each push reads, hardly ever changes.
 *
 *     push:  read armed; if it is even, queue worker 0, then make armed odd by compare-and-swap
 *
 * A thread that is preempted in between hinders nobody: others still read an even number, and
 * start the timer themselves.  If the timer ran and stopped meanwhile, armed is another number, and
 * the late compare-and-swap fails.
 *
 * Lock order: flushing > queue lock; pool_free_bulk() is called under none but flushing.
 */
#include "release.h"

/* ---- taking ---- */

/* References in a ring, or a few more. */
static u64 in_ring(const struct release_cpu *rc)
{
	u64 head = host_a64_read_acquire(&rc->head);

	return host_a64_read_acquire(&rc->tail) - head;
}

/*
 * Takes the oldest references of a ring, at most max and RELEASE_REFS.  0: there are none, or
 * another taker was faster.  The caller is counted in flight.
 */
static unsigned int release_take(struct release *r, struct release_cpu *rc, u64 *out,
				 unsigned int max)
{
	u64 head = host_a64_read_acquire(&rc->head), n = host_a64_read_acquire(&rc->tail) - head;

	/* Too many: another taker moved head between the two reads. */
	if (!n || n > RELEASE_REFS)
		return 0;
	if (n > max)
		n = max;
	release_copy(out, READ_ONCE(rc->buf), head, (unsigned int)n);
	if (!host_a64_cas(&rc->head, &head, head + n))
		return 0;
	host_a64_add(&rc->freed, release_bytes_of(r, out, (unsigned int)n));
	return (unsigned int)n;
}

/* A taker. */
struct hands {
	u64 *refs;                      /* [max], for what it takes */
	u64 *tmp;                       /* [max] or NULL, as pool_free_bulk() */
	unsigned int max;               /* references at a time */
	bool rests;                     /* cond_resched() in between */
	struct release_node *node;      /* where it is counted in flight */
	unsigned int in;                /* bit e: it is counted in inflight[e] */
	u64 freed;                      /* objects, not yet added to node->deferred */
	unsigned int nempty;
	struct release_buf *empty[RELEASE_POCKET];      /* not yet given back to the stock */
};

/* A taker with scratch[2 * RELEASE_REFS]. */
static struct hands hands_of(u64 *scratch)
{
	return (struct hands){
		.refs = scratch, .tmp = scratch + RELEASE_REFS, .max = RELEASE_REFS, .rests = true,
	};
}

static void hands_give(struct hands *h)
{
	if (h->nempty)
		release_budget_give(h->node, h->empty, h->nempty);
	h->nempty = 0;
}

static void hands_begin(struct hands *h, struct release_node *node)
{
	u64 epoch = host_a64_read(&node->epoch);

	h->node = node;
	h->in = 1u << (epoch & 1);
	host_a64_add(&node->inflight[epoch & 1], 1);
	if (likely(host_a64_read(&node->epoch) == epoch))
		return;
	/* A flush moved the epoch meanwhile, so the next flush may wait for the other count. */
	h->in = 3;
	host_a64_add(&node->inflight[~epoch & 1], 1);
}

/* Hands over what it has, and is counted nowhere any more, if it was. */
static void hands_end(struct hands *h)
{
	struct release_node *node = h->node;
	unsigned int e;

	if (h->freed)
		host_a64_add(&node->deferred, h->freed);
	h->freed = 0;
	hands_give(h);
	for (e = 0; e < 2; e++)
		/* A flush may wait for the count of an epoch that is over. */
		if (h->in >> e & 1 && !host_a64_add(&node->inflight[e], ~(u64)0) &&
		    e != (host_a64_read(&node->epoch) & 1))
			host_wake_zero(&node->inflight[e]);
	h->in = 0;
}

/* Before each take: counts the taker in node, by the epoch of now. */
static void hands_stay(struct hands *h, struct release_node *node)
{
	if (h->node == node && h->in == 1u << (host_a64_read(&node->epoch) & 1))
		return;
	hands_end(h);
	hands_begin(h, node);
}

#define ANY_ERA (~(u64)0)

/*
 * Takes the oldest full buffer, if it became a ring before the era; else NULL.  The caller is
 * counted in flight.
 */
static struct release_buf *queue_take(struct release_queue *q, u64 era)
{
	struct release_buf *b;

	spin_lock(&q->lock);
	b = q->full;
	host_assert(!b == !q->nfull);
	if (b && b->era < era) {
		q->full = b->next;
		if (!q->full)
			q->full_tail = &q->full;
		WRITE_ONCE(q->nfull, q->nfull - 1);
	} else {
		b = NULL;
	}
	spin_unlock(&q->lock);
	return b;
}

/* ---- draining ---- */

/* Frees a buffer of rc's queue; returns its objects. */
static unsigned int free_full(struct hands *h, struct release_cpu *rc, struct release_buf *b)
{
	unsigned int all = b->n, done, n;

	host_assert(h->in && all && all <= RELEASE_REFS && b != READ_ONCE(rc->buf));
	for (done = 0; done < all; done += n) {
		n = all - done < h->max ? all - done : h->max;
		release_copy(h->refs, b, b->from + done, n);
		pool_free_bulk(rc->node->r->pool, h->refs, h->tmp, n);
	}
	host_a64_add(&rc->freed, b->bytes);
	h->freed += all;
	h->empty[h->nempty++] = b;
	if (h->nempty == RELEASE_POCKET)
		hands_give(h);
	return all;
}

/*
 * Frees the oldest full buffer of a queue, if it became a ring before the era; returns its objects.
 * 0: there is none.
 */
static unsigned int free_oldest(struct hands *h, struct release_cpu *rc, u64 era)
{
	struct release_buf *b;

	/* A taker that finds nothing is not counted, so no flush waits for it. */
	if (!READ_ONCE(rc->queue.nfull))
		return 0;
	hands_stay(h, rc->node);
	b = queue_take(&rc->queue, era);
	return b ? free_full(h, rc, b) : 0;
}

/*
 * Frees what is in a ring at the call; returns its objects.  A take fails only if another taker
 * moved head on, so there are at most as many turns as there were references.
 */
static unsigned int drain_ring(struct hands *h, struct release *r, struct release_cpu *rc)
{
	u64 until = host_a64_read_acquire(&rc->tail), left;
	unsigned int n, freed = 0;

	while ((s64)(left = until - host_a64_read_acquire(&rc->head)) > 0) {
		n = left < h->max ? (unsigned int)left : h->max;
		hands_stay(h, rc->node);
		n = release_take(r, rc, h->refs, n);
		pool_free_bulk(r->pool, h->refs, h->tmp, n);
		freed += n;
		if (h->rests)
			cond_resched();
	}
	h->freed += freed;
	return freed;
}

/*
 * Frees at most max buffers of the node's queues, of each as many as it had; returns how many.  The
 * worker's next round begins where this one ends.
 */
static unsigned int drain_queues(struct release_worker *w, struct hands *h, unsigned int max)
{
	struct release_node *node = w->node;
	unsigned int left = node->nitems, done = 0;

	while (left-- && done < max) {
		struct release_cpu *rc = node->item[w->at];
		unsigned int n = READ_ONCE(rc->queue.nfull);

		for (n = n < max - done ? n : max - done; n && free_oldest(h, rc, ANY_ERA); n--) {
			cond_resched();
			done++;
		}
		w->at = w->at + 1 < node->nitems ? w->at + 1 : 0;
	}
	return done;
}

/* Frees what is in the node's rings, each looked at once.  False: they were empty. */
static bool release_collect(struct release_node *node, struct hands *h)
{
	bool found = false;
	unsigned int i;

	for (i = 0; i < node->nitems; i++) {
		if (!in_ring(node->item[i]))
			continue;
		found = true;
		drain_ring(h, node->r, node->item[i]);
	}
	return found;
}

static void release_note_peak(struct release_node *node)
{
	u64 held = release_held_in(node->item, node->nitems);

	if (held > READ_ONCE(node->peak))
		WRITE_ONCE(node->peak, held);
}

/* Queues a worker more for each RELEASE_BACKLOG full buffers. */
static void call_others(struct release_node *node, unsigned int nfull)
{
	unsigned int i;

	for (i = 1; i < node->nworkers && nfull >= i * RELEASE_BACKLOG; i++)
		host_work_queue(&node->worker[i].work);
}

void release_arm(struct release_node *node)
{
	/* A full barrier: the push comes before the look whether worker 0 is queued. */
	u64 armed = host_a64_read(&node->armed) & 1 ? 1 : host_a64_or(&node->armed, 0);

	if (armed & 1)
		return;
	host_work_queue_delayed(&node->worker->work, RELEASE_TIMER_US);
	host_a64_cas(&node->armed, &armed, armed + 1);
}

/* Makes armed the next even number: no thread that read it before makes it odd now. */
static void release_disarm(struct release_node *node)
{
	host_a64_or(&node->armed, 1);
	host_a64_add(&node->armed, 1);
}

/* What worker 0 does beside the queues: it frees the rings, and sets or ends the timer. */
static void release_timer(struct release_worker *w, struct hands *h)
{
	struct release_node *node = w->node;
	u64 now = ktime_get_ns();
	bool found = true;
	unsigned int nfull;

	if (now - node->collected >= (u64)RELEASE_TIMER_US * 1000) {
		found = release_collect(node, h);
		node->collected = now;
	}
	nfull = release_full_in(node->item, node->nitems);
	if (nfull) {
		host_work_queue(&w->work);
	} else if (found) {
		host_work_queue_delayed(&w->work, RELEASE_TIMER_US);
	} else {
		release_disarm(node);
		/* A full barrier before the look whether disarm is queued, by any node. */
		host_a64_or(&node->idle, 1);
		host_work_queue(&node->r->disarm);
	}
}

void release_worker_run(struct host_work *work)
{
	struct release_worker *w =
		(struct release_worker *)((char *)work - offsetof(struct release_worker, work));
	struct release_node *node = w->node;
	unsigned int max = RELEASE_ROUND, done, nfull;
	struct hands h = hands_of(w->scratch);
	bool first = w == node->worker;

	if (first) {
		release_note_peak(node);
		/* After wake is cleared, before the look for full buffers (release.h). */
		host_a64_and(&node->kicked, 0);
		/* What is queued from now on is for the next round. */
		nfull = release_full_in(node->item, node->nitems);
		call_others(node, nfull);
		max = nfull < max ? nfull : max;
	}
	done = drain_queues(w, &h, max);
	if (first)
		release_timer(w, &h);
	else if (done == RELEASE_ROUND)
		host_work_queue(work);
	hands_end(&h);
}

/* Whether anything of the node may be taken.  (Its bytes include what takers are freeing.) */
static bool release_node_holds(const struct release_node *node)
{
	unsigned int i;

	for (i = 0; i < node->nitems; i++)
		if (in_ring(node->item[i]))
			return true;
	return release_full_in(node->item, node->nitems);
}

void release_disarm_run(struct host_work *work)
{
	struct release *r = (struct release *)((char *)work - offsetof(struct release, disarm));
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++)
		r->node[k].disarming = host_a64_and(&r->node[k].idle, 0);
	host_settle(r->cpus);
	for (k = 0; k < nr_node_ids; k++)
		if (r->node[k].disarming && release_node_holds(&r->node[k]))
			release_arm(&r->node[k]);
		else if (r->node[k].disarming)
			release_fill_pockets(&r->node[k]);
}

/* ---- all of it ---- */

/*
 * Frees what was held back at the call and that nobody else took: of each ring, then of its queue,
 * the way that buffers go.
 */
static void drain_all(struct hands *h, struct release *r)
{
	/*
	 * A CPU reads the era under its queue's lock.  Once free_oldest() has held that, each ring
	 * that begins is of this era or a later one, so the loop ends.
	 */
	u64 era = host_a64_add(&r->era, 1);
	unsigned int k;

	for (k = 0; k < r->items; k++) {
		drain_ring(h, r, r->item[k]);
		while (free_oldest(h, r->item[k], era))
			cond_resched();
	}
	hands_end(h);
}

/* Whether a CPU may have taken references out of its own buffer and not freed all of them yet. */
static bool is_spilling(const struct release *r)
{
	bool any = false;
	unsigned int k;

	for (k = 0; k < r->items; k++)
		any |= host_a64_read_acquire(&r->item[k]->spilling) != 0;
	return any;
}

/* Whether anybody may have. */
static bool is_in_hands(const struct release *r)
{
	bool any = is_spilling(r);
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++) {
		any |= host_a64_read_acquire(&r->node[k].inflight[0]) != 0;
		any |= host_a64_read_acquire(&r->node[k].inflight[1]) != 0;
	}
	return any;
}

/* ---- flush ---- */

/* Waits for who had taken references, or read a buffer's address, before the call. */
static void release_wait_inflight(struct release *r) __must_hold(&r->flushing)
{
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++) {
		struct release_node *node = &r->node[k];
		u64 epoch = host_a64_add(&node->epoch, 1) - 1;

		host_wait_zero(&node->inflight[epoch & 1]);
	}
}

static void release_flush_locked(struct release *r) __must_hold(&r->flushing)
{
	struct hands h = hands_of(r->scratch);
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++)
		release_note_peak(&r->node[k]);
	drain_all(&h, r);
	if (is_spilling(r))
		host_settle(r->cpus);
	release_wait_inflight(r);
}

void release_flush(struct release *r)
{
	mutex_lock(&r->flushing);
	release_flush_locked(r);
	mutex_unlock(&r->flushing);
}

int release_set_limit(struct release *r, u64 bytes)
{
	bool less = bytes < r->limit;
	int err;

	/* Before flushing is taken, for an allocation may want memory back. */
	err = release_budget_set(r, bytes);
	if (err)
		return err;
	mutex_lock(&r->flushing);
	release_set_limits(r, bytes);
	if (less) {
		/* Who pushed by the old limit is found by the flush. */
		host_settle(r->cpus);
		release_flush_locked(r);
	}
	mutex_unlock(&r->flushing);
	return 0;
}

void release_quiesce(struct release *r)
{
	unsigned int k, i;

	release_flush(r);
	/* So nobody sets them right later. */
	for (k = 0; k < nr_node_ids; k++)
		release_fill_pockets(&r->node[k]);
	/* A worker that saw something in an item before may only now be about to take it. */
	for (k = 0; k < nr_node_ids; k++)
		for (i = 0; i < r->node[k].nworkers; i++)
			host_work_flush(&r->node[k].worker[i].work);
	host_work_flush(&r->disarm);
}

/* ---- for who is short of memory ---- */

struct help {
	struct hands h;
	unsigned int bufs;              /* still to be freed */
	u64 freed;
};

/* Looks at so many of n items. */
static void help_items(struct release *r, struct help *help, struct release_cpu **item,
		       unsigned int n, host_a64 *cursor, unsigned int looks)
{
	unsigned int freed;
	u64 at;

	looks = looks < n ? looks : n;
	/*
	 * Its turn of the items is nobody else's: who helps at the same time looks at the next
	 * ones.
	 */
	at = host_a64_add(cursor, looks) - looks;
	for (; looks; looks--, at++) {
		struct release_cpu *rc = item[at % n];

		while (help->bufs && (freed = free_oldest(&help->h, rc, ANY_ERA))) {
			help->freed += freed;
			help->bufs--;
		}
		if (!help->bufs)
			break;
		freed = drain_ring(&help->h, r, rc);
		help->freed += freed;
		help->bufs -= freed != 0;
	}
}

u64 release_help(struct release *r, unsigned int node, unsigned int max_bufs)
{
	u64 batch[POOL_BULK_SMALL] __uninitialized;
	struct help help = {
		.h = { .refs = batch, .max = POOL_BULK_SMALL }, .bufs = max_bufs,
	};
	unsigned int looks = RELEASE_LOOKS;

	if (r->item_nodes > 1) {
		struct release_node *own = &r->node[node < nr_node_ids ? node : numa_mem_id()];

		looks /= 2;
		if (own->nitems)
			help_items(r, &help, own->item, own->nitems, &own->cursor, looks);
	}
	if (help.bufs)
		help_items(r, &help, r->item, r->items, &r->cursor, looks);
	hands_end(&help.h);
	return help.freed;
}

#define HELP_BUFS 4             /* buffers freed between two tries */

bool release_help_again(struct release *r, struct release_asker *a, unsigned int node)
{
	/* Calls of release_help() in which every item is looked at. */
	unsigned int round = (r->items + RELEASE_LOOKS / 2 - 1) / (RELEASE_LOOKS / 2);

	if (!a->left)
		a->left = 1 + round + (release_full_in(r->item, r->items) + r->items) / HELP_BUFS;
	if (a->none >= round || !--a->left)
		return false;
	a->none = release_help(r, node, HELP_BUFS) ? 0 : a->none + 1;
	return true;
}

bool release_help_all(struct release *r)
{
	u64 batch[POOL_BULK_SMALL] __uninitialized;
	struct hands h = { .refs = batch, .max = POOL_BULK_SMALL, .rests = true };

	drain_all(&h, r);
	return !is_in_hands(r);
}
