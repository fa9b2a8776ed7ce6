// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tierd_config.c - reads the configuration of `ebb tierd`. */
#define _GNU_SOURCE
#include "tierd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "zram_stat.h"

#define SECONDS NUMBER, 0, UINT32_MAX, "seconds, 0 to 4294967295"
#define BYTES "bytes, as 8G: digits, then K, M, G, T or nothing"
#define KEY(name) #name, offsetof(struct tierd_settings, name)

static const struct key {
	const char *name;
	size_t at;              /* of its value, a uint64_t or a mark */
	enum { NUMBER, SIZE, MARK } kind;
	uint64_t least, most;   /* of a number */
	const char *expected;
} keys[] = {
	{ KEY(writeback_age), SECONDS },
	{ KEY(recompress_age), SECONDS },
	{ KEY(recompress_cpu), NUMBER, 1, 100, "percent of one CPU, 1 to 100" },
	{ KEY(writeback_budget), SIZE, 0, 0, BYTES },
	{ KEY(writeback_high), MARK, 0, 0, BYTES ", or percent of mem_limit, 1% to 100%" },
	{ KEY(writeback_low), MARK, 0, 0, BYTES ", or percent of mem_limit, 1% to 100%" },
};

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

static bool parse_mark(const char *text, struct tierd_mark *m)
{
	const char *at = text;

	if (digits_read(&at, &m->percent) && !strcmp(at, "%"))
		return m->percent && m->percent <= 100;
	m->percent = 0;
	return size_read(text, &m->bytes);
}

static bool parse_value(const struct key *k, const char *text, void *value)
{
	uint64_t *v = value;

	if (k->kind == MARK)
		return parse_mark(text, value);
	if (k->kind == SIZE)
		return size_read(text, v);
	return digits_read(&text, v) && !*text && *v >= k->least && *v <= k->most;
}

static void set_value(const struct place *at, struct tierd_settings *s, const char *key,
		      const char *value)
{
	const struct key *k = keys;

	while (k < keys + ARRAY_LEN(keys) && strcmp(k->name, key))
		k++;
	if (k == keys + ARRAY_LEN(keys))
		fail("%s:%u: %s: no such key; expected writeback_age, writeback_high, writeback_low, "
		     "writeback_budget, recompress_age or recompress_cpu", at->path, at->line, key);
	if (!parse_value(k, value, (char *)s + k->at))
		fail("%s:%u: %s = %s: expected %s", at->path, at->line, key, value, k->expected);
}

static struct tierd_settings *add_section(const struct place *at, struct tierd_config *c,
					  char *text)
{
	size_t len = strlen(text);
	int number = -1;

	if (len > 2 && text[len - 1] == ']') {
		text[len - 1] = '\0';
		number = zram_number(text + 1);
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
	const struct tierd_mark *low = &s->writeback_low, *high = &s->writeback_high;
	bool percent = low->percent && !high->bytes;
	uint64_t l = percent ? low->percent : low->bytes;
	uint64_t h = percent ? high->percent : high->bytes;
	const char *unit = percent ? "%" : "";

	if (l > h && (percent || !high->percent))
		fail("%s:%u: writeback_low = %llu%s: expected no more than writeback_high, %llu%s",
		     at->path, at->line, (unsigned long long)l, unit, (unsigned long long)h, unit);
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
