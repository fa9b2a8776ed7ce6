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
#define SCATTER 37u             /* prime to the number of frames */
#define FRAME_BYTES (PAGE_SIZE + RED_ZONE)
#define FRAME_STRIDE (2 * PAGE_SIZE)       /* since a page lies at a multiple of its size */
#define HEAP_BYTES ((512u << 10) + 48 * PAGE_SIZE)     /* two codecs with units of four pages */
#define HEAP_CPU ((64u << 10) + 4 * PAGE_SIZE)     /* for each CPU of a home with many */
#define HEAP_MAX (HEAP_BYTES + HOME_CPUS * HEAP_CPU)
#define ARENA_MAX (HEAP_MAX + HOME_PAGES_MAX * FRAME_STRIDE)

static char *arena, *kept;              /* [ARENA_MAX], of which pages are there as they are used */
static size_t heap_bytes, arena_bytes, home_bytes;      /* the last: struct home, its arrays */
static u8 *heap_live, *kept_live;       /* [HEAP_MAX / HOME_GRANULE] */
static bool dirty[HOME_PAGES_MAX];      /* was handed out since the snapshot */
struct home *home;
u64 home_failures, home_longest;
void (*home_rests)(void), (*home_gave)(void);
static u64 class_taken;                 /* explore_accesses when a class lock was last taken */

/*
 * docs/internals/locking.md as data: what may be held when a lock is taken.  The names are those
 * that the core gives, or the expressions it makes them by.
 */
#define R(n) (1u << (n))
#define STREAM_LOCK 1
#define TIDY_LOCK 4
#define CLASS_LOCK 6
#define SLEEPING (R(TIDY_LOCK) | R(STREAM_LOCK) | R(3))

static const struct rank {
	const char *name;
	u32 under;
} ranks[] = {
	/*      name                under                    */
	[STREAM_LOCK] = { "&st->lock",       R(TIDY_LOCK) },
	[3]  = { "&r->flushing",     R(TIDY_LOCK) },
	[TIDY_LOCK] = { "&u->tidying",       0 },
	[5]  = { "&s->cpus",         SLEEPING },
	[CLASS_LOCK] = { "&c->lock",        SLEEPING | R(5) },
	[7]  = { "&g->lock", SLEEPING | R(5) | R(CLASS_LOCK) },
	[8]  = { "&r->item[i]->queue.lock",      SLEEPING | R(5) },
	[10] = { "&r->lock",      SLEEPING | R(5) },
	[11] = { "the page source",  SLEEPING | R(5) },
	[12] = { "&h->lock",        R(TIDY_LOCK) | R(STREAM_LOCK) | R(5) | R(CLASS_LOCK) },
	[13] = { "&b->node[k].lock", SLEEPING | R(5) | R(8) | R(14) },
	[14] = { "&b->mutex",         0 },
	[15] = { "&backed_batch_of(b, k)->lock", SLEEPING | R(5) },
	[16] = { "&b->lock",       SLEEPING | R(5) | R(15) },
	[17] = { "&u->lock",         SLEEPING | R(5) },
	[18] = { "&b->cpus",         0 },       /* which nobody takes */
};
#define NRANKS (sizeof(ranks) / sizeof(ranks[0]))

static struct home_lock_stat stats[NRANKS];
u64 home_source_calls, home_source_most;

#define AT_HAND_LEAVES 8       /* pages that who may need none leaves for those who do */
static u32 rank_of(const char *name)
{
	u32 i;

	for (i = 0; i < NRANKS; i++)
		if (ranks[i].name && !strcmp(ranks[i].name, name))
			return i;
	explore_fail("lock %s has no place in docs/internals/locking.md's order (home.c)", name);
}

const struct home_lock_stat *home_lock_stat(const char *name)
{
	return &stats[rank_of(name)];
}

void home_stat_reset(void)
{
	memset(stats, 0, sizeof(stats));
	home_source_calls = home_source_most = 0;
}

static void count_source(unsigned int n)
{
	home_source_calls++;
	home_source_most = n > home_source_most ? n : home_source_most;
}

static void must_be_process(const char *what)
{
	if (me->atomic)
		explore_fail("%s in atomic context", what);
}

static void must_not_be_work(const char *what)
{
	if (me->working)
		explore_fail("%s may wait for memory, in work that reclaim may wait for", what);
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
	l->owner = 0;
	l->rank = rank_of(name);
	l->tickets = l->served = 0;
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

/* In a fair home: all who came before the actor are served. */
static bool is_my_turn(const void *on)
{
	const struct actor *a = on;

	return a->lock->served == a->ticket;
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

static void acquire_here(struct hostile_lock *l, bool sleeping)
{
	check_order(l);
	if (sleeping)
		must_be_process(ranks[l->rank].name);
	if (home->fair) {
		me->lock = l;
		me->ticket = l->tickets++;
		if (!is_my_turn(me))
			explore_wait(is_my_turn, me);
	} else if (l->owner) {
		explore_wait(is_free, l);
	}
	explore_did(l, sizeof(*l), true);
	l->owner = me->id + 1;
	me->held |= R(l->rank);
	me->atomic += !sleeping;
	stats[l->rank].holds++;
	if (l->rank == CLASS_LOCK)
		class_taken = explore_accesses;
}

void hostile_acquire(struct hostile_lock *l, bool sleeping)
{
	explore_at(l, sizeof(*l));
	acquire_here(l, sleeping);
}

bool hostile_try(struct hostile_lock *l, bool sleeping)
{
	check_order(l);
	hostile_touch(l, sizeof(*l), true);
	if (l->owner || l->served != l->tickets) {
		stats[l->rank].tries++;
		return false;
	}
	stats[l->rank].holds++;
	l->tickets += home->fair;
	l->owner = me->id + 1;
	me->held |= R(l->rank);
	me->atomic += !sleeping;
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
	l->served += home->fair;
	me->held &= ~R(l->rank);
	me->atomic -= !sleeping;
}

/* ---- waiting for a counter to run out ---- */

static bool is_zero(const void *on)
{
	return !((const host_a64 *)on)->v;
}

void host_wait_zero(host_a64 *a)
{
	must_be_process("host_wait_zero()");
	explore_at(a, sizeof(*a));
	if (a->v)
		explore_wait(is_zero, a);
	explore_did(a, sizeof(*a), false);
}

/* Who waits looks by himself. */
void host_wake_zero(host_a64 *a)
{
	(void)a;
}

/* ---- per-CPU items ---- */

static struct hostile_lock *item_lock(struct host_percpu *pc, unsigned int cpu)
{
	return (struct hostile_lock *)(pc->base + cpu * pc->stride);
}

int hostile_percpu_init(struct host_percpu *pc, size_t item_bytes, const char *name)
{
	unsigned int i;

	pc->stride = (SMP_CACHE_BYTES + item_bytes + SMP_CACHE_BYTES - 1) / SMP_CACHE_BYTES *
		     SMP_CACHE_BYTES;
	pc->base = host_zalloc(host_percpu_items(pc) * pc->stride);
	if (!pc->base)
		return -ENOMEM;
	for (i = 0; i < host_percpu_items(pc); i++)
		hostile_lock_init(item_lock(pc, i), name);
	return 0;
}

void host_percpu_destroy(struct host_percpu *pc)
{
	unsigned int i;

	for (i = 0; i < host_percpu_items(pc) && pc->base; i++)
		hostile_lock_end(item_lock(pc, i));
	host_free(pc->base, host_percpu_items(pc) * pc->stride);
	pc->base = NULL;
}

void *host_percpu_peek(struct host_percpu *pc, unsigned int i)
{
	if (i >= host_percpu_items(pc))
		explore_fail("item %u of %u is looked at", i, host_percpu_items(pc));
	return pc->base + i * pc->stride + SMP_CACHE_BYTES;
}

/* One past the CPUs', for who finds his CPU's taken. */
unsigned int host_percpu_items(struct host_percpu *pc)
{
	(void)pc;
	return home->cpus + 1;
}

unsigned int host_percpu_node(struct host_percpu *pc, unsigned int i)
{
	(void)pc;
	return i < home->cpus ? hostile_cpu_node(i) : 0;
}

/* Each item was free at some moment of the call. */
void host_settle(struct host_percpu *pc)
{
	unsigned int i;

	must_be_process("host_settle()");
	for (i = 0; i < host_percpu_items(pc); i++) {
		struct hostile_lock *l = item_lock(pc, i);

		explore_at(l, sizeof(*l));
		if (l->owner)
			explore_wait(is_free, l);
		explore_did(l, sizeof(*l), false);
	}
}

unsigned int hostile_nr_cpus(void)
{
	return home->cpus;
}

unsigned int num_online_cpus(void)
{
	return home->nonline;
}

static bool is_online(unsigned int cpu)
{
	return home->online[cpu / 64] >> cpu % 64 & 1;
}

static void touch_online(bool write)
{
	hostile_touch(home->online, (home->cpus + 63) / 64 * sizeof(home->online[0]), write);
}

/* The n-th CPU that is online after cpu. */
static unsigned int online_after(unsigned int cpu, unsigned int n)
{
	do {
		do
			cpu = (cpu + 1) % home->cpus;
		while (!is_online(cpu));
	} while (--n);
	return cpu;
}

unsigned int raw_smp_processor_id(void)
{
	unsigned int away;

	touch_online(false);
	if (!is_online(me->cpu))
		me->cpu = online_after(me->cpu, 1);
	if (home->move && !me->atomic) {
		away = explore_choose(home->nonline);
		if (away)
			me->cpu = online_after(me->cpu, away);
	}
	return me->cpu;
}

unsigned int hostile_nr_nodes(void)
{
	return home->nodes;
}

unsigned int hostile_cpu_node(unsigned int cpu)
{
	if (cpu >= home->cpus)
		explore_fail("the node of CPU %u of %u is asked for", cpu, home->cpus);
	return cpu * home->nodes / home->cpus;
}

unsigned int numa_mem_id(void)
{
	return hostile_cpu_node(raw_smp_processor_id());
}

void *host_percpu_lock(struct host_percpu *pc)
{
	unsigned int i = raw_smp_processor_id();
	struct hostile_lock *l = item_lock(pc, i);

	explore_at(l, sizeof(*l));
	if (l->owner) {
		explore_did(l, sizeof(*l), false);
		i = home->cpus;
		explore_at(item_lock(pc, i), sizeof(*l));
	}
	acquire_here(item_lock(pc, i), false);
	return pc->base + i * pc->stride + SMP_CACHE_BYTES;
}

void host_percpu_unlock(struct host_percpu *pc, void *item)
{
	(void)pc;
	hostile_release((struct hostile_lock *)((char *)item - SMP_CACHE_BYTES), false);
}

void home_offline(unsigned int cpu)
{
	touch_online(true);
	if (!is_online(cpu) || home->nonline == 1)
		return;
	home->online[cpu / 64] &= ~((u64)1 << cpu % 64);
	home->nonline--;
}

void home_only(unsigned int cpu)
{
	touch_online(true);
	memset(home->online, 0, sizeof(home->online));
	home->online[cpu / 64] = (u64)1 << cpu % 64;
	home->nonline = 1;
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
	return arena + heap_bytes + frame * FRAME_STRIDE;
}

static bool is_poison(const char *p, size_t n)
{
	return (u8)p[0] == HOME_POISON && !memcmp(p, p + 1, n - 1);
}

static u32 frame_of(host_page page)
{
	if (!page || page > home->frames)
		explore_fail("page %u is none", page);
	return page - 1;
}

static unsigned int node_of(u32 frame)
{
	return frame * home->nodes / home->frames;
}

unsigned int host_page_node(struct host_pages *src, host_page p)
{
	(void)src;
	if (!home->frame_live[frame_of(p)])
		explore_fail("the node of page %u is asked for after it was freed", p);
	return node_of(p - 1);
}

static u32 pages_left(void)
{
	u32 i, n = 0;

	for (i = 0; i < home->nodes; i++)
		n += home->node[i].nfree;
	return n;
}

/* The oldest free frame of node, else of the next that has one; frames: there is none. */
static u32 take_frame(unsigned int node)
{
	u32 i, frame;

	for (i = 0; i < home->nodes; i++) {
		struct home_node *from = &home->node[(node + i) % home->nodes];

		if (!from->nfree || home->dry_nodes >> (node + i) % home->nodes & 1)
			continue;
		frame = from->free_frame[from->first_free];
		from->first_free = (from->first_free + 1) % home->frames;
		from->nfree--;
		return frame;
	}
	return home->frames;
}

unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int node, unsigned int how)
{
	unsigned int k;

	if (how & ~(HOST_MAY_WAIT | HOST_RECLAIMS | HOST_AT_HAND) ||
	    (node >= home->nodes && node != NUMA_NO_NODE))
		explore_fail("pages are asked for of node %u, how %u", node, how);
	if (how & HOST_MAY_WAIT) {
		must_be_process("host_pages_alloc()");
		must_not_be_work("host_pages_alloc()");
		if (me->held & R(STREAM_LOCK))
			explore_fail("who has a stream in hand waits for pages");
	}
	if (node == NUMA_NO_NODE)
		node = numa_mem_id();
	count_source(n);
	hostile_acquire(&home->source_lock, false);
	home_failures += n && src->dry;
	if (failing() || src->dry || (home->may_be_dry && n && explore_choose(2)))
		n = 0;
	for (k = 0; k < n; k++) {
		u32 frame = home->frames;

		/* What lies ready for a CPU is as if not taken: others find as much as before. */
		if (how & (HOST_MAY_WAIT | HOST_RECLAIMS) ||
		    pages_left() > home->emergency + (how & HOST_AT_HAND ? AT_HAND_LEAVES : 0))
			frame = take_frame(node);
		if (frame == home->frames)
			break;
		home->pages_out++;
		if (!is_poison(frame_at(frame), FRAME_BYTES))
			explore_fail("page %u was written after it was freed", frame + 1);
		home->frame_live[frame] = true;
		dirty[frame] = true;
		hostile_touch(frame_at(frame) + PAGE_SIZE, 1, true);
		out[k] = frame + 1;
	}
	hostile_release(&home->source_lock, false);
	return k;
}

static void check_red_zone(u32 frame)
{
	if (!is_poison(frame_at(frame) + PAGE_SIZE, RED_ZONE))
		explore_fail("the bytes behind page %u were written", frame + 1);
}

void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
{
	unsigned int i;

	(void)src;
	count_source(n);
	hostile_acquire(&home->source_lock, false);
	for (i = 0; i < n; i++) {
		u32 frame = frame_of(pages[i]);
		struct home_node *to = &home->node[node_of(frame)];

		hostile_touch(frame_at(frame) + PAGE_SIZE, 1, true);
		if (!home->frame_live[frame])
			explore_fail("page %u is freed twice", frame + 1);
		check_red_zone(frame);
		home->frame_live[frame] = false;
		dirty[frame] = true;
		memset(frame_at(frame), HOME_POISON, PAGE_SIZE);
		to->free_frame[(to->first_free + to->nfree) % home->frames] = frame;
		to->nfree += !home->frame_bad[frame];
		home->pages_out--;
	}
	hostile_release(&home->source_lock, false);
	if (home_gave)
		home_gave();
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
	must_not_be_work("host_zalloc()");
	home_failures += home->no_heap;
	if (failing() || home->no_heap)
		return NULL;
	if (home->heap_used + room > heap_bytes || home->nblocks == home->max_blocks)
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
	u32 i;

	for (i = 0; me->held >> i; i++)
		if (me->held & R(i) && n > stats[i].copied)
			stats[i].copied = n;
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

int host_work_init(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node)
{
	(void)node;
	if (failing())
		return -ENOMEM;
	if (home->nworks == home->max_works)
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
	me->working++;
	w->fn(w);
	me->working--;
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

void cond_resched(void)
{
	void (*rests)(void) = home_rests;

	must_be_process("cond_resched()");
	home_rests = NULL;
	if (rests)
		rests();
	home_rests = rests;
}

bool host_interrupted(void)
{
	must_be_process("host_interrupted()");
	return home->interrupted;
}

/* Whatever is timed, its time is over, unless the clock stands. */
u64 ktime_get_ns(void)
{
	return home->now += home->still ? 0 : (u64)1 << 32;
}

u64 host_total_bytes(void)
{
	return home->memory ? home->memory : (u64)1 << 30;
}

/* ---- rounds ---- */

size_t home_granules(void)
{
	return (heap_bytes + home->frames * FRAME_BYTES) / HOME_GRANULE;
}

size_t home_granules_max(void)
{
	return (HEAP_MAX + HOME_PAGES_MAX * FRAME_BYTES) / HOME_GRANULE;
}

ptrdiff_t home_granule(const void *p)
{
	size_t at = (size_t)((const char *)p - arena), in = at - heap_bytes;

	if (at >= arena_bytes || (at >= heap_bytes && in % FRAME_STRIDE >= FRAME_BYTES))
		return -1;
	if (at >= heap_bytes)
		at = heap_bytes + in / FRAME_STRIDE * FRAME_BYTES + in % FRAME_STRIDE;
	return (ptrdiff_t)(at / HOME_GRANULE);
}

/* The granule of its red zone, which nobody else touches. */
ptrdiff_t home_frame_granule(const void *p)
{
	size_t at = (size_t)((const char *)p - arena);

	if (at < heap_bytes || at >= arena_bytes)
		return -1;
	return home_granule(frame_at((u32)((at - heap_bytes) / FRAME_STRIDE)) + PAGE_SIZE);
}

const char *home_why_dead(const void *p, size_t n)
{
	size_t at = (size_t)((const char *)p - arena), i;

	if (at >= arena_bytes || at < home_bytes)
		return NULL;
	if (at >= heap_bytes) {
		u32 frame = (u32)((at - heap_bytes) / FRAME_STRIDE);

		if ((at - heap_bytes) % FRAME_STRIDE >= FRAME_BYTES)
			return "memory is used that is not allocated";
		return home->frame_live[frame] ? NULL : "a page is used after it was freed";
	}
	for (i = at / HOME_GRANULE; i <= (at + n - 1) / HOME_GRANULE; i++)
		if (!heap_live[i])
			return "memory is used that is not allocated";
	return NULL;
}

static char *map(size_t bytes)
{
	void *p = mmap(NULL, bytes + PAGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return (char *)(((size_t)p + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1));
}

void home_open(unsigned int cpus, unsigned int pages)
{
	home_open_nodes(cpus, 1, pages);
}

/* Memory of the home's own, before there is a heap. */
static void *home_array(size_t n, size_t bytes)
{
	void *p = arena + home_bytes;

	home_bytes = (home_bytes + n * bytes + 63) & ~(size_t)63;
	memset(p, 0, n * bytes);
	return p;
}

void home_open_nodes(unsigned int cpus, unsigned int nodes, unsigned int pages)
{
	u32 i;

	if (!cpus || cpus > HOME_CPUS || !nodes || nodes > HOME_NODES || pages > HOME_PAGES_MAX - 1)
		explore_fail("no home has %u CPUs, %u nodes and %u pages", cpus, nodes, pages);
	if (!arena) {
		arena = map(ARENA_MAX);
		kept = map(ARENA_MAX);
		heap_live = (u8 *)map(HEAP_MAX / HOME_GRANULE);
		kept_live = (u8 *)map(HEAP_MAX / HOME_GRANULE);
	}
	memset(heap_live, 0, heap_bytes / HOME_GRANULE);
	home_bytes = 0;
	home = home_array(1, sizeof(*home));
	home->cpus = cpus;
	home->nodes = nodes;
	home->frames = pages > HOME_PAGES ? pages + !(pages % SCATTER) : HOME_PAGES;
	home->frame_live = home_array(home->frames, sizeof(*home->frame_live));
	home->frame_bad = home_array(home->frames, sizeof(*home->frame_bad));
	for (i = 0; i < nodes; i++)
		home->node[i].free_frame = home_array(home->frames, sizeof(u32));
	home->max_blocks = 256 + (cpus > HOME_CPUS_SMALL ? 24 * cpus : 0);
	home->block = home_array(home->max_blocks, sizeof(*home->block));
	home->max_works = 2 * HOME_NODES + cpus;
	home->work = home_array(home->max_works, sizeof(struct host_work *));
	home->heap_used = home_bytes + 64;
	heap_bytes = HEAP_BYTES + (cpus > HOME_CPUS_SMALL ? (size_t)cpus * HEAP_CPU : 0);
	arena_bytes = heap_bytes + home->frames * FRAME_STRIDE;
	for (i = 0; i < cpus; i++)
		home->online[i / 64] |= (u64)1 << i % 64;
	home->nonline = cpus;
	hostile_lock_init(&home->source_lock, "the page source");
	for (i = 0; i < home->frames; i++) {
		memset(frame_at(i), HOME_POISON, FRAME_BYTES);
		dirty[i] = true;
	}
	/* Scattered: no page follows the one before it. */
	for (i = 0; i < pages; i++) {
		u32 frame = i * SCATTER % home->frames;
		struct home_node *to = &home->node[node_of(frame)];

		to->free_frame[to->nfree++] = frame;
	}
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
	for (i = 0; i < home->frames; i++)
		if (dirty[i] && !is_poison(frame_at(i), FRAME_BYTES))
			explore_fail("page %u was written after it was freed", i + 1);
	if (home->nworks)
		explore_fail("a work item was not ended");
}

void home_snapshot(void)
{
	u32 i;

	memcpy(kept, arena, home->heap_used);
	memcpy(kept_live, heap_live, home->heap_used / HOME_GRANULE);
	for (i = 0; i < home->frames; i++) {
		if (home->frame_live[i])
			memcpy(kept + (frame_at(i) - arena), frame_at(i), PAGE_SIZE);
		dirty[i] = false;
	}
}

void home_restore(void)
{
	const struct home *was = (const struct home *)(const void *)kept;
	u32 i;

	memcpy(heap_live, kept_live, home->heap_used / HOME_GRANULE);
	memcpy(arena, kept, was->heap_used);
	for (i = 0; i < home->frames; i++) {
		if (was->frame_live[i])
			memcpy(frame_at(i), kept + (frame_at(i) - arena), PAGE_SIZE);
		else if (dirty[i])
			memset(frame_at(i), HOME_POISON, PAGE_SIZE);
		dirty[i] = false;
	}
}
