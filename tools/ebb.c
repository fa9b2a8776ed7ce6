// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb - stores real pages in compressed memory, and watches zram.
 * Each subcommand has a file of its own.
 */
#include "tool.h"

#include <stdio.h>
#include <string.h>

#include "ebb.h"

static const struct command *const commands[] = {
	&classes_command, &pack_command, &top_command, &tierd_command, NULL,
};

static const struct program ebb = {
	.noun = "command",
	.usage = "Usage: ebb COMMAND [OPTION]...\n\n"
		 "Compressed pages in a process, and the zram devices of this machine.\n\n"
		 "Commands:",
	.commands = commands,
	.more = "`ebb COMMAND --help` explains one and gives examples.  Sizes take K, M, G and T.\n\n"
		"Examples:\n"
		"  ebb classes                      how objects are placed in pages\n"
		"  ebb pack /usr/lib                store a folder's pages, check them, show density\n"
		"  ebb top                          the zram devices of this machine, as they work\n\n"
		"Exit status: 0 done, 1 something failed, 2 wrong command line, 130 interrupted.",
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		printf("ebb %s\n", ebb_version());
		return fflush(stdout) ? EXIT_FAILED : 0;
	}
	return run_command(&ebb, argc - 1, argv + 1);
}
