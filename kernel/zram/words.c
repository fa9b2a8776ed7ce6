// SPDX-License-Identifier: GPL-2.0-only
/* words.c - takes what is written to a file apart: "name=value name=value ...", and sizes. */
#include "zram.h"

#include <linux/kernel.h>
#include <linux/string.h>

#include "sysfs.h"

bool zram_next_word(char **text, char **name, char **value)
{
	*text = skip_spaces(*text);
	if (!**text)
		return false;
	*text = next_arg(*text, name, value);
	/* "name=" is as good as no value, in all files. */
	if (*value && !**value)
		*value = NULL;
	return true;
}

bool zram_parse_size(const char *buf, u64 *bytes)
{
	char *end;

	*bytes = memparse(buf, &end);
	return end != buf && (!*end || *end == '\n');
}
