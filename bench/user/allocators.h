/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* allocators.h - the allocators that benches compare, and objects in one of them. */
#ifndef EBB_ALLOCATORS_H
#define EBB_ALLOCATORS_H

#include "args.h"
#include "ebb.h"

struct allocator {
	const char *name;
	const char *library;   /* to be preloaded; NULL: none */
	bool store;            /* ebb_put() and ebb_free() instead of malloc() and free() */
	bool nothing;          /* no allocator: its calls do nothing */
	uint64_t release_limit;
};

/* The name is one of them; what it preloads is in the process, or the program ends. */
const struct allocator *allocator_find(const char *name);

/* Takes those out of the list that are not installed, and says so. */
void allocators_choose(struct word_list *names);

struct objects {
	const struct allocator *a;
	struct ebb_store *store;
	void **held;           /* malloc's: object in slot i */
	uint64_t slots;
};

/* The array is there when it is opened, but not the store: its index is counted for neither. */
void objects_open(struct objects *o, const struct allocator *a, uint64_t slots);
void objects_open_store(struct objects *o);
void objects_close(struct objects *o);

/* 0 or -errno.  Slots that are put to are empty; what is got goes to buf, a page. */
int objects_put(struct objects *o, uint64_t slot, const void *data, size_t n);
int objects_get(struct objects *o, uint64_t slot, void *buf, size_t n);
int objects_drop(struct objects *o, uint64_t slot);

#endif
