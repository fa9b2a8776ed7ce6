// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_cells_faults.c - cells whose start runs out of memory or is asked for the impossible, whose
 * pages stay where they are, and handles that their caller has no right to.
 */
#include "cells_rig.h"

#include <unistd.h>

static unsigned char bytes[HOST_PAGE_SIZE], copy[HOST_PAGE_SIZE];

/* ---- the start ---- */

static unsigned int countdown;  /* the allocation that fails; 0: none does any more */

static bool fail_now(void)
{
	return countdown && !--countdown;
}

/* A rig without cells, with which the caller does as rig_open() does. */
static struct cells_config lists_only(void)
{
	cells_destroy(rig_open((struct cells_config){ 0 }));
	return rig.cells.cfg;
}

static void a_start_that_runs_out_of_memory_leaves_nothing(void **state)
{
	struct cells_config cfg = lists_only();
	unsigned int n = 0, failed = 0;
	int err;

	cfg.release_limit = (u64)1 << 20;
	do {
		countdown = ++n;
		host_user_fail = fail_now;
		err = cells_init(&rig.cells, &rig.fixed, &cfg);
		host_user_fail = NULL;
		must(!err || err == -ENOMEM);
		failed += err != 0;
		/* Spare pages that could not be had are made later. */
		if (!err) {
			host_work_flush(&rig.cells.top_up);
			must_hold(cells_check(&rig.cells));
			cells_destroy(&rig.cells);
		}
		must_hold(pcp_check(&rig.movable, 0));
		must_hold(pcp_check(&rig.fixed, 0));
	} while (!countdown);
	must(failed >= 6);
	countdown = 0;
	must_eq(cells_init(&rig.cells, &rig.fixed, &cfg), 0);
	rig_close();
}

static void impossible_configurations_are_refused(void **state)
{
	struct cells_config cfg = lists_only();

	cfg.tag = NULL;
	must_eq(cells_init(&rig.cells, &rig.fixed, &cfg), -EINVAL);
	cfg.tag = rig_tag;
	cfg.most = (u64)CELLS_MOST + 1;
	must_eq(cells_init(&rig.cells, &rig.fixed, &cfg), -EINVAL);
	cfg.most = 0;
	cfg.chain = CHAIN_MAX + 1;
	must_eq(cells_init(&rig.cells, &rig.fixed, &cfg), -EINVAL);
	/* The last number that fits in an object's key is of the last chunk there may be. */
	cfg.chain = CHAIN_MAX;
	cfg.most = CELLS_MOST;
	must_eq(cells_init(&rig.cells, &rig.fixed, &cfg), 0);
	must_eq(rig.cells.limit, (u64)1 << (32 - CELL_BITS));
	rig_close();
}

/* Without a list of movable pages all come from one, and nobody is told of which zspage. */
static void pages_that_cannot_be_moved_come_from_the_other_list(void **state)
{
	struct cells_config cfg = lists_only();
	const unsigned int how = HOST_MAY_WAIT | HOST_MOVABLE;
	struct cells *s = &rig.cells;
	cell_handle h[300];

	cfg.movable = NULL;
	cfg.tag = NULL;
	must_eq(cells_init(s, &rig.fixed, &cfg), 0);
	for (unsigned int i = 0; i < ARRAY_LEN(h); i++) {
		must_eq(cells_alloc(s, 1000, HOST_ANY_NODE, how, &h[i]), 0);
		fill_random(bytes, 1000, i);
		cells_write(s, h[i], bytes, 1000);
	}
	must_hold(pcp_check(&rig.movable, 0));
	for (unsigned int i = 0; i < ARRAY_LEN(h); i++) {
		fill_random(bytes, 1000, i);
		must(!memcmp(cells_read_begin(s, h[i], copy), bytes, 1000));
		cells_end(s, h[i]);
		cells_free(s, h[i]);
	}
	host_work_flush(&s->top_up);
	must_hold(cells_check(s));
	must_hold(pcp_check(&rig.fixed, cells_pages_taken(s)));
	rig_close();
}

/* ---- handles ---- */

static FILE *caught;
static int stderr_was;

/* From now on what is written to stderr is kept, until told() returns it. */
static void catch_stderr(void)
{
	caught = tmpfile();
	stderr_was = dup(STDERR_FILENO);
	must(caught && stderr_was >= 0);
	must(dup2(fileno(caught), STDERR_FILENO) >= 0);
}

static const char *told(void)
{
	static char text[2000];

	must(dup2(stderr_was, STDERR_FILENO) >= 0);
	close(stderr_was);
	rewind(caught);
	text[fread(text, 1, sizeof(text) - 1, caught)] = '\0';
	fclose(caught);
	return text;
}

static void who_has_no_right_to_a_handle_is_told_and_harms_nobody(void **state)
{
	struct cells *s = rig_open((struct cells_config){ 0 });
	struct cells_piece piece[2];
	cell_handle gone, kept;
	const char *text;

	must_eq(cells_alloc(s, 700, ANYHOW, &gone), 0);
	must_eq(cells_alloc(s, 700, ANYHOW, &kept), 0);
	fill_random(bytes, 700, 1);
	cells_write(s, kept, bytes, 700);
	cells_free(s, gone);
	catch_stderr();
	cells_free(s, gone);
	cells_free_bulk(s, &gone, 1);
	must_eq(cells_begin(s, gone, piece), 0);
	must(!cells_read_begin(s, gone, copy));
	cells_write(s, gone, bytes, 700);
	cells_end(s, gone);
	cells_end(s, kept);
	text = told();
	must(strstr(text, "a handle is freed that is not in use"));
	must(strstr(text, "a handle is read that is not in use"));
	must(strstr(text, "a handle is let go of that nobody reads"));
	must_eq(cells_objects(s), 1);
	must(!memcmp(cells_read_begin(s, kept, copy), bytes, 700));
	cells_end(s, kept);
	rig_check();
	rig_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_that_runs_out_of_memory_leaves_nothing),
		cmocka_unit_test(impossible_configurations_are_refused),
		cmocka_unit_test(pages_that_cannot_be_moved_come_from_the_other_list),
		cmocka_unit_test(who_has_no_right_to_a_handle_is_told_and_harms_nobody),
	};

	return cmocka_run_group_tests_name("cells_faults", tests, NULL, NULL);
}
