// SPDX-License-Identifier: GPL-2.0-only
/* words.c - takes what is written to a file apart: "name=value name=value ...", and sizes. */
#include "zram.h"

#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
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

/*
 * Not by memparse(): before 7.0 it loses the high bits of what a suffix makes too large, and takes
 * a suffix by itself for 0.
 */
bool zram_parse_size(const char *buf, u64 *bytes)
{
	static const char suffixes[] = "KMGTPE";
	size_t len = strcspn(buf, "\n");
	const char *suffix;
	unsigned int shift;
	char number[32];

	if (!isdigit(*buf) || len >= sizeof(number) || (buf[len] && buf[len + 1]))
		return false;
	memcpy(number, buf, len);
	number[len] = 0;
	/* First without a suffix: the E of 0x1E is a digit. */
	if (!kstrtoull(number, 0, bytes))
		return true;
	suffix = strchr(suffixes, toupper(number[len - 1]));
	number[len - 1] = 0;
	if (!suffix || kstrtoull(number, 0, bytes))
		return false;
	shift = 10 * (unsigned int)(suffix - suffixes + 1);
	if (*bytes > U64_MAX >> shift)
		return false;
	*bytes <<= shift;
	return true;
}
