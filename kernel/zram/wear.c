// SPDX-License-Identifier: GPL-2.0-only
/*
 * wear.c - `writeback_limit`: how much may be written to the backing device, by whom ever.
 *
 * Each page is taken from it before it is written.  One that fails goes back, as in-tree does it,
 * if it was taken from it, and if nobody set another since.
 */
#include "zram.h"

#include "wb.h"

bool zram_wear_take(struct zram *z, u64 *from)
{
	struct zram_wear *w = &z->wear;
	bool may;

	spin_lock(&w->lock);
	may = !w->limit_on || w->limit;
	*from = w->limit_on ? w->set : 0;
	if (may && w->limit_on)
		w->limit -= WB_UNITS;
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

u64 zram_wear_room(struct zram *z)
{
	struct zram_wear *w = &z->wear;
	u64 pages;

	spin_lock(&w->lock);
	pages = w->limit_on ? w->limit / WB_UNITS : U64_MAX;
	spin_unlock(&w->lock);
	return pages;
}
