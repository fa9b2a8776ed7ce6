/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* store_rig.h - a store of the core over a page source of its own, whole when it ends. */
#ifndef EBB_TESTS_STORE_RIG_H
#define EBB_TESTS_STORE_RIG_H

#include "support.h"
#include "check.h"

struct rig {
	struct source source;
	struct store store;
};

static struct rig rig;

static struct store *rig_make(const struct store_config *cfg)
{
	source_open(&rig.source);
	must_eq(store_init(&rig.store, &rig.source.pages, cfg), 0);
	return &rig.store;
}

static void rig_close(void)
{
	release_quiesce(&rig.store.release);
	must_hold(store_check(&rig.store));
	store_destroy(&rig.store);
	source_close(&rig.source);
}

#endif
