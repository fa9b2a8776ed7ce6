// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_store.c - the store against a plain array: what was written is what is read, in every
 * codec, synchronous and deferred, whatever happens in between.
 */
#include "support.h"
#include "store_calls.h"
#include "store/check.h"
#include "codecs/codecs.h"
#include "api/lazy.h"

#define SLOTS 300

enum kind { EMPTY, PAGE, BLOB };

struct model {
	enum kind kind;
	uint64_t seed;
	size_t size;            /* of a blob */
};

struct rig {
	bool is_open;
	struct source source;
	struct store store;
	struct model model[SLOTS];
};

static struct rig rig;
static unsigned char page[PAGE_SIZE + 1], got[PAGE_SIZE + 1];

static struct store_config config(void)
{
	return (struct store_config){
		.slots = SLOTS, .codec[0] = { .ops = &codec_lz4, .level = 1 }, .chain = 8,
		.release_limit = 1 << 20,
	};
}

static struct store *rig_open(const struct store_config *cfg)
{
	memset(&rig, 0, sizeof(rig));
	source_open(&rig.source);
	must_eq(store_init(&rig.store, &rig.source.pages, cfg), 0);
	rig.is_open = true;
	return &rig.store;
}

static void must_be_whole(void)
{
	must_hold(store_check(&rig.store));
	/* The worker may be between giving pages back and saying so. */
	hold_workers(&rig.store.release);
	must_eq(pages_out(&rig.source), store_pages_taken(&rig.store) + pcp_count(&rig.source.pcp));
	let_workers(&rig.store.release);
	must_be_sound(&rig.source);
}

static void rig_close(void)
{
	rig.is_open = false;
	store_destroy(&rig.store);
	source_close(&rig.source);
}

void after_each(void)
{
	if (rig.is_open)
		rig_close();
}

/* Nothing is deferred behind the test's back while store_check() looks. */
static void settle(void)
{
	release_flush(&rig.store.release);
	host_work_flush(&rig.store.release.node->worker->work);
}

/* ---- random steps ---- */

static void step_write(struct store *s, struct rng *rng, u64 i)
{
	uint64_t seed = rng_next(rng);
	size_t off = rng_below(rng, 2);         /* pages need not be aligned */
	int err;

	fill_page(page + off, seed);
	err = store_write(s, i, page + off, NUMA_NO_NODE);
	if (err) {
		must_eq(err, -EDQUOT);
		must(s->pool.limit != 0);
		return;
	}
	rig.model[i] = (struct model){ PAGE, seed, 0 };
}

static void step_put(struct store *s, struct rng *rng, u64 i)
{
	struct model m = { BLOB, rng_next(rng), 1 + rng_below(rng, PAGE_SIZE) };
	int err;

	if (!rng_below(rng, 8))
		m.size = PAGE_SIZE - rng_below(rng, 2);
	fill_random(page, m.size, m.seed);
	err = store_put(s, i, page, m.size, NUMA_NO_NODE);
	if (err) {
		must_eq(err, -EDQUOT);
		must(s->pool.limit != 0);
		return;
	}
	rig.model[i] = m;
}

static void verify(struct store *s, u64 i)
{
	const struct model *m = &rig.model[i];
	size_t bytes = 12345;

	memset(got, 0xee, sizeof(got));
	if (m->kind == BLOB) {
		must_eq(store_read(s, i, got), -EINVAL);
		must_eq(blob_get(s, i, got, PAGE_SIZE, &bytes), 0);
		must_eq(bytes, m->size);
		fill_random(page, m->size, m->seed);
		must(!memcmp(got, page, m->size));
		must_eq(got[m->size], 0xee);
		must_eq(blob_get(s, i, got, m->size - 1, &bytes), -ENOSPC);
		must_eq(bytes, m->size);
		return;
	}
	if (m->kind == PAGE)
		fill_page(page, m->seed);
	else
		memset(page, 0, PAGE_SIZE);
	must_eq(store_read(s, i, got + 1), 0);
	must(!memcmp(got + 1, page, PAGE_SIZE));
	must_eq(got[0], 0xee);
	must_eq(blob_get(s, i, got, PAGE_SIZE, &bytes), m->kind == PAGE ? -EINVAL : 0);
	must_eq(bytes, 0);
}

static void verify_all(struct store *s)
{
	for (u64 i = 0; i < SLOTS; i++)
		verify(s, i);
}

static void step_free(struct store *s, u64 i)
{
	must_eq(store_free(s, i), 0);
	rig.model[i].kind = EMPTY;
}

static void step_rare(struct store *s, struct rng *rng)
{
	static const u64 release_limit[] = { 0, 1, 5000, 100000, 1 << 20 };

	switch (rng_below(rng, 8)) {
	case 0:
		store_compact(s);
		break;
	case 1:
		release_flush(&s->release);
		must_eq(release_held(&s->release), 0);
		break;
	case 2:
		if (rng_below(rng, 10))
			break;
		store_reset(s);
		memset(rig.model, 0, sizeof(rig.model));
		must_eq(pool_pages(&s->pool), 0);
		break;
	case 3:
		WRITE_ONCE(s->pool.limit,
			   rng_below(rng, 2) ? 0 : pool_pages(&s->pool) << PAGE_SHIFT);
		break;
	case 4:
		if (s->release.limit)
			release_set_limit(&s->release, release_limit[1 + rng_below(rng, 4)]);
		break;
	case 5:
		pcp_decay(&rig.source.pcp);
		break;
	default:
		for (u64 i = rng_below(rng, SLOTS), end = i + 40; i < end && i < SLOTS; i++)
			step_free(s, i);
	}
}

static void random_steps(const struct codec_ops *codec, u64 release_limit, uint64_t seed)
{
	struct rng rng = { use_seed(seed) };
	struct store_config cfg = config();
	unsigned long steps = scaled(4000);
	struct store *s;

	cfg.codec[0].ops = codec;
	cfg.codec[0].level = codec->min_level > 0 ? codec->min_level : codec->default_level;
	cfg.release_limit = release_limit;
	cfg.chain = CHAIN_MIN + (unsigned int)rng_below(&rng, CHAIN_MAX - CHAIN_MIN + 1);
	s = rig_open(&cfg);
	for (unsigned long n = 0; n < steps; n++) {
		unsigned int op = (unsigned int)rng_below(&rng, 100);
		u64 i = rng_below(&rng, SLOTS);

		if (op < 30)
			step_write(s, &rng, i);
		else if (op < 45)
			step_put(s, &rng, i);
		else if (op < 75)
			verify(s, i);
		else if (op < 98)
			step_free(s, i);
		else
			step_rare(s, &rng);
		if (n % 250 == 249) {
			settle();
			must_be_whole();
		}
	}
	settle();
	must_be_whole();
	verify_all(s);
	store_compact(s);
	must_be_whole();
	verify_all(s);
	must_eq(store_count(s, CNT_SYNC) != 0, release_limit == 0);
	rig_close();
}

static void random_steps_of(const struct codec_ops *codec)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		random_steps(codec, 0, 0x100 + seed);
		random_steps(codec, 1 << 20, 0x200 + seed);
	}
}

CASE(random_operations_agree_with_a_plain_array_lz4)
{
	random_steps_of(&codec_lz4);
}

CASE(random_operations_agree_with_a_plain_array_lz4hc)
{
	random_steps_of(&codec_lz4hc);
}

CASE(random_operations_agree_with_a_plain_array_zstd)
{
	random_steps_of(&codec_zstd);
}

#if EBB_LZO
CASE(random_operations_agree_with_a_plain_array_lzo)
{
	random_steps_of(&codec_lzo);
}
#endif

/* ---- pages of one word ---- */

/* Words at the edges of each code of slot.h, and words that fit none. */
static const uint64_t words[] = {
	0, 1, 0xff, 0x7fffffffffff, 0x800000000000, 0xffffffffffff, 0x1000000000000,
	UINT64_MAX, UINT64_MAX - 1, 0xffff800000000000, 0xffff7fffffffffff, 0xffff000000000000,
	0x00007f1234567890, 0xabababababababab, 0x1234567812345678, 0x8000000080000000,
	0x3ff0000000000000, 0xbff8000000000000, 0x7ff0000000000000, 0x123456789abc0000,
	0xfedcba9876540000, 0x3fb999999999999a, 0x0102030405060708, 0xdeadbeefcafebabe,
	0x8000000000000001, 0x0001000000000001,
};

CASE(a_repeated_word_survives_its_code)
{
	struct rng rng = { use_seed(5) };

	for (unsigned int i = 0; i < 100000; i++) {
		uint64_t w = i < ARRAY_LEN(words) ? words[i] : rng_next(&rng), value;

		if (i >= ARRAY_LEN(words))
			w = rng_next(&rng) % 3 ? w & rng_next(&rng) << rng_below(&rng, 64)
					       : (uint64_t)((int64_t)w >> rng_below(&rng, 64));
		if (!slot_fill_code(w, &value))
			continue;
		must_eq(value & ~SLOT_VALUE, 0);
		must_eq(slot_fill_value(slot_make(SLOT_FILL, value)), w);
		must_eq(slot_type(slot_make(SLOT_FILL, value)), SLOT_FILL);
	}
}

CASE(pages_of_one_word_are_same_filled_whatever_the_word)
{
	struct store_config cfg = config();
	struct store *s = rig_open(&cfg);
	unsigned int objects = 0;

	for (u64 i = 0; i < ARRAY_LEN(words); i++) {
		u64 value;

		objects += !slot_fill_code(words[i], &value);
		fill_word(page, words[i]);
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	}
	must_eq(store_count(s, CNT_SAME), ARRAY_LEN(words));
	must_eq(store_count(s, CNT_ORIG_BYTES), ARRAY_LEN(words) * PAGE_SIZE);
	must_eq(store_count(s, CNT_COMPR_BYTES), objects * 8);
	must(objects && objects < ARRAY_LEN(words) / 2);
	must_be_at_most(pool_pages(&s->pool), 1);
	must_be_whole();
	for (u64 i = 0; i < ARRAY_LEN(words); i++) {
		fill_word(page, words[i]);
		must_eq(store_read(s, i, got), 0);
		must(!memcmp(got, page, PAGE_SIZE));
		must_eq(store_free(s, i), 0);
	}
	must_eq(store_count(s, CNT_SAME), 0);
	must_eq(store_count(s, CNT_ORIG_BYTES), 0);
	must_eq(store_count(s, CNT_FREED), ARRAY_LEN(words));
}

CASE(a_page_that_differs_in_one_byte_is_not_same_filled)
{
	static const size_t at[] = { 0, 7, 8, 9, PAGE_SIZE / 2, PAGE_SIZE - 16,
				     PAGE_SIZE - 8, PAGE_SIZE - 1 };
	struct store_config cfg = config();
	struct store *s = rig_open(&cfg);

	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		fill_word(page, 0xabababababababab);
		page[at[i]] ^= 1;
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
		must_eq(store_read(s, i, got), 0);
		must(!memcmp(got, page, PAGE_SIZE));
	}
	must_eq(store_count(s, CNT_SAME), 0);
}

/* ---- codecs that fail ---- */

static int codec_answer;

static int failing_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	return codec_answer;
}

CASE(what_a_codec_fails_with_is_told)
{
	static const struct {
		int answer, err;
	} cases[] = {
		{ -ENOMEM, -ENOMEM }, { -EIO, -EIO }, { -EINVAL, -EIO }, { 0, -EIO },
		{ INT32_MAX, -EIO },
	};
	static struct codec_ops codec;          /* of the store, to the end of the case */
	struct store_config cfg = config();
	struct store *s;

	codec = codec_lz4;
	codec.compress = failing_compress;
	cfg.codec[0].ops = &codec;
	s = rig_open(&cfg);
	fill_random(page, PAGE_SIZE, 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		codec_answer = cases[i].answer;
		must_eq(store_write(s, 0, page, NUMA_NO_NODE), cases[i].err);
		must_eq(store_count(s, CNT_ORIG_BYTES), 0);
	}
}

/* ---- sizes and limits ---- */

CASE(a_page_that_does_not_shrink_is_stored_raw)
{
	struct store_config cfg = config();
	struct store *s = rig_open(&cfg);

	fill_random(page, PAGE_SIZE, 1);
	must_eq(store_write(s, 0, page, NUMA_NO_NODE), 0);
	must_eq(store_count(s, CNT_HUGE), 1);
	must_eq(store_count(s, CNT_COMPR_BYTES), PAGE_SIZE);
	must_eq(pool_pages(&s->pool), 1);
	must_eq(store_read(s, 0, got), 0);
	must(!memcmp(got, page, PAGE_SIZE));
	memset(page, 'x', PAGE_SIZE / 2);
	must_eq(store_write(s, 0, page, NUMA_NO_NODE), 0);
	must_eq(store_count(s, CNT_HUGE), 0);
	must_eq(store_count(s, CNT_HUGE_SINCE), 1);
	must(store_count(s, CNT_COMPR_BYTES) < PAGE_SIZE * 3 / 4);
}

/* Fills slots with raw pages until one fails; returns how many went in. */
static u64 fill_up(struct store *s)
{
	u64 i;
	int err = 0;

	for (i = 0; !err && i < SLOTS; i++) {
		fill_random(page, PAGE_SIZE, i);
		err = store_write(s, i, page, NUMA_NO_NODE);
	}
	must_eq(err, -EDQUOT);
	return i - 1;
}

static void must_have(struct store *s, u64 from, u64 to)
{
	for (u64 i = from; i < to; i++) {
		fill_random(page, PAGE_SIZE, i);
		must_eq(store_read(s, i, got), 0);
		must(!memcmp(got, page, PAGE_SIZE));
	}
}

CASE(a_write_past_mem_limit_fails_and_changes_nothing)
{
	struct store_config cfg = config();
	struct store *s;
	u64 n;

	cfg.mem_limit = 40 * PAGE_SIZE;
	s = rig_open(&cfg);
	n = fill_up(s);
	must_eq(n, 40);
	must_eq(store_count(s, CNT_FAILED_WRITE), 1);
	must_be_at_most(pool_pages(&s->pool), 40);
	/* Over what is there, too. */
	fill_random(page, PAGE_SIZE, 999);
	must_eq(store_write(s, 3, page, NUMA_NO_NODE), -EDQUOT);
	must_eq(store_put(s, 4, page, 100, NUMA_NO_NODE), -EDQUOT);
	must_eq(store_count(s, CNT_FAILED_WRITE), 3);
	must_have(s, 0, n);
	must_be_whole();
	/* Pages of one word take nothing. */
	fill_word(page, 7);
	must_eq(store_write(s, SLOTS - 1, page, NUMA_NO_NODE), 0);
	for (u64 i = 0; i < n / 2; i++)
		must_eq(store_free(s, i), 0);
	must_have(s, n / 2, n);
	WRITE_ONCE(s->pool.limit, 0);
	must_eq(store_write(s, 3, page, NUMA_NO_NODE), 0);
	must_be_at_most(pool_pages_peak(&s->pool), 42);
}

/* Nor do writes that fail leave pages in the zspages that they would have had a part of. */
CASE(at_mem_limit_no_size_adds_a_page)
{
	struct store_config cfg = config();
	struct store *s;
	size_t bytes;
	u64 n = 0;

	cfg.mem_limit = 400 * PAGE_SIZE;
	cfg.release_limit = 0;
	cfg.slots = 10000;
	s = rig_open(&cfg);
	fill_random(page, PAGE_SIZE, 1);
	/* Most classes have a zspage that is not full. */
	for (bytes = 32; bytes < PAGE_SIZE; bytes += PAGE_SIZE / 200)
		must_eq(store_put(s, n++, page, bytes, NUMA_NO_NODE), 0);
	while (n < cfg.slots && !store_put(s, n, page, PAGE_SIZE, NUMA_NO_NODE))
		n++;
	must_eq(pool_pages(&s->pool), 400);
	for (bytes = 32; bytes < PAGE_SIZE; bytes += PAGE_SIZE / 200)
		while (n < cfg.slots && !store_put(s, n, page, bytes, NUMA_NO_NODE))
			n++;
	must(n < cfg.slots);
	must_eq(pool_pages(&s->pool), 400);
	must_eq(pool_pages_peak(&s->pool), 400);
	must_be_whole();
}

CASE(what_is_held_back_does_not_make_a_write_fail)
{
	struct store_config cfg = config();
	struct store *s;

	cfg.mem_limit = 40 * PAGE_SIZE;
	cfg.release_limit = 1 << 30;
	s = rig_open(&cfg);
	must_eq(fill_up(s), 40);
	for (unsigned int round = 0; round < 20; round++) {
		for (u64 i = 0; i < 40; i++)
			must_eq(store_free(s, i), 0);
		for (u64 i = 0; i < 40; i++) {
			fill_random(page, PAGE_SIZE, i);
			must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
		}
	}
	must_have(s, 0, 40);
}

CASE(reset_empties_every_slot_and_returns_every_page)
{
	struct store_config cfg = config();
	struct store *s = rig_open(&cfg);

	for (u64 i = 0; i < SLOTS; i++) {
		fill_page(page, i);
		must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	}
	store_reset(s);
	must_eq(pool_pages(&s->pool), 0);
	must_eq(zspage_table_pages(&s->pool.zspages), 0);
	must_eq(store_count(s, CNT_ORIG_BYTES), 0);
	must_eq(store_count(s, CNT_COMPR_BYTES), 0);
	must_be_whole();
	verify_all(s);
}

CASE(compaction_keeps_every_page_and_returns_some)
{
	struct store_config cfg = config();
	struct store *s = rig_open(&cfg);
	u64 before;

	for (u64 i = 0; i < SLOTS; i++) {
		rig.model[i] = (struct model){ BLOB, i, PAGE_SIZE / 8 - i % 3 };
		fill_random(page, rig.model[i].size, i);
		must_eq(store_put(s, i, page, rig.model[i].size, NUMA_NO_NODE), 0);
	}
	for (u64 i = 0; i < SLOTS; i++)
		if (i % 8)
			step_free(s, i);
	settle();
	before = pool_pages(&s->pool);
	must(store_compact(s) > 0);
	must(pool_pages(&s->pool) < before);
	must_be_whole();
	verify_all(s);
}

/* ---- arguments ---- */

CASE(a_slot_past_the_end_is_refused)
{
	static const u64 past[] = { SLOTS, SLOTS + 1, UINT32_MAX, (u64)UINT32_MAX + 1, UINT64_MAX };
	struct store_config cfg = config();
	struct store *s = rig_open(&cfg);
	size_t bytes;

	for (size_t k = 0; k < ARRAY_LEN(past); k++) {
		must_eq(store_write(s, past[k], page, NUMA_NO_NODE), -ERANGE);
		must_eq(store_put(s, past[k], page, 10, NUMA_NO_NODE), -ERANGE);
		must_eq(store_read(s, past[k], got), -ERANGE);
		must_eq(blob_get(s, past[k], got, 10, &bytes), -ERANGE);
		must_eq(store_free(s, past[k]), -ERANGE);
	}
	must_eq(store_put(s, 0, page, 0, NUMA_NO_NODE), -EINVAL);
	must_eq(store_put(s, 0, page, PAGE_SIZE + 1, NUMA_NO_NODE), -EINVAL);
}

CASE(a_config_out_of_range_is_refused)
{
	struct store_config good = config(), bad[6];
	struct source source;
	struct store store;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good;
	bad[0].slots = 0;
	bad[1].slots = (u64)1 << 32;
	bad[2].slots = UINT64_MAX;
	bad[3].chain = CHAIN_MIN - 1;
	bad[4].chain = CHAIN_MAX + 1;
	bad[5].chain = 0;
	source_open(&source);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		must_eq(store_init(&store, &source.pages, &bad[i]), -EINVAL);
	source_close(&source);
}

/* ---- streams ---- */

static struct codec_ops counted;
static unsigned int contexts, refused;
static bool no_memory;

static void *counted_create(const struct codec_params *p)
{
	if (no_memory) {
		refused++;
		return NULL;
	}
	contexts++;
	return codec_lz4.create(p);
}

static void counted_destroy(void *ctx)
{
	contexts--;
	codec_lz4.destroy(ctx);
}

static void write_and_read(struct store *s, u64 i)
{
	fill_page(page, i + 1);
	must_eq(store_write(s, i, page, NUMA_NO_NODE), 0);
	must_eq(store_read(s, i, got), 0);
	must(!memcmp(page, got, PAGE_SIZE));
}

/* ---- what a codec prepares for all its contexts ---- */

static unsigned int prepared, released, others;
static int prepare_says;

static int counted_prepare(struct codec_params *p)
{
	must_eq(p->level, 7);
	must(!p->prepared);
	prepared++;
	if (!prepare_says)
		p->prepared = &prepared;
	return prepare_says;
}

static void counted_release(struct codec_params *p)
{
	must(p->prepared == &prepared);
	must_eq(contexts, others);
	released++;
}

static void *prepared_create(const struct codec_params *p)
{
	must_eq(p->level, 7);
	must(p->prepared == &prepared);
	return counted_create(p);
}

CASE(what_contexts_share_is_made_once_and_ends_after_them)
{
	struct store_config cfg = config();
	struct store other;

	counted = codec_lz4;
	counted.create = prepared_create;
	counted.destroy = counted_destroy;
	counted.prepare = counted_prepare;
	counted.release = counted_release;
	prepared = released = others = 0;
	cfg.codec[0].ops = &counted;
	cfg.codec[0].level = 7;
	host_user_set_nr_cpus(4);
	rig_open(&cfg);
	must_eq(prepared, 1);
	must_eq(contexts, 4);
	write_and_read(&rig.store, 1);
	prepare_says = -EINVAL;
	must_eq(store_init(&other, &rig.source.pages, &cfg), -EINVAL);
	must_eq(contexts, 4);
	must_eq(prepared, 2);
	prepare_says = 0;
	/* Contexts fail after it: it ends. */
	no_memory = true;
	others = 4;
	must_eq(store_init(&other, &rig.source.pages, &cfg), -ENOMEM);
	no_memory = false;
	must_eq(prepared, 3);
	must_eq(released, 1);
	others = 0;
	rig_close();
	must_eq(released, 2);
	must_eq(contexts, 0);
	host_user_set_nr_cpus(0);
}

CASE(contexts_are_shared_made_when_needed_and_gone_when_idle)
{
	const struct codec_params params = { .level = 1 };
	struct store_config cfg = config();
	struct lazy_streams lazy;
	struct store other;
	unsigned int cpu;

	counted = codec_lz4;
	counted.create = counted_create;
	counted.destroy = counted_destroy;
	refused = 0;
	cfg.codec[0].ops = &counted;
	host_user_set_nr_cpus(64);
	must_eq(lazy_init(&lazy, &counted, &params), 0);
	must_eq(contexts, 1);
	cfg.streams = &lazy.streams;
	rig_open(&cfg);
	must_eq(store_init(&other, &rig.source.pages, &cfg), 0);
	must_eq(contexts, 1);
	/* The first one, on whichever CPU this thread goes on. */
	for (cpu = 0; cpu < 64; cpu++)
		lazy.streams.first[cpu] = 1;
	write_and_read(&rig.store, 1);
	must_eq(contexts, 1);

	/* This CPU's own is another from now on; without memory for it the first one does. */
	for (cpu = 0; cpu < 64; cpu++)
		lazy.streams.first[cpu] = 8;
	no_memory = true;
	write_and_read(&rig.store, 2);
	must_eq(refused, 2);
	must_eq(contexts, 1);
	no_memory = false;
	write_and_read(&rig.store, 2);
	write_and_read(&other, 2);
	must_eq(contexts, 2);

	/* The first look sees that it was used, the next that it was not since. */
	must(lazy_trim(&lazy.streams));
	must_eq(contexts, 2);
	write_and_read(&other, 3);
	must(lazy_trim(&lazy.streams));
	must_eq(contexts, 2);
	must(!lazy_trim(&lazy.streams));
	must_eq(contexts, 1);
	write_and_read(&rig.store, 4);
	must_eq(contexts, 2);

	store_destroy(&other);
	rig_close();
	must_eq(contexts, 2);
	lazy_destroy(&lazy);
	must_eq(contexts, 0);
	host_user_set_nr_cpus(0);
}
