// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_memory.c - pages that turn out to be broken while they are in a list, in the reserve or in
 * use.
 */
#include "check.h"
#include "explore.h"
#include "pool.h"
#include "rig.h"

#include <stdio.h>

#define BATCH 4
#define HIGH 8
#define RESERVE 3

/* In the arena. */
struct made {
	struct host_pages src;
	struct pcp pcp;
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

static void open_lists(void)
{
	home_open(2, HOME_PAGES);
	made = host_zalloc(sizeof(*made));
	nheld = 0;
	must(!pcp_init(&made->pcp, &made->src, BATCH, HIGH, RESERVE, NULL), "lists cannot be made");
}

static void check_lists(void)
{
	const char *why = pcp_check(&made->pcp, nheld);

	must(!why, why);
	must(home->pages_out == nheld + pcp_count(&made->pcp) + pcp_reserved(&made->pcp),
	     "pages are out that nobody has");
}

static void close_lists(void)
{
	check_lists();
	pcp_free(&made->pcp, held, nheld, HOST_ANY_NODE);
	pcp_destroy(&made->pcp);
	host_free(made, sizeof(*made));
	home_close();
}

static void take(unsigned int cpu, unsigned int n, unsigned int how)
{
	me->cpu = cpu;
	must(!pcp_alloc(&made->pcp, held + nheld, n, HOST_ANY_NODE, how), "there is no page");
	nheld += n;
	check_lists();
}

static void give(unsigned int cpu, unsigned int n)
{
	me->cpu = cpu;
	nheld -= n;
	pcp_free(&made->pcp, held + nheld, n, HOST_ANY_NODE);
	check_lists();
}

/* Takes all that lists and reserve still have: so many pages, all of them good. */
static void take_good(unsigned int n)
{
	u32 first = nheld, i;

	made->src.dry = 1;
	while (nheld < first + n)
		take(0, 1, HOST_MAY_WAIT);
	must(pcp_alloc(&made->pcp, held + nheld, 1, HOST_ANY_NODE, HOST_MAY_WAIT) == -ENOMEM,
	     "a bad page is handed out");
	check_lists();
	for (i = first; i < nheld; i++)
		must(!home->frame_bad[held[i] - 1], "a bad page is handed out");
	must(home->pages_out == nheld, "a bad page is kept");
	made->src.dry = 0;
}

/* Half of the own CPU's list, and of the other's. */
static void bad_pages_of_lists_are_given_back(void)
{
	unsigned int cpu, i;

	for (cpu = 0; cpu < 2; cpu++) {
		open_lists();
		take(cpu, 6, HOST_MAY_WAIT);
		give(cpu, 6);
		made->src.dry = 1;
		must(pcp_count(&made->pcp) >= BATCH, "there is nothing in a list");
		for (i = 0; i < made->pcp.list[cpu]->count; i += 2)
			home_spoil(made->pcp.list[cpu]->page[i]);
		take_good(made->pcp.list[cpu]->count / 2 + RESERVE);
		close_lists();
	}
}

static void bad_pages_of_what_is_at_hand_are_given_back(void)
{
	const struct pcp_list *l;
	host_page page[2];

	open_lists();
	take(0, 6, HOST_MAY_WAIT);
	give(0, 6);
	l = made->pcp.list[0];
	must(l->count >= 4, "there is nothing in a list");
	/* One of two, and then both. */
	home_spoil(l->page[l->count - 2]);
	must(pcp_take_own(&made->pcp, page, 2) == 1 && !home->frame_bad[page[0] - 1],
	     "a bad page is at hand");
	held[nheld++] = page[0];
	home_spoil(l->page[l->count - 1]);
	home_spoil(l->page[l->count - 2]);
	must(!pcp_take_own(&made->pcp, page, 2), "a bad page is at hand");
	close_lists();
}

static void bad_pages_of_the_reserve_are_given_back(void)
{
	open_lists();
	home_spoil(made->pcp.own.page[RESERVE - 1]);
	home_spoil(made->pcp.own.page[0]);
	me->cpu = 0;
	pcp_drain(&made->pcp);
	made->src.dry = 1;
	/* Who comes to a bad one alone is refused, as if it were not there; the next is not. */
	must(pcp_alloc(&made->pcp, held, 1, HOST_ANY_NODE, HOST_MAY_WAIT) == -ENOMEM,
	     "a bad page is handed out");
	take(0, 1, HOST_MAY_WAIT);
	must(pcp_alloc(&made->pcp, held + 1, 1, HOST_ANY_NODE, HOST_MAY_WAIT) == -ENOMEM &&
	     !home->frame_bad[held[0] - 1] && home->pages_out == 1, "a bad page is handed out");
	made->src.dry = 0;
	close_lists();
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

	must(!pool_alloc(&made->pool, HOST_PAGE_SIZE, key, HOST_ANY_NODE, HOST_MAY_WAIT, &ref),
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
	must(!pcp_init(&made->pcp, &made->src, BATCH, HIGH, 0, NULL), "lists cannot be made");
	must(!pool_init(&made->pool, &made->pcp, CHAIN_MIN, &owner), "a pool cannot be made");
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
	pcp_destroy(&made->pcp);
	host_free(made, sizeof(*made));
	home_close();
}

int main(void)
{
	static const struct rig_case cases[] = {
		{ "bad pages of lists are given back", bad_pages_of_lists_are_given_back },
		{ "bad pages of what is at hand are given back",
		  bad_pages_of_what_is_at_hand_are_given_back },
		{ "bad pages of the reserve are given back",
		  bad_pages_of_the_reserve_are_given_back },
		{ "a bad page of a zspage is used no more after it",
		  a_bad_page_of_a_zspage_is_used_no_more_after_it },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	return 0;
}
