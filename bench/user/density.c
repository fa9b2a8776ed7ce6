// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user density: bytes of memory per compressed byte, freshly filled and after churn.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "team.h"

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

enum { CHAIN, CHURNED, ORIG, COMPR, POOL, META, POOL_PER, ALL_PER, LINUX_POOL, LINUX_ALL, OVERHEAD,
       MEASURED };

static const struct column columns[] = {
	COUNT(CHAIN, "chain_size_pages"), BOOL(CHURNED, "churned"), MIB(ORIG, "orig"),
	MIB(COMPR, "compr"), COUNT(POOL, "pool_bytes"), COUNT(META, "meta_bytes"),
	REAL(POOL_PER, "pool_per_byte", 4), REAL(ALL_PER, "all_in_per_byte", 4),
	REAL(LINUX_POOL, "linux_pool_per_byte", 4), REAL(LINUX_ALL, "linux_all_in_per_byte", 4),
	REAL(OVERHEAD, "overhead_of_linux", 2), BOOL(MEASURED, "linux_measured"),
	{ .key = NULL },
};

/* ---- a zram device of this machine's kernel ---- */

#define CONTROL "/sys/class/zram-control/"

/* Removed after the pipe is closed, whatever closes it; udev's probes hold a device for moments. */
#define KEEPER "exec setsid sh -c 'trap \"\" HUP INT TERM; cat >/dev/null; for i in $(seq 100); " \
	"do echo %d 2>/dev/null >" CONTROL "hot_remove && exit; sleep 0.05; done; " \
	"echo zram%d stays behind >&2'"

static FILE *keeper;            /* a process that takes the device away */
static int device, device_fd = -1;

static void zram_close(void)
{
	if (device_fd >= 0)
		close(device_fd);
	device_fd = -1;
	if (keeper)
		pclose(keeper);
	keeper = NULL;
}

/* Of a file of the device. */
static FILE *zram_file(const char *attr, const char *how)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/block/zram%d/%s", device, attr);
	f = fopen(path, how);
	if (!f)
		fail("--vs-kernel: %s: %s", path, strerror(errno));
	return f;
}

static void zram_set(const char *attr, const char *value)
{
	FILE *f = zram_file(attr, "we");

	if (fputs(value, f) == EOF || fclose(f))
		fail("--vs-kernel: zram%d: %s does not take %s: %s", device, attr, value,
		     strerror(errno));
}

/* Open for writing past the page cache: whole pages, aligned memory. */
static void zram_open(const char *codec, uint64_t bytes)
{
	char text[512];
	FILE *f;

	if (geteuid())
		fail("--vs-kernel: needs root, to make a zram device");
	f = fopen(CONTROL "hot_add", "re");
	if (!f || fscanf(f, "%d", &device) != 1)
		fail("--vs-kernel: " CONTROL "hot_add: no device; expected zram (modprobe zram)");
	fclose(f);
	atexit(zram_close);
	snprintf(text, sizeof(text), KEEPER, device, device);
	keeper = popen(text, "we");
	if (!keeper)
		fail("cannot start the process that keeps zram%d: remove it by hand", device);
	zram_set("comp_algorithm", codec);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	zram_set("disksize", text);
	snprintf(text, sizeof(text), "/dev/zram%d", device);
	device_fd = open(text, O_WRONLY | O_CLOEXEC | O_EXCL | O_DIRECT);
	if (device_fd < 0)
		fail("--vs-kernel: %s: %s", text, strerror(errno));
	stop_if_interrupted();
}

static double zram_pool_per_byte(void)
{
	FILE *f = zram_file("mm_stat", "re");
	double compr, used;

	if (fscanf(f, "%*u %lf %lf", &compr, &used) != 2)
		fail("zram%d: expected numbers in mm_stat", device);
	fclose(f);
	return compr > 0 ? used / compr : 0;
}

/* ---- what is measured ---- */

struct target {
	const struct page_set *set;
	struct ebb_store *store;         /* NULL: the device */
	unsigned int threads;
	bool churn;
};

/* Writes page p of the set to slot s. */
static int put(const struct target *t, uint64_t s, uint64_t p)
{
	size_t bytes = ebb_page_size();

	if (t->store)
		return ebb_write(t->store, s, data_page(t->set, p), bytes);
	return pwrite(device_fd, data_page(t->set, p), bytes, (off_t)(s * bytes)) ==
	       (ssize_t)bytes ? 0 : -EIO;
}

/* Thread i has a share of the slots. */
static int fill(void *arg, unsigned int i)
{
	const struct target *t = arg;
	uint64_t first = t->set->count * (uint64_t)i / t->threads, state = 1000 + i;
	uint64_t n = t->set->count * (uint64_t)(i + 1) / t->threads - first;
	int ret = 0;

	for (uint64_t k = 0; k < n * (t->churn ? CHURN : 1) && !ret && !interrupted(); k++) {
		uint64_t s = t->churn ? first + rng_below(&state, n) : first + k;

		ret = put(t, s, t->churn ? rng_below(&state, t->set->count) : s);
	}
	return ret;
}

static void add_linux(const struct bench_run *r, double pool, const struct ebb_stat *st, double *v)
{
	double slots = (double)r->set->count, objects = slots - (double)st->same_pages;

	if (!(pool > 0))
		return;
	v[LINUX_POOL] = pool;
	v[LINUX_ALL] = pool + (slots * LINUX_SLOT_BYTES + objects * LINUX_HANDLE_BYTES) /
			      (double)st->compr_data_size;
	v[OVERHEAD] = (v[ALL_PER] - 1) / (v[LINUX_ALL] - 1);
}

/* A sample was filled once; it stands beside the churned row too, to Linux's advantage. */
static double sampled(const struct bench_run *r)
{
	for (size_t i = 0; i < ARRAY_LEN(linux_samples) && !strcmp(r->store.codec, "lz4"); i++)
		if (!strcmp(linux_samples[i].set, r->set->name))
			return linux_samples[i].pool_per_byte;
	return 0;
}

static void density_run(const struct bench_run *r, bench_figures v)
{
	struct target t = { .set = r->set, .threads = 1 };
	double linux_pool[2] = { sampled(r), sampled(r) };
	struct ebb_stat st;

	if (r->o->vs_kernel) {
		zram_open(r->store.codec, (uint64_t)r->set->count * ebb_page_size());
		for (int churned = 0; churned < 2; churned++) {
			t.churn = churned;
			team_run(1, fill, &t, "cannot write to the zram device");
			if (churned)
				zram_set("compact", "1");
			linux_pool[churned] = zram_pool_per_byte();
		}
		zram_close();
	}
	t.threads = team_cpus() < THREADS_MAX && team_cpus() < r->set->count ? team_cpus() : 1;
	t.store = store_open(&r->store, r->set->count, EBB_DEFAULT);
	for (int churned = 0; churned < 2; churned++) {
		t.churn = churned;
		team_run(t.threads, fill, &t, "cannot store a page");
		if (churned)
			must(ebb_compact(t.store, NULL), "cannot compact");
		must(ebb_flush(t.store), "cannot flush");
		store_stat(t.store, &st);
		v[churned][CHAIN] = EBB_CHAIN_DEFAULT;
		v[churned][CHURNED] = churned;
		v[churned][ORIG] = (double)st.orig_data_size;
		v[churned][COMPR] = (double)st.compr_data_size;
		v[churned][POOL] = (double)st.mem_used_total;
		v[churned][META] = (double)st.meta_bytes;
		v[churned][MEASURED] = r->o->vs_kernel;
		if (!st.compr_data_size)
			continue;
		v[churned][POOL_PER] = v[churned][POOL] / v[churned][COMPR];
		v[churned][ALL_PER] = (v[churned][POOL] + v[churned][META]) / v[churned][COMPR];
		add_linux(r, linux_pool[churned], &st, v[churned]);
	}
	ebb_close(t.store);
}

/* Whether devices can be had, before minutes go into the first set. */
static void density_check(const struct bench_opts *o)
{
	for (unsigned int i = 0; i < o->codecs.n && o->vs_kernel; i++) {
		zram_open(o->codecs.v[i], 1 << 20);
		zram_close();
		if ((size_t)sysconf(_SC_PAGESIZE) != ebb_page_size())
			fail("--vs-kernel: the kernel's pages have %ld bytes; expected %zu",
			     sysconf(_SC_PAGESIZE), ebb_page_size());
	}
}

const struct bench density_bench = {
	BENCH("density", "memory used per compressed byte, before and after churn",
"Fills a store with a set of real pages, then replaces each page about ten times by random\n"
"draws from the same set and compacts.  pool_per_byte is the pool's pages per compressed byte;\n"
"all_in_per_byte counts descriptors, slots and buffers too.  Linux's figures are its pool on\n"
"samples of the same sets (lz4, not churned), or with --vs-kernel measured here on the same\n"
"pages with the same churn, plus 16 bytes per slot and 8 per object; overhead_of_linux\n"
"compares what is over 1 in the two all-in figures.  For each set and codec --vs-kernel makes a\n"
"zram device, and a process of its own removes it in the end: also after a signal or SIGKILL."),
	.threads_key = "threads",
	.defaults = {
		.data = { { "libs", "source", "python", "exec" }, 4 }, .size = 512 << 20,
		.codecs = { { "lz4" }, 1 }, .rounds = 1,
	},
	.data_key = "set", .rows = 2, .columns = columns, .copies = 3,
	.check = density_check, .run = density_run,
};
