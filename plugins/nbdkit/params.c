// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* params.c - reads and checks the plugin's parameters; see params.h. */
#include "params.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <ebb_units.h>

#define UNIT_DEFAULT 32768u
#define UNIT_LEAST 4096
#define UNIT_MOST 65536

void params_init(struct params *p)
{
	*p = (struct params){ .codec = "zstd", .level = EBB_LEVEL_DEFAULT, .unit = UNIT_DEFAULT };
}

void params_free(struct params *p)
{
	free(p->dump);
	free(p->load);
	p->dump = p->load = NULL;
}

const char *params_codecs(void)
{
	static char names[200];
	const char *name;
	unsigned int i;
	size_t n = 0;

	for (i = 0; (name = ebb_codec_name(i)) != NULL && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "", name);
	return names;
}

static int read_codec(struct params *p, const char *value)
{
	const char *name;
	unsigned int i;

	for (i = 0; (name = ebb_codec_name(i)) != NULL; i++)
		if (!strcmp(name, value)) {
			p->codec = name;
			return 0;
		}
	nbdkit_error("codec=%s: there is no such codec; there are %s", value, params_codecs());
	return -1;
}

/* A size of nbdkit's kind, such as 32k.  It tells what is wrong with one itself. */
static int read_size(const char *key, const char *value, uint64_t *bytes)
{
	int64_t n = nbdkit_parse_size(value);

	if (n < 0) {
		nbdkit_error("%s=%s is no size", key, value);
		return -1;
	}
	*bytes = (uint64_t)n;
	return 0;
}

static int read_unit(struct params *p, const char *value)
{
	uint64_t n;

	if (read_size("unit", value, &n))
		return -1;
	if (n < UNIT_LEAST || n > UNIT_MOST || n & (n - 1)) {
		nbdkit_error("unit=%s: a unit has 4k, 8k, 16k, 32k or 64k", value);
		return -1;
	}
	p->unit = (uint32_t)n;
	return 0;
}

/* A file's absolute name: nbdkit changes to / before it uses it. */
static int read_name(const char *key, const char *value, char **name)
{
	if (*name) {
		nbdkit_error("%s was given twice", key);
		return -1;
	}
	*name = nbdkit_absolute_path(value);
	return *name ? 0 : -1;
}

int params_read(struct params *p, const char *key, const char *value)
{
	if (!strcmp(key, "size")) {
		if (read_size(key, value, &p->size))
			return -1;
		if (p->size)
			return 0;
		nbdkit_error("size=%s: the disk must have a byte at least", value);
		return -1;
	}
	if (!strcmp(key, "codec"))
		return read_codec(p, value);
	if (!strcmp(key, "level"))
		return nbdkit_parse_int32_t(key, value, &p->level);
	if (!strcmp(key, "unit"))
		return read_unit(p, value);
	if (!strcmp(key, "mem-limit"))
		return read_size(key, value, &p->mem_limit);
	if (!strcmp(key, "load"))
		return read_name(key, value, &p->load);
	if (!strcmp(key, "dump"))
		return read_name(key, value, &p->dump);
	nbdkit_error("%s: there is no such parameter; there are size, codec, level, unit, mem-limit, "
		     "load, dump", key);
	return -1;
}

int params_complete(const struct params *p)
{
	int32_t min, max, def;

	if (!p->size && !p->load) {
		nbdkit_error("size=SIZE is missing (or load=FILE): how large is the disk to be?");
		return -1;
	}
	if (p->level == EBB_LEVEL_DEFAULT || ebb_codec_levels(p->codec, &min, &max, &def))
		return 0;
	if (!min && !max) {
		nbdkit_error("level=%" PRId32 ": %s has no levels", p->level, p->codec);
		return -1;
	}
	if (p->level < min || p->level > max) {
		nbdkit_error("level=%" PRId32 ": %s has levels from %" PRId32 " to %" PRId32,
			     p->level, p->codec, min, max);
		return -1;
	}
	return 0;
}
