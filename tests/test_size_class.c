// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_size_class.c - the class table against the published rows and against the rule itself. */
#include "support.h"
#include "mm/pool.h"

/* What Linux's zsmalloc documentation tells for 4 KiB pages, chain sizes 4 to 16. */
static const struct {
	unsigned int chain, classes, largest;
} published[] = {
	{ 4, 69, 3264 },   { 5, 86, 3408 },   { 6, 93, 3504 },   { 7, 112, 3584 },
	{ 8, 123, 3632 },  { 9, 140, 3680 },  { 10, 143, 3712 }, { 11, 159, 3744 },
	{ 12, 164, 3776 }, { 13, 180, 3792 }, { 14, 183, 3808 }, { 15, 188, 3840 },
	{ 16, 191, 3840 },
};

CASE(the_thirteen_published_rows_come_out)
{
	struct class_table t;

	for (size_t i = 0; i < ARRAY_LEN(published); i++) {
		must_eq(class_table_init(&t, 4096, published[i].chain, CLASS_MOST_USED), 0);
		must_eq(t.nclasses, published[i].classes);
		must_eq(t.largest, published[i].largest);
	}
}

CASE(linux_has_as_many_classes_by_the_rule_of_stores)
{
	struct class_table t;

	/* 7.3 at its default chain size. */
	must_eq(class_table_init(&t, 4096, 8, CLASS_LEAST_WASTE), 0);
	must_eq(t.nclasses, 119);
	must_eq(t.largest, 3632);
}

struct shape {
	uint64_t size, pages, objs;
};

/* By the rules as they are written, without a thought for speed. */
static struct shape shape_of(uint64_t page, unsigned int i, unsigned int chain,
			     enum class_rule rule)
{
	struct shape s = { .size = 32 + i * (page / 256) };
	uint64_t best = 0, least = ~(uint64_t)0;

	if (s.size > page)
		s.size = page;
	for (uint64_t n = 1; n <= chain; n++) {
		uint64_t objs = n * page / s.size, used = objs * s.size * 100 / (n * page);
		uint64_t waste = n * page - objs * s.size;

		if (rule == CLASS_MOST_USED ? used > best : waste < least) {
			best = used;
			least = waste;
			s.pages = n;
			s.objs = objs;
		}
	}
	return s;
}

static void check_merging(const struct class_table *t, uint64_t page, unsigned int chain,
			  enum class_rule rule)
{
	unsigned int raw = 0, classes = 0;
	uint64_t largest = 0;

	while (32 + raw * (page / 256) < page)
		raw++;
	must_eq(t->nraw, raw + 1);

	for (unsigned int i = 0; i <= raw; i++) {
		struct shape s = shape_of(page, i, chain, rule);
		const struct size_class *c = &t->class[t->merged[i]];
		unsigned int last = i;

		while (last < raw) {
			struct shape next = shape_of(page, last + 1, chain, rule);

			if (next.pages != s.pages || next.objs != s.objs)
				break;
			last++;
		}
		classes += last == i;
		must_eq(c->index, last);
		must_eq(c->size, shape_of(page, last, chain, rule).size);
		must_eq(c->pages, s.pages);
		must_eq(c->objs, s.objs);
		if (s.objs > 1)
			largest = s.size;
	}
	must_eq(t->nclasses, classes);
	must_eq(t->largest, largest);
}

static void each_table(void (*fn)(const struct class_table *t, uint64_t page, unsigned int chain,
				  enum class_rule rule))
{
	struct class_table t;

	for (uint64_t page = 4096; page <= 65536; page *= 2)
		for (unsigned int k = 0; k < 2 * (CHAIN_MAX - CHAIN_MIN + 1); k++) {
			enum class_rule rule = k % 2;
			unsigned int chain = CHAIN_MIN + k / 2;

			must_eq(class_table_init(&t, page, chain, rule), 0);
			must_eq(t.page_size, page);
			fn(&t, page, chain, rule);
		}
}

CASE(merging_is_what_the_rule_gives_for_every_page_and_chain_size)
{
	each_table(check_merging);
}

static void check_limits(const struct class_table *t, uint64_t page, unsigned int chain,
			 enum class_rule rule)
{
	must(t->nclasses <= CLASS_RAW_MAX && t->nclasses <= 255);
	for (unsigned int i = 0; i < t->nclasses; i++) {
		const struct size_class *c = &t->class[i];

		if (i)
			must(c[-1].size < c->size && c[-1].index < c->index);
		must((c->objs > 1) == (c->size <= t->largest));
		must(c->pages >= 1 && c->pages <= chain);
		must(c->objs >= 1 && c->objs <= CLASS_OBJS_MAX);
		must((uint64_t)c->objs * c->size <= c->pages * page);
	}
	must_eq(t->class[t->nclasses - 1].size, page);
	must_eq(t->class[t->nclasses - 1].objs, 1);
}

CASE(sizes_ascend_and_stay_within_the_limits)
{
	each_table(check_limits);
}

static void check_every_size(const struct class_table *t, uint64_t page, unsigned int chain,
			     enum class_rule rule)
{
	for (size_t bytes = 1; bytes <= page; bytes++) {
		unsigned int raw = class_raw_index(t, bytes);

		must(raw < t->nraw);
		must(class_raw_size(t, raw) >= bytes);
		/* No smaller raw class would have done. */
		must(!raw || class_raw_size(t, raw - 1) < bytes);
		must(t->class[t->merged[raw]].size >= bytes);
	}
}

CASE(every_byte_count_has_a_class_that_holds_it)
{
	each_table(check_every_size);
}

CASE(other_page_and_chain_sizes_are_refused)
{
	static const size_t pages[] = { 0, 1, 2048, 4095, 4097, 5000, 12288, 131072, SIZE_MAX };
	static const unsigned int chains[] = { 0, 1, 3, 17, 32, ~0u };
	struct class_table t;

	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		must_eq(class_table_init(&t, pages[i], 8, CLASS_LEAST_WASTE), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(chains); i++)
		must_eq(class_table_init(&t, 4096, chains[i], CLASS_LEAST_WASTE), -EINVAL);
}
