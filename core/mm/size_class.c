// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* size_class.c - computes the class table; see size_class.h for the rules. */
#include "size_class.h"

static unsigned int most_used(size_t page_size, u32 size, unsigned int max)
{
	unsigned int n, best = 1, best_used = 0;

	for (n = 1; n <= max; n++) {
		size_t bytes = n * page_size;
		unsigned int used = (unsigned int)((bytes - bytes % size) * 100 / bytes);

		if (used > best_used) {
			best_used = used;
			best = n;
		}
	}
	return best;
}

static unsigned int least_waste(size_t page_size, u32 size, unsigned int max)
{
	size_t least = page_size % size;
	unsigned int n, best = 1;

	for (n = 2; n <= max && least; n++) {
		if (n * page_size % size < least) {
			least = n * page_size % size;
			best = n;
		}
	}
	return best;
}

int class_table_init(struct class_table *t, size_t page_size, unsigned int chain,
		     enum class_rule rule)
{
	struct size_class above = { 0 };
	int i, n = 0;   /* merged classes fit in u8: at most 198, at 16 KiB, MOST_USED */

	if (page_size < 4096 || page_size > 65536 || (page_size & (page_size - 1)))
		return -EINVAL;
	if (chain < CHAIN_MIN || chain > CHAIN_MAX)
		return -EINVAL;

	memset(t, 0, sizeof(*t));
	t->page_size = (u32)page_size;
	t->delta = (u32)page_size >> 8;
	t->delta_shift = (u32)__builtin_ctz(t->delta);
	t->nraw = class_raw_index(t, page_size) + 1;

	/* Largest first, into the end of class[], so that merging sees the class above. */
	for (i = (int)t->nraw - 1; i >= 0; i--) {
		u32 size = class_raw_size(t, (unsigned int)i);
		unsigned int pages = rule == CLASS_MOST_USED ? most_used(page_size, size, chain) :
							       least_waste(page_size, size, chain);
		u32 objs = (u32)(pages * page_size / size);

		if (objs > CLASS_OBJS_MAX)
			return -EINVAL;
		if (n && above.pages == pages && above.objs == objs) {
			t->merged[i] = (u8)n;
			continue;
		}
		above = (struct size_class){
			.size = size, .room = (u32)(pages * page_size + objs - 1) / objs,
			.objs = (u16)objs, .index = (u16)i, .pages = (u8)pages,
		};
		n++;
		t->class[CLASS_RAW_MAX - n] = above;
		t->merged[i] = (u8)n;
		if (!t->largest && objs > 1)
			t->largest = size;
	}

	/* merged[] counts from the top so far; turn both to smallest first. */
	for (i = 0; i < n; i++)
		t->class[i] = t->class[CLASS_RAW_MAX - n + i];
	for (i = 0; i < (int)t->nraw; i++)
		t->merged[i] = (u8)(n - t->merged[i]);
	t->nclasses = (u32)n;
	return 0;
}
