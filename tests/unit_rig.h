/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unit_rig.h - a store with units; a page says which slot it is for and which version it is, and is
 * compressible by a part that its version says.
 */
#ifndef EBB_TESTS_UNIT_RIG_H
#define EBB_TESTS_UNIT_RIG_H

#include "store_rig.h"
#include "codecs/codecs.h"
#include "mm/pool_check.h"
#include "tier/idle.h"
#include "tier/recompress.h"
#include "tier/writeback.h"

#define SLOTS 1024u
#define MOST ((size_t)UNIT_PAGES_MOST * PAGE_SIZE)

static unsigned char whole[MOST], got[PAGE_SIZE], want[PAGE_SIZE];
static u64 version[SLOTS];              /* what each slot has; 0: nothing */

/* A store of this configuration, which has units. */
static inline struct store *open_units_of(const struct store_config *cfg)
{
	memset(version, 0, sizeof(version));
	rig_make(cfg);
	must_eq(store_set_units(&rig.store, &units, cfg->unit_pages), 0);
	return &rig.store;
}

static inline struct store *open_units(const struct codec_ops *codec, unsigned int pages,
				       u64 release_limit, u64 mem_limit)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = codec, .level = codec->default_level },
		.slots = SLOTS, .chain = 8,
		.release_limit = release_limit, .mem_limit = mem_limit, .unit_pages = pages,
	};

	return open_units_of(&cfg);
}

static inline void mark_all_idle(struct store *s)
{
	for (u64 at = 0; store_mark_idle(s, &at, SLOTS, NULL, 0);)
		;
}

/* Four pages a unit, and a backing device. */
static inline struct store *open_units_backed(const struct codec_ops *codec, u64 release_limit)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = codec, .level = codec->default_level },
		.slots = SLOTS, .chain = 8,
		.release_limit = release_limit, .unit_pages = 4,
	};
	struct store *s = rig_make_backed(&cfg, 8);

	memset(version, 0, sizeof(version));
	must_eq(store_set_units(s, &units, 4), 0);
	return s;
}

/* A quarter of the versions do not compress, a quarter do so hardly. */
static void page_of(unsigned char *to, u64 slot, u64 v)
{
	size_t noise = v % 4 == 3 ? PAGE_SIZE : v % 4 == 2 ? PAGE_SIZE * 3 / 8 : 600, at;
	u64 seed = slot * 1000003 + v;

	for (at = 0; at < PAGE_SIZE; at++)
		to[at] = (unsigned char)(seed % 251 + at / 64);
	fill_random(to, noise, seed);
	memcpy(to, &slot, sizeof(slot));
	memcpy(to + 8, &v, sizeof(v));
}

static void must_have(struct store *s, u64 slot)
{
	must_eq(store_read(s, slot, got), 0);
	if (version[slot])
		page_of(want, slot, version[slot]);
	else
		memset(want, 0, PAGE_SIZE);
	if (memcmp(got, want, PAGE_SIZE)) {
		printf("# slot %" PRIu64 " version %" PRIu64 "\n", slot, version[slot]);
		must(!"the slot has its page");
	}
}

static inline void must_have_all(struct store *s)
{
	for (u64 i = 0; i < SLOTS; i++)
		must_have(s, i);
}

static void copy_whole(void *arg, void *to)
{
	memcpy(to, arg, (size_t)units.pages * PAGE_SIZE);
}

static inline int put_unit(struct store *s, u64 first, u64 v)
{
	u64 word;
	unsigned int k;
	int err;

	for (k = 0; k < units.pages; k++)
		page_of(whole + k * PAGE_SIZE, first + k, v);
	err = unit_make(s, first, copy_whole, whole, NUMA_NO_NODE, HOST_MAY_WAIT, &word);
	for (k = 0; k < units.pages && !err; k++) {
		unit_put(s, first + k, word);
		version[first + k] = v;
	}
	return err;
}

static inline void put_page(struct store *s, u64 slot, u64 v)
{
	page_of(want, slot, v);
	must_eq(store_write(s, slot, want, NUMA_NO_NODE), 0);
	version[slot] = v;
}

static inline void drop(struct store *s, u64 slot)
{
	must_eq(store_free(s, slot), 0);
	version[slot] = 0;
}

/* Units of 16 up to a limit, of each of which all pages but one die then. */
static inline void fill_and_drop(struct store *s)
{
	int err = 0;
	u64 i;

	for (i = 0; i < SLOTS && !err; i += 16)
		err = put_unit(s, i, 2);
	must_eq(err, -EDQUOT);
	for (i = 0; i < SLOTS; i++)
		if (i % 16 != 7)
			drop(s, i);
}

/* A unit whose first `small` pages begin with so much noise of their own, the rest are alike. */
static inline void put_mixed(struct store *s, u64 first, unsigned int small, size_t noise)
{
	unsigned int k;
	u64 word;

	for (k = 0; k < units.pages; k++) {
		unsigned char *page = whole + k * PAGE_SIZE;
		u64 slot = first + k;

		memset(page, 0x55, PAGE_SIZE);
		if (k < small)
			fill_random(page, noise, slot + 1);
		else
			fill_random(page, PAGE_SIZE, first + 1);
		memcpy(page, &slot, sizeof(slot));
	}
	must_eq(unit_make(s, first, copy_whole, whole, NUMA_NO_NODE, HOST_MAY_WAIT, &word), 0);
	for (k = 0; k < units.pages; k++)
		unit_put(s, first + k, word);
}

/* Until there is nothing to do; where no page is at hand, somebody else needs one first. */
static inline void tidy(struct store *s)
{
	static unsigned char noise[PAGE_SIZE];
	unsigned int n = 0;
	int more;

	while ((more = units_tidy(s))) {
		must(++n < 1000);
		if (more > 0)
			continue;
		fill_random(noise, PAGE_SIZE, n);
		store_write(s, SLOTS - 1, noise, NUMA_NO_NODE);
		drop(s, SLOTS - 1);
	}
}

/* lz4 sees that pages are alike as far as it looks back, which is 64 KiB. */
static inline void skip_if_pages_are_large(void)
{
	if (PAGE_SIZE > 32768)
		skip();
}

static inline struct unit_stats stats(struct store *s)
{
	struct unit_stats st;

	units_stats(s, &st);
	return st;
}

#endif
