// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* shrink.c - see shrink.h.  sparse has no lock: it is an estimate, and may lose a change. */
#include "shrink.h"

/* Pages of the source that the pool has, the reserve included. */
static u64 shrink_pages(struct shrink *sh)
{
	return pool_pages(sh->pool) + zspage_table_pages(&sh->pool->zspages) +
	       pages_reserved(sh->pool->pages_from);
}

/* What is sparse; 0 if ended, though a shrink_look() that ran may still write sparse. */
static u64 shrink_promised(struct shrink *sh)
{
	return READ_ONCE(sh->ended) ? 0 : READ_ONCE(sh->sparse);
}

u64 shrink_count(struct shrink *sh)
{
	return (release_backlog(sh->release) >> PAGE_SHIFT) + shrink_promised(sh);
}

/* Takes pages that compaction freed off sparse; after a whole pass sparse is 0 until a look. */
static void shrink_compacted(struct shrink *sh, u64 pages)
{
	u64 sparse = READ_ONCE(sh->sparse);

	if (host_a64_read(&sh->pool->compact_at) >= READ_ONCE(sh->until))
		sparse = 0;
	WRITE_ONCE(sh->sparse, sparse > pages ? sparse - pages : 0);
}

u64 shrink_some(struct shrink *sh)
{
	u64 before = shrink_pages(sh), compacted = 0, after, less;

	release_help(sh->release, numa_mem_id(), SHRINK_BUFS);
	if (shrink_promised(sh)) {
		compacted = pool_compact_some(sh->pool, SHRINK_STEPS);
		shrink_compacted(sh, compacted);
	}
	after = shrink_pages(sh);
	less = before > after ? before - after : 0;
	/* What others took meanwhile makes the difference smaller, at worst to 0. */
	return less > compacted ? less : compacted;
}

bool shrink_rest(struct shrink *sh, u64 ns)
{
	struct pool_compaction pc;
	u64 was = 0, begun = ktime_get_ns();

	pool_compact_begin(sh->pool, &pc);
	while (shrink_promised(sh) && !host_interrupted() &&
	       ktime_get_ns() - begun < ns && pool_compact_go(sh->pool, &pc, 1)) {
		shrink_compacted(sh, pc.pages - was);
		was = pc.pages;
		cond_resched();
	}
	return shrink_promised(sh) != 0;
}

void shrink_look(struct shrink *sh, u64 room)
{
	struct pool *p = sh->pool;
	u64 at = host_a64_read(&p->compact_at), done = host_a64_read(&p->pages_compacted);
	u64 pages = pool_pages(p), need, seems, freed, stuck;
	u32 i, n = p->table.nclasses;

	room += release_held(sh->release);
	need = room >> PAGE_SHIFT;
	for (i = 0; i < n; i++)
		need += READ_ONCE(p->class[i].partial) != 0;
	seems = pages > need ? pages - need : 0;
	if (at >= sh->until) {
		freed = done - sh->compacted;
		sh->stuck = sh->seemed > freed ? sh->seemed - freed : 0;
		sh->stuck_room = room;
		sh->seemed = seems;
		sh->compacted = done;
		WRITE_ONCE(sh->until, (at + n - 1) / n * n + n);
	}
	stuck = sh->stuck;
	if (room < sh->stuck_room)
		stuck = stuck * (room >> PAGE_SHIFT) /
			((sh->stuck_room >> PAGE_SHIFT) + 1);
	WRITE_ONCE(sh->sparse, seems > stuck ? seems - stuck : 0);
}

void shrink_set_ended(struct shrink *sh, bool ended)
{
	WRITE_ONCE(sh->ended, ended);
}
