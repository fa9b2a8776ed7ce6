/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* stay.h - for tests of what is a CPU's: they stay on one.  _GNU_SOURCE, as support.h has it. */
#ifndef EBB_TESTS_STAY_H
#define EBB_TESTS_STAY_H

#include "support.h"

#include <sched.h>

/* Returns where the caller was. */
static inline cpu_set_t stay_on_this_cpu(void)
{
	cpu_set_t all, one;

	must_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	must_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	return all;
}

/* The CPUs of a test that takes two; it is skipped if there is one. */
static inline cpu_set_t stay_two_cpus(void)
{
	cpu_set_t all;

	must_eq(sched_getaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2)
		skip_because("there is one CPU");
	return all;
}

/* On the nr-th of the CPUs in *all, from 0 on. */
static inline void stay_on(const cpu_set_t *all, unsigned int nr)
{
	unsigned int cpu;
	cpu_set_t one;

	CPU_ZERO(&one);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, all) && !nr--) {
			CPU_SET(cpu, &one);
			must_eq(sched_setaffinity(0, sizeof(one), &one), 0);
			return;
		}
	must(!"as many CPUs");
}

#endif
