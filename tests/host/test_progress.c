// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_progress.c - an operation ends in a number of its own steps, whatever others do.
 *
 * Actor 0 is the victim: it does one operation on slot 0.  The others do theirs on the same slot
 * and its neighbours for ever, and are let on before every step of the victim: for whole
 * operations, as many as the duel says, or for as many steps as a die says.  A step is an access
 * to memory that others can reach, or a lock that is taken; locks are fair (host.h), so a wait
 * for one is counted by the table of docs/locking.md, not here.  The most steps of the victim over all
 * runs must not be above the bound of its row.
 */
#include "explore.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

#define OPS 4
#define RUNS 400                /* of each pair; EBB_TEST_SCALE percent of them, and at least 40 */

struct victim {
	const char *what;
	bool pages_in;
	unsigned int bound;             /* steps */
	u32 size;                       /* of what is in slots 0 to 2 before */
	struct op op[2];
};

/* Bounds in steps of the hostile home, where every copy is four; they are constants of the code. */
static const struct victim victims[] = {
	{ "a read", true, 100, HALF, { READ(0) } },
	{ "a get", false, 100, HALF, { GET(0) } },
	{ "a write", true, 200, HALF, { WRITE(0, HALF) } },
	{ "a write of a raw page", true, 200, HALF, { WRITE(0, RAW) } },
	{ "a write of one word", true, 100, HALF, { FILL(0) } },
	{ "a put", false, 200, HALF, { PUT(0, HALF) } },
	{ "a free", true, 100, HALF, { FREE(0) } },
	{ "a free among its neighbours", true, 100, QUARTER, { FREE(0) } },
	{ "a partial write", true, 300, HALF, { READ(0), WRITE(0, THIRD) } },
	{ "a compaction", true, 800, HALF, { COMPACT } },
	{ "a call of the shrinker", true, 2000, HALF, { SHRINK } },
	{ "a recompression", true, 300, HALF, { RECOMPRESS(0) } },
	{ "marks of four slots", true, 50, HALF, { MARK_IDLE } },
	{ "a write and a free that follows it", true, 300, HALF, { WRITE(0, HALF), FREE(0) } },
};

struct crowd {
	const char *what;
	struct op act[EXPLORE_ACTORS - 1][OPS];
};

static const struct crowd page_crowds[] = {
	{ "who reads",              { { READ(0) } } },
	{ "two who read",           { { READ(0) }, { READ(0) } } },
	{ "who overwrites",         { { WRITE(0, HALF), WRITE(0, THIRD), FILL(0) } } },
	{ "who writes and frees",   { { WRITE(0, HALF), FREE(0) } } },
	{ "a reader and a writer",  { { READ(0) }, { WRITE(0, HALF), WRITE(0, RAW) } } },
	{ "who holds and drops",    { { HOLD(0), HOLD(0), DROP(0), DROP(0) } } },
	{ "who holds and drops what is written anew",    { { HOLD(0), HOLD(0), DROP(0), DROP(0) }, { WRITE(0, THIRD), FREE(1), WRITE(1, HALF) } } },
	{ "who fills and empties the zspage", { { WRITE(1, HALF), FREE(1) }, { WRITE(2, HALF), FREE(2) } } },
	{ "who frees and writes next to it", { { FREE(1), WRITE(1, QUARTER) } } },
	{ "who marks and reads",    { { MARK_IDLE, READ(0) } } },
	{ "who marks, and who writes", { { MARK_IDLE }, { WRITE(0, HALF) } } },
	{ "who recompresses what is written", { { RECOMPRESS(0) }, { WRITE(0, HALF) } } },
};

static const struct crowd blob_crowds[] = {
	{ "who gets",               { { GET(0) }, { GET(0) } } },
	{ "who overwrites",         { { PUT(0, HALF), PUT(0, THIRD) } } },
	{ "who puts and frees",     { { PUT(0, HALF), FREE(0) }, { GET(0) } } },
	{ "who holds and drops",    { { HOLD(0), HOLD(0), DROP(0), DROP(0) } } },
	{ "who holds and drops what is written anew",    { { HOLD(0), HOLD(0), DROP(0), DROP(0) }, { PUT(0, HALF), FREE(1), PUT(1, HALF) } } },
};

static const struct victim *victim;
static const struct crowd *crowd;
static unsigned int whole;              /* operations before each step; 0: the die */
static unsigned int ops_left;
static bool at_end_of_op;
static u64 die, most;

static u64 roll(void)
{
	die ^= die << 13;
	die ^= die >> 7;
	die ^= die << 17;
	return die >> 11;
}

/* Sequential parts and adversaries write values that need not be told apart for long. */
static u32 value_of(unsigned int who)
{
	static u32 n;

	return who << 20 | (++n & 0xfffff);
}

static void begin(void)
{
	unsigned int i;

	explore_doing("before");
	home_open(2, HOME_PAGES);
	if (rig_open(&(struct rig_config){ .cpus = 2, .pages = HOME_PAGES, .slots = 4,
					   .recompress = true }))
		explore_fail("the duel does not begin");
	for (i = 0; i < 3; i++)
		rig_do(&(struct op){ .what = victim->pages_in ? OP_WRITE : OP_PUT, .slot = (u16)i,
				     .size = victim->size }, value_of(7));
	home->fair = true;
	rig->history.closed = true;
}

static bool victim_is_done;

static void act(unsigned int actor)
{
	const struct op *op;

	if (!actor) {
		rig_do(&victim->op[0], value_of(1));
		rig_do(&victim->op[1], value_of(1));
		most = me->steps > most ? me->steps : most;
		victim_is_done = true;
		return;
	}
	for (op = crowd->act[actor - 1]; !victim_is_done; op++) {
		if (op == crowd->act[actor - 1] + OPS || !op->what)
			op = crowd->act[actor - 1];
		rig_do(op, value_of(actor + 1));
		at_end_of_op = true;
	}
	while (rig_drop_own())
		;
}

static unsigned int of(struct actor *const *list, unsigned int n, unsigned int id)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (list[i]->id == id)
			return i + 1;
	return 0;
}

static unsigned int any_but_victim(struct actor *const *list, unsigned int n)
{
	unsigned int k = (unsigned int)(roll() % n);

	if (n > 1 && !list[k]->id)
		k = (k + 1) % n;
	return k + 1;
}

static unsigned int pick(struct actor *const *list, unsigned int n, bool must)
{
	bool over = at_end_of_op;
	unsigned int k;

	at_end_of_op = false;
	if (!n)
		return 0;
	if (must)
		return any_but_victim(list, n);
	if (!me->id) {
		if (me->steps > victim->bound)
			explore_fail("%s takes more than %u steps against %s", victim->what, victim->bound,
				     crowd->what);
		ops_left = whole;
		return any_but_victim(list, n);
	}
	if (!whole)
		return (unsigned int)(roll() % 4 ? 0 : roll() % (n + 1));
	if (!over || (ops_left && --ops_left))
		return 0;
	/* If the victim waits, it is for one of the others. */
	k = of(list, n, 0);
	return k ? k : any_but_victim(list, n);
}

static void end(void)
{
	explore_doing("after a duel");
	victim_is_done = at_end_of_op = false;
	rig_check();
	rig_close();
	home_close();
	explore_doing("the duel");
}

static unsigned int nactors(void)
{
	unsigned int n = 1;

	while (n < EXPLORE_ACTORS && crowd->act[n - 1][0].what)
		n++;
	return n;
}

int main(void)
{
	struct explore_job job = { .begin = begin, .act = act, .end = end };
	unsigned int v, c, ncrowds, number = 0, runs = RUNS;
	const char *scale = getenv("EBB_TEST_SCALE");
	const struct crowd *crowds;
	static char name[128];

	if (scale)
		runs = RUNS * (unsigned int)strtoul(scale, NULL, 10) / 100;
	if (runs < 40)
		runs = 40;

	setvbuf(stdout, NULL, _IOLBF, 0);
	explore_plain = true;
	for (v = 0; v < sizeof(victims) / sizeof(victims[0]); v++) {
		victim = &victims[v];
		crowds = victim->pages_in ? page_crowds : blob_crowds;
		ncrowds = victim->pages_in ? sizeof(page_crowds) / sizeof(page_crowds[0])
					   : sizeof(blob_crowds) / sizeof(blob_crowds[0]);
		most = 0;
		snprintf(name, sizeof(name), "%s ends in %u steps of its own", victim->what, victim->bound);
		for (c = 0; c < ncrowds; c++) {
			crowd = &crowds[c];
			/* One at a time: recompress.h. */
			if (victim->op[0].what == OP_RECOMPRESS &&
			    crowd->act[0][0].what == OP_RECOMPRESS)
				continue;
			job.name = name;
			job.number = number + 1;
			job.actors = nactors();
			die = 88172645463325252u + c;
			for (whole = 0; whole <= 3; whole++)
				explore_duel(&job, pick, whole ? 2 : runs);
		}
		printf("# at most %llu\nok %u - %s\n", (unsigned long long)most, ++number, name);
	}
	printf("1..%u\n", number);
	return 0;
}
