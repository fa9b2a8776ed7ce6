// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* text.c - decodes UTF-8 and escapes what is not text. */
#include "text.h"

#include <stddef.h>
#include <stdint.h>
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

bool is_utf8(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	uint32_t code;

	while (*s) {
		size_t n = decode(s, &code);

		if (!n)
			return false;
		s += n;
	}
	return true;
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

	while (copy && *s) {
		uint32_t code;
		size_t n = decode(s, &code);

		if (n && *s != '\\' && !is_control(code)) {
			memcpy(to, s, n);
			to += n;
			s += n;
			continue;
		}
		if (*s == '\\')
			to += sprintf(to, "\\\\");
		else
			for (size_t i = 0; i < (n ? n : 1); i++)
				to += sprintf(to, "\\x%02x", s[i]);
		s += n ? n : 1;
	}
	if (copy)
		*to = '\0';
	return copy;
}
