// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_recompress.c - pages made anew by another codec, and marks of idle ones.
 *
 * The codecs are of this test: a page says what length each of them makes of it, and each signs
 * what it makes, so that none reads what another made.
 */
#include "store_rig.h"
#include "tier/idle.h"
#include "tier/recompress.h"

#define SLOTS 2048u

struct head {
	u64 seed;
	u16 bytes[STORE_CODECS];        /* by priority; 0: more than fits */
};

static unsigned char page[PAGE_SIZE], got[PAGE_SIZE];
static struct recompress_work work;
static int codec_says;                  /* not 0: what compress returns from priority 1 on */
static bool codec_breaks;               /* decompress fails */
static unsigned int calls;              /* of compress from priority 1 on */
static void (*during)(struct store *s); /* what others do while a codec is at work */

static void make_page(unsigned char *to, const struct head *h)
{
	fill_random(to, PAGE_SIZE, h->seed);
	memcpy(to, h, sizeof(*h));
}

static void *create(const struct codec_params *p)
{
	(void)p;
	return host_zalloc(1);
}

static void destroy(void *ctx)
{
	host_free(ctx, 1);
}

static int compress(unsigned int priority, const void *src, void *dst, size_t cap)
{
	unsigned char *to = dst;
	struct head h;

	memcpy(&h, src, sizeof(h));
	if (h.bytes[priority] < sizeof(h) + 1 || h.bytes[priority] > cap)
		return -ENOSPC;
	memset(to, 0x55, h.bytes[priority]);
	memcpy(to, &h, sizeof(h));
	to[sizeof(h)] = (unsigned char)priority;
	return h.bytes[priority];
}

static int again(unsigned int priority, const void *src, void *dst, size_t cap)
{
	void (*now)(struct store *s) = during;

	calls++;
	during = NULL;
	if (now)
		now(&rig.store);
	return codec_says ? codec_says : compress(priority, src, dst, cap);
}

static int decompress(unsigned int priority, const void *src, size_t n, void *dst)
{
	struct head h;

	if (codec_breaks || n < sizeof(h) + 1)
		return -EIO;
	memcpy(&h, src, sizeof(h));
	must_eq(((const unsigned char *)src)[sizeof(h)], priority);
	must_eq(h.bytes[priority], n);
	make_page(dst, &h);
	return 0;
}

#define CODEC(p, pack)                                                                        \
	static int compress_##p(void *ctx, const void *src, size_t n, void *dst, size_t cap)  \
	{                                                                                     \
		return pack(p, src, dst, cap);                                                \
	}                                                                                     \
	static int decompress_##p(void *ctx, const void *src, size_t n, void *dst, size_t cap) \
	{                                                                                     \
		return decompress(p, src, n, dst);                                            \
	}                                                                                     \
	static const struct codec_ops codec_##p = {                                           \
		.name = "codec " #p, .create = create, .destroy = destroy,                    \
		.compress = compress_##p, .decompress = decompress_##p,                       \
	}

CODEC(0, compress);
CODEC(1, again);
CODEC(3, again);

/* Priorities 0, 1 and 3. */
static struct store *open_store(u64 release_limit)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_0 },
		.slots = SLOTS, .chain = 8, .release_limit = release_limit,
		.codec[1] = { .ops = &codec_1 }, .codec[3] = { .ops = &codec_3 },
	};
	static unsigned char a[PAGE_SIZE], b[PAGE_SIZE];

	work = (struct recompress_work){ a, b };
	codec_says = 0;
	codec_breaks = false;
	during = NULL;
	calls = 0;
	return rig_make(&cfg);
}

static struct head head_of(u64 i, unsigned int first, unsigned int second, unsigned int last)
{
	return (struct head){ i + 1, { (u16)first, (u16)second, 0, (u16)last } };
}

/* Writes slot i: what each codec makes of it. */
static void put(struct store *s, u64 i, unsigned int first, unsigned int second, unsigned int last)
{
	struct head h = head_of(i, first, second, last);

	make_page(page, &h);
	must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
}

static void must_read(struct store *s, u64 i)
{
	struct head h;

	must_eq(store_read(s, i, got), 0);
	memcpy(&h, got, sizeof(h));
	must_eq(h.seed, i + 1);
	make_page(page, &h);
	must(!memcmp(page, got, PAGE_SIZE));
}

static u64 word(struct store *s, u64 i)
{
	return host_a64_read(store_slot(s, i));
}

static int tried(struct store *s, u64 i, unsigned int priority)
{
	struct recompress_request r;

	recompress_request_init(&r, priority);
	return store_recompress(s, i, &r, &work);
}

static void mark_all(struct store *s)
{
	u64 at = 0;

	while (store_mark_idle(s, &at, SLOTS, NULL, 0))
		;
}

/* ---- what is made anew ---- */

CASE(a_page_is_made_anew_if_its_class_gets_smaller)
{
	struct store *s = open_store(0);
	u64 freed;

	put(s, 5, 2000, 1000, 0);
	freed = store_count(s, CNT_FREED);
	must_eq(tried(s, 5, 1), RECOMPRESS_DONE);
	must_eq(slot_codec(word(s, 5)), 1);
	must_eq(store_count(s, CNT_COMPR_BYTES), 1000);
	must_eq(store_count(s, CNT_ORIG_BYTES), PAGE_SIZE);
	must_eq(store_count(s, CNT_FREED), freed);
	must_eq(pool_pages(&s->pool), 1);
	must_read(s, 5);
	/* The same again has nothing to do; what a write makes is of priority 0. */
	must_eq(tried(s, 5, 1), RECOMPRESS_PASSED);
	put(s, 5, 2000, 1000, 0);
	must_eq(slot_codec(word(s, 5)), 0);
	must_eq(store_count(s, CNT_COMPR_BYTES), 2000);
	must_eq(tried(s, 5, 1), RECOMPRESS_DONE);
	must_eq(store_free(s, 5), 0);
	must_eq(pool_pages(&s->pool), 0);
}

CASE(what_stays_in_its_class_is_kept_and_the_last_codec_says_so)
{
	struct store *s = open_store(0);
	u64 was;

	put(s, 0, 1000, 999, 1000);
	was = word(s, 0);
	must_eq(tried(s, 0, 1), RECOMPRESS_KEPT);
	must_eq(word(s, 0), was);
	must_eq(tried(s, 0, 3), RECOMPRESS_KEPT);
	must_eq(word(s, 0), was | SLOT_INCOMPRESSIBLE);
	must_eq(calls, 2);
	must_eq(tried(s, 0, 3), RECOMPRESS_PASSED);
	must_eq(calls, 2);
	must_read(s, 0);
	must(word(s, 0) & SLOT_INCOMPRESSIBLE);
	/* Of a page that is larger than before, and of one that does not get below huge. */
	put(s, 1, 1000, 3000, 0);
	must_eq(tried(s, 1, 1), RECOMPRESS_KEPT);
	must_eq(tried(s, 1, 3), RECOMPRESS_KEPT);
	must(word(s, 1) & SLOT_INCOMPRESSIBLE);
	/* A new page may be compressible. */
	put(s, 1, 1000, 100, 0);
	must(!(word(s, 1) & SLOT_INCOMPRESSIBLE));
	must_eq(tried(s, 1, 1), RECOMPRESS_DONE);
	must(!(word(s, 1) & SLOT_INCOMPRESSIBLE));
	/* What the last codec makes smaller is not incompressible either. */
	must_eq(tried(s, 1, 3), RECOMPRESS_KEPT);
	put(s, 2, 1000, 500, 100);
	must_eq(tried(s, 2, 1), RECOMPRESS_DONE);
	must_eq(tried(s, 2, 3), RECOMPRESS_DONE);
	must_eq(word(s, 2) & (SLOT_CODEC | SLOT_INCOMPRESSIBLE), (u64)3 << SLOT_CODEC_SHIFT);
	must_read(s, 2);
}

CASE(a_raw_page_that_gets_smaller_is_huge_no_more)
{
	struct store *s = open_store(0);

	put(s, 0, 0, 3000, 0);
	must_eq(store_count(s, CNT_HUGE), 1);
	must_eq(tried(s, 0, 1), RECOMPRESS_DONE);
	must_eq(store_count(s, CNT_HUGE), 0);
	must_eq(store_count(s, CNT_HUGE_SINCE), 1);
	must_read(s, 0);
}

CASE(what_the_request_is_not_about_is_passed)
{
	struct store *s = open_store(0);
	struct recompress_request r;
	unsigned int i;

	fill_word(page, 7);
	must_eq(store_write(s, 1, page, NUMA_NO_NODE), 0);
	fill_word(page, 0x1234567890abcdefu);
	must_eq(store_write(s, 2, page, NUMA_NO_NODE), 0);
	must_eq(store_put(s, 3, page, 500, NUMA_NO_NODE), 0);
	put(s, 4, 1000, 500, 100);
	must_eq(tried(s, 4, 3), RECOMPRESS_DONE);
	mark_all(s);
	for (i = 0; i < 5; i++) {
		u64 was = word(s, i);

		must_eq(tried(s, i, 1), RECOMPRESS_PASSED);
		must_eq(word(s, i), was);
	}
	put(s, 5, 1000, 500, 100);
	recompress_request_init(&r, 1);
	r.idle = true;
	must_eq(store_recompress(s, 5, &r, &work), RECOMPRESS_PASSED);
	mark_all(s);
	r.huge = true;
	must_eq(store_recompress(s, 5, &r, &work), RECOMPRESS_PASSED);
	r.huge = false;
	r.threshold = 1001;
	must_eq(store_recompress(s, 5, &r, &work), RECOMPRESS_PASSED);
	/* Passing is no touch. */
	must(word(s, 5) & SLOT_IDLE);
	must_eq(calls, 1);
	r.threshold = 500;
	must_eq(store_recompress(s, 5, &r, &work), RECOMPRESS_KEPT);
	must(!(word(s, 5) & SLOT_IDLE));
	mark_all(s);
	r.threshold = 501;
	must_eq(store_recompress(s, 5, &r, &work), RECOMPRESS_DONE);
	/* As large as the threshold is large enough. */
	put(s, 7, 1000, 500, 100);
	r.idle = false;
	r.threshold = 1000;
	must_eq(store_recompress(s, 7, &r, &work), RECOMPRESS_DONE);
	put(s, 6, 0, 500, 100);
	r.threshold = 0;
	r.huge = true;
	must_eq(store_recompress(s, 6, &r, &work), RECOMPRESS_DONE);
}

/* ---- what others do meanwhile ---- */

static u64 held;

static void write_it(struct store *s)
{
	put(s, 0, 1500, 700, 0);
}

static void free_it(struct store *s)
{
	must_eq(store_free(s, 0), 0);
}

static void read_it(struct store *s)
{
	must_read(s, 0);
}

static void hold_it(struct store *s)
{
	held = store_hold(s, 0);
}

static void hold_it_seven_times(struct store *s)
{
	for (unsigned int i = 0; i < 7; i++)
		hold_it(s);
}

static void compact_it(struct store *s)
{
	store_compact(s);
}

CASE(a_write_or_a_free_that_came_first_wins)
{
	for (u64 limit = 0; limit < 2; limit++) {
		struct store *s = open_store(limit << 20);

		put(s, 0, 2000, 1000, 0);
		during = write_it;
		must_eq(tried(s, 0, 1), RECOMPRESS_KEPT);
		must_eq(slot_codec(word(s, 0)), 0);
		must_eq(store_count(s, CNT_COMPR_BYTES), 1500);
		must_read(s, 0);
		during = free_it;
		must_eq(tried(s, 0, 1), RECOMPRESS_KEPT);
		must_eq(word(s, 0), 0);
		must_eq(store_count(s, CNT_COMPR_BYTES), 0);
		/* Nor is another page incompressible because the one before it was. */
		put(s, 0, 1000, 1000, 1000);
		during = write_it;
		must_eq(tried(s, 0, 3), RECOMPRESS_KEPT);
		must(!(word(s, 0) & SLOT_INCOMPRESSIBLE));
		rig_close();
	}
}

CASE(readers_are_no_obstacle_and_keep_what_they_read)
{
	struct store *s = open_store(0);
	u64 pages;

	put(s, 0, 2000, 1000, 0);
	during = read_it;
	must_eq(tried(s, 0, 1), RECOMPRESS_DONE);
	put(s, 0, 2000, 1000, 0);
	pages = pool_pages(&s->pool);
	during = hold_it;
	must_eq(tried(s, 0, 1), RECOMPRESS_DONE);
	must_eq(slot_codec(word(s, 0)), 1);
	must_eq(pool_pages(&s->pool), pages + 1);
	must_eq(store_unpack(s, held, got), 0);
	must(!memcmp(got, page, PAGE_SIZE));
	store_drop(s, 0, held);
	must_eq(pool_pages(&s->pool), pages);
	put(s, 0, 2000, 1000, 0);
	during = hold_it_seven_times;
	must_eq(tried(s, 0, 1), RECOMPRESS_DONE);
	for (unsigned int i = 0; i < 7; i++)
		store_drop(s, 0, held);
	must_eq(pool_pages(&s->pool), pages);
	/* As many as a word counts, before it is looked at: it is left alone. */
	put(s, 0, 2000, 1000, 0);
	hold_it_seven_times(s);
	must_eq(tried(s, 0, 1), RECOMPRESS_PASSED);
	for (unsigned int i = 0; i < 7; i++)
		store_drop(s, 0, held);
	put(s, 1, 2000, 1000, 0);
	during = compact_it;
	must_eq(tried(s, 1, 1), RECOMPRESS_DONE);
	must_read(s, 1);
}

/* ---- errors ---- */

static bool never(void)
{
	return true;
}

CASE(what_fails_changes_nothing)
{
	struct store *s = open_store(0);
	u64 was;

	put(s, 0, 2000, 1000, 0);
	was = word(s, 0);
	codec_says = -EIO;
	must_eq(tried(s, 0, 1), -EIO);
	codec_says = -ENOMEM;
	must_eq(tried(s, 0, 1), -ENOMEM);
	codec_says = (int)PAGE_SIZE;
	must_eq(tried(s, 0, 1), -EIO);
	codec_says = 0;
	codec_breaks = true;
	must_eq(tried(s, 0, 1), -EIO);
	codec_breaks = false;
	must_eq(word(s, 0), was);
	/* Pages that are at hand go first. */
	pcp_drain(&rig.source.pcp);
	host_user_fail = never;
	must_eq(tried(s, 0, 1), -ENOMEM);
	host_user_fail = NULL;
	must_eq(word(s, 0), was);
	must_read(s, 0);
	must_eq(tried(s, 0, 1), RECOMPRESS_DONE);
}

/* Calls of the page source, and of all else that gives memory; all of them fail. */
static unsigned int asked;

static bool never_but_counted(void)
{
	asked++;
	return true;
}

/* Who waits asks the source a second time, for what it gives to who waits (user/home/pcp.h). */
CASE(it_asks_for_the_memory_that_is_there_and_no_more)
{
	struct store *s = open_store(0);

	put(s, 0, 2000, 1000, 0);
	pcp_drain(&rig.source.pcp);
	asked = 0;
	host_user_fail = never_but_counted;
	must_eq(tried(s, 0, 1), -ENOMEM);
	host_user_fail = NULL;
	must_eq(asked, 1);
	must_read(s, 0);
	must_eq(tried(s, 0, 1), RECOMPRESS_DONE);
	must_read(s, 0);
}

CASE(mem_limit_is_no_obstacle)
{
	struct store *s = open_store(0);

	put(s, 0, 0, 1000, 0);
	WRITE_ONCE(s->pool.limit, 1);
	must_eq(tried(s, 0, 1), RECOMPRESS_DONE);
	must_read(s, 0);
}

CASE(the_last_codec_is_that_of_the_highest_priority)
{
	const struct store_config cfg = {
		.slots = 8, .codec[0] = { .ops = &codec_0 }, .chain = 8,
		.codec[1] = { .ops = &codec_1 }, .codec[2] = { .ops = &codec_1 },
	};

	source_open(&rig.source);
	must_eq(store_init(&rig.store, &rig.source.pages, &cfg), 0);
	must_eq(store_last_codec(&rig.store, false), 2);
	store_destroy(&rig.store);
	source_close(&rig.source);
}

/* ---- in pieces ---- */

static u32 age_of[2];

static void touch_it(struct store *s)
{
	read_it(s);
	age_of[0] = 200;
}

static void touch_it_and_write(struct store *s)
{
	write_it(s);
	age_of[0] = 0;
}

/* A touch while the codec is at work is not forgotten, and one that is not is no touch. */
CASE(a_page_made_anew_has_no_age_unless_it_was_touched_meanwhile)
{
	static const struct {
		void (*during)(struct store *s);
		int outcome;
		u32 age;
	} cases[] = {
		{ NULL, RECOMPRESS_DONE, 0 },
		{ touch_it, RECOMPRESS_DONE, 200 },
		/* The write's own touch comes after it: until then the age is what it was. */
		{ write_it, RECOMPRESS_KEPT, 100 },
		{ touch_it_and_write, RECOMPRESS_KEPT, 0 },
	};
	struct recompress_request r;
	struct store *s;

	for (unsigned int k = 0; k < ARRAY_LEN(cases); k++) {
		s = open_store(0);
		put(s, 0, 2000, 1000, 0);
		age_of[0] = 100;
		recompress_request_init(&r, 1);
		r.ages = age_of;
		during = cases[k].during;
		must_eq(store_recompress(s, 0, &r, &work), cases[k].outcome);
		must_eq(age_of[0], cases[k].age);
		rig_close();
	}
}

CASE(pieces_come_to_every_page_once_and_count_what_they_tried)
{
	struct store *s = open_store(0);
	static u32 ages[SLOTS];
	static u64 count[RECOMPRESS_BANDS];
	struct recompress_request r;
	unsigned int pieces = 0, i;
	u64 at;

	for (i = 0; i < SLOTS; i++) {
		ages[i] = 100;
		if (i % 2)
			put(s, i, i % 3 ? 2000 : 0, 1000, 0);
		else if (i % 4)
			put(s, i, 1000, 1000, 1000);
	}
	recompress_request_init(&r, 3);
	r.ages = ages;
	at = 0;
	while (store_recompressible(s, &at, SLOTS, &r, count))
		;
	must_eq(count[1000 / RECOMPRESS_STEP], SLOTS / 4);
	must_eq(count[2000 / RECOMPRESS_STEP] + count[PAGE_SIZE / RECOMPRESS_STEP], SLOTS / 2);

	/* The largest ones only, and not all of them. */
	recompress_request_init(&r, 1);
	r.ages = ages;
	r.from = RECOMPRESS_BANDS - 1;
	r.left = 20;
	for (at = 0; store_recompress_piece(s, &at, SLOTS, &r, &work) == 1; pieces++)
		must_be_at_most(r.tried, (pieces + 1) * RECOMPRESS_PIECE);
	must_eq(pieces, 19 / RECOMPRESS_PIECE);
	must_eq(r.tried, 20);
	must_eq(r.done, 20);
	must_eq(r.left, 0);
	must_eq(store_count(s, CNT_HUGE), count[RECOMPRESS_BANDS - 1] - 20);
	must_eq(ages[3], 0);
	must_eq(ages[1], 100);

	recompress_request_init(&r, 1);
	for (at = 0; (i = (unsigned int)store_recompress_piece(s, &at, SLOTS, &r, &work)) == 1;)
		;
	must_eq(i, 0);
	must_eq(at, SLOTS);
	must_eq(r.tried, SLOTS / 4 * 3 - 20);
	must_eq(r.done, SLOTS / 2 - 20);
	for (i = 0; i < SLOTS; i++)
		if (i % 4)
			must_read(s, i);
	/* The first error ends it, before the page that it is about. */
	put(s, 77, 2000, 1000, 0);
	codec_says = -EIO;
	at = 76;
	must_eq(store_recompress_piece(s, &at, SLOTS, &r, &work), -EIO);
	must_eq(at, 77);
	codec_says = 0;
}

/* ---- idle ---- */

CASE(marks_are_of_pages_in_objects_and_end_with_a_touch)
{
	struct store *s = open_store(0);
	u64 was;

	fill_word(page, 7);
	must_eq(store_write(s, 1, page, NUMA_NO_NODE), 0);
	fill_word(page, 0x1234567890abcdefu);
	must_eq(store_write(s, 2, page, NUMA_NO_NODE), 0);
	must_eq(store_put(s, 3, page, 500, NUMA_NO_NODE), 0);
	put(s, 4, 1000, 0, 0);
	put(s, 5, 0, 0, 0);
	mark_all(s);
	for (unsigned int i = 0; i < 6; i++)
		must_eq(!!(word(s, i) & SLOT_IDLE), i > 3);
	was = word(s, 4) & ~SLOT_IDLE;
	must_read(s, 4);
	must_eq(word(s, 4), was);
	put(s, 5, 0, 0, 0);
	must(!(word(s, 5) & SLOT_IDLE));
	/* One that is there already is no change, and none is taken away. */
	mark_all(s);
	mark_all(s);
	must(word(s, 4) & SLOT_IDLE);
}

CASE(a_mark_ends_with_the_eighth_reader_too)
{
	struct store *s = open_store(0);

	for (unsigned int before = 0; before < 10; before++) {
		u64 clean;

		put(s, 0, 1000, 0, 0);
		clean = word(s, 0);
		for (unsigned int i = 0; i < before; i++)
			must_eq(store_hold(s, 0), clean);
		mark_all(s);
		must(word(s, 0) & SLOT_IDLE);
		must_eq(store_hold(s, 0), clean);
		must(!(word(s, 0) & SLOT_IDLE));
		must_eq(hold_take_slow(&s->holds, store_slot(s, 0), SLOT_TOUCHED), clean);
		mark_all(s);
		must_eq(hold_take_slow(&s->holds, store_slot(s, 0), SLOT_TOUCHED), clean);
		must(!(word(s, 0) & SLOT_TOUCHED));
		for (unsigned int i = 0; i < before + 3; i++)
			store_drop(s, 0, clean);
		must_eq(word(s, 0), clean);
	}
}

CASE(a_mark_needs_the_word_that_was_seen)
{
	struct store *s = open_store(0);
	host_a64 *slot;
	u64 was;

	put(s, 0, 1000, 0, 0);
	slot = store_slot(s, 0);
	was = word(s, 0);
	must(slot_mark(slot, was, SLOT_CHOSEN, 0));
	must(!slot_mark(slot, was, SLOT_INCOMPRESSIBLE, 0));
	must_eq(word(s, 0), was | SLOT_CHOSEN);
	must(slot_mark(slot, word(s, 0), SLOT_IDLE, SLOT_CHOSEN));
	must_eq(word(s, 0), was | SLOT_IDLE);
	must(slot_mark(slot, word(s, 0), SLOT_CHOSEN, 0));
	must_read(s, 0);
	must_eq(word(s, 0), was);
}

CASE(compaction_keeps_what_is_said_of_a_page)
{
	struct store *s = open_store(0);
	u64 before, moved = 0, i;

	for (i = 0; i < 64; i++)
		put(s, i, 2000, 1000, 0);
	for (i = 0; i < 64; i++)
		must_eq(tried(s, i, 1), RECOMPRESS_DONE);
	mark_all(s);
	for (i = 0; i < 64; i++)
		if (i % 4)
			store_free(s, i);
	for (i = 0; i < 64; i += 4) {
		before = word(s, i);
		if (i == 60)
			store_compact(s);
		moved += word(s, i) != before;
	}
	for (i = 0; i < 64; i += 4) {
		must(word(s, i) & SLOT_IDLE);
		must_eq(slot_codec(word(s, i)), 1);
		must_read(s, i);
	}
}

CASE(ages_tell_which_are_idle)
{
	struct store *s = open_store(0);
	static u32 ages[SLOTS];
	u64 at = 0, pieces = 1;

	for (unsigned int i = 0; i < SLOTS; i++) {
		ages[i] = i;
		put(s, i, 1000, 0, 0);
	}
	mark_all(s);
	while (store_mark_idle(s, &at, SLOTS, ages, 1000))
		pieces++;
	must_eq(pieces, SLOTS / STORE_PIECE);
	for (unsigned int i = 0; i < SLOTS; i++)
		must_eq(!!(word(s, i) & SLOT_IDLE), i < 1000);
}

/* ---- the check ---- */

CASE(the_check_knows_what_may_be_said_of_a_slot)
{
	struct store *s = open_store(0);
	u64 was;

	put(s, 0, 1000, 0, 0);
	was = word(s, 0);
	must_hold(store_check(s));
	host_a64_or(store_slot(s, 0), SLOT_IDLE | SLOT_INCOMPRESSIBLE | SLOT_CHOSEN);
	must_hold(store_check(s));
	host_a64_set(store_slot(s, 0), was | (u64)2 << SLOT_CODEC_SHIFT);
	must(store_check(s) != NULL);
	host_a64_set(store_slot(s, 0), was);
	fill_word(page, 7);
	must_eq(store_write(s, 1, page, NUMA_NO_NODE), 0);
	host_a64_or(store_slot(s, 1), SLOT_IDLE);
	must(store_check(s) != NULL);
	host_a64_and(store_slot(s, 1), ~SLOT_IDLE);
	put(s, 2, 0, 0, 0);
	host_a64_or(store_slot(s, 2), (u64)1 << SLOT_CODEC_SHIFT);
	must(store_check(s) != NULL);
	host_a64_and(store_slot(s, 2), ~SLOT_CODEC);
}
