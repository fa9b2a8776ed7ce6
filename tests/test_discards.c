// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_discards.c - free blocks of a backing device that are taken in runs, to be discarded: which,
 * how many, and what a look for them costs.
 */
#include "backed.h"
#include "support.h"

enum { MINE = 1, STALE = 2, OUT = 4 };

/* A whole run that is free, and of which a block was somebody's since it was taken. */
static bool is_due(const unsigned char *is, u64 n, u64 run, u64 first)
{
	bool stale = false;

	for (u64 i = first; i < first + run && i < n; i++) {
		if (is[i] & (MINE | OUT))
			return false;
		stale |= is[i] & STALE;
	}
	return stale;
}

/* What is due of one look, all of it and no more, is out in whole runs; then some is given back. */
static void take_all(struct backed *b, unsigned char *is, u64 run, u64 most)
{
	u64 at = 0, before, block, n, i, nfree;
	bool more = true;

	while (more) {
		before = at;
		nfree = b->nfree;
		more = backed_take(b, &at, most, &block, &n);
		must_eq(at > before, true);
		must_eq(b->nfree, nfree - n);
		must_eq(n <= nfree / 2, true);
		if (nfree / 2 < run) {
			must_eq(at, b->blocks);
			break;
		}
		for (i = before; i < (n ? block : at); i += run)
			must_eq(is_due(is, b->blocks, run, i), false);
		if (!n)
			continue;
		must_eq(n <= most || n <= run, true);
		must_eq(at, block + n);
		for (i = block; i < block + n; i += run)
			must_eq(is_due(is, b->blocks, run, i), true);
		memset(is + block, OUT, n);
		/* Half of them stay out for a while. */
		if (block / run % 2) {
			backed_untake(b, block, n);
			memset(is + block, 0, n);
		}
	}
	must_eq(at, b->blocks);
}

/* Against a plain array; a block that is out is given to nobody. */
static void runs_that_are_free_and_stale_are_taken_and_no_others(void **state)
{
	static const u64 sizes[] = { 1, 15, 64, 200, 5000 }, runs[] = { 1, 3, 16, 64, 100 };
	u64 block, taken;

	for (size_t k = 0; k < ARRAY_LEN(sizes) * ARRAY_LEN(runs); k++) {
		u64 n = sizes[k % ARRAY_LEN(sizes)], run = runs[k / ARRAY_LEN(sizes)];
		u64 seed = k, i = 0;
		unsigned char *is = calloc(n, 1);
		struct backed b;

		must_eq(backed_init(&b, n), 0);
		/* Of no use before it is asked for. */
		must_eq(backed_take(&b, &i, n, &block, &taken), false);
		must_eq(taken, 0);
		must_eq(backed_set_run(&b, run), 0);
		memset(is, STALE, n);
		for (unsigned int step = 0; step < 300; step++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			i = (seed >> 33) % n;
			if (is[i] & MINE) {
				backed_unreserve(&b, i);
				is[i] = STALE;
			} else if (!backed_reserve(&b, &block)) {
				must_eq(is[block] & (MINE | OUT), 0);
				is[block] = MINE | STALE;
			}
			if (step % 20 == 0)
				take_all(&b, is, run, (seed >> 50) % 150);
			for (i = 0; step % 40 == 39 && i < n; i++)
				if (is[i] & OUT) {
					backed_untake(&b, i, 1);
					is[i] = 0;
				}
			must_eq(blockset_is_tidy(&b.free) && blockset_is_tidy(&b.stale), true);
		}
		for (i = 0, block = 0; i < n; i++)
			block += !(is[i] & (MINE | OUT));
		must_eq(b.nfree, block);
		backed_destroy(&b);
		free(is);
	}
}

static void half_of_the_free_blocks_stay_and_who_finds_none_waits(void **state)
{
	struct backed b;
	u64 at = 0, block, n, mine, second;

	must_eq(backed_init(&b, 64), 0);
	must_eq(backed_set_run(&b, 16), 0);
	/* A word each for free and stale ones; late ones have a place for each counter. */
	must_eq(backed_meta_bytes(&b), BACKED_READERS * 8 + (1 + 1 + BACKED_READERS / 64 + 1) * 8);
	must_eq(backed_take(&b, &at, 64, &block, &n), true);
	must_eq(n, 32);
	must_eq(backed_take(&b, &at, 64, &second, &n), true);
	must_eq(n, 16);
	/* Of the last run no half would stay. */
	must_eq(backed_take(&b, &at, 64, &mine, &n), false);
	must_eq(n, 0);
	must_eq(b.nfree, 16);
	for (n = 0; n < 16; n++)
		must_eq(backed_reserve(&b, &mine), 0);
	must_eq(backed_reserve(&b, &mine), -EBUSY);
	/* It may be ended meanwhile. */
	must_eq(backed_set_run(&b, 0), 0);
	backed_untake(&b, block, 32);
	backed_untake(&b, second, 16);
	must_eq(backed_reserve(&b, &mine), 0);
	backed_destroy(&b);
}

/* A late block whose reader has gone is found by who discards, too. */
static void a_block_that_is_read_is_not_taken(void **state)
{
	struct backed b;
	u64 at = 0, block, n;

	must_eq(backed_init(&b, 8), 0);
	must_eq(backed_set_run(&b, 2), 0);
	must_eq(backed_reserve(&b, &block), 0);
	must_eq(block, 0);
	host_a64_add(&b.in_hand, ~(u64)0);
	backed_hold(&b, block);
	backed_release(&b, &block, 1);
	backed_take(&b, &at, 2, &block, &n);
	must_eq(n, 2);
	must_eq(block, 2);
	backed_untake(&b, block, n);
	backed_drop(&b, 0);
	at = 0;
	backed_take(&b, &at, 2, &block, &n);
	must_eq(n, 2);
	must_eq(block, 0);
	backed_untake(&b, block, n);
	backed_destroy(&b);
}

/*
 * However large runs are, one hold of the lock looks at so many words, and at those of a run more,
 * which it looks at and takes.
 */
static void a_look_for_runs_is_bounded(void **state)
{
	static const u64 runs[] = { 64, 1024, 16384 };
	const u64 blocks = 1 << 18;
	u64 at, before, block, n, i;
	struct backed b;

	for (size_t k = 0; k < ARRAY_LEN(runs); k++) {
		must_eq(backed_init(&b, blocks), 0);
		must_eq(backed_set_run(&b, runs[k]), 0);
		/* Runs of which only the last block is not free: all of them is looked at. */
		for (i = 0; i < blocks; i++)
			must_eq(backed_reserve(&b, &block), 0);
		for (i = 0; i < blocks; i++)
			if ((i + 1) % runs[k])
				backed_unreserve(&b, i);
		for (at = 0; at < blocks;) {
			before = at;
			backed_take(&b, &at, 64, &block, &n);
			must_eq(at > before, true);
			must_eq((at - before) / 64 <= BACKED_RUN_WORDS + runs[k] / 64, true);
			must_eq(n, 0);
		}
		backed_destroy(&b);
		/* And all free: what is taken has been looked at, too. */
		must_eq(backed_init(&b, blocks), 0);
		must_eq(backed_set_run(&b, runs[k]), 0);
		at = 0;
		must_eq(backed_take(&b, &at, blocks, &block, &n), true);
		must_eq(n >= runs[k], true);
		must_eq(2 * (n / 64) <= BACKED_RUN_WORDS + 2 * (runs[k] / 64 + 1), true);
		backed_destroy(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_that_are_free_and_stale_are_taken_and_no_others),
		cmocka_unit_test(half_of_the_free_blocks_stay_and_who_finds_none_waits),
		cmocka_unit_test(a_block_that_is_read_is_not_taken),
		cmocka_unit_test(a_look_for_runs_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
