// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pcp.c - owns the free pages that are cached for each CPU.
 *
 * Lock order: a list's per-CPU item is a leaf.  The source's lock is never taken while an
 * item is held: a chunk is copied out first (PCP_BATCH_MAX page names on the stack).
 */
#include "pcp.h"

struct pcp_cpu {
	u32 count;
	u32 high;
	bool used;              /* since the last pcp_decay() */
	bool idle;              /* in the period before */
	host_page page[];       /* high_max + PCP_BATCH_MAX; [0 .. count) are free pages */
};

struct pcp_chunk {
	struct pcp *pcp;
	host_page page[PCP_BATCH_MAX];
	unsigned int n;
	bool changed;
};

static u32 room(const struct pcp *pcp, const struct pcp_cpu *c)
{
	return pcp->high_max + PCP_BATCH_MAX - c->count;
}

static void set_count(struct pcp_cpu *c, u32 n)
{
	host_write_once(c->count, n);   /* pcp_count() reads it without the item */
}

static void raise_high(const struct pcp *pcp, struct pcp_cpu *c)
{
	u32 high = c->high + pcp->batch;

	c->high = high < pcp->high_max ? high : pcp->high_max;
	c->used = true;
}

/* Moves up to n pages from the end of the list to out. */
static unsigned int take(struct pcp_cpu *c, host_page *out, unsigned int n)
{
	if (n > c->count)
		n = c->count;
	set_count(c, c->count - n);
	memcpy(out, c->page + c->count, n * sizeof(*out));
	return n;
}

int pcp_init(struct pcp *pcp, struct host_pages *src, unsigned int batch, unsigned int high_max)
{
	if (batch < 1 || batch > PCP_BATCH_MAX || high_max < batch || high_max > 1u << 20)
		return -EINVAL;
	pcp->src = src;
	pcp->batch = batch;
	pcp->high_max = high_max;
	return host_percpu_init(&pcp->cpus, sizeof(struct pcp_cpu) +
				(high_max + PCP_BATCH_MAX) * sizeof(host_page));
}

void pcp_destroy(struct pcp *pcp)
{
	pcp_drain(pcp);
	host_percpu_destroy(&pcp->cpus);
}

int pcp_alloc(struct pcp *pcp, host_page *out, unsigned int n)
{
	host_page fresh[PCP_BATCH_MAX];
	unsigned int got = 0;
	bool drained = false;

	while (got < n) {
		struct pcp_cpu *c = host_percpu_lock(&pcp->cpus);
		unsigned int want = n - got, k = take(c, out + got, want);

		if (k < want)
			raise_high(pcp, c);
		c->used = true;
		host_percpu_unlock(&pcp->cpus, c);
		got += k;
		if (got == n)
			break;

		k = host_pages_alloc(pcp->src, fresh, pcp->batch);
		if (!k && !drained) {
			/* Pages that wait in other CPUs' lists are no reason to fail. */
			drained = true;
			pcp_drain(pcp);
			continue;
		}
		if (!k) {
			pcp_free(pcp, out, got);
			return -ENOMEM;
		}
		want = n - got < k ? n - got : k;
		memcpy(out + got, fresh, want * sizeof(*out));
		got += want;
		if (k > want)
			pcp_free(pcp, fresh + want, k - want);
	}
	return 0;
}

void pcp_free(struct pcp *pcp, const host_page *pages, unsigned int n)
{
	host_page chunk[PCP_BATCH_MAX];
	unsigned int k;

	do {
		struct pcp_cpu *c = host_percpu_lock(&pcp->cpus);

		k = room(pcp, c);
		if (k > n)
			k = n;
		memcpy(c->page + c->count, pages, k * sizeof(*pages));
		set_count(c, c->count + k);
		pages += k;
		n -= k;
		c->used = true;
		k = 0;
		if (c->count > c->high) {
			k = take(c, chunk, pcp->batch);
			raise_high(pcp, c);
		}
		host_percpu_unlock(&pcp->cpus, c);
		if (k)
			host_pages_free(pcp->src, chunk, k);
	} while (n || k);
}

/* Sets this period's high and forgets that the list was used. */
static void age(void *item, void *arg)
{
	struct pcp_cpu *c = item;
	struct pcp_chunk *chunk = arg;
	u32 high = c->high;

	/* Half after one idle period, nothing after two: a list that rests is soon empty. */
	if (!c->used)
		c->high = c->idle ? 0 : high / 2;
	chunk->changed |= c->used || c->high != high;
	c->idle = !c->used;
	c->used = false;
}

static void over_high(void *item, void *arg)
{
	struct pcp_cpu *c = item;
	struct pcp_chunk *chunk = arg;
	u32 n = c->count > c->high ? c->count - c->high : 0;
	u32 free = chunk->pcp->batch - chunk->n;

	chunk->n += take(c, chunk->page + chunk->n, n < free ? n : free);
}

static void whole(void *item, void *arg)
{
	struct pcp_cpu *c = item;
	struct pcp_chunk *chunk = arg;

	chunk->n += take(c, chunk->page + chunk->n, chunk->pcp->batch - chunk->n);
}

static bool give_back(struct pcp *pcp, void (*fill)(void *item, void *arg))
{
	struct pcp_chunk chunk = { .pcp = pcp };
	bool any = false;

	for (;;) {
		chunk.n = 0;
		host_percpu_each(&pcp->cpus, fill, &chunk);
		if (!chunk.n)
			return any;
		host_pages_free(pcp->src, chunk.page, chunk.n);
		any = true;
		host_resched();
	}
}

bool pcp_decay(struct pcp *pcp)
{
	struct pcp_chunk chunk = { .pcp = pcp };

	host_percpu_each(&pcp->cpus, age, &chunk);
	return give_back(pcp, over_high) || chunk.changed;
}

void pcp_drain(struct pcp *pcp)
{
	give_back(pcp, whole);
}

u64 pcp_count(struct pcp *pcp)
{
	unsigned int cpu;
	u64 n = 0;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++)
		n += host_read_once(((struct pcp_cpu *)host_percpu_peek(&pcp->cpus, cpu))->count);
	return n;
}
