// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zspage.c - owns the chunks that descriptors live in, and their directory.
 *
 *     top -> leaf[512] -> chunk: | header | descriptor | descriptor | ... |
 *
 * The directory is read without a lock: who holds a descriptor's number holds a descriptor,
 * so its chunk is there.  Everything else is under the table lock.  Pages for chunks are
 * taken and given back outside it.
 */
#include "zspage.h"

struct chunk {
	u32 next, prev;         /* of the partial list: chunk number + 1 */
	host_page page;         /* the page this is */
	u16 units;              /* of a descriptor */
	u16 free;               /* descriptors that are free */
	u16 first;              /* unit of the first freed descriptor, 0: none */
	u16 fresh;              /* first unit that was never handed out */
};

#define CHUNK_UNITS (1u << ZSPAGE_UNIT_BITS)
#define HEADER_UNITS ((unsigned int)((sizeof(struct chunk) + ZSPAGE_UNIT - 1) / ZSPAGE_UNIT))
#define LEAF_CHUNKS (1u << ZSPAGE_LEAF_BITS)
#define CHUNKS_MAX (LEAF_CHUNKS << ZSPAGE_TOP_BITS)

static unsigned int capacity(unsigned int units)
{
	return (CHUNK_UNITS - HEADER_UNITS) / units;
}

static void **entry(const struct zspage_table *t, u32 nr)
{
	return &t->top[nr >> ZSPAGE_LEAF_BITS]->chunk[nr & (LEAF_CHUNKS - 1)];
}

static struct zspage *unit(struct chunk *c, unsigned int u)
{
	return (struct zspage *)((char *)c + u * ZSPAGE_UNIT);
}

static void link_partial(struct zspage_table *t, struct chunk *c, u32 nr)
{
	u32 *head = &t->partial[c->units];

	c->prev = 0;
	c->next = *head;
	if (*head)
		((struct chunk *)*entry(t, *head - 1))->prev = nr + 1;
	*head = nr + 1;
}

static void unlink_partial(struct zspage_table *t, struct chunk *c)
{
	if (c->prev)
		((struct chunk *)*entry(t, c->prev - 1))->next = c->next;
	else
		t->partial[c->units] = c->next;
	if (c->next)
		((struct chunk *)*entry(t, c->next - 1))->prev = c->prev;
}

int zspage_table_init(struct zspage_table *t, struct pcp *pcp)
{
	memset(t, 0, sizeof(*t));
	t->pcp = pcp;
	host_lock_init(&t->lock, "ebb_zspage_table");
	t->top = host_zalloc(sizeof(*t->top) << ZSPAGE_TOP_BITS);
	return t->top ? 0 : -ENOMEM;
}

void zspage_table_destroy(struct zspage_table *t)
{
	u32 i;

	host_warn_on(host_a64_read(&t->chunks) != 0, "descriptors left in a pool that ends");
	for (i = 0; i < 1u << ZSPAGE_TOP_BITS && t->top[i]; i++)
		host_free(t->top[i], sizeof(*t->top[i]));
	host_free(t->top, sizeof(*t->top) << ZSPAGE_TOP_BITS);
}

/*
 * The lowest free chunk number.  Leaves are filled in order, so the first NULL leaf ends the
 * directory; it is the caller's to add.  Table lock held.
 */
static u32 lowest_number(struct zspage_table *t)
{
	u32 nr;

	for (nr = t->hint; nr < CHUNKS_MAX; nr++)
		if (!t->top[nr >> ZSPAGE_LEAF_BITS] || !*entry(t, nr))
			break;
	t->hint = nr;
	return nr;
}

/*
 * Adds a chunk for descriptors of units units.  Returns 0 with the table lock held, so that the
 * caller takes the first descriptor before anybody else can: a chunk that nobody takes from
 * would never be given back.  *leaf, if not NULL, is memory to free after unlocking.  Process
 * context, no lock held.
 */
HOST_NO_ANALYSIS
static int add_chunk(struct zspage_table *t, unsigned int units, struct zspage_leaf **leaf)
{
	struct zspage_leaf **place;
	struct chunk *c;
	host_page page;
	int err;
	u32 nr;

	err = pcp_alloc(t->pcp, &page, 1);
	if (err)
		return err;
	c = host_page_addr(t->pcp->src, page);
	*c = (struct chunk){
		.page = page, .units = (u16)units, .free = (u16)capacity(units),
		.fresh = (u16)HEADER_UNITS,
	};

	for (;;) {
		host_lock(&t->lock);
		nr = lowest_number(t);
		place = &t->top[nr >> ZSPAGE_LEAF_BITS];
		if (nr == CHUNKS_MAX || *place || *leaf)
			break;
		host_unlock(&t->lock);
		*leaf = host_zalloc(sizeof(**leaf));
		if (!*leaf)
			goto no_room;
	}
	if (nr == CHUNKS_MAX) {
		host_unlock(&t->lock);
		goto no_room;
	}
	if (!*place) {
		*place = *leaf;
		*leaf = NULL;
	}
	host_write_once(*entry(t, nr), (void *)c);
	link_partial(t, c, nr);
	host_a64_add(&t->chunks, 1);
	return 0;
no_room:
	pcp_free(t->pcp, &page, 1);
	return -ENOMEM;
}

HOST_NO_ANALYSIS
int zspage_new(struct zspage_table *t, unsigned int class, unsigned int objs, unsigned int pages,
	       u32 *no)
{
	unsigned int units = zspage_units(objs, pages), words = zspage_words(objs), u, i;
	struct zspage_leaf *leaf = NULL;
	struct zspage *z;
	struct chunk *c;
	int err = 0;
	u32 nr;

	host_lock(&t->lock);
	if (!t->partial[units]) {
		host_unlock(&t->lock);
		err = add_chunk(t, units, &leaf);
		if (err)
			goto out;
	}
	nr = t->partial[units] - 1;
	c = *entry(t, nr);
	if (c->first) {
		u = c->first;
		c->first = (u16)unit(c, u)->next;
	} else {
		u = c->fresh;
		c->fresh = (u16)(c->fresh + units);
	}
	if (!--c->free)
		unlink_partial(t, c);

	z = unit(c, u);
	z->next = z->prev = z->owner = 0;
	z->group = z->pages = 0;
	z->words = (u8)words;
	for (i = 0; i < words + (words > 1); i++)
		host_a64_set(&z->used[i], 0);
	z->class = (u8)class;
	host_unlock(&t->lock);
	*no = nr << ZSPAGE_UNIT_BITS | u;
out:
	host_free(leaf, sizeof(*leaf));
	return err;
}

void zspage_free(struct zspage_table *t, const u32 *no, unsigned int n)
{
	host_page page[PCP_BATCH_MAX];
	unsigned int pages = 0, i;

	host_lock(&t->lock);
	for (i = 0; i < n; i++) {
		struct zspage *z = zspage_at(t, no[i]);
		u32 nr = no[i] >> ZSPAGE_UNIT_BITS;
		struct chunk *c = *entry(t, nr);

		z->class = ZSPAGE_NO_CLASS;
		z->next = c->first;
		c->first = (u16)(no[i] & (CHUNK_UNITS - 1));
		if (!c->free++)
			link_partial(t, c, nr);
		if (c->free == capacity(c->units)) {
			unlink_partial(t, c);
			host_write_once(*entry(t, nr), NULL);
			if (nr < t->hint)
				t->hint = nr;
			page[pages++] = c->page;
			host_a64_add(&t->chunks, (u64)-1);
		}
		if (pages == PCP_BATCH_MAX) {
			host_unlock(&t->lock);
			pcp_free(t->pcp, page, pages);
			pages = 0;
			host_lock(&t->lock);
		}
	}
	host_unlock(&t->lock);
	if (pages)
		pcp_free(t->pcp, page, pages);
}

static void each_of_chunk(struct zspage_table *t, u32 nr,
			  void (*fn)(struct zspage *z, u32 no, void *arg), void *arg)
{
	struct chunk *c = *entry(t, nr);
	unsigned int u;

	if (!c)
		return;
	for (u = HEADER_UNITS; u < c->fresh; u += c->units)
		if (unit(c, u)->class != ZSPAGE_NO_CLASS)
			fn(unit(c, u), nr << ZSPAGE_UNIT_BITS | u, arg);
}

void zspage_each(struct zspage_table *t, void (*fn)(struct zspage *z, u32 no, void *arg), void *arg)
{
	u32 leaf, i;

	for (leaf = 0; leaf < 1u << ZSPAGE_TOP_BITS; leaf++) {
		host_lock(&t->lock);
		if (!t->top[leaf]) {
			host_unlock(&t->lock);
			return;
		}
		for (i = 0; i < LEAF_CHUNKS; i++) {
			each_of_chunk(t, leaf << ZSPAGE_LEAF_BITS | i, fn, arg);
			if (i % 16 == 15) {
				host_unlock(&t->lock);
				host_resched();
				host_lock(&t->lock);
			}
		}
		host_unlock(&t->lock);
	}
}

bool zspage_table_is_tidy(struct zspage_table *t)
{
	bool tidy = true;
	u64 chunks = 0;
	u32 nr;

	host_lock(&t->lock);
	for (nr = 0; nr < CHUNKS_MAX && t->top[nr >> ZSPAGE_LEAF_BITS]; nr++) {
		struct chunk *c = *entry(t, nr);

		if (!c)
			continue;
		chunks++;
		if (c->free >= capacity(c->units))
			tidy = false;
	}
	host_unlock(&t->lock);
	return tidy && chunks == host_a64_read(&t->chunks);
}
