// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_cache_dict.c - a cache learns what short values have in common, where that saves memory, and
 * reads what it stored before and since.
 */
#include "cache_rig.h"

#include "codecs/codecs.h"

#include <errno.h>
#include <malloc.h>
#include <unistd.h>

#define ROOM 30000u

/* A record of a table: its names are in each, its numbers in none. */
static size_t record(unsigned char *p, u64 key)
{
	struct rng r = { key };
	size_t n = 0;
	unsigned int i, fields = 2 + (unsigned int)rng_below(&r, 20);

	for (i = 0; i < fields; i++)
		n += (size_t)snprintf((char *)p + n, ROOM - n,
				      "{\"customer\":%u,\"street and number\":\"%x\",\"paid\":%s},",
				      (unsigned int)rng_below(&r, 100000),
				      (unsigned int)rng_next(&r),
				      rng_below(&r, 2) ? "true" : "false");
	return n;
}

static size_t noise(unsigned char *p, u64 key)
{
	struct rng r = { key };
	size_t n = 100 + rng_below(&r, 3000), i;

	for (i = 0; i < n; i++)
		p[i] = (unsigned char)rng_next(&r);
	return n;
}

static struct ebb_cache *open_flags(u64 capacity, const char *codec, u32 flags, const char *spill)
{
	struct ebb_cache_config cfg;
	struct ebb_cache *c;

	ebb_cache_config_init(&cfg);
	cfg.capacity = capacity;
	cfg.codec = codec;
	cfg.flags = flags;
	cfg.spill = spill;
	cfg.spill_capacity = spill ? 64 * MIB : 0;
	must_eq(open_cache_of(&c, &cfg), 0);
	return c;
}

static bool has_all_samples(struct ebb_cache *c)
{
	bool all;

	mutex_lock(&c->dict.lock);
	all = c->dict.count && !c->dict.wants;
	mutex_unlock(&c->dict.lock);
	return all;
}

/* Puts values from on until there is a dictionary, or n of them are there; then waits for it. */
static u64 learn(struct ebb_cache *c, size_t (*value)(unsigned char *, u64), u64 n)
{
	static unsigned char data[ROOM];
	u64 key = 0;

	while (key < n && !stat_of(c).dictionary_bytes) {
		size_t bytes = value(data, ++key);

		must_eq(put(c, key, data, bytes, key), 0);
		if (key % 64 == 0 && has_all_samples(c))
			host_work_flush(&c->dict.train);
	}
	host_work_flush(&c->dict.train);
	return key;
}

/* How many of keys from + 1 to to are there; each is what was put. */
static u64 are_right(struct ebb_cache *c, size_t (*value)(unsigned char *, u64), u64 from, u64 to)
{
	static unsigned char data[ROOM], buf[ROOM];
	u64 key, found = 0, evicted = stat_of(c).evicted;
	size_t n;

	for (key = from + 1; key <= to; key++) {
		size_t want = value(data, key);
		int err = get(c, key, buf, sizeof(buf), &n);

		/* What comes back from a spill evicts others: the file keeps up with them. */
		if (stat_of(c).evicted >= evicted + 64) {
			ebb_cache_flush(c);
			evicted = stat_of(c).evicted;
		}

		must(!err || err == -ENOENT);
		if (err)
			continue;
		must_eq(n, want);
		must(!memcmp(buf, data, n));
		found++;
	}
	return found;
}

static u64 bytes_of_each(struct ebb_cache *c)
{
	struct ebb_cache_stat st = stat_of(c);

	return st.object_bytes / st.values;
}

CASE(what_values_have_in_common_is_learnt)
{
	struct ebb_cache *with = open_cache(32 * MIB, "zstd");
	struct ebb_cache *without = open_flags(32 * MIB, "zstd", EBB_CACHE_NO_DICTIONARY, NULL);
	u64 known = learn(with, record, 20000), i;
	static unsigned char data[ROOM];
	struct ebb_cache_stat st = stat_of(with);

	must(st.dictionary_bytes > 8192);
	must_be_at_most(st.dictionary_bytes, st.meta_bytes);
	must_be_at_most(known, 10000);
	/* What came before has none; what comes is the smaller for it. */
	must_eq(are_right(with, record, 0, known), known);
	must_eq(learn(without, record, known), known);
	must_eq(stat_of(without).dictionary_bytes, 0);
	/* It counts, beside what the other has as well. */
	must(st.meta_bytes >= stat_of(without).meta_bytes + st.dictionary_bytes);
	must_eq(bytes_of_each(with), bytes_of_each(without));
	for (i = 1; i <= known; i++) {
		size_t n = record(data, i);

		must_eq(put(with, i, data, n, i), 0);
	}
	printf("# bytes of a value: %" PRIu64 ", with a dictionary %" PRIu64 "\n",
	       bytes_of_each(without), bytes_of_each(with));
	must_be_at_most(bytes_of_each(with) * 100, bytes_of_each(without) * 85);
	must_eq(are_right(with, record, 0, known), known);
}

CASE(none_is_made_where_it_saves_nothing)
{
	struct ebb_cache *c = open_cache(32 * MIB, "zstd");

	learn(c, noise, 6000);
	must(!c->dict.wants && !c->dict.sample);
	must_eq(stat_of(c).dictionary_bytes, 0);
	close_cache(c);

	c = open_cache(32 * MIB, "lz4");
	learn(c, record, 4000);
	must_eq(stat_of(c).dictionary_bytes, 0);
	close_cache(c);

	/* A small cache has no room for one, and learns when it is larger. */
	c = open_cache(16 * MIB, "zstd");
	learn(c, record, 4000);
	must_eq(stat_of(c).dictionary_bytes, 0);
	must_eq(ebb_cache_set_capacity(c, 64 * MIB), 0);
	learn(c, record, 20000);
	must(stat_of(c).dictionary_bytes > 0);
}

/* Samples are a part of the capacity that they were begun with: a small one has no room. */
CASE(samples_go_with_the_capacity)
{
	static unsigned char data[1200000];
	struct ebb_cache *c = open_cache(1024 * MIB, "zstd");
	u64 key, n, before = stat_of(c).meta_bytes;

	for (key = 1; key < 200; key++) {
		n = record(data, key);
		must_eq(put(c, key, data, n, 0), 0);
	}
	must(c->dict.sample && c->dict.room > 3 * MIB);
	must(stat_of(c).meta_bytes > before + c->dict.room);
	must_eq(ebb_cache_set_capacity(c, EBB_CACHE_CAPACITY_MIN), 0);
	must(!c->dict.sample && !c->dict.count);
	must_be_at_most(stat_of(c).meta_bytes, 3 * MIB);
	fill(data, sizeof(data), 0);
	must_eq(put(c, 0, data, sizeof(data), 0), 0);
	must_eq(ebb_cache_set_capacity(c, 32 * MIB), 0);
	learn(c, record, 20000);
	must(stat_of(c).dictionary_bytes > 0);
}

static u64 malloced(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* At a high level zstd copies a dictionary's tables into each context: they count. */
CASE(a_context_takes_no_more_than_is_counted)
{
	static unsigned char bytes[1 << 19], packed[1 << 16];
	static const int levels[] = { 3, 10, 11, 16, 19, 22 };
	static size_t len[1000];
	struct samples s = { bytes, len, 0 };
	size_t at = 0, i, n;
	u64 with, without;

	while (s.count < 1000 && at + ROOM <= sizeof(bytes)) {
		len[s.count] = record(bytes + at, s.count);
		at += len[s.count++];
	}
	for (i = 0; i < ARRAY_LEN(levels); i++) {
		struct blocks b = { .codec = &codec_zstd, .params = { .level = levels[i] } };
		struct dictionary *d = dictionary_train(&s, 112 << 10, levels[i], &with, &without);
		u64 before, took, counted;
		void *ctx;

		must(d);
		before = malloced();
		ctx = codec_zstd.create(&b.params);
		must(ctx);
		for (n = 4096; n <= 24576; n += 4096)
			must(dictionary_compress(d, ctx, bytes, n, packed, sizeof(packed)) > 0);
		b.largest = 24576;
		b.dictionary_bytes = dictionary_bytes(d);
		took = malloced() - before;
		counted = blocks_context_bytes(&b);
		if (getenv("EBB_TEST_FIGURES"))
			printf("# level %d: %" PRIu64 " KiB, counted %" PRIu64 "\n", levels[i],
			       took >> 10, counted >> 10);
		must_be_at_most(took, counted + counted / 16);
		codec_zstd.destroy(ctx);
		dictionary_free(d);
	}
}

/* Of another kind than those that it was made of: bytes of this program, cut anywhere. */
static size_t other(unsigned char *p, u64 key)
{
	static unsigned char program[1 << 20];
	static size_t there;
	struct rng r = { key };
	size_t n = 60 + rng_below(&r, 4000);

	if (!there) {
		FILE *f = fopen("/proc/self/exe", "r");

		must(f);
		there = fread(program, 1, sizeof(program), f);
		must(there > 8192 && !fclose(f));
	}
	memcpy(p, program + rng_below(&r, there - n), n);
	return n;
}

/* The dictionary alone would cost an eighth here; when the first kind comes back it helps again. */
CASE(values_of_another_kind_take_hardly_more)
{
	struct ebb_cache *with = open_cache(32 * MIB, "zstd");
	struct ebb_cache *without = open_flags(32 * MIB, "zstd", EBB_CACHE_NO_DICTIONARY, NULL);
	static unsigned char data[ROOM];
	u64 known = learn(with, record, 20000), i;

	must(stat_of(with).dictionary_bytes);
	for (i = 1; i <= known; i++)
		must_eq(ebb_cache_delete(with, &i, sizeof(i)), 0);
	for (i = 1; i <= 3000; i++) {
		size_t n = other(data, i);

		must_eq(put(with, i, data, n, 0), 0);
		must_eq(put(without, i, data, n, 0), 0);
	}
	printf("# bytes of a value of another kind: %" PRIu64 ", with the dictionary %" PRIu64 "\n",
	       bytes_of_each(without), bytes_of_each(with));
	must_be_at_most(bytes_of_each(with) * 100, bytes_of_each(without) * 105);
	must(with->dict.harms);
	must_eq(are_right(with, other, 0, 3000), 3000);
	for (i = 1; i <= 3000; i++) {
		size_t n = record(data, i);

		must_eq(put(with, i, data, n, 0), 0);
		must_eq(put(without, i, data, n, 0), 0);
	}
	must(!with->dict.harms);
	must_be_at_most(bytes_of_each(with) * 100, bytes_of_each(without) * 90);
	must_eq(are_right(with, record, 0, 3000), 3000);
}

CASE(what_comes_back_from_a_spill_is_what_was_put)
{
	const char *tmp = getenv("TMPDIR");
	char path[100];
	struct ebb_cache *c;
	u64 known, from, found;
	int fd;

	snprintf(path, sizeof(path), "%s/ebb-dict-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(path);
	must(fd >= 0 && !close(fd));
	c = open_flags(32 * MIB, "zstd", 0, path);
	known = learn(c, record, 20000);
	must(stat_of(c).dictionary_bytes > 0);
	for (from = known; stat_of(c).spilled < 4000 && known < 400000; known++) {
		static unsigned char data[ROOM];
		size_t n = record(data, known + 1);

		must_eq(put(c, known + 1, data, n, 0), 0);
		/* The file keeps up, however slow it is: what it has no time for is dropped. */
		if (known % 64 == 0)
			ebb_cache_flush(c);
	}
	must_eq(ebb_cache_flush(c), 0);
	must_be_at_most(stat_of(c).used_bytes, 32 * MIB / 100 * 106);
	found = are_right(c, record, 0, from + 4000);
	must(found > from);
	must(stat_of(c).spill_hits > 1000);
	must_eq(stat_of(c).spill_bad, 0);
	close_cache(c);
	unlink(path);
}

/* Bytes that are no samples one would choose: all alike, too few, too short, in one piece. */
CASE(strange_samples_make_none_or_a_good_one)
{
	static unsigned char bytes[1 << 20], packed[1 << 20], back[1 << 20];
	static size_t len[65536];
	static const size_t lens[] = { 1, 7, 8, 9, 63, 64, 65, 300, 4096, 1 << 16 };
	struct codec_params params = { .level = codec_zstd.default_level };
	void *ctx = codec_zstd.create(&params);
	unsigned int i, kind, made = 0;
	u64 with, without;

	must(ctx);
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		for (kind = 0; kind < 4; kind++) {
			struct samples s = { bytes, len, 0 };
			struct dictionary *d;
			size_t at = 0, want;

			memset(bytes, 0, sizeof(bytes));
			while (at + lens[i] <= sizeof(bytes) && s.count < 65536) {
				if (kind == 1 && s.count == 15)
					break;
				if (kind >= 2)
					fill(bytes + at, lens[i], kind == 2 ? 3 : s.count);
				len[s.count++] = lens[i];
				at += lens[i];
			}
			d = dictionary_train(&s, 1024u << (i % 8), params.level, &with, &without);
			if (!d)
				continue;
			made++;
			must(kind != 1 && without);
			want = lens[i] < 5000 ? lens[i] : 5000;
			must((at = (size_t)dictionary_compress(d, ctx, bytes, want, packed,
							       sizeof(packed))) < sizeof(packed));
			if (at >= 5) {
				must_eq(dictionary_decompress(d, ctx, packed, at, back, want), 0);
				must(!memcmp(back, bytes, want));
			}
			dictionary_free(d);
			/* The context is let go of a dictionary before that goes: here it goes. */
			must(dictionary_compress(NULL, ctx, bytes, want, packed,
						 sizeof(packed)) > 0);
			dictionary_decompress(NULL, ctx, packed, 5, back, want);
		}
	must(made);
	codec_zstd.destroy(ctx);
}

/* What is stored and damaged is refused, or other bytes; nothing else happens. */
CASE(damaged_bytes_are_no_harm)
{
	static unsigned char bytes[1 << 18], packed[ROOM], bad[ROOM], back[ROOM];
	static size_t len[400];
	struct codec_params params = { .level = codec_zstd.default_level };
	void *ctx = codec_zstd.create(&params);
	struct samples s = { bytes, len, 0 };
	struct rng r = { use_seed(77) };
	unsigned long i, refused = 0, steps = scaled(20000);
	struct dictionary *d;
	u64 with, without;
	size_t at = 0, n;
	int got;

	while (s.count < 100) {
		n = record(packed, s.count);
		must(at + n <= sizeof(bytes));
		memcpy(bytes + at, packed, n);
		len[s.count++] = n;
		at += n;
	}
	d = dictionary_train(&s, 8192, params.level, &with, &without);
	must(d && with < without);
	got = dictionary_compress(d, ctx, bytes, len[0], packed, sizeof(packed));
	must(got > 0);
	must_eq(codec_zstd.decompress(ctx, packed, (size_t)got, back, len[0]), -EIO);
	for (i = 0; i < steps; i++) {
		memcpy(bad, packed, (size_t)got);
		bad[rng_below(&r, (u64)got)] ^= (unsigned char)(1 + rng_below(&r, 255));
		n = rng_below(&r, 4) ? (size_t)got : rng_below(&r, (u64)got);
		back[len[0]] = 0x5a;
		refused += dictionary_decompress(d, ctx, bad, n, back, len[0]) != 0;
		must_eq(back[len[0]], 0x5a);
		must_eq(dictionary_decompress(d, ctx, packed, (size_t)got, back, len[0]), 0);
		must(!memcmp(back, bytes, len[0]));
	}
	must(refused);
	codec_zstd.destroy(ctx);
	dictionary_free(d);
}
