// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cpus.c - owns the list of CPUs that the process may use, as they were at its start. */
#define _GNU_SOURCE
#include "cpus.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "tool.h"

#define CPUS_MOST (1u << 20)

static unsigned int *cpus;      /* their numbers, in order */
static unsigned int count;
static size_t set_bytes;

static void find_cpus(void)
{
	/* The kernel refuses a mask that is too small for it, and does not say how large is. */
	for (unsigned int most = 1024; !count; most *= 2) {
		cpu_set_t *set = most <= CPUS_MOST ? CPU_ALLOC(most) : NULL;

		if (!set)
			fail("cannot tell which CPUs may be used: more than %u", CPUS_MOST);
		set_bytes = CPU_ALLOC_SIZE(most);
		if (!sched_getaffinity(0, set_bytes, set)) {
			cpus = xalloc((size_t)CPU_COUNT_S(set_bytes, set), sizeof(*cpus));
			for (unsigned int cpu = 0; cpu < most; cpu++)
				if (CPU_ISSET_S(cpu, set_bytes, set))
					cpus[count++] = cpu;
		} else if (errno != EINVAL) {
			fail("cannot tell which CPUs may be used: %s", strerror(errno));
		}
		CPU_FREE(set);
	}
}

unsigned int cpu_count(void)
{
	if (!count)
		find_cpus();
	return count;
}

void pin_to_cpu(unsigned int i)
{
	unsigned int n = cpu_count(), cpu = cpus[i % n];
	cpu_set_t *one = CPU_ALLOC(set_bytes * 8);

	if (!one)
		fail("out of memory for a mask of CPUs");
	CPU_ZERO_S(set_bytes, one);
	CPU_SET_S(cpu, set_bytes, one);
	/* Fails if the CPU went away meanwhile: the figures are then what they are. */
	sched_setaffinity(0, set_bytes, one);
	CPU_FREE(one);
}
