// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb bench store: what storing and reading a page costs, and how much of it is the codec.
 *
 * All threads do the same number of pages, each in slots of its own; times are the mean over
 * the threads of their time per page:
 *   cold_ns_per_page     the first fill: the system zeroes fresh memory meanwhile
 *   ns_per_page          a fill after everything was freed: the memory is at hand
 *   codec_ns_per_page    compressing the same pages, nothing else, as many threads at once
 *   other_ns_per_page    the difference
 *   store_ns_per_page    the same pages, compressed beforehand, through ebb_put()
 *   read_ns_per_page, codec_read_ns_per_page
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "codec_alone.h"
#include "config.h"
#include "memory.h"

enum phase { COLD, READ, WARM, CODEC, CODEC_READ, PUT, PHASES };

struct store_run {
	struct team_slots slots;
	const struct packed_set *packed;
	const struct store_opts *opts;
	struct codec_alone *codec[THREADS_MAX];
};

struct sample {
	double ns[PHASES];       /* per page */
	double pages_per_s;      /* of the warm fill, all threads together */
};

static int read_pages(void *arg, unsigned int i)
{
	const struct store_run *run = arg;
	uint64_t slot = (uint64_t)i * run->slots.each;
	size_t page = ebb_page_size();
	unsigned char buf[65536];

	for (size_t p = 0; p < run->slots.each && !interrupted(); p++) {
		int ret = ebb_read(run->slots.store, slot + p, buf, page);

		if (ret)
			return ret;
	}
	return 0;
}

static int free_pages(void *arg, unsigned int i)
{
	const struct store_run *run = arg;

	return ebb_free(run->slots.store, (uint64_t)i * run->slots.each, run->slots.each);
}

static int compress_pages(void *arg, unsigned int i)
{
	const struct store_run *run = arg;
	unsigned char buf[65536];

	for (size_t p = 0; p < run->slots.each && !interrupted(); p++)
		codec_alone_compress(run->codec[i],
				     data_page(run->slots.set, slots_page(&run->slots, i, p)), buf);
	return 0;
}

static int decompress_pages(void *arg, unsigned int i)
{
	const struct store_run *run = arg;
	size_t page = ebb_page_size();
	unsigned char buf[65536];

	for (size_t p = 0; p < run->slots.each && !interrupted(); p++) {
		size_t at = slots_page(&run->slots, i, p), n = packed_size(run->packed, at);
		const unsigned char *src = run->packed->bytes + run->packed->at[at];

		if (n == page)
			memcpy(buf, src, page);
		else if (!codec_alone_decompress(run->codec[i], src, n, buf))
			fail("the codec does not read back what it wrote");
	}
	return 0;
}

static int put_pages(void *arg, unsigned int i)
{
	const struct store_run *run = arg;
	uint64_t slot = (uint64_t)i * run->slots.each;

	for (size_t p = 0; p < run->slots.each && !interrupted(); p++) {
		size_t at = slots_page(&run->slots, i, p);
		int ret = ebb_put(run->slots.store, slot + p,
				  run->packed->bytes + run->packed->at[at],
				  packed_size(run->packed, at));

		if (ret)
			return ret;
	}
	return 0;
}

static void run_once(struct store_run *run, struct sample *s)
{
	static struct team_times times;
	double pages = (double)run->slots.each;

#define PHASE(phase, fn, what) do { \
	team_run(run->slots.threads, fn, run, &times, what); \
	s->ns[phase] = times.mean_ns / pages; \
} while (0)
	run->slots.store = store_open(run->opts, (uint64_t)run->slots.threads * run->slots.each,
				      EBB_DEFAULT);
	team_run(run->slots.threads, slots_fill, &run->slots, &times, "cannot store a page");
	s->ns[COLD] = times.mean_ns / pages;
	PHASE(READ, read_pages, "cannot read a page");
	team_run(run->slots.threads, free_pages, run, &times, "cannot free");
	must(ebb_flush(run->slots.store), "cannot flush");
	team_run(run->slots.threads, slots_fill, &run->slots, &times, "cannot store a page");
	s->ns[WARM] = times.mean_ns / pages;
	s->pages_per_s = pages * run->slots.threads * 1e9 /
			 (double)(times.last_ns - times.first_ns);
	team_run(run->slots.threads, slots_verify, &run->slots, &times, "cannot read a page back");

	for (unsigned int i = 0; i < run->slots.threads; i++)
		run->codec[i] = codec_alone_open(run->opts->codec, run->opts->level);
	PHASE(CODEC, compress_pages, "cannot compress");
	PHASE(CODEC_READ, decompress_pages, "cannot decompress");
	for (unsigned int i = 0; i < run->slots.threads; i++)
		codec_alone_close(run->codec[i]);

	team_run(run->slots.threads, free_pages, run, &times, "cannot free");
	must(ebb_flush(run->slots.store), "cannot flush");
	PHASE(PUT, put_pages, "cannot store an object");
	ebb_close(run->slots.store);
#undef PHASE
}

static const struct column columns[] = {
	{ "threads", "threads", COL_INT, 0 },
	{ "data", NULL, COL_TEXT, 0 },
	{ "codec", "codec", COL_TEXT, 0 },
	{ "slots_per_thread", NULL, COL_INT, 0 },
	{ "rounds", NULL, COL_INT, 0 },
	{ "ns_per_page", "ns/page", COL_SPREAD, 0 },
	{ "codec_ns_per_page", "codec", COL_SPREAD, 0 },
	{ "other_ns_per_page", "other", COL_SPREAD, 0 },
	{ "store_ns_per_page", "put", COL_SPREAD, 0 },
	{ "cold_ns_per_page", "cold", COL_SPREAD, 0 },
	{ "read_ns_per_page", "read", COL_SPREAD, 0 },
	{ "codec_read_ns_per_page", "codec read", COL_SPREAD, 0 },
	{ "pages_per_s", "pages/s", COL_SPREAD, 0 },
	{ "scaling", "scaling", COL_REAL, 2 },
	{ NULL, NULL, COL_TEXT, 0 },
};

static void add_row(struct table *t, const struct store_run *run, const struct sample *s,
		    size_t n, double *one_thread)
{
	static const char *const keys[PHASES] = {
		[COLD] = "cold_ns_per_page", [READ] = "read_ns_per_page", [WARM] = "ns_per_page",
		[CODEC] = "codec_ns_per_page", [CODEC_READ] = "codec_read_ns_per_page",
		[PUT] = "store_ns_per_page",
	};
	double *x = xalloc(n, sizeof(*x)), speed;

	table_row(t);
	table_int(t, "threads", run->slots.threads);
	table_text(t, "data", run->slots.set->name);
	table_text(t, "codec", run->opts->codec);
	table_int(t, "slots_per_thread", run->slots.each);
	table_int(t, "rounds", n);
	for (int phase = 0; phase < PHASES; phase++) {
		for (size_t i = 0; i < n; i++)
			x[i] = s[i].ns[phase];
		table_spread(t, keys[phase], x, n);
	}
	for (size_t i = 0; i < n; i++)
		x[i] = s[i].ns[WARM] - s[i].ns[CODEC];
	table_spread(t, "other_ns_per_page", x, n);
	for (size_t i = 0; i < n; i++)
		x[i] = s[i].pages_per_s;
	table_spread(t, "pages_per_s", x, n);
	speed = median(x, n);
	if (run->slots.threads == 1)
		*one_thread = speed;
	if (*one_thread > 0)
		table_real(t, "scaling", speed / *one_thread);
	free(x);
}

static int bench_store(const struct command *cmd, int argc, char **argv)
{
	struct store_opts store = STORE_OPTS_DEFAULT;
	struct bench_opts bench = { .rounds = 5 };
	struct count_list threads = { { 1, 2 }, 2 };
	const char *data = "system";
	uint64_t size = 128 << 20, rounds;
	const struct opt opts[] = {
		OPT_THREADS(threads),
		{ "size", OPT_SIZE, &size, ebb_page_size(), SIZE_MOST, ebb_page_size(),
		  NULL, "SIZE", "what each thread stores" },
		{ "data", OPT_WORD, &data, 0, 0, 0, NULL, "SET", DATA_WORDS },
		OPTS_STORE(store),
		OPTS_BENCH(bench),
		{ .name = NULL },
	};
	struct packed_set packed;
	struct store_run run = { .packed = &packed, .opts = &store };
	struct sample *samples;
	double one_thread = 0;
	struct page_set set;
	struct table *t;
	int status;

	args_parse_only(cmd, opts, argc, argv);
	bench_start(&bench);
	store_opts_check(&store);
	memory_check_size(size, count_list_max(&threads) + 2,
			  "the data, plain and compressed, and the slots of all threads");
	data_check(data);
	data_load(&set, data, size);
	packed_load(&packed, &set, store.codec, store.level);
	rounds = bench.rounds;
	run.slots.set = &set;
	run.slots.each = size / ebb_page_size();
	samples = xalloc(threads.n * rounds, sizeof(*samples));
	for (size_t round = 0; round < rounds; round++) {
		for (size_t i = 0; i < threads.n; i++) {
			run.slots.threads = (unsigned int)threads.v[i];
			progress("round %zu of %llu: %u threads", round + 1,
				 (unsigned long long)rounds, run.slots.threads);
			run_once(&run, &samples[i * rounds + round]);
		}
	}
	t = table_new(columns);
	for (size_t i = 0; i < threads.n; i++) {
		run.slots.threads = (unsigned int)threads.v[i];
		add_row(t, &run, &samples[i * rounds], rounds, &one_thread);
	}
	status = bench_report(&bench, t);
	table_free(t);
	free(samples);
	packed_unload(&packed);
	data_unload(&set);
	return status;
}

const struct command bench_store_command = {
	.name = "bench store",
	.operands = "",
	.summary = "what storing and reading a page costs beside the codec",
	.about =
"Each thread writes, reads and frees pages of its own.  `ns/page` is a write to memory that the\n"
"store has at hand, `cold` the first write, while the system still zeroes memory; `codec` is\n"
"compressing the same pages and nothing else, `other` the difference; `put` stores the same\n"
"pages compressed beforehand.  `scaling` is the speed of all threads over that of one.",
	.examples =
"  ebb bench store\n"
"  ebb bench store --codec zstd --level 1 --threads 1,2,4\n"
"  ebb bench store --data mix --size 64M --json",
	.run = bench_store,
};
