// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cgroup.c - asks this process's control groups how much memory is left. */
#include "cgroup.h"

#include "tool.h"
#include "user/home/cgroup.h"

/*
 * What is charged to a group but pages of files, which go when they are in the way: memory of other
 * processes, and what the kernel keeps for files that somebody looked at, which it often does not
 * find in time.
 */
static uint64_t held(const struct cgroup *g)
{
	uint64_t all = cgroup_number(g, g->v2 ? "memory.current" : "memory.usage_in_bytes", "");
	const char *keys[] = { "inactive_file ", "active_file " };
	const char *sums[] = { "total_inactive_file ", "total_active_file " };

	if (all == CGROUP_NONE)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		uint64_t file = cgroup_number(g, "memory.stat", g->v2 ? keys[i] : sums[i]);

		if (file != CGROUP_NONE)
			all -= file < all ? file : all;
	}
	return all;
}

static void take_left(void *arg, struct cgroup *g)
{
	uint64_t *left = arg;

	do {
		uint64_t limit = cgroup_limit(g), used = limit != CGROUP_NONE ? held(g) : 0;

		if (limit == CGROUP_NONE)
			continue;
		limit -= used < limit ? used : limit;
		if (limit < *left)
			*left = limit;
	} while (cgroup_up(g));
}

uint64_t cgroup_memory_left(const char *root)
{
	uint64_t left = CGROUP_NONE;

	cgroup_each(root, take_left, &left);
	return left;
}
