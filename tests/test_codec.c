// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_codec.c - every codec at its levels: round trips, and input that is cut or damaged.
 * Inputs and outputs end where the next byte faults, so that one byte too far is a crash.
 */
#include "support.h"
#include "codecs/codecs.h"

static const struct codec_ops *ops;
static void *ctx;
static unsigned char *src, *dst, *back;

static void open_codec(const struct codec_ops *codec, int level)
{
	ops = codec;
	ctx = ops->create(&(struct codec_params){ .level = level });
	must(ctx);
	src = guard_alloc(PAGE_SIZE);
	dst = guard_alloc(2 * PAGE_SIZE);
	back = guard_alloc(PAGE_SIZE);
}

static void close_codec(void)
{
	ops->destroy(ctx);
	guard_free(src, PAGE_SIZE);
	guard_free(dst, 2 * PAGE_SIZE);
	guard_free(back, PAGE_SIZE);
}

static void each_codec(void (*fn)(void))
{
	for (unsigned int i = 0; user_codecs[i]; i++) {
		const struct codec_ops *c = user_codecs[i];
		const int level[] = { c->default_level, c->min_level, c->max_level };

		must(c->min_level <= c->default_level && c->default_level <= c->max_level);
		for (size_t k = 0; k < ARRAY_LEN(level); k++) {
			if (k && level[k] == c->default_level)
				continue;
			open_codec(c, level[k]);
			fn();
			close_codec();
		}
	}
}

/* Moves n compressed bytes of dst to the end of guarded memory. */
static unsigned char *exact(size_t n)
{
	unsigned char *p = guard_alloc(n);

	memcpy(p, dst, n);
	return p;
}

static void must_round_trip(void)
{
	int n = ops->compress(ctx, src, PAGE_SIZE, dst, 2 * PAGE_SIZE);
	unsigned char *in;

	must(n > 0 && (size_t)n <= 2 * PAGE_SIZE);
	in = exact((size_t)n);
	memset(back, 0x5a, PAGE_SIZE);
	must_eq(ops->decompress(ctx, in, (size_t)n, back, PAGE_SIZE), 0);
	must(!memcmp(src, back, PAGE_SIZE));
	guard_free(in, (size_t)n);
}

static void round_trips(void)
{
	unsigned long n = scaled(150);

	for (unsigned long i = 0; i < n; i++) {
		fill_page(src, use_seed(i));
		must_round_trip();
	}
}

CASE(pages_survive_the_round_trip)
{
	each_codec(round_trips);
}

static void small_caps(void)
{
	unsigned long rounds = scaled(20);

	for (unsigned long i = 0; i < rounds; i++) {
		struct rng rng = { use_seed(i) };
		size_t caps[12], full;
		int n;

		memset(src, 'q', PAGE_SIZE);
		fill_random(src, 40 + rng_below(&rng, PAGE_SIZE - 40), i);
		n = ops->compress(ctx, src, PAGE_SIZE, dst, 2 * PAGE_SIZE);
		must(n > 20);
		full = (size_t)n;
		for (size_t k = 0; k < ARRAY_LEN(caps); k++)
			caps[k] = k < 4 ? k : rng_below(&rng, full);
		caps[11] = full - 1;
		for (size_t k = 0; k < ARRAY_LEN(caps); k++) {
			unsigned char *out = guard_alloc(caps[k] ? caps[k] : 1);

			n = ops->compress(ctx, src, PAGE_SIZE, out, caps[k]);
			/* One byte less may do for a codec that has two ways to say it. */
			if (k < 11 || n != -ENOSPC)
				must(n == -ENOSPC || (n > 0 && (size_t)n <= caps[k]));
			if (caps[k] < full / 2)
				must_eq(n, -ENOSPC);
			guard_free(out, caps[k] ? caps[k] : 1);
		}
		must_round_trip();
	}
}

CASE(output_that_does_not_fit_is_reported_and_not_written)
{
	each_codec(small_caps);
}

static void incompressible(void)
{
	unsigned char *out = guard_alloc(PAGE_SIZE * 7 / 8);

	fill_random(src, PAGE_SIZE, use_seed(11));
	must_eq(ops->compress(ctx, src, PAGE_SIZE, out, PAGE_SIZE * 7 / 8), -ENOSPC);
	guard_free(out, PAGE_SIZE * 7 / 8);
}

CASE(a_page_that_does_not_shrink_does_not_fit)
{
	each_codec(incompressible);
}

static void cut_input(void)
{
	unsigned long rounds = scaled(30);

	for (unsigned long i = 0; i < rounds; i++) {
		struct rng rng = { use_seed(i) };
		size_t full, cut;
		int n;

		memset(src, 'q', PAGE_SIZE);
		fill_random(src, 1 + rng_below(&rng, PAGE_SIZE), i);
		n = ops->compress(ctx, src, PAGE_SIZE, dst, 2 * PAGE_SIZE);
		must(n > 0);
		full = (size_t)n;
		for (unsigned int k = 0; k < 12; k++) {
			unsigned char *in;

			cut = k < 4 ? k : k < 8 ? full - (k - 3) : rng_below(&rng, full);
			if (cut >= full)
				continue;
			in = guard_alloc(cut ? cut : 1);
			memcpy(in, dst, cut);
			must_eq(ops->decompress(ctx, in, cut, back, PAGE_SIZE), -EIO);
			guard_free(in, cut ? cut : 1);
		}
	}
	fill_page(src, 77);
	must_round_trip();
}

CASE(input_that_is_cut_is_an_error)
{
	each_codec(cut_input);
}

static void damaged_input(void)
{
	unsigned long rounds = scaled(1000), errors = 0;

	for (unsigned long i = 0; i < rounds; i++) {
		struct rng rng = { use_seed(i) };
		unsigned char *in;
		size_t len;
		int n;

		fill_page(src, rng_next(&rng));
		n = ops->compress(ctx, src, PAGE_SIZE, dst, 2 * PAGE_SIZE);
		must(n > 0);
		len = (size_t)n;
		if (i % 4 == 3) {
			len = 1 + rng_below(&rng, PAGE_SIZE);
			fill_random(dst, len, i);
		}
		for (unsigned int k = 0; k <= i % 4; k++)
			dst[rng_below(&rng, len)] ^= (unsigned char)(1 + rng_below(&rng, 255));
		in = exact(len);
		n = ops->decompress(ctx, in, len, back, PAGE_SIZE);
		must(n == 0 || n == -EIO);
		errors += n != 0;
		guard_free(in, len);
	}
	must(errors > 0);
	/* The context is none the worse. */
	fill_page(src, 78);
	must_round_trip();
}

CASE(damaged_input_is_an_error_or_a_page_and_never_more)
{
	each_codec(damaged_input);
}

static void other_length(void)
{
	static const size_t cap[] = { 1, PAGE_SIZE / 2, PAGE_SIZE - 1, PAGE_SIZE + 1,
				      2 * PAGE_SIZE };
	int n;

	memset(src, 'q', PAGE_SIZE);
	fill_random(src, PAGE_SIZE / 3, use_seed(12));
	n = ops->compress(ctx, src, PAGE_SIZE, dst, 2 * PAGE_SIZE);
	must(n > 0);
	for (size_t k = 0; k < ARRAY_LEN(cap); k++) {
		unsigned char *in = exact((size_t)n), *out = guard_alloc(cap[k]);

		must_eq(ops->decompress(ctx, in, (size_t)n, out, cap[k]), -EIO);
		guard_free(in, (size_t)n);
		guard_free(out, cap[k]);
	}
}

CASE(a_stream_of_another_length_is_an_error)
{
	each_codec(other_length);
}

static uint64_t packed(const struct codec_ops *codec, int level)
{
	uint64_t sum = 0;

	open_codec(codec, level);
	for (uint64_t i = 0; i < 40; i++) {
		/* Words in random order: what a search finds and a glance does not. */
		struct rng rng = { i };

		for (size_t at = 0; at + 8 <= PAGE_SIZE; at += 8)
			memcpy(src + at, &"alpha   beta    gamma   delta   epsilon zeta    eta     theta   "
			       [8 * rng_below(&rng, 8)], 8);
		sum += (uint64_t)ops->compress(ctx, src, PAGE_SIZE, dst, 2 * PAGE_SIZE);
	}
	close_codec();
	return sum;
}

CASE(the_level_reaches_the_library)
{
	must(packed(&codec_zstd, 19) < packed(&codec_zstd, -5));
	must(packed(&codec_lz4hc, 12) < packed(&codec_lz4hc, 3));
	must(packed(&codec_lz4, 1) < packed(&codec_lz4, 200));
}
