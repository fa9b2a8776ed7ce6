// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * program.c - a program of today, for libraries of any later day: built against a copy of ebb.h
 * that never changes, and linked with libebb.so as it is now.
 *
 * It looks at the first and the last field of each struct, and at all functions.
 */
#include "ebb-0.1.h"

#include <stdio.h>
#include <string.h>

#define WANT(cond)                                                                            \
	do {                                                                                  \
		if (!(cond))                                                                  \
			return fprintf(stderr, "line %d: %s\n", __LINE__, #cond);            \
	} while (0)

static unsigned char page[65536], copy[65536];
static struct ebb_class rows[EBB_CLASSES_MAX];

/* What the library may not write to. */
static struct {
	struct ebb_config cfg;
	uint64_t after_cfg;
	struct ebb_stat stat;
	uint64_t after_stat;
	struct ebb_pages_stat pages_stat;
	uint64_t after_pages_stat;
} s;

static int use_store(void)
{
	unsigned int n, largest;
	struct ebb_store *store;
	int32_t min, max, def;
	size_t bytes;
	uint64_t x;
	char why[200];

	ebb_config_init(&s.cfg);
	WANT(s.cfg.struct_size == 56 && s.cfg.level == EBB_LEVEL_DEFAULT && !s.after_cfg);
	s.cfg.slots = 10;
	s.cfg.codec = ebb_codec_name(0);
	s.cfg.flags = EBB_NO_HUGEPAGE;
	s.cfg.release_limit = 12345;
	WANT(!ebb_codec_levels(s.cfg.codec, &min, &max, &def));
	WANT(!ebb_open(&store, &s.cfg));
	memset(page, 1, 100);
	WANT(!ebb_write(store, 9, page, ebb_page_size()) &&
	     !ebb_read(store, 9, copy, ebb_page_size()));
	WANT(!memcmp(page, copy, ebb_page_size()));
	WANT(!ebb_put(store, 8, page, 100));
	WANT(!ebb_get(store, 8, copy, sizeof(copy), &bytes) && bytes == 100);

	s.stat.struct_size = sizeof(s.stat);
	WANT(!ebb_stat(store, &s.stat));
	WANT(s.stat.struct_size == 216 && s.stat.orig_data_size == ebb_page_size() + 100);
	WANT(s.stat.release_limit == 12345 && !s.after_stat);
	rows[0].struct_size = sizeof(rows[0]);
	WANT(!ebb_classes(store, rows, &n) && n > 10 && n < EBB_CLASSES_MAX);
	WANT(rows[1].struct_size == 144 && rows[1].index == 1 && rows[1].size > 32);
	WANT(!rows[1].freeable);
	WANT(!ebb_class_table(4096, 16, rows, &n, &largest));
	WANT(rows[n - 1].size == 4096 && largest < 4096);

	WANT(!ebb_free(store, 9, 1) && !ebb_flush(store) && !ebb_compact(store, &x));
	WANT(!ebb_trim(store, &x));
	WANT(!ebb_set_mem_limit(store, 1) && !ebb_set_release_limit(store, 0) && !ebb_reset(store));
	WANT(!ebb_reset_peak(store) && !ebb_reset_held_back_peak(store));
	WANT(!ebb_check(store, why, sizeof(why)));
	ebb_close(store);
	return 0;
}

static int use_pages(void)
{
	struct ebb_pages *pages;
	uint32_t ids[2];
	int changed;

	WANT(!ebb_pages_open(&pages, 8, 64) && !ebb_pages_alloc(pages, ids, 2));
	WANT(ebb_pages_addr(pages, ids[0]) != NULL);
	WANT(!ebb_pages_free(pages, ids, 1) && !ebb_pages_free_one_hold(pages, ids + 1, 1));
	WANT(!ebb_pages_decay(pages, &changed));
	s.pages_stat.struct_size = sizeof(s.pages_stat);
	WANT(!ebb_pages_stat(pages, &s.pages_stat));
	WANT(s.pages_stat.struct_size == 56 && s.pages_stat.holds && s.pages_stat.free_pages);
	WANT(!s.after_pages_stat && !ebb_pages_reset_stat(pages));
	ebb_pages_close(pages);
	return 0;
}

int main(void)
{
	return !ebb_version()[0] || use_store() || use_pages();
}
