// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release.c - owns detached objects until the pool has them back.
 *
 * Lock order: draining > owner's per-CPU item > lock;  owner's per-CPU item > what
 * pool_free_bulk() takes.
 *
 * Nothing is lost between a push and the timer: a pusher that sees armed set pushed before
 * the drain that clears it looked at its buffer, since the drain clears armed first and then
 * takes each CPU's item in turn.
 *
 * The drain always finds a buffer to put in place of a CPU's: a pusher leaves the last
 * host_nr_cpus() empty ones alone, and the drain has returned all that it took when it begins.
 */
#include "release.h"

static void set_limit(struct release *r, u64 bytes)
{
	u64 share = bytes / (2 * host_nr_cpus());

	host_write_once(r->limit, bytes);
	host_write_once(r->buf_bytes, share ? share : 1);
}

/* Spare buffers for a budget: as many as it takes with objects of 1 KiB, or all there can be. */
static u32 spare_for(const struct release *r, u64 limit)
{
	u64 bytes = limit < host_total_bytes() ? limit : host_total_bytes();
	u64 n = bytes / (RELEASE_REFS * (u64)1024), most = r->objects / RELEASE_REFS;

	return (u32)(n < most ? n : most);
}

static void bufs_free(struct release_buf *list)
{
	while (list) {
		struct release_buf *next = list->next;

		host_free(list, sizeof(*list));
		list = next;
	}
}

static void buf_push(struct release_buf **list, struct release_buf *b)
{
	b->next = *list;
	*list = b;
}

/* Of a list that is not empty. */
static struct release_buf *buf_pop(struct release_buf **list)
{
	struct release_buf *b = *list;

	*list = b->next;
	b->next = NULL;
	return b;
}

/* Adds n buffers to *list.  -ENOMEM: fewer, which are the caller's to free. */
static int bufs_alloc(struct release_buf **list, unsigned int n)
{
	while (n--) {
		struct release_buf *b = host_zalloc(sizeof(*b));

		if (!b)
			return -ENOMEM;
		buf_push(list, b);
	}
	return 0;
}

/* Gives each CPU its buffer.  Allocation is not for atomic context, so they come in a list. */
static void give_buf(void *item, void *arg)
{
	struct release_cpu *rc = item;
	struct release_buf **list = arg;

	rc->buf = buf_pop(list);
}

static void take_buf(void *item, void *arg)
{
	struct release_cpu *rc = item;
	struct release_buf **list = arg;

	if (rc->buf) {
		buf_push(list, rc->buf);
		rc->buf = NULL;
	}
}

static void drain_all(struct release *r);

static void drain_work(struct host_work *w)
{
	struct release *r = (struct release *)((char *)w - offsetof(struct release, work));

	host_a64_add(host_a64_and(&r->kicked, 0) ? &r->flush_full : &r->flush_timer, 1);
	host_mutex_lock(&r->draining);
	drain_all(r);
	host_mutex_unlock(&r->draining);
}

int release_init(struct release *r, struct pool *pool, struct host_percpu *cpus, u64 limit,
		 u64 objects)
{
	int err = -ENOMEM;

	memset(r, 0, sizeof(*r));
	r->pool = pool;
	r->cpus = cpus;
	r->objects = objects;
	r->full_tail = &r->full;
	r->spare = spare_for(r, limit);
	r->nempty = host_nr_cpus() + r->spare;
	host_lock_init(&r->lock, "ebb_release");
	host_mutex_init(&r->draining);
	set_limit(r, limit);

	r->scratch = host_zalloc(RELEASE_REFS * sizeof(*r->scratch));
	if (!r->scratch)
		goto fail;
	err = bufs_alloc(&r->empty, host_nr_cpus() + r->nempty);
	if (err)
		goto fail;
	err = host_work_init(&r->work, drain_work);
	if (err)
		goto fail;
	host_percpu_each(cpus, give_buf, &r->empty);
	return 0;
fail:
	bufs_free(r->empty);
	host_free(r->scratch, RELEASE_REFS * sizeof(*r->scratch));
	host_mutex_destroy(&r->draining);
	return err;
}

void release_destroy(struct release *r)
{
	release_flush(r);
	host_work_destroy(&r->work);
	host_percpu_each(r->cpus, take_buf, &r->empty);
	bufs_free(r->empty);
	host_free(r->scratch, RELEASE_REFS * sizeof(*r->scratch));
	host_mutex_destroy(&r->draining);
}

/*
 * Push side
 */

static u64 in_cpu_buffers(struct release *r)
{
	unsigned int cpu;
	u64 bytes = 0;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++)
		bytes += host_read_once(((struct release_cpu *)
					 host_percpu_peek(r->cpus, cpu))->bytes);
	return bytes;
}

/*
 * Queues a CPU's buffer and gives it an empty one, of which there is one.  The CPU's item and
 * the queue lock are held.
 */
static void replace_buf(struct release *r, struct release_cpu *rc)
{
	struct release_buf *b = rc->buf;

	b->n = rc->n;
	b->bytes = rc->bytes;
	*r->full_tail = b;
	r->full_tail = &b->next;
	r->queued += b->bytes;

	rc->buf = buf_pop(&r->empty);
	r->nempty--;
	rc->n = 0;
	host_write_once(rc->bytes, 0);
}

/* Frees the last references of a CPU's buffer, in place.  The CPU's item is held. */
static void spill(struct release *r, struct release_cpu *rc)
{
	unsigned int n = rc->n < RELEASE_SPILL ? rc->n : RELEASE_SPILL, i;
	u64 *last = rc->buf->ref + rc->n - n, bytes = 0;

	for (i = 0; i < n; i++)
		bytes += pool_ref_class_size(r->pool, last[i]);
	pool_free_bulk(r->pool, last, NULL, n);
	rc->n -= n;
	host_write_once(rc->bytes, rc->bytes - bytes);
	host_a64_add(&r->in_place, n);
	host_a64_add(&r->flush_budget, 1);
}

void release_full(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	u64 limit = host_read_once(r->limit);
	bool fits;

	host_lock(&r->lock);
	fits = r->queued + rc->bytes <= limit && r->nempty > host_nr_cpus();
	if (fits) {
		replace_buf(r, rc);
		todo->kick = r->queued > limit / 2 || r->nempty - host_nr_cpus() < r->spare / 2;
	}
	host_unlock(&r->lock);
	if (!fits) {
		spill(r, rc);
		todo->kick = true;
	}
}

void release_wake(struct release *r, const struct release_todo *todo)
{
	if (todo->kick) {
		host_a64_set(&r->kicked, 1);
		host_work_queue(&r->work);
	} else if (!host_a64_or(&r->armed, 1)) {
		host_work_queue_delayed(&r->work, RELEASE_TIMER_US);
	}
}

/*
 * Drain side.  draining held.
 */

static struct release_buf *pop_full(struct release *r)
{
	struct release_buf *b;

	host_lock(&r->lock);
	b = r->full;
	if (b && !(r->full = b->next))
		r->full_tail = &r->full;
	host_unlock(&r->lock);
	return b;
}

/* A look at every CPU, so not for who pushes. */
static void note_peak(struct release *r)
{
	u64 held;

	host_lock(&r->lock);
	held = r->queued + in_cpu_buffers(r);
	if (held > r->peak)
		host_write_once(r->peak, held);
	host_unlock(&r->lock);
}

static void drain_full(struct release *r)
{
	struct release_buf *b;
	unsigned int bufs = 0;

	while ((b = pop_full(r))) {
		/* More may come in than goes out. */
		if (++bufs % host_nr_cpus() == 0)
			note_peak(r);
		pool_free_bulk(r->pool, b->ref, r->scratch, b->n);
		host_a64_add(&r->deferred, b->n);
		host_lock(&r->lock);
		r->queued -= b->bytes;
		buf_push(&r->empty, b);
		r->nempty++;
		host_unlock(&r->lock);
		host_resched();
	}
}

/* Queues a CPU's partial buffer, whatever the budget: it is drained next. */
static void collect(void *item, void *arg)
{
	struct release_cpu *rc = item;
	struct release *r = arg;

	if (!rc->n)
		return;
	host_lock(&r->lock);
	replace_buf(r, rc);
	host_unlock(&r->lock);
}

static void drain_all(struct release *r)
{
	note_peak(r);
	host_a64_and(&r->armed, 0);
	drain_full(r);
	host_percpu_each(r->cpus, collect, r);
	drain_full(r);
}

void release_flush(struct release *r)
{
	host_a64_add(&r->flush_asked, 1);
	host_mutex_lock(&r->draining);
	drain_all(r);
	host_mutex_unlock(&r->draining);
}

int release_set_limit(struct release *r, u64 bytes)
{
	struct release_buf *list = NULL;
	u32 want = spare_for(r, bytes), have = host_read_once(r->spare);
	bool shrinks;
	int err;

	/* Unlocked, for an allocation may want a flush. */
	err = bufs_alloc(&list, want > have ? want - have : 0);
	if (err)
		goto out;

	host_mutex_lock(&r->draining);
	shrinks = bytes < r->limit;
	set_limit(r, bytes);
	if (shrinks) {
		host_a64_add(&r->flush_asked, 1);
		drain_all(r);
	}
	host_lock(&r->lock);
	while (r->spare < want && list) {
		buf_push(&r->empty, buf_pop(&list));
		r->nempty++;
		host_write_once(r->spare, r->spare + 1);
	}
	/* Those that are queued again by now stay. */
	while (r->spare > want && r->nempty > host_nr_cpus()) {
		buf_push(&list, buf_pop(&r->empty));
		r->nempty--;
		host_write_once(r->spare, r->spare - 1);
	}
	host_unlock(&r->lock);
	host_mutex_unlock(&r->draining);
out:
	bufs_free(list);
	return err;
}

/*
 * Figures
 */

/* Under the lock, since a buffer that goes from its CPU to the queue meanwhile is in neither. */
u64 release_held(struct release *r)
{
	u64 held;

	host_lock(&r->lock);
	held = r->queued + in_cpu_buffers(r);
	host_unlock(&r->lock);
	return held;
}

u64 release_peak(struct release *r)
{
	u64 held = release_held(r), peak = host_read_once(r->peak);

	return held > peak ? held : peak;
}

void release_reset_peak(struct release *r)
{
	host_lock(&r->lock);
	host_write_once(r->peak, r->queued + in_cpu_buffers(r));
	host_unlock(&r->lock);
}

u64 release_meta_bytes(struct release *r)
{
	return ((u64)2 * host_nr_cpus() + host_read_once(r->spare)) * sizeof(struct release_buf);
}
