/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool.h - the allocator: objects of 1 byte to a page, in zspages of size classes.
 *
 * An object is named by a reference:
 *
 *     50        43 42              16 15      5 4     0        4 KiB pages
 *     | raw class |  zspage number   |  object | slack |
 *
 * slack is the raw class's size less the object's (less than two steps of the class table: the
 * smallest class is two steps wide, and the first huge one begins a header early), so a reference tells the exact size and
 * the class without a look at memory.  "Location" is the zspage and object part; it is what
 * changes when compaction moves the object.  References sort by class, then by zspage.
 *
 * Where the bits do not fit (POOL_REF_CLASS=0: 32-bit zspage numbers), the class is read
 * from the descriptor and the size from the object's header.  That needs no pool-wide lock:
 * whoever may call with a reference keeps its object from moving (below), so its descriptor
 * stays what it is; it costs a look at two cold lines for each free.
 *
 * Every object but a huge one begins with a header, its owner's key; compaction finds the
 * owner's word through it and swings it with one compare-and-swap.  Who may call with a
 * reference: the thread that allocated it and has not published it, the thread that took it
 * out of its owner's word, and a reader for which the owner's word is held.  All three are
 * states in which struct pool_owner refuses to swing.
 */
#ifndef EBB_CORE_POOL_H
#define EBB_CORE_POOL_H

#include "zspage.h"

#define REF_OBJ_BITS 11
#if POOL_REF_CLASS
#define REF_SLACK_BITS (HOST_PAGE_SHIFT - 7)
#define REF_CLASS_BITS (HOST_PAGE_SHIFT == 12 ? 8 : 9)
#define POOL_HEADER 4u          /* u32 owner */
#else
#define REF_SLACK_BITS 0
#define REF_CLASS_BITS 0
#define POOL_HEADER 6u          /* u32 owner, u16 size */
#endif
#define REF_OBJ_SHIFT REF_SLACK_BITS
#define REF_ZSPAGE_SHIFT (REF_OBJ_SHIFT + REF_OBJ_BITS)
#define REF_CLASS_SHIFT (REF_ZSPAGE_SHIFT + ZSPAGE_BITS)
#define REF_BITS (REF_CLASS_SHIFT + REF_CLASS_BITS)
#define REF_MASK (((u64)1 << REF_BITS) - 1)
_Static_assert(REF_BITS <= 51, "the slot word has 51 bits for a reference");
#define REF_LOC_MASK ((((u64)1 << (REF_OBJ_BITS + ZSPAGE_BITS)) - 1) << REF_OBJ_SHIFT)

/*
 * Lists of a class: group g = 1 .. 10 holds zspages whose in-use ratio is, or was when they
 * were filed, in [10 (g - 1), 10 g) percent.  Group 0 is compaction's: put aside.
 */
#define POOL_GROUPS 11

/* Zspages that are looked at in one hold of a class lock, beside those that are changed. */
#define POOL_LOOK 32

struct pool_class {
	/* Fixed, and read by every free: a line that is never written. */
	u32 size;
	u16 objs;
	u8 pages;
	u8 place;                       /* in class_table.class[] */
	u8 words;                       /* of a descriptor */
	u64 full;                       /* the state of a full zspage */

	host_lock_t lock HOST_OWN_LINE;
	u16 listed;                     /* bit g: list g has members; class lock */
	u32 head[POOL_GROUPS];          /* descriptor numbers; class lock */
	u32 cursor;                     /* where compaction goes on, or 0; class lock */
} HOST_OWN_LINE;

/* How compaction reaches the words that hold references.  Both are atomic context. */
struct pool_owner {
	void *ctx;
	/* The reference in the word of key, or 0 if there is none that may be moved now. */
	u64 (*look)(void *ctx, u32 key);
	/* Replaces from by to if look() would still say from.  Full ordering. */
	bool (*swing)(void *ctx, u32 key, u64 from, u64 to);
};

struct pool {
	struct class_table table;
	struct pcp *pcp;
	struct host_pages *src;
	struct zspage_table zspages;
	struct pool_owner owner;
	struct pool_class *class;       /* [table.nclasses] */

	/* Written as zspages come and go, so apart from what every free reads. */
	host_a64 pages HOST_OWN_LINE;   /* in zspages */
	host_a64 pages_peak;
	host_mutex_t compacting;
	u64 pages_compacted;            /* ever; compacting, read with host_read_once */
};

/* chain: most pages of a zspage.  Process context.  -EINVAL, -ENOMEM. */
int pool_init(struct pool *p, struct pcp *pcp, unsigned int chain, const struct pool_owner *owner);

/* Process context; all objects are free. */
void pool_destroy(struct pool *p);

/* The largest object that is not huge.  Larger ones take a page each. */
static inline size_t pool_max_small(const struct pool *p)
{
	return p->table.largest - POOL_HEADER;
}

/*
 * Allocates an object of size bytes, 1 to HOST_PAGE_SIZE, for the owner's key.  *ref names it.
 * Process context.  -ENOMEM.
 */
int pool_alloc(struct pool *p, size_t size, u32 key, u64 *ref);

/* Frees an object.  Any context. */
void pool_free(struct pool *p, u64 ref);

#define POOL_BULK_SMALL 64

/*
 * Frees n objects, 0 to 65535, grouped by class, with at most one hold of a class's lock for
 * each group; refs[] is sorted in place.  tmp: room for n references, or NULL if n is at most
 * POOL_BULK_SMALL.  Any context.
 */
void pool_free_bulk(struct pool *p, u64 *refs, u64 *tmp, unsigned int n);

#if POOL_REF_CLASS

/* Exact size of an object in bytes. */
static inline size_t pool_ref_size(const struct pool *p, u64 ref)
{
	/* From the class table, not the classes: two lines of it serve most references. */
	u32 raw = class_raw_size(&p->table, (unsigned int)((ref & REF_MASK) >> REF_CLASS_SHIFT));
	u32 bytes = raw - (u32)(ref & ((1u << REF_SLACK_BITS) - 1));

	return raw > p->table.largest ? bytes : bytes - POOL_HEADER;
}

/* Bytes of the class that an object takes room in. */
static inline u32 pool_ref_class_size(const struct pool *p, u64 ref)
{
	return p->table.class[p->table.merged[(ref & REF_MASK) >> REF_CLASS_SHIFT]].size;
}

#else
size_t pool_ref_size(const struct pool *p, u64 ref);
u32 pool_ref_class_size(const struct pool *p, u64 ref);
#endif

/* Fills an object with its pool_ref_size() bytes.  Any context. */
void pool_write(struct pool *p, u64 ref, const void *data);

/*
 * The bytes of an object in one piece: in place, or copied to bounce (HOST_PAGE_SIZE bytes) if
 * it spans two pages.  Valid while the caller may call with ref.  Any context.
 */
const void *pool_map(struct pool *p, u64 ref, void *bounce);

/*
 * Moves objects out of sparse zspages; returns the pages that freed.  Other threads go on; no
 * class lock is held for longer than it takes to empty one zspage.  Process context.
 */
u64 pool_compact(struct pool *p);

/* Pages in zspages now, and the most there were.  Any context. */
static inline u64 pool_pages(struct pool *p)
{
	return host_a64_read(&p->pages);
}

static inline u64 pool_pages_peak(struct pool *p)
{
	u64 pages = pool_pages(p), peak = host_a64_read(&p->pages_peak);

	return pages > peak ? pages : peak;
}

void pool_reset_peak(struct pool *p);

#define POOL_FULLNESS 11                /* 10 % .. 90 %, under 100 %, 100 % */

/* One class's row of the "classes" table. */
struct pool_class_stat {
	u64 zspages[POOL_FULLNESS];
	u64 objs, used, pages;
	u64 freeable;                   /* pages more than the used objects need side by side */
};

/* Fills rows[table.nclasses].  Process context. */
void pool_class_stats(struct pool *p, struct pool_class_stat *rows);

/*
 * For check.c and compact.c.
 */

static inline u64 ref_make(unsigned int raw, u32 no, unsigned int obj, size_t slack)
{
	u64 loc = (u64)no << REF_ZSPAGE_SHIFT | (u64)obj << REF_OBJ_SHIFT;

#if POOL_REF_CLASS
	return (u64)raw << REF_CLASS_SHIFT | loc | slack;
#else
	(void)raw;
	(void)slack;
	return loc;
#endif
}

static inline u32 ref_zspage(u64 ref)
{
	return (u32)(ref >> REF_ZSPAGE_SHIFT & (((u64)1 << ZSPAGE_BITS) - 1));
}

static inline unsigned int ref_obj(u64 ref)
{
	return (unsigned int)(ref >> REF_OBJ_SHIFT) & ((1u << REF_OBJ_BITS) - 1);
}

static inline struct pool_class *ref_class(const struct pool *p, u64 ref)
{
#if POOL_REF_CLASS
	return &p->class[p->table.merged[(ref & REF_MASK) >> REF_CLASS_SHIFT]];
#else
	return &p->class[zspage_at(&p->zspages, ref_zspage(ref))->class];
#endif
}

/* The address of byte off of a zspage; valid to the end of that page. */
static inline char *zspage_byte(const struct pool *p, struct zspage *z, size_t off)
{
	host_page page = zspage_pages(z)[off >> HOST_PAGE_SHIFT];

	return (char *)host_page_addr(p->src, page) + (off & HOST_PAGE_MASK);
}

/* The header of object obj; not for huge classes. */
static inline u32 *object_key(const struct pool *p, struct pool_class *c, struct zspage *z,
			      unsigned int obj)
{
	return (u32 *)zspage_byte(p, z, (size_t)obj * c->size);
}

/* The group of a zspage with inuse objects, 0 < inuse < objs. */
static inline unsigned int class_group(const struct pool_class *c, unsigned int inuse)
{
	return inuse * 10 / c->objs + 1;
}

/*
 * The first zspage of a list, after refiling those before it that do not belong there; NULL: none.
 * After *left of them it takes the next as it comes.
 */
struct zspage *class_first(struct pool *p, struct pool_class *c, unsigned int group, u32 *no,
			   unsigned int *left) HOST_REQUIRES(c->lock);
/* Files z on another list. */
void class_move(struct pool *p, struct pool_class *c, struct zspage *z, u32 no,
		unsigned int group) HOST_REQUIRES(c->lock);
/* Sets object obj, which is free, and files the zspage, or takes it off its list if full. */
void class_take(struct pool *p, struct pool_class *c, struct zspage *z, u32 no, unsigned int obj)
	HOST_REQUIRES(c->lock);
/* Clears object obj; true: the zspage is empty, off its list, and the caller's to reap. */
bool class_put_locked(struct pool *p, struct pool_class *c, struct zspage *z, u32 no,
		      unsigned int obj) HOST_REQUIRES(c->lock);

/* The lowest clear bit of used[], or c->objs. */
unsigned int class_lowest_free(const struct pool_class *c, struct zspage *z);

/* Frees empty zspages that are on no list, with their pages.  No lock held. */
void pool_reap(struct pool *p, const u32 *no, unsigned int n);

#endif
