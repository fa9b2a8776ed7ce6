// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user units: memory and time of pages that are compressed together.
 *
 * A disk of ebb_units.h takes a set of pages, a unit in each write; then it is read by units, by
 * pages in order, and by pages in no order, each compared with what was written.  One thread.
 */
#include <string.h>

#include "bench.h"
#include "ebb_units.h"

#define UNIT_MOST 65536u
#define STRIDE 7919u            /* of what is read in no order; prime */

enum { ORIG, TAKEN, WRITE, READ, PAGES, RANDOM };

static const struct column columns[] = {
	MIB(ORIG, "orig"), REAL(TAKEN, "taken_per_byte", 4), REAL(WRITE, "write_us", 2),
	REAL(READ, "read_us", 2), REAL(PAGES, "page_us", 2), REAL(RANDOM, "random_us", 2),
	{ .key = NULL },
};

/* Microseconds a page, in steps of at_once, the k-th at step k * stride of all. */
static double units_read(struct ebb_units *u, const struct page_set *set, uint64_t bytes,
			 size_t at_once, uint64_t stride)
{
	uint64_t steps = bytes / at_once, step = 0, start = now_ns();
	static unsigned char buf[UNIT_MOST];

	while (!(steps % stride) && stride > 1)
		stride += 2;
	for (uint64_t k = 0; k < steps; k++, step = (step + stride) % steps) {
		must(ebb_units_read(u, step * at_once, buf, at_once), "cannot read");
		if (memcmp(buf, set->pages + step * at_once, at_once))
			fail("byte %llu on does not read back as it was written",
			     (unsigned long long)(step * at_once));
		stop_if_interrupted();
	}
	return (double)(now_ns() - start) / 1e3 / (double)(bytes / ebb_page_size());
}

static void units_run(const struct bench_run *r, bench_figures v)
{
	size_t page = ebb_page_size(), unit = r->threads;
	uint64_t bytes = r->set->count * page / UNIT_MOST * UNIT_MOST, start;
	struct ebb_units_stat us = { .struct_size = sizeof(us) };
	struct ebb_units_config cfg;
	struct ebb_units *u;
	struct ebb_stat st;

	if (!bytes)
		fail("--data %s: expected 64 KiB at least", r->set->name);
	ebb_units_config_init(&cfg);
	cfg.bytes = bytes;
	cfg.unit_bytes = (uint32_t)unit;
	cfg.codec = r->store.codec;
	must(ebb_units_open(&u, &cfg), "cannot make a disk");
	start = now_ns();
	for (uint64_t at = 0; at < bytes; at += unit) {
		must(ebb_units_write(u, at, r->set->pages + at, unit), "cannot write");
		stop_if_interrupted();
	}
	v[0][WRITE] = (double)(now_ns() - start) / 1e3 / (double)(bytes / page);
	store_stat(ebb_units_store(u), &st);
	must(ebb_units_stat(u, &us), "cannot ask the disk");
	v[0][ORIG] = (double)bytes;
	v[0][TAKEN] = (double)(st.mem_used_total + st.meta_bytes + us.meta_bytes) / (double)bytes;
	v[0][READ] = units_read(u, r->set, bytes, unit, 1);
	v[0][PAGES] = units_read(u, r->set, bytes, page, 1);
	v[0][RANDOM] = units_read(u, r->set, bytes, page, STRIDE);
	ebb_units_close(u);
}

/* A page, 4 and 16 of them, as far as units may be so large. */
static void units_init(struct bench_opts *o)
{
	for (size_t unit = ebb_page_size(); unit <= UNIT_MOST && o->threads.n < 3; unit *= 4)
		o->threads.v[o->threads.n++] = unit;
}

const struct bench units_bench = {
	BENCH("units", "memory and time of pages that are compressed together",
"Writes a set of real pages to a disk that compresses 1, 4 and 16 of them together, and reads them\n"
"back by units, by pages in order and by pages in no order.  Times are us a page;\n"
"taken_per_byte is the memory of a byte, all tables counted."),
	.rows = 1,
	.defaults = {
		.data = { { "system" }, 1 }, .size = 128 << 20, .codecs = { { "lz4", "zstd" }, 2 },
		.rounds = 1,
	},
	.threads_key = "unit_bytes", .data_key = "set", .columns = columns, .copies = 2,
	.init = units_init, .run = units_run,
};
