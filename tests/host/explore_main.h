/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* explore_main.h - main() of a program that explores a table of scenarios, a TAP case each. */
#ifndef EBB_TESTS_EXPLORE_MAIN_H
#define EBB_TESTS_EXPLORE_MAIN_H

#include "explore.h"

/* What a scenario asks for; 0 where it does not. */
struct explore_case {
	const char *name;
	unsigned int actors;
	unsigned int asleep;    /* of explore_job */
	unsigned int most;      /* no higher bound, unless one is asked for by name */
};

struct explore_plan {
	const char *program;
	struct explore_job job; /* begin, act and end */
	unsigned int scenarios;
	/* Makes scenario i the one that the job's functions are about. */
	void (*choose)(unsigned int i, struct explore_case *c);
};

/*
 * --bound N  most choices that cost, 0 to 7; 3, or less if EBB_TEST_SCALE < 100
 * --only PART, --plain, --replay 'NAME:SCHEDULE'       as docs/internals/testing.md has them
 */
int explore_main(int argc, char **argv, const struct explore_plan *plan);

#endif
