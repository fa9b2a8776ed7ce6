// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb bench pages: how long giving back a backlog of pages holds the zone's lock.
 *
 * One thread frees a backlog in one call, again and again, while the others take and give
 * small amounts, so that the lock has someone waiting.  Variants: batched goes through the
 * per-CPU list, which gives back in batches; one_hold gives all of it in one hold.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "ebb.h"
#include "memory.h"

#define BACKLOG_MAX 1000000

static const struct variant {
	const char *name;
	int (*free_pages)(struct ebb_pages *pages, const uint32_t *ids, size_t n);
} variants[] = {
	{ "batched", ebb_pages_free },
	{ "one_hold", ebb_pages_free_one_hold },
};

struct pages_opts {
	struct bench_opts bench;
	struct count_list backlogs;
	uint64_t threads, batch, high, repeats;
};

struct pages_run {
	const struct pages_opts *o;
	const struct variant *variant;
	struct ebb_pages *pages;
	size_t backlog;
	uint64_t freeing_ns, other_calls, other_max_ns;
	atomic_bool done;
};

struct sample {
	double holds, max_pages_per_hold, max_hold_ns, p999_hold_ns;
	double pages_per_s, other_pages_per_s, other_max_wait_ns;
};

static int free_backlogs(struct pages_run *run)
{
	uint32_t *ids = xalloc(run->backlog, sizeof(*ids));
	int ret = 0;

	for (uint64_t r = 0; r < run->o->repeats && !ret && !interrupted(); r++) {
		uint64_t start;

		ret = ebb_pages_alloc(run->pages, ids, run->backlog);
		if (ret)
			break;
		start = now_ns();
		ret = run->variant->free_pages(run->pages, ids, run->backlog);
		run->freeing_ns += now_ns() - start;
	}
	free(ids);
	atomic_store(&run->done, true);
	return ret;
}

/* Twice what a list holds, so that each turn refills from the zone and gives back to it. */
static int take_and_give(struct pages_run *run, bool watch)
{
	size_t n = 2 * run->o->high;
	uint32_t *ids = xalloc(n, sizeof(*ids));
	uint64_t calls = 0, max = 0;
	int ret = 0;

	while (!ret && !atomic_load(&run->done) && !interrupted()) {
		uint64_t start = now_ns(), took;

		ret = ebb_pages_alloc(run->pages, ids, n);
		took = now_ns() - start;
		if (took > max)
			max = took;
		if (!ret)
			ret = ebb_pages_free(run->pages, ids, n);
		calls++;
	}
	free(ids);
	if (watch) {
		run->other_calls = calls;
		run->other_max_ns = max;
	}
	return ret;
}

static int work(void *arg, unsigned int i)
{
	struct pages_run *run = arg;

	return i ? take_and_give(run, i == 1) : free_backlogs(run);
}

static void run_once(const struct pages_opts *o, const struct variant *variant, size_t backlog,
		     struct sample *s)
{
	static struct team_times times;
	struct pages_run run = { .o = o, .variant = variant, .backlog = backlog };
	struct ebb_pages_stat st = { .struct_size = sizeof(st) };
	uint32_t *ids = xalloc(backlog, sizeof(*ids));

	must(ebb_pages_open(&run.pages, (unsigned int)o->batch, (unsigned int)o->high),
	     "cannot open a page source");
	/* The zone's memory comes from the system now, not while the clock runs. */
	must(ebb_pages_alloc(run.pages, ids, backlog), "cannot take pages");
	must(ebb_pages_free(run.pages, ids, backlog), "cannot give pages back");
	free(ids);
	must(ebb_pages_reset_stat(run.pages), "cannot reset the figures");

	team_run((unsigned int)o->threads, work, &run, &times, "cannot take or give pages");

	must(ebb_pages_stat(run.pages, &st), "cannot read the figures");
	s->holds = (double)st.holds;
	s->max_pages_per_hold = (double)st.max_pages_per_hold;
	s->max_hold_ns = (double)st.max_hold_ns;
	s->p999_hold_ns = (double)st.p999_hold_ns;
	s->pages_per_s = (double)backlog * (double)o->repeats * 1e9 / (double)run.freeing_ns;
	s->other_pages_per_s = (double)run.other_calls * 2 * (double)o->high * 1e9 /
			       (double)(times.last_ns - times.first_ns);
	s->other_max_wait_ns = (double)run.other_max_ns;
	ebb_pages_close(run.pages);
}

static const struct column columns[] = {
	{ "variant", "variant", COL_TEXT, 0 },
	{ "backlog_pages", "backlog", COL_INT, 0 },
	{ "threads", "threads", COL_INT, 0 },
	{ "batch", "batch", COL_INT, 0 },
	{ "high", NULL, COL_INT, 0 },
	{ "rounds", NULL, COL_INT, 0 },
	{ "holds", "holds", COL_INT, 0 },
	{ "max_pages_per_hold", "max pages/hold", COL_INT, 0 },
	{ "max_hold_ns", "max hold ns", COL_SPREAD, 0 },
	{ "p999_hold_ns", "p99.9 hold ns", COL_SPREAD, 0 },
	{ "pages_per_s", "pages freed/s", COL_SPREAD, 0 },
	{ "other_pages_per_s", "others' pages/s", COL_SPREAD, 0 },
	{ "other_max_wait_ns", "others' longest ns", COL_SPREAD, 0 },
	{ NULL, NULL, COL_TEXT, 0 },
};

static void add_row(struct table *t, const struct pages_opts *o, const char *variant,
		    size_t backlog, const struct sample *s, size_t n)
{
	double *x = xalloc(n, sizeof(*x)), most = 0;

#define SPREAD(field) do { \
	for (size_t i = 0; i < n; i++) \
		x[i] = s[i].field; \
	table_spread(t, #field, x, n); \
} while (0)
	table_row(t);
	table_text(t, "variant", variant);
	table_int(t, "backlog_pages", backlog);
	table_int(t, "threads", o->threads);
	table_int(t, "batch", o->batch);
	table_int(t, "high", o->high);
	table_int(t, "rounds", n);
	for (size_t i = 0; i < n; i++) {
		x[i] = s[i].holds;
		/* A bound that must always keep: the worst round, not the median. */
		if (s[i].max_pages_per_hold > most)
			most = s[i].max_pages_per_hold;
	}
	table_int(t, "holds", (uint64_t)median(x, n));
	table_int(t, "max_pages_per_hold", (uint64_t)most);
	SPREAD(max_hold_ns);
	SPREAD(p999_hold_ns);
	SPREAD(pages_per_s);
	if (o->threads > 1) {
		SPREAD(other_pages_per_s);
		SPREAD(other_max_wait_ns);
	}
#undef SPREAD
	free(x);
}

static int bench_pages(const struct command *cmd, int argc, char **argv)
{
	struct pages_opts o = {
		.bench = { .rounds = 5 },
		.backlogs = { { 2000, 10000, 50000 }, 3 },
		.threads = 2,
		.batch = 63,
		.high = 256,
		.repeats = 200,
	};
	const struct opt opts[] = {
		{ "backlog", OPT_COUNT_LIST, &o.backlogs, 1, BACKLOG_MAX, 0, NULL, "N,...",
		  "pages freed by one call" },
		{ "threads", OPT_COUNT, &o.threads, 1, THREADS_MAX, 0, NULL, "N",
		  "one that frees backlogs, and N - 1 others" },
		{ "batch", OPT_COUNT, &o.batch, 1, 64, 0, NULL, "N",
		  "pages given back in one hold" },
		{ "high", OPT_COUNT, &o.high, 1, 1 << 20, 0, NULL, "N",
		  "most pages in a per-CPU list" },
		{ "repeats", OPT_COUNT, &o.repeats, 1, 1000000, 0, NULL, "N",
		  "backlogs freed in a round" },
		OPTS_BENCH(o.bench),
		{ .name = NULL },
	};
	size_t rounds, lists;
	struct sample *samples;
	struct table *t;
	int status;

	args_parse_only(cmd, opts, argc, argv);
	if (o.high < o.batch)
		usage_fail("--high %llu: expected at least the batch, %llu",
			   (unsigned long long)o.high, (unsigned long long)o.batch);
	bench_start(&o.bench);
	/* The backlog, what each of the others takes at once, and what each list keeps. */
	memory_check((count_list_max(&o.backlogs) + (3 * o.threads - 2) * o.high) * ebb_page_size(),
		     "--backlog, --threads and --high together");
	rounds = o.bench.rounds;
	lists = o.backlogs.n;
	samples = xalloc(rounds * lists * ARRAY_LEN(variants), sizeof(*samples));
#define SAMPLES(list, v) (&samples[((list) * ARRAY_LEN(variants) + (v)) * rounds])
	for (size_t round = 0; round < rounds; round++) {
		for (size_t list = 0; list < lists; list++) {
			for (size_t v = 0; v < ARRAY_LEN(variants); v++) {
				progress("round %zu of %zu: %s, %llu pages", round + 1, rounds,
					 variants[v].name, (unsigned long long)o.backlogs.v[list]);
				run_once(&o, &variants[v], o.backlogs.v[list],
					 &SAMPLES(list, v)[round]);
			}
		}
	}
	t = table_new(columns);
	for (size_t list = 0; list < lists; list++)
		for (size_t v = 0; v < ARRAY_LEN(variants); v++)
			add_row(t, &o, variants[v].name, o.backlogs.v[list], SAMPLES(list, v),
				rounds);
#undef SAMPLES
	free(samples);
	status = bench_report(&o.bench, t);
	table_free(t);
	return status;
}

const struct command bench_pages_command = {
	.name = "bench pages",
	.operands = "",
	.summary = "how long giving back a backlog of pages holds the zone's lock",
	.about =
"The page side by itself: per-CPU lists in front of a zone with one lock.  One thread frees a\n"
"backlog of pages in one call while others take and give small amounts.  `batched` gives back\n"
"in batches and drops the lock between them; `one_hold` does it in one hold.  `max pages/hold`\n"
"is the worst of all rounds; holds that another process interrupts show in the longest times,\n"
"which is why the 99.9th percentile stands beside them.",
	.examples =
"  ebb bench pages\n"
"  ebb bench pages --backlog 2000,200000 --batch 32\n"
"  ebb bench pages --threads 4 --high 1024 --json",
	.run = bench_pages,
};
