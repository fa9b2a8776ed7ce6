// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_age.c - how long pages were not touched, who is chosen for it, and how much was written in
 * any 24 hours.
 *
 * The codec is of this test: it makes each page half as long, or the second one a quarter, and
 * tells what was free of the streams that all have while it was at work.
 */
#include "store_rig.h"
#include "age.h"
#include "recompress.h"
#include "wear.h"
#include "writeback.h"

#define SLOTS 20000u
#define HALF (HOST_PAGE_SIZE / 2)

static unsigned char page[HOST_PAGE_SIZE], got[HOST_PAGE_SIZE], packed[HOST_PAGE_SIZE];
static const struct recompress_work work = { got, packed };
static struct store_ages ages;
static bool read_it;                    /* slot 0 is read while the second codec is at work */
static unsigned int in_use;             /* streams of all, when a codec was at work last */

static void make_page(unsigned char *p, u64 i)
{
	fill_random(p, HOST_PAGE_SIZE, i + 1);
	memcpy(p, &i, sizeof(i));
}

/* ---- the codecs ---- */

static bool create_fails;

static void *create(const struct codec_params *p)
{
	return host_zalloc(1);
}

static void *create_or_fail(const struct codec_params *p)
{
	return create_fails ? NULL : create(p);
}

static void destroy(void *ctx)
{
	host_free(ctx, 1);
}

HOST_NO_ANALYSIS
static unsigned int locked_streams(const struct store *s)
{
	unsigned int n = 0;

	for (unsigned int p = 0; p < STORE_CODECS; p++)
		for (unsigned int i = 0; s->codecs[p] && i < s->codecs[p]->n; i++) {
			struct stream *st = &s->codecs[p]->stream[i];

			if (host_mutex_trylock(&st->lock))
				host_mutex_unlock(&st->lock);
			else
				n++;
		}
	return n;
}

static int compress_to(size_t bytes, const void *src, void *dst)
{
	in_use = locked_streams(&rig.store);
	memset(dst, 0, bytes);
	memcpy(dst, src, sizeof(u64));
	return (int)bytes;
}

static int compress_half(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return compress_to(HALF, src, dst);
}

static int compress_quarter(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	static unsigned char other[HOST_PAGE_SIZE];

	if (read_it)
		must_eq(store_read(&rig.store, 0, other), 0);
	return compress_to(HALF / 2, src, dst);
}

static int decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	u64 i;

	in_use = locked_streams(&rig.store);
	memcpy(&i, src, sizeof(i));
	make_page(dst, i);
	return 0;
}

static const struct codec_ops half = {
	.name = "half", .create = create, .destroy = destroy, .compress = compress_half, .decompress = decompress,
};
static const struct codec_ops quarter = {
	.name = "quarter", .create = create_or_fail, .destroy = destroy, .compress = compress_quarter, .decompress = decompress,
};

/* ---- the store ---- */

static struct store *open_store(u64 blocks)
{
	const struct store_config cfg = {
		.slots = SLOTS, .codec = &half, .more = { { .ops = &quarter } }, .chain = 8,
		.blocks = blocks,
	};
	struct store *s = rig_make(&cfg);

	must_eq(store_ages_init(&ages, SLOTS), 0);
	return s;
}

static void close_store(void)
{
	store_ages_destroy(&ages);
	rig_close();
}

static void put(struct store *s, u64 i)
{
	make_page(page, i);
	must_eq(store_write(s, i, page, HOST_ANY_NODE), 0);
}

static void must_read(struct store *s, u64 i)
{
	make_page(page, i);
	must_eq(store_read(s, i, got), 0);
	must(!memcmp(page, got, HOST_PAGE_SIZE));
}

static u64 word(struct store *s, u64 i)
{
	return host_a64_read(store_slot(s, i));
}

static void pass(struct store *s, unsigned int n)
{
	while (n--)
		while (store_age_piece(s, &ages))
			;
}

/* The age of a page that is old, or -1. */
static int age(struct store *s, u64 i)
{
	return word(s, i) & SLOT_OLD ? (int)store_age(&ages, i) : -1;
}

static u64 pieces_there(void)
{
	u64 n = 0;

	for (u64 i = 0; i < (SLOTS + AGE_PIECE - 1) / AGE_PIECE; i++)
		n += ages.piece[i] != NULL;
	return n;
}

static void a_page_ages_until_it_is_touched(void **state)
{
	struct store *s = open_store(0);

	for (u64 i = 0; i < 4; i++)
		put(s, i);
	must_eq(age(s, 0), -1);
	pass(s, 1);
	must_eq(age(s, 0), 0);
	/* Nothing is older than nothing yet, so there is no memory for it. */
	must_eq(pieces_there(), 0);
	pass(s, 3);
	must_eq(age(s, 0), 3);
	must_eq(ages.last.pages[3], 4);
	must_eq(ages.passes, 4);
	must_read(s, 0);
	put(s, 1);
	must_eq(store_free(s, 2), 0);
	put(s, 2);
	for (u64 i = 0; i < 3; i++)
		must_eq(age(s, i), -1);
	/* What is in their bytes still is of no account. */
	must(!store_is_aged(&ages, 1, word(s, 1), 0));
	pass(s, 1);
	for (u64 i = 0; i < 3; i++)
		must_eq(age(s, i), 0);
	must_eq(age(s, 3), 4);
	must_eq(ages.last.pages[0], 3);
	must_eq(ages.last.pages[4], 1);
	must_eq(pieces_there(), 1);
	close_store();
}

static void only_pages_in_objects_have_ages(void **state)
{
	struct store *s = open_store(4);
	u64 block;

	fill_word(page, 7);
	must_eq(store_write(s, 0, page, HOST_ANY_NODE), 0);
	fill_word(page, 0x1234567890abcdefu);
	must_eq(store_write(s, 1, page, HOST_ANY_NODE), 0);
	must_eq(store_put(s, 2, page, 300, HOST_ANY_NODE), 0);
	put(s, 3);
	pass(s, 2);
	for (u64 i = 0; i < 3; i++)
		must(!(word(s, i) & SLOT_OLD));
	must_eq(ages.last.pages[1], 1);
	/* On the device there are none. */
	must(slot_mark(store_slot(s, 3), word(s, 3), SLOT_CHOSEN, 0));
	must_eq(backed_reserve(&s->backed, &block), 0);
	must(store_to_backed(s, 3, block));
	must_eq(word(s, 3) & SLOT_ABOUT, 0);
	pass(s, 1);
	must_eq(ages.last.pages[0] + ages.last.pages[1] + ages.last.pages[2], 0);
	must_hold(store_check(s));
	close_store();
}

static void pieces_are_there_for_what_is_old(void **state)
{
	struct store *s = open_store(0);

	put(s, SLOTS - 1);
	put(s, AGE_PIECE);
	pass(s, 5);
	must_eq(age(s, SLOTS - 1), 4);
	must_eq(age(s, AGE_PIECE), 4);
	must_eq(pieces_there(), 2);
	close_store();
}

/* Whenever a page became old, an age that says "so many passes" is not said before these. */
static void no_age_is_told_early(void **state)
{
	struct store *s = open_store(0);

	must_eq(age_of_passes(0), 0);
	must_eq(age_of_passes(AGE_PASSES), AGE_MAX);
	must_eq(age_of_passes(AGE_PASSES + 1), AGE_MAX);
	must_eq(age_of_passes(~(u64)0), AGE_MAX);
	put(s, 0);
	for (unsigned int first = 0; first < 2 * AGE_STRIDE; first += 7) {
		must_read(s, 0);
		ages.passes = first;
		ages.at = 0;
		/* Only the slot's own piece is looked at, so that it is quick. */
		ages.slots = 1;
		pass(s, 1);
		for (u64 n = 1; n <= AGE_PASSES + 2 * AGE_STRIDE; n++) {
			unsigned int old;

			pass(s, 1);
			old = (unsigned int)age(s, 0);
			must(n >= AGE_PASSES || old < age_of_passes(n + 1));
			/* Nor much too late. */
			must(old >= age_of_passes(n > 2 * AGE_STRIDE ? n - 2 * AGE_STRIDE : n / 2));
		}
		must_eq(age(s, 0), AGE_MAX);
		ages.slots = SLOTS;
	}
	close_store();
}

static void pages_are_chosen_by_age(void **state)
{
	struct chosen c = { .ages = &ages, .min_age = 3 };
	struct store *s = open_store(4);
	u64 at = 0, n = 0, found = 0;

	for (u64 i = 0; i < 600; i++)
		put(s, i);
	pass(s, 2);
	for (u64 i = 0; i < 600; i += 3)
		must_read(s, i);
	pass(s, 2);
	for (u64 i = 1; i < 600; i += 3)
		put(s, i);
	/* A look chooses none, and finds each. */
	while (at < 600) {
		if (!store_next_wanted(s, &at, 600, CHOOSE_AGED, &c))
			continue;
		must(at % 3 == 2 && !(word(s, at) & SLOT_CHOSEN));
		found++;
		at++;
	}
	must_eq(found, 200);
	at = 0;
	while (store_choose_piece(s, &at, 600, CHOOSE_AGED, &c))
		;
	for (u64 i = 0; i < 600; i++) {
		must_eq(!!(word(s, i) & SLOT_CHOSEN), i % 3 == 2);
		n += !!(word(s, i) & SLOT_CHOSEN);
	}
	for (unsigned int k = 0; k < CHOOSE_SIZES; k++)
		n -= c.n[k];
	must_eq(n, 0);
	/* With another word both hold. */
	must(slot_mark(store_slot(s, 5), word(s, 5), 0, SLOT_CHOSEN));
	at = 5;
	must(!store_choose_piece(s, &at, 6, CHOOSE_AGED | CHOOSE_IDLE, &c));
	must(!(word(s, 5) & SLOT_CHOSEN));
	at = 0;
	while (store_unchoose_piece(s, &at))
		;
	/* That was no touch. */
	must_eq(age(s, 2), 3);
	close_store();
}

/* ---- idle marks are the user's ---- */

static void ages_and_idle_marks_do_not_meet(void **state)
{
	struct store *s = open_store(0);
	u64 at = 0;

	put(s, 0);
	put(s, 1);
	pass(s, 2);
	must(!(word(s, 0) & SLOT_IDLE));
	while (store_mark_idle(s, &at, SLOTS, NULL, 0))
		;
	pass(s, 1);
	must(word(s, 0) & SLOT_IDLE);
	must_eq(age(s, 0), 2);
	must_read(s, 0);
	must_eq(word(s, 0) & SLOT_ABOUT, 0);
	put(s, 1);
	must_eq(word(s, 1) & SLOT_ABOUT, 0);
	close_store();
}

/* ---- recompression by who is the last of all ---- */

static void aged_pages_are_recompressed_and_stay_as_old(void **state)
{
	struct store *s = open_store(0);
	struct stream own[STORE_CODECS];
	struct recompress_request r;
	u64 at = 0;

	for (u64 i = 0; i < 40; i++)
		put(s, i);
	pass(s, 3);
	must_read(s, 7);
	while (store_mark_idle(s, &at, SLOTS, NULL, 0))
		;
	recompress_request_init(&r, 1);
	r.aged = &ages;
	r.min_age = 2;
	must_eq(streams_own(s->codecs, STORE_CODECS, own), 0);
	r.own = own;
	for (at = 0; at < 40;)
		must(store_recompress_piece(s, &at, 40, &r, &work) >= 0);
	must_eq(r.tried, 39);
	must_eq(r.done, 39);
	must_eq(r.saved, 39 * HALF / 2);
	must_eq(slot_codec(word(s, 7)), 0);
	must_eq(slot_codec(word(s, 8)), 1);
	/* A pass tells what there was to try, and what there is now. */
	must_eq(ages.last.pages[2], 40);
	must_eq(ages.last.to_try[2], 40);
	pass(s, 1);
	must_eq(ages.last.pages[3], 39);
	must_eq(ages.last.to_try[3], 0);
	must_eq(ages.last.to_try[0], 1);
	/* Nobody touched it. */
	must(word(s, 8) & SLOT_IDLE);
	must_eq(age(s, 8), 3);
	for (u64 i = 0; i < 40; i++)
		must_read(s, i);
	/* By hand it is a touch, as in-tree has it. */
	pass(s, 1);
	must(slot_mark(store_slot(s, 7), word(s, 7), SLOT_INCOMPRESSIBLE, 0));
	pass(s, 1);
	must_eq(ages.last.to_try[1], 0);
	must(slot_mark(store_slot(s, 7), word(s, 7), 0, SLOT_INCOMPRESSIBLE));
	r.aged = NULL;
	must_eq(store_recompress(s, 7, &r, &work), RECOMPRESS_DONE);
	must_eq(age(s, 7), -1);
	streams_disown(s->codecs, STORE_CODECS, own);
	close_store();
}

static void what_is_read_meanwhile_is_young(void **state)
{
	struct store *s = open_store(0);
	struct recompress_request r;
	u64 at = 0;

	put(s, 0);
	while (store_mark_idle(s, &at, SLOTS, NULL, 0))
		;
	pass(s, 2);
	recompress_request_init(&r, 1);
	r.aged = &ages;
	r.min_age = 1;
	read_it = true;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_DONE);
	read_it = false;
	must_eq(slot_codec(word(s, 0)), 1);
	must(!(word(s, 0) & SLOT_TOUCHED));
	must_read(s, 0);
	close_store();
}

/*
 * While the thread is at work with streams of its own, all others are free: so wherever it may lose
 * its CPU, who reads or writes a page finds one.
 */
static void nobody_waits_for_its_streams(void **state)
{
	struct store *s = open_store(4);
	struct stream own[STORE_CODECS];
	struct recompress_request r;

	must_eq(streams_own(s->codecs, STORE_CODECS, own), 0);
	put(s, 0);
	must_eq(in_use, 1);
	pass(s, 2);
	recompress_request_init(&r, 1);
	r.aged = &ages;
	r.min_age = 1;
	r.own = own;
	in_use = 9;
	must_eq(store_recompress(s, 0, &r, &work), RECOMPRESS_DONE);
	must_eq(in_use, 0);
	must(slot_mark(store_slot(s, 0), word(s, 0), SLOT_CHOSEN, 0));
	in_use = 9;
	must_eq(store_copy_out(s, own, 0, got, false), 0);
	must_eq(in_use, 0);
	make_page(page, 0);
	must(!memcmp(page, got, HOST_PAGE_SIZE));
	/* Without them it takes one of all. */
	must_eq(store_copy_out(s, NULL, 0, got, false), 0);
	must_eq(in_use, 1);
	must_eq(locked_streams(s), 0);
	store_unchoose(s, 0);
	streams_disown(s->codecs, STORE_CODECS, own);
	close_store();
}

static void streams_of_its_own_are_all_or_none(void **state)
{
	struct store *s = open_store(0);
	struct stream own[STORE_CODECS];

	create_fails = true;
	must_eq(streams_own(s->codecs, STORE_CODECS, own), -ENOMEM);
	create_fails = false;
	for (unsigned int p = 0; p < STORE_CODECS; p++)
		must(!own[p].ctx && !own[p].buf && !own[p].bounce);
	must_eq(streams_own(s->codecs, STORE_CODECS, own), 0);
	for (unsigned int p = 0; p < STORE_CODECS; p++)
		must_eq(own[p].ctx != NULL, p < 2);
	streams_disown(s->codecs, STORE_CODECS, own);
	close_store();
}

/* ---- what was written in any 24 hours ---- */

static void a_day_has_an_end(void **state)
{
	struct wear w = { 0 };

	must_eq(wear_spent(&w, 1000), 0);
	wear_add(&w, 1000, 5);
	wear_add(&w, 1000, 1);
	wear_add(&w, 1010, 10);
	must_eq(wear_spent(&w, 1010), 16);
	/* 24 hours after the end of hour 1000 at the latest. */
	must_eq(wear_spent(&w, 1024), 16);
	must_eq(wear_spent(&w, 1025), 10);
	/* An hour that is over counts as the last. */
	wear_add(&w, 3, 100);
	must_eq(wear_spent(&w, 1049), 100);
	must_eq(wear_spent(&w, 1050), 0);
	wear_add(&w, 1050, 7);
	must_eq(wear_spent(&w, 1050 + (1 << 20)), 0);
	wear_add(&w, 1050 + (1 << 20), 3);
	must_eq(wear_spent(&w, 1050 + (1 << 20)), 3);
}

/*
 * Whoever writes as much as there is left, at any minute, has written no more than that in any day.
 */
static void a_budget_holds_for_any_day(void **state)
{
	enum { MINUTES = 60 * 24 * 12, DAY = 60 * 24, BUDGET = 1000 };
	static unsigned int written[MINUTES];
	u64 seed = 7, sum = 0, most = 0, all = 0;
	struct wear w = { 0 };

	for (unsigned int m = 0; m < MINUTES; m++) {
		u64 left = BUDGET - wear_spent(&w, m / 60), n;

		must(left <= BUDGET);
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		n = seed >> 60 ? 0 : (seed >> 33) % (left + 1);
		wear_add(&w, m / 60, n);
		written[m] = (unsigned int)n;
		all += n;
		sum += n - (m >= DAY ? written[m - DAY] : 0);
		most = sum > most ? sum : most;
	}
	must(most <= BUDGET);
	/* And nearly that can be. */
	must(all > BUDGET * 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_ages_until_it_is_touched),
		cmocka_unit_test(only_pages_in_objects_have_ages),
		cmocka_unit_test(pieces_are_there_for_what_is_old),
		cmocka_unit_test(no_age_is_told_early),
		cmocka_unit_test(pages_are_chosen_by_age),
		cmocka_unit_test(ages_and_idle_marks_do_not_meet),
		cmocka_unit_test(aged_pages_are_recompressed_and_stay_as_old),
		cmocka_unit_test(what_is_read_meanwhile_is_young),
		cmocka_unit_test(nobody_waits_for_its_streams),
		cmocka_unit_test(streams_of_its_own_are_all_or_none),
		cmocka_unit_test(a_day_has_an_end),
		cmocka_unit_test(a_budget_holds_for_any_day),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
