// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * /proc/self/mountinfo says where the hierarchies are, /proc/self/cgroup which group of each the
 * process is in.  A container may see its own group as the root of a hierarchy, or have a part of
 * one mounted: then the groups above are out of sight, and version 1 tells their limit in
 * memory.stat.
 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

struct hierarchy {
	bool v2;
	char *options;       /* of version 1: its controllers, among others */
	char *root, *at;     /* the group that is mounted, and the folder */
};

/* mountinfo writes a space as \040. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; to++) {
		if (s[0] == '\\' && s[1] && s[2] && s[3]) {
			*to = (char)strtol((char[]){ s[1], s[2], s[3], '\0' }, NULL, 8);
			s += 4;
		} else {
			*to = *s++;
		}
	}
	*to = '\0';
}

/* The parts of line, which is cut up.  False: it is no hierarchy's. */
static bool read_hierarchy(char *line, struct hierarchy *h)
{
	char *type = strstr(line, " - "), *field[5], *rest = line;

	if (!type)
		return false;
	*type = '\0';
	type += 3;
	for (size_t i = 0; i < ARRAY_LEN(field); i++)
		if (!(field[i] = strsep(&rest, " ")))
			return false;
	h->root = field[3];
	h->at = field[4];
	unescape(h->root);
	unescape(h->at);
	h->options = type + strcspn(type, "\n");
	*h->options = '\0';
	h->v2 = !strncmp(type, "cgroup2 ", 8);
	if (!h->v2 && strncmp(type, "cgroup ", 7))
		return false;
	h->options = strrchr(type, ' ') + 1;
	return true;
}

static bool in_list(const char *list, const char *word, char between)
{
	size_t len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += len)
		if ((at == list || at[-1] == between) && (!at[len] || at[len] == between))
			return true;
	return false;
}

/* The process's group in a hierarchy that controls memory, or NULL; to be freed. */
static char *group_of(const char *root, const struct hierarchy *h)
{
	char *path = xprintf("%s/proc/self/cgroup", root), *line = NULL, *group = NULL;
	FILE *f = fopen(path, "re");
	size_t len = 0;

	while (f && !group && getline(&line, &len, f) > 0) {
		char *controllers = strchr(line, ':'), *at = controllers;

		at = at ? strchr(at + 1, ':') : NULL;
		if (!at)
			continue;
		*at++ = '\0';
		at[strcspn(at, "\n")] = '\0';
		controllers++;
		if (h->v2 ? !*controllers : in_list(controllers, "memory", ','))
			group = xprintf("%s", at);
	}
	if (f)
		fclose(f);
	free(line);
	free(path);
	return group;
}

/* The number after key in a file: its first line, or the one that starts with key. */
static uint64_t read_limit(const char *folder, const char *name, const char *key)
{
	char *path = xprintf("%s/%s", folder, name), line[256];
	FILE *f = fopen(path, "re");
	uint64_t limit = UINT64_MAX;
	size_t len = strlen(key);

	while (f && limit == UINT64_MAX && fgets(line, sizeof(line), f)) {
		char *end;

		if (strncmp(line, key, len))
			continue;
		errno = 0;
		limit = strtoull(line + len, &end, 10);
		if (end == line + len || errno)
			limit = UINT64_MAX;      /* "max" */
	}
	if (f)
		fclose(f);
	free(path);
	return limit;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The limits of a group, given below the folder of its hierarchy, and of those above it. */
static uint64_t limit_of(const char *top, const char *group, bool v2)
{
	char *folder = xprintf("%s%s", top, group);
	size_t stop = strlen(top);
	uint64_t limit = UINT64_MAX;

	for (;;) {
		if (v2) {
			limit = least(limit, read_limit(folder, "memory.max", ""));
			limit = least(limit, read_limit(folder, "memory.high", ""));
		} else {
			limit = least(limit, read_limit(folder, "memory.limit_in_bytes", ""));
			limit = least(limit, read_limit(folder, "memory.stat",
							"hierarchical_memory_limit "));
		}
		if (strlen(folder) <= stop)
			break;
		*strrchr(folder, '/') = '\0';
	}
	free(folder);
	return limit;
}

static uint64_t limit_in(const char *root, const struct hierarchy *h)
{
	char *group = group_of(root, h), *top;
	size_t len = strcmp(h->root, "/") ? strlen(h->root) : 0;
	const char *below = "";
	uint64_t limit;

	if (!group)
		return UINT64_MAX;
	/* A group that is not below what is mounted is seen as the mounted one. */
	if (!strncmp(group, h->root, len) && group[len] == '/')
		below = group + len;
	top = xprintf("%s%s", root, h->at);
	limit = limit_of(top, below, h->v2);
	free(top);
	free(group);
	return limit;
}

static uint64_t for_each_hierarchy(const char *root,
				   uint64_t (*fn)(const char *root, const struct hierarchy *h))
{
	char *path = xprintf("%s/proc/self/mountinfo", root), *line = NULL;
	FILE *f = fopen(path, "re");
	uint64_t limit = UINT64_MAX;
	struct hierarchy h;
	size_t len = 0;

	while (f && getline(&line, &len, f) > 0)
		if (read_hierarchy(line, &h))
			limit = least(limit, fn(root, &h));
	if (f)
		fclose(f);
	free(line);
	free(path);
	return limit;
}

static uint64_t memory_limit_in(const char *root, const struct hierarchy *h)
{
	return h->v2 || in_list(h->options, "memory", ',') ? limit_in(root, h) : UINT64_MAX;
}

uint64_t cgroup_memory_limit(const char *root)
{
	return for_each_hierarchy(root, memory_limit_in);
}

static uint64_t leave(const char *root, const struct hierarchy *h)
{
	char *path = xprintf("%s%s/cgroup.procs", root, h->at);
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	/* "0" is the writer.  Refused: it stays where it is. */
	if (fd >= 0) {
		if (write(fd, "0", 1) < 0)
			errno = 0;
		close(fd);
	}
	free(path);
	return UINT64_MAX;
}

void cgroup_leave(void)
{
	for_each_hierarchy("", leave);
}
