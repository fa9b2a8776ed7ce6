// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_failure.c - allocations that fail at every point and a source that runs dry, through
 * the library and with real codecs.  Whatever fails: the error is told, the old content stays,
 * every page comes back.  (The ASan build sees to the rest of the memory.)  The core alone, and
 * codecs that break their word: tests/host/test_hostile.c.
 */
#include "store_rig.h"
#include "codecs/codecs.h"
#include "api/ebb.h"
#include "tier/recompress.h"
#include "tier/writeback.h"

#define SLOTS 40

/* ---- the n-th allocation ---- */

static s64 countdown;           /* the allocation that fails; 0: none does */
static bool forever;            /* and all after it */
static bool failed;

static bool fail_now(void)
{
	s64 left = __atomic_load_n(&countdown, __ATOMIC_SEQ_CST);

	if (!left || (failed && !forever))
		return false;
	if (!failed && __atomic_sub_fetch(&countdown, 1, __ATOMIC_SEQ_CST) > 0)
		return false;
	countdown = 1;
	failed = true;
	return true;
}

static void arm(s64 n, bool and_all_after)
{
	countdown = n;
	forever = and_all_after;
	failed = false;
	host_user_fail = fail_now;
}

static bool disarm(void)
{
	bool did = failed;

	countdown = 0;
	failed = false;
	host_user_fail = NULL;
	return did;
}

static unsigned char page[PAGE_SIZE], got[PAGE_SIZE];

struct model {
	uint64_t seed[SLOTS];   /* 0: empty */
	size_t blob[SLOTS];     /* 0: a page */
};

static struct model model;

static void content(u64 slot)
{
	if (model.blob[slot])
		fill_random(page, model.blob[slot], model.seed[slot]);
	else if (model.seed[slot])
		fill_page(page, model.seed[slot]);
	else
		memset(page, 0, PAGE_SIZE);
}

/* Reading takes no memory, so it works while allocations fail. */
static void verify(struct ebb_store *store)
{
	for (u64 i = 0; i < SLOTS; i++) {
		size_t bytes = PAGE_SIZE;

		if (model.blob[i])
			must_eq(ebb_get(store, i, got, PAGE_SIZE, &bytes), 0);
		else
			must_eq(ebb_read(store, i, got, PAGE_SIZE), 0);
		must_eq(bytes, model.blob[i] ? model.blob[i] : PAGE_SIZE);
		content(i);
		must(!memcmp(page, got, bytes));
	}
}

/* True: it failed, with the one error that it may, and changed nothing. */
static bool store_one(struct ebb_store *store, u64 slot, uint64_t seed, size_t blob)
{
	struct model was = model;
	int err;

	model.seed[slot] = seed;
	model.blob[slot] = blob;
	content(slot);
	err = blob ? ebb_put(store, slot, page, blob)
		   : ebb_write(store, slot, page, PAGE_SIZE);
	if (!err)
		return false;
	must_eq(err, -ENOMEM);
	must(failed);
	model = was;
	return true;
}

static void drop_one(struct ebb_store *store, u64 slot)
{
	must_eq(ebb_free(store, slot, 1), 0);
	model.seed[slot] = model.blob[slot] = 0;
}

static void must_be_sound_now(struct ebb_store *store)
{
	char why[128] = "";

	must_eq(ebb_flush(store), 0);
	if (ebb_check(store, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
}

/* A life of a store in which allocation n fails; false: it has fewer. */
static bool life(s64 n, bool and_all_after, u64 release_limit)
{
	struct ebb_store *store;
	struct ebb_config cfg;
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	bool did;
	int err;

	memset(&model, 0, sizeof(model));
	ebb_config_init(&cfg);
	cfg.slots = SLOTS;
	cfg.release_limit = release_limit;
	arm(n, and_all_after);
	err = ebb_open(&store, &cfg);
	if (err) {
		must_eq(err, -ENOMEM);
		must(store == NULL);
		return disarm();
	}
	for (u64 i = 0; i < SLOTS; i++)
		store_one(store, i, i + 1, i % 3 ? 0 : 1 + i * 97 % PAGE_SIZE);
	verify(store);
	for (u64 i = 0; i < SLOTS; i += 2)
		store_one(store, i, i + 1000, i % 4 ? 0 : PAGE_SIZE / 2);
	for (u64 i = 1; i < SLOTS; i += 4)
		drop_one(store, i);
	verify(store);
	must_eq(ebb_compact(store, NULL), 0);
	verify(store);
	for (u64 i = 0; i < SLOTS; i += 3)
		store_one(store, i, i + 2000, 0);
	must_eq(ebb_flush(store), 0);
	must_eq(ebb_trim(store, NULL), 0);
	verify(store);
	did = disarm();

	/* With memory again, all is as it should be. */
	must_be_sound_now(store);
	must(!store_one(store, 0, 5, 0));
	verify(store);
	must_eq(ebb_reset(store), 0);
	must_be_sound_now(store);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.mem_used_total, 0);
	must_eq(stat.orig_data_size, 0);
	ebb_close(store);
	return did;
}

static void each_point(bool and_all_after, u64 release_limit)
{
	s64 n = 1;

	use_seed(0);
	while (life(n, and_all_after, release_limit)) {
		test_seed = (uint64_t)n++;
		must(n < 10000);
	}
	/* Opening alone takes several, and so does each page that is stored. */
	must(n > 20);
}

CASE(any_one_allocation_may_fail)
{
	each_point(false, 1 << 20);
	each_point(false, 0);
}

CASE(all_allocations_may_fail_from_any_point_on)
{
	each_point(true, 1 << 20);
}

/* ---- below the library ---- */

static int use_a_page_source(void)
{
	static host_page held[300];
	struct host_pages *zone;
	char why[128];
	struct pcp pcp;
	unsigned int n;
	int err = zone_open(&zone);

	if (err)
		return err;
	err = pcp_init(&pcp, zone, 8, 32);
	if (!err) {
		n = host_pages_alloc(zone, held, ARRAY_LEN(held), ANYHOW);
		must_eq(zone_pages_out(zone), n + pcp_count(&pcp));
		host_pages_free(zone, held, n);
		pcp_drain(&pcp);
		must_eq(zone_pages_out(zone), 0);
		must_eq(zone_check(zone, why, sizeof(why)), 0);
		pcp_destroy(&pcp);
		err = n < ARRAY_LEN(held) ? -ENOMEM : 0;
	}
	zone_close(zone);
	return err;
}

CASE(a_page_source_fails_whole_and_loses_nothing)
{
	bool did = true;
	int err;
	s64 n;

	/* All that come after fail too: one alone may be made up for by other CPUs' lists. */
	for (n = 1; did; n++) {
		arm(n, true);
		err = use_a_page_source();
		did = disarm();
		must_eq(err, did ? -ENOMEM : 0);
	}
	must(n > 20);
}

static struct store *rig_open(const struct codec_ops *codec)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = codec, .level = codec->default_level },
		.slots = 4096, .chain = 8, .release_limit = 1 << 20,
	};

	return rig_make(&cfg);
}

CASE(a_store_that_cannot_be_made_gives_everything_back)
{
	for (size_t k = 0; user_codecs[k]; k++) {
		const struct store_config cfg = {
			.codec[0].ops = user_codecs[k],
			.codec[0].level = user_codecs[k]->default_level,
			.slots = 100, .chain = 8,
		};
		struct source source;
		s64 n = 1;
		int err;

		do {
			source_open(&source);
			arm(n, false);
			err = store_init(&rig.store, &source.pages, &cfg);
			must_eq(err, disarm() ? -ENOMEM : 0);
			if (!err)
				store_destroy(&rig.store);
			source_close(&source);
			n++;
		} while (err);
		must(n > 5);
	}
}

static void must_have(struct store *s, u64 from, u64 to)
{
	for (u64 i = from; i < to; i++) {
		fill_random(page, PAGE_SIZE, i);
		must_eq(store_read(s, i, got), 0);
		must(!memcmp(page, got, PAGE_SIZE));
	}
}

CASE(a_source_that_is_dry_for_a_while_costs_nothing_but_the_writes)
{
	struct store *s = rig_open(&codec_lz4);
	u64 n = 0, k;
	int err;

	WRITE_ONCE(rig.source.zone->max_blocks, 1);
	for (;; n++) {
		fill_random(page, PAGE_SIZE, n);
		err = store_write(s, n, page, NUMA_NO_NODE);
		if (err)
			break;
	}
	must_eq(err, -ENOMEM);
	must(n > 10 && n < ZONE_BLOCK_BYTES / PAGE_SIZE);
	for (k = 0; k < 50; k++) {
		fill_random(page, PAGE_SIZE, 5000 + k);
		must_eq(store_write(s, k % n, page, NUMA_NO_NODE), -ENOMEM);
	}
	must_eq(store_count(s, CNT_FAILED_WRITE), 51);
	must_have(s, 0, n);
	release_quiesce(&s->release);
	must_hold(store_check(s));
	/* What is freed can be used again, held back or not. */
	for (k = 0; k < n / 2; k++)
		must_eq(store_free(s, k), 0);
	for (k = 0; k < n / 2; k++) {
		fill_random(page, PAGE_SIZE, k);
		must_eq(store_write(s, k, page, NUMA_NO_NODE), 0);
	}
	must_have(s, 0, n);
	WRITE_ONCE(rig.source.zone->max_blocks, 0);
	fill_random(page, PAGE_SIZE, n);
	must_eq(store_write(s, n, page, NUMA_NO_NODE), 0);
	must_have(s, 0, n + 1);
}

/* The pages go to another codec. */
static void make_anew(struct store *s, u64 n)
{
	static unsigned char whole[PAGE_SIZE], packed[PAGE_SIZE];
	const struct recompress_work w = { whole, packed };
	struct recompress_request r;
	int outcome;

	recompress_request_init(&r, 2);
	for (u64 i = 0; i < n; i++) {
		outcome = store_recompress(s, i, &r, &w);
		must(outcome >= 0 || outcome == -ENOMEM);
	}
}

static bool is_zero(const unsigned char *p)
{
	return !p[0] && !memcmp(p, p + 1, PAGE_SIZE - 1);
}

/* As life(), of a store of the core.  A write that failed leaves its slot empty. */
static bool with_codecs(s64 n, bool and_all_after)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = SLOTS, .chain = 4,
		.codec[2] = { .ops = &codec_zstd, .level = 3 },
		.codec[3] = { .ops = &codec_lz4hc, .level = 3 },
		.release_limit = 1 << 16,
	};
	struct store *s = &rig.store;
	struct chosen c = { { 0 } };
	u64 block, at = 0;
	bool did;
	int err;

	source_open(&rig.source);
	arm(n, and_all_after);
	err = store_init(s, &rig.source.pages, &cfg);
	if (!err && store_back(s, &rig.backed, 70000)) {
		store_destroy(s);
		err = -ENOMEM;
	}
	if (err) {
		must_eq(err, -ENOMEM);
		source_close(&rig.source);
		return disarm();
	}
	for (u64 i = 0; i < SLOTS; i++) {
		fill_page(page, i);
		err = store_write(s, i, page, NUMA_NO_NODE);
		must(!err || err == -ENOMEM);
	}
	make_anew(s, SLOTS);
	while (store_choose_piece(s, &at, SLOTS / 2, 0, &c))
		;
	for (u64 i = 0; i < SLOTS / 2; i++)
		if (!store_copy_out(s, i, page, true)) {
			must_eq(backed_reserve(s->backed, &block), 0);
			must(store_to_backed(s, i, block));
		}
	did = disarm();
	for (u64 i = SLOTS / 2; i < SLOTS; i++) {
		must_eq(store_read(s, i, got), 0);
		fill_page(page, i);
		must(!memcmp(page, got, PAGE_SIZE) || (did && is_zero(got)));
	}
	rig_close();
	return did;
}

/* All of a store's codecs, the blocks of its device, and pages that are made anew. */
CASE(codecs_and_blocks_that_cannot_be_had_are_given_back)
{
	s64 n = 1;

	for (unsigned int all = 0; all < 2; all++) {
		for (n = 1; with_codecs(n, all); n++)
			must(n < 10000);
		must(n > 30);
	}
}

static unsigned int asked;

/* The source is dry; when it is asked the second time, the worker has just drained. */
static bool dry_until_drained(void)
{
	if (++asked == 2)
		release_flush(&rig.store.release);      /* no lock is held here */
	return asked <= 2;
}

/* Where the machine is slow the worker may be done before the write: then it is tried again. */
CASE(memory_that_comes_back_after_the_first_try_is_used)
{
	struct store *s = rig_open(&codec_lz4);
	unsigned int tries;

	asked = 0;
	for (tries = 0; asked < 2 && tries < 100; tries++) {
		for (u64 i = 0; i < 40; i++) {
			fill_random(page, PAGE_SIZE, i);
			must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
		}
		for (u64 i = 0; i < 20; i++)
			must_eq(store_free(s, i), 0);
		pcp_drain(&rig.source.pcp);
		asked = 0;
		host_user_fail = dry_until_drained;
		fill_random(page, PAGE_SIZE, 0);
		must_eq(store_write(s, 0, page, NUMA_NO_NODE), 0);
		host_user_fail = NULL;
	}
	must(asked >= 2);
	must_eq(release_held(&s->release), 0);
	must_have(s, 0, 1);
	must_have(s, 20, 40);
}
