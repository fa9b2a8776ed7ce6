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
	.name = "an eighth reader against others that leave",
	.before = { PUT(0, HALF), SEVEN_HOLDS(0) },
	.act = { { GET(0) }, { DROP(0), DROP(0) }, { COMPACT } },
},
{
	.name = "an eighth and a ninth reader",
	.before = { PUT(0, HALF), SEVEN_HOLDS(0) },
	.act = { { GET(0) }, { HOLD(0), DROP(0), DROP(0) }, { DROP(0) } },
},
{
	.name = "an eighth reader against a write",
	.before = { PUT(0, HALF), SEVEN_HOLDS(0) },
	.act = { { GET(0) }, { PUT(0, THIRD) }, { DROP(0), DROP(0) } },
},
{
	.name = "an eighth reader against two writes",
	.before = { PUT(0, HALF), SEVEN_HOLDS(0) },
	.act = { { HOLD(0), DROP(0) }, { PUT(0, THIRD) }, { FREE(0) } },
},
{
	.name = "more readers than a word can count, and a write",
	.before = { PUT(0, HALF), SEVEN_HOLDS(0), HOLD(0) },
	.act = { { PUT(0, THIRD), GET(0) }, { DROP(0), DROP(0) }, { DROP(0) } },
},
{
	.name = "neither a write nor a free waits for a reader",
	.before = { PUT(0, HALF), HOLD(0) },
	.act = { { PUT(0, THIRD) }, { GET(0), DROP(0) }, { FREE(0) } },
},
{
	.name = "the last reader of an orphan against another write",
	.before = { PUT(0, HALF), HOLD(0), HOLD(0) },
	.act = { { PUT(0, THIRD), FREE(0) }, { DROP(0) }, { DROP(0), GET(0) } },
},
{
	.name = "readers in each other's way",
	.before = { PUT(0, HALF) },
	.act = { { HOLD(0), DROP(0) }, { HOLD(0), DROP(0) }, { HOLD(0), DROP(0) } },
},
{
	.name = "readers in each other's way, and a write",
	.before = { PUT(0, HALF), HOLD(0) },
	.act = { { HOLD(0), DROP(0) }, { DROP(0) }, { PUT(0, THIRD) } },
},
{
	.name = "readers in each other's way, and a page of one word",
	.pages_in = true,
	.before = { WRITE(0, HALF), HOLD(0) },
	.act = { { HOLD(0), DROP(0) }, { DROP(0) }, { FILL(0), FILL_OBJ(0) } },
},
{
	.name = "an orphan against what is held back",
	.asleep = 1,
	.release_limit = PLENTY,
	.before = { PUT(0, HALF), HOLD(0) },
	.act = { { PUT(0, THIRD) }, { DROP(0) }, { FLUSH } },
},
{
	.name = "a reader against a write against compaction",
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), PUT(3, HALF), FREE(1), FREE(3) },
	.act = { { COMPACT }, { HOLD(0), DROP(0) }, { PUT(0, HALF) } },
},

/* ---- recompression, and marks ---- */
{
	.name = "recompression against free and read",
	.recompress = true,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { RECOMPRESS(0) }, { FREE(0) }, { READ(0) } },
},
{
	.name = "recompression against a write and read",
	.recompress = true,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { RECOMPRESS(0), READ(0) }, { WRITE(0, HALF) }, { READ(0) } },
},
{
	.name = "recompression of what was recompressed and written again",
	.most = 2,
	.recompress = true,
	.before = { WRITE(0, HALF), RECOMPRESS(0) },
	.act = { { WRITE(0, HALF), RECOMPRESS(0) }, { READ(0) }, { FREE(0) } },
},
{
	.name = "recompression of a raw page and of one word",
	.most = 2,
	.recompress = true,
	.before = { WRITE(0, RAW), WRITE(1, HALF) },
	.act = { { RECOMPRESS(0), RECOMPRESS(1) }, { FILL(0), FILL_OBJ(1) }, { READ(0) } },
},
{
	.name = "recompression under a reader that leaves",
	.recompress = true,
	.before = { WRITE(0, HALF), HOLD(0) },
	.act = { { RECOMPRESS(0) }, { DROP(0), READ(0) }, { FREE(0) } },
},
{
	.name = "recompression under six readers, and more that come",
	.most = 2,
	.recompress = true,
	.before = { WRITE(0, HALF), HOLD(0), HOLD(0), HOLD(0), HOLD(0), HOLD(0), HOLD(0) },
	.act = { { RECOMPRESS(0) }, { READ(0) }, { READ(0), DROP(0) } },
},
{
	.name = "recompression against compaction",
	.recompress = true,
	.before = { WRITE(0, HALF), WRITE(1, HALF), WRITE(2, HALF), WRITE(3, HALF), FREE(1),
		    FREE(3) },
	.act = { { COMPACT }, { RECOMPRESS(0) }, { READ(0) } },
},
{
	.name = "compaction of what recompression makes",
	.slots = 8, .recompress = true,
	.before = { WRITE(0, HALF), WRITE(1, QUARTER), WRITE(2, QUARTER), WRITE(3, QUARTER),
		    WRITE(4, QUARTER),
		    WRITE(5, QUARTER), FREE(1), FREE(2) },
	.act = { { COMPACT }, { RECOMPRESS(0), READ(0) }, { FREE(0) } },
},
{
	.name = "recompression against what is held back",
	.most = 2,
	.asleep = 1,
	.release_limit = PLENTY, .recompress = true,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { RECOMPRESS(0), RECOMPRESS(1) }, { FREE(0) }, { FLUSH } },
},
{
	.name = "recompression without memory",
	.most = 2,
	.release_limit = PLENTY, .recompress = true, .may_be_dry = true,
	.asleep = 1,
	.before = { WRITE(0, HALF), WRITE(1, RAW) },
	.act = { { RECOMPRESS(0), RECOMPRESS(1) }, { FREE(0), READ(1) } },
},
{
	.name = "marks against reads, writes and frees",
	.recompress = true,
	.before = { WRITE(0, HALF), WRITE(1, RAW), MARK_IDLE },
	.act = { { MARK_IDLE }, { READ(0), WRITE(0, THIRD) }, { FREE(0), READ(1) } },
},
{
	.name = "marks against the eighth reader and others that leave",
	.recompress = true,
	.before = { WRITE(0, HALF), SEVEN_HOLDS(0) },
	.act = { { MARK_IDLE }, { READ(0) }, { DROP(0), DROP(0) } },
},
{
	.name = "marks against recompression and compaction",
	.recompress = true,
	.before = { WRITE(0, HALF), WRITE(1, HALF), WRITE(2, HALF), WRITE(3, HALF), FREE(1),
		    FREE(3) },
	.act = { { MARK_IDLE }, { RECOMPRESS(0) }, { COMPACT } },
},

/* ---- a backing device ---- */
{
	.name = "writeback against read and free",
	.blocks = 2,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { BACK(0) }, { READ(0) }, { FREE(0) } },
},
{
	.name = "writeback against a write and read",
	.blocks = 2,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { BACK(0), READ(0) }, { WRITE(0, THIRD) }, { READ(0) } },
},
{
	.name = "writeback against a write that is written back",
	.blocks = 2,
	.before = { WRITE(0, HALF) },
	.act = { { BACK(0), BACK(0) }, { WRITE(0, THIRD), READ(0) } },
},
{
	.name = "a block that is read, freed and used again",
	.blocks = 1,
	.before = { WRITE(0, HALF), BACK(0), WRITE(1, HALF) },
	.act = { { BACK(1), BACK(1) }, { READ(0) }, { FREE(0), READ(1) } },
},
{
	.name = "a block that is read, overwritten and used again by the same slot",
	.blocks = 1,
	.before = { WRITE(0, HALF), BACK(0) },
	.act = { { WRITE(0, THIRD), BACK(0) }, { READ(0) }, { READ(0) } },
},
{
	.name = "two readers of a block that a CPU gave up",
	.blocks = 1,
	.before = { WRITE(0, HALF), BACK(0), WRITE(1, HALF) },
	.act = { { FREE(0), BACK(1) }, { READ(0), READ(1) }, { READ(0) } },
},
{
	.name = "blocks that two CPUs gave up, and a search for one",
	.blocks = 2,
	.before = { WRITE(0, HALF), BACK(0), WRITE(1, HALF), WRITE(2, HALF), BACK(2) },
	.act = { { FREE(0) }, { FREE(2) }, { BACK(1) } },
},
{
	.name = "writeback against a reset",
	.blocks = 2,
	.before = { WRITE(0, HALF), BACK(0), WRITE(1, HALF) },
	.act = { { BACK(1) }, { RESET }, { READ(0), READ(1) } },
},
{
	.name = "a write to the device that fails",
	.blocks = 1,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { BACK_FAILS(0), BACK(0) }, { READ(0) }, { WRITE(0, THIRD) } },
},
{
	.name = "writeback under a reader that leaves",
	.blocks = 2,
	.before = { WRITE(0, HALF), HOLD(0) },
	.act = { { BACK(0) }, { DROP(0), READ(0) }, { FREE(0) } },
},
{
	.name = "writeback under seven readers, and more that come",
	.most = 2,
	.blocks = 2,
	.before = { WRITE(0, HALF), SEVEN_HOLDS(0) },
	.act = { { BACK(0) }, { READ(0) }, { DROP(0), DROP(0) } },
},
{
	.name = "writeback against compaction",
	.blocks = 4,
	.before = { WRITE(0, HALF), WRITE(1, HALF), WRITE(2, HALF), WRITE(3, HALF), FREE(1),
		    FREE(3) },
	.act = { { COMPACT }, { BACK(0), BACK(2) }, { READ(0) } },
},
{
	.name = "writeback of compressed pages",
	.blocks = 1, .packed = true, .recompress = true,
	.before = { WRITE(0, HALF), RECOMPRESS(0), BACK(0), WRITE(1, RAW) },
	.act = { { BACK(1), BACK(1) }, { READ(0), FREE(0) }, { READ(1) } },
},
{
	.name = "the same block and size of another codec, under a reader",
	.blocks = 1, .packed = true, .recompress = true,
	.before = { WRITE(0, HALF / 2), BACK(0) },
	.act = { { WRITE(0, HALF), RECOMPRESS(0), BACK(0) }, { READ(0) } },
},
{
	.name = "writeback against marks",
	.blocks = 2,
	.before = { WRITE(0, HALF), WRITE(1, HALF), MARK_IDLE },
	.act = { { BACK(0) }, { MARK_IDLE, READ(1) }, { READ(0) } },
},

/* ---- pages that are written to the device alone ---- */
{
	.name = "a page to the device against free and read",
	.blocks = 2,
	.before = { WRITE(0, HALF), WRITE(1, HALF) },
	.act = { { INCOMING(0) }, { FREE(0) }, { READ(0) } },
},
{
	.name = "a page to the device against a write and read",
	.blocks = 2,
	.before = { WRITE(0, HALF) },
	.act = { { INCOMING(0), READ(0) }, { WRITE(0, THIRD), READ(0) } },
},
{
	.name = "two pages to the device for one slot, and a reader",
	.blocks = 3,
	.before = { INCOMING(0) },
	.act = { { INCOMING(0) }, { INCOMING(0), READ(0) }, { READ(0) } },
},
{
	.name = "a page to the device against a writeback of its slot",
	.blocks = 2,
	.before = { WRITE(0, HALF) },
	.act = { { BACK(0) }, { INCOMING(0), READ(0) }, { READ(0) } },
},
{
	.name = "a page to the device under a reader of the block before it",
	.blocks = 2,
	.before = { INCOMING(0) },
	.act = { { INCOMING(0), INCOMING(1) }, { READ(0) }, { READ(1) } },
},
{
	.name = "a page to the device under a reader of the object before it",
	.blocks = 2,
	.before = { WRITE(0, HALF), HOLD(0) },
	.act = { { INCOMING(0), FREE(0) }, { DROP(0) }, { READ(0) } },
},
{
	.name = "a page to the device against compaction",
	.blocks = 2,
	.before = { WRITE(0, HALF), WRITE(1, HALF), WRITE(2, HALF), WRITE(3, HALF), FREE(1),
		    FREE(3) },
	.act = { { COMPACT }, { INCOMING(0) }, { INCOMING(2), READ(2) } },
},
{
	.name = "a page to the device against recompression",
	.blocks = 2, .recompress = true, .packed = true,
	.before = { WRITE(0, HALF) },
	.act = { { RECOMPRESS(0) }, { INCOMING(0), READ(0) }, { FREE(0) } },
},
{
	.name = "a page to the device that fails",
	.blocks = 1,
	.before = { WRITE(0, HALF) },
	.act = { { INCOMING_FAILS(0), READ(0) }, { INCOMING(0) }, { WRITE(0, THIRD) } },
},
{
	.name = "pages to a device that is full, against frees",
	.most = 2, .asleep = 1,
	.blocks = 1, .release_limit = PLENTY,
	.before = { INCOMING(0) },
	.act = { { INCOMING(1), READ(1) }, { FREE(0), INCOMING(0) } },
},
{
	.name = "a page to the device that is the first of a page of slots",
	.most = 2, .sparse = true,
	.blocks = 2,
	.act = { { INCOMING(0), FREE(0) }, { INCOMING(1) }, { READ(1), READ(0) } },
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
{
	/* Objects of four classes, whose descriptors are all of one group. */
	.name = "look-ups while the directory grows",
	.most = 2,
	.grow = true,
	.before = { PUT(0, HALF) },
	.act = { { PUT(1, QUARTER), PUT(2, THIRD) }, { GET(0), FREE(0) }, { PUT(3, EIGHTH) } },
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
	.name = "read against compaction and an object in its place",
	.slots = 5,
	.before = { PUT(0, SPAN), PUT(1, SPAN), PUT(2, SPAN), PUT(3, SPAN), FREE(1) },
	.act = { { COMPACT }, { GET(3) }, { PUT(4, SPAN) } },
},
{
	.name = "allocation against compaction",
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), PUT(3, HALF), FREE(1), FREE(3) },
	.act = { { COMPACT }, { PUT(1, HALF) }, { FREE(2) } },
},

/*
 * ---- the release stage ----
 *
 * Four QUARTER objects fill a zspage.  Of three the frees but for the last one take no class lock,
 * so that the turns are the release stage's.  What stops the timer sleeps where it is not the
 * point.
 */
{
	.name = "detach against drain",
	.release_limit = PLENTY,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0) }, { FREE(1) } },
},
{
	.name = "detach against drain against reset",
	.asleep = 1,
	.release_limit = PLENTY,
	.before = { PUT(0, HALF), PUT(1, HALF) },
	.act = { { RESET }, { FREE(0), FREE(1) } },
},
{
	.name = "flush against push",
	.asleep = 1,
	.release_limit = PLENTY,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0) }, { FLUSH }, { FREE(1) } },
},
{
	.name = "a CPU that goes away against push",
	.asleep = 1,
	.release_limit = PLENTY, .move = true,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0) }, { FREE(1) }, { OFFLINE(1) } },
},
{
	.name = "full buffers against the timer's end",
	.release_limit = PAGE_SIZE, .spare = 2,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0) }, { FREE(1) } },
},
{
	.name = "full buffers against drain",
	.most = 2,
	.asleep = 1,
	.release_limit = PAGE_SIZE, .spare = 2,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0) }, { FREE(1) }, { FLUSH } },
},
{
	.name = "a full buffer against the collection of another",
	.most = 2,
	.asleep = 1,
	.release_limit = PAGE_SIZE * 2, .spare = 2,
	.before = { PUT(0, THIRD), PUT(1, HALF) },
	.act = { { FREE(0) }, { FREE(1) }, { FLUSH } },
},
{
	.name = "buffers that run out",
	.most = 2,
	.asleep = 1,
	.release_limit = PAGE_SIZE, .spare = 1,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER), PUT(3, QUARTER), FREE(3) },
	.act = { { FREE(0), FREE(2) }, { FREE(1) } },
},
{
	.name = "a budget that is spent",
	.most = 2,
	.release_limit = PAGE_SIZE * 5 / 8, .spare = 3,
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF) },
	.act = { { FREE(0), FREE(2) }, { FREE(1) } },
},
{
	.name = "a budget too small for a buffer",
	.asleep = 1,
	.release_limit = PAGE_SIZE / 2,
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), PUT(3, HALF) },
	.act = { { FREE(0), FREE(2) }, { FREE(1) } },
},
{
	.name = "a helper short of memory against push",
	.asleep = 1,
	.release_limit = PLENTY,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0), FREE(2) }, { HELP, FREE(1) } },
},
{
	.name = "two takers of one CPU",
	.asleep = 1,
	.release_limit = PLENTY,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER), PUT(3, QUARTER),
		    FREE(1), FREE(2) },
	.act = { { FREE(0) }, { HELP }, { FLUSH } },
},
{
	.name = "a flush against a free in place",
	.asleep = 1,
	.release_limit = PAGE_SIZE / 4,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER), PUT(3, SMALL) },
	.act = { { FREE(0), FREE(2) }, { FLUSH } },
},
{
	.name = "a flush against a helper with a full buffer",
	.asleep = 1,
	.release_limit = PAGE_SIZE, .spare = 2,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0) }, { HELP, FLUSH }, { HELP } },
},
{
	.name = "two flushes against push",
	.asleep = 2,
	.release_limit = PAGE_SIZE, .spare = 2,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0), FLUSH }, { FREE(1) }, { FLUSH } },
},
{
	.name = "a budget that shrinks",
	.asleep = 1,
	.release_limit = PLENTY, .spare = 2,
	.before = { PUT(0, QUARTER), PUT(1, QUARTER), PUT(2, QUARTER) },
	.act = { { FREE(0) }, { LIMIT(0) }, { FREE(1) } },
},

/* ---- memory ---- */
{
	.name = "mem_limit against what is held back",
	.asleep = 1,
	.release_limit = PLENTY, .limit_pages = 1,
	.before = { PUT(0, RAW) },
	.act = { { FREE(0), MUST_PUT(1, RAW) }, { FLUSH } },
},
{
	.name = "mem_limit against an object on another's new page",
	.limit_pages = 1,
	.before = { PUT(3, RAW) },
	.act = { { PUT(0, HALF) }, { PUT(1, HALF) } },
},
{
	.name = "a source that may be dry",
	.asleep = 1,
	.release_limit = PLENTY, .may_be_dry = true,
	.before = { PUT(0, RAW), PUT(1, HALF) },
	.act = { { FREE(0), PUT(2, RAW) }, { PUT(3, RAW) } },
},
{
	.name = "the last page of the source goes to nobody with room",
	.pages = 6,
	.before = { PUT(3, RAW), PUT(0, SPAN), PUT(1, SPAN), FREE(0) },
	.act = { { PUT(0, SPAN) }, { MUST_PUT(2, RAW) } },
},
{
	.name = "a reserve against draws and frees",
	.reserve = 2, .pages = 6,
	.before = { PUT(0, RAW), PUT(1, RAW), PUT(2, RAW), DRY(1) },
	.act = { { PUT(3, RAW) }, { FREE(0), PUT(0, RAW) }, { FREE(1) } },
},
{
	.name = "a reserve that is filled while it is drawn on",
	.reserve = 2, .pages = 6,
	.before = { PUT(0, RAW), DRY(1), PUT(1, RAW), PUT(2, RAW), DRY(0) },
	.act = { { PUT(3, RAW) }, { REFILL }, { FREE(0), REFILL } },
},
{
	.name = "no write fails that the reserve covers",
	.reserve = 6,
	.before = { PUT(0, RAW), PUT(1, RAW), DRY(1) },
	.act = { { MUST_PUT(2, RAW) }, { MUST_PUT(3, RAW) }, { FREE(1) } },
},
{
	.name = "pages of two nodes",
	.nodes = 2, .move = true,
	.before = { PUT(0, RAW), PUT(1, RAW) },
	.act = { { FREE(0), PUT(2, RAW) }, { FREE(1) }, { SHRINK } },
},
{
	.name = "the shrinker against everything",
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), FREE(1) },
	.act = { { SHRINK }, { FREE(0), PUT(3, HALF) } },
},
{
	.name = "the shrinker against compaction",
	.before = { PUT(0, HALF), PUT(1, HALF), PUT(2, HALF), PUT(3, HALF), FREE(1), FREE(2) },
	.act = { { SHRINK }, { COMPACT } },
},
{
	.name = "the first writes of a page of slots",
	.most = 2, .sparse = true,
	.act = { { PUT(0, HALF), FREE(0) }, { PUT(1, HALF) }, { GET(1), GET(0) } },
},
{
	.name = "no first write fails that the reserve covers",
	.most = 2, .sparse = true, .pages_in = true,
	.reserve = 5,
	.before = { DRY(1) },
	.act = { { MUST_FILL(0), READ(1) }, { MUST_FILL(1) }, { MUST_WRITE(2, RAW) } },
},
{
	.name = "statistics against coming and going",
	.before = { PUT(0, HALF) },
	.act = { { STATS }, { FREE(0), PUT(1, HALF) } },
},
