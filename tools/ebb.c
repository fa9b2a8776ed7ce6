// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb - stores real pages in compressed memory, and watches zram.
 * This file finds the subcommand; each has a file of its own.
 */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ebb.h"

static const struct command *const commands[] = {
	&classes_command, &pack_command, &top_command, &tierd_command,
};

static void print_usage(void)
{
	puts("Usage: ebb COMMAND [OPTION]...\n\n"
	     "Compressed pages in a process, and the zram devices of this machine.\n\n"
	     "Commands:");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		printf("  %-16s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n`ebb COMMAND --help` explains one and gives examples.  Sizes take K, M, G and T.\n\n"
	     "Examples:\n"
	     "  ebb classes                      how objects are placed in pages\n"
	     "  ebb pack /usr/lib                store a folder's pages, check them, show density\n"
	     "  ebb top                          the zram devices of this machine, as they work\n\n"
	     "Exit status: 0 done, 1 something failed, 2 wrong command line, 130 interrupted.");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	usage_fail("%s: no such command; expected one of those that `ebb --help` lists", name);
}

int main(int argc, char **argv)
{
	static char help[] = "--help";
	const struct command *cmd;
	int status;

	argc--;
	argv++;
	if (argc && !strcmp(argv[0], "help")) {
		/* "help pack" is "pack --help". */
		memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
		argv[argc - 1] = help;
	}
	if (!argc)
		usage_fail("no command given; expected one of those that `ebb --help` lists");
	if (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) {
		print_usage();
		return fflush(stdout) ? EXIT_FAILED : 0;
	}
	if (!strcmp(argv[0], "--version")) {
		printf("ebb %s\n", ebb_version());
		return fflush(stdout) ? EXIT_FAILED : 0;
	}
	cmd = find_command(argv[0]);
	catch_signals();
	status = cmd->run(cmd, argc - 1, argv + 1);
	progress_end();
	if (fflush(stdout) || ferror(stdout))
		fail("standard output: cannot write all of it");
	return status;
}
