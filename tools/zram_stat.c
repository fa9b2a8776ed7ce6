// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which figure stands where is a table.  Kernels add fields at a line's end, and older ones lack
 * the later: those are optional, and what comes after the last one that is wanted is not looked at.
 */
#define _GNU_SOURCE
#include "zram_stat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

#define FILE_MOST 4096      /* of sysfs: a page */
#define FIELDS_MOST 24

enum unit { ONE = 1, SECTOR = 512, BLOCK = 4096, PAGE = 0 };

/* The figures of one file stand together, so that it is read once. */
static const struct source {
	const char *file;
	unsigned int field;
	bool optional;
	enum unit unit;
	enum zram_figure figure;
} sources[] = {
	{ "disksize",                0, false, ONE,    ZRAM_DISKSIZE },
	{ "mm_stat",                 0, false, ONE,    ZRAM_STORED },
	{ "mm_stat",                 1, false, ONE,    ZRAM_COMPRESSED },
	{ "mm_stat",                 2, false, ONE,    ZRAM_USED },
	{ "mm_stat",                 3, false, ONE,    ZRAM_LIMIT },
	{ "mm_stat",                 4, false, ONE,    ZRAM_USED_MAX },
	{ "mm_stat",                 5, false, PAGE,   ZRAM_SAME },
	{ "mm_stat",                 6, false, PAGE,   ZRAM_COMPACTED },
	{ "mm_stat",                 7, true,  PAGE,   ZRAM_HUGE },
	{ "stat",                    2, false, SECTOR, ZRAM_READ },
	{ "stat",                    6, false, SECTOR, ZRAM_WRITTEN },
	{ "io_stat",                 0, false, ONE,    ZRAM_FAILED_READS },
	{ "io_stat",                 1, false, ONE,    ZRAM_FAILED_WRITES },
	{ "io_stat",                 3, false, PAGE,   ZRAM_FREED },
	{ "bd_stat",                 0, false, BLOCK,  ZRAM_BACKED },
	{ "bd_stat",                 1, false, BLOCK,  ZRAM_BACKING_READ },
	{ "bd_stat",                 2, false, BLOCK,  ZRAM_BACKING_WRITTEN },
	{ "writeback_limit",         0, false, BLOCK,  ZRAM_BUDGET },
	{ "writeback_limit_enable",  0, false, ONE,    ZRAM_BUDGET_ON },
	{ "release_stat",            0, false, ONE,    ZRAM_HELD },
	{ "release_stat",            1, false, ONE,    ZRAM_HELD_MAX },
	{ "release_limit",           0, false, ONE,    ZRAM_HELD_LIMIT },
	{ "diskseq",                 0, false, ONE,    ZRAM_DISKSEQ },
};

const struct zram_figure_info zram_figure_infos[ZRAM_FIGURES] = {
	[ZRAM_DISKSIZE] = { "disksize_bytes", false, "Size of the device." },
	[ZRAM_STORED] = { "stored_bytes", false,
		"Pages that hold something, before compression, written-back ones included." },
	[ZRAM_COMPRESSED] = { "compressed_bytes", false, "Compressed size of what is in memory." },
	[ZRAM_USED] = { "memory_used_bytes", false, "Memory that the pool takes." },
	[ZRAM_LIMIT] = { "memory_limit_bytes", false, "Most memory the pool may take; 0 is no limit." },
	[ZRAM_USED_MAX] = { "memory_used_max_bytes", false, "Most memory the pool took." },
	[ZRAM_SAME] = { "same_bytes", false, "Stored pages of one repeated word, which take no memory." },
	[ZRAM_OBJECTS] = { "objects_bytes", false,
		"Stored pages that are objects in memory: neither same-filled nor written back." },
	[ZRAM_HUGE] = { "huge_bytes", false, "Those of the objects that did not compress." },
	[ZRAM_BACKED] = { "backed_bytes", false, "Stored pages that are on the backing device." },
	[ZRAM_COMPACTED] = { "compacted_bytes", true, "Memory that compaction gave back." },
	[ZRAM_READ] = { "read_bytes", true, "Read from the device." },
	[ZRAM_WRITTEN] = { "written_bytes", true, "Written to the device." },
	[ZRAM_FREED] = { "freed_bytes", true, "Pages freed by swap or by a discard." },
	[ZRAM_FAILED_READS] = { "failed_reads", true, "Reads that failed." },
	[ZRAM_FAILED_WRITES] = { "failed_writes", true, "Writes that failed." },
	[ZRAM_BACKING_READ] = { "backing_read_bytes", true, "Read from the backing device." },
	[ZRAM_BACKING_WRITTEN] = { "backing_written_bytes", true, "Written to the backing device." },
	[ZRAM_BUDGET] = { "writeback_limit_bytes", false,
		"What may still be written to the backing device, if the limit is enabled." },
	[ZRAM_BUDGET_ON] = { "writeback_limit_enabled", false, "1 if writeback_limit holds." },
	[ZRAM_HELD] = { "held_back_bytes", false, "Freed objects that wait for Ebb's worker." },
	[ZRAM_HELD_MAX] = { "held_back_max_bytes", false, "Most bytes that were held back." },
	[ZRAM_HELD_LIMIT] = { "held_back_limit_bytes", false, "Most bytes that may be held back." },
	[ZRAM_DAY_BUDGET] = { "writeback_budget_bytes", false,
		"What ebb tierd may have written back in any 24 hours; 0 is no bound." },
	[ZRAM_DAY_SPENT] = { "writeback_24h_bytes", false, "Written back in the last 24 hours." },
	[ZRAM_AGED] = { "writeback_aged_bytes", true, "Written back by ebb tierd for its age." },
	[ZRAM_AHEAD] = { "writeback_ahead_bytes", true, "Written back by it ahead of need." },
	[ZRAM_SAVED] = { "recompress_saved_bytes", true,
		"Compressed bytes that its recompression saved." },
};

/* ---- one file ---- */

/*
 * Its text without the last newline, in buf; -errno otherwise, with *why for EINVAL.  What does
 * not end in a newline was cut short: its last number may be another one.
 */
static int read_line(int dir, const char *file, char buf[FILE_MOST + 1], const char **why)
{
	int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	ssize_t n = 0;
	struct stat st;
	int err = 0;

	*why = NULL;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st)) {
		err = -errno;
	} else if (!S_ISREG(st.st_mode)) {
		*why = "expected a regular file";
	} else {
		while (len <= FILE_MOST &&
		       (n = read(fd, buf + len, FILE_MOST + 1 - len)) != 0) {
			if (n > 0)
				len += (size_t)n;
			else if (errno != EINTR)
				break;
		}
		err = n < 0 ? -errno : 0;
	}
	close(fd);
	if (err)
		return err;
	if (!*why && (!len || len > FILE_MOST || buf[len - 1] != '\n' ||
		      memchr(buf, '\0', len)))
		*why = "expected a whole line";
	if (*why)
		return -EINVAL;
	buf[len - 1] = '\0';
	return 0;
}

/* The first numbers in a line, up to its end or another word; how many, never more than most. */
static unsigned int read_numbers(const char *at, uint64_t *v, unsigned int most, bool *other)
{
	unsigned int n = 0;

	while (n < most) {
		char *end;

		at += strspn(at, " \t");
		if (*at < '0' || *at > '9')
			break;
		errno = 0;
		v[n] = strtoull(at, &end, 10);
		if (errno || (*end && *end != ' ' && *end != '\t'))
			break;
		n++;
		at = end;
	}
	*other = n < most && *at;
	return n;
}

static uint64_t in_bytes(uint64_t v, enum unit unit)
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

static void add_wrong(const struct visit *visit, const char *file, const char *why)
{
	struct zram_looks *l = visit->looks;

	l->wrong = realloc(l->wrong, (l->nwrong + 1) * sizeof(*l->wrong));
	if (!l->wrong)
		fail("out of memory for a list of files");
	l->wrong[l->nwrong++] = xprintf("%s/block/zram%u/%s: %s", visit->sysfs, visit->dev->number,
					file, why);
}

/* False: there is nothing to be had from it, and it is named unless it is not there. */
static bool visit_file(const struct visit *visit, const char *file, char buf[FILE_MOST + 1])
{
	const char *why;
	int err = read_line(visit->dir, file, buf, &why);

	if (err && err != -ENOENT)
		add_wrong(visit, file, err == -EINVAL && why ? why : strerror(-err));
	return !err;
}

/* The figures of the file of sources[first]; returns where those of the next one start. */
static size_t visit_numbers(const struct visit *visit, size_t first)
{
	const char *file = sources[first].file;
	unsigned int n, least = 0, most = 0;
	char buf[FILE_MOST + 1], why[64];
	uint64_t v[FIELDS_MOST];
	size_t end = first;
	bool other;

	for (; end < ARRAY_LEN(sources) && !strcmp(sources[end].file, file); end++) {
		most = sources[end].field + 1;
		if (!sources[end].optional)
			least = most;
	}
	if (!visit_file(visit, file, buf))
		return end;
	n = read_numbers(buf, v, most, &other);
	if (n < least || other) {
		snprintf(why, sizeof(why), "expected %u number%s", most, most > 1 ? "s" : "");
		add_wrong(visit, file, why);
		return end;
	}
	for (const struct source *s = &sources[first]; s < &sources[end]; s++) {
		if (s->field >= n)
			continue;
		visit->dev->v[s->figure] = in_bytes(v[s->field], s->unit);
		visit->dev->known |= (uint64_t)1 << s->figure;
	}
	return end;
}

/* "[lzo-rle] lzo lz4": the one between the brackets. */
static char *visit_algorithm(const struct visit *visit)
{
	char buf[FILE_MOST + 1], *open, *close;

	if (!visit_file(visit, "comp_algorithm", buf))
		return NULL;
	open = strchr(buf, '[');
	close = open ? strchr(open, ']') : NULL;
	if (!close || close == open + 1) {
		add_wrong(visit, "comp_algorithm", "expected one name in brackets");
		return NULL;
	}
	return xprintf("%.*s", (int)(close - open - 1), open + 1);
}

static char *visit_backing_dev(const struct visit *visit)
{
	char buf[FILE_MOST + 1];

	if (!visit_file(visit, "backing_dev", buf) || !strcmp(buf, "none"))
		return NULL;
	return xprintf("%s", buf);
}

/* The files are read one after the other, so what they say together may be a little off. */
static void compute_objects(struct zram_look *dev, bool can_back)
{
	const uint64_t *v = dev->v;
	uint64_t left = v[ZRAM_STORED];

	if (!zram_knows(dev, ZRAM_STORED) || (can_back && !zram_knows(dev, ZRAM_BACKED)))
		return;
	left -= v[ZRAM_SAME] < left ? v[ZRAM_SAME] : left;
	if (can_back)
		left -= v[ZRAM_BACKED] < left ? v[ZRAM_BACKED] : left;
	dev->v[ZRAM_OBJECTS] = left;
	dev->known |= (uint64_t)1 << ZRAM_OBJECTS;
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
	char name[32];
	bool there;

	snprintf(name, sizeof(name), "zram%u", dev->number);
	visit.dir = openat(block, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (visit.dir < 0)
		return false;
	dev->at_ns = now_ns();
	for (size_t i = 0; i < ARRAY_LEN(sources);)
		i = visit_numbers(&visit, i);
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

/* "zram7"; other names are of no zram device, whoever made them. */
static bool read_name(const char *name, unsigned int *number)
{
	uint64_t v = 0;

	if (strncmp(name, "zram", 4) || !name[4] || strlen(name) > 4 + 10 ||
	    name[4 + strspn(name + 4, "0123456789")] || (name[4] == '0' && name[5]))
		return false;
	for (name += 4; *name; name++)
		v = v * 10 + (uint64_t)(*name - '0');
	*number = (unsigned int)v;
	return v <= INT32_MAX;
}

static int compare_numbers(const void *a, const void *b)
{
	unsigned int x = *(const unsigned int *)a, y = *(const unsigned int *)b;

	return (x > y) - (x < y);
}

/* Lines "zramN" and five numbers, of devices that may be gone; without the daemon no file. */
static void look_at_state(const char *state, struct zram_looks *looks)
{
	FILE *f = fopen(state, "re");
	unsigned long long v[ZRAM_SAVED - ZRAM_DAY_BUDGET + 1];
	unsigned int number;

	while (f && fscanf(f, "zram%u %llu %llu %llu %llu %llu\n", &number, &v[0], &v[1], &v[2],
			   &v[3], &v[4]) == 6)
		for (size_t d = 0; d < looks->n; d++)
			for (unsigned int i = 0; looks->dev[d].number == number &&
						 i < ARRAY_LEN(v); i++) {
				looks->dev[d].v[ZRAM_DAY_BUDGET + i] = v[i];
				looks->dev[d].known |= (uint64_t)1 << (ZRAM_DAY_BUDGET + i);
			}
	if (f)
		fclose(f);
}

void zram_look_all(const char *sysfs, const char *state, struct zram_looks *looks)
{
	char *path = xprintf("%s/block", sysfs);
	unsigned int *numbers = NULL, number;
	struct dirent *entry;
	size_t n = 0;
	DIR *block;

	memset(looks, 0, sizeof(*looks));
	block = opendir(path);
	if (!block)
		fail("%s: %s; expected the block devices of a sysfs", path, strerror(errno));
	while ((entry = readdir(block))) {
		if (!read_name(entry->d_name, &number))
			continue;
		numbers = realloc(numbers, (n + 1) * sizeof(*numbers));
		if (!numbers)
			fail("out of memory for a list of devices");
		numbers[n++] = number;
	}
	if (n)
		qsort(numbers, n, sizeof(*numbers), compare_numbers);
	looks->dev = xalloc(n, sizeof(*looks->dev));
	for (size_t i = 0; i < n; i++) {
		struct zram_look *dev = &looks->dev[looks->n];

		memset(dev, 0, sizeof(*dev));
		dev->number = numbers[i];
		if (look(looks, sysfs, dirfd(block), dev))
			looks->n++;
	}
	look_at_state(state, looks);
	closedir(block);
	free(numbers);
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

const struct zram_look *zram_find(const struct zram_looks *looks, unsigned int number)
{
	for (size_t i = 0; i < looks->n; i++)
		if (looks->dev[i].number == number)
			return &looks->dev[i];
	return NULL;
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
