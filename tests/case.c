// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* case.c - see case.h. */
#define _GNU_SOURCE
#include "case.h"

#include <errno.h>
#include <stdlib.h>

__attribute__((weak)) void before_all(void) {}
__attribute__((weak)) void before_each(void) {}
__attribute__((weak)) void after_each(void) {}
__attribute__((weak)) void clean_up(void) {}

static int set_up(void **state)
{
	(void)state;
	before_each();
	return 0;
}

static void run(void **state)
{
	const struct test_case *c = *state;

	c->run();
	after_each();
}

static int tear_down(void **state)
{
	(void)state;
	clean_up();
	return 0;
}

int main(void)
{
	const char *only = getenv("EBB_TEST_CASE");
	struct CMUnitTest tests[case_count];
	size_t n = 0;

	if (only)
		cmocka_set_test_filter(only);
	for (struct test_case *c = case_first; c; c = c->next)
		tests[n++] = (struct CMUnitTest){ c->name, run, set_up, tear_down, c };
	before_all();
	return _cmocka_run_group_tests(program_invocation_short_name, tests, n, NULL, NULL);
}
