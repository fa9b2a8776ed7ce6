// SPDX-License-Identifier: GPL-2.0-only
/*
 * wear.c - how much may be written to the backing device: the limit of `writeback_limit`, which is
 * for all, and the budget of any 24 hours, which is for what the device writes by itself.
 *
 * Each page is taken from both before it is written.  One that fails goes back to the limit, as
 * in-tree does it, if it was taken from it, and if nobody set another since.  It stays counted in
 * the budget, since the device may have worn for it.
 */
#include "zram.h"

#include "wb.h"

#define SECONDS 3600u

static u64 this_hour(void)
{
	return div_u64((u64)ktime_get_boottime_seconds(), SECONDS);
}

/* Bytes that are left of the budget; the lock is held. */
static u64 left(struct zram_wear *w)
{
	u64 spent = wear_spent(&w->written, this_hour());

	if (!w->budget)
		return U64_MAX;
	return w->budget > spent ? w->budget - spent : 0;
}

bool zram_wear_take(struct zram *z, bool by_itself, u64 *from)
{
	struct zram_wear *w = &z->wear;
	bool may;

	spin_lock(&w->lock);
	may = (!w->limit_on || w->limit) && (!by_itself || left(w) >= PAGE_SIZE);
	if (may) {
		*from = w->limit_on ? w->set : 0;
		if (w->limit_on)
			w->limit -= WB_UNITS;
		wear_add(&w->written, this_hour(), PAGE_SIZE);
	}
	spin_unlock(&w->lock);
	return may;
}

void zram_wear_failed(struct zram *z, u64 from)
{
	spin_lock(&z->wear.lock);
	if (from == z->wear.set)
		z->wear.limit += WB_UNITS;
	spin_unlock(&z->wear.lock);
}

u64 zram_wear_room(struct zram *z, bool by_itself)
{
	struct zram_wear *w = &z->wear;
	u64 pages = U64_MAX;

	spin_lock(&w->lock);
	if (w->limit_on)
		pages = w->limit / WB_UNITS;
	if (by_itself)
		pages = min(pages, left(w) >> PAGE_SHIFT);
	spin_unlock(&w->lock);
	return pages;
}

u64 zram_wear_spent(struct zram *z)
{
	u64 bytes;

	spin_lock(&z->wear.lock);
	bytes = wear_spent(&z->wear.written, this_hour());
	spin_unlock(&z->wear.lock);
	return bytes;
}

void zram_wear_init(struct zram *z)
{
	spin_lock_init(&z->wear.lock);
	z->wear.set = 1;
}
