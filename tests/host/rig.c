// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* rig.c - see rig.h. */
#include "rig.h"
#include "tier/idle.h"
#include "explore.h"

#include <stdio.h>

struct rig *rig;

/* ---- contents ---- */

#define WORDS (PAGE_SIZE / sizeof(u64))
#define UNCODED ((u64)0x1111000000000001)      /* does not fit in a slot word */

/* One for each actor, so that they are as private as a thread's stack. */
static u64 buffer[EXPLORE_ALL][WORDS], unit[EXPLORE_ALL][4 * WORDS];

static u64 head_word(u32 value, u32 size)
{
	return (u64)size << 32 | value;
}

static u64 body_word(u64 head, size_t i)
{
	return head ^ i * 0x9e3779b97f4a7c15u;
}

/* size bytes for value: word 0 names them, the others follow from it. */
static void make(u64 *to, u32 value, u32 size, size_t bytes)
{
	u64 head = head_word(value, size), last;
	size_t i;

	for (i = 0; i < bytes / sizeof(u64); i++)
		to[i] = body_word(head, i);
	last = body_word(head, i);
	if (bytes % sizeof(u64))
		memcpy(&to[i], &last, bytes % sizeof(u64));
}

/* The value that these bytes were made for. */
static u32 name(const u64 *from, size_t bytes, bool whole_page)
{
	u64 head = from[0], last;
	size_t i;

	if (!whole_page && head >> 32 != bytes)
		explore_fail("%zu bytes are read where %u were written", bytes, (u32)(head >> 32));
	for (i = 1; i < bytes / sizeof(u64); i++)
		if (from[i] != body_word(head, i))
			explore_fail("what is read was never written: byte %zu", i * sizeof(u64));
	last = body_word(head, i);
	if (bytes % sizeof(u64) && memcmp(&from[i], &last, bytes % sizeof(u64)))
		explore_fail("what is read was never written: the last bytes");
	return (u32)head;
}

static u32 name_page(const u64 *page)
{
	size_t i;

	if (page[0] != page[1])
		return name(page, PAGE_SIZE, true);
	for (i = 1; i < WORDS; i++)
		if (page[i] != page[0])
			explore_fail("what is read was never written: word %zu", i);
	return (u32)(page[0] > ~0u ? page[0] >> 16 & 0xffff : page[0]);
}

/* ---- a codec that makes of a page what the page says ---- */

static void *codec_create(const struct codec_params *p)
{
	(void)p;
	return host_zalloc(64);
}

static void codec_destroy(void *ctx)
{
	host_free(ctx, 64);
}

static int codec_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	const u64 *page = src;
	u32 size = (u32)(page[0] >> 32);
	size_t at;

	(void)ctx;
	if (rig->codec_fails)
		return -EIO;
	if (rig->codec_says)
		return rig->codec_says;
	if (rig->codec_calls++ < rig->codec_changes)
		size += 8 * rig->codec_calls;
	/* The pages of a unit are alike. */
	for (at = 0; at < n; at += PAGE_SIZE)
		if (name(page + at / sizeof(u64), PAGE_SIZE, true) != (u32)page[0])
			return -EIO;
	if (at != n)
		return -EIO;
	if (size > cap)
		return -ENOSPC;
	make(dst, (u32)page[0], size, size);
	return (int)size;
}

static int codec_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	u64 *bytes = unit[me->id];
	u32 value;
	size_t at;

	(void)ctx;
	if (rig->codec_fails || cap % PAGE_SIZE || n > sizeof(unit[0]))
		return -EIO;
	/* dst may be the same buffer: what is read is named before it is made into a page. */
	memcpy(bytes, src, n);
	value = name(bytes, n, false);
	if (value & 0x80000000u)
		explore_fail("the first codec is to read what the second made");
	for (at = 0; at < cap; at += PAGE_SIZE)
		make((u64 *)dst + at / sizeof(u64), value, (u32)n, PAGE_SIZE);
	return 0;
}

static const struct codec_ops codec = {
	.name = "hostile",
	.create = codec_create,
	.destroy = codec_destroy,
	.compress = codec_compress,
	.decompress = codec_decompress,
};

/*
 * The second one makes half as much of what the first did, and signs it, so that neither can read
 * what the other made.  Pages of a unit that are zeros are so again: a bit says of each that it is.
 */
#define SIGNED 0x80000000u
#define ZEROS(page) (0x08000000u << (page))

static int second_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	u32 size, says = SIGNED;
	u64 head = 0;
	size_t at;

	(void)ctx;
	if (rig->codec_fails)
		return -EIO;
	if (rig->codec_says)
		return rig->codec_says;
	/* The pages of a unit are alike, but for those that died. */
	for (at = 0; at + PAGE_SIZE <= n; at += PAGE_SIZE) {
		const u64 *page = (const u64 *)src + at / sizeof(u64);

		if (!page[0]) {
			says |= ZEROS(at / PAGE_SIZE);
			continue;
		}
		if (name(page, PAGE_SIZE, true) != (u32)page[0] || (head && page[0] != head))
			return -EIO;
		head = page[0];
	}
	if (at != n || !head)
		return -EIO;
	size = (u32)(head >> 32) / 2;
	if (size > cap)
		return -ENOSPC;
	make(dst, (u32)head | says, size, size);
	return (int)size;
}

static int second_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	u64 *bytes = unit[me->id];
	u32 value;
	size_t at;

	(void)ctx;
	if (rig->codec_fails || cap % PAGE_SIZE || n > sizeof(unit[0]))
		return -EIO;
	memcpy(bytes, src, n);
	value = name(bytes, n, false);
	if (!(value & SIGNED))
		explore_fail("the second codec is to read what the first made");
	for (at = 0; at < cap; at += PAGE_SIZE) {
		u64 *page = (u64 *)dst + at / sizeof(u64);

		if (value & ZEROS(at / PAGE_SIZE))
			memset(page, 0, PAGE_SIZE);
		else
			make(page, value & (ZEROS(0) - 1), (u32)n, PAGE_SIZE);
	}
	return 0;
}

static const struct codec_ops second = {
	.name = "second",
	.create = codec_create,
	.destroy = codec_destroy,
	.compress = second_compress,
	.decompress = second_decompress,
};

/* ---- the store ---- */

/*
 * As a store with many slots and a large budget has them, with buffers that the small budget fills:
 * the fewer objects fill a buffer, the fewer it takes to come to every branch.
 */
static int give_spare(struct release *r, const struct rig_config *cfg)
{
	u64 objects = r->objects;
	int err;

	if (!cfg->spare)
		return 0;
	r->objects = ~(u64)0;
	err = release_set_limit(r, (u64)cfg->spare * RELEASE_BUF_BYTES);
	r->objects = objects;
	r->limit = cfg->release_limit;
	r->buf_bytes = cfg->release_limit / (2 * nr_cpu_ids);
	return err;
}

int rig_open(const struct rig_config *cfg)
{
	const struct store_config sc = {
		.codec[1].ops = cfg->recompress ? &second : NULL, .slots = cfg->slots,
		.codec[0] = { .ops = &codec }, .chain = CHAIN_MIN, .mem_limit = cfg->mem_limit,
		.release_limit = cfg->release_limit, .unit_pages = cfg->unit_pages,
	};
	int err = -ENOMEM;

	home->sparse = cfg->sparse;
	rig = host_zalloc(sizeof(*rig));
	if (!rig)
		return err;
	err = pages_init(&rig->pages, &rig->src, cfg->reserve, NULL);
	rig->blocks = cfg->blocks;
	rig->packed = cfg->packed;
	if (!err && cfg->blocks)
		rig->device = host_zalloc(cfg->blocks * sizeof(*rig->device));
	if (!err && cfg->blocks && !rig->device)
		err = -ENOMEM;
	if (!err)
		err = store_init(&rig->store, &rig->pages, &sc);
	if (!err) {
		err = store_back(&rig->store, &rig->backed, cfg->blocks);
		if (!err && cfg->unit_pages)
			err = store_set_units(&rig->store, &rig->units, cfg->unit_pages);
		/* So that what is dead is used again. */
		rig->units.batch = 1;
		if (err) {
			store_destroy(&rig->store);
			backed_destroy(&rig->backed);
		}
	}
	if (!err)
		err = give_spare(&rig->store.release, cfg);
	if (!err)
		return 0;
	host_free(rig->device, cfg->blocks * sizeof(*rig->device));
	if (rig->pages.src)
		pages_destroy(&rig->pages);
	host_free(rig, sizeof(*rig));
	return err;
}

bool rig_begun;

void rig_begin(const struct rig_config *cfg)
{
	home_open_nodes(cfg->cpus, cfg->nodes ? cfg->nodes : 1, cfg->pages);
	if (rig_open(cfg))
		explore_fail("a store cannot be made");
	rig_begun = true;
}

void rig_end(void)
{
	rig_begun = false;
	me->cpu = 0;
	rig_check();
	rig_close();
	home_close();
}

void rig_close(void)
{
	struct store *s = &rig->store;

	store_reset(s);
	rig_check();
	/* Leaves of the directory stay, and the slot table. */
	if (release_held(&s->release) || pool_pages(&s->pool) ||
	    store_pages_taken(s) != host_a64_read(&s->pool.zspages.leaves) + s->pieces.v)
		explore_fail("an empty store has %lu bytes held back and %lu pages",
			     release_held(&s->release), store_pages_taken(s));
	store_destroy(s);
	backed_destroy(&rig->backed);
	units_destroy(&rig->units);
	pages_destroy(&rig->pages);
	host_free(rig->device, rig->blocks * sizeof(*rig->device));
	host_free(rig, sizeof(*rig));
}

/* Whether somebody will come for what the node's CPUs and queue hold. */
static bool is_watched(const struct release_node *node)
{
	return node->worker->work.queued || (node->r->disarm.queued && node->idle.v);
}

/* References, ever. */
static u64 pushed(const struct release *r)
{
	unsigned int i;
	u64 n = 0;

	for (i = 0; i < r->items; i++)
		n += r->item[i]->tail.v;
	return n;
}

static void check_release(struct release *r)
{
	unsigned int k, i;

	if (rig->no_budget && rig->pushed != pushed(r))
		explore_fail("a free is deferred without a budget");
	for (k = 0; k < nr_node_ids; k++) {
		struct release_node *node = &r->node[k];
		u64 held = 0;
		u32 full = 0;

		for (i = 0; i < node->nitems; i++) {
			full += node->item[i]->queue.nfull;
			held += release_cpu_bytes(node->item[i]);
		}
		if (held && !is_watched(node))
			explore_fail("references are held back and nothing will drain them");
		if (full > node->cpu_bufs - node->nitems + node->limit_bufs)
			explore_fail("more is held back than the limit");
	}
}

void rig_check(void)
{
	struct store *s = &rig->store;
	const char *why = tier_check(s);

	if (why)
		explore_fail("%s", why);
	check_release(&s->release);
	if (home->pages_out != store_pages_taken(s) + pages_reserved(&rig->pages))
		explore_fail("%u pages are out, %lu are in use and %lu in the reserve",
			     home->pages_out, store_pages_taken(s), pages_reserved(&rig->pages));
}

/* ---- operations ---- */

static int write_op(const struct op *op, u32 value)
{
	u64 *buf = buffer[me->id];
	unsigned int ev = history_start(&rig->history, EV_WRITE, op->slot, value);
	size_t i;
	int err;

	switch (op->what) {
	case OP_PUT:
		make(buf, value, op->size, op->size);
		err = store_put(&rig->store, op->slot, buf, op->size, NUMA_NO_NODE);
		break;
	case OP_WRITE:
		make(buf, value, op->size, PAGE_SIZE);
		err = store_write(&rig->store, op->slot, buf, NUMA_NO_NODE);
		break;
	default:
		for (i = 0; i < WORDS; i++)
			buf[i] = op->what == OP_FILL ? value : UNCODED + ((u64)value << 16);
		err = store_write(&rig->store, op->slot, buf, NUMA_NO_NODE);
	}
	if (err && op->must)
		explore_fail("a write that has memory failed: %d", err);
	history_end(&rig->history, ev, !err, 0);
	rig->failed += err != 0;
	return err;
}

/* All pages of a unit at once, as one bio does. */
static void copy_unit(void *arg, void *to)
{
	memcpy(to, arg, rig->units.pages * PAGE_SIZE);
}

static int unit_op(struct store *s, const struct op *op, u32 value)
{
	unsigned int pages = rig->units.pages, k, ev[UNIT_PAGES_MOST];
	u64 *buf = unit[me->id], word;
	int err;

	for (k = 0; k < pages; k++) {
		ev[k] = history_start(&rig->history, EV_WRITE, op->slot + k, value);
		make(buf + k * WORDS, value, op->size, PAGE_SIZE);
	}
	err = unit_make(s, op->slot, copy_unit, buf, NUMA_NO_NODE, HOST_MAY_WAIT, &word);
	for (k = 0; k < pages && !err; k++)
		unit_put(s, op->slot + k, word);
	for (k = 0; k < pages; k++)
		history_end(&rig->history, ev[k], !err, 0);
	return err;
}

/* All that is read was there at one moment of the read, each page at its own. */
static void read_unit_op(struct store *s, const struct op *op)
{
	unsigned int pages = rig->units.pages, k, ev[UNIT_PAGES_MOST];
	u64 *buf = unit[me->id];
	bool done;

	for (k = 0; k < pages; k++)
		ev[k] = history_start(&rig->history, EV_READ, op->slot + k, 0);
	done = unit_read_whole(s, op->slot, buf);
	for (k = 0; k < pages; k++)
		history_end(&rig->history, ev[k], done, done ? name_page(buf + k * WORDS) : 0);
}

/* store_read(), wherever the page is. */
static int read_any(struct store *s, u64 i, u64 *buf)
{
	static u64 packed[EXPLORE_ALL][WORDS];
	u64 word, head;
	int err;

	while ((err = store_read(s, i, buf)) == STORE_BACKED) {
		if (!store_backed_begin(s, i, &word))
			continue;
		head = host_a64_read(&rig->device[slot_block(word)]);
		store_backed_end(s, word);
		if (!rig->packed) {
			make(buf, (u32)head, (u32)(head >> 32), PAGE_SIZE);
			return 0;
		}
		if (slot_backed_bytes(word) < PAGE_SIZE &&
		    head >> 32 != slot_backed_bytes(word))
			explore_fail("a block has %u bytes where %zu were packed", (u32)(head >> 32),
				     slot_backed_bytes(word));
		make(packed[me->id], (u32)head, (u32)(head >> 32), PAGE_SIZE);
		return store_unpack_backed(s, word, packed[me->id], buf);
	}
	return err;
}

u32 rig_value(u64 i, bool page)
{
	u64 *buf = buffer[me->id];
	size_t bytes = 0;
	int err = page ? read_any(&rig->store, i, buf)
		       : blob_get(&rig->store, i, buf, PAGE_SIZE, &bytes);

	if (err)
		explore_fail("a read failed: %d", err);
	if (page)
		return name_page(buf);
	return bytes ? name(buf, bytes, false) : 0;
}

static void free_op(const struct op *op)
{
	unsigned int ev = history_start(&rig->history, EV_FREE, op->slot, 0);

	me->atomic++;
	if (store_free(&rig->store, op->slot))
		explore_fail("a free failed");
	me->atomic--;
	history_end(&rig->history, ev, true, 0);
}

static void reset_op(void)
{
	unsigned int ev[HISTORY_SLOTS], n = HISTORY_SLOTS, i;

	if (rig->store.slots < n)
		n = (unsigned int)rig->store.slots;
	for (i = 0; i < n; i++)
		ev[i] = history_start(&rig->history, EV_FREE, i, 0);
	store_reset(&rig->store);
	for (i = 0; i < n; i++)
		history_end(&rig->history, ev[i], true, 0);
}

/* What was pushed before a flush began is free when it ends. */
static void flush_op(struct release *r)
{
	u64 before = pushed(r), freed = 0;
	unsigned int i;

	release_flush(r);
	for (i = 0; i < r->items; i++)
		freed += r->item[i]->in_place;
	for (i = 0; i < nr_node_ids; i++)
		freed += r->node[i].deferred.v;
	if (freed < before)
		explore_fail("a flush ends, and %lu of what was held back are not free",
			     (before - freed));
}

/* Without a budget nothing is held back, nor will be: check_release(). */
static int limit_op(struct release *r, u64 bytes)
{
	int err = release_set_limit(r, bytes);

	if (!err)
		rig->no_budget = !bytes;
	if (!err && !bytes)
		rig->pushed = pushed(r);
	return err;
}

bool rig_drop_own(void)
{
	u32 *n = &rig->nheld[me->id];
	struct rig_hold h;

	if (!*n)
		return false;
	h = rig->held[me->id][--*n];
	store_drop(&rig->store, h.slot, h.word);
	return true;
}

static void hold_op(u16 slot)
{
	u64 word = store_hold(&rig->store, slot);
	u32 *n = &rig->nheld[me->id];

	if (!slot_has_object(word))
		return;
	if (*n == RIG_HOLDS)
		explore_fail("the test needs room for more holds");
	rig->held[me->id][(*n)++] = (struct rig_hold){ slot, word };
}

/* Of those that were there before the actors all are of one object, so any will do. */
bool rig_drop(u64 slot)
{
	u32 who, i;

	for (who = me->id; who < EXPLORE_ALL;
	     who = who < EXPLORE_ALL - 1 ? EXPLORE_ALL - 1 : who + 1) {
		for (i = rig->nheld[who]; i--;) {
			struct rig_hold h = rig->held[who][i];

			if (h.slot != slot)
				continue;
			rig->held[who][i] = rig->held[who][--rig->nheld[who]];
			store_drop(&rig->store, slot, h.word);
			return true;
		}
	}
	return false;
}

static int recompress_op(struct store *s, u64 i)
{
	static u64 page[EXPLORE_ALL][4 * WORDS], packed[EXPLORE_ALL][WORDS];
	const struct recompress_work w = { page[me->id], packed[me->id] };
	struct recompress_request r;
	int outcome;

	recompress_request_init(&r, 1);
	outcome = store_recompress(s, i, &r, &w);
	rig->recompressed += outcome == RECOMPRESS_DONE;
	return outcome < 0 ? outcome : 0;
}

/* What a writeback does with one slot, from the choice on. */
static void back_op(struct store *s, u64 i, bool fails)
{
	struct chosen c = { { 0 } };
	u64 *buf = buffer[me->id];
	u64 at = i, block;

	store_choose_piece(s, &at, i + 1, 0, &c);
	if (store_reserve_block(s, &block)) {
		store_unchoose(s, i);
		return;
	}
	if (store_copy_out(s, i, buf, rig->packed)) {
		backed_unreserve(s->backed, block);
		store_unchoose(s, i);
		return;
	}
	if (!fails)
		host_a64_set(&rig->device[block], buf[0]);
	if (fails || !store_to_backed(s, i, block)) {
		backed_unreserve(s->backed, block);
		store_unchoose(s, i);
	}
}

/* What becomes of a page for which there is no room. */
static int incoming_op(struct store *s, u64 i, u32 value, bool fails)
{
	unsigned int ev = history_start(&rig->history, EV_WRITE, (unsigned int)i, value);
	u64 block;
	int err = store_need_slot(s, i, NUMA_NO_NODE);

	if (!err)
		err = store_reserve_block(s, &block);
	if (!err && fails) {
		backed_unreserve(s->backed, block);
		err = -EIO;
	}
	if (!err) {
		host_a64_set(&rig->device[block], head_word(value, RAW));
		store_put_backed(s, i, block);
	}
	history_end(&rig->history, ev, !err, 0);
	return err;
}

int rig_do(const struct op *op, u32 value)
{
	struct store *s = &rig->store;
	unsigned int ev;

	switch ((enum what)op->what) {
	case OP_NONE:
		break;
	case OP_PUT:
	case OP_WRITE:
	case OP_FILL:
	case OP_FILL_OBJ:
		return write_op(op, value);
	case OP_GET:
	case OP_READ:
		ev = history_start(&rig->history, EV_READ, op->slot, 0);
		history_end(&rig->history, ev, true, rig_value(op->slot, op->what == OP_READ));
		break;
	case OP_READ_UNIT:
		read_unit_op(s, op);
		break;
	case OP_FREE:
		free_op(op);
		break;
	case OP_RESET:
		reset_op();
		break;
	case OP_FLUSH:
		flush_op(&s->release);
		break;
	case OP_HELP:
		me->atomic++;
		release_help(&s->release, 0, 1);
		me->atomic--;
		break;
	case OP_SHRINK:
		shrink_count(&s->shrink);
		/* So few pages are never sparse. */
		WRITE_ONCE(s->shrink.sparse, 1);
		shrink_some(&s->shrink);
		break;
	case OP_COMPACT:
		store_compact(s);
		break;
	case OP_LIMIT:
		return limit_op(&s->release, op->size);
	case OP_OFFLINE:
		home_offline(op->slot);
		break;
	case OP_REFILL:
		me->working++;
		pages_refill(&rig->pages);
		me->working--;
		break;
	case OP_DRY:
		rig->src.dry = op->slot;
		break;
	case OP_STATS: {
		static struct pool_class_stat rows[EXPLORE_ALL][CLASS_RAW_MAX];

		pool_class_stats(&s->pool, rows[me->id]);
		break;
	}
	case OP_HOLD:
		hold_op(op->slot);
		break;
	case OP_DROP:
		rig_drop(op->slot);
		break;
	case OP_BACK:
		back_op(s, op->slot, op->size);
		break;
	case OP_INCOMING:
		return incoming_op(s, op->slot, value, op->size);
	case OP_RECOMPRESS:
		return recompress_op(s, op->slot);
	case OP_UNIT:
		return unit_op(s, op, value);
	case OP_TIDY:
		units_tidy(s);
		break;
	case OP_MARK_IDLE: {
		u64 at = 0;

		while (store_mark_idle(s, &at, s->slots, NULL, 0))
			;
		break;
	}
	}
	return 0;
}

void rig_push(unsigned int cpu, u64 from, unsigned int n)
{
	static const char bytes[SMALL];
	u64 i;

	me->cpu = cpu;
	for (i = from; i < from + n; i++) {
		must_eq(store_put(&rig->store, i, bytes, sizeof(bytes), NUMA_NO_NODE), 0);
		must_eq(store_free(&rig->store, i), 0);
	}
	me->cpu = 0;
}
