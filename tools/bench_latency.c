// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb bench latency: how long one call takes at most, alone and while other threads let go of
 * everything.  Each run is a process of its own (bench_latency_one.c), so that malloc() is the
 * allocator's that is preloaded.
 */
#include "bench_latency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocators.h"
#include "alone.h"
#include "bench.h"
#include "ebb.h"
#include "memory.h"

#define VARIANTS_MOST 8

static const char *const variant_names[] = {
	"ebb", "ebb-sync", "mimalloc", "jemalloc", "tcmalloc", "glibc", LATENCY_NOTHING, NULL
};

static const char *const op_names[LATENCY_OPS] = {
	[LATENCY_STORE] = "store", [LATENCY_READ] = "read", [LATENCY_FREE] = "free",
	[LATENCY_GIVE_BACK] = "give-back",
};

struct latency_opts {
	struct bench_opts bench;
	struct count_list others;
	struct word_list asked;
	uint64_t exits, size;
	const char *data;
};

static const char *library_of(const char *name)
{
	const struct allocator *a = allocator_find(name);

	return a ? a->library : NULL;
}

static bool run_one(const struct latency_opts *o, const char *name, uint64_t others,
		    uint64_t exits, struct latency_result *res)
{
	char *argv[] = {
		xprintf("ebb"), xprintf("bench"), xprintf(LATENCY_ONE_COMMAND), xprintf("%s", name),
		xprintf("%llu", (unsigned long long)others),
		xprintf("%llu", (unsigned long long)exits),
		xprintf("%llu", (unsigned long long)o->size), xprintf("%s", o->data), NULL,
	};
	bool well = run_again(argv, library_of(name), NULL, !exits, res, sizeof(*res));

	for (char **a = argv; *a; a++)
		free(*a);
	return well && res->loaded;
}

/* Those of the asked ones that are here; the others are named on stderr. */
static size_t choose(const struct latency_opts *o, const char *chosen[VARIANTS_MOST])
{
	struct latency_result probe;
	size_t n = 0;

	for (const char *const *name = variant_names; *name; name++) {
		if (!word_wanted(&o->asked, *name))
			continue;
		if (library_of(*name) && !run_one(o, *name, 0, 0, &probe))
			note("%s is left out: expected %s to be installed", *name, library_of(*name));
		else
			chosen[n++] = *name;
	}
	return n;
}

static const struct column columns[] = {
	{ "allocator", "allocator", COL_TEXT, 0 },
	{ "others", "others", COL_INT, 0 },
	{ "op", "call", COL_TEXT, 0 },
	{ "data", NULL, COL_TEXT, 0 },
	{ "rounds", NULL, COL_INT, 0 },
	{ "samples", "calls", COL_INT, 0 },
	{ "p50_ns", "p50 ns", COL_SPREAD, 0 },
	{ "p99_ns", "p99 ns", COL_SPREAD, 0 },
	{ "p999_ns", "p99.9 ns", COL_SPREAD, 0 },
	{ "max_ns", "longest ns", COL_SPREAD, 0 },
	{ "lost", "lost CPU", COL_INT, 0 },
	{ "lost_max_ns", "longest of those, ns", COL_SPREAD, 0 },
	{ NULL, NULL, COL_TEXT, 0 },
};

static void add_rows(struct table *t, const struct latency_opts *o, const char *name,
		     uint64_t others, const struct latency_result *res, size_t n)
{
	double *x = xalloc(n, sizeof(*x));

	for (int k = 0; k < LATENCY_OPS; k++) {
		double samples = 0, lost = 0;

		for (size_t i = 0; i < n; i++) {
			samples += res[i].op[k].samples;
			lost += res[i].op[k].lost;
		}
		table_row(t);
		table_text(t, "allocator", name);
		table_int(t, "others", others);
		table_text(t, "op", op_names[k]);
		table_text(t, "data", o->data);
		table_int(t, "rounds", n);
		table_int(t, "samples", (uint64_t)samples);
		table_int(t, "lost", (uint64_t)lost);
#define SPREAD(field) do { \
	for (size_t i = 0; i < n; i++) \
		x[i] = res[i].op[k].field; \
	table_spread(t, #field, x, n); \
} while (0)
		SPREAD(p50_ns);
		SPREAD(p99_ns);
		SPREAD(p999_ns);
		SPREAD(max_ns);
		SPREAD(lost_max_ns);
#undef SPREAD
	}
	free(x);
}

static struct table *measure(const struct latency_opts *o, const char *const *chosen, size_t n)
{
	size_t rounds = o->bench.rounds, lists = o->others.n;
	struct latency_result *results = xalloc(lists * n * rounds, sizeof(*results));
	struct table *t = table_new(columns);

#define RESULTS(i, a) (&results[((i) * n + (a)) * rounds])
	for (size_t round = 0; round < rounds; round++) {
		for (size_t i = 0; i < lists; i++) {
			/* Each round begins with another: the first finds the machine colder. */
			for (size_t k = 0; k < n; k++) {
				size_t a = (k + round) % n;

				progress("round %zu of %zu: %s, %llu others", round + 1, rounds,
					 chosen[a], (unsigned long long)o->others.v[i]);
				if (!run_one(o, chosen[a], o->others.v[i], o->exits,
					     &RESULTS(i, a)[round]))
					fail("the run of %s did not end well", chosen[a]);
			}
		}
	}
	for (size_t i = 0; i < lists; i++)
		for (size_t a = 0; a < n; a++)
			add_rows(t, o, chosen[a], o->others.v[i], RESULTS(i, a), rounds);
#undef RESULTS
	free(results);
	return t;
}

static int bench_latency(const struct command *cmd, int argc, char **argv)
{
	struct latency_opts o = {
		.bench = { .rounds = 3 },
		.others = { { 0, 4 }, 2 },
		.exits = 20,
		.size = 64 << 20,
		.data = "system",
	};
	const struct opt opts[] = {
		{ "allocator", OPT_WORD_LIST, &o.asked, 0, 0, 0, variant_names, "NAME,...",
		  "some of ebb, ebb-sync, mimalloc, jemalloc, tcmalloc, glibc, nothing" },
		{ "others", OPT_COUNT_LIST, &o.others, 0, THREADS_MAX - 1, 0, NULL, "N,...",
		  "threads that free meanwhile; a list is measured one by one" },
		{ "exits", OPT_COUNT, &o.exits, 1, 100000, 0, NULL, "N",
		  "times that they fill and free everything" },
		{ "size", OPT_SIZE, &o.size, ebb_page_size(), SIZE_MOST, ebb_page_size(),
		  NULL, "SIZE", "pages whose compressed forms each of them holds" },
		{ "data", OPT_WORD, &o.data, 0, 0, 0, NULL, "SET", DATA_WORDS },
		OPTS_BENCH(o.bench),
		{ .name = NULL },
	};
	const char *chosen[VARIANTS_MOST];
	struct table *t;
	size_t n;
	int status;

	args_parse_only(cmd, opts, argc, argv);
	bench_start(&o.bench);
	/* As if no page shrank. */
	memory_check_size(o.size, count_list_max(&o.others) + 2, "the data of all threads");
	data_check(o.data);
	n = choose(&o, chosen);
	if (!n)
		fail("none of the allocators asked for is installed");
	t = measure(&o, chosen, n);
	status = bench_report(&o.bench, t);
	table_free(t);
	return status;
}

const struct command bench_latency_command = {
	.name = "bench latency",
	.operands = "",
	.summary = "how long a single store, read or free takes at most",
	.about =
"One thread stores, reads and frees objects, pages compressed with lz4, and looks at the clock\n"
"around each call: alone, and while other threads free all that they have, one object after\n"
"another.  Objects are kept by ebb_put() and ebb_free() (`ebb`, deferred, and `ebb-sync`), and\n"
"by malloc() and free() of each allocator that is installed.  `nothing` is calls that do\n"
"nothing: what the clock and the machine add.  `give-back` is the free of an object that has a\n"
"page for itself; with `ebb-sync` the page goes back in that call.\n"
"\n"
"A call in which the thread lost its CPU to another one is counted under `lost CPU`, and is in\n"
"none of the other columns; one that waited for a lock is.  The columns are medians of the\n"
"rounds, `longest` too.  While the others free, calls are timed until what Ebb holds back has\n"
"been released.",
	.examples =
"  ebb bench latency\n"
"  ebb bench latency --allocator ebb,glibc,nothing --others 4 --rounds 1\n"
"  ebb bench latency --data python --size 16M --exits 100 --json",
	.run = bench_latency,
};
