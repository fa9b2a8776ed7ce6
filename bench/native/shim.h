/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shim.h - as much of Linux as mm/zsmalloc.c takes, for building that file as it is in user space
 * and timing it.  Each <linux/...> header that it names is a line that includes this file.
 *
 * As in a kernel of a distribution, on x86-64 without debugging options and mitigations:
 *
 *   locks     the words of queued spinlocks and rwlocks and their instructions: a locked
 *             compare-and-swap takes one, a store of a byte gives it back; who waits stands in a
 *             queue.  SHIM_FENCE puts an mfence before that store, as user-mode Linux has it
 *   pages     struct page of 64 bytes in an array, memory in another, both on huge pages where the
 *             system has them: an address is arithmetic, as with vmemmap and the direct map
 *   atomics   page locks and reference counts are locked instructions
 *   per CPU   a thread is a CPU; its variables are relative to a segment register
 *   options   COMPACTION, ZSMALLOC_CHAIN_SIZE 8, preemption counted; no lockdep, DEBUG_VM, memcg
 *
 * The two models of shim.c leave out, and so are cheaper than what they stand for:
 *
 *   slab      sheaves of a CPU and the barn are as in SLUB.  Beyond them is one list of free
 *             objects under a lock where SLUB has slabs; no slab goes back to the page allocator,
 *             no debugging, hardening, accounting or other node
 *   pages     lists of a CPU with batches of 63, and past 1,024 pages a zone's list under its
 *             lock.  No buddies are merged, no interrupts masked; no watermarks, migrate types
 *             or checks; a list of a CPU does not adapt
 *
 * Not modelled at all: interrupts, the scheduler, return thunks.  memcpy() is the C library's.
 */
#ifndef EBB_NATIVE_SHIM_H
#define EBB_NATIVE_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- words ---- */

#ifndef PAGE_SHIFT
#define PAGE_SHIFT 12
#endif
#define PAGE_SIZE (1ul << PAGE_SHIFT)
#define BITS_PER_LONG 64
#define MAX_POSSIBLE_PHYSMEM_BITS 52
#define CONFIG_ZSMALLOC_CHAIN_SIZE 8
#define CONFIG_COMPACTION 1
#define IS_ENABLED(option) option
#define SZ_16M 0x1000000
#define INT_MAX __INT_MAX__
#define EINVAL 22
#define ENOMEM 12
#define ENOSPC 28
#define EBUSY 16

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef unsigned int gfp_t;
#define GFP_KERNEL 0u
#define __GFP_HIGHMEM 2u
#define __GFP_MOVABLE 8u

#define __init
#define __exit
#define __must_check __attribute__((warn_unused_result))
#define __maybe_unused __attribute__((unused))
#define __acquires(lock)
#define noinline __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define static_assert _Static_assert
#define _AC(n, suffix) shim_join(n, suffix)
#define shim_join(n, suffix) n##suffix
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define DIV_ROUND_UP(n, by) (((n) + (by) - 1) / (by))
#define is_power_of_2(n) (!((n) & ((n) - 1)))
#define offset_in_page(at) ((unsigned long)(at) & (PAGE_SIZE - 1))
#define container_of(at, type, member) ((type *)((char *)(at) - offsetof(type, member)))
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define data_race(x) (x)
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define ERR_PTR(err) ((void *)(long)(err))
#define IS_ERR_VALUE(v) unlikely((unsigned long)(v) >= (unsigned long)-4095)
#define IS_ERR_OR_NULL(p) (unlikely(!(p)) || IS_ERR_VALUE(p))

void shim_bug(const char *what) __attribute__((cold, noreturn));
#define BUG_ON(wrong) ({ if (unlikely(wrong)) shim_bug(#wrong); })
#define WARN_ON(wrong) BUG_ON(wrong)
#define BUILD_BUG_ON(wrong) _Static_assert(!(wrong), #wrong)
#define VM_BUG_ON(wrong) ((void)sizeof(wrong))
#define VM_BUG_ON_PAGE(wrong, page) VM_BUG_ON(wrong)
#define VM_WARN_ON_ONCE(wrong) VM_BUG_ON(wrong)
#define pr_err(text, ...) shim_bug(text)

#define EXPORT_SYMBOL_GPL(name)
#define MODULE_LICENSE(text)
#define MODULE_AUTHOR(text)
#define MODULE_DESCRIPTION(text)
/* Also said here, where zsmalloc.c ends: the reference has the class, as on 64-bit machines. */
#define module_init(function)                                                                 \
	_Static_assert(ZS_OBJ_CLASS_BITS > 0, "zs_free() would take the pool's lock");        \
	int shim_init_module(void) { return function(); }
#define module_exit(function) void shim_exit_module(void) { function(); }
int shim_init_module(void);
void shim_exit_module(void);

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *at, int byte, size_t n);

/* ---- the machine ---- */

#define SHIM_CPUS 512           /* most threads */

extern __thread unsigned int shim_cpu;          /* of this thread, from 0; the caller sets it */
extern __thread unsigned int shim_preempt;

#define preempt_disable() ({ WRITE_ONCE(shim_preempt, shim_preempt + 1); })
#define preempt_enable() ({ WRITE_ONCE(shim_preempt, shim_preempt - 1); })
#define cond_resched() ((void)0)
#define cond_resched_lock(lock) ((void)(lock))
#define prefetch(at) __builtin_prefetch(at)
#define prefetchw(at) __builtin_prefetch(at, 1)

/* What comes before a store that gives a lock back. */
#ifdef SHIM_FENCE
#define shim_before_release() __asm__ volatile("mfence" ::: "memory")
#else
#define shim_before_release() ((void)0)
#endif

/* The n-th turn of a loop that waits for another thread. */
void shim_relax(unsigned int n);

typedef struct { int v; } atomic_t;
typedef struct { long v; } atomic_long_t;
#define atomic_set(a, n) WRITE_ONCE((a)->v, n)
#define atomic_xchg(a, n) __atomic_exchange_n(&(a)->v, n, __ATOMIC_SEQ_CST)
#define atomic_long_read(a) READ_ONCE((a)->v)
#define atomic_long_add(n, a) ((void)__atomic_fetch_add(&(a)->v, n, __ATOMIC_RELAXED))
#define atomic_long_sub(n, a) ((void)__atomic_fetch_sub(&(a)->v, n, __ATOMIC_RELAXED))

/* ---- locks ---- */

/*
 * Who waits alone sets pending and waits for held.  With a second one there is a queue, whose first
 * waits for both and whose others for the one before them.
 */
typedef union {
	u32 word;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	struct { u8 held, pending; u16 tail; };         /* tail: the last waiter's CPU and 1 */
	u16 both;                                       /* held and pending */
#else
	struct { u16 tail; u8 pending, held; };
	struct { u16 not_both, both; };
#endif
} spinlock_t;

#define SHIM_PENDING 0x100u

/* readers: 0x200 for each, SHIM_WRITES or SHIM_WRITER; wait: who waits holds it, or stands there */
typedef struct {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	union { u32 word; u8 writes; };
#else
	union { u32 word; struct { u8 not_writes[3], writes; }; };
#endif
	spinlock_t wait;
} rwlock_t;

#define SHIM_WRITES 0xffu
#define SHIM_WRITER 0x100u      /* one waits for the readers to go */
#define SHIM_READER 0x200u

void shim_spin_wait(spinlock_t *lock);
void shim_read_wait(rwlock_t *lock);
void shim_write_wait(rwlock_t *lock);

static inline bool shim_try(u32 *word, u32 to)
{
	u32 none = 0;

	return __atomic_compare_exchange_n(word, &none, to, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static inline void shim_release(u8 *held)
{
	shim_before_release();
	__atomic_store_n(held, 0, __ATOMIC_RELEASE);
}

#define DEFINE_SPINLOCK(name) spinlock_t name = { 0 }
#define spin_lock_init(lock) ((void)((lock)->word = 0))
#define rwlock_init(lock) ((void)(*(lock) = (rwlock_t){ { 0 }, { 0 } }))
#define assert_spin_locked(lock) BUG_ON(!READ_ONCE((lock)->word))
#define rwlock_is_contended(lock) (READ_ONCE((lock)->wait.word) != 0)

/* Functions of their own, as where preemption is counted. */
static noinline __maybe_unused void spin_lock(spinlock_t *lock)
{
	preempt_disable();
	if (unlikely(!shim_try(&lock->word, 1)))
		shim_spin_wait(lock);
}

static noinline __maybe_unused void spin_unlock(spinlock_t *lock)
{
	shim_release(&lock->held);
	preempt_enable();
}

static noinline __maybe_unused void read_lock(rwlock_t *lock)
{
	preempt_disable();
	if (unlikely(__atomic_fetch_add(&lock->word, SHIM_READER, __ATOMIC_ACQUIRE) &
		     (SHIM_WRITER | SHIM_WRITES)))
		shim_read_wait(lock);
}

static noinline __maybe_unused int read_trylock(rwlock_t *lock)
{
	const u32 writers = SHIM_WRITER | SHIM_WRITES;

	preempt_disable();
	if (likely(!(READ_ONCE(lock->word) & writers))) {
		if (likely(!(__atomic_fetch_add(&lock->word, SHIM_READER, __ATOMIC_ACQUIRE) &
			     writers)))
			return 1;
		__atomic_fetch_sub(&lock->word, SHIM_READER, __ATOMIC_RELAXED);
	}
	preempt_enable();
	return 0;
}

static noinline __maybe_unused void read_unlock(rwlock_t *lock)
{
	__atomic_fetch_sub(&lock->word, SHIM_READER, __ATOMIC_RELEASE);
	preempt_enable();
}

static noinline __maybe_unused void write_lock(rwlock_t *lock)
{
	preempt_disable();
	if (unlikely(!shim_try(&lock->word, SHIM_WRITES)))
		shim_write_wait(lock);
}

static noinline __maybe_unused void write_unlock(rwlock_t *lock)
{
	shim_release(&lock->writes);
	preempt_enable();
}

struct lockdep_map { };
struct lock_class_key { };
#define _RET_IP_ 0
#define lockdep_init_map(...) ((void)__key)
#define rwsem_acquire_read(...) ((void)0)
#define rwsem_acquire(...) ((void)0)
#define rwsem_release(...) ((void)0)
#define lock_acquired(...) ((void)0)

/* ---- lists: a ring, whose head is one of it ---- */

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name) struct list_head name = { &(name), &(name) }
#define list_entry(at, type, member) container_of(at, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_entry((head)->next, type, member))
#define list_for_each_entry_safe(at, after, head, member)                                     \
	for (at = list_entry((head)->next, __typeof__(*at), member),                          \
	     after = list_entry(at->member.next, __typeof__(*at), member);                    \
	     &at->member != (head);                                                           \
	     at = after, after = list_entry(at->member.next, __typeof__(*at), member))

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head->prev = head;
}

static inline bool list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

static inline void list_add(struct list_head *at, struct list_head *head)
{
	at->next = head->next;
	at->prev = head;
	head->next->prev = at;
	WRITE_ONCE(head->next, at);
}

static inline void list_del(struct list_head *at)
{
	at->next->prev = at->prev;
	WRITE_ONCE(at->prev->next, at->next);
}

static inline void list_move_tail(struct list_head *at, struct list_head *head)
{
	list_del(at);
	list_add(at, head->prev);
}

static inline void list_del_init(struct list_head *at)
{
	list_del(at);
	INIT_LIST_HEAD(at);
}

/* All of from to the front of to. */
static inline void list_splice_init(struct list_head *from, struct list_head *to)
{
	if (list_empty(from))
		return;
	from->prev->next = to->next;
	to->next->prev = from->prev;
	from->next->prev = to;
	to->next = from->next;
	INIT_LIST_HEAD(from);
}

/* ---- bits ---- */

#define BITS_TO_LONGS(n) DIV_ROUND_UP(n, 64)
#define __set_bit(bit, map) ((void)((map)[(bit) / 64] |= 1ul << (bit) % 64))
#define __clear_bit(bit, map) ((void)((map)[(bit) / 64] &= ~(1ul << (bit) % 64)))

/* The first bit from at on that is not as in flip, or end. */
static inline unsigned long shim_find_bit(const unsigned long *map, unsigned long end,
					  unsigned long at, unsigned long flip)
{
	unsigned long word, k;

	if (at >= end)
		return end;
	k = at / 64;
	word = (map[k] ^ flip) & ~0ul << at % 64;
	while (!word) {
		if (++k * 64 >= end)
			return end;
		word = map[k] ^ flip;
	}
	return min(k * 64 + (unsigned long)__builtin_ctzl(word), end);
}

#define find_next_zero_bit(map, end, at) shim_find_bit(map, end, at, ~0ul)
#define for_each_set_bit_from(bit, map, end)                                                  \
	for ((bit) = shim_find_bit(map, end, bit, 0); (bit) < (end);                          \
	     (bit) = shim_find_bit(map, end, (bit) + 1, 0))
#define for_each_set_bit(bit, map, end)                                                       \
	for ((bit) = shim_find_bit(map, end, 0, 0); (bit) < (end);                            \
	     (bit) = shim_find_bit(map, end, (bit) + 1, 0))

/* ---- pages ---- */

struct page {
	unsigned long flags;
	struct list_head lru;
	void *mapping;
	unsigned long __folio_index;
	unsigned long private;          /* of a slab: its cache */
	unsigned int page_type;
	atomic_t _refcount;
	unsigned long memcg_data;
};

_Static_assert(sizeof(struct page) == 64, "a line");

struct folio {
	struct page page;
};

#define PG_LOCKED 0x01ul
#define PG_WAITERS 0x80ul       /* the sign of the byte with PG_LOCKED; nobody sleeps here */
#define PG_PRIVATE 0x100ul
#define PG_MOVABLE 0x200ul
#define PGTY_zsmalloc 0xf6u
#define NR_ZSPAGES 0

extern struct page *shim_map;   /* of the first page */
extern char *shim_memory;       /* its bytes */

#define page_to_pfn(page) ((unsigned long)((page) - shim_map))
#define pfn_to_page(pfn) (shim_map + (pfn))
#define virt_to_page(at) pfn_to_page((unsigned long)((char *)(at) - shim_memory) >> PAGE_SHIFT)
#define kmap_local_page(page) ((void *)(shim_memory + (page_to_pfn(page) << PAGE_SHIFT)))
#define kunmap_local(at) ((void)(at))
#define memcpy_from_page(to, page, at, n) memcpy(to, (char *)kmap_local_page(page) + (at), n)
#define memcpy_to_page(page, at, from, n) memcpy((char *)kmap_local_page(page) + (at), from, n)
#define copy_page(to, from) memcpy(to, from, PAGE_SIZE)
#define kmsan_copy_page_meta(to, from) ((void)0)
#define page_zone(page) NULL

/* Pages of so many bytes in all, each written once.  False: there is no such memory. */
bool shim_open(size_t bytes);

struct page *shim_alloc_page(void);
void shim_free_pages(struct page **page, unsigned int n);       /* whose references are gone */
void shim_count_page(int by);           /* a counter of a CPU, which is added up at times */

#define alloc_pages_node(nid, gfp, order) shim_alloc_page()
#define inc_zone_page_state(page, item) shim_count_page(1)
#define dec_zone_page_state(page, item) shim_count_page(-1)
#define SetPagePrivate(page) \
	((void)__atomic_fetch_or(&(page)->flags, PG_PRIVATE, __ATOMIC_RELAXED))
#define ClearPagePrivate(page) \
	((void)__atomic_fetch_and(&(page)->flags, ~PG_PRIVATE, __ATOMIC_RELAXED))
#define PagePrivate(page) ((READ_ONCE((page)->flags) & PG_PRIVATE) != 0)
#define SetPageMovableOps(page) \
	((void)__atomic_fetch_or(&(page)->flags, PG_MOVABLE, __ATOMIC_RELAXED))
#define PageZsmalloc(page) ((page)->page_type >> 24 == PGTY_zsmalloc)
#define __SetPageZsmalloc(page) ((void)((page)->page_type = PGTY_zsmalloc << 24))

static inline bool folio_trylock(struct folio *f)
{
	return !(__atomic_fetch_or(&f->page.flags, PG_LOCKED, __ATOMIC_ACQUIRE) & PG_LOCKED);
}

static inline void folio_unlock(struct folio *f)
{
	const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
	signed char *low = (signed char *)&f->page.flags + (little ? 0 : sizeof(long) - 1);

	if (__atomic_xor_fetch(low, PG_LOCKED, __ATOMIC_RELEASE) < 0)
		shim_bug("somebody sleeps for a page");
}

#define folio_test_locked(f) ((READ_ONCE((f)->page.flags) & PG_LOCKED) != 0)

static inline void folio_wait_locked(struct folio *f)
{
	for (unsigned int n = 0; folio_test_locked(f); n++)
		shim_relax(n);
}

static inline void folio_lock(struct folio *f)
{
	while (!folio_trylock(f))
		folio_wait_locked(f);
}

#define folio_get(f) ((void)__atomic_fetch_add(&(f)->page._refcount.v, 1, __ATOMIC_RELAXED))
#define shim_put_is_last(page) (!__atomic_sub_fetch(&(page)->_refcount.v, 1, __ATOMIC_SEQ_CST))

static inline void folio_put(struct folio *f)
{
	struct page *page = &f->page;

	if (shim_put_is_last(page))
		shim_free_pages(&page, 1);
}

#define __free_page(page) folio_put((struct folio *)(page))

/* ---- slab ---- */

struct kmem_cache;
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void *ctor);
void kmem_cache_destroy(struct kmem_cache *s);
void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfp);
void kmem_cache_free(struct kmem_cache *s, void *object);
void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **object);
void *shim_kzalloc(size_t bytes);
void kfree(const void *object);
char *kstrdup(const char *text, gfp_t gfp);

#define kmem_cache_zalloc(s, gfp) \
	({ void *_z = kmem_cache_alloc(s, gfp); _z ? memset(_z, 0, sizeof(struct zspage)) : _z; })
#define kzalloc_obj(type) shim_kzalloc(sizeof(type))
#define kzalloc_flex(type, member, n, gfp) \
	shim_kzalloc(sizeof(type) + (n) * sizeof((type).member[0]))

/* ---- what is never called here, or seldom ---- */

struct work_struct {
	void (*run)(struct work_struct *work);
	atomic_t due;
};

#define INIT_WORK(work, function) ((work)->run = (function))
#define schedule_work(work) ((void)atomic_xchg(&(work)->due, 1))
/* Does the work: in whose thread it is done does not matter to who measures. */
#define flush_work(work) ((void)(atomic_xchg(&(work)->due, 0) ? (work)->run(work) : (void)0))

struct shrink_control;
struct shrinker {
	unsigned long (*scan_objects)(struct shrinker *s, struct shrink_control *sc);
	unsigned long (*count_objects)(struct shrinker *s, struct shrink_control *sc);
	long batch;
	void *private_data;
};

#define SHRINK_STOP (~0ul)
#define shrinker_alloc(flags, ...) ((struct shrinker *)shim_kzalloc(sizeof(struct shrinker)))
#define shrinker_register(shrinker) ((void)0)
#define shrinker_free(shrinker) kfree(shrinker)

typedef unsigned int isolate_mode_t;
enum migrate_mode { MIGRATE_ASYNC };
struct movable_operations {
	bool (*isolate_page)(struct page *page, isolate_mode_t mode);
	int (*migrate_page)(struct page *to, struct page *from, enum migrate_mode mode);
	void (*putback_page)(struct page *page);
};

static inline int set_movable_ops(const struct movable_operations *ops, unsigned int type)
{
	(void)ops, (void)type;
	return 0;
}

struct scatterlist {
	struct page *page;
	unsigned int length, offset;
};

#define sg_init_table(sg, n) ((void)(sg))
#define sg_set_page(sg, p, n, at) \
	((void)(*(sg) = (struct scatterlist){ .page = (p), .length = (n), .offset = (at) }))
#define sg_next(sg) ((sg) + 1)

#endif
