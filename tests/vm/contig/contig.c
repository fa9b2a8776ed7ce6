// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * contig.c - while the module is loaded, a thread allocates one block of memory after the other as
 * contiguous pages, whatever lies in it, and gives it back: what taking memory offline does to its
 * pages.  Those that can move do.
 *
 * got and busy count blocks (pageblocks); zs_got and zs_busy the pages of zsmalloc's type that were
 * seen in them before.  A block is busy if a page in it did not move, of whatever kind.  zs_kept
 * are pages of zsmalloc that were there, and of its type, before and after one that was.
 */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pageblock-flags.h>
#include <linux/sched.h>

static ulong got, busy, zs_got, zs_busy, zs_kept, rounds;
module_param(got, ulong, 0444);
module_param(busy, ulong, 0444);
module_param(zs_got, ulong, 0444);
module_param(zs_busy, ulong, 0444);
module_param(zs_kept, ulong, 0444);
module_param(rounds, ulong, 0444);

static uint pause_us = 100;
module_param(pause_us, uint, 0444);
MODULE_PARM_DESC(pause_us, "Rest between two blocks (100)");

static struct task_struct *thread;

static unsigned long __maybe_unused zspages(unsigned long pfn)
{
	unsigned long n = 0;

	for (unsigned long i = 0; i < pageblock_nr_pages; i++)
		n += PageZsmalloc(pfn_to_page(pfn + i));
	return n;
}

static void block(unsigned long pfn)
{
#ifdef CONFIG_CONTIG_ALLOC
	unsigned long n = zspages(pfn);

	if (!alloc_contig_range(pfn, pfn + pageblock_nr_pages, ACR_FLAGS_NONE,
				GFP_KERNEL | __GFP_NOWARN)) {
		got++;
		zs_got += n;
		free_contig_range(pfn, pageblock_nr_pages);
		return;
	}
	busy++;
	zs_busy += n;
	zs_kept += min(n, zspages(pfn));
#endif
}

static bool whole(unsigned long pfn)
{
	unsigned long last = pfn + pageblock_nr_pages - 1;

	return pfn_valid(pfn) && pfn_valid(last) &&
	       page_zone(pfn_to_page(pfn)) == page_zone(pfn_to_page(last));
}

static int walk(void *unused)
{
	while (!kthread_should_stop()) {
		int nid;

		for_each_online_node(nid) {
			const pg_data_t *node = NODE_DATA(nid);
			unsigned long pfn = ALIGN(node->node_start_pfn, pageblock_nr_pages);
			unsigned long end = node->node_start_pfn + node->node_spanned_pages;

			for (; pfn + pageblock_nr_pages <= end && !kthread_should_stop();
			     pfn += pageblock_nr_pages) {
				if (whole(pfn))
					block(pfn);
				usleep_range(pause_us, pause_us + 10);
			}
		}
		rounds++;
	}
	return 0;
}

static int __init contig_init(void)
{
	if (!IS_ENABLED(CONFIG_CONTIG_ALLOC))
		return -ENODEV;
	thread = kthread_run(walk, NULL, "contig");
	return PTR_ERR_OR_ZERO(thread);
}

static void __exit contig_exit(void)
{
	kthread_stop(thread);
}

module_init(contig_init);
module_exit(contig_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Moves pages without a pause");
