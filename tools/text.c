// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* text.c - decodes UTF-8 and escapes what is not text. */
#define _GNU_SOURCE
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the character at s, and its code point; 0: they are not UTF-8. */
static size_t decode(const unsigned char *s, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *s < 0x80 ? 1 : *s < 0xc0 || *s >= 0xf8 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;

	if (n < 2) {
		*code = *s;
		return n;
	}
	*code = *s & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (s[i] & 0x3f);
	}
	if (*code < least[n] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return n;
}

/* Controls of both sets, ends of lines and paragraphs, and what turns the direction of text. */
static bool is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069);
}

char *printable(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	char *copy = malloc(strlen(text) * 4 + 1), *to = copy;

	if (!copy)
		no_memory();
	while (*s) {
		uint32_t code;
		size_t n = decode(s, &code), bytes = n ? n : 1;
		bool shown = n && !is_control(code);

		for (; bytes--; s++)
			if (*s == '\\')
				to = stpcpy(to, "\\\\");
			else if (shown)
				*to++ = (char)*s;
			else
				to += sprintf(to, "\\x%02x", *s);
	}
	*to = '\0';
	return copy;
}

size_t text_cut(const char *text, size_t len, unsigned int most)
{
	size_t at = 0;

	while (at < len && (((unsigned char)text[at] & 0xc0) == 0x80 || most--))
		at++;
	return at;
}
