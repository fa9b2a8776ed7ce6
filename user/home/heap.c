// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * heap.c - see heap.h.
 *
 *   region   | struct region | piece | piece | ...        free |      256 KiB, so aligned
 *                                             ^ used
 *
 * Pieces are cut from the current region, one after the other.  A freed one is not used again: what
 * is made together, for a store, is freed together, and a region in which nothing lives is
 * unmapped.  A piece of a page or more has its pages alone, and they go back to the system when it
 * is freed: codec contexts come and go with the threads, beside what lives as long as the store.
 * So the price of a region that is not current are its addresses, and its dead pieces of less than
 * a page.
 *
 * In a forked child the heap is wiped, and so are its regions, which take no memory there.
 *
 * Lock: heap->lock, a leaf; not held over a system call.  Regions but for used are guarded by it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "heap.h"

#include <sys/mman.h>

#include "host.h"

#define REGION_BYTES (HEAP_STEP / 2)
/* A page of most systems; where it is larger less goes back (host_user_discard()). */
#define HEAP_PAGE ((size_t)4096)

struct region {
	size_t used;            /* bytes, from the region's begin */
	size_t live;            /* pieces */
};

struct heap {
	spinlock_t lock;
	struct region *current; /* or NULL */
};

_Static_assert(HEAP_MOST <= REGION_BYTES / 2, "a region has room for the largest piece");

static void *heap;              /* a struct heap; see host_user_wiped() */

/* A mapping begins anywhere: of twice the size, the part that begins right is kept. */
static struct region *region_map(void)
{
	char *p = host_user_map(HEAP_STEP, PROT_READ | PROT_WRITE);
	size_t before;
	struct region *r;

	if (!p)
		return NULL;
	before = -(uintptr_t)p & (REGION_BYTES - 1);
	r = (struct region *)(void *)(p + before);
	if (before)
		munmap(p, before);
	munmap(p + before + REGION_BYTES, HEAP_STEP - REGION_BYTES - before);
	/* Small pages, for a huge one over several regions would not go with one of them. */
	madvise(r, REGION_BYTES, MADV_NOHUGEPAGE);
	madvise(r, REGION_BYTES, MADV_WIPEONFORK);
	host_user_lsan_root(r, REGION_BYTES, true);
	r->used = sizeof(*r);
	return r;
}

static void region_unmap(struct region *r)
{
	if (!r)
		return;
	host_user_lsan_root(r, REGION_BYTES, false);
	munmap(r, REGION_BYTES);
}

/* Bytes of the pages that a piece has alone. */
static size_t own_pages(size_t bytes)
{
	return bytes < HEAP_PAGE ? 0 : (bytes + HEAP_PAGE - 1) & ~(HEAP_PAGE - 1);
}

/* A piece of the current region, or NULL. */
static void *cut(struct heap *h, size_t bytes, size_t align) __must_hold(&h->lock)
{
	struct region *r = h->current;
	size_t at;

	if (!r)
		return NULL;
	if (own_pages(bytes)) {
		align = align > HEAP_PAGE ? align : HEAP_PAGE;
		bytes = own_pages(bytes);
	}
	at = (r->used + align - 1) & ~(align - 1);
	if (bytes > REGION_BYTES - at)
		return NULL;
	r->used = at + bytes;
	r->live++;
	return (char *)r + at;
}

void *heap_alloc(size_t bytes, size_t align)
{
	struct heap *h = host_user_wiped(&heap, sizeof(*h));
	struct region *new = NULL, *dead;
	void *p;

	if (!h)
		return NULL;
	for (;;) {
		dead = NULL;
		spin_lock(&h->lock);
		p = cut(h, bytes, align);
		if (!p && new) {
			/* Another may have made one meanwhile: this one has more room. */
			if (h->current && !h->current->live)
				dead = h->current;
			h->current = new;
			new = NULL;
			p = cut(h, bytes, align);
		}
		spin_unlock(&h->lock);
		region_unmap(dead);
		if (p)
			break;
		new = region_map();
		if (!new)
			return NULL;
	}
	region_unmap(new);
	return p;
}

void heap_free(void *p, size_t bytes)
{
	struct region *r = (struct region *)((uintptr_t)p & ~(uintptr_t)(REGION_BYTES - 1));
	struct heap *h = heap;
	bool dead;

	(void)host_user_discard(p, (char *)p + own_pages(bytes));
	spin_lock(&h->lock);
	dead = !--r->live;
	if (dead && h->current == r)
		h->current = NULL;
	spin_unlock(&h->lock);
	if (dead)
		region_unmap(r);
}
