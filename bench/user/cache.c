// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user cache: a compressed cache, beside what programs use today with as much memory.
 *
 * Threads ask for the keys of a trace, which was made before, and put what they miss.  The first
 * quarter fills the cache and is not counted; then hits, time, CPU time of all threads of the
 * process, and how much it has in memory, as it was found at 64 moments and at the end.  A hit's
 * bytes are held against what was put, for one in 37.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ebb_cache.h"
#include "memory.h"
#include "rivals.h"
#include "team.h"

#define LOOKS 64u               /* at what is in memory, in a run */
#define CHECKED 37u
#define SCAN_EVERY 50000u       /* requests, of which a tenth is a scan */
#define FILL_PART 4u            /* of the requests are not counted */

enum { KEYS, CAPACITY, RESIDENT, RESIDENT_MOST, LOOKUPS, HITS, HIT_PERCENT, REFUSED, OPS, CPU };

static const struct column columns[] = {
	COUNT(KEYS, "keys"), MIB(CAPACITY, "capacity"), MIB(RESIDENT, "resident"),
	MIB(RESIDENT_MOST, "resident_most"), COUNT(LOOKUPS, "lookups"), COUNT(HITS, "hits"),
	REAL(HIT_PERCENT, "hit_percent", 1), COUNT(REFUSED, "refused"),
	SPREAD(OPS, "ops_per_s", 0), SPREAD(CPU, "cpu_ns", 0),
	{ .key = NULL },
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
static void *cache_load(const struct bench_run *r)
{
	const struct bench_opts *o = r->o;
	double exponent, *to;
	enum shape shape = trace_of(r->trace, &exponent);
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

static const char *const variants[] = { "ebb", "ebb-second", "map", "slabs", NULL };

/* ---- a run ---- */

struct cache_run {
	const struct bench_run *r;
	const uint32_t *trace;
	struct rival *table;
	uint64_t first, end;            /* requests of this part; a thread has its share */
	uint64_t hits[THREADS_MAX], refused[THREADS_MAX];
};

static int ask(struct cache_run *run, unsigned int t, struct codec *c, uint64_t i,
	       unsigned char *buf)
{
	const struct bench_opts *o = run->r->o;
	uint64_t key = run->trace[i];
	const unsigned char *data;
	size_t n, got = 0;
	int err = rival_get(run->table, c, key, buf, o->most, &got);

	if (!err) {
		run->hits[t]++;
		if (i % CHECKED)
			return 0;
	} else if (err != -ENOENT) {
		return err;
	}
	data = data_value(run->r->set, key, o->keys + o->requests, o->least, o->most, &n);
	if (!err)
		return got != n || memcmp(buf, data, n) ? -EBADMSG : 0;
	err = rival_put(run->table, c, key, data, n);
	run->refused[t] += err == -ENOMEM;
	return err == -ENOMEM ? 0 : err;
}

static int work(void *arg, unsigned int t)
{
	struct cache_run *run = arg;
	struct codec *c = codec_open(run->r->store.codec);
	unsigned char *buf = xalloc(1, CODEC_MOST);
	int ret = 0;

	for (uint64_t i = run->first + t; !ret && i < run->end && !interrupted();
	     i += run->r->threads)
		ret = ask(run, t, c, i, buf);
	free(buf);
	codec_close(c);
	return ret;
}

/* A part of the requests; the seconds that it took, and *cpu_ns more of CPU time. */
static double part(struct cache_run *run, uint64_t first, uint64_t end, double *cpu_ns)
{
	struct team_times times;

	run->first = first;
	run->end = end;
	times = team_run(run->r->threads, work, run, "a request failed");
	*cpu_ns += (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - times.start_cpu_ns);
	return (double)(times.last_ns - times.first_ns) / 1e9;
}

static void cache_run(const struct bench_run *r, bench_figures v)
{
	struct cache_run run = { .r = r, .trace = r->loaded };
	uint64_t n = r->o->requests, fill = n / FILL_PART, base;
	double seconds = 0, cpu_ns = 0, *f = v[0];

	/* What is there before counts before: the threads' own, too. */
	part(&run, 0, 0, &cpu_ns);
	base = resident_bytes();
	run.table = rival_open(r, r->o->keys, r->o->capacity);
	part(&run, 0, fill, &cpu_ns);
	cpu_ns = 0;
	memset(run.hits, 0, sizeof(run.hits));
	memset(run.refused, 0, sizeof(run.refused));
	f[RESIDENT_MOST] = f[HITS] = f[REFUSED] = 0;
	for (uint64_t k = 0; k < LOOKS; k++) {
		seconds += part(&run, fill + (n - fill) * k / LOOKS,
				fill + (n - fill) * (k + 1) / LOOKS, &cpu_ns);
		f[RESIDENT] = (double)(resident_bytes() - base);
		if (f[RESIDENT] > f[RESIDENT_MOST])
			f[RESIDENT_MOST] = f[RESIDENT];
	}
	for (unsigned int t = 0; t < r->threads; t++) {
		f[HITS] += (double)run.hits[t];
		f[REFUSED] += (double)run.refused[t];
	}
	f[KEYS] = (double)r->o->keys;
	f[CAPACITY] = (double)r->o->capacity;
	f[LOOKUPS] = (double)(n - fill);
	f[HIT_PERCENT] = 100 * f[HITS] / f[LOOKUPS];
	f[OPS] = f[LOOKUPS] / seconds;
	f[CPU] = cpu_ns / f[LOOKUPS];
}

static void cache_check(const struct bench_opts *o)
{
	double exponent;

	if (o->capacity < EBB_CACHE_CAPACITY_MIN)
		usage_fail("--capacity %llu: expected at least %llu",
			   (unsigned long long)o->capacity,
			   (unsigned long long)EBB_CACHE_CAPACITY_MIN);
	for (unsigned int i = 0; i < o->traces.n; i++)
		trace_of(o->traces.v[i], &exponent);
	memory_check(o->capacity * 2 + o->requests * sizeof(uint32_t) + o->keys * sizeof(double),
		     "--capacity", o->capacity);
}

const struct bench cache_bench = {
	BENCH("cache", "a cache of a capacity beside LRU over a map and over slabs",
"Asks for the keys of a trace, puts what is missed, and tells how much hit in as much memory:\n"
"resident is what the process has for it in the end, resident_most the most of 64 looks.  CPU time is\n"
"that of all threads of the process, a request each.  Traces:\n"
"  zipf-A   keys by a Zipf law of exponent A\n"
"  once-A   the same, and half of all requests are of keys that never come again\n"
"  scan-A   the same, and a tenth of all requests are scans of 5000 such keys\n"
"  loop     all keys one after the other, again and again\n"
"Variants, each with values compressed by the same codec:\n"
"  ebb         ebb_cache.h; ebb-second: a key's first miss only notes it\n"
"  map         a hash table of malloc()ed strings and an LRU list, which counts their bytes\n"
"  slabs       strings in chunks of size classes out of slabs, an LRU list a class, as memcached's"),
	.variant_key = "variant", .threads_key = "threads", .data_key = "data", .rows = 1,
	.defaults = {
		.traces = { { "zipf-0.7", "zipf-0.8", "zipf-0.9", "zipf-1.0", "zipf-1.1",
			      "once-0.9", "scan-0.9", "loop" }, 8 },
		.threads = { { 1 }, 1 }, .data = { { "system" }, 1 }, .codecs = { { "lz4" }, 1 },
		.capacity = (uint64_t)16 << 20, .keys = 100000, .requests = 400000,
		.least = 100, .most = 4000, .rounds = 3,
	},
	.variants = variants, .columns = columns,
	.check = cache_check, .load = cache_load, .run = cache_run,
};
