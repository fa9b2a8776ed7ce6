// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cache_room.c - keeps a cache within its capacity, and evicts.  See cache.h.
 *
 *     capacity = overhead (tables, buffers, pins, the allocator's free memory) + pool_limit
 *     live_limit = pool_limit * what entries have / what the pool has for them
 *
 * Puts evict while entries have more than live_limit.  They do not look at the pool for that:
 * what is evicted leaves holes, which the next values fill, and pages only later, so who waited
 * for pages would evict far too much.  A worker compares the two every other millisecond at most,
 * and closes the holes when they may be many.  What a put finds beyond that is the pool's own
 * limit, a little above; then it evicts more and closes the holes itself, or fails.
 *
 * Frees are synchronous here: each makes room for the put that caused it.
 */
#include "cache.h"

#include <errno.h>

#include "codecs.h"
#include "ebb_in.h"

#define TEND_US 2000u                   /* least time between two looks of the worker */
#define TEND_CHANGES 64u                /* puts that ask for a look */
#define TEND_BYTES 8192u                /* of a put that counts for one more */
#define EVICT_MOST 16u                  /* values that a put evicts, if they have its bytes twice */
#define TRIM_MOST 64u                   /* values that leave the table of spilled ones at once */
#define FAILED_PART 256u                /* of the capacity, evicted when a put has failed */
#define HOLES_PART 16u                  /* of the pool that left since a compaction */
#define SPARSE_PART 16u                 /* of what entries have, that the pool has more */
#define SLACK_PART 64u                  /* of the capacity: the pool may have more */
#define OTHER_BYTES ((u64)384 << 10)    /* measured: stacks of workers, what malloc rounds up */
#define NOTE_BYTES 1024u                /* of the capacity, for each key that may be noted */
#define IDLE_PART 32u                   /* of the capacity, that the allocator may keep free */
#define IDLE_LEAST ((u64)256 << 10)

/* ---- what there is ---- */

static u64 index_bytes(struct ebb_cache *c)
{
	u64 bytes = 0;
	unsigned int i;

	for (i = 0; i < CACHE_SHARDS; i++)
		bytes += cache_index_bytes(&c->shard[i].mem) +
			 cache_index_bytes(&c->shard[i].spilled);
	return bytes;
}

/* What a context of zstd 1.5 takes at the most: its tables are as large as blocks ask for. */
static u64 zstd_context_bytes(const struct blocks *b)
{
	static const struct {
		u32 block, low, high;           /* bytes; KiB below level 11, and from it on */
	} most[] = {
		{ 4096, 200, 368 }, { 8192, 280, 464 }, { 16384, 376, 664 }, { 32768, 624, 1056 },
	};
	u32 largest = host_read_once(b->largest);
	bool low = b->params.level < 11;
	size_t i;

	for (i = 0; i < sizeof(most) / sizeof(most[0]); i++)
		if (largest <= most[i].block)
			return (u64)(low ? most[i].low : most[i].high) << 10;
	return (u64)(low ? 1152 : 1856) << 10;
}

/* What a context takes for a block at the most, as measured with lz4 1.9 and zstd 1.5. */
static u64 context_bytes(const struct blocks *b)
{
	if (b->codec == &codec_zstd)
		return zstd_context_bytes(b);
	return b->codec == &codec_lz4hc ? (u64)256 << 10 : (u64)64 << 10;
}

void cache_usage(struct ebb_cache *c, struct cache_usage *u)
{
	struct ebb_stat store = { .struct_size = sizeof(store) };

	ebb_stat(c->store, &store);
	u->pool = store.mem_used_total;
	u->idle = store.zone_free_bytes + (store.pcp_pages << HOST_PAGE_SHIFT);
	u->index = index_bytes(c);
	/* One scratch, the reserve, has no context. */
	u->meta = store.meta_bytes + blocks_meta_bytes(&c->blocks) + sizeof(*c) +
		  (host_a64_read(&c->blocks.scratches) - 1) * context_bytes(&c->blocks) +
		  (c->spill ? cache_spill_bytes() : 0) + cache_dict_bytes(c) + OTHER_BYTES;
	u->pinned = host_a64_read(&c->pinned);
}

/* Looks how much there is, and sets the limits. */
static void set_limits(struct ebb_cache *c) HOST_REQUIRES(c->room_lock)
{
	u64 capacity = c->capacity, live = host_a64_read(&c->live), overhead, limit, hard;
	u64 idle = capacity / IDLE_PART + IDLE_LEAST;
	struct cache_usage u;

	cache_usage(c, &u);
	overhead = u.index + u.meta + u.pinned;
	overhead += u.idle < idle ? u.idle : idle;
	hard = capacity > overhead ? capacity - overhead : 0;
	limit = hard > capacity / SLACK_PART ? hard - capacity / SLACK_PART : 0;
	host_write_once(c->pool_limit, limit);
	/*
	 * Where there is more than there may be, it does not grow, and comes down as its pages come
	 * free: puts that fill holes go on meanwhile.  0 would be no limit.
	 */
	if (hard < u.pool && capacity)
		hard = u.pool;
	ebb_set_mem_limit(c->store, hard > HOST_PAGE_SIZE ? hard : HOST_PAGE_SIZE);
	if (live && u.pool >= limit / 8 * 7)
		limit = (u64)((double)limit * (double)live / (double)u.pool);
	host_write_once(c->live_limit, limit);
	host_write_once(c->limit_pinned, u.pinned);
	if (u.idle > idle)
		ebb_trim(c->store, NULL);
}

/* A full pool is to have more in it; one of which much was deleted is to have fewer pages. */
static bool has_holes(struct ebb_cache *c)
{
	u64 limit = host_read_once(c->pool_limit), left = host_read_once(c->left_bytes);
	u64 pool = ebb_pool_bytes(c->store), live = host_a64_read(&c->live);

	return pool > limit ? left > limit / HOLES_PART :
	       left > pool / HOLES_PART && pool > live + live / SPARSE_PART;
}

static void close_holes(struct ebb_cache *c) HOST_REQUIRES(c->room_lock)
{
	host_write_once(c->left_bytes, (u64)0);
	ebb_compact(c->store, NULL);
}

static void cache_tend(struct host_work *w)
{
	struct ebb_cache *c = (struct ebb_cache *)((char *)w - offsetof(struct ebb_cache, tend));

	host_mutex_lock(&c->room_lock);
	/* What counts may have become more since. */
	set_limits(c);
	if (has_holes(c)) {
		close_holes(c);
		set_limits(c);
	}
	host_mutex_unlock(&c->room_lock);
}

/*
 * Who stores what was noted needs a ghost of the size that the cache will have, not of what it has:
 * an empty one would forget each key before it comes again.
 */
static void size_notes(struct ebb_cache *c, u64 capacity)
{
	unsigned int i;

	for (i = 0; c->flags & EBB_CACHE_SECOND_MISS && i < CACHE_SHARDS; i++) {
		host_mutex_lock(&c->shard[i].lock);
		cache_ghost_keep(&c->shard[i].mem, capacity / NOTE_BYTES / CACHE_SHARDS);
		host_mutex_unlock(&c->shard[i].lock);
	}
}

int cache_room_init(struct ebb_cache *c, u64 capacity)
{
	int err = host_work_init(&c->tend, cache_tend, 0);

	if (err)
		return err;
	host_mutex_init(&c->room_lock);
	size_notes(c, capacity);
	host_mutex_lock(&c->room_lock);
	host_write_once(c->capacity, capacity);
	set_limits(c);
	host_mutex_unlock(&c->room_lock);
	return 0;
}

void cache_room_destroy(struct ebb_cache *c)
{
	host_work_destroy(&c->tend);
	host_mutex_destroy(&c->room_lock);
}

/* ---- what leaves ---- */

void cache_tell_gone(struct ebb_cache *c, struct scratch *s, size_t n, enum ebb_cache_why why)
{
	const struct value_head *head = cache_value_head(s, n);
	struct ebb_cache_gone gone = { .struct_size = sizeof(gone), .why = (u32)why };
	char key[EBB_CACHE_KEY_MAX];

	if (!head || head->key_bytes > sizeof(key))
		return;
	memcpy(key, head + 1, head->key_bytes);
	gone.key = key;
	gone.key_bytes = head->key_bytes;
	gone.bytes = head->bytes;
	gone.charge = head->charge;
	scratch_lend(&c->blocks, s);
	c->gone(c->gone_ctx, &gone);
	scratch_have_back(&c->blocks, s);
}

void cache_drop(struct ebb_cache *c, struct scratch *s, u64 ref, enum ebb_cache_why why)
{
	size_t n;

	if (c->gone && !cache_value_read(c, s, ref, &n))
		cache_tell_gone(c, s, n, why);
	cache_value_free(c, s, ref);
}

/* ---- evicting ---- */

static void count_evicted(struct ebb_cache *c, struct cache_shard *sh, u32 bytes)
	HOST_REQUIRES(sh->lock)
{
	host_a64_add(&c->live, -(u64)bytes);
	host_a64_add(&sh->counts.evicted, 1);
	cache_count_left(c, bytes);
}

/*
 * The oldest of a shard's spilled ones go: they are overwritten, or their table is too large.
 * At most TRIM_MOST of them; true: there may be more.
 */
static bool trim_spilled(struct ebb_cache *c, struct cache_shard *sh) HOST_REQUIRES(sh->lock)
{
	u64 most = host_read_once(c->capacity) / CACHE_SPILL_INDEX_PART / CACHE_SHARDS;
	unsigned int i;
	u32 e;

	for (i = 0; i < TRIM_MOST; i++) {
		e = cache_index_oldest(&sh->spilled, CACHE_MAIN);
		if (!e || (cache_spill_has(c->spill, sh->spilled.entry[e - 1].ref) &&
			   sh->spilled.entries * sizeof(struct cache_entry) <= most))
			return false;
		cache_index_remove(&sh->spilled, e - 1);
		host_a64_add(&c->spill_entries, (u64)-1);
	}
	return true;
}

static void note_spilled(struct ebb_cache *c, struct cache_shard *sh, u64 hash, u64 at, u32 bytes)
	HOST_REQUIRES(sh->lock)
{
	u32 e = cache_index_find(&sh->spilled, hash);

	if (e) {
		cache_index_remove(&sh->spilled, e - 1);
		host_a64_add(&c->spill_entries, (u64)-1);
	}
	if (!cache_index_add(&sh->spilled, hash, at, bytes, CACHE_MAIN))
		host_a64_add(&c->spill_entries, 1);
	trim_spilled(c, sh);
}

/* The rest of evict(), for a value that is to go to the spill and is in no queue any more. */
static void evict_to_spill(struct ebb_cache *c, struct scratch *s, struct cache_shard *sh, u64 hash,
			   u64 ref, u32 bytes)
{
	bool spilled, mine;
	size_t n;
	u64 at;
	u32 e;

	/* Who replaces or deletes it meanwhile frees it; then this finds another one or none. */
	spilled = !cache_value_read(c, s, ref, &n) &&
		  cache_spill_put(c->spill, hash, s->plain, n, &at);
	host_mutex_lock(&sh->lock);
	e = cache_index_find(&sh->mem, hash);
	mine = e && sh->mem.entry[e - 1].ref == ref;
	if (mine) {
		count_evicted(c, sh, bytes);
		cache_index_remove(&sh->mem, e - 1);
		cache_ghost_add(&sh->mem, hash);
		if (spilled)
			note_spilled(c, sh, hash, at, bytes);
	}
	host_mutex_unlock(&sh->lock);
	if (mine)
		cache_drop(c, s, ref, spilled ? EBB_CACHE_SPILLED : EBB_CACHE_EVICTED);
}

/* Evicts a value of a shard; its bytes, or 0: there is none. */
static u32 evict(struct ebb_cache *c, struct scratch *s, struct cache_shard *sh)
{
	u64 hash, ref;
	u32 e, bytes;

	host_mutex_lock(&sh->lock);
	e = cache_index_victim(&sh->mem);
	if (!e) {
		host_mutex_unlock(&sh->lock);
		return 0;
	}
	hash = sh->mem.entry[e - 1].hash;
	ref = sh->mem.entry[e - 1].ref;
	bytes = cache_mark_bytes(host_read_once(sh->mem.entry[e - 1].mark));
	if (c->spill && !(ref & CACHE_LARGE)) {
		host_mutex_unlock(&sh->lock);
		evict_to_spill(c, s, sh, hash, ref, bytes);
		return bytes;
	}
	count_evicted(c, sh, bytes);
	cache_index_remove(&sh->mem, e - 1);
	cache_ghost_add(&sh->mem, hash);
	host_mutex_unlock(&sh->lock);
	if (c->spill)
		host_a64_add(&c->spill->dropped, 1);
	cache_drop(c, s, ref, EBB_CACHE_EVICTED);
	return bytes;
}

/* The same of the shard whose turn it is, or of the next that has one. */
static u32 evict_next(struct ebb_cache *c, struct scratch *s)
{
	unsigned int i;
	u32 bytes = 0;

	for (i = 0; !bytes && i < CACHE_SHARDS; i++)
		bytes = evict(c, s, &c->shard[host_a64_add(&c->turn, 1) % CACHE_SHARDS]);
	return bytes;
}

/* Pins count from the moment that they are there: the worker would see them when it is late. */
static bool is_full(struct ebb_cache *c)
{
	return host_a64_read(&c->live) + host_a64_read(&c->pinned) >
	       host_read_once(c->live_limit) + host_read_once(c->limit_pinned);
}

void cache_make_room(struct ebb_cache *c, struct scratch *s, u32 bytes)
{
	/* Large ones change more: a few of them fill what the last look left. */
	u64 changes = 1 + bytes / TEND_BYTES, gone = 0;
	unsigned int i;
	u32 n = 1;

	for (i = 0; n && is_full(c) && (i < EVICT_MOST || gone < 2 * (u64)bytes); i++) {
		n = evict_next(c, s);
		gone += n;
	}
	if (host_a64_add(&c->changes, changes) % TEND_CHANGES < changes ||
	    ebb_pool_bytes(c->store) > host_read_once(c->pool_limit))
		host_work_queue_delayed(&c->tend, TEND_US);
}

void cache_make_room_for_pin(struct ebb_cache *c, struct scratch *s, size_t bytes)
{
	if (!is_full(c))
		return;
	cache_make_room(c, s, (u32)bytes);
	/* The pages of what went are to follow, although nobody puts. */
	host_work_queue_delayed(&c->tend, TEND_US);
}

void cache_close_holes_later(struct ebb_cache *c)
{
	if (has_holes(c))
		host_work_queue_delayed(&c->tend, TEND_US);
}

/*
 * What leaves may be of other sizes, and none of its pages come free, even if the holes are
 * closed: a size class keeps a part of a zspage.  Others put meanwhile and take what there is.  So
 * who comes again evicts twice as much: in the end there is nothing but his own value.
 */
bool cache_make_more_room(struct ebb_cache *c, struct scratch *s, size_t bytes, unsigned int times)
{
	u64 want = 2 * (u64)bytes, least = host_read_once(c->capacity) / FAILED_PART, gone = 0;
	u32 n = 1;

	if (want < least)
		want = least;
	want <<= times;
	while (n && gone < want) {
		n = evict_next(c, s);
		gone += n;
	}
	/* Pages count until the system has them. */
	host_mutex_lock(&c->room_lock);
	close_holes(c);
	ebb_trim(c->store, NULL);
	set_limits(c);
	host_mutex_unlock(&c->room_lock);
	return gone != 0;
}

/* ---- another capacity ---- */

#define SHRINK_STEPS 16u

/*
 * Evicts down to a part of the pool's limit, and closes the holes; false: nothing is left.  Tables
 * become smaller with what is in them, and the limit larger: so half may go at once, no more.
 */
static bool shrink(struct ebb_cache *c, struct scratch *s, unsigned int step)
{
	u64 limit = host_read_once(c->live_limit), target = limit - limit / SHRINK_STEPS * step;
	u64 half = host_a64_read(&c->live) / 2;
	u32 n = 1;

	if (target < half && step < SHRINK_STEPS - 1 && host_read_once(c->capacity))
		target = half;

	while (n && host_a64_read(&c->live) > target)
		n = evict_next(c, s);
	host_mutex_lock(&c->room_lock);
	close_holes(c);
	set_limits(c);
	host_mutex_unlock(&c->room_lock);
	return n;
}

/* The table of spilled ones has a part of the capacity, whether or not anything is evicted. */
static void shrink_spilled(struct ebb_cache *c)
{
	unsigned int i;
	bool more;

	for (i = 0; c->spill && i < CACHE_SHARDS; i++)
		do {
			host_mutex_lock(&c->shard[i].lock);
			more = trim_spilled(c, &c->shard[i]);
			host_mutex_unlock(&c->shard[i].lock);
		} while (more);
}

int ebb_cache_set_capacity(struct ebb_cache *c, uint64_t bytes)
{
	struct scratch *s;
	unsigned int step;
	bool smaller;

	if (cache_bad(c) || !cache_may_have(bytes))
		return -EINVAL;
	host_mutex_lock(&c->room_lock);
	smaller = bytes < c->capacity;
	size_notes(c, bytes);
	host_write_once(c->capacity, bytes);
	set_limits(c);
	host_mutex_unlock(&c->room_lock);
	if (!smaller)
		return 0;
	shrink_spilled(c);
	s = scratch_get_surely(&c->blocks);
	for (step = 0; step < SHRINK_STEPS; step++)
		if (ebb_pool_bytes(c->store) <= host_read_once(c->pool_limit) ||
		    !shrink(c, s, step))
			break;
	scratch_put(&c->blocks, s);
	ebb_trim(c->store, NULL);
	host_mutex_lock(&c->room_lock);
	set_limits(c);
	host_mutex_unlock(&c->room_lock);
	return 0;
}
