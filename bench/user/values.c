// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user values: compressed values, beside the codec alone and what programs use today.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "rivals.h"
#include "team.h"

#define WAIT_US 2000000u        /* after the deletes */
#define LIVE_OF 5u              /* one of so many lives */
#define STRIDE 7919u            /* of the order of gets; prime */

enum { VALUES, PUT, GET, DELETE, BYTES, PACKED, RESIDENT, OVER, AFTER, FRESH };

static const struct column columns[] = {
	COUNT(VALUES, "values"), SPREAD(PUT, "put_ns", 0), SPREAD(GET, "get_ns", 0),
	SPREAD(DELETE, "delete_ns", 0),
	MIB(BYTES, "value"), MIB(PACKED, "packed"), MIB(RESIDENT, "resident"),
	REAL(OVER, "over_bytes", 1), MIB(AFTER, "after"), MIB(FRESH, "fresh"),
	{ .key = NULL },
};

struct values_run {
	const struct bench_run *r;
	const struct packed_set *packed;
	struct rival *table;            /* NULL: the codec alone */
	int pass;
	bool live;                      /* puts only those that live */
	uint64_t start_cpu_ns;          /* of the last pass */
};

static const unsigned char *value_data(const struct bench_run *r, uint64_t i, size_t *n)
{
	return data_value(r->set, i, r->o->values, r->o->least, r->o->most, n);
}

static bool lives(uint64_t i)
{
	return rng_next(&i) % LIVE_OF == 0;
}

static const char *const variants[] = {
	"codec", "ebb", "ebb-key", "map", "map-trim", "slabs", NULL,
};

static int codec_only(struct values_run *run, struct codec *c, uint64_t i, unsigned char *buf)
{
	size_t n, bytes;
	const unsigned char *data = value_data(run->r, i, &n);
	const unsigned char *packed = packed_object(run->packed, i, &bytes);

	if (run->pass == PUT)
		codec_compress(c, data, n, buf);
	else if (!codec_unpack(c, packed, bytes, buf, n))
		return -EIO;
	return 0;
}

static int one(struct values_run *run, struct codec *c, uint64_t i, unsigned char *buf)
{
	const unsigned char *data;
	size_t n, got;
	int ret;

	if (run->pass == GET)
		i = i * STRIDE % run->r->o->values;
	if (!run->table)
		return codec_only(run, c, i, buf);
	if (run->pass == DELETE)
		return lives(i) ? 0 : rival_delete(run->table, i);
	if (run->live && !lives(i))
		return 0;
	data = value_data(run->r, i, &n);
	if (run->pass == PUT)
		return rival_put(run->table, c, i, data, n);
	ret = rival_get(run->table, c, i, buf, run->r->o->most, &got);
	/* A few in a hundred are held against what was put. */
	if (!ret && i % 37 == 0 && (got != n || memcmp(buf, data, n)))
		fail("value %llu is not what was put", (unsigned long long)i);
	return ret;
}

static int work(void *arg, unsigned int t)
{
	struct values_run *run = arg;
	struct codec *c = codec_open(run->r->store.codec);
	uint64_t each = run->r->o->values / run->r->threads, first = t * each;
	unsigned char *buf = xalloc(1, CODEC_MOST);
	int ret = 0;

	for (uint64_t i = first; !ret && i < first + each && !interrupted(); i++)
		ret = one(run, c, i, buf);
	free(buf);
	codec_close(c);
	return ret;
}

static void pass(struct values_run *run, int which, const char *what)
{
	run->pass = which;
	run->start_cpu_ns = team_run(run->r->threads, work, run, what).start_cpu_ns;
}

/* CPU time a value since a pass began. */
static double cpu_each(const struct values_run *run)
{
	uint64_t values = run->r->o->values / run->r->threads * run->r->threads;

	return (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - run->start_cpu_ns) / (double)values;
}

/* What the values need that live, in a table that had no others. */
static void run_fresh(void *arg, void *found)
{
	struct values_run *run = arg;
	uint64_t base = resident_bytes();

	run->table = rival_open(run->r, run->r->o->values / LIVE_OF, 0);
	run->live = true;
	pass(run, PUT, "cannot put a value");
	sleep_us(WAIT_US / 4);
	*(double *)found = (double)(resident_bytes() - base);
}

static void values_run(const struct bench_run *r, bench_figures v)
{
	struct values_run run = { .r = r, .packed = r->loaded };
	double *f = v[0];
	uint64_t base;

	f[VALUES] = (double)r->o->values;
	f[BYTES] = (double)run.packed->plain;
	f[PACKED] = (double)run.packed->at[r->o->values];
	if (!strcmp(r->variant, "codec")) {
		pass(&run, PUT, "cannot compress");
		f[PUT] = cpu_each(&run);
		pass(&run, GET, "cannot decompress");
		f[GET] = cpu_each(&run);
		return;
	}
	bench_apart(run_fresh, &run, &f[FRESH], sizeof(f[FRESH]));
	base = resident_bytes();
	run.table = rival_open(r, r->o->values, 0);
	pass(&run, PUT, "cannot put a value");
	sleep_us(WAIT_US / 4);
	f[PUT] = cpu_each(&run);
	f[RESIDENT] = (double)(resident_bytes() - base);
	if (rival_packed(run.table))
		f[PACKED] = (double)rival_packed(run.table);
	f[OVER] = (f[RESIDENT] - f[PACKED]) / f[VALUES];
	pass(&run, GET, "cannot get a value");
	f[GET] = cpu_each(&run);
	pass(&run, DELETE, "cannot delete a value");
	rival_trim(run.table);
	sleep_us(WAIT_US);
	f[DELETE] = cpu_each(&run) * LIVE_OF / (LIVE_OF - 1);
	f[AFTER] = (double)(resident_bytes() - base);
}

static const void *value_of(const void *arg, size_t i, size_t *n)
{
	return value_data(arg, i, n);
}

static void *values_load(const struct bench_run *r)
{
	return packed_make(r->store.codec, r->o->values, r->o->most, value_of, r);
}

static void values_check(const struct bench_opts *o)
{
	memory_check(o->values * ((o->least + o->most) + 64), "--values", o->values);
}

const struct bench values_bench = {
	BENCH("values", "values of any length beside a map, slabs, and the codec alone",
"Puts values, gets them in another order, deletes all but a fifth at random, and tells what memory\n"
"that takes: resident with all, after two seconds after the deletes, fresh what that fifth needs in\n"
"an empty table.  Times are CPU time of all threads of the process, a value each: what works for a\n"
"put or a delete after it has returned does so in a wait that follows, which is part of it.\n"
"  codec    packs and unpacks the same values, and keeps them one after the other\n"
"  ebb      ebb_values.h, under ids; ebb-key: under keys of 8 bytes\n"
"  map      a hash table of malloc()ed compressed strings; map-trim: with a malloc_trim() after\n"
"           the deletes, which is part of them\n"
"  slabs    the same in chunks of size classes that grow by a quarter, as memcached's"),
	.variant_key = "variant", .threads_key = "threads", .data_key = "data", .rows = 1,
	.defaults = {
		.threads = { { 1, 2 }, 2 }, .data = { { "system" }, 1 }, .codecs = { { "lz4" }, 1 },
		.values = 200000, .least = 100, .most = 4000, .rounds = 3,
	},
	.variants = variants, .columns = columns,
	.check = values_check, .load = values_load, .run = values_run,
};
