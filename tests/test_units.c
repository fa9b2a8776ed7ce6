// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* test_units.c - a disk in units: what is written is read, whole, whatever the sizes. */
#include "support.h"
#include "kv/block.h"
#include "api/ebb.h"
#include "api/ebb_units.h"

#include <pthread.h>

static const uint32_t sizes[] = { 4096, 8192, 16384, 32768, 65536 };

static struct ebb_units *opened;        /* of the case: it ends with it, sound */

static struct ebb_units *open_units(uint64_t bytes, uint32_t unit, const char *codec)
{
	struct ebb_units_config cfg;

	ebb_units_config_init(&cfg);
	cfg.bytes = bytes;
	cfg.unit_bytes = unit;
	cfg.codec = codec;
	must_eq(ebb_units_open(&opened, &cfg), 0);
	return opened;
}

static void units_are_sound(struct ebb_units *u)
{
	char why[200];
	int err = ebb_units_check(u, why, sizeof(why));

	if (err)
		must_failed(__FILE__, __LINE__, why, err, 0);
}

static void close_units(void)
{
	if (opened)
		units_are_sound(opened);
	ebb_units_close(opened);
	opened = NULL;
}

static struct ebb_units_stat stat_of(struct ebb_units *u)
{
	struct ebb_units_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_units_stat(u, &stat), 0);
	return stat;
}

/* Bytes of one kind or another: noise, text, zeros, one byte. */
static void fill(struct rng *r, unsigned char *p, size_t n)
{
	static const char text[] = "{\"name\":\"compressed memory\",\"gives\":\"back\"},";
	size_t i, kind = rng_below(r, 4), from = rng_below(r, 40);

	for (i = 0; i < n; i++)
		p[i] = kind == 0 ? (unsigned char)rng_next(r) :
		       kind == 1 ? (unsigned char)text[(i + from) % (sizeof(text) - 1)] :
		       kind == 2 ? 0 : (unsigned char)from;
}

CASE(each_field_of_the_config_is_checked)
{
	struct ebb_units_config good, c;
	struct ebb_units *u;

	ebb_units_config_init(NULL);
	ebb_units_config_init(&good);
	good.bytes = 1 << 20;
	must_eq(ebb_units_open(NULL, &good), -EINVAL);
	must_eq(ebb_units_open(&u, NULL), -EINVAL);
#define REFUSED(field, value, error)                                                          \
	do {                                                                                  \
		c = good;                                                                     \
		c.field = value;                                                              \
		u = (void *)&c;                                                               \
		must_eq(ebb_units_open(&u, &c), error);                                       \
		must(!u);                                                                     \
	} while (0)
	REFUSED(struct_size, 0, -EINVAL);
	REFUSED(struct_size, sizeof(good) - 1, -EINVAL);
	REFUSED(bytes, 0, -EINVAL);
	REFUSED(bytes, 32767, -EINVAL);
	REFUSED(bytes, (uint64_t)1 << 62, -EINVAL);
	REFUSED(bytes, ((uint64_t)1 << 53) + 32768, -EINVAL);
	REFUSED(unit_bytes, 2048, -EINVAL);
	REFUSED(unit_bytes, 5000, -EINVAL);
	REFUSED(unit_bytes, 131072, -EINVAL);
	REFUSED(codec, "lz5", -ENOENT);
	REFUSED(level, 0, -EINVAL);
	REFUSED(chain_size, 1, -EINVAL);
	REFUSED(flags, 64, -EINVAL);
#undef REFUSED
}

CASE(what_is_no_disk_is_refused)
{
	struct ebb_units_stat stat = { .struct_size = sizeof(stat) };
	char page[100] = "";
	uint64_t n;
	int data;

	must_eq(ebb_units_write(NULL, 0, page, 10), -EINVAL);
	must_eq(ebb_units_read(NULL, 0, page, 10), -EINVAL);
	must_eq(ebb_units_zero(NULL, 0, 10), -EINVAL);
	must_eq(ebb_units_extent(NULL, 0, &n, &data), -EINVAL);
	must_eq(ebb_units_stat(NULL, &stat), -EINVAL);
	must_eq(ebb_units_check(NULL, page, sizeof(page)), -EINVAL);
	must(!ebb_units_store(NULL));
	ebb_units_close(NULL);
}

CASE(runs_of_bytes_end_with_the_disk)
{
	struct ebb_units *u = open_units(1 << 20, 0, NULL);
	struct ebb_units_stat stat = { 0 };
	char page[100] = "x";
	uint64_t n;
	int data;

	must_eq(ebb_units_write(u, (1 << 20) - 99, page, 100), -ERANGE);
	must_eq(ebb_units_read(u, 1 << 20, page, 1), -ERANGE);
	must_eq(ebb_units_read(u, UINT64_MAX, page, 2), -ERANGE);
	must_eq(ebb_units_zero(u, 1, 1 << 20), -ERANGE);
	must_eq(ebb_units_extent(u, (1 << 20) + 1, &n, &data), -ERANGE);
	must_eq(ebb_units_write(u, 1 << 20, page, 0), 0);
	must_eq(ebb_units_read(u, 1 << 20, NULL, 0), 0);
	must_eq(ebb_units_write(u, 0, NULL, 1), -EINVAL);
	must_eq(ebb_units_read(u, 0, NULL, 1), -EINVAL);
	must_eq(ebb_units_extent(u, 1 << 20, &n, &data), 0);
	must(!n && !data);
	must_eq(ebb_units_stat(u, &stat), -EINVAL);
	must_eq(ebb_units_write(u, (1 << 20) - 100, page, 100), 0);
}

#define DISK ((size_t)3 << 20)

static unsigned char want[DISK], got[DISK];

static void random_operations(struct ebb_units *u, struct rng *r, unsigned long steps)
{
	unsigned char *buf = malloc(300000);
	unsigned long i;

	memset(want, 0, DISK);
	for (i = 0; i < steps; i++) {
		size_t most = rng_below(r, 3) ? 9000 : 300000, n, off;
		uint64_t same;
		int data;

		n = rng_below(r, most);
		off = rng_below(r, DISK - n);
		if (rng_below(r, 2)) {
			size_t grain = sizes[rng_below(r, ARRAY_LEN(sizes))];

			off -= off % grain;
			n -= n % grain;
		}
		switch (rng_below(r, 6)) {
		case 0:
			must_eq(ebb_units_zero(u, off, n), 0);
			memset(want + off, 0, n);
			break;
		case 1:
		case 2:
			must_eq(ebb_units_read(u, off, got, n), 0);
			must(!memcmp(got, want + off, n));
			break;
		case 3:
			must_eq(ebb_units_extent(u, off, &same, &data), 0);
			must(same && same <= DISK - off);
			for (; !data && same; same--)
				must(!want[off + same - 1]);
			break;
		default:
			fill(r, buf, n);
			must_eq(ebb_units_write(u, off, buf, n), 0);
			memcpy(want + off, buf, n);
		}
	}
	must_eq(ebb_units_read(u, 0, got, DISK), 0);
	must(!memcmp(got, want, DISK));
	free(buf);
}

CASE(random_operations_agree_with_a_plain_array)
{
	struct rng r = { use_seed(0x0715) };

	for (unsigned int c = 0; ebb_codec_name(c); c++)
		for (unsigned int i = 0; i < ARRAY_LEN(sizes); i++) {
			struct ebb_units *u = open_units(DISK, sizes[i], ebb_codec_name(c));

			random_operations(u, &r, scaled(300));
			units_are_sound(u);
			must_eq(ebb_units_zero(u, 0, DISK), 0);
			units_are_sound(u);
			must_eq(stat_of(u).units, 0);
			must_eq(stat_of(u).packed_bytes, 0);
			close_units();
		}
}

CASE(zeros_take_nothing)
{
	struct ebb_units *u = open_units(DISK, 65536, NULL);
	uint64_t n;
	int data;

	memset(want, 0, DISK);
	must_eq(ebb_units_write(u, 0, want, DISK), 0);
	must_eq(stat_of(u).units, 0);
	want[70000] = 1;
	must_eq(ebb_units_write(u, 0, want, DISK), 0);
	must_eq(stat_of(u).units, 1);
	must_eq(ebb_units_extent(u, 100, &n, &data), 0);
	must(n == 65536 - 100 && !data);
	must_eq(ebb_units_extent(u, 65536, &n, &data), 0);
	must(n == 65536 && data == 1);
	must_eq(ebb_units_extent(u, 131072, &n, &data), 0);
	must(n == DISK - 131072 && !data);
	want[0] = 0;
	must_eq(ebb_units_write(u, 70000, want, 1), 0);
	must_eq(stat_of(u).units, 0);
}

/* The caller asks anew from where it stopped; a hole where nothing was ever written is one look. */
CASE(an_extent_looks_at_so_many_units_a_call)
{
	const uint64_t unit = 4096, units = 1 << 20, full = 9000;
	struct ebb_units *u = open_units(units * unit, unit, NULL);
	uint64_t at, n, calls = 0;
	unsigned char one = 1;
	int data;

	for (uint64_t i = 0; i < full; i++)
		must_eq(ebb_units_write(u, i * unit, &one, 1), 0);
	for (at = 0; at < full * unit; at += n, calls++) {
		must_eq(ebb_units_extent(u, at, &n, &data), 0);
		must(data == 1 && n && n <= 4096 * unit);
	}
	must_eq(at, full * unit);
	must_eq(calls, 3);
	for (calls = 0; at < units * unit; at += n, calls++) {
		must_eq(ebb_units_extent(u, at, &n, &data), 0);
		must(!data && n);
	}
	must_eq(at, units * unit);
	/* Without those stretches it were 254. */
	must_be_at_most(calls, 20);
}

/* One that could take more objects than there are numbers; memory is for what is written alone. */
CASE(a_disk_has_2_38_units_at_most)
{
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		const uint64_t bytes = ((uint64_t)1 << 38) * sizes[k], places[] = {
			0, ((uint64_t)1 << 32) * sizes[k] - 500, bytes / 3, bytes - 1000 };
		struct ebb_units *u = open_units(bytes, sizes[k], NULL);
		uint64_t before = stat_of(u).meta_bytes, n;
		unsigned char read[1000];
		int data;

		for (size_t i = 0; i < 4; i++) {
			fill_random(want + i * 1000, 1000, (unsigned int)(k * 4 + i));
			must_eq(ebb_units_write(u, places[i], want + i * 1000, 1000), 0);
		}
		for (size_t i = 0; i < 4; i++) {
			must_eq(ebb_units_read(u, places[i], read, 1000), 0);
			must_eq(memcmp(read, want + i * 1000, 1000), 0);
		}
		must_eq(ebb_units_extent(u, bytes - 1000, &n, &data), 0);
		must(n == 1000 && data == 1);
		must_eq(ebb_units_write(u, bytes - 1000, read, 1001), -ERANGE);
		must_be_at_most(stat_of(u).meta_bytes - before, 4 << 20);
		must_eq(ebb_units_zero(u, bytes / 3, bytes - bytes / 3), 0);
		must_eq(ebb_units_zero(u, 0, 1 << 20), 0);
		close_units();
	}
}

CASE(a_write_that_fails_leaves_its_unit_as_it_was)
{
	struct ebb_units *u = open_units(DISK, 32768, NULL);
	struct rng r = { use_seed(0x22) };
	unsigned int failed = 0;
	size_t at;

	fill_random(want, DISK, 5);
	must_eq(ebb_units_write(u, 0, want, DISK / 2), 0);
	memset(want + DISK / 2, 0, DISK / 2);
	must_eq(ebb_set_mem_limit(ebb_units_store(u), DISK / 2 + DISK / 8), 0);
	for (at = 0; at < DISK; at += 32768) {
		size_t off = rng_below(&r, 2) ? at + rng_below(&r, 100) : at;
		size_t n = off == at ? 32768 : rng_below(&r, 30000) + 1;
		unsigned char *buf = got;
		int err;

		fill_random(buf, n, at);
		err = ebb_units_write(u, off, buf, n);
		must(!err || err == -ENOMEM);
		if (!err)
			memcpy(want + off, buf, n);
		failed += err != 0;
		/* Nor does a reader of a part see what was to be. */
		must_eq(ebb_units_read(u, at + 7, got, 32000), 0);
		must(!memcmp(got, want + at + 7, 32000));
	}
	must(failed > 10);
	/* The same of a part of what there is. */
	for (at = failed = 0; at < DISK / 2; at += 32768) {
		fill_random(got, 3000, at + 1);
		if (ebb_units_write(u, at + 500, got, 3000))
			failed++;
		else
			memcpy(want + at + 500, got, 3000);
		must_eq(ebb_units_read(u, at + 7, got, 32000), 0);
		must(!memcmp(got, want + at + 7, 32000));
	}
	must(failed > 0);
	must_eq(ebb_units_read(u, 0, got, DISK), 0);
	must(!memcmp(got, want, DISK));
	units_are_sound(u);
	/* What is zeroed as a whole needs no memory. */
	must_eq(ebb_set_mem_limit(ebb_units_store(u), 1), 0);
	must_eq(ebb_units_zero(u, 0, DISK), 0);
	units_are_sound(u);
	must_eq(stat_of(u).packed_bytes, 0);
}

/* ---- blocks ---- */

#define BLOCK_SLOTS 640u

static struct ebb_store *block_store;
static struct blocks blocks;

static void open_blocks(unsigned int chain)
{
	struct blocks_config bc = {
		.count = BLOCK_SLOTS, .level = EBB_LEVEL_DEFAULT, .chain = chain,
	};
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = BLOCK_SLOTS;
	cfg.chain_size = chain;
	must_eq(ebb_open(&block_store, &cfg), 0);
	bc.store = block_store;
	must_eq(blocks_init(&blocks, &bc), 0);
}

void after_each(void)
{
	close_units();
	if (!block_store)
		return;
	must_hold(blocks_check(&blocks));
	blocks_destroy(&blocks);
	ebb_close(block_store);
	block_store = NULL;
}

static block_ref put_block(struct scratch *s, const unsigned char *p, size_t n)
{
	int packed = block_pack(&blocks, s, p, n);
	block_ref ref;

	must(packed > 0 && (size_t)packed <= n);
	must_eq(block_put(&blocks, s, (size_t)packed, n, &ref), 0);
	must(ref != 0);
	return ref;
}

CASE(a_block_of_each_length_is_what_it_was)
{
	struct rng r = { use_seed(0xb10c) };
	struct scratch *s;
	size_t n, got_n;
	block_ref ref, other;

	open_blocks(0);
	s = scratch_get(&blocks);
	/* Stamps begin anew, and no reference is 0. */
	host_a64_set(&blocks.made, UINT32_MAX - 5);
	for (unsigned long i = 0; i < scaled(3000); i++) {
		n = 1 + rng_below(&r, i % 2 ? BLOCK_BYTES : 9000);
		fill(&r, want, n);
		ref = put_block(s, want, n);
		memset(got, 1, n);
		must_eq(block_get(&blocks, s, ref, got, n, &got_n), 0);
		must(got_n == n && !memcmp(got, want, n));
		must(block_is_there(&blocks, s, ref));
		if (n > 1)
			must_eq(block_get(&blocks, s, ref, got, n - 1, &got_n), -EIO);
		block_free(&blocks, ref);
		must_eq(block_get(&blocks, s, ref, got, n, &got_n), -ESTALE);
		/* Nor is it the next one in its slots. */
		other = put_block(s, want, n);
		must_eq(other >> 32, ref >> 32);
		must_eq(block_get(&blocks, s, ref, got, n, &got_n), -ESTALE);
		block_free(&blocks, other);
	}
	scratch_put(&blocks, s);
}

/* What was unpacked serves as long as no other block can have its name. */
CASE(what_a_scratch_has_is_a_block_until_its_name_may_come_again)
{
	struct scratch *s;
	block_ref ref;

	open_blocks(0);
	s = scratch_get(&blocks);
	must(!scratch_has(&blocks, s, 1));
	fill_random(want, 5000, 1);
	ref = put_block(s, want, 5000);
	/* However long it was there when it was unpacked. */
	host_a64_add(&blocks.made, 1000);
	scratch_keep(&blocks, s, ref);
	must(scratch_has(&blocks, s, ref));
	must(!scratch_has(&blocks, s, ref + 1));
	host_a64_add(&blocks.made, UINT32_MAX - 1001);
	must(scratch_has(&blocks, s, ref));
	host_a64_add(&blocks.made, 1);
	must(!scratch_has(&blocks, s, ref));
	scratch_put(&blocks, s);
}

/* What is too large for a class of its own, and less than a page, does not take a page. */
CASE(a_block_of_most_of_a_page_is_two_objects)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct scratch *s;
	size_t n, at;

	open_blocks(4);
	s = scratch_get(&blocks);
	n = blocks.small - BLOCK_HEAD + 20;
	must(n + BLOCK_HEAD < PAGE_SIZE);
	fill_random(want, n, 3);
	for (at = 0; at < BLOCK_SLOTS / 4; at++)
		put_block(s, want, n);
	must_eq(ebb_stat(block_store, &stat), 0);
	must_be_at_most(stat.mem_used_total, at * n * 106 / 100 + 8 * PAGE_SIZE);
	scratch_put(&blocks, s);
}

/* Another object in the place of one of a block's. */
static void damage(struct rng *r, block_ref ref, unsigned int *slot)
{
	unsigned int objects = runs_length(&blocks.runs, (u32)(ref >> 32));
	unsigned char object[PAGE_SIZE];
	size_t bytes, at;

	*slot = (unsigned int)(ref >> 32) + (unsigned int)rng_below(r, objects);
	must_eq(ebb_get(block_store, *slot, object, sizeof(object), &bytes), 0);
	switch (rng_below(r, 3)) {
	case 0:
		at = rng_below(r, bytes < 16 ? bytes : 16);
		object[at] ^= (unsigned char)(1 + rng_below(r, 255));
		break;
	case 1:
		bytes = 1 + rng_below(r, bytes);
		break;
	default:
		at = rng_below(r, bytes);
		object[at] ^= (unsigned char)(1 + rng_below(r, 255));
	}
	must_eq(ebb_put(block_store, *slot, object, bytes), 0);
}

CASE(damaged_objects_are_no_block_or_do_not_decompress)
{
	struct rng r = { use_seed(0xda) };
	unsigned long refused = 0;
	struct scratch *s;

	open_blocks(0);
	s = scratch_get(&blocks);
	for (unsigned long i = 0; i < scaled(3000); i++) {
		size_t n = 1 + rng_below(&r, i % 2 ? BLOCK_BYTES : 9000), got_n;
		unsigned int slot;
		block_ref ref;
		int err;

		fill(&r, want, n);
		ref = put_block(s, want, n);
		damage(&r, ref, &slot);
		memset(got, 7, BLOCK_BYTES + 1);
		err = block_get(&blocks, s, ref, got, BLOCK_BYTES, &got_n);
		must(!err || err == -ESTALE || err == -EIO);
		must(err || got_n <= BLOCK_BYTES);
		must_eq(got[BLOCK_BYTES], 7);
		refused += err != 0;
		block_free(&blocks, ref);
	}
	must(refused);
	scratch_put(&blocks, s);
}

/* ---- threads ---- */

#define THREAD_UNITS 8u
#define THREAD_UNIT 16384u

static struct ebb_units *shared;
static u32 wrong, stop;

/* A unit is whole if all its words say the same. */
static void *write_wholes(void *arg)
{
	struct rng r = { (uintptr_t)arg };
	static _Thread_local uint64_t unit[THREAD_UNIT / 8];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint64_t i = rng_below(&r, THREAD_UNITS), noise = rng_below(&r, 3);

		for (size_t k = 0; k < ARRAY_LEN(unit); k++)
			unit[k] = noise ? k % 2 ? unit[0] * k : unit[0] : 0;
		unit[0] = noise ? rng_next(&r) : 0;
		for (size_t k = 1; k < ARRAY_LEN(unit); k++)
			unit[k] = unit[0] * (noise == 1 ? 1 : (k * 0x9e3779b97f4a7c15u | 1));
		if (ebb_units_write(shared, i * THREAD_UNIT, unit, sizeof(unit)))
			__atomic_store_n(&wrong, __LINE__, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void *read_wholes(void *arg)
{
	struct rng r = { (uintptr_t)arg };
	static _Thread_local uint64_t unit[THREAD_UNIT / 8];

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint64_t i = rng_below(&r, THREAD_UNITS), a = 1, b = 1;

		if (ebb_units_read(shared, i * THREAD_UNIT, unit, sizeof(unit)))
			__atomic_store_n(&wrong, __LINE__, __ATOMIC_RELAXED);
		for (size_t k = 1; k < ARRAY_LEN(unit); k++) {
			a &= unit[k] == unit[0];
			b &= unit[k] == unit[0] * (k * 0x9e3779b97f4a7c15u | 1);
		}
		if (!a && !b)
			__atomic_store_n(&wrong, __LINE__, __ATOMIC_RELAXED);
	}
	return NULL;
}

CASE(a_reader_sees_a_unit_old_or_new_and_whole)
{
	pthread_t thread[5];
	struct timespec rest = { 0, 10000000 };

	shared = open_units(THREAD_UNITS * THREAD_UNIT, THREAD_UNIT, NULL);
	wrong = stop = 0;
	for (uintptr_t i = 0; i < ARRAY_LEN(thread); i++)
		must_eq(pthread_create(&thread[i], NULL, i < 2 ? write_wholes : read_wholes,
				       (void *)(i + 1)), 0);
	for (unsigned long i = 0; i < scaled(60) && !wrong; i++)
		nanosleep(&rest, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < ARRAY_LEN(thread); i++)
		pthread_join(thread[i], NULL);
	must_eq(wrong, 0);
}

/* Each thread changes bytes of its own in units that all change. */
#define PART 100u

static void *change_parts(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	unsigned char mine[PART], seen[PART];
	struct rng r = { me };

	for (unsigned long i = 0; i < scaled(2000); i++) {
		uint64_t off = rng_below(&r, THREAD_UNITS) * THREAD_UNIT + me * PART;

		memset(mine, (int)rng_below(&r, 256), PART);
		if (ebb_units_write(shared, off, mine, PART) ||
		    ebb_units_read(shared, off, seen, PART) || memcmp(mine, seen, PART))
			__atomic_store_n(&wrong, __LINE__, __ATOMIC_RELAXED);
	}
	return NULL;
}

CASE(parts_that_threads_change_at_once_are_all_kept)
{
	pthread_t thread[4];

	shared = open_units(THREAD_UNITS * THREAD_UNIT, THREAD_UNIT, NULL);
	wrong = 0;
	for (uintptr_t i = 0; i < ARRAY_LEN(thread); i++)
		must_eq(pthread_create(&thread[i], NULL, change_parts, (void *)i), 0);
	for (unsigned int i = 0; i < ARRAY_LEN(thread); i++)
		pthread_join(thread[i], NULL);
	must_eq(wrong, 0);
}
