// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_directory.c - a group's directory while it grows: what is done in one hold of its lock, and
 * who finds what, in every order of those who make the next array, need it, and look numbers up.
 *
 * A group of one descriptor a chunk.  Between two allocations the test moves the first number that
 * was never used on, so that an array has few leaves and yet any size.
 */
#include "explore.h"
#include "rig.h"

#include <stdio.h>

#define LEAF (1u << ZSPAGE_LEAF_BITS)
#define UNITS 63
#define BATCH 4
#define IDS 64
#define LARGE 32768u            /* leaves, if there are numbers for so many: 4 TiB and past it */
#define SIZE 256u               /* four pieces of a copy */

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
	if (pages_init(&now->pages, &now->src, 0, NULL))
		explore_fail("lists cannot be made");
	zspage_table_init(&now->table, &now->pages);
	now->group = zspage_group_get(&now->table, UNITS, 32, &now->map);
	if (!now->group)
		explore_fail("a group cannot be made");
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

static u32 size(void)
{
	return ((const struct zspage_dir *)(size_t)now->group->map.dir.v)->size;
}

/* A descriptor that remembers its number. */
static int make(struct zspage_id *of, unsigned int how)
{
	int err = zspage_new(&now->table, now->group, 1, 1, HOST_ANY_NODE, how, &of->no);

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
	if (make(&id[ids], how))
		explore_fail("chunk %u has no place in %u leaves", fresh, size());
	ids++;
}

static void must_be_found(u32 no)
{
	if (zspage_at(&now->map, no)->owner != no)
		explore_fail("another descriptor is found than that of number %u", no);
}

static void all_must_be_found(void)
{
	unsigned int i;

	for (i = 0; i < ids; i++)
		must_be_found(id[i].no);
}

/* Makes the array have so many leaves, with one descriptor below its middle and one above it. */
static void grow_to(u32 leaves)
{
	u32 n;

	must_make(ZSPAGE_FEW, HOST_MAY_WAIT);
	for (n = size(); n < leaves; n *= 2) {
		must_make(n * LEAF - 1, HOST_MAY_WAIT);
		must_make(n * LEAF, HOST_MAY_WAIT);
		if (size() != 2 * n)
			explore_fail("there are %u leaves after %u", size(), n);
	}
}

static void no_hold_of_a_group_s_lock_grows_with_its_directory(void)
{
	const u64 most = 64 * sizeof(size_t *);
	u32 leaves;

	open_table(HOME_CPUS_SMALL * 8);
	home_stat_reset();
	leaves = now->group->limit / LEAF;
	leaves = leaves < LARGE ? leaves : LARGE;
	grow_to(leaves);
	all_must_be_found();
	if (home_lock_stat("ebb_zspage_group")->copied > most)
		explore_fail("%llu bytes are copied under a group's lock on the way to %u leaves",
			     (unsigned long long)home_lock_stat("ebb_zspage_group")->copied, leaves);
	close_table();
}

/* ---- in every order ---- */

static u32 fresh;               /* from where the actors go on */
static struct zspage_id got[2];
static bool has[2];

static void begin(void)
{
	explore_doing("before");
	open_table(2);
	grow_to(SIZE);
	now->group->fresh = fresh;
}

/* The first may wait, and so makes the next array; the second may not; the third looks up. */
static void act(unsigned int actor)
{
	bool there;
	int err;

	me->cpu = actor % 2;
	switch (actor) {
	case 0:
		has[0] = !make(&got[0], HOST_MAY_WAIT);
		if (!has[0])
			explore_fail("who may wait finds no place");
		break;
	case 1:
		there = now->group->spare || size() > SIZE || fresh < SIZE * LEAF;
		me->atomic++;
		err = make(&got[1], 0);
		me->atomic--;
		has[1] = !err;
		if (err && there)
			explore_fail("who may not wait waits for who copies");
		break;
	default:
		all_must_be_found();
	}
}

static void end(void)
{
	unsigned int i, were = ids;

	explore_doing("after a run");
	for (i = 0; i < 2; i++)
		if (has[i])
			id[ids++] = got[i];
	all_must_be_found();
	/* Whatever was copied when, the next array has all of it. */
	while (size() < 4 * SIZE)
		must_make(size() * LEAF, HOST_MAY_WAIT);
	all_must_be_found();
	close_table();
	ids = were;
	explore_doing("the actors");
}

static void explore_from(u32 from, const char *name, unsigned int number)
{
	const struct explore_job job = {
		.name = name, .number = number, .actors = EXPLORE_ACTORS,
		.begin = begin, .act = act, .end = end,
	};
	struct explore_result res;

	fresh = from;
	explore(&job, 3, &res);
	printf("# %llu schedules, %llu cut, %u choices\nok %u - %s\n",
	       (unsigned long long)res.schedules, (unsigned long long)res.cut, res.points, number,
	       name);
}

int main(void)
{
	printf("1..3\n");
	no_hold_of_a_group_s_lock_grows_with_its_directory();
	printf("ok 1 - no hold of a group's lock grows with its directory\n");
	explore_from((SIZE - 1) * LEAF, "a leaf comes while the next array is made", 2);
	explore_from(SIZE * LEAF, "an array is needed while it is made", 3);
	return 0;
}
