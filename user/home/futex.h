/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * futex.h - how the user-space home sleeps: by raw system calls, which are no cancellation points.
 *
 * Where a filter refuses a call, a sleep becomes a shorter one or none: who waits looks more often.
 */
#ifndef EBB_USER_FUTEX_H
#define EBB_USER_FUTEX_H

#include "host.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC 1000000000ull

#ifndef SYS_futex
#define SYS_futex SYS_futex_time64
#endif

/* Sleeps for ns, less than a second. */
static inline void sleep_raw(long ns)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = ns };

	if (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL))
		sched_yield();
}

/* What a futex call answered that did not sleep to its end: refused, it is a short sleep. */
static inline void futex_failed(void)
{
	if (errno == EPERM || errno == ENOSYS || errno == EACCES)
		sleep_raw(1000000);
}

static inline void futex_wait_rel(u32 *word, u32 val, long ns)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = ns };

	if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, val, &ts, NULL, 0))
		futex_failed();
}

/* until: ktime_get_ns() time; HOST_USER_NO_WAKE: no end.  True: it slept, and was woken. */
static inline bool futex_wait_until(u32 *word, u32 val, u64 until)
{
	struct timespec ts;

	if (until != HOST_USER_NO_WAKE) {
		ts.tv_sec = (time_t)(until / NS_PER_SEC);
		ts.tv_nsec = (long)(until % NS_PER_SEC);
	}
	if (!syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, val,
		     until != HOST_USER_NO_WAKE ? &ts : NULL, NULL, FUTEX_BITSET_MATCH_ANY))
		return true;
	futex_failed();
	return false;
}

static inline void futex_wake(u32 *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

#endif
