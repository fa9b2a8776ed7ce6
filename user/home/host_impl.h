/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * host_impl.h - the user-space home's side of core/host.h (included by it, never alone).
 *
 * Owns: the types behind the contract, and every operation short enough to be inlined.
 * The long halves of them are in host_user.c; pages are in zone.c.
 *
 *   spinlock_t      { held 0/1, waiters }                    8 bytes
 *   struct host_percpu  base -> | held, waiters | item ... | held, waiters | item ... |
 *                               ^ stride, a multiple of 128
 *   struct host_pages   the public head of zone.c's struct zone: the address of a page is its
 *                       number shifted, and a term that belongs to the highest bit of it
 *
 * A lock may be waited for by sleeping in the kernel, since in user space its holder can be
 * preempted.
 */
#ifndef EBB_USER_HOST_IMPL_H
#define EBB_USER_HOST_IMPL_H

#include <pthread.h>

#include "kernel_names.h"

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35) && (defined(__x86_64__) || defined(__aarch64__))
#include <sys/rseq.h>
#define HOST_USER_RSEQ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#define HOST_USER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOST_USER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HOST_USER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HOST_USER_TSAN 1
#endif
#endif

typedef u32 host_page;

#define prefetchw(p) __builtin_prefetch((p), 1)

/* ---- atomics ---- */

typedef struct {
	_Alignas(8) u64 v;
} host_a64;

#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, val) \
	__atomic_store_n(&(x), (__typeof__(x))(val), __ATOMIC_RELAXED)

/*
 * A seq_cst read-modify-write is a full barrier where it is one instruction (x86, arm64
 * with LSE).  Built from load-acquire / store-release exclusives it is not: a later load may
 * pass the store.
 */
static inline void host_user_after_rmw(void)
{
#if !defined(__x86_64__) && !defined(__ARM_FEATURE_ATOMICS)
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline u64 host_a64_read(const host_a64 *a)
{
	return __atomic_load_n(&a->v, __ATOMIC_RELAXED);
}

static inline u64 host_a64_read_acquire(const host_a64 *a)
{
	return __atomic_load_n(&a->v, __ATOMIC_ACQUIRE);
}

static inline void host_a64_set(host_a64 *a, u64 v)
{
	__atomic_store_n(&a->v, v, __ATOMIC_RELAXED);
}

static inline void host_a64_set_release(host_a64 *a, u64 v)
{
	__atomic_store_n(&a->v, v, __ATOMIC_RELEASE);
}

static inline bool host_a64_cas(host_a64 *a, u64 *old, u64 v)
{
	bool done = __atomic_compare_exchange_n(&a->v, old, v, false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED);
	host_user_after_rmw();
	return done;
}

static inline u64 host_a64_xchg(host_a64 *a, u64 v)
{
	u64 old = __atomic_exchange_n(&a->v, v, __ATOMIC_SEQ_CST);

	host_user_after_rmw();
	return old;
}

static inline u64 host_a64_add(host_a64 *a, u64 v)
{
	u64 now = __atomic_add_fetch(&a->v, v, __ATOMIC_SEQ_CST);

	host_user_after_rmw();
	return now;
}

static inline u64 host_a64_or(host_a64 *a, u64 v)
{
	u64 old = __atomic_fetch_or(&a->v, v, __ATOMIC_SEQ_CST);

	host_user_after_rmw();
	return old;
}

static inline u64 host_a64_and(host_a64 *a, u64 v)
{
	u64 old = __atomic_fetch_and(&a->v, v, __ATOMIC_SEQ_CST);

	host_user_after_rmw();
	return old;
}

static inline void host_user_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* ---- spin locks ---- */

/*
 * held is 0 or 1; waiters counts threads that sleep on held, or are about to.
 *
 * Unlocking is a plain store: no second locked instruction.  The price is that a waiter may
 * count itself between the unlocker's look at waiters and its store, and miss the wake-up;
 * therefore nobody sleeps for longer than host_user.c's LOCK_SLEEP_NS at a time.  waiters is read
 * before the store, since after it the lock's memory may be somebody else's.
 */
typedef struct kernel_names_lock("lock") {
	u32 held;
	u32 waiters;
} spinlock_t;

void host_user_lock_slow(spinlock_t *l);
void host_user_lock_wake(spinlock_t *l);

static inline void spin_lock_init(spinlock_t *l)
{
	l->held = 0;
	l->waiters = 0;
}

static inline void spin_lock(spinlock_t *l) __acquires(l)
	__no_context_analysis
{
	if (unlikely(__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE)))
		host_user_lock_slow(l);
}

static inline bool spin_trylock(spinlock_t *l) __cond_acquires(true, l)
	__no_context_analysis
{
	return !READ_ONCE(l->held) && !__atomic_exchange_n(&l->held, 1, __ATOMIC_ACQUIRE);
}

static inline void spin_unlock(spinlock_t *l) __releases(l)
	__no_context_analysis
{
	u32 waiters = __atomic_load_n(&l->waiters, __ATOMIC_RELAXED);

	__atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
	if (unlikely(waiters))
		host_user_lock_wake(l);
}

/* ---- sleeping locks ---- */

/*
 * state: bit 0 held; bits 1..31 waiters; bits 32.. those of them that starve.
 *
 * Who comes takes it when it is free, before those that sleep: a hand-over to a sleeper costs a
 * switch, each time.  But a waiter that slept and has waited for HOST_USER_STARVE_NS starves, and
 * until it has its turn nobody comes in before those that wait.  Sleepers are woken one by one in
 * their order, so that is after each of those before it had one turn.
 *
 * bell changes with each unlock that finds a waiter, so none that looked before it goes to sleep.
 *
 * Orderings (docs/internals/locking.md).
 *
 * user lock: held.  Writes: exchange, acquire; store, release.  Reads: the same.  Order: the
 *     usual.  Without it: two in one section.  Model: lock.
 * user lock: waiters.  Writes: full add.  Reads: unlocker, relaxed, before its store.  Order:
 *     none: a wake-up may be missed, sleeps are 0.2 ms at most.  Without it: a later wake-up.
 * user sleeping lock: state.  Writes: CAS, acquire; unlock: subtraction, release; waiters:
 *     addition, relaxed.  Reads: the same.  Order: the usual.  Without it: two at once.
 * user sleeping lock: bell.  Writes: unlock that finds waiters: addition, release, after state.
 *     Reads: waiter, acquire, after it counted itself in state and before it looks at it.
 *     Order: an unlock finds the waiter, or the waiter sees it.  Without it: a sleeper that
 *     nobody wakes.
 */

#define HOST_USER_STARVE_NS 1000000

#define HOST_USER_HELD ((u64)1)
#define HOST_USER_WAITER ((u64)2)
#define HOST_USER_WAITERS ((u64)0xfffffffe)
#define HOST_USER_STARVER ((u64)1 << 32)

struct kernel_names_lock("mutex") mutex {
	u64 state;
	u32 bell;
};

void host_user_mutex_slow(struct mutex *m);
void host_user_mutex_ring(struct mutex *m);

static inline void mutex_init(struct mutex *m)
{
	m->state = 0;
	m->bell = 0;
}

static inline void mutex_destroy(struct mutex *m)
{
	(void)m;
}

static inline bool mutex_trylock(struct mutex *m) __cond_acquires(true, m)
	__no_context_analysis
{
	u64 was = __atomic_load_n(&m->state, __ATOMIC_RELAXED);

	return !(was & HOST_USER_HELD) && was < HOST_USER_STARVER &&
	       __atomic_compare_exchange_n(&m->state, &was, was | HOST_USER_HELD, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void mutex_lock(struct mutex *m) __acquires(m)
	__no_context_analysis
{
	if (unlikely(!mutex_trylock(m)))
		host_user_mutex_slow(m);
}

static inline void mutex_unlock(struct mutex *m) __releases(m)
	__no_context_analysis
{
	u64 was = __atomic_fetch_sub(&m->state, HOST_USER_HELD, __ATOMIC_RELEASE);

	if (unlikely(was & HOST_USER_WAITERS))
		host_user_mutex_ring(m);
}

/* ---- waiting for a counter to run out ---- */

void host_wait_zero(host_a64 *a);
void host_wake_zero(host_a64 *a);

/* ---- per-CPU items ---- */

/*
 * An item's header is a line of its own, so that the item can hold aligned members.
 *
 * Where the system has restartable sequences (rseq) and membarrier, taking the own CPU's item
 * is a compare and a plain store, which the kernel sends to the failure branch if the thread is
 * preempted or migrated in between: half the price of a locked instruction.  Elsewhere it is an
 * exchange.
 *
 * Nobody waits for an item whose thread lost its CPU: after a few looks one of the items past
 * the CPUs' is taken, by the lock that each item begins with.
 */
#define HOST_USER_ITEM_HEAD 64

/*
 * Orderings (docs/internals/locking.md).
 *
 * user item, rseq: held.  Writes: sequence: plain store; store, release.  Reads: settle:
 *     acquire, after membarrier.  Order: membarrier: before the section's loads or after its
 *     store; x86-64 only, so acquire and release come free.  Without it: a section that is not
 *     waited for.  Model: settle.
 * user item, no rseq: held.  Writes: exchange, full; store, release.  Reads: settle: full, then
 *     acquire.  Order: as above.  Without it: the same.
 */
struct host_percpu {
	char *base;      /* items times: spinlock_t in its line, then the item */
	size_t stride;
	unsigned int n;  /* items that are CPUs': nr_cpu_ids when it was made */
	unsigned int items;
	bool rseq;       /* each CPU has an item of its own, and rseq and membarrier work */
};

unsigned int host_user_nr_cpus(void);
#define nr_cpu_ids host_user_nr_cpus()
/* For tests, before the first host_percpu_init(); 0: what the system says. */
void host_user_set_nr_cpus(unsigned int n);

int host_percpu_init(struct host_percpu *pc, size_t item_bytes);
void host_percpu_destroy(struct host_percpu *pc);
/* cpu's item is taken, or cpu is past the items. */
void *host_user_percpu_lock_slow(struct host_percpu *pc);
unsigned int host_user_cpu_slow(unsigned int n);

/* The CPU now; anything past the number of CPUs means unknown. */
static inline unsigned int host_user_cpu_raw(void)
{
#if defined(HOST_USER_RSEQ) && defined(__x86_64__)
	u32 cpu;

	__asm__ volatile("movl %%fs:%c2(%1), %0"
			 : "=r"(cpu)
			 : "r"(__rseq_offset), "i"(offsetof(struct rseq, cpu_id)));
	return cpu;
#elif defined(HOST_USER_RSEQ) && defined(__aarch64__)
	const char *tp;

	__asm__("mrs %0, tpidr_el0" : "=r"(tp));
	return *(const volatile u32 *)(const void *)(tp + __rseq_offset +
						     offsetof(struct rseq, cpu_id));
#else
	return ~0u;
#endif
}

static inline unsigned int raw_smp_processor_id(void)
{
	unsigned int n = nr_cpu_ids;
	unsigned int cpu = host_user_cpu_raw();

	return likely(cpu < n) ? cpu : host_user_cpu_slow(n);
}

/* Those that may come count, too: what is not touched takes no memory here. */
static inline unsigned int num_online_cpus(void)
{
	return nr_cpu_ids;
}

#if defined(HOST_USER_RSEQ) && defined(__x86_64__) && !defined(HOST_USER_TSAN)
#define HOST_USER_RSEQ_LOCK 1

/*
 * Takes an item if this thread runs on cpu and the item is not taken.  The address in rseq_cs
 * stays, for the kernel to clear when the thread loses its CPU: until then it reads what is there,
 * so the library is never unloaded (meson.build).
 */
static inline bool host_user_rseq_take(spinlock_t *item, unsigned int cpu)
{
	__asm__ goto(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n\t"
		"3: .long 0, 0\n\t"                     /* version, flags */
		".quad 1f, 2f - 1f, 4f\n\t"             /* start, length, where to on abort */
		".popsection\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, %%fs:%c[cs](%[rs])\n\t"
		"1:\n\t"
		"cmpl %[cpu], %%fs:%c[id](%[rs])\n\t"
		"jne %l[no]\n\t"
		"cmpl $0, %[item]\n\t"
		"jne %l[no]\n\t"
		"movl $1, %[item]\n\t"
		"2:\n\t"
		".pushsection __rseq_failure, \"ax\"\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t"            /* ud1: the signature is its operand */
		".long %c[sig]\n\t"
		"4: jmp %l[no]\n\t"
		".popsection\n\t"
		:
		: [rs] "r"(__rseq_offset), [cpu] "r"(cpu), [item] "m"(item->held),
		  [cs] "i"(offsetof(struct rseq, rseq_cs)), [id] "i"(offsetof(struct rseq, cpu_id)),
		  [sig] "i"(RSEQ_SIG)
		: "memory", "cc", "rax"
		: no);
	return true;
no:
	return false;
}
#endif

/* An item with an exchange, full ordering: host_settle() looks for it. */
static inline bool host_user_exchange(spinlock_t *item)
{
	u32 held = __atomic_exchange_n(&item->held, 1, __ATOMIC_SEQ_CST);

	host_user_after_rmw();
	return !held;
}

static inline bool host_user_take(struct host_percpu *pc, spinlock_t *item, unsigned int cpu)
{
#ifdef HOST_USER_RSEQ_LOCK
	if (likely(pc->rseq))
		return host_user_rseq_take(item, cpu);
#endif
	(void)pc;
	(void)cpu;
	return host_user_exchange(item);
}

static inline void *host_percpu_lock(struct host_percpu *pc)
{
	unsigned int cpu = host_user_cpu_raw();
	char *head;

	if (unlikely(cpu >= pc->n))
		return host_user_percpu_lock_slow(pc);
	head = pc->base + cpu * pc->stride;
	if (unlikely(!host_user_take(pc, (spinlock_t *)(void *)head, cpu)))
		return host_user_percpu_lock_slow(pc);
	return head + HOST_USER_ITEM_HEAD;
}

static inline void host_percpu_unlock(struct host_percpu *pc, void *item)
	__no_context_analysis
{
	(void)pc;
	spin_unlock((spinlock_t *)(void *)((char *)item - HOST_USER_ITEM_HEAD));
}

static inline void *host_percpu_peek(struct host_percpu *pc, unsigned int i)
{
	return pc->base + i * pc->stride + HOST_USER_ITEM_HEAD;
}

/* ---- nodes: the system puts a page on the node of who touches it first ---- */

#define nr_node_ids 1u

static inline unsigned int numa_mem_id(void)
{
	return 0;
}

static inline unsigned int host_percpu_items(struct host_percpu *pc)
{
	return pc->items;
}

static inline unsigned int host_percpu_node(struct host_percpu *pc, unsigned int i)
{
	(void)pc;
	(void)i;
	return 0;
}

void host_settle(struct host_percpu *pc);

/* ---- pages: lists (pcp.h) before the zone (zone.h) ---- */

struct host_pages {
	uintptr_t bias[32]; /* address of page p: bias[its highest bit] + (p << PAGE_SHIFT) */
	u32 max_blocks;  /* most 2 MiB blocks to take, 0: all; write with WRITE_ONCE */
	struct pcp *pcp; /* what its pages go through (pcp.h) */
};

unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int node, unsigned int how);
void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n);

static inline unsigned int host_page_node(struct host_pages *src, host_page p)
{
	(void)src;
	(void)p;
	return 0;
}

/* The kernel ends a process that touches such memory. */
static inline bool host_page_is_bad(struct host_pages *src, host_page p)
{
	(void)src;
	(void)p;
	return false;
}

static inline void *host_page_addr(struct host_pages *src, host_page p)
{
	return (void *)(src->bias[31 - __builtin_clz(p)] + ((size_t)p << PAGE_SHIFT));
}

/* ---- memory ---- */

void *host_zalloc(size_t bytes);

static inline void *host_zalloc_node(size_t bytes, unsigned int node)
{
	(void)node;
	return host_zalloc(bytes);
}

void host_free(void *p, size_t bytes);

/*
 * Memory that is all zeros in a forked child: what a process has once, and what must be known there
 * as a stranger's.  Whole pages; NULL when short.
 */
void *host_user_map_wiped(size_t bytes);
void host_user_unmap_wiped(void *p, size_t bytes);

/*
 * For LeakSanitizer, if the program has it: what a mapping points to is not lost (root), or may be.
 */
void host_user_lsan_root(const void *p, size_t bytes, bool root);

/* *where, which is made such memory if it is NULL, and stays. */
void *host_user_wiped(void **where, size_t bytes);

/*
 * As host_zalloc(), for what is touched here and there: it never has more memory than the pages
 * that were.
 */
void *host_user_zalloc_sparse(size_t bytes);

/*
 * The only way to memory: so many bytes of the system's, zeros, which count for limits of the
 * process as far as prot allows to write.  NULL when short.  munmap() gives it back.
 */
void *host_user_map(size_t bytes, int prot);

/*
 * The whole pages of the system between two addresses read as zeros from now on, and take no
 * memory.  False: the system does not do that.
 */
bool host_user_discard(void *from, void *to);

/*
 * Test seam: asked before every host_zalloc() and zone_pages_alloc(); true makes it fail.
 * Set while no other thread runs.
 */
extern bool (*host_user_fail)(void);

static inline bool host_user_failing(void)
{
	return unlikely(host_user_fail != NULL) && host_user_fail();
}

/* ---- tables ---- */

/*
 * Words come by the segment, which is made when one of its words is first asked for, and stays:
 *
 *     segment[i >> HOST_USER_SEGMENT_SHIFT] --> | part | part | ...
 *
 * Of a segment that memory is there that was touched (host_zalloc()).  So that nobody has to touch
 * it to find it empty, written has a bit for each part, of a page of memory, that was asked for and
 * not given back since.
 */
#define HOST_USER_PART_SHIFT (PAGE_SHIFT - 3)
#define HOST_USER_PART ((u64)1 << HOST_USER_PART_SHIFT)
#define HOST_USER_SEGMENT_SHIFT 15
#define HOST_USER_SEGMENT ((u64)1 << HOST_USER_SEGMENT_SHIFT)

_Static_assert(HOST_USER_SEGMENT_SHIFT - HOST_USER_PART_SHIFT <= 6, "written has a bit a part");

struct host_table {
	host_a64 *segment;      /* addresses, less those of words before the first; 0: none yet */
	host_a64 *written;      /* [segments], bits */
	host_a64 parts;         /* bits of written that are set */
	u64 n;
};

int host_table_init(struct host_table *t, u64 n);
void host_table_destroy(struct host_table *t);

/* What a word is that is not there. */
extern const host_a64 host_user_no_word;

/* Has the part of word i be there.  False: there is no memory for its segment. */
__attribute__((cold)) bool host_user_table_need(struct host_table *t, u64 i);

static inline host_a64 *host_table_at(const struct host_table *t, u64 i)
{
	/* For its dependency: C has no other way to say that which compilers keep to. */
	u64 words = host_a64_read_acquire(&t->segment[i >> HOST_USER_SEGMENT_SHIFT]);

	if (unlikely(!words))
		return (host_a64 *)(uintptr_t)&host_user_no_word;
	return (host_a64 *)(uintptr_t)(words + i * sizeof(host_a64));
}

static inline u64 host_user_part_bit(u64 i)
{
	return (u64)1 << (i >> HOST_USER_PART_SHIFT &
			  ((HOST_USER_SEGMENT >> HOST_USER_PART_SHIFT) - 1));
}

/* Who sees the bit sees the segment. */
static inline bool host_table_has(struct host_table *t, u64 i)
{
	host_a64 *written = &t->written[i >> HOST_USER_SEGMENT_SHIFT];

	return likely(host_a64_read_acquire(written) & host_user_part_bit(i)) ||
	       host_user_table_need(t, i);
}

static inline u64 host_table_skip(const struct host_table *t, u64 i)
{
	u64 first = i & ~(HOST_USER_SEGMENT - 1), at = i - first;
	u64 part = at >> HOST_USER_PART_SHIFT;
	u64 bits = host_a64_read(&t->written[i >> HOST_USER_SEGMENT_SHIFT]) >> part;

	if (bits & 1)
		return 0;
	at = bits ? (part + (u64)__builtin_ctzll(bits)) << HOST_USER_PART_SHIFT : HOST_USER_SEGMENT;
	return (first + at < t->n ? first + at : t->n) - i;
}

static inline bool host_table_give(struct host_table *t, u64 i, struct host_pages *src, host_page p)
{
	(void)t;
	(void)i;
	(void)src;
	(void)p;
	return false;
}

static inline host_page host_table_take(struct host_table *t)
{
	(void)t;
	return 0;
}

/* The parts that were written to, and the directory. */
size_t host_table_bytes(const struct host_table *t);

/*
 * Gives the memory of words first to first + n - 1 on, which are whole parts or the table's end.
 * They are 0, and until it returns nobody puts anything into them that is to stay.  Others may look
 * at them meanwhile, and try to exchange what they saw there before: they see 0, and fail.  False:
 * the system does not take it, or not all of it.
 */
bool host_table_forget(struct host_table *t, u64 first, u64 n);

/* ---- deferred work ---- */

#define HOST_USER_NO_WAKE UINT64_MAX

/*
 *   wake == HOST_USER_NO_WAKE    nothing is queued
 *   wake == us                   queued: due <= (time of any later call) + us; 0: at once
 *
 * So a caller that asks for a delay of us and sees wake <= us has nothing to do, and needs no
 * clock to know it.  That look is relaxed: a worker clears wake before it calls fn, so when
 * what fn collects is guarded by a lock (or an atomic read-modify-write) that both take,
 * either fn finds what the caller left there, or the caller sees the cleared word.
 *
 * All but the look is under the executor's lock (work.c).
 */
struct host_work {
	void (*fn)(struct host_work *w);
	const char *name;
	u64 wake;
	u64 due;         /* ktime_get_ns() at which to run, when wake is not NO_WAKE; 0: at once */
	u64 started;     /* runs begun */
	u64 done;        /* runs ended; started - done is 0 or 1 */
	struct host_work *next; /* of the ready ones */
	u32 at;          /* place in the heap + 1; 0: not there */
	u32 done_bell;   /* futex: who waits for a run's end sleeps on it */
	u32 waiters;
	bool ready, running, held, stop, live, slow;
};

/* A thread that runs the work is named after the first word of the function's name. */
#define host_work_init(w, fn, node) ((void)(node), host_user_work_init((w), (fn), #fn))
#define host_work_init_slow(w, fn, node) \
	((void)(node), host_user_work_init_slow((w), (fn), #fn))
int host_user_work_init(struct host_work *w, void (*fn)(struct host_work *w), const char *name);
int host_user_work_init_slow(struct host_work *w, void (*fn)(struct host_work *w),
			     const char *name);
void host_work_flush(struct host_work *w);
void host_work_destroy(struct host_work *w);
void host_user_work_arm(struct host_work *w, u64 us);

/* No thread sees to what is queued: callers do some of it. */
bool host_user_no_threads(void);

/* For tests: how long a thread without work stays. */
extern u64 host_user_idle_ns;

/* No thread runs w, nor is in it, until it is let.  One at a time may hold it. */
void host_user_work_hold(struct host_work *w);
void host_user_work_let(struct host_work *w);

/* May make a thread, so no lock of the library's is held. */
static inline void host_work_queue_delayed(struct host_work *w, u64 us)
{
	if (READ_ONCE(w->wake) > us)
		host_user_work_arm(w, us);
}

static inline void host_work_queue(struct host_work *w)
{
	host_work_queue_delayed(w, 0);
}

/* ---- the rest ---- */

/* One turn of a wait for what another thread of this process does; *spins starts at 0. */
void host_user_relax(unsigned int *spins);
u64 ktime_get_ns(void);
u64 host_total_bytes(void);
void host_user_warn(u32 *seen, const char *text, const char *file, int line);

static inline void cond_resched(void)
{
}

static inline bool host_interrupted(void)
{
	return false;
}

#define WARN_ONCE(bad, text)                                                           \
	__extension__({                                                                \
		static u32 host_user_seen_;                                            \
		bool host_user_bad_ = (bad);                                           \
		if (unlikely(host_user_bad_))                                          \
			host_user_warn(&host_user_seen_, (text), __FILE__, __LINE__);  \
		host_user_bad_;                                                        \
	})

/* EBB_ASSERT: meson.build. */
#ifdef EBB_ASSERT
#define host_assert(holds) ((void)WARN_ONCE(!(holds), "not " #holds "\n"))
#else
#define host_assert(holds) ((void)sizeof(!(holds)))
#endif

#endif
