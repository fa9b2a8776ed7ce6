/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * advise.h - memory that the system takes back, or fills ahead.
 *
 * The system has to interrupt each other CPU that runs a thread of the process once it has taken
 * something back, and a call for many ranges does so once.  Linux has such a call for a process's
 * own memory since 6.14, and interrupts once a call since 6.16; before, each range is a call.
 */
#ifndef EBB_USER_ADVISE_H
#define EBB_USER_ADVISE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "host.h"

/*
 * In one call, at most.  Linux 6.15 takes all of them in one hold of the lock that mmap() waits
 * for, and interrupts after each.
 */
#define ADVISE_RANGES 64u

/* What was found of the system; all false at first.  Several threads may use one. */
struct advise {
	bool no_many;                    /* it has no calls for many ranges */
	bool no_fill;                    /* it fills nothing ahead */
	bool locked;                     /* some of what it took was locked */
};

/*
 * The system takes n ranges of whole pages: a touch faults in zeroed ones.  Returns how many it
 * refused, which are the first ones of range then.  May sleep.
 */
u32 advise_take(struct advise *a, struct iovec *range, u32 n);

/*
 * The system fills a range of whole pages that are about to be written to, which saves a fault for
 * each.  Where it does not, they fault.  Takes as long as the faults would, or less.
 */
void advise_fill(struct advise *a, void *at, size_t bytes);

#endif
