// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb bench density: bytes of memory per compressed byte, freshly filled and after churn.
 *
 * Churn: ten times the number of slots, a random slot is written with a random page of the
 * same set, so a slot is replaced ten times on average; then ebb_compact().
 *
 * Beside it stands Linux: on our samples of these four sets its pool took linux_pool_per_byte,
 * and its slot table and handles add 16 bytes per slot and 8 per object.  --vs-kernel does the
 * same to a zram device of this machine's kernel instead.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "config.h"
#include "cpus.h"
#include "data.h"
#include "memory.h"
#include "zram_dev.h"

#define CHURN 10
#define LINUX_SLOT_BYTES 16
#define LINUX_HANDLE_BYTES 8

/* Linux 6.18, lz4, used bytes / compressed bytes. */
static const struct linux_sample {
	const char *set;
	double pool_per_byte;
} linux_samples[] = {
	{ "libs", 1.025 }, { "source", 1.043 }, { "python", 1.031 }, { "exec", 1.027 },
};

struct churn {
	struct ebb_store *store;
	const struct page_set *set;
	unsigned int threads;
};

/* Thread i's share of the slots: first .. first + n - 1. */
static void share(const struct churn *c, unsigned int i, uint64_t *first, uint64_t *n)
{
	uint64_t end = c->set->count * (uint64_t)(i + 1) / c->threads;

	*first = c->set->count * (uint64_t)i / c->threads;
	*n = end - *first;
}

static int fill(void *arg, unsigned int i)
{
	const struct churn *c = arg;
	uint64_t first, n;
	int ret = 0;

	share(c, i, &first, &n);
	for (uint64_t s = first; s < first + n && !ret && !interrupted(); s++)
		ret = ebb_write(c->store, s, data_page(c->set, s), ebb_page_size());
	return ret;
}

static int churn(void *arg, unsigned int i)
{
	const struct churn *c = arg;
	uint64_t first, n, state = 1000 + i;
	int ret = 0;

	share(c, i, &first, &n);
	for (uint64_t k = 0; k < n * CHURN && !ret && !interrupted(); k++) {
		uint64_t slot = first + rng_below(&state, n);

		ret = ebb_write(c->store, slot, data_page(c->set, rng_below(&state, c->set->count)),
				ebb_page_size());
	}
	return ret;
}

static const struct column columns[] = {
	{ "set", "set", COL_TEXT, 0 },
	{ "codec", "codec", COL_TEXT, 0 },
	{ "chain_size_pages", NULL, COL_INT, 0 },
	{ "churned", "churned", COL_BOOL, 0 },
	{ "orig_bytes", "stored MiB", COL_MIB, 0 },
	{ "compr_bytes", "compressed MiB", COL_MIB, 1 },
	{ "pool_bytes", NULL, COL_INT, 0 },
	{ "meta_bytes", NULL, COL_INT, 0 },
	{ "pool_per_byte", "pool/B", COL_REAL, 4 },
	{ "all_in_per_byte", "all in/B", COL_REAL, 4 },
	{ "linux_pool_per_byte", "Linux pool/B", COL_REAL, 4 },
	{ "linux_all_in_per_byte", "Linux all in/B", COL_REAL, 4 },
	{ "overhead_of_linux", "overhead/Linux", COL_REAL, 2 },
	{ "linux_measured", NULL, COL_BOOL, 0 },
	{ NULL, NULL, COL_TEXT, 0 },
};

struct linux_figure {
	double pool_per_byte[2];   /* filled, churned; 0: not known */
	bool measured;
};

static double linux_pool_per_byte(const struct zram_dev *dev)
{
	struct zram_stat st;

	zram_read_stat(dev, &st);
	return st.compr_data_size ? (double)st.mem_used_total / (double)st.compr_data_size : 0;
}

static void write_block(const struct zram_dev *dev, uint64_t slot, const unsigned char *page)
{
	size_t bytes = ebb_page_size();

	if (pwrite(dev->fd, page, bytes, (off_t)(slot * bytes)) != (ssize_t)bytes)
		fail("/dev/zram%d: cannot write page %llu: %s", dev->number,
		     (unsigned long long)slot, strerror(errno));
}

/* The same fill, and the same churn by one thread, on a device; what the kernel's pool took. */
static struct linux_figure measure_linux(const struct page_set *set, const char *codec)
{
	struct linux_figure figure = { .measured = true };
	uint64_t state = 1000;
	struct zram_dev dev;

	progress("%s, %s: filling the kernel's zram", set->name, codec);
	zram_open(&dev, codec, (uint64_t)set->count * ebb_page_size());
	for (uint64_t s = 0; s < set->count; s++) {
		write_block(&dev, s, data_page(set, s));
		stop_if_interrupted();
	}
	figure.pool_per_byte[false] = linux_pool_per_byte(&dev);

	progress("%s, %s: replacing each page in the kernel's zram", set->name, codec);
	for (uint64_t k = 0; k < (uint64_t)set->count * CHURN; k++) {
		uint64_t slot = rng_below(&state, set->count);

		write_block(&dev, slot, data_page(set, rng_below(&state, set->count)));
		stop_if_interrupted();
	}
	zram_compact(&dev);
	figure.pool_per_byte[true] = linux_pool_per_byte(&dev);
	zram_close(&dev);
	return figure;
}

/* The sample was filled once; it stands beside the churned row too, to Linux's advantage. */
static struct linux_figure sampled_linux(const struct page_set *set, const char *codec)
{
	struct linux_figure figure = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(linux_samples) && !strcmp(codec, "lz4"); i++)
		if (!strcmp(linux_samples[i].set, set->name))
			figure.pool_per_byte[false] = figure.pool_per_byte[true] =
				linux_samples[i].pool_per_byte;
	return figure;
}

static void add_row(struct table *t, struct ebb_store *store, const struct page_set *set,
		    const struct store_opts *opts, bool churned, struct linux_figure linux_fig)
{
	double compr, all_in, linux_pool = linux_fig.pool_per_byte[churned];
	struct ebb_stat st;

	store_stat(store, &st);
	compr = (double)st.compr_data_size;
	table_row(t);
	table_text(t, "set", set->name);
	table_text(t, "codec", opts->codec);
	table_int(t, "chain_size_pages", opts->chain_size);
	table_bool(t, "churned", churned);
	table_int(t, "orig_bytes", st.orig_data_size);
	table_int(t, "compr_bytes", st.compr_data_size);
	table_int(t, "pool_bytes", st.mem_used_total);
	table_int(t, "meta_bytes", st.meta_bytes);
	table_bool(t, "linux_measured", linux_fig.measured);
	if (!st.compr_data_size)
		return;
	all_in = (double)(st.mem_used_total + st.meta_bytes) / compr;
	table_real(t, "pool_per_byte", (double)st.mem_used_total / compr);
	table_real(t, "all_in_per_byte", all_in);
	if (linux_pool > 0) {
		double slots = (double)set->count, objects = slots - (double)st.same_pages;
		double linux_all_in = linux_pool + (slots * LINUX_SLOT_BYTES +
				      objects * LINUX_HANDLE_BYTES) / compr;

		table_real(t, "linux_pool_per_byte", linux_pool);
		table_real(t, "linux_all_in_per_byte", linux_all_in);
		table_real(t, "overhead_of_linux", (all_in - 1) / (linux_all_in - 1));
	}
}

static void measure(struct table *t, const struct page_set *set, const struct store_opts *opts,
		    bool vs_kernel)
{
	static struct team_times times;
	struct churn c = { .set = set, .threads = cpu_count() };
	struct linux_figure linux_fig = vs_kernel ? measure_linux(set, opts->codec) :
						    sampled_linux(set, opts->codec);

	if (c.threads > THREADS_MAX)
		c.threads = THREADS_MAX;
	if (c.threads > set->count)
		c.threads = 1;
	c.store = store_open(opts, set->count, EBB_DEFAULT);
	progress("%s, %s: filling", set->name, opts->codec);
	team_run(c.threads, fill, &c, &times, "cannot store a page");
	must(ebb_flush(c.store), "cannot flush");
	add_row(t, c.store, set, opts, false, linux_fig);

	progress("%s, %s: replacing each page about %d times", set->name, opts->codec, CHURN);
	team_run(c.threads, churn, &c, &times, "cannot store a page");
	must(ebb_compact(c.store, NULL), "cannot compact");
	must(ebb_flush(c.store), "cannot flush");
	add_row(t, c.store, set, opts, true, linux_fig);
	ebb_close(c.store);
}

static int bench_density(const struct command *cmd, int argc, char **argv)
{
	struct store_opts store = STORE_OPTS_DEFAULT;
	struct bench_opts bench = { .rounds = 1 };
	struct word_list sets = { { "libs", "source", "python", "exec" }, 4 };
	struct word_list codecs = { { "lz4" }, 1 };
	uint64_t size = 512 << 20;
	bool vs_kernel = false;
	const struct opt opts[] = {
		{ "data", OPT_WORD_LIST, &sets, 0, 0, 0, NULL, "SET,...", DATA_WORDS },
		{ "size", OPT_SIZE, &size, ebb_page_size(), SIZE_MOST, ebb_page_size(),
		  NULL, "SIZE", "most of a set" },
		{ "codec", OPT_WORD_LIST, &codecs, 0, 0, 0, NULL, "NAME,...",
		  codec_words() },
		OPT_CODEC_LEVEL(store),
		OPT_CHAIN_SIZE(store),
		{ "vs-kernel", OPT_FLAG, &vs_kernel, 0, 0, 0, NULL, NULL,
		  "measure the kernel's zram too (root)" },
		OPT_JSON(bench.json),
		OPT_OUT(bench),
		{ .name = NULL },
	};
	struct page_set set;
	struct zram_dev dev;
	struct table *t;
	int status;

	args_parse_only(cmd, opts, argc, argv);
	bench_start(&bench);
	for (unsigned int i = 0; i < codecs.n; i++) {
		store.codec = codecs.v[i];
		store_opts_check(&store);
	}
	memory_check_size(size, 3, "the data, and a store while it is churned,");
	for (unsigned int i = 0; i < codecs.n && vs_kernel; i++) {
		/* Whether it can be had, before minutes go into the first. */
		zram_open(&dev, codecs.v[i], 1 << 20);
		zram_close(&dev);
		if ((size_t)sysconf(_SC_PAGESIZE) != ebb_page_size())
			fail("--vs-kernel: the kernel's pages have %ld bytes; expected %zu",
			     sysconf(_SC_PAGESIZE), ebb_page_size());
	}
	for (unsigned int s = 0; s < sets.n; s++)
		data_check(sets.v[s]);
	t = table_new(columns);
	for (unsigned int s = 0; s < sets.n; s++) {
		data_load(&set, sets.v[s], size);
		for (unsigned int i = 0; i < codecs.n; i++) {
			store.codec = codecs.v[i];
			measure(t, &set, &store, vs_kernel);
		}
		data_unload(&set);
	}
	status = bench_report(&bench, t);
	table_free(t);
	return status;
}

const struct command bench_density_command = {
	.name = "bench density",
	.operands = "",
	.summary = "memory used per compressed byte, before and after churn",
	.about =
"Fills a store with a set of real pages, then replaces each page about ten times by random\n"
"draws from the same set and compacts.  `pool/B` is the pool's pages per compressed byte;\n"
"`all in/B` counts descriptors, slots and buffers too.  Linux's figures are its pool on\n"
"samples of the same sets (lz4, not churned), or with --vs-kernel measured here on the same\n"
"pages with the same churn, plus 16 bytes per slot and 8 per object; `overhead/Linux`\n"
"compares what is over 1 in the two all-in figures.",
	.examples =
"  ebb bench density                            the four sets, lz4, up to 512 MiB each\n"
"  ebb bench density --data /srv --codec lz4,zstd\n"
"  sudo ebb bench density --data libs --size 128M --vs-kernel",
	.run = bench_density,
};
