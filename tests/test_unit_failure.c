// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unit_failure.c - pages that are compressed together: no memory, codecs that fail, the check.
 */
#include "unit_rig.h"

/* ---- failures ---- */

CASE(at_each_page_that_is_refused_nothing_changes)
{
	unsigned int failures = 0, n;
	int err = -EDQUOT;

	for (n = 0; err; n++) {
		struct store *s = open_units(&codec_lz4, 16, 0, 0);
		u64 objects;

		must_eq(put_unit(s, 0, 4), 0);
		s->pool.limit = (pool_pages(&s->pool) + n) << PAGE_SHIFT;
		must_hold(pool_check(&s->pool, &objects));
		err = put_unit(s, 512, 6);
		if (err) {
			u64 now;

			must_eq(err, -EDQUOT);
			must_hold(pool_check(&s->pool, &now));
			must_eq(now, objects);
			failures++;
		}
		must_have_all(s);
		must_hold(store_check(s));
		s->pool.limit = 0;
		must_eq(put_unit(s, 512, 10), 0);
		must_have_all(s);
		rig_close();
	}
	must(failures > 2);
}

CASE(at_the_limit_a_unit_is_refused)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 8 * PAGE_SIZE);
	int err = 0;
	u64 i;

	for (i = 0; i < SLOTS && !err; i += 4)
		err = put_unit(s, i, 2);
	must_eq(err, -EDQUOT);
	must_have_all(s);
	must_hold(store_check(s));
	drop(s, 0);
}

/* As many allocations as there are left to refuse. */
static unsigned int refuse;

static bool refused(void)
{
	return refuse && refuse--;
}

/* What copy_whole() has the first time, and then other pages, or the same. */
static unsigned int gathered;
static u64 changes_to;

static void gather_changing(void *arg, void *to)
{
	bool changed = gathered++ == 1;

	for (unsigned int k = 0; changed && k < units.pages; k++)
		page_of(whole + k * PAGE_SIZE, k, changes_to);
	copy_whole(arg, to);
}

CASE(a_unit_that_waits_for_room_is_compressed_again)
{
	unsigned int waited = 0, changed = 0;

	for (unsigned int way = 0; way < 16; way++) {
		struct store *s = open_units(&codec_lz4, 16, 0, 0);
		u64 word, now;
		int err;

		for (unsigned int k = 0; k < 16; k++)
			page_of(whole + k * PAGE_SIZE, k, 6);
		/* The words are there. */
		must_eq(put_unit(s, 16, 5), 0);
		for (unsigned int k = 0; k < 16; k++)
			page_of(whole + k * PAGE_SIZE, k, 6);
		changes_to = way % 2 ? 6 : 1;
		gathered = 0;
		pcp_drain(&rig.source.pcp);
		refuse = way / 2;
		host_user_fail = refused;
		err = unit_make(s, 0, gather_changing, whole, NUMA_NO_NODE, HOST_MAY_WAIT, &word);
		host_user_fail = NULL;
		waited += gathered > 1;
		changed += err == -EAGAIN;
		must(!err || err == -ENOMEM ||
		     (err == -EAGAIN && gathered == 2 && changes_to == 1));
		for (unsigned int k = 0; k < 16 && !err; k++) {
			unit_put(s, k, word);
			version[k] = gathered > 1 ? changes_to : 6;
		}
		must_have_all(s);
		must_hold(pool_check(&s->pool, &now));
		rig_close();
	}
	must(waited > 0);
	must(changed > 0);
}

CASE(without_an_instance_pages_stay_alone)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);

	must_eq(put_unit(s, 0, 4), 0);
	units.most = 1;
	must_eq(put_unit(s, 4, 4), -ENOSPC);
	must_have_all(s);
	for (u64 i = 0; i < 4; i++)
		drop(s, i);
	/* A dead one is in its CPU's batch, and may not be another CPU's. */
	units.most = SLOTS / 4;
	must_eq(put_unit(s, 4, 4), 0);
	must_have_all(s);
}

/* A codec that answers what it may not, or cannot read what it wrote. */
static int answer;

static int odd_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	int bytes = codec_lz4.compress(ctx, src, n, dst, cap);

	return answer > 0 ? (int)cap + answer : answer < 0 ? answer + 1000 : bytes;
}

static int odd_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return answer ? -EINVAL : codec_lz4.decompress(ctx, src, n, dst, cap);
}

CASE(a_codec_that_fails_costs_one_unit)
{
	static struct codec_ops codec;
	const struct { int answer, err; } odd[] = {
		{ 1, -EIO }, { -1000, -EIO }, { -1000 - ENOMEM, -ENOMEM }, { -1000 - EINVAL, -EIO },
		{ -1000 - ENOSPC, -EAGAIN },
	};
	struct store *s;

	codec = codec_lz4;
	codec.compress = odd_compress;
	codec.decompress = odd_decompress;
	codec.decompress_part = NULL;
	s = open_units(&codec, 4, 0, 0);
	must_eq(put_unit(s, 0, 4), 0);
	for (unsigned int k = 0; k < ARRAY_LEN(odd); k++) {
		answer = odd[k].answer;
		must_eq(put_unit(s, 4, 4), odd[k].err);
		answer = 0;
		must_hold(store_check(s));
		must_have_all(s);
	}
	/* Another unit's pages are in the stream. */
	for (u64 k = 0; k < s->streams[0]->n; k++)
		s->streams[0]->stream[k].unit_is = 0;
	answer = 1;
	memset(got, 1, PAGE_SIZE);
	must_eq(store_read(s, 1, got), -EIO);
	must(!got[0] && !memcmp(got, got + 1, PAGE_SIZE - 1));
	memset(whole, 1, MOST);
	must(!unit_read_whole(s, 0, whole));
	must(!whole[0] && !memcmp(whole, whole + 1, 4 * PAGE_SIZE - 1));
	/* What does not come back is not taken out. */
	drop(s, 2);
	units_tidy(s);
	answer = 0;
	must_have_all(s);
	must_eq(stats(s).pages, 3);
}

CASE(a_store_without_memory_for_units_has_none)
{
	const struct store_config cfg = {
		.codec[0] = { .ops = &codec_lz4, .level = codec_lz4.default_level },
		.slots = SLOTS, .chain = 8,
		.unit_pages = 4,
	};
	struct store *s = rig_make(&cfg);

	host_user_fail = always;
	must_eq(store_set_units(s, &units, 4), -ENOMEM);
	host_user_fail = NULL;
	must_eq(store_set_units(s, &units, 4), 0);
}

/* What the check says with another word in a place; that is put back. */
static const char *said_of(struct store *s, u64 at, u64 word)
{
	u64 was = host_a64_read(store_slot(s, at));
	const char *said;

	host_a64_set(store_slot(s, at), word);
	said = store_check(s);
	host_a64_set(store_slot(s, at), was);
	return said;
}

CASE(the_check_knows_what_a_piece_is)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	u64 piece, inst;

	must_eq(put_unit(s, 0, 5), 0);
	must_eq(put_unit(s, 4, 5), 0);
	piece = host_a64_read(store_slot(s, units.first + 1));
	inst = host_a64_read(store_slot(s, units.first));
	must_hold(store_check(s));
	/* Held, of another kind, after a gap, of a dead unit, another's, and none. */
	must(said_of(s, units.first + 1, piece + SLOT_READER) != NULL);
	must(said_of(s, units.first + 1, slot_make(SLOT_PAGE, slot_ref(piece))) != NULL);
	must(said_of(s, units.first + 1, 0) != NULL);
	must(said_of(s, units.first, inst & ~(u64)31) != NULL);
	must(said_of(s, units.first + 5, piece) != NULL);
	must(said_of(s, units.first + 1, slot_make(SLOT_PIECE, slot_ref(piece) ^ 1)) != NULL);
}

CASE(the_check_knows_what_a_unit_is)
{
	struct store *s = open_units(&codec_lz4, 4, 0, 0);
	host_a64 *slot, *inst;
	u64 was, inst_was;

	must_eq(put_unit(s, 0, 4), 0);
	slot = store_slot(s, 1);
	inst = store_slot(s, units.first);
	must_hold(store_check(s));
	was = host_a64_read(slot);
	host_a64_set(slot, 0);
	must(store_check(s) != NULL);
	host_a64_set(slot, was);
	host_a64_set(store_slot(s, 9), was);
	must(store_check(s) != NULL);
	host_a64_set(store_slot(s, 9), 0);
	inst_was = host_a64_read(inst);
	host_a64_set(inst, inst_was - 1);
	must(store_check(s) != NULL);
	host_a64_set(inst, inst_was + 32);
	must(store_check(s) != NULL);
	host_a64_set(inst, inst_was);
	was = host_a64_read(store_slot(s, units.first + 1));
	host_a64_set(store_slot(s, units.first + 1), 0);
	must(store_check(s) != NULL);
	host_a64_set(store_slot(s, units.first + 1), was);
}
