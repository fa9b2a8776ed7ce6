/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tool.h - what subcommands of `ebb` and benches of bench-user use: messages, the end of the
 * program, signals, clocks, allocation and random numbers.
 *
 * Exit status: 0 done, 1 something failed, 2 the command line was wrong, 128 + n stopped by
 * signal n.  Every error is one line that names the value and what was expected.
 *
 * Functions here and in the other files of tools/ end the program on a failure, so that the
 * subcommands read as what they measure.  That is safe at any point: what must be undone
 * (bench/user/density.c) is undone by a process of its own.
 */
#ifndef EBB_TOOL_H
#define EBB_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define EXIT_FAILED 1
#define EXIT_USAGE 2

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct command {
	const char *name;       /* as typed after "ebb" */
	const char *operands;   /* "" or "PATH..." */
	const char *summary;    /* one line */
	const char *about;      /* paragraphs of --help */
	const char *examples;   /* lines of --help */
	int (*run)(const struct command *cmd, int argc, char **argv);
};

struct program {
	const char *noun;                       /* of what it has: "command" */
	const char *usage, *more;               /* of --help, around the list */
	const struct command *const *commands;  /* NULL at the end */
};

/* Runs the command that argv[0] names, or prints --help; "help pack" is "pack --help". */
int run_command(const struct program *p, int argc, char **argv);

extern const struct command classes_command, pack_command, tierd_command, top_command;

/* One line on stderr, names in it escaped; fail() then ends with 1, usage_fail() with 2. */
void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void usage_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Ends the program with 1, where there is no memory for another message. */
void no_memory(void) __attribute__((noreturn));

/*
 * A copy of text, to be freed, in which what a terminal would not show as itself is escaped:
 * "\n" as \x0a, a byte that is not UTF-8 as \xe9, a backslash as \\.
 */
char *printable(const char *text);
/* Bytes of the first characters of len bytes of UTF-8. */
size_t text_cut(const char *text, size_t len, unsigned int most);

/* Has fn called before each of them: it takes what would hide the line off the terminal. */
void before_messages(void (*fn)(void));

/* Fails with "what: reason" when ret, the answer of a libebb call, is negative. */
void must(int ret, const char *what);

/* A line on stderr that the next one overwrites; nothing unless stderr is a terminal. */
void progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void progress_end(void);

/*
 * SIGINT, SIGTERM and SIGHUP set a flag.  Loops of threads look
 * at interrupted() and return early; the main thread calls stop_if_interrupted(), which ends the
 * program.
 */
void catch_signals(void);
/* One that is ignored stays so: nohup, and a script's job in the background. */
void catch_signal(int sig, void (*handler)(int), int flags);
bool interrupted(void);
void stop_if_interrupted(void);

uint64_t clock_ns(clockid_t clock);
uint64_t now_ns(void);          /* of CLOCK_MONOTONIC */
void sleep_us(uint64_t us);

/* Zeroed memory, from malloc and from mmap (page by page, when it is touched). */
void *xalloc(size_t n, size_t size);
void *xmap(size_t bytes);
void xunmap(void *p, size_t bytes);
/* The text, to be freed. */
char *xprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* SplitMix64: a seed gives the same sequence on every machine. */
static inline uint64_t rng_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* Uniform in 0 .. n - 1, n < 2^32. */
static inline uint64_t rng_below(uint64_t *state, uint64_t n)
{
	return (rng_next(state) >> 32) * n >> 32;
}

#endif
