// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* shrink.c - see shrink.h.  No lock of its own: sparse is a figure, and may lose a change. */
#include "store.h"

/* Pages in page lists: taken from the source, but in no use and not in the reserve. */
static u64 in_lists(struct store *s)
{
	struct pcp *pcp = s->pool.pcp;
	u64 out = pcp_taken(pcp), used = pool_pages(&s->pool) + pcp_reserved(pcp) +
					 zspage_table_pages(&s->pool.zspages) + host_a64_read(&s->pieces);

	return out > used ? out - used : 0;
}

/* Who looked before the end may write sparse after it. */
static u64 promised(struct store *s)
{
	return host_read_once(s->shrink.ended) ? 0 : host_read_once(s->shrink.sparse);
}

u64 store_shrinkable(struct store *s)
{
	return (release_backlog(&s->release) >> HOST_PAGE_SHIFT) + in_lists(s) + promised(s);
}

/* Compaction freed so many pages; past a whole pass there is no more, until the next look. */
static void compacted(struct store *s, u64 pages)
{
	struct shrink *sh = &s->shrink;
	u64 sparse = host_read_once(sh->sparse);

	if (host_a64_read(&s->pool.compact_at) >= host_read_once(sh->until))
		sparse = 0;
	host_write_once(sh->sparse, sparse > pages ? sparse - pages : 0);
}

u64 store_shrink(struct store *s)
{
	u64 before = pcp_taken(s->pool.pcp), after;

	release_help(&s->release, host_node(), SHRINK_BUFS);
	if (promised(s))
		compacted(s, pool_compact_some(&s->pool, SHRINK_STEPS));
	pcp_drain_some(s->pool.pcp, SHRINK_LISTS);
	after = pcp_taken(s->pool.pcp);
	return before > after ? before - after : 0;
}

bool store_shrink_sparse(struct store *s, u64 ns)
{
	struct pool_compaction pc;
	u64 was = 0, begun = host_now_ns();

	pool_compact_begin(&s->pool, &pc);
	while (promised(s) && !host_interrupted() &&
	       host_now_ns() - begun < ns && pool_compact_go(&s->pool, &pc, 1)) {
		compacted(s, pc.pages - was);
		was = pc.pages;
		host_resched();
	}
	return promised(s) != 0;
}

void store_shrink_rest(struct store *s)
{
	store_shrink_sparse(s, ~(u64)0);
	pcp_drain(s->pool.pcp);
}

void store_shrink_look(struct store *s)
{
	struct shrink *sh = &s->shrink;
	struct pool *p = &s->pool;
	u64 at = host_a64_read(&p->compact_at), done = host_a64_read(&p->pages_compacted);
	u64 pages = pool_pages(p), room = store_count(s, CNT_ROOM) + release_held(&s->release);
	u64 need = room >> HOST_PAGE_SHIFT, seems, freed, stuck;
	u32 i, n = p->table.nclasses;

	for (i = 0; i < n; i++)
		need += host_read_once(p->class[i].partial) != 0;
	seems = pages > need ? pages - need : 0;
	if (at >= sh->until) {
		freed = done - sh->compacted;
		sh->stuck = sh->then > freed ? sh->then - freed : 0;
		sh->stuck_room = room;
		sh->then = seems;
		sh->compacted = done;
		host_write_once(sh->until, (at + n - 1) / n * n + n);
	}
	stuck = sh->stuck;
	if (room < sh->stuck_room)
		stuck = stuck * (room >> HOST_PAGE_SHIFT) / ((sh->stuck_room >> HOST_PAGE_SHIFT) + 1);
	host_write_once(sh->sparse, seems > stuck ? seems - stuck : 0);
}

void store_shrink_end(struct store *s)
{
	host_write_once(s->shrink.ended, 1);
}

void store_shrink_resume(struct store *s)
{
	host_write_once(s->shrink.ended, 0);
}
