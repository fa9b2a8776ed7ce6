/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * host_impl.h - the counting home's side of core/host.h (included by it, never alone).
 *
 * One OS thread plays all CPUs (sim.h).  The core is compiled with -fsanitize=thread and linked
 * with sim.c in place of the sanitizer's library, so every access of the core to memory is
 * told to sim_access(), plain ones too.  The functions below are compiled without, and tell it
 * themselves.
 */
#ifndef EBB_SCALE_HOST_IMPL_H
#define EBB_SCALE_HOST_IMPL_H

#include "kernel_names.h"

typedef u32 host_page;

/* A write's transfer, at once: nothing overlaps here. */
#define prefetchw(p) sim_prefetchw(p)
void sim_prefetchw(const void *p);

void *scale_memcpy(void *to, const void *from, size_t n);
#define memcpy(to, from, n)                                                                \
	(__builtin_constant_p(n) && (n) <= 8 ? __builtin_memcpy((to), (from), (n))          \
					     : scale_memcpy((to), (from), (n)))


/* ---- atomics ---- */

typedef struct {
	_Alignas(8) u64 v;
} host_a64;

/* The sanitizer's hooks see a volatile access as any other. */
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, val) ((void)(*(volatile __typeof__(x) *)&(x) = (__typeof__(x))(val)))

static inline u64 host_a64_read(const host_a64 *a)
{
	return READ_ONCE(a->v);
}

static inline u64 host_a64_read_acquire(const host_a64 *a)
{
	return READ_ONCE(a->v);
}

static inline void host_a64_set(host_a64 *a, u64 v)
{
	WRITE_ONCE(a->v, v);
}

static inline void host_a64_set_release(host_a64 *a, u64 v)
{
	WRITE_ONCE(a->v, v);
}

bool host_a64_cas(host_a64 *a, u64 *old, u64 v);
u64 host_a64_add(host_a64 *a, u64 v);
u64 host_a64_or(host_a64 *a, u64 v);
u64 host_a64_and(host_a64 *a, u64 v);
u64 host_a64_xchg(host_a64 *a, u64 v);

void host_wait_zero(host_a64 *a);
void host_wake_zero(host_a64 *a);

/* ---- locks: as large as the kernel's, since what shares their lines is counted ---- */

typedef struct {
	u32 id;                 /* of sim.h */
} spinlock_t;

struct mutex {
	u32 id;
	u32 rest[7];
};

void scale_lock_init(spinlock_t *l, const char *name);
#define spin_lock_init(l) scale_lock_init((l), #l)
void spin_lock(spinlock_t *l);
bool spin_trylock(spinlock_t *l);
void spin_unlock(spinlock_t *l);

void scale_mutex_init(struct mutex *m, const char *name);
#define mutex_init(m) scale_mutex_init((m), #m)
#define mutex_destroy(m) ((void)(m))
bool mutex_trylock(struct mutex *m);
void mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);

/* ---- CPUs, nodes, items ---- */

struct host_percpu {
	char *base;             /* for each CPU: a line with the id of its lock, then the item */
	size_t stride;
};

int host_percpu_init(struct host_percpu *pc, size_t item_bytes);
void host_percpu_destroy(struct host_percpu *pc);
void *host_percpu_lock(struct host_percpu *pc);
void host_percpu_unlock(struct host_percpu *pc, void *item);
void host_percpu_each(struct host_percpu *pc, void (*fn)(void *item, void *arg), void *arg);
unsigned int host_percpu_items(struct host_percpu *pc);
unsigned int host_percpu_node(struct host_percpu *pc, unsigned int i);
void *host_percpu_peek(struct host_percpu *pc, unsigned int i);
void host_settle(struct host_percpu *pc);
unsigned int scale_nr_cpus(void);
#define nr_cpu_ids scale_nr_cpus()
unsigned int raw_smp_processor_id(void);
unsigned int num_online_cpus(void);
unsigned int scale_nr_nodes(void);
#define nr_node_ids scale_nr_nodes()
unsigned int numa_mem_id(void);

/* ---- pages and memory ---- */

struct host_pages {
	u32 unused;
};

unsigned int scale_pages_alloc(host_page *out, unsigned int n, unsigned int node);
unsigned int scale_pages_at_hand(host_page *out, unsigned int n, unsigned int node);
void host_pages_free(struct host_pages *src, const host_page *pages, unsigned int n);
void *host_page_addr(struct host_pages *src, host_page p);
unsigned int host_page_node(struct host_pages *src, host_page p);

static inline bool host_page_is_bad(struct host_pages *src, host_page p)
{
	(void)src;
	(void)p;
	return false;
}


void *host_zalloc(size_t bytes);
void *host_zalloc_node(size_t bytes, unsigned int node);
void *host_zalloc_now(size_t bytes);
void host_free(void *p, size_t bytes);

/* ---- tables ---- */

/* As the user home's. */
struct host_table {
	host_a64 *word;         /* [n] */
	u64 n;
};

static inline int host_table_init(struct host_table *t, u64 n)
{
	t->n = n;
	t->word = host_zalloc(n * sizeof(*t->word));
	return t->word ? 0 : -ENOMEM;
}

static inline void host_table_destroy(struct host_table *t)
{
	host_free(t->word, t->n * sizeof(*t->word));
}

static inline host_a64 *host_table_at(const struct host_table *t, u64 i)
{
	return t->word + i;
}

static inline bool host_table_has(const struct host_table *t, u64 i)
{
	(void)t;
	(void)i;
	return true;
}

static inline u64 host_table_skip(const struct host_table *t, u64 i)
{
	(void)t;
	(void)i;
	return 0;
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

static inline size_t host_table_bytes(const struct host_table *t)
{
	return t->n * sizeof(*t->word);
}

/* ---- deferred work ---- */

struct host_work {
	void (*fn)(struct host_work *w);
	u32 id;                 /* of its worker */
	u32 queued;             /* 1: soon, 2: when its timer says so */
	u64 rest[10];
};

int scale_work_init(struct host_work *w, void (*fn)(struct host_work *w), unsigned int node);
void host_work_queue(struct host_work *w);
void host_work_queue_delayed(struct host_work *w, u64 us);
void host_work_flush(struct host_work *w);
void host_work_destroy(struct host_work *w);

#define host_pages_alloc(src, out, n, node, how)                                           \
	((void)(src), (how) & HOST_AT_HAND ? scale_pages_at_hand((out), (n), (node)) :        \
	 scale_pages_alloc((out), (n), (node)))
#define host_work_init(w, fn, node) scale_work_init((w), (fn), (node))
#define host_work_init_slow(w, fn, node) scale_work_init((w), (fn), (node))

/* ---- the rest ---- */

void host_relax(unsigned int *spins);
void cond_resched(void);
bool host_interrupted(void);
u64 ktime_get_ns(void);
u64 host_total_bytes(void);
bool scale_warn(bool bad, const char *what);
#define WARN_ONCE(bad, text) scale_warn((bad), (text))
/* What it reads would be counted. */
#define host_assert(holds) ((void)sizeof(!(holds)))

#endif
