// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_values_memory.c - memory after most values were deleted at random, without a call.
 *
 * What is left is held against what the live values need: a table into which they alone were put.
 * Nothing here depends on how fast the machine is: what must come is waited for.
 */
#include "mm/shrink.h"
#include "values_rig.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVE_OF 5                       /* one of so many values lives */
#define SOURCE_BYTES ((size_t)4 << 20)
#define WAIT_NS ((u64)60 * 1000000000) /* a tick comes ten times a second */

/* Values of least to most bytes. */
struct kind {
	const char *name;
	u32 count;
	size_t least, most;
	bool keys;
};

static const struct kind kinds[] = {
	{ "100 to 4,000 bytes by id", 50000, 100, 4000, false },
	{ "100 to 4,000 bytes by key", 50000, 100, 4000, true },
	{ "100 bytes by id", 250000, 100, 100, false },
	{ "100 bytes by key", 250000, 100, 100, true },
	{ "64 KiB by id", 900, 65536, 65536, false },
	{ "1 MiB by id", 60, 1 << 20, 1 << 20, false },
	{ "64 KiB to 1 MiB by key", 120, 65536, 1 << 20, true },
};

static unsigned char source[SOURCE_BYTES];

/* Pieces of all kinds of data, so that what is cut out of them packs to a half in the mean. */
void before_all(void)
{
	struct rng r = { use_seed(47) };
	size_t at, n;

	for (at = 0; at < SOURCE_BYTES; at += n) {
		n = 50 + rng_below(&r, 1500);
		if (n > SOURCE_BYTES - at)
			n = SOURCE_BYTES - at;
		fill(source + at, n, rng_next(&r));
	}
}

/* The same for each table of a kind. */
static size_t size_of(const struct kind *k, u32 i)
{
	struct rng r = { i * 2654435761u + 1 };

	return k->least + (k->most > k->least ? rng_below(&r, k->most - k->least) : 0);
}

static bool lives(u32 i)
{
	struct rng r = { i * 40503u + 7 };

	return rng_next(&r) % LIVE_OF == 0;
}

static size_t offset_of(const struct kind *k, u32 i)
{
	struct rng r = { i * 69069u + 5 };

	return rng_below(&r, SOURCE_BYTES - k->most);
}

static void put_values(struct ebb_values *v, const struct kind *k, bool all)
{
	for (u32 i = 0; i < k->count; i++) {
		const unsigned char *data = source + offset_of(k, i);
		size_t n = size_of(k, i);

		if (!all && !lives(i))
			continue;
		must_eq(k->keys ? ebb_values_put_key(v, &i, sizeof(i), data, n, 0) :
				  ebb_values_put(v, i, data, n, 0), 0);
	}
}

static void delete_values(struct ebb_values *v, const struct kind *k)
{
	for (u32 i = 0; i < k->count; i++)
		if (!lives(i))
			must_eq(k->keys ? ebb_values_delete_key(v, &i, sizeof(i)) :
					  ebb_values_delete(v, i), 0);
}

static void compare_values(struct ebb_values *v, const struct kind *k)
{
	unsigned char *buf = malloc(k->most);
	size_t n;

	for (u32 i = 0; i < k->count; i++) {
		int err = k->keys ? ebb_values_get_key(v, &i, sizeof(i), buf, k->most, &n) :
				    ebb_values_get(v, i, buf, k->most, &n);

		must_eq(err, lives(i) ? 0 : -ENOENT);
		if (!err)
			must(n == size_of(k, i) && !memcmp(buf, source + offset_of(k, i), n));
	}
	free(buf);
}

/* Pages of the zone that have memory, and tables and buffers. */
static u64 bytes_of(struct ebb_values *v)
{
	struct ebb_stat store = { .struct_size = sizeof(store) };

	must_eq(ebb_stat(ebb_values_store(v), &store), 0);
	return store.zone_bytes + store.meta_bytes + stat_of(v).meta_bytes;
}

/* The least that the live values need: a full compaction, and all that is free given on. */
static u64 fresh_bytes(const struct kind *k)
{
	struct ebb_values *v = open_values(NULL);
	u64 bytes;

	put_values(v, k, false);
	must_eq(ebb_compact(ebb_values_store(v), NULL), 0);
	must_eq(ebb_trim(ebb_values_store(v), NULL), 0);
	bytes = bytes_of(v);
	close_values(v);
	return bytes;
}

/* Bytes of anonymous memory that the process has; 0: the system does not tell. */
static u64 anonymous_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	unsigned long long kib = 0;
	char line[200];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Anonymous: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib << 10;
}

/* Waits until what() is at most this; what it is then. */
static u64 wait_for(u64 (*what)(struct ebb_values *v), struct ebb_values *v, u64 most)
{
	u64 until = ktime_get_ns() + WAIT_NS, now = what(v);

	while (now > most && ktime_get_ns() < until) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		now = what(v);
	}
	return now;
}

/* Larger pages leave more of each size class unused, so they are not held to the bound. */
static bool is_held_to_it(void)
{
	return PAGE_SHIFT == 12;
}

CASE(the_live_need_what_they_would_need_alone)
{
	for (unsigned int i = 0; i < ARRAY_LEN(kinds); i++) {
		struct kind k = kinds[i];
		struct ebb_values *v;
		u64 fresh, most, full;

		if (SHADOWED)
			k.count /= 8;
		fresh = fresh_bytes(&k);
		most = fresh / 100 * 115;
		v = open_values(NULL);
		put_values(v, &k, true);
		full = bytes_of(v);
		delete_values(v, &k);
		if (is_held_to_it() && !SHADOWED) {
			u64 left = wait_for(bytes_of, v, most);

			printf("# %s: %.1f MiB, then %.1f, put anew %.1f\n", k.name,
			       (double)full / 1048576, (double)left / 1048576,
			       (double)fresh / 1048576);
			must_be_at_most(left, most);
		}
		compare_values(v, &k);
		close_values(v);
	}
}

/* While deletes go on, a pass of compaction may find that all holes cannot be closed. */
static bool deleting;

void __real_shrink_look(struct shrink *sh, u64 room);
void __wrap_shrink_look(struct shrink *sh, u64 room);

void __wrap_shrink_look(struct shrink *sh, u64 room)
{
	/* A look anew forgets the pass; so does the first, which had none. */
	bool anew = !sh->until;

	__real_shrink_look(sh, room);
	if (anew || !READ_ONCE(deleting))
		return;
	sh->stuck = (u64)1 << 40;
	sh->until = UINT64_MAX;
	WRITE_ONCE(sh->sparse, (u64)0);
}

CASE(what_a_pass_among_deletes_found_is_not_believed_after_them)
{
	struct kind k = kinds[0];
	struct ebb_values *v = open_values(NULL);
	u64 most, left, looks = 0, until = ktime_get_ns() + WAIT_NS;

	if (SHADOWED)
		k.count /= 8;
	most = fresh_bytes(&k) / 100 * 115;
	WRITE_ONCE(deleting, true);
	put_values(v, &k, true);
	delete_values(v, &k);
	/* Ticks that meet something: so that the last one before the end is such a one. */
	while (looks++ < 50 && ktime_get_ns() < until) {
		must_eq(ebb_values_put(v, k.count, "x", 1, 0), 0);
		must_eq(ebb_values_delete(v, k.count), 0);
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	WRITE_ONCE(deleting, false);
	left = wait_for(bytes_of, v, most);
	if (is_held_to_it() && !SHADOWED)
		must_be_at_most(left, most);
}

/* ---- what the system says ---- */

static u64 *base;

static u64 resident(struct ebb_values *v)
{
	u64 now = anonymous_bytes();

	(void)v;
	return now > *base ? now - *base : 0;
}

/* A process of its own: what another table left with malloc() does not count. */
static u64 resident_of(const struct kind *k, u64 most)
{
	u64 *told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	u64 bytes;
	int status;

	must(told != MAP_FAILED && pid >= 0);
	if (!pid) {
		struct ebb_values *v;

		base = &told[1];
		*base = anonymous_bytes();
		v = open_values(NULL);
		put_values(v, k, most != 0);
		if (most) {
			delete_values(v, k);
			told[0] = wait_for(resident, v, most);
		} else {
			must_eq(ebb_trim(ebb_values_store(v), NULL), 0);
			told[0] = resident(v);
		}
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && status == 0);
	bytes = told[0];
	munmap(told, 4096);
	return bytes;
}

CASE(the_system_has_the_memory_back)
{
	const struct kind *k = &kinds[0];
	u64 fresh, left;

	if (SHADOWED || !is_held_to_it() || !anonymous_bytes())
		skip_because("skipped: this build, or this system, does not tell what is resident");
	fresh = resident_of(k, 0);
	left = resident_of(k, fresh / 100 * 115);
	printf("# resident: %.1f MiB, put anew %.1f\n", (double)left / 1048576,
	       (double)fresh / 1048576);
	must_be_at_most(left, fresh / 100 * 115);
}
