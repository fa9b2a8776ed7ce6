/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * box.h - a control group of a test's own, where the machine lets one be made: a limit on memory,
 * and what the system charges to those in it.
 *
 * A process that enters a box stays there: fork first.
 */
#ifndef EBB_TESTS_BOX_H
#define EBB_TESTS_BOX_H

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "user/home/cgroup.h"

struct box {
	char path[PATH_MAX];    /* "": there is none */
	bool v2;
	uint64_t limit;
};

static inline bool box_put(const struct box *b, const char *file, uint64_t n)
{
	char path[PATH_MAX + 64], text[32];
	int fd, len = snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	bool done;

	snprintf(path, sizeof(path), "%s/%s", b->path, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	done = write(fd, text, (size_t)len) == len;
	close(fd);
	return done;
}

/*
 * Below the process's own group, or of one above it: version 2 has none below a group with
 * processes.
 */
static inline void box_try(void *arg, struct cgroup *g)
{
	struct box *b = arg;

	if (!g->memory)
		return;
	do {
		if (*b->path)
			return;
		snprintf(b->path, sizeof(b->path), "%.4000s/ebb-box-%d", g->path, (int)getpid());
		b->v2 = g->v2;
		if (!mkdir(b->path, 0700)) {
			if (box_put(b, b->v2 ? "memory.max" : "memory.limit_in_bytes", b->limit))
				return;
			rmdir(b->path);
		}
		*b->path = '\0';
	} while (cgroup_up(g));
}

/* limit in bytes.  False: the machine does not let one be made. */
static inline bool box_make(struct box *b, uint64_t limit)
{
	memset(b, 0, sizeof(*b));
	b->limit = limit;
	cgroup_each("", box_try, b);
	return *b->path != '\0';
}

static inline bool box_enter(const struct box *b)
{
	return box_put(b, "cgroup.procs", 0);
}

/* Bytes that are charged to the box, but for pages of files. */
static inline uint64_t box_charge(struct box *b)
{
	struct cgroup g = { .path = b->path, .top = strlen(b->path), .v2 = b->v2, .memory = true };
	uint64_t all = cgroup_number(&g, b->v2 ? "memory.current" : "memory.usage_in_bytes", "");
	uint64_t file = cgroup_number(&g, "memory.stat", b->v2 ? "file " : "total_cache ");

	return all == CGROUP_NONE || file == CGROUP_NONE || file > all ? CGROUP_NONE : all - file;
}

/* Everybody has left it or ended. */
static inline void box_remove(const struct box *b)
{
	for (int tries = 0; *b->path && rmdir(b->path) && tries < 100; tries++)
		usleep(50000);
}

#endif
