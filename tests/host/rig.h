/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * rig.h - a small store on the hostile home, contents that name themselves, and the operations
 * on them.
 *
 * A value is a number that no two writes share; what is stored for it is made from it and the
 * size, so that a read tells which write it saw, whole, or that it saw none.
 */
#ifndef EBB_TESTS_RIG_H
#define EBB_TESTS_RIG_H

#include "../case_list.h"        /* case.c runs those of a program that has no main() */
#include "../store_calls.h"
#include "tier/tier_check.h"
#include "tier/recompress.h"
#include "history.h"
#include "tier/unit.h"
#include "tier/writeback.h"
#include "home.h"
#include "explore.h"

/* Sizes of blobs, or of what the codec makes of a page, by how many share a page. */
#define HALF (PAGE_SIZE / 2 - POOL_HEADER)
#define THIRD (PAGE_SIZE * 21 / 64 - POOL_HEADER)
#define QUARTER (PAGE_SIZE / 4 - POOL_HEADER)
#define EIGHTH (PAGE_SIZE / 8 - POOL_HEADER)
#define SPAN (PAGE_SIZE * 3 / 4 - POOL_HEADER)     /* reaches over the end of a page */
#define SMALL 12u               /* more than 64 of them to a zspage */
#define MANY (PAGE_SIZE / 32)                      /* of these, in a page */
#define RAW PAGE_SIZE      /* not for the codec */

enum what {
	OP_NONE,
	OP_PUT,         /* slot, size: a blob */
	OP_GET,         /* slot */
	OP_WRITE,       /* slot, size: a page that the codec makes so long */
	OP_FILL,        /* slot: a page of one word, kept in the slot word */
	OP_FILL_OBJ,    /* slot: the same, kept in an object */
	OP_READ,        /* slot */
	OP_FREE,        /* slot; as the kernel's notify: atomic */
	OP_RESET,
	OP_FLUSH,
	OP_HELP,        /* frees what is held back, as a write that fails does */
	OP_COMPACT,
	OP_SHRINK,      /* what the kernel's shrinker calls */
	OP_LIMIT,       /* size: the new release limit */
	OP_OFFLINE,     /* slot: a CPU */
	OP_REFILL,
	OP_DRY,         /* slot: whether the source gives nothing from now on */
	OP_STATS,
	OP_HOLD,        /* slot; a reader in its middle */
	OP_DROP,        /* slot; the actor's own hold, or one that was there before, or none */
	OP_RECOMPRESS,  /* slot; by the second codec, which halves; one actor at a time */
	OP_MARK_IDLE,   /* all slots */
	OP_BACK, /* slot, size: to the backing device, which fails if size; one actor at a time */
	/* slot, size: a page that is written to the device alone, which fails if size */
	OP_INCOMING,
	OP_UNIT,        /* slot, size: a unit from that slot on, which comes to so many bytes */
	OP_READ_UNIT,   /* slot: all pages of the unit from that slot on, if they are of one */
	OP_TIDY,        /* takes units apart; one actor at a time */
};

struct op {
	u8 what;
	bool must;      /* a write that has no right to fail */
	u16 slot;
	u32 size;
};

#define PUT(i, bytes) { .what = OP_PUT, .slot = (i), .size = (u32)(bytes) }
#define MUST_PUT(i, bytes) { .what = OP_PUT, .slot = (i), .size = (u32)(bytes), .must = true }
#define GET(i) { .what = OP_GET, .slot = (i) }
#define WRITE(i, bytes) { .what = OP_WRITE, .slot = (i), .size = (u32)(bytes) }
#define MUST_WRITE(i, bytes) { .what = OP_WRITE, .slot = (i), .size = (u32)(bytes), .must = true }
#define MUST_FILL(i) { .what = OP_FILL, .slot = (i), .must = true }
#define FILL(i) { .what = OP_FILL, .slot = (i) }
#define FILL_OBJ(i) { .what = OP_FILL_OBJ, .slot = (i) }
#define READ(i) { .what = OP_READ, .slot = (i) }
#define FREE(i) { .what = OP_FREE, .slot = (i) }
#define RESET { .what = OP_RESET }
#define FLUSH { .what = OP_FLUSH }
#define HELP { .what = OP_HELP }
#define COMPACT { .what = OP_COMPACT }
#define SHRINK { .what = OP_SHRINK }
#define LIMIT(bytes) { .what = OP_LIMIT, .size = (u32)(bytes) }
#define OFFLINE(cpu) { .what = OP_OFFLINE, .slot = (cpu) }
#define REFILL { .what = OP_REFILL }
#define DRY(is) { .what = OP_DRY, .slot = (is) }
#define STATS { .what = OP_STATS }
#define HOLD(i) { .what = OP_HOLD, .slot = (i) }
#define DROP(i) { .what = OP_DROP, .slot = (i) }
#define RECOMPRESS(i) { .what = OP_RECOMPRESS, .slot = (i) }
#define MARK_IDLE { .what = OP_MARK_IDLE }

/* As many as a slot word can count. */
#define SEVEN_HOLDS(i) HOLD(i), HOLD(i), HOLD(i), HOLD(i), HOLD(i), HOLD(i), HOLD(i)

#define BACK(i) { .what = OP_BACK, .slot = (i) }
#define BACK_FAILS(i) { .what = OP_BACK, .slot = (i), .size = 1 }

#define INCOMING(i) { .what = OP_INCOMING, .slot = (i) }
#define INCOMING_FAILS(i) { .what = OP_INCOMING, .slot = (i), .size = 1 }


#define READ_UNIT(i) { .what = OP_READ_UNIT, .slot = (i) }
#define UNIT(i, bytes) { .what = OP_UNIT, .slot = (i), .size = (u32)(bytes) }
#define TIDY { .what = OP_TIDY }

#define PLENTY ((u64)64 << PAGE_SHIFT)     /* a release limit that nothing reaches */

#define RIG_HOLDS 12

struct rig_config {
	unsigned int cpus, pages;
	unsigned int nodes;     /* 0: one */
	u64 slots, mem_limit, release_limit;
	u32 spare;              /* buffers that may be queued; a store of few slots has none */
	u32 reserve;            /* pages */
	bool sparse;            /* the slot table is made page by page */
	u64 blocks;             /* of the backing device */
	bool packed;            /* which keeps compressed pages */
	bool recompress;        /* there is a second codec */
	unsigned int unit_pages;        /* pages that are compressed together; 0: none */
};

struct rig {
	struct host_pages src;
	struct pages pages;
	struct store store;
	struct backed backed;
	struct units units;
	bool codec_fails;       /* with -EIO from now on, both ways */
	int codec_says;         /* not 0: what compress returns */
	u32 codec_calls;        /* of compress */
	u32 codec_changes; /* after so many of them a page comes to the same length each time */
	u64 failed;             /* writes */
	/*
	 * The backing device: of each block the first word, from which the others follow, so that
	 * I/O is one step.
	 */
	host_a64 *device;
	u64 blocks;
	bool packed;
	u64 recompressed;
	struct rig_hold {
		u64 slot, word;
	} held[EXPLORE_ALL][RIG_HOLDS];         /* by OP_HOLD, by actor */
	u32 nheld[EXPLORE_ALL];
	bool no_budget;         /* since a limit of 0, when so many had been pushed: */
	u64 pushed;
	struct history history;
};

extern struct rig *rig;

/* 0, or what the core said; then nothing is left.  home_open() was called. */
int rig_open(const struct rig_config *cfg);

/* Ends the store; nothing may be left. */
void rig_close(void);

/* With a home of its own, and an end of that as well; a CASE() leaves its end to who runs it. */
void rig_begin(const struct rig_config *cfg);
void rig_end(void);
extern bool rig_begun;

/* Does an operation; value is what a write writes.  Returns what the store said. */
int rig_do(const struct op *op, u32 value);

/* Ends a hold on slot i that the actor took, or that was there before; false: there is none. */
bool rig_drop(u64 i);

/* Ends a hold that the actor took, whatever the slot; false: there is none. */
bool rig_drop_own(void);

/* CPU cpu makes n small objects, of the slots from `from` on, and frees each. */
void rig_push(unsigned int cpu, u64 from, unsigned int n);

/* What slot i holds: 0 nothing, else the value.  page: of the slot, not blob. */
u32 rig_value(u64 i, bool page);

/* Every invariant that holds while nobody uses the store; a violation ends the program. */
void rig_check(void);

#define must(cond)                                                                            \
	do {                                                                                  \
		if (!(cond))                                                                  \
			explore_fail("%s:%d: %s is not so", __FILE__, __LINE__, #cond);       \
	} while (0)

/* `how` is ==, or <= for a bound. */
#define must_be(expr, how, value)                                                             \
	do {                                                                                  \
		long long got_ = (long long)(expr), want_ = (long long)(value);               \
		if (!(got_ how want_))                                                        \
			explore_fail("%s:%d: %s is %lld, not " #how " %lld", __FILE__, __LINE__, \
				     #expr, got_, want_);                                     \
	} while (0)
#define must_eq(expr, value) must_be(expr, ==, value)
#define must_be_at_most(expr, value) must_be(expr, <=, value)

#endif
