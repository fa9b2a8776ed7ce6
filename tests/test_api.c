// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_api.c - libebb as a program sees it: arguments, figures, memory given back. */
#include "process.h"
#include "api/ebb_in.h"
#include "api/sized.h"

#include <pthread.h>
#include <unistd.h>

#define SLOTS 100

static unsigned char page[4 * PAGE_SIZE], got[4 * PAGE_SIZE];

static struct ebb_store *opened;        /* by open_slots(): it ends with the case */

static struct ebb_store *open_slots(uint64_t slots)
{
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = slots;
	must_eq(ebb_open(&opened, &cfg), 0);
	return opened;
}

void after_each(void)
{
	if (opened)
		must_eq(ebb_check(opened, NULL, 0), 0);
	ebb_close(opened);
	opened = NULL;
}

CASE(the_library_tells_what_it_is)
{
	static const char *const names[] = {
		"lz4", "lz4hc", "zstd",
#if EBB_LZO
		"lzo",
#endif
	};
	char major_minor[16];
	int32_t min, max, def;

	snprintf(major_minor, sizeof(major_minor), "%d.%d.", EBB_VERSION_MAJOR, EBB_VERSION_MINOR);
	must(!strncmp(ebb_version(), major_minor, strlen(major_minor)));
	must_eq(ebb_page_size(), PAGE_SIZE);
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
		must(ebb_codec_name(i) && !strcmp(ebb_codec_name(i), names[i]));
		must_eq(ebb_codec_levels(names[i], &min, &max, &def), 0);
		must(min <= def && def <= max);
	}
	must(!ebb_codec_name(ARRAY_LEN(names)));
	must(!ebb_codec_name(UINT32_MAX));
	must_eq(ebb_codec_levels("lzma", &min, &max, &def), -ENOENT);
	must_eq(ebb_codec_levels("", &min, &max, &def), -ENOENT);
	must_eq(ebb_codec_levels(NULL, &min, &max, &def), -EINVAL);
	must_eq(ebb_codec_levels("lz4", NULL, &max, &def), -EINVAL);
	must_eq(ebb_codec_levels("lz4", &min, NULL, &def), -EINVAL);
	must_eq(ebb_codec_levels("lz4", &min, &max, NULL), -EINVAL);
}

CASE(each_field_of_the_config_is_checked)
{
	struct ebb_store *store = (void *)page;
	struct ebb_config good, c;

	ebb_config_init(NULL);
	ebb_config_init(&good);
	must_eq(good.struct_size, sizeof(good));
	good.slots = SLOTS;
	must_eq(ebb_open(NULL, &good), -EINVAL);
	must_eq(ebb_open(&store, NULL), -EINVAL);

#define REFUSED(field, value, error)                                                          \
	do {                                                                                  \
		c = good;                                                                     \
		c.field = value;                                                              \
		store = (void *)page;                                                         \
		must_eq(ebb_open(&store, &c), error);                                         \
		must(store == NULL);                                                          \
	} while (0)

	REFUSED(struct_size, 0, -EINVAL);
	REFUSED(struct_size, sizeof(good) - 1, -EINVAL);
	REFUSED(struct_size, SIZE_MAX, -EINVAL);
	REFUSED(slots, 0, -EINVAL);
	REFUSED(slots, (uint64_t)1 << 32, -EINVAL);
	REFUSED(slots, UINT64_MAX, -EINVAL);
	REFUSED(codec, "lz5", -ENOENT);
	REFUSED(codec, "", -ENOENT);
	REFUSED(codec, "LZ4", -ENOENT);
	REFUSED(level, 0, -EINVAL);
	REFUSED(level, -1, -EINVAL);
	REFUSED(level, INT32_MAX, -EINVAL);
	REFUSED(chain_size, 1, -EINVAL);
	REFUSED(chain_size, 3, -EINVAL);
	REFUSED(chain_size, 17, -EINVAL);
	REFUSED(chain_size, UINT32_MAX, -EINVAL);
	REFUSED(flags, 4, -EINVAL);
	REFUSED(flags, UINT32_MAX, -EINVAL);
	REFUSED(reserved, 1, -EINVAL);
#undef REFUSED
}

CASE(every_codec_and_chain_size_opens)
{
	struct ebb_store *store;
	struct ebb_config c;

	for (unsigned int i = 0; ebb_codec_name(i); i++)
		for (uint32_t chain = 4; chain <= 16; chain += 3) {
			ebb_config_init(&c);
			c.slots = 10;
			c.codec = ebb_codec_name(i);
			c.chain_size = chain;
			c.flags = chain & 1 ? EBB_NO_HUGEPAGE : 0;
			must_eq(ebb_open(&store, &c), 0);
			fill_page(page, i + chain);
			must_eq(ebb_write(store, 9, page, PAGE_SIZE), 0);
			must_eq(ebb_read(store, 9, got, PAGE_SIZE), 0);
			must(!memcmp(page, got, PAGE_SIZE));
			ebb_close(store);
		}
}

static void all_calls_refuse(struct ebb_store *store)
{
	static struct ebb_class rows[EBB_CLASSES_MAX] = { { .struct_size = sizeof(*rows) } };
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	unsigned int n;
	char why[64];
	size_t bytes;
	uint64_t u;

	must_eq(ebb_write(store, 0, page, PAGE_SIZE), -EINVAL);
	must_eq(ebb_read(store, 0, got, PAGE_SIZE), -EINVAL);
	must_eq(ebb_put(store, 0, page, 10), -EINVAL);
	must_eq(ebb_get(store, 0, got, 10, &bytes), -EINVAL);
	must_eq(ebb_free(store, 0, 1), -EINVAL);
	must_eq(ebb_reset(store), -EINVAL);
	must_eq(ebb_flush(store), -EINVAL);
	must_eq(ebb_compact(store, &u), -EINVAL);
	must_eq(ebb_trim(store, &u), -EINVAL);
	must_eq(ebb_set_mem_limit(store, 1), -EINVAL);
	must_eq(ebb_set_release_limit(store, 1), -EINVAL);
	must_eq(ebb_reset_peak(store), -EINVAL);
	must_eq(ebb_stat(store, &stat), -EINVAL);
	must_eq(ebb_reset_held_back_peak(store), -EINVAL);
	must_eq(ebb_classes(store, rows, &n), -EINVAL);
	must_eq(ebb_check(store, why, sizeof(why)), -EINVAL);
	ebb_close(store);
}

CASE(no_store_is_refused)
{
	all_calls_refuse(NULL);
}

CASE(something_that_is_not_a_store_is_refused)
{
	static _Alignas(256) unsigned char not_a_store[65536];

	all_calls_refuse((struct ebb_store *)(void *)not_a_store);
	memset(not_a_store, 0xff, sizeof(not_a_store));
	all_calls_refuse((struct ebb_store *)(void *)not_a_store);
}

CASE(null_arguments_are_refused)
{
	static struct ebb_class rows[EBB_CLASSES_MAX] = { { .struct_size = sizeof(*rows) } };
	struct ebb_store *store = open_slots(SLOTS);
	unsigned int n, largest;
	size_t bytes;

	must_eq(ebb_write(store, 0, NULL, PAGE_SIZE), -EINVAL);
	must_eq(ebb_read(store, 0, NULL, PAGE_SIZE), -EINVAL);
	must_eq(ebb_put(store, 0, NULL, 10), -EINVAL);
	must_eq(ebb_get(store, 0, NULL, 10, &bytes), -EINVAL);
	must_eq(ebb_get(store, 0, got, 10, NULL), -EINVAL);
	must_eq(ebb_stat(store, NULL), -EINVAL);
	must_eq(ebb_classes(store, NULL, &n), -EINVAL);
	must_eq(ebb_classes(store, rows, NULL), -EINVAL);
	must_eq(ebb_check(store, NULL, 10), -EINVAL);
	must_eq(ebb_check(store, NULL, 0), 0);
	must_eq(ebb_compact(store, NULL), 0);
	must_eq(ebb_trim(store, NULL), 0);
	must_eq(ebb_class_table(4096, 8, NULL, &n, &largest), -EINVAL);
	must_eq(ebb_class_table(4096, 8, rows, NULL, &largest), -EINVAL);
	must_eq(ebb_class_table(4096, 8, rows, &n, NULL), -EINVAL);
	ebb_close(NULL);
}

CASE(sizes_that_are_not_whole_pages_are_refused)
{
	static const size_t bad[] = { 0, 1, PAGE_SIZE - 1, PAGE_SIZE + 1,
				      3 * PAGE_SIZE / 2, SIZE_MAX };
	struct ebb_store *store = open_slots(SLOTS);

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		must_eq(ebb_write(store, 0, page, bad[i]), -EINVAL);
		must_eq(ebb_read(store, 0, got, bad[i]), -EINVAL);
	}
	must_eq(ebb_put(store, 0, page, 0), -EINVAL);
	must_eq(ebb_put(store, 0, page, PAGE_SIZE + 1), -EINVAL);
	must_eq(ebb_put(store, 0, page, SIZE_MAX), -EINVAL);
}

CASE(runs_that_reach_past_the_last_slot_are_refused_whole)
{
	static const uint64_t past[] = { SLOTS, SLOTS + 1, (uint64_t)1 << 32,
					 ((uint64_t)1 << 32) + 1, UINT64_MAX };
	struct ebb_store *store = open_slots(SLOTS);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	size_t bytes;

	fill_random(page, sizeof(page), 1);
	for (size_t i = 0; i < ARRAY_LEN(past); i++) {
		must_eq(ebb_write(store, past[i], page, PAGE_SIZE), -ERANGE);
		must_eq(ebb_read(store, past[i], got, PAGE_SIZE), -ERANGE);
		must_eq(ebb_put(store, past[i], page, 10), -ERANGE);
		must_eq(ebb_get(store, past[i], got, 10, &bytes), -ERANGE);
		must_eq(ebb_free(store, past[i], 1), -ERANGE);
	}
	must_eq(ebb_write(store, SLOTS - 1, page, 2 * PAGE_SIZE), -ERANGE);
	must_eq(ebb_read(store, SLOTS - 3, got, 4 * PAGE_SIZE), -ERANGE);
	must_eq(ebb_free(store, SLOTS - 1, 2), -ERANGE);
	must_eq(ebb_free(store, 1, UINT64_MAX), -ERANGE);
	must_eq(ebb_free(store, 0, SLOTS + 1), -ERANGE);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.orig_data_size, 0);
	must_eq(ebb_write(store, SLOTS - 2, page, 2 * PAGE_SIZE), 0);
	must_eq(ebb_read(store, SLOTS - 4, got, 4 * PAGE_SIZE), 0);
	must(!memcmp(page, got + 2 * PAGE_SIZE, 2 * PAGE_SIZE));
	must(got[0] == 0 && !memcmp(got, got + 1, 2 * PAGE_SIZE - 1));
	must_eq(ebb_free(store, 0, SLOTS), 0);
	must_eq(ebb_free(store, SLOTS, 0), 0);
}

CASE(objects_and_pages_are_told_apart)
{
	struct ebb_store *store = open_slots(SLOTS);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	size_t bytes = 99;

	must_eq(ebb_get(store, 0, got, 100, &bytes), 0);
	must_eq(bytes, 0);
	must_eq(ebb_put(store, 0, "some bytes", 10), 0);
	must_eq(ebb_read(store, 0, got, PAGE_SIZE), -EINVAL);
	must_eq(ebb_get(store, 0, got, 9, &bytes), -ENOSPC);
	must_eq(bytes, 10);
	must_eq(ebb_get(store, 0, NULL, 0, &bytes), -ENOSPC);
	must_eq(bytes, 10);
	must_eq(ebb_get(store, 0, got, 10, &bytes), 0);
	must(!memcmp(got, "some bytes", 10));
	fill_page(page, 7);
	must_eq(ebb_write(store, 0, page, PAGE_SIZE), 0);
	must_eq(ebb_get(store, 0, got, PAGE_SIZE, &bytes), -EINVAL);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.failed_reads, 1);
	must_eq(ebb_free(store, 0, 1), 0);
	must_eq(ebb_free(store, 0, 1), 0);      /* what is free already may be freed */
	must_eq(ebb_read(store, 0, got, PAGE_SIZE), 0);
	must(got[0] == 0 && !memcmp(got, got + 1, PAGE_SIZE - 1));
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.notify_free, 1);
}

CASE(the_class_table_and_the_figures_agree)
{
	static struct ebb_class rows[EBB_CLASSES_MAX] = { { .struct_size = sizeof(*rows) } };
	static struct ebb_class empty[EBB_CLASSES_MAX] = { { .struct_size = sizeof(*empty) } };
	struct ebb_store *store = open_slots(2000);
	uint64_t pages = 0, used = 0, orig = 0, same = 0;
	unsigned int n, m, largest;
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	for (uint64_t i = 0; i < 2000; i++) {
		fill_page(page, i);
		must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
		orig += PAGE_SIZE;
	}
	must_eq(ebb_flush(store), 0);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(ebb_classes(store, rows, &n), 0);
	must_eq(ebb_store_class_table(PAGE_SIZE, EBB_CHAIN_DEFAULT, empty, &m, &largest), 0);
	must_eq(n, m);
	for (unsigned int i = 0; i < n; i++) {
		uint64_t zspages = 0;

		for (unsigned int f = 0; f < EBB_FULLNESS; f++)
			zspages += rows[i].zspages[f];
		must_eq(rows[i].size, empty[i].size);
		must_eq(rows[i].pages_per_zspage, empty[i].pages_per_zspage);
		must_eq(empty[i].pages_used + empty[i].obj_used + empty[i].obj_allocated, 0);
		must(rows[i].pages_used <= zspages * rows[i].pages_per_zspage);
		must(rows[i].obj_used <= rows[i].obj_allocated);
		must(rows[i].obj_allocated <= zspages * rows[i].objs_per_zspage);
		must(rows[i].zspages[EBB_FULLNESS - 1] * rows[i].objs_per_zspage <=
		     rows[i].obj_used);
		pages += rows[i].pages_used;
		used += rows[i].obj_used;
	}
	same = stat.same_pages;
	must_eq(pages * PAGE_SIZE, stat.mem_used_total);
	must_eq(stat.orig_data_size, orig);
	must(same > 0 && used <= 2000 && used + same >= 2000);
	must(stat.compr_data_size <= stat.mem_used_total && stat.compr_data_size > 0);
	must(stat.mem_used_max >= stat.mem_used_total);
	must(stat.huge_pages > 0 && stat.huge_pages_since >= stat.huge_pages);
	must(stat.zone_bytes >= stat.mem_used_total + stat.pcp_pages * PAGE_SIZE);
	must(stat.zone_free_bytes <= stat.zone_bytes);
	must(stat.meta_bytes >= 2000 * 8);
	must_eq(stat.failed_reads + stat.failed_writes + stat.notify_free + stat.pages_compacted,
		0);
	must_eq(stat.mem_limit, 0);
	must_eq(stat.held_back_bytes, 0);
	must(stat.release_limit > 0);
}

CASE(limits_can_be_changed_and_are_told)
{
	struct ebb_store *store = open_slots(SLOTS);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	int err = 0;
	uint64_t i;

	must_eq(ebb_set_mem_limit(store, 10 * PAGE_SIZE), 0);
	must_eq(ebb_set_release_limit(store, 12345), 0);
	for (i = 0; !err && i < SLOTS; i++) {
		fill_random(page, PAGE_SIZE, i);
		err = ebb_write(store, i, page, PAGE_SIZE);
	}
	must_eq(err, -ENOMEM);
	must_eq(i, 11);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.mem_limit, 10 * PAGE_SIZE);
	must_eq(stat.release_limit, 12345);
	must_eq(stat.failed_writes, 1);
	must_be_at_most(stat.mem_used_total, 10 * PAGE_SIZE);
	must_eq(ebb_free(store, 0, SLOTS), 0);
	must_eq(ebb_flush(store), 0);
	must_eq(ebb_reset_peak(store), 0);
	must_eq(ebb_reset_held_back_peak(store), 0);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.mem_used_max, 0);
	must_eq(stat.held_back_peak, 0);
	must_eq(stat.notify_free, 10);
	must_eq(stat.released_deferred + stat.released_in_place, 10);
	must_eq(ebb_set_release_limit(store, 0), 0);
	must_eq(ebb_put(store, 0, "x", 1), 0);
	must_eq(ebb_free(store, 0, 1), 0);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.released_sync, 1);
	must_eq(stat.mem_used_total, 0);
	must_eq(ebb_set_release_limit(store, EBB_DEFAULT), 0);
	must_eq(ebb_stat(store, &stat), 0);
	must(stat.release_limit >= PAGE_SIZE && stat.release_limit != EBB_DEFAULT);
}

CASE(trim_returns_the_memory_to_the_system)
{
	const uint64_t slots = ((uint64_t)48 << 20) / PAGE_SIZE;
	struct ebb_store *store = open_slots(slots);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	size_t before, after;
	uint64_t bytes = 0;

#if defined(HOST_USER_TSAN)
	skip_because("ThreadSanitizer's shadow of memory that is given on becomes resident");
#endif
	for (uint64_t i = 0; i < slots; i++) {
		fill_random(page, PAGE_SIZE, i);
		must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
	}
	before = status_bytes("VmRSS");
	must_eq(ebb_free(store, 0, slots), 0);
	must_eq(ebb_trim(store, &bytes), 0);
	after = status_bytes("VmRSS");
	must(before - after >= (size_t)40 << 20 && before > after);
	must_be_at_most(bytes, (uint64_t)52 << 20);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.mem_used_total, 0);
	must_be_at_most(stat.zone_bytes, 1 << 20);
	/* And what was given on can be used again. */
	fill_random(page, PAGE_SIZE, 1);
	must_eq(ebb_write(store, 0, page, PAGE_SIZE), 0);
	must_eq(ebb_read(store, 0, got, PAGE_SIZE), 0);
	must(!memcmp(page, got, PAGE_SIZE));
}

CASE(a_check_is_not_disturbed_by_the_workers)
{
	struct ebb_store *store = open_slots(256);
	char why[128];

	fill_random(page, PAGE_SIZE, 1);
	for (unsigned int round = 0; round < 2000; round++) {
		for (uint64_t i = 0; i < 256; i++)
			must_eq(ebb_put(store, i, page, 1024), 0);
		/* So that each part of a worker's round is met. */
		for (uint64_t until = ktime_get_ns() + round % 100 * 5000; ktime_get_ns() < until;)
			;
		if (ebb_check(store, why, sizeof(why)))
			fail_msg("round %u: %s", round, why);
	}
}

/* It lasts longer than the tick takes to come again, and the tick has much to compact. */
CASE(a_long_check_is_not_disturbed_by_the_tick)
{
	const uint64_t slots = SHADOWED ? 500000 : 7000000;
	struct ebb_store *store = open_slots(slots);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct rng r = { use_seed(5) };
	char why[128];

	for (uint64_t i = 0; i < slots; i++)
		must_eq(ebb_put(store, i, page, 40), 0);
	for (uint64_t i = 0; i < slots; i++)
		if (rng_below(&r, 10))
			must_eq(ebb_free(store, i, 1), 0);
	for (unsigned int round = 0; round < 6; round++) {
		if (ebb_check(store, why, sizeof(why)))
			fail_msg("round %u: %s", round, why);
	}
	/* Afterwards it comes. */
	must_become(ebb_stat(store, &stat) == 0 && stat.pages_compacted > 0);
}

static host_a64 ticks_here, ticks_elsewhere;

/* Of ebb_give_also(): there is always more to give. */
static bool note_tick(void *here, uint64_t ns)
{
	bool is_here = pthread_equal(pthread_self(), *(const pthread_t *)here);

	host_a64_add(is_here ? &ticks_here : &ticks_elsewhere, 1);
	return true;
}

CASE(a_check_puts_the_tick_off_and_does_not_wait_for_it)
{
	struct ebb_store *store = open_slots(SLOTS);
	pthread_t here = pthread_self();

	ebb_give_also(store, note_tick, &here);
	for (unsigned int round = 0; round < 20; round++) {
		must_eq(ebb_put(store, 0, page, 40), 0);
		must_eq(ebb_free(store, 0, 1), 0);
		must_eq(ebb_check(store, NULL, 0), 0);
		/* Who waits for a work that is to come later does it himself. */
		must_eq(host_a64_read(&ticks_here), 0);
	}
	must_become(host_a64_read(&ticks_elsewhere) > 0);
	ebb_give_also(store, NULL, NULL);
}

CASE(idle_memory_goes_back_by_itself)
{
	const uint64_t slots = ((uint64_t)8 << 20) / PAGE_SIZE;
	struct ebb_store *store = open_slots(slots);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	for (uint64_t i = 0; i < slots; i++) {
		fill_random(page, PAGE_SIZE, i);
		must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
	}
	must_eq(ebb_free(store, 0, slots), 0);
	/* Nobody flushes or trims. */
	must_become(ebb_stat(store, &stat) == 0 && stat.mem_used_total == 0 &&
		    stat.pcp_pages == 0 && stat.zone_bytes < 4 << 20);
}

CASE(a_few_idle_pages_go_back_by_themselves_too)
{
	struct ebb_store *store = open_slots(SLOTS);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	for (uint64_t i = 0; i < 20; i++) {
		fill_random(page, PAGE_SIZE, i);
		must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
	}
	/* Slot 0 keeps its block from being wholly free. */
	must_eq(ebb_free(store, 1, 19), 0);
	must_become(ebb_stat(store, &stat) == 0 && stat.mem_used_total == PAGE_SIZE &&
		    stat.pcp_pages == 0);
}

/* A program of a later version: its structs go on for some bytes. */
#define LATER(type) struct { struct type now; u64 more[3]; }

CASE(a_program_of_a_later_version_is_answered)
{
	static LATER(ebb_class) rows[EBB_CLASSES_MAX];
	LATER(ebb_config) cfg;
	LATER(ebb_stat) stat;
	unsigned int n, k, largest;
	struct ebb_store *store;

	memset(&cfg, 0, sizeof(cfg));
	ebb_config_init(&cfg.now);
	cfg.now.struct_size = sizeof(cfg);
	cfg.now.slots = SLOTS;
	/* It asks for what this library does not have. */
	cfg.more[2] = 1;
	must_eq(ebb_open(&store, &cfg.now), -EINVAL);
	cfg.more[2] = 0;
	must_eq(ebb_open(&store, &cfg.now), 0);
	must_eq(ebb_put(store, 1, page, 100), 0);

	memset(&stat, 0xff, sizeof(stat));
	stat.now.struct_size = sizeof(stat);
	must_eq(ebb_stat(store, &stat.now), 0);
	must_eq(stat.now.struct_size, sizeof(stat));
	must_eq(stat.now.orig_data_size, 100);
	must_eq(stat.more[0] | stat.more[1] | stat.more[2], 0);

	for (k = 0; k < 2; k++) {
		memset(rows, 0xff, sizeof(rows));
		rows[0].now.struct_size = sizeof(rows[0]);
		must_eq(k ? ebb_classes(store, &rows[0].now, &n)
			  : ebb_class_table(4096, 8, &rows[0].now, &n, &largest), 0);
		for (unsigned int i = 0; i < n; i++) {
			must_eq(rows[i].now.struct_size, sizeof(rows[i]));
			must_eq(rows[i].now.freeable, 0);
			must_eq(rows[i].more[0] | rows[i].more[1] | rows[i].more[2], 0);
			must(!i || rows[i].now.size > rows[i - 1].now.size);
		}
	}
	ebb_close(store);
}

CASE(a_size_that_was_not_set_is_refused)
{
	static const size_t wrong[] = { 0, 8, 55, SIZED_MOST + 1, SIZE_MAX };
	static struct ebb_class rows[EBB_CLASSES_MAX];
	struct ebb_store *store = open_slots(SLOTS);
	unsigned int n, largest;
	struct ebb_stat stat;

	for (unsigned int i = 0; i < ARRAY_LEN(wrong); i++) {
		stat.struct_size = rows[0].struct_size = wrong[i];
		must_eq(ebb_stat(store, &stat), -EINVAL);
		must_eq(ebb_classes(store, rows, &n), -EINVAL);
		must_eq(ebb_class_table(4096, 8, rows, &n, &largest), -EINVAL);
		must_eq(ebb_store_class_table(4096, 8, rows, &n, &largest), -EINVAL);
	}
}

/* A library of a later version, and a program of this one: struct now has one field less there. */
struct now { size_t struct_size; u64 a; };
struct then { size_t struct_size; u64 a, b; };

CASE(a_library_of_a_later_version_answers_this_one)
{
	struct { struct now now; u64 beyond; } theirs = { { sizeof(struct now), 7 }, 8 };
	void *volatile at = &theirs;    /* whose size the compiler is not to know */
	struct then ours = { .b = 9 };

	must_eq(sized_in(&ours, sizeof(ours), at, sizeof(struct now)), 0);
	must_eq(ours.a, 7);
	must_eq(ours.b, 0);
	ours = (struct then){ 99, 1, 2 };
	must_eq(sized_out(at, sizeof(struct now), &ours, sizeof(ours)), 0);
	must_eq(theirs.now.struct_size, sizeof(struct now));
	must_eq(theirs.now.a, 1);
	must_eq(theirs.beyond, 8);
}
