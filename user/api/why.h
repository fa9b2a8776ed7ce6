/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * why.h - the reason of an -EINVAL, for ebb_why().
 *
 *     if (why_if(cfg->flags & ~FLAGS, "flags 0x%x: expected EBB_... alone", cfg->flags))
 *             return -EINVAL;
 */
#ifndef EBB_USER_WHY_H
#define EBB_USER_WHY_H

#include "host.h"

/* Keeps the reason for this thread.  Any context; true. */
bool why_say(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));

/* Whether refused holds; if so the rest is the reason. */
#define why_if(refused, ...) (unlikely(refused) && why_say(__VA_ARGS__))
#define why_null(pointer) why_if(!(pointer), "%s is NULL", #pointer)
/* No memory where there is to be some. */
#define why_null_of(pointer, bytes) \
	why_if(!(pointer) && (bytes), "%s is NULL, and %s is not 0", #pointer, #bytes)
/* What each function that opens something is given. */
#define why_no_open(out, cfg) \
	(why_if(!(out), "the place for the handle is NULL") || \
	 why_if(!(cfg), "the configuration is NULL"))
/* A handle of a kind: what NULL and a closed one are not. */
#define why_closed(is_bad, kind) why_if(is_bad, "this is no open %s", kind)

#endif
