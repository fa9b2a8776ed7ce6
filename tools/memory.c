// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* memory.c - owns how much memory the command may take, and says what would be too much. */
#define _GNU_SOURCE
#include "memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "args.h"
#include "cgroup.h"
#include "tool.h"

uint64_t machine_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	if (pages <= 0 || size <= 0)
		fail("cannot tell how much memory this machine has");
	return (uint64_t)pages * (uint64_t)size;
}

uint64_t memory_bytes(void)
{
	static uint64_t bytes;

	if (!bytes) {
		uint64_t machine = machine_bytes(), left = cgroup_memory_left("");

		bytes = (left < machine ? left : machine) / 8 * 7;
	}
	return bytes;
}

/* Down to whole MiB, or below one to what is a multiple of every page size. */
static uint64_t rounded(uint64_t bytes)
{
	return bytes >> 20 ? bytes >> 20 << 20 : bytes >> 16 << 16;
}

void memory_check(uint64_t bytes, const char *fmt, ...)
{
	char need[32], may[32], *what;
	va_list ap;
	int n;

	if (bytes <= memory_bytes())
		return;
	va_start(ap, fmt);
	n = vasprintf(&what, fmt, ap);
	va_end(ap);
	if (n < 0)
		fail("out of memory for a line of text");
	usage_fail("%s may need %s; expected at most the %s that this process may take", what,
		   size_text((bytes >> 20 << 20) + (1 << 20), need),
		   size_text(rounded(memory_bytes()), may));
}
