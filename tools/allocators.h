/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* allocators.h - the allocators that benches compare, each in a process that has it preloaded. */
#ifndef EBB_ALLOCATORS_H
#define EBB_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct allocator {
	const char *name;
	const char *library;   /* to be preloaded; NULL: none */
	const char *setting;   /* NAME=VALUE for its environment; NULL: none */
	bool store;            /* ebb_put() and ebb_free() instead of malloc() and free() */
	uint64_t release_limit;
};

#define ALLOCATORS 7

extern const struct allocator allocators[ALLOCATORS];

/* NULL: there is none of that name. */
const struct allocator *allocator_find(const char *name);

/* Whether this process has it: the dynamic linker only complains of what cannot be preloaded. */
bool allocator_is_here(const struct allocator *a);

#endif
