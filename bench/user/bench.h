/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bench.h - what a bench is, and what the driver (bench.c) does for it.
 *
 * Everything is measured once for each set of data, codec, trace, variant and number of threads,
 * rounds by turns, and each time in a process of its own, so that none sees what another left in
 * memory.  What the rounds found becomes rows of a table and of JSON.
 */
#ifndef EBB_BENCH_H
#define EBB_BENCH_H

#include "args.h"
#include "config.h"
#include "data.h"
#include "table.h"

/* Columns, by the place of their figure; MIB's key is name_bytes. */
#define COLUMN(i, key, kind, digits) [i] = { key, key, kind, digits }
#define MIB(i, name) [i] = { name "_bytes", name " MiB", COL_MIB, 1 }
#define COUNT(i, key) COLUMN(i, key, COL_INT, 0)
#define BOOL(i, key) COLUMN(i, key, COL_BOOL, 0)
#define REAL(i, key, digits) COLUMN(i, key, COL_REAL, digits)
#define SPREAD(i, key, digits) COLUMN(i, key, COL_SPREAD, digits)

#define BENCH_COLUMNS 16
#define BENCH_PARTS 4

/* What is empty or 0 in a bench's defaults is no option of it, but for the last ones. */
struct bench_opts {
	struct word_list data, codecs, traces, variants;
	struct count_list threads;
	uint64_t size, values, least, most, keys, requests, capacity;
	uint64_t rounds;
	const char *out;
	bool vs_kernel, json, one;
};

/* One of the things that are measured. */
struct bench_run {
	const struct bench_opts *o;
	const struct page_set *set;
	struct store_opts store;
	const char *trace, *variant;
	unsigned int threads;
	void *loaded;            /* what load() returned */
};

/* What was found, by part and column; NAN where nothing was. */
typedef double bench_figures[BENCH_PARTS][BENCH_COLUMNS];

/* How a bench begins. */
#define BENCH(word, line, text) .command = { \
	.name = word, .operands = "", .summary = line, .about = text, .run = bench_main, \
	.examples = "  bench-user " word " --rounds 1\n  bench-user " word " --json --out FILE" }

int bench_main(const struct command *cmd, int argc, char **argv);

struct bench {
	struct command command;         /* first, for bench_main() */
	struct bench_opts defaults;
	const char *const *variants;    /* words of --variant; all by default */
	const char *variant_key, *threads_key, *data_key;       /* in JSON; an option, too */
	unsigned int rows;              /* of one run */
	const char *part_key, *const *parts;    /* their names; NULL: none */
	const struct column *columns;   /* of figures: v[part] has one for each */
	unsigned int copies;            /* of --size that are in memory */
	bool copies_each;               /* and one for each thread */
	bool preloads;                  /* a variant is an allocator (allocators.h) */
	/* Each but run() may be NULL. */
	void (*init)(struct bench_opts *o);             /* defaults of this machine; no option */
	void (*check)(const struct bench_opts *o);      /* what is wrong ends the program */
	void *(*load)(const struct bench_run *r);       /* for all runs */
	void (*run)(const struct bench_run *r, bench_figures v);
};

/* Calls fn(arg, found) in a process of its own; what it left in found[bytes] comes back. */
void bench_apart(void (*fn)(void *arg, void *found), void *arg, void *found, size_t bytes);

extern const struct bench cache_bench, density_bench, latency_bench, malloc_bench, release_bench,
	store_bench, units_bench, values_bench;

#endif
