/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool.h - the allocator: objects of 1 byte to a page, in zspages of size classes.
 *
 * An object is named by a reference:
 *
 *     50          43 42                                    5 4      0      4 KiB pages
 *     |  raw class  |  zspage number   :     object        |  slack |
 *
 * slack is the raw class's size less the object's, so a reference tells the exact size and the
 * class without a look at memory.  It is less than two steps of the class table: the smallest class
 * is two steps wide, and the first huge one begins a header early.
 *
 * The zspage number and the object are the "location", which compaction changes when it moves the
 * object.  The class says where they divide: object has the bits that count the objects of a
 * zspage, the number the rest, and numbers are those of the class's group (zspage.h).  That is
 * enough for 4 TiB of pages or 2^32 objects, whichever is first (tests/test_pool.c proves it).
 * References sort by class, then by zspage.
 *
 * Every object but a huge one begins with a header, its owner's key.  By the key compaction finds
 * the owner's word, and swings it to the new reference by one compare-and-swap.  Three may call
 * with a reference: the thread that allocated it and has not published it, the thread that took it
 * out of its owner's word, and a reader that holds the object.  In all three cases struct
 * pool_owner refuses to swing.
 */
#ifndef EBB_CORE_POOL_H
#define EBB_CORE_POOL_H

#include "zspage.h"

#define REF_BITS 51             /* of a slot word */
#define REF_SLACK_BITS (PAGE_SHIFT - 7)
#define REF_CLASS_BITS (PAGE_SHIFT == 12 ? 8 : 9)
#define REF_LOC_BITS (REF_BITS - REF_CLASS_BITS - REF_SLACK_BITS)
#define REF_CLASS_SHIFT (REF_SLACK_BITS + REF_LOC_BITS)
#define REF_MASK (((u64)1 << REF_BITS) - 1)
#define REF_LOC_MASK ((((u64)1 << REF_LOC_BITS) - 1) << REF_SLACK_BITS)

#define POOL_HEADER 4u          /* u32 owner */

/*
 * Lists of a class.  List g = 1 .. 10 has the zspages whose in-use ratio is, or was when they
 * were filed, in [10 (g - 1), 10 g) percent.  List POOL_ASIDE has those that compaction works on or
 * is done with, so that it comes to each once; an allocation takes one of them if there are no
 * others.  List 0 stays empty: it is zspage.list of a zspage that is on none.
 */
#define POOL_ASIDE 11
#define POOL_LISTS 12

/* Zspages that one hold of a class lock looks at, beside those that it changes. */
#define POOL_LOOK 32

/*
 * Objects that compaction tries to move in one hold of a class lock: so many, or as many as are
 * 32 KiB together, and at least one.  Threads that want the lock wait for so long.
 */
#define POOL_MOVES 8
#define POOL_MOVE_BYTES 32768u

/* What compaction does with a class, in this order (compact.c). */
enum pool_stage {
	STAGE_DONE, STAGE_REFILE, STAGE_EMPTY, STAGE_RETURN, STAGE_PACK, STAGE_FINISH, STAGES
};

struct pool_class {
	/* Fixed, and read by every free: a line that is never written. */
	u32 size;                       /* bytes of an object, its header included */
	u16 objs;                       /* objects of a full zspage */
	u8 pages;                       /* pages of a full zspage */
	u8 place;                       /* in class_table.class[] */
	u8 words;                       /* of used[] in a descriptor */
	u8 obj_bits;                    /* bits of a reference that say the object */
	u8 no_shift;                    /* right, once the class is shifted out: the number */
	u8 word_shift;                  /* right: the number, and which word of used[] */
	u16 obj_mask;                   /* (1 << obj_bits) - 1 */
	struct zspage_map map;          /* group's */
	struct zspage_group *group;     /* where its descriptors are */
	u64 full;                       /* the state of a full zspage */

	spinlock_t lock ____cacheline_aligned;
	u16 listed;                     /* bit g: list g has members; class lock */
	u8 needs;                       /* pool_likely_missing(); class lock, READ_ONCE */
	u32 head[POOL_LISTS];           /* descriptors' numbers; class lock */
	u32 partial;                    /* zspages on lists; class lock, READ_ONCE */

	/* Compaction's; class lock. */
	u32 cursor;                     /* the zspage it is at, or 0 */
	u64 turn;                       /* pool.compact_at of the turn under way, or of the last */
	u32 quota;                      /* partial as the turn began */
	u32 left;                       /* of quota, zspages that this stage may still come to */
	u16 obj;                        /* EMPTY: the next object to move; PACK: objects moved */
	u8 stage;                       /* enum pool_stage */
	u8 list;                        /* REFILE: the list that comes next */
} ____cacheline_aligned;

/* How compaction reaches the words that hold references.  Both are atomic context. */
struct pool_owner {
	void *ctx;
	/* The reference in the word of key, or 0 if there is none that may be moved now. */
	u64 (*look)(void *ctx, u32 key);
	/* Replaces from by to if look() would still return from.  Full ordering. */
	bool (*swing)(void *ctx, u32 key, u64 from, u64 to);
};

/*
 * Orderings (docs/internals/locking.md).
 *
 * object header (key).  Writes: allocator, after the class lock, write_once.  Reads: compaction,
 *     read_once, once.  Order: none: a key that is not yet written is anything; look() bounds
 *     it, swing() gets the same value.  Without it: an index out of bounds.  Model: test_reread.
 * pool.pages.  Writes: full add, or, for who is limited, CAS from a count that leaves room.
 *     Reads: relaxed.  Order: the look and the count are one step.  Without it: two writes pass
 *     mem_limit.  Model: limit.
 * pool.pages_peak.  Writes: CAS; reset: full AND, then look at pages.  Reads: relaxed.  Order:
 *     full on both sides: pages and peak are written and read crosswise.  Without it: a peak
 *     that is lost.  Model: peak.
 * pool.compact_at.  Writes: who ends a turn, CAS.  Reads: who begins a step, relaxed.  Order:
 *     none: the class lock that follows says by turn and stage whether there is something to do.
 * pool_class.partial.  Writes: class lock, write_once.  Reads: compaction, the shrinker's look,
 *     relaxed.  Order: none: a class that is passed over has its turn in the next pass.
 */
struct pool {
	struct class_table table;
	struct pages *pages_from;       /* the home's source, with a reserve */
	struct host_pages *src;         /* pages_from->src */
	struct zspage_table zspages;
	struct pool_owner owner;
	struct pool_class *class;       /* [table.nclasses] */

	/* Written as zspages come and go, so apart from what every free reads. */
	host_a64 pages ____cacheline_aligned;   /* in zspages */
	u64 limit;                      /* bytes that pages may be, 0: any; READ_ONCE */
	host_a64 pages_peak;
	host_a64 compact_at;            /* pass * classes + class; only grows */
	host_a64 pages_compacted;       /* pages that compaction freed, ever */
};

/*
 * pages outlives the pool; chain: the most pages of a zspage.  Process context.  -EINVAL: chain is
 * out of range; -ENOMEM.
 */
int pool_init(struct pool *p, struct pages *pages, unsigned int chain,
	      const struct pool_owner *owner);

/* All objects are free.  Process context. */
void pool_destroy(struct pool *p);

/* The largest object that is not huge.  Larger ones take a page each. */
static inline size_t pool_max_small(const struct pool *p)
{
	return p->table.largest - POOL_HEADER;
}

#define POOL_LIMITED 0x100u

/*
 * Allocates an object of size bytes, 1 to PAGE_SIZE, for the owner's key, and fills it with
 * the bytes at data; NULL: the caller does, by pool_write().  *ref names it.  node, or
 * NUMA_NO_NODE: where pages come from if the object takes a new zspage.  how: as pages_alloc(), and
 * with POOL_LIMITED no page is added past p->limit.  Process context with HOST_MAY_WAIT, else any.
 * -EINVAL: size; -ENOMEM; -EDQUOT: the limit; -ENOSPC: the class has no number left for a zspage,
 * so there are 4 TiB of pages or 2^32 objects.
 */
int pool_make(struct pool *p, size_t size, const void *data, u32 key, unsigned int node,
	      unsigned int how, u64 *ref);

/* Frees an object.  Any context. */
void pool_free(struct pool *p, u64 ref);

#define POOL_BULK_SMALL 64

/*
 * Frees n objects, 0 to 65535, in the order of their classes, each class's with at most one hold
 * of its lock, and one more for each 16 zspages that it empties.  Sorts refs[] in place.  tmp: room
 * for n references, or NULL if n is at most POOL_BULK_SMALL.  Any context.
 */
void pool_free_bulk(struct pool *p, u64 *refs, u64 *tmp, unsigned int n);

/* Exact size of an object in bytes. */
static inline size_t pool_ref_size(const struct pool *p, u64 ref)
{
	/* By the class table, not the class: two lines of the table serve most references. */
	u32 raw = class_raw_size(&p->table, (unsigned int)(ref >> REF_CLASS_SHIFT));
	u32 bytes = raw - (u32)(ref & ((1u << REF_SLACK_BITS) - 1));

	return raw > p->table.largest ? bytes : bytes - POOL_HEADER;
}

/* Bytes of pages that an object takes: its part of a full zspage. */
static inline u32 pool_ref_room(const struct pool *p, u64 ref)
{
	return p->table.class[p->table.merged[ref >> REF_CLASS_SHIFT]].room;
}

/* Fills an object with its pool_ref_size() bytes.  Any context. */
void pool_write(struct pool *p, u64 ref, const void *data);

/* Copies an object's pool_ref_size() bytes.  Any context. */
void pool_read(struct pool *p, u64 ref, void *data);

/*
 * The bytes of an object in one piece: in place, or copied to bounce (PAGE_SIZE bytes) if
 * it spans two pages.  Valid while the caller may call with ref.  Any context.
 */
const void *pool_map(struct pool *p, u64 ref, void *bounce);

/*
 * Compaction goes round the classes, in steps.  A step either passes classes without partial
 * zspages or holds a class's lock once, for at most POOL_MOVES moves and 2 * POOL_LOOK looks.
 * Between two steps the state is in the class, under its lock.  So any number of threads may take
 * steps, and none waits for another that is preempted.
 */
struct pool_compaction {
	u64 until;                      /* it is over when pool.compact_at comes there, */
	u64 left;                       /* or after so many more steps */
	u64 pages;                      /* that its steps freed */
	bool try;                       /* a step is skipped if the class lock is taken */
};

/*
 * Begins a compaction that gives each class a turn.  Its steps are as many as the zspages that are
 * there now may take, whatever is allocated and freed meanwhile.  Any context.
 */
void pool_compact_begin(struct pool *p, struct pool_compaction *pc);

/* Takes at most steps steps.  False: the compaction is over.  Any context. */
bool pool_compact_go(struct pool *p, struct pool_compaction *pc, unsigned int steps);

/*
 * Takes at most steps steps of the turns that come next, and skips one if the class lock is taken;
 * returns the pages that it freed.  Any context.
 */
u64 pool_compact_some(struct pool *p, unsigned int steps);

/*
 * Pages in zspages now, and the most there were.  A page is counted from before its first object
 * can be found until after its last one is freed.  Any context.
 */
static inline u64 pool_pages(struct pool *p)
{
	return host_a64_read(&p->pages);
}

static inline u64 pool_pages_peak(struct pool *p)
{
	u64 pages = pool_pages(p), peak = host_a64_read(&p->pages_peak);

	return pages > peak ? pages : peak;
}

/* Makes the pages that there are now the peak.  Any context. */
void pool_reset_peak(struct pool *p);

#define POOL_FULLNESS 11                /* 10 % .. 90 %, under 100 %, 100 % */

/* One class's row of the "classes" table. */
struct pool_class_stat {
	u64 zspages[POOL_FULLNESS];
	u64 objs, used, pages;
	u64 freeable;                   /* pages that used objects would not need side by side */
};

/* Fills rows[table.nclasses].  Process context. */
void pool_class_stats(struct pool *p, struct pool_class_stat *rows);

/*
 * For the files of core/mm
 */

static inline struct pool_class *ref_class(const struct pool *p, u64 ref)
{
	return &p->class[p->table.merged[ref >> REF_CLASS_SHIFT]];
}

/* The location of object obj of zspage no of class c, in its place in a reference. */
static inline u64 ref_loc(const struct pool_class *c, u32 no, unsigned int obj)
{
	return ((u64)no << c->obj_bits | obj) << REF_SLACK_BITS;
}

/* The number of the zspage; c, here and below: the reference's class. */
static inline u32 ref_zspage(const struct pool_class *c, u64 ref)
{
	return (u32)(ref << (64 - REF_CLASS_SHIFT) >> c->no_shift);
}

static inline unsigned int ref_obj(const struct pool_class *c, u64 ref)
{
	return (unsigned int)(ref >> REF_SLACK_BITS) & c->obj_mask;
}

/* The descriptor of an allocated number. */
static inline struct zspage *class_at(const struct pool_class *c, u32 no)
{
	return zspage_at(&c->map, no);
}

/* Whether a reference names an object in use; for asserts of callers that may call with it. */
static inline bool ref_is_live(const struct pool *p, u64 ref)
{
	const struct pool_class *c;
	const struct zspage *z;

	if (ref & ~REF_MASK || ref >> REF_CLASS_SHIFT >= p->table.nraw)
		return false;
	c = ref_class(p, ref);
	z = class_at(c, ref_zspage(c, ref));
	return z->class == c->place && ref_obj(c, ref) < c->objs &&
	       zspage_is_used(z, ref_obj(c, ref));
}

/* The address of byte off of a zspage; valid to the end of that page. */
static inline char *zspage_byte(const struct pool *p, const struct pool_class *c,
				struct zspage *z, size_t off)
{
	host_page page = zspage_pages(z, c->words)[off >> PAGE_SHIFT];

	/* A page with an object in use on it is there. */
	host_assert(off >> PAGE_SHIFT < READ_ONCE(z->pages) && page);
	return (char *)host_page_addr(p->src, page) + offset_in_page(off);
}

/* The header of object obj; not for huge classes. */
static inline u32 *object_key(const struct pool *p, const struct pool_class *c, struct zspage *z,
			      unsigned int obj)
{
	return (u32 *)zspage_byte(p, c, z, (size_t)obj * c->size);
}

/* The list for a zspage with inuse objects, 0 < inuse < objs. */
static inline unsigned int class_list(const struct pool_class *c, unsigned int inuse)
{
	return inuse * 10 / c->objs + 1;
}

/* class_list(c, inuse) < list, without the division. */
static inline bool class_below(const struct pool_class *c, unsigned int inuse, unsigned int list)
{
	return inuse * 10 < (list - 1) * c->objs;
}

/*
 * The first zspage that belongs on a list; *no: its number; NULL: none.  Refiles those before it
 * that belong lower, at most *left, which counts down; at 0 it takes the first as it is.
 */
struct zspage *class_first(struct pool_class *c, unsigned int list, u32 *no, unsigned int *left)
	__must_hold(&c->lock);
/* Whether z has a free object on pages that are there; *obj: the lowest. */
bool class_has_room(struct pool_class *c, struct zspage *z, unsigned int *obj)
	__must_hold(&c->lock);
/*
 * The fullest zspage with room on lists 1 .. 10, among *left, which counts down; *no: its number,
 * *obj: its lowest free object; NULL: none.
 */
struct zspage *class_with_room(struct pool_class *c, u32 *no, unsigned int *obj, unsigned int *left)
	__must_hold(&c->lock);
/* Moves z, which is on a list, to another, unless it is on that. */
void class_move(struct pool_class *c, struct zspage *z, u32 no, unsigned int list)
	__must_hold(&c->lock);
/* Sets object obj, which is free, and files the zspage, or takes it off its list if full. */
void class_take(struct pool_class *c, struct zspage *z, u32 no, unsigned int obj)
	__must_hold(&c->lock);
/* Clears object obj.  True: the zspage is empty and on no list, and the caller reaps it. */
bool class_put_locked(struct pool_class *c, struct zspage *z, u32 no, unsigned int obj)
	__must_hold(&c->lock);

/* The lowest clear bit of used[], or c->objs. */
unsigned int class_lowest_free(const struct pool_class *c, struct zspage *z);

/*
 * The most steps of the turn of a class with n zspages on its lists.  A step at least tries to move
 * an object, puts a zspage aside, is done with one, looks at POOL_LOOK, ends a stage, or comes to
 * the class.
 */
u64 pool_compact_steps(const struct pool_class *c, u64 n);

/* Frees empty zspages that are on no list, with their pages.  Any context, no class lock held. */
void pool_reap(struct pool *p, const struct zspage_id *id, unsigned int n);

#endif
