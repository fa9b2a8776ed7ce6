/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zone_set.h - an ordered set of block numbers, for zone.c.
 *
 *   l0  bit b: block b is in the set
 *   l1  bit i: l0[i] != 0
 *   l2  bit i: l1[i] != 0          2 words, so finding is 3 looks
 *
 * The words are the caller's, zeroed; block 0 is never in a set and stands for "none".  No
 * lock of its own.
 */
#ifndef EBB_USER_ZONE_SET_H
#define EBB_USER_ZONE_SET_H

#include "host.h"

#define SET_TOP_WORDS 2         /* for block numbers below 2^19 */

struct block_set {
	u64 *l0, *l1, *l2;
};

static inline void set_add(struct block_set *s, u32 b)
{
	s->l0[b >> 6] |= (u64)1 << (b & 63);
	s->l1[b >> 12] |= (u64)1 << (b >> 6 & 63);
	s->l2[b >> 18] |= (u64)1 << (b >> 12 & 63);
}

static inline void set_del(struct block_set *s, u32 b)
{
	if (s->l0[b >> 6] &= ~((u64)1 << (b & 63)))
		return;
	if (s->l1[b >> 12] &= ~((u64)1 << (b >> 6 & 63)))
		return;
	s->l2[b >> 18] &= ~((u64)1 << (b >> 12 & 63));
}

static inline bool set_has(const struct block_set *s, u32 b)
{
	return s->l0[b >> 6] >> (b & 63) & 1;
}

static inline u32 low_bit(u64 w)
{
	return (u32)__builtin_ctzll(w);
}

static inline u32 high_bit(u64 w)
{
	return 63 - (u32)__builtin_clzll(w);
}

/* The lowest block of the set, 0 if it is empty. */
static inline u32 set_first(const struct block_set *s)
{
	u32 i;

	for (i = 0; i < SET_TOP_WORDS; i++)
		if (s->l2[i]) {
			i = i << 6 | low_bit(s->l2[i]);
			i = i << 6 | low_bit(s->l1[i]);
			return i << 6 | low_bit(s->l0[i]);
		}
	return 0;
}

static inline u64 bits_below(u32 n)
{
	return ((u64)1 << (n & 63)) - 1;
}

/* The highest block of the set below b, 0 if there is none. */
static inline u32 set_last_below(const struct block_set *s, u32 b)
{
	u32 i = b >> 6;
	u64 w = s->l0[i] & bits_below(b);

	if (!w) {
		w = s->l1[i >> 6] & bits_below(i);
		i >>= 6;
		if (!w) {
			w = s->l2[i >> 6] & bits_below(i);
			i >>= 6;
			while (!w && i)
				w = s->l2[--i];
			if (!w)
				return 0;
			i = i << 6 | high_bit(w);
			w = s->l1[i];
		}
		i = i << 6 | high_bit(w);
		w = s->l0[i];
	}
	return i << 6 | high_bit(w);
}

static inline size_t set_words(u32 blocks, unsigned int shift)
{
	return ((size_t)blocks >> shift) + 1;
}

static inline size_t set_bytes(u32 blocks)
{
	return (set_words(blocks, 6) + set_words(blocks, 12) + set_words(blocks, 18)) * 8;
}

static inline char *set_place(struct block_set *s, char *at, u32 blocks)
{
	s->l0 = (u64 *)(void *)at;
	s->l1 = s->l0 + set_words(blocks, 6);
	s->l2 = s->l1 + set_words(blocks, 12);
	return at + set_bytes(blocks);
}

#endif
