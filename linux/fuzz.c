// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * fuzz.c - fuzzes zs_*() of mm/zsmalloc.c, compiled unchanged over bench/native/shim.h, against plain
 * copies of what was stored.
 *
 * An input is a row of operations.  Objects come, are written, read in all ways and go, one by one
 * and in bulk; a reader keeps an object while other operations run; the pool is compacted; pages
 * migrate as mm/migrate.c does it, and stay locked for a while, so that zspages are freed later;
 * allocations fail.  There is one thread, so who waits for a lock has found a deadlock.
 *
 * What the kernel gives is malloc()'s here, which AddressSanitizer watches.  A page lies between two
 * that nobody may touch, and neither may it be touched itself once it is free.
 */
#include "shim.h"
#include <linux/zsmalloc.h>

#include <sanitizer/asan_interface.h>

void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void free(void *p);
void *mmap(void *at, size_t n, int prot, int flags, int fd, long off);
int memcmp(const void *a, const void *b, size_t n);
char *strdup(const char *s);
int printf(const char *format, ...);
void abort(void) __attribute__((noreturn));

int LLVMFuzzerTestOneInput(const u8 *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define must(x) ({ if (!(x)) shim_bug(#x); })

#define OBJECTS 192u
#define PAGES 4096u             /* every second one is used */

/* ---- what zsmalloc calls ---- */

__thread unsigned int shim_cpu, shim_preempt;
struct page *shim_map;
char *shim_memory;

static unsigned int failing;    /* allocations that come and fail */
static bool may_fail;
static long allocated;          /* blocks of memory that are not free */
static long zspage_pages;
static unsigned int pages_used;
static struct page *free_pages; /* linked by mapping */

void shim_bug(const char *what)
{
	printf("fuzz: %s\n", what);
	abort();
}

void shim_relax(unsigned int n)
{
	(void)n;
	shim_bug("it waits, and nobody else is there");
}

void shim_spin_wait(spinlock_t *lock)
{
	(void)lock;
	shim_relax(0);
}

void shim_read_wait(rwlock_t *lock)
{
	(void)lock;
	shim_relax(0);
}

void shim_write_wait(rwlock_t *lock)
{
	(void)lock;
	shim_relax(0);
}

void shim_count_page(int by)
{
	zspage_pages += by;
}

static bool fails(void)
{
	return failing && failing--;
}

struct page *shim_alloc_page(void)
{
	struct page *page = fails() ? NULL : free_pages;

	if (!page)
		return NULL;
	free_pages = page->mapping;
	memset(page, 0, sizeof(*page));
	page->page_type = ~0u;
	page->_refcount.v = 1;
	__asan_unpoison_memory_region(kmap_local_page(page), PAGE_SIZE);
	memset(kmap_local_page(page), 0xa5, PAGE_SIZE);
	pages_used++;
	return page;
}

void shim_free_pages(struct page **pages, unsigned int n)
{
	while (n--) {
		struct page *page = *pages++;

		must(!(page->flags & (PG_LOCKED | PG_PRIVATE)));
		page->mapping = free_pages;
		free_pages = page;
		__asan_poison_memory_region(kmap_local_page(page), PAGE_SIZE);
		pages_used--;
	}
}

struct kmem_cache {
	unsigned int size;
};

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void *ctor)
{
	struct kmem_cache *s = malloc(sizeof(*s));

	(void)name, (void)align, (void)flags, (void)ctor;
	s->size = size;
	return s;
}

void kmem_cache_destroy(struct kmem_cache *s)
{
	free(s);
}

void *shim_kzalloc(size_t bytes)
{
	void *p = fails() ? NULL : calloc(1, bytes);

	allocated += p != NULL;
	return p;
}

void kfree(const void *p)
{
	allocated -= p != NULL;
	free((void *)p);
}

void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfp)
{
	(void)gfp;
	return shim_kzalloc(s->size);
}

void kmem_cache_free(struct kmem_cache *s, void *object)
{
	(void)s;
	must(object);
	kfree(object);
}

void kmem_cache_free_bulk(struct kmem_cache *s, size_t n, void **object)
{
	while (n--)
		kmem_cache_free(s, *object++);
}

char *kstrdup(const char *text, gfp_t gfp)
{
	(void)gfp;
	allocated++;
	return strdup(text);
}

/* ---- the input ---- */

static const u8 *at, *end;

static unsigned int take(void)
{
	return at < end ? *at++ : 0;
}

static unsigned int take_below(unsigned int n)
{
	unsigned int v = take();

	return (n > 256 ? v << 8 | take() : v) % n;
}

/* ---- objects ---- */

static struct zs_pool *pool;
static struct object {
	unsigned long handle;           /* 0: none */
	unsigned int bytes, readers;
	u8 data[PAGE_SIZE];
} object[OBJECTS];

static struct reader {
	struct object *of;              /* NULL: none */
	void *mem;                      /* NULL: by scatterlist */
	struct scatterlist sg[2];
	u8 copy[PAGE_SIZE];
} reader[3];

static struct page *locked[3];
static bool any_locked;         /* whose zspages may be freed later, by a work item */

static struct object *take_object(void)
{
	return &object[take_below(OBJECTS)];
}

static void store(struct object *o)
{
	u32 seed = take() << 8 | take();

	for (unsigned int i = 0; i < o->bytes; i++)
		o->data[i] = (u8)((seed = seed * 1664525 + 1013904223) >> 24);
	zs_obj_write(pool, o->handle, o->data, o->bytes);
}

/* Sizes near each other and those that a few classes have, too, so that zspages fill. */
static unsigned int take_size(void)
{
	static const unsigned int some[] = { 1, 663, 1000, 2000, PAGE_SIZE / 2, PAGE_SIZE * 3 / 4 };

	switch (take_below(4)) {
	case 0:
		return take_below(PAGE_SIZE + 2);
	case 1:
		return 1 + take_below(PAGE_SIZE);
	default:
		return some[take_below(sizeof(some) / sizeof(some[0]))];
	}
}

static void op_malloc(struct object *o)
{
	unsigned int bytes = take_size();

	if (o->handle)
		return;
	o->handle = zs_malloc(pool, bytes, __GFP_HIGHMEM | __GFP_MOVABLE, 0);
	if (!IS_ERR_VALUE(o->handle)) {
		must(bytes && bytes <= PAGE_SIZE);
		for (unsigned int i = 0; i < OBJECTS; i++)
			must(&object[i] == o || object[i].handle != o->handle);
		o->bytes = bytes;
		store(o);
		return;
	}
	must(o->handle == (unsigned long)(!bytes ? -EINVAL : bytes > PAGE_SIZE ? -ENOSPC : -ENOMEM));
	must(o->handle != (unsigned long)-ENOMEM || may_fail);
	o->handle = 0;
}

static void read_begin(struct reader *r, struct object *o, bool by_sg)
{
	if (r->of || !o->handle)
		return;
	r->of = o;
	o->readers++;
	r->mem = NULL;
	if (by_sg)
		zs_obj_read_sg_begin(pool, o->handle, r->sg, o->bytes);
	else
		r->mem = zs_obj_read_begin(pool, o->handle, o->bytes, r->copy);
}

static void read_end(struct reader *r)
{
	struct object *o = r->of;
	unsigned int off = 0;

	if (!o)
		return;
	if (r->mem) {
		must(!memcmp(r->mem, o->data, o->bytes));
		zs_obj_read_end(pool, o->handle, o->bytes, r->mem);
	} else {
		for (struct scatterlist *sg = r->sg; off < o->bytes; off += sg++->length) {
			must(sg < r->sg + 2 && sg->length <= o->bytes - off);
			must(!memcmp((char *)kmap_local_page(sg->page) + sg->offset, o->data + off,
				     sg->length));
		}
		zs_obj_read_sg_end(pool, o->handle);
	}
	o->readers--;
	r->of = NULL;
}

static void read_now(struct object *o, bool by_sg)
{
	static struct reader r;

	read_begin(&r, o, by_sg);
	read_end(&r);
}

static void op_free(struct object *o)
{
	if (!o->handle || o->readers)
		return;
	zs_free(pool, o->handle);
	o->handle = 0;
}

#ifdef ZS_FREE_BULK_MAX
static void op_free_bulk(void)
{
	unsigned int first = take_below(OBJECTS), step = 1 + take_below(3), n = 0;
	unsigned int most = 1 + take_below(ZS_FREE_BULK_MAX);
	/* Exactly as long, for AddressSanitizer. */
	unsigned long *handle = malloc(most * sizeof(*handle));

	for (unsigned int i = first; i < OBJECTS && n < most; i += step)
		if (object[i].handle && !object[i].readers) {
			handle[n++] = object[i].handle;
			object[i].handle = 0;
		}
	zs_free_bulk(pool, handle, n);
	free(handle);
}
#else
#define op_free_bulk() ((void)0)
#endif

static void unlock_page(struct page **place)
{
	struct folio *f = (struct folio *)*place;

	*place = NULL;
	if (f) {
		folio_unlock(f);
		folio_put(f);
	}
}

/* Isolates a page, as long as one is movable, and has it locked. */
static void op_lock(struct page **place)
{
	struct page *page;
	unsigned int i, from = take_below(PAGES / 2);

	if (*place)
		return;
	for (i = 0; i < PAGES / 2; i++) {
		page = shim_map + 1 + 2 * ((from + i) % (PAGES / 2));
		if (page->_refcount.v && page->flags & PG_MOVABLE && !(page->flags & PG_LOCKED))
			break;
	}
	if (i == PAGES / 2)
		return;
	folio_get((struct folio *)page);
	must(folio_trylock((struct folio *)page));
	any_locked = true;
	*place = page;
	if (!zsmalloc_mops.isolate_page(page, 0))
		unlock_page(place);
}

/* To another page; the old one is free when the last has let it go. */
static void op_migrate(struct page **place)
{
	struct page *page = *place, *to;
	bool moved;

	if (!page || !(to = shim_alloc_page()))
		return;
	must(folio_trylock((struct folio *)to));
	moved = !zsmalloc_mops.migrate_page(to, page, MIGRATE_ASYNC);
	if (!moved)
		zsmalloc_mops.putback_page(page);
	folio_unlock((struct folio *)to);
	folio_put((struct folio *)to);
	unlock_page(place);
}

static void op(void)
{
	unsigned int what = take();

	switch (what % 16) {
	case 0: case 1: case 2: case 3: case 4:
		op_malloc(take_object());
		break;
	case 5:
		for (unsigned int n = take_below(48), i = take_below(OBJECTS); n && i < OBJECTS; n--)
			op_malloc(&object[i++]);
		break;
	case 6:
		op_free(take_object());
		break;
	case 7:
		op_free_bulk();
		break;
	case 8: {
		struct object *o = take_object();

		if (o->handle && !o->readers) {
			o->bytes = 1 + take_below(o->bytes);
			store(o);
		}
		break;
	}
	case 9:
		read_now(take_object(), what & 16);
		break;
	case 10:
		read_begin(&reader[take_below(3)], take_object(), what & 16);
		break;
	case 11:
		read_end(&reader[take_below(3)]);
		break;
	case 12:
		zs_compact(pool);
		break;
	case 13:
		op_lock(&locked[take_below(3)]);
		break;
	case 14:
		op_migrate(&locked[take_below(3)]);
		break;
	default:
		failing = take_below(8);
		may_fail |= failing != 0;
		break;
	}
	must(!shim_preempt);
	must(any_locked || zs_get_total_pages(pool) == pages_used);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t n)
{
	unsigned int i;

	at = data;
	end = data + n;
	may_fail = any_locked = false;
	pool = zs_create_pool("fuzz");
	must(pool);
	while (at < end)
		op();
	failing = 0;
	for (i = 0; i < 3; i++) {
		read_end(&reader[i]);
		unlock_page(&locked[i]);
	}
	for (i = 0; i < OBJECTS; i++) {
		read_now(&object[i], i & 1);
		op_free(&object[i]);
	}
	zs_destroy_pool(pool);
	must(!pages_used && !zspage_pages && !allocated);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const int read_write = 3, private_anonymous = 0x22;

	(void)argc, (void)argv;
	shim_map = calloc(PAGES + 1, sizeof(*shim_map));
	shim_memory = mmap(NULL, (PAGES + 1) * PAGE_SIZE, read_write, private_anonymous, -1, 0);
	must(shim_memory != (char *)-1);
	__asan_poison_memory_region(shim_memory, (PAGES + 1) * PAGE_SIZE);
	for (unsigned int i = PAGES - 1; i < PAGES; i -= 2) {
		shim_map[i].mapping = free_pages;
		free_pages = &shim_map[i];
	}
	must(!shim_init_module());
	/* What the module itself has stays. */
	allocated = 0;
	return 0;
}
