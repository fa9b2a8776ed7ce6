// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb - stores real pages in compressed memory, and measures how fast it lets them go.
 * This file finds the subcommand; each has a file of its own.
 */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ebb.h"

static const struct command *const commands[] = {
	&classes_command,      &pack_command,         &bench_release_command,
	&bench_store_command,  &bench_density_command, &bench_units_command,
	&bench_malloc_command, &bench_malloc_one_command, &bench_latency_command,
	&bench_latency_one_command, &values_bench_command,
	&cache_bench_command,  &top_command, &tierd_command,
};

static void print_usage(void)
{
	puts("Usage: ebb COMMAND [OPTION]...\n\n"
	     "Compressed pages in a process: stores real pages, checks them, and measures\n"
	     "what storing and freeing them costs.\n\n"
	     "Commands:");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (!commands[i]->hidden)
			printf("  %-16s %s\n", commands[i]->name, commands[i]->summary);
	puts("\n`ebb COMMAND --help` explains one and gives examples.  Sizes take K, M, G and T.\n\n"
	     "Examples:\n"
	     "  ebb classes                      how objects are placed in pages\n"
	     "  ebb pack /usr/lib                store a folder's pages, check them, show density\n"
	     "  ebb bench release                how long letting go of 256 MB per thread takes\n"
	     "  ebb top                          the zram devices of this machine, as they work\n\n"
	     "Exit status: 0 done, 1 something failed, 2 wrong command line, 130 interrupted.");
}

/* The command whose words argv starts with; *words tells how many they are. */
static const struct command *find_command(int argc, char **argv, int *words)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		const char *name = commands[i]->name;
		int n = 0;

		while (n < argc) {
			size_t len = strlen(argv[n]);

			if (strncmp(name, argv[n], len) || (name[len] && name[len] != ' '))
				break;
			n++;
			if (!name[len]) {
				*words = n;
				return commands[i];
			}
			name += len + 1;
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const struct command *cmd;
	int words, status;

	argc--;
	argv++;
	if (argc && !strcmp(argv[0], "help")) {
		static char help[] = "--help";

		/* "help bench release" is "bench release --help". */
		memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
		argv[argc - 1] = help;
	}
	if (!argc)
		usage_fail("no command given; expected one of those that `ebb --help` lists");
	cmd = find_command(argc, argv, &words);
	if (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h") ||
	    (!cmd && !strcmp(argv[0], "bench") && argc > 1 && !strcmp(argv[1], "--help"))) {
		print_usage();
		return fflush(stdout) ? EXIT_FAILED : 0;
	}
	if (!strcmp(argv[0], "--version")) {
		printf("ebb %s\n", ebb_version());
		return fflush(stdout) ? EXIT_FAILED : 0;
	}
	if (!cmd && !strcmp(argv[0], "bench"))
		usage_fail("bench%s%s: expected bench release, store, density, units, malloc or latency",
			   argc > 1 ? " " : "", argc > 1 ? argv[1] : "");
	if (!cmd && (!strcmp(argv[0], "values") || !strcmp(argv[0], "cache")))
		usage_fail("%s%s%s: expected %s bench", argv[0], argc > 1 ? " " : "",
			   argc > 1 ? argv[1] : "", argv[0]);
	if (!cmd)
		usage_fail("%s: no such command; expected one of those that `ebb --help` lists",
			   argv[0]);
	catch_signals();
	status = cmd->run(cmd, argc - words, argv + words);
	progress_end();
	if (fflush(stdout) || ferror(stdout))
		fail("standard output: cannot write all of it");
	return status;
}
