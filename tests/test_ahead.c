// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_ahead.c - pages that come to a backing device without having been in memory, and which of those
 * in memory go there first.  The device is an array.
 */
#include "backed_rig.h"

/* ---- pages that were never here ---- */

static int put_on_device(struct store *s, u64 i)
{
	u64 block;
	int err = store_need_slot(s, i, HOST_ANY_NODE);

	if (!err)
		err = backed_reserve(&s->backed, &block);
	if (err)
		return err;
	make_page(device[block], i, i % 3);
	store_put_backed(s, i, block);
	return 0;
}

/* Pages that never were in memory, over nothing, objects, fills and other blocks, in both modes. */
static void test_put(void **state)
{
	for (unsigned int way = 0; way < 4; way++) {
		struct store *s = open_rig(way & 1 ? 0 : 1 << 20, BLOCKS);
		bool packed = way & 2;

		must_eq(store_need_slot(s, SLOTS, HOST_ANY_NODE), -ERANGE);
		must_eq(put_on_device(s, SLOTS - 1), 0);
		must_eq(store_free(s, SLOTS - 1), 0);
		fill(s, 30);
		for (u64 i = 0; i < 60; i++)
			must_eq(put_on_device(s, i), 0);
		release_flush(&s->release);
		must_eq(pool_pages(&s->pool), 0);
		must_eq(store_blocks(s), 60);
		must_eq(s->backed.in_hand.v, 0);
		must_eq(store_count(s, CNT_ORIG_BYTES), 60 * HOST_PAGE_SIZE);
		must_eq(store_count(s, CNT_COMPR_BYTES), 0);
		must_eq(store_count(s, CNT_SAME), 0);
		must_eq(store_count(s, CNT_HUGE), 0);
		must_have(s, 60, packed);
		for (u64 i = 0; i < 30; i++)
			must_eq(put_on_device(s, i), 0);
		must_have(s, 60, packed);
		release_quiesce(&s->release);
		must_hold(store_check(s));
		/* Until the device is full; a write brings it back to memory. */
		for (u64 i = 60; i < BLOCKS; i++)
			must_eq(put_on_device(s, i), 0);
		must_eq(put_on_device(s, BLOCKS), -ENOSPC);
		fill(s, BLOCKS);
		must_eq(store_blocks(s), 0);
		must_have(s, BLOCKS, packed);
		release_quiesce(&s->release);
		must_hold(store_check(s));
		must_eq(s->backed.nfree, BLOCKS);
		rig_close();
	}
}

/* A write that is tried is not counted when it fails, and leaves what was there. */
static void test_try(void **state)
{
	struct store *s = open_rig(1 << 20, BLOCKS);
	int err = 0;
	u64 i;

	fill(s, 6);
	s->mem_limit = 8 * HOST_PAGE_SIZE;
	for (i = 6; i < SLOTS && !err; i++) {
		make_page(page, i, 1);
		err = store_try_write(s, i, page, HOST_ANY_NODE);
	}
	must_eq(err, -EDQUOT);
	must_eq(store_count(s, CNT_FAILED_WRITE), 0);
	make_page(page, 0, 1);
	must_eq(store_try_write(s, 0, page, HOST_ANY_NODE), -EDQUOT);
	must_eq(store_write(s, 0, page, HOST_ANY_NODE), -EDQUOT);
	must_eq(store_count(s, CNT_FAILED_WRITE), 1);
	must_eq(store_try_write(s, SLOTS, page, HOST_ANY_NODE), -ERANGE);
	must_eq(store_write(s, SLOTS, page, HOST_ANY_NODE), -ERANGE);
	must_eq(store_count(s, CNT_FAILED_WRITE), 1);
	must_have(s, 6, false);
	must_eq(put_on_device(s, 0), 0);
	must_have(s, 6, false);
	rig_close();
}

/* ---- what goes first ---- */

/* A page whose object is about so many 64ths of a page. */
static void write_sized(struct store *s, u64 i, unsigned int size)
{
	memset(page, 1, HOST_PAGE_SIZE);
	fill_random(page, size * HOST_PAGE_SIZE / 64, i + 1);
	must_eq(store_write(s, i, page, HOST_ANY_NODE), 0);
}

static u64 weigh(struct store *s, const struct store_ages *ages, struct weights *w)
{
	u64 at = 0, n = 0;

	memset(w, 0, sizeof(*w));
	while (store_weigh_piece(s, &at, s->slots, ages, w))
		;
	must_eq(at, s->slots);
	for (int k = 0; k < COLD_LEVELS; k++)
		for (int size = 0; size < CHOOSE_SIZES; size++)
			n += w->n[k][size];
	return n;
}

/* Slots that a cut takes, bit by bit of the first 64. */
static u64 cut(struct store *s, const struct store_ages *ages, const struct weights *w, u64 room,
	       int coldest, u64 *n)
{
	struct chosen c = { .ages = ages };
	u64 at, got = 0, set = 0;

	*n = weights_cut(w, room, coldest, &c);
	for (at = 0; *n && store_choose_piece(s, &at, s->slots, CHOOSE_COLD, &c);)
		;
	for (at = 0; at < 64; at++)
		if (slot_type(host_a64_read(store_slot(s, at))) == SLOT_PAGE &&
		    host_a64_read(store_slot(s, at)) & SLOT_CHOSEN) {
			set |= (u64)1 << at;
			got++;
		}
	for (at = 0; store_unchoose_piece(s, &at);)
		;
	must_eq(got >= *n, true);
	return set;
}

/*
 * Pages 0 to 3 are three passes old, 4 to 7 one, 8 to 11 were said to be idle, 12 to 15 are new; of each
 * four the first is raw, then half a page, a quarter, and so small that it frees nothing.
 */
static void test_coldest(void **state)
{
	static const unsigned int sizes[] = { 64, 32, 16, 1 };
	struct store *s = open_rig(1 << 20, BLOCKS);
	struct store_ages ages;
	static struct weights w;
	u64 n, room, i;

	must_eq(store_ages_init(&ages, s->slots), 0);
	for (unsigned int four = 0; four < 4; four++) {
		for (i = 0; i < 4; i++)
			write_sized(s, 4 * four + i, sizes[i]);
		if (four == 2)
			for (i = 8; i < 12; i++)
				slot_mark(store_slot(s, i), host_a64_read(store_slot(s, i)), SLOT_IDLE, 0);
		for (unsigned int passes = 2; four < 2 && passes--;)
			while (store_age_piece(s, &ages))
				;
	}
	must_eq(weigh(s, &ages, &w), 16);
	must_eq(cut(s, &ages, &w, 0, 0, &n), 0);
	must_eq(n, 0);
	/* The largest of the coldest; then all of those before any of the next; the smallest are last. */
	must_eq(cut(s, &ages, &w, 1, 0, &n), 0x1);
	must_eq(n, 1);
	must_eq(cut(s, &ages, &w, HOST_PAGE_SIZE + 1, 0, &n), 0x3);
	must_eq(n, 2);
	room = HOST_PAGE_SIZE * 7 / 4;
	must_eq(cut(s, &ages, &w, room + HOST_PAGE_SIZE / 2, 0, &n), 0x17);
	must_eq(n, 4);
	must_eq(cut(s, &ages, &w, ~(u64)0, COLD_OLD, &n), 0x77);
	must_eq(n, 6);
	must_eq(cut(s, &ages, &w, 2 * room + HOST_PAGE_SIZE, 0, &n), 0x177);
	must_eq(cut(s, &ages, &w, 3 * room + HOST_PAGE_SIZE, 0, &n), 0x1777);
	must_eq(cut(s, &ages, &w, ~(u64)0, 0, &n), 0xffff);
	must_eq(n, 16);
	/* A page that is read is no longer cold. */
	must_eq(store_read(s, 0, page), 0);
	weigh(s, &ages, &w);
	must_eq(cut(s, &ages, &w, 1, 0, &n), 0x2);
	/* Without ages there are the marks. */
	weigh(s, NULL, &w);
	must_eq(cut(s, NULL, &w, 1, 0, &n), 0x100);
	must_eq(cut(s, NULL, &w, ~(u64)0, COLD_OLD, &n), 0);
	/* What is on the device is not weighed. */
	must_eq(put_on_device(s, 4), 0);
	must_eq(weigh(s, &ages, &w), 15);
	store_ages_destroy(&ages);
	rig_close();
}

/* Of many that are alike no more are counted than it takes. */
static void test_cut(void **state)
{
	static struct weights w;
	struct chosen c = { .ages = NULL };

	w.n[3][64] = 1000;
	w.room[3][64] = 1000 * HOST_PAGE_SIZE;
	must_eq(weights_cut(&w, 10 * HOST_PAGE_SIZE, 0, &c), 11);
	must_eq(c.min_cold, 3);
	must_eq(c.min_size, 64);
	must_eq(weights_cut(&w, 1000 * HOST_PAGE_SIZE, 0, &c), 1000);
	must_eq(weights_cut(&w, 1001 * HOST_PAGE_SIZE, 0, &c), 1000);
	must_eq(c.min_cold, 0);
	must_eq(weights_cut(&w, 1001 * HOST_PAGE_SIZE, 4, &c), 0);
	w.n[9][1] = 1;
	w.room[9][1] = 64;
	must_eq(weights_cut(&w, 64, 0, &c), 1);
	must_eq(weights_cut(&w, 65, 0, &c), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put), cmocka_unit_test(test_try), cmocka_unit_test(test_coldest),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
