/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* alone.h - runs in processes of their own, so that none sees what another left in memory. */
#ifndef EBB_ALONE_H
#define EBB_ALONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Calls fn(arg, found) in a process of its own; found[bytes] comes back by a pipe.  Ends the
 * program if that process ends by another way than returning.
 */
void run_alone(const char *what, void (*fn)(void *arg, void *found), void *arg, void *found,
	       size_t bytes);

/*
 * Starts this program again with argv (its own name first, NULL last), a library preloaded and
 * NAME=VALUE in the environment, NULL for none of either, and takes the found[bytes] that it writes
 * to its standard output.  What preloads and tunes this process is not handed on.  Returns whether
 * all of that came and it ended with status 0; `quiet`, it has no standard error.
 */
bool run_again(char *const argv[], const char *library, const char *setting, bool quiet,
	       void *found, size_t bytes);

/* What the process has in memory: exact, unlike statm, whose counters lag per CPU. */
uint64_t resident_bytes(void);

#endif
