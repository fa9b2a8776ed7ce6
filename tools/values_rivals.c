// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * values_rivals.c - see values_rivals.h.
 *
 *     bucket -> node -> node ...      node: next, id, lengths, then the compressed bytes
 *
 * Locks: one for each 64th bucket; slabs have one more, inside.
 */
#include "values_rivals.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define STRIPES 64u
#define SLAB_BYTES ((size_t)1 << 20)
#define CLASSES 64u

struct node {
	struct node *next;
	uint64_t id;
	uint32_t bytes, packed;         /* the same: raw */
	unsigned char data[];
};

struct rival {
	bool slabs;
	uint64_t mask;                  /* buckets - 1 */
	struct node **bucket;
	pthread_mutex_t stripe[STRIPES];

	/* Of slabs. */
	pthread_mutex_t lock;
	size_t size[CLASSES];           /* of a chunk */
	void *unused[CLASSES];          /* chunks, linked by their first word */
	struct slab { struct slab *next; } *slab;
	unsigned int classes;
};

static struct rival *open_table(uint64_t values, bool slabs)
{
	struct rival *r = xalloc(1, sizeof(*r));
	uint64_t buckets = STRIPES;
	size_t size;

	while (buckets < values)
		buckets *= 2;
	r->slabs = slabs;
	r->mask = buckets - 1;
	r->bucket = xmap(buckets * sizeof(*r->bucket));
	for (unsigned int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&r->stripe[i], NULL);
	pthread_mutex_init(&r->lock, NULL);
	for (size = 96; size < SLAB_BYTES / 2 && r->classes < CLASSES; size += size / 4)
		r->size[r->classes++] = size & ~(size_t)7;
	return r;
}

static struct rival *open_map(uint64_t values, bool keys)
{
	(void)keys;
	return open_table(values, false);
}

static struct rival *open_slabs(uint64_t values, bool keys)
{
	(void)keys;
	return open_table(values, true);
}

static unsigned int class_of(const struct rival *r, size_t bytes)
{
	unsigned int c = 0;

	while (c < r->classes && r->size[c] < bytes)
		c++;
	return c;
}

static void *chunk_take(struct rival *r, unsigned int c)
{
	void *p;

	pthread_mutex_lock(&r->lock);
	if (!r->unused[c]) {
		struct slab *slab = malloc(SLAB_BYTES);

		for (size_t at = 16; slab && at + r->size[c] <= SLAB_BYTES; at += r->size[c]) {
			void **chunk = (void **)(void *)((char *)slab + at);

			*chunk = r->unused[c];
			r->unused[c] = chunk;
		}
		if (slab) {
			slab->next = r->slab;
			r->slab = slab;
		}
	}
	p = r->unused[c];
	if (p)
		r->unused[c] = *(void **)p;
	pthread_mutex_unlock(&r->lock);
	return p;
}

static struct node *node_new(struct rival *r, size_t packed)
{
	size_t bytes = sizeof(struct node) + packed;
	unsigned int c = r->slabs ? class_of(r, bytes) : 0;

	return r->slabs && c < r->classes ? chunk_take(r, c) : malloc(bytes);
}

static void node_free(struct rival *r, struct node *n)
{
	unsigned int c = r->slabs ? class_of(r, sizeof(*n) + n->packed) : 0;

	if (!r->slabs || c == r->classes) {
		free(n);
		return;
	}
	pthread_mutex_lock(&r->lock);
	*(void **)(void *)n = r->unused[c];
	r->unused[c] = n;
	pthread_mutex_unlock(&r->lock);
}

static void rival_close(struct rival *r)
{
	for (uint64_t i = 0; i <= r->mask; i++)
		for (struct node *n = r->bucket[i], *next; n; n = next) {
			next = n->next;
			if (!r->slabs || class_of(r, sizeof(*n) + n->packed) == r->classes)
				free(n);
		}
	for (struct slab *s = r->slab, *next; s; s = next) {
		next = s->next;
		free(s);
	}
	xunmap(r->bucket, (r->mask + 1) * sizeof(*r->bucket));
	free(r);
}

static uint64_t bucket_of(const struct rival *r, uint64_t id)
{
	return rng_next(&id) & r->mask;
}

/* Takes the node of an id out; its stripe is locked.  NULL: there is none. */
static struct node *take_out(struct rival *r, uint64_t bucket, uint64_t id)
{
	struct node **at = &r->bucket[bucket], *n;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	n = *at;
	if (n)
		*at = n->next;
	return n;
}

static int rival_put(struct rival *r, struct codec_alone *c, uint64_t id, const void *data,
		     size_t n)
{
	static _Thread_local unsigned char packed[CODEC_ALONE_MOST];
	uint64_t bucket = bucket_of(r, id);
	size_t bytes = codec_alone_pack(c, data, n, packed);
	struct node *node, *old;

	if (!bytes || bytes >= n) {
		memcpy(packed, data, n);
		bytes = n;
	}
	node = node_new(r, bytes);
	if (!node)
		return -ENOMEM;
	node->id = id;
	node->bytes = (uint32_t)n;
	node->packed = (uint32_t)bytes;
	memcpy(node->data, packed, bytes);
	pthread_mutex_lock(&r->stripe[bucket % STRIPES]);
	old = take_out(r, bucket, id);
	node->next = r->bucket[bucket];
	r->bucket[bucket] = node;
	pthread_mutex_unlock(&r->stripe[bucket % STRIPES]);
	if (old)
		node_free(r, old);
	return 0;
}

static int rival_get(struct rival *r, struct codec_alone *c, uint64_t id, void *buf, size_t cap,
		     size_t *n)
{
	uint64_t bucket = bucket_of(r, id);
	const struct node *node;
	int ret = -ENOENT;

	pthread_mutex_lock(&r->stripe[bucket % STRIPES]);
	for (node = r->bucket[bucket]; node && node->id != id; node = node->next)
		;
	if (node && node->bytes <= cap) {
		*n = node->bytes;
		ret = 0;
		if (node->packed == node->bytes)
			memcpy(buf, node->data, node->bytes);
		else if (!codec_alone_unpack(c, node->data, node->packed, buf, node->bytes))
			ret = -EIO;
	}
	pthread_mutex_unlock(&r->stripe[bucket % STRIPES]);
	return ret;
}

static int rival_del(struct rival *r, uint64_t id)
{
	uint64_t bucket = bucket_of(r, id);
	struct node *old;

	pthread_mutex_lock(&r->stripe[bucket % STRIPES]);
	old = take_out(r, bucket, id);
	pthread_mutex_unlock(&r->stripe[bucket % STRIPES]);
	if (old)
		node_free(r, old);
	return old ? 0 : -ENOENT;
}

const struct rival_ops rival_map = {
	.name = "map", .open = open_map, .close = rival_close,
	.put = rival_put, .get = rival_get, .del = rival_del,
};

const struct rival_ops rival_slabs = {
	.name = "slabs", .open = open_slabs, .close = rival_close,
	.put = rival_put, .get = rival_get, .del = rival_del,
};
