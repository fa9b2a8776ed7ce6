// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* why.c - see why.h. */
#include "why.h"

#include <stdarg.h>
#include <stdio.h>

#include "ebb.h"

static _Thread_local char reason[160];

bool why_say(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(reason, sizeof(reason), format, ap);
	va_end(ap);
	return true;
}

const char *ebb_why(void)
{
	return reason;
}
