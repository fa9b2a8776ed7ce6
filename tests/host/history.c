// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* history.c - see history.h-> */
#include "history.h"
#include "explore.h"

unsigned int history_start(struct history *h, enum event_kind kind, unsigned int slot, u32 value)
{
	struct event *e;

	if (slot >= HISTORY_SLOTS || h->closed)
		return ~0u;
	e = &h->event[slot][h->n[slot]];
	if (h->n[slot] == HISTORY_EVENTS)
		explore_fail("the test needs a longer history");
	*e = (struct event){ .kind = (u8)kind, .value = value, .from = ++h->now, .to = ~0u };
	return slot * HISTORY_EVENTS + h->n[slot]++;
}

void history_end(struct history *h, unsigned int event, bool did, u32 value)
{
	struct event *e;

	if (event == ~0u)
		return;
	e = &h->event[event / HISTORY_EVENTS][event % HISTORY_EVENTS];
	e->did = did;
	if (e->kind == EV_READ)
		e->value = value;
	e->to = ++h->now;
}

/*
 * Tries every order.  left: events that did not happen yet; value: what the slot has now.
 * Returns the mask of how many frees met a value, over all orders that explain all.
 */
static u32 orders(const struct history *h, unsigned int slot, u32 left, u32 value, u32 last)
{
	u32 found = 0, i, k;

	if (!left)
		return value == last;
	for (i = 0; i < h->n[slot]; i++) {
		const struct event *e = &h->event[slot][i];
		bool first = left >> i & 1;

		/* Nothing that is left was over before it began. */
		for (k = 0; first && k < h->n[slot]; k++)
			if (left >> k & 1 && h->event[slot][k].to < e->from)
				first = false;
		if (!first)
			continue;
		if (e->kind == EV_WRITE)
			found |= orders(h, slot, left & ~(1u << i),
					e->did ? e->value : value, last);
		else if (e->kind == EV_FREE)
			found |= orders(h, slot, left & ~(1u << i), 0, last) << (value != 0);
		else if (!e->did || e->value == value)
			found |= orders(h, slot, left & ~(1u << i), value, last);
	}
	return found;
}

u64 history_hash(const struct history *h)
{
	u64 hash = 0;
	u32 slot, i, e;

	for (slot = 0; slot < HISTORY_SLOTS; slot++) {
		/* Values are different, so a sum tells them apart whatever order they began in. */
		for (e = 0, i = 0; i < h->n[slot]; i++)
			e += h->event[slot][i].did ? 1u << (h->event[slot][i].value % 31) : 0;
		hash = (hash ^ e) * 0x9e3779b97f4a7c15u + slot;
	}
	return hash;
}

const char *history_check(const struct history *h, const u32 *last, u64 freed)
{
	u64 sums = 1, next;
	unsigned int i, k;

	for (i = 0; i < HISTORY_SLOTS; i++) {
		u32 found = orders(h, i, (1u << h->n[i]) - 1, h->had[i], last[i]);

		if (!found)
			return "no order of the operations explains what they said";
		for (next = 0, k = 0; k < 32; k++)
			if (found >> k & 1)
				next |= sums << k;
		sums = next;
	}
	if (freed > 63 || !(sums >> freed & 1))
		return "slots freed, as counted, are not those that were freed";
	return NULL;
}
