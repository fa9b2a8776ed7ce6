// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * dump.c - fuzzes what load= of nbdkit's plugin reads: plugins/nbdkit/dump.c as it is, on a dump
 * that it wrote, and that was changed since.
 *
 *     input: how it is loaded, which sums are put right; the disk; then one change after the other
 *
 * parse() has the format a second time, over bytes in memory, and says what the loader has to
 * answer: which disk, or which sentence.  A file that was changed, and whose sums were not put
 * right, is refused whatever parse() says.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "dump.h"
#include "api/ebb_units.h"
#include "fuzz_put.h"

#define PIECE_MOST ((size_t)1 << 20)            /* of a disk, in one record */
#define DISK_MOST ((size_t)2500000)
#define WANT_MOST ((size_t)2555904)             /* whole units of 64 KiB */
#define FILE_MOST (2 * DISK_MOST)
#define CHANGES_MOST 12
#define RECORDS_MOST 64u
#define END UINT64_MAX

_Static_assert(WANT_MOST % 65536 == 0 && WANT_MOST >= DISK_MOST, "a disk fits");

enum { FIX_CONTENT = 1, FIX_RECORD = 2, FIX_HEAD = 4, FIX_END = 8 };

struct first {
	char magic[8];
	uint32_t version, zero;
	uint64_t size, sum;
};

struct piece {
	uint64_t offset;
	uint32_t bytes, packed;
	uint64_t content, sum;
};

static unsigned char file[FILE_MOST], was[FILE_MOST];   /* was: before it was changed */
static unsigned char want[WANT_MOST], got[WANT_MOST];   /* the disk */
static unsigned char plain[PIECE_MOST], scrap[PIECE_MOST];
static size_t n, was_n;                 /* bytes of file[] and was[] */
static uint64_t last;                   /* where the last bytes of the disk in file[] end */
static char name[40];                   /* of the file that is loaded */
static int memory = -1;                 /* that file */
static char folder[] = "/dev/shm/ebb-fuzz-dump.XXXXXX", written[sizeof(folder) + 8];

/* ---- what the loader tells ---- */

static char told[400];
static unsigned int tellings;

void nbdkit_error(const char *msg, ...)
{
	va_list args;

	tellings++;
	va_start(args, msg);
	vsnprintf(told, sizeof(told), msg, args);
	va_end(args);
}

static void hear(void)
{
	tellings = 0;
	told[0] = '\0';
}

static void must_have_told(const char *what)
{
	must_eq(tellings, 1);
	if (strncmp(told, what, strlen(what))) {
		printf("# told: %s\n# not:  %s\n", told, what);
		must_failed(__FILE__, __LINE__, "another sentence", 0, 1);
	}
}

/* ---- the format ---- */

static char wrong[200];                 /* what the loader has to tell; "": the file is good */

static bool refuse(uint64_t at, const char *what)
{
	snprintf(wrong, sizeof(wrong), "%s is damaged at byte %" PRIu64 ": %s", name, at, what);
	return false;
}

static bool cut_off(void)
{
	snprintf(wrong, sizeof(wrong), "%s is cut off after %zu bytes", name, n);
	return false;
}

static bool parse_first(uint64_t *size)
{
	struct first f;

	if (n < sizeof(f))
		return cut_off();
	memcpy(&f, file, sizeof(f));
	if (memcmp(f.magic, "ebb-disk", 8)) {
		snprintf(wrong, sizeof(wrong), "%s is no disk that dump= wrote", name);
		return false;
	}
	if (f.sum != XXH64(file, 24, 0))
		return refuse(0, "its head");
	if (f.version != 1 || f.zero) {
		snprintf(wrong, sizeof(wrong), "%s is of version %" PRIu32, name, f.version);
		return false;
	}
	if (f.size - 1 >= (uint64_t)INT64_MAX)
		return refuse(16, "the size of the disk");
	*size = f.size;
	return true;
}

/* Puts what is at file[at] to its place in want[], which may be smaller than the disk. */
static bool unpack(const struct piece *p, size_t at)
{
	const unsigned char *from = file + at;
	size_t k = p->bytes;

	if (p->packed != p->bytes) {
		if (ZSTD_decompress(plain, sizeof(plain), from, p->packed) != p->bytes)
			return false;
		from = plain;
	}
	last = p->offset + p->bytes;
	if (p->offset >= WANT_MOST)
		return true;
	if (k > WANT_MOST - p->offset)
		k = WANT_MOST - p->offset;
	memcpy(want + p->offset, from, k);
	return true;
}

/* What file[] is by dump.h: a disk of *size bytes in want[]; or not, then wrong[] says why. */
static bool parse(uint64_t *size)
{
	uint64_t number = 1;
	struct piece p;
	size_t at;

	wrong[0] = '\0';
	last = 0;
	memset(want, 0, sizeof(want));
	if (!parse_first(size))
		return false;
	for (at = sizeof(struct first); ; at += sizeof(p) + p.packed, number++) {
		if (n - at < sizeof(p))
			return cut_off();
		memcpy(&p, file + at, sizeof(p));
		if (p.sum != XXH64(file + at, 24, number))
			return refuse(at, "the head of a record");
		if (p.offset == END)
			break;
		if (p.bytes - 1 >= PIECE_MOST || p.packed - 1 >= p.bytes || p.offset < last ||
		    p.offset >= *size || p.offset + p.bytes > *size)
			return refuse(at, "a record of bytes that the disk does not have");
		if (n - at - sizeof(p) < p.packed)
			return cut_off();
		if (p.content != XXH64(file + at + sizeof(p), p.packed, number))
			return refuse(at, "the bytes of a record");
		if (!unpack(&p, at + sizeof(p)))
			return refuse(at, "a record does not decompress");
	}
	if (p.bytes || p.packed || p.content != number - 1)
		return refuse(at, "its end");
	if (n - at != sizeof(p))
		return refuse(at + sizeof(p), "there is more after its end");
	return true;
}

/* Where the records are, the end's among them, as far as file[] can be read that way. */
static unsigned int find_records(size_t at[RECORDS_MOST])
{
	size_t next = sizeof(struct first);
	unsigned int k = 0;
	struct piece p;

	while (k < RECORDS_MOST && next <= n && n - next >= sizeof(p)) {
		memcpy(&p, file + next, sizeof(p));
		at[k++] = next;
		if (p.offset == END)
			break;
		next += sizeof(p) + p.packed;
	}
	return k;
}

static void put_sums_right(unsigned int fix)
{
	size_t at[RECORDS_MOST];
	unsigned int k, records = find_records(at);
	XXH64_hash_t sum;

	for (k = 0; k < records; k++) {
		struct piece p;

		memcpy(&p, file + at[k], sizeof(p));
		if (p.offset == END && (fix & FIX_END))
			p.content = k;
		if (p.offset != END && (fix & FIX_CONTENT) && n - at[k] - sizeof(p) >= p.packed)
			p.content = XXH64(file + at[k] + sizeof(p), p.packed, k + 1);
		memcpy(file + at[k], &p, sizeof(p));
		if (fix & FIX_RECORD) {
			sum = XXH64(file + at[k], 24, k + 1);
			memcpy(file + at[k] + 24, &sum, sizeof(sum));
		}
	}
	if (n >= sizeof(struct first) && (fix & FIX_HEAD)) {
		sum = XXH64(file, 24, 0);
		memcpy(file + 24, &sum, sizeof(sum));
	}
}

/* ---- a disk, and its dump ---- */

static struct ebb_units *open_units(uint64_t bytes, uint32_t unit, uint64_t limit)
{
	struct ebb_units_config cfg;
	struct ebb_units *units;

	ebb_units_config_init(&cfg);
	cfg.bytes = (bytes + unit - 1) / unit * unit;
	cfg.unit_bytes = unit;
	cfg.mem_limit = limit;
	must_eq(ebb_units_open(&units, &cfg), 0);
	return units;
}

static void close_units(struct ebb_units *units)
{
	char why[200];

	if (ebb_units_check(units, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
	ebb_units_close(units);
}

static uint64_t choose_size(struct choices *c)
{
	unsigned int kind = take_below(c, 16);

	return 1 + (kind < 12 ? take(c, 2) : kind < 15 ? take(c, 3) % 300000 :
		    take(c, 3) % DISK_MOST);
}

static void fill(struct ebb_units *units, uint64_t size, struct choices *c)
{
	unsigned int writes = take_below(c, 6);

	while (writes--) {
		uint64_t at = take(c, 3) % size, bytes = take(c, 3), seed = take(c, 1);

		if (bytes > size - at)
			bytes = size - at;
		memset(got, (int)seed, bytes);
		fill_random(got, bytes * (seed % 4) / 3, seed);
		must_eq(ebb_units_write(units, at, got, bytes), 0);
	}
}

static void remove_folder(void)
{
	unlink(written);
	rmdir(folder);
}

/* The dump takes its name by rename(), so that it cannot go to memory without a folder. */
static void prepare(void)
{
	if (memory >= 0)
		return;
	if (!mkdtemp(folder)) {
		strcpy(folder, "/tmp/ebb-fuzz-dump.XXXXXX");
		must(mkdtemp(folder));
	}
	snprintf(written, sizeof(written), "%s/disk", folder);
	atexit(remove_folder);
	memory = memfd_create("dump", MFD_CLOEXEC);
	must(memory >= 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", memory);
}

/* Makes a disk and its dump, in file[]; the dump is seen to be that disk.  Returns its size. */
static uint64_t dump(struct choices *c)
{
	uint64_t size = choose_size(c), again;
	struct ebb_units *units = open_units(size, 4096u << take_below(c, 5), 0);
	struct dump_writer *w;
	ssize_t k;
	int fd;

	fill(units, size, c);
	hear();
	w = dump_create(written);
	must(w);
	must_eq(dump_write(w, units, size), 0);
	dump_end(w);
	must_eq(tellings, 0);
	fd = open(written, O_RDONLY | O_CLOEXEC);
	must(fd >= 0);
	k = read(fd, file, sizeof(file));
	must(k > 0 && (size_t)k < sizeof(file));
	n = (size_t)k;
	close(fd);
	unlink(written);
	must(parse(&again));
	must_eq(again, size);
	must_eq(ebb_units_read(units, 0, got, size), 0);
	must(!memcmp(got, want, size));
	close_units(units);
	return size;
}

/* ---- changes ---- */

/* Makes room for so many bytes at file[at], or takes them out; what is new is any bytes. */
static void resize(size_t at, size_t from, size_t to)
{
	if (at > n)
		at = n;
	if (from > n - at)
		from = n - at;
	if (n - from + to > sizeof(file))
		return;
	memmove(file + at + to, file + at + from, n - at - from);
	n = n - from + to;
}

/* A place in the head of the file, in that of a record or behind it, or anywhere. */
static size_t choose_place(struct choices *c)
{
	size_t at[RECORDS_MOST], place;
	unsigned int records = find_records(at), kind = take_below(c, 8);

	if (kind == 0)
		place = take(c, 3);
	else if (kind < 3 || !records)
		place = take_below(c, 32);
	else
		place = at[take_below(c, records)] + take_below(c, kind < 6 ? 32 : 256);
	return n ? place % n : 0;
}

/* A number that a check may have forgotten. */
static uint64_t choose_number(struct choices *c, uint64_t old, uint64_t size)
{
	const uint64_t some[] = {
		0, END, size, PIECE_MOST, INT64_MAX, UINT32_MAX, n, old, (uint64_t)1 << 63,
		END - PIECE_MOST, last,
	};
	unsigned int kind = take_below(c, sizeof(some) / sizeof(some[0]) + 2);

	if (kind < sizeof(some) / sizeof(some[0]))
		return some[kind] + take_below(c, 5) - 2;
	return take(c, kind & 1 ? 2 : 8);
}

static void set_field(struct choices *c, uint64_t size)
{
	static const struct { unsigned char at, bytes; } field[] = {
		{ 0, 8 }, { 8, 4 }, { 12, 4 }, { 16, 8 }, { 24, 8 },
	};
	size_t at[RECORDS_MOST], to;
	unsigned int records = find_records(at), record = take_below(c, records + 1);
	unsigned int which = take_below(c, 5);
	uint64_t v = 0;

	to = (record ? at[record - 1] : 0) + field[which].at;
	if (to + field[which].bytes > n)
		return;
	memcpy(&v, file + to, field[which].bytes);
	v = choose_number(c, v, size);
	memcpy(file + to, &v, field[which].bytes);
}

/* Takes a record out, doubles it, or puts it into the place before another. */
static void move_record(struct choices *c)
{
	size_t at[RECORDS_MOST], from, bytes, to;
	unsigned int records = find_records(at), k = take_below(c, records);
	unsigned int what = take_below(c, 3);

	if (!records)
		return;
	from = at[k];
	bytes = (k + 1 < records ? at[k + 1] : n) - from;
	to = at[take_below(c, records)];
	if (bytes > sizeof(scrap))
		return;
	memcpy(scrap, file + from, bytes);
	if (what < 2) {
		resize(from, bytes, 0);
		if (to > from)
			to -= bytes;
	}
	if (what > 0 && n + bytes <= sizeof(file)) {
		resize(to, 0, bytes);
		memcpy(file + to, scrap, bytes);
	}
}

/* A record gets other bytes: a frame of zstd that is not what it says, or no frame. */
static void pack_anew(struct choices *c)
{
	size_t at[RECORDS_MOST], bytes, packed;
	unsigned int records = find_records(at), k = take_below(c, records);
	unsigned int kind = take_below(c, 4);
	struct piece p;

	if (!records)
		return;
	memcpy(&p, file + at[k], sizeof(p));
	bytes = take(c, kind == 3 ? 3 : 1) % PIECE_MOST;
	fill_random(plain, bytes, bytes);
	memset(plain, (int)take(c, 1), bytes / 2);
	packed = ZSTD_compress(scrap, sizeof(scrap), plain, bytes, 1);
	if (ZSTD_isError(packed) || kind == 0) {
		memcpy(scrap, plain, bytes);
		packed = bytes;
	}
	if (p.offset == END || n - at[k] - sizeof(p) < p.packed ||
	    n - p.packed + packed > sizeof(file))
		return;
	resize(at[k] + sizeof(p), p.packed, packed);
	memcpy(file + at[k] + sizeof(p), scrap, packed);
	p.packed = (uint32_t)packed;
	if (kind > 1)
		p.bytes = (uint32_t)bytes;
	memcpy(file + at[k], &p, sizeof(p));
}

static void change(struct choices *c, uint64_t size)
{
	size_t at, k;

	switch (take_below(c, 10)) {
	case 0:
		n = choose_place(c);
		break;
	case 1:
		at = choose_place(c);
		k = n;
		resize(at, 0, 1 + take_below(c, 64));
		memset(file + at, (int)take(c, 1), n - k);
		break;
	case 2:
		at = choose_place(c);
		resize(at, 1 + take_below(c, 64), 0);
		break;
	case 3:
		k = 1 + take_below(c, 40);
		if (n + k <= sizeof(file))
			memset(file + n, (int)take(c, 1), k), n += k;
		break;
	case 4: case 5:
		set_field(c, size);
		break;
	case 6:
		move_record(c);
		break;
	case 7:
		pack_anew(c);
		break;
	default:
		at = choose_place(c);
		if (n)
			file[at] ^= (unsigned char)take(c, 1);
	}
}

/* ---- loading ---- */

static void write_file(void)
{
	must_eq(ftruncate(memory, 0), 0);
	must_eq(pwrite(memory, file, n, 0), n);
}

/*
 * Loads into a disk that is large enough or not, with memory or not.  good: what parse() said; if
 * the file is bad, it became so after nbdkit had looked at it.
 */
static void load(struct choices *c, int fd, uint64_t size, bool good)
{
	uint32_t unit = 4096u << take_below(c, 5);
	uint64_t room = !good || size > DISK_MOST ? DISK_MOST : size;
	bool small = !take_below(c, 16), scarce = !take_below(c, 8);
	struct ebb_units *units;
	char cannot[80];
	int err;

	if (small)
		room = 1 + take(c, 2);
	room = (room + unit - 1) / unit * unit;
	units = open_units(room, unit, scarce ? 4096 * (1 + take(c, 1)) : 0);
	failing = scarce ? take_below(c, 8) : 0;
	hear();
	err = dump_load(fd, name, units);
	failing = 0;
	snprintf(cannot, sizeof(cannot), "%s cannot be loaded: ", name);
	if (!err) {
		must_eq(tellings, 0);
		must(good && last <= room);
		must_eq(ebb_units_read(units, 0, got, room), 0);
		must(!memcmp(got, want, room));
	} else {
		must_eq(err, -1);
		if (good)
			must(scarce || last > room);
		must_have_told(good || !strncmp(told, cannot, strlen(cannot)) ? cannot : wrong);
	}
	close_units(units);
}

static int lowest_free_fd(void)
{
	int fd = dup(memory);

	must(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	struct choices c = { input, input + bytes };
	unsigned int fix = take_below(&c, 32), k;
	uint64_t size, told_size = 0;
	int fd, free_fd;
	bool good;

	prepare();
	free_fd = lowest_free_fd();
	size = dump(&c);
	memcpy(was, file, n);
	was_n = n;
	for (k = 0; k < CHANGES_MOST && left(&c) > 4; k++)
		change(&c, size);
	/* Half of the inputs have all sums right, so that what is behind them is reached. */
	if (fix)
		put_sums_right(fix & 16 ? 15 : fix);
	good = parse(&size);
	if (!fix && (n != was_n || memcmp(file, was, n)))
		must(!good);
	write_file();
	hear();
	fd = dump_open(name, &told_size);
	if (good) {
		must(fd >= 0);
		must_eq(tellings, 0);
		must_eq(told_size, size);
	} else {
		must_eq(fd, -1);
		must_have_told(wrong);
		fd = dup(memory);
		must(fd >= 0);
	}
	load(&c, fd, size, good);
	close(fd);
	must_eq(lowest_free_fd(), free_fd);
	return 0;
}
