/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * block.h - blocks: 1 to BLOCK_BYTES bytes, compressed together, and kept as objects of at most a
 * page in a run of slots (runs.h).
 *
 *     bytes --codec--> packed  | page - 12 | page - 4 | page - 4 | rest |
 *                                   |           |          |        |
 *     slot first + i, ebb_put()   head+0      stamp+1    stamp+2  stamp+3
 *
 * A block never changes.  It is named by a reference, which its owner publishes and takes back
 * in one step, and each of its objects begins with the block's stamp.  So a reader needs no lock
 * and no hold: he gets one object after the other, and if a block was freed meanwhile he sees
 * that a stamp, a length or an object is not what it must be, and asks the owner anew.  A
 * stamp is of 32 bits: who is to be misled has to stop between two objects for exactly 2^32 blocks,
 * or a multiple, and find one at the same slot then.
 *
 * Everything is done with a scratch in hand: a codec's context and room for a block.  There are as
 * many as threads that are in calls, and as many as CPUs are kept.  Where they have so much room
 * and no more (blocks_set_room()), or there is no memory for another, others wait for one.
 *
 * Pages of the slot table in which no block is are given back by the store's tick.  A reader who is
 * late finds zeros there, as in each empty slot.
 *
 * Lock order: reserve_lock > all of ebb_put() > giving > runs.lock, a leaf.
 */
#ifndef EBB_USER_BLOCK_H
#define EBB_USER_BLOCK_H

#include "store/codec.h"
#include "runs.h"

struct dictionary;
struct ebb_config;
struct ebb_store;

#define BLOCK_BYTES ((size_t)64 << 10)
#define BLOCK_HEAD 12u                  /* bytes before a block's first, in its first object */

/* First slot << 32 | stamp; never 0. */
typedef u64 block_ref;

/* What stands before the first object's bytes. */
struct block_head {
	u32 stamp;
	u32 packed;                     /* bytes that are stored, after this */
	u32 bytes;                      /* of the block, and BLOCK_RAW if that is what is stored */
};

#define BLOCK_RAW ((u32)1 << 31)

struct scratch {
	void *ctx;                      /* the codec's; see scratch_get_surely() */
	void *owner_room;               /* for who uses blocks: owner_bytes */
	/* A block's bytes; what the codec made of them: BLOCK_BYTES each, after room for a head. */
	unsigned char *plain, *packed;
	block_ref plain_is;             /* whose bytes plain has, for scratch_has(); 0: nobody's */
	u64 plain_made;                 /* blocks.made when that was made */
};

struct blocks {
	struct ebb_store *store;
	const struct codec_ops *codec;
	struct codec_params params;
	struct runs runs;
	struct mutex giving;            /* who hides numbers of runs */
	host_a64 made;                  /* blocks, ever; the last one's stamp is its lower half */
	size_t page;                    /* most bytes of an object */
	size_t small;                   /* of one that does not take a whole page */
	size_t owner_bytes;
	unsigned int cpus;
	host_a64 *idle;                 /* [cpus], a line each: a scratch, or 0 */
	struct scratch *reserve;        /* without a context */
	struct mutex reserve_lock;      /* who has it */
	host_a64 scratches;             /* there are, and the reserve */
	u64 room;                       /* bytes for them; 0: no limit; as largest */
	u64 dictionary_bytes;           /* of the one that contexts are used with; as largest */
	host_a64 waiters;               /* threads that wait for one */
	u32 bell;                       /* futex of who waits */
	u32 largest;                    /* bytes of a block that was packed; READ_ONCE */
	u32 context_bytes;              /* that a context takes for it, at most; as largest */
	host_a64 stale;                 /* times that a reader had to ask anew */
};

struct blocks_config {
	struct ebb_store *store;
	u64 first, count;               /* slots of it that are for blocks */
	const char *codec;              /* NULL: lz4 */
	int level;                      /* EBB_LEVEL_DEFAULT: the codec's own */
	unsigned int chain;             /* of the store; 0: the default */
	size_t owner_bytes;             /* of scratch.owner_room */
};

/* Process context, as all of this file.  -ENOENT: no such codec; -EINVAL: its level; -ENOMEM. */
int blocks_init(struct blocks *b, const struct blocks_config *cfg);

/*
 * The same with a store of their own, b->store, which is opened as `store` says, but for
 * chain_size: that is cfg->chain.  Errors as ebb_open(), too; then there is neither.
 */
int blocks_open(struct blocks *b, struct blocks_config *cfg, struct ebb_config *store);

/* Whether there is memory for a first block, so that an open that succeeds can store.  -ENOMEM. */
int blocks_try_out(struct blocks *b);

/* No call is under way.  What is stored stays in the store. */
void blocks_destroy(struct blocks *b);

/*
 * NULL: there is no memory, and nobody has one that he will put back.  It may wait for another
 * thread's: who has one asks for no second.
 */
struct scratch *scratch_get(struct blocks *b);

/* The same without waiting.  NULL: there is no memory, or no room, and none is idle. */
struct scratch *scratch_get_now(struct blocks *b);

/* The one that there always is, whose context is NULL: for work without the codec. */
struct scratch *scratch_get_reserve(struct blocks *b);

/* One of the two, for work without the codec: who deletes waits for nobody's codec. */
struct scratch *scratch_get_surely(struct blocks *b);
void scratch_put(struct blocks *b, struct scratch *s);

/*
 * How many bytes scratches may take together, contexts included; there is always one.  Before the
 * first call there is no limit; 0 is not for later ones.  Those that are too many end when they are
 * put back.  Any time, from any thread.
 */
void blocks_set_room(struct blocks *b, u64 bytes);

/* A value of n bytes is to come: blocks_context_bytes() is as if it were packed already. */
void blocks_expect(struct blocks *b, size_t n);

/* How many there may be at once. */
u64 blocks_scratches_most(struct blocks *b);

/*
 * Contexts that there are, and the bytes that they have; the bytes that one takes at the most,
 * alone and with its buffers.
 */
u64 blocks_contexts(struct blocks *b);
u64 blocks_contexts_bytes(struct blocks *b);
u64 blocks_context_bytes(const struct blocks *b);
u64 blocks_scratch_bytes(const struct blocks *b);

/*
 * Compresses n bytes, 1 to BLOCK_BYTES, to s->packed; with a dictionary, or NULL: without.
 * Returns how many it made of them, at most n:
 * as many if it does not pay, and then s->packed has the bytes as they are.  -EIO, -ENOMEM: the
 * codec failed.
 */
int block_pack_with(struct blocks *b, struct scratch *s, const struct dictionary *d,
		    const void *data, size_t n);

static inline int block_pack(struct blocks *b, struct scratch *s, const void *data, size_t n)
{
	return block_pack_with(b, s, NULL, data, n);
}

/*
 * The opposite, with the same dictionary: n bytes from so many at packed.  -EIO: they are not what
 * the codec made of n.
 */
int block_unpack_with(struct blocks *b, struct scratch *s, const struct dictionary *d,
		      const void *packed, size_t bytes, void *data, size_t n);

static inline int block_unpack(struct blocks *b, struct scratch *s, const void *packed,
			       size_t bytes, void *data, size_t n)
{
	return block_unpack_with(b, s, NULL, packed, bytes, data, n);
}

/*
 * Stores what block_pack() left in s->packed as a block of n bytes, and spoils it.  Errors as
 * ebb_put(), after which nothing is stored.
 */
int block_put(struct blocks *b, struct scratch *s, size_t packed, size_t n, block_ref *ref);

/*
 * Reads a block of at most cap bytes into data; *n is how many.  -ESTALE: the block is not there
 * (any more), and data may be spoilt; -EIO: it is, and does not decompress.
 */
int block_get(struct blocks *b, struct scratch *s, block_ref ref, void *data, size_t cap,
	      size_t *n);

/*
 * The same without the codec: at s->packed, *packed bytes of a block of *n.  As many: they are the
 * block's own.  -ESTALE.
 */
int block_get_packed(struct blocks *b, struct scratch *s, block_ref ref, size_t *packed, size_t *n);

/*
 * Whether s->plain has the bytes of a block: blocks do not change, and another one by that name
 * comes when all stamps were used.
 */
static inline bool scratch_has(struct blocks *b, const struct scratch *s, block_ref ref)
{
	return s->plain_is == ref && host_a64_read(&b->made) - s->plain_made < UINT32_MAX;
}

/* s->plain has the bytes of a block that is there. */
static inline void scratch_keep(struct blocks *b, struct scratch *s, block_ref ref)
{
	u64 made = host_a64_read(&b->made);

	s->plain_is = ref;
	s->plain_made = made - (u32)((u32)made - (u32)ref);
}

/* Frees a block, which nobody can find any more.  Waits for no reader, and needs no memory. */
void block_free(struct blocks *b, block_ref ref);

/* Whether a block is there, with its bytes; what it was made of is not looked at.  For checks. */
bool block_is_there(struct blocks *b, struct scratch *s, block_ref ref);

/*
 * Gives pages of the slot table back that are in no run, for about ns.  True: there may be more.
 * The store's tick calls it, and ebb_trim().
 */
bool blocks_give_table(void *blocks, u64 ns);

/* Whether the numbers of slots are in order; NULL, or a sentence.  No other call is under way. */
const char *blocks_check(struct blocks *b);

/* Bytes of tables and of scratches, but for contexts. */
size_t blocks_meta_bytes(struct blocks *b);

#endif
