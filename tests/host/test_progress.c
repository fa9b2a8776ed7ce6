// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_progress.c - an operation ends in a number of its own steps, though others do theirs.
 *
 * Actor 0 is the victim: it does one operation on slot 0.  The others do theirs on the same slot
 * and its neighbours for ever, and are let on before every step of the victim for as many steps as
 * a die says: who would always be let win keeps a compare-and-swap loop for ever, here as anywhere.
 * A step is an access to memory that others can reach, or a lock that is taken; locks are fair
 * (host.h), so a wait for one is counted by the table of docs/internals/locking.md, not here.  The
 * most steps of the victim over all runs must not be above the bound of its row.
 *
 * In two cases the victim loses its CPU instead, and the others must not need it.  In the last one
 * the others lose theirs.
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
	if (!n)
		return 0;
	if (must)
		return any_but_victim(list, n);
	if (!me->id) {
		if (me->steps > victim->bound)
			explore_fail("%s takes more than %u steps against %s", victim->what, victim->bound,
				     crowd->what);
		return any_but_victim(list, n);
	}
	return (unsigned int)(roll() % 4 ? 0 : roll() % (n + 1));
}

static void end(void)
{
	explore_doing("after a duel");
	victim_is_done = false;
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

/*
 * The timer.  The victim frees and loses its CPU at some step, until nobody else has anything to
 * do; the others, each on a CPU of its own, free as well.
 */
#define TIMER_STEPS 40          /* more than a free has */

static unsigned int stop_at;
static bool stopped, ever_stopped;

static void timer_begin(void)
{
	unsigned int i;

	explore_doing("before");
	home_open(3, HOME_PAGES);
	if (rig_open(&(struct rig_config){ .cpus = 3, .pages = HOME_PAGES, .slots = 4,
					   .release_limit = PLENTY }))
		explore_fail("the duel does not begin");
	for (i = 0; i < 4; i++)
		rig_do(&(struct op)PUT((u16)i, QUARTER), value_of(7));
	rig->history.closed = true;
}

static void must_be_watched(unsigned int cpu, const char *when)
{
	const struct release *r = &rig->store.release;
	const struct host_work *w = &r->node->worker->work, *d = &r->disarm;

	if (r->item[cpu]->tail.v != r->item[cpu]->head.v &&
	    !(w->queued || w->running || d->queued || d->running))
		explore_fail("no timer runs %s a thread that lost its CPU at step %u", when, stop_at);
}

static void timer_end(void)
{
	/* It came late, maybe after the timer had run and stopped. */
	store_free(&rig->store, 3);
	must_be_watched(0, "after the return of");
	ever_stopped |= stopped;
	stopped = false;
	end();
}

static void timer_act(unsigned int actor)
{
	me->cpu = actor;
	rig_do(&(struct op)FREE((u16)actor), 0);
	if (actor)
		must_be_watched(actor, "in the absence of");
}

static unsigned int timer_pick(struct actor *const *list, unsigned int n, bool must)
{
	if (!n || (!must && !me->id && me->steps < stop_at))
		return 0;
	if (must && !stopped && of(list, n, 0))
		return of(list, n, 0);
	stopped |= !must && !me->id;
	if (must || !me->id)
		return any_but_victim(list, n);
	if (roll() % 4 || (n == 1 && !list[0]->id))
		return 0;
	return any_but_victim(list, n);
}

static void nobody_waits_for_who_starts_the_timer(unsigned int number, unsigned int runs)
{
	const char *name = "no timer waits for who lost its CPU as it starts it";
	const struct explore_job job = {
		.name = name, .number = number, .actors = EXPLORE_ACTORS,
		.begin = timer_begin, .act = timer_act, .end = timer_end,
	};
	bool all = false;

	die = 88172645463325252u;
	for (stop_at = 0; stop_at < TIMER_STEPS; stop_at++) {
		ever_stopped = false;
		explore_duel(&job, timer_pick, runs);
		all |= !ever_stopped;
	}
	if (!all)
		explore_fail("a free has more than %u steps", TIMER_STEPS);
	printf("ok %u - %s\n", number, name);
}

/*
 * A swap-out without room: the victim frees what is held back, one object.  Who frees it, too,
 * loses its CPU at some step, and has it again when the victim has its answer, or, with the die, at
 * some step of the victim.
 */
#define ROOM_STEPS 600          /* more than who frees has */
#define ROOM_BOUND 100          /* steps of the victim */

static const struct op *room_op;        /* of who frees, but for the release stage's worker */
static bool room_returns;               /* by the die */
static u64 room_pages;                  /* before the object is free */
static bool stopped_atomic, came_back_early, ever_again;

static void room_begin(void)
{
	explore_doing("before");
	home_open(2, HOME_PAGES);
	/* Without spare buffers, and a buffer of one object at most: the second's free spills. */
	if (rig_open(&(struct rig_config){ .cpus = 2, .pages = HOME_PAGES, .slots = 4,
					   .release_limit = 2 * 2 * PAGE_SIZE * 3 / 4 }))
		explore_fail("the duel does not begin");
	rig_do(&(struct op)WRITE(1, HALF), value_of(7));
	rig_do(&(struct op)WRITE(0, QUARTER), value_of(7));
	room_pages = pool_pages(&rig->store.pool);
	rig_do(&(struct op)FREE(0), 0);
	if (pool_pages(&rig->store.pool) != room_pages)
		explore_fail("the object is not held back");
	home->fair = true;
	rig->history.closed = true;
}

static void room_act(unsigned int actor)
{
	bool all;

	me->cpu = !actor;
	if (actor) {
		rig_do(room_op, 0);
		return;
	}
	all = release_help_all(&rig->store.release);
	most = me->steps > most ? me->steps : most;
	if (all && pool_pages(&rig->store.pool) == room_pages)
		explore_fail("all is said to be free, and who lost its CPU at step %u has some",
			     stop_at);
	if (!all && !stopped)
		explore_fail("something is said to be in hands, and is in nobody's");
	ever_again |= !all;
	victim_is_done = true;
}

static unsigned int room_pick(struct actor *const *list, unsigned int n, bool must)
{
	if (!n || (!must && me->id && !stopped && me->steps < stop_at))
		return 0;
	if (!stopped && must)
		return any_but_victim(list, n);
	if (!stopped && me->id) {
		stopped = true;
		stopped_atomic = me->atomic;
		return of(list, n, 0);
	}
	if (victim_is_done || came_back_early)
		return must ? any_but_victim(list, n) : 0;
	if (must) {
		/* A spin lock's holder goes on: the kernel takes no CPU from him. */
		if (!stopped_atomic)
			explore_fail("a swap-out waits for who lost its CPU at step %u", stop_at);
		came_back_early = true;
		return any_but_victim(list, n);
	}
	if (me->steps > ROOM_BOUND)
		explore_fail("a swap-out without room takes more than %u steps", ROOM_BOUND);
	came_back_early = stopped && room_returns && !(roll() % 16);
	return came_back_early ? any_but_victim(list, n) : 0;
}

static void room_end(void)
{
	ever_stopped |= stopped;
	stopped = came_back_early = false;
	end();
}

static void a_swap_out_waits_for_nobody_who_frees(unsigned int number, unsigned int runs)
{
	static const struct op ops[] = { HELP, FLUSH, SHRINK, FREE(1), STATS };
	const char *name = "a swap-out without room waits for nobody who frees";
	const struct explore_job job = {
		.name = name, .number = number, .actors = 2,
		.begin = room_begin, .act = room_act, .end = room_end,
	};
	unsigned int i;

	most = 0;
	die = 88172645463325252u;
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		room_op = &ops[i];
		ever_again = false;
		ever_stopped = true;
		for (stop_at = 0; ever_stopped && stop_at < ROOM_STEPS; stop_at++) {
			ever_stopped = false;
			room_returns = false;
			explore_duel(&job, room_pick, 4);
			room_returns = true;
			explore_duel(&job, room_pick, runs / 10);
		}
		if (ever_stopped || !ever_again)
			explore_fail("operation %u of %u steps has %s", i, stop_at,
				     ever_stopped ? "more" : "never a block in hand");
	}
	printf("# at most %lu\nok %u - %s\n", most, number, name);
}

static bool is_alone(const struct op *op)
{
	return op->what == OP_RECOMPRESS;
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
			if (is_alone(&victim->op[0]) && is_alone(&crowd->act[0][0]))
				continue;
			job.name = name;
			job.number = number + 1;
			job.actors = nactors();
			die = 88172645463325252u + c;
			explore_duel(&job, pick, runs);
		}
		printf("# at most %lu\nok %u - %s\n", most, ++number, name);
	}
	nobody_waits_for_who_starts_the_timer(++number, runs);
	a_swap_out_waits_for_nobody_who_frees(++number, runs);
	printf("1..%u\n", number);
	return 0;
}
