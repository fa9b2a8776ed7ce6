// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cache_dict.c - a cache's dictionary: short values of one kind have much in common, which zstd
 * does not see in a single one.  See cache.h and dictionary.h.
 *
 *     puts --one in SAMPLE_OF--> samples --worker, once they are enough--> a dictionary, if it pays
 *
 * It is made once, and stays to the end: what was put before is read without it, as its head says,
 * and what was put since is read with it, also from the spill.  If the values become others it may
 * harm.  So one of LOOK_OF is compressed in both ways, and it is used while it helps.
 */
#include "cache.h"

#include <errno.h>

#include "codecs/codecs.h"

#define CAPACITY_LEAST ((u64)32 << 20)
#define CAPACITY_PART 2048u             /* of the capacity: bytes that a dictionary is made of */
#define MADE_LEAST ((u64)8 << 10)
#define MADE_MOST ((u64)112 << 10)
#define SAMPLE_OF 8u                    /* puts */
#define SAMPLE_TIMES 32u                /* bytes of samples for one of the dictionary */
#define SAMPLES_MOST 8192u
#define VALUE_LEAST 32u                 /* bytes of a value that it is for */
#define VALUE_MOST 24576u
#define LOOK_OF 16u                     /* values that it is for */
#define LOOKS 16u                       /* before it is told whether it still helps */
#define GAIN_PART 32u                   /* of the compressed bytes, that it must save */

static void drop_samples(struct cache_dict *d) __must_hold(&d->lock)
{
	host_free(d->sample, d->room);
	host_free(d->len, SAMPLES_MOST * sizeof(*d->len));
	d->sample = NULL;
	d->len = NULL;
	d->bytes = 0;
	d->count = 0;
	WRITE_ONCE(d->room, (size_t)0);
}

/* What a full cache would gain is twice what the dictionary takes and what is left, or more. */
static bool pays(u64 capacity, const struct dictionary *made, u64 with, u64 without)
{
	u64 saved = without > with ? without - with : 0;

	return saved > without / GAIN_PART &&
	       (double)saved / (double)without * (double)capacity >
	       2 * (double)dictionary_bytes(made) + (double)DICTIONARY_LEFT_BYTES;
}

static void train_dict(struct host_work *w)
{
	const size_t at = offsetof(struct ebb_cache, dict) + offsetof(struct cache_dict, train);
	struct ebb_cache *c = (struct ebb_cache *)((char *)w - at);
	struct cache_dict *d = &c->dict;
	/* Who set wants to false queued this afterwards: nobody else has changed them since. */
	struct samples s = { d->sample, d->len, d->count };
	u64 with, without, capacity = READ_ONCE(c->capacity);
	struct dictionary *made;

	made = dictionary_train(&s, d->most, c->blocks.params.level, &with, &without);
	if (made && !pays(capacity, made, with, without)) {
		dictionary_free(made);
		made = NULL;
	}
	/* A context that copies its tables does so with the first use. */
	if (made)
		WRITE_ONCE(c->blocks.dictionary_bytes, (u64)dictionary_bytes(made));
	mutex_lock(&d->lock);
	drop_samples(d);
	WRITE_ONCE(d->trained, (u8)1);
	mutex_unlock(&d->lock);
	__atomic_store_n(&d->made, made, __ATOMIC_RELEASE);
}

int cache_dict_init(struct ebb_cache *c)
{
	struct cache_dict *d = &c->dict;

	mutex_init(&d->lock);
	d->wants = c->blocks.codec == &codec_zstd && !(c->flags & EBB_CACHE_NO_DICTIONARY);
	return host_work_init_slow(&d->train, train_dict, 0);
}

void cache_dict_stop(struct ebb_cache *c)
{
	host_work_destroy(&c->dict.train);
}

void cache_dict_destroy(struct ebb_cache *c)
{
	struct cache_dict *d = &c->dict;

	mutex_lock(&d->lock);
	drop_samples(d);
	mutex_unlock(&d->lock);
	mutex_destroy(&d->lock);
	dictionary_free(d->made);
}

/* Bytes that a cache's dictionary is made of; 0: it is too small to gain anything. */
static size_t most_of(u64 capacity)
{
	u64 most = capacity / CAPACITY_PART;

	if (capacity < CAPACITY_LEAST)
		return 0;
	return most < MADE_LEAST ? MADE_LEAST : most > MADE_MOST ? MADE_MOST : most;
}

/* Room for the samples; false: there is none. */
static bool begin(struct cache_dict *d, u64 capacity) __must_hold(&d->lock)
{
	d->most = most_of(capacity);
	if (!d->most)
		return false;
	WRITE_ONCE(d->room, d->most * SAMPLE_TIMES);
	d->sample = host_zalloc(d->room);
	d->len = host_zalloc(SAMPLES_MOST * sizeof(*d->len));
	if (d->sample && d->len)
		return true;
	drop_samples(d);
	return false;
}

static void add_sample(struct ebb_cache *c, const void *data, size_t n)
{
	struct cache_dict *d = &c->dict;
	bool enough = false;

	mutex_lock(&d->lock);
	if (d->wants && (d->sample || begin(d, READ_ONCE(c->capacity)))) {
		enough = d->bytes + n > d->room || d->count == SAMPLES_MOST;
		if (!enough) {
			memcpy(d->sample + d->bytes, data, n);
			d->bytes += n;
			d->len[d->count++] = n;
		}
		WRITE_ONCE(d->wants, !enough);
	}
	mutex_unlock(&d->lock);
	if (enough)
		host_work_queue(&d->train);
}

void cache_dict_fit(struct ebb_cache *c)
{
	struct cache_dict *d = &c->dict;

	mutex_lock(&d->lock);
	if (d->wants && d->sample && d->most > most_of(READ_ONCE(c->capacity)))
		drop_samples(d);
	mutex_unlock(&d->lock);
}

/* Compresses a value in both ways, and says after some of them which one is better. */
static void look(struct ebb_cache *c, struct scratch *s, const struct dictionary *made,
		 const void *data, size_t n)
{
	struct cache_dict *d = &c->dict;
	int without = block_pack(&c->blocks, s, data, n);
	int with = block_pack_with(&c->blocks, s, made, data, n);

	if (without < 0 || with < 0)
		return;
	mutex_lock(&d->lock);
	d->with += (u64)with;
	d->without += (u64)without;
	if (++d->looks == LOOKS) {
		WRITE_ONCE(d->harms, (u8)(d->with > d->without));
		d->with = 0;
		d->without = 0;
		d->looks = 0;
	}
	mutex_unlock(&d->lock);
}

const struct dictionary *cache_dict_for(struct ebb_cache *c, struct scratch *s, const void *data,
					size_t n)
{
	struct cache_dict *d = &c->dict;
	const struct dictionary *made;

	if (n < VALUE_LEAST || n > VALUE_MOST)
		return NULL;
	if (unlikely(READ_ONCE(d->wants)) &&
	    READ_ONCE(c->capacity) >= CAPACITY_LEAST &&
	    host_a64_add(&d->puts, 1) % SAMPLE_OF == 0)
		add_sample(c, data, n);
	made = cache_dict_made(c);
	if (made && host_a64_add(&d->puts, 1) % LOOK_OF == 0)
		look(c, s, made, data, n);
	return READ_ONCE(d->harms) ? NULL : made;
}

u64 cache_dict_bytes(struct ebb_cache *c)
{
	const struct dictionary *made = cache_dict_made(c);
	u64 room = READ_ONCE(c->dict.room), bytes = made ? dictionary_bytes(made) : 0;

	if (room)
		return room + SAMPLES_MOST * sizeof(*c->dict.len) + DICTIONARY_TRAIN_BYTES;
	return READ_ONCE(c->dict.trained) ? bytes + DICTIONARY_LEFT_BYTES : bytes;
}
