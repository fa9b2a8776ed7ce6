// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * More memory is wanted than there is, and swap takes nothing: for how long does a process stand
 * still that only touches its memory?
 *
 *   limit_bench --np N --mb M [--limit MIB] [--seconds S] [--codec NAME] [--tag TEXT]
 *
 * zram has a mem_limit, so most of its writes fail.  N processes touch M MiB each, page after page,
 * and keep them; the kernel kills some.  A stall is the time between two touches, or from the last
 * one to the death or, after S seconds, to the end ("ended": 0).  Beside them one process asks for
 * one page of its own to be paged out, again and again, 1 ms apart.
 *
 * One line of JSON goes to the console: "bench: {...}".
 */
#include "zramdev.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#define MAX_NP    64
#define MAX_TIMES 400000

static struct {
	struct { volatile double last, stall, worst_at; volatile unsigned long pages; } p[MAX_NP];
	volatile bool stop;
	volatile unsigned n, out;
	volatile float ms[MAX_TIMES];
} *shared;
static unsigned long np = 8, mb = 64, limit = 1, most = 150;
static double start;

static void touched(unsigned i, double now)
{
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
	pause();
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
	static const char *codec = "lz4", *tag = "-";
	static const struct option known[] = {
		{ "np", &np, 1, MAX_NP }, { "mb", &mb, 1, 1 << 16 }, { "limit", &limit, 1, 1 << 20 },
		{ "seconds", &most, 1, 86400 }, { "codec", .text = &codec }, { "tag", .text = &tag }, { }
	};
	unsigned long pages = 0, killed = 0, reads = 0, writes = 0;
	pid_t pid[MAX_NP] = { 0 }, helper;
	double stall = 0, at = 0, seconds;
	bool ended;
	char text[256];
	float *ms;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || mlock(shared, sizeof(*shared)))
		die("shared memory: %s", strerror(errno));
	ms = (float *)shared->ms;
	file_write("/proc/self/oom_score_adj", "-1000");
	file_write("/proc/sys/vm/overcommit_memory", "1");
	zram_swapon(0, codec, 2 * np * mb * MB, NULL);
	snprintf(text, sizeof(text), "%luM", limit);
	if (zram_set(0, "mem_limit", text))
		die("mem_limit %s", text);
	if (mlockall(MCL_CURRENT))
		die("mlockall: %s", strerror(errno));
	helper = fork();
	if (!helper)
		pager();
	start = now_ms();
	for (unsigned i = 0; i < np; i++) {
		shared->p[i].last = start;
		pid[i] = fork();
		if (pid[i] < 0)
			die("fork: %s", strerror(errno));
		if (!pid[i])
			toucher(i);
	}
	while (!(ended = over(pid)) && now_ms() - start < 1e3 * (double)most) {
		int status;
		pid_t died = waitpid(-1, &status, WNOHANG);

		for (unsigned i = 0; died > 0 && i < np; i++) {
			if (pid[i] != died)
				continue;
			if (!WIFSIGNALED(status))
				die("process %u ended with %x", i, status);
			pid[i] = 0;
			killed++;
			if (shared->p[i].pages < mb * MB / PAGE)
				touched(i, now_ms());
		}
		if (died <= 0)
			sleep_ms(1);
	}
	seconds = (now_ms() - start) / 1e3;
	shared->stop = true;
	for (unsigned i = 0; i < np; i++) {
		if (pid[i]) {
			if (shared->p[i].pages < mb * MB / PAGE)
				touched(i, now_ms());
			kill(pid[i], SIGKILL);
		}
		pages += shared->p[i].pages;
		if (shared->p[i].stall > stall) {
			stall = shared->p[i].stall;
			at = shared->p[i].worst_at;
		}
	}
	waitpid(helper, NULL, 0);
	while (wait(NULL) > 0)
		;
	qsort(ms, shared->n, sizeof(*ms), by_size);
	if (file_read("/sys/block/zram0/io_stat", text, sizeof(text)) ||
	    sscanf(text, "%lu %lu", &reads, &writes) != 2)
		die("no io_stat");
	printf("bench: {\"tag\": \"%s\", \"kind\": \"limit\", \"np\": %lu, \"mb\": %lu, "
	       "\"codec\": \"%s\", \"ended\": %d, \"seconds\": %.2f, \"touched_mb\": %.1f, "
	       "\"oom_kills\": %lu, \"stall_ms\": %.1f, \"stall_at_ms\": %.0f, \"failed_writes\": %lu, "
	       "\"failed_reads\": %lu, \"pageouts\": %u, \"pageout_p50_ms\": %.4f, "
	       "\"pageout_p999_ms\": %.3f, \"pageout_max_ms\": %.2f}\n",
	       tag, np, mb, codec, ended, seconds, pages * PAGE / 1048576.0, killed, stall, at,
	       writes, reads, shared->n, part(ms, 0.5), part(ms, 0.999), part(ms, 1));
	swapoff("/dev/zram0");
	return 0;
}
