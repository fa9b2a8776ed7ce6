/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * bench_malloc.h - what `ebb bench malloc` and the processes it starts, one per allocator and
 * run, say to each other.
 *
 * A process gets its objects in a file in memory, which it maps and never writes, and answers
 * with one struct malloc_result on its standard output.
 */
#ifndef EBB_BENCH_MALLOC_H
#define EBB_BENCH_MALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* Its arguments: one of allocators.h's names, threads, file descriptor, churn. */
#define MALLOC_ONE_COMMAND "malloc-one"

/* The file: this, then count + 1 offsets, then the objects' bytes from bytes_at on. */
struct object_file {
	uint64_t count, bytes_at, file_bytes;
};

struct malloc_result {
	double alloc_ns, alloc_again_ns, alloc_churned_ns, free_ns, free_cpu_ns, churn_ns;
	double rss_per_byte, rss_per_byte_churned;
	double payload_bytes, left_bytes;
	bool loaded;   /* the allocator asked for is in the process */
};

#endif
