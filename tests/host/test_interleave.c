// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_interleave.c - small crowds on one store, in every order they can take their turns.
 *
 *     test_interleave [--bound N] [--only PART] [--plain] [--replay 'NAME:SCHEDULE']
 *
 * A scenario is a store, what happens to it before anybody else is there, and what up to three
 * actors then do at the same time; the drain worker is one more.  After each run every invariant
 * of core/store/check.c is tested, the history is explained (history.h), all is freed, and nothing
 * may be left.  docs/internals/testing.md tells what a run is and which of them are made.
 */
#include "explore_main.h"
#include "rig.h"

#include <stdlib.h>

#define OPS 6

struct scenario {
	const char *name;
	unsigned int most;      /* 0: or no higher bound than this unless it is asked for by name */
	u64 slots;              /* 0: 4 */
	u64 release_limit;      /* 0: synchronous */
	u32 spare;              /* buffers that may be queued */
	u32 nodes, reserve;     /* 0: one; 0: no pages in it */
	unsigned int limit_pages, pages;        /* mem_limit; the source's, 0: all */
	unsigned int put_small; /* before: so many small objects, slot by slot */
	unsigned int keep_small;        /* and all but so many freed again */
	bool pages_in;          /* slots hold pages, not blobs */
	bool sparse;            /* the slot table is made page by page */
	u64 blocks;             /* of the backing device; slots hold pages */
	unsigned int units;     /* pages that are compressed together; slots hold pages */
	bool packed;            /* which keeps compressed pages */
	bool recompress;        /* there is a second codec; slots hold pages */
	bool grow;	/* the first descriptor of a group is the last that its directory holds */
	bool move, may_be_dry;
	unsigned int asleep;    /* 1: the timer is never stopped; 2: nor does the worker run */
	struct op before[10];
	struct op act[EXPLORE_ACTORS][OPS];
};

static const struct scenario scenarios[] = {
#include "scenarios.h"
};
#define NSCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

static const struct scenario *now;

static u32 had[MANY + HISTORY_SLOTS];
static u64 freed_before;

/* Values that no two writes share: who is an actor, or EXPLORE_ACTORS before there are any. */
static u32 value_of(unsigned int who, unsigned int i)
{
	return 16 * (who + 1) + i;
}

static u64 nslots(void)
{
	return now->slots ? now->slots : 4;
}

static bool has_pages(void)
{
	return now->pages_in || now->recompress || now->blocks || now->units;
}

/* Holds come last, since they keep even the test from reading. */
static void before(bool holds)
{
	unsigned int i;

	for (i = 0; i < sizeof(now->before) / sizeof(now->before[0]); i++)
		if ((now->before[i].what == OP_HOLD) == holds)
			rig_do(&now->before[i], value_of(EXPLORE_ACTORS, i));
}

/* One descriptor a chunk, and its entry the last of the few that a group begins with. */
static void leave_one_entry(struct zspage_table *t)
{
	unsigned int i;

	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++) {
		if (t->group[i]) {
			t->group[i]->capacity = 1;
			t->group[i]->fresh = ZSPAGE_FEW - 1;
		}
	}
}

static void begin(void)
{
	const struct rig_config cfg = {
		.cpus = 2, .pages = now->pages ? now->pages : HOME_PAGES, .slots = nslots(),
		.mem_limit = (u64)now->limit_pages << PAGE_SHIFT,
		.release_limit = now->release_limit, .spare = now->spare, .reserve = now->reserve,
		.sparse = now->sparse, .recompress = now->recompress,
		.blocks = now->blocks, .packed = now->packed, .unit_pages = now->units,
	};
	unsigned int i;

	explore_doing("before");
	home_open_nodes(cfg.cpus, now->nodes ? now->nodes : 1, cfg.pages);
	if (rig_open(&cfg))
		explore_fail("the scenario does not begin");
	if (now->grow)
		leave_one_entry(&rig->store.pool.zspages);
	for (i = 0; i < now->put_small; i++)
		rig_do(&(struct op)PUT((u16)i, SMALL), 1000 + i);
	for (i = now->keep_small; i < now->put_small; i++)
		rig_do(&(struct op)FREE((u16)i), 0);
	before(false);
	for (i = 0; i < nslots(); i++) {
		had[i] = rig_value(i, has_pages());
		if (i < HISTORY_SLOTS)
			rig->history.had[i] = had[i];
	}
	before(true);
	/* What happened until now is no history. */
	memset(rig->history.n, 0, sizeof(rig->history.n));
	freed_before = store_count(&rig->store, CNT_FREED);
	home->move = now->move;
	home->may_be_dry = now->may_be_dry;
}

static void act(unsigned int actor)
{
	unsigned int i;

	for (i = 0; i < OPS; i++)
		rig_do(&now->act[actor][i], value_of(actor, i));
}

/* What was said, and where everything came to be. */
static u64 outcome(const u32 *last)
{
	u64 hash = history_hash(&rig->history);
	unsigned int i;

	for (i = 0; i < HISTORY_SLOTS; i++)
		hash = (hash ^ last[i]) * 0xff51afd7ed558ccdu;
	for (i = 0; i < HISTORY_SLOTS && i < nslots(); i++)
		hash = (hash ^ host_a64_read(store_slot(&rig->store, i))) * 0xff51afd7ed558ccdu;
	hash = (hash ^ pool_pages(&rig->store.pool)) * 0xff51afd7ed558ccdu;
	hash = (hash ^ release_held(&rig->store.release)) * 0xff51afd7ed558ccdu;
	return (hash ^ store_count(&rig->store, CNT_FREED)) * 0xff51afd7ed558ccdu;
}

static void end(void)
{
	struct store *s = &rig->store;
	u32 last[HISTORY_SLOTS] = { 0 }, value;
	const char *why;
	unsigned int i;

	explore_doing("after a run");
	/* Holds that it began with. */
	for (i = 0; i < nslots(); i++)
		while (rig_drop(i))
			;
	rig_check();
	if (now->limit_pages && pool_pages(&s->pool) > now->limit_pages)
		explore_fail("%lu pages of %u", pool_pages(&s->pool), now->limit_pages);
	for (i = 0; i < nslots(); i++) {
		value = rig_value(i, has_pages());
		if (i < HISTORY_SLOTS)
			last[i] = value;
		else if (value != had[i])
			explore_fail("slot %u, which nobody named, changed", i);
	}
	explore_outcome(outcome(last));
	why = history_check(&rig->history, last, store_count(s, CNT_FREED) - freed_before);
	if (why)
		explore_fail("%s", why);
	if (store_count(s, CNT_FAILED_WRITE) != rig->failed)
		explore_fail("failed writes are not counted");
	explore_doing("when all is freed");
	rig_close();
	home_close();
	explore_doing("the actors");
}

static void choose(unsigned int i, struct explore_case *c)
{
	now = &scenarios[i];
	*c = (struct explore_case){
		.name = now->name, .asleep = now->asleep, .most = now->most,
	};
	while (c->actors < EXPLORE_ACTORS && now->act[c->actors][0].what)
		c->actors++;
}

int main(int argc, char **argv)
{
	const struct explore_plan plan = {
		.program = "test_interleave", .job = { .begin = begin, .act = act, .end = end },
		.scenarios = NSCENARIOS, .choose = choose,
	};

	return explore_main(argc, argv, &plan);
}
