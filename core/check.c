// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * check.c - walks pool, slots, blocks and release stage, and compares what they say of each other.
 */
#include "check.h"

struct pool_walk {
	struct pool *p;
	const char *bad;
	u64 pages, partial, used;
};

struct check_walk {
	struct store *s;
	struct counters sum;
	const char *bad;
	u64 objects;
	u64 blocks;                     /* that slots and buffers name */
	u64 *seen;                      /* a bit for each block; NULL: no memory for it */
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

		used += (unsigned int)__builtin_popcountll(bits);
		if (bits)
			last = 64 * i + 63 - (unsigned int)__builtin_clzll(bits);
	}
	if (used != zspage_inuse(z, c->words) || last >= c->objs)
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
	for (i = 0; i < z->pages && z->node != ZSPAGE_ANY_NODE; i++)
		if (host_page_node(w->p->src, zspage_pages(z, c->words)[i]) != z->node)
			w->bad = "a page of a zspage is not of its node";
	w->partial += used < c->objs;
	w->used += used;
	w->pages += z->pages;
}

static const char *check_lists(struct pool_class *c, u64 *listed)
{
	unsigned int group;
	u32 partial = 0;

	for (group = 0; group < POOL_GROUPS; group++) {
		u32 no, prev = 0;

		if (!(c->listed >> group & 1) != !c->head[group])
			return "a class's mask of lists is wrong";
		if (group == POOL_ASIDE && c->head[group] && c->stage == STAGE_DONE)
			return "a zspage is still put aside";
		for (no = c->head[group]; no; prev = no, no = class_at(c, no)->next) {
			struct zspage *z = class_at(c, no);

			if (z->prev != prev || z->group != group || z->class != c->place)
				return "a list of zspages is damaged";
			if (++partial % STORE_PIECE == 0)
				host_resched();
		}
	}
	*listed += partial;
	return partial == c->partial ? NULL : "a class does not know how many zspages are on its lists";
}

static const char *check_zspages(struct pool *p, struct pool_walk *w)
{
	const char *bad;
	u64 listed = 0;
	u32 i;

	w->p = p;
	zspage_each(&p->zspages, check_zspage, w);
	if (w->bad)
		return w->bad;
	for (i = 0; i < p->table.nclasses; i++) {
		bad = check_lists(&p->class[i], &listed);
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

	return check_zspages(p, &w);
}

static const char *check_ref(struct pool *p, u64 ref, u32 *key)
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

/* A block that a slot or a buffer names is nobody else's. */
static const char *check_block(struct check_walk *w, u64 block)
{
	struct backed *b = &w->s->backed;

	if (block >= b->blocks)
		return "a block is not of the backing device";
	if (blockset_has(&b->free, block) || blockset_has(&b->late, backed_late_place(b, block)))
		return "a block that is named is free";
	if (w->seen && w->seen[block / 64] >> block % 64 & 1)
		return "a block is named twice";
	if (w->seen)
		w->seen[block / 64] |= (u64)1 << block % 64;
	w->blocks++;
	return NULL;
}

/* The sets of free and of late blocks are what is said of them. */
static const char *check_sets(const struct backed *b)
{
	u64 nfree = 0, nlate = 0, block, i;

	if (!blockset_is_tidy(&b->free) || !blockset_is_tidy(&b->late))
		return "a level of a set of blocks does not say what is below it";
	for (i = 0; i < b->free.words[0]; i++) {
		nfree += (u64)__builtin_popcountll(b->free.level[0][i]);
		if (i % 4096 == 0)
			host_resched();
	}
	for (i = 0; (i = blockset_next(&b->late, i)) < BACKED_READERS * b->late_row; i++) {
		block = backed_late_block(b, i);
		if (block >= b->blocks)
			return "a late block is not of the backing device";
		if (blockset_has(&b->free, block))
			return "a block is free and late";
		nlate++;
		if (nlate % 4096 == 0)
			host_resched();
	}
	return nfree == b->nfree && nlate == b->nlate ? NULL :
	       "blocks that are free or late are not what was counted";
}

/* Blocks that CPUs let go of. */
static const char *check_batch(struct check_walk *w, const struct backed_batch *batch)
{
	const char *bad = NULL;
	unsigned int i;

	if (batch->n >= BACKED_BATCH)
		return "a batch of blocks is full";
	for (i = 0; i < batch->n && !bad; i++)
		bad = check_block(w, batch->block[i]);
	return bad;
}

static const char *check_blocks(struct check_walk *w)
{
	struct backed *b = &w->s->backed;
	const char *bad = NULL;
	unsigned int i;

	for (i = 0; i < host_percpu_items(&w->s->cpus) && !bad; i++)
		bad = check_batch(w, store_blocks_of(w->s, i));
	if (bad)
		return bad;
	if (!b->blocks)
		return w->blocks ? "a block is named, and there is no backing device" : NULL;
	bad = check_sets(b);
	if (bad)
		return bad;
	if (b->nfree + b->nlate + w->blocks + host_a64_read(&b->in_hand) != b->blocks)
		return "blocks are not all free, late, in hand or named";
	for (i = 0; i < BACKED_READERS; i++)
		if (host_a64_read(&b->readers[i]))
			return "a block is read by nobody";
	return NULL;
}

static void check_word(struct check_walk *w, u64 i)
{
	u64 word = host_a64_read(store_slot(w->s, i)), ref = slot_ref(word);
	size_t bytes;
	u32 key;

	if (word & SLOT_READERS) {
		w->bad = "a slot is held by nobody";
		return;
	}
	if (slot_type(word) > SLOT_BLOB || word & SLOT_NONE ||
	    (slot_type(word) == SLOT_EMPTY && word)) {
		w->bad = "a slot word is of no type";
		return;
	}
	if (word & SLOT_ABOUT && slot_type(word) != SLOT_PAGE && slot_type(word) != SLOT_BACKED) {
		w->bad = "what is said of pages is said of another slot";
		return;
	}
	if (!w->s->codecs[slot_codec(word)]) {
		w->bad = "a page is of a codec that the store does not have";
		return;
	}
	if (slot_type(word) == SLOT_FILL || slot_type(word) == SLOT_FILL_OBJ)
		w->sum.v[CNT_SAME]++;
	if (slot_type(word) == SLOT_FILL || slot_type(word) == SLOT_BACKED)
		w->sum.v[CNT_ORIG_BYTES] += (s64)HOST_PAGE_SIZE;
	if (slot_type(word) == SLOT_BACKED) {
		w->sum.v[CNT_BACKED]++;
		w->bad = check_block(w, slot_block(word));
		if (!slot_backed_bytes(word) || slot_backed_bytes(word) > HOST_PAGE_SIZE)
			w->bad = "a backed slot was of no size";
	}
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
	w->sum.v[CNT_ROOM] += pool_ref_room(&w->s->pool, ref);
	w->sum.v[CNT_ORIG_BYTES] += (s64)(slot_type(word) == SLOT_BLOB ? bytes : HOST_PAGE_SIZE);
	w->sum.v[CNT_HUGE] += bytes == HOST_PAGE_SIZE;
	if (bytes == HOST_PAGE_SIZE && slot_codec(word))
		w->bad = "a raw page is of a codec";
}

/* Returns the bytes that its references take. */
static u64 check_refs(struct check_walk *w, const struct release_buf *b, u64 from, u64 to)
{
	u64 sum = 0, at;
	u32 key;

	if (to - from > RELEASE_REFS)
		w->bad = "a buffer has more than fits in it";
	for (at = from; at != to && !w->bad; at++) {
		u64 ref = b->ref[at % RELEASE_REFS];

		w->bad = check_ref(&w->s->pool, ref, &key);
		sum += pool_ref_room(&w->s->pool, ref);
		w->objects++;
	}
	return sum;
}

static void check_cpu(struct check_walk *w, struct release_cpu *rc)
{
	u64 head = host_a64_read(&rc->head), tail = host_a64_read(&rc->tail);
	u64 held = check_refs(w, rc->buf, head, tail), full = 0, bytes;
	struct release_buf *b;

	if (w->bad)
		return;
	if (rc->known == head && rc->pushed - rc->before != held)
		w->bad = "bytes of a ring are not what its owner knows";
	if (rc->end <= tail || rc->end > head + RELEASE_REFS ||
	    rc->end > tail - tail % RELEASE_REFS + RELEASE_REFS ||
	    rc->at - rc->buf->ref != (ptrdiff_t)(tail % RELEASE_REFS))
		w->bad = "a buffer's end is not where a push will look";
	if (host_a64_read(&rc->spilling))
		w->bad = "an item spills, and nobody is there";
	for (b = rc->queue.full; b && !w->bad; b = b->next, full++) {
		host_resched();
		bytes = check_refs(w, b, b->from, b->from + b->n);
		if (!w->bad && bytes != b->bytes)
			w->bad = "bytes of a buffer != sum of what its objects take";
		held += bytes;
	}
	if (!w->bad && full != rc->queue.nfull)
		w->bad = "a queue does not know how many buffers it has";
	else if (!w->bad && held != release_cpu_bytes(rc))
		w->bad = "bytes held back != sum over buffers";
}

static void check_node(struct check_walk *w, struct release_node *node)
{
	u64 bufs = node->nitems;
	unsigned int i;

	for (i = 0; i < node->nitems; i++)
		bufs += node->item[i]->queue.nfull + node->item[i]->queue.nempty;
	if (bufs != node->out || bufs > node->own + node->bufs)
		w->bad = "release buffers are not all queued or empty";
	else if (host_a64_read(&node->inflight[0]) || host_a64_read(&node->inflight[1]))
		w->bad = "references are in flight, and nobody is there";
}

static void check_release(struct check_walk *w, struct release *r)
{
	unsigned int k;

	for (k = 0; k < r->items && !w->bad; k++)
		check_cpu(w, r->item[k]);
	for (k = 0; k < r->nodes && !w->bad; k++)
		check_node(w, &r->node[k]);
}

static const char *check_store(struct check_walk *w)
{
	static const enum store_counter counted[] = {
		CNT_ORIG_BYTES, CNT_COMPR_BYTES, CNT_ROOM, CNT_SAME, CNT_HUGE, CNT_BACKED,
	};
	struct store *s = w->s;
	struct pool_walk pw = { 0 };
	const char *bad = check_zspages(&s->pool, &pw);
	u64 i, skip, n;
	unsigned int k;

	if (bad)
		return bad;
	for (i = 0, n = 1; i < s->slots && !w->bad; i += skip ? skip : 1, n++) {
		skip = host_table_skip(&s->table, i);
		if (!skip)
			check_word(w, i);
		if (n % STORE_PIECE == 0)
			host_resched();
	}
	check_release(w, &s->release);
	if (w->bad)
		return w->bad;
	if (holds_any(&s->holds))
		return "an object is held by nobody";
	if (w->objects != pw.used)
		return "objects in use != references in slots and buffers";
	for (k = 0; k < sizeof(counted) / sizeof(counted[0]); k++)
		if (store_count(s, counted[k]) != (u64)w->sum.v[counted[k]])
			return "a counter does not match the slots";
	return check_blocks(w);
}

const char *store_check(struct store *s)
{
	size_t bytes = (size_t)(s->backed.blocks + 63) / 64 * sizeof(u64);
	struct check_walk w = { .s = s };
	const char *bad;

	if (bytes)
		w.seen = host_zalloc(bytes);
	bad = check_store(&w);
	host_free(w.seen, bytes);
	return bad;
}

u64 store_pages_taken(struct store *s)
{
	return pool_pages(&s->pool) + zspage_table_pages(&s->pool.zspages) +
	       host_a64_read(&s->pieces);
}
