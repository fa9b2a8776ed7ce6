// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A process is killed while memory is short: how soon is its memory available again?
 *
 *   kill_bench --np N --mb M [--data uniform|mixed] [--codec NAME] [--release-limit BYTES]
 *              [--zswap DISK] [--spare MIB] [--tag TEXT]
 *
 * N victims hold M MiB each, the first half swapped out, the other half resident. A
 * ballast, locked in memory, leaves --spare MiB free. All victims are killed at once,
 * and free memory is sampled every 100 us until it has kept its level for 150 ms.
 *
 *   free memory     end  - - - - - - - - ,-----------
 *                                   ,---'  |
 *                               ,--'  |    t100 (99.5 % of the rise)
 *                   base ------'|     t90
 *                         kill  t50
 *
 * The sampler runs above everyone else's priority, so that it is not the one who waits.
 * One line of JSON goes to the console: "bench: {...}".
 */
#include "client.h"

#include <sched.h>
#include <signal.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#define MAX_NP 512
#define MAX_SAMPLES 200000

static struct { double t; unsigned long free; } sample[MAX_SAMPLES];

static unsigned long free_bytes(void)
{
	struct sysinfo si;

	sysinfo(&si);
	return si.freeram * si.mem_unit;
}

/* A process that does `work`, says so, and stays. */
static pid_t stay(void (*work)(void *), void *arg, int fd)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid) {
		work(arg);
		if (write(fd, "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	return pid;
}

struct victim { unsigned long bytes; enum data_kind data; unsigned who; };

static void victim(void *arg)
{
	struct victim *v = arg;
	char *p = mmap(NULL, v->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long i, n = v->bytes / PAGE;

	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	for (i = 0; i < n / 2; i++)
		data_fill(p + i * PAGE, v->data, (uint64_t)v->who << 32 | i);
	if (page_out(p, n / 2 * PAGE) < n / 2 * PAGE / 100 * 98)
		die("a victim's half did not go to swap");
	for (; i < n; i++)
		data_fill(p + i * PAGE, v->data, (uint64_t)v->who << 32 | i);
}

static void ballast(void *arg)
{
	unsigned long bytes = *(unsigned long *)arg;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mlock(p, bytes))
		die("ballast of %lu MiB: %s", bytes / MB, strerror(errno));
}

static double reached(unsigned n, double kill, unsigned long base, unsigned long end, double part)
{
	for (unsigned i = 0; i < n; i++)
		if (sample[i].free >= base + (end - base) * part)
			return sample[i].t - kill;
	return -1;
}

int main(int argc, char **argv)
{
	static const char *data = "mixed", *codec = "lzo-rle", *limit, *zswap, *tag = "-";
	static unsigned long np = 1, mb = 256, spare = 48;
	static const struct option known[] = {
		{ "np", &np, 1, MAX_NP }, { "mb", &mb, 2, 1 << 16 }, { "spare", &spare, 1, 1 << 16 }, { "data", .text = &data },
		{ "codec", .text = &codec }, { "release-limit", .text = &limit }, { "zswap", .text = &zswap }, { "tag", .text = &tag }, { }
	};
	unsigned long held, base, top;
	struct sched_param prio = { .sched_priority = 10 };
	pid_t pid[MAX_NP], heavy = 0;
	unsigned i, n = 0;
	double t0, changed;
	int fd[2];
	char c;

	options(argc, argv, 1, known);
	/*
	 * Freed pages rest in per-CPU lists that may grow to an eighth of memory and are
	 * in no count of free memory. Bound the lists, to about 1 MiB a CPU.
	 */
	if (file_write("/proc/sys/vm/percpu_pagelist_high_fraction", "8000"))
		die("cannot bound the per-CPU page lists");
	client_on(zswap, &(struct zram_setup){ .codec = codec, .release_limit = limit },
		    (np * mb + 256) * MB);
	if (pipe(fd))
		die("pipe: %s", strerror(errno));
	for (i = 0; i < np; i++) {
		struct victim v = { mb * MB, data_parse(data), i };

		pid[i] = stay(victim, &v, fd[1]);
	}
	close(fd[1]);
	for (i = 0; i < np; i++)
		if (read(fd[0], &c, 1) != 1)
			die("a victim failed");
	close(fd[0]);
	if (pipe(fd))
		die("pipe: %s", strerror(errno));
	held = free_bytes();
	if (held > spare * MB) {
		held -= spare * MB;
		heavy = stay(ballast, &held, fd[1]);
		close(fd[1]);
		if (read(fd[0], &c, 1) != 1)
			die("the ballast failed");
	}
	sched_setscheduler(0, SCHED_FIFO, &prio);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	sleep_ms(100);

	top = base = free_bytes();
	changed = t0 = now_ms();
	for (i = 0; i < np; i++)
		kill(pid[i], SIGKILL);
	while (n < MAX_SAMPLES && now_ms() - changed < 150) {
		sample[n].free = free_bytes();
		sample[n].t = now_ms();
		/* Steps below half a percent of a victim are not the victims' doing. */
		if (sample[n].free > top + mb * MB / 200) {
			top = sample[n].free;
			changed = sample[n].t;
		}
		n++;
		sleep_ms(0.1);
	}
	for (i = 0; i < n; i++)
		if (sample[i].free > top)
			top = sample[i].free;
	for (i = 0; i < np; i++)
		waitpid(pid[i], NULL, 0);
	if (heavy) {
		kill(heavy, SIGKILL);
		waitpid(heavy, NULL, 0);
	}
	printf("bench: {\"tag\": \"%s\", \"mode\": \"kill\", \"np\": %lu, \"mb\": %lu, \"data\": \"%s\", \"codec\": \"%s\", "
	       "\"free_before_mb\": %.1f, \"freed_mb\": %.1f, \"t50_ms\": %.3f, \"t90_ms\": %.3f, \"t100_ms\": %.3f}\n",
	       tag, np, mb, data, codec, base / 1048576.0, (top - base) / 1048576.0,
	       reached(n, t0, base, top, 0.5), reached(n, t0, base, top, 0.9),
	       reached(n, t0, base, top, 0.995));
	client_off(zswap);
	return 0;
}
