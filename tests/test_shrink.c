// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_shrink.c - memory given back under pressure: what is promised is there, what is not there is
 * not promised, and a call is short whoever else is at it.
 */
#include "store_rig.h"

#include <pthread.h>
#include <sys/resource.h>

#define SLOTS (64 * 1024)
#define SLOTS_LARGE 2300000     /* 1.3 GiB */
#define SIZE 600
#define CALLERS 16
#define LIMIT_NS 200000
#define STEP_NS 64              /* of what is told of many calls */
#define STEPS 16384

extern const struct codec_ops codec_lz4;

static u64 slots = SLOTS;       /* of the store that is open */

static struct store *rig_open(u64 release_limit)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = slots, .chain = 16, .release_limit = release_limit,
	};

	return rig_make(&cfg);
}

/* Slots from .. to have objects of SIZE bytes. */
static void fill(u64 from, u64 to)
{
	static unsigned char data[SIZE];

	for (; from < to; from++)
		must_eq(store_put(&rig.store, from, data, SIZE, NUMA_NO_NODE), 0);
}

/* Of each n slots one stays. */
static void thin_out(u64 n)
{
	for (u64 i = 0; i < slots; i++)
		if (i % n)
			must_eq(store_free(&rig.store, i), 0);
	release_flush(&rig.store.release);
}

/*
 * Calls until nothing is promised any more, with nobody looking anew meanwhile: at most what two
 * whole passes and all lists take.
 */
static void shrink_to_nothing(struct store *s)
{
	u64 calls = 0, most = nr_cpu_ids + 1;
	struct pool_compaction pass;

	pool_compact_begin(&s->pool, &pass);
	most += 2 * pass.left / SHRINK_STEPS;
	while (shrink_count(&s->shrink)) {
		shrink_some(&s->shrink);
		must_be_at_most(++calls, most);
	}
	printf("# %lu calls of at most %lu\n", calls, most);
}

CASE(a_full_store_promises_nothing)
{
	struct store *s = rig_open(0);

	must_eq(shrink_count(&s->shrink), 0);
	fill(0, SLOTS);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	/* What a chain leaves over at its end is no hope: here 65536 - 107 * 608. */
	must_eq(shrink_count(&s->shrink), 0);
	must_eq(shrink_some(&s->shrink), 0);
}

CASE(what_is_promised_is_there)
{
	struct store *s = rig_open(0);
	u64 before, promised, room;

	fill(0, SLOTS);
	thin_out(4);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	before = pool_pages(&s->pool);
	promised = shrink_count(&s->shrink);
	room = store_count(s, CNT_ROOM) >> PAGE_SHIFT;
	must(promised > before / 2);
	must_be_at_most(promised, before - room);
	shrink_to_nothing(s);
	must_be_at_most(pool_pages(&s->pool), before - promised + promised / 50);
	release_quiesce(&s->release);
	must_hold(store_check(s));
	/* And no more, as often as it looks. */
	for (unsigned int i = 0; i < 4; i++) {
		shrink_look(&s->shrink, store_count(s, CNT_ROOM));
		must_eq(shrink_count(&s->shrink), 0);
	}
}

CASE(what_is_held_back_is_counted_once)
{
	struct store *s = rig_open((SLOTS / RELEASE_REFS + 24) * RELEASE_BUF_BYTES);
	u64 pockets = s->release.node->pocket * s->release.node->nitems + 1, bufs;
	u64 held;

	fill(0, SLOTS);
	hold_workers(&s->release);
	for (u64 i = 0; i < SLOTS; i++)
		must_eq(store_free(s, i), 0);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	held = release_held(&s->release) >> PAGE_SHIFT;
	must(held > SLOTS * SIZE / 2 >> PAGE_SHIFT);
	bufs = release_full_in(s->release.item, s->release.items);
	must_be_at_most(shrink_count(&s->shrink),
			bufs * s->release.buf_bytes >> PAGE_SHIFT);
	must(bufs > 2 * pockets);
	must(shrink_count(&s->shrink) >=
	     (bufs - pockets) * s->release.buf_bytes >> PAGE_SHIFT);
	must(shrink_some(&s->shrink) > 0);
	/* A call frees no more buffers than it may. */
	must_be_at_most(held - (release_held(&s->release) >> PAGE_SHIFT),
			SHRINK_BUFS * RELEASE_BUF_BYTES >> PAGE_SHIFT);
	let_workers(&s->release);
	release_flush(&s->release);
}

/* A store in which one slot of 64 has something, each with a reader in the middle of it. */
static struct store *rig_open_read(void)
{
	struct store *s = rig_open(0);

	fill(0, SLOTS);
	thin_out(64);
	for (u64 i = 0; i < SLOTS; i += 64)
		store_hold(s, i);
	return s;
}

static void readers_leave(struct store *s)
{
	for (u64 i = 0; i < SLOTS; i += 64)
		store_drop(s, i, host_a64_read(store_slot(s, i)));
}

/* Objects in the middle of a reader stay, and so do their zspages: a pass proves it. */
CASE(what_a_pass_could_not_free_is_not_promised_again)
{
	struct store *s = rig_open_read();
	u64 promised, before;

	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	must(shrink_count(&s->shrink) > 0);
	shrink_to_nothing(s);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	must_eq(shrink_count(&s->shrink), 0);
	readers_leave(s);
	/* More is freed: that much is promised. */
	for (u64 i = 0; i < SLOTS; i += 128)
		must_eq(store_free(s, i), 0);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	promised = shrink_count(&s->shrink);
	must(promised > 0);
	before = pool_pages(&s->pool);
	shrink_to_nothing(s);
	must_be_at_most(pool_pages(&s->pool), before - promised);
}

/* A pass that met holds, or deletes, proves nothing of what comes after them. */
CASE(a_look_anew_doubts_what_the_last_pass_left)
{
	struct store *s = rig_open_read();
	u64 promised, before;

	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	shrink_to_nothing(s);
	readers_leave(s);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	must_eq(shrink_count(&s->shrink), 0);
	shrink_look_anew(&s->shrink, store_count(s, CNT_ROOM));
	promised = shrink_count(&s->shrink);
	must(promised > 0);
	before = pool_pages(&s->pool);
	shrink_to_nothing(s);
	must_be_at_most(pool_pages(&s->pool), before - promised);
	/* That pass is proof again. */
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	must_eq(shrink_count(&s->shrink), 0);
}

CASE(the_rest_is_done_by_the_worker)
{
	struct store *s = rig_open(0);
	u64 before;

	fill(0, SLOTS);
	thin_out(4);
	before = pool_pages(&s->pool);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	shrink_rest(&s->shrink, ~(u64)0);
	must_be_at_most(pool_pages(&s->pool), before / 3);
	/* What ends takes it back. */
	thin_out(8);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	must(shrink_count(&s->shrink) > 0);
	shrink_set_ended(&s->shrink, true);
	before = host_a64_read(&s->pool.compact_at);
	shrink_rest(&s->shrink, ~(u64)0);
	must_eq(host_a64_read(&s->pool.compact_at), before);
	/* Somebody who was just compacting, or looking, writes down what is left. */
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	must_eq(shrink_count(&s->shrink), 0);
	must(!shrink_rest(&s->shrink, 1));
	/* Who only wanted it to be quiet for a while has it go on. */
	shrink_set_ended(&s->shrink, false);
	must(shrink_count(&s->shrink) > 0);
	before = pool_pages(&s->pool);
	shrink_rest(&s->shrink, ~(u64)0);
	must(pool_pages(&s->pool) < before);
}

/* ---- many at once ---- */

struct caller {
	pthread_t thread;
	u64 calls, longest_ns, total_ns;        /* of its own CPU time */
	u64 gave;                               /* calls that gave something back */
	u64 late;                               /* calls past LIMIT_NS */
	u64 control;                            /* as late, with nothing called */
	long slept;                             /* times that it gave its CPU away */
	u32 took[STEPS];                        /* these by STEP_NS; the last: longer ones, too */
};

static struct caller caller[CALLERS];
static bool stop;

static u64 cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (u64)t.tv_sec * 1000000000 + (u64)t.tv_nsec;
}

static void *call(void *arg)
{
	struct caller *c = arg;
	struct rusage ru;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		u64 ns = cpu_ns(), freed;

		c->control += cpu_ns() - ns > LIMIT_NS;
		ns = cpu_ns();
		freed = shrink_some(&rig.store.shrink);
		ns = cpu_ns() - ns;
		c->late += ns > LIMIT_NS;
		c->longest_ns = ns > c->longest_ns ? ns : c->longest_ns;
		c->total_ns += ns;
		c->calls++;
		c->gave += freed != 0;
		c->took[ns / STEP_NS < STEPS ? ns / STEP_NS : STEPS - 1] += freed != 0;
	}
	getrusage(RUSAGE_THREAD, &ru);
	c->slept = ru.ru_nvcsw;
	return NULL;
}

/* What so many of a thousand calls that gave something back did not exceed, in us. */
static double within(u64 gave, u64 of_1000)
{
	u64 seen = 0;

	for (unsigned int step = 0; step < STEPS; step++) {
		for (unsigned int i = 0; i < CALLERS; i++)
			seen += caller[i].took[step];
		if (seen * 1000 >= gave * of_1000)
			return (step + 1) * STEP_NS / 1e3;
	}
	return 0;
}

/* The threads call while work(s) is done; then it is told how long they took. */
__no_context_analysis        /* it holds a lock that nobody else is to want */
static void call_beside(struct store *s, void (*work)(struct store *s))
{
	u64 calls = 0, gave = 0, longest = 0, total = 0, late = 0, control = 0;
	long slept = 0;

	memset(caller, 0, sizeof(caller));
	stop = false;
	/* The sleeping lock of all that is held back: who would sleep on it is seen. */
	mutex_lock(&s->release.flushing);
	for (unsigned int i = 0; i < CALLERS; i++)
		must_eq(pthread_create(&caller[i].thread, NULL, call, &caller[i]), 0);
	work(s);
	must_eq(__atomic_load_n(&s->release.flushing.state, __ATOMIC_RELAXED) & HOST_USER_WAITERS,
		0);
	mutex_unlock(&s->release.flushing);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < CALLERS; i++) {
		must_eq(pthread_join(caller[i].thread, NULL), 0);
		calls += caller[i].calls;
		gave += caller[i].gave;
		total += caller[i].total_ns;
		slept += caller[i].slept;
		late += caller[i].late;
		control += caller[i].control;
		longest = caller[i].longest_ns > longest ? caller[i].longest_ns : longest;
	}
	printf("# %lu calls, %lu ns of CPU each, longest %lu us, gave the CPU away %ld times\n",
	       calls, (total / calls), (longest / 1000), slept);
	printf("# %lu gave something back: half within %.1f us, 999 of 1000 within %.1f us\n", gave,
	       within(gave, 500), within(gave, 999));
	printf("# past %u us: %lu calls; of as many times nothing: %lu\n", LIMIT_NS / 1000, late,
	       control);
	/* Of a thread's own time another's in the same cache, or a host's, is a part. */
	must_be_at_most(late, calls / 1000 + control);
}

static void compact_over_and_over(struct store *s)
{
	for (unsigned long i = 0; i < scaled(20); i++) {
		pool_compact(&s->pool);
		fill(0, SLOTS / 2);
		for (u64 k = 0; k < SLOTS; k++)
			if (k % 3)
				must_eq(store_free(s, k), 0);
		shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	}
}

static void compact_once(struct store *s)
{
	u64 begun = ktime_get_ns(), pages = pool_pages(&s->pool);

	pool_compact(&s->pool);
	printf("# %lu of %lu MiB given back in %lu ms\n",
	       ((pages - pool_pages(&s->pool)) << PAGE_SHIFT >> 20), (pages << PAGE_SHIFT >> 20),
	       ((ktime_get_ns() - begun) / 1000000));
}

/* For the figures of docs/internals/measuring.md the pool is a large one, and compacted once. */
CASE(callers_do_a_little_while_another_compacts)
{
	bool figures = getenv("EBB_TEST_FIGURES");
	struct store *s;

	slots = figures ? SLOTS_LARGE : SLOTS;
	s = rig_open((u64)1 << 30);
	fill(0, slots);
	thin_out(3);
	shrink_look(&s->shrink, store_count(s, CNT_ROOM));
	call_beside(s, figures ? compact_once : compact_over_and_over);
	rig_close();
	slots = SLOTS;
}
