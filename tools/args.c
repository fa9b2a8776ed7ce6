// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * args.c - reads a command line by its table of options, and prints --help from the same table.  It
 * owns how sizes and lists are written.
 */
#define _GNU_SOURCE
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char suffixes[] = "KMGT";

const char *size_text(uint64_t bytes, char text[32])
{
	unsigned int i = 0;

	while (i < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	snprintf(text, 32, "%llu%.1s", (unsigned long long)bytes, i ? &suffixes[i - 1] : "");
	return text;
}

bool digits_read(const char **text, uint64_t *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	*text = end;
	return errno == 0;
}

bool size_read(const char *text, uint64_t *bytes)
{
	const char *at;

	if (!digits_read(&text, bytes))
		return false;
	if (!*text)
		return true;
	at = strchr(suffixes, toupper((unsigned char)*text++));
	for (const char *p = suffixes; at && p <= at; p++)
		if (__builtin_mul_overflow(*bytes, 1024, bytes))
			return false;
	return at && (!*text || !strcmp(text, "iB"));
}

static const char *number_text(const struct opt *o, uint64_t v, char text[32])
{
	if (o->kind == OPT_SIZE)
		return size_text(v, text);
	snprintf(text, 32, "%llu", (unsigned long long)v);
	return text;
}

static uint64_t read_number(const struct opt *o, const char *text)
{
	char min[32], max[32], step[32];
	const char *at = text;
	bool size = o->kind == OPT_SIZE;
	uint64_t v;

	if (!(size ? size_read(text, &v) : digits_read(&at, &v) && !*at) ||
	    v < o->min || v > o->max)
		usage_fail("--%s %s: expected a %s from %s to %s", o->name, text,
			   size ? "size, as 64K or 1G," : "whole number",
			   number_text(o, o->min, min), number_text(o, o->max, max));
	if (o->step && v % o->step)
		usage_fail("--%s %s: expected a multiple of the page size, %s", o->name, text,
			   size_text(o->step, step));
	return v;
}

static void set_level(const struct opt *o, const char *text)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v > INT32_MAX || v <= INT32_MIN)
		usage_fail("--%s %s: expected a whole number", o->name, text);
	*(int32_t *)o->value = (int32_t)v;
}

char *text_append(char *all, const char *between, const char *more)
{
	char *text = xprintf("%s%s%s", all ? all : "", all ? between : "", more);

	free(all);
	return text;
}

/* "a, b or c" */
static char *words_text(const char *const *words)
{
	char *all = NULL;

	for (unsigned int i = 0; words[i]; i++)
		all = text_append(all, words[i + 1] ? ", " : " or ", words[i]);
	return all;
}

static const char *read_word(const struct opt *o, const char *text)
{
	if (!*text)
		usage_fail("--%s: the value is empty; expected %s", o->name, o->arg);
	for (unsigned int i = 0; o->words; i++) {
		if (!o->words[i])
			usage_fail("--%s %s: expected %s", o->name, text, words_text(o->words));
		if (!strcmp(o->words[i], text))
			return o->words[i];
	}
	return text;
}

/*
 * The next value of a list that has n so far; NULL: there are no more.  The values stay where they
 * are: each comma becomes the end of one.
 */
static char *next_value(const struct opt *o, char **list, unsigned int n)
{
	size_t len = *list ? strlen(*list) : 1;

	if (!len || (*list && (**list == ',' || (*list)[len - 1] == ',' || strstr(*list, ",,"))))
		usage_fail("--%s %s: expected values between single commas", o->name,
			   len ? *list : "''");
	if (*list && n == LIST_MAX)
		usage_fail("--%s: more than %d values; expected fewer", o->name, LIST_MAX);
	return strsep(list, ",");
}

static void set_value(const struct opt *o, char *text)
{
	struct count_list *counts = o->value;
	struct word_list *words = o->value;
	char *part;

	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)o->value = true;
		break;
	case OPT_COUNT:
	case OPT_SIZE:
		*(uint64_t *)o->value = read_number(o, text);
		break;
	case OPT_LEVEL:
		set_level(o, text);
		break;
	case OPT_COUNT_LIST:
		for (counts->n = 0; (part = next_value(o, &text, counts->n)); counts->n++)
			counts->v[counts->n] = read_number(o, part);
		break;
	case OPT_WORD:
		*(const char **)o->value = read_word(o, text);
		break;
	case OPT_WORD_LIST:
		for (words->n = 0; (part = next_value(o, &text, words->n)); words->n++)
			words->v[words->n] = read_word(o, part);
		break;
	}
}

/* NULL: there is none. */
static char *default_text(const struct opt *o)
{
	const struct count_list *counts = o->value;
	const struct word_list *words = o->value;
	char number[32], *text = NULL;

	switch (o->kind) {
	case OPT_FLAG:
	case OPT_LEVEL:
		break;
	case OPT_COUNT:
	case OPT_SIZE:
		return xprintf("%s", number_text(o, *(uint64_t *)o->value, number));
	case OPT_WORD:
		return *(const char **)o->value ? xprintf("%s", *(const char **)o->value) : NULL;
	case OPT_COUNT_LIST:
		for (unsigned int i = 0; i < counts->n; i++)
			text = text_append(text, ",", number_text(o, counts->v[i], number));
		break;
	case OPT_WORD_LIST:
		for (unsigned int i = 0; i < words->n; i++)
			text = text_append(text, ",", words->v[i]);
		break;
	}
	return text;
}

static void print_help(const struct command *cmd, const struct opt *opts)
{
	printf("Usage: %s %s [OPTION]...%s%s\n\n%s\n", program_invocation_short_name, cmd->name,
	       *cmd->operands ? " " : "", cmd->operands, cmd->about);
	printf("\nOptions:\n");
	for (const struct opt *o = opts; o->name; o++) {
		char *left = xprintf("--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		char *def = default_text(o);

		printf("  %-22s %s%s%s%s\n", left, o->help, def ? " [" : "", def ? def : "",
		       def ? "]" : "");
		free(left);
		free(def);
	}
	printf("  %-22s %s\n", "--help", "print this");
	printf("\nExamples:\n%s\n", cmd->examples);
	printf("\nExit status: 0 done, 1 something failed, 2 wrong command line, 130 interrupted.\n");
	exit(fflush(stdout) ? EXIT_FAILED : 0);
}

int args_parse(const struct command *cmd, const struct opt *opts, int argc, char **argv)
{
	int operands = 0;

	for (int i = 0; i < argc; i++) {
		char *arg = argv[i], *value;
		const struct opt *o;
		size_t len;

		if (!strcmp(arg, "--")) {
			while (++i < argc)
				argv[operands++] = argv[i];
			break;
		}
		if (arg[0] != '-' || !arg[1]) {
			argv[operands++] = argv[i];
			continue;
		}
		if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
			print_help(cmd, opts);
		len = strcspn(arg, "=");
		value = arg[len] ? arg + len + 1 : NULL;
		for (o = opts; o->name; o++)
			if (len > 2 && !strncmp(arg, "--", 2) && strlen(o->name) == len - 2 &&
			    !strncmp(o->name, arg + 2, len - 2))
				break;
		if (!o->name)
			usage_fail("%.*s: no such option of `%s`; its --help lists them",
				   (int)len, arg, cmd->name);
		if (o->kind == OPT_FLAG && value)
			usage_fail("%s: expected --%s without a value", arg, o->name);
		if (o->kind != OPT_FLAG && !value) {
			if (++i == argc)
				usage_fail("--%s: expected a value, %s", o->name, o->arg);
			value = argv[i];
		}
		set_value(o, value);
	}
	return operands;
}

void args_parse_only(const struct command *cmd, const struct opt *opts, int argc, char **argv)
{
	if (args_parse(cmd, opts, argc, argv))
		usage_fail("%s: `%s` takes options only; its --help lists them", argv[0], cmd->name);
}
