// SPDX-License-Identifier: GPL-2.0-only
/* classes.c - see classes.h.  Rows and columns are in-tree's: classes without zspages, too. */
#include "classes.h"

#include <linux/seq_file.h>

#define ROW_TAIL "%13llu %10llu %10llu"

static void show_row(struct seq_file *m, const struct size_class *c,
		     const struct pool_class_stat *row, struct pool_class_stat *total)
{
	unsigned int k;

	seq_printf(m, " %5u %5u ", c->index, c->size);
	for (k = 0; k < POOL_FULLNESS; k++) {
		seq_printf(m, "%9llu ", row->zspages[k]);
		total->zspages[k] += row->zspages[k];
	}
	seq_printf(m, ROW_TAIL " %16u %8llu\n", row->objs, row->used, row->pages, c->pages,
		   row->freeable);
	total->objs += row->objs;
	total->used += row->used;
	total->pages += row->pages;
	total->freeable += row->freeable;
}

void pool_classes_show(struct seq_file *m, struct pool *p, struct pool_class_stat *rows)
{
	struct pool_class_stat total = { 0 };
	unsigned int i;

	pool_class_stats(p, rows);
	seq_printf(m, " %5s %5s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %9s %13s %10s %10s %16s %8s\n",
		   "class", "size", "10%", "20%", "30%", "40%", "50%", "60%", "70%", "80%", "90%",
		   "99%", "100%", "obj_allocated", "obj_used", "pages_used", "pages_per_zspage",
		   "freeable");
	for (i = 0; i < p->table.nclasses; i++)
		show_row(m, &p->table.class[i], &rows[i], &total);
	seq_printf(m, "\n %5s %5s ", "Total", "");
	for (i = 0; i < POOL_FULLNESS; i++)
		seq_printf(m, "%9llu ", total.zspages[i]);
	seq_printf(m, ROW_TAIL " %16s %8llu\n", total.objs, total.used, total.pages, "",
		   total.freeable);
}
