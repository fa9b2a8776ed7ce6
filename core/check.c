// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* check.c - see check.h. */
#include "check.h"

struct pool_walk {
	struct pool *p;
	const char *bad;
	u64 pages, partial, used;
};

static void check_zspage(struct zspage *z, u32 no, void *arg)
{
	struct pool_walk *w = arg;
	struct pool_class *c = &w->p->class[z->class];
	unsigned int obj, used = 0, last = 0;

	(void)no;
	if (z->class >= w->p->table.nclasses || z->words != c->words) {
		w->bad = "a descriptor is not of its class";
		return;
	}
	for (obj = 0; obj < 64u * z->words; obj++) {
		if (!zspage_is_used(z, obj))
			continue;
		used++;
		last = obj;
	}
	if (used != zspage_inuse(z) || last >= c->objs)
		w->bad = "popcount(used) != objects in use";
	else if (!used)
		w->bad = "an empty zspage was not given back";
	else if (z->pages > c->pages ||
		 ((size_t)last + 1) * c->size > (size_t)z->pages << HOST_PAGE_SHIFT)
		w->bad = "an object in use is on a page that is not there";
	else if (used == c->objs && z->group)
		w->bad = "a full zspage is on a list";
	else if (used < c->objs && z->group < class_group(c, used))
		w->bad = "a zspage is filed below its fullness group";
	w->partial += used < c->objs;
	w->used += used;
	w->pages += z->pages;
}

static const char *check_lists(struct pool *p, struct pool_class *c, u64 *listed)
{
	unsigned int group;

	for (group = 0; group < POOL_GROUPS; group++) {
		u32 no, prev = 0;

		if (!(c->listed >> group & 1) != !c->head[group])
			return "a class's mask of lists is wrong";
		if (!group && c->head[group])
			return "a zspage is still put aside";
		for (no = c->head[group]; no; prev = no, no = zspage_at(&p->zspages, no)->next) {
			struct zspage *z = zspage_at(&p->zspages, no);

			if (z->prev != prev || z->group != group || z->class != c->place)
				return "a list of zspages is damaged";
			++*listed;
		}
	}
	return NULL;
}

static const char *walk_pool(struct pool *p, struct pool_walk *w)
{
	const char *bad;
	u64 listed = 0;
	u32 i;

	w->p = p;
	zspage_each(&p->zspages, check_zspage, w);
	if (w->bad)
		return w->bad;
	for (i = 0; i < p->table.nclasses; i++) {
		bad = check_lists(p, &p->class[i], &listed);
		if (bad)
			return bad;
	}
	if (listed != w->partial)
		return "a partial zspage is on no list";
	if (!zspage_table_is_tidy(&p->zspages))
		return "a chunk of descriptors is not in use";
	if (w->pages != pool_pages(p))
		return "pages in zspages != pool_pages()";
	return NULL;
}

const char *pool_check(struct pool *p)
{
	struct pool_walk w = { 0 };

	return walk_pool(p, &w);
}

struct store_walk {
	struct store *s;
	struct counters sum;
	const char *bad;
	u64 objects, held;
};

/* A reference names an object that is in use. */
static const char *check_ref(struct pool *p, u64 ref, u32 *key)
{
	struct zspage *z = zspage_at(&p->zspages, ref_zspage(ref));
	struct pool_class *c = ref_class(p, ref);

	if (z->class != c->place)
		return "a reference names another class than its zspage";
	if (ref_obj(ref) >= c->objs || !zspage_is_used(z, ref_obj(ref)))
		return "a reference names an object that is not in use";
	*key = c->objs == 1 ? z->owner : *object_key(p, c, z, ref_obj(ref));
	return NULL;
}

static void check_word(struct store_walk *w, u64 i)
{
	u64 word = host_a64_read(&w->s->slot[i]), ref = slot_ref(word);
	size_t bytes;
	u32 key;

	if (slot_type(word) > SLOT_BLOB || (slot_type(word) == SLOT_EMPTY && word)) {
		w->bad = "a slot word is of no type";
		return;
	}
	if (word & (SLOT_READERS | SLOT_FREE)) {
		w->bad = "a slot is held by nobody";
		return;
	}
	if (slot_type(word) == SLOT_FILL || slot_type(word) == SLOT_FILL_OBJ)
		w->sum.v[CNT_SAME]++;
	if (slot_type(word) == SLOT_FILL)
		w->sum.v[CNT_ORIG_BYTES] += (s64)HOST_PAGE_SIZE;
	if (!slot_has_object(word))
		return;
	w->bad = check_ref(&w->s->pool, ref, &key);
	if (!w->bad && key != i)
		w->bad = "an object has another slot's key";
	if (w->bad)
		return;
	bytes = pool_ref_size(&w->s->pool, ref);
	w->objects++;
	w->sum.v[CNT_COMPR_BYTES] += (s64)bytes;
	w->sum.v[CNT_ORIG_BYTES] += (s64)(slot_type(word) == SLOT_BLOB ? bytes : HOST_PAGE_SIZE);
	w->sum.v[CNT_HUGE] += bytes == HOST_PAGE_SIZE;
}

static void check_refs(struct store_walk *w, const u64 *ref, u32 n, u64 bytes)
{
	u64 sum = 0;
	u32 i, key;

	for (i = 0; i < n && !w->bad; i++) {
		w->bad = check_ref(&w->s->pool, ref[i], &key);
		sum += pool_ref_class_size(&w->s->pool, ref[i]);
	}
	if (!w->bad && sum != bytes)
		w->bad = "bytes of a buffer != sum of its class sizes";
	w->objects += n;
	w->held += bytes;
}

static void check_cpu(void *item, void *arg)
{
	struct store_cpu *cpu = item;

	check_refs(arg, cpu->release.buf->ref, cpu->release.n, cpu->release.bytes);
}

const char *store_check(struct store *s)
{
	static const enum store_counter counted[] = {
		CNT_ORIG_BYTES, CNT_COMPR_BYTES, CNT_SAME, CNT_HUGE,
	};
	struct store_walk w = { .s = s };
	struct pool_walk pw = { 0 };
	struct release_buf *b;
	const char *bad = walk_pool(&s->pool, &pw);
	unsigned int k;
	u64 i, bufs = 0;

	if (bad)
		return bad;
	for (i = 0; i < s->slots && !w.bad; i++)
		check_word(&w, i);
	host_percpu_each(&s->cpus, check_cpu, &w);
	for (b = s->release.full; b; b = b->next, bufs++)
		check_refs(&w, b->ref, b->n, b->bytes);
	for (b = s->release.empty; b; b = b->next)
		bufs++;
	if (w.bad)
		return w.bad;
	if (bufs != host_nr_cpus() + s->release.spare)
		return "release buffers are not all in use, queued or empty";
	if (w.objects != pw.used)
		return "objects in use != references in slots and buffers";
	if (w.held != release_held(&s->release))
		return "bytes held back != sum over buffers";
	for (k = 0; k < sizeof(counted) / sizeof(counted[0]); k++)
		if (store_count(s, counted[k]) != (u64)w.sum.v[counted[k]])
			return "a counter does not match the slots";
	return NULL;
}

u64 store_pages_taken(struct store *s)
{
	return pool_pages(&s->pool) + zspage_table_pages(&s->pool.zspages);
}
