// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * release.c - owns detached objects until the pool has them back.
 *
 * Lock order: draining > (nothing of the pool);  owner's per-CPU item > lock;
 * owner's per-CPU item > a page list's per-CPU item (pcp_try).
 *
 * Nothing is lost between a push and the timer: a pusher that sees armed set pushed before
 * the drain that clears it looked at its buffer, since the drain clears armed first and then
 * takes each CPU's item in turn.
 */
#include "release.h"

static struct release_buf *buf_init(void *mem, host_page page)
{
	struct release_buf *b = mem;

	b->next = NULL;
	b->page = page;
	return b;
}

static struct release_buf *buf_alloc(void)
{
	void *mem = host_zalloc(sizeof(struct release_buf));

	return mem ? buf_init(mem, 0) : NULL;
}

static void buf_free(struct release *r, struct release_buf *b)
{
	host_page page;

	if (!b)
		return;
	page = b->page;
	if (page)
		pcp_free(r->pool->pcp, &page, 1);
	else
		host_free(b, sizeof(*b));
}

static void set_limit(struct release *r, u64 bytes)
{
	u64 share = bytes / (2 * host_nr_cpus());

	host_write_once(r->limit, bytes);
	host_write_once(r->buf_bytes, share ? share : 1);
}

/* Gives each CPU its buffer.  Allocation is not for atomic context, so they come in a list. */
static void give_buf(void *item, void *arg)
{
	struct release_cpu *rc = item;
	struct release_buf **list = arg;

	rc->buf = *list;
	*list = rc->buf->next;
	rc->buf->next = NULL;
}

static void take_buf(void *item, void *arg)
{
	struct release_cpu *rc = item;
	struct release_buf **list = arg;

	if (rc->buf) {
		rc->buf->next = *list;
		*list = rc->buf;
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

static void free_list(struct release *r, struct release_buf *list)
{
	while (list) {
		struct release_buf *next = list->next;

		buf_free(r, list);
		list = next;
	}
}

int release_init(struct release *r, struct pool *pool, struct host_percpu *cpus, u64 limit)
{
	struct release_buf *list = NULL;
	unsigned int i;
	int err = -ENOMEM;

	memset(r, 0, sizeof(*r));
	r->pool = pool;
	r->cpus = cpus;
	r->full_tail = &r->full;
	host_lock_init(&r->lock, "ebb_release");
	host_mutex_init(&r->draining);
	set_limit(r, limit);

	r->scratch = host_zalloc(RELEASE_REFS * sizeof(*r->scratch));
	if (!r->scratch)
		goto fail;
	/* For each CPU one in use, one in stock and one more. */
	for (i = 0; i < 3 * host_nr_cpus(); i++) {
		struct release_buf *b = buf_alloc();

		if (!b)
			goto fail;
		b->next = list;
		list = b;
	}
	err = host_work_init(&r->work, drain_work);
	if (err)
		goto fail;
	host_percpu_each(cpus, give_buf, &list);
	/* The drain can always replace each CPU's buffer: pages are what it does not put in stock. */
	while (r->nstock < host_nr_cpus()) {
		struct release_buf *b = list;

		list = b->next;
		b->next = r->stock;
		r->stock = b;
		r->nstock++;
	}
	r->empty = list;
	r->nempty = host_nr_cpus();
	return 0;
fail:
	free_list(r, list);
	host_free(r->scratch, RELEASE_REFS * sizeof(*r->scratch));
	host_mutex_destroy(&r->draining);
	return err;
}

void release_destroy(struct release *r)
{
	struct release_buf *list = NULL;

	release_flush(r);
	host_work_destroy(&r->work);
	host_percpu_each(r->cpus, take_buf, &list);
	free_list(r, list);
	free_list(r, r->empty);
	free_list(r, r->stock);
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

/* An empty buffer, or NULL. */
static struct release_buf *pop(struct release_buf **list)
{
	struct release_buf *b = *list;

	if (b) {
		*list = b->next;
		b->next = NULL;
	}
	return b;
}

/* Queues a CPU's buffer and gives it another.  The CPU's item and the queue lock are held. */
static void replace_buf(struct release *r, struct release_cpu *rc, struct release_buf *next)
{
	struct release_buf *b = rc->buf;
	u64 held;

	b->n = rc->n;
	b->bytes = rc->bytes;
	*r->full_tail = b;
	r->full_tail = &b->next;
	r->nfull++;
	held = r->queued + in_cpu_buffers(r);
	if (held > r->peak)
		host_write_once(r->peak, held);
	host_write_once(r->queued, r->queued + b->bytes);
	rc->buf = next;
	rc->n = 0;
	host_write_once(rc->bytes, 0);
}

void release_full(struct release *r, struct release_cpu *rc, struct release_todo *todo)
{
	struct release_buf *next = NULL;
	host_page page;
	bool fits;

	host_lock(&r->lock);
	fits = r->queued + rc->bytes <= host_read_once(r->limit);
	if (fits && (next = pop(&r->empty)))
		host_write_once(r->nempty, r->nempty - 1);
	host_unlock(&r->lock);

	if (fits && !next) {
		page = pcp_try(r->pool->pcp);
		if (page)
			next = buf_init(host_page_addr(r->pool->src, page), page);
	}
	if (next) {
		host_lock(&r->lock);
		replace_buf(r, rc, next);
		if (r->nfull % RELEASE_KICK == 0)
			todo->kick = true;
		host_unlock(&r->lock);
		return;
	}

	while (rc->n && todo->nspill < RELEASE_SPILL) {
		u64 ref = rc->buf->ref[--rc->n];

		host_write_once(rc->bytes, rc->bytes - pool_ref_class_size(r->pool, ref));
		todo->spill[todo->nspill++] = ref;
	}
	todo->kick = true;
}

void release_finish(struct release *r, struct release_todo *todo)
{
	if (host_likely(!todo->arm && !todo->kick))
		return;
	if (todo->kick) {
		host_a64_set(&r->kicked, 1);
		host_work_queue(&r->work);
	} else if (!host_a64_or(&r->armed, 1)) {
		host_work_queue_delayed(&r->work, RELEASE_TIMER_US);
	}
	if (todo->nspill) {
		pool_free_bulk(r->pool, todo->spill, NULL, todo->nspill);
		host_a64_add(&r->in_place, todo->nspill);
		host_a64_add(&r->flush_budget, 1);
	}
}

/*
 * Drain side.  draining held.
 */

static struct release_buf *pop_full(struct release *r)
{
	struct release_buf *b;

	host_lock(&r->lock);
	b = pop(&r->full);
	if (b) {
		if (!r->full)
			r->full_tail = &r->full;
		r->nfull--;
	}
	host_unlock(&r->lock);
	return b;
}

static void push_empty(struct release *r, struct release_buf *b)
{
	host_lock(&r->lock);
	b->next = r->empty;
	r->empty = b;
	host_write_once(r->nempty, r->nempty + 1);
	host_unlock(&r->lock);
}

static bool wants_empty(struct release *r)
{
	return host_read_once(r->nempty) < RELEASE_RESERVE * host_nr_cpus();
}

static void recycle(struct release *r, struct release_buf *b)
{
	if (!b->page && r->nstock < host_nr_cpus()) {
		b->next = r->stock;
		r->stock = b;
		r->nstock++;
	} else if (!b->page || wants_empty(r)) {
		push_empty(r, b);
	} else {
		buf_free(r, b);
	}
}

/* Makes buffers of pages that were just freed, for those who push meanwhile. */
static void fill_reserve(struct release *r)
{
	host_page page;

	while (wants_empty(r) && (page = pcp_try(r->pool->pcp)))
		push_empty(r, buf_init(host_page_addr(r->pool->src, page), page));
}

/*
 * Sorts the reserve: what is not a page goes into stock as long as that has room; pages go
 * back if drop is set, for a page that is kept keeps its block from the system.
 */
static void sort_reserve(struct release *r, bool drop)
{
	struct release_buf *pages = NULL, **link, *b;

	host_lock(&r->lock);
	for (link = &r->empty; (b = *link);) {
		struct release_buf **to = NULL;

		if (!b->page && r->nstock < host_nr_cpus()) {
			to = &r->stock;
			r->nstock++;
		} else if (b->page && drop) {
			to = &pages;
		}
		if (!to) {
			link = &b->next;
			continue;
		}
		*link = b->next;
		b->next = *to;
		*to = b;
		host_write_once(r->nempty, r->nempty - 1);
	}
	host_unlock(&r->lock);
	free_list(r, pages);
}

static void drain_full(struct release *r)
{
	struct release_buf *b;

	while ((b = pop_full(r))) {
		pool_free_bulk(r->pool, b->ref, r->scratch, b->n);
		host_a64_add(&r->deferred, b->n);
		host_lock(&r->lock);
		host_write_once(r->queued, r->queued - b->bytes);
		host_unlock(&r->lock);
		recycle(r, b);
		fill_reserve(r);
		host_resched();
	}
}

struct collect {
	struct release *r;
	bool again;     /* there was no buffer to put in place of one */
};

/*
 * Queues a CPU's partial buffer, whatever the budget: it is drained next.  An empty one that is
 * a page is queued as well, to be given back.
 */
static void collect(void *item, void *arg)
{
	struct release_cpu *rc = item;
	struct collect *col = arg;
	struct release *r = col->r;
	struct release_buf *next;

	if (!rc->n && !rc->buf->page)
		return;
	next = pop(&r->stock);
	if (!next) {
		col->again = true;
		return;
	}
	r->nstock--;
	host_lock(&r->lock);
	replace_buf(r, rc, next);
	host_unlock(&r->lock);
}

static void drain_all(struct release *r)
{
	struct collect col = { .r = r };

	host_a64_and(&r->armed, 0);
	do {
		drain_full(r);
		/* CPUs have a third of what is not a page, so there is one for each of them. */
		sort_reserve(r, false);
		col.again = false;
		host_percpu_each(r->cpus, collect, &col);
	} while (col.again);
	drain_full(r);
	sort_reserve(r, true);
}

void release_flush(struct release *r)
{
	host_a64_add(&r->flush_asked, 1);
	host_mutex_lock(&r->draining);
	drain_all(r);
	host_mutex_unlock(&r->draining);
}

void release_set_limit(struct release *r, u64 bytes)
{
	bool shrank = bytes < host_read_once(r->limit);

	set_limit(r, bytes);
	if (shrank)
		release_flush(r);
}

/*
 * Figures
 */

u64 release_held(struct release *r)
{
	return host_read_once(r->queued) + in_cpu_buffers(r);
}

u64 release_peak(struct release *r)
{
	u64 held = release_held(r), peak = host_read_once(r->peak);

	return held > peak ? held : peak;
}

void release_reset_peak(struct release *r)
{
	host_lock(&r->lock);
	host_write_once(r->peak, release_held(r));
	host_unlock(&r->lock);
}

u64 release_meta_bytes(struct release *r)
{
	(void)r;
	return (u64)3 * host_nr_cpus() * sizeof(struct release_buf);
}
