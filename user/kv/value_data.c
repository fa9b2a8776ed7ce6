// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * value_data.c - what a value is made of: bytes in its record, a block, or blocks under a map.
 *
 *     bytes            kept as
 *     0 .. a unit      INLINE_MOST packed bytes at most: in the record; else one block
 *     more             blocks of a unit, leaves of 8,192 references, a map of leaves
 *
 * No locks: what is made here is nobody's yet, and what is freed nobody's any more.
 */
#include "values.h"

#include "api/ebb_in.h"

/* Less is not worth a codec's while. */
#define PACK_LEAST 32u

/* A little over the limit by what is not a value's block: by a few pages a thread. */
static bool over_limit(struct ebb_values *v)
{
	u64 limit = READ_ONCE(v->mem_limit);

	return limit && ebb_pool_bytes(v->store) > limit;
}

/*
 * Room for packed bytes of a value.  What has the name so far goes when they are there, so they may
 * have as many.  Else what is held back, and then the holes, get a chance to make room.
 */
static int need_room(struct ebb_values *v, struct value_source *from, size_t packed)
{
	if (likely(!over_limit(v)))
		return 0;
	if (packed <= from->instead) {
		from->instead -= packed;
		return 0;
	}
	/* Where holes stay as they are, too (EBB_NO_COMPACT). */
	ebb_flush(v->store);
	while (over_limit(v))
		if (!ebb_close_holes(v->store))
			return over_limit(v) ? -ENOMEM : 0;
	return 0;
}

static int put_block(struct ebb_values *v, struct scratch *s, struct value_source *from,
		     size_t packed, size_t n, block_ref *ref)
{
	int err = need_room(v, from, packed);

	if (!err)
		err = block_put(&v->blocks, s, packed, n, ref);
	return err;
}

/* A block of references. */
static int put_refs(struct ebb_values *v, struct scratch *s, struct value_source *from,
		    const block_ref *refs, u64 n, block_ref *ref)
{
	size_t bytes = (size_t)n * sizeof(*refs);

	memcpy(s->packed, refs, bytes);
	return put_block(v, s, from, bytes, bytes, ref);
}

static void free_blocks(struct ebb_values *v, const block_ref *refs, u64 n)
{
	u64 i;

	for (i = 0; i < n; i++)
		block_free(&v->blocks, refs[i]);
}

static int get_refs(struct ebb_values *v, struct scratch *s, block_ref ref, block_ref *refs,
		    u64 *n)
{
	size_t bytes;
	int err = block_get(&v->blocks, s, ref, refs, BLOCK_BYTES, &bytes);

	*n = bytes / sizeof(*refs);
	return err ? -EIO : 0;
}

/* Frees the leaves of a map, and the blocks under them. */
static void free_leaves(struct ebb_values *v, struct scratch *s, const block_ref *top, u64 leaves)
{
	struct values_room *room = values_room(s);
	u64 i, n;

	for (i = 0; i < leaves; i++) {
		if (!get_refs(v, s, top[i], room->leaf, &n))
			free_blocks(v, room->leaf, n);
		block_free(&v->blocks, top[i]);
	}
}

/* The caller's bytes may change under our hands, so each length is read once. */
int value_piece(struct ebb_values *v, struct scratch *s, struct value_source *from, size_t n)
{
	u32 packed = (u32)n;

	if (from->packed) {
		if (from->left < sizeof(packed))
			return -EUCLEAN;
		memcpy(&packed, from->at, sizeof(packed));
		from->at += sizeof(packed);
		from->left -= sizeof(packed);
		if (!packed || packed > n || packed > from->left)
			return -EUCLEAN;
		memcpy(s->packed, from->at, packed);
		from->at += packed;
		from->left -= packed;
		return (int)packed;
	}
	from->at += n;
	if (n >= PACK_LEAST)
		return block_pack(&v->blocks, s, from->at - n, n);
	memcpy(s->packed, from->at - n, n);
	return (int)n;
}

static int make_map(struct ebb_values *v, struct scratch *s, struct value_source *from,
		    struct record *r)
{
	struct values_room *room = values_room(s);
	u64 left = from->bytes, leaves = 0, n = 0;
	int err = 0, packed;

	r->kind = RECORD_MAP;
	r->packed = 0;
	while (left && !err) {
		size_t piece = left < v->unit ? (size_t)left : v->unit;

		packed = value_piece(v, s, from, piece);
		err = packed < 0 ? packed :
				   put_block(v, s, from, (size_t)packed, piece, &room->leaf[n]);
		if (err)
			break;
		r->packed += (u64)packed;
		left -= piece;
		if (++n < LEAF_REFS && left)
			continue;
		err = put_refs(v, s, from, room->leaf, n, &room->top[leaves]);
		if (!err) {
			leaves++;
			n = 0;
		}
	}
	if (!err && from->left)
		err = -EUCLEAN;
	if (!err)
		err = put_refs(v, s, from, room->top, leaves, &r->ref);
	if (err) {
		free_blocks(v, room->leaf, n);
		free_leaves(v, s, room->top, leaves);
	}
	return err;
}

int value_make(struct ebb_values *v, struct scratch *s, struct value_source *from,
	       struct record *r)
{
	u64 bytes = from->bytes;
	int packed;

	r->bytes = bytes;
	r->packed = bytes;
	r->kind = RECORD_RAW;
	r->data = s->packed;
	r->ref = 0;
	if (bytes > v->unit)
		return make_map(v, s, from, r);
	packed = bytes ? value_piece(v, s, from, bytes) : 0;
	if (packed < 0)
		return packed;
	if (from->left)
		return -EUCLEAN;
	r->packed = (u64)packed;
	if (r->packed > INLINE_MOST) {
		r->kind = RECORD_BLOCK;
		return put_block(v, s, from, (size_t)packed, bytes, &r->ref);
	}
	if (r->packed < bytes)
		r->kind = RECORD_PACKED;
	return need_room(v, from, (size_t)packed);
}

void value_free(struct ebb_values *v, struct scratch *s, const struct record *r)
{
	struct values_room *room = values_room(s);
	u64 leaves;

	if (r->kind < RECORD_BLOCK)
		return;
	if (r->kind == RECORD_MAP && !get_refs(v, s, r->ref, room->top, &leaves))
		free_leaves(v, s, room->top, leaves);
	block_free(&v->blocks, r->ref);
}

int value_get(struct ebb_values *v, struct scratch *s, const struct record *r, void *buf)
{
	size_t n;
	int err;

	switch (r->kind) {
	case RECORD_RAW:
		if (r->bytes)
			memcpy(buf, r->data, r->bytes);
		return 0;
	case RECORD_PACKED:
		return block_unpack(&v->blocks, s, r->data, r->packed, buf, r->bytes);
	default:
		err = block_get(&v->blocks, s, r->ref, buf, r->bytes, &n);
		return err ? err : n == r->bytes ? 0 : -EIO;
	}
}

int value_map(struct ebb_values *v, struct scratch *s, block_ref map, block_ref *top)
{
	u64 n;

	return get_refs(v, s, map, top, &n);
}

int value_block(struct ebb_values *v, struct scratch *s, block_ref *leaf_refs,
		const block_ref *top, u64 *leaf, u64 i, block_ref *ref)
{
	u64 want = i / LEAF_REFS, n;
	int err = 0;

	if (*leaf != want) {
		*leaf = NO_LEAF;
		err = get_refs(v, s, top[want], leaf_refs, &n);
		if (!err)
			*leaf = want;
	}
	*ref = leaf_refs[i % LEAF_REFS];
	return err;
}
