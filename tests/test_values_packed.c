// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_values_packed.c - values in their packed form: from table to table, damaged, made up. */
#include <pthread.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "values_rig.h"

#define HEAD ((size_t)48)
#define VERSION_AT ((size_t)4)
#define SUM_AT ((size_t)8)
#define SUMMED ((size_t)16)

static unsigned char form[LONGEST + 4096], other[LONGEST + 4096], room[LONGEST + 1];

static const size_t sizes[] = { 0, 1, 31, 32, 33, 511, 600, 4096, 65535, 65536, 65537, 65536 * 2,
				65536 * 2 + 5, LONGEST };

/* The packed form of a name's value at form. */
static size_t pack(struct ebb_values *v, uint64_t id)
{
	size_t n = 0, again = 0;
	int err = ebb_values_read_packed(v, id, NULL, 0, &n);

	must_eq(err, -ENOSPC);
	must_eq(ebb_values_read_packed(v, id, form, n - 1, &again), -ENOSPC);
	must_eq(again, n);
	form[n] = 0x5a;
	must_eq(ebb_values_read_packed(v, id, form, sizeof(form), &again), 0);
	must_eq(again, n);
	must_eq(form[n], 0x5a);
	return n;
}

static void seal(unsigned char *f, size_t n)
{
	XXH64_hash_t sum;
	uint32_t version;

	memcpy(&version, f + VERSION_AT, sizeof(version));
	sum = XXH3_64bits_withSeed(f + SUMMED, n - SUMMED, version);

	memcpy(f + SUM_AT, &sum, sizeof(sum));
}

CASE(a_packed_value_goes_to_another_table_as_it_is)
{
	for (unsigned int c = 0; ebb_codec_name(c); c++) {
		struct ebb_values *from = open_values(ebb_codec_name(c));
		struct ebb_values *to = open_values(ebb_codec_name(c));

		for (unsigned int i = 0; i < ARRAY_LEN(sizes) * 5; i++) {
			size_t bytes = sizes[i / 5], n, m;
			uint64_t size;

			fill(value, bytes, i);
			must_eq(ebb_values_put(from, i, value, bytes, 0), 0);
			n = pack(from, i);
			must_eq(ebb_packed_size(form, n, &size), 0);
			must_eq(size, bytes);
			must_eq(ebb_values_put_packed(to, i, form, n, 0), 0);
			must_eq(ebb_values_get(to, i, got, LONGEST, &m), 0);
			must(m == bytes && !memcmp(got, value, bytes));
			memset(got, 0, bytes);
			got[bytes ? bytes - 1 : 0] ^= 1;
			must_eq(ebb_values_unpack(to, form, n, got, bytes, &m), 0);
			must(m == bytes && !memcmp(got, value, bytes));
			/* Out of there it is the same again. */
			must_eq(ebb_values_read_packed(to, i, other, sizeof(other), &m), 0);
			must(m == n && !memcmp(other, form, n));
		}
		must_eq(stat_of(from).packed_bytes, stat_of(to).packed_bytes);
		must_eq(stat_of(from).value_bytes, stat_of(to).value_bytes);
		values_are_sound(from);
		values_are_sound(to);
		close_values(from);
		close_values(to);
	}
}

/* Values of several blocks, under each unit; and one unit's form in another one's table. */
CASE(a_unit_is_what_is_compressed_together)
{
	static const uint32_t units[] = { 16384, 32768, 65536 };
	struct ebb_values *v[ARRAY_LEN(units)], *other_unit;
	struct ebb_value_reader *reader;
	struct ebb_values_config cfg;
	uint64_t packed[ARRAY_LEN(units)];
	size_t n, m;

	for (unsigned int u = 0; u < ARRAY_LEN(units); u++) {
		ebb_values_config_init(&cfg);
		cfg.unit_bytes = units[u];
		v[u] = open_values_of(&cfg);
		cfg.unit_bytes = units[(u + 1) % ARRAY_LEN(units)];
		other_unit = open_values_of(&cfg);
		for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++) {
			fill(value, sizes[i], i * 5 + 2);
			must_eq(ebb_values_put(v[u], i, value, sizes[i], 0), 0);
			must_eq(ebb_values_get(v[u], i, got, LONGEST, &n), 0);
			must(n == sizes[i] && !memcmp(got, value, n));
			must_eq(ebb_values_read_open(v[u], i, &reader), 0);
			for (size_t at = 0; at < sizes[i]; at += 10007) {
				must_eq(ebb_value_read(reader, at, got, 20000, &n), 0);
				must_eq(n, sizes[i] - at < 20000 ? sizes[i] - at : 20000);
				must(!memcmp(got, value + at, n));
			}
			ebb_value_reader_close(reader);
			n = pack(v[u], i);
			must_eq(ebb_values_put_packed(v[u], 100, form, n, 0), 0);
			must_eq(ebb_values_get(v[u], 100, got, LONGEST, &m), 0);
			must(m == sizes[i] && !memcmp(got, value, m));
			must_eq(ebb_values_put_packed(other_unit, 100, form, n, 0), -ENOTSUP);
			must_eq(ebb_values_unpack(other_unit, form, n, got, LONGEST, &m), 0);
			must(m == sizes[i] && !memcmp(got, value, m));
		}
		packed[u] = stat_of(v[u]).packed_bytes;
		values_are_sound(v[u]);
		close_values(other_unit);
	}
	must(packed[0] > packed[2]);
	for (unsigned int u = 0; u < ARRAY_LEN(units); u++)
		close_values(v[u]);
}

CASE(keys_and_flags_are_those_of_other_puts)
{
	struct ebb_values *v = open_values(NULL);
	size_t n, m;

	fill(value, 1000, 2);
	must_eq(ebb_values_put_key(v, "key", 3, value, 1000, 0), 0);
	must_eq(ebb_values_read_packed_key(v, "key", 3, form, sizeof(form), &n), 0);
	must_eq(ebb_values_read_packed_key(v, "kez", 3, form, sizeof(form), &m), -ENOENT);
	must_eq(ebb_values_read_packed(v, 1, form, sizeof(form), &m), -ENOENT);
	must_eq(ebb_values_put_packed_key(v, "key", 3, form, n, EBB_PUT_NEW), -EEXIST);
	must_eq(ebb_values_put_packed_key(v, "new", 3, form, n, EBB_PUT_REPLACE), -ENOENT);
	must_eq(ebb_values_put_packed_key(v, "new", 3, form, n, EBB_PUT_NEW), 0);
	must_eq(ebb_values_get_key(v, "new", 3, got, LONGEST, &m), 0);
	must(m == 1000 && !memcmp(got, value, m));
	must_eq(stat_of(v).values, 2);
}

CASE(arguments_are_checked)
{
	struct ebb_values *v = open_values(NULL);
	uint64_t size;
	size_t n, m;

	must_eq(ebb_values_put(v, 1, "value", 5, 0), 0);
	n = pack(v, 1);
	must_eq(ebb_values_read_packed(NULL, 1, form, n, &m), -EINVAL);
	must_eq(ebb_values_read_packed(v, 1, NULL, 1, &m), -EINVAL);
	must_eq(ebb_values_read_packed(v, 1, form, n, NULL), -EINVAL);
	must_eq(ebb_values_read_packed_key(v, "", 0, form, n, &m), -EINVAL);
	must_eq(ebb_values_put_packed(NULL, 1, form, n, 0), -EINVAL);
	must_eq(ebb_values_put_packed(v, 1, NULL, n, 0), -EINVAL);
	must_eq(ebb_values_put_packed(v, 1, form, n, 4), -EINVAL);
	must_eq(ebb_values_put_packed_key(v, NULL, 1, form, n, 0), -EINVAL);
	must_eq(ebb_values_unpack(NULL, form, n, got, 5, &m), -EINVAL);
	must_eq(ebb_values_unpack(v, NULL, n, got, 5, &m), -EINVAL);
	must_eq(ebb_values_unpack(v, form, n, NULL, 5, &m), -EINVAL);
	must_eq(ebb_values_unpack(v, form, n, got, 5, NULL), -EINVAL);
	must_eq(ebb_values_unpack(v, form, n, got, 4, &m), -ENOSPC);
	must_eq(m, 5);
	must_eq(ebb_packed_size(NULL, n, &size), -EINVAL);
	must_eq(ebb_packed_size(form, n, NULL), -EINVAL);
}

/* ---- damage ---- */

static void refused(struct ebb_values *v, size_t n, int err)
{
	struct ebb_values_stat before = stat_of(v), after;
	size_t m;

	must_eq(ebb_values_put_packed(v, 5, form, n, 0), err);
	must_eq(ebb_values_unpack(v, form, n, got, LONGEST, &m), err);
	after = stat_of(v);
	must(before.values == after.values && before.packed_bytes == after.packed_bytes);
}

CASE(any_damage_is_told_and_changes_nothing)
{
	struct ebb_values *v = open_values("zstd");
	struct rng r = { use_seed(1) };

	for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t n, at;

		fill(value, sizes[i], 1);
		must_eq(ebb_values_put(v, 5, value, sizes[i], 0), 0);
		n = pack(v, 5);
		for (unsigned int bit = 0; bit < HEAD * 8 + 300; bit++) {
			at = bit < HEAD * 8 ? bit / 8 : rng_below(&r, n);
			form[at] ^= (unsigned char)(1u << bit % 8);
			refused(v, n, -EUCLEAN);
			form[at] ^= (unsigned char)(1u << bit % 8);
		}
		for (unsigned int k = 0; k < 100; k++)
			refused(v, k < HEAD && k < n ? k : rng_below(&r, n), -EUCLEAN);
		form[n] = 0;
		refused(v, n + 1, -EUCLEAN);
		must_eq(ebb_values_put_packed(v, 5, form, n, 0), 0);
	}
}

CASE(a_form_of_another_codec_or_version_is_not_supported)
{
	struct ebb_values *lz4 = open_values("lz4"), *zstd = open_values("zstd");
	uint64_t size;
	size_t n;

	fill(value, 100000, 2);
	must_eq(ebb_values_put(lz4, 5, value, 100000, 0), 0);
	n = pack(lz4, 5);
	refused(zstd, n, -ENOTSUP);
	must_eq(ebb_packed_size(form, n, &size), 0);
	form[VERSION_AT]++;
	seal(form, n);
	refused(lz4, n, -ENOTSUP);
	must_eq(ebb_packed_size(form, n, &size), -ENOTSUP);
	form[VERSION_AT]--;
	form[25] = 1;           /* the size of a piece: 256 */
	seal(form, n);
	refused(lz4, n, -ENOTSUP);
}

/* Who knows the sum can make up what he likes: the library stays whole. */
CASE(a_form_that_lies_with_the_right_sum_harms_nothing)
{
	struct rng r = { use_seed(2) };
	unsigned long kept = 0, not_kept = 0;

	for (unsigned int c = 0; ebb_codec_name(c); c++) {
		struct ebb_values *v = open_values(ebb_codec_name(c));

		for (unsigned long i = 0; i < scaled(500); i++) {
			size_t bytes = sizes[rng_below(&r, ARRAY_LEN(sizes))], n, m;
			int err;

			fill(value, bytes, i);
			must_eq(ebb_values_put(v, 1, value, bytes, 0), 0);
			n = pack(v, 1);
			for (unsigned int k = 1 + rng_below(&r, 3); k; k--)
				form[rng_below(&r, 2) ? SUMMED + rng_below(&r, n - SUMMED) :
				     SUMMED + rng_below(&r, 8)] ^= 1u << rng_below(&r, 8);
			if (!rng_below(&r, 3))
				n = SUMMED + 32 + rng_below(&r, n - HEAD + 1);
			seal(form, n);
			err = ebb_values_put_packed(v, 2, form, n, 0);
			must(!err || err == -EUCLEAN || err == -ENOTSUP);
			err ? not_kept++ : kept++;
			if (!err) {
				err = ebb_values_get(v, 2, got, LONGEST, &m);
				must(!err || err == -EIO || err == -ENOSPC);
			}
			room[bytes] = 0x77;
			err = ebb_values_unpack(v, form, n, room, bytes, &m);
			must(!err || err == -EUCLEAN || err == -ENOTSUP || err == -EIO ||
			     err == -ENOSPC);
			must_eq(room[bytes], 0x77);
		}
		close_values(v);
	}
	must(kept && not_kept);
}

/* ---- no memory, and other threads ---- */

CASE(a_put_that_finds_no_room_leaves_the_value_as_it_was)
{
	struct ebb_values *v = open_values(NULL);
	size_t n, m;

	fill(value, LONGEST, 0);
	must_eq(ebb_values_put(v, 1, value, LONGEST, 0), 0);
	n = pack(v, 1);
	must_eq(ebb_values_put(v, 2, "old", 3, 0), 0);
	must_eq(ebb_values_set_mem_limit(v, LONGEST / 2), 0);
	must_eq(ebb_values_put_packed(v, 2, form, n, 0), -ENOMEM);
	/* Without a codec nothing is denied: who must go on to a file has no memory. */
	must_eq(ebb_values_read_packed(v, 1, other, sizeof(other), &m), 0);
	must_eq(ebb_values_get(v, 2, got, LONGEST, &m), 0);
	must(m == 3 && !memcmp(got, "old", 3));
}

static unsigned char letters[2][200000];
static int writer_done;

static void *replace(void *arg)
{
	for (unsigned int i = 0; i < 300; i++) {
		memset(letters[0], (int)i, sizeof(letters[0]));
		if (ebb_values_put(arg, 1, letters[0], i % 3 ? sizeof(letters[0]) : 20000, 0))
			break;
	}
	__atomic_store_n(&writer_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

CASE(a_form_is_of_one_moment)
{
	struct ebb_values *v = open_values(NULL);
	pthread_t thread;
	size_t n, m;

	writer_done = 0;
	must_eq(ebb_values_put(v, 1, letters[1], sizeof(letters[1]), 0), 0);
	must_eq(pthread_create(&thread, NULL, replace, v), 0);
	while (!__atomic_load_n(&writer_done, __ATOMIC_ACQUIRE)) {
		must_eq(ebb_values_read_packed(v, 1, form, sizeof(form), &n), 0);
		must_eq(ebb_values_unpack(v, form, n, letters[1], sizeof(letters[1]), &m), 0);
		must(m == 20000 || m == sizeof(letters[1]));
		must(!memcmp(letters[1], letters[1] + 1, m - 1));
	}
	pthread_join(thread, NULL);
}
