/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * support.h - what every test program uses: seeds, scaled step counts, page contents that a
 * number regenerates, a page source that must get everything back, and memory that faults one
 * byte past its end.
 *
 *   EBB_TEST_SCALE   percent of the steps of long tests, 100 if unset
 *   EBB_TEST_SEED    replaces every seed; a failure prints the one it had
 *
 * must*() fail the test that runs; from threads use what they report through (test_threads.c).
 */
#ifndef EBB_TESTS_SUPPORT_H
#define EBB_TESTS_SUPPORT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "home/pcp.h"
#include "mm/release.h"
#include "home/zone.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ---- the release stage ---- */

/* Nothing is drained but by who asks for it, until let_workers(). */
static inline void hold_workers(struct release *r)
{
	for (unsigned int k = 0; k < nr_node_ids; k++)
		for (unsigned int i = 0; i < r->node[k].nworkers; i++)
			host_user_work_hold(&r->node[k].worker[i].work);
	host_user_work_hold(&r->disarm);
}

static inline void let_workers(struct release *r)
{
	host_user_work_let(&r->disarm);
	for (unsigned int k = 0; k < nr_node_ids; k++)
		for (unsigned int i = 0; i < r->node[k].nworkers; i++)
			host_user_work_let(&r->node[k].worker[i].work);
}

static inline struct release_stats stats_of(struct release *r)
{
	struct release_stats st;

	release_stats(r, &st);
	return st;
}

/* ---- this build, and this machine ---- */

/* A sanitizer has address space and memory of its own, and takes its time. */
#if defined(HOST_USER_ASAN) || defined(HOST_USER_TSAN)
#define SHADOWED true
#else
#define SHADOWED false
#endif

/* scripts/check shows it at the end. */
static inline void skip_because(const char *why)
{
	print_message("# %s\n", why);
	skip();
}

/* ---- seeds and failures ---- */

static uint64_t test_seed;

static inline unsigned long scaled(unsigned long steps)
{
	const char *percent = getenv("EBB_TEST_SCALE");
	unsigned long n = percent ? steps * strtoul(percent, NULL, 10) / 100 : steps;

	return n ? n : 1;
}

/* The seed to use, and to be named if the test fails. */
static inline uint64_t use_seed(uint64_t seed)
{
	const char *given = getenv("EBB_TEST_SEED");

	test_seed = given ? strtoull(given, NULL, 0) : seed;
	return test_seed;
}

__attribute__((noreturn)) static inline void
must_failed(const char *file, int line, const char *what, long long got, long long want)
{
	printf("# %s:%d: %s: %lld (0x%llx), expected %lld; EBB_TEST_SEED=0x%" PRIx64 "\n", file, line,
	       what, got, got, want, test_seed);
	fflush(stdout);
	_fail(file, line);
	abort();
}

#define must(cond)                                                                            \
	do {                                                                                  \
		if (!(cond))                                                                  \
			must_failed(__FILE__, __LINE__, #cond, 0, 1);                         \
	} while (0)

#define must_eq(expr, value)                                                                  \
	do {                                                                                  \
		long long got_ = (long long)(expr), want_ = (long long)(value);               \
		if (got_ != want_)                                                            \
			must_failed(__FILE__, __LINE__, #expr, got_, want_);                  \
	} while (0)

#define must_be_at_most(expr, value)                                                          \
	do {                                                                                  \
		long long got_ = (long long)(expr), want_ = (long long)(value);               \
		if (got_ > want_)                                                             \
			must_failed(__FILE__, __LINE__, #expr " is past " #value, got_, want_); \
	} while (0)

/* For what answers NULL or a sentence: pool_check(), store_check(). */
#define must_hold(check)                                                                      \
	do {                                                                                  \
		const char *why_ = (check);                                                   \
		if (why_)                                                                     \
			must_failed(__FILE__, __LINE__, why_, 0, 1);                          \
	} while (0)

/* ---- random numbers and contents ---- */

struct rng {
	uint64_t s;
};

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

/* Bytes that do not compress, the same ones for the same seed. */
static inline void fill_random(void *buf, size_t n, uint64_t seed)
{
	struct rng r = { seed };
	uint64_t w;

	for (; n >= sizeof(w); n -= sizeof(w), buf = (char *)buf + sizeof(w)) {
		w = rng_next(&r);
		memcpy(buf, &w, sizeof(w));
	}
	w = rng_next(&r);
	memcpy(buf, &w, n);
}

static inline void fill_word(void *page, uint64_t word)
{
	size_t i;

	for (i = 0; i < PAGE_SIZE; i += sizeof(word))
		memcpy((char *)page + i, &word, sizeof(word));
}

/*
 * A page of a kind that seed chooses: one word, incompressible, or anything between.  Two
 * seeds give two different pages but for some pages of one word.
 */
static inline void fill_page(void *page, uint64_t seed)
{
	struct rng r = { seed };
	uint64_t kind = rng_below(&r, 16);
	size_t part = rng_below(&r, PAGE_SIZE), i;

	if (kind == 0) {
		fill_word(page, rng_below(&r, 4));
	} else if (kind == 1) {
		fill_word(page, rng_next(&r));
	} else if (kind <= 3) {
		fill_random(page, PAGE_SIZE, seed);
	} else {
		for (i = 0; i < PAGE_SIZE; i++)
			((unsigned char *)page)[i] = (unsigned char)("compressed memory "[i % 18] + seed % 5);
		fill_random(page, part, seed);
		memcpy((char *)page + PAGE_SIZE - sizeof(seed), &seed, sizeof(seed));
	}
}

/* ---- memory whose next byte faults ---- */

#define GUARD_PAGE ((size_t)65536)

static inline unsigned char *guard_alloc(size_t n)
{
	size_t body = (n + GUARD_PAGE - 1) & ~(GUARD_PAGE - 1);
	unsigned char *p = mmap(NULL, body + GUARD_PAGE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED);
	must_eq(mprotect(p + body, GUARD_PAGE, PROT_NONE), 0);
	return p + body - n;
}

static inline void guard_free(unsigned char *p, size_t n)
{
	size_t body = (n + GUARD_PAGE - 1) & ~(GUARD_PAGE - 1);

	munmap(p + n - body, body + GUARD_PAGE);
}

/* ---- a page source with its lists ---- */

struct source {
	struct host_pages *zone;
	struct pcp pcp;
	struct pages pages;     /* of zone; no reserve */
};

/* For who takes pages or objects as ever: of whatever node, waiting. */
#define ANYHOW NUMA_NO_NODE, HOST_MAY_WAIT

static inline uint64_t pages_out(struct source *s)
{
	struct zone_stat stat;

	zone_stat(s->zone, &stat);
	return stat.pages_out;
}

static inline void must_be_sound(struct source *s)
{
	char why[128];

	if (zone_check(s->zone, why, sizeof(why)))
		must_failed(__FILE__, __LINE__, why, 0, 1);
}

static inline void source_open_with(struct source *s, unsigned int batch, unsigned int high)
{
	must_eq(zone_open(&s->zone), 0);
	must_eq(pcp_init(&s->pcp, s->zone, batch, high), 0);
	must_eq(pages_init(&s->pages, s->zone, 0, NULL), 0);
}

static inline void source_open(struct source *s)
{
	source_open_with(s, 16, 64);
}

/* Everything that was taken must be back. */
static inline void source_close(struct source *s)
{
	pcp_drain(&s->pcp);
	must_eq(pcp_count(&s->pcp), 0);
	must_eq(pages_out(s), 0);
	must_be_sound(s);
	pages_destroy(&s->pages);
	pcp_destroy(&s->pcp);
	zone_close(s->zone);
}

/* For host_user_fail: nothing is to be had. */
static inline bool always(void)
{
	return true;
}

/* ---- waiting ---- */

/* Waits until cond holds, at most ten seconds; then fails. */
#define must_become(cond)                                                                     \
	do {                                                                                  \
		u64 until_ = ktime_get_ns() + 10000000000u;                                    \
		while (!(cond)) {                                                             \
			if (ktime_get_ns() > until_)                                           \
				must_failed(__FILE__, __LINE__, #cond " does not come", 0, 1); \
			nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);             \
		}                                                                             \
	} while (0)

#endif
