// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* compact.c - see compact.h: takes the steps of a compaction (pool.h) one after the other. */
#include "compact.h"

u64 pool_compact(struct pool *p)
{
	struct pool_compaction pc;

	pool_compact_begin(p, &pc);
	while (!host_interrupted() && pool_compact_go(p, &pc, 1))
		cond_resched();
	return pc.pages;
}

u64 store_compact(struct store *s)
{
	release_flush(&s->release);
	return pool_compact(&s->pool);
}

void shrink_look_anew(struct shrink *sh, u64 room)
{
	/* As if the last pass was over, and had left nothing. */
	WRITE_ONCE(sh->until, 0);
	sh->seemed = 0;
	shrink_look(sh, room);
}
