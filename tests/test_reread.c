// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_reread.c - what another thread writes between two reads of the same word.
 *
 * The file under test is compiled into this program with a host_read_once() that lets the other
 * thread go on after a read, so that the window is hit every time.
 */
#include "support.h"
#include "check.h"

static void (*after_read)(const void *place);

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_header_that_is_written_late_never_leads_compaction_astray),
	};

	return cmocka_run_group_tests_name("reread", tests, NULL, NULL);
}
