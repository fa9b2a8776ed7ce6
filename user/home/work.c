/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * work.c - deferred work of the user-space home: a few threads for all work items of the process.
 *
 * Owns: the executor, with its threads.  They are made when there is work and nobody to see to it,
 * and end when they had none for ten seconds, or with the last work item.
 *
 *   a work item         wake == NO_WAKE                 nothing is queued
 *                       ready list (due == 0) or heap   queued
 *                       running                         in fn; queued again, it waits for the end
 *   a thread            asleep until  | coming (woken or being made) | looks, or runs an item
 *
 * What is queued is seen to: a thread comes, or sleeps no longer than until the first is due, or
 * all that there may be are at work, and look afterwards.  If no thread can be made, wake is LOST,
 * which makes the next caller that queues try again; and who queues an item that is due stands in,
 * and runs it himself, as a flush does.  So fn takes no lock that its callers may have.
 *
 * A slow item may hang, as one that waits for a disk does.  While it runs there may be a thread
 * more, so others do not wait for it.  There is a place for that thread from the item's begin on:
 *
 *   places, of threads and spare == most(*) + slow items at once, ever      (*) workers_most()
 *
 * In a forked child the executor is wiped (host_user_wiped()): nothing is queued, and no thread is
 * there.
 *
 * Lock order: life > lock; lock is a leaf, and fn is called without it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "futex.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKERS_MAX 64u                 /* without slow items */
#define HOST_USER_CPUS 8192             /* as many as Linux can be built for */
#define RETRY_NS 10000000u              /* after a thread could not be made */
#define STACK_BYTES ((size_t)1 << 20)   /* the program's thread-local variables are a part of it */

/* Queued, and nobody there to run it.  Longer than any delay, so that who queues looks again. */
#define LOST (HOST_USER_NO_WAKE - 1)

enum worker_state { WORKER_NONE, WORKER_LIVE, WORKER_ENDED };

/* A place for a thread. */
struct worker {
	struct worker *next;
	u64 until;              /* when asleep */
	const char *name;       /* of the work that the thread is named after */
	pthread_t id;
	enum worker_state state;
	u32 bell;               /* futex */
	bool asleep, new;
};

struct timer {
	u64 due;
	struct host_work *w;
};

struct executor {
	struct mutex life;      /* the first work item, and the last; places, slow */
	spinlock_t lock;       /* all below, and the work items */
	struct host_work *ready, *ready_last;
	struct timer *heap;     /* [room], the first due first */
	u32 timers, room;
	u32 works;              /* <= room */
	u32 live;               /* threads; READ_ONCE */
	u32 coming;             /* of them, those that are on their way here */
	u32 away;               /* slow items that run: there may be a thread more for each */
	u64 retry_at;           /* no thread is made before, if not 0 */
	bool stop;
	bool stands_in;         /* a caller runs an item that is not slow */
	u32 places, slow;       /* slow: of works; life */
	struct worker *worker;  /* places that a thread had, or has */
	struct worker *spare;   /* the others */
};

u64 host_user_idle_ns = 10 * NS_PER_SEC;

static void *executor;          /* a struct executor; see host_user_wiped() */

/* ---- the heap ---- */

static void heap_set(struct executor *x, u32 i, struct timer t) __must_hold(&x->lock)
{
	x->heap[i] = t;
	t.w->at = i + 1;
}

/* Puts t in place i, or where it has to be from there. */
static void heap_place(struct executor *x, u32 i, struct timer t) __must_hold(&x->lock)
{
	u32 child;

	for (; i && t.due < x->heap[(i - 1) / 2].due; i = (i - 1) / 2)
		heap_set(x, i, x->heap[(i - 1) / 2]);
	while ((child = 2 * i + 1) < x->timers) {
		if (child + 1 < x->timers && x->heap[child + 1].due < x->heap[child].due)
			child++;
		if (x->heap[child].due >= t.due)
			break;
		heap_set(x, i, x->heap[child]);
		i = child;
	}
	heap_set(x, i, t);
}

static void heap_remove(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	struct timer last = x->heap[--x->timers];

	if (last.w != w)
		heap_place(x, w->at - 1, last);
	w->at = 0;
}

/* ---- what is queued ---- */

static void ready_add(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	w->next = NULL;
	w->ready = true;
	if (x->ready)
		x->ready_last->next = w;
	else
		x->ready = w;
	x->ready_last = w;
}

static void ready_remove(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	struct host_work **at = &x->ready, *before = NULL;

	for (; *at != w; at = &before->next)
		before = *at;
	*at = w->next;
	if (x->ready_last == w)
		x->ready_last = before;
	w->ready = false;
}

static void dequeue(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	if (w->ready)
		ready_remove(x, w);
	else if (w->at)
		heap_remove(x, w);
}

/* Files w, which has a due, where the threads look.  If it runs or is held, it is filed later. */
static void enqueue(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	if (w->running || w->held || w->stop || w->ready)
		return;
	if (w->at)
		heap_remove(x, w);
	if (w->due)
		heap_place(x, x->timers++, (struct timer){ w->due, w });
	else
		ready_add(x, w);
}

/* The next item to run, out of the queue; NULL: none is due. */
static struct host_work *next_due(struct executor *x) __must_hold(&x->lock)
{
	struct host_work *w = x->ready;

	if (!w && x->timers && x->heap[0].due <= ktime_get_ns())
		w = x->heap[0].w;
	if (w)
		dequeue(x, w);
	return w;
}

/* ---- running ---- */

static void begin(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	x->away += w->slow;
	w->running = true;
	WRITE_ONCE(w->wake, HOST_USER_NO_WAKE);
	w->started++;
}

/* Runs w, for which begin() was called; the lock is dropped meanwhile. */
static void run_locked(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	bool waited;

	spin_unlock(&x->lock);
	w->fn(w);
	spin_lock(&x->lock);
	x->away -= w->slow;
	w->running = false;
	w->done++;
	if (w->wake != HOST_USER_NO_WAKE)
		enqueue(x, w);
	waited = w->waiters != 0;
	if (!waited)
		return;
	WRITE_ONCE(w->done_bell, w->done_bell + 1);
	futex_wake(&w->done_bell, INT_MAX);
}

/* Waits for a run of w to end. */
static void wait_locked(struct executor *x, struct host_work *w) __must_hold(&x->lock)
{
	u32 bell = w->done_bell;

	w->waiters++;
	spin_unlock(&x->lock);
	futex_wait_until(&w->done_bell, bell, HOST_USER_NO_WAKE);
	spin_lock(&x->lock);
	w->waiters--;
}

/* ---- threads ---- */

static u32 workers_most(void)
{
	u32 n = nr_cpu_ids / 4 + 2;

	return n < WORKERS_MAX ? n : WORKERS_MAX;
}

static struct worker *free_worker(struct executor *x) __must_hold(&x->lock)
{
	struct worker *k = x->worker;

	while (k && k->state == WORKER_LIVE)
		k = k->next;
	if (k || !x->spare)
		return k;
	k = x->spare;
	x->spare = k->next;
	k->next = x->worker;
	x->worker = k;
	return k;
}

/* Whether somebody sleeps no longer than until due; else *later is who sleeps longest, or NULL. */
static bool watched(struct executor *x, u64 due, struct worker **later) __must_hold(&x->lock)
{
	struct worker *k;

	*later = NULL;
	for (k = x->worker; k; k = k->next) {
		if (!k->asleep)
			continue;
		if (k->until <= due)
			return true;
		if (!*later || k->until > (*later)->until)
			*later = k;
	}
	return false;
}

/* Who has to come for what is queued, for rouse(); NULL: it is seen to, or nobody can. */
static struct worker *who_comes(struct executor *x) __must_hold(&x->lock)
{
	struct worker *k;

	if ((!x->ready && !x->timers) || x->coming || x->stop)
		return NULL;
	if (watched(x, x->ready ? 0 : x->heap[0].due, &k))
		return NULL;
	if (k) {
		k->asleep = false;
		WRITE_ONCE(k->bell, k->bell + 1);
	} else {
		if (x->live >= workers_most() + x->away)
			return NULL;
		if (x->retry_at && ktime_get_ns() < x->retry_at)
			return NULL;
		k = free_worker(x);
		if (!k)
			return NULL;
		k->new = true;
		WRITE_ONCE(x->live, x->live + 1);
	}
	x->coming++;
	return k;
}

static void rouse(struct executor *x, struct worker *k);

static void name_thread(struct worker *me, const char *name)
{
	char comm[16] = "ebb-";
	size_t n = 4;

	if (me->name == name)
		return;
	me->name = name;
	for (; *name && *name != '_' && n < sizeof(comm) - 1; name++)
		comm[n++] = *name;
	comm[n] = '\0';
	pthread_setname_np(pthread_self(), comm);
}

/* The CPUs of the program's first thread: whoever made this one may be bound to a single one. */
static void go_where_the_process_may(void)
{
	unsigned long mask[HOST_USER_CPUS / (8 * sizeof(unsigned long))];
	long n = syscall(SYS_sched_getaffinity, getpid(), sizeof(mask), mask);

	if (n > 0)
		syscall(SYS_sched_setaffinity, 0, (size_t)n, mask);
}

static void *worker_thread(void *arg)
{
	struct sched_param none = { 0 };
	struct executor *x = executor;
	struct worker *me = arg, *other;
	u64 idle_until = 0;
	struct host_work *w;

	/* SCHED_BATCH: being woken must not preempt the thread that frees. */
	sched_setscheduler(0, SCHED_BATCH, &none);
	go_where_the_process_may();

	spin_lock(&x->lock);
	x->coming--;
	for (;;) {
		u32 bell = me->bell;
		u64 until;

		w = next_due(x);
		if (w) {
			begin(x, w);
			other = who_comes(x);
			spin_unlock(&x->lock);
			if (other)
				rouse(x, other);
			name_thread(me, w->name);
			spin_lock(&x->lock);
			run_locked(x, w);
			idle_until = 0;
			continue;
		}
		if (!idle_until)
			idle_until = ktime_get_ns() + READ_ONCE(host_user_idle_ns);
		until = idle_until;
		if (x->timers && !watched(x, x->heap[0].due, &other))
			until = x->heap[0].due;
		else if (ktime_get_ns() >= idle_until)
			break;
		if (x->stop)
			break;
		me->until = until;
		me->asleep = true;
		spin_unlock(&x->lock);
		futex_wait_until(&me->bell, bell, until);
		spin_lock(&x->lock);
		x->coming -= !me->asleep;
		me->asleep = false;
	}
	me->state = WORKER_ENDED;
	WRITE_ONCE(x->live, x->live - 1);
	spin_unlock(&x->lock);
	return NULL;
}

static int create(struct worker *k)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
#if !defined(HOST_USER_ASAN) && !defined(HOST_USER_TSAN)
	pthread_attr_setstacksize(&attr, STACK_BYTES);
#endif
	err = pthread_create(&k->id, &attr, worker_thread, k);
	pthread_attr_destroy(&attr);
	/* Thread-local variables of the program may need more than that. */
	return err == EINVAL ? pthread_create(&k->id, NULL, worker_thread, k) : err;
}

/* Nobody can be had: who queues next tries again. */
static void strand(struct executor *x) __must_hold(&x->lock)
{
	struct host_work *w;
	u32 i;

	for (w = x->ready; w; w = w->next)
		WRITE_ONCE(w->wake, LOST);
	for (i = 0; i < x->timers; i++)
		WRITE_ONCE(x->heap[i].w->wake, LOST);
}

/* Makes k's thread.  Not with a lock in hand: it takes some 50 us. */
static void start(struct executor *x, struct worker *k)
{
	bool ended = k->state == WORKER_ENDED;
	sigset_t all, old;
	int cancel, err;

	/* Waiting for a thread is a cancellation point. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (ended)
		pthread_join(k->id, NULL);
	spin_lock(&x->lock);
	k->state = WORKER_LIVE;
	k->name = NULL;
	spin_unlock(&x->lock);
	/* The program's signal handlers run on the program's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = create(k);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_setcancelstate(cancel, NULL);

	spin_lock(&x->lock);
	x->retry_at = err ? ktime_get_ns() + RETRY_NS : 0;
	if (err) {
		k->state = WORKER_NONE;
		x->coming--;
		WRITE_ONCE(x->live, x->live - 1);
		if (!x->live)
			strand(x);
	}
	spin_unlock(&x->lock);
}

static void rouse(struct executor *x, struct worker *k)
{
	if (k->new) {
		k->new = false;
		start(x, k);
	} else {
		futex_wake(&k->bell, 1);
	}
}

/* ---- the seam ---- */

bool host_user_no_threads(void)
{
	struct executor *x = executor;

	return !READ_ONCE(x->live);
}

/*
 * No thread sees to w: its caller does, if it is due.  One at a time, so that what an item queues
 * is not run within it; but nobody waits for one that may hang.
 */
static void stand_in(struct executor *x, struct host_work *w)
{
	bool slow;

	spin_lock(&x->lock);
	slow = w->slow;
	if (!x->live && (w->ready || w->at) && w->due <= ktime_get_ns() &&
	    (slow || !x->stands_in)) {
		x->stands_in |= !slow;
		dequeue(x, w);
		begin(x, w);
		run_locked(x, w);
		if (!slow)
			x->stands_in = false;
	}
	if (!x->live)
		strand(x);
	spin_unlock(&x->lock);
}

void host_user_work_arm(struct host_work *w, u64 us)
{
	u64 now = us ? ktime_get_ns() : 0;
	u64 due = us > (LOST - 1 - now) / 1000 ? LOST - 1 : now + us * 1000;
	struct executor *x = executor;
	struct worker *other;

	spin_lock(&x->lock);
	if (w->stop) {
		spin_unlock(&x->lock);
		return;
	}
	if (w->wake == HOST_USER_NO_WAKE || due < w->due)
		w->due = due;
	if (us < w->wake)
		WRITE_ONCE(w->wake, us < LOST ? us : LOST);
	enqueue(x, w);
	other = who_comes(x);
	spin_unlock(&x->lock);
	if (other)
		rouse(x, other);
	if (unlikely(host_user_no_threads()))
		stand_in(x, w);
}

/* Room for one more timer.  life is held. */
static int make_room(struct executor *x)
{
	u32 room = x->room ? 2 * x->room : 8, old_room = x->room;
	struct timer *heap, *old = x->heap;

	if (x->works < x->room)
		return 0;
	heap = host_zalloc(room * sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	spin_lock(&x->lock);
	if (x->timers)
		memcpy(heap, old, x->timers * sizeof(*heap));
	x->heap = heap;
	x->room = room;
	spin_unlock(&x->lock);
	host_free(old, old_room * sizeof(*old));
	return 0;
}

/* Places for as many threads as there may be.  life is held. */
static int make_places(struct executor *x)
{
	while (x->places < workers_most() + x->slow) {
		struct worker *k = host_zalloc(sizeof(*k));

		if (!k)
			return -ENOMEM;
		spin_lock(&x->lock);
		k->next = x->spare;
		x->spare = k;
		spin_unlock(&x->lock);
		x->places++;
	}
	return 0;
}

static void free_places(struct worker *k)
{
	while (k) {
		struct worker *next = k->next;

		host_free(k, sizeof(*k));
		k = next;
	}
}

/* Without work items, and so without threads.  life is held. */
static void free_all(struct executor *x)
{
	host_free(x->heap, x->room * sizeof(*x->heap));
	x->heap = NULL;
	x->room = 0;
	free_places(x->worker);
	free_places(x->spare);
	x->worker = x->spare = NULL;
	x->places = 0;
}

static int init_work(struct host_work *w, void (*fn)(struct host_work *w), const char *name,
		     bool slow)
{
	struct executor *x = host_user_wiped(&executor, sizeof(*x));
	int err;

	if (!x)
		return -ENOMEM;
	memset(w, 0, sizeof(*w));
	w->fn = fn;
	w->name = name;
	w->wake = HOST_USER_NO_WAKE;
	w->slow = slow;
	mutex_lock(&x->life);
	x->slow += slow;
	err = make_room(x);
	if (!err)
		err = make_places(x);
	if (err)
		x->slow -= slow;
	else
		x->works++;
	if (!x->works)
		free_all(x);
	mutex_unlock(&x->life);
	w->live = !err;
	return err;
}

int host_user_work_init(struct host_work *w, void (*fn)(struct host_work *w), const char *name)
{
	return init_work(w, fn, name, false);
}

int host_user_work_init_slow(struct host_work *w, void (*fn)(struct host_work *w),
			     const char *name)
{
	return init_work(w, fn, name, true);
}

void host_work_flush(struct host_work *w)
{
	struct executor *x = executor;
	struct worker *other;
	u64 target;

	spin_lock(&x->lock);
	target = w->started + (w->wake != HOST_USER_NO_WAKE);
	while (w->done < target) {
		if (w->running || w->held) {
			wait_locked(x, w);
			continue;
		}
		dequeue(x, w);
		begin(x, w);
		run_locked(x, w);
	}
	other = who_comes(x);
	spin_unlock(&x->lock);
	if (other)
		rouse(x, other);
}

void host_user_work_hold(struct host_work *w)
{
	struct executor *x = executor;

	spin_lock(&x->lock);
	w->held = true;
	dequeue(x, w);
	while (w->running)
		wait_locked(x, w);
	spin_unlock(&x->lock);
}

void host_user_work_let(struct host_work *w)
{
	struct executor *x = executor;
	struct worker *other;

	spin_lock(&x->lock);
	w->held = false;
	if (w->wake != HOST_USER_NO_WAKE)
		enqueue(x, w);
	if (w->waiters) {
		WRITE_ONCE(w->done_bell, w->done_bell + 1);
		futex_wake(&w->done_bell, INT_MAX);
	}
	other = who_comes(x);
	spin_unlock(&x->lock);
	if (other)
		rouse(x, other);
}

/* Ends all threads, which have nothing to do any more, and waits until they are gone. */
static void end_threads(struct executor *x)
{
	struct worker *k;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	spin_lock(&x->lock);
	x->stop = true;
	for (k = x->worker; k; k = k->next) {
		WRITE_ONCE(k->bell, k->bell + 1);
		futex_wake(&k->bell, 1);
	}
	for (k = x->worker; k; k = k->next) {
		if (k->state == WORKER_NONE)
			continue;
		spin_unlock(&x->lock);
		pthread_join(k->id, NULL);
		spin_lock(&x->lock);
		k->state = WORKER_NONE;
	}
	x->stop = false;
	spin_unlock(&x->lock);
	pthread_setcancelstate(cancel, NULL);
}

void host_work_destroy(struct host_work *w)
{
	struct executor *x = executor;

	if (!w->live)
		return;
	spin_lock(&x->lock);
	w->stop = true;
	dequeue(x, w);
	while (w->running)
		wait_locked(x, w);
	spin_unlock(&x->lock);
	w->live = false;

	mutex_lock(&x->life);
	x->slow -= w->slow;
	if (!--x->works) {
		end_threads(x);
		free_all(x);
	}
	mutex_unlock(&x->life);
}
