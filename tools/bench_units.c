// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb bench units: memory and time of pages that are compressed together.
 *
 * A disk of ebb_units.h takes a set of pages, a unit in each write; then it is read by units, by
 * pages in order, and by pages in no order, each compared with what was written.  One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "config.h"
#include "cpus.h"
#include "data.h"
#include "ebb_units.h"
#include "memory.h"

static const struct column columns[] = {
	{ "set", "data", COL_TEXT, 0 },
	{ "codec", "codec", COL_TEXT, 0 },
	{ "unit_bytes", "unit", COL_INT, 0 },
	{ "orig_bytes", "MiB", COL_MIB, 0 },
	{ "taken_per_byte", "memory/B", COL_REAL, 4 },
	{ "write_us", "write us/page", COL_REAL, 2 },
	{ "read_us", "read us/page", COL_REAL, 2 },
	{ "page_us", "by pages", COL_REAL, 2 },
	{ "random_us", "at random", COL_REAL, 2 },
	{ NULL, NULL, COL_TEXT, 0 },
};

static struct ebb_units *units_make(const struct store_opts *opts, uint64_t bytes, uint64_t unit)
{
	struct ebb_units_config cfg;
	struct ebb_units *u;

	ebb_units_config_init(&cfg);
	cfg.bytes = bytes;
	cfg.unit_bytes = (uint32_t)unit;
	cfg.codec = opts->codec;
	cfg.level = opts->level;
	must(ebb_units_open(&u, &cfg), "cannot make a disk");
	return u;
}

static void units_write(struct ebb_units *u, const struct page_set *set, uint64_t bytes,
			size_t at_once)
{
	for (uint64_t at = 0; at < bytes; at += at_once) {
		must(ebb_units_write(u, at, set->pages + at, at_once), "cannot write");
		stop_if_interrupted();
	}
}

/* In steps of at_once, the k-th at step k * stride of all, which is in no order. */
static void units_read(struct ebb_units *u, const struct page_set *set, uint64_t bytes,
		       size_t at_once, uint64_t stride)
{
	static unsigned char buf[65536];
	uint64_t steps = bytes / at_once, step = 0;

	for (uint64_t k = 0; k < steps; k++, step = (step + stride) % steps) {
		must(ebb_units_read(u, step * at_once, buf, at_once), "cannot read");
		if (memcmp(buf, set->pages + step * at_once, at_once))
			fail("byte %llu on does not read back as it was written",
			     (unsigned long long)(step * at_once));
		stop_if_interrupted();
	}
}

/* A number of steps that has no factor with n: each step comes once. */
static uint64_t stride_for(uint64_t n)
{
	uint64_t stride = n * 5 / 8 | 1;

	for (uint64_t a = n, b = stride;; stride += 2, a = n, b = stride) {
		while (b) {
			uint64_t rest = a % b;

			a = b;
			b = rest;
		}
		if (a == 1)
			return stride % n;
	}
}

static double us_since(uint64_t start, uint64_t pages)
{
	return (double)(now_ns() - start) / 1e3 / (double)pages;
}

static void measure(struct table *t, const struct page_set *set, const struct store_opts *opts,
		    uint64_t unit)
{
	size_t page = ebb_page_size();
	uint64_t bytes = set->count * page / 65536 * 65536, pages = bytes / page, start;
	struct ebb_units *u = units_make(opts, bytes, unit);
	struct ebb_units_stat us = { .struct_size = sizeof(us) };
	struct ebb_stat st;

	progress("%s, %s, %llu KiB", set->name, opts->codec, (unsigned long long)unit >> 10);
	table_row(t);
	table_text(t, "set", set->name);
	table_text(t, "codec", opts->codec);
	table_int(t, "unit_bytes", unit);
	table_int(t, "orig_bytes", bytes);
	start = now_ns();
	units_write(u, set, bytes, unit);
	table_real(t, "write_us", us_since(start, pages));
	store_stat(ebb_units_store(u), &st);
	must(ebb_units_stat(u, &us), "cannot ask the disk");
	table_real(t, "taken_per_byte",
		   (double)(st.mem_used_total + st.meta_bytes + us.meta_bytes) / (double)bytes);
	start = now_ns();
	units_read(u, set, bytes, unit, 1);
	table_real(t, "read_us", us_since(start, pages));
	start = now_ns();
	units_read(u, set, bytes, page, 1);
	table_real(t, "page_us", us_since(start, pages));
	start = now_ns();
	units_read(u, set, bytes, page, stride_for(pages));
	table_real(t, "random_us", us_since(start, pages));
	ebb_units_close(u);
}

static int bench_units(const struct command *cmd, int argc, char **argv)
{
	struct store_opts store = STORE_OPTS_DEFAULT;
	struct bench_opts bench = { .rounds = 1 };
	struct word_list codecs = { { "lz4", "zstd" }, 2 };
	const size_t page = ebb_page_size();
	struct count_list units = { { page, 4 * page, 16 * page }, 0 };
	const char *data = "system";
	uint64_t size = 128 << 20;
	const struct opt opts[] = {
		{ "data", OPT_WORD, &data, 0, 0, 0, NULL, "SET", DATA_WORDS },
		{ "size", OPT_SIZE, &size, 65536, SIZE_MOST, 65536, NULL, "SIZE",
		  "most of the set" },
		{ "codec", OPT_WORD_LIST, &codecs, 0, 0, 0, NULL, "NAME,...", codec_words() },
		{ "unit", OPT_COUNT_LIST, &units, 4096, 65536, 0, NULL, "BYTES,...",
		  "what is compressed together: powers of two, a page to 65536" },
		OPT_CODEC_LEVEL(store),
		OPT_JSON(bench.json),
		OPT_OUT(bench),
		{ .name = NULL },
	};
	struct page_set set;
	struct table *t;
	int status;

	while (units.n < 3 && units.v[units.n] <= 65536)
		units.n++;
	args_parse_only(cmd, opts, argc, argv);
	bench_start(&bench);
	for (unsigned int i = 0; i < codecs.n; i++) {
		store.codec = codecs.v[i];
		store_opts_check(&store);
	}
	for (unsigned int i = 0; i < units.n; i++)
		if (units.v[i] & (units.v[i] - 1) || units.v[i] < page)
			usage_fail("bench units: --unit %llu; expected a power of two, %zu to 65536",
				   (unsigned long long)units.v[i], page);
	memory_check_size(size, 2, "the data, and a disk of it,");
	data_check(data);
	data_load(&set, data, size);
	if (set.count * page < 65536)
		fail("--data %s: %zu pages; expected 64 KiB at least", data, set.count);
	t = table_new(columns);
	for (unsigned int i = 0; i < codecs.n; i++) {
		store.codec = codecs.v[i];
		for (unsigned int k = 0; k < units.n; k++)
			measure(t, &set, &store, units.v[k]);
	}
	progress_end();
	data_unload(&set);
	status = bench_report(&bench, t);
	table_free(t);
	return status;
}

const struct command bench_units_command = {
	.name = "bench units",
	.operands = "",
	.summary = "memory and time of pages that are compressed together",
	.about =
"Writes a set of real pages to a disk that compresses so many bytes together, and reads them back\n"
"by units, by pages in order and by pages in no order.  `memory/B` is what a byte takes, all tables\n"
"counted.",
	.examples =
"  ebb bench units\n"
"  ebb bench units --data python --codec zstd --unit 4096,16384",
	.run = bench_units,
};
