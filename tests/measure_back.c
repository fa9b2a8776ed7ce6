// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * measure_back - memory that comes back, and what stores take, in figures: what the system charges
 * to a process that uses libebb.
 *
 *     measure_back [--json] [FIGURE...]
 *
 * Each figure is taken in a process of its own, in a control group of its own where the machine
 * lets one be made: then it is the group's charge without pages of files.  Elsewhere it is the
 * process's resident anonymous memory, and the last line says so.  The exit status is 1 if a target
 * is missed.
 */
#define _GNU_SOURCE
#include "box.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "commit.h"
#include "user/api/ebb.h"

#define MIB 1048576.0
#define STORES 1000

static struct box box;
static bool boxed;
static unsigned char noise[65536];

static void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "measure_back: %s failed\n", what);
	_exit(2);
}
#define must(ok) check(ok, #ok)

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static uint64_t rng(void)
{
	static uint64_t state = 1;
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* A number of /proc/self/status, in bytes if it is one of memory. */
static uint64_t status(const char *key)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long n = 0;
	char line[256];

	must(f != NULL);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
			sscanf(line + strlen(key) + 1, "%llu", &n);
	fclose(f);
	return key[0] == 'V' || key[0] == 'R' ? (uint64_t)n << 10 : (uint64_t)n;
}

/* Bytes that the system counts as this process's. */
static double charge(void)
{
	uint64_t n = boxed ? box_charge(&box) : CGROUP_NONE;

	return (double)(n != CGROUP_NONE ? n : status("RssAnon"));
}

static struct ebb_store *open_for(uint64_t slots, const char *codec)
{
	struct ebb_store *store;
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = slots;
	cfg.codec = codec;
	must(ebb_open(&store, &cfg) == 0);
	return store;
}

static struct ebb_stat stat_of(struct ebb_store *store)
{
	struct ebb_stat st = { .struct_size = sizeof(st) };

	must(ebb_stat(store, &st) == 0);
	return st;
}

/* Objects of 600 to 3,600 bytes, 2,100 on average. */
static void put(struct ebb_store *store, uint64_t slot)
{
	must(ebb_put(store, slot, noise, (size_t)(600 + slot * 769 % 3000)) == 0);
}

static uint64_t fill(struct ebb_store *store, double bytes)
{
	uint64_t slots = (uint64_t)(bytes / 2100);

	for (uint64_t i = 0; i < slots; i++)
		put(store, i);
	return slots;
}

static void thin_out(struct ebb_store *store, uint64_t slots)
{
	for (uint64_t i = 0; i < slots; i++)
		if (rng() % 10)
			must(ebb_free(store, i, 1) == 0);
}

/* ---- figures: each in a process of its own ---- */

/*
 * The charge as a multiple of the live objects' bytes, those of the churn among them, five seconds
 * later, with the churn going on.
 */
static double churned(double mib, unsigned int pause_ms)
{
	uint64_t slots = (uint64_t)(2048 * MIB / 2100), churn = (uint64_t)(mib * MIB / 2100);
	struct ebb_store *store = open_for(slots + churn, "lz4");
	double start = charge(), end;

	must(fill(store, 2048 * MIB) == slots);
	thin_out(store, slots);
	for (end = now_ms() + 5000; now_ms() < end;) {
		for (uint64_t i = 0; i < churn; i++)
			put(store, slots + i);
		must(ebb_free(store, slots, churn) == 0);
		usleep(pause_ms * 1000);
	}
	return (charge() - start) / ((double)stat_of(store).compr_data_size + (double)churn * 2100);
}

static double churned_16(void)
{
	return churned(16, 30);
}

static double churned_64(void)
{
	return churned(64, 50);
}

/* MiB that come back unasked, of a thinned store, in as many seconds: khugepaged's doing. */
static double stays_away(void)
{
	struct ebb_store *store = open_for(1 << 20, "lz4");
	const char *s = getenv("EBB_STAY_SECONDS");
	double there;

	thin_out(store, fill(store, 128 * MIB));
	must(ebb_trim(store, NULL) == 0);
	sleep(1);
	there = charge();
	sleep(s ? (unsigned int)atoi(s) : 120);
	return (charge() - there) / MIB;
}

/* MiB more than before one second after all was freed; the slot table is there before. */
static double freed(int lock)
{
	struct ebb_store *store;
	uint64_t slots;
	double start;

	if (lock)
		must(mlockall(lock) == 0);
	store = open_for(1 << 20, "lz4");
	fill(store, 512 * MIB);
	must(ebb_free(store, 0, 1 << 20) == 0 && ebb_trim(store, NULL) == 0);
	start = charge();
	slots = fill(store, 512 * MIB);
	must(ebb_free(store, 0, slots) == 0);
	sleep(1);
	return (charge() - start) / MIB;
}

static double freed_plain(void)
{
	return freed(0);
}

static double freed_locked(void)
{
	return freed(MCL_CURRENT | MCL_FUTURE);
}

/* By how many percent ebb_trim()'s answer is off the fall of the charge. */
static double trim_says(void)
{
	struct ebb_store *store = open_for(1 << 20, "lz4");
	uint64_t slots = fill(store, 256 * MIB), bytes;
	double before = charge(), fall;

	/* At once, before the tick gives anything on. */
	must(ebb_free(store, 0, slots / 2) == 0 && ebb_trim(store, &bytes) == 0);
	fall = before - charge();
	must((double)bytes > 64 * MIB);
	return ((double)bytes > fall ? (double)bytes - fall : fall - (double)bytes) / fall * 100;
}

#define FRESH 60000u

static double fresh_us[FRESH];

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Stores objects in memory that the system has to zero first; returns ns of CPU time an object. */
static double fresh(void)
{
	struct ebb_store *store = open_for(FRESH, "lz4");
	clock_t begun = clock();

	for (unsigned int i = 0; i < FRESH; i++) {
		double at = now_ms();

		put(store, i);
		fresh_us[i] = (now_ms() - at) * 1e3;
	}
	return (double)(clock() - begun) * 1e9 / CLOCKS_PER_SEC / FRESH;
}

static double fresh_p99(void)
{
	fresh();
	qsort(fresh_us, FRESH, sizeof(*fresh_us), by_size);
	return fresh_us[FRESH / 100 * 99];
}

static void *compute(void *on)
{
	while (__atomic_load_n((bool *)on, __ATOMIC_RELAXED))
		;
	return on;
}

/* ns that giving a page on takes after 90 % were freed at random, while another thread computes. */
static double give_beside(void)
{
	struct ebb_store *store = open_for(1 << 20, "lz4");
	uint64_t slots = fill(store, 512 * MIB), bytes;
	bool on = true;
	pthread_t other;
	double begun;

	must(pthread_create(&other, NULL, compute, &on) == 0);
	thin_out(store, slots);
	must(ebb_flush(store) == 0);
	begun = now_ms();
	must(ebb_trim(store, &bytes) == 0);
	begun = now_ms() - begun;
	__atomic_store_n(&on, false, __ATOMIC_RELAXED);
	must(pthread_join(other, NULL) == 0);
	return begun * 1e6 * 4096 / (double)bytes;
}

static struct ebb_store *stores[STORES];

static void open_stores(const char *codec)
{
	for (unsigned int i = 0; i < STORES; i++) {
		stores[i] = open_for(1000, codec);
		must(ebb_write(stores[i], i, noise + i, 4096) == 0);
	}
}

static double store_address(void)
{
	uint64_t start = status("VmSize");

	open_stores("lz4");
	return (double)(status("VmSize") - start) / STORES / MIB;
}

static double store_memory(const char *codec)
{
	double start = charge();

	open_stores(codec);
	return (charge() - start) / STORES / 1024;
}

static double store_memory_lz4(void)
{
	return store_memory("lz4");
}

static double store_memory_zstd(void)
{
	return store_memory("zstd");
}

static double store_threads(void)
{
	open_stores("zstd");
	return (double)status("Threads");
}

static double closed_stores(void)
{
	double start;

	ebb_close(open_for(1000, "lz4"));
	start = charge();
	open_stores("lz4");
	for (unsigned int i = 0; i < STORES; i++)
		ebb_close(stores[i]);
	/* The kernel frees its own descriptions of mappings a little later. */
	sleep(1);
	return (charge() - start) / MIB;
}

static double empty_open_ms(void)
{
	double start = now_ms();

	open_for(1 << 26, "lz4");
	return now_ms() - start;
}

static double empty_memory(void)
{
	double start = charge();

	open_for(1 << 26, "lz4");
	return (charge() - start) / MIB;
}

static double reset_and_close_ms(void)
{
	struct ebb_store *store = open_for(1 << 30, "lz4");
	double start;

	must(ebb_write(store, 1 << 29, noise, 4096) == 0);
	start = now_ms();
	must(ebb_reset(store) == 0);
	ebb_close(store);
	return now_ms() - start;
}

/* Mappings of a process with 1 GiB of blocks, every other page of which went back. */
static double mappings(void)
{
	struct ebb_store *store = open_for(1 << 19, "lz4");
	char line[512];
	double n = 0;
	FILE *f;

	for (uint64_t i = 0; i < 1 << 18; i++)
		must(ebb_write(store, i, noise + i % 60000, 4096) == 0);
	for (uint64_t i = 0; i < 1 << 18; i += 2)
		must(ebb_free(store, i, 1) == 0);
	must(ebb_trim(store, NULL) == 0);
	f = fopen("/proc/self/maps", "re");
	must(f != NULL);
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	return n;
}

static const struct figure {
	const char *name, *what, *unit;
	double target;
	double (*take)(void);
} figures[] = {
	{ "churned_16", "2 GiB, 90 % freed; 16 MiB come and go each 30 ms; after 5 s, charge / live",
	  "x", 1.25, churned_16 },
	{ "churned_64", "the same with 64 MiB each 50 ms", "x", 1.25, churned_64 },
	{ "stays_away", "128 MiB, 90 % freed and trimmed: more after 120 s", "MiB", 1, stays_away },
	{ "freed", "512 MiB freed: more than at the start after 1 s", "MiB", 1, freed_plain },
	{ "freed_locked", "the same, all memory locked beforehand", "MiB", 1, freed_locked },
	{ "trim", "ebb_trim()'s bytes beside the fall of the charge, off by", "%", 5, trim_says },
	{ "give_beside", "512 MiB, 90 % freed, beside a busy thread: giving a page on", "ns", 1000,
	  give_beside },
	{ "fresh", "126 MB in fresh memory, the clock's calls included: CPU time an object", "ns",
	  1100, fresh },
	{ "fresh_p99", "the same: 99th percentile of a call", "us", 20, fresh_p99 },
	{ "store_address", "one of 1,000 stores of 1,000 slots: address space", "MiB", 16,
	  store_address },
	{ "store_memory", "memory, lz4", "KiB", 200, store_memory_lz4 },
	{ "store_memory_zstd", "memory, zstd", "KiB", 200, store_memory_zstd },
	{ "store_threads", "threads of a process with 1,000 stores", "", 20, store_threads },
	{ "closed_stores", "1,000 stores, opened and closed: more than before, after 1 s", "MiB", 1,
	  closed_stores },
	{ "empty_open", "an empty store of 2^26 slots: open", "ms", 10, empty_open_ms },
	{ "empty_memory", "its memory", "MiB", 8, empty_memory },
	{ "reset_close", "2^30 slots, one page stored: reset and close", "ms", 1, reset_and_close_ms },
	{ "mappings", "mappings of a process with 1 GiB of half-empty blocks", "", 1000, mappings },
};
#define FIGURES (sizeof(figures) / sizeof(*figures))

/* The figure, or a number below any if it could not be taken. */
static double take(const struct figure *fig)
{
	double got = -1e9;
	int to[2], st;
	pid_t pid;

	must(pipe(to) == 0);
	boxed = box_make(&box, (uint64_t)1 << 40);
	pid = fork();
	must(pid >= 0);
	if (!pid) {
		if (boxed)
			must(box_enter(&box));
		got = fig->take();
		_exit(write(to[1], &got, sizeof(got)) == sizeof(got) ? 0 : 2);
	}
	close(to[1]);
	if (read(to[0], &got, sizeof(got)) != sizeof(got))
		got = -1e9;
	close(to[0]);
	must(waitpid(pid, &st, 0) == pid);
	if (boxed)
		box_remove(&box);
	return got;
}

int main(int argc, char **argv)
{
	bool json = argc > 1 && !strcmp(argv[1], "--json"), first = true, missed = false;
	bool any = argc > 1 + json;
	struct utsname u;

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (unsigned char)rng();
	if (json && !uname(&u))
		printf("{\"machine\": {\"kernel\": \"%s %s\", \"commit\": \"%s\", \"command\": "
		       "\"build/measure_back --json\"},\n\"rows\": [", u.sysname, u.release,
		       EBB_COMMIT);
	else
		printf("%-80s %10s %10s\n", "", "target", "measured");
	for (size_t i = 0; i < FIGURES; i++) {
		const struct figure *fig = &figures[i];
		bool wanted = !any;
		double got;

		for (int k = 1 + json; k < argc; k++)
			wanted |= !strcmp(argv[k], fig->name);
		if (!wanted)
			continue;
		fflush(stdout);
		got = take(fig);
		missed |= got < -1e8 || got > fig->target;
		if (json)
			printf("%s\n {\"figure\": \"%s\", \"target\": %g, \"value\": %.4g}",
			       first ? "" : ",", fig->name, fig->target, got < 0.001 ? 0 : got);
		else
			printf("%-80s %6g %-3s %6.3g %-3s%s\n", fig->what, fig->target, fig->unit, got,
			       fig->unit, got > fig->target ? " missed" : "");
		first = false;
	}
	printf(json ? "\n]}\n" : boxed ? "Charges of a control group.\n" :
	       "Resident anonymous memory: no control group can be made here.\n");
	return missed;
}
