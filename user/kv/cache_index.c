// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cache_index.c - see cache_index.h.
 *
 * Writers change entries between begin() and end(), with relaxed stores; a look compares seq before
 * and after.  A table's memory stays mapped and readable, also where it was given back: a look that
 * is late reads zeros there, and then sees that seq is another one.
 */
#include "cache_index.h"

#define HITS_MOST 3u                    /* of a mark */
#define HITS_MASK 3u
#define QUEUE_SHIFT 2
#define BYTES_SHIFT 4

#define PROMOTE_HITS 1u                 /* in small, that lead to main */
#define SMALL_PART 10u                  /* small has a tenth of the bytes */
#define GHOST_SETS_LEAST (CACHE_INDEX_LEAST / CACHE_GHOST_WAYS)
#define CHAIN_MOST 64u                  /* steps of a look, which may have strayed */

/* Table memory is given back in pieces of this, when an eighth of what was touched is unused. */
#define GIVE_BYTES ((size_t)16 << 10)

static enum cache_queue queue_of(u32 mark)
{
	return (enum cache_queue)(mark >> QUEUE_SHIFT & 3);
}

static u32 mark_of(u32 bytes, enum cache_queue queue, u32 hits)
{
	return bytes << BYTES_SHIFT | (u32)queue << QUEUE_SHIFT | hits;
}

static u32 bucket_of(u32 buckets, u64 hash)
{
	u32 low = (1u << (31 - (unsigned int)__builtin_clz(buckets))) - 1;
	u32 i = (u32)hash & (low << 1 | 1);

	return i < buckets ? i : (u32)hash & low;
}

static struct cache_entry *entry_at(const struct cache_index *x, u32 i)
{
	return cache_index_entry(x, i);
}

static u32 *bucket_at(struct cache_index *x, u32 i)
{
	return grown_at(&x->bucket, i, sizeof(u32));
}

#define SET_BYTES (CACHE_GHOST_WAYS * sizeof(u16))

static u16 *set_at(struct cache_index *x, u32 i)
{
	return grown_at(&x->ghost, i, SET_BYTES);
}

static void begin(struct cache_index *x)
{
	host_a64_set(&x->seq, host_a64_read(&x->seq) + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void end(struct cache_index *x)
{
	host_a64_set_release(&x->seq, host_a64_read(&x->seq) + 1);
}

/* ---- begin and end ---- */

/* The ghost remembers as many as there are entries, or more. */
static u64 most_sets(const struct cache_index *x)
{
	return ((u64)x->most + CACHE_GHOST_WAYS - 1) / CACHE_GHOST_WAYS * 2;
}

int cache_index_init(struct cache_index *x, u32 most, bool ghost)
{
	memset(x, 0, sizeof(*x));
	x->most = most;
	x->buckets = CACHE_INDEX_LEAST;
	x->bucket_top = CACHE_INDEX_LEAST;
	x->ghost_sets = ghost ? GHOST_SETS_LEAST : 0;
	x->ghost_least = x->ghost_sets;
	if (grown_need(&x->entry, 1, sizeof(struct cache_entry)) &&
	    grown_need(&x->bucket, CACHE_INDEX_LEAST, sizeof(u32)) &&
	    grown_need(&x->ghost, x->ghost_sets, SET_BYTES))
		return 0;
	cache_index_destroy(x);
	return -ENOMEM;
}

void cache_index_destroy(struct cache_index *x)
{
	grown_end(&x->entry, sizeof(struct cache_entry));
	grown_end(&x->bucket, sizeof(u32));
	grown_end(&x->ghost, SET_BYTES);
}

/* Gives back what is past the used elements, of those that were touched; false: nothing. */
static bool give_rest(struct grown *g, u32 used, u32 touched, size_t bytes)
{
	u32 rest = touched - used;

	if (rest * bytes < GIVE_BYTES || rest < touched / 8)
		return false;
	grown_give(g, used, touched, bytes);
	return true;
}

static void give_tables(struct cache_index *x)
{
	if (give_rest(&x->entry, x->entries, x->entry_top, sizeof(struct cache_entry)))
		WRITE_ONCE(x->entry_top, x->entries);
	if (give_rest(&x->bucket, x->buckets, x->bucket_top, sizeof(u32)))
		WRITE_ONCE(x->bucket_top, x->buckets);
}

size_t cache_index_bytes(const struct cache_index *x)
{
	return READ_ONCE(x->entry_top) * sizeof(struct cache_entry) +
	       READ_ONCE(x->bucket_top) * sizeof(u32) +
	       READ_ONCE(x->ghost_sets) * SET_BYTES;
}

/* ---- looks, without the lock ---- */

static bool changed(struct cache_index *x, u64 seq)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return host_a64_read(&x->seq) != seq;
}

int cache_index_look(struct cache_index *x, u64 hash, struct cache_seen *seen)
{
	u64 seq = host_a64_read_acquire(&x->seq);
	u32 buckets = READ_ONCE(x->buckets), *bucket, e;
	unsigned int steps = 0;
	int err = -ENOENT;

	bucket = grown_look(&x->bucket, bucket_of(buckets, hash), sizeof(*bucket));
	if (seq & 1 || unlikely(!bucket))
		return -ESTALE;
	e = READ_ONCE(*bucket);
	for (; e && e <= x->most && steps < CHAIN_MOST; steps++) {
		struct cache_entry *entry = grown_look(&x->entry, e - 1, sizeof(*entry));

		/* It is of a part that came after seq was read. */
		if (unlikely(!entry))
			return -ESTALE;
		if (READ_ONCE(entry->hash) == hash) {
			seen->entry = e - 1;
			seen->ref = READ_ONCE(entry->ref);
			seen->mark = READ_ONCE(entry->mark);
			err = 0;
			break;
		}
		e = READ_ONCE(entry->chain);
	}
	if (changed(x, seq))
		return -ESTALE;
	/* A chain that long is there only if hashes were chosen; the lock has time for it. */
	return steps == CHAIN_MOST ? -ESTALE : err;
}

void cache_index_hit(struct cache_index *x, const struct cache_seen *seen)
{
	u32 mark = seen->mark;

	if ((mark & HITS_MASK) < HITS_MOST)
		__atomic_compare_exchange_n(&cache_index_entry(x, seen->entry)->mark, &mark,
					    mark + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- queues ---- */

static void set_mark(struct cache_entry *entry, u32 mark)
{
	__atomic_store_n(&entry->mark, mark, __ATOMIC_RELAXED);
}

static void enqueue(struct cache_index *x, u32 i, u32 bytes, enum cache_queue queue, u32 hits)
{
	struct cache_queue_ends *q = &x->queue[queue];
	struct cache_entry *entry = entry_at(x, i);

	entry->newer = 0;
	entry->older = q->newest;
	if (q->newest)
		entry_at(x, q->newest - 1)->newer = i + 1;
	else
		q->oldest = i + 1;
	q->newest = i + 1;
	q->entries++;
	q->bytes += bytes;
	set_mark(entry, mark_of(bytes, queue, hits));
}

/* Takes an entry out of its queue, if it is in one.  Returns the hits that it had. */
static u32 dequeue(struct cache_index *x, u32 i)
{
	struct cache_entry *entry = entry_at(x, i);
	u32 mark = READ_ONCE(entry->mark);
	struct cache_queue_ends *q = &x->queue[queue_of(mark)];

	if (queue_of(mark) == CACHE_NO_QUEUE)
		return 0;
	if (entry->newer)
		entry_at(x, entry->newer - 1)->older = entry->older;
	else
		q->newest = entry->older;
	if (entry->older)
		entry_at(x, entry->older - 1)->newer = entry->newer;
	else
		q->oldest = entry->newer;
	q->entries--;
	q->bytes -= cache_mark_bytes(mark);
	set_mark(entry, mark_of(cache_mark_bytes(mark), CACHE_NO_QUEUE, 0));
	return mark & HITS_MASK;
}

static void requeue(struct cache_index *x, u32 i, enum cache_queue queue, bool keep_hits)
{
	u32 bytes = cache_mark_bytes(READ_ONCE(entry_at(x, i)->mark));
	u32 hits = dequeue(x, i);

	enqueue(x, i, bytes, queue, keep_hits && hits ? hits - 1 : 0);
}

static enum cache_queue next_queue(const struct cache_index *x)
{
	const struct cache_queue_ends *small = &x->queue[CACHE_SMALL], *all = &x->queue[CACHE_MAIN];

	return small->oldest && (!all->oldest ||
				 small->bytes > (small->bytes + all->bytes) / SMALL_PART) ?
	       CACHE_SMALL : CACHE_MAIN;
}

u32 cache_index_victim(struct cache_index *x)
{
	unsigned int steps;
	u32 e = 0;

	for (steps = 0; steps < CACHE_VICTIM_STEPS; steps++) {
		enum cache_queue queue = next_queue(x);
		u32 hits;

		e = x->queue[queue].oldest;
		if (!e)
			return 0;
		hits = READ_ONCE(entry_at(x, e - 1)->mark) & HITS_MASK;
		if (steps + 1 == CACHE_VICTIM_STEPS ||
		    (queue == CACHE_SMALL ? hits < PROMOTE_HITS : !hits))
			break;
		requeue(x, e - 1, CACHE_MAIN, queue == CACHE_MAIN);
	}
	dequeue(x, e - 1);
	return e;
}

/* ---- the ghost ---- */

/*
 * Bits of a hash that its set does not say; never 0.  One in 4,096 that was never there is taken
 * for one that was, which costs its bytes for a while.
 */
static u16 print_of(u64 hash)
{
	return (u16)(hash >> 28) | 1;
}

static u16 *set_of(struct cache_index *x, u64 hash)
{
	return set_at(x, (u32)hash & (x->ghost_sets - 1));
}

/*
 * Each half knows what the whole knew, and forgets what is not its own in time.  False: there is no
 * memory, and it stays as it is.
 */
static bool grow_ghost(struct cache_index *x)
{
	u32 half = x->ghost_sets, i;

	if (!grown_need(&x->ghost, 2 * half, SET_BYTES))
		return false;
	for (i = 0; i < half; i++)
		memcpy(set_at(x, half + i), set_at(x, i), SET_BYTES);
	WRITE_ONCE(x->ghost_sets, 2 * half);
	return true;
}

/* The newer half of both. */
static void shrink_ghost(struct cache_index *x)
{
	u32 half = x->ghost_sets / 2, i, k;

	for (i = 0; i < half; i++) {
		u16 *low = set_at(x, i), *high = set_at(x, i + half);
		u16 both[CACHE_GHOST_WAYS];

		for (k = 0; k < CACHE_GHOST_WAYS; k++)
			both[k] = k & 1 ? high[k / 2] : low[k / 2];
		memcpy(low, both, sizeof(both));
	}
	give_rest(&x->ghost, half, 2 * half, SET_BYTES);
	WRITE_ONCE(x->ghost_sets, half);
}

/* One step towards the size that it is to have; false: it has it. */
static bool tend_ghost(struct cache_index *x)
{
	u64 room = (u64)x->ghost_sets * CACHE_GHOST_WAYS;

	if (!x->ghost_sets)
		return false;
	if ((x->entries > room || x->ghost_sets < x->ghost_least) &&
	    x->ghost_sets * 2u <= most_sets(x))
		return grow_ghost(x);
	if (x->entries < room / 4 && x->ghost_sets > x->ghost_least)
		shrink_ghost(x);
	else
		return false;
	return true;
}

void cache_ghost_keep(struct cache_index *x, u64 n)
{
	u32 sets = GHOST_SETS_LEAST;

	while ((u64)sets * CACHE_GHOST_WAYS < n && sets * 2u <= most_sets(x))
		sets *= 2;
	x->ghost_least = sets;
	while (tend_ghost(x))
		;
}

void cache_ghost_add(struct cache_index *x, u64 hash)
{
	u16 *set = set_of(x, hash);

	memmove(set + 1, set, (CACHE_GHOST_WAYS - 1) * sizeof(*set));
	set[0] = print_of(hash);
}

bool cache_ghost_take(struct cache_index *x, u64 hash)
{
	u16 *set = set_of(x, hash), print = print_of(hash);
	unsigned int i;

	for (i = 0; i < CACHE_GHOST_WAYS && set[i] != print; i++)
		;
	if (i == CACHE_GHOST_WAYS)
		return false;
	memmove(set + i, set + i + 1, (CACHE_GHOST_WAYS - 1 - i) * sizeof(*set));
	set[CACHE_GHOST_WAYS - 1] = 0;
	WRITE_ONCE(x->ghosts, x->ghosts + 1);
	return true;
}

/* ---- the hash ---- */

u32 cache_index_find(struct cache_index *x, u64 hash)
{
	u32 e = *bucket_at(x, bucket_of(x->buckets, hash));

	while (e && entry_at(x, e - 1)->hash != hash)
		e = entry_at(x, e - 1)->chain;
	return e;
}

/* The word that says entry i. */
static u32 *link_to(struct cache_index *x, u32 i)
{
	u32 *link = bucket_at(x, bucket_of(x->buckets, entry_at(x, i)->hash));

	while (*link != i + 1)
		link = &entry_at(x, *link - 1)->chain;
	return link;
}

static u32 buddy_of(u32 last)
{
	return last - (1u << (31 - (unsigned int)__builtin_clz(last)));
}

/* Takes a bucket apart, or puts the last one back to where it came from; between begin and end. */
static void split(struct cache_index *x)
{
	u32 *stays = bucket_at(x, buddy_of(x->buckets)), *goes = bucket_at(x, x->buckets);
	u32 e = *stays, n = x->buckets + 1;

	WRITE_ONCE(x->buckets, n);
	if (n > x->bucket_top)
		WRITE_ONCE(x->bucket_top, n);
	while (e) {
		struct cache_entry *entry = entry_at(x, e - 1);
		u32 next = entry->chain;

		if (bucket_of(n, entry->hash) == n - 1) {
			WRITE_ONCE(*goes, e);
			goes = &entry->chain;
		} else {
			WRITE_ONCE(*stays, e);
			stays = &entry->chain;
		}
		e = next;
	}
	WRITE_ONCE(*stays, 0);
	WRITE_ONCE(*goes, 0);
}

static void merge(struct cache_index *x)
{
	u32 n = x->buckets - 1, *link = bucket_at(x, buddy_of(n)), *last = bucket_at(x, n);

	while (*link)
		link = &entry_at(x, *link - 1)->chain;
	WRITE_ONCE(*link, *last);
	WRITE_ONCE(*last, 0);
	WRITE_ONCE(x->buckets, n);
}

int cache_index_add(struct cache_index *x, u64 hash, u64 ref, u32 bytes, enum cache_queue queue)
{
	struct cache_entry *entry;
	u32 i = x->entries, *bucket;
	bool more;

	if (i == x->most)
		return -ENOSPC;
	if (!grown_need(&x->entry, i + 1, sizeof(*entry)))
		return -ENOMEM;
	/* Without memory for a bucket more chains are longer. */
	more = i >= x->buckets && x->buckets < x->most &&
	       grown_need(&x->bucket, x->buckets + 1, sizeof(*bucket));
	begin(x);
	if (more)
		split(x);
	bucket = bucket_at(x, bucket_of(x->buckets, hash));
	entry = entry_at(x, i);
	WRITE_ONCE(entry->hash, hash);
	WRITE_ONCE(entry->ref, ref);
	WRITE_ONCE(entry->chain, *bucket);
	enqueue(x, i, bytes, queue, 0);
	WRITE_ONCE(*bucket, i + 1);
	WRITE_ONCE(x->entries, i + 1);
	if (x->entries > x->entry_top)
		WRITE_ONCE(x->entry_top, x->entries);
	end(x);
	tend_ghost(x);
	return 0;
}

void cache_index_replace(struct cache_index *x, u32 i, u64 ref, u32 bytes)
{
	u32 mark = READ_ONCE(entry_at(x, i)->mark), hits = mark & HITS_MASK;
	enum cache_queue queue = queue_of(mark);

	begin(x);
	WRITE_ONCE(entry_at(x, i)->ref, ref);
	if (queue == CACHE_NO_QUEUE) {
		enqueue(x, i, bytes, CACHE_SMALL, 0);
	} else {
		x->queue[queue].bytes += bytes - (u64)cache_mark_bytes(mark);
		set_mark(entry_at(x, i), mark_of(bytes, queue, hits));
	}
	end(x);
}

/* Entry `from', the last, is at `to' from now on. */
static void move(struct cache_index *x, u32 from, u32 to)
{
	struct cache_entry *a = entry_at(x, from), *b = entry_at(x, to);
	struct cache_queue_ends *q = &x->queue[queue_of(READ_ONCE(a->mark))];

	WRITE_ONCE(*link_to(x, from), to + 1);
	WRITE_ONCE(b->hash, a->hash);
	WRITE_ONCE(b->ref, a->ref);
	WRITE_ONCE(b->chain, a->chain);
	set_mark(b, READ_ONCE(a->mark));
	b->newer = a->newer;
	b->older = a->older;
	if (queue_of(READ_ONCE(a->mark)) == CACHE_NO_QUEUE)
		return;
	if (b->newer)
		entry_at(x, b->newer - 1)->older = to + 1;
	else
		q->newest = to + 1;
	if (b->older)
		entry_at(x, b->older - 1)->newer = to + 1;
	else
		q->oldest = to + 1;
}

void cache_index_remove(struct cache_index *x, u32 i)
{
	u32 last = x->entries - 1, k;

	begin(x);
	dequeue(x, i);
	WRITE_ONCE(*link_to(x, i), entry_at(x, i)->chain);
	if (i != last)
		move(x, last, i);
	WRITE_ONCE(x->entries, last);
	for (k = 0; k < 2 && x->buckets > CACHE_INDEX_LEAST && x->entries < x->buckets / 2; k++)
		merge(x);
	give_tables(x);
	end(x);
	tend_ghost(x);
}

/* ---- the check ---- */

static const char *check_queue(struct cache_index *x, enum cache_queue queue, u32 *entries)
{
	const struct cache_queue_ends *q = &x->queue[queue];
	u32 e, newer = 0, n = 0;
	u64 bytes = 0;

	for (e = q->newest; e && n <= x->entries; e = entry_at(x, e - 1)->older, n++) {
		if (e > x->entries || entry_at(x, e - 1)->newer != newer)
			return "a queue of the cache is torn";
		if (queue_of(entry_at(x, e - 1)->mark) != queue)
			return "an entry is in another queue than it says";
		bytes += cache_mark_bytes(entry_at(x, e - 1)->mark);
		newer = e;
	}
	*entries += n;
	return newer != q->oldest || n != q->entries || bytes != q->bytes ?
	       "what is in a queue != what is counted" : NULL;
}

const char *cache_index_check(struct cache_index *x)
{
	u32 i, e, chained = 0, queued = 0, nowhere = 0;
	const char *what;

	for (i = 0; i < x->buckets; i++)
		for (e = *bucket_at(x, i); e; e = entry_at(x, e - 1)->chain) {
			if (e > x->entries || bucket_of(x->buckets, entry_at(x, e - 1)->hash) != i)
				return "a chain has what is not its own";
			if (cache_index_find(x, entry_at(x, e - 1)->hash) != e)
				return "a hash is there twice";
			chained++;
		}
	if (chained != x->entries)
		return "entries in chains != entries";
	for (i = 0; i < x->entries; i++)
		nowhere += queue_of(entry_at(x, i)->mark) == CACHE_NO_QUEUE;
	what = check_queue(x, CACHE_SMALL, &queued);
	if (!what)
		what = check_queue(x, CACHE_MAIN, &queued);
	if (!what && queued + nowhere != x->entries)
		what = "entries in queues != entries";
	return what;
}
