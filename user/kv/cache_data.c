// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cache_data.c - what the values of a cache are made of.  See cache.h. */
#include "cache.h"

#include <errno.h>

#include "api/ebb_in.h"

_Static_assert(sizeof(struct value_head) == 16, "a head has no holes");

static size_t head_bytes(size_t key_bytes)
{
	return sizeof(struct value_head) + key_bytes;
}

static void put_head(unsigned char *at, const struct cache_key *key, const struct cache_value *v,
		     bool large, bool dict)
{
	const struct value_head head = {
		.bytes = (u32)v->bytes, .key_bytes = (u16)key->bytes, .large = large,
		.dict = dict, .charge = v->charge,
	};

	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), key->at, key->bytes);
}

/* Blocks 0 to n - 1 of a large value. */
static void free_blocks(struct ebb_cache *c, const block_ref *refs, size_t n)
{
	while (n)
		block_free(&c->blocks, refs[--n]);
}

static int make_large(struct ebb_cache *c, struct scratch *s, const struct cache_key *key,
		      const struct cache_value *v, u64 *ref, u32 *bytes)
{
	size_t blocks = (v->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES, i, stored = 0;
	size_t head = head_bytes(key->bytes);
	u64 most = READ_ONCE(c->capacity) / CACHE_VALUE_PART;
	block_ref *refs = s->owner_room;
	int err = 0;

	*bytes = (u32)(head + blocks * (sizeof(*refs) + CACHE_OBJECT_HEAD));
	for (i = 0; i < blocks; i++) {
		size_t at = i * BLOCK_BYTES, left = v->bytes - at;
		size_t n = left < BLOCK_BYTES ? left : BLOCK_BYTES;
		int packed = block_pack(&c->blocks, s, (const char *)v->data + at, n);

		if (packed >= 0 && (*bytes += (u32)packed) > most)
			packed = -EFBIG;
		if (packed < 0) {
			err = packed;
			break;
		}
		/* Without room it goes on: none is to be made for a value that is too large. */
		if (!err && ebb_pool_bytes(c->store) > READ_ONCE(c->large_limit))
			err = -ENOMEM;
		if (!err)
			err = block_put(&c->blocks, s, (size_t)packed, n, &refs[i]);
		if (!err)
			stored++;
	}
	if (!err) {
		put_head(s->packed, key, v, true, false);
		memcpy(s->packed + head, refs, blocks * sizeof(*refs));
		head += blocks * sizeof(*refs);
		err = block_put(&c->blocks, s, head, head, ref);
	}
	if (err)
		free_blocks(c, refs, stored);
	else
		*ref |= CACHE_LARGE;
	return err;
}

int cache_value_make(struct ebb_cache *c, struct scratch *s, const struct cache_key *key,
		     const struct cache_value *v, u64 *ref, u32 *bytes)
{
	const struct dictionary *d = cache_dict_for(c, s, v->data, v->bytes);
	size_t head = head_bytes(key->bytes);
	int packed = 0;

	if (v->bytes > BLOCK_BYTES)
		return make_large(c, s, key, v, ref, bytes);
	if (v->bytes)
		packed = block_pack_with(&c->blocks, s, d, v->data, v->bytes);
	if (packed < 0)
		return packed;
	if (head + (size_t)packed > BLOCK_BYTES)
		return make_large(c, s, key, v, ref, bytes);
	memmove(s->packed + head, s->packed, (size_t)packed);
	put_head(s->packed, key, v, false, d);
	head += (size_t)packed;
	*bytes = (u32)(head + CACHE_OBJECT_HEAD);
	return block_put(&c->blocks, s, head, head, ref);
}

int cache_value_remake(struct ebb_cache *c, struct scratch *s, size_t n, u64 *ref)
{
	memcpy(s->packed, s->plain, n);
	return block_put(&c->blocks, s, n, n, ref);
}

int cache_value_read(struct ebb_cache *c, struct scratch *s, u64 ref, size_t *n)
{
	unsigned char *packed = s->packed;
	size_t bytes;
	int err = block_get_packed(&c->blocks, s, ref & ~CACHE_LARGE, &bytes, n);

	/* It is stored raw, so what was read is what is wanted. */
	s->packed = s->plain;
	s->plain = packed;
	/* It was not damaged by a codec: it is another block that came there. */
	return err || bytes != *n || !cache_value_head(s, *n) ? -ESTALE : 0;
}

const struct value_head *cache_value_head(const struct scratch *s, size_t n)
{
	const struct value_head *head = (const void *)s->plain;
	size_t blocks;

	if (n < sizeof(*head) || !head->key_bytes || head_bytes(head->key_bytes) > n)
		return NULL;
	n -= head_bytes(head->key_bytes);
	blocks = (head->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
	if (head->large)
		return blocks <= CACHE_REFS && n == blocks * sizeof(block_ref) ? head : NULL;
	return n <= head->bytes && !n == !head->bytes && head->bytes <= BLOCK_BYTES ? head : NULL;
}

bool cache_value_is_of(const struct scratch *s, const struct cache_key *key)
{
	const struct value_head *head = (const void *)s->plain;

	return head->key_bytes == key->bytes && !memcmp(head + 1, key->at, key->bytes);
}

static int unpack_large(struct ebb_cache *c, struct scratch *s, const struct value_head *head,
			unsigned char *buf)
{
	const unsigned char *refs = s->plain + head_bytes(head->key_bytes);
	size_t left = head->bytes, want, n;
	block_ref ref;
	int err = 0;

	for (; !err && left; left -= want, buf += want, refs += sizeof(ref)) {
		want = left < BLOCK_BYTES ? left : BLOCK_BYTES;
		memcpy(&ref, refs, sizeof(ref));
		err = block_get(&c->blocks, s, ref, buf, want, &n);
		if (!err && n != want)
			err = -ESTALE;
	}
	return err;
}

int cache_value_unpack(struct ebb_cache *c, struct scratch *s, size_t n, void *buf)
{
	const struct value_head *head = (const void *)s->plain;
	const struct dictionary *d = head->dict ? cache_dict_made(c) : NULL;
	size_t at = head_bytes(head->key_bytes);

	if (head->large)
		return unpack_large(c, s, head, buf);
	if (!head->bytes)
		return 0;
	return block_unpack_with(&c->blocks, s, d, s->plain + at, n - at, buf, head->bytes);
}

void cache_value_free(struct ebb_cache *c, struct scratch *s, u64 ref)
{
	const struct value_head *head;
	size_t n, blocks;

	if (ref & CACHE_LARGE && !cache_value_read(c, s, ref, &n)) {
		head = cache_value_head(s, n);
		blocks = (head->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
		memcpy(s->owner_room, s->plain + head_bytes(head->key_bytes),
		       blocks * sizeof(block_ref));
		free_blocks(c, s->owner_room, blocks);
	}
	block_free(&c->blocks, ref & ~CACHE_LARGE);
}
