// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_directory.c - a group's directory while it grows: who finds what, in every order of those
 * who need its next page and those who look numbers up.
 *
 * A group of one descriptor a chunk.  The test moves the first number that was never used on, so
 * that the directory is as large as it likes and yet has few leaves.
 */
#include "explore.h"
#include "rig.h"

#include <stdio.h>

#define UNITS 63
#define IDS 64

/* In the arena, so that each run begins with it as it was. */
struct growing {
	struct host_pages src;
	struct pages pages;
	struct zspage_table table;
	struct zspage_map map;
	struct zspage_group *group;
};

static struct growing *now;
static struct zspage_id id[IDS];
static unsigned int ids;

static void open_table(unsigned int cpus)
{
	home_open(cpus, HOME_PAGES);
	now = host_zalloc(sizeof(*now));
	must_eq(pages_init(&now->pages, &now->src, 0, NULL), 0);
	now->table.pages = &now->pages;
	now->group = zspage_group_get(&now->table, UNITS, 32, &now->map);
	must(now->group);
	now->group->capacity = 1;
	ids = 0;
}

static void close_table(void)
{
	zspage_free(&now->table, id, ids);
	zspage_table_destroy(&now->table);
	pages_destroy(&now->pages);
	host_free(now, sizeof(*now));
	home_close();
}

/* A descriptor that remembers its number. */
static int make(struct zspage_id *of, unsigned int how)
{
	int err = zspage_new(&now->table, now->group, 1, 1, NUMA_NO_NODE, how, &of->no);

	if (err)
		return err;
	of->group = now->group;
	zspage_at(&now->map, of->no)->owner = of->no;
	return 0;
}

/* The next chunk is number fresh, and its descriptor is kept in id[]. */
static void must_make(u32 fresh, unsigned int how)
{
	now->group->fresh = fresh;
	must_eq(make(&id[ids], how), 0);
	ids++;
}

static void must_be_found(u32 no)
{
	must_eq(zspage_at(&now->map, no)->owner, no);
}

static void all_must_be_found(void)
{
	unsigned int i;

	for (i = 0; i < ids; i++)
		must_be_found(id[i].no);
}

/* ---- in every order ---- */

static u32 fresh;               /* from where the actors go on */
static struct zspage_id got[4];
static bool has[4];

/* Numbers before where the directory is to grow, and one that it has from the beginning. */
static void begin(void)
{
	explore_doing("before");
	open_table(2);
	must_make(1, HOST_MAY_WAIT);
	must_make(fresh - 2, HOST_MAY_WAIT);
	now->group->fresh = fresh - 1;
}

/* The first may wait, the second may not; each needs two numbers.  The third looks up. */
static void act(unsigned int actor)
{
	unsigned int i;

	me->cpu = actor % 2;
	if (actor == 2) {
		all_must_be_found();
		return;
	}
	for (i = 2 * actor; i < 2 * actor + 2; i++) {
		me->atomic += actor;
		has[i] = !make(&got[i], actor ? 0 : HOST_MAY_WAIT);
		me->atomic -= actor;
		must(has[i]);
		must_be_found(got[i].no);
	}
}

static void end(void)
{
	unsigned int i, were = ids;

	explore_doing("after a run");
	for (i = 0; i < 4; i++)
		id[ids++] = got[i];
	all_must_be_found();
	must_eq(now->group->fresh, fresh + 3);
	close_table();
	ids = were;
	explore_doing("the actors");
}

static void explore_job(const struct explore_job *job)
{
	struct explore_result res;

	explore(job, 3, &res);
	printf("# %lu schedules, %lu cut, %u choices\nok %u - %s\n", res.schedules, res.cut,
	       res.points, job->number, job->name);
}

static void explore_from(u32 from, const char *name, unsigned int number)
{
	const struct explore_job job = {
		.name = name, .number = number, .actors = EXPLORE_ACTORS,
		.begin = begin, .act = act, .end = end,
	};

	fresh = from;
	explore_job(&job);
}

/* ---- the last number of all that the root leads to ---- */

static int last_err[2];

/* Neither its leaf nor its mid is there. */
static void begin_last(void)
{
	explore_doing("before");
	open_table(2);
	must_make(1, HOST_MAY_WAIT);
	now->group->fresh = now->group->limit - 1;
}

static void take_last(unsigned int actor)
{
	me->cpu = actor;
	last_err[actor] = make(&got[actor], HOST_MAY_WAIT);
}

static void end_last(void)
{
	unsigned int i, were = ids;

	explore_doing("after a run");
	for (i = 0; i < 2; i++) {
		if (!last_err[i])
			id[ids++] = got[i];
		else if (last_err[i] != -ENOSPC)
			explore_fail("the last number is refused by %d", last_err[i]);
	}
	if (ids != were + 1 || now->group->fresh != now->group->limit)
		explore_fail("%u have the last number", ids - were);
	all_must_be_found();
	must_eq(zspage_table_pages(&now->table), 4);
	close_table();
	ids = were;
	explore_doing("the actors");
}

static void explore_last(unsigned int number)
{
	const struct explore_job job = {
		.name = "the last number, whose leaf two bring", .number = number, .actors = 2,
		.begin = begin_last, .act = take_last, .end = end_last,
	};

	explore_job(&job);
}

int main(void)
{
	const u32 leaf = ZSPAGE_FEW, mid = leaf + (ZSPAGE_NEAR - 1) * ZSPAGE_LEAF;

	printf("1..4\n");
	explore_from(leaf, "the first leaf that is a page", 1);
	explore_from(leaf + ZSPAGE_LEAF, "the next one", 2);
	explore_from(mid, "a mid and its first leaf", 3);
	explore_last(4);
	return 0;
}
