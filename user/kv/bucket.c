// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bucket.c - records, buckets, and how many of them there are.  See values.h.
 *
 *     object of a bucket   | flags | [block of the rest: 8] | record | record | ...
 *     record               | flags | hash: 8 | [key's length, key] | bytes | [packed] | data |
 *                                                                                   or reference: 8
 *
 * Lengths are of 7 bits a byte, low ones first.
 *
 * Growing takes bucket b = buckets - 2^k apart, under its stripe's lock:
 *
 *     put bucket `buckets'; buckets + 1; moves + 1; put bucket b without what went
 *
 * Shrinking goes the other way: put both in b; buckets - 1; moves + 1; free the last.  A reader
 * takes moves first, then buckets, then the bucket, then looks whether moves is the same.  Then the
 * bucket, when he copied it, was the one of all hashes that buckets says.
 *
 * If the last step of growing fails, b keeps records that are not its own any more.  Nobody
 * looks for them there, and the next split or merge leaves them out.
 */
#include "values.h"

#include "api/ebb_in.h"

#define RECORD_KEY 4u                   /* flags of a record: its kind, and this */
#define BUCKET_REST 1u                  /* flags of a bucket */

/* Mean bytes of a bucket's records, from which on the table grows; below half of it, it shrinks. */
#define BUCKET_TARGET 768u

/* Splits or merges that one change pays for at most: each brings less than two buckets' bytes. */
#define TEND_STEPS 2

/* ---- records ---- */

static size_t put_length(unsigned char *at, u64 n)
{
	size_t i = 0;

	for (; n > 127; n >>= 7)
		at[i++] = (unsigned char)(n | 128);
	at[i++] = (unsigned char)n;
	return i;
}

/* Moves *at past a length; false: there is none before end. */
static bool get_length(const unsigned char **at, const unsigned char *end, u64 *n)
{
	unsigned int shift;

	*n = 0;
	for (shift = 0; *at < end && shift < 63; shift += 7) {
		unsigned char c = *(*at)++;

		*n |= (u64)(c & 127) << shift;
		if (c < 128)
			return true;
	}
	return false;
}

size_t record_make(unsigned char *at, const struct record *r)
{
	unsigned char *p = at;

	*p++ = (unsigned char)(r->kind | (r->key_bytes ? RECORD_KEY : 0));
	memcpy(p, &r->hash, sizeof(r->hash));
	p += sizeof(r->hash);
	if (r->key_bytes) {
		p += put_length(p, r->key_bytes);
		memcpy(p, r->key, r->key_bytes);
		p += r->key_bytes;
	}
	p += put_length(p, r->bytes);
	if (r->kind != RECORD_RAW)
		p += put_length(p, r->packed);
	if (r->kind >= RECORD_BLOCK) {
		memcpy(p, &r->ref, sizeof(r->ref));
		return (size_t)(p - at) + sizeof(r->ref);
	}
	if (r->packed)
		memcpy(p, r->data, r->packed);
	return (size_t)(p - at) + r->packed;
}

static bool parse_record(const unsigned char *at, const unsigned char *end, struct record *r)
{
	const unsigned char *p = at;
	u64 key_bytes = 0;
	unsigned int flags;

	if ((size_t)(end - p) < 1 + sizeof(r->hash))
		return false;
	flags = *p++;
	memcpy(&r->hash, p, sizeof(r->hash));
	p += sizeof(r->hash);
	r->at = at;
	r->kind = (enum record_kind)(flags & 3);
	r->ref = 0;
	if (flags & RECORD_KEY && (!get_length(&p, end, &key_bytes) || !key_bytes))
		return false;
	if (key_bytes > (size_t)(end - p))
		return false;
	r->key = p;
	r->key_bytes = key_bytes;
	p += key_bytes;
	if (!get_length(&p, end, &r->bytes))
		return false;
	if (r->bytes > (r->kind == RECORD_MAP ? EBB_VALUES_MAX : BLOCK_BYTES))
		return false;
	r->packed = r->bytes;
	if (r->kind != RECORD_RAW && !get_length(&p, end, &r->packed))
		return false;
	r->data = p;
	if (r->kind >= RECORD_BLOCK) {
		if ((size_t)(end - p) < sizeof(r->ref))
			return false;
		memcpy(&r->ref, p, sizeof(r->ref));
		p += sizeof(r->ref);
	} else {
		if (r->packed > (size_t)(end - p))
			return false;
		p += r->packed;
	}
	r->length = (size_t)(p - at);
	return true;
}

bool image_next(const struct image *img, size_t *at, struct record *r, bool *bad)
{
	bool more = *at < img->bytes;

	*bad = more && !parse_record(img->records + *at, img->records + img->bytes, r);
	if (!more || *bad)
		return false;
	*at += r->length;
	return true;
}

int image_find(const struct image *img, const struct name *name, struct record *r)
{
	size_t at = 0;
	bool bad;

	while (image_next(img, &at, r, &bad))
		if (record_is_of(r, name))
			return 0;
	return bad ? -EIO : -ENOENT;
}

static void image_add(struct image *img, const struct record *r)
{
	memcpy(img->records + img->bytes, r->at, r->length);
	img->bytes += r->length;
}

static void image_clear(struct image *img)
{
	img->records = img->room + BUCKET_HEAD;
	img->bytes = 0;
	img->rest = 0;
}

struct values_room *values_room(struct scratch *s)
{
	struct values_room *room = s->owner_room;

	room->image.room = room->image_room;
	room->other.room = room->other_room;
	return room;
}

/* ---- buckets ---- */

int bucket_read(struct ebb_values *v, struct scratch *s, u64 i, struct image *img)
{
	/* BUCKET_HEAD bytes are before the records, with the rest's reference or without. */
	unsigned char *object = img->room + BUCKET_HEAD - 1;
	size_t bytes, head = 1, rest;
	int err;

	image_clear(img);
	err = ebb_get(v->store, i, object, BUCKET_OBJECT, &bytes);
	if (err)
		return -EIO;
	if (!bytes)
		return 0;
	if (object[0] & BUCKET_REST)
		head += sizeof(img->rest);
	if (bytes < head)
		return -EIO;
	img->records = object + head;
	img->bytes = bytes - head;
	if (head == 1)
		return 0;
	memcpy(&img->rest, object + 1, sizeof(img->rest));
	err = block_get(&v->blocks, s, img->rest, img->records + img->bytes, BLOCK_BYTES, &rest);
	if (err)
		return err;
	img->bytes += rest;
	return img->bytes <= BUCKET_MOST ? 0 : -EIO;
}

int bucket_read_of(struct ebb_values *v, struct scratch *s, u64 hash, struct image *img,
		   u64 *buckets)
{
	host_a64 *moves = &stripe_of(v, hash)->moves;
	u64 before = host_a64_read_acquire(moves);
	int err;

	*buckets = host_a64_read_acquire(&v->buckets);
	err = bucket_read(v, s, bucket_of(*buckets, hash), img);
	if (err)
		return err;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return host_a64_read(moves) == before ? 0 : -ESTALE;
}

/* The bytes of the first records that fit in bytes. */
static size_t records_within(const struct image *img, size_t bytes)
{
	size_t at = 0, fits = 0;
	struct record r;
	bool bad;

	while (image_next(img, &at, &r, &bad) && at <= bytes)
		fits = at;
	return fits;
}

int bucket_write(struct ebb_values *v, struct scratch *s, u64 i, struct image *img)
{
	block_ref old = img->rest, rest = 0;
	size_t bytes = img->bytes;
	unsigned char *object = img->records - 1;
	int err = 0;

	if (bytes > BUCKET_MOST)
		return -ENOSPC;
	object[0] = 0;
	if (bytes + 1 > v->head_most) {
		size_t left;

		bytes = records_within(img, v->head_most - BUCKET_HEAD);
		left = img->bytes - bytes;
		memcpy(s->packed, img->records + bytes, left);
		err = block_put(&v->blocks, s, left, left, &rest);
		if (err)
			return err;
		object = img->records - BUCKET_HEAD;
		object[0] = BUCKET_REST;
		memcpy(object + 1, &rest, sizeof(rest));
		bytes += sizeof(rest);
	}
	if (img->bytes)
		err = ebb_put(v->store, i, object, bytes + 1);
	else
		ebb_free(v->store, i, 1);
	if (err) {
		if (rest)
			block_free(&v->blocks, rest);
		return err;
	}
	img->rest = rest;
	if (old)
		block_free(&v->blocks, old);
	return 0;
}

/* ---- growing and shrinking ---- */

/* How many buckets there are changes, for who looks for what moved. */
static void say_moved(struct ebb_values *v, struct values_stripe *st, u64 buckets)
{
	host_a64_set_release(&v->buckets, buckets);
	host_a64_add(&st->moves, 1);
}

/* The bucket that was, or will be, split into itself and the last of so many. */
static u64 buddy_of(u64 last)
{
	return last - ((u64)1 << (63 - (unsigned int)__builtin_clzll(last)));
}

/* What of bucket b stays, of n buckets that become n + 1, and what goes. */
static int sort_out(struct image *all, struct image *goes, u64 b, u64 n)
{
	struct image stays = *all;
	struct record r;
	size_t at = 0;
	bool bad;

	stays.bytes = 0;
	while (image_next(all, &at, &r, &bad)) {
		u64 i = bucket_of(n + 1, r.hash);

		if (bucket_of(n, r.hash) != b)
			continue;
		if (i == n) {
			image_add(goes, &r);
		} else {
			memmove(stays.records + stays.bytes, r.at, r.length);
			stays.bytes += r.length;
		}
	}
	if (bad)
		return -EIO;
	*all = stays;
	return 0;
}

/* Adds a bucket.  False: it cannot. */
static bool grow(struct ebb_values *v, struct scratch *s) __must_hold(&v->growing)
{
	u64 n = host_a64_read(&v->buckets), b = buddy_of(n);
	struct values_stripe *st = stripe_of(v, b);
	struct values_room *room = values_room(s);
	bool done;

	if (n == v->most_buckets)
		return false;
	mutex_lock(&st->lock);
	image_clear(&room->other);
	done = !bucket_read(v, s, b, &room->image) &&
	       !sort_out(&room->image, &room->other, b, n) &&
	       (!room->other.bytes || !bucket_write(v, s, n, &room->other));
	if (done) {
		say_moved(v, st, n + 1);
		if (room->other.bytes)
			bucket_write(v, s, b, &room->image);
	}
	mutex_unlock(&st->lock);
	return done;
}

/*
 * Who grows has a page of the slot table before him that is there, and what is past it goes: with
 * growing in hand, nobody puts a bucket there.
 */
static void give_table(struct ebb_values *v, u64 buckets) __must_hold(&v->growing)
{
	u64 first = buckets + HOST_USER_PART;

	if (buckets % HOST_USER_PART == 0 && first + HOST_USER_PART <= v->blocks.runs.first)
		ebb_forget_slots(v->store, first, HOST_USER_PART);
}

/* Merges the last bucket into the one that it came from.  False: it cannot. */
static bool shrink(struct ebb_values *v, struct scratch *s) __must_hold(&v->growing)
{
	u64 n = host_a64_read(&v->buckets) - 1, b = buddy_of(n);
	struct values_stripe *st = stripe_of(v, b);
	struct values_room *room = values_room(s);
	struct image gone = { .room = room->other_room };
	bool done, bad = false, copies;
	struct record r;
	size_t at = 0;

	mutex_lock(&st->lock);
	image_clear(&gone);
	/* b may still have copies of what went to the last bucket: they are left out. */
	done = !bucket_read(v, s, b, &room->image) && !sort_out(&room->image, &gone, b, n);
	copies = gone.bytes;
	done = done && !bucket_read(v, s, n, &room->other) &&
	       room->image.bytes + room->other.bytes <= BUCKET_MOST / 2;
	if (done && (room->other.bytes || copies)) {
		while (image_next(&room->other, &at, &r, &bad))
			image_add(&room->image, &r);
		done = !bad && !bucket_write(v, s, b, &room->image);
	}
	if (done) {
		say_moved(v, st, n);
		image_clear(&gone);
		gone.rest = room->other.rest;
		bucket_write(v, s, n, &gone);
	}
	mutex_unlock(&st->lock);
	if (done)
		give_table(v, n);
	return done;
}

void buckets_tend(struct ebb_values *v, struct scratch *s, struct values_stripe *st)
{
	unsigned int i;

	for (i = 0; i < TEND_STEPS; i++) {
		u64 each = host_a64_read(&v->buckets) / VALUES_STRIPES;
		u64 bytes = READ_ONCE(st->record_bytes);
		bool more = bytes > each * BUCKET_TARGET;

		if (!more && (each < 2 || bytes >= each * BUCKET_TARGET / 2))
			return;
		/* Another is at it. */
		if (!mutex_trylock(&v->growing))
			return;
		more = more ? grow(v, s) : shrink(v, s);
		mutex_unlock(&v->growing);
		if (!more)
			return;
	}
}
