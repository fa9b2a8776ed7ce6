// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zspage.c - owns the chunks that descriptors live in, and their directories.
 *
 * The directory is read without a lock: who holds a descriptor's number holds a descriptor,
 * so its chunk is there, and so is the leaf that leads to it.  Everything else of a group is
 * under its lock.  Pages and arrays are taken and given back outside it.
 *
 * Chunk numbers that came back are a stack, threaded through the entries they leave; it is used
 * up before a fresh number is.  Chunk 0 is never used, so no descriptor has number 0.
 */
#include "zspage.h"

struct chunk {
	u32 next, prev;         /* of the list of those with room; numbers */
	host_page page;         /* the page this is */
	u32 nr;
	u16 free;               /* descriptors that are free */
	u16 first;              /* the first that was freed: its place + 1, 0: none */
	u16 fresh;              /* descriptors that were ever handed out */
};

_Static_assert(sizeof(struct chunk) <= ZSPAGE_CHUNK_HEADER, "descriptors begin behind the header");

/* Where a walk over a group stands. */
struct place {
	u32 nr;
	u32 index;              /* in the chunk */
};

#define LEAF_ENTRIES (1u << ZSPAGE_LEAF_BITS)
#define DIR_MIN 8u              /* leaves of the first array for leaves that are pages */
#define EACH 16u                /* descriptors, or entries, looked at in one hold of a lock */
#define COPIED 64u              /* leaves that are copied in one hold of a lock */

static size_t *group_entry(struct zspage_group *g, u32 nr) HOST_REQUIRES(g->lock);
static struct chunk *chunk_at(struct zspage_group *g, u32 nr) HOST_REQUIRES(g->lock);
static void link_partial(struct zspage_group *g, struct chunk *c) HOST_REQUIRES(g->lock);
static void unlink_partial(struct zspage_group *g, struct chunk *c) HOST_REQUIRES(g->lock);
static bool has_place(struct zspage_group *g) HOST_REQUIRES(g->lock);
static bool is_outgrown(struct zspage_group *g) HOST_REQUIRES(g->lock);
static bool copy_piece(struct zspage_group *g) HOST_REQUIRES(g->lock);
static bool take_spare(struct zspage_group *g, struct zspage_dir *d) HOST_REQUIRES(g->lock);
static u32 take_number(struct zspage_group *g) HOST_REQUIRES(g->lock);
static struct chunk *group_put(struct zspage_group *g, u32 no) HOST_REQUIRES(g->lock);
static bool group_piece(struct zspage_group *g, struct place *at,
			void (*fn)(struct zspage *z, void *arg), void *arg) HOST_REQUIRES(g->lock);
static bool tidy_piece(struct zspage_group *g, u32 *nr, u64 *chunks) HOST_REQUIRES(g->lock);

/* As in zspage_at(): an array's address comes after what is in it. */
static struct zspage_dir *dir_of(struct zspage_group *g)
{
	return (struct zspage_dir *)host_a64_read_address(&g->map.dir);
}

static size_t *group_entry(struct zspage_group *g, u32 nr)
{
	return &dir_of(g)->leaf[nr >> ZSPAGE_LEAF_BITS][nr & (LEAF_ENTRIES - 1)];
}

/* The chunk of a number below fresh, or NULL. */
static struct chunk *chunk_at(struct zspage_group *g, u32 nr)
{
	size_t e = *group_entry(g, nr);

	return e & 1 ? NULL : (struct chunk *)e;
}

static struct zspage *group_descriptor(struct zspage_group *g, struct chunk *c, u32 place)
{
	return (struct zspage *)((char *)c + ZSPAGE_CHUNK_HEADER + place * g->map.bytes);
}

static void link_partial(struct zspage_group *g, struct chunk *c)
{
	c->prev = 0;
	c->next = g->partial;
	if (c->next)
		chunk_at(g, c->next)->prev = c->nr;
	g->partial = c->nr;
}

static void unlink_partial(struct zspage_group *g, struct chunk *c)
{
	if (c->prev)
		chunk_at(g, c->prev)->next = c->next;
	else
		g->partial = c->next;
	if (c->next)
		chunk_at(g, c->next)->prev = c->prev;
}

/*
 * Groups
 */

static host_page *leaf_pages(struct zspage_dir *d)
{
	return (host_page *)&d->leaf[d->size];
}

static size_t dir_bytes(u32 size)
{
	return sizeof(struct zspage_dir) + size * (sizeof(size_t *) + sizeof(host_page));
}

static struct zspage_dir *dir_new(u32 size)
{
	struct zspage_dir *d = host_zalloc(dir_bytes(size));

	if (d)
		d->size = size;
	return d;
}

struct zspage_group *zspage_group_get(struct zspage_table *t, unsigned int units,
				      unsigned int bits, struct zspage_map *map)
{
	const struct zspage_layout l = zspage_layout(HOST_PAGE_SIZE, units);
	struct zspage_group *g = t->group[units];
	struct zspage_dir *d, *next;

	if (!g) {
		g = host_zalloc(sizeof(*g));
		d = dir_new(1);
		next = dir_new(DIR_MIN);
		if (!g || !d || !next) {
			host_free(g, sizeof(*g));
			host_free(d, dir_bytes(1));
			host_free(next, dir_bytes(DIR_MIN));
			return NULL;
		}
		g->spare = next;
		host_lock_init(&g->lock, "ebb_zspage_group");
		g->map.bytes = units * ZSPAGE_UNIT;
		g->capacity = (u16)l.capacity;
		g->map.index_bits = (u8)l.index_bits;
		g->map.index_mask = (1u << l.index_bits) - 1;
		g->limit = ~(u32)0;
		g->fresh = 1;
		d->leaf[0] = g->few;
		host_a64_set(&g->map.dir, (size_t)d);
		t->group[units] = g;
	}
	if (zspage_limit(l, bits) < g->limit)
		g->limit = zspage_limit(l, bits);
	*map = g->map;
	g->map.next = map;
	return g;
}

void zspage_table_init(struct zspage_table *t, struct pages *pages)
{
	memset(t, 0, sizeof(*t));
	t->pages = pages;
}

static void group_destroy(struct zspage_table *t, struct zspage_group *g)
{
	struct zspage_dir *d = dir_of(g), *older;
	host_page *page = leaf_pages(d);
	u32 i;

	for (i = 0; i < d->size; i++) {
		if (!page[i])
			continue;
		pages_free(t->pages, &page[i], 1);
		host_a64_add(&t->leaves, (u64)-1);
	}
	if (g->spare)
		host_free(g->spare, dir_bytes(g->spare->size));
	for (; d; d = older) {
		older = d->older;
		host_free(d, dir_bytes(d->size));
	}
	host_free(g, sizeof(*g));
}

void zspage_table_destroy(struct zspage_table *t)
{
	unsigned int i;

	host_warn_on(host_a64_read(&t->chunks) != 0, "descriptors left in a pool that ends");
	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++)
		if (t->group[i])
			group_destroy(t, t->group[i]);
}

/*
 * Chunks
 */

/* Whether the directory has an entry for the fresh number. */
static bool has_place(struct zspage_group *g)
{
	struct zspage_dir *d = dir_of(g);
	u32 i = g->fresh >> ZSPAGE_LEAF_BITS;

	if (d->size == 1)
		return g->fresh < ZSPAGE_FEW;
	return i < d->size && d->leaf[i];
}

/* Whether the fresh number has no place in the newest array, with whatever leaves. */
static bool is_outgrown(struct zspage_group *g)
{
	u32 size = dir_of(g)->size;

	return !has_place(g) && (size == 1 || g->fresh >> ZSPAGE_LEAF_BITS >= size);
}

/* d is to come after the newest array.  False: another is, or the newest is as large by now. */
static bool take_spare(struct zspage_group *g, struct zspage_dir *d)
{
	if (g->spare || d->size <= dir_of(g)->size)
		return false;
	g->copied = 0;
	host_write_once(g->spare, d);
	return true;
}

/* The next leaves of the newest array come to be in the spare.  False: it has them all. */
static bool copy_piece(struct zspage_group *g)
{
	struct zspage_dir *d = g->spare, *from = dir_of(g);
	u32 at = g->copied, n;

	if (!d || at == from->size)
		return false;
	n = from->size - at < COPIED ? from->size - at : COPIED;
	memcpy(&d->leaf[at], &from->leaf[at], n * sizeof(d->leaf[0]));
	memcpy(leaf_pages(d) + at, leaf_pages(from) + at, n * sizeof(host_page));
	g->copied = at + n;
	return g->copied < from->size;
}

/*
 * With the lock held on both sides.  Who may wait copies all there is to copy, and rests.  Who may
 * not copies a piece, and all only if the spare is needed now: so nobody waits for a copy that
 * another has begun, and there are far more calls until it is needed than there are pieces.
 */
HOST_NO_ANALYSIS
static void copy_leaves(struct zspage_group *g, unsigned int how)
{
	while (copy_piece(g) && (how & HOST_MAY_WAIT || is_outgrown(g))) {
		host_unlock(&g->lock);
		if (how & HOST_MAY_WAIT)
			host_resched();
		host_lock(&g->lock);
	}
}

static void set_leaf(struct zspage_dir *d, u32 i, size_t *leaf, host_page page)
{
	d->leaf[i] = leaf;
	leaf_pages(d)[i] = page;
}

/*
 * Puts the spare, which has all that the newest array has, in its place.  Whoever looks up a number
 * meanwhile finds it in the old array or, by the full barrier, in the new one.  Numbers that only
 * the new one has are handed out after all maps lead to it.
 */
HOST_NO_ANALYSIS
static void publish_spare(struct zspage_group *g, host_page *page, size_t *leaf)
{
	struct zspage_dir *old = dir_of(g), *d = g->spare;
	struct zspage_map *m;
	u64 was = (size_t)old;

	if (old->size == 1) {
		memcpy(leaf, g->few, sizeof(g->few));
		set_leaf(d, 0, leaf, *page);
		*page = 0;
	}
	d->older = old;
	for (m = &g->map; m; m = m->next)
		host_a64_cas(&m->dir, &was, (size_t)d);
	host_write_once(g->spare, NULL);
}

/*
 * Brings an entry for the fresh number nearer by a leaf, a larger array, or both.  A leaf is a page
 * of the lists, or the reserve; an array is not, so the next one is there before it is needed.  The
 * first is made with the group, and each later one by who first adds a leaf and may wait, or by
 * zspage_table_provide(): want of memory for it fails nothing until as many leaves were added as
 * there were before.  No lock held.  -ENOMEM.
 */
HOST_NO_ANALYSIS
static int add_leaf(struct zspage_table *t, struct zspage_group *g, unsigned int node,
		    unsigned int how)
{
	struct zspage_dir *d = NULL;
	bool nearer = false;
	host_page page;
	size_t *leaf;
	u32 i, size;
	int err;

	err = pages_alloc(t->pages, &page, 1, node, how);
	if (err)
		return err;
	leaf = host_page_addr(t->pages->src, page);
	memset(leaf, 0, HOST_PAGE_SIZE);
	size = dir_of(g)->size;
	if (how & HOST_MAY_WAIT && !host_read_once(g->spare))
		d = dir_new(size == 1 ? DIR_MIN : 2 * size);

	host_lock(&g->lock);
	if (d && take_spare(g, d))
		d = NULL;
	copy_leaves(g, how);
	if (is_outgrown(g) && g->spare) {
		publish_spare(g, &page, leaf);
		nearer = true;
	}
	size = dir_of(g)->size;
	i = g->fresh >> ZSPAGE_LEAF_BITS;
	if (page && !has_place(g) && size > 1 && i < size) {
		set_leaf(dir_of(g), i, leaf, page);
		/* The array after it may have been copied already. */
		if (g->spare)
			set_leaf(g->spare, i, leaf, page);
		page = 0;
	}
	err = nearer || has_place(g) ? 0 : -ENOMEM;
	host_unlock(&g->lock);
	if (page)
		pages_free(t->pages, &page, 1);
	else
		host_a64_add(&t->leaves, 1);
	if (d)
		host_free(d, dir_bytes(d->size));
	return err;
}

/* Whether an array of g's that is full would have none after it, so that who may not wait fails. */
static bool lacks_spare(struct zspage_group *g)
{
	return !host_read_once(g->spare) && (u64)dir_of(g)->size * LEAF_ENTRIES < g->limit;
}

bool zspage_table_wants(struct zspage_table *t)
{
	unsigned int i;

	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++)
		if (t->group[i] && lacks_spare(t->group[i]))
			return true;
	return false;
}

HOST_NO_ANALYSIS
static bool group_provide(struct zspage_group *g)
{
	struct zspage_dir *d = dir_new(2 * dir_of(g)->size);

	if (!d)
		return false;
	host_lock(&g->lock);
	if (take_spare(g, d))
		d = NULL;
	copy_leaves(g, HOST_MAY_WAIT);
	host_unlock(&g->lock);
	if (d)
		host_free(d, dir_bytes(d->size));
	return true;
}

bool zspage_table_provide(struct zspage_table *t)
{
	bool all = true;
	unsigned int i;

	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++)
		if (t->group[i] && lacks_spare(t->group[i]))
			all &= group_provide(t->group[i]);
	return all;
}

/* A chunk number; there is one. */
static u32 take_number(struct zspage_group *g)
{
	u32 nr = g->unused;

	if (nr)
		g->unused = (u32)(*group_entry(g, nr) >> 1);
	else
		nr = g->fresh++;
	return nr;
}

/*
 * Adds a chunk.  Returns 0 with the group's lock held, so that the caller takes the first
 * descriptor before anybody else can: a chunk that nobody takes from would never be given back.
 * No lock held.
 */
HOST_NO_ANALYSIS
static int add_chunk(struct zspage_table *t, struct zspage_group *g, unsigned int node,
		     unsigned int how)
{
	struct chunk *c;
	host_page page;
	u32 fresh;
	int err;

	err = pages_alloc(t->pages, &page, 1, node, how);
	if (err)
		return err;
	c = host_page_addr(t->pages->src, page);

	for (;;) {
		host_lock(&g->lock);
		fresh = g->fresh;
		if (g->unused || (fresh < g->limit && has_place(g)))
			break;
		host_unlock(&g->lock);
		err = fresh < g->limit ? add_leaf(t, g, node, how) : -ENOSPC;
		if (err) {
			pages_free(t->pages, &page, 1);
			return err;
		}
	}
	*c = (struct chunk){ .page = page, .nr = take_number(g), .free = g->capacity };
	*group_entry(g, c->nr) = (size_t)c;
	link_partial(g, c);
	host_a64_add(&t->chunks, 1);
	return 0;
}

HOST_NO_ANALYSIS
int zspage_new(struct zspage_table *t, struct zspage_group *g, unsigned int class,
	       unsigned int words, unsigned int node, unsigned int how, u32 *no)
{
	struct zspage *z;
	struct chunk *c;
	unsigned int i;
	u32 place;

	host_lock(&g->lock);
	if (!g->partial) {
		int err;

		host_unlock(&g->lock);
		err = add_chunk(t, g, node, how);
		if (err)
			return err;
	}
	c = chunk_at(g, g->partial);
	if (c->first) {
		place = c->first - 1u;
		c->first = (u16)group_descriptor(g, c, place)->next;
	} else {
		place = c->fresh++;
	}
	if (!--c->free)
		unlink_partial(g, c);

	z = group_descriptor(g, c, place);
	z->next = z->prev = z->owner = 0;
	z->group = z->pages = 0;
	z->node = zspage_node_byte(node);
	for (i = 0; i < words + (words > 1); i++)
		host_a64_set(&z->used[i], 0);
	z->class = (u8)class;
	*no = c->nr << g->map.index_bits | place;
	host_unlock(&g->lock);
	return 0;
}

/* Returns the descriptor's chunk if it is wholly free now, with its number free, too. */
static struct chunk *group_put(struct zspage_group *g, u32 no)
{
	struct chunk *c = chunk_at(g, no >> g->map.index_bits);
	u32 place = no & g->map.index_mask;
	struct zspage *z = group_descriptor(g, c, place);

	z->class = ZSPAGE_NO_CLASS;
	z->next = c->first;
	c->first = (u16)(place + 1);
	if (!c->free++)
		link_partial(g, c);
	if (c->free != g->capacity)
		return NULL;
	unlink_partial(g, c);
	*group_entry(g, c->nr) = (size_t)g->unused << 1 | 1;
	g->unused = c->nr;
	return c;
}

HOST_NO_ANALYSIS        /* the lock of one group after the other */
void zspage_free(struct zspage_table *t, const struct zspage_id *id, unsigned int n)
{
	host_page page[PAGES_BATCH] HOST_UNCLEARED;
	unsigned int pages = 0, i = 0;

	while (i < n) {
		struct zspage_group *g = id[i].group;
		struct chunk *c;

		host_lock(&g->lock);
		while (i < n && id[i].group == g && pages < PAGES_BATCH) {
			c = group_put(g, id[i++].no);
			if (c)
				page[pages++] = c->page;
		}
		host_unlock(&g->lock);
		if (pages && (pages == PAGES_BATCH || i == n)) {
			host_a64_add(&t->chunks, (u64)0 - pages);
			pages_free(t->pages, page, pages);
			pages = 0;
		}
	}
}

/*
 * All of a group, piece by piece
 */

/* EACH descriptors or entries from *at on; false: there are no more. */
static bool group_piece(struct zspage_group *g, struct place *at,
			void (*fn)(struct zspage *z, void *arg), void *arg)
{
	unsigned int left;

	for (left = EACH; left && at->nr < g->fresh; left--) {
		struct chunk *c = chunk_at(g, at->nr);

		if (c && at->index < c->fresh) {
			struct zspage *z = group_descriptor(g, c, at->index++);

			if (z->class != ZSPAGE_NO_CLASS)
				fn(z, arg);
		} else {
			at->nr++;
			at->index = 0;
		}
	}
	return at->nr < g->fresh;
}

void zspage_each(struct zspage_table *t, void (*fn)(struct zspage *z, void *arg), void *arg)
{
	unsigned int i;

	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++) {
		struct place at = { 1, 0 };
		bool more = t->group[i];

		while (more) {
			host_lock(&t->group[i]->lock);
			more = group_piece(t->group[i], &at, fn, arg);
			host_unlock(&t->group[i]->lock);
			host_resched();
		}
	}
}

/* EACH entries from *nr on. */
static bool tidy_piece(struct zspage_group *g, u32 *nr, u64 *chunks)
{
	unsigned int left;

	for (left = EACH; left && *nr < g->fresh; left--, ++*nr) {
		struct chunk *c = chunk_at(g, *nr);

		if (c && (c->nr != *nr || c->free >= g->capacity))
			return false;
		*chunks += !!c;
	}
	return true;
}

struct zspage *zspage_find(struct zspage_group *g, u32 no)
{
	u32 nr = no >> g->map.index_bits, place = no & g->map.index_mask;
	struct chunk *c = NULL;

	if (nr && nr < g->fresh)
		c = chunk_at(g, nr);
	if (!c || place >= c->fresh || group_descriptor(g, c, place)->class == ZSPAGE_NO_CLASS)
		return NULL;
	return group_descriptor(g, c, place);
}

bool zspage_is_there(struct zspage_group *g, u32 no)
{
	bool there;

	host_lock(&g->lock);
	there = zspage_find(g, no);
	host_unlock(&g->lock);
	return there;
}

bool zspage_table_is_tidy(struct zspage_table *t)
{
	bool tidy = true;
	u64 chunks = 0;
	unsigned int i;
	u32 nr;

	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++) {
		struct zspage_group *g = t->group[i];

		for (nr = 1; g && tidy && nr < g->fresh; ) {
			host_lock(&g->lock);
			tidy = tidy_piece(g, &nr, &chunks);
			host_unlock(&g->lock);
			host_resched();
		}
	}
	return tidy && chunks == host_a64_read(&t->chunks);
}
