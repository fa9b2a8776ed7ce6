/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sized.h - structs of ebb.h between a program and a library of another version.
 *
 * Each begins with its size as the program knows it, and only grows at its end.  What the other
 * side does not know is 0, which stands for what was before there was the field.
 */
#ifndef EBB_USER_SIZED_H
#define EBB_USER_SIZED_H

#include "why.h"

#define SIZED_MOST ((size_t)4096)       /* more is no size but what was in memory */

/* What the program says at p; 0: it is less than the first version had, or none. */
static inline size_t sized_of(const void *p, size_t least)
{
	size_t bytes;

	memcpy(&bytes, p, sizeof(bytes));
	return why_if(bytes < least || bytes > SIZED_MOST,
		      "struct_size %zu: expected sizeof of the struct, %zu at least", bytes, least) ?
	       0 : bytes;
}

/* The program's struct at from, as the library's of so many bytes.  -EINVAL: it asks for more. */
static inline int sized_in(void *to, size_t bytes, const void *from, size_t least)
{
	size_t theirs = sized_of(from, least), i;

	if (!theirs)
		return -EINVAL;
	for (i = bytes; i < theirs; i++)
		if (why_if(((const char *)from)[i],
			   "a field at byte %zu of the struct is not of this version", i))
			return -EINVAL;
	memset(to, 0, bytes);
	memcpy(to, from, theirs < bytes ? theirs : bytes);
	return 0;
}

/* The library's struct at from to the program's, which keeps its size.  -EINVAL. */
static inline int sized_out(void *to, size_t least, const void *from, size_t bytes)
{
	size_t theirs = sized_of(to, least), head = sizeof(size_t);

	if (!theirs)
		return -EINVAL;
	memcpy((char *)to + head, (const char *)from + head,
	       (theirs < bytes ? theirs : bytes) - head);
	if (theirs > bytes)
		memset((char *)to + bytes, 0, theirs - bytes);
	return 0;
}

#endif
