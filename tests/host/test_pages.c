// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_pages.c - page lists, nodes and the reserve (core/pcp.h): what they reach, what they keep,
 * and how often they take which lock; and the slot table's pages.
 *
 * One actor, which the tests put on a CPU.  After each step pcp_check() must hold, and the home
 * itself watches the context, the order of locks and the pages.
 */
#include "explore.h"
#include "rig.h"

#include <stdio.h>

#define BATCH 4
#define HIGH 8

static struct host_pages src;
static struct pcp pcp;
static host_page held[HOME_PAGES];
static u32 nheld;

static const unsigned int cpu_counts[] = { 1, 2, 8, 64, 512 };
#define NCPUS (sizeof(cpu_counts) / sizeof(cpu_counts[0]))

static void begin(unsigned int cpus, unsigned int nodes, unsigned int pages, unsigned int reserve)
{
	home_open_nodes(cpus, nodes, pages);
	src.dry = 0;
	nheld = 0;
	if (pcp_init(&pcp, &src, BATCH, HIGH, reserve, NULL))
		explore_fail("lists cannot be made");
	home_stat_reset();
}

static void check(void)
{
	const char *why = pcp_check(&pcp, nheld);

	if (why)
		explore_fail("%s", why);
	if (home->pages_out != nheld + pcp_count(&pcp) + pcp_reserved(&pcp))
		explore_fail("%u pages are out that nobody has", home->pages_out);
}

/* Takes n pages on CPU cpu, in atomic context if how does not let wait. */
static int take(unsigned int cpu, unsigned int n, unsigned int node, unsigned int how)
{
	unsigned int atomic = !(how & HOST_MAY_WAIT);
	int err;

	me->cpu = cpu;
	me->atomic += atomic;
	err = pcp_alloc(&pcp, held + nheld, n, node, how);
	me->atomic -= atomic;
	if (!err)
		nheld += n;
	check();
	return err;
}

static void must_take(unsigned int cpu, unsigned int n, unsigned int node, unsigned int how)
{
	if (take(cpu, n, node, how))
		explore_fail("CPU %u does not get %u pages of node %d", cpu, n, (int)node);
}

/* Gives the last n pages back on CPU cpu, in atomic context. */
static void give(unsigned int cpu, unsigned int n, unsigned int node)
{
	me->cpu = cpu;
	me->atomic++;
	nheld -= n;
	pcp_free(&pcp, held + nheld, n, node);
	me->atomic--;
	check();
}

static void end(void)
{
	me->cpu = 0;
	pcp_free(&pcp, held, nheld, HOST_ANY_NODE);
	nheld = 0;
	pcp_destroy(&pcp);
	home_close();
}

/* Leaves n pages in the list of each CPU that is on, as far as there are pages. */
static void fill_lists(unsigned int n)
{
	unsigned int cpu, i;

	for (cpu = 0; cpu < home->cpus && nheld + n <= HOME_PAGES - 8; cpu++) {
		must_take(cpu, n, HOST_ANY_NODE, HOST_MAY_WAIT);
		/* What came with them. */
		me->cpu = cpu;
		pcp_drain(&pcp);
	}
	for (i = 0; nheld; i++)
		give(i, n, HOST_ANY_NODE);
}

static void must_be_at_most(u64 have, u64 most, const char *what)
{
	if (have > most)
		explore_fail("%s: %llu with %u CPUs; at most %llu", what, (unsigned long long)have,
			     home->cpus, (unsigned long long)most);
}

static void a_drain_visits_each_cpu_once(void)
{
	unsigned int i, pages, round;

	for (i = 0; i < NCPUS && cpu_counts[i] <= HOME_CPUS; i++) {
		begin(cpu_counts[i], 1, HOME_PAGES, 0);
		for (round = 0; round < 2; round++) {
			fill_lists(BATCH);
			pages = (unsigned int)pcp_count(&pcp);
			if (pages < BATCH)
				explore_fail("the lists are not filled");
			home_stat_reset();
			if (round)
				while (pcp_decay(&pcp))
					;
			else
				pcp_drain(&pcp);
			if (pcp_count(&pcp))
				explore_fail("%u pages are left in the lists", (u32)pcp_count(&pcp));
			/* A hold a batch; four decays: two more each, to age and to look. */
			must_be_at_most(home_lock_stat("ebb_pcp")->holds,
					pages / BATCH + (round ? 8 * cpu_counts[i] : 0),
					"holds of a page list's lock");
			must_be_at_most(home_source_calls, pages / BATCH, "calls of the source");
		}
		end();
	}
}

static void no_hold_moves_more_than_a_batch(void)
{
	begin(2, 1, HOME_PAGES, 3 * BATCH);
	must_take(0, 50, HOST_ANY_NODE, HOST_MAY_WAIT);
	give(1, 20, HOST_ANY_NODE);
	src.dry = 1;
	must_take(0, 10, HOST_ANY_NODE, HOST_MAY_WAIT);
	while (!take(0, 7, HOST_ANY_NODE, HOST_MAY_WAIT))
		;
	src.dry = 0;
	give(1, nheld, HOST_ANY_NODE);
	pcp_refill(&pcp);
	pcp_drain(&pcp);
	must_be_at_most(home_lock_stat("ebb_pcp")->copied, BATCH * sizeof(host_page),
			"bytes copied under a page list's lock");
	must_be_at_most(home_lock_stat("ebb_reserve")->copied, BATCH * sizeof(host_page),
			"bytes copied under the reserve's lock");
	must_be_at_most(home_source_most, BATCH, "pages in one hold of the source's lock");
	end();
}

/*
 * From every CPU to every other's list, without sleeping; a list whose lock is taken is passed
 * over.
 */
static void pages_in_any_list_are_reached_from_any_cpu(void)
{
	unsigned int from, to, cpus = HOME_CPUS < 8 ? HOME_CPUS : 8;

	for (from = 0; from < cpus; from++)
		for (to = 0; to < cpus; to++) {
			begin(cpus, 1, BATCH, 0);
			must_take(from, BATCH, HOST_ANY_NODE, HOST_MAY_WAIT);
			give(from, BATCH, HOST_ANY_NODE);
			if (pcp_count(&pcp) != BATCH)
				explore_fail("the pages are not in a list");
			if (from != to) {
				pcp.list[from]->lock.l.owner = 9;
				if (take(to, 1, HOST_ANY_NODE, 0) != -ENOMEM)
					explore_fail("a page is taken from a list that is locked");
				pcp.list[from]->lock.l.owner = 0;
			}
			must_take(to, BATCH, HOST_ANY_NODE, 0);
			end();
		}
}

/* Who finds nothing looks at a bounded number of lists; who looks again, at others. */
static void a_dry_source_is_no_reason_to_look_at_all_cpus(void)
{
	unsigned int i, calls;
	u64 before;

	for (i = 0; i < NCPUS && cpu_counts[i] <= HOME_CPUS; i++) {
		unsigned int cpus = cpu_counts[i];

		begin(cpus, 1, 1, 0);
		must_take(cpus - 1, 1, HOST_ANY_NODE, HOST_MAY_WAIT);
		me->cpu = 0;
		before = explore_accesses;
		if (pcp_alloc(&pcp, held + 1, 1, HOST_ANY_NODE, 0) != -ENOMEM)
			explore_fail("a page from nowhere");
		must_be_at_most(explore_accesses - before, PCP_LOOK + 32,
				"accesses of an allocation that fails");
		give(cpus - 1, 1, HOST_ANY_NODE);
		if (pcp_count(&pcp) != 1)
			explore_fail("the page is not in a list");
		for (calls = 0; take(0, 1, HOST_ANY_NODE, 0); calls++)
			must_be_at_most(calls, cpus / PCP_LOOK + 1, "looks until a page is found");
		end();
	}
}

static void drain_some_visits_some_and_comes_round(void)
{
	unsigned int i, calls, cpus;

	for (i = 0; i < NCPUS && cpu_counts[i] <= HOME_CPUS; i++) {
		cpus = cpu_counts[i];
		begin(cpus, 1, HOME_PAGES, 0);
		fill_lists(BATCH);
		for (calls = 0; pcp_count(&pcp); calls++) {
			u64 before = pcp_count(&pcp), freed;

			home_stat_reset();
			me->atomic++;
			freed = pcp_drain_some(&pcp, 2);
			me->atomic--;
			check();
			if (before - freed != pcp_count(&pcp))
				explore_fail("%llu pages are told, more or less are freed",
					     (unsigned long long)freed);
			must_be_at_most(home_lock_stat("ebb_pcp")->holds, 4, "lists drained");
			must_be_at_most(calls, cpus / 2 + 1, "calls until all lists are empty");
		}
		fill_lists(BATCH);
		pcp.list[0]->lock.l.owner = 9;
		for (calls = 0; calls < cpus; calls++)
			pcp_drain_some(&pcp, 1);
		pcp.list[0]->lock.l.owner = 0;
		if (pcp_count(&pcp) != BATCH || pcp.list[0]->count != BATCH)
			explore_fail("a list that is locked is waited for, or keeps others full");
		end();
	}
}

/* ---- nodes ---- */

static u64 seed = 1;

static unsigned int rnd(unsigned int below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(seed >> 33) % below;
}

static void lists_hold_pages_of_their_node_alone(void)
{
	static const unsigned int node_counts[] = { 1, 2, 8 };
	unsigned int i, step, n, node, k, j;
	host_page page;

	for (i = 0; i < 3; i++) {
		begin(8, node_counts[i], HOME_PAGES, i * 3);
		for (step = 0; step < 3000; step++) {
			n = 1 + rnd(6);
			node = rnd(4) ? rnd(home->nodes) : HOST_ANY_NODE;
			if (!rnd(50))
				home->dry_nodes = rnd(256) & rnd(256);
			if (rnd(2)) {
				take(rnd(8), n, node, rnd(2) ? HOST_MAY_WAIT : 0);
			} else if (n <= nheld) {
				/* Any of them, and the node of all if they are of one. */
				for (k = 0; k < n; k++) {
					j = rnd(nheld);
					page = held[j];
					held[j] = held[nheld - 1 - k];
					held[nheld - 1 - k] = page;
				}
				node = host_page_node(&src, held[nheld - 1]);
				for (k = 0; k < n; k++)
					if (host_page_node(&src, held[nheld - 1 - k]) != node)
						break;
				give(rnd(8), n, k == n ? node : HOST_ANY_NODE);
			}
			if (!rnd(40))
				pcp_decay(&pcp);
			if (!rnd(40))
				pcp_drain_some(&pcp, 3);
			if (!rnd(40))
				pcp_refill(&pcp);
			check();
		}
		home->dry_nodes = 0;
		end();
	}
}

static void pages_come_of_the_node_that_is_asked_for(void)
{
	unsigned int cpu, node, i;

	for (cpu = 0; cpu < 8; cpu++)
		for (node = 0; node < 4; node++) {
			begin(8, 4, HOME_PAGES, 0);
			must_take(cpu, 6, node, HOST_MAY_WAIT);
			for (i = 0; i < nheld; i++)
				if (host_page_node(&src, held[i]) != node)
					explore_fail("a page is of node %u, not %u",
						     host_page_node(&src, held[i]), node);
			/* For another node no more is taken than is needed. */
			if (node != host_cpu_node(cpu) && home->pages_out != 6)
				explore_fail("%u pages are taken of another node for 6", home->pages_out);
			if (pcp_strayed(&pcp))
				explore_fail("a fallback is counted that was none");
			end();
		}
}

static void a_fallback_to_another_node_is_counted(void)
{
	begin(2, 2, HOME_PAGES, 0);
	home->dry_nodes = 1;
	must_take(0, 3, 0, HOST_MAY_WAIT);
	if (pcp_strayed(&pcp) != 3)
		explore_fail("%u fallbacks are counted, 3 were made", (u32)pcp_strayed(&pcp));
	/* A node that is dry is asked for what is needed: its CPU's list stays empty. */
	home_stat_reset();
	must_take(0, 1, 0, HOST_MAY_WAIT);
	if (home->pages_out != nheld || home_source_most > 1)
		explore_fail("pages of another node go to and fro");
	/* And once it has pages again, for a batch. */
	home->dry_nodes = 0;
	must_take(0, 1, 0, HOST_MAY_WAIT);
	must_take(0, 1, 0, HOST_MAY_WAIT);
	if (pcp_strayed(&pcp) != 4 || home_source_most != BATCH || !pcp.list[0]->count)
		explore_fail("a node that has pages again is not used");
	/* Of another CPU's list, too: the node's own first. */
	give(1, 1, HOST_ANY_NODE);
	end();

	begin(4, 2, 8, 0);
	must_take(1, 2, 0, HOST_MAY_WAIT);
	must_take(2, 2, 1, HOST_MAY_WAIT);
	give(2, 2, 1);
	give(1, 2, 0);
	src.dry = 1;
	must_take(3, 2, HOST_ANY_NODE, 0);
	if (pcp_strayed(&pcp) || host_page_node(&src, held[0]) != 1)
		explore_fail("a page of another node is taken beside one of the own");
	src.dry = 0;
	end();
}

/* A node of memory alone: its pages come from the source, and if that is dry from others' lists. */
static void a_node_without_cpus_has_no_lists(void)
{
	begin(1, 2, 8, 0);
	must_take(0, 3, 1, 0);
	if (host_page_node(&src, held[0]) != 1 || pcp_count(&pcp) || pcp_strayed(&pcp))
		explore_fail("pages of a node without CPUs stay in a list, or are of another");
	give(0, 3, 1);
	must_take(0, 1, 0, 0);
	if (pcp_count(&pcp) != BATCH - 1)
		explore_fail("there are no pages in the list");
	src.dry = 1;
	must_take(0, 2, 1, 0);
	if (pcp_strayed(&pcp) != 2)
		explore_fail("pages of another node are not counted");
	src.dry = 0;
	end();
}

/* The descriptor of what slot i holds. */
static struct zspage *zspage_of(u64 i)
{
	u64 ref = slot_ref(host_a64_read(store_slot(&rig->store, i)));
	struct pool_class *c = ref_class(&rig->store.pool, ref);

	return class_at(c, ref_zspage(c, ref));
}

static void zspages_come_of_the_node_of_what_is_stored(void)
{
	static const unsigned int node_counts[] = { 1, 2, 8 };
	const struct rig_config cfg = { .cpus = 8, .pages = HOME_PAGES, .slots = 32 };
	static char page[HOST_PAGE_SIZE];
	unsigned int n, i;

	for (n = 0; n < 3; n++) {
		home_open_nodes(cfg.cpus, node_counts[n], cfg.pages);
		if (rig_open(&cfg))
			explore_fail("a store cannot be made");
		for (i = 0; i < 8; i++) {
			me->cpu = i;
			if (store_put(&rig->store, i, page, RAW, HOST_ANY_NODE) ||
			    zspage_of(i)->node != host_cpu_node(i))
				explore_fail("CPU %u stores on node %u", i, zspage_of(i)->node);
			/*
			 * Of a page of another node on its node, as reclaim of one node by another
			 * does.
			 */
			if (store_put(&rig->store, 16 + i, page, RAW, (i + 1) % home->nodes) ||
			    zspage_of(16 + i)->node != (i + 1) % home->nodes)
				explore_fail("a page of node %u is stored on node %u", (i + 1) % home->nodes,
					     zspage_of(16 + i)->node);
			rig_check();
		}
		/*
		 * What an object needs more of a zspage comes of the zspage's node, whoever stores.
		 */
		me->cpu = 0;
		store_put(&rig->store, 8, page, SPAN, HOST_ANY_NODE);
		me->cpu = 7;
		store_put(&rig->store, 9, page, SPAN, HOST_ANY_NODE);
		if (zspage_of(8) != zspage_of(9) || zspage_of(9)->pages != 2 || zspage_of(9)->node)
			explore_fail("a zspage has pages of two nodes");
		rig_check();
		/* Of a node that has no page it is of any. */
		home->dry_nodes = 1;
		me->cpu = 0;
		pcp_drain(&rig->pcp);
		if (node_counts[n] > 1 && (store_put(&rig->store, 10, page, RAW, HOST_ANY_NODE) ||
					   zspage_of(10)->node != ZSPAGE_ANY_NODE))
			explore_fail("a page of another node is taken for one of the own");
		rig_check();
		/* And so is what is added to such a zspage. */
		for (i = 11; node_counts[n] > 1 && i < 14; i++)
			if (store_put(&rig->store, i, page, SPAN / 2, HOST_ANY_NODE))
				explore_fail("a slot cannot be written");
		if (node_counts[n] > 1 &&
		    (zspage_of(13) != zspage_of(11) || zspage_of(13)->pages != 2 ||
		     zspage_of(13)->node != ZSPAGE_ANY_NODE))
			explore_fail("a zspage of any node becomes one of a node");
		rig_check();
		home->dry_nodes = 0;
		for (i = 0; i < 32; i++) {
			me->cpu = i % 8;
			store_free(&rig->store, i);
			rig_check();
		}
		me->cpu = 0;
		rig_close();
		home_close();
	}
}

/* What is freed in one batch goes back by the node of each. */
static void a_batch_of_zspages_is_of_many_nodes(void)
{
	const struct rig_config cfg = {
		.cpus = 8, .pages = HOME_PAGES, .slots = 2 * RELEASE_REFS, .release_limit = PLENTY,
	};
	static char page[HOST_PAGE_SIZE];
	unsigned int cpu, i;

	home_open_nodes(cfg.cpus, 4, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	for (cpu = 0; cpu < 8; cpu++) {
		for (i = 0; i < 8; i++) {
			me->cpu = i;
			if (store_put(&rig->store, i, page, RAW, HOST_ANY_NODE))
				explore_fail("a slot cannot be written");
		}
		me->cpu = cpu;
		for (i = 0; i < 8; i++)
			store_free(&rig->store, i);
		release_flush(&rig->store.release);
		rig_check();
	}
	me->cpu = 0;
	rig_close();
	home_close();
}

/* Stores objects of all sizes from CPUs of all nodes; returns the pages that takes. */
static u64 pages_of_a_mix(unsigned int nodes)
{
	const struct rig_config cfg = { .cpus = 8, .pages = 4000, .slots = 4000 };
	static char page[HOST_PAGE_SIZE];
	u64 i, pages;

	seed = 1;
	home_open_nodes(cfg.cpus, nodes, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	for (i = 0; i < 2 * cfg.slots; i++) {
		me->cpu = rnd(8);
		if (rnd(4))
			store_put(&rig->store, rnd(4000), page, 1 + rnd(2500), HOST_ANY_NODE);
		else
			store_free(&rig->store, rnd(4000));
	}
	me->cpu = 0;
	rig_check();
	pages = pool_pages(&rig->store.pool);
	rig_close();
	home_close();
	return pages;
}

static void nodes_cost_no_density(void)
{
	u64 one = pages_of_a_mix(1), four = pages_of_a_mix(4);

	if (four > one + one / 200)
		explore_fail("%llu pages on four nodes, %llu on one", (unsigned long long)four,
			     (unsigned long long)one);
}

/* ---- the slot table ---- */

static void slots_take_memory_where_they_were_written(void)
{
	const struct rig_config cfg = {
		.cpus = 1, .pages = HOME_PAGES, .slots = 9 * HOST_TABLE_PIECE - 5, .sparse = true,
	};
	const u64 written[] = { 3 * HOST_TABLE_PIECE, 3 * HOST_TABLE_PIECE + 7,
				6 * HOST_TABLE_PIECE - 1, cfg.slots - 1 };
	static char bytes[QUARTER], page[HOST_PAGE_SIZE];
	size_t i, n = sizeof(written) / sizeof(written[0]), got;
	u64 meta;

	home_open(cfg.cpus, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	meta = store_meta_bytes(&rig->store);
	for (i = 0; i < cfg.slots; i += HOST_TABLE_PIECE / 4)
		if (store_free(&rig->store, i) || store_read(&rig->store, i, page) || page[0] ||
		    store_get(&rig->store, i, page, sizeof(page), &got) || got ||
		    slot_has_object(store_hold(&rig->store, i)))
			explore_fail("slot %zu is not empty", i);
	if (store_meta_bytes(&rig->store) != meta || home->pages_out)
		explore_fail("to look at a slot takes memory");
	for (i = 0; i < n; i++)
		if (store_put(&rig->store, written[i], bytes, sizeof(bytes), HOST_ANY_NODE))
			explore_fail("slot %llu cannot be written", (unsigned long long)written[i]);
	if (rig->store.pieces.v != 3)
		explore_fail("%llu pages for slots in three", (unsigned long long)rig->store.pieces.v);
	rig_check();
	store_reset(&rig->store);
	if (store_count(&rig->store, CNT_ORIG_BYTES) || rig->store.pieces.v != 3)
		explore_fail("a reset leaves something, or takes pages of the table");
	rig_close();
	home_close();
}

/* Each invariant is broken once, and told by its sentence. */
static void must_tell(u32 *what, u32 with, const char *sentence)
{
	u32 was = *what;
	const char *why;

	*what = with;
	why = pcp_check(&pcp, nheld);
	*what = was;
	if (!why || strcmp(why, sentence))
		explore_fail("told is '%s', not '%s'", why ? why : "nothing", sentence);
}

static void damage_is_told(void)
{
	struct pcp_list *l;
	host_page own;

	begin(2, 2, HOME_PAGES, 3);
	l = pcp.list[0];
	must_take(0, 1, 1, 0);
	must_take(0, 1, 0, 0);
	must_tell(&l->count, HIGH + 1, "a page list is longer than it may be");
	must_tell(&l->high, HIGH + 1, "a page list is longer than it may be");
	must_tell(&pcp.own.count, 4, "the reserve has more pages than it has room for");
	must_tell(&nheld, 1, "pages taken != in use + in lists + in the reserve");
	own = l->page[0];
	l->page[0] = held[0];
	must_tell(&l->high, l->high, "a page list has a page of another node");
	l->page[0] = own;
	check();
	end();
}

static void a_zspage_with_a_page_of_another_node_is_told(void)
{
	const struct rig_config cfg = { .cpus = 2, .pages = HOME_PAGES, .slots = 4 };
	static const char page[RAW];
	const char *why;

	home_open_nodes(cfg.cpus, 2, cfg.pages);
	if (rig_open(&cfg) || store_put(&rig->store, 0, page, RAW, HOST_ANY_NODE))
		explore_fail("a store cannot be made");
	zspage_of(0)->node ^= 1;
	why = store_check(&rig->store);
	zspage_of(0)->node ^= 1;
	if (!why || strcmp(why, "a page of a zspage is not of its node"))
		explore_fail("told is '%s'", why ? why : "nothing");
	rig_check();
	rig_close();
	home_close();
}

/* Whatever it asks for fails in turn: nothing is left of it. */
static void lists_that_cannot_be_made_leave_nothing(void)
{
	unsigned int n, failed = 0;
	int err = -ENOMEM;

	for (n = 1; err; n++) {
		home_open_nodes(2, 2, HOME_PAGES);
		src.dry = 0;
		home->fail = n;
		err = pcp_init(&pcp, &src, BATCH, HIGH, 3, NULL);
		failed += err == -ENOMEM;
		home->fail = 0;
		if (!err)
			pcp_destroy(&pcp);
		home_close();
	}
	/* Lists, nodes, the order of CPUs, the reserve, and each CPU's list. */
	if (failed != 6)
		explore_fail("%u allocations fail", failed);
}

/* ---- the reserve ---- */

static void take_all_with(unsigned int how)
{
	begin(2, 1, 16, 5);
	if (pcp_reserved(&pcp) != 5 || pcp_is_short(&pcp))
		explore_fail("the reserve is not filled at the start");
	home->emergency = 3;
	/* All but the emergency pages, without waiting; then, by how, those, and the reserve. */
	while (home->node[0].nfree > home->emergency)
		must_take(0, 1, HOST_ANY_NODE, 0);
	while (pcp_count(&pcp))
		must_take(0, 1, HOST_ANY_NODE, 0);
	if (take(0, 1, HOST_ANY_NODE, 0) != -ENOMEM || pcp_reserved(&pcp) != 5)
		explore_fail("the reserve is drawn on by who could wait");
	while (home->node[0].nfree || pcp_count(&pcp))
		must_take(0, 1, HOST_ANY_NODE, how);
	if (pcp_reserved(&pcp) != 5)
		explore_fail("the reserve is drawn on beside other pages");
	while (pcp_reserved(&pcp))
		must_take(1, 1, HOST_ANY_NODE, how);
	if (nheld != 16 || take(1, 1, HOST_ANY_NODE, how) != -ENOMEM)
		explore_fail("not every page could be had");
	end();
}

static void the_reserve_is_the_last_resort(void)
{
	take_all_with(HOST_MAY_WAIT);
}

/* In atomic context: who holds a lock as he frees memory. */
static void who_reclaims_need_not_wait(void)
{
	take_all_with(HOST_RECLAIMS);
}

/* Pages that only we can use are taken before the machine has to look for some. */
static void lists_come_before_waiting(void)
{
	begin(2, 1, BATCH + 2, 0);
	home->emergency = 2;
	must_take(0, BATCH, HOST_ANY_NODE, HOST_MAY_WAIT);
	give(0, BATCH, HOST_ANY_NODE);
	must_take(1, BATCH, HOST_ANY_NODE, HOST_MAY_WAIT);
	if (home->node[0].nfree != 2)
		explore_fail("who waits takes the emergency pages beside a list's");
	must_take(1, 2, HOST_ANY_NODE, HOST_MAY_WAIT);
	end();
}

static void what_is_freed_fills_the_reserve_first(void)
{
	begin(2, 1, 16, 5);
	must_take(0, 8, HOST_ANY_NODE, HOST_MAY_WAIT);
	src.dry = 1;
	while (!take(0, 1, HOST_ANY_NODE, HOST_MAY_WAIT))
		;
	if (pcp_reserved(&pcp) || !pcp_is_short(&pcp))
		explore_fail("the reserve is not drawn on");
	if (!pcp_refill(&pcp))
		explore_fail("a reserve is full that had nothing to be filled from");
	give(0, 3, HOST_ANY_NODE);
	if (pcp_reserved(&pcp) != 3 || pcp_count(&pcp))
		explore_fail("pages that are freed go elsewhere than to the reserve");
	give(0, 3, HOST_ANY_NODE);
	if (pcp_reserved(&pcp) != 5 || pcp_count(&pcp) != 1)
		explore_fail("the reserve takes more than it may, or less");
	/* A failed allocation puts back what it drew. */
	if (take(0, 7, HOST_ANY_NODE, HOST_MAY_WAIT) != -ENOMEM || pcp_reserved(&pcp) != 5)
		explore_fail("a failed allocation keeps what it drew");
	must_take(0, 4, HOST_ANY_NODE, HOST_MAY_WAIT);
	src.dry = 0;
	if (pcp_refill(&pcp) || pcp_reserved(&pcp) != 5)
		explore_fail("the reserve is not filled from the source");
	end();
}

static u32 taken_all(struct pcp *p, host_page *out)
{
	u32 n = 0;

	while (!pcp_alloc(p, out + n, 1, HOST_ANY_NODE, HOST_MAY_WAIT))
		n++;
	return n;
}

/* Two devices, as swap on one that lies on the other. */
static void a_reserve_is_shared_but_for_what_each_has_for_itself(void)
{
	static host_page page[2][HOME_PAGES];
	struct pcp_reserve shared;
	struct pcp two[2];
	u32 n[2], i, out;

	home_open_nodes(2, 1, 32);
	src.dry = 0;
	if (pcp_reserve_init(&shared, 6))
		explore_fail("no reserve can be made");
	for (i = 0; i < 2; i++)
		if (pcp_init(&two[i], &src, BATCH, HIGH, 3, &shared))
			explore_fail("lists cannot be made");
	if (shared.count != 6 || pcp_is_short(&two[0]) || pcp_taken(&two[0]) != 3 ||
	    pcp_taken(&two[1]) != 3 || home->pages_out != 12)
		explore_fail("the shared reserve is not filled at the start, or is somebody's");
	src.dry = 1;
	n[0] = taken_all(&two[0], page[0]);
	n[1] = taken_all(&two[1], page[1]);
	if (n[0] != 9 || n[1] != 3 || !pcp_is_short(&two[1]))
		explore_fail("the first has %u pages, and the second %u of its own", n[0], n[1]);
	for (i = 0; i < 2; i++)
		if (pcp_check(&two[i], n[i]))
			explore_fail("%s", pcp_check(&two[i], n[i]));
	/* The own one first, then the other, then a list. */
	pcp_free(&two[0], page[0], 4, HOST_ANY_NODE);
	if (pcp_reserved(&two[0]) != 3 || shared.count != 1 || pcp_taken(&two[0]) != 8)
		explore_fail("freed pages go elsewhere");
	src.dry = 0;
	if (pcp_refill(&two[1]) || shared.count != 6 || pcp_taken(&two[1]) != 6)
		explore_fail("who shares the reserve does not fill it");
	pcp_free(&two[0], page[0] + 4, 5, HOST_ANY_NODE);
	pcp_free(&two[1], page[1], 3, HOST_ANY_NODE);
	pcp_destroy(&two[0]);
	if (shared.count != 6)
		explore_fail("the reserve goes while another has it");
	pcp_destroy(&two[1]);
	out = home->pages_out;
	pcp_reserve_destroy(&shared, &src);
	if (out != 6 || home->pages_out)
		explore_fail("%u pages are left, %u at the end", out, home->pages_out);
	home_close();
}

/* As a home's worker, which reclaim may wait for. */
static bool tend(bool *aged)
{
	bool again;

	me->working++;
	again = pcp_tend(&pcp, aged);
	me->working--;
	check();
	return again;
}

/* While the reserve is short the worker comes with each write. */
static void lists_age_with_time_and_not_with_the_reserve_s_want(void)
{
	const u64 period = PCP_PERIOD_US * 1000;
	unsigned int i;
	u32 high;
	bool aged;

	begin(2, 1, HOME_PAGES, 5);
	must_take(1, 5 * BATCH, HOST_ANY_NODE, HOST_MAY_WAIT);
	src.dry = 1;
	while (!take(1, 1, HOST_ANY_NODE, HOST_MAY_WAIT))
		;
	high = pcp.list[1]->high;
	home->still = true;
	pcp.aged = home->now;
	if (!pcp_is_short(&pcp) || !high)
		explore_fail("the reserve is not drawn on, or the list not used");
	for (i = 0; i < 8; i++) {
		home->now += period / 9;
		if (!tend(&aged) || aged || pcp.list[1]->high != high)
			explore_fail("a list ages before its time, or nobody comes again");
	}
	home->now += period;
	for (i = 0; i < 2; i++) {
		if (!tend(&aged) || aged != !i || pcp.list[1]->high != high)
			explore_fail("a list that was used is not kept for a period");
	}
	home->now += period;
	if (!tend(&aged) || !aged || pcp.list[1]->high != high / 2)
		explore_fail("a list that is idle does not age");
	src.dry = 0;
	if (!tend(&aged) || aged || pcp_is_short(&pcp))
		explore_fail("who comes too early fills no reserve, or does not come again");
	for (i = 0; i < 3; i++, home->now += period)
		tend(&aged);
	if (pcp.list[1]->high || pcp_is_short(&pcp) || tend(&aged))
		explore_fail("the worker does not come to an end");
	end();
}

static void the_reserve_is_as_large_as_its_use_asks(void)
{
	const u64 gib = (u64)1 << 30;

	/* A machine of 1 GiB has 960 MiB or more of it for the kernel to count. */
	if (HOST_PAGE_SHIFT == 12 && pcp_reserve_for(gib / 16 * 15, 0) < PCP_TAKE)
		explore_fail("the reserve does not cover a folio");
	if (pcp_reserve_for(0, 0) < PCP_TAKE_BATCH)
		explore_fail("the reserve does not cover a batch of reclaim");
	if (pcp_reserve_for(0, 4) != 80 || pcp_reserve_for(gib << 12, 512) != 1024 + 1024)
		explore_fail("the reserve is out of its bounds");
}

int main(void)
{
	static const struct rig_case cases[] = {
		{ "a drain visits each CPU once", a_drain_visits_each_cpu_once },
		{ "no hold moves more than a batch", no_hold_moves_more_than_a_batch },
		{ "pages in any list are reached from any CPU", pages_in_any_list_are_reached_from_any_cpu },
		{ "a dry source is no reason to look at all CPUs", a_dry_source_is_no_reason_to_look_at_all_cpus },
		{ "drain_some visits some and comes round", drain_some_visits_some_and_comes_round },
		{ "lists hold pages of their node alone", lists_hold_pages_of_their_node_alone },
		{ "pages come of the node that is asked for", pages_come_of_the_node_that_is_asked_for },
		{ "a fallback to another node is counted", a_fallback_to_another_node_is_counted },
		{ "a node without CPUs has no lists", a_node_without_cpus_has_no_lists },
		{ "damage is told", damage_is_told },
		{ "a zspage with a page of another node is told",
		  a_zspage_with_a_page_of_another_node_is_told },
		{ "lists that cannot be made leave nothing",
		  lists_that_cannot_be_made_leave_nothing },
		{ "zspages come of the node of what is stored", zspages_come_of_the_node_of_what_is_stored },
		{ "a batch of zspages is of many nodes", a_batch_of_zspages_is_of_many_nodes },
		{ "nodes cost no density", nodes_cost_no_density },
		{ "slots take memory where they were written", slots_take_memory_where_they_were_written },
		{ "who reclaims need not wait", who_reclaims_need_not_wait },
		{ "lists come before waiting", lists_come_before_waiting },
		{ "the reserve is the last resort", the_reserve_is_the_last_resort },
		{ "a reserve is shared but for what each has for itself",
		  a_reserve_is_shared_but_for_what_each_has_for_itself },
		{ "what is freed fills the reserve first", what_is_freed_fills_the_reserve_first },
		{ "lists age with time and not with the reserve's want",
		  lists_age_with_time_and_not_with_the_reserve_s_want },
		{ "the reserve is as large as its use asks", the_reserve_is_as_large_as_its_use_asks },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	return 0;
}
