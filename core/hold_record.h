/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * hold_record.h - the records of readers (hold.h), for hold.c and migrate.c alone.
 */
#ifndef EBB_CORE_HOLD_RECORD_H
#define EBB_CORE_HOLD_RECORD_H

#include "hold.h"

static inline u32 *bucket_of(struct holds *h, u64 ref)
{
	return &h->bucket[ref * 0x9e3779b97f4a7c15u >> 32 & h->mask];
}

/* The place that leads to ref's record; what is there is 0 if there is none. */
static inline u32 *find(struct holds *h, u64 ref) HOST_REQUIRES(h->lock)
{
	u32 *at = bucket_of(h, ref);

	while (*at && h->record[*at - 1].ref != ref)
		at = &h->record[*at - 1].next;
	return at;
}

static inline s64 recorded(struct holds *h, u64 ref) HOST_REQUIRES(h->lock)
{
	u32 *at = find(h, ref);

	return *at ? h->record[*at - 1].n : 0;
}

/* Adds to what ref's record says.  True: ref is an orphan that nobody holds. */
static inline bool record(struct holds *h, u64 ref, s64 by, bool orphan) HOST_REQUIRES(h->lock)
{
	u32 *at = find(h, ref), i = *at;
	struct hold_record *r;
	bool last;

	if (!i) {
		/* Most objects that are swapped under BUSY have no readers after all. */
		if (!by)
			return orphan;
		i = h->unused;
		if (host_warn_on(!i, "more holds than records"))
			return false;
		r = &h->record[i - 1];
		h->unused = r->next;
		*r = (struct hold_record){ .ref = ref };
		*at = i;
	}
	r = &h->record[i - 1];
	r->n += by;
	r->orphan |= orphan;
	if (r->n)
		return false;
	last = r->orphan;
	*at = r->next;
	r->next = h->unused;
	h->unused = i;
	return last;
}

#endif
