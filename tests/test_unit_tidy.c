// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unit_tidy.c - taking units apart: what is damaged, what is spared and tried again, what
 * others do meanwhile, what a write without room does.
 */
#include "unit_rig.h"

/* Tidies as a tick does, so many times at most; the last answer. */
static int tidy_times(struct store *s, unsigned int most)
{
	int more = 1;

	for (unsigned int n = 0; n < most && more; n++)
		more = units_tidy(s);
	return more;
}

static void must_waste_an_eighth(struct store *s)
{
	u64 waste = store_count(s, CNT_UNIT_WASTE) * UNIT_SHARE, room = store_count(s, CNT_ROOM);

	must_be_at_most(waste, room / 8);
}

/* ---- a codec that cannot read the unit of one slot ---- */

static u64 unreadable;

static int unreadable_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	int err = codec_lz4.decompress(ctx, src, n, dst, cap);
	u64 slot;

	memcpy(&slot, dst, sizeof(slot));
	return err || (cap > PAGE_SIZE && slot == unreadable) ? -EIO : 0;
}

static struct store *open_with_unreadable(u64 slot)
{
	static struct codec_ops codec;
	struct store *s;

	codec = codec_lz4;
	codec.decompress = unreadable_decompress;
	codec.decompress_part = NULL;
	unreadable = slot;
	s = open_units(&codec, 4, 0, 0);
	for (u64 i = 0; i < SLOTS; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	return s;
}

/* One unit is damaged: the others are taken apart all the same. */
CASE(a_unit_that_cannot_be_read_keeps_no_other)
{
	struct store *s = open_with_unreadable(0);

	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4 != 1)
			must_eq(store_free(s, i), 0);
	tidy(s);
	must_waste_an_eighth(s);
}

/* The same at the limit: a write finds what those before it left. */
CASE(a_unit_that_cannot_be_read_fails_no_write)
{
	struct store *s = open_with_unreadable(160);

	WRITE_ONCE(s->pool.limit, pool_pages(&s->pool) << PAGE_SHIFT);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4 != 1)
			must_eq(store_free(s, i), 0);
	page_of(want, 2, 3);
	must_eq(store_try_write(s, 2, want, NUMA_NO_NODE), 0);
}

/* ---- two who tidy ---- */

/* While a writer waited for `tidying` the tick, or another writer, made all the room there is. */
static int tidy_after_another(struct store *s)
{
	tidy_times(s, 1000);
	return units_tidy(s);
}

CASE(a_write_finds_the_room_that_another_made)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 64 * PAGE_SIZE);
	static struct unit_ops ops;
	int err = 0;
	u64 i;

	ops = *s->unit_ops;
	ops.tidy = tidy_after_another;
	s->unit_ops = &ops;
	for (i = 0; i < SLOTS && !err; i += 16)
		err = put_unit(s, i, 2);
	must_eq(err, -EDQUOT);
	WRITE_ONCE(s->pool.limit, pool_pages(&s->pool) << PAGE_SHIFT);
	for (i = 0; i < SLOTS; i++)
		if (i % 16 != 7)
			drop(s, i);
	page_of(want, 900, 3);
	err = store_try_write(s, 900, want, NUMA_NO_NODE);
	must_eq(err, 0);
}

static unsigned int tidies;

static int tidy_nothing(struct store *s)
{
	tidies++;
	return 0;
}

CASE(a_write_does_not_tidy_again_where_that_was_all)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	static struct unit_ops ops;

	ops = *s->unit_ops;
	ops.tidy = tidy_nothing;
	s->unit_ops = &ops;
	page_of(want, 0, 3);
	s->pool.limit = 1;
	tidies = 0;
	must_eq(store_try_write(s, 0, want, NUMA_NO_NODE), -EDQUOT);
	must_eq(tidies, 1);
}

/* ---- what is spared ---- */

/* A munmap goes on while units are taken apart: what dies behind the walk is tried as well. */
CASE(what_dies_behind_a_walk_is_tried)
{
	struct store *s = open_units(&codec_lz4, 2, 0, 0);

	for (u64 i = 0; i < SLOTS; i += 2)
		must_eq(put_unit(s, i, 4), 0);
	for (u64 i = SLOTS / 2; i < SLOTS; i += 2)
		drop(s, i);
	must_eq(units_tidy(s), 1);
	for (u64 i = 0; i < SLOTS / 2; i += 2)
		drop(s, i);
	/* All ticks that there may be: nothing else dies. */
	for (unsigned int n = 0; n < 100; n++)
		tidy_times(s, 1000);
	must_waste_an_eighth(s);
}

/* Writeback gave up: its pages are as any other's again. */
CASE(what_is_chosen_no_more_is_tried)
{
	struct store *s = open_units_backed(&codec_lz4, 0);
	struct chosen c = { { 0 } };
	u64 at = 0;

	for (u64 i = 0; i < SLOTS; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	while (store_choose_piece(s, &at, SLOTS, 0, &c))
		;
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4)
			drop(s, i);
	tidy_times(s, 1000);
	for (at = 0; store_unchoose_piece(s, &at);)
		;
	for (unsigned int n = 0; n < 100; n++)
		tidy_times(s, 1000);
	must_waste_an_eighth(s);
}

/* A writeback that was killed, or whose device hangs, has chosen pages of most units. */
CASE(what_stays_chosen_is_not_tried_for_ever)
{
	struct store *s = open_units_backed(&codec_lz4, 0);
	struct chosen c = { { 0 } };
	u64 at;

	skip_if_pages_are_large();
	/* Every fourth does not repay it. */
	for (u64 i = 0; i < SLOTS; i += 4) {
		if (i % 16 == 12) {
			put_mixed(s, i, 0, 0);
			continue;
		}
		must_eq(put_unit(s, i, 4), 0);
		for (at = i; store_choose_piece(s, &at, i + 4, 0, &c);)
			;
	}
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4 < 2)
			must_eq(store_free(s, i), 0);
	for (unsigned int n = 0; units_tidy(s) > 0; n++)
		must(n < 1000);
	must_eq(units_tidy(s), 0);
	must_eq(stats(s).units, SLOTS / 4);
}

/* Works wait for who tidies. */
CASE(who_tidies_does_not_wait_for_memory)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	struct pages *from = &rig.source.pages;
	int more;

	for (u64 i = 0; i < SLOTS; i += 4)
		must_eq(put_unit(s, i, 2), 0);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4)
			drop(s, i);
	must_eq(pages_reserve_init(&from->own, 64), 0);
	must(!pages_refill(from));
	pcp_drain(&rig.source.pcp);
	host_user_fail = always;
	do
		more = units_tidy(s);
	while (more > 0);
	host_user_fail = NULL;
	/* Who waits has the reserve. */
	must_eq(more, -ENOMEM);
	must_eq(pages_reserved(from), 64);
	pages_reserve_destroy(&from->own, from->src);
	must_have_all(s);
}

/* ---- what taking apart costs ---- */

/*
 * zram-abi.md: none whose pages would take more alone is taken apart, and mem_limit is passed by
 * what a unit's pages take until it is gone.
 */
CASE(a_unit_that_stays_keeps_its_pages)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 pages;

	for (u64 i = 0; i < SLOTS; i += 16)
		put_mixed(s, i, 10, 1000);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 16 < 3)
			must_eq(store_free(s, i), 0);
	pages = pool_pages(&s->pool);
	WRITE_ONCE(s->pool.limit, pages << PAGE_SHIFT);
	for (unsigned int n = 0; n < 100; n++)
		tidy_times(s, 1000);
	store_compact(s);
	must_be_at_most(pool_pages(&s->pool), pages + 16);
}

/* What compresses best: a page's share is told in 64 bytes, and its unit takes less than that. */
CASE(small_units_are_not_taken_apart_to_take_more)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 room;

	for (u64 i = 0; i < SLOTS; i += 16)
		put_mixed(s, i, 16, 8);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 16 < 2)
			must_eq(store_free(s, i), 0);
	room = store_count(s, CNT_ROOM);
	tidy_times(s, 1000);
	must_be_at_most(store_count(s, CNT_ROOM), room);
}

/* ---- how long a write takes ---- */

static unsigned int unpacked, packed_pages;

static int counting_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	unpacked += cap > PAGE_SIZE;
	return codec_lz4.decompress(ctx, src, n, dst, cap);
}

static int counting_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	packed_pages += n == PAGE_SIZE;
	return codec_lz4.compress(ctx, src, n, dst, cap);
}

/* One write for which there is no room: its work is bounded, whatever the size of the store. */
CASE(a_write_without_room_does_bounded_work)
{
	static struct codec_ops codec;
	unsigned char page[PAGE_SIZE];
	struct store *s;

	skip_if_pages_are_large();
	codec = codec_lz4;
	codec.decompress = counting_decompress;
	codec.decompress_part = NULL;
	codec.compress = counting_compress;
	s = open_units(&codec, 4, 0, 0);
	for (u64 i = 0; i < SLOTS; i += 4)
		put_mixed(s, i, 0, 0);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4 < 2)
			must_eq(store_free(s, i), 0);
	WRITE_ONCE(s->pool.limit, 1);
	unpacked = packed_pages = 0;
	fill_random(page, PAGE_SIZE, 1);
	must_eq(store_try_write(s, 0, page, NUMA_NO_NODE), -EDQUOT);
	must_be_at_most(unpacked, STORE_TIDIES * UNIT_TIDY_PAGES);
}
