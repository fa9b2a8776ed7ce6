// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_release.c - the release stage over a pool: budget, spill, timer, flush, accounting.
 *
 * Between hold_workers() and let_workers() nothing is drained, so that what is held back stays
 * until the test lets it go.
 */
#include "support.h"
#include "stay.h"
#include "store_calls.h"
#include "store/check.h"

#include <pthread.h>
#include <unistd.h>

#define OBJECTS 20000

struct rig {
	bool is_open;
	struct source source;
	struct pool pool;
	struct host_percpu cpus;
	struct release release;
	u64 live;                       /* objects that were not pushed */
	u64 pushed;
};

static struct rig rig;

static u64 look(void *ctx, u32 key)
{
	return 0;
}

static bool swing(void *ctx, u32 key, u64 from, u64 to)
{
	return false;
}

static struct rig *rig_open(u64 limit)
{
	const struct pool_owner owner = { .look = look, .swing = swing };

	memset(&rig, 0, sizeof(rig));
	source_open(&rig.source);
	must_eq(pool_init(&rig.pool, &rig.source.pages, 8, &owner), 0);
	must_eq(host_percpu_init(&rig.cpus, sizeof(struct release_cpu)), 0);
	must_eq(release_init(&rig.release, &rig.pool, &rig.cpus, limit, OBJECTS, NULL), 0);
	rig.is_open = true;
	return &rig;
}

static void rig_close(struct rig *r)
{
	release_destroy(&r->release);
	must_eq(pool_pages(&r->pool), 0);
	must_hold(pool_check(&r->pool, NULL));
	host_percpu_destroy(&r->cpus);
	pool_destroy(&r->pool);
	source_close(&r->source);
	r->is_open = false;
}

void after_each(void)
{
	if (rig.is_open)
		rig_close(&rig);
}

static u64 make(struct rig *r, size_t size)
{
	u64 ref;

	must_eq(pool_make(&r->pool, size, NULL, 0, ANYHOW, &ref), 0);
	return ref;
}

/* As store.c does; returns the bytes that its class takes. */
static u64 push(struct rig *r, u64 ref)
{
	struct release_todo todo = { 0 };
	u32 bytes = pool_ref_room(&r->pool, ref);
	struct release_cpu *rc = host_percpu_lock(&r->cpus);

	release_push(&r->release, rc, ref, bytes, &todo);
	host_percpu_unlock(&r->cpus, rc);
	release_finish(&todo);
	r->pushed++;
	return bytes;
}

static u64 freed(struct rig *r)
{
	return stats_of(&r->release).deferred + stats_of(&r->release).in_place;
}

/* The budget's buffers and one a CPU, of which each may be more than full by an object. */
static u64 bound(struct rig *r, u64 limit)
{
	u64 share = limit / (2 * nr_cpu_ids), bufs = limit / RELEASE_BUF_BYTES;

	share = (share < RELEASE_BUF_BYTES ? share : RELEASE_BUF_BYTES) + PAGE_SIZE;
	return (bufs + r->release.items) * share;
}

CASE(what_is_held_back_is_the_sum_of_the_class_sizes)
{
	struct rig *r = rig_open(64 << 20);
	struct rng rng = { use_seed(1) };
	u64 sum = 0, pages;

	hold_workers(&r->release);
	for (unsigned int i = 0; i < 3000; i++) {
		u64 ref = make(r, 1 + rng_below(&rng, PAGE_SIZE));

		must_be_at_most(pool_ref_size(&r->pool, ref), pool_ref_room(&r->pool, ref));
		sum += push(r, ref);
		if (freed(r))
			break;          /* the budget is spent: large pages */
		must_eq(release_held(&r->release), sum);
	}
	pages = pool_pages(&r->pool);
	must(pages > 0);
	must(release_peak(&r->release) >= release_held(&r->release));
	let_workers(&r->release);
	release_flush(&r->release);
	must_eq(release_held(&r->release), 0);
	must_eq(pool_pages(&r->pool), 0);
	must_eq(freed(r), r->pushed);
}

CASE(past_the_budget_the_caller_frees_in_place)
{
	static const u64 limit[] = { 1, 100, 4096, 100000, 1 << 20, 3 << 20 };
	static u64 refs[OBJECTS];

	for (size_t k = 0; k < ARRAY_LEN(limit); k++) {
		struct rig *r = rig_open(limit[k]);
		struct rng rng = { use_seed(k) };
		u64 bytes = 0, i, n = 0;

		/* Four budgets' worth. */
		while (n < OBJECTS && (n < 200 || bytes < 4 * limit[k])) {
			refs[n] = make(r, 1 + rng_below(&rng, PAGE_SIZE));
			bytes += pool_ref_room(&r->pool, refs[n++]);
		}
		hold_workers(&r->release);
		for (i = 0; i < n; i++) {
			push(r, refs[i]);
			must_be_at_most(release_held(&r->release), bound(r, limit[k]));
		}
		must(stats_of(&r->release).in_place > 0);
		must_eq(stats_of(&r->release).deferred, 0);
		must_be_at_most(release_peak(&r->release), bound(r, limit[k]));
		let_workers(&r->release);
		release_flush(&r->release);
		must_eq(freed(r), n);
		must_eq(pool_pages(&r->pool), 0);
		rig_close(r);
	}
}

CASE(one_call_frees_a_bounded_number_in_place)
{
	struct rig *r = rig_open(200000);
	u64 before;

	hold_workers(&r->release);
	for (unsigned int i = 0; i < 5000; i++) {
		u64 ref = make(r, 100);

		before = stats_of(&r->release).in_place;
		push(r, ref);
		must_be_at_most(stats_of(&r->release).in_place - before, RELEASE_SPILL);
	}
	must(stats_of(&r->release).in_place > 0);
	let_workers(&r->release);
}

CASE(the_timer_leaves_nothing_held_back)
{
	struct rig *r = rig_open(64 << 20);

	for (unsigned int round = 0; round < 5; round++) {
		for (unsigned int i = 0; i < 10; i++)
			push(r, make(r, 1000));
		/* Nobody flushes. */
		must_become(release_held(&r->release) == 0 && pool_pages(&r->pool) == 0);
	}
	must_become(stats_of(&r->release).deferred == r->pushed);
}

CASE(full_buffers_wake_the_worker)
{
	struct rig *r = rig_open((u64)1 << 40);
	const u64 most = release_meta_bytes(&r->release) / sizeof(struct release_buf);

	hold_workers(&r->release);
	push(r, make(r, 40));
	usleep(10 * RELEASE_TIMER_US);  /* its timer has run out, and it waits to be let go */
	for (u64 i = 1; i < most * RELEASE_REFS; i++)
		push(r, make(r, 40));
	must_eq(READ_ONCE(r->release.node->worker->work.wake), 0);
	let_workers(&r->release);
	must_become(freed(r) == r->pushed);
	must(stats_of(&r->release).deferred > 0);
}

CASE(half_of_the_budget_wakes_the_worker)
{
	struct rig *r = rig_open(33 * RELEASE_BUF_BYTES);
	struct release_node *node = r->release.node;

	hold_workers(&r->release);
	while (!(host_a64_read(&node->kicked) & 1) && !freed(r))
		push(r, make(r, 100));
	must_eq(freed(r), 0);
	/* The pockets are counted, too. */
	must(release_full_in(r->release.item, r->release.items) >= node->limit_bufs / 4);
	must_be_at_most(release_full_in(r->release.item, r->release.items),
			node->limit_bufs / 2 + node->cpu_bufs);
	let_workers(&r->release);
}

CASE(a_flush_frees_all_that_was_pushed_before_it)
{
	struct rig *r = rig_open(64 << 20);

	for (unsigned int n = 1; n < 4 * RELEASE_REFS; n = 3 * n + 1) {
		for (unsigned int i = 0; i < n; i++)
			push(r, make(r, 50));
		release_flush(&r->release);
		must_eq(release_held(&r->release), 0);
		must_eq(pool_pages(&r->pool), 0);
		must_eq(freed(r), r->pushed);
	}
	release_flush(&r->release);     /* of nothing */
	must_eq(release_held(&r->release), 0);
}

CASE(a_cpu_s_first_buffers_are_no_backlog)
{
	struct rig *r = rig_open(132 * RELEASE_BUF_BYTES);
	struct release_node *node = r->release.node;

	hold_workers(&r->release);
	while (!release_full_in(r->release.item, r->release.items))
		push(r, make(r, 100));
	must(node->pocket > 1 && node->cpu_bufs > node->nitems);
	must_eq(node->out, node->cpu_bufs);
	must_eq(release_backlog(&r->release), 0);
	while (node->out == node->cpu_bufs)
		push(r, make(r, 100));
	must_eq(node->out, node->cpu_bufs + node->pocket);
	must_eq(release_backlog(&r->release), 0);
	let_workers(&r->release);
	/* With nothing held back pockets have what they had. */
	must_become(READ_ONCE(node->out) == node->cpu_bufs);
	must_eq(READ_ONCE(node->item[0]->queue.nempty), node->cpu_bufs / node->nitems - 1);
}

CASE(a_smaller_budget_flushes_and_a_larger_one_does_not)
{
	/* Of less than two buffers a CPU one CPU alone does not get all. */
	u64 more = 2 * nr_cpu_ids * RELEASE_BUF_BYTES;
	struct rig *r = rig_open(more / 2);

	for (unsigned int i = 0; i < 100; i++)
		push(r, make(r, 1000));
	release_set_limit(&r->release, 1000);
	must_eq(release_held(&r->release), 0);
	must_eq(pool_pages(&r->pool), 0);
	release_set_limit(&r->release, more);
	must_eq(r->release.limit, more);

	/* The new budget counts from the next push on. */
	hold_workers(&r->release);
	while (release_held(&r->release) < 1000000 && r->pushed < OBJECTS)
		push(r, make(r, 1000));
	must(release_held(&r->release) >= 1000000);
	must_eq(stats_of(&r->release).in_place, 0);
	let_workers(&r->release);
}

CASE(the_peak_restarts_from_what_is_held)
{
	struct rig *r = rig_open(64 << 20);
	u64 sum = 0, more;

	hold_workers(&r->release);
	for (unsigned int i = 0; i < 200; i++)
		sum += push(r, make(r, 2000));
	must_eq(release_peak(&r->release), sum);
	let_workers(&r->release);
	release_flush(&r->release);
	must_eq(release_held(&r->release), 0);
	must_eq(release_peak(&r->release), sum);
	release_reset_peak(&r->release);
	must_eq(release_peak(&r->release), 0);
	hold_workers(&r->release);
	more = push(r, make(r, 2000));
	must_eq(release_peak(&r->release), more);
	let_workers(&r->release);
}

CASE(buffers_go_with_the_budget)
{
	static const u64 limit[] = { 0, 1 << 20, 5 << 20, 64 << 20, (u64)1 << 60 };
	struct rig *r = rig_open(0);
	const u64 least = release_meta_bytes(&r->release);
	u64 last = least;

	must(least >= r->release.items * sizeof(struct release_buf));
	must_be_at_most(least, 4 * r->release.items * sizeof(struct release_buf));
	for (size_t i = 0; i < ARRAY_LEN(limit); i++) {
		must_eq(release_set_limit(&r->release, limit[i]), 0);
		must(release_meta_bytes(&r->release) >= last);
		last = release_meta_bytes(&r->release);
		/*
		 * A page for each buffer of the budget, or for as many as all objects fill as raw
		 * pages, and a quarter more in pockets.
		 */
		must_be_at_most(last, least + limit[i] / RELEASE_BUF_BYTES * 5 / 4 *
					      sizeof(struct release_buf));
		must_be_at_most(last, least + OBJECTS / 127 * 5 / 4 * sizeof(struct release_buf));
	}
	must(last > least);
	/* Used and in use, it shrinks all the same. */
	for (unsigned int i = 0; i < 3 * RELEASE_REFS; i++)
		push(r, make(r, 40));
	must_eq(release_set_limit(&r->release, 1), 0);
	must_eq(release_held(&r->release), 0);
	must_eq(release_meta_bytes(&r->release), least);
	push(r, make(r, 40));
}

CASE(the_end_frees_what_is_held_back)
{
	struct rig *r = rig_open(64 << 20);

	for (unsigned int i = 0; i < 2 * RELEASE_REFS + 7; i++)
		push(r, make(r, 700));
}

CASE(random_pushes_stay_within_any_budget_on_any_number_of_cpus)
{
	static const u64 limit[] = { 1, 3000, 70000, 1 << 20, 64 << 20 };
	static const unsigned int cpus[] = { 1, 2, 8 };

	for (size_t c = 0; c < ARRAY_LEN(cpus); c++) {
		host_user_set_nr_cpus(cpus[c]);
		for (size_t k = 0; k < ARRAY_LEN(limit); k++) {
			struct rng rng = { use_seed(100 * c + k) };
			unsigned long steps = scaled(4000);
			struct rig *r = rig_open(limit[k]);
			u64 most = 0;

			for (unsigned long i = 0; i < steps; i++) {
				push(r, make(r, 1 + rng_below(&rng, PAGE_SIZE)));
				if (!rng_below(&rng, 1000))
					release_flush(&r->release);
			}
			most = release_peak(&r->release);
			must_be_at_most(most, bound(r, limit[k]));
			release_flush(&r->release);
			must_eq(freed(r), r->pushed);
			must_eq(pool_pages(&r->pool), 0);
			rig_close(r);
		}
	}
	host_user_set_nr_cpus(0);
}

CASE(who_is_short_of_memory_waits_for_no_flush)
{
	struct rig *r = rig_open(64 << 20);
	u64 freed, all = 0;

	hold_workers(&r->release);
	for (unsigned int i = 0; i < 5 * RELEASE_REFS; i++)
		push(r, make(r, 100));
	/* As if a flush had lost its CPU. */
	mutex_lock(&r->release.flushing);
	for (unsigned int i = 0; i < 20; i++) {
		freed = release_help(&r->release, numa_mem_id(), 2);
		must_be_at_most(freed, 2 * RELEASE_REFS);
		all += freed;
	}
	mutex_unlock(&r->release.flushing);
	must_eq(all, r->pushed);
	must_eq(release_held(&r->release), 0);
	let_workers(&r->release);
}

CASE(help_with_all_leaves_nothing_but_what_is_in_hands)
{
	struct rig *r = rig_open(64 << 20);

	hold_workers(&r->release);
	for (unsigned int i = 0; i < OBJECTS; i++)
		push(r, make(r, 100));
	must(release_full_in(r->release.item, r->release.items) > 0);
	/* As if a flush had lost its CPU before it took anything. */
	mutex_lock(&r->release.flushing);
	must(release_help_all(&r->release));
	mutex_unlock(&r->release.flushing);
	must_eq(release_held(&r->release), 0);
	must_eq(freed(r), r->pushed);
	/* Somebody is counted, by either parity of the epoch. */
	for (unsigned int i = 0; i < 2; i++) {
		host_a64 *count = &r->release.node[nr_node_ids - 1].inflight[i];

		push(r, make(r, 100));
		host_a64_add(count, 1);
		must(!release_help_all(&r->release));
		host_a64_add(count, ~(u64)0);
		must_eq(release_held(&r->release), 0);
		must(release_help_all(&r->release));
	}
	let_workers(&r->release);
}

static void *help_once(void *done)
{
	release_help(&rig.release, numa_mem_id(), 1);
	__atomic_store_n((bool *)done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* The first is kept at the only item that has something; the second does not come to it. */
CASE(who_are_short_of_memory_look_at_different_items)
{
	struct release_todo todo = { 0 };
	bool done[2] = { false, false };
	struct pool_class *class;
	u64 until = ktime_get_ns() + 10000000000ull, ref;
	pthread_t thread[2];
	struct rig *r;

	host_user_set_nr_cpus(2 * RELEASE_LOOKS);
	r = rig_open(64 << 20);
	must(r->release.items >= 2 * RELEASE_LOOKS);
	hold_workers(&r->release);
	ref = make(r, 100);
	class = ref_class(&r->pool, ref);
	release_push(&r->release, r->release.item[0], ref, pool_ref_room(&r->pool, ref), &todo);
	r->pushed++;

	/* It is the only one of its zspage, so who frees it needs the lock of its class. */
	spin_lock(&class->lock);
	must_eq(pthread_create(&thread[0], NULL, help_once, &done[0]), 0);
	while (!READ_ONCE(class->lock.waiters) && ktime_get_ns() < until)
		;
	must_eq(pthread_create(&thread[1], NULL, help_once, &done[1]), 0);
	while (!__atomic_load_n(&done[1], __ATOMIC_ACQUIRE) && ktime_get_ns() < until)
		;
	spin_unlock(&class->lock);
	must(ktime_get_ns() < until);
	must_eq(pthread_join(thread[0], NULL), 0);
	must_eq(pthread_join(thread[1], NULL), 0);
	must_eq(freed(r), 1);
	let_workers(&r->release);
	rig_close(r);
	host_user_set_nr_cpus(0);
}

static u64 full_of(struct release *store, unsigned int n)
{
	u64 full = 0;

	while (n--)
		full += release_full_in(store[n].item, store[n].items);
	return full;
}

static void push_to(struct rig *r, struct release *to, unsigned int n)
{
	while (n--) {
		u64 ref = make(r, 1000);
		struct release_todo todo = { 0 };
		struct release_cpu *rc = host_percpu_lock(to->cpus);

		release_push(to, rc, ref, pool_ref_room(&r->pool, ref), &todo);
		host_percpu_unlock(to->cpus, rc);
		release_finish(&todo);
	}
}

CASE(stores_that_share_a_budget_hold_back_no_more_than_it)
{
	static const u64 limit = 8 * RELEASE_BUF_BYTES;
	struct release_budget budget;
	struct rig *r = rig_open(64 << 20);
	enum { STORES = 4 };
	struct release store[STORES];
	struct host_percpu cpus[STORES];
	/* Another CPU has a buffer of its own, and may have none left to draw. */
	cpu_set_t all = stay_on_this_cpu();
	unsigned int k;

	must_eq(release_budget_init(&budget, 2 * limit), 0);
	for (k = 0; k < STORES; k++) {
		must_eq(host_percpu_init(&cpus[k], sizeof(struct release_cpu)), 0);
		must_eq(release_init(&store[k], &r->pool, &cpus[k], limit, OBJECTS, &budget), 0);
		hold_workers(&store[k]);
		/* As many as the stores may want, or the budget has. */
		must_eq(budget.node->limit_bufs, k ? 16 : 8);
		must_eq(budget.node->n, budget.node->cpu_bufs + budget.node->limit_bufs);
	}
	for (unsigned int i = 0; i < 80; i++) {
		push_to(r, &store[i % STORES], 250);
		must_be_at_most(full_of(store, STORES), 16);
		must_be_at_most(budget.node->lent, 16);
	}
	for (k = 0; k < STORES; k++)
		must(stats_of(&store[k]).in_place > 0);
	must_eq(full_of(store, STORES), 16);
	/* A limit that shrinks lets others have what it takes no more. */
	let_workers(&store[0]);
	must_eq(release_set_limit(&store[0], 0), 0);
	must_eq(store[0].node->out, store[0].node->cpu_bufs);
	must_be_at_most(budget.node->lent, 15);
	push_to(r, &store[1], 4000);
	must_eq(budget.node->lent, 16);
	/* One that comes later has buffers that another had, and flushed often. */
	for (k = 0; k < store[0].items; k++)
		store[0].item[k]->buf->era = 100;
	release_destroy(&store[0]);
	memset(&store[0], 0, sizeof(store[0]));
	host_percpu_destroy(&cpus[0]);
	must_eq(host_percpu_init(&cpus[0], sizeof(struct release_cpu)), 0);
	must_eq(release_init(&store[0], &r->pool, &cpus[0], limit, OBJECTS, &budget), 0);
	for (k = 1; k < STORES; k++) {
		let_workers(&store[k]);
		release_flush(&store[k]);
	}
	hold_workers(&store[0]);
	push_to(r, &store[0], 2 * RELEASE_REFS + 100);
	must(release_full_in(store[0].item, store[0].items) > 0);
	release_flush(&store[0]);
	must_eq(release_held(&store[0]), 0);
	/* Nor does it get more than its own limit, whatever the others leave. */
	push_to(r, &store[0], 10 * RELEASE_REFS);
	must_be_at_most(release_full_in(store[0].item, store[0].items), 8);
	must(stats_of(&store[0]).in_place > 0);
	let_workers(&store[0]);
	/* Whose own limit is larger raises it, and one who leaves takes it not along. */
	must_eq(release_set_limit(&store[0], 4 * limit), 0);
	must_eq(budget.node->limit_bufs, 32);
	for (k = 0; k < STORES; k++) {
		release_destroy(&store[k]);
		host_percpu_destroy(&cpus[k]);
	}
	must_eq(budget.node->n + budget.node->lent + budget.node->limit_bufs + budget.node->sum, 0);
	must(!budget.node->areas);
	release_budget_destroy(&budget);
	rig_close(r);
	must_eq(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* The first store comes while two others have all that they may; was: it was there before. */
static void join_a_full_budget(bool was)
{
	struct release_budget budget;
	struct rig *r = rig_open(1);
	struct release store[3];
	struct host_percpu cpus[3];
	const unsigned int items = r->release.items;
	const u64 limit = 16 * items * RELEASE_BUF_BYTES;
	unsigned int k, i;

	must_eq(release_budget_init(&budget, limit), 0);
	for (k = !was; k < 3; k++) {
		must_eq(host_percpu_init(&cpus[k], sizeof(struct release_cpu)), 0);
		must_eq(release_init(&store[k], &r->pool, &cpus[k], limit, ~0u, &budget), 0);
		hold_workers(&store[k]);
	}
	/* Its pockets are empty; the others fill the budget. */
	for (i = 0; was && i < items; i++) {
		struct release_queue *q = &store[0].item[i]->queue;

		release_budget_give(store[0].item[i]->node, q->empty, q->nempty);
		q->nempty = 0;
	}
	for (i = 0; i < 2 * 16 * items + 200; i++) {
		push_to(r, &store[1 + i % 2], RELEASE_REFS);
		must_be_at_most(budget.node->lent, budget.node->limit_bufs);
	}
	must_eq(budget.node->lent, budget.node->limit_bufs);
	if (was) {
		let_workers(&store[0]);
		release_destroy(&store[0]);
		host_percpu_destroy(&cpus[0]);
	}
	/* A limit that went down is another way to that: more is out than is to be had. */
	must_eq(release_budget_set(&store[1], 0), 0);
	must(budget.node->lent > budget.node->limit_bufs);
	must_eq(host_percpu_init(&cpus[0], sizeof(struct release_cpu)), 0);
	must_eq(release_init(&store[0], &r->pool, &cpus[0], limit, ~0u, &budget), 0);
	for (i = 0; i < items; i++)
		must(store[0].item[i]->buf != NULL);
	for (k = 0; k < 3; k++) {
		if (k)
			let_workers(&store[k]);
		release_destroy(&store[k]);
		host_percpu_destroy(&cpus[k]);
	}
	release_budget_destroy(&budget);
	rig_close(r);
}

/* Nobody has what is another's own, so who comes finds buffers for its rings. */
CASE(a_store_joins_while_others_have_all_that_they_may)
{
	join_a_full_budget(true);
	join_a_full_budget(false);
}
