// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_zspage.c - descriptors alone: numbers, chunks, the directory that finds them, its limit. */
#include "support.h"
#include "mm/zspage.h"

#define UNITS 63                /* few to a chunk */
#define WORDS 16
#define MANY 4096

static struct source source;
static struct zspage_table table;
static struct zspage_group *group;
static struct zspage_map maps[3];
static struct zspage_id id[MANY];

static void open_table(unsigned int bits)
{
	source_open(&source);
	table = (struct zspage_table){ .pages = &source.pages };
	group = zspage_group_get(&table, UNITS, bits, &maps[0]);
	must(group != NULL);
}

static void close_table(void)
{
	zspage_table_destroy(&table);
	source_close(&source);
	group = NULL;
}

void after_each(void)
{
	if (group)
		close_table();
}

/* A descriptor that remembers its place in id[]. */
static int try_one(unsigned int i)
{
	int err = zspage_new(&table, group, 1, WORDS, ANYHOW, &id[i].no);

	if (err)
		return err;
	id[i].group = group;
	must(id[i].no != 0);
	must_eq(zspage_at(&group->map, id[i].no)->owner, 0);
	zspage_at(&group->map, id[i].no)->owner = i + 1;
	return 0;
}

static void make(unsigned int first, unsigned int n)
{
	for (unsigned int i = first; i < first + n; i++)
		must_eq(try_one(i), 0);
}

static void free_some(unsigned int first, unsigned int n)
{
	zspage_free(&table, id + first, n);
}

static void must_be_found(unsigned int first, unsigned int n)
{
	for (unsigned int i = first; i < first + n; i++)
		must_eq(zspage_at(&group->map, id[i].no)->owner, i + 1);
}

static u32 chunk_of(unsigned int i)
{
	return id[i].no >> group->map.index_bits;
}

/* Pages of the directory. */
static u64 leaves(void)
{
	u64 n = 0;

	for (u32 i = 0; i < ZSPAGE_NEAR; i++)
		n += group->near_page[i] != 0;
	for (u32 i = 1; i < ZSPAGE_ROOT; i++) {
		const struct zspage_mid *mid = (const struct zspage_mid *)group->root[i];

		n += group->mid_page[i] != 0;
		for (u32 k = 0; mid && k < ZSPAGE_MID; k++)
			n += mid->page[k] != 0;
	}
	return n;
}

/* ---- the tests ---- */

CASE(descriptors_are_given_back_in_any_number)
{
	unsigned int n;

	open_table(32);
	n = (PAGES_BATCH + 2) * group->capacity;
	must(n <= MANY || PAGE_SIZE > 4096);
	n = n < MANY ? n : MANY;
	make(0, n);
	must_be_found(0, n);
	must(zspage_table_is_tidy(&table));
	free_some(0, n);
	must_eq(host_a64_read(&table.chunks), 0);
	must(zspage_table_is_tidy(&table));
}

CASE(a_batch_goes_back_to_the_groups_it_came_from)
{
	struct zspage_group *other;

	open_table(32);
	other = zspage_group_get(&table, 5, 32, &maps[1]);
	must(other && other != group && zspage_group_get(&table, 5, 20, &maps[2]) == other);
	for (unsigned int i = 0; i < 40; i++) {
		id[i].group = i % 3 ? group : other;
		must_eq(zspage_new(&table, id[i].group, 1, 1, ANYHOW, &id[i].no), 0);
	}
	free_some(0, 40);
	must_eq(zspage_table_pages(&table), 0);
	must(zspage_table_is_tidy(&table));
}

CASE(numbers_that_came_back_are_used_before_fresh_ones)
{
	unsigned int each, i;
	u32 fresh;

	open_table(32);
	each = group->capacity;
	make(0, 10 * each);
	fresh = group->fresh;
	must_eq(fresh, 11);
	free_some(3 * each, each);
	free_some(7 * each, each);
	free_some(each, each);
	make(each, each);
	make(3 * each, each);
	make(7 * each, each);
	must_eq(group->fresh, fresh);
	must_be_found(0, 10 * each);
	/* All are different. */
	for (i = 0; i < 10 * each; i++)
		must_eq(zspage_at(&group->map, id[i].no)->owner, i + 1);
	make(10 * each, each);
	must_eq(group->fresh, fresh + 1);
	free_some(0, 11 * each);
	must_eq(zspage_table_pages(&table), 0);
}

/* The first chunk number of leaf i, which is a page, and of mid i. */
static u64 leaf_begins(u32 i)
{
	return ZSPAGE_FEW + (u64)(i - 1) * ZSPAGE_LEAF;
}

static u64 mid_begins(u32 i)
{
	return leaf_begins(ZSPAGE_NEAR) + (u64)(i - 1) * ZSPAGE_MID * ZSPAGE_LEAF;
}

/* Two chunks, so that the second has number first. */
static void make_across(u64 first, unsigned int *known)
{
	unsigned int each = group->capacity;

	group->fresh = (u32)first - 1;
	make(*known, 2 * each);
	must_eq(chunk_of(*known + each), first);
	must_eq(chunk_of(*known), first - 1);
	*known += 2 * each;
}

/*
 * Chunk numbers from before and after where leaves and mids begin, as far as there are numbers;
 * what was found once is found ever after, by the map that a class has from the beginning.
 */
CASE(every_number_is_found_while_the_directory_grows)
{
	const struct zspage_map *map = &maps[0];
	unsigned int known = 0, i;
	u64 at, most = 0;

	open_table(32);
	make(0, group->capacity);
	known = group->capacity;
	must_eq(leaves(), 0);
	for (i = 1; i < ZSPAGE_NEAR && (at = leaf_begins(i)) < group->limit - 1; i++) {
		make_across(at, &known);
		/* What a fresh number skipped has no leaf. */
		must_eq(leaves(), i);
		must_eq(zspage_table_pages(&table), 1 + 3 * i);
	}
	for (i = 1; i < ZSPAGE_ROOT && (at = mid_begins(i)) < group->limit - 1; i++) {
		if (known + 2 * group->capacity > MANY)
			break;
		if (i % 8 < 2 || i == ZSPAGE_ROOT - 1)
			make_across(at, &known);
		most = at;
	}
	must(PAGE_SIZE > 4096 || most > mid_begins(ZSPAGE_ROOT / 2));
	for (i = group->capacity; i < known; i++)
		must_eq(zspage_at(map, id[i].no)->owner, i + 1);
	free_some(0, known);
	must_eq(host_a64_read(&table.chunks), 0);
	must_eq(zspage_table_pages(&table), leaves());
}

/* Who may not wait as well: pages are all that it takes. */
CASE(a_directory_grows_for_who_may_not_wait)
{
	host_page page[16];
	u32 no[3];

	open_table(32);
	must_eq(host_pages_alloc(source.zone, page, ARRAY_LEN(page), ANYHOW), ARRAY_LEN(page));
	host_pages_free(source.zone, page, ARRAY_LEN(page));
	for (unsigned int i = 0; i < 3; i++) {
		group->fresh = i ? (u32)(i == 1 ? leaf_begins(1) : mid_begins(1)) : 1;
		if (group->fresh >= group->limit)
			break;
		for (unsigned int k = 0; k < group->capacity; k++) {
			must_eq(zspage_new(&table, group, 1, WORDS, NUMA_NO_NODE, 0, &no[0]), 0);
			id[i * group->capacity + k] = (struct zspage_id){ group, no[0] };
		}
		must_eq(leaves(), i ? 2 * i - 1 : 0);
		no[1] = (i + 1) * group->capacity;
	}
	free_some(0, no[1]);
}

CASE(the_last_number_is_followed_by_an_error_until_one_comes_back)
{
	/* The last is in the middle of a leaf. */
	const unsigned int few = zspage_layout(PAGE_SIZE, UNITS).index_bits + 3;
	const unsigned int bits[] = { 32, 40, 24, few };
	unsigned int each;

	for (size_t k = 0; k < ARRAY_LEN(bits); k++) {
		open_table(bits[k]);
		each = group->capacity;
		group->fresh = group->limit - 1;
		make(0, each);
		must_eq(chunk_of(0), group->limit - 1);
		must((u64)id[each - 1].no < (u64)1 << (bits[k] < 32 ? bits[k] : 32));
		must_eq(try_one(each), -ENOSPC);
		must_be_found(0, each);
		free_some(2, 1);
		must_eq(try_one(2), 0);
		must_eq(try_one(each), -ENOSPC);
		free_some(0, each);
		must_eq(host_a64_read(&table.chunks), 0);
		make(0, each);
		must_eq(chunk_of(0), group->limit - 1);
		free_some(0, each);
		close_table();
	}
}

CASE(who_needs_fewer_bits_of_a_group_is_heard)
{
	u64 of_root = mid_begins(ZSPAGE_ROOT), of_bits;

	open_table(32);
	of_bits = (u64)1 << 32 >> group->map.index_bits;
	must_eq(group->limit, of_bits < of_root ? of_bits : of_root);
	must(zspage_group_get(&table, UNITS, 20, &maps[1]) == group);
	must_eq(group->limit, ((u64)1 << 20) >> group->map.index_bits);
	must(zspage_group_get(&table, UNITS, 28, &maps[2]) == group);
	must_eq(group->limit, ((u64)1 << 20) >> group->map.index_bits);
}

static unsigned char seen[MANY];

static void see(struct zspage *z, void *arg)
{
	must(z->owner >= 1 && z->owner <= MANY);
	seen[z->owner - 1]++;
	++*(u64 *)arg;
}

CASE(a_walk_meets_each_descriptor_once)
{
	unsigned int each, i;
	u64 met = 0;

	open_table(32);
	each = group->capacity;
	must(40 * each <= MANY || PAGE_SIZE > 4096);
	make(0, MANY / each / 2 * each + 3);
	for (i = 0; i < MANY / each / 2 * each + 3; i++)
		if (i / each % 3 == 1 || i % 5 == 1)
			free_some(i, 1);
	memset(seen, 0, sizeof(seen));
	zspage_each(&table, see, &met);
	for (i = 0; i < MANY / each / 2 * each + 3; i++) {
		bool gone = i / each % 3 == 1 || i % 5 == 1;

		must_eq(seen[i], !gone);
		met -= !gone;
		if (!gone)
			free_some(i, 1);
	}
	must_eq(met, 0);
	must_eq(host_a64_read(&table.chunks), 0);
}
