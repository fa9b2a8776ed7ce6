/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * store_rig.h - a store over a page source of its own, with units or a backing device if a test
 * wants them.  It ends with the case, whole.
 */
#ifndef EBB_TESTS_STORE_RIG_H
#define EBB_TESTS_STORE_RIG_H

#include "support.h"
#include "store_calls.h"
#include "tier/tier_check.h"
#include "tier/unit.h"

struct rig {
	struct source source;
	struct store store;
	struct backed backed;
	bool is_open;
};

static struct rig rig;
static struct units units;

static struct store *rig_make(const struct store_config *cfg)
{
	source_open(&rig.source);
	must_eq(store_init(&rig.store, &rig.source.pages, cfg), 0);
	rig.is_open = true;
	return &rig.store;
}

/* With a backing device of so many blocks. */
static inline struct store *rig_make_backed(const struct store_config *cfg, u64 blocks)
{
	rig_make(cfg);
	must_eq(store_back(&rig.store, &rig.backed, blocks), 0);
	return &rig.store;
}

static inline void rig_close(void)
{
	rig.is_open = false;
	release_quiesce(&rig.store.release);
	must_hold(rig.store.backed ? tier_check(&rig.store) : store_check(&rig.store));
	store_destroy(&rig.store);
	backed_destroy(&rig.backed);
	units_destroy(&units);
	source_close(&rig.source);
}

void after_each(void)
{
	if (rig.is_open)
		rig_close();
}

#endif
