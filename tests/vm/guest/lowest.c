// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * lowest.c - runs a program at the lowest priority there is for it, a nice value of 19.
 *
 *     lowest PROGRAM [WORD...]
 */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: lowest PROGRAM [WORD...]\n");
		return 2;
	}
	if (setpriority(PRIO_PROCESS, 0, 19)) {
		perror("lowest: setpriority");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 1;
}
