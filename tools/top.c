// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb top: all zram devices of the machine, in-tree's and Ebb's alike, as a table that is
 * refreshed, as JSON, or in the text format of Prometheus.
 *
 * Sizes are in bytes.  A figure that a device does not have is '-' in the table and null in JSON,
 * and has no sample for Prometheus.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "args.h"
#include "screen.h"
#include "table.h"
#include "tierd.h"
#include "zram_stat.h"

#define NAME_MOST 24            /* characters of a name in the table */
#define PREFIX "ebb_zram_"

/* The command line. */
struct top {
	const char *sysfs, *state;
	bool json, prometheus;
	bool once, in_place;            /* one look; a table that is refreshed */
	uint64_t interval_ns;
};

/* ---- the table ---- */

enum cell_kind {
	CELL_DEVICE,
	CELL_ALGORITHM,
	CELL_BACKING,   /* and those before it are names */
	CELL_SIZE,
	CELL_RATIO,
	CELL_RATE,
	CELL_BUDGET,
	CELL_DAY,
};

/* If a line is too short for all of them, there are two tables; the second starts with reads. */
static const struct shown {
	enum cell_kind kind;
	enum zram_figure figure;
	const char *title;      /* CELL_RATE: with "/s" behind it, or alone for the total */
} shown[] = {
	{ CELL_DEVICE,    0,                    "device" },
	{ CELL_ALGORITHM, 0,                    "algorithm" },
	{ CELL_SIZE,      ZRAM_DISKSIZE,        "size" },
	{ CELL_SIZE,      ZRAM_STORED,          "stored" },
	{ CELL_SIZE,      ZRAM_COMPRESSED,      "compr" },
	{ CELL_SIZE,      ZRAM_USED,            "used" },
	{ CELL_RATIO,     0,                    "ratio" },
	{ CELL_SIZE,      ZRAM_SAME,            "same" },
	{ CELL_SIZE,      ZRAM_OBJECTS,         "objects" },
	{ CELL_SIZE,      ZRAM_HUGE,            "huge" },
	{ CELL_SIZE,      ZRAM_BACKED,          "backed" },
	{ CELL_RATE,      ZRAM_READ,            "read" },
	{ CELL_RATE,      ZRAM_WRITTEN,         "write" },
	{ CELL_RATE,      ZRAM_FREED,           "free" },
	{ CELL_SIZE,      ZRAM_HELD,            "held" },
	{ CELL_RATE,      ZRAM_BACKING_READ,    "bd-read" },
	{ CELL_RATE,      ZRAM_BACKING_WRITTEN, "bd-write" },
	{ CELL_BUDGET,    ZRAM_BUDGET,          "budget" },
	{ CELL_DAY,       ZRAM_DAY_SPENT,       "24h" },
	{ CELL_BACKING,   0,                    "backing" },
};

enum { SECOND_PART = 11, SHOWN = ARRAY_LEN(shown) };

/* "999", "1.0K", "12M": at most four characters, of powers of 1024. */
static const char *human(double bytes, char text[16])
{
	static const char units[] = " KMGTPE";
	unsigned int unit = 0;

	for (; bytes >= 999.5 && units[unit + 1]; unit++)
		bytes /= 1024;
	if (!unit)
		snprintf(text, 16, "%.0f", bytes);
	else
		snprintf(text, 16, "%.*f%c", bytes < 9.95 ? 1 : 0, bytes, units[unit]);
	return text;
}

/* What is stored in memory over what it takes there; false: nothing is, or it is not known. */
static bool memory_ratio(const struct zram_look *dev, double *ratio)
{
	uint64_t stored = dev->v[ZRAM_STORED], backed = dev->v[ZRAM_BACKED];

	if (!zram_knows(dev, ZRAM_OBJECTS) || !zram_knows(dev, ZRAM_USED) || !dev->v[ZRAM_USED])
		return false;
	*ratio = (double)(stored > backed ? stored - backed : 0) / (double)dev->v[ZRAM_USED];
	return true;
}

/* What a device has in a column, in text or elsewhere; NULL: nothing. */
static const char *cell(const struct shown *c, const struct zram_look *now,
			const struct zram_look *before, bool rates, char text[40])
{
	bool known = zram_knows(now, c->figure);
	double v = (double)now->v[c->figure];
	char budget[16];

	switch (c->kind) {
	case CELL_DEVICE:
		return now->name;
	case CELL_ALGORITHM:
		return now->algorithm;
	case CELL_BACKING:
		return now->backing_dev;
	case CELL_SIZE:
		return known ? human(v, text) : NULL;
	case CELL_RATIO:
		if (!memory_ratio(now, &v))
			return NULL;
		snprintf(text, 40, "%.2f", v);
		return text;
	case CELL_RATE:
		if (rates)
			known = zram_rate(before, now, c->figure, &v);
		return known ? human(v, text) : NULL;
	case CELL_BUDGET:
		if (!known || !zram_knows(now, ZRAM_BUDGET_ON))
			return NULL;
		return now->v[ZRAM_BUDGET_ON] ? human(v, text) : "off";
	case CELL_DAY:
		if (!known)
			return NULL;
		human(v, text);
		if (now->v[ZRAM_DAY_BUDGET])
			snprintf(text + strlen(text), 20, "/%s",
				 human((double)now->v[ZRAM_DAY_BUDGET], budget));
		return text;
	}
	return NULL;
}

static struct table *devices_table(const struct zram_looks *now, const struct zram_looks *before,
				   bool rates)
{
	static struct column cols[SHOWN + 1];
	static char titles[SHOWN][16];
	struct table *t;

	for (unsigned int i = 0; i < SHOWN; i++) {
		bool name = shown[i].kind <= CELL_BACKING;

		snprintf(titles[i], sizeof(titles[i]), "%s%s", shown[i].title,
			 rates && shown[i].kind == CELL_RATE ? "/s" : "");
		cols[i] = (struct column){ titles[i], titles[i], name ? COL_TEXT : COL_RIGHT,
					   name ? NAME_MOST : 0 };
	}
	t = table_new(cols);
	for (const struct zram_look *dev = now->dev; dev < now->dev + now->n; dev++) {
		table_row(t);
		for (unsigned int i = 0; i < SHOWN; i++) {
			char buf[40];
			const char *text = cell(&shown[i], dev, zram_find(before, dev->name),
						rates, buf);

			if (text)
				table_set(t, titles[i], json_string_nocheck(text));
		}
	}
	return t;
}

/* One table, or two if a line of width characters is too short. */
static void print_tables(FILE *out, const struct top *top, const struct zram_looks *now,
			 const struct zram_looks *before, unsigned int width)
{
	struct table *t = devices_table(now, before, !top->once);
	char *where = printable(top->sysfs);

	if (!now->n) {
		fprintf(out, "no zram device in %s/block\n", where);
	} else if (table_width(t) <= width) {
		table_print(t, out);
	} else {
		table_print_part(t, 1, SECOND_PART, out);
		fputc('\n', out);
		table_print_part(t, SECOND_PART, SHOWN, out);
	}
	free(where);
	table_free(t);
}

/* ---- JSON ---- */

/* Its integers have a sign; a limit of 2^64 - 1 is a real. */
static json_t *count_json(uint64_t v)
{
	return v <= INT64_MAX ? json_integer((json_int_t)v) : json_real((double)v);
}

static json_t *device_json(const struct zram_look *now, const struct zram_look *before)
{
	json_t *o = json_object();
	double v;

	json_set(o, "device", json_string(now->name));
	json_set(o, "algorithm", now->algorithm ? json_name(now->algorithm) : json_null());
	json_set(o, "backing_dev", now->backing_dev ? json_name(now->backing_dev) : json_null());
	for (unsigned int f = 0; f < ZRAM_FIGURES; f++) {
		const struct zram_figure_info *info = &zram_figure_infos[f];

		if (info->key)
			json_set(o, info->key,
				 zram_knows(now, f) ? count_json(now->v[f]) : json_null());
	}
	json_set(o, "memory_ratio", memory_ratio(now, &v) ? json_real(v) : json_null());
	json_set(o, "interval_s", zram_interval(before, now, &v) ? json_real(v) : json_null());
	for (unsigned int i = 0; i < SHOWN; i++) {
		const char *key = zram_figure_infos[shown[i].figure].key;
		char *per_s;

		if (shown[i].kind != CELL_RATE)
			continue;
		per_s = xprintf("%s_per_s", key);
		json_set(o, per_s, zram_rate(before, now, shown[i].figure, &v) ?
			 json_real(v) : json_null());
		free(per_s);
	}
	return o;
}

static json_t *looks_json(const struct zram_looks *now, const struct zram_looks *before)
{
	json_t *doc = json_object(), *devices = json_array();
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	json_set(doc, "time_unix_ms",
		 json_integer((json_int_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000));
	for (const struct zram_look *dev = now->dev; dev < now->dev + now->n; dev++)
		if (json_array_append_new(devices,
					  device_json(dev, zram_find(before, dev->name))))
			no_memory();
	json_set(doc, "devices", devices);
	return doc;
}

/* ---- Prometheus's text format 0.0.4 ---- */

static void print_label(FILE *out, const char *label, const char *value)
{
	json_t *name = json_name(value);

	fprintf(out, ",%s=\"", label);
	for (const char *c = json_string_value(name); *c; c++) {
		if (*c == '\n')
			fputs("\\n", out);
		else
			fprintf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
	}
	fputc('"', out);
	json_decref(name);
}

static void print_metric(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name, type);
}

static void print_figure(FILE *out, const struct zram_looks *looks, enum zram_figure f)
{
	const struct zram_figure_info *info = &zram_figure_infos[f];
	bool counter = info->kind == COUNTER, named = false;
	char *name = xprintf("%s%s", info->key, counter ? "_total" : "");

	for (const struct zram_look *dev = looks->dev; dev < looks->dev + looks->n; dev++) {
		if (!zram_knows(dev, f))
			continue;
		if (!named)
			print_metric(out, name, counter ? "counter" : "gauge", info->help);
		named = true;
		fprintf(out, PREFIX "%s{device=\"%s\"} %llu\n", name, dev->name,
		       (unsigned long long)dev->v[f]);
	}
	free(name);
}

static void print_prometheus(FILE *out, const struct zram_looks *looks)
{
	print_metric(out, "devices", "gauge", "Number of zram devices.");
	fprintf(out, PREFIX "devices %zu\n", looks->n);
	print_metric(out, "unreadable_files", "gauge", "Files of the devices that made no sense.");
	fprintf(out, PREFIX "unreadable_files %zu\n", looks->nwrong);
	if (looks->n)
		print_metric(out, "info", "gauge", "Names that belong to the device; always 1.");
	for (const struct zram_look *dev = looks->dev; dev < looks->dev + looks->n; dev++) {
		fprintf(out, PREFIX "info{device=\"%s\"", dev->name);
		if (dev->algorithm)
			print_label(out, "algorithm", dev->algorithm);
		if (dev->backing_dev)
			print_label(out, "backing_dev", dev->backing_dev);
		fputs("} 1\n", out);
	}
	for (unsigned int f = 0; f < ZRAM_FIGURES; f++)
		if (zram_figure_infos[f].key)
			print_figure(out, looks, f);
}

/* ---- one look, or one after the other ---- */

/* Names the files that are newly wrong. */
static void note_wrong(const struct zram_looks *now, const struct zram_looks *before)
{
	for (size_t i = 0; i < now->nwrong; i++) {
		bool said = false;

		for (size_t k = 0; k < before->nwrong && !said; k++)
			said = !strcmp(now->wrong[i], before->wrong[k]);
		if (!said)
			note("%s", now->wrong[i]);
	}
}

/* One look, a frame of the terminal, or the next piece of a stream. */
static void show(const struct top *top, const struct zram_looks *now,
		 const struct zram_looks *before, bool first)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		no_memory();
	if (top->in_place) {
		fprintf(out, "ebb top: %zu device%s, every %g s, in bytes; %s ends\n\n", now->n,
			now->n == 1 ? "" : "s", (double)top->interval_ns / 1e9,
			screen_has_keys() ? "q" : "^C");
		print_tables(out, top, now, before, screen_width());
		for (size_t i = 0; i < now->nwrong; i++) {
			char *line = printable(now->wrong[i]);

			fprintf(out, "%s%s\n", i ? "" : "\n", line);
			free(line);
		}
	} else if (top->prometheus) {
		print_prometheus(out, now);
	} else if (top->json) {
		json_print(looks_json(now, before), top->once ? JSON_INDENT(2) : JSON_COMPACT, out);
	} else {
		if (!first)
			fputc('\n', out);
		print_tables(out, top, now, before, UINT_MAX);
	}
	if (fclose(out))
		no_memory();
	if (top->in_place)
		screen_show(text);
	else
		write_whole(text, len);
	free(text);
}

static int look_on(const struct top *top)
{
	struct zram_looks now = { 0 }, before = { 0 };
	enum wake why = WAKE_TIME;
	bool first = true;
	uint64_t next = now_ns();
	int status;

	if (top->in_place)
		screen_open();
	while (why != WAKE_QUIT) {
		if (why == WAKE_TIME) {
			zram_looks_free(&before);
			before = now;
			zram_look_all(top->sysfs, top->state, &now);
			if (!top->in_place)
				note_wrong(&now, &before);
			next += top->interval_ns;
			if (next < now_ns())
				next = now_ns() + top->interval_ns;
		}
		if (why == WAKE_TIME || top->in_place)
			show(top, &now, &before, first);
		first = false;
		why = top->once ? WAKE_QUIT : wait_until(next);
	}
	screen_close();
	status = top->once && now.nwrong ? EXIT_FAILED : 0;
	zram_looks_free(&now);
	zram_looks_free(&before);
	return status;
}

static uint64_t interval_ns(const char *text)
{
	double s = 0;
	char *end = NULL;

	if (text[strspn(text, "0123456789.")] == '\0')
		s = strtod(text, &end);
	if (!end || end == text || *end || s < 0.05 || s > 86400)
		usage_fail("--interval %s: expected a number of seconds from 0.05 to 86400", text);
	return (uint64_t)(s * 1e9);
}

static int top(const struct command *cmd, int argc, char **argv)
{
	struct top top = { .sysfs = "/sys", .state = TIERD_STATE };
	const char *interval = NULL;
	const struct opt opts[] = {
		{ "once", OPT_FLAG, &top.once, 0, 0, 0, NULL, NULL,
		  "one table, with totals in the place of rates; as if not on a terminal" },
		{ "interval", OPT_WORD, &interval, 0, 0, 0, NULL, "SECONDS",
		  "between two looks, 0.05 to 86400 [2]; without a terminal, one table after the other" },
		{ "json", OPT_FLAG, &top.json, 0, 0, 0, NULL, NULL,
		  "one JSON document; with --interval a line for each look" },
		{ "prometheus", OPT_FLAG, &top.prometheus, 0, 0, 0, NULL, NULL,
		  "one look in Prometheus's text format" },
		{ "sysfs", OPT_WORD, &top.sysfs, 0, 0, 0, NULL, "DIR", "where sysfs is mounted" },
		{ "state", OPT_WORD, &top.state, 0, 0, 0, NULL, "FILE", "where `ebb tierd` tells of itself" },
		{ .name = NULL },
	};

	args_parse_only(cmd, opts, argc, argv);
	if (top.json && top.prometheus)
		usage_fail("--json and --prometheus: expected one of them");
	if (interval && (top.once || top.prometheus))
		usage_fail("--interval %s: expected no --interval with --%s", interval,
			   top.once ? "once" : "prometheus");
	top.interval_ns = interval_ns(interval ? interval : "2");
	top.in_place = !top.once && !top.prometheus && !top.json && screen_is_there();
	top.once = !interval && !top.in_place;
	return look_on(&top);
}

const struct command top_command = {
	.name = "top",
	.operands = "",
	.summary = "the zram devices of this machine: what they hold, take and do",
	.about =
"A table of all zram devices, in-tree's and Ebb's alike, that is refreshed until q or ^C; without\n"
"a terminal, one table.  All is in bytes (powers of 1024); '-' is what a device does not have.\n"
"  stored   pages that hold something: same (one repeated word), objects and backed\n"
"  compr    compressed size of the objects      used    memory that the pool takes\n"
"  ratio    what is stored in memory over used  huge    objects that did not compress\n"
"  held     freed, and waits for Ebb's worker   budget  what may still be written back\n"
"  24h      written back in that time, and of how much, where `ebb tierd` runs",
	.examples =
"  ebb top                         on a terminal\n"
"  ebb top --once                  for a pipe: read, write and free are totals\n"
"  ebb top --json --interval 1     a line each second\n"
"  ebb top --prometheus            for an exporter's folder of text files",
	.run = top,
};
