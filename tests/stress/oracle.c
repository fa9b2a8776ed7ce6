// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * oracle.c - owns what each slot may hold.
 *
 *     version: sequence number << 4 | kind      sequence numbers of a slot never come again
 *     tag:     slot:16 | sequence:27 | kind:4   leads every page but those of one word, which
 *                                               are the tag itself, in one of four forms
 *
 * A slot has two versions: begun (being written, or what is there) and complete (is there).
 * Who changes a slot has it to itself, so
 *
 *     reader: low = complete; read; high = begun    =>   low <= version found <= high
 *
 * and under the slot's flag low == high: an exact answer.  In wild blocks nobody waits for
 * his turn, and a reader can only ask for a whole page that was written to this slot.
 */
#include "stress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 64u               /* slots that are wild or not together */
#define SEQ_MASK 0x7ffffffu
#define SEQ12 0xfffu

struct slot {
	u64 begun, complete;
	u32 last;               /* sequence number given out */
	bool taken, wild;
};

static struct slot slots[SLOTS_MAX];
static u64 freed_min, freed_max, failed_writes, failed_reads;

static u64 get(const u64 *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void set(u64 *p, u64 v)
{
	__atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

static void add(u64 *p, u64 v)
{
	__atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

static enum kind kind_of(u64 version)
{
	return (enum kind)(version & 15);
}

static u64 seq_of(u64 version)
{
	return version >> 4;
}

static bool blank(u64 version)
{
	return kind_of(version) == EMPTY || kind_of(version) == ZERO;
}

void oracle_open(void)
{
	memset(slots, 0, sizeof(slots));
	freed_min = freed_max = failed_writes = failed_reads = 0;
}

void oracle_begin(struct worker *w)
{
	for (u32 i = 0; i < round_now.slots; i++) {
		u64 r = round_now.r ^ mix(i / BLOCK + 1);
		bool wild = below(&r, 8) < round_now.wild;

		/*
		 * In a wild slot zeros must mean that it is empty, or nobody could count the slots.
		 */
		if (wild && kind_of(slots[i].complete) == ZERO)
			oracle_free(w, i, 1);
		slots[i].wild = wild;
	}
}

bool slot_is_wild(u32 slot)
{
	return slots[slot].wild;
}

bool slot_take(u32 slot)
{
	return slots[slot].wild || !__atomic_exchange_n(&slots[slot].taken, true, __ATOMIC_SEQ_CST);
}

void slot_leave(u32 slot)
{
	if (!slots[slot].wild)
		__atomic_store_n(&slots[slot].taken, false, __ATOMIC_SEQ_CST);
}

u64 oracle_new(u32 slot, enum kind kind)
{
	struct slot *s = &slots[slot];
	u64 v = (u64)__atomic_add_fetch(&s->last, 1, __ATOMIC_SEQ_CST) << 4 | kind;

	if (!s->wild)
		set(&s->begun, v);
	return v;
}

void oracle_done(u32 slot, u64 version)
{
	if (!slots[slot].wild)
		set(&slots[slot].complete, version);
}

void oracle_count_failed_write(void)
{
	add(&failed_writes, 1);
}

/* ---- contents ---- */

static u64 tag_of(u32 slot, u64 version)
{
	return (u64)slot << 31 | (seq_of(version) & SEQ_MASK) << 4 | kind_of(version);
}

/* The word of a page of one word: what a slot word can hold in each of its ways, and what not. */
static u64 fill_of(u32 slot, u64 version)
{
	u64 tag = tag_of(slot, version), half;

	switch (kind_of(version)) {
	case FILL16:
		return tag << 16;
	case FILL32:
		half = (u64)slot << 16 | (seq_of(version) & SEQ12) << 4 | FILL32;
		return half << 32 | half;
	case FILL64:
		return tag | (u64)0xa5 << 56;
	case ZERO:
	case EMPTY:
		return 0;
	default:
		return tag;
	}
}

enum kind pick_kind(u64 *r, u32 slot)
{
	static const enum kind kinds[] = {
		ZERO, FILL48, FILL16, FILL32, FILL64, TINY, TINY, TEXT, TEXT, TEXT, HALF, HALF,
		EDGE, NOISE,
	};
	enum kind k = PICK(kinds, r);

	return k == ZERO && slots[slot].wild ? TINY : k;
}

size_t make_version(void *buf, u32 slot, u64 version)
{
	u64 tag = tag_of(slot, version), r = tag, word, i;
	size_t bytes = page_size, random = 0, words;
	unsigned char *p = buf;

	switch (kind_of(version)) {
	case TINY:
		break;
	case TEXT:
		random = 64 + below(&r, page_size / 4);
		break;
	case HALF:      /* to where every codec still gets it below what any zram takes for huge */
		random = page_size / 4 + below(&r, page_size / 16 * 7);
		break;
	case EDGE:      /* about the largest that is worth compressing */
		random = page_size / 8 * 7 + below(&r, page_size / 11);
		break;
	case NOISE:
		random = page_size;
		break;
	case OBJECT:
		bytes = one_in(&r, 16) ? page_size : 8 + below(&r, page_size - 7);
		random = bytes;
		break;
	default:
		word = fill_of(slot, version);
		for (i = 0; i < page_size; i += 8)
			memcpy(p + i, &word, 8);
		return page_size;
	}
	words = bytes / 8;
	for (i = 0; i < words; i++) {
		word = i * 8 < random ? next(&r) : tag * 0x0101010101010101u;
		memcpy(p + i * 8, &word, 8);
	}
	word = next(&r);
	memcpy(p + words * 8, &word, bytes - words * 8);
	memcpy(p, &tag, 8);
	return bytes;
}

static bool all_zero(const unsigned char *p)
{
	return !p[0] && !memcmp(p, p + 1, page_size - 1);
}

/* The version that a page or object says it is, or 0; high: the latest it can be. */
static u64 read_tag(const void *buf, u32 slot, u64 high, bool object)
{
	u64 w, seq;

	memcpy(&w, buf, 8);
	if (!object) {
		if (!(w & 0xffff))
			w >>= 16;
		else if ((w & 15) == FILL32 && w >> 32 == (u32)w)
			/* It has the last 12 bits of its sequence number only. */
			return (u32)w >> 16 == slot ?
			       (high - ((high - (w >> 4)) & SEQ12)) << 4 | FILL32 : 0;
		else if (w >> 56 == 0xa5 && (w & 15) == FILL64)
			w &= ~((u64)0xff << 56);
	}
	seq = w >> 4 & SEQ_MASK;
	return w >> 31 == slot && seq <= high ? seq << 4 | (w & 15) : 0;
}

/* ---- judging what was read ---- */

static void mismatch(u32 slot, u64 low, u64 high, const void *buf, size_t bytes, const char *what)
{
	u64 w[2] = { 0, 0 };

	if (buf)
		memcpy(w, buf, bytes < sizeof(w) ? bytes : sizeof(w));
	wrong("slot %u (%s): %s; complete was %llu.%u, begun %llu.%u, last %u; %zu bytes begin %016llx %016llx",
	      slot, slots[slot].wild ? "wild" : "one writer", what, (unsigned long long)seq_of(low),
	      kind_of(low), (unsigned long long)seq_of(high), kind_of(high), slots[slot].last,
	      bytes, (unsigned long long)w[0], (unsigned long long)w[1]);
}

/* Whether a version of which only the kind is known may have been there. */
static bool may_have_been(bool (*is)(u64), u64 low, u64 high)
{
	return is(low) || is(high) || seq_of(high) - seq_of(low) > 1;
}

static bool is_object(u64 version)
{
	return kind_of(version) == OBJECT;
}

static bool is_page(u64 version)
{
	return !is_object(version) && kind_of(version) != EMPTY;
}

/* buf was read from slot; returns the version found, 0 for a blank. */
static u64 judge(struct worker *w, u32 slot, u64 low, u64 high, const void *buf, size_t bytes,
		 bool object)
{
	const struct slot *s = &slots[slot];
	u64 v;

	if (object ? !bytes : all_zero(buf)) {
		if (!s->wild && !may_have_been(blank, low, high))
			mismatch(slot, low, high, buf, bytes, "empty or zeros, which it was not");
		return 0;
	}
	v = read_tag(buf, slot,
		     s->wild ? __atomic_load_n(&s->last, __ATOMIC_SEQ_CST) : seq_of(high), object);
	if (!v || object != is_object(v))
		mismatch(slot, low, high, buf, bytes, "not of this slot, or not a page");
	else if (make_version(w->want, slot, v) != bytes || memcmp(buf, w->want, bytes))
		mismatch(slot, low, high, buf, bytes, "a page that is not whole");
	else if (!s->wild && (v < low || v > high || (seq_of(v) == seq_of(low) && v != low) ||
			      (seq_of(v) == seq_of(high) && v != high)))
		mismatch(slot, low, high, buf, bytes, "a page of another time");
	return v;
}

/*
 * One slot, whatever it holds.  Somebody may put a page over an object between the two calls;
 * then it is tried again, and given up in the end.
 */
static enum outcome read_one(struct worker *w, u32 slot, bool as_object, u64 *found)
{
	const struct slot *s = &slots[slot];

	for (int tries = 0; tries < 8 && !stopping(); tries++) {
		u64 low = get(&s->complete), high;
		size_t bytes = page_size;
		int err = as_object ? home.get(slot, w->pages, page_size, &bytes)
				    : home.read(slot, w->pages, 1);

		high = get(&s->begun);
		if (!err) {
			*found = judge(w, slot, low, high, w->pages, bytes, as_object);
			return DONE;
		}
		if (err == -EINVAL && home.objects) {
			if (!as_object)
				add(&failed_reads, 1);
			if (!s->wild && !may_have_been(as_object ? is_page : is_object, low, high))
				mismatch(slot, low, high, NULL, 0, as_object ? "said to hold a page" : "said to hold an object");
			as_object = !as_object;
			continue;
		}
		wrong("slot %u: a read failed: %s", slot, strerror(-err));
		return FAILED;
	}
	return BUSY;
}

enum outcome oracle_read(struct worker *w, u32 slot, u32 n, bool as_object)
{
	u64 low[RUN_MAX], found;
	int err;

	if (n == 1)
		return read_one(w, slot, as_object && home.objects, &found);
	for (u32 i = 0; i < n; i++)
		low[i] = get(&slots[slot + i].complete);
	err = home.read(slot, w->pages, n);
	if (err == -EINVAL && home.objects) {
		/* An object among them: one by one. */
		add(&failed_reads, 1);
		for (u32 i = 0; i < n; i++)
			read_one(w, slot + i, false, &found);
		return DONE;
	}
	if (err) {
		wrong("slots %u to %u: a read failed: %s", slot, slot + n - 1, strerror(-err));
		return FAILED;
	}
	for (u32 i = 0; i < n; i++)
		judge(w, slot + i, low[i], get(&slots[slot + i].begun), w->pages + i * page_size,
		      page_size, false);
	return DONE;
}

void oracle_failed(struct worker *w, u32 slot, u64 version, bool got_so_far)
{
	struct slot *s = &slots[slot];
	u64 found = 0;

	if (s->wild)
		return;
	if (got_so_far) {
		/* Nobody writes: the two that it can be are the two ends. */
		if (read_one(w, slot, false, &found) != DONE)
			return;
		if (blank(version) && blank(get(&s->complete))) {
			/* Zeros or nothing: a read does not tell, but the counters do. */
			add(&freed_max, kind_of(get(&s->complete)) == EMPTY);
			oracle_free(w, slot, 1);
			return;
		}
		if (found ? found == version : blank(version) && !blank(get(&s->complete))) {
			set(&s->complete, version);
			return;
		}
	}
	set(&s->begun, get(&s->complete));
	read_one(w, slot, false, &found);
}

void oracle_free(struct worker *w, u32 slot, u32 n)
{
	u64 held = 0, wild = 0;
	int err;

	(void)w;
	for (u32 i = slot; i < slot + n; i++) {
		if (slots[i].wild)
			wild++;
		else
			held += kind_of(get(&slots[i].complete)) != EMPTY;
		oracle_new(i, EMPTY);
	}
	err = home.free(slot, n);
	if (err)
		wrong("freeing slots %u to %u: %s", slot, slot + n - 1, strerror(-err));
	/* begun: a one-writer slot's newest version is the one begun above. */
	for (u32 i = slot; i < slot + n; i++)
		oracle_done(i, get(&slots[i].begun));
	add(&freed_min, held);
	add(&freed_max, held + wild);
}

/* ---- when nobody is at work ---- */

static void count(struct tally *t, u32 slot, u64 version, struct worker *w)
{
	enum kind k = kind_of(version);
	size_t bytes;

	if (k == EMPTY)
		return;
	bytes = k == OBJECT ? make_version(w->want, slot, version) : page_size;
	t->stored++;
	t->bytes += bytes;
	t->same += k >= ZERO && k <= FILL64;
	t->raw_min += k == NOISE || (k == OBJECT && bytes == page_size);
	t->raw_max += k == NOISE || k == EDGE || (k == OBJECT && bytes == page_size);
}

void oracle_settle(struct worker *w, struct tally *t)
{
	memset(t, 0, sizeof(*t));
	for (u32 i = 0; i < round_now.slots && !stopping(); i++) {
		struct slot *s = &slots[i];
		u64 found;

		if (s->taken)
			wrong("slot %u: still taken, and nobody is at work", i);
		if (read_one(w, i, false, &found) != DONE)
			wrong("slot %u: cannot be read, and nobody is at work", i);
		if (s->wild)
			s->begun = s->complete = found;
		count(t, i, s->complete, w);
	}
	t->freed_min = freed_min;
	t->freed_max = freed_max;
	t->failed_writes = failed_writes;
	t->failed_reads = failed_reads;
}
