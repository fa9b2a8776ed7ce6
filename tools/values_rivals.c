// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * values_rivals.c - see values_rivals.h.
 *
 *     bucket -> node -> node ...      node: next, id, lengths, then the compressed bytes and, if
 *                                     there is a limit, the links of an LRU list
 *
 * Locks: one for each 64th bucket, or the first for all if there is a limit; slabs have one more,
 * inside.
 */
#include "values_rivals.h"

#include <errno.h>
#include <malloc.h>
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

/* At the end of a node. */
struct links {
	struct node *older, *newer;
};

struct rival {
	bool slabs;
	uint64_t limit, bytes;          /* bytes: of it; 0: no limit */
	struct node *newest[CLASSES + 1], *oldest[CLASSES + 1];
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

static struct rival *open_table(uint64_t values, uint64_t limit, bool slabs)
{
	struct rival *r = xalloc(1, sizeof(*r));
	uint64_t buckets = STRIPES;
	size_t size;

	while (buckets < values)
		buckets *= 2;
	r->slabs = slabs;
	r->limit = limit;
	r->bytes = buckets * sizeof(*r->bucket);
	r->mask = buckets - 1;
	r->bucket = xmap(buckets * sizeof(*r->bucket));
	for (unsigned int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&r->stripe[i], NULL);
	pthread_mutex_init(&r->lock, NULL);
	for (size = 96; size < SLAB_BYTES / 2 && r->classes < CLASSES; size += size / 4)
		r->size[r->classes++] = size & ~(size_t)7;
	return r;
}

static struct rival *open_map(uint64_t values, uint64_t limit)
{
	return open_table(values, limit, false);
}

static struct rival *open_slabs(uint64_t values, uint64_t limit)
{
	return open_table(values, limit, true);
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
		bool more = !r->limit || r->bytes + SLAB_BYTES <= r->limit;
		struct slab *slab = more ? malloc(SLAB_BYTES) : NULL;

		for (size_t at = 16; slab && at + r->size[c] <= SLAB_BYTES; at += r->size[c]) {
			void **chunk = (void **)(void *)((char *)slab + at);

			*chunk = r->unused[c];
			r->unused[c] = chunk;
		}
		if (slab) {
			slab->next = r->slab;
			r->slab = slab;
			r->bytes += SLAB_BYTES;
		}
	}
	p = r->unused[c];
	if (p)
		r->unused[c] = *(void **)p;
	pthread_mutex_unlock(&r->lock);
	return p;
}

static size_t links_at(size_t packed)
{
	return (sizeof(struct node) + packed + 7) & ~(size_t)7;
}

static size_t node_bytes(const struct rival *r, size_t packed)
{
	return r->limit ? links_at(packed) + sizeof(struct links) : sizeof(struct node) + packed;
}

static struct node *node_new(struct rival *r, size_t packed)
{
	size_t bytes = node_bytes(r, packed);
	unsigned int c = r->slabs ? class_of(r, bytes) : 0;

	if (r->slabs && c < r->classes)
		return chunk_take(r, c);
	/* With a limit all have one lock; without, this is not written. */
	if (r->limit)
		r->bytes += bytes;
	return malloc(bytes);
}

static void node_free(struct rival *r, struct node *n)
{
	size_t bytes = node_bytes(r, n->packed);
	unsigned int c = r->slabs ? class_of(r, bytes) : 0;

	if (!r->slabs || c == r->classes) {
		if (r->limit)
			r->bytes -= bytes;
		free(n);
		return;
	}
	pthread_mutex_lock(&r->lock);
	*(void **)(void *)n = r->unused[c];
	r->unused[c] = n;
	pthread_mutex_unlock(&r->lock);
}

/* ---- with a limit: what was not asked for the longest time goes ---- */

static struct links *links_of(struct node *n)
{
	return (struct links *)(void *)((char *)n + links_at(n->packed));
}

static unsigned int list_of(const struct rival *r, size_t packed)
{
	return r->slabs ? class_of(r, node_bytes(r, packed)) : 0;
}

static void list_add(struct rival *r, struct node *n)
{
	unsigned int k = list_of(r, n->packed);

	*links_of(n) = (struct links){ r->newest[k], NULL };
	if (r->newest[k])
		links_of(r->newest[k])->newer = n;
	else
		r->oldest[k] = n;
	r->newest[k] = n;
}

static void list_remove(struct rival *r, struct node *n)
{
	unsigned int k = list_of(r, n->packed);
	struct links *at = links_of(n);

	if (at->newer)
		links_of(at->newer)->older = at->older;
	else
		r->newest[k] = at->older;
	if (at->older)
		links_of(at->older)->newer = at->newer;
	else
		r->oldest[k] = at->newer;
}

static void rival_close(struct rival *r)
{
	for (uint64_t i = 0; i <= r->mask; i++)
		for (struct node *n = r->bucket[i], *next; n; n = next) {
			next = n->next;
			if (!r->slabs || class_of(r, node_bytes(r, n->packed)) == r->classes)
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

static pthread_mutex_t *stripe_of(struct rival *r, uint64_t bucket)
{
	return &r->stripe[r->limit ? 0 : bucket % STRIPES];
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
	if (n && r->limit)
		list_remove(r, n);
	return n;
}

/* Makes room for a string, if there is a limit; its lock is held.  False: nothing can go. */
static bool evict(struct rival *r, size_t packed)
{
	struct node *n = r->oldest[list_of(r, packed)];

	if (!r->limit || !n)
		return false;
	node_free(r, take_out(r, bucket_of(r, n->id), n->id));
	return true;
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
	if (!r->limit) {
		node = node_new(r, bytes);
		pthread_mutex_lock(stripe_of(r, bucket));
	} else {
		pthread_mutex_lock(stripe_of(r, bucket));
		node = node_within(r, bytes);
	}
	old = node ? take_out(r, bucket, id) : NULL;
	if (node) {
		node->id = id;
		node->bytes = (uint32_t)n;
		node->packed = (uint32_t)bytes;
		memcpy(node->data, packed, bytes);
		node->next = r->bucket[bucket];
		r->bucket[bucket] = node;
	}
	if (node && r->limit)
		list_add(r, node);
	if (old)
		node_free(r, old);
	pthread_mutex_unlock(stripe_of(r, bucket));
	return node ? 0 : -ENOMEM;
}

static int rival_get(struct rival *r, struct codec_alone *c, uint64_t id, void *buf, size_t cap,
		     size_t *n)
{
	static _Thread_local unsigned char packed[CODEC_ALONE_MOST];
	uint64_t bucket = bucket_of(r, id);
	struct node *node;
	size_t bytes = 0;
	int ret = -ENOENT;

	pthread_mutex_lock(stripe_of(r, bucket));
	for (node = r->bucket[bucket]; node && node->id != id; node = node->next)
		;
	if (node && node->bytes <= cap) {
		ret = 0;
		*n = node->bytes;
		bytes = node->packed;
		/* Where all have one lock, nobody decompresses under it. */
		if (bytes == *n)
			memcpy(buf, node->data, bytes);
		else if (r->limit)
			memcpy(packed, node->data, bytes);
		else if (!codec_alone_unpack(c, node->data, bytes, buf, *n))
			ret = -EIO;
	}
	if (node && r->limit) {
		list_remove(r, node);
		list_add(r, node);
	}
	pthread_mutex_unlock(stripe_of(r, bucket));
	if (!ret && r->limit && bytes != *n && !codec_alone_unpack(c, packed, bytes, buf, *n))
		ret = -EIO;
	return ret;
}

static int rival_del(struct rival *r, uint64_t id)
{
	uint64_t bucket = bucket_of(r, id);
	struct node *old;

	pthread_mutex_lock(stripe_of(r, bucket));
	old = take_out(r, bucket, id);
	if (old)
		node_free(r, old);
	pthread_mutex_unlock(stripe_of(r, bucket));
	return old ? 0 : -ENOENT;
}

const struct rival_ops *rival_find(const struct rival_ops *const *among, const char *name)
{
	while (strcmp((*among)->name, name))
		among++;
	return *among;
}

const struct rival_ops rival_map = {
	.name = "map", .open = open_map, .close = rival_close,
	.put = rival_put, .get = rival_get, .del = rival_del,
};

static void trim(void)
{
	malloc_trim(0);
}

const struct rival_ops rival_map_trim = {
	.name = "map-trim", .open = open_map, .close = rival_close,
	.put = rival_put, .get = rival_get, .del = rival_del, .give = trim,
};

const struct rival_ops rival_slabs = {
	.name = "slabs", .open = open_slabs, .close = rival_close,
	.put = rival_put, .get = rival_get, .del = rival_del,
};
