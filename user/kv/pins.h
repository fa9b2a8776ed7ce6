/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pins.h - memory for the pins of a cache: the system's own pages, of which each is counted.
 *
 * malloc() keeps pages of pins that were released, and tells nobody which cache has them.
 */
#ifndef EBB_USER_PINS_H
#define EBB_USER_PINS_H

#include "host.h"

struct pins_region;

struct pins {
	spinlock_t lock;
	struct pins_region *regions;    /* lock */
	host_a64 used;                  /* bytes of pages that pins have */
	host_a64 idle;                  /* of pages that are in memory for the next ones */
};

/* Where a pin is. */
struct pins_place {
	struct pins_region *region;     /* NULL: in a mapping of its own */
	size_t bytes;                   /* of its pages */
};

void pins_init(struct pins *p);
/* Unmaps all regions; mappings of pins that were not given back stay. */
void pins_destroy(struct pins *p);

/* At least bytes, in whole pages, with anything in them; NULL: memory is short. */
void *pins_take(struct pins *p, size_t bytes, struct pins_place *place);
void pins_give(struct pins *p, void *at, const struct pins_place *place);

#endif
