// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pins.c - see pins.h.
 *
 *     region   | head | pin | pin .. pin |      | pin |  |      64 pages, one bit each in two words
 *     used        1      1     1     1     0       1   0
 *     there       1      1     1     1     1       1   0        (or still in memory)
 *
 * A pin of at most RUN_MOST pages takes the first run of free pages that is long enough, so that
 * the next one gets pages that are in the CPU's caches.  Free ones stay in memory up to IDLE_MOST;
 * what is more goes back to the system, region by region.  A larger pin has a mapping of its own.
 *
 * Lock: pins->lock, a leaf; not held over a system call.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pins.h"

#include <sys/mman.h>

#define PAGES 64u
#define REGION_BYTES ((size_t)PAGES << PAGE_SHIFT)
#define RUN_MOST 16u
#define LOOKS 8u                        /* at regions, before a new one is made */
#define IDLE_MOST ((u64)256 << 10)
#define HEAD ((u64)1)                   /* the page of it */

struct pins_region {
	u64 used, there;                /* pages, a bit each; the head is the first */
	struct pins_region *next, *prev;
};

void pins_init(struct pins *p)
{
	spin_lock_init(&p->lock);
}

void pins_destroy(struct pins *p)
{
	struct pins_region *r, *next;

	for (r = p->regions; r; r = next) {
		next = r->next;
		munmap(r, REGION_BYTES);
	}
}

/* A forked child may read what was pinned, as all that the program had. */
static void *map(size_t bytes, int flags)
{
	void *at = host_user_failing() ? MAP_FAILED :
		   mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static u64 run_of(unsigned int first, unsigned int pages)
{
	return (((u64)1 << pages) - 1) << first;
}

static u64 bytes_of(u64 pages)
{
	return (u64)hweight64(pages) << PAGE_SHIFT;
}

static void link_region(struct pins *p, struct pins_region *r) __must_hold(&p->lock)
{
	r->prev = NULL;
	r->next = p->regions;
	if (r->next)
		r->next->prev = r;
	p->regions = r;
}

static void unlink_region(struct pins *p, struct pins_region *r) __must_hold(&p->lock)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		p->regions = r->next;
	if (r->next)
		r->next->prev = r->prev;
}

/* The first free run of a region, which is taken; 0: there is none. */
static unsigned int take_run(struct pins *p, struct pins_region *r, unsigned int pages)
	__must_hold(&p->lock)
{
	u64 free = ~r->used, fits = free, run;
	unsigned int i, first;

	for (i = 1; i < pages; i++)
		fits &= free >> i;
	if (!fits)
		return 0;
	first = (unsigned int)__builtin_ctzll(fits);
	run = run_of(first, pages);
	host_a64_add(&p->used, bytes_of(run));
	host_a64_add(&p->idle, -bytes_of(run & r->there));
	r->used |= run;
	r->there |= run;
	return first;
}

static void *take_pages(struct pins *p, unsigned int pages, struct pins_region **of)
	__must_hold(&p->lock)
{
	struct pins_region *r;
	unsigned int i, first = 0;

	for (r = p->regions, i = 0; r && i < LOOKS; r = r->next, i++) {
		first = take_run(p, r, pages);
		if (first)
			break;
	}
	*of = r;
	return first ? (char *)r + ((size_t)first << PAGE_SHIFT) : NULL;
}

static bool add_region(struct pins *p)
{
	struct pins_region *r = map(REGION_BYTES, 0);

	if (!r)
		return false;
	/* What is counted is pages. */
	madvise(r, REGION_BYTES, MADV_NOHUGEPAGE);
	r->used = r->there = HEAD;
	spin_lock(&p->lock);
	link_region(p, r);
	host_a64_add(&p->idle, PAGE_SIZE);
	spin_unlock(&p->lock);
	return true;
}

void *pins_take(struct pins *p, size_t bytes, struct pins_place *place)
{
	unsigned int pages;
	void *at;

	place->region = NULL;
	place->bytes = (bytes + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
	if (place->bytes > (size_t)RUN_MOST << PAGE_SHIFT) {
		at = map(place->bytes, MAP_POPULATE);
		if (at)
			host_a64_add(&p->used, place->bytes);
		return at;
	}
	pages = (unsigned int)(place->bytes >> PAGE_SHIFT);
	/* Others may take all of a new region at once. */
	do {
		spin_lock(&p->lock);
		at = take_pages(p, pages, &place->region);
		spin_unlock(&p->lock);
	} while (!at && add_region(p));
	return at;
}

/*
 * Gives free pages of a region back, which count as used meanwhile.  What the system does not take,
 * since it is locked, stays.
 */
static void give_back(struct pins *p, struct pins_region *r, u64 idle)
{
	unsigned int first, pages;
	u64 left, kept = 0;

	for (left = idle; left; left &= ~run_of(first, pages)) {
		first = (unsigned int)__builtin_ctzll(left);
		pages = (unsigned int)__builtin_ctzll(~(left >> first));
		if (madvise((char *)r + ((size_t)first << PAGE_SHIFT),
			    (size_t)pages << PAGE_SHIFT, MADV_DONTNEED) != 0)
			kept |= run_of(first, pages);
	}
	spin_lock(&p->lock);
	r->used &= ~idle;
	r->there |= kept;
	host_a64_add(&p->idle, bytes_of(kept));
	spin_unlock(&p->lock);
}

void pins_give(struct pins *p, void *at, const struct pins_place *place)
{
	struct pins_region *r = place->region;
	bool empty = false;
	u64 idle = 0;

	host_a64_add(&p->used, -(u64)place->bytes);
	if (!r) {
		munmap(at, place->bytes);
		return;
	}
	spin_lock(&p->lock);
	r->used &= ~run_of((unsigned int)((size_t)((char *)at - (char *)r) >> PAGE_SHIFT),
			   (unsigned int)(place->bytes >> PAGE_SHIFT));
	if (host_a64_add(&p->idle, place->bytes) > IDLE_MOST) {
		empty = r->used == HEAD;
		idle = r->there & ~(empty ? 0 : r->used);
		host_a64_add(&p->idle, -bytes_of(idle));
		r->used |= idle;
		r->there &= ~idle;
		if (empty)
			unlink_region(p, r);
	}
	spin_unlock(&p->lock);
	if (empty)
		munmap(r, REGION_BYTES);
	else if (idle)
		give_back(p, r, idle);
}
