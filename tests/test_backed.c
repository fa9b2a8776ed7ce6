// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_backed.c - blocks of a backing device, and slots that are on it.  The device is an array.
 */
#include "backed_rig.h"
#include "tier/recompress.h"

#include <pthread.h>

extern const struct codec_ops codec_zstd;

/* ---- blocks ---- */

/* Against a plain array, with numbers of blocks that end within words of each level. */
CASE(test_set)
{
	static const u64 sizes[] = { 1, 63, 64, 65, 4096, 4097, 300000 };
	u64 seed = 0;

	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		u64 n = sizes[k], taken = 0, block, lowest;
		bool *is_taken = calloc(n, 1);
		struct backed b;

		must_eq(backed_init(&b, n), 0);
		for (u64 step = 0; step < 3000; step++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			/* Mostly full, mostly empty, and all in between. */
			if ((seed >> 33) % 3000 > step) {
				for (lowest = 0; lowest < n && is_taken[lowest]; lowest++)
					;
				must_eq(backed_reserve(&b, &block), lowest < n ? 0 : -ENOSPC);
				if (lowest == n)
					continue;
				must_eq(block, lowest);
				is_taken[block] = true;
				taken++;
			} else if (taken) {
				for (block = (seed >> 20) % n; !is_taken[block];
				     block = (block + 1) % n)
					;
				backed_unreserve(&b, block);
				is_taken[block] = false;
				taken--;
			}
			must_eq(b.nfree, n - taken);
			must_eq(b.in_hand.v, taken);
		}
		must_eq(blockset_is_tidy(&b.free), true);
		backed_destroy(&b);
		free(is_taken);
	}
}

CASE(test_bounds)
{
	struct store s = { .slots = SLOTS };
	struct backed b;
	u64 word;

	must_eq(backed_init(&b, 0), 0);
	backed_destroy(&b);
	must_eq(store_back(&s, &b, SLOT_BLOCK_MASK + 2), -EINVAL);
	/* The largest size beside the highest block. */
	word = slot_make(SLOT_BACKED, slot_backed_value(PAGE_SIZE, SLOT_BLOCK_MASK));
	must_eq(slot_block(word), SLOT_BLOCK_MASK);
	must_eq(slot_backed_bytes(word), PAGE_SIZE);
	must_eq(slot_type(word), SLOT_BACKED);
	must_eq(word & (SLOT_READERS | SLOT_ABOUT), 0);
}

/* A block that is read is nobody else's, whatever is free; those behind it are found. */
CASE(test_late)
{
	const u64 n = 4 * BACKED_LATE_LOOKS;
	struct backed_batch batch = { .n = 0 };
	struct backed b;
	u64 block, i;

	must_eq(backed_init(&b, n), 0);
	for (i = 0; i < n; i++) {
		must_eq(backed_reserve(&b, &block), 0);
		host_a64_add(&b.in_hand, ~(u64)0);
		backed_hold(&b, block);
	}
	spin_lock_init(&batch.lock);
	for (i = 0; i < n; i++)
		backed_let_go(&b, &batch, i);
	/* The last ones when somebody asks for them. */
	must_eq(b.nlate, n / BACKED_BATCH * BACKED_BATCH);
	backed_collect(&b, &batch);
	must_eq(b.nlate, n);
	must_eq(backed_reserve(&b, &block), -EBUSY);
	for (i = n - 3; i < n; i++)
		backed_drop(&b, i);
	/* In one call, however many of those before them are read. */
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(block >= n - 3, true);
	/* And of those before the one at which the last look ended. */
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(backed_reserve(&b, &block), -EBUSY);
	b.late_at = backed_late_place(&b, 1);
	backed_drop(&b, 0);
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(block, 0);
	for (i = 1; i < n - 3; i++)
		backed_drop(&b, i);
	for (i = 1; i < n - 3; i++)
		must_eq(backed_reserve(&b, &block), 0);
	must_eq(backed_reserve(&b, &block), -ENOSPC);
	must_eq(b.nlate, 0);
	backed_destroy(&b);
}

/* A block that could not be written comes after all others, and is not lost. */
CASE(test_failed)
{
	static const u64 order[] = { 1, 2, 0 };
	struct backed b;
	u64 block;

	must_eq(backed_init(&b, 3), 0);
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(block, 0);
	backed_failed(&b, block);
	/* One write at a time: without that each would meet the bad block. */
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(block, 1);
	backed_unreserve(&b, block);
	for (size_t i = 0; i < 3; i++) {
		must_eq(backed_reserve(&b, &block), 0);
		must_eq(block, order[i]);
	}
	must_eq(backed_reserve(&b, &block), -ENOSPC);
	/* After the last one it is the first one's turn again. */
	backed_failed(&b, 2);
	backed_unreserve(&b, 1);
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(block, 1);
	must_eq(b.nfree, 1);
	must_eq(b.in_hand.v, 2);
	must_eq(blockset_is_tidy(&b.free), true);
	backed_destroy(&b);
}

/* ---- slots ---- */

/* The word that slot i would have on the device. */
static u64 bytes_of(struct store *s, u64 i)
{
	return slot_backed_value(pool_ref_size(&s->pool, slot_ref(host_a64_read(store_slot(s, i)))),
				 0);
}

/* A whole writeback; returns the pages that went. */
static u64 write_back(struct store *s, unsigned int want_kind, bool packed)
{
	struct chosen c = { { 0 } };
	u64 at = 0, n = 0, block;

	while (store_choose_piece(s, &at, s->slots, want_kind, &c))
		;
	for (at = 0; at < s->slots;) {
		if (!store_next_chosen(s, &at, 0, CHOOSE_SIZES - 1))
			continue;
		if (backed_reserve(s->backed, &block))
			break;
		memset(device[block], 0x5a, PAGE_SIZE);
		must_eq(store_copy_out(s, at, device[block], packed), 0);
		for (size_t k = slot_backed_bytes(bytes_of(s, at)); packed && k < PAGE_SIZE;
		     k++)
			must_eq(device[block][k], 0);
		must_eq(store_to_backed(s, at, block), true);
		store_note(s, CNT_BD_WRITES);
		n++;
	}
	for (at = 0; store_unchoose_piece(s, &at);)
		;
	return n;
}

static void write_and_read(bool packed, u64 release_limit)
{
	struct store *s = open_rig(release_limit, BLOCKS);
	u64 orig, compr, huge, since;

	fill(s, 90);
	orig = store_count(s, CNT_ORIG_BYTES);
	since = store_count(s, CNT_HUGE_SINCE);
	must_eq(store_count(s, CNT_HUGE), 30);
	/* The 30 raw ones, then the other objects; what is one word stays. */
	must_eq(write_back(s, CHOOSE_HUGE, packed), 30);
	must_eq(store_blocks(s), 30);
	must_eq(store_count(s, CNT_HUGE), 0);
	must_eq(write_back(s, CHOOSE_IDLE, packed), 0);
	compr = store_count(s, CNT_COMPR_BYTES);
	must_eq(compr > 0, true);
	must_eq(write_back(s, 0, packed), 30);
	must_eq(write_back(s, 0, packed), 0);
	must_eq(store_count(s, CNT_COMPR_BYTES), 0);
	must_eq(store_count(s, CNT_ROOM), 0);
	must_eq(store_count(s, CNT_ORIG_BYTES), orig);
	must_eq(store_count(s, CNT_HUGE_SINCE), since);
	must_eq(store_count(s, CNT_SAME), 30);
	must_eq(store_count(s, CNT_BACKED), 60);
	huge = store_count(s, CNT_BD_READS);
	must_have(s, 90, packed);
	must_eq(store_count(s, CNT_BD_READS), huge + 60);
	release_quiesce(&s->release);
	must_hold(tier_check(s));
	must_eq(pool_pages(&s->pool), 0);

	/* Overwritten and freed ones give their blocks back. */
	for (u64 i = 0; i < 45; i++) {
		make_page(page, i, i % 3);
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	}
	must_eq(store_blocks(s), 30);
	for (u64 i = 45; i < 90; i++)
		must_eq(store_free(s, i), 0);
	must_eq(store_blocks(s), 0);
	release_quiesce(&s->release);
	must_hold(tier_check(s));
	store_collect_blocks(s);
	must_eq(s->backed->nfree, BLOCKS);
	must_have(s, 45, packed);
	rig_close();
}

CASE(test_pages)
{
	write_and_read(false, 1 << 20);
	write_and_read(false, 0);
}

CASE(test_packed)
{
	write_and_read(true, 1 << 20);
	write_and_read(true, 0);
}

/* Among objects, each freed by another way; many more than a batch has room for. */
CASE(test_release)
{
	for (unsigned int way = 0; way < 4; way++) {
		struct store *s = open_rig(way == 3 ? 0 : way == 2 ? 4096 : 1 << 20, SLOTS);
		u64 block, i, at = 0;
		struct chosen c = { { 0 } };

		for (i = 0; i < SLOTS; i++) {
			make_page(page, i, 0);
			must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
		}
		while (store_choose_piece(s, &at, SLOTS, 0, &c))
			;
		/* Every other one. */
		for (i = 0; i < SLOTS; i += 2) {
			must_eq(backed_reserve(s->backed, &block), 0);
			must_eq(store_to_backed(s, i, block), true);
			store_unchoose(s, i + 1);
		}
		must_eq(store_blocks(s), SLOTS / 2);
		for (i = 0; i < SLOTS; i++) {
			must_eq(store_free(s, i), 0);
			if (way == 1 && i % 700 == 0)
				release_help(&s->release, NUMA_NO_NODE, 4);
		}
		must_eq(store_blocks(s), 0);
		must(s->backed->nfree + host_percpu_items(&s->cpus) * BACKED_BATCH >= SLOTS);
		store_collect_blocks(s);
		must_eq(s->backed->nfree, SLOTS);
		release_flush(&s->release);
		must_eq(pool_pages(&s->pool), 0);
		rig_close();
	}
}

/* The check counts the sets, and does not believe what is said of them. */
CASE(test_check)
{
	struct store *s = open_rig(1 << 20, BLOCKS);
	const char *bad = "blocks that are free or late are not what was counted";
	u64 place;

	must_hold(tier_check(s));
	s->backed->nfree--;
	s->backed->nlate++;
	must_eq(strcmp(tier_check(s), bad), 0);
	s->backed->nfree++;
	s->backed->nlate--;
	/* Block 3 is late, and free in the place of 4. */
	place = backed_late_place(s->backed, 3);
	s->backed->late.level[0][place / 64] |= (u64)1 << place % 64;
	s->backed->late.level[1][place / 4096] |= (u64)1 << place / 64 % 64;
	s->backed->free.level[0][0] &= ~(u64)16;
	s->backed->nfree--;
	s->backed->nlate++;
	must_eq(strcmp(tier_check(s), "a block is free and late"), 0);
	s->backed->late.level[0][place / 64] = 0;
	s->backed->late.level[1][place / 4096] = 0;
	s->backed->free.level[0][0] |= 16;
	s->backed->nfree++;
	s->backed->nlate--;
}

/* A read or a write of a chosen page is the end of that. */
CASE(test_touched)
{
	struct store *s = open_rig(1 << 20, BLOCKS);
	struct chosen c = { { 0 } };
	u64 at = 0, block, word;

	for (u64 i = 0; i < 5; i++) {
		make_page(page, i, 0);
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	}
	while (store_choose_piece(s, &at, s->slots, 0, &c))
		;
	must_eq(backed_reserve(s->backed, &block), 0);
	must_eq(store_copy_out(s, 0, want, false), 0);
	must_eq(store_read(s, 0, page), 0);
	must_eq(store_to_backed(s, 0, block), false);
	must_eq(store_copy_out(s, 0, want, false), -ENOENT);
	must_eq(store_write(s, 1, page, NUMA_NO_NODE), 0);
	must_eq(store_to_backed(s, 1, block), false);
	must_eq(store_free(s, 2), 0);
	must_eq(store_to_backed(s, 2, block), false);
	must_eq(store_copy_out(s, 2, want, true), -ENOENT);
	store_unchoose(s, 3);
	must_eq(store_to_backed(s, 3, block), false);
	/* One that is held meanwhile goes all the same, and its reader has it to the end. */
	word = hold_take_and(&s->holds, store_slot(s, 4), 0);
	must_eq(store_to_backed(s, 4, block), true);
	must_eq(slot_backed_bytes(host_a64_read(store_slot(s, 4))),
		pool_ref_size(&s->pool, slot_ref(word)));
	store_drop(s, 4, word);
	must_eq(store_backed_begin(s, 3, &word), false);
}

/* What was idle or cannot be compressed is told apart; ranges are kept to. */
CASE(test_choose)
{
	struct store *s = open_rig(1 << 20, BLOCKS);
	struct chosen c = { { 0 } };
	u64 at, n = 0;

	fill(s, 60);
	for (u64 i = 0; i < 60; i += 4)
		slot_mark(store_slot(s, i), host_a64_read(store_slot(s, i)),
			  i % 8 ? SLOT_IDLE : SLOT_INCOMPRESSIBLE, 0);
	for (u64 i = 0; i < 60; i++)        /* fill words have no marks */
		if (i % 3 == 2 && i % 4 == 0)
			must_eq(slot_type(host_a64_read(store_slot(s, i))), SLOT_FILL);
	for (at = 10; store_choose_piece(s, &at, 20, CHOOSE_IDLE, &c);)
		;
	must_eq(at, 20);
	for (int k = 0; k < CHOOSE_SIZES; k++)
		n += c.n[k];
	/* 12; 20 is past the end */
	must_eq(n, 1);
	for (at = 0; store_unchoose_piece(s, &at);)
		;
	for (at = 0; at < s->slots; at++)
		must_eq(store_next_chosen(s, &at, 0, CHOOSE_SIZES - 1), false);
	for (u64 i = 0; i < 60; i++)
		must_eq(store_free(s, i), 0);
}

/* Slots of both choices, and how many: all that is chosen is seen once, and then let go. */
static u64 chosen_of(struct store *s, unsigned int first, unsigned int then, int smallest,
		     int largest)
{
	struct chosen c = { { 0 } };
	u64 at, n = 0, counted = 0;

	for (at = 0; store_choose_piece(s, &at, s->slots, first, &c);)
		;
	/* What is chosen is not chosen again. */
	for (at = 0; store_choose_piece(s, &at, s->slots, then, &c);)
		;
	for (int k = smallest; k <= largest; k++)
		counted += c.n[k];
	for (at = 0; at < s->slots;)
		if (store_next_chosen(s, &at, smallest, largest)) {
			store_unchoose(s, at++);
			n++;
		}
	must_eq(n, counted);
	for (at = 0; store_unchoose_piece(s, &at);)
		;
	for (at = 0; at < s->slots;)
		must_eq(store_next_chosen(s, &at, 0, CHOOSE_SIZES - 1), false);
	return n;
}

/* A table of which most was never written is passed over, and each requirement is kept. */
CASE(test_choose_sparse)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = 1 << 22, .chain = 16,
		.release_limit = 1 << 20,
	};
	struct store *s = rig_make_backed(&cfg, BLOCKS);
	const int most = CHOOSE_SIZES - 1;

	for (u64 i = 0; i < 12; i++) {
		host_a64 *slot;
		u64 at = i << 18;

		/* Every third is raw, the others are a quarter of a page. */
		memset(page, 1, PAGE_SIZE);
		fill_random(page, i % 3 ? PAGE_SIZE / 4 : PAGE_SIZE, i);
		must_eq(store_write(s, at, page, NUMA_NO_NODE), 0);
		slot = store_slot(s, at);
		must_eq(slot_mark(slot, host_a64_read(slot), (i % 2 ? SLOT_IDLE : 0) |
				  (i < 6 ? SLOT_INCOMPRESSIBLE : 0), 0), true);
	}
	must_eq(chosen_of(s, 0, 0, 0, most), 12);
	must_eq(chosen_of(s, CHOOSE_HUGE, CHOOSE_HUGE, 0, most), 4);
	must_eq(chosen_of(s, CHOOSE_HUGE, 0, most, most), 4);
	must_eq(chosen_of(s, 0, 0, 0, most - 1), 8);
	must_eq(chosen_of(s, CHOOSE_IDLE, CHOOSE_IDLE, 0, most), 6);
	must_eq(chosen_of(s, CHOOSE_INCOMPRESSIBLE, CHOOSE_INCOMPRESSIBLE, 0, most), 6);
	must_eq(chosen_of(s, CHOOSE_IDLE | CHOOSE_HUGE, CHOOSE_INCOMPRESSIBLE, 0, most), 7);
}

CASE(test_down_to)
{
	struct chosen c = { { 0 } };

	must_eq(chosen_down_to(&c, CHOOSE_SIZES - 1, 100), -1);
	c.n[64] = 10;
	c.n[30] = 5;
	c.n[0] = 7;
	must_eq(chosen_down_to(&c, 64, 0), 64);
	must_eq(chosen_down_to(&c, 64, 9), 64);
	must_eq(chosen_down_to(&c, 64, 14), 64);
	must_eq(chosen_down_to(&c, 64, 15), 30);
	must_eq(chosen_down_to(&c, 64, 21), 30);
	must_eq(chosen_down_to(&c, 64, 22), 0);
	must_eq(chosen_down_to(&c, 63, 3), 30);
	must_eq(chosen_down_to(&c, 29, 3), 0);
}

/* Bytes that came back changed are refused, and nothing past the page is written. */
CASE(test_corrupt)
{
	struct store *s = open_rig(1 << 20, BLOCKS);
	unsigned char *out = malloc(PAGE_SIZE);
	u64 word, n = 0;

	fill(s, 30);
	write_back(s, 0, true);
	for (u64 i = 0; i < 30; i++) {
		if (!store_backed_begin(s, i, &word))
			continue;
		memset(device[slot_block(word)], 0xff, PAGE_SIZE / 64);
		if (store_unpack_backed(s, word, device[slot_block(word)], out)) {
			n++;
			for (size_t k = 0; k < PAGE_SIZE; k++)
				must_eq(out[k], 0);
		}
		store_backed_end(s, word);
	}
	must_eq(n > 0, true);
	must_eq(store_count(s, CNT_FAILED_READ), n);
	free(out);
}

/* ---- threads ---- */

static struct store *shared;
static bool stop;
static u64 wrong, reads;

/* Page i's content is its number in each word, whichever version. */
static void number_page(u64 *p, u64 i, u64 version)
{
	for (size_t k = 0; k < PAGE_SIZE / sizeof(u64); k++)
		p[k] = k % 64 ? i : version << 32 | (i ^ k);
}

#define THREAD_SLOTS 64

static void *toucher(void *arg)
{
	u64 seed = (u64)(uintptr_t)arg, word, buf[PAGE_SIZE / sizeof(u64)];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		u64 i;
		int err;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		i = (seed >> 40) % THREAD_SLOTS;
		if ((seed >> 33) % 8 == 0) {
			number_page(buf, i, seed >> 50);
			store_write(shared, i, buf, NUMA_NO_NODE);
			continue;
		}
		if ((seed >> 33) % 8 == 1) {
			store_free(shared, i);
			continue;
		}
		err = store_read(shared, i, buf);
		if (err == STORE_BACKED) {
			if (!store_backed_begin(shared, i, &word))
				continue;
			for (size_t k = 0; k < PAGE_SIZE / sizeof(u64); k++)
				buf[k] = __atomic_load_n((u64 *)device[slot_block(word)] + k,
							 __ATOMIC_RELAXED);
			store_backed_end(shared, word);
			__atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED);
		}
		/* An empty one is zeros. */
		if (err >= 0 && buf[1] != i && (buf[1] || buf[PAGE_SIZE / 16]))
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

CASE(test_threads)
{
	u64 rounds = 30000, block, buf[PAGE_SIZE / sizeof(u64)];
	const char *scale = getenv("EBB_TEST_SCALE");
	pthread_t thread[3];

	if (scale)
		rounds = rounds * (u64)atoi(scale) / 100 + 1;
	/* Few blocks, so that each is soon used again. */
	shared = open_rig(64 << 10, 24);
	stop = false;
	wrong = reads = 0;
	for (uintptr_t t = 0; t < ARRAY_LEN(thread); t++)
		must_eq(pthread_create(&thread[t], NULL, toucher, (void *)(t + 1)), 0);
	for (u64 r = 0; r < rounds;) {
		struct chosen c = { { 0 } };
		u64 at = 0;

		store_choose_piece(shared, &at, THREAD_SLOTS, 0, &c);
		for (at = 0; at < THREAD_SLOTS; at++) {
			if (!store_next_chosen(shared, &at, 0, CHOOSE_SIZES - 1) ||
			    at >= THREAD_SLOTS)
				break;
			if (store_reserve_block(shared, &block))
				break;
			if (store_copy_out(shared, at, buf, false)) {
				backed_unreserve(shared->backed, block);
				continue;
			}
			for (size_t k = 0; k < PAGE_SIZE / sizeof(u64); k++)
				__atomic_store_n((u64 *)device[block] + k, buf[k],
						 __ATOMIC_RELAXED);
			if (!store_to_backed(shared, at, block))
				backed_unreserve(shared->backed, block);
			r++;
		}
		for (at = 0; store_unchoose_piece(shared, &at);)
			;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int t = 0; t < ARRAY_LEN(thread); t++)
		pthread_join(thread[t], NULL);
	must_eq(wrong, 0);
	printf("# reads of the device: %lu\n", reads);
}

/*
 * A page that tells what it is, of which two codecs make a few lengths each: so a block comes back
 * to a slot with the same length now and then.
 */
static void signed_page(unsigned char *p, u64 i, u64 version)
{
	u64 head[2] = { i, version }, x = i + 1;

	memset(p, 0, PAGE_SIZE);
	memcpy(p, head, sizeof(head));
	for (size_t k = 16; k < 16 + version % 4 * 300; k++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		p[k] = (unsigned char)(x >> 56 & (version & 4 ? 0xff : 0x0f));
	}
}

static bool is_signed(const unsigned char *p, u64 i)
{
	unsigned char due[PAGE_SIZE];
	u64 head[2];

	memcpy(head, p, sizeof(head));
	if (head[0] != i)
		return false;
	signed_page(due, i, head[1]);
	return !memcmp(p, due, sizeof(due));
}

static bool is_zero(const unsigned char *p)
{
	return !p[0] && !memcmp(p, p + 1, PAGE_SIZE - 1);
}

static void copy_block(unsigned char *to, const unsigned char *from)
{
	for (size_t k = 0; k < PAGE_SIZE; k += sizeof(u64)) {
		u64 v = __atomic_load_n((const u64 *)(from + k), __ATOMIC_RELAXED);

		__atomic_store_n((u64 *)(to + k), v, __ATOMIC_RELAXED);
	}
}

static void *reader_of_both(void *arg)
{
	_Alignas(8) unsigned char buf[PAGE_SIZE], packed[PAGE_SIZE];
	u64 seed = (u64)(uintptr_t)arg, word;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		u64 i;
		int err;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		i = (seed >> 40) % 8 + 1;
		if ((seed >> 33) % 4 == 0) {
			signed_page(buf, i, seed >> 50);
			store_write(shared, i, buf, NUMA_NO_NODE);
			continue;
		}
		if ((seed >> 33) % 32 == 1) {
			store_free(shared, i);
			release_help(&shared->release, NUMA_NO_NODE, 1);
			continue;
		}
		err = store_read(shared, i, buf);
		if (err == STORE_BACKED) {
			if (!store_backed_begin(shared, i, &word))
				continue;
			copy_block(packed, device[slot_block(word)]);
			err = store_unpack_backed(shared, word, packed, buf);
			store_backed_end(shared, word);
			__atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED);
		}
		if (err || (!is_zero(buf) && !is_signed(buf, i)))
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* One slot from the choice on: 1 if it went, -ENOSPC: there is no block. */
static int back_one(struct store *s, u64 i, unsigned char *buf)
{
	u64 block, at = i;
	struct chosen c = { { 0 } };

	store_choose_piece(s, &at, i + 1, 0, &c);
	if (store_reserve_block(s, &block)) {
		store_unchoose(s, i);
		return -ENOSPC;
	}
	if (!store_copy_out(s, i, buf, true)) {
		copy_block(device[block], buf);
		if (store_to_backed(s, i, block))
			return 1;
	}
	backed_unreserve(s->backed, block);
	store_unchoose(s, i);
	return 0;
}

/* Reads, writes, frees against recompression, writeback, compaction; few slots and blocks. */
CASE(test_codecs)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = 64, .chain = 4,
		.codec[1] = { .ops = &codec_zstd, .level = 1 }, .release_limit = 1 << 16,
	};
	_Alignas(8) unsigned char buf[PAGE_SIZE], packed[PAGE_SIZE];
	const struct recompress_work w = { page, packed };
	const char *scale = getenv("EBB_TEST_SCALE");
	u64 rounds = 3000, made = 0, seed = 1, n;
	int went;
	struct recompress_request r;
	pthread_t thread[3];

	if (scale)
		rounds = rounds * (u64)atoi(scale) / 100 + 1;
	shared = rig_make_backed(&cfg, 5);
	recompress_request_init(&r, 1);
	stop = false;
	wrong = reads = 0;
	for (uintptr_t t = 0; t < ARRAY_LEN(thread); t++)
		must_eq(pthread_create(&thread[t], NULL, reader_of_both, (void *)(t + 1)), 0);
	for (n = 0; n < rounds || made < rounds / 10; n += went > 0) {
		u64 i;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		i = (seed >> 40) % 8 + 1;
		if ((seed >> 33) % 2)
			made += store_recompress(shared, i, &r, &w) == RECOMPRESS_DONE;
		went = back_one(shared, i, buf);
		if (seed >> 58 == 0)
			pool_compact_some(&shared->pool, 4);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int t = 0; t < ARRAY_LEN(thread); t++)
		pthread_join(thread[t], NULL);
	must_eq(wrong, 0);
	printf("# reads of the device: %lu; made anew: %lu\n", reads, made);
}

/* ---- pages that were never here ---- */

static int put_on_device(struct store *s, u64 i)
{
	u64 block;
	int err = store_need_slot(s, i, NUMA_NO_NODE);

	if (!err)
		err = store_reserve_block(s, &block);
	if (err)
		return err;
	make_page(device[block], i, i % 3);
	store_put_backed(s, i, block);
	return 0;
}

/* Pages that never were in memory, over nothing, objects, fills and other blocks, in both modes. */
CASE(test_incoming)
{
	for (unsigned int way = 0; way < 4; way++) {
		struct store *s = open_rig(way & 1 ? 0 : 1 << 20, BLOCKS);
		bool packed = way & 2;

		must_eq(store_need_slot(s, SLOTS, NUMA_NO_NODE), -ERANGE);
		must_eq(put_on_device(s, SLOTS - 1), 0);
		must_eq(store_free(s, SLOTS - 1), 0);
		fill(s, 30);
		for (u64 i = 0; i < 60; i++)
			must_eq(put_on_device(s, i), 0);
		release_flush(&s->release);
		must_eq(pool_pages(&s->pool), 0);
		must_eq(store_blocks(s), 60);
		must_eq(s->backed->in_hand.v, 0);
		must_eq(store_count(s, CNT_ORIG_BYTES), 60 * PAGE_SIZE);
		must_eq(store_count(s, CNT_COMPR_BYTES), 0);
		must_eq(store_count(s, CNT_SAME), 0);
		must_eq(store_count(s, CNT_HUGE), 0);
		must_have(s, 60, packed);
		for (u64 i = 0; i < 30; i++)
			must_eq(put_on_device(s, i), 0);
		must_have(s, 60, packed);
		release_quiesce(&s->release);
		must_hold(tier_check(s));
		/* Until the device is full; a write brings it back to memory. */
		for (u64 i = 60; i < BLOCKS; i++)
			must_eq(put_on_device(s, i), 0);
		must_eq(put_on_device(s, BLOCKS), -ENOSPC);
		fill(s, BLOCKS);
		must_eq(store_blocks(s), 0);
		must_have(s, BLOCKS, packed);
		release_quiesce(&s->release);
		must_hold(tier_check(s));
		store_collect_blocks(s);
		must_eq(s->backed->nfree, BLOCKS);
		rig_close();
	}
}

/* A write that is tried is not counted when it fails, and leaves what was there. */
CASE(test_try_write)
{
	struct store *s = open_rig(1 << 20, BLOCKS);
	int err = 0;
	u64 i;

	fill(s, 6);
	s->pool.limit = 8 * PAGE_SIZE;
	for (i = 6; i < SLOTS && !err; i++) {
		make_page(page, i, 1);
		err = store_try_write(s, i, page, NUMA_NO_NODE);
	}
	must_eq(err, -EDQUOT);
	must_eq(store_count(s, CNT_FAILED_WRITE), 0);
	make_page(page, 0, 1);
	must_eq(store_try_write(s, 0, page, NUMA_NO_NODE), -EDQUOT);
	must_eq(store_write(s, 0, page, NUMA_NO_NODE), -EDQUOT);
	must_eq(store_count(s, CNT_FAILED_WRITE), 1);
	must_eq(store_try_write(s, SLOTS, page, NUMA_NO_NODE), -ERANGE);
	must_eq(store_write(s, SLOTS, page, NUMA_NO_NODE), -ERANGE);
	must_eq(store_count(s, CNT_FAILED_WRITE), 1);
	must_have(s, 6, false);
	must_eq(put_on_device(s, 0), 0);
	must_have(s, 6, false);
}
