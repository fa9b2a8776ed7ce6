/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * memory.h - how much memory a subcommand may take, so that it says beforehand what would be
 * too much.
 *
 * Seven eighths of the machine's memory, or of what a cgroup's limit leaves where that is less: the
 * rest is for tables, stacks and what the other processes of the group take meanwhile.
 */
#ifndef EBB_MEMORY_H
#define EBB_MEMORY_H

#include <stdint.h>

/* Bytes of memory of the machine. */
uint64_t machine_bytes(void);

/*
 * What the process's control groups, and those above them, have left of their memory limits: the
 * least limit less what is charged already and is no file's.  UINT64_MAX: there is no limit.  root
 * is "", or the folder that stands for "/" in a test.
 */
uint64_t cgroup_memory_left(const char *root);

/* Bytes that this process may take. */
uint64_t memory_bytes(void);

/* Ends the program with one line unless bytes may be taken; "what n" asks for them. */
void memory_check(uint64_t bytes, const char *what, uint64_t n);

#endif
