// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zspage.c - owns the chunks that descriptors live in, and their directories.
 *
 * Here nr is the number of a chunk, no that of a descriptor, and place a descriptor's in its chunk.
 *
 * A thread that has the number of an allocated descriptor reads the directory without a lock: the
 * chunk is there, and so are the leaf and the mid that lead to it.  The group's lock guards all
 * else.  Pages are taken and given back outside it.
 *
 * Unused chunk numbers are a stack, linked by the entries of their chunks; a fresh number is used
 * when the stack is empty.  Chunk 0 is never used, so no descriptor has number 0.
 */
#include "zspage.h"

struct chunk {
	u32 next, prev;         /* chunk numbers on the list of those with free descriptors */
	host_page page;         /* the page this is */
	u32 nr;
	u16 free;               /* descriptors that are free */
	u16 first;              /* place + 1 of the one that was freed last, or 0 */
	u16 fresh;              /* places below it were used before */
};

_Static_assert(sizeof(struct chunk) <= ZSPAGE_CHUNK_HEADER, "descriptors begin behind the header");

#define WALK_STEP 16u           /* descriptors or entries that one hold of a lock looks at */

/* The chunk of a number below fresh, or NULL. */
static struct chunk *chunk_at(struct zspage_group *g, u32 nr) __must_hold(&g->lock)
{
	size_t e = *zspage_entry(g->root, nr);

	return e & 1 ? NULL : (struct chunk *)e;
}

static struct zspage *chunk_descriptor(struct zspage_group *g, struct chunk *c, u32 place)
{
	return (struct zspage *)((char *)c + ZSPAGE_CHUNK_HEADER + place * g->map.bytes);
}

static void link_partial(struct zspage_group *g, struct chunk *c) __must_hold(&g->lock)
{
	c->prev = 0;
	c->next = g->partial;
	if (c->next)
		chunk_at(g, c->next)->prev = c->nr;
	g->partial = c->nr;
}

static void unlink_partial(struct zspage_group *g, struct chunk *c) __must_hold(&g->lock)
{
	host_assert(c->prev ? chunk_at(g, c->prev)->next == c->nr : g->partial == c->nr);
	host_assert(!c->next || chunk_at(g, c->next)->prev == c->nr);
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

struct zspage_group *zspage_group_get(struct zspage_table *t, unsigned int units,
				      unsigned int bits, struct zspage_map *map)
{
	const struct zspage_layout l = zspage_layout(PAGE_SIZE, units);
	struct zspage_group *g = t->group[units];

	if (!g) {
		g = host_zalloc(sizeof(*g));
		if (!g)
			return NULL;
		spin_lock_init(&g->lock);
		g->map = (struct zspage_map){
			.root = g->root, .bytes = units * ZSPAGE_UNIT,
			.index_mask = (1u << l.index_bits) - 1, .index_bits = (u8)l.index_bits,
		};
		g->capacity = (u16)l.capacity;
		g->limit = ZSPAGE_ROOT * ZSPAGE_MID * ZSPAGE_LEAF - ZSPAGE_FIRST;
		g->fresh = 1;
		/* Of the first mid and of its first leaf only the ends are there. */
		g->root[0] = (size_t **)((size_t)g->near -
					 (ZSPAGE_MID - ZSPAGE_NEAR) * sizeof(g->near[0]));
		g->near[0] = (size_t *)((size_t)g->few -
					(ZSPAGE_LEAF - ZSPAGE_FEW) * sizeof(g->few[0]));
		t->group[units] = g;
	}
	if (zspage_limit(l, bits) < g->limit)
		g->limit = zspage_limit(l, bits);
	*map = g->map;
	return g;
}

static void leaf_free(struct zspage_table *t, host_page page)
{
	if (!page)
		return;
	pages_free(t->pages, &page, 1);
	host_a64_add(&t->leaves, (u64)-1);
}

/* Where the page of leaf k of mid i is kept. */
static host_page *leaf_page(struct zspage_group *g, u32 i, u32 k)
{
	return i ? &((struct zspage_mid *)g->root[i])->page[k] :
		   &g->near_page[k - (ZSPAGE_MID - ZSPAGE_NEAR)];
}

static void group_destroy(struct zspage_table *t, struct zspage_group *g)
{
	u32 i, k;

	for (i = 0; i < ZSPAGE_ROOT; i++) {
		for (k = i ? 0 : ZSPAGE_MID - ZSPAGE_NEAR; g->root[i] && k < ZSPAGE_MID; k++)
			leaf_free(t, *leaf_page(g, i, k));
		leaf_free(t, g->mid_page[i]);
	}
	host_free(g, sizeof(*g));
}

void zspage_table_destroy(struct zspage_table *t)
{
	unsigned int i;

	WARN_ONCE(host_a64_read(&t->chunks) != 0, "descriptors left in a pool that ends\n");
	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++)
		if (t->group[i])
			group_destroy(t, t->group[i]);
}

/*
 * Chunks
 */

/* The mid of the fresh number; *k: its leaf there. */
static u32 fresh_mid(struct zspage_group *g, u32 *k) __must_hold(&g->lock)
{
	u32 leaf = (g->fresh + ZSPAGE_FIRST) >> ZSPAGE_LEAF_BITS;

	*k = leaf % ZSPAGE_MID;
	return leaf >> ZSPAGE_MID_BITS;
}

/* Whether the directory has an entry for the fresh number. */
static bool fresh_has_entry(struct zspage_group *g) __must_hold(&g->lock)
{
	u32 k, i = fresh_mid(g, &k);

	return g->root[i] && g->root[i][k];
}

/* Adds the mid that the fresh number lacks, or else its leaf.  No lock held.  -ENOMEM. */
__no_context_analysis
static int add_leaf(struct zspage_table *t, struct zspage_group *g, unsigned int node,
		    unsigned int how)
{
	host_page page;
	u32 i, k;
	void *at;
	int err;

	err = pages_alloc(t->pages, &page, 1, node, how);
	if (err)
		return err;
	at = host_page_addr(t->pages->src, page);
	memset(at, 0, PAGE_SIZE);

	spin_lock(&g->lock);
	i = fresh_mid(g, &k);
	/* Another thread may have added it meanwhile, or have taken the last number. */
	if (g->fresh < g->limit && !fresh_has_entry(g)) {
		if (!g->root[i]) {
			g->mid_page[i] = page;
			g->root[i] = at;
		} else {
			*leaf_page(g, i, k) = page;
			g->root[i][k] = at;
		}
		page = 0;
	}
	spin_unlock(&g->lock);
	if (page)
		pages_free(t->pages, &page, 1);
	else
		host_a64_add(&t->leaves, 1);
	return 0;
}

/* A chunk number: an unused one, or the fresh one, which has an entry. */
static u32 take_number(struct zspage_group *g) __must_hold(&g->lock)
{
	u32 nr = g->unused;

	if (nr)
		g->unused = (u32)(*zspage_entry(g->root, nr) >> 1);
	else
		nr = g->fresh++;
	return nr;
}

/*
 * Adds a chunk.  Returns 0 with the group's lock held, so that the caller has the first descriptor:
 * a chunk of which none was ever allocated would not be given back.  No lock held.  -ENOMEM,
 * -ENOSPC.
 */
__no_context_analysis
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
		spin_lock(&g->lock);
		fresh = g->fresh;
		if (g->unused || (fresh < g->limit && fresh_has_entry(g)))
			break;
		spin_unlock(&g->lock);
		err = fresh < g->limit ? add_leaf(t, g, node, how) : -ENOSPC;
		if (err) {
			pages_free(t->pages, &page, 1);
			return err;
		}
	}
	*c = (struct chunk){ .page = page, .nr = take_number(g), .free = g->capacity };
	*zspage_entry(g->root, c->nr) = (size_t)c;
	link_partial(g, c);
	host_a64_add(&t->chunks, 1);
	return 0;
}

__no_context_analysis
int zspage_new(struct zspage_table *t, struct zspage_group *g, unsigned int class,
	       unsigned int words, unsigned int node, unsigned int how, u32 *no)
{
	struct zspage *z;
	struct chunk *c;
	unsigned int i;
	u32 place;

	spin_lock(&g->lock);
	if (!g->partial) {
		int err;

		spin_unlock(&g->lock);
		err = add_chunk(t, g, node, how);
		if (err)
			return err;
	}
	c = chunk_at(g, g->partial);
	host_assert(c && c->free && c->nr == g->partial);
	if (c->first) {
		place = c->first - 1u;
		c->first = (u16)chunk_descriptor(g, c, place)->next;
	} else {
		place = c->fresh++;
	}
	if (!--c->free)
		unlink_partial(g, c);

	host_assert(place < g->capacity);
	z = chunk_descriptor(g, c, place);
	z->next = z->prev = z->owner = 0;
	z->list = z->pages = 0;
	z->node = node < ZSPAGE_ANY_NODE ? (u8)node : ZSPAGE_ANY_NODE;
	for (i = 0; i < words + (words > 1); i++)
		host_a64_set(&z->used[i], 0);
	z->class = (u8)class;
	*no = c->nr << g->map.index_bits | place;
	spin_unlock(&g->lock);
	return 0;
}

/* Frees a descriptor.  Returns its chunk if that is wholly free now, its number unused. */
static struct chunk *group_put(struct zspage_group *g, u32 no) __must_hold(&g->lock)
{
	struct chunk *c = chunk_at(g, no >> g->map.index_bits);
	u32 place = no & g->map.index_mask;
	struct zspage *z = chunk_descriptor(g, c, place);

	host_assert(place < c->fresh && z->class != ZSPAGE_NO_CLASS);
	z->class = ZSPAGE_NO_CLASS;
	z->next = c->first;
	c->first = (u16)(place + 1);
	if (!c->free++)
		link_partial(g, c);
	if (c->free != g->capacity)
		return NULL;
	unlink_partial(g, c);
	*zspage_entry(g->root, c->nr) = (size_t)g->unused << 1 | 1;
	g->unused = c->nr;
	return c;
}

__no_context_analysis        /* the lock of one group after the other */
void zspage_free(struct zspage_table *t, const struct zspage_id *id, unsigned int n)
{
	host_page page[PAGES_BATCH] __uninitialized;
	unsigned int pages = 0, i = 0;

	while (i < n) {
		struct zspage_group *g = id[i].group;
		struct chunk *c;

		spin_lock(&g->lock);
		while (i < n && id[i].group == g && pages < PAGES_BATCH) {
			c = group_put(g, id[i++].no);
			if (c)
				page[pages++] = c->page;
		}
		spin_unlock(&g->lock);
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

/* Calls fn for WALK_STEP descriptors from place *place of chunk *nr on.  False: these were all. */
static bool group_piece(struct zspage_group *g, u32 *nr, u32 *place,
			void (*fn)(struct zspage *z, void *arg), void *arg) __must_hold(&g->lock)
{
	unsigned int left;

	for (left = WALK_STEP; left && *nr < g->fresh; left--) {
		struct chunk *c = chunk_at(g, *nr);

		if (c && *place < c->fresh) {
			struct zspage *z = chunk_descriptor(g, c, (*place)++);

			if (z->class != ZSPAGE_NO_CLASS)
				fn(z, arg);
		} else {
			++*nr;
			*place = 0;
		}
	}
	return *nr < g->fresh;
}

void zspage_each(struct zspage_table *t, void (*fn)(struct zspage *z, void *arg), void *arg)
{
	unsigned int i;

	for (i = 0; i <= ZSPAGE_UNITS_MAX; i++) {
		u32 nr = 1, place = 0;
		bool more = t->group[i];

		while (more) {
			spin_lock(&t->group[i]->lock);
			more = group_piece(t->group[i], &nr, &place, fn, arg);
			spin_unlock(&t->group[i]->lock);
			cond_resched();
		}
	}
}

bool zspage_is_there(struct zspage_group *g, u32 no)
{
	u32 nr = no >> g->map.index_bits, place = no & g->map.index_mask;
	struct chunk *c = NULL;
	bool there;

	spin_lock(&g->lock);
	if (nr && nr < g->fresh)
		c = chunk_at(g, nr);
	there = c && place < c->fresh && chunk_descriptor(g, c, place)->class != ZSPAGE_NO_CLASS;
	spin_unlock(&g->lock);
	return there;
}

struct chunk_count {
	size_t page;            /* of the last descriptor */
	u64 chunks;
};

/* A chunk is a page, and its descriptors come in a row. */
static void count_chunk(struct zspage *z, void *arg)
{
	struct chunk_count *n = arg;

	n->chunks += (size_t)z / PAGE_SIZE != n->page;
	n->page = (size_t)z / PAGE_SIZE;
}

bool zspage_table_is_tidy(struct zspage_table *t)
{
	struct chunk_count n = { 0 };

	zspage_each(t, count_chunk, &n);
	return n.chunks == host_a64_read(&t->chunks);
}
