/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pool_parts.h - what the files of the pool share that no other file needs: lists of a class, and
 * the pieces of an object.
 */
#ifndef EBB_CORE_POOL_PARTS_H
#define EBB_CORE_POOL_PARTS_H

#include "pool.h"

/* Left to the compiler: with "inline" it makes a free longer. */
#define PARTS static __attribute__((unused))

PARTS void list_in(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
	HOST_REQUIRES(c->lock);
PARTS void list_out(struct pool_class *c, struct zspage *z) HOST_REQUIRES(c->lock);
PARTS void list_link(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
	HOST_REQUIRES(c->lock);
PARTS void list_unlink(struct pool_class *c, struct zspage *z) HOST_REQUIRES(c->lock);
PARTS struct zspage *fullest(struct pool_class *c, u32 *no) HOST_REQUIRES(c->lock);

PARTS void list_in(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
{
	z->prev = 0;
	z->next = c->head[group];
	if (z->next)
		class_at(c, z->next)->prev = no;
	c->head[group] = no;
	c->listed |= (u16)(1u << group);
	host_write_once(z->group, (u8)group);
}

PARTS void list_out(struct pool_class *c, struct zspage *z)
{
	if (z->prev)
		class_at(c, z->prev)->next = z->next;
	else if (!(c->head[z->group] = z->next))
		c->listed &= (u16)~(1u << z->group);
	if (z->next)
		class_at(c, z->next)->prev = z->prev;
	if (host_unlikely(c->cursor) && class_at(c, c->cursor) == z)
		c->cursor = c->stage == STAGE_REFILE ? z->next : 0;
}

PARTS void list_link(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
{
	host_write_once(c->partial, c->partial + 1);
	list_in(c, z, no, group);
}

PARTS void list_unlink(struct pool_class *c, struct zspage *z)
{
	host_write_once(c->partial, c->partial - 1);
	list_out(c, z);
}

/* The fullest zspage that is not full, as far as it is known. */
PARTS struct zspage *fullest(struct pool_class *c, u32 *no)
{
	unsigned int lists, left = POOL_LOOK;
	struct zspage *z = NULL;

	/* Refiling only goes down, so the lists above stay empty. */
	while ((lists = c->listed & ~(1u << POOL_ASIDE))) {
		unsigned int highest = 31u - (unsigned int)__builtin_clz(lists);

		z = class_first(c, highest, no, &left);
		if (z)
			return z;
	}
	*no = c->head[POOL_ASIDE];
	if (*no) {
		z = class_at(c, *no);
		class_move(c, z, *no, class_group(c, zspage_inuse(z, c->words)));
	}
	return z;
}

/* Pages that must be added before object obj has all its bytes. */
static inline unsigned int pages_missing(const struct pool_class *c, const struct zspage *z,
					 unsigned int obj)
{
	unsigned int end = (unsigned int)(((size_t)obj + 1) * c->size - 1) >> HOST_PAGE_SHIFT;

	return end < z->pages ? 0 : end + 1 - z->pages;
}

/* class_lowest_free(), most of which is one step. */
static inline unsigned int lowest_free(const struct pool_class *c, struct zspage *z)
{
	u64 clear = ~host_a64_read(&z->used[0]);
	unsigned int obj;

	if (host_unlikely(!clear))
		return class_lowest_free(c, z);
	obj = (unsigned int)__builtin_ctzll(clear);
	return obj < c->objs ? obj : c->objs;
}

/*
 * Pages that the next object of the class will need, as it looks after one went into z: so the next
 * allocation takes them before it has the class lock, and has to have it only once.
 */
PARTS unsigned int likely_missing(const struct pool_class *c, struct zspage *z)
	HOST_REQUIRES(c->lock);
PARTS unsigned int likely_missing(const struct pool_class *c, struct zspage *z)
{
	unsigned int obj;

	if (!z->group)
		return !c->listed;
	if (z->pages == c->pages)
		return 0;
	obj = lowest_free(c, z);
	return obj < c->objs ? pages_missing(c, z, obj) : 0;
}

/*
 * Whoever overtakes has raised the peak himself.  After a few tries his figure will do: no write
 * waits for others to stop, and the peak may be low by what they took meanwhile.
 */
static inline void note_peak(struct pool *p, u64 pages)
{
	u64 peak = host_a64_read(&p->pages_peak);
	unsigned int i;

	for (i = 0; i < HOST_TRIES && pages > peak; i++)
		if (host_a64_cas(&p->pages_peak, &peak, pages))
			return;
}

/* Adds n pages.  Class lock held. */
static inline void grow(struct pool *p, struct pool_class *c, struct zspage *z,
			const host_page *page, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		zspage_pages(z, c->words)[z->pages + i] = page[i];
		/* The node has no page left, or z is another than the one they were taken for. */
		if (host_nr_nodes() > 1 && host_page_node(p->src, page[i]) != z->node)
			z->node = ZSPAGE_ANY_NODE;
	}
	host_write_once(z->pages, (u8)(z->pages + n));
}

static inline void write_header(struct pool *p, struct pool_class *c, struct zspage *z,
				unsigned int obj, u32 key)
{
	if (c->objs == 1)
		z->owner = key;
	else
		host_write_once(*object_key(p, c, z, obj), key);
}

/*
 * Where the size bytes of object obj of z are: piece[0], and the rest, if it spans two pages,
 * piece[1].  Returns how many lie in the first.
 */
static inline size_t object_pieces(struct pool *p, struct pool_class *c, struct zspage *z,
				   unsigned int obj, size_t size, char *piece[2])
{
	size_t off = (size_t)obj * c->size + (c->objs == 1 ? 0 : POOL_HEADER);
	size_t first = HOST_PAGE_SIZE - (off & HOST_PAGE_MASK);

	piece[0] = zspage_byte(p, c, z, off);
	if (first >= size)
		return size;
	piece[1] = zspage_byte(p, c, z, off + first);
	return first;
}

static inline void object_write(struct pool *p, struct pool_class *c, struct zspage *z,
				unsigned int obj, const void *data, size_t size)
{
	char *piece[2];
	size_t first = object_pieces(p, c, z, obj, size, piece);

	memcpy(piece[0], data, first);
	if (first < size)
		memcpy(piece[1], (const char *)data + first, size - first);
}

static inline size_t pieces(struct pool *p, u64 ref, size_t size, char *piece[2])
{
	struct pool_class *c = ref_class(p, ref);

	return object_pieces(p, c, class_at(c, ref_zspage(c, ref)), ref_obj(c, ref), size, piece);
}

#endif
