// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* case_list.c - see case_list.h. */
#include "case_list.h"

struct test_case *case_first;
unsigned int case_count;

void case_add(struct test_case *c)
{
	struct test_case **at = &case_first;

	while (*at && (*at)->line < c->line)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
	case_count++;
}
