// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * block.c - see block.h.
 *
 * What is exchanged without a lock are the scratches: who takes one out of its place has it alone.
 */
#include "block.h"

#include "codecs/codecs.h"
#include "codecs/dictionary.h"
#include "api/ebb_in.h"
#include "home/futex.h"
#include "mm/pool.h"
#include "home/zone.h"

/* Less than a sixteenth saved does not pay for the work of reading it. */
#define GAIN_SHIFT 4

#define STAMP_BYTES sizeof(u32)
#define LINE_WORDS (SMP_CACHE_BYTES / sizeof(host_a64))

_Static_assert(sizeof(struct block_head) == BLOCK_HEAD, "the head has no holes");

/* Bytes between a scratch's begin and its buffers. */
#define SCRATCH_HEAD ((size_t)128)
#define PACKED_ROOM (BLOCK_BYTES + SCRATCH_HEAD)        /* before plain, too, there is a head's */

/* What an owner may put before a block's bytes, and a part of a page. */
#define SCRATCH_SLACK ((size_t)2048 + PAGE_SIZE)

/* From it on, zstd copies the tables of a dictionary into a context. */
#define ZSTD_HIGH_LEVEL 11

_Static_assert(sizeof(struct scratch) + BLOCK_HEAD <= SCRATCH_HEAD, "a scratch begins its mapping");

/* ---- scratches ---- */

/*
 * What a context takes for blocks of n bytes.  That of zstd grows with them; those of the others
 * are as large as their libraries have them.
 */
static u32 context_bytes_for(const struct blocks *b, size_t n)
{
	size_t block;

	if (b->codec != &codec_zstd)
		return b->codec == &codec_lz4 ? CODEC_LZ4_BYTES :
		       b->codec == &codec_lz4hc ? CODEC_LZ4HC_BYTES : CODEC_LZO_BYTES;
	/* A context is made for a page at the least. */
	for (block = PAGE_SIZE; block < n; block *= 2)
		;
	return (u32)codec_zstd_context_bytes(b->params.level, block);
}

u64 blocks_context_bytes(const struct blocks *b)
{
	u64 more = b->params.level < ZSTD_HIGH_LEVEL ? 0 : READ_ONCE(b->dictionary_bytes);

	return READ_ONCE(b->context_bytes) + more;
}

u64 blocks_contexts_bytes(struct blocks *b)
{
	return b->codec == &codec_zstd ? codec_zstd_bytes(&b->params) :
	       blocks_contexts(b) * blocks_context_bytes(b);
}

static size_t scratch_bytes(const struct blocks *b)
{
	return SCRATCH_HEAD + PACKED_ROOM + BLOCK_BYTES + b->owner_bytes;
}

/* Bytes of a scratch's buffers that are memory: as far as a block was long. */
static size_t buffer_bytes(const struct blocks *b)
{
	size_t largest = READ_ONCE(b->largest);

	return largest + SCRATCH_SLACK < BLOCK_BYTES ? 2 * (largest + SCRATCH_SLACK) :
	       scratch_bytes(b);
}

/* What is in a place for an idle one. */
static struct scratch *scratch_of(u64 place)
{
	return (struct scratch *)(uintptr_t)place;
}

static void scratch_end(struct blocks *b, struct scratch *s)
{
	if (!s)
		return;
	if (s->ctx)
		b->codec->destroy(s->ctx);
	host_free(s, scratch_bytes(b));
	host_a64_add(&b->scratches, (u64)-1);
}

/* One that is counted already; NULL: there is no memory, and it is counted no longer. */
static struct scratch *scratch_new(struct blocks *b, bool context)
{
	struct scratch *s = host_zalloc(scratch_bytes(b));

	if (!s) {
		host_a64_add(&b->scratches, (u64)-1);
		return NULL;
	}
	s->packed = (unsigned char *)s + SCRATCH_HEAD;
	s->plain = s->packed + PACKED_ROOM;
	s->owner_room = s->plain + BLOCK_BYTES;
	if (context)
		s->ctx = b->codec->create(&b->params);
	if (s->ctx || !context)
		return s;
	scratch_end(b, s);
	return NULL;
}

u64 blocks_scratch_bytes(const struct blocks *b)
{
	return blocks_context_bytes(b) + buffer_bytes(b);
}

u64 blocks_contexts(struct blocks *b)
{
	return host_a64_read(&b->scratches) - 1;
}

u64 blocks_scratches_most(struct blocks *b)
{
	u64 room = READ_ONCE(b->room), n;

	if (!room)
		return UINT64_MAX;
	n = room / blocks_scratch_bytes(b);
	return n ? n : 1;
}

/* One more than there may be: the reserve counts, too. */
static bool too_many(struct blocks *b, u64 scratches)
{
	return scratches - 1 > blocks_scratches_most(b);
}

/* Counts one more; false: there are as many as there may be. */
static bool may_make(struct blocks *b)
{
	u64 n = host_a64_read(&b->scratches);

	while (!too_many(b, n + 1))
		if (host_a64_cas(&b->scratches, &n, n + 1))
			return true;
	return false;
}

/* An idle one of this CPU, or of the next few. */
static struct scratch *take_idle(struct blocks *b, unsigned int looks)
{
	unsigned int cpu = raw_smp_processor_id(), i;

	for (i = 0; i < looks && i < b->cpus; i++) {
		host_a64 *idle = &b->idle[(cpu + i) % b->cpus * LINE_WORDS];
		u64 p = host_a64_read(idle) ? host_a64_xchg(idle, 0) : 0;

		if (p)
			return scratch_of(p);
	}
	return NULL;
}

/*
 * Who waits counts himself and then looks; who puts one back does so and then looks whether anyone
 * waits.  So one of the two sees the other.
 */
static void tell_waiter(struct blocks *b)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (likely(!host_a64_read(&b->waiters)))
		return;
	__atomic_fetch_add(&b->bell, 1, __ATOMIC_SEQ_CST);
	futex_wake(&b->bell, 1);
}

/* There are as many as there may be: waits for one.  NULL: it may be made, and is counted. */
static struct scratch *wait_for_one(struct blocks *b)
{
	struct scratch *s;

	host_a64_add(&b->waiters, 1);
	for (;;) {
		u32 bell = __atomic_load_n(&b->bell, __ATOMIC_SEQ_CST);

		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		s = take_idle(b, b->cpus);
		if (s || may_make(b))
			break;
		futex_wait_until(&b->bell, bell, HOST_USER_NO_WAKE);
	}
	host_a64_add(&b->waiters, (u64)-1);
	return s;
}

#define SCRATCH_LOOKS 4u
#define NO_MEMORY_NS 200000             /* between two looks for one that others have */

/* There is no memory for one more.  Those that others have come back. */
static struct scratch *wait_without_memory(struct blocks *b)
{
	struct scratch *s;

	while (!(s = take_idle(b, b->cpus)) && blocks_contexts(b))
		sleep_raw(NO_MEMORY_NS);
	/* The last one may have ended, and left its memory. */
	return s || !may_make(b) ? s : scratch_new(b, true);
}

/* One that is counted already.  NULL: there is no memory, which who waits for it finds out, too. */
static struct scratch *make_counted(struct blocks *b)
{
	struct scratch *s = scratch_new(b, true);

	if (!s)
		tell_waiter(b);
	return s;
}

struct scratch *scratch_get_now(struct blocks *b)
{
	struct scratch *s = take_idle(b, SCRATCH_LOOKS);

	if (likely(s != NULL))
		return s;
	return may_make(b) ? make_counted(b) : take_idle(b, b->cpus);
}

struct scratch *scratch_get(struct blocks *b)
{
	struct scratch *s = scratch_get_now(b);

	if (!s)
		s = wait_for_one(b);
	if (!s)
		s = make_counted(b);
	return likely(s != NULL) ? s : wait_without_memory(b);
}

__no_context_analysis        /* it returns with the lock */
struct scratch *scratch_get_reserve(struct blocks *b)
{
	mutex_lock(&b->reserve_lock);
	return b->reserve;
}

struct scratch *scratch_get_surely(struct blocks *b)
{
	struct scratch *s = scratch_get_now(b);

	return s ? s : scratch_get_reserve(b);
}

/* Keeps s for the next one on this CPU, or one of the next few.  False: they have theirs. */
static bool keep_idle(struct blocks *b, struct scratch *s)
{
	unsigned int cpu = raw_smp_processor_id(), i;

	for (i = 0; i < SCRATCH_LOOKS && i < b->cpus; i++) {
		u64 none = 0;

		if (host_a64_cas(&b->idle[(cpu + i) % b->cpus * LINE_WORDS], &none,
				 (u64)(uintptr_t)s))
			return true;
	}
	return false;
}

__no_context_analysis
void scratch_put(struct blocks *b, struct scratch *s)
{
	if (unlikely(s == b->reserve)) {
		mutex_unlock(&b->reserve_lock);
		return;
	}
	if (too_many(b, host_a64_read(&b->scratches)) || !keep_idle(b, s))
		scratch_end(b, s);
	/* Where there is no limit, nobody waits. */
	if (READ_ONCE(b->room))
		tell_waiter(b);
}

void blocks_set_room(struct blocks *b, u64 bytes)
{
	struct scratch *s;

	WRITE_ONCE(b->room, bytes);
	while (too_many(b, host_a64_read(&b->scratches)) &&
	       (s = take_idle(b, b->cpus)) != NULL)
		scratch_end(b, s);
	tell_waiter(b);
}

void blocks_expect(struct blocks *b, size_t n)
{
	u32 bytes;

	n = n < BLOCK_BYTES ? n : BLOCK_BYTES;
	if (likely(n <= READ_ONCE(b->largest)))
		return;
	/* Of two at once the smaller one may win, until the larger one is packed again. */
	bytes = context_bytes_for(b, n);
	if (bytes > READ_ONCE(b->context_bytes))
		WRITE_ONCE(b->context_bytes, bytes);
	WRITE_ONCE(b->largest, (u32)n);
}

/* ---- begin and end ---- */

/* The largest object that does not take a page to itself. */
static size_t most_small(unsigned int chain)
{
	struct class_table t;
	int err = class_table_init(&t, PAGE_SIZE, chain ? chain : EBB_CHAIN_DEFAULT,
				   class_pool_rule(PAGE_SIZE));

	return err ? PAGE_SIZE : t.largest - POOL_HEADER;
}

int blocks_init(struct blocks *b, const struct blocks_config *cfg)
{
	u64 first, end;
	int err;

	memset(b, 0, sizeof(*b));
	err = ebb_find_codec(cfg->codec, cfg->level, &b->codec, &b->params.level);
	if (err)
		return err;
	b->store = cfg->store;
	b->page = PAGE_SIZE;
	b->small = most_small(cfg->chain);
	b->owner_bytes = cfg->owner_bytes;
	b->cpus = nr_cpu_ids;
	mutex_init(&b->reserve_lock);
	mutex_init(&b->giving);
	if (b->codec->prepare)
		err = b->codec->prepare(&b->params);
	if (err)
		return err;
	b->context_bytes = context_bytes_for(b, 0);
	b->idle = host_zalloc(b->cpus * LINE_WORDS * sizeof(*b->idle));
	host_a64_add(&b->scratches, 1);
	b->reserve = scratch_new(b, false);
	/* Pages of the slot table are all of runs, or not at all. */
	first = (cfg->first + HOST_USER_PART - 1) & ~(HOST_USER_PART - 1);
	end = cfg->first + cfg->count;
	err = -ENOMEM;
	if (b->idle && b->reserve)
		err = runs_init(&b->runs, first, end > first ? end - first : 0);
	if (err)
		blocks_destroy(b);
	else
		ebb_give_also(b->store, blocks_give_table, b);
	return err;
}

int blocks_open(struct blocks *b, struct blocks_config *cfg, struct ebb_config *store)
{
	int err;

	store->chain_size = cfg->chain;
	err = ebb_open(&cfg->store, store);
	if (err)
		return err;
	err = blocks_init(b, cfg);
	if (err)
		ebb_close(cfg->store);
	return err;
}

static int try_scratch(void *blocks)
{
	struct blocks *b = blocks;
	struct scratch *s;

	host_a64_add(&b->scratches, 1);
	s = scratch_new(b, true);
	if (!s)
		return -ENOMEM;
	scratch_end(b, s);
	return 0;
}

int blocks_try_out(struct blocks *b)
{
	u32 first;
	int err = runs_take(&b->runs, 1, &first);

	if (err)
		return err;
	err = ebb_need_slot(b->store, first);
	runs_give(&b->runs, first);
	return err ? err : zone_try_out(try_scratch, b);
}

void blocks_destroy(struct blocks *b)
{
	unsigned int i;

	ebb_give_also(b->store, NULL, NULL);
	for (i = 0; b->idle && i < b->cpus; i++)
		scratch_end(b, scratch_of(host_a64_read(&b->idle[i * LINE_WORDS])));
	host_free(b->idle, b->cpus * LINE_WORDS * sizeof(*b->idle));
	scratch_end(b, b->reserve);
	mutex_destroy(&b->reserve_lock);
	mutex_destroy(&b->giving);
	runs_destroy(&b->runs);
	if (b->codec->release)
		b->codec->release(&b->params);
}

/* ---- the codec ---- */

static int compress(const struct blocks *b, struct scratch *s, const struct dictionary *d,
		    const void *data, size_t n, size_t cap)
{
	if (d)
		return dictionary_compress(d, s->ctx, data, n, s->packed, cap);
	return b->codec->compress(s->ctx, data, n, s->packed, cap);
}

int block_pack_with(struct blocks *b, struct scratch *s, const struct dictionary *d,
		    const void *data, size_t n)
{
	size_t cap = n - (n >> GAIN_SHIFT) - 1;
	int bytes;

	blocks_expect(b, n);
	bytes = cap ? compress(b, s, d, data, n, cap) : -ENOSPC;
	if (bytes == -ENOMEM)
		return bytes;
	if (bytes == -ENOSPC) {
		memcpy(s->packed, data, n);
		return (int)n;
	}
	/* A codec that breaks its word must not break ours. */
	return bytes <= 0 || (size_t)bytes > cap ? -EIO : bytes;
}

int block_unpack_with(struct blocks *b, struct scratch *s, const struct dictionary *d,
		      const void *packed, size_t bytes, void *data, size_t n)
{
	if (bytes == n) {
		memcpy(data, packed, n);
		return 0;
	}
	if (d)
		return dictionary_decompress(d, s->ctx, packed, bytes, data, n) ? -EIO : 0;
	return b->codec->decompress(s->ctx, packed, bytes, data, n) ? -EIO : 0;
}

/* ---- objects ---- */

/*
 * Bytes of packed ones that the next object of a block has room for, when left are left, of an
 * object that begins with head bytes.  What would take most of a page, but no whole one, goes
 * into two objects of half: they are packed as densely as small ones.
 */
static size_t piece_bytes(const struct blocks *b, size_t left, size_t head)
{
	size_t room = b->page - head;

	if (left >= room)
		return room;
	return left + head > b->small ? (left + 1) / 2 : left;
}

static unsigned int piece_count(const struct blocks *b, size_t packed)
{
	size_t head = BLOCK_HEAD;
	unsigned int n = 0;

	for (; packed; n++, head = STAMP_BYTES)
		packed -= piece_bytes(b, packed, head);
	return n;
}

/* Each object's stamp takes the place of bytes that are stored by then. */
static int put_pieces(struct blocks *b, struct scratch *s, u32 first, u32 stamp, size_t packed)
{
	size_t off = 0, head = BLOCK_HEAD;
	u32 slot = first;
	int err = 0;

	while (off < packed) {
		size_t n = piece_bytes(b, packed - off, head);
		unsigned char *object = s->packed + off - head;

		if (off)
			memcpy(object, &stamp, sizeof(stamp));
		err = ebb_put(b->store, slot, object, n + head);
		if (err)
			break;
		off += n;
		head = STAMP_BYTES;
		slot++;
	}
	if (err && slot > first)
		ebb_free(b->store, first, slot - first);
	return err;
}

/* Not 0, so that no reference is 0. */
static u32 next_stamp(struct blocks *b)
{
	u32 stamp;

	do
		stamp = (u32)host_a64_add(&b->made, 1);
	while (!stamp);
	return stamp;
}

/* Numbers that are hidden come back: who finds no other waits for them. */
static int take_run(struct blocks *b, unsigned int length, u32 *first)
{
	int err = runs_take(&b->runs, length, first);

	if (likely(err != -ENOSPC))
		return err;
	mutex_lock(&b->giving);
	err = runs_take(&b->runs, length, first);
	mutex_unlock(&b->giving);
	return err;
}

int block_put(struct blocks *b, struct scratch *s, size_t packed, size_t n, block_ref *ref)
{
	struct block_head head = {
		.stamp = next_stamp(b),
		.packed = (u32)packed,
		.bytes = (u32)n | (packed == n ? BLOCK_RAW : 0),
	};
	u32 first;
	int err = take_run(b, piece_count(b, packed), &first);

	if (err)
		return err;
	memcpy(s->packed - sizeof(head), &head, sizeof(head));
	err = put_pieces(b, s, first, head.stamp, packed);
	if (err) {
		runs_give(&b->runs, first);
		return err;
	}
	*ref = (u64)first << 32 | head.stamp;
	return 0;
}

/* The packed bytes of a block, at s->packed, and its head.  -ESTALE. */
static int get_pieces(struct blocks *b, struct scratch *s, block_ref ref, struct block_head *head)
{
	u32 slot = (u32)(ref >> 32), stamp = (u32)ref, seen, kept;
	size_t bytes, off, n;

	if (ebb_get(b->store, slot, s->packed - BLOCK_HEAD, b->page, &bytes) || bytes <= BLOCK_HEAD)
		return -ESTALE;
	memcpy(head, s->packed - BLOCK_HEAD, sizeof(*head));
	if (head->stamp != stamp || !head->packed || head->packed > BLOCK_BYTES)
		return -ESTALE;
	off = piece_bytes(b, head->packed, BLOCK_HEAD);
	if (bytes != off + BLOCK_HEAD)
		return -ESTALE;
	for (; off < head->packed; off += n) {
		unsigned char *object = s->packed + off - STAMP_BYTES;

		n = piece_bytes(b, head->packed - off, STAMP_BYTES);
		memcpy(&kept, object, sizeof(kept));
		if (ebb_get(b->store, ++slot, object, n + STAMP_BYTES, &bytes) ||
		    bytes != n + STAMP_BYTES)
			return -ESTALE;
		memcpy(&seen, object, sizeof(seen));
		if (seen != stamp)
			return -ESTALE;
		memcpy(object, &kept, sizeof(kept));
	}
	return 0;
}

int block_get(struct blocks *b, struct scratch *s, block_ref ref, void *data, size_t cap,
	      size_t *n)
{
	struct block_head head;
	int err = get_pieces(b, s, ref, &head);

	if (err) {
		host_a64_add(&b->stale, 1);
		return err;
	}
	*n = head.bytes & ~BLOCK_RAW;
	if (*n > cap || (head.bytes & BLOCK_RAW && *n != head.packed))
		return -EIO;
	return block_unpack(b, s, s->packed, head.packed, data, *n);
}

int block_get_packed(struct blocks *b, struct scratch *s, block_ref ref, size_t *packed, size_t *n)
{
	struct block_head head;
	int err = get_pieces(b, s, ref, &head);

	if (err)
		return err;
	*packed = head.packed;
	*n = head.bytes & ~BLOCK_RAW;
	return 0;
}

bool block_is_there(struct blocks *b, struct scratch *s, block_ref ref)
{
	struct block_head head;

	return !get_pieces(b, s, ref, &head) &&
	       runs_length(&b->runs, (u32)(ref >> 32)) == piece_count(b, head.packed);
}

void block_free(struct blocks *b, block_ref ref)
{
	u32 first = (u32)(ref >> 32);

	ebb_free(b->store, first, runs_length(&b->runs, first));
	runs_give(&b->runs, first);
}

/* ---- memory of the slot table ---- */

/*
 * Nobody but who has a run puts a word into one of its slots, and empties them before he gives it
 * back.  So the words of hidden numbers are 0 and stay so, but for marks that a late reader sets
 * and takes back in hold.c: if they go in between, what he takes back is not there.
 */
bool blocks_give_table(void *blocks, u64 ns)
{
	u64 since = ktime_get_ns();
	struct blocks *b = blocks;
	u32 first, n;
	bool given = true;

	mutex_lock(&b->giving);
	while (given && (n = runs_hide(&b->runs, &first)) != 0) {
		given = ebb_forget_slots(b->store, first, n);
		runs_show(&b->runs, first, n);
		if (given && ktime_get_ns() - since >= ns)
			break;
	}
	mutex_unlock(&b->giving);
	return given && n;
}

const char *blocks_check(struct blocks *b)
{
	const char *what;

	/* The tick goes on: nothing is to be hidden now. */
	mutex_lock(&b->giving);
	what = runs_check(&b->runs);
	mutex_unlock(&b->giving);
	return what;
}

size_t blocks_meta_bytes(struct blocks *b)
{
	return runs_meta_bytes(&b->runs) + b->cpus * SMP_CACHE_BYTES +
	       host_a64_read(&b->scratches) * buffer_bytes(b);
}
