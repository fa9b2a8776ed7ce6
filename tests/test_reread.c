// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_reread.c - what another thread does between a look and what is done about it.
 *
 * The code under test is compiled into this program with a host_read_once(), a host_a64_cas() and
 * a host_relax() that let the other thread go on just after or before, so that the window is hit
 * every time.
 */
#include "support.h"

static void (*after_read)(const void *place);
static void (*before_cas)(host_a64 *a);         /* once */
static void (*while_waiting)(void);             /* once */

static bool overtaken_cas(host_a64 *a, u64 *old, u64 v)
{
	void (*other)(host_a64 *a) = before_cas;

	before_cas = NULL;
	if (other)
		other(a);
	return host_a64_cas(a, old, v);
}

static void overtaken_relax(unsigned int *spins)
{
	must(while_waiting != NULL);
	while_waiting();
	while_waiting = NULL;
	++*spins;
}

#define host_a64_cas overtaken_cas
#define host_relax overtaken_relax
#include "check.h"

#undef host_read_once
#define host_read_once(x)                                               \
	__extension__({                                                 \
		__typeof__(x) v_ = __atomic_load_n(&(x), __ATOMIC_RELAXED); \
		if (after_read)                                         \
			after_read(&(x));                               \
		v_;                                                     \
	})
#include "../core/compact.c"

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

static unsigned char bytes[SIZE], bounce[HOST_PAGE_SIZE];

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
	host_write_once(*r->late_header, r->late_key);
	r->word[r->late_key] = r->late;
	r->late = 0;
}

/*
 * pool_alloc() writes the header after it has dropped the class lock, so compaction may read
 * there what a page happened to hold.  A key that look() has not found good must not reach
 * swing(), which trusts it.
 */
static void a_header_that_is_written_late_never_leads_compaction_astray(void **state)
{
	const struct pool_owner owner = { .ctx = &rig, .look = look, .swing = swing };
	struct rig *r = &rig;
	struct pool_class *c;
	u32 key, objs, last;

	source_open(&r->source);
	must_eq(pool_init(&r->pool, &r->source.pcp, 8, &owner), 0);
	for (key = 0; key < KEYS; key++) {
		must_eq(pool_alloc(&r->pool, SIZE, key, &r->word[key]), 0);
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
	r->late_header = object_key(&r->pool, c, zspage_at(&r->pool.zspages, ref_zspage(r->late)),
				    ref_obj(r->late));
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
	must_hold(pool_check(&r->pool));

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

static void another_reads(host_a64 *a)
{
	host_a64_add(a, SLOT_READER);
}

static void another_lets_go(host_a64 *a)
{
	must_eq(slot_drop(a), 0);
}

static void another_frees(host_a64 *a)
{
	slot_detach(a);
}

static void another_writes(host_a64 *a)
{
	host_a64_set(a, OTHER);
}

static void a_hold_that_is_overtaken_holds_what_is_there(void **state)
{
	set(OBJECT);
	before_cas = another_writes;
	must_eq(slot_ref(slot_hold(&slot)), 88);
	must_eq(get(), OTHER + SLOT_READER);
	set(OBJECT);
	before_cas = another_frees;
	must_eq(slot_hold(&slot), 0);
	must_eq(get(), 0);
	/* Freed under a reader. */
	set(OBJECT + SLOT_READER);
	before_cas = another_frees;
	must_eq(slot_hold(&slot), 0);
	must_eq(get(), (OBJECT + SLOT_READER) | SLOT_FREE);
}

static void a_drop_that_is_overtaken_leaves_the_last_act_to_the_last(void **state)
{
	set(OBJECT + SLOT_READER);
	before_cas = another_frees;
	must_eq(slot_drop(&slot), OBJECT);
	must_eq(get(), 0);
	set((OBJECT + SLOT_READER) | SLOT_FREE);
	before_cas = another_reads;             /* it was there before, and comes into sight now */
	must_eq(slot_drop(&slot), 0);
	must_eq(slot_drop(&slot), OBJECT);
	must_eq(get(), 0);
}

static void a_detach_that_is_overtaken_takes_what_is_there(void **state)
{
	set(OBJECT);
	before_cas = another_reads;
	must_eq(slot_detach(&slot), 0);
	must_eq(slot_drop(&slot), OBJECT);
	set(OBJECT);
	before_cas = another_frees;
	must_eq(slot_detach(&slot), 0);
	set(OBJECT + SLOT_READER);
	before_cas = another_lets_go;
	must_eq(slot_detach(&slot), OBJECT);
	must_eq(get(), 0);
}

static void a_publish_that_is_overtaken_returns_what_it_replaced(void **state)
{
	set(OBJECT);
	before_cas = another_frees;
	must_eq(slot_publish(&slot, OTHER), 0);
	must_eq(get(), OTHER);
}

static void a_swing_that_is_overtaken_changes_nothing(void **state)
{
	static void (*const by[])(host_a64 *a) = { another_reads, another_frees, another_writes };

	for (size_t i = 0; i < ARRAY_LEN(by); i++) {
		set(OBJECT);
		before_cas = by[i];
		must(!slot_swing(&slot, 77, 99));
		must(slot_ref(get()) != 99);
	}
}

static void readers_let_go(void)
{
	must_eq(slot_drop(&slot), 0);
}

static void an_eighth_reader_and_a_writer_wait_for_a_reader_to_let_go(void **state)
{
	set(OBJECT + SLOT_READERS);
	while_waiting = readers_let_go;
	must_eq(slot_ref(slot_hold(&slot)), 77);
	must(while_waiting == NULL);
	must_eq(get(), OBJECT + SLOT_READERS);

	set(OBJECT + SLOT_READER);
	while_waiting = readers_let_go;
	must_eq(slot_publish(&slot, OTHER), OBJECT);
	must(while_waiting == NULL);
	must_eq(get(), OTHER);
}

/* ---- descriptors: what takes a great many of them ---- */

static void descriptors_are_given_back_in_any_number_and_run_out_in_order(void **state)
{
	enum { UNITS = 63, EACH = (1 << ZSPAGE_UNIT_BITS) / UNITS, N = (PCP_BATCH_MAX + 2) * EACH };
	/* A descriptor of so many units: the most pages, and a bitmap for the rest. */
	const unsigned int pages = 16;
	static u32 no[N];
	struct zspage_table t;
	unsigned int i, objs = 64;

	while (zspage_units(objs + 64, pages) <= UNITS)
		objs += 64;
	source_open(&rig.source);
	must_eq(zspage_table_init(&t, &rig.source.pcp), 0);
	for (i = 0; i < N; i++)
		must_eq(zspage_new(&t, 1, objs, pages, &no[i]), 0);
	must(zspage_table_pages(&t) > PCP_BATCH_MAX);
	must(zspage_table_is_tidy(&t));
	zspage_free(&t, no, N);
	must_eq(zspage_table_pages(&t), 0);

	/* The numbers are all taken, as far as the table knows. */
	t.hint = 1u << (ZSPAGE_LEAF_BITS + ZSPAGE_TOP_BITS);
	must_eq(zspage_new(&t, 1, objs, pages, &no[0]), -ENOMEM);
	must_eq(zspage_table_pages(&t), 0);
	zspage_table_destroy(&t);
	source_close(&rig.source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hold_that_is_overtaken_holds_what_is_there),
		cmocka_unit_test(a_drop_that_is_overtaken_leaves_the_last_act_to_the_last),
		cmocka_unit_test(a_detach_that_is_overtaken_takes_what_is_there),
		cmocka_unit_test(a_publish_that_is_overtaken_returns_what_it_replaced),
		cmocka_unit_test(a_swing_that_is_overtaken_changes_nothing),
		cmocka_unit_test(an_eighth_reader_and_a_writer_wait_for_a_reader_to_let_go),
		cmocka_unit_test(descriptors_are_given_back_in_any_number_and_run_out_in_order),
		cmocka_unit_test(a_header_that_is_written_late_never_leads_compaction_astray),
	};

	return cmocka_run_group_tests_name("reread", tests, NULL, NULL);
}
