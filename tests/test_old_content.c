// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_old_content.c - memory goes from slot to slot, from store to store and to the system and
 * back, with what was in it; no reader is ever shown any of that.
 */
#include "support.h"
#include "store_calls.h"
#include "store/check.h"
#include "codecs/codecs.h"
#include "api/ebb.h"

#define SLOTS 200

static unsigned char page[4 * PAGE_SIZE], got[4 * PAGE_SIZE];

static struct ebb_store *open_store(const char *codec, uint64_t release_limit)
{
	struct ebb_store *store;
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = SLOTS;
	cfg.codec = codec;
	cfg.release_limit = release_limit;
	must_eq(ebb_open(&store, &cfg), 0);
	return store;
}

/* Noise of every length in even slots, and one word that says where it came from in odd ones. */
static void put_secrets(struct ebb_store *store, uint64_t seed)
{
	for (uint64_t i = 0; i < SLOTS; i++) {
		if (i % 2) {
			fill_word(page, 0x5ec5e75ec5e75ec5 + seed + i);
			must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
		} else if (i % 4) {
			memset(page, 's', PAGE_SIZE);
			fill_random(page, i * PAGE_SIZE / SLOTS, seed + i);
			must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
		} else {
			fill_random(page, 1 + i * (PAGE_SIZE - 1) / SLOTS, seed + i);
			must_eq(ebb_put(store, i, page, 1 + i * (PAGE_SIZE - 1) / SLOTS), 0);
		}
	}
}

static void must_be_zeros(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		must_eq(p[i], 0);
}

static void must_read_empty(struct ebb_store *store, uint64_t slot)
{
	size_t bytes = 7;

	memset(got, 0xee, PAGE_SIZE);
	must_eq(ebb_get(store, slot, got, PAGE_SIZE, &bytes), 0);
	must_eq(bytes, 0);
	must_eq(got[0], 0xee);
	must_eq(ebb_read(store, slot, got, PAGE_SIZE), 0);
	must_be_zeros(got, PAGE_SIZE);
}

static void each_way(void (*fn)(struct ebb_store *store))
{
	for (unsigned int i = 0; ebb_codec_name(i); i++)
		for (unsigned int deferred = 0; deferred < 2; deferred++) {
			struct ebb_store *store =
				open_store(ebb_codec_name(i), deferred ? EBB_DEFAULT : 0);
			char why[128];

			put_secrets(store, 1000 * i);
			fn(store);
			must_eq(ebb_flush(store), 0);
			must_eq(ebb_check(store, why, sizeof(why)), 0);
			ebb_close(store);
		}
}

static void freed_slots(struct ebb_store *store)
{
	uint64_t i;

	for (i = 0; i < SLOTS; i += 3)
		must_eq(ebb_free(store, i, 1), 0);
	for (i = 0; i < SLOTS; i += 3)
		must_read_empty(store, i);
	must_eq(ebb_compact(store, NULL), 0);
	must_eq(ebb_trim(store, NULL), 0);
	for (i = 0; i < SLOTS; i += 3)
		must_read_empty(store, i);
	must_eq(ebb_reset(store), 0);
	for (i = 0; i < SLOTS; i++)
		must_read_empty(store, i);
}

CASE(a_freed_slot_reads_zeros_whatever_happens_to_its_memory)
{
	each_way(freed_slots);
}

static void shorter_contents(struct ebb_store *store)
{
	size_t bytes;

	/* In memory that held noise before, objects of a byte: no more than that byte comes out. */
	must_eq(ebb_free(store, 0, SLOTS), 0);
	must_eq(ebb_flush(store), 0);
	for (uint64_t i = 0; i < SLOTS; i++)
		must_eq(ebb_put(store, i, "x", 1), 0);
	for (uint64_t i = 0; i < SLOTS; i++) {
		memset(got, 0xee, PAGE_SIZE);
		must_eq(ebb_get(store, i, got, PAGE_SIZE, &bytes), 0);
		must_eq(bytes, 1);
		must_eq(got[0], 'x');
		must_eq(got[1], 0xee);
		must_eq(ebb_get(store, i, got + 1, 0, &bytes), -ENOSPC);
		must_eq(got[1], 0xee);
	}
	/* Pages that are zeros but for a byte, so that they have a small object each. */
	memset(page, 0, PAGE_SIZE);
	page[PAGE_SIZE / 2] = 1;
	for (uint64_t i = 0; i < SLOTS; i++)
		must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
	for (uint64_t i = 0; i < SLOTS; i++) {
		memset(got, 0xee, PAGE_SIZE);
		must_eq(ebb_read(store, i, got, PAGE_SIZE), 0);
		must(!memcmp(got, page, PAGE_SIZE));
	}
}

CASE(a_short_content_shows_nothing_of_a_long_one_before_it)
{
	each_way(shorter_contents);
}

CASE(a_new_store_shows_nothing_of_those_before_it)
{
	struct ebb_store *old = open_store("lz4", EBB_DEFAULT), *new;

	for (unsigned int round = 0; round < 4; round++) {
		put_secrets(old, round);
		/* Freed and given on in the first two, closed in the others. */
		if (round < 2) {
			must_eq(ebb_reset(old), 0);
			must_eq(ebb_trim(old, NULL), 0);
		} else {
			ebb_close(old);
		}
		new = open_store("zstd", 0);
		for (uint64_t i = 0; i < SLOTS; i++)
			must_read_empty(new, i);
		ebb_close(new);
		if (round >= 2)
			old = open_store(EBB_LZO ? "lzo" : "lz4hc", 0);
	}
	ebb_close(old);
}

/* Overwrites the object of a slot with bytes that no codec takes for a page. */
static void spoil(struct store *s, u64 i)
{
	u64 ref = slot_ref(host_a64_read(store_slot(s, i)));

	memset(page, 0xff, PAGE_SIZE);
	pool_write(&s->pool, ref, page);
}

CASE(a_read_that_fails_leaves_zeros_and_nothing_else)
{
	for (unsigned int k = 0; user_codecs[k]; k++) {
		struct store_config cfg = {
			.codec[0].ops = user_codecs[k],
			.codec[0].level = user_codecs[k]->default_level,
			.slots = 2, .chain = CHAIN_MIN,
		};
		struct source source;
		struct store s;

		source_open(&source);
		must_eq(store_init(&s, &source.pages, &cfg), 0);
		for (u64 i = 0; i < 2; i++) {
			memset(page, 's', PAGE_SIZE);
			fill_random(page, PAGE_SIZE / 2, i);
			must_eq(store_write(&s, i, page, NUMA_NO_NODE), 0);
		}
		spoil(&s, 0);
		memset(got, 0xee, sizeof(got));
		must_eq(store_read(&s, 0, got), -EIO);
		must_be_zeros(got, PAGE_SIZE);
		must_eq(got[PAGE_SIZE], 0xee);
		must_eq(store_count(&s, CNT_FAILED_READ), 1);
		/* The other one is there, and the bad one can be written anew. */
		memset(page, 's', PAGE_SIZE);
		fill_random(page, PAGE_SIZE / 2, 1);
		must_eq(store_read(&s, 1, got), 0);
		must(!memcmp(got, page, PAGE_SIZE));
		must_eq(store_write(&s, 0, page, NUMA_NO_NODE), 0);
		must_eq(store_read(&s, 0, got), 0);
		must(!memcmp(got, page, PAGE_SIZE));
		must_hold(store_check(&s));
		store_destroy(&s);
		source_close(&source);
	}
}
