// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * store.c - owns the slot table and what each slot means.
 */
#include "store.h"

/*
 * The owner's side of compaction (pool.h): a key is a slot number.
 */

static u64 owner_look(void *ctx, u32 key)
{
	struct store *s = ctx;

	/* A key read from an object that is not published yet may be anything. */
	return key < s->slots ? slot_movable(&s->slot[key]) : 0;
}

static bool owner_swing(void *ctx, u32 key, u64 from, u64 to)
{
	struct store *s = ctx;

	return slot_swing(&s->slot[key], from, to);
}

/*
 * Streams: a codec context with its buffers for each CPU that ran when the store was made: a
 * machine may have places for many that never come, and zstd takes 200 KiB for each.  Any may be
 * used from any CPU; a busy one is passed over, so that nobody waits for a thread that lost its
 * CPU while another stream is free.
 */

HOST_NO_ANALYSIS        /* it returns with a lock that it cannot name */
static struct stream *stream_get(struct store *s)
{
	unsigned int n = s->streams, cpu = host_cpu() % n, i;

	for (i = 0; i < n; i++)
		if (host_mutex_trylock(&s->stream[(cpu + i) % n].lock))
			return &s->stream[(cpu + i) % n];
	host_mutex_lock(&s->stream[cpu].lock);
	return &s->stream[cpu];
}

HOST_NO_ANALYSIS
static void stream_put(struct stream *st)
{
	host_mutex_unlock(&st->lock);
}

static void streams_free(struct store *s)
{
	unsigned int i;

	if (!s->stream)
		return;
	for (i = 0; i < s->streams; i++) {
		struct stream *st = &s->stream[i];

		if (st->ctx)
			s->codec->destroy(st->ctx);
		host_free(st->buf, HOST_PAGE_SIZE);
		host_free(st->bounce, HOST_PAGE_SIZE);
		host_mutex_destroy(&st->lock);
	}
	host_free(s->stream, s->streams * sizeof(*s->stream));
}

static int streams_init(struct store *s, int level)
{
	unsigned int i;
	int err = 0;

	s->streams = host_cpus_now();
	s->stream = host_zalloc(s->streams * sizeof(*s->stream));
	if (!s->stream)
		return -ENOMEM;
	for (i = 0; i < s->streams; i++) {
		struct stream *st = &s->stream[i];

		host_mutex_init(&st->lock);
		st->buf = host_zalloc(HOST_PAGE_SIZE);
		st->bounce = host_zalloc(HOST_PAGE_SIZE);
		if (st->buf && st->bounce)
			st->ctx = s->codec->create(level);
		if (!st->ctx)
			err = -ENOMEM;
	}
	return err;
}

int store_init(struct store *s, struct pcp *pcp, const struct store_config *cfg)
{
	const struct pool_owner owner = { .ctx = s, .look = owner_look, .swing = owner_swing };
	int err;

	memset(s, 0, sizeof(*s));
	if (!cfg->slots || cfg->slots > 0xffffffff || cfg->level < cfg->codec->min_level ||
	    cfg->level > cfg->codec->max_level)
		return -EINVAL;
	s->slots = cfg->slots;
	s->mem_limit = cfg->mem_limit;
	s->codec = cfg->codec;

	err = pool_init(&s->pool, pcp, cfg->chain, &owner);
	if (err)
		return err;
	err = -ENOMEM;
	s->slot = host_zalloc(s->slots * sizeof(*s->slot));
	if (!s->slot)
		goto no_slots;
	err = streams_init(s, cfg->level);
	if (err)
		goto no_streams;
	err = host_percpu_init(&s->cpus, sizeof(struct store_cpu));
	if (err)
		goto no_streams;
	err = release_init(&s->release, &s->pool, &s->cpus, cfg->release_limit, s->slots);
	if (err)
		goto no_release;
	return 0;

no_release:
	host_percpu_destroy(&s->cpus);
no_streams:
	streams_free(s);
	host_free(s->slot, s->slots * sizeof(*s->slot));
no_slots:
	pool_destroy(&s->pool);
	return err;
}

void store_destroy(struct store *s)
{
	store_reset(s);
	release_destroy(&s->release);
	host_percpu_destroy(&s->cpus);
	streams_free(s);
	host_free(s->slot, s->slots * sizeof(*s->slot));
	pool_destroy(&s->pool);
}

/*
 * Words in, words out
 */

/* Counts what a word holds, by = 1 when it comes and -1 when it goes. */
static inline void account(struct store *s, struct counters *c, u64 word, s64 by)
{
	enum slot_type type = slot_type(word);
	size_t bytes;

	if (type == SLOT_FILL || type == SLOT_FILL_OBJ)
		count(c, CNT_SAME, by);
	if (type == SLOT_FILL) {
		count(c, CNT_ORIG_BYTES, by * (s64)HOST_PAGE_SIZE);
		return;
	}
	bytes = pool_ref_size(&s->pool, slot_ref(word));
	count(c, CNT_COMPR_BYTES, by * (s64)bytes);
	count(c, CNT_ORIG_BYTES, by * (s64)(type == SLOT_BLOB ? bytes : HOST_PAGE_SIZE));
	if (bytes == HOST_PAGE_SIZE) {
		count(c, CNT_HUGE, by);
		if (by > 0)
			count(c, CNT_HUGE_SINCE, 1);
	}
}

static void count_one(struct store *s, enum store_counter i)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);

	count(&cpu->counters, i, 1);
	host_percpu_unlock(&s->cpus, cpu);
}

/* Lets go of the word that a slot had.  Any context. */
static void dispose(struct store *s, u64 word, bool freed)
{
	struct release_todo todo = { false, false };
	struct store_cpu *cpu;
	bool now = false;

	cpu = host_percpu_lock(&s->cpus);
	account(s, &cpu->counters, word, -1);
	if (freed)
		count(&cpu->counters, CNT_FREED, 1);
	if (slot_has_object(word)) {
		now = !host_read_once(s->release.limit);
		if (now)
			count(&cpu->counters, CNT_SYNC, 1);
		else
			release_push(&s->release, &cpu->release, slot_ref(word),
				     pool_ref_class_size(&s->pool, slot_ref(word)), &todo);
	}
	host_percpu_unlock(&s->cpus, cpu);

	if (now)
		pool_free(&s->pool, slot_ref(word));
	else
		release_finish(&s->release, &todo);
}

/* Puts word in slot i and lets go of what was there. */
static void publish(struct store *s, u64 i, u64 word)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);
	u64 old;

	account(s, &cpu->counters, word, 1);
	host_percpu_unlock(&s->cpus, cpu);
	old = slot_publish(&s->slot[i], word);
	if (old)
		dispose(s, old, false);
}

static bool over_limit(struct store *s)
{
	u64 limit = host_read_once(s->mem_limit);

	return limit && pool_pages(&s->pool) << HOST_PAGE_SHIFT > limit;
}

static int alloc_once(struct store *s, u64 i, size_t bytes, u64 *ref)
{
	int err = pool_alloc(&s->pool, bytes, (u32)i, ref);

	if (!err && over_limit(s)) {
		pool_free(&s->pool, *ref);
		err = -ENOMEM;
	}
	return err;
}

/* Makes the object for slot i and its word. */
static int make_object(struct store *s, u64 i, enum slot_type type, const void *data, size_t bytes,
		       u64 *word)
{
	u64 ref;
	int err = alloc_once(s, i, bytes, &ref);

	if (err == -ENOMEM) {
		/* Nothing held back by now may mean that it came back since, so try in any case. */
		if (release_held(&s->release))
			release_flush(&s->release);
		err = alloc_once(s, i, bytes, &ref);
	}
	if (err)
		return err;
	pool_write(&s->pool, ref, data);
	*word = slot_make(type, ref);
	return 0;
}

/* Word i of a page, which need not be aligned in user space. */
static u64 word_at(const void *page, size_t i)
{
	u64 w;

	memcpy(&w, (const char *)page + i * sizeof(w), sizeof(w));
	return w;
}

#define PAGE_WORDS (HOST_PAGE_SIZE / sizeof(u64))

/* Whether a page is one repeated word. */
static bool same_filled(const void *page, u64 *fill)
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

static int compress(struct store *s, u64 i, const void *page, u64 *word)
{
	struct stream *st = stream_get(s);
	const void *data = st->buf;
	int n = s->codec->compress(st->ctx, page, HOST_PAGE_SIZE, st->buf,
				   pool_max_small(&s->pool));

	if (n == -ENOSPC) {
		data = page;
		n = (int)HOST_PAGE_SIZE;
	}
	/* A codec that breaks its word must not break the pool's. */
	if (n <= 0 || (data != page && (size_t)n > pool_max_small(&s->pool)))
		n = -EIO;
	else
		n = make_object(s, i, SLOT_PAGE, data, (size_t)n, word);
	stream_put(st);
	return n;
}

static int write_done(struct store *s, u64 i, u64 word, int err)
{
	if (err)
		count_one(s, CNT_FAILED_WRITE);
	else
		publish(s, i, word);
	return err;
}

int store_write(struct store *s, u64 i, const void *page)
{
	u64 fill, value, word = 0;
	int err = 0;

	if (i >= s->slots)
		return -ERANGE;
	/* The word is there by the time the codec is done. */
	host_prefetchw(&s->slot[i]);
	if (!same_filled(page, &fill))
		err = compress(s, i, page, &word);
	else if (slot_fill_code(fill, &value))
		word = slot_make(SLOT_FILL, value);
	else
		err = make_object(s, i, SLOT_FILL_OBJ, &fill, sizeof(fill), &word);
	return write_done(s, i, word, err);
}

int store_put(struct store *s, u64 i, const void *data, size_t bytes)
{
	u64 word = 0;
	int err;

	if (i >= s->slots)
		return -ERANGE;
	if (!bytes || bytes > HOST_PAGE_SIZE)
		return -EINVAL;
	err = make_object(s, i, SLOT_BLOB, data, bytes, &word);
	return write_done(s, i, word, err);
}

static void fill_page(void *page, u64 fill)
{
	size_t i;

	for (i = 0; i < PAGE_WORDS; i++)
		memcpy((char *)page + i * sizeof(fill), &fill, sizeof(fill));
}

/* Ends a hold, and what was freed under it. */
static void drop(struct store *s, u64 i)
{
	u64 word = slot_drop(&s->slot[i]);

	if (word)
		dispose(s, word, true);
}

static int read_object(struct store *s, u64 word, void *page)
{
	u64 ref = slot_ref(word), fill;
	size_t bytes = pool_ref_size(&s->pool, ref);
	struct stream *st = stream_get(s);
	const void *data = pool_map(&s->pool, ref, st->bounce);
	int err = 0;

	if (slot_type(word) == SLOT_FILL_OBJ) {
		memcpy(&fill, data, sizeof(fill));
		fill_page(page, fill);
	} else if (bytes == HOST_PAGE_SIZE) {
		memcpy(page, data, bytes);
	} else if (s->codec->decompress(st->ctx, data, bytes, page, HOST_PAGE_SIZE)) {
		/* Nobody is to see how far the codec came, or what was in page before. */
		memset(page, 0, HOST_PAGE_SIZE);
		err = -EIO;
	}
	stream_put(st);
	return err;
}

int store_read(struct store *s, u64 i, void *page)
{
	u64 word;
	int err = 0;

	if (i >= s->slots)
		return -ERANGE;
	word = slot_hold(&s->slot[i]);
	if (slot_has_object(word)) {
		err = slot_type(word) == SLOT_BLOB ? -EINVAL : read_object(s, word, page);
		drop(s, i);
	} else {
		fill_page(page, word ? slot_fill_value(word) : 0);
	}
	if (err)
		count_one(s, CNT_FAILED_READ);
	return err;
}

int store_get(struct store *s, u64 i, void *buf, size_t cap, size_t *bytes)
{
	struct stream *st;
	int err = 0;
	u64 word;

	if (i >= s->slots)
		return -ERANGE;
	*bytes = 0;
	word = slot_hold(&s->slot[i]);
	if (!word)
		return 0;
	if (slot_type(word) != SLOT_BLOB) {
		err = -EINVAL;
	} else {
		*bytes = pool_ref_size(&s->pool, slot_ref(word));
		if (*bytes > cap) {
			err = -ENOSPC;
		} else {
			st = stream_get(s);
			memcpy(buf, pool_map(&s->pool, slot_ref(word), st->bounce), *bytes);
			stream_put(st);
		}
	}
	if (slot_has_object(word))
		drop(s, i);
	return err;
}

int store_free(struct store *s, u64 i)
{
	u64 word;

	if (i >= s->slots)
		return -ERANGE;
	word = slot_detach(&s->slot[i]);
	if (word)
		dispose(s, word, true);
	return 0;
}

void store_reset(struct store *s)
{
	u64 i;

	for (i = 0; i < s->slots; i++) {
		store_free(s, i);
		if (i % 1024 == 1023)
			host_resched();
	}
	release_flush(&s->release);
}

u64 store_compact(struct store *s)
{
	release_flush(&s->release);
	return pool_compact(&s->pool);
}

u64 store_count(struct store *s, enum store_counter i)
{
	unsigned int cpu;
	s64 sum = 0;

	for (cpu = 0; cpu < host_nr_cpus(); cpu++)
		sum += host_read_once(((struct store_cpu *)
				       host_percpu_peek(&s->cpus, cpu))->counters.v[i]);
	return sum > 0 ? (u64)sum : 0;
}

u64 store_meta_bytes(struct store *s)
{
	return s->slots * sizeof(*s->slot) + (zspage_table_pages(&s->pool.zspages) << HOST_PAGE_SHIFT) +
	       release_meta_bytes(&s->release);
}
