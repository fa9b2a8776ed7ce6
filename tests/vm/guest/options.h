/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The command lines of the programs that run in a guest, as a table. */
#ifndef EBB_GUEST_OPTIONS_H
#define EBB_GUEST_OPTIONS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * --NAME VALUE: a number from lo to hi, or a text. Without a hi it is a flag, and takes no value.
 */
struct option {
	const char *name;
	unsigned long *number, lo, hi;
	const char **text;
};

/* From argv[at] on; `o` ends with a NULL name. What is not understood ends the program with 2. */
static inline void options(int argc, char **argv, int at, const struct option *o)
{
	const struct option *f;
	const char *v;
	char *end;

	for (; at < argc; at++) {
		for (f = o; f->name && (strncmp(argv[at], "--", 2) || strcmp(argv[at] + 2, f->name)); f++)
			;
		if (!f->name) {
			fprintf(stderr, "%s: '%s' is no option\n", argv[0], argv[at]);
			exit(2);
		}
		if (!f->text && !f->hi) {
			*f->number = 1;
			continue;
		}
		v = argv[++at];
		if (!v) {
			fprintf(stderr, "%s: --%s wants a value\n", argv[0], f->name);
			exit(2);
		}
		if (f->text) {
			*f->text = v;
			continue;
		}
		*f->number = strtoul(v, &end, 10);
		if (*v < '0' || *v > '9' || *end || *f->number < f->lo || *f->number > f->hi) {
			fprintf(stderr, "%s: --%s '%s' is not a number from %lu to %lu\n", argv[0], f->name, v, f->lo, f->hi);
			exit(2);
		}
	}
}

#endif
