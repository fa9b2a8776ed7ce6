/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * host_user.c - the slow halves of the user-space home: waiting for locks and per-CPU items,
 * memory, clocks.  Deferred work is in work.c.
 *
 * Owns: nothing but the number of CPUs and the test hook; state is in the caller's structs
 * (host_impl.h draws them).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "advise.h"
#include "cgroup.h"
#include "futex.h"
#include "heap.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* How long a waiter that missed its wake-up sleeps; see spinlock_t. */
#define LOCK_SLEEP_NS 200000

/* Looks at a taken lock before sleeping; about 4 us where a pause is 140 cycles. */
#define LOCK_SPINS 100

/* Above it each has a mapping of its own: zero without being touched, and given back whole. */
#define ZALLOC_MAP_BYTES (HEAP_MOST + 1)

/* Looks at the own CPU's item before another is taken. */
#define PERCPU_TRIES 8

bool (*host_user_fail)(void);

static u32 nr_cpus;

/* ---- spin locks ---- */

static bool try_word(u32 *word)
{
	return !READ_ONCE(*word) && !__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE);
}

void host_user_lock_slow(spinlock_t *l)
{
	unsigned int i;

	for (i = 0; i < LOCK_SPINS; i++) {
		if (try_word(&l->held))
			return;
		host_user_pause();
	}
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	while (!try_word(&l->held))
		futex_wait_rel(&l->held, 1, LOCK_SLEEP_NS);
	__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_RELAXED);
}

void host_user_lock_wake(spinlock_t *l)
{
	futex_wake(&l->held, 1);
}

/* ---- waiting for a counter to run out ---- */

/* The half of a counter that a futex can look at: what is waited for fits in it. */
static u32 *low_half(host_a64 *a)
{
	return (u32 *)(void *)&a->v + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

void host_wait_zero(host_a64 *a)
{
	u64 now;

	while ((now = host_a64_read_acquire(a)))
		futex_wait_until(low_half(a), (u32)now, HOST_USER_NO_WAKE);
}

void host_wake_zero(host_a64 *a)
{
	futex_wake(low_half(a), INT_MAX);
}

/* ---- sleeping locks ---- */

void host_user_mutex_slow(struct mutex *m)
{
	u64 since = ktime_get_ns(), was, next, mine = HOST_USER_WAITER;
	bool slept = false;
	u32 bell;

	__atomic_fetch_add(&m->state, mine, __ATOMIC_RELAXED);
	for (;;) {
		/* Before the look, so that an unlock after the look is heard. */
		bell = __atomic_load_n(&m->bell, __ATOMIC_ACQUIRE);
		was = __atomic_load_n(&m->state, __ATOMIC_RELAXED);
		while (!(was & HOST_USER_HELD) && (slept || was < HOST_USER_STARVER)) {
			next = (was | HOST_USER_HELD) - mine;
			if (__atomic_compare_exchange_n(&m->state, &was, next, false,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return;
		}
		if (slept && mine == HOST_USER_WAITER &&
		    ktime_get_ns() - since > HOST_USER_STARVE_NS) {
			mine += HOST_USER_STARVER;
			__atomic_fetch_add(&m->state, HOST_USER_STARVER, __ATOMIC_RELAXED);
			continue;
		}
		/* Who did not sleep has not waited in the line, and gets no turn for it. */
		slept |= futex_wait_until(&m->bell, bell, HOST_USER_NO_WAKE);
	}
}

void host_user_mutex_ring(struct mutex *m)
{
	__atomic_fetch_add(&m->bell, 1, __ATOMIC_RELEASE);
	futex_wake(&m->bell, 1);
}

/* ---- per-CPU items ---- */

static u32 configured_cpus(void)
{
	long conf = sysconf(_SC_NPROCESSORS_CONF);

	return conf > 0 ? (u32)conf : 1;
}

unsigned int host_user_nr_cpus(void)
{
	u32 n = READ_ONCE(nr_cpus);

	if (unlikely(!n)) {
		n = configured_cpus();
		WRITE_ONCE(nr_cpus, n);
	}
	return n;
}

void host_user_set_nr_cpus(unsigned int n)
{
	WRITE_ONCE(nr_cpus, n);
}

unsigned int host_user_cpu_slow(unsigned int n)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (unsigned int)cpu % n;
}

/* Whether the kernel and the C library offer what host_user_rseq_take() and host_settle() need. */
static bool rseq_works(void)
{
#ifdef HOST_USER_RSEQ_LOCK
	return __rseq_size && host_user_cpu_raw() < nr_cpu_ids &&
	       !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
#else
	return false;
#endif
}

/* Longer than a store stays in a store buffer, by a factor of thousands. */
#define DRAIN_NS 10000000u

/*
 * Has every thread of this process that runs pass a full barrier.  Where that was taken away since
 * rseq_works() (by a seccomp filter), it waits instead: what a thread stored before is seen by
 * then, and what it stores later, it stores after it could see what the caller wrote.
 */
static void barrier_everywhere(void)
{
	u64 end;

	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		return;
	for (end = ktime_get_ns() + DRAIN_NS; ktime_get_ns() < end;)
		sleep_raw(1000000);
}

static spinlock_t *item_lock(struct host_percpu *pc, unsigned int i)
{
	return (spinlock_t *)(void *)(pc->base + i * pc->stride);
}

/* One of the items past the CPUs'; their number is a power of two. */
__no_context_analysis        /* it returns with a lock that it cannot name */
static void *lock_spare_item(struct host_percpu *pc, unsigned int cpu)
{
	unsigned int mask = pc->items - pc->n - 1, i;

	for (i = 0; i <= mask; i++) {
		unsigned int item = pc->n + ((cpu + i) & mask);

		if (!READ_ONCE(item_lock(pc, item)->held) &&
		    host_user_exchange(item_lock(pc, item)))
			return host_percpu_peek(pc, item);
	}
	spin_lock(item_lock(pc, pc->n + (cpu & mask)));
	/* As host_user_exchange(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return host_percpu_peek(pc, pc->n + (cpu & mask));
}

/* The item is taken by a thread that lost its CPU, or this CPU has none: it came later. */
void *host_user_percpu_lock_slow(struct host_percpu *pc)
{
	unsigned int cpu = 0, i;

	for (i = 0; i < PERCPU_TRIES; i++) {
		cpu = host_user_cpu_raw();
		if (cpu >= pc->n && !pc->rseq)
			cpu = host_user_cpu_slow(pc->n);
		if (cpu >= pc->n)
			break;
		if (host_user_take(pc, item_lock(pc, cpu), cpu))
			return host_percpu_peek(pc, cpu);
		host_user_pause();
	}
	return lock_spare_item(pc, cpu);
}

static unsigned int spare_items(unsigned int n)
{
	unsigned int more = 1;

	while (more < 1 + n / 8)
		more *= 2;
	return more;
}

int host_percpu_init(struct host_percpu *pc, size_t item_bytes)
{
	pc->n = nr_cpu_ids;
	pc->items = pc->n + spare_items(pc->n);
	pc->stride = (HOST_USER_ITEM_HEAD + item_bytes + 127) & ~(size_t)127;
	pc->base = host_zalloc(pc->items * pc->stride);
	pc->rseq = pc->n >= configured_cpus() && rseq_works();
	return pc->base ? 0 : -ENOMEM;
}

void host_percpu_destroy(struct host_percpu *pc)
{
	host_free(pc->base, pc->items * pc->stride);
	pc->base = NULL;
}

/*
 * Waits until an item was free at one moment.  It is held for less time than it is not, so a busy
 * one is seen free within a few looks; one whose thread lost its CPU is slept for.
 */
static void see_free(spinlock_t *l)
{
	unsigned int i;

	for (i = 0; i < LOCK_SPINS; i++) {
		if (!__atomic_load_n(&l->held, __ATOMIC_ACQUIRE))
			return;
		host_user_pause();
	}
	__atomic_fetch_add(&l->waiters, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&l->held, __ATOMIC_ACQUIRE))
		futex_wait_rel(&l->held, 1, LOCK_SLEEP_NS);
	__atomic_fetch_sub(&l->waiters, 1, __ATOMIC_RELAXED);
}

/*
 * A sequence takes its item with a plain store.  The barrier falls before its section's loads,
 * which then see what the caller wrote, or after the store, which then is seen here.
 */
void host_settle(struct host_percpu *pc)
{
	unsigned int i;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (pc->rseq)
		barrier_everywhere();
	for (i = 0; i < pc->items; i++)
		see_free(item_lock(pc, i));
}

/* ---- memory ---- */

/* Pairs of lines are fetched together, so what is larger than a few of them starts on a pair. */
static size_t zalloc_align(size_t bytes)
{
	return bytes >= 512 ? 2 * SMP_CACHE_BYTES : SMP_CACHE_BYTES;
}

void *host_user_map(size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* What the system cannot do is done without. */
static void *map_advised(size_t bytes, int advice)
{
	void *p = host_user_map(bytes, PROT_READ | PROT_WRITE);

	if (p)
		madvise(p, bytes, advice);
	return p;
}

bool host_user_discard(void *from, void *to)
{
	static size_t size;
	struct advise none = { 0 };
	size_t page = READ_ONCE(size);
	uintptr_t at, end;
	struct iovec range;

	if (!page) {
		page = (size_t)sysconf(_SC_PAGESIZE);
		WRITE_ONCE(size, page);
	}
	at = ((uintptr_t)from + page - 1) & ~(page - 1);
	end = (uintptr_t)to & ~(page - 1);
	range = (struct iovec){ (void *)at, end - at };
	return at >= end || !advise_take(&none, &range, 1);
}

/* A sanitizer sees what is wrong with its own malloc() alone. */
#if defined(HOST_USER_ASAN) || defined(HOST_USER_TSAN)
static void *small_alloc(size_t bytes, size_t align)
{
	void *p = aligned_alloc(align, bytes);

	return p ? memset(p, 0, bytes) : NULL;
}

#define small_free(p, bytes) free(p)
#else
#define small_alloc(bytes, align) heap_alloc((bytes), (align))
#define small_free(p, bytes) heap_free((p), (bytes))
#endif

void *host_zalloc(size_t bytes)
{
	size_t align = zalloc_align(bytes), room = (bytes + align - 1) & ~(align - 1);

	if (host_user_failing() || room < bytes)
		return NULL;
	if (bytes >= ZALLOC_MAP_BYTES)
		return map_advised(bytes, MADV_DONTFORK);
	return small_alloc(room ? room : align, align);
}

void host_free(void *p, size_t bytes)
{
	if (p && bytes >= ZALLOC_MAP_BYTES)
		munmap(p, bytes);
	else if (p)
		small_free(p, bytes);
}

void *host_user_zalloc_sparse(size_t bytes)
{
	void *p = host_zalloc(bytes);

	/* What is touched takes a page, and not 2 MiB. */
	if (p && bytes >= ZALLOC_MAP_BYTES)
		madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

/* ---- tables ---- */

const host_a64 host_user_no_word;

static u64 segments(u64 n)
{
	return (n + HOST_USER_SEGMENT - 1) >> HOST_USER_SEGMENT_SHIFT;
}

/* Bytes of the segment that begins with word first: the last one may be shorter. */
static size_t segment_bytes(const struct host_table *t, u64 first)
{
	u64 left = t->n - first;

	return (size_t)(left < HOST_USER_SEGMENT ? left : HOST_USER_SEGMENT) * sizeof(host_a64);
}

int host_table_init(struct host_table *t, u64 n)
{
	t->n = n;
	host_a64_set(&t->parts, 0);
	t->segment = host_user_zalloc_sparse(segments(n) * sizeof(*t->segment));
	t->written = host_user_zalloc_sparse(segments(n) * sizeof(*t->written));
	if (t->segment && t->written)
		return 0;
	host_table_destroy(t);
	return -ENOMEM;
}

/* What stands in the directory for a segment at p, whose first word is first. */
static u64 entry_of(const void *p, u64 first)
{
	return (u64)(uintptr_t)p - first * sizeof(host_a64);
}

bool host_user_table_need(struct host_table *t, u64 i)
{
	u64 k = i >> HOST_USER_SEGMENT_SHIFT, first = k << HOST_USER_SEGMENT_SHIFT;
	u64 none = 0, bit = host_user_part_bit(i);
	size_t bytes = segment_bytes(t, first);
	void *p;

	if (!host_a64_read(&t->segment[k])) {
		p = host_user_zalloc_sparse(bytes);
		if (!p)
			return false;
		if (!host_a64_cas(&t->segment[k], &none, entry_of(p, first)))
			host_free(p, bytes);
	}
	if (!(host_a64_or(&t->written[k], bit) & bit))
		host_a64_add(&t->parts, 1);
	return true;
}

/* Bytes that are there of so many, of which the pages are that were written. */
static size_t bytes_there(size_t bytes, u64 pages)
{
	/* What is not a mapping of its own is there as a whole. */
	return bytes < ZALLOC_MAP_BYTES || pages > bytes >> PAGE_SHIFT ?
	       bytes : (size_t)pages << PAGE_SHIFT;
}

size_t host_table_bytes(const struct host_table *t)
{
	u64 parts = host_a64_read(&t->parts);

	/* The directory is written for each segment, so no more of it is there. */
	return bytes_there(t->n * sizeof(host_a64), parts) +
	       2 * bytes_there(segments(t->n) * sizeof(*t->segment), parts);
}

bool host_table_forget(struct host_table *t, u64 first, u64 n)
{
	u64 end = first + n, i, next, skip, bit;

	for (i = first; i < end; i = next) {
		host_a64 *written = &t->written[i >> HOST_USER_SEGMENT_SHIFT];
		host_a64 *word = host_table_at(t, i);

		next = (i | (HOST_USER_SEGMENT - 1)) + 1;
		next = next < end ? next : end;
		if (!host_a64_read(written) ||
		    segment_bytes(t, i & ~(HOST_USER_SEGMENT - 1)) < ZALLOC_MAP_BYTES)
			continue;
		if (!host_user_discard(word, word + (next - i)))
			return false;
		for (; i < next; i += skip ? skip : HOST_USER_PART) {
			skip = host_table_skip(t, i);
			bit = host_user_part_bit(i);
			if (!skip && host_a64_and(written, ~bit) & bit)
				host_a64_add(&t->parts, (u64)-1);
		}
	}
	return true;
}

void host_table_destroy(struct host_table *t)
{
	u64 i;

	for (i = 0; t->segment && i < t->n; i += HOST_USER_SEGMENT)
		if (host_a64_read(&t->segment[i >> HOST_USER_SEGMENT_SHIFT]))
			host_free(host_table_at(t, i), segment_bytes(t, i));
	host_free(t->segment, segments(t->n) * sizeof(*t->segment));
	host_free(t->written, segments(t->n) * sizeof(*t->written));
	t->segment = t->written = NULL;
}

/* For LeakSanitizer, if the program has it: what these pages point to is not lost. */
extern void __lsan_register_root_region(const void *p, size_t bytes) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *p, size_t bytes) __attribute__((weak));

void host_user_lsan_root(const void *p, size_t bytes, bool root)
{
	if (root && __lsan_register_root_region)
		__lsan_register_root_region(p, bytes);
	if (!root && __lsan_unregister_root_region)
		__lsan_unregister_root_region(p, bytes);
}

void *host_user_map_wiped(size_t bytes)
{
	void *p = host_user_failing() ? NULL : map_advised(bytes, MADV_WIPEONFORK);

	if (p)
		host_user_lsan_root(p, bytes, true);
	return p;
}

void host_user_unmap_wiped(void *p, size_t bytes)
{
	if (!p)
		return;
	host_user_lsan_root(p, bytes, false);
	munmap(p, bytes);
}

void *host_user_wiped(void **where, size_t bytes)
{
	void *p = __atomic_load_n(where, __ATOMIC_ACQUIRE), *mine;

	if (p)
		return p;
	mine = host_user_map_wiped(bytes);
	if (mine && !__atomic_compare_exchange_n(where, &p, mine, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE)) {
		host_user_unmap_wiped(mine, bytes);
		return p;
	}
	return mine;
}

/* ---- the rest ---- */

void host_user_relax(unsigned int *spins)
{
	unsigned int n = (*spins)++;

	if (n < 64)
		host_user_pause();
	else if (n < 128)
		sched_yield();
	else
		sleep_raw(50000);
}

u64 ktime_get_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * NS_PER_SEC + (u64)ts.tv_nsec;
}

/* In a container that is as much as it may have.  Looked up once: files are read for it. */
u64 host_total_bytes(void)
{
	static u64 total;
	u64 n = __atomic_load_n(&total, __ATOMIC_RELAXED);

	if (!n) {
		long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
		u64 limit = cgroup_memory_limit("");

		n = pages > 0 && bytes > 0 ? (u64)pages * (u64)bytes : 0;
		n = limit < n ? limit : n;
		__atomic_store_n(&total, n, __ATOMIC_RELAXED);
	}
	return n;
}

void host_user_warn(u32 *seen, const char *text, const char *file, int line)
{
	char said[300];
	int n;

	if (__atomic_exchange_n(seen, 1, __ATOMIC_RELAXED))
		return;
	n = snprintf(said, sizeof(said), "ebb: internal fault at %s:%d: %s", file, line, text);
	/* write() is a cancellation point. */
	syscall(SYS_write, STDERR_FILENO, said, n < (int)sizeof(said) ? n : (int)sizeof(said) - 1);
}
