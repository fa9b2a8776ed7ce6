// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cell_check.c - every invariant of cells as a function; see check.h. */
#include "cell_word.h"
#include "check_parts.h"

struct cells_walk {
	struct cells *s;
	struct check_walk w;
	u64 room, live, free;
};

static void check_cell(struct cells_walk *cw, u32 key)
{
	u64 word = host_a64_read(cells_at(cw->s, key)), ref = slot_ref(word);
	u32 of;

	if (!slot_has_object(word)) {
		if (word & ~(u64)0xffffffff)
			cw->w.bad = "a free cell says more than which is the next one";
		cw->free++;
		return;
	}
	if (word & (SLOT_MARKS | (SLOT_ABOUT & ~CELL_CLAIMED)) || slot_type(word) != SLOT_BLOB) {
		cw->w.bad = "a cell is held by nobody, or of no type";
		return;
	}
	cw->w.bad = check_ref(cw->w.pool, ref, &of);
	if (!cw->w.bad && of != key)
		cw->w.bad = "an object has another cell's number";
	cw->live++;
	cw->w.objects++;
	cw->room += pool_ref_room(cw->w.pool, ref);
}

/* Free cells are on the list of all, a CPU's, or not cut yet. */
static const char *check_free(struct cells *s, u64 want)
{
	u64 n = (u64)(s->cut_end - s->cut), of = 0;
	unsigned int i, k;
	u32 key;

	for (key = s->list; key && n <= want; n++, of++) {
		u64 word = host_a64_read(cells_at(s, key));

		if (slot_has_object(word))
			return "a cell in use is on the list of free ones";
		key = (u32)slot_ref(word);
		if (of % STORE_PIECE == 0)
			host_resched();
	}
	for (i = 0; i < host_percpu_items(&s->cpus); i++) {
		struct cells_cpu *cpu = host_percpu_peek(&s->cpus, i);

		for (k = 0; k < cpu->n; k++)
			if (host_a64_read(cpu->free[k]))
				return "a CPU's free cell is in use";
		n += cpu->n;
	}
	return n == want ? NULL : "free cells are not all on lists, or twice";
}

const char *cells_check(struct cells *s)
{
	struct cells_walk cw = { .s = s, .w.pool = &s->pool };
	struct pool_walk pw = { 0 };
	const char *bad = check_zspages(&s->pool, &pw);
	u32 nr, i;

	if (bad)
		return bad;
	for (nr = 0; nr < s->chunks_cut && !cw.w.bad; nr++) {
		for (i = CELL_FIRST; i >> CELL_BITS == 0 && !cw.w.bad; i++)
			check_cell(&cw, nr << CELL_BITS | i);
		host_resched();
	}
	if (!cw.w.bad)
		check_release(&cw.w, &s->release);
	if (cw.w.bad)
		return cw.w.bad;
	if (holds_any(&s->holds) || host_a64_read(&s->moves))
		return "an object is held, or a page moved, by nobody";
	if (cw.w.objects != pw.used)
		return "objects in use != references in cells and buffers";
	if (cw.live != cells_objects(s) || cw.room != cells_room(s))
		return "a counter does not match the cells";
	return check_free(s, cw.free);
}
