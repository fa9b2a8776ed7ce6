// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_bounds.c - how much is done: in a hold of a lock, in a call, for an object, by machines of 1
 * to 512 CPUs.
 *
 * Sequential: what others do meanwhile is done by a hook, or by a work item that is run.
 */
#include "explore.h"
#include "rig.h"

#include <stdio.h>

/* A rig of which every slot holds an object of n bytes. */
static void open_full(const struct rig_config *cfg, size_t n)
{
	static char bytes[HALF];
	u64 i;

	rig_begin(cfg);
	for (i = 0; i < cfg->slots; i++)
		must_eq(store_put(&rig->store, i, bytes, n, NUMA_NO_NODE), 0);
}

/*
 * Half of the objects of many zspages are freed one by one, so that every zspage is filed higher
 * than it is: whoever comes next must not put them all right in one hold of the lock.
 */
CASE(no_hold_of_a_class_lock_grows_with_the_pool)
{
	const struct rig_config cfg = { .cpus = 1, .pages = HOME_PAGES,
					.slots = 3 * (HOME_PAGES - 8) };
	static char bytes[QUARTER];
	const u64 most = 8 * POOL_LOOK;         /* five each, and what is done to one */
	u64 i;

	open_full(&cfg, sizeof(bytes));
	for (i = 0; i < cfg.slots; i++)
		if (i % 4 < 2)
			store_free(&rig->store, i);
	home_longest = 0;
	must_eq(store_put(&rig->store, 0, bytes, sizeof(bytes), NUMA_NO_NODE), 0);
	must_be_at_most(home_longest, most);
	rig_check();
	home_longest = 0;
	must(store_compact(&rig->store) >= cfg.slots / 4 / 3);
	must_be_at_most(home_longest, most);
}

static u64 home_in_place(void)
{
	struct release_stats st;

	release_stats(&rig->store.release, &st);
	return st.in_place;
}

/* The most accesses of a free, among those that fill a buffer and queue it. */
static u64 dearest_free(unsigned int cpus)
{
	const struct rig_config cfg = {
		.cpus = cpus, .pages = HOME_PAGES, .slots = 2 * RELEASE_REFS,
		.release_limit = cpus * PLENTY,
		.spare = 4 * cpus,
	};
	u64 i, before, most = 0;

	open_full(&cfg, SMALL);
	for (i = 0; i < cfg.slots; i++) {
		before = explore_accesses;
		store_free(&rig->store, i);
		if (explore_accesses - before > most)
			most = explore_accesses - before;
	}
	if (!release_full_in(rig->store.release.item, rig->store.release.items) || home_in_place())
		explore_fail("no buffer was queued");
	rig_end();
	return most;
}

CASE(a_free_looks_at_no_other_cpu)
{
	static const unsigned int many[] = { 8, 64, 512 };
	u64 one = dearest_free(1);
	size_t i;

	for (i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		u64 most = dearest_free(many[i]);

		must_be_at_most(most, one);
	}
}

/* ---- bounds of the release stage ---- */

static const struct rig_config buffers = {
	.cpus = 1, .pages = HOME_PAGES, .slots = 2 * RELEASE_REFS,
	.release_limit = PLENTY, .spare = 4,
};

static u64 flush_of_nothing(unsigned int cpus)
{
	struct rig_config cfg = buffers;
	u64 before;

	cfg.cpus = cpus;
	rig_begin(&cfg);
	before = explore_accesses;
	release_flush(&rig->store.release);
	before = explore_accesses - before;
	rig_end();
	return before;
}

CASE(a_flush_looks_at_each_item_once)
{
	static const unsigned int cpus[] = { 8, 64, 512 };
	u64 one = flush_of_nothing(1), more = flush_of_nothing(2) - one, accesses;
	unsigned int i;

	for (i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		accesses = flush_of_nothing(cpus[i]);
		must_eq(accesses, one + (cpus[i] - 1) * more);
		must_be_at_most(more, 16);
	}
}

/* A buffer is queued, and taken. */
CASE(a_queue_s_lock_is_taken_twice_a_buffer)
{
	const u64 bufs = buffers.slots / RELEASE_REFS;
	u64 i, holds;

	open_full(&buffers, SMALL);
	home_stat_reset();
	for (i = 0; i < buffers.slots; i++)
		store_free(&rig->store, i);
	holds = home_lock_stat("&r->item[i]->queue.lock")->holds;
	must_eq(holds, bufs);
	host_work_flush(&rig->store.release.node->worker->work);
	holds = home_lock_stat("&r->item[i]->queue.lock")->holds;
	must_be_at_most(holds, 2 * bufs + 1);
	must(!release_full_in(rig->store.release.item, rig->store.release.items));
}

/* The CPU fills so many buffers; cfg.slots are RELEASE_REFS. */
static void fill_buffers(unsigned int cpu, unsigned int n)
{
	while (n--)
		rig_push(cpu, 0, RELEASE_REFS);
	must_eq(home_in_place(), 0);
}

static void open_stocks(unsigned int cpus, unsigned int nodes, u32 spare)
{
	struct rig_config cfg = buffers;

	cfg.cpus = cpus;
	cfg.slots = RELEASE_REFS;
	cfg.spare = spare;
	cfg.release_limit = 4 * cpus * PLENTY;
	cfg.pages = 4 * HOME_PAGES;
	cfg.nodes = nodes;
	rig_begin(&cfg);
	home_stat_reset();
}

CASE(cpus_that_fill_buffers_meet_at_their_node_once_a_pocket)
{
	const unsigned int cpus = 4;
	const struct release_node *node;
	unsigned int i, round;
	u64 holds;

	open_stocks(cpus, 1, 4 * 4 * (cpus + 1));
	node = rig->store.release.node;
	if (node->pocket != 4 || node->cpu_bufs != 5 * node->nitems)
		explore_fail("a pocket of %u of %u buffers", node->pocket, node->limit_bufs);
	for (i = 0; i < cpus; i++)
		fill_buffers(i, RELEASE_POCKET / 4);
	holds = home_lock_stat("&b->node[k].lock")->holds;
	must_eq(holds, 0);
	for (round = 1; round <= 2; round++) {
		for (i = 0; i < cpus; i++)
			fill_buffers(i, node->pocket);
		holds = home_lock_stat("&b->node[k].lock")->holds;
		must_eq(holds, round * cpus);
	}
	/* Who drains gives back as many at a time. */
	home_stat_reset();
	while (release_full_in(rig->store.release.item, rig->store.release.items))
		home_run_work(&node->worker->work);
	holds = home_lock_stat("&b->node[k].lock")->holds;
	must_be_at_most(holds, 12 * cpus / RELEASE_POCKET + 2);
}

CASE(what_a_cpu_drew_from_its_node_is_there_for_others)
{
	struct release_node *node;
	unsigned int i;

	open_stocks(2, 1, 24);
	node = rig->store.release.node;
	for (i = 0; i < 6; i++) {
		fill_buffers(i % 2, node->limit_bufs - node->pocket + 1);
		host_work_flush(&node->worker->work);
		must(!release_full_in(rig->store.release.item, rig->store.release.items));
	}
	/* With nothing to drain it asks for the look that sets pockets right. */
	host_work_flush(&node->worker->work);
	host_work_flush(&rig->store.release.disarm);
	if (node->out != node->cpu_bufs || node->item[1]->queue.nempty != node->cpu_bufs / 3 - 1)
		explore_fail("%u buffers are in pockets, of %u", node->out, node->cpu_bufs);
}

CASE(who_is_short_of_memory_begins_on_the_node)
{
	struct release_node *node;

	open_stocks(4, 2, 16);
	node = rig->store.release.node;
	fill_buffers(0, 1);
	fill_buffers(3, 2);
	release_help(&rig->store.release, 1, 2);
	if (node[1].item[1]->queue.nfull || node[0].item[0]->queue.nfull != 1)
		explore_fail("another node's buffers are freed first");
}

static unsigned int rests;
static u64 old_epoch;

static void as_a_flush_begins(void)
{
	struct release_node *node = rig->store.release.node;

	if (!rests++)
		old_epoch = host_a64_add(&node->epoch, 1) - 1;
	else if (host_a64_read(&node->inflight[old_epoch & 1]))
		explore_fail("a flush waits for what a worker takes after it began");
}

CASE(a_worker_makes_no_flush_wait_for_what_it_takes_later)
{
	open_stocks(1, 1, 4);
	fill_buffers(0, 3);
	rests = 0;
	home_rests = as_a_flush_begins;
	host_work_flush(&rig->store.release.node->worker->work);
	home_rests = NULL;
	must(rests >= 3);
}

/* Another CPU frees more than a buffer in between. */
static void free_meanwhile(void)
{
	must_be_at_most(++rests, 64);
	rig_push(1, 0, RELEASE_REFS + 64);
}

static void flush_while_others_free(bool by_help)
{
	struct rig_config cfg = buffers;
	unsigned int most;
	u64 i;

	cfg.cpus = 2;
	open_full(&cfg, SMALL);
	for (i = 0; i < cfg.slots; i++)
		store_free(&rig->store, i);
	/* Something in the ring, too. */
	free_meanwhile();
	rests = 0;
	home_rests = free_meanwhile;
	if (by_help)
		release_help_all(&rig->store.release);
	else
		release_flush(&rig->store.release);
	home_rests = NULL;
	/* One after each item that had something, and each buffer that was queued by then. */
	most = cfg.slots / RELEASE_REFS + 1 + 2 * cfg.cpus;
	if (by_help)
		most += cfg.cpus * (RELEASE_REFS / POOL_BULK_SMALL + 1);
	if (!rests || rests > most)
		explore_fail("a flush of three buffers rests %u times", rests);
	rig_end();
}

CASE(a_flush_ends_however_much_is_freed_meanwhile)
{
	flush_while_others_free(false);
	flush_while_others_free(true);
}

/* However much is held back, and in however many places. */
CASE(who_is_short_of_memory_does_a_bounded_part_of_the_work)
{
	struct rig_config cfg = buffers;
	u64 i, freed, all = 0;

	/* Two buffers are queued, four are in twice the items that one call looks at. */
	cfg.cpus = 2 * RELEASE_LOOKS;
	cfg.slots = 6 * RELEASE_REFS;
	cfg.release_limit = (u64)1 << 30;
	open_full(&cfg, SMALL);
	for (i = 0; i < cfg.slots; i++) {
		me->cpu = i < 2 * RELEASE_REFS ? 0 : (u32)(i / 8 % cfg.cpus);
		store_free(&rig->store, i);
	}
	me->cpu = 0;
	for (i = 0; i < cfg.slots && all < cfg.slots; i++) {
		me->atomic++;
		freed = release_help(&rig->store.release, 0, 1);
		me->atomic--;
		must_be_at_most(freed, RELEASE_REFS);
		all += freed;
	}
	must_eq(all, cfg.slots);
	must_eq(release_held(&rig->store.release), 0);
}

CASE(full_buffers_stay_on_their_node)
{
	struct rig_config cfg = buffers;
	struct release_node *node;
	u64 i;

	cfg.cpus = 4;
	cfg.spare = 8;
	cfg.nodes = 2;
	rig_begin(&cfg);
	node = rig->store.release.node;
	for (i = 0; i < cfg.slots; i++)
		rig_do(&(struct op)PUT((u16)i, SMALL), (u32)i);
	memset(&rig->history, 0, sizeof(rig->history));
	me->cpu = 3;
	for (i = 0; i < cfg.slots; i++)
		store_free(&rig->store, i);
	if (node[0].item[0]->queue.nfull || node[0].item[1]->queue.nfull ||
	    !node[1].item[1]->queue.nfull ||
	    !node[1].worker->work.queued || node[0].worker->work.queued)
		explore_fail("a buffer is queued on another node than it was filled on");
	rig_check();
	host_work_flush(&node[1].worker->work);
	must_eq(release_held(&rig->store.release), 0);
}

/* The class of the longest chains that has the fewest objects in one. */
static const struct pool_class *longest_chain(void)
{
	const struct pool_class *c = NULL;
	unsigned int i;

	for (i = 0; i < rig->store.pool.table.nclasses; i++) {
		const struct pool_class *at = &rig->store.pool.class[i];

		if (at->pages == CHAIN_MIN && (!c || at->objs < c->objs))
			c = at;
	}
	must(c);
	return c;
}

/*
 * A CPU whose buffer is full and has no room in a queue frees RELEASE_SPILL objects in its item,
 * where it does not lose the CPU.  Each is the last of a zspage here.
 */
CASE(who_frees_in_place_gives_a_bounded_number_of_pages_back)
{
	struct rig_config cfg = { .cpus = 1, .pages = HOME_PAGES_MAX / 4, .slots = 2048 };
	const u64 most = RELEASE_SPILL * CHAIN_MIN;
	static char bytes[PAGE_SIZE];
	u64 i, before, pages, given = 0;
	const struct pool_class *c;
	u64 n;

	cfg.release_limit = RELEASE_SPILL << PAGE_SHIFT;
	rig_begin(&cfg);
	c = longest_chain();
	n = 2 * RELEASE_SPILL * c->objs;
	must_be_at_most(n, cfg.slots);
	for (i = 0; i < n; i++)
		must_eq(store_put(&rig->store, i, bytes, c->size - POOL_HEADER, NUMA_NO_NODE), 0);
	for (i = 0; i < n; i++)
		if (i % c->objs)
			store_free(&rig->store, i);
	release_flush(&rig->store.release);
	must_eq(pool_pages(&rig->store.pool), 2 * most);
	rig->store.release.buf_bytes = RELEASE_SPILL * 3 / 2 *
				       (PAGE_SIZE * CHAIN_MIN / c->objs);
	before = home_in_place();
	for (i = 0; i < n; i += c->objs) {
		pages = pool_pages(&rig->store.pool);
		store_free(&rig->store, i);
		pages -= pool_pages(&rig->store.pool);
		given = pages > given ? pages : given;
	}
	printf("# %lu pages in one item, of %lu objects in place\n", given,
	       (home_in_place() - before));
	must_eq(given, most);
}

/* ---- what rests ---- */

static u64 rested, stretch;     /* accesses: at the last rest, most between two */

static void note_rest(void)
{
	u64 since = explore_accesses - rested;

	stretch = since > stretch ? since : stretch;
	rested = explore_accesses;
}

/* The most accesses of a call without a rest. */
static u64 without_a_rest(void (*call)(void))
{
	rested = explore_accesses;
	stretch = 0;
	home_rests = note_rest;
	call();
	home_rests = NULL;
	note_rest();
	return stretch;
}

static void reset(void)
{
	store_reset(&rig->store);
}

static void check_store(void)
{
	const char *why = store_check(&rig->store);

	if (why)
		explore_fail("%s", why);
}

static void flush(void)
{
	release_flush(&rig->store.release);
}

/* Between two rests 256 slots are checked or emptied, or a buffer freed, in any store. */
CASE(who_goes_through_all_slots_rests)
{
	struct rig_config cfg = buffers;
	u64 i, checks, resets, flushes;

	for (cfg.slots = 2048; cfg.slots <= 8192; cfg.slots *= 4) {
		cfg.pages = HOME_PAGES_MAX / 4;
		cfg.spare = 16;
		cfg.release_limit = (u64)1 << 30;
		open_full(&cfg, QUARTER);
		checks = without_a_rest(check_store);
		/* All but one of a buffer's references are left in the ring. */
		for (i = 1; i < cfg.slots / 2 / RELEASE_REFS * RELEASE_REFS; i++)
			store_free(&rig->store, i);
		flushes = without_a_rest(flush);
		resets = without_a_rest(reset);
		printf("# %lu slots: %lu, %lu and %lu accesses without a rest\n", cfg.slots, checks,
		       flushes, resets);
		if (checks > 8 * STORE_PIECE || flushes > 10 * RELEASE_REFS ||
		    resets > 30 * STORE_PIECE)
			explore_fail("a check, a flush or a reset goes on without a rest");
		rig_end();
	}
}

/* Slots whose word is not what was kept of it. */
static u64 moved(u64 *was)
{
	u64 i, n = 0;

	for (i = 0; i < rig->store.slots; i++) {
		u64 word = host_a64_read(store_slot(&rig->store, i));

		n += word != was[i];
		was[i] = word;
	}
	return n;
}

/*
 * Accesses of the figure that the kernel asks for, of a call that it makes then, and of one in
 * vain.
 */
static void shrinks(unsigned int cpus, u64 *count, u64 *call, u64 *idle)
{
	static u64 word[8 * RELEASE_REFS];
	struct rig_config cfg = buffers;
	u64 i, before, most = 0, n;

	cfg.cpus = cpus;
	cfg.pages = 4 * HOME_PAGES;
	cfg.slots = 8 * RELEASE_REFS;
	/* A full buffer is four pages; a CPU's grain is one. */
	cfg.release_limit = cpus * 8 * PAGE_SIZE;
	/* As many to a page whatever its size, so that there are pages to give back. */
	open_full(&cfg, PAGE_SIZE / 128 - POOL_HEADER);
	for (i = 0; i < cfg.slots; i++)
		if (i % 8)
			store_free(&rig->store, i);
	shrink_look(&rig->store.shrink, store_count(&rig->store, CNT_ROOM));
	before = explore_accesses;
	must(shrink_count(&rig->store.shrink));
	*count = explore_accesses - before;
	*call = 0;
	moved(word);
	for (i = 0; i < 32; i++) {
		before = explore_accesses;
		shrink_some(&rig->store.shrink);
		before = explore_accesses - before;
		*call = before > *call ? before : *call;
		n = moved(word);
		most = n > most ? n : most;
		*idle = before;
	}
	if (!most || most > SHRINK_STEPS * POOL_MOVES)
		explore_fail("a call of the shrinker moves %lu objects", most);
	store_reset(&rig->store);
	rig_end();
}

CASE(a_call_of_the_shrinker_looks_at_no_more_cpus_than_it_may)
{
	static const unsigned int many[] = { 64, 512 };
	u64 count, call, idle, count1;
	unsigned int i;

	shrinks(1, &count1, &call, &idle);
	for (i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		shrinks(many[i], &count, &call, &idle);
		printf("# %u CPUs: %lu and %lu accesses, %lu in vain\n", many[i], count, call,
		       idle);
		must_eq(count, count1);
		/* SHRINK_BUFS buffers freed and SHRINK_STEPS steps; or a look at them. */
		must_be_at_most(call, 6000);
		must_be_at_most(idle, 3 * RELEASE_LOOKS + 16);
	}
}

static u64 others_pages;

/* Another CPU's writes take pages, more than come back. */
static void take_meanwhile(void)
{
	if (!others_pages)
		host_a64_add(&rig->store.pool.pages, others_pages = HOME_PAGES / 2);
}

/* Told that nothing was freed, the kernel asks no more. */
CASE(what_a_call_gave_back_is_told_whatever_others_take)
{
	const struct rig_config cfg = { .cpus = 2, .pages = HOME_PAGES, .slots = HOME_PAGES };
	u64 i, told;

	open_full(&cfg, QUARTER);
	for (i = 0; i < cfg.slots; i++)
		if (i % 4)
			store_free(&rig->store, i);
	shrink_look(&rig->store.shrink, store_count(&rig->store, CNT_ROOM));
	others_pages = 0;
	home_gave = take_meanwhile;
	told = shrink_some(&rig->store.shrink);
	home_gave = NULL;
	must(others_pages);
	host_a64_add(&rig->store.pool.pages, (u64)0 - others_pages);
	must(told);
}

CASE(who_is_interrupted_stops_compacting)
{
	const struct rig_config cfg = { .cpus = 1, .pages = HOME_PAGES, .slots = HOME_PAGES };
	u64 i;

	open_full(&cfg, QUARTER);
	for (i = 0; i < cfg.slots; i++)
		if (i % 4)
			store_free(&rig->store, i);
	home->interrupted = true;
	must(!store_compact(&rig->store));
	shrink_look(&rig->store.shrink, store_count(&rig->store, CNT_ROOM));
	shrink_rest(&rig->store.shrink, ~(u64)0);
	must(pool_pages(&rig->store.pool) >= cfg.slots / 4);
	home->interrupted = false;
	must(store_compact(&rig->store));
}
