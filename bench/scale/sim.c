// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * sim.c - see sim.h.
 *
 *     ready CPUs: a heap by clock.  A CPU is in it if its first context can run.
 *     timers:     a heap by time.
 *
 * The heap's first CPU runs.  The one that runs stays in the heap, so its clock may get behind
 * others' unseen; who is about to touch a shared line looks.
 */
#include "sim_in.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_BYTES (32u << 10)

struct sim_cost sim_cost = {
	.access = 400, .rmw = 4500, .remote = 100000, .wake = 5000000, .waker = 1000000,
	.page = 20000, .settle = 1000000000, .slice = 1000000000,
};

struct timer {
	u64 at;
	void (*fn)(void *arg);
	void *arg;
};

unsigned int ncpus, nnodes;
struct cpu cpus[SIM_CPUS];
static u32 heap[SIM_CPUS], nheap;
static struct timer timers[4096];
static unsigned int ntimers;


static struct sim_ctx outside;
struct sim_ctx *self = &outside;
static jmp_buf home_at;
static ucontext_t boot_from;
static struct sim_ctx *boot;
bool running;
static u64 start, fired, ended[SIM_ROLES];
struct sim_counts counts[SIM_ROLES];

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("scale: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

void *sim_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		sim_fail("no room for %zu bytes", bytes);
	return p;
}

void sim_open(unsigned int n, unsigned int nodes)
{
	if (!n || n > SIM_CPUS || !nodes || nodes > SIM_NODES || nodes > n)
		sim_fail("no machine has %u CPUs on %u nodes", n, nodes);
	ncpus = n;
	nnodes = nodes;
	lines_open();
}

/* ---- who runs ---- */

static bool before(u32 a, u32 b)
{
	return cpus[a].clock < cpus[b].clock || (cpus[a].clock == cpus[b].clock && a < b);
}

static void place(u32 at, u32 cpu)
{
	heap[at] = cpu;
	cpus[cpu].heap = at + 1;
}

static void heap_up(u32 at)
{
	u32 cpu = heap[at];

	for (; at && before(cpu, heap[(at - 1) / 2]); at = (at - 1) / 2)
		place(at, heap[(at - 1) / 2]);
	place(at, cpu);
}

static void heap_down(u32 at)
{
	u32 cpu = heap[at];

	for (;;) {
		u32 child = 2 * at + 1;

		if (child >= nheap)
			break;
		child += child + 1 < nheap && before(heap[child + 1], heap[child]);
		if (!before(heap[child], cpu))
			break;
		place(at, heap[child]);
		at = child;
	}
	place(at, cpu);
}

void make_ready(u32 cpu)
{
	if (cpus[cpu].heap)
		return;
	heap[nheap] = cpu;
	heap_up(nheap++);
}

void not_ready(u32 cpu)
{
	u32 at = cpus[cpu].heap;

	if (!at--)
		return;
	cpus[cpu].heap = 0;
	if (at == --nheap)
		return;
	place(at, heap[nheap]);
	heap_up(at);
	heap_down(cpus[heap[at]].heap - 1);
}

void sim_timer(u64 at, void (*fn)(void *arg), void *arg)
{
	unsigned int i;

	if (ntimers == sizeof(timers) / sizeof(timers[0]))
		sim_fail("too many timers");
	for (i = ntimers++; i && timers[i - 1].at < at; i--)
		timers[i] = timers[i - 1];
	timers[i] = (struct timer){ .at = at, .fn = fn, .arg = arg };
}

static void fire(void)
{
	while (ntimers && (!nheap || timers[ntimers - 1].at <= cpus[heap[0]].clock)) {
		struct timer t = timers[--ntimers];

		fired = t.at;
		t.fn(t.arg);
	}
}

static void trampoline(void)
{
	struct sim_ctx *ctx = boot;

	if (!_setjmp(ctx->at))
		swapcontext(&(ucontext_t){ 0 }, &boot_from);
	ctx->fn(ctx->arg);
	ctx->done = true;
	if (ended[ctx->role] < cpus[ctx->cpu].clock)
		ended[ctx->role] = cpus[ctx->cpu].clock;
	sim_sleep();
	abort();
}

static struct sim_ctx *new_ctx(unsigned int cpu, enum sim_role role, void (*fn)(void *arg),
			       void *arg)
{
	struct sim_ctx *ctx = sim_map(sizeof(*ctx) + STACK_BYTES);
	ucontext_t uc;

	ctx->cpu = cpu;
	ctx->node = sim_node_of(cpu);
	ctx->role = role;
	ctx->fn = fn;
	ctx->arg = arg;
	getcontext(&uc);
	uc.uc_stack.ss_sp = (char *)(ctx + 1);
	uc.uc_stack.ss_size = STACK_BYTES - 64;
	uc.uc_link = NULL;
	makecontext(&uc, trampoline, 0);
	boot = ctx;
	swapcontext(&boot_from, &uc);
	return ctx;
}

void switch_over(void)
{
	fire();
	if (nheap && cpus[heap[0]].first == self)
		return;
	if (_setjmp(self->at))
		return;
	if (!nheap)
		_longjmp(home_at, 1);
	self = cpus[heap[0]].first;
	_longjmp(self->at, 1);
}

/* The next context of a CPU gets its turn. */
static void rotate(struct cpu *c)
{
	struct sim_ctx *ctx = c->first, **at = &c->first->next;

	if (!*at)
		return;
	c->first = *at;
	while (*at)
		at = &(*at)->next;
	*at = ctx;
	ctx->next = NULL;
	c->first->turn = c->clock;
}

void in_order(void)
{
	struct cpu *c;

	if (!running)
		return;
	c = &cpus[self->cpu];
	heap_down(c->heap - 1);
	if (!self->atomic && c->first->next && c->clock - self->turn > sim_cost.slice)
		rotate(c);
	if (heap[0] != self->cpu || c->first != self ||
	    (ntimers && timers[ntimers - 1].at <= c->clock))
		switch_over();
}

void sim_sleep(void)
{
	struct cpu *c = &cpus[self->cpu];

	if (!running || self->atomic)
		sim_fail("who may not sleep does");
	if (c->first != self)
		sim_fail("who sleeps does not run");
	self->sleeping = true;
	if (self->worker && ended[SIM_WORKER] < c->clock)
		ended[SIM_WORKER] = c->clock;
	c->first = self->next;
	self->next = NULL;
	if (c->first)
		c->first->turn = c->clock;
	else
		not_ready(self->cpu);
	switch_over();
}

static void time_is_up(void *ctx)
{
	sim_wake(ctx, fired);
}

void sim_sleep_until(u64 at)
{
	sim_timer(at, time_is_up, self);
	do
		sim_sleep();
	while (sim_now() < at);
}

/* Where a worker runs: where it ran, or on another idle CPU of its node, or where it ran. */
static u32 place_of(const struct sim_ctx *ctx)
{
	u32 first = (ctx->node * ncpus + nnodes - 1) / nnodes, i, cpu;

	for (i = 0, cpu = ctx->cpu; i < ncpus / nnodes; i++) {
		if (!cpus[cpu].first)
			return cpu;
		cpu++;
		if (cpu == ncpus || sim_node_of(cpu) != ctx->node)
			cpu = first;
	}
	return ctx->cpu;
}

void sim_wake(struct sim_ctx *ctx, u64 at)
{
	struct sim_ctx **last;
	struct cpu *c;

	if (!ctx->sleeping)
		return;
	ctx->sleeping = false;
	if (ctx->worker)
		ctx->cpu = place_of(ctx);
	c = &cpus[ctx->cpu];
	for (last = &c->first; *last; last = &(*last)->next)
		;
	*last = ctx;
	if (c->first != ctx)
		return;
	if (c->clock < at)
		c->clock = at;
	ctx->turn = c->clock;
	make_ready(ctx->cpu);
}

struct sim_ctx *sim_begin(unsigned int cpu, enum sim_role role, void (*fn)(void *arg), void *arg)
{
	struct sim_ctx *ctx = new_ctx(cpu, role, fn, arg);

	ctx->sleeping = true;
	sim_wake(ctx, 0);
	return ctx;
}

struct sim_ctx *sim_begin_worker(unsigned int node, void (*fn)(void *arg), void *arg)
{
	unsigned int cpu = (node * ncpus + nnodes - 1) / nnodes;
	struct sim_ctx *ctx = new_ctx(cpu, SIM_WORKER, fn, arg);

	ctx->worker = ctx->sleeping = true;
	return ctx;
}

u64 sim_run(void)
{
	unsigned int i;

	for (i = 0; i < ncpus; i++)
		if (start < cpus[i].clock)
			start = cpus[i].clock;
	for (i = 0; i < ncpus; i++) {
		cpus[i].clock = start;
		if (cpus[i].first)
			cpus[i].first->turn = start;
	}
	memset(ended, 0, sizeof(ended));
	running = true;
	if (!_setjmp(home_at)) {
		fire();
		if (nheap) {
			self = cpus[heap[0]].first;
			_longjmp(self->at, 1);
		}
	}
	running = false;
	self = &outside;
	for (i = 0; i < ncpus; i++)
		if (cpus[i].first)
			sim_fail("CPU %u waits for ever", i);
	return start;
}

u64 sim_ended(enum sim_role role)
{
	return ended[role];
}

struct sim_counts *sim_counts(enum sim_role role)
{
	return &counts[role];
}

struct sim_counts *sim_counts_of_self(void)
{
	return &counts[self->role];
}

void sim_reset_counts(void)
{
	memset(counts, 0, sizeof(counts));
}

void sim_be(unsigned int cpu)
{
	outside.cpu = cpu;
	outside.node = sim_node_of(cpu);
}

unsigned int sim_cpus(void)
{
	return ncpus;
}

unsigned int sim_nodes(void)
{
	return nnodes;
}

unsigned int sim_cpu(void)
{
	return self->cpu;
}

unsigned int sim_node_of(unsigned int cpu)
{
	return cpu * nnodes / ncpus;
}

u64 sim_now(void)
{
	return cpus[self->cpu].clock;
}

void sim_pass(u64 ps)
{
	if (running)
		cpus[self->cpu].clock += ps;
}

void sim_order(void)
{
	in_order();
}

bool sim_running(void)
{
	return running;
}

u64 sim_timer_now(void)
{
	return fired;
}
