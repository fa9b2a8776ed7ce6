/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * host.h - the contract between the core and its home.
 *
 * The core includes this header and its own, nothing else.  A home (kernel/host, user/home,
 * tests/host, bench/scale) puts a "host_impl.h" on the include path that defines each name that is
 * listed here.  The list is closed: the core uses nothing else.
 *
 * Contexts, from the strictest to the freest:
 *   atomic   a spin lock or a per-CPU item is held, or the caller may not sleep (the kernel calls
 *            swap_slot_free_notify this way).  No sleeping, no waiting for a thread that may
 *            sleep, no memory allocation.
 *   process  may sleep.
 * Every function below says which of the two it needs; "any" is atomic or process.
 *
 * Lock order, outermost first (docs/internals/locking.md has the whole table):
 *   codec stream > class lock;  flushing > class lock
 *   The store's per-CPU item > class lock, and > the leaves: the holds' lock, a descriptor
 *   group's, a release queue's, the page reserve's, the page source's lock.
 */
#ifndef EBB_CORE_HOST_H
#define EBB_CORE_HOST_H

#include "host_impl.h"

/*
 * The kernel's own names, with the kernel's meaning.  For homes outside of it core/kernel_names.h
 * and "host_impl.h" define them.
 *
 *   u8 u16 u32 u64 s64 bool size_t NULL, the E* error numbers, memcpy memset memcmp strcmp
 *   PAGE_SHIFT (12 to 16), PAGE_SIZE, offset_in_page(), SMP_CACHE_BYTES, ____cacheline_aligned
 *   likely() unlikely() prefetchw() hweight64() __always_inline __uninitialized
 *   READ_ONCE() WRITE_ONCE()    of a plain u8 to u64 that another CPU may write or read meanwhile
 *   spinlock_t: spin_lock_init(), spin_lock(), spin_trylock(), spin_unlock()
 *            in any context, never from an interrupt handler
 *   struct mutex: mutex_init(), mutex_destroy(), mutex_lock(), mutex_trylock(), mutex_unlock()
 *            process.  Fair: a thread that waits gets it after a bounded number of others; for
 *            about a millisecond a trylock, or a thread that finds it free, may overtake it.
 *   cond_resched()              process; a point in a long loop
 *   ktime_get_ns()              any; monotonic
 *   WARN_ONCE(bad, text)        any; an internal fault.  No outside input makes bad true.
 *   nr_cpu_ids, nr_node_ids     constant while the home lives
 *   raw_smp_processor_id()      below nr_cpu_ids; a hint
 *   num_online_cpus()           1 to nr_cpu_ids; a hint.  User space counts those that may come.
 *   numa_mem_id()               the node of this CPU; a hint
 *   NUMA_NO_NODE                where a node is asked for: no matter which
 *   __must_hold(lock) __no_context_analysis
 */

/*
 * What the kernel has no name for
 *
 *   host_page         integer type that names one order-0 page of a page source; 0 is none
 *
 * Atomics.  host_a64 is an aligned atomic u64: the kernel's atomic64_t is signed, and the core's
 * words use bit 63.
 *
 *   u64  host_a64_read(const host_a64 *a)          relaxed
 *   u64  host_a64_read_acquire(const host_a64 *a)
 *   void host_a64_set(host_a64 *a, u64 v)          relaxed; for initialisation
 *   void host_a64_set_release(host_a64 *a, u64 v)
 *   bool host_a64_cas(host_a64 *a, u64 *old, u64 v)
 *            if *a == *old, store v and return true, with full ordering; else load *a into
 *            *old and return false (that load is relaxed)
 *   u64  host_a64_xchg(host_a64 *a, u64 v)         stores v, returns the old value; full
 *            ordering; one step, however many other threads write *a
 *   u64  host_a64_add(host_a64 *a, u64 v)          returns the new value; full ordering
 *   u64  host_a64_or(host_a64 *a, u64 v)           returns the old value; full ordering
 *   u64  host_a64_and(host_a64 *a, u64 v)          returns the old value; full ordering
 *
 * Waiting for a counter to run out.
 *
 *   void host_wait_zero(host_a64 *a)   process; sleeps until *a is 0, and sees what was done
 *            before it became so.  A thread that makes it 0 while another may wait calls
 *   void host_wake_zero(host_a64 *a)   any; *a may be gone by then
 *
 * Per-CPU items.  struct host_percpu holds one zeroed item for each possible CPU.  A home may have
 * a few more, for CPUs whose own is held by a thread that was preempted.  A CPU never locks the
 * item of another: what others read of it is atomic (core/mm/release.h), or has a lock of its own
 * in it (kernel/zram/tier/backed.h).
 *
 *   int   host_percpu_init(struct host_percpu *pc, size_t item_bytes)   process; 0, -ENOMEM
 *   void  host_percpu_destroy(struct host_percpu *pc)       process; pc may be zeros
 *   void *host_percpu_lock(struct host_percpu *pc)
 *            any; an item, as a rule that of the CPU the caller runs on, which nobody else has
 *            until the caller unlocks it.  The caller is atomic until then.
 *   void  host_percpu_unlock(struct host_percpu *pc, void *item)
 *   unsigned int host_percpu_items(struct host_percpu *pc)
 *            any; items, at least nr_cpu_ids; constant.  Item i < nr_cpu_ids is CPU i's.
 *   unsigned int host_percpu_node(struct host_percpu *pc, unsigned int i)
 *            any; the node, a part of memory, that is nearest to item i < host_percpu_items(), of
 *            those that have memory; constant
 *   void *host_percpu_peek(struct host_percpu *pc, unsigned int i)
 *            any; item i < host_percpu_items() without a lock, to be read with READ_ONCE, or
 *            under a lock in it
 *   void  host_settle(struct host_percpu *pc)
 *            process; returns when every section under an item of pc that was under way at the
 *            call has ended.  The caller sees what was done in them, and a later section sees what
 *            the caller did before the call.  May take milliseconds, and longer while a thread that
 *            holds an item is preempted.
 *
 * Pages.  struct host_pages is the home's page source.  The core asks it for a page or two at a
 * time and gives up to 64 back, so it should have lists for each CPU (the kernel's;
 * user/home/pcp.h).
 *
 *   unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
 *                                 unsigned int node, unsigned int how)
 *            fills out[0..k), returns k <= n.  Content is undefined.  Pages are of node if it
 *            has any, else of another.  how:
 *            HOST_MAY_WAIT  process (the kernel's may not start I/O); k < n: the source is dry
 *            0              any; sleeps no longer than touching the pages would, leaves alone what
 *                           the home keeps for reclaim, and may give fewer than a caller gets that
 *                           may wait
 *            HOST_RECLAIMS  as 0, for a caller that frees memory by it: what is kept for reclaim
 *                           may be used
 *            HOST_AT_HAND   as 0, for a caller that may turn out to need none: only pages that lie
 *                           ready for this CPU alone, if the home can tell
 *   void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n)
 *            any
 *   unsigned int host_page_node(struct host_pages *src, host_page p)
 *            any; below nr_node_ids, fixed while the page is out
 *   bool host_page_is_bad(struct host_pages *src, host_page p)
 *            any; whether the machine found p's memory to be broken since the source gave it.  The
 *            core then hands p to nobody, and the source drops it when it is given back.  Asked for
 *            each page that leaves the reserve; may be false always.
 *   void *host_page_addr(struct host_pages *src, host_page p)
 *            any; the address of the page's bytes, a multiple of PAGE_SIZE; valid until the
 *            page is freed
 *
 * Memory for descriptors and tables.
 *
 *   void *host_zalloc(size_t bytes)    process; zeroed, cache-line aligned, NULL when short
 *   void *host_zalloc_node(size_t bytes, unsigned int node)    the same, near node if it can be
 *   void  host_free(void *p, size_t bytes)   process; p may be NULL
 *
 * Tables.  struct host_table is an array of host_a64, all 0 at first.  A home may keep only what
 * was written: the core then gives it a page for each HOST_TABLE_PIECE words before it writes one.
 *
 *   int  host_table_init(struct host_table *t, u64 n)      process; 0, -ENOMEM
 *   void host_table_destroy(struct host_table *t)          process; the pages were taken back
 *   host_a64 *host_table_at(const struct host_table *t, u64 i)
 *            any; word i < n.  Without a page it is 0, and not to be written.
 *   bool host_table_has(const struct host_table *t, u64 i)
 *            any; whether word i may be written, from now on and until a call of the home's own
 *            takes its page away, while nobody may write.  A home that keeps words elsewhere than
 *            in the core's pages makes them here; false: it could not
 *   u64  host_table_skip(const struct host_table *t, u64 i)
 *            any; at least so many words from i on are 0; 0: word i may have been written
 *   bool host_table_give(struct host_table *t, u64 i, struct host_pages *src, host_page p)
 *            any; makes p, whose bytes are 0, the page of word i; false: word i has one by now, or
 *            the home takes none
 *   host_page host_table_take(struct host_table *t)
 *            process, at the end, when nobody uses the table: a page that it was given; 0: no more
 *   size_t host_table_bytes(const struct host_table *t)    any; what it takes beside those pages
 *
 * Deferred work.  struct host_work runs its function in process context on a worker that is
 * bound to no CPU; a work item never runs twice at the same time.  Reclaim may wait for a work
 * item, so its function waits for no memory: it asks for pages without HOST_MAY_WAIT, and calls
 * neither host_zalloc() nor host_zalloc_node().
 *
 *   int  host_work_init(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node)
 *            process; the worker preferably runs on that node.  0, or what the home says.
 *   int  host_work_init_slow(w, fn, node)   the same, for a function that may take long or calls
 *            host_settle(): no other work waits for it, and it may be late while memory is short
 *   void host_work_queue(struct host_work *w)                  any; run soon
 *   void host_work_queue_delayed(struct host_work *w, u64 us)  any; run within us, unless it
 *            is queued already: the earlier time wins
 *   void host_work_flush(struct host_work *w)    process; cuts a delay short, and returns when
 *            what was queued before the call has run
 *   void host_work_destroy(struct host_work *w)  process; cancels w if it is queued, waits for it
 *            if it runs; to queue it does nothing from then on
 *
 * The rest.
 *
 *   bool host_interrupted(void) process; whether the caller should end what it does as soon as it
 *            can, since nobody waits for it any more (in the kernel: a fatal signal)
 *   u64  host_total_bytes(void) memory of the machine
 *   host_assert(holds)
 *            any; WARN_ONCE(!(holds), ...) in builds that look for mistakes (in the kernel with
 *            CONFIG_DEBUG_VM).  Other builds do not compute holds.  It takes no lock, changes
 *            nothing, and is true whatever other threads do meanwhile.
 */

/* How host_pages_alloc() may get pages.  Bits 2 to 5 are for order. */
#define HOST_MAY_WAIT 1u
#define HOST_RECLAIMS (1u << 6)
#define HOST_AT_HAND (1u << 7)

#define HOST_TABLE_PIECE (PAGE_SIZE / sizeof(u64))

#endif
