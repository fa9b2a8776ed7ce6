/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stress.h - everything at once, on all CPUs, driven by a table of operations with weights.
 *
 *     main.c      rounds: plan, let threads run, stop them, check what must hold
 *     ops.c       the operations that every home has
 *     oracle.c    what each slot may hold, and whether what was read is that
 *     home_*.c    a store of libebb, or a zram device: the calls, its own operations, its checks
 *
 * A seed decides tables, parameters and the n-th operation of each thread with its arguments;
 * how the threads interleave it does not.
 *
 * Includes nothing of the project, so that a guest's static program can be made of it.
 */
#ifndef EBB_TESTS_STRESS_H
#define EBB_TESTS_STRESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;
typedef uint32_t u32;

#define SLOTS_MAX 16384u        /* a slot's number is 16 bits of a page's tag (oracle.c) */
#define RUN_MAX 16u             /* pages of one call */
#define THREADS_MAX 64u
#define OPS_MAX 48u
#define PICK(array, r) ((array)[below((r), sizeof(array) / sizeof((array)[0]))])

/* ---- random numbers: a 64-bit state, no two equal states in a stream ---- */

static inline u64 mix(u64 z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline u64 next(u64 *r)
{
	return mix(*r += 0x9e3779b97f4a7c15u);
}

static inline u64 below(u64 *r, u64 n)
{
	return next(r) % n;
}

static inline bool one_in(u64 *r, u64 n)
{
	return !below(r, n);
}

/* ---- the table ---- */

enum outcome {
	DONE,
	FAILED,         /* an error that may be, as memory was short */
	BUSY,           /* somebody else has what it needs: nothing was done */
	OUTCOMES,
};

struct worker {
	u32 nr;
	u64 r;                          /* of the operation that runs; begun anew for each */
	unsigned char *pages, *want;    /* RUN_MAX pages, aligned; one page */
	u64 n;                          /* operations so far */
	const char *volatile doing;
	u64 count[OPS_MAX][OUTCOMES], ns[OPS_MAX], longest[OPS_MAX];
};

struct op {
	const char *name;
	u32 weight;                     /* relative; rounds vary it */
	enum outcome (*run)(struct worker *w);
};

/* ---- a round ---- */

struct round {
	u32 nr;
	u64 r;
	u32 slots;                      /* of the store, at most SLOTS_MAX; changes with it only */
	u32 hot, hot_at;                /* half of the operations go to these */
	u32 wild;	/* of 8: the blocks of slots whose writers do not take turns */
	bool short_of_memory;           /* limits and failing allocations: a write may fail */
	u32 weight[OPS_MAX];
	char text[200];
};

extern struct round round_now;

struct options {
	u64 seed;
	double seconds;
	u32 threads;
	const char *ops, *device, *second;
	u64 hog_mb;
	bool verbose, tolerate;
};

extern struct options options;

/* Names the first thing that is wrong and stops everything; what comes after it is dropped. */
__attribute__((format(printf, 1, 2))) void wrong(const char *fmt, ...);
bool stopping(void);
u64 now_ns(void);

/* ---- what a home is ---- */

/* Sums over all slots when nobody writes. */
struct tally {
	u64 stored, bytes;	/* slots that are not empty; their bytes before compression */
	u64 same;                       /* pages of one word */
	u64 raw_min, raw_max;           /* pages and objects that no codec gets below a page */
	u64 freed_min, freed_max;       /* slots freed that held something, since the store began */
	u64 failed_writes, failed_reads;
};

struct home {
	const char *name;
	bool objects;                   /* has put and get, and read is -EINVAL for an object */
	bool page_by_page;	/* a failed write has stored all pages before one, none after */
	const struct op *ops;           /* ends with a NULL name */

	/* Once, before all else.  0, or it has said what is missing. */
	int (*init)(void);
	/* Whether it has an operation of the table; NULL: it has all. */
	bool (*offers)(const char *name);
	size_t (*page_size)(void);
	/* A new, empty store for round_now, which it describes in text. */
	void (*open)(struct round *r);
	void (*close)(void);
	/* Before the threads of a round start, and after they have ended. */
	void (*begin)(struct round *r);
	void (*end)(void);

	/* 0, or a negative error number.  Runs of at most RUN_MAX pages; free: of any length. */
	int (*write)(u32 slot, const void *pages, u32 n);
	int (*read)(u32 slot, void *pages, u32 n);
	int (*put)(u32 slot, const void *data, size_t bytes);
	int (*get)(u32 slot, void *buf, size_t cap, size_t *bytes);
	int (*free)(u32 slot, u32 n);
	/* Whether a write may fail this way when memory is short. */
	bool (*may_fail)(int err);

	/* Nobody else is at work: everything that must hold does, or wrong(). */
	void (*check)(const struct tally *t);
	/* And all slots are empty: nothing is left in use, or wrong(). */
	void (*check_empty)(void);
};

extern const struct home home;
extern size_t page_size;

/* ---- the oracle (oracle.c) ---- */

enum kind {
	EMPTY, ZERO, FILL48, FILL16, FILL32, FILL64, TINY, TEXT, HALF, EDGE, NOISE, OBJECT, KINDS,
};

/* All slots empty; round_now says how many. */
void oracle_open(void);
/* Chooses the wild blocks; call when nobody is at work. */
void oracle_begin(struct worker *w);

/*
 * To change a slot: take it (false: somebody has it), begin a version, do it, end it, leave.
 * Wild slots are always to be had.  oracle_failed() finds out what a write that failed has
 * left: what was there before, or, if it may have got so far, what it wrote.
 */
bool slot_take(u32 slot);
void slot_leave(u32 slot);
bool slot_is_wild(u32 slot);
u64 oracle_new(u32 slot, enum kind kind);
void oracle_done(u32 slot, u64 version);
void oracle_failed(struct worker *w, u32 slot, u64 version, bool got_so_far);
/* A failed write, free or read that a counter of the home's counts. */
void oracle_count_failed_write(void);
void oracle_free(struct worker *w, u32 slot, u32 n);

/* A kind for a slot, from what wild slots may have; not EMPTY, nor OBJECT. */
enum kind pick_kind(u64 *r, u32 slot);
/* The bytes of a version; returns how many. */
size_t make_version(void *buf, u32 slot, u64 version);

/* Reads slots that nobody may have to take, and judges what was found. */
enum outcome oracle_read(struct worker *w, u32 slot, u32 n, bool as_object);

/* When nobody is at work: every slot holds what it must; sums of it. */
void oracle_settle(struct worker *w, struct tally *t);

/* ---- the operations of all homes (ops.c) ---- */

extern const struct op common_ops[];
/* One store with contents of its own, through home-like calls, for homes that have a second. */
struct small_store {
	int (*write)(void *ctx, u32 slot, const void *page);
	int (*read)(void *ctx, u32 slot, void *page);
	int (*free)(void *ctx, u32 slot);
	void *ctx;
	const char *name;
	bool may_fail;
};
enum outcome use_small_store(struct worker *w, const struct small_store *s, u32 slots);

#endif
