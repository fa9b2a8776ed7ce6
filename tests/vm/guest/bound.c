// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A process whose memory is one node's and that runs where it is told to; which node pays for
 * its compressed pages?
 *
 *   bound --node N --cpu C [--mb M] [--share PERCENT] [--over]
 *
 * Fills M MiB that are bound to node N, on CPU C, asks for them to be paged out and compares
 * nr_zspages and MemUsed of every node with what they were before: at least PERCENT of the pages
 * that came must be node N's, and no node's memory in use may have grown more. The binding is the
 * range's and not the process's, so that whoever compresses on CPU C has to ask where the page
 * lies. With --over it fills M MiB more than the node has free and lets the kernel find out;
 * nothing is asked of the shares then. Ends with a look at all pages.
 */
#define _GNU_SOURCE
#include "options.h"
#include "pages.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES 16

static unsigned long node, cpu, mb = 48, share = 95, over;

static void stop(const char *what)
{
	printf("bound: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The number after `name` in a file of node n, or -1. */
static long figure(unsigned int n, const char *file, const char *name)
{
	char path[80], line[200];
	long found = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/%s", n, file);
	f = fopen(path, "r");
	while (f && found < 0 && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, name);

		if (at)
			sscanf(at + strlen(name), "%ld", &found);
	}
	if (f)
		fclose(f);
	return found;
}

static void look(long zspages[NODES], long used[NODES])
{
	/* What each CPU has counted for itself is added. */
	FILE *f = fopen("/proc/sys/vm/stat_refresh", "w");

	if (!f || fputs("1", f) < 0 || fclose(f))
		stop("/proc/sys/vm/stat_refresh");
	for (unsigned int n = 0; n < NODES; n++) {
		zspages[n] = figure(n, "vmstat", "nr_zspages ");
		used[n] = figure(n, "meminfo", "MemUsed:");
	}
}

static long swapped(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmSwap: %ld", &kib);
	if (f)
		fclose(f);
	return kib;
}

static uint64_t word(unsigned long i)
{
	return (node * 64 + cpu + 1) << 32 | (i + 1);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "node", &node, 0, NODES - 1 }, { "cpu", &cpu, 0, 1023 }, { "mb", &mb, 1, 1 << 16 },
		{ "share", &share, 1, 100 }, { "over", &over }, { }
	};
	long before[NODES], after[NODES], used[NODES], using[NODES], came = 0, mine, most = 0;
	uint64_t want[PAGE / 8];
	unsigned long mask, n, bytes;
	cpu_set_t set;
	char *p;

	options(argc, argv, 1, known);
	mask = 1UL << node;
	if (over)
		mb += (unsigned long)figure((unsigned int)node, "meminfo", "MemFree:") / 1024;
	bytes = mb << 20, n = bytes / PAGE;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		stop("sched_setaffinity");
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		stop("mmap");
	/* The kernel takes the number of bits to be one more than it is. */
	if (syscall(SYS_mbind, p, bytes, MPOL_BIND, &mask, (unsigned long)NODES + 1, 0))
		stop("mbind");
	look(before, used);
	for (unsigned long i = 0; i < n; i++)
		page_fill((uint64_t *)(p + i * PAGE), word(i), 200);
	for (int tries = 0; !over && swapped() * 10 < (long)(bytes >> 10) * 9; tries++) {
		if (tries == 20)
			return printf("bound: %ld KiB of %lu MiB are paged out, no more\n", swapped(), mb), 1;
		if (madvise(p, bytes, MADV_PAGEOUT))
			stop("madvise");
	}
	look(after, using);
	for (unsigned long i = 0; i < n; i++) {
		page_fill(want, word(i), 200);
		if (memcmp(p + i * PAGE, want, PAGE))
			return printf("bound: block %lu is not what was written\n", i), 1;
	}
	printf("%lu MiB of node %lu on CPU %lu, pages of compressed memory and KiB in use that came", mb, node, cpu);
	for (unsigned int k = 0; k < NODES; k++) {
		if (after[k] < 0)
			continue;
		printf("; node %u %ld and %ld", k, after[k] - before[k], using[k] - used[k]);
		came += after[k] > before[k] ? after[k] - before[k] : 0;
		most = using[k] - used[k] > most ? using[k] - used[k] : most;
	}
	printf("\n");
	mine = after[node] - before[node];
	return !came ||
	       (!over && (mine * 100 < came * (long)share || using[node] - used[node] < most));
}
