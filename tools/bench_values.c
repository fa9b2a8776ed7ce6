// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb values bench: compressed values, beside the codec alone and what programs use today.
 *
 * Each run is a process of its own, so that no table sees what another left behind:
 *   put all; get all, in another order; delete all but a fifth, chosen at random, and wait
 * for two seconds; then put that fifth into an empty table, to see what it needs.
 * Times are CPU time of the process, whose threads all count: what works for a put or a delete
 * after it has returned does so in the wait that follows, which is part of it.  The codec alone
 * packs the same values, and unpacks them from where they lie one after the other, in that other
 * order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alone.h"
#include "bench.h"
#include "config.h"
#include "ebb_values.h"
#include "memory.h"
#include "values_rivals.h"

#define WAIT_US 2000000         /* after the deletes */
#define LIVE_OF 5               /* one of so many lives */
#define STRIDE 7919u            /* of the order of gets; prime */

struct values_opts {
	struct store_opts store;
	struct bench_opts bench;
	struct word_list variants;
	struct count_list threads;
	const char *data;
	uint64_t values, least, most;
};

/* One run, as its process tells it. */
struct result {
	double put_ns, get_ns, delete_ns;
	uint64_t value_bytes, packed_bytes;
	uint64_t resident, after, fresh;        /* bytes: all; after the deletes; anew */
};

struct values_run {
	const struct values_opts *o;
	const struct page_set *set;
	const struct rival_ops *ops;
	struct rival *table;
	unsigned int threads;
	uint64_t *packed_at;            /* of the codec alone: where value i's bytes are */
	unsigned char *packed;
	uint64_t start_cpu_ns;          /* of the last pass */
};

/* ---- values ---- */

static const unsigned char *value_data(const struct values_run *run, uint64_t i, size_t *n)
{
	const struct values_opts *o = run->o;

	return data_value(run->set, i, o->values, o->least, o->most, n);
}

static bool lives(uint64_t i)
{
	return rng_next(&i) % LIVE_OF == 0;
}

/* ---- ours, as a rival ---- */

struct rival {
	struct ebb_values *values;
	bool keys;
};

static const struct values_opts *ours;

static struct rival *open_ours(uint64_t values, bool keys)
{
	struct rival *r = xalloc(1, sizeof(*r));
	struct ebb_values_config cfg;

	(void)values;
	ebb_values_config_init(&cfg);
	cfg.codec = ours->store.codec;
	cfg.level = ours->store.level;
	cfg.chain_size = (uint32_t)ours->store.chain_size;
	must(ebb_values_open(&r->values, &cfg), "cannot open a table of values");
	r->keys = keys;
	return r;
}

static struct rival *open_ids(uint64_t values, uint64_t limit)
{
	(void)limit;
	return open_ours(values, false);
}

static struct rival *open_keys(uint64_t values, uint64_t limit)
{
	(void)limit;
	return open_ours(values, true);
}

static void close_ours(struct rival *r)
{
	ebb_values_close(r->values);
	free(r);
}

/* What its codec made of all values, or 0: it is no table of ours. */
static uint64_t packed_of(const struct rival_ops *ops, struct rival *r)
{
	struct ebb_values_stat stat = { .struct_size = sizeof(stat) };

	if (ops->open != open_ids && ops->open != open_keys)
		return 0;
	must(ebb_values_stat(r->values, &stat), "cannot ask for the figures of a table");
	return stat.packed_bytes;
}

static int put_ours(struct rival *r, struct codec_alone *c, uint64_t id, const void *data,
		    size_t n)
{
	(void)c;
	return r->keys ? ebb_values_put_key(r->values, &id, sizeof(id), data, n, 0) :
			 ebb_values_put(r->values, id, data, n, 0);
}

static int get_ours(struct rival *r, struct codec_alone *c, uint64_t id, void *buf, size_t cap,
		    size_t *n)
{
	(void)c;
	return r->keys ? ebb_values_get_key(r->values, &id, sizeof(id), buf, cap, n) :
			 ebb_values_get(r->values, id, buf, cap, n);
}

static int delete_ours(struct rival *r, uint64_t id)
{
	return r->keys ? ebb_values_delete_key(r->values, &id, sizeof(id)) :
			 ebb_values_delete(r->values, id);
}

static const struct rival_ops by_id = {
	"ebb", open_ids, close_ours, put_ours, get_ours, delete_ours, NULL,
};
static const struct rival_ops by_key = {
	"ebb-key", open_keys, close_ours, put_ours, get_ours, delete_ours, NULL,
};
static const struct rival_ops codec_only = { .name = "codec" };

static const struct rival_ops *const variants[] = {
	&codec_only, &by_id, &by_key, &rival_map, &rival_map_trim, &rival_slabs,
};
static const char *const variant_words[] = {
	"codec", "ebb", "ebb-key", "map", "map-trim", "slabs", NULL,
};

/* ---- a run ---- */

/* Thread t's values are those between; pass says what is done with each. */
enum pass { PUT, GET, DELETE, PUT_LIVE };

struct share {
	struct values_run *run;
	enum pass pass;
};

static int one(struct values_run *run, struct codec_alone *c, enum pass pass, uint64_t i,
	       unsigned char *buf)
{
	size_t n, got;
	const unsigned char *data;

	if (pass == GET)
		i = i * STRIDE % run->o->values;
	if (pass == DELETE)
		return lives(i) ? 0 : run->ops->del(run->table, i);
	if (pass == PUT_LIVE && !lives(i))
		return 0;
	data = value_data(run, i, &n);
	if (run->ops != &codec_only)
		return pass != GET ? run->ops->put(run->table, c, i, data, n) :
				     run->ops->get(run->table, c, i, buf, run->o->most, &got);
	if (pass == PUT)
		return codec_alone_pack(c, data, n, buf) > n ? -EIO : 0;
	got = run->packed_at[i + 1] - run->packed_at[i];
	if (got == n)
		memcpy(buf, run->packed + run->packed_at[i], n);
	else if (!codec_alone_unpack(c, run->packed + run->packed_at[i], got, buf, n))
		return -EIO;
	return 0;
}

static int work(void *arg, unsigned int t)
{
	struct share *share = arg;
	struct values_run *run = share->run;
	struct codec_alone *c = codec_alone_open(run->o->store.codec, run->o->store.level);
	uint64_t each = run->o->values / run->threads, first = t * each;
	unsigned char *buf = xalloc(1, CODEC_ALONE_MOST);
	int ret = 0;

	for (uint64_t i = first; !ret && i < first + each && !interrupted(); i++)
		ret = one(run, c, share->pass, i, buf);
	free(buf);
	codec_alone_close(c);
	return ret;
}

static void pass(struct values_run *run, enum pass which, const char *what)
{
	static struct team_times times;
	struct share share = { run, which };

	team_run(run->threads, work, &share, &times, what);
	run->start_cpu_ns = times.start_cpu_ns;
}

/* CPU time a value since a pass began. */
static double cpu_each(const struct values_run *run)
{
	uint64_t values = run->o->values / run->threads * run->threads;

	return (double)(process_cpu_ns() - run->start_cpu_ns) / (double)values;
}

/* What is packed for the codec alone, which is also what packed_bytes says. */
static void pack_all(struct values_run *run, struct result *res)
{
	struct codec_alone *c = codec_alone_open(run->o->store.codec, run->o->store.level);
	uint64_t values = run->o->values, at = 0;

	run->packed_at = xmap((values + 1) * sizeof(*run->packed_at));
	run->packed = xmap(values * run->o->most);
	for (uint64_t i = 0; i < values; i++) {
		size_t n, bytes;
		const unsigned char *data = value_data(run, i, &n);

		bytes = codec_alone_pack(c, data, n, run->packed + at);
		if (!bytes || bytes >= n) {
			memcpy(run->packed + at, data, n);
			bytes = n;
		}
		res->value_bytes += n;
		at += bytes;
		run->packed_at[i + 1] = at;
	}
	res->packed_bytes = at;
	codec_alone_close(c);
}

/* A few values in a hundred, held against what was put. */
static void verify(struct values_run *run)
{
	struct codec_alone *c = codec_alone_open(run->o->store.codec, run->o->store.level);
	unsigned char *buf = xalloc(1, CODEC_ALONE_MOST);

	for (uint64_t i = 0; i < run->o->values / run->threads * run->threads; i += 37) {
		size_t n, got = 0;
		const unsigned char *data = value_data(run, i, &n);

		must(run->ops->get(run->table, c, i, buf, run->o->most, &got), "cannot get a value");
		if (got != n || memcmp(buf, data, n))
			fail("value %llu is not what was put", (unsigned long long)i);
	}
	free(buf);
	codec_alone_close(c);
}

static void run_child(void *arg, void *found)
{
	struct values_run *run = arg;
	struct result *res = found;
	uint64_t base;

	if (run->ops == &codec_only) {
		pack_all(run, res);
		pass(run, PUT, "cannot compress");
		res->put_ns = cpu_each(run);
		pass(run, GET, "cannot decompress");
		res->get_ns = cpu_each(run);
		return;
	}
	/* The data counts before, and not while values come. */
	data_touch(run->set);
	base = resident_bytes();
	run->table = run->ops->open(run->o->values, 0);
	pass(run, PUT, "cannot put a value");
	sleep_us(WAIT_US / 4);
	res->put_ns = cpu_each(run);
	res->resident = resident_bytes() - base;
	res->packed_bytes = packed_of(run->ops, run->table);
	pass(run, GET, "cannot get a value");
	res->get_ns = cpu_each(run);
	verify(run);
	pass(run, DELETE, "cannot delete a value");
	if (run->ops->give)
		run->ops->give();
	sleep_us(WAIT_US);
	res->delete_ns = cpu_each(run) * LIVE_OF / (LIVE_OF - 1);
	res->after = resident_bytes() - base;
}

/* What the values need that live, in a table that had no others. */
static void run_fresh(void *arg, void *found)
{
	struct values_run *run = arg;
	struct result *res = found;
	uint64_t base = resident_bytes();

	run->table = run->ops->open(run->o->values / LIVE_OF, 0);
	pass(run, PUT_LIVE, "cannot put a value");
	sleep_us(WAIT_US / 4);
	res->fresh = resident_bytes() - base;
}

/* ---- the table ---- */

static const struct column columns[] = {
	{ "variant", "variant", COL_TEXT, 0 },
	{ "threads", "threads", COL_INT, 0 },
	{ "data", NULL, COL_TEXT, 0 },
	{ "codec", "codec", COL_TEXT, 0 },
	{ "values", "values", COL_INT, 0 },
	{ "least_bytes", "from", COL_INT, 0 },
	{ "most_bytes", "to", COL_INT, 0 },
	{ "rounds", NULL, COL_INT, 0 },
	{ "put_ns", "put ns", COL_SPREAD, 0 },
	{ "get_ns", "get ns", COL_SPREAD, 0 },
	{ "delete_ns", "delete ns", COL_SPREAD, 0 },
	{ "value_bytes", "values MiB", COL_MIB, 0 },
	{ "packed_bytes", "packed MiB", COL_MIB, 0 },
	{ "resident_bytes", "resident MiB", COL_MIB, 0 },
	{ "over_bytes", "over packed, B each", COL_REAL, 1 },
	{ "after_bytes", "a fifth left", COL_MIB, 0 },
	{ "fresh_bytes", "put anew", COL_MIB, 0 },
	{ NULL, NULL, COL_TEXT, 0 },
};

static void spread_of(struct table *t, const char *key, const struct result *res, size_t n,
		      size_t member)
{
	double *x = xalloc(n, sizeof(*x));

	for (size_t i = 0; i < n; i++)
		memcpy(&x[i], (const char *)&res[i] + member, sizeof(x[i]));
	table_spread(t, key, x, n);
	free(x);
}

/* Bytes hardly change from round to round: the last one's. */
static void add_row(struct table *t, const struct values_opts *o, const struct rival_ops *ops,
		    unsigned int threads, const struct result *res, uint64_t packed_bytes)
{
	size_t n = o->bench.rounds;
	const struct result *last = &res[n - 1];

	table_row(t);
	table_text(t, "variant", ops->name);
	table_int(t, "threads", threads);
	table_text(t, "data", o->data);
	table_text(t, "codec", o->store.codec);
	table_int(t, "values", o->values);
	table_int(t, "least_bytes", o->least);
	table_int(t, "most_bytes", o->most);
	table_int(t, "rounds", n);
	spread_of(t, "put_ns", res, n, offsetof(struct result, put_ns));
	spread_of(t, "get_ns", res, n, offsetof(struct result, get_ns));
	if (ops == &codec_only) {
		table_int(t, "value_bytes", last->value_bytes);
		table_int(t, "packed_bytes", last->packed_bytes);
		return;
	}
	spread_of(t, "delete_ns", res, n, offsetof(struct result, delete_ns));
	table_int(t, "resident_bytes", last->resident);
	/* Ours know what they packed; of many values, the codec alone takes as long again. */
	if (!packed_bytes && last->packed_bytes) {
		packed_bytes = last->packed_bytes;
		table_int(t, "packed_bytes", packed_bytes);
	}
	if (packed_bytes)
		table_real(t, "over_bytes", ((double)last->resident - (double)packed_bytes) /
						    (double)o->values);
	table_int(t, "after_bytes", last->after);
	table_int(t, "fresh_bytes", last->fresh);
}

static int values_bench(const struct command *cmd, int argc, char **argv)
{
	struct values_opts o = {
		.store = STORE_OPTS_DEFAULT, .bench = { .rounds = 3 }, .data = "system",
		.variants = { { "codec", "ebb", "ebb-key", "map", "map-trim", "slabs" }, 6 },
		.threads = { { 1, 2 }, 2 },
		.values = 200000, .least = 100, .most = 4000,
	};
	const struct opt opts[] = {
		{ "values", OPT_COUNT, &o.values, 1000, 1000000000, 0, NULL, "N", "how many" },
		{ "from", OPT_COUNT, &o.least, 1, CODEC_ALONE_MOST, 0, NULL, "BYTES",
		  "the shortest value" },
		{ "to", OPT_COUNT, &o.most, 1, CODEC_ALONE_MOST, 0, NULL, "BYTES",
		  "the longest" },
		{ "variant", OPT_WORD_LIST, &o.variants, 0, 0, 0, variant_words, "NAME,...",
		  "codec, ebb, ebb-key, map, map-trim or slabs" },
		OPT_THREADS(o.threads),
		{ "data", OPT_WORD, &o.data, 0, 0, 0, NULL, "SET", DATA_WORDS },
		OPTS_STORE(o.store),
		OPTS_BENCH(o.bench),
		{ .name = NULL },
	};
	struct page_set set;
	struct result *res;
	struct table *t;
	size_t rows;
	int status;

	args_parse_only(cmd, opts, argc, argv);
	bench_start(&o.bench);
	store_opts_check(&o.store);
	memory_check(o.values * ((o.least + o.most) / 2 + 64), "--values %llu",
		     (unsigned long long)o.values);
	data_load_values(&set, o.data, o.least, o.most);
	ours = &o;
	rows = (size_t)o.variants.n * o.threads.n;
	res = xalloc(rows * o.bench.rounds, sizeof(*res));
	for (size_t round = 0; round < o.bench.rounds; round++)
		for (size_t k = 0; k < rows; k++) {
			struct values_run run = {
				.o = &o, .set = &set,
				.ops = rival_find(variants, o.variants.v[k % o.variants.n]),
				.threads = (unsigned int)o.threads.v[k / o.variants.n],
			};
			struct result *r = &res[k * o.bench.rounds + round];

			progress("round %zu of %llu: %s, %u threads", round + 1,
				 (unsigned long long)o.bench.rounds, run.ops->name, run.threads);
			run_alone(run.ops->name, run_child, &run, r, sizeof(*r));
			if (run.ops != &codec_only)
				run_alone(run.ops->name, run_fresh, &run, r, sizeof(*r));
		}
	t = table_new(columns);
	for (size_t k = 0; k < rows; k++) {
		uint64_t packed = 0;

		for (size_t i = 0; i < o.variants.n; i++)
			if (!strcmp(o.variants.v[i], "codec"))
				packed = res[i * o.bench.rounds].packed_bytes;
		add_row(t, &o, rival_find(variants, o.variants.v[k % o.variants.n]),
			(unsigned int)o.threads.v[k / o.variants.n],
			&res[k * o.bench.rounds], packed);
	}
	status = bench_report(&o.bench, t);
	table_free(t);
	free(res);
	data_unload(&set);
	return status;
}

const struct command values_bench_command = {
	.name = "values bench",
	.operands = "",
	.summary = "values of any length beside a map, slabs, and the codec alone",
	.about =
"Puts values, gets them in another order, deletes all but a fifth at random, and tells what memory\n"
"that takes: `resident` with all, `a fifth left` two seconds after the deletes, `put anew` what that\n"
"fifth needs in an empty table.  Times are CPU time of all threads of the process, a value each.\n"
"  codec    packs and unpacks the same values, and keeps them one after the other\n"
"  ebb      ebb_values.h, under ids; ebb-key: under keys of 8 bytes\n"
"  map      a hash table of malloc()ed compressed strings; map-trim: with a malloc_trim() after\n"
"           the deletes, which is part of them\n"
"  slabs    the same in chunks of size classes that grow by a quarter, as memcached's",
	.examples =
"  ebb values bench\n"
"  ebb values bench --values 1000000 --from 100 --to 100 --variant codec,ebb,ebb-key\n"
"  ebb values bench --codec zstd --threads 1",
	.run = values_bench,
};
