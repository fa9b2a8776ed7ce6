/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * backed.h - the blocks of a backing device: which are free, and who reads one just now.
 *
 *     free  --backed_reserve()-->  in hand  --a slot names it-->  in a slot
 *      ^                                                            | a free or an overwrite
 *      |                                                            v
 *      +--- nobody reads it --- backed_collect() <--full--- backed_let_go(): a CPU's batch
 *      |                             |
 *      +--------- late <-------------+ somebody may read it
 *
 * CPUs that let blocks go at the same time must not queue for the lock, so each has a batch of
 * them, which it gives back when it is full.  Who finds no free block collects all batches.
 *
 * A slot word has no room for the readers of a block, and a read takes as long as a disk does.  So
 * readers are counted beside the table, in counters that blocks have in turn: a reader adds
 * itself, looks at the slot word again, does its I/O and takes itself off.  A block that is
 * released while its counter is not 0 is late.  It is looked at again when blocks are asked for.
 * Late blocks are kept by counter, so those of one that is not 0 are passed over in one look.
 *
 * Lock order: the store's per-CPU item > a batch's lock > the lock, a leaf.
 */
#ifndef EBB_ZRAM_BACKED_H
#define EBB_ZRAM_BACKED_H

#include "host.h"

/* A set of numbers below n: a bit each, and above each level one with a bit for each word of it. */
#define BLOCKSET_LEVELS 7

struct blockset {
	u64 *level[BLOCKSET_LEVELS];    /* 0: the numbers' bits; a bit above: the word is not 0 */
	u64 words[BLOCKSET_LEVELS];
	unsigned int levels;            /* the last one is of one word */
};

/*
 * Counters of readers, on 8 KiB, that blocks have in turn; two that share one make each other late
 * at worst.
 */
#define BACKED_READERS 1024u

/* Looks at late blocks in one hold of the lock: each frees one, or passes over a counter's. */
#define BACKED_LATE_LOOKS 64u

#define BACKED_BATCH 30u        /* so that a batch is 256 bytes at most */

/*
 * Orderings (docs/internals/locking.md).
 *
 * backed.readers[].  Writes: reader, full add, then a look at the slot; off with a full add.
 *     Reads: who releases the block, acquire, after its swap.  Order: full on both sides: one
 *     sees the other; off: the I/O before it.  Without it: a block that is written again under a
 *     reader.  Model: block.
 * backed_batch.n.  Writes: its lock, write_once.  Reads: who collects, relaxed, before the lock.
 *     Order: it becomes 0 inside backed.lock, which who collects takes next: the blocks of a
 *     batch that he passed over are in the set by then.  Without it: a block that is free and
 *     not found.  Test: test_room.
 */

/* Blocks that no slot names any more and that are not given back yet. */
struct backed_batch {
	spinlock_t lock;
	u32 n;                          /* lock; READ_ONCE */
	u64 block[BACKED_BATCH];        /* lock */
};

struct backed {
	u64 blocks;                     /* 0: there is no device */
	spinlock_t lock;
	struct blockset free;           /* lock */
	struct blockset late;           /* lock: by backed_late_place() */
	u64 nfree;                      /* lock; READ_ONCE */
	u64 nlate;                      /* lock; READ_ONCE */
	u64 late_row;                   /* places of late for each counter; fixed */
	u64 late_at;                    /* lock: where the next look begins */
	u64 late_turns;                 /* lock: times that a look met the end */
	u64 from;                       /* lock: past the last block that could not be written */
	u64 reserved;                   /* blocks, ever; lock; READ_ONCE */
	host_a64 in_hand;               /* reserved, and in no slot */
	host_a64 *readers;              /* [BACKED_READERS] */
	struct host_percpu cpus;        /* of struct backed_batch; to be looked at alone */
};

/* Blocks 0 .. blocks - 1, all free; 0: nothing is made.  Process context; -ENOMEM. */
int backed_init(struct backed *b, u64 blocks);
void backed_destroy(struct backed *b);

/*
 * Takes the lowest free block past the last that failed, or if there is none the lowest, into the
 * caller's hand.  -EBUSY: the only ones that no slot has are being read, and will be free when that
 * ends; -ENOSPC: there is none.  Any context; where none is free it looks at each counter that has
 * late blocks, twice at most, under a hold for each 64.
 */
int backed_reserve(struct backed *b, u64 *block);

/* Gives back one that is in the caller's hand and that nobody has read.  Any context. */
void backed_unreserve(struct backed *b, u64 block);

/*
 * The same for one that could not be written.  It may be bad for good, so others come first until
 * there are none.  Any context.
 */
void backed_failed(struct backed *b, u64 block);

/* That of item k, for a device that is there. */
static inline struct backed_batch *backed_batch_of(struct backed *b, unsigned int k)
{
	return host_percpu_peek(&b->cpus, k);
}

/* Gives back the blocks of a batch.  Any context. */
void backed_collect(struct backed *b, struct backed_batch *batch);

/* Takes a block that no slot names any more into the batch of the caller's CPU.  Any context. */
void backed_let_go(struct backed *b, struct backed_batch *batch, u64 block);

static inline host_a64 *backed_readers(const struct backed *b, u64 block)
{
	return &b->readers[block % BACKED_READERS];
}

/* Where a block is in late, which has a row for each counter; and back. */
static inline u64 backed_late_place(const struct backed *b, u64 block)
{
	return block % BACKED_READERS * b->late_row + block / BACKED_READERS;
}

static inline u64 backed_late_block(const struct backed *b, u64 place)
{
	return place % b->late_row * BACKED_READERS + place / b->late_row;
}

/*
 * Counts a reader of a block, who then looks whether the slot still names it: if so, it is not
 * given to anybody else before backed_drop().  Any context.
 */
static inline void backed_hold(struct backed *b, u64 block)
{
	host_a64_add(backed_readers(b, block), 1);
}

/* Ends that.  Any context, an interrupt's, too. */
static inline void backed_drop(struct backed *b, u64 block)
{
	host_a64_add(backed_readers(b, block), ~(u64)0);
}

/* For tier_check.c. */
bool blockset_has(const struct blockset *t, u64 i);
/* The lowest member from i on; ~0: there is none. */
u64 blockset_next(const struct blockset *t, u64 i);
/* Whether each level says what the one below has. */
bool blockset_is_tidy(const struct blockset *t);

#endif
