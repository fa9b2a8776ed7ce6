/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * store.h - pages in, pages out: an array of slots over a pool.
 *
 *     page --same word?--> fill value in the slot word
 *          --codec-------> object, or the raw page if the codec does not get it below huge
 *
 * A slot's content is never written in place: a write makes a new object and swaps it in,
 * so a failed write leaves the slot as it was, and a reader sees the old or the new page.  Neither
 * waits for the other: an object that is read when it is replaced is freed by its last reader.
 *
 * A page is compressed by the codec of priority 0.  A tier may compress it anew by another, if that
 * makes it smaller (recompress.h).  The slot word says which codec it is.
 *
 * Lock order: stream > a hold > flushing > the per-CPU item > the holds' lock, the pool's locks
 * (release.c).
 */
#ifndef EBB_CORE_STORE_H
#define EBB_CORE_STORE_H

#include "codec.h"
#include "hold.h"
#include "mm/release.h"
#include "mm/shrink.h"
#include "stats.h"
#include "stream.h"

/* Instances of units that wait with a CPU (unit.h); times that a write without room tidies them. */
#define STORE_UNIT_BATCH 32u
#define STORE_TIDIES 4u

#define STORE_CODECS 4          /* priorities: as many as slot.h has bits for */

/* A codec; its parameters are those of struct codec_params, and in range. */
struct store_codec {
	const struct codec_ops *ops;    /* NULL: none */
	int level;
	const void *dict;
	size_t dict_bytes;
	int winbits;
};

struct store_config {
	u64 slots;                      /* 1 .. 2^32 - 1 */
	/* Of a unit, as store_set_units(); then [0].dict and streams are NULL.  0: none. */
	unsigned int unit_pages;
	struct store_codec codec[STORE_CODECS];         /* by priority; writes compress with [0] */
	unsigned int chain;             /* CHAIN_MIN .. CHAIN_MAX */
	u64 mem_limit;                  /* bytes, 0: none */
	u64 release_limit;              /* bytes, 0: synchronous */
	struct release_budget *release_budget;  /* of all stores, or NULL */
	struct streams *streams;        /* those of [0], which stores share, or NULL */
};

/* Blocks of a backing device; store_back() of the tiers gives a store one (writeback.h). */
struct backed;
struct backed_batch;
/* Pages that are compressed together; store_set_units() gives a store some (unit.h). */
struct units;
struct unit_ops;

struct store_cpu {
	struct release_cpu release;     /* first: release.h */
	struct counters counters;
	struct backed_batch *blocks;    /* NULL: there is no device */
	u32 unit_first, unit_last;      /* dead instances (unit.h), + 1 */
	u32 unit_n;
};

struct store {
	struct host_table table;        /* of the slots' words, and of those of units */
	u64 slots, words;
	unsigned int unit_pages;        /* 0: there are no units */
	host_a64 pieces;                /* pages of the table */
	const struct codec_ops *codec;
	struct host_percpu cpus;        /* of struct store_cpu */
	struct pool pool;
	struct release release;
	struct backed *backed;          /* NULL: it has no device */
	/* Called when no slot names the block any more, with the item held.  Any context. */
	void (*free_block)(struct backed *b, struct backed_batch *batch, u64 block);
	struct units *units;            /* NULL: it has none */
	const struct unit_ops *unit_ops;
	struct shrink shrink;
	struct holds holds;
	struct streams *streams[STORE_CODECS];  /* by priority; NULL: none */
	struct streams own_streams[STORE_CODECS];       /* those that store_config does not give */
};

/* Word i < words, that of slot i.  Without a page of the table it is 0, and not to be written. */
static inline host_a64 *store_slot(const struct store *s, u64 i)
{
	return host_table_at(&s->table, i);
}

/*
 * pages outlives the store.  Process context.  -EINVAL: a field is out of range; -ENOMEM, or an
 * error of host_work_init().
 */
int store_init(struct store *s, struct pages *pages, const struct store_config *cfg);

/* Empties the store and ends it.  Process context; nobody uses it any more. */
void store_destroy(struct store *s);

/*
 * Stores a page of PAGE_SIZE bytes in slot i.  node: where memory for it should come from, as
 * a rule that of the page; or NUMA_NO_NODE.  Process context.  If there is no room it waits as
 * release_flush() does, and fails only when all that was held back at the call is free.
 * -ERANGE: no such slot; -ENOMEM: the home has no memory; -EDQUOT: mem_limit is exhausted; -ENOSPC:
 * the class has no number left (pool_make()); -EIO: the codec failed.  An error is counted by the
 * caller, who may have another place for the page (store_note()).
 */
int store_try_write(struct store *s, u64 i, const void *page, unsigned int node);

/* Whether a write failed since there was no room. */
static inline bool store_no_room(int err)
{
	return err == -ENOMEM || err == -EDQUOT || err == -ENOSPC;
}

/*
 * The same, but it waits for no other thread, and so may fail while others are freeing what was
 * held back.  how: as host_pages_alloc().
 */
int store_try_now(struct store *s, u64 i, const void *page, unsigned int node, unsigned int how);

/*
 * Makes an object as pool_make() does, for word i, that there is then; tried again after it freed
 * some of what is held back, as long as that helps.  bytes: 0 for the word alone.
 */
int store_make_room(struct store *s, u64 i, unsigned int node, unsigned int how, const void *data,
		    size_t bytes, u64 *ref);

/* Makes the word of a page, as store_try_now() does, but does not put it in slot i. */
int store_make_word(struct store *s, u64 i, const void *page, unsigned int node, unsigned int how,
		    u64 *word);

#define STORE_BACKED 1
#define STORE_UNIT 2            /* inside of the store: the page is in a unit, */
#define STORE_AGAIN 3           /* or was, and the slot has changed */

/*
 * Reads slot i into page; an empty slot reads as zeros.  Process context.  STORE_BACKED: the page
 * is on the backing device (writeback.h); -ERANGE; -EINVAL: the slot has an object that is no page;
 * -EIO: it does not decompress.  After -EIO page is zeros, after another error, or STORE_BACKED, it
 * is as it was.
 */
int store_read(struct store *s, u64 i, void *page);

/* Ends a hold on the object of slot i; word: what hold_take() returned.  Any context. */
void store_drop(struct store *s, u64 i, u64 word);

/* Empties slot i.  Any context: no sleep, no allocation, no wait for a reader.  -ERANGE. */
int store_free(struct store *s, u64 i);

/*
 * Recompression (recompress.c).  word: what slot i had when the caller took its hold, by
 * hold_take_seen(); until it drops that, no other object has this reference.
 */

/* The page of the held object.  Process context.  -EIO: it does not decompress; page is zeros. */
int store_unpack(struct store *s, u64 word, void *page);

/*
 * Puts new, which names another object for the page, in place of word, and counts both.  The old
 * object goes with its last hold.  False: the slot was written or freed meanwhile, so the object of
 * new is still the caller's.  Any context.
 */
bool store_replace(struct store *s, u64 i, u64 word, u64 new);

/*
 * Makes the word of slot i one that may be written.  Process context.  -ERANGE; -ENOMEM: there is
 * no page for that part of the table.
 */
int store_need_slot(struct store *s, u64 i, unsigned int node);

/* Slots that a walk over all of them looks at between two rests. */
#define STORE_PIECE 256u

/*
 * Returns the next slot of *at to end - 1 that may have been written, and moves *at past it; *left,
 * STORE_PIECE at first, counts the looks down.  NULL: there is none, or *left is 0.  Any context.
 */
static inline host_a64 *store_next_slot(const struct store *s, u64 *at, u64 end, unsigned int *left)
{
	while (*left && *at < end) {
		u64 i = *at, skip = host_table_skip(&s->table, i);

		--*left;
		*at += skip ? skip : 1;
		if (!skip)
			return store_slot(s, i);
	}
	return NULL;
}

/*
 * Empties the next STORE_PIECE slots of *at to end - 1 that may have been written, and moves *at
 * past them; end <= slots.  False: these were the last.  Any context.
 */
bool store_free_piece(struct store *s, u64 *at, u64 end);

/* Empties all slots and gives their memory back, with rests.  Process context. */
void store_reset(struct store *s);

/* Adds 1 to a counter.  Any context. */
void store_note(struct store *s, enum store_counter i);

/* Sum of a counter over the CPUs.  Any context. */
u64 store_count(struct store *s, enum store_counter i);

#endif
