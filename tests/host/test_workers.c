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
	return rig->store.release.item[0]->queue.nfull;
}

/* So many full buffers. */
static struct release_node *queue_buffers(u64 n)
{
	struct release_node *node = rig->store.release.node;
	u64 i;

	for (i = 0; i < n * RELEASE_REFS; i++)
		put(i, NUMA_NO_NODE);
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
	if (release_full_in(rig->store.release.item, rig->store.release.items))
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
	if (store_check(&rig->store))
		explore_fail("%s", store_check(&rig->store));
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
		put(i, NUMA_NO_NODE);
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

static void a_budget_s_buffers_stay_until_the_last_store_ends(void)
{
	const struct rig_config cfg = {
		.cpus = 4, .pages = HOME_PAGES, .slots = 8, .release_limit = 64 << 20, .spare = 32,
	};
	const struct release_stock *node;
	struct release *r;
	u32 n;

	open_with(&cfg, 1);
	r = &rig->store.release;
	node = r->budget->node;
	n = node->n;
	if (n != 2 * r->items + cfg.spare || node->nempty != cfg.spare)
		explore_fail("%u buffers, %u of them empty", n, node->nempty);
	if (release_set_limit(r, 0) || node->limit_bufs || node->n != n ||
	    node->nempty != n - r->items)
		explore_fail("the buffers of a limit that shrank go, or may be had");
	/* As a store with so many slots gets them. */
	r->objects = ~(u64)0;
	if (release_set_limit(r, 40 * RELEASE_BUF_BYTES) || node->limit_bufs != 40 ||
	    node->n != 3 * r->items + 40 || node->nempty != 40)
		explore_fail("a limit of 40 buffers has %u of %u", node->nempty, node->n);
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
		{ "a budget's buffers stay until the last store ends",
		  a_budget_s_buffers_stay_until_the_last_store_ends },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	return 0;
}
