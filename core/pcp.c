// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pcp.c - owns the free pages that are cached for each CPU, and the reserve.
 *
 * Lock order: a list's lock and the reserve's are leaves; no two of them are held at a time, and
 * the source's is never taken under one: a chunk is copied out first (PCP_BATCH_MAX page names
 * on the stack).
 *
 * The order in which pcp_alloc() looks is that of cost and of who pays.  Pages in other CPUs'
 * lists come before waiting: they are free memory that only we can use, and to look at PCP_LOOK
 * of them takes microseconds, where waiting is reclaim, or, for who reclaims already, the machine's
 * emergency pages.  The reserve comes after waiting, since whoever can have a page by waiting must
 * not take one from who cannot; so who asks without waiting asks again, waiting, if he is in need.
 */
#include "pcp.h"

static unsigned int at_most(unsigned int n, unsigned int most)
{
	return n < most ? n : most;
}

/* ---- one list; its lock is held ---- */

static void set_count(struct pcp_list *l, u32 n)
{
	host_write_once(l->count, n);
}

static void raise_high(const struct pcp *pcp, struct pcp_list *l)
{
	l->high = at_most(l->high + pcp->batch, pcp->high_max);
}

/* Moves up to n pages, and at most a batch, from the end of the list to out. */
static unsigned int pcp_list_take(const struct pcp *pcp, struct pcp_list *l, host_page *out,
				  unsigned int n)
{
	n = at_most(at_most(n, pcp->batch), l->count);
	set_count(l, l->count - n);
	memcpy(out, l->page + l->count, n * sizeof(*out));
	return n;
}

/*
 * l, locked; or the list of the next CPU of the node, if that one is free at the moment and l is
 * not: in user space who holds l may have lost the CPU.
 */
HOST_NO_ANALYSIS        /* it returns with a lock that it cannot name */
static struct pcp_list *lock_near(struct pcp_list *l)
{
	if (host_likely(host_trylock(&l->lock)))
		return l;
	if (l->next != l && host_trylock(&l->next->lock))
		return l->next;
	host_lock(&l->lock);
	return l;
}

/* ---- between lists, reserve and source; no lock is held.  l: the own CPU's list ---- */

static struct pcp_list *pcp_own(const struct pcp *pcp)
{
	return pcp->list[host_cpu()];
}

/* Gives n pages back to the source. */
static void pcp_give(struct pcp *pcp, const struct pcp_list *l, const host_page *pages,
		     unsigned int n)
{
	host_a64_add(&pcp->node[l->node].taken, (u64)0 - n);
	while (n) {
		unsigned int k = at_most(n, pcp->batch);

		host_pages_free(pcp->src, pages, k);
		pages += k;
		n -= k;
	}
}

/* Adds n pages of l's node to l; what is then over goes to the source. */
HOST_NO_ANALYSIS
static void pcp_list_put(struct pcp *pcp, struct pcp_list *l, const host_page *pages,
			 unsigned int n)
{
	host_page chunk[PCP_BATCH_MAX] HOST_UNCLEARED;
	unsigned int k;

	while (n) {
		struct pcp_list *to = lock_near(l);

		k = at_most(n, pcp->batch);
		memcpy(to->page + to->count, pages, k * sizeof(*pages));
		set_count(to, to->count + k);
		to->used = true;
		pages += k;
		n -= k;
		k = 0;
		if (to->count > to->high) {
			/*
			 * high may have fallen far below: the rest goes with the next ones, or by
			 * decay.
			 */
			k = pcp_list_take(pcp, to, chunk, pcp->batch);
			raise_high(pcp, to);
		}
		host_unlock(&to->lock);
		if (k)
			pcp_give(pcp, l, chunk, k);
	}
}

HOST_NO_ANALYSIS
static unsigned int from_list(struct pcp *pcp, struct pcp_list *l, host_page *out, unsigned int n)
{
	struct pcp_list *from = lock_near(l);
	unsigned int k = pcp_list_take(pcp, from, out, n);

	if (k < at_most(n, pcp->batch))
		raise_high(pcp, from);
	from->used = true;
	host_unlock(&from->lock);
	return k;
}

/*
 * Of n pages that were in a list those that may be used; returns how many.  What has become bad
 * goes back to the source, which drops it.  Here, and not where a page enters a list: who takes a
 * page is about to write it, and, if it may be moved, what names it to the kernel, which is beside
 * the mark.  A free touches neither.
 */
static unsigned int pcp_sift(struct pcp *pcp, const struct pcp_list *l, host_page *page,
			     unsigned int n)
{
	unsigned int i = 0;

	while (i < n) {
		if (host_likely(!host_page_is_bad(pcp->src, page[i]))) {
			i++;
		} else {
			pcp_give(pcp, l, &page[i], 1);
			page[i] = page[--n];
		}
	}
	return n;
}

static bool is_of(const struct pcp *pcp, host_page page, unsigned int node)
{
	return host_nr_nodes() == 1 || host_page_node(pcp->src, page) == node;
}

/* What is in the shared reserve, no list has taken. */
static void count_shared(struct pcp *pcp, const struct pcp_list *l, const struct pcp_reserve *r,
			 u64 came)
{
	if (r == pcp->shared && came)
		host_a64_add(&pcp->node[l->node].taken, came);
}

/* Adds n pages to a reserve, as far as it is short, a batch a hold; returns how many. */
static unsigned int top_up(struct pcp *pcp, struct pcp_list *l, struct pcp_reserve *r,
			   const host_page *pages, unsigned int n)
{
	unsigned int done = 0;

	while (done < n && pcp_reserve_is_short(r)) {
		unsigned int k = at_most(n - done, pcp->batch);

		host_lock(&r->lock);
		k = at_most(k, r->size - r->count);
		memcpy(r->page + r->count, pages + done, k * sizeof(*pages));
		host_write_once(r->count, r->count + k);
		host_unlock(&r->lock);
		if (!k)
			break;
		done += k;
	}
	count_shared(pcp, l, r, (u64)0 - done);
	return done;
}

/*
 * A batch for l if it is l's node, else what is needed, from the source; returns how many went to
 * out.  A source that has nothing left on the node is asked for what is needed, too: pages of other
 * nodes would only go back.
 */
static unsigned int from_source(struct pcp *pcp, struct pcp_list *l, host_page *out, unsigned int n,
				unsigned int node, unsigned int how)
{
	bool near = node == l->node, batch = near && !host_read_once(l->strayed);
	unsigned int want = batch ? pcp->batch : at_most(n, pcp->batch), k, i, strays = 0;
	host_page page[PCP_BATCH_MAX] HOST_UNCLEARED;

	k = host_pages_alloc(pcp->src, page, want, node, how);
	if (!k)
		return 0;
	host_a64_add(&pcp->node[l->node].taken, k);
	/* Strays first: they are not for a list. */
	for (i = 0; i < k; i++) {
		host_page p = page[i];

		if (is_of(pcp, p, node))
			continue;
		page[i] = page[strays];
		page[strays++] = p;
	}
	if (near && host_read_once(l->strayed) != !!strays)
		host_write_once(l->strayed, !!strays);
	n = at_most(n, k);
	memcpy(out, page, n * sizeof(*out));
	if (n < strays) {
		pcp_give(pcp, l, page + n, strays - n);
		pcp_list_put(pcp, l, page + strays, k - strays);
	} else {
		pcp_list_put(pcp, l, page + n, k - n);
	}
	return n;
}

/* Takes up to n pages of one of cpus lists, of which at most PCP_LOOK are looked at. */
HOST_NO_ANALYSIS        /* of a lock that was tried */
static unsigned int pcp_rob(struct pcp *pcp, const u32 *cpu, unsigned int cpus, host_a64 *cursor,
			    host_page *out, unsigned int n)
{
	unsigned int look = at_most(cpus, PCP_LOOK), k = 0, i;
	u64 at = host_a64_add(cursor, look) - look;

	for (i = 0; i < look && !k; i++) {
		struct pcp_list *l = pcp->list[cpu[(at + i) % cpus]];

		if (!host_read_once(l->count) || !host_trylock(&l->lock))
			continue;
		k = pcp_list_take(pcp, l, out, n);
		host_unlock(&l->lock);
	}
	return k;
}

static unsigned int from_others(struct pcp *pcp, host_page *out, unsigned int n, unsigned int node)
{
	struct pcp_node *near = &pcp->node[node];
	unsigned int k = 0;

	if (host_nr_nodes() > 1 && near->cpus)
		k = pcp_rob(pcp, pcp->by_node + near->first, near->cpus, &near->cursor, out, n);
	return k ? k : pcp_rob(pcp, pcp->by_node, host_nr_cpus(), &pcp->cursor, out, n);
}

static unsigned int from_reserve(struct pcp *pcp, struct pcp_list *l, struct pcp_reserve *r,
				 host_page *out, unsigned int n)
{
	if (!r || !host_read_once(r->count))
		return 0;
	n = at_most(n, pcp->batch);
	host_lock(&r->lock);
	n = at_most(n, r->count);
	host_write_once(r->count, r->count - n);
	memcpy(out, r->page + r->count, n * sizeof(*out));
	host_unlock(&r->lock);
	count_shared(pcp, l, r, n);
	return pcp_sift(pcp, l, out, n);
}

static void count_strays(struct pcp *pcp, const host_page *page, unsigned int n, unsigned int node)
{
	unsigned int i, strays = 0;

	for (i = 0; i < n; i++)
		strays += !is_of(pcp, page[i], node);
	if (strays)
		host_a64_add(&pcp->node[node].strayed, strays);
}

/* ---- allocation and free ---- */

unsigned int pcp_take_own(struct pcp *pcp, host_page *out, unsigned int n)
{
	struct pcp_list *l = pcp_own(pcp);

	/* A look first: an empty list, seen so, counts as neither used nor too short. */
	return host_read_once(l->count) ? pcp_sift(pcp, l, out, from_list(pcp, l, out, n)) : 0;
}

int pcp_alloc(struct pcp *pcp, host_page *out, unsigned int n, unsigned int node, unsigned int how)
{
	struct pcp_list *l = pcp_own(pcp);
	unsigned int got, k;

	if (node == HOST_ANY_NODE)
		node = l->node;
	for (got = 0; got < n; got += k) {
		host_page *to = out + got;
		unsigned int want = n - got;

		k = 0;
		if (node == l->node)
			k = pcp_sift(pcp, l, to, from_list(pcp, l, to, want));
		if (host_likely(k))
			continue;
		k = from_source(pcp, l, to, want, node, 0);
		if (!k)
			k = pcp_sift(pcp, l, to, from_others(pcp, to, want, node));
		if (!k && how & (HOST_MAY_WAIT | HOST_RECLAIMS)) {
			k = from_source(pcp, l, to, want, node, how);
			if (!k)
				k = from_reserve(pcp, l, pcp->shared, to, want);
			if (!k)
				k = from_reserve(pcp, l, &pcp->own, to, want);
		}
		if (!k) {
			pcp_free(pcp, out, got, HOST_ANY_NODE);
			return -ENOMEM;
		}
		if (host_nr_nodes() > 1)
			count_strays(pcp, to, k, node);
	}
	return 0;
}

void pcp_free(struct pcp *pcp, const host_page *pages, unsigned int n, unsigned int node)
{
	struct pcp_list *l = pcp_own(pcp);
	unsigned int i, k;
	bool near;

	k = top_up(pcp, l, &pcp->own, pages, n);
	if (pcp->shared)
		k += top_up(pcp, l, pcp->shared, pages + k, n - k);
	pages += k;
	n -= k;
	if (host_nr_nodes() == 1)
		node = l->node;
	for (i = 0; i < n; i += k) {
		/* The next k are of the list's node, or are not. */
		k = n - i;
		near = node == l->node;
		if (node == HOST_ANY_NODE) {
			near = is_of(pcp, pages[i], l->node);
			for (k = 1; i + k < n && is_of(pcp, pages[i + k], l->node) == near;)
				k++;
		}
		if (near)
			pcp_list_put(pcp, l, pages + i, k);
		else
			pcp_give(pcp, l, pages + i, k);
	}
}

/* ---- what gives pages back ---- */

/*
 * Gives back what a list has over high, or all of it, a batch a hold; returns the pages.  Holds are
 * as many as a full list takes: who fills it meanwhile does not keep us here.  try: not if it is
 * locked.
 */
HOST_NO_ANALYSIS
static u64 pcp_list_shrink(struct pcp *pcp, struct pcp_list *l, bool all, bool try)
{
	unsigned int holds = (pcp->high_max + PCP_BATCH_MAX) / pcp->batch + 1, over, k;
	host_page chunk[PCP_BATCH_MAX] HOST_UNCLEARED;
	u64 pages = 0;

	for (; holds && host_read_once(l->count); holds--) {
		if (!try)
			host_lock(&l->lock);
		else if (!host_trylock(&l->lock))
			break;
		over = all ? l->count : l->count > l->high ? l->count - l->high : 0;
		k = pcp_list_take(pcp, l, chunk, over);
		host_unlock(&l->lock);
		if (!k)
			break;
		pcp_give(pcp, l, chunk, k);
		pages += k;
		if (!try)
			host_resched();
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

	host_lock(&l->lock);
	high = l->high;
	/* Half after one idle period, nothing after two: a list that rests is soon empty. */
	if (!l->used)
		l->high = l->idle ? 0 : high / 2;
	changed = l->used || l->high != high;
	l->idle = !l->used;
	l->used = false;
	host_unlock(&l->lock);
	return changed;
}

bool pcp_decay(struct pcp *pcp)
{
	bool changed = false;
	unsigned int cpu;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++) {
		changed |= pcp_list_age(pcp->list[cpu]);
		changed |= pcp_list_shrink(pcp, pcp->list[cpu], false, false) != 0;
	}
	return changed;
}

void pcp_drain(struct pcp *pcp)
{
	unsigned int cpu;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++)
		pcp_list_shrink(pcp, pcp->list[cpu], true, false);
}

u64 pcp_drain_some(struct pcp *pcp, unsigned int lists)
{
	unsigned int cpus = host_nr_cpus(), look = at_most(lists, cpus), i;
	u64 at = host_a64_add(&pcp->cursor, look) - look, pages = 0;

	for (i = 0; i < look; i++)
		pages += pcp_list_shrink(pcp, pcp->list[(at + i) % cpus], true, true);
	return pages;
}

/* Fills a reserve from the source; how: as host_pages_alloc().  True: it is short still. */
static bool fill_reserve(struct pcp *pcp, struct pcp_reserve *r, unsigned int how)
{
	struct pcp_list *l = pcp_own(pcp);
	host_page page[PCP_BATCH_MAX] HOST_UNCLEARED;
	unsigned int turns, want, k, in;

	/* Each turn brings a page at least; who draws meanwhile does not keep us here. */
	for (turns = r->size; turns; turns--) {
		/* As in pcp_list_age(): who draws after this hold queues the worker anew. */
		host_lock(&r->lock);
		want = at_most(r->size - r->count, pcp->batch);
		host_unlock(&r->lock);
		if (!want)
			return false;
		k = host_pages_alloc(pcp->src, page, want, l->node, how);
		if (!k)
			break;
		host_a64_add(&pcp->node[l->node].taken, k);
		in = top_up(pcp, l, r, page, k);
		if (in < k)
			pcp_give(pcp, l, page + in, k - in);
		host_resched();
	}
	return pcp_reserve_is_short(r);
}

static bool fill_reserves(struct pcp *pcp, unsigned int how)
{
	bool again = fill_reserve(pcp, &pcp->own, how);

	return pcp->shared ? fill_reserve(pcp, pcp->shared, how) || again : again;
}

bool pcp_refill(struct pcp *pcp)
{
	return fill_reserves(pcp, 0);
}

bool pcp_tend(struct pcp *pcp, bool *aged)
{
	bool again = pcp_refill(pcp);
	u64 now = host_now_ns();

	/* Too early: who used a list meanwhile saw us queued, so somebody has to come again. */
	*aged = now - pcp->aged >= PCP_PERIOD_US * 1000;
	if (!*aged)
		return true;
	pcp->aged = now;
	return pcp_decay(pcp) || again;
}

/* ---- life ---- */

static void drop_all(struct pcp *pcp)
{
	size_t bytes = sizeof(struct pcp_list) +
		       (pcp->high_max + PCP_BATCH_MAX) * sizeof(host_page);
	unsigned int cpu;

	for (cpu = 0; pcp->list && cpu < host_nr_cpus(); cpu++)
		host_free(pcp->list[cpu], bytes);
	host_free(pcp->list, host_nr_cpus() * sizeof(*pcp->list));
	host_free(pcp->node, host_nr_nodes() * sizeof(*pcp->node));
	host_free(pcp->by_node, host_nr_cpus() * sizeof(*pcp->by_node));
	pcp_reserve_destroy(&pcp->own, pcp->src);
	memset(pcp, 0, sizeof(*pcp));
}

/* Sorts the CPUs by node and ties the lists of each node to a ring. */
static void sort_nodes(struct pcp *pcp)
{
	unsigned int cpu, at = 0, i, n;

	for (n = 0; n < host_nr_nodes(); n++) {
		struct pcp_node *node = &pcp->node[n];

		node->first = at;
		for (cpu = 0; cpu < host_nr_cpus(); cpu++)
			if (pcp->list[cpu]->node == n)
				pcp->by_node[at++] = cpu;
		node->cpus = at - node->first;
		for (i = 0; i < node->cpus; i++)
			pcp->list[pcp->by_node[node->first + i]]->next =
				pcp->list[pcp->by_node[node->first + (i + 1) % node->cpus]];
	}
}

int pcp_reserve_init(struct pcp_reserve *r, unsigned int size)
{
	memset(r, 0, sizeof(*r));
	host_lock_init(&r->lock, "ebb_reserve");
	if (size)
		r->page = host_zalloc(size * sizeof(*r->page));
	if (size && !r->page)
		return -ENOMEM;
	r->size = size;
	return 0;
}

void pcp_reserve_destroy(struct pcp_reserve *r, struct host_pages *src)
{
	u32 at, k;

	for (at = 0; at < r->count; at += k) {
		k = at_most(r->count - at, PCP_BATCH_MAX);
		host_pages_free(src, r->page + at, k);
	}
	host_free(r->page, r->size * sizeof(*r->page));
	memset(r, 0, sizeof(*r));
}

int pcp_init(struct pcp *pcp, struct host_pages *src, unsigned int batch, unsigned int high_max,
	     unsigned int reserve, struct pcp_reserve *shared)
{
	unsigned int cpu;

	if (batch < 1 || batch > PCP_BATCH_MAX || high_max < batch || high_max > 1u << 20 ||
	    reserve > 1u << 20)
		return -EINVAL;
	memset(pcp, 0, sizeof(*pcp));
	pcp->src = src;
	pcp->batch = batch;
	pcp->high_max = high_max;
	pcp->shared = shared;
	if (pcp_reserve_init(&pcp->own, reserve))
		return -ENOMEM;
	pcp->list = host_zalloc(host_nr_cpus() * sizeof(*pcp->list));
	pcp->node = host_zalloc(host_nr_nodes() * sizeof(*pcp->node));
	pcp->by_node = host_zalloc(host_nr_cpus() * sizeof(*pcp->by_node));
	if (!pcp->list || !pcp->node || !pcp->by_node)
		goto no_memory;
	for (cpu = 0; cpu < host_nr_cpus(); cpu++) {
		unsigned int node = host_cpu_node(cpu);
		struct pcp_list *l = host_zalloc_node(sizeof(*l) + (high_max + PCP_BATCH_MAX) *
						      sizeof(host_page), node);

		if (!l)
			goto no_memory;
		host_lock_init(&l->lock, "ebb_pcp");
		l->node = node;
		pcp->list[cpu] = l;
	}
	sort_nodes(pcp);
	pcp->aged = host_now_ns();
	fill_reserves(pcp, HOST_MAY_WAIT);
	return 0;

no_memory:
	drop_all(pcp);
	return -ENOMEM;
}

void pcp_destroy(struct pcp *pcp)
{
	pcp_drain(pcp);
	drop_all(pcp);
}

/* ---- figures ---- */

u64 pcp_count(struct pcp *pcp)
{
	unsigned int cpu;
	u64 n = 0;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++)
		n += host_read_once(pcp->list[cpu]->count);
	return n;
}

u64 pcp_taken(struct pcp *pcp)
{
	unsigned int i;
	u64 n = 0;

	for (i = 0; i < host_nr_nodes(); i++)
		n += host_a64_read(&pcp->node[i].taken);
	/* What one node's CPUs took, others may have given back in between. */
	return (s64)n < 0 ? 0 : n;
}

u64 pcp_strayed(struct pcp *pcp)
{
	unsigned int i;
	u64 n = 0;

	for (i = 0; i < host_nr_nodes(); i++)
		n += host_a64_read(&pcp->node[i].strayed);
	return n;
}

const char *pcp_check(struct pcp *pcp, u64 used)
{
	unsigned int cpu, i;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++) {
		struct pcp_list *l = pcp->list[cpu];

		if (l->count > pcp->high_max || l->high > pcp->high_max)
			return "a page list is longer than it may be";
		for (i = 0; i < l->count; i++)
			if (!is_of(pcp, l->page[i], l->node))
				return "a page list has a page of another node";
	}
	if (pcp->own.count > pcp->own.size ||
	    (pcp->shared && pcp->shared->count > pcp->shared->size))
		return "the reserve has more pages than it has room for";
	if (pcp_taken(pcp) != used + pcp_count(pcp) + pcp->own.count)
		return "pages taken != in use + in lists + in the reserve";
	return NULL;
}
