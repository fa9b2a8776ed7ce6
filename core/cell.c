// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cell.c - owns the cells: which are free, and what a handle means.
 *
 * A free takes the object out of its cell by one compare-and-swap.  If the object has readers, who
 * are the mover of its page or the caller's fault, the same step leaves the reference in the cell,
 * marked, so that the readers find their record by the handle, and nobody gets the cell.  Whoever
 * then finds that he is the last (hold.h) disposes of both.
 *
 * Whatever is stored in a free cell is stored with release: who looks at it, to move a page, then
 * comes after what its last owner read of his object.
 */
#include "cell_word.h"

#define TAKE_TRIES 3            /* with a page in hand each: a page of the directory, a chunk */

static void add_spare(struct cells *s, host_page *page) HOST_REQUIRES(s->lock);
static host_page take_spare(struct cells *s) HOST_REQUIRES(s->lock);
static bool new_chunk(struct cells *s, int *err) HOST_REQUIRES(s->lock);
static unsigned int from_list(struct cells *s, host_a64 **out) HOST_REQUIRES(s->lock);
static unsigned int from_chunk(struct cells *s, host_a64 **out, int *err) HOST_REQUIRES(s->lock);

/* ---- the owner's side of compaction (pool.h) ---- */

static u64 owner_look(void *ctx, u32 key)
{
	host_a64 *cell = cells_at(ctx, key);

	return cell ? slot_movable(cell) : 0;
}

/* Tried once, as the swing: who changes the word meanwhile comes before compaction. */
static bool owner_claim(void *ctx, u32 key, u64 ref)
{
	host_a64 *cell = cells_at(ctx, key);
	u64 word = host_a64_read(cell);

	return slot_names(word, ref) && !(word & SLOT_MARKS) &&
	       host_a64_cas(cell, &word, word | CELL_CLAIMED);
}

/* Who held the object since the claim may have written it, so the copy may be of before. */
static bool owner_swing(void *ctx, u32 key, u64 from, u64 to)
{
	host_a64 *cell = cells_at(ctx, key);
	u64 word = host_a64_read(cell);

	return slot_names(word, from) && !(word & SLOT_MARKS) && word & CELL_CLAIMED &&
	       host_a64_cas(cell, &word, (word & ~(REF_MASK | CELL_CLAIMED)) | to);
}

/* ---- free cells ---- */

/* What is before the cells of a chunk. */
struct chunk {
	u64 nr;
	u64 page;               /* host_page: the page this is */
};

_Static_assert(sizeof(struct chunk) == CELL_FIRST * sizeof(host_a64), "cells come after it");

static u32 number_of(const host_a64 *cell)
{
	const struct chunk *c = (const struct chunk *)((size_t)cell & ~HOST_PAGE_MASK);

	return (u32)(c->nr << CELL_BITS | (cell - (const host_a64 *)(const void *)c));
}

/* Adds a page of zeros, which is then 0, if there is room for it. */
static void add_spare(struct cells *s, host_page *page)
{
	if (s->nspare == CELLS_SPARES)
		return;
	s->spare[s->nspare] = *page;
	host_write_once(s->nspare, s->nspare + 1);
	host_a64_add(&s->pages, 1);
	*page = 0;
}

/* 0: there is none. */
static host_page take_spare(struct cells *s)
{
	if (!s->nspare)
		return 0;
	host_write_once(s->nspare, s->nspare - 1);
	return s->spare[s->nspare];
}

/* Makes a chunk of spare pages.  *err: why not. */
static bool new_chunk(struct cells *s, int *err)
{
	struct host_pages *src = s->pcp->src;
	u32 nr = s->chunks_cut;
	struct chunk *c;
	host_page page;

	*err = nr < s->limit ? -ENOMEM : -ENOSPC;
	if (nr >= s->limit)
		return false;
	if (!host_table_has(&s->chunks, nr)) {
		page = take_spare(s);
		if (!page)
			return false;
		host_table_give(&s->chunks, nr, src, page);
	}
	page = take_spare(s);
	if (!page)
		return false;
	c = host_page_addr(src, page);
	*c = (struct chunk){ .nr = nr, .page = page };
	host_a64_set_release(host_table_at(&s->chunks, nr), (size_t)c);
	s->chunks_cut = nr + 1;
	s->cut = (host_a64 *)(void *)c + CELL_FIRST;
	s->cut_end = s->cut + CELLS_OF_CHUNK;
	return true;
}

/* A batch of the list of all; returns how many. */
static unsigned int from_list(struct cells *s, host_a64 **out)
{
	unsigned int n = 0;

	for (; n < CELLS_BATCH && s->list; n++) {
		host_a64 *cell = cells_at(s, s->list);

		out[n] = cell;
		s->list = (u32)slot_ref(host_a64_read(cell));
		host_a64_set_release(cell, 0);
	}
	return n;
}

/* A batch of the newest chunk, the first of it last in out[]. */
static unsigned int from_chunk(struct cells *s, host_a64 **out, int *err)
{
	unsigned int n, i;

	if (s->cut == s->cut_end && !new_chunk(s, err))
		return 0;
	n = s->cut_end - s->cut < CELLS_BATCH ? (unsigned int)(s->cut_end - s->cut) : CELLS_BATCH;
	for (i = n; i--;)
		out[i] = s->cut++;
	return n;
}

/*
 * Gives a CPU that has no cells some.  *page: one of zeros that is in the caller's hand, or 0;
 * after it, one that is left over.  *low: there are too few spare pages.  -ENOMEM, -ENOSPC.
 */
HOST_NO_ANALYSIS
static int refill(struct cells *s, struct cells_cpu *cpu, host_page *page, bool *low)
{
	int err = 0;

	host_lock(&s->lock);
	if (*page)
		add_spare(s, page);
	cpu->n = from_list(s, cpu->free);
	if (!cpu->n)
		cpu->n = from_chunk(s, cpu->free, &err);
	*low = s->nspare < CELLS_SPARES;
	host_unlock(&s->lock);
	return cpu->n ? 0 : err;
}

/* A page of zeros, for chunks.  how: as pcp_alloc(). */
static int page_of_zeros(struct cells *s, unsigned int node, unsigned int how, host_page *page)
{
	int err = pcp_alloc(s->pcp, page, 1, node, how & ~HOST_MOVABLE);

	if (!err)
		memset(host_page_addr(s->pcp->src, *page), 0, HOST_PAGE_SIZE);
	else
		*page = 0;
	return err;
}

/* A cell for an object that takes room bytes of pages, accounted for.  -ENOMEM, -ENOSPC. */
static int take_cell(struct cells *s, u32 room, unsigned int node, unsigned int how,
		     host_a64 **cell)
{
	unsigned int i;
	host_page page = 0;
	int err = 0;

	for (i = 0; i < TAKE_TRIES; i++) {
		struct cells_cpu *cpu = host_percpu_lock(&s->cpus);
		bool low = false;

		err = cpu->n ? 0 : refill(s, cpu, &page, &low);
		if (!err) {
			*cell = cpu->free[--cpu->n];
			host_write_once(cpu->room, cpu->room + room);
			host_write_once(cpu->objects, cpu->objects + 1);
		}
		host_percpu_unlock(&s->cpus, cpu);
		if (page)
			pcp_free(s->pcp, &page, 1, HOST_ANY_NODE);
		page = 0;
		if (low)
			host_work_queue(&s->top_up);
		if (err != -ENOMEM || i + 1 == TAKE_TRIES)
			break;
		if (page_of_zeros(s, node, how, &page))
			break;
	}
	return err;
}

void cells_put_cell(struct cells *s, struct cells_cpu *cpu, host_a64 *cell)
{
	unsigned int i;

	if (cpu->n == CELLS_MAG) {
		host_lock(&s->lock);
		for (i = 0; i < CELLS_BATCH; i++) {
			host_a64 *last = cpu->free[--cpu->n];

			host_a64_set_release(last, slot_make(SLOT_EMPTY, s->list));
			s->list = number_of(last);
		}
		host_unlock(&s->lock);
	}
	cpu->free[cpu->n++] = cell;
}

/* An allocation came to nothing. */
static void untake_cell(struct cells *s, u32 room, host_a64 *cell)
{
	struct cells_cpu *cpu = host_percpu_lock(&s->cpus);

	host_write_once(cpu->room, cpu->room - room);
	host_write_once(cpu->objects, cpu->objects - 1);
	cells_put_cell(s, cpu, cell);
	host_percpu_unlock(&s->cpus, cpu);
}

/* Makes pages of zeros ready, as many as there are to be.  how: as pcp_alloc(). */
HOST_NO_ANALYSIS
static void fill_spares(struct cells *s, unsigned int how)
{
	host_page page = 0;
	unsigned int i;
	bool full;

	for (i = 0; i < CELLS_SPARES; i++) {
		/* Who takes one after this look queues the work anew. */
		host_lock(&s->lock);
		full = s->nspare == CELLS_SPARES;
		host_unlock(&s->lock);
		if (full || page_of_zeros(s, host_node(), how, &page))
			return;
		host_lock(&s->lock);
		add_spare(s, &page);
		host_unlock(&s->lock);
		if (page)
			pcp_free(s->pcp, &page, 1, HOST_ANY_NODE);
	}
}

static void top_up(struct host_work *w)
{
	fill_spares((struct cells *)((char *)w - offsetof(struct cells, top_up)), 0);
}

/* ---- what is held back ---- */

bool cells_let_go(struct cells *s, struct cells_cpu *cpu, u64 ref, struct release_todo *todo)
{
	u64 untold;

	if (!host_read_once(s->release.limit)) {
		host_write_once(cpu->sync, cpu->sync + 1);
		return true;
	}
	release_push(&s->release, &cpu->release, ref, pool_ref_room(&s->pool, ref), todo);
	untold = cpu->release.pushed - cpu->told;
	if (host_unlikely(untold >= CELLS_TELL)) {
		cpu->told = cpu->release.pushed;
		host_a64_add(&s->held[cpu->release.node->nr].bytes, untold);
	}
	return false;
}

/* Of struct release: n objects leave what is held back. */
static unsigned int count_freed(struct release *r, u64 *entry, unsigned int n)
{
	struct cells *s = (struct cells *)((char *)r - offsetof(struct cells, release));

	if (n)
		host_a64_add(&s->held[host_node()].bytes, (u64)0 - release_bytes_of(r, entry, n));
	return n;
}

u64 cells_held(struct cells *s)
{
	unsigned int k;
	u64 bytes = 0;

	for (k = 0; k < host_nr_nodes(); k++)
		bytes += host_a64_read(&s->held[k].bytes);
	return (s64)bytes > 0 ? bytes : 0;
}

void cells_kick(struct cells *s)
{
	unsigned int k;

	for (k = 0; k < s->release.nodes; k++)
		if (s->release.node[k].nitems)
			release_wake(&(struct release_todo){ &s->release.node[k], true });
}

/* ---- objects ---- */

unsigned int cells_class(const struct cells *s, size_t bytes)
{
	const struct class_table *t = &s->pool.table;

	bytes = bytes > pool_max_small(&s->pool) ? HOST_PAGE_SIZE : bytes + POOL_HEADER;
	return t->merged[class_raw_index(t, bytes)];
}

/* A cell, unless *cell is one, and an object for it, which it names then. */
static int alloc_once(struct cells *s, size_t bytes, unsigned int node, unsigned int how, u32 room,
		      host_a64 **cell)
{
	struct pool_birth birth = {
		.type = slot_make(SLOT_BLOB, 0), .tag = s->cfg.tag, .ctx = s->cfg.ctx,
	};
	u64 ref;
	int err = *cell ? 0 : take_cell(s, room, node, how, cell);

	if (err)
		return err;
	birth.word = *cell;
	return place(&s->pool, bytes, NULL, number_of(*cell), node, how, &birth, &ref);
}

int cells_alloc(struct cells *s, size_t bytes, unsigned int node, unsigned int how, cell_handle *h)
{
	struct release_asker asker = { 0 };
	host_a64 *cell = NULL;
	u32 room;
	int err;

	if (!bytes || bytes > HOST_PAGE_SIZE)
		return -EINVAL;
	if (!s->cfg.movable)
		how &= ~HOST_MOVABLE;
	room = s->pool.table.class[cells_class(s, bytes)].room;
	err = alloc_once(s, bytes, node, how, room, &cell);
	while (host_unlikely(err == -ENOMEM || err == -ENOSPC) &&
	       release_help_again(&s->release, &asker, node))
		err = alloc_once(s, bytes, node, how, room, &cell);
	if (host_likely(!err))
		*h = (size_t)cell;
	else if (cell)
		untake_cell(s, room, cell);
	return err;
}

/* What a free leaves of a word. */
static u64 left_of(u64 word)
{
	return word & SLOT_MARKS ? CELL_FREED | slot_ref(word) : 0;
}

/*
 * Others got at the word HOST_TRIES times.  When it is busy, and the lock is held, only a free
 * would still change it, and that is this one.
 */
static u64 detach_slow(struct holds *h, host_a64 *cell)
{
	u64 word;

	host_lock(&h->lock);
	word = host_a64_or(cell, SLOT_BUSY) | SLOT_BUSY;
	if (slot_has_object(word))
		host_a64_xchg(cell, left_of(word));
	else
		host_a64_and(cell, ~SLOT_BUSY);
	host_unlock(&h->lock);
	return word;
}

/* Takes the object out of a cell; returns the word that named it, or one without an object. */
static HOST_INLINE u64 detach(struct holds *h, host_a64 *cell)
{
	u64 word = host_a64_read(cell);
	unsigned int i;

	for (i = 0; i < HOST_TRIES; i++)
		if (!slot_has_object(word) || host_a64_cas(cell, &word, left_of(word)))
			return word;
	return detach_slow(h, cell);
}

/*
 * Frees the object of a cell, under the item.  True: *ref is the caller's to free, after that.
 */
static HOST_INLINE bool free_one(struct cells *s, struct cells_cpu *cpu, host_a64 *cell, u64 *ref,
				 struct release_todo *todo)
{
	u64 word = detach(&s->holds, cell);

	if (host_warn_on(!slot_has_object(word), "a handle is freed that is not in use"))
		return false;
	*ref = slot_ref(word);
	host_write_once(cpu->room, cpu->room - pool_ref_room(&s->pool, *ref));
	host_write_once(cpu->objects, cpu->objects - 1);
	if (host_unlikely(word & SLOT_MARKS)) {
		if (!hold_orphan(&s->holds, word))
			return false;
		host_a64_set_release(cell, 0);
	}
	cells_put_cell(s, cpu, cell);
	return cells_let_go(s, cpu, *ref, todo);
}

void cells_free(struct cells *s, cell_handle h)
{
	struct cells_cpu *cpu = host_percpu_lock(&s->cpus);
	struct release_todo todo = { NULL, false };
	bool now;
	u64 ref;

	now = free_one(s, cpu, (host_a64 *)h, &ref, &todo);
	host_percpu_unlock(&s->cpus, cpu);
	release_finish(&todo);
	if (now)
		pool_free(&s->pool, ref);
}

void cells_free_bulk(struct cells *s, const cell_handle *h, unsigned int n)
{
	u64 ref[CELLS_BULK] HOST_UNCLEARED;

	while (n) {
		unsigned int k = n < CELLS_BULK ? n : CELLS_BULK, now = 0, i;
		struct release_todo todo = { NULL, false };
		struct cells_cpu *cpu;

		for (i = 0; i < k; i++)
			host_prefetchw((void *)h[i]);
		cpu = host_percpu_lock(&s->cpus);
		for (i = 0; i < k; i++)
			now += free_one(s, cpu, (host_a64 *)h[i], &ref[now], &todo);
		host_percpu_unlock(&s->cpus, cpu);
		release_finish(&todo);
		pool_free_bulk(&s->pool, ref, NULL, now);
		h += k;
		n -= k;
	}
}

void cells_dispose(struct cells *s, host_a64 *cell, u64 ref)
{
	struct cells_cpu *cpu = host_percpu_lock(&s->cpus);
	struct release_todo todo = { NULL, false };
	bool now;

	host_a64_set_release(cell, 0);
	cells_put_cell(s, cpu, cell);
	now = cells_let_go(s, cpu, ref, &todo);
	host_percpu_unlock(&s->cpus, cpu);
	release_finish(&todo);
	if (now)
		pool_free(&s->pool, ref);
}

/* ---- bytes ---- */

unsigned int cells_begin(struct cells *s, cell_handle h, struct cells_piece piece[2])
{
	u64 word = hold_take_and(&s->holds, (host_a64 *)h, CELL_CLAIMED);
	size_t size;
	char *at[2];

	if (host_warn_on(!slot_has_object(word), "a handle is read that is not in use"))
		return 0;
	size = pool_ref_size(&s->pool, slot_ref(word));
	piece[0].bytes = pieces(&s->pool, slot_ref(word), size, at);
	piece[0].at = at[0];
	if (piece[0].bytes == size)
		return 1;
	piece[1] = (struct cells_piece){ at[1], size - piece[0].bytes };
	return 2;
}

void cells_end(struct cells *s, cell_handle h)
{
	host_a64 *cell = (host_a64 *)h;
	u64 word = host_a64_read(cell), ref = slot_ref(word);

	/* Nothing moves a held object, so the word names it, or did when it was freed. */
	if (host_warn_on(!(word & (slot_has_object(word) ? SLOT_MARKS : CELL_FREED)),
			 "a handle is let go of that nobody reads"))
		return;
	if (host_unlikely(hold_drop(&s->holds, cell, ref)))
		cells_dispose(s, cell, ref);
}

const void *cells_read_begin(struct cells *s, cell_handle h, void *bounce)
{
	struct cells_piece piece[2];
	unsigned int n = cells_begin(s, h, piece);

	if (n < 2)
		return n ? piece[0].at : NULL;
	memcpy(bounce, piece[0].at, piece[0].bytes);
	memcpy((char *)bounce + piece[0].bytes, piece[1].at, piece[1].bytes);
	return bounce;
}

void cells_write(struct cells *s, cell_handle h, const void *data, size_t bytes)
{
	struct cells_piece piece[2];
	unsigned int n = cells_begin(s, h, piece), i;

	for (i = 0; i < n; i++) {
		size_t k = bytes < piece[i].bytes ? bytes : piece[i].bytes;

		memcpy(piece[i].at, data, k);
		data = (const char *)data + k;
		bytes -= k;
	}
	if (n)
		cells_end(s, h);
}

/* ---- all of them ---- */

/* The sum of a counter of all CPUs, which is at off in a struct cells_cpu. */
static u64 sum_of(struct cells *s, size_t off)
{
	unsigned int i;
	s64 sum = 0;

	for (i = 0; i < host_percpu_items(&s->cpus); i++)
		sum += host_read_once(*(s64 *)((char *)host_percpu_peek(&s->cpus, i) + off));
	return sum > 0 ? (u64)sum : 0;
}

u64 cells_room(struct cells *s)
{
	return sum_of(s, offsetof(struct cells_cpu, room));
}

u64 cells_objects(struct cells *s)
{
	return sum_of(s, offsetof(struct cells_cpu, objects));
}

u64 cells_compact(struct cells *s)
{
	release_flush(&s->release);
	return pool_compact(&s->pool);
}

/* Frees the objects of a chunk, if they are there. */
static void empty_chunk(struct cells *s, host_a64 *first)
{
	unsigned int i;

	for (i = 0; i < CELLS_OF_CHUNK; i++)
		if (slot_has_object(host_a64_read(&first[i])))
			cells_free(s, (size_t)&first[i]);
	host_resched();
}

static void free_chunks(struct cells *s)
{
	struct chunk *c;
	host_page page;
	u32 nr;

	for (nr = 0; nr < s->chunks_cut; nr++) {
		c = (struct chunk *)(size_t)host_a64_read(host_table_at(&s->chunks, nr));
		page = (host_page)c->page;
		pcp_free(s->pcp, &page, 1, HOST_ANY_NODE);
		host_resched();
	}
	while ((page = host_table_take(&s->chunks))) {
		pcp_free(s->pcp, &page, 1, HOST_ANY_NODE);
		host_resched();
	}
	while (s->nspare)
		pcp_free(s->pcp, &s->spare[--s->nspare], 1, HOST_ANY_NODE);
	host_table_destroy(&s->chunks);
}

/*
 * Records of readers (hold.h): one for each object of the pages that move, which are all that a
 * word cannot count, but for an object with more than seven readers, or one that is freed while it
 * is read.  And for each swap under an item.
 */
static u32 most_records(struct cells *s)
{
	u32 of_page = (u32)(HOST_PAGE_SIZE / CLASS_MIN_SIZE) + 2;

	return CELLS_MOVES * of_page + host_percpu_items(&s->cpus) + 64;
}

static u32 chunks_for(u64 cells)
{
	u64 n = (cells + CELLS_OF_CHUNK - 1) / CELLS_OF_CHUNK, most = (u64)1 << (32 - CELL_BITS);

	return (u32)(n < most ? n : most);
}

int cells_init(struct cells *s, struct pcp *pcp, const struct cells_config *cfg)
{
	const struct pool_owner owner = {
		.ctx = s, .look = owner_look, .claim = owner_claim, .swing = owner_swing,
		.pages = cfg->movable, .long_if_worth = true,
	};
	u64 most = cfg->most ? cfg->most : host_total_bytes() / CLASS_MIN_SIZE;
	int err;

	memset(s, 0, sizeof(*s));
	if (cfg->most > CELLS_MOST || (cfg->movable && !cfg->tag))
		return -EINVAL;
	s->cfg = *cfg;
	s->pcp = pcp;
	s->limit = chunks_for(most);
	host_lock_init(&s->lock, "ebb_cells");
	err = pool_init(&s->pool, pcp, cfg->chain, &owner);
	if (err)
		return err;
	err = host_table_init(&s->chunks, s->limit);
	if (err)
		goto no_table;
	err = -ENOMEM;
	s->held = host_zalloc(host_nr_nodes() * sizeof(*s->held));
	if (!s->held)
		goto no_held;
	err = host_percpu_init(&s->cpus, sizeof(struct cells_cpu));
	if (err)
		goto no_cpus;
	err = holds_init(&s->holds, most_records(s));
	if (err)
		goto no_holds;
	err = release_init(&s->release, &s->pool, &s->cpus, cfg->release_limit,
			   (u64)s->limit * CELLS_OF_CHUNK, cfg->release_budget);
	if (err)
		goto no_release;
	s->release.before = count_freed;
	err = host_work_init(&s->top_up, top_up, host_node());
	if (err)
		goto no_work;
	fill_spares(s, HOST_MAY_WAIT);
	return 0;

no_work:
	release_destroy(&s->release);
no_release:
	holds_destroy(&s->holds);
no_holds:
	host_percpu_destroy(&s->cpus);
no_cpus:
	host_free(s->held, host_nr_nodes() * sizeof(*s->held));
no_held:
	host_table_destroy(&s->chunks);
no_table:
	pool_destroy(&s->pool);
	return err;
}

void cells_destroy(struct cells *s)
{
	u32 nr;

	host_work_destroy(&s->top_up);
	for (nr = 0; nr < s->chunks_cut; nr++)
		empty_chunk(s, cells_at(s, nr << CELL_BITS | CELL_FIRST));
	release_destroy(&s->release);
	holds_destroy(&s->holds);
	host_percpu_destroy(&s->cpus);
	free_chunks(s);
	host_free(s->held, host_nr_nodes() * sizeof(*s->held));
	pool_destroy(&s->pool);
}
