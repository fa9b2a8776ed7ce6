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
 * and closes the holes when they may be many.  Where it is late, since the machine has no CPU for
 * it, a put compares them: tables grow with each.  What a put finds beyond that is the pool's own
 * limit, a little above; then it evicts more and closes the holes itself, or fails.
 *
 * Frees are synchronous here: each makes room for the put that caused it.
 */
#include "cache.h"

#include <errno.h>

#include "api/ebb_in.h"
#include "home/futex.h"

#define TEND_US 2000u                   /* least time between two looks of the worker */
#define TEND_CHANGES 64u                /* puts that ask for a look */
#define TEND_BYTES 8192u                /* of a put that counts for one more */
#define LATE_BYTES ((u64)8 << 10)       /* of the capacity, for each put that the worker is late */
#define EVICT_MOST 16u                  /* values that a put evicts, if they have its bytes twice */
#define TRIM_MOST 64u                   /* values that leave the table of spilled ones at once */
#define FAILED_PART 256u                /* of the capacity, evicted when a put has failed */
#define HOLES_PART 16u                  /* of the pool that left since a compaction */
#define SPARSE_PART 16u                 /* of what entries have, that the pool has more */
#define SMALL_PART 128u                 /* of the most that the pool may have */
#define SLACK_PART 64u                  /* of the capacity: the pool may have more */
#define OTHER_BYTES ((u64)384 << 10)    /* measured: stacks of workers, what malloc rounds up */
#define NOTE_BYTES 1024u                /* of the capacity, for each key that may be noted */
#define CONTEXTS_PART 8u                /* of the contexts that are too many */
#define TURN_WAIT_NS 10000000u           /* of a value of a block, for who has the cache alone */
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

void cache_usage(struct ebb_cache *c, struct cache_usage *u)
{
	struct ebb_stat store = { .struct_size = sizeof(store) };

	ebb_stat(c->store, &store);
	u->pool = store.mem_used_total;
	u->idle = store.zone_free_bytes + (store.pcp_pages << PAGE_SHIFT);
	u->index = index_bytes(c);
	u->meta = store.meta_bytes + blocks_meta_bytes(&c->blocks) + sizeof(*c) +
		  blocks_contexts(&c->blocks) * blocks_context_bytes(&c->blocks) +
		  (c->spill ? cache_spill_bytes() : 0) + cache_dict_bytes(c) +
		  host_a64_read(&c->notes) + host_a64_read(&c->pins.idle) + OTHER_BYTES;
	u->pinned = host_a64_read(&c->pins.used);
}

/*
 * What scratches may take: half of the capacity, but for the dictionary.  What is left is room for
 * a value of the size that a put takes.  Not 0, which is no limit.
 */
static u64 scratch_room(struct ebb_cache *c, u64 capacity)
{
	u64 half = capacity / 2, dictionary = cache_dict_bytes(c);

	return half > dictionary ? half - dictionary : 1;
}

static u64 contexts_most(struct ebb_cache *c)
{
	u64 n = scratch_room(c, READ_ONCE(c->capacity)) / blocks_scratch_bytes(&c->blocks);

	return n ? n : 1;
}

/*
 * Contexts are made where there is room: where left bytes are, and these are kept free for them.
 * Returns how many are to be kept free, which the pool may still have.
 */
static u64 room_for_contexts(struct ebb_cache *c, u64 left) __must_hold(&c->room_lock)
{
	u64 now = blocks_contexts(&c->blocks), most = contexts_most(c), more;
	u64 each = blocks_scratch_bytes(&c->blocks), bytes;

	if (c->contexts > most)
		c->contexts = most;
	more = c->contexts > now ? (c->contexts - now) * each : 0;
	bytes = (now < most ? now : most) * each + (more < left ? more : left);
	blocks_set_room(&c->blocks, bytes ? bytes : 1);
	return more;
}

/* Threads that take turns make and end contexts all the time: their room goes a little later. */
static void keep_less_for_contexts(struct ebb_cache *c) __must_hold(&c->room_lock)
{
	u64 now = blocks_contexts(&c->blocks);

	if (c->contexts > now)
		c->contexts -= (c->contexts - now + CONTEXTS_PART - 1) / CONTEXTS_PART;
}

static u64 idle_most(u64 capacity)
{
	return capacity / IDLE_PART + IDLE_LEAST;
}

static u64 in_bounds(u64 n, u64 least, u64 most)
{
	return n < least ? least : n > most ? most : n;
}

/* Looks how much there is, and sets the limits. */
static void set_limits(struct ebb_cache *c) __must_hold(&c->room_lock)
{
	u64 capacity = c->capacity, live = host_a64_read(&c->live), overhead, limit, hard;
	u64 idle = idle_most(capacity), used;
	struct cache_usage u;

	WRITE_ONCE(c->looked, host_a64_read(&c->changes));
	cache_usage(c, &u);
	overhead = u.index + u.meta + u.pinned + (u.idle < idle ? u.idle : idle);
	used = overhead + u.pool;
	overhead += room_for_contexts(c, capacity > used ? capacity - used : 0);
	hard = capacity > overhead ? capacity - overhead : 0;
	limit = hard > capacity / SLACK_PART ? hard - capacity / SLACK_PART : 0;
	WRITE_ONCE(c->pool_limit, limit);
	/*
	 * Where there is more than there may be, it does not grow, and comes down as its pages come
	 * free: puts that fill holes go on meanwhile.  0 would be no limit.
	 */
	if (hard < u.pool && capacity)
		hard = u.pool;
	ebb_set_mem_limit(c->store, hard > PAGE_SIZE ? hard : PAGE_SIZE);
	/* Half a share at least, so that few puts trim: then there is a half of one too much. */
	WRITE_ONCE(c->taken_limit, hard + in_bounds(u.idle, idle / 2, idle));
	/* What is left is for values that nobody is to wait for. */
	WRITE_ONCE(c->large_limit, hard - hard / SMALL_PART);
	if (live && u.pool >= limit / 8 * 7)
		limit = (u64)((double)limit * (double)live / (double)u.pool);
	WRITE_ONCE(c->live_limit, limit);
	WRITE_ONCE(c->limit_pinned, u.pinned);
	if (u.idle > idle)
		ebb_trim(c->store, NULL);
}

/* A full pool is to have more in it; one of which much was deleted is to have fewer pages. */
static bool has_holes(struct ebb_cache *c)
{
	u64 limit = READ_ONCE(c->pool_limit), left = READ_ONCE(c->left_bytes);
	u64 pool = ebb_pool_bytes(c->store), live = host_a64_read(&c->live);

	return pool > limit ? left > limit / HOLES_PART :
	       left > pool / HOLES_PART && pool > live + live / SPARSE_PART;
}

static void close_holes(struct ebb_cache *c) __must_hold(&c->room_lock)
{
	WRITE_ONCE(c->left_bytes, (u64)0);
	ebb_compact(c->store, NULL);
}

/* Pages count until the system has them. */
static void give_pages(struct ebb_cache *c)
{
	mutex_lock(&c->room_lock);
	close_holes(c);
	ebb_trim(c->store, NULL);
	set_limits(c);
	mutex_unlock(&c->room_lock);
}

static void cache_tend(struct host_work *w)
{
	struct ebb_cache *c = (struct ebb_cache *)((char *)w - offsetof(struct ebb_cache, tend));

	mutex_lock(&c->room_lock);
	keep_less_for_contexts(c);
	/* What counts may have become more since. */
	set_limits(c);
	if (has_holes(c)) {
		close_holes(c);
		set_limits(c);
	}
	mutex_unlock(&c->room_lock);
}

/*
 * Who stores what was noted needs a ghost of the size that the cache will have, not of what it has:
 * an empty one would forget each key before it comes again.
 */
static void size_notes(struct ebb_cache *c, u64 capacity)
{
	unsigned int i;

	for (i = 0; c->flags & EBB_CACHE_SECOND_MISS && i < CACHE_SHARDS; i++) {
		mutex_lock(&c->shard[i].lock);
		cache_ghost_keep(&c->shard[i].mem, capacity / NOTE_BYTES / CACHE_SHARDS);
		mutex_unlock(&c->shard[i].lock);
	}
}

int cache_room_init(struct ebb_cache *c, u64 capacity)
{
	int err = host_work_init(&c->tend, cache_tend, 0);

	if (err)
		return err;
	mutex_init(&c->room_lock);
	mutex_init(&c->turns.lock);
	size_notes(c, capacity);
	mutex_lock(&c->room_lock);
	WRITE_ONCE(c->capacity, capacity);
	set_limits(c);
	mutex_unlock(&c->room_lock);
	return 0;
}

void cache_room_destroy(struct ebb_cache *c)
{
	host_work_destroy(&c->tend);
	mutex_destroy(&c->room_lock);
	mutex_destroy(&c->turns.lock);
}

/* ---- turns ---- */

/* Until is ktime_get_ns() time, or HOST_USER_NO_WAKE.  False: it has come. */
static bool wait_for_turn(struct cache_turn *t, u64 until) __must_hold(&t->lock)
{
	u32 bell = t->bell;

	if (until != HOST_USER_NO_WAKE && ktime_get_ns() >= until)
		return false;
	t->waiters++;
	mutex_unlock(&t->lock);
	futex_wait_until(&t->bell, bell, until);
	mutex_lock(&t->lock);
	t->waiters--;
	return true;
}

static void tell_waiters(struct cache_turn *t) __must_hold(&t->lock)
{
	if (!t->waiters)
		return;
	WRITE_ONCE(t->bell, t->bell + 1);
	futex_wake(&t->bell, INT_MAX);
}

/* A value of one block is stored in no time, and can be evicted then. */
static void enter_small(struct cache_turn *t)
{
	u64 until;

	if (likely(!READ_ONCE(t->seek)))
		return;
	until = ktime_get_ns() + TURN_WAIT_NS;
	mutex_lock(&t->lock);
	while (t->seek && wait_for_turn(t, until))
		;
	mutex_unlock(&t->lock);
}

static void seek_no_more(struct cache_turn *t) __must_hold(&t->lock)
{
	WRITE_ONCE(t->seek, t->seek - 1);
	tell_waiters(t);
}

u64 cache_turn_enter(struct ebb_cache *c, size_t bytes)
{
	struct cache_turn *t = &c->turns;
	u64 most = READ_ONCE(c->capacity) / CACHE_VALUE_PART;
	u64 n = bytes < most ? bytes : most;

	if (bytes <= BLOCK_BYTES) {
		enter_small(t);
		return 0;
	}
	mutex_lock(&t->lock);
	while (t->seek || (t->coming && t->coming + n > READ_ONCE(c->pool_limit) / 2) ||
	       (t->coming && t->putters + 1 >= contexts_most(c)))
		wait_for_turn(t, HOST_USER_NO_WAKE);
	t->coming += n;
	t->putters++;
	mutex_unlock(&t->lock);
	return n;
}

void cache_turn_leave(struct ebb_cache *c, u64 entered)
{
	struct cache_turn *t = &c->turns;

	if (!entered)
		return;
	mutex_lock(&t->lock);
	t->coming -= entered;
	t->putters--;
	tell_waiters(t);
	mutex_unlock(&t->lock);
}

bool cache_turn_enter_alone(struct ebb_cache *c, bool patient)
{
	u64 until = patient ? HOST_USER_NO_WAKE : ktime_get_ns() + TURN_WAIT_NS;
	struct cache_turn *t = &c->turns;
	bool alone;

	mutex_lock(&t->lock);
	WRITE_ONCE(t->seek, t->seek + 1);
	while ((t->alone || t->coming) && wait_for_turn(t, until))
		;
	alone = !t->alone && !t->coming;
	if (alone)
		t->alone = true;
	else
		seek_no_more(t);
	mutex_unlock(&t->lock);
	return alone;
}

void cache_turn_leave_alone(struct ebb_cache *c)
{
	struct cache_turn *t = &c->turns;

	mutex_lock(&t->lock);
	t->alone = false;
	seek_no_more(t);
	mutex_unlock(&t->lock);
}

/* ---- what leaves ---- */

void cache_drop(struct ebb_cache *c, struct scratch *s, u64 ref, enum ebb_cache_why why)
{
	size_t n;

	if (c->gone && !cache_value_read(c, s, ref, &n))
		cache_call_note(s, n, why);
	cache_value_free(c, s, ref);
}

/* ---- evicting ---- */

static void count_evicted(struct ebb_cache *c, struct cache_shard *sh, u32 bytes)
	__must_hold(&sh->lock)
{
	host_a64_add(&c->live, -(u64)bytes);
	host_a64_add(&sh->counts.evicted, 1);
	cache_count_left(c, bytes);
}

/*
 * The oldest of a shard's spilled ones go: they are overwritten, or their table is too large.
 * At most TRIM_MOST of them; true: there may be more.
 */
static bool trim_spilled(struct ebb_cache *c, struct cache_shard *sh) __must_hold(&sh->lock)
{
	u64 most = READ_ONCE(c->capacity) / CACHE_SPILL_INDEX_PART / CACHE_SHARDS;
	unsigned int i;
	u64 at;
	u32 e;

	for (i = 0; i < TRIM_MOST; i++) {
		e = cache_index_oldest(&sh->spilled, CACHE_MAIN);
		if (!e)
			return false;
		at = cache_index_entry(&sh->spilled, e - 1)->ref;
		if (cache_spill_has(c->spill, at) &&
		    sh->spilled.entries * sizeof(struct cache_entry) <= most)
			return false;
		cache_index_remove(&sh->spilled, e - 1);
		host_a64_add(&c->spill_entries, (u64)-1);
	}
	return true;
}

static void note_spilled(struct ebb_cache *c, struct cache_shard *sh, u64 hash, u64 at, u32 bytes)
	__must_hold(&sh->lock)
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
	mutex_lock(&sh->lock);
	e = cache_index_find(&sh->mem, hash);
	mine = e && cache_index_entry(&sh->mem, e - 1)->ref == ref;
	if (mine) {
		count_evicted(c, sh, bytes);
		cache_index_remove(&sh->mem, e - 1);
		cache_ghost_add(&sh->mem, hash);
		if (spilled)
			note_spilled(c, sh, hash, at, bytes);
	}
	mutex_unlock(&sh->lock);
	if (mine)
		cache_drop(c, s, ref, spilled ? EBB_CACHE_SPILLED : EBB_CACHE_EVICTED);
}

/* Evicts a value of a shard; its bytes, or 0: there is none, or no memory to note it. */
static u32 evict(struct ebb_cache *c, struct scratch *s, struct cache_shard *sh)
{
	u64 hash, ref;
	u32 e, bytes;

	if (!cache_call_may_evict(c))
		return 0;
	mutex_lock(&sh->lock);
	e = cache_index_victim(&sh->mem);
	if (!e) {
		mutex_unlock(&sh->lock);
		return 0;
	}
	hash = cache_index_entry(&sh->mem, e - 1)->hash;
	ref = cache_index_entry(&sh->mem, e - 1)->ref;
	bytes = cache_mark_bytes(READ_ONCE(cache_index_entry(&sh->mem, e - 1)->mark));
	if (c->spill && !(ref & CACHE_LARGE)) {
		mutex_unlock(&sh->lock);
		evict_to_spill(c, s, sh, hash, ref, bytes);
		return bytes;
	}
	count_evicted(c, sh, bytes);
	cache_index_remove(&sh->mem, e - 1);
	cache_ghost_add(&sh->mem, hash);
	mutex_unlock(&sh->lock);
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
	return host_a64_read(&c->live) + host_a64_read(&c->pins.used) >
	       READ_ONCE(c->live_limit) + READ_ONCE(c->limit_pinned);
}

/*
 * More free pages than there may be go now, not at the next look.  gone bytes of large ones leave
 * them.  So do puts on one CPU with frees on another: the one's list gets pages from the system
 * while the other's is full, and the pool is no larger for it.  The worker may have no CPU then.
 */
static void trim_idle(struct ebb_cache *c, u64 gone)
{
	u64 most = idle_most(READ_ONCE(c->capacity));
	bool taken = ebb_taken_bytes(c->store) > READ_ONCE(c->taken_limit);
	struct cache_usage u;

	if (likely(!taken && gone <= most))
		return;
	cache_usage(c, &u);
	/* A pool within its limit leaves a half at least, if more than taken_limit was taken. */
	if (u.idle > (taken ? most / 2 : most))
		ebb_trim(c->store, NULL);
}

/* Between two looks tables grow by 1/128 of the capacity: an entry with its bucket has 64 bytes. */
static void look_for_the_worker(struct ebb_cache *c, u64 changes)
{
	u64 late = READ_ONCE(c->looked) + READ_ONCE(c->capacity) / LATE_BYTES;

	/* Somebody may have looked since the caller counted. */
	if (likely(changes < late) ||
	    !mutex_trylock(&c->room_lock))
		return;
	set_limits(c);
	mutex_unlock(&c->room_lock);
}

void cache_make_room(struct ebb_cache *c, struct scratch *s, u32 bytes)
{
	/* Large ones change more: a few of them fill what the last look left. */
	u64 changes = 1 + bytes / TEND_BYTES, gone = 0, all;
	unsigned int i;
	u32 n = 1;

	for (i = 0; n && is_full(c) && (i < EVICT_MOST || gone < 2 * (u64)bytes); i++) {
		n = evict_next(c, s);
		gone += n;
	}
	trim_idle(c, gone);
	all = host_a64_add(&c->changes, changes);
	look_for_the_worker(c, all);
	if (all % TEND_CHANGES < changes ||
	    ebb_pool_bytes(c->store) > READ_ONCE(c->pool_limit))
		host_work_queue_delayed(&c->tend, TEND_US);
}

/* With the reserve, for one context more than there are. */
static void make_room_for_scratch(struct ebb_cache *c, struct scratch *reserve)
{
	u64 gone = 0, want = 2 * blocks_scratch_bytes(&c->blocks), more;
	u32 n = 1;

	mutex_lock(&c->room_lock);
	more = blocks_contexts(&c->blocks) + 1;
	if (c->contexts < more)
		c->contexts = more;
	set_limits(c);
	mutex_unlock(&c->room_lock);
	for (; n && is_full(c) && gone < want; gone += n)
		n = evict_next(c, reserve);
	if (blocks_scratches_most(&c->blocks) < more)
		give_pages(c);
}

struct scratch *cache_scratch_get(struct ebb_cache *c)
{
	struct scratch *s = scratch_get_now(&c->blocks), *reserve;

	if (likely(s != NULL))
		return s;
	if (blocks_contexts(&c->blocks) < contexts_most(c)) {
		reserve = scratch_get_reserve(&c->blocks);
		s = scratch_get_now(&c->blocks);
		if (!s)
			make_room_for_scratch(c, reserve);
		scratch_put(&c->blocks, reserve);
	}
	return s ? s : scratch_get(&c->blocks);
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
 * closed: a size class keeps a part of a zspage.  So who comes again evicts twice as much: in the
 * end there is nothing but his own value.
 */
bool cache_make_more_room(struct ebb_cache *c, struct scratch *s, size_t bytes, unsigned int times)
{
	u64 want = 2 * (u64)bytes, least = READ_ONCE(c->capacity) / FAILED_PART, gone = 0;
	u32 n = 1;

	if (want < least)
		want = least;
	want <<= times;
	while (n && gone < want) {
		n = evict_next(c, s);
		gone += n;
	}
	give_pages(c);
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
	u64 limit = READ_ONCE(c->live_limit), target = limit - limit / SHRINK_STEPS * step;
	u64 half = host_a64_read(&c->live) / 2;
	u32 n = 1;

	if (target < half && step < SHRINK_STEPS - 1 && READ_ONCE(c->capacity))
		target = half;

	while (n && host_a64_read(&c->live) > target)
		n = evict_next(c, s);
	mutex_lock(&c->room_lock);
	close_holes(c);
	set_limits(c);
	mutex_unlock(&c->room_lock);
	return n;
}

/* The table of spilled ones has a part of the capacity, whether or not anything is evicted. */
static void shrink_spilled(struct ebb_cache *c)
{
	unsigned int i;
	bool more;

	for (i = 0; c->spill && i < CACHE_SHARDS; i++)
		do {
			mutex_lock(&c->shard[i].lock);
			more = trim_spilled(c, &c->shard[i]);
			mutex_unlock(&c->shard[i].lock);
		} while (more);
}

int ebb_cache_set_capacity(struct ebb_cache *c, uint64_t bytes)
{
	struct cache_call call;
	struct scratch *s;
	unsigned int step;
	bool smaller;

	if (cache_bad(c) || !cache_may_have(bytes))
		return -EINVAL;
	mutex_lock(&c->room_lock);
	smaller = bytes < c->capacity;
	size_notes(c, bytes);
	WRITE_ONCE(c->capacity, bytes);
	set_limits(c);
	mutex_unlock(&c->room_lock);
	if (!smaller)
		return 0;
	cache_dict_fit(c);
	shrink_spilled(c);
	cache_call_begin(c, &call);
	s = scratch_get_surely(&c->blocks);
	for (step = 0; step < SHRINK_STEPS; step++)
		if (ebb_pool_bytes(c->store) <= READ_ONCE(c->pool_limit) ||
		    !shrink(c, s, step))
			break;
	scratch_put(&c->blocks, s);
	ebb_trim(c->store, NULL);
	mutex_lock(&c->room_lock);
	set_limits(c);
	mutex_unlock(&c->room_lock);
	cache_call_end(&call);
	return 0;
}
