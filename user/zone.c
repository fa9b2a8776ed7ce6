/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zone.c - the page source of the user-space home.
 *
 * Owns: a reserved range of addresses, the 2 MiB blocks taken from it in ascending order, and
 * for each block which of its pages are free.
 *
 *   base                                                      base + max * 2 MiB
 *   | block 0: never used | 1 | 2 | ...  | opened | committed | reserved, no access |
 *      (so page 0 is none)                        ^ nr_open   ^ committed
 *
 *   map[b]    free  one bit a page: it is in the zone's hands and may be handed out
 *             gone  subset of free: its memory was given on (or never touched), a touch
 *                   faults in a zeroed page
 *   count[b]  free = popcount(map.free)     resident = popcount(map.free & ~map.gone)
 *
 * Which block next is answered by three sets of blocks (zone_set.h):
 *
 *   res    count.resident > 0          allocated from first, lowest block first: that keeps
 *                                      high blocks empty, so that they can be given on whole
 *   gone   count.free > count.resident allocated from when res is empty
 *   whole  count.free == PPB and count.resident > 0     what trim and decay give on
 *
 * Pages in limbo are those trim works on with the lock dropped: neither free nor out.
 *   sum of count.free     == free        sum of count.resident == free_res
 *   (nr_open - 1) * PPB   == out + free + limbo
 *
 * Locks: commit (outer; extends the committed range, calls the system) > lock (leaf).  Every
 * field below lock is guarded by it.  With ASan free pages are poisoned: a page is poisoned
 * before it is free for others, unpoisoned once it is ours alone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "zone.h"
#include "zone_set.h"

#include <fcntl.h>
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

#define PPB_SHIFT (ZONE_BLOCK_SHIFT - HOST_PAGE_SHIFT)
#define PPB (1u << PPB_SHIFT)                /* pages per block */
#define WORDS ((PPB + 63) / 64)              /* of one block's bitmap */
#define WORD_FULL (PPB >= 64 ? ~(u64)0 : ((u64)1 << (PPB & 63)) - 1)

#if defined(HOST_USER_TSAN)
#define RESERVE_MAX ((size_t)16 << 30)       /* TSan leaves less room for mappings */
#else
#define RESERVE_MAX ((size_t)1 << 40)
#endif
#define RESERVE_MIN ((size_t)256 << 20)      /* address space may be limited, too */
#define COMMIT_BLOCKS 16u                    /* made accessible by one system call */

_Static_assert(RESERVE_MAX / ((size_t)1 << HOST_PAGE_SHIFT) <= UINT32_MAX, "host_page is u32");

/* A time t >= 16 is in bucket (log2(t) - 3) * 16 + the four bits after t's highest. */
#define HIST_BUCKETS 640u                    /* up to 2^43 ns */

struct block_map {
	u64 free[WORDS];
	u64 gone[WORDS];
};

struct block_count {
	u16 free;
	u16 resident;
};

struct zone {
	struct host_pages pub;       /* first: host_page_addr() reads it */
	struct block_map *map;
	struct block_count *count;
	u64 *hist;                   /* of hold times, HIST_BUCKETS; lock */
	struct block_set res, gone, whole;
	char *range;
	size_t range_bytes;
	void *side;                  /* map, count, the sets: one lazily touched mapping */
	size_t side_bytes;
	u32 max;                     /* blocks in the range, block 0 included */
	u32 top_words;               /* words of a set's l2 */
	u32 step;                    /* pages of this size make a page of the system: 1 if not smaller */
	bool huge;                   /* a touch makes the whole block resident */
	host_mutex_t commit;

	_Alignas(HOST_CACHELINE) host_lock_t lock;
	u32 nr_open;
	u32 committed;
	u64 out, free, free_res, limbo;
	u32 nr_whole;
	u32 whole_low;               /* least nr_whole since the last decay tick */
	bool drew;                   /* a new or wholly free block was used since then */
	u64 holds, max_pages;
	u64 timed_holds, max_ns;
};

static struct zone *zone_of(struct host_pages *src)
{
	return (struct zone *)src;
}

static char *block_addr(const struct zone *z, u32 b)
{
	return z->pub.base + ((size_t)b << ZONE_BLOCK_SHIFT);
}

/* ---- one block's counts; the sets follow from them ---- */

/* Pages join (> 0) or leave (< 0) block b's free ones. */
static void block_change(struct zone *z, u32 b, int d_free, int d_res) HOST_REQUIRES(z->lock)
{
	struct block_count old = z->count[b], *c = &z->count[b];
	bool was, is;

	c->free = (u16)(old.free + d_free);
	c->resident = (u16)(old.resident + d_res);
	z->free += (u64)(s64)d_free;
	z->free_res += (u64)(s64)d_res;

	if (!old.resident != !c->resident) {
		if (c->resident)
			set_add(&z->res, b);
		else
			set_del(&z->res, b);
	}
	was = old.free > old.resident;
	is = c->free > c->resident;
	if (was != is) {
		if (is)
			set_add(&z->gone, b);
		else
			set_del(&z->gone, b);
	}
	was = old.free == PPB && old.resident;
	is = c->free == PPB && c->resident;
	if (host_unlikely(was != is)) {
		if (is) {
			set_add(&z->whole, b);
			z->nr_whole++;
		} else {
			set_del(&z->whole, b);
			if (--z->nr_whole < z->whole_low)
				z->whole_low = z->nr_whole;
		}
	}
}

/* ---- taking pages ---- */

/* Hands out up to want of block b's free pages that are resident (or, if gone, are not). */
static u32 block_take(struct zone *z, u32 b, bool gone, host_page *out, u32 want) HOST_REQUIRES(z->lock)
{
	struct block_map *m = &z->map[b];
	u32 w, n = 0;

	if (z->count[b].free == PPB)
		z->drew = true;
	for (w = 0; w < WORDS && n < want; w++) {
		u64 have = gone ? m->gone[w] : m->free[w] & ~m->gone[w], left = have;
		host_page first = (b << PPB_SHIFT) + (w << 6);

		while (left && n < want) {
			out[n++] = first + low_bit(left);
			left &= left - 1;
		}
		m->free[w] &= ~(have ^ left);
		if (gone)
			m->gone[w] &= ~(have ^ left);
	}
	block_change(z, b, -(int)n, gone ? 0 : -(int)n);
	return n;
}

/* Blocks below this number may be opened: the range, or the limit, ends there. */
static u32 zone_end(const struct zone *z)
{
	u32 limit = host_read_once(z->pub.max_blocks);

	return limit && limit < z->max - 1 ? limit + 1 : z->max;
}

static bool block_open(struct zone *z) HOST_REQUIRES(z->lock)
{
	u32 b = z->nr_open, w;

	if (b >= z->committed || b >= zone_end(z))
		return false;
	for (w = 0; w < WORDS; w++)
		z->map[b].free[w] = z->map[b].gone[w] = WORD_FULL;
	z->nr_open = b + 1;
	block_change(z, b, PPB, 0);
	return true;
}

/* Makes more of the range accessible.  False: there is no more, or the system refused. */
static bool zone_commit(struct zone *z)
{
	u32 from, open, end = zone_end(z), n = 0;
	bool ok = true;

	host_mutex_lock(&z->commit);
	host_lock(&z->lock);
	from = z->committed;
	open = z->nr_open;
	host_unlock(&z->lock);
	if (open == from && from < end)
		n = end - from < COMMIT_BLOCKS ? end - from : COMMIT_BLOCKS;
	if (n) {
		size_t bytes = (size_t)n << ZONE_BLOCK_SHIFT;

		ok = mprotect(block_addr(z, from), bytes, PROT_READ | PROT_WRITE) == 0;
		if (ok) {
			zone_poison(block_addr(z, from), bytes);
			host_lock(&z->lock);
			z->committed = from + n;
			host_unlock(&z->lock);
		}
	}
	host_mutex_unlock(&z->commit);
	return ok && open < end;
}

/* Takes up to n pages; what is missing, no block that is open or committed can give. */
static u32 zone_take(struct zone *z, host_page *out, u32 n) HOST_REQUIRES(z->lock)
{
	u32 b, k = 0;

	while (k < n) {
		if ((b = set_first(&z->res, z->top_words)) != 0) {
			k += block_take(z, b, false, out + k, n - k);
		} else if ((b = set_first(&z->gone, z->top_words)) != 0) {
			if (z->huge && z->count[b].free == PPB) {
				/* The first touch will bring in the whole block. */
				memset(z->map[b].gone, 0, sizeof(z->map[b].gone));
				block_change(z, b, 0, PPB);
				continue;
			}
			k += block_take(z, b, true, out + k, n - k);
		} else if (!block_open(z)) {
			break;
		}
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

static void zone_put(struct zone *z, const host_page *pages, u32 n) HOST_REQUIRES(z->lock)
{
	u32 i = 0, end = z->nr_open, done = 0;

	while (i < n) {
		u32 b = pages[i] >> PPB_SHIFT, was = i, bad = 0;
		u64 *free = z->map[b].free;

		if (host_warn_on(b == 0 || b >= end, "a page that is not the zone's is freed")) {
			i++;
			continue;
		}
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
 * The pages of block b that can be given on: free, resident, and, where the system's pages are
 * larger than ours, filling whole pages of the system.
 */
static u32 block_limbo(struct zone *z, u32 b, u64 *pages) HOST_REQUIRES(z->lock)
{
	struct block_map *m = &z->map[b];
	u32 w, at, n = 0;

	for (w = 0; w < WORDS; w++) {
		u64 have = m->free[w] & ~m->gone[w];

		for (at = 0; z->step > 1 && at < 64; at += z->step) {
			u64 group = bits_below(z->step) << at;

			if ((have & group) != group)
				have &= ~group;
		}
		m->free[w] &= ~have;
		pages[w] = have;
		n += (u32)__builtin_popcountll(have);
	}
	block_change(z, b, -(int)n, -(int)n);
	z->limbo += n;
	return n;
}

/* Gives on the runs of pages; true if the system took them all. */
static bool punch(char *addr, const u64 *pages)
{
	bool ok = true;
	u32 at = 0, end;

	while (at < PPB) {
		if (!(pages[at >> 6] >> (at & 63) & 1)) {
			at++;
			continue;
		}
		for (end = at; end < PPB && (pages[end >> 6] >> (end & 63) & 1);)
			end++;
		if (madvise(addr + ((size_t)at << HOST_PAGE_SHIFT),
			    (size_t)(end - at) << HOST_PAGE_SHIFT, MADV_DONTNEED) != 0)
			ok = false;
		at = end;
	}
	return ok;
}

/* Gives on what is free in block b if it is whole, or anyway if any; returns the pages. */
static u32 block_trim(struct zone *z, u32 b, bool any)
{
	u64 pages[WORDS];
	bool whole, ok;
	u32 w, n = 0;

	host_lock(&z->lock);
	whole = set_has(&z->whole, b);
	if (whole || (any && z->count[b].resident))
		n = block_limbo(z, b, pages);
	host_unlock(&z->lock);
	if (!n)
		return 0;

	ok = punch(block_addr(z, b), pages);

	host_lock(&z->lock);
	for (w = 0; w < WORDS; w++) {
		z->map[b].free[w] |= pages[w];
		if (ok)
			z->map[b].gone[w] |= pages[w];
	}
	z->limbo -= n;
	block_change(z, b, (int)n, ok ? 0 : (int)n);
	host_unlock(&z->lock);
	return ok ? n : 0;
}

/* The highest block below b that block_trim() may find something in. */
static u32 trim_next(struct zone *z, enum zone_trim_how how, u32 b)
{
	host_lock(&z->lock);
	b = set_last_below(how == ZONE_TRIM_ALL ? &z->res : &z->whole, b);
	host_unlock(&z->lock);
	return b;
}

void zone_trim(struct host_pages *src, enum zone_trim_how how, u64 *bytes)
{
	struct zone *z = zone_of(src);
	u64 pages = 0;
	u32 b = z->max;

	while ((b = trim_next(z, how, b)) != 0)
		pages += block_trim(z, b, how == ZONE_TRIM_ALL);
	if (bytes)
		*bytes = pages << HOST_PAGE_SHIFT;
}

/* Blocks that one tick gives on, if that many are idle: 32 MiB. */
#define DECAY_MIN 16u

bool zone_decay(struct host_pages *src, u64 *bytes)
{
	struct zone *z = zone_of(src);
	u32 give, b = z->max;
	u64 pages = 0;
	bool left;

	host_lock(&z->lock);
	/* nr_whole never went below whole_low: that many blocks were not needed. */
	give = z->whole_low / 2 < DECAY_MIN ? DECAY_MIN : z->whole_low / 2;
	if (z->drew || give > z->whole_low)
		give = z->drew ? 0 : z->whole_low;
	host_unlock(&z->lock);

	/* The highest ones: allocation comes back to the lowest first. */
	for (; give && (b = trim_next(z, ZONE_TRIM_BLOCKS, b)) != 0; give--)
		pages += block_trim(z, b, false);

	host_lock(&z->lock);
	z->drew = false;
	z->whole_low = z->nr_whole;
	left = z->nr_whole != 0;
	host_unlock(&z->lock);
	if (bytes)
		*bytes = pages << HOST_PAGE_SHIFT;
	return left;
}

/* ---- life ---- */

/* Whether asking for huge pages has any effect here. */
static bool system_has_huge(void)
{
	char buf[64];
	ssize_t n;
	int fd;

	fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return !strstr(buf, "[never]");
}

static void *map_quietly(size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int zone_open(struct host_pages **src, unsigned int flags)
{
	struct zone *z = host_zalloc(sizeof(*z));
	long page = sysconf(_SC_PAGESIZE);
	char *at;

	if (!z)
		return -ENOMEM;
	z->hist = host_zalloc(HIST_BUCKETS * sizeof(*z->hist));
	if (!z->hist)
		goto fail;
	/* A block more than is used: room to align the first one. */
	for (z->range_bytes = RESERVE_MAX; z->range_bytes >= RESERVE_MIN; z->range_bytes /= 2) {
		z->range = map_quietly(z->range_bytes, PROT_NONE);
		if (z->range)
			break;
	}
	if (!z->range)
		goto fail;
	z->max = (u32)(z->range_bytes >> ZONE_BLOCK_SHIFT) - 1;
	z->pub.base = z->range + (-(uintptr_t)z->range & (ZONE_BLOCK_BYTES - 1));
	z->top_words = (u32)set_words(z->max, 18);
	z->side_bytes = z->max * (sizeof(*z->map) + sizeof(*z->count)) + 3 * set_bytes(z->max) + 8;
	z->side = map_quietly(z->side_bytes, PROT_READ | PROT_WRITE);
	if (!z->side)
		goto fail;
	at = z->side;
	z->map = (struct block_map *)(void *)at;
	at = set_place(&z->res, at + z->max * sizeof(*z->map), z->max);
	at = set_place(&z->gone, at, z->max);
	at = set_place(&z->whole, at, z->max);
	z->count = (struct block_count *)(void *)at;

	z->step = page > (long)HOST_PAGE_SIZE ? (u32)((size_t)page >> HOST_PAGE_SHIFT) : 1;
	z->huge = !(flags & ZONE_NO_HUGEPAGE) && system_has_huge() &&
		  madvise(z->range, z->range_bytes, MADV_HUGEPAGE) == 0;
	if (flags & ZONE_NO_HUGEPAGE)
		madvise(z->range, z->range_bytes, MADV_NOHUGEPAGE);
	host_mutex_init(&z->commit);
	host_lock_init(&z->lock, "zone");
	z->nr_open = z->committed = 1;
	*src = &z->pub;
	return 0;
fail:
	if (z->range)
		munmap(z->range, z->range_bytes);
	host_free(z->hist, HIST_BUCKETS * sizeof(*z->hist));
	host_free(z, sizeof(*z));
	return -ENOMEM;
}

void zone_close(struct host_pages *src)
{
	struct zone *z = zone_of(src);

	if (!z)
		return;
	zone_unpoison(block_addr(z, 1), (size_t)(z->committed - 1) << ZONE_BLOCK_SHIFT);
	munmap(z->range, z->range_bytes);
	munmap(z->side, z->side_bytes);
	host_mutex_destroy(&z->commit);
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
		.blocks = z->nr_open - 1,
		.idle_blocks = z->nr_whole,
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
	const struct block_map *m = &z->map[b];
	struct block_count c = z->count[b];
	u32 w, free = 0, res = 0;

	for (w = 0; w < WORDS; w++) {
		if (m->gone[w] & ~m->free[w])
			return "a page is gone but not free";
		if (m->free[w] & ~WORD_FULL)
			return "a bit past the block's pages is set";
		free += (u32)__builtin_popcountll(m->free[w]);
		res += (u32)__builtin_popcountll(m->free[w] & ~m->gone[w]);
	}
	if (free != c.free)
		return "count.free is not the number of free bits";
	if (res != c.resident)
		return "count.resident is not the number of resident free bits";
	if (set_has(&z->res, b) != (res > 0) || set_has(&z->gone, b) != (free > res) ||
	    set_has(&z->whole, b) != (free == PPB && res > 0))
		return "a set has a block it should not have, or lacks one";
	return NULL;
}

static const char *zone_check_locked(const struct zone *z, u32 *at) HOST_REQUIRES(z->lock)
{
	u64 free = 0, res = 0;
	u32 b, whole = 0;
	const char *bad;

	for (b = 1; b < z->nr_open; b++) {
		*at = b;
		bad = block_check(z, b);
		if (bad)
			return bad;
		free += z->count[b].free;
		res += z->count[b].resident;
		whole += set_has(&z->whole, b);
	}
	*at = 0;
	if (free != z->free || res != z->free_res || whole != z->nr_whole)
		return "a total is not the sum over the blocks";
	if ((u64)(z->nr_open - 1) * PPB != z->out + z->free + z->limbo)
		return "pages out, free and in limbo are not all pages";
	if (z->nr_open > z->committed || z->committed > z->max)
		return "opened <= committed <= reserved does not hold";
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
