/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zone.c - the page source of the user-space home.
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
 * most.  docs/design.md tells what huge pages cost here.
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
#include "zone.h"
#include "zone_set.h"

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

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24              /* since Linux 5.18 */
#endif

#define PPB_SHIFT (ZONE_BLOCK_SHIFT - HOST_PAGE_SHIFT)
#define PPB (1u << PPB_SHIFT)                /* pages per block */
#define WORDS ((PPB + 63) / 64)              /* of one block's bitmap */
#define WORD_FULL (PPB >= 64 ? ~(u64)0 : ((u64)1 << (PPB & 63)) - 1)

#define EXTENTS 19	/* the k-th has blocks 2^k to 2^(k+1) - 1: 1 TiB in all */
#define BLOCKS (1u << EXTENTS)          /* numbers of blocks */
#define COMMIT_BLOCKS 16u                    /* made accessible by one system call, at most */

_Static_assert((u64)BLOCKS << PPB_SHIFT <= UINT32_MAX, "host_page is u32");

/* A time t >= 16 is in bucket (log2(t) - 3) * 16 + the four bits after t's highest. */
#define HIST_BUCKETS 640u                    /* up to 2^43 ns */

struct block {
	u64 free[WORDS];
	u64 gone[WORDS];
	u16 nfree;                   /* popcount(free) */
	u16 resident;                /* popcount(free & ~gone) */
};

struct extent {
	struct block *block;         /* [blocks] */
	u32 blocks;                  /* 0: not there */
};

struct zone {
	struct host_pages pub;       /* first: host_page_addr() reads it */
	struct extent extent[EXTENTS];     /* commit; fixed once committed is past it */
	u64 *hist;                   /* of hold times, HIST_BUCKETS; lock */
	struct block_set res, gone;
	void *sets;                  /* their words: one lazily touched mapping */
	u32 step;	/* pages of this size make a page of the system: 1 if not smaller */
	bool locked;                 /* the process was seen to lock its memory */
	host_mutex_t commit;

	_Alignas(HOST_CACHELINE) host_lock_t lock;
	u32 next;                    /* block to open */
	u32 committed;               /* end of what is accessible */
	u64 opened;                  /* blocks */
	u64 out, free, free_res, limbo;
	u64 idle;                    /* least free_res since the last decay tick */
	u64 holds, max_pages;
	u64 timed_holds, max_ns;
};

static struct zone *zone_of(struct host_pages *src)
{
	return (struct zone *)src;
}

static char *block_addr(const struct zone *z, u32 b)
{
	return (char *)(z->pub.bias[high_bit(b) + PPB_SHIFT] + ((size_t)b << ZONE_BLOCK_SHIFT));
}

static struct block *block_of(const struct zone *z, u32 b)
{
	u32 k = high_bit(b);

	return &z->extent[k].block[b - (1u << k)];
}

/* The block after b, which may be the first one of the next extent. */
static u32 block_after(const struct zone *z, u32 b)
{
	u32 k = high_bit(b);

	return b + 1 - (1u << k) < z->extent[k].blocks ? b + 1 : 2u << k;
}

/* ---- one block's counts; the sets follow from them ---- */

/* Pages join (> 0) or leave (< 0) block b's free ones. */
static void block_change(struct zone *z, u32 b, int d_free, int d_res) HOST_REQUIRES(z->lock)
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
	HOST_REQUIRES(z->lock)
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
	block_change(z, b, -(int)n, gone ? 0 : -(int)n);
	return n;
}

/* Whether one more block may be opened. */
static bool zone_may_grow(const struct zone *z) HOST_REQUIRES(z->lock)
{
	u32 limit = host_read_once(z->pub.max_blocks);

	return z->next < BLOCKS && (!limit || z->opened < limit);
}

static bool block_open(struct zone *z) HOST_REQUIRES(z->lock)
{
	u32 b = z->next, w;

	if (b >= z->committed || !zone_may_grow(z))
		return false;
	for (w = 0; w < WORDS; w++)
		block_of(z, b)->free[w] = block_of(z, b)->gone[w] = WORD_FULL;
	z->next = block_after(z, b);
	z->opened++;
	block_change(z, b, PPB, 0);
	return true;
}

static void *map_quietly(size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
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
	char *at = map_quietly(bytes, PROT_NONE);

	while (!at && blocks > least) {
		blocks /= 2;
		bytes /= 2;
		at = map_quietly(bytes, PROT_NONE);
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

/* The system takes a range of whole pages.  False: it does not. */
static bool give_on(struct zone *z, char *at, size_t bytes)
{
	if (!madvise(at, bytes, MADV_DONTNEED))
		return true;
	if (madvise(at, bytes, MADV_DONTNEED_LOCKED))
		return false;
	if (!host_read_once(z->locked))
		host_write_once(z->locked, true);
	return true;
}

/* Makes n blocks from b on accessible. */
static bool blocks_commit(struct zone *z, u32 b, u32 n)
{
	size_t bytes = (size_t)n << ZONE_BLOCK_SHIFT;

	if (mprotect(block_addr(z, b), bytes, PROT_READ | PROT_WRITE))
		return false;
	/* In a process that locks all its memory they are all there now. */
	give_on(z, block_addr(z, b), bytes);
	zone_poison(block_addr(z, b), bytes);
	host_lock(&z->lock);
	z->committed = b + n;
	host_unlock(&z->lock);
	return true;
}

/* Makes more blocks accessible.  False: there are no more, or the system refused. */
static bool zone_commit(struct zone *z)
{
	u32 b, k, n, first;
	bool need, may;

	host_mutex_lock(&z->commit);
	host_lock(&z->lock);
	b = z->next;
	may = zone_may_grow(z);
	need = may && b >= z->committed;
	host_unlock(&z->lock);
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
	host_mutex_unlock(&z->commit);
	return may;
}

/* Takes up to n pages; what is missing, no block that is open or committed can give. */
static u32 zone_take(struct zone *z, host_page *out, u32 n) HOST_REQUIRES(z->lock)
{
	u32 b, k = 0;

	while (k < n) {
		if ((b = set_first(&z->res)) != 0)
			k += block_take(z, b, false, out + k, n - k);
		else if ((b = set_first(&z->gone)) != 0)
			k += block_take(z, b, true, out + k, n - k);
		else if (!block_open(z))
			break;
	}
	z->out += k;
	return k;
}

/* Who does not wait gets what is committed: more takes a sleeping lock and a system call. */
unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int node, unsigned int how)
{
	struct zone *z = zone_of(src);
	unsigned int turns = 0;
	u32 k = 0;
	bool limbo;

	(void)node;
	if (host_user_failing())
		return 0;
	for (;;) {
		host_lock(&z->lock);
		k += zone_take(z, out + k, n - k);
		limbo = z->limbo != 0;
		host_unlock(&z->lock);
		if (host_likely(k == n) || !(how & HOST_MAY_WAIT))
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
		zone_unpoison(host_page_addr(src, out[n]), HOST_PAGE_SIZE);
#endif
	return k;
}

/* ---- giving pages back ---- */

static u32 hist_bucket(u64 t)
{
	u32 e, i;

	if (t < 16)
		return (u32)t;
	e = high_bit(t);
	i = (e - 3) * 16 + (u32)(t >> (e - 4) & 15);
	return i < HIST_BUCKETS ? i : HIST_BUCKETS - 1;
}

/* The longest time that is in bucket i. */
static u64 hist_top(u32 i)
{
	u32 e = i / 16 + 3;

	return i < 16 ? i : ((u64)(i % 16 + 17) << (e - 4)) - 1;
}

static bool is_open(const struct zone *z, u32 b) HOST_REQUIRES(z->lock)
{
	return b && b < z->next && b - (1u << high_bit(b)) < z->extent[high_bit(b)].blocks;
}

static void zone_put(struct zone *z, const host_page *pages, u32 n) HOST_REQUIRES(z->lock)
{
	u32 i = 0, done = 0;

	while (i < n) {
		u32 b = pages[i] >> PPB_SHIFT, was = i, bad = 0;
		u64 *free;

		if (host_warn_on(!is_open(z, b), "a page that is not the zone's is freed")) {
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
		host_warn_on(bad != 0, "a page is freed twice");
		block_change(z, b, (int)(i - was - bad), (int)(i - was - bad));
		done += i - was - bad;
	}
	z->out -= done;
	z->holds++;
	if (n > z->max_pages)
		z->max_pages = n;
}

void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	struct zone *z = zone_of(src);

	if (host_unlikely(!n))
		return;
#if defined(HOST_USER_ASAN)
	for (u32 i = 0; i < n; i++)
		zone_poison(host_page_addr(src, pages[i]), HOST_PAGE_SIZE);
#endif
	host_lock(&z->lock);
	if (host_unlikely(host_read_once(src->measure))) {
		u64 t = host_now_ns();

		zone_put(z, pages, n);
		t = host_now_ns() - t;
		z->timed_holds++;
		z->hist[hist_bucket(t)]++;
		if (t > z->max_ns)
			z->max_ns = t;
	} else {
		zone_put(z, pages, n);
	}
	host_unlock(&z->lock);
}

/* ---- giving memory on to the system ---- */

/*
 * At most *max of the pages of block b that can be given on: free, resident (or gone), and, where
 * the system's pages are larger than ours, filling whole pages of the system.
 */
static u32 block_limbo(struct zone *z, u32 b, bool gone, u64 *pages, u64 max)
	HOST_REQUIRES(z->lock)
{
	struct block *k = block_of(z, b);
	u32 w, at, n = 0;

	for (w = 0; w < WORDS; w++) {
		u64 have = n < max ? k->free[w] & (gone ? k->gone[w] : ~k->gone[w]) : 0;

		for (at = 0; z->step > 1 && at < 64; at += z->step) {
			u64 group = bits_below(z->step) << at;

			if ((have & group) != group)
				have &= ~group;
		}
		k->free[w] &= ~have;
		k->gone[w] &= ~have;
		pages[w] = have;
		n += (u32)__builtin_popcountll(have);
	}
	block_change(z, b, -(int)n, gone ? 0 : -(int)n);
	z->limbo += n;
	return n;
}

/* Gives on the runs of pages; what the system did not take is left in pages. */
static void punch(struct zone *z, char *addr, u64 *pages)
{
	u32 at = 0, end;

	while (at < PPB) {
		u32 from;

		if (!(pages[at >> 6] >> (at & 63) & 1)) {
			at++;
			continue;
		}
		for (end = at; end < PPB && (pages[end >> 6] >> (end & 63) & 1);)
			end++;
		from = at;
		at = end;
		if (give_on(z, addr + ((size_t)from << HOST_PAGE_SHIFT),
			    (size_t)(end - from) << HOST_PAGE_SHIFT))
			for (; from < end; from++)
				pages[from >> 6] &= ~((u64)1 << (from & 63));
	}
}

/*
 * Gives on at most about max pages of block b that are free and resident, or gone as far as is
 * known; returns how many.
 */
static u32 block_trim(struct zone *z, u32 b, bool gone, u64 max)
{
	u64 pages[WORDS], left[WORDS];
	u32 w, n, kept = 0;

	host_lock(&z->lock);
	n = block_limbo(z, b, gone, pages, max);
	host_unlock(&z->lock);
	if (!n)
		return 0;
	memcpy(left, pages, sizeof(left));
	punch(z, block_addr(z, b), left);

	host_lock(&z->lock);
	for (w = 0; w < WORDS; w++) {
		block_of(z, b)->free[w] |= pages[w];
		block_of(z, b)->gone[w] |= pages[w] & ~left[w];
		kept += (u32)__builtin_popcountll(left[w]);
	}
	z->limbo -= n;
	block_change(z, b, (int)n, (int)kept);
	host_unlock(&z->lock);
	return n - kept;
}

/* The highest block of a set below b. */
static u32 trim_next(struct zone *z, const struct block_set *set, u32 b)
{
	host_lock(&z->lock);
	b = set_last_below(set, b);
	host_unlock(&z->lock);
	return b;
}

void zone_trim(struct host_pages *src, u64 *bytes)
{
	struct zone *z = zone_of(src);
	u32 b = BLOCKS - 1;
	u64 pages = 0;

	while ((b = trim_next(z, &z->res, b)) != 0)
		pages += block_trim(z, b, false, PPB);
	if (bytes)
		*bytes = pages << HOST_PAGE_SHIFT;
}

/*
 * mlockall() has the system fill what is accessible: pages that were never touched, or given on
 * long ago.  The zone is not told; it sees that the process is locked when it gives something on,
 * and then gives these on once more.
 */
static void give_on_what_was_filled(struct zone *z)
{
	u32 b = BLOCKS - 1, end;

	host_write_once(z->locked, false);
	while ((b = trim_next(z, &z->gone, b)) != 0)
		block_trim(z, b, true, PPB);

	/* Nobody opens a block meanwhile: for those that wait, commit is taken. */
	host_mutex_lock(&z->commit);
	host_lock(&z->lock);
	b = z->next;
	end = z->committed;
	if (b < end)
		z->committed = b;
	host_unlock(&z->lock);
	if (b < end)
		give_on(z, block_addr(z, b), (size_t)(end - b) << ZONE_BLOCK_SHIFT);
	host_lock(&z->lock);
	z->committed = end;
	host_unlock(&z->lock);
	host_mutex_unlock(&z->commit);
	host_write_once(z->locked, false);
}

#define DECAY_MIN ((u64)32 << 20 >> HOST_PAGE_SHIFT)

enum zone_decay zone_decay(struct host_pages *src, u64 ns)
{
	struct zone *z = zone_of(src);
	u64 idle, give, begun = host_now_ns(), done = 0, left;
	u32 b = BLOCKS - 1;
	bool late = false;

	host_lock(&z->lock);
	idle = z->idle;
	host_unlock(&z->lock);
	give = idle < DECAY_MIN ? idle : idle / 4 * 3 > DECAY_MIN ? idle / 4 * 3 : DECAY_MIN;

	/* The highest ones: allocation comes back to the lowest first. */
	while (done < give && !late && (b = trim_next(z, &z->res, b)) != 0) {
		done += block_trim(z, b, false, give - done);
		late = host_now_ns() - begun > ns;
	}

	host_lock(&z->lock);
	/* If time was up, what is left of it was idle as well, as far as it still is. */
	z->idle = late && idle - done < z->free_res ? idle - done : z->free_res;
	left = z->free_res;
	host_unlock(&z->lock);
	if (!left && host_read_once(z->locked))
		give_on_what_was_filled(z);
	if (!left || (give && !done))
		return ZONE_IDLE;
	return late && done < give ? ZONE_MORE : ZONE_LATER;
}

/* ---- life ---- */

int zone_open(struct host_pages **src)
{
	struct zone *z = host_zalloc(sizeof(*z));
	long page = sysconf(_SC_PAGESIZE);

	if (!z)
		return -ENOMEM;
	z->hist = host_zalloc(HIST_BUCKETS * sizeof(*z->hist));
	z->sets = map_quietly(2 * set_bytes(BLOCKS), PROT_READ | PROT_WRITE);
	if (!z->hist || !z->sets) {
		if (z->sets)
			munmap(z->sets, 2 * set_bytes(BLOCKS));
		host_free(z->hist, HIST_BUCKETS * sizeof(*z->hist));
		host_free(z, sizeof(*z));
		return -ENOMEM;
	}
	set_place(&z->gone, set_place(&z->res, z->sets, BLOCKS), BLOCKS);
	z->step = page > (long)HOST_PAGE_SIZE ? (u32)((size_t)page >> HOST_PAGE_SHIFT) : 1;
	host_mutex_init(&z->commit);
	host_lock_init(&z->lock, "zone");
	z->next = z->committed = 1;
	*src = &z->pub;
	return 0;
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
	host_mutex_destroy(&z->commit);
	munmap(z->sets, 2 * set_bytes(BLOCKS));
	host_free(z->hist, HIST_BUCKETS * sizeof(*z->hist));
	host_free(z, sizeof(*z));
}

/* ---- figures and checks ---- */

void zone_stat(struct host_pages *src, struct zone_stat *stat)
{
	struct zone *z = zone_of(src);
	u64 seen = 0;
	u32 i;

	host_lock(&z->lock);
	*stat = (struct zone_stat){
		.pages_out = z->out,
		.free_pages = z->free,
		.free_resident = z->free_res,
		.blocks = z->opened,
		.resident_bytes = (z->out + z->free_res + z->limbo) << HOST_PAGE_SHIFT,
		.holds = z->holds,
		.max_pages_per_hold = z->max_pages,
		.max_hold_ns = z->max_ns,
	};
	for (i = 0; z->timed_holds && i < HIST_BUCKETS; i++) {
		seen += z->hist[i];
		if (seen * 1000 >= z->timed_holds * 999) {
			stat->p999_hold_ns = hist_top(i) < z->max_ns ? hist_top(i) : z->max_ns;
			break;
		}
	}
	host_unlock(&z->lock);
}

void zone_reset_stat(struct host_pages *src)
{
	struct zone *z = zone_of(src);

	host_lock(&z->lock);
	z->holds = z->max_pages = z->timed_holds = z->max_ns = 0;
	memset(z->hist, 0, HIST_BUCKETS * sizeof(*z->hist));
	host_unlock(&z->lock);
}

static const char *block_check(const struct zone *z, u32 b) HOST_REQUIRES(z->lock)
{
	const struct block *k = block_of(z, b);
	u32 w, free = 0, res = 0;

	for (w = 0; w < WORDS; w++) {
		if (k->gone[w] & ~k->free[w])
			return "a page is gone but not free";
		if (k->free[w] & ~WORD_FULL)
			return "a bit past the block's pages is set";
		free += (u32)__builtin_popcountll(k->free[w]);
		res += (u32)__builtin_popcountll(k->free[w] & ~k->gone[w]);
	}
	if (free != k->nfree)
		return "nfree is not the number of free bits";
	if (res != k->resident)
		return "resident is not the number of resident free bits";
	if (set_has(&z->res, b) != (res > 0) || set_has(&z->gone, b) != (free > res))
		return "a set has a block it should not have, or lacks one";
	return NULL;
}

static const char *zone_check_locked(const struct zone *z, u32 *at) HOST_REQUIRES(z->lock)
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

	host_lock(&z->lock);
	bad = zone_check_locked(z, &at);
	host_unlock(&z->lock);
	if (!bad)
		return 0;
	if (len)
		snprintf(why, len, "zone: block %u: %s", at, bad);
	return -EUCLEAN;
}
