// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* memory.c - owns how much memory the command may take, and says what would be too much. */
#include "memory.h"

#include <unistd.h>

#include "args.h"
#include "user/home/cgroup.h"

uint64_t machine_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	if (pages <= 0 || size <= 0)
		fail("cannot tell how much memory this machine has");
	return (uint64_t)pages * (uint64_t)size;
}

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

uint64_t memory_bytes(void)
{
	static uint64_t bytes;

	if (!bytes) {
		uint64_t machine = machine_bytes(), left = cgroup_memory_left("");

		bytes = (left < machine ? left : machine) / 8 * 7;
	}
	return bytes;
}

/* Down to whole MiB, or below one to what is a multiple of every page size. */
static uint64_t rounded(uint64_t bytes)
{
	return bytes >> 20 ? bytes >> 20 << 20 : bytes >> 16 << 16;
}

void memory_check(uint64_t bytes, const char *what, uint64_t n)
{
	char need[32], may[32];

	if (bytes > memory_bytes())
		usage_fail("%s %llu may need %s; expected at most the %s that this process may take",
			   what, (unsigned long long)n,
			   size_text((bytes >> 20 << 20) + (1 << 20), need),
			   size_text(rounded(memory_bytes()), may));
}
