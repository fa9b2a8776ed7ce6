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

#endif
