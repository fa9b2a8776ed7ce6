// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_cache_room.c - a cache's memory: within the capacity, whatever comes, and given back. */
#include "cache_rig.h"
#include "process.h"
#include "stay.h"

#include <errno.h>
#include <unistd.h>

/* What the process has for the cache, and what the cache says, are within the capacity. */
static void is_within(struct ebb_cache *c, u64 before, u64 capacity, const char *what)
{
	struct ebb_cache_stat st = stat_of(c);
	u64 now = status_bytes("RssAnon"), used = st.used_bytes;

	if (getenv("EBB_TEST_FIGURES"))
		printf("# %s: capacity %.1f MiB, resident %.3f of it, said %.3f, %" PRIu64
		       " values, density %.3f\n", what, (double)capacity / 1048576,
		       ((double)now - (double)before) / (double)capacity,
		       (double)used / (double)capacity, st.values,
		       (double)st.object_bytes / (double)st.pool_bytes);
	must_be_at_most(used, capacity / 100 * 106);
	if (!SHADOWED && now > before)
		must_be_at_most(now - before, capacity / 100 * 106);
}

static void fill_with(struct ebb_cache *c, struct rng *r, unsigned long puts, size_t most)
{
	static unsigned char data[200000];

	while (puts--) {
		size_t n = 50 + rng_below(r, most);

		fill(data, n, rng_next(r) | 1);
		must_eq(put(c, rng_below(r, 1000000), data, n, 0), 0);
	}
}

CASE(memory_is_within_the_capacity)
{
	static const struct { const char *what; size_t most; unsigned long puts; } kinds[] = {
		{ "100 bytes", 100, 700000 }, { "4 KiB", 8000, 40000 }, { "64 KiB", 128000, 2000 },
		{ "all sizes", 0, 40000 },
	};
	struct rng r = { use_seed(41) };
	unsigned int i, k;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		u64 before = status_bytes("RssAnon"), capacity = 32 * MIB;
		struct ebb_cache *c = open_cache(capacity, NULL);

		for (k = 0; k < 10; k++) {
			fill_with(c, &r, scaled(kinds[i].puts) / 10,
				  kinds[i].most ? kinds[i].most : (size_t)100 << k);
			is_within(c, before, capacity, kinds[i].what);
		}
		if (scaled(100) >= 100)
			must(stat_of(c).used_bytes > capacity / 100 * 90);
		must(stat_of(c).evicted || scaled(100) < 100);
		must_eq(stat_of(c).failed, 0);
		close_cache(c);
	}
}

static u32 looks;

/* A worker that does nothing else. */
static void counts_looks(struct host_work *w)
{
	__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
}

/* On a machine that has no CPU for the worker, tables of small values must not outgrow the room. */
CASE(memory_is_within_the_capacity_when_the_worker_is_late)
{
	u64 before = status_bytes("RssAnon"), capacity = 32 * MIB;
	struct ebb_cache *c = open_cache(capacity, NULL);
	struct rng r = { use_seed(42) };
	unsigned int k;

	c->tend.fn = counts_looks;
	for (k = 0; k < 10; k++) {
		fill_with(c, &r, scaled(700000) / 10, 100);
		is_within(c, before, capacity, "100 bytes, no worker");
	}
	must_eq(stat_of(c).failed, 0);
}

/*
 * What one CPU frees is in its list, and what another one puts has pages of the system's: the pool
 * is no larger for it, but the two have more.
 */
CASE(frees_on_another_cpu_are_within_the_capacity)
{
	u64 capacity = EBB_CACHE_CAPACITY_MIN, most = capacity / 100 * 106, key, from = 0;
	static unsigned char data[4000];
	cpu_set_t all = stay_two_cpus();
	struct ebb_cache *c;
	unsigned int i;

	fill(data, sizeof(data), 0);
	stay_on(&all, 0);
	c = open_cache(capacity, NULL);
	for (key = 0; key < 4000; key++)
		must_eq(put(c, key, data, sizeof(data), 0), 0);
	host_work_flush(&c->tend);
	c->tend.fn = counts_looks;
	for (i = 0; i < 40; i++) {
		stay_on(&all, 1);
		for (; from < key - 800; from++)
			ebb_cache_delete(c, &from, sizeof(from));
		stay_on(&all, 0);
		for (; key < from + 4000; key++) {
			must_eq(put(c, key, data, sizeof(data), 0), 0);
			must_be_at_most(stat_of(c).used_bytes, most);
		}
	}
	must_eq(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* What threads of a test put into, and what came of it. */
static struct {
	struct ebb_cache *c;
	bool stop;
	u64 puts, failed;
	u32 most;               /* values that one put evicted */
} putter;

#define LARGE_VALUE ((size_t)3000000)

static void *put_large_ones(void *arg)
{
	unsigned char *data = malloc(LARGE_VALUE);
	u64 k, first = host_a64_add(arg, 1) * 1000;

	must(data);
	fill(data, LARGE_VALUE, 0);
	for (k = 0; k < 20; k++)
		put(putter.c, first + k, data, LARGE_VALUE, 0);
	free(data);
	host_a64_add(arg, 1000);
	return NULL;
}

/* Contexts and values that come faster than the worker looks. */
CASE(large_values_of_many_threads_are_within_the_capacity)
{
	host_a64 threads = { 0 };
	u64 used, most = 0;
	pthread_t t[8];
	unsigned int i;

	putter.c = open_cache(64 * MIB, "zstd");
	for (i = 0; i < ARRAY_LEN(t); i++)
		must_eq(pthread_create(&t[i], NULL, put_large_ones, &threads), 0);
	while (host_a64_read(&threads) < 1000 * ARRAY_LEN(t)) {
		usleep(1000);
		used = stat_of(putter.c).used_bytes;
		if (used > most)
			most = used;
	}
	for (i = 0; i < ARRAY_LEN(t); i++)
		must_eq(pthread_join(t[i], NULL), 0);
	must_be_at_most(most, 64 * MIB / 100 * 106);
}

/*
 * Threads by the dozen in the least capacity.  Their contexts count, and who finds no room for one
 * waits for one, so what the process has is within the capacity all the time.
 */
#define DOZENS 64u

static struct {
	struct ebb_cache *c;
	pthread_barrier_t here;
	host_a64 begun, ended, failed;
	bool varied;
} dozens;

/* What a thread's stack takes is there before the cache is. */
static void use_stack(void)
{
	volatile unsigned char room[48 << 10];
	size_t i;

	for (i = 0; i < sizeof(room); i += 512)
		room[i] = 1;
}

static void *put_by_the_dozen(void *data)
{
	struct rng r = { host_a64_add(&dozens.begun, 1) };
	unsigned long i, puts = scaled(800);
	char buf[1];
	size_t n;

	use_stack();
	pthread_barrier_wait(&dozens.here);
	/* And the cache is there. */
	pthread_barrier_wait(&dozens.here);
	for (i = 0; i < puts; i++) {
		n = dozens.varied ? 1 + i * 7 % 60000 : 3840 + rng_below(&r, 260);
		if (put(dozens.c, rng_below(&r, 200000), data, n, 0))
			host_a64_add(&dozens.failed, 1);
		get(dozens.c, rng_below(&r, 200000), buf, sizeof(buf), &n);
	}
	host_a64_add(&dozens.ended, 1);
	return NULL;
}

CASE(threads_by_the_dozen_are_within_the_capacity)
{
	static const struct {
		const char *codec;
		unsigned int threads;
		bool varied;
	} ways[] = {
		{ "lz4", 8, false }, { "lz4", DOZENS, false }, { "lz4", DOZENS, true },
		{ "zstd", 8, false }, { "zstd", DOZENS, false }, { "zstd", DOZENS, true },
	};
	u64 capacity = EBB_CACHE_CAPACITY_MIN, before, now, most, looked, over, bound;
	static unsigned char data[60001];
	unsigned int i, k;
	pthread_t t[DOZENS];

	fill(data, sizeof(data), 0);
	for (i = 0; i < ARRAY_LEN(ways); i++) {
		memset(&dozens, 0, sizeof(dozens));
		dozens.varied = ways[i].varied;
		pthread_barrier_init(&dozens.here, NULL, ways[i].threads + 1);
		for (k = 0; k < ways[i].threads; k++)
			must_eq(pthread_create(&t[k], NULL, put_by_the_dozen, data), 0);
		pthread_barrier_wait(&dozens.here);
		before = status_bytes("RssAnon");
		dozens.c = open_cache(capacity, ways[i].codec);
		pthread_barrier_wait(&dozens.here);
		looked = over = most = 0;
		for (; host_a64_read_acquire(&dozens.ended) < ways[i].threads; usleep(500)) {
			looked++;
			over += stat_of(dozens.c).used_bytes > capacity / 100 * 106;
			now = status_bytes("RssAnon");
			most = now > before + most ? now - before : most;
		}
		bound = capacity / 100 * 106 + blocks_scratch_bytes(&dozens.c->blocks);
		if (getenv("EBB_TEST_FIGURES"))
			printf("# %s, %u threads%s: resident %.3f of the capacity, more said %" PRIu64
			       " of %" PRIu64 " times\n",
			       ways[i].codec, ways[i].threads, ways[i].varied ? ", varied" : "",
			       (double)most / (double)capacity, over, looked);
		must_eq(host_a64_read(&dozens.failed), 0);
		/* What is said adds up what is read at several moments: a look may be wrong. */
		must_be_at_most(over, looked / 16 + 2);
		if (!SHADOWED && PAGE_SHIFT == 12)
			must_be_at_most(most, bound);
		close_cache(dozens.c);
		if (!SHADOWED)
			must_be_at_most(status_bytes("RssAnon"), before + MIB);
		for (k = 0; k < ways[i].threads; k++)
			must_eq(pthread_join(t[k], NULL), 0);
		pthread_barrier_destroy(&dozens.here);
	}
}

/* One large value fills what the last look left, or more; one small one does not. */
CASE(a_large_value_asks_for_a_look)
{
	struct ebb_cache *c = open_cache(64 * MIB, NULL);
	static unsigned char data[1 << 20];

	fill(data, sizeof(data), 0);
	looks = 0;
	c->tend.fn = counts_looks;
	must_eq(put(c, 1, data, 100, 0), 0);
	host_work_flush(&c->tend);
	must_eq(looks, 0);
	must_eq(put(c, 2, data, sizeof(data), 0), 0);
	host_work_flush(&c->tend);
	must_eq(looks, 1);
}

CASE(what_is_deleted_gives_memory_back)
{
	struct ebb_cache *c = open_cache(32 * MIB, NULL);
	static unsigned char data[1 << 20];
	struct rng r = { use_seed(43) };
	struct ebb_cache_stat st;
	u64 k, puts = scaled(30000), from, evicted;

	fill(data, sizeof(data), 0);
	for (k = 0; k < puts; k++)
		must_eq(put(c, k, data + k, 50 + rng_below(&r, 1600), 0), 0);
	for (k = 0; k < puts; k++)
		if (rng_below(&r, 5))
			ebb_cache_delete(c, &k, sizeof(k));
	/* Without a call: this one looks, and does nothing. */
	for (from = ktime_get_ns(), st = stat_of(c); scaled(100) >= 100; st = stat_of(c)) {
		/* Each size class keeps a part of a zspage. */
		if (st.pool_bytes <= st.object_bytes / 100 * 115 + 32 * PAGE_SIZE)
			break;
		must(ktime_get_ns() - from < 5000000000u);
		usleep(10000);
	}
	/* There is room for what comes then. */
	evicted = st.evicted;
	for (k = 0; k < puts / 3; k++)
		must_eq(put(c, puts + k, data + k, 800, 0), 0);
	must_eq(stat_of(c).evicted, evicted);
}

/* Without a call: four of five values are deleted at random, and memory follows in two seconds. */
CASE(memory_comes_back_after_random_deletes)
{
	static const size_t most[] = { 200, 4000, 60000 };
	static const unsigned long puts[] = { 100000, 12000, 800 };
	static unsigned char data[60000];
	unsigned int i;

	for (i = 0; i < ARRAY_LEN(most); i++) {
		struct ebb_cache *c = open_cache(64 * MIB, NULL);
		struct rng r = { use_seed(43) };
		u64 key, end, need;

		for (key = 0; key < puts[i]; key++) {
			size_t n = most[i] / 2 + rng_below(&r, most[i] / 2);

			fill(data, n, rng_next(&r) | 1);
			must_eq(put(c, key, data, n, 0), 0);
		}
		must_eq(stat_of(c).evicted, 0);
		for (key = 0; key < puts[i]; key++)
			if (rng_below(&r, 5))
				must_eq(ebb_cache_delete(c, &key, sizeof(key)), 0);
		end = ktime_get_ns() + 2000000000ull;
		/* Objects at the density that this page size has, and the tables. */
		need = stat_of(c).object_bytes;
		while (stat_of(c).pool_bytes + stat_of(c).idle_bytes > need / 100 * 115 + MIB / 2 &&
		       ktime_get_ns() < end)
			usleep(1000);
		if (getenv("EBB_TEST_FIGURES"))
			printf("# up to %zu bytes: %.3f of what is left, in %.2f s\n", most[i],
			       (double)(stat_of(c).pool_bytes + stat_of(c).idle_bytes) /
			       (double)need,
			       2 - ((double)end - (double)ktime_get_ns()) / 1e9);
		is_sound(c);
		if (PAGE_SHIFT == 12 && !SHADOWED)
			must_be_at_most(stat_of(c).pool_bytes + stat_of(c).idle_bytes,
					need / 100 * 115 + MIB / 2);
		close_cache(c);
	}
}

/* What a put may not go past, although entries leave holes: a little above the capacity. */
CASE(the_pool_has_a_limit_of_its_own)
{
	struct ebb_cache *c = open_cache(32 * MIB, NULL);
	static unsigned char data[4 << 20];
	struct ebb_cache_pin *pin;
	unsigned int i;

	fill(data, sizeof(data), 0);
	must_eq(ebb_cache_put(c, "large", 5, data, sizeof(data), 0, 0), 0);
	must_eq(ebb_cache_pin(c, "large", 5, 0, &pin), 0);
	for (i = 16; i <= 48; i += 16) {
		struct ebb_stat store = { .struct_size = sizeof(store) };
		struct ebb_cache_stat st;

		must_eq(ebb_cache_set_capacity(c, i * MIB), 0);
		st = stat_of(c);
		must_eq(ebb_stat(ebb_cache_store(c), &store), 0);
		must(store.mem_limit > i * MIB / 2);
		must_be_at_most(store.mem_limit, i * MIB / 64 * 65 - st.pinned_bytes);
	}
	ebb_cache_unpin(c, pin);
}

CASE(the_capacity_changes_while_it_runs)
{
	static const unsigned int mibs[] = { 64, 16, 48, 8, 64, 0, 16 };
	struct rng r = { use_seed(42) };
	u64 before = status_bytes("RssAnon");
	struct ebb_cache *c = open_cache(64 * MIB, NULL);
	unsigned int i;
	char buf[10];
	size_t n;

	for (i = 0; i < ARRAY_LEN(mibs); i++) {
		u64 capacity = mibs[i] * MIB;

		must_eq(ebb_cache_set_capacity(c, capacity), 0);
		if (capacity) {
			is_within(c, before, capacity, "set");
			fill_with(c, &r, scaled(30000), 6000);
			is_within(c, before, capacity, "filled");
		} else {
			must_eq(stat_of(c).values, 0);
			must_eq(put(c, 1, "bytes", 5, 0), -ENOMEM);
			must_eq(get(c, 1, buf, 10, &n), -ENOENT);
			if (!SHADOWED)
				must_be_at_most(status_bytes("RssAnon"), before + 4 * MIB);
		}
		is_sound(c);
	}
}

/* Who puts while the capacity shrinks does a part of that, not all of it, and stores his value. */
static __thread u32 evicted_here;

static void count_here(void *ctx, const struct ebb_cache_gone *gone)
{
	evicted_here += gone->why == EBB_CACHE_EVICTED;
}

static void *put_small_ones(void *arg)
{
	struct rng r = { 44 };
	unsigned char data[100];

	for (; !__atomic_load_n(&putter.stop, __ATOMIC_RELAXED);
	     __atomic_fetch_add(&putter.puts, 1, __ATOMIC_RELAXED)) {
		fill(data, sizeof(data), 5 * rng_next(&r));
		evicted_here = 0;
		putter.failed += put(putter.c, rng_below(&r, 1000000), data, sizeof(data), 0) != 0;
		if (evicted_here > putter.most)
			putter.most = evicted_here;
	}
	return NULL;
}

CASE(puts_go_on_while_the_capacity_shrinks)
{
	static unsigned char data[1 << 20];
	struct ebb_cache_config cfg;
	u64 k, puts = scaled(400000), seen;
	pthread_t t;

	memset(&putter, 0, sizeof(putter));
	ebb_cache_config_init(&cfg);
	cfg.capacity = 64 * MIB;
	cfg.gone = count_here;
	must_eq(open_cache_of(&putter.c, &cfg), 0);
	fill(data, sizeof(data), 0);
	for (k = 0; k < puts; k++)
		must_eq(put(putter.c, k, data + k % 1000000, 100, 0), 0);
	must_eq(pthread_create(&t, NULL, put_small_ones, NULL), 0);
	while (!(seen = __atomic_load_n(&putter.puts, __ATOMIC_RELAXED)))
		sched_yield();
	must_eq(ebb_cache_set_capacity(putter.c, EBB_CACHE_CAPACITY_MIN), 0);
	/* One of those that began before has ended. */
	while (__atomic_load_n(&putter.puts, __ATOMIC_RELAXED) < seen + 2)
		sched_yield();
	__atomic_store_n(&putter.stop, true, __ATOMIC_RELAXED);
	must_eq(pthread_join(t, NULL), 0);
	must_eq(putter.failed, 0);
	/* Who finds no room each time evicts twice as much as before; the last try takes all. */
	must_be_at_most(putter.most, puts * 3 / 4);
}

/* A cache with values of 100 to 4,000 bytes: all, or one of five, or all but those deleted. */
static struct ebb_cache *mixed_cache(u64 values, bool all)
{
	struct ebb_cache *c = open_cache(256 * MIB, NULL);
	struct rng r = { use_seed(44) };
	static unsigned char data[4000];
	u64 key;

	for (key = 0; key < values; key++) {
		size_t n = 100 + rng_below(&r, sizeof(data) - 100);

		if (!all && key * 40503 % 5)
			continue;
		fill(data, n, rng_next(&r) | 1);
		must_eq(put(c, key, data, n, 0), 0);
	}
	return c;
}

/* All that counts, tables too, is what the live ones would need alone, and 15 % at most. */
CASE(what_is_left_needs_what_it_would_need_alone)
{
	const u64 values = SHADOWED ? 10000 : 100000;
	struct ebb_cache *c = mixed_cache(values, false);
	u64 key, most, fresh, until;

	must_eq(ebb_compact(ebb_cache_store(c), NULL), 0);
	must_eq(ebb_trim(ebb_cache_store(c), NULL), 0);
	fresh = stat_of(c).used_bytes;
	most = fresh / 100 * 115;
	close_cache(c);
	c = mixed_cache(values, true);
	must_eq(stat_of(c).evicted, 0);
	for (key = 0; key < values; key++)
		if (key * 40503 % 5)
			must_eq(ebb_cache_delete(c, &key, sizeof(key)), 0);
	/* In two seconds on a quiet machine; it is not this test that says how fast this one is. */
	until = ktime_get_ns() + 120000000000ull;
	while (stat_of(c).used_bytes > most && ktime_get_ns() < until && !SHADOWED)
		usleep(10000);
	if (getenv("EBB_TEST_FIGURES"))
		printf("# %.2f MiB, put anew %.2f\n", (double)stat_of(c).used_bytes / MIB,
		       (double)fresh / MIB);
	is_sound(c);
	if (PAGE_SHIFT == 12 && !SHADOWED)
		must_be_at_most(stat_of(c).used_bytes, most);
}

/*
 * Threads whose values become others all the time, in the least capacity: what leaves gives no
 * pages for what comes, and each takes what another made room for.  No put fails for that.
 */
#define CHANGERS 6

struct changer {
	struct ebb_cache *c;
	host_a64 begun, failed;
};

static void *change_sizes(void *of)
{
	struct changer *changer = of;
	static const size_t most[] = { 4000, 60000, 100, 42000, 300000, 9000 };
	unsigned long i, steps = scaled(1500);
	struct rng r = { host_a64_add(&changer->begun, 1) };
	unsigned char *data = malloc(300000);

	for (i = 0; data && i < steps; i++) {
		size_t n = most[i * 12 / steps % 6], k;

		n = n / 2 + rng_below(&r, n / 2);
		for (k = 0; k < n; k++)
			data[k] = (unsigned char)rng_next(&r);
		if (put(changer->c, rng_next(&r), data, n, 0))
			host_a64_add(&changer->failed, 1);
	}
	free(data);
	return data ? of : NULL;
}

CASE(a_put_finds_room_while_sizes_change)
{
	struct changer changer = { .c = open_cache(EBB_CACHE_CAPACITY_MIN, NULL) };
	pthread_t thread[CHANGERS];
	unsigned int i;
	void *ret;

	for (i = 0; i < CHANGERS; i++)
		must(!pthread_create(&thread[i], NULL, change_sizes, &changer));
	for (i = 0; i < CHANGERS; i++)
		must(!pthread_join(thread[i], &ret) && ret);
	must_eq(host_a64_read(&changer.failed), 0);
}

/* What leaves may give no page: so each try of a put evicts twice as much, and the last one all. */
CASE(who_finds_no_room_again_evicts_twice_as_much)
{
	struct ebb_cache *c = open_cache(EBB_CACHE_CAPACITY_MIN, NULL);
	u64 least = EBB_CACHE_CAPACITY_MIN / 256, live, gone;
	struct rng r = { use_seed(46) };
	unsigned int times;
	struct scratch *s;

	fill_with(c, &r, 10000, 2000);
	s = scratch_get_surely(&c->blocks);
	for (times = 0; times < 6; times++, least *= 2) {
		live = stat_of(c).object_bytes;
		must(cache_make_more_room(c, s, 1000, times));
		gone = live - stat_of(c).object_bytes;
		must(gone >= least);
		/* One value more than that at most. */
		must_be_at_most(gone, least + 4096);
	}
	must(stat_of(c).values);
	must(cache_make_more_room(c, s, 1000, 8));
	must_eq(stat_of(c).values, 0);
	must(!cache_make_more_room(c, s, 1000, 0));
	scratch_put(&c->blocks, s);
}

/*
 * Pins of all sizes, of which some stay: what the process has is what is said, and within the
 * capacity, and goes with the last of them.
 */
CASE(what_pins_took_is_counted_and_given_back)
{
	static struct ebb_cache_pin *pin[1600];
	static unsigned char data[200000];
	u64 before = status_bytes("RssAnon"), capacity = 32 * MIB, key, idle;
	struct ebb_cache *c = open_cache(capacity, NULL);
	struct rng r = { use_seed(47) };
	unsigned int i, turn;
	int err;

	idle = stat_of(c).meta_bytes;
	for (turn = 0; turn < 3; turn++) {
		for (i = 0; i < ARRAY_LEN(pin); i++) {
			size_t n = rng_below(&r, rng_below(&r, 8) ? 16000 : sizeof(data));

			key = rng_next(&r);
			fill(data, n, key | 1);
			must_eq(put(c, key, data, n, 0), 0);
			if (pin[i] && i % 40)
				continue;
			ebb_cache_unpin(c, pin[i]);
			/* It may have been evicted at once. */
			err = ebb_cache_pin(c, &key, sizeof(key), 0, &pin[i]);
			must(!err || err == -ENOENT);
			must(err || (pin[i]->bytes == n && !memcmp(pin[i]->data, data, n)));
			/* As many as are half of the capacity. */
			if (stat_of(c).pinned_bytes > capacity / 2)
				break;
		}
		for (i = 0; i < ARRAY_LEN(pin); i++)
			if (i % 40) {
				ebb_cache_unpin(c, pin[i]);
				pin[i] = NULL;
			}
		fill_with(c, &r, 20000, 4000);
		must(stat_of(c).pinned_bytes);
		is_within(c, before, capacity, "pins");
	}
	for (i = 0; i < ARRAY_LEN(pin); i++) {
		ebb_cache_unpin(c, pin[i]);
		pin[i] = NULL;
	}
	must_eq(stat_of(c).pinned_bytes, 0);
	must_eq(ebb_cache_set_capacity(c, 0), 0);
	/* What is kept for the next pins, and a context. */
	must_be_at_most(stat_of(c).meta_bytes, idle + MIB);
}

static void *put_one_large(void *data)
{
	putter.failed = put(putter.c, 1, data, 2 * MIB, 0) != 0;
	__atomic_store_n(&putter.puts, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Puts a large value in a thread, and returns once that waits for its turn. */
static void have_one_wait(pthread_t *t, void *data)
{
	struct cache_turn *turns = &putter.c->turns;
	bool ended, waits;

	must_eq(pthread_create(t, NULL, put_one_large, data), 0);
	do {
		sched_yield();
		ended = __atomic_load_n(&putter.puts, __ATOMIC_ACQUIRE);
		mutex_lock(&turns->lock);
		waits = turns->waiters;
		mutex_unlock(&turns->lock);
	} while (!ended && !waits);
	must(waits);
}

/* What is half stored cannot be evicted: who would make it half of the pool waits for its end. */
CASE(a_large_value_waits_for_others)
{
	static unsigned char data[2 * MIB];
	u64 entered[64], n, most, kind;
	pthread_t t;

	/* And who would have the last scratch: it is for small ones. */
	for (kind = 0; kind < 2; kind++) {
		memset(&putter, 0, sizeof(putter));
		putter.c = open_cache(EBB_CACHE_CAPACITY_MIN, kind ? "zstd" : NULL);
		blocks_expect(&putter.c->blocks, BLOCK_BYTES);
		most = 1;
		if (kind)
			most = EBB_CACHE_CAPACITY_MIN / 2 /
			       blocks_scratch_bytes(&putter.c->blocks) - 1;
		must(most && most < ARRAY_LEN(entered));
		for (n = 0; n < most; n++) {
			entered[n] = cache_turn_enter(putter.c, kind ? BLOCK_BYTES + 1 : 2 * MIB);
			must_eq(entered[n], kind ? BLOCK_BYTES + 1 : 2 * MIB);
		}
		have_one_wait(&t, data);
		/* A small one does not. */
		must_eq(put(putter.c, 2, data, 100, 0), 0);
		must_eq(__atomic_load_n(&putter.puts, __ATOMIC_ACQUIRE), 0);
		while (n)
			cache_turn_leave(putter.c, entered[--n]);
		must_eq(pthread_join(t, NULL), 0);
		must_eq(putter.failed, 0);
		must_eq(stat_of(putter.c).values, 2);
		close_cache(putter.c);
	}
}

/* Who has the cache alone, for as long as he likes, keeps a small value for a bounded time. */
CASE(a_small_value_waits_for_large_ones_a_bounded_time)
{
	struct ebb_cache *c = open_cache(EBB_CACHE_CAPACITY_MIN, NULL);
	static unsigned char data[BLOCK_BYTES];
	u64 from, key, evicted;

	for (key = 0; !stat_of(c).evicted; key++) {
		fill(data, sizeof(data), 5 * key);
		must_eq(put(c, key, data, sizeof(data), 0), 0);
	}
	evicted = stat_of(c).evicted;
	must(cache_turn_enter_alone(c, true));
	alarm(60);
	from = ktime_get_ns();
	must(!cache_turn_enter_alone(c, false));
	must_be_at_most(ktime_get_ns() - from, 1000000000);
	for (; stat_of(c).evicted < evicted + 10; key++) {
		fill(data, sizeof(data), 5 * key);
		from = ktime_get_ns();
		must_eq(put(c, key, data, sizeof(data), 0), 0);
		must_be_at_most(ktime_get_ns() - from, 1000000000);
	}
	alarm(0);
	cache_turn_leave_alone(c);
}

/*
 * Sixteen threads in the least capacity, each with a value of a seventh of it in its hands, and
 * with contexts that would take more than all of it: none fails, and memory is within the capacity,
 * but for moments.
 */
#define CROWD 16u
#define CROWD_VALUE ((size_t)1200000)

struct crowd {
	struct ebb_cache *c;
	host_a64 begun, ended, failed, told, nested_failed;
	u64 kind;               /* of the values: fill()'s seed */
};

static struct crowd crowd;

static void *put_in_a_crowd(void *unused)
{
	u64 first = host_a64_add(&crowd.begun, 1) * 1000, k, puts = scaled(20);
	unsigned char *data = malloc(CROWD_VALUE);

	must(data);
	fill(data, CROWD_VALUE, crowd.kind);
	for (k = 0; k < puts; k++)
		if (put(crowd.c, first + k, data, CROWD_VALUE, 0))
			host_a64_add(&crowd.failed, 1);
	free(data);
	host_a64_add(&crowd.ended, 1);
	return unused;
}

/* Some of what is evicted is put again, as another value that is large, too. */
static void put_when_told(void *ctx, const struct ebb_cache_gone *gone)
{
	static const unsigned char data[CROWD_VALUE / 2];
	u64 n = host_a64_add(&crowd.told, 1);

	if (n % 16 == 0 && put(crowd.c, 1000000 + n, data, sizeof(data), 0))
		host_a64_add(&crowd.nested_failed, 1);
}

CASE(a_crowd_of_threads_puts_large_values_into_a_small_cache)
{
	static const struct {
		const char *codec;
		u64 kind;
		bool told;
	} ways[] = {
		{ "lz4", 0, false }, { "zstd", 0, false }, { "zstd", 1, false }, { "lz4", 0, true },
		{ "zstd", 1, true },
	};
	struct ebb_cache_config cfg;
	pthread_t t[CROWD];
	unsigned int i, k;
	u64 used, most;

	for (i = 0; i < ARRAY_LEN(ways); i++) {
		memset(&crowd, 0, sizeof(crowd));
		ebb_cache_config_init(&cfg);
		cfg.capacity = EBB_CACHE_CAPACITY_MIN;
		cfg.codec = ways[i].codec;
		cfg.gone = ways[i].told ? put_when_told : NULL;
		crowd.kind = ways[i].kind;
		must_eq(open_cache_of(&crowd.c, &cfg), 0);
		for (k = 0; k < CROWD; k++)
			must_eq(pthread_create(&t[k], NULL, put_in_a_crowd, NULL), 0);
		for (most = 0; host_a64_read_acquire(&crowd.ended) < CROWD; usleep(500)) {
			used = stat_of(crowd.c).used_bytes;
			most = used > most ? used : most;
		}
		for (k = 0; k < CROWD; k++)
			must_eq(pthread_join(t[k], NULL), 0);
		if (getenv("EBB_TEST_FIGURES"))
			printf("# %s: at most %.3f of the capacity\n", ways[i].codec,
			       (double)most / (double)EBB_CACHE_CAPACITY_MIN);
		must_eq(host_a64_read(&crowd.failed), 0);
		must_eq(host_a64_read(&crowd.nested_failed), 0);
		must(!ways[i].told || host_a64_read(&crowd.told) || scaled(100) < 100);
		/* For a moment: free pages of what was evicted. */
		must_be_at_most(most, EBB_CACHE_CAPACITY_MIN / 4 * 5);
		while (stat_of(crowd.c).used_bytes > EBB_CACHE_CAPACITY_MIN / 100 * 106)
			usleep(1000);
		close_cache(crowd.c);
	}
}

/* It is told so, whether the cache is empty or full, and nothing is evicted for it. */
CASE(a_value_of_more_than_a_quarter_of_the_capacity_is_too_large)
{
	struct ebb_cache *c = open_cache(16 * MIB, NULL);
	struct rng r = { use_seed(45) };
	static unsigned char data[16 << 20];
	u64 evicted;
	size_t n;

	fill(data, sizeof(data), 0);
	must_eq(put(c, 1, data, 100, 0), 0);
	must_eq(put(c, 1, data, 5 * MIB, 0), -EFBIG);
	must_eq(get(c, 1, data, sizeof(data), &n), -ENOENT);
	must_eq(put(c, 1, data, 39 * MIB / 10, 0), 0);
	fill_with(c, &r, 30000, 4000);
	evicted = stat_of(c).evicted;
	must(evicted);
	must_eq(put(c, 2, data, 5 * MIB, 0), -EFBIG);
	must_eq(stat_of(c).evicted, evicted);
	must_eq(put(c, 2, data, 39 * MIB / 10, 0), 0);
	/* What counts is what it takes, not its own size. */
	memset(data, 'x', sizeof(data));
	must_eq(put(c, 3, data, sizeof(data), 0), 0);
}
