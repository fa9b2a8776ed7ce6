// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * decompress.c - fuzzes what reads compressed bytes: each codec by itself, and the store over
 * an object that was overwritten in place.
 *
 *     input: codec, what is damaged; then bytes, or changes to bytes that were right
 *
 * Whatever is stored, the answer is a page or -EIO, the next page is as good as ever, and
 * nobody is shown a page that was not his: what comes out depends on the stored bytes alone,
 * not on what the context saw before nor on what lay in the destination, and after -EIO of the
 * store the destination is zeros.
 */
#include "fuzz.h"
#include "store_calls.h"
#include "store/check.h"
#include "codecs/codecs.h"

#define SLOTS 4

static unsigned char page[PAGE_SIZE], got[PAGE_SIZE];
static void *ctx[4][2];         /* of each codec; two that see different pages before */

/* A page that compresses to an object that is not huge. */
static void page_of(uint64_t seed)
{
	size_t noise = PAGE_SIZE / 8 + seed % 16 * (PAGE_SIZE / 32);

	for (size_t i = 0; i < PAGE_SIZE; i++)
		page[i] = (unsigned char)("compressed memory "[i % 18] + seed % 5);
	fill_random(page, noise, seed);
}

/* Bytes to put in place of n that were right: changed ones, or others. */
static size_t damage(struct choices *c, unsigned char *buf, size_t n, size_t room)
{
	if (take(c, 1) % 2) {
		n = left(c) < room ? left(c) : room;
		for (size_t i = 0; i < n; i++)
			buf[i] = (unsigned char)take(c, 1);
		return n ? n : 1;
	}
	while (left(c) && n) {
		size_t at = take_below(c, (unsigned int)(n < 65536 ? n : 65536));
		unsigned char by = (unsigned char)take(c, 1);

		if (by)
			buf[at] ^= by;
		else
			n = at ? at : 1;        /* cut off here */
	}
	return n;
}

/* Pages that are known, compressed by each codec once. */
enum { ONE, OTHER, AFTER, KNOWN };

static struct known {
	int n;
	unsigned char page[PAGE_SIZE], small[PAGE_SIZE];
} known[4][KNOWN];

static void make_known(void)
{
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int k = 0; k < KNOWN; k++) {
			struct known *w = &known[i][k];

			page_of(1000 + k);
			memcpy(w->page, page, PAGE_SIZE);
			w->n = user_codecs[i]->compress(ctx[i][0], page, PAGE_SIZE, w->small,
							PAGE_SIZE);
			must(w->n > 0);
		}
}

/* Has a context decompress a page that is known. */
static void show(unsigned int which, unsigned int to, unsigned int what)
{
	const struct known *w = &known[which][what];

	memset(got, 0, PAGE_SIZE);
	must_eq(user_codecs[which]->decompress(ctx[which][to], w->small, (size_t)w->n,
					       got, PAGE_SIZE), 0);
	must(!memcmp(got, w->page, PAGE_SIZE));
}

static void alone(struct choices *c, unsigned int which)
{
	const struct codec_ops *ops = user_codecs[which];
	unsigned char bytes[PAGE_SIZE], *src, *dst[2];
	int n, err[2];
	size_t len;

	page_of(take(c, 1));
	n = ops->compress(ctx[which][0], page, PAGE_SIZE, bytes, sizeof(bytes));
	must(n > 0);
	len = damage(c, bytes, (size_t)n, sizeof(bytes));
	src = exactly(bytes, len);
	for (unsigned int i = 0; i < 2; i++) {
		show(which, i, i ? OTHER : ONE);
		dst[i] = exactly(NULL, PAGE_SIZE);
		memset(dst[i], i ? 0x5a : 0xa5, PAGE_SIZE);
		err[i] = ops->decompress(ctx[which][i], src, len, dst[i], PAGE_SIZE);
		must(!err[i] || err[i] == -EIO);
	}
	must_eq(err[0], err[1]);
	must(err[0] || !memcmp(dst[0], dst[1], PAGE_SIZE));
	/* Who stops has the same up to there, and stays in his bounds. */
	if (ops->decompress_part) {
		size_t part = 1 + take(c, 2) % PAGE_SIZE;
		int err_part = ops->decompress_part(ctx[which][1], src, len, dst[1], part,
						    PAGE_SIZE);

		must(!err_part || err_part == -EIO);
		must(err[0] || (!err_part && !memcmp(dst[0], dst[1], part)));
	}
	show(which, 0, AFTER);
	free(dst[0]);
	free(dst[1]);
	free(src);
}

/* Nothing is deferred, so that an input always does the same. */
static struct source source;
static struct store store[4];

static void open_stores(void)
{
	source_open(&source);
	for (unsigned int i = 0; i < 4; i++) {
		struct store_config cfg = {
			.codec[0] = { .ops = user_codecs[i], .level = user_codecs[i]->min_level },
			.slots = SLOTS, .chain = 4,
		};

		must_eq(store_init(&store[i], &source.pages, &cfg), 0);
	}
}

static void in_store(struct choices *c, unsigned int which)
{
	struct store *s = &store[which];
	unsigned char bytes[PAGE_SIZE];
	uint64_t seed = take(c, 1), failed = store_count(s, CNT_FAILED_READ);
	size_t n, m;
	u64 ref;
	int err;

	for (u64 i = 0; i < SLOTS; i++) {
		page_of(seed + i);
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	}
	ref = slot_ref(host_a64_read(store_slot(s, 1)));
	n = pool_ref_size(&s->pool, ref);
	memcpy(bytes, pool_map(&s->pool, ref, got), n);
	/* The length is in the reference, so only the bytes may be wrong. */
	m = damage(c, bytes, n, n);
	memset(bytes + m, 0, n - m);
	pool_write(&s->pool, ref, bytes);

	memset(got, 0xee, PAGE_SIZE);
	err = store_read(s, 1, got);
	must(!err || err == -EIO);
	must(!err || same_byte(got, 0, PAGE_SIZE));
	must_eq(store_count(s, CNT_FAILED_READ), failed + (err != 0));
	must_hold(store_check(s));
	for (u64 i = 0; i < SLOTS; i++) {
		page_of(seed + i);
		if (i == 1)
			must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
		must_eq(store_read(s, i, got), 0);
		must(!memcmp(got, page, PAGE_SIZE));
	}
	must_eq(store_count(s, CNT_FAILED_READ), failed + (err != 0));
	must_hold(store_check(s));
	store_reset(s);
	must_eq(pool_pages(&s->pool), 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct choices c = { data, data + n };
	unsigned int how = take_below(&c, 64);

	/* The store costs more. */
	if (how / 4 == 15)
		in_store(&c, how % 4);
	else
		alone(&c, how % 4);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_init();
	host_user_set_nr_cpus(1);
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int k = 0; k < 2; k++) {
			ctx[i][k] = user_codecs[i]->create(&(struct codec_params){
				.level = user_codecs[i]->min_level });
			must(ctx[i][k]);
		}
	make_known();
	open_stores();
	return 0;
}
