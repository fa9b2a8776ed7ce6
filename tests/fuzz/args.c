// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * args.c - fuzzes tools/args.c: any command line against a table with one option of each kind.
 *
 *     input: the words of a command line, each up to a zero
 *
 * A line is taken or refused with one message; a value that is taken is what an independent
 * reading of the same word says, and within the range of its option.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * args.c is taken in whole, so that the ends of the program can be left by a jump.  What it holds
 * at such a moment is kept here.  (tool.h and support.h share names, hence no fuzz.h.)
 */
static void *kept[4096];
static unsigned int nkept;
static char out[4096];

static void forget(void *p)
{
	for (unsigned int i = nkept; i-- > 0;)
		if (kept[i] == p) {
			kept[i] = kept[--nkept];
			break;
		}
	free(p);
}

static _Noreturn void leave(int status);

#define free(p) forget(p)
#define exit(status) leave(status)
#define printf(...) ((void)snprintf(out, sizeof(out), __VA_ARGS__))
#include "../../tools/args.c"
#undef free
#undef exit
#undef printf

#define demand(cond)                                                                          \
	do {                                                                                  \
		if (!(cond)) {                                                                \
			fprintf(stderr, "# %s:%d: %s\n", __FILE__, __LINE__, #cond);          \
			abort();                                                              \
		}                                                                             \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define WORDS_MAX 64

static jmp_buf start;
static char message[65536];

static _Noreturn void leave(int status)
{
	longjmp(start, status + 1);
}

void usage_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	leave(EXIT_USAGE);
}

char *xprintf(const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	demand(vasprintf(&text, fmt, ap) >= 0);
	va_end(ap);
	demand(nkept < ARRAY_LEN(kept));
	kept[nkept++] = text;
	return text;
}

/* ---- one option of each kind ---- */

static bool flag;
static uint64_t count, size, pages;
static int32_t level;
static struct count_list counts;
static struct word_list words;
static const char *word, *any;

static const char *const codecs[] = { "lz4", "zstd", "lzo", NULL };

static const struct opt opts[] = {
	{ "flag", OPT_FLAG, &flag, .help = "a flag" },
	{ "count", OPT_COUNT, &count, .min = 1, .max = 1000, .arg = "N", .help = "a count" },
	{ "size", OPT_SIZE, &size, .min = 0, .max = UINT64_MAX, .arg = "SIZE", .help = "any size" },
	{ "pages", OPT_SIZE, &pages, .min = 4096, .max = (uint64_t)1 << 40, .step = 4096,
	  .arg = "SIZE", .help = "whole pages" },
	{ "level", OPT_LEVEL, &level, .arg = "N", .help = "a level" },
	{ "counts", OPT_COUNT_LIST, &counts, .min = 0, .max = UINT64_MAX, .arg = "N,...", .help = "counts" },
	{ "words", OPT_WORD_LIST, &words, .words = codecs, .arg = "NAME,...", .help = "codecs" },
	{ "word", OPT_WORD, &word, .words = codecs, .arg = "NAME", .help = "a codec" },
	{ "any", OPT_WORD, &any, .arg = "TEXT", .help = "any text" },
	{ .name = NULL },
};

static const struct command command = {
	.name = "fuzz", .operands = "PATH...", .summary = "none", .about = "none", .examples = "none",
};

/* ---- the same words, read by themselves ---- */

/* Digit by digit; false: over 64 bits, or no digits and nothing else. */
static bool digits(const char *s, size_t n, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9' || *v > UINT64_MAX / 10 ||
		    (uint64_t)(s[i] - '0') > UINT64_MAX - *v * 10)
			return false;
		*v = *v * 10 + (uint64_t)(s[i] - '0');
	}
	return n != 0;
}

static bool plain_size(const char *s, uint64_t *v)
{
	static const char units[] = "kKmMgGtT";
	size_t n = strlen(s);
	unsigned int times = 0;

	if (n > 3 && !strcmp(s + n - 2, "iB") && strchr(units, s[n - 3]))
		n -= 2;
	if (n > 1 && strchr(units, s[n - 1]))
		times = (unsigned int)(strchr(units, s[--n]) - units) / 2 + 1;
	if (!digits(s, n, v))
		return false;
	while (times--) {
		if (*v >> 54)
			return false;
		*v <<= 10;
	}
	return true;
}

static bool plain_word(const char *s, size_t n)
{
	for (unsigned int i = 0; codecs[i]; i++)
		if (strlen(codecs[i]) == n && !strncmp(codecs[i], s, n))
			return true;
	return false;
}

/* Each part of a list passes, and there are 1 to LIST_MAX; which is one of counts or of words. */
static bool plain_list(const char *s, bool numbers)
{
	unsigned int n = 0;
	uint64_t v;

	for (;; s++) {
		size_t len = strcspn(s, ",");

		if (numbers ? !digits(s, len, &v) : !plain_word(s, len))
			return false;
		n++;
		s += len;
		if (!*s)
			return n <= LIST_MAX;
	}
}

static bool plain_value(const struct opt *o, const char *s)
{
	uint64_t v;

	switch (o->kind) {
	case OPT_COUNT:
		return digits(s, strlen(s), &v) && v >= o->min && v <= o->max;
	case OPT_SIZE:
		return plain_size(s, &v) && v >= o->min && v <= o->max &&
		       (!o->step || v % o->step == 0);
	case OPT_LEVEL:
		/* As strtol: blanks before it, one sign. */
		s += strspn(s, " \t\n\v\f\r");
		s += *s == '-' || *s == '+';
		return digits(s, strlen(s), &v) && v <= INT32_MAX;
	case OPT_COUNT_LIST:
		return plain_list(s, true);
	case OPT_WORD_LIST:
		return plain_list(s, false);
	case OPT_WORD:
		return *s && (!o->words || plain_word(s, strlen(s)));
	case OPT_FLAG:
		break;
	}
	return false;
}

enum verdict { TAKEN, REFUSED, HELP };

/* What is to become of a line, and the last value of each option. */
static enum verdict plain_line(int argc, char **argv, const char **last, int *operands)
{
	*operands = 0;
	for (int i = 0; i < argc; i++) {
		size_t len = strcspn(argv[i], "="), k;
		const char *value = argv[i][len] ? argv[i] + len + 1 : NULL;

		if (!strcmp(argv[i], "--")) {
			*operands += argc - i - 1;
			return TAKEN;
		}
		if (argv[i][0] != '-' || !argv[i][1]) {
			++*operands;
			continue;
		}
		if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
			return HELP;
		for (k = 0; opts[k].name; k++)
			if (!strncmp(argv[i], "--", 2) && strlen(opts[k].name) + 2 == len &&
			    !strncmp(argv[i] + 2, opts[k].name, len - 2))
				break;
		if (!opts[k].name || (opts[k].kind == OPT_FLAG && value))
			return REFUSED;
		if (opts[k].kind != OPT_FLAG) {
			if (!value && ++i == argc)
				return REFUSED;
			value = value ? value : argv[i];
			if (!plain_value(&opts[k], value))
				return REFUSED;
		}
		last[k] = value ? value : "";
	}
	return TAKEN;
}

static void must_have_the_values(const char **last)
{
	uint64_t v;

	demand(flag == (last[0] != NULL));
	if (last[1])
		demand(digits(last[1], strlen(last[1]), &v) && v == count);
	if (last[2])
		demand(plain_size(last[2], &v) && v == size);
	if (last[3])
		demand(plain_size(last[3], &v) && v == pages);
	if (last[4])
		demand(level == strtol(last[4], NULL, 10));
	if (last[5])
		for (unsigned int i = 0; i < counts.n; i++, last[5] += strcspn(last[5], ",") + 1)
			demand(digits(last[5], strcspn(last[5], ","), &v) && v == counts.v[i]);
	if (last[6])
		for (unsigned int i = 0; i < words.n; i++, last[6] += strcspn(last[6], ",") + 1)
			demand(!strncmp(last[6], words.v[i], strlen(words.v[i])));
	if (last[7])
		demand(!strcmp(last[7], word));
	if (last[8])
		demand(!strcmp(last[8], any));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static char *argv[WORDS_MAX];
	const char *last[ARRAY_LEN(opts)] = { NULL };
	char *text = malloc(n + 1), *plain = malloc(n + 1), *plain_argv[WORDS_MAX], *p;
	enum verdict want, got;
	volatile int argc = 0;
	int operands, got_operands = -1;

	demand(text && plain);
	memcpy(text, data, n);
	memcpy(plain, data, n);
	text[n] = plain[n] = 0;
	for (p = text; p < text + n && argc < WORDS_MAX; p += strlen(p) + 1, argc++) {
		argv[argc] = p;
		plain_argv[argc] = plain + (p - text);
	}
	want = plain_line(argc, plain_argv, last, &operands);

	flag = false;
	count = 5;
	level = 0;
	size = pages = 4096;
	counts = (struct count_list){ { 1, 2 }, 2 };
	words = (struct word_list){ { codecs[0] }, 1 };
	word = any = NULL;
	message[0] = 0;
	switch (setjmp(start)) {
	case 0:
		got_operands = args_parse(&command, opts, argc, argv);
		got = TAKEN;
		break;
	case EXIT_USAGE + 1:
		got = REFUSED;
		/* One line but for what was typed, which says what it is about. */
		demand(strlen(message) > 10);
		break;
	default:
		got = HELP;
	}
	demand(got == want);
	if (got == TAKEN) {
		demand(got_operands == operands);
		must_have_the_values(last);
	}
	while (nkept)
		forget(kept[0]);
	free(text);
	free(plain);
	return 0;
}
