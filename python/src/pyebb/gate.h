/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * gate.h - who is inside of something that may be closed at any time.
 *
 * libebb wants a close for itself alone.  A caller enters, calls and leaves; closing shuts the gate
 * and waits for nobody: the last one who leaves closes.  One word has it all:
 *
 *     GATE_TAKEN | GATE_SHUT | how many are inside
 */
#ifndef PYEBB_GATE_H
#define PYEBB_GATE_H

#include <stdbool.h>
#include <stdint.h>

#define GATE_SHUT ((uint64_t)1 << 62)
#define GATE_TAKEN ((uint64_t)1 << 63)

typedef uint64_t gate_t;

/* True, once: the caller has to close. */
static inline bool gate_take(gate_t *gate)
{
	uint64_t empty = GATE_SHUT;

	return __atomic_compare_exchange_n(gate, &empty, GATE_SHUT | GATE_TAKEN, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* True: the caller was the last one inside, and has to close. */
static inline bool gate_leave(gate_t *gate)
{
	return __atomic_sub_fetch(gate, 1, __ATOMIC_ACQ_REL) == GATE_SHUT && gate_take(gate);
}

/* False: it is shut.  *close: the caller has to close all the same. */
static inline bool gate_enter(gate_t *gate, int *close)
{
	*close = 0;
	if (!(__atomic_fetch_add(gate, 1, __ATOMIC_ACQ_REL) & GATE_SHUT))
		return true;
	*close = gate_leave(gate);
	return false;
}

/* True: nobody is inside, and the caller has to close. */
static inline bool gate_shut(gate_t *gate)
{
	__atomic_or_fetch(gate, GATE_SHUT, __ATOMIC_ACQ_REL);
	return gate_take(gate);
}

static inline bool gate_is_shut(const gate_t *gate)
{
	return __atomic_load_n(gate, __ATOMIC_ACQUIRE) & GATE_SHUT;
}

#endif
