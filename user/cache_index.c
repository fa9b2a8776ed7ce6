// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cache_index.c - see cache_index.h.
 *
 * Writers change entries between begin() and end(), with relaxed stores; a look compares seq before
 * and after.  A table's memory stays mapped and readable, also where it was given back: a look that
 * is late reads zeros there, and then sees that seq is another one.
 */
#include "cache_index.h"

#include <sys/mman.h>

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
#define MAPPED_BYTES ((size_t)128 << 10)        /* of a table that has pages of its own */

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

static size_t ghost_bytes(u64 sets)
{
	return sets * CACHE_GHOST_WAYS * sizeof(u16);
}

/* The ghost remembers as many as there are entries, or more, so its table has room for the most. */
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
	x->entry = host_user_zalloc_sparse((size_t)most * sizeof(*x->entry));
	x->bucket = host_user_zalloc_sparse((size_t)most * sizeof(*x->bucket));
	if (ghost)
		x->ghost = host_user_zalloc_sparse(ghost_bytes(most_sets(x)));
	if (x->entry && x->bucket && (x->ghost || !ghost))
		return 0;
	cache_index_destroy(x);
	return -ENOMEM;
}

void cache_index_destroy(struct cache_index *x)
{
	host_free(x->entry, (size_t)x->most * sizeof(*x->entry));
	host_free(x->bucket, (size_t)x->most * sizeof(*x->bucket));
	host_free(x->ghost, ghost_bytes(most_sets(x)));
	x->entry = NULL;
	x->bucket = NULL;
	x->ghost = NULL;
}

/* Gives back what is past used bytes of a table, of which so many were touched; false: nothing. */
static bool give_rest(void *table, size_t bytes, size_t used, size_t touched)
{
	uintptr_t from = ((uintptr_t)table + used + HOST_PAGE_MASK) & ~(uintptr_t)HOST_PAGE_MASK;
	uintptr_t to = (uintptr_t)table + touched;

	if (bytes < MAPPED_BYTES || touched - used < GIVE_BYTES || touched - used < touched / 8)
		return false;
	if (from < to)
		madvise((void *)from, (to - from + HOST_PAGE_MASK) & ~(size_t)HOST_PAGE_MASK,
			MADV_DONTNEED);
	return true;
}

static void give_tables(struct cache_index *x)
{
	size_t e = sizeof(*x->entry), b = sizeof(*x->bucket);

	if (give_rest(x->entry, x->most * e, x->entries * e, x->entry_top * e))
		host_write_once(x->entry_top, x->entries);
	if (give_rest(x->bucket, x->most * b, x->buckets * b, x->bucket_top * b))
		host_write_once(x->bucket_top, x->buckets);
}

size_t cache_index_bytes(const struct cache_index *x)
{
	return host_read_once(x->entry_top) * sizeof(*x->entry) +
	       host_read_once(x->bucket_top) * sizeof(*x->bucket) +
	       ghost_bytes(host_read_once(x->ghost_sets));
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
	u32 buckets = host_read_once(x->buckets), e;
	unsigned int steps = 0;
	int err = -ENOENT;

	if (seq & 1)
		return -ESTALE;
	e = host_read_once(x->bucket[bucket_of(buckets, hash)]);
	for (; e && e <= x->most && steps < CHAIN_MOST; steps++) {
		struct cache_entry *entry = &x->entry[e - 1];

		if (host_read_once(entry->hash) == hash) {
			seen->entry = e - 1;
			seen->ref = host_read_once(entry->ref);
			seen->mark = host_read_once(entry->mark);
			err = 0;
			break;
		}
		e = host_read_once(entry->chain);
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
		__atomic_compare_exchange_n(&x->entry[seen->entry].mark, &mark, mark + 1, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- queues ---- */

static void set_mark(struct cache_entry *entry, u32 mark)
{
	__atomic_store_n(&entry->mark, mark, __ATOMIC_RELAXED);
}

static void enqueue(struct cache_index *x, u32 i, u32 bytes, enum cache_queue queue, u32 hits)
{
	struct cache_queue_ends *q = &x->queue[queue];
	struct cache_entry *entry = &x->entry[i];

	entry->newer = 0;
	entry->older = q->newest;
	if (q->newest)
		x->entry[q->newest - 1].newer = i + 1;
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
	struct cache_entry *entry = &x->entry[i];
	u32 mark = host_read_once(entry->mark);
	struct cache_queue_ends *q = &x->queue[queue_of(mark)];

	if (queue_of(mark) == CACHE_NO_QUEUE)
		return 0;
	if (entry->newer)
		x->entry[entry->newer - 1].older = entry->older;
	else
		q->newest = entry->older;
	if (entry->older)
		x->entry[entry->older - 1].newer = entry->newer;
	else
		q->oldest = entry->newer;
	q->entries--;
	q->bytes -= cache_mark_bytes(mark);
	set_mark(entry, mark_of(cache_mark_bytes(mark), CACHE_NO_QUEUE, 0));
	return mark & HITS_MASK;
}

static void requeue(struct cache_index *x, u32 i, enum cache_queue queue, bool keep_hits)
{
	u32 bytes = cache_mark_bytes(host_read_once(x->entry[i].mark));
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
		hits = host_read_once(x->entry[e - 1].mark) & HITS_MASK;
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
	return &x->ghost[((u32)hash & (x->ghost_sets - 1)) * CACHE_GHOST_WAYS];
}

/* Each half knows what the whole knew, and forgets what is not its own in time. */
static void grow_ghost(struct cache_index *x)
{
	memcpy((char *)x->ghost + ghost_bytes(x->ghost_sets), x->ghost, ghost_bytes(x->ghost_sets));
	host_write_once(x->ghost_sets, x->ghost_sets * 2);
}

/* The newer half of both. */
static void shrink_ghost(struct cache_index *x)
{
	u32 half = x->ghost_sets / 2, i, k;

	for (i = 0; i < half; i++) {
		u16 *low = &x->ghost[(size_t)i * CACHE_GHOST_WAYS];
		u16 *high = &x->ghost[(size_t)(i + half) * CACHE_GHOST_WAYS];
		u16 both[CACHE_GHOST_WAYS];

		for (k = 0; k < CACHE_GHOST_WAYS; k++)
			both[k] = k & 1 ? high[k / 2] : low[k / 2];
		memcpy(low, both, sizeof(both));
	}
	give_rest(x->ghost, ghost_bytes(most_sets(x)), ghost_bytes(half), ghost_bytes(half) * 2);
	host_write_once(x->ghost_sets, half);
}

/* One step towards the size that it is to have; false: it has it. */
static bool tend_ghost(struct cache_index *x)
{
	u64 room = (u64)x->ghost_sets * CACHE_GHOST_WAYS;

	if (!x->ghost)
		return false;
	if ((x->entries > room || x->ghost_sets < x->ghost_least) &&
	    x->ghost_sets * 2u <= most_sets(x))
		grow_ghost(x);
	else if (x->entries < room / 4 && x->ghost_sets > x->ghost_least)
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
	host_write_once(x->ghosts, x->ghosts + 1);
	return true;
}

/* ---- the hash ---- */

u32 cache_index_find(struct cache_index *x, u64 hash)
{
	u32 e = x->bucket[bucket_of(x->buckets, hash)];

	while (e && x->entry[e - 1].hash != hash)
		e = x->entry[e - 1].chain;
	return e;
}

/* The word that says entry i. */
static u32 *link_to(struct cache_index *x, u32 i)
{
	u32 *link = &x->bucket[bucket_of(x->buckets, x->entry[i].hash)];

	while (*link != i + 1)
		link = &x->entry[*link - 1].chain;
	return link;
}

static u32 buddy_of(u32 last)
{
	return last - (1u << (31 - (unsigned int)__builtin_clz(last)));
}

/* Takes a bucket apart, or puts the last one back to where it came from; between begin and end. */
static void split(struct cache_index *x)
{
	u32 *stays = &x->bucket[buddy_of(x->buckets)], *goes = &x->bucket[x->buckets];
	u32 e = *stays, n = x->buckets + 1;

	host_write_once(x->buckets, n);
	if (n > x->bucket_top)
		host_write_once(x->bucket_top, n);
	while (e) {
		struct cache_entry *entry = &x->entry[e - 1];
		u32 next = entry->chain;

		if (bucket_of(n, entry->hash) == n - 1) {
			host_write_once(*goes, e);
			goes = &entry->chain;
		} else {
			host_write_once(*stays, e);
			stays = &entry->chain;
		}
		e = next;
	}
	host_write_once(*stays, 0);
	host_write_once(*goes, 0);
}

static void merge(struct cache_index *x)
{
	u32 n = x->buckets - 1, *link = &x->bucket[buddy_of(n)];

	while (*link)
		link = &x->entry[*link - 1].chain;
	host_write_once(*link, x->bucket[n]);
	host_write_once(x->bucket[n], 0);
	host_write_once(x->buckets, n);
}

int cache_index_add(struct cache_index *x, u64 hash, u64 ref, u32 bytes, enum cache_queue queue)
{
	u32 i = x->entries, *bucket;

	if (i == x->most)
		return -ENOSPC;
	begin(x);
	if (i >= x->buckets && x->buckets < x->most)
		split(x);
	bucket = &x->bucket[bucket_of(x->buckets, hash)];
	host_write_once(x->entry[i].hash, hash);
	host_write_once(x->entry[i].ref, ref);
	host_write_once(x->entry[i].chain, *bucket);
	enqueue(x, i, bytes, queue, 0);
	host_write_once(*bucket, i + 1);
	host_write_once(x->entries, i + 1);
	if (x->entries > x->entry_top)
		host_write_once(x->entry_top, x->entries);
	end(x);
	tend_ghost(x);
	return 0;
}

void cache_index_replace(struct cache_index *x, u32 i, u64 ref, u32 bytes)
{
	u32 mark = host_read_once(x->entry[i].mark), hits = mark & HITS_MASK;
	enum cache_queue queue = queue_of(mark);

	begin(x);
	host_write_once(x->entry[i].ref, ref);
	if (queue == CACHE_NO_QUEUE) {
		enqueue(x, i, bytes, CACHE_SMALL, 0);
	} else {
		x->queue[queue].bytes += bytes - (u64)cache_mark_bytes(mark);
		set_mark(&x->entry[i], mark_of(bytes, queue, hits));
	}
	end(x);
}

/* Entry `from', the last, is at `to' from now on. */
static void move(struct cache_index *x, u32 from, u32 to)
{
	struct cache_entry *a = &x->entry[from], *b = &x->entry[to];
	struct cache_queue_ends *q = &x->queue[queue_of(host_read_once(a->mark))];

	host_write_once(*link_to(x, from), to + 1);
	host_write_once(b->hash, a->hash);
	host_write_once(b->ref, a->ref);
	host_write_once(b->chain, a->chain);
	set_mark(b, host_read_once(a->mark));
	b->newer = a->newer;
	b->older = a->older;
	if (queue_of(host_read_once(a->mark)) == CACHE_NO_QUEUE)
		return;
	if (b->newer)
		x->entry[b->newer - 1].older = to + 1;
	else
		q->newest = to + 1;
	if (b->older)
		x->entry[b->older - 1].newer = to + 1;
	else
		q->oldest = to + 1;
}

void cache_index_remove(struct cache_index *x, u32 i)
{
	u32 last = x->entries - 1, k;

	begin(x);
	dequeue(x, i);
	host_write_once(*link_to(x, i), x->entry[i].chain);
	if (i != last)
		move(x, last, i);
	host_write_once(x->entries, last);
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

	for (e = q->newest; e && n <= x->entries; e = x->entry[e - 1].older, n++) {
		if (e > x->entries || x->entry[e - 1].newer != newer)
			return "a queue of the cache is torn";
		if (queue_of(x->entry[e - 1].mark) != queue)
			return "an entry is in another queue than it says";
		bytes += cache_mark_bytes(x->entry[e - 1].mark);
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
		for (e = x->bucket[i]; e; e = x->entry[e - 1].chain) {
			if (e > x->entries || bucket_of(x->buckets, x->entry[e - 1].hash) != i)
				return "a chain has what is not its own";
			if (cache_index_find(x, x->entry[e - 1].hash) != e)
				return "a hash is there twice";
			chained++;
		}
	if (chained != x->entries)
		return "entries in chains != entries";
	for (i = 0; i < x->entries; i++)
		nowhere += queue_of(x->entry[i].mark) == CACHE_NO_QUEUE;
	what = check_queue(x, CACHE_SMALL, &queued);
	if (!what)
		what = check_queue(x, CACHE_MAIN, &queued);
	if (!what && queued + nowhere != x->entries)
		what = "entries in queues != entries";
	return what;
}
