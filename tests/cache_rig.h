/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cache_rig.h - what tests of caches share: caches that end with the case, sound, values that a key
 * regenerates, an oracle, threads.
 */
#ifndef EBB_TESTS_CACHE_RIG_H
#define EBB_TESTS_CACHE_RIG_H

#include "support.h"
#include "api/ebb_cache.h"
#include "kv/cache.h"

#include <pthread.h>

#define MIB ((u64)1 << 20)

/* What a case has open. */
static struct ebb_cache *caches[16];

static inline int open_cache_of(struct ebb_cache **c, const struct ebb_cache_config *cfg)
{
	unsigned int i = 0;
	int err;

	while (caches[i])
		must(++i < ARRAY_LEN(caches));
	err = ebb_cache_open(c, cfg);
	if (!err)
		caches[i] = *c;
	return err;
}

static inline struct ebb_cache *open_cache(u64 capacity, const char *codec)
{
	struct ebb_cache_config cfg;
	struct ebb_cache *c;

	ebb_cache_config_init(&cfg);
	cfg.capacity = capacity;
	cfg.codec = codec;
	must_eq(open_cache_of(&c, &cfg), 0);
	return c;
}

static inline void is_sound(struct ebb_cache *c)
{
	char why[200];
	int err = ebb_cache_check(c, why, sizeof(why));

	if (err)
		must_failed(__FILE__, __LINE__, why, err, 0);
}

static inline void close_cache(struct ebb_cache *c)
{
	is_sound(c);
	for (unsigned int i = 0; i < ARRAY_LEN(caches); i++)
		if (caches[i] == c)
			caches[i] = NULL;
	ebb_cache_close(c);
}

void after_each(void)
{
	for (unsigned int i = 0; i < ARRAY_LEN(caches); i++)
		if (caches[i])
			close_cache(caches[i]);
}

static inline struct ebb_cache_stat stat_of(struct ebb_cache *c)
{
	struct ebb_cache_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_cache_stat(c, &stat), 0);
	return stat;
}

/* Text of a kind that seed says: it compresses to a third or so, hardly, or not at all. */
static inline void fill(unsigned char *p, size_t n, u64 seed)
{
	static const char text[] = "{\"name\":\"compressed memory\",\"gives\":\"back\"},";
	struct rng r = { seed };
	size_t i, kind = seed % 5;

	for (i = 0; i < n; i++)
		p[i] = kind == 0 || i % 3 == 0 ? (unsigned char)rng_next(&r) :
		       (unsigned char)(text[(i + seed) % (sizeof(text) - 1)] + (seed >> 8) % 3);
}

static inline int put(struct ebb_cache *c, u64 key, const void *data, size_t bytes, u64 charge)
{
	return ebb_cache_put(c, &key, sizeof(key), data, bytes, charge, 0);
}

static inline int get(struct ebb_cache *c, u64 key, void *buf, size_t cap, size_t *bytes)
{
	return ebb_cache_get(c, &key, sizeof(key), buf, cap, bytes);
}

/* ---- an oracle ---- */

#define KEYS 8000u

/* A value says its key, and how often that was put. */
static inline size_t make(unsigned char *data, u64 key, u64 version)
{
	struct rng r = { key * 1000003 + version };
	size_t n = rng_below(&r, 50) ? rng_below(&r, 4000) : rng_below(&r, 150000);

	fill(data, n, rng_next(&r));
	return n;
}

static inline void random_operations_agree_with_an_array(struct ebb_cache *c, u64 seed)
{
	static unsigned char data[150000], buf[150000];
	static u64 version[KEYS];       /* of the last put; 0: deleted */
	unsigned long i, steps = scaled(60000);
	struct rng r = { use_seed(seed) };
	struct ebb_cache_pin *pin;
	u64 hits = 0, deleted = 0, v = 0;
	size_t n, want;

	memset(version, 0, sizeof(version));
	for (i = 0; i < steps; i++) {
		u64 key = rng_below(&r, rng_below(&r, KEYS) + 1);
		int err;

		switch (rng_below(&r, 8)) {
		case 0: case 1: case 2:
			n = make(data, key, ++v);
			err = put(c, key, data, n, v);
			must(!err || err == -ENOMEM);
			version[key] = err ? 0 : v;
			break;
		case 3:
			err = ebb_cache_delete(c, &key, sizeof(key));
			must(!err || err == -ENOENT);
			must(version[key] || err);
			version[key] = 0;
			deleted += !err;
			break;
		case 4:
			err = ebb_cache_pin(c, &key, sizeof(key), i % 16 ? 0 : EBB_CACHE_TAKE,
					    &pin);
			if (err) {
				must_eq(err, -ENOENT);
				break;
			}
			must(version[key]);
			must_eq(pin->charge, version[key]);
			want = make(data, key, version[key]);
			must_eq(pin->bytes, want);
			must(!memcmp(pin->data, data, want));
			ebb_cache_unpin(c, pin);
			if (i % 16 == 0)
				version[key] = 0;
			break;
		default:
			if (i % 16)
				err = get(c, key, buf, sizeof(buf), &n);
			else
				err = ebb_cache_take(c, &key, sizeof(key), buf, sizeof(buf), &n);
			if (err) {
				must_eq(err, -ENOENT);
				break;
			}
			must(version[key]);
			want = make(data, key, version[key]);
			must_eq(n, want);
			must(!memcmp(buf, data, want));
			if (i % 16 == 0)
				version[key] = 0;
			hits++;
		}
		if (i % 10000 == 0) {
			is_sound(c);
			must_eq(ebb_cache_set_capacity(c, (8 + rng_below(&r, 8)) * MIB), 0);
			is_sound(c);
		}
	}
	must(hits > steps / 20 || scaled(100) < 100);
	must(deleted);
	is_sound(c);
}

/* ---- threads ---- */

#define THREADS 4u

static struct ebb_cache *shared;

struct worker {
	pthread_t thread;
	u64 seed, wrong, hits;
	unsigned long steps;
};

/* Of each key one thread puts versions that grow; none may see an older one than he saw. */
static inline void *use_cache(void *arg)
{
	struct worker *w = arg;
	unsigned char *data = malloc(150000), *want = malloc(150000);
	static __thread u64 seen[KEYS];
	struct rng r = { w->seed };
	struct ebb_cache_pin *pin;
	unsigned long i;
	u64 version = 0;

	for (i = 0; i < w->steps; i++) {
		u64 key = rng_below(&r, rng_below(&r, KEYS) + 1);
		bool mine = key % THREADS == w->seed % THREADS;

		if (mine && rng_below(&r, 3)) {
			size_t n = make(data, key, ++version);

			if (!put(shared, key, data, n, version))
				seen[key] = version;
			continue;
		}
		if (rng_below(&r, 50) == 0) {
			ebb_cache_delete(shared, &key, sizeof(key));
			continue;
		}
		if (rng_below(&r, 500) == 0)
			ebb_cache_set_capacity(shared, (8 + rng_below(&r, 4)) * MIB);
		if (ebb_cache_pin(shared, &key, sizeof(key), 0, &pin))
			continue;
		w->hits++;
		w->wrong += pin->charge < seen[key] || (mine && pin->charge != seen[key]);
		seen[key] = pin->charge;
		w->wrong += pin->bytes != make(want, key, pin->charge) ||
			    memcmp(want, pin->data, pin->bytes);
		ebb_cache_unpin(shared, pin);
	}
	free(data);
	free(want);
	return NULL;
}

static inline void threads_see_whole_values_and_no_old_ones(struct ebb_cache *c)
{
	struct worker w[THREADS] = { 0 };
	u64 hits = 0;
	unsigned int i;

	shared = c;
	for (i = 0; i < THREADS; i++) {
		w[i].seed = i + 1;
		w[i].steps = scaled(20000);
		must_eq(pthread_create(&w[i].thread, NULL, use_cache, &w[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		must_eq(pthread_join(w[i].thread, NULL), 0);
		must_eq(w[i].wrong, 0);
		hits += w[i].hits;
	}
	must(hits);
	is_sound(c);
}

#endif
