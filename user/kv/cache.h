/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cache.h - inside of struct ebb_cache: what cache.c, cache_data.c, cache_dict.c, cache_room.c,
 * cache_gone.c and cache_all.c share.
 *
 *     key --hash--> shard --cache_index.h--> reference --block.h--> | head | key | packed bytes |
 *                                                        large:     | head | key | references   |
 *
 * Who evicts leaves the entry where it can be found until the value is in the spill: it is in one
 * of the two all the time.  What is deleted or replaced meanwhile does not come back, since the
 * step that moves the entry from the one index to the other looks whether it is still the same.
 *
 * Lock order: a turn > a scratch > shard.lock > nothing but spill.lock, a leaf; a scratch >
 * room_lock > all of ebb_compact().  No two shards are locked at once.
 */
#ifndef EBB_USER_CACHE_H
#define EBB_USER_CACHE_H

#include "block.h"
#include "cache_index.h"
#include "cache_spill.h"
#include "codecs/dictionary.h"
#include "api/ebb_cache.h"
#include "api/why.h"
#include "hash.h"
#include "pins.h"

#define CACHE_SHARDS 16u                /* a power of two */
#define CACHE_SPILL_INDEX_PART 8u       /* of the capacity, for the table of spilled values */
#define CACHE_VALUE_PART 4u             /* of the capacity, that a value may take */
#define CACHE_TRIES 8                   /* of a lookup, before it takes the lock */

struct cache_counts {
	host_a64 hits, misses, puts, noted, failed, evicted, spill_hits;
};

struct cache_shard {
	struct mutex lock ____cacheline_aligned;
	struct cache_index mem;         /* lock */
	struct cache_index spilled;     /* lock; without a spill, it has no tables */
	struct cache_counts counts ____cacheline_aligned;
};

/* What short values have in common, and the samples that it is to be made of: cache_dict.c. */
struct cache_dict {
	struct dictionary *made;        /* cache_dict_made(); NULL: none (yet) */
	host_a64 puts;                  /* of values that it is for */
	struct mutex lock;
	u8 wants;                       /* samples; lock, READ_ONCE */
	u8 trained;                     /* one was made, if only for a look; as wants */
	u8 harms;                       /* it does for now; as wants */
	u32 looks;                      /* at values in both ways; lock */
	u64 with, without;              /* bytes that they took; lock */
	size_t most;                    /* bytes that it is made of; lock, as all that follows */
	unsigned char *sample;          /* [room], of which bytes are there */
	size_t *len;
	size_t room, bytes, count;      /* room: READ_ONCE */
	struct host_work train;
};

/*
 * Who stores large values together, so that what is half stored leaves room for what is to end:
 * nobody can evict it.  cache_room.c.
 */
struct cache_turn {
	struct mutex lock;
	u64 coming;                     /* bytes of them; lock */
	u64 putters;                    /* them; lock */
	u32 seek;                       /* who are alone or will be; lock, READ_ONCE */
	u32 waiters;                    /* lock */
	u32 bell;                       /* futex */
	bool alone;                     /* somebody is; lock */
};

struct ebb_cache {
	u64 magic;                      /* 0 in a forked child: host_user_map_wiped() */
	struct ebb_store *store;
	struct blocks blocks;
	struct hash_secret secret;
	struct cache_spill *spill;      /* NULL: none */
	u32 flags;
	void (*gone)(void *ctx, const struct ebb_cache_gone *what);
	void *gone_ctx;
	host_a64 notes;                 /* bytes of what is to be told: cache_gone.c */
	struct pins pins;
	struct cache_dict dict;

	/* Room: cache_room.c. */
	host_a64 live ____cacheline_aligned;    /* bytes of all entries */
	host_a64 spill_entries;
	u64 capacity;                   /* room_lock, READ_ONCE */
	u64 live_limit;                 /* room_lock, READ_ONCE */
	u64 pool_limit;                 /* room_lock, READ_ONCE */
	u64 large_limit;                /* of the pool, for values of several blocks; as above */
	u64 taken_limit;                /* of the pool and the CPUs' lists; as above */
	u64 limit_pinned;               /* pinned ones that live_limit knows; as above */
	u64 contexts;                   /* that there is to be room for; room_lock */
	u64 left_bytes;                 /* of values that left since a compaction; atomic */
	host_a64 turn;                  /* of the shards, for who evicts */
	host_a64 changes;               /* puts, for who tends */
	u64 looked;                     /* changes at the last look; room_lock, READ_ONCE */
	struct mutex room_lock;
	struct host_work tend;
	struct cache_turn turns;

	struct cache_shard shard[CACHE_SHARDS];
};

bool cache_bad(const struct ebb_cache *c);

static inline struct cache_shard *cache_shard_of(struct ebb_cache *c, u64 hash)
{
	return &c->shard[hash >> 60];
}

/* ---- what values are made of (cache_data.c) ---- */

/* What stands before a value's key. */
struct value_head {
	u32 bytes;
	u16 key_bytes;
	u8 large;                       /* after the key are references of blocks */
	u8 dict;                        /* it was compressed with the dictionary */
	u64 charge;
};

/* In a reference: it is of a large value. */
#define CACHE_LARGE ((u64)1 << 63)
#define CACHE_REFS (EBB_CACHE_VALUE_MAX / BLOCK_BYTES)

/* Bytes that an object takes beside its own. */
#define CACHE_OBJECT_HEAD (BLOCK_HEAD + 8u)

struct cache_key {
	u64 hash;
	const void *at;
	size_t bytes;
};

struct cache_value {
	const void *data;
	size_t bytes;
	u64 charge;
};

/*
 * Stores a value; *ref and *bytes are for its entry.  -ENOMEM, -ENOSPC: there is no room; -EFBIG:
 * it takes too much of the capacity; -EIO.
 */
int cache_value_make(struct ebb_cache *c, struct scratch *s, const struct cache_key *key,
		     const struct cache_value *v, u64 *ref, u32 *bytes);

/* Stores what s->plain has as it is: n bytes that cache_value_read() left there. */
int cache_value_remake(struct ebb_cache *c, struct scratch *s, size_t n, u64 *ref);

/* Reads head, key and what comes then to s->plain; *n bytes.  -ESTALE: it is gone. */
int cache_value_read(struct ebb_cache *c, struct scratch *s, u64 ref, size_t *n);

/* The head of so many bytes at s->plain; NULL: they are none of a value. */
const struct value_head *cache_value_head(const struct scratch *s, size_t n);

/* Whether what is at s->plain is under this key. */
bool cache_value_is_of(const struct scratch *s, const struct cache_key *key);

/* The value's bytes, from what is at s->plain, to buf.  -ESTALE: a block of it is gone; -EIO. */
int cache_value_unpack(struct ebb_cache *c, struct scratch *s, size_t n, void *buf);

void cache_value_free(struct ebb_cache *c, struct scratch *s, u64 ref);

/* ---- the dictionary (cache_dict.c) ---- */

int cache_dict_init(struct ebb_cache *c);
/* Waits until it is made, if that is under way, and no more is; then it is still used. */
void cache_dict_stop(struct ebb_cache *c);
void cache_dict_destroy(struct ebb_cache *c);

/* NULL: there is none. */
static inline const struct dictionary *cache_dict_made(struct ebb_cache *c)
{
	return __atomic_load_n(&c->dict.made, __ATOMIC_ACQUIRE);
}

/* The capacity is less: samples that are too many for it go, and it begins anew, if at all. */
void cache_dict_fit(struct ebb_cache *c);

/*
 * For a value that is put, which may become a sample.  NULL: it is to be compressed without.
 * Spoils s->packed.
 */
const struct dictionary *cache_dict_for(struct ebb_cache *c, struct scratch *s, const void *data,
					size_t n);

/* Bytes of memory: dictionary, samples, and what it takes to make one of them. */
u64 cache_dict_bytes(struct ebb_cache *c);

/* ---- room (cache_room.c) ---- */

/* Whether a cache may have a capacity of so many bytes. */
static inline bool cache_may_have(u64 capacity)
{
	return !why_if(capacity && capacity < EBB_CACHE_CAPACITY_MIN,
		       "capacity %llu: expected %llu at least, or 0",
		       (unsigned long long)capacity, (unsigned long long)EBB_CACHE_CAPACITY_MIN);
}

int cache_room_init(struct ebb_cache *c, u64 capacity);
void cache_room_destroy(struct ebb_cache *c);

/* Bytes of memory. */
struct cache_usage {
	u64 pool, idle, index, meta, pinned;
};

void cache_usage(struct ebb_cache *c, struct cache_usage *u);

/* After a put of so many bytes: sees to it that all is within the capacity.  No lock held. */
void cache_make_room(struct ebb_cache *c, struct scratch *s, u32 bytes);

/*
 * As scratch_get(), once the call has begun.  One more than there are is made when what it takes
 * has been evicted: who finds no room for one waits for one.
 */
struct scratch *cache_scratch_get(struct ebb_cache *c);

/* The same after a pin of so many bytes. */
void cache_make_room_for_pin(struct ebb_cache *c, struct scratch *s, size_t bytes);

/* After a delete. */
void cache_close_holes_later(struct ebb_cache *c);

/* A value of so many bytes has left, and may leave a hole. */
static inline void cache_count_left(struct ebb_cache *c, u32 bytes)
{
	__atomic_fetch_add(&c->left_bytes, bytes, __ATOMIC_RELAXED);
}

/*
 * Before a put of so many bytes; what it returns is for cache_turn_leave().  It waits while others
 * store what is half of the pool or have all scratches but one, or one that found no room has the
 * cache alone.  Values of a block wait for the last alone, and TURN_WAIT_NS at most.
 */
u64 cache_turn_enter(struct ebb_cache *c, size_t bytes);
void cache_turn_leave(struct ebb_cache *c, u64 entered);

/*
 * The same for who found no room: nobody else puts, but who has waited for long.  False, if he is
 * not patient: others have it, and had it for TURN_WAIT_NS.
 */
bool cache_turn_enter_alone(struct ebb_cache *c, bool patient);
void cache_turn_leave_alone(struct ebb_cache *c);

/*
 * A put of so many bytes found no memory: evicts some, and twice as much for each time before.
 * False: there is nothing to evict.
 */
bool cache_make_more_room(struct ebb_cache *c, struct scratch *s, size_t bytes, unsigned int times);

/* A value that lost its entry: notes it for who is told, and frees it. */
void cache_drop(struct ebb_cache *c, struct scratch *s, u64 ref, enum ebb_cache_why why);

/* ---- who is told what left (cache_gone.c) ---- */

#define CACHE_CALL_ROOM ((size_t)2304)  /* bytes of notes in a call's frame */
#define CACHE_AGAIN_MOST 16u            /* see cache_call_may_put() */

/* What left and is not told yet. */
struct cache_notes {
	struct cache_notes *next;
	unsigned char *room;
	size_t begin, end, most;        /* in room */
};

/* A call that may make values leave, in the frame of what the program calls. */
struct cache_call {
	struct ebb_cache *cache;
	struct cache_call *teller;      /* who tells: it, or the call of the gone() around it */
	struct cache_call *outer;       /* that this thread is in, too */
	struct cache_notes *first, *last;
	u64 own;                        /* what this call itself made leave and did not tell yet */
	u32 again;                      /* puts of gone() when it was told of what it made leave */
	struct cache_notes here;
	unsigned char room[CACHE_CALL_ROOM];
};

/* Around all that drops values.  The second tells; its caller has nothing of the cache in hand. */
void cache_call_begin(struct ebb_cache *c, struct cache_call *call);
void cache_call_end(struct cache_call *call);

/* Whether there is memory to note a value that is evicted. */
bool cache_call_may_evict(struct ebb_cache *c);

/*
 * Whether a put may make others leave.  A gone() that puts each value again that it is told of
 * would go on for ever: for what its own puts made leave it may do so CACHE_AGAIN_MOST times in a
 * call.
 */
bool cache_call_may_put(struct ebb_cache *c);

/* Notes a value that left, which is at s->plain, for who is told; its cache has a gone(). */
void cache_call_note(struct scratch *s, size_t n, enum ebb_cache_why why);

#endif
