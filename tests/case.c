// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* case.c - see case.h. */
#define _GNU_SOURCE
#include "case.h"

#include <errno.h>
#include <stdlib.h>

static struct test_case *first;
static size_t ncases;

void case_add(struct test_case *c)
{
	struct test_case **at = &first;

	while (*at && (*at)->line < c->line)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
	ncases++;
}

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
	struct CMUnitTest tests[ncases];
	size_t n = 0;

	if (only)
		cmocka_set_test_filter(only);
	for (struct test_case *c = first; c; c = c->next)
		tests[n++] = (struct CMUnitTest){ c->name, run, set_up, tear_down, c };
	before_all();
	return _cmocka_run_group_tests(program_invocation_short_name, tests, n, NULL, NULL);
}
