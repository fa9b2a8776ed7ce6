// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_values.c - values under ids and keys: what was put is got. */
#include "values_rig.h"

CASE(each_field_of_the_config_is_checked)
{
	struct ebb_values_config good, c;
	struct ebb_values *v;

	ebb_values_config_init(NULL);
	ebb_values_config_init(&good);
	must_eq(ebb_values_open(NULL, &good), -EINVAL);
	must_eq(ebb_values_open(&v, NULL), -EINVAL);
#define REFUSED(field, value, error)                                                          \
	do {                                                                                  \
		c = good;                                                                     \
		c.field = value;                                                              \
		v = (void *)&c;                                                               \
		must_eq(ebb_values_open(&v, &c), error);                                      \
		must(!v);                                                                     \
	} while (0)
	REFUSED(struct_size, 0, -EINVAL);
	REFUSED(struct_size, sizeof(good) - 1, -EINVAL);
	REFUSED(codec, "lz5", -ENOENT);
	REFUSED(level, 0, -EINVAL);
	REFUSED(chain_size, 1, -EINVAL);
	REFUSED(slots, 65535, -EINVAL);
	REFUSED(slots, (uint64_t)1 << 32, -EINVAL);
	REFUSED(flags, 64, -EINVAL);
	REFUSED(unit_bytes, 8192, -EINVAL);
	REFUSED(unit_bytes, 16384 + 4096, -EINVAL);
	REFUSED(unit_bytes, 131072, -EINVAL);
#undef REFUSED
}

CASE(arguments_are_checked)
{
	struct ebb_values *v = open_values(NULL), *none = NULL;
	struct ebb_values_stat stat = { .struct_size = sizeof(stat) }, no_size = { 0 };
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	struct ebb_value_reader *reader;
	char buf[EBB_VALUES_KEY_MAX + 1] = "";
	uint64_t id, size;
	size_t n;

	must_eq(ebb_values_add(none, buf, 1, &id), -EINVAL);
	must_eq(ebb_values_put(none, 1, buf, 1, 0), -EINVAL);
	must_eq(ebb_values_get(none, 1, buf, 1, &n), -EINVAL);
	must_eq(ebb_values_size(none, 1, &size), -EINVAL);
	must_eq(ebb_values_delete(none, 1), -EINVAL);
	must_eq(ebb_values_put_key(none, "a", 1, buf, 1, 0), -EINVAL);
	must_eq(ebb_values_get_key(none, "a", 1, buf, 1, &n), -EINVAL);
	must_eq(ebb_values_size_key(none, "a", 1, &size), -EINVAL);
	must_eq(ebb_values_delete_key(none, "a", 1), -EINVAL);
	must_eq(ebb_values_read_open(none, 1, &reader), -EINVAL);
	must_eq(ebb_values_read_open_key(none, "a", 1, &reader), -EINVAL);
	must_eq(ebb_values_next(none, &cursor, &entry, NULL), -EINVAL);
	must_eq(ebb_values_stat(none, &stat), -EINVAL);
	must_eq(ebb_values_set_mem_limit(none, 0), -EINVAL);
	must_eq(ebb_values_check(none, buf, sizeof(buf)), -EINVAL);
	must(!ebb_values_store(none));
	ebb_values_close(NULL);
	ebb_value_reader_close(NULL);
	must_eq(ebb_value_reader_size(NULL), 0);
	must_eq(ebb_value_read(NULL, 0, buf, 1, &n), -EINVAL);

	must_eq(ebb_values_add(v, NULL, 1, &id), -EINVAL);
	must_eq(ebb_values_add(v, buf, 1, NULL), -EINVAL);
	must_eq(ebb_values_put(v, 1, NULL, 1, 0), -EINVAL);
	must_eq(ebb_values_put(v, 1, buf, 1, EBB_PUT_NEW | EBB_PUT_REPLACE), -EINVAL);
	must_eq(ebb_values_put(v, 1, buf, 1, 4), -EINVAL);
	must_eq(ebb_values_put(v, 1, buf, EBB_VALUES_MAX + 1, 0), -EFBIG);
	must_eq(ebb_values_put_key(v, "", 0, buf, 1, 0), -EINVAL);
	must_eq(ebb_values_put_key(v, NULL, 1, buf, 1, 0), -EINVAL);
	must_eq(ebb_values_put_key(v, buf, sizeof(buf), buf, 1, 0), -EINVAL);
	must_eq(ebb_values_get(v, 1, buf, 1, &n), -ENOENT);
	must_eq(ebb_values_get(v, 1, buf, 1, NULL), -EINVAL);
	must_eq(ebb_values_get(v, 1, NULL, 1, &n), -EINVAL);
	must_eq(ebb_values_size(v, 1, NULL), -EINVAL);
	must_eq(ebb_values_delete(v, 1), -ENOENT);
	must_eq(ebb_values_read_open(v, 1, NULL), -EINVAL);
	must_eq(ebb_values_read_open(v, 1, &reader), -ENOENT);
	must(!reader);
	must_eq(ebb_values_stat(v, &no_size), -EINVAL);
	must_eq(ebb_values_next(v, NULL, &entry, NULL), -EINVAL);
	must_eq(ebb_values_next(v, &cursor, NULL, NULL), -EINVAL);
	must_eq(ebb_values_next(v, &cursor, &entry, NULL), -ENOENT);
	must_eq(ebb_values_next(v, &cursor, &entry, NULL), -ENOENT);
}

CASE(flags_say_what_a_put_may_do)
{
	struct ebb_values *v = open_values(NULL);
	static unsigned char text[100000];
	uint64_t id;
	char is[8];
	size_t n;

	fill(text, sizeof(text), 5);
	must_eq(ebb_values_put(v, 7, "one", 3, EBB_PUT_REPLACE), -ENOENT);
	must_eq(ebb_values_put(v, 7, "one", 3, EBB_PUT_NEW), 0);
	must_eq(ebb_values_put(v, 7, "two", 3, EBB_PUT_NEW), -EEXIST);
	must_eq(ebb_values_get(v, 7, is, 8, &n), 0);
	must(n == 3 && !memcmp(is, "one", 3));
	must_eq(ebb_values_put(v, 7, "three", 5, EBB_PUT_REPLACE), 0);
	must_eq(ebb_values_get(v, 7, is, 4, &n), -ENOSPC);
	must_eq(n, 5);
	/* What is refused leaves nothing behind. */
	must_eq(ebb_values_put(v, 7, text, sizeof(text), EBB_PUT_NEW), -EEXIST);
	must_eq(ebb_values_put(v, 8, text, sizeof(text), EBB_PUT_REPLACE), -ENOENT);
	values_are_sound(v);
	/* An id is no key, whatever its bytes. */
	id = 7;
	must_eq(ebb_values_get_key(v, &id, sizeof(id), is, 8, &n), -ENOENT);
	must_eq(ebb_values_put_key(v, &id, sizeof(id), "key", 3, 0), 0);
	must_eq(ebb_values_get(v, 7, is, 8, &n), 0);
	must_eq(n, 5);
	/* Those that the caller chose are passed over. */
	must_eq(ebb_values_put(v, 1, "", 0, 0), 0);
	must_eq(ebb_values_put(v, 2, NULL, 0, 0), 0);
	must_eq(ebb_values_add(v, "x", 1, &id), 0);
	must_eq(id, 3);
	must_eq(ebb_values_get(v, 1, NULL, 0, &n), 0);
	must_eq(n, 0);
	must_eq(stat_of(v).values, 5);
	must_eq(stat_of(v).value_bytes, 9);
}

/* ---- random operations ---- */

static void read_and_compare(struct ebb_values *v, struct rng *r, uint32_t i)
{
	struct ebb_value_reader *reader;
	int err = open_name(v, i, &reader);

	must_eq(err, want[i].there ? 0 : -ENOENT);
	if (err)
		return;
	must_eq(ebb_value_reader_size(reader), want[i].bytes);
	fill(value, want[i].bytes, want[i].seed);
	for (unsigned int k = 0; k < 5; k++) {
		size_t off = rng_below(r, want[i].bytes + 10), n = rng_below(r, LONGEST), n_got;
		size_t left = off < want[i].bytes ? want[i].bytes - off : 0;

		must_eq(ebb_value_read(reader, off, got, n, &n_got), 0);
		must_eq(n_got, n < left ? n : left);
		must(!memcmp(got, value + off, n_got));
	}
	ebb_value_reader_close(reader);
}

static void random_operations(struct ebb_values *v, struct rng *r, unsigned long steps)
{
	memset(want, 0, sizeof(want));
	for (unsigned long step = 0; step < steps; step++) {
		uint32_t i = (uint32_t)rng_below(r, NAMES);
		/* The table grows, shrinks and grows. */
		bool less = step * 4 / steps % 2;

		switch (rng_below(r, 8)) {
		case 0:
			get_and_compare(v, i);
			break;
		case 1:
			read_and_compare(v, r, i);
			break;
		case 2:
		case 3:
			if (!less)
				break;
			/* fall through */
		case 4:
			must_eq(delete_name(v, i), want[i].there ? 0 : -ENOENT);
			want[i].there = false;
			break;
		default:
			if (less && rng_below(r, 4))
				break;
			want[i].bytes = random_size(r);
			want[i].seed = rng_next(r);
			want[i].there = true;
			fill(value, want[i].bytes, want[i].seed);
			must_eq(put_name(v, i, value, want[i].bytes), 0);
		}
		if (step % (steps / 4 + 1) == 0) {
			values_are_sound(v);
			iterate_and_compare(v);
		}
	}
	for (uint32_t i = 0; i < NAMES; i++)
		get_and_compare(v, i);
	values_are_sound(v);
}

CASE(random_operations_agree_with_a_plain_table)
{
	struct rng r = { use_seed(0x0729) };

	for (unsigned int c = 0; ebb_codec_name(c); c++) {
		struct ebb_values *v = open_values(ebb_codec_name(c));

		random_operations(v, &r, scaled(20000));
		for (uint32_t i = 0; i < NAMES; i++)
			if (want[i].there)
				must_eq(delete_name(v, i), 0);
		values_are_sound(v);
		must_eq(stat_of(v).values, 0);
		must_eq(stat_of(v).object_bytes, 0);
		close_values(v);
	}
}

/* As many buckets as at the begin, and then as many as there should be. */
CASE(a_bucket_has_room_for_more_than_an_object)
{
	struct rng r = { use_seed(0x0730) };
	struct ebb_values *v = open_values(NULL);

	mutex_lock(&v->growing);
	random_operations(v, &r, scaled(10000));
	must_eq(stat_of(v).buckets, VALUES_STRIPES);
	iterate_and_compare(v);
	mutex_unlock(&v->growing);
	for (uint32_t i = 0; i < NAMES; i++) {
		want[i].bytes = 10;
		want[i].seed = i;
		want[i].there = true;
		fill(value, 10, i);
		must_eq(put_name(v, i, value, 10), 0);
	}
	must(stat_of(v).buckets > 2 * VALUES_STRIPES);
	for (uint32_t i = 0; i < NAMES; i++)
		get_and_compare(v, i);
	iterate_and_compare(v);
}

CASE(a_value_of_a_gigabyte_is_kept)
{
	const size_t bytes = (size_t)scaled(1024) << 20;
	struct ebb_value_reader *reader;
	struct ebb_values *v = open_values(NULL);
	unsigned char *big = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t n, at;

	must(big != MAP_FAILED);
	for (at = 0; at + 8 < bytes; at += 65536)
		memcpy(big + at, &at, sizeof(at));
	must_eq(ebb_values_put(v, 1, big, bytes, 0), 0);
	must_eq(munmap(big, bytes), 0);
	must_eq(ebb_values_read_open(v, 1, &reader), 0);
	must_eq(ebb_values_delete(v, 1), 0);
	for (at = 0; at + 8 < bytes; at += 65536) {
		size_t says;

		must_eq(ebb_value_read(reader, at, &says, sizeof(says), &n), 0);
		must(n == sizeof(says) && says == at);
	}
	ebb_value_reader_close(reader);
	values_are_sound(v);
	must_eq(stat_of(v).object_bytes, 0);
}

CASE(a_reader_keeps_what_was_there_when_it_was_opened)
{
	static const size_t sizes[] = { 0, 100, 3000, 60000, 300000 };
	struct ebb_values *v = open_values(NULL);
	struct ebb_value_reader *one, *two;
	size_t n;

	for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++) {
		fill(value, sizes[i], 77);
		must_eq(ebb_values_put(v, 5, value, sizes[i], 0), 0);
		must_eq(ebb_values_read_open(v, 5, &one), 0);
		must_eq(ebb_values_read_open(v, 5, &two), 0);
		fill(got, 200000, 78);
		must_eq(ebb_values_put(v, 5, got, 200000, 0), 0);
		must_eq(ebb_values_delete(v, 5), 0);
		must_eq(ebb_value_read(one, 0, got, LONGEST, &n), 0);
		must(n == sizes[i] && !memcmp(got, value, n));
		ebb_value_reader_close(one);
		memset(got, 0, LONGEST);
		must_eq(ebb_value_read(two, 0, got, LONGEST, &n), 0);
		must(n == sizes[i] && !memcmp(got, value, n));
		ebb_value_reader_close(two);
		values_are_sound(v);
		must_eq(stat_of(v).object_bytes, 0);
	}
}

/* ---- a limit on memory ---- */

CASE(at_the_limit_nothing_is_lost_and_deletes_succeed)
{
	struct ebb_values *v = open_values(NULL);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	unsigned long failed = 0;

	memset(want, 0, sizeof(want));
	must_eq(ebb_values_set_mem_limit(v, 4 << 20), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		size_t n = i % 100 ? 2000 : 100000;
		int err;

		fill(value, n, i * 5);
		err = put_name(v, i, value, n);
		must(!err || err == -ENOMEM);
		failed += err != 0;
		want[i].there = !err;
		want[i].bytes = n;
		want[i].seed = i * 5;
	}
	must(failed > 100 && failed < NAMES - 100);
	must_eq(ebb_stat(ebb_values_store(v), &stat), 0);
	must_be_at_most(stat.mem_used_max, (4 << 20) + (256 << 10));
	values_are_sound(v);
	must_eq(ebb_values_set_mem_limit(v, 1), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		get_and_compare(v, i);
		if (i % 3)
			must_eq(delete_name(v, i), want[i].there ? 0 : -ENOENT);
		if (i % 3)
			want[i].there = false;
	}
	for (uint32_t i = 0; i < NAMES; i++)
		get_and_compare(v, i);
}

/* What was deleted a moment ago is held back: a put that needs its place gets it. */
static void what_was_deleted_makes_room(uint32_t flags)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct ebb_values_config cfg;
	struct ebb_values *v;
	uint64_t more;
	int err;

	ebb_values_config_init(&cfg);
	cfg.flags = flags;
	v = open_values_of(&cfg);

	fill(value, 100000, 0);
	for (unsigned long turn = 0; turn < scaled(20); turn++) {
		for (uint64_t id = 0; id < 100; id++)
			must_eq(ebb_values_put(v, id, value, 100000, 0), 0);
		must_eq(ebb_flush(ebb_values_store(v)), 0);
		must_eq(ebb_stat(ebb_values_store(v), &stat), 0);
		must_eq(ebb_values_set_mem_limit(v, stat.mem_used_total - 1), 0);
		/* Large zspages have holes for some more. */
		for (more = 100; !(err = ebb_values_put(v, more, value, 100000, 0)); more++)
			must(more < 150);
		must_eq(err, -ENOMEM);
		must_eq(ebb_values_delete(v, 7), 0);
		must_eq(ebb_values_put(v, more, value, 1000, 0), 0);
		must_eq(ebb_values_set_mem_limit(v, 0), 0);
		for (; more >= 100; more--)
			must_eq(ebb_values_delete(v, more), 0);
	}
	close_values(v);
}

CASE(at_the_limit_what_was_deleted_makes_room)
{
	what_was_deleted_makes_room(0);
	what_was_deleted_makes_room(EBB_NO_COMPACT);
}

static u64 all_meta(struct ebb_values *v)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_stat(ebb_values_store(v), &stat), 0);
	return stat.meta_bytes;
}

/* The slots of buckets and of blocks: the tables of both become smaller, without a call. */
CASE(tables_become_smaller_after_deletes)
{
	/* A table of buckets of some 14 pages, and one of blocks of 40. */
	const u64 small = 14 * HOST_USER_PART * 7, blocks = 40 * HOST_USER_PART;
	struct ebb_values *v = open_values(NULL);
	u64 empty, full, id;
	size_t n;

	must_eq(ebb_set_release_limit(ebb_values_store(v), 0), 0);
	empty = all_meta(v);
	fill_random(value, sizeof(value) / 2, 9);
	for (id = 0; id < small; id++)
		must_eq(ebb_values_put(v, id, value + id % 100000, 80, 0), 0);
	for (id = 0; id < blocks; id++)
		must_eq(ebb_values_put(v, small + id, value + id % 100000, 600, 0), 0);
	full = all_meta(v);
	must(full > empty + 50 * PAGE_SIZE);
	/* All but one of each kind; those keep what they had. */
	for (id = 1; id < small; id++)
		must_eq(ebb_values_delete(v, id), 0);
	for (id = 1; id < blocks; id++)
		must_eq(ebb_values_delete(v, small + id), 0);
	must_become(all_meta(v) <= empty + (full - empty) / 8);
	must_eq(ebb_values_get(v, 0, got, sizeof(got), &n), 0);
	must(n == 80 && !memcmp(got, value, n));
	must_eq(ebb_values_get(v, small, got, sizeof(got), &n), 0);
	must(n == 600 && !memcmp(got, value, n));
	values_are_sound(v);
	/* They grow again. */
	for (id = 1; id < small; id++)
		must_eq(ebb_values_put(v, id, value + id % 100000, 80, 0), 0);
	for (id = 1; id < small; id++) {
		must_eq(ebb_values_get(v, id, got, sizeof(got), &n), 0);
		must(n == 80 && !memcmp(got, value + id % 100000, n));
	}
}

/* ---- pieces ---- */

CASE(a_hash_of_an_id_leads_back_to_it)
{
	struct rng r = { use_seed(1) };
	struct hash_secret s;

	for (unsigned int i = 0; i < 10000; i++) {
		u64 id = rng_next(&r) >> rng_below(&r, 64);

		s.k0 = rng_next(&r);
		s.k1 = rng_next(&r);
		must(hash_id_undo(&s, hash_id(&s, id)) == id);
		must(hash_reverse(hash_reverse(id)) == id);
		must_eq(hash_reverse(id) & 1, id >> 63);
	}
}

/* A cursor stands at a hash, and counts what has the same one. */
CASE(an_id_and_a_key_of_one_hash_are_both_named)
{
	struct ebb_values *v = open_values(NULL);
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	u64 id = hash_id_undo(&v->secret, hash_key(&v->secret, "key", 3));
	unsigned int keys = 0, ids = 0;
	char key[EBB_VALUES_KEY_MAX];

	must_eq(ebb_values_put(v, id, "of the id", 9, 0), 0);
	must_eq(ebb_values_put_key(v, "key", 3, "of the key", 10, 0), 0);
	while (!ebb_values_next(v, &cursor, &entry, key)) {
		must_eq(entry.bytes, entry.key_bytes ? 10 : 9);
		keys += entry.key_bytes == 3 && !memcmp(key, "key", 3);
		ids += !entry.key_bytes && entry.id == id;
		must(keys + ids <= 2);
	}
	must_eq(keys, 1);
	must_eq(ids, 1);
}

/* SipHash-1-3 of 0, 1, 2 ..., as its authors' program has it, with the key 0, 1, ... 15. */
CASE(keys_are_hashed_by_siphash_1_3)
{
	static const struct hash_secret s = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
	unsigned char in[16];

	for (unsigned int i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)i;
	must(hash_key(&s, in, 0) == 0xabac0158050fc4dc);
	must(hash_key(&s, in, 1) == 0xc9f49bf37d57ca93);
	must(hash_key(&s, in, 8) != hash_key(&s, in, 9));
}
