// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb bench malloc: the same objects through Ebb and through the allocators that programs use.
 *
 * The objects are pages compressed with lz4.  Each run is a process of its own, this program
 * started again with the allocator preloaded (bench_malloc_one.c), so that no allocator sees
 * what another left behind.
 */
#define _GNU_SOURCE
#include "bench_malloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocators.h"
#include "alone.h"
#include "bench.h"
#include "codec_alone.h"
#include "ebb.h"
#include "memory.h"

/* The file that every run maps. */
static int make_object_file(const struct packed_set *packed)
{
	uint64_t offsets = (packed->count + 1) * sizeof(*packed->at);
	struct object_file head = {
		.count = packed->count,
		.bytes_at = sizeof(head) + offsets,
		.file_bytes = sizeof(head) + offsets + packed->at[packed->count],
	};
	int fd = memfd_create("ebb-objects", 0);
	unsigned char *map;

	if (fd < 0 || ftruncate(fd, (off_t)head.file_bytes))
		fail("cannot make a file in memory: %s", strerror(errno));
	map = mmap(NULL, head.file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("cannot map %llu bytes: %s", (unsigned long long)head.file_bytes,
		     strerror(errno));
	memcpy(map, &head, sizeof(head));
	memcpy(map + sizeof(head), packed->at, offsets);
	memcpy(map + head.bytes_at, packed->bytes, packed->at[packed->count]);
	munmap(map, head.file_bytes);
	return fd;
}

/*
 * Runs one allocator.  threads 0: only finds out whether it can be loaded, without the dynamic
 * linker's complaint if it cannot.
 */
static void run_allocator(const struct allocator *a, unsigned int threads, int objects,
			  unsigned int churn, struct malloc_result *res)
{
	char numbers[3][16], *name = xprintf("%s", a->name);
	char *argv[] = { "ebb", "bench", MALLOC_ONE_COMMAND, name, numbers[0], numbers[1],
			 numbers[2], NULL };
	bool well;

	snprintf(numbers[0], sizeof(numbers[0]), "%u", threads);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", objects);
	snprintf(numbers[2], sizeof(numbers[2]), "%u", churn);
	well = run_again(argv, a->library, a->setting, !threads, res, sizeof(*res));
	free(name);
	if (well)
		return;
	if (threads)
		fail("the run of %s with %u threads failed; expected it to end with status 0",
		     a->name, threads);
	res->loaded = false;
}

static const struct column columns[] = {
	{ "allocator", "allocator", COL_TEXT, 0 },
	{ "threads", "threads", COL_INT, 0 },
	{ "data", NULL, COL_TEXT, 0 },
	{ "objects", NULL, COL_INT, 0 },
	{ "payload_bytes", "payload MiB", COL_MIB, 0 },
	{ "rounds", NULL, COL_INT, 0 },
	{ "alloc_ns", "alloc+fill ns", COL_SPREAD, 0 },
	{ "alloc_again_ns", "again ns", COL_SPREAD, 0 },
	{ "alloc_churned_ns", "churned ns", COL_SPREAD, 0 },
	{ "free_ns", "free ns", COL_SPREAD, 1 },
	{ "free_cpu_ns", "free CPU ns", COL_SPREAD, 1 },
	{ "churn_ns", "replace ns", COL_SPREAD, 0 },
	{ "rss_per_byte", "resident/B", COL_SPREAD, 3 },
	{ "rss_per_byte_churned", "churned/B", COL_SPREAD, 3 },
	{ "left_bytes", "left MiB", COL_MIB, 1 },
	{ NULL, NULL, COL_TEXT, 0 },
};

static void add_row(struct table *t, const char *allocator, unsigned int threads,
		    const char *data, size_t objects, const struct malloc_result *r, size_t n)
{
	double *x = xalloc(n, sizeof(*x));

#define SPREAD(field) do { \
	for (size_t i = 0; i < n; i++) \
		x[i] = r[i].field; \
	table_spread(t, #field, x, n); \
} while (0)
	table_row(t);
	table_text(t, "allocator", allocator);
	table_int(t, "threads", threads);
	table_text(t, "data", data);
	table_int(t, "objects", objects);
	table_int(t, "rounds", n);
	table_int(t, "payload_bytes", (uint64_t)r[0].payload_bytes);
	SPREAD(alloc_ns);
	SPREAD(alloc_again_ns);
	SPREAD(alloc_churned_ns);
	SPREAD(free_ns);
	SPREAD(free_cpu_ns);
	SPREAD(churn_ns);
	SPREAD(rss_per_byte);
	SPREAD(rss_per_byte_churned);
#undef SPREAD
	for (size_t i = 0; i < n; i++)
		x[i] = r[i].left_bytes;
	table_int(t, "left_bytes", (uint64_t)median(x, n));
	free(x);
}

/* Which of the allocators asked for are here; the others are named on stderr. */
static void choose(const struct word_list *asked, bool want[ALLOCATORS])
{
	for (size_t a = 0; a < ALLOCATORS; a++) {
		struct malloc_result probe = { .loaded = true };

		want[a] = word_wanted(asked, allocators[a].name);
		if (!want[a] || !allocators[a].library)
			continue;
		run_allocator(&allocators[a], 0, 0, 0, &probe);
		want[a] = probe.loaded;
		if (!want[a])
			note("%s is left out: expected %s to be installed", allocators[a].name,
			     allocators[a].library);
	}
}

static int bench_malloc(const struct command *cmd, int argc, char **argv)
{
	static const char *const names[] = { "ebb", "ebb-sync", "mimalloc", "jemalloc", "tcmalloc",
					     "glibc", "glibc-huge", NULL };
	struct bench_opts bench = { .rounds = 3 };
	struct count_list threads = { { 1, 2 }, 2 };
	struct word_list asked = { .n = 0 };
	uint64_t size = 512 << 20, churn = 10;
	bool want[ALLOCATORS];
	const char *data = "system";
	const struct opt opts[] = {
		OPT_THREADS(threads),
		{ "allocator", OPT_WORD_LIST, &asked, 0, 0, 0, names, "NAME,...",
		  "some of ebb, ebb-sync, mimalloc, jemalloc, tcmalloc, glibc, glibc-huge" },
		{ "size", OPT_SIZE, &size, ebb_page_size(), SIZE_MOST, ebb_page_size(),
		  NULL, "SIZE", "pages whose compressed forms are the objects" },
		{ "data", OPT_WORD, &data, 0, 0, 0, NULL, "SET", DATA_WORDS },
		{ "churn", OPT_COUNT, &churn, 0, 1000, 0, NULL, "N",
		  "times that each object is replaced on average" },
		OPTS_BENCH(bench),
		{ .name = NULL },
	};
	struct malloc_result *results;
	struct packed_set packed;
	struct page_set set;
	struct table *t;
	size_t rounds, count;
	int objects, status;

	args_parse_only(cmd, opts, argc, argv);
	bench_start(&bench);
	memory_check_size(size, 4, "the data, and objects of as many bytes in an allocator,");
	data_check(data);
	choose(&asked, want);
	data_load(&set, data, size);
	packed_load(&packed, &set, "lz4", EBB_LEVEL_DEFAULT);
	objects = make_object_file(&packed);
	count = packed.count;
	packed_unload(&packed);
	data_unload(&set);

	rounds = bench.rounds;
	results = xalloc(threads.n * ALLOCATORS * rounds, sizeof(*results));
#define RESULTS(i, a) (&results[((i) * ALLOCATORS + (a)) * rounds])
	for (size_t round = 0; round < rounds; round++) {
		for (size_t i = 0; i < threads.n; i++) {
			/* Each round begins with another: the first finds the machine colder. */
			for (size_t k = 0; k < ALLOCATORS; k++) {
				size_t a = (k + round) % ALLOCATORS;

				if (!want[a])
					continue;
				progress("round %zu of %zu: %s, %llu threads", round + 1, rounds,
					 allocators[a].name, (unsigned long long)threads.v[i]);
				run_allocator(&allocators[a], (unsigned int)threads.v[i], objects,
					      (unsigned int)churn, &RESULTS(i, a)[round]);
			}
		}
	}
	close(objects);
	t = table_new(columns);
	for (size_t i = 0; i < threads.n; i++)
		for (size_t a = 0; a < ALLOCATORS; a++)
			if (want[a])
				add_row(t, allocators[a].name, (unsigned int)threads.v[i], data,
					count, RESULTS(i, a), rounds);
#undef RESULTS
	free(results);
	status = bench_report(&bench, t);
	table_free(t);
	return status;
}

const struct command bench_malloc_command = {
	.name = "bench malloc",
	.operands = "",
	.summary = "the same objects through mimalloc, jemalloc, tcmalloc and glibc",
	.about =
"Pages compressed with lz4 are kept as objects: by ebb_put() and ebb_free() (`ebb`, deferred,\n"
"and `ebb-sync`), and by malloc() and free() of each allocator that is installed, glibc's also on\n"
"huge pages, where the system has them on request (`glibc-huge`).  Ebb has none.  The threads\n"
"share the objects evenly.  Times are ns per object: `alloc+fill` takes and fills each in memory\n"
"that is fresh, `again` in what was just freed as a whole, `churned` after objects were replaced\n"
"at random and each other one was freed; `replace` frees one and takes another; `free CPU`\n"
"counts all threads until the memory is back.  `resident/B` is memory per payload byte when\n"
"all objects are there, `churned/B` after each was replaced about ten times by random others\n"
"(Ebb: and compacted); `left` is what stays resident a second after everything was freed.  The\n"
"array of pointers, which Ebb's slot table stands for, is counted for none: 8 bytes per object.",
	.examples =
"  ebb bench malloc\n"
"  ebb bench malloc --allocator ebb,mimalloc --threads 1 --rounds 1\n"
"  ebb bench malloc --data python --size 64M --json",
	.run = bench_malloc,
};
