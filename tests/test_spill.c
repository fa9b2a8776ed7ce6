// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_spill.c - what a cache evicts goes to a file and comes back; whatever happens to the file,
 * an answer is what was put, or a miss.
 */
#include "cache_rig.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char path[100];

/* ---- what the library asks of the disk ---- */

static u32 hang;                /* writes do */
static u32 hung;
static u32 writes, syncs;       /* that ended */
static u32 writes_before_sync;

long __real_syscall(long n, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	long ret;

	if (n == SYS_pwrite64 && READ_ONCE(hang)) {
		__atomic_fetch_add(&hung, 1, __ATOMIC_SEQ_CST);
		while (READ_ONCE(hang))
			usleep(1000);
	}
	ret = __real_syscall(n, a, b, c, d, e, f);
	if (n == SYS_pwrite64) {
		__atomic_fetch_add(&writes, 1, __ATOMIC_SEQ_CST);
		if (!READ_ONCE(syncs))
			WRITE_ONCE(writes_before_sync, writes);
	} else if (n == SYS_fdatasync) {
		__atomic_fetch_add(&syncs, 1, __ATOMIC_SEQ_CST);
	}
	return ret;
}

void before_each(void)
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	snprintf(path, sizeof(path), "%s/ebb-spill-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(path);
	must(fd >= 0);
	must_eq(close(fd), 0);
}

void clean_up(void)
{
	unlink(path);
}

static int try_open(struct ebb_cache **c, u64 capacity, u64 spill)
{
	struct ebb_cache_config cfg;

	ebb_cache_config_init(&cfg);
	cfg.capacity = capacity;
	cfg.spill = path;
	cfg.spill_capacity = spill;
	return open_cache_of(c, &cfg);
}

static struct ebb_cache *open_with(u64 capacity, u64 spill)
{
	struct ebb_cache *c;

	must_eq(try_open(&c, capacity, spill), 0);
	return c;
}

/* Keys 1 to n, of some KiB each. */
static void put_many(struct ebb_cache *c, u64 n)
{
	static unsigned char data[150000];
	u64 key;

	for (key = 1; key <= n; key++) {
		must_eq(put(c, key, data, make(data, key, key), key), 0);
		/* So that the file keeps up. */
		if (key % 64 == 0)
			ebb_cache_flush(c);
	}
	ebb_cache_flush(c);
}

/* How many of them are there; each is what was put. */
static u64 get_many(struct ebb_cache *c, u64 n)
{
	static unsigned char data[150000], buf[150000];
	u64 key, hits = 0, evicted = stat_of(c).evicted;
	size_t bytes;

	for (key = 1; key <= n; key++) {
		int err = get(c, key, buf, sizeof(buf), &bytes);

		/* What comes back evicts others: the file keeps up with them, too. */
		if (stat_of(c).evicted >= evicted + 64) {
			ebb_cache_flush(c);
			evicted = stat_of(c).evicted;
		}
		if (err) {
			must_eq(err, -ENOENT);
			continue;
		}
		must_eq(bytes, make(data, key, key));
		must(!memcmp(buf, data, bytes));
		hits++;
	}
	return hits;
}

#define MANY 12000u     /* some 14 MiB */

CASE(what_was_evicted_comes_back)
{
	struct ebb_cache *c = open_with(8 * MIB, 256 * MIB);
	struct ebb_cache_stat st;

	put_many(c, MANY);
	st = stat_of(c);
	must(st.evicted > MANY / 4);
	must(st.spilled > st.evicted / 10 * 9);
	must_eq(st.spill_errors, 0);
	/* Large values do not go there; all others are somewhere. */
	must(get_many(c, MANY) > MANY / 100 * 95);
	must(stat_of(c).spill_hits > 1000);
	must_eq(stat_of(c).spill_bad, 0);
	must_be_at_most(stat_of(c).used_bytes, 8 * MIB / 100 * 106);
}

CASE(what_is_deleted_or_replaced_does_not_come_back)
{
	struct ebb_cache *c = open_with(8 * MIB, 256 * MIB);
	static unsigned char buf[150000];
	struct ebb_cache_pin *pin;
	u64 key, taken = 0, deleted = 0;
	size_t n;

	put_many(c, MANY);
	for (key = 1; key <= MANY; key += 3) {
		deleted += !ebb_cache_delete(c, &key, sizeof(key));
		must_eq(get(c, key, buf, sizeof(buf), &n), -ENOENT);
	}
	must(deleted > MANY / 4);
	for (key = 2; key <= MANY; key += 3) {
		must_eq(put(c, key, "new", 3, 0), 0);
		must_eq(get(c, key, buf, sizeof(buf), &n), 0);
		must_eq(n, 3);
		must_eq(ebb_cache_delete(c, &key, sizeof(key)), 0);
		must_eq(get(c, key, buf, sizeof(buf), &n), -ENOENT);
	}
	for (key = 3; key <= MANY; key += 3) {
		if (ebb_cache_pin(c, &key, sizeof(key), EBB_CACHE_TAKE, &pin))
			continue;
		taken++;
		must_eq(pin->charge, key);
		ebb_cache_unpin(c, pin);
		must_eq(get(c, key, buf, sizeof(buf), &n), -ENOENT);
	}
	must(taken > MANY / 4);
	must_eq(stat_of(c).values, 0);
	must_eq(stat_of(c).spill_values, 0);
}

CASE(the_oldest_go_when_the_file_is_full)
{
	struct ebb_cache *c = open_with(8 * MIB, MIB);
	struct stat st;

	put_many(c, MANY);
	must_eq(stat(path, &st), 0);
	must_be_at_most(st.st_size, MIB + SPILL_HEAD);
	must(stat_of(c).spilled > 2000);
	must_be_at_most(stat_of(c).spill_values, 1500);
	must(get_many(c, MANY) > 300);
	must(stat_of(c).spill_hits > 50);
	must_eq(stat_of(c).spill_bad, 0);
	must_eq(stat_of(c).spill_errors, 0);
}

CASE(the_tables_of_a_large_spill_are_bounded)
{
	struct ebb_cache *c = open_with(8 * MIB, 256 * MIB);
	u64 key;

	for (key = 0; key < 150000; key++) {
		must_eq(put(c, key, &key, sizeof(key), 0), 0);
		if (key % 2048 == 0)
			ebb_cache_flush(c);
	}
	must_be_at_most(stat_of(c).spill_values * sizeof(struct cache_entry),
			8 * MIB / 8 + 16 * 32);
	must_be_at_most(stat_of(c).used_bytes, 8 * MIB / 100 * 106);
}

/* All that is in memory goes to the file, in a chunk of its own. */
static void spill_all(struct ebb_cache *c)
{
	struct scratch *s = scratch_get_surely(&c->blocks);

	/* A put's last try evicts all. */
	cache_make_more_room(c, s, 1, 8);
	scratch_put(&c->blocks, s);
	ebb_cache_flush(c);
}

CASE(a_smaller_capacity_has_smaller_tables)
{
	struct ebb_cache *c = open_with(16 * MIB, 64 * MIB);
	const u64 puts = 50000;
	u64 key;

	for (key = 1; key <= puts; key++) {
		must_eq(put(c, key, &key, sizeof(key), 0), 0);
		/* No more than a chunk has room for. */
		if (key % 1000 == 0)
			spill_all(c);
	}
	must_eq(stat_of(c).spill_values, puts);
	must(puts * sizeof(struct cache_entry) > 8 * MIB / 8 / 2 * 3);
	/* Nothing is in memory that could be evicted. */
	must_eq(stat_of(c).values, 0);
	must_eq(ebb_cache_set_capacity(c, 8 * MIB), 0);
	must_be_at_most(stat_of(c).spill_values * sizeof(struct cache_entry), 8 * MIB / 8);
	is_sound(c);
	must_eq(ebb_cache_set_capacity(c, 0), 0);
	must_eq(stat_of(c).spill_values, 0);
}

/* ---- what happens to files ---- */

/* Flips, cuts and exchanges bytes of the file. */
static void damage(struct rng *r, unsigned int kind)
{
	int fd = open(path, O_RDWR);
	static unsigned char a[5000], b[5000];
	off_t size, at, other;
	unsigned int i;

	must(fd >= 0);
	size = lseek(fd, 0, SEEK_END);
	for (i = 0; i < 400 && size > 20000; i++) {
		at = (off_t)rng_below(r, (u64)size - sizeof(a));
		other = (off_t)rng_below(r, (u64)size - sizeof(a));
		must_eq(pread(fd, a, sizeof(a), at), sizeof(a));
		must_eq(pread(fd, b, sizeof(b), other), sizeof(b));
		if (kind == 0) {
			a[0] ^= (unsigned char)(1u << rng_below(r, 8));
			must_eq(pwrite(fd, a, 1, at), 1);
		} else if (kind == 1) {
			must_eq(pwrite(fd, a, sizeof(a), other), sizeof(a));
		} else {
			memset(a, 0, sizeof(a));
			must_eq(pwrite(fd, a, sizeof(a), at), sizeof(a));
		}
	}
	if (kind == 3)
		must_eq(ftruncate(fd, size / 2), 0);
	if (kind == 4)
		must_eq(ftruncate(fd, 0), 0);
	close(fd);
}

CASE(a_damaged_file_is_a_miss)
{
	struct rng r = { use_seed(51) };
	unsigned int kind;

	for (kind = 0; kind < 5; kind++) {
		struct ebb_cache *c;
		u64 before;

		/* A small dose: bytes that are flipped. */
		if (scaled(100) < 25 && kind)
			continue;
		c = open_with(8 * MIB, 256 * MIB);
		put_many(c, MANY);
		before = stat_of(c).spill_values;
		damage(&r, kind);
		get_many(c, MANY);
		must(stat_of(c).spill_bad >= (kind == 0 ? 50 : 100));
		must_be_at_most(stat_of(c).spill_bad, before);
		/* It goes on: what is written now can be read again. */
		put_many(c, MANY / 3);
		must(get_many(c, MANY / 3) > MANY / 6);
		close_cache(c);
	}
}

CASE(a_removed_file_does_no_harm)
{
	struct ebb_cache *c = open_with(8 * MIB, 256 * MIB);

	put_many(c, MANY / 2);
	must_eq(unlink(path), 0);
	put_many(c, MANY);
	must(get_many(c, MANY) > MANY / 100 * 95);
}

CASE(an_old_version_in_the_file_is_a_miss)
{
	struct ebb_cache *c = open_with(8 * MIB, 4 * MIB);
	static unsigned char old[4 * MIB + SPILL_HEAD];
	unsigned int round;
	int fd;

	/* A disk that loses writes: what is read is of an earlier round, or of another process. */
	for (round = 0; round < 2; round++) {
		put_many(c, MANY);
		fd = open(path, O_RDWR);
		must(fd >= 0);
		if (round)
			must_eq(pwrite(fd, old, sizeof(old), 0), sizeof(old));
		else
			must(pread(fd, old, sizeof(old), 0) > 0);
		close(fd);
	}
	get_many(c, MANY);
	must_be_at_most(stat_of(c).spill_hits, 300);
	must(stat_of(c).spill_bad > 200);
}

CASE(a_lost_write_over_an_older_record_is_a_miss)
{
	struct ebb_cache *c = open_with(8 * MIB, 4 * MIB);
	static unsigned char old[SPILL_CHUNK];
	char buf[10];
	ssize_t bytes;
	size_t n;
	u64 key;
	int fd = open(path, O_RDWR);

	must(fd >= 0);
	must_eq(put(c, 1, "old", 3, 0), 0);
	spill_all(c);
	bytes = pread(fd, old, SPILL_CHUNK, SPILL_HEAD + SPILL_CHUNK);
	must(bytes > 0);
	for (key = 2; key <= 4 * MIB / SPILL_CHUNK; key++) {
		must_eq(put(c, key, "other", 5, 0), 0);
		spill_all(c);
	}
	must_eq(put(c, 1, "new", 3, 0), 0);
	spill_all(c);
	/* A record of the same key was at the same place of the file, and is there again. */
	must_eq(stat_of(c).spill_values, 4 * MIB / SPILL_CHUNK);
	must_eq(pwrite(fd, old, (size_t)bytes, SPILL_HEAD + SPILL_CHUNK), bytes);
	close(fd);
	must_eq(get(c, 1, buf, sizeof(buf), &n), -ENOENT);
	must_eq(stat_of(c).spill_bad, 1);
}

/* What a record says of its length is not believed: nothing is written behind the room for it. */
CASE(a_record_that_says_it_is_longer_is_a_miss)
{
	struct ebb_cache *c = open_with(8 * MIB, 4 * MIB);
	static unsigned char rest[SPILL_CHUNK], room[BLOCK_BYTES + 8];
	const u32 bytes = sizeof(room);
	u64 at, hash;
	char buf[10];
	size_t i, n;
	int fd = open(path, O_RDWR);

	must(fd >= 0);
	must_eq(put(c, 1, "old", 3, 0), 0);
	spill_all(c);
	n = (size_t)pread(fd, rest, sizeof(rest), SPILL_HEAD + SPILL_CHUNK);
	must(n > 0 && n < 200);
	/* Behind the sum. */
	memcpy(&at, rest + 8, sizeof(at));
	memcpy(&hash, rest + 16, sizeof(hash));
	memcpy(rest + 24, &bytes, sizeof(bytes));
	must_eq(pwrite(fd, rest, sizeof(rest), SPILL_HEAD + SPILL_CHUNK), sizeof(rest));
	close(fd);
	memset(room, 7, sizeof(room));
	must_eq(cache_spill_get(c->spill, hash, at, room, BLOCK_BYTES, &n), -ESTALE);
	for (i = BLOCK_BYTES; i < sizeof(room); i++)
		must_eq(room[i], 7);
	must_eq(get(c, 1, buf, sizeof(buf), &n), -ENOENT);
	must_eq(stat_of(c).spill_bad, 2);
}

/* In a child, since limits are of a process.  The line of what is wrong, or 0. */
#define OR_LINE(cond) do { if (!(cond)) return __LINE__ & 0x7f; } while (0)

static rlim_t file_limit;

static int with_limit_of_file_size(void)
{
	static unsigned char data[150000], buf[150000];
	const struct rlimit rl = { file_limit, file_limit };
	struct ebb_cache *c;
	size_t bytes, n;
	u64 key;

	/* No signal of it may end us. */
	signal(SIGXFSZ, SIG_DFL);
	OR_LINE(!setrlimit(RLIMIT_FSIZE, &rl));
	OR_LINE(!try_open(&c, 8 * MIB, 256 * MIB));
	for (key = 1; key <= MANY; key++) {
		OR_LINE(!put(c, key, data, make(data, key, key), key));
		if (key % 64 == 0)
			ebb_cache_flush(c);
	}
	for (key = 1; key <= MANY; key++)
		if (!get(c, key, buf, sizeof(buf), &bytes)) {
			n = make(data, key, key);
			OR_LINE(n == bytes && !memcmp(data, buf, n));
		}
	OR_LINE(stat_of(c).spill_errors);
	OR_LINE(stat_of(c).spill_dropped);
	OR_LINE(!ebb_cache_check(c, NULL, 0));
	close_cache(c);
	return 0;
}

CASE(a_file_that_cannot_grow_does_no_harm)
{
	static const rlim_t limits[] = { 0, 100, 300000, 1000000 };

	for (unsigned int i = 0; i < ARRAY_LEN(limits); i++) {
		file_limit = limits[i];
		child_does(with_limit_of_file_size);
	}
}

CASE(a_device_without_room_does_no_harm)
{
	struct ebb_cache *c;
	int full = open("/dev/full", O_RDWR);

	if (full < 0)
		skip();
	c = open_with(8 * MIB, 256 * MIB);
	/* Each write fails from now on. */
	must_eq(dup2(full, c->spill->fd), c->spill->fd);
	close(full);
	put_many(c, MANY);
	must(stat_of(c).spill_errors > 0);
	must_be_at_most(stat_of(c).spill_errors, 20);
	must(stat_of(c).spill_dropped > 100);
	get_many(c, MANY);
}

/* ---- a slow file ---- */

static bool stop_putting;

static void *put_on_and_on(void *spill)
{
	static unsigned char data[BLOCK_BYTES];
	u64 at;

	while (!__atomic_load_n(&stop_putting, __ATOMIC_RELAXED))
		cache_spill_put(spill, 1, data, sizeof(data), &at);
	return NULL;
}

CASE(a_flush_ends_while_others_evict)
{
	struct ebb_cache *c = open_with(8 * MIB, 64 * MIB);
	int slow = open(path, O_RDWR | O_DSYNC);
	unsigned int i, long_ones = 0;
	pthread_t t[4];
	u64 filled;

	/* A chunk is full again before the one before is written. */
	must(slow >= 0);
	must_eq(dup2(slow, c->spill->fd), c->spill->fd);
	close(slow);
	stop_putting = false;
	for (i = 0; i < ARRAY_LEN(t); i++)
		must_eq(pthread_create(&t[i], NULL, put_on_and_on, c->spill), 0);
	for (i = 0; i < 50; i++) {
		usleep(2000);
		filled = READ_ONCE(c->spill->filled);
		ebb_cache_flush(c);
		long_ones += READ_ONCE(c->spill->filled) - filled > 4;
	}
	__atomic_store_n(&stop_putting, true, __ATOMIC_RELAXED);
	for (i = 0; i < ARRAY_LEN(t); i++)
		must_eq(pthread_join(t[i], NULL), 0);
	/* Who flushes may be kept from a CPU now and then. */
	must_be_at_most(long_ones, 4);
}

/* ---- whose the file is ---- */

CASE(a_second_open_is_refused)
{
	struct ebb_cache *c = open_with(8 * MIB, 4 * MIB), *other;

	must_eq(try_open(&other, 8 * MIB, 4 * MIB), -EBUSY);
	put_many(c, MANY);
	must_eq(try_open(&other, 8 * MIB, 4 * MIB), -EBUSY);
	must(get_many(c, MANY) > 1000);
	close_cache(c);
	c = open_with(8 * MIB, 4 * MIB);
	must_eq(get_many(c, MANY), 0);
}

CASE(what_a_crash_left_is_taken_over)
{
	static char copy[sizeof(path) + 5];
	struct ebb_cache *c = open_with(8 * MIB, 4 * MIB);
	char command[300];

	put_many(c, MANY);
	snprintf(copy, sizeof(copy), "%s.copy", path);
	snprintf(command, sizeof(command), "cp %s %s", path, copy);
	must_eq(system(command), 0);
	close_cache(c);
	must_eq(rename(copy, path), 0);
	c = open_with(8 * MIB, 4 * MIB);
	must_eq(get_many(c, MANY), 0);
	put_many(c, MANY);
	must(get_many(c, MANY) > 1000);
}

CASE(a_file_of_something_else_is_left_alone)
{
	static const char text[] = "a letter to my aunt, of which I have no copy";
	struct ebb_cache *c;
	char got[100] = "";
	FILE *f = fopen(path, "w");

	must(f);
	must(fputs(text, f) >= 0);
	must_eq(fclose(f), 0);
	must_eq(try_open(&c, 8 * MIB, 4 * MIB), -EEXIST);
	f = fopen(path, "r");
	must(f);
	must(fgets(got, sizeof(got), f));
	must_eq(fclose(f), 0);
	must(!strcmp(got, text));
}

CASE(the_head_is_on_the_disk_before_the_first_chunk)
{
	struct ebb_cache *c = open_with(8 * MIB, 64 * MIB);

	WRITE_ONCE(writes, 0);
	WRITE_ONCE(syncs, 0);
	put_many(c, MANY);
	must_eq(ebb_cache_flush(c), 0);
	must(writes > 2);
	must_eq(syncs, 1);
	must_eq(writes_before_sync, 1);
}

/* Disks that hang keep the caches that spill to them from spilling, and nobody from other work. */
#define HANGING 8

CASE(a_disk_that_hangs_holds_up_nobody_else)
{
	struct ebb_cache *hangs[HANGING], *well;
	static unsigned char data[4000];
	unsigned int i, threads = nr_cpu_ids / 4 + 2, n = threads + 2;
	u64 from, k;

	n = n < HANGING ? n : HANGING;
	WRITE_ONCE(hung, 0);
	WRITE_ONCE(hang, 1);
	for (i = 0; i < n; i++) {
		hangs[i] = open_with(8 * MIB, 4 * MIB);
		must_eq(unlink(path), 0);
		for (k = 0; k < 4000; k++) {
			fill(data, sizeof(data), k * 5);
			must_eq(put(hangs[i], k, data, sizeof(data), 0), 0);
		}
		must(stat_of(hangs[i]).spill_dropped > 0);
	}
	for (from = ktime_get_ns(); READ_ONCE(hung) < n && from + 5000000000u > ktime_get_ns();)
		usleep(1000);
	must_eq(READ_ONCE(hung), n);
	/* What is deleted comes back without a call: somebody else's, and theirs. */
	well = open_cache(32 * MIB, NULL);
	for (k = 0; k < 4000; k++) {
		fill(data, sizeof(data), k * 5);
		must_eq(put(well, k, data, sizeof(data), 0), 0);
	}
	for (k = 0; k < 4000; k++)
		if (k % 5) {
			must_eq(ebb_cache_delete(well, &k, sizeof(k)), 0);
			ebb_cache_delete(hangs[0], &k, sizeof(k));
		}
	for (from = ktime_get_ns(); stat_of(well).pool_bytes > 7 * MIB ||
	     stat_of(hangs[0]).pool_bytes > 4 * MIB; usleep(10000))
		must(from + 10000000000u > ktime_get_ns());
	WRITE_ONCE(hang, 0);
	for (i = 0; i < n; i++)
		close_cache(hangs[i]);
}

/* test_private_file.c has the rest. */
CASE(nobody_else_may_read_the_file)
{
	struct stat st;

	must_eq(chmod(path, 0644), 0);
	open_with(8 * MIB, 4 * MIB);
	must_eq(stat(path, &st), 0);
	must_eq(st.st_mode & 07777, 0600);
}

CASE(a_child_does_not_keep_the_file)
{
	struct ebb_cache *c = open_with(8 * MIB, 4 * MIB);
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	must(pid >= 0);
	if (!pid) {
		ebb_cache_close(c);
		pause();
		_exit(0);
	}
	put_many(c, 1000);
	close_cache(c);
	c = open_with(8 * MIB, 4 * MIB);
	close_cache(c);
	must_eq(kill(pid, SIGKILL), 0);
	must_eq(waitpid(pid, &status, 0), pid);
}

/* ---- what comes in between ---- */

static struct between {
	struct ebb_cache *c;
	bool evicts;
	host_a64 tid;
	char got[10];
	size_t bytes;
	int err;
} between;

static void *evict_or_get(void *arg)
{
	struct between *b = arg;
	struct scratch *s = scratch_get_surely(&b->c->blocks);

	host_a64_set_release(&b->tid, (u64)syscall(SYS_gettid));
	if (b->evicts)
		cache_make_more_room(b->c, s, 1, 0);
	else
		b->err = get(b->c, 1, b->got, sizeof(b->got), &b->bytes);
	scratch_put(&b->c->blocks, s);
	return NULL;
}

/* Until the thread waits for the lock that we have. */
static void wait_until_asleep(const host_a64 *tid)
{
	unsigned int tries = 0;
	char name[60], state = 'R';

	while (state != 'S' && tries++ < 100000) {
		FILE *f;

		snprintf(name, sizeof(name), "/proc/self/task/%d/stat",
			 (int)host_a64_read_acquire(tid));
		f = fopen(name, "r");
		if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			state = 'R';
		if (f)
			fclose(f);
		sched_yield();
	}
}

/* Does it to key 1 while a thread that evicts or gets it is on its way to the file, or from it. */
static void in_between(bool evicts, bool replaces)
{
	static const u64 key = 1;
	pthread_t thread;

	mutex_lock(&between.c->spill->lock);
	between.evicts = evicts;
	host_a64_set(&between.tid, 0);
	must_eq(pthread_create(&thread, NULL, evict_or_get, &between), 0);
	wait_until_asleep(&between.tid);
	if (replaces)
		must_eq(put(between.c, key, "new", 3, 0), 0);
	else
		must_eq(ebb_cache_delete(between.c, &key, sizeof(key)), 0);
	mutex_unlock(&between.c->spill->lock);
	must_eq(pthread_join(thread, NULL), 0);
	is_sound(between.c);
}

CASE(what_is_replaced_on_its_way_does_not_come_back)
{
	static char buf[10];
	size_t n;

	between.c = open_with(8 * MIB, 4 * MIB);
	must_eq(put(between.c, 1, "old", 3, 0), 0);
	in_between(true, true);
	must_eq(get(between.c, 1, buf, sizeof(buf), &n), 0);
	must(n == 3 && !memcmp(buf, "new", 3));
	in_between(true, false);
	must_eq(get(between.c, 1, buf, sizeof(buf), &n), -ENOENT);
}

CASE(what_is_deleted_on_its_way_back_does_not_come_back)
{
	static char buf[10];
	unsigned int i;
	size_t n;

	between.c = open_with(8 * MIB, 4 * MIB);
	for (i = 0; i < 2; i++) {
		must_eq(put(between.c, 1, "old", 3, 0), 0);
		spill_all(between.c);
		must_eq(stat_of(between.c).spill_values, 1);
		in_between(false, i);
		/* It was asked for before. */
		must(between.err == -ENOENT || (between.bytes == 3 && !memcmp(between.got, "old", 3)));
		must_eq(get(between.c, 1, buf, sizeof(buf), &n), i ? 0 : -ENOENT);
		must(!i || !memcmp(buf, "new", 3));
	}
}

/* ---- all at once ---- */

CASE(an_oracle_agrees)
{
	struct ebb_cache *c = open_with(8 * MIB, 4 * MIB);

	random_operations_agree_with_an_array(c, 52);
	must(stat_of(c).spill_hits || scaled(100) < 100);
	must_eq(stat_of(c).spill_bad, 0);
}

CASE(threads_agree)
{
	struct ebb_cache *c = open_with(8 * MIB, 8 * MIB);

	threads_see_whole_values_and_no_old_ones(c);
	if (scaled(100) >= 100)
		must(stat_of(c).spill_hits);
}
