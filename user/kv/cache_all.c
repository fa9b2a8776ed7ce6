// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cache_all.c - what goes over all values of a cache: the figures, the check. */
#include "cache.h"

#include <errno.h>
#include <stdio.h>

#include "api/sized.h"

#define STAT_LEAST ((size_t)184)

_Static_assert(sizeof(struct ebb_cache_stat) >= STAT_LEAST, "of the first version");

/* ---- the figures ---- */

int ebb_cache_stat(struct ebb_cache *c, struct ebb_cache_stat *stat)
{
	struct ebb_cache_stat ours = { 0 };
	struct cache_usage u;
	unsigned int i;

	if (cache_bad(c) || why_null(stat))
		return -EINVAL;
	cache_usage(c, &u);
	ours.capacity = READ_ONCE(c->capacity);
	ours.pool_bytes = u.pool;
	ours.idle_bytes = u.idle;
	ours.index_bytes = u.index;
	ours.meta_bytes = u.meta;
	ours.pinned_bytes = u.pinned;
	ours.used_bytes = u.pool + u.idle + u.index + u.meta + u.pinned;
	ours.object_bytes = host_a64_read(&c->live);
	ours.dictionary_bytes = cache_dict_made(c) ? dictionary_bytes(cache_dict_made(c)) : 0;
	for (i = 0; i < CACHE_SHARDS; i++) {
		struct cache_shard *sh = &c->shard[i];

		ours.values += READ_ONCE(sh->mem.entries);
		ours.ghost_hits += READ_ONCE(sh->mem.ghosts);
		ours.hits += host_a64_read(&sh->counts.hits);
		ours.misses += host_a64_read(&sh->counts.misses);
		ours.puts += host_a64_read(&sh->counts.puts);
		ours.noted += host_a64_read(&sh->counts.noted);
		ours.failed += host_a64_read(&sh->counts.failed);
		ours.evicted += host_a64_read(&sh->counts.evicted);
		ours.spill_hits += host_a64_read(&sh->counts.spill_hits);
	}
	ours.spill_values = host_a64_read(&c->spill_entries);
	if (c->spill) {
		ours.spilled = host_a64_read(&c->spill->spilled);
		ours.spill_dropped = host_a64_read(&c->spill->dropped);
		ours.spill_bad = host_a64_read(&c->spill->bad);
		ours.spill_errors = host_a64_read(&c->spill->errors);
	}
	return sized_out(stat, STAT_LEAST, &ours, sizeof(ours));
}

/* ---- the check ---- */

/* Each block that an entry's value is in; their slot numbers are added. */
static const char *check_value(struct ebb_cache *c, struct scratch *s,
			       const struct cache_entry *entry, u64 *numbers)
{
	const struct value_head *head;
	block_ref *refs = s->owner_room;
	size_t n, i, blocks = 0;

	if (cache_value_read(c, s, entry->ref, &n))
		return "a value is not there";
	head = cache_value_head(s, n);
	if (hash_key(&c->secret, head + 1, head->key_bytes) != entry->hash)
		return "a value is under another key's hash";
	if (!head->large != !(entry->ref & CACHE_LARGE))
		return "a value is of another kind than its entry says";
	if (head->large) {
		blocks = (head->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
		memcpy(refs, (const char *)(head + 1) + head->key_bytes, blocks * sizeof(*refs));
	}
	*numbers += runs_length(&c->blocks.runs, (u32)((entry->ref & ~CACHE_LARGE) >> 32));
	for (i = 0; i < blocks; i++) {
		if (!block_is_there(&c->blocks, s, refs[i]))
			return "a block of a large value is not there";
		*numbers += runs_length(&c->blocks.runs, (u32)(refs[i] >> 32));
	}
	return NULL;
}

static const char *check_cache(struct ebb_cache *c, struct scratch *s)
{
	u64 live = 0, numbers = 0, spilled = 0;
	const char *what = NULL;
	unsigned int k;
	u32 i;

	for (k = 0; !what && k < CACHE_SHARDS; k++) {
		struct cache_shard *sh = &c->shard[k];

		what = cache_index_check(&sh->mem);
		if (!what && c->spill)
			what = cache_index_check(&sh->spilled);
		for (i = 0; !what && i < sh->mem.entries; i++) {
			live += cache_mark_bytes(cache_index_entry(&sh->mem, i)->mark);
			what = check_value(c, s, cache_index_entry(&sh->mem, i), &numbers);
		}
		spilled += sh->spilled.entries;
	}
	if (what)
		return what;
	if (live != host_a64_read(&c->live))
		return "bytes of all values != what is counted";
	if (spilled != host_a64_read(&c->spill_entries))
		return "values in the spill != what is counted";
	if (numbers != c->blocks.runs.numbers)
		return "slot numbers that values have != those that are taken";
	return blocks_check(&c->blocks);
}

int ebb_cache_check(struct ebb_cache *c, char *why, size_t len)
{
	const char *what;
	struct scratch *s;
	int err;

	if (cache_bad(c) || why_null_of(why, len))
		return -EINVAL;
	/* The worker keeps out. */
	mutex_lock(&c->room_lock);
	err = ebb_check(c->store, why, len);
	if (err) {
		mutex_unlock(&c->room_lock);
		return err;
	}
	s = scratch_get_surely(&c->blocks);
	what = check_cache(c, s);
	scratch_put(&c->blocks, s);
	mutex_unlock(&c->room_lock);
	if (what && len)
		snprintf(why, len, "%s", what);
	return what ? -EUCLEAN : 0;
}
