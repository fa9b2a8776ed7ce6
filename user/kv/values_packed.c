// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * values_packed.c - values in their packed form: out of a table as they are stored, and into one.
 *
 *     | head: 48 | piece | piece | ...        a piece for each unit of the value, or the rest
 *     piece:  | length: 4 | packed bytes |    as many as the piece is of: they are its own
 *
 * Numbers are little-endian.  The sum, XXH3 of 64 bits, is of all that stands behind it, so of the
 * head's rest, too; its seed is the version.
 * A form is checked before anything of it is believed, and each length again when it is used.
 */
#include "values.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAGIC 0x76626265u               /* "ebbv" */
#define VERSION 1u
#define CODEC_NAME ((size_t)16)
#define PIECE_HEAD sizeof(u32)
#define PIECE_LEAST 4096u

struct packed_head {
	u32 magic;
	u32 version;
	u64 sum;
	u64 bytes;                      /* of the value */
	u32 piece;                      /* a unit */
	u32 reserved;
	char codec[CODEC_NAME];         /* its name, and zeros */
};

#define HEAD sizeof(struct packed_head)
#define SUMMED offsetof(struct packed_head, bytes)

_Static_assert(HEAD == 48, "the form is the same everywhere");

static u64 sum_of(const void *form, size_t size, u32 version)
{
	return XXH3_64bits_withSeed((const unsigned char *)form + SUMMED, size - SUMMED, version);
}

static void codec_name(const struct ebb_values *v, char *name)
{
	size_t n = strlen(v->blocks.codec->name);

	memset(name, 0, CODEC_NAME);
	memcpy(name, v->blocks.codec->name, n < CODEC_NAME ? n : CODEC_NAME);
}

/* ---- out ---- */

static void write_head(const struct ebb_values *v, unsigned char *form, size_t size, u64 bytes)
{
	struct packed_head head = {
		.magic = MAGIC, .version = VERSION, .bytes = bytes, .piece = (u32)v->unit,
	};

	codec_name(v, head.codec);
	memcpy(form, &head, HEAD);
	head.sum = sum_of(form, size, VERSION);
	memcpy(form, &head, HEAD);
}

/* Appends a piece to form[size] at *at.  -EIO: there is no room, so the record told a lie. */
static int write_piece(unsigned char *form, size_t size, size_t *at, const void *packed, size_t n)
{
	u32 length = (u32)n;

	if (size - *at < PIECE_HEAD || size - *at - PIECE_HEAD < n)
		return -EIO;
	memcpy(form + *at, &length, PIECE_HEAD);
	memcpy(form + *at + PIECE_HEAD, packed, n);
	*at += PIECE_HEAD + n;
	return 0;
}

/* The blocks of a map, which is pinned. */
static int write_map(struct ebb_values *v, struct scratch *s, const struct record *r,
		     unsigned char *form, size_t size, size_t *at)
{
	struct values_room *room = values_room(s);
	u64 i, leaf = NO_LEAF, left = r->bytes;
	int err = value_map(v, s, r->ref, room->top);
	size_t packed, n;
	block_ref ref;

	for (i = 0; !err && i < value_blocks(v, r->bytes); i++, left -= n) {
		err = value_block(v, s, room->leaf, room->top, &leaf, i, &ref);
		if (!err)
			err = block_get_packed(&v->blocks, s, ref, &packed, &n);
		if (!err && n != (left < v->unit ? left : v->unit))
			err = -EIO;
		if (!err)
			err = write_piece(form, size, at, s->packed, packed);
	}
	return err ? -EIO : 0;
}

/*
 * Finds the record, and sees to it that what it has stays: a map is pinned, the bytes of a block
 * are at s->packed, and those of others in the bucket's copy.
 */
static int take_hold(struct ebb_values *v, struct scratch *s, const struct name *name, size_t cap,
		     struct record *r, struct pin *pin, size_t *size)
{
	struct values_stripe *st = stripe_of(v, name->hash);
	size_t packed, n;
	int err;

	mutex_lock(&st->lock);
	err = values_look_locked(v, s, name, r);
	if (!err) {
		*size = HEAD + value_blocks(v, r->bytes) * PIECE_HEAD + r->packed;
		if (*size > cap)
			err = -ENOSPC;
	}
	if (!err && r->kind == RECORD_MAP)
		pin_value(st, pin, r);
	if (!err && r->kind == RECORD_BLOCK) {
		err = block_get_packed(&v->blocks, s, r->ref, &packed, &n);
		r->data = s->packed;
		if (err || packed != r->packed || n != r->bytes)
			err = -EIO;
	}
	mutex_unlock(&st->lock);
	return err;
}

static int read_packed(struct ebb_values *v, const struct name *name, void *buf, size_t cap,
		       size_t *bytes)
{
	struct scratch *s;
	struct record r;
	struct pin pin;
	size_t size = 0, at = HEAD;
	int err;

	if (why_null(bytes) || why_null_of(buf, cap))
		return -EINVAL;
	s = scratch_get_surely(&v->blocks);
	err = take_hold(v, s, name, cap, &r, &pin, &size);
	if (!err && r.kind == RECORD_MAP) {
		err = write_map(v, s, &r, buf, size, &at);
		values_end_pin(v, s, stripe_of(v, name->hash), &pin);
	} else if (!err && r.bytes) {
		err = write_piece(buf, size, &at, r.data, r.packed);
	}
	scratch_put(&v->blocks, s);
	if (!err && at != size)
		err = -EIO;
	if (!err)
		write_head(v, buf, size, r.bytes);
	if (!err || err == -ENOSPC)
		*bytes = size;
	return err;
}

/* ---- in ---- */

/* The head, if such a form can be: a piece has a byte at least. */
static int read_head(const void *packed, size_t bytes, struct packed_head *head)
{
	u64 pieces;

	if (why_null(packed))
		return -EINVAL;
	if (bytes < HEAD)
		return -EUCLEAN;
	memcpy(head, packed, HEAD);
	if (head->magic != MAGIC)
		return -EUCLEAN;
	if (head->version != VERSION || head->reserved ||
	    head->piece < PIECE_LEAST || head->piece > BLOCK_BYTES)
		return -ENOTSUP;
	if (head->bytes > EBB_VALUES_MAX)
		return -EUCLEAN;
	pieces = (head->bytes + head->piece - 1) / head->piece;
	return pieces * (PIECE_HEAD + 1) > bytes - HEAD ||
	       bytes - HEAD > pieces * PIECE_HEAD + head->bytes ? -EUCLEAN : 0;
}

/* What is wrong with a form is told before whose it is: a damaged name says nothing. */
static int read_form(const struct ebb_values *v, const void *packed, size_t bytes,
		     struct value_source *from)
{
	struct packed_head head;
	char name[CODEC_NAME];
	int err = read_head(packed, bytes, &head);

	if ((!err || err == -ENOTSUP) && sum_of(packed, bytes, head.version) != head.sum)
		err = -EUCLEAN;
	if (err)
		return err;
	codec_name(v, name);
	if (memcmp(name, head.codec, CODEC_NAME))
		return -ENOTSUP;
	*from = (struct value_source){
		.bytes = head.bytes, .packed = true, .unit = head.piece,
		.at = (const unsigned char *)packed + HEAD, .left = bytes - HEAD,
	};
	return 0;
}

static int put_packed(struct ebb_values *v, const struct name *name, const void *packed,
		      size_t bytes, unsigned int flags)
{
	struct value_source from;
	int err = read_form(v, packed, bytes, &from);

	if (!err && from.unit != v->unit)
		err = -ENOTSUP;
	return err ? err : values_put(v, name, &from, flags);
}

/* The pieces to buf, which has room. */
static int unpack(struct ebb_values *v, struct scratch *s, struct value_source *from,
		  unsigned char *buf)
{
	u64 left = from->bytes;
	size_t n;
	int err = 0, packed;

	for (; left && !err; left -= n, buf += n) {
		n = left < from->unit ? (size_t)left : from->unit;
		packed = value_piece(v, s, from, n);
		err = packed < 0 ? packed :
		      block_unpack(&v->blocks, s, s->packed, (size_t)packed, buf, n);
	}
	return err ? err : from->left ? -EUCLEAN : 0;
}

/* ---- what ebb_values.h has ---- */

int ebb_values_read_packed(struct ebb_values *v, uint64_t id, void *buf, size_t cap,
			   size_t *bytes)
{
	struct name name;

	if (values_bad(v))
		return -EINVAL;
	name = values_name_of_id(v, id);
	return read_packed(v, &name, buf, cap, bytes);
}

int ebb_values_read_packed_key(struct ebb_values *v, const void *key, size_t key_bytes, void *buf,
			       size_t cap, size_t *bytes)
{
	struct name name;
	int err = values_name_of_key(v, key, key_bytes, &name);

	return err ? err : read_packed(v, &name, buf, cap, bytes);
}

int ebb_values_put_packed(struct ebb_values *v, uint64_t id, const void *packed, size_t bytes,
			  unsigned int flags)
{
	struct name name;

	if (values_bad(v))
		return -EINVAL;
	name = values_name_of_id(v, id);
	return put_packed(v, &name, packed, bytes, flags);
}

int ebb_values_put_packed_key(struct ebb_values *v, const void *key, size_t key_bytes,
			      const void *packed, size_t bytes, unsigned int flags)
{
	struct name name;
	int err = values_name_of_key(v, key, key_bytes, &name);

	return err ? err : put_packed(v, &name, packed, bytes, flags);
}

int ebb_values_unpack(struct ebb_values *v, const void *packed, size_t bytes, void *buf,
		      size_t cap, size_t *got)
{
	struct value_source from;
	struct scratch *s;
	int err;

	if (values_bad(v) || why_null(got) || why_null_of(buf, cap))
		return -EINVAL;
	err = read_form(v, packed, bytes, &from);
	if (err)
		return err;
	*got = from.bytes;
	if (from.bytes > cap)
		return -ENOSPC;
	s = scratch_get(&v->blocks);
	if (!s)
		return -ENOMEM;
	err = unpack(v, s, &from, buf);
	scratch_put(&v->blocks, s);
	return err;
}

int ebb_packed_size(const void *packed, size_t bytes, uint64_t *value_bytes)
{
	struct packed_head head;
	int err = why_null(value_bytes) ? -EINVAL : read_head(packed, bytes, &head);

	if (!err)
		*value_bytes = head.bytes;
	return err;
}
