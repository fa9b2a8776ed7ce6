// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_hostile.c - every allocation that an operation makes fails in turn, the source runs dry for
 * a while, the codec breaks its word; the worker runs never, or after each operation.
 *
 * A life is a store from its making to its end with a script in between.  After each operation
 * every invariant of core/store/check.c must hold and every slot have what it had, or, after a
 * write that succeeded, what was written.  At the end nothing may be left.
 */
#include "explore.h"
#include "rig.h"

#include <limits.h>
#include <stdio.h>

#define OPS 24

struct script {
	const char *name;
	bool pages_in, recompress;
	u64 release_limit;
	unsigned int limit_pages;
	struct op op[OPS];
};

static const struct script scripts[] = {
	{
		.name = "pages of every kind",
		.pages_in = true, .release_limit = PLENTY,
		.op = { WRITE(0, HALF), WRITE(1, RAW), FILL(2), FILL_OBJ(3), WRITE(0, RAW), FILL(1),
			WRITE(2, THIRD), WRITE(3, SPAN), FILL_OBJ(0), FREE(2), READ(3),
			WRITE(2, HALF),
			FREE(0), FREE(1), FREE(2), FREE(3) },
	},
	{
		.name = "the same, freed at once",
		.pages_in = true,
		.op = { WRITE(0, HALF), WRITE(1, RAW), FILL(2), FILL_OBJ(3), WRITE(0, RAW), FILL(1),
			WRITE(2, THIRD), WRITE(3, SPAN), FILL_OBJ(0), FREE(2), READ(3),
			WRITE(2, HALF) },
	},
	{
		.name = "compaction",
		.release_limit = PLENTY,
		.op = { PUT(0, SPAN), PUT(1, SPAN), PUT(2, SPAN), PUT(3, SPAN), PUT(4, HALF),
			PUT(5, HALF), PUT(6, HALF), PUT(7, HALF), FREE(1), FREE(5), FREE(7),
			COMPACT,
			PUT(1, SPAN), PUT(5, SMALL), FREE(0), COMPACT, PUT(0, SPAN) },
	},
	{
		.name = "budgets, flushes and resets",
		.release_limit = PLENTY,
		.op = { PUT(0, HALF), PUT(1, RAW), FREE(0), LIMIT(RELEASE_REFS * 1024 * 2), FREE(1),
			PUT(2, RAW), FLUSH, FREE(2), LIMIT(0), PUT(0, HALF), FREE(0), LIMIT(PLENTY),
			PUT(3, THIRD), RESET, PUT(3, SMALL), PUT(4, RAW), STATS,
			RESET },
	},
	{
		.name = "recompression",
		.pages_in = true, .recompress = true, .release_limit = PLENTY,
		.op = { WRITE(0, HALF), WRITE(1, RAW), MARK_IDLE, RECOMPRESS(0), RECOMPRESS(1),
			READ(0),
			WRITE(2, THIRD), FILL_OBJ(3), RECOMPRESS(2), RECOMPRESS(3), FREE(0),
			COMPACT,
			WRITE(0, SPAN), RECOMPRESS(0), WRITE(1, HALF), RECOMPRESS(1), FLUSH,
			FREE(2) },
	},
	{
		.name = "a limit that the freed make room under",
		.release_limit = PLENTY, .limit_pages = 2,
		.op = { PUT(0, RAW), PUT(1, RAW), PUT(2, RAW), FREE(0), PUT(2, RAW), FREE(1),
			FREE(2),
			PUT(3, RAW), PUT(4, RAW), PUT(5, SMALL), RESET, PUT(5, SMALL) },
	},
};
#define NSCRIPTS (sizeof(scripts) / sizeof(scripts[0]))

static u32 model[HISTORY_SLOTS];
static bool sparse;             /* the next store's slot table */
static u32 reserve;	/* pages, for the next store; with one no write has a right to fail */

static struct rig_config config(const struct script *s)
{
	return (struct rig_config){
		.cpus = 2, .pages = HOME_PAGES, .slots = RELEASE_REFS * 8,
		.mem_limit = (u64)s->limit_pages << PAGE_SHIFT,
		.release_limit = s->release_limit,
		.reserve = reserve, .sparse = sparse, .recompress = s->recompress,
	};
}

static void verify(const struct script *s)
{
	unsigned int i;

	rig_check();
	for (i = 0; i < HISTORY_SLOTS; i++)
		must_eq(rig_value(i, s->pages_in), model[i]);
	must_eq(store_count(&rig->store, CNT_FAILED_WRITE), rig->failed);
}

/*
 * One operation, which may fail if anything failed since there were so many failures.  eager: the
 * worker has run when it is over.
 */
static void step(const struct script *s, unsigned int k, u64 failures, bool eager)
{
	const struct op *op = &s->op[k];
	int err = rig_do(op, k + 1);
	bool limited = s->limit_pages && err == -EDQUOT;

	limited |= op->what == OP_LIMIT && home->no_heap;
	/* The reserve is for writes. */
	if (err && !limited &&
	    (home_failures == failures || (reserve && op->what != OP_RECOMPRESS)))
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

	explore_doing(s->name);
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
	rig->store.pool.limit = 0;
	err = rig_do(&op, 99);
	must_eq(err, 0);
	model[0] = 99;
	verify(s);
	rig_end();
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
	must(n >= 10);
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
		if (pages_refill(&rig->pages) || pages_reserved(&rig->pages) != reserve)
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

CASE(what_does_not_decompress_stays)
{
	const struct op write = WRITE(0, HALF);
	static char page[PAGE_SIZE], zeros[PAGE_SIZE];

	memset(page, 1, sizeof(page));
	begin(&scripts[0], 0, false);
	rig_do(&write, 1);
	model[0] = 1;
	rig->codec_fails = true;
	home_failures++;
	must_eq(store_read(&rig->store, 0, page), -EIO);
	must(!memcmp(page, zeros, sizeof(page)));
	must_eq(store_count(&rig->store, CNT_FAILED_READ), 1);
	rig->codec_fails = false;
	verify(&scripts[0]);
	end(&scripts[0]);
}

CASE(any_allocation_may_fail)
{
	unsigned int i;

	for (i = 0; i < 2 * NSCRIPTS; i++) {
		sparse = i % 2;
		each_allocation(&scripts[i / 2], false, false);
		each_allocation(&scripts[i / 2], false, true);
	}
	sparse = false;
}

CASE(all_allocations_may_fail_from_any_one_on)
{
	unsigned int i;

	for (i = 0; i < 2 * NSCRIPTS; i++) {
		sparse = i % 2;
		each_allocation(&scripts[i / 2], true, false);
		each_allocation(&scripts[i / 2], true, true);
	}
	sparse = false;
}

CASE(a_source_may_be_dry_for_a_while)
{
	unsigned int i, from, n;

	for (i = 0; i < NSCRIPTS; i++)
		for (from = 0; from < OPS && scripts[i].op[from].what; from++)
			for (n = 1; n < 8; n++)
				dry_for_a_while(&scripts[i], from, n);
}

CASE(no_write_fails_that_the_reserve_covers)
{
	unsigned int i, from, n;

	for (i = 0; i < NSCRIPTS; i++)
		for (from = 0; !scripts[i].limit_pages && from < OPS && scripts[i].op[from].what;
		     from++)
			for (n = 1; n < 8; n++) {
				sparse = n % 2;
				reserve_while_dry(&scripts[i], from, n, false);
				reserve_while_dry(&scripts[i], from, n, true);
			}
	sparse = false;
}

CASE(a_codec_may_break_its_word)
{
	const int says[] = {
		0, -EIO, -EINVAL, INT_MIN + 1, -ENOSPC, (int)PAGE_SIZE,
		(int)PAGE_SIZE + 1, INT_MAX,
	};
	unsigned int i, k, n;

	for (i = 0; i < NSCRIPTS; i++)
		for (k = 0; k < OPS; k++)
			for (n = 0;
			     scripts[i].op[k].what == OP_WRITE &&
			     n < sizeof(says) / sizeof(says[0]); n++)
				codec_that_says(&scripts[i], k, says[n]);
	printf("# failures injected: %lu\n", home_failures);
}

/* One of eight CPUs runs when the store is made; the others come later, and share its context. */
CASE(codec_contexts_are_made_for_the_cpus_that_run)
{
	const struct rig_config cfg = { .cpus = 8, .pages = HOME_PAGES, .slots = 8 };
	const struct op write = WRITE(0, HALF), read = READ(0);

	home_open(cfg.cpus, cfg.pages);
	home_only(0);
	must_eq(rig_open(&cfg), 0);
	must_eq(rig->store.streams[0]->n, 1);
	home_only(7);
	if (raw_smp_processor_id() != 7 || rig_do(&write, 1) || rig_do(&read, 0) ||
	    rig_value(0, true) != 1)
		explore_fail("a CPU that came later cannot write and read");
	memset(&rig->history, 0, sizeof(rig->history));
}

/*
 * There is no room at once, so the page is compressed again when there is, and comes to another
 * length each time: as one does that its owner changes meanwhile.
 */
CASE(a_page_that_changes_while_room_is_made_is_stored_whole)
{
	const struct rig_config cfg = {
		.cpus = 1, .pages = HOME_PAGES, .slots = 4, .release_limit = PLENTY,
		.mem_limit = PAGE_SIZE,
	};
	const struct op other = PUT(1, RAW), gone = FREE(1), write = WRITE(0, THIRD);
	u32 changes;
	u64 ref;

	for (changes = 0; changes <= 8; changes++) {
		rig_begin(&cfg);
		rig_do(&other, 1);
		rig_do(&gone, 0);
		rig->codec_changes = changes;
		if (rig_do(&write, 2) || rig_value(0, true) != 2)
			explore_fail("the page is not what it was after %u changes", changes);
		ref = slot_ref(host_a64_read(store_slot(&rig->store, 0)));
		if (rig->codec_calls != (changes < 3 ? changes + 2 : 4) ||
		    (pool_ref_size(&rig->store.pool, ref) == PAGE_SIZE) != (changes > 2))
			explore_fail("%u calls of the codec after %u changes", rig->codec_calls, changes);
		rig_end();
	}
}

/* Numbers 4 apart, as the first threads of the cores of a machine may have. */
CASE(cpus_that_are_far_apart_have_streams_of_their_own)
{
	const struct rig_config cfg = { .cpus = 8, .pages = HOME_PAGES, .slots = 8 };
	const struct op write = WRITE(0, HALF);
	unsigned int cpu;
	u32 *stream;

	home_open(cfg.cpus, cfg.pages);
	for (cpu = 1; cpu < cfg.cpus; cpu++)
		if (cpu != 4)
			home_offline(cpu);
	must_eq(rig_open(&cfg), 0);
	me->cpu = 0;
	rig_do(&write, 1);
	me->cpu = 4;
	rig_do(&write, 2);
	stream = rig->store.streams[0]->first;
	if (rig->store.streams[0]->n != 2 || !stream[0] || !stream[4] || stream[0] == stream[4])
		explore_fail("CPU 0 has stream %u, CPU 4 %u", stream[0], stream[4]);
	me->cpu = 0;
	memset(&rig->history, 0, sizeof(rig->history));
}
