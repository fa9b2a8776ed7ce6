// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * value_reader.c - reads values that are more than a block, and values piece by piece.
 *
 * A map is pinned while it is read: a list in its stripe says which maps are.  Who takes the name
 * from a pinned map leaves it to the last pin.  There are as many pins as readers that are open and
 * calls that read a map, so a look at the list is short.
 */
#include "values.h"

#define MAGIC 0x6562627265616465ull     /* "ebbreade" */
#define NO_BLOCK UINT64_MAX

struct ebb_value_reader {
	u64 magic;              /* 0 in a forked child: host_user_map_wiped() */
	struct ebb_values *values;
	struct values_stripe *stripe;
	struct pin pin;         /* ref 0: the value is a block at most, at data */
	struct record record;
	u64 leaf, block;        /* what leaf_refs and data have */
	unsigned char data[BLOCK_BYTES];
	block_ref top[LEAF_REFS], leaf_refs[LEAF_REFS];
};

/* ---- pins ---- */

static bool is_pinned(struct values_stripe *st, block_ref ref, bool kill)
	__must_hold(&st->lock)
{
	bool pinned = false;
	struct pin *p;

	for (p = st->pins; p; p = p->next)
		if (p->ref == ref) {
			pinned = true;
			p->dead |= kill;
		}
	return pinned;
}

void pin_value(struct values_stripe *st, struct pin *pin, const struct record *r)
{
	*pin = (struct pin){ .ref = r->ref, .next = st->pins };
	if (st->pins)
		st->pins->prev = pin;
	st->pins = pin;
}

bool unpin_value(struct values_stripe *st, struct pin *pin)
{
	if (pin->prev)
		pin->prev->next = pin->next;
	else
		st->pins = pin->next;
	if (pin->next)
		pin->next->prev = pin->prev;
	return pin->dead && !is_pinned(st, pin->ref, false);
}

bool unname_value(struct values_stripe *st, const struct record *r)
{
	return r->kind != RECORD_MAP || !is_pinned(st, r->ref, true);
}

/* ---- a map into a buffer ---- */

static int get_blocks(struct ebb_values *v, struct scratch *s, const struct record *r,
		      unsigned char *buf)
{
	struct values_room *room = values_room(s);
	u64 i, leaf = NO_LEAF;
	int err = value_map(v, s, r->ref, room->top);
	block_ref ref;
	size_t n;

	for (i = 0; !err && i < value_blocks(v, r->bytes); i++) {
		u64 left = r->bytes - i * v->unit;

		err = value_block(v, s, room->leaf, room->top, &leaf, i, &ref);
		if (!err)
			err = block_get(&v->blocks, s, ref, buf + i * v->unit,
					left < v->unit ? (size_t)left : v->unit, &n);
	}
	return err ? -EIO : 0;
}

void values_end_pin(struct ebb_values *v, struct scratch *s, struct values_stripe *st,
		    struct pin *pin)
{
	const struct record r = { .kind = RECORD_MAP, .ref = pin->ref };
	bool last;

	mutex_lock(&st->lock);
	last = unpin_value(st, pin);
	mutex_unlock(&st->lock);
	if (last)
		value_free(v, s, &r);
}

int values_get_map(struct ebb_values *v, struct scratch *s, const struct name *name, void *buf,
		   size_t cap, size_t *bytes)
{
	struct values_stripe *st = stripe_of(v, name->hash);
	struct record r;
	struct pin pin;
	int err;

	mutex_lock(&st->lock);
	err = values_look_locked(v, s, name, &r);
	if (!err) {
		*bytes = r.bytes;
		if (r.bytes > cap)
			err = -ENOSPC;
		else if (r.kind == RECORD_MAP)
			pin_value(st, &pin, &r);
		else
			err = value_get(v, s, &r, s->plain);
	}
	mutex_unlock(&st->lock);
	if (err)
		return err == -ESTALE ? -EIO : err;
	if (r.kind != RECORD_MAP) {
		/* It became a small one meanwhile. */
		memcpy(buf, s->plain, r.bytes);
		return 0;
	}
	err = get_blocks(v, s, &r, buf);
	values_end_pin(v, s, st, &pin);
	return err;
}

/* ---- readers ---- */

static bool bad(const struct ebb_value_reader *reader)
{
	return why_closed(!reader || reader->magic != MAGIC, "reader");
}

static int reader_begin(struct ebb_value_reader *reader, struct scratch *s,
			const struct name *name)
{
	struct ebb_values *v = reader->values;
	struct values_stripe *st = reader->stripe;
	int err;

	mutex_lock(&st->lock);
	err = values_look_locked(v, s, name, &reader->record);
	if (!err && reader->record.kind == RECORD_MAP)
		pin_value(st, &reader->pin, &reader->record);
	else if (!err)
		err = value_get(v, s, &reader->record, reader->data);
	mutex_unlock(&st->lock);
	if (!err && reader->pin.ref) {
		err = value_map(v, s, reader->pin.ref, reader->top);
		if (err)
			values_end_pin(v, s, st, &reader->pin);
	}
	return err == -ESTALE ? -EIO : err;
}

/* The pages of a new reader cost more than most reads do, so one is kept. */
static void end_reader(struct ebb_values *v, struct ebb_value_reader *reader)
{
	reader = (void *)(uintptr_t)host_a64_xchg(&v->spare_reader, (uintptr_t)reader);
	if (reader)
		host_user_unmap_wiped(reader, sizeof(*reader));
}

void values_end_spare_reader(struct ebb_values *v)
{
	end_reader(v, NULL);
}

size_t values_spare_reader_bytes(const struct ebb_values *v)
{
	return host_a64_read(&v->spare_reader) ? sizeof(struct ebb_value_reader) : 0;
}

int values_open_reader(struct ebb_values *v, const struct name *name,
		       struct ebb_value_reader **out)
{
	struct ebb_value_reader *reader;
	struct scratch *s;
	int err;

	s = scratch_get(&v->blocks);
	if (!s)
		return -ENOMEM;
	reader = (void *)(uintptr_t)host_a64_xchg(&v->spare_reader, 0);
	if (!reader)
		reader = host_user_map_wiped(sizeof(*reader));
	if (!reader) {
		scratch_put(&v->blocks, s);
		return -ENOMEM;
	}
	reader->values = v;
	reader->pin = (struct pin){ 0 };
	reader->stripe = stripe_of(v, name->hash);
	reader->leaf = NO_LEAF;
	reader->block = NO_BLOCK;
	err = reader_begin(reader, s, name);
	scratch_put(&v->blocks, s);
	if (err) {
		end_reader(v, reader);
		return err;
	}
	reader->magic = MAGIC;
	*out = reader;
	return 0;
}

uint64_t ebb_value_reader_size(const struct ebb_value_reader *reader)
{
	return bad(reader) ? 0 : reader->record.bytes;
}

/* Block i at reader->data. */
static int need_block(struct ebb_value_reader *reader, struct scratch *s, u64 i)
{
	struct ebb_values *v = reader->values;
	block_ref ref;
	size_t n;
	int err;

	if (reader->block == i || !reader->pin.ref)
		return 0;
	reader->block = NO_BLOCK;
	err = value_block(v, s, reader->leaf_refs, reader->top, &reader->leaf, i, &ref);
	if (!err)
		err = block_get(&v->blocks, s, ref, reader->data, BLOCK_BYTES, &n);
	if (err)
		return -EIO;
	reader->block = i;
	return 0;
}

int ebb_value_read(struct ebb_value_reader *reader, uint64_t offset, void *buf, size_t bytes,
		   size_t *got)
{
	unsigned char *p = buf;
	size_t done = 0, unit, n;
	struct scratch *s;
	int err = 0;
	u64 left;

	if (bad(reader) || values_bad(reader->values) ||
	    why_null_of(buf, bytes))
		return -EINVAL;
	if (got)
		*got = 0;
	unit = reader->values->unit;
	left = offset < reader->record.bytes ? reader->record.bytes - offset : 0;
	if (bytes > left)
		bytes = (size_t)left;
	s = scratch_get(&reader->values->blocks);
	if (!s)
		return -ENOMEM;
	for (; !err && done < bytes; done += n) {
		size_t at = (size_t)((offset + done) % unit);

		n = bytes - done < unit - at ? bytes - done : unit - at;
		err = need_block(reader, s, (offset + done) / unit);
		if (!err)
			memcpy(p + done, reader->data + at, n);
	}
	scratch_put(&reader->values->blocks, s);
	if (!err && got)
		*got = bytes;
	return err;
}

void ebb_value_reader_close(struct ebb_value_reader *reader)
{
	struct ebb_values *v;
	struct scratch *s;

	if (bad(reader))
		return;
	v = reader->values;
	reader->magic = 0;
	if (reader->pin.ref) {
		s = scratch_get_surely(&v->blocks);
		values_end_pin(v, s, reader->stripe, &reader->pin);
		scratch_put(&v->blocks, s);
	}
	end_reader(v, reader);
}
