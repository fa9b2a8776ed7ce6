// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pool.c - owns the classes: which zspages have room, and how an object comes and goes.
 *
 *     class --head[1..10]--> partial zspages, by in-use ratio; head[11]: put aside (compact.c)
 *     full zspages are on no list; empty ones do not exist
 *
 * Which objects of a zspage are in use (zspage.h: a bit each, and a count where there are more
 * than 64) is changed by atomic read-modify-writes alone.  These changes are made under the class
 * lock:
 *
 *     any allocation
 *     a free: full -> partial, with the zspage put on a list
 *     a free: partial -> empty, with the zspage taken off its list
 *
 * All other frees take no lock.  Partial -> less full leaves the lists as they are.  Full -> empty
 * in one step has the zspage to itself, since nothing but a list leads to it and it is on none.  So
 * a free without the lock never touches the descriptor after its compare-and-swap.
 *
 * The price: a zspage can stand on the list of a fuller one, list >= class_list(inuse).
 * class_first() refiles such zspages before an allocation takes one, so it takes the fullest.  Of
 * many it refiles POOL_LOOK and takes the next as it is, so that no hold of the lock grows with the
 * pool.
 *
 * Lock order: class lock > nothing.  Descriptors and pages are taken and given back outside.
 */
#include "pool.h"

static int class_init(struct pool *p, struct pool_class *c, unsigned int place)
{
	const struct size_class *sc = &p->table.class[place];

	spin_lock_init(&c->lock);
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
	c->group = zspage_group_get(&p->zspages, zspage_units(c->words, sc->pages),
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
	p->zspages.pages = pages;
	p->owner = *owner;
	err = class_table_init(&p->table, PAGE_SIZE, chain, class_pool_rule(PAGE_SIZE));
	if (err)
		return err;
	p->class = host_zalloc(p->table.nclasses * sizeof(*p->class));
	if (!p->class)
		return -ENOMEM;
	host_a64_set(&p->compact_at, p->table.nclasses);
	for (i = 0; i < p->table.nclasses && !err; i++)
		err = class_init(p, &p->class[i], i);
	if (err)
		pool_destroy(p);
	return err;
}

void pool_destroy(struct pool *p)
{
	WARN_ONCE(host_a64_read(&p->pages) != 0, "objects left in a pool that ends\n");
	zspage_table_destroy(&p->zspages);
	host_free(p->class, p->table.nclasses * sizeof(*p->class));
}

/*
 * Lists
 */

static void list_in(struct pool_class *c, struct zspage *z, u32 no, unsigned int list)
	__must_hold(&c->lock)
{
	z->prev = 0;
	z->next = c->head[list];
	if (z->next)
		class_at(c, z->next)->prev = no;
	c->head[list] = no;
	c->listed |= (u16)(1u << list);
	WRITE_ONCE(z->list, (u8)list);
}

static void list_out(struct pool_class *c, struct zspage *z) __must_hold(&c->lock)
{
	host_assert(class_at(c, z->prev ? class_at(c, z->prev)->next : c->head[z->list]) == z);
	host_assert(!z->next || class_at(c, class_at(c, z->next)->prev) == z);
	if (z->prev)
		class_at(c, z->prev)->next = z->next;
	else if (!(c->head[z->list] = z->next))
		c->listed &= (u16)~(1u << z->list);
	if (z->next)
		class_at(c, z->next)->prev = z->prev;
	if (unlikely(c->cursor) && class_at(c, c->cursor) == z)
		c->cursor = c->stage == STAGE_REFILE ? z->next : 0;
}

/* Puts a zspage that was full, or is new, on a list. */
static void list_link(struct pool_class *c, struct zspage *z, u32 no, unsigned int list)
	__must_hold(&c->lock)
{
	host_assert(!z->list && z->class == c->place);
	WRITE_ONCE(c->partial, c->partial + 1);
	list_in(c, z, no, list);
}

/* Takes a zspage that became full or empty off its list. */
static void list_unlink(struct pool_class *c, struct zspage *z) __must_hold(&c->lock)
{
	host_assert(z->list && z->class == c->place && c->partial);
	WRITE_ONCE(c->partial, c->partial - 1);
	list_out(c, z);
}

void class_move(struct pool_class *c, struct zspage *z, u32 no, unsigned int list)
{
	if (z->list != list) {
		list_out(c, z);
		list_in(c, z, no, list);
	}
}

struct zspage *class_first(struct pool_class *c, unsigned int list, u32 *no, unsigned int *left)
{
	while (c->head[list]) {
		struct zspage *z = class_at(c, c->head[list]);
		unsigned int inuse = zspage_inuse(z, c->words);

		if (!class_below(c, inuse, list) || !*left) {
			*no = c->head[list];
			return z;
		}
		--*left;
		class_move(c, z, c->head[list], class_list(c, inuse));
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

/* Pages that z lacks for object obj. */
static inline unsigned int pages_missing(const struct pool_class *c, const struct zspage *z,
					 unsigned int obj)
{
	unsigned int end = (unsigned int)(((size_t)obj + 1) * c->size - 1) >> PAGE_SHIFT;

	return end < z->pages ? 0 : end + 1 - z->pages;
}

bool class_has_room(struct pool_class *c, struct zspage *z, unsigned int *obj)
{
	*obj = class_lowest_free(c, z);
	return !pages_missing(c, z, *obj);
}

struct zspage *class_with_room(struct pool_class *c, u32 *no, unsigned int *obj, unsigned int *left)
{
	unsigned int list;

	for (list = POOL_ASIDE - 1; list >= 1 && *left; list--) {
		struct zspage *z = class_first(c, list, no, left);

		for (; z && *left; *no = z->next, z = *no ? class_at(c, *no) : NULL) {
			--*left;
			if (class_has_room(c, z, obj))
				return z;
		}
	}
	return NULL;
}

/*
 * Where an object is
 */

/*
 * piece[0]: the address of the size bytes of object obj of z; piece[1]: that of the rest, if they
 * span two pages.  Returns how many bytes lie in piece[0].
 */
static inline size_t object_pieces(struct pool *p, struct pool_class *c, struct zspage *z,
				   unsigned int obj, size_t size, char *piece[2])
{
	size_t off = (size_t)obj * c->size + (c->objs == 1 ? 0 : POOL_HEADER);
	size_t first = PAGE_SIZE - offset_in_page(off);

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

/*
 * Allocation
 */

void class_take(struct pool_class *c, struct zspage *z, u32 no, unsigned int obj)
{
	u64 bit = (u64)1 << (obj % 64), state;
	unsigned int inuse;

	host_assert(obj < c->objs && !zspage_is_used(z, obj) && z->class == c->place);
	host_assert(((size_t)obj + 1) * c->size <= (size_t)z->pages << PAGE_SHIFT);
	/* It is not full: a full zspage is on no list. */
	host_assert(zspage_inuse(z, c->words) < c->objs);
	if (c->words > 1) {
		host_a64_or(&z->used[obj / 64], bit);
		state = host_a64_add(&z->used[c->words], 1);
	} else {
		state = host_a64_or(&z->used[0], bit) | bit;
	}
	if (state == c->full) {
		if (z->list)
			list_unlink(c, z);
		WRITE_ONCE(z->list, (u8)0);
		return;
	}
	inuse = zspage_inuse_of(state, c->words);
	if (!z->list)
		list_link(c, z, no, class_list(c, inuse));
	else if (!class_below(c, inuse, z->list + 1u))
		class_move(c, z, no, class_list(c, inuse));
}

/* The fullest partial zspage, by the lists; *no: its number; NULL: there is none. */
static struct zspage *pool_fullest(struct pool_class *c, u32 *no) __must_hold(&c->lock)
{
	unsigned int lists, left = POOL_LOOK;
	struct zspage *z = NULL;

	/* class_first() refiles to lower lists only, so the lists above stay empty. */
	while ((lists = c->listed & ~(1u << POOL_ASIDE))) {
		unsigned int highest = 31u - (unsigned int)__builtin_clz(lists);

		z = class_first(c, highest, no, &left);
		if (z)
			return z;
	}
	*no = c->head[POOL_ASIDE];
	if (*no) {
		z = class_at(c, *no);
		class_move(c, z, *no, class_list(c, zspage_inuse(z, c->words)));
	}
	return z;
}

/* class_lowest_free(), in one step as a rule. */
static inline unsigned int pool_lowest_free(const struct pool_class *c, struct zspage *z)
{
	u64 clear = ~host_a64_read(&z->used[0]);
	unsigned int obj;

	if (unlikely(!clear))
		return class_lowest_free(c, z);
	obj = (unsigned int)__builtin_ctzll(clear);
	return obj < c->objs ? obj : c->objs;
}

/*
 * Pages that the next object of the class is likely to need, after one was put into z.  The next
 * allocation takes them ahead, and then takes the class lock only once.
 */
static unsigned int pool_likely_missing(const struct pool_class *c, struct zspage *z)
	__must_hold(&c->lock)
{
	if (!z->list)
		return !c->listed;
	return z->pages < c->pages ? pages_missing(c, z, pool_lowest_free(c, z)) : 0;
}

/* Makes pages the peak, unless another thread has raised it as far. */
static inline void pool_note_peak(struct pool *p, u64 pages)
{
	u64 peak = host_a64_read(&p->pages_peak);

	while (pages > peak && !host_a64_cas(&p->pages_peak, &peak, pages))
		;
}

/* Adds n pages to z.  Class lock held. */
static inline void pool_grow(struct pool *p, struct pool_class *c, struct zspage *z,
			     const host_page *page, unsigned int n)
{
	unsigned int i;

	host_assert(z->pages + n <= c->pages);
	for (i = 0; i < n; i++) {
		zspage_pages(z, c->words)[z->pages + i] = page[i];
		/* Its node has no page left, or they were taken for another zspage. */
		if (nr_node_ids > 1 && host_page_node(p->src, page[i]) != z->node)
			z->node = ZSPAGE_ANY_NODE;
	}
	WRITE_ONCE(z->pages, (u8)(z->pages + n));
}

/* Whether n more pages would pass the limit. */
static inline bool pool_is_full(const struct pool *p, unsigned int n, unsigned int how)
{
	u64 limit = how & POOL_LIMITED ? READ_ONCE(p->limit) : 0;

	return limit && (host_a64_read(&p->pages) + n) << PAGE_SHIFT > limit;
}

/* Counts n more pages; returns the sum.  0: POOL_LIMITED, and they would pass the limit. */
static inline u64 count_pages(struct pool *p, unsigned int n, unsigned int how)
{
	u64 limit = how & POOL_LIMITED ? READ_ONCE(p->limit) : 0, was;

	if (likely(!limit))
		return host_a64_add(&p->pages, n);
	was = host_a64_read(&p->pages);
	do {
		if ((was + n) << PAGE_SHIFT > limit)
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
		WRITE_ONCE(*object_key(p, c, z, obj), key);
}

void pool_reset_peak(struct pool *p)
{
	/* Full barriers here and in pool_make(): if it does not see the 0, this sees its pages. */
	host_a64_and(&p->pages_peak, 0);
	pool_note_peak(p, host_a64_read(&p->pages));
}

int pool_make(struct pool *p, size_t size, const void *data, u32 key, unsigned int node,
	      unsigned int how, u64 *ref)
{
	size_t bytes = size + POOL_HEADER;
	unsigned int raw, obj, missing, spares = 0, from, left = POOL_LOOK;
	struct pool_class *c;
	struct zspage *z;
	host_page spare[2];     /* an object reaches into two pages at most */
	u32 no, fresh = 0;
	u64 pages = 0;
	int err = 0;

	if (!size || size > PAGE_SIZE)
		return -EINVAL;
	if (size > pool_max_small(p)) {
		/* Huge: no header, and a raw class past the largest that has one. */
		bytes = size > p->table.largest ? size : p->table.largest + 1;
	}
	raw = class_raw_index(&p->table, bytes);
	c = &p->class[p->table.merged[raw]];
	if (node == NUMA_NO_NODE)
		node = numa_mem_id();

	/* With several nodes only z says, under the lock, of which node a page is to be. */
	if (nr_node_ids == 1) {
		/* c->needs is on the lock's line, which so is fetched once, to be written. */
		prefetchw(&c->lock);
		spares = READ_ONCE(c->needs);
		/* Only what is at hand: this allocation may not need it, and others may. */
		if (spares)
			spares = host_pages_alloc(p->src, spare, spares, node, HOST_AT_HAND);
	}
	for (;;) {
		from = node;
		spin_lock(&c->lock);
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
			/* Counted before other threads put objects on them, or free them. */
			if (!missing ||
			    (missing <= spares && (pages = count_pages(p, missing, how)) != 0))
				break;
			if (missing <= spares)
				err = -EDQUOT;
			if (z->node != ZSPAGE_ANY_NODE)
				from = z->node;
		}
		/* A fresh zspage without pages is on no list yet. */
		if (z && !z->pages)
			fresh = no;
		spin_unlock(&c->lock);

		if (!err && missing > spares && pool_is_full(p, missing, how))
			err = -EDQUOT;
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
			/* No page is to be had: a place on those that are there is, perhaps. */
			spin_lock(&c->lock);
			z = class_with_room(c, &no, &obj, &left);
			missing = 0;
			if (z)
				break;
			spin_unlock(&c->lock);
			if (fresh)
				zspage_free(&p->zspages, &(struct zspage_id){ c->group, fresh }, 1);
			if (spares)
				pages_free(p->pages_from, spare, spares);
			return err;
		}
	}

	pool_grow(p, c, z, spare, missing);
	class_take(c, z, no, obj);
	WRITE_ONCE(c->needs, (u8)pool_likely_missing(c, z));
	*ref = (u64)raw << REF_CLASS_SHIFT | ref_loc(c, no, obj) |
	       (class_raw_size(&p->table, raw) - size - (c->objs == 1 ? 0 : POOL_HEADER));
	host_assert(ref_is_live(p, *ref) && ref_zspage(c, *ref) == no && ref_obj(c, *ref) == obj &&
		    pool_ref_size(p, *ref) == size);
	spin_unlock(&c->lock);

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
 * the class lock if the change needs it and *locked is false.  True: the zspage is empty and on no
 * list, and the caller reaps it.
 */
__no_context_analysis        /* the lock may be taken or not */
static bool pool_put(struct pool_class *c, struct zspage *z, u64 ref, u64 mask, unsigned int n,
		     bool *locked)
{
	host_a64 *state = zspage_state(z, c->words);
	u64 old, new;

	/* The n objects are the caller's, each once, so no other thread changes their bits. */
	host_assert(ref_obj(c, ref) < c->objs && z->class == c->place);
	host_assert((host_a64_read(&z->used[ref_obj(c, ref) / 64]) & mask) == mask);
	host_assert((unsigned int)hweight64(mask) == n);
	if (c->words > 1)
		host_a64_and(&z->used[ref_obj(c, ref) / 64], ~mask);
	old = host_a64_read(state);
	for (;;) {
		/* Other threads clear an object's bit before they take it off the count. */
		host_assert(zspage_inuse_of(old, c->words) >= n &&
			    zspage_inuse_of(old, c->words) <= c->objs);
		new = c->words > 1 ? old - n : old & ~mask;
		if (!*locked && (old == c->full) != (new == 0)) {
			spin_lock(&c->lock);
			*locked = true;
		}
		if (host_a64_cas(state, &old, new))
			break;
	}

	if (old == c->full && new) {
		list_link(c, z, ref_zspage(c, ref), class_list(c, c->objs - n));
		/* z is likely the fullest now, and has all its pages. */
		WRITE_ONCE(c->needs, 0);
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
	host_page page[PAGES_BATCH] __uninitialized;
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

__no_context_analysis
void pool_free(struct pool *p, u64 ref)
{
	struct pool_class *c = ref_class(p, ref);
	bool locked = false, empty;

	empty = pool_put(c, ref_at(c, ref), ref, (u64)1 << (ref_obj(c, ref) % 64), 1, &locked);
	if (locked)
		spin_unlock(&c->lock);
	if (empty)
		pool_reap(p, &(struct zspage_id){ c->group, ref_zspage(c, ref) }, 1);
}

/*
 * Both sorts prefetch the descriptors, so that the first free in each waits for less.
 *
 * By insertion: few references, most in order already.
 */
static void sort_small(const struct pool *p, u64 *refs, unsigned int n)
{
	unsigned int i, k;

	for (i = 0; i < n; i++) {
		u64 ref = refs[i];

		prefetchw(ref_at(ref_class(p, ref), ref));
		for (k = i; k && refs[k - 1] > ref; k--)
			refs[k] = refs[k - 1];
		refs[k] = ref;
	}
}

static unsigned int sort_key(const struct pool *p, u64 ref)
{
	return p->table.merged[ref >> REF_CLASS_SHIFT];
}

/* By counting, stable: so objects of one zspage, which were allocated in a row, stay together. */
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

		prefetchw(ref_at(&p->class[key], refs[i]));
		tmp[start[key]++] = refs[i];
	}
	return tmp;
}

/* Whether two references, a of class c, name objects in one word of used[] of one zspage. */
static bool same_word(const struct pool *p, const struct pool_class *c, u64 a, u64 b)
{
	u64 differ = (a ^ b) >> c->word_shift;

	if (likely(!differ))
		return true;
	/* Their raw classes differ, and c may stand for both. */
	return !(differ << c->word_shift & REF_LOC_MASK) && ref_class(p, b) == c;
}

#define REAP_MAX 16

__no_context_analysis
void pool_free_bulk(struct pool *p, u64 *refs, u64 *tmp, unsigned int n)
{
	struct pool_class *c = NULL, *next;
	struct zspage_id reap[REAP_MAX] __uninitialized;
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
			/* Before pool_put(), whose locked instruction would delay the loads. */
			next = ref_class(p, refs[i]);
			next_z = ref_at(next, refs[i]);
		}

		if (locked && (now != c || nreap == REAP_MAX)) {
			spin_unlock(&c->lock);
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
		spin_unlock(&c->lock);
	if (nreap)
		pool_reap(p, reap, nreap);
}

/*
 * Sizes and bytes
 */

void pool_write(struct pool *p, u64 ref, const void *data)
{
	struct pool_class *c = ref_class(p, ref);

	object_write(p, c, ref_at(c, ref), ref_obj(c, ref), data, pool_ref_size(p, ref));
}

/* As object_pieces(). */
static inline size_t pool_pieces(struct pool *p, u64 ref, size_t size, char *piece[2])
{
	struct pool_class *c = ref_class(p, ref);

	return object_pieces(p, c, ref_at(c, ref), ref_obj(c, ref), size, piece);
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
