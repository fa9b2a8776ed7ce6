/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wear.h - what was written to a device in the last 24 hours, by the hour.
 *
 * A budget is to hold for any 24 hours, whenever they begin.  So the hour that has begun counts,
 * and the 24 before it count as wholes: what was written is forgotten 24 to 25 hours later.
 *
 * The caller keeps others away.
 */
#ifndef EBB_CORE_WEAR_H
#define EBB_CORE_WEAR_H

#include "host.h"

#define WEAR_HOURS 25u

/* All 0 at first. */
struct wear {
	u64 hour;                       /* the last that was asked about */
	u64 sum[WEAR_HOURS];            /* bytes, by the hour's number modulo WEAR_HOURS */
};

/* Notes bytes that are written in an hour; one before the last counts as that.  Any context. */
void wear_add(struct wear *w, u64 hour, u64 bytes);

/* Bytes written in the hour and the 24 before it.  Any context. */
u64 wear_spent(struct wear *w, u64 hour);

#endif
