/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* zone_give.c - the zone's free pages go on to the system.  Owns nothing; zone.c has the map. */
#include "zone_parts.h"

void zone_give_blocks(struct zone *z, u32 b, u32 n)
{
	struct iovec range = { block_addr(z, b), (size_t)n << ZONE_BLOCK_SHIFT };

	advise_take(&z->advise, &range, 1);
}

/*
 * At most *max of the pages of block b that can be given on: free, resident (or gone), and, where
 * the system's pages are larger than ours, filling whole pages of the system.
 */
static u32 block_limbo(struct zone *z, u32 b, bool gone, u64 *pages, u64 max)
	__must_hold(&z->lock)
{
	struct block *k = block_of(z, b);
	/* Pages of this size make a page of the system. */
	u32 step = z->page > PAGE_SIZE ? (u32)(z->page >> PAGE_SHIFT) : 1;
	u32 w, at, n = 0;

	for (w = 0; w < WORDS; w++) {
		u64 have = n < max ? k->free[w] & (gone ? k->gone[w] : ~k->gone[w]) : 0;

		for (at = 0; step > 1 && at < 64; at += step) {
			u64 group = bits_below(step) << at;

			if ((have & group) != group)
				have &= ~group;
		}
		k->free[w] &= ~have;
		k->gone[w] &= ~have;
		pages[w] = have;
		n += (u32)hweight64(have);
	}
	zone_block_change(z, b, -(int)n, gone ? 0 : -(int)n);
	z->limbo += n;
	return n;
}

/* The runs of pages in a block's bitmap, as ranges of memory from addr on. */
static u32 runs_of(const u64 *pages, char *addr, struct iovec *range)
{
	u32 at = 0, from, n = 0;

	while (at < PPB) {
		if (!(pages[at >> 6] >> (at & 63) & 1)) {
			at++;
			continue;
		}
		for (from = at; at < PPB && (pages[at >> 6] >> (at & 63) & 1);)
			at++;
		range[n++] = (struct iovec){ addr + ((size_t)from << PAGE_SHIFT),
					     (size_t)(at - from) << PAGE_SHIFT };
	}
	return n;
}

/* Gives on the runs of pages; left: what the system did not take. */
static void punch(struct zone *z, char *addr, const u64 *pages, u64 *left)
{
	struct iovec range[PPB / 2 + 1];
	u32 at, end, i, n = advise_take(&z->advise, range, runs_of(pages, addr, range));

	memset(left, 0, WORDS * sizeof(*left));
	for (i = 0; i < n; i++) {
		at = (u32)(((char *)range[i].iov_base - addr) >> PAGE_SHIFT);
		end = at + (u32)(range[i].iov_len >> PAGE_SHIFT);
		for (; at < end; at++)
			left[at >> 6] |= (u64)1 << (at & 63);
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

	spin_lock(&z->lock);
	n = block_limbo(z, b, gone, pages, max);
	spin_unlock(&z->lock);
	if (!n)
		return 0;
	punch(z, block_addr(z, b), pages, left);

	spin_lock(&z->lock);
	for (w = 0; w < WORDS; w++) {
		block_of(z, b)->free[w] |= pages[w];
		block_of(z, b)->gone[w] |= pages[w] & ~left[w];
		kept += (u32)hweight64(left[w]);
	}
	z->limbo -= n;
	zone_block_change(z, b, (int)n, (int)kept);
	spin_unlock(&z->lock);
	return n - kept;
}

/* The highest block of a set below b. */
static u32 trim_next(struct zone *z, const struct block_set *set, u32 b)
{
	spin_lock(&z->lock);
	b = set_last_below(set, b);
	spin_unlock(&z->lock);
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
		*bytes = pages << PAGE_SHIFT;
}

/*
 * mlockall() has the system fill what is accessible: pages that were never touched, or given on
 * long ago.  The zone is not told; it sees that the process is locked when it gives something on,
 * and then gives these on once more.
 */
static void give_on_what_was_filled(struct zone *z)
{
	u32 b = BLOCKS - 1, end;

	WRITE_ONCE(z->advise.locked, false);
	while ((b = trim_next(z, &z->gone, b)) != 0)
		block_trim(z, b, true, PPB);

	/* Nobody opens a block meanwhile: for those that wait, commit is taken. */
	mutex_lock(&z->commit);
	spin_lock(&z->lock);
	b = z->next;
	end = z->committed;
	if (b < end)
		z->committed = b;
	spin_unlock(&z->lock);
	if (b < end)
		zone_give_blocks(z, b, end - b);
	spin_lock(&z->lock);
	z->committed = end;
	spin_unlock(&z->lock);
	mutex_unlock(&z->commit);
	WRITE_ONCE(z->advise.locked, false);
}

#define DECAY_MIN ((u64)32 << 20 >> PAGE_SHIFT)

enum zone_decay zone_decay(struct host_pages *src, u64 ns)
{
	struct zone *z = zone_of(src);
	u64 idle, give, begun = ktime_get_ns(), done = 0, left;
	u32 b = BLOCKS - 1;
	bool late = false;

	spin_lock(&z->lock);
	idle = z->idle;
	spin_unlock(&z->lock);
	give = idle < DECAY_MIN ? idle : idle / 4 * 3 > DECAY_MIN ? idle / 4 * 3 : DECAY_MIN;

	/* The highest ones: allocation comes back to the lowest first. */
	while (done < give && !late && (b = trim_next(z, &z->res, b)) != 0) {
		done += block_trim(z, b, false, give - done);
		late = ktime_get_ns() - begun > ns;
	}

	spin_lock(&z->lock);
	/* If time was up, what is left of it was idle as well, as far as it still is. */
	z->idle = late && idle - done < z->free_res ? idle - done : z->free_res;
	left = z->free_res;
	spin_unlock(&z->lock);
	if (!left && READ_ONCE(z->advise.locked))
		give_on_what_was_filled(z);
	if (!left || (give && !done))
		return ZONE_IDLE;
	return late && done < give ? ZONE_MORE : ZONE_LATER;
}
