/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zone.c - the page source of the user-space home.  zone_give.c gives on what is free.
 *
 * Owns: extents of address space, the 2 MiB blocks in them, taken in ascending order, and for each
 * block which of its pages are free.
 *
 *   extent        0    1      2           3                   k: 2^k blocks, if there was room
 *   block     |   1 | 2 3 | 4 5 6 7 | 8 9 10 11 ..15 |
 *                     opened ^ next    committed ^ end: accessible      (page 0 is none)
 *
 *   free      one bit a page: it is in the zone's hands and may be handed out
 *   gone      subset of free: its memory was given on (or never touched), a touch faults in a
 *             zeroed page
 *
 * No block is ever a huge page: extents are MADV_NOHUGEPAGE.  So a page that is given on is gone
 * from the process at once, nothing fills it again by itself, and an extent is two mappings at
 * most.  docs/internals/design.md tells what huge pages cost here.
 *
 * Which block next is answered by two sets of blocks (zone_set.h):
 *
 *   res    resident > 0      allocated from first, lowest block first; given on from the highest
 *   gone   free > resident   allocated from when res is empty
 *
 * Pages in limbo are those trim works on with the lock dropped: neither free nor out.
 *   sum of free          == free         sum of resident == free_res
 *   blocks opened * PPB  == out + free + limbo
 *
 * A child of fork() has no extents.
 *
 * Locks: commit (outer; makes extents and makes them accessible, calls the system) > lock (leaf).
 * Every field below lock is guarded by it.  With ASan free pages are poisoned: a page is poisoned
 * before it is free for others, unpoisoned once it is ours alone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "heap.h"
#include "zone_parts.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(HOST_USER_ASAN)
#include <sanitizer/asan_interface.h>
#define zone_poison(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define zone_unpoison(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define zone_poison(p, n) ((void)(p), (void)(n))
#define zone_unpoison(p, n) ((void)(p), (void)(n))
#endif

#define COMMIT_BLOCKS 16u                    /* made accessible by one system call, at most */

/* The block after b, which may be the first one of the next extent. */
static u32 block_after(const struct zone *z, u32 b)
{
	u32 k = high_bit(b);

	return b + 1 - (1u << k) < z->extent[k].blocks ? b + 1 : 2u << k;
}

/* ---- one block's counts; the sets follow from them ---- */

void zone_block_change(struct zone *z, u32 b, int d_free, int d_res) __must_hold(&z->lock)
{
	struct block *k = block_of(z, b);
	u16 nfree = k->nfree, resident = k->resident;
	bool was, is;

	k->nfree = (u16)(nfree + d_free);
	k->resident = (u16)(resident + d_res);
	z->free += (u64)(s64)d_free;
	z->free_res += (u64)(s64)d_res;
	if (z->free_res < z->idle)
		z->idle = z->free_res;

	if (!resident != !k->resident) {
		if (k->resident)
			set_add(&z->res, b);
		else
			set_del(&z->res, b);
	}
	was = nfree > resident;
	is = k->nfree > k->resident;
	if (was != is) {
		if (is)
			set_add(&z->gone, b);
		else
			set_del(&z->gone, b);
	}
}

/* ---- taking pages ---- */

/* Hands out up to want of block b's free pages that are resident (or, if gone, are not). */
static u32 block_take(struct zone *z, u32 b, bool gone, host_page *out, u32 want)
	__must_hold(&z->lock)
{
	struct block *k = block_of(z, b);
	u32 w, n = 0;

	for (w = 0; w < WORDS && n < want; w++) {
		u64 have = gone ? k->gone[w] : k->free[w] & ~k->gone[w], left = have;
		host_page first = (b << PPB_SHIFT) + (w << 6);

		while (left && n < want) {
			out[n++] = first + low_bit(left);
			left &= left - 1;
		}
		k->free[w] &= ~(have ^ left);
		if (gone)
			k->gone[w] &= ~(have ^ left);
	}
	zone_block_change(z, b, -(int)n, gone ? 0 : -(int)n);
	return n;
}

/* Whether one more block may be opened. */
static bool zone_may_grow(const struct zone *z) __must_hold(&z->lock)
{
	u32 limit = READ_ONCE(z->pub.max_blocks);

	return z->next < BLOCKS && (!limit || z->opened < limit);
}

static bool block_open(struct zone *z) __must_hold(&z->lock)
{
	u32 b = z->next, w;

	if (b >= z->committed || !zone_may_grow(z))
		return false;
	for (w = 0; w < WORDS; w++)
		block_of(z, b)->free[w] = block_of(z, b)->gone[w] = WORD_FULL;
	z->next = block_after(z, b);
	z->opened++;
	zone_block_change(z, b, PPB, 0);
	return true;
}

/*
 * Reserves extent k, or as much of it as there is address space for.  Less than an eighth is none:
 * the numbers of what is missing are lost, and moments of want must not use them up.
 */
static bool extent_make(struct zone *z, u32 k)
{
	struct extent *e = &z->extent[k];
	u32 blocks = 1u << k, least = k > 3 ? 1u << (k - 3) : 1;
	size_t bytes = (size_t)blocks << ZONE_BLOCK_SHIFT;
	char *at = host_user_map(bytes, PROT_NONE);

	while (!at && blocks > least) {
		blocks /= 2;
		bytes /= 2;
		at = host_user_map(bytes, PROT_NONE);
	}
	if (!at)
		return false;
	e->block = host_zalloc(blocks * sizeof(*e->block));
	if (!e->block) {
		munmap(at, bytes);
		return false;
	}
	/* Kernels without huge pages know no such advice, and need none. */
	madvise(at, bytes, MADV_NOHUGEPAGE);
	madvise(at, bytes, MADV_DONTFORK);
	z->pub.bias[k + PPB_SHIFT] = (uintptr_t)at - ((uintptr_t)1 << (k + ZONE_BLOCK_SHIFT));
	e->blocks = blocks;
	return true;
}

/* Makes n blocks from b on accessible. */
static bool blocks_commit(struct zone *z, u32 b, u32 n)
{
	size_t bytes = (size_t)n << ZONE_BLOCK_SHIFT;

	if (mprotect(block_addr(z, b), bytes, PROT_READ | PROT_WRITE))
		return false;
	/* In a process that locks all its memory they are all there now. */
	zone_give_blocks(z, b, n);
	zone_poison(block_addr(z, b), bytes);
	spin_lock(&z->lock);
	z->committed = b + n;
	spin_unlock(&z->lock);
	return true;
}

/* Makes more blocks accessible.  False: there are no more, or the system refused. */
static bool zone_commit(struct zone *z)
{
	u32 b, k, n, first;
	bool need, may;

	mutex_lock(&z->commit);
	spin_lock(&z->lock);
	b = z->next;
	may = zone_may_grow(z);
	need = may && b >= z->committed;
	spin_unlock(&z->lock);
	if (need) {
		k = high_bit(b);
		first = 1u << k;
		may = z->extent[k].blocks || extent_make(z, k);
		if (may) {
			/* As much again as there is, so that a small store stays small. */
			n = b < COMMIT_BLOCKS ? b : COMMIT_BLOCKS;
			if (n > first + z->extent[k].blocks - b)
				n = first + z->extent[k].blocks - b;
			while (!(may = blocks_commit(z, b, n)) && n > 1)
				n /= 2;
		}
	}
	mutex_unlock(&z->commit);
	return may;
}

/*
 * Takes up to n pages.  The last *gone of them are gone: at most as many as *gone was before.  What
 * else is missing, no block that is open or committed can give.
 */
static u32 zone_take(struct zone *z, host_page *out, u32 n, u32 *gone) __must_hold(&z->lock)
{
	u32 b, k = 0, most = *gone, fresh = 0, got;

	while (k < n) {
		if ((b = set_first(&z->res)) != 0) {
			k += block_take(z, b, false, out + k, n - k);
		} else if (fresh == most) {
			break;
		} else if ((b = set_first(&z->gone)) != 0) {
			got = n - k < most - fresh ? n - k : most - fresh;
			got = block_take(z, b, true, out + k, got);
			fresh += got;
			k += got;
		} else if (!block_open(z)) {
			break;
		}
	}
	WRITE_ONCE(z->out, z->out + k);
	*gone = fresh;
	return k;
}

/*
 * Pages that are gone would fault one by one.  So the system fills as many as lie side by side, but
 * no more at once than delay nobody much: 10 us, where 512 KiB took 150.
 */
#define FILL_BYTES 32768u

/* How many pages that are gone are filled at once; 0: none. */
static u32 fill_pages(const struct zone *z)
{
	if (z->page > PAGE_SIZE || READ_ONCE(z->advise.no_fill))
		return 0;
	return PAGE_SIZE < FILL_BYTES ? FILL_BYTES / PAGE_SIZE : 1;
}

static void fill_ahead(struct zone *z, const host_page *page, u32 n)
{
	u32 from = 0, i;

	for (i = 1; i <= n; i++) {
		size_t bytes = (size_t)(i - from) << PAGE_SHIFT;

		if (i < n && page[i] == page[i - 1] + 1)
			continue;
		if (bytes > z->page)
			advise_fill(&z->advise, host_page_addr(&z->pub, page[from]), bytes);
		from = i;
	}
}

/*
 * Who does not wait gets what is committed: more takes a sleeping lock and a system call.  Of what
 * is gone it gets what is filled at once, and fills it.
 */
unsigned int zone_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int how)
{
	struct zone *z = zone_of(src);
	u32 k = 0, fill = how & HOST_MAY_WAIT ? 0 : fill_pages(z), gone;
	unsigned int turns = 0;
	bool limbo;

	if (host_user_failing())
		return 0;
	for (;;) {
		gone = fill ? fill : n;
		spin_lock(&z->lock);
		k += zone_take(z, out + k, n - k, &gone);
		limbo = z->limbo != 0;
		spin_unlock(&z->lock);
		if (likely(k == n) || !(how & HOST_MAY_WAIT))
			break;
		if (zone_commit(z))
			continue;
		/* What trim has in its hands comes back: that is not a reason to fail. */
		if (!limbo)
			break;
		host_user_relax(&turns);
	}
#if defined(HOST_USER_ASAN)
	for (n = 0; n < k; n++)
		zone_unpoison(host_page_addr(src, out[n]), PAGE_SIZE);
#endif
	if (fill && gone)
		fill_ahead(z, out + k - gone, gone);
	return k;
}

/* ---- giving pages back ---- */

static bool is_open(const struct zone *z, u32 b) __must_hold(&z->lock)
{
	return b && b < z->next && b - (1u << high_bit(b)) < z->extent[high_bit(b)].blocks;
}

static void zone_put(struct zone *z, const host_page *pages, u32 n) __must_hold(&z->lock)
{
	u32 i = 0, done = 0;

	while (i < n) {
		u32 b = pages[i] >> PPB_SHIFT, was = i, bad = 0;
		u64 *free;

		if (WARN_ONCE(!is_open(z, b), "a page that is not the zone's is freed\n")) {
			i++;
			continue;
		}
		free = block_of(z, b)->free;
		do {
			u32 at = pages[i] & (PPB - 1);
			u64 bit = (u64)1 << (at & 63);

			bad += (u32)(free[at >> 6] >> (at & 63) & 1);
			free[at >> 6] |= bit;
		} while (++i < n && pages[i] >> PPB_SHIFT == b);
		WARN_ONCE(bad != 0, "a page is freed twice\n");
		zone_block_change(z, b, (int)(i - was - bad), (int)(i - was - bad));
		done += i - was - bad;
	}
	WRITE_ONCE(z->out, z->out - done);
	z->holds++;
	if (n > z->max_pages)
		z->max_pages = n;
}

void zone_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	struct zone *z = zone_of(src);

	if (unlikely(!n))
		return;
#if defined(HOST_USER_ASAN)
	for (u32 i = 0; i < n; i++)
		zone_poison(host_page_addr(src, pages[i]), PAGE_SIZE);
#endif
	spin_lock(&z->lock);
	zone_put(z, pages, n);
	spin_unlock(&z->lock);
}

/* ---- life ---- */

int zone_open(struct host_pages **src)
{
	struct zone *z = host_zalloc(sizeof(*z));
	long page = sysconf(_SC_PAGESIZE);

	if (!z)
		return -ENOMEM;
	z->sets = host_user_map(2 * set_bytes(BLOCKS), PROT_READ | PROT_WRITE);
	if (!z->sets) {
		host_free(z, sizeof(*z));
		return -ENOMEM;
	}
	set_place(&z->gone, set_place(&z->res, z->sets, BLOCKS), BLOCKS);
	z->page = page > 0 ? (size_t)page : PAGE_SIZE;
	mutex_init(&z->commit);
	spin_lock_init(&z->lock);
	z->next = z->committed = 1;
	*src = &z->pub;
	return 0;
}

int zone_try_out(int (*fn)(void *arg), void *arg)
{
	void *p = host_user_map(ZONE_BLOCK_BYTES + HEAP_STEP, PROT_READ | PROT_WRITE);
	int err;

	if (!p)
		return -ENOMEM;
	err = fn ? fn(arg) : 0;
	munmap(p, ZONE_BLOCK_BYTES + HEAP_STEP);
	return err;
}

void zone_close(struct host_pages *src)
{
	struct zone *z = zone_of(src);
	u32 k;

	if (!z)
		return;
	for (k = 0; k < EXTENTS && z->extent[k].blocks; k++) {
		size_t bytes = (size_t)z->extent[k].blocks << ZONE_BLOCK_SHIFT;

		zone_unpoison(block_addr(z, 1u << k), bytes);
		munmap(block_addr(z, 1u << k), bytes);
		host_free(z->extent[k].block, z->extent[k].blocks * sizeof(struct block));
	}
	mutex_destroy(&z->commit);
	munmap(z->sets, 2 * set_bytes(BLOCKS));
	host_free(z, sizeof(*z));
}

/* ---- figures and checks ---- */

u64 zone_pages_out(struct host_pages *src)
{
	return READ_ONCE(zone_of(src)->out);
}

void zone_stat(struct host_pages *src, struct zone_stat *stat)
{
	struct zone *z = zone_of(src);

	spin_lock(&z->lock);
	*stat = (struct zone_stat){
		.pages_out = z->out,
		.free_pages = z->free,
		.free_resident = z->free_res,
		.blocks = z->opened,
		.resident_bytes = (z->out + z->free_res + z->limbo) << PAGE_SHIFT,
		.holds = z->holds,
		.max_pages_per_hold = z->max_pages,
	};
	spin_unlock(&z->lock);
}

static const char *block_check(const struct zone *z, u32 b) __must_hold(&z->lock)
{
	const struct block *k = block_of(z, b);
	u32 w, free = 0, res = 0;

	for (w = 0; w < WORDS; w++) {
		if (k->gone[w] & ~k->free[w])
			return "a page is gone but not free";
		if (k->free[w] & ~WORD_FULL)
			return "a bit past the block's pages is set";
		free += (u32)hweight64(k->free[w]);
		res += (u32)hweight64(k->free[w] & ~k->gone[w]);
	}
	if (free != k->nfree)
		return "nfree is not the number of free bits";
	if (res != k->resident)
		return "resident is not the number of resident free bits";
	if (set_has(&z->res, b) != (res > 0) || set_has(&z->gone, b) != (free > res))
		return "a set has a block it should not have, or lacks one";
	return NULL;
}

static const char *zone_check_locked(const struct zone *z, u32 *at) __must_hold(&z->lock)
{
	u64 free = 0, res = 0, blocks = 0;
	const char *bad;
	u32 b;

	for (b = 1; b < z->next; b = block_after(z, b)) {
		*at = b;
		bad = block_check(z, b);
		if (bad)
			return bad;
		free += block_of(z, b)->nfree;
		res += block_of(z, b)->resident;
		blocks++;
	}
	*at = 0;
	if (free != z->free || res != z->free_res || blocks != z->opened)
		return "a total is not the sum over the blocks";
	if (z->opened * PPB != z->out + z->free + z->limbo)
		return "pages out, free and in limbo are not all pages";
	if (z->idle > z->free_res)
		return "more is idle than is there";
	return NULL;
}

int zone_check(struct host_pages *src, char *why, size_t len)
{
	struct zone *z = zone_of(src);
	const char *bad;
	u32 at = 0;

	spin_lock(&z->lock);
	bad = zone_check_locked(z, &at);
	spin_unlock(&z->lock);
	if (!bad)
		return 0;
	if (len)
		snprintf(why, len, "zone: block %u: %s", at, bad);
	return -EUCLEAN;
}
