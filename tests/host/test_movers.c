// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_movers.c - cells and pages that move, in every order in which small crowds can take turns.
 *
 *     test_movers [--bound N] [--only PART] [--plain] [--replay 'NAME:SCHEDULE']
 *
 * As test_interleave.c, for cells: a scenario is what happens before, and what up to three actors
 * then do at the same time; the workers are more of them.  Pages of zspages come from one set of
 * lists, all else from another.  After each run every invariant is tested, every object is read,
 * all is freed, and nothing may be left.
 */
#include "check.h"
#include "explore_main.h"
#include "home.h"
#include "migrate.h"
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>

#define OPS 5
#define BEFORE 10
#define THINGS 8
#define HELD 16
#define TINY (HOST_PAGE_SIZE / 128 - POOL_HEADER)      /* more than 64 of them to a zspage */

enum act {
	ACT_NONE,
	ACT_MAKE,       /* thing, bytes */
	ACT_READ,       /* thing: it is what it should be */
	ACT_WRITE,      /* thing: it becomes something else */
	ACT_FREE,       /* thing; atomic */
	ACT_BULK,       /* thing, and the next */
	ACT_HOLD,       /* thing: begins to read */
	ACT_DROP,       /* thing: reads, and ends it; a hold of the actor's, or one from before */
	ACT_MOVE,       /* the page that thing began on as the actors begin */
	ACT_NEWEST,     /* the page that was tagged last */
	ACT_PIN,        /* the same as ACT_MOVE, but only pinned */
	ACT_UNPIN,
	ACT_TAKE,       /* the page out of a page list, if it is in one */
	ACT_COMPACT,
	ACT_FLUSH,
	ACT_HELP,
	ACT_DRAIN,
	ACT_DECAY,
	ACT_COUNT,      /* thing: it is there, so pages are counted */
};

struct step {
	u8 what, thing;
	u32 bytes;
};

/* rig.h has operations of these names for a store. */
#undef FREE
#undef READ
#undef WRITE
#undef HOLD
#undef DROP
#undef COMPACT
#undef FLUSH
#undef HELP
#undef DECAY
#undef SEVEN_HOLDS
#define MAKE(i, n) { ACT_MAKE, (i), (u32)(n) }
#define READ(i) { ACT_READ, (i), 0 }
#define WRITE(i) { ACT_WRITE, (i), 0 }
#define FREE(i) { ACT_FREE, (i), 0 }
#define BULK(i) { ACT_BULK, (i), 0 }
#define HOLD(i) { ACT_HOLD, (i), 0 }
#define DROP(i) { ACT_DROP, (i), 0 }
#define SEVEN_HOLDS(i) HOLD(i), HOLD(i), HOLD(i), HOLD(i), HOLD(i), HOLD(i), HOLD(i)
#define MOVE(i) { ACT_MOVE, (i), 0 }
#define MOVE_NEWEST { ACT_NEWEST, 0, 0 }
#define PIN(i) { ACT_PIN, (i), 0 }
#define UNPIN(i) { ACT_UNPIN, (i), 0 }
#define TAKE(i) { ACT_TAKE, (i), 0 }
#define COMPACT { ACT_COMPACT, 0, 0 }
#define FLUSH { ACT_FLUSH, 0, 0 }
#define HELP { ACT_HELP, 0, 0 }
#define DRAIN { ACT_DRAIN, 0, 0 }
#define DECAY { ACT_DECAY, 0, 0 }
#define COUNT(i) { ACT_COUNT, (i), 0 }

struct scenario {
	const char *name;
	unsigned int most;      /* 0: or no higher bound than this unless it is asked for by name */
	bool dear;              /* one less than others, unless it is asked for */
	u64 release_limit;      /* 0: synchronous */
	unsigned int asleep;    /* workers: 1: spare pages, 2: the timer's end, 3: the drain */
	unsigned int used_up;   /* cells that are left in the newest chunk, or CPU 0's hands */
	bool few;               /* which are all that there are */
	bool one_chunk;         /* and there is no other */
	bool bare;              /* there are no spare pages for chunks */
	bool sparse;            /* the directory is made page by page */
	bool may_be_dry;
	struct step before[BEFORE];
	struct step act[EXPLORE_ACTORS][OPS];
};

static const struct scenario scenarios[] = {
#include "movers.h"
};
#define NSCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

/* All that the actors share lies in the home's memory, so that each run begins with it. */
struct crowd {
	struct host_pages src, fixed_src;
	struct pcp movable, fixed;
	struct cells cells;
	struct thing {
		cell_handle h;          /* 0: there is none */
		u32 bytes, value;
		host_page page;         /* that it began on */
	} thing[THINGS];
	host_a64 tag[HOME_PAGES + 1];   /* by page */
	host_a64 newest;                /* page */
	struct held {
		u32 thing, value, bytes;
		cell_handle h;
		struct cells_piece piece[2];
	} held[EXPLORE_ALL][HELD];
	u32 nheld[EXPLORE_ALL];
	u64 pinned[EXPLORE_ALL];        /* tag */
	u32 said[EXPLORE_ALL];          /* what moves said */
};

static struct crowd *crowd;
static const struct scenario *now;
static u8 buffer[EXPLORE_ALL][HOST_PAGE_SIZE];

/* ---- contents ---- */

static u8 byte_of(u32 value, u32 i)
{
	return (u8)(value * 37 + i * 11 + (i >> 8));
}

static void must_be(const u8 *at, u32 from, u32 n, u32 value)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (at[i] != byte_of(value, from + i))
			explore_fail("byte %u of an object is not what was written", from + i);
}

static void write_thing(struct thing *t)
{
	u32 i;

	for (i = 0; i < t->bytes; i++)
		buffer[me->id][i] = byte_of(t->value, i);
	cells_write(&crowd->cells, t->h, buffer[me->id], t->bytes);
}

/* ---- steps ---- */

static void tag_page(void *ctx, host_page page, u64 tag)
{
	(void)ctx;
	host_a64_set(&crowd->tag[page], tag);
	host_a64_set(&crowd->newest, page);
}

static void make(struct thing *t, u32 bytes, u32 value)
{
	int err = cells_alloc(&crowd->cells, bytes, HOST_ANY_NODE, HOST_MAY_WAIT | HOST_MOVABLE,
			      &t->h);

	if (err) {
		t->h = 0;
		if (!now->may_be_dry && !(now->one_chunk && err == -ENOSPC))
			explore_fail("an allocation failed: %d", err);
		return;
	}
	t->bytes = bytes;
	t->value = value;
	write_thing(t);
}

static void hold(u32 i)
{
	struct thing *t = &crowd->thing[i];
	u32 *n = &crowd->nheld[me->id];
	struct held *h = &crowd->held[me->id][*n];

	if (*n == HELD)
		explore_fail("the test needs room for more holds");
	*h = (struct held){ .thing = i, .value = t->value, .bytes = t->bytes, .h = t->h };
	if (!cells_begin(&crowd->cells, t->h, h->piece))
		explore_fail("an object is not there");
	++*n;
}

static void drop_held(u32 who, u32 k)
{
	struct held h = crowd->held[who][k];
	u8 *got = buffer[me->id];

	crowd->held[who][k] = crowd->held[who][--crowd->nheld[who]];
	memcpy(got, h.piece[0].at, h.piece[0].bytes);
	must_be(got, 0, (u32)h.piece[0].bytes, h.value);
	if (h.piece[0].bytes < h.bytes) {
		memcpy(got, h.piece[1].at, h.piece[1].bytes);
		must_be(got, (u32)h.piece[0].bytes, (u32)h.piece[1].bytes, h.value);
	}
	cells_end(&crowd->cells, h.h);
}

static bool drop(u32 i)
{
	const u32 whose[2] = { me->id, EXPLORE_ALL - 1 };
	u32 k, n;

	for (k = 0; k < 2; k++)
		for (n = crowd->nheld[whose[k]]; n--;)
			if (crowd->held[whose[k]][n].thing == i)
				return drop_held(whose[k], n), true;
	return false;
}

static void read_thing(u32 i)
{
	hold(i);
	drop_held(me->id, crowd->nheld[me->id] - 1);
}

/* As the kernel does it: by the tag of a page, which may be old. */
static void move_page(host_page from)
{
	u64 tag = from ? host_a64_read(&crowd->tag[from]) : 0;
	host_page to;
	int err;

	if (!tag)
		return;
	err = cells_pin(&crowd->cells, from, tag);
	if (!err) {
		if (host_pages_alloc(&crowd->src, &to, 1, HOST_ANY_NODE, HOST_MOVABLE) != 1)
			explore_fail("there is no page to move to");
		me->atomic++;
		err = cells_move(&crowd->cells, tag, from, to);
		me->atomic--;
		host_pages_free(&crowd->src, err ? &to : &from, 1);
		cells_unpin(&crowd->cells, tag);
	}
	if (err && err != -EAGAIN && err != -EBUSY)
		explore_fail("a move says %d", err);
	crowd->said[me->id] = crowd->said[me->id] * 4 + (u32)(1 + !err + (err == -EBUSY) * 2);
}

static void pin_page(host_page page)
{
	u64 tag = host_a64_read(&crowd->tag[page]);

	if (!cells_pin(&crowd->cells, page, tag))
		crowd->pinned[me->id] = tag;
}

static void unpin_page(void)
{
	if (crowd->pinned[me->id])
		cells_unpin(&crowd->cells, crowd->pinned[me->id]);
	crowd->pinned[me->id] = 0;
}

static void do_step(const struct step *st, u32 value)
{
	struct cells *s = &crowd->cells;
	struct thing *t = &crowd->thing[st->thing];
	cell_handle h[2];

	switch ((enum act)st->what) {
	case ACT_NONE:
		break;
	case ACT_MAKE:
		make(t, st->bytes, value);
		break;
	case ACT_READ:
		read_thing(st->thing);
		break;
	case ACT_WRITE:
		t->value = value;
		write_thing(t);
		break;
	case ACT_FREE:
		h[0] = t->h;
		t->h = 0;
		me->atomic++;
		cells_free(s, h[0]);
		me->atomic--;
		break;
	case ACT_BULK:
		h[0] = t[0].h;
		h[1] = t[1].h;
		t[0].h = t[1].h = 0;
		me->atomic++;
		cells_free_bulk(s, h, 2);
		me->atomic--;
		break;
	case ACT_HOLD:
		hold(st->thing);
		break;
	case ACT_DROP:
		drop(st->thing);
		break;
	case ACT_MOVE:
		move_page(t->page);
		break;
	case ACT_NEWEST:
		move_page((host_page)host_a64_read(&crowd->newest));
		break;
	case ACT_PIN:
		pin_page(t->page);
		break;
	case ACT_UNPIN:
		unpin_page();
		break;
	case ACT_TAKE:
		if (pcp_remove(&crowd->movable, t->page, 0))
			host_pages_free(&crowd->src, &t->page, 1);
		break;
	case ACT_COMPACT:
		cells_compact(s);
		break;
	case ACT_FLUSH:
		release_flush(&s->release);
		break;
	case ACT_HELP:
		me->atomic++;
		release_help(&s->release, 0, 1);
		me->atomic--;
		break;
	case ACT_DRAIN:
		pcp_drain(&crowd->movable);
		break;
	case ACT_DECAY:
		pcp_decay(&crowd->movable);
		break;
	case ACT_COUNT:
		if (t->h && !pool_pages(&s->pool))
			explore_fail("an object is there, and no page");
		break;
	}
}

/* ---- a run ---- */

/* Values that no two writes share. */
static u32 value_of(unsigned int who, unsigned int i)
{
	return 16 * (who + 1) + i;
}

static host_page page_of(cell_handle h)
{
	struct pool *p = &crowd->cells.pool;
	u64 ref = slot_ref(host_a64_read((host_a64 *)h));
	struct pool_class *c = ref_class(p, ref);
	struct zspage *z = class_at(c, ref_zspage(c, ref));

	return zspage_pages(z, c->words)[(size_t)ref_obj(c, ref) * c->size >> HOST_PAGE_SHIFT];
}

/* Leaves so many cells uncut; the others are nobody's, as if they were in use. */
static void use_up(struct cells *s)
{
	struct cells_cpu *cpu = host_percpu_peek(&s->cpus, 0);
	unsigned int n = cpu->n;

	while (now->used_up > n && cpu->n < CELLS_MAG)
		cpu->free[cpu->n++] = s->cut++;
	if (now->few) {
		cpu->n = 0;
		s->cut = s->cut_end - now->used_up;
	}
	while (now->bare && s->nspare) {
		pcp_free(s->pcp, &s->spare[--s->nspare], 1, HOST_ANY_NODE);
		host_a64_add(&s->pages, (u64)-1);
	}
}

static void begin(void)
{
	const struct cells_config cfg = {
		.chain = CHAIN_MIN, .release_limit = now->release_limit,
		.most = (now->one_chunk ? 1 : 4) * (u64)CELLS_OF_CHUNK, .tag = tag_page,
	};
	struct cells_config with;
	struct thing *t;
	unsigned int i;

	explore_doing("before");
	home_open(2, HOME_PAGES);
	home->sparse = now->sparse;
	crowd = host_zalloc(sizeof(*crowd));
	crowd->src.kind = HOME_MOVABLE;
	crowd->fixed_src.kind = HOME_FIXED;
	with = cfg;
	with.movable = &crowd->movable;
	if (pcp_init(&crowd->movable, &crowd->src, 1, 1, 0) ||
	    pcp_init(&crowd->fixed, &crowd->fixed_src, 1, 1, 0) ||
	    cells_init(&crowd->cells, &crowd->fixed, &with))
		explore_fail("the scenario does not begin");
	for (i = 0; i < BEFORE; i++)
		if (now->before[i].what != ACT_HOLD)
			do_step(&now->before[i], value_of(EXPLORE_ACTORS, i));
		else
			hold(now->before[i].thing);
	for (t = crowd->thing; t < crowd->thing + THINGS; t++)
		t->page = t->h ? page_of(t->h) : (host_page)host_a64_read(&crowd->newest);
	if (now->used_up || now->bare)
		use_up(&crowd->cells);
	home->may_be_dry = now->may_be_dry;
}

static void act(unsigned int actor)
{
	unsigned int i;

	for (i = 0; i < OPS; i++)
		do_step(&now->act[actor][i], value_of(actor, i));
}

static void check(void)
{
	struct cells *s = &crowd->cells;
	const char *why = now->used_up ? pool_check(&s->pool) : cells_check(s);

	if (!why)
		why = pcp_check(&crowd->movable, pool_pages(&s->pool));
	if (!why)
		why = pcp_check(&crowd->fixed, zspage_table_pages(&s->pool.zspages) +
					       cells_table_pages(s));
	if (why)
		explore_fail("%s", why);
}

static u64 mix(u64 hash, u64 with)
{
	return (hash ^ with) * 0xff51afd7ed558ccdu;
}

static void end(void)
{
	struct cells *s = &crowd->cells;
	u64 hash = 0;
	unsigned int i;

	explore_doing("after a run");
	home->may_be_dry = false;
	for (i = 0; i < THINGS; i++)
		while (drop(i))
			;
	check();
	/* A page for the directory and one for the chunk: there are as many tries as that takes. */
	if (now->bare && !now->may_be_dry && host_a64_read(&s->release.cursor))
		explore_fail("who finds no page ready wants held back objects freed");
	for (i = 0; i < THINGS; i++) {
		if (crowd->thing[i].h) {
			hash = mix(hash, host_a64_read((host_a64 *)crowd->thing[i].h));
			read_thing(i);
		}
	}
	for (i = 0; i < EXPLORE_ALL; i++)
		hash = mix(hash, crowd->said[i]);
	explore_outcome(mix(mix(hash, pool_pages(&s->pool)), cells_held(s)));
	explore_doing("when all is freed");
	for (i = 0; i < THINGS; i++)
		if (crowd->thing[i].h)
			do_step(&(struct step)FREE(i), 0);
	release_flush(&s->release);
	check();
	if (pool_pages(&s->pool) || (cells_held(s) && !now->release_limit))
		explore_fail("empty cells have %llu pages, %llu bytes held back",
			     (unsigned long long)pool_pages(&s->pool),
			     (unsigned long long)cells_held(s));
	cells_destroy(s);
	pcp_destroy(&crowd->movable);
	pcp_destroy(&crowd->fixed);
	host_free(crowd, sizeof(*crowd));
	home_close();
	explore_doing("the actors");
}

/*
 * Progress, as test_progress.c has it: actor 0, the victim, does one operation, and the others
 * theirs for ever.  They are let on before each of the victim's steps, for whole operations, or for
 * as many steps as a die says.
 */
#define DUELS 60

static const struct victim {
	const char *what;
	unsigned int bound;     /* steps */
	struct step step;
} victims[] = {
	{ "a read by a handle", 50, READ(0) },
	{ "a write by a handle", 50, WRITE(0) },
	{ "a free of a handle", 100, FREE(0) },
	{ "an allocation of a handle", 150, MAKE(4, HALF) },
	{ "a move", 200, MOVE(0) },
};

static const struct against {
	const char *what;
	struct step act[EXPLORE_ACTORS - 1][4];
} against[] = {
	{ "who moves pages", { { MOVE_NEWEST } } },
	{ "who moves pages, and who reads", { { MOVE_NEWEST }, { READ(1) } } },
	{ "who frees and makes", { { FREE(1), MAKE(1, HALF) }, { MAKE(5, HALF), FREE(5) } } },
	{ "who compacts, and who frees and makes", { { COMPACT }, { FREE(2), MAKE(2, HALF) } } },
	{ "who moves pages, and who frees and makes", { { MOVE_NEWEST }, { FREE(1), MAKE(1, HALF) } } },
};

static const struct victim *victim;
static const struct against *foes;
static unsigned int whole, ops_left;
static bool at_end_of_op, victim_is_done;
static u64 die, most_steps;

static u64 roll(void)
{
	die ^= die << 13;
	die ^= die >> 7;
	die ^= die << 17;
	return die >> 11;
}

static void duel_begin(void)
{
	begin();
	home->fair = true;
}

static void duel_act(unsigned int actor)
{
	const struct step *st;
	u32 n = 0;

	if (!actor) {
		do_step(&victim->step, 100);
		most_steps = me->steps > most_steps ? me->steps : most_steps;
		victim_is_done = true;
		return;
	}
	for (st = foes->act[actor - 1]; !victim_is_done; st++) {
		if (st == foes->act[actor - 1] + 4 || !st->what)
			st = foes->act[actor - 1];
		/* A page that moves is not to be used up. */
		do_step(st, 200 + (++n & 63));
		crowd->said[me->id] = 0;
		at_end_of_op = true;
	}
}

static unsigned int any_foe(struct actor *const *list, unsigned int n)
{
	unsigned int k = (unsigned int)(roll() % n);

	return (n > 1 && !list[k]->id ? (k + 1) % n : k) + 1;
}

static unsigned int pick(struct actor *const *list, unsigned int n, bool must)
{
	bool over = at_end_of_op;
	unsigned int k;

	at_end_of_op = false;
	if (!n || must)
		return n ? any_foe(list, n) : 0;
	if (!me->id) {
		if (me->steps > victim->bound)
			explore_fail("%s takes more than %u steps against %s", victim->what,
				     victim->bound, foes->what);
		ops_left = whole;
		return any_foe(list, n);
	}
	if (!whole)
		return (unsigned int)(roll() % 4 ? 0 : roll() % (n + 1));
	if (!over || (ops_left && --ops_left))
		return 0;
	for (k = 0; k < n; k++)
		if (!list[k]->id)
			return k + 1;
	return any_foe(list, n);
}

static void duel_end(void)
{
	victim_is_done = at_end_of_op = false;
	end();
}

static void progress(unsigned int percent, unsigned int *number)
{
	static const struct scenario duel = {
		.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF), FREE(3) },
	};
	struct explore_job job = { .begin = duel_begin, .act = duel_act, .end = duel_end };
	unsigned int v, f, runs = DUELS * percent / 100;
	static char name[80];

	explore_plain = true;
	now = &duel;
	for (v = 0; v < sizeof(victims) / sizeof(victims[0]); v++) {
		victim = &victims[v];
		most_steps = 0;
		snprintf(name, sizeof(name), "%s ends in %u steps of its own", victim->what,
			 victim->bound);
		job.name = name;
		job.number = ++*number;
		for (f = 0; f < sizeof(against) / sizeof(against[0]); f++) {
			foes = &against[f];
			job.actors = foes->act[1][0].what ? 3 : 2;
			die = 88172645463325252u + f;
			for (whole = 0; whole <= 2; whole++)
				explore_duel(&job, pick, whole ? 2 : runs < 10 ? 10 : runs);
		}
		printf("# at most %llu\nok %u - %s\n", (unsigned long long)most_steps,
		       *number, name);
	}
}

static void choose(unsigned int i, struct explore_case *c)
{
	now = &scenarios[i];
	*c = (struct explore_case){
		.name = now->name, .asleep = now->asleep, .most = now->most, .dear = now->dear,
	};
	while (c->actors < EXPLORE_ACTORS && now->act[c->actors][0].what)
		c->actors++;
}

int main(int argc, char **argv)
{
	const struct explore_plan plan = {
		.program = "test_movers", .job = { .begin = begin, .act = act, .end = end },
		.scenarios = NSCENARIOS, .choose = choose, .after = progress,
	};

	return explore_main(argc, argv, &plan);
}
