/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * scenarios.h - the table of test_interleave.c (included by it alone).
 *
 * Two HALF objects fill a zspage, three THIRD ones do.  Actors 0 and 2 begin on CPU 0, actor 1
 * and the worker on CPU 1.  Without a release_limit a free is done when it returns.
 */

/* ---- a slot ---- */
{
	.name = "free against read",
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { FREE(0) }, { GET(0), GET(1) }, { GET(0) } },
},
{
	.name = "free against overwrite",
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { FREE(0) }, { PUT(0, THIRD) }, { GET(0) } },
},
{
	.name = "two frees of a slot, and a reader",
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { FREE(0) }, { FREE(0) }, { GET(0) } },
},
{
	.name = "swap-in, slot free, write again",
	.pages_in = true, .release_limit = PLENTY,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { READ(0), FREE(0), WRITE(0, THIRD) }, { READ(0) } },
},
{
	.name = "pages of every kind over each other",
	.pages_in = true,
	.before = { WRITE(0, HALF) },
	.act = { { FILL(0), WRITE(0, RAW) }, { FILL_OBJ(0) }, { READ(0) } },
},
{
	.name = "an eighth reader waits",
	.before = { PUT(0, HALF), HOLD(0), HOLD(0), HOLD(0), HOLD(0), HOLD(0), HOLD(0), HOLD(0) },
	.act = { { GET(0) }, { DROP(0), DROP(0) }, { COMPACT } },
},
{
	.name = "a write waits for a reader, a free does not",
	.before = { PUT(0, HALF), HOLD(0) },
	.act = { { PUT(0, THIRD) }, { GET(0), DROP(0) }, { GET(0) } },
},

/* ---- a zspage ---- */
{
	.name = "frees of neighbours",
	.before = { PUT(0, THIRD), PUT(1, THIRD), PUT(2, THIRD) },
	.act = { { FREE(0) }, { FREE(1) }, { FREE(2) } },
},
{
	.name = "frees of neighbours, many to a zspage",
	.slots = MANY + 4, .put_small = MANY, .keep_small = 3,
	.act = { { FREE(0) }, { FREE(1) }, { FREE(2), PUT(3, SMALL) } },
},
{
	.name = "frees of neighbours in a full zspage of many",
	.slots = MANY + 4, .put_small = MANY, .keep_small = MANY,
	.act = { { FREE(0), PUT(4, SMALL) }, { FREE(1) }, { PUT(2, SMALL) } },
},
{
	.name = "last free against allocation",
	.before = { PUT(0, HALF) },
	.act = { { FREE(0) }, { PUT(1, HALF), GET(1) }, { PUT(2, HALF) } },
},
{
	.name = "last free against allocation, many to a zspage",
	.slots = MANY + 4, .put_small = MANY, .keep_small = 1,
	.act = { { FREE(0) }, { PUT(1, SMALL) }, { PUT(2, SMALL) } },
},

/* ---- compaction ---- */
{
	.name = "free against compaction",
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), PUT(3, HALF), FREE(1), FREE(3) },
	.act = { { COMPACT }, { FREE(0) }, { FREE(2) } },
},
{
	.name = "read and overwrite against compaction",
	.before = { PUT(0, SPAN), PUT(1, SPAN), PUT(2, SPAN), PUT(3, SPAN), FREE(1) },
	.act = { { COMPACT }, { GET(3) }, { PUT(3, SPAN) } },
},
{
	.name = "read against compaction and who takes the place",
	.slots = 5,
	.before = { PUT(0, SPAN), PUT(1, SPAN), PUT(2, SPAN), PUT(3, SPAN), FREE(1) },
	.act = { { COMPACT }, { GET(3) }, { PUT(4, SPAN) } },
},
{
	.name = "allocation against compaction",
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), PUT(3, HALF), FREE(1), FREE(3) },
	.act = { { COMPACT }, { PUT(1, HALF) }, { FREE(2) } },
},

/* ---- the release stage ---- */
{
	.name = "detach against drain",
	.release_limit = PLENTY,
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF) },
	.act = { { FREE(0) }, { FREE(1), FREE(2) } },
},
{
	.name = "detach against drain against reset",
	.release_limit = PLENTY,
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { RESET }, { FREE(0), FREE(1) } },
},
{
	.name = "flush against push",
	.release_limit = PLENTY,
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { FREE(0) }, { FLUSH }, { FREE(1) } },
},
{
	.name = "a CPU that goes away against push",
	.release_limit = PLENTY, .move = true,
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { FREE(0) }, { FREE(1) }, { OFFLINE(1) } },
},
{
	.name = "full buffers against drain",
	.release_limit = HOST_PAGE_SIZE * 2, .spare = 2,
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { FREE(0) }, { FREE(1) }, { FLUSH } },
},
{
	.name = "a full buffer against the collection of another",
	.release_limit = HOST_PAGE_SIZE * 2, .spare = 2,
	.before = { PUT(0, THIRD), PUT(1, HALF) },
	.act = { { FREE(0) }, { FREE(1) }, { FLUSH } },
},
{
	.name = "buffers that run out",
	.release_limit = HOST_PAGE_SIZE * 2, .spare = 1,
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF) },
	.act = { { FREE(0), FREE(2) }, { FREE(1) } },
},
{
	.name = "a budget that is spent",
	.release_limit = HOST_PAGE_SIZE / 2, .spare = 3,
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF) },
	.act = { { FREE(0), FREE(2) }, { FREE(1) } },
},
{
	.name = "a budget too small for a buffer",
	.release_limit = HOST_PAGE_SIZE / 2,
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), PUT(3, HALF) },
	.act = { { FREE(0), FREE(2) }, { FREE(1) } },
},
{
	.name = "a budget that shrinks",
	.release_limit = PLENTY, .spare = 2,
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { FREE(0) }, { LIMIT(0) }, { FREE(1) } },
},

/* ---- memory ---- */
{
	.name = "mem_limit against what is held back",
	.release_limit = PLENTY, .limit_pages = 1,
	.before = { PUT(0, RAW) },
	.act = { { FREE(0), MUST_PUT(1, RAW) }, { FLUSH } },
},
{
	.name = "a source that may be dry",
	.release_limit = PLENTY, .may_be_dry = true,
	.before = { PUT(0, RAW), PUT(1, HALF) },
	.act = { { FREE(0), PUT(2, RAW) }, { PUT(3, RAW) } },
},
{
	.name = "page lists against their drain and decay",
	.before = { PUT(0, RAW), PUT(1, RAW) },
	.act = { { FREE(0), PUT(2, RAW) }, { FREE(1) }, { PCP_DRAIN, DECAY } },
},
{
	.name = "the shrinker against everything",
	.release_limit = PLENTY,
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), FREE(1) },
	.act = { { COMPACT, PCP_DRAIN }, { FREE(0), PUT(3, HALF) } },
},
{
	.name = "statistics against coming and going",
	.before = { PUT(0, HALF) },
	.act = { { STATS }, { FREE(0), PUT(1, HALF) } },
},
