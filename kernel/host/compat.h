/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.h - one name for what kernels from 6.12 on call by several.  Where no macro tells which
 * it is, Kbuild found that out.
 */
#ifndef EBB_KERNEL_COMPAT_H
#define EBB_KERNEL_COMPAT_H

#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/vmstat.h>

#ifndef alloc_pages_bulk_node
#define alloc_pages_bulk_node alloc_pages_bulk_array_node
#endif

/* n pages of zone more, or less, in nr_zspages. */
static inline void compat_count_zspages(struct zone *zone, long n)
{
#if IS_ENABLED(CONFIG_ZSMALLOC)
	mod_zone_page_state(zone, NR_ZSPAGES, n);
#endif
}

static inline void compat_hrtimer_setup(struct hrtimer *timer,
					enum hrtimer_restart (*fn)(struct hrtimer *))
{
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = fn;
#endif
}

#endif
