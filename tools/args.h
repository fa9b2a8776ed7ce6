/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * args.h - a subcommand's options as a table, from which its command line is parsed and its
 * --help printed.
 *
 * "--name value" and "--name=value" are the same; "--" ends the options; operands may stand
 * anywhere.  A wrong command line ends the program with status 2 and one line.
 */
#ifndef EBB_ARGS_H
#define EBB_ARGS_H

#include "tool.h"

#define LIST_MAX 32
#define SIZE_MOST ((uint64_t)1 << 44)   /* that a size may be; memory is judged by memory.h */

struct count_list {
	uint64_t v[LIST_MAX];
	unsigned int n;
};

struct word_list {
	const char *v[LIST_MAX];
	unsigned int n;
};

enum opt_kind {
	OPT_FLAG,        /* bool */
	OPT_COUNT,       /* uint64_t: decimal digits */
	OPT_LEVEL,       /* int32_t: digits with a sign; min and max do not apply */
	OPT_SIZE,        /* uint64_t: digits, then K, M, G or T (powers of 1024) */
	OPT_COUNT_LIST,  /* struct count_list: 1,2,4 */
	OPT_WORD,        /* const char *: one of words, or any text if there are none */
	OPT_WORD_LIST,   /* struct word_list: words between commas */
};

struct opt {
	const char *name;              /* without the dashes; NULL ends the table */
	enum opt_kind kind;
	void *value;                   /* what it holds before parsing is the default */
	uint64_t min, max;             /* of counts and sizes */
	uint64_t step;                 /* sizes are multiples of it; 0: any */
	const char *const *words;      /* NULL at the end */
	const char *arg;               /* what --help calls the value */
	const char *help;
};

/*
 * Parses argv[0 .. argc - 1].  Operands are moved to the front of argv; returns how many.
 * --help prints cmd and opts and ends the program with status 0.
 */
int args_parse(const struct command *cmd, const struct opt *opts, int argc, char **argv);

/* As args_parse(), for a subcommand that takes no operands. */
void args_parse_only(const struct command *cmd, const struct opt *opts, int argc, char **argv);

/* Digits at *text, which is moved past them.  False: there are none, or too many. */
bool digits_read(const char **text, uint64_t *value);

/* Reads digits, then K, M, G, T (of either case, with iB or not) or nothing.  False: it is none. */
bool size_read(const char *text, uint64_t *bytes);

/* Writes "256M" or "4097" for a number of bytes into text. */
const char *size_text(uint64_t bytes, char text[32]);

/* The texts with something between them; all, which may be NULL, is freed. */
char *text_append(char *all, const char *between, const char *more);

#endif
