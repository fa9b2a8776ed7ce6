/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * host_impl.h - the hostile home's side of core/host.h (included by it, never alone).
 *
 * One OS thread; what the core takes for threads are actors, coroutines that change places only
 * inside the functions below (explore.c).  Every one that touches what another actor may touch is
 * a point at which the explorer may let another actor go on:
 *
 *     atomics, READ_ONCE, WRITE_ONCE    before the access
 *     locks, mutexes, per-CPU items               before they are taken and before they are dropped
 *     memcpy                                      before each half
 *     page source, deferred work                  before the call
 *
 * All memory that the core gets lies in one arena, so that a home can be put back to a moment
 * (home.h) and every address is known as live or not.
 */
#ifndef EBB_TESTS_HOST_IMPL_H
#define EBB_TESTS_HOST_IMPL_H

#include "kernel_names.h"

typedef u32 host_page;

#define prefetchw(p) ((void)(p))

/* Before an access to n bytes, and when it is made.  explore.c */
void explore_at(const void *p, size_t n);
void explore_did(const void *p, size_t n, bool write);

/*
 * Somebody asserts: what he reads for that is no point at which another may go on, and no access
 * that is counted.  Nobody else runs meanwhile.
 */
extern bool hostile_asserts;
void hostile_look(const void *p, size_t n);

static inline void hostile_touch(const void *p, size_t n, bool write)
{
	if (hostile_asserts) {
		hostile_look(p, n);
		return;
	}
	explore_at(p, n);
	explore_did(p, n, write);
}

/* A copy is not atomic: others may run between its halves. */
void *hostile_memcpy(void *to, const void *from, size_t n);

#define memcpy(to, from, n)                                                                \
	(__builtin_constant_p(n) && (n) <= 8 ? __builtin_memcpy((to), (from), (n))          \
					     : hostile_memcpy((to), (from), (n)))


/* ---- atomics ---- */

typedef struct {
	_Alignas(8) u64 v;
} host_a64;

#define READ_ONCE(x)                                                                  \
	__extension__({                                                                    \
		const volatile __typeof__(x) *at_ = &(x);                                  \
		hostile_touch((const void *)at_, sizeof(x), false);                        \
		*at_;                                                                      \
	})

#define WRITE_ONCE(x, val)                                                            \
	__extension__({                                                                    \
		volatile __typeof__(x) *at_ = &(x);                                        \
		__typeof__(x) val_ = (__typeof__(x))(val);                                 \
		hostile_touch((const void *)at_, sizeof(x), true);                         \
		*at_ = val_;                                                               \
		(void)0;                                                                   \
	})

static inline u64 host_a64_read(const host_a64 *a)
{
	hostile_touch(a, sizeof(*a), false);
	return a->v;
}

static inline u64 host_a64_read_acquire(const host_a64 *a)
{
	return host_a64_read(a);
}

static inline void host_a64_set(host_a64 *a, u64 v)
{
	hostile_touch(a, sizeof(*a), true);
	a->v = v;
}

static inline void host_a64_set_release(host_a64 *a, u64 v)
{
	host_a64_set(a, v);
}

static inline bool host_a64_cas(host_a64 *a, u64 *old, u64 v)
{
	hostile_touch(a, sizeof(*a), true);
	if (a->v == *old) {
		a->v = v;
		return true;
	}
	*old = a->v;
	return false;
}

static inline u64 host_a64_xchg(host_a64 *a, u64 v)
{
	u64 old;

	hostile_touch(a, sizeof(*a), true);
	old = a->v;
	a->v = v;
	return old;
}

static inline u64 host_a64_add(host_a64 *a, u64 v)
{
	hostile_touch(a, sizeof(*a), true);
	return a->v += v;
}

static inline u64 host_a64_or(host_a64 *a, u64 v)
{
	u64 old;

	hostile_touch(a, sizeof(*a), true);
	old = a->v;
	a->v |= v;
	return old;
}

static inline u64 host_a64_and(host_a64 *a, u64 v)
{
	u64 old;

	hostile_touch(a, sizeof(*a), true);
	old = a->v;
	a->v &= v;
	return old;
}

/* ---- locks of all kinds ---- */

struct hostile_lock {
	u32 owner;      /* actor + 1, 0: free */
	u32 rank;       /* in home.c's table, which is docs/internals/locking.md's */
	u32 tickets, served;    /* in a fair home, of who takes it or waits */
};

void hostile_lock_init(struct hostile_lock *l, const char *name);
void hostile_lock_end(struct hostile_lock *l);
void hostile_acquire(struct hostile_lock *l, bool sleeping);
bool hostile_try(struct hostile_lock *l, bool sleeping);
void hostile_release(struct hostile_lock *l, bool sleeping);

typedef struct kernel_names_lock("lock") {
	struct hostile_lock l;
} spinlock_t;

struct kernel_names_lock("mutex") mutex {
	struct hostile_lock l;
};

/* The rank table knows a lock and a set of items by the expression that made it. */
#define spin_lock_init(lock) hostile_lock_init(&(lock)->l, #lock)

static inline void spin_lock(spinlock_t *l) __acquires(l)
	__no_context_analysis
{
	hostile_acquire(&l->l, false);
}

static inline bool spin_trylock(spinlock_t *l) __cond_acquires(true, l)
	__no_context_analysis
{
	return hostile_try(&l->l, false);
}

static inline void spin_unlock(spinlock_t *l) __releases(l)
	__no_context_analysis
{
	hostile_release(&l->l, false);
}

#define mutex_init(m) hostile_lock_init(&(m)->l, #m)
#define mutex_destroy(m) hostile_lock_end(&(m)->l)

static inline bool mutex_trylock(struct mutex *m) __cond_acquires(true, m)
	__no_context_analysis
{
	return hostile_try(&m->l, true);
}

static inline void mutex_lock(struct mutex *m) __acquires(m)
	__no_context_analysis
{
	hostile_acquire(&m->l, true);
}

static inline void mutex_unlock(struct mutex *m) __releases(m)
	__no_context_analysis
{
	hostile_release(&m->l, true);
}

/* ---- waiting for a counter to run out ---- */

void host_wait_zero(host_a64 *a);
void host_wake_zero(host_a64 *a);

/* ---- per-CPU items ---- */

struct host_percpu {
	char *base;     /* for each CPU: a struct hostile_lock in its line, then the item */
	size_t stride;
};

int hostile_percpu_init(struct host_percpu *pc, size_t item_bytes, const char *name);
#define host_percpu_init(pc, bytes) hostile_percpu_init((pc), (bytes), #pc)
void host_percpu_destroy(struct host_percpu *pc);
void *host_percpu_lock(struct host_percpu *pc);
void host_percpu_unlock(struct host_percpu *pc, void *item);
unsigned int host_percpu_items(struct host_percpu *pc);
unsigned int host_percpu_node(struct host_percpu *pc, unsigned int i);
void *host_percpu_peek(struct host_percpu *pc, unsigned int i);
void host_settle(struct host_percpu *pc);
unsigned int hostile_nr_cpus(void);
#define nr_cpu_ids hostile_nr_cpus()
unsigned int raw_smp_processor_id(void);
unsigned int num_online_cpus(void);
unsigned int hostile_nr_nodes(void);
#define nr_node_ids hostile_nr_nodes()
unsigned int numa_mem_id(void);
unsigned int hostile_cpu_node(unsigned int cpu);

/* ---- pages and memory ---- */

struct host_pages {
	u32 dry;        /* not 0: gives nothing */
};

unsigned int host_pages_alloc(struct host_pages *src, host_page *out, unsigned int n,
			      unsigned int node, unsigned int how);
void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n);
void *host_page_addr(struct host_pages *src, host_page p);
unsigned int host_page_node(struct host_pages *src, host_page p);
bool host_page_is_bad(struct host_pages *src, host_page p);

void *host_zalloc(size_t bytes);

static inline void *host_zalloc_node(size_t bytes, unsigned int node)
{
	(void)node;
	return host_zalloc(bytes);
}

void host_free(void *p, size_t bytes);

/* ---- tables ---- */

/*
 * Whole, or, in a home of sparse ones, of pages.  What is not there lies where no write is stood.
 */
struct host_table {
	host_a64 *word;         /* [n], or NULL */
	host_a64 *page;         /* [n / HOST_TABLE_PIECE], host_page, 0: it is not there; or NULL */
	u64 n;
};

int host_table_init(struct host_table *t, u64 n);
void host_table_destroy(struct host_table *t);
host_a64 *host_table_at(const struct host_table *t, u64 i);
bool host_table_has(const struct host_table *t, u64 i);
u64 host_table_skip(const struct host_table *t, u64 i);
bool host_table_give(struct host_table *t, u64 i, struct host_pages *src, host_page p);
host_page host_table_take(struct host_table *t);
size_t host_table_bytes(const struct host_table *t);

/* ---- deferred work ---- */

struct host_work {
	void (*fn)(struct host_work *w);
	u32 queued;     /* runs at any moment from now on, or at the latest when flushed */
	u32 running;
	u64 begun, done;
};

int host_work_init(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node);
#define host_work_init_slow(w, fn, node) host_work_init(w, fn, node)
void host_work_queue(struct host_work *w);
void host_work_queue_delayed(struct host_work *w, u64 us);
void host_work_flush(struct host_work *w);
void host_work_destroy(struct host_work *w);

/* ---- the rest ---- */

void cond_resched(void);
bool host_interrupted(void);
u64 ktime_get_ns(void);
u64 host_total_bytes(void);
bool hostile_warn(bool bad, const char *what, const char *file, int line);

#define WARN_ONCE(bad, text) hostile_warn((bad), (text), __FILE__, __LINE__)

/* EBB_NO_ASSERT: scripts/coverage. */
#ifndef EBB_NO_ASSERT
#define host_assert(holds)                                                     \
	do {                                                                   \
		bool holds_;                                                   \
		hostile_asserts = true;                                        \
		holds_ = (holds);                                              \
		hostile_asserts = false;                                       \
		hostile_warn(!holds_, "not " #holds, __FILE__, __LINE__);      \
	} while (0)
#else
#define host_assert(holds) ((void)sizeof(!(holds)))
#endif

#endif
