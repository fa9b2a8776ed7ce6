// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * packed.c - fuzzes values in their packed form: made up, or a true one that was changed, with the
 * right sum or the one it had.
 *
 *     input: what is done; the value; then the changes, or the form behind its sum
 *
 * Whatever a form is, an answer is a value, -EUCLEAN, -ENOTSUP or -EIO, and the table is sound.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz_put.h"
#include "api/ebb_values.h"

#define SUM_AT 8u
#define SUMMED 16u
#define LARGEST 150000u

static unsigned char value[LARGEST], form[LARGEST + 4096], got[LARGEST + 1];

static size_t true_form(struct ebb_values *v, struct choices *c)
{
	size_t bytes = take(c, 3) % LARGEST, n = 0;
	uint64_t seed = take(c, 1);

	if (seed % 4)
		bytes %= 2000;
	memset(value, (int)seed, bytes);
	fill_random(value, bytes * (seed % 3) / 2, seed);
	must_eq(ebb_values_put(v, 1, value, bytes, 0), 0);
	must_eq(ebb_values_read_packed(v, 1, form, sizeof(form), &n), 0);
	return n;
}

static size_t changed(struct choices *c, size_t n)
{
	while (left(c) > 3) {
		size_t at = take(c, 2) % n;

		form[take_below(c, 2) ? at : at % 64 % n] ^= (unsigned char)take(c, 1);
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct choices c = { input, input + size };
	unsigned int what = take_below(&c, 16);
	struct ebb_values_config cfg;
	struct ebb_values *v;
	XXH64_hash_t sum;
	uint64_t told;
	char why[200];
	size_t n, m;
	int err;

	ebb_values_config_init(&cfg);
	cfg.codec = ebb_codec_name(what / 4 % 3);
	cfg.slots = 1 << 16;
	must_eq(ebb_values_open(&v, &cfg), 0);
	n = true_form(v, &c);
	if (what & 1)
		n = changed(&c, n);
	else
		for (n = SUMMED; left(&c); n++)
			form[n] = (unsigned char)take(&c, 1);
	if (what & 2) {
		sum = XXH3_64bits_withSeed(form + SUMMED, n - SUMMED, form[4]);
		memcpy(form + SUM_AT, &sum, sizeof(sum));
	}
	err = ebb_packed_size(form, n, &told);
	must(!err || err == -EUCLEAN || err == -ENOTSUP);
	got[LARGEST] = 7;
	err = ebb_values_unpack(v, form, n, got, LARGEST, &m);
	must(!err || err == -EUCLEAN || err == -ENOTSUP || err == -EIO || err == -ENOSPC);
	must_eq(got[LARGEST], 7);
	err = ebb_values_put_packed(v, 2, form, n, 0);
	must(!err || err == -EUCLEAN || err == -ENOTSUP);
	if (!err) {
		err = ebb_values_get(v, 2, got, LARGEST, &m);
		must(!err || err == -EIO || err == -ENOSPC);
		must_eq(ebb_values_read_packed(v, 2, form, sizeof(form), &m), 0);
		must_eq(m, n);
	}
	if (ebb_values_check(v, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
	ebb_values_close(v);
	return 0;
}
