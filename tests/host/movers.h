/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * movers.h - the table of test_movers.c (included by it alone).
 *
 * Two HALF objects fill a zspage of one page, and SPAN ones lie across the borders of pages.
 * Actors 0 and 2 begin on CPU 0, actor 1 on CPU 1.  Without a release_limit a free is done when it
 * returns.
 */

/* ---- cells ---- */
{
	.name = "a free against a free and the reuse of its number",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { FREE(0), MAKE(2, HALF) }, { FREE(1), MAKE(3, HALF) }, { COMPACT } },
},
{
	.name = "a number that comes back while compaction looks at it",
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF), FREE(1), FREE(3) },
	.act = { { COMPACT }, { FREE(0), MAKE(4, HALF), READ(4) }, { READ(2) } },
},
{
	.name = "a number of another size that comes back, held back objects about",
	.most = 1,
	.release_limit = PLENTY, .asleep = 1,
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), FREE(1) },
	.act = { { FREE(0), MAKE(3, THIRD) }, { FLUSH, COMPACT }, { READ(2) } },
},
{
	.name = "a page is counted before anybody else's object is on it",
	.act = { { MAKE(0, HALF) }, { MAKE(1, HALF), COUNT(1) } },
},
{
	.name = "frees in bulk against frees and a read",
	.release_limit = PLENTY, .asleep = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF) },
	.act = { { BULK(0) }, { FREE(2) }, { READ(3) } },
},
{
	.name = "an object that is freed while it is read",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), HOLD(0) },
	.act = { { FREE(0), MAKE(2, HALF) }, { DROP(0) }, { COMPACT } },
},
{
	.name = "an object that is freed while it is read, and held back",
	.most = 2,
	.release_limit = PLENTY, .asleep = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), HOLD(0), HOLD(0) },
	.act = { { FREE(0), MAKE(2, THIRD) }, { DROP(0) }, { DROP(0), FLUSH } },
},
{
	.name = "an object that is freed under an eighth reader",
	.before = { MAKE(0, HALF), SEVEN_HOLDS(0), HOLD(0) },
	.act = { { FREE(0), MAKE(2, HALF) }, { DROP(0), DROP(0) }, { DROP(0) } },
},
{
	.name = "cells that come from the newest chunk and go to the list of all",
	.dear = true,
	.most = 2,
	.asleep = 1, .used_up = CELLS_MAG + 2, .sparse = true,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { FREE(0), FREE(1) }, { MAKE(2, SMALL), MAKE(3, SMALL) }, { MAKE(4, SMALL) } },
},
{
	.name = "a chunk that is made while others ask for cells",
	.most = 2,
	.used_up = 4, .sparse = true, .few = true, .bare = true,
	.before = { MAKE(7, SMALL) },
	.act = { { MAKE(0, SMALL), MAKE(2, SMALL) }, { MAKE(1, SMALL) } },
},
{
	.name = "the first cells of all",
	.most = 1,
	.sparse = true, .bare = true,
	.act = { { MAKE(0, HALF) }, { MAKE(1, HALF) } },
},
{
	.name = "a chunk that is made without memory",
	.most = 2,
	.used_up = 4, .sparse = true, .few = true, .bare = true, .may_be_dry = true,
	.before = { MAKE(7, SMALL) },
	.act = { { MAKE(0, SMALL) }, { MAKE(1, SMALL) } },
},
{
	.name = "the last cells",
	.dear = true,
	.most = 2,
	.used_up = 2, .few = true, .one_chunk = true,
	.before = { MAKE(0, HALF) },
	.act = { { MAKE(1, SMALL) }, { MAKE(2, SMALL) }, { FREE(0) } },
},

{
	.name = "compaction against a write",
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF), FREE(1), FREE(3) },
	.act = { { COMPACT }, { WRITE(0), READ(0) }, { WRITE(2) } },
},
{
	.name = "compaction against what is made, and written",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), FREE(1) },
	.act = { { COMPACT, COMPACT }, { MAKE(4, HALF), READ(4), WRITE(4) }, { FREE(0) } },
},
{
	.name = "compaction against a write, an eighth reader, and a move",
	.most = 2, .dear = true,
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF), FREE(1), FREE(3) },
	.act = { { COMPACT }, { WRITE(0), WRITE(2) }, { MOVE(0) } },
},

/* ---- pages that move ---- */
{
	.name = "a move against a free and a read",
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0) }, { FREE(0) }, { READ(1) } },
},
{
	.name = "a move against reads",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0) }, { READ(0), READ(1) }, { READ(1) } },
},
{
	.name = "a move against a write",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0) }, { WRITE(0), READ(0) }, { FREE(1) } },
},
{
	.name = "a move against who sleeps while he reads",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0), MOVE(0) }, { HOLD(0), READ(1), DROP(0) }, { READ(0) } },
},
{
	.name = "a move against readers who free what they read",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0) }, { READ(0), FREE(0), MAKE(2, HALF) }, { READ(1), FREE(1) } },
},
{
	.name = "a move against a free under a reader who came while it was frozen",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0) }, { HOLD(0), FREE(0), DROP(0), MAKE(2, HALF) }, { READ(1) } },
},
{
	.name = "a move under seven readers, and more that come",
	.before = { MAKE(0, HALF), MAKE(1, HALF), SEVEN_HOLDS(0) },
	.act = { { MOVE(0) }, { READ(0), DROP(0) }, { DROP(0), DROP(0) } },
},
{
	.name = "a move against the last frees",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0) }, { FREE(0) }, { FREE(1) } },
},
{
	.name = "a move against the last frees, many to a zspage",
	.most = 1,
	.before = { MAKE(0, TINY), MAKE(1, TINY), MAKE(2, TINY) },
	.act = { { MOVE(0) }, { FREE(0), FREE(1) }, { FREE(2) } },
},
{
	.name = "a move of a page that is one object",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, RAW) },
	.act = { { MOVE(0) }, { READ(0), FREE(0) }, { MAKE(1, RAW) } },
},
{
	.name = "a move of an object across the border of pages",
	.before = { MAKE(0, SPAN), MAKE(1, SPAN), MAKE(2, SPAN) },
	.act = { { MOVE(1) }, { READ(1), FREE(1) }, { READ(0), READ(2) } },
},
{
	.name = "moves of two pages of a zspage",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, SPAN), MAKE(1, SPAN), MAKE(2, SPAN) },
	.act = { { MOVE(0) }, { MOVE(1) }, { READ(1), FREE(1) } },
},
{
	.name = "two moves of a page",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0) }, { MOVE(0) }, { READ(0), FREE(1) } },
},
{
	.name = "more moves than there may be",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, RAW), MAKE(1, RAW), MAKE(2, RAW) },
	.act = { { MOVE(0) }, { MOVE(1) }, { MOVE(2) } },
},
{
	.name = "a move against an allocation in the zspage",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), FREE(1) },
	.act = { { MOVE(0) }, { MAKE(2, HALF), READ(2) }, { MAKE(3, HALF), FREE(3) } },
},
{
	.name = "a move against an allocation that makes a zspage",
	.most = 1,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MAKE(2, SPAN), MAKE(3, SPAN) }, { MOVE_NEWEST, MOVE_NEWEST }, { MOVE_NEWEST } },
},
{
	.name = "a move against compaction",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF), FREE(1), FREE(3) },
	.act = { { MOVE(0) }, { COMPACT }, { READ(0), READ(2) } },
},
{
	.name = "a move against compaction and a free",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF), FREE(1), FREE(3) },
	.act = { { MOVE(2), READ(2) }, { COMPACT }, { FREE(0) } },
},
{
	.name = "a move against compaction within a zspage",
	.dear = true,
	.most = 2,
	.before = { MAKE(0, SPAN), MAKE(1, SPAN), MAKE(2, SPAN), FREE(0) },
	.act = { { MOVE(2) }, { COMPACT }, { READ(1), READ(2) } },
},
{
	.name = "a move of what is held back",
	.dear = true,
	.most = 2,
	.release_limit = PLENTY, .asleep = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), FREE(0) },
	.act = { { MOVE(1) }, { FLUSH }, { READ(1), FREE(1) } },
},
{
	.name = "a move of what is all held back, against its drain",
	.dear = true,
	.most = 2,
	.release_limit = PLENTY, .asleep = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), FREE(0), FREE(1) },
	.act = { { MOVE(1) }, { HELP }, { MAKE(2, HALF) } },
},
{
	.name = "a move of what is held back, whose number is another's",
	.dear = true,
	.most = 2,
	.release_limit = PLENTY, .asleep = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(1) }, { FREE(0), MAKE(2, THIRD), READ(2) }, { FLUSH } },
},
{
	.name = "a pin that lasts",
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { PIN(0), UNPIN(0) }, { FREE(0), MAKE(2, HALF) }, { FREE(1) } },
},
{
	.name = "pins of two pages",
	.before = { MAKE(0, SPAN), MAKE(1, SPAN), MAKE(2, SPAN) },
	.act = { { PIN(0), UNPIN(0) }, { PIN(2), UNPIN(2) }, { FREE(0), FREE(1), FREE(2) } },
},
{
	.name = "a pin that lasts, of a partial zspage, and compaction",
	.before = { MAKE(0, HALF), MAKE(1, HALF), MAKE(2, HALF), MAKE(3, HALF), FREE(1), FREE(3) },
	.act = { { PIN(0), UNPIN(0) }, { COMPACT }, { FREE(0) } },
},
{
	.name = "a page that waits in a list, against its use and a drain",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF), FREE(0), FREE(1) },
	.act = { { TAKE(0), MOVE(0) }, { MAKE(2, HALF) }, { DRAIN } },
},
{
	.name = "a page that goes into a list while somebody wants it",
	.most = 2,
	.before = { MAKE(0, HALF), MAKE(1, HALF) },
	.act = { { MOVE(0), TAKE(0) }, { FREE(0), FREE(1) }, { DECAY } },
},
