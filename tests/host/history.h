/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * history.h - what the operations of a run said, and whether that can be.
 *
 * A slot is a register: a write puts a value, a free puts 0, a read tells the value.  A history
 * is sound if the operations on each slot, each taken to happen at one moment between its
 * beginning and its end, can be put in an order that explains every read and the last content
 * (linearizability).  The frees of that order that met a value are those that the store counts.
 */
#ifndef EBB_TESTS_HISTORY_H
#define EBB_TESTS_HISTORY_H

#include "host.h"

#define HISTORY_SLOTS 8         /* operations on others are not kept */
#define HISTORY_EVENTS 16       /* of a slot */

enum event_kind { EV_WRITE, EV_FREE, EV_READ };

struct event {
	u8 kind;
	bool did;
	u32 value;
	u32 from, to;           /* moments */
};

struct history {
	u32 now;
	bool closed;                    /* to the test's: no more is kept */
	u32 n[HISTORY_SLOTS];
	u32 had[HISTORY_SLOTS];         /* before the first operation */
	struct event event[HISTORY_SLOTS][HISTORY_EVENTS];
};

/* An operation begins: its number, for history_end(). */
unsigned int history_start(struct history *h, enum event_kind kind, unsigned int slot, u32 value);
/* It is over.  A write that failed did nothing; a read tells its value. */
void history_end(struct history *h, unsigned int event, bool did, u32 value);

/* A number for all that the operations said. */
u64 history_hash(const struct history *h);

/* NULL, or why not.  last[HISTORY_SLOTS]; freed: what the store counted. */
const char *history_check(const struct history *h, const u32 *last, u64 freed);

#endif
