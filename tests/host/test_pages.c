// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_pages.c - the reserve (core/mm/pages.h), nodes, and the slot table's pages.
 *
 * One actor, which the tests put on a CPU.  The home itself watches the context, the order of locks
 * and the pages.
 */
#include "explore.h"
#include "rig.h"


static struct host_pages src;
static struct pages made;
static host_page held[4 * PAGES_BATCH];
static u32 nheld;

static void begin(unsigned int cpus, unsigned int nodes, unsigned int n, unsigned int reserve)
{
	home_open_nodes(cpus, nodes, n);
	src.dry = 0;
	nheld = 0;
	must_eq(pages_init(&made, &src, reserve, NULL), 0);
	home_stat_reset();
}

static void check(void)
{
	must_eq(home->pages_out, nheld + pages_reserved(&made));
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
	must_eq(take(cpu, n, node, how), 0);
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


/* As a home's worker, which reclaim may wait for. */
static bool refill(struct pages *p)
{
	bool again;

	me->working++;
	again = pages_refill(p);
	me->working--;
	return again;
}

CASE(no_hold_moves_more_than_a_batch)
{
	begin(2, 1, 4 * PAGES_BATCH, 3 * PAGES_BATCH);
	must_eq(pages_reserved(&made), 3 * PAGES_BATCH);
	src.dry = 1;
	while (!take(0, 7, NUMA_NO_NODE, HOST_MAY_WAIT))
		;
	src.dry = 0;
	give(1, PAGES_BATCH);
	refill(&made);
	end();
	must_be_at_most(home_lock_stat("&r->lock")->copied, PAGES_BATCH * sizeof(host_page));
	must_be_at_most(home_source_most, PAGES_BATCH);
}

/* ---- nodes ---- */

static u64 seed = 1;

static unsigned int rnd(unsigned int below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(seed >> 33) % below;
}

CASE(pages_come_of_the_node_that_is_asked_for)
{
	unsigned int cpu, node, i;

	for (cpu = 0; cpu < 8; cpu++)
		for (node = 0; node < 4; node++) {
			begin(8, 4, HOME_PAGES, 0);
			must_take(cpu, 6, node, HOST_MAY_WAIT);
			for (i = 0; i < nheld; i++)
				must_eq(host_page_node(&src, held[i]), node);
			must_take(cpu, 1, NUMA_NO_NODE, 0);
			must_eq(host_page_node(&src, held[6]), hostile_cpu_node(cpu));
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

CASE(zspages_come_of_the_node_of_what_is_stored)
{
	static const unsigned int node_counts[] = { 1, 2, 8 };
	struct rig_config cfg = { .cpus = 8, .pages = HOME_PAGES, .slots = 32 };
	static char page[PAGE_SIZE];
	unsigned int n, i;

	for (n = 0; n < 3; n++) {
		cfg.nodes = node_counts[n];
		rig_begin(&cfg);
		for (i = 0; i < 8; i++) {
			me->cpu = i;
			must_eq(store_put(&rig->store, i, page, RAW, NUMA_NO_NODE), 0);
			must_eq(zspage_of(i)->node, hostile_cpu_node(i));
			/*
			 * Of a page of another node on its node, as reclaim of one node by another
			 * does.
			 */
			must_eq(store_put(&rig->store, 16 + i, page, RAW, (i + 1) % home->nodes),
				0);
			must_eq(zspage_of(16 + i)->node, (i + 1) % home->nodes);
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
			must_eq(store_put(&rig->store, i, page, SPAN / 2, NUMA_NO_NODE), 0);
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
		rig_end();
	}
}

/* What is freed in one batch goes back by the node of each. */
CASE(a_batch_of_zspages_is_of_many_nodes)
{
	const struct rig_config cfg = {
		.cpus = 8, .nodes = 4, .pages = HOME_PAGES, .slots = 2 * RELEASE_REFS,
		.release_limit = PLENTY,
	};
	static char page[PAGE_SIZE];
	unsigned int cpu, i;

	rig_begin(&cfg);
	for (cpu = 0; cpu < 8; cpu++) {
		for (i = 0; i < 8; i++) {
			me->cpu = i;
			must_eq(store_put(&rig->store, i, page, RAW, NUMA_NO_NODE), 0);
		}
		me->cpu = cpu;
		for (i = 0; i < 8; i++)
			store_free(&rig->store, i);
		release_flush(&rig->store.release);
		rig_check();
	}
}

/* Stores objects of all sizes from CPUs of all nodes; returns the pages that takes. */
static u64 pages_of_a_mix(unsigned int nodes)
{
	const struct rig_config cfg = {
		.cpus = 8, .nodes = nodes, .pages = 4000, .slots = 4000,
	};
	static char page[PAGE_SIZE];
	u64 i, pages;

	seed = 1;
	rig_begin(&cfg);
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
	rig_end();
	return pages;
}

CASE(nodes_cost_no_density)
{
	u64 one = pages_of_a_mix(1), four = pages_of_a_mix(4);

	must_be_at_most(four, one + one / 200);
}

/* ---- the slot table ---- */

CASE(slots_take_memory_where_they_were_written)
{
	const struct rig_config cfg = {
		.cpus = 1, .pages = HOME_PAGES, .slots = 9 * HOST_TABLE_PIECE - 5, .sparse = true,
	};
	const u64 written[] = { 3 * HOST_TABLE_PIECE, 3 * HOST_TABLE_PIECE + 7,
				6 * HOST_TABLE_PIECE - 1, cfg.slots - 1 };
	static char bytes[QUARTER], page[PAGE_SIZE];
	size_t i, n = sizeof(written) / sizeof(written[0]), got;
	u64 meta;

	rig_begin(&cfg);
	meta = store_meta_bytes(&rig->store);
	for (i = 0; i < cfg.slots; i += HOST_TABLE_PIECE / 4)
		if (store_free(&rig->store, i) || store_read(&rig->store, i, page) || page[0] ||
		    blob_get(&rig->store, i, page, sizeof(page), &got) || got ||
		    slot_has_object(store_hold(&rig->store, i)))
			explore_fail("slot %zu is not empty", i);
	if (store_meta_bytes(&rig->store) != meta || home->pages_out)
		explore_fail("to look at a slot takes memory");
	for (i = 0; i < n; i++)
		must_eq(store_put(&rig->store, written[i], bytes, sizeof(bytes), NUMA_NO_NODE), 0);
	must_eq(rig->store.pieces.v, 3);
	rig_check();
	store_reset(&rig->store);
	if (store_count(&rig->store, CNT_ORIG_BYTES) || rig->store.pieces.v != 3)
		explore_fail("a reset leaves something, or takes pages of the table");
}

CASE(a_zspage_with_a_page_of_another_node_is_told)
{
	const struct rig_config cfg = { .cpus = 2, .nodes = 2, .pages = HOME_PAGES, .slots = 4 };
	static const char page[RAW];
	const char *why;

	rig_begin(&cfg);
	must_eq(store_put(&rig->store, 0, page, RAW, NUMA_NO_NODE), 0);
	zspage_of(0)->node ^= 1;
	why = store_check(&rig->store);
	zspage_of(0)->node ^= 1;
	if (!why || strcmp(why, "a page of a zspage is not of its node"))
		explore_fail("told is '%s'", why ? why : "nothing");
}

/* Whatever it asks for fails in turn: nothing is left of it. */
CASE(a_reserve_that_cannot_be_made_leaves_nothing)
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
	must(failed);
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
	must_eq(pages_reserved(&made), 5);
	while (pages_reserved(&made))
		must_take(1, 1, NUMA_NO_NODE, how);
	if (nheld != 16 || take(1, 1, NUMA_NO_NODE, how) != -ENOMEM)
		explore_fail("not every page could be had");
	end();
}

CASE(the_reserve_is_the_last_resort)
{
	take_all_with(HOST_MAY_WAIT);
}

/* In atomic context: who holds a lock as he frees memory. */
CASE(who_reclaims_need_not_wait)
{
	take_all_with(HOST_RECLAIMS);
}

CASE(what_is_freed_fills_the_reserve_first)
{
	u32 left;

	begin(2, 1, 16, 5);
	must_take(0, 8, NUMA_NO_NODE, HOST_MAY_WAIT);
	src.dry = 1;
	while (!take(0, 1, NUMA_NO_NODE, HOST_MAY_WAIT))
		;
	if (pages_reserved(&made) || !pages_are_short(&made))
		explore_fail("the reserve is not drawn on");
	must(refill(&made));
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
CASE(a_reserve_is_shared_but_for_what_each_has_for_itself)
{
	static host_page page[2][HOME_PAGES];
	struct pages_reserve shared;
	struct pages two[2];
	u32 n[2], i, out;

	home_open_nodes(2, 1, 32);
	src.dry = 0;
	must_eq(pages_reserve_init(&shared, 6), 0);
	for (i = 0; i < 2; i++)
		must_eq(pages_init(&two[i], &src, 3, &shared), 0);
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
	must_eq(shared.count, 6);
	pages_destroy(&two[1]);
	out = home->pages_out;
	pages_reserve_destroy(&shared, &src);
	if (out != 6 || home->pages_out)
		explore_fail("%u pages are left, %u at the end", out, home->pages_out);
	home_close();
}

CASE(the_reserve_is_as_large_as_its_use_asks)
{
	const u64 gib = (u64)1 << 30;

	/* A machine of 1 GiB has 960 MiB or more of it for the kernel to count. */
	if (PAGE_SHIFT == 12 && pages_reserve_for(gib / 16 * 15, 0) < PAGES_TAKE)
		explore_fail("the reserve does not cover a folio");
	must(pages_reserve_for(0, 0) >= PAGES_TAKE_BATCH);
	if (pages_reserve_for(0, 4) != 80 || pages_reserve_for(gib << 12, 512) != 1024 + 1024)
		explore_fail("the reserve is out of its bounds");
}
