// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_pool.c - the pool alone, over a zone: placement, lists, references, compaction.
 *
 * The owner here is a plain table: word[key] is the reference, and a pinned key refuses to be
 * moved, as a slot does that a reader holds.
 */
#include "support.h"
#include "check.h"

#define KEYS 2000

struct rig {
	struct source source;
	struct pool pool;
	u64 word[KEYS];
	bool pinned[KEYS];
	uint64_t seed[KEYS];            /* of the bytes */
	size_t size[KEYS];
	unsigned int swings;
	void (*before_swing)(struct rig *r, u64 from, u64 to);
};

static struct rig rig;
static unsigned char bytes[HOST_PAGE_SIZE], bounce[HOST_PAGE_SIZE];

static u64 look(void *ctx, u32 key)
{
	struct rig *r = ctx;

	return key < KEYS && !r->pinned[key] ? r->word[key] : 0;
}

static bool swing(void *ctx, u32 key, u64 from, u64 to)
{
	struct rig *r = ctx;

	if (r->before_swing)
		r->before_swing(r, from, to);
	if (r->pinned[key] || r->word[key] != from)
		return false;
	r->word[key] = to;
	r->swings++;
	return true;
}

static struct rig *rig_open(unsigned int chain)
{
	const struct pool_owner owner = { .ctx = &rig, .look = look, .swing = swing };

	memset(&rig, 0, sizeof(rig));
	source_open(&rig.source);
	must_eq(pool_init(&rig.pool, &rig.source.pcp, chain, &owner), 0);
	return &rig;
}

/* Everything is free: no page may be left anywhere. */
static void rig_close(struct rig *r)
{
	must_hold(pool_check(&r->pool));
	must_eq(pool_pages(&r->pool), 0);
	must_eq(zspage_table_pages(&r->pool.zspages), 0);
	pool_destroy(&r->pool);
	source_close(&r->source);
}

static void make(struct rig *r, u32 key, size_t size, uint64_t seed)
{
	must_eq(pool_alloc(&r->pool, size, key, &r->word[key]), 0);
	must_eq(r->word[key] & ~REF_MASK, 0);
	must_eq(pool_ref_size(&r->pool, r->word[key]), size);
	must(pool_ref_class_size(&r->pool, r->word[key]) >= size);
	r->size[key] = size;
	r->seed[key] = seed;
	fill_random(bytes, size, seed);
	pool_write(&r->pool, r->word[key], bytes);
}

static void verify(struct rig *r, u32 key)
{
	must_eq(pool_ref_size(&r->pool, r->word[key]), r->size[key]);
	fill_random(bytes, r->size[key], r->seed[key]);
	must(!memcmp(pool_map(&r->pool, r->word[key], bounce), bytes, r->size[key]));
}

static void drop(struct rig *r, u32 key)
{
	pool_free(&r->pool, r->word[key]);
	r->word[key] = 0;
}

static void verify_all(struct rig *r)
{
	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key])
			verify(r, key);
}

static void drop_all(struct rig *r)
{
	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key])
			drop(r, key);
}

static size_t any_size(struct pool *p, struct rng *rng)
{
	size_t edge[] = {
		1, 8, 11, 12, 13, 28, 29, pool_max_small(p) - 1, pool_max_small(p),
		pool_max_small(p) + 1, p->table.largest, p->table.largest + 1, HOST_PAGE_SIZE - 1,
		HOST_PAGE_SIZE,
	};

	if (!rng_below(rng, 4))
		return edge[rng_below(rng, ARRAY_LEN(edge))];
	return 1 + rng_below(rng, rng_below(rng, 2) ? HOST_PAGE_SIZE : HOST_PAGE_SIZE / 4);
}

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
		else if (op < 6)
			pool_compact(&r->pool);
		else if (op < 10)
			r->pinned[key] = !r->pinned[key];
		else if (!r->word[key])
			make(r, key, any_size(&r->pool, &rng), rng_next(&rng));
		else if (op < 600)
			verify(r, key);
		else
			drop(r, key);
		if (i % 500 == 0)
			must_hold(pool_check(&r->pool));
	}
	must_hold(pool_check(&r->pool));
	verify_all(r);
	drop_all(r);
	rig_close(r);
}

static void random_operations_agree_with_a_plain_table(void **state)
{
	static const unsigned int chain[] = { 4, 8, 16 };

	for (size_t i = 0; i < ARRAY_LEN(chain); i++)
		random_steps(0x1000 + i, chain[i]);
}

/* All sizes at once, so that an object that reaches too far hits its neighbour. */
static void an_object_of_every_size_keeps_its_bytes_and_its_size(void **state)
{
	const size_t step = HOST_PAGE_SIZE == 4096 ? 1 : HOST_PAGE_SIZE / 2048 + 1;
	struct rig *r = rig_open(16);
	size_t size = 1, first = 1;
	u32 key;

	use_seed(7);
	while (size <= HOST_PAGE_SIZE) {
		for (key = 0, first = size; key < KEYS && size <= HOST_PAGE_SIZE; key++, size += step)
			make(r, key, size, size * 31 + test_seed);
		must_hold(pool_check(&r->pool));
		verify_all(r);
		drop_all(r);
		must(size > first);
	}
	rig_close(r);
}

static void sizes_around_the_largest_class_are_told_exactly(void **state)
{
	for (unsigned int chain = CHAIN_MIN; chain <= CHAIN_MAX; chain++) {
		struct rig *r = rig_open(chain);
		size_t size = pool_max_small(&r->pool) - 20;

		for (u32 key = 0; key < 60 && size <= HOST_PAGE_SIZE; key++, size++) {
			make(r, 2 * key, size, key);
			make(r, 2 * key + 1, size, ~(uint64_t)key);
		}
		verify_all(r);
		drop_all(r);
		rig_close(r);
	}
}

static void other_sizes_are_refused(void **state)
{
	struct rig *r = rig_open(8);
	u64 ref;

	must_eq(pool_alloc(&r->pool, 0, 1, &ref), -EINVAL);
	must_eq(pool_alloc(&r->pool, HOST_PAGE_SIZE + 1, 1, &ref), -EINVAL);
	must_eq(pool_alloc(&r->pool, SIZE_MAX, 1, &ref), -EINVAL);
	rig_close(r);
}

/* The payload that just fills an object of class i. */
static size_t payload(struct rig *r, unsigned int i)
{
	return r->pool.table.class[i].size - POOL_HEADER;
}

static void objects_that_span_pages_keep_their_bytes_in_every_class(void **state)
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
			must_eq(pool_ref_class_size(&r->pool, r->word[key]), c->size);
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
	rig_close(r);
}

/* A class with from min to max objects to a zspage, more than one page of them. */
static unsigned int class_with(struct rig *r, unsigned int min, unsigned int max)
{
	for (unsigned int i = 0; i < r->pool.table.nclasses; i++)
		if (r->pool.table.class[i].objs >= min && r->pool.table.class[i].objs <= max &&
		    r->pool.table.class[i].pages > 1)
			return i;
	must_failed(__FILE__, __LINE__, "no class with as many objects", min, max);
}

static void objects_are_placed_lowest_first_and_pages_come_as_they_are_reached(void **state)
{
	struct rig *r = rig_open(8);
	unsigned int i = class_with(r, 20, 64);
	const struct size_class *c = &r->pool.table.class[i];
	u32 zspage, key;

	for (key = 0; key < c->objs; key++) {
		make(r, key, payload(r, i), key);
		must_eq(ref_obj(r->word[key]), key);
		must_eq(pool_pages(&r->pool),
			(((size_t)key + 1) * c->size + HOST_PAGE_SIZE - 1) / HOST_PAGE_SIZE);
	}
	zspage = ref_zspage(r->word[0]);
	must_eq(ref_zspage(r->word[c->objs - 1u]), zspage);
	drop(r, 11);
	drop(r, 3);
	drop(r, 7);
	for (key = 100; key < 103; key++)
		make(r, key, payload(r, i), key);
	must_eq(ref_obj(r->word[100]), 3);
	must_eq(ref_obj(r->word[101]), 7);
	must_eq(ref_obj(r->word[102]), 11);
	must_eq(ref_zspage(r->word[100]), zspage);
	drop_all(r);
	rig_close(r);
}

static void allocation_goes_to_the_fullest_zspage(void **state)
{
	struct rig *r = rig_open(8);
	unsigned int i = class_with(r, 20, 64);
	u32 objs = r->pool.table.class[i].objs, zspage[3], key;

	for (key = 0; key < 3 * objs; key++)
		make(r, key, payload(r, i), key);
	for (key = 0; key < 3; key++)
		zspage[key] = ref_zspage(r->word[key * objs]);
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
		must_eq(ref_zspage(r->word[3 * objs + key]), want);
	}
	must_hold(pool_check(&r->pool));
	drop_all(r);
	rig_close(r);
}

static void a_zspage_is_listed_only_while_it_has_room(void **state)
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
		must_hold(pool_check(&r->pool));
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

static void the_peak_is_the_most_there_was_since_its_reset(void **state)
{
	struct rig *r = rig_open(8);
	u32 key;

	for (key = 0; key < 10; key++)
		make(r, key, HOST_PAGE_SIZE, key);
	drop_all(r);
	must_eq(pool_pages_peak(&r->pool), 10);
	make(r, 0, HOST_PAGE_SIZE, 0);
	pool_reset_peak(&r->pool);
	must_eq(pool_pages_peak(&r->pool), 1);
	make(r, 1, HOST_PAGE_SIZE, 0);
	must_eq(pool_pages_peak(&r->pool), 2);
	drop_all(r);
	rig_close(r);
}

/* ---- compaction ---- */

static u64 freeable(struct rig *r)
{
	static struct pool_class_stat rows[CLASS_RAW_MAX];
	u64 sum = 0, pages = 0, used = 0, live = 0;

	pool_class_stats(&r->pool, rows);
	for (u32 i = 0; i < r->pool.table.nclasses; i++) {
		u64 zspages = 0;

		for (unsigned int g = 0; g < POOL_FULLNESS; g++)
			zspages += rows[i].zspages[g];
		must(!zspages == !rows[i].used && zspages <= rows[i].pages);
		must(rows[i].used <= rows[i].objs);
		sum += rows[i].freeable;
		pages += rows[i].pages;
		used += rows[i].used;
	}
	for (u32 key = 0; key < KEYS; key++)
		live += r->word[key] != 0;
	must_eq(used, live);
	must_eq(pages, pool_pages(&r->pool));
	return sum;
}

static void make_sparse(struct rig *r, struct rng *rng)
{
	for (u32 key = 0; key < KEYS; key++)
		make(r, key, 1 + rng_below(rng, HOST_PAGE_SIZE / 4), rng_next(rng));
	for (u32 key = 0; key < KEYS; key++)
		if (rng_below(rng, 10) < 7)
			drop(r, key);
}

static void compaction_frees_what_the_statistics_promise(void **state)
{
	struct rng rng = { use_seed(21) };
	struct rig *r = rig_open(8);
	u64 before, promised, freed;

	make_sparse(r, &rng);
	before = pool_pages(&r->pool);
	promised = freeable(r);
	must(promised > 0);
	freed = pool_compact(&r->pool);
	must_eq(pool_pages(&r->pool), before - freed);
	must_eq(r->pool.pages_compacted, freed);
	must(freed >= promised * 9 / 10);
	must(r->swings > 0);
	must_eq(freeable(r), 0);
	must_hold(pool_check(&r->pool));
	verify_all(r);
	must_eq(pool_compact(&r->pool), 0);
	drop_all(r);
	rig_close(r);
}

static void objects_whose_owner_refuses_stay_where_they_are(void **state)
{
	static u64 was[KEYS];
	struct rng rng = { use_seed(22) };
	struct rig *r = rig_open(8);
	unsigned int moved = 0;

	make_sparse(r, &rng);
	for (u32 key = 0; key < KEYS; key++) {
		was[key] = r->word[key];
		r->pinned[key] = key % 8 == 0;
	}
	must(pool_compact(&r->pool) > 0);
	for (u32 key = 0; key < KEYS; key++) {
		if (r->pinned[key])
			must_eq(r->word[key], was[key]);
		moved += r->word[key] != was[key];
	}
	must(moved > 0);
	must_hold(pool_check(&r->pool));
	verify_all(r);
	memset(r->pinned, 1, sizeof(r->pinned));
	must_eq(pool_compact(&r->pool), 0);
	must_hold(pool_check(&r->pool));
	drop_all(r);
	rig_close(r);
}

/* Between the look and the swing the owner lets go of what is moved, as another thread may. */
static void pin_what_is_moved(struct rig *r, u64 from, u64 to)
{
	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key] == from)
			r->pinned[key] = true;
	must(from != to);
}

static void a_swing_that_fails_leaves_the_object_as_it_was(void **state)
{
	static u64 was[KEYS];
	struct rng rng = { use_seed(23) };
	struct rig *r = rig_open(8);

	make_sparse(r, &rng);
	memcpy(was, r->word, sizeof(was));
	r->before_swing = pin_what_is_moved;
	pool_compact(&r->pool);                 /* may give free pages at an end back */
	must(!memcmp(was, r->word, sizeof(was)));
	must_hold(pool_check(&r->pool));
	verify_all(r);
	r->before_swing = NULL;
	drop_all(r);
	rig_close(r);
}

/*
 * While an object is copied, what else was in the target goes, which takes no lock (partial to
 * less), and then the owner refuses: the target has nothing left but the copy that is dropped.
 */
static void empty_the_target(struct rig *r, u64 from, u64 to)
{
	for (u32 key = 0; key < KEYS; key++) {
		if (r->word[key] && r->word[key] != from && ref_zspage(r->word[key]) == ref_zspage(to))
			drop(r, key);
		else if (r->word[key] == from)
			r->pinned[key] = true;
	}
}

static void a_target_that_empties_while_the_swing_fails_is_given_back(void **state)
{
	static const unsigned int min[] = { 20, 65 }, max[] = { 64, CLASS_OBJS_MAX };

	for (size_t k = 0; k < 2; k++) {
		struct rig *r = rig_open(8);
		unsigned int i = class_with(r, min[k], max[k]);
		u32 objs = r->pool.table.class[i].objs, key;

		for (key = 0; key < objs + 1; key++)
			make(r, key, payload(r, i), key);
		for (key = 1; key < objs; key++)
			drop(r, key);
		r->before_swing = empty_the_target;
		pool_compact(&r->pool);
		must_hold(pool_check(&r->pool));
		r->before_swing = NULL;
		verify_all(r);
		drop_all(r);
		rig_close(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_of_every_size_keeps_its_bytes_and_its_size),
		cmocka_unit_test(sizes_around_the_largest_class_are_told_exactly),
		cmocka_unit_test(other_sizes_are_refused),
		cmocka_unit_test(objects_that_span_pages_keep_their_bytes_in_every_class),
		cmocka_unit_test(objects_are_placed_lowest_first_and_pages_come_as_they_are_reached),
		cmocka_unit_test(allocation_goes_to_the_fullest_zspage),
		cmocka_unit_test(a_zspage_is_listed_only_while_it_has_room),
		cmocka_unit_test(the_peak_is_the_most_there_was_since_its_reset),
		cmocka_unit_test(compaction_frees_what_the_statistics_promise),
		cmocka_unit_test(objects_whose_owner_refuses_stay_where_they_are),
		cmocka_unit_test(a_swing_that_fails_leaves_the_object_as_it_was),
		cmocka_unit_test(a_target_that_empties_while_the_swing_fails_is_given_back),
		cmocka_unit_test(random_operations_agree_with_a_plain_table),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
