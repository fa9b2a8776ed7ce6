/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cgroup.h - the control groups that this process is in, and their limits on memory.
 *
 * The library and the command build cgroup.c each for itself, so it needs nothing of either.  It
 * never fails: what cannot be read, or may be another process's group, limits nothing.  Files are
 * read: cancellation points, some 100 us.  root is "", or the folder that stands for "/" in a test.
 */
#ifndef EBB_USER_CGROUP_H
#define EBB_USER_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A group of this process, in one of the hierarchies that are mounted. */
struct cgroup {
	char *path;             /* its folder; cgroup_up() shortens it */
	size_t top;             /* as much of it names the topmost group in sight */
	bool v2;
	bool memory;            /* it may limit memory */
};

/* Calls fn for the process's own group in each hierarchy in which it is in sight. */
void cgroup_each(const char *root, void (*fn)(void *arg, struct cgroup *g), void *arg);

/* Goes to the group above.  False: it is out of sight. */
bool cgroup_up(struct cgroup *g);

/* The number in a group's file: in its first line, or in the first that starts with key. */
#define CGROUP_NONE UINT64_MAX
uint64_t cgroup_number(const struct cgroup *g, const char *file, const char *key);

/* What a group allows in bytes, those above it not asked; CGROUP_NONE. */
uint64_t cgroup_limit(const struct cgroup *g);

/* The least limit of the process's groups and of those above them; CGROUP_NONE. */
uint64_t cgroup_memory_limit(const char *root);

#endif
