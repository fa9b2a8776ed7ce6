// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cache.c - owns struct ebb_cache: checks what callers pass in, looks up, puts and deletes.  See
 * ebb_cache.h and cache.h.
 */
#include "cache.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/sized.h"

#define MAGIC 0x6562626361636865ull     /* "ebbcache" */

#define PUT_TRIES 9                     /* the last evicts all that there is */
#define LIVE_LEAST 128u                 /* bytes of memory for each place of the tables */
/*
 * Pages of a zspage, which is what a put may need at once: 256 KiB at most.  A small cache on large
 * pages is denser for it, too.
 */
#define CHAIN (PAGE_SHIFT < 16 ? EBB_CHAIN_DEFAULT : 4u)

#define SLOTS_LEAST ((u64)1 << 20)
#define SLOTS_MOST ((u64)1 << 31)       /* CACHE_LARGE is the bit above */

#define FLAGS (EBB_CACHE_SECOND_MISS | EBB_CACHE_NO_DICTIONARY)

#define CONFIG_LEAST ((size_t)64)

_Static_assert(sizeof(struct ebb_cache_config) == CONFIG_LEAST, "of the first version");

bool cache_bad(const struct ebb_cache *c)
{
	return why_closed(!c || c->magic != MAGIC, "ebb_cache");
}

/* ---- begin and end ---- */

void ebb_cache_config_init(struct ebb_cache_config *cfg)
{
	if (!cfg)
		return;
	*cfg = (struct ebb_cache_config){
		.struct_size = sizeof(*cfg),
		.level = EBB_LEVEL_DEFAULT,
	};
}

static int open_slots(struct ebb_cache *c, const struct ebb_cache_config *cfg, u64 slots)
{
	struct blocks_config blocks = {
		.count = slots, .codec = cfg->codec, .level = cfg->level, .chain = CHAIN,
		.owner_bytes = CACHE_REFS * sizeof(block_ref),
	};
	struct ebb_config store;
	int err;

	/* Compaction is the cache's to ask for, who knows when it pays. */
	ebb_config_init(&store);
	store.slots = slots;
	store.release_limit = 0;
	store.flags = EBB_NO_COMPACT;
	err = blocks_open(&c->blocks, &blocks, &store);
	c->store = blocks.store;
	return err;
}

static void close_shards(struct ebb_cache *c)
{
	unsigned int i;

	for (i = 0; i < CACHE_SHARDS; i++) {
		cache_index_destroy(&c->shard[i].mem);
		cache_index_destroy(&c->shard[i].spilled);
		mutex_destroy(&c->shard[i].lock);
	}
}

static int open_shards(struct ebb_cache *c, u64 slots, bool spill)
{
	u32 most = (u32)(slots / CACHE_SHARDS);
	unsigned int i;
	int err = 0;

	for (i = 0; i < CACHE_SHARDS; i++)
		mutex_init(&c->shard[i].lock);
	for (i = 0; !err && i < CACHE_SHARDS; i++) {
		err = cache_index_init(&c->shard[i].mem, most, true);
		if (!err && spill)
			err = cache_index_init(&c->shard[i].spilled, most, false);
	}
	if (err)
		close_shards(c);
	return err;
}

static int open_tables(struct ebb_cache *c, const struct ebb_cache_config *cfg, u64 slots)
{
	int err = open_slots(c, cfg, slots);

	if (err)
		return err;
	err = open_shards(c, slots, cfg->spill);
	if (err) {
		blocks_destroy(&c->blocks);
		ebb_close(c->store);
	}
	return err;
}

static void close_tables(struct ebb_cache *c)
{
	close_shards(c);
	blocks_destroy(&c->blocks);
	ebb_close(c->store);
}

static u64 most_slots(void)
{
	u64 slots = host_total_bytes() / LIVE_LEAST;

	if (slots < SLOTS_LEAST)
		return SLOTS_LEAST;
	return slots < SLOTS_MOST ? slots : SLOTS_MOST;
}

static void choose_secret(struct hash_secret *secret)
{
	if (syscall(SYS_getrandom, secret, sizeof(*secret), 0) == (long)sizeof(*secret))
		return;
	secret->k0 = ktime_get_ns() * HASH_MUL_1;
	secret->k1 = (u64)(uintptr_t)secret * HASH_MUL_2;
}

static int open_cache(struct ebb_cache *c, const struct ebb_cache_config *cfg)
{
	int err;

	if (why_if(cfg->flags & ~FLAGS, "flags 0x%x: has bits that this version does not know",
		   cfg->flags) ||
	    !cache_may_have(cfg->capacity))
		return -EINVAL;
	if (why_if(cfg->spill && cfg->spill_capacity < EBB_CACHE_SPILL_MIN,
		   "spill_capacity %llu: expected %llu at least",
		   (unsigned long long)cfg->spill_capacity,
		   (unsigned long long)EBB_CACHE_SPILL_MIN))
		return -EINVAL;
	c->flags = cfg->flags;
	c->gone = cfg->gone;
	c->gone_ctx = cfg->gone_ctx;
	choose_secret(&c->secret);
	pins_init(&c->pins);
	err = open_tables(c, cfg, most_slots());
	if (err)
		return err;
	if (cfg->spill)
		err = cache_spill_open(&c->spill, cfg->spill, cfg->spill_capacity);
	if (err)
		goto no_spill;
	err = cache_dict_init(c);
	if (err)
		goto no_dict;
	err = cache_room_init(c, cfg->capacity);
	if (err)
		goto no_room;
	err = blocks_try_out(&c->blocks);
	if (!err)
		return 0;
	cache_room_destroy(c);
no_room:
	cache_dict_stop(c);
	cache_dict_destroy(c);
no_dict:
	cache_spill_close(c->spill);
no_spill:
	close_tables(c);
	return err;
}

int ebb_cache_open(struct ebb_cache **out, const struct ebb_cache_config *theirs)
{
	struct ebb_cache_config cfg;
	struct ebb_cache *c;
	int cancel, err;

	if (why_no_open(out, theirs))
		return -EINVAL;
	*out = NULL;
	err = sized_in(&cfg, sizeof(cfg), theirs, CONFIG_LEAST);
	if (err)
		return err;
	c = host_user_map_wiped(sizeof(*c));
	if (!c)
		return -ENOMEM;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	err = open_cache(c, &cfg);
	pthread_setcancelstate(cancel, NULL);
	if (err) {
		host_user_unmap_wiped(c, sizeof(*c));
		return err;
	}
	c->magic = MAGIC;
	*out = c;
	return 0;
}

void ebb_cache_close(struct ebb_cache *c)
{
	if (cache_bad(c))
		return;
	c->magic = 0;
	cache_room_destroy(c);
	cache_spill_close(c->spill);
	cache_dict_stop(c);
	/* The contexts go before the dictionary that they are used with. */
	close_tables(c);
	cache_dict_destroy(c);
	pins_destroy(&c->pins);
	host_user_unmap_wiped(c, sizeof(*c));
}

struct ebb_store *ebb_cache_store(struct ebb_cache *c)
{
	return cache_bad(c) ? NULL : c->store;
}

int ebb_cache_flush(struct ebb_cache *c)
{
	if (cache_bad(c))
		return -EINVAL;
	if (c->spill)
		cache_spill_flush(c->spill);
	return 0;
}

/* ---- keys ---- */

static int make_key(const struct ebb_cache *c, const void *at, size_t bytes, struct cache_key *key)
{
	if (cache_bad(c) || why_if(!at, "key is NULL") ||
	    why_if(!bytes || bytes > EBB_CACHE_KEY_MAX, "key_bytes %zu: expected 1 to %d", bytes,
		   EBB_CACHE_KEY_MAX))
		return -EINVAL;
	*key = (struct cache_key){ hash_key(&c->secret, at, bytes), at, bytes };
	return 0;
}

/* ---- taking values out ---- */

static void forget_spilled(struct ebb_cache *c, struct cache_shard *sh, u64 hash)
	__must_hold(&sh->lock)
{
	u32 e = c->spill ? cache_index_find(&sh->spilled, hash) : 0;

	if (!e)
		return;
	cache_index_remove(&sh->spilled, e - 1);
	host_a64_add(&c->spill_entries, (u64)-1);
}

/* Takes an entry out, if it is the one of ref, or any if that is 0.  The ref it had, or 0. */
static u64 take_entry(struct ebb_cache *c, struct cache_shard *sh, u64 hash, u64 ref)
	__must_hold(&sh->lock)
{
	u32 e = cache_index_find(&sh->mem, hash);
	struct cache_entry *entry;
	u32 bytes;

	if (!e)
		return 0;
	entry = cache_index_entry(&sh->mem, e - 1);
	if (ref && entry->ref != ref)
		return 0;
	ref = entry->ref;
	bytes = cache_mark_bytes(READ_ONCE(entry->mark));
	host_a64_add(&c->live, -(u64)bytes);
	cache_count_left(c, bytes);
	cache_index_remove(&sh->mem, e - 1);
	return ref;
}

/* Deletes what a key has, or another key of its hash: a cache may. */
static bool erase(struct ebb_cache *c, const struct cache_key *key)
{
	struct cache_shard *sh = cache_shard_of(c, key->hash);
	struct scratch *s = scratch_get_surely(&c->blocks);
	bool spilled;
	u64 ref;

	mutex_lock(&sh->lock);
	ref = take_entry(c, sh, key->hash, 0);
	spilled = c->spill && cache_index_find(&sh->spilled, key->hash);
	forget_spilled(c, sh, key->hash);
	mutex_unlock(&sh->lock);
	if (ref)
		cache_drop(c, s, ref, EBB_CACHE_DELETED);
	scratch_put(&c->blocks, s);
	cache_close_holes_later(c);
	return ref || spilled;
}

int ebb_cache_delete(struct ebb_cache *c, const void *at, size_t key_bytes)
{
	struct cache_call call;
	struct cache_key key;
	int err = make_key(c, at, key_bytes, &key);

	if (err)
		return err;
	cache_call_begin(c, &call);
	err = erase(c, &key) ? 0 : -ENOENT;
	cache_call_end(&call);
	return err;
}

/* ---- putting ---- */

/* Whether a put may store: the key is there, or was noted.  *noted: it was in the ghost. */
static bool admit(struct ebb_cache *c, const struct cache_key *key, bool *noted)
{
	struct cache_shard *sh = cache_shard_of(c, key->hash);
	bool known;

	mutex_lock(&sh->lock);
	*noted = cache_ghost_take(&sh->mem, key->hash);
	known = *noted || cache_index_find(&sh->mem, key->hash) ||
		(c->spill && cache_index_find(&sh->spilled, key->hash));
	if (!known)
		cache_ghost_add(&sh->mem, key->hash);
	mutex_unlock(&sh->lock);
	return known;
}

/* Puts a value in its place; *old is who had it, or 0.  -ENOSPC: the table is full. */
static int publish(struct ebb_cache *c, const struct cache_key *key, u64 ref, u32 bytes, bool noted,
		   u64 *old)
{
	struct cache_shard *sh = cache_shard_of(c, key->hash);
	u64 grown = bytes;
	int err = 0;
	u32 e, was;

	mutex_lock(&sh->lock);
	e = cache_index_find(&sh->mem, key->hash);
	if (e) {
		*old = cache_index_entry(&sh->mem, e - 1)->ref;
		was = cache_mark_bytes(READ_ONCE(cache_index_entry(&sh->mem, e - 1)->mark));
		grown -= was;
		cache_count_left(c, was);
		cache_index_replace(&sh->mem, e - 1, ref, bytes);
	} else {
		noted |= cache_ghost_take(&sh->mem, key->hash);
		err = cache_index_add(&sh->mem, key->hash, ref, bytes,
				      noted ? CACHE_MAIN : CACHE_SMALL);
	}
	if (!err)
		host_a64_add(&c->live, grown);
	forget_spilled(c, sh, key->hash);
	mutex_unlock(&sh->lock);
	return err;
}

/* What a put is of. */
struct putting {
	const struct cache_key *key;
	const struct cache_value *v;
	bool noted;
};

static int put_once(struct ebb_cache *c, struct scratch *s, const struct putting *p)
{
	u64 ref, old = 0;
	u32 bytes;
	int err = cache_value_make(c, s, p->key, p->v, &ref, &bytes);

	if (err)
		return err;
	err = publish(c, p->key, ref, bytes, p->noted, &old);
	if (err) {
		cache_value_free(c, s, ref);
		return err;
	}
	host_a64_add(&cache_shard_of(c, p->key->hash)->counts.puts, 1);
	if (old)
		cache_drop(c, s, old, EBB_CACHE_REPLACED);
	cache_make_room(c, s, bytes);
	return 0;
}

static bool no_room(int err)
{
	return err == -ENOMEM || err == -ENOSPC;
}

/* As put_once(), if there is room; nobody waits for a turn with a scratch in hand. */
static int put_if_room(struct ebb_cache *c, const struct putting *p)
{
	struct scratch *s;
	int err = -ENOMEM;
	u64 entered;

	entered = cache_turn_enter(c, p->v->bytes);
	s = cache_scratch_get(c);
	if (s) {
		err = put_once(c, s, p);
		scratch_put(&c->blocks, s);
	}
	cache_turn_leave(c, entered);
	return err;
}

static int put_and_make_room(struct ebb_cache *c, const struct putting *p)
{
	struct scratch *s = cache_scratch_get(c);
	unsigned int tries;
	int err = -ENOMEM;
	bool more = s;

	for (tries = 0; more && no_room(err) && tries < PUT_TRIES; tries++) {
		/* What others had half stored may be all that there was. */
		more = cache_make_more_room(c, s, p->v->bytes, tries);
		err = put_once(c, s, p);
	}
	if (s)
		scratch_put(&c->blocks, s);
	return err;
}

/*
 * Others wait meanwhile: what it makes room for, they would take.  A small value needs so little
 * that it goes on beside others before it waits for long.
 */
static int put_alone(struct ebb_cache *c, const struct putting *p)
{
	bool patient = p->v->bytes > BLOCK_BYTES, alone;
	int err;

	do {
		alone = cache_turn_enter_alone(c, patient);
		err = put_and_make_room(c, p);
		if (alone)
			cache_turn_leave_alone(c);
		patient = true;
	} while (!alone && no_room(err));
	return err;
}

static int put(struct ebb_cache *c, const struct putting *p)
{
	int err = -ENOMEM;

	if (READ_ONCE(c->capacity) && cache_call_may_put(c)) {
		err = put_if_room(c, p);
		if (no_room(err))
			err = put_alone(c, p);
	}
	if (err) {
		erase(c, p->key);
		host_a64_add(&cache_shard_of(c, p->key->hash)->counts.failed, 1);
	}
	return err == -ENOSPC ? -ENOMEM : err;
}

int ebb_cache_put(struct ebb_cache *c, const void *at, size_t key_bytes, const void *data,
		  size_t bytes, uint64_t charge, unsigned int flags)
{
	const struct cache_value v = { data, bytes, charge };
	struct cache_call call;
	struct cache_key key;
	struct putting p = { .key = &key, .v = &v };
	int err = make_key(c, at, key_bytes, &key);

	if (err || why_null_of(data, bytes) ||
	    why_if(flags & ~EBB_CACHE_ADMIT, "flags 0x%x: expected EBB_CACHE_ADMIT or 0", flags))
		return -EINVAL;
	if (bytes > EBB_CACHE_VALUE_MAX) {
		ebb_cache_delete(c, at, key_bytes);
		return -EFBIG;
	}
	if (c->flags & EBB_CACHE_SECOND_MISS && !(flags & EBB_CACHE_ADMIT) &&
	    !admit(c, &key, &p.noted)) {
		host_a64_add(&cache_shard_of(c, key.hash)->counts.noted, 1);
		return -EAGAIN;
	}
	blocks_expect(&c->blocks, bytes);
	cache_call_begin(c, &call);
	err = put(c, &p);
	cache_call_end(&call);
	return err;
}

/* ---- looking up ---- */

/* Where a value was found, and how many bytes of it are at s->plain. */
struct place {
	u64 ref;                        /* 0: in the spill */
	u64 at;
	size_t n;
};

/* By the lock: what writers cannot disturb. */
static int look_locked(struct ebb_cache *c, struct scratch *s, const struct cache_key *key,
		       struct place *p)
{
	struct cache_shard *sh = cache_shard_of(c, key->hash);
	int err = -ENOENT;
	u32 e;

	mutex_lock(&sh->lock);
	e = cache_index_find(&sh->mem, key->hash);
	p->ref = e ? cache_index_entry(&sh->mem, e - 1)->ref : 0;
	if (e)
		err = cache_value_read(c, s, p->ref, &p->n);
	else if (c->spill && (e = cache_index_find(&sh->spilled, key->hash)) != 0)
		p->at = cache_index_entry(&sh->spilled, e - 1)->ref;
	mutex_unlock(&sh->lock);
	if (e && !p->ref)
		err = cache_spill_get(c->spill, key->hash, p->at, s->plain, BLOCK_BYTES, &p->n);
	return err;
}

/* Reads head and bytes of what a key has to s->plain.  -ENOENT. */
static int look(struct ebb_cache *c, struct scratch *s, const struct cache_key *key,
		struct place *p)
{
	struct cache_index *x = &cache_shard_of(c, key->hash)->mem;
	struct cache_seen seen;
	unsigned int tries;
	int err = -ESTALE;

	for (tries = 0; err == -ESTALE && tries < CACHE_TRIES; tries++) {
		err = cache_index_look(x, key->hash, &seen);
		if (!err)
			err = cache_value_read(c, s, seen.ref, &p->n);
	}
	p->ref = seen.ref;
	if (!err)
		cache_index_hit(x, &seen);
	else if (err == -ESTALE || c->spill)
		err = look_locked(c, s, key, p);
	if (err || !cache_value_head(s, p->n) || !cache_value_is_of(s, key))
		return -ENOENT;
	return 0;
}

/* A value that was asked for in the spill comes back, if it is still the one that is there. */
static void promote(struct ebb_cache *c, struct scratch *s, const struct cache_key *key,
		    const struct place *p)
{
	struct cache_shard *sh = cache_shard_of(c, key->hash);
	u32 bytes = (u32)p->n + CACHE_OBJECT_HEAD, e;
	bool added = false;
	u64 ref;

	if (cache_value_remake(c, s, p->n, &ref))
		return;
	mutex_lock(&sh->lock);
	e = cache_index_find(&sh->spilled, key->hash);
	if (e && cache_index_entry(&sh->spilled, e - 1)->ref == p->at &&
	    !cache_index_find(&sh->mem, key->hash)) {
		added = !cache_index_add(&sh->mem, key->hash, ref, bytes, CACHE_MAIN);
		if (added) {
			host_a64_add(&c->live, bytes);
			forget_spilled(c, sh, key->hash);
		}
	}
	mutex_unlock(&sh->lock);
	if (!added)
		cache_value_free(c, s, ref);
}

/* What was found is deleted, if it is still there.  False: it is not. */
static bool take(struct ebb_cache *c, const struct cache_key *key, const struct place *p, u64 *ref)
{
	struct cache_shard *sh = cache_shard_of(c, key->hash);
	bool mine;
	u32 e;

	mutex_lock(&sh->lock);
	*ref = p->ref ? take_entry(c, sh, key->hash, p->ref) : 0;
	mine = *ref != 0;
	if (!p->ref) {
		e = cache_index_find(&sh->spilled, key->hash);
		mine = e && cache_index_entry(&sh->spilled, e - 1)->ref == p->at;
		if (mine)
			forget_spilled(c, sh, key->hash);
	}
	/* Who took it is likely to put it back. */
	if (mine)
		cache_ghost_add(&sh->mem, key->hash);
	mutex_unlock(&sh->lock);
	return mine;
}

/* Who asks: for bytes in buf[cap], or for a pin. */
struct wish {
	bool pinned, take;
	void *buf;
	size_t cap;
	size_t bytes;                   /* of the value, if it was found */
	struct pin *pin;
};

/* A get without a buffer asks whether there is a value, and of how many bytes. */
static bool only_asks(const struct wish *w)
{
	return !w->buf && !w->pinned && !w->take;
}

/* A pin, and the value's bytes after it. */
struct pin {
	struct ebb_cache_pin is;
	struct pins_place place;
	unsigned char data[];
};

/* The room for the value whose head is at s->plain.  -ENOSPC, -ENOMEM. */
static int get_room(struct ebb_cache *c, struct scratch *s, struct wish *w, void **buf)
{
	const struct value_head *head = (const void *)s->plain;
	struct pins_place place;

	w->bytes = head->bytes;
	*buf = w->buf;
	if (!w->pinned)
		return w->bytes > w->cap ? -ENOSPC : 0;
	w->pin = pins_take(&c->pins, sizeof(*w->pin) + w->bytes, &place);
	if (!w->pin)
		return -ENOMEM;
	w->pin->place = place;
	w->pin->is = (struct ebb_cache_pin){ w->pin->data, w->bytes, head->charge };
	*buf = w->pin->data;
	return 0;
}

static void end_pin(struct ebb_cache *c, struct pin *pin)
{
	const struct pins_place place = pin->place;

	pins_give(&c->pins, pin, &place);
}

/* -ESTALE: what was found was replaced or deleted while it was read. */
static int get_once(struct ebb_cache *c, struct scratch *s, const struct cache_key *key,
		    struct wish *w)
{
	struct cache_counts *counts = &cache_shard_of(c, key->hash)->counts;
	struct place p;
	void *buf;
	u64 ref = 0;
	int err = look(c, s, key, &p);

	if (err)
		return err;
	err = get_room(c, s, w, &buf);
	if (err)
		return err;
	/* It is taken before the long part, in which another could replace it each time. */
	if (w->take && !take(c, key, &p, &ref))
		err = -ESTALE;
	if (!err)
		err = cache_value_unpack(c, s, p.n, buf);
	if (ref) {
		cache_drop(c, s, ref, EBB_CACHE_DELETED);
		cache_close_holes_later(c);
	}
	if (err) {
		if (w->pinned)
			end_pin(c, w->pin);
		return err;
	}
	if (only_asks(w))
		return 0;
	host_a64_add(&counts->hits, 1);
	if (!p.ref)
		host_a64_add(&counts->spill_hits, 1);
	if (!p.ref && !w->take && cache_call_may_put(c)) {
		promote(c, s, key, &p);
		cache_make_room(c, s, (u32)p.n);
	}
	return 0;
}

static int get(struct ebb_cache *c, const struct cache_key *key, struct wish *w)
{
	struct cache_call call;
	unsigned int tries;
	struct scratch *s;
	int err = -ENOMEM;

	cache_call_begin(c, &call);
	s = cache_scratch_get(c);
	if (s)
		err = -ESTALE;
	/* A large value that is replaced each time that it is read may be a miss. */
	for (tries = 0; err == -ESTALE && tries < CACHE_TRIES; tries++)
		err = get_once(c, s, key, w);
	if (!err && w->pinned)
		cache_make_room_for_pin(c, s, w->pin->place.bytes);
	if (s)
		scratch_put(&c->blocks, s);
	if (err == -ESTALE)
		err = -ENOENT;
	if (err == -ENOENT && !only_asks(w))
		host_a64_add(&cache_shard_of(c, key->hash)->counts.misses, 1);
	cache_call_end(&call);
	return err;
}

static int read_to(struct ebb_cache *c, const void *at, size_t key_bytes, struct wish *w,
		   size_t *bytes)
{
	struct cache_key key;
	int err = make_key(c, at, key_bytes, &key);

	if (err || why_null(bytes) || why_if(!w->buf && w->cap, "buf is NULL, and cap is not 0"))
		return -EINVAL;
	err = get(c, &key, w);
	if (!err || err == -ENOSPC)
		*bytes = w->bytes;
	return err;
}

int ebb_cache_get(struct ebb_cache *c, const void *at, size_t key_bytes, void *buf, size_t cap,
		  size_t *bytes)
{
	return read_to(c, at, key_bytes, &(struct wish){ .buf = buf, .cap = cap }, bytes);
}

int ebb_cache_take(struct ebb_cache *c, const void *at, size_t key_bytes, void *buf, size_t cap,
		   size_t *bytes)
{
	return read_to(c, at, key_bytes, &(struct wish){ .take = true, .buf = buf, .cap = cap },
		       bytes);
}

int ebb_cache_pin(struct ebb_cache *c, const void *at, size_t key_bytes, unsigned int flags,
		  struct ebb_cache_pin **pin)
{
	struct wish w = { .pinned = true, .take = flags & EBB_CACHE_TAKE };
	struct cache_key key;
	int err = make_key(c, at, key_bytes, &key);

	if (err || why_null(pin) ||
	    why_if(flags & ~EBB_CACHE_TAKE, "flags 0x%x: expected EBB_CACHE_TAKE or 0", flags))
		return -EINVAL;
	*pin = NULL;
	err = get(c, &key, &w);
	if (err)
		return err;
	*pin = &w.pin->is;
	return 0;
}

void ebb_cache_unpin(struct ebb_cache *c, struct ebb_cache_pin *pin)
{
	if (pin && !cache_bad(c))
		end_pin(c, (struct pin *)pin);
}
