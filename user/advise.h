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

#define ADVISE_RANGES 256u               /* in one call, at most; the system allows 1024 */

/*
 * The system takes n ranges of whole pages, at most ADVISE_RANGES: a touch faults in zeroed ones.
 * Returns how many it refused, which are the first ones of range then.  *locked becomes true if
 * some were locked.  May sleep.
 */
u32 advise_take(struct iovec *range, u32 n, bool *locked);

/*
 * The system fills a range of whole pages that are about to be written to, which saves a fault for
 * each.  Where it does not, they fault.  May sleep.
 */
void advise_fill(void *at, size_t bytes);

#endif
