// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * compact.c - moves objects until a class has no more pages than it needs, step by step.
 *
 *     sparsest zspage of the class  --objects-->  fullest ones            then it is reaped
 *     what is still partial:  its last objects  --> its first free places, then its last
 *                                                   pages are given back
 *
 * An object is moved under its class's lock: look at the owner's word, copy the bytes, swing the
 * word.  An object is never written in place, so the copy is whole.  If the owner changed the word
 * meanwhile, the swing fails and the copy is dropped.  The old place may be freed meanwhile, but
 * not allocated again, which takes the lock: so a word that compares equal names what was copied.
 *
 * A class's turn, with the lists that a stage takes zspages from and puts them on:
 *
 *     REFILE   1 .. 10  --> where they belong        RETURN   aside --> where they belong
 *     EMPTY    1 .. 10  --> aside, or reaped         PACK     1 .. 10  --> aside
 *
 * and RETURN again.  A zspage is put aside before its first object is moved, so that allocations
 * leave it alone.  An object that may not be moved stays (a reader holds it, it is not published
 * yet, or it was detached), and its zspage stays aside until RETURN.
 *
 * Why a turn ends.  quota is the number of zspages on the class's lists as the turn began.  REFILE,
 * EMPTY and PACK come to so many at most, whatever other threads add.  EMPTY tries each object of a
 * zspage once; PACK moves at most as many as the zspage has objects; RETURN meets only zspages that
 * were put aside.  pool_compact_steps() is the sum.
 *
 * The step that ends a turn, which any thread may take, moves pool.compact_at on.  A thread that
 * comes late to a turn sees by pool_class.turn that it is over.
 *
 * Lock order: class lock > nothing of core/mm.
 */
#include "pool.h"

/* One hold of a class lock: what it may still do, and what is to be done after it. */
struct compact_hold {
	unsigned int looks, moves;              /* it may still do */
	unsigned int ngone, npages;
	struct zspage_id gone[POOL_MOVES];      /* to be reaped: empty, on no list */
	host_page page[CHAIN_MAX];              /* to be freed: of no zspage any more */
	struct zspage *dst;                     /* where objects go, or NULL */
	u32 dst_no;
};

static void compact_looked(struct compact_hold *h, unsigned int n)
{
	h->looks -= n < h->looks ? n : h->looks;
}

/* The emptiest zspage on lists 1 .. 10; *no: its number. */
static struct zspage *compact_sparsest(struct pool_class *c, struct compact_hold *h, u32 *no)
	__must_hold(&c->lock)
{
	unsigned int list, left = POOL_LOOK;
	struct zspage *z = NULL;

	for (list = 1; list < POOL_ASIDE && !z; list++)
		z = class_first(c, list, no, &left);
	compact_looked(h, POOL_LOOK - left + 1);
	return z;
}

/* The first object in use from from on, or c->objs. */
static unsigned int next_used(const struct pool_class *c, const struct zspage *z, unsigned int from)
{
	unsigned int w = from / 64;
	u64 bits = host_a64_read(&z->used[w]) >> (from % 64) << (from % 64);

	while (!bits && ++w < c->words)
		bits = host_a64_read(&z->used[w]);
	return bits ? w * 64 + (unsigned int)__builtin_ctzll(bits) : c->objs;
}

/* h->dst becomes the fullest zspage with room among POOL_LOOK; *obj: its lowest free object. */
static bool find_target(struct pool_class *c, struct compact_hold *h, unsigned int *obj)
	__must_hold(&c->lock)
{
	unsigned int left = POOL_LOOK;

	h->dst = class_with_room(c, &h->dst_no, obj, &left);
	compact_looked(h, POOL_LOOK - left);
	return h->dst;
}

/* Copies what follows the key. */
static void copy_object(struct pool *p, struct pool_class *c,
			struct zspage *to, unsigned int to_obj,
			struct zspage *from, unsigned int from_obj, size_t bytes)
{
	size_t src = (size_t)from_obj * c->size + sizeof(u32),
	       dst = (size_t)to_obj * c->size + sizeof(u32);

	while (bytes) {
		size_t n = PAGE_SIZE - offset_in_page(src);
		size_t m = PAGE_SIZE - offset_in_page(dst);

		n = n < m ? n : m;
		n = n < bytes ? n : bytes;
		memcpy(zspage_byte(p, c, to, dst), zspage_byte(p, c, from, src), n);
		src += n;
		dst += n;
		bytes -= n;
	}
}

/*
 * The reference of an object that may be moved now, or 0.  key: its header, read once.  The
 * allocating thread may not have written the header yet, so key may be anything: swing() is called
 * only with a key for which look() named this very object.  Locations of two classes may be equal.
 */
static u64 compact_movable(struct pool *p, struct pool_class *c, u32 no, unsigned int obj, u32 key)
{
	u64 ref = p->owner.look(p->owner.ctx, key);

	if (!ref || ref_class(p, ref) != c || (ref & REF_LOC_MASK) != ref_loc(c, no, obj))
		return 0;
	return ref;
}

/*
 * Moves an object to place dst_obj of h->dst, which is free and on a page that is there.  False:
 * the owner refuses.  A zspage that is empty after the move is in h->gone: src, or dst if the owner
 * refused, and frees without the lock emptied dst meanwhile.
 */
static bool compact_move(struct pool *p, struct pool_class *c, struct compact_hold *h,
			 struct zspage *src, u32 src_no, unsigned int obj, unsigned int dst_obj)
	__must_hold(&c->lock)
{
	u32 key = READ_ONCE(*object_key(p, c, src, obj)), dst_no = h->dst_no;
	struct zspage *dst = h->dst;
	u64 from = compact_movable(p, c, src_no, obj, key), to;
	bool moved, gone;

	h->moves--;
	if (!from)
		return false;
	class_take(c, dst, dst_no, dst_obj);
	/* Once the object is published, a full dst may be freed as a whole without the lock. */
	if (!dst->list)
		h->dst = NULL;
	WRITE_ONCE(*object_key(p, c, dst, dst_obj), key);
	copy_object(p, c, dst, dst_obj, src, obj, pool_ref_size(p, from));
	to = (from & ~REF_LOC_MASK) | ref_loc(c, dst_no, dst_obj);
	host_assert(to != from && ref_is_live(p, to) &&
		    pool_ref_size(p, to) == pool_ref_size(p, from));
	moved = p->owner.swing(p->owner.ctx, key, from, to);
	if (moved)
		gone = class_put_locked(c, src, src_no, obj);
	else
		gone = class_put_locked(c, dst, dst_no, dst_obj);
	if (gone) {
		host_assert(h->ngone < POOL_MOVES);
		h->gone[h->ngone++] = (struct zspage_id){ c->group, moved ? src_no : dst_no };
		if (!moved)
			h->dst = NULL;
	}
	return moved;
}

/*
 * Stages.  Each does a part of its work, until h has no looks or moves left.
 */

static void next_stage(struct pool_class *c) __must_hold(&c->lock)
{
	c->stage = (u8)((c->stage + 1) % STAGES);
	c->cursor = 0;
	c->left = c->quota;
	c->list = 1;
}

/* Files each zspage where it belongs, from list 1 up, since it only moves to a lower list. */
static void compact_refile(struct pool_class *c, struct compact_hold *h) __must_hold(&c->lock)
{
	while (h->looks) {
		u32 no = c->cursor;
		struct zspage *z;

		if (!no && c->list < POOL_ASIDE && c->left) {
			c->cursor = c->head[c->list++];
			continue;
		}
		if (!no || !c->left) {
			next_stage(c);
			return;
		}
		z = class_at(c, no);
		c->cursor = z->next;
		class_move(c, z, no, class_list(c, zspage_inuse(z, c->words)));
		c->left--;
		compact_looked(h, 1);
	}
}

static void compact_return(struct pool_class *c, struct compact_hold *h) __must_hold(&c->lock)
{
	u32 no;

	while ((no = c->head[POOL_ASIDE]) && h->looks) {
		struct zspage *z = class_at(c, no);

		class_move(c, z, no, class_list(c, zspage_inuse(z, c->words)));
		compact_looked(h, 1);
	}
	if (!no)
		next_stage(c);
}

/* The zspage at the cursor, or the sparsest, which it puts aside; NULL: the stage is over. */
static struct zspage *compact_source(struct pool_class *c, struct compact_hold *h)
	__must_hold(&c->lock)
{
	struct zspage *z;
	u32 no;

	if (c->cursor) {
		z = class_at(c, c->cursor);
		/* list_out() would have cleared the cursor. */
		host_assert(z->list == POOL_ASIDE);
		return z;
	}
	z = c->left ? compact_sparsest(c, h, &no) : NULL;
	if (!z)
		return NULL;
	class_move(c, z, no, POOL_ASIDE);
	c->left--;
	c->cursor = no;
	c->obj = 0;
	if (h->dst == z)
		h->dst = NULL;
	return z;
}

/* Moves the objects of the sparsest zspage to others. */
static void compact_empty(struct pool *p, struct pool_class *c, struct compact_hold *h)
	__must_hold(&c->lock)
{
	struct zspage *src = compact_source(c, h);
	u32 no = c->cursor;
	unsigned int dst_obj;

	if (!src) {
		next_stage(c);
		return;
	}
	/* The move that empties src takes it off its list, and so clears the cursor. */
	while (c->cursor == no && h->moves && h->looks) {
		unsigned int obj = c->obj < c->objs ? next_used(c, src, c->obj) : c->objs;

		c->obj = (u16)(obj + 1);
		if (obj == c->objs) {
			c->cursor = 0;
		} else if ((h->dst && class_has_room(c, h->dst, &dst_obj)) ||
			   find_target(c, h, &dst_obj)) {
			compact_move(p, c, h, src, no, obj, dst_obj);
		} else {
			c->cursor = 0;
		}
	}
}

/*
 * The highest object in use, or 0.  Acquire: the pages above it may be freed and written next; the
 * last reads of objects there came before their bits were cleared.
 */
static unsigned int highest_used(const struct pool_class *c, struct zspage *z)
{
	unsigned int w = c->words;
	u64 bits = 0;

	while (!bits && w)
		bits = host_a64_read_acquire(&z->used[--w]);
	return bits ? w * 64 + 63 - (unsigned int)__builtin_clzll(bits) : 0;
}

/* Takes the pages off the end of z on which no object is in use. */
static void compact_trim(struct pool_class *c, struct zspage *z, struct compact_hold *h)
	__must_hold(&c->lock)
{
	size_t end = ((size_t)highest_used(c, z) + 1) * c->size;
	unsigned int need = (unsigned int)((end + PAGE_SIZE - 1) >> PAGE_SHIFT);

	host_assert(need && z->pages >= need);
	while (z->pages > need) {
		host_assert(h->npages < CHAIN_MAX);
		h->page[h->npages++] = zspage_pages(z, c->words)[z->pages - 1];
		WRITE_ONCE(z->pages, (u8)(z->pages - 1));
	}
}

/* Moves the last objects of a zspage to its first free places. */
static void compact_pack(struct pool *p, struct pool_class *c, struct compact_hold *h)
	__must_hold(&c->lock)
{
	struct zspage *z = compact_source(c, h);
	unsigned int ngone = h->ngone;
	u32 no = c->cursor;
	bool more = true;

	if (!z) {
		next_stage(c);
		return;
	}
	while (more && h->moves) {
		unsigned int last = highest_used(c, z), first = class_lowest_free(c, z);

		h->dst = z;
		h->dst_no = no;
		more = first < last && c->obj++ < c->objs &&
		       compact_move(p, c, h, z, no, last, first);
		if (h->ngone != ngone)
			return;
		/* With the copy z may have been full for a moment, and so be on another list. */
		class_move(c, z, no, POOL_ASIDE);
		c->cursor = no;
	}
	if (more)
		return;
	compact_trim(c, z, h);
	c->cursor = 0;
}

static void compact_class(struct pool *p, struct pool_class *c, struct compact_hold *h)
	__must_hold(&c->lock)
{
	while (c->stage != STAGE_DONE && h->looks && h->moves && !h->npages) {
		switch ((enum pool_stage)c->stage) {
		case STAGE_REFILE:
			compact_refile(c, h);
			break;
		case STAGE_EMPTY:
			compact_empty(p, c, h);
			break;
		case STAGE_PACK:
			compact_pack(p, c, h);
			break;
		default:
			compact_return(c, h);
		}
	}
}

/*
 * Turns and steps
 */

/* Begins turn at of the class, unless that or a later one was begun. */
static void compact_begin(struct pool_class *c, u64 at) __must_hold(&c->lock)
{
	if (c->turn >= at)
		return;
	c->turn = at;
	c->quota = c->partial;
	c->stage = STAGE_DONE;
	if (c->quota)
		next_stage(c);
}

/* Does what a hold left to be done; returns the pages that it freed.  No lock held. */
static u64 compact_give_back(struct pool *p, struct pool_class *c, const struct compact_hold *h)
{
	u64 pages = h->npages;
	unsigned int i;

	for (i = 0; i < h->ngone; i++)
		pages += class_at(c, h->gone[i].no)->pages;
	if (h->ngone)
		pool_reap(p, h->gone, h->ngone);
	if (h->npages) {
		pages_free(p->pages_from, h->page, h->npages);
		host_a64_add(&p->pages, (u64)0 - h->npages);
	}
	if (pages)
		host_a64_add(&p->pages_compacted, pages);
	return pages;
}

/* Whether a class has no zspage on a list, POOL_ASIDE included, or nothing to be gained. */
static bool is_idle(const struct pool_class *c)
{
	return c->objs == 1 || !READ_ONCE(c->partial);
}

static unsigned int moves_of(const struct pool_class *c)
{
	unsigned int moves = POOL_MOVE_BYTES / c->size;

	return moves > POOL_MOVES ? POOL_MOVES : moves ? moves : 1;
}

/*
 * One step of turn at, or past turns of idle classes.  try: no step if the class lock is taken.
 * Returns the pages that it freed.
 */
__no_context_analysis        /* it takes the lock or only tries to */
static u64 compact_step(struct pool *p, u64 at, bool try)
{
	struct pool_class *c = &p->class[at % p->table.nclasses];
	struct compact_hold h = { .looks = POOL_LOOK, .moves = moves_of(c) };
	u64 next = at;
	bool over;

	while (next - at < POOL_LOOK && is_idle(&p->class[next % p->table.nclasses]))
		next++;
	if (next != at) {
		host_a64_cas(&p->compact_at, &at, next);
		return 0;
	}
	if (!try)
		spin_lock(&c->lock);
	else if (!spin_trylock(&c->lock))
		return 0;
	compact_begin(c, at);
	if (c->turn == at)
		compact_class(p, c, &h);
	over = c->turn != at || c->stage == STAGE_DONE;
	spin_unlock(&c->lock);
	if (over)
		host_a64_cas(&p->compact_at, &at, at + 1);
	return compact_give_back(p, c, &h);
}

/*
 * Of a zspage: EMPTY and PACK put it aside, try each of its objects and are done with it; REFILE
 * and both RETURNs look at it.  Of the class: a step to come to it, one to leave it, and one for
 * each stage.
 */
u64 pool_compact_steps(const struct pool_class *c, u64 n)
{
	return n ? 2 + STAGES + n * (2 * (u64)c->objs + 4 + 3) : 0;
}

void pool_compact_begin(struct pool *p, struct pool_compaction *pc)
{
	u32 i;

	/* One more for the turn under way, which may have passed zspages that are there now. */
	pc->until = host_a64_read(&p->compact_at) + 1 + p->table.nclasses;
	pc->left = p->table.nclasses / POOL_LOOK + 2;
	pc->pages = 0;
	pc->try = false;
	for (i = 0; i < p->table.nclasses; i++)
		pc->left += pool_compact_steps(&p->class[i], READ_ONCE(p->class[i].partial));
}

bool pool_compact_go(struct pool *p, struct pool_compaction *pc, unsigned int steps)
{
	u64 at;

	for (; steps; steps--) {
		at = host_a64_read(&p->compact_at);
		if (at >= pc->until || !pc->left)
			return false;
		pc->left--;
		pc->pages += compact_step(p, at, pc->try);
	}
	return true;
}

u64 pool_compact_some(struct pool *p, unsigned int steps)
{
	struct pool_compaction pc = { .until = ~(u64)0, .left = steps, .try = true };

	pool_compact_go(p, &pc, steps);
	return pc.pages;
}
