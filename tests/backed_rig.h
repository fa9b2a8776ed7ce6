/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * backed_rig.h - a store with a backing device, which is an array, pages for it, and how they are
 * read back from either.
 */
#ifndef EBB_TESTS_BACKED_RIG_H
#define EBB_TESTS_BACKED_RIG_H

#include "store_rig.h"

#define SLOTS 4096
#define BLOCKS 200

extern const struct codec_ops codec_lz4;

static unsigned char device[BLOCKS][PAGE_SIZE];
static unsigned char page[PAGE_SIZE], want[PAGE_SIZE];

static struct store *open_rig(u64 release_limit, u64 blocks)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = SLOTS, .chain = 16, .release_limit = release_limit,
	};

	return rig_make_backed(&cfg, blocks);
}

/* A page that compresses to some third, is raw, or is one word. */
static void make_page(unsigned char *p, u64 i, unsigned int kind)
{
	size_t bytes = kind == 1 ? PAGE_SIZE : kind == 2 ? 0 : PAGE_SIZE / 3;
	u64 x = i * 0x9e3779b97f4a7c15u + kind;

	memset(p, 0, PAGE_SIZE);
	for (size_t k = 0; k < bytes; k++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		p[k] = (unsigned char)(x >> 56);
	}
}

static inline void fill(struct store *s, u64 n)
{
	for (u64 i = 0; i < n; i++) {
		make_page(page, i, i % 3);
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	}
}

static int read_back(struct store *s, u64 i, bool packed)
{
	int err = store_read(s, i, page);
	u64 word;

	if (err != STORE_BACKED)
		return err;
	must_eq(store_backed_begin(s, i, &word), true);
	if (packed)
		err = store_unpack_backed(s, word, device[slot_block(word)], page);
	else
		memcpy(page, device[slot_block(word)], PAGE_SIZE);
	store_backed_end(s, word);
	return packed ? err : 0;
}

static inline void must_have(struct store *s, u64 n, bool packed)
{
	for (u64 i = 0; i < n; i++) {
		make_page(want, i, i % 3);
		must_eq(read_back(s, i, packed), 0);
		must_eq(memcmp(page, want, PAGE_SIZE), 0);
	}
}

#endif
