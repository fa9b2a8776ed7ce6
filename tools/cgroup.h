/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cgroup.h - the control groups that this process is in: what they leave it. */
#ifndef EBB_CGROUP_H
#define EBB_CGROUP_H

#include <stdint.h>

/*
 * What the process's groups, and those above them, have left of their memory limits: the least
 * limit less what is charged already and is no file's.  UINT64_MAX: there is no limit.  root is "",
 * or the folder that stands for "/" in a test.
 */
uint64_t cgroup_memory_left(const char *root);

#endif
