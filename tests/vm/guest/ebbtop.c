// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ebbtop - `ebb top` alone, as a static program: the whole command would want its libraries. */
#include <stdio.h>

#include "../../../tools/tool.h"

int main(int argc, char **argv)
{
	int status;

	catch_signals();
	status = top_command.run(&top_command, argc - 1, argv + 1);
	return fflush(stdout) ? EXIT_FAILED : status;
}
