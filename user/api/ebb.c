// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb.c - owns struct ebb_store: a store of the core with its own zone, page lists and the
 * tick that lets idle memory go; checks what callers pass in.  See ebb.h.
 */
#include <stdio.h>

#include "store/check.h"
#include "codecs/codecs.h"
#include "blob.h"
#include "compact.h"
#include "ebb.h"
#include "ebb_in.h"
#include "meta.h"
#include "home/pcp.h"
#include "lazy.h"
#include "sized.h"
#include "why.h"
#include "store/store.h"
#include "home/zone.h"

#define MAGIC 0x65626273746f7265ull     /* "ebbstore" */

#define LIST_BYTES (1u << 20)           /* most of a per-CPU page list */
#define BATCH_BYTES (LIST_BYTES / 4)     /* that the list takes or gives at once */
#define COMPACT_NS 20000000             /* of PCP_PERIOD_US: a fifth of one CPU at most */
#define GIVE_NS 20000000                /* the same, for giving pages on */
#define GIVE_ALSO_NS 5000000            /* the same, for what the owner of the slots gives */
#define SPARSE_BYTES (256u << 10)       /* less is not worth compaction while others write */
#define QUIET_BYTES (64u << 10)         /* and when they have stopped */
#define SPARSE_PART 8u                  /* nor is a smaller part of the pool, */
#define QUIET_PART 32u                  /* in the same two cases */
#define LIMIT_LEAST ((u64)16 << 20)     /* a budget for frees that takes few buffers */

struct ebb_store {
	u64 magic;	/* 0 in a forked child, which has nothing of it: host_user_map_wiped() */
	u32 flags;
	struct host_pages *zone;
	struct pcp pcp;
	struct pages pages;     /* of zone; no reserve */
	struct store core;
	struct host_work decay;
	struct shared_streams *streams;
	struct mutex limits;    /* release_set_limit(), and the next */
	u64 release_limit;      /* what was asked for; the core's is limit_for() */
	bool (*give)(void *ctx, u64 ns);        /* ebb_give_also() */
	void *give_ctx;
	struct mutex closing;   /* ebb_close_holes(), and the next */
	u64 closed_freed, closed_room;          /* as the holes were closed last */
	/* The tick's: what was freed and the room of objects at its last look; no change since. */
	u64 freed, room;
	bool quiet;
};

/* Bytes of version 0.1: programs of any version have at least these. */
#define CONFIG_LEAST ((size_t)56)
#define STAT_LEAST ((size_t)184)
#define CLASS_LEAST ((size_t)144)

/* A longer one is another ebb_config_init() in a new node of libebb.map: old programs lack room. */
_Static_assert(sizeof(struct ebb_config) == CONFIG_LEAST, "ebb_config_init() is of version 0.1");
_Static_assert(sizeof(struct ebb_stat) >= STAT_LEAST && sizeof(struct ebb_class) >= CLASS_LEAST,
	       "structs do not shrink");

static bool is_open(const struct ebb_store *store)
{
	return store && store->magic == MAGIC;
}

static bool bad(const struct ebb_store *store)
{
	return why_closed(!is_open(store), "store");
}

const char *ebb_version(void)
{
	return EBB_VERSION;
}

size_t ebb_page_size(void)
{
	return PAGE_SIZE;
}

const char *ebb_codec_name(unsigned int i)
{
	unsigned int n = 0;

	while (user_codecs[n] && n < i)
		n++;
	return user_codecs[n] ? user_codecs[n]->name : NULL;
}

static const struct codec_ops *find_codec(const char *name)
{
	unsigned int i;

	for (i = 0; user_codecs[i]; i++)
		if (!strcmp(user_codecs[i]->name, name))
			return user_codecs[i];
	return NULL;
}

int ebb_find_codec(const char *name, int32_t level, const struct codec_ops **codec, int *found)
{
	const struct codec_ops *ops = find_codec(name ? name : "lz4");

	if (!ops)
		return -ENOENT;
	*codec = ops;
	*found = level == EBB_LEVEL_DEFAULT ? ops->default_level : level;
	return why_if(*found < ops->min_level || *found > ops->max_level,
		      "level %d of %s: expected %d to %d", *found, ops->name, ops->min_level,
		      ops->max_level) ? -EINVAL : 0;
}

int ebb_codec_levels(const char *name, int32_t *min, int32_t *max, int32_t *def)
{
	const struct codec_ops *ops;

	if (why_null(name) || why_null(min) || why_null(max) || why_null(def))
		return -EINVAL;
	ops = find_codec(name);
	if (!ops)
		return -ENOENT;
	*min = ops->min_level;
	*max = ops->max_level;
	*def = ops->default_level;
	return 0;
}

void ebb_config_init(struct ebb_config *cfg)
{
	if (!cfg)
		return;
	*cfg = (struct ebb_config){
		.struct_size = sizeof(*cfg),
		.level = EBB_LEVEL_DEFAULT,
		.release_limit = EBB_DEFAULT,
	};
}

static u64 release_limit(u64 asked)
{
	return asked == EBB_DEFAULT ? release_default_limit() : asked;
}

/* The streams of the stores with one codec and level. */
struct shared_streams {
	struct lazy_streams lazy;
	struct shared_streams *next;
	u32 stores;
};

struct process {
	struct mutex lock;
	/* What all stores may hold back together; made for the first, and kept. */
	struct release_budget budget;
	struct shared_streams *streams;
};

static void *process;           /* see host_user_wiped() */

static int need_budget(struct release_budget **budget)
{
	struct process *p = host_user_wiped(&process, sizeof(*p));
	int err = 0;

	if (!p)
		return -ENOMEM;
	*budget = &p->budget;
	mutex_lock(&p->lock);
	if (!p->budget.node)
		err = release_budget_init(&p->budget, release_default_limit());
	mutex_unlock(&p->lock);
	return err;
}

static struct shared_streams *new_streams(const struct store_codec *c)
{
	const struct codec_params params = { .level = c->level };
	struct shared_streams *t = host_zalloc(sizeof(*t));

	if (!t)
		return NULL;
	if (!lazy_init(&t->lazy, c->ops, &params))
		return t;
	host_free(t, sizeof(*t));
	return NULL;
}

static struct shared_streams *get_streams(const struct store_codec *c)
{
	struct process *p = process;
	struct shared_streams *t;

	mutex_lock(&p->lock);
	for (t = p->streams; t; t = t->next)
		if (t->lazy.streams.codec == c->ops && t->lazy.streams.params.level == c->level)
			break;
	if (!t) {
		t = new_streams(c);
		if (t) {
			t->next = p->streams;
			p->streams = t;
		}
	}
	if (t)
		t->stores++;
	mutex_unlock(&p->lock);
	return t;
}

static void put_streams(struct shared_streams *t)
{
	struct process *p = process;
	struct shared_streams **at;
	bool last;

	mutex_lock(&p->lock);
	last = !--t->stores;
	if (last) {
		for (at = &p->streams; *at != t;)
			at = &(*at)->next;
		*at = t->next;
	}
	mutex_unlock(&p->lock);
	if (!last)
		return;
	lazy_destroy(&t->lazy);
	host_free(t, sizeof(*t));
}

/* Whether compaction would free so many pages that they are worth its while. */
static bool is_sparse(struct ebb_store *store)
{
	u64 sparse = READ_ONCE(store->core.shrink.sparse);

	return sparse >= (store->quiet ? QUIET_BYTES : SPARSE_BYTES) >> PAGE_SHIFT &&
	       sparse > pool_pages(&store->core.pool) / (store->quiet ? QUIET_PART : SPARSE_PART);
}

/*
 * Looks how much is sparse; true: objects came or went since the last look, so it has to be looked
 * once more.  Who compacts while they do moves some that are about to go, and what they leave is
 * filled without him: that pays for many holes only.  When they have stopped, what is left is.
 */
static bool look_for_holes(struct ebb_store *store)
{
	u64 freed = store_count(&store->core, CNT_FREED);
	u64 room = store_count(&store->core, CNT_ROOM);
	bool was_quiet = store->quiet;

	store->quiet = freed == store->freed && room == store->room &&
		       !release_held(&store->core.release);
	store->freed = freed;
	store->room = room;
	if (store->quiet && !was_quiet)
		shrink_look_anew(&store->core.shrink, room);
	else
		shrink_look(&store->core.shrink, room);
	return !store->quiet;
}

/*
 * A budget takes buffers, which are there before they are used: so it grows with the store.  More
 * than what is stored cannot be held back; a part of a budget is kept for other CPUs.
 */
static u64 limit_for(struct ebb_store *store, u64 asked)
{
	u64 holds = pool_pages(&store->core.pool) << PAGE_SHIFT, limit = LIMIT_LEAST;

	while (limit < holds / 4 * 5)
		limit *= 2;
	return asked < limit ? asked : limit;
}

/* If there is no memory for buffers, the next tick tries again. */
static void tend_limit(struct ebb_store *store)
{
	u64 limit, want;

	mutex_lock(&store->limits);
	limit = READ_ONCE(store->core.release.limit);
	want = limit_for(store, store->release_limit);
	if (want > limit || (want < limit && want <= limit / 4))
		release_set_limit(&store->core.release, want);
	mutex_unlock(&store->limits);
}

/* The tick: the budget, lists, what is sparse, the owner's, then what is free in the zone. */
static void decay(struct host_work *w)
{
	struct ebb_store *store =
		(struct ebb_store *)((char *)w - offsetof(struct ebb_store, decay));
	bool aged, again = pcp_tend(&store->pcp, &aged);
	enum zone_decay zone;

	/* The worker that drains what is held back is due as well. */
	if (host_user_no_threads())
		release_flush(&store->core.release);
	tend_limit(store);
	if (aged && !(store->flags & EBB_NO_COMPACT)) {
		again |= look_for_holes(store);
		if (is_sparse(store))
			again |= shrink_rest(&store->core.shrink, COMPACT_NS) && is_sparse(store);
	}
	again |= store->give && store->give(store->give_ctx, GIVE_ALSO_NS);
	zone = zone_decay(store->zone, GIVE_NS);
	if (again || zone != ZONE_IDLE)
		host_work_queue_delayed(w, zone == ZONE_MORE ? PCP_PERIOD_US / 10 : PCP_PERIOD_US);
}

/* Memory may become idle: have it looked after.  One load if it is already. */
static void note_freed(struct ebb_store *store)
{
	host_work_queue_delayed(&store->decay, PCP_PERIOD_US);
}

static int check_config(const struct ebb_config *cfg, struct store_config *core)
{
	int err;

	if (why_if(cfg->flags & ~(EBB_NO_HUGEPAGE | EBB_NO_COMPACT),
		   "flags 0x%x: expected EBB_NO_HUGEPAGE and EBB_NO_COMPACT alone", cfg->flags) ||
	    why_if(cfg->reserved, "reserved is not 0") ||
	    why_if(!cfg->slots || cfg->slots > 0xffffffff, "slots %llu: expected 1 to 2^32 - 1",
		   (unsigned long long)cfg->slots) ||
	    why_if(cfg->chain_size && (cfg->chain_size < CHAIN_MIN || cfg->chain_size > CHAIN_MAX),
		   "chain_size %u: expected %u to %u, or 0", cfg->chain_size, CHAIN_MIN, CHAIN_MAX))
		return -EINVAL;
	err = ebb_find_codec(cfg->codec, cfg->level, &core->codec[0].ops, &core->codec[0].level);
	if (err)
		return err;
	core->slots = cfg->slots;
	core->chain = cfg->chain_size ? cfg->chain_size : EBB_CHAIN_DEFAULT;
	core->mem_limit = cfg->mem_limit;
	core->release_limit = release_limit(cfg->release_limit);
	if (core->release_limit > LIMIT_LEAST)
		core->release_limit = LIMIT_LEAST;
	return 0;
}

/* Whether there is memory for a first page: an open that succeeds can store. */
static int try_out(struct ebb_store *store)
{
	int err = store_need_slot(&store->core, 0, numa_mem_id());

	return err ? err : zone_try_out(NULL, NULL);
}

static int open_store(struct ebb_store **out, const struct ebb_config *theirs)
{
	const unsigned int batch = BATCH_BYTES >> PAGE_SHIFT;
	const unsigned int high = LIST_BYTES >> PAGE_SHIFT;
	struct store_config core = { 0 };
	struct ebb_store *store;
	struct ebb_config cfg;
	int err;

	if (why_no_open(out, theirs))
		return -EINVAL;
	*out = NULL;
	err = sized_in(&cfg, sizeof(cfg), theirs, CONFIG_LEAST);
	if (!err)
		err = check_config(&cfg, &core);
	if (err)
		return err;
	err = need_budget(&core.release_budget);
	if (err)
		return err;
	store = host_user_map_wiped(sizeof(*store));
	if (!store)
		return -ENOMEM;
	store->flags = cfg.flags;
	store->release_limit = release_limit(cfg.release_limit);
	mutex_init(&store->limits);
	mutex_init(&store->closing);
	err = zone_open(&store->zone);
	if (err)
		goto no_zone;
	err = pcp_init(&store->pcp, store->zone, batch, high);
	if (err)
		goto no_pcp;
	err = pages_init(&store->pages, store->zone, 0, NULL);
	if (err)
		goto no_pages;
	err = host_work_init(&store->decay, decay, 0);
	if (err)
		goto no_work;
	err = -ENOMEM;
	store->streams = get_streams(&core.codec[0]);
	if (!store->streams)
		goto no_streams;
	core.streams = &store->streams->lazy.streams;
	err = store_init(&store->core, &store->pages, &core);
	if (err)
		goto no_store;
	err = try_out(store);
	if (err)
		goto no_memory;
	store->magic = MAGIC;
	*out = store;
	return 0;

no_memory:
	store_destroy(&store->core);
no_store:
	put_streams(store->streams);
no_streams:
	host_work_destroy(&store->decay);
no_work:
	pages_destroy(&store->pages);
no_pages:
	pcp_destroy(&store->pcp);
no_pcp:
	zone_close(store->zone);
no_zone:
	mutex_destroy(&store->closing);
	mutex_destroy(&store->limits);
	host_user_unmap_wiped(store, sizeof(*store));
	return err;
}

/* Files may be read, and threads waited for: no call is a cancellation point for that. */
int ebb_open(struct ebb_store **out, const struct ebb_config *cfg)
{
	int cancel, err;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = open_store(out, cfg);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

void ebb_close(struct ebb_store *store)
{
	if (bad(store))
		return;
	store->magic = 0;
	host_work_destroy(&store->decay);
	store_destroy(&store->core);
	put_streams(store->streams);
	pages_destroy(&store->pages);
	pcp_destroy(&store->pcp);
	zone_close(store->zone);
	mutex_destroy(&store->closing);
	mutex_destroy(&store->limits);
	host_user_unmap_wiped(store, sizeof(*store));
}

/*
 * A page of the caller's buffer that is not there is faulted in before the core works on it with a
 * codec's stream in hand, so that others do not wait for his disk.  (He may still lose it again
 * before it is used; then they do.)  Written bytes keep their value, whoever else writes them.
 */
#define FAULT_BYTES ((size_t)4096)      /* the smallest page of a system */

static void fault_in_to_read(const void *buf, size_t bytes)
{
	const volatile char *p = buf;
	size_t off;

	for (off = 0; off < bytes; off += FAULT_BYTES)
		(void)p[off];
	if (bytes)
		(void)p[bytes - 1];
}

static void fault_in_to_write(void *buf, size_t bytes)
{
	char *p = buf;
	size_t off;

	for (off = 0; off < bytes; off += FAULT_BYTES)
		__atomic_fetch_or(&p[off], 0, __ATOMIC_RELAXED);
	if (bytes)
		__atomic_fetch_or(&p[bytes - 1], 0, __ATOMIC_RELAXED);
}

/* The calls that have to be short say why they refuse apart from their path.  -EINVAL. */
#define REFUSAL static __attribute__((cold, noinline)) int

REFUSAL refuse_run(const struct ebb_store *store, const void *buf, size_t bytes)
{
	(void)(bad(store) || why_null(buf) ||
	       why_say("bytes %zu: expected whole pages of %zu", bytes, PAGE_SIZE));
	return -EINVAL;
}

REFUSAL refuse_get(const struct ebb_store *store, const size_t *bytes)
{
	(void)(bad(store) || why_null(bytes) || why_say("buf is NULL, and cap is not 0"));
	return -EINVAL;
}

/* A run of whole pages that starts at slot and ends within the store. */
static __always_inline int check_run(const struct ebb_store *store, u64 slot, const void *buf,
				     size_t bytes)
{
	if (unlikely(!is_open(store) || !buf || !bytes || offset_in_page(bytes)))
		return refuse_run(store, buf, bytes);
	if (slot >= store->core.slots || bytes >> PAGE_SHIFT > store->core.slots - slot)
		return -ERANGE;
	return 0;
}

/* The library has one error for both. */
static int no_memory_or_limit(int err)
{
	return err == -EDQUOT ? -ENOMEM : err;
}

int ebb_need_slot(struct ebb_store *store, uint64_t slot)
{
	return no_memory_or_limit(store_need_slot(&store->core, slot, numa_mem_id()));
}

bool ebb_close_holes(struct ebb_store *store)
{
	struct store *s = &store->core;
	u64 freed, room, pages = 0;
	bool waited;

	if (store->flags & EBB_NO_COMPACT)
		return false;
	waited = !mutex_trylock(&store->closing);
	if (waited)
		mutex_lock(&store->closing);
	release_flush(&s->release);
	freed = store_count(s, CNT_FREED);
	room = store_count(s, CNT_ROOM);
	if (freed != store->closed_freed || room != store->closed_room)
		pages = store_compact(s);
	store->closed_freed = freed;
	store->closed_room = room;
	mutex_unlock(&store->closing);
	if (pages)
		note_freed(store);
	return pages || waited;
}

/* After a write or put that failed, which counts if it is not tried again. */
static bool may_try_again(struct ebb_store *store, int err)
{
	if (store_no_room(err) && ebb_close_holes(store))
		return true;
	if (err != -ERANGE && err != -EINVAL)
		store_note(&store->core, CNT_FAILED_WRITE);
	return false;
}

int ebb_write(struct ebb_store *store, uint64_t slot, const void *buf, size_t bytes)
{
	int err = check_run(store, slot, buf, bytes);
	size_t off;

	if (err)
		return err;
	for (off = 0; !err && off < bytes; off += PAGE_SIZE) {
		fault_in_to_read((const char *)buf + off, PAGE_SIZE);
		do
			err = store_try_write(&store->core, slot, (const char *)buf + off,
					      numa_mem_id());
		while (unlikely(err) && may_try_again(store, err));
		slot++;
	}
	/* What is stored has replaced something, whether or not the rest failed. */
	note_freed(store);
	return no_memory_or_limit(err);
}

int ebb_read(struct ebb_store *store, uint64_t slot, void *buf, size_t bytes)
{
	int err = check_run(store, slot, buf, bytes);
	size_t off;

	for (off = 0; !err && off < bytes; off += PAGE_SIZE) {
		fault_in_to_write((char *)buf + off, PAGE_SIZE);
		err = store_read(&store->core, slot++, (char *)buf + off);
	}
	return err;
}

int ebb_put(struct ebb_store *store, uint64_t slot, const void *data, size_t bytes)
{
	int err;

	if (bad(store) || why_null(data) ||
	    why_if(!bytes || bytes > PAGE_SIZE, "bytes %zu: expected 1 to %zu", bytes, PAGE_SIZE))
		return -EINVAL;
	do
		err = blob_put(&store->core, slot, data, bytes, numa_mem_id());
	while (unlikely(err) && may_try_again(store, err));
	if (!err)
		note_freed(store);
	return no_memory_or_limit(err);
}

int ebb_get(struct ebb_store *store, uint64_t slot, void *buf, size_t cap, size_t *bytes)
{
	if (unlikely(!is_open(store) || !bytes || (!buf && cap)))
		return refuse_get(store, bytes);
	fault_in_to_write(buf, cap < PAGE_SIZE ? cap : PAGE_SIZE);
	return blob_get(&store->core, slot, buf, cap, bytes);
}

int ebb_free(struct ebb_store *store, uint64_t first, uint64_t count)
{
	u64 at = first;

	if (bad(store))
		return -EINVAL;
	if (first > store->core.slots || count > store->core.slots - first)
		return -ERANGE;
	if (count == 1)
		store_free(&store->core, first);
	else
		while (store_free_piece(&store->core, &at, first + count))
			;
	note_freed(store);
	return 0;
}

int ebb_reset(struct ebb_store *store)
{
	if (bad(store))
		return -EINVAL;
	store_reset(&store->core);
	host_table_forget(&store->core.table, 0, store->core.slots);
	note_freed(store);
	return 0;
}

int ebb_flush(struct ebb_store *store)
{
	if (bad(store))
		return -EINVAL;
	release_flush(&store->core.release);
	return 0;
}

int ebb_compact(struct ebb_store *store, uint64_t *pages)
{
	u64 n;

	if (bad(store))
		return -EINVAL;
	n = store_compact(&store->core);
	note_freed(store);
	if (pages)
		*pages = n;
	return 0;
}

int ebb_trim(struct ebb_store *store, uint64_t *bytes)
{
	if (bad(store))
		return -EINVAL;
	release_flush(&store->core.release);
	if (store->give)
		store->give(store->give_ctx, UINT64_MAX);
	pcp_drain(&store->pcp);
	zone_trim(store->zone, bytes);
	return 0;
}

int ebb_set_mem_limit(struct ebb_store *store, uint64_t bytes)
{
	if (bad(store))
		return -EINVAL;
	WRITE_ONCE(store->core.pool.limit, bytes);
	return 0;
}

int ebb_set_release_limit(struct ebb_store *store, uint64_t bytes)
{
	int cancel, err;

	if (bad(store))
		return -EINVAL;
	bytes = release_limit(bytes);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	mutex_lock(&store->limits);
	err = release_set_limit(&store->core.release, limit_for(store, bytes));
	if (!err)
		WRITE_ONCE(store->release_limit, bytes);
	mutex_unlock(&store->limits);
	pthread_setcancelstate(cancel, NULL);
	return err;
}

void ebb_give_also(struct ebb_store *store, bool (*give)(void *ctx, uint64_t ns), void *ctx)
{
	host_user_work_hold(&store->decay);
	store->give_ctx = ctx;
	store->give = give;
	host_user_work_let(&store->decay);
}

bool ebb_forget_slots(struct ebb_store *store, uint64_t first, uint64_t count)
{
	return host_table_forget(&store->core.table, first, count);
}

uint64_t ebb_pool_bytes(struct ebb_store *store)
{
	return pool_pages(&store->core.pool) << PAGE_SHIFT;
}

uint64_t ebb_taken_bytes(struct ebb_store *store)
{
	return zone_pages_out(store->zone) << PAGE_SHIFT;
}

int ebb_reset_peak(struct ebb_store *store)
{
	if (bad(store))
		return -EINVAL;
	pool_reset_peak(&store->core.pool);
	return 0;
}

int ebb_reset_held_back_peak(struct ebb_store *store)
{
	if (bad(store))
		return -EINVAL;
	release_reset_peak(&store->core.release);
	return 0;
}

int ebb_stat(struct ebb_store *store, struct ebb_stat *stat)
{
	struct release_stats rs;
	struct zone_stat zone;
	struct ebb_stat ours;
	struct release *r;
	struct store *s;

	if (bad(store) || why_null(stat))
		return -EINVAL;
	s = &store->core;
	r = &s->release;
	zone_stat(store->zone, &zone);
	release_stats(r, &rs);
	ours = (struct ebb_stat){
		.orig_data_size = store_count(s, CNT_ORIG_BYTES),
		.compr_data_size = store_count(s, CNT_COMPR_BYTES),
		.mem_used_total = pool_pages(&s->pool) << PAGE_SHIFT,
		.mem_limit = READ_ONCE(s->pool.limit),
		.mem_used_max = pool_pages_peak(&s->pool) << PAGE_SHIFT,
		.same_pages = store_count(s, CNT_SAME),
		.pages_compacted = host_a64_read(&s->pool.pages_compacted),
		.huge_pages = store_count(s, CNT_HUGE),
		.huge_pages_since = store_count(s, CNT_HUGE_SINCE),
		.failed_reads = store_count(s, CNT_FAILED_READ),
		.failed_writes = store_count(s, CNT_FAILED_WRITE),
		.notify_free = store_count(s, CNT_FREED),
		.meta_bytes = store_meta_bytes(s),
		.pcp_pages = pcp_count(&store->pcp),
		.zone_bytes = zone.resident_bytes,
		.zone_free_bytes = zone.free_resident << PAGE_SHIFT,
		.held_back_bytes = release_held(r),
		.held_back_peak = release_peak(r),
		.released_deferred = rs.deferred,
		.released_in_place = rs.in_place,
		.released_sync = store_count(s, CNT_SYNC),
		.release_limit = READ_ONCE(store->release_limit),
	};
	return sized_out(stat, STAT_LEAST, &ours, sizeof(ours));
}

/* Row i of the program's, whose size the first tells: that one's is kept, and is the others'. */
static void put_class(struct ebb_class *rows, size_t bytes, unsigned int i,
		      const struct size_class *c, const struct pool_class_stat *stat)
{
	struct ebb_class row = {
		.index = c->index,
		.size = c->size,
		.pages_per_zspage = c->pages,
		.objs_per_zspage = c->objs,
	};
	void *to = (char *)rows + i * bytes;
	unsigned int k;

	if (stat) {
		for (k = 0; k < EBB_FULLNESS; k++)
			row.zspages[k] = stat->zspages[k];
		row.obj_allocated = stat->objs;
		row.obj_used = stat->used;
		row.pages_used = stat->pages;
		row.freeable = stat->freeable;
	}
	memcpy(to, &bytes, sizeof(bytes));
	sized_out(to, CLASS_LEAST, &row, sizeof(row));
}

int ebb_classes(struct ebb_store *store, struct ebb_class *rows, unsigned int *n)
{
	struct pool_class_stat *stats;
	size_t bytes, theirs;
	struct pool *p;
	unsigned int i;

	if (bad(store) || why_null(rows) || why_null(n))
		return -EINVAL;
	theirs = sized_of(rows, CLASS_LEAST);
	if (!theirs)
		return -EINVAL;
	p = &store->core.pool;
	bytes = p->table.nclasses * sizeof(*stats);
	stats = host_zalloc(bytes);
	if (!stats)
		return -ENOMEM;
	pool_class_stats(p, stats);
	for (i = 0; i < p->table.nclasses; i++)
		put_class(rows, theirs, i, &p->table.class[i], &stats[i]);
	*n = p->table.nclasses;
	host_free(stats, bytes);
	return 0;
}

static int show_table(size_t page_size, unsigned int chain_size, enum class_rule rule,
		      struct ebb_class *rows, unsigned int *n, unsigned int *largest)
{
	struct class_table t;
	unsigned int i;
	size_t theirs;
	int err;

	if (why_null(rows) || why_null(n) || why_null(largest))
		return -EINVAL;
	theirs = sized_of(rows, CLASS_LEAST);
	if (!theirs)
		return -EINVAL;
	err = class_table_init(&t, page_size, chain_size, rule);
	if (why_if(err, "page_size %zu, chain_size %u: expected a power of two of 4096 to 65536, and %u to %u",
		   page_size, chain_size, CHAIN_MIN, CHAIN_MAX))
		return err;
	for (i = 0; i < t.nclasses; i++)
		put_class(rows, theirs, i, &t.class[i], NULL);
	*n = t.nclasses;
	*largest = t.largest;
	return 0;
}

int ebb_class_table(size_t page_size, unsigned int chain_size, struct ebb_class *rows,
		    unsigned int *n, unsigned int *largest)
{
	return show_table(page_size, chain_size, CLASS_MOST_USED, rows, n, largest);
}

int ebb_store_class_table(size_t page_size, unsigned int chain_size, struct ebb_class *rows,
			  unsigned int *n, unsigned int *largest)
{
	return show_table(page_size, chain_size, class_pool_rule(page_size), rows, n, largest);
}

int ebb_check(struct ebb_store *store, char *why, size_t len)
{
	const char *what;
	struct zone_stat zone;
	int err = -EUCLEAN;

	if (bad(store) || why_null_of(why, len))
		return -EINVAL;
	/* The tick compacts; held, it does not come again before the check is over. */
	host_user_work_hold(&store->decay);
	release_quiesce(&store->core.release);
	what = store_check(&store->core);
	zone_stat(store->zone, &zone);
	if (!what && zone.pages_out != store_pages_taken(&store->core) + pcp_count(&store->pcp))
		what = "pages taken from the zone != pages in use and in per-CPU lists";
	if (!what)
		err = zone_check(store->zone, why, len);
	else if (len)
		snprintf(why, len, "%s", what);
	host_user_work_let(&store->decay);
	return err;
}
