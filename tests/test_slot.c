// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_slot.c - the slot word: holds, frees under a hold, and what compaction may swing. */
#include "support.h"
#include "store_calls.h"
#include "store/check.h"
#include "codecs/codecs.h"

static struct source source;
static struct store store;
static bool is_open;
static unsigned char page[PAGE_SIZE], got[PAGE_SIZE];

static struct store *open_with_page(u64 release_limit)
{
	const struct store_config cfg = {
		.slots = 16, .codec[0] = { .ops = &codec_lz4, .level = 1 }, .chain = 8,
		.release_limit = release_limit,
	};

	source_open(&source);
	must_eq(store_init(&store, &source.pages, &cfg), 0);
	is_open = true;
	memset(page, 'a', PAGE_SIZE);
	fill_random(page, PAGE_SIZE / 4, 1);
	must_eq(store_write(&store, 3, page, NUMA_NO_NODE), 0);
	return &store;
}

void after_each(void)
{
	if (!is_open)
		return;
	is_open = false;
	must_hold(store_check(&store));
	store_destroy(&store);
	source_close(&source);
}

/* Objects in use. */
static u64 objects(struct store *s)
{
	static struct pool_class_stat rows[CLASS_RAW_MAX];
	u64 sum = 0;

	pool_class_stats(&s->pool, rows);
	for (unsigned int i = 0; i < s->pool.table.nclasses; i++)
		sum += rows[i].used;
	return sum;
}

static unsigned char bounce[PAGE_SIZE], was[PAGE_SIZE];
static size_t was_bytes;

static void remember(struct store *s, u64 word)
{
	was_bytes = pool_ref_size(&s->pool, slot_ref(word));
	memcpy(was, pool_map(&s->pool, slot_ref(word), bounce), was_bytes);
}

static void must_be_as_it_was(struct store *s, u64 word)
{
	must(!memcmp(was, pool_map(&s->pool, slot_ref(word), bounce), was_bytes));
}

CASE(a_free_under_a_hold_keeps_the_object_until_the_last_drop)
{
	struct store *s = open_with_page(0);
	u64 first = store_hold(s, 3), second = store_hold(s, 3);

	must_eq(second, first);
	must_eq(slot_type(first), SLOT_PAGE);
	remember(s, first);
	must_eq(store_free(s, 3), 0);
	must_eq(store_count(s, CNT_FREED), 1);
	must_eq(host_a64_read(store_slot(s, 3)), 0);
	must_be_as_it_was(s, first);
	/* For everybody else it is empty already, and a second free finds nothing. */
	must_eq(store_hold(s, 3), 0);
	must_eq(store_read(s, 3, got), 0);
	fill_word(page, 0);
	must(!memcmp(got, page, PAGE_SIZE));
	must_eq(store_free(s, 3), 0);
	must_eq(store_count(s, CNT_FREED), 1);
	store_drop(s, 3, first);
	must_be_as_it_was(s, first);
	must_eq(pool_pages(&s->pool), 1);
	store_drop(s, 3, second);
	must_eq(pool_pages(&s->pool), 0);
	must_eq(store_count(s, CNT_FREED), 1);
}

CASE(a_write_under_a_hold_is_done_at_once_and_the_reader_keeps_the_old_page)
{
	struct store *s = open_with_page(0);
	u64 first, second;

	first = store_hold(s, 3);
	remember(s, first);
	fill_random(page, PAGE_SIZE / 3, 2);
	must_eq(store_write(s, 3, page, NUMA_NO_NODE), 0);
	must_be_as_it_was(s, first);
	second = store_hold(s, 3);
	must(slot_ref(second) != slot_ref(first));
	must_eq(store_free(s, 3), 0);
	/* Two orphans of one slot; each goes with its own reader. */
	must_eq(objects(s), 2);
	store_drop(s, 3, first);
	must_eq(objects(s), 1);
	store_drop(s, 3, second);
	must_eq(objects(s), 0);
}

/* More readers than a word can count, which let go in any order, before and after a swap. */
CASE(readers_of_a_slot_have_no_greatest_number)
{
	enum { MOST = 20 };
	struct store *s = open_with_page(0);
	u64 word = host_a64_read(store_slot(s, 3));

	for (unsigned int n = 1; n <= MOST; n++) {
		for (unsigned int i = 0; i < n; i++) {
			must_eq(store_hold(s, 3), word);
			must_eq(host_a64_read(store_slot(s, 3)),
				word + SLOT_READER * (i < 7 ? i + 1 : 7));
			must_eq(holds_any(&s->holds), i >= 7);
		}
		for (unsigned int i = n; i--;) {
			store_drop(s, 3, word);
			must_eq(host_a64_read(store_slot(s, 3)),
				word + SLOT_READER * (i < 7 ? i : 7));
			must_eq(holds_any(&s->holds), i > 7);
		}
	}
	for (unsigned int before = 0; before <= MOST; before++) {
		for (unsigned int i = 0; i < MOST; i++)
			must_eq(store_hold(s, 3), word);
		for (unsigned int i = 0; i < before; i++)
			store_drop(s, 3, word);
		must_eq(store_free(s, 3), 0);
		for (unsigned int i = before; i < MOST; i++) {
			must_eq(objects(s), 1);
			store_drop(s, 3, word);
		}
		must_eq(objects(s), 0);
		must(!holds_any(&s->holds));
		must_eq(store_write(s, 3, page, NUMA_NO_NODE), 0);
		word = host_a64_read(store_slot(s, 3));
	}
}

/* The records of many objects share buckets, and come and go in any order. */
CASE(each_orphan_has_a_record_of_its_own)
{
	enum { N = 32 };
	host_a64 slot = { 0 };
	struct holds h;
	u64 word[N];

	must_eq(holds_init(&h, N), 0);
	for (u64 round = 0; round < 50; round++) {
		for (u64 i = 0; i < N; i++) {
			word[i] = slot_make(SLOT_PAGE, 1000 * round + i * (round + 1)) +
				  (i % 7 + 1) * SLOT_READER;
			must(!hold_orphan(&h, word[i]));
		}
		for (u64 k = 0; k < 7; k++) {
			for (u64 j = 0; j < N; j++) {
				u64 i = (j * 5 + round) % N;

				if (k <= i % 7)
					must_eq(hold_drop_slow(&h, &slot, slot_ref(word[i])),
						k == i % 7);
			}
		}
		must(!holds_any(&h));
	}
	holds_destroy(&h);
}

CASE(a_hold_on_a_slot_without_an_object_takes_nothing)
{
	struct store *s = open_with_page(0);
	u64 word;

	must_eq(store_hold(s, 0), 0);
	must_eq(hold_take_slow(&s->holds, store_slot(s, 0), SLOT_TOUCHED), 0);
	must_eq(host_a64_read(store_slot(s, 0)), 0);
	fill_word(page, 42);
	must_eq(store_write(s, 0, page, NUMA_NO_NODE), 0);
	word = store_hold(s, 0);
	must_eq(slot_type(word), SLOT_FILL);
	must_eq(hold_take_slow(&s->holds, store_slot(s, 0), SLOT_TOUCHED), word);
	must_eq(host_a64_read(store_slot(s, 0)), word);
}

CASE(compaction_may_not_swing_what_somebody_holds_or_freed)
{
	struct store *s = open_with_page(0);
	host_a64 *slot = store_slot(s, 3), other;
	u64 word = host_a64_read(slot), ref = slot_ref(word),
	    to = ref ^ (REF_LOC_MASK & ~REF_LOC_MASK << 1);

	must_eq(slot_movable(slot), ref);
	must_eq(store_hold(s, 3), word);
	must_eq(slot_movable(slot), 0);
	must(!slot_swing(slot, ref, to));
	must_eq(store_free(s, 3), 0);
	must(!slot_swing(slot, ref, to));
	must_eq(slot_movable(slot), 0);
	store_drop(s, 3, word);
	must(!slot_swing(slot, ref, to));
	must(!slot_swing(slot, 0, to));

	host_a64_set(&other, slot_make(SLOT_FILL, ref));
	must_eq(slot_movable(&other), 0);
	must(!slot_swing(&other, ref, to));
	host_a64_set(&other, word);
	must(!slot_swing(&other, to, ref));
	must_eq(host_a64_read(&other), word);
	must(slot_swing(&other, ref, to));
	must_eq(host_a64_read(&other), slot_make(SLOT_PAGE, to));
}

/* Where the object of a word is. */
static u32 zspage_of(struct store *s, u64 word)
{
	return ref_zspage(ref_class(&s->pool, slot_ref(word)), slot_ref(word));
}

CASE(compaction_passes_over_a_slot_that_is_read)
{
	struct store *s = open_with_page(0);
	u64 first, last;

	/* Eight or nine objects of this size make a zspage: the first and the last are in two. */
	for (u64 i = 0; i < 16; i++)
		must_eq(store_put(s, i, page, PAGE_SIZE / 8 * 7 - POOL_HEADER, NUMA_NO_NODE),
			0);
	for (u64 i = 1; i < 15; i++)
		must_eq(store_free(s, i), 0);
	must(zspage_of(s, host_a64_read(store_slot(s, 0))) !=
	     zspage_of(s, host_a64_read(store_slot(s, 15))));
	first = store_hold(s, 0);
	last = store_hold(s, 15);
	store_compact(s);
	must_eq(slot_ref(host_a64_read(store_slot(s, 0))), slot_ref(first));
	must_eq(slot_ref(host_a64_read(store_slot(s, 15))), slot_ref(last));
	must_hold(pool_check(&s->pool, NULL));
	store_drop(s, 0, first);
	store_drop(s, 15, last);
	must(store_compact(s) > 0);
	must_eq(zspage_of(s, host_a64_read(store_slot(s, 0))),
		zspage_of(s, host_a64_read(store_slot(s, 15))));
}
