/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cell_word.h - what cell.c and migrate.c share: nobody else includes it.
 */
#ifndef EBB_CORE_CELL_WORD_H
#define EBB_CORE_CELL_WORD_H

#include "cell.h"
#include "pool_parts.h"

/*
 * In a word without an object: the cell's object was freed while it had readers, and slot_ref()
 * names it.  Links of free cells do not have it.
 */
#define CELL_FREED SLOT_OLD

/*
 * In a word with an object: compaction has claimed it, and nobody has held it since.  Each hold
 * takes this away in the step in which it holds.
 */
#define CELL_CLAIMED SLOT_IDLE

/* The cell of a number, which may be anything; NULL: there is none.  Any context. */
static inline host_a64 *cells_at(const struct cells *s, u32 key)
{
	u32 nr = key >> CELL_BITS, place = key & ((1u << CELL_BITS) - 1);
	host_a64 *chunk;

	if (nr >= s->limit || place < CELL_FIRST)
		return NULL;
	chunk = (host_a64 *)host_a64_read_address(host_table_at(&s->chunks, nr));
	return chunk ? chunk + place : NULL;
}

/* Puts a cell whose word is 0 among the free ones of the CPU whose item is held. */
void cells_put_cell(struct cells *s, struct cells_cpu *cpu, host_a64 *cell);

/*
 * Lets go of an object that is accounted for, under the item.  True: it is left to pool_free(),
 * after that.
 */
bool cells_let_go(struct cells *s, struct cells_cpu *cpu, u64 ref, struct release_todo *todo);

/*
 * Disposes of an object that was freed while it had readers, of whom the caller was the last, and
 * of its cell.  Any context.
 */
void cells_dispose(struct cells *s, host_a64 *cell, u64 ref);

#endif
