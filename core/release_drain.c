// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release_drain.c - who frees what was deferred: workers, flushes, and who is short of memory.
 *
 *     queue --take_full()--> worker, flush, help --release_give_back()--> empty buffers
 *     item  --take()-------> worker, flush, help
 *
 * Whoever takes references, or reads the address of a CPU's buffer, is counted in inflight[] of
 * the node before, by the parity of its epoch.  A flush takes from each item, then what is in its
 * queue at that time, then moves each epoch on and waits for the old count alone.  Who is counted
 * looks at the epoch before he takes the next buffer, and changes over if it has moved, so each
 * has at most two buffers' worth to free; who comes just as it moves is counted in both.  So a
 * flush is over when what was held back as it began is freed, whatever comes meanwhile.  A CPU that
 * frees in place says so in its item (spilling); it is waited for by host_settle().
 *
 * The timer is for objects.  armed is odd as long as worker 0 is to run within RELEASE_TIMER_US.  A
 * run that found none makes it the next even number and asks for release_disarm_run(), which waits
 * until every section under an item that may have seen it odd is over, and looks again: so no
 * object is forgotten, and a push looks at a line that hardly ever changes.  Blocks neither start
 * it nor keep it running; what runs takes them, too.
 *
 * Who pushes and finds it even queues the run first, and then makes it odd by compare-and-swap.  A
 * thread that loses its CPU in between has promised nothing: the others still find it even, and
 * start the timer themselves.  If the timer has run and stopped meanwhile the number is another
 * one, and the late thread changes nothing.
 *
 * How long objects wait.  The number is twice a time: when the timer was started, or when worker 0
 * last looked at the items before it stopped.  Between the two, worker 0 makes one sweep after the
 * other.  A sweep begins as it looks at the items, with the tail of each as its queue's mark, and
 * is over when no queue has a buffer from before its mark.  An object that is taken in a sweep came
 * after the one before it had begun, or, in the first one, after the timer was started; so it
 * waited for the time from there to the sweep's end at most.
 *
 * Lock order: flushing > queue lock; release_free() is called under none but flushing.
 */
#include "release.h"

/* ---- taking ---- */

/* References in an item, at some moment, and its tail then. */
static u64 in_item(const struct release_cpu *rc, u64 *tail)
{
	u64 head = host_a64_read_acquire(&rc->head);

	/* The later one. */
	*tail = host_a64_read_acquire(&rc->tail);
	return *tail - head;
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

/* Who has references in hand, or is about to. */
struct hands {
	struct release_node *node;
	unsigned int in;                /* a bit for each count that it is in */
	u64 freed;                      /* objects, since then */
};

static void come(struct hands *h, struct release_node *node)
{
	u64 epoch = host_a64_read(&node->epoch);

	h->node = node;
	h->in = 1u << (epoch & 1);
	host_a64_add(&node->inflight[epoch & 1], 1);
	if (host_likely(host_a64_read(&node->epoch) == epoch))
		return;
	/* A flush began meanwhile, so the next one may wait for the other count. */
	h->in = 3;
	host_a64_add(&node->inflight[~epoch & 1], 1);
}

static void go(struct hands *h)
{
	struct release_node *node = h->node;
	unsigned int e;

	if (h->freed)
		host_a64_add(&node->deferred, h->freed);
	h->freed = 0;
	for (e = 0; e < 2; e++)
		/* A flush may wait for it. */
		if (h->in >> e & 1 && !host_a64_add(&node->inflight[e], ~(u64)0) &&
		    e != (host_a64_read(&node->epoch) & 1))
			host_wake_zero(&node->inflight[e]);
	h->in = 0;
}

/* Before each take: it is counted in node, as of now. */
static void stay(struct hands *h, struct release_node *node)
{
	if (h->in && h->node == node && h->in == 1u << (host_a64_read(&node->epoch) & 1))
		return;
	if (h->in)
		go(h);
	come(h, node);
}

/* The oldest full buffer, or NULL. */
static struct release_buf *pop_full(struct release_queue *q) HOST_REQUIRES(q->lock)
{
	struct release_buf *b = release_buf_pop(&q->full);

	if (b) {
		if (!q->full)
			q->full_tail = &q->full;
		host_write_once(q->nfull, q->nfull - 1);
	}
	return b;
}

/* The same.  The caller is counted in flight, or has flushing. */
static struct release_buf *take_full(struct release_queue *q)
{
	struct release_buf *b;

	host_lock(&q->lock);
	b = pop_full(q);
	host_unlock(&q->lock);
	return b;
}

static void give_back(struct release_queue *q, struct release_buf *b)
{
	host_lock(&q->lock);
	release_give_back(q, b);
	host_unlock(&q->lock);
}

/* ---- draining ---- */

/* Frees a queue's oldest buffer, with positions from *from on; returns its objects. */
static unsigned int drain_one(struct release_queue *q, u64 *scratch, u64 *from)
{
	struct release *r = q->node->r;
	struct release_buf *b = take_full(q);
	unsigned int n;

	if (!b)
		return 0;
	*from = b->from;
	n = b->n;
	release_copy(scratch, b, b->from, n);
	release_free(r, scratch, scratch + RELEASE_REFS, n);
	give_back(q, b);
	host_resched();
	return n;
}

/*
 * Frees at most max buffers of the node's queues, of each as many as it has; returns how many.
 * Where it ends the worker's next round begins.
 */
static unsigned int drain_queues(struct release_worker *w, struct hands *h, unsigned int max)
{
	struct release_node *node = w->node;
	unsigned int left = node->nitems, done = 0;

	while (left-- && done < max) {
		struct release_queue *q = &node->queue[w->at];
		unsigned int n = host_read_once(q->nfull);

		for (n = n < max - done ? n : max - done; n; n--) {
			unsigned int freed;
			u64 from;

			stay(h, node);
			freed = drain_one(q, w->scratch, &from);
			if (!freed)
				break;
			/* The queue's oldest: whoever took those before it. */
			if (w == node->worker && from >= q->mark)
				q->mark = 0;
			h->freed += freed;
			done++;
		}
		w->at = w->at + 1 < node->nitems ? w->at + 1 : 0;
	}
	return done;
}

/*
 * Frees what is in the node's items, each looked at once; whether there were objects.  If no sweep
 * is under way, one begins.
 */
static bool collect(struct release_node *node, struct hands *h, u64 *scratch)
{
	bool found = false;
	unsigned int i, n;
	u64 tail, there;

	for (i = 0; i < node->nitems; i++) {
		there = in_item(node->item[i], &tail);
		if (!node->sweep)
			node->queue[i].mark = tail;
		if (!there)
			continue;
		found |= release_cpu_bytes(node->item[i]) != 0;
		stay(h, node);
		n = take(node->r, node->item[i], scratch, RELEASE_REFS);
		release_free(node->r, scratch, scratch + RELEASE_REFS, n);
		h->freed += n;
		host_resched();
	}
	return found;
}

/* Full buffers of the node. */
static unsigned int count_full(const struct release_node *node)
{
	unsigned int i, n = 0;

	for (i = 0; i < node->nitems; i++)
		n += host_read_once(node->queue[i].nfull);
	return n;
}

/* Queue first, then ring: against the way that buffers go, so that none counts twice. */
static void note_peak(struct release_node *node)
{
	unsigned int i;
	u64 held = 0;

	for (i = 0; i < node->nitems; i++) {
		held += host_read_once(node->queue[i].queued);
		held += release_cpu_bytes(node->item[i]);
	}
	if (held > host_read_once(node->peak))
		host_write_once(node->peak, held);
}

/* More workers for much that is queued. */
static void call_others(struct release_node *node, unsigned int nfull)
{
	unsigned int i;

	for (i = 1; i < node->nworkers && nfull >= i * RELEASE_BACKLOG; i++)
		host_work_queue(&node->worker[i].work);
}

/* The next number, odd after an even one, or even after an odd one, that tells a time. */
static u64 next_armed(u64 armed, u64 ns)
{
	u64 next = ns << 1 | (~armed & 1);

	return next > armed ? next : armed + 1;
}

/* again: it has stopped, and something came that saw it run. */
static void arm(struct release_node *node, bool again)
{
	/* In full: what was pushed comes before the look whether worker 0 is to run. */
	u64 armed = host_a64_read(&node->armed) & 1 ? 1 : host_a64_or(&node->armed, 0), since;

	if (armed & 1)
		return;
	since = again ? armed >> 1 : host_now_ns();
	host_work_queue_delayed(&node->worker->work, RELEASE_TIMER_US);
	host_a64_cas(&node->armed, &armed, next_armed(armed, since));
}

void release_arm(struct release_node *node)
{
	arm(node, false);
}

static void note_wait(struct release_node *node, u64 from, u64 to)
{
	u64 wait = to > from ? to - from : 0;

	/* Nothing is written that is not larger: a reset in between stays. */
	if (wait > host_read_once(node->wait))
		host_write_once(node->wait, wait);
}

/* The first sweep since the timer was started.  If its start is not told yet, disarm() knows it. */
static void note_first(struct release_node *node, u64 now)
{
	u64 armed = host_a64_read(&node->armed);

	if (armed & 1)
		note_wait(node, armed >> 1, now);
	else
		node->first = now;
}

/* Full buffers of the node.  If the sweep under way is over with them, its end is noted. */
static unsigned int look_at_sweep(struct release_node *node)
{
	unsigned int i, n = 0;
	bool over = true;
	u64 now;

	for (i = 0; i < node->nitems; i++) {
		struct release_queue *q = &node->queue[i];
		unsigned int nfull = host_read_once(q->nfull);

		n += nfull;
		if (!nfull && q->mark)
			q->mark = 0;
		over &= !q->mark;
	}
	if (!node->sweep || !over)
		return n;
	now = host_now_ns();
	if (node->took && node->since)
		note_wait(node, node->since, now);
	else if (node->took)
		note_first(node, now);
	node->since = node->sweep;
	node->sweep = 0;
	node->took = false;
	return n;
}

/* The next even number: no push that read armed before makes it odd now. */
static void disarm(struct release_node *node)
{
	u64 armed = host_a64_or(&node->armed, 1);

	if (armed & 1 && node->first)
		note_wait(node, armed >> 1, node->first);
	node->since = 0;
	node->first = 0;
	armed |= 1;
	/* Nobody else changes an odd one. */
	host_a64_add(&node->armed, next_armed(armed, node->collected) - armed);
}

/* What worker 0 does beside the queues: the items, the timer. */
static void timer(struct release_worker *w, struct hands *h)
{
	struct release_node *node = w->node;
	u64 now = host_now_ns();
	bool found = true;
	unsigned int nfull;

	if (now - node->collected >= (u64)RELEASE_TIMER_US * 1000) {
		found = collect(node, h, w->scratch);
		node->collected = now;
		node->took |= found;
		if (!node->sweep)
			node->sweep = now;
	}
	nfull = look_at_sweep(node);
	if (nfull) {
		host_work_queue(&w->work);
	} else if (found) {
		host_work_queue_delayed(&w->work, RELEASE_TIMER_US);
	} else {
		disarm(node);
		/*
		 * In full before the look whether disarm is to run: it may be another node's that
		 * runs.
		 */
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
	bool first = w == node->worker;
	struct hands h = { 0 };

	if (first) {
		note_peak(node);
		if (host_a64_and(&node->kicked, 0))
			host_write_once(node->flush_full, node->flush_full + 1);
		else
			host_write_once(node->flush_timer, node->flush_timer + 1);
		/* What comes meanwhile is the next round's. */
		nfull = count_full(node);
		call_others(node, nfull);
		max = nfull < max ? nfull : max;
	}
	done = drain_queues(w, &h, max);
	if (first) {
		node->took |= done != 0;
		timer(w, &h);
	} else if (done == RELEASE_ROUND) {
		host_work_queue(work);
	}
	if (h.in)
		go(&h);
}

/*
 * Whether the node holds objects back, or with blocks anything.  Bytes alone do not tell: who took
 * the last of them may have lost its CPU before it said so.
 */
static bool holds(const struct release_node *node, bool blocks)
{
	unsigned int i;
	u64 tail;

	for (i = 0; i < node->nitems; i++)
		if (in_item(node->item[i], &tail) &&
		    (blocks || release_cpu_bytes(node->item[i])))
			return true;
	return count_full(node);
}

void release_disarm_run(struct host_work *work)
{
	struct release *r = (struct release *)((char *)work - offsetof(struct release, disarm));
	unsigned int k;

	for (k = 0; k < r->nodes; k++)
		r->node[k].disarming = host_a64_and(&r->node[k].idle, 0);
	host_settle(r->cpus);
	for (k = 0; k < r->nodes; k++)
		if (r->node[k].disarming && holds(&r->node[k], false))
			arm(&r->node[k], true);
}

void release_look(struct release *r)
{
	unsigned int k;

	for (k = 0; k < r->nodes; k++)
		if (!(host_a64_read(&r->node[k].armed) & 1) && holds(&r->node[k], true))
			arm(&r->node[k], false);
}

/* ---- flush ---- */

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
		release_free(r, r->scratch, r->scratch + RELEASE_REFS, n);
		host_a64_add(&rc->node->deferred, n);
		host_resched();
	}
}

/* And what its queue has by then. */
static void flush_queue(struct release *r, struct release_queue *q)
{
	unsigned int left, n = 1;
	u64 from;

	host_lock(&q->lock);
	left = q->nfull;
	host_unlock(&q->lock);
	for (; left && n; left--) {
		n = drain_one(q, r->scratch, &from);
		if (n)
			host_a64_add(&q->node->deferred, n);
	}
}

void release_wait_inflight(struct release *r)
{
	unsigned int k;

	for (k = 0; k < r->nodes; k++) {
		struct release_node *node = &r->node[k];
		u64 epoch = host_a64_add(&node->epoch, 1) - 1;

		host_wait_zero(&node->inflight[epoch & 1]);
	}
}

void release_flush_locked(struct release *r)
{
	bool spilling = false;
	unsigned int k;

	for (k = 0; k < r->nodes; k++)
		note_peak(&r->node[k]);
	/* Before head moves or a buffer leaves its queue, for release_help_all(). */
	host_a64_set(&r->in_flush, 1);
	for (k = 0; k < r->items; k++) {
		flush_item(r, r->item[k]);
		flush_queue(r, r->item[k]->queue);
	}
	host_a64_set_release(&r->in_flush, 0);
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

/* Frees references with no room to sort but the stack's. */
static void free_batch(struct release *r, const struct release_buf *b, u64 at, u64 to)
{
	u64 batch[POOL_BULK_SMALL] HOST_UNCLEARED;

	while (at != to) {
		unsigned int n =
			to - at < POOL_BULK_SMALL ? (unsigned int)(to - at) : POOL_BULK_SMALL;

		release_copy(batch, b, at, n);
		release_free(r, batch, NULL, n);
		at += n;
	}
}

/* Frees a buffer of q that was full; returns its objects. */
static unsigned int free_full(struct hands *h, struct release_queue *q, struct release_buf *b)
{
	unsigned int n = b->n;

	free_batch(q->node->r, b, b->from, b->from + n);
	give_back(q, b);
	h->freed += n;
	return n;
}

/* Frees the oldest buffer of a queue, unless somebody is at it; returns its objects. */
static unsigned int help_queue(struct hands *h, struct release_queue *q)
{
	struct release_buf *b;

	if (!host_read_once(q->nfull))
		return 0;
	stay(h, q->node);
	if (!host_trylock(&q->lock))
		return 0;
	b = pop_full(q);
	host_unlock(&q->lock);
	return b ? free_full(h, q, b) : 0;
}

/* Frees what is in a ring, as far as nobody else takes it, a buffer's worth at most. */
static unsigned int help_ring(struct hands *h, struct release *r, struct release_cpu *rc)
{
	u64 batch[POOL_BULK_SMALL] HOST_UNCLEARED;
	unsigned int n, freed = 0;
	u64 tail;

	if (!in_item(rc, &tail))
		return 0;
	stay(h, rc->node);
	do {
		n = take(r, rc, batch, POOL_BULK_SMALL);
		release_free(r, batch, NULL, n);
		freed += n;
	} while (n == POOL_BULK_SMALL && freed < RELEASE_REFS);
	h->freed += freed;
	return freed;
}

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

		while (help->bufs && (freed = help_queue(&help->h, rc->queue))) {
			help->freed += freed;
			help->bufs--;
		}
		if (!help->bufs)
			break;
		freed = help_ring(&help->h, r, rc);
		help->freed += freed;
		help->bufs -= freed != 0;
	}
}

u64 release_help(struct release *r, unsigned int node, unsigned int max_bufs)
{
	struct help help = { .bufs = max_bufs };
	unsigned int looks = RELEASE_LOOKS;

	if (r->homes > 1) {
		struct release_node *own = &r->node[node < r->nodes ? node : host_node()];

		looks /= 2;
		if (own->nitems)
			help_items(r, &help, own->item, own->nitems, &own->cursor, looks);
	}
	if (help.bufs)
		help_items(r, &help, r->item, r->items, &r->cursor, looks);
	if (help.h.in)
		go(&help.h);
	return help.freed;
}

#define HELP_BUFS 4             /* buffers freed between two tries */

bool release_help_again(struct release *r, struct release_asker *a, unsigned int node)
{
	/* Calls of release_help() in which every item is looked at. */
	unsigned int round = (r->items + RELEASE_LOOKS / 2 - 1) / (RELEASE_LOOKS / 2);

	if (!a->left)
		a->left = 1 + round + (release_full_bufs(r) + r->items) / HELP_BUFS;
	if (a->none >= round || !--a->left)
		return false;
	a->none = release_help(r, node, HELP_BUFS) ? 0 : a->none + 1;
	return true;
}

struct help_all {
	struct hands h;
	u64 era;                        /* buffers that were begun before */
	const u64 *enough;              /* or NULL */
	bool cut;                       /* it was enough, and something may be left */
};

static bool is_enough(struct help_all *all)
{
	all->cut |= all->enough && host_read_once(*all->enough);
	return all->cut;
}

/* What is in an item as its turn comes, in batches; as many turns at most as flush_item() has. */
static void help_all_of_ring(struct help_all *all, struct release *r, struct release_cpu *rc)
{
	u64 until = host_a64_read_acquire(&rc->tail), left;
	u64 batch[POOL_BULK_SMALL] HOST_UNCLEARED;
	unsigned int n;

	while ((s64)(left = until - host_a64_read_acquire(&rc->head)) > 0 && !is_enough(all)) {
		n = left < POOL_BULK_SMALL ? (unsigned int)left : POOL_BULK_SMALL;
		stay(&all->h, rc->node);
		n = take(r, rc, batch, n);
		release_free(r, batch, NULL, n);
		all->h.freed += n;
		host_resched();
	}
}

/* The oldest full buffer, if it was begun before the era; takes it out if so asked. */
static struct release_buf *older(struct release_queue *q, u64 era, bool out)
{
	struct release_buf *b;

	host_lock(&q->lock);
	b = q->full;
	if (b && b->era >= era)
		b = NULL;
	if (b && out)
		pop_full(q);
	host_unlock(&q->lock);
	return b;
}

/*
 * Its queue's buffers that were begun before the call.  A CPU reads the era under the lock of its
 * queue, so it begins no more of them once that was taken here.
 */
static void help_all_of_queue(struct help_all *all, struct release_queue *q)
{
	struct release_buf *b;

	while (older(q, all->era, false) && !is_enough(all)) {
		stay(&all->h, q->node);
		b = older(q, all->era, true);
		if (!b)
			break;
		free_full(&all->h, q, b);
		host_resched();
	}
}

/* Whether somebody may have taken references and not freed all of them yet. */
static bool is_in_hands(const struct release *r)
{
	bool any = host_a64_read_acquire(&r->in_flush) != 0;
	unsigned int k;

	for (k = 0; k < r->items; k++)
		any |= host_a64_read_acquire(&r->item[k]->spilling) != 0;
	for (k = 0; k < r->nodes; k++) {
		any |= host_a64_read_acquire(&r->node[k].inflight[0]) != 0;
		any |= host_a64_read_acquire(&r->node[k].inflight[1]) != 0;
	}
	return any;
}

u64 release_begin_era(struct release *r)
{
	return host_a64_add(&r->era, 1);
}

bool release_help_all(struct release *r, u64 era, const u64 *enough)
{
	struct help_all all = { .era = era, .enough = enough };
	unsigned int k;

	for (k = 0; k < r->items && !all.cut; k++) {
		help_all_of_ring(&all, r, r->item[k]);
		help_all_of_queue(&all, r->item[k]->queue);
	}
	if (all.h.in)
		go(&all.h);
	return !all.cut && !is_in_hands(r);
}
