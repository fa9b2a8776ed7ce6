// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cache_gone.c - tells the owner of a cache what left memory: gone() of its config.
 *
 *     call { ... evict: note ... evict: note ... }  tell  tell          with nothing in hand
 *                                                    |
 *                                         gone() { call { ... evict: note } }
 *                                                                     |
 *                                    to the end of what the outer call is to tell
 *
 * A value that leaves is noted, and told at the end of the call that made it leave.  A call that
 * gone() makes tells nothing itself: what it makes leave is told after gone() returned, by the call
 * around it.  So gone() is never called within itself, however many it puts or deletes, and it may
 * wait for others, since its caller has neither a lock nor a scratch.
 *
 * Notes of a call are in its frame, and in chunks if they are many.  A note takes less memory than
 * the value that left had.  Who finds no memory for a chunk evicts no more; the one note that a
 * call may need besides, of a value that it replaces or deletes, has its place before it begins.
 *
 * No locks: a call and what it is to tell are its thread's.
 */
#include "cache.h"

#define CHUNK_BYTES ((size_t)128 << 10)

struct note {
	u64 charge;
	u32 bytes;
	u16 key_bytes;
	u16 why;
};

#define NOTE_MOST (sizeof(struct note) + EBB_CACHE_KEY_MAX)

_Static_assert(CACHE_CALL_ROOM >= 2 * NOTE_MOST, "a call may evict without a chunk");

/* The calls that this thread is in, of all caches that have a gone(); the last one first. */
static _Thread_local struct cache_call *under_way;

/* Whether there is room for so many more notes. */
static bool make_room(struct cache_call *teller, size_t notes)
{
	struct cache_notes *last = teller->last, *n;

	if (last->most - last->end >= notes * NOTE_MOST)
		return true;
	n = host_zalloc(CHUNK_BYTES);
	if (!n)
		return false;
	n->room = (unsigned char *)(n + 1);
	n->most = CHUNK_BYTES - sizeof(*n);
	host_a64_add(&teller->cache->notes, CHUNK_BYTES);
	last->next = n;
	teller->last = n;
	return true;
}

void cache_call_begin(struct ebb_cache *c, struct cache_call *call)
{
	struct cache_call *t = under_way;

	call->cache = c;
	if (!c->gone)
		return;
	call->here = (struct cache_notes){ .room = call->room, .most = sizeof(call->room) };
	call->first = call->last = &call->here;
	call->own = 0;
	call->again = 0;
	while (t && t->cache != c)
		t = t->outer;
	call->teller = t && make_room(t, 1) ? t : call;
	call->outer = under_way;
	under_way = call;
}

bool cache_call_may_evict(struct ebb_cache *c)
{
	return !c->gone || make_room(under_way->teller, 2);
}

bool cache_call_may_put(struct ebb_cache *c)
{
	struct cache_call *teller = c->gone ? under_way->teller : NULL;

	return !teller || teller == under_way || teller->own || teller->again++ < CACHE_AGAIN_MOST;
}

void cache_call_note(struct scratch *s, size_t n, enum ebb_cache_why why)
{
	const struct value_head *head = cache_value_head(s, n);
	struct cache_notes *last = under_way->teller->last;
	struct note note = { .why = (u16)why };

	if (!head || last->most - last->end < sizeof(note) + head->key_bytes)
		return;
	note.charge = head->charge;
	note.bytes = head->bytes;
	note.key_bytes = head->key_bytes;
	memcpy(last->room + last->end, &note, sizeof(note));
	memcpy(last->room + last->end + sizeof(note), head + 1, head->key_bytes);
	last->end += sizeof(note) + head->key_bytes;
	if (under_way->teller == under_way)
		under_way->own++;
}

/* Takes the first note out; its key goes to key[EBB_CACHE_KEY_MAX].  False: there is none. */
static bool take_note(struct cache_call *call, struct note *note, char *key)
{
	struct cache_notes *n = call->first;

	if (n->begin == n->end && n->next) {
		call->first = n->next;
		if (n != &call->here) {
			host_a64_add(&call->cache->notes, -(u64)CHUNK_BYTES);
			host_free(n, CHUNK_BYTES);
		}
		n = call->first;
	}
	if (n->begin == n->end)
		return false;
	memcpy(note, n->room + n->begin, sizeof(*note));
	memcpy(key, n->room + n->begin + sizeof(*note), note->key_bytes);
	n->begin += sizeof(*note) + note->key_bytes;
	if (n->begin == n->end)
		n->begin = n->end = 0;
	return true;
}

void cache_call_end(struct cache_call *call)
{
	struct ebb_cache *c = call->cache;
	char key[EBB_CACHE_KEY_MAX];
	struct note note;

	if (!c->gone)
		return;
	while (call->teller == call && take_note(call, &note, key)) {
		const struct ebb_cache_gone gone = {
			.struct_size = sizeof(gone), .key = key, .key_bytes = note.key_bytes,
			.bytes = note.bytes, .charge = note.charge, .why = note.why,
		};

		c->gone(c->gone_ctx, &gone);
		if (call->own)
			call->own--;
	}
	if (call->first != &call->here) {
		host_a64_add(&c->notes, -(u64)CHUNK_BYTES);
		host_free(call->first, CHUNK_BYTES);
	}
	under_way = call->outer;
}
