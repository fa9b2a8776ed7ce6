/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * native.h - what native.c times of an allocator: zsmalloc.c of one kernel (zs.c) or Ebb's pool
 * (ebb.c).  All objects are named by words; those of a thread lie side by side.
 */
#ifndef EBB_NATIVE_H
#define EBB_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NATIVE_PIECE 512        /* most objects of a call */
#define NATIVE_MOST 4096        /* bytes of the largest */

/* The ways to free, of which the first is one by one. */
extern const char *const native_ways[];         /* ends with NULL */

/* bytes: what objects of so many bytes need at most, pages of theirs included. */
void native_open(size_t bytes, uint64_t objects);
void native_thread(unsigned int number);        /* each begins with this */

/* n objects, of size[] bytes; each begins and ends with the number that is its key. */
void native_store(uint64_t *word, const uint16_t *size, uint32_t key, unsigned int n);
/* Copies each out; false: one is not as it was stored. */
bool native_read(uint64_t *word, const uint16_t *size, uint32_t key, unsigned int n);
void native_free(uint64_t *word, unsigned int n, unsigned int way);
/* Returns when all that was freed is back; the pages that are not. */
unsigned long native_settle(void);

/* Pages that the allocator has, after it gave back what it compacted; CPU time is the caller's. */
unsigned long native_pages(void);
void native_compact(void);

/* Where key's object is named. */
extern uint64_t *native_words;

void native_die(const char *what) __attribute__((noreturn));

/* An object that a thread stores or has read: its key is in both its ends. */
struct native_object {
	unsigned char byte[NATIVE_MOST] __attribute__((aligned(64)));
};

static inline void native_mark(struct native_object *o, size_t size, uint64_t key)
{
	__builtin_memcpy(o->byte, &key, sizeof(key));
	__builtin_memcpy(o->byte + size - sizeof(key), &key, sizeof(key));
}

static inline bool native_is(const struct native_object *o, size_t size, uint64_t key)
{
	return !__builtin_memcmp(o->byte, &key, sizeof(key)) &&
	       !__builtin_memcmp(o->byte + size - sizeof(key), &key, sizeof(key));
}

#endif
