// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_slot.c - the slot word: holds, frees under a hold, and what compaction may swing. */
#include "support.h"
#include "check.h"
#include "codecs.h"
#include <pthread.h>

static struct source source;
static struct store store;
static unsigned char page[HOST_PAGE_SIZE], got[HOST_PAGE_SIZE];

static struct store *open_with_page(u64 release_limit)
{
	const struct store_config cfg = {
		.slots = 16, .codec = &codec_lz4, .level = 1, .chain = 8, .release_limit = release_limit,
	};

	source_open(&source);
	must_eq(store_init(&store, &source.pcp, &cfg), 0);
	memset(page, 'a', HOST_PAGE_SIZE);
	fill_random(page, HOST_PAGE_SIZE / 4, 1);
	must_eq(store_write(&store, 3, page), 0);
	return &store;
}

/* As store.c does for the last reader of a slot that was freed. */
static void dispose(struct store *s, u64 word)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);

	count(&cpu->counters, CNT_ORIG_BYTES, -(s64)HOST_PAGE_SIZE);
	count(&cpu->counters, CNT_COMPR_BYTES, -(s64)pool_ref_size(&s->pool, slot_ref(word)));
	host_percpu_unlock(&s->cpus, cpu);
	pool_free(&s->pool, slot_ref(word));
}

static void close_store(void)
{
	must_hold(store_check(&store));
	store_destroy(&store);
	source_close(&source);
}

static void a_free_under_a_hold_keeps_the_object_until_the_last_drop(void **state)
{
	struct store *s = open_with_page(0);
	host_a64 *slot = &s->slot[3];
	u64 first = slot_hold(slot), second = slot_hold(slot), word;
	u64 ref = slot_ref(first);
	static unsigned char bounce[HOST_PAGE_SIZE], was[HOST_PAGE_SIZE];
	size_t bytes = pool_ref_size(&s->pool, ref);

	must_eq(slot_ref(second), ref);
	memcpy(was, pool_map(&s->pool, ref, bounce), bytes);
	must_eq(store_free(s, 3), 0);
	must_eq(pool_pages(&s->pool), 1);
	must(!memcmp(was, pool_map(&s->pool, ref, bounce), bytes));
	/* For everybody else it is empty already, and a second free finds nothing. */
	must_eq(slot_hold(slot), 0);
	must_eq(store_read(s, 3, got), 0);
	fill_word(page, 0);
	must(!memcmp(got, page, HOST_PAGE_SIZE));
	must_eq(store_free(s, 3), 0);
	must_eq(slot_detach(slot), 0);
	must_eq(slot_drop(slot), 0);
	must_eq(pool_pages(&s->pool), 1);
	word = slot_drop(slot);
	must_eq(slot_ref(word), ref);
	must_eq(slot_type(word), SLOT_PAGE);
	must_eq(word & (SLOT_FREE | SLOT_READERS), 0);
	must_eq(host_a64_read(slot), 0);
	dispose(s, word);
	must_eq(pool_pages(&s->pool), 0);
	close_store();
}

static void seven_readers_may_hold_a_slot(void **state)
{
	struct store *s = open_with_page(0);
	host_a64 *slot = &s->slot[3];
	u64 word = host_a64_read(slot);

	for (unsigned int i = 0; i < 7; i++)
		must_eq(slot_ref(slot_hold(slot)), slot_ref(word));
	must_eq(host_a64_read(slot) & SLOT_READERS, SLOT_READERS);
	must_eq(host_a64_read(slot) & ~SLOT_READERS, word);
	for (unsigned int i = 0; i < 7; i++)
		must_eq(slot_drop(slot), 0);
	must_eq(host_a64_read(slot), word);
	close_store();
}

static void *one_more(void *slot)
{
	slot_hold(slot);
	return NULL;
}

static void an_eighth_reader_waits_for_one_of_the_seven(void **state)
{
	struct store *s = open_with_page(0);
	host_a64 *slot = &s->slot[3];
	u64 word = host_a64_read(slot), until;
	pthread_t eighth;

	for (unsigned int i = 0; i < 7; i++)
		slot_hold(slot);
	must_eq(pthread_create(&eighth, NULL, one_more, slot), 0);
	for (until = host_now_ns() + 20000000; host_now_ns() < until;)
		must_eq(host_a64_read(slot), word | SLOT_READERS);
	must_eq(slot_drop(slot), 0);
	must_eq(pthread_join(eighth, NULL), 0);
	must_eq(host_a64_read(slot), word | SLOT_READERS);
	for (unsigned int i = 0; i < 7; i++)
		must_eq(slot_drop(slot), 0);
	close_store();
}

static void a_hold_on_a_slot_without_an_object_takes_nothing(void **state)
{
	struct store *s = open_with_page(0);
	u64 word;

	must_eq(slot_hold(&s->slot[0]), 0);
	must_eq(host_a64_read(&s->slot[0]), 0);
	fill_word(page, 42);
	must_eq(store_write(s, 0, page), 0);
	word = slot_hold(&s->slot[0]);
	must_eq(slot_type(word), SLOT_FILL);
	must_eq(host_a64_read(&s->slot[0]), word);
	close_store();
}

static void compaction_may_not_swing_what_somebody_holds_or_freed(void **state)
{
	struct store *s = open_with_page(0);
	host_a64 *slot = &s->slot[3], other;
	u64 word = host_a64_read(slot), ref = slot_ref(word), to = ref ^ (u64)1 << REF_ZSPAGE_SHIFT;

	must_eq(slot_movable(slot), ref);
	slot_hold(slot);
	must_eq(slot_movable(slot), 0);
	must(!slot_swing(slot, ref, to));
	must_eq(store_free(s, 3), 0);
	must(!slot_swing(slot, ref, to));
	must_eq(slot_movable(slot), 0);
	must_eq(host_a64_read(slot), word | SLOT_FREE | SLOT_READER);
	dispose(s, slot_drop(slot));
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
	close_store();
}

static void compaction_passes_over_a_slot_that_is_read(void **state)
{
	struct store *s = open_with_page(0);
	u64 first, last;

	/* Eight or nine objects of this size make a zspage: the first and the last are in two. */
	for (u64 i = 0; i < 16; i++)
		must_eq(store_put(s, i, page, HOST_PAGE_SIZE / 8 * 7 - POOL_HEADER), 0);
	for (u64 i = 1; i < 15; i++)
		must_eq(store_free(s, i), 0);
	must(ref_zspage(host_a64_read(&s->slot[0])) != ref_zspage(host_a64_read(&s->slot[15])));
	first = slot_hold(&s->slot[0]);
	last = slot_hold(&s->slot[15]);
	store_compact(s);
	must_eq(slot_ref(host_a64_read(&s->slot[0])), slot_ref(first));
	must_eq(slot_ref(host_a64_read(&s->slot[15])), slot_ref(last));
	must_hold(pool_check(&s->pool));
	slot_drop(&s->slot[0]);
	slot_drop(&s->slot[15]);
	must(store_compact(s) > 0);
	must_eq(ref_zspage(host_a64_read(&s->slot[0])), ref_zspage(host_a64_read(&s->slot[15])));
	close_store();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_free_under_a_hold_keeps_the_object_until_the_last_drop),
		cmocka_unit_test(seven_readers_may_hold_a_slot),
		cmocka_unit_test(an_eighth_reader_waits_for_one_of_the_seven),
		cmocka_unit_test(a_hold_on_a_slot_without_an_object_takes_nothing),
		cmocka_unit_test(compaction_may_not_swing_what_somebody_holds_or_freed),
		cmocka_unit_test(compaction_passes_over_a_slot_that_is_read),
	};

	return cmocka_run_group_tests_name("slot", tests, NULL, NULL);
}
