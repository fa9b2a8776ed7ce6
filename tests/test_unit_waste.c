// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unit_waste.c - units of which pages died: what that costs, and how they are taken apart.
 */
#include "unit_rig.h"

/* ---- waste ---- */

CASE(who_keeps_one_page_of_each_unit_keeps_no_more_than_that)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 was;

	for (u64 i = 0; i < SLOTS; i += 16)
		must_eq(put_unit(s, i, 4 + i), 0);
	must_eq(units_tidy(s), 0);
	was = pool_pages(&s->pool);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 16 != 7)
			drop(s, i);
	must_eq(pool_pages(&s->pool), was);
	must_eq(stats(s).dead, SLOTS / 16 * 15);
	tidy(s);
	must_have_all(s);
	must_hold(store_check(s));
	must_be_at_most(pool_pages(&s->pool), was / 4);
}

CASE(units_with_few_live_pages_are_taken_apart_first)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	unsigned int k;

	for (u64 i = 0; i < SLOTS; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	/* A quarter of the units have one page left, and a quarter three. */
	for (u64 i = 0; i < SLOTS; i += 16) {
		for (k = 0; k < 3; k++)
			drop(s, i + k);
		drop(s, i + 4);
	}
	tidy(s);
	must_have_all(s);
	for (u64 i = 0; i < SLOTS; i += 16)
		must_eq(slot_type(host_a64_read(store_slot(s, i + 5))), SLOT_UNIT);
}

/* However many pages of each unit died, where pages have little in common. */
CASE(waste_ends_at_an_eighth)
{
	static const unsigned int sizes[] = { 2, 4, 8, 16 };

	for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++)
		for (unsigned int dead = 1; dead < sizes[i]; dead++) {
			struct store *s = open_units(&codec_lz4, sizes[i], 0, 0);
			struct unit_stats st;

			for (u64 k = 0; k < SLOTS; k += sizes[i])
				must_eq(put_unit(s, k, 6), 0);
			for (u64 k = 0; k < SLOTS; k++)
				if (k % sizes[i] < dead)
					drop(s, k);
			tidy(s);
			st = stats(s);
			must_be_at_most(st.room * st.dead / (st.pages + st.dead + 1),
					store_count(s, CNT_ROOM) / 8);
			must_have_all(s);
			rig_close();
		}
}

CASE(at_the_limit_waste_comes_back)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 64 * PAGE_SIZE);

	fill_and_drop(s);
	tidy(s);
	must_be_at_most(pool_pages(&s->pool), 32);
	put_page(s, 1000, 3);
	must_have_all(s);
}

CASE(taking_apart_that_finds_no_memory_changes_nothing)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);

	for (u64 i = 0; i < SLOTS; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 4)
			drop(s, i);
	pcp_drain(&rig.source.pcp);
	host_user_fail = always;
	units_tidy(s);
	host_user_fail = NULL;
	must_have_all(s);
	must_hold(store_check(s));
	tidy(s);
	must_have_all(s);
}

/* What others do while a page that is taken out is compressed, or one is unpacked. */
static void (*meanwhile)(struct store *s);
static struct codec_ops watched;

static int watched_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	void (*now)(struct store *s) = n == PAGE_SIZE ? meanwhile : NULL;
	unsigned char page[PAGE_SIZE];

	if (now) {
		meanwhile = NULL;
		memcpy(page, src, n);
		now(&rig.store);
		src = page;
	}
	return codec_lz4.compress(ctx, src, n, dst, cap);
}

static int watched_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	void (*now)(struct store *s) = meanwhile;

	meanwhile = NULL;
	if (now)
		now(&rig.store);
	return codec_lz4.decompress(ctx, src, n, dst, cap);
}

static void write_again(struct store *s)
{
	/* Of another stream: this one is at work. */
	must_eq(put_unit(s, 0, 8), 0);
}

static void write_page_again(struct store *s)
{
	u64 word = slot_make(SLOT_FILL, 0);

	store_put_word(s, store_slot(s, 0), word);
	version[0] = 0;
}

CASE(a_write_that_comes_first_wins)
{
	void (*others[])(struct store *) = { write_again, write_page_again };

	for (unsigned int i = 0; i < ARRAY_LEN(others); i++) {
		struct store *s;

		watched = codec_lz4;
		watched.compress = watched_compress;
		s = open_units(&watched, 2, 0, 0);
		must_eq(put_unit(s, 0, 4), 0);
		drop(s, 1);
		if (s->streams[0]->n < 2 && !i) {
			rig_close();
			continue;
		}
		meanwhile = others[i];
		units_tidy(s);
		must(!meanwhile);
		must_have(s, 0);
		must_hold(store_check(s));
		rig_close();
	}
}

static void choose_first(struct store *s)
{
	struct chosen c = { { 0 } };
	u64 at = 0;

	while (store_choose_piece(s, &at, 1, 0, &c))
		;
	must(host_a64_read(store_slot(s, 0)) & SLOT_CHOSEN);
}

CASE(what_is_taken_out_is_chosen_no_more)
{
	struct store *s;
	u64 block;

	watched = codec_lz4;
	watched.compress = watched_compress;
	s = open_units_backed(&watched, 0);
	for (u64 i = 0; i < 64; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	for (u64 i = 0; i < 64; i++)
		if (i % 4)
			drop(s, i);
	must_eq(store_reserve_block(s, &block), 0);
	/* It is chosen, and copied as it was in the unit, while it is compressed. */
	meanwhile = choose_first;
	tidy(s);
	must(!meanwhile);
	must_eq(slot_type(host_a64_read(store_slot(s, 0))), SLOT_PAGE);
	must(!store_to_backed(s, 0, block));
	backed_unreserve(s->backed, block);
	must_have(s, 0);
}

/* ---- what taking apart may cost ---- */

/* An eighth of the units, which compress badly, have one page left; the others are small. */
CASE(waste_is_what_the_dead_pages_of_each_unit_take)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 was;

	for (u64 i = 0; i < SLOTS; i += 16)
		put_mixed(s, i, 16, i < SLOTS / 8 ? PAGE_SIZE * 5 / 8 : 0);
	was = pool_pages(&s->pool);
	for (u64 i = 0; i < SLOTS / 8; i++)
		if (i % 16)
			must_eq(store_free(s, i), 0);
	tidy(s);
	store_compact(s);
	must_be_at_most(pool_pages(&s->pool), was / 2);
}

/* What dies before the place where a walk rested is looked at as well. */
CASE(a_walk_that_rested_goes_all_the_way_round)
{
	struct store *s = open_units(&codec_lz4, 2, 0, 0);
	struct unit_stats st;

	for (u64 i = 0; i < SLOTS; i += 2)
		must_eq(put_unit(s, i, 4), 0);
	for (u64 i = SLOTS / 2; i < SLOTS; i += 2)
		drop(s, i);
	tidy(s);
	for (u64 i = 0; i < SLOTS / 2; i += 2)
		drop(s, i);
	tidy(s);
	st = stats(s);
	must_be_at_most(st.room * st.dead / (st.pages + st.dead + 1), store_count(s, CNT_ROOM) / 8);
}

/* Memory was short for a moment: later the unit is tried again. */
CASE(a_unit_that_found_no_memory_is_tried_again)
{
	struct store *s = open_units(&codec_lz4, 2, 0, 0);

	must_eq(put_unit(s, 0, 4), 0);
	drop(s, 1);
	pcp_drain(&rig.source.pcp);
	host_user_fail = always;
	must(units_tidy(s) < 0);
	host_user_fail = NULL;
	tidy(s);
	must_have(s, 0);
	must_eq(stats(s).dead, 0);
}

/* Pages that are alike take a page together, and one each alone. */
CASE(taking_units_apart_takes_no_more_memory)
{
	struct store *s;
	u64 was;

	skip_if_pages_are_large();
	s = open_units(&codec_lz4, 16, 0, 0);
	for (u64 i = 0; i < SLOTS; i += 16)
		put_mixed(s, i, 0, 0);
	was = pool_pages(&s->pool);
	WRITE_ONCE(s->pool.limit, (was + 16) << PAGE_SHIFT);
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 16 < 3)
			must_eq(store_free(s, i), 0);
	tidy(s);
	must_be_at_most(pool_pages(&s->pool), was + 16);
}

/* Where pages that are alike were taken apart, what found room before finds some after. */
CASE(taking_units_apart_leaves_room_for_others)
{
	struct store *s;

	skip_if_pages_are_large();
	s = open_units(&codec_lz4, 16, 0, 0);
	for (u64 i = 0; i < SLOTS - 16; i += 16)
		put_mixed(s, i, 0, 0);
	WRITE_ONCE(s->pool.limit, (pool_pages(&s->pool) + 16) << PAGE_SHIFT);
	put_page(s, SLOTS - 16, 3);
	for (u64 i = 0; i < SLOTS - 16; i++)
		if (i % 16 < 3)
			must_eq(store_free(s, i), 0);
	tidy(s);
	store_compact(s);
	put_page(s, SLOTS - 1, 3);
}

/* The limit is passed by what the pages of one unit take at most. */
CASE(the_limit_is_passed_by_a_unit_at_most)
{
	for (u64 limit = 0; limit <= 4 << 20; limit += 4 << 20) {
		struct store *s = open_units(&codec_lz4, 16, limit, 0);
		u64 was;

		for (u64 i = 0; i < SLOTS; i += 16)
			must_eq(put_unit(s, i, 2), 0);
		for (u64 i = 0; i < SLOTS; i++)
			if (i % 16 > 3)
				drop(s, i);
		release_flush(&s->release);
		was = pool_pages(&s->pool);
		WRITE_ONCE(s->pool.limit, was << PAGE_SHIFT);
		pool_reset_peak(&s->pool);
		tidy(s);
		must_be_at_most(pool_pages_peak(&s->pool), was + 16);
		rig_close();
	}
}

/* What a unit took is not held back past the limit, though it ends with a reader who knows none. */
CASE(who_reads_last_leaves_nothing_past_the_limit)
{
	struct store *s;

	watched = codec_lz4;
	watched.decompress = watched_decompress;
	watched.decompress_part = NULL;
	s = open_units(&watched, 16, 4 << 20, 0);
	must_eq(put_unit(s, 0, 2), 0);
	for (u64 i = 1; i < 16; i++)
		drop(s, i);
	WRITE_ONCE(s->pool.limit, pool_pages(&s->pool) << PAGE_SHIFT);
	if (s->streams[0]->n > 1) {
		meanwhile = tidy;
		must_have(s, 0);
		must(!meanwhile);
		must_be_at_most(pool_pages(&s->pool) << PAGE_SHIFT, s->pool.limit);
		must_eq(stats(s).units, 0);
		must_have(s, 0);
	}
}

/* At the limit: what was freed is room at once, as without units. */
CASE(at_the_limit_a_write_finds_what_was_freed)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 64 * PAGE_SIZE);

	fill_and_drop(s);
	for (u64 i = 900; i < 908; i++)
		put_page(s, i, 3);
	must_have_all(s);
}

/* The same at the limit: room is found when what is dead has been looked for. */
CASE(at_the_limit_dead_pages_of_large_units_make_room)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);

	for (u64 i = 0; i < SLOTS; i += 16)
		put_mixed(s, i, 16, i < SLOTS / 8 ? PAGE_SIZE * 5 / 8 : 0);
	WRITE_ONCE(s->pool.limit, pool_pages(&s->pool) << PAGE_SHIFT);
	for (u64 i = 0; i < SLOTS / 8; i++)
		if (i % 16)
			must_eq(store_free(s, i), 0);
	tidy(s);
	store_compact(s);
	for (u64 i = 1; i < 9; i++)
		put_page(s, i, 3);
}

/* Pages that do not compress are the worse for pages of zeros beside them. */
CASE(a_unit_takes_no_more_than_its_pages_alone)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 word, room;

	memset(whole, 0, sizeof(whole));
	fill_random(whole + 7 * PAGE_SIZE, 9 * PAGE_SIZE, 1);
	for (unsigned int k = 0; k < 16; k++)
		must_eq(store_write(s, k, whole + k * PAGE_SIZE, NUMA_NO_NODE), 0);
	room = store_count(s, CNT_ROOM);
	must_eq(store_count(s, CNT_HUGE), 9);
	if (!unit_make(s, 0, copy_whole, whole, NUMA_NO_NODE, HOST_MAY_WAIT, &word))
		for (unsigned int k = 0; k < 16; k++)
			unit_put(s, k, word);
	must_be_at_most(store_count(s, CNT_ROOM), room);
}

/* A page that is chosen is written back, whoever wants to take its unit apart meanwhile. */
CASE(what_was_chosen_is_still_found)
{
	struct store *s = open_units_backed(&codec_lz4, 0);
	struct chosen c = { { 0 } };
	u64 at = 0, n = 0, found = 0;

	for (u64 i = 0; i < 64; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	for (u64 i = 0; i < 64; i += 4)
		drop(s, i);
	while (store_choose_piece(s, &at, SLOTS, 0, &c))
		;
	for (unsigned int k = 0; k < CHOOSE_SIZES; k++)
		n += c.n[k];
	tidy(s);
	for (at = 0; at < SLOTS;)
		if (store_next_chosen(s, &at, 0, CHOOSE_SIZES - 1))
			at++, found++;
	must(n > 0);
	must_eq(found, n);
}
