// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_memory.c - memory that is not what it was: more of it than when the cells were made, and
 * pages that turn out to be broken while they are in a list, in the reserve or in use.
 */
#include "check.h"
#include "explore.h"
#include "migrate.h"
#include "rig.h"

#include <stdio.h>

#define BATCH 4
#define HIGH 8
#define RESERVE 3

/* In the arena. */
struct made {
	struct host_pages src, fixed_src;
	struct pcp pcp, fixed;
	struct cells cells;
};

static struct made *made;
static host_page held[HOME_PAGES];
static u32 nheld;

static void must(bool good, const char *what)
{
	if (!good)
		explore_fail("%s", what);
}

/* ---- more memory than at the start ---- */

static void tag_page(void *ctx, host_page page, u64 tag)
{
	(void)ctx;
	must(page && tag, "a page is told of that is none");
}

static void open_cells(u64 memory, u64 most)
{
	struct cells_config cfg = { .chain = CHAIN_MIN, .most = most, .tag = tag_page };

	home_open(2, 200);
	home->sparse = true;
	home->memory = memory;
	made = host_zalloc(sizeof(*made));
	cfg.movable = &made->pcp;
	must(!pcp_init(&made->pcp, &made->src, BATCH, HIGH, 0) &&
	     !pcp_init(&made->fixed, &made->fixed_src, BATCH, HIGH, 0), "lists cannot be made");
	must(!cells_init(&made->cells, &made->fixed, &cfg), "cells cannot be made");
}

static void close_cells(void)
{
	cells_destroy(&made->cells);
	pcp_destroy(&made->pcp);
	pcp_destroy(&made->fixed);
	host_free(made, sizeof(*made));
	home_close();
}

/* Objects of the smallest size until there is no cell, or n. */
static u64 fill(u64 n)
{
	cell_handle h;
	u64 i;
	int err;

	for (i = 0; i < n; i++) {
		err = cells_alloc(&made->cells, 8, HOST_ANY_NODE, HOST_MAY_WAIT | HOST_MOVABLE, &h);
		if (!err)
			continue;
		must(err == -ENOSPC, "it is not cells that there are too few of");
		return i;
	}
	return i;
}

/*
 * Cells for the memory of the start come to an end when there is more of it; the most there can be
 * do not, and take no more of it but for the directory's own array.
 */
static void cells_outgrow_the_memory_of_the_start(void)
{
	const u64 memory = 4 * CELLS_OF_CHUNK * CLASS_MIN_SIZE, cells = 4 * CELLS_OF_CHUNK;
	size_t least, heap;
	const char *why;
	u32 pages;

	open_cells(memory, 0);
	heap = home->heap_used;
	least = host_table_bytes(&made->cells.chunks);
	pages = home->pages_out;
	home->memory *= 4;
	must(fill(2 * cells) == cells, "the directory is not of the memory of the start");
	close_cells();

	open_cells(memory, CELLS_MOST);
	heap = home->heap_used - heap;
	must(host_table_bytes(&made->cells.chunks) <= (128u << 10), "the directory's array is large");
	must(heap <= host_table_bytes(&made->cells.chunks) - least + HOME_GRANULE * 8 &&
	     home->pages_out == pages, "the most cells take more than their directory's array");
	home->memory *= 4;
	must(fill(2 * cells) == 2 * cells, "cells come to an end with the memory of the start");
	why = cells_check(&made->cells);
	must(!why, why);
	close_cells();
}

/* ---- pages that are broken ---- */

static void open_lists(void)
{
	home_open(2, HOME_PAGES);
	made = host_zalloc(sizeof(*made));
	nheld = 0;
	must(!pcp_init(&made->pcp, &made->src, BATCH, HIGH, RESERVE), "lists cannot be made");
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
	home_spoil(made->pcp.reserve[RESERVE - 1]);
	home_spoil(made->pcp.reserve[0]);
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
static host_page page_of(cell_handle h)
{
	struct cells_piece piece[2];
	host_page p = 1;

	must(cells_begin(&made->cells, h, piece) == 1, "an object of a page is in two");
	while (p <= home->frames &&
	       (!home->frame_live[p - 1] || host_page_addr(NULL, p) != piece[0].at))
		p++;
	cells_end(&made->cells, h);
	must(p <= home->frames, "an object is on no page");
	return p;
}

/* One that is in use stays with who has it, and goes with its last object. */
static void a_bad_page_of_a_zspage_is_used_no_more_after_it(void)
{
	const unsigned int how = HOST_MAY_WAIT | HOST_MOVABLE;
	cell_handle h[8];
	unsigned int i;
	host_page bad;

	open_cells((u64)1 << 30, CELLS_OF_CHUNK);
	for (i = 0; i < 8; i++)
		must(!cells_alloc(&made->cells, HOST_PAGE_SIZE, HOST_ANY_NODE, how, &h[i]),
		     "there is no page");
	bad = page_of(h[3]);
	home_spoil(bad);
	must(page_of(h[3]) == bad, "an object does not stay where it is");
	for (i = 0; i < 8; i++)
		cells_free(&made->cells, h[i]);
	for (i = 0; i < 8; i++) {
		must(!cells_alloc(&made->cells, HOST_PAGE_SIZE, HOST_ANY_NODE, how, &h[i]),
		     "there is no page");
		must(page_of(h[i]) != bad, "a bad page is in a zspage again");
	}
	close_cells();
}

int main(void)
{
	static const struct rig_case cases[] = {
		{ "cells outgrow the memory of the start", cells_outgrow_the_memory_of_the_start },
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
