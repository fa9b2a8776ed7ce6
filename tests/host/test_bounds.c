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

#define BATCH 4         /* pages that lists move at once */

/* A rig of which every slot holds an object of n bytes. */
static void open_full(const struct rig_config *cfg, size_t n)
{
	static char bytes[HALF];
	u64 i;

	home_open(cfg->cpus, cfg->pages);
	if (rig_open(cfg))
		explore_fail("a store cannot be made");
	for (i = 0; i < cfg->slots; i++)
		if (store_put(&rig->store, i, bytes, n, NUMA_NO_NODE))
			explore_fail("slot %llu cannot be written", (unsigned long long)i);
}

/*
 * Half of the objects of many zspages are freed one by one, so that every zspage is filed higher
 * than it is: whoever comes next must not put them all right in one hold of the lock.
 */
static void no_hold_of_a_class_lock_grows_with_the_pool(void)
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
	if (store_put(&rig->store, 0, bytes, sizeof(bytes), NUMA_NO_NODE) || home_longest > most)
		explore_fail("%llu accesses under a class lock in a write",
			     (unsigned long long)home_longest);
	rig_check();
	home_longest = 0;
	if (store_compact(&rig->store) < cfg.slots / 4 / 3 || home_longest > most)
		explore_fail("%llu accesses under a class lock in a compaction",
			     (unsigned long long)home_longest);
	rig_check();
	rig_close();
	home_close();
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
	rig_check();
	rig_close();
	home_close();
	return most;
}

static void a_free_looks_at_no_other_cpu(void)
{
	static const unsigned int many[] = { 8, 64, 512 };
	u64 one = dearest_free(1);
	size_t i;

	for (i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		u64 most = dearest_free(many[i]);

		if (most > one)
			explore_fail("a free takes %llu accesses with %u CPUs, %llu with one",
				     (unsigned long long)most, many[i], (unsigned long long)one);
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
	home_open(cfg.cpus, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	before = explore_accesses;
	release_flush(&rig->store.release);
	before = explore_accesses - before;
	rig_close();
	home_close();
	return before;
}

static void a_flush_looks_at_each_item_once(void)
{
	static const unsigned int cpus[] = { 8, 64, 512 };
	u64 one = flush_of_nothing(1), more = flush_of_nothing(2) - one, accesses;
	unsigned int i;

	for (i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		accesses = flush_of_nothing(cpus[i]);
		if (accesses != one + (cpus[i] - 1) * more || more > 16)
			explore_fail("a flush takes %llu accesses with %u CPUs, %llu for the second",
				     (unsigned long long)accesses, cpus[i],
				     (unsigned long long)more);
	}
}

/* A buffer is queued, and taken. */
static void a_queue_s_lock_is_taken_twice_a_buffer(void)
{
	const u64 bufs = buffers.slots / RELEASE_REFS;
	u64 i, holds;

	open_full(&buffers, SMALL);
	home_stat_reset();
	for (i = 0; i < buffers.slots; i++)
		store_free(&rig->store, i);
	holds = home_lock_stat("&r->item[i]->queue.lock")->holds;
	if (holds != bufs)
		explore_fail("%llu holds to queue %llu buffers",
			     (unsigned long long)holds, (unsigned long long)bufs);
	host_work_flush(&rig->store.release.node->worker->work);
	holds = home_lock_stat("&r->item[i]->queue.lock")->holds;
	if (holds > 2 * bufs + 1 ||
	    release_full_in(rig->store.release.item, rig->store.release.items))
		explore_fail("%llu holds to queue and drain %llu buffers",
			     (unsigned long long)holds, (unsigned long long)bufs);
	rig_check();
	rig_close();
	home_close();
}

/* The CPU fills so many buffers; cfg.slots are RELEASE_REFS. */
static void fill_buffers(unsigned int cpu, unsigned int n)
{
	static char bytes[SMALL];
	u64 i;

	me->cpu = cpu;
	while (n--)
		for (i = 0; i < RELEASE_REFS; i++)
			if (store_put(&rig->store, i, bytes, sizeof(bytes), NUMA_NO_NODE) ||
			    store_free(&rig->store, i))
				explore_fail("a write fails");
	me->cpu = 0;
	if (home_in_place())
		explore_fail("CPU %u has no buffer", cpu);
}

static void open_stocks(unsigned int cpus, unsigned int nodes, u32 spare)
{
	struct rig_config cfg = buffers;

	cfg.cpus = cpus;
	cfg.slots = RELEASE_REFS;
	cfg.spare = spare;
	cfg.release_limit = 4 * cpus * PLENTY;
	cfg.pages = 4 * HOME_PAGES;
	home_open_nodes(cpus, nodes, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	home_stat_reset();
}

static void close_stocks(void)
{
	rig_check();
	rig_close();
	home_close();
}

static void cpus_that_fill_buffers_meet_at_their_node_once_a_pocket(void)
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
	if (holds)
		explore_fail("%llu holds of the node's lock, though all had buffers",
			     (unsigned long long)holds);
	for (round = 1; round <= 2; round++) {
		for (i = 0; i < cpus; i++)
			fill_buffers(i, node->pocket);
		holds = home_lock_stat("&b->node[k].lock")->holds;
		if (holds != round * cpus)
			explore_fail("%llu holds of the node's lock for %u pockets",
				     (unsigned long long)holds, round * cpus);
	}
	/* Who drains gives back as many at a time. */
	home_stat_reset();
	while (release_full_in(rig->store.release.item, rig->store.release.items))
		home_run_work(&node->worker->work);
	holds = home_lock_stat("&b->node[k].lock")->holds;
	if (holds > 12 * cpus / RELEASE_POCKET + 2)
		explore_fail("%llu holds to give %u buffers back", (unsigned long long)holds,
			     12 * cpus);
	close_stocks();
}

static void what_a_cpu_drew_from_its_node_is_there_for_others(void)
{
	struct release_node *node;
	unsigned int i;

	open_stocks(2, 1, 24);
	node = rig->store.release.node;
	for (i = 0; i < 6; i++) {
		fill_buffers(i % 2, node->limit_bufs - node->pocket + 1);
		host_work_flush(&node->worker->work);
		if (release_full_in(rig->store.release.item, rig->store.release.items))
			explore_fail("a worker does not drain the queues");
	}
	/* With nothing to drain it asks for the look that sets pockets right. */
	host_work_flush(&node->worker->work);
	host_work_flush(&rig->store.release.disarm);
	if (node->out != node->cpu_bufs || node->item[1]->queue.nempty != node->cpu_bufs / 3 - 1)
		explore_fail("%u buffers are in pockets, of %u", node->out, node->cpu_bufs);
	close_stocks();
}

static void who_is_short_of_memory_begins_on_the_node(void)
{
	struct release_node *node;

	open_stocks(4, 2, 16);
	node = rig->store.release.node;
	fill_buffers(0, 1);
	fill_buffers(3, 2);
	release_help(&rig->store.release, 1, 2);
	if (node[1].item[1]->queue.nfull || node[0].item[0]->queue.nfull != 1)
		explore_fail("another node's buffers are freed first");
	close_stocks();
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

static void a_worker_makes_no_flush_wait_for_what_it_takes_later(void)
{
	open_stocks(1, 1, 4);
	fill_buffers(0, 3);
	rests = 0;
	home_rests = as_a_flush_begins;
	host_work_flush(&rig->store.release.node->worker->work);
	home_rests = NULL;
	if (rests < 3)
		explore_fail("a worker rests %u times", rests);
	close_stocks();
}

/* Another CPU frees more than a buffer in between. */
static void free_meanwhile(void)
{
	static char bytes[SMALL];
	u64 i;

	if (++rests > 64)
		explore_fail("a flush goes on as long as others free");
	me->cpu = 1;
	for (i = 0; i < RELEASE_REFS + 64; i++)
		if (store_put(&rig->store, i, bytes, sizeof(bytes), NUMA_NO_NODE) ||
		    store_free(&rig->store, i))
			explore_fail("a write fails");
	me->cpu = 0;
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
	rig_check();
	rig_close();
	home_close();
}

static void a_flush_ends_however_much_is_freed_meanwhile(void)
{
	flush_while_others_free(false);
	flush_while_others_free(true);
}

/* However much is held back, and in however many places. */
static void who_is_short_of_memory_does_a_bounded_part_of_the_work(void)
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
		if (freed > RELEASE_REFS)
			explore_fail("%llu objects are freed where one buffer was asked for",
				     (unsigned long long)freed);
		all += freed;
	}
	if (all != cfg.slots || release_held(&rig->store.release))
		explore_fail("%llu of %llu objects were found", (unsigned long long)all,
			     (unsigned long long)cfg.slots);
	rig_check();
	rig_close();
	home_close();
}

static void full_buffers_stay_on_their_node(void)
{
	struct rig_config cfg = buffers;
	struct release_node *node;
	u64 i;

	cfg.cpus = 4;
	cfg.spare = 8;
	home_open_nodes(cfg.cpus, 2, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
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
	if (release_held(&rig->store.release))
		explore_fail("a node's worker does not drain it");
	me->cpu = 0;
	rig_check();
	rig_close();
	home_close();
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
	if (!c)
		explore_fail("no chain has %u pages", CHAIN_MIN);
	return c;
}

/*
 * A CPU whose buffer is full and has no room in a queue frees RELEASE_SPILL objects in its item,
 * where it does not lose the CPU.  Each is the last of a zspage here.
 */
static void who_frees_in_place_gives_a_bounded_number_of_pages_back(void)
{
	struct rig_config cfg = { .cpus = 1, .pages = HOME_PAGES_MAX / 4, .slots = 2048 };
	const u64 most = RELEASE_SPILL * CHAIN_MIN;
	static char bytes[PAGE_SIZE];
	u64 i, before, pages, given = 0;
	const struct pool_class *c;
	u64 n;

	cfg.release_limit = RELEASE_SPILL << PAGE_SHIFT;
	home_open(cfg.cpus, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	c = longest_chain();
	n = 2 * RELEASE_SPILL * c->objs;
	if (n > cfg.slots)
		explore_fail("the test needs %llu slots", (unsigned long long)n);
	for (i = 0; i < n; i++)
		if (store_put(&rig->store, i, bytes, c->size - POOL_HEADER, NUMA_NO_NODE))
			explore_fail("slot %llu cannot be written", (unsigned long long)i);
	for (i = 0; i < n; i++)
		if (i % c->objs)
			store_free(&rig->store, i);
	release_flush(&rig->store.release);
	if (pool_pages(&rig->store.pool) != 2 * most)
		explore_fail("%llu pages", (unsigned long long)pool_pages(&rig->store.pool));
	rig->store.release.buf_bytes = RELEASE_SPILL * 3 / 2 *
				       (PAGE_SIZE * CHAIN_MIN / c->objs);
	before = home_in_place();
	for (i = 0; i < n; i += c->objs) {
		pages = pool_pages(&rig->store.pool);
		store_free(&rig->store, i);
		pages -= pool_pages(&rig->store.pool);
		given = pages > given ? pages : given;
	}
	printf("# %llu pages in one item, of %llu objects in place\n", (unsigned long long)given,
	       (unsigned long long)(home_in_place() - before));
	if (given != most)
		explore_fail("%llu pages go back in one item", (unsigned long long)given);
	rig_check();
	rig_close();
	home_close();
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
static void who_goes_through_all_slots_rests(void)
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
		printf("# %llu slots: %llu, %llu and %llu accesses without a rest\n",
		       (unsigned long long)cfg.slots, (unsigned long long)checks,
		       (unsigned long long)flushes, (unsigned long long)resets);
		if (checks > 8 * STORE_PIECE || flushes > 10 * RELEASE_REFS ||
		    resets > 30 * STORE_PIECE)
			explore_fail("a check, a flush or a reset goes on without a rest");
		rig_close();
		home_close();
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
	if (!shrink_count(&rig->store.shrink))
		explore_fail("nothing to shrink on %u CPUs", cpus);
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
		explore_fail("a call of the shrinker moves %llu objects", (unsigned long long)most);
	store_reset(&rig->store);
	rig_close();
	home_close();
}

static void a_call_of_the_shrinker_looks_at_no_more_cpus_than_it_may(void)
{
	static const unsigned int many[] = { 64, 512 };
	u64 count, call, idle, count1;
	unsigned int i;

	shrinks(1, &count1, &call, &idle);
	for (i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		shrinks(many[i], &count, &call, &idle);
		printf("# %u CPUs: %llu and %llu accesses, %llu in vain\n", many[i], (unsigned long long)count,
		       (unsigned long long)call, (unsigned long long)idle);
		if (count != count1)
			explore_fail("the shrinker's figure takes %llu accesses with %u CPUs, %llu with one",
				     (unsigned long long)count, many[i],
				     (unsigned long long)count1);
		/* SHRINK_BUFS buffers freed and SHRINK_STEPS steps; or a look at them. */
		if (call > 6000 || idle > 3 * RELEASE_LOOKS + 16)
			explore_fail("a call of the shrinker takes %llu accesses with %u CPUs, in vain %llu",
				     (unsigned long long)call, many[i], (unsigned long long)idle);
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
static void what_a_call_gave_back_is_told_whatever_others_take(void)
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
	if (!others_pages)
		explore_fail("a call gives nothing back");
	host_a64_add(&rig->store.pool.pages, (u64)0 - others_pages);
	if (!told)
		explore_fail("a call that gives pages back tells of none");
	rig_check();
	rig_close();
	home_close();
}

static void who_is_interrupted_stops_compacting(void)
{
	const struct rig_config cfg = { .cpus = 1, .pages = HOME_PAGES, .slots = HOME_PAGES };
	u64 i;

	open_full(&cfg, QUARTER);
	for (i = 0; i < cfg.slots; i++)
		if (i % 4)
			store_free(&rig->store, i);
	home->interrupted = true;
	if (store_compact(&rig->store))
		explore_fail("a compaction goes on for nobody");
	shrink_look(&rig->store.shrink, store_count(&rig->store, CNT_ROOM));
	shrink_rest(&rig->store.shrink, ~(u64)0);
	if (pool_pages(&rig->store.pool) < cfg.slots / 4)
		explore_fail("a worker goes on for nobody");
	home->interrupted = false;
	if (!store_compact(&rig->store))
		explore_fail("nothing is left to compact");
	rig_check();
	rig_close();
	home_close();
}

int main(void)
{
	static const struct rig_case cases[] = {
		{ "a call of the shrinker looks at no more CPUs than it may",
		  a_call_of_the_shrinker_looks_at_no_more_cpus_than_it_may },
		{ "who frees in place gives a bounded number of pages back",
		  who_frees_in_place_gives_a_bounded_number_of_pages_back },
		{ "who goes through all slots rests", who_goes_through_all_slots_rests },
		{ "what a call gave back is told whatever others take",
		  what_a_call_gave_back_is_told_whatever_others_take },
		{ "who is interrupted stops compacting", who_is_interrupted_stops_compacting },
		{ "a free looks at no other CPU", a_free_looks_at_no_other_cpu },
		{ "a flush looks at each item once", a_flush_looks_at_each_item_once },
		{ "a queue's lock is taken twice a buffer", a_queue_s_lock_is_taken_twice_a_buffer },
		{ "CPUs that fill buffers meet at their node once a pocket",
		  cpus_that_fill_buffers_meet_at_their_node_once_a_pocket },
		{ "what a CPU drew from its node is there for others",
		  what_a_cpu_drew_from_its_node_is_there_for_others },
		{ "who is short of memory begins on the node", who_is_short_of_memory_begins_on_the_node },
		{ "a worker makes no flush wait for what it takes later",
		  a_worker_makes_no_flush_wait_for_what_it_takes_later },
		{ "a flush ends however much is freed meanwhile", a_flush_ends_however_much_is_freed_meanwhile },
		{ "who is short of memory does a bounded part of the work",
		  who_is_short_of_memory_does_a_bounded_part_of_the_work },
		{ "full buffers stay on their node", full_buffers_stay_on_their_node },
		{ "no hold of a class lock grows with the pool", no_hold_of_a_class_lock_grows_with_the_pool },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	return 0;
}
