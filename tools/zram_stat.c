// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zram_stat.c - reads the files of zram devices, and computes what they do not say themselves.
 */
#define _GNU_SOURCE
#include "zram_stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"

#define FIELDS_MOST 24

const struct zram_figure_info zram_figure_infos[ZRAM_FIGURES] = {
#define ZRAM_INFO(name, ...) [ZRAM_##name] = { __VA_ARGS__ },
	ZRAM_FIGURES_ALL(ZRAM_INFO)
#undef ZRAM_INFO
};

/* ---- one file ---- */

/* What does not end in a newline was cut short: its last number may be another one. */
const char *zram_read(int dir, const char *file, char text[ZRAM_TEXT + 1])
{
	int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	ssize_t n = 0;
	struct stat st;
	int err;

	if (fd < 0)
		return errno == ENOENT ? "" : strerror(errno);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return "expected a regular file";
	}
	while (len <= ZRAM_TEXT && (n = read(fd, text + len, ZRAM_TEXT + 1 - len)) > 0)
		len += (size_t)n;
	err = errno;
	close(fd);
	if (n < 0)
		return err == ENOENT ? "" : strerror(err);
	if (!len || len > ZRAM_TEXT || text[len - 1] != '\n' || memchr(text, '\0', len))
		return "expected a whole line";
	text[len - 1] = '\0';
	return NULL;
}

unsigned int zram_read_numbers(const char **text, uint64_t *v, unsigned int most)
{
	unsigned int n = 0;

	while (n < most) {
		const char *at = *text + strspn(*text, " \t");

		if (!digits_read(&at, &v[n]) || (*at && *at != ' ' && *at != '\t'))
			break;
		n++;
		*text = at;
	}
	*text += strspn(*text, " \t");
	return n;
}

static uint64_t in_bytes(uint64_t v, unsigned int unit)
{
	uint64_t scale = unit == PAGE ? (uint64_t)sysconf(_SC_PAGESIZE) : unit;

	return __builtin_mul_overflow(v, scale, &v) ? UINT64_MAX : v;
}

/* ---- one device ---- */

struct visit {
	struct zram_looks *looks;
	struct zram_look *dev;
	const char *sysfs;
	int dir;
};

static void set_figure(struct zram_look *dev, unsigned int f, uint64_t v)
{
	dev->v[f] = v;
	dev->known |= (uint64_t)1 << f;
}

static void add_wrong(const struct visit *visit, const char *file, const char *why)
{
	struct zram_looks *l = visit->looks;

	l->wrong = realloc(l->wrong, (l->nwrong + 1) * sizeof(*l->wrong));
	if (!l->wrong)
		no_memory();
	l->wrong[l->nwrong++] = xprintf("%s/block/%s/%s: %s", visit->sysfs, visit->dev->name, file,
					why);
}

/* False: there is nothing to be had from it, and it is named unless it is not there. */
static bool visit_file(const struct visit *visit, const char *file, char text[ZRAM_TEXT + 1])
{
	const char *why = zram_read(visit->dir, file, text);

	if (why && *why)
		add_wrong(visit, file, why);
	return !why;
}

/* The figures of the file of figure first; returns where those of the next one start. */
static unsigned int visit_numbers(const struct visit *visit, unsigned int first)
{
	const struct zram_figure_info *infos = zram_figure_infos;
	const char *file = infos[first].file, *at;
	unsigned int n, least = 0, most = 0, end = first;
	char text[ZRAM_TEXT + 1], why[64];
	uint64_t v[FIELDS_MOST];

	for (; end < ZRAM_FIGURES && infos[end].file && !strcmp(infos[end].file, file); end++) {
		most = infos[end].field + 1;
		/* Which kernels before 4.18 lack. */
		if (end != ZRAM_HUGE)
			least = most;
	}
	if (!visit_file(visit, file, text))
		return end;
	at = text;
	n = zram_read_numbers(&at, v, most);
	if (n < least || (n < most && *at)) {
		snprintf(why, sizeof(why), "expected %u number%s", most, most > 1 ? "s" : "");
		add_wrong(visit, file, why);
		return end;
	}
	for (unsigned int f = first; f < end; f++)
		if (infos[f].field < n)
			set_figure(visit->dev, f, in_bytes(v[infos[f].field], infos[f].unit));
	return end;
}

/* "[lzo-rle] lzo lz4": the one between the brackets. */
static char *visit_algorithm(const struct visit *visit)
{
	char text[ZRAM_TEXT + 1], *open, *close;

	if (!visit_file(visit, "comp_algorithm", text))
		return NULL;
	open = strchr(text, '[');
	close = open ? strchr(open, ']') : NULL;
	if (!close || close == open + 1) {
		add_wrong(visit, "comp_algorithm", "expected one name in brackets");
		return NULL;
	}
	return xprintf("%.*s", (int)(close - open - 1), open + 1);
}

static char *visit_backing_dev(const struct visit *visit)
{
	char text[ZRAM_TEXT + 1];

	if (!visit_file(visit, "backing_dev", text) || !strcmp(text, "none"))
		return NULL;
	return xprintf("%s", text);
}

/* The files are read one after the other, so what they say together may be a little off. */
static void compute_objects(struct zram_look *dev, bool can_back)
{
	const uint64_t *v = dev->v;
	uint64_t left = v[ZRAM_STORED];

	if (!zram_knows(dev, ZRAM_STORED) || (can_back && !zram_knows(dev, ZRAM_BACKED)))
		return;
	left -= v[ZRAM_SAME] < left ? v[ZRAM_SAME] : left;
	left -= v[ZRAM_BACKED] < left ? v[ZRAM_BACKED] : left;
	set_figure(dev, ZRAM_OBJECTS, left);
}

static void look_free(struct zram_look *dev)
{
	free(dev->algorithm);
	free(dev->backing_dev);
}

/*
 * False: it is not there, or no longer.  Of a device that is removed, disksize is the first file
 * to go: while it is there, so were the others, as far as the kernel has them.
 */
static bool look(struct zram_looks *looks, const char *sysfs, int block, struct zram_look *dev)
{
	struct visit visit = { looks, dev, sysfs, -1 };
	size_t wrong_before = looks->nwrong;
	unsigned int f = 0;
	bool there;

	visit.dir = openat(block, dev->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (visit.dir < 0)
		return false;
	dev->at_ns = now_ns();
	while (f < ZRAM_FIGURES)
		f = zram_figure_infos[f].file ? visit_numbers(&visit, f) : f + 1;
	dev->algorithm = visit_algorithm(&visit);
	dev->backing_dev = visit_backing_dev(&visit);
	compute_objects(dev, !faccessat(visit.dir, "bd_stat", F_OK, 0));
	there = !faccessat(visit.dir, "disksize", F_OK, 0);
	close(visit.dir);
	if (!there) {
		while (looks->nwrong > wrong_before)
			free(looks->wrong[--looks->nwrong]);
		look_free(dev);
	}
	return there;
}

/* ---- all devices ---- */

int zram_number(const char *name)
{
	const char *at = name + 4;
	uint64_t v;

	if (strncmp(name, "zram", 4) || !digits_read(&at, &v) || *at || v > INT32_MAX ||
	    (name[4] == '0' && name[5]))
		return -1;
	return (int)v;
}

static int is_device(const struct dirent *e)
{
	return zram_number(e->d_name) >= 0;
}

struct zram_look *zram_find(const struct zram_looks *looks, const char *name)
{
	for (size_t i = 0; i < looks->n; i++)
		if (!strcmp(looks->dev[i].name, name))
			return &looks->dev[i];
	return NULL;
}

/* Lines "zramN" and five numbers, of devices that may be gone; without the daemon no file. */
static void look_at_state(const char *state, struct zram_looks *looks)
{
	FILE *f = fopen(state, "re");
	unsigned long long v[ZRAM_SAVED - ZRAM_DAY_BUDGET + 1];
	char name[16];

	while (f && fscanf(f, "%15s %llu %llu %llu %llu %llu\n", name, &v[0], &v[1], &v[2], &v[3],
			   &v[4]) == 6) {
		struct zram_look *dev = zram_find(looks, name);

		for (unsigned int i = 0; dev && i < ARRAY_LEN(v); i++)
			set_figure(dev, ZRAM_DAY_BUDGET + i, v[i]);
	}
	if (f)
		fclose(f);
}

void zram_look_all(const char *sysfs, const char *state, struct zram_looks *looks)
{
	char *path = xprintf("%s/block", sysfs);
	int block = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = -1;
	struct dirent **names;

	memset(looks, 0, sizeof(*looks));
	if (block >= 0)
		n = scandirat(block, ".", &names, is_device, versionsort);
	if (n < 0)
		fail("%s: %s; expected the block devices of a sysfs", path, strerror(errno));
	looks->dev = xalloc((size_t)n, sizeof(*looks->dev));
	for (int i = 0; i < n; i++) {
		struct zram_look *dev = &looks->dev[looks->n];

		memset(dev, 0, sizeof(*dev));
		snprintf(dev->name, sizeof(dev->name), "%.15s", names[i]->d_name);
		looks->n += look(looks, sysfs, block, dev);
		free(names[i]);
	}
	free(names);
	look_at_state(state, looks);
	close(block);
	free(path);
}

void zram_looks_free(struct zram_looks *looks)
{
	for (size_t i = 0; i < looks->n; i++)
		look_free(&looks->dev[i]);
	for (size_t i = 0; i < looks->nwrong; i++)
		free(looks->wrong[i]);
	free(looks->dev);
	free(looks->wrong);
	memset(looks, 0, sizeof(*looks));
}

bool zram_interval(const struct zram_look *before, const struct zram_look *now, double *s)
{
	if (!before || now->at_ns <= before->at_ns ||
	    now->v[ZRAM_DISKSEQ] != before->v[ZRAM_DISKSEQ])
		return false;
	*s = (double)(now->at_ns - before->at_ns) / 1e9;
	return true;
}

bool zram_rate(const struct zram_look *before, const struct zram_look *now, enum zram_figure f,
	       double *per_s)
{
	double s;

	if (!zram_interval(before, now, &s) || !zram_knows(before, f) || !zram_knows(now, f) ||
	    now->v[f] < before->v[f])
		return false;
	*per_s = (double)(now->v[f] - before->v[f]) / s;
	return true;
}
