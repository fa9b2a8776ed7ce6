/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The time, of the programs that run in a guest. */
#ifndef EBB_GUEST_CLOCK_H
#define EBB_GUEST_CLOCK_H

#include <time.h>

/* Milliseconds since some moment; nobody sets this clock. */
static inline long ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000L + t.tv_nsec / 1000000;
}

#endif
