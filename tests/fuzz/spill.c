// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * spill.c - fuzzes a cache whose spill is damaged while it runs: an answer is what was put last, or
 * a miss.
 *
 *     input: what is done; then one operation after the other, or a file that a cache opens
 *
 * The file is one in memory where /dev/shm is, and its records are found by the cache's own table,
 * so that most of the damage hits what will be asked for.  The cache has room for a part of the
 * values.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fuzz_put.h"
#include "api/ebb_cache.h"
#include "kv/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define NAMES 24u
#define LARGEST 70000u                  /* some are of two blocks, which do not spill */
#define OPS_MAX 300
#define FILE_MOST (SPILL_HEAD + EBB_CACHE_SPILL_MIN)

static struct ebb_cache *cache;
static unsigned char data[LARGEST], got[LARGEST + 1];
static unsigned char earlier[FILE_MOST], piece[FILE_MOST];
static size_t last;                      /* where a piece was copied to */
static int file = -1;
static char path[40];

static struct {
	bool there;                     /* or not any more: a cache may forget */
	size_t bytes;
	uint64_t seed;
} model[NAMES];

static void new_file(void)
{
	strcpy(path, "/dev/shm/ebb-fuzz-spill.XXXXXX");
	file = mkostemp(path, O_CLOEXEC);
	if (file < 0) {
		strcpy(path, "/tmp/ebb-fuzz-spill.XXXXXX");
		file = mkostemp(path, O_CLOEXEC);
	}
	must(file >= 0);
}

static int open_cache(void)
{
	struct ebb_cache_config cfg;

	ebb_cache_config_init(&cfg);
	cfg.capacity = EBB_CACHE_CAPACITY_MIN;
	cfg.spill = path;
	cfg.spill_capacity = EBB_CACHE_SPILL_MIN;
	return ebb_cache_open(&cache, &cfg);
}

/* What a put does that finds no room: values of 32 KiB go, at least. */
static void evict(size_t bytes)
{
	struct scratch *s = scratch_get_surely(&cache->blocks);

	cache_make_more_room(cache, s, bytes, 0);
	scratch_put(&cache->blocks, s);
}

static void end_file(void)
{
	close(file);
	unlink(path);
}

static void close_cache(void)
{
	ebb_cache_close(cache);
	end_file();
}

/* ---- values ---- */

static void make(unsigned int i, size_t n, uint64_t seed)
{
	memset(data, (int)seed, n);
	fill_random(data, n * (3 - seed % 4) / 3, seed * NAMES + i);
}

static size_t choose_bytes(struct choices *c)
{
	unsigned int kind = take_below(c, 8);

	return kind < 2 ? take_below(c, 256) : kind < 7 ? take(c, 2) % 20000 : take(c, 3) % LARGEST;
}

static void get_and_compare(unsigned int i, size_t cap)
{
	size_t n = 0;
	int err = ebb_cache_get(cache, &i, sizeof(i), got, cap, &n);

	if (err == -ENOENT)
		return;
	must(model[i].there);
	must_eq(n, model[i].bytes);
	must_eq(err, n <= cap ? 0 : -ENOSPC);
	if (err)
		return;
	make(i, n, model[i].seed);
	must(!memcmp(got, data, n));
}

static void take_and_compare(unsigned int i)
{
	struct ebb_cache_pin *pin;
	int err = ebb_cache_pin(cache, &i, sizeof(i), EBB_CACHE_TAKE, &pin);

	if (err) {
		must_eq(err, -ENOENT);
		return;
	}
	must(model[i].there);
	model[i].there = false;
	must_eq(pin->charge, model[i].seed);
	must_eq(pin->bytes, model[i].bytes);
	make(i, pin->bytes, pin->charge);
	must(!memcmp(pin->data, data, pin->bytes));
	ebb_cache_unpin(cache, pin);
}

static void do_put(struct choices *c, unsigned int i)
{
	size_t n = choose_bytes(c);
	uint64_t seed = take(c, 1);
	int err;

	make(i, n, seed);
	failing = take_below(c, 8) ? 0 : 1 + take_below(c, 12);
	err = ebb_cache_put(cache, &i, sizeof(i), data, n, seed, 0);
	failing = 0;
	must(!err || err == -ENOMEM);
	model[i].there = !err;
	model[i].bytes = n;
	model[i].seed = seed;
}

/* ---- the file ---- */

static size_t file_bytes(void)
{
	off_t n = lseek(file, 0, SEEK_END);

	must(n >= 0 && (size_t)n <= FILE_MOST);
	return (size_t)n;
}

/* Where in the file the record of the n-th value of the spill is, of which there are some. */
static size_t record_of(unsigned int n)
{
	unsigned int k;

	for (k = 0; k < CACHE_SHARDS; k++) {
		struct cache_index *x = &cache->shard[k].spilled;

		if (n < x->entries)
			return SPILL_HEAD + cache_index_entry(x, n)->ref % EBB_CACHE_SPILL_MIN;
		n -= x->entries;
	}
	return 0;
}

_Static_assert(EBB_CACHE_SPILL_MIN % SPILL_CHUNK == 0, "the log's ring is all of the file");

/* A place in a record or right behind its head, or anywhere. */
static size_t choose_place(struct choices *c, size_t size)
{
	u64 n = host_a64_read(&cache->spill_entries);

	if (n && take_below(c, 4))
		return record_of(take_below(c, (unsigned int)n)) + take_below(c, 64);
	return take(c, 3) % (size + 1);
}

static void write_at(size_t at, const void *from, size_t n)
{
	if (at + n > FILE_MOST)
		n = at < FILE_MOST ? FILE_MOST - at : 0;
	must_eq(pwrite(file, from, n, (off_t)at), n);
}

static size_t read_at(size_t at, size_t n)
{
	ssize_t done = pread(file, piece, n < FILE_MOST ? n : FILE_MOST, (off_t)at);

	must(done >= 0);
	return (size_t)done;
}

/* A record, or so much, in the place of another one: one that was there before, often. */
static void copy_piece(struct choices *c, size_t size)
{
	size_t from = take_below(c, 2) ? last : choose_place(c, size), to = choose_place(c, size);
	u64 n = host_a64_read(&cache->spill_entries);

	if (n && take_below(c, 2))
		to = record_of(take_below(c, (unsigned int)n));
	n = read_at(from, 1 + take(c, 2));
	write_at(to, piece, n);
	last = to;
}

static void flip(struct choices *c, size_t size)
{
	size_t at = choose_place(c, size);

	if (read_at(at, 1) != 1)
		return;
	piece[0] ^= (unsigned char)(1u << take_below(c, 8));
	write_at(at, piece, 1);
}

static void overwrite(struct choices *c, size_t size)
{
	size_t n = take(c, 2);

	memset(piece, take_below(c, 2) ? 0 : (int)take(c, 1), n);
	write_at(choose_place(c, size), piece, n);
}

/* The file as it was, all of it or a part: a disk that lost what was written since. */
static void go_back(struct choices *c, bool there, size_t *bytes)
{
	size_t at;

	if (!there) {
		*bytes = read_at(0, FILE_MOST);
		memcpy(earlier, piece, *bytes);
		return;
	}
	at = *bytes ? take(c, 3) % *bytes : 0;
	write_at(at, earlier + at, *bytes - at);
}

/* The device that the file is on is full, or is there again. */
static void exchange_fd(bool full)
{
	int fd = full ? open("/dev/full", O_RDWR | O_CLOEXEC) : dup(file);

	must(fd >= 0);
	must_eq(dup2(fd, cache->spill->fd), cache->spill->fd);
	close(fd);
}

/* What failed may be tried again at once. */
static void end_pause(void)
{
	mutex_lock(&cache->spill->lock);
	cache->spill->paused = 0;
	mutex_unlock(&cache->spill->lock);
}

static void damage(struct choices *c, bool *kept, size_t *bytes)
{
	size_t size;

	/* What is in memory is what it is. */
	ebb_cache_flush(cache);
	size = file_bytes();
	switch (take_below(c, 8)) {
	case 0:
		must_eq(ftruncate(file, (off_t)(take(c, 3) % FILE_MOST)), 0);
		break;
	case 1: case 2:
		flip(c, size);
		break;
	case 3: case 4:
		copy_piece(c, size);
		break;
	case 5:
		overwrite(c, size);
		break;
	default:
		go_back(c, *kept, bytes);
		*kept = true;
	}
}

/* ---- what is fuzzed ---- */

static void check_all(void)
{
	char why[200];

	if (ebb_cache_check(cache, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
}

static void operate(struct choices *c)
{
	bool kept = false;
	size_t bytes = 0;
	unsigned int op, i, err;

	new_file();
	must_eq(open_cache(), 0);
	memset(model, 0, sizeof(model));
	last = SPILL_HEAD;
	for (op = 0; op < OPS_MAX && left(c); op++) {
		i = take_below(c, NAMES);
		switch (take_below(c, 12)) {
		case 0:
			err = (unsigned int)-ebb_cache_delete(cache, &i, sizeof(i));
			must(err == ENOENT || (!err && model[i].there));
			model[i].there = false;
			break;
		case 1:
			take_and_compare(i);
			break;
		case 2: case 3: case 4:
			get_and_compare(i, take_below(c, 8) ? LARGEST : take(c, 2));
			break;
		case 5: case 6:
			damage(c, &kept, &bytes);
			break;
		case 7:
			exchange_fd(take_below(c, 2));
			end_pause();
			break;
		case 8:
			evict(take_below(c, 2) ? 1 : LARGEST);
			break;
		default:
			do_put(c, i);
		}
	}
	for (i = 0; i < NAMES; i++)
		get_and_compare(i, LARGEST);
	check_all();
	close_cache();
}

/* A file that there is: it is a spill's or nobody's, or it is left as it is. */
static void open_on(struct choices *c)
{
	static const char magic[] = "spilled values of an Ebb cache\n";
	size_t n = 0, size, i, zeros = 0;
	int err;

	new_file();
	if (take_below(c, 2))
		n = take_below(c, sizeof(magic) + 1);
	memcpy(piece, magic, n);
	while (left(c))
		piece[n++] = (unsigned char)take(c, 1);
	write_at(0, piece, n);
	err = open_cache();
	size = file_bytes();
	for (i = 0; i < n; i++)
		zeros += !piece[i];
	if (zeros == n || (n >= sizeof(magic) && !memcmp(piece, magic, sizeof(magic)))) {
		must_eq(err, 0);
		must_eq(size, 0);
		close_cache();
		return;
	}
	must_eq(err, -EEXIST);
	memcpy(earlier, piece, n);
	must_eq(read_at(0, n + 1), n);
	must(!memcmp(earlier, piece, n));
	end_file();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct choices c = { input, input + size };

	if (take_below(&c, 16))
		operate(&c);
	else
		open_on(&c);
	return 0;
}
