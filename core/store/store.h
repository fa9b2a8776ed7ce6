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
 * A page is written with the codec of priority 0 and may be made anew by another later, if that
 * keeps it smaller (recompress.h); its word says which codec reads it.
 *
 * Lock order: stream > slot hold > flushing > the per-CPU item > the holds' lock, the pool's locks
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

/*
 * How many codecs a store may have: the one that pages come to, and those that recompress
 * (recompress.h).
 */
#define STORE_CODECS 4          /* as many as slot.h has bits for */

/* One of the latter. */
struct store_codec {
	const struct codec_ops *ops;    /* NULL: none */
	int level;
	const void *dict;               /* as struct codec_params has them */
	size_t dict_bytes;
	int winbits;
};

struct store_config {
	u64 slots;                      /* 1 .. 2^32 - 1 */
	const struct codec_ops *codec;  /* that of priority 0, which writes */
	int level;
	const void *dict;               /* outlives the store; NULL: none */
	size_t dict_bytes;
	int winbits;                    /* 0: the codec's own */
	struct store_codec more[STORE_CODECS - 1];      /* priorities 1 and up */
	unsigned int chain;             /* CHAIN_MIN .. CHAIN_MAX */
	u64 mem_limit;                  /* bytes, 0: none */
	u64 release_limit;              /* bytes, 0: synchronous */
	struct release_budget *release_budget;  /* of all stores, or NULL */
	struct streams *streams; /* of this codec and its parameters, for several stores, or NULL */
};

/* Blocks of a backing device are for who gives a store one (store_back() of writeback.h). */
struct backed;
struct backed_batch;

struct store_cpu {
	struct release_cpu release;     /* first: release.h */
	struct counters counters;
	struct backed_batch *blocks;    /* NULL: there is no device */
};

struct store {
	struct host_table table;        /* of the slots' words */
	u64 slots;
	host_a64 pieces;                /* pages of the table */
	const struct codec_ops *codec;
	struct host_percpu cpus;        /* of struct store_cpu */
	struct pool pool;
	struct release release;
	struct backed *backed;          /* NULL: nobody gave it one */
	/* Under the item: no slot names the block any more.  Any context. */
	void (*let_go_block)(struct backed *b, struct backed_batch *batch, u64 block);
	struct shrink shrink;
	struct holds holds;
	struct streams *streams;        /* those of store_config, or own */
	struct streams *codecs[STORE_CODECS];   /* by priority; [0] is streams, NULL: none */
	struct streams own[STORE_CODECS];
};

/*
 * The word of slot i < slots.  If the table has no page for it, it is empty and stays so until a
 * write has given it one (host.h).
 */
static inline host_a64 *store_slot(const struct store *s, u64 i)
{
	return host_table_at(&s->table, i);
}

/* Process context.  -EINVAL: a field is out of range; -ENOMEM; what host_work_init() says. */
int store_init(struct store *s, struct pages *pages, const struct store_config *cfg);

/* Empties the store and ends it.  Process context; nobody uses it any more. */
void store_destroy(struct store *s);

/*
 * Stores a page of HOST_PAGE_SIZE bytes in slot i.  node: where memory for it should come from, as
 * a rule the page's own; or HOST_ANY_NODE.  Process context.  Without room it waits as
 * release_flush() does: it fails when all that was held back at the call is free.
 * -ERANGE: no such slot; -ENOMEM: the home has no memory; -EDQUOT: mem_limit is exhausted; -ENOSPC:
 * the pool's limit for objects of this size is (pool_alloc()); -EIO: the codec failed.
 */
int store_write(struct store *s, u64 i, const void *page, unsigned int node);

/* Whether that is what a write ended with: there was no room, for one reason or another. */
static inline bool store_no_room(int err)
{
	return err == -ENOMEM || err == -EDQUOT || err == -ENOSPC;
}

/*
 * The same for who has another place for a page that fails: it is his to count that (store_note()).
 */
int store_try_write(struct store *s, u64 i, const void *page, unsigned int node);

/*
 * The same for who waits for nobody that frees: it fails, too, where others have in hand what was
 * held back.  how: as host_pages_alloc().
 */
int store_try_now(struct store *s, u64 i, const void *page, unsigned int node, unsigned int how);

/*
 * Stores 1 .. HOST_PAGE_SIZE bytes as they are.  As store_write() and as store_try_write();
 * -EINVAL: bytes.
 */
int store_put(struct store *s, u64 i, const void *data, size_t bytes, unsigned int node);
int store_try_put(struct store *s, u64 i, const void *data, size_t bytes, unsigned int node);

/* What a read of a slot returns whose page is on the backing device (writeback.h). */
#define STORE_BACKED 1

/*
 * Reads slot i into page; an empty slot reads as zeros.  Process context.  -ERANGE;
 * -EINVAL: the slot holds an object of store_put(); -EIO: it does not decompress.  After -EIO
 * page is zeros, after another error, or STORE_BACKED, it is as it was.
 */
int store_read(struct store *s, u64 i, void *page);

/* Reads an object of store_put(); *bytes is its length, 0 if empty.  -ENOSPC: cap is less. */
int store_get(struct store *s, u64 i, void *buf, size_t cap, size_t *bytes);

/*
 * Holds the object of slot i, which must exist, and returns its word as hold_take() does; one
 * without an object holds nothing.  Who holds has a stream in hand (hold.h counts on it).  Any
 * context.
 */
u64 store_hold(struct store *s, u64 i);

/* Ends that hold; word is what store_hold() returned, with an object.  Any context. */
void store_drop(struct store *s, u64 i, u64 word);

/* Empties slot i.  Any context: no sleep, no allocation, no wait for a reader.  -ERANGE. */
int store_free(struct store *s, u64 i);

/*
 * For who makes another object for the page of slot i (recompress.c).  word is what the slot had
 * when the caller took its hold, with hold_take_seen(); from then on no other may be called ref.
 */

/*
 * Its page, made of the object.  Process context.  -EIO: it does not decompress; page is zeros.
 */
int store_unpack(struct store *s, u64 word, void *page);

/*
 * Puts new, which has an object with those bytes, in the place of the object of word, and accounts
 * for both; the old one is for who drops it last.  False: the slot was written or freed meanwhile,
 * so that new is still the caller's.  Any context.
 */
bool store_replace(struct store *s, u64 i, u64 word, u64 new);

/*
 * Gives slot i a word, for who is about to put one there.  Process context.  -ERANGE; -ENOMEM:
 * there is no page for that part of the table.
 */
int store_need_slot(struct store *s, u64 i, unsigned int node);

/* Slots that are worked on between two rests, where all are. */
#define STORE_PIECE 256u

/*
 * The next slot of *at to end - 1 whose word is there, and moves *at past it; *left, STORE_PIECE at
 * first, counts the looks.  NULL: there is none, or they are used up.  Any context.
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
 * Empties the next STORE_PIECE slots of *at to end - 1, of those that were ever written, and moves
 * *at past them; end <= slots.  False: these were the last.  Any context.
 */
bool store_free_piece(struct store *s, u64 *at, u64 end);

/* Empties all slots and gives their memory back, with rests.  Process context. */
void store_reset(struct store *s);

/* Flushes, then compacts; returns the pages that freed.  Process context. */
u64 store_compact(struct store *s);

/* Adds 1 to a counter.  Any context. */
void store_note(struct store *s, enum store_counter i);

/* Sum of a counter over the CPUs.  Any context. */
u64 store_count(struct store *s, enum store_counter i);

/* Bytes of the slot table as far as it is there, descriptors and buffers.  Any context. */
u64 store_meta_bytes(struct store *s);

#endif
