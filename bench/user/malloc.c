// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user malloc: the same objects through Ebb and through the allocators that programs use.
 *
 * The objects are pages compressed with lz4.  The same threads live through all phases, since an
 * allocator frees fastest what the same thread took:
 *   fill, free everything, fill again, replace objects at random (all four timed), free each
 *   other object, fill those slots (timed), free everything.
 * Between the phases all threads wait, and thread 0 looks at the memory.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "allocators.h"
#include "codec.h"
#include "team.h"

#define CHURN 10u               /* times that each object is replaced on average */

enum { OBJECTS, PAYLOAD, ALLOC, AGAIN, CHURNED, FREE, FREE_CPU, REPLACE, RSS, RSS_CHURNED, LEFT };

static const struct column columns[] = {
	COUNT(OBJECTS, "objects"), MIB(PAYLOAD, "payload"), SPREAD(ALLOC, "alloc_ns", 0),
	SPREAD(AGAIN, "alloc_again_ns", 0), SPREAD(CHURNED, "alloc_churned_ns", 0),
	SPREAD(FREE, "free_ns", 1), SPREAD(FREE_CPU, "free_cpu_ns", 1),
	SPREAD(REPLACE, "churn_ns", 0), SPREAD(RSS, "rss_per_byte", 3),
	SPREAD(RSS_CHURNED, "rss_per_byte_churned", 3), MIB(LEFT, "left"),
	{ .key = NULL },
};

/* Of one thread, a cache line apart. */
struct share {
	uint64_t payload;
	double ns[LEFT];
} __attribute__((aligned(64)));

struct one {
	const struct packed_set *packed;
	struct objects objects;
	unsigned int threads;
	struct share *share;
	pthread_barrier_t all;
	uint64_t baseline, cpu_ns;
	double *v;
};

/* Puts object i into slot s, which is empty. */
static int put(struct one *o, uint64_t s, uint64_t i)
{
	size_t n;
	const void *data = packed_object(o->packed, i, &n);

	return objects_put(&o->objects, s, data, n);
}

static int put_all(struct one *o, uint64_t first, uint64_t end, unsigned int step)
{
	int ret = 0;

	for (uint64_t s = first; s < end && !ret; s += step)
		ret = put(o, s, s);
	return ret;
}

static int drop_all(struct one *o, uint64_t first, uint64_t end, unsigned int step)
{
	int ret = 0;

	for (uint64_t s = first; s < end; s += step)
		ret |= objects_drop(&o->objects, s);
	return ret;
}

/* Replaces random objects; *payload follows what is there. */
static int replace(struct one *o, unsigned int i, uint64_t first, uint64_t end, uint64_t *payload)
{
	uint64_t state = 77 + i, n = end - first;
	const uint64_t *at = o->packed->at;
	uint32_t *which;
	int ret = 0;

	if (!n)
		return 0;
	which = xmap(n * sizeof(*which));
	for (uint64_t s = 0; s < n; s++)
		which[s] = (uint32_t)(first + s);
	for (uint64_t k = 0; k < n * CHURN && !ret && !interrupted(); k++) {
		uint64_t s = rng_below(&state, n);
		uint64_t object = rng_below(&state, o->packed->count);

		ret = objects_drop(&o->objects, first + s);
		if (!ret)
			ret = put(o, first + s, object);
		*payload += at[object + 1] - at[object] - (at[which[s] + 1] - at[which[s]]);
		which[s] = (uint32_t)object;
	}
	xunmap(which, n * sizeof(*which));
	return ret;
}

/* What the index of the objects takes is left out: the array of pointers, the slot table. */
static double growth(const struct one *o)
{
	uint64_t now = resident_bytes(), base = o->baseline;

	if (o->objects.store)
		base += o->packed->count * sizeof(void *);
	return now > base ? (double)(now - base) : 0;
}

static void look_at_full(struct one *o)
{
	o->v[PAYLOAD] = (double)o->packed->at[o->packed->count];
	o->v[RSS] = growth(o) / o->v[PAYLOAD];
	o->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* What was freed is there to be taken again, in an allocator that frees later, too. */
static void look_at_half(struct one *o)
{
	if (o->objects.store)
		must(ebb_flush(o->objects.store), "cannot flush");
}

static void look_at_freed(struct one *o)
{
	look_at_half(o);
	o->v[FREE_CPU] = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - o->cpu_ns) /
			 (double)o->packed->count;
}

static void look_at_churned(struct one *o)
{
	uint64_t payload = 0;

	for (unsigned int i = 0; i < o->threads; i++)
		payload += o->share[i].payload;
	if (o->objects.store) {
		must(ebb_compact(o->objects.store, NULL), "cannot compact");
		must(ebb_trim(o->objects.store, NULL), "cannot trim");
	}
	o->v[RSS_CHURNED] = growth(o) / (double)payload;
}

/* All threads wait, thread 0 looks, all threads go on. */
static void meet(struct one *o, unsigned int i, void (*look)(struct one *o))
{
	pthread_barrier_wait(&o->all);
	if (!i)
		look(o);
	pthread_barrier_wait(&o->all);
}

static int work(void *arg, unsigned int i)
{
	struct one *o = arg;
	uint64_t first = o->packed->count * i / o->threads, start;
	uint64_t end = o->packed->count * (i + 1) / o->threads;
	struct share *mine = &o->share[i];
	double n = end > first ? (double)(end - first) : 1;
	int ret = 0;

#define TIMED(figure, times, call) do { \
	start = now_ns(); \
	ret |= (call); \
	mine->ns[figure] = (double)(now_ns() - start) / n / (times); \
} while (0)
	TIMED(ALLOC, 1, put_all(o, first, end, 1));
	meet(o, i, look_at_full);
	TIMED(FREE, 1, drop_all(o, first, end, 1));
	meet(o, i, look_at_freed);
	TIMED(AGAIN, 1, put_all(o, first, end, 1));
	mine->payload = o->packed->at[end] - o->packed->at[first];
	TIMED(REPLACE, CHURN, replace(o, i, first, end, &mine->payload));
	meet(o, i, look_at_churned);
	ret |= drop_all(o, first, end, 2);
	meet(o, i, look_at_half);
	TIMED(CHURNED, 0.5, put_all(o, first, end, 2));
#undef TIMED
	ret |= drop_all(o, first, end, 1);
	return ret ? -ENOMEM : 0;
}

static void malloc_run(const struct bench_run *r, bench_figures v)
{
	static const int timed[] = { ALLOC, FREE, AGAIN, REPLACE, CHURNED };
	struct one o = { .packed = r->loaded, .threads = r->threads, .v = v[0] };

	o.share = xmap(o.threads * sizeof(*o.share));
	memset(o.share, 0, o.threads * sizeof(*o.share));
	objects_open(&o.objects, allocator_find(r->variant), o.packed->count);
	if (pthread_barrier_init(&o.all, NULL, o.threads))
		fail("cannot make a barrier");
	o.baseline = resident_bytes();
	objects_open_store(&o.objects);
	team_run(o.threads, work, &o, "cannot store an object");
	v[0][OBJECTS] = (double)o.packed->count;
	for (size_t k = 0; k < ARRAY_LEN(timed); k++) {
		v[0][timed[k]] = 0;
		for (unsigned int i = 0; i < o.threads; i++)
			v[0][timed[k]] += o.share[i].ns[timed[k]] / o.threads;
	}
	/* A rest, in which an allocator or a worker may give memory back by itself. */
	sleep_us(1000000);
	stop_if_interrupted();
	v[0][LEFT] = growth(&o);
	objects_close(&o.objects);
}

static const char *const variants[] = {
	"ebb", "ebb-sync", "mimalloc", "jemalloc", "tcmalloc", "glibc", NULL,
};

const struct bench malloc_bench = {
	BENCH("malloc", "the same objects through mimalloc, jemalloc, tcmalloc and glibc",
"Pages compressed with lz4 are kept as objects: by ebb_put() and ebb_free() (`ebb`, deferred,\n"
"and `ebb-sync`), and by malloc() and free() of each allocator that is installed.  The threads\n"
"share the objects evenly.  Times are ns per object: alloc takes and fills each in memory\n"
"that is fresh, alloc_again in what was just freed as a whole, alloc_churned after objects were replaced\n"
"at random and each other one was freed; churn frees one and takes another; free_cpu\n"
"counts all threads until the memory is back.  rss_per_byte is memory per payload byte when\n"
"all objects are there, rss_per_byte_churned after each was replaced about ten times by random others\n"
"(Ebb: and compacted); left is what stays resident a second after everything was freed.  The\n"
"array of pointers, which Ebb's slot table stands for, is counted for none: 8 bytes per object."),
	.threads_key = "threads", .data_key = "data", .rows = 1,
	.defaults = {
		.threads = { { 1, 2 }, 2 }, .data = { { "system" }, 1 }, .size = 512 << 20,
		.rounds = 3,
	},
	.variants = variants, .variant_key = "allocator", .columns = columns, .copies = 4,
	.preloads = true, .load = packed_load, .run = malloc_run,
};
