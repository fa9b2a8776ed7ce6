/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cells_rig.h - cells over a zone, with two sets of page lists: pages of zspages come from one, and
 * all else from the other.  tag[] is what the kernel keeps in struct page.
 */
#ifndef EBB_TESTS_CELLS_RIG_H
#define EBB_TESTS_CELLS_RIG_H

#include "support.h"
#include "check.h"
#include "migrate.h"
#include "stay.h"

#define RIG_PAGES (1u << 20)

struct rig {
	struct host_pages *zone;
	struct pcp fixed, movable;
	struct cells cells;
};

static struct rig rig;
static host_a64 tags[RIG_PAGES];        /* by page */

static void rig_tag(void *ctx, host_page page, u64 tag)
{
	must(ctx == &rig && page < RIG_PAGES && tag);
	host_a64_set_release(&tags[page], tag);
}

/* Cells as cfg has them, but for what is the rig's. */
static inline struct cells *rig_open(struct cells_config cfg)
{
	memset(&rig, 0, sizeof(rig));
	memset(tags, 0, sizeof(tags));
	must_eq(zone_open(&rig.zone), 0);
	must_eq(pcp_init(&rig.fixed, rig.zone, 16, 64, 0), 0);
	must_eq(pcp_init(&rig.movable, rig.zone, 16, 64, 0), 0);
	cfg.chain = cfg.chain ? cfg.chain : 8;
	cfg.movable = &rig.movable;
	cfg.tag = rig_tag;
	cfg.ctx = &rig;
	must_eq(cells_init(&rig.cells, &rig.fixed, &cfg), 0);
	return &rig.cells;
}

/* Every invariant; nobody else uses the cells. */
static inline void rig_check(void)
{
	struct cells *s = &rig.cells;

	release_quiesce(&s->release);
	host_work_flush(&s->top_up);
	must_hold(cells_check(s));
	must_hold(pcp_check(&rig.movable, pool_pages(&s->pool)));
	must_hold(pcp_check(&rig.fixed, cells_pages_taken(s) - pool_pages(&s->pool)));
	must_be_at_most(cells_held(s), CELLS_TELL * host_percpu_items(&s->cpus));
}

/* Everything that was taken must be back, whatever was left in the cells. */
static inline void rig_close(void)
{
	struct zone_stat stat;
	char why[128];

	cells_destroy(&rig.cells);
	must_hold(pcp_check(&rig.movable, 0));
	must_hold(pcp_check(&rig.fixed, 0));
	pcp_destroy(&rig.movable);
	pcp_destroy(&rig.fixed);
	zone_stat(rig.zone, &stat);
	must_eq(stat.pages_out, 0);
	if (zone_check(rig.zone, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
	zone_close(rig.zone);
}

/*
 * A page that moves, as the kernel does it: found by its tag, pinned, moved to a fresh page,
 * unpinned. What cells_pin() or cells_move() says.
 */
static inline int rig_move(host_page from)
{
	u64 tag = host_a64_read_acquire(&tags[from]);
	host_page to;
	int err;

	if (!tag)
		return -EAGAIN;
	err = cells_pin(&rig.cells, from, tag);
	if (err)
		return err;
	must_eq(host_pages_alloc(rig.zone, &to, 1, HOST_ANY_NODE, HOST_MAY_WAIT), 1);
	err = cells_move(&rig.cells, tag, from, to);
	host_pages_free(rig.zone, err ? &to : &from, 1);
	cells_unpin(&rig.cells, tag);
	return err;
}

#endif
