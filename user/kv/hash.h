/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hash.h - hashes of names: SipHash-1-3 of keys, with a secret of the process's choosing, so that
 * nobody who chooses keys can choose where they go; and a mix of ids that can be undone, so that
 * the hash of an id is the id.
 */
#ifndef EBB_USER_HASH_H
#define EBB_USER_HASH_H

#include "host.h"

struct hash_secret {
	u64 k0, k1;
};

#define HASH_MUL_1 0xbf58476d1ce4e5b9ull
#define HASH_MUL_2 0x94d049bb133111ebull
/* Their inverses modulo 2^64. */
#define HASH_DIV_1 0x96de1b173f119089ull
#define HASH_DIV_2 0x319642b2d24d8ec3ull

static inline u64 hash_id(const struct hash_secret *s, u64 id)
{
	u64 z = id ^ s->k0;

	z = (z ^ z >> 30) * HASH_MUL_1;
	z = (z ^ z >> 27) * HASH_MUL_2;
	return (z ^ z >> 31) ^ s->k1;
}

/* The id of a hash. */
static inline u64 hash_id_undo(const struct hash_secret *s, u64 hash)
{
	u64 z = hash ^ s->k1;

	z = (z ^ z >> 31 ^ z >> 62) * HASH_DIV_2;
	z = (z ^ z >> 27 ^ z >> 54) * HASH_DIV_1;
	return (z ^ z >> 30 ^ z >> 60) ^ s->k0;
}

static inline u64 hash_rotate(u64 x, unsigned int by)
{
	return x << by | x >> (64 - by);
}

static inline void hash_round(u64 v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = hash_rotate(v[1], 13) ^ v[0];
	v[3] = hash_rotate(v[3], 16) ^ v[2];
	v[0] = hash_rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = hash_rotate(v[1], 17) ^ v[2];
	v[3] = hash_rotate(v[3], 21) ^ v[0];
	v[2] = hash_rotate(v[2], 32);
}

static inline void hash_word(u64 v[4], u64 word)
{
	v[3] ^= word;
	hash_round(v);
	v[0] ^= word;
}

static inline u64 hash_key(const struct hash_secret *s, const void *key, size_t n)
{
	u64 v[4] = {
		s->k0 ^ 0x736f6d6570736575ull, s->k1 ^ 0x646f72616e646f6dull,
		s->k0 ^ 0x6c7967656e657261ull, s->k1 ^ 0x7465646279746573ull,
	};
	const char *p = key;
	u64 word, last = (u64)n << 56;
	size_t left = n;

	for (; left >= sizeof(word); left -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash_word(v, word);
	}
	word = 0;
	memcpy(&word, p, left);
	hash_word(v, last | word);
	v[2] ^= 0xff;
	hash_round(v);
	hash_round(v);
	hash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The bits of a word from the other end. */
static inline u64 hash_reverse(u64 x)
{
	x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
	x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
	x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
	return __builtin_bswap64(x);
}

#endif
