// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * main.c - every codec of the module over the kernel's own libraries, with input that is cut,
 * changed or made up, at its levels, with and without a dictionary.  What tests/test_codec.c is for
 * those of the library.
 *
 * Buffers end where a page that is not there begins, so that one byte too far is an oops.  A codec
 * is asked whether its answer is a page or -EIO, and whether it depends on the bytes alone.  The
 * module does not load if one fails.
 */
#undef pr_fmt
#define pr_fmt(fmt) "codec_check: " fmt

#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sw842.h>
#include <linux/vmalloc.h>

#include "codec/codecs.h"

/* Of the home: what codecs call. */
void *host_zalloc(size_t bytes)
{
	return kvzalloc(bytes, GFP_KERNEL);
}

void host_free(void *p, size_t bytes)
{
	kvfree(p);
}

static int rounds = 150;
module_param(rounds, int, 0);
MODULE_PARM_DESC(rounds, "Pages for each codec, level and dictionary (150)");

#define ROOM (2 * PAGE_SIZE)

static const struct codec_ops *ops;
static struct codec_params params;
static void *ctx[2];                    /* two that see different pages before */
static u8 *area[4];                     /* of ROOM bytes each, with nothing behind them */
static u8 *page, *small, *dict;
static u64 state = 88172645463325252ULL;
static unsigned long errors, pages;

/* n bytes at the end of an area. */
static u8 *at_end(unsigned int i, size_t n)
{
	return area[i] + ROOM - n;
}

#if IS_ENABLED(CONFIG_842_DECOMPRESS)
/* For codec_842.c: as the library was before it kept to the room (Kbuild). */
int careless_842(const u8 *in, unsigned int n, u8 *out, unsigned int *len);
int careless_842(const u8 *in, unsigned int n, u8 *out, unsigned int *len)
{
	unsigned int made = ROOM;
	int err = sw842_decompress(in, n, at_end(3, ROOM), &made);

	*len = err ? 0 : made;
	memcpy(out, at_end(3, ROOM), *len);
	return err;
}
#endif

static u64 rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 11;
}

/* Words that recur, some noise; some pages are one or the other. */
static void fill(u8 *p)
{
	static const char words[] = "alpha   beta    gamma   delta   epsilon zeta    eta     theta   ";
	unsigned int noise = (unsigned int)(rnd() % 5);
	size_t i;

	for (i = 0; i < PAGE_SIZE; i += 8) {
		u64 w = rnd();

		if (noise == 4 || (noise && rnd() % 16 < noise))
			memcpy(p + i, &w, 8);
		else
			memcpy(p + i, words + 8 * (w % 8), 8);
	}
	if (rnd() % 8 == 0)
		memset(p + rnd() % PAGE_SIZE / 2, 'q', PAGE_SIZE / 2);
}

#define demand(cond) \
	do { \
		if (!(cond)) { \
			pr_err("%s level %d dict %zu winbits %d: not %s (line %d)\n", ops->name, \
			       params.level, params.dict_bytes, params.winbits, #cond, __LINE__); \
			return -EINVAL; \
		} \
	} while (0)

/* What page becomes, in small; at least the room is kept to. */
static int compressed(void)
{
	int n = ops->compress(ctx[0], page, PAGE_SIZE, small, ROOM);

	demand(n > 0 && n <= (int)ROOM);
	return n;
}

static int round_trip(int n)
{
	u8 *in = at_end(0, n), *out = at_end(1, PAGE_SIZE);
	unsigned int i;

	memcpy(in, small, n);
	for (i = 0; i < 2; i++) {
		memset(out, 0x5a, PAGE_SIZE);
		demand(!ops->decompress(ctx[i], in, n, out, PAGE_SIZE));
		demand(!memcmp(out, page, PAGE_SIZE));
	}
	pages++;
	return 0;
}

/* Too little room is said, and kept to. */
static int little_room(int n)
{
	unsigned int i;
	size_t cap;
	int m;

	for (i = 0; i < 4; i++) {
		cap = i ? rnd() % n : n - 1;
		m = ops->compress(ctx[0], page, PAGE_SIZE, at_end(0, cap), cap);
		demand(m == -ENOSPC || (m > 0 && m <= (int)cap));
		demand(cap >= (size_t)n / 2 || m == -ENOSPC);
	}
	return 0;
}

/* n bytes that may be anything: a page or -EIO, the same for both contexts. */
static int anything(size_t n, bool is_wrong)
{
	u8 *in = at_end(0, n);
	unsigned int i;
	int err[2];

	memcpy(in, small, n);
	for (i = 0; i < 2; i++) {
		u8 *out = at_end(1 + i, PAGE_SIZE);

		memset(out, i ? 0xa5 : 0x5a, PAGE_SIZE);
		err[i] = ops->decompress(ctx[i], in, n, out, PAGE_SIZE);
		demand(!err[i] || err[i] == -EIO);
	}
	demand(err[0] == err[1]);
	demand(err[0] || !memcmp(at_end(1, PAGE_SIZE), at_end(2, PAGE_SIZE), PAGE_SIZE));
	demand(err[0] || !is_wrong);
	errors += err[0] != 0;
	return 0;
}

static int other_length(int n)
{
	static const size_t cap[] = { 1, PAGE_SIZE / 2, PAGE_SIZE - 1, PAGE_SIZE + 1, ROOM };
	u8 *in = at_end(0, n);
	unsigned int i;

	memcpy(in, small, n);
	for (i = 0; i < ARRAY_SIZE(cap); i++)
		demand(ops->decompress(ctx[0], in, n, at_end(1, cap[i]), cap[i]) == -EIO);
	return 0;
}

static int one_page(unsigned int i)
{
	unsigned int k;
	int n, m, err;

	/* The other context has seen another page. */
	fill(page);
	n = ops->compress(ctx[1], page, PAGE_SIZE, small, ROOM);
	demand(n > 0);
	demand(!ops->decompress(ctx[1], small, n, at_end(2, PAGE_SIZE), PAGE_SIZE));

	fill(page);
	n = compressed();
	err = n < 0 ? n : round_trip(n);
	err = err ?: little_room(n);
	n = err ? err : compressed();
	err = err ?: other_length(n);
	/* Cut short; a stream may end in bytes that nobody needs, but not in half of them. */
	err = err ?: anything(rnd() % (n / 2 + 1), true);
	err = err ?: anything(n - 1 - rnd() % (n < 16 ? n : 16), false);
	for (k = 0; k < 8 && !err; k++) {
		n = compressed();
		for (m = (int)(rnd() % 4); m >= 0; m--)
			small[rnd() % n] ^= 1 + rnd() % 255;
		err = anything(n, false);
	}
	for (k = 0; k < 8 && !err; k++) {
		n = 1 + rnd() % PAGE_SIZE;
		for (m = 0; m < n; m++)
			small[m] = rnd() % (k % 2 ? 256 : 16);
		err = anything(n, false);
	}
	if (err)
		return err;
	fill(page);
	n = compressed();
	return n < 0 ? n : round_trip(n);
}

static int one_setting(int level, size_t dict_bytes, int winbits)
{
	int err = 0, i, n = rounds;

	params = (struct codec_params) {
		.level = level, .winbits = winbits, .dict = dict_bytes ? dict : NULL,
		.dict_bytes = dict_bytes,
	};
	if (ops->prepare)
		err = ops->prepare(&params);
	if (err)
		return err;
	ctx[0] = ops->create(&params);
	ctx[1] = ops->create(&params);
	err = ctx[0] && ctx[1] ? 0 : -ENOMEM;
	for (i = 0; i < n && !err; i++) {
		err = one_page(i);
		cond_resched();
	}
	for (i = 0; i < 2; i++)
		if (ctx[i])
			ops->destroy(ctx[i]);
	if (ops->release)
		ops->release(&params);
	return err;
}

static int one_codec(void)
{
	static const int winbits[] = { -15, -9, 9, 15 };
	const int level[] = { ops->default_level, ops->min_level, ops->max_level };
	unsigned int i, k;
	int err = 0;

	for (i = 0; i < 3 && !err; i++) {
		if (i && level[i] == level[0])
			continue;
		err = one_setting(level[i], 0, 0);
		if (ops->max_dict && !err)
			err = one_setting(level[i], SZ_64K, 0);
		if (ops->max_dict && !err)
			err = one_setting(level[i], ops->min_dict, 0);
		for (k = 0; ops->has_winbits && k < ARRAY_SIZE(winbits) && !err; k++)
			err = one_setting(level[i], 0, winbits[k]);
	}
	return err;
}

static int __init codec_check_init(void)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(area) && !err; i++) {
		area[i] = vmalloc(ROOM);
		err = area[i] ? 0 : -ENOMEM;
	}
	page = vmalloc(PAGE_SIZE);
	small = vmalloc(ROOM);
	dict = vmalloc(SZ_64K);
	if (!page || !small || !dict)
		err = -ENOMEM;
	for (i = 0; !err && i < SZ_64K; i += PAGE_SIZE)
		fill(dict + i);
	for (i = 0; kernel_codecs[i] && !err; i++) {
		ops = kernel_codecs[i];
		errors = pages = 0;
		err = one_codec();
		if (!err)
			pr_notice("%s: %lu pages, %lu errors found\n", ops->name, pages, errors);
		if (!err && !errors)
			err = -EINVAL;
	}
	for (i = 0; i < ARRAY_SIZE(area); i++)
		vfree(area[i]);
	vfree(page);
	vfree(small);
	vfree(dict);
	return err;
}

static void __exit codec_check_exit(void)
{
}

module_init(codec_check_init);
module_exit(codec_check_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Checks of Ebb's codecs over the kernel's libraries");
