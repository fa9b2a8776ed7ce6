// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb cache bench: a compressed cache, beside what programs use today with as much memory.
 *
 * Each run is a process of its own.  Threads ask for the keys of a trace, which was made before,
 * and put what they miss.  The first quarter fills the cache and is not counted; then hits, time,
 * CPU time of all threads of the process, and how much it has in memory, as it was found at 64
 * moments and at the end.  A hit's bytes are held against what was put, for one in 37.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alone.h"
#include "bench.h"
#include "config.h"
#include "ebb_cache.h"
#include "memory.h"
#include "values_rivals.h"

#define LOOKS 64u               /* at what is in memory, in a run */
#define CHECKED 37u
#define SCAN_EVERY 50000u       /* requests, of which a tenth is a scan */
#define FILL_PART 4u            /* of the requests are not counted */

struct cache_opts {
	struct store_opts store;
	struct bench_opts bench;
	struct word_list variants, traces;
	struct count_list threads;
	const char *data;
	uint64_t capacity, keys, requests, least, most;
};

/* One run, as its process tells it. */
struct result {
	double ops;                     /* a second */
	double cpu_ns;                  /* a request */
	uint64_t lookups, hits, refused;
	uint64_t resident, most_resident;
};

struct cache_run {
	const struct cache_opts *o;
	const struct page_set *set;
	const struct rival_ops *ops;
	const uint32_t *trace;
	struct rival *table;
	unsigned int threads;
	uint64_t base, hits[THREADS_MAX], refused[THREADS_MAX], most_resident;
};

/* ---- traces ---- */

enum shape { ZIPF, ONCE, SCAN, LOOP };

static const char *const shapes[] = { "zipf-", "once-", "scan-", "loop" };

/* What a word says; *exponent is of Zipf's law. */
static enum shape trace_of(const char *word, double *exponent)
{
	unsigned int i;
	char *end;

	*exponent = 0;
	if (!strcmp(word, shapes[LOOP]))
		return LOOP;
	for (i = 0; i < LOOP; i++) {
		size_t n = strlen(shapes[i]);

		if (strncmp(word, shapes[i], n) || word[n] < '0' || word[n] > '9')
			continue;
		*exponent = strtod(word + n, &end);
		if (!*end && *exponent >= 0.1 && *exponent <= 3)
			return (enum shape)i;
	}
	usage_fail("--trace %s: expected zipf-A, once-A, scan-A with A from 0.1 to 3, or loop", word);
}

/* The sum of the weights of the first keys, for each. */
static double *weigh(uint64_t keys, double exponent)
{
	double *to = xalloc(keys, sizeof(*to)), sum = 0;

	for (uint64_t i = 0; i < keys; i++) {
		sum += pow((double)i + 1, -exponent);
		to[i] = sum;
	}
	return to;
}

static uint32_t draw(const double *to, uint64_t keys, uint64_t *seed)
{
	double at = (double)(rng_next(seed) >> 11) / (double)((uint64_t)1 << 53) * to[keys - 1];
	uint64_t low = 0, high = keys - 1;

	while (low < high) {
		uint64_t mid = (low + high) / 2;

		if (to[mid] < at)
			low = mid + 1;
		else
			high = mid;
	}
	return (uint32_t)low;
}

/* A key for each request; those from o->keys on come once. */
static uint32_t *make_trace(const struct cache_opts *o, const char *word)
{
	double exponent, *to;
	enum shape shape = trace_of(word, &exponent);
	uint32_t *trace = xmap(o->requests * sizeof(*trace));
	uint64_t seed = 1;

	to = weigh(o->keys, exponent);
	for (uint64_t i = 0; i < o->requests; i++) {
		bool once = (shape == ONCE && rng_next(&seed) & 1) ||
			    (shape == SCAN && i % SCAN_EVERY < SCAN_EVERY / 10);

		trace[i] = once ? (uint32_t)(o->keys + i) :
			   shape == LOOP ? (uint32_t)(i % o->keys) : draw(to, o->keys, &seed);
	}
	free(to);
	return trace;
}

/* ---- ours, as a rival ---- */

struct rival {
	struct ebb_cache *cache;
};

static const struct cache_opts *ours;

static struct rival *open_ours(uint64_t limit, uint32_t flags)
{
	struct rival *r = xalloc(1, sizeof(*r));
	struct ebb_cache_config cfg;

	ebb_cache_config_init(&cfg);
	cfg.capacity = limit;
	cfg.codec = ours->store.codec;
	cfg.level = ours->store.level;
	cfg.flags = flags;
	must(ebb_cache_open(&r->cache, &cfg), "cannot open a cache");
	return r;
}

static struct rival *open_first(uint64_t values, uint64_t limit)
{
	(void)values;
	return open_ours(limit, 0);
}

static struct rival *open_second(uint64_t values, uint64_t limit)
{
	(void)values;
	return open_ours(limit, EBB_CACHE_SECOND_MISS);
}

static void close_ours(struct rival *r)
{
	ebb_cache_close(r->cache);
	free(r);
}

static int put_ours(struct rival *r, struct codec_alone *c, uint64_t id, const void *data,
		    size_t n)
{
	int err = ebb_cache_put(r->cache, &id, sizeof(id), data, n, n, 0);

	(void)c;
	return err == -EAGAIN ? 0 : err;
}

static int get_ours(struct rival *r, struct codec_alone *c, uint64_t id, void *buf, size_t cap,
		    size_t *n)
{
	(void)c;
	return ebb_cache_get(r->cache, &id, sizeof(id), buf, cap, n);
}

static int delete_ours(struct rival *r, uint64_t id)
{
	return ebb_cache_delete(r->cache, &id, sizeof(id));
}

static const struct rival_ops on_first = {
	"ebb", open_first, close_ours, put_ours, get_ours, delete_ours, NULL,
};
static const struct rival_ops on_second = {
	"ebb-second", open_second, close_ours, put_ours, get_ours, delete_ours, NULL,
};

static const struct rival_ops *const variants[] = {
	&on_first, &on_second, &rival_map, &rival_slabs,
};
static const char *const variant_words[] = { "ebb", "ebb-second", "map", "slabs", NULL };

/* ---- a run ---- */

static const unsigned char *value_data(const struct cache_run *run, uint64_t key, size_t *n)
{
	const struct cache_opts *o = run->o;

	return data_value(run->set, key, o->keys + o->requests, o->least, o->most, n);
}

static void look(struct cache_run *run)
{
	uint64_t now = resident_bytes() - run->base;

	if (now > run->most_resident)
		run->most_resident = now;
}

/* Requests first .. end - 1, of which thread t has its share. */
struct share {
	struct cache_run *run;
	uint64_t first, end;
};

static int ask(struct cache_run *run, unsigned int t, struct codec_alone *c, uint64_t i,
	       unsigned char *buf)
{
	uint64_t key = run->trace[i];
	const unsigned char *data;
	size_t n, got = 0;
	int err = run->ops->get(run->table, c, key, buf, run->o->most, &got);

	if (!err) {
		run->hits[t]++;
		if (i % CHECKED)
			return 0;
		data = value_data(run, key, &n);
		return got != n || memcmp(buf, data, n) ? -EBADMSG : 0;
	}
	if (err != -ENOENT)
		return err;
	data = value_data(run, key, &n);
	err = run->ops->put(run->table, c, key, data, n);
	run->refused[t] += err == -ENOMEM;
	return err == -ENOMEM ? 0 : err;
}

static int work(void *arg, unsigned int t)
{
	struct share *share = arg;
	struct cache_run *run = share->run;
	struct codec_alone *c = codec_alone_open(run->o->store.codec, run->o->store.level);
	unsigned char *buf = xalloc(1, CODEC_ALONE_MOST);
	int ret = 0;

	for (uint64_t i = share->first + t; !ret && i < share->end && !interrupted();
	     i += run->threads)
		ret = ask(run, t, c, i, buf);
	free(buf);
	codec_alone_close(c);
	return ret;
}

/* A part of the requests; the seconds that it took, and *cpu_ns more of CPU time. */
static double part(struct cache_run *run, uint64_t first, uint64_t end, double *cpu_ns)
{
	static struct team_times times;
	struct share share = { run, first, end };

	team_run(run->threads, work, &share, &times, "a request failed");
	*cpu_ns += (double)(process_cpu_ns() - times.start_cpu_ns);
	return (double)(times.last_ns - times.first_ns) / 1e9;
}

static void run_cache(void *arg, void *found)
{
	struct cache_run *run = arg;
	struct result *res = found;
	uint64_t n = run->o->requests, fill = n / FILL_PART, k;
	volatile unsigned char sum = 0;
	double seconds = 0, cpu_ns = 0;

	/* What is there before counts before: the threads' own, too. */
	data_touch(run->set);
	for (uint64_t i = 0; i < n; i++)
		sum ^= (unsigned char)run->trace[i];
	part(run, 0, 0, &cpu_ns);
	run->base = resident_bytes();
	run->table = run->ops->open(run->o->keys, run->o->capacity);
	part(run, 0, fill, &cpu_ns);
	cpu_ns = 0;
	memset(run->hits, 0, sizeof(run->hits));
	memset(run->refused, 0, sizeof(run->refused));
	for (k = 0; k < LOOKS; k++) {
		seconds += part(run, fill + (n - fill) * k / LOOKS,
				fill + (n - fill) * (k + 1) / LOOKS, &cpu_ns);
		look(run);
	}
	res->lookups = n - fill;
	res->ops = (double)res->lookups / seconds;
	res->cpu_ns = cpu_ns / (double)res->lookups;
	for (unsigned int t = 0; t < run->threads; t++) {
		res->hits += run->hits[t];
		res->refused += run->refused[t];
	}
	res->resident = resident_bytes() - run->base;
	res->most_resident = run->most_resident;
	run->ops->close(run->table);
}

/* ---- the table ---- */

static const struct column columns[] = {
	{ "variant", "variant", COL_TEXT, 0 },
	{ "benchmark", "trace", COL_TEXT, 0 },
	{ "threads", "threads", COL_INT, 0 },
	{ "data", NULL, COL_TEXT, 0 },
	{ "codec", "codec", COL_TEXT, 0 },
	{ "least_bytes", NULL, COL_INT, 0 },
	{ "most_bytes", NULL, COL_INT, 0 },
	{ "keys", NULL, COL_INT, 0 },
	{ "rounds", NULL, COL_INT, 0 },
	{ "capacity_bytes", "capacity MiB", COL_MIB, 0 },
	{ "resident_bytes", "resident MiB", COL_MIB, 0 },
	{ "resident_most_bytes", "at most", COL_MIB, 0 },
	{ "lookups", "lookups", COL_INT, 0 },
	{ "hits", "hits", COL_INT, 0 },
	{ "hit_percent", "hits %", COL_REAL, 1 },
	{ "refused", NULL, COL_INT, 0 },
	{ "ops_per_s", "ops/s", COL_SPREAD, 0 },
	{ "cpu_ns", "CPU ns each", COL_SPREAD, 0 },
	{ NULL, NULL, COL_TEXT, 0 },
};

/* Counts are the last round's: of one thread they are the same in each. */
static void add_row(struct table *t, const struct cache_run *run, const char *trace,
		    const struct result *res)
{
	const struct cache_opts *o = run->o;
	size_t n = o->bench.rounds;
	const struct result *last = &res[n - 1];
	double *ops = xalloc(n, sizeof(*ops)), *cpu = xalloc(n, sizeof(*cpu));

	table_row(t);
	table_text(t, "variant", run->ops->name);
	table_text(t, "benchmark", trace);
	table_int(t, "threads", run->threads);
	table_text(t, "data", o->data);
	table_text(t, "codec", o->store.codec);
	table_int(t, "least_bytes", o->least);
	table_int(t, "most_bytes", o->most);
	table_int(t, "keys", o->keys);
	table_int(t, "rounds", n);
	table_int(t, "capacity_bytes", o->capacity);
	table_int(t, "resident_bytes", last->resident);
	table_int(t, "resident_most_bytes", last->most_resident);
	table_int(t, "lookups", last->lookups);
	table_int(t, "hits", last->hits);
	table_real(t, "hit_percent", 100.0 * (double)last->hits / (double)last->lookups);
	table_int(t, "refused", last->refused);
	for (size_t i = 0; i < n; i++) {
		ops[i] = res[i].ops;
		cpu[i] = res[i].cpu_ns;
	}
	table_spread(t, "ops_per_s", ops, n);
	table_spread(t, "cpu_ns", cpu, n);
	free(ops);
	free(cpu);
}

static void check_opts(const struct cache_opts *o)
{
	double exponent;

	store_opts_check(&o->store);
	if (o->capacity < EBB_CACHE_CAPACITY_MIN)
		usage_fail("--capacity %llu: expected at least %llu",
			   (unsigned long long)o->capacity,
			   (unsigned long long)EBB_CACHE_CAPACITY_MIN);
	for (unsigned int i = 0; i < o->traces.n; i++)
		trace_of(o->traces.v[i], &exponent);
	memory_check(o->capacity * 2 + o->requests * sizeof(uint32_t) + o->keys * sizeof(double),
		     "--capacity %llu", (unsigned long long)o->capacity);
}

/* All variants and numbers of threads on one trace. */
static void run_trace(const struct cache_opts *o, const struct page_set *set, const char *word,
		      struct table *t)
{
	size_t rows = (size_t)o->variants.n * o->threads.n, rounds = o->bench.rounds;
	struct cache_run *runs = xalloc(rows, sizeof(*runs));
	struct result *res = xalloc(rows * rounds, sizeof(*res));
	uint32_t *trace = make_trace(o, word);

	for (size_t k = 0; k < rows; k++)
		runs[k] = (struct cache_run){
			.o = o, .set = set, .trace = trace,
			.ops = rival_find(variants, o->variants.v[k % o->variants.n]),
			.threads = (unsigned int)o->threads.v[k / o->variants.n],
		};
	for (size_t round = 0; round < rounds; round++)
		for (size_t k = 0; k < rows; k++) {
			struct result *r = &res[k * rounds + round];

			progress("%s, round %zu of %zu: %s, %u threads", word, round + 1, rounds,
				 runs[k].ops->name, runs[k].threads);
			run_alone(runs[k].ops->name, run_cache, &runs[k], r, sizeof(*r));
		}
	for (size_t k = 0; k < rows; k++)
		add_row(t, &runs[k], word, &res[k * rounds]);
	xunmap(trace, o->requests * sizeof(*trace));
	free(runs);
	free(res);
}

static int cache_bench(const struct command *cmd, int argc, char **argv)
{
	struct cache_opts o = {
		.store = STORE_OPTS_DEFAULT, .bench = { .rounds = 3 }, .data = "system",
		.variants = { { "ebb", "ebb-second", "map", "slabs" }, 4 },
		.traces = { { "zipf-0.7", "zipf-0.8", "zipf-0.9", "zipf-1.0", "zipf-1.1", "once-0.9",
			      "scan-0.9", "loop" }, 8 },
		.threads = { { 1 }, 1 },
		.capacity = (uint64_t)16 << 20, .keys = 100000, .requests = 400000,
		.least = 100, .most = 4000,
	};
	const struct opt opts[] = {
		{ "capacity", OPT_SIZE, &o.capacity, 1, UINT64_MAX >> 2, 0, NULL, "SIZE",
		  "memory that each may take" },
		{ "keys", OPT_COUNT, &o.keys, 1000, 100000000, 0, NULL, "N",
		  "keys that come again" },
		{ "requests", OPT_COUNT, &o.requests, 1000, 1000000000, 0, NULL, "N",
		  "lookups, of which the first quarter is not counted" },
		{ "trace", OPT_WORD_LIST, &o.traces, 0, 0, 0, NULL, "NAME,...",
		  "zipf-A, once-A, scan-A, loop" },
		{ "from", OPT_COUNT, &o.least, 1, CODEC_ALONE_MOST, 0, NULL, "BYTES",
		  "the shortest value" },
		{ "to", OPT_COUNT, &o.most, 1, CODEC_ALONE_MOST, 0, NULL, "BYTES",
		  "the longest" },
		{ "variant", OPT_WORD_LIST, &o.variants, 0, 0, 0, variant_words, "NAME,...",
		  "ebb, ebb-second, map or slabs" },
		OPT_THREADS(o.threads),
		{ "data", OPT_WORD, &o.data, 0, 0, 0, NULL, "SET", DATA_WORDS },
		OPTS_STORE(o.store),
		OPTS_BENCH(o.bench),
		{ .name = NULL },
	};
	struct page_set set;
	struct table *t;
	int status;

	args_parse_only(cmd, opts, argc, argv);
	bench_start(&o.bench);
	check_opts(&o);
	data_load_values(&set, o.data, o.least, o.most);
	ours = &o;
	t = table_new(columns);
	for (unsigned int i = 0; i < o.traces.n; i++)
		run_trace(&o, &set, o.traces.v[i], t);
	status = bench_report(&o.bench, t);
	table_free(t);
	data_unload(&set);
	return status;
}

const struct command cache_bench_command = {
	.name = "cache bench",
	.operands = "",
	.summary = "a cache of a capacity beside LRU over a map and over slabs",
	.about =
"Asks for the keys of a trace, puts what is missed, and tells how much hit in as much memory:\n"
"`resident` is what the process has for it in the end, `at most` the most of 64 looks.  CPU time is\n"
"that of all threads of the process, a request each.  Traces:\n"
"  zipf-A   keys by a Zipf law of exponent A\n"
"  once-A   the same, and half of all requests are of keys that never come again\n"
"  scan-A   the same, and a tenth of all requests are scans of 5000 such keys\n"
"  loop     all keys one after the other, again and again\n"
"Variants, each with values compressed by the same codec:\n"
"  ebb         ebb_cache.h; ebb-second: a key's first miss only notes it\n"
"  map         a hash table of malloc()ed strings and an LRU list, which counts their bytes\n"
"  slabs       strings in chunks of size classes out of slabs, an LRU list a class, as memcached's",
	.examples =
"  ebb cache bench\n"
"  ebb cache bench --trace zipf-0.9,loop --threads 1 --rounds 1\n"
"  ebb cache bench --capacity 256M --keys 1000000 --requests 4000000 --codec zstd",
	.run = cache_bench,
};
