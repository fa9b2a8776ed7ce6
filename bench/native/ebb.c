// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb.c - native.h for Ebb's pool in its user home.
 *
 *   single     pool_free()
 *   bulk32 bulk512  pool_free_bulk()
 *   deferred   handed to the release stage, whose workers free it; as zram.ko does
 *
 * Before each of them the reference is taken out of its owner's word by an exchange: what keeps
 * compaction off the object, as the lock of a class does in zsmalloc.
 *
 * A read holds the object by a compare-and-swap on its word and lets it go by another, for the same
 * reason.  The home keeps its pages off huge pages, so that it can give each back; here they are
 * asked for, as zsmalloc's memory has them, and none is given back.
 */
#include "native.h"

#include <sys/mman.h>

#include "store/hold.h"
#include "home/pcp.h"
#include "mm/release.h"
#include "home/zone.h"

const char *const native_ways[] = { "single", "bulk32", "bulk512", "deferred", NULL };

/* As a store of ebb.h has it; so are the lists. */
#define CHAIN 16

static struct host_pages *zone;
static struct pcp pcp;
static struct pages pages;
static struct pool pool;
static struct holds holds;
static struct host_percpu cpus;
static struct release release;
static __thread struct native_object object, copy;

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);

int __wrap_madvise(void *at, size_t bytes, int advice)
{
	return __real_madvise(at, bytes, advice == MADV_NOHUGEPAGE ? MADV_HUGEPAGE : advice);
}

static u64 look(void *ctx, u32 key)
{
	(void)ctx;
	return slot_ref(host_a64_read((host_a64 *)&native_words[key]));
}

static bool swing(void *ctx, u32 key, u64 from, u64 to)
{
	(void)ctx;
	from = slot_make(SLOT_PAGE, from);
	return host_a64_cas((host_a64 *)&native_words[key], &from, slot_make(SLOT_PAGE, to));
}

void native_open(size_t bytes, uint64_t objects)
{
	const struct pool_owner owner = { .look = look, .swing = swing };

	(void)bytes;
	/* Lists and chains as a store of ebb.h has them (user/api/ebb.c). */
	if (zone_open(&zone) || pcp_init(&pcp, zone, (256u << 10) >> PAGE_SHIFT,
				      (1u << 20) >> PAGE_SHIFT) ||
	    pages_init(&pages, zone, 0, NULL) || pool_init(&pool, &pages, CHAIN, &owner) ||
	    holds_init(&holds, 64) ||
	    host_percpu_init(&cpus, sizeof(struct release_cpu)) ||
	    release_init(&release, &pool, &cpus, release_default_limit(), objects, NULL))
		native_die("no pool");
}

void native_thread(unsigned int number)
{
	(void)number;
}

void native_store(uint64_t *word, const uint16_t *size, uint32_t key, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		u64 ref;

		native_mark(&object, size[i], key + i);
		if (pool_make(&pool, size[i], object.byte, key + i, NUMA_NO_NODE, HOST_MAY_WAIT,
			      &ref))
			native_die("no memory for an object");
		word[i] = slot_make(SLOT_PAGE, ref);
	}
}

bool native_read(uint64_t *word, const uint16_t *size, uint32_t key, unsigned int n)
{
	static __thread struct native_object bounce;

	for (unsigned int i = 0; i < n; i++) {
		host_a64 *slot = (host_a64 *)&word[i];
		u64 ref = slot_ref(hold_take(&holds, slot));
		size_t bytes = pool_ref_size(&pool, ref);

		memcpy(copy.byte, pool_map(&pool, ref, bounce.byte), bytes);
		hold_drop(&holds, slot, ref);
		if (bytes != size[i] || !native_is(&copy, bytes, key + i))
			return false;
	}
	return true;
}

static void defer(u64 ref)
{
	struct release_todo todo = { 0 };
	u32 bytes = pool_ref_room(&pool, ref);
	struct release_cpu *rc = host_percpu_lock(&cpus);

	release_push(&release, rc, ref, bytes, &todo);
	host_percpu_unlock(&cpus, rc);
	release_finish(&todo);
}

static u64 take(uint64_t *word)
{
	return slot_ref(host_a64_xchg((host_a64 *)word, 0));
}

static void free_bulk(uint64_t *word, unsigned int n, unsigned int step)
{
	u64 ref[NATIVE_PIECE], room[NATIVE_PIECE];

	for (unsigned int i = 0; i < n; i += step) {
		unsigned int k = 0;

		for (; k < step && i + k < n; k++)
			ref[k] = take(&word[i + k]);
		pool_free_bulk(&pool, ref, room, k);
	}
}

void native_free(uint64_t *word, unsigned int n, unsigned int way)
{
	unsigned int i;

	switch (way) {
	case 0:
		for (i = 0; i < n; i++)
			pool_free(&pool, take(&word[i]));
		break;
	case 1:
	case 2:
		free_bulk(word, n, way == 1 ? 32 : NATIVE_PIECE);
		break;
	default:
		for (i = 0; i < n; i++)
			defer(take(&word[i]));
	}
}

unsigned long native_settle(void)
{
	release_flush(&release);
	return pool_pages(&pool);
}

unsigned long native_pages(void)
{
	return pool_pages(&pool);
}

void native_compact(void)
{
	struct pool_compaction pc;

	pool_compact_begin(&pool, &pc);
	while (pool_compact_go(&pool, &pc, 1))
		;
}
