// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* unit.c - owns the words of instances and what their pieces are. */
#include "unit.h"
#include "mm/pool_check.h"

/*
 * The value of a slot's word that names a unit, and the word of an instance:
 *
 *     | share (6) | tag (14) | instance (31) |
 *     | number (31) | tag (14) | readers (14) | live (5) |
 *
 * share is what a page of the unit takes, and number the unit's number.  In a dead instance live
 * and readers are 0, and number is 1 + the next unused instance, or 0 in the last one.
 */
#define UNIT_TAG_BITS 14
#define UNIT_TAGS ((u64)1 << UNIT_TAG_BITS)
#define UNIT_NR_BITS 31
#define UNIT_LIVE ((u64)31)
#define UNIT_READER ((u64)1 << 5)
#define UNIT_READERS ((UNIT_TAGS - 1) << 5)
#define UNIT_TAG_SHIFT 19
#define UNIT_NR_SHIFT (UNIT_TAG_SHIFT + UNIT_TAG_BITS)
#define UNIT_SHARE_SHIFT (UNIT_NR_BITS + UNIT_TAG_BITS)
#define UNIT_SHARES ((u64)PAGE_SIZE / UNIT_SHARE)

_Static_assert(UNIT_SHARES << UNIT_SHARE_SHIFT == SLOT_READER, "a share fills the word");

static u32 unit_instance(u64 word)
{
	return (u32)(word & (((u64)1 << UNIT_NR_BITS) - 1));
}

static u64 unit_share(u64 word)
{
	return word >> UNIT_SHARE_SHIFT & (UNIT_SHARES - 1);
}

/* The word of the pages of a unit whose pieces take so much room. */
static u64 unit_word(const struct units *u, u32 nr, u64 tag, s64 room)
{
	u64 share = (u64)room >> u->shift >> UNIT_SHARE_BITS;

	if (share >= UNIT_SHARES)
		share = UNIT_SHARES - 1;
	return slot_make(SLOT_UNIT, share << UNIT_SHARE_SHIFT | tag << UNIT_NR_BITS | nr);
}

static u64 unit_tag(u64 inst)
{
	return inst >> UNIT_TAG_SHIFT & (UNIT_TAGS - 1);
}

/* The first word of an instance; those of its pieces follow. */
static u64 unit_key(const struct units *u, u32 nr)
{
	return u->first + ((u64)nr << u->shift);
}

static u64 unit_make_inst(u64 number, u64 tag, u64 live)
{
	return number << UNIT_NR_SHIFT | (tag & (UNIT_TAGS - 1)) << UNIT_TAG_SHIFT | live;
}

/* ---- instances ---- */

/* Takes an instance that is unused, whose words are there then.  -ENOSPC: all are used. */
static int instance_take(struct store *s, unsigned int node, unsigned int how, u32 *nr)
{
	struct units *u = s->units;
	int err = 0;
	bool taken;

	do {
		spin_lock(&u->lock);
		taken = true;
		if (u->unused) {
			*nr = u->unused - 1;
			u->unused = (u32)(host_a64_read(store_slot(s, unit_key(u, *nr))) >>
					  UNIT_NR_SHIFT);
		} else {
			*nr = u->fresh;
			taken = *nr < u->most && host_table_has(&s->table, unit_key(u, *nr));
			WRITE_ONCE(u->fresh, u->fresh + taken);
		}
		spin_unlock(&u->lock);
		if (!taken)
			err = *nr < u->most ? store_need_word(s, unit_key(u, *nr), node, how) :
					      -ENOSPC;
	} while (!taken && !err);
	return err;
}

/* A dead instance joins those of the CPU, which go back together.  The item is held. */
static void instance_give(struct store *s, struct store_cpu *cpu, u32 nr)
{
	struct units *u = s->units;
	host_a64 *inst = store_slot(s, unit_key(u, nr)), *last;
	u64 tag = unit_tag(host_a64_read(inst));

	host_a64_set(inst, unit_make_inst(cpu->unit_first, tag, 0));
	cpu->unit_first = nr + 1;
	if (!cpu->unit_n)
		cpu->unit_last = nr + 1;
	if (++cpu->unit_n < u->batch)
		return;
	last = store_slot(s, unit_key(u, cpu->unit_last - 1));
	spin_lock(&u->lock);
	host_a64_set(last, unit_make_inst(u->unused, unit_tag(host_a64_read(last)), 0));
	u->unused = cpu->unit_first;
	spin_unlock(&u->lock);
	cpu->unit_first = cpu->unit_n = 0;
}

static void piece_account(struct store *s, struct counters *c, u64 ref, s64 by)
{
	s64 room = pool_ref_room(&s->pool, ref);

	counter_add(c, CNT_COMPR_BYTES, by * (s64)pool_ref_size(&s->pool, ref));
	counter_add(c, CNT_ROOM, by * room);
	counter_add(c, CNT_UNIT_ROOM, by * room);
}

static bool units_past_limit(struct store *s)
{
	u64 limit = READ_ONCE(s->pool.limit);

	return limit && pool_pages(&s->pool) << PAGE_SHIFT > limit;
}

/*
 * Ends an instance that nobody reads and no slot names.  The item is held.  units_tidy() may have
 * passed mem_limit for the pages that it took out; then the pieces are freed at once, and not held
 * back.
 */
static void instance_end(struct store *s, struct store_cpu *cpu, u32 nr, struct release_todo *todo)
{
	u64 key = unit_key(s->units, nr), refs[UNIT_PAGES_MOST];
	bool now = !READ_ONCE(s->release.limit) || units_past_limit(s);
	unsigned int k, n = 0;
	s64 room = 0;

	for (k = 1; k < s->units->pages; k++) {
		host_a64 *piece = store_slot(s, key + k);

		if (!host_a64_read(piece))
			break;
		refs[n] = slot_ref(slot_swap(piece, 0));
		room += pool_ref_room(&s->pool, refs[n]);
		piece_account(s, &cpu->counters, refs[n], -1);
		if (!now)
			release_push(&s->release, &cpu->release, refs[n],
				     pool_ref_room(&s->pool, refs[n]), todo);
		n++;
	}
	counter_add(&cpu->counters, CNT_UNITS, -1);
	counter_add(&cpu->counters, CNT_UNIT_WASTE,
		    -(s64)(unit_share(unit_word(s->units, nr, 0, room)) << s->units->shift));
	instance_give(s, cpu, nr);
	if (now) {
		counter_add(&cpu->counters, CNT_SYNC, n);
		pool_free_bulk(&s->pool, refs, NULL, n);
	}
}

/* Takes a page or a reader off an instance's word.  True: the caller has it, to end it. */
static bool instance_less(struct store *s, u32 nr, u64 what)
{
	u64 left = host_a64_add(store_slot(s, unit_key(s->units, nr)), ~what + 1);

	return !(left & (UNIT_LIVE | UNIT_READERS));
}

/* A slot names the unit no more.  True: nobody has it then, and the caller is to end it. */
static bool unit_less(struct store *s, struct store_cpu *cpu, u64 word)
{
	counter_add(&cpu->counters, CNT_UNIT_PAGES, -1);
	counter_add(&cpu->counters, CNT_UNIT_WASTE, (s64)unit_share(word));
	return instance_less(s, unit_instance(word), 1);
}

void unit_drop(struct store *s, struct store_cpu *cpu, u64 word, struct release_todo *todo)
{
	if (unit_less(s, cpu, word))
		instance_end(s, cpu, unit_instance(word), todo);
}

/* Ends a reader's hold. */
static void instance_drop(struct store *s, u32 nr)
{
	struct release_todo todo = { NULL, false };
	struct store_cpu *cpu;

	if (likely(!instance_less(s, nr, UNIT_READER)))
		return;
	cpu = host_percpu_lock(&s->cpus);
	instance_end(s, cpu, nr, &todo);
	host_percpu_unlock(&s->cpus, cpu);
	release_finish(&todo);
}

/* Holds the instance that a slot names, if it does so still. */
static bool instance_hold(struct store *s, host_a64 *slot, u64 word)
{
	u32 nr = unit_instance(word);
	host_a64 *inst = store_slot(s, unit_key(s->units, nr));
	u64 seen = host_a64_read(inst);

	do {
		if (!(seen & UNIT_LIVE))
			return false;
	} while (!host_a64_cas(inst, &seen, seen + UNIT_READER));
	if (likely(slot_same_value(host_a64_read_acquire(slot), word)))
		return true;
	instance_drop(s, nr);
	return false;
}

/* ---- making ---- */

/* Bytes of piece k of n that are so many together. */
static size_t piece_bytes(size_t bytes, unsigned int n, unsigned int k)
{
	return bytes / n + (k < bytes % n);
}

/*
 * Makes the n objects of an instance's pieces.  They get what st has compressed.  If st is NULL the
 * caller fills them later, and how says whether memory is waited for.
 */
static int pieces_make(struct store *s, u64 key, const struct stream *st, size_t bytes,
		       unsigned int n, unsigned int node, unsigned int how, u64 *refs)
{
	const char *from = st ? st->buf : NULL;
	unsigned int k;
	int err = 0;

	for (k = 0; k < n; k++) {
		size_t len = piece_bytes(bytes, n, k);

		if (st)
			err = pool_make(&s->pool, len, from, (u32)(key + 1 + k), node,
					how ^ STORE_PAST_LIMIT, &refs[k]);
		else
			err = store_make_room(s, key + 1 + k, node, how, NULL, len, &refs[k]);
		if (err)
			break;
		from = st ? from + len : NULL;
	}
	if (err)
		pool_free_bulk(&s->pool, refs, NULL, k);
	return err;
}

/*
 * Compresses a unit into st->buf and returns the bytes.  -EAGAIN: that does not save a page, or
 * half of the pages of a new unit are one repeated word.  Such pages take no memory alone, so they
 * do not count as saved.
 */
static int unit_pack(struct store *s, const struct codec_ops *codec, struct stream *st,
		     unit_gather *gather, void *arg)
{
	size_t bytes = (size_t)s->units->pages << PAGE_SHIFT, at;
	unsigned int fills = 0;
	size_t cap;
	u64 fill;
	int n;

	st->unit_is = 0;
	if (gather)
		gather(arg, st->unit);
	else
		memcpy(st->unit, arg, bytes);
	for (at = 0; at < bytes; at += PAGE_SIZE)
		fills += store_is_fill((char *)st->unit + at, &fill);
	if (gather && 2 * fills >= s->units->pages)
		return -EAGAIN;
	cap = (s->units->pages - (fills && fills < s->units->pages ? fills : 1)) *
	      pool_max_small(&s->pool);
	n = codec->compress(st->ctx, st->unit, bytes, st->buf, cap);
	if (n == -ENOSPC)
		return -EAGAIN;
	/* As stream_pack(). */
	return n == -ENOMEM || (n > 0 && (size_t)n <= cap) ? n : -EIO;
}

/*
 * Compresses a unit and makes its objects, as store_write_page() does.  If there is room but by
 * waiting, the unit is compressed anew when there is some; pages that changed meanwhile are better
 * off alone.
 */
static int unit_make_pieces(struct store *s, struct streams *t, u64 key, unit_gather *gather,
			    void *arg, unsigned int node, unsigned int how, u64 *refs)
{
	size_t most = pool_max_small(&s->pool);
	struct stream *st = stream_get(t);
	int bytes = unit_pack(s, t->codec, st, gather, arg), err = 0, again;
	unsigned int n = bytes > 0 ? (unsigned int)((bytes + most - 1) / most) : 0, k;
	const char *from;

	if (n)
		err = pieces_make(s, key, st, (size_t)bytes, n, node, how & STORE_PAST_LIMIT, refs);
	stream_put(st);
	if (!n)
		return bytes;
	if (!err)
		return (int)n;
	err = pieces_make(s, key, NULL, (size_t)bytes, n, node, how, refs);
	if (err)
		return err;
	st = stream_get(t);
	again = unit_pack(s, t->codec, st, gather, arg);
	if (again != bytes)
		err = again < 0 ? again : -EAGAIN;
	for (from = st->buf, k = 0; !err && k < n; from += piece_bytes((size_t)bytes, n, k), k++)
		pool_write(&s->pool, refs[k], from);
	stream_put(st);
	if (err)
		pool_free_bulk(&s->pool, refs, NULL, n);
	return err ? err : (int)n;
}

/* As unit_make(), with the codec of a priority.  gather NULL: arg has the bytes. */
static int unit_make_by(struct store *s, u64 i, unsigned int priority, unit_gather *gather,
			void *arg, unsigned int node, unsigned int how, u64 *word)
{
	struct units *u = s->units;
	u64 refs[UNIT_PAGES_MOST], key, tag;
	struct store_cpu *cpu;
	unsigned int n = 0, k;
	s64 room = 0;
	int err;
	u32 nr;

	host_assert(!(i & (u->pages - 1)));
	if (i + u->pages > s->slots)
		return -EAGAIN;
	/* One page of the table has the words of a unit's slots, as those of an instance. */
	err = store_need_word(s, i, node, how);
	if (!err)
		err = instance_take(s, node, how, &nr);
	if (err)
		return err;
	key = unit_key(u, nr);
	err = unit_make_pieces(s, s->streams[priority], key, gather, arg, node, how, refs);
	cpu = host_percpu_lock(&s->cpus);
	if (err < 0) {
		instance_give(s, cpu, nr);
		host_percpu_unlock(&s->cpus, cpu);
		return err;
	}
	for (k = 0, n = (unsigned int)err; k < n; k++) {
		room += pool_ref_room(&s->pool, refs[k]);
		piece_account(s, &cpu->counters, refs[k], 1);
		slot_swap(store_slot(s, key + 1 + k), slot_make(SLOT_PIECE, refs[k]));
	}
	counter_add(&cpu->counters, CNT_UNITS, 1);
	counter_add(&cpu->counters, CNT_UNIT_PAGES, u->pages);
	tag = (unit_tag(host_a64_read(store_slot(s, key))) + 1) & (UNIT_TAGS - 1);
	host_a64_set_release(store_slot(s, key), unit_make_inst(i >> u->shift, tag, u->pages));
	host_percpu_unlock(&s->cpus, cpu);
	host_a64_add(&u->made, 1);
	*word = unit_word(u, nr, tag, room) | (u64)priority << SLOT_CODEC_SHIFT;
	return 0;
}

int unit_make(struct store *s, u64 i, unit_gather *gather, void *arg, unsigned int node,
	      unsigned int how, u64 *word)
{
	return unit_make_by(s, i, 0, gather, arg, node, how, word);
}

void unit_put(struct store *s, u64 i, u64 word)
{
	store_put_word(s, store_slot(s, i), word);
}

/* ---- reading ---- */

/*
 * Unpacks a held instance, of its pages at least the first ones, as many as pages says.  Nobody
 * frees its pieces meanwhile, but compaction may move those that are not held themselves.
 */
static int instance_unpack(struct store *s, const struct codec_ops *codec, struct stream *st,
			   u32 nr, void *to, unsigned int pages)
{
	size_t whole = (size_t)s->units->pages << PAGE_SHIFT, bytes = 0, len;
	u64 key = unit_key(s->units, nr), word = 0;
	const void *data = st->buf;
	host_a64 *piece = NULL;
	unsigned int k;
	bool one;
	int err;

	one = s->units->pages == 2 || !host_a64_read(store_slot(s, key + 2));
	for (k = 1; k < s->units->pages; k++) {
		piece = store_slot(s, key + k);
		word = hold_take_and(&s->holds, piece, 0);
		if (slot_type(word) != SLOT_PIECE) {
			one = false;
			break;
		}
		len = pool_ref_size(&s->pool, slot_ref(word));
		if (one)
			data = pool_map(&s->pool, slot_ref(word), st->bounce);
		else
			pool_read(&s->pool, slot_ref(word), (char *)st->buf + bytes);
		bytes += len;
		if (one)
			break;
		hold_drop(&s->holds, piece, slot_ref(word));
	}
	if (pages < s->units->pages && codec->decompress_part)
		err = codec->decompress_part(st->ctx, data, bytes, to, (size_t)pages << PAGE_SHIFT,
					     whole);
	else
		err = codec->decompress(st->ctx, data, bytes, to, whole);
	err = err ? -EIO : 0;
	if (one)
		hold_drop(&s->holds, piece, slot_ref(word));
	return err;
}

/*
 * Unpacks the page of slot i, which has word, to st->unit, with those before it in its unit, unless
 * they are there.  A codec that can stop unpacks those behind it only if reads seem to go on: if
 * the stream last read the slot before, or has pages of this unit already.
 */
static int unit_unpack(struct store *s, const struct codec_ops *codec, struct stream *st, u64 i,
		       host_a64 *slot, u64 word)
{
	unsigned int pages = (i & (s->units->pages - 1)) + 1;
	u64 is = (word & SLOT_VALUE) + 1;
	bool known = st->unit_is == is &&
		     host_a64_read(&s->units->made) - st->unit_made < UNIT_TAGS;
	int err;

	if (known && pages <= st->unit_has)
		return 0;
	if (known || i == st->unit_next || !codec->decompress_part)
		pages = s->units->pages;
	if (!instance_hold(s, slot, word))
		return STORE_AGAIN;
	st->unit_is = 0;
	st->unit_made = host_a64_read(&s->units->made);
	err = instance_unpack(s, codec, st, unit_instance(word), st->unit, pages);
	instance_drop(s, unit_instance(word));
	st->unit_has = pages;
	if (!err)
		st->unit_is = is;
	return err;
}

int unit_copy(struct store *s, u64 i, void *page, u64 *word)
{
	host_a64 *slot = store_slot(s, i);
	struct streams *t = s->streams[slot_codec(host_a64_read(slot))];
	struct stream *st = stream_get(t);
	size_t at = (size_t)(i & (s->units->pages - 1)) << PAGE_SHIFT;
	int err = STORE_AGAIN;

	*word = host_a64_read_acquire(slot);
	if (slot_type(*word) == SLOT_UNIT && likely(s->streams[slot_codec(*word)] == t))
		err = unit_unpack(s, t->codec, st, i, slot, *word);
	st->unit_next = i + 1;
	if (!err)
		memcpy(page, (char *)st->unit + at, PAGE_SIZE);
	else if (err < 0)
		memset(page, 0, PAGE_SIZE);
	stream_put(st);
	return err;
}

/* While an instance is held, slots that say the same are of one unit. */
bool unit_read_whole(struct store *s, u64 i, void *to)
{
	unsigned int pages = s->units->pages, k = 0;
	host_a64 *slot = store_slot(s, i);
	struct streams *t;
	struct stream *st;
	int err = -EIO;
	u64 word;

	host_assert(!(i & (pages - 1)));
	word = i + pages <= s->slots ? host_a64_read_acquire(slot) : 0;
	if (slot_type(word) != SLOT_UNIT)
		return false;
	t = s->streams[slot_codec(word)];
	st = stream_get(t);
	if (instance_hold(s, slot, word)) {
		while (k < pages && slot_same_value(host_a64_read(store_slot(s, i + k)), word))
			k++;
		if (k == pages)
			err = instance_unpack(s, t->codec, st, unit_instance(word), to, pages);
		instance_drop(s, unit_instance(word));
	}
	stream_put(st);
	if (err && k == pages)
		/* As stream_unpack(). */
		memset(to, 0, (size_t)pages << PAGE_SHIFT);
	for (k = 0; k < pages && !err; k++)
		slot_mark_same(store_slot(s, i + k), word, 0, SLOT_TOUCHED);
	return !err;
}

static int unit_read(struct store *s, u64 i, void *page)
{
	u64 word;
	int err = unit_copy(s, i, page, &word);

	if (err <= 0 && word & SLOT_TOUCHED)
		slot_mark_same(store_slot(s, i), word, 0, SLOT_TOUCHED);
	return err;
}

size_t unit_page_bytes(const struct store *s, u64 word)
{
	size_t bytes = 0;
	unsigned int k;
	u64 key, piece;

	if (slot_type(word) == SLOT_PAGE)
		return pool_ref_size(&s->pool, slot_ref(word));
	key = unit_key(s->units, unit_instance(word));
	for (k = 1; k < s->units->pages; k++) {
		piece = host_a64_read(store_slot(s, key + k));
		if (slot_type(piece) != SLOT_PIECE)
			break;
		bytes += pool_ref_size(&s->pool, slot_ref(piece));
	}
	return bytes >> s->units->shift;
}

/* ---- taking apart ---- */

/*
 * Puts new in slot i, if that has the page of word still, whose instance is held.  It is chosen for
 * writeback no more, for what is written may be as it was before.  False: new is the caller's.
 */
static bool unit_replace(struct store *s, u64 i, u64 word, u64 new)
{
	struct store_cpu *cpu = host_percpu_lock(&s->cpus);
	host_a64 *slot = store_slot(s, i);
	u64 old = host_a64_read(slot), about;
	bool done = false;

	while (!done && slot_same_value(old, word)) {
		about = slot_type(new) == SLOT_PAGE ? old & SLOT_IDLE : 0;
		done = host_a64_cas(slot, &old, new | about);
	}
	if (done) {
		store_account(s, &cpu->counters, new, 1);
		store_account(s, &cpu->counters, old, -1);
		/* It is not the last: the instance is held. */
		unit_less(s, cpu, old);
	}
	host_percpu_unlock(&s->cpus, cpu);
	return done;
}

/* The room of a held instance's pieces. */
static u64 instance_room(struct store *s, u32 nr)
{
	u64 key = unit_key(s->units, nr), room = 0, piece;
	unsigned int k;

	for (k = 1; k < s->units->pages && (piece = host_a64_read(store_slot(s, key + k))); k++)
		room += (u64)pool_ref_room(&s->pool, slot_ref(piece));
	return room;
}

/*
 * Stores the page of slot i alone, if the slot is of the held unit of word.  *new: the word for it,
 * or 0.  UNIT_STAYS: it does not decompress, or the codec fails.  -ENOMEM and the like.
 */
static int unit_page_alone(struct store *s, u64 i, u64 word, u64 *new)
{
	u64 now = host_a64_read(store_slot(s, i));
	int err;

	*new = 0;
	if (!slot_same_value(now, word))
		return 0;
	err = unit_copy(s, i, s->units->page, &now);
	if (err < 0)
		return UNIT_STAYS;
	if (err || !slot_same_value(now, word))
		return 0;
	err = store_make_word(s, i, s->units->page, NUMA_NO_NODE, STORE_PAST_LIMIT, new);
	return err < 0 && !store_no_room(err) ? UNIT_STAYS : err;
}

/* A unit that stays as it is, of this round: what died in it is not to be had. */
static void unit_spare(struct units *u, u64 inst, u64 word)
{
	u->sparing += (u->pages - (inst & UNIT_LIVE)) * unit_share(word) * UNIT_SHARE;
}

/*
 * Takes a unit apart, as a whole, if its pages take less alone; else it is spared.  *pages counts
 * those that were compressed.  -ENOMEM and the like.
 */
static int unit_take_apart(struct store *s, u32 nr, u64 inst, unsigned int *pages)
{
	struct units *u = s->units;
	u64 i = (inst >> UNIT_NR_SHIFT) << u->shift, word = 0, new[UNIT_PAGES_MOST], left;
	host_a64 *slot = NULL;
	unsigned int k, n;
	int err = 0;

	for (k = 0; k < u->pages; k++) {
		u64 now = host_a64_read(store_slot(s, i + k));

		if (slot_type(now) != SLOT_UNIT || unit_instance(now) != nr)
			continue;
		/* It is about to be written back. */
		if (now & SLOT_CHOSEN) {
			unit_spare(s->units, inst, now);
			return 0;
		}
		slot = store_slot(s, i + k);
		word = now;
	}
	/* Held, so that what says the same later is the same. */
	if (!slot || !instance_hold(s, slot, word))
		return 0;
	left = instance_room(s, nr);
	for (n = 0; n < u->pages && !err; n++) {
		err = unit_page_alone(s, i + n, word, &new[n]);
		*pages += new[n] != 0;
		k = slot_has_object(new[n]) ? (u32)pool_ref_room(&s->pool, slot_ref(new[n])) : 0;
		left = k < left ? left - k : 0;
		if (!err && !left)
			err = UNIT_STAYS;
	}
	if (err == UNIT_STAYS)
		unit_spare(u, inst, word);
	for (k = 0; k < n; k++)
		if (new[k] && (err || !unit_replace(s, i + k, word, new[k])) &&
		    slot_has_object(new[k]))
			pool_free(&s->pool, slot_ref(new[k]));
	instance_drop(s, nr);
	return err < 0 ? err : 0;
}

/* Whether enough is wasted, and more than what a round spared. */
static bool units_waste(struct store *s)
{
	u64 waste = store_count(s, CNT_UNIT_WASTE) * UNIT_SHARE, room = store_count(s, CNT_ROOM);
	u64 spared = READ_ONCE(s->units->spared);

	if (waste < spared)
		WRITE_ONCE(s->units->spared, waste);
	return waste > room / 8 && (!spared || waste > spared + room / 64);
}

/* The next walk over all instances; false: that was the last of a round. */
static bool units_next_walk(struct store *s)
{
	struct units *u = s->units;

	if (u->live == u->pages - 1) {
		u->live = 0;
		WRITE_ONCE(u->spared, u->sparing);
		return false;
	}
	u->left = READ_ONCE(u->fresh);
	u->sparing = 0;
	u->live = u->live ? 2 * u->live : (u->pages + 3) / 4;
	if (u->live >= u->pages)
		u->live = u->pages - 1;
	return true;
}

/* A call goes on where the last one stopped, and a walk where the one before ended. */
static int units_tidy_some(struct store *s)
{
	struct units *u = s->units;
	unsigned int looks, pages = 0;
	u64 inst, live;
	int err = 0;

	if (!units_waste(s)) {
		/* The next round is a whole one. */
		u->live = u->left = 0;
		return 0;
	}
	for (looks = 0; looks < UNIT_TIDY_LOOKS && pages < UNIT_TIDY_PAGES; looks++) {
		while (!u->left)
			if (!units_next_walk(s))
				return pages > 0;
		if (u->at >= READ_ONCE(u->fresh))
			u->at = 0;
		inst = host_a64_read(store_slot(s, unit_key(u, u->at)));
		live = inst & UNIT_LIVE;
		if (live && live <= u->live)
			err = unit_take_apart(s, u->at, inst, &pages);
		if (err)
			break;
		u->at++;
		u->left--;
		cond_resched();
	}
	return err ? err : 1;
}

int units_tidy(struct store *s)
{
	int more;

	mutex_lock(&s->units->tidying);
	more = units_tidy_some(s);
	mutex_unlock(&s->units->tidying);
	return more;
}

/* ---- with another codec ---- */

/*
 * Unpacks all pages of a held instance, which the slots from first on name by word.  A page whose
 * slot does not name it, any more or yet, is made zeros; *live has a bit for each of the others.
 */
static int instance_copy(struct store *s, u64 first, u64 word, char *pages, unsigned int *live)
{
	struct streams *t = s->streams[slot_codec(word)];
	struct stream *st = stream_get(t);
	unsigned int k;
	int err;

	err = instance_unpack(s, t->codec, st, unit_instance(word), pages, s->units->pages);
	stream_put(st);
	for (k = 0, *live = 0; k < s->units->pages; k++) {
		if (slot_same_value(host_a64_read(store_slot(s, first + k)), word))
			*live |= 1u << k;
		else
			memset(pages + ((size_t)k << PAGE_SHIFT), 0, PAGE_SIZE);
	}
	return err;
}

int unit_recompress(struct store *s, u64 i, u64 word, unsigned int priority, size_t below,
		    u64 kept, void *pages)
{
	u64 first = i & ~(u64)(s->units->pages - 1), new = 0;
	struct release_todo todo = { NULL, false };
	unsigned int live, left = 0, k;
	struct store_cpu *cpu;
	bool smaller;
	int err;

	if (!instance_hold(s, store_slot(s, i), word))
		return 0;
	err = instance_copy(s, first, word, pages, &live);
	if (!err)
		err = unit_make_by(s, first, priority, NULL, pages, NUMA_NO_NODE,
				   STORE_PAST_LIMIT, &new);
	smaller = !err && live && (!below || unit_page_bytes(s, new) < below) &&
		  instance_room(s, unit_instance(new)) < instance_room(s, unit_instance(word));
	for (k = 0; k < s->units->pages && (!err || err == -EAGAIN); k++) {
		/* Zeros were compressed for the others, whatever their slots say by now. */
		bool is = live & 1u << k;

		left += !(is && smaller && unit_replace(s, first + k, word, new));
		if (is && !smaller)
			slot_mark_same(store_slot(s, first + k), word, kept, SLOT_TOUCHED);
	}
	instance_drop(s, unit_instance(word));
	if (err)
		return err == -EAGAIN ? 0 : err;
	cpu = host_percpu_lock(&s->cpus);
	while (left--)
		unit_drop(s, cpu, new, &todo);
	host_percpu_unlock(&s->cpus, cpu);
	release_finish(&todo);
	return smaller;
}

void units_stats(struct store *s, struct unit_stats *st)
{
	u64 all = store_count(s, CNT_UNITS) << s->units->shift;

	st->units = store_count(s, CNT_UNITS);
	st->pages = store_count(s, CNT_UNIT_PAGES);
	st->room = store_count(s, CNT_UNIT_ROOM);
	st->dead = all > st->pages ? all - st->pages : 0;
}

/* ---- checking ---- */

/* How many slots of an instance's unit have the word due, which names the instance. */
static unsigned int instance_named(struct store *s, u64 due, u64 inst)
{
	u64 i = (inst >> UNIT_NR_SHIFT) << s->units->shift;
	unsigned int k, n = 0;

	for (k = 0; k < s->units->pages && i + k < s->slots; k++) {
		u64 word = host_a64_read(store_slot(s, i + k));

		n += slot_type(word) == SLOT_UNIT && slot_same_value(word & ~SLOT_CODEC, due);
	}
	return n;
}

static const char *instance_check(struct store *s, u32 nr, struct counters *sum, u64 *objects)
{
	u64 key = unit_key(s->units, nr), inst = host_a64_read(store_slot(s, key));
	u64 live = inst & UNIT_LIVE, due;
	bool ended = false;
	const char *bad;
	unsigned int k;
	s64 room = 0;
	u32 of;

	if (inst & UNIT_READERS)
		return "a unit is held by nobody";
	for (k = 1; k < s->units->pages; k++) {
		u64 word = host_a64_read(store_slot(s, key + k));

		if (!word) {
			ended = true;
			continue;
		}
		if (ended || !live || slot_type(word) != SLOT_PIECE || word & SLOT_READERS)
			return "a unit has pieces that it should not have";
		bad = pool_check_ref(&s->pool, slot_ref(word), &of);
		if (bad)
			return bad;
		if (of != key + k)
			return "a piece has another one's key";
		++*objects;
		room += pool_ref_room(&s->pool, slot_ref(word));
		piece_account(s, sum, slot_ref(word), 1);
	}
	if (!live)
		return NULL;
	due = unit_word(s->units, nr, unit_tag(inst), room);
	if (instance_named(s, due, inst) != live)
		return "a unit has other live pages than slots that name it";
	counter_add(sum, CNT_UNITS, 1);
	counter_add(sum, CNT_UNIT_WASTE, (s64)((s->units->pages - live) * unit_share(due)));
	return NULL;
}

/*
 * Each instance is named by as many slots of its unit as it says; that no other slots name it, the
 * sum over all of them tells.
 */
static const char *units_check(struct store *s, struct counters *sum, u64 *objects)
{
	struct units *u = s->units;
	const char *bad = NULL;
	u64 live = 0;
	u32 nr;

	for (nr = 0; nr < u->fresh && !bad; nr++) {
		live += host_a64_read(store_slot(s, unit_key(u, nr))) & UNIT_LIVE;
		bad = instance_check(s, nr, sum, objects);
		if (nr % 256 == 0)
			cond_resched();
	}
	if (!bad && live != (u64)sum->v[CNT_UNIT_PAGES])
		bad = "a slot names a unit that does not count it";
	return bad;
}

/* ---- life ---- */

int store_set_units(struct store *s, struct units *u, unsigned int pages)
{
	static const struct unit_ops ops = {
		.drop = unit_drop, .read = unit_read, .tidy = units_tidy, .check = units_check,
	};
	u64 most;

	memset(u, 0, sizeof(*u));
	u->page = host_zalloc(PAGE_SIZE);
	if (!u->page)
		return -ENOMEM;
	u->pages = pages;
	u->shift = (unsigned int)__builtin_ctz(pages);
	u->first = (s->slots + pages - 1) & ~(u64)(pages - 1);
	most = s->words > u->first ? (s->words - u->first) >> u->shift : 0;
	u->most = most < ((u64)1 << UNIT_NR_BITS) - 1 ? (u32)most : ((u32)1 << UNIT_NR_BITS) - 1;
	u->batch = STORE_UNIT_BATCH;
	spin_lock_init(&u->lock);
	mutex_init(&u->tidying);
	s->units = u;
	s->unit_ops = &ops;
	return 0;
}

void units_destroy(struct units *u)
{
	if (u->page)
		mutex_destroy(&u->tidying);
	host_free(u->page, PAGE_SIZE);
	memset(u, 0, sizeof(*u));
}
