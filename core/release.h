/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * release.h - deferred, batched disposal of detached objects.
 *
 *     detach --push--> [buffer of this CPU] --full--> queue --> drain (worker or flush)
 *                              |                                  |
 *                              +--no room: 64 at a time-----------+--> pool_free_bulk()
 *
 * A buffer is a page of references.  Pushing touches the buffer and nothing of the object.
 * A full buffer goes to the queue and an empty one takes its place, if what is queued stays
 * within the budget, in bytes of the classes the objects take room in; otherwise the caller
 * frees the buffer's last 64 objects itself, in one batch, so that it makes room at the cost of
 * a bounded stay.  Push never allocates: all buffers are there before, in a number that goes
 * with the budget.
 *
 *     held back = bytes in CPU buffers + bytes queued or being drained
 *               <= limit + one buffer a CPU
 *     buffers   = one in use and one for the drain to put in its place, a CPU, + spare
 *
 * The first push into an empty buffer arms a timer, which bounds how long a reference waits.
 * Until it runs out the worker sleeps, so that it takes no CPU from who is freeing, unless half
 * the budget or half the buffers are used.
 */
#ifndef EBB_CORE_RELEASE_H
#define EBB_CORE_RELEASE_H

#include "pool.h"

#define RELEASE_REFS ((4096 - 32) / 8)  /* references of a buffer */
#define RELEASE_SPILL POOL_BULK_SMALL   /* freed in place at a time */
#define RELEASE_TIMER_US 2000
#define RELEASE_LIMIT_SHARE 32          /* the budget unless told: memory / this */
#define RELEASE_AHEAD 64                /* references of a buffer to prefetch */

struct release_buf {
	struct release_buf *next;
	u32 n;                          /* these two are set when it leaves its CPU */
	u64 bytes;                      /* of class sizes */
	u64 ref[RELEASE_REFS];
};

/* The first member of the owner's per-CPU item. */
struct release_cpu {
	struct release_buf *buf;        /* never NULL */
	u64 bytes;                      /* of class sizes in it; read with host_read_once */
	u32 n;                          /* references in it */
};

struct release {
	struct pool *pool;
	struct host_percpu *cpus;
	u64 limit;                      /* bytes; 0: synchronous.  host_read_once */
	u64 buf_bytes;                  /* a buffer with as much counts as full */
	host_a64 armed;                 /* the timer runs */

	host_a64 kicked;                /* the worker was woken for full buffers */

	host_lock_t lock HOST_OWN_LINE;
	struct release_buf *full, **full_tail;  /* oldest first; lock */
	struct release_buf *empty;              /* lock */
	u32 nempty;                             /* lock */
	u32 spare;                              /* buffers but for two a CPU; lock, draining */
	u64 queued;                             /* bytes, with those being drained; lock */
	u64 peak;                               /* of what was held back, as drains saw it; lock */

	host_mutex_t draining;          /* one drain at a time */
	u64 *scratch;                   /* [RELEASE_REFS]; draining */
	struct host_work work;
	u64 objects;                    /* the most there can be; sizes the spare buffers */

	/* objects; then times */
	host_a64 deferred, in_place;
	host_a64 flush_budget, flush_full, flush_timer, flush_asked;
};

/* What is left to do after the per-CPU item is unlocked. */
struct release_todo {
	bool arm, kick;
};

/*
 * cpus: the owner's items, whose first member is a struct release_cpu.  limit: bytes that may
 * be held back, 0 none.  objects: how many the owner can have.  Process context.  -ENOMEM, or
 * what host_work_init() says.
 */
int release_init(struct release *r, struct pool *pool, struct host_percpu *cpus, u64 limit,
		 u64 objects);

/* Flushes and ends.  Process context; nobody pushes any more. */
void release_destroy(struct release *r);

/* Full-buffer part of release_push(). */
void release_full(struct release *r, struct release_cpu *rc, struct release_todo *todo);

/*
 * Defers the free of ref, an object of class bytes.  The CPU's item is held; todo, zeroed, goes
 * to release_finish() after it is unlocked.
 */
static inline void release_push(struct release *r, struct release_cpu *rc, u64 ref, u32 bytes,
				struct release_todo *todo)
{
	if (!rc->n && !host_a64_read(&r->armed))
		todo->arm = true;
	/*
	 * A buffer may be a cold page: its lines come ahead, not at the next locked instruction.  Near
	 * its end that is past the array, which an index may not be.
	 */
	host_prefetchw((char *)&rc->buf->ref[rc->n] + RELEASE_AHEAD * sizeof(u64));
	rc->buf->ref[rc->n++] = ref;
	host_write_once(rc->bytes, rc->bytes + bytes);
	if (host_unlikely(rc->n == RELEASE_REFS || rc->bytes >= host_read_once(r->buf_bytes)))
		release_full(r, rc, todo);
}

/* Part of release_finish(). */
void release_wake(struct release *r, const struct release_todo *todo);

/* Does what release_push() left, if anything.  Any context, no item held. */
static inline void release_finish(struct release *r, const struct release_todo *todo)
{
	if (host_unlikely(todo->arm || todo->kick))
		release_wake(r, todo);
}

/*
 * Frees everything that was pushed before the call, in this thread.  Process context.
 */
void release_flush(struct release *r);

/*
 * Sets the budget and flushes if it shrank.  Process context.  -ENOMEM: there are no buffers for
 * it, and it is what it was.
 */
int release_set_limit(struct release *r, u64 bytes);

/* Bytes held back now.  Any context. */
u64 release_held(struct release *r);

u64 release_peak(struct release *r);
void release_reset_peak(struct release *r);

/* Bytes of buffers.  Any context. */
u64 release_meta_bytes(struct release *r);

#endif
