// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * policy.c - hit rates of the cache's policy beside LRU and FIFO, on traces of the shapes that
 * public ones have.  The table that is measured is the library's own (user/kv/cache_index.c);
 * values are left out, and each entry takes one place.
 *
 *     policy [REQUESTS]      prints a table: percent of the requests that hit
 *
 * zipf A        keys by a Zipf law of exponent A: block and object caches (0.7 to 1.1)
 * zipf A once   the same, and half of all requests are of keys that never come again, as in the
 *               traces of content networks and key-value stores
 * zipf A scan   the same, and a scan of twice the room every 20 rooms' worth of requests
 * loop X        again and again over X times as many keys as there is room for
 * shift A       Zipf, and the keys that are asked for change bit by bit
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/cache_index.h"

#define KEYS 100000u

static u64 random_state;

static u64 random_next(void)
{
	u64 z = (random_state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static u64 hash_of(u64 key)
{
	u64 z = key * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void check(int err)
{
	if (err) {
		fprintf(stderr, "policy: %s\n", strerror(-err));
		exit(1);
	}
}

/* ---- traces ---- */

enum shape { ZIPF, ONCE, SCAN, LOOP, SHIFT };

struct trace {
	const char *name;
	enum shape shape;
	double by;              /* exponent; LOOP: rooms */
};

static double sum_to[KEYS];     /* of the weights of the first keys */

static void weigh(double exponent)
{
	double sum = 0;
	unsigned int i;

	for (i = 0; i < KEYS; i++) {
		sum += pow(i + 1, -exponent);
		sum_to[i] = sum;
	}
}

static u64 zipf(void)
{
	double at = (double)(random_next() >> 11) / (double)((u64)1 << 53) * sum_to[KEYS - 1];
	unsigned int low = 0, high = KEYS - 1;

	while (low < high) {
		unsigned int mid = (low + high) / 2;

		if (sum_to[mid] < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static u64 next_key(const struct trace *t, u64 i, u32 room)
{
	switch (t->shape) {
	case ONCE:
		return random_next() & 1 ? (u64)1 << 32 | i : zipf();
	case SCAN:
		return i % (20ull * room) < 2ull * room ? (u64)1 << 32 | i : zipf();
	case LOOP:
		return i % (u64)(t->by * room);
	case SHIFT:
		return zipf() + i / 50;
	default:
		return zipf();
	}
}

/* ---- policies: an index, and who goes ---- */

enum policy { S3FIFO, LRU, FIFO, POLICIES };

static bool ask(struct cache_index *x, enum policy policy, u32 room, u64 key)
{
	u64 hash = hash_of(key);
	enum cache_queue queue = CACHE_MAIN;
	struct cache_seen seen;
	u32 e;

	if (!cache_index_look(x, hash, &seen)) {
		if (policy == S3FIFO)
			cache_index_hit(x, &seen);
		if (policy == LRU) {
			cache_index_remove(x, seen.entry);
			check(cache_index_add(x, hash, 1, 1, CACHE_MAIN));
		}
		return true;
	}
	if (x->entries == room) {
		e = policy == S3FIFO ? cache_index_victim(x) : cache_index_oldest(x, CACHE_MAIN);
		if (policy == S3FIFO)
			cache_ghost_add(x, cache_index_entry(x, e - 1)->hash);
		cache_index_remove(x, e - 1);
	}
	if (policy == S3FIFO && !cache_ghost_take(x, hash))
		queue = CACHE_SMALL;
	check(cache_index_add(x, hash, 1, 1, queue));
	return false;
}

static double hit_rate(const struct trace *t, enum policy policy, u32 room, u64 requests)
{
	struct cache_index x;
	u64 i, hits = 0, asked = 0;

	random_state = 1;
	check(cache_index_init(&x, 1u << 20, policy == S3FIFO));
	for (i = 0; i < requests; i++) {
		bool hit = ask(&x, policy, room, next_key(t, i, room));

		if (i < requests / 4)
			continue;       /* it fills up */
		asked++;
		hits += hit;
	}
	cache_index_destroy(&x);
	return 100.0 * (double)hits / (double)asked;
}

int main(int argc, char **argv)
{
	static const struct trace traces[] = {
		{ "zipf 0.7", ZIPF, 0.7 }, { "zipf 0.8", ZIPF, 0.8 }, { "zipf 0.9", ZIPF, 0.9 },
		{ "zipf 1.0", ZIPF, 1.0 }, { "zipf 1.1", ZIPF, 1.1 }, { "zipf 0.8 once", ONCE, 0.8 },
		{ "zipf 1.0 once", ONCE, 1.0 }, { "zipf 0.8 scan", SCAN, 0.8 },
		{ "zipf 1.0 scan", SCAN, 1.0 }, { "loop 1.2", LOOP, 1.2 }, { "loop 2", LOOP, 2 },
		{ "shift 1.0", SHIFT, 1.0 },
	};
	static const u32 rooms[] = { KEYS / 100, KEYS / 10 };
	u64 requests = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
	unsigned int i, k, p;

	printf("percent of %llu requests that hit; room for 1 %% and 10 %% of %u keys\n\n",
	       (unsigned long long)requests, KEYS);
	printf("%-15s %8s %8s %8s  %8s %8s %8s\n", "", "S3-FIFO", "LRU", "FIFO", "S3-FIFO", "LRU",
	       "FIFO");
	for (i = 0; i < sizeof(traces) / sizeof(traces[0]); i++) {
		weigh(traces[i].shape == LOOP ? 1 : traces[i].by);
		printf("%-15s", traces[i].name);
		for (k = 0; k < 2; k++)
			for (p = 0; p < POLICIES; p++)
				printf("%s%8.1f", p || !k ? " " : "  ",
				       hit_rate(&traces[i], p, rooms[k], requests));
		printf("\n");
	}
	return 0;
}
