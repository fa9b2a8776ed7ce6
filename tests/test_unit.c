// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unit.c - pages that are compressed together: what slots name, and who lets go of it.
 */
#include "stay.h"
#include "unit_rig.h"

/* ---- one at a time ---- */

CASE(a_unit_is_read_by_pages_and_ends_with_its_last)
{
	static const unsigned int sizes[] = { 2, 4, 8, 16 };
	const struct codec_ops *codecs[] = { &codec_lz4, &codec_zstd };

	for (unsigned int c = 0; c < ARRAY_LEN(codecs); c++)
		for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++)
			for (u64 limit = 0; limit <= 1 << 20; limit += 1 << 20) {
				struct store *s = open_units(codecs[c], sizes[i], limit, 0);
				unsigned int n = sizes[i], k;

				must_eq(put_unit(s, 0, 4), 0);
				must_eq(put_unit(s, n, 2), 0);
				must_have_all(s);
				must_eq(stats(s).units, 2);
				must_eq(stats(s).pages, 2 * n);
				must_eq(stats(s).dead, 0);
				must_eq(store_count(s, CNT_ORIG_BYTES), 2 * n * PAGE_SIZE);
				must(store_count(s, CNT_COMPR_BYTES) < 2 * n * PAGE_SIZE);
				must_hold(store_check(s));
				for (k = 0; k < n - 1; k++)
					drop(s, k);
				must_have_all(s);
				must_eq(stats(s).units, 2);
				must_eq(stats(s).dead, n - 1);
				must_hold(store_check(s));
				drop(s, n - 1);
				must_eq(stats(s).units, 1);
				must_eq(stats(s).dead, 0);
				/* Its words wait with the CPU, for others. */
				must_eq(units.unused, 0);
				must_have_all(s);
				for (k = n; k < 2 * n; k++)
					drop(s, k);
				release_flush(&s->release);
				must_eq(pool_pages(&s->pool), 0);
				must_eq(stats(s).room, 0);
				rig_close();
			}
}

/* Or not at all, once a page of it is another's, or what is there does not decompress. */
CASE(a_unit_is_read_whole)
{
	const struct codec_ops *codecs[] = { &codec_lz4, &codec_zstd };

	for (unsigned int c = 0; c < ARRAY_LEN(codecs); c++) {
		struct store *s = open_units(codecs[c], 4, 0, 0);
		static unsigned char to[MOST];

		/* Of one piece, and of several. */
		for (u64 v = 4; v >= 2; v -= 2) {
			must_eq(put_unit(s, 4, v), 0);
			mark_all_idle(s);
			must(unit_read_whole(s, 4, to));
			must(!memcmp(to, whole, 4 * PAGE_SIZE));
			for (u64 k = 4; k < 8; k++)
				must(!(host_a64_read(store_slot(s, k)) & SLOT_IDLE));
		}
		must(!unit_read_whole(s, 0, to));
		put_page(s, 6, 3);
		memset(to, 0x77, sizeof(to));
		must(!unit_read_whole(s, 4, to));
		drop(s, 6);
		must(!unit_read_whole(s, 4, to));
		for (size_t k = 0; k < sizeof(to); k++)
			must_eq(to[k], 0x77);
		drop(s, 4);
		must(!unit_read_whole(s, 4, to));
		must_have_all(s);
		rig_close();
	}
}

static size_t unpacked;                 /* bytes, by counting_ */

static int counting_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	unpacked += cap;
	return codec_lz4.decompress(ctx, src, n, dst, cap);
}

static int counting_part(void *ctx, const void *src, size_t n, void *dst, size_t part, size_t cap)
{
	unpacked += part;
	memset((char *)dst + part, 0x77, cap - part);
	return codec_lz4.decompress_part(ctx, src, n, dst, part, cap);
}

CASE(a_single_read_unpacks_no_more_than_it_takes)
{
	/* Slots of units of 4, and the pages that a read of each unpacks. */
	static const struct { u64 slot; unsigned int pages; } reads[] = {
		{ 2, 3 }, { 0, 0 }, { 3, 4 }, { 1, 0 },         /* more of a unit: all of it */
		{ 8, 1 }, { 9, 4 }, { 10, 0 }, { 11, 0 },       /* in order, */
		{ 12, 4 }, { 13, 0 }, { 14, 0 }, { 15, 0 },     /* the next unit, too */
		{ 5, 2 }, { 1, 2 }, { 7, 4 }, { 4, 0 },         /* in no order */
	};
	cpu_set_t cpus = stay_on_this_cpu();
	static struct codec_ops counting;
	struct store *s;

	counting = codec_lz4;
	counting.decompress = counting_decompress;
	counting.decompress_part = counting_part;
	s = open_units(&counting, 4, 0, 0);
	for (u64 i = 0; i < 16; i += 4)
		must_eq(put_unit(s, i, 4), 0);
	for (unsigned int k = 0; k < ARRAY_LEN(reads); k++) {
		unpacked = 0;
		must_have(s, reads[k].slot);
		must_eq(unpacked, reads[k].pages * PAGE_SIZE);
	}
	rig_close();
	must_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

CASE(a_write_takes_the_place_of_pages_and_pages_of_a_unit)
{
	struct store *s = open_units(&codec_lz4, 4, 1 << 20, 0);

	put_page(s, 4, 1);
	put_page(s, 6, 3);
	must_eq(put_unit(s, 4, 5), 0);
	must_have_all(s);
	put_page(s, 5, 9);
	must_have_all(s);
	must_eq(stats(s).dead, 1);
	must_eq(put_unit(s, 4, 6), 0);
	must_have_all(s);
	must_eq(stats(s).units, 1);
	must_eq(put_unit(s, 4, 8), 0);
	must_eq(put_unit(s, 0, 8), 0);
	must_have_all(s);
	must_eq(stats(s).units, 2);
	must_eq(stats(s).pages, 8);
}

CASE(what_does_not_compress_together_is_refused_and_changes_nothing)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);

	must_eq(put_unit(s, 8, 1), 0);
	must_eq(put_unit(s, 8, 3), -EAGAIN);
	must_have_all(s);
	must_eq(stats(s).units, 1);
}

static size_t filled, packed;

static int filling_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	packed = (size_t)codec_lz4.compress(ctx, src, n, dst, cap);
	memset((char *)dst + packed, 0, filled - packed);
	return (int)filled;
}

static int filling_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return codec_lz4.decompress(ctx, src, packed, dst, cap);
}

static unsigned int pieces(struct store *s)
{
	unsigned int n = 0;

	for (u64 i = 0; i < (u64)units.fresh << units.shift; i++)
		n += slot_type(host_a64_read(store_slot(s, units.first + i))) == SLOT_PIECE;
	return n;
}

CASE(as_many_bytes_as_pieces_hold_take_no_piece_more)
{
	static struct codec_ops codec;
	struct store *s;

	codec = codec_lz4;
	codec.compress = filling_compress;
	codec.decompress = filling_decompress;
	codec.decompress_part = NULL;
	s = open_units(&codec, 4, 0, 0);
	for (size_t n = 1; n < 4; n++) {
		filled = n * pool_max_small(&s->pool);
		must_eq(put_unit(s, 4, 4), 0);
		must_eq(pieces(s), n);
		must_have_all(s);
		must_hold(store_check(s));
	}
}

CASE(a_disk_that_ends_within_a_unit_has_none_there)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = 6, .chain = 4,
		.unit_pages = 4,
	};
	struct store *s = rig_make(&cfg);

	must_eq(store_set_units(s, &units, 4), 0);
	must_eq(put_unit(s, 0, 1), 0);
	must_eq(put_unit(s, 4, 1), -EAGAIN);
}

/* Keeps others from stream i, or from all but that. */
__no_context_analysis
static void lock_streams(struct streams *t, unsigned int i, bool one)
{
	for (unsigned int k = 0; k < t->n; k++)
		if ((k == i) == one)
			mutex_lock(&t->stream[k].lock);
}

__no_context_analysis
static void unlock_streams(struct streams *t, unsigned int i, bool one)
{
	for (unsigned int k = 0; k < t->n; k++)
		if ((k == i) == one)
			mutex_unlock(&t->stream[k].lock);
}

/*
 * What a stream unpacked before is not what the same word means now: the words of a unit are used
 * again, and say the same, as if as many units as there are tags had been made meanwhile.
 */
CASE(a_tag_that_comes_again_is_another_unit)
{
	struct store *s = open_units(&codec_lz4, 2, 0, 0);
	u64 first, tag, inst, made, tags = 1 << 14;
	struct streams *t = s->streams[0];
	unsigned int again = 0, had = 0;
	host_a64 *word;

	must_eq(put_unit(s, 0, 4), 0);
	must_have(s, 0);
	made = host_a64_read(&units.made);
	first = host_a64_read(store_slot(s, 0)) & SLOT_VALUE;
	word = store_slot(s, units.first + 2 * (first & 0x7fffffff));
	tag = first >> 31;
	while (t->stream[had].unit_is != first + 1)
		must(++had < t->n);
	/* Others write; where there is but one stream, what it has goes with the write. */
	for (u64 v = 8; v < 1000; v += 4) {
		drop(s, 0);
		drop(s, 1);
		inst = host_a64_read(word) & ~((tags - 1) << 19);
		host_a64_set(word, inst | ((tag - 1) & (tags - 1)) << 19);
		host_a64_set(&units.made, made + tags - 1);
		lock_streams(t, had, t->n > 1);
		must_eq(put_unit(s, 0, v), 0);
		unlock_streams(t, had, t->n > 1);
		if ((host_a64_read(store_slot(s, 0)) & SLOT_VALUE) != first)
			continue;
		again++;
		lock_streams(t, had, false);
		must_have(s, 0);
		unlock_streams(t, had, false);
		/* The first one is in its way no more. */
		break;
	}
	must(again > 0);
	must_have(s, 1);
}

CASE(pages_of_one_word_take_no_memory)
{
	struct store *s = open_units(&codec_lz4, 16, 0, 0);
	u64 word;

	memset(whole, 0, sizeof(whole));
	must_eq(unit_make(s, 0, copy_whole, whole, NUMA_NO_NODE, 0, &word), -EAGAIN);
	page_of(whole, 0, 4);
	must_eq(unit_make(s, 0, copy_whole, whole, NUMA_NO_NODE, 0, &word), -EAGAIN);
	must_eq(pool_pages(&s->pool), 0);
}

static void scribble(void *arg, void *to)
{
	memcpy(to, arg, (size_t)units.pages * PAGE_SIZE);
	/* Who writes goes on with the memory. */
	memset(arg, 0x5a, PAGE_SIZE);
}

CASE(a_page_that_changes_spoils_no_other)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	u64 word;

	/* So that there is a page at hand, and one look at the memory is enough. */
	must_eq(put_unit(s, 4, 4), 0);
	for (unsigned int k = 0; k < 4; k++)
		page_of(whole + k * PAGE_SIZE, k, 4);
	must_eq(unit_make(s, 0, scribble, whole, NUMA_NO_NODE, 0, &word), 0);
	for (unsigned int k = 0; k < 4; k++) {
		unit_put(s, k, word);
		version[k] = 4;
	}
	must_have_all(s);
}

CASE(a_small_disk_goes_on_making_units)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = 128, .chain = 4,
		.unit_pages = 16,
	};
	struct store *s = rig_make(&cfg);

	must_eq(store_set_units(s, &units, 16), 0);
	for (unsigned int n = 0; n < 1000; n++)
		must_eq(put_unit(s, n % 8 * 16, 4), 0);
}

/* Keys have 32 bits: a disk that needs nearly all of them has no units, or few. */
CASE(the_largest_disks_have_what_numbers_are_left)
{
	static const u64 sizes[] = { 0xffffffff, 0xfffffff1, 0xffffff00, 0x55555555 };

	for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++) {
		const struct store_config cfg = {
			.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
			.slots = sizes[i], .chain = 4, .unit_pages = 16,
		};
		struct store *s = rig_make(&cfg);
		int err;

		must_eq(store_set_units(s, &units, 16), 0);
		must_be_at_most(s->words, 0xffffffff);
		err = put_unit(s, 0, 4);
		must_eq(err, units.most ? 0 : -ENOSPC);
		must_hold(store_check(s));
		if (!err)
			must_have(s, 3);
		rig_close();
	}
}

/* Instances that died on one CPU are used again, all but a batch of them. */
CASE(words_of_dead_units_are_used_again)
{
	cpu_set_t cpus = stay_on_this_cpu();
	struct store *s = open_units(&codec_lz4, 2, 0, 0);
	u32 fresh;
	u64 i;

	for (i = 0; i < SLOTS; i += 2)
		must_eq(put_unit(s, i, 1), 0);
	for (i = 0; i < SLOTS; i++)
		drop(s, i);
	fresh = units.fresh;
	must_eq(fresh, SLOTS / 2);
	for (i = 0; i < SLOTS - 2 * units.batch; i += 2)
		must_eq(put_unit(s, i, 1), 0);
	must_eq(units.fresh, fresh);
	must_have_all(s);
	rig_close();
	must_eq(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

CASE(compaction_moves_pieces)
{
	struct store *s = open_units(&codec_zstd, 8, 0, 0);
	u64 was;

	for (u64 i = 0; i < SLOTS; i += 8)
		must_eq(put_unit(s, i, 4 + i), 0);
	for (u64 i = 0; i < SLOTS; i++)
		if (i / 8 % 4)
			drop(s, i);
	was = pool_pages(&s->pool);
	must(store_compact(s) > 0);
	must(pool_pages(&s->pool) < was);
	must_have_all(s);
}

/*
 * The word of unit 2^24 and up, of two live pages, looks as one of an object does; who makes an
 * object may find such a number where he did not write its key yet.
 */
CASE(compaction_takes_no_instance_for_a_slot)
{
	const u64 first = (u64)2 << 24;
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = first + 1024, .chain = 16, .unit_pages = 2,
	};
	struct store *s = open_units_of(&cfg);
	u64 word, before, ref[2];
	unsigned int k;

	for (k = 0; k < 2; k++)
		page_of(whole + k * PAGE_SIZE, first + k, 4);
	must_eq(unit_make(s, first, copy_whole, whole, ANYHOW, &word), 0);
	for (k = 0; k < 2; k++)
		unit_put(s, first + k, word);
	before = host_a64_read(store_slot(s, units.first));
	must(slot_has_object(before));
	must_eq(s->pool.owner.look(s, (u32)units.first), 0);
	must(s->pool.owner.look(s, (u32)units.first + 1) != 0);
	for (k = 0; k < 2; k++)
		must_eq(pool_make(&s->pool, 8, "12345678", (u32)units.first, ANYHOW, &ref[k]), 0);
	pool_compact(&s->pool);
	must_eq(host_a64_read(store_slot(s, units.first)), before);
	pool_free_bulk(&s->pool, ref, NULL, 2);
	for (k = 0; k < 2; k++)
		must_eq(store_free(s, first + k), 0);
	must_eq(stats(s).units, 0);
}

CASE(marks_and_writeback_take_pages_of_units)
{
	struct store *s = open_units_backed(&codec_lz4, 1 << 20);
	struct chosen c = { { 0 } };
	u64 at = 0, block;
	int size;

	must_eq(put_unit(s, 0, 4), 0);
	must_eq(put_unit(s, 4, 2), 0);
	mark_all_idle(s);
	must(host_a64_read(store_slot(s, 1)) & SLOT_IDLE);
	must_have(s, 1);
	must(!(host_a64_read(store_slot(s, 1)) & SLOT_IDLE));
	must_hold(tier_check(s));
	at = 0;
	while (store_choose_piece(s, &at, SLOTS, CHOOSE_IDLE, &c))
		;
	for (at = 0, size = 0; size < CHOOSE_SIZES; size++)
		at += c.n[size];
	must_eq(at, 7);
	/* Slot 2 is read meanwhile, and stays. */
	must_have(s, 2);
	must_eq(store_copy_out(s, 2, got, false), -ENOENT);
	for (u64 i = 0; i < 8; i++) {
		if (i == 1 || i == 2)
			continue;
		must_eq(store_copy_out(s, i, got, i % 2), 0);
		page_of(want, i, version[i]);
		must(!memcmp(got, want, PAGE_SIZE));
		must_eq(store_reserve_block(s, &block), 0);
		must(store_to_backed(s, i, block));
		/* None of them was too large to be compressed, and the block has all of it. */
		must_eq(slot_backed_size(host_a64_read(store_slot(s, i))), 0);
		must_eq(slot_backed_bytes(host_a64_read(store_slot(s, i))), PAGE_SIZE);
		must_eq(store_read(s, i, got), STORE_BACKED);
	}
	must_eq(stats(s).units, 1);
	must_eq(stats(s).pages, 2);
	must_have(s, 1);
	must_have(s, 2);
}
