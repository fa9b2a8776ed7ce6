// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pool.c - owns the classes: which zspages have room, and how an object comes and goes.
 *
 *     class --head[1..10]--> partial zspages, by in-use ratio
 *     full zspages are on no list; empty ones do not exist
 *
 * A zspage's state word (zspage.h) changes by compare-and-swap alone, and these changes are
 * made with the class lock held:
 *
 *     any allocation;  full -> partial (it is filed);  partial -> empty (it is taken off)
 *
 * All other frees, partial -> less and full -> empty in one step, take no lock: the first
 * leaves the lists as they are, the second has the zspage to itself, since nothing but a
 * list leads to it and it is on none.  Because the state is changed and the list with it
 * under one lock, a free that took no lock never touches the descriptor again.
 *
 * Frees without the lock leave a zspage filed higher than it is.  Whoever walks a list puts
 * that right (class_first), so allocation still finds the fullest:  filed >= true group.  After
 * many such frees it puts POOL_LOOK right and takes the next as it is, so that no hold of the
 * lock grows with the pool.
 *
 * Lock order: class lock > nothing.  Descriptors and pages are taken and given back outside.
 */
#include "pool.h"

static struct zspage *fullest(struct pool *p, struct pool_class *c, u32 *no)
	HOST_REQUIRES(c->lock);
static void list_link(struct pool *p, struct pool_class *c, struct zspage *z, u32 no,
		     unsigned int group) HOST_REQUIRES(c->lock);
static void list_unlink(struct pool *p, struct pool_class *c, struct zspage *z)
	HOST_REQUIRES(c->lock);

static struct zspage *at(const struct pool *p, u32 no)
{
	return zspage_at(&p->zspages, no);
}

int pool_init(struct pool *p, struct pcp *pcp, unsigned int chain, const struct pool_owner *owner)
{
	unsigned int i;
	int err;

	memset(p, 0, sizeof(*p));
	p->pcp = pcp;
	p->src = pcp->src;
	p->owner = *owner;
	err = class_table_init(&p->table, HOST_PAGE_SIZE, chain);
	if (err)
		return err;
	p->class = host_zalloc(p->table.nclasses * sizeof(*p->class));
	if (!p->class)
		return -ENOMEM;
	err = zspage_table_init(&p->zspages, pcp);
	if (err) {
		host_free(p->class, p->table.nclasses * sizeof(*p->class));
		return err;
	}
	for (i = 0; i < p->table.nclasses; i++) {
		const struct size_class *sc = &p->table.class[i];
		struct pool_class *c = &p->class[i];

		host_lock_init(&c->lock, "ebb_class");
		c->size = sc->size;
		c->objs = sc->objs;
		c->pages = sc->pages;
		c->place = (u8)i;
		c->words = (u8)zspage_words(sc->objs);
		if (c->words > 1)
			c->full = c->objs;
		else
			c->full = ~(u64)0 >> (64 - c->objs);
	}
	host_mutex_init(&p->compacting);
	return 0;
}

void pool_destroy(struct pool *p)
{
	host_warn_on(host_a64_read(&p->pages) != 0, "objects left in a pool that ends");
	zspage_table_destroy(&p->zspages);
	host_mutex_destroy(&p->compacting);
	host_free(p->class, p->table.nclasses * sizeof(*p->class));
}

/*
 * Lists
 */

static void list_link(struct pool *p, struct pool_class *c, struct zspage *z, u32 no,
		     unsigned int group)
{
	z->prev = 0;
	z->next = c->head[group];
	if (z->next)
		at(p, z->next)->prev = no;
	c->head[group] = no;
	c->listed |= (u16)(1u << group);
	host_write_once(z->group, (u8)group);
}

static void list_unlink(struct pool *p, struct pool_class *c, struct zspage *z)
{
	if (z->prev)
		at(p, z->prev)->next = z->next;
	else if (!(c->head[z->group] = z->next))
		c->listed &= (u16)~(1u << z->group);
	if (z->next)
		at(p, z->next)->prev = z->prev;
	if (host_unlikely(c->cursor) && at(p, c->cursor) == z)
		c->cursor = z->next;
}

void class_move(struct pool *p, struct pool_class *c, struct zspage *z, u32 no,
		unsigned int group)
{
	if (z->group != group) {
		list_unlink(p, c, z);
		list_link(p, c, z, no, group);
	}
}

struct zspage *class_first(struct pool *p, struct pool_class *c, unsigned int group, u32 *no,
			   unsigned int *left)
{
	while (c->head[group]) {
		struct zspage *z = at(p, c->head[group]);
		unsigned int now = class_group(c, zspage_inuse(z));

		if (now == group || !*left) {
			*no = c->head[group];
			return z;
		}
		--*left;
		class_move(p, c, z, c->head[group], now);
	}
	return NULL;
}

/* The fullest zspage that is not full, as far as it is known. */
static struct zspage *fullest(struct pool *p, struct pool_class *c, u32 *no)
{
	unsigned int lists, left = POOL_LOOK;

	/* Refiling only goes down, so the lists above stay empty. */
	while ((lists = c->listed & ~1u)) {
		unsigned int highest = 31u - (unsigned int)__builtin_clz(lists);
		struct zspage *z = class_first(p, c, highest, no, &left);

		if (z)
			return z;
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
 * Allocation
 */

void class_take(struct pool *p, struct pool_class *c, struct zspage *z, u32 no, unsigned int obj)
{
	u64 bit = (u64)1 << (obj % 64), state;
	unsigned int group;

	if (c->words > 1) {
		host_a64_or(&z->used[obj / 64], bit);
		state = host_a64_add(&z->used[c->words], 1);
	} else {
		state = host_a64_or(&z->used[0], bit) | bit;
	}
	if (state == c->full) {
		if (z->group)
			list_unlink(p, c, z);
		host_write_once(z->group, (u8)0);
		return;
	}
	group = class_group(c, zspage_inuse(z));
	if (!z->group)
		list_link(p, c, z, no, group);
	else if (group > z->group)
		class_move(p, c, z, no, group);
}

/* Pages that must be added before object obj has all its bytes. */
static unsigned int pages_missing(const struct pool_class *c, const struct zspage *z,
				  unsigned int obj)
{
	unsigned int end = (unsigned int)(((size_t)obj + 1) * c->size - 1) >> HOST_PAGE_SHIFT;

	return end < z->pages ? 0 : end + 1 - z->pages;
}

static void note_peak(struct pool *p, u64 pages)
{
	u64 peak = host_a64_read(&p->pages_peak);

	while (pages > peak && !host_a64_cas(&p->pages_peak, &peak, pages))
		;
}

void pool_reset_peak(struct pool *p)
{
	/* Full barriers on both sides: this sees the pages of whoever does not see the 0. */
	host_a64_and(&p->pages_peak, 0);
	note_peak(p, host_a64_read(&p->pages));
}

static void write_header(struct pool *p, struct pool_class *c, struct zspage *z, unsigned int obj,
			 size_t size, u32 key)
{
	u32 *header;

	if (c->objs == 1) {
		z->owner = key;
#if !POOL_REF_CLASS
		z->prev = (u32)size;    /* it is never on a list */
#endif
		return;
	}
	header = object_key(p, c, z, obj);
	host_write_once(*header, key);
	(void)size;
#if !POOL_REF_CLASS
	memcpy(header + 1, &(u16){ (u16)size }, 2);
#endif
}

int pool_alloc(struct pool *p, size_t size, u32 key, u64 *ref)
{
	size_t bytes = size + POOL_HEADER;
	unsigned int raw, obj, missing, spares = 0, i;
	struct pool_class *c;
	struct zspage *z;
	host_page spare[2];     /* an object reaches into two pages at most */
	u32 no, fresh = 0;
	int err = 0;

	if (!size || size > HOST_PAGE_SIZE)
		return -EINVAL;
	if (size > pool_max_small(p)) {
		/* Huge: no header, and a raw class past the largest that has one. */
		bytes = size > p->table.largest ? size : p->table.largest + 1;
	}
	raw = class_raw_index(&p->table, bytes);
	c = &p->class[p->table.merged[raw]];

	for (;;) {
		host_lock(&c->lock);
		z = fullest(p, c, &no);
		if (!z && fresh) {
			no = fresh;
			z = at(p, no);
			fresh = 0;
		}
		missing = 1;
		if (z) {
			obj = class_lowest_free(c, z);
			missing = pages_missing(c, z, obj);
			if (missing <= spares)
				break;
		}
		/* A fresh zspage without its pages is on no list yet: keep it in hand. */
		if (z && !z->pages)
			fresh = no;
		host_unlock(&c->lock);

		if (!z && !fresh)
			err = zspage_new(&p->zspages, c->place, c->objs, c->pages, &fresh);
		if (!err && missing > spares) {
			err = pcp_alloc(p->pcp, spare + spares, missing - spares);
			if (!err)
				spares = missing;
		}
		if (err) {
			if (fresh)
				zspage_free(&p->zspages, &fresh, 1);
			if (spares)
				pcp_free(p->pcp, spare, spares);
			return err;
		}
	}

	for (i = 0; i < missing; i++)
		zspage_pages(z)[z->pages + i] = spare[i];
	host_write_once(z->pages, (u8)(z->pages + missing));
	class_take(p, c, z, no, obj);
	host_unlock(&c->lock);

	if (missing)
		note_peak(p, host_a64_add(&p->pages, missing));
	if (spares > missing)
		pcp_free(p->pcp, spare + missing, spares - missing);
	if (fresh)
		zspage_free(&p->zspages, &fresh, 1);

	write_header(p, c, z, obj, size, key);
	*ref = ref_make(raw, no, obj,
			class_raw_size(&p->table, raw) - size - (c->objs == 1 ? 0 : POOL_HEADER));
	return 0;
}

/*
 * Free
 */

/*
 * Clears the n bits mask of used[w].  Takes the class lock if the change needs it and *locked
 * is false.  True: the zspage is empty and the caller's.
 */
HOST_NO_ANALYSIS        /* it knows no lock that is taken or not */
static bool put(struct pool *p, struct pool_class *c, struct zspage *z, u32 no, unsigned int w,
		u64 mask, unsigned int n, bool *locked)
{
	host_a64 *state = c->words > 1 ? &z->used[c->words] : &z->used[0];
	u64 old, new;

	if (c->words > 1)
		host_a64_and(&z->used[w], ~mask);
	old = host_a64_read(state);
	do {
		new = c->words > 1 ? old - n : old & ~mask;
		if (!*locked && (old == c->full) != (new == 0)) {
			host_lock(&c->lock);
			*locked = true;
		}
	} while (!host_a64_cas(state, &old, new));

	if (old == c->full && new)
		list_link(p, c, z, no, class_group(c, c->objs - n));
	else if (old != c->full && !new)
		list_unlink(p, c, z);
	return !new;
}

bool class_put_locked(struct pool *p, struct pool_class *c, struct zspage *z, u32 no,
		      unsigned int obj)
{
	bool locked = true;

	return put(p, c, z, no, obj / 64, (u64)1 << (obj % 64), 1, &locked);
}

void pool_reap(struct pool *p, const u32 *no, unsigned int n)
{
	host_page page[PCP_BATCH_MAX];
	unsigned int pages = 0, i, k;
	u64 all = 0;

	for (i = 0; i < n; i++) {
		struct zspage *z = at(p, no[i]);

		if (pages + z->pages > PCP_BATCH_MAX) {
			pcp_free(p->pcp, page, pages);
			pages = 0;
		}
		for (k = 0; k < z->pages; k++)
			page[pages++] = zspage_pages(z)[k];
		all += z->pages;
	}
	pcp_free(p->pcp, page, pages);
	host_a64_add(&p->pages, (u64)0 - all);
	zspage_free(&p->zspages, no, n);
}

HOST_NO_ANALYSIS
void pool_free(struct pool *p, u64 ref)
{
	struct pool_class *c = ref_class(p, ref);
	unsigned int obj = ref_obj(ref);
	u32 no = ref_zspage(ref);
	bool locked = false, empty;

	empty = put(p, c, at(p, no), no, obj / 64, (u64)1 << (obj % 64), 1, &locked);
	if (locked)
		host_unlock(&c->lock);
	if (empty)
		pool_reap(p, &no, 1);
}

/* By insertion: few references, most in order already. */
static void sort_small(u64 *refs, unsigned int n)
{
	unsigned int i, k;

	for (i = 1; i < n; i++) {
		u64 ref = refs[i];

		for (k = i; k && refs[k - 1] > ref; k--)
			refs[k] = refs[k - 1];
		refs[k] = ref;
	}
}

static unsigned int sort_key(const struct pool *p, u64 ref)
{
	return ref_class(p, ref)->place;
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
	for (i = 0; i < n; i++)
		tmp[start[sort_key(p, refs[i])]++] = refs[i];
	return tmp;
}

#define REAP_MAX 16
#define PREFETCH_AHEAD 8

HOST_NO_ANALYSIS
void pool_free_bulk(struct pool *p, u64 *refs, u64 *tmp, unsigned int n)
{
	struct pool_class *c = NULL;
	u32 reap[REAP_MAX];
	unsigned int nreap = 0, i = 0;
	bool locked = false;

	if (!n)
		return;
	if (n > POOL_BULK_SMALL)
		refs = sort_by_class(p, refs, tmp, n);
	else
		sort_small(refs, n);

	while (i < n) {
		struct pool_class *now = ref_class(p, refs[i]);
		u32 no = ref_zspage(refs[i]);
		unsigned int w = ref_obj(refs[i]) / 64, k = 0;
		u64 mask = 0;

		/* The run of objects in one word of one zspage. */
		do {
			if (i + PREFETCH_AHEAD < n)
				host_prefetchw(at(p, ref_zspage(refs[i + PREFETCH_AHEAD])));
			mask |= (u64)1 << (ref_obj(refs[i]) % 64);
			k++;
			i++;
		} while (i < n && ref_zspage(refs[i]) == no && ref_obj(refs[i]) / 64 == w);

		if (locked && (now != c || nreap == REAP_MAX)) {
			host_unlock(&c->lock);
			locked = false;
		}
		c = now;
		if (nreap == REAP_MAX) {
			pool_reap(p, reap, nreap);
			nreap = 0;
		}
		if (put(p, c, at(p, no), no, w, mask, k, &locked))
			reap[nreap++] = no;
	}
	if (locked)
		host_unlock(&c->lock);
	if (nreap)
		pool_reap(p, reap, nreap);
}

/*
 * Sizes and bytes
 */

#if !POOL_REF_CLASS
size_t pool_ref_size(const struct pool *p, u64 ref)
{
	struct pool_class *c = ref_class(p, ref);
	struct zspage *z = at(p, ref_zspage(ref));
	u16 size;

	if (c->objs == 1)
		return z->prev;
	memcpy(&size, object_key(p, c, z, ref_obj(ref)) + 1, 2);
	return size;
}

u32 pool_ref_class_size(const struct pool *p, u64 ref)
{
	return ref_class(p, ref)->size;
}
#endif

/* Where the bytes begin, and how many lie in the first page. */
static char *first_piece(struct pool *p, u64 ref, size_t size, size_t *first, size_t *off,
			 struct zspage **z)
{
	struct pool_class *c = ref_class(p, ref);

	*z = at(p, ref_zspage(ref));
	*off = (size_t)ref_obj(ref) * c->size + (c->objs == 1 ? 0 : POOL_HEADER);
	*first = HOST_PAGE_SIZE - (*off & HOST_PAGE_MASK);
	if (*first > size)
		*first = size;
	return zspage_byte(p, *z, *off);
}

void pool_write(struct pool *p, u64 ref, const void *data)
{
	size_t size = pool_ref_size(p, ref), first, off;
	struct zspage *z;
	char *bytes = first_piece(p, ref, size, &first, &off, &z);

	memcpy(bytes, data, first);
	if (first < size)
		memcpy(zspage_byte(p, z, off + first), (const char *)data + first, size - first);
}

const void *pool_map(struct pool *p, u64 ref, void *bounce)
{
	size_t size = pool_ref_size(p, ref), first, off;
	struct zspage *z;
	const char *bytes = first_piece(p, ref, size, &first, &off, &z);

	if (first == size)
		return bytes;
	memcpy(bounce, bytes, first);
	memcpy((char *)bounce + first, zspage_byte(p, z, off + first), size - first);
	return bounce;
}
