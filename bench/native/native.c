// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * native.c - times one allocator (native.h); bench/native/run reads what it prints.
 *
 *   native THREADS OBJECTS TURNS HOT_MB SIZE...
 *
 * Each thread has OBJECTS objects, whose sizes are drawn from the list.  A turn stores them all,
 * reads them and frees them in that order, for each way to free; HOT_MB of memory are written
 * before reading and before freeing.  The first turn is not counted.  Then come lines of
 *
 *   ACTION WAY QUARTILE MEDIAN CPU     ns an object
 *
 * A piece is 512 objects; QUARTILE (the lower one) and MEDIAN are of all threads' pieces.  CPU is
 * the process's CPU time until all is back.  Last comes "huge SHARE".
 *
 * With 0 TURNS nothing of this is done.  The objects are stored, and then four times as many are
 * replaced at random by others, of sizes from the list; then a half is freed at random, and the
 * pool is compacted.  This is told in one line:
 *
 *   aged STORED REPLACED HALF COMPACTED CPU    pages after each of these, ns of the last
 */
#define _GNU_SOURCE
#include "native.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum action { STORE, READ, FREE, ACTIONS };
static const char *const action_names[] = { "store", "read", "free" };

static unsigned int threads, objects, pieces;
uint64_t *native_words;
static uint16_t *sizes;
static pthread_barrier_t barrier;
static unsigned int ready;              /* threads at the start */
static pthread_t *thread;
static uint64_t used;                   /* CPU time of all threads in act() */
static char *hot;
static size_t hot_bytes;
static double *took;                    /* of each piece, ns an object */

void native_die(const char *what)
{
	fprintf(stderr, "native: %s\n", what);
	exit(1);
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Without sleeping, so that all begin at once. */
static void start_together(void)
{
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) % threads)
		;
}

/* CPU time of the process without these threads': what an allocator's own have used. */
static uint64_t workers_cpu(void)
{
	uint64_t sum = 0;
	clockid_t clock;

	for (unsigned int i = 0; i < threads; i++)
		if (!pthread_getcpuclockid(thread[i], &clock))
			sum += now(clock);
	return now(CLOCK_PROCESS_CPUTIME_ID) - sum;
}

static void act(enum action action, unsigned int me, unsigned int way)
{
	uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID);

	for (unsigned int p = 0; p < pieces; p++) {
		size_t at = (size_t)me * objects + (size_t)p * NATIVE_PIECE;
		uint64_t *word = native_words + at, start;

		start = now(CLOCK_MONOTONIC);
		if (action == STORE)
			native_store(word, sizes + at, (uint32_t)at, NATIVE_PIECE);
		else if (action == FREE)
			native_free(word, NATIVE_PIECE, way);
		else if (!native_read(word, sizes + at, (uint32_t)at, NATIVE_PIECE))
			native_die("an object is not what was stored");
		took[me * pieces + p] = (double)(now(CLOCK_MONOTONIC) - start) / NATIVE_PIECE;
	}
	__atomic_fetch_add(&used, now(CLOCK_THREAD_CPUTIME_ID) - cpu, __ATOMIC_SEQ_CST);
}

/* What is left to free is freed here, and is CPU time of the free. */
static void settle(void)
{
	uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID);

	if (native_settle())
		native_die("all is free, and pages are not back");
	used += now(CLOCK_THREAD_CPUTIME_ID) - cpu;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void tell(enum action action, const char *way, uint64_t cpu)
{
	unsigned int n = threads * pieces;

	qsort(took, n, sizeof(*took), by_value);
	printf("%s %s %.2f %.2f %.2f\n", action_names[action], way, took[n / 4], took[n / 2],
	       (double)cpu / ((double)n * NATIVE_PIECE));
}

static unsigned int turns;

static void *run(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg, way, turn;
	size_t share = hot_bytes / threads;
	uint64_t workers = 0;

	native_thread(me);
	for (turn = 0; turn <= turns; turn++) {
		for (way = 0; native_ways[way]; way++) {
			for (enum action a = STORE; a < ACTIONS; a++) {
				if (a != STORE)
					memset(hot + me * share, (int)(turn + a), share);
				pthread_barrier_wait(&barrier);
				/* The others sleep while workers_cpu() looks at their clocks. */
				if (!me) {
					used = 0;
					workers = workers_cpu();
				}
				pthread_barrier_wait(&barrier);
				start_together();
				act(a, me, way);
				pthread_barrier_wait(&barrier);
				if (!me && a == FREE)
					settle();
				if (!me && turn)
					tell(a, native_ways[way], used + workers_cpu() - workers);
				pthread_barrier_wait(&barrier);
			}
			if (!turn)
				break;
		}
	}
	return NULL;
}

/* The share of the process's memory that lies on huge pages. */
static double huge_share(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long all = 1, huge = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (!sscanf(line, "Anonymous: %lu", &all))
			sscanf(line, "AnonHugePages: %lu", &huge);
	if (f)
		fclose(f);
	return (double)huge / (double)all;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
	return x ^ x >> 32;
}

/* What placement makes of a pool whose objects come and go. */
static void age(char *const *list, unsigned int n)
{
	unsigned long stored, replaced, half;
	uint64_t cpu;

	native_thread(0);
	for (unsigned int i = 0; i < objects; i += NATIVE_PIECE)
		native_store(native_words + i, sizes + i, i, NATIVE_PIECE);
	stored = native_pages();
	for (unsigned int i = 0; i < 4 * objects; i++) {
		unsigned int at = (unsigned int)(mix(~(uint64_t)i) % objects);

		native_free(native_words + at, 1, 0);
		sizes[at] = (uint16_t)atoi(list[mix((uint64_t)i << 32) % n]);
		native_store(native_words + at, sizes + at, at, 1);
	}
	replaced = native_pages();
	for (unsigned int i = 0; i < objects; i++)
		if (mix((uint64_t)i << 40) % 2) {
			native_free(native_words + i, 1, 0);
			sizes[i] = 0;
		}
	half = native_pages();
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	native_compact();
	cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("aged %lu %lu %lu %lu %lu\n", stored, replaced, half, native_pages(),
	       (unsigned long)cpu);
	for (unsigned int i = 0; i < objects; i++) {
		if (!sizes[i])
			continue;
		if (!native_read(native_words + i, sizes + i, i, 1))
			native_die("an object is not what was stored");
		native_free(native_words + i, 1, 0);
	}
	settle();
}

int main(int argc, char **argv)
{
	uint64_t all, bytes = 0;

	if (argc < 6)
		native_die("usage: native THREADS OBJECTS TURNS HOT_MB SIZE...");
	threads = (unsigned int)atoi(argv[1]);
	objects = (unsigned int)atoi(argv[2]);
	turns = (unsigned int)atoi(argv[3]);
	hot_bytes = (size_t)atoi(argv[4]) << 20;
	if (!threads || !objects || objects % NATIVE_PIECE)
		native_die("THREADS begins at 1, and OBJECTS is a multiple of 512");
	pieces = objects / NATIVE_PIECE;
	all = (uint64_t)threads * objects;
	native_words = calloc(all, sizeof(*native_words));
	sizes = calloc(all, sizeof(*sizes));
	took = calloc((size_t)threads * pieces, sizeof(*took));
	thread = calloc(threads, sizeof(*thread));
	hot = mmap(NULL, hot_bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!native_words || !sizes || !took || !thread || hot == MAP_FAILED)
		native_die("no memory");
	madvise(hot, hot_bytes, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < all; i++) {
		sizes[i] = (uint16_t)atoi(argv[5 + mix(i + 1) % (uint64_t)(argc - 5)]);
		if (sizes[i] < 2 * sizeof(uint64_t) || sizes[i] > NATIVE_MOST)
			native_die("a SIZE is 16 to 4096");
		bytes += sizes[i];
	}
	/* A zspage of a class may be filled to a little more than half. */
	native_open(bytes + bytes / 4 + (all * 64), all);
	if (!turns) {
		age(argv + 5, (unsigned int)(argc - 5));
		return 0;
	}
	pthread_barrier_init(&barrier, NULL, threads);
	thread[0] = pthread_self();
	for (unsigned int i = 1; i < threads; i++)
		if (pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)i))
			native_die("no thread");
	run(NULL);
	for (unsigned int i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("huge %.3f\n", huge_share());
	return 0;
}
