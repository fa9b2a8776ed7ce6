/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * release.h - deferred, batched disposal of detached objects.
 *
 *     detach --push--> [ring of this CPU] --full--> queue of this CPU --> workers of the node
 *                              |      |                    |                |
 *                              |      +--- anyone: take  --+----------------+--> pool_free_bulk()
 *                              +--no room: the oldest 64, by the CPU itself-+
 *
 * A CPU's buffer is a page of references, used as a ring by positions that only grow:
 *
 *     position   head                  tail        head <= tail <= head + RELEASE_REFS
 *                 | held . held . held |           the place of position p is p % RELEASE_REFS
 *       taken from here, by anybody    pushed here, by the CPU alone
 *
 * Pushing writes the reference and then tail, and nothing else that others write.  Whoever takes,
 * the CPU itself included, copies from head on and then moves head by compare-and-swap: if that
 * succeeds the copies are his, if not they are nothing.  A full buffer is taken by its CPU in one
 * step, head = tail, and goes to its queue whole, an empty one in its place.  Because positions
 * never come again, nobody has to be kept off meanwhile.
 *
 * A full buffer goes to the queue if what is queued stays within the budget, in bytes of pages
 * that the objects take (pool_ref_room()).  Otherwise the caller frees the buffer's oldest 64
 * objects itself, in one batch, so that it makes room at the cost of a bounded stay.  Push never
 * allocates: all buffers are there before, in a number that goes with the budget.
 *
 * CPUs that free at the same time must not queue for each other, so each has a queue and a stock
 * of empty buffers under a lock of its own, and a grain of the node's budget.  Past these it asks
 * the node, for a batch of buffers and for more bytes, by the grain:
 *
 *     queue:  queued <= grain + claim                 stock: fewer than stock + batch buffers
 *     node:   sum of claims == claimed <= common      grain * CPUs + common == limit of the node
 *
 *     held back = bytes in CPU buffers + bytes queued or being drained
 *               <= limit + one buffer a CPU
 *     buffers   = one for each per-CPU item + spare   spare: in stocks, pools, queues, in hand
 *
 * The first push of a reference arms the node's timer, which bounds how long it waits.  Until it
 * runs out the workers sleep, so that they take no CPU from who is freeing, unless half the budget
 * or half the buffers are used.
 */
#ifndef EBB_CORE_RELEASE_H
#define EBB_CORE_RELEASE_H

#include "pool.h"

#define RELEASE_REFS ((4096 - 32) / 8)  /* references of a buffer */
#define RELEASE_SPILL POOL_BULK_SMALL   /* freed in place at a time */
#define RELEASE_TIMER_US 2000
#define RELEASE_LIMIT_SHARE 32          /* the budget unless told: memory / this, but at most */
#define RELEASE_LIMIT_CPU ((u64)256 << 20)      /* this much for each CPU */
#define RELEASE_AHEAD 64                /* references of a buffer to prefetch */
#define RELEASE_ROUND 64                /* buffers that a worker drains before it lets others run */
#define RELEASE_BACKLOG 16              /* full buffers that are work for one more worker */
#define RELEASE_LOOKS 64                /* items that one release_help() looks at */
#define RELEASE_STOCK 32                /* the most empty buffers that a CPU's stock is filled to */
#define RELEASE_GRAIN ((u64)8 << 20)    /* the largest grain */

struct release;
struct release_node;

struct release_buf {
	struct release_buf *next;
	union {
		u64 from;               /* position; set when it leaves its CPU, as n and bytes */
		struct release_buf *batch;      /* the first of a batch in the pool: the next one */
	};
	union {
		u32 n;                  /* references, from that position on */
		u32 count;              /* the first of a batch: buffers of it */
	};
	u32 bytes;                      /* of pages that objects take */
	u64 era;                        /* the release's as it began to be its CPU's */
	u64 ref[RELEASE_REFS];          /* [p % RELEASE_REFS]; host_read_once, host_write_once */
};

_Static_assert(sizeof(struct release_buf) == 4096, "a buffer is a page, or a part of one");

/*
 * The first member of the owner's per-CPU item.  Who has the item writes, but for head and taken.
 */
struct release_cpu {
	struct release_buf *buf;        /* never NULL; host_read_once */
	u64 *at;                        /* the place of tail in it */
	host_a64 tail;
	u64 end;                        /* tail at which a push has to look further */
	u64 pushed;                     /* bytes of pages that objects take, ever; host_read_once */
	u64 left;                      /* of those, what had left when a push last looked further */
	struct release_node *node;      /* fixed, as queue is */

	host_a64 head;                  /* anyone, by compare-and-swap */
	host_a64 taken;                 /* bytes that others took, ever: added after head moved */
	host_a64 gone;                  /* bytes that left by the CPU itself, ever */
	u64 known;                      /* a head for which before is known, or RELEASE_UNKNOWN */
	u64 before;                     /* bytes pushed before it */
	host_a64 spilling;              /* 1: objects that it took are being freed */
	u64 in_place, spills;           /* objects, times; host_read_once */
	struct release_queue *queue;
};
#define RELEASE_UNKNOWN (~(u64)0)

/* Of an item: full buffers, and empty ones to come.  All under lock, counts host_read_once, too. */
struct release_queue {
	host_lock_t lock;
	u32 nfull, nempty;
	struct release_buf *full, **full_tail;  /* oldest first */
	struct release_buf *empty;
	u64 queued;                     /* bytes, with those being drained */
	u64 claim;                      /* bytes of the node's budget */
	struct release_node *node;      /* fixed */
} HOST_OWN_LINE;

struct release_worker {
	struct host_work work;
	struct release_node *node;
	unsigned int at;                /* the item where its next round begins */
	u64 *scratch;                   /* [2 * RELEASE_REFS] */
};

struct release_node {
	/* Read by every push, written as the timer starts and ends: a number that grows. */
	host_a64 armed;            /* odd: worker 0 runs within RELEASE_TIMER_US, or disarm looks */
	struct release *r;
	struct release_cpu **item;      /* [nitems] */
	struct release_queue *queue;    /* [nitems] */
	unsigned int nitems;
	unsigned int nr, nworkers;      /* without items there are no workers and no buffers */
	struct release_worker *worker;  /* [nworkers] */
	u32 stock, batch;               /* empty buffers of a CPU; flushing, host_read_once */
	u64 grain, common;              /* bytes; flushing, host_read_once */
	u64 reserved;                   /* of the home's budget, for grains; flushing */

	/* Written by who has not enough of his own. */
	host_lock_t lock HOST_OWN_LINE;
	u32 nempty;                     /* buffers in the pool; lock, host_read_once */
	u32 spare;                      /* buffers but those of rings; flushing, host_read_once */
	struct release_buf *pool;       /* batches of empty buffers; lock */
	u64 claimed;                    /* bytes; lock, host_read_once */
	host_a64 kicked;                /* worker 0 was woken since much is queued */

	/* Written by who drains. */
	host_a64 epoch HOST_OWN_LINE;   /* grows with each flush */
	host_a64 inflight[2];           /* who may have references in hand, by the epoch's parity */
	host_a64 deferred;              /* objects freed */
	u64 flush_full, flush_timer;    /* times; worker 0 */
	u64 peak;                       /* of held back, as drains saw it; host_read_once */
	u64 collected;                  /* when worker 0 last looked at the items, ns; worker 0 */
	host_a64 idle;                  /* the timer has stopped, and disarm has not looked since */
	bool disarming;                 /* the work disarm alone */
	host_a64 cursor HOST_OWN_LINE;  /* of release_help() for this node, as below */
} HOST_OWN_LINE;

/*
 * What all stores of a home may hold back together, per node: a quarter is for grains of their
 * CPUs, of which each store has half of what the others left at most; the rest is claimed.  A
 * store with a larger limit of its own raises it.
 */
struct release_budget {
	host_lock_t lock;
	u64 limit;                      /* bytes; lock, host_read_once */
	unsigned int nodes;
	struct release_share {
		host_a64 reserved HOST_OWN_LINE;
		host_a64 claimed HOST_OWN_LINE;
	} *share;                       /* [nodes] */
};

struct release {
	struct pool *pool;
	struct host_percpu *cpus;
	struct release_budget *budget;  /* or NULL */
	u64 limit;                     /* bytes; 0: synchronous.  host_read_once, as the next two */
	u64 node_limit;                 /* each node's share */
	u64 buf_bytes;                  /* a buffer with as much counts as full */
	struct release_node *node;      /* [nodes] */
	unsigned int nodes, homes;      /* homes: nodes with items */
	unsigned int items;
	struct release_cpu **item;      /* [items], node by node */
	u64 objects;                    /* the most there can be; sizes the spare buffers */

	host_mutex_t flushing;          /* one flush at a time */
	u64 *scratch;                   /* [2 * RELEASE_REFS]; flushing */
	host_a64 flush_asked;           /* times */
	host_a64 era;                   /* grows with each flush and release_help_all() */
	host_a64 cursor;                /* of release_help(): items that it was to look at, ever */
	struct host_work disarm;
};

/* What is left to do after the per-CPU item is unlocked; nothing if node is NULL. */
struct release_todo {
	struct release_node *node;
	bool kick;
};

struct release_stats {
	u64 deferred, in_place;                 /* objects */
	u64 flush_budget, flush_full, flush_timer, flush_asked; /* times */
};

/* The budget of a home that is not told one. */
u64 release_default_limit(void);

/* Process context.  -ENOMEM. */
int release_budget_init(struct release_budget *b, u64 limit);
void release_budget_destroy(struct release_budget *b);

/* The limit is bytes at least from now on.  Any context. */
void release_budget_raise(struct release_budget *b, u64 bytes);

/*
 * cpus: the owner's items, whose first member is a struct release_cpu.  limit: bytes that may
 * be held back, 0 none.  objects: how many the owner can have.  budget: or NULL.  Process
 * context.  -ENOMEM, or what host_work_init() says.
 */
int release_init(struct release *r, struct pool *pool, struct host_percpu *cpus, u64 limit,
		 u64 objects, struct release_budget *budget);

/* Flushes and ends.  Process context; nobody pushes any more. */
void release_destroy(struct release *r);

/* Full-buffer part of release_push(). */
void release_full(struct release *r, struct release_cpu *rc, struct release_todo *todo);

/*
 * Defers the free of ref, an object that takes bytes of pages.  The CPU's item is held;
 * todo, zeroed, goes to release_finish() after it is unlocked.
 */
static inline void release_push(struct release *r, struct release_cpu *rc, u64 ref, u32 bytes,
				struct release_todo *todo)
{
	u64 tail = host_a64_read(&rc->tail) + 1, pushed = rc->pushed + bytes;

	if (host_unlikely(!(host_a64_read(&rc->node->armed) & 1)))
		todo->node = rc->node;
	/*
	 * A buffer may be a cold page: its lines come ahead.  Near its end that is past the array.
	 */
	host_prefetchw((char *)rc->at + RELEASE_AHEAD * sizeof(u64));
	host_write_once(*rc->at, ref);
	rc->at++;
	host_write_once(rc->pushed, pushed);
	host_a64_set_release(&rc->tail, tail);
	if (host_unlikely(tail == rc->end || pushed - rc->left >= host_read_once(r->buf_bytes)))
		release_full(r, rc, todo);
}

/* Part of release_finish(). */
void release_wake(const struct release_todo *todo);

/* Does what release_push() left, if anything.  Any context, no item held. */
static inline void release_finish(const struct release_todo *todo)
{
	if (host_unlikely(todo->node != NULL))
		release_wake(todo);
}

/*
 * Returns when everything that was held back at the call is freed, whatever is pushed meanwhile.
 * Process context.  Sleeps: waits for other flushes, and for who is freeing a batch just now.
 */
void release_flush(struct release *r);

/*
 * A flush after which no worker has anything in hand, for store_check().  Nobody pushes meanwhile.
 * Process context; sleeps as release_flush() does, and for the workers.
 */
void release_quiesce(struct release *r);

/*
 * For who is short of memory: frees in this thread at most max_bufs buffers' worth of what is held
 * back, and looks at RELEASE_LOOKS items at most; with more nodes than one, half of them are of
 * node (HOST_ANY_NODE: the own), and come first.  Returns the objects freed.  0 does not mean that
 * nothing is held back: others may be freeing it, or it is in an item that was not looked at; the
 * next call looks at the next ones.  Process context; sleeps for no lock and no other thread.
 */
u64 release_help(struct release *r, unsigned int node, unsigned int max_bufs);

/* Of who asks for memory again and again; zeros at first. */
struct release_asker {
	u64 left;               /* tries, and one more; 0: none was made yet */
	unsigned int none;      /* the last ones, for which nothing was found to be freed */
};

/*
 * Before another try of who found no room: release_help() with a few buffers.  False: it is of no
 * use any more, since every item was looked at and nothing found, or after as much as was held
 * back at first and one look at each: what others are freeing at that moment is not waited for.
 * Context: as release_help().
 */
bool release_help_again(struct release *r, struct release_asker *a, unsigned int node);

/*
 * A flush that waits for no other thread: frees in this one what was freed before the call and that
 * nobody has taken yet.  True: all of it is free.  False: others may have some of it in hand, as
 * long as they do not get their CPU; asking again later is all there is to do.  Who took something
 * that was freed later can make it false, too.
 *
 * Its work is what is held back at the call, so it goes with the budget, and of each CPU two
 * buffers' worth that came since: one that was being filled, and one that is.  It rests between
 * batches.  Process context; takes spin locks, sleeps for no lock.
 */
bool release_help_all(struct release *r);

/*
 * Sets the budget and flushes if it shrank.  Process context.  -ENOMEM: there are no buffers for
 * it, and it is what it was; -EINTR: the same, by host_interrupted().
 */
int release_set_limit(struct release *r, u64 bytes);

/* Full buffers, queued.  Looks at each item.  Any context. */
u64 release_full_bufs(struct release *r);

/*
 * Bytes held back now; what moves from a CPU to the queue meanwhile may be counted twice, never
 * not at all.  Looks at each item.  Any context.
 */
u64 release_held(struct release *r);

/* Bytes in full buffers, queued or being drained.  Looks at each item.  Any context. */
u64 release_queued(struct release *r);

/*
 * Of these, what is past the CPUs' grains, by the grain: 0 if nothing is queued.  Looks at each
 * node only.  Any context.
 */
u64 release_backlog(struct release *r);

u64 release_peak(struct release *r);
/* Starts the peak again. */
void release_reset_peak(struct release *r);

/* Sums over items and nodes.  Any context. */
void release_stats(struct release *r, struct release_stats *st);

/* Bytes of buffers.  Any context. */
u64 release_meta_bytes(struct release *r);

/*
 * Between release.c, release_budget.c and release_drain.c.
 */

/* Buffers beside those of rings that go with a limit. */
u32 release_spare_of(const struct release *r, const struct release_node *node, u64 limit);
/* Adds n buffers of a node to *list.  -ENOMEM: fewer, which are the caller's to free. */
int release_bufs_alloc(struct release_buf **list, u64 n, unsigned int node);
void release_bufs_free(struct release_buf *list);
/* Sets the limits of r and its nodes.  Grains that shrink give back nothing yet. */
void release_set_limits(struct release *r, u64 bytes);
/*
 * Hands spare buffers from *list to the node, or takes from it, until it has what goes with limit,
 * batch by batch.  Those that are queued stay.
 */
void release_set_spare(struct release *r, struct release_node *node, u64 limit,
		       struct release_buf **list);
/* Gives back buffers and budget of a node.  Nobody else uses it any more. */
void release_budget_end(struct release_node *node);
/* Whether a buffer with so many bytes may be queued; without the locks it is a guess. */
bool release_fits(const struct release_queue *q, u64 bytes);
/*
 * Has q what a buffer with so many bytes needs, from the node if it must.  False: there is none.
 * *kick: much is in use, so that the workers should begin.
 */
bool release_provide(struct release_queue *q, u64 bytes, bool *kick) HOST_REQUIRES(q->lock);
/* Puts an empty buffer back that was taken from q. */
void release_give_back(struct release_queue *q, struct release_buf *b) HOST_REQUIRES(q->lock);
/* What q has too much of goes back to the node. */
void release_trim(struct release_queue *q) HOST_REQUIRES(q->lock);

/* Starts the node's timer, unless it runs.  Any context. */
void release_arm(struct release_node *node);
/* Drains the queues and rings of a node's CPUs; of a struct release_worker. */
void release_worker_run(struct host_work *w);
/* Looks again at the nodes whose timer has stopped. */
void release_disarm_run(struct host_work *w);
/* The flush itself.  flushing is held. */
void release_flush_locked(struct release *r) HOST_REQUIRES(r->flushing);
/* Waits for who had taken references, or read a buffer's address, before the call. */
void release_wait_inflight(struct release *r) HOST_REQUIRES(r->flushing);

static inline struct release_buf *release_buf_pop(struct release_buf **list)
{
	struct release_buf *b = *list;

	if (b) {
		*list = b->next;
		b->next = NULL;
	}
	return b;
}

static inline void release_buf_push(struct release_buf **list, struct release_buf *b)
{
	b->next = *list;
	*list = b;
}

/* Bytes of pages that objects take. */
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
		to[i] = host_read_once(b->ref[k]);
		if (++k == RELEASE_REFS)
			k = 0;
	}
}

/* Bytes in an item; who is taking from it may not have said so yet. */
static inline u64 release_cpu_bytes(const struct release_cpu *rc)
{
	u64 left = host_a64_read_acquire(&rc->taken) + host_a64_read_acquire(&rc->gone);
	u64 bytes = host_read_once(rc->pushed) - left;

	return (s64)bytes > 0 ? bytes : 0;
}

#endif
