// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One run of one allocator for `ebb bench malloc`, in a process of its own.
 *
 * The same threads live through all phases, since an allocator frees fastest what the same
 * thread took:
 *   fill, free everything, fill again, replace objects at random (all four timed), free each
 *   other object, fill those slots (timed), free everything.
 * Between the phases all threads wait, and thread 0 looks at the memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocators.h"
#include "alone.h"
#include "bench.h"
#include "bench_malloc.h"
#include "ebb.h"

struct one {
	const struct allocator *a;
	const struct object_file *file;
	const uint64_t *at;
	const unsigned char *bytes;
	unsigned int threads, churn;
	struct ebb_store *store;
	void **held;             /* malloc's: object in slot i */
	uint64_t *payload;       /* of each thread, a cache line apart */
	pthread_barrier_t all;
	uint64_t baseline, cpu_ns;
	double alloc_ns[THREADS_MAX], alloc_again_ns[THREADS_MAX], alloc_churned_ns[THREADS_MAX];
	double free_ns[THREADS_MAX], churn_ns[THREADS_MAX];
	struct malloc_result result;
};

#define PAYLOAD_STRIDE 8

static uint64_t object_bytes(const struct one *o, uint64_t i)
{
	return o->at[i + 1] - o->at[i];
}

/* Puts object i of the file into slot s, which is empty. */
static int put(struct one *o, uint64_t s, uint64_t i)
{
	uint64_t n = object_bytes(o, i);

	if (o->a->store)
		return ebb_put(o->store, s, o->bytes + o->at[i], n);
	o->held[s] = malloc(n);
	if (!o->held[s])
		return -ENOMEM;
	memcpy(o->held[s], o->bytes + o->at[i], n);
	return 0;
}

static int drop(struct one *o, uint64_t s)
{
	if (o->a->store)
		return ebb_free(o->store, s, 1);
	free(o->held[s]);
	return 0;
}

static int put_all(struct one *o, uint64_t first, uint64_t end)
{
	int ret = 0;

	for (uint64_t s = first; s < end && !ret; s++)
		ret = put(o, s, s);
	return ret;
}

/* Each other slot. */
static int put_half(struct one *o, uint64_t first, uint64_t end)
{
	int ret = 0;

	for (uint64_t s = first; s < end && !ret; s += 2)
		ret = put(o, s, s);
	return ret;
}

static int drop_half(struct one *o, uint64_t first, uint64_t end)
{
	int ret = 0;

	for (uint64_t s = first; s < end; s += 2)
		ret |= drop(o, s);
	return ret;
}

static int drop_all(struct one *o, uint64_t first, uint64_t end)
{
	int ret = 0;

	for (uint64_t s = first; s < end; s++)
		ret |= drop(o, s);
	return ret;
}

/* Replaces random objects; *payload follows what is there. */
static int replace(struct one *o, unsigned int i, uint64_t first, uint64_t end,
		   uint64_t *payload)
{
	uint64_t state = 77 + i;
	uint32_t *which;
	int ret = 0;

	if (first == end)
		return 0;
	which = xmap((end - first) * sizeof(*which));
	for (uint64_t s = first; s < end; s++)
		which[s - first] = (uint32_t)s;
	for (uint64_t k = 0; k < (end - first) * o->churn && !ret && !interrupted(); k++) {
		uint64_t s = first + rng_below(&state, end - first);
		uint64_t object = rng_below(&state, o->file->count);

		ret = drop(o, s);
		if (!ret)
			ret = put(o, s, object);
		*payload += object_bytes(o, object) - object_bytes(o, which[s - first]);
		which[s - first] = (uint32_t)object;
	}
	xunmap(which, (end - first) * sizeof(*which));
	return ret;
}

/* What the index of the objects takes is left out: the array of pointers, the slot table. */
static double growth(const struct one *o)
{
	uint64_t now = resident_bytes(), base = o->baseline;

	if (o->a->store)
		base += o->file->count * sizeof(void *);
	return now > base ? (double)(now - base) : 0;
}

static void look_at_full(struct one *o)
{
	o->result.payload_bytes = (double)o->at[o->file->count];
	o->result.rss_per_byte = growth(o) / o->result.payload_bytes;
	o->cpu_ns = process_cpu_ns();
}

static void look_at_freed(struct one *o)
{
	if (o->a->store)
		must(ebb_flush(o->store), "cannot flush");
	o->result.free_cpu_ns = (double)(process_cpu_ns() - o->cpu_ns) / (double)o->file->count;
}

static void look_at_churned(struct one *o)
{
	uint64_t payload = 0;

	for (unsigned int i = 0; i < o->threads; i++)
		payload += o->payload[i * PAYLOAD_STRIDE];
	if (o->a->store) {
		must(ebb_compact(o->store, NULL), "cannot compact");
		must(ebb_trim(o->store, NULL), "cannot trim");
	}
	o->result.rss_per_byte_churned = growth(o) / (double)payload;
}

/* What was freed is there to be taken again, in an allocator that frees later, too. */
static void look_at_half(struct one *o)
{
	if (o->a->store)
		must(ebb_flush(o->store), "cannot flush");
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
	uint64_t first = o->file->count * i / o->threads;
	uint64_t end = o->file->count * (i + 1) / o->threads;
	uint64_t *payload = &o->payload[i * PAYLOAD_STRIDE], start;
	double n = end > first ? (double)(end - first) : 1;
	int ret;

	start = now_ns();
	ret = put_all(o, first, end);
	o->alloc_ns[i] = (double)(now_ns() - start) / n;
	meet(o, i, look_at_full);
	start = now_ns();
	ret |= drop_all(o, first, end);
	o->free_ns[i] = (double)(now_ns() - start) / n;
	meet(o, i, look_at_freed);

	start = now_ns();
	ret |= put_all(o, first, end);
	o->alloc_again_ns[i] = (double)(now_ns() - start) / n;
	*payload = o->at[end] - o->at[first];
	start = now_ns();
	ret |= replace(o, i, first, end, payload);
	o->churn_ns[i] = (double)(now_ns() - start) / n / (o->churn ? o->churn : 1);
	meet(o, i, look_at_churned);
	ret |= drop_half(o, first, end);
	meet(o, i, look_at_half);
	start = now_ns();
	ret |= put_half(o, first, end);
	o->alloc_churned_ns[i] = (double)(now_ns() - start) * 2 / n;
	ret |= drop_all(o, first, end);
	return ret ? -ENOMEM : 0;
}

static double mean(const double *v, unsigned int n)
{
	double sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += v[i];
	return sum / n;
}

static void map_objects(struct one *o, int fd)
{
	struct object_file head;
	void *map;

	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		fail("the objects cannot be read: %s", strerror(errno));
	map = mmap(NULL, head.file_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (map == MAP_FAILED)
		fail("cannot map %llu bytes: %s", (unsigned long long)head.file_bytes,
		     strerror(errno));
	o->file = map;
	o->at = (const uint64_t *)(o->file + 1);
	o->bytes = (const unsigned char *)map + head.bytes_at;
}

static void run(struct one *o)
{
	static struct team_times times;
	size_t pointers;

	o->payload = xalloc(o->threads * PAYLOAD_STRIDE, sizeof(*o->payload));
	pointers = o->file->count * sizeof(*o->held);
	if (!o->a->store) {
		o->held = xmap(pointers);
		memset(o->held, 1, pointers);
	}
	if (pthread_barrier_init(&o->all, NULL, o->threads))
		fail("cannot make a barrier");
	o->baseline = resident_bytes();
	if (o->a->store) {
		struct ebb_config cfg;

		ebb_config_init(&cfg);
		cfg.slots = o->file->count;
		cfg.release_limit = o->a->release_limit;
		must(ebb_open(&o->store, &cfg), "cannot open a store");
	}
	team_run(o->threads, work, o, &times, "cannot store an object");
	o->result.alloc_ns = mean(o->alloc_ns, o->threads);
	o->result.alloc_again_ns = mean(o->alloc_again_ns, o->threads);
	o->result.alloc_churned_ns = mean(o->alloc_churned_ns, o->threads);
	o->result.free_ns = mean(o->free_ns, o->threads);
	o->result.churn_ns = mean(o->churn_ns, o->threads);
	/* A rest, in which an allocator or a worker may give memory back by itself. */
	sleep_us(1000000);
	stop_if_interrupted();
	o->result.left_bytes = growth(o);
	ebb_close(o->store);
	xunmap(o->held, o->held ? pointers : 0);
	free(o->payload);
}

static int malloc_one(const struct command *cmd, int argc, char **argv)
{
	static struct one o;

	if (argc != 4)
		usage_fail("%s: expected an allocator, threads, a file descriptor and a count",
			   cmd->name);
	o.a = allocator_find(argv[0]);
	if (!o.a)
		usage_fail("%s: expected the name of an allocator", argv[0]);
	o.threads = (unsigned int)strtoul(argv[1], NULL, 10);
	o.churn = (unsigned int)strtoul(argv[3], NULL, 10);
	if (o.threads > THREADS_MAX)
		usage_fail("%s: expected at most %d threads", argv[1], THREADS_MAX);
	o.result.loaded = allocator_is_here(o.a);
	if (o.threads && !o.result.loaded)
		fail("%s: expected it to be preloaded", o.a->library);
	if (o.threads) {
		map_objects(&o, (int)strtol(argv[2], NULL, 10));
		run(&o);
	}
	if (write(STDOUT_FILENO, &o.result, sizeof(o.result)) != (ssize_t)sizeof(o.result))
		fail("standard output: cannot write the result");
	return 0;
}

const struct command bench_malloc_one_command = {
	.name = "bench " MALLOC_ONE_COMMAND,
	.operands = "NAME THREADS FD CHURN",
	.summary = "one run of bench malloc",
	.about = "",
	.examples = "",
	.run = malloc_one,
	.hidden = true,
};
