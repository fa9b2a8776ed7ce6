/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * host_impl.h - the kernel home's side of core/host.h (included by it, never alone).
 *
 * Owns: the types behind the contract, and every operation short enough to be inlined; the
 * long halves are in host_impl.c.
 *
 *   host_page         the address of a struct page.  Pages are order-0, never highmem, and not
 *                     movable: the page type for it belongs to zsmalloc
 *   struct host_percpu  item[cpu] -> | the core's item ... |
 *                     allocated on the CPU's node
 *   struct host_table a directory of pages, so that a table is only there where it was written
 *   struct host_work  work on one of our two unbound queues, and an hrtimer for delays, since a
 *                     jiffy can be longer than the core wants to hold memory back
 */
#ifndef EBB_KERNEL_HOST_IMPL_H
#define EBB_KERNEL_HOST_IMPL_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/errno.h>
#include <linux/hrtimer.h>
#include <linux/kcsan-checks.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/mmdebug.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/prefetch.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/types.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

typedef unsigned long host_page;

/* Tables of up to 2^32 slots are measured in size_t, and words of 64 bits change at once. */
static_assert(BITS_PER_LONG == 64);

/* Since Linux 7.0. */
#ifndef __no_context_analysis
#define __no_context_analysis
#endif

/* Before a function that KCSAN does not see into: what it reads and writes. */
static __always_inline void host_kernel_touches(const void *from, size_t n, void *to, size_t cap)
{
	kcsan_check_read(from, n);
	kcsan_check_write(to, cap);
}

#ifdef __SANITIZE_THREAD__
static __always_inline void *host_kernel_memcpy(void *to, const void *from, size_t n)
{
	/* A few bytes are copied without a call, where the compiler sees to it. */
	if (!__builtin_constant_p(n))
		host_kernel_touches(from, n, to, n);
	return memcpy(to, from, n);
}
#undef memcpy
#define memcpy(to, from, n) host_kernel_memcpy(to, from, n)
#endif

/* ---- atomics ---- */

typedef atomic64_t host_a64;

static inline u64 host_a64_read(const host_a64 *a)
{
	return (u64)atomic64_read(a);
}

static inline u64 host_a64_read_acquire(const host_a64 *a)
{
	return (u64)atomic64_read_acquire(a);
}

static inline void host_a64_set(host_a64 *a, u64 v)
{
	atomic64_set(a, (s64)v);
}

static inline void host_a64_set_release(host_a64 *a, u64 v)
{
	atomic64_set_release(a, (s64)v);
}

static inline bool host_a64_cas(host_a64 *a, u64 *old, u64 v)
{
	return atomic64_try_cmpxchg(a, (s64 *)old, (s64)v);
}

static inline u64 host_a64_add(host_a64 *a, u64 v)
{
	return (u64)atomic64_add_return((s64)v, a);
}

static inline u64 host_a64_xchg(host_a64 *a, u64 v)
{
	return (u64)atomic64_xchg(a, (s64)v);
}

static inline u64 host_a64_or(host_a64 *a, u64 v)
{
	return (u64)atomic64_fetch_or((s64)v, a);
}

static inline u64 host_a64_and(host_a64 *a, u64 v)
{
	return (u64)atomic64_fetch_and((s64)v, a);
}

/* ---- waiting for a counter to run out ---- */

static inline void host_wait_zero(host_a64 *a)
{
	wait_var_event(a, !atomic64_read_acquire(a));
}

static inline void host_wake_zero(host_a64 *a)
{
	/* What made it 0 before the look at who waits. */
	smp_mb();
	wake_up_var(a);
}

/* ---- per-CPU items ---- */

/*
 * Orderings (docs/internals/locking.md).
 *
 * kernel item.  Writes: its CPU, preemption off.  Reads: the same CPU.  Order: none: program
 *     order; others see atomics, and what has a lock of its own.
 */

/*
 * Taking the own CPU's item is on the path of every free, so it is no more than preemption off:
 * nobody but its CPU ever takes it.  With PREEMPT_RT preemption must stay on (the core takes spin
 * locks inside, which sleep there), so there it is a lock, which a task that was moved to another
 * CPU meanwhile may still hold.
 */
struct host_item {
	spinlock_t lock;
} __aligned(16);

/* Bytes of an item before the core's. */
#define HOST_ITEM_HEAD (IS_ENABLED(CONFIG_PREEMPT_RT) ? sizeof(struct host_item) : 0)

struct host_percpu {
	void **item;	/* [nr_cpu_ids]; with PREEMPT_RT a struct host_item first */
	struct lockdep_map map;         /* taking an item is a lock to lockdep, too */
};

/* key[2]: of the items' locks, and of the map. */
int host_kernel_percpu_init(struct host_percpu *pc, size_t bytes, struct lock_class_key *key);
void host_percpu_destroy(struct host_percpu *pc);

/* Two kinds of item may nest, so each place that makes them has a class of its own. */
#define host_percpu_init(pc, bytes)                             \
	({                                                      \
		static struct lock_class_key key_[2];           \
		host_kernel_percpu_init(pc, bytes, key_);       \
	})

static __always_inline void *host_percpu_lock(struct host_percpu *pc)
{
	void *item;

	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		item = pc->item[raw_smp_processor_id()];
		spin_lock(&((struct host_item *)item)->lock);
	} else {
		preempt_disable();
		item = pc->item[smp_processor_id()];
	}
	lock_map_acquire(&pc->map);
	return item + HOST_ITEM_HEAD;
}

static __always_inline void host_percpu_unlock(struct host_percpu *pc, void *item)
{
	lock_map_release(&pc->map);
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		spin_unlock(&((struct host_item *)(item - HOST_ITEM_HEAD))->lock);
	else
		preempt_enable();
}

static inline void *host_percpu_peek(struct host_percpu *pc, unsigned int i)
{
	return pc->item[i] + HOST_ITEM_HEAD;
}

static inline unsigned int host_percpu_items(struct host_percpu *pc)
{
	return nr_cpu_ids;
}

static inline unsigned int host_percpu_node(struct host_percpu *pc, unsigned int i)
{
	return cpu_possible(i) ? cpu_to_mem(i) : first_memory_node;
}

void host_settle(struct host_percpu *pc);

/* ---- pages ---- */

/* There is one source, the kernel, so there is nothing to tell of it. */
struct host_pages {};

unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int node, unsigned int how);
void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n);

static inline void *host_page_addr(struct host_pages *src, host_page p)
{
	return page_address((struct page *)p);
}

static inline unsigned int host_page_node(struct host_pages *src, host_page p)
{
	return page_to_nid((struct page *)p);
}

/* Memory failure marks a page that it cannot take from us; the page allocator drops such a one. */
static inline bool host_page_is_bad(struct host_pages *src, host_page p)
{
	return PageHWPoison((struct page *)p);
}

/* ---- memory ---- */

void *host_zalloc(size_t bytes);
void *host_zalloc_node(size_t bytes, unsigned int node);
void host_free(void *p, size_t bytes);

/* ---- tables ---- */

/*
 *     piece[i / HOST_TABLE_PIECE] -> a page of words, or the kernel's page of zeros
 *
 * A word that is not there is read as any other, and found 0, so nobody has to ask; the page of
 * zeros cannot be written, nor does the core try.
 */
struct host_table {
	host_a64 **piece;
	host_a64 *none;         /* the page of zeros */
	u64 pieces;
	u64 left;               /* those from here on were taken back */
};

#define HOST_KERNEL_PIECE_SHIFT (PAGE_SHIFT - 3)

static __always_inline host_a64 *host_table_at(const struct host_table *t, u64 i)
{
	return READ_ONCE(t->piece[i >> HOST_KERNEL_PIECE_SHIFT]) +
	       (i & (BIT(HOST_KERNEL_PIECE_SHIFT) - 1));
}

static inline bool host_table_has(const struct host_table *t, u64 i)
{
	return READ_ONCE(t->piece[i >> HOST_KERNEL_PIECE_SHIFT]) != t->none;
}

static inline u64 host_table_skip(const struct host_table *t, u64 i)
{
	return host_table_has(t, i) ? 0 :
	       BIT(HOST_KERNEL_PIECE_SHIFT) - (i & (BIT(HOST_KERNEL_PIECE_SHIFT) - 1));
}

/*
 * Orderings (docs/internals/locking.md).
 *
 * slot table's directory (kernel): an entry.  Writes: who writes first, CAS.  Reads: all, plain
 *     READ_ONCE.  Order: full: the page's zeros before its address; the look depends on the
 *     address. Once there it stays.  Without it: a slot with what the page had before.  Model:
 *     table.
 */

/* What a page says comes before its address: a full barrier here, dependency in who looks. */
static inline bool host_table_give(struct host_table *t, u64 i, struct host_pages *src, host_page p)
{
	host_a64 *none = t->none;

	return try_cmpxchg(&t->piece[i >> HOST_KERNEL_PIECE_SHIFT], &none,
			   (host_a64 *)host_page_addr(src, p));
}

int host_table_init(struct host_table *t, u64 n);
void host_table_destroy(struct host_table *t);
host_page host_table_take(struct host_table *t);
size_t host_table_bytes(const struct host_table *t);

/* ---- deferred work ---- */

#define HOST_KERNEL_NO_WAKE U64_MAX

/*
 *   wake == HOST_KERNEL_NO_WAKE    nothing is queued
 *   wake == us                     queued, to run within us of any later call; 0: at once
 *
 * So a caller that asks for us and sees wake <= us has nothing to do.  The worker sets NO_WAKE
 * before it calls fn; as fn then looks at what the callers leave under their items, either it
 * finds it there or they see NO_WAKE.
 */
struct host_work {
	u64 wake;               /* written with lock held, read without */
	void (*fn)(struct host_work *w);
	struct workqueue_struct *queue;
	int node;               /* to run on, or NUMA_NO_NODE */
	spinlock_t lock;        /* never taken by the timer */
	bool dead;              /* lock */
	struct work_struct work;
	struct hrtimer timer;
};

int host_work_init(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node);
int host_work_init_slow(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node);
void host_work_flush(struct host_work *w);
void host_work_destroy(struct host_work *w);
void host_kernel_work_arm(struct host_work *w, u64 us);

static inline void host_work_queue_delayed(struct host_work *w, u64 us)
{
	if (READ_ONCE(w->wake) > us)
		host_kernel_work_arm(w, us);
}

static inline void host_work_queue(struct host_work *w)
{
	host_work_queue_delayed(w, 0);
}

/*
 * The queues for them all, called name and name-slow.  Before the first host_work_init(); process
 * context, -ENOMEM.  The other after the last destroy.
 */
int host_kernel_init(const char *name);
void host_kernel_exit(void);

/* ---- the rest ---- */

static inline bool host_interrupted(void)
{
	return fatal_signal_pending(current);
}

static inline u64 host_total_bytes(void)
{
	return (u64)totalram_pages() << PAGE_SHIFT;
}

#define host_assert(holds) VM_WARN_ONCE(!(holds), "ebb: not %s\n", #holds)

#endif
