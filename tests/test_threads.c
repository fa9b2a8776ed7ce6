// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_threads.c - threads that write, read, free, compact, flush, trim and change limits on
 * the same slots at once.
 *
 * Every slot has versions 1, 2, 3, ...: an odd one is a content that slot and version tell, an
 * even one is empty.  With one writer for each slot a read must find a version between the
 * last that was complete before it and the last that was begun when it ended; with many
 * writers, any whole content that belongs to the slot.
 */
#include "support.h"
#include "store_calls.h"
#include "store/check.h"
#include "api/ebb.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define PAGES 48                /* slots with pages */
#define BLOBS 16                /* the slots after them, with objects */
#define SLOTS (PAGES + BLOBS)

struct shared {
	struct ebb_store *store;
	bool one_writer;
	bool limits;                    /* memory limits come and go: writes may fail */
	unsigned long steps;
	u64 begun[SLOTS], complete[SLOTS];
	u64 next[SLOTS];                /* versions, when there are many writers */
	bool stop;
	const char *volatile wrong;     /* the first thing that was */
	u64 wrong_slot, wrong_a, wrong_b;
};

static struct shared shared;

static void report(const char *what, u64 slot, u64 a, u64 b)
{
	if (!__atomic_exchange_n(&shared.stop, true, __ATOMIC_SEQ_CST)) {
		shared.wrong_slot = slot;
		shared.wrong_a = a;
		shared.wrong_b = b;
		__atomic_store_n(&shared.wrong, what, __ATOMIC_SEQ_CST);
	}
}

static u64 get(const u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void set(u64 *p, u64 v)
{
	__atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

struct thread {
	pthread_t id;
	unsigned int nr;
	struct rng rng;
	unsigned char want[PAGE_SIZE], got[PAGE_SIZE];
	unsigned long reads, found;
};

static struct thread thread[THREADS];

/* version << 8 | slot leads; kinds: one word, raw, and two that compress. */
static size_t content(void *buf, u64 slot, u64 version)
{
	uint64_t tag = version << 8 | slot;
	struct rng r = { tag };
	uint64_t kind = rng_below(&r, 8);
	size_t size = slot < PAGES ? PAGE_SIZE : 8 + rng_below(&r, PAGE_SIZE - 7);

	if (slot < PAGES && kind < 2) {
		fill_word(buf, tag);
		return size;
	}
	memset(buf, (int)(tag * 31 >> 3), size);
	fill_random(buf, kind == 2 ? size : size / (2 + rng_below(&r, 8)), tag);
	memcpy(buf, &tag, sizeof(tag));
	return size;
}

static bool is_zero(const unsigned char *p)
{
	return !p[0] && !memcmp(p, p + 1, PAGE_SIZE - 1);
}

static void check_read(struct thread *t, u64 slot)
{
	u64 low = get(&shared.complete[slot]), high, tag, version;
	size_t bytes = PAGE_SIZE, want;
	int err;

	if (slot < PAGES)
		err = ebb_read(shared.store, slot, t->got, PAGE_SIZE);
	else
		err = ebb_get(shared.store, slot, t->got, PAGE_SIZE, &bytes);
	high = get(&shared.begun[slot]);
	t->reads++;
	if (err) {
		report("a read failed", slot, (u64)err, 0);
		return;
	}
	if (slot < PAGES ? is_zero(t->got) : !bytes) {
		/* Some even version is in low .. high. */
		if (shared.one_writer && low == high && low % 2)
			report("a slot reads as empty that is not", slot, low, high);
		return;
	}
	memcpy(&tag, t->got, sizeof(tag));
	version = tag >> 8;
	if ((tag & 0xff) != slot || version % 2 == 0) {
		report("a read returned what was never in the slot", slot, tag, 0);
		return;
	}
	want = content(t->want, slot, version);
	if (want != bytes || memcmp(t->got, t->want, bytes))
		report("a read returned a page that is not whole", slot, version, bytes);
	if (shared.one_writer && (version < low || version > high))
		report("a read returned a page that is stale", slot, version, low);
	t->found++;
}

/* Writes (odd) or frees (even) version v.  False: a limit made the write fail. */
static bool change(struct thread *t, u64 slot, u64 v)
{
	size_t bytes;
	int err;

	if (v % 2 == 0) {
		err = ebb_free(shared.store, slot, 1);
	} else {
		bytes = content(t->want, slot, v);
		err = slot < PAGES ? ebb_write(shared.store, slot, t->want, bytes)
				   : ebb_put(shared.store, slot, t->want, bytes);
	}
	if (err && !(shared.limits && err == -ENOMEM && v % 2))
		report("a write or free failed", slot, v, (u64)err);
	return !err;
}

static void *run(void *arg)
{
	struct thread *t = arg;

	for (unsigned long i = 0;
	     i < shared.steps && !__atomic_load_n(&shared.stop, __ATOMIC_RELAXED); i++) {
		u64 slot = rng_below(&t->rng, SLOTS), v;

		if (rng_below(&t->rng, 2)) {
			check_read(t, slot);
		} else if (!shared.one_writer) {
			v = __atomic_add_fetch(&shared.next[slot], 1, __ATOMIC_SEQ_CST);
			change(t, slot, rng_below(&t->rng, 3) ? v | 1 : v & ~(u64)1);
		} else {
			slot -= slot % THREADS;
			slot += t->nr;
			v = shared.begun[slot] + 1 + (shared.complete[slot] != shared.begun[slot]);
			/* Now and then one content over another. */
			if (v % 2 == 0 && rng_below(&t->rng, 3))
				v++;
			set(&shared.begun[slot], v);
			if (change(t, slot, v))
				set(&shared.complete[slot], v);
		}
	}
	return NULL;
}

/* Everything else that may be called at any time. */
static void *disturb(void *arg)
{
	static struct ebb_class rows[EBB_CLASSES_MAX] = { { .struct_size = sizeof(*rows) } };
	struct rng rng = { test_seed ^ 0xd157 };
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	unsigned int n;
	u64 pages;

	while (!__atomic_load_n((bool *)arg, __ATOMIC_SEQ_CST)) {
		static const u64 limit[] = { 0, 1, 10000, 1 << 20, EBB_DEFAULT };
		int err = 0;

		switch (rng_below(&rng, 8)) {
		case 0:
		case 1:
			err = ebb_compact(shared.store, &pages);
			break;
		case 2:
			err = ebb_flush(shared.store);
			break;
		case 3:
			err = ebb_stat(shared.store, &stat);
			if (!err && stat.same_pages > SLOTS)
				report("more same pages than slots", 0, stat.same_pages, 0);
			break;
		case 4:
			err = ebb_set_release_limit(shared.store,
						    limit[rng_below(&rng, ARRAY_LEN(limit))]);
			break;
		case 5:
			err = ebb_classes(shared.store, rows, &n);
			break;
		case 6:
			err = ebb_trim(shared.store, NULL);
			break;
		default:
			if (shared.limits)
				err = ebb_set_mem_limit(shared.store, rng_below(&rng, 2) ? 0 :
							20 * PAGE_SIZE);
			else
				err = ebb_reset_held_back_peak(shared.store);
		}
		if (err)
			report("a call failed that may not", 0, (u64)err, 0);
		nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
	}
	return NULL;
}

static void must_be_sound_now(void)
{
	char why[128] = "";

	must_eq(ebb_flush(shared.store), 0);
	if (ebb_check(shared.store, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
}

/* Bytes of descriptors and buffers; the slot table does not change. */
static u64 meta_bytes(void)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_stat(shared.store, &stat), 0);
	return stat.meta_bytes;
}

static void run_threads(const char *codec, u64 release_limit, bool one_writer, bool limits,
			uint64_t seed)
{
	struct ebb_config cfg;
	bool over = false;
	pthread_t other;
	u64 meta;

	memset(&shared, 0, sizeof(shared));
	use_seed(seed);
	shared.one_writer = one_writer;
	shared.limits = limits;
	shared.steps = scaled(40000);
	ebb_config_init(&cfg);
	cfg.slots = SLOTS;
	cfg.codec = codec;
	cfg.release_limit = release_limit;
	cfg.chain_size = 4;
	must_eq(ebb_open(&shared.store, &cfg), 0);
	meta = meta_bytes();

	must_eq(pthread_create(&other, NULL, disturb, &over), 0);
	for (unsigned int i = 0; i < THREADS; i++) {
		thread[i].nr = i;
		thread[i].rng.s = test_seed * THREADS + i;
		thread[i].reads = thread[i].found = 0;
		must_eq(pthread_create(&thread[i].id, NULL, run, &thread[i]), 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		must_eq(pthread_join(thread[i].id, NULL), 0);
	__atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
	must_eq(pthread_join(other, NULL), 0);

	if (shared.stop) {
		printf("# slot %llu: %s: %llx, %llx\n", (unsigned long long)shared.wrong_slot, shared.wrong,
		       (unsigned long long)shared.wrong_a, (unsigned long long)shared.wrong_b);
		must_failed(__FILE__, __LINE__, "what the threads saw", 0, 1);
	}
	must_be_sound_now();
	for (u64 slot = 0; slot < SLOTS; slot++)
		check_read(&thread[0], slot);
	must(!shared.stop);
	for (unsigned int i = 0; i < THREADS; i++)
		must(thread[i].found > 0 && thread[i].found <= thread[i].reads);
	must_eq(ebb_reset(shared.store), 0);
	must_be_sound_now();
	/* Nothing is stored: no descriptor may be left. */
	must_eq(meta_bytes(), meta);
	ebb_close(shared.store);
}

CASE(a_read_never_returns_what_is_stale_or_torn)
{
	run_threads("lz4", 1 << 20, true, false, 1);
	run_threads(EBB_LZO ? "lzo" : "lz4hc", EBB_DEFAULT, true, false, 2);
}

CASE(synchronous_frees_are_as_safe_as_deferred_ones)
{
	run_threads("lz4", 0, true, false, 3);
}

CASE(a_write_that_fails_on_a_limit_leaves_what_was_there)
{
	run_threads("lz4", 100000, true, true, 4);
}

CASE(writers_of_the_same_slot_leave_one_of_their_pages)
{
	run_threads("lz4", 1 << 20, false, false, 5);
	run_threads("zstd", 0, false, true, 6);
}

CASE(any_number_of_cpus_will_do)
{
	static const unsigned int cpus[] = { 1, 2, 8 };

	for (size_t i = 0; i < ARRAY_LEN(cpus); i++) {
		host_user_set_nr_cpus(cpus[i]);
		run_threads("lz4", i % 2 ? 5000 : 1 << 20, true, false, 7 + i);
		run_threads("lz4", 1 << 20, false, true, 70 + i);
	}
	host_user_set_nr_cpus(0);
}

/* ---- descriptors ---- */

#define OBJECTS 130             /* more than the descriptors of a chunk */
#define CROWD 16

static struct pool pool;
static pthread_barrier_t barrier;

static u64 look(void *ctx, u32 key)
{
	return 0;
}

static bool swing(void *ctx, u32 key, u64 from, u64 to)
{
	return false;
}

/* Asked before each page is taken: all threads come by here on their way to a new chunk. */
static bool give_way(void)
{
	sched_yield();
	return false;
}

/* In each round all threads need a new chunk of descriptors at the same moment. */
static void *take_and_free(void *arg)
{
	const unsigned long *rounds = arg;
	u64 refs[OBJECTS];
	unsigned int n;

	for (unsigned long i = 0; i < *rounds; i++) {
		pthread_barrier_wait(&barrier);
		for (n = 0; n < OBJECTS && !pool_make(&pool, PAGE_SIZE, NULL, n, ANYHOW, &refs[n]);
		     n++)
			;
		if (n < OBJECTS)
			report("an allocation failed", 0, n, 0);
		pthread_barrier_wait(&barrier);
		while (n--)
			pool_free(&pool, refs[n]);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

CASE(no_descriptors_are_left_in_an_empty_pool)
{
	const struct pool_owner owner = { .look = look, .swing = swing };
	unsigned long rounds = scaled(300), left_in = 0;
	pthread_t crowd[CROWD];
	struct source source;

	memset(&shared, 0, sizeof(shared));
	source_open_with(&source, 1, 1);
	host_user_fail = give_way;
	must_eq(pool_init(&pool, &source.pages, 8, &owner), 0);
	pthread_barrier_init(&barrier, NULL, CROWD + 1);
	for (unsigned int k = 0; k < CROWD; k++)
		must_eq(pthread_create(&crowd[k], NULL, take_and_free, &rounds), 0);
	for (unsigned long i = 0; i < rounds; i++) {
		for (unsigned int k = 0; k < 3; k++)
			pthread_barrier_wait(&barrier);
		left_in += host_a64_read(&pool.zspages.chunks) != 0;
	}
	for (unsigned int k = 0; k < CROWD; k++)
		must_eq(pthread_join(crowd[k], NULL), 0);
	host_user_fail = NULL;
	pthread_barrier_destroy(&barrier);
	must(!shared.stop);
	must_eq(pool_pages(&pool), 0);
	must_eq(left_in, 0);
	pool_destroy(&pool);
	source_close(&source);
}

/* ---- an item whose thread lost its CPU ---- */

struct settler {
	struct host_percpu *pc;
	u64 began, done;
};

static void *settle(void *arg)
{
	struct settler *s = arg;

	set(&s->began, 1);
	host_settle(s->pc);
	set(&s->done, 1);
	return NULL;
}

static void *lock_an_item(void *arg)
{
	return host_percpu_lock(arg);
}

CASE(who_finds_an_item_taken_takes_another_and_settle_waits_for_both)
{
	struct settler s = { 0 };
	struct host_percpu pc;
	pthread_t id, more[2];
	void *item[3];

	/* One CPU has an item, and there is one more. */
	host_user_set_nr_cpus(1);
	must_eq(host_percpu_init(&pc, 64), 0);
	must_eq(host_percpu_items(&pc), 2);
	item[0] = host_percpu_lock(&pc);
	must_eq(pthread_create(&more[0], NULL, lock_an_item, &pc), 0);
	must_eq(pthread_join(more[0], &item[1]), 0);
	must(item[0] != item[1]);
	/* A third waits for the other's. */
	must_eq(pthread_create(&more[1], NULL, lock_an_item, &pc), 0);
	s.pc = &pc;
	must_eq(pthread_create(&id, NULL, settle, &s), 0);
	must_become(get(&s.began));
	usleep(20000);
	must(!get(&s.done));
	host_percpu_unlock(&pc, item[1]);
	must_eq(pthread_join(more[1], &item[2]), 0);
	must(item[2] == item[1]);
	usleep(20000);
	must(!get(&s.done));
	host_percpu_unlock(&pc, item[0]);
	host_percpu_unlock(&pc, item[2]);
	must_eq(pthread_join(id, NULL), 0);
	must(get(&s.done));
	host_percpu_destroy(&pc);
	host_user_set_nr_cpus(0);
}

/* ---- CPUs that come later ---- */

#define LATE_TURNS 200000

static struct {
	struct host_percpu pc;
	u64 locked[3], wrong;
} late;

static void *lock_from_a_late_cpu(void *arg)
{
	unsigned long i, turns = scaled(LATE_TURNS);
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(1, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		set(&late.wrong, 2);
	for (i = 0; i < turns; i++) {
		char *item = host_percpu_lock(&late.pc);

		/* CPU 0's is for CPU 0. */
		if (item == host_percpu_peek(&late.pc, 0))
			set(&late.wrong, 1);
		++*(u64 *)(void *)item;
		host_percpu_unlock(&late.pc, item);
	}
	return NULL;
}

CASE(a_cpu_that_comes_later_uses_the_items_past_the_cpus)
{
	pthread_t id[3];
	unsigned int i;
	u64 sum = 0;

	memset(&late, 0, sizeof(late));
	must_eq(host_percpu_init(&late.pc, 64), 0);
	if (!late.pc.rseq || nr_cpu_ids < 2) {
		printf("# no restartable sequences, or one CPU\n");
		host_percpu_destroy(&late.pc);
		skip();
	}
	/* As if there had been one CPU when it was made. */
	late.pc.items -= late.pc.n - 1;
	late.pc.n = 1;
	for (i = 0; i < 3; i++)
		must_eq(pthread_create(&id[i], NULL, lock_from_a_late_cpu, NULL), 0);
	for (i = 0; i < 3; i++)
		must_eq(pthread_join(id[i], NULL), 0);
	must_eq(late.wrong, 0);
	for (i = 1; i < late.pc.items; i++)
		sum += *(u64 *)host_percpu_peek(&late.pc, i);
	must_eq(sum, 3 * scaled(LATE_TURNS));
	late.pc.n = nr_cpu_ids;
	late.pc.items += late.pc.n - 1;
	host_percpu_destroy(&late.pc);
}

/* ---- a system that takes membarrier away ---- */

static bool forbid_membarrier(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = ARRAY_LEN(code), .filter = code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

CASE(settling_without_the_barrier_waits_until_it_is_safe)
{
	struct host_percpu pc;
	int status;
	pid_t pid;
	u64 begun;

	must_eq(host_percpu_init(&pc, 64), 0);
	if (!pc.rseq) {
		printf("# no restartable sequences here: the items take no membarrier\n");
		host_percpu_destroy(&pc);
		skip();
	}
	pid = fork();
	must(pid >= 0);
	if (!pid) {
		signal(SIGABRT, SIG_DFL);       /* not cmocka's */
		if (!forbid_membarrier())
			_exit(2);
		begun = ktime_get_ns();
		host_settle(&pc);
		_exit(ktime_get_ns() - begun < 10000000);
	}
	must_eq(waitpid(pid, &status, 0), pid);
	host_percpu_destroy(&pc);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip_because("seccomp filters are not to be had here");
	must_eq(status, 0);
}

/* ---- pages ---- */

#define LINED_UP 5
#define LATER 8

/* Reads the last object and frees it; says so in a way that orders nothing. */
static void *read_and_free(void *arg)
{
	u64 ref = *(u64 *)arg;
	unsigned char copy[PAGE_SIZE], bounce[PAGE_SIZE];

	memcpy(copy, pool_map(&pool, ref, bounce), pool_ref_size(&pool, ref));
	pool_free(&pool, ref);
	__atomic_store_n((u64 *)arg, copy[0] ? 0 : 1, __ATOMIC_RELAXED);
	return NULL;
}

/*
 * Nothing but the bitmap is between the reader of an object, who frees it without a lock, and
 * the compaction that takes its page away.  ThreadSanitizer knows whether that is enough.
 */
CASE(a_page_has_no_new_owner_before_its_last_reader_is_done)
{
	const struct pool_owner owner = { .look = look, .swing = swing };
	static unsigned char page[PAGE_SIZE] = { 1 };
	u64 refs[LINED_UP], later[LATER], last;
	struct source source;
	pthread_t reader;

	source_open(&source);
	must_eq(pool_init(&pool, &source.pages, 8, &owner), 0);
	/* The last one is the only one that reaches into the last page. */
	for (unsigned int i = 0; i < LINED_UP; i++) {
		must_eq(pool_make(&pool, PAGE_SIZE / 16 * 11, NULL, i, ANYHOW, &refs[i]), 0);
		pool_write(&pool, refs[i], page);
	}
	last = refs[LINED_UP - 1];
	must_eq(pthread_create(&reader, NULL, read_and_free, &last), 0);
	while (__atomic_load_n(&last, __ATOMIC_RELAXED))
		sched_yield();
	must(pool_compact(&pool) >= 1);
	for (unsigned int i = 0; i < LATER; i++) {
		must_eq(pool_make(&pool, PAGE_SIZE, NULL, i, ANYHOW, &later[i]), 0);
		pool_write(&pool, later[i], page);
	}
	must_eq(pthread_join(reader, NULL), 0);
	for (unsigned int i = 0; i < LATER; i++)
		pool_free(&pool, later[i]);
	for (unsigned int i = 0; i < LINED_UP - 1; i++)
		pool_free(&pool, refs[i]);
	pool_destroy(&pool);
	source_close(&source);
}
