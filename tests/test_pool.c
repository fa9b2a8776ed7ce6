// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_pool.c - the pool alone, over a zone: placement, lists, references. */
#include "pool_rig.h"
#include "store_calls.h"


static void bulk_free(struct rig *r, struct rng *rng)
{
	static u64 refs[KEYS], tmp[KEYS];
	unsigned int n = 0, most = rng_below(rng, 2) ? POOL_BULK_SMALL : 500;

	for (u32 tries = 0; tries < 4 * most && n < most; tries++) {
		u32 key = (u32)rng_below(rng, KEYS);

		if (!r->word[key])
			continue;
		verify(r, key);
		refs[n++] = r->word[key];
		r->word[key] = 0;
	}
	if (n)
		pool_free_bulk(&r->pool, refs, n > POOL_BULK_SMALL ? tmp : NULL, n);
}

/* So that each class's lock is taken once (pool.h). */
CASE(objects_that_are_freed_in_bulk_go_by_class)
{
	static const unsigned int counts[] = { 2, 40, POOL_BULK_SMALL, POOL_BULK_SMALL + 1, 400 };
	static u64 refs[400], tmp[400];
	struct rig *r = rig_open(8);

	for (unsigned int i = 0; i < ARRAY_LEN(counts); i++) {
		unsigned int n = counts[i], k, last = 0;
		const u64 *went = n > POOL_BULK_SMALL ? tmp : refs;

		for (k = 0; k < n; k++) {
			make(r, k, 40 + k * 977 % 3000, k);
			refs[k] = r->word[k];
			r->word[k] = 0;
		}
		pool_free_bulk(&r->pool, refs, n > POOL_BULK_SMALL ? tmp : NULL, n);
		for (k = 0; k < n; k++) {
			unsigned int class = r->pool.table.merged[went[k] >> REF_CLASS_SHIFT];

			must(class >= last);
			last = class;
		}
		must(last > 0);
	}
}

static void random_steps(uint64_t seed, unsigned int chain)
{
	struct rng rng = { use_seed(seed) };
	struct rig *r = rig_open(chain);
	unsigned long steps = scaled(20000);

	for (unsigned long i = 0; i < steps; i++) {
		u32 key = (u32)rng_below(&rng, KEYS);
		unsigned int op = (unsigned int)rng_below(&rng, 1000);

		if (op < 3)
			bulk_free(r, &rng);
		else if (op < 4)
			pool_compact(&r->pool);
		else if (op < 6)
			pool_compact_some(&r->pool, 1 + (unsigned int)
					  rng_below(&rng, 2 * r->pool.table.nclasses));
		else if (op < 10)
			r->pinned[key] = !r->pinned[key];
		else if (!r->word[key])
			make(r, key, any_size(&r->pool, &rng), rng_next(&rng));
		else if (op < 600)
			verify(r, key);
		else
			drop(r, key);
		if (i % 500 == 0)
			must_hold(pool_check(&r->pool, NULL));
	}
	must_hold(pool_check(&r->pool, NULL));
	verify_all(r);
	rig_close(r);
}

CASE(random_operations_agree_with_a_plain_table)
{
	static const unsigned int chain[] = { 4, 8, 16 };

	for (size_t i = 0; i < ARRAY_LEN(chain); i++)
		random_steps(0x1000 + i, chain[i]);
}

/* All sizes at once, so that an object that reaches too far hits its neighbour. */
CASE(an_object_of_every_size_keeps_its_bytes_and_its_size)
{
	const size_t step = PAGE_SIZE == 4096 ? 1 : PAGE_SIZE / 2048 + 1;
	struct rig *r = rig_open(16);
	size_t size = 1, first = 1;
	u32 key;

	use_seed(7);
	while (size <= PAGE_SIZE) {
		for (key = 0, first = size; key < KEYS && size <= PAGE_SIZE;
		     key++, size += step)
			make(r, key, size, size * 31 + test_seed);
		must_hold(pool_check(&r->pool, NULL));
		verify_all(r);
		drop_all(r);
		must(size > first);
	}
}

CASE(sizes_around_the_largest_class_are_told_exactly)
{
	for (unsigned int chain = CHAIN_MIN; chain <= CHAIN_MAX; chain++) {
		struct rig *r = rig_open(chain);
		size_t size = pool_max_small(&r->pool) - 20;

		for (u32 key = 0; key < 60 && size <= PAGE_SIZE; key++, size++) {
			make(r, 2 * key, size, key);
			make(r, 2 * key + 1, size, ~(uint64_t)key);
		}
		verify_all(r);
		rig_close(r);
	}
}

/*
 * The limit that design.md names, for the layouts of both homes (a host_page is 4 bytes in user
 * space and 8 in the kernel): a class that has all pages or all objects to itself, and as many bits
 * in its references as the class of its group with the most objects leaves.
 */
static void check_numbers(unsigned int shift, unsigned int chain, size_t host_page_bytes,
			  enum class_rule rule)
{
	static struct class_table t;
	unsigned int obj_bits[ZSPAGE_UNITS_MAX + 1] = { 0 }, units[CLASS_RAW_MAX], i;
	unsigned int loc_bits = 51 - (shift == 12 ? 8 : 9) - (shift - 7);

	if (shift == PAGE_SHIFT)
		must_eq(loc_bits, REF_LOC_BITS);
	must_eq(class_table_init(&t, (size_t)1 << shift, chain, rule), 0);
	for (i = 0; i < t.nclasses; i++) {
		const struct size_class *c = &t.class[i];
		unsigned int words = zspage_words(c->objs) + (c->objs > 64),
			     bits = class_obj_bits(c->objs);
		size_t takes = 16 + 8 * words + c->pages * host_page_bytes;
		size_t lines = (takes + 63) / 64 * 64;

		must(1u << bits >= c->objs && (!bits || 1u << (bits - 1) < c->objs));
		if (shift < 16 && words == 1 && lines - takes <= ((size_t)c->pages << shift) / 1024)
			takes = lines;
		units[i] = (unsigned int)((takes + 7) / 8);
		if (shift == PAGE_SHIFT && host_page_bytes == sizeof(host_page))
			must_eq(units[i], zspage_units(zspage_words(c->objs), c->pages));
		must(units[i] <= ZSPAGE_UNITS_MAX);
		if (bits > obj_bits[units[i]])
			obj_bits[units[i]] = bits;
	}
	for (i = 0; i < t.nclasses; i++) {
		const struct size_class *c = &t.class[i];
		struct zspage_layout l = zspage_layout((size_t)1 << shift, units[i]);
		uint64_t by_pages = ((uint64_t)1 << (42 - shift)) / c->pages;
		uint64_t by_objs = ((uint64_t)1 << 32) / c->objs;
		uint64_t leaf = (uint64_t)1 << (shift - 3), mid = leaf / 2;
		uint64_t limit = zspage_limit(l, loc_bits - obj_bits[units[i]]);
		/* As many as the root leads to from the first number on. */
		uint64_t led = ((ZSPAGE_ROOT - 1) * mid + ZSPAGE_NEAR - 1) * leaf + ZSPAGE_FEW;
		uint64_t places = ((limit < led ? limit : led) - 1) * l.capacity;

		must(l.capacity > 0 && l.capacity <= 1u << l.index_bits);
		must(64 + l.capacity * units[i] * 8 <= 1u << shift);
		must_be_at_most(by_pages < by_objs ? by_pages : by_objs, places);
	}
}

CASE(every_class_has_numbers_for_4_tib_or_2_to_the_32_objects)
{
	for (unsigned int shift = 12; shift <= 16; shift += 2)
		for (unsigned int chain = CHAIN_MIN; chain <= CHAIN_MAX; chain++)
			for (size_t name = 4; name <= 8; name += 4)
				check_numbers(shift, chain, name, class_pool_rule(1ul << shift));
}

/* Makes objects of a class under its last numbers; checks, moves and frees them. */
static void use_the_last_numbers(unsigned int i, unsigned int chain)
{
	struct rig *r = rig_open(chain);
	struct pool_class *c = &r->pool.class[i];
	struct zspage_group *g = c->group;
	u32 most = c->objs == 1 ? g->capacity : 3 * c->objs, n = 0, key;
	u64 ref;

	g->fresh = g->limit - 1;
	for (; n < KEYS && n < most; n++)
		make(r, n, payload(r, i), n);
	must_eq(zspage_of(r, r->word[0]) >> g->map.index_bits, g->limit - 1);
	verify_all(r);
	if (n == g->capacity) {
		must_eq(pool_make(&r->pool, payload(r, i), NULL, n, ANYHOW, &ref), -ENOSPC);
		/* One that comes back is there for the next. */
		drop(r, 7);
		make(r, 7, payload(r, i), 7);
		must_eq(pool_make(&r->pool, payload(r, i), NULL, n, ANYHOW, &ref), -ENOSPC);
	}
	for (key = 0; key < n; key++)
		if (key % (c->objs + 1u))
			drop(r, key);
	pool_compact(&r->pool);
	must(c->objs == 1 || n < KEYS || pool_pages(&r->pool) < 3u * c->pages);
	verify_all(r);
	drop_all(r);
	must_eq(pool_pages(&r->pool), 0);
	pool_destroy(&r->pool);
	source_close(&r->source);
	r->is_open = false;
}

CASE(references_hold_the_highest_numbers_of_every_class)
{
	static const unsigned int chain[] = { 4, 16 };
	struct class_table t;

	for (size_t k = 0; k < ARRAY_LEN(chain); k++) {
		must_eq(class_table_init(&t, PAGE_SIZE, chain[k],
					 class_pool_rule(PAGE_SIZE)), 0);
		for (unsigned int i = 0; i < t.nclasses; i++)
			use_the_last_numbers(i, chain[k]);
	}
}

CASE(other_sizes_are_refused)
{
	struct rig *r = rig_open(8);
	u64 ref;

	must_eq(pool_make(&r->pool, 0, NULL, 1, ANYHOW, &ref), -EINVAL);
	must_eq(pool_make(&r->pool, PAGE_SIZE + 1, NULL, 1, ANYHOW, &ref), -EINVAL);
	must_eq(pool_make(&r->pool, SIZE_MAX, NULL, 1, ANYHOW, &ref), -EINVAL);
}

CASE(objects_that_span_pages_keep_their_bytes_in_every_class)
{
	struct rig *r = rig_open(16);
	unsigned int spanning = 0;

	use_seed(9);
	for (unsigned int i = 0; i < r->pool.table.nclasses; i++) {
		const struct size_class *c = &r->pool.table.class[i];
		u32 key;

		if (c->objs == 1)
			continue;
		for (key = 0; key < c->objs && key < KEYS; key++) {
			make(r, key, payload(r, i), test_seed + key);
			must_eq(pool_ref_room(&r->pool, r->word[key]),
				(c->pages * PAGE_SIZE + c->objs - 1) / c->objs);
		}
		if (c->objs <= KEYS)
			must_eq(pool_pages(&r->pool), c->pages);
		while (key--) {
			spanning += pool_map(&r->pool, r->word[key], bounce) == (void *)bounce;
			verify(r, key);
		}
		drop_all(r);
		must_eq(pool_pages(&r->pool), 0);
	}
	must(spanning > r->pool.table.nclasses);
}

CASE(objects_are_placed_lowest_first_and_pages_come_as_they_are_reached)
{
	struct rig *r = rig_open(8);
	unsigned int i = class_with(r, 20, 64);
	const struct size_class *c = &r->pool.table.class[i];
	u32 zspage, key;

	for (key = 0; key < c->objs; key++) {
		make(r, key, payload(r, i), key);
		must_eq(obj_of(r, r->word[key]), key);
		must_eq(pool_pages(&r->pool),
			(((size_t)key + 1) * c->size + PAGE_SIZE - 1) / PAGE_SIZE);
	}
	zspage = zspage_of(r, r->word[0]);
	must_eq(zspage_of(r, r->word[c->objs - 1u]), zspage);
	drop(r, 11);
	drop(r, 3);
	drop(r, 7);
	for (key = 100; key < 103; key++)
		make(r, key, payload(r, i), key);
	must_eq(obj_of(r, r->word[100]), 3);
	must_eq(obj_of(r, r->word[101]), 7);
	must_eq(obj_of(r, r->word[102]), 11);
	must_eq(zspage_of(r, r->word[100]), zspage);
}

CASE(allocation_goes_to_the_fullest_zspage)
{
	struct rig *r = rig_open(8);
	unsigned int i = class_with(r, 20, 64);
	u32 objs = r->pool.table.class[i].objs, zspage[3], key;

	for (key = 0; key < 3 * objs; key++)
		make(r, key, payload(r, i), key);
	for (key = 0; key < 3; key++)
		zspage[key] = zspage_of(r, r->word[key * objs]);
	/* Leaves one object of the first, half of the second, all but two of the third. */
	for (key = 1; key < objs; key++)
		drop(r, key);
	for (key = 0; key < objs / 2; key++)
		drop(r, objs + key);
	drop(r, 2 * objs);
	drop(r, 2 * objs + 1);

	for (key = 0; key < 2 + objs / 2 + objs - 1; key++) {
		u32 want = key < 2 ? zspage[2] : key < 2 + objs / 2 ? zspage[1] : zspage[0];

		make(r, 3 * objs + key, payload(r, i), key);
		must_eq(zspage_of(r, r->word[3 * objs + key]), want);
	}
}

CASE(a_zspage_is_listed_only_while_it_has_room)
{
	static const unsigned int min[] = { 2, 65 }, max[] = { 64, CLASS_OBJS_MAX };

	/* With one word of used bits, and with more. */
	for (size_t k = 0; k < 2; k++) {
		struct rig *r = rig_open(8);
		unsigned int i = class_with(r, min[k], max[k]);
		struct pool_class *c = &r->pool.class[i];
		u64 refs[CLASS_OBJS_MAX], tmp[CLASS_OBJS_MAX];
		u32 key;

		must_eq(c->listed, 0);
		for (key = 0; key < c->objs; key++) {
			must((key == 0) == (c->listed == 0));
			make(r, key, payload(r, i), key);
		}
		must_eq(c->listed, 0);                  /* partial -> full */
		drop(r, 1);
		must_eq(c->listed, 1u << 10);           /* full -> partial */
		must_hold(pool_check(&r->pool, NULL));
		make(r, 1, payload(r, i), 1);
		must_eq(c->listed, 0);
		for (key = 0; key < c->objs; key++) {
			refs[key] = r->word[key];
			r->word[key] = 0;
		}
		pool_free_bulk(&r->pool, refs, tmp, c->objs);   /* full -> empty */
		must_eq(c->listed, 0);
		must_eq(pool_pages(&r->pool), 0);
		make(r, 0, payload(r, i), 0);
		must(c->listed != 0);                   /* empty -> partial */
		drop(r, 0);
		must_eq(c->listed, 0);                  /* partial -> empty */
		rig_close(r);
	}
}

CASE(the_peak_is_the_most_there_was_since_its_reset)
{
	struct rig *r = rig_open(8);
	u32 key;

	for (key = 0; key < 10; key++)
		make(r, key, PAGE_SIZE, key);
	drop_all(r);
	must_eq(pool_pages_peak(&r->pool), 10);
	make(r, 0, PAGE_SIZE, 0);
	pool_reset_peak(&r->pool);
	must_eq(pool_pages_peak(&r->pool), 1);
	make(r, 1, PAGE_SIZE, 0);
	must_eq(pool_pages_peak(&r->pool), 2);
}

/* The fullest zspage lacks a page that is not to be had; others have places on theirs. */
CASE(places_on_pages_that_are_there_are_taken_before_an_object_fails)
{
	const int errors[] = { -EDQUOT, -ENOMEM };

	for (unsigned int k = 0; k < ARRAY_LEN(errors); k++) {
		struct rig *r = rig_open(16);
		unsigned int objs, at, old;
		struct pool_class *c;
		u64 pages;
		u32 key;
		int err;

		make(r, 0, PAGE_SIZE * 9 / 16, 0);
		c = ref_class(&r->pool, r->word[0]);
		objs = c->objs;
		old = 5 * objs;
		must(c->pages > 2 && old + objs < KEYS);
		/* Five full ones, of which an object each stays, and half of another. */
		for (at = 1; at < old + objs / 2; at++)
			make(r, at, PAGE_SIZE * 9 / 16, at);
		for (at = 0; at < old; at++)
			if (at % objs)
				drop(r, at);
		pages = pool_pages(&r->pool);
		if (errors[k] == -EDQUOT)
			r->pool.limit = pages << PAGE_SHIFT;
		pcp_drain(&r->source.pcp);
		host_user_fail = errors[k] == -ENOMEM ? always : NULL;
		key = old + objs / 2;
		while (!(err = try_make(r, key, PAGE_SIZE * 9 / 16, key,
					HOST_MAY_WAIT | POOL_LIMITED)))
			must(++key < KEYS);
		host_user_fail = NULL;
		must_eq(err, errors[k]);
		must(key - (old + objs / 2) >= 5 * (objs - 1));
		must_eq(pool_pages(&r->pool), pages);
		r->pool.limit = 0;
		verify_all(r);
		rig_close(r);
	}
}

/* Who may not have it is told so, and does not wait for it. */
CASE(no_page_is_taken_that_the_limit_forbids)
{
	struct rig *r = rig_open(16);
	u64 ref;

	make(r, 0, PAGE_SIZE, 0);
	r->pool.limit = PAGE_SIZE;
	pcp_drain(&r->source.pcp);
	host_user_fail = always;
	must_eq(pool_make(&r->pool, 100, bytes, 1, NUMA_NO_NODE, HOST_MAY_WAIT | POOL_LIMITED,
			  &ref), -EDQUOT);
	host_user_fail = NULL;
}
