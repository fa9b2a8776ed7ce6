/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bench_latency.h - what `ebb bench latency` and the processes it starts, one for each allocator
 * and run, say to each other.
 */
#ifndef EBB_BENCH_LATENCY_H
#define EBB_BENCH_LATENCY_H

#include <stdbool.h>

#define LATENCY_ONE_COMMAND "latency-one"
/* Its arguments: an allocator's name, others, exits, bytes of each of them, a set of data. */
#define LATENCY_ONE_ARGS 5

/* Not an allocator: its calls do nothing, and what is left is the clock and the machine. */
#define LATENCY_NOTHING "nothing"

/* GIVE_BACK is a free of an object that has a page for itself. */
enum latency_op { LATENCY_STORE, LATENCY_READ, LATENCY_FREE, LATENCY_GIVE_BACK, LATENCY_OPS };

/*
 * Times in ns.  A call during which the thread lost its CPU to another one says nothing about the
 * allocator: those are counted by themselves, and are in none of the others.  One that waited for
 * a lock is not such a call.
 */
struct latency_op_result {
	double samples, p50_ns, p99_ns, p999_ns, max_ns;
	double lost, lost_max_ns;
};

struct latency_result {
	struct latency_op_result op[LATENCY_OPS];
	bool loaded;   /* the allocator asked for is in the process */
};

#endif
