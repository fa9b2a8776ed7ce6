// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long do processes that are swapped out to zram, or to zswap over DISK, take to let go?
 *
 *   munmap_bench --np N --mb M [--data uniform|mixed] [--codec NAME] [--mode drain|cpu|pool]
 *                [--zswap DISK |
 *                 [--release-limit BYTES] [--unit BYTES] [--packed 0|1 [--device MIB]]]
 *                [--pages] [--kill] [--tag TEXT]
 *   munmap_bench --swapin --mb M [...]
 *
 * N processes map and fill M MiB each and page them out. Then all unmap at once, or with --kill are
 * killed, which ends when they have been waited for. With --packed, which is compressed_writeback,
 * all of it has gone to a backing device before.
 *
 *   parent   | setup | ......... | level, mark | go |          | poll or wait | mark
 *   children |       | fill, out |             |    | munmap   |              |
 *
 * Mode drain polls until the pool has stopped shrinking and says when that was: its size in
 * mm_stat, or with --pages the pages of compressed memory that the kernel counts, where the size
 * leaves out what an allocator holds back. Mode cpu leaves the guest idle instead: whoever
 * watches the console reads this machine's CPU clock at the two marks, and both are followed by
 * a pause, so that the clock stands still while it is read.
 *
 * Mode pool takes no time: it says what the pages cost in memory when they are out. all_bytes is
 * every page that the kernel counts as compressed memory, with lists and reserves, and the slabs
 * of zsmalloc (boot with slab_nomerge); empty_pages of it were there before the first object.
 *
 * One line of JSON goes to the console per run: "bench: {...}".
 */
#include "backing.h"
#include "client.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define MAX_NP 512

struct shared {
	pthread_barrier_t filled, out, go, done, end;
	double out_start[MAX_NP], out_end[MAX_NP];
	double start[MAX_NP], end_ms[MAX_NP];
	unsigned long swapped[MAX_NP];
};

struct config {
	unsigned long np, mb, device, swapin, pages, kill;
	enum data_kind data;
	const char *data_name, *codec, *limit, *unit, *packed, *zswap, *tag;
	int cpu;
};

static void *fill(const struct config *c, unsigned who)
{
	unsigned long n = c->mb * MB / PAGE;
	char *p =
		mmap(NULL, c->mb * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap of %lu MiB: %s", c->mb, strerror(errno));
	for (unsigned long i = 0; i < n; i++)
		data_fill(p + i * PAGE, c->data, (uint64_t)who << 32 | i);
	return p;
}

static void verify(const struct config *c, unsigned who, const char *p, const char *when)
{
	for (unsigned long i = 0; i < c->mb * MB / PAGE; i++) {
		long at = data_check(p + i * PAGE, c->data, (uint64_t)who << 32 | i);

		if (at >= 0)
			die("%s: page %lu differs at byte %ld", when, i, at);
	}
}

static void child(const struct config *c, struct shared *s, unsigned who)
{
	void *p = fill(c, who);

	pthread_barrier_wait(&s->filled);
	s->out_start[who] = now_ms();
	s->swapped[who] = page_out(p, c->mb * MB);
	s->out_end[who] = now_ms();
	pthread_barrier_wait(&s->out);
	pthread_barrier_wait(&s->go);
	s->start[who] = now_ms();
	if (munmap(p, c->mb * MB))
		die("munmap: %s", strerror(errno));
	s->end_ms[who] = now_ms();
	pthread_barrier_wait(&s->done);
	pthread_barrier_wait(&s->end);
	_exit(0);
}

static void kill_all(struct shared *s, const pid_t *pid, unsigned int n)
{
	unsigned int i;
	pid_t dead;

	signal(SIGCHLD, SIG_DFL);
	for (i = 0; i < n; i++) {
		s->start[i] = now_ms();
		kill(pid[i], SIGKILL);
	}
	while ((dead = wait(NULL)) > 0)
		for (i = 0; i < n; i++)
			if (pid[i] == dead)
				s->end_ms[i] = now_ms();
}

/* A child that fails never reaches the barriers: end with it. */
static void on_child(int sig)
{
	int status;

	(void)sig;
	while (waitpid(-1, &status, WNOHANG) > 0)
		if (status)
			_exit(1);
}

/* The kernel's count may be off by what CPUs owe, and come right at any time. */
#define COUNT_SLACK 64UL

static unsigned long long pool_bytes(const struct config *c)
{
	return c->pages ? client_pages_now() * PAGE : client_use(c->zswap).pool;
}

/* When the pool stopped shrinking, in ms after `since`: it has kept its size for 60 ms. */
static double drained(const struct config *c, double since)
{
	double changed = now_ms();
	unsigned long long last = pool_bytes(c), now;

	while (now_ms() - changed < 60) {
		sleep_ms(0.1);
		now = pool_bytes(c);
		if (c->pages && now + COUNT_SLACK * PAGE > last)
			continue;
		if (now != last)
			changed = now_ms();
		last = now;
	}
	return changed - since;
}

/* Where nearly all is to be in units it is, or there is nothing to measure. */
static void must_be_units(unsigned long pages)
{
	unsigned long in_units;
	char text[128];

	if (file_read("/sys/block/zram0/unit_stat", text, sizeof(text)) ||
	    sscanf(text, "%*u %lu", &in_units) != 1)
		die("no unit_stat");
	if (in_units < pages / 10 * 9)
		die("only %lu of %lu pages are in units", in_units, pages);
}

static void bench_munmap(const struct config *c)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrier_t *all[] = { &s->filled, &s->out, &s->go, &s->done, &s->end };
	struct client_use empty, full, after;
	double first = 1e300, last = 0, sum = 0, out_first = 1e300, out_last = 0, drain_ms = -1;
	unsigned long swapped = 0, blocks = 0;
	struct held held;
	char holds[160] = "";
	pthread_barrierattr_t attr;
	pid_t pid[MAX_NP];
	unsigned i;

	if (s == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	for (i = 0; i < 5; i++)
		pthread_barrier_init(all[i], &attr, c->np + 1);

	empty = client_use(c->zswap);
	signal(SIGCHLD, on_child);
	fflush(stdout);
	for (i = 0; i < c->np; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			die("fork: %s", strerror(errno));
		if (!pid[i])
			child(c, s, i);
	}
	pthread_barrier_wait(&s->filled);
	pthread_barrier_wait(&s->out);
	sleep_ms(100);
	full = client_use(c->zswap);
	for (i = 0; i < c->np; i++)
		swapped += s->swapped[i];
	client_has(c->zswap, swapped);
	if (c->unit)
		must_be_units(swapped / PAGE);
	if (c->packed) {
		backing_write_all(0);
		blocks = zram_bd_stat(0).blocks;
		sleep_ms(100);
	}
	if (c->cpu)
		mark("start", c->tag);
	held_begin();
	if (c->kill) {
		kill_all(s, pid, (unsigned int)c->np);
	} else {
		pthread_barrier_wait(&s->go);
		pthread_barrier_wait(&s->done);
	}
	if (held_end(&held))
		snprintf(holds, sizeof(holds), "\"hold_max_us\": %.1f, \"hold_p99_us\": %.2f, "
			 "\"hold_p50_us\": %.2f, \"holds\": %lu, ", (double)held.max_ns / 1e3, (double)held.p99_ns / 1e3,
			 (double)held.p50_ns / 1e3, held.holds);
	for (i = 0; i < c->np; i++) {
		first = s->start[i] < first ? s->start[i] : first;
		last = s->end_ms[i] > last ? s->end_ms[i] : last;
		out_first = s->out_start[i] < out_first ? s->out_start[i] : out_first;
		out_last = s->out_end[i] > out_last ? s->out_end[i] : out_last;
		sum += s->end_ms[i] - s->start[i];
	}
	if (c->cpu) {
		sleep_ms(150);
		mark("stop", c->tag);
	} else {
		drain_ms = drained(c, first);
	}
	after = client_use(c->zswap);
	if (!c->kill)
		pthread_barrier_wait(&s->end);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	if (swapped < c->np * c->mb * MB / 100 * 99)
		die("only %lu of %lu MiB went to swap", swapped / MB, c->np * c->mb);
	if (c->packed && blocks < swapped / PAGE / 100 * 99)
		die("only %lu of %lu pages went to the backing device", blocks, swapped / PAGE);

	printf("bench: {\"tag\": \"%s\", \"mode\": \"%s\", \"np\": %lu, \"mb\": %lu, \"data\": \"%s\", \"codec\": \"%s\", "
	       "\"slots\": %lu, \"backed\": %lu, \"left\": %llu, \"mean_ms\": %.4f, \"wall_ms\": %.4f, \"drained_ms\": %.4f, "
	       "%s\"pageout_mb_per_s\": %.1f, \"compr_bytes\": %llu, \"pool_bytes\": %llu, "
	       "\"pool_pages_before\": %llu, \"pool_pages_after\": %llu}\n",
	       c->tag, c->cpu ? "cpu" : "drain", c->np, c->mb, c->data_name, c->codec,
	       swapped / PAGE, blocks, c->packed ? zram_bd_stat(0).blocks : 0, sum / c->np,
	       last - first, drain_ms, holds, swapped / 1048576.0 / (out_last - out_first) * 1e3,
	       full.compr - empty.compr, full.pool, empty.pool / PAGE, after.pool / PAGE);
}

static void bench_pool(const struct config *c, const struct zram_setup *setup, unsigned long bytes)
{
	unsigned long long others, empty, slabs;
	unsigned long swapped;
	struct client_use use;
	char *p;

	/* zswap has its pool from the boot on. Of zram nothing is there but what this makes. */
	client_off(c->zswap);
	if (!c->zswap)
		zram_must_set(0, "reset", "1");
	others = c->zswap ? 0 : client_pages();
	slabs = c->zswap ? 0 : allocator_slabs();
	client_on(c->zswap, setup, bytes);
	empty = client_pages() - others;
	group_enter("pool");
	p = fill(c, 7);
	swapped = page_out(p, c->mb * MB);
	if (swapped < c->mb * MB / 100 * 99)
		die("only %lu of %lu MiB went to swap", swapped / MB, c->mb);
	client_has(c->zswap, swapped);
	/* A group's figures are put together every two seconds. */
	sleep_ms(2500);
	use = client_use(c->zswap);
	if (c->zswap)
		use.compr = group_zswap("pool");
	printf("bench: {\"tag\": \"%s\", \"mode\": \"pool\", \"np\": 1, \"mb\": %lu, \"data\": \"%s\", "
	       "\"codec\": \"%s\", \"slots\": %lu, \"compr_bytes\": %llu, \"pool_bytes\": %llu, "
	       "\"all_bytes\": %llu, \"empty_pages\": %llu}\n", c->tag, c->mb, c->data_name, c->codec,
	       swapped / PAGE, use.compr, use.pool,
	       (client_pages() - others) * PAGE + allocator_slabs() - slabs, empty);
	munmap(p, c->mb * MB);
}

static void bench_swapin(const struct config *c)
{
	double t, populate, touch;
	unsigned long n = c->mb * MB / PAGE, sum = 0;
	volatile char *v;
	char *p = fill(c, 99);

	if (page_out(p, c->mb * MB) < c->mb * MB / 100 * 99)
		die("the region did not go to swap");
	t = now_ms();
	if (madvise(p, c->mb * MB, MADV_POPULATE_READ))
		die("MADV_POPULATE_READ: %s", strerror(errno));
	populate = now_ms() - t;
	verify(c, 99, p, "after populate");

	/* Dirty again: clean pages would go out without a write. */
	for (unsigned long i = 0; i < n; i++)
		data_fill(p + i * PAGE, c->data, (uint64_t)99 << 32 | i);
	if (page_out(p, c->mb * MB) < c->mb * MB / 100 * 99)
		die("the region did not go to swap again");
	v = p;
	t = now_ms();
	for (unsigned long i = 0; i < n; i++)
		sum += v[i * PAGE];
	touch = now_ms() - t;
	verify(c, 99, p, "after touching");
	printf("bench: {\"tag\": \"%s\", \"mode\": \"swapin\", \"np\": 1, \"mb\": %lu, \"data\": \"%s\", \"codec\": \"%s\", "
	       "\"slots\": %lu, \"swapin_mb_per_s\": %.1f, \"swapin_touch_mb_per_s\": %.1f, \"sum\": %lu}\n",
	       c->tag, c->mb, c->data_name, c->codec, n, c->mb / populate * 1e3,
	       c->mb / touch * 1e3, sum & 0xff);
}

int main(int argc, char **argv)
{
	static struct config c = { .np = 1, .mb = 256, .data_name = "uniform", .codec = "lzo-rle", .tag = "-" };
	static const char *mode = "drain";
	struct zram_setup setup = { 0 };
	unsigned long bytes;
	static const struct option known[] = {
		{ "np", &c.np, 1, MAX_NP }, { "mb", &c.mb, 1, 1 << 16 }, { "data", .text = &c.data_name }, { "codec", .text = &c.codec },
		{ "release-limit", .text = &c.limit }, { "unit", .text = &c.unit }, { "packed", .text = &c.packed },
		{ "zswap", .text = &c.zswap }, { "pages", &c.pages }, { "kill", &c.kill },
		{ "device", &c.device, 1, 1 << 16 }, { "tag", .text = &c.tag }, { "mode", .text = &mode }, { "swapin", &c.swapin }, { }
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	if (strcmp(mode, "cpu") && strcmp(mode, "drain") && strcmp(mode, "pool"))
		die("mode '%s' is none of cpu, drain, pool", mode);
	c.cpu = !strcmp(mode, "cpu");
	c.data = data_parse(c.data_name);
	setup.codec = c.codec;
	setup.release_limit = c.limit;
	setup.comp_unit = c.unit;
	if (c.packed) {
		backing_make(c.device > c.np * c.mb + 16 ? c.device : c.np * c.mb + 16);
		setup.packed = c.packed;
		setup.backing = BACKING;
	}
	bytes = (c.np * c.mb + 64) * MB * 2;
	if (!strcmp(mode, "pool")) {
		bench_pool(&c, &setup, bytes);
	} else {
		client_on(c.zswap, &setup, bytes);
		if (c.swapin)
			bench_swapin(&c);
		else
			bench_munmap(&c);
	}
	client_off(c.zswap);
	return 0;
}
