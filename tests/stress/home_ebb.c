// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * home_ebb.c - the stress program's home on libebb: a store, its knobs, a second store that
 * comes and goes, and allocations that fail.
 */
#include "stress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/ebb.h"
#include "mm/release.h"

static struct ebb_store *store;
static u64 meta_empty;          /* meta_bytes of the store when it was new */
static u64 limit_empty;         /* its release_limit then, which buffers go with */
static u64 held_most;           /* the highest release_limit since then */
static u64 fail_every;          /* of the allocations, 0: none */

static u64 read_u64(u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void must(int err, const char *call)
{
	if (err)
		wrong("%s: %s", call, strerror(-err));
}

/* Shorter of memory or not, in this round. */
static bool may_be_short(int err)
{
	return err == -ENOMEM;
}

static bool fail_now(void)
{
	static u64 n;
	u64 every = read_u64(&fail_every);

	return every && __atomic_add_fetch(&n, 1, __ATOMIC_RELAXED) % every == 0;
}

/* ---- what the system says ---- */

/*
 * Memory that only this process has.  A store that is open has as much as it says, and some for
 * codecs, threads and what malloc() keeps; one that is closed has nothing of it.
 */
#define SOAK_SLACK ((u64)8 << 20)

static u64 resident_before;     /* the store that is open */
static u64 resident_first;      /* when the first store was closed, or 0 */
static u64 resident_most;       /* when a later one was */
static u64 over_most;           /* a store's own figures, at the end of a round */

static u64 resident(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kb = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "RssAnon: %llu kB", &kb);
	if (f)
		fclose(f);
	return (u64)kb << 10;
}

static void may_have(const char *when, u64 most)
{
	u64 now = resident();

#if defined(HOST_USER_ASAN) || defined(HOST_USER_TSAN)
	/* A sanitizer keeps what was freed. */
	return;
#endif
	if (now > most + SOAK_SLACK)
		wrong("%s the process has %lu MiB of memory, expected %lu and some", when,
		      now >> 20, most >> 20);
}

/* ---- the store ---- */

static u64 pick_release_limit(u64 *r)
{
	static const u64 limit[] = { 0, 1, 5000, 100000, 1 << 20, 16 << 20, EBB_DEFAULT };

	return PICK(limit, r);
}

static const char *pick_codec(u64 *r)
{
	unsigned int n = 0;

	while (ebb_codec_name(n))
		n++;
	/* Most of the time the quick ones, which leave more to the store. */
	return one_in(r, 3) ? ebb_codec_name((unsigned int)below(r, n)) : "lz4";
}

static u64 pick_mem_limit(u64 *r)
{
	return (1 + below(r, round_now.slots)) * page_size / 2;
}

static void stat_of(struct ebb_store *s, struct ebb_stat *st)
{
	st->struct_size = sizeof(*st);
	must(ebb_stat(s, st), "ebb_stat");
}

static void note_limit(u64 limit)
{
	u64 old = read_u64(&held_most);

	while (limit > old && !__atomic_compare_exchange_n(&held_most, &old, limit, false,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void ebb_home_open(struct round *r)
{
	static const u32 cpus[] = { 0, 0, 0, 1, 2, 8 };
	u32 n = PICK(cpus, &r->r);
	struct ebb_config cfg;
	struct ebb_stat st = { .struct_size = sizeof(st) };

	host_user_set_nr_cpus(n);
	resident_before = resident();
	ebb_config_init(&cfg);
	cfg.slots = r->slots;
	cfg.codec = pick_codec(&r->r);
	cfg.chain_size = 4 + (u32)below(&r->r, 13);
	cfg.release_limit = pick_release_limit(&r->r);
	cfg.flags = one_in(&r->r, 2) ? EBB_NO_HUGEPAGE : 0;
	must(ebb_open(&store, &cfg), "ebb_open");
	if (stopping())
		return;
	stat_of(store, &st);
	meta_empty = st.meta_bytes;
	limit_empty = st.release_limit;
	held_most = st.release_limit;
	snprintf(r->text, sizeof(r->text), "%s, chain %u, %u slots, %u cpus, release_limit %lu",
		 cfg.codec, cfg.chain_size, r->slots, nr_cpu_ids, st.release_limit);
}

static void ebb_home_close(void)
{
	u64 now;

	ebb_close(store);
	store = NULL;
	now = resident();
	if (!resident_first)
		resident_first = now;
	may_have("After a store was closed", resident_first);
	if (now > resident_most)
		resident_most = now;
}

static void ebb_home_begin(struct round *r)
{
	must(ebb_set_mem_limit(store, r->short_of_memory ? pick_mem_limit(&r->r) : 0), "ebb_set_mem_limit");
}

static void ebb_home_end(void)
{
	__atomic_store_n(&fail_every, 0, __ATOMIC_SEQ_CST);
	must(ebb_set_mem_limit(store, 0), "ebb_set_mem_limit");
}

static int ebb_home_write(u32 slot, const void *pages, u32 n)
{
	return ebb_write(store, slot, pages, n * page_size);
}

static int ebb_home_read(u32 slot, void *pages, u32 n)
{
	return ebb_read(store, slot, pages, n * page_size);
}

static int ebb_home_put(u32 slot, const void *data, size_t bytes)
{
	return ebb_put(store, slot, data, bytes);
}

static int ebb_home_get(u32 slot, void *buf, size_t cap, size_t *bytes)
{
	return ebb_get(store, slot, buf, cap, bytes);
}

static int ebb_home_free(u32 slot, u32 n)
{
	return ebb_free(store, slot, n);
}

/* ---- its operations ---- */

static enum outcome op_compact(struct worker *w)
{
	u64 pages;

	(void)w;
	must(ebb_compact(store, &pages), "ebb_compact");
	return DONE;
}

static enum outcome op_flush(struct worker *w)
{
	(void)w;
	must(ebb_flush(store), "ebb_flush");
	return DONE;
}

static enum outcome op_trim(struct worker *w)
{
	(void)w;
	must(ebb_trim(store, NULL), "ebb_trim");
	return DONE;
}

/* What must hold of the figures while everybody is at work. */
static enum outcome op_stat(struct worker *w)
{
	/* Each thread may be between counting in and counting out one page. */
	u64 slots = round_now.slots + options.threads;
	/* The budget and a buffer for each CPU, of objects of a page at most. */
	u64 held = nr_cpu_ids * 2 * (page_size / 8) * page_size;
	struct ebb_stat st = { .struct_size = sizeof(st) };

	(void)w;
	stat_of(store, &st);
	if (st.same_pages > slots || st.huge_pages > slots || st.orig_data_size > slots * page_size)
		wrong("stat: %lu same, %lu huge, %lu bytes of %lu slots", st.same_pages,
		      st.huge_pages, st.orig_data_size, slots);
	if (st.held_back_bytes > read_u64(&held_most) + held)
		wrong("stat: %lu bytes are held back, the limit was never over %lu",
		      st.held_back_bytes, held_most);
	if (st.mem_used_total % page_size || st.zone_free_bytes > st.zone_bytes)
		wrong("stat: mem_used_total %lu, zone_free_bytes %lu of %lu", st.mem_used_total,
		      st.zone_free_bytes, st.zone_bytes);
	return DONE;
}

static enum outcome op_classes(struct worker *w)
{
	struct ebb_class rows[EBB_CLASSES_MAX];
	unsigned int n, i;
	int err;

	(void)w;
	rows->struct_size = sizeof(*rows);
	err = ebb_classes(store, rows, &n);
	if (err == -ENOMEM && round_now.short_of_memory)
		return FAILED;
	must(err, "ebb_classes");
	for (i = 0; !err && i < n; i++)
		if (rows[i].obj_used > rows[i].obj_allocated)
			wrong("class %u: %lu objects of %lu in use", rows[i].size, rows[i].obj_used,
			      rows[i].obj_allocated);
	return DONE;
}

static enum outcome op_release_limit(struct worker *w)
{
	u64 limit = pick_release_limit(&w->r);
	int err;

	note_limit(limit == EBB_DEFAULT ? host_total_bytes() / RELEASE_LIMIT_SHARE : limit);
	err = ebb_set_release_limit(store, limit);
	if (err == -ENOMEM && round_now.short_of_memory)
		return FAILED;
	must(err, "ebb_set_release_limit");
	return DONE;
}

static enum outcome op_mem_limit(struct worker *w)
{
	if (!round_now.short_of_memory)
		return BUSY;
	must(ebb_set_mem_limit(store, one_in(&w->r, 3) ? 0 : pick_mem_limit(&w->r)), "ebb_set_mem_limit");
	return DONE;
}

static enum outcome op_peaks(struct worker *w)
{
	must(one_in(&w->r, 2) ? ebb_reset_peak(store) : ebb_reset_held_back_peak(store), "reset of a peak");
	return DONE;
}

/* The system has no memory: for a while one allocation in so many fails, or all do. */
static enum outcome op_drought(struct worker *w)
{
	static const u64 every[] = { 0, 0, 0, 1, 2, 7, 50 };

	if (!round_now.short_of_memory)
		return BUSY;
	__atomic_store_n(&fail_every, PICK(every, &w->r), __ATOMIC_RELAXED);
	return DONE;
}

static int small_write(void *ctx, u32 slot, const void *page)
{
	return ebb_write(ctx, slot, page, page_size);
}

static int small_read(void *ctx, u32 slot, void *page)
{
	return ebb_read(ctx, slot, page, page_size);
}

static int small_free(void *ctx, u32 slot)
{
	return ebb_free(ctx, slot, 1);
}

static void check_store(struct ebb_store *s, const char *name)
{
	char why[160] = "";

	must(ebb_flush(s), "ebb_flush");
	if (ebb_check(s, why, sizeof(why)))
		wrong("%s: %s", name, why);
}

/* Another store is opened, used, reset or not, and closed. */
static enum outcome op_second(struct worker *w)
{
	static bool taken;
	struct small_store s = {
		.write = small_write, .read = small_read, .free = small_free,
		.name = "the second store", .may_fail = round_now.short_of_memory,
	};
	enum outcome out = BUSY;
	struct ebb_store *other;
	struct ebb_config cfg;
	struct ebb_stat st = { .struct_size = sizeof(st) };
	int err;

	if (__atomic_exchange_n(&taken, true, __ATOMIC_SEQ_CST))
		return BUSY;
	ebb_config_init(&cfg);
	cfg.slots = 1 + below(&w->r, 64);
	cfg.codec = pick_codec(&w->r);
	cfg.chain_size = 4 + (u32)below(&w->r, 13);
	cfg.release_limit = pick_release_limit(&w->r);
	err = ebb_open(&other, &cfg);
	if (err) {
		if (err != -ENOMEM || !s.may_fail)
			must(err, "ebb_open of the second store");
		out = FAILED;
		goto done;
	}
	s.ctx = other;
	out = use_small_store(w, &s, (u32)cfg.slots);
	check_store(other, s.name);
	if (one_in(&w->r, 2)) {
		must(ebb_reset(other), "ebb_reset of the second store");
		check_store(other, s.name);
		stat_of(other, &st);
		if (st.mem_used_total || st.orig_data_size || st.held_back_bytes)
			wrong("the second store: something is left after its reset");
	}
	ebb_close(other);
done:
	__atomic_store_n(&taken, false, __ATOMIC_SEQ_CST);
	return out;
}

static const struct op ebb_ops[] = {
	/* name          weight */
	{ "compact",        20, op_compact },
	{ "flush",          10, op_flush },
	{ "trim",            2, op_trim },
	{ "stat",           40, op_stat },
	{ "classes",        10, op_classes },
	{ "release-limit",  10, op_release_limit },
	{ "mem-limit",      20, op_mem_limit },
	{ "peaks",           5, op_peaks },
	{ "drought",        20, op_drought },
	{ "second",          2, op_second },
	{ NULL, 0, NULL },
};

/* ---- when nobody is at work ---- */

static void equal(const char *what, u64 got, u64 want)
{
	if (got != want)
		wrong("%s is %lu, and not %lu", what, got, want);
}

static void within(const char *what, u64 got, u64 min, u64 max)
{
	if (got < min || got > max)
		wrong("%s is %lu, and not %lu to %lu", what, got, min, max);
}

static void ebb_home_check(const struct tally *t)
{
	struct ebb_stat st = { .struct_size = sizeof(st) };

	u64 now, own;

	check_store(store, "the store");
	stat_of(store, &st);
	now = resident();
	own = resident_before + st.zone_bytes + st.meta_bytes;
	may_have("Beside a store at rest", own);
	if (now > own && now - own > over_most)
		over_most = now - own;
	equal("held_back_bytes after a flush", st.held_back_bytes, 0);
	equal("orig_data_size", st.orig_data_size, t->bytes);
	equal("same_pages", st.same_pages, t->same);
	within("huge_pages", st.huge_pages, t->raw_min, t->raw_max);
	within("notify_free", st.notify_free, t->freed_min, t->freed_max);
	equal("failed_writes", st.failed_writes, t->failed_writes);
	equal("failed_reads", st.failed_reads, t->failed_reads);
	within("mem_used_total", st.mem_used_total, t->raw_min * page_size, st.mem_used_max);
}

/*
 * Pages of directories, which stay (core/mm/zspage.c).  Each of 20 groups at most asks for one when
 * 15 chunks of 23 or more zspages are full, and then for one each 512 chunks.
 */
static u64 leaves_most(void)
{
	u64 chunks = round_now.slots / 23;

	return chunks < 15 ? 0 : 20 + chunks / 512;
}

static void ebb_home_check_empty(void)
{
	struct ebb_stat st = { .struct_size = sizeof(st) };

	check_store(store, "the store, empty");
	must(ebb_set_release_limit(store, limit_empty), "ebb_set_release_limit");
	must(ebb_trim(store, NULL), "ebb_trim");
	stat_of(store, &st);
	equal("orig_data_size of an empty store", st.orig_data_size, 0);
	equal("compr_data_size of an empty store", st.compr_data_size, 0);
	equal("same_pages of an empty store", st.same_pages, 0);
	equal("huge_pages of an empty store", st.huge_pages, 0);
	equal("mem_used_total of an empty store", st.mem_used_total, 0);
	/* The parts of the slot table that were written stay until a reset. */
	within("meta_bytes of an empty store", st.meta_bytes, meta_empty,
	       meta_empty + leaves_most() * page_size + (u64)round_now.slots * sizeof(u64));
	equal("pcp_pages after a trim", st.pcp_pages, 0);
	equal("zone_free_bytes after a trim", st.zone_free_bytes, 0);
}

static void say_memory(void)
{
	printf("# memory: %lu KiB after the first store, %lu after any, %lu past what stores at rest told\n",
	       resident_first >> 10, resident_most >> 10, over_most >> 10);
}

static int ebb_home_init(void)
{
	if (options.device || options.second) {
		printf("Bail out! --device and --second are of the program for zram\n");
		return -EINVAL;
	}
	host_user_fail = fail_now;
	atexit(say_memory);
	return 0;
}

const struct home home = {
	.name = "libebb",
	.objects = true,
	.page_by_page = true,
	.ops = ebb_ops,
	.init = ebb_home_init,
	.page_size = ebb_page_size,
	.open = ebb_home_open,
	.close = ebb_home_close,
	.begin = ebb_home_begin,
	.end = ebb_home_end,
	.write = ebb_home_write,
	.read = ebb_home_read,
	.put = ebb_home_put,
	.get = ebb_home_get,
	.free = ebb_home_free,
	.may_fail = may_be_short,
	.check = ebb_home_check,
	.check_empty = ebb_home_check_empty,
};
