/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * migrate.h - pages of zspages that move: another page takes the place of one, with its content.
 *
 *     page --tag--> zspage --pin--> off its class's lists, and not reaped --move--> another page
 *                                                                          unpin    in its place
 *
 * A pin is one more bit in the state of a zspage.  It takes the zspage off its list, so nothing is
 * allocated in it and compaction does not come to it.  Its objects can be read, written and freed
 * as ever: with the bit a state is neither full nor empty, so frees take no lock and reap nothing.
 * The last unpin files the zspage, or reaps it if it is empty by then.
 *
 *     of the page          pin                     its objects while the page moves
 *     partial, full        yes                     frozen, each in its cell
 *     being compacted      yes: compaction, which keeps what it is at under the class lock, goes
 *                          on with the next zspage
 *     being freed          -EAGAIN: short
 *     taken off its zspage -EAGAIN: it is in a page list (pcp_remove()), or on its way there
 *     object deferred, or detached and in somebody's hands
 *                                                  nothing: nobody reads or writes its bytes
 *
 * To freeze an object is to take all seven readers' places in its cell, from none.  Who comes
 * meanwhile, to read or to write, is the eighth: he goes to the records (hold.h) and uses the old
 * page, and the move ends with -EBUSY, even if he has gone by then, since he may have written.  A
 * free finds seven readers, so the object is the mover's to free (cell.h, "freed while it is
 * read").
 *
 * Lock order: class lock > descriptor group's lock (pin);  class lock;  the holds' lock.
 */
#ifndef EBB_CORE_MIGRATE_H
#define EBB_CORE_MIGRATE_H

#include "cell.h"

/*
 * Pins the zspage of a page that has tag, or had it.  There may be many pins, of pages of one
 * zspage or of one page.  Nothing waits for a pin to end, so it may last.  -EAGAIN: the page is of
 * no zspage any more, or its zspage is just being freed.  Any context.
 */
int cells_pin(struct cells *s, host_page page, u64 tag);

/* Ends one pin.  Any context. */
void cells_unpin(struct cells *s, u64 tag);

/*
 * Moves the content of page from, whose zspage the caller has pinned, to page to, and puts that in
 * its place.  to is then tagged, counts as taken of cfg.movable in from's stead, and from, with its
 * content as it was, is the caller's.  -EBUSY: an object is being read or written; -EAGAIN: from is
 * not of the zspage any more, another page of it moves, or CELLS_MOVES others do.  Then nothing has
 * changed, but that to may be tagged.  Does not sleep; copies a page.  Any context.
 */
int cells_move(struct cells *s, u64 tag, host_page from, host_page to);

#endif
