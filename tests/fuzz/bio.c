// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bio.c - fuzzes the block device: kernel/zram/blkdev.c as it is, on a small part of Linux
 * (kernel_shim.h), with pages of 4, 16 or 64 KiB (a program each) and a store that is played.
 *
 *     input: where and how much, the call of the store that fails, the memory's pieces; again
 *
 * The disk is a row of bytes: a read gives those, a write sets those, zeroes clear those, a
 * discard clears the whole pages among those.  What fails, fails at a page: those before it
 * are done, its own slot and those after it are as they were.  Memory around the pieces and the
 * memory that is written from stay as they were, and nothing is left locked.
 */
#include "fuzz.h"
#include "../../kernel/zram/zram.h"
#include "kernel_shim.h"

#include <linux/bio.h>

#define SLOTS 4
#define SEGMENTS_MAX 24
#define OPS_MAX 8
#define SIZE_MAX_OF_BIO ((SLOTS + 2) * PAGE_SIZE)

/* ---- the store, played ---- */

static unsigned char slot[SLOTS][PAGE_SIZE];
static unsigned int calls, failing;     /* the call that fails, from 1; 0: none */
static unsigned int failures;           /* writes that were counted as failed */
static int error;
static bool atomic;                     /* in a notify: nothing may be waited for */

/* What each call may count on, and whether it is the one that fails. */
static int call(u64 i, bool write)
{
	if (i >= SLOTS)
		return -ERANGE;
	must_eq(shim_mutexes(), write && !atomic && PAGE_SIZE > ZRAM_BLOCK);
	return ++calls == failing ? error : 0;
}

int store_read(struct store *s, u64 i, void *page)
{
	int err = call(i, shim_mutexes());

	(void)s;
	/* Some are on the backing device: then it is that which reads. */
	if (!err && slot[i][0] & 1)
		return STORE_BACKED;
	if (!err)
		memcpy(page, slot[i], PAGE_SIZE);
	else if (err == -EIO)
		memset(page, 0, PAGE_SIZE);
	return err;
}

/* Its error would be that of the whole read or write. */
int zram_backing_read_wait(struct zram *z, u64 i, struct page *page, enum store_counter failed)
{
	void *mem = kmap_local_page(page);

	(void)z;
	must(slot[i][0] & 1);
	must_eq(failed, is_noio() ? CNT_FAILED_WRITE : CNT_FAILED_READ);
	memcpy(mem, slot[i], PAGE_SIZE);
	kunmap_local(mem);
	return 0;
}

int zram_backing_read(struct zram *z, u64 i, struct page *page, struct bio *parent)
{
	must(parent != NULL);
	return zram_backing_read_wait(z, i, page, CNT_FAILED_READ);
}

static bool waits;                      /* the last try did, for room */

int store_try_now(struct store *s, u64 i, const void *page, unsigned int node, unsigned int how)
{
	int err = call(i, true);

	(void)s;
	(void)node;
	must(is_noio());
	must_eq(how, HOST_MAY_WAIT);
	waits = false;
	if (!err)
		memcpy(slot[i], page, PAGE_SIZE);
	return err;
}

int store_try_write(struct store *s, u64 i, const void *page, unsigned int node)
{
	int err = store_try_now(s, i, page, node, HOST_MAY_WAIT);

	waits = true;
	return err;
}

void store_note(struct store *s, enum store_counter i)
{
	(void)s;
	must_eq(i, CNT_FAILED_WRITE);
	failures++;
}

/* ---- units, played ---- */

static struct zram zram;
static unsigned char unit_page[SLOTS][PAGE_SIZE];
static u64 unit_from;
static bool refused;                    /* the units of this bio are */

/* One in which a page would fail is refused, so that the page does. */
int unit_make(struct store *s, u64 i, unit_gather *gather, void *arg, unsigned int node,
	      unsigned int how, u64 *word)
{
	unsigned int pages = zram.units.pages;

	must(is_noio());
	must_eq(shim_mutexes(), 0);
	must_eq(how, zram_incoming_on(&zram) ? 0 : HOST_MAY_WAIT);
	must(pages && !(i % pages));
	if (refused || i + pages > SLOTS || (failing > calls && failing <= calls + pages))
		return -EAGAIN;
	gather(arg, unit_page);
	unit_from = i;
	*word = (u64)7;
	return 0;
}

void unit_put(struct store *s, u64 i, u64 word)
{
	must_eq(word, 7);
	must(i >= unit_from && i < unit_from + zram.units.pages);
	must_eq(call(i, true), 0);
	memcpy(slot[i], unit_page[i - unit_from], PAGE_SIZE);
}

/* As above; and what is on the backing device is in no unit. */
bool unit_read_whole(struct store *s, u64 i, void *to)
{
	unsigned int pages = zram.units.pages, k;

	must(!is_noio());
	must(pages && !(i % pages));
	if (refused || i + pages > SLOTS || (failing > calls && failing <= calls + pages))
		return false;
	for (k = 0; k < pages; k++)
		if (slot[i + k][0] & 1)
			return false;
	for (k = 0; k < pages; k++) {
		must_eq(call(i + k, false), 0);
		memcpy((char *)to + k * PAGE_SIZE, slot[i + k], PAGE_SIZE);
	}
	return true;
}

/* ---- what takes the pages for which there is no room, played ---- */

int zram_incoming_page(struct zram *z, u64 i, struct page *page)
{
	must(zram_incoming_on(z) && i < SLOTS && error == -ENOMEM && !waits);
	must_eq(shim_mutexes(), PAGE_SIZE > ZRAM_BLOCK);
	memcpy(slot[i], page_address(page), PAGE_SIZE);
	return 0;
}

void zram_incoming_bio(struct zram *z, struct bio *bio, const struct bvec_iter *rest)
{
	struct bvec_iter iter = *rest;

	must(zram_incoming_on(z) && error == -ENOMEM && !waits && PAGE_SIZE == ZRAM_BLOCK);
	must_eq(shim_mutexes(), 0);
	for (; iter.bi_size; bio_advance_iter_single(bio, &iter, PAGE_SIZE)) {
		struct bio_vec v = bio_iter_iovec(bio, iter);
		u64 i = iter.bi_sector >> (PAGE_SHIFT - SECTOR_SHIFT);

		must_eq(v.bv_len, PAGE_SIZE);
		must_eq(v.bv_offset, 0);
		if (i >= SLOTS) {
			bio->bi_status = BLK_STS_IOERR;
			return;
		}
		memcpy(slot[i], page_address(v.bv_page), PAGE_SIZE);
	}
}

int store_free(struct store *s, u64 i)
{
	(void)s;
	if (i >= SLOTS)
		return -ERANGE;
	must_eq(shim_mutexes(), !atomic && PAGE_SIZE > ZRAM_BLOCK);
	memset(slot[i], 0, PAGE_SIZE);
	return 0;
}

/* What host_work_queue_delayed() ends in. */
void host_user_work_arm(struct host_work *w, u64 us)
{
	(void)w;
	must_eq(us, ZRAM_TICK_US);
}

/* ---- the block layer, played ---- */

static unsigned int ended, accounts;

unsigned long bio_start_io_acct(struct bio *bio)
{
	(void)bio;
	return ++accounts;
}

void bio_end_io_acct(struct bio *bio, unsigned long start)
{
	(void)bio;
	must_eq(accounts--, start);
}

void bio_endio(struct bio *bio)
{
	(void)bio;
	ended++;
}

/* ---- the oracle: rows of bytes ---- */

static struct zram zram;
static struct gendisk disk = { .disk_name = "zram0", .private_data = &zram };
static struct block_device bdev = { .bd_disk = &disk };
static unsigned char row[SLOTS * PAGE_SIZE], was_row[SLOTS * PAGE_SIZE];

/* No two places of it are alike nearby, so that what is off by some bytes is seen. */
static unsigned char pattern[(SLOTS + 4) * PAGE_SIZE];

struct memory {
	struct bio_vec vec[SEGMENTS_MAX];
	struct page *was[SEGMENTS_MAX];         /* copies from before */
	unsigned int n;
};

static struct memory mem;

static size_t pages_of(const struct bio_vec *v)
{
	return (v->bv_offset + v->bv_len + PAGE_SIZE - 1) / PAGE_SIZE;
}

/* Pieces that hold size bytes: the last one whatever is left. */
static void make_memory(struct choices *c, u32 size)
{
	unsigned char fill = (unsigned char)take(c, 1);

	for (mem.n = 0; size; mem.n++) {
		struct bio_vec *v = &mem.vec[mem.n];
		unsigned int kind = take_below(c, 6);

		v->bv_offset = kind > 2 ? 0 :
			       take_below(c, (unsigned int)PAGE_SIZE) & (kind ? ~511u : ~0u);
		v->bv_len = kind > 3 ? (kind - 3) * (u32)PAGE_SIZE :
			    1 + (take_below(c, 2 * (u32)PAGE_SIZE) & (kind ? ~511u : ~0u));
		if (v->bv_len > size || mem.n == SEGMENTS_MAX - 1)
			v->bv_len = size;
		size -= v->bv_len;
		v->bv_page = malloc(pages_of(v) * PAGE_SIZE);
		mem.was[mem.n] = malloc(pages_of(v) * PAGE_SIZE);
		must(v->bv_page && mem.was[mem.n]);
		memcpy(v->bv_page, pattern + fill + mem.n, pages_of(v) * PAGE_SIZE);
		memcpy(mem.was[mem.n], v->bv_page, pages_of(v) * PAGE_SIZE);
	}
}

static void free_memory(void)
{
	for (unsigned int i = 0; i < mem.n; i++) {
		free(mem.vec[i].bv_page);
		free(mem.was[i]);
	}
	mem.n = 0;
}

/* The bytes of the pieces one after the other: as they are, and as they were. */
static unsigned char now[SIZE_MAX_OF_BIO], before[SIZE_MAX_OF_BIO];

static void gather(void)
{
	size_t at = 0;

	for (unsigned int k = 0; k < mem.n; k++) {
		const struct bio_vec *v = &mem.vec[k];

		memcpy(now + at, (char *)v->bv_page + v->bv_offset, v->bv_len);
		memcpy(before + at, (char *)mem.was[k] + v->bv_offset, v->bv_len);
		at += v->bv_len;
	}
}

/* Nothing of the memory changed but what is inside of the pieces, if that may. */
static void must_be_untouched(bool inside_too)
{
	for (unsigned int k = 0; k < mem.n; k++) {
		const struct bio_vec *v = &mem.vec[k];
		size_t all = pages_of(v) * PAGE_SIZE, end = v->bv_offset + v->bv_len;
		const char *is = (char *)v->bv_page, *was = (char *)mem.was[k];

		must(!memcmp(is, was, inside_too ? all : v->bv_offset));
		must(!memcmp(is + end, was + end, all - end));
	}
}

struct reach {
	u64 sector;
	u32 size;
	u32 done;               /* bytes before the page that fails; size: none does */
	u32 page_end;           /* where that page ends */
};

/* Slot for slot: which calls of the store there will be, and whether one fails. */
static bool will_fail(const struct reach *r, enum req_op op, struct reach *at)
{
	bool rescued = false;
	unsigned int made = 0;

	*at = *r;
	for (u32 i = 0, len; i < r->size; i += len) {
		u64 byte = (r->sector << SECTOR_SHIFT) + i;
		bool whole;

		len = (u32)(PAGE_SIZE - byte % PAGE_SIZE);
		if (len > r->size - i)
			len = r->size - i;
		whole = len == PAGE_SIZE;
		at->done = i;
		at->page_end = i + len;
		if (op == REQ_OP_DISCARD && !whole)
			continue;
		if (r->sector + (i >> SECTOR_SHIFT) >= SLOTS * PAGE_SIZE >> SECTOR_SHIFT)
			return true;
		if (op == REQ_OP_DISCARD || (op == REQ_OP_WRITE_ZEROES && whole))
			continue;
		/*
		 * A read; a write; or a read and a write, of which the one may fail or the other.
		 */
		made += op == REQ_OP_READ || whole ? 1 : 2;
		/* A write for which there is no room may go elsewhere. */
		if (op != REQ_OP_READ && made == failing && error == -ENOMEM &&
		    zram_incoming_on(&zram))
			rescued = true;
		if (failing && made >= failing && !rescued)
			return true;
	}
	at->done = at->page_end = r->size;
	return false;
}

static void expect_on_disk(const struct reach *r, enum req_op op)
{
	u64 from = r->sector << SECTOR_SHIFT, end = from + r->done, page;

	if (op == REQ_OP_WRITE && r->done)
		memcpy(row + from, before, r->done);
	if (op == REQ_OP_WRITE_ZEROES && r->done)
		memset(row + from, 0, r->done);
	/* (It may end in a part of a page that is past the disk.) */
	for (page = 0; op == REQ_OP_DISCARD && page < sizeof(row); page += PAGE_SIZE)
		if (page >= from && page + PAGE_SIZE <= end)
			memset(row + page, 0, PAGE_SIZE);
}

static void must_have_read(const struct reach *r)
{
	must(!memcmp(now, was_row + (r->done ? r->sector << SECTOR_SHIFT : 0), r->done));
	/* The page that fails is zeros or what it was. */
	must(same_byte(now + r->done, 0, r->page_end - r->done) ||
	     !memcmp(now + r->done, before + r->done, r->page_end - r->done));
	must(!memcmp(now + r->page_end, before + r->page_end, r->size - r->page_end));
}

static u32 pick_size(struct choices *c)
{
	u32 blocks = take_below(c, (unsigned int)(SLOTS + 1) *
				   (unsigned int)(PAGE_SIZE / ZRAM_BLOCK) + 1);
	unsigned int odd = take_below(c, 16);

	/* Now and then what is no number of blocks, or of sectors. */
	return blocks * ZRAM_BLOCK + (odd == 1 ? 512 : odd == 2 ? take_below(c, ZRAM_BLOCK) : 0);
}

static void one_bio(struct choices *c)
{
	struct reach r = { 0 }, at;
	struct bio bio = { .op = take_below(c, REQ_OP_FLUSH + 1), .bi_bdev = &bdev };
	bool blocks, fails;

	r.sector = take_below(c, (unsigned int)(SLOTS * PAGE_SIZE / ZRAM_BLOCK) + 2) * 8;
	switch (take_below(c, 16)) {
	case 1:
		r.sector += take_below(c, 8);
		break;
	case 2:
		r.sector = take(c, 8) >> SECTOR_SHIFT;
	}
	r.size = pick_size(c);
	failing = take_below(c, 4) ? 0 : 1 + take_below(c, 8);
	error = take(c, 1) % 2 ? -EIO : -ENOMEM;
	refused = zram.units.pages && !take_below(c, 4);
	zram.backing.is_auto = take_below(c, 2);
	zram.incoming = take_below(c, 4) ? (struct zram_incoming *)&zram : NULL;
	make_memory(c, r.size);
	bio.bi_io_vec = mem.vec;
	bio.bi_iter = (struct bvec_iter){ .bi_sector = r.sector, .bi_size = r.size };
	memcpy(was_row, row, sizeof(row));
	calls = ended = failures = 0;

	zram_devops.submit_bio(&bio);

	must_eq(ended, 1);
	must_eq(accounts, 0);
	must(shim_at_rest());
	must_be_untouched(bio.op != REQ_OP_READ);
	gather();
	blocks = !(r.sector % 8) && !(r.size % ZRAM_BLOCK);
	fails = blocks && bio.op < REQ_OP_FLUSH && will_fail(&r, bio.op, &at);
	if (!blocks || bio.op == REQ_OP_FLUSH) {
		must_eq(bio.bi_status, blocks ? BLK_STS_NOTSUPP : BLK_STS_IOERR);
		must_be_untouched(true);
	} else {
		must_eq(bio.bi_status, fails ? BLK_STS_IOERR : BLK_STS_OK);
		must(failures <= fails);
		expect_on_disk(&at, bio.op);
		if (bio.op == REQ_OP_READ)
			must_have_read(&at);
	}
	must(!memcmp(row, slot, sizeof(row)));
	free_memory();
}

static void one_notify(struct choices *c)
{
	unsigned long i = take_below(c, SLOTS + 1);

	atomic = true;
	zram_devops.swap_slot_free_notify(&bdev, i);
	atomic = false;
	if (i < SLOTS)
		memset(row + i * PAGE_SIZE, 0, PAGE_SIZE);
	must(!memcmp(row, slot, sizeof(row)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct choices c = { data, data + n };

	memcpy(row, pattern + 1000, sizeof(row));
	memcpy(slot, row, sizeof(row));
	zram.units.pages = 0;
	if (left(&c) && PAGE_SIZE < 65536)
		zram.units.pages = (unsigned int[]){ 0, 0, 2, 4 }[take_below(&c, 4)];
	for (unsigned int i = 0; i < OPS_MAX && left(&c); i++)
		if (take_below(&c, 8))
			one_bio(&c);
		else
			one_notify(&c);
	return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_init();
	fill_random(pattern, sizeof(pattern), 1);
	zram.disk = &disk;
	zram.tick.wake = HOST_USER_NO_WAKE;
	must_eq(zram_blkdev_make(&zram), 0);
	return 0;
}
