// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * tool.c - owns what is one for the process: its messages and line of progress, the signal that was
 * caught, the command that it runs, and the end of the program when something fails.
 */
#define _GNU_SOURCE
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_int caught;       /* the signal, which all threads look at */
static bool progress_shown;
static void (*clear_way)(void);

static void put_line(const char *line)
{
	progress_end();
	if (clear_way)
		clear_way();
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
}

void no_memory(void)
{
	put_line("out of memory");
	exit(EXIT_FAILED);
}

static char *vxprintf(const char *fmt, va_list ap)
{
	char *text;

	if (vasprintf(&text, fmt, ap) < 0)
		no_memory();
	return text;
}

/* Names in it may hold anything: it stays one line, and sends a terminal nothing but text. */
static char *line_of_text(const char *fmt, va_list ap)
{
	char *text = vxprintf(fmt, ap), *line = printable(text);

	free(text);
	return line;
}

static void say(const char *fmt, va_list ap)
{
	char *line = line_of_text(fmt, ap);

	put_line(line);
	free(line);
}

void before_messages(void (*fn)(void))
{
	clear_way = fn;
}

void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
}

void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	exit(EXIT_FAILED);
}

void usage_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(fmt, ap);
	va_end(ap);
	exit(EXIT_USAGE);
}

void must(int ret, const char *what)
{
	if (ret < 0)
		fail("%s: %s", what, strerror(-ret));
}

void progress(const char *fmt, ...)
{
	static int terminal = -1;
	va_list ap;
	char *line;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	va_start(ap, fmt);
	line = line_of_text(fmt, ap);
	va_end(ap);
	fprintf(stderr, "\r\033[K%s", line);
	free(line);
	fflush(stderr);
	progress_shown = true;
}

void progress_end(void)
{
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = false;
}

static void on_signal(int sig)
{
	caught = sig;
}

void catch_signal(int sig, void (*handler)(int), int flags)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;

	sigemptyset(&act.sa_mask);
	if (sigaction(sig, NULL, &old) ||
	    (old.sa_handler != SIG_IGN && sigaction(sig, &act, NULL)))
		fail("cannot catch signals: %s", strerror(errno));
}

void catch_signals(void)
{
	/* No SA_RESTART: a wait in the main thread ends with EINTR. */
	catch_signal(SIGINT, on_signal, 0);
	catch_signal(SIGTERM, on_signal, 0);
	catch_signal(SIGHUP, on_signal, 0);
}

bool interrupted(void)
{
	return caught != 0;
}

void stop_if_interrupted(void)
{
	if (!caught)
		return;
	progress_end();
	exit(128 + caught);
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		fail("cannot read a clock: %s", strerror(errno));
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void sleep_us(uint64_t us)
{
	struct timespec ts = { (time_t)(us / 1000000), (long)(us % 1000000) * 1000 };

	nanosleep(&ts, NULL);
}

void *xalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		fail("out of memory for %zu times %zu bytes", n, size);
	return p;
}

void *xmap(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		fail("cannot map %zu bytes: %s", bytes, strerror(errno));
	return p;
}

void xunmap(void *p, size_t bytes)
{
	if (p && munmap(p, bytes))
		fail("cannot unmap %zu bytes: %s", bytes, strerror(errno));
}

char *xprintf(const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = vxprintf(fmt, ap);
	va_end(ap);
	return text;
}

static int print_commands(const struct program *p)
{
	puts(p->usage);
	for (const struct command *const *c = p->commands; *c; c++)
		printf("  %-10s %s\n", (*c)->name, (*c)->summary);
	printf("\n%s\n", p->more);
	return fflush(stdout) ? EXIT_FAILED : 0;
}

int run_command(const struct program *p, int argc, char **argv)
{
	static char help[] = "--help";
	const struct command *const *c = p->commands;
	int status;

	if (argc && !strcmp(argv[0], "help")) {
		memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
		argv[argc - 1] = help;
	}
	if (!argc)
		usage_fail("no %s given; expected one of those that --help lists", p->noun);
	if (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))
		return print_commands(p);
	while (*c && strcmp((*c)->name, argv[0]))
		c++;
	if (!*c)
		usage_fail("%s: no such %s; expected one of those that --help lists", argv[0], p->noun);
	catch_signals();
	status = (*c)->run(*c, argc - 1, argv + 1);
	progress_end();
	if (fflush(stdout) || ferror(stdout))
		fail("standard output: cannot write all of it");
	return status;
}
