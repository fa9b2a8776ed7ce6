// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* case.c - main() of a program of cases; see rig.h. */
#include "rig.h"
#include "explore.h"

#include <stdio.h>

static struct rig_case *first;

void rig_case_add(struct rig_case *c)
{
	struct rig_case **at = &first;

	while (*at && (*at)->line < c->line)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
}

int main(void)
{
	unsigned int n = 0;

	for (struct rig_case *c = first; c; c = c->next) {
		explore_doing(c->name);
		c->run();
		if (rig_begun)
			rig_end();
		printf("ok %u - %s\n", ++n, c->name);
	}
	printf("1..%u\n", n);
	return 0;
}
