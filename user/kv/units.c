// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * units.c - owns struct ebb_units: a table of block references, one for each unit.  See
 * ebb_units.h and block.h.
 *
 *     word i of the table   0: zeros;  else the block of unit i
 *
 * A write makes a new block, swaps its reference into the word and frees the old block.  A read
 * takes the reference and gets the block; if that is not there any more, the word has changed, and
 * it takes the new one.  After READ_TRIES it reads under the lock, so that writers cannot keep
 * it from coming to an end.
 *
 * Lock order: a stripe of units > all of ebb_put().  Who replaces a unit as a whole has the lock
 * for the swap alone; who changes a part of it has it from the read to the swap.
 */
#include "api/ebb_units.h"

#include <stdio.h>

#include "block.h"
#include "codecs/codecs.h"
#include "api/sized.h"

#define MAGIC 0x656262756e697473ull     /* "ebbunits" */

#define UNIT_DEFAULT 32768u
#define UNIT_LEAST 4096u
#define STRIPES 64u
#define READ_TRIES 8
#define UNITS_MOST ((u64)1 << 38)       /* the table's directory then has 128 MiB of addresses */
#define SLOTS_MOST ((u64)0xffffffc0)    /* whole words of 64 numbers, of which none has 33 bits */
#define EXTENT_LOOKS 4096u     /* at the table, in one ebb_units_extent() */

struct stripe {
	struct mutex lock ____cacheline_aligned;
	u64 units;              /* that have a block; lock, READ_ONCE */
};

struct ebb_units {
	u64 magic;              /* 0 in a forked child: host_user_map_wiped() */
	u64 units;
	size_t bytes;           /* of a unit */
	struct ebb_store *store;
	struct blocks blocks;
	struct host_table table;
	struct stripe stripe[STRIPES];
};

#define CONFIG_LEAST ((size_t)56)
#define STAT_LEAST ((size_t)40)

_Static_assert(sizeof(struct ebb_units_config) == CONFIG_LEAST, "of the first version");
_Static_assert(sizeof(struct ebb_units_stat) >= STAT_LEAST, "structs do not shrink");

static bool bad(const struct ebb_units *u)
{
	return why_closed(!u || u->magic != MAGIC, "ebb_units");
}

void ebb_units_config_init(struct ebb_units_config *cfg)
{
	if (!cfg)
		return;
	*cfg = (struct ebb_units_config){
		.struct_size = sizeof(*cfg),
		.level = EBB_LEVEL_DEFAULT,
		.release_limit = EBB_DEFAULT,
	};
}

/*
 * Slots that are enough whatever the units' content, while each stripe and each CPU has one block
 * more than there are units.  A disk that could take more than there are gets what there are: it
 * has to hold terabytes before they run out.
 */
static u64 slots_for(const struct ebb_units *u)
{
	/* A word of 64 numbers has so many runs of the longest kind, for blocks that stay raw. */
	u64 pieces = (u->bytes + BLOCK_HEAD) / (PAGE_SIZE - sizeof(u32)) + 2;
	u64 a_word = 64 / pieces, blocks = u->units + STRIPES + nr_cpu_ids;

	/* Each other length may have a word that is not full. */
	u64 slots = ((blocks + a_word - 1) / a_word + RUNS_LENGTH_MAX) * 64;

	return slots < SLOTS_MOST ? slots : SLOTS_MOST;
}

static int check_config(struct ebb_units *u, struct ebb_units_config *cfg)
{
	if (!cfg->unit_bytes)
		cfg->unit_bytes = UNIT_DEFAULT;
	if (why_if(cfg->unit_bytes < UNIT_LEAST || cfg->unit_bytes > BLOCK_BYTES ||
		   cfg->unit_bytes & (cfg->unit_bytes - 1),
		   "unit_bytes %zu: expected a power of two, %zu to %zu",
		   (size_t)cfg->unit_bytes, (size_t)UNIT_LEAST, (size_t)BLOCK_BYTES) ||
	    why_if(!cfg->bytes || cfg->bytes % cfg->unit_bytes ||
		   cfg->bytes / cfg->unit_bytes > UNITS_MOST,
		   "bytes %llu: expected 1 to 2^38 units of unit_bytes",
		   (unsigned long long)cfg->bytes))
		return -EINVAL;
	u->bytes = cfg->unit_bytes;
	u->units = cfg->bytes / cfg->unit_bytes;
	return 0;
}

/* The store of the objects, and the blocks in it. */
static int open_blocks(struct ebb_units *u, const struct ebb_units_config *cfg)
{
	struct blocks_config blocks = {
		.count = slots_for(u), .codec = cfg->codec, .level = cfg->level,
		.chain = cfg->chain_size, .owner_bytes = u->bytes,
	};
	struct ebb_config store;
	int err;

	ebb_config_init(&store);
	store.slots = blocks.count;
	store.mem_limit = cfg->mem_limit;
	store.release_limit = cfg->release_limit;
	store.flags = cfg->flags;
	err = blocks_open(&u->blocks, &blocks, &store);
	u->store = blocks.store;
	return err;
}

int ebb_units_open(struct ebb_units **out, const struct ebb_units_config *theirs)
{
	struct ebb_units_config cfg;
	struct ebb_units *u;
	unsigned int i;
	int err;

	if (why_no_open(out, theirs))
		return -EINVAL;
	*out = NULL;
	err = sized_in(&cfg, sizeof(cfg), theirs, CONFIG_LEAST);
	if (err)
		return err;
	u = host_user_map_wiped(sizeof(*u));
	if (!u)
		return -ENOMEM;
	err = check_config(u, &cfg);
	if (!err)
		err = host_table_init(&u->table, u->units);
	if (err)
		goto no_table;
	err = open_blocks(u, &cfg);
	if (err)
		goto no_blocks;
	err = host_table_has(&u->table, 0) ? blocks_try_out(&u->blocks) : -ENOMEM;
	if (err)
		goto no_memory;
	for (i = 0; i < STRIPES; i++)
		mutex_init(&u->stripe[i].lock);
	u->magic = MAGIC;
	*out = u;
	return 0;

no_memory:
	blocks_destroy(&u->blocks);
	ebb_close(u->store);
no_blocks:
	host_table_destroy(&u->table);
no_table:
	host_user_unmap_wiped(u, sizeof(*u));
	return err;
}

void ebb_units_close(struct ebb_units *u)
{
	unsigned int i;

	if (bad(u))
		return;
	u->magic = 0;
	blocks_destroy(&u->blocks);
	ebb_close(u->store);
	host_table_destroy(&u->table);
	for (i = 0; i < STRIPES; i++)
		mutex_destroy(&u->stripe[i].lock);
	host_user_unmap_wiped(u, sizeof(*u));
}

struct ebb_store *ebb_units_store(struct ebb_units *u)
{
	return bad(u) ? NULL : u->store;
}

/* ---- a unit ---- */

static struct stripe *stripe_of(struct ebb_units *u, u64 i)
{
	return &u->stripe[i % STRIPES];
}

static bool all_zeros(const void *data, size_t n)
{
	const char *p = data;

	return !p[0] && !p[n - 1] && !memcmp(p, p + 1, n - 1);
}

/* Puts a block, or 0, in the place of what unit i has; the old one is the caller's to free. */
static block_ref swap(struct ebb_units *u, struct stripe *st, u64 i, block_ref new)
	__must_hold(&st->lock)
{
	block_ref old = host_a64_read(host_table_at(&u->table, i));

	if (!old && !new)
		return 0;
	host_a64_xchg(host_table_at(&u->table, i), new);
	WRITE_ONCE(st->units, st->units + !!new - !!old);
	return old;
}

static void swap_and_free(struct ebb_units *u, u64 i, block_ref new)
{
	struct stripe *st = stripe_of(u, i);
	block_ref old;

	mutex_lock(&st->lock);
	old = swap(u, st, i, new);
	mutex_unlock(&st->lock);
	if (old)
		block_free(&u->blocks, old);
}

/* A block of unit i's bytes, for which there is a word then; zeros are none, and need none. */
static int make_block(struct ebb_units *u, struct scratch *s, u64 i, const void *data,
		      block_ref *ref)
{
	int n;

	*ref = 0;
	if (all_zeros(data, u->bytes))
		return 0;
	if (!host_table_has(&u->table, i))
		return -ENOMEM;
	n = block_pack(&u->blocks, s, data, u->bytes);
	if (n < 0)
		return n;
	n = block_put(&u->blocks, s, (size_t)n, u->bytes, ref);
	return n == -ENOSPC ? -ENOMEM : n;
}

/*
 * Reads unit i, whose stripe is locked, or which is tried anew if it changes: -ESTALE.  What it
 * reads into s->plain stays there for the next part of the unit.
 */
static int read_once(struct ebb_units *u, struct scratch *s, u64 i, void *data)
{
	block_ref ref = host_a64_read_acquire(host_table_at(&u->table, i));
	bool plain = data == s->plain;
	size_t n = u->bytes;
	int err = 0;

	if (plain && ref && scratch_has(&u->blocks, s, ref))
		return 0;
	if (plain)
		s->plain_is = 0;
	if (ref)
		err = block_get(&u->blocks, s, ref, data, u->bytes, &n);
	else
		memset(data, 0, u->bytes);
	if (!err && n != u->bytes)
		err = -EIO;
	if (!err && plain)
		scratch_keep(&u->blocks, s, ref);
	return err;
}

static int read_unit(struct ebb_units *u, struct scratch *s, u64 i, void *data)
{
	unsigned int tries;
	int err = -ESTALE;

	for (tries = 0; err == -ESTALE && tries < READ_TRIES; tries++)
		err = read_once(u, s, i, data);
	if (err == -ESTALE) {
		mutex_lock(&stripe_of(u, i)->lock);
		err = read_once(u, s, i, data);
		mutex_unlock(&stripe_of(u, i)->lock);
	}
	return err == -ESTALE ? -EIO : err;
}

static int write_unit(struct ebb_units *u, struct scratch *s, u64 i, const void *data)
{
	block_ref ref;
	int err = make_block(u, s, i, data, &ref);

	if (!err)
		swap_and_free(u, i, ref);
	return err;
}

/* Changes n bytes of unit i from off on to those at data, which is no memory of the caller's. */
static int change_unit(struct ebb_units *u, struct scratch *s, u64 i, size_t off, const void *data,
		       size_t n)
{
	struct stripe *st = stripe_of(u, i);
	block_ref ref, old = 0;
	int err;

	mutex_lock(&st->lock);
	err = read_once(u, s, i, s->plain);
	if (!err) {
		s->plain_is = 0;
		memcpy(s->plain + off, data, n);
		err = make_block(u, s, i, s->plain, &ref);
	}
	if (!err) {
		old = swap(u, st, i, ref);
		scratch_keep(&u->blocks, s, ref);
	}
	mutex_unlock(&st->lock);
	if (old)
		block_free(&u->blocks, old);
	return err == -ESTALE ? -EIO : err;
}

/* ---- runs of bytes ---- */

static int check_run(const struct ebb_units *u, u64 offset, u64 bytes)
{
	u64 end;

	if (bad(u))
		return -EINVAL;
	end = u->units * u->bytes;
	return offset > end || bytes > end - offset ? -ERANGE : 0;
}

/* Of bytes from offset on, those in offset's unit. */
static size_t in_unit(const struct ebb_units *u, u64 offset, u64 bytes)
{
	size_t left = u->bytes - (size_t)(offset & (u->bytes - 1));

	return bytes < left ? (size_t)bytes : left;
}

int ebb_units_write(struct ebb_units *u, uint64_t offset, const void *buf, size_t bytes)
{
	int err = check_run(u, offset, bytes);
	const unsigned char *p = buf;
	struct scratch *s;
	size_t n;

	if (err || !bytes)
		return err;
	if (why_null(buf))
		return -EINVAL;
	s = scratch_get(&u->blocks);
	if (!s)
		return -ENOMEM;
	for (; !err && bytes; offset += n, p += n, bytes -= n) {
		n = in_unit(u, offset, bytes);
		if (n == u->bytes) {
			err = write_unit(u, s, offset / u->bytes, p);
			continue;
		}
		/* The caller's memory may be slow to come: no lock is held while it is read. */
		memcpy(s->owner_room, p, n);
		err = change_unit(u, s, offset / u->bytes, (size_t)(offset & (u->bytes - 1)),
				  s->owner_room, n);
	}
	scratch_put(&u->blocks, s);
	return err;
}

int ebb_units_read(struct ebb_units *u, uint64_t offset, void *buf, size_t bytes)
{
	int err = check_run(u, offset, bytes);
	unsigned char *p = buf;
	struct scratch *s;
	size_t n;

	if (err || !bytes)
		return err;
	if (why_null(buf))
		return -EINVAL;
	s = scratch_get(&u->blocks);
	if (!s)
		return -ENOMEM;
	for (; !err && bytes; offset += n, p += n, bytes -= n) {
		n = in_unit(u, offset, bytes);
		err = read_unit(u, s, offset / u->bytes, n == u->bytes ? p : s->plain);
		if (!err && n < u->bytes)
			memcpy(p, s->plain + (offset & (u->bytes - 1)), n);
	}
	scratch_put(&u->blocks, s);
	return err;
}

static int zero_part(struct ebb_units *u, u64 offset, size_t n)
{
	struct scratch *s;
	int err;

	if (!host_a64_read(host_table_at(&u->table, offset / u->bytes)))
		return 0;
	s = scratch_get(&u->blocks);
	if (!s)
		return -ENOMEM;
	memset(s->owner_room, 0, n);
	err = change_unit(u, s, offset / u->bytes, (size_t)(offset & (u->bytes - 1)),
			  s->owner_room, n);
	scratch_put(&u->blocks, s);
	return err;
}

int ebb_units_zero(struct ebb_units *u, uint64_t offset, uint64_t bytes)
{
	int err = check_run(u, offset, bytes);
	u64 n;

	for (; !err && bytes; offset += n, bytes -= n) {
		u64 i = offset / u->bytes, skip;

		n = in_unit(u, offset, bytes);
		skip = host_table_skip(&u->table, i);
		if (skip) {
			/* None of these was ever written. */
			n = skip * u->bytes - (offset & (u->bytes - 1));
			n = n < bytes ? n : bytes;
		} else if (n < u->bytes) {
			err = zero_part(u, offset, (size_t)n);
		} else {
			swap_and_free(u, i, 0);
		}
	}
	return err;
}

int ebb_units_extent(struct ebb_units *u, uint64_t offset, uint64_t *bytes, int *data)
{
	int err = why_null(bytes) || why_null(data) ? -EINVAL : check_run(u, offset, 0);
	unsigned int looks = EXTENT_LOOKS;
	u64 i, n, skip;

	if (err)
		return err;
	*bytes = 0;
	*data = 0;
	i = offset / u->bytes;
	if (i == u->units)
		return 0;
	*data = host_a64_read(host_table_at(&u->table, i)) != 0;
	for (n = i; n < u->units && looks; n += skip, looks--) {
		skip = host_table_skip(&u->table, n);
		if (skip ? *data : (host_a64_read(host_table_at(&u->table, n)) != 0) != *data)
			break;
		skip = skip ? skip : 1;
	}
	n = n < u->units ? n : u->units;
	*bytes = n * u->bytes - offset;
	return 0;
}

/* ---- figures, checks ---- */

int ebb_units_stat(struct ebb_units *u, struct ebb_units_stat *stat)
{
	struct ebb_stat store = { .struct_size = sizeof(store) };
	struct ebb_units_stat ours = { 0 };
	unsigned int i;

	if (bad(u) || why_null(stat))
		return -EINVAL;
	for (i = 0; i < STRIPES; i++)
		ours.units += READ_ONCE(u->stripe[i].units);
	ebb_stat(u->store, &store);
	ours.packed_bytes = store.compr_data_size;
	ours.meta_bytes = blocks_meta_bytes(&u->blocks) + blocks_contexts_bytes(&u->blocks) +
			  host_table_bytes(&u->table) + sizeof(*u);
	ours.rereads = host_a64_read(&u->blocks.stale);
	return sized_out(stat, STAT_LEAST, &ours, sizeof(ours));
}

/* NULL, or what is wrong with the units. */
static const char *check_units(struct ebb_units *u, struct scratch *s)
{
	struct ebb_units_stat stat = { .struct_size = sizeof(stat) };
	u64 i, units = 0, numbers = 0, skip;

	for (i = 0; i < u->units; i += skip ? skip : 1) {
		block_ref ref;

		skip = host_table_skip(&u->table, i);
		ref = skip ? 0 : host_a64_read(host_table_at(&u->table, i));
		if (!ref)
			continue;
		if (!block_is_there(&u->blocks, s, ref))
			return "a unit's block is not there";
		units++;
		numbers += runs_length(&u->blocks.runs, (u32)(ref >> 32));
	}
	ebb_units_stat(u, &stat);
	if (units != stat.units)
		return "units that have a block != what is counted";
	if (numbers != u->blocks.runs.numbers)
		return "slot numbers that blocks have != those that are taken";
	return blocks_check(&u->blocks);
}

int ebb_units_check(struct ebb_units *u, char *why, size_t len)
{
	const char *what;
	struct scratch *s;
	int err;

	if (bad(u) || why_null_of(why, len))
		return -EINVAL;
	err = ebb_check(u->store, why, len);
	if (err)
		return err;
	s = scratch_get(&u->blocks);
	if (!s)
		return -ENOMEM;
	what = check_units(u, s);
	scratch_put(&u->blocks, s);
	if (what && len)
		snprintf(why, len, "%s", what);
	return what ? -EUCLEAN : 0;
}
