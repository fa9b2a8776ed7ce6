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

static void put(u64 i, unsigned int node)
{
	static const char bytes[SMALL];

	must_eq(store_put(&rig->store, i, bytes, sizeof(bytes), node), 0);
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
	must_eq(full(), n);
	return node;
}

static const struct rig_config long_queue = {
	.cpus = CPUS, .pages = 600, .slots = (RELEASE_ROUND + RELEASE_BACKLOG + 1) * RELEASE_REFS,
	.release_limit = 64 << 20, .spare = RELEASE_ROUND + 2 * RELEASE_BACKLOG,
};

CASE(another_worker_is_called_for_each_part_of_a_backlog)
{
	u32 n, i, called;

	for (n = 0; n < 3 * RELEASE_BACKLOG; n += RELEASE_BACKLOG - 1) {
		struct release_node *node;

		rig_begin(&long_queue);
		node = queue_buffers(n);
		home_run_work(&node->worker->work);
		for (i = 1, called = 0; i < node->nworkers; i++)
			called += node->worker[i].work.queued;
		must_eq(node->nworkers, CPUS / 4);
		must_eq(called, n / RELEASE_BACKLOG);
		rig_end();
	}
}

CASE(a_worker_lets_others_run_and_goes_on_with_a_backlog)
{
	struct release_node *node;
	struct host_work *second;

	rig_begin(&long_queue);
	node = queue_buffers(RELEASE_ROUND + RELEASE_BACKLOG);
	second = &node->worker[1].work;
	home_run_work(second);
	must_eq(full(), RELEASE_BACKLOG);
	must(second->queued);
	/* Less than a round is the end of it. */
	home_run_work(second);
	if (full() || second->queued)
		explore_fail("a worker goes on with %u buffers", full());
	rig_end();

	rig_begin(&long_queue);
	node = queue_buffers(RELEASE_ROUND + RELEASE_BACKLOG);
	host_work_flush(&node->worker->work);
	must(!release_full_in(rig->store.release.item, rig->store.release.items));
}

/* Memory alone is on node 1. */
CASE(a_node_without_cpus_has_pages_and_nothing_else)
{
	struct rig_config cfg = {
		.cpus = 1, .pages = HOME_PAGES, .slots = 8 * RELEASE_REFS,
		.release_limit = 64 << 20,
		.reserve = 2,
	};
	u64 bufs, i;

	rig_begin(&cfg);
	bufs = release_meta_bytes(&rig->store.release);
	rig_end();

	cfg.nodes = 2;
	rig_begin(&cfg);
	must_eq(release_meta_bytes(&rig->store.release), bufs);
	for (i = 0; i < 4; i++)
		put(i, (unsigned int)i % 2);
	rig_check();
	for (i = 0; i < 4; i++)
		store_free(&rig->store, i);
	release_help(&rig->store.release, 1, 1);
	must_eq(release_held(&rig->store.release), 0);
	must_eq(release_set_limit(&rig->store.release, 2 * PLENTY), 0);
	must_eq(release_set_limit(&rig->store.release, 0), 0);
	must_eq(release_set_limit(&rig->store.release, cfg.release_limit), 0);
	must_eq(release_meta_bytes(&rig->store.release), bufs);
}

CASE(the_timer_of_a_node_stops_while_another_s_runs_on)
{
	const struct rig_config cfg = {
		.cpus = 2, .nodes = 2, .pages = HOME_PAGES, .slots = 4, .release_limit = PLENTY,
	};
	struct release_node *node;
	u64 i;

	rig_begin(&cfg);
	node = rig->store.release.node;
	for (i = 0; i < 4; i++)
		put(i, NUMA_NO_NODE);
	for (i = 0; i < 2; i++) {
		me->cpu = (u32)i;
		store_free(&rig->store, i);
	}
	host_work_flush(&node[0].worker->work);
	host_work_flush(&rig->store.release.disarm);
	must(!(host_a64_read(&node[0].armed) & 1));
	must(host_a64_read(&node[1].armed) & 1);
	/* Who pushes next on the first node starts it again. */
	me->cpu = 0;
	store_free(&rig->store, 2);
	if (!(host_a64_read(&node[0].armed) & 1) || !node[0].worker->work.queued)
		explore_fail("a free does not start the timer");
}

CASE(a_budget_s_buffers_stay_until_the_last_store_ends)
{
	const struct rig_config cfg = {
		.cpus = 4, .pages = HOME_PAGES, .slots = 8, .release_limit = 64 << 20, .spare = 32,
	};
	const struct release_stock *node;
	struct release *r;
	u32 n;

	rig_begin(&cfg);
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
}
