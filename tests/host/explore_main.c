// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* explore_main.c - arguments, and scenarios one after the other; see explore_main.h. */
#include "explore_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
	unsigned int percent, bound;
	bool asked;             /* for the bound */
	const char *only, *replay;
};

static void usage(const struct explore_plan *plan)
{
	fprintf(stderr, "%s [--bound N] [--only PART] [--plain] [--replay 'NAME:SCHEDULE']\n"
			"  --bound   most choices that cost, 0 to 7 (default 3, less if EBB_TEST_SCALE < 100)\n",
		plan->program);
	exit(2);
}

static void take_options(struct options *o, int argc, char **argv, const struct explore_plan *plan)
{
	const char *scale = getenv("EBB_TEST_SCALE");
	int k;

	o->percent = scale ? (unsigned int)atoi(scale) : 100;
	o->bound = o->percent >= 100 ? 3 : o->percent >= 50 ? 2 : o->percent >= 10;
	for (k = 1; k < argc; k += 2) {
		if (!strcmp(argv[k], "--plain")) {
			explore_plain = true;
			k--;
			continue;
		}
		if (k + 1 == argc)
			usage(plan);
		if (!strcmp(argv[k], "--bound") && atoi(argv[k + 1]) <= 7) {
			o->bound = (unsigned int)atoi(argv[k + 1]);
			o->asked = true;
		} else if (!strcmp(argv[k], "--only")) {
			o->only = argv[k + 1];
		} else if (!strcmp(argv[k], "--replay")) {
			o->replay = argv[k + 1];
		} else {
			usage(plan);
		}
	}
}

static unsigned int bound_of(const struct options *o, const struct explore_case *c)
{
	unsigned int bound = o->bound;

	if (o->asked)
		return bound;
	return c->most && c->most < bound ? c->most : bound;
}

/* Explores it and prints its case; returns the schedules. */
static u64 explore_one(const struct explore_job *job, unsigned int bound)
{
	struct explore_result res;
	clock_t begun = clock();

	explore(job, bound, &res);
	printf("# %u actors, bound %u: %lu schedules, exhausted; %lu cut, %lu steps, %u choices, "
	       "%u outcomes, %u bytes of stack, %.1f s\nok %u - %s\n", job->actors, bound,
	       res.schedules, res.cut, res.steps, res.points, res.outcomes, res.stack,
	       (double)(clock() - begun) / CLOCKS_PER_SEC, job->number, job->name);
	return res.schedules;
}

int explore_main(int argc, char **argv, const struct explore_plan *plan)
{
	struct explore_job job = plan->job;
	struct options o = { 0 };
	unsigned int i, number = 0;
	u64 schedules = 0;

	take_options(&o, argc, argv, plan);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < plan->scenarios; i++) {
		struct explore_case c = { 0 };
		size_t n;

		plan->choose(i, &c);
		n = strlen(c.name);
		if (o.only && !strstr(c.name, o.only))
			continue;
		if (o.replay && (strncmp(c.name, o.replay, n) || o.replay[n] != ':'))
			continue;
		job.name = c.name;
		job.number = ++number;
		job.actors = c.actors;
		job.asleep = c.asleep;
		if (o.replay) {
			explore_replay(&job, o.replay + n + 1);
			printf("ok %u - %s\n", number, c.name);
			continue;
		}
		schedules += explore_one(&job, bound_of(&o, &c));
	}
	if (!o.replay)
		printf("# schedules: %lu in %u scenarios\n", schedules, number);
	printf("1..%u\n", number);
	return number ? 0 : 2;
}
