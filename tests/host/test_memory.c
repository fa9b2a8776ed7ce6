// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_memory.c - pages that turn out to be broken while they are in the reserve or in use.
 */
#include "store/check.h"
#include "explore.h"
#include "mm/pool.h"
#include "rig.h"

#include <stdio.h>

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

static void must(bool good, const char *what)
{
	if (!good)
		explore_fail("%s", what);
}

static void open_reserve(void)
{
	home_open(2, HOME_PAGES);
	made = host_zalloc(sizeof(*made));
	nheld = 0;
	must(!pages_init(&made->pages, &made->src, RESERVE, NULL), "no reserve can be made");
}

static void check_reserve(void)
{
	must(home->pages_out == nheld + pages_reserved(&made->pages),
	     "pages are out that nobody has");
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
	must(!pages_alloc(&made->pages, held + nheld, n, NUMA_NO_NODE, how), "there is no page");
	nheld += n;
	check_reserve();
}

static void bad_pages_of_the_reserve_are_given_back(void)
{
	open_reserve();
	home_spoil(made->pages.own.page[RESERVE - 1]);
	home_spoil(made->pages.own.page[0]);
	me->cpu = 0;
	made->src.dry = 1;
	/* A bad one is passed over as long as there is a good one. */
	take(0, 1, HOST_MAY_WAIT);
	must(!home->frame_bad[held[0] - 1] && home->pages_out == 2, "a bad page is handed out");
	must(pages_alloc(&made->pages, held + 1, 1, NUMA_NO_NODE, HOST_MAY_WAIT) == -ENOMEM &&
	     home->pages_out == 1, "a bad page is handed out");
	made->src.dry = 0;
	close_reserve();
}

/* Of three that are taken at once one is bad: the others are good, and what is missing is told. */
static void a_bad_page_among_others_is_given_back(void)
{
	u32 bad, i;

	for (bad = 0; bad < RESERVE; bad++) {
		open_reserve();
		home_spoil(made->pages.own.page[bad]);
		made->src.dry = 1;
		must(pages_alloc(&made->pages, held, RESERVE, NUMA_NO_NODE, HOST_MAY_WAIT) ==
		     -ENOMEM, "a bad page is handed out");
		must(pages_reserved(&made->pages) == RESERVE - 1 &&
		     home->pages_out == RESERVE - 1, "a bad page is kept, or a good one is lost");
		take(0, RESERVE - 1, HOST_MAY_WAIT);
		for (i = 0; i < nheld; i++)
			must(!home->frame_bad[held[i] - 1], "a bad page is handed out");
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
	must(p <= home->frames, "an object is on no page");
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

	must(!pool_make(&made->pool, PAGE_SIZE, NULL, key, NUMA_NO_NODE, HOST_MAY_WAIT, &ref),
	     "there is no page");
	return ref;
}

/* One that is in use stays with who has it, and goes with its last object. */
static void a_bad_page_of_a_zspage_is_used_no_more_after_it(void)
{
	const struct pool_owner owner = { .look = look };
	u64 ref[8];
	host_page bad;
	u32 i;

	home_open(2, HOME_PAGES);
	made = host_zalloc(sizeof(*made));
	must(!pages_init(&made->pages, &made->src, 0, NULL), "there is no source");
	must(!pool_init(&made->pool, &made->pages, CHAIN_MIN, &owner), "a pool cannot be made");
	for (i = 0; i < 8; i++)
		ref[i] = make(i);
	bad = page_of(ref[3]);
	home_spoil(bad);
	must(page_of(ref[3]) == bad, "an object does not stay where it is");
	for (i = 0; i < 8; i++)
		pool_free(&made->pool, ref[i]);
	for (i = 0; i < 8; i++) {
		ref[i] = make(i);
		must(page_of(ref[i]) != bad, "a bad page is in a zspage again");
	}
	for (i = 0; i < 8; i++)
		pool_free(&made->pool, ref[i]);
	pool_destroy(&made->pool);
	pages_destroy(&made->pages);
	host_free(made, sizeof(*made));
	home_close();
}

int main(void)
{
	static const struct rig_case cases[] = {
		{ "bad pages of the reserve are given back",
		  bad_pages_of_the_reserve_are_given_back },
		{ "a bad page among others is given back", a_bad_page_among_others_is_given_back },
		{ "a bad page of a zspage is used no more after it",
		  a_bad_page_of_a_zspage_is_used_no_more_after_it },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	return 0;
}
