// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * values.c - owns struct ebb_values: checks what callers pass in, looks names up, changes records.
 * See ebb_values.h and values.h.
 */
#include "values.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/ebb_in.h"
#include "api/sized.h"

#define MAGIC 0x65626276616c7565ull     /* "ebbvalue" */

/* Two levels of references lead to EBB_VALUES_MAX bytes. */
#define UNIT_LEAST ((size_t)16 << 10)

_Static_assert(LEAF_REFS * LEAF_REFS * UNIT_LEAST >= EBB_VALUES_MAX, "any value has a map");

#define SLOTS_LEAST ((u64)1 << 16)
#define SLOTS_MOST (((u64)1 << 32) - 1)
#define SLOTS_DEFAULT_LEAST ((u64)1 << 20)
/*
 * There is a slot for so many bytes of memory.  Half of the slots are for blocks, and blocks of
 * INLINE_MOST bytes are to be able to fill it.
 */
#define SLOT_HOLDS 256u

_Static_assert(SLOT_HOLDS * 2 <= INLINE_MOST, "slots for blocks do not end before memory does");

#define ADD_STEP_MOST ((u64)1 << 32)    /* between the ids that an add looks at */

#define CONFIG_LEAST ((size_t)56)
#define ENTRY_LEAST ((size_t)32)
#define STAT_LEAST ((size_t)64)

_Static_assert(sizeof(struct ebb_values_config) == CONFIG_LEAST, "of the first version");
_Static_assert(sizeof(struct ebb_values_entry) >= ENTRY_LEAST &&
	       sizeof(struct ebb_values_stat) >= STAT_LEAST, "structs do not shrink");

bool values_bad(const struct ebb_values *v)
{
	return why_closed(!v || v->magic != MAGIC, "ebb_values");
}

/* ---- begin and end ---- */

void ebb_values_config_init(struct ebb_values_config *cfg)
{
	if (!cfg)
		return;
	*cfg = (struct ebb_values_config){
		.struct_size = sizeof(*cfg),
		.level = EBB_LEVEL_DEFAULT,
		.release_limit = EBB_DEFAULT,
	};
}

/* Where the system gives no random bytes, addresses and the time have some. */
static void choose_secret(struct hash_secret *secret)
{
	if (syscall(SYS_getrandom, secret, sizeof(*secret), 0) == (long)sizeof(*secret))
		return;
	secret->k0 = ktime_get_ns() * HASH_MUL_1;
	secret->k1 = (u64)(uintptr_t)secret * HASH_MUL_2;
}

static u64 default_slots(void)
{
	u64 slots = host_total_bytes() / SLOT_HOLDS;

	if (slots < SLOTS_DEFAULT_LEAST)
		return SLOTS_DEFAULT_LEAST;
	return slots < SLOTS_MOST ? slots : SLOTS_MOST;
}

/* The first half of the slots is for buckets, the other for blocks. */
static int open_slots(struct ebb_values *v, const struct ebb_values_config *cfg, u64 slots)
{
	struct blocks_config blocks = {
		.first = slots / 2, .count = slots - slots / 2, .codec = cfg->codec,
		.level = cfg->level, .chain = cfg->chain_size,
		.owner_bytes = sizeof(struct values_room),
	};
	struct ebb_config store;
	int err;

	/* The limit is watched here, so that a delete may go past it. */
	ebb_config_init(&store);
	store.slots = slots;
	store.release_limit = cfg->release_limit;
	store.flags = cfg->flags;
	err = blocks_open(&v->blocks, &blocks, &store);
	v->store = blocks.store;
	v->most_buckets = blocks.first;
	return err;
}

static int open_values(struct ebb_values *v, const struct ebb_values_config *cfg)
{
	u64 slots = cfg->slots ? cfg->slots : default_slots();
	unsigned int i;
	int err;

	v->unit = cfg->unit_bytes ? cfg->unit_bytes : BLOCK_BYTES;
	if (why_if(v->unit < UNIT_LEAST || v->unit > BLOCK_BYTES || v->unit & (v->unit - 1),
		   "unit_bytes %zu: expected a power of two, %zu to %zu", (size_t)v->unit,
		   (size_t)UNIT_LEAST, (size_t)BLOCK_BYTES) ||
	    why_if(slots < SLOTS_LEAST || slots > SLOTS_MOST, "slots %llu: expected 2^16 to 2^32 - 1",
		   (unsigned long long)slots))
		return -EINVAL;
	err = open_slots(v, cfg, slots);
	if (err)
		return err;
	err = blocks_try_out(&v->blocks);
	if (err) {
		blocks_destroy(&v->blocks);
		ebb_close(v->store);
		return err;
	}
	choose_secret(&v->secret);
	v->head_most = v->blocks.small < BUCKET_OBJECT ? v->blocks.small : BUCKET_OBJECT;
	v->mem_limit = cfg->mem_limit;
	host_a64_set(&v->buckets, VALUES_STRIPES);
	mutex_init(&v->growing);
	for (i = 0; i < VALUES_STRIPES; i++)
		mutex_init(&v->stripe[i].lock);
	return 0;
}

int ebb_values_open(struct ebb_values **out, const struct ebb_values_config *theirs)
{
	struct ebb_values_config cfg;
	struct ebb_values *v;
	int err;

	if (why_no_open(out, theirs))
		return -EINVAL;
	*out = NULL;
	err = sized_in(&cfg, sizeof(cfg), theirs, CONFIG_LEAST);
	if (err)
		return err;
	v = host_user_map_wiped(sizeof(*v));
	if (!v)
		return -ENOMEM;
	err = open_values(v, &cfg);
	if (err) {
		host_user_unmap_wiped(v, sizeof(*v));
		return err;
	}
	v->magic = MAGIC;
	*out = v;
	return 0;
}

void ebb_values_close(struct ebb_values *v)
{
	unsigned int i;

	if (values_bad(v))
		return;
	v->magic = 0;
	values_end_spare_reader(v);
	blocks_destroy(&v->blocks);
	ebb_close(v->store);
	for (i = 0; i < VALUES_STRIPES; i++)
		mutex_destroy(&v->stripe[i].lock);
	mutex_destroy(&v->growing);
	host_user_unmap_wiped(v, sizeof(*v));
}

struct ebb_store *ebb_values_store(struct ebb_values *v)
{
	return values_bad(v) ? NULL : v->store;
}

int ebb_values_set_mem_limit(struct ebb_values *v, uint64_t bytes)
{
	if (values_bad(v))
		return -EINVAL;
	WRITE_ONCE(v->mem_limit, bytes);
	return 0;
}

/* ---- names ---- */

struct name values_name_of_id(const struct ebb_values *v, u64 id)
{
	return (struct name){ .hash = hash_id(&v->secret, id) };
}

int values_name_of_key(const struct ebb_values *v, const void *key, size_t key_bytes,
		       struct name *name)
{
	if (values_bad(v) || why_null(key) ||
	    why_if(!key_bytes || key_bytes > EBB_VALUES_KEY_MAX, "key_bytes %zu: expected 1 to %d",
		   key_bytes, EBB_VALUES_KEY_MAX))
		return -EINVAL;
	*name = (struct name){ hash_key(&v->secret, key, key_bytes), key, key_bytes };
	return 0;
}

/* ---- changes ---- */

static void count_record(struct values_stripe *st, const struct record *r, u64 by)
	__must_hold(&st->lock)
{
	WRITE_ONCE(st->values, st->values + by);
	WRITE_ONCE(st->value_bytes, st->value_bytes + by * r->bytes);
	WRITE_ONCE(st->packed_bytes, st->packed_bytes + by * r->packed);
	WRITE_ONCE(st->record_bytes, st->record_bytes + by * r->length);
}

static void image_cut(struct image *img, const struct record *r)
{
	size_t at = (size_t)(r->at - img->records), after = at + r->length;

	memmove(img->records + at, img->records + after, img->bytes - after);
	img->bytes -= r->length;
}

/*
 * Puts new, or nothing if it is NULL, in the place of what a name has, and then frees that.  The
 * record's bytes are in room->record: new->data points into s->packed, which buckets use.
 */
static int change(struct ebb_values *v, struct scratch *s, const struct name *name,
		  const struct record *new, unsigned int flags)
{
	struct values_stripe *st = stripe_of(v, name->hash);
	struct values_room *room = values_room(s);
	struct image *img = &room->image;
	bool had, free_old = false;
	struct record old;
	u64 i;
	int err;

	mutex_lock(&st->lock);
	i = bucket_of(host_a64_read(&v->buckets), name->hash);
	err = bucket_read(v, s, i, img);
	if (!err)
		err = image_find(img, name, &old);
	had = !err;
	if (err == -ENOENT)
		err = new && !(flags & EBB_PUT_REPLACE) ? 0 : -ENOENT;
	else if (had && new && flags & EBB_PUT_NEW)
		err = -EEXIST;
	if (!err && had)
		image_cut(img, &old);
	if (!err && new) {
		memcpy(img->records + img->bytes, room->record, new->length);
		img->bytes += new->length;
	}
	if (!err)
		err = bucket_write(v, s, i, img);
	if (!err && had) {
		count_record(st, &old, (u64)-1);
		free_old = unname_value(st, &old);
	}
	if (!err && new)
		count_record(st, new, 1);
	mutex_unlock(&st->lock);
	if (free_old)
		value_free(v, s, &old);
	if (!err)
		buckets_tend(v, s, st);
	return err == -ESTALE ? -EIO : err;
}

/* What the flags of a put would come to now: to pack a value that is refused is dear. */
static int refused_now(struct ebb_values *v, struct scratch *s, const struct name *name,
		       unsigned int flags)
{
	struct values_stripe *st = stripe_of(v, name->hash);
	struct record r;
	int err;

	if (!flags)
		return 0;
	mutex_lock(&st->lock);
	err = values_look_locked(v, s, name, &r);
	mutex_unlock(&st->lock);
	if (flags & EBB_PUT_REPLACE)
		return err;
	return !err ? -EEXIST : err == -ENOENT ? 0 : err;
}

/*
 * Packed bytes, and those of references, that go when a put of so many bytes succeeds, if the limit
 * may be in its way.
 */
static u64 goes_instead(struct ebb_values *v, struct scratch *s, const struct name *name, u64 bytes)
{
	struct values_stripe *st = stripe_of(v, name->hash);
	u64 limit = READ_ONCE(v->mem_limit), packed = 0, n;
	struct record r;

	if (likely(!limit) || likely(ebb_pool_bytes(v->store) + bytes <= limit))
		return 0;
	mutex_lock(&st->lock);
	if (!values_look_locked(v, s, name, &r)) {
		n = r.kind == RECORD_MAP ? value_blocks(v, r.bytes) : 0;
		packed = r.packed + (n + (n + LEAF_REFS - 1) / LEAF_REFS) * sizeof(r.ref);
	}
	mutex_unlock(&st->lock);
	return packed;
}

int values_put(struct ebb_values *v, const struct name *name, struct value_source *from,
	       unsigned int flags)
{
	struct record r = { .hash = name->hash, .key = name->key, .key_bytes = name->key_bytes };
	struct scratch *s;
	int err;

	if (why_if(flags > EBB_PUT_REPLACE, "flags 0x%x: expected 0 or an EBB_PUT_... alone", flags))
		return -EINVAL;
	if (from->bytes > EBB_VALUES_MAX)
		return -EFBIG;
	s = scratch_get(&v->blocks);
	if (!s)
		return -ENOMEM;
	err = refused_now(v, s, name, flags);
	if (!err) {
		from->instead = goes_instead(v, s, name, from->bytes);
		err = value_make(v, s, from, &r);
	}
	if (!err) {
		r.length = record_make(values_room(s)->record, &r);
		err = change(v, s, name, &r, flags);
		if (err)
			value_free(v, s, &r);
	}
	scratch_put(&v->blocks, s);
	return err;
}

static int put(struct ebb_values *v, const struct name *name, const void *data, size_t bytes,
	       unsigned int flags)
{
	struct value_source from = { .bytes = bytes, .at = data };

	if (why_null_of(data, bytes))
		return -EINVAL;
	return values_put(v, name, &from, flags);
}

int ebb_values_put(struct ebb_values *v, uint64_t id, const void *data, size_t bytes,
		   unsigned int flags)
{
	struct name name;

	if (values_bad(v))
		return -EINVAL;
	name = values_name_of_id(v, id);
	return put(v, &name, data, bytes, flags);
}

int ebb_values_put_key(struct ebb_values *v, const void *key, size_t key_bytes, const void *data,
		       size_t bytes, unsigned int flags)
{
	struct name name;
	int err = values_name_of_key(v, key, key_bytes, &name);

	return err ? err : put(v, &name, data, bytes, flags);
}

int ebb_values_add(struct ebb_values *v, const void *data, size_t bytes, uint64_t *id)
{
	u64 next, step = 1;
	int err;

	if (values_bad(v) || why_null(id))
		return -EINVAL;
	/* Twice as far from each one in use: past N of them in a row with log2(N) looks. */
	do {
		next = host_a64_add(&v->last_id, step);
		err = ebb_values_put(v, next, data, bytes, EBB_PUT_NEW);
		if (step < ADD_STEP_MOST)
			step *= 2;
	} while (err == -EEXIST);
	if (!err)
		*id = next;
	return err;
}

static int delete(struct ebb_values *v, const struct name *name)
{
	/* It needs no codec. */
	struct scratch *s = scratch_get_surely(&v->blocks);
	int err = change(v, s, name, NULL, 0);

	scratch_put(&v->blocks, s);
	return err;
}

int ebb_values_delete(struct ebb_values *v, uint64_t id)
{
	struct name name;

	if (values_bad(v))
		return -EINVAL;
	name = values_name_of_id(v, id);
	return delete(v, &name);
}

int ebb_values_delete_key(struct ebb_values *v, const void *key, size_t key_bytes)
{
	struct name name;
	int err = values_name_of_key(v, key, key_bytes, &name);

	return err ? err : delete(v, &name);
}

/* ---- lookups ---- */

int values_look_locked(struct ebb_values *v, struct scratch *s, const struct name *name,
		       struct record *r)
{
	struct image *img = &values_room(s)->image;
	u64 buckets;
	int err = bucket_read_of(v, s, name->hash, img, &buckets);

	if (!err)
		err = image_find(img, name, r);
	return err == -ESTALE ? -EIO : err;
}

/* Who asks for a value: its size alone, or its bytes in buf[cap]. */
struct wish {
	bool size_only;
	void *buf;
	size_t cap;
	u64 bytes;
};

#define IS_MAP 1

/* -ESTALE: it is to be tried again.  IS_MAP: it is a map, and not read. */
static int get_once(struct ebb_values *v, struct scratch *s, const struct name *name,
		    struct wish *wish)
{
	struct image *img = &values_room(s)->image;
	struct record r;
	u64 buckets;
	int err = bucket_read_of(v, s, name->hash, img, &buckets);

	if (!err)
		err = image_find(img, name, &r);
	if (err)
		return err;
	wish->bytes = r.bytes;
	if (wish->size_only)
		return 0;
	if (r.bytes > wish->cap)
		return -ENOSPC;
	return r.kind == RECORD_MAP ? IS_MAP : value_get(v, s, &r, wish->buf);
}

/* What writers cannot disturb; the caller's buffer is not touched with the lock in hand. */
static int get_locked(struct ebb_values *v, struct scratch *s, const struct name *name,
		      struct wish *wish)
{
	struct values_stripe *st = stripe_of(v, name->hash);
	struct wish ours = *wish;
	int err;

	ours.buf = s->plain;
	mutex_lock(&st->lock);
	err = get_once(v, s, name, &ours);
	mutex_unlock(&st->lock);
	wish->bytes = ours.bytes;
	if (!err && !wish->size_only && ours.bytes)
		memcpy(wish->buf, s->plain, ours.bytes);
	return err == -ESTALE ? -EIO : err;
}

static int get(struct ebb_values *v, const struct name *name, struct wish *wish)
{
	struct scratch *s = scratch_get(&v->blocks);
	unsigned int tries;
	int err = -ESTALE;
	size_t bytes;

	if (!s)
		return -ENOMEM;
	for (tries = 0; err == -ESTALE && tries < VALUES_TRIES; tries++)
		err = get_once(v, s, name, wish);
	if (err == -ESTALE)
		err = get_locked(v, s, name, wish);
	if (err == IS_MAP) {
		err = values_get_map(v, s, name, wish->buf, wish->cap, &bytes);
		if (!err || err == -ENOSPC)
			wish->bytes = bytes;
	}
	scratch_put(&v->blocks, s);
	return err;
}

static int get_to(struct ebb_values *v, const struct name *name, void *buf, size_t cap,
		  size_t *bytes)
{
	struct wish wish = { .buf = buf, .cap = cap };
	int err;

	if (why_null(bytes) || why_null_of(buf, cap))
		return -EINVAL;
	err = get(v, name, &wish);
	if (!err || err == -ENOSPC)
		*bytes = wish.bytes;
	return err;
}

static int get_size(struct ebb_values *v, const struct name *name, u64 *bytes)
{
	struct wish wish = { .size_only = true };
	int err;

	if (why_null(bytes))
		return -EINVAL;
	err = get(v, name, &wish);
	if (!err)
		*bytes = wish.bytes;
	return err;
}

int ebb_values_get(struct ebb_values *v, uint64_t id, void *buf, size_t cap, size_t *bytes)
{
	struct name name;

	if (values_bad(v))
		return -EINVAL;
	name = values_name_of_id(v, id);
	return get_to(v, &name, buf, cap, bytes);
}

int ebb_values_get_key(struct ebb_values *v, const void *key, size_t key_bytes, void *buf,
		       size_t cap, size_t *bytes)
{
	struct name name;
	int err = values_name_of_key(v, key, key_bytes, &name);

	return err ? err : get_to(v, &name, buf, cap, bytes);
}

int ebb_values_size(struct ebb_values *v, uint64_t id, uint64_t *bytes)
{
	struct name name;

	if (values_bad(v))
		return -EINVAL;
	name = values_name_of_id(v, id);
	return get_size(v, &name, bytes);
}

int ebb_values_size_key(struct ebb_values *v, const void *key, size_t key_bytes, uint64_t *bytes)
{
	struct name name;
	int err = values_name_of_key(v, key, key_bytes, &name);

	return err ? err : get_size(v, &name, bytes);
}

int ebb_values_read_open(struct ebb_values *v, uint64_t id, struct ebb_value_reader **reader)
{
	struct name name;

	if (values_bad(v) || why_null(reader))
		return -EINVAL;
	*reader = NULL;
	name = values_name_of_id(v, id);
	return values_open_reader(v, &name, reader);
}

int ebb_values_read_open_key(struct ebb_values *v, const void *key, size_t key_bytes,
			     struct ebb_value_reader **reader)
{
	struct name name;
	int err = why_null(reader) ? -EINVAL : values_name_of_key(v, key, key_bytes, &name);

	if (err)
		return err;
	*reader = NULL;
	return values_open_reader(v, &name, reader);
}
