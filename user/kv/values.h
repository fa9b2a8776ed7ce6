/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * values.h - inside of struct ebb_values: what values.c, values_all.c, values_packed.c, bucket.c,
 * value_data.c and value_reader.c share.
 *
 *     name --hash--> bucket i --slot i--> object: | record | record | ...
 *                                                  small value: its bytes
 *                                                  one block:   its reference (block.h)
 *                                                  larger:      the reference of a map
 *
 *     map block: references of leaves --> leaf block: references of 8,192 blocks each
 *
 * The table is a linear hash: it grows and shrinks at its end, by a bucket at a time, as the bytes
 * of records do (bucket.c).  A bucket is one object, and a change of it one ebb_put(), which
 * readers see whole: a lookup copies it and takes no lock.  What has no room in a bucket's object
 * is in a block of its own.
 *
 * Who changes a bucket has the lock of its stripe.  A stripe is the low bits of the hash, and there
 * are never fewer buckets than stripes: so a bucket, and what it is split into, are of one stripe.
 *
 * Lock order: growing > a stripe > all of ebb_put(), ebb_flush().
 */
#ifndef EBB_USER_VALUES_H
#define EBB_USER_VALUES_H

#include "block.h"
#include "api/ebb_values.h"
#include "api/why.h"
#include "hash.h"

#define VALUES_STRIPES 64u              /* and least buckets; a power of two */
#define VALUES_TRIES 8                  /* of a lookup, before it takes the lock */

#define INLINE_MOST ((size_t)512)       /* packed bytes of a value that is in its bucket */
#define LEAF_REFS (BLOCK_BYTES / sizeof(block_ref))

/* A value that is being read whatever happens to its name. */
struct pin {
	block_ref ref;                  /* its map; 0: none */
	bool dead;                      /* the last pin of ref frees it; stripe */
	struct pin *next, *prev;        /* stripe */
};

struct values_stripe {
	struct mutex lock ____cacheline_aligned;
	host_a64 moves;                 /* times that records went from one bucket to another */
	struct pin *pins;               /* lock */
	/* Of the values of this stripe; lock, READ_ONCE. */
	u64 values, value_bytes, packed_bytes;
	u64 record_bytes;
};

struct ebb_values {
	u64 magic;                      /* 0 in a forked child: host_user_map_wiped() */
	struct ebb_store *store;
	struct blocks blocks;
	struct hash_secret secret;
	host_a64 buckets;               /* bucket i < buckets is slot i; written under growing */
	u64 most_buckets;
	u64 mem_limit;                  /* READ_ONCE */
	host_a64 last_id;               /* of ebb_values_add() */
	size_t head_most;               /* bytes of a bucket's object */
	size_t unit;                    /* bytes of a value's blocks, but for its last one */
	struct mutex growing;
	host_a64 spare_reader;          /* one that was closed, for the next to open; 0: none */
	struct values_stripe stripe[VALUES_STRIPES];
};

bool values_bad(const struct ebb_values *v);

/* ---- names and records ---- */

struct name {
	u64 hash;
	const void *key;
	size_t key_bytes;               /* 0: an id, which the hash is */
};

enum record_kind { RECORD_RAW, RECORD_PACKED, RECORD_BLOCK, RECORD_MAP };

struct record {
	enum record_kind kind;
	u64 hash;
	const unsigned char *key;
	size_t key_bytes;
	u64 bytes;                      /* of the value */
	u64 packed;                     /* what the codec made of them */
	const unsigned char *data;      /* RAW, PACKED: packed bytes */
	block_ref ref;                  /* BLOCK, MAP */
	const unsigned char *at;        /* where it begins */
	size_t length;                  /* of the record */
};

/* The most that a record takes. */
#define RECORD_MOST (INLINE_MOST + EBB_VALUES_KEY_MAX + 40)

/* Writes a record to at[RECORD_MOST]; returns its length. */
size_t record_make(unsigned char *at, const struct record *r);

static inline bool record_is_of(const struct record *r, const struct name *name)
{
	return r->hash == name->hash && r->key_bytes == name->key_bytes &&
	       (!name->key_bytes || !memcmp(r->key, name->key, name->key_bytes));
}

/* ---- buckets (bucket.c) ---- */

#define BUCKET_HEAD 9u                  /* the most that stands before its records */
#define BUCKET_OBJECT ((size_t)4096)    /* the most of its object; the rest is in a block */
#define BUCKET_MOST ((size_t)60 << 10)  /* of its records */
#define IMAGE_ROOM (BUCKET_HEAD + BUCKET_OBJECT + BLOCK_BYTES + RECORD_MOST)

/* A copy of a bucket. */
struct image {
	unsigned char *room;            /* [IMAGE_ROOM] */
	unsigned char *records;         /* in it; BUCKET_HEAD bytes before are free */
	size_t bytes;                   /* of all records */
	block_ref rest;                 /* where the last of them were read from, or 0 */
};

/* What values have in a scratch's owner_room. */
struct values_room {
	struct image image, other;
	unsigned char record[RECORD_MOST];
	block_ref top[LEAF_REFS], leaf[LEAF_REFS];
	unsigned char image_room[IMAGE_ROOM], other_room[IMAGE_ROOM];
};

/* The room of a scratch, ready for use. */
struct values_room *values_room(struct scratch *s);

static inline struct values_stripe *stripe_of(struct ebb_values *v, u64 hash)
{
	return &v->stripe[hash % VALUES_STRIPES];
}

/* The bucket of a hash, of so many. */
static inline u64 bucket_of(u64 buckets, u64 hash)
{
	u64 low = ((u64)1 << (63 - (unsigned int)__builtin_clzll(buckets))) - 1;
	u64 i = hash & (low << 1 | 1);

	return i < buckets ? i : hash & low;
}

/*
 * Walks the records: *at is 0 at first.  False: there are no more; *bad says if what is left is
 * none.
 */
bool image_next(const struct image *img, size_t *at, struct record *r, bool *bad);

/* The record of a name.  -ENOENT; -EIO: the bucket is damaged. */
int image_find(const struct image *img, const struct name *name, struct record *r);

/*
 * Copies bucket i.  -ESTALE: it was changed meanwhile, which cannot be while its stripe is locked;
 * -EIO: it is damaged.
 */
int bucket_read(struct ebb_values *v, struct scratch *s, u64 i, struct image *img);

/*
 * Copies the bucket of a hash, as it was at one moment, and *buckets, how many there were.
 * As bucket_read().
 */
int bucket_read_of(struct ebb_values *v, struct scratch *s, u64 hash, struct image *img,
		   u64 *buckets);

/*
 * Puts img in the place of bucket i.  On an error it is as it was; else img->rest is what it has
 * now.  Its stripe is locked.  Errors as ebb_put().
 */
int bucket_write(struct ebb_values *v, struct scratch *s, u64 i, struct image *img);

/* Splits or merges a bucket or two, if the records of a stripe ask for it.  No lock held. */
void buckets_tend(struct ebb_values *v, struct scratch *s, struct values_stripe *st);

/* ---- what values are made of (value_data.c) ---- */

/* Where a value's bytes come from. */
struct value_source {
	u64 bytes;                      /* of the value */
	size_t unit;                    /* of its pieces, if it is packed */
	const unsigned char *at;        /* they; or its pieces, packed (values_packed.c) */
	size_t left;                    /* bytes of the pieces */
	u64 instead;                    /* packed bytes that may go past the limit: others go */
	bool packed;
};

/*
 * The next n bytes of a source, 1 to BLOCK_BYTES, packed, at s->packed; how many, at most n.
 * Errors as block_pack(); -EUCLEAN.
 */
int value_piece(struct ebb_values *v, struct scratch *s, struct value_source *from, size_t n);

/*
 * Compresses a value and stores what does not go into its bucket.  Fills *r but for its name;
 * r->data points into s->packed.  Errors as ebb_values_put(), and -EUCLEAN: the pieces are not of
 * such a value; then nothing is stored.
 */
int value_make(struct ebb_values *v, struct scratch *s, struct value_source *from,
	       struct record *r);

/* Frees what a record refers to. */
void value_free(struct ebb_values *v, struct scratch *s, const struct record *r);

/* Reads a value of at most BLOCK_BYTES.  -ESTALE, -EIO as block_get(). */
int value_get(struct ebb_values *v, struct scratch *s, const struct record *r, void *buf);

/*
 * Where a map's block i is.  room->top has the map, and room->leaf leaf number *leaf, which is
 * changed if need be; NO_LEAF: none yet.  -EIO.
 */
#define NO_LEAF UINT64_MAX
int value_block(struct ebb_values *v, struct scratch *s, block_ref *leaf_refs,
		const block_ref *top, u64 *leaf, u64 i, block_ref *ref);

/* Reads a map to top[LEAF_REFS].  -EIO. */
int value_map(struct ebb_values *v, struct scratch *s, block_ref map, block_ref *top);

static inline u64 value_blocks(const struct ebb_values *v, u64 bytes)
{
	return (bytes + v->unit - 1) / v->unit;
}

/* ---- names, puts and lookups (values.c) ---- */

struct name values_name_of_id(const struct ebb_values *v, u64 id);
/* -EINVAL: v is no table, or that no key. */
int values_name_of_key(const struct ebb_values *v, const void *key, size_t key_bytes,
		       struct name *name);

/* ebb_values_put() of any source. */
int values_put(struct ebb_values *v, const struct name *name, struct value_source *from,
	       unsigned int flags);

/*
 * The record of a name; room->image has it.  The stripe is locked, and stays so as long as the
 * record is looked at.  -ENOENT, -EIO.
 */
int values_look_locked(struct ebb_values *v, struct scratch *s, const struct name *name,
		       struct record *r);

/* ---- readers and pins (value_reader.c) ---- */

/* ebb_values_get() of what was a MAP; *bytes is set with -ENOSPC, too. */
int values_get_map(struct ebb_values *v, struct scratch *s, const struct name *name, void *buf,
		   size_t cap, size_t *bytes);

/* The reader that is kept for the next one to open. */
void values_end_spare_reader(struct ebb_values *v);
size_t values_spare_reader_bytes(const struct ebb_values *v);
int values_open_reader(struct ebb_values *v, const struct name *name,
		       struct ebb_value_reader **out);

/* Unpins, and frees what was pinned if that is over. */
void values_end_pin(struct ebb_values *v, struct scratch *s, struct values_stripe *st,
		    struct pin *pin);

/* The stripe is locked.  *r is a MAP. */
void pin_value(struct values_stripe *st, struct pin *pin, const struct record *r)
	__must_hold(&st->lock);
/* True: it was the last one of a value that is gone, which is the caller's to free. */
bool unpin_value(struct values_stripe *st, struct pin *pin) __must_hold(&st->lock);
/* A value loses its name.  False: it is read, and for who unpins it last. */
bool unname_value(struct values_stripe *st, const struct record *r) __must_hold(&st->lock);

#endif
