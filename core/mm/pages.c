// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pages.c - owns the reserve.
 *
 * pages_alloc() waits, if it may, before it draws on the reserve: a caller that can have a page by
 * waiting does not take one from a caller that cannot.
 *
 * Lock order: a reserve's lock is a leaf; no two of them are held at a time, and the source is not
 * called under one.
 */
#include "pages.h"

/* ---- one reserve ---- */

/* Adds as many of n pages as there is room for; returns how many. */
static unsigned int pages_reserve_put(struct pages_reserve *r, const host_page *page,
				      unsigned int n)
{
	if (!r || !pages_reserve_is_short(r))
		return 0;
	spin_lock(&r->lock);
	host_assert(r->count <= r->size);
	n = pages_at_most(n, r->size - r->count);
	memcpy(r->page + r->count, page, n * sizeof(*page));
	WRITE_ONCE(r->count, r->count + n);
	spin_unlock(&r->lock);
	return n;
}

/*
 * Takes up to n pages; returns how many; 0: it is empty.  Bad ones go back to the source, which
 * drops them.  They are looked for here and not in pages_reserve_put(): a free should not touch
 * what the kernel keeps of a page, and the taker touches it anyway.
 */
static unsigned int pages_reserve_take(struct pages_reserve *r, struct host_pages *src,
				       host_page *out, unsigned int n)
{
	unsigned int k, got = 0;

	while (r && !got && READ_ONCE(r->count)) {
		spin_lock(&r->lock);
		k = pages_at_most(n, r->count);
		WRITE_ONCE(r->count, r->count - k);
		memcpy(out, r->page + r->count, k * sizeof(*out));
		spin_unlock(&r->lock);
		while (got < k) {
			if (likely(!host_page_is_bad(src, out[got]))) {
				got++;
			} else {
				host_pages_free(src, &out[got], 1);
				out[got] = out[--k];
			}
		}
	}
	return got;
}

/* Fills r, unless it is NULL; how: as host_pages_alloc().  True: it is still short. */
static bool pages_reserve_fill(struct pages_reserve *r, struct host_pages *src, unsigned int how)
{
	host_page page[PAGES_BATCH] __uninitialized;
	unsigned int turns, want, k, in;

	/* A turn adds at least a page.  Threads that draw meanwhile do not prolong the loop. */
	for (turns = r ? r->size : 0; turns; turns--) {
		/*
		 * The worker clears host_work.wake and then looks at count; a thread that draws
		 * writes count and then looks at wake.  So the worker takes the lock even if r
		 * seems full: a thread that draws after this hold sees that the worker is not
		 * queued, and queues it.
		 */
		spin_lock(&r->lock);
		want = pages_at_most(r->size - r->count, PAGES_BATCH);
		spin_unlock(&r->lock);
		if (!want)
			return false;
		k = host_pages_alloc(src, page, want, numa_mem_id(), how);
		if (!k)
			break;
		in = pages_reserve_put(r, page, k);
		if (in < k)
			host_pages_free(src, page + in, k - in);
		cond_resched();
	}
	return r && pages_reserve_is_short(r);
}

static bool pages_fill(struct pages *s, unsigned int how)
{
	bool again = pages_reserve_fill(&s->own, s->src, how);

	return pages_reserve_fill(s->shared, s->src, how) || again;
}

bool pages_refill(struct pages *s)
{
	return pages_fill(s, 0);
}

/* ---- allocation and free ---- */

int pages_alloc(struct pages *s, host_page *out, unsigned int n, unsigned int node,
		unsigned int how)
{
	unsigned int got, k;

	if (node == NUMA_NO_NODE)
		node = numa_mem_id();
	for (got = 0; got < n; got += k) {
		k = host_pages_alloc(s->src, out + got, n - got, node, how);
		if (likely(k))
			continue;
		if (how)
			k = pages_reserve_take(s->shared, s->src, out + got, n - got);
		if (!k && how)
			k = pages_reserve_take(&s->own, s->src, out + got, n - got);
		if (!k) {
			pages_free(s, out, got);
			return -ENOMEM;
		}
	}
	return 0;
}

void pages_free(struct pages *s, const host_page *page, unsigned int n)
{
	unsigned int k = pages_reserve_put(&s->own, page, n);

	host_assert(!n || (page[0] && page[n - 1]));
	k += pages_reserve_put(s->shared, page + k, n - k);
	if (k < n)
		host_pages_free(s->src, page + k, n - k);
}

/* ---- life ---- */

int pages_reserve_init(struct pages_reserve *r, unsigned int size)
{
	memset(r, 0, sizeof(*r));
	spin_lock_init(&r->lock);
	if (size)
		r->page = host_zalloc(size * sizeof(*r->page));
	if (size && !r->page)
		return -ENOMEM;
	r->size = size;
	return 0;
}

void pages_reserve_destroy(struct pages_reserve *r, struct host_pages *src)
{
	u32 at, k;

	for (at = 0; at < r->count; at += k) {
		k = pages_at_most(r->count - at, PAGES_BATCH);
		host_pages_free(src, r->page + at, k);
	}
	host_free(r->page, r->size * sizeof(*r->page));
	memset(r, 0, sizeof(*r));
}

int pages_init(struct pages *s, struct host_pages *src, unsigned int reserve,
	       struct pages_reserve *shared)
{
	int err = pages_reserve_init(&s->own, reserve);

	if (err)
		return err;
	s->src = src;
	s->shared = shared;
	pages_fill(s, HOST_MAY_WAIT);
	return 0;
}

void pages_destroy(struct pages *s)
{
	pages_reserve_destroy(&s->own, s->src);
}
