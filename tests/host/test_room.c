// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_room.c - how much a write does that finds no room, and a swap-out that looks for a block:
 * what is held back as it comes, and no more of it than it needs.
 *
 * Sequential, but for the last one: what others do meanwhile is done as it rests.
 */
#include "explore.h"
#include "rig.h"

#include <stdio.h>

#define SLOTS (4 * RELEASE_REFS)

static const struct rig_config config = {
	.cpus = 8, .pages = 4 * HOME_PAGES, .slots = SLOTS, .release_limit = PLENTY, .spare = 32,
};

static unsigned int rests, pushed;

static void begin(const struct rig_config *cfg)
{
	rig_begin(cfg);
	rests = pushed = 0;
}

static void push(unsigned int cpu, u64 from, unsigned int n)
{
	rig_push(cpu, from, n);
	pushed += n;
}

static u64 drained(void)
{
	u64 n = 0;
	unsigned int k;

	for (k = 0; k < nr_node_ids; k++)
		n += host_a64_read(&rig->store.release.node[k].deferred);
	return n;
}

static void all_others_push(void)
{
	unsigned int k;

	must_be_at_most(++rests, 256);
	for (k = 1; k < config.cpus; k++)
		push(k, 0, RELEASE_REFS + 64);
}

CASE(it_frees_what_was_held_back_and_two_buffers_a_cpu)
{
	const u64 most = (3 + 2 * config.cpus) * RELEASE_REFS;

	begin(&config);
	push(0, 0, 3 * RELEASE_REFS);
	home_rests = all_others_push;
	release_help_all(&rig->store.release);
	home_rests = NULL;
	must(rests);
	must_be_at_most(drained(), most);
}

static void the_last_one_fills_its_buffer(void)
{
	if (!rests++)
		push(config.cpus - 1, 0, RELEASE_REFS - 88);
}

/* A buffer that is queued meanwhile has what was freed before. */
CASE(it_frees_what_is_queued_meanwhile_if_it_was_held_back)
{
	u64 object, held;

	begin(&config);
	push(0, 0, 1);
	object = release_held(&rig->store.release);
	push(config.cpus - 1, 0, 100);
	pushed = 0;
	home_rests = the_last_one_fills_its_buffer;
	must(release_help_all(&rig->store.release));
	home_rests = NULL;
	held = release_held(&rig->store.release) / object;
	must(rests);
	must_be_at_most(held, pushed);
}

/* CPU 0 finds it, and not before it needs one; a batch that is full goes back by itself. */
CASE(a_block_that_any_cpu_let_go_of_is_found)
{
	struct rig_config cfg = config;
	struct store *s = &rig->store;
	u64 block, i;

	cfg.blocks = SLOTS;
	begin(&cfg);
	for (i = 0; i < SLOTS; i++) {
		must_eq(store_reserve_block(s, &block), 0);
		store_put_backed(s, i, block);
	}
	me->cpu = cfg.cpus - 1;
	store_free(s, 0);
	me->cpu = 0;
	must_eq(s->backed->nfree, 0);
	must_eq(store_reserve_block(s, &block), 0);
	backed_unreserve(s->backed, block);
	for (i = 0; i < BACKED_BATCH; i++)
		store_free(s, 1 + i);
	must_eq(s->backed->nfree, 1 + BACKED_BATCH);
}

/* Each of them is late by the same reader. */
CASE(it_looks_at_readers_and_not_at_late_blocks)
{
	const u64 late = 8 * BACKED_LATE_LOOKS;
	struct backed_batch batch = { .n = 0 };
	struct backed b;
	u64 block, i, holds;

	home_open(1, 8);
	must_eq(backed_init(&b, late * BACKED_READERS), 0);
	backed_hold(&b, 5);
	for (i = 0; i < b.blocks; i++)
		must_eq(backed_reserve(&b, &block), 0);
	hostile_lock_init(&batch.lock.l, "&backed_batch_of(b, k)->lock");
	for (i = 0; i < late; i++)
		backed_let_go(&b, &batch, i * BACKED_READERS + 5);
	backed_collect(&b, &batch);
	holds = home_lock_stat("&b->lock")->holds;
	if (b.nlate != late || backed_reserve(&b, &block) != -EBUSY)
		explore_fail("a block that is read is free");
	holds = home_lock_stat("&b->lock")->holds - holds;
	must_be_at_most(holds, 3);
	backed_drop(&b, 5);
	for (i = 0; i < late; i++)
		must_eq(backed_reserve(&b, &block), 0);
	backed_destroy(&b);
	home_close();
}

/* ---- writes at mem_limit ---- */

/* Objects of n bytes in all slots, of a store that may take no page more. */
static void fill_to_limit(unsigned int cpus, unsigned int slots, size_t n)
{
	static const char bytes[PAGE_SIZE];
	struct rig_config cfg = { .cpus = cpus, .pages = 4 * HOME_PAGES, .slots = slots,
				  .release_limit = cpus * PLENTY, .spare = 32 };
	u64 i;

	begin(&cfg);
	for (i = 0; i < slots; i++)
		must_eq(store_put(&rig->store, i, bytes, n, NUMA_NO_NODE), 0);
	rig->store.pool.limit = pool_pages(&rig->store.pool) << PAGE_SHIFT;
}

static void must_write(bool waits)
{
	static u64 page[PAGE_SIZE / sizeof(u64)];
	int err;

	rig->codec_says = -ENOSPC;
	page[0] = 1;
	err = waits ? store_try_write(&rig->store, 0, page, NUMA_NO_NODE) :
		      store_try_now(&rig->store, 0, page, NUMA_NO_NODE, HOST_MAY_WAIT);
	must_eq(err, 0);
}

/* No page is free before half of the objects are, of which each CPU holds one back. */
CASE(all_that_is_held_back_is_room)
{
	const unsigned int cpus = 256;
	unsigned int waits, i;

	for (waits = 0; waits < 2; waits++) {
		fill_to_limit(cpus, cpus, QUARTER);
		for (i = 0; i < cpus; i++) {
			/* As they are looked at: four of the first 64, four of the next, ... */
			me->cpu = i % 4 + i / 16 * 4 % 64 + i / 4 % 4 * 64;
			store_free(&rig->store, i < cpus / 2 ? 2 * i : 2 * i - cpus + 1);
		}
		me->cpu = 0;
		must_write(waits);
		rig_end();
	}
}

CASE(a_write_frees_no_more_than_it_needs)
{
	const unsigned int pages = 64;
	unsigned int i;

	fill_to_limit(pages, pages, PAGE_SIZE);
	for (i = 0; i < pages; i++) {
		me->cpu = i;
		store_free(&rig->store, i);
	}
	me->cpu = 0;
	must_write(true);
	must(release_held(&rig->store.release) >> PAGE_SHIFT >= pages / 2);
}

/* ---- two blocks, let go of by one CPU or by two, and two who want one ---- */

static u64 found[2];
static unsigned int apart;

static void two_begin(void)
{
	const struct rig_config cfg = { .cpus = 2, .pages = HOME_PAGES, .slots = 2, .blocks = 2,
					.release_limit = PLENTY };
	unsigned int i;
	u64 block;

	begin(&cfg);
	for (i = 0; i < 2; i++) {
		must_eq(store_reserve_block(&rig->store, &block), 0);
		store_put_backed(&rig->store, i, block);
	}
	for (i = 0; i < 2; i++) {
		me->cpu = i * apart;
		store_free(&rig->store, i);
	}
	me->cpu = 0;
}

static void two_act(unsigned int actor)
{
	me->cpu = actor;
	found[actor] = 2;
	must_eq(store_reserve_block(&rig->store, &found[actor]), 0);
}

static void two_end(void)
{
	unsigned int i;

	explore_outcome(found[0] * 4 + found[1]);
	for (i = 0; i < 2; i++)
		if (found[i] < 2)
			backed_unreserve(rig->store.backed, found[i]);
	rig_end();
}

CASE(two_need_the_blocks_that_were_let_go_of)
{
	static const char *const name[] = { "blocks of one CPU", "blocks of two CPUs" };
	struct explore_job job = {
		.actors = 2, .asleep = EXPLORE_ALL,
		.begin = two_begin, .act = two_act, .end = two_end,
	};
	struct explore_result res;

	for (apart = 0; apart < 2; apart++) {
		job.name = name[apart];
		explore(&job, 3, &res);
		printf("# %lu schedules, %u outcomes\n", res.schedules, res.outcomes);
	}
}
