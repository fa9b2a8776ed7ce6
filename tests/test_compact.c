// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_compact.c - compaction of a pool alone: what is moved, what stays, how long it takes. */
#include "pool_rig.h"
#include "store_calls.h"

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
		if (!r->word[key])
			make(r, key, 1 + rng_below(rng, PAGE_SIZE / 4), rng_next(rng));
	for (u32 key = 0; key < KEYS; key++)
		if (rng_below(rng, 10) < 7)
			drop(r, key);
}

CASE(compaction_frees_what_the_statistics_promise)
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
	must_eq(host_a64_read(&r->pool.pages_compacted), freed);
	must(freed >= promised * 9 / 10);
	must(r->swings > 0);
	must_eq(freeable(r), 0);
	must_hold(pool_check(&r->pool, NULL));
	verify_all(r);
	must_eq(pool_compact(&r->pool), 0);
}

CASE(objects_whose_owner_refuses_stay_where_they_are)
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
	must_hold(pool_check(&r->pool, NULL));
	verify_all(r);
	memset(r->pinned, 1, sizeof(r->pinned));
	must_eq(pool_compact(&r->pool), 0);
}

/* Between the look and the swing the owner lets go of what is moved, as another thread may. */
static void pin_what_is_moved(struct rig *r, u64 from, u64 to)
{
	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key] == from)
			r->pinned[key] = true;
	must(from != to);
}

CASE(a_swing_that_fails_leaves_the_object_as_it_was)
{
	static u64 was[KEYS];
	struct rng rng = { use_seed(23) };
	struct rig *r = rig_open(8);

	make_sparse(r, &rng);
	memcpy(was, r->word, sizeof(was));
	r->before_swing = pin_what_is_moved;
	pool_compact(&r->pool);                 /* may give free pages at an end back */
	must(!memcmp(was, r->word, sizeof(was)));
	must_hold(pool_check(&r->pool, NULL));
	verify_all(r);
	r->before_swing = NULL;
}

/*
 * While an object is copied, what else was in the target goes, which takes no lock (partial to
 * less), and then the owner refuses: the target has nothing left but the copy that is dropped.
 */
static void empty_the_target(struct rig *r, u64 from, u64 to)
{
	for (u32 key = 0; key < KEYS; key++) {
		if (r->word[key] && r->word[key] != from &&
		    zspage_of(r, r->word[key]) == zspage_of(r, to))
			drop(r, key);
		else if (r->word[key] == from)
			r->pinned[key] = true;
	}
}

CASE(a_target_that_empties_while_the_swing_fails_is_given_back)
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
		must_hold(pool_check(&r->pool, NULL));
		r->before_swing = NULL;
		verify_all(r);
		rig_close(r);
	}
}

/* Two classes whose first objects, each in the first chunk of its group, have one location. */
static void classes_that_look_alike(struct rig *r, unsigned int *a, unsigned int *b)
{
	struct pool_class *c = r->pool.class;

	for (*a = 0; *a < r->pool.table.nclasses; ++*a)
		for (*b = 0; *b < r->pool.table.nclasses; ++*b)
			if (c[*a].objs > 2 && c[*a].objs * 2 < KEYS && c[*b].objs > 1 &&
			    c[*a].group != c[*b].group &&
			    ref_loc(&c[*a], 1u << c[*a].map.index_bits, 0) ==
			    ref_loc(&c[*b], 1u << c[*b].map.index_bits, 0))
				return;
	must_failed(__FILE__, __LINE__, "no two classes look alike", 0, 1);
}

/* A header that is not written yet may name any owner, also one whose object is elsewhere. */
CASE(a_location_is_told_from_the_same_of_another_class)
{
	struct rig *r = rig_open(8);
	unsigned int a, b;
	struct pool_class *c;
	u32 objs, key, *header;
	u64 late, other;

	classes_that_look_alike(r, &a, &b);
	c = &r->pool.class[a];
	objs = c->objs;
	for (key = 0; key < 2 * objs; key++)
		make(r, key, payload(r, a), key);
	make(r, KEYS - 1, payload(r, b), 1);
	late = r->word[0];
	other = r->word[KEYS - 1];
	must_eq(late & REF_LOC_MASK, other & REF_LOC_MASK);
	/* The first zspage keeps the late object alone, the second has room for it. */
	for (key = 1; key <= objs; key++)
		drop(r, key);
	header = object_key(&r->pool, c, class_at(c, ref_zspage(c, late)), 0);
	*header = KEYS - 1;
	r->word[0] = 0;
	pool_compact(&r->pool);
	must_eq(r->word[KEYS - 1], other);
	*header = 0;
	r->word[0] = late;
	pool_compact(&r->pool);
	must(r->word[0] != late);
}

/*
 * As soon as an object is where it goes, all of a target that is full by now is freed in one step,
 * which takes no lock.
 */
static void free_the_full_target(struct rig *r, u64 from, u64 to)
{
	const struct pool_class *c = ref_class(&r->pool, to);
	u64 refs[64];
	unsigned int n = 0;

	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key] && zspage_of(r, r->word[key]) == zspage_of(r, to))
			n++;
	if (n + 1 != c->objs)
		return;
	n = 0;
	for (u32 key = 0; key < KEYS; key++) {
		if (r->word[key] == from) {
			refs[n++] = to;
			r->gone[key] = true;
		} else if (r->word[key] && zspage_of(r, r->word[key]) == zspage_of(r, to)) {
			refs[n++] = r->word[key];
			r->word[key] = 0;
		}
	}
	pool_free_bulk(&r->pool, refs, NULL, n);
}

CASE(a_target_that_is_freed_as_it_fills_is_left_alone)
{
	struct rig *r = rig_open(8);
	unsigned int i = class_with(r, 8, 32);
	u32 objs = r->pool.table.class[i].objs, key;

	for (key = 0; key < 6 * objs; key++)
		make(r, key, payload(r, i), key);
	for (key = 0; key < 6 * objs; key++)
		if (key % objs > objs / 2 + key / objs)
			drop(r, key);
	r->before_swing = free_the_full_target;
	pool_compact(&r->pool);
	r->before_swing = NULL;
	must_hold(pool_check(&r->pool, NULL));
	verify_all(r);
}

/* One class, of at most 32 objects to a zspage, with half of KEYS in n sparse zspages. */
static struct pool_class *sparse_class(struct rig *r, struct rng *rng, u32 *n)
{
	unsigned int i = class_with(r, 8, 32);
	struct pool_class *c = &r->pool.class[i];

	for (u32 key = 0; key < KEYS; key++)
		make(r, key, payload(r, i), key);
	for (u32 key = 0; key < KEYS; key++)
		if (rng_below(rng, 2))
			drop(r, key);
	*n = c->partial;
	must(*n > 20);
	return c;
}

/* All steps that have nothing to do until class c has its turn. */
static void come_to(struct rig *r, const struct pool_class *c)
{
	while (host_a64_read(&r->pool.compact_at) % r->pool.table.nclasses != c->place)
		must_eq(pool_compact_some(&r->pool, 1), 0);
}

static void drop_zspage(struct rig *r, const struct pool_class *c, u32 no)
{
	for (u32 key = 0; key < KEYS; key++)
		if (r->word[key] && ref_class(&r->pool, r->word[key]) == c &&
		    zspage_of(r, r->word[key]) == no)
			drop(r, key);
}

CASE(a_turn_ends_although_others_allocate_and_free)
{
	struct rng rng = { use_seed(24) };
	struct rig *r = rig_open(8);
	u32 n, key, size;
	u64 at, steps = 0;
	struct pool_class *c = sparse_class(r, &rng, &n);

	for (key = 0; !r->word[key]; key++)
		;
	size = (u32)r->size[key];
	come_to(r, c);
	at = host_a64_read(&r->pool.compact_at);
	/* Before each step some are written and more freed: always new sparse zspages. */
	while (host_a64_read(&r->pool.compact_at) == at) {
		pool_compact_some(&r->pool, 1);
		must(++steps <= pool_compact_steps(c, n));
		/* The very one that it is to go on from. */
		if (c->cursor)
			drop_zspage(r, c, c->cursor);
		for (unsigned int k = 0; k < 2u * c->objs; k++) {
			key = (u32)rng_below(&rng, KEYS);
			if (r->word[key])
				drop(r, key);
			else if (rng_below(&rng, 2))
				make(r, key, size, key);
		}
		must_hold(pool_check(&r->pool, NULL));
	}
	printf("# %lu steps of %lu, %u zspages\n", steps, pool_compact_steps(c, n), n);
	/* In the least, so that the bound means something. */
	must(steps > n / POOL_MOVES);
	verify_all(r);
}

CASE(a_compaction_takes_no_more_steps_than_what_it_found_may_take)
{
	struct rng rng = { use_seed(25) };
	struct rig *r = rig_open(8);
	struct pool_compaction pc;
	u64 steps, most;
	bool more = true;

	for (u32 key = 0; key < 100; key++)
		make(r, key, 3000, key);
	pool_compact_begin(&r->pool, &pc);
	most = pc.left;
	/* In other classes now, far more than there was. */
	make_sparse(r, &rng);
	for (steps = 0; more; steps++)
		more = pool_compact_go(&r->pool, &pc, 1);
	must(steps <= most + 1 && most < KEYS / 4);
	must_hold(pool_check(&r->pool, NULL));
	verify_all(r);
	/* Whoever comes goes on from there. */
	must(pool_compact(&r->pool) > 0);
	must_eq(freeable(r), 0);
}

CASE(a_hold_copies_no_more_than_some_bytes)
{
	struct rng rng = { use_seed(28) };
	struct rig *r = rig_open(8);
	struct pool_compaction pc;
	bool more = true;
	u64 moves = 0;

	make_sparse(r, &rng);
	pool_compact_begin(&r->pool, &pc);
	while (more) {
		u64 at = host_a64_read(&r->pool.compact_at), was = r->swings;
		u64 size = r->pool.class[at % r->pool.table.nclasses].size;

		more = pool_compact_go(&r->pool, &pc, 1);
		was = r->swings - was;
		must_be_at_most(was, POOL_MOVES);
		must(was <= 1 || was * size <= POOL_MOVE_BYTES);
		moves = was > moves ? was : moves;
	}
	must_eq(moves, POOL_MOVES);
	verify_all(r);
}

CASE(compactions_side_by_side_do_the_work_once)
{
	struct rng rng = { use_seed(26) };
	struct rig *r = rig_open(8);
	struct pool_compaction a, b;
	u64 before, promised;
	bool more = true;

	make_sparse(r, &rng);
	before = pool_pages(&r->pool);
	promised = freeable(r);
	pool_compact_some(&r->pool, 17);
	pool_compact_begin(&r->pool, &a);
	pool_compact_begin(&r->pool, &b);
	while (more) {
		more = pool_compact_go(&r->pool, &a, 1);
		more |= pool_compact_go(&r->pool, &b, 1 + (unsigned int)rng_below(&rng, 4));
		must_hold(pool_check(&r->pool, NULL));
	}
	must(a.pages > 0 && b.pages > 0);
	must_eq(host_a64_read(&r->pool.pages_compacted), before - pool_pages(&r->pool));
	must(before - pool_pages(&r->pool) >= promised * 9 / 10);
	must_eq(freeable(r), 0);
	verify_all(r);
}

CASE(a_zspage_that_was_put_aside_serves_allocations_before_a_new_one)
{
	struct rng rng = { use_seed(27) };
	struct rig *r = rig_open(8);
	unsigned int in_use = 0;
	u64 zspages, room, key;
	struct pool_class *c;
	u32 n, size;

	c = sparse_class(r, &rng, &n);
	for (key = 0; !r->word[key]; key++)
		;
	size = (u32)r->size[key];
	memset(r->pinned, 1, sizeof(r->pinned));
	come_to(r, c);
	do
		pool_compact_some(&r->pool, 1);
	while (c->stage < STAGE_EMPTY || (c->stage == STAGE_EMPTY && c->left > n / 4));
	must_eq(c->stage, STAGE_EMPTY);
	must(c->head[POOL_ASIDE]);
	for (key = 0; key < KEYS; key++)
		in_use += r->word[key] != 0;
	zspages = KEYS / c->objs;
	room = zspages * c->objs > in_use ? zspages * c->objs - in_use : 0;
	must(room > 100);
	for (key = 0; key < KEYS && room; key++)
		if (!r->word[key]) {
			make(r, (u32)key, size, key);
			room--;
		}
	must(pool_pages(&r->pool) <= (zspages + 1) * c->pages);
	must_hold(pool_check(&r->pool, NULL));
	verify_all(r);
}
