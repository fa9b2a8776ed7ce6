// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_reread.c - what another thread does between a look and what is done about it.
 *
 * The code under test is compiled into this program with a READ_ONCE() and a host_a64_cas()
 * that let the other thread go on just after or before, so that the window is hit every time.
 */
#include "support.h"

static void (*after_read)(const void *place);
static void (*before_cas)(host_a64 *a);
static unsigned int overtakes = 1;              /* so often, in a row */

static bool overtaken_cas(host_a64 *a, u64 *old, u64 v)
{
	void (*other)(host_a64 *a) = before_cas;

	if (other && !--overtakes) {
		overtakes = 1;
		before_cas = NULL;
	}
	if (other)
		other(a);
	return host_a64_cas(a, old, v);
}

#define host_a64_cas overtaken_cas
#include "store/check.h"
#include "../core/store/hold.c"

#undef READ_ONCE
#define READ_ONCE(x)                                               \
	__extension__({                                                 \
		__typeof__(x) v_ = __atomic_load_n(&(x), __ATOMIC_RELAXED); \
		if (after_read)                                         \
			after_read(&(x));                               \
		v_;                                                     \
	})
#include "../core/mm/compact.c"
#include "api/compact.h"

#define KEYS 600
#define SIZE 200
#define GARBAGE 0xdeadbeefu

static struct rig {
	struct source source;
	struct pool pool;
	u64 word[KEYS];
	u64 late;                       /* reference that its allocator is yet to publish */
	u32 late_key;
	u32 *late_header;
	unsigned int swings, strays;
} rig;

static unsigned char bytes[SIZE], bounce[PAGE_SIZE];

static u64 look(void *ctx, u32 key)
{
	struct rig *r = ctx;

	return key < KEYS ? r->word[key] : 0;
}

static bool swing(void *ctx, u32 key, u64 from, u64 to)
{
	struct rig *r = ctx;

	if (key >= KEYS) {
		r->strays++;
		return false;
	}
	if (r->word[key] != from)
		return false;
	r->word[key] = to;
	r->swings++;
	return true;
}

/* The allocator of the late object: writes the header, then publishes. */
static void allocator_goes_on(const void *place)
{
	struct rig *r = &rig;

	if (place != r->late_header || !r->late)
		return;
	WRITE_ONCE(*r->late_header, r->late_key);
	r->word[r->late_key] = r->late;
	r->late = 0;
}

/*
 * pool_make() writes the header after it has dropped the class lock, so compaction may read
 * there what a page happened to hold.  A key that look() has not found good must not reach
 * swing(), which trusts it.
 */
CASE(a_header_that_is_written_late_never_leads_compaction_astray)
{
	const struct pool_owner owner = { .ctx = &rig, .look = look, .swing = swing };
	struct rig *r = &rig;
	struct pool_class *c;
	u32 key, objs, last;

	source_open(&r->source);
	must_eq(pool_init(&r->pool, &r->source.pages, 8, &owner), 0);
	for (key = 0; key < KEYS; key++) {
		must_eq(pool_make(&r->pool, SIZE, NULL, key, ANYHOW, &r->word[key]), 0);
		memset(bytes, (int)key, sizeof(bytes));
		pool_write(&r->pool, r->word[key], bytes);
	}
	/* The first zspage keeps some room, the last one a single object: the late one. */
	last = KEYS - 1;
	c = ref_class(&r->pool, r->word[last]);
	objs = c->objs;
	for (key = 1; key < objs; key += 2) {
		pool_free(&r->pool, r->word[key]);
		r->word[key] = 0;
	}
	for (key = objs; key < last; key++) {
		pool_free(&r->pool, r->word[key]);
		r->word[key] = 0;
	}
	r->late = r->word[last];
	r->late_key = last;
	r->late_header = object_key(&r->pool, c, class_at(c, ref_zspage(c, r->late)),
				    ref_obj(c, r->late));
	*r->late_header = GARBAGE;
	r->word[last] = 0;

	after_read = allocator_goes_on;
	pool_compact(&r->pool);
	after_read = NULL;
	must_eq(r->late, 0);
	must_eq(r->strays, 0);
	/* Published by now, it moves like any other. */
	pool_compact(&r->pool);
	must(r->swings > 0);
	must_hold(pool_check(&r->pool, NULL));

	for (key = 0; key < KEYS; key++) {
		if (!r->word[key])
			continue;
		memset(bytes, (int)key, sizeof(bytes));
		must(!memcmp(pool_map(&r->pool, r->word[key], bounce), bytes, sizeof(bytes)));
		pool_free(&r->pool, r->word[key]);
	}
	pool_destroy(&r->pool);
	source_close(&r->source);
}

/* ---- the slot word: each transition is overtaken by another ---- */

static host_a64 slot;

#define OBJECT slot_make(SLOT_PAGE, 77)
#define OTHER slot_make(SLOT_PAGE, 88)

static void set(u64 word)
{
	host_a64_set(&slot, word);
}

static u64 get(void)
{
	return host_a64_read(&slot);
}

static struct holds holds;

static void another_reads(host_a64 *a)
{
	host_a64_add(a, SLOT_READER);
}

static void another_lets_go(host_a64 *a)
{
	host_a64_add(a, -SLOT_READER);
}

static void another_marks(host_a64 *a)
{
	host_a64_add(a, SLOT_IDLE);
}

static void another_frees(host_a64 *a)
{
	slot_swap(a, 0);
}

/* Whose hold_orphan() comes later: it waits for the lock. */
static u64 swapped;

static void another_writes(host_a64 *a)
{
	swapped = slot_swap(a, OTHER);
}

static void overtake(void (*by)(host_a64 *a), unsigned int n)
{
	before_cas = by;
	overtakes = n;
}

static void begin_holds(u64 word)
{
	must_eq(holds_init(&holds, 4), 0);
	set(word);
}

static void end_holds(void)
{
	must(!holds_any(&holds));
	must(before_cas == NULL);
	holds_destroy(&holds);
}

CASE(a_hold_that_is_overtaken_holds_what_is_there)
{
	begin_holds(OBJECT);
	overtake(another_writes, 1);
	must_eq(slot_ref(hold_take(&holds, &slot)), 88);
	must_eq(get(), OTHER + SLOT_READER);
	set(OBJECT);
	overtake(another_frees, 1);
	must_eq(hold_take(&holds, &slot), 0);
	must_eq(get(), 0);
	end_holds();
}

CASE(a_hold_is_tried_until_it_holds)
{
	begin_holds(OBJECT);
	overtake(another_reads, 4);
	must_eq(hold_take(&holds, &slot), OBJECT);
	must_eq(get(), OBJECT + 5 * SLOT_READER);
	/* The seventh is there meanwhile, so it goes to the record. */
	set(OBJECT + 5 * SLOT_READER);
	overtake(another_reads, 2);
	must_eq(hold_take(&holds, &slot), OBJECT);
	must_eq(get(), OBJECT + SLOT_READERS);
	must(holds_any(&holds));
	must(!hold_drop(&holds, &slot, 77));
	must_eq(get(), OBJECT + SLOT_READERS);
	end_holds();
}

CASE(an_eighth_hold_that_a_swap_overtakes_holds_what_is_there)
{
	unsigned int i;

	begin_holds(OBJECT + SLOT_READERS);
	overtake(another_writes, 1);
	must_eq(hold_take(&holds, &slot), OTHER);
	must_eq(get(), OTHER + SLOT_READER);
	must_eq(swapped, OBJECT + SLOT_READERS);
	must(!hold_orphan(&holds, swapped));
	for (i = 0; i < 7; i++)
		must_eq(hold_drop(&holds, &slot, 77), i == 6);
	must(!hold_drop(&holds, &slot, 88));
	must_eq(get(), OTHER);
	end_holds();
}

CASE(an_eighth_hold_of_what_is_freed_holds_nothing)
{
	begin_holds(OBJECT + SLOT_READERS);
	overtake(another_frees, 1);
	must_eq(hold_take(&holds, &slot), 0);
	must_eq(get(), 0);
	must(!holds_any(&holds));
	end_holds();
}

CASE(a_drop_that_is_overtaken_is_in_the_record)
{
	/* By a swap, between look and compare-and-swap, without the lock and with it. */
	begin_holds(OBJECT + 2 * SLOT_READER);
	overtake(another_writes, 1);
	must(!hold_drop(&holds, &slot, 77));
	must_eq(get(), OTHER);
	must(holds_any(&holds));
	must(!hold_orphan(&holds, swapped));
	must(hold_drop(&holds, &slot, 77));

	set(OBJECT + SLOT_READER);
	overtake(another_writes, 1);
	must(!hold_drop_slow(&holds, &slot, 77));
	must_eq(get(), OTHER);
	must_eq(swapped, OBJECT + SLOT_READER);
	must(hold_orphan(&holds, swapped));
	end_holds();
}

CASE(a_drop_is_tried_until_it_let_go)
{
	begin_holds(OBJECT + 6 * SLOT_READER);
	overtake(another_lets_go, 4);
	must(!hold_drop(&holds, &slot, 77));
	must_eq(get(), OBJECT + SLOT_READER);
	/* Of seven, under the lock. */
	set(OBJECT + SLOT_READERS);
	overtake(another_marks, 2);
	must(!hold_drop(&holds, &slot, 77));
	must_eq(get() & ~SLOT_ABOUT, OBJECT + 6 * SLOT_READER);
	end_holds();
}

CASE(a_drop_leaves_another_objects_word_as_it_is)
{
	begin_holds(slot_make(SLOT_FILL, 77) + SLOT_READER);
	must(!drop_from_word(&slot, 77));
	must_eq(get(), slot_make(SLOT_FILL, 77) + SLOT_READER);
	set(OTHER + SLOT_READER);
	must(!hold_drop(&holds, &slot, 77));
	must_eq(get(), OTHER + SLOT_READER);
	must(hold_orphan(&holds, OBJECT + SLOT_READER));
	end_holds();
}

CASE(a_swing_that_is_overtaken_changes_nothing)
{
	static void (*const by[])(host_a64 *a) = { another_reads, another_frees, another_writes };

	for (size_t i = 0; i < ARRAY_LEN(by); i++) {
		set(OBJECT);
		overtake(by[i], 1);
		must(!slot_swing(&slot, 77, 99));
		must(slot_ref(get()) != 99);
	}
}
