/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cgroup.h - the control groups that this process is in: what they allow it, and leaving them. */
#ifndef EBB_CGROUP_H
#define EBB_CGROUP_H

#include <stdint.h>

/*
 * The least memory limit of the process's groups and of those above them, of both versions;
 * UINT64_MAX: there is none.  root is "", or the folder that stands for "/" in a test.
 */
uint64_t cgroup_memory_limit(const char *root);

/*
 * Moves the calling process to the topmost groups that it can reach, so that the end of its
 * own does not end it.  Does what the caller's rights allow.
 */
void cgroup_leave(void);

#endif
