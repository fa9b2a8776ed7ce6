// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* stats.c - the "classes" table, counted from the descriptors when it is asked for. */
#include "pool.h"

struct tally {
	struct pool *p;
	struct pool_class_stat *rows;
};

static void stats_tally(struct zspage *z, void *arg)
{
	struct tally *t = arg;
	struct pool_class *c = &t->p->class[z->class];
	struct pool_class_stat *row = &t->rows[z->class];
	u64 state = host_a64_read(zspage_state(z, c->words));
	unsigned int inuse = zspage_inuse_of(state, c->words);
	unsigned int pages = READ_ONCE(z->pages);

	if (!inuse)
		return;         /* on its way in or out */
	row->zspages[inuse >= c->objs ? POOL_FULLNESS - 1 : class_list(c, inuse) - 1]++;
	row->objs += pages == c->pages ? c->objs : ((size_t)pages << PAGE_SHIFT) / c->size;
	row->used += inuse;
	row->pages += pages;
}

void pool_class_stats(struct pool *p, struct pool_class_stat *rows)
{
	struct tally t = { .p = p, .rows = rows };
	u32 i;

	memset(rows, 0, p->table.nclasses * sizeof(*rows));
	zspage_each(&p->zspages, stats_tally, &t);
	for (i = 0; i < p->table.nclasses; i++) {
		struct pool_class *c = &p->class[i];
		u64 whole = rows[i].used / c->objs, rest = rows[i].used % c->objs;
		u64 need = whole * c->pages +
			   ((rest * c->size + PAGE_SIZE - 1) >> PAGE_SHIFT);

		rows[i].freeable = rows[i].pages > need ? rows[i].pages - need : 0;
	}
}
