// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pcp.c - owns the free pages that are cached for each CPU.
 *
 * Lock order: a list's lock is a leaf; no two of them are held at a time, and the zone's is never
 * taken under one: a chunk is copied out first (PCP_BATCH_MAX page names on the stack).
 *
 * Pages in other CPUs' lists come before waiting: they are free memory that only we can use, and to
 * look at PCP_LOOK of them takes microseconds, where waiting is a call of the system.
 */
#include "mm/pages.h"
#include "pcp.h"
#include "zone.h"

/* ---- one list; its lock is held ---- */

static void pcp_list_raise(const struct pcp *pcp, struct pcp_list *l)
{
	l->high = pages_at_most(l->high + pcp->batch, pcp->high_max);
}

/* Moves up to n pages, and at most a batch, from the end of the list to out. */
static unsigned int pcp_list_take(const struct pcp *pcp, struct pcp_list *l, host_page *out,
				  unsigned int n)
{
	n = pages_at_most(pages_at_most(n, pcp->batch), l->count);
	WRITE_ONCE(l->count, l->count - n);
	memcpy(out, l->page + l->count, n * sizeof(*out));
	return n;
}

/* ---- between lists and the zone; no lock is held ---- */

/*
 * The own CPU's list, locked; or the next CPU's, if that one is free at the moment and the own is
 * not: who holds it may have lost the CPU.
 */
__no_context_analysis        /* it returns with a lock that it cannot name */
static struct pcp_list *pcp_lock_near(struct pcp *pcp)
{
	unsigned int cpu = raw_smp_processor_id(), next;
	struct pcp_list *l = pcp->list[cpu];

	if (likely(spin_trylock(&l->lock)))
		return l;
	next = (cpu + 1) % nr_cpu_ids;
	if (next != cpu && spin_trylock(&pcp->list[next]->lock))
		return pcp->list[next];
	spin_lock(&l->lock);
	return l;
}

__no_context_analysis
static unsigned int pcp_from_list(struct pcp *pcp, host_page *out, unsigned int n)
{
	struct pcp_list *l = pcp_lock_near(pcp);
	unsigned int k = pcp_list_take(pcp, l, out, n);

	if (k < pages_at_most(n, pcp->batch))
		pcp_list_raise(pcp, l);
	l->used = true;
	spin_unlock(&l->lock);
	return k;
}

/* A batch from the zone, of which up to n go to out and the rest to a list. */
static unsigned int pcp_from_zone(struct pcp *pcp, host_page *out, unsigned int n,
				  unsigned int how)
{
	host_page page[PCP_BATCH_MAX] __uninitialized;
	unsigned int k = zone_pages_alloc(pcp->zone, page, pcp->batch, how);

	n = pages_at_most(n, k);
	memcpy(out, page, n * sizeof(*out));
	host_pages_free(pcp->zone, page + n, k - n);
	return n;
}

/* Takes up to n pages of one other list, of which at most PCP_LOOK are looked at. */
__no_context_analysis        /* of a lock that was tried */
static unsigned int pcp_from_others(struct pcp *pcp, host_page *out, unsigned int n)
{
	unsigned int cpus = nr_cpu_ids, look = pages_at_most(cpus, PCP_LOOK), k = 0, i;
	u64 at = host_a64_add(&pcp->cursor, look) - look;

	for (i = 0; i < look && !k; i++) {
		struct pcp_list *l = pcp->list[(at + i) % cpus];

		if (!READ_ONCE(l->count) || !spin_trylock(&l->lock))
			continue;
		k = pcp_list_take(pcp, l, out, n);
		spin_unlock(&l->lock);
	}
	return k;
}

/* What the own list has not.  By itself: the fast path has no page names on its stack. */
__attribute__((noinline))
static unsigned int pcp_alloc_more(struct pcp *pcp, host_page *out, unsigned int got,
				   unsigned int n, unsigned int how)
{
	unsigned int k;

	for (; got < n; got += k) {
		k = pcp_from_list(pcp, out + got, n - got);
		if (!k)
			k = pcp_from_zone(pcp, out + got, n - got, 0);
		if (!k)
			k = pcp_from_others(pcp, out + got, n - got);
		if (!k && how & HOST_MAY_WAIT)
			k = pcp_from_zone(pcp, out + got, n - got, how);
		if (!k)
			break;
	}
	return got;
}

unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int node, unsigned int how)
{
	unsigned int k = pcp_from_list(src->pcp, out, n);

	(void)node;
	if (likely(k == n) || how & HOST_AT_HAND)
		return k;
	return pcp_alloc_more(src->pcp, out, k, n, how);
}

__no_context_analysis
void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	struct pcp *pcp = src->pcp;
	host_page chunk[PCP_BATCH_MAX] __uninitialized;
	unsigned int k;

	while (n) {
		struct pcp_list *l = pcp_lock_near(pcp);

		k = pages_at_most(n, pcp->batch);
		memcpy(l->page + l->count, pages, k * sizeof(*pages));
		WRITE_ONCE(l->count, l->count + k);
		l->used = true;
		pages += k;
		n -= k;
		k = 0;
		if (l->count > l->high) {
			/*
			 * high may have fallen far below: the rest goes with the next ones, or by
			 * decay.
			 */
			k = pcp_list_take(pcp, l, chunk, pcp->batch);
			pcp_list_raise(pcp, l);
		}
		spin_unlock(&l->lock);
		zone_pages_free(pcp->zone, chunk, k);
	}
}

/* ---- what gives pages back ---- */

/*
 * Gives back what a list has over high, or all of it, a batch a hold; returns the pages.  Holds are
 * as many as a full list takes: who fills it meanwhile does not keep us here.
 */
static u64 pcp_list_shrink(struct pcp *pcp, struct pcp_list *l, bool all)
{
	unsigned int holds = (pcp->high_max + PCP_BATCH_MAX) / pcp->batch + 1, over, k;
	host_page chunk[PCP_BATCH_MAX] __uninitialized;
	u64 pages = 0;

	for (; holds && READ_ONCE(l->count); holds--) {
		spin_lock(&l->lock);
		over = all ? l->count : l->count > l->high ? l->count - l->high : 0;
		k = pcp_list_take(pcp, l, chunk, over);
		spin_unlock(&l->lock);
		if (!k)
			break;
		zone_pages_free(pcp->zone, chunk, k);
		pages += k;
	}
	return pages;
}

/*
 * Sets this period's high and forgets that the list was used.  Whether anything changed.  It takes
 * the lock whatever it may find: who then uses the list comes after the worker's clearing of
 * host_work.wake, and queues it anew.
 */
static bool pcp_list_age(struct pcp_list *l)
{
	bool changed;
	u32 high;

	spin_lock(&l->lock);
	high = l->high;
	/* Half after one idle period, nothing after two: a list that rests is soon empty. */
	if (!l->used)
		l->high = l->idle ? 0 : high / 2;
	changed = l->used || l->high != high;
	l->idle = !l->used;
	l->used = false;
	spin_unlock(&l->lock);
	return changed;
}

bool pcp_decay(struct pcp *pcp)
{
	bool changed = false;
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		changed |= pcp_list_age(pcp->list[cpu]);
		changed |= pcp_list_shrink(pcp, pcp->list[cpu], false) != 0;
	}
	return changed;
}

void pcp_drain(struct pcp *pcp)
{
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		pcp_list_shrink(pcp, pcp->list[cpu], true);
}

bool pcp_tend(struct pcp *pcp, bool *aged)
{
	u64 now = ktime_get_ns();

	/* Too early: who used a list meanwhile saw us queued, so somebody has to come again. */
	*aged = now - pcp->aged >= PCP_PERIOD_US * 1000;
	if (!*aged)
		return true;
	pcp->aged = now;
	return pcp_decay(pcp);
}

/* ---- life ---- */

static void pcp_drop(struct pcp *pcp)
{
	size_t bytes = sizeof(struct pcp_list) +
		       (pcp->high_max + PCP_BATCH_MAX) * sizeof(host_page);
	unsigned int cpu;

	for (cpu = 0; pcp->list && cpu < nr_cpu_ids; cpu++)
		host_free(pcp->list[cpu], bytes);
	host_free(pcp->list, nr_cpu_ids * sizeof(*pcp->list));
	memset(pcp, 0, sizeof(*pcp));
}

int pcp_init(struct pcp *pcp, struct host_pages *zone, unsigned int batch, unsigned int high_max)
{
	unsigned int cpu;

	if (batch < 1 || batch > PCP_BATCH_MAX || high_max < batch || high_max > 1u << 20)
		return -EINVAL;
	*pcp = (struct pcp){ .zone = zone, .batch = batch, .high_max = high_max };
	pcp->list = host_zalloc(nr_cpu_ids * sizeof(*pcp->list));
	for (cpu = 0; pcp->list && cpu < nr_cpu_ids; cpu++) {
		pcp->list[cpu] = host_zalloc(sizeof(struct pcp_list) +
					     (high_max + PCP_BATCH_MAX) * sizeof(host_page));
		if (!pcp->list[cpu])
			break;
		spin_lock_init(&pcp->list[cpu]->lock);
	}
	if (!pcp->list || cpu < nr_cpu_ids) {
		pcp_drop(pcp);
		return -ENOMEM;
	}
	pcp->aged = ktime_get_ns();
	zone->pcp = pcp;
	return 0;
}

void pcp_destroy(struct pcp *pcp)
{
	pcp_drain(pcp);
	pcp->zone->pcp = NULL;
	pcp_drop(pcp);
}

u64 pcp_count(struct pcp *pcp)
{
	unsigned int cpu;
	u64 n = 0;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++)
		n += READ_ONCE(pcp->list[cpu]->count);
	return n;
}
