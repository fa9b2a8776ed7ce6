// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * home.c - the hostile home: memory that remembers who owns it, locks that know their order,
 * sources and workers that do the least that the contract allows.
 */
#include "home.h"
#include "explore.h"

#include <stdlib.h>
#include <sys/mman.h>

#undef memcpy

#define RED_ZONE 64u
#define FRAME_BYTES (HOST_PAGE_SIZE + RED_ZONE)
#define HEAP_BYTES ((512u << 10) + 24 * HOST_PAGE_SIZE)
#define ARENA_BYTES (HEAP_BYTES + HOME_PAGES * FRAME_BYTES)

static char *arena, *kept;
static u8 *heap_live, *kept_live;       /* [HEAP_BYTES / HOME_GRANULE] */
static bool dirty[HOME_PAGES];          /* was handed out since the snapshot */
struct home *home;
u64 home_failures, home_longest;
static u64 class_taken;                 /* explore_accesses when a class lock was last taken */

/* ---- context ---- */

/*
 * docs/locking.md as data: what may be held when a lock is taken.  The names are those that the
 * core gives, or the expressions it makes them by.
 */
#define R(n) (1u << (n))
#define CLASS_LOCK 6
#define SLEEPING (R(2) | R(3) | R(4))

static const struct rank {
	const char *name;
	u32 under;
} ranks[] = {
	/*      name                under                    */
	[2]  = { "&st->lock",        0 },
	[3]  = { "&r->draining",     R(2) },
	[4]  = { "&p->compacting",   0 },
	[5]  = { "&s->cpus",         SLEEPING },
	[CLASS_LOCK] = { "ebb_class",        SLEEPING | R(5) },
	[7]  = { "ebb_zspage_table", SLEEPING | R(5) },
	[8]  = { "ebb_release",      SLEEPING | R(5) },
	[9]  = { "&pcp->cpus",       SLEEPING | R(5) },
	[10] = { "the page source",  SLEEPING | R(5) },
};
#define NRANKS (sizeof(ranks) / sizeof(ranks[0]))

static void must_be_process(const char *what)
{
	if (me->atomic)
		explore_fail("%s in atomic context", what);
}

bool hostile_warn(bool bad, const char *what, const char *file, int line)
{
	if (bad)
		explore_fail("internal fault at %s:%d: %s", file, line, what);
	return bad;
}

/* ---- locks ---- */

void hostile_lock_init(struct hostile_lock *l, const char *name)
{
	u32 i;

	for (i = 0; i < NRANKS; i++)
		if (ranks[i].name && !strcmp(ranks[i].name, name))
			break;
	if (i == NRANKS)
		explore_fail("lock %s has no place in docs/locking.md's order (home.c)", name);
	l->owner = 0;
	l->rank = i;
}

void hostile_lock_end(struct hostile_lock *l)
{
	if (l->owner)
		explore_fail("%s ends while it is held", ranks[l->rank].name);
	l->rank = 0;
}

static bool is_free(const void *on)
{
	return !((const struct hostile_lock *)on)->owner;
}

static void check_order(struct hostile_lock *l)
{
	u32 wrong, i;

	if (!l->rank || l->rank >= NRANKS)
		explore_fail("a lock is taken that is none");
	wrong = me->held & ~ranks[l->rank].under;
	for (i = 0; i < NRANKS; i++)
		if (wrong & R(i))
			explore_fail("%s is taken under %s", ranks[l->rank].name, ranks[i].name);
}

void hostile_acquire(struct hostile_lock *l, bool sleeping)
{
	check_order(l);
	if (sleeping)
		must_be_process(ranks[l->rank].name);
	explore_at(l, sizeof(*l));
	if (l->owner)
		explore_wait(is_free, l);
	explore_did(l, sizeof(*l), true);
	l->owner = me->id + 1;
	me->held |= R(l->rank);
	me->atomic += !sleeping;
	if (l->rank == CLASS_LOCK)
		class_taken = explore_accesses;
}

bool hostile_try(struct hostile_lock *l)
{
	check_order(l);
	hostile_touch(l, sizeof(*l), true);
	if (l->owner)
		return false;
	l->owner = me->id + 1;
	me->held |= R(l->rank);
	return true;
}

void hostile_release(struct hostile_lock *l, bool sleeping)
{
	if (l->owner != me->id + 1)
		explore_fail("%s is dropped by who does not hold it", ranks[l->rank].name);
	hostile_touch(l, sizeof(*l), true);
	if (l->rank == CLASS_LOCK && explore_accesses - class_taken > home_longest)
		home_longest = explore_accesses - class_taken;
	l->owner = 0;
	me->held &= ~R(l->rank);
	me->atomic -= !sleeping;
}

/* ---- per-CPU items ---- */

static struct hostile_lock *item_lock(struct host_percpu *pc, unsigned int cpu)
{
	return (struct hostile_lock *)(pc->base + cpu * pc->stride);
}

int hostile_percpu_init(struct host_percpu *pc, size_t item_bytes, const char *name)
{
	unsigned int cpu;

	pc->stride = (HOST_CACHELINE + item_bytes + HOST_CACHELINE - 1) / HOST_CACHELINE *
		     HOST_CACHELINE;
	pc->base = host_zalloc(home->cpus * pc->stride);
	if (!pc->base)
		return -ENOMEM;
	for (cpu = 0; cpu < home->cpus; cpu++)
		hostile_lock_init(item_lock(pc, cpu), name);
	return 0;
}

void host_percpu_destroy(struct host_percpu *pc)
{
	unsigned int cpu;

	for (cpu = 0; cpu < home->cpus && pc->base; cpu++)
		hostile_lock_end(item_lock(pc, cpu));
	host_free(pc->base, home->cpus * pc->stride);
	pc->base = NULL;
}

void *host_percpu_peek(struct host_percpu *pc, unsigned int cpu)
{
	if (cpu >= home->cpus)
		explore_fail("CPU %u of %u is looked at", cpu, home->cpus);
	return pc->base + cpu * pc->stride + HOST_CACHELINE;
}

unsigned int host_nr_cpus(void)
{
	return home->cpus;
}

unsigned int host_cpus_now(void)
{
	return (unsigned int)__builtin_popcount(home->online);
}

/* The n-th CPU that is online after cpu. */
static unsigned int online_after(unsigned int cpu, unsigned int n)
{
	do {
		do
			cpu = (cpu + 1) % home->cpus;
		while (!(home->online & 1u << cpu));
	} while (--n);
	return cpu;
}

unsigned int host_cpu(void)
{
	unsigned int away;

	hostile_touch(&home->online, sizeof(home->online), false);
	if (!(home->online & 1u << me->cpu))
		me->cpu = online_after(me->cpu, 1);
	if (home->move && !me->atomic) {
		away = explore_choose((unsigned int)__builtin_popcount(home->online));
		if (away)
			me->cpu = online_after(me->cpu, away);
	}
	return me->cpu;
}

void *host_percpu_lock(struct host_percpu *pc)
{
	unsigned int cpu = host_cpu();

	hostile_acquire(item_lock(pc, cpu), false);
	return host_percpu_peek(pc, cpu);
}

void host_percpu_unlock(struct host_percpu *pc, void *item)
{
	(void)pc;
	hostile_release((struct hostile_lock *)((char *)item - HOST_CACHELINE), false);
}

void host_percpu_each(struct host_percpu *pc, void (*fn)(void *item, void *arg), void *arg)
{
	unsigned int cpu;

	must_be_process("host_percpu_each()");
	for (cpu = 0; cpu < home->cpus; cpu++) {
		hostile_acquire(item_lock(pc, cpu), false);
		fn(host_percpu_peek(pc, cpu), arg);
		hostile_release(item_lock(pc, cpu), false);
	}
}

void home_offline(unsigned int cpu)
{
	hostile_touch(&home->online, sizeof(home->online), true);
	home->online &= ~(1u << cpu);
}

/* ---- what fails ---- */

static bool failing(void)
{
	if (!home->fail || --home->fail)
		return false;
	home->fail = home->fail_all;
	home_failures++;
	return true;
}

/* ---- pages ---- */

static char *frame_at(u32 frame)
{
	return arena + HEAP_BYTES + frame * FRAME_BYTES;
}

static bool is_poison(const char *p, size_t n)
{
	return (u8)p[0] == HOME_POISON && !memcmp(p, p + 1, n - 1);
}

static u32 frame_of(host_page page)
{
	if (!page || page > HOME_PAGES)
		explore_fail("page %u is none", page);
	return page - 1;
}

unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n)
{
	unsigned int k;

	must_be_process("host_pages_alloc()");
	hostile_acquire(&home->source_lock, false);
	home_failures += n && src->dry;
	if (failing() || src->dry)
		n = 0;
	else if (home->may_be_dry && n && explore_choose(2))
		n = 0;
	for (k = 0; k < n && home->nfree; k++) {
		u32 frame = home->free_frame[home->first_free];

		home->first_free = (home->first_free + 1) % HOME_PAGES;
		home->nfree--;
		home->pages_out++;
		if (!is_poison(frame_at(frame), FRAME_BYTES))
			explore_fail("page %u was written after it was freed", frame + 1);
		home->frame_live[frame] = true;
		dirty[frame] = true;
		hostile_touch(frame_at(frame) + HOST_PAGE_SIZE, 1, true);
		out[k] = frame + 1;
	}
	hostile_release(&home->source_lock, false);
	return k;
}

static void check_red_zone(u32 frame)
{
	if (!is_poison(frame_at(frame) + HOST_PAGE_SIZE, RED_ZONE))
		explore_fail("the bytes behind page %u were written", frame + 1);
}

void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	unsigned int i;

	(void)src;
	hostile_acquire(&home->source_lock, false);
	for (i = 0; i < n; i++) {
		u32 frame = frame_of(pages[i]);

		hostile_touch(frame_at(frame) + HOST_PAGE_SIZE, 1, true);
		if (!home->frame_live[frame])
			explore_fail("page %u is freed twice", frame + 1);
		check_red_zone(frame);
		home->frame_live[frame] = false;
		dirty[frame] = true;
		memset(frame_at(frame), HOME_POISON, HOST_PAGE_SIZE);
		home->free_frame[(home->first_free + home->nfree++) % HOME_PAGES] = frame;
		home->pages_out--;
	}
	hostile_release(&home->source_lock, false);
}

void *host_page_addr(struct host_pages *src, host_page p)
{
	(void)src;
	if (!home->frame_live[frame_of(p)])
		explore_fail("page %u is used after it was freed", p);
	return frame_at(p - 1);
}

/* ---- memory ---- */

void *host_zalloc(size_t bytes)
{
	struct home_block *b = &home->block[home->nblocks];
	size_t room = (bytes + RED_ZONE + 63) & ~(size_t)63;

	must_be_process("host_zalloc()");
	if (failing())
		return NULL;
	if (home->heap_used + room > HEAP_BYTES ||
	    home->nblocks == sizeof(home->block) / sizeof(home->block[0]))
		explore_fail("the test needs a larger heap");
	*b = (struct home_block){ .at = (u32)home->heap_used, .bytes = (u32)bytes, .live = true };
	home->nblocks++;
	home->heap_used += room;
	memset(arena + b->at, 0, bytes);
	memset(arena + b->at + bytes, HOME_POISON, room - bytes);
	memset(heap_live + b->at / HOME_GRANULE, 1, (bytes + HOME_GRANULE - 1) / HOME_GRANULE);
	return arena + b->at;
}

void host_free(void *p, size_t bytes)
{
	struct home_block *b;

	must_be_process("host_free()");
	if (!p)
		return;
	for (b = home->block; b < home->block + home->nblocks; b++)
		if (arena + b->at == p)
			break;
	if (b == home->block + home->nblocks || !b->live || b->bytes != bytes)
		explore_fail("host_free() of what is no block of %zu bytes", bytes);
	if (!is_poison(arena + b->at + bytes, RED_ZONE))
		explore_fail("the bytes behind a block of %zu were written", bytes);
	b->live = false;
	memset(p, HOME_POISON, bytes);
	memset(heap_live + b->at / HOME_GRANULE, 0, (bytes + HOME_GRANULE - 1) / HOME_GRANULE);
}

void *hostile_memcpy(void *to, const void *from, size_t n)
{
	size_t half = n / 2;

	if (half) {
		hostile_touch(from, half, false);
		hostile_touch(to, half, true);
		memcpy(to, from, half);
	}
	if (n) {
		hostile_touch((const char *)from + half, n - half, false);
		hostile_touch((char *)to + half, n - half, true);
		memcpy((char *)to + half, (const char *)from + half, n - half);
	}
	return to;
}

/* ---- deferred work ---- */

int host_work_init(struct host_work *w, void (*fn)(struct host_work *w))
{
	if (failing())
		return -ENOMEM;
	if (home->nworks == HOME_WORKS)
		explore_fail("the test needs more workers");
	memset(w, 0, sizeof(*w));
	w->fn = fn;
	home->work[home->nworks++] = w;
	return 0;
}

void host_work_queue(struct host_work *w)
{
	hostile_touch(w, sizeof(*w), true);
	w->queued = 1;
}

void host_work_queue_delayed(struct host_work *w, u64 us)
{
	(void)us;       /* any moment from now on is within us */
	host_work_queue(w);
}

void home_run_work(struct host_work *w)
{
	w->queued = 0;
	w->running = 1;
	w->begun++;
	w->fn(w);
	if (me->atomic || me->held)
		explore_fail("work ends with a lock held");
	hostile_touch(w, sizeof(*w), true);
	w->running = 0;
	w->done++;
}

struct work_wait {
	const struct host_work *w;
	u64 done;
};

static bool has_run(const void *on)
{
	const struct work_wait *wait = on;

	return wait->w->done >= wait->done;
}

void host_work_flush(struct host_work *w)
{
	struct work_wait wait = { .w = w };

	must_be_process("host_work_flush()");
	if (!explore_running()) {
		while (w->queued)
			home_run_work(w);
		return;
	}
	hostile_touch(w, sizeof(*w), false);
	wait.done = w->begun + w->queued;
	explore_wait(has_run, &wait);
	hostile_touch(w, sizeof(*w), false);
}

void host_work_destroy(struct host_work *w)
{
	u32 i;

	must_be_process("host_work_destroy()");
	if (w->running || explore_running())
		explore_fail("a work item ends while somebody uses it");
	for (i = 0; i < home->nworks; i++)
		if (home->work[i] == w)
			home->work[i] = home->work[--home->nworks];
	memset(w, HOME_POISON, sizeof(*w));
}

/* ---- the rest ---- */

void host_relax(unsigned int *spins)
{
	must_be_process("host_relax()");
	if (me->held)
		explore_fail("who waits for a slot holds a lock");
	++*spins;
	explore_yield();
}

void host_resched(void)
{
	must_be_process("host_resched()");
}

u64 host_now_ns(void)
{
	return 0;
}

u64 host_total_bytes(void)
{
	return (u64)1 << 30;
}

/* ---- rounds ---- */

size_t home_granules(void)
{
	return ARENA_BYTES / HOME_GRANULE;
}

ptrdiff_t home_granule(const void *p)
{
	size_t at = (size_t)((const char *)p - arena);

	return at < ARENA_BYTES ? (ptrdiff_t)(at / HOME_GRANULE) : -1;
}

/* The granule of its red zone, which nobody else touches. */
ptrdiff_t home_frame_granule(const void *p)
{
	size_t at = (size_t)((const char *)p - arena);

	if (at < HEAP_BYTES || at >= ARENA_BYTES)
		return -1;
	return home_granule(frame_at((u32)((at - HEAP_BYTES) / FRAME_BYTES)) + HOST_PAGE_SIZE);
}

const char *home_why_dead(const void *p, size_t n)
{
	size_t at = (size_t)((const char *)p - arena), i;

	if (at >= ARENA_BYTES || at < sizeof(struct home))
		return NULL;
	if (at >= HEAP_BYTES) {
		u32 frame = (u32)((at - HEAP_BYTES) / FRAME_BYTES);

		return home->frame_live[frame] ? NULL : "a page is used after it was freed";
	}
	for (i = at / HOME_GRANULE; i <= (at + n - 1) / HOME_GRANULE; i++)
		if (!heap_live[i])
			return "memory is used that is not allocated";
	return NULL;
}

static char *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

void home_open(unsigned int cpus, unsigned int pages)
{
	u32 i;

	if (!arena) {
		arena = map(ARENA_BYTES);
		kept = map(ARENA_BYTES);
		heap_live = (u8 *)map(HEAP_BYTES / HOME_GRANULE);
		kept_live = (u8 *)map(HEAP_BYTES / HOME_GRANULE);
	}
	memset(heap_live, 0, HEAP_BYTES / HOME_GRANULE);
	home = (struct home *)(void *)arena;
	memset(home, 0, sizeof(*home));
	home->cpus = cpus;
	home->online = (1u << cpus) - 1;
	home->heap_used = (sizeof(*home) + 127) & ~(size_t)63;
	hostile_lock_init(&home->source_lock, "the page source");
	for (i = 0; i < HOME_PAGES; i++) {
		memset(frame_at(i), HOME_POISON, FRAME_BYTES);
		dirty[i] = true;
	}
	/* Scattered: no page follows the one before it. */
	for (i = 0; i < HOME_PAGES && home->nfree < pages; i++)
		home->free_frame[home->nfree++] = i * 37 % HOME_PAGES;
}

void home_close(void)
{
	u32 i;

	if (me->atomic || me->held)
		explore_fail("a lock is held at the end");
	if (home->pages_out)
		explore_fail("%u pages did not come back", home->pages_out);
	for (i = 0; i < home->nblocks; i++)
		if (home->block[i].live)
			explore_fail("a block of %u bytes did not come back", home->block[i].bytes);
	for (i = 0; i < HOME_PAGES; i++)
		if (dirty[i] && !is_poison(frame_at(i), FRAME_BYTES))
			explore_fail("page %u was written after it was freed", i + 1);
	if (home->nworks)
		explore_fail("a work item was not ended");
}

void home_snapshot(void)
{
	u32 i;

	memcpy(kept, arena, home->heap_used);
	memcpy(kept_live, heap_live, HEAP_BYTES / HOME_GRANULE);
	for (i = 0; i < HOME_PAGES; i++) {
		if (home->frame_live[i])
			memcpy(kept + (frame_at(i) - arena), frame_at(i), HOST_PAGE_SIZE);
		dirty[i] = false;
	}
}

void home_restore(void)
{
	const struct home *was = (const struct home *)(const void *)kept;
	u32 i;

	memcpy(heap_live, kept_live, home->heap_used / HOME_GRANULE);
	memcpy(arena, kept, was->heap_used);
	for (i = 0; i < HOME_PAGES; i++) {
		if (was->frame_live[i])
			memcpy(frame_at(i), kept + (frame_at(i) - arena), HOST_PAGE_SIZE);
		else if (dirty[i])
			memset(frame_at(i), HOME_POISON, HOST_PAGE_SIZE);
		dirty[i] = false;
	}
}
