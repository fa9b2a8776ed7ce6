// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * home.c - core/host.h on simulated CPUs.  It is made after the kernel's home: items that cost no
 * locked instruction, a page source with a lock for each node, workers that any CPU of a node may
 * run.
 */
#include "home.h"

#include <stdlib.h>

#undef memcpy

#define PAGES_MAX ((u32)1 << 21)        /* of all nodes */

/* ---- what the sanitizer's hooks would be told ---- */

#define FROM() (sim_pc = (uintptr_t)__builtin_return_address(0))

#define HOOK(n)                                                                            \
	void __tsan_read##n(void *p);                                                      \
	void __tsan_read##n(void *p) { FROM(); sim_access(p, (n), false); }                        \
	void __tsan_write##n(void *p);                                                     \
	void __tsan_write##n(void *p) { FROM(); sim_access(p, (n), true); }                        \
	void __tsan_unaligned_read##n(void *p);                                            \
	void __tsan_unaligned_read##n(void *p) { FROM(); sim_access(p, (n), false); }              \
	void __tsan_unaligned_write##n(void *p);                                           \
	void __tsan_unaligned_write##n(void *p) { FROM(); sim_access(p, (n), true); }

HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
	(void)pc;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

void __tsan_read_range(void *p, size_t n);
void __tsan_read_range(void *p, size_t n)
{
	sim_access(p, n, false);
}

void __tsan_write_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n)
{
	sim_access(p, n, true);
}

void sim_prefetchw(const void *p)
{
	FROM();
	sim_access(p, 1, true);
}

void *scale_memcpy(void *to, const void *from, size_t n)
{
	if (n) {
		sim_access(from, n, false);
		sim_access(to, n, true);
	}
	return memcpy(to, from, n);
}

/* ---- atomics ---- */

bool host_a64_cas(host_a64 *a, u64 *old, u64 v)
{
	FROM();
	sim_rmw(a);
	if (a->v != *old) {
		*old = a->v;
		return false;
	}
	if (!(v & ~a->v))
		sim_cleared((unsigned int)hweight64(a->v ^ v));
	a->v = v;
	return true;
}

u64 host_a64_add(host_a64 *a, u64 v)
{
	FROM();
	sim_rmw(a);
	return a->v += v;
}

u64 host_a64_or(host_a64 *a, u64 v)
{
	u64 old;

	FROM();
	sim_rmw(a);
	old = a->v;
	a->v |= v;
	return old;
}

u64 host_a64_and(host_a64 *a, u64 v)
{
	u64 old;

	FROM();
	sim_rmw(a);
	old = a->v;
	a->v &= v;
	sim_cleared((unsigned int)hweight64(old ^ a->v));
	return old;
}

u64 host_a64_xchg(host_a64 *a, u64 v)
{
	u64 old;

	FROM();
	sim_rmw(a);
	old = a->v;
	a->v = v;
	return old;
}

/* Polls in simulated time, as who is woken comes to look. */
void host_wait_zero(host_a64 *a)
{
	sim_access(a, sizeof(*a), false);
	if (a->v)
		sim_counts_of_self()->sleeps++;
	while (a->v)
		sim_sleep_until(sim_now() + sim_cost.wake);
}

void host_wake_zero(host_a64 *a)
{
	(void)a;
	sim_pass(sim_cost.waker);
}

/* ---- locks ---- */

void scale_lock_init(spinlock_t *l, const char *name)
{
	l->id = sim_lock_new(name, false);
}

void spin_lock(spinlock_t *l)
{
	FROM();
	sim_lock(l->id, l);
}

bool spin_trylock(spinlock_t *l)
{
	FROM();
	return sim_trylock(l->id, l);
}

void spin_unlock(spinlock_t *l)
{
	FROM();
	sim_unlock(l->id, l);
}

void scale_mutex_init(struct mutex *m, const char *name)
{
	m->id = sim_lock_new(name, true);
}

bool mutex_trylock(struct mutex *m)
{
	return sim_trylock(m->id, m);
}

void mutex_lock(struct mutex *m)
{
	FROM();
	sim_lock(m->id, m);
}

void mutex_unlock(struct mutex *m)
{
	FROM();
	sim_unlock(m->id, m);
}

/* ---- per-CPU items ---- */

struct item {
	u32 lock;
};

static struct item *item_of(struct host_percpu *pc, unsigned int cpu)
{
	return (struct item *)(void *)(pc->base + cpu * pc->stride);
}

int host_percpu_init(struct host_percpu *pc, size_t item_bytes)
{
	unsigned int cpu;

	pc->stride = (2 * SMP_CACHE_BYTES + item_bytes - 1) & ~(size_t)(SMP_CACHE_BYTES - 1);
	pc->base = sim_memory(sim_cpus() * pc->stride);
	for (cpu = 0; cpu < sim_cpus(); cpu++)
		item_of(pc, cpu)->lock = sim_lock_new(SIM_ITEM, false);
	sim_items(pc->base, pc->stride);
	return 0;
}

void host_percpu_destroy(struct host_percpu *pc)
{
	pc->base = NULL;
}

void *host_percpu_peek(struct host_percpu *pc, unsigned int i)
{
	return (char *)item_of(pc, i) + SMP_CACHE_BYTES;
}

void *host_percpu_lock(struct host_percpu *pc)
{
	struct item *item = item_of(pc, sim_cpu());

	sim_item_lock(item->lock, item);
	return (char *)item + SMP_CACHE_BYTES;
}

void host_percpu_unlock(struct host_percpu *pc, void *at)
{
	struct item *item = (struct item *)(void *)((char *)at - SMP_CACHE_BYTES);

	(void)pc;
	sim_unlock(item->lock, item);
}

/* For test_sim.c: what the core never does. */
void host_percpu_each(struct host_percpu *pc, void (*fn)(void *item, void *arg), void *arg)
{
	unsigned int cpu;

	for (cpu = 0; cpu < sim_cpus(); cpu++) {
		struct item *item = item_of(pc, cpu);

		sim_item_lock(item->lock, item);
		fn((char *)item + SMP_CACHE_BYTES, arg);
		sim_unlock(item->lock, item);
	}
}

unsigned int host_percpu_items(struct host_percpu *pc)
{
	(void)pc;
	return sim_cpus();
}

unsigned int host_percpu_node(struct host_percpu *pc, unsigned int i)
{
	(void)pc;
	return sim_node_of(i);
}

/* As the kernel's: a grace period, which costs the waiter time and other CPUs nothing here. */
void host_settle(struct host_percpu *pc)
{
	unsigned int cpu;

	if (!sim_running())
		return;
	sim_sleep_until(sim_now() + sim_cost.settle);
	for (cpu = 0; cpu < sim_cpus(); cpu++)
		while (sim_locked(item_of(pc, cpu)->lock))
			sim_sleep_until(sim_now() + sim_cost.wake);
}

unsigned int scale_nr_cpus(void)
{
	return sim_cpus();
}

unsigned int num_online_cpus(void)
{
	return sim_cpus();
}

unsigned int raw_smp_processor_id(void)
{
	return sim_cpu();
}

unsigned int scale_nr_nodes(void)
{
	return sim_nodes();
}

unsigned int numa_mem_id(void)
{
	return sim_node_of(sim_cpu());
}

/* ---- pages: lists of CPUs; of each node a stack, and a lock in a line of its own ---- */

static struct source {
	spinlock_t *lock;
	u32 next, end;          /* never given out yet */
	u32 *free;
	u32 nfree;
} source[SIM_NODES];
static char *page_base;
static u32 pages_out;

static void sources_open(void)
{
	u32 each = PAGES_MAX / sim_nodes(), i;

	page_base = sim_memory((size_t)(PAGES_MAX + 1) << PAGE_SHIFT);
	for (i = 0; i < sim_nodes(); i++) {
		source[i].lock = sim_memory(sizeof(spinlock_t));
		scale_lock_init(source[i].lock, "the page source");
		source[i].next = 1 + i * each;
		source[i].end = source[i].next + each;
		source[i].free = malloc(each * sizeof(u32));
	}
}

unsigned int host_page_node(struct host_pages *src, host_page p)
{
	(void)src;
	return (p - 1) / (PAGES_MAX / sim_nodes());
}

void *host_page_addr(struct host_pages *src, host_page p)
{
	(void)src;
	return page_base + ((size_t)p << PAGE_SHIFT);
}

/* n of node's pages, in one hold of its lock. */
static void source_take(unsigned int node, host_page *out, unsigned int n)
{
	struct source *s = &source[node];
	unsigned int i;

	spin_lock(s->lock);
	for (i = 0; i < n; i++) {
		sim_pass(sim_cost.page);
		if (!s->nfree && s->next == s->end)
			sim_fail("the scenario needs more pages");
		out[i] = s->nfree ? s->free[--s->nfree] : s->next++;
	}
	spin_unlock(s->lock);
}

/* n of node's pages are given back in one hold. */
static void source_give(unsigned int node, const host_page *page, unsigned int n)
{
	struct source *s = &source[node];
	unsigned int i;

	spin_lock(s->lock);
	for (i = 0; i < n; i++) {
		sim_pass(sim_cost.page);
		s->free[s->nfree++] = page[i];
	}
	spin_unlock(s->lock);
}

/*
 * As Linux has them, each CPU has a list for each node's pages, which nobody else looks into.  What
 * is taken from one costs as much as what is taken from the source, but for the lock.  The base of
 * a comparison has lists in its core.
 */
static struct list {
	u32 n;
	host_page page[HOME_HIGH];
} list[SIM_CPUS][SIM_NODES];

static void list_take(unsigned int node, host_page *out)
{
	struct list *l = &list[sim_cpu()][node];

	if (!l->n)
		source_take(node, l->page, l->n = HOME_BATCH);
	sim_pass(sim_cost.page);
	*out = l->page[--l->n];
}

static void list_give(unsigned int node, host_page page)
{
	struct list *l = &list[sim_cpu()][node];

	if (l->n == HOME_HIGH)
		source_give(node, l->page + (l->n -= HOME_BATCH), HOME_BATCH);
	sim_pass(sim_cost.page);
	l->page[l->n++] = page;
}

unsigned int scale_pages_alloc(host_page *out, unsigned int n, unsigned int node)
{
	if (!page_base)
		sources_open();
	for (unsigned int i = 0; i < n; i++)
		list_take(node, &out[i]);
	pages_out += n;
	return n;
}

unsigned int scale_pages_at_hand(host_page *out, unsigned int n, unsigned int node)
{
	u32 have = list[sim_cpu()][node].n;

	return scale_pages_alloc(out, n < have ? n : have, node);
}

void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	unsigned int i, k = 1;

	for (i = 0; i < n; i += k) {
		unsigned int node = host_page_node(src, pages[i]);

		list_give(node, pages[i]);
	}
	pages_out -= n;
}

u32 home_pages_out(void)
{
	return pages_out;
}

/* ---- memory ---- */

void *host_zalloc(size_t bytes)
{
	return sim_memory(bytes);
}

void *host_zalloc_node(size_t bytes, unsigned int node)
{
	(void)node;
	return sim_memory(bytes);
}

void *host_zalloc_now(size_t bytes)
{
	return sim_memory(bytes);
}

void host_free(void *p, size_t bytes)
{
	(void)p;
	(void)bytes;
}

/* ---- deferred work ---- */

static struct worker {
	struct sim_ctx *ctx;
	struct host_work *work;
} workers[2 * SIM_CPUS];
static u32 nworkers;

static void run_work(struct host_work *w)
{
	while (w->queued == 1) {
		w->queued = 0;
		w->fn(w);
	}
}

static void work(void *arg)
{
	for (;;) {
		run_work(arg);
		sim_sleep();
	}
}

int scale_work_init(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node)
{
	if (nworkers == sizeof(workers) / sizeof(workers[0]))
		sim_fail("too many workers");
	memset(w, 0, sizeof(*w));
	w->fn = fn;
	w->id = nworkers;
	workers[nworkers].work = w;
	workers[nworkers++].ctx = sim_begin_worker(node, work, w);
	return 0;
}

static void wake(struct host_work *w)
{
	w->queued = 1;
	sim_wake(workers[w->id].ctx, sim_now() + sim_cost.wake);
}

void host_work_queue(struct host_work *w)
{
	sim_access(&w->queued, sizeof(w->queued), false);
	if (w->queued == 1)
		return;
	sim_access(&w->queued, sizeof(w->queued), true);
	sim_counts_of_self()->wakes++;
	sim_pass(sim_cost.waker);
	if (sim_running())
		wake(w);
	else
		w->queued = 1;
}

static void run_out(void *arg)
{
	struct host_work *w = arg;

	if (w->queued != 2)
		return;
	w->queued = 1;
	sim_wake(workers[w->id].ctx, sim_timer_now() + sim_cost.wake);
}

void host_work_queue_delayed(struct host_work *w, u64 us)
{
	sim_access(&w->queued, sizeof(w->queued), false);
	if (w->queued)
		return;
	sim_access(&w->queued, sizeof(w->queued), true);
	w->queued = 2;
	if (sim_running())
		sim_timer(sim_now() + us * 1000000, run_out, w);
}

/* What was queued in sequential code. */
void home_start_works(void)
{
	u32 i;

	for (i = 0; i < nworkers; i++) {
		struct host_work *w = workers[i].work;

		if (w->queued == 1 || w->queued == 2) {
			w->queued = 2;
			sim_timer(sim_now(), run_out, w);
		}
	}
}

/* In sequential code only. */
void host_work_flush(struct host_work *w)
{
	if (sim_running())
		sim_fail("a flush of work in the simulation");
	w->queued = w->queued != 0;
	run_work(w);
}

void host_work_destroy(struct host_work *w)
{
	w->queued = 3;
}

/* ---- the rest ---- */

void host_relax(unsigned int *spins)
{
	++*spins;
	sim_pass(20000000);
	sim_order();
}

void cond_resched(void)
{
	sim_order();
}

bool host_interrupted(void)
{
	return false;
}

u64 ktime_get_ns(void)
{
	return sim_now() / 1000;
}

/* 2 GiB a CPU, as servers have. */
u64 host_total_bytes(void)
{
	return (u64)sim_cpus() << 31;
}

bool scale_warn(bool bad, const char *what)
{
	if (bad)
		sim_fail("internal fault: %s", what);
	return bad;
}
