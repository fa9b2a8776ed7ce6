/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * release.h - the release stage: objects that were detached are freed later, in batches.
 *
 *     detach --push--> [ring of this CPU] --full--> queue of this CPU --> workers of the node
 *                              |      |                    |                |
 *                              |      +--- anyone: take  --+----------------+--> pool_free_bulk()
 *                              +-no buffer: the oldest 64, by the CPU itself+
 *
 * "The CPU" is a thread that has the CPU's item (store_cpu), and pushes.
 *
 * A CPU's buffer is a page of references, used as a ring by positions that only grow:
 *
 *     position   head                  tail        head <= tail <= head + RELEASE_REFS
 *                 | held . held . held |           the place of position p is p % RELEASE_REFS
 *       taken from here, by anybody    pushed here, by the CPU alone
 *
 * A push writes the reference and then tail, and nothing that other threads write.  A taker, which
 * may be the CPU itself, copies references from head on, then moves head by compare-and-swap.  Only
 * if that succeeds are the references the taker's.  Positions never come again, so if another
 * thread took some meanwhile it fails.  When the ring is full the CPU takes all of it in one step,
 * head = tail, queues the buffer, and has an empty one in its place.
 *
 * The buffers are the budget.  One is full with RELEASE_REFS references, or with as many as take
 * buf_bytes of pages; the budget of all stores, and that of each, is a number of buffers:
 *
 *     stock of a node --RELEASE_POCKET at most--> pocket of a CPU --> ring --> queue
 *             ^                                                                  |
 *             +----------- worker, flush or help, which free what is in them ----+
 *
 *     held back <= (buffers of the limit + those of CPUs) * buf_bytes
 *
 * So CPUs that free at the same time meet at the stock's lock once in several buffers.  A CPU that
 * gets no empty buffer frees the oldest 64 objects of its ring, in one batch: that makes room at a
 * bounded cost.  A push never allocates, since all buffers are made before.
 *
 * The first push arms the node's timer, which bounds how long a reference waits.  Until the timer
 * runs out the workers sleep, so that they take no CPU time from threads that free, unless half the
 * budget is used.
 */
#ifndef EBB_CORE_RELEASE_H
#define EBB_CORE_RELEASE_H

#include "pool.h"

#define RELEASE_REFS ((4096 - 32) / 8)  /* references of a buffer */
#define RELEASE_SPILL POOL_BULK_SMALL   /* freed in place at a time */
#define RELEASE_TIMER_US 2000
#define RELEASE_LIMIT_SHARE 32          /* release_default_limit(): memory / this, but at most */
#define RELEASE_LIMIT_CPU ((u64)256 << 20)      /* this much for each CPU */
#define RELEASE_AHEAD 64                /* a push prefetches the line so many references ahead */
#define RELEASE_ROUND 64                /* buffers that a worker drains before it lets others run */
#define RELEASE_BACKLOG 16              /* full buffers that are work for one more worker */
#define RELEASE_LOOKS 64                /* items that one release_help() looks at */
#define RELEASE_POCKET 16               /* the most empty buffers that a CPU draws at a time */
#define RELEASE_SCRATCH_BYTES (2 * RELEASE_REFS * sizeof(u64))  /* for who drains */
#define RELEASE_BUF_BYTES ((u64)RELEASE_REFS * PAGE_SIZE / 4) /* a buffer's part of a limit */

struct release;
struct release_node;

/*
 * Orderings (docs/internals/locking.md).
 *
 * store counters, release_cpu.pushed.  Writes: the item, write_once.  Reads: sums, relaxed.
 *     Order: none; a sum is of some moment for each CPU.
 * release_cpu.tail.  Writes: the item, release.  Reads: who takes, acquire.  Order: the
 *     reference and buf before tail.  Without it: a reference read before it is there.  Model:
 *     take, ring.
 * release_cpu.head.  Writes: who takes, CAS; who has the item, CAS.  Reads: the same, acquire.
 *     Order: full: copies before it; acquire: a place is written again after it was copied.
 *     Without it: a reference freed twice.  Model: take.
 * release_cpu.buf.  Writes: the item, after head.  Reads: who takes, read_once, between tail and
 *     head.  Order: full on both sides (head's CAS).  Without it: a reference out of another
 *     buffer.  Model: ring.
 * head, and the queue.  Writes: the item, under the queue's lock: nfull, then head.  Reads:
 *     flush: head, then nfull, then the lock.  Order: full (head's CAS): who sees that head
 *     moved sees that there is something; the lock: it is there.  Without it: a flush that ends
 *     while a buffer is on its way.  Model: hand_over.
 * release_cpu.spilling.  Writes: the item: before head; then release.  Reads: flush, acquire,
 *     after head.  Order: full (head's CAS); release: the frees before it.  Without it: a flush
 *     that ends before them.  Model: spilling.
 * release_node.inflight[], .epoch.  Writes: who takes: full add, then a look at the epoch; down
 *     with a full add.  Reads: flush: full add to the epoch, then acquire.  Order: full on both
 *     sides: who still saw the old epoch is waited for; release: the frees before it.  Without
 *     it: a flush that ends before them.  Model: inflight, epoch.
 * a buffer's content.  Writes: the item.  Reads: drain.  Order: the item to the queue's lock,
 *     the lock to the drain; back by the home's lock.  Without it: references lost or read
 *     before they are there.  Model: handoff.
 * release_cpu.pushed, .freed.  Writes: the item, before tail; who takes or frees, full add.
 *     Reads: sum: freed with acquire, then pushed.  Order: who frees saw tail, and so the bytes.
 *     Without it: less than nothing is held back.  Model: held.
 * release_node.armed.  Writes: push, after the item: full OR of nothing, queue the run, CAS;
 *     worker 0: full OR and add, then disarm: host_settle(), then a look.  Reads: push, relaxed,
 *     under the item.  Order: the settle: a section that saw it odd is over and seen; OR: the
 *     push before the look at host_work.wake, whose worker has a full fence between clearing it
 *     and its look; CAS: it is the number from before the run was queued, and a number never
 *     comes again.  Without it: a reference that waits for the next flush.  Model: armed,
 *     settle.
 * release_node.idle.  Writes: worker 0, after armed is even; disarm, full AND.  Reads: disarm.
 *     Order: taken back before the settle, so a later one is another run's.  Without it: a
 *     reference that waits for the next free.  Model: test_interleave.
 * host_work.wake.  Writes: worker, before its work; who queues.  Reads: who queues, relaxed,
 *     after release_node.kicked (full OR; the worker: full AND).  Order: kicked: who came after
 *     the worker sees NO_WAKE, who came before is found.  Without it: a full buffer and a worker
 *     asleep until the timer.  Model: kick.
 * release.era.  Writes: full add, by who frees all that is held back.  Reads: relaxed, under the
 *     queue's lock, as a buffer begins to be a CPU's.  Order: the lock, which who looks takes
 *     after his add: a buffer that is begun later is of his era or a later one. What was freed
 *     before the add, as he knows it, lies in buffers that were begun before.  Without it: an
 *     object that is held back and not found.  Test: test_room.
 * counts of release_queue; cpu_bufs, limit_bufs, out of release_node; limit_bufs, lent of
 *     release_stock.  Writes: the lock, write_once.  Reads: the CPU, who drains, the shrinker,
 *     relaxed, before the lock.  Order: none, but for nfull (above): a guess, made again under
 *     the lock.
 * release.limit, .buf_bytes, release_node.pocket, mem_limit.  Writes: write_once, under
 *     flushing.  Reads: read_once; the release stage's under the item.  Order: settle: the flush
 *     that follows a smaller limit comes after all who saw the larger.  Without it: a free held
 *     back although the limit is 0.  Model: settle.
 * release_node.peak, .deferred, counts of objects and times.  Writes: worker 0, flush; full add;
 *     the item: write_once.  Reads: relaxed.  Order: none: a figure.
 */
struct release_buf {
	struct release_buf *next;
	/* Set as the buffer is queued. */
	u64 from;                       /* the position of its first reference */
	u32 n;                          /* references */
	u32 bytes;                      /* of pages that their objects take */
	u64 era;                        /* release.era as it became a ring */
	u64 ref[RELEASE_REFS];          /* [p % RELEASE_REFS]; READ_ONCE, WRITE_ONCE */
};

_Static_assert(sizeof(struct release_buf) == 4096, "a buffer is a page, or a part of one");

/* A CPU's full buffers, and its pocket.  All under lock; the counts by READ_ONCE, too. */
struct release_queue {
	spinlock_t lock;
	u32 nfull, nempty;
	struct release_buf *full, **full_tail;  /* oldest first */
	struct release_buf *empty[RELEASE_POCKET];
};

/* The first member of a per-CPU item.  The CPU alone writes it, but for what others may. */
struct release_cpu {
	struct release_buf *buf;        /* the ring, never NULL; READ_ONCE */
	u64 *at;                        /* the place of tail in it */
	host_a64 tail;
	u64 end;                        /* at tail == end a push calls release_full() */
	u64 pushed;                     /* bytes of pages that all objects take; READ_ONCE */
	u64 pushed_at_head;             /* pushed, as it was at position head_seen */
	u64 head_seen;                  /* head, when the CPU last looked */
	struct release_node *node;      /* fixed */

	/* Takers write these. */
	host_a64 head;
	host_a64 freed;                 /* of pushed: taken from the ring, freed from the queue */
	host_a64 spilling;              /* 1: the CPU took objects, and is freeing them */
	u64 in_place;                   /* objects freed out of the ring; the CPU; READ_ONCE */
	struct release_queue queue;
};

struct release_worker {
	struct host_work work;
	struct release_node *node;
	unsigned int at;                /* the item where its next round begins */
	u64 scratch[2 * RELEASE_REFS];
};

struct release_node {
	/* Each push reads it; it only grows, and is odd while the timer runs (release_drain.c). */
	host_a64 armed;
	struct release *r;
	struct release_cpu **item;      /* [nitems] */
	unsigned int nitems;
	unsigned int nr, nworkers;      /* without items there are no workers and no buffers */
	struct release_worker *worker;  /* [nworkers] */
	struct release_stock *stock;
	/* Buffers; the stock's lock, READ_ONCE. */
	u32 pocket;                     /* a CPU draws so many at a time */
	u32 cpu_bufs;                   /* for rings, and in pockets when nothing is held back */
	u32 limit_bufs;                 /* for the limit */
	u32 out;                        /* in rings, pockets and queues, and with takers */
	host_a64 kicked;                /* a CPU woke worker 0, since much is queued */

	/* Takers write these. */
	host_a64 epoch ____cacheline_aligned;   /* grows with each flush */
	host_a64 inflight[2];           /* takers, by the parity of the epoch they began in */
	host_a64 deferred;              /* objects that takers freed */
	u64 peak;                       /* of bytes held back, as drains saw it; READ_ONCE */
	u64 collected;                  /* when worker 0 last looked at the items, ns; worker 0 */
	host_a64 idle;                  /* the timer has stopped, and disarm has not looked since */
	bool disarming;                 /* release_disarm_run()'s */
	host_a64 cursor ____cacheline_aligned;  /* as release.cursor, for the items of this node */
} ____cacheline_aligned;

/*
 * What all stores may hold back together: of each node as many buffers as the limits of its stores
 * take, but no more than limit takes.  A store with a larger limit raises that.  Buffers are made
 * as stores need more, and freed with the last store.
 */
struct release_budget {
	struct mutex mutex;
	u64 limit;                      /* bytes; mutex */
	/* A node's buffers. */
	struct release_stock {
		spinlock_t lock ____cacheline_aligned;
		u32 nempty;             /* buffers of empty[]; lock */
		u32 cpu_bufs;           /* sum of release_node.cpu_bufs of all stores; lock */
		u32 limit_bufs;         /* for limits; lock, READ_ONCE */
		u32 lent;               /* those of limit_bufs that are out; lock, READ_ONCE */
		struct release_buf **empty;     /* [n], the next one last; lock */
		/* The budget's lock. */
		u32 n;                  /* buffers */
		u64 sum;                /* of release_node.limit_bufs of all stores */
		struct release_buf *areas;      /* the first buffer of each says how many follow */
	} *node;                        /* [nr_node_ids] */
};

struct release {
	struct pool *pool;
	struct host_percpu *cpus;
	struct release_budget *budget;  /* of all stores, or own_budget */
	struct release_budget own_budget;
	u64 limit;                      /* bytes, 0: synchronous; READ_ONCE */
	u64 buf_bytes;                  /* a buffer with as much is full; READ_ONCE */
	struct release_node *node;      /* [nr_node_ids] */
	unsigned int item_nodes;        /* nodes with items */
	unsigned int items;
	struct release_cpu **item;      /* [items], node by node */
	u64 objects;                    /* the most there can be: more buffers are of no use */

	struct mutex flushing;          /* one flush at a time */
	u64 *scratch;                   /* [2 * RELEASE_REFS]; flushing */
	host_a64 era;                   /* grows with each flush and release_help_all() */
	host_a64 cursor;                /* items that release_help() was to look at, ever */
	struct host_work disarm;        /* release_disarm_run() */
};

/* What release_finish() does after the per-CPU item is unlocked; nothing if node is NULL. */
struct release_todo {
	struct release_node *node;
	bool kick;
};

struct release_stats {
	u64 deferred, in_place;         /* objects */
};

/* The limit of a budget, or of a store, if nobody sets one. */
u64 release_default_limit(void);

/* limit: bytes.  Process context.  -ENOMEM. */
int release_budget_init(struct release_budget *b, u64 limit);
/* No store is left.  Process context. */
void release_budget_destroy(struct release_budget *b);

/*
 * cpus: the owner's items, whose first member is a struct release_cpu.  limit: bytes that may
 * be held back, or 0.  objects: how many the owner can have.  budget: that of all stores, which
 * outlives r, or NULL.  Process context.  -ENOMEM, or an error of host_work_init().
 */
int release_init(struct release *r, struct pool *pool, struct host_percpu *cpus, u64 limit,
		 u64 objects, struct release_budget *budget);

/* Flushes and ends.  Process context; nobody pushes any more. */
void release_destroy(struct release *r);

/* The part of release_push() for a ring that is full, or at its end.  The CPU's item is held. */
void release_full(struct release *r, struct release_cpu *rc, struct release_todo *todo);

/*
 * Brings head_seen and pushed_at_head up to date, after others took.  Returns the references in the
 * ring.  The CPU's item is held.
 */
u64 release_look(struct release *r, struct release_cpu *rc);

/*
 * Defers the free of ref, an object that takes bytes of pages.  The CPU's item is held;
 * todo, zeroed, goes to release_finish() after it is unlocked.
 */
static inline void release_push(struct release *r, struct release_cpu *rc, u64 ref, u32 bytes,
				struct release_todo *todo)
{
	u64 tail = host_a64_read(&rc->tail) + 1, pushed = rc->pushed + bytes;

	/* The object is detached, so the caller's.  There is room: takers only move head on. */
	host_assert(ref_is_live(r->pool, ref) && bytes == pool_ref_room(r->pool, ref));
	host_assert(tail <= rc->end && tail - host_a64_read(&rc->head) <= RELEASE_REFS);
	host_assert(rc->at == &rc->buf->ref[(tail - 1) % RELEASE_REFS]);
	if (unlikely(!(host_a64_read(&rc->node->armed) & 1))) {
		todo->node = rc->node;
		/* Here it is cheap: as a rule the ring is empty. */
		release_look(r, rc);
	}
	/* A buffer may be a cold page.  Near its end this is past the array, and harmless. */
	prefetchw((char *)rc->at + RELEASE_AHEAD * sizeof(u64));
	WRITE_ONCE(*rc->at, ref);
	rc->at++;
	WRITE_ONCE(rc->pushed, pushed);
	host_a64_set_release(&rc->tail, tail);
	if (unlikely(tail == rc->end ||
		     pushed - rc->pushed_at_head >= READ_ONCE(r->buf_bytes)))
		release_full(r, rc, todo);
}

/* The part of release_finish() that is not in line. */
void release_wake(const struct release_todo *todo);

/* Does what release_push() left to do, if anything.  Any context, no item held. */
static inline void release_finish(const struct release_todo *todo)
{
	if (unlikely(todo->node != NULL))
		release_wake(todo);
}

/*
 * Returns when everything that was held back at the call is freed, whatever is pushed meanwhile.
 * Process context.  Waits for other flushes, and for threads that are freeing a batch.
 */
void release_flush(struct release *r);

/*
 * A flush after which no worker has references, for store_check().  Nobody pushes meanwhile.
 * Process context; waits as release_flush() does, and for the workers.
 */
void release_quiesce(struct release *r);

/*
 * For a thread that is short of memory: frees at most max_bufs buffers' worth of what is held back,
 * and looks at no more than RELEASE_LOOKS items.  With several nodes half of the looks are at items
 * of node (NUMA_NO_NODE: the CPU's), and come first.  The next call looks at the next items.
 * Returns the objects freed; 0: none were in these items, or other threads are freeing them.
 * Process context; takes spin locks only, and waits for no other thread.
 */
u64 release_help(struct release *r, unsigned int node, unsigned int max_bufs);

/* A thread that asks for memory again and again; zeros at first. */
struct release_asker {
	u64 left;               /* calls that may still follow, + 1; 0: not set yet */
	unsigned int none;      /* last calls in a row that freed nothing */
};

/*
 * release_help() with a few buffers, for a thread that found no room and then tries again.  False:
 * another try is of no use.  Every item was looked at in vain, or as much was freed as was held
 * back at the first call.  Waits for nothing that other threads are freeing.  Context: as
 * release_help().
 */
bool release_help_again(struct release *r, struct release_asker *a, unsigned int node);

/*
 * A flush that waits for no other thread: frees what was held back at the call and no other thread
 * has taken.  True: all that was held back is free.  False: other threads may have some of it, and
 * may be preempted; the caller can only ask again later.  A thread that took something that was
 * pushed later makes it false, too.
 *
 * Its work is what is held back at the call, and of each CPU two buffers' worth that came since:
 * one that was being filled, and one that is.  It rests between batches.  Process context; takes
 * spin locks only.
 */
bool release_help_all(struct release *r);

/*
 * Sets the limit and flushes if it shrank.  One call at a time.  Process context; waits as
 * release_flush() does.  -ENOMEM: there are no buffers for it, and nothing is changed.
 */
int release_set_limit(struct release *r, u64 bytes);

/* Bytes held back now.  Looks at each item.  Any context. */
u64 release_held(struct release *r);

/*
 * About the bytes in full buffers, queued or being drained, past what pockets may have: 0 if
 * nothing is queued.  Looks at each node only.  Any context.
 */
u64 release_backlog(struct release *r);

/* The most bytes that were held back since the start, or since the nodes' peaks were set to 0. */
u64 release_peak(struct release *r);

/* Sums over items and nodes.  Any context. */
void release_stats(struct release *r, struct release_stats *st);

/*
 * Between release.c, release_budget.c and release_drain.c.
 */

/* Gives each CPU a ring; limit_bufs is 0 yet.  Process context.  -ENOMEM. */
int release_budget_join(struct release *r);
/*
 * Makes the buffers for a limit in place of r->limit, and fills or empties pockets.  Process
 * context.  -ENOMEM: nothing is changed.
 */
int release_budget_set(struct release *r, u64 limit);
/* Takes all of the store's buffers back, which nobody uses any more.  Process context. */
void release_budget_leave(struct release *r);
/* Sets r->limit and what follows from it; its buffers are there. */
void release_set_limits(struct release *r, u64 bytes);
/* Draws buffers into an empty pocket.  False: there are none.  *kick: half the limit is in use. */
bool release_budget_draw(struct release_cpu *rc, bool *kick) __must_hold(&rc->queue.lock);
/*
 * Buffers that release_budget_draw() may still draw: the rest of cpu_bufs, and of limit_bufs as far
 * as the limits of all stores leave some.  Any context.
 */
u32 release_budget_room(const struct release_node *node);
/* Gives n buffers of node back.  Any context. */
void release_budget_give(struct release_node *node, struct release_buf **buf, u32 n);
/* Makes each pocket as large as it is while nothing is held back.  Any context. */
void release_fill_pockets(struct release_node *node);

/* Starts the node's timer, unless it runs.  Any context. */
void release_arm(struct release_node *node);
/* The function of release_worker.work: drains the queues and rings of the node's CPUs. */
void release_worker_run(struct host_work *w);
/* The function of release.disarm: looks again at the nodes whose timer has stopped. */
void release_disarm_run(struct host_work *w);

/* Bytes of pages that n objects take. */
static inline u64 release_bytes_of(struct release *r, const u64 *ref, unsigned int n)
{
	u64 bytes = 0;

	while (n--)
		bytes += pool_ref_room(r->pool, *ref++);
	return bytes;
}

/* Copies n references from position at of a buffer. */
static inline void release_copy(u64 *to, const struct release_buf *b, u64 at, unsigned int n)
{
	unsigned int k = (unsigned int)(at % RELEASE_REFS), i;

	for (i = 0; i < n; i++) {
		to[i] = READ_ONCE(b->ref[k]);
		if (++k == RELEASE_REFS)
			k = 0;
	}
}

/* Bytes held back in an item, its queue included.  A taker may not have added to freed yet. */
static inline u64 release_cpu_bytes(const struct release_cpu *rc)
{
	u64 freed = host_a64_read_acquire(&rc->freed);

	return READ_ONCE(rc->pushed) - freed;
}

/* Bytes held back in n items. */
static inline u64 release_held_in(struct release_cpu *const *item, unsigned int n)
{
	u64 bytes = 0;

	while (n--)
		bytes += release_cpu_bytes(*item++);
	return bytes;
}

/* Full buffers that are queued in n items. */
static inline u64 release_full_in(struct release_cpu *const *item, unsigned int n)
{
	u64 full = 0;

	while (n--)
		full += READ_ONCE((*item++)->queue.nfull);
	return full;
}

#endif
