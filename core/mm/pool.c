// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pool.c - owns the classes: which zspages have room, and how an object comes and goes.
 *
 *     class --head[1..10]--> partial zspages, by in-use ratio; head[11]: put aside (compact.c)
 *     full zspages are on no list; empty ones do not exist
 *
 * Which objects of a zspage are in use (zspage.h: a bit each, and a count where there are more
 * than 64) is changed by atomic read-modify-writes alone, and these changes are made with the
 * class lock held:
 *
 *     any allocation;  full -> partial (it is filed);  partial -> empty (it is taken off)
 *
 * All other frees, partial -> less and full -> empty in one step, take no lock: the first leaves
 * the lists as they are, the second has the zspage to itself, since nothing but a list leads to it
 * and it is on none.  Who changes what is in use so that the zspage belongs on another list, or on
 * none, does both under one lock; so a free that took no lock never touches the descriptor again.
 *
 * Frees without the lock leave a zspage filed higher than it is.  Whoever walks a list puts
 * that right (class_first), so allocation still finds the fullest:  filed >= true group.  After
 * many such frees it puts POOL_LOOK right and takes the next as it is, so that no hold of the
 * lock grows with the pool.
 *
 * Lock order: class lock > nothing.  Descriptors and pages are taken and given back outside.
 */
#include "pool.h"

static void list_in(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
	HOST_REQUIRES(c->lock);
static void list_out(struct pool_class *c, struct zspage *z) HOST_REQUIRES(c->lock);
static void list_link(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
	HOST_REQUIRES(c->lock);
static void list_unlink(struct pool_class *c, struct zspage *z) HOST_REQUIRES(c->lock);
static struct zspage *pool_fullest(struct pool_class *c, u32 *no) HOST_REQUIRES(c->lock);
static unsigned int pool_likely_missing(const struct pool_class *c, struct zspage *z)
	HOST_REQUIRES(c->lock);

static int class_init(struct pool *p, struct pool_class *c, unsigned int place)
{
	const struct size_class *sc = &p->table.class[place];

	host_lock_init(&c->lock, "ebb_class");
	c->size = sc->size;
	c->objs = sc->objs;
	c->pages = sc->pages;
	c->place = (u8)place;
	c->words = (u8)zspage_words(sc->objs);
	if (c->words > 1)
		c->full = c->objs;
	else
		c->full = ~(u64)0 >> (64 - c->objs);
	c->needs = 1;
	c->obj_bits = (u8)class_obj_bits(sc->objs);
	c->obj_mask = (u16)((1u << c->obj_bits) - 1);
	c->no_shift = (u8)(64 - REF_CLASS_SHIFT + REF_SLACK_BITS + c->obj_bits);
	c->word_shift = (u8)(REF_SLACK_BITS + (c->obj_bits < 6 ? c->obj_bits : 6));
	c->group = zspage_group_get(&p->zspages, zspage_units_of(c->words, sc->pages),
				    REF_LOC_BITS - c->obj_bits, &c->map);
	return c->group ? 0 : -ENOMEM;
}

int pool_init(struct pool *p, struct pages *pages, unsigned int chain,
	      const struct pool_owner *owner)
{
	unsigned int i;
	int err;

	memset(p, 0, sizeof(*p));
	p->pages_from = pages;
	p->src = pages->src;
	p->owner = *owner;
	err = class_table_init(&p->table, HOST_PAGE_SIZE, chain, class_pool_rule(HOST_PAGE_SIZE));
	if (err)
		return err;
	p->class = host_zalloc(p->table.nclasses * sizeof(*p->class));
	if (!p->class)
		return -ENOMEM;
	zspage_table_init(&p->zspages, pages);
	for (i = 0; i < p->table.nclasses && !err; i++)
		err = class_init(p, &p->class[i], i);
	if (err) {
		zspage_table_destroy(&p->zspages);
		host_free(p->class, p->table.nclasses * sizeof(*p->class));
		return err;
	}
	host_a64_set(&p->compact_at, p->table.nclasses);
	return 0;
}

void pool_destroy(struct pool *p)
{
	host_warn_on(host_a64_read(&p->pages) != 0, "objects left in a pool that ends");
	zspage_table_destroy(&p->zspages);
	host_free(p->class, p->table.nclasses * sizeof(*p->class));
}

/*
 * Lists
 */

static void list_in(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
{
	z->prev = 0;
	z->next = c->head[group];
	if (z->next)
		class_at(c, z->next)->prev = no;
	c->head[group] = no;
	c->listed |= (u16)(1u << group);
	host_write_once(z->group, (u8)group);
}

static void list_out(struct pool_class *c, struct zspage *z)
{
	host_assert(class_at(c, z->prev ? class_at(c, z->prev)->next : c->head[z->group]) == z);
	host_assert(!z->next || class_at(c, class_at(c, z->next)->prev) == z);
	if (z->prev)
		class_at(c, z->prev)->next = z->next;
	else if (!(c->head[z->group] = z->next))
		c->listed &= (u16)~(1u << z->group);
	if (z->next)
		class_at(c, z->next)->prev = z->prev;
	if (host_unlikely(c->cursor) && class_at(c, c->cursor) == z)
		c->cursor = c->stage == STAGE_REFILE ? z->next : 0;
}

static void list_link(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
{
	host_assert(!z->group && z->class == c->place);
	host_write_once(c->partial, c->partial + 1);
	list_in(c, z, no, group);
}

static void list_unlink(struct pool_class *c, struct zspage *z)
{
	host_assert(z->group && z->class == c->place && c->partial);
	host_write_once(c->partial, c->partial - 1);
	list_out(c, z);
}

void class_move(struct pool_class *c, struct zspage *z, u32 no, unsigned int group)
{
	if (z->group != group) {
		list_out(c, z);
		list_in(c, z, no, group);
	}
}

struct zspage *class_first(struct pool_class *c, unsigned int group, u32 *no, unsigned int *left)
{
	while (c->head[group]) {
		struct zspage *z = class_at(c, c->head[group]);
		unsigned int inuse = zspage_inuse(z, c->words);

		if (!class_below(c, inuse, group) || !*left) {
			*no = c->head[group];
			return z;
		}
		--*left;
		class_move(c, z, c->head[group], class_group(c, inuse));
	}
	return NULL;
}

unsigned int class_lowest_free(const struct pool_class *c, struct zspage *z)
{
	unsigned int w;

	for (w = 0; w < c->words; w++) {
		u64 clear = ~host_a64_read(&z->used[w]);

		if (clear) {
			unsigned int obj = w * 64 + (unsigned int)__builtin_ctzll(clear);

			return obj < c->objs ? obj : c->objs;
		}
	}
	return c->objs;
}

/*
 * Where an object is
 */

/*
 * Where the size bytes of object obj of z are: piece[0], and the rest, if it spans two pages,
 * piece[1].  Returns how many lie in the first.
 */
static inline size_t object_pieces(struct pool *p, struct pool_class *c, struct zspage *z,
				   unsigned int obj, size_t size, char *piece[2])
{
	size_t off = (size_t)obj * c->size + (c->objs == 1 ? 0 : POOL_HEADER);
	size_t first = HOST_PAGE_SIZE - (off & HOST_PAGE_MASK);

	host_assert(z->class == c->place && zspage_is_used(z, obj));
	host_assert(off + size <= ((size_t)obj + 1) * c->size);
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

static inline size_t pool_pieces(struct pool *p, u64 ref, size_t size, char *piece[2])
{
	struct pool_class *c = ref_class(p, ref);

	return object_pieces(p, c, class_at(c, ref_zspage(c, ref)), ref_obj(c, ref), size, piece);
}

/*
 * Allocation
 */

void class_take(struct pool_class *c, struct zspage *z, u32 no, unsigned int obj)
{
	u64 bit = (u64)1 << (obj % 64), state;
	unsigned int inuse;

	host_assert(obj < c->objs && !zspage_is_used(z, obj) && z->class == c->place);
	host_assert(((size_t)obj + 1) * c->size <= (size_t)z->pages << HOST_PAGE_SHIFT);
	/* Those in use are not all: a full one is on no list, and has nothing to take. */
	host_assert(zspage_inuse(z, c->words) < c->objs);
	if (c->words > 1) {
		host_a64_or(&z->used[obj / 64], bit);
		state = host_a64_add(&z->used[c->words], 1);
	} else {
		state = host_a64_or(&z->used[0], bit) | bit;
	}
	if (state == c->full) {
		if (z->group)
			list_unlink(c, z);
		host_write_once(z->group, (u8)0);
		return;
	}
	inuse = zspage_inuse_of(state, c->words);
	if (!z->group)
		list_link(c, z, no, class_group(c, inuse));
	else if (!class_below(c, inuse, z->group + 1u))
		class_move(c, z, no, class_group(c, inuse));
}

/* The fullest zspage that is not full, as far as it is known. */
static struct zspage *pool_fullest(struct pool_class *c, u32 *no)
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
static inline unsigned int pool_lowest_free(const struct pool_class *c, struct zspage *z)
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
static unsigned int pool_likely_missing(const struct pool_class *c, struct zspage *z)
{
	unsigned int obj;

	if (!z->group)
		return !c->listed;
	if (z->pages == c->pages)
		return 0;
	obj = pool_lowest_free(c, z);
	return obj < c->objs ? pages_missing(c, z, obj) : 0;
}

/* Whoever overtakes has raised the peak himself. */
static inline void pool_note_peak(struct pool *p, u64 pages)
{
	u64 peak = host_a64_read(&p->pages_peak);

	while (pages > peak && !host_a64_cas(&p->pages_peak, &peak, pages))
		;
}

/* Adds n pages.  Class lock held. */
static inline void pool_grow(struct pool *p, struct pool_class *c, struct zspage *z,
			     const host_page *page, unsigned int n)
{
	unsigned int i;

	host_assert(z->pages + n <= c->pages);
	for (i = 0; i < n; i++) {
		zspage_pages(z, c->words)[z->pages + i] = page[i];
		/* The node has no page left, or z is another than the one they were taken for. */
		if (host_nr_nodes() > 1 && host_page_node(p->src, page[i]) != z->node)
			z->node = ZSPAGE_ANY_NODE;
	}
	host_write_once(z->pages, (u8)(z->pages + n));
}

/* Counts n more pages; returns all.  0: they would pass the limit, if that holds. */
static inline u64 count_pages(struct pool *p, unsigned int n, unsigned int how)
{
	u64 limit = how & POOL_LIMITED ? host_read_once(p->limit) : 0, was;

	if (host_likely(!limit))
		return host_a64_add(&p->pages, n);
	was = host_a64_read(&p->pages);
	do {
		if ((was + n) << HOST_PAGE_SHIFT > limit)
			return 0;
	} while (!host_a64_cas(&p->pages, &was, was + n));
	return was + n;
}

static inline void write_header(struct pool *p, struct pool_class *c, struct zspage *z,
				unsigned int obj, u32 key)
{
	if (c->objs == 1)
		z->owner = key;
	else
		host_write_once(*object_key(p, c, z, obj), key);
}

void pool_reset_peak(struct pool *p)
{
	/* Full barriers on both sides: this sees the pages of whoever does not see the 0. */
	host_a64_and(&p->pages_peak, 0);
	pool_note_peak(p, host_a64_read(&p->pages));
}

int pool_make(struct pool *p, size_t size, const void *data, u32 key, unsigned int node,
	      unsigned int how, u64 *ref)
{
	size_t bytes = size + POOL_HEADER;
	unsigned int raw, obj, missing, spares = 0, from;
	struct pool_class *c;
	struct zspage *z;
	host_page spare[2];     /* an object reaches into two pages at most */
	u32 no, fresh = 0;
	u64 pages = 0;
	int err = 0;

	if (!size || size > HOST_PAGE_SIZE)
		return -EINVAL;
	if (size > pool_max_small(p)) {
		/* Huge: no header, and a raw class past the largest that has one. */
		bytes = size > p->table.largest ? size : p->table.largest + 1;
	}
	raw = class_raw_index(&p->table, bytes);
	c = &p->class[p->table.merged[raw]];
	if (node == HOST_ANY_NODE)
		node = host_node();

	/* With more nodes than one, of which a page is to be is known under the lock only. */
	if (host_nr_nodes() == 1) {
		/* It is on the lock's line, which so comes once. */
		host_prefetchw(&c->lock);
		spares = host_read_once(c->needs);
		/* Only what is at hand: it may not be needed, and nobody is to fail for it. */
		if (spares)
			spares = host_pages_alloc(p->src, spare, spares, node, HOST_AT_HAND);
	}
	for (;;) {
		from = node;
		host_lock(&c->lock);
		z = pool_fullest(c, &no);
		if (!z && fresh) {
			no = fresh;
			z = class_at(c, no);
			fresh = 0;
		}
		missing = 1;
		if (z) {
			obj = pool_lowest_free(c, z);
			missing = pages_missing(c, z, obj);
			/*
			 * They count before others put objects there, who go by the count, or
			 * compaction frees them.
			 */
			if (!missing ||
			    (missing <= spares && (pages = count_pages(p, missing, how)) != 0))
				break;
			if (missing <= spares)
				err = -EDQUOT;
			if (z->node != ZSPAGE_ANY_NODE)
				from = z->node;
		}
		/* A fresh zspage without its pages is on no list yet: keep it in hand. */
		if (z && !z->pages)
			fresh = no;
		host_unlock(&c->lock);

		if (!err && !z && !fresh)
			err = zspage_new(&p->zspages, c->group, c->place, c->words, node,
					 how & ~POOL_LIMITED, &fresh);
		if (!err && missing > spares) {
			err = pages_alloc(p->pages_from, spare + spares, missing - spares, from,
					  how & ~POOL_LIMITED);
			if (!err)
				spares = missing;
		}
		if (err) {
			if (fresh)
				zspage_free(&p->zspages, &(struct zspage_id){ c->group, fresh }, 1);
			if (spares)
				pages_free(p->pages_from, spare, spares);
			return err;
		}
	}

	pool_grow(p, c, z, spare, missing);
	class_take(c, z, no, obj);
	host_write_once(c->needs, (u8)pool_likely_missing(c, z));
	*ref = (u64)raw << REF_CLASS_SHIFT | ref_loc(c, no, obj) |
	       (class_raw_size(&p->table, raw) - size - (c->objs == 1 ? 0 : POOL_HEADER));
	host_assert(ref_is_live(p, *ref) && ref_zspage(c, *ref) == no && ref_obj(c, *ref) == obj &&
		    pool_ref_size(p, *ref) == size);
	host_unlock(&c->lock);

	if (missing)
		pool_note_peak(p, pages);
	if (spares > missing)
		pages_free(p->pages_from, spare + missing, spares - missing);
	if (fresh)
		zspage_free(&p->zspages, &(struct zspage_id){ c->group, fresh }, 1);

	write_header(p, c, z, obj, key);
	if (data)
		object_write(p, c, z, obj, data, size);
	return 0;
}

/*
 * Free
 */

/* The descriptor of the zspage of a reference of class c. */
static struct zspage *ref_at(const struct pool_class *c, u64 ref)
{
	return class_at(c, ref_zspage(c, ref));
}

/*
 * Clears the n bits mask in the word of used[] that ref, of class c and zspage z, is in.  Takes
 * the class lock if the change needs it and *locked is false.  True: the zspage is empty and the
 * caller's.
 */
HOST_NO_ANALYSIS        /* it knows no lock that is taken or not */
static bool pool_put(struct pool_class *c, struct zspage *z, u64 ref, u64 mask, unsigned int n,
		     bool *locked)
{
	host_a64 *state = zspage_state(z, c->words);
	u64 old, new;

	/* They are the caller's, each once; so are their bits, whatever others do beside them. */
	host_assert(ref_obj(c, ref) < c->objs && z->class == c->place);
	host_assert((host_a64_read(&z->used[ref_obj(c, ref) / 64]) & mask) == mask);
	host_assert((unsigned int)__builtin_popcountll(mask) == n);
	if (c->words > 1)
		host_a64_and(&z->used[ref_obj(c, ref) / 64], ~mask);
	old = host_a64_read(state);
	for (;;) {
		/* Others' are counted until their bits are clear, and none is past the last. */
		host_assert(zspage_inuse_of(old, c->words) >= n &&
			    zspage_inuse_of(old, c->words) <= c->objs);
		new = c->words > 1 ? old - n : old & ~mask;
		if (!*locked && (old == c->full) != (new == 0)) {
			host_lock(&c->lock);
			*locked = true;
		}
		if (host_a64_cas(state, &old, new))
			break;
	}

	if (old == c->full && new) {
		list_link(c, z, ref_zspage(c, ref), class_group(c, c->objs - n));
		/* It is likely the fullest now, and has all its pages. */
		host_write_once(c->needs, 0);
	} else if (old != c->full && !new) {
		list_unlink(c, z);
	}
	return !new;
}

bool class_put_locked(struct pool_class *c, struct zspage *z, u32 no, unsigned int obj)
{
	bool locked = true;

	return pool_put(c, z, ref_loc(c, no, obj), (u64)1 << (obj % 64), 1, &locked);
}

void pool_reap(struct pool *p, const struct zspage_id *id, unsigned int n)
{
	host_page page[PAGES_BATCH] HOST_UNCLEARED;
	unsigned int pages = 0, i;
	u64 all = 0;

	for (i = 0; i < n; i++) {
		struct zspage *z = zspage_at(&id[i].group->map, id[i].no);
		host_page *of = zspage_pages(z, p->class[z->class].words);

		host_assert(z->pages && !zspage_inuse(z, p->class[z->class].words));
		if (pages + z->pages > PAGES_BATCH) {
			pages_free(p->pages_from, page, pages);
			pages = 0;
		}
		memcpy(page + pages, of, z->pages * sizeof(*of));
		pages += z->pages;
		all += z->pages;
	}
	pages_free(p->pages_from, page, pages);
	host_a64_add(&p->pages, (u64)0 - all);
	zspage_free(&p->zspages, id, n);
}

HOST_NO_ANALYSIS
void pool_free(struct pool *p, u64 ref)
{
	struct pool_class *c = ref_class(p, ref);
	bool locked = false, empty;

	empty = pool_put(c, ref_at(c, ref), ref, (u64)1 << (ref_obj(c, ref) % 64), 1, &locked);
	if (locked)
		host_unlock(&c->lock);
	if (empty)
		pool_reap(p, &(struct zspage_id){ c->group, ref_zspage(c, ref) }, 1);
}

/*
 * Both sorts ask for the descriptors: the first free in one waits for less.
 *
 * By insertion: few references, most in order already.
 */
static void sort_small(const struct pool *p, u64 *refs, unsigned int n)
{
	unsigned int i, k;

	for (i = 0; i < n; i++) {
		u64 ref = refs[i];

		host_prefetchw(ref_at(ref_class(p, ref), ref));
		for (k = i; k && refs[k - 1] > ref; k--)
			refs[k] = refs[k - 1];
		refs[k] = ref;
	}
}

static unsigned int sort_key(const struct pool *p, u64 ref)
{
	return p->table.merged[ref >> REF_CLASS_SHIFT];
}

/*
 * By counting, stable: objects that were allocated one after the other stay together, so
 * those of one zspage do as a rule.
 */
static u64 *sort_by_class(const struct pool *p, u64 *refs, u64 *tmp, unsigned int n)
{
	u16 start[CLASS_RAW_MAX] = { 0 };
	unsigned int i, sum = 0;

	for (i = 0; i < n; i++)
		start[sort_key(p, refs[i])]++;
	for (i = 0; i < p->table.nclasses; i++) {
		unsigned int count = start[i];

		start[i] = (u16)sum;
		sum += count;
	}
	for (i = 0; i < n; i++) {
		unsigned int key = sort_key(p, refs[i]);

		host_prefetchw(ref_at(&p->class[key], refs[i]));
		tmp[start[key]++] = refs[i];
	}
	return tmp;
}

/* Whether two references, a of class c, name objects in one word of one zspage. */
static bool same_word(const struct pool *p, const struct pool_class *c, u64 a, u64 b)
{
	u64 differ = (a ^ b) >> c->word_shift;

	if (host_likely(!differ))
		return true;
	/* A class has several raw ones. */
	return !(differ << c->word_shift & REF_LOC_MASK) && ref_class(p, b) == c;
}

#define REAP_MAX 16

HOST_NO_ANALYSIS
void pool_free_bulk(struct pool *p, u64 *refs, u64 *tmp, unsigned int n)
{
	struct pool_class *c = NULL, *next;
	struct zspage_id reap[REAP_MAX] HOST_UNCLEARED;
	unsigned int nreap = 0, i = 0;
	struct zspage *next_z;
	bool locked = false;

	if (!n)
		return;
	if (n > POOL_BULK_SMALL)
		refs = sort_by_class(p, refs, tmp, n);
	else
		sort_small(p, refs, n);

	next = ref_class(p, refs[0]);
	next_z = ref_at(next, refs[0]);
	while (i < n) {
		struct pool_class *now = next;
		struct zspage *z = next_z;
		u64 ref = refs[i], mask = 0;
		unsigned int k = 0;

		/* The run of objects in one word of one zspage. */
		do {
			mask |= (u64)1 << (ref_obj(now, refs[i]) % 64);
			k++;
			i++;
		} while (i < n && same_word(p, now, ref, refs[i]));
		if (i < n) {
			/* Looked up before pool_put(), whose locked instruction would delay it. */
			next = ref_class(p, refs[i]);
			next_z = ref_at(next, refs[i]);
		}

		if (locked && (now != c || nreap == REAP_MAX)) {
			host_unlock(&c->lock);
			locked = false;
		}
		c = now;
		if (nreap == REAP_MAX) {
			pool_reap(p, reap, nreap);
			nreap = 0;
		}
		if (pool_put(c, z, ref, mask, k, &locked))
			reap[nreap++] = (struct zspage_id){ c->group, ref_zspage(c, ref) };
	}
	if (locked)
		host_unlock(&c->lock);
	if (nreap)
		pool_reap(p, reap, nreap);
}

/*
 * Sizes and bytes
 */

void pool_write(struct pool *p, u64 ref, const void *data)
{
	struct pool_class *c = ref_class(p, ref);

	object_write(p, c, class_at(c, ref_zspage(c, ref)), ref_obj(c, ref), data,
		     pool_ref_size(p, ref));
}

static void read_pieces(char *const piece[2], size_t first, size_t size, void *data)
{
	memcpy(data, piece[0], first);
	if (first < size)
		memcpy((char *)data + first, piece[1], size - first);
}

void pool_read(struct pool *p, u64 ref, void *data)
{
	char *piece[2];
	size_t size = pool_ref_size(p, ref), first = pool_pieces(p, ref, size, piece);

	read_pieces(piece, first, size, data);
}

const void *pool_map(struct pool *p, u64 ref, void *bounce)
{
	char *piece[2];
	size_t size = pool_ref_size(p, ref), first = pool_pieces(p, ref, size, piece);

	if (first == size)
		return piece[0];
	read_pieces(piece, first, size, bounce);
	return bounce;
}
