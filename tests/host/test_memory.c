// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_memory.c - pages that turn out to be broken while they are in the reserve or in use.
 */
#include "store/check.h"
#include "explore.h"
#include "mm/pool.h"
#include "rig.h"


#define RESERVE 3

/* In the arena. */
struct made {
	struct host_pages src;
	struct pages pages;
	struct pool pool;
};

static struct made *made;
static host_page held[HOME_PAGES];
static u32 nheld;

static void open_reserve(void)
{
	home_open(2, HOME_PAGES);
	made = host_zalloc(sizeof(*made));
	nheld = 0;
	must_eq(pages_init(&made->pages, &made->src, RESERVE, NULL), 0);
}

static void check_reserve(void)
{
	must_eq(home->pages_out, nheld + pages_reserved(&made->pages));
}

static void close_reserve(void)
{
	check_reserve();
	pages_free(&made->pages, held, nheld);
	pages_destroy(&made->pages);
	host_free(made, sizeof(*made));
	home_close();
}

static void take(unsigned int cpu, unsigned int n, unsigned int how)
{
	me->cpu = cpu;
	must_eq(pages_alloc(&made->pages, held + nheld, n, NUMA_NO_NODE, how), 0);
	nheld += n;
	check_reserve();
}

CASE(bad_pages_of_the_reserve_are_given_back)
{
	open_reserve();
	home_spoil(made->pages.own.page[RESERVE - 1]);
	home_spoil(made->pages.own.page[0]);
	me->cpu = 0;
	made->src.dry = 1;
	/* A bad one is passed over as long as there is a good one. */
	take(0, 1, HOST_MAY_WAIT);
	must(!home->frame_bad[held[0] - 1] && home->pages_out == 2);
	must_eq(pages_alloc(&made->pages, held + 1, 1, NUMA_NO_NODE, HOST_MAY_WAIT), -ENOMEM);
	must_eq(home->pages_out, 1);
	made->src.dry = 0;
	close_reserve();
}

/* Of three that are taken at once one is bad: the others are good, and what is missing is told. */
CASE(a_bad_page_among_others_is_given_back)
{
	u32 bad, i;

	for (bad = 0; bad < RESERVE; bad++) {
		open_reserve();
		home_spoil(made->pages.own.page[bad]);
		made->src.dry = 1;
		must_eq(pages_alloc(&made->pages, held, RESERVE, NUMA_NO_NODE, HOST_MAY_WAIT),
			-ENOMEM);
		must(pages_reserved(&made->pages) == RESERVE - 1 && home->pages_out == RESERVE - 1);
		take(0, RESERVE - 1, HOST_MAY_WAIT);
		for (i = 0; i < nheld; i++)
			must(!home->frame_bad[held[i] - 1]);
		made->src.dry = 0;
		close_reserve();
	}
}

/* The page on which an object of a page lies. */
static host_page page_of(u64 ref)
{
	const void *at = pool_map(&made->pool, ref, NULL);
	host_page p = 1;

	while (p <= home->frames &&
	       (!home->frame_live[p - 1] || host_page_addr(NULL, p) != at))
		p++;
	must(p <= home->frames);
	return p;
}

/* Compaction is not asked for. */
static u64 look(void *ctx, u32 key)
{
	(void)ctx;
	(void)key;
	return 0;
}

static u64 make(u32 key)
{
	u64 ref = 0;

	must_eq(pool_make(&made->pool, PAGE_SIZE, NULL, key, NUMA_NO_NODE, HOST_MAY_WAIT, &ref), 0);
	return ref;
}

/* One that is in use stays with who has it, and goes with its last object. */
CASE(a_bad_page_of_a_zspage_is_used_no_more_after_it)
{
	const struct pool_owner owner = { .look = look };
	u64 ref[8];
	host_page bad;
	u32 i;

	home_open(2, HOME_PAGES);
	made = host_zalloc(sizeof(*made));
	must_eq(pages_init(&made->pages, &made->src, 0, NULL), 0);
	must_eq(pool_init(&made->pool, &made->pages, CHAIN_MIN, &owner), 0);
	for (i = 0; i < 8; i++)
		ref[i] = make(i);
	bad = page_of(ref[3]);
	home_spoil(bad);
	must_eq(page_of(ref[3]), bad);
	for (i = 0; i < 8; i++)
		pool_free(&made->pool, ref[i]);
	for (i = 0; i < 8; i++) {
		ref[i] = make(i);
		must(page_of(ref[i]) != bad);
	}
	for (i = 0; i < 8; i++)
		pool_free(&made->pool, ref[i]);
	pool_destroy(&made->pool);
	pages_destroy(&made->pages);
	host_free(made, sizeof(*made));
	home_close();
}
