// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unit_recompress.c - units that another codec makes smaller.
 */
#include "unit_rig.h"

static unsigned char pages[MOST], packed[PAGE_SIZE];
static const struct recompress_work work = { pages, packed };

static struct codec_ops second;
static const struct codec_ops *base;    /* what it does */
static void (*during)(void);            /* while the second codec compresses a unit */
static bool fails;

static int second_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	if (n > PAGE_SIZE && during)
		during();
	return fails ? -EIO : base->compress(ctx, src, n, dst, cap);
}

/* Four pages a unit; lz4, then a second codec, and perhaps lz4 as a third. */
static struct store *open_codecs(const struct codec_ops *ops, bool third)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.codec[1] = { .ops = &second, .level = ops->default_level },
		.codec[2] = { .ops = third ? &codec_lz4 : NULL,
			      .level = codec_lz4.default_level },
		.slots = SLOTS, .chain = 8, .unit_pages = 4,
	};

	base = ops;
	second = *ops;
	second.compress = second_compress;
	during = NULL;
	fails = false;
	return open_units_of(&cfg);
}

/* lz4, and then perhaps lz4 again; last zstd with a dictionary, which takes no units. */
static struct store *open_dict(bool again)
{
	static unsigned char dict[4096];
	const struct store_codec zstd = {
		.ops = &codec_zstd, .level = codec_zstd.default_level,
		.dict = dict, .dict_bytes = sizeof(dict),
	}, lz4 = { .ops = &codec_lz4, .level = codec_lz4.default_level };
	const struct store_config cfg = {
		.codec[0] = lz4, .codec[1] = again ? lz4 : zstd,
		.codec[3] = again ? zstd : (struct store_codec){ 0 },
		.slots = SLOTS, .chain = 8, .unit_pages = 4,
	};

	fill_random(dict, sizeof(dict), 7);
	return open_units_of(&cfg);
}

/* Text, which zstd makes smaller than lz4. */
static void put_text(struct store *s, u64 first)
{
	unsigned int k;
	u64 word;

	for (k = 0; k < units.pages * PAGE_SIZE; k++)
		whole[k] = "aeinrst "[(first + k * 7919u / 3) % 8];
	for (k = 0; k < units.pages; k++)
		fill_random(whole + k * PAGE_SIZE, PAGE_SIZE / 10, first + k + 1);
	must_eq(unit_make(s, first, copy_whole, whole, NUMA_NO_NODE, HOST_MAY_WAIT, &word), 0);
	for (k = 0; k < units.pages; k++)
		unit_put(s, first + k, word);
}

static void must_be_text(struct store *s, u64 slot)
{
	must_eq(store_read(s, slot, got), 0);
	must(!memcmp(got, whole + slot % units.pages * PAGE_SIZE, PAGE_SIZE));
}

static u64 about(struct store *s, u64 slot)
{
	return host_a64_read(store_slot(s, slot)) & SLOT_ABOUT;
}

static int recompress(struct store *s, u64 i, unsigned int priority)
{
	struct recompress_request r;

	recompress_request_init(&r, priority);
	return store_recompress(s, i, &r, &work);
}

CASE(a_unit_is_tried_once_as_a_whole)
{
	struct store *s = open_codecs(&codec_zstd, false);
	struct recompress_request r;
	static unsigned char to[MOST];
	u64 at = 0, room;

	put_text(s, 4);
	room = stats(s).room;
	recompress_request_init(&r, 1);
	while (store_recompress_piece(s, &at, SLOTS, &r, &work) > 0)
		;
	must_eq(r.tried, 4);
	must_eq(r.done, 4);
	must_eq(stats(s).units, 1);
	must_eq(stats(s).pages, 4);
	must(stats(s).room < room);
	for (u64 k = 4; k < 8; k++) {
		must_be_text(s, k);
		must_eq(about(s, k), (u64)1 << SLOT_CODEC_SHIFT);
	}
	must(unit_read_whole(s, 4, to));
	must(!memcmp(to, whole, 4 * PAGE_SIZE));
	must_eq(recompress(s, 4, 1), RECOMPRESS_PASSED);
	must_hold(store_check(s));
	for (u64 k = 4; k < 8; k++)
		drop(s, k);
	must_eq(pool_pages(&s->pool), 0);
}

/* What another writes meanwhile, or frees, is not what was read. */
static void write_one(void)
{
	put_page(&rig.store, 1, 4);
	drop(&rig.store, 2);
}

CASE(who_writes_meanwhile_wins)
{
	struct store *s = open_codecs(&codec_zstd, false);

	put_text(s, 0);
	during = write_one;
	must_eq(recompress(s, 0, 1), RECOMPRESS_DONE);
	during = NULL;
	must_be_text(s, 0);
	must_have(s, 1);
	must_have(s, 2);
	must_be_text(s, 3);
	must_eq(stats(s).pages, 2);
	must_eq(stats(s).dead, 2);
	must_eq(store_count(s, CNT_UNIT_WASTE) > 0, 1);
}

static void drop_all(void)
{
	for (u64 k = 0; k < 4; k++)
		drop(&rig.store, k);
}

CASE(a_unit_that_goes_meanwhile_leaves_nothing)
{
	struct store *s = open_codecs(&codec_zstd, false);

	put_text(s, 0);
	during = drop_all;
	must_eq(recompress(s, 0, 1), RECOMPRESS_DONE);
	must_eq(stats(s).units, 0);
	must_eq(pool_pages(&s->pool), 0);
	must_eq(store_count(s, CNT_UNIT_WASTE), 0);
}

static u64 coming;

static void put_the_last(void)
{
	unit_put(&rig.store, 3, coming);
}

/* A unit comes to its slots one by one: what comes late stays in the old one. */
CASE(a_unit_of_which_slots_say_nothing_yet_loses_no_page)
{
	struct store *s = open_codecs(&codec_zstd, false);

	put_text(s, 0);
	for (u64 k = 0; k < 4; k++)
		drop(s, k);
	must_eq(unit_make(s, 0, copy_whole, whole, NUMA_NO_NODE, HOST_MAY_WAIT, &coming), 0);
	for (u64 k = 0; k < 3; k++)
		unit_put(s, k, coming);
	during = put_the_last;
	must_eq(recompress(s, 0, 1), RECOMPRESS_DONE);
	during = NULL;
	for (u64 k = 0; k < 4; k++)
		must_be_text(s, k);
	must_eq(about(s, 3), 0);
	must_eq(stats(s).pages, 4);
}

CASE(pages_that_died_take_nothing_of_the_new_unit)
{
	struct store *s = open_codecs(&codec_zstd, false);
	size_t bytes;

	put_text(s, 0);
	put_text(s, 4);
	drop(s, 4);
	must_eq(recompress(s, 0, 1), RECOMPRESS_DONE);
	bytes = store_count(s, CNT_COMPR_BYTES);
	must_eq(recompress(s, 4, 1), RECOMPRESS_PASSED);
	must_eq(recompress(s, 5, 1), RECOMPRESS_DONE);
	must_eq(recompress(s, 6, 1), RECOMPRESS_PASSED);
	must(unit_page_bytes(s, host_a64_read(store_slot(s, 5))) + 64 <
	     unit_page_bytes(s, host_a64_read(store_slot(s, 0))));
	must(store_count(s, CNT_COMPR_BYTES) < bytes);
	for (u64 k = 5; k < 8; k++)
		must_be_text(s, k);
	must_have(s, 4);
}

/* By the last codec it is not tried again, by another it is. */
CASE(a_unit_that_gets_no_smaller_stays)
{
	for (unsigned int third = 0; third < 2; third++) {
		struct store *s = open_codecs(&codec_lz4, third);
		u64 kept = third ? 0 : SLOT_INCOMPRESSIBLE, room;

		must_eq(put_unit(s, 0, 6), 0);
		mark_all_idle(s);
		room = stats(s).room;
		must_eq(recompress(s, 0, 1), RECOMPRESS_KEPT);
		must_eq(stats(s).room, room);
		must_eq(stats(s).units, 1);
		for (u64 k = 0; k < 4; k++)
			must_eq(about(s, k), kept);
		must_eq(recompress(s, 0, 1), kept ? RECOMPRESS_PASSED : RECOMPRESS_KEPT);
		if (third) {
			must_eq(recompress(s, 0, 2), RECOMPRESS_KEPT);
			must_eq(about(s, 3), SLOT_INCOMPRESSIBLE);
		}
		must_have_all(s);
		must_hold(store_check(s));
		rig_close();
	}
}

/* Half of it is of one word now, which says nothing of the other half. */
CASE(a_unit_of_which_half_died_gets_smaller)
{
	struct store *s = open_codecs(&codec_zstd, false);
	u64 room;

	put_text(s, 4);
	room = stats(s).room;
	drop(s, 4);
	drop(s, 6);
	must_eq(recompress(s, 5, 1), RECOMPRESS_DONE);
	must_eq(about(s, 7), (u64)1 << SLOT_CODEC_SHIFT);
	must(stats(s).room < room * 3 / 4);
	must_be_text(s, 5);
	must_be_text(s, 7);
	must_have(s, 6);
	drop(s, 5);
	must_be_text(s, 7);
}

/* Units that are not tried as a whole are none of the largest that max_pages is about. */
CASE(what_is_counted_is_what_is_tried)
{
	struct store *s = open_codecs(&codec_zstd, false);
	u64 count[RECOMPRESS_BANDS], at;
	struct recompress_request r;

	put_text(s, 4);
	mark_all_idle(s);
	recompress_request_init(&r, 1);
	for (unsigned int k = 0; k < 4; k++) {
		u64 sum = 0;

		memset(count, 0, sizeof(count));
		at = 0;
		r.idle = k >= 2;
		r.left = k == 1 ? 3 : ~(u64)0;
		if (k == 3)
			must_be_text(s, 6);
		while (store_recompressible(s, &at, SLOTS, &r, count))
			;
		for (unsigned int b = 0; b < RECOMPRESS_BANDS; b++)
			sum += count[b];
		must_eq(sum, k % 2 ? 0 : 4);
	}
}

CASE(a_request_is_about_all_pages_of_a_unit_or_none)
{
	struct store *s = open_codecs(&codec_zstd, false);
	struct recompress_request r;
	size_t bytes;

	put_text(s, 0);
	bytes = unit_page_bytes(s, host_a64_read(store_slot(s, 0)));
	recompress_request_init(&r, 1);
	r.idle = true;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_PASSED);
	mark_all_idle(s);
	must_be_text(s, 2);
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_PASSED);
	r.idle = false;
	r.huge = true;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_PASSED);
	r.huge = false;
	r.left = 3;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_PASSED);
	r.left = 4;
	r.threshold = bytes + 1;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_PASSED);
	/* The new one has to be below it, too. */
	r.threshold = 8;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_KEPT);
	must_eq(r.left, 0);
	host_a64_and(store_slot(s, 0), ~SLOT_INCOMPRESSIBLE);
	must_eq(recompress(s, 0, 1), RECOMPRESS_PASSED);
	for (u64 k = 1; k < 4; k++)
		host_a64_and(store_slot(s, k), ~SLOT_INCOMPRESSIBLE);
	r.left = 4;
	r.threshold = bytes;
	mark_all_idle(s);
	r.idle = true;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_DONE);
	must_eq(r.left, 0);
	must_eq(about(s, 2), (u64)1 << SLOT_CODEC_SHIFT);
}

CASE(a_codec_with_a_dictionary_passes_units_over)
{
	struct store *s = open_dict(false);

	put_text(s, 0);
	must_eq(recompress(s, 0, 1), RECOMPRESS_PASSED);
	put_page(s, 9, 6);
	must(recompress(s, 9, 1) >= RECOMPRESS_KEPT);
	must_be_text(s, 1);
	must_have(s, 9);
}

/* The last codec that takes units says which are incompressible. */
CASE(with_a_dictionary_last_no_unit_is_tried_for_ever)
{
	struct store *s = open_dict(true);

	put_text(s, 0);
	must_eq(recompress(s, 0, 1), RECOMPRESS_KEPT);
	must_eq(about(s, 0), SLOT_INCOMPRESSIBLE);
	must_eq(recompress(s, 0, 1), RECOMPRESS_PASSED);
	must_have(s, 9);
}

/* Of a disk that is that large, pages are recompressed still. */
CASE(where_no_unit_is_left_to_be_made_others_go_on)
{
	struct store *s = open_codecs(&codec_zstd, false);
	struct recompress_request r;
	u64 at = 0;

	put_text(s, 0);
	put_page(s, 9, 5);
	units.most = 1;
	recompress_request_init(&r, 1);
	while (store_recompress_piece(s, &at, SLOTS, &r, &work) > 0)
		;
	must_eq(at, SLOTS);
	must_eq(r.tried, 1);
	must_be_text(s, 0);
	must_have(s, 9);
}

static unsigned int refuse;

static bool refused(void)
{
	return refuse && !--refuse;
}

CASE(at_each_failure_nothing_changes)
{
	unsigned int n, failures = 0;
	int done = -ENOMEM;

	for (n = 1; done < 0; n++) {
		struct store *s = open_codecs(&codec_zstd, false);
		u64 room;

		put_text(s, 0);
		room = stats(s).room;
		mark_all_idle(s);
		pcp_drain(&rig.source.pcp);
		refuse = n;
		host_user_fail = refused;
		done = recompress(s, 0, 1);
		host_user_fail = NULL;
		if (done < 0) {
			must_eq(done, -ENOMEM);
			must_eq(stats(s).room, room);
			for (u64 k = 0; k < 4; k++)
				must_eq(about(s, k), SLOT_IDLE);
			failures++;
		}
		for (u64 k = 0; k < 4; k++)
			must_be_text(s, k);
		must_hold(store_check(s));
		rig_close();
	}
	must_eq(done, RECOMPRESS_DONE);
	printf("# failures injected: %u\n", failures);
}

CASE(a_codec_that_fails_changes_nothing)
{
	struct store *s = open_codecs(&codec_zstd, false);

	put_text(s, 0);
	mark_all_idle(s);
	fails = true;
	must_eq(recompress(s, 0, 1), -EIO);
	for (u64 k = 0; k < 4; k++)
		must_eq(about(s, k), SLOT_IDLE);
	fails = false;
	must_eq(recompress(s, 0, 1), RECOMPRESS_DONE);
	must_be_text(s, 3);
}

static unsigned int passes;

static void fail_at_the_second(void)
{
	fails = ++passes == 2;
}

/* There was no page for the first: it is no page that does not get smaller. */
CASE(so_does_one_that_fails_at_its_second_pass)
{
	int done = 0;

	for (unsigned int n = 1; n < 32 && done != -EIO; n++) {
		struct store *s = open_codecs(&codec_zstd, false);

		put_text(s, 0);
		mark_all_idle(s);
		pcp_drain(&rig.source.pcp);
		passes = 0;
		during = fail_at_the_second;
		refuse = n;
		host_user_fail = refused;
		done = recompress(s, 0, 1);
		host_user_fail = NULL;
		for (u64 k = 0; k < 4 && done < 0; k++)
			must_eq(about(s, k), SLOT_IDLE);
		must_be_text(s, 3);
		must_hold(store_check(s));
		rig_close();
	}
	must_eq(done, -EIO);
}

/* Slots of text: of 64 KiB there is memory for few. */
#define MANY (PAGE_SIZE > 32768 ? 32u : 256u)

/* It takes less than it gives back. */
CASE(at_the_limit_units_get_smaller)
{
	struct store *s = open_codecs(&codec_zstd, false);
	struct recompress_request r;
	u64 at = 0, room;

	for (u64 i = 0; i < MANY; i += 4)
		put_text(s, i);
	room = stats(s).room;
	s->pool.limit = pool_pages(&s->pool) << PAGE_SHIFT;
	recompress_request_init(&r, 1);
	while (store_recompress_piece(s, &at, SLOTS, &r, &work) > 0)
		;
	must_eq(r.done, MANY);
	must(stats(s).room < room);
}

/* By the first codec, as any page. */
CASE(what_was_recompressed_is_taken_apart)
{
	struct store *s = open_codecs(&codec_zstd, false);
	u64 i;

	for (i = 0; i < MANY; i += 4)
		put_text(s, i);
	for (i = 0; i < MANY; i += 4)
		must_eq(recompress(s, i, 1), RECOMPRESS_DONE);
	for (i = 0; i < MANY; i++)
		if (i % 4 != 3)
			drop(s, i);
	tidy(s);
	must_eq(stats(s).units, 0);
	must_eq(about(s, MANY - 1), 0);
	put_text(s, MANY - 4);
	must_be_text(s, MANY - 1);
}
