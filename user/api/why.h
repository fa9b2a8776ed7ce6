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
/* A handle of a kind: what NULL and a closed one are not. */
#define why_closed(is_bad, kind) why_if(is_bad, "this is no open %s", kind)

#endif
