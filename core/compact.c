// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * compact.c - moves objects until a class has no more pages than it needs.
 *
 *     sparsest zspage of the class  --objects-->  fullest ones            then it is reaped
 *     what is still partial:  its last objects  --> its first free places, then its last
 *                                                   pages are given back
 *
 * An object is moved under its class's lock: look at the owner's word, copy the bytes, swing
 * the word.  What the word names is never written in place, so the copy is whole; if the word
 * changed meanwhile the swing fails and the copy is dropped.  The lock keeps the old place
 * from being freed and allocated again in between (allocation needs it), so a word that
 * compares equal is the word that was copied.
 *
 * An object that may not be moved (held by a reader, not yet published, already detached) stays;
 * its zspage is put aside for the rest of the run so that the next sparsest gets its turn.
 *
 * Lock order: pool.compacting > class lock.
 */
#include "pool.h"

static struct zspage *sparsest(struct pool *p, struct pool_class *c, u32 *no)
	HOST_REQUIRES(c->lock);
static struct zspage *target(struct pool *p, struct pool_class *c, u32 src, u32 *no,
			     unsigned int *obj) HOST_REQUIRES(c->lock);
static bool move(struct pool *p, struct pool_class *c, struct zspage *src, u32 src_no,
		 unsigned int obj, struct zspage *dst, u32 dst_no, unsigned int dst_obj, u32 *gone)
	HOST_REQUIRES(c->lock);
static u32 empty(struct pool *p, struct pool_class *c, struct zspage *src, u32 no)
	HOST_REQUIRES(c->lock);
static u32 pack(struct pool *p, struct pool_class *c, struct zspage *z, u32 no, host_page *page,
		unsigned int *n) HOST_REQUIRES(c->lock);
static void refile(struct pool *p, struct pool_class *c) HOST_REQUIRES(c->lock);

static struct zspage *at(const struct pool *p, u32 no)
{
	return zspage_at(&p->zspages, no);
}

/* The emptiest zspage on lists 1 .. 10. */
static struct zspage *sparsest(struct pool *p, struct pool_class *c, u32 *no)
{
	unsigned int group, left = POOL_LOOK;

	for (group = 1; group < POOL_GROUPS; group++) {
		struct zspage *z = class_first(p, c, group, no, &left);

		if (z)
			return z;
	}
	return NULL;
}

/* The fullest one other than src with a free object on a page that is there, among POOL_LOOK. */
static struct zspage *target(struct pool *p, struct pool_class *c, u32 src, u32 *no,
			     unsigned int *obj)
{
	unsigned int group, left = POOL_LOOK;

	for (group = POOL_GROUPS - 1; group >= 1; group--) {
		struct zspage *z = class_first(p, c, group, no, &left);

		for (; z; *no = z->next, z = *no ? at(p, *no) : NULL) {
			if (*no == src)
				continue;
			if (!left--)
				return NULL;
			*obj = class_lowest_free(c, z);
			if (((size_t)*obj + 1) * c->size <= (size_t)z->pages << HOST_PAGE_SHIFT)
				return z;
		}
	}
	return NULL;
}

/* What follows the key. */
static void copy_object(struct pool *p, struct pool_class *c, struct zspage *to, unsigned int to_obj,
			struct zspage *from, unsigned int from_obj, size_t bytes)
{
	size_t src = (size_t)from_obj * c->size + sizeof(u32), dst = (size_t)to_obj * c->size + sizeof(u32);

	while (bytes) {
		size_t n = HOST_PAGE_SIZE - (src & HOST_PAGE_MASK);
		size_t m = HOST_PAGE_SIZE - (dst & HOST_PAGE_MASK);

		n = n < m ? n : m;
		n = n < bytes ? n : bytes;
		memcpy(zspage_byte(p, to, dst), zspage_byte(p, from, src), n);
		src += n;
		dst += n;
		bytes -= n;
	}
}

/*
 * The reference of an object that may be moved now, or 0.  key is what its header said when it
 * was read, once: before the header is written that may be anything, and only a key that look()
 * found good may go to swing().
 */
static u64 movable(struct pool *p, u32 no, unsigned int obj, u32 key)
{
	u64 ref = p->owner.look(p->owner.ctx, key);

	return ref && ref_zspage(ref) == no && ref_obj(ref) == obj ? ref : 0;
}

/*
 * Moves an object to a free place on a page that is there.  False: its owner does not let it
 * go.  *gone, if not 0 after, is the zspage that is now empty and off its list: src, or (the
 * owner refused, and frees that took no lock had left it nothing else) dst.
 */
static bool move(struct pool *p, struct pool_class *c, struct zspage *src, u32 src_no,
		 unsigned int obj, struct zspage *dst, u32 dst_no, unsigned int dst_obj, u32 *gone)
{
	u32 key = host_read_once(*object_key(p, c, src, obj));
	u64 from = movable(p, src_no, obj, key), to;
	bool moved;

	if (!from)
		return false;
	class_take(p, c, dst, dst_no, dst_obj);
	host_write_once(*object_key(p, c, dst, dst_obj), key);
	copy_object(p, c, dst, dst_obj, src, obj, POOL_HEADER - sizeof(u32) + pool_ref_size(p, from));
	to = (from & ~REF_LOC_MASK) | ((u64)dst_no << REF_ZSPAGE_SHIFT) |
	     ((u64)dst_obj << REF_OBJ_SHIFT);
	moved = p->owner.swing(p->owner.ctx, key, from, to);
	if (moved ? class_put_locked(p, c, src, src_no, obj)
		  : class_put_locked(p, c, dst, dst_no, dst_obj))
		*gone = moved ? src_no : dst_no;
	return moved;
}

/* Moves what can be moved out of src, until a zspage is empty; returns that one, or 0. */
static u32 empty(struct pool *p, struct pool_class *c, struct zspage *src, u32 no)
{
	unsigned int obj, dst_obj;
	struct zspage *dst;
	u32 gone = 0, dst_no;

	for (obj = 0; obj < c->objs && !gone; obj++) {
		if (!zspage_is_used(src, obj))
			continue;
		dst = target(p, c, no, &dst_no, &dst_obj);
		if (!dst)
			break;
		move(p, c, src, no, obj, dst, dst_no, dst_obj, &gone);
	}
	return gone;
}

/*
 * Acquire: the pages above it may go to others, who write them; what was read of the objects
 * there was read before their bits were cleared.
 */
static unsigned int highest_used(const struct pool_class *c, struct zspage *z)
{
	unsigned int obj = c->objs - 1;

	while (obj && !(host_a64_read_acquire(&z->used[obj / 64]) >> (obj % 64) & 1))
		obj--;
	return obj;
}

/*
 * Moves the last objects of a zspage to its first free places, and takes the pages that this
 * leaves unused off its end: page[n].  Returns the zspage if it is empty by now.
 */
static u32 pack(struct pool *p, struct pool_class *c, struct zspage *z, u32 no, host_page *page,
		unsigned int *n)
{
	unsigned int last = highest_used(c, z), first = class_lowest_free(c, z), need;
	u32 gone = 0;

	*n = 0;
	while (first < last && move(p, c, z, no, last, z, no, first, &gone) && !gone) {
		last = highest_used(c, z);
		first = class_lowest_free(c, z);
	}
	if (gone)
		return gone;
	need = (unsigned int)((((size_t)last + 1) * c->size + HOST_PAGE_MASK) >> HOST_PAGE_SHIFT);
	while (z->pages > need) {
		page[(*n)++] = zspage_pages(z)[z->pages - 1];
		host_write_once(z->pages, (u8)(z->pages - 1));
	}
	return 0;
}

/* Files every zspage where it belongs.  Lets the lock go in between, and the cursor keeps the place. */
static void refile(struct pool *p, struct pool_class *c)
{
	unsigned int group, left = POOL_LOOK;
	u32 no;

	/* From the bottom: what is refiled goes down, so it is not met again. */
	for (group = 0; group < POOL_GROUPS; group++) {
		c->cursor = c->head[group];
		while ((no = c->cursor)) {
			struct zspage *z = at(p, no);

			c->cursor = z->next;
			class_move(p, c, z, no, class_group(c, zspage_inuse(z)));
			if (--left)
				continue;
			left = POOL_LOOK;
			host_unlock(&c->lock);
			host_resched();
			host_lock(&c->lock);
		}
	}
}

/* Gives back a zspage that is empty, or else n pages; returns how many.  No lock held. */
static unsigned int give_back(struct pool *p, u32 gone, const host_page *page, unsigned int n)
{
	if (gone) {
		/* pack() finds pages or an empty zspage, not both. */
		n = at(p, gone)->pages;
		pool_reap(p, &gone, 1);
	} else if (n) {
		pcp_free(p->pcp, page, n);
		host_a64_add(&p->pages, (u64)0 - n);
	}
	host_resched();
	return n;
}

static u64 compact_class(struct pool *p, struct pool_class *c)
{
	host_page page[CHAIN_MAX];
	struct zspage *z;
	unsigned int n = 0, round;
	u64 pages = 0;
	u32 no, gone;

	host_lock(&c->lock);
	for (round = 0; round < 2; round++) {
		refile(p, c);
		while ((z = sparsest(p, c, &no))) {
			gone = round ? pack(p, c, z, no, page, &n) : empty(p, c, z, no);
			if (!gone)
				class_move(p, c, z, no, 0);
			host_unlock(&c->lock);
			pages += give_back(p, gone, page, n);
			host_lock(&c->lock);
		}
	}
	refile(p, c);
	host_unlock(&c->lock);
	return pages;
}

u64 pool_compact(struct pool *p)
{
	u64 pages = 0;
	u32 i;

	host_mutex_lock(&p->compacting);
	for (i = 0; i < p->table.nclasses; i++)
		if (p->class[i].objs > 1)
			pages += compact_class(p, &p->class[i]);
	host_write_once(p->pages_compacted, p->pages_compacted + pages);
	host_mutex_unlock(&p->compacting);
	return pages;
}
