// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_pages.c - the reserve (core/mm/pages.h), nodes, and the slot table's pages.
 *
 * One actor, which the tests put on a CPU.  The home itself watches the context, the order of locks
 * and the pages.
 */
#include "explore.h"
#include "rig.h"

#include <stdio.h>

static struct host_pages src;
static struct pages made;
static host_page held[4 * PAGES_BATCH];
static u32 nheld;

static void begin(unsigned int cpus, unsigned int nodes, unsigned int n, unsigned int reserve)
{
	home_open_nodes(cpus, nodes, n);
	src.dry = 0;
	nheld = 0;
	if (pages_init(&made, &src, reserve, NULL))
		explore_fail("no reserve can be made");
	home_stat_reset();
}

static void check(void)
{
	if (home->pages_out != nheld + pages_reserved(&made))
		explore_fail("%u pages are out that nobody has", home->pages_out);
}

/* Takes n pages on CPU cpu, in atomic context if how does not let wait. */
static int take(unsigned int cpu, unsigned int n, unsigned int node, unsigned int how)
{
	unsigned int atomic = !(how & HOST_MAY_WAIT);
	int err;

	me->cpu = cpu;
	me->atomic += atomic;
	err = pages_alloc(&made, held + nheld, n, node, how);
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
static void give(unsigned int cpu, unsigned int n)
{
	me->cpu = cpu;
	me->atomic++;
	nheld -= n;
	pages_free(&made, held + nheld, n);
	me->atomic--;
	check();
}

static void end(void)
{
	while (nheld)
		give(0, nheld < PAGES_BATCH ? nheld : PAGES_BATCH);
	pages_destroy(&made);
	home_close();
}

static void must_be_at_most(u64 have, u64 most, const char *what)
{
	if (have > most)
		explore_fail("%s: %llu with %u CPUs; at most %llu", what, (unsigned long long)have,
			     home->cpus, (unsigned long long)most);
}

/* As a home's worker, which reclaim may wait for. */
static bool refill(struct pages *p)
{
	bool again;

	me->working++;
	again = pages_refill(p);
	me->working--;
	return again;
}

static void no_hold_moves_more_than_a_batch(void)
{
	begin(2, 1, 4 * PAGES_BATCH, 3 * PAGES_BATCH);
	if (pages_reserved(&made) != 3 * PAGES_BATCH)
		explore_fail("the reserve is not filled at the start");
	src.dry = 1;
	while (!take(0, 7, NUMA_NO_NODE, HOST_MAY_WAIT))
		;
	src.dry = 0;
	give(1, PAGES_BATCH);
	refill(&made);
	end();
	must_be_at_most(home_lock_stat("&r->lock")->copied, PAGES_BATCH * sizeof(host_page),
			"bytes copied under the reserve's lock");
	must_be_at_most(home_source_most, PAGES_BATCH, "pages in one hold of the source's lock");
}

/* ---- nodes ---- */

static u64 seed = 1;

static unsigned int rnd(unsigned int below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(seed >> 33) % below;
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
			must_take(cpu, 1, NUMA_NO_NODE, 0);
			if (host_page_node(&src, held[6]) != hostile_cpu_node(cpu))
				explore_fail("a page of no matter where is not of the own node");
			end();
		}
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
	static char page[PAGE_SIZE];
	unsigned int n, i;

	for (n = 0; n < 3; n++) {
		home_open_nodes(cfg.cpus, node_counts[n], cfg.pages);
		if (rig_open(&cfg))
			explore_fail("a store cannot be made");
		for (i = 0; i < 8; i++) {
			me->cpu = i;
			if (store_put(&rig->store, i, page, RAW, NUMA_NO_NODE) ||
			    zspage_of(i)->node != hostile_cpu_node(i))
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
		store_put(&rig->store, 8, page, SPAN, NUMA_NO_NODE);
		me->cpu = 7;
		store_put(&rig->store, 9, page, SPAN, NUMA_NO_NODE);
		if (zspage_of(8) != zspage_of(9) || zspage_of(9)->pages != 2 || zspage_of(9)->node)
			explore_fail("a zspage has pages of two nodes");
		rig_check();
		/* Of a node that has no page it is of any. */
		home->dry_nodes = 1;
		me->cpu = 0;
		if (node_counts[n] > 1 && (store_put(&rig->store, 10, page, RAW, NUMA_NO_NODE) ||
					   zspage_of(10)->node != ZSPAGE_ANY_NODE))
			explore_fail("a page of another node is taken for one of the own");
		rig_check();
		/* And so is what is added to such a zspage. */
		for (i = 11; node_counts[n] > 1 && i < 14; i++)
			if (store_put(&rig->store, i, page, SPAN / 2, NUMA_NO_NODE))
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
	static char page[PAGE_SIZE];
	unsigned int cpu, i;

	home_open_nodes(cfg.cpus, 4, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	for (cpu = 0; cpu < 8; cpu++) {
		for (i = 0; i < 8; i++) {
			me->cpu = i;
			if (store_put(&rig->store, i, page, RAW, NUMA_NO_NODE))
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
	static char page[PAGE_SIZE];
	u64 i, pages;

	seed = 1;
	home_open_nodes(cfg.cpus, nodes, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	for (i = 0; i < 2 * cfg.slots; i++) {
		me->cpu = rnd(8);
		if (rnd(4))
			store_put(&rig->store, rnd(4000), page, 1 + rnd(2500), NUMA_NO_NODE);
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
	static char bytes[QUARTER], page[PAGE_SIZE];
	size_t i, n = sizeof(written) / sizeof(written[0]), got;
	u64 meta;

	home_open(cfg.cpus, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	meta = store_meta_bytes(&rig->store);
	for (i = 0; i < cfg.slots; i += HOST_TABLE_PIECE / 4)
		if (store_free(&rig->store, i) || store_read(&rig->store, i, page) || page[0] ||
		    blob_get(&rig->store, i, page, sizeof(page), &got) || got ||
		    slot_has_object(store_hold(&rig->store, i)))
			explore_fail("slot %zu is not empty", i);
	if (store_meta_bytes(&rig->store) != meta || home->pages_out)
		explore_fail("to look at a slot takes memory");
	for (i = 0; i < n; i++)
		if (store_put(&rig->store, written[i], bytes, sizeof(bytes), NUMA_NO_NODE))
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

static void a_zspage_with_a_page_of_another_node_is_told(void)
{
	const struct rig_config cfg = { .cpus = 2, .pages = HOME_PAGES, .slots = 4 };
	static const char page[RAW];
	const char *why;

	home_open_nodes(cfg.cpus, 2, cfg.pages);
	if (rig_open(&cfg) || store_put(&rig->store, 0, page, RAW, NUMA_NO_NODE))
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
static void a_reserve_that_cannot_be_made_leaves_nothing(void)
{
	unsigned int n, failed = 0;
	int err = -ENOMEM;

	for (n = 1; err; n++) {
		home_open_nodes(2, 2, HOME_PAGES);
		src.dry = 0;
		home->fail = n;
		err = pages_init(&made, &src, 3, NULL);
		failed += err == -ENOMEM;
		home->fail = 0;
		if (!err)
			pages_destroy(&made);
		home_close();
	}
	if (!failed)
		explore_fail("no allocation fails");
}

/* ---- the reserve ---- */

static void take_all_with(unsigned int how)
{
	begin(2, 1, 16, 5);
	if (pages_reserved(&made) != 5 || pages_are_short(&made))
		explore_fail("the reserve is not filled at the start");
	home->emergency = 3;
	/* All but the emergency pages, without waiting; then, by how, those, and the reserve. */
	while (home->node[0].nfree > home->emergency)
		must_take(0, 1, NUMA_NO_NODE, 0);
	if (take(0, 1, NUMA_NO_NODE, 0) != -ENOMEM || pages_reserved(&made) != 5)
		explore_fail("the reserve is drawn on by who could wait");
	while (home->node[0].nfree)
		must_take(0, 1, NUMA_NO_NODE, how);
	if (pages_reserved(&made) != 5)
		explore_fail("the reserve is drawn on beside other pages");
	while (pages_reserved(&made))
		must_take(1, 1, NUMA_NO_NODE, how);
	if (nheld != 16 || take(1, 1, NUMA_NO_NODE, how) != -ENOMEM)
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

static void what_is_freed_fills_the_reserve_first(void)
{
	u32 left;

	begin(2, 1, 16, 5);
	must_take(0, 8, NUMA_NO_NODE, HOST_MAY_WAIT);
	src.dry = 1;
	while (!take(0, 1, NUMA_NO_NODE, HOST_MAY_WAIT))
		;
	if (pages_reserved(&made) || !pages_are_short(&made))
		explore_fail("the reserve is not drawn on");
	if (!refill(&made))
		explore_fail("a reserve is full that had nothing to be filled from");
	left = home->node[0].nfree;
	give(0, 3);
	if (pages_reserved(&made) != 3 || home->node[0].nfree != left)
		explore_fail("pages that are freed go elsewhere than to the reserve");
	give(0, 3);
	if (pages_reserved(&made) != 5 || home->node[0].nfree != left + 1)
		explore_fail("the reserve takes more than it may, or less");
	/* A failed allocation puts back what it drew. */
	if (take(0, 7, NUMA_NO_NODE, HOST_MAY_WAIT) != -ENOMEM || pages_reserved(&made) != 5)
		explore_fail("a failed allocation keeps what it drew");
	must_take(0, 4, NUMA_NO_NODE, HOST_MAY_WAIT);
	src.dry = 0;
	if (refill(&made) || pages_reserved(&made) != 5)
		explore_fail("the reserve is not filled from the source");
	end();
}

static u32 taken_all(struct pages *p, host_page *out)
{
	u32 n = 0;

	while (!pages_alloc(p, out + n, 1, NUMA_NO_NODE, HOST_MAY_WAIT))
		n++;
	return n;
}

/* Two devices, as swap on one that lies on the other. */
static void a_reserve_is_shared_but_for_what_each_has_for_itself(void)
{
	static host_page page[2][HOME_PAGES];
	struct pages_reserve shared;
	struct pages two[2];
	u32 n[2], i, out;

	home_open_nodes(2, 1, 32);
	src.dry = 0;
	if (pages_reserve_init(&shared, 6))
		explore_fail("no reserve can be made");
	for (i = 0; i < 2; i++)
		if (pages_init(&two[i], &src, 3, &shared))
			explore_fail("no reserve can be made");
	if (shared.count != 6 || pages_are_short(&two[0]) || pages_are_short(&two[1]) ||
	    home->pages_out != 12)
		explore_fail("the reserves are not filled at the start");
	src.dry = 1;
	n[0] = taken_all(&two[0], page[0]);
	n[1] = taken_all(&two[1], page[1]);
	if (n[0] != 9 || n[1] != 3 || !pages_are_short(&two[1]))
		explore_fail("the first has %u pages, and the second %u of its own", n[0], n[1]);
	/* The own one first, then the other, then the source. */
	pages_free(&two[0], page[0], 4);
	if (pages_reserved(&two[0]) != 3 || shared.count != 1)
		explore_fail("freed pages go elsewhere");
	src.dry = 0;
	if (refill(&two[1]) || shared.count != 6 || pages_reserved(&two[1]) != 3)
		explore_fail("who shares the reserve does not fill it");
	pages_free(&two[0], page[0] + 4, 5);
	pages_free(&two[1], page[1], 3);
	pages_destroy(&two[0]);
	if (shared.count != 6)
		explore_fail("the reserve goes while another has it");
	pages_destroy(&two[1]);
	out = home->pages_out;
	pages_reserve_destroy(&shared, &src);
	if (out != 6 || home->pages_out)
		explore_fail("%u pages are left, %u at the end", out, home->pages_out);
	home_close();
}

static void the_reserve_is_as_large_as_its_use_asks(void)
{
	const u64 gib = (u64)1 << 30;

	/* A machine of 1 GiB has 960 MiB or more of it for the kernel to count. */
	if (PAGE_SHIFT == 12 && pages_reserve_for(gib / 16 * 15, 0) < PAGES_TAKE)
		explore_fail("the reserve does not cover a folio");
	if (pages_reserve_for(0, 0) < PAGES_TAKE_BATCH)
		explore_fail("the reserve does not cover a batch of reclaim");
	if (pages_reserve_for(0, 4) != 80 || pages_reserve_for(gib << 12, 512) != 1024 + 1024)
		explore_fail("the reserve is out of its bounds");
}

int main(void)
{
	static const struct rig_case cases[] = {
		{ "no hold moves more than a batch", no_hold_moves_more_than_a_batch },
		{ "pages come of the node that is asked for", pages_come_of_the_node_that_is_asked_for },
		{ "a zspage with a page of another node is told",
		  a_zspage_with_a_page_of_another_node_is_told },
		{ "a reserve that cannot be made leaves nothing",
		  a_reserve_that_cannot_be_made_leaves_nothing },
		{ "zspages come of the node of what is stored", zspages_come_of_the_node_of_what_is_stored },
		{ "a batch of zspages is of many nodes", a_batch_of_zspages_is_of_many_nodes },
		{ "nodes cost no density", nodes_cost_no_density },
		{ "slots take memory where they were written", slots_take_memory_where_they_were_written },
		{ "who reclaims need not wait", who_reclaims_need_not_wait },
		{ "the reserve is the last resort", the_reserve_is_the_last_resort },
		{ "a reserve is shared but for what each has for itself",
		  a_reserve_is_shared_but_for_what_each_has_for_itself },
		{ "what is freed fills the reserve first", what_is_freed_fills_the_reserve_first },
		{ "the reserve is as large as its use asks", the_reserve_is_as_large_as_its_use_asks },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	return 0;
}
