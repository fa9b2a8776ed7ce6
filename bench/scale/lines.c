// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * lines.c - memory, its lines and who has them; locks.
 *
 *     line:  nobody -> one CPU (only) -> several (shared: a bit for each)
 *     read   by a CPU that has it not: it comes from who wrote it last; it is shared then
 *     write  by a CPU that has it not alone: it comes, all others lose it
 *
 * Caches have no end: what a CPU had once it has until another writes it.
 */
#include "sim_in.h"

#define MEMORY_BYTES ((size_t)24 << 30)         /* room, not memory */
#define LINE_SHIFT 6
#define READERS_APART 10        /* reads of one line in the time of one transfer */

/* A line that more than one CPU had. */
struct shared {
	u64 has[SIM_CPUS / 64];
	u64 busy;                       /* until then it is on its way to a writer */
};

struct line {
	u32 shared;                     /* index, 0: one CPU or none has it */
	u16 only;                       /* CPU + 1, 0: none */
	u16 writer;                     /* the last, CPU + 1; 0: nobody yet */
};

struct lock {
	struct sim_ctx *owner, *head, **tail;
	u64 since;
	u32 name;
	bool sleeping, item;
};

static struct {
	const char *base;
	size_t stride, bytes;
} items[8];
static u32 nitems;

uintptr_t sim_pc;
struct sim_where sim_where[SIM_WHERE];

static char *memory;
static size_t memory_used;
static struct line *lines;
static struct shared *shareds;
static u32 nshared = 1;

static struct lock *locks;
static u32 nlocks = 1;
static const char *names[SIM_NAMES];

void lines_open(void)
{
	memory = sim_map(MEMORY_BYTES);
	lines = sim_map((MEMORY_BYTES >> LINE_SHIFT) * sizeof(*lines));
	shareds = sim_map(((size_t)1 << 28) * sizeof(*shareds));
	locks = sim_map(((size_t)1 << 20) * sizeof(*locks));
}

void *sim_memory(size_t bytes)
{
	char *p = memory + memory_used;

	memory_used += (bytes + 4095) & ~(size_t)4095;
	if (memory_used > MEMORY_BYTES)
		sim_fail("the scenario needs more room");
	return p;
}

/* ---- lines ---- */

static bool has(const struct line *l, u32 cpu)
{
	if (l->shared)
		return shareds[l->shared].has[cpu / 64] >> cpu % 64 & 1;
	return l->only == cpu + 1;
}

static struct shared *share(struct line *l)
{
	struct shared *s;

	if (!l->shared) {
		l->shared = nshared++;
		s = &shareds[l->shared];
		if (l->only)
			s->has[(l->only - 1) / 64] |= (u64)1 << (l->only - 1) % 64;
		l->only = 0;
	}
	return &shareds[l->shared];
}

/* A line that is not this CPU's alone. */
static void transfer(struct line *l, bool write)
{
	struct sim_counts *n = &counts[self->role];
	struct shared *s;
	struct cpu *c;
	u32 cpu;
	bool mine, written;
	u64 from;

	in_order();
	cpu = self->cpu;
	c = &cpus[cpu];
	if (!l->only && !l->shared) {
		l->only = (u16)(cpu + 1);
		l->writer = (u16)(write ? cpu + 1 : 0);
		return;
	}
	mine = has(l, cpu);
	written = l->writer && l->writer != cpu + 1 && !mine;
	if ((written || write) && self->role != SIM_SETUP)
		sim_where[sim_pc & (SIM_WHERE - 1)].n += 1,
			sim_where[sim_pc & (SIM_WHERE - 1)].pc = sim_pc;
	if (written && sim_node_of(l->writer - 1u) == self->node)
		n->remote_own++;
	else if (written)
		n->remote_other++;
	s = share(l);
	from = s->busy > c->clock ? s->busy : c->clock;
	if (write) {
		n->taken_back += !written;
		if (running)
			c->clock = s->busy = from + sim_cost.remote;
		/* Alone again; what is kept is when it is free. */
		memset(s->has, 0, sizeof(s->has));
		l->writer = (u16)(cpu + 1);
	} else if (written) {
		if (running) {
			s->busy = from + sim_cost.remote / READERS_APART;
			c->clock = from + sim_cost.remote;
		}
	}
	s->has[cpu / 64] |= (u64)1 << cpu % 64;
}

static bool alone(const struct line *l, u32 cpu)
{
	const u64 *w;
	unsigned int i;

	if (!l->shared)
		return l->only == cpu + 1;
	if (l->writer != cpu + 1)
		return false;
	w = shareds[l->shared].has;
	for (i = 0; i < (ncpus + 63) / 64; i++)
		if (w[i] != (i == cpu / 64 ? (u64)1 << cpu % 64 : 0))
			return false;
	return true;
}

void sim_items(const void *base, size_t stride)
{
	if (nitems == sizeof(items) / sizeof(items[0]))
		sim_fail("too many sets of items");
	items[nitems].base = base;
	items[nitems].stride = stride;
	items[nitems++].bytes = ncpus * stride;
}

/* Another CPU's item is visited when something else of it was not what came before. */
static void visit(const void *p)
{
	u32 i;

	for (i = 0; i < nitems; i++) {
		size_t at = (size_t)((const char *)p - items[i].base);
		const char *item;

		if (at >= items[i].bytes)
			continue;
		item = items[i].base + at / items[i].stride * items[i].stride;
		if (at / items[i].stride != self->cpu && item != self->item)
			counts[self->role].visits++;
		self->item = item;
	}
}

void sim_access(const void *p, size_t n, bool write)
{
	size_t at = (size_t)((const char *)p - memory), i, last;

	counts[self->role].accesses++;
	sim_pass(sim_cost.access);
	if (at >= memory_used)
		return;
	visit(p);
	last = (at + n - 1) >> LINE_SHIFT;
	for (i = at >> LINE_SHIFT; i <= last; i++) {
		struct line *l = &lines[i];
		u32 cpu = self->cpu;

		if (write ? alone(l, cpu) : has(l, cpu)) {
			if (write)
				l->writer = (u16)(cpu + 1);
			continue;
		}
		transfer(l, write);
	}
}

void sim_rmw(const void *p)
{
	counts[self->role].rmws++;
	self->hold_rmws++;
	sim_pass(sim_cost.rmw);
	sim_access(p, 8, true);
}

void sim_cleared(unsigned int n)
{
	if (self->class_locks)
		self->hold_objects += n;
}

/* ---- locks ---- */

static u32 name_of(const char *name)
{
	u32 i;

	for (i = 0; i < SIM_NAMES - 1; i++) {
		if (!names[i])
			names[i] = name;
		if (!strcmp(names[i], name))
			return i;
	}
	sim_fail("too many kinds of lock");
}

const char *sim_lock_name(unsigned int name)
{
	return name < SIM_NAMES ? names[name] : NULL;
}

u32 sim_lock_new(const char *name, bool sleeping)
{
	struct lock *l = &locks[nlocks];

	l->name = name_of(name);
	l->sleeping = sleeping;
	l->item = !strcmp(name, SIM_ITEM);
	l->tail = &l->head;
	return nlocks++;
}

static bool is_class(const struct lock *l)
{
	return !strcmp(names[l->name], "ebb_class");
}

static void got(struct lock *l)
{
	struct sim_counts *n = &counts[self->role];

	n->holds[l->name]++;
	l->owner = self;
	l->since = sim_now();
	if (l->sleeping)
		return;
	self->atomic++;
	self->hold_rmws = 0;
	if (is_class(l)) {
		self->class_locks++;
		self->hold_objects = 0;
	}
}

/* A line goes to self with no other wait than that for who had it. */
static void hand_over(const void *p)
{
	struct line *l = &lines[(size_t)((const char *)p - memory) >> LINE_SHIFT];
	struct sim_counts *n = &counts[self->role];
	struct shared *s = share(l);

	if (l->writer != self->cpu + 1)
		*(sim_node_of(l->writer - 1u) == self->node ? &n->remote_own :
							      &n->remote_other) += 1;
	memset(s->has, 0, sizeof(s->has));
	s->has[self->cpu / 64] |= (u64)1 << self->cpu % 64;
	l->writer = (u16)(self->cpu + 1);
}

static void take(struct lock *l, const void *p)
{
	if (!l->owner) {
		got(l);
		return;
	}
	if (!running)
		sim_fail("%s is taken twice", names[l->name]);
	counts[self->role].waits[l->name]++;
	self->after = NULL;
	*l->tail = self;
	l->tail = &self->after;
	if (l->sleeping) {
		counts[self->role].sleeps++;
		/* Work that is queued meanwhile wakes its worker, too. */
		do
			sim_sleep();
		while (l->owner != self);
	} else {
		not_ready(self->cpu);
		switch_over();
	}
	hand_over(p);
	got(l);
}

void sim_lock(u32 id, const void *p)
{
	sim_rmw(p);
	in_order();
	take(&locks[id], p);
}

void sim_item_lock(u32 id, const void *p)
{
	sim_access(p, 4, true);
	take(&locks[id], p);
}

bool sim_trylock(u32 id, const void *p)
{
	struct lock *l = &locks[id];

	in_order();
	sim_access(p, 4, false);
	if (!l->owner)
		sim_rmw(p);
	if (l->owner) {
		counts[self->role].refused++;
		return false;
	}
	got(l);
	return true;
}

static void most(u64 *to, u64 v)
{
	if (*to < v)
		*to = v;
}

void sim_unlock(u32 id, const void *p)
{
	struct lock *l = &locks[id];
	struct sim_counts *n = &counts[self->role];
	struct sim_ctx *w;

	if (l->owner != self)
		sim_fail("%s is dropped by who has it not", names[l->name]);
	/* Those who come before it is dropped are to find it taken. */
	if (!l->item)
		in_order();
	if (!l->head)
		sim_access(p, 4, true);
	if (!l->sleeping) {
		most(&n->hold_ps, sim_now() - l->since);
		most(&n->hold_rmws, self->hold_rmws);
		self->atomic--;
	}
	if (is_class(l)) {
		most(&n->hold_objects, self->hold_objects);
		self->class_locks--;
	}
	w = l->head;
	l->owner = w;
	if (!w)
		return;
	l->head = w->after;
	if (!l->head)
		l->tail = &l->head;
	if (l->sleeping) {
		sim_wake(w, sim_now() + sim_cost.wake);
	} else {
		struct cpu *c = &cpus[w->cpu];

		c->clock = (c->clock > sim_now() ? c->clock : sim_now()) + sim_cost.remote;
		make_ready(w->cpu);
	}
}

bool sim_locked(u32 id)
{
	return locks[id].owner != NULL;
}
