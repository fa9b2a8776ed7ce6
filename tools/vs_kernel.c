// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * vs_kernel.c - owns the processes of the published experiment.  Each fills a region and pushes it
 * out; when the last one has, all unmap at once, and the parent waits until the device is drained.
 */
#define _GNU_SOURCE
#include "vs_kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "cpus.h"
#include "ebb.h"
#include "tool.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

/* Shared by the processes of a run. */
struct shared {
	pthread_barrier_t all_out;
	struct result {
		uint64_t start_ns, end_ns, cpu_ns;
		size_t swapped;
		struct zram_stat before;    /* of all processes, in the first's */
		uint64_t swapped_bytes;
		bool done;
		char why[160];
	} result[THREADS_MAX];
};

struct run {
	struct zram_dev *dev;
	struct shared *shared;
	const struct page_set *set;
	unsigned int processes;
	size_t slots;
	pid_t pid[THREADS_MAX];
};

/* How many of the pages are swapped out: bit 62 of their pagemap entries. */
static size_t count_swapped(const unsigned char *region, size_t slots, size_t page)
{
	uint64_t entry[1024];
	size_t swapped = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	for (size_t done = 0; done < slots;) {
		size_t n = slots - done < ARRAY_LEN(entry) ? slots - done : ARRAY_LEN(entry);
		off_t at = (off_t)(((uintptr_t)region / page + done) * sizeof(*entry));

		if (pread(fd, entry, n * sizeof(*entry), at) != (ssize_t)(n * sizeof(*entry)))
			break;
		for (size_t i = 0; i < n; i++)
			swapped += entry[i] >> 62 & 1;
		done += n;
	}
	close(fd);
	return swapped;
}

/* Fills and pushes out; returns the region, or NULL with the reason in the result. */
static unsigned char *fill_and_push_out(const struct run *run, unsigned int i, struct result *res)
{
	size_t page = ebb_page_size(), bytes = run->slots * page;
	size_t first = i * (run->slots / run->processes);
	unsigned char *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (region == MAP_FAILED) {
		snprintf(res->why, sizeof(res->why), "cannot map %zu bytes: %s", bytes,
			 strerror(errno));
		return NULL;
	}
	/* Fails where the kernel has no huge pages; then nothing needs doing. */
	madvise(region, bytes, MADV_NOHUGEPAGE);
	for (size_t p = 0; p < run->slots; p++)
		memcpy(region + p * page, data_page(run->set, first + p), page);

	/* Pages on other CPUs' lists are passed over at first: ask again. */
	for (int tries = 0; tries < 10; tries++) {
		if (madvise(region, bytes, MADV_PAGEOUT)) {
			snprintf(res->why, sizeof(res->why), "MADV_PAGEOUT: %s", strerror(errno));
			return NULL;
		}
		res->swapped = count_swapped(region, run->slots, page);
		if (res->swapped * 100 >= run->slots * 99)
			return region;
		usleep(1000);
	}
	snprintf(res->why, sizeof(res->why),
		 "only %zu of %zu pages went to swap; expected 99 %%; is a memory limit set?",
		 res->swapped, run->slots);
	return NULL;
}

static void process_main(const struct run *run, unsigned int i, pid_t parent)
{
	struct shared *sh = run->shared;
	struct result *res = &sh->result[i];
	unsigned char *region;
	uint64_t cpu;

	/* The parent decides when to stop; without it, so does the kernel. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (signal(SIGTERM, SIG_DFL) == SIG_IGN)
		signal(SIGTERM, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILED);
	close(run->dev->pipe);
	pin_to_cpu(i);

	region = fill_and_push_out(run, i, res);
	if (!region)
		_exit(EXIT_FAILED);
	if (pthread_barrier_wait(&sh->all_out) == PTHREAD_BARRIER_SERIAL_THREAD) {
		zram_read_stat(run->dev, &sh->result[0].before);
		sh->result[0].swapped_bytes = zram_swapped_bytes(run->dev);
	}
	pthread_barrier_wait(&sh->all_out);

	cpu = process_cpu_ns();
	res->start_ns = now_ns();
	munmap(region, run->slots * ebb_page_size());
	res->end_ns = now_ns();
	res->cpu_ns = process_cpu_ns() - cpu;
	res->done = true;
	_exit(0);
}

static void end_processes(struct run *run)
{
	for (unsigned int i = 0; i < run->processes; i++) {
		if (run->pid[i] > 0) {
			kill(run->pid[i], SIGKILL);
			waitpid(run->pid[i], NULL, 0);
			run->pid[i] = 0;
		}
	}
}

/* A process that fails leaves the others at the barrier: they are ended. */
static void wait_for_processes(struct run *run)
{
	unsigned int left = run->processes;

	while (left) {
		bool moved = false;

		for (unsigned int i = 0; i < run->processes; i++) {
			const struct result *res = &run->shared->result[i];

			if (run->pid[i] <= 0 || waitpid(run->pid[i], NULL, WNOHANG) != run->pid[i])
				continue;
			run->pid[i] = 0;
			moved = true;
			left--;
			if (!res->done) {
				end_processes(run);
				stop_if_interrupted();
				fail("--vs-kernel: process %u of %u: %s", i + 1, run->processes,
				     *res->why ? res->why : "it was killed");
			}
		}
		if (interrupted()) {
			end_processes(run);
			stop_if_interrupted();
		}
		/* 20 ms: seldom enough to leave the measured CPUs alone. */
		if (!moved)
			sleep_us(20000);
	}
}

void kernel_open(struct zram_dev *dev, const char *codec, unsigned int processes, size_t slots)
{
	uint64_t bytes = (uint64_t)processes * slots * ebb_page_size();

	/* Who is not root is told so first, by zram_open(). */
	if (!geteuid() && (size_t)sysconf(_SC_PAGESIZE) != ebb_page_size())
		fail("--vs-kernel: the kernel's pages have %ld bytes; expected %zu",
		     sysconf(_SC_PAGESIZE), ebb_page_size());
	/* Each CPU takes clusters of swap slots for itself: an eighth more, and 64 MiB. */
	bytes += bytes / 8 + (64 << 20);
	zram_open(dev, codec, bytes & ~(uint64_t)((1 << 20) - 1), true);
}

/* Without a worker in the kernel this is over when munmap is; the sum is looked at anyway. */
static double wait_until_drained(struct zram_dev *dev, uint64_t before, uint64_t first_ns,
				 uint64_t last_ns)
{
	uint64_t end = last_ns + 5000000000u, now = last_ns;
	struct zram_stat st;

	zram_read_stat(dev, &st);
	while (st.orig_data_size > before / 100 && now < end) {
		sleep_us(200);
		stop_if_interrupted();
		zram_read_stat(dev, &st);
		now = now_ns();
	}
	if (st.orig_data_size > before / 100)
		fail("--vs-kernel: zram still holds %llu bytes 5 s after munmap; expected none",
		     (unsigned long long)st.orig_data_size);
	return (double)(now - first_ns) / 1e6;
}

void kernel_run(struct zram_dev *dev, const struct page_set *set, unsigned int processes,
		size_t slots, struct kernel_sample *sample)
{
	struct run run = { .dev = dev, .set = set, .processes = processes, .slots = slots };
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t first = UINT64_MAX, last = 0;
	pthread_barrierattr_t attr;
	pid_t parent = getpid();

	if (sh == MAP_FAILED)
		fail("cannot map shared memory: %s", strerror(errno));
	run.shared = sh;
	if (pthread_barrierattr_init(&attr) ||
	    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) ||
	    pthread_barrier_init(&sh->all_out, &attr, processes))
		fail("cannot make a barrier between processes");
	cpu_count();
	fflush(NULL);
	for (unsigned int i = 0; i < processes; i++) {
		run.pid[i] = fork();
		if (run.pid[i] < 0) {
			int err = errno;

			end_processes(&run);
			fail("cannot start process %u of %u: %s", i + 1, processes, strerror(err));
		}
		if (!run.pid[i])
			process_main(&run, i, parent);
	}
	wait_for_processes(&run);

	if (sh->result[0].swapped_bytes < (uint64_t)processes * slots * ebb_page_size() / 100 * 98)
		fail("--vs-kernel: only %llu MiB went to zram%d; expected %llu; is there other swap?",
		     (unsigned long long)sh->result[0].swapped_bytes >> 20, dev->number,
		     (unsigned long long)processes * slots * ebb_page_size() >> 20);
	memset(sample, 0, sizeof(*sample));
	for (unsigned int i = 0; i < processes; i++) {
		const struct result *res = &sh->result[i];

		first = res->start_ns < first ? res->start_ns : first;
		last = res->end_ns > last ? res->end_ns : last;
		sample->mean_ms += (double)(res->end_ns - res->start_ns) / 1e6 / processes;
		sample->cpu_ns += (double)res->cpu_ns;
	}
	sample->wall_ms = (double)(last - first) / 1e6;
	sample->compr_bytes = (double)sh->result[0].before.compr_data_size;
	sample->drained_ms = wait_until_drained(dev, sh->result[0].before.orig_data_size, first,
						last);
	munmap(sh, sizeof(*sh));
}
