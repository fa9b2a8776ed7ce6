// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_values.c - values under ids and keys: what was put is got, whole, whatever goes on. */
#include "support.h"
#include "ebb.h"
#include "ebb_values.h"
#include "values.h"

#include <pthread.h>
#include <unistd.h>

static struct ebb_values *open_values(const char *codec)
{
	struct ebb_values_config cfg;
	struct ebb_values *v;

	ebb_values_config_init(&cfg);
	cfg.codec = codec;
	must_eq(ebb_values_open(&v, &cfg), 0);
	return v;
}

static void values_are_sound(struct ebb_values *v)
{
	char why[200];
	int err = ebb_values_check(v, why, sizeof(why));

	if (err)
		must_failed(__FILE__, __LINE__, why, err, 0);
}

static struct ebb_values_stat stat_of(struct ebb_values *v)
{
	struct ebb_values_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_values_stat(v, &stat), 0);
	return stat;
}

/* Text of a kind that seed says: it compresses, hardly, or not at all. */
static void fill(unsigned char *p, size_t n, uint64_t seed)
{
	static const char text[] = "{\"name\":\"compressed memory\",\"gives\":\"back\"},";
	struct rng r = { seed };
	size_t i, kind = seed % 5;

	for (i = 0; i < n; i++)
		p[i] = kind == 0 || (kind == 1 && i % 4 == 0) ? (unsigned char)rng_next(&r) :
		       (unsigned char)(text[(i + seed) % (sizeof(text) - 1)] + (seed >> 8) % 3);
}

static void each_field_of_the_config_is_checked(void **state)
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
	REFUSED(reserved, 1, -EINVAL);
#undef REFUSED
}

static void arguments_are_checked(void **state)
{
	struct ebb_values *v = open_values(NULL), *none[] = { NULL, (void *)(intptr_t)0 };
	struct ebb_values_stat stat = { .struct_size = sizeof(stat) }, no_size = { 0 };
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	struct ebb_value_reader *reader;
	char buf[EBB_VALUES_KEY_MAX + 1] = "";
	uint64_t id, size;
	size_t n;

	for (unsigned int i = 0; i < ARRAY_LEN(none); i++) {
		must_eq(ebb_values_add(none[i], buf, 1, &id), -EINVAL);
		must_eq(ebb_values_put(none[i], 1, buf, 1, 0), -EINVAL);
		must_eq(ebb_values_get(none[i], 1, buf, 1, &n), -EINVAL);
		must_eq(ebb_values_size(none[i], 1, &size), -EINVAL);
		must_eq(ebb_values_delete(none[i], 1), -EINVAL);
		must_eq(ebb_values_put_key(none[i], "a", 1, buf, 1, 0), -EINVAL);
		must_eq(ebb_values_get_key(none[i], "a", 1, buf, 1, &n), -EINVAL);
		must_eq(ebb_values_size_key(none[i], "a", 1, &size), -EINVAL);
		must_eq(ebb_values_delete_key(none[i], "a", 1), -EINVAL);
		must_eq(ebb_values_read_open(none[i], 1, &reader), -EINVAL);
		must_eq(ebb_values_read_open_key(none[i], "a", 1, &reader), -EINVAL);
		must_eq(ebb_values_next(none[i], &cursor, &entry, NULL), -EINVAL);
		must_eq(ebb_values_stat(none[i], &stat), -EINVAL);
		must_eq(ebb_values_set_mem_limit(none[i], 0), -EINVAL);
		must_eq(ebb_values_check(none[i], buf, sizeof(buf)), -EINVAL);
		must(!ebb_values_store(none[i]));
	}
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
	values_are_sound(v);
	ebb_values_close(v);
}

static void flags_say_what_a_put_may_do(void **state)
{
	struct ebb_values *v = open_values(NULL);
	uint64_t id;
	char got[8];
	size_t n;

	must_eq(ebb_values_put(v, 7, "one", 3, EBB_PUT_REPLACE), -ENOENT);
	must_eq(ebb_values_put(v, 7, "one", 3, EBB_PUT_NEW), 0);
	must_eq(ebb_values_put(v, 7, "two", 3, EBB_PUT_NEW), -EEXIST);
	must_eq(ebb_values_get(v, 7, got, 8, &n), 0);
	must(n == 3 && !memcmp(got, "one", 3));
	must_eq(ebb_values_put(v, 7, "three", 5, EBB_PUT_REPLACE), 0);
	must_eq(ebb_values_get(v, 7, got, 4, &n), -ENOSPC);
	must_eq(n, 5);
	/* An id is no key, whatever its bytes. */
	id = 7;
	must_eq(ebb_values_get_key(v, &id, sizeof(id), got, 8, &n), -ENOENT);
	must_eq(ebb_values_put_key(v, &id, sizeof(id), "key", 3, 0), 0);
	must_eq(ebb_values_get(v, 7, got, 8, &n), 0);
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
	values_are_sound(v);
	ebb_values_close(v);
}

/* ---- random operations ---- */

#define NAMES 3000u
#define LONGEST ((size_t)400000)

static unsigned char value[LONGEST], got[LONGEST];

static struct {
	bool there;
	uint64_t seed;
	size_t bytes;
} want[NAMES];

/* Names are ids, or keys of all lengths. */
static size_t key_of(uint32_t i, unsigned char *key)
{
	size_t n = 5 + (i % 7 ? i % 40 : i % 1000);

	memset(key, (int)(i % 251), n);
	memcpy(key, &i, sizeof(i));
	return n;
}

static int put_name(struct ebb_values *v, uint32_t i, const void *data, size_t bytes)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_put(v, i, data, bytes, 0);
	return ebb_values_put_key(v, key, key_of(i, key), data, bytes, 0);
}

static int get_name(struct ebb_values *v, uint32_t i, void *buf, size_t cap, size_t *bytes)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_get(v, i, buf, cap, bytes);
	return ebb_values_get_key(v, key, key_of(i, key), buf, cap, bytes);
}

static int size_name(struct ebb_values *v, uint32_t i, uint64_t *bytes)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_size(v, i, bytes);
	return ebb_values_size_key(v, key, key_of(i, key), bytes);
}

static int delete_name(struct ebb_values *v, uint32_t i)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	return i % 2 ? ebb_values_delete(v, i) : ebb_values_delete_key(v, key, key_of(i, key));
}

static int open_name(struct ebb_values *v, uint32_t i, struct ebb_value_reader **reader)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_read_open(v, i, reader);
	return ebb_values_read_open_key(v, key, key_of(i, key), reader);
}

static size_t random_size(struct rng *r)
{
	switch (rng_below(r, 40)) {
	case 0:
		return rng_below(r, LONGEST);
	case 1:
	case 2:
		return rng_below(r, 70000);
	case 3:
		return rng_below(r, 3) + 65535;
	case 4 ... 8:
		return rng_below(r, 9000);
	case 9:
		return 0;
	default:
		return rng_below(r, 700);
	}
}

static void get_and_compare(struct ebb_values *v, uint32_t i)
{
	uint64_t size;
	size_t n = 12345;
	int err = get_name(v, i, got, LONGEST, &n);

	must_eq(err, want[i].there ? 0 : -ENOENT);
	must_eq(size_name(v, i, &size), err);
	if (err)
		return;
	must_eq(n, want[i].bytes);
	must_eq(size, want[i].bytes);
	fill(value, n, want[i].seed);
	must(!memcmp(value, got, n));
}

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

/* Each name that is there comes once. */
static void iterate_and_compare(struct ebb_values *v)
{
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	unsigned char key[EBB_VALUES_KEY_MAX], mine[EBB_VALUES_KEY_MAX];
	struct ebb_values_cursor cursor = { 0 };
	static unsigned char seen[NAMES];
	unsigned long n = 0, there = 0;
	int err;

	memset(seen, 0, sizeof(seen));
	while (!(err = ebb_values_next(v, &cursor, &entry, key))) {
		uint32_t i = (uint32_t)entry.id;

		if (entry.key_bytes) {
			memcpy(&i, key, sizeof(i));
			must(i < NAMES && i % 2 == 0);
			must_eq(entry.key_bytes, key_of(i, mine));
			must(!memcmp(key, mine, entry.key_bytes));
		}
		must(i < NAMES && want[i].there && !seen[i]++);
		must_eq(entry.bytes, want[i].bytes);
		n++;
	}
	must_eq(err, -ENOENT);
	for (uint32_t i = 0; i < NAMES; i++)
		there += want[i].there;
	must_eq(n, there);
	must_eq(stat_of(v).values, there);
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

static void random_operations_agree_with_a_plain_table(void **state)
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
		ebb_values_close(v);
	}
}

static void a_value_of_a_gigabyte_is_kept(void **state)
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
	ebb_values_close(v);
}

static void a_reader_keeps_what_was_there_when_it_was_opened(void **state)
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
	ebb_values_close(v);
}

/* ---- short of memory ---- */

static void at_the_limit_nothing_is_lost_and_deletes_succeed(void **state)
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
	values_are_sound(v);
	ebb_values_close(v);
}

/* What was deleted a moment ago is held back: a put that needs its place gets it. */
static void at_the_limit_what_was_deleted_makes_room(void **state)
{
	struct ebb_values *v = open_values(NULL);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	fill(value, 100000, 0);
	for (unsigned long turn = 0; turn < scaled(20); turn++) {
		for (uint64_t id = 0; id < 100; id++)
			must_eq(ebb_values_put(v, id, value, 100000, 0), 0);
		must_eq(ebb_flush(ebb_values_store(v)), 0);
		must_eq(ebb_stat(ebb_values_store(v), &stat), 0);
		must_eq(ebb_values_set_mem_limit(v, stat.mem_used_total - 1), 0);
		must_eq(ebb_values_put(v, 100, value, 100000, 0), -ENOMEM);
		must_eq(ebb_values_delete(v, 7), 0);
		must_eq(ebb_values_put(v, 100, value, 1000, 0), 0);
		must_eq(ebb_values_set_mem_limit(v, 0), 0);
		must_eq(ebb_values_delete(v, 100), 0);
	}
	values_are_sound(v);
	ebb_values_close(v);
}

static unsigned long fail_in, asked;

static bool fail_now(void)
{
	return ++asked % fail_in == 0;
}

static void whatever_allocation_fails_all_is_as_it_was(void **state)
{
	struct ebb_values_config cfg;
	struct ebb_values *v = NULL;
	struct rng r = { use_seed(0x99) };
	unsigned long failed = 0;

	/* Opening, as far as it takes. */
	ebb_values_config_init(&cfg);
	cfg.slots = 1 << 20;
	for (fail_in = 1; fail_in < 200; fail_in++) {
		int err;

		asked = 0;
		host_user_fail = fail_now;
		err = ebb_values_open(&v, &cfg);
		host_user_fail = NULL;
		must(!err || err == -ENOMEM);
		ebb_values_close(v);
	}
	must_eq(ebb_values_open(&v, &cfg), 0);
	memset(want, 0, sizeof(want));
	for (unsigned long step = 0; step < scaled(20000); step++) {
		uint32_t i = (uint32_t)rng_below(&r, NAMES);
		size_t n = random_size(&r);
		uint64_t seed = rng_next(&r);
		bool put = rng_below(&r, 3);
		int err;

		fill(value, n, seed);
		fail_in = 1 + rng_below(&r, 4);
		host_user_fail = step % 2 ? fail_now : NULL;
		err = put ? put_name(v, i, value, n) : delete_name(v, i);
		host_user_fail = NULL;
		failed += err == -ENOMEM;
		if (err == -ENOMEM) {
			get_and_compare(v, i);
			continue;
		}
		must_eq(err, put || want[i].there ? 0 : -ENOENT);
		want[i].there = put;
		want[i].bytes = n;
		want[i].seed = seed;
	}
	must(failed);
	for (uint32_t i = 0; i < NAMES; i++)
		get_and_compare(v, i);
	iterate_and_compare(v);
	values_are_sound(v);
	ebb_values_close(v);
}

static bool fail_always(void)
{
	return true;
}

static void who_lets_go_needs_no_memory_for_a_scratch(void **state)
{
	struct ebb_values *v = open_values(NULL);
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	struct scratch *taken[200];
	struct ebb_value_reader *reader;
	unsigned int n, i;

	fill(value, 200000, 4);
	must_eq(ebb_values_put(v, 1, value, 200000, 0), 0);
	must_eq(ebb_values_read_open(v, 1, &reader), 0);
	/* The one that is idle, and whatever comes after it. */
	for (n = 0; n < 20; n++)
		taken[n] = scratch_get(&v->blocks);
	host_user_fail = fail_always;
	must(!scratch_get(&v->blocks));
	must_eq(ebb_values_next(v, &cursor, &entry, NULL), 0);
	must_eq(ebb_values_delete(v, 1), 0);
	ebb_value_reader_close(reader);
	must_eq(ebb_values_put(v, 2, value, 10, 0), -ENOMEM);
	host_user_fail = NULL;
	for (i = 0; i < n; i++)
		scratch_put(&v->blocks, taken[i]);
	values_are_sound(v);
	must_eq(stat_of(v).object_bytes, 0);
	ebb_values_close(v);
}

/* ---- threads ---- */

#define SHARED 40u

static struct ebb_values *shared;
static u32 wrong, stop;

static void note_wrong(u32 line)
{
	__atomic_store_n(&wrong, line, __ATOMIC_RELAXED);
}

/* A value says all about itself: 8 bytes of seed, then what fill() makes of it. */
static size_t make_value(unsigned char *p, struct rng *r)
{
	uint64_t seed = rng_next(r);
	size_t n = 8 + (seed % 50 ? seed % 3000 : seed % 200000);

	memcpy(p, &seed, sizeof(seed));
	fill(p + 8, n - 8, seed);
	return n;
}

static bool is_value(const unsigned char *p, size_t n, unsigned char *other)
{
	uint64_t seed;

	memcpy(&seed, p, sizeof(seed));
	if (n != 8 + (seed % 50 ? seed % 3000 : seed % 200000))
		return false;
	fill(other, n - 8, seed);
	return !memcmp(p + 8, other, n - 8);
}

/* Some names are always there; the others come and go, and have the table grow and shrink. */
static void *change_values(void *arg)
{
	unsigned char *mine = malloc(200008);
	struct rng r = { (uintptr_t)arg };

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint32_t i = (uint32_t)rng_below(&r, SHARED * 30);
		int err = 0;

		if (i >= SHARED && rng_below(&r, 2))
			err = delete_name(shared, i);
		else
			err = put_name(shared, i, mine, make_value(mine, &r));
		if (err && err != -ENOENT)
			note_wrong(__LINE__);
	}
	free(mine);
	return NULL;
}

static void *get_values(void *arg)
{
	unsigned char *mine = malloc(200008), *other = malloc(200008);
	struct rng r = { (uintptr_t)arg };
	size_t n;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint32_t i = (uint32_t)rng_below(&r, rng_below(&r, 2) ? SHARED : SHARED * 30);
		int err = get_name(shared, i, mine, 200008, &n);

		if (err ? err != -ENOENT || i < SHARED : !is_value(mine, n, other))
			note_wrong(__LINE__);
	}
	free(mine);
	free(other);
	return NULL;
}

static void *read_values(void *arg)
{
	unsigned char *mine = malloc(200008), *other = malloc(200008);
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_value_reader *reader;
	struct rng r = { (uintptr_t)arg };
	unsigned char key[EBB_VALUES_KEY_MAX];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		struct ebb_values_cursor cursor = { 0 };
		unsigned int seen[SHARED] = { 0 };
		size_t n = 0, piece = 1;

		if (!open_name(shared, (uint32_t)rng_below(&r, SHARED), &reader)) {
			for (; piece; n += piece)
				if (ebb_value_read(reader, n, mine + n, 1 + rng_below(&r, 90000),
						   &piece))
					note_wrong(__LINE__);
			if (n != ebb_value_reader_size(reader) || !is_value(mine, n, other))
				note_wrong(__LINE__);
			ebb_value_reader_close(reader);
		} else {
			note_wrong(__LINE__);
		}
		while (!ebb_values_next(shared, &cursor, &entry, key)) {
			uint32_t i = (uint32_t)entry.id;

			if (entry.key_bytes)
				memcpy(&i, key, sizeof(i));
			if (i < SHARED)
				seen[i]++;
		}
		for (unsigned int i = 0; i < SHARED; i++)
			if (seen[i] != 1)
				note_wrong(__LINE__);
	}
	free(mine);
	free(other);
	return NULL;
}

static void who_gets_a_value_sees_it_old_or_new_and_whole(void **state)
{
	void *(*const does[])(void *) = { change_values, change_values, get_values, get_values,
					  read_values };
	pthread_t thread[ARRAY_LEN(does)];
	struct timespec rest = { 0, 10000000 };
	struct rng r = { 5 };

	shared = open_values(NULL);
	wrong = stop = 0;
	for (uint32_t i = 0; i < SHARED; i++)
		must_eq(put_name(shared, i, value, make_value(value, &r)), 0);
	for (uintptr_t i = 0; i < ARRAY_LEN(does); i++)
		must_eq(pthread_create(&thread[i], NULL, does[i], (void *)(i + 1)), 0);
	for (unsigned long i = 0; i < scaled(200) && !wrong; i++)
		nanosleep(&rest, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < ARRAY_LEN(does); i++)
		pthread_join(thread[i], NULL);
	must_eq(wrong, 0);
	values_are_sound(shared);
	ebb_values_close(shared);
}

/* ---- pieces ---- */

static void a_hash_of_an_id_leads_back_to_it(void **state)
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

/* SipHash-1-3 of 0, 1, 2 ..., as its authors' program has it, with the key 0, 1, ... 15. */
static void keys_are_hashed_by_siphash_1_3(void **state)
{
	static const struct hash_secret s = { 0x0706050403020100, 0x0f0e0d0c0b0a0908 };
	unsigned char in[16];

	for (unsigned int i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)i;
	must(hash_key(&s, in, 0) == 0xabac0158050fc4dc);
	must(hash_key(&s, in, 1) == 0xc9f49bf37d57ca93);
	must(hash_key(&s, in, 8) != hash_key(&s, in, 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_of_the_config_is_checked),
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(a_hash_of_an_id_leads_back_to_it),
		cmocka_unit_test(keys_are_hashed_by_siphash_1_3),
		cmocka_unit_test(flags_say_what_a_put_may_do),
		cmocka_unit_test(random_operations_agree_with_a_plain_table),
		cmocka_unit_test(a_reader_keeps_what_was_there_when_it_was_opened),
		cmocka_unit_test(a_value_of_a_gigabyte_is_kept),
		cmocka_unit_test(at_the_limit_nothing_is_lost_and_deletes_succeed),
		cmocka_unit_test(at_the_limit_what_was_deleted_makes_room),
		cmocka_unit_test(whatever_allocation_fails_all_is_as_it_was),
		cmocka_unit_test(who_lets_go_needs_no_memory_for_a_scratch),
		cmocka_unit_test(who_gets_a_value_sees_it_old_or_new_and_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
