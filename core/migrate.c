// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * migrate.c - pins zspages and moves their pages; see migrate.h.
 *
 * A pinned zspage is on no list, so the links of its descriptor are free: next counts pins, prev
 * says that a page of it moves.  Both are under the class lock, and list_in() sets them anew.
 *
 *     begin      class lock: which page of the zspage it is; no other page of it moves
 *     freeze     each object on the page: its cell has no reader, then seven
 *     copy
 *     repoint    class lock, holds' lock: nobody has come as an eighth reader; the descriptor names
 *                the new page
 *     thaw       each of them: seven readers less; one that was freed meanwhile is disposed of
 *     end        class lock
 *
 * Who may find an object of the page is known from its header, by the key, and back from its cell:
 * whoever has had the class lock after an allocation finds its header written and its cell set
 * (struct pool_birth).  An object in use that its cell does not name was detached, and nobody looks
 * at its bytes any more, but readers that came before the free.  They have CELL_FREED in the cell.
 */
#include "migrate.h"
#include "cell_word.h"
#include "hold_record.h"

/* What a mover does: begin() fills it. */
struct mover {
	struct cells *s;
	struct pool_class *c;
	struct zspage *z;
	u32 no;
	unsigned int page;              /* of page[] */
	unsigned int first, end;        /* objects with bytes on the page */
};

static void off_lists(struct pool_class *c, struct zspage *z) HOST_REQUIRES(c->lock);
static bool back_on_lists(struct pool_class *c, struct zspage *z, u32 no) HOST_REQUIRES(c->lock);

/* ---- pins ---- */

static struct pool_class *class_of(struct cells *s, u64 tag)
{
	return &s->pool.class[tag >> 32];
}

/* The place of page in page[], or z->pages.  Class lock held. */
static unsigned int place_of(const struct pool_class *c, struct zspage *z, host_page page)
{
	unsigned int i;

	for (i = 0; i < z->pages && zspage_pages(z, c->words)[i] != page; i++)
		;
	return i;
}

/*
 * Sets the bit of a pin, unless the zspage is empty: then it is its last free's.  Returns the state
 * that it found.
 */
static u64 set_pin(struct zspage *z, unsigned int words, u64 pin)
{
	host_a64 *state = zspage_state(z, words);
	u64 old = host_a64_read(state);

	/* Only frees come in between, and there are as many as it has objects. */
	while (old && !host_a64_cas(state, &old, old | pin))
		;
	return old;
}

static void off_lists(struct pool_class *c, struct zspage *z)
{
	if (z->group)
		list_unlink(c, z);
	host_write_once(z->group, (u8)0);
	z->next = z->prev = 0;
}

/* Ends the last pin; true: the zspage is empty, and the caller's to reap. */
static bool back_on_lists(struct pool_class *c, struct zspage *z, u32 no)
{
	u64 pin = class_pin(c), left = host_a64_and(zspage_state(z, c->words), ~pin) & ~pin;

	/* A full one may be freed as a whole without the lock, from now on. */
	if (left && left != c->full)
		list_link(c, z, no, class_group(c, zspage_inuse(z, c->words)));
	return !left;
}

HOST_NO_ANALYSIS
int cells_pin(struct cells *s, host_page page, u64 tag)
{
	struct pool_class *c = class_of(s, tag);
	u64 was = 0, pin = class_pin(c);
	struct zspage *z;

	host_lock(&c->lock);
	/* No descriptor goes under it, so this one is there until its state is what it is to be. */
	host_lock(&c->group->lock);
	z = zspage_find(c->group, (u32)tag);
	if (z && z->class == c->place && place_of(c, z, page) < z->pages)
		was = set_pin(z, c->words, pin);
	host_unlock(&c->group->lock);
	if (was && !(was & pin))
		off_lists(c, z);
	if (was)
		z->next++;
	host_unlock(&c->lock);
	return was ? 0 : -EAGAIN;
}

HOST_NO_ANALYSIS
void cells_unpin(struct cells *s, u64 tag)
{
	struct pool_class *c = class_of(s, tag);
	struct zspage *z = class_at(c, (u32)tag);
	bool empty = false;

	host_lock(&c->lock);
	if (!--z->next)
		empty = back_on_lists(c, z, (u32)tag);
	host_unlock(&c->lock);
	if (empty)
		pool_reap(&s->pool, &(struct zspage_id){ c->group, (u32)tag }, 1);
}

/* ---- moves ---- */

/* The cell by which object obj is to be found; NULL: none. */
static host_a64 *cell_of(const struct mover *m, unsigned int obj)
{
	u32 key = m->c->objs == 1 ? m->z->owner :
				    host_read_once(*object_key(&m->s->pool, m->c, m->z, obj));

	return cells_at(m->s, key);
}

/* Whether a word is of this object, named or freed while it was read. */
static bool is_of(const struct mover *m, unsigned int obj, u64 word)
{
	u64 ref = slot_ref(word);

	if (!slot_has_object(word) && !(word & CELL_FREED))
		return false;
	return ref_class(&m->s->pool, ref) == m->c &&
	       (ref & REF_LOC_MASK) == ref_loc(m->c, m->no, obj);
}

/*
 * Whether an object is in use.  Acquire, here and where a cell is looked at: the page goes to
 * others, who write it, and what was read of an object that is free by now was read before.
 */
static bool is_used(const struct mover *m, unsigned int obj)
{
	return host_a64_read_acquire(&m->z->used[obj / 64]) >> (obj % 64) & 1;
}

/* Takes all readers' places of an object, if it has a cell.  False: somebody has one. */
static bool freeze(const struct mover *m, unsigned int obj)
{
	host_a64 *cell = is_used(m, obj) ? cell_of(m, obj) : NULL;
	unsigned int i;
	u64 word;

	if (!cell)
		return true;
	word = host_a64_read_acquire(cell);
	for (i = 0; i < HOST_TRIES && is_of(m, obj, word); i++) {
		if (word & (SLOT_MARKS | CELL_FREED))
			return false;
		if (host_a64_cas(cell, &word, word | SLOT_READERS))
			return true;
	}
	return !is_of(m, obj, word);
}

/* Gives the places back.  True: the object was freed, and the caller was the last who had one. */
static bool give_places(struct holds *h, host_a64 *cell, u64 ref)
{
	const s64 all = (s64)(SLOT_READERS / SLOT_READER);
	bool last = false;
	u64 word;
	s64 n;

	host_lock(&h->lock);
	word = host_a64_read(cell);
	n = recorded(h, ref);
	/* What fits goes from the record to the word; if a free takes that first, to the record. */
	if (slot_names(word, ref) && n < all &&
	    host_a64_cas(cell, &word, (word & ~SLOT_READERS) | (u64)n * SLOT_READER))
		record(h, ref, -n, false);
	else
		last = record(h, ref, -all, false);
	host_unlock(&h->lock);
	return last;
}

static void thaw(const struct mover *m, unsigned int obj)
{
	host_a64 *cell = is_used(m, obj) ? cell_of(m, obj) : NULL;
	u64 word = cell ? host_a64_read(cell) : 0;

	if (is_of(m, obj, word) && give_places(&m->s->holds, cell, slot_ref(word)))
		cells_dispose(m->s, cell, slot_ref(word));
}

/* False: the page is not of the zspage any more, or another page of it moves. */
HOST_NO_ANALYSIS
static bool begin(struct mover *m, host_page from)
{
	size_t at;
	bool done;

	host_lock(&m->c->lock);
	m->page = place_of(m->c, m->z, from);
	done = m->page < m->z->pages && !m->z->prev;
	if (done)
		m->z->prev = 1;
	host_unlock(&m->c->lock);
	at = (size_t)m->page << HOST_PAGE_SHIFT;
	m->first = (unsigned int)(at / m->c->size);
	m->end = (unsigned int)((at + HOST_PAGE_MASK) / m->c->size) + 1;
	if (m->end > m->c->objs)
		m->end = m->c->objs;
	return done;
}

/* Holds, of any object, for which a word had no room. */
HOST_NO_ANALYSIS
static u64 eighths(struct holds *h)
{
	u64 n;

	host_lock(&h->lock);
	n = h->eighths;
	host_unlock(&h->lock);
	return n;
}

/*
 * Puts page to in the place of the one that moves, if nobody came to read or write since n was what
 * eighths() says.  Who wrote and went is no reader any more, but the copy may be of before.
 */
HOST_NO_ANALYSIS
static bool repoint(struct mover *m, host_page to, u64 n)
{
	struct holds *h = &m->s->holds;
	bool done;

	host_lock(&m->c->lock);
	host_lock(&h->lock);
	done = h->eighths == n;
	if (done)
		zspage_pages(m->z, m->c->words)[m->page] = to;
	host_unlock(&h->lock);
	if (done && host_nr_nodes() > 1 && host_page_node(m->s->pool.src, to) != m->z->node)
		m->z->node = ZSPAGE_ANY_NODE;
	host_unlock(&m->c->lock);
	return done;
}

HOST_NO_ANALYSIS
static void end(struct mover *m)
{
	host_lock(&m->c->lock);
	m->z->prev = 0;
	host_unlock(&m->c->lock);
}

static int move(struct mover *m, u64 tag, host_page from, host_page to)
{
	struct host_pages *src = m->s->pool.src;
	unsigned int obj, frozen;
	bool done;
	u64 n;

	if (!begin(m, from))
		return -EAGAIN;
	n = eighths(&m->s->holds);
	for (frozen = m->first; frozen < m->end && freeze(m, frozen); frozen++)
		;
	done = frozen == m->end;
	if (done) {
		host_copy_racing(host_page_addr(src, to), host_page_addr(src, from),
				 HOST_PAGE_SIZE);
		m->s->cfg.tag(m->s->cfg.ctx, to, tag);
		done = repoint(m, to, n);
	}
	for (obj = m->first; obj < frozen; obj++)
		thaw(m, obj);
	end(m);
	return done ? 0 : -EBUSY;
}

int cells_move(struct cells *s, u64 tag, host_page from, host_page to)
{
	struct pool_class *c = class_of(s, tag);
	struct mover m = { .s = s, .c = c, .z = class_at(c, (u32)tag), .no = (u32)tag };
	int err = -EAGAIN;

	if (host_a64_add(&s->moves, 1) <= CELLS_MOVES)
		err = move(&m, tag, from, to);
	host_a64_add(&s->moves, (u64)-1);
	return err;
}
