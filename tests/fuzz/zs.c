// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zs.c - fuzzes the zs_* interface (kernel/zsmalloc/zs.c) against plain copies.
 *
 *     input: chain, release limit; then one operation after the other
 *
 * Objects come, are written, read in all ways and go, one by one and in bulk; a reader may keep an
 * object for any number of other operations, as one that sleeps does.  Pages move, and zspages stay
 * pinned for a while.  The worker of the release stage runs beside it.  Allocations (of pages, too)
 * may be made to fail.
 */
#include "fuzz.h"
#include "check.h"
#include "migrate.h"
#include "zsmalloc/zspool.h"

#define OBJECTS 96
#define OPS_MAX 500

struct object {
	unsigned long handle;           /* 0: none */
	size_t bytes;
	unsigned int readers;
	unsigned char data[HOST_PAGE_SIZE];
};

/* A read that was begun. */
struct reader {
	struct object *of;              /* NULL: none */
	size_t bytes;
	bool is_sg;
	struct scatterlist sg[2];
	void *mem, *copy;
};

struct task_struct shim_task;

/* Whether what is allocated must start no I/O. */
static unsigned int noio;

unsigned int memalloc_noio_save(void)
{
	return noio++;
}

void memalloc_noio_restore(unsigned int was)
{
	must_eq(--noio, was);
}

static struct object object[OBJECTS];
static struct reader reader[4];
/* What kernel/zsmalloc/migrate.c keeps in pages: the zspage that it was last told of. */
#define TAGGED 1024
static struct tagged {
	host_page page;
	u64 tag;
} tagged[TAGGED];
static unsigned int ntagged;    /* ever; the oldest are forgotten */
static struct tagged pinned[3]; /* tag 0: none */

static struct source source, movable;
static struct zs_pool pool;
static u64 failing;             /* allocations from here on that fail; worker and caller share it */
static bool may_fail;

static bool fail_now(void)
{
	u64 n = __atomic_load_n(&failing, __ATOMIC_RELAXED);

	while (n && !__atomic_compare_exchange_n(&failing, &n, n - 1, false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
		;
	return n != 0;
}

static void tend(struct host_work *w)
{
	bool aged;

	(void)w;
	pcp_tend(&source.pcp, &aged);
	pcp_tend(&movable.pcp, &aged);
}

/* ---- one object ---- */

static void must_be_new(unsigned long handle)
{
	must(handle && !IS_ERR_VALUE(handle));
	for (unsigned int i = 0; i < OBJECTS; i++)
		must(object[i].handle != handle);
}

/* Who may not wait, and those who do not reclaim, are refused sooner. */
static gfp_t take_gfp(struct choices *c)
{
	static const gfp_t gfp[] = {
		GFP_KERNEL, GFP_KERNEL | __GFP_MOVABLE, GFP_NOWAIT | __GFP_MOVABLE,
		GFP_NOWAIT | __GFP_NOMEMALLOC,
	};

	shim_task.flags = take_below(c, 2) ? PF_MEMALLOC : 0;
	return gfp[take_below(c, ARRAY_LEN(gfp))];
}

static void op_malloc(struct choices *c, struct object *o)
{
	size_t bytes = take_below(c, HOST_PAGE_SIZE + 16);
	gfp_t gfp = take_gfp(c);
	unsigned long handle;

	if (o->handle)
		return;
	handle = zs_malloc(&pool, bytes, gfp, take_below(c, 2) ? 0 : -1);
	if (!bytes) {
		must_eq(handle, (unsigned long)-EINVAL);
	} else if (bytes > HOST_PAGE_SIZE) {
		must_eq(handle, (unsigned long)-ENOSPC);
	} else if (IS_ERR_VALUE(handle)) {
		must_eq(handle, (unsigned long)-ENOMEM);
		must(may_fail || gfp & GFP_NOWAIT);
	} else {
		must_be_new(handle);
		o->handle = handle;
		o->bytes = bytes;
		fill_random(o->data, bytes, take(c, 1));
		zs_obj_write(&pool, handle, o->data, bytes);
	}
}

/* The first bytes anew; the rest stays. */
static void op_write(struct choices *c, struct object *o)
{
	size_t bytes;
	void *exact;

	if (!o->handle || o->readers)
		return;
	bytes = 1 + take_below(c, (unsigned int)o->bytes);
	fill_random(o->data, bytes, take(c, 1));
	exact = exactly(o->data, bytes);
	zs_obj_write(&pool, o->handle, exact, bytes);
	free(exact);
}

static void begin(struct choices *c, struct reader *r, struct object *o)
{
	if (!o->handle || r->of)
		return;
	*r = (struct reader){ .of = o, .bytes = o->bytes, .is_sg = take_below(c, 2) };
	if (!take_below(c, 4))
		r->bytes = 1 + take_below(c, (unsigned int)o->bytes);
	o->readers++;
	if (r->is_sg) {
		zs_obj_read_sg_begin(&pool, o->handle, r->sg, r->bytes);
		return;
	}
	/* A page is in one piece, so nobody gives room for a copy of it. */
	r->copy = r->bytes == HOST_PAGE_SIZE ? NULL : exactly(NULL, r->bytes);
	r->mem = zs_obj_read_begin(&pool, o->handle, r->bytes, r->copy);
}

static void must_read_back(struct reader *r)
{
	size_t at = 0;

	if (!r->is_sg) {
		must(!memcmp(r->mem, r->of->data, r->bytes));
		return;
	}
	for (unsigned int i = 0; i < 2 && at < r->bytes; i++) {
		const struct scatterlist *sg = &r->sg[i];

		must(sg->length && sg->offset + sg->length <= HOST_PAGE_SIZE);
		must(!memcmp(sg->page->byte + sg->offset, r->of->data + at, sg->length));
		at += sg->length;
		must_eq(sg->last, at == r->bytes);
	}
	must_eq(at, r->bytes);
}

/* What was there when it began is there to the end, whatever happens to others meanwhile. */
static void end(struct reader *r)
{
	if (!r->of)
		return;
	must_read_back(r);
	if (r->is_sg)
		zs_obj_read_sg_end(&pool, r->of->handle);
	else
		zs_obj_read_end(&pool, r->of->handle, r->bytes, r->mem);
	free(r->copy);
	r->of->readers--;
	r->of = NULL;
}

static void verify(struct object *o)
{
	static const uint8_t whole[] = { 0, 1, 1, 1 };
	struct choices c = { whole, whole + sizeof(whole) };
	struct reader r = { 0 };

	begin(&c, &r, o);
	if (r.of)
		must_read_back(&r);
	end(&r);
}

static void op_free(struct object *o)
{
	if (o->readers)
		return;
	zs_free(&pool, o->handle);
	o->handle = 0;
}

static void op_free_bulk(struct choices *c)
{
	unsigned int first = take_below(c, OBJECTS), step = 1 + take_below(c, 7), n = 0;
	unsigned int most = take_below(c, ZS_FREE_BULK_MAX + 1);
	unsigned long handles[ZS_FREE_BULK_MAX];

	for (unsigned int i = first; i < OBJECTS && n < most; i += step) {
		if (!object[i].handle || object[i].readers)
			continue;
		handles[n++] = object[i].handle;
		object[i].handle = 0;
	}
	zs_free_bulk(&pool, handles, n);
}

/* ---- pages that move ---- */

static void note_tag(void *ctx, host_page page, u64 tag)
{
	(void)ctx;
	must(tag);
	tagged[ntagged++ % TAGGED] = (struct tagged){ page, tag };
}

/* Nobody reads: then no page is busy. */
static bool at_rest(void)
{
	for (unsigned int i = 0; i < ARRAY_LEN(reader); i++)
		if (reader[i].of)
			return false;
	return true;
}

static void op_move(struct choices *c)
{
	unsigned int n = ntagged < TAGGED ? ntagged : TAGGED;
	struct tagged t, *p = &pinned[take_below(c, ARRAY_LEN(pinned))];
	host_page to, from;
	int err;

	if (!n)
		return;
	t = tagged[take_below(c, n)];
	from = t.page;
	err = cells_pin(&pool.cells, t.page, t.tag);
	must(!err || err == -EAGAIN);
	if (err)
		return;
	if (!pcp_alloc(&movable.pcp, &to, 1, HOST_ANY_NODE, HOST_MAY_WAIT)) {
		err = cells_move(&pool.cells, t.tag, t.page, to);
		must(!err || err == -EAGAIN || (err == -EBUSY && !at_rest()));
		pcp_free(&movable.pcp, err ? &to : &from, 1, HOST_ANY_NODE);
	}
	if (!p->tag && take_below(c, 2))
		*p = t;
	else
		cells_unpin(&pool.cells, t.tag);
}

static void unpin(struct tagged *p)
{
	if (p->tag)
		cells_unpin(&pool.cells, p->tag);
	p->tag = 0;
}

/* ---- the whole ---- */

static u64 live(void)
{
	u64 n = 0;

	for (unsigned int i = 0; i < OBJECTS; i++)
		n += object[i].handle != 0;
	return n;
}

/* With nothing held back each figure is exact. */
static void check_all(void)
{
	release_quiesce(&pool.cells.release);
	must_eq(zs_get_total_pages(&pool), pool_pages(&pool.cells.pool));
	must_eq(cells_objects(&pool.cells), live());
	for (unsigned int i = 0; i < ARRAY_LEN(pinned); i++)
		unpin(&pinned[i]);
	must(live() || !zs_get_total_pages(&pool));
	if (at_rest())
		must_hold(cells_check(&pool.cells));
	must_eq(noio, 0);
	must_be_sound(&source);
	must_be_sound(&movable);
}

static void op_compact(void)
{
	struct zs_pool_stats before, after;
	u64 freed;

	zs_pool_stats(&pool, &before);
	freed = zs_compact(&pool);
	zs_pool_stats(&pool, &after);
	must(atomic_long_read(&after.pages_compacted) - atomic_long_read(&before.pages_compacted) >=
	     (long)freed);
}

static void op_classes(struct choices *c)
{
	unsigned int size = 1 + take_below(c, HOST_PAGE_SIZE - 1);

	must(zs_lookup_class_index(&pool, size) <= zs_lookup_class_index(&pool, size + 1));
	must_eq(zs_lookup_class_index(&pool, HOST_PAGE_SIZE),
		zs_lookup_class_index(&pool, (unsigned int)zs_huge_class_size(&pool)));
	must(zs_lookup_class_index(&pool, HOST_PAGE_SIZE) >
	     zs_lookup_class_index(&pool, (unsigned int)zs_huge_class_size(&pool) - 1));
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
	switch (take_below(c, 8)) {
	case 0:
		op_compact();
		break;
	case 1:
		release_flush(&pool.cells.release);
		break;
	case 2:
		release_set_limit(&pool.cells.release, release_limit(c));
		break;
	case 3:
		check_all();
		break;
	case 4:
		set_failing(c);
		break;
	case 5:
		pcp_drain(&source.pcp);
		pcp_drain(&movable.pcp);
		break;
	case 6:
		shrink_look(&pool.shrink);
		shrink_count(&pool.shrink);
		shrink_some(&pool.shrink);
		break;
	default:
		op_classes(c);
		zs_free(&pool, 0);
		zs_free(&pool, (unsigned long)-ENOMEM);
	}
}

static void one_op(struct choices *c)
{
	unsigned int op = take_below(c, 16);
	struct object *o = &object[take_below(c, OBJECTS)];
	struct reader *r = &reader[take_below(c, ARRAY_LEN(reader))];

	if (op < 5)
		op_malloc(c, o);
	else if (op < 6)
		op_move(c);
	else if (op < 7)
		op_write(c, o);
	else if (op < 9)
		begin(c, r, o);
	else if (op < 11)
		end(r);
	else if (op < 13)
		op_free(o);
	else if (op < 14)
		op_free_bulk(c);
	else if (op < 15 && take_below(c, 2))
		verify(o);
	else if (op < 15)
		unpin(&pinned[take_below(c, ARRAY_LEN(pinned))]);
	else
		op_rare(c);
}

static u64 room(void *ctx)
{
	return cells_room(ctx);
}

static u64 tables(void *ctx)
{
	return cells_table_pages(ctx);
}

static void open_pool(struct choices *c)
{
	const struct shrink_owner owner = { .ctx = &pool.cells, .room = room, .tables = tables };
	struct cells_config cfg = {
		.chain = CHAIN_MIN + take_below(c, CHAIN_MAX - CHAIN_MIN + 1),
		.release_limit = release_limit(c),
		.most = 100000,
		.movable = take_below(c, 4) ? &movable.pcp : NULL,
	};

	cfg.tag = cfg.movable ? note_tag : NULL;
	memset(object, 0, sizeof(object));
	memset(pinned, 0, sizeof(pinned));
	ntagged = 0;
	failing = 0;
	may_fail = false;
	must_eq(host_work_init(&pool.tend, tend, 0), 0);
	must_eq(cells_init(&pool.cells, &source.pcp, &cfg), 0);
	shrink_init(&pool.shrink, &pool.cells.pool, &pool.cells.release, &owner);
}

static void close_pool(void)
{
	unsigned int i;

	__atomic_store_n(&failing, 0, __ATOMIC_RELAXED);
	for (i = 0; i < ARRAY_LEN(reader); i++)
		end(&reader[i]);
	check_all();
	op_compact();
	for (i = 0; i < OBJECTS; i++)
		verify(&object[i]);
	/* Some are left for the end of the pool. */
	for (i = 0; i < OBJECTS; i += 2)
		op_free(&object[i]);
	check_all();
	host_work_destroy(&pool.tend);
	cells_destroy(&pool.cells);
	pcp_drain(&source.pcp);
	pcp_drain(&movable.pcp);
	must_eq(pages_out(&source), 0);
	must_eq(pages_out(&movable), 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct choices c = { data, data + n };

	open_pool(&c);
	for (unsigned int i = 0; i < OPS_MAX && left(&c); i++)
		one_op(&c);
	close_pool();
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
	source_open(&movable);
	host_user_fail = fail_now;
	return 0;
}
