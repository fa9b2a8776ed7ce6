/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.h - one name for what kernels from 6.12 on call by several; which one it is, was
 * found out by probe.sh when the module was built.
 */
#ifndef EBB_KERNEL_COMPAT_H
#define EBB_KERNEL_COMPAT_H

#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/vmstat.h>

#include "probed.h"

/* Fills the zeroed array pages from its start; returns how many. */
static inline unsigned long compat_alloc_pages_bulk(gfp_t gfp, int node, unsigned long n,
						    struct page **pages)
{
#if HAVE_ALLOC_PAGES_BULK_NODE
	return alloc_pages_bulk_node(gfp, node, n, pages);
#else
	return alloc_pages_bulk_array_node(gfp, node, n, pages);
#endif
}

/* n pages of zone more, or less, in nr_zspages. */
static inline void compat_count_zspages(struct zone *zone, long n)
{
#if HAVE_NR_ZSPAGES
	mod_zone_page_state(zone, NR_ZSPAGES, n);
#endif
}

static inline void compat_hrtimer_setup(struct hrtimer *timer,
					enum hrtimer_restart (*fn)(struct hrtimer *))
{
#if HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = fn;
#endif
}

#endif
