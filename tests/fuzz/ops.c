// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ops.c - fuzzes the store: any sequence of operations against plain copies.
 *
 *     input: codec, chain, slots, release limit; then one operation after the other
 *
 * The worker of the release stage and its timer run beside it, as in real life.  Allocations
 * (of pages, too) may be made to fail: then, or over mem_limit, -ENOMEM is a right answer,
 * and leaves the slot as it was.
 */
#include "fuzz.h"
#include "store_calls.h"
#include "store/check.h"
#include "codecs/codecs.h"

#define SLOTS_MAX 64
#define OPS_MAX 400

enum kind { EMPTY, PAGE, BLOB };

struct copy {
	enum kind kind;
	size_t bytes;
	unsigned char data[PAGE_SIZE];
};

static struct copy model[SLOTS_MAX];
static unsigned char page[PAGE_SIZE], got[PAGE_SIZE + 1];
static struct source source;
static struct store store;
static unsigned int slots;
static u64 failing;             /* allocations from here on that fail; worker and caller share it */

static bool fail_now(void)
{
	u64 n = __atomic_load_n(&failing, __ATOMIC_RELAXED);

	while (n && !__atomic_compare_exchange_n(&failing, &n, n - 1, false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
		;
	return n != 0;
}

static void make_page(struct choices *c)
{
	unsigned int kind = take_below(c, 6);
	size_t n;

	switch (kind) {
	case 0:
		fill_word(page, 0);
		break;
	case 1:
		fill_word(page, take(c, 8));
		break;
	case 2:
		fill_random(page, PAGE_SIZE, take(c, 1));
		break;
	case 3:         /* one byte off one word */
		fill_word(page, take(c, 2));
		page[take_below(c, PAGE_SIZE)] ^= 1;
		break;
	case 4:         /* noise up to somewhere: a size of its own */
		memset(page, 'm', PAGE_SIZE);
		fill_random(page, take_below(c, PAGE_SIZE), take(c, 1));
		break;
	default:        /* the input itself, over and over */
		n = 1 + take_below(c, 64);
		for (size_t i = 0; i < n; i++)
			page[i] = (unsigned char)take(c, 1);
		for (size_t i = n; i < PAGE_SIZE; i++)
			page[i] = page[i - n];
	}
}

static bool may_fail;           /* something was said that lets a write fail */

static void op_write(struct choices *c, u64 i)
{
	int err;

	make_page(c);
	err = store_write(&store, i, page, NUMA_NO_NODE);
	must(!err || ((err == -ENOMEM || err == -EDQUOT) && may_fail));
	if (err)
		return;
	model[i].kind = PAGE;
	memcpy(model[i].data, page, PAGE_SIZE);
}

static void op_put(struct choices *c, u64 i)
{
	size_t bytes = 1 + take_below(c, PAGE_SIZE);
	int err;

	fill_random(page, bytes, take(c, 1));
	err = store_put(&store, i, page, bytes, NUMA_NO_NODE);
	must(!err || ((err == -ENOMEM || err == -EDQUOT) && may_fail));
	if (err)
		return;
	model[i].kind = BLOB;
	model[i].bytes = bytes;
	memcpy(model[i].data, page, bytes);
}

static void verify(u64 i)
{
	const struct copy *m = &model[i];
	size_t bytes = 1;

	memset(got, 0xee, sizeof(got));
	if (m->kind == BLOB) {
		must_eq(store_read(&store, i, got), -EINVAL);
		must_eq(got[0], 0xee);
		must_eq(blob_get(&store, i, got, m->bytes, &bytes), 0);
		must_eq(bytes, m->bytes);
		must(!memcmp(got, m->data, bytes));
		must_eq(got[bytes], 0xee);
		return;
	}
	must_eq(store_read(&store, i, got), 0);
	must(m->kind == EMPTY ? same_byte(got, 0, PAGE_SIZE)
			      : !memcmp(got, m->data, PAGE_SIZE));
	must_eq(got[PAGE_SIZE], 0xee);
	must_eq(blob_get(&store, i, got, PAGE_SIZE, &bytes), m->kind == PAGE ? -EINVAL : 0);
	must_eq(bytes, 0);
}

static void op_free(u64 i, u64 n)
{
	for (; n && i < slots; i++, n--) {
		must_eq(store_free(&store, i), 0);
		model[i].kind = EMPTY;
	}
}

static void empty_all(void)
{
	for (unsigned int i = 0; i < slots; i++)
		model[i].kind = EMPTY;
}

/* Nobody else uses the store, once the worker rests. */
static void check_all(void)
{
	release_flush(&store.release);
	host_work_flush(&store.release.node->worker->work);
	must_eq(release_held(&store.release), 0);
	must_hold(store_check(&store));
	must_eq(pages_out(&source), store_pages_taken(&store) + pcp_count(&source.pcp));
	must_be_sound(&source);
}

static void set_mem_limit(struct choices *c)
{
	u64 pages = take(c, 1);

	/* 0: none; then from none left to some left. */
	WRITE_ONCE(store.pool.limit,
		   pages ? (pool_pages(&store.pool) + pages / 16) << PAGE_SHIFT : 0);
	may_fail |= pages != 0;
}

static void set_failing(struct choices *c)
{
	unsigned int n = take_below(c, 8);

	/* 7: all, until it is said again. */
	__atomic_store_n(&failing, n == 7 ? UINT64_MAX : n, __ATOMIC_RELAXED);
	may_fail |= n != 0;
}

static u64 release_limit(struct choices *c)
{
	static const u64 limit[] = { 0, 1, 5000, 40000, 1 << 20, UINT64_MAX };

	return limit[take_below(c, ARRAY_LEN(limit))];
}

static void op_rare(struct choices *c)
{
	switch (take_below(c, 10)) {
	case 0:
		store_compact(&store);
		break;
	case 1:
		release_flush(&store.release);
		break;
	case 2:
		set_mem_limit(c);
		break;
	case 3:
		release_set_limit(&store.release, release_limit(c));
		break;
	case 4:
		store_reset(&store);
		empty_all();
		must_eq(pool_pages(&store.pool), 0);
		break;
	case 5:
		check_all();
		break;
	case 6:
		set_failing(c);
		break;
	case 7:
		pcp_drain(&source.pcp);
		break;
	case 8:
		pcp_decay(&source.pcp);
		if (take(c, 1) % 2)
			zone_trim(source.zone, NULL);
		else
			zone_decay(source.zone, 1000000);
		break;
	default:
		pool_reset_peak(&store.pool);
		release_reset_peak(&store.release);
		must_eq(pool_pages_peak(&store.pool), pool_pages(&store.pool));
	}
}

static void one_op(struct choices *c)
{
	unsigned int op = take_below(c, 16);
	u64 i = take_below(c, slots);

	if (op < 5)
		op_write(c, i);
	else if (op < 7)
		op_put(c, i);
	else if (op < 10)
		verify(i);
	else if (op < 12)
		op_free(i, 1);
	else if (op < 14)
		op_free(i, take(c, 1));
	else
		op_rare(c);
}

static void open_store(struct choices *c)
{
	struct store_config cfg = {
		.codec[0] = { .ops = user_codecs[take_below(c, 4)] },
		.chain = CHAIN_MIN + take_below(c, CHAIN_MAX - CHAIN_MIN + 1),
		.slots = 1 + take_below(c, SLOTS_MAX),
		.release_limit = release_limit(c),
	};

	/* A level whose context is small: making one is most of the time otherwise. */
	cfg.codec[0].level = cfg.codec[0].ops->min_level;
	slots = (unsigned int)cfg.slots;
	empty_all();
	failing = 0;
	may_fail = false;
	must_eq(store_init(&store, &source.pages, &cfg), 0);
}

static void close_store(void)
{
	__atomic_store_n(&failing, 0, __ATOMIC_RELAXED);
	check_all();
	for (u64 i = 0; i < slots; i++)
		verify(i);
	store_compact(&store);
	check_all();
	for (u64 i = 0; i < slots; i++)
		verify(i);
	op_free(0, slots);
	check_all();
	must_eq(pool_pages(&store.pool), 0);
	store_destroy(&store);
	pcp_drain(&source.pcp);
	must_eq(pages_out(&source), 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct choices c = { data, data + n };

	open_store(&c);
	for (unsigned int i = 0; i < OPS_MAX && left(&c); i++)
		one_op(&c);
	close_store();
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_init();
	host_user_set_nr_cpus(2);
	/* One for all inputs; each must give back what it took. */
	source_open(&source);
	host_user_fail = fail_now;
	return 0;
}
