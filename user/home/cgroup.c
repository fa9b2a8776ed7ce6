// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cgroup.c - see cgroup.h.
 *
 * /proc/self/mountinfo says where the hierarchies are and which group of each is mounted there,
 * /proc/self/cgroup which group of each the process is in:
 *
 *     mountinfo   ... /a     /sys/fs/cgroup ... - cgroup2     /a is mounted
 *     cgroup      0::/a/b                                     so the process's is /sys/fs/cgroup/b
 *     cgroup      0::/c      or 0::/../c                      it is out of sight
 *
 * Of groups out of sight, above what is mounted, version 1 tells the limit in memory.stat.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 4096         /* longer ones are no hierarchy's, and are passed over */

/* A file that is read line by line. */
struct lines {
	int fd;
	size_t at, end;
	char buf[1024];
};

struct hierarchy {
	const char *root, *at;  /* the group that is mounted, and the folder */
	const char *options;    /* of version 1: its controllers, among others */
	bool v2;
};

/* All that is too large for a small stack. */
struct scan {
	struct lines mounts, groups;
	char mount[LINE_BYTES], group[LINE_BYTES], path[2 * PATH_MAX];
};

static void lines_open(struct lines *l, const char *path)
{
	l->fd = open(path, O_RDONLY | O_CLOEXEC);
	l->at = l->end = 0;
}

static void lines_close(struct lines *l)
{
	if (l->fd >= 0)
		close(l->fd);
}

/* The next byte, or -1. */
static int lines_byte(struct lines *l)
{
	ssize_t n;

	if (l->at == l->end) {
		do {
			n = l->fd < 0 ? 0 : read(l->fd, l->buf, sizeof(l->buf));
		} while (n < 0 && errno == EINTR);
		if (n <= 0)
			return -1;
		l->at = 0;
		l->end = (size_t)n;
	}
	return (unsigned char)l->buf[l->at++];
}

/* The next line that fits, without its end.  False: there is none. */
static bool next_line(struct lines *l, char *line, size_t size)
{
	size_t n = 0;
	int c;

	while ((c = lines_byte(l)) >= 0) {
		if (c != '\n') {
			if (n < size)
				line[n] = (char)c;
			n += n < size;
			continue;
		}
		if (n < size)
			break;
		n = 0;
	}
	if (n == size || (c < 0 && !n))
		return false;
	line[n] = '\0';
	return true;
}

/* Appends text to what is at to.  False: there is no room. */
static bool append(char *to, size_t size, const char *text)
{
	size_t have = strlen(to), more = strlen(text);

	if (more >= size - have)
		return false;
	memcpy(to + have, text, more + 1);
	return true;
}

/* mountinfo writes a space as \040. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; to++) {
		if (s[0] == '\\' && s[1] && s[2] && s[3]) {
			*to = (char)((s[1] & 7) << 6 | (s[2] & 7) << 3 | (s[3] & 7));
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
	size_t i;

	if (!type)
		return false;
	*type = '\0';
	type += 3;
	for (i = 0; i < sizeof(field) / sizeof(*field); i++)
		if (!(field[i] = strsep(&rest, " ")))
			return false;
	unescape(field[3]);
	unescape(field[4]);
	h->root = field[3];
	h->at = field[4];
	h->v2 = !strncmp(type, "cgroup2 ", 8);
	if (!h->v2 && strncmp(type, "cgroup ", 7))
		return false;
	h->options = strrchr(type, ' ') + 1;
	return true;
}

/* Whether one of the words of list, between commas, is the first len bytes of word. */
static bool in_list(const char *list, const char *word, size_t len)
{
	for (;;) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, word, n))
			return true;
		if (!list[n])
			return false;
		list += n + 1;
	}
}

/* Sets *group to the process's group in a hierarchy; it lies in s->group. */
static bool find_group(struct scan *s, const char *root, const struct hierarchy *h,
		       const char **group)
{
	bool found = false;

	s->path[0] = '\0';
	if (!append(s->path, sizeof(s->path), root) ||
	    !append(s->path, sizeof(s->path), "/proc/self/cgroup"))
		return false;
	lines_open(&s->groups, s->path);
	while (!found && next_line(&s->groups, s->group, sizeof(s->group))) {
		char *controllers = strchr(s->group, ':'), *at;

		at = controllers ? strchr(++controllers, ':') : NULL;
		if (!at || at[1] != '/')
			continue;
		*group = at + 1;
		if (h->v2)
			found = at == controllers;
		else
			found = at > controllers &&
				in_list(h->options, controllers, strcspn(controllers, ",:"));
	}
	lines_close(&s->groups);
	return found;
}

/* The part of a group's name that is below what is mounted; NULL: it is not there. */
static const char *below(const struct hierarchy *h, const char *group)
{
	size_t len = strlen(h->root);

	/* A group outside of what the process's namespace shows. */
	if (!strncmp(group, "/..", 3) && (!group[3] || group[3] == '/'))
		return NULL;
	if (!strcmp(h->root, "/"))
		len = 0;
	if (strncmp(group, h->root, len) || (group[len] && group[len] != '/'))
		return NULL;
	return strcmp(group + len, "/") ? group + len : "";
}

void cgroup_each(const char *root, void (*fn)(void *arg, struct cgroup *g), void *arg)
{
	struct scan *s = malloc(sizeof(*s));
	const char *group;
	struct hierarchy h;

	if (!s)
		return;
	s->path[0] = '\0';
	s->mounts.fd = -1;
	if (append(s->path, sizeof(s->path), root) &&
	    append(s->path, sizeof(s->path), "/proc/self/mountinfo"))
		lines_open(&s->mounts, s->path);
	while (next_line(&s->mounts, s->mount, sizeof(s->mount))) {
		struct cgroup g = { .path = s->path };

		if (!read_hierarchy(s->mount, &h) || !find_group(s, root, &h, &group) ||
		    !(group = below(&h, group)))
			continue;
		s->path[0] = '\0';
		if (!append(s->path, PATH_MAX, root) || !append(s->path, PATH_MAX, h.at))
			continue;
		g.top = strlen(s->path);
		g.v2 = h.v2;
		g.memory = h.v2 || in_list(h.options, "memory", strlen("memory"));
		if (append(s->path, PATH_MAX, group))
			fn(arg, &g);
	}
	lines_close(&s->mounts);
	free(s);
}

bool cgroup_up(struct cgroup *g)
{
	char *end = strrchr(g->path + g->top, '/');

	if (end)
		*end = '\0';
	return end != NULL;
}

uint64_t cgroup_number(const struct cgroup *g, const char *file, const char *key)
{
	char path[PATH_MAX + 64] = "", line[256], *end;
	size_t len = strlen(key);
	uint64_t n = CGROUP_NONE;
	struct lines l;

	if (!append(path, sizeof(path), g->path) || !append(path, sizeof(path), "/") ||
	    !append(path, sizeof(path), file))
		return CGROUP_NONE;
	lines_open(&l, path);
	while (next_line(&l, line, sizeof(line))) {
		if (strncmp(line, key, len))
			continue;
		errno = 0;
		n = strtoull(line + len, &end, 10);
		if (end == line + len || errno)
			n = CGROUP_NONE;        /* "max" */
		break;
	}
	lines_close(&l);
	return n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t cgroup_limit(const struct cgroup *g)
{
	if (!g->memory)
		return CGROUP_NONE;
	if (g->v2)
		return least(cgroup_number(g, "memory.max", ""), cgroup_number(g, "memory.high", ""));
	return least(cgroup_number(g, "memory.limit_in_bytes", ""),
		     cgroup_number(g, "memory.stat", "hierarchical_memory_limit "));
}

static void take_limit(void *arg, struct cgroup *g)
{
	uint64_t *limit = arg;

	do
		*limit = least(*limit, cgroup_limit(g));
	while (cgroup_up(g));
}

uint64_t cgroup_memory_limit(const char *root)
{
	uint64_t limit = CGROUP_NONE;

	cgroup_each(root, take_limit, &limit);
	return limit;
}
