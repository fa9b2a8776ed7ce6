// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_workers.c - the release stage's workers and buffers on machines with several of them: who is
 * called when, what a node without CPUs has, how a budget changes.
 *
 * Sequential: a work item runs when a test says so, or never.
 */
#include "explore.h"
#include "rig.h"

#define CPUS 16                 /* enough for four workers */

static void open_with(const struct rig_config *cfg, unsigned int nodes)
{
	home_open_nodes(cfg->cpus, nodes, cfg->pages);
	if (rig_open(cfg))
		explore_fail("a store cannot be made");
}

static void close_rig(void)
{
	me->cpu = 0;
	rig_check();
	rig_close();
	home_close();
}

static void put(u64 i, unsigned int node)
{
	static const char bytes[SMALL];

	if (store_put(&rig->store, i, bytes, sizeof(bytes), node))
		explore_fail("slot %llu cannot be written", (unsigned long long)i);
}

/* Full buffers, all of CPU 0. */
static u32 full(void)
{
	return rig->store.release.item[0]->queue->nfull;
}

/* So many full buffers. */
static struct release_node *queue_buffers(u64 n)
{
	struct release_node *node = rig->store.release.node;
	u64 i;

	for (i = 0; i < n * RELEASE_REFS; i++)
		put(i, HOST_ANY_NODE);
	for (i = 0; i < n * RELEASE_REFS; i++)
		store_free(&rig->store, i);
	if (full() != n)
		explore_fail("%u buffers are queued, not %llu", full(), (unsigned long long)n);
	return node;
}

static const struct rig_config long_queue = {
	.cpus = CPUS, .pages = 600, .slots = (RELEASE_ROUND + RELEASE_BACKLOG + 1) * RELEASE_REFS,
	.release_limit = 64 << 20, .spare = RELEASE_ROUND + 2 * RELEASE_BACKLOG,
};

static void another_worker_is_called_for_each_part_of_a_backlog(void)
{
	u32 n, i, called;

	for (n = 0; n < 3 * RELEASE_BACKLOG; n += RELEASE_BACKLOG - 1) {
		struct release_node *node;

		open_with(&long_queue, 1);
		node = queue_buffers(n);
		home_run_work(&node->worker->work);
		for (i = 1, called = 0; i < node->nworkers; i++)
			called += node->worker[i].work.queued;
		if (node->nworkers != CPUS / 4 || called != n / RELEASE_BACKLOG)
			explore_fail("%u of %u workers are called for %u buffers", called,
				     node->nworkers, n);
		close_rig();
	}
}

static void a_worker_lets_others_run_and_goes_on_with_a_backlog(void)
{
	struct release_node *node;
	struct host_work *second;

	open_with(&long_queue, 1);
	node = queue_buffers(RELEASE_ROUND + RELEASE_BACKLOG);
	second = &node->worker[1].work;
	home_run_work(second);
	if (full() != RELEASE_BACKLOG || !second->queued)
		explore_fail("%u buffers are left by a worker that does %s", full(),
			     second->queued ? "go on" : "not go on");
	/* Less than a round is the end of it. */
	home_run_work(second);
	if (full() || second->queued)
		explore_fail("a worker goes on with %u buffers", full());
	close_rig();

	open_with(&long_queue, 1);
	node = queue_buffers(RELEASE_ROUND + RELEASE_BACKLOG);
	host_work_flush(&node->worker->work);
	if (full() || release_queued(&rig->store.release))
		explore_fail("the first worker leaves %u buffers", full());
	close_rig();
}

/* Memory alone is on node 1. */
static void a_node_without_cpus_has_pages_and_nothing_else(void)
{
	const struct rig_config cfg = {
		.cpus = 1, .pages = HOME_PAGES, .slots = 8 * RELEASE_REFS,
		.release_limit = 64 << 20,
		.reserve = 2,
	};
	u64 bufs, i;

	open_with(&cfg, 1);
	bufs = release_meta_bytes(&rig->store.release);
	close_rig();

	open_with(&cfg, 2);
	if (release_meta_bytes(&rig->store.release) != bufs)
		explore_fail("a node without CPUs has buffers");
	for (i = 0; i < 4; i++)
		put(i, (unsigned int)i % 2);
	if (pcp_strayed(&rig->pcp))
		explore_fail("a page is not of the node that was asked for");
	for (i = 0; i < 4; i++)
		store_free(&rig->store, i);
	release_help(&rig->store.release, 1, 1);
	if (release_held(&rig->store.release))
		explore_fail("help for a node without CPUs frees nothing");
	if (release_set_limit(&rig->store.release, 2 * PLENTY) ||
	    release_set_limit(&rig->store.release, 0) ||
	    release_set_limit(&rig->store.release, cfg.release_limit))
		explore_fail("the budget cannot be changed");
	if (release_meta_bytes(&rig->store.release) != bufs)
		explore_fail("a node without CPUs has buffers once the budget was raised");
	close_rig();
}

static void the_timer_of_a_node_stops_while_another_s_runs_on(void)
{
	const struct rig_config cfg = {
		.cpus = 2, .pages = HOME_PAGES, .slots = 4, .release_limit = PLENTY,
	};
	struct release_node *node;
	u64 i;

	open_with(&cfg, 2);
	node = rig->store.release.node;
	for (i = 0; i < 4; i++)
		put(i, HOST_ANY_NODE);
	for (i = 0; i < 2; i++) {
		me->cpu = (u32)i;
		store_free(&rig->store, i);
	}
	host_work_flush(&node[0].worker->work);
	host_work_flush(&rig->store.release.disarm);
	if (host_a64_read(&node[0].armed) & 1 || !(host_a64_read(&node[1].armed) & 1))
		explore_fail("the timers are %u and %u", (u32)host_a64_read(&node[0].armed),
			     (u32)host_a64_read(&node[1].armed));
	/* Who pushes next on the first node starts it again. */
	me->cpu = 0;
	store_free(&rig->store, 2);
	if (!(host_a64_read(&node[0].armed) & 1) || !node[0].worker->work.queued)
		explore_fail("a free does not start the timer");
	close_rig();
}

/* Pages of slots 0 .. n - 1 go to the backing device, and are freed on a CPU. */
static void free_blocks(u64 n, unsigned int cpu)
{
	u64 i;

	for (i = 0; i < n; i++)
		rig_do(&(struct op){ .what = OP_INCOMING, .slot = (u16)i }, 1);
	me->cpu = cpu;
	for (i = 0; i < n; i++)
		store_free(&rig->store, i);
}

static bool is_armed(unsigned int node)
{
	struct release_node *n = &rig->store.release.node[node];

	return host_a64_read(&n->armed) & 1 && n->worker->work.queued;
}

/* Blocks that come while it runs and while it stops do not keep it running. */
static void must_stop_over_blocks(struct release_node *node)
{
	free_blocks(1, 1);
	release_look(node->r);
	free_blocks(1, 1);
	home->now += (u64)RELEASE_TIMER_US * 1000;
	home_run_work(&node->worker->work);
	if (is_armed(1))
		explore_fail("blocks keep the timer running");
	free_blocks(1, 1);
	home_run_work(&node->r->disarm);
	if (is_armed(1))
		explore_fail("blocks start the timer again");
	release_flush(node->r);
}

static void a_look_starts_the_timer_for_blocks(void)
{
	const struct rig_config cfg = {
		.cpus = 2, .pages = HOME_PAGES, .slots = 4, .blocks = 4, .release_limit = PLENTY,
	};
	struct release *r;
	u64 nfree;

	open_with(&cfg, 2);
	home->still = true;
	home->now = (u64)1 << 40;
	r = &rig->store.release;
	release_look(r);
	if (is_armed(0) || is_armed(1))
		explore_fail("a look starts a timer for nothing");
	nfree = rig->store.backed.nfree;
	free_blocks(2, 1);
	if (is_armed(0) || is_armed(1))
		explore_fail("a block that is freed starts a timer");
	release_look(r);
	if (is_armed(0) || !is_armed(1))
		explore_fail("after a look the timers are %d and %d", is_armed(0), is_armed(1));
	host_work_flush(&r->node[1].worker->work);
	if (rig->store.backed.nfree != nfree)
		explore_fail("%llu blocks are free of %llu",
			     (unsigned long long)rig->store.backed.nfree,
			     (unsigned long long)nfree);
	host_work_flush(&r->disarm);
	must_stop_over_blocks(&r->node[1]);
	/* An object that comes after a block starts it as ever. */
	me->cpu = 0;
	put(3, HOST_ANY_NODE);
	free_blocks(2, 0);
	store_free(&rig->store, 3);
	if (!is_armed(0))
		explore_fail("an object that is freed after blocks starts no timer");
	close_rig();
}

static void must_have_waited(u64 us, const char *what)
{
	struct release_stats st;

	release_stats(&rig->store.release, &st);
	if (st.wait_us != us)
		explore_fail("%s waited %llu us, not %llu", what, (unsigned long long)st.wait_us,
			     (unsigned long long)us);
}

/* Worker 0 runs so much later. */
static void run_after(u64 us)
{
	home->now += us * 1000;
	home_run_work(&rig->store.release.node->worker->work);
}

/* It finds nothing, and the timer stops. */
static void stop_timer(void)
{
	run_after(RELEASE_TIMER_US);
	if (host_a64_read(&rig->store.release.node->armed) & 1)
		explore_fail("the timer does not stop");
}

static void what_is_held_back_tells_how_long_it_waited(void)
{
	const struct rig_config cfg = {
		.cpus = 2, .pages = HOME_PAGES, .slots = 8, .release_limit = PLENTY,
	};
	struct release *r;
	u64 i, odd, even;

	open_with(&cfg, 1);
	home->still = true;
	home->now = (u64)1 << 40;
	r = &rig->store.release;
	for (i = 0; i < 8; i++)
		put(i, HOST_ANY_NODE);
	must_have_waited(0, "nothing");
	store_free(&rig->store, 0);
	run_after(RELEASE_TIMER_US);
	stop_timer();
	must_have_waited(2000, "what started the timer");
	home_run_work(&r->disarm);

	/* The worker is late, and then later than it was the first time. */
	home->now += 1000000000;
	store_free(&rig->store, 1);
	run_after(3000);
	me->cpu = 1;
	store_free(&rig->store, 2);
	run_after(5000);
	must_have_waited(5000, "what came while the timer ran");
	/* Runs that find nothing are no wait. */
	stop_timer();
	must_have_waited(5000, "the most");
	home_run_work(&r->disarm);
	release_reset_peak(r);
	must_have_waited(0, "nothing since then");

	/* It came as the timer stopped, and disarm takes its time. */
	home->now += 1000000000;
	store_free(&rig->store, 3);
	run_after(RELEASE_TIMER_US);
	odd = host_a64_read(&r->node->armed);
	stop_timer();
	even = host_a64_xchg(&r->node->armed, odd);
	store_free(&rig->store, 4);
	host_a64_xchg(&r->node->armed, even);
	home->now += 7000000;
	home_run_work(&r->disarm);
	run_after(RELEASE_TIMER_US);
	stop_timer();
	must_have_waited(9000, "what came as the timer stopped");
	home_run_work(&r->disarm);
	release_reset_peak(r);

	/* Who starts the timer has no CPU to say so until the worker was there. */
	home->now += 1000000000;
	even = host_a64_read(&r->node->armed);
	store_free(&rig->store, 5);
	odd = host_a64_xchg(&r->node->armed, even);
	run_after(4000);
	must_have_waited(0, "what the timer was not started for");
	host_a64_xchg(&r->node->armed, odd);
	stop_timer();
	must_have_waited(4000, "what a late thread started the timer for");
	home_run_work(&r->disarm);
	close_rig();
}

static void a_queue_that_is_never_empty_is_no_endless_wait(void)
{
	unsigned int round;

	open_with(&long_queue, 1);
	home->still = true;
	home->now = (u64)1 << 40;
	queue_buffers(RELEASE_ROUND + RELEASE_BACKLOG);
	run_after(2000);
	run_after(1000);
	if (full())
		explore_fail("%u buffers are left", full());
	stop_timer();
	must_have_waited(3000, "the last of a backlog");
	home_run_work(&rig->store.release.disarm);

	queue_buffers(RELEASE_ROUND + RELEASE_BACKLOG);
	for (round = 0; round < 6; round++) {
		u64 i;

		run_after(2000);
		if (full() != RELEASE_BACKLOG)
			explore_fail("%u buffers are left in round %u", full(), round);
		for (i = 0; i < RELEASE_ROUND * RELEASE_REFS; i++)
			put(i, HOST_ANY_NODE);
		for (i = 0; i < RELEASE_ROUND * RELEASE_REFS; i++)
			store_free(&rig->store, i);
	}
	run_after(2000);
	run_after(2000);
	stop_timer();
	/* Three rounds: from when a sweep began to when the next one was over. */
	must_have_waited(6000, "the longest");
	home_run_work(&rig->store.release.disarm);
	close_rig();
}

static void must_be_at_least(u64 holds, const char *what)
{
	u64 were = home_lock_stat("ebb_release_node")->holds;

	if (were < holds)
		explore_fail("buffers %s in %llu holds of the lock, not %llu", what,
			     (unsigned long long)were, (unsigned long long)holds);
}

static void a_budget_s_buffers_come_and_go_some_at_a_time(void)
{
	const struct rig_config cfg = {
		.cpus = 4, .pages = HOME_PAGES, .slots = 8, .release_limit = 64 << 20, .spare = 32,
	};
	struct release *r;
	u64 limit, with, moved, flush;
	u32 spare, pool, pieces;

	open_with(&cfg, 1);
	r = &rig->store.release;
	spare = r->node->spare;
	pool = r->node->nempty;
	if (pool <= 2 * r->node->batch)
		explore_fail("%u buffers in the pool are few", pool);
	with = release_meta_bytes(r);
	pieces = (pool + r->node->batch - 1) / r->node->batch;
	limit = (u64)cfg.spare * RELEASE_REFS * 1024;
	home_stat_reset();
	release_flush(r);
	flush = home_lock_stat("ebb_release_node")->holds;
	home_stat_reset();
	if (release_set_limit(r, 0))
		explore_fail("the budget cannot shrink");
	moved = with - release_meta_bytes(r);
	if (moved != spare * sizeof(struct release_buf))
		explore_fail("%llu bytes of %u buffers go", (unsigned long long)moved, spare);
	must_be_at_least(pieces + flush, "go");
	home_stat_reset();
	/* As a store with so many slots gets them. */
	r->objects = ~(u64)0;
	if (release_set_limit(r, limit) || release_meta_bytes(r) != with)
		explore_fail("the buffers do not come back");
	must_be_at_least(pieces, "come");
	close_rig();
}

int main(void)
{
	static const struct rig_case cases[] = {
		{ "another worker is called for each part of a backlog",
		  another_worker_is_called_for_each_part_of_a_backlog },
		{ "a worker lets others run and goes on with a backlog",
		  a_worker_lets_others_run_and_goes_on_with_a_backlog },
		{ "a node without CPUs has pages and nothing else",
		  a_node_without_cpus_has_pages_and_nothing_else },
		{ "the timer of a node stops while another's runs on",
		  the_timer_of_a_node_stops_while_another_s_runs_on },
		{ "a look starts the timer for blocks", a_look_starts_the_timer_for_blocks },
		{ "what is held back tells how long it waited",
		  what_is_held_back_tells_how_long_it_waited },
		{ "a queue that is never empty is no endless wait",
		  a_queue_that_is_never_empty_is_no_endless_wait },
		{ "a budget's buffers come and go some at a time",
		  a_budget_s_buffers_come_and_go_some_at_a_time },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	return 0;
}
