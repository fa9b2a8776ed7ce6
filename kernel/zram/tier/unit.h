/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * unit.h - units: neighbouring pages that are compressed together.
 *
 *     slot i     -> unit word: instance, tag         of each of its pages, at first
 *     instance   -> unit number, tag, readers, live  a word; live: slots that name it
 *     piece k    -> object                           words beside it
 *
 * A write of a whole unit makes a new instance: first its pieces, which are objects of the store,
 * then its word, in which all pages are live.  Then it puts the slots' words, one by one, by an
 * exchange each, as any write does.  Who takes a unit word out of a slot takes one off the live
 * pages of the instance that this word names.  So an instance is there as long as a slot names it,
 * and a reader or an overwriter finds the old page or the new one, and waits for nobody.
 *
 * A reader holds the instance, which it can as long as a page is live, and then looks whether the
 * slot still says the same: an instance that is held is not used again.  The thread that takes off
 * the last live page or the last reader, whichever goes last, ends the instance: it releases the
 * pieces like any object, and has the instance used again, under the next tag.
 *
 * The pages that a reader unpacked stay in its stream: the next read of one of them is a copy.  The
 * stream knows them by instance and tag.  A tag comes again after UNIT_TAGS units were made, so a
 * reader uses no pages that were unpacked longer ago.
 *
 * The words of instances and pieces follow those of the slots in the store's table: an instance has
 * as many as a unit has pages, the first for itself.  The word of a dead instance names the next
 * one that is unused.  Each CPU gives dead ones back in batches.
 *
 * Pages that died in a unit that lives are waste.  Each slot's word says how much one takes, so
 * waste is counted as pages die.  units_tidy() takes such units apart.
 *
 * A unit's codec stands in its slots' words, as a page's does.
 *
 * Lock order: tidying > stream > a hold of a piece > the per-CPU item > units.lock, a leaf.  Who
 * makes a unit's pages anew has a hold on the instance meanwhile, for which nobody waits.
 */
#ifndef EBB_ZRAM_UNIT_H
#define EBB_ZRAM_UNIT_H

#include "store/store.h"
#include "store/store_word.h"

#define UNIT_PAGES_MOST 16u
#define UNIT_TIDY_LOOKS 4096u   /* instances that a units_tidy() looks at, */
#define UNIT_TIDY_PAGES 64u     /* pages that it compresses, and some more of the last unit */
/* Bytes: what a page of a unit takes is told in so many. */
#define UNIT_SHARE_BITS (PAGE_SHIFT - 6)
#define UNIT_SHARE ((u64)1 << UNIT_SHARE_BITS)
#define UNIT_STAYS 4            /* inside of unit.c: it is not taken apart */

/*
 * Orderings (docs/internals/locking.md).
 *
 * instance word.  Writes: who makes the unit, release; who lets a slot's page go, full add, after
 *     the slot's exchange; reader, CAS and full add; who has a dead one, write_once.  Reads: all.
 *     Order: release: pieces before the word, and the word before the slots' exchange; full: reads
 *     of pieces before the drop, the drop before the pieces go.  Without it: a unit without
 *     pieces; bytes that are written again under a reader.  Model: unit_write, unit_reader.
 * units.made.  Writes: full add, before the slots' exchange.  Reads: relaxed, after the slot, with
 *     acquire.  Order: who sees a slot's word sees that its unit was counted.  Without it: pages
 *     of another unit with the same tag.
 */
struct units {
	unsigned int pages;             /* of a unit, a power of two; fixed */
	unsigned int shift;
	u64 first;                      /* the first word of instance 0; fixed */
	u32 most;                       /* instances; fixed */
	u32 batch;                      /* dead ones that a CPU gives back at a time; fixed */
	spinlock_t lock;
	u32 fresh;                      /* instances that were ever used; lock, READ_ONCE */
	u32 unused;                     /* the first dead one, + 1; 0: there is none; lock */
	host_a64 made;                  /* units, ever */
	/* units_tidy()'s; tidying. */
	struct mutex tidying;
	void *page;
	u32 at;                         /* the instance to be looked at next, */
	u32 left;                       /* and how many there still are in this walk */
	unsigned int live;              /* units with no more live pages are taken apart */
	/* Bytes wasted by units that stay as they are: of the last round, of this one. */
	u64 spared;                     /* WRITE_ONCE(0) without it: they are to be tried again */
	u64 sparing;
};

struct unit_stats {
	u64 units, pages;               /* units, and the slots that name one */
	u64 dead;                       /* pages of units that no slot names */
	u64 room;                       /* bytes of pages that the pieces take */
};

/*
 * Gives a store that nobody uses yet, and whose configuration said so, units of 2 to
 * UNIT_PAGES_MOST pages, a power of two.  u outlives the store; units_destroy() ends it after
 * store_destroy().  Process context.  -ENOMEM.
 */
int store_set_units(struct store *s, struct units *u, unsigned int pages);
void units_destroy(struct units *u);

/* Gives the bytes of a unit to unit_make().  It may not sleep. */
typedef void unit_gather(void *arg, void *to);

/*
 * Makes a unit of the pages for slots i and up, i a multiple of units.pages, and the word that is
 * to be put in each of these slots by unit_put(); none may be left out.  gather has the bytes,
 * which are copied before they are compressed: who changes a page meanwhile spoils no other.
 * node, how: as store_try_now().  Process context.  An error, and nothing has changed: -EAGAIN: the
 * pages are better off alone; or as store_try_now().
 */
int unit_make(struct store *s, u64 i, unit_gather *gather, void *arg, unsigned int node,
	      unsigned int how, u64 *word);

/* Whether the codec of a priority takes units: with a dictionary it does not. */
static inline bool unit_fits(const struct store *s, unsigned int priority)
{
	return codec_bytes(&s->streams[priority]->params) > PAGE_SIZE;
}

/* Puts a word of unit_make() in slot i, whatever is there.  Any context. */
void unit_put(struct store *s, u64 i, u64 word);

/*
 * Copies the page of slot i < slots, which is of a unit, to page.  That is no read: the slot stays
 * idle or chosen.  *word: what the slot had.  Process context.  STORE_AGAIN: it is of no unit by
 * now, or of one by another codec; -EIO: it does not decompress, and page is zeros.
 */
int unit_copy(struct store *s, u64 i, void *page, u64 *word);

/*
 * Reads slots i and up, i a multiple of units.pages, to where so many pages are in a row, if all
 * are of one unit.  Others may write there meanwhile: a codec's bounds are in what it reads.
 * False: they are to be read one by one, and to is as it was, or zeros.  Process context.
 */
bool unit_read_whole(struct store *s, u64 i, void *to);

/* The bytes of a page's object, or about those of its part of a unit.  Any context. */
size_t unit_page_bytes(const struct store *s, u64 word);

/* The page of a slot that had word is no longer in its unit.  The item is held. */
void unit_drop(struct store *s, struct store_cpu *cpu, u64 word, struct release_todo *todo);

/*
 * Does nothing unless dead pages of units waste over an eighth of what the store has.  Then it
 * takes units apart, in up to three walks over all of them: those of whose pages a quarter at most
 * is live, then a half at most, then all that miss a page.  A unit whose pages would take more
 * alone stays, and so does one with a page that is chosen for writeback.  mem_limit is not looked
 * at, since the unit ends when its pages have their own room.  Memory is not waited for, since
 * works wait for who tidies.  1: there may be more to do; 0: that was all; -ENOMEM and the like:
 * try again later.  Process context.
 */
int units_tidy(struct store *s);

/*
 * Makes a unit anew by the codec of a priority, whose streams have room for one.  word: what slot
 * i, one of its pages, had; pages: room for a unit.  The new unit is kept if its pieces take less
 * room, and a page fewer bytes than below, unless that is 0.  Pages that died are zeros in it, and
 * those that come to their slots meanwhile stay in the old one.  If it is not kept the slots are
 * marked with kept, 0 or SLOT_INCOMPRESSIBLE, and not idle any more.  mem_limit is not looked at.
 * 1: it is smaller; 0: it is not, or was written meanwhile; -EIO: a codec failed; -ENOMEM, which is
 * not waited for; -ENOSPC.  Process context.
 */
int unit_recompress(struct store *s, u64 i, u64 word, unsigned int priority, size_t below,
		    u64 kept, void *pages);

/* Sums over items.  Any context. */
void units_stats(struct store *s, struct unit_stats *st);

#endif
