// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ebbtierd - `ebb tierd` alone, as a static program: the whole command would want its libraries. */
#include "../../../tools/tool.h"

int main(int argc, char **argv)
{
	catch_signals();
	return tierd_command.run(&tierd_command, argc - 1, argv + 1);
}
