// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tierd_config.c - reads the configuration of `ebb tierd`. */
#define _GNU_SOURCE
#include "args.h"
#include "tierd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may be wrong with a value. */
#define SECONDS "seconds, 0 to 4294967295"
#define SIZE "bytes, as 8G: digits, then K, M, G, T or nothing"

struct place {
	const char *path;
	unsigned int line;
};

static const char *strip(char *text)
{
	char *end = text + strlen(text);

	while (end > text && strchr(" \t\r\n", end[-1]))
		*--end = '\0';
	return text + strspn(text, " \t");
}

/* Digits and nothing else, at most most. */
static bool parse_number(const char *text, uint64_t most, uint64_t *v)
{
	errno = 0;
	if (!*text || text[strspn(text, "0123456789")])
		return false;
	*v = strtoull(text, NULL, 10);
	return !errno && *v <= most;
}

static bool parse_mark(const char *text, struct tierd_mark *m)
{
	size_t len = strlen(text);
	char digits[8];
	uint64_t v;

	memset(m, 0, sizeof(*m));
	if (!len || text[len - 1] != '%')
		return size_read(text, &m->bytes);
	if (len > sizeof(digits))
		return false;
	memcpy(digits, text, len - 1);
	digits[len - 1] = '\0';
	if (!parse_number(digits, 100, &v) || !v)
		return false;
	m->percent = (unsigned int)v;
	return true;
}

static void set_value(const struct place *at, struct tierd_settings *s, const char *key,
		      const char *value)
{
	const char *expected = NULL;
	uint64_t v = 0;

	if (!strcmp(key, "writeback_age")) {
		if (!parse_number(value, UINT32_MAX, &v))
			expected = SECONDS;
		s->writeback_age = (uint32_t)v;
	} else if (!strcmp(key, "recompress_age")) {
		if (!parse_number(value, UINT32_MAX, &v))
			expected = SECONDS;
		s->recompress_age = (uint32_t)v;
	} else if (!strcmp(key, "recompress_cpu")) {
		if (!parse_number(value, 100, &v) || !v)
			expected = "percent of one CPU, 1 to 100";
		s->recompress_cpu = (uint32_t)v;
	} else if (!strcmp(key, "writeback_budget")) {
		if (!size_read(value, &s->budget))
			expected = SIZE;
	} else if (!strcmp(key, "writeback_high") || !strcmp(key, "writeback_low")) {
		if (!parse_mark(value, strcmp(key, "writeback_low") ? &s->high : &s->low))
			expected = SIZE ", or percent of mem_limit, 1% to 100%";
	} else {
		fail("%s:%u: %s: no such key; expected writeback_age, writeback_high, writeback_low, "
		     "writeback_budget, recompress_age or recompress_cpu", at->path, at->line, key);
	}
	if (expected)
		fail("%s:%u: %s = %s: expected %s", at->path, at->line, key, value, expected);
}

int tierd_device_number(const char *name)
{
	uint64_t v;

	if (strncmp(name, "zram", 4) || !parse_number(name + 4, INT32_MAX, &v) ||
	    (name[4] == '0' && name[5]))
		return -1;
	return (int)v;
}

static struct tierd_settings *add_section(const struct place *at, struct tierd_config *c,
					  char *text)
{
	size_t len = strlen(text);
	int number = -1;

	if (len > 2 && text[len - 1] == ']') {
		text[len - 1] = '\0';
		number = tierd_device_number(text + 1);
		text[len - 1] = ']';
	}
	if (number < 0)
		fail("%s:%u: %s: expected the name of a device, as [zram0]", at->path, at->line,
		     text);
	for (unsigned int i = 0; i < c->n; i++)
		if (c->sections[i].number == (unsigned int)number)
			fail("%s:%u: %s: expected one section of a device", at->path, at->line, text);
	if (c->n == TIERD_SECTIONS)
		fail("%s:%u: %s: expected at most %u sections", at->path, at->line, text,
		     TIERD_SECTIONS);
	c->sections[c->n].number = (unsigned int)number;
	c->sections[c->n].set = c->all;
	return &c->sections[c->n++].set;
}

/* Marks in the same unit can be compared now. */
static void check_marks(const struct place *at, const struct tierd_settings *s)
{
	if (s->low.bytes > s->high.bytes && !s->high.percent)
		fail("%s:%u: writeback_low = %llu: expected no more than writeback_high, %llu",
		     at->path, at->line, (unsigned long long)s->low.bytes,
		     (unsigned long long)s->high.bytes);
	if (s->low.percent && s->low.percent > s->high.percent && !s->high.bytes)
		fail("%s:%u: writeback_low = %u%%: expected no more than writeback_high, %u%%",
		     at->path, at->line, s->low.percent, s->high.percent);
}

void tierd_config_read(struct tierd_config *config, const char *path)
{
	struct tierd_settings *set = &config->all;
	struct place at = { path, 0 };
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (!f)
		fail("--config %s: %s; expected a configuration that can be read", path,
		     strerror(errno));
	memset(config, 0, sizeof(*config));
	set->recompress_cpu = 10;
	while (getline(&line, &size, f) >= 0) {
		char *text, *value;

		at.line++;
		line[strcspn(line, "#")] = '\0';
		text = (char *)strip(line);
		if (!*text)
			continue;
		if (*text == '[') {
			check_marks(&at, set);
			set = add_section(&at, config, text);
			continue;
		}
		value = strchr(text, '=');
		if (!value)
			fail("%s:%u: %s: expected key = value, or [zramN]", path, at.line, text);
		*value++ = '\0';
		set_value(&at, set, strip(text), strip(value));
	}
	if (ferror(f))
		fail("--config %s: %s; expected a configuration that can be read", path,
		     strerror(errno));
	check_marks(&at, set);
	free(line);
	fclose(f);
}

const struct tierd_settings *tierd_settings_of(const struct tierd_config *config,
					       unsigned int number)
{
	for (unsigned int i = 0; i < config->n; i++)
		if (config->sections[i].number == number)
			return &config->sections[i].set;
	return &config->all;
}
