// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_cell_check.c - the invariants of core/cell_check.c: each is broken once, and told by its
 * sentence, as those of core/check.c are in test_check.c.
 */
#include "cells_rig.h"
#include "wound.h"

#define OBJECTS 600
#define FREED 200               /* of which some are on the list of all, whatever CPU frees them */
#define BYTES 100

static cell_handle made[OBJECTS];       /* the first FREED of them are free */

static u64 *word_of(cell_handle h)
{
	return (u64 *)h;
}

static u32 number_of(cell_handle h)
{
	const u64 *chunk = (const u64 *)(h & ~HOST_PAGE_MASK);

	return (u32)(*chunk << CELL_BITS | (h & HOST_PAGE_MASK) / sizeof(u64));
}

/* A cell that is in use. */
#define USED made[OBJECTS - 1]

/* The first cell of the list of all. */
static u64 *listed(void)
{
	for (unsigned int i = 0; i < FREED; i++)
		if (number_of(made[i]) == rig.cells.list)
			return word_of(made[i]);
	must_failed(__FILE__, __LINE__, "no cell is on the list of all", 0, 1);
}

static struct cells_cpu *cpu_with_cells(void)
{
	for (unsigned int i = 0; i < host_percpu_items(&rig.cells.cpus); i++) {
		struct cells_cpu *cpu = host_percpu_peek(&rig.cells.cpus, i);

		if (cpu->n)
			return cpu;
	}
	must_failed(__FILE__, __LINE__, "no CPU has a free cell", 0, 1);
}

static struct release_cpu *cpu_with_refs(void)
{
	for (unsigned int i = 0; i < rig.cells.release.items; i++)
		if (host_a64_read(&rig.cells.release.item[i]->head) !=
		    host_a64_read(&rig.cells.release.item[i]->tail))
			return rig.cells.release.item[i];
	must_failed(__FILE__, __LINE__, "no reference waits in a buffer", 0, 1);
}

static u32 *key_of(cell_handle h)
{
	struct pool *p = &rig.cells.pool;
	u64 ref = slot_ref(*word_of(h));
	struct pool_class *c = ref_class(p, ref);

	return object_key(p, c, class_at(c, ref_zspage(c, ref)), ref_obj(c, ref));
}

static void pages(void) { HURT(*(u64 *)(void *)&rig.cells.pool.pages, 1); }
static void more_than_a_link(void) { HURT(*listed(), *listed() | (u64)1 << 32); }
static void reader(void) { HURT(*word_of(USED), *word_of(USED) + SLOT_READER); }
static void busy(void) { HURT(*word_of(USED), *word_of(USED) | SLOT_BUSY); }
static void chosen(void) { HURT(*word_of(USED), *word_of(USED) | SLOT_CHOSEN); }
static void type(void) { HURT(*word_of(USED), slot_make(SLOT_PAGE, slot_ref(*word_of(USED)))); }
static void no_such_zspage(void) { HURT(*word_of(USED), *word_of(USED) | REF_LOC_MASK); }
static void key(void) { HURT(*key_of(USED), number_of(made[OBJECTS - 2])); }
static void key_of_none(void) { HURT(*key_of(USED), 0); }
static void bytes(void) { HURT(cpu_with_refs()->pushed, cpu_with_refs()->pushed + 1); }
static void in_flight(void) { HURT(*(u64 *)(void *)&rig.cells.release.node->inflight[0], 1); }
static void held_in_a_record(void) { HURT(rig.cells.holds.bucket[0], 1); }
static void moving(void) { HURT(*(u64 *)(void *)&rig.cells.moves, 1); }
static void lost(void) { HURT(*word_of(USED), 0); }
static void objects(void) { HURT(cpu_with_cells()->objects, cpu_with_cells()->objects + 1); }
static void room(void) { HURT(cpu_with_cells()->room, cpu_with_cells()->room + 8); }
static void used_on_the_list(void) { HURT(rig.cells.list, number_of(USED)); }
static void used_of_a_cpu(void) { HURT(cpu_with_cells()->free[0], (host_a64 *)USED); }
static void off_the_list(void) { HURT(rig.cells.list, 0); }
static void round_the_list(void) { HURT(*listed(), rig.cells.list); }
static void not_cut(void) { HURT(rig.cells.cut, rig.cells.cut + 1); }
static void off_a_cpu(void) { HURT(cpu_with_cells()->n, cpu_with_cells()->n - 1); }

static const struct damage table[] = {
	{ pages, "pages in zspages != pool_pages()" },
	{ more_than_a_link, "a free cell says more than which is the next one" },
	{ reader, "a cell is held by nobody, or of no type" },
	{ busy, "a cell is held by nobody, or of no type" },
	{ chosen, "a cell is held by nobody, or of no type" },
	{ type, "a cell is held by nobody, or of no type" },
	{ no_such_zspage, "a reference names a zspage that is not there" },
	{ key, "an object has another cell's number" },
	{ key_of_none, "an object has another cell's number" },
	{ bytes, "bytes of a buffer != sum of what its objects take" },
	{ in_flight, "references are in flight, and nobody is there" },
	{ held_in_a_record, "an object is held, or a page moved, by nobody" },
	{ moving, "an object is held, or a page moved, by nobody" },
	{ lost, "objects in use != references in cells and buffers" },
	{ objects, "a counter does not match the cells" },
	{ room, "a counter does not match the cells" },
	{ used_on_the_list, "a cell in use is on the list of free ones" },
	{ used_of_a_cpu, "a CPU's free cell is in use" },
	{ off_the_list, "free cells are not all on lists, or twice" },
	{ round_the_list, "free cells are not all on lists, or twice" },
	{ not_cut, "free cells are not all on lists, or twice" },
	{ off_a_cpu, "free cells are not all on lists, or twice" },
};

static const char *check(void)
{
	return cells_check(&rig.cells);
}

static void each_invariant_that_is_broken_is_told(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = 1 << 30 });
	cpu_set_t all = stay_on_this_cpu();

	for (unsigned int i = 0; i < OBJECTS; i++)
		must_eq(cells_alloc(s, BYTES, HOST_ANY_NODE, HOST_MAY_WAIT, &made[i]), 0);
	host_work_flush(&s->top_up);
	hold_workers(&s->release);
	for (unsigned int i = 0; i < FREED; i++)
		cells_free(s, made[i]);
	must_hold(check());
	must_tell_each(table, ARRAY_LEN(table), check);
	/* Compaction's claim is no damage. */
	HURT(*word_of(USED), *word_of(USED) | SLOT_IDLE);
	must_hold(check());
	heal();
	let_workers(&s->release);
	rig_check();
	rig_close();
	must_eq(sched_setaffinity(0, sizeof(all), &all), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_invariant_that_is_broken_is_told),
	};

	return cmocka_run_group_tests_name("cell_check", tests, NULL, NULL);
}
