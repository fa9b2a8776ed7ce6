/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * values_rig.h - tables of values that end with the case, sound, names of both kinds, and an oracle
 * of what they have.
 */
#ifndef EBB_TESTS_VALUES_RIG_H
#define EBB_TESTS_VALUES_RIG_H

#include "support.h"
#include "api/ebb.h"
#include "api/ebb_values.h"
#include "kv/values.h"

/* What a case has open. */
static struct ebb_values *tables[4];

static inline struct ebb_values *open_values_of(const struct ebb_values_config *cfg)
{
	unsigned int i = 0;

	while (tables[i])
		must(++i < ARRAY_LEN(tables));
	must_eq(ebb_values_open(&tables[i], cfg), 0);
	return tables[i];
}

static inline struct ebb_values *open_values(const char *codec)
{
	struct ebb_values_config cfg;

	ebb_values_config_init(&cfg);
	cfg.codec = codec;
	return open_values_of(&cfg);
}

static inline void values_are_sound(struct ebb_values *v)
{
	char why[200];
	int err = ebb_values_check(v, why, sizeof(why));

	if (err)
		must_failed(__FILE__, __LINE__, why, err, 0);
}

static inline void close_values(struct ebb_values *v)
{
	values_are_sound(v);
	for (unsigned int i = 0; i < ARRAY_LEN(tables); i++)
		if (tables[i] == v)
			tables[i] = NULL;
	ebb_values_close(v);
}

void after_each(void)
{
	for (unsigned int i = 0; i < ARRAY_LEN(tables); i++)
		if (tables[i])
			close_values(tables[i]);
}

static inline struct ebb_values_stat stat_of(struct ebb_values *v)
{
	struct ebb_values_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_values_stat(v, &stat), 0);
	return stat;
}

/* Text of a kind that seed says: it compresses, hardly, or not at all. */
static inline void fill(unsigned char *p, size_t n, uint64_t seed)
{
	static const char text[] = "{\"name\":\"compressed memory\",\"gives\":\"back\"},";
	struct rng r = { seed };
	size_t i, kind = seed % 5;

	for (i = 0; i < n; i++)
		p[i] = kind == 0 || (kind == 1 && i % 4 == 0) ? (unsigned char)rng_next(&r) :
		       (unsigned char)(text[(i + seed) % (sizeof(text) - 1)] + (seed >> 8) % 3);
}

#define NAMES 3000u
#define LONGEST ((size_t)400000)

static unsigned char value[LONGEST], got[LONGEST];

static struct {
	bool there;
	uint64_t seed;
	size_t bytes;
} want[NAMES];

/* Names are ids, or keys of all lengths. */
static inline size_t key_of(uint32_t i, unsigned char *key)
{
	size_t n = 5 + (i % 7 ? i % 40 : i % 1000);

	memset(key, (int)(i % 251), n);
	memcpy(key, &i, sizeof(i));
	return n;
}

static inline int put_name(struct ebb_values *v, uint32_t i, const void *data, size_t bytes)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_put(v, i, data, bytes, 0);
	return ebb_values_put_key(v, key, key_of(i, key), data, bytes, 0);
}

static inline int get_name(struct ebb_values *v, uint32_t i, void *buf, size_t cap, size_t *bytes)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_get(v, i, buf, cap, bytes);
	return ebb_values_get_key(v, key, key_of(i, key), buf, cap, bytes);
}

static inline int size_name(struct ebb_values *v, uint32_t i, uint64_t *bytes)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_size(v, i, bytes);
	return ebb_values_size_key(v, key, key_of(i, key), bytes);
}

static inline int delete_name(struct ebb_values *v, uint32_t i)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	return i % 2 ? ebb_values_delete(v, i) : ebb_values_delete_key(v, key, key_of(i, key));
}

static inline int open_name(struct ebb_values *v, uint32_t i, struct ebb_value_reader **reader)
{
	unsigned char key[EBB_VALUES_KEY_MAX];

	if (i % 2)
		return ebb_values_read_open(v, i, reader);
	return ebb_values_read_open_key(v, key, key_of(i, key), reader);
}

static inline size_t random_size(struct rng *r)
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

static inline void get_and_compare(struct ebb_values *v, uint32_t i)
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

/* Each name that is there comes once. */
static inline void iterate_and_compare(struct ebb_values *v)
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

#endif
