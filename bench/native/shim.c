// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* shim.c - waiting for locks, and the models of the page allocator and of slab (shim.h). */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* <errno.h> has come with these, and shim.h has numbers of its own. */
#undef EINVAL
#undef ENOMEM
#undef ENOSPC
#undef EBUSY
#include "shim.h"

#define LINE __attribute__((aligned(64)))

__thread unsigned int shim_cpu, shim_preempt;
struct page *shim_map;
char *shim_memory;

void shim_bug(const char *what)
{
	fprintf(stderr, "native: %s\n", what);
	abort();
}

/* ---- waiting ---- */

void shim_relax(unsigned int n)
{
	/* Who is waited for may have lost his CPU, as no holder of a spinlock does in a kernel. */
	if (n % 256 == 255)
		sched_yield();
#ifdef __x86_64__
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

#define wait_until(condition) for (unsigned int _n = 0; !(condition); _n++) shim_relax(_n)

/* A thread waits for one spinlock at a time: there are no interrupts. */
static struct waiter {
	struct waiter *next;
	bool first;
} waiters[SHIM_CPUS] LINE;

void shim_spin_wait(spinlock_t *lock)
{
	struct waiter *me = &waiters[shim_cpu], *next;
	u16 tail = (u16)(shim_cpu + 1), last;
	u32 alone = (u32)tail << 16, was;

	was = __atomic_fetch_or(&lock->word, SHIM_PENDING, __ATOMIC_ACQUIRE);
	if (was < SHIM_PENDING) {
		wait_until(!__atomic_load_n(&lock->held, __ATOMIC_ACQUIRE));
		__atomic_store_n(&lock->both, 1, __ATOMIC_RELAXED);
		return;
	}
	if (!(was & SHIM_PENDING))
		__atomic_store_n(&lock->pending, 0, __ATOMIC_RELAXED);
	me->next = NULL;
	me->first = false;
	last = __atomic_exchange_n(&lock->tail, tail, __ATOMIC_ACQ_REL);
	if (last) {
		__atomic_store_n(&waiters[last - 1].next, me, __ATOMIC_RELEASE);
		wait_until(__atomic_load_n(&me->first, __ATOMIC_ACQUIRE));
	}
	/* As long as there is a tail, who comes queues. */
	wait_until(!__atomic_load_n(&lock->both, __ATOMIC_ACQUIRE));
	if (__atomic_compare_exchange_n(&lock->word, &alone, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	__atomic_store_n(&lock->held, 1, __ATOMIC_RELAXED);
	wait_until((next = __atomic_load_n(&me->next, __ATOMIC_ACQUIRE)));
	__atomic_store_n(&next->first, true, __ATOMIC_RELEASE);
}

void shim_read_wait(rwlock_t *lock)
{
	__atomic_fetch_sub(&lock->word, SHIM_READER, __ATOMIC_RELAXED);
	spin_lock(&lock->wait);
	__atomic_fetch_add(&lock->word, SHIM_READER, __ATOMIC_ACQUIRE);
	wait_until(!__atomic_load_n(&lock->writes, __ATOMIC_ACQUIRE));
	spin_unlock(&lock->wait);
}

void shim_write_wait(rwlock_t *lock)
{
	u32 only;

	spin_lock(&lock->wait);
	__atomic_fetch_or(&lock->word, SHIM_WRITER, __ATOMIC_RELAXED);
	wait_until((only = SHIM_WRITER,
		    __atomic_compare_exchange_n(&lock->word, &only, SHIM_WRITES, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)));
	spin_unlock(&lock->wait);
}

/* ---- pages ---- */

#define PCP_BATCH 63
#define PCP_HIGH ((4u << 20) >> PAGE_SHIFT)
#define STAT_STEP 125

static struct {
	spinlock_t lock;
	struct list_head free;
	long zspages;
} zone;

static struct pcp {
	spinlock_t lock;
	unsigned int count;
	struct list_head free;
} pcps[SHIM_CPUS] LINE;

static void kmalloc_open(void);

static void *huge(size_t bytes)
{
	const size_t block = 2 << 20;
	char *at;

	bytes = (bytes + block - 1) & ~(block - 1);
	at = mmap(NULL, bytes + block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	at += block - 1 - ((uintptr_t)at - 1) % block;
	madvise(at, bytes, MADV_HUGEPAGE);
	memset(at, 0, bytes);
	return at;
}

bool shim_open(size_t bytes)
{
	unsigned long n = bytes >> PAGE_SHIFT;

	shim_map = huge(n * sizeof(struct page));
	shim_memory = huge(bytes);
	if (!shim_map || !shim_memory)
		return false;
	INIT_LIST_HEAD(&zone.free);
	for (unsigned int i = 0; i < SHIM_CPUS; i++)
		INIT_LIST_HEAD(&pcps[i].free);
	/* They come in order at first, and in that of frees later; none has number 0. */
	while (--n)
		list_add(&shim_map[n].lru, &zone.free);
	kmalloc_open();
	return true;
}

void shim_count_page(int by)
{
	static __thread signed char count;

	preempt_disable();
	WRITE_ONCE(count, count + by);
	if (unlikely(count > STAT_STEP || count < -STAT_STEP)) {
		__atomic_fetch_add(&zone.zspages, count, __ATOMIC_RELAXED);
		count = 0;
	}
	preempt_enable();
}

/* Moves up to n pages: to the front of to, from the front or the end of from. */
static void move_pages(struct list_head *from, bool end, struct list_head *to, unsigned int n,
		       unsigned int *moved)
{
	spin_lock(&zone.lock);
	for (*moved = 0; *moved < n && !list_empty(from); ++*moved) {
		struct list_head *at = end ? from->prev : from->next;

		list_del(at);
		list_add(at, to);
	}
	spin_unlock(&zone.lock);
}

struct page *shim_alloc_page(void)
{
	struct pcp *p = &pcps[shim_cpu];
	struct page *page;
	unsigned int n;

	spin_lock(&p->lock);
	if (unlikely(!p->count)) {
		move_pages(&zone.free, false, &p->free, PCP_BATCH, &n);
		p->count = n;
	}
	page = list_first_entry_or_null(&p->free, struct page, lru);
	if (likely(page)) {
		list_del(&page->lru);
		p->count--;
	}
	spin_unlock(&p->lock);
	if (likely(page)) {
		page->private = 0;
		page->page_type = ~0u;
		WRITE_ONCE(page->_refcount.v, 1);
	}
	return page;
}

void shim_free_pages(struct page **page, unsigned int n)
{
	struct pcp *p = &pcps[shim_cpu];
	unsigned int i, gone;

	for (i = 0; i < n; i++) {
		BUG_ON(page[i]->flags & (PG_LOCKED | PG_PRIVATE) || page[i]->memcg_data);
		page[i]->flags = 0;
		page[i]->mapping = NULL;
		page[i]->page_type = ~0u;
	}
	spin_lock(&p->lock);
	for (i = 0; i < n; i++) {
		list_add(&page[i]->lru, &p->free);
		if (unlikely(++p->count >= PCP_HIGH)) {
			move_pages(&p->free, true, &zone.free, PCP_BATCH, &gone);
			p->count -= gone;
		}
	}
	spin_unlock(&p->lock);
}

/* ---- slab ---- */

#define BARN 10         /* sheaves of a kind in a barn */

struct sheaf {
	struct sheaf *next;
	unsigned int size;
	void *object[];
};

struct kmem_cache {
	unsigned int size, capacity;
	struct slab_cpu {
		bool busy;
		struct sheaf *main, *spare;
	} LINE cpu[SHIM_CPUS];
	struct barn {
		spinlock_t lock;
		struct sheaf *sheaf;
		unsigned int n;
	} LINE full, empty;             /* full's lock is of both */
	spinlock_t lock LINE;
	void **free;                    /* an object begins with the next one */
};

static struct sheaf *sheaf_new(const struct kmem_cache *s)
{
	size_t bytes = sizeof(struct sheaf) + s->capacity * sizeof(void *);
	struct sheaf *sheaf = aligned_alloc(64, (bytes + 63) & ~63ul);

	BUG_ON(!sheaf);
	sheaf->size = 0;
	return sheaf;
}

static struct sheaf *barn_get(struct barn *b)
{
	struct sheaf *sheaf = b->sheaf;

	if (sheaf) {
		b->sheaf = sheaf->next;
		b->n--;
	}
	return sheaf;
}

static void barn_put(struct barn *b, struct sheaf *sheaf)
{
	sheaf->next = b->sheaf;
	b->sheaf = sheaf;
	b->n++;
}

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void *ctor)
{
	struct kmem_cache *s = aligned_alloc(64, sizeof(*s));

	(void)name, (void)align, (void)flags, (void)ctor;
	BUG_ON(!s);
	memset(s, 0, sizeof(*s));
	s->size = (size + 7) & ~7u;
	s->capacity = size >= PAGE_SIZE ? 4 : size >= 1024 ? 12 : size >= 256 ? 28 : 60;
	for (unsigned int i = 0; i < SHIM_CPUS; i++)
		s->cpu[i].main = sheaf_new(s);
	return s;
}

/* Its memory stays: the process ends next. */
void kmem_cache_destroy(struct kmem_cache *s)
{
	(void)s;
}

/* Fills an empty sheaf from the list, or from a new page. */
static bool refill(struct kmem_cache *s, struct sheaf *sheaf)
{
	struct page *page = NULL;
	char *at = NULL;

	spin_lock(&s->lock);
	while (sheaf->size < s->capacity && s->free) {
		sheaf->object[sheaf->size++] = s->free;
		s->free = *s->free;
	}
	spin_unlock(&s->lock);
	if (sheaf->size)
		return true;
	page = shim_alloc_page();
	if (!page)
		return false;
	page->private = (unsigned long)s;
	at = kmap_local_page(page);
	spin_lock(&s->lock);
	for (size_t k = PAGE_SIZE / s->size; k--;) {
		void **object = (void **)(at + k * s->size);

		*object = s->free;
		s->free = object;
	}
	spin_unlock(&s->lock);
	return refill(s, sheaf);
}

/* Objects of a sheaf to the list, those of a slab's page that follow each other at once. */
static void flush(struct kmem_cache *s, struct sheaf *sheaf)
{
	while (sheaf->size) {
		void **first = sheaf->object[--sheaf->size], **last = first;

		while (sheaf->size && virt_to_page(sheaf->object[sheaf->size - 1]) ==
				      virt_to_page(first)) {
			void **next = sheaf->object[--sheaf->size];

			*next = first;
			first = next;
		}
		spin_lock(&s->lock);
		*last = s->free;
		s->free = first;
		spin_unlock(&s->lock);
	}
}

static void swap_sheaves(struct slab_cpu *c)
{
	struct sheaf *main = c->main;

	c->main = c->spare;
	c->spare = main;
}

static noinline bool need_full(struct kmem_cache *s, struct slab_cpu *c)
{
	struct sheaf *full = NULL;

	if (c->spare && c->spare->size) {
		swap_sheaves(c);
		return true;
	}
	if (READ_ONCE(s->full.n)) {
		spin_lock(&s->full.lock);
		full = barn_get(&s->full);
		if (full)
			barn_put(&s->empty, c->main);
		spin_unlock(&s->full.lock);
	}
	if (full)
		c->main = full;
	return full || refill(s, c->main);
}

static noinline void need_empty(struct kmem_cache *s, struct slab_cpu *c)
{
	struct sheaf *empty = NULL;

	if (!c->spare)
		c->spare = sheaf_new(s);
	if (c->spare->size == s->capacity) {
		if (READ_ONCE(s->full.n) < BARN) {
			spin_lock(&s->full.lock);
			empty = barn_get(&s->empty);
			barn_put(&s->full, c->spare);
			spin_unlock(&s->full.lock);
			c->spare = empty ? empty : sheaf_new(s);
		} else {
			flush(s, c->spare);
		}
	}
	swap_sheaves(c);
}

static struct slab_cpu *slab_lock(struct kmem_cache *s)
{
	struct slab_cpu *c;

	preempt_disable();
	c = &s->cpu[shim_cpu];
	BUG_ON(READ_ONCE(c->busy));
	WRITE_ONCE(c->busy, true);
	return c;
}

static void slab_unlock(struct slab_cpu *c)
{
	WRITE_ONCE(c->busy, false);
	preempt_enable();
}

void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfp)
{
	struct slab_cpu *c = slab_lock(s);
	void *object = NULL;

	(void)gfp;
	if (likely(c->main->size) || need_full(s, c))
		object = c->main->object[--c->main->size];
	slab_unlock(c);
	return object;
}

static void check_slab(struct kmem_cache *s, void *object)
{
	/* Which node it is of is looked up there. */
	BUG_ON(READ_ONCE(virt_to_page(object)->private) != (unsigned long)s);
}

void kmem_cache_free(struct kmem_cache *s, void *object)
{
	struct slab_cpu *c;

	check_slab(s, object);
	c = slab_lock(s);
	if (unlikely(c->main->size == s->capacity))
		need_empty(s, c);
	c->main->object[c->main->size++] = object;
	slab_unlock(c);
}

void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **object)
{
	struct slab_cpu *c;
	size_t i;

	for (i = 0; i < n; i++)
		check_slab(s, object[i]);
	while (n) {
		c = slab_lock(s);
		if (unlikely(c->main->size == s->capacity))
			need_empty(s, c);
		i = min(n, (size_t)(s->capacity - c->main->size));
		memcpy(c->main->object + c->main->size, object, i * sizeof(*object));
		c->main->size += (unsigned int)i;
		slab_unlock(c);
		object += i;
		n -= i;
	}
}

static const unsigned int kmalloc_sizes[] = {
	8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096
};
#define KMALLOCS (sizeof(kmalloc_sizes) / sizeof(kmalloc_sizes[0]))
static struct kmem_cache *kmallocs[KMALLOCS];

static void kmalloc_open(void)
{
	for (unsigned int i = 0; i < KMALLOCS; i++)
		kmallocs[i] = kmem_cache_create("kmalloc", kmalloc_sizes[i], 0, 0, NULL);
}

void *shim_kzalloc(size_t bytes)
{
	unsigned int i = 0;
	void *object;

	while (kmalloc_sizes[i] < bytes)
		BUG_ON(++i == KMALLOCS);
	object = kmem_cache_alloc(kmallocs[i], GFP_KERNEL);
	return object ? memset(object, 0, bytes) : NULL;
}

void kfree(const void *object)
{
	if (object)
		kmem_cache_free((struct kmem_cache *)virt_to_page(object)->private, (void *)object);
}

char *kstrdup(const char *text, gfp_t gfp)
{
	(void)gfp;
	return strcpy(shim_kzalloc(strlen(text) + 1), text);
}
