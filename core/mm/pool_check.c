// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* pool_check.c - walks the pool and the release stage, and compares what they say of each other. */
#include "pool_check.h"

#define CHECK_PIECE 256u        /* looks between two rests */

struct pool_walk {
	struct pool *p;
	const char *bad;
	u64 pages, partial, used;
};

struct release_walk {
	struct release *r;
	u64 objects;                    /* named by buffers */
	u64 held;                       /* bytes of pages that those of a CPU take */
};

static void check_zspage(struct zspage *z, void *arg)
{
	struct pool_walk *w = arg;
	struct pool_class *c;
	unsigned int i, used = 0, last = 0;

	if (z->class >= w->p->table.nclasses) {
		w->bad = "a descriptor is of no class";
		return;
	}
	c = &w->p->class[z->class];
	for (i = 0; i < c->words; i++) {
		u64 bits = host_a64_read(&z->used[i]);

		used += (unsigned int)hweight64(bits);
		if (bits)
			last = 64 * i + 63 - (unsigned int)__builtin_clzll(bits);
	}
	if (used != zspage_inuse(z, c->words) || last >= c->objs)
		w->bad = "popcount(used) != objects in use";
	else if (!used)
		w->bad = "an empty zspage was not given back";
	else if (z->pages > c->pages ||
		 ((size_t)last + 1) * c->size > (size_t)z->pages << PAGE_SHIFT)
		w->bad = "an object in use is on a page that is not there";
	else if (used == c->objs && z->list)
		w->bad = "a full zspage is on a list";
	else if (used < c->objs && z->list < class_list(c, used))
		w->bad = "a zspage is filed below its fullness group";
	for (i = 0; i < z->pages && z->node != ZSPAGE_ANY_NODE; i++)
		if (host_page_node(w->p->src, zspage_pages(z, c->words)[i]) != z->node)
			w->bad = "a page of a zspage is not of its node";
	w->partial += used < c->objs;
	w->used += used;
	w->pages += z->pages;
}

static const char *check_lists(struct pool_class *c, u64 *listed)
{
	unsigned int list;
	u32 partial = 0;

	for (list = 0; list < POOL_LISTS; list++) {
		u32 no, prev = 0;

		if (!(c->listed >> list & 1) != !c->head[list])
			return "a class's mask of lists is wrong";
		if (list == POOL_ASIDE && c->head[list] && c->stage == STAGE_DONE)
			return "a zspage is still put aside";
		for (no = c->head[list]; no; prev = no, no = class_at(c, no)->next) {
			struct zspage *z = class_at(c, no);

			if (z->prev != prev || z->list != list || z->class != c->place)
				return "a list of zspages is damaged";
			if (++partial % CHECK_PIECE == 0)
				cond_resched();
		}
	}
	*listed += partial;
	return partial == c->partial ? NULL : "a class does not know how many zspages are on its lists";
}

const char *pool_check(struct pool *p, u64 *used)
{
	struct pool_walk w = { .p = p };
	const char *bad;
	u64 listed = 0;
	u32 i;

	zspage_each(&p->zspages, check_zspage, &w);
	if (used)
		*used = w.used;
	if (w.bad)
		return w.bad;
	for (i = 0; i < p->table.nclasses; i++) {
		bad = check_lists(&p->class[i], &listed);
		if (bad)
			return bad;
	}
	if (listed != w.partial)
		return "a partial zspage is on no list";
	if (!zspage_table_is_tidy(&p->zspages))
		return "a chunk of descriptors is not in use";
	if (w.pages != pool_pages(p))
		return "pages in zspages != pool_pages()";
	return NULL;
}

const char *pool_check_ref(struct pool *p, u64 ref, u32 *key)
{
	struct pool_class *c = ref_class(p, ref);
	unsigned int obj = ref_obj(c, ref);
	struct zspage *z;

	if (!zspage_is_there(c->group, ref_zspage(c, ref)))
		return "a reference names a zspage that is not there";
	z = class_at(c, ref_zspage(c, ref));
	if (z->class != c->place)
		return "a reference names another class than its zspage";
	if (obj >= c->objs || !zspage_is_used(z, obj))
		return "a reference names an object that is not in use";
	*key = c->objs == 1 ? z->owner : *object_key(p, c, z, obj);
	return NULL;
}

/* Checks the references at positions from .. to - 1. */
static const char *check_refs(struct release_walk *w, const struct release_buf *b, u64 from, u64 to)
{
	const char *bad = NULL;
	u64 at;
	u32 key;

	if (to - from > RELEASE_REFS)
		return "a buffer has more than fits in it";
	for (at = from; at != to && !bad; at++) {
		u64 ref = b->ref[at % RELEASE_REFS];

		bad = pool_check_ref(w->r->pool, ref, &key);
		w->held += pool_ref_room(w->r->pool, ref);
		w->objects++;
	}
	return bad;
}

static const char *check_cpu(struct release_walk *w, struct release_cpu *rc)
{
	u64 head = host_a64_read(&rc->head), tail = host_a64_read(&rc->tail), full = 0, was;
	struct release_buf *b;
	const char *bad;

	w->held = 0;
	bad = check_refs(w, rc->buf, head, tail);
	if (bad)
		return bad;
	if (rc->head_seen == head && rc->pushed - rc->pushed_at_head != w->held)
		return "bytes of a ring are not what its owner knows";
	if (rc->end <= tail || rc->end > head + RELEASE_REFS ||
	    rc->end > tail - tail % RELEASE_REFS + RELEASE_REFS ||
	    rc->at - rc->buf->ref != (ptrdiff_t)(tail % RELEASE_REFS))
		return "a buffer's end is not where a push will look";
	if (host_a64_read(&rc->spilling))
		return "an item spills, and nobody is there";
	for (b = rc->queue.full; b; b = b->next, full++) {
		cond_resched();
		was = w->held;
		bad = check_refs(w, b, b->from, b->from + b->n);
		if (bad)
			return bad;
		if (w->held - was != b->bytes)
			return "bytes of a buffer != sum of what its objects take";
	}
	if (full != rc->queue.nfull)
		return "a queue does not know how many buffers it has";
	return w->held == release_cpu_bytes(rc) ? NULL : "bytes held back != sum over buffers";
}

static const char *check_node(struct release_node *node)
{
	u64 bufs = node->nitems;
	unsigned int i;

	for (i = 0; i < node->nitems; i++)
		bufs += node->item[i]->queue.nfull + node->item[i]->queue.nempty;
	if (bufs != node->out || bufs > node->cpu_bufs + node->limit_bufs)
		return "release buffers are not all queued or empty";
	if (host_a64_read(&node->inflight[0]) || host_a64_read(&node->inflight[1]))
		return "references are in flight, and nobody is there";
	return NULL;
}

const char *release_check(struct release *r, u64 *objects)
{
	struct release_walk w = { .r = r };
	const char *bad = NULL;
	unsigned int k;

	for (k = 0; k < r->items && !bad; k++)
		bad = check_cpu(&w, r->item[k]);
	for (k = 0; k < nr_node_ids && !bad; k++)
		bad = check_node(&r->node[k]);
	*objects = w.objects;
	return bad;
}
