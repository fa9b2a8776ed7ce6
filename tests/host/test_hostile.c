// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_hostile.c - every allocation that an operation makes fails in turn, the source runs dry for
 * a while, the codec breaks its word; the worker runs never, or after each operation.
 *
 * A life is a store from its making to its end with a script in between.  After each operation
 * every invariant of core/check.c must hold and every slot have what it had, or, after a write
 * that succeeded, what was written.  At the end nothing may be left.
 */
#include "explore.h"
#include "rig.h"

#include <limits.h>
#include <stdio.h>

#define OPS 24
#define BATCH 4         /* pages that lists move at once */

struct script {
	const char *name;
	bool pages_in;
	u64 release_limit;
	unsigned int limit_pages;
	struct op op[OPS];
};

static const struct script scripts[] = {
	{
		.name = "pages of every kind",
		.pages_in = true, .release_limit = PLENTY,
		.op = { WRITE(0, HALF), WRITE(1, RAW), FILL(2), FILL_OBJ(3), WRITE(0, RAW), FILL(1),
			WRITE(2, THIRD), WRITE(3, SPAN), FILL_OBJ(0), FREE(2), READ(3), WRITE(2, HALF),
			FREE(0), FREE(1), FREE(2), FREE(3) },
	},
	{
		.name = "the same, freed at once",
		.pages_in = true,
		.op = { WRITE(0, HALF), WRITE(1, RAW), FILL(2), FILL_OBJ(3), WRITE(0, RAW), FILL(1),
			WRITE(2, THIRD), WRITE(3, SPAN), FILL_OBJ(0), FREE(2), READ(3), WRITE(2, HALF) },
	},
	{
		.name = "compaction",
		.release_limit = PLENTY,
		.op = { PUT(0, SPAN), PUT(1, SPAN), PUT(2, SPAN), PUT(3, SPAN), PUT(4, HALF),
			PUT(5, HALF), PUT(6, HALF), PUT(7, HALF), FREE(1), FREE(5), FREE(7), COMPACT,
			PUT(1, SPAN), PUT(5, SMALL), FREE(0), COMPACT, PCP_DRAIN, PUT(0, SPAN) },
	},
	{
		.name = "budgets, flushes and resets",
		.release_limit = PLENTY,
		.op = { PUT(0, HALF), PUT(1, RAW), FREE(0), LIMIT(RELEASE_REFS * 1024 * 2), FREE(1),
			PUT(2, RAW), FLUSH, FREE(2), LIMIT(0), PUT(0, HALF), FREE(0), LIMIT(PLENTY),
			PUT(3, THIRD), RESET, PUT(3, SMALL), DECAY, DECAY, PUT(4, RAW), STATS, RESET },
	},
	{
		.name = "a limit that the freed make room under",
		.release_limit = PLENTY, .limit_pages = 2,
		.op = { PUT(0, RAW), PUT(1, RAW), PUT(2, RAW), FREE(0), PUT(2, RAW), FREE(1), FREE(2),
			PUT(3, RAW), PUT(4, RAW), PUT(5, SMALL), RESET, PUT(5, SMALL) },
	},
};
#define NSCRIPTS (sizeof(scripts) / sizeof(scripts[0]))

static u32 model[HISTORY_SLOTS];
static bool sparse;             /* the next store's slot table */
static u32 reserve;             /* pages, for the next store; with one no write has a right to fail */

static struct rig_config config(const struct script *s)
{
	return (struct rig_config){
		.cpus = 2, .pages = HOME_PAGES, .slots = RELEASE_REFS * 8,
		.mem_limit = (u64)s->limit_pages << HOST_PAGE_SHIFT, .release_limit = s->release_limit,
		.reserve = reserve, .sparse = sparse,
	};
}

static void verify(const struct script *s)
{
	unsigned int i;

	rig_check();
	for (i = 0; i < HISTORY_SLOTS; i++)
		if (rig_value(i, s->pages_in) != model[i])
			explore_fail("%s: slot %u has value %u in place of %u", s->name, i,
				     rig_value(i, s->pages_in), model[i]);
	if (store_count(&rig->store, CNT_FAILED_WRITE) != rig->failed)
		explore_fail("failed writes are not counted");
}

/*
 * One operation, which may fail if anything failed since there were so many failures.  eager: the
 * worker has run when it is over.
 */
static void step(const struct script *s, unsigned int k, u64 failures, bool eager)
{
	const struct op *op = &s->op[k];
	int err = rig_do(op, k + 1);
	bool limited = s->limit_pages && err == -ENOMEM;

	limited |= op->what == OP_LIMIT && home->no_heap;
	if (err && (reserve || home_failures == failures) && !limited)
		explore_fail("%s: operation %u failed without a reason: %d", s->name, k, err);
	if (op->what == OP_FREE)
		model[op->slot] = 0;
	else if (op->what == OP_RESET)
		memset(model, 0, sizeof(model));
	else if (!err && (op->what == OP_PUT || (op->what >= OP_WRITE && op->what <= OP_FILL_OBJ)))
		model[op->slot] = k + 1;
	if ((op->what == OP_FLUSH || op->what == OP_RESET || (op->what == OP_LIMIT && !op->size)) &&
	    release_held(&rig->store.release))
		explore_fail("%s: something is held back after operation %u", s->name, k);
	if (eager)
		host_work_flush(&rig->store.release.node->worker->work);
	/* Sequential: nothing that was said may need more than one order. */
	memset(&rig->history, 0, sizeof(rig->history));
	verify(s);
}

static bool begin(const struct script *s, u64 fail, bool all)
{
	const struct rig_config cfg = config(s);
	int err;

	memset(model, 0, sizeof(model));
	home_open(cfg.cpus, cfg.pages);
	home->fail = fail;
	home->fail_all = all;
	err = rig_open(&cfg);
	if (!err)
		return true;
	if (err != -ENOMEM || !fail)
		explore_fail("%s: a store cannot be made: %d", s->name, err);
	home_close();
	return false;
}

/* With memory again, a write succeeds; then the end. */
static void end(const struct script *s)
{
	const struct op op = s->pages_in ? (struct op)WRITE(0, RAW) : (struct op)PUT(0, RAW);
	int err;

	home->fail = 0;
	home->no_heap = false;
	rig->src.dry = 0;
	rig->codec_fails = false;
	rig->codec_says = 0;
	rig->store.mem_limit = 0;
	err = rig_do(&op, 99);
	if (err)
		explore_fail("%s: no write succeeds with memory again: %d", s->name, err);
	model[0] = 99;
	verify(s);
	rig_close();
	home_close();
}

/* Each allocation of a life in turn, and it alone, or all after it too. */
static void each_allocation(const struct script *s, bool all, bool eager)
{
	u64 n, before;
	unsigned int k;

	for (n = 1;; n++) {
		before = home_failures;
		if (begin(s, n, all)) {
			verify(s);
			for (k = 0; k < OPS && s->op[k].what; k++)
				step(s, k, before, eager);
			end(s);
		}
		if (home_failures == before)
			break;
	}
	if (n < 10)
		explore_fail("%s: only %llu allocations", s->name, (unsigned long long)n);
}

/* The source is dry from operation from on, for n operations. */
static void dry_for_a_while(const struct script *s, unsigned int from, unsigned int n)
{
	unsigned int k;

	begin(s, 0, false);
	for (k = 0; k < OPS && s->op[k].what; k++) {
		rig->src.dry = k >= from && k < from + n;
		step(s, k, home_failures, false);
	}
	end(s);
}

/* Two pages, one of descriptors, one of the directory, one of the slot table. */
#define TAKE_OF_A_WRITE 5

/* Each group of descriptors has used the entries up that it has without a directory of pages. */
static void use_up_few(void)
{
	struct zspage_table *t = &rig->store.pool.zspages;
	unsigned int i;

	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++)
		if (t->group[i])
			t->group[i]->fresh = ZSPAGE_FEW;
}

/*
 * The same beside a reserve that covers n writes, and without any other memory: none of them fails,
 * and it is full again soon.  large: the pool has come to the size where its directory grows.
 */
static void reserve_while_dry(const struct script *s, unsigned int from, unsigned int n, bool large)
{
	unsigned int k;

	reserve = n * TAKE_OF_A_WRITE;
	begin(s, 0, false);
	if (large)
		use_up_few();
	for (k = 0; k < OPS && s->op[k].what; k++) {
		rig->src.dry = home->no_heap = k >= from && k < from + n;
		step(s, k, home_failures, false);
		if (rig->src.dry)
			continue;
		if (pcp_refill(&rig->pcp) || pcp_reserved(&rig->pcp) != reserve)
			explore_fail("%s: the reserve is short after operation %u", s->name, k);
	}
	end(s);
	reserve = 0;
}

/* What a codec must not say, and what it may: -ENOSPC. */
static void codec_that_says(const struct script *s, unsigned int from, int says)
{
	unsigned int k;
	int err;

	begin(s, 0, false);
	for (k = 0; k < from; k++)
		step(s, k, home_failures, false);
	rig->codec_says = says;
	rig->codec_fails = !says;
	err = rig_do(&s->op[k], k + 1);
	home_failures += says != -ENOSPC;
	if (s->op[k].size <= RAW && says == -ENOSPC && err)
		explore_fail("%s: a page that does not compress is refused: %d", s->name, err);
	if (says != -ENOSPC && err != -EIO)
		explore_fail("%s: a codec that says %d made a write return %d", s->name, says, err);
	if (!err)
		model[s->op[k].slot] = k + 1;
	memset(&rig->history, 0, sizeof(rig->history));
	rig->codec_fails = false;
	rig->codec_says = 0;
	verify(s);
	end(s);
}

static void what_does_not_decompress_stays(void)
{
	const struct op write = WRITE(0, HALF);
	static char page[HOST_PAGE_SIZE], zeros[HOST_PAGE_SIZE];

	memset(page, 1, sizeof(page));
	begin(&scripts[0], 0, false);
	rig_do(&write, 1);
	model[0] = 1;
	rig->codec_fails = true;
	home_failures++;
	if (store_read(&rig->store, 0, page) != -EIO)
		explore_fail("a page that does not decompress is read");
	if (memcmp(page, zeros, sizeof(page)))
		explore_fail("a failed read leaves something in the page");
	if (store_count(&rig->store, CNT_FAILED_READ) != 1)
		explore_fail("a failed read is not counted");
	rig->codec_fails = false;
	verify(&scripts[0]);
	end(&scripts[0]);
}

static void any_allocation_may_fail(void)
{
	unsigned int i;

	for (i = 0; i < 2 * NSCRIPTS; i++) {
		sparse = i % 2;
		each_allocation(&scripts[i / 2], false, false);
		each_allocation(&scripts[i / 2], false, true);
	}
	sparse = false;
}

static void all_allocations_may_fail_from_any_one_on(void)
{
	unsigned int i;

	for (i = 0; i < 2 * NSCRIPTS; i++) {
		sparse = i % 2;
		each_allocation(&scripts[i / 2], true, false);
		each_allocation(&scripts[i / 2], true, true);
	}
	sparse = false;
}

static void a_source_may_be_dry_for_a_while(void)
{
	unsigned int i, from, n;

	for (i = 0; i < NSCRIPTS; i++)
		for (from = 0; from < OPS && scripts[i].op[from].what; from++)
			for (n = 1; n < 8; n++)
				dry_for_a_while(&scripts[i], from, n);
}

static void no_write_fails_that_the_reserve_covers(void)
{
	unsigned int i, from, n;

	for (i = 0; i < NSCRIPTS; i++)
		for (from = 0; !scripts[i].limit_pages && from < OPS && scripts[i].op[from].what; from++)
			for (n = 1; n < 8; n++) {
				sparse = n % 2;
				reserve_while_dry(&scripts[i], from, n, false);
				reserve_while_dry(&scripts[i], from, n, true);
			}
	sparse = false;
}

static void a_codec_may_break_its_word(void)
{
	const int says[] = {
		0, -EIO, -EINVAL, INT_MIN + 1, -ENOSPC, (int)HOST_PAGE_SIZE, (int)HOST_PAGE_SIZE + 1, INT_MAX,
	};
	unsigned int i, k, n;

	for (i = 0; i < NSCRIPTS; i++)
		for (k = 0; k < OPS; k++)
			for (n = 0; scripts[i].op[k].what == OP_WRITE && n < sizeof(says) / sizeof(says[0]); n++)
				codec_that_says(&scripts[i], k, says[n]);
}

/* A rig of which every slot holds an object of n bytes. */
static void open_full(const struct rig_config *cfg, size_t n)
{
	static char bytes[HALF];
	u64 i;

	home_open(cfg->cpus, cfg->pages);
	if (rig_open(cfg))
		explore_fail("a store cannot be made");
	for (i = 0; i < cfg->slots; i++)
		if (store_put(&rig->store, i, bytes, n, HOST_ANY_NODE))
			explore_fail("slot %llu cannot be written", (unsigned long long)i);
}

/*
 * Half of the objects of many zspages are freed one by one, so that every zspage is filed higher than
 * it is: whoever comes next must not put them all right in one hold of the lock.
 */
static void no_hold_of_a_class_lock_grows_with_the_pool(void)
{
	const struct rig_config cfg = { .cpus = 1, .pages = HOME_PAGES, .slots = 3 * (HOME_PAGES - 8) };
	static char bytes[QUARTER];
	const u64 most = 8 * POOL_LOOK;         /* five each, and what is done to one */
	u64 i;

	open_full(&cfg, sizeof(bytes));
	for (i = 0; i < cfg.slots; i++)
		if (i % 4 < 2)
			store_free(&rig->store, i);
	home_longest = 0;
	if (store_put(&rig->store, 0, bytes, sizeof(bytes), HOST_ANY_NODE) || home_longest > most)
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

/* ---- a pool whose objects are owned here ---- */

static struct {
	struct host_pages src;
	struct pcp pcp;
	struct pool pool;
	u64 *ref;               /* [OWNED], by key; 0: none */
	bool refuse;            /* lets no object go */
} own;

#define OWNED 16384u

static u64 own_look(void *ctx, u32 key)
{
	(void)ctx;
	return own.refuse || key >= OWNED ? 0 : own.ref[key];
}

static bool own_swing(void *ctx, u32 key, u64 from, u64 to)
{
	(void)ctx;
	if (own.ref[key] != from)
		return false;
	own.ref[key] = to;
	return true;
}

/* Of n zspages from that of object key on, leaves the first objs objects; returns the next key. */
static u32 own_leave(struct pool_class *c, u32 key, unsigned int n, unsigned int objs)
{
	unsigned int i;

	for (i = 0; i < n * c->objs; i++) {
		if (i % c->objs < objs)
			continue;
		pool_free(&own.pool, own.ref[key + i]);
		own.ref[key + i] = 0;
	}
	return key + n * c->objs;
}

/*
 * To find a target for an object takes a walk past all the fuller zspages, on whose pages there is
 * no place.  Each target has one place, so each object asks for a walk.
 */
static void no_hold_of_a_class_lock_walks_for_each_object(void)
{
	const struct pool_owner owner = { .look = own_look, .swing = own_swing };
	const unsigned int fuller = POOL_LOOK - 12;
	struct pool_class *c = NULL;
	unsigned int on1, on2, i;
	u32 keys, at;

	home_open(1, 2048);
	own.src.dry = 0;
	own.ref = host_zalloc(OWNED * sizeof(*own.ref));
	if (pcp_init(&own.pcp, &own.src, BATCH, BATCH, 0) ||
	    pool_init(&own.pool, &own.pcp, CHAIN_MIN, &owner))
		explore_fail("there is no pool");
	for (i = 0; i < own.pool.table.nclasses; i++) {
		c = &own.pool.class[i];
		if (c->pages > 2 && HOST_PAGE_SIZE / c->size > 2 * POOL_MOVES &&
		    HOST_PAGE_SIZE / c->size <= 12 * POOL_MOVES)
			break;
	}
	if (i == own.pool.table.nclasses)
		explore_fail("no class is as the test needs one");
	on1 = (unsigned int)HOST_PAGE_SIZE / c->size;
	on2 = 2 * (unsigned int)HOST_PAGE_SIZE / c->size;
	keys = (fuller + POOL_MOVES + 3) * c->objs;
	for (i = 0; i < keys; i++)
		if (keys > OWNED || pool_alloc(&own.pool, c->size - POOL_HEADER, i, HOST_ANY_NODE,
					       HOST_MAY_WAIT, &own.ref[i]))
			explore_fail("no room for object %u", i);
	at = own_leave(c, 0, fuller, on2);
	at = own_leave(c, at, POOL_MOVES + 2, on1 - 1);
	own_leave(c, at, 1, on1 / 2);
	/* Nothing moves, but the pages at the ends go. */
	own.refuse = true;
	pool_compact(&own.pool);
	if (pool_pages(&own.pool) != 2 * fuller + POOL_MOVES + 3)
		explore_fail("%llu pages", (unsigned long long)pool_pages(&own.pool));
	own.refuse = false;
	home_longest = 0;
	pool_compact(&own.pool);
	/* Of two walks, and of eight moves: an access or more a look. */
	if (home_longest > 16 * POOL_LOOK)
		explore_fail("%llu accesses under a class lock", (unsigned long long)home_longest);
	for (i = 0; i < keys; i++)
		if (own.ref[i])
			pool_free(&own.pool, own.ref[i]);
	pool_destroy(&own.pool);
	pcp_destroy(&own.pcp);
	host_free(own.ref, OWNED * sizeof(*own.ref));
	home_close();
}

/* One of eight CPUs runs when the store is made; the others come later, and share its context. */
static void codec_contexts_are_made_for_the_cpus_that_run(void)
{
	const struct rig_config cfg = { .cpus = 8, .pages = HOME_PAGES, .slots = 8 };
	const struct op write = WRITE(0, HALF), read = READ(0);

	home_open(cfg.cpus, cfg.pages);
	home_only(0);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	if (rig->store.streams->n != 1)
		explore_fail("%u codec contexts for one CPU", rig->store.streams->n);
	home_only(7);
	if (host_cpu() != 7 || rig_do(&write, 1) || rig_do(&read, 0) || rig_value(0, true) != 1)
		explore_fail("a CPU that came later cannot write and read");
	memset(&rig->history, 0, sizeof(rig->history));
	rig_close();
	home_close();
}

/*
 * There is no room at once, so the page is compressed again when there is, and comes to another
 * length each time: as one does that its owner changes meanwhile.
 */
static void a_page_that_changes_while_room_is_made_is_stored_whole(void)
{
	const struct rig_config cfg = {
		.cpus = 1, .pages = HOME_PAGES, .slots = 4, .release_limit = PLENTY,
		.mem_limit = HOST_PAGE_SIZE,
	};
	const struct op other = PUT(1, RAW), gone = FREE(1), write = WRITE(0, THIRD);
	u32 changes;
	u64 ref;

	for (changes = 0; changes <= 8; changes++) {
		home_open(cfg.cpus, cfg.pages);
		if (rig_open(&cfg) || rig_do(&other, 1) || rig_do(&gone, 0))
			explore_fail("there is no store");
		rig->codec_changes = changes;
		if (rig_do(&write, 2) || rig_value(0, true) != 2)
			explore_fail("the page is not what it was after %u changes", changes);
		ref = slot_ref(host_a64_read(store_slot(&rig->store, 0)));
		if (rig->codec_calls != (changes < 3 ? changes + 2 : 4) ||
		    (pool_ref_size(&rig->store.pool, ref) == HOST_PAGE_SIZE) != (changes > 2))
			explore_fail("%u calls of the codec after %u changes", rig->codec_calls, changes);
		rig_check();
		rig_close();
		home_close();
	}
}

/* Numbers 4 apart, as the first threads of the cores of a machine may have. */
static void cpus_that_are_far_apart_have_streams_of_their_own(void)
{
	const struct rig_config cfg = { .cpus = 8, .pages = HOME_PAGES, .slots = 8 };
	const struct op write = WRITE(0, HALF);
	unsigned int cpu;
	u32 *stream;

	home_open(cfg.cpus, cfg.pages);
	for (cpu = 1; cpu < cfg.cpus; cpu++)
		if (cpu != 4)
			home_offline(cpu);
	if (rig_open(&cfg))
		explore_fail("a store cannot be made");
	me->cpu = 0;
	rig_do(&write, 1);
	me->cpu = 4;
	rig_do(&write, 2);
	stream = rig->store.streams->home;
	if (rig->store.streams->n != 2 || !stream[0] || !stream[4] || stream[0] == stream[4])
		explore_fail("CPU 0 has stream %u, CPU 4 %u", stream[0], stream[4]);
	me->cpu = 0;
	memset(&rig->history, 0, sizeof(rig->history));
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
		.cpus = cpus, .pages = HOME_PAGES, .slots = 2 * RELEASE_REFS, .release_limit = cpus * PLENTY,
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
	if (!release_queued(&rig->store.release) || home_in_place())
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
	.cpus = 1, .pages = HOME_PAGES, .slots = 2 * RELEASE_REFS, .release_limit = PLENTY, .spare = 4,
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
				     (unsigned long long)accesses, cpus[i], (unsigned long long)more);
	}
}

/* A buffer is queued, taken, and given back: two holds if others are drained with it. */
static void a_queue_s_lock_is_taken_three_times_a_buffer(void)
{
	const u64 bufs = buffers.slots / RELEASE_REFS;
	u64 i, holds;

	open_full(&buffers, SMALL);
	home_stat_reset();
	for (i = 0; i < buffers.slots; i++)
		store_free(&rig->store, i);
	holds = home_lock_stat("ebb_release")->holds;
	if (holds != bufs)
		explore_fail("%llu holds to queue %llu buffers",
			     (unsigned long long)holds, (unsigned long long)bufs);
	host_work_flush(&rig->store.release.node->worker->work);
	holds = home_lock_stat("ebb_release")->holds;
	if (holds > 3 * bufs + 4 || release_queued(&rig->store.release))
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
			if (store_put(&rig->store, i, bytes, sizeof(bytes), HOST_ANY_NODE) ||
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

static void cpus_that_fill_buffers_meet_at_their_node_once_a_batch(void)
{
	const unsigned int cpus = 4;
	const struct release_node *node;
	unsigned int i;
	u64 holds;

	open_stocks(cpus, 1, 5 * cpus);
	node = rig->store.release.node;
	for (i = 0; i < cpus; i++)
		fill_buffers(i, node->stock);
	holds = home_lock_stat("ebb_release_node")->holds;
	if (holds || home_lock_stat("ebb_release")->holds != node->stock * cpus)
		explore_fail("%llu holds of the node's lock, though all had a stock",
			     (unsigned long long)holds);
	for (i = 0; i < cpus; i++)
		fill_buffers(i, node->batch);
	holds = home_lock_stat("ebb_release_node")->holds;
	/* What was left over when the pool was filled is a smaller batch. */
	if (node->stock < 4 || node->batch < 2 || !holds || holds > cpus + 1)
		explore_fail("%llu holds of the node's lock for %u batches", (unsigned long long)holds, cpus);
	close_stocks();
}

static void what_a_cpu_drew_from_its_node_is_there_for_others(void)
{
	unsigned int all, i;

	open_stocks(2, 1, 4);
	all = rig->store.release.node->stock + rig->store.release.node->nempty;
	for (i = 0; i < 6; i++) {
		fill_buffers(i % 2, all);
		host_work_flush(&rig->store.release.node->worker->work);
		if (release_queued(&rig->store.release))
			explore_fail("a worker does not drain the queues");
	}
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
	if (node[1].queue[1].nfull || node[0].queue[0].nfull != 1)
		explore_fail("another node's buffers are freed first");
	close_stocks();
}

static unsigned int rests;

static void as_a_flush_begins(void)
{
	struct release_node *node = rig->store.release.node;

	if (!rests++)
		host_a64_add(&node->epoch, 1);
	else if (host_a64_read(&node->inflight[0]))
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
		if (store_put(&rig->store, i, bytes, sizeof(bytes), HOST_ANY_NODE) || store_free(&rig->store, i))
			explore_fail("a write fails");
	me->cpu = 0;
}

static void a_flush_ends_however_much_is_freed_meanwhile(void)
{
	struct rig_config cfg = buffers;
	u64 i;

	cfg.cpus = 2;
	open_full(&cfg, SMALL);
	for (i = 0; i < cfg.slots; i++)
		store_free(&rig->store, i);
	/* Something in the ring, too. */
	free_meanwhile();
	rests = 0;
	home_rests = free_meanwhile;
	release_flush(&rig->store.release);
	home_rests = NULL;
	/* One after each item that had something, and each buffer that was queued by then. */
	if (!rests || rests > cfg.slots / RELEASE_REFS + 1 + 2 * cfg.cpus)
		explore_fail("a flush of three buffers rests %u times", rests);
	rig_check();
	rig_close();
	home_close();
}

/* However much is held back, and in however many places. */
static void who_is_short_of_memory_does_a_bounded_part_of_the_work(void)
{
	struct rig_config cfg = buffers;
	u64 i, freed, all = 0;

	/* Two buffers are queued, the rest is in more items than one call looks at. */
	cfg.cpus = 2 * RELEASE_LOOKS;
	cfg.slots = 4 * RELEASE_REFS;
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
	if (node[0].queue[0].queued || node[0].queue[1].queued || !node[1].queue[1].queued ||
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

/* Accesses of the figure that the kernel asks for, of a call that it makes then, and of one in vain. */
static void shrinks(unsigned int cpus, u64 *count, u64 *call, u64 *idle)
{
	static u64 word[8 * RELEASE_REFS];
	struct rig_config cfg = buffers;
	u64 i, before, most = 0, n;

	cfg.cpus = cpus;
	cfg.pages = 4 * HOME_PAGES;
	cfg.slots = 8 * RELEASE_REFS;
	/* A full buffer is four pages; a CPU's grain is one. */
	cfg.release_limit = cpus * 8 * HOST_PAGE_SIZE;
	/* As many to a page whatever its size, so that there are pages to give back. */
	open_full(&cfg, HOST_PAGE_SIZE / 128 - POOL_HEADER);
	for (i = 0; i < cfg.slots; i++)
		if (i % 8)
			store_free(&rig->store, i);
	store_shrink_look(&rig->store);
	before = explore_accesses;
	if (!store_shrinkable(&rig->store))
		explore_fail("nothing to shrink on %u CPUs", cpus);
	*count = explore_accesses - before;
	*call = 0;
	moved(word);
	for (i = 0; i < 32; i++) {
		before = explore_accesses;
		store_shrink(&rig->store);
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
				     (unsigned long long)count, many[i], (unsigned long long)count1);
		/* SHRINK_BUFS buffers freed, SHRINK_STEPS steps and SHRINK_LISTS lists; or a look at them. */
		if (call > 6000 || idle > 3 * RELEASE_LOOKS + 4 * SHRINK_LISTS)
			explore_fail("a call of the shrinker takes %llu accesses with %u CPUs, in vain %llu",
				     (unsigned long long)call, many[i], (unsigned long long)idle);
	}
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
	store_shrink_look(&rig->store);
	store_shrink_rest(&rig->store);
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
		{ "any allocation may fail", any_allocation_may_fail },
		{ "all allocations may fail from any one on", all_allocations_may_fail_from_any_one_on },
		{ "a source may be dry for a while", a_source_may_be_dry_for_a_while },
		{ "no write fails that the reserve covers", no_write_fails_that_the_reserve_covers },
		{ "a codec may break its word", a_codec_may_break_its_word },
		{ "what does not decompress is an error and stays", what_does_not_decompress_stays },
		{ "codec contexts are made for the CPUs that run", codec_contexts_are_made_for_the_cpus_that_run },
		{ "a page that changes while room is made is stored whole",
		  a_page_that_changes_while_room_is_made_is_stored_whole },
		{ "CPUs that are far apart have streams of their own",
		  cpus_that_are_far_apart_have_streams_of_their_own },
		{ "a call of the shrinker looks at no more CPUs than it may",
		  a_call_of_the_shrinker_looks_at_no_more_cpus_than_it_may },
		{ "who is interrupted stops compacting", who_is_interrupted_stops_compacting },
		{ "a free looks at no other CPU", a_free_looks_at_no_other_cpu },
		{ "a flush looks at each item once", a_flush_looks_at_each_item_once },
		{ "a queue's lock is taken three times a buffer", a_queue_s_lock_is_taken_three_times_a_buffer },
		{ "CPUs that fill buffers meet at their node once a batch",
		  cpus_that_fill_buffers_meet_at_their_node_once_a_batch },
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
		{ "no hold of a class lock walks for each object", no_hold_of_a_class_lock_walks_for_each_object },
	};

	rig_run(cases, sizeof(cases) / sizeof(cases[0]));
	printf("# failures injected: %llu\n", (unsigned long long)home_failures);
	return 0;
}
