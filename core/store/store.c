// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * store.c - owns the slot table and what each slot means.
 */
#include "store.h"
#include "store_word.h"

/* Times that store_write_page() makes room for another length before it keeps a page raw. */
#define WRITE_TRIES 3

/* The owner's side of compaction (pool.h): a key is the number of a word. */

static u64 owner_look(void *ctx, u32 key)
{
	struct store *s = ctx;

	/*
	 * A key read from an object that is not published yet may be anything.  Behind the slots
	 * each unit_pages'th word is of an instance (unit.h), and names no object.
	 */
	if (key >= s->words || (key >= s->slots && !(key & (s->unit_pages - 1))))
		return 0;
	return slot_movable(store_slot(s, key));
}

static bool owner_swing(void *ctx, u32 key, u64 from, u64 to)
{
	struct store *s = ctx;

	return slot_swing(store_slot(s, key), from, to);
}

static void leave_streams(struct store *s)
{
	unsigned int p;

	for (p = 0; p < STORE_CODECS; p++)
		if (s->streams[p] == &s->own_streams[p])
			streams_destroy(&s->own_streams[p]);
}

/* The streams of each codec: those of the configuration, or the store's own. */
static int need_streams(struct store *s, const struct store_config *cfg)
{
	unsigned int p;
	int err = 0;

	s->streams[0] = cfg->streams;
	for (p = 0; p < STORE_CODECS && !err; p++) {
		const struct store_codec *c = &cfg->codec[p];
		const struct codec_params params = {
			.level = c->level, .winbits = c->winbits,
			.dict = c->dict, .dict_bytes = c->dict_bytes,
			.bytes = c->dict ? 0 : (size_t)cfg->unit_pages << PAGE_SHIFT,
		};

		if (!c->ops || s->streams[p])
			continue;
		err = streams_init(&s->own_streams[p], c->ops, &params, NULL);
		if (!err)
			s->streams[p] = &s->own_streams[p];
	}
	return err;
}

/* The most holds at a time (hold.h): each has a stream or an item, but for one recompression. */
static u32 most_holds(struct store *s)
{
	u32 n = 1 + host_percpu_items(&s->cpus);
	unsigned int p;

	for (p = 0; p < STORE_CODECS; p++)
		n += s->streams[p] ? s->streams[p]->n : 0;
	return n;
}

/*
 * The slot table.  Its pages stay to the end, so that it is read without a lock.
 */

/* Gives slot i a word.  node, how: as pages_alloc().  -ENOMEM. */
static int make_slot(struct store *s, u64 i, unsigned int node, unsigned int how)
{
	struct pages *pages = s->pool.pages_from;
	host_page page;
	int err;

	err = pages_alloc(pages, &page, 1, node, how);
	if (err)
		return err;
	memset(host_page_addr(pages->src, page), 0, PAGE_SIZE);
	if (host_table_give(&s->table, i, pages->src, page))
		host_a64_add(&s->pieces, 1);
	else
		pages_free(pages, &page, 1);
	return host_table_has(&s->table, i) ? 0 : -ENOMEM;
}

static void table_free(struct store *s)
{
	host_page page;

	while ((page = host_table_take(&s->table))) {
		pages_free(s->pool.pages_from, &page, 1);
		cond_resched();
	}
	host_table_destroy(&s->table);
}

/*
 * Words of a store with units: those of the slots, and unit_pages for each instance.  There are
 * twice as many instances as units fit in the slots, and as many more as may wait with CPUs; but no
 * more words than 32 bits count.
 */
static u64 words_for(const struct store_config *cfg)
{
	u64 batches = (u64)STORE_UNIT_BATCH * nr_cpu_ids * cfg->unit_pages;
	u64 all = cfg->slots + (-cfg->slots & (cfg->unit_pages - 1)) + 2 * cfg->slots + batches;

	if (!cfg->unit_pages || cfg->slots > 0xffffffff - cfg->unit_pages)
		return cfg->slots;
	return all < 0xffffffff ? all : 0xffffffff;
}

/* Ends what store_init() made before the release stage, as far as that is there. */
static void store_end(struct store *s)
{
	holds_destroy(&s->holds);
	host_percpu_destroy(&s->cpus);
	leave_streams(s);
	table_free(s);
	pool_destroy(&s->pool);
}

int store_init(struct store *s, struct pages *pages, const struct store_config *cfg)
{
	const struct pool_owner owner = { .ctx = s, .look = owner_look, .swing = owner_swing };
	int err;

	memset(s, 0, sizeof(*s));
	if (!cfg->slots || cfg->slots > 0xffffffff ||
	    (cfg->unit_pages && (cfg->codec[0].dict || cfg->streams)))
		return -EINVAL;
	s->slots = cfg->slots;
	s->words = words_for(cfg);
	s->unit_pages = cfg->unit_pages;
	s->codec = cfg->codec[0].ops;
	s->shrink = (struct shrink){ .pool = &s->pool, .release = &s->release };

	err = pool_init(&s->pool, pages, cfg->chain, &owner);
	if (err)
		return err;
	s->pool.limit = cfg->mem_limit;
	err = host_table_init(&s->table, s->words);
	if (err) {
		pool_destroy(&s->pool);
		return err;
	}
	err = need_streams(s, cfg);
	if (!err)
		err = host_percpu_init(&s->cpus, sizeof(struct store_cpu));
	if (!err)
		err = holds_init(&s->holds, most_holds(s));
	if (!err)
		err = release_init(&s->release, &s->pool, &s->cpus, cfg->release_limit, s->slots,
				   cfg->release_budget);
	if (err)
		store_end(s);
	return err;
}

void store_destroy(struct store *s)
{
	store_reset(s);
	release_destroy(&s->release);
	store_end(s);
}

/* ---- words in, words out ---- */

void store_note(struct store *s, enum store_counter i)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);

	counter_add(&cpu->counters, i, 1);
	host_percpu_unlock(&s->cpus, cpu);
}

void store_let_go(struct store *s, struct store_cpu *cpu, u64 word, struct release_todo *todo)
{
	if (slot_type(word) == SLOT_BACKED)
		s->free_block(s->backed, cpu->blocks, slot_block(word));
	else
		s->unit_ops->drop(s, cpu, word, todo);
}

/*
 * As store_put_word(), for another object of the page that word was read from, if the slot still
 * has that.  It counts after the swap, but still under the item.
 */
bool store_replace(struct store *s, u64 i, u64 word, u64 new)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);
	bool done;
	u64 old;

	done = slot_replace(store_slot(s, i), slot_ref(word), new, &old);
	if (done) {
		store_account(s, &cpu->counters, new, 1);
		store_account(s, &cpu->counters, old, -1);
		/* The caller still holds the old object. */
		WARN_ONCE(hold_orphan(&s->holds, old), "a held object has no readers\n");
	}
	host_percpu_unlock(&s->cpus, cpu);
	return done;
}

static void slot_drop_word(struct store *s, host_a64 *slot, u64 word)
{
	struct release_todo todo = { NULL, false };
	struct store_cpu *cpu;
	u64 ref = slot_ref(word);
	bool now;

	if (likely(!hold_drop(&s->holds, slot, ref)))
		return;
	cpu = host_percpu_lock(&s->cpus);
	/* It was the last hold of an orphan. */
	now = store_release(s, cpu, ref, &todo);
	host_percpu_unlock(&s->cpus, cpu);
	store_release_finish(s, ref, now, &todo);
}

void store_drop(struct store *s, u64 i, u64 word)
{
	slot_drop_word(s, store_slot(s, i), word);
}

/* Gives slot i a word and, if bytes is not 0, makes an object as pool_make() does. */
static __always_inline int alloc_once(struct store *s, u64 i, unsigned int node, unsigned int how,
				      const void *data, size_t bytes, u64 *ref)
{
	int err = likely(host_table_has(&s->table, i)) ? 0 :
		  make_slot(s, i, node, how & ~STORE_PAST_LIMIT);

	return err || !bytes ? err :
	       pool_make(&s->pool, bytes, data, (u32)i, node, how ^ STORE_PAST_LIMIT, ref);
}

int store_make_room(struct store *s, u64 i, unsigned int node, unsigned int how, const void *data,
		    size_t bytes, u64 *ref)
{
	struct release_asker asker = { 0 };
	int err;

	do {
		err = alloc_once(s, i, node, how, data, bytes, ref);
	} while (store_no_room(err) && release_help_again(&s->release, &asker, node));
	return err;
}

/* Makes an object for slot i, and the word that names it. */
static int store_make_object(struct store *s, u64 i, unsigned int node, unsigned int how,
			     enum slot_type type, const void *data, size_t bytes, u64 *word)
{
	u64 ref;
	int err = store_make_room(s, i, node, how, data, bytes, &ref);

	if (!err)
		*word = slot_make(type, ref);
	return err;
}

/* Word i of a page, which in user space may not be aligned. */
static u64 word_at(const void *page, size_t i)
{
	u64 w;

	memcpy(&w, (const char *)page + i * sizeof(w), sizeof(w));
	return w;
}

#define PAGE_WORDS (PAGE_SIZE / sizeof(u64))

bool store_is_fill(const void *page, u64 *fill)
{
	size_t i;

	*fill = word_at(page, 0);
	/* Most pages that differ do so at the end, if not at the start. */
	if (word_at(page, PAGE_WORDS - 1) != *fill)
		return false;
	for (i = 1; i < PAGE_WORDS - 1; i++)
		if (word_at(page, i) != *fill)
			return false;
	return true;
}

/*
 * Compresses a page, and makes its object and word.  Room that is there at once is filled while the
 * stream is locked.  To wait for room the stream is unlocked, and the page compressed anew when
 * there is some.  If the page changed meanwhile, it may come to another length than there is room
 * for; after WRITE_TRIES such lengths it is kept raw.
 */
static __always_inline int store_write_page(struct store *s, u64 i, unsigned int node,
					    unsigned int how, const void *page, u64 *word)
{
	int bytes, room = 0, err;
	unsigned int tries;
	struct stream *st;
	bool fits;
	u64 ref;

	for (tries = 0;; tries++) {
		st = stream_get(s->streams[0]);
		bytes = stream_pack(s->codec, st, page, pool_max_small(&s->pool));
		fits = !room && bytes > 0 && bytes < (int)PAGE_SIZE &&
		       !alloc_once(s, i, node, 0, st->buf, (size_t)bytes, &ref);
		if (room && bytes == room) {
			pool_write(&s->pool, ref, st->buf);
			fits = true;
		}
		stream_put(st);
		if (fits) {
			*word = slot_make(SLOT_PAGE, ref);
			return 0;
		}
		if (room)
			pool_free(&s->pool, ref);
		if (bytes < 0)
			return bytes;
		if (bytes == (int)PAGE_SIZE || tries == WRITE_TRIES)
			return store_make_object(s, i, node, how, SLOT_PAGE, page, PAGE_SIZE,
						 word);
		err = store_make_room(s, i, node, how, NULL, (size_t)bytes, &ref);
		if (err)
			return err;
		room = bytes;
	}
}

int store_need_slot(struct store *s, u64 i, unsigned int node)
{
	return i >= s->slots ? -ERANGE : store_need_word(s, i, node, HOST_MAY_WAIT);
}

static __always_inline int make_word(struct store *s, u64 i, const void *page, unsigned int node,
				     unsigned int how, u64 *word)
{
	u64 fill, value;

	if (!store_is_fill(page, &fill))
		return store_write_page(s, i, node, how, page, word);
	if (!slot_fill_code(fill, &value))
		return store_make_object(s, i, node, how, SLOT_FILL_OBJ, &fill, sizeof(fill), word);
	*word = slot_make(SLOT_FILL, value);
	return store_need_word(s, i, node, how);
}

int store_make_word(struct store *s, u64 i, const void *page, unsigned int node, unsigned int how,
		    u64 *word)
{
	return make_word(s, i, page, node, how, word);
}

static __always_inline int try_write(struct store *s, u64 i, const void *page, unsigned int node,
				     unsigned int how)
{
	u64 word = 0;
	int err;

	if (i >= s->slots)
		return -ERANGE;
	/* It is fetched by the time the codec is done. */
	prefetchw(store_slot(s, i));
	err = make_word(s, i, page, node, how, &word);
	if (likely(!err))
		store_put_word(s, store_slot(s, i), word);
	return err;
}

int store_try_now(struct store *s, u64 i, const void *page, unsigned int node, unsigned int how)
{
	return try_write(s, i, page, node, how);
}

int store_try_write(struct store *s, u64 i, const void *page, unsigned int node)
{
	int err = try_write(s, i, page, node, HOST_MAY_WAIT);
	unsigned int tidies = s->units ? STORE_TIDIES : 0;

	if (likely(!store_no_room(err)))
		return err;
	for (;;) {
		/* Frees all that was held back at the first try, or by tidying. */
		release_flush(&s->release);
		err = store_try_now(s, i, page, node, HOST_MAY_WAIT);
		if (!store_no_room(err) || !tidies--)
			return err;
		/* Once more at least: another may have made room meanwhile. */
		if (s->unit_ops->tidy(s) <= 0)
			tidies = 0;
	}
}

static void fill_page(void *page, u64 fill)
{
	size_t i;

	for (i = 0; i < PAGE_WORDS; i++)
		memcpy((char *)page + i * sizeof(fill), &fill, sizeof(fill));
}

/* The page of a word without an object.  STORE_BACKED, STORE_UNIT: it is there. */
static int read_word(u64 word, void *page)
{
	if (unlikely(slot_type(word) > SLOT_FILL))
		return slot_type(word) == SLOT_BACKED ? STORE_BACKED : STORE_UNIT;
	fill_page(page, slot_type(word) == SLOT_FILL ? slot_fill_value(word) : 0);
	return 0;
}

/* The page of an object.  st: a stream of the codec that the word names. */
static __always_inline int read_object(struct store *s, const struct codec_ops *codec,
				       struct stream *st, u64 word, void *page)
{
	u64 ref = slot_ref(word), fill;
	size_t bytes = pool_ref_size(&s->pool, ref);
	const void *data = pool_map(&s->pool, ref, st->bounce);

	if (slot_type(word) == SLOT_FILL_OBJ) {
		memcpy(&fill, data, sizeof(fill));
		fill_page(page, fill);
	} else if (bytes == PAGE_SIZE) {
		memcpy(page, data, bytes);
	} else {
		return stream_unpack(codec, st, data, bytes, page);
	}
	return 0;
}

int store_unpack(struct store *s, u64 word, void *page)
{
	struct streams *t = s->streams[slot_codec(word)];
	struct stream *st = stream_get(t);
	int err = read_object(s, t->codec, st, word, page);

	stream_put(st);
	return err;
}

/*
 * Reads a page that was recompressed between the look that chose st and the hold.  Two streams are
 * not locked at a time, and a hold is not kept without a stream: so the bytes are copied to page,
 * and the hold and st are put before the other stream is waited for.
 */
static int read_by_other(struct store *s, host_a64 *slot, struct stream *st, u64 word, void *page)
{
	struct streams *t = s->streams[slot_codec(word)];
	size_t bytes = pool_ref_size(&s->pool, slot_ref(word));
	int err;

	pool_read(&s->pool, slot_ref(word), page);
	slot_drop_word(s, slot, word);
	stream_put(st);
	if (bytes == PAGE_SIZE)
		return 0;
	st = stream_get(t);
	memcpy(st->bounce, page, bytes);
	err = stream_unpack(t->codec, st, st->bounce, bytes, page);
	stream_put(st);
	return err;
}

/* Reads a slot that had an object when it said seen. */
static int read_held(struct store *s, host_a64 *slot, u64 seen, void *page)
{
	struct streams *t = s->streams[slot_codec(seen)];
	struct stream *st = stream_get(t);
	u64 word = hold_take(&s->holds, slot);
	int err = 0;

	if (!slot_has_object(word)) {
		err = read_word(word, page);
	} else if (unlikely((word ^ seen) & SLOT_CODEC) && slot_type(word) == SLOT_PAGE) {
		return read_by_other(s, slot, st, word, page);
	} else {
		err = slot_type(word) == SLOT_BLOB ? -EINVAL :
						     read_object(s, t->codec, st, word, page);
		slot_drop_word(s, slot, word);
	}
	stream_put(st);
	return err;
}

int store_read(struct store *s, u64 i, void *page)
{
	host_a64 *slot;
	int err = 0;
	u64 word;

	if (i >= s->slots)
		return -ERANGE;
	slot = store_slot(s, i);
	do {
		word = host_a64_read(slot);
		if (slot_has_object(word))
			err = read_held(s, slot, word, page);
		else
			err = read_word(word, page);
		if (unlikely(err == STORE_UNIT))
			err = s->unit_ops->read(s, i, page);
	} while (unlikely(err == STORE_AGAIN));
	if (unlikely(err < 0))
		store_note(s, CNT_FAILED_READ);
	return err;
}

int store_free(struct store *s, u64 i)
{
	host_a64 *slot;

	if (i >= s->slots)
		return -ERANGE;
	slot = store_slot(s, i);
	/* An empty slot is spared the item and the exchange.  Its table page may not be there. */
	if (host_a64_read(slot))
		store_put_word(s, slot, 0);
	return 0;
}

bool store_free_piece(struct store *s, u64 *at, u64 end)
{
	unsigned int left = STORE_PIECE;

	while (store_next_slot(s, at, end, &left))
		store_free(s, *at - 1);
	return *at < end;
}

void store_reset(struct store *s)
{
	u64 at = 0;

	while (store_free_piece(s, &at, s->slots))
		cond_resched();
	release_flush(&s->release);
}

u64 store_count(struct store *s, enum store_counter i)
{
	unsigned int cpu;
	s64 sum = 0;

	for (cpu = 0; cpu < host_percpu_items(&s->cpus); cpu++)
		sum += READ_ONCE(((struct store_cpu *)
				  host_percpu_peek(&s->cpus, cpu))->counters.v[i]);
	return sum > 0 ? (u64)sum : 0;
}
