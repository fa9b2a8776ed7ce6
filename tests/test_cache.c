// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_cache.c - a cache answers with what was put or with a miss, within its capacity. */
#include "cache_rig.h"
#include "process.h"

#include <unistd.h>

/* ---- arguments ---- */

CASE(each_field_of_the_config_is_checked)
{
	struct ebb_cache_config good, c;
	struct ebb_cache *cache;

	ebb_cache_config_init(NULL);
	ebb_cache_config_init(&good);
	good.capacity = EBB_CACHE_CAPACITY_MIN;
	must_eq(ebb_cache_open(NULL, &good), -EINVAL);
	must_eq(ebb_cache_open(&cache, NULL), -EINVAL);
#define REFUSED(field, value, error)                                                          \
	do {                                                                                  \
		c = good;                                                                     \
		c.field = value;                                                              \
		cache = (void *)&c;                                                           \
		must_eq(ebb_cache_open(&cache, &c), error);                                   \
		must(!cache);                                                                 \
	} while (0)
	REFUSED(struct_size, 0, -EINVAL);
	REFUSED(struct_size, sizeof(good) - 1, -EINVAL);
	REFUSED(codec, "lz5", -ENOENT);
	REFUSED(level, 0, -EINVAL);
	REFUSED(flags, 4, -EINVAL);
	REFUSED(capacity, 1, -EINVAL);
	REFUSED(capacity, EBB_CACHE_CAPACITY_MIN - 1, -EINVAL);
	good.spill = "/nowhere/at/all";
	REFUSED(spill_capacity, EBB_CACHE_SPILL_MIN - 1, -EINVAL);
	REFUSED(spill_capacity, EBB_CACHE_SPILL_MIN, -ENOENT);
#undef REFUSED
}

CASE(arguments_are_checked)
{
	struct ebb_cache *c = open_cache(8 * MIB, NULL), *none = NULL;
	struct ebb_cache_stat stat = { .struct_size = sizeof(stat) }, no_size = { 0 };
	char buf[EBB_CACHE_KEY_MAX + 1] = "";
	struct ebb_cache_pin *pin;
	size_t n;

	must_eq(ebb_cache_put(none, "a", 1, buf, 1, 0, 0), -EINVAL);
	must_eq(ebb_cache_get(none, "a", 1, buf, 1, &n), -EINVAL);
	must_eq(ebb_cache_pin(none, "a", 1, 0, &pin), -EINVAL);
	must_eq(ebb_cache_delete(none, "a", 1), -EINVAL);
	must_eq(ebb_cache_set_capacity(none, MIB), -EINVAL);
	must_eq(ebb_cache_flush(none), -EINVAL);
	must_eq(ebb_cache_stat(none, &stat), -EINVAL);
	must_eq(ebb_cache_check(none, buf, sizeof(buf)), -EINVAL);
	must(!ebb_cache_store(none));
	ebb_cache_close(NULL);
	ebb_cache_unpin(c, NULL);
	must_eq(ebb_cache_put(c, "", 0, buf, 1, 0, 0), -EINVAL);
	must_eq(ebb_cache_put(c, NULL, 1, buf, 1, 0, 0), -EINVAL);
	must_eq(ebb_cache_put(c, buf, EBB_CACHE_KEY_MAX + 1, buf, 1, 0, 0), -EINVAL);
	must_eq(ebb_cache_put(c, "a", 1, NULL, 1, 0, 0), -EINVAL);
	must_eq(ebb_cache_put(c, "a", 1, buf, 1, 0, 2), -EINVAL);
	must_eq(ebb_cache_put(c, "a", 1, buf, EBB_CACHE_VALUE_MAX + 1, 0, 0), -EFBIG);
	must_eq(ebb_cache_get(c, "a", 1, NULL, 1, &n), -EINVAL);
	must_eq(ebb_cache_get(c, "a", 1, buf, 1, NULL), -EINVAL);
	must_eq(ebb_cache_pin(c, "a", 1, 2, &pin), -EINVAL);
	must_eq(ebb_cache_pin(c, "a", 1, 0, NULL), -EINVAL);
	must_eq(ebb_cache_set_capacity(c, 1), -EINVAL);
	must_eq(ebb_cache_set_capacity(c, EBB_CACHE_CAPACITY_MIN - 1), -EINVAL);
	must_eq(stat_of(c).capacity, 8 * MIB);
	must_eq(ebb_cache_stat(c, NULL), -EINVAL);
	must_eq(ebb_cache_stat(c, &no_size), -EINVAL);
	must_eq(ebb_cache_check(c, NULL, 1), -EINVAL);
	must_eq(stat_of(c).puts, 0);
	must(ebb_cache_store(c));
}

/* ---- what was put ---- */

CASE(sizes_and_keys_of_all_kinds)
{
	static const size_t sizes[] = { 0, 1, 7, 100, 511, 4000, 4096, 20000, 65519, 65520, 65521,
		65535, 65536, 65537, 131072, 200001, 1000000 };
	static unsigned char data[1000000], buf[1000000];
	static const char *const codecs[] = { NULL, "zstd", "lz4hc" };
	char key[EBB_CACHE_KEY_MAX];
	size_t n, k;

	for (unsigned int i = 0; i < ARRAY_LEN(codecs); i++) {
		struct ebb_cache *c = open_cache(64 * MIB, codecs[i]);

		for (u64 seed = 0; seed < 5; seed++)
			for (k = 0; k < ARRAY_LEN(sizes); k++) {
				size_t kb = k % 3 == 0 ? 1 : k % 3 == 1 ? 33 : sizeof(key);

				memset(key, (int)(seed * ARRAY_LEN(sizes) + k + 1), sizeof(key));
				fill(data, sizes[k], seed);
				must_eq(ebb_cache_put(c, key, kb, data, sizes[k], k, 0), 0);
				memset(buf, 1, sizeof(buf));
				must_eq(ebb_cache_get(c, key, kb, buf, sizes[k], &n), 0);
				must_eq(n, sizes[k]);
				must(!memcmp(buf, data, n));
				if (sizes[k])
					must_eq(ebb_cache_get(c, key, kb, buf, sizes[k] - 1, &n),
						-ENOSPC);
				must_eq(n, sizes[k]);
				if (kb > 1)
					must_eq(ebb_cache_get(c, key, kb - 1, buf, sizeof(buf), &n),
						-ENOENT);
			}
		is_sound(c);
		must_eq(stat_of(c).values, 5 * ARRAY_LEN(sizes));
		must_eq(stat_of(c).evicted, 0);
		close_cache(c);
	}
}

CASE(a_value_is_replaced_and_deleted)
{
	struct ebb_cache *c = open_cache(16 * MIB, NULL);
	static unsigned char data[200000], buf[200000];
	size_t n;

	fill(data, sizeof(data), 3);
	must_eq(get(c, 1, buf, sizeof(buf), &n), -ENOENT);
	must_eq(put(c, 1, data, sizeof(data), 0), 0);
	must_eq(put(c, 1, data, 10, 0), 0);
	must_eq(get(c, 1, buf, sizeof(buf), &n), 0);
	must_eq(n, 10);
	must_eq(stat_of(c).values, 1);
	is_sound(c);
	must_eq(ebb_cache_delete(c, &(u64){ 1 }, 8), 0);
	must_eq(ebb_cache_delete(c, &(u64){ 1 }, 8), -ENOENT);
	must_eq(get(c, 1, buf, sizeof(buf), &n), -ENOENT);
	must_eq(stat_of(c).object_bytes, 0);
	must_eq(stat_of(c).misses, 2);
	must_eq(stat_of(c).hits, 1);
	/* Without a buffer a get only asks. */
	must_eq(get(c, 1, NULL, 0, &n), -ENOENT);
	must_eq(put(c, 2, data, 10, 0), 0);
	must_eq(get(c, 2, NULL, 0, &n), -ENOSPC);
	must_eq(n, 10);
	must_eq(put(c, 2, data, 0, 0), 0);
	must_eq(get(c, 2, NULL, 0, &n), 0);
	must_eq(ebb_cache_delete(c, &(u64){ 2 }, 8), 0);
	must_eq(stat_of(c).misses, 2);
	must_eq(stat_of(c).hits, 1);
	/* What is too large takes the old one with it. */
	must_eq(put(c, 1, data, 10, 0), 0);
	must_eq(ebb_cache_put(c, &(u64){ 1 }, 8, data, EBB_CACHE_VALUE_MAX + 1, 0, 0), -EFBIG);
	must_eq(get(c, 1, buf, sizeof(buf), &n), -ENOENT);
}

CASE(a_put_of_too_much_takes_the_old_value_along)
{
	struct ebb_cache *c = open_cache(8 * MIB, NULL);
	unsigned char *data = malloc(20 * MIB);
	char buf[10];
	size_t n;

	must(data);
	fill(data, 20 * MIB, 0);
	must_eq(put(c, 1, "old", 3, 0), 0);
	must_eq(put(c, 1, data, 20 * MIB, 0), -EFBIG);
	must_eq(get(c, 1, buf, sizeof(buf), &n), -ENOENT);
	must_eq(stat_of(c).failed, 1);
	is_sound(c);
	free(data);
}

CASE(a_pin_stays_as_it_is)
{
	struct ebb_cache *c = open_cache(16 * MIB, NULL);
	static unsigned char data[100000];
	struct ebb_cache_pin *pin, *other;
	u64 key = 5;

	fill(data, sizeof(data), 3);
	must_eq(put(c, key, data, sizeof(data), 4711), 0);
	must_eq(ebb_cache_pin(c, &key, 8, 0, &pin), 0);
	must_eq(pin->bytes, sizeof(data));
	must_eq(pin->charge, 4711);
	must(stat_of(c).pinned_bytes >= sizeof(data));
	must_eq(put(c, key, data, 0, 1), 0);
	must_eq(ebb_cache_pin(c, &key, 8, EBB_CACHE_TAKE, &other), 0);
	must_eq(other->bytes, 0);
	must_eq(other->charge, 1);
	must_eq(ebb_cache_delete(c, &key, 8), -ENOENT);
	must(!memcmp(pin->data, data, sizeof(data)));
	ebb_cache_unpin(c, pin);
	ebb_cache_unpin(c, other);
	must_eq(stat_of(c).pinned_bytes, 0);
	must_eq(ebb_cache_pin(c, &key, 8, 0, &pin), -ENOENT);
	must(!pin);
}

/* One that only notes a key's first put. */
static struct ebb_cache *open_noting_cache(u64 capacity)
{
	struct ebb_cache_config cfg;
	struct ebb_cache *c;

	ebb_cache_config_init(&cfg);
	cfg.capacity = capacity;
	cfg.flags = EBB_CACHE_SECOND_MISS;
	must_eq(open_cache_of(&c, &cfg), 0);
	return c;
}

/* Each key comes again when all others came: all of them fit, so all are to be stored. */
CASE(a_loop_fills_an_empty_cache_that_notes_first)
{
	struct ebb_cache *c = open_noting_cache(32 * MIB);
	u32 sets = c->shard[0].mem.ghost_sets;
	static unsigned char data[1000];
	unsigned int round;
	u64 k;

	fill(data, sizeof(data), 0);
	for (round = 0; round < 2; round++)
		for (k = 0; k < 15000; k++)
			put(c, k, data, sizeof(data), 0);
	must(stat_of(c).values > 14000);
	is_sound(c);
	/* What it remembers is of the capacity that it has. */
	must_eq(ebb_cache_set_capacity(c, 0), 0);
	must(c->shard[0].mem.ghost_sets < sets);
	must_eq(ebb_cache_set_capacity(c, 32 * MIB), 0);
	must_eq(c->shard[0].mem.ghost_sets, sets);
}

/* A capacity of 8 MiB would remember 8192 keys. */
CASE(more_keys_are_remembered_by_a_capacity_that_was_raised)
{
	struct ebb_cache *c = open_noting_cache(8 * MIB);
	u64 k;

	must_eq(ebb_cache_set_capacity(c, 32 * MIB), 0);
	for (k = 0; k < 15000; k++)
		put(c, k, "value", 5, 0);
	/* Two keys may have the same note, but few do. */
	must_be_at_most(stat_of(c).values, 5);
	for (k = 0; k < 15000; k++)
		put(c, k, "value", 5, 0);
	must(stat_of(c).values > 14000);
}

CASE(the_first_put_of_a_key_only_notes_it)
{
	struct ebb_cache *c = open_noting_cache(16 * MIB);
	char buf[10];
	size_t n;

	must_eq(ebb_cache_put(c, "a", 1, "first", 5, 0, 0), -EAGAIN);
	must_eq(ebb_cache_get(c, "a", 1, buf, 10, &n), -ENOENT);
	must_eq(ebb_cache_put(c, "a", 1, "second", 6, 0, 0), 0);
	must_eq(ebb_cache_get(c, "a", 1, buf, 10, &n), 0);
	must_eq(n, 6);
	/* What is there is replaced at once. */
	must_eq(ebb_cache_put(c, "a", 1, "third", 5, 0, 0), 0);
	must_eq(ebb_cache_put(c, "b", 1, "first", 5, 0, EBB_CACHE_ADMIT), 0);
	must_eq(ebb_cache_get(c, "b", 1, buf, 10, &n), 0);
	must_eq(stat_of(c).noted, 1);
	must_eq(stat_of(c).puts, 3);
}

CASE(what_comes_again_soon_after_it_was_evicted_counts)
{
	struct ebb_cache *c = open_cache(EBB_CACHE_CAPACITY_MIN, "lz4");
	static unsigned char data[4000];
	u64 key, keys = 3 * EBB_CACHE_CAPACITY_MIN / sizeof(data), before;

	for (key = 1; key <= keys; key++) {
		fill(data, sizeof(data), 5 * key);
		must_eq(put(c, key, data, sizeof(data), 0), 0);
	}
	/* Of a key 16 bits are remembered, so a new one may look like one that was there. */
	before = stat_of(c).ghost_hits;
	must_be_at_most(before, keys / 50);
	for (key = keys; key; key--)
		must_eq(put(c, key, data, sizeof(data), 0), 0);
	must(stat_of(c).ghost_hits > before + keys / 10);
}

CASE(what_was_taken_can_be_put_back_at_once)
{
	struct ebb_cache *c = open_noting_cache(16 * MIB);
	struct ebb_cache_pin *pin;
	char buf[10];
	size_t n;

	must_eq(ebb_cache_put(c, "a", 1, "value", 5, 0, EBB_CACHE_ADMIT), 0);
	must_eq(ebb_cache_pin(c, "a", 1, EBB_CACHE_TAKE, &pin), 0);
	ebb_cache_unpin(c, pin);
	must_eq(ebb_cache_pin(c, "a", 1, 0, &pin), -ENOENT);
	must_eq(ebb_cache_put(c, "a", 1, "value", 5, 0, 0), 0);
	must_eq(ebb_cache_take(c, "a", 1, buf, sizeof(buf), &n), 0);
	must_eq(ebb_cache_take(c, "a", 1, buf, sizeof(buf), &n), -ENOENT);
	must_eq(ebb_cache_put(c, "a", 1, "value", 5, 0, 0), 0);
}

/* A value that is larger than the cache when it is not compressed. */
CASE(to_take_a_value_evicts_no_other)
{
	struct ebb_cache *c = open_cache(8 * MIB, NULL);
	static unsigned char zeros[48 << 20], data[50000];
	size_t n = 0;
	u64 k;

	for (k = 0; k < 50; k++) {
		fill(data, sizeof(data), k + 1);
		must_eq(put(c, k, data, sizeof(data), 0), 0);
	}
	must_eq(ebb_cache_put(c, "zeros", 5, zeros, sizeof(zeros), 0, 0), 0);
	must_eq(ebb_cache_take(c, "zeros", 5, NULL, 0, &n), -ENOSPC);
	must_eq(n, sizeof(zeros));
	must_eq(ebb_cache_take(c, "zeros", 5, zeros, sizeof(zeros) - 1, &n), -ENOSPC);
	must_eq(stat_of(c).values, 51);
	zeros[0] = zeros[sizeof(zeros) - 1] = 1;
	must_eq(ebb_cache_take(c, "zeros", 5, zeros, sizeof(zeros), &n), 0);
	must(n == sizeof(zeros) && !zeros[0] && !zeros[n - 1]);
	must_eq(ebb_cache_take(c, "zeros", 5, zeros, sizeof(zeros), &n), -ENOENT);
	must_eq(ebb_cache_take(c, "zeros", 5, zeros, sizeof(zeros), NULL), -EINVAL);
	must_eq(stat_of(c).values, 50);
	must_eq(stat_of(c).evicted, 0);
}

/* ---- pins of a large value in a cache of 32 MiB ---- */

static unsigned char large[4 << 20];

static void put_large(struct ebb_cache *c)
{
	must_eq(ebb_cache_put(c, "large", 5, large, sizeof(large), 0, 0), 0);
}

/* Pieces of it under the keys from .. end - 1. */
static void put_pieces(struct ebb_cache *c, u64 from, u64 end, size_t bytes)
{
	for (; from < end; from++)
		must_eq(put(c, from, large + from, bytes, 0), 0);
}

static struct ebb_cache *open_with_pieces(u64 n, size_t bytes)
{
	struct ebb_cache *c = open_cache(32 * MIB, NULL);

	fill(large, sizeof(large), 0);
	put_pieces(c, 0, n, bytes);
	return c;
}

#define MOST_USED (32 * MIB / 100 * 106)

CASE(pinned_bytes_count)
{
	struct ebb_cache *c = open_with_pieces(10000, 4000);
	struct ebb_cache_pin *pin[4];
	unsigned int i;
	u64 values;
	int err;

	values = stat_of(c).values;
	/* A small one takes more than its bytes. */
	must_eq(ebb_cache_put(c, "tiny", 4, large, 1, 0, 0), 0);
	must_eq(ebb_cache_pin(c, "tiny", 4, 0, &pin[0]), 0);
	must_eq(stat_of(c).pinned_bytes, PAGE_SIZE);
	ebb_cache_unpin(c, pin[0]);
	must_eq(stat_of(c).pinned_bytes, 0);
	put_large(c);
	for (i = 0; i < 4; i++)
		must_eq(ebb_cache_pin(c, "large", 5, 0, &pin[i]), 0);
	put_pieces(c, 10000, 20000, 4000);
	must_be_at_most(stat_of(c).values, values * 6 / 10);
	must_be_at_most(stat_of(c).used_bytes, MOST_USED);
	for (i = 0; i < 4; i++)
		ebb_cache_unpin(c, pin[i]);
	/* It may have been evicted: its pins have bytes of their own. */
	err = ebb_cache_delete(c, "large", 5);
	must(!err || err == -ENOENT);
	put_pieces(c, 20000, 40000, 4000);
	must(stat_of(c).values > values / 100 * 90);
}

/* Who only reads keeps the capacity, too. */
CASE(pins_without_puts_evict)
{
	struct ebb_cache *c = open_with_pieces(20000, 2000);
	struct ebb_cache_pin *pin[4];
	unsigned int i;
	u64 from;

	put_large(c);
	must(stat_of(c).evicted > 1000);
	/* What the worker has to do for that is done. */
	usleep(100000);
	for (i = 0; i < ARRAY_LEN(pin); i++) {
		must_eq(ebb_cache_pin(c, "large", 5, 0, &pin[i]), 0);
		for (from = ktime_get_ns(); stat_of(c).used_bytes > MOST_USED;)
			must(ktime_get_ns() - from < 5000000000u);
		/* It is there for the next time. */
		if (ebb_cache_get(c, "large", 5, NULL, 0, &(size_t){ 0 }) == -ENOENT)
			put_large(c);
	}
	must(stat_of(c).values > 1000);
	while (i)
		ebb_cache_unpin(c, pin[--i]);
}

/* ---- who is told what leaves ---- */

static struct {
	u64 times[4], bytes;
	bool wrong;
} told;

static void count_gone(void *ctx, const struct ebb_cache_gone *gone)
{
	u64 key;

	must(ctx == &told);
	must_eq(gone->struct_size, sizeof(*gone));
	must(gone->why < 4);
	told.times[gone->why]++;
	told.bytes += gone->bytes;
	memcpy(&key, gone->key, sizeof(key));
	told.wrong |= gone->key_bytes != sizeof(key) || gone->charge != key * 3;
}

#define GONE_KEYS 12000u

CASE(who_asked_is_told_what_leaves)
{
	static unsigned char data[70000];
	struct ebb_cache_config cfg;
	struct ebb_cache *c;
	u64 key, put_bytes = 0;

	memset(&told, 0, sizeof(told));
	ebb_cache_config_init(&cfg);
	cfg.capacity = 8 * MIB;
	cfg.gone = count_gone;
	cfg.gone_ctx = &told;
	must_eq(open_cache_of(&c, &cfg), 0);
	fill(data, sizeof(data), 0);
	for (key = 0; key < GONE_KEYS; key++) {
		size_t n = key % 100 ? key / 4 + 1000 : sizeof(data);

		must_eq(put(c, key, data, n, key * 3), 0);
		put_bytes += n;
		if (key % 10 == 0) {
			must_eq(put(c, key, data, 100, key * 3), 0);
			put_bytes += 100;
		}
		if (key % 7 == 0)
			must_eq(ebb_cache_delete(c, &key, sizeof(key)), 0);
	}
	must_eq(told.times[EBB_CACHE_REPLACED], GONE_KEYS / 10);
	must_eq(told.times[EBB_CACHE_DELETED], (GONE_KEYS + 6) / 7);
	must(stat_of(c).evicted > 100);
	must_eq(told.times[EBB_CACHE_EVICTED], stat_of(c).evicted);
	must_eq(told.times[EBB_CACHE_SPILLED], 0);
	must_eq(stat_of(c).values, GONE_KEYS - (GONE_KEYS + 6) / 7 - stat_of(c).evicted);
	must(!told.wrong);
	for (key = 0; key < GONE_KEYS; key++)
		ebb_cache_delete(c, &key, sizeof(key));
	must_eq(told.bytes, put_bytes);
}

/* ---- who is told calls the cache ---- */

static struct {
	struct ebb_cache *c;
	u64 next, calls, told[4];
	unsigned int depth, deepest;
	u64 most;                       /* that the cache said it used meanwhile */
} teller;

static struct ebb_cache *open_telling(u64 capacity, void (*gone)(void *ctx,
								const struct ebb_cache_gone *what))
{
	struct ebb_cache_config cfg;

	memset(&teller, 0, sizeof(teller));
	ebb_cache_config_init(&cfg);
	cfg.capacity = capacity;
	cfg.gone = gone;
	must_eq(open_cache_of(&teller.c, &cfg), 0);
	return teller.c;
}

static void enter_told(const struct ebb_cache_gone *gone)
{
	teller.told[gone->why]++;
	teller.depth++;
	if (teller.depth > teller.deepest)
		teller.deepest = teller.depth;
	if (++teller.calls % 256 == 0 && stat_of(teller.c).used_bytes > teller.most)
		teller.most = stat_of(teller.c).used_bytes;
}

/* Each value that is evicted comes back under another key, so another goes, and so on. */
static void put_it_again(void *ctx, const struct ebb_cache_gone *gone)
{
	static unsigned char data[4000];
	int err;

	enter_told(gone);
	if (gone->why == EBB_CACHE_EVICTED) {
		must(gone->bytes <= sizeof(data));
		fill(data, gone->bytes, 5 * teller.next);
		err = put(teller.c, 1000000000 + teller.next++, data, gone->bytes, 0);
		must(!err || err == -ENOMEM);
	}
	teller.depth--;
}

CASE(who_is_told_may_put_each_value_again)
{
	struct ebb_cache *c = open_telling(8 * MIB, put_it_again);
	static unsigned char data[4000];
	u64 i;

	for (i = 0; i < scaled(8000); i++) {
		fill(data, sizeof(data), 5 * i);
		must_eq(put(c, i, data, sizeof(data), 0), 0);
	}
	must(teller.told[EBB_CACHE_EVICTED] || scaled(100) < 100);
	must_be_at_most(teller.deepest, 1);
	/* Whatever left was told when the call that made it leave returned. */
	must_eq(teller.told[EBB_CACHE_EVICTED], stat_of(c).evicted);
	must_be_at_most(teller.most, 8 * MIB / 100 * 110);
}

/* A chain of as many as there are. */
static void delete_the_next(void *ctx, const struct ebb_cache_gone *gone)
{
	u64 key;

	enter_told(gone);
	memcpy(&key, gone->key, sizeof(key));
	key++;
	ebb_cache_delete(teller.c, &key, sizeof(key));
	must(!memcmp(gone->key, &(u64){ key - 1 }, sizeof(key)));
	teller.depth--;
}

CASE(who_is_told_may_delete_as_many_as_there_are)
{
	struct ebb_cache *c = open_telling(16 * MIB, delete_the_next);
	u64 key, n = 30000;

	for (key = 0; key < n; key++)
		must_eq(put(c, key, "value", 5, 0), 0);
	key = 0;
	must_eq(ebb_cache_delete(c, &key, sizeof(key)), 0);
	must_eq(teller.told[EBB_CACHE_DELETED], n);
	must_eq(teller.deepest, 1);
	must_eq(stat_of(c).values, 0);
}

/* More than a call has room for: they are noted in memory that counts. */
static void empty_the_cache(void *ctx, const struct ebb_cache_gone *gone)
{
	bool first = !teller.calls;
	u64 before;

	enter_told(gone);
	if (first) {
		before = stat_of(teller.c).meta_bytes;
		must_eq(ebb_cache_set_capacity(teller.c, 0), 0);
		must_eq(stat_of(teller.c).values, 0);
		must(stat_of(teller.c).meta_bytes > before);
	}
	teller.depth--;
}

CASE(who_is_told_may_empty_the_cache)
{
	struct ebb_cache *c = open_telling((16 * MIB) << (PAGE_SHIFT - 12), empty_the_cache);
	static unsigned char data[300];
	u64 key, n = 30000;

	for (key = 0; key < n; key++) {
		fill(data, sizeof(data), 5 * key);
		must_eq(put(c, key, data, sizeof(data), 0), 0);
	}
	key = 0;
	must_eq(ebb_cache_delete(c, &key, sizeof(key)), 0);
	must_eq(teller.told[EBB_CACHE_DELETED], 1);
	must_eq(teller.told[EBB_CACHE_EVICTED], n - 1);
	must_eq(teller.deepest, 1);
}

/* ---- an oracle, and threads ---- */

CASE(an_oracle_agrees)
{
	struct ebb_cache *c = open_cache(8 * MIB, NULL);

	random_operations_agree_with_an_array(c, 31);
	must(stat_of(c).evicted > 100 || scaled(100) < 100);
}

CASE(threads_agree)
{
	struct ebb_cache *c = open_cache(8 * MIB, NULL);

	threads_see_whole_values_and_no_old_ones(c);
}

/* ---- memory that is short ---- */

static unsigned int fail_in;

static bool fail_sometimes(void)
{
	return fail_in && !--fail_in;
}

CASE(memory_that_is_short_is_a_miss)
{
	static unsigned char data[150000], buf[150000];
	struct ebb_cache_config cfg;
	struct ebb_cache *c;
	u64 version[50] = { 0 };
	unsigned int i;
	size_t n;

	ebb_cache_config_init(&cfg);
	cfg.capacity = 16 * MIB;
	host_user_fail = fail_sometimes;
	for (i = 1; i < 40; i++) {
		fail_in = i;
		if (!ebb_cache_open(&c, &cfg))
			ebb_cache_close(c);
	}
	fail_in = 0;
	must_eq(open_cache_of(&c, &cfg), 0);
	for (i = 1; i < 3000; i++) {
		u64 key = i % 50;
		int err;

		n = make(data, key, i);
		fail_in = i % 13;
		err = put(c, key, data, n, i);
		must(!err || err == -ENOMEM);
		version[key] = err ? 0 : i;
		fail_in = i % 3;
		err = get(c, key, buf, sizeof(buf), &n);
		must(!err || err == -ENOMEM || (err == -ENOENT && !version[key]));
		if (!err) {
			must_eq(n, make(data, key, version[key]));
			must(!memcmp(buf, data, n));
		}
	}
	fail_in = 0;
	host_user_fail = NULL;
}

static unsigned int told_of_deleted;

/* Deletes the next key, too. */
static void delete_another(void *ctx, const struct ebb_cache_gone *gone)
{
	struct ebb_cache *c = *(struct ebb_cache **)ctx;
	u64 key;

	memcpy(&key, gone->key, sizeof(key));
	must_eq(gone->charge, key);
	key++;
	told_of_deleted++;
	ebb_cache_delete(c, &key, sizeof(key));
	/* What the call has is not another one's by now. */
	must(!memcmp(gone->key, &(u64){ key - 1 }, sizeof(key)));
}

/* With no scratch left but the one for who must go on. */
static int delete_without_memory(void)
{
	struct scratch *taken[64];
	struct ebb_cache_config cfg;
	struct ebb_cache *c;
	u64 key = 0;
	size_t n;

	ebb_cache_config_init(&cfg);
	cfg.capacity = 8 * MIB;
	cfg.gone = delete_another;
	cfg.gone_ctx = &c;
	must_eq(open_cache_of(&c, &cfg), 0);
	for (key = 0; key < 5; key++)
		must_eq(put(c, key, "value", 5, key), 0);
	host_user_fail = always;
	for (n = 0; n < blocks_contexts(&c->blocks); n++)
		taken[n] = scratch_get(&c->blocks);
	key = 0;
	must_eq(ebb_cache_delete(c, &key, sizeof(key)), 0);
	host_user_fail = NULL;
	while (n)
		scratch_put(&c->blocks, taken[--n]);
	is_sound(c);
	must_eq(stat_of(c).values, 0);
	close_cache(c);
	return told_of_deleted != 5;
}

CASE(who_is_told_may_delete_when_memory_is_short)
{
	child_does(delete_without_memory);
}

/* ---- keys of one hash ---- */

CASE(two_keys_of_one_hash_are_two_keys)
{
	struct ebb_cache *c = open_cache(16 * MIB, NULL);
	struct cache_shard *sh;
	u64 a, b, ref;
	char buf[10];
	size_t n;
	u32 e;

	/* What is under b's hash is a's from now on. */
	must_eq(ebb_cache_put(c, "a", 1, "of a", 4, 0, 0), 0);
	a = hash_key(&c->secret, "a", 1);
	b = hash_key(&c->secret, "b", 1);
	sh = cache_shard_of(c, a);
	e = cache_index_find(&sh->mem, a);
	ref = cache_index_entry(&sh->mem, e - 1)->ref;
	cache_index_remove(&sh->mem, e - 1);
	sh = cache_shard_of(c, b);
	must_eq(cache_index_add(&sh->mem, b, ref, (u32)host_a64_read(&c->live), CACHE_SMALL), 0);
	must_eq(ebb_cache_get(c, "b", 1, buf, 10, &n), -ENOENT);
	must_eq(ebb_cache_put(c, "b", 1, "of b", 4, 0, 0), 0);
	must_eq(ebb_cache_get(c, "b", 1, buf, 10, &n), 0);
	must(!memcmp(buf, "of b", 4));
}
