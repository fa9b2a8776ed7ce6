// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* case.c - main() of a program of cases; see rig.h. */
#include "rig.h"
#include "explore.h"

#include <stdio.h>

int main(void)
{
	unsigned int n = 0;

	for (struct test_case *c = case_first; c; c = c->next) {
		explore_doing(c->name);
		c->run();
		if (rig_begun)
			rig_end();
		printf("ok %u - %s\n", ++n, c->name);
	}
	printf("1..%u\n", n);
	return 0;
}
