// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * More memory is wanted than there is, and swap takes nothing: for how long does a process stand
 * still that only touches its memory?
 *
 *   limit_bench --np N --mb M [--limit MIB] [--seconds S] [--codec NAME] [--tag TEXT]
 *               [--packed 0|1 [--auto] [--trigger]] [--hold S]
 *
 * zram has a mem_limit, so most of its writes fail.  N processes touch M MiB each, page after page,
 * and keep them; the kernel kills some.  A stall is the time between two touches, or from the last
 * one to the death or, after S seconds, to the end ("ended": 0).  A net stall is without the time
 * during which the machine did not run the guest, as a real-time process in it sees it.  Beside
 * them one process asks for one page of its own to be paged out, again and again, 1 ms apart.
 *
 * With --packed, which is compressed_writeback, there is a backing device with room for all.
 * --auto sets writeback_auto; with --trigger a process has all that is in zram written back, once
 * a second.  With --hold those that have touched all go on for S seconds, on pages of theirs at
 * random; each is checked.
 *
 * One line of JSON goes to the console: "bench: {...}".
 */
#include "backing.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#define MAX_NP    64
#define MAX_TIMES 400000
#define MAX_SPANS 8192
#define LONG_MS   50.0

struct span { double from, to; };

static struct {
	struct {
		volatile double last, stall, worst_at;
		volatile unsigned long pages, again;
	} p[MAX_NP];
	volatile bool stop;
	volatile unsigned n, triggers;
	volatile float ms[MAX_TIMES];
	unsigned nstalls;               /* those over LONG_MS */
	struct span stall[MAX_SPANS];
} *shared;
/* When the one who looks after them, whom nothing in the guest keeps off a CPU, had none. */
static struct span frozen[MAX_SPANS];
static unsigned nfrozen;
static unsigned long np = 8, mb = 64, limit = 1, most = 150, hold, is_auto, trigger;
static const char *codec = "lz4", *packed, *tag = "-";
static double start;

static void touched(unsigned i, double now)
{
	if (now - shared->p[i].last > LONG_MS) {
		unsigned n = __atomic_fetch_add(&shared->nstalls, 1, __ATOMIC_RELAXED);

		if (n < MAX_SPANS)
			shared->stall[n] = (struct span){ shared->p[i].last, now };
	}
	if (now - shared->p[i].last > shared->p[i].stall) {
		shared->p[i].stall = now - shared->p[i].last;
		shared->p[i].worst_at = shared->p[i].last - start;
	}
	shared->p[i].last = now;
}

__attribute__((noreturn))
static void toucher(unsigned who)
{
	char *p = mmap(NULL, mb * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || file_write("/proc/self/oom_score_adj", "0"))
		_exit(1);
	for (unsigned long i = 0; i < mb * MB / PAGE; i++) {
		data_fill(p + i * PAGE, DATA_MIXED, (uint64_t)who << 32 | i);
		touched(who, now_ms());
		shared->p[who].pages = i + 1;
	}
	for (uint64_t s = who + 1; hold && !shared->stop;) {
		unsigned long i = next(&s) % (mb * MB / PAGE);

		if (data_check(p + i * PAGE, DATA_MIXED, (uint64_t)who << 32 | i) >= 0)
			_exit(3);
		*(volatile uint64_t *)(p + i * PAGE) += 0;
		touched(who, now_ms());
		shared->p[who].again++;
	}
	pause();
	_exit(0);
}

__attribute__((noreturn))
static void write_back_again_and_again(void)
{
	while (!shared->stop) {
		sleep_ms(1000);
		zram_set(0, "idle", "all");
		zram_set(0, "writeback", "idle");
		shared->triggers++;
	}
	_exit(0);
}

__attribute__((noreturn))
static void pager(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double t;

	if (p == MAP_FAILED)
		_exit(1);
	for (unsigned n = 0; !shared->stop && n < MAX_TIMES; n++) {
		data_fill(p, DATA_MIXED, 99ULL << 32 | n);
		t = now_ms();
		if (madvise(p, PAGE, MADV_PAGEOUT))
			_exit(1);
		shared->ms[n] = (float)(now_ms() - t);
		shared->n = n + 1;
		sleep_ms(1);
	}
	_exit(0);
}

static int by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static double part(const float *ms, double q)
{
	return shared->n ? ms[(unsigned)(q * (shared->n - 1))] : -1;
}

/* The longest stall, without the time during which the machine did not run the guest. */
static double longest_of_ours(double *sum)
{
	unsigned n = shared->nstalls < MAX_SPANS ? shared->nstalls : MAX_SPANS;
	double longest = 0;

	*sum = 0;
	for (unsigned k = 0; k < nfrozen; k++)
		*sum += frozen[k].to - frozen[k].from;
	for (unsigned i = 0; i < n; i++) {
		double ms = shared->stall[i].to - shared->stall[i].from;

		for (unsigned k = 0; k < nfrozen; k++) {
			double from = frozen[k].from > shared->stall[i].from ?
				      frozen[k].from : shared->stall[i].from;
			double to = frozen[k].to < shared->stall[i].to ?
				    frozen[k].to : shared->stall[i].to;

			ms -= to > from ? to - from : 0;
		}
		if (ms > longest)
			longest = ms;
	}
	return longest;
}

/* All that still live have all they wanted, or there is none. */
static bool over(const pid_t *pid)
{
	for (unsigned i = 0; i < np; i++)
		if (pid[i] && shared->p[i].pages < mb * MB / PAGE)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "np", &np, 1, MAX_NP }, { "mb", &mb, 1, 1 << 16 }, { "limit", &limit, 1, 1 << 20 },
		{ "seconds", &most, 1, 86400 }, { "codec", .text = &codec }, { "tag", .text = &tag },
		{ "packed", .text = &packed }, { "auto", &is_auto }, { "trigger", &trigger },
		{ "hold", &hold, 1, 86400 }, { }
	};
	unsigned long pages = 0, again = 0, killed = 0, reads = 0, writes = 0;
	unsigned long requests = 0, requests_before = 0;
	struct zram_setup setup = { 0 };
	struct bd_stat bd = { 0 };
	pid_t pid[MAX_NP] = { 0 };
	double stall = 0, net, looked, frozen_ms, at = 0, seconds, filled = 0, speed = 0;
	bool ended = false;
	char text[256];
	float *ms;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || mlock(shared, sizeof(*shared)))
		die("shared memory: %s", strerror(errno));
	ms = (float *)shared->ms;
	file_write("/proc/self/oom_score_adj", "-1000");
	file_write("/proc/sys/vm/overcommit_memory", "1");
	setup.codec = codec;
	if (packed) {
		speed = backing_make(np * mb + 64);
		setup.packed = packed;
		setup.backing = BACKING;
	}
	zram_swapon(0, &setup, 2 * np * mb * MB);
	if (is_auto)
		zram_must_set(0, "writeback_auto", "1");
	snprintf(text, sizeof(text), "%luM", limit);
	if (zram_set(0, "mem_limit", text))
		die("mem_limit %s", text);
	if (mlockall(MCL_CURRENT))
		die("mlockall: %s", strerror(errno));
	if (packed && !file_read("/sys/block/loop0/stat", text, sizeof(text)))
		sscanf(text, "%*u %*u %*u %*u %lu", &requests_before);
	mark("start", tag);
	if (!fork())
		pager();
	if (trigger && !fork()) {
		if (mlockall(MCL_CURRENT))
			_exit(1);
		write_back_again_and_again();
	}
	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){ 50 }))
		die("sched_setscheduler: %s", strerror(errno));
	looked = start = now_ms();
	for (unsigned i = 0; i < np; i++) {
		shared->p[i].last = start;
		pid[i] = fork();
		if (pid[i] < 0)
			die("fork: %s", strerror(errno));
		if (!pid[i])
			toucher(i);
	}
	while (now_ms() - start < 1e3 * (double)most) {
		pid_t died;
		int status;

		if (now_ms() - looked > LONG_MS && nfrozen < MAX_SPANS)
			frozen[nfrozen++] = (struct span){ looked, now_ms() };
		looked = now_ms();
		ended = over(pid);
		if (ended && !filled)
			filled = now_ms();
		if (ended && now_ms() - filled >= 1e3 * (double)hold)
			break;
		died = waitpid(-1, &status, WNOHANG);
		for (unsigned i = 0; died > 0 && i < np; i++) {
			if (pid[i] != died)
				continue;
			if (!WIFSIGNALED(status))
				die("process %u ended with %x", i, status);
			pid[i] = 0;
			killed++;
			if (hold || shared->p[i].pages < mb * MB / PAGE)
				touched(i, now_ms());
		}
		if (died <= 0)
			sleep_ms(1);
	}
	seconds = (now_ms() - start) / 1e3;
	shared->stop = true;
	for (unsigned i = 0; i < np; i++) {
		if (pid[i]) {
			if (hold || shared->p[i].pages < mb * MB / PAGE)
				touched(i, now_ms());
			kill(pid[i], SIGKILL);
		}
		pages += shared->p[i].pages;
		again += shared->p[i].again;
		if (shared->p[i].stall > stall) {
			stall = shared->p[i].stall;
			at = shared->p[i].worst_at;
		}
	}
	while (wait(NULL) > 0)
		;
	qsort(ms, shared->n, sizeof(*ms), by_size);
	if (file_read("/sys/block/zram0/io_stat", text, sizeof(text)) ||
	    sscanf(text, "%lu %lu", &reads, &writes) != 2)
		die("no io_stat");
	if (packed)
		bd = zram_bd_stat(0);
	if (packed && !file_read("/sys/block/loop0/stat", text, sizeof(text)))
		sscanf(text, "%*u %*u %*u %*u %lu", &requests);
	requests -= requests_before;
	mark("stop", tag);
	net = longest_of_ours(&frozen_ms);
	printf("bench: {\"tag\": \"%s\", \"kind\": \"limit\", \"np\": %lu, \"mb\": %lu, "
	       "\"codec\": \"%s\", \"ended\": %d, \"seconds\": %.2f, \"touched_mb\": %.1f, "
	       "\"oom_kills\": %lu, \"stall_ms\": %.1f, \"stall_at_ms\": %.0f, "
	       "\"net_stall_ms\": %.1f, \"frozen_ms\": %.0f, \"failed_writes\": %lu, "
	       "\"failed_reads\": %lu, \"pageouts\": %u, \"pageout_p50_ms\": %.4f, "
	       "\"pageout_p999_ms\": %.3f, \"pageout_max_ms\": %.2f, \"device_mb_per_s\": %.0f, "
	       "\"filled_s\": %.2f, \"again_mb\": %.1f, \"triggers\": %u, \"bd_blocks\": %llu, "
	       "\"bd_reads\": %llu, \"bd_writes\": %llu, \"requests\": %lu}\n",
	       tag, np, mb, codec, ended, seconds, pages * PAGE / 1048576.0, killed, stall, at, net,
	       frozen_ms, writes, reads, shared->n, part(ms, 0.5), part(ms, 0.999), part(ms, 1),
	       speed, filled ? (filled - start) / 1e3 : -1, again * PAGE / 1048576.0,
	       shared->triggers, bd.blocks, bd.reads, bd.writes, requests);
	swapoff("/dev/zram0");
	return 0;
}
