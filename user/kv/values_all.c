// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * values_all.c - what goes over all values: the cursor, the figures, the check.
 *
 * A cursor goes by the bits of hashes from the other end.  So the values of a bucket are a range
 * of it, and when a bucket is split or merged the range is parted or joined, and no value is passed
 * twice or left out.
 */
#include <stdio.h>

#include "api/sized.h"
#include "values.h"

#define ENTRY_LEAST ((size_t)32)
#define STAT_LEAST ((size_t)64)

/* ---- the cursor ---- */

/* How many low bits of a hash say its bucket. */
static unsigned int bits_of(u64 buckets, u64 hash)
{
	unsigned int low = 63 - (unsigned int)__builtin_clzll(buckets);

	return (hash & (((u64)2 << low) - 1)) < buckets ? low + 1 : low;
}

/*
 * Of the records that the cursor has not passed, the one with the least place; those of one place
 * come in the order in which they lie.  False: there is none in this bucket.
 */
static bool least_record(const struct image *img, u64 buckets,
			 const struct ebb_values_cursor *cursor, struct record *least, u32 *nth)
{
	u64 bucket = bucket_of(buckets, hash_reverse(cursor->at)), best = 0, place;
	u32 same = 0;
	bool found = false, bad;
	struct record r;
	size_t at = 0;

	while (image_next(img, &at, &r, &bad)) {
		place = hash_reverse(r.hash);
		if (place < cursor->at || bucket_of(buckets, r.hash) != bucket)
			continue;
		if (place == cursor->at && same++ < cursor->nth)
			continue;
		if (!found || place < best) {
			found = true;
			best = place;
			*least = r;
		}
	}
	*nth = found && best == cursor->at ? cursor->nth + 1 : 1;
	return found;
}

/* Moves the cursor to the first place past its bucket. */
static void skip_bucket(struct ebb_values_cursor *cursor, u64 buckets)
{
	unsigned int bits = bits_of(buckets, hash_reverse(cursor->at));
	u64 next = (cursor->at >> (64 - bits)) + 1;

	cursor->nth = 0;
	cursor->end = next >> bits != 0;
	cursor->at = next << (64 - bits);
}

/* The bucket of the cursor, from which no writer can keep us for ever. */
static int read_at(struct ebb_values *v, struct scratch *s, const struct ebb_values_cursor *cursor,
		   struct image *img, u64 *buckets)
{
	u64 hash = hash_reverse(cursor->at);
	struct values_stripe *st = stripe_of(v, hash);
	unsigned int tries;
	int err = -ESTALE;

	for (tries = 0; err == -ESTALE && tries < VALUES_TRIES; tries++)
		err = bucket_read_of(v, s, hash, img, buckets);
	if (err != -ESTALE)
		return err;
	mutex_lock(&st->lock);
	err = bucket_read_of(v, s, hash, img, buckets);
	mutex_unlock(&st->lock);
	return err == -ESTALE ? -EIO : err;
}

static int next(struct ebb_values *v, struct scratch *s, struct ebb_values_cursor *cursor,
		struct ebb_values_entry *entry, void *key)
{
	struct image *img = &values_room(s)->image;
	struct record r;
	u64 buckets;
	u32 nth;
	int err;

	while (!cursor->end) {
		err = read_at(v, s, cursor, img, &buckets);
		if (err)
			return err;
		if (!least_record(img, buckets, cursor, &r, &nth)) {
			skip_bucket(cursor, buckets);
			continue;
		}
		cursor->at = hash_reverse(r.hash);
		cursor->nth = nth;
		entry->bytes = r.bytes;
		entry->key_bytes = r.key_bytes;
		entry->id = r.key_bytes ? 0 : hash_id_undo(&v->secret, r.hash);
		if (key && r.key_bytes)
			memcpy(key, r.key, r.key_bytes);
		return 0;
	}
	return -ENOENT;
}

int ebb_values_next(struct ebb_values *v, struct ebb_values_cursor *cursor,
		    struct ebb_values_entry *entry, void *key)
{
	struct ebb_values_entry ours = { 0 };
	struct scratch *s;
	int err;

	if (values_bad(v) || why_null(cursor) || why_null(entry) || !sized_of(entry, ENTRY_LEAST))
		return -EINVAL;
	s = scratch_get_surely(&v->blocks);
	err = next(v, s, cursor, &ours, key);
	scratch_put(&v->blocks, s);
	return err ? err : sized_out(entry, ENTRY_LEAST, &ours, sizeof(ours));
}

/* ---- figures ---- */

int ebb_values_stat(struct ebb_values *v, struct ebb_values_stat *stat)
{
	struct ebb_stat store = { .struct_size = sizeof(store) };
	struct ebb_values_stat ours = { 0 };
	unsigned int i;

	if (values_bad(v) || why_null(stat))
		return -EINVAL;
	for (i = 0; i < VALUES_STRIPES; i++) {
		ours.values += READ_ONCE(v->stripe[i].values);
		ours.value_bytes += READ_ONCE(v->stripe[i].value_bytes);
		ours.packed_bytes += READ_ONCE(v->stripe[i].packed_bytes);
	}
	ebb_stat(v->store, &store);
	ours.object_bytes = store.compr_data_size;
	ours.buckets = host_a64_read(&v->buckets);
	ours.meta_bytes = blocks_meta_bytes(&v->blocks) + blocks_contexts_bytes(&v->blocks) +
			  values_spare_reader_bytes(v) + sizeof(*v);
	ours.rereads = host_a64_read(&v->blocks.stale);
	return sized_out(stat, STAT_LEAST, &ours, sizeof(ours));
}

/* ---- the check ---- */

/* What was found. */
struct found {
	u64 values, value_bytes, packed_bytes, record_bytes;
	u64 numbers;            /* of slots, of all blocks */
};

static bool block_found(struct ebb_values *v, struct scratch *s, block_ref ref, struct found *f)
{
	if (!block_is_there(&v->blocks, s, ref))
		return false;
	f->numbers += runs_length(&v->blocks.runs, (u32)(ref >> 32));
	return true;
}

static bool map_found(struct ebb_values *v, struct scratch *s, const struct record *r,
		      struct found *f)
{
	struct values_room *room = values_room(s);
	u64 i, leaf = NO_LEAF, was;
	block_ref ref;

	if (!block_found(v, s, r->ref, f) || value_map(v, s, r->ref, room->top))
		return false;
	for (i = 0; i < value_blocks(v, r->bytes); i++) {
		was = leaf;
		if (value_block(v, s, room->leaf, room->top, &leaf, i, &ref))
			return false;
		if ((leaf != was && !block_found(v, s, room->top[leaf], f)) ||
		    !block_found(v, s, ref, f))
			return false;
	}
	return true;
}

static const char *check_bucket(struct ebb_values *v, struct scratch *s, u64 i, struct found *f)
{
	struct image *img = &values_room(s)->image;
	u64 buckets = host_a64_read(&v->buckets);
	struct record r, other;
	size_t at = 0;
	bool bad;

	if (bucket_read(v, s, i, img))
		return "a bucket is damaged";
	if (i >= buckets && img->bytes)
		return "there is a bucket past the last";
	if (img->rest && !block_found(v, s, img->rest, f))
		return "the rest of a bucket is not there";
	while (image_next(img, &at, &r, &bad)) {
		const struct name name = { r.hash, r.key, r.key_bytes };

		if (bucket_of(buckets, r.hash) != i)
			continue;
		if (image_find(img, &name, &other) || other.at != r.at)
			return "a name is there twice";
		if (r.key_bytes && hash_key(&v->secret, r.key, r.key_bytes) != r.hash)
			return "a key has another one's hash";
		f->values++;
		f->value_bytes += r.bytes;
		f->packed_bytes += r.packed;
		f->record_bytes += r.length;
		if (r.kind == RECORD_BLOCK && !block_found(v, s, r.ref, f))
			return "a value's block is not there";
		if (r.kind == RECORD_MAP && !map_found(v, s, &r, f))
			return "a value's map, or a block of it, is not there";
	}
	return bad ? "a bucket has a damaged record" : NULL;
}

/* NULL, or what is wrong. */
static const char *check_values(struct ebb_values *v, struct scratch *s)
{
	struct found f = { 0 }, said = { 0 };
	const char *what;
	unsigned int k;
	u64 i;

	/* Two past the last: what was taken apart there must be gone. */
	for (i = 0; i < host_a64_read(&v->buckets) + 2 && i < v->most_buckets; i++) {
		what = check_bucket(v, s, i, &f);
		if (what)
			return what;
	}
	for (k = 0; k < VALUES_STRIPES; k++) {
		said.values += v->stripe[k].values;
		said.value_bytes += v->stripe[k].value_bytes;
		said.packed_bytes += v->stripe[k].packed_bytes;
		said.record_bytes += v->stripe[k].record_bytes;
		if (v->stripe[k].pins)
			return NULL;    /* values that are read have blocks and no names */
	}
	if (f.values != said.values || f.value_bytes != said.value_bytes ||
	    f.packed_bytes != said.packed_bytes || f.record_bytes != said.record_bytes)
		return "values that are there != what is counted";
	if (f.numbers != v->blocks.runs.numbers)
		return "slot numbers that blocks have != those that are taken";
	return blocks_check(&v->blocks);
}

int ebb_values_check(struct ebb_values *v, char *why, size_t len)
{
	const char *what;
	struct scratch *s;
	int err;

	if (values_bad(v) || why_null_of(why, len))
		return -EINVAL;
	err = ebb_check(v->store, why, len);
	if (err)
		return err;
	s = scratch_get_surely(&v->blocks);
	what = check_values(v, s);
	scratch_put(&v->blocks, s);
	if (what && len)
		snprintf(why, len, "%s", what);
	return what ? -EUCLEAN : 0;
}
