// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * rivals.c - see rivals.h.
 *
 *     bucket -> node -> node ...      node: next, id, lengths, the links of an LRU list if there is
 *                                     a limit, then the compressed bytes
 */
#include "rivals.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "ebb_cache.h"
#include "ebb_values.h"

#define SLAB_BYTES ((size_t)1 << 20)
#define CLASSES 64u

struct node {
	struct node *next;
	uint64_t id;
	uint32_t bytes, packed;         /* the same: raw */
	TAILQ_ENTRY(node) lru;          /* there if there is a limit */
};

TAILQ_HEAD(lru, node);

struct rival {
	struct ebb_values *values;      /* one of Ebb's, or neither */
	struct ebb_cache *cache;
	bool keys, slabs, trims;

	/* Of a map and slabs. */
	pthread_mutex_t lock;
	uint64_t limit, bytes;          /* bytes: of it; 0: no limit */
	uint64_t mask;                  /* buckets - 1 */
	struct node **bucket;
	struct lru lru[CLASSES + 1];    /* the oldest first */

	/* Of slabs. */
	size_t size[CLASSES];           /* of a chunk */
	void *unused[CLASSES];          /* chunks, linked by their first word */
	unsigned int classes;
};

static struct rival *open_values(struct rival *r, const struct bench_run *run)
{
	struct ebb_values_config cfg;

	ebb_values_config_init(&cfg);
	cfg.codec = run->store.codec;
	must(ebb_values_open(&r->values, &cfg), "cannot open a table of values");
	r->keys = !strcmp(run->variant, "ebb-key");
	return r;
}

static struct rival *open_cache(struct rival *r, const struct bench_run *run, uint64_t limit)
{
	struct ebb_cache_config cfg;

	ebb_cache_config_init(&cfg);
	cfg.capacity = limit;
	cfg.codec = run->store.codec;
	cfg.flags = strcmp(run->variant, "ebb") ? EBB_CACHE_SECOND_MISS : 0;
	must(ebb_cache_open(&r->cache, &cfg), "cannot open a cache");
	return r;
}

struct rival *rival_open(const struct bench_run *run, uint64_t values, uint64_t limit)
{
	struct rival *r = xalloc(1, sizeof(*r));
	uint64_t buckets = 64;

	if (!strncmp(run->variant, "ebb", 3))
		return limit ? open_cache(r, run, limit) : open_values(r, run);
	while (buckets < values)
		buckets *= 2;
	r->slabs = !strcmp(run->variant, "slabs");
	r->trims = !strcmp(run->variant, "map-trim");
	r->limit = limit;
	r->bytes = buckets * sizeof(*r->bucket);
	r->mask = buckets - 1;
	r->bucket = xmap(buckets * sizeof(*r->bucket));
	pthread_mutex_init(&r->lock, NULL);
	for (size_t size = 96; size < SLAB_BYTES / 2 && r->classes < CLASSES; size += size / 4)
		r->size[r->classes++] = size & ~(size_t)7;
	for (unsigned int i = 0; i <= CLASSES; i++)
		TAILQ_INIT(&r->lru[i]);
	return r;
}

/* ---- nodes; the lock is held ---- */

static unsigned char *node_data(const struct rival *r, struct node *n)
{
	return (unsigned char *)n + (r->limit ? sizeof(*n) : offsetof(struct node, lru));
}

static size_t node_bytes(const struct rival *r, size_t packed)
{
	return packed + (r->limit ? sizeof(struct node) : offsetof(struct node, lru));
}

/* Of slabs; those that have no chunk so large are malloc()ed, as those of a map. */
static unsigned int class_of(const struct rival *r, size_t packed)
{
	unsigned int c = 0;

	while (c < r->classes && r->size[c] < node_bytes(r, packed))
		c++;
	return c;
}

static struct lru *lru_of(struct rival *r, size_t packed)
{
	return &r->lru[r->slabs ? class_of(r, packed) : 0];
}

static void *chunk_take(struct rival *r, unsigned int c)
{
	void *p;

	if (!r->unused[c] && (!r->limit || r->bytes + SLAB_BYTES <= r->limit)) {
		char *slab = malloc(SLAB_BYTES);

		for (size_t at = 16; slab && at + r->size[c] <= SLAB_BYTES; at += r->size[c]) {
			void **chunk = (void **)(void *)(slab + at);

			*chunk = r->unused[c];
			r->unused[c] = chunk;
		}
		r->bytes += slab ? SLAB_BYTES : 0;
	}
	p = r->unused[c];
	if (p)
		r->unused[c] = *(void **)p;
	return p;
}

static struct node *node_new(struct rival *r, size_t packed)
{
	unsigned int c = r->slabs ? class_of(r, packed) : r->classes;

	if (c < r->classes)
		return chunk_take(r, c);
	r->bytes += node_bytes(r, packed);
	return malloc(node_bytes(r, packed));
}

static void node_free(struct rival *r, struct node *n)
{
	unsigned int c = r->slabs ? class_of(r, n->packed) : r->classes;

	if (c < r->classes) {
		*(void **)(void *)n = r->unused[c];
		r->unused[c] = n;
	} else {
		r->bytes -= node_bytes(r, n->packed);
		free(n);
	}
}

static struct node **bucket_of(const struct rival *r, uint64_t id)
{
	return &r->bucket[rng_next(&id) & r->mask];
}

/* Takes the node of an id out.  NULL: there is none. */
static struct node *take_out(struct rival *r, uint64_t id)
{
	struct node **at = bucket_of(r, id), *n;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	n = *at;
	if (n)
		*at = n->next;
	if (n && r->limit)
		TAILQ_REMOVE(lru_of(r, n->packed), n, lru);
	return n;
}

/* False: nothing can go. */
static bool evict(struct rival *r, size_t packed)
{
	struct node *n = TAILQ_FIRST(lru_of(r, packed));

	if (n)
		node_free(r, take_out(r, n->id));
	return n;
}

static struct node *node_within(struct rival *r, size_t packed)
{
	struct node *n;

	while (!r->slabs && r->limit && r->bytes + node_bytes(r, packed) > r->limit)
		if (!evict(r, packed))
			return NULL;
	do
		n = node_new(r, packed);
	while (!n && evict(r, packed));
	return n;
}

/* ---- calls ---- */

static int map_put(struct rival *r, struct codec *c, uint64_t id, const void *data, size_t n)
{
	static _Thread_local unsigned char packed[CODEC_MOST];
	size_t bytes = codec_pack(c, data, n, packed);
	struct node *node, *old;

	pthread_mutex_lock(&r->lock);
	node = node_within(r, bytes);
	old = node ? take_out(r, id) : NULL;
	if (node) {
		struct node **at = bucket_of(r, id);

		node->next = *at;
		node->id = id;
		node->bytes = (uint32_t)n;
		node->packed = (uint32_t)bytes;
		memcpy(node_data(r, node), packed, bytes);
		*at = node;
		if (r->limit)
			TAILQ_INSERT_TAIL(lru_of(r, bytes), node, lru);
	}
	if (old)
		node_free(r, old);
	pthread_mutex_unlock(&r->lock);
	return node ? 0 : -ENOMEM;
}

static int map_get(struct rival *r, struct codec *c, uint64_t id, void *buf, size_t cap, size_t *n)
{
	static _Thread_local unsigned char packed[CODEC_MOST];
	struct node *node;
	size_t bytes = 0;

	pthread_mutex_lock(&r->lock);
	for (node = *bucket_of(r, id); node && node->id != id; node = node->next)
		;
	if (node && node->bytes <= cap) {
		*n = node->bytes;
		bytes = node->packed;
		memcpy(packed, node_data(r, node), bytes);
	}
	if (node && r->limit) {
		TAILQ_REMOVE(lru_of(r, node->packed), node, lru);
		TAILQ_INSERT_TAIL(lru_of(r, node->packed), node, lru);
	}
	pthread_mutex_unlock(&r->lock);
	if (!bytes)
		return -ENOENT;
	return codec_unpack(c, packed, bytes, buf, *n) ? 0 : -EIO;
}

static int map_delete(struct rival *r, uint64_t id)
{
	struct node *old;

	pthread_mutex_lock(&r->lock);
	old = take_out(r, id);
	if (old)
		node_free(r, old);
	pthread_mutex_unlock(&r->lock);
	return old ? 0 : -ENOENT;
}

int rival_put(struct rival *r, struct codec *c, uint64_t id, const void *data, size_t n)
{
	int err;

	if (r->values)
		return r->keys ? ebb_values_put_key(r->values, &id, sizeof(id), data, n, 0) :
				 ebb_values_put(r->values, id, data, n, 0);
	if (!r->cache)
		return map_put(r, c, id, data, n);
	err = ebb_cache_put(r->cache, &id, sizeof(id), data, n, n, 0);
	return err == -EAGAIN ? 0 : err;
}

int rival_get(struct rival *r, struct codec *c, uint64_t id, void *buf, size_t cap, size_t *n)
{
	if (r->values)
		return r->keys ? ebb_values_get_key(r->values, &id, sizeof(id), buf, cap, n) :
				 ebb_values_get(r->values, id, buf, cap, n);
	return r->cache ? ebb_cache_get(r->cache, &id, sizeof(id), buf, cap, n) :
			  map_get(r, c, id, buf, cap, n);
}

int rival_delete(struct rival *r, uint64_t id)
{
	if (r->values)
		return r->keys ? ebb_values_delete_key(r->values, &id, sizeof(id)) :
				 ebb_values_delete(r->values, id);
	return map_delete(r, id);
}

void rival_trim(const struct rival *r)
{
	if (r->trims)
		malloc_trim(0);
}

uint64_t rival_packed(const struct rival *r)
{
	struct ebb_values_stat stat = { .struct_size = sizeof(stat) };

	if (!r->values)
		return 0;
	must(ebb_values_stat(r->values, &stat), "cannot ask a table");
	return stat.packed_bytes;
}
