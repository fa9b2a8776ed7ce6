/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* text.h - names that others chose, made fit for a line on a terminal or for JSON. */
#ifndef EBB_TEXT_H
#define EBB_TEXT_H

#include <stdbool.h>

bool is_utf8(const char *text);

/*
 * A copy of text, to be freed, in which what a terminal would not show as itself is escaped:
 * "\n" as \x0a, a byte that is not UTF-8 as \xe9, a backslash as \\.  NULL when memory is short.
 */
char *printable(const char *text);

#endif
