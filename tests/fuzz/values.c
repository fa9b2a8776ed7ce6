// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * values.c - fuzzes values: any sequence of operations against plain copies, and reads of a table
 * of which an object was overwritten.
 *
 *     input: what is done; then one operation after the other, or what is put, and the damage
 *
 * In the first, puts of the library's own may fail: then -ENOMEM is a right answer and the value is
 * what it was. In the second, whatever the object is, an answer is a value, -ENOENT or -EIO.
 */
#include "fuzz_put.h"
#include "api/ebb_values.h"
#include "kv/values.h"

#define NAMES 48u
#define LARGEST 150000u
#define OPS_MAX 300

static struct ebb_values *values;
static unsigned char data[LARGEST], got[LARGEST + 1];

static struct {
	bool there;
	size_t bytes;
	uint64_t seed;
} model[NAMES];

static void open_values(const char *codec)
{
	struct ebb_values_config cfg;

	ebb_values_config_init(&cfg);
	cfg.codec = codec;
	cfg.slots = 1 << 16;
	must_eq(ebb_values_open(&values, &cfg), 0);
	memset(model, 0, sizeof(model));
}

static void make(size_t n, uint64_t seed)
{
	memset(data, (int)seed, n);
	fill_random(data, n * (seed % 4) / 3, seed);
}

static size_t choose_bytes(struct choices *c)
{
	unsigned int kind = take_below(c, 8);

	return kind < 5 ? take_below(c, 256) : kind < 7 ? take_below(c, 5000) :
	       take(c, 3) % LARGEST;
}

/* Names are ids or keys, some of them long. */
static size_t key_of(unsigned int i, unsigned char *key)
{
	size_t n = i % 5 ? 1 + i : 900 + i;

	memset(key, (int)i, n);
	return n;
}

static int get_name(unsigned int i, size_t cap, size_t *n)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_get(values, i * 1000003u, got, cap, n);
	return ebb_values_get_key(values, key, key_of(i, key), got, cap, n);
}

static int put_name(unsigned int i, size_t n, unsigned int flags)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_put(values, i * 1000003u, data, n, flags);
	return ebb_values_put_key(values, key, key_of(i, key), data, n, flags);
}

static int delete_name(unsigned int i)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	return i % 2 ? ebb_values_delete(values, i * 1000003u) :
		       ebb_values_delete_key(values, key, key_of(i, key));
}

static int open_name(unsigned int i, struct ebb_value_reader **reader)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_read_open(values, i * 1000003u, reader);
	return ebb_values_read_open_key(values, key, key_of(i, key), reader);
}

static void get_and_compare(unsigned int i, size_t cap)
{
	size_t n = 0;
	int err = get_name(i, cap, &n);

	if (!model[i].there) {
		must_eq(err, -ENOENT);
		return;
	}
	must_eq(n, model[i].bytes);
	must_eq(err, n <= cap ? 0 : -ENOSPC);
	if (err)
		return;
	make(n, model[i].seed);
	must(!memcmp(got, data, n));
}

static void do_put(struct choices *c, unsigned int i)
{
	unsigned int flags = take_below(c, 5);
	size_t n = choose_bytes(c);
	uint64_t seed = take(c, 1);
	int err, want = 0;

	flags = flags > EBB_PUT_REPLACE ? 0 : flags;
	if (flags == EBB_PUT_NEW && model[i].there)
		want = -EEXIST;
	if (flags == EBB_PUT_REPLACE && !model[i].there)
		want = -ENOENT;
	make(n, seed);
	failing = take_below(c, 4) ? 0 : 1 + take_below(c, 12);
	err = put_name(i, n, flags);
	must(err == want || (err == -ENOMEM && !failing));
	failing = 0;
	if (!err) {
		model[i].there = true;
		model[i].bytes = n;
		model[i].seed = seed;
	}
}

static void do_delete(struct choices *c, unsigned int i)
{
	int err;

	failing = take_below(c, 4) ? 0 : 1 + take_below(c, 3);
	err = delete_name(i);
	must(err == (model[i].there ? 0 : -ENOENT) || (err == -ENOMEM && !failing));
	failing = 0;
	if (!err)
		model[i].there = false;
}

/* A reader that outlives its value. */
static void do_read(struct choices *c, unsigned int i)
{
	struct ebb_value_reader *reader;
	size_t bytes = model[i].bytes, n, off;
	uint64_t seed = model[i].seed;

	if (!model[i].there)
		return;
	must_eq(open_name(i, &reader), 0);
	if (take_below(c, 2))
		do_put(c, i);
	else
		do_delete(c, i);
	off = take(c, 3) % (bytes + 10);
	must_eq(ebb_value_read(reader, off, got, LARGEST, &n), 0);
	must_eq(n, off < bytes ? bytes - off : 0);
	make(bytes, seed);
	must(!n || !memcmp(got, data + off, n));
	ebb_value_reader_close(reader);
}

static void check_all(void)
{
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	unsigned int n = 0, there = 0;
	char why[200];

	if (ebb_values_check(values, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
	while (!ebb_values_next(values, &cursor, &entry, NULL))
		n++;
	for (unsigned int i = 0; i < NAMES; i++)
		there += model[i].there;
	must_eq(n, there);
}

static void operate(struct choices *c)
{
	bool held = false;

	for (unsigned int op = 0; op < OPS_MAX && left(c); op++) {
		unsigned int i = take_below(c, NAMES);

		switch (take_below(c, 8)) {
		case 0:
			do_delete(c, i);
			break;
		case 1:
			get_and_compare(i, take_below(c, 2) ? LARGEST : take_below(c, 300));
			break;
		case 2:
			do_read(c, i);
			break;
		case 3:
			/* Buckets that are larger than an object. */
			held |= mutex_trylock(&values->growing);
			if (take_below(c, 2))
				break;
			mutex_unlock(&values->growing);
			held = false;
			break;
		default:
			do_put(c, i);
		}
	}
	if (held)
		mutex_unlock(&values->growing);
	for (unsigned int i = 0; i < NAMES; i++)
		get_and_compare(i, LARGEST);
	check_all();
	for (unsigned int i = 0; i < NAMES; i++)
		must_eq(delete_name(i), model[i].there ? 0 : -ENOENT);
	memset(model, 0, sizeof(model));
	check_all();
}

/* Puts what is left of the input in the place of a bucket, or of an object of a block. */
static void damage(struct choices *c)
{
	unsigned char object[BUCKET_OBJECT];
	uint64_t buckets = host_a64_read(&values->buckets), slot, first = 1 << 15;
	size_t bytes = 0;

	slot = take_below(c, 2) ? take_below(c, (unsigned int)buckets) : first + take_below(c, 300);
	if (ebb_get(ebb_values_store(values), slot, object, sizeof(object), &bytes) || !bytes)
		return;
	if (take_below(c, 2)) {
		for (unsigned int n = 1 + take_below(c, 8); n; n--)
			object[take(c, 2) % bytes] ^= (unsigned char)take(c, 1);
	} else {
		bytes = left(c) < sizeof(object) ? left(c) : sizeof(object);
		for (size_t i = 0; i < bytes; i++)
			object[i] = (unsigned char)take(c, 1);
	}
	if (bytes)
		must_eq(ebb_put(ebb_values_store(values), slot, object, bytes), 0);
}

static bool is_answer(int err)
{
	return !err || err == -ENOENT || err == -EIO || err == -ENOSPC;
}

static void read_damaged(struct choices *c)
{
	struct ebb_values_entry entry = { .struct_size = sizeof(entry) };
	struct ebb_values_cursor cursor = { 0 };
	struct ebb_value_reader *reader;
	size_t n = 0;
	int err;

	for (unsigned int i = take_below(c, NAMES); i; i--) {
		make(choose_bytes(c), take(c, 1));
		must_eq(put_name(i, n = choose_bytes(c), 0), 0);
	}
	damage(c);
	got[LARGEST] = 7;
	for (unsigned int i = 0; i < NAMES; i++) {
		must(is_answer(get_name(i, LARGEST, &n)));
		must_eq(got[LARGEST], 7);
		err = open_name(i, &reader);
		must(is_answer(err));
		if (err)
			continue;
		must(is_answer(ebb_value_read(reader, take(c, 6), got, LARGEST, &n)));
		must(is_answer(ebb_value_read(reader, 0, got, LARGEST, &n)));
		ebb_value_reader_close(reader);
	}
	for (unsigned int i = 0; i < 10 * NAMES; i++)
		if (ebb_values_next(values, &cursor, &entry, got))
			break;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct choices c = { input, input + size };
	unsigned int what = take_below(&c, 8);

	open_values(ebb_codec_name(what / 2 % 3));
	if (what % 2)
		read_damaged(&c);
	else
		operate(&c);
	ebb_values_close(values);
	return 0;
}
