// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_advise.c - memory that the system takes back, many ranges in a call where it can, and memory
 * that it fills ahead.
 *
 * Between advise.c and the system stand wrappers.  They count the calls, refuse what a case has
 * refused, and do what a new system does with many ranges where this one is old.
 */
#include "support.h"
#include "user/home/advise.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 64u
#define SELF (-10000)           /* PIDFD_SELF_THREAD */
#define LOCKED 24               /* MADV_DONTNEED_LOCKED */
#define FILL 23                 /* MADV_POPULATE_WRITE */

static u32 bytes_of_page;               /* the system's */
static unsigned int single, many, fills;        /* calls */
static size_t filled;                   /* bytes, by those that went well */
static bool is_old;                     /* the system takes no more than one range in a call */
static bool is_real;                    /* it is this one that is asked for many */
static char *refused;                   /* it refuses the range that begins here */
static bool is_locked;                  /* it refuses what does not ask for locked memory, too */

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);
long __real_syscall(long n, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f);

static int refuse(int err)
{
	errno = err;
	return -1;
}

static int advise_one(void *at, size_t bytes, int advice)
{
	if (at == refused || (is_locked && advice == MADV_DONTNEED))
		return refuse(EINVAL);
	return __real_madvise(at, bytes, advice);
}

int __wrap_madvise(void *at, size_t bytes, int advice)
{
	if (advice == FILL) {
		fills++;
		if (is_old || __real_madvise(at, bytes, advice))
			return refuse(EINVAL);
		filled += bytes;
		return 0;
	}
	single++;
	return advise_one(at, bytes, advice);
}

/* As a new system: ends at a range that it refuses, and says how many bytes came before. */
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	const struct iovec *range = (const struct iovec *)b;
	long i, bytes = 0;

	if (n != SYS_process_madvise)
		return __real_syscall(n, a, b, c, d, e, f);
	many++;
	if (is_real)
		return __real_syscall(n, a, b, c, d, e, f);
	if (is_old || (int)a != SELF)
		return refuse(EBADF);
	if (e || c > 1024)
		return refuse(EINVAL);
	for (i = 0; i < c && !advise_one(range[i].iov_base, range[i].iov_len, (int)d); i++)
		bytes += (long)range[i].iov_len;
	return bytes ? bytes : refuse(EINVAL);
}

static char *mem;
static struct iovec range[PAGES / 2];
static struct advise found;

static void *page_of_mem(u32 i)
{
	return mem + (size_t)i * bytes_of_page;
}

/* Each other page of mem is a range. */
void before_each(void)
{
	u32 i;

	bytes_of_page = (u32)sysconf(_SC_PAGESIZE);
	mem = mmap(NULL, PAGES * bytes_of_page, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mem != MAP_FAILED);
	memset(mem, 1, PAGES * bytes_of_page);
	for (i = 0; i < PAGES / 2; i++)
		range[i] = (struct iovec){ page_of_mem(2 * i), bytes_of_page };
	found = (struct advise){ 0 };
	single = many = fills = 0;
	filled = 0;
	is_old = is_real = is_locked = false;
	refused = NULL;
}

void clean_up(void)
{
	must_eq(munmap(mem, PAGES * bytes_of_page), 0);
}

/* What was a range is gone, but for the one that was refused; all else is as it was. */
static void must_be_gone(void)
{
	u32 i;

	for (i = 0; i < PAGES; i++) {
		char *at = page_of_mem(i);

		must_eq(*at, i % 2 || at == refused);
	}
}

static u32 take_all(void)
{
	return advise_take(&found, range, PAGES / 2);
}

CASE(many_ranges_are_one_call)
{
	must_eq(take_all(), 0);
	must_be_gone();
	must(!found.locked);
	must_eq(many, 1);
	must_eq(single, 0);
}

CASE(one_range_is_a_call_that_each_system_knows)
{
	must_eq(advise_take(&found, range, 1), 0);
	must_eq(mem[0], 0);
	must_eq(*(char *)page_of_mem(2), 1);
	must_eq(many, 0);
	must_eq(single, 1);
}

/* That it does is asked once. */
CASE(an_old_system_takes_them_one_by_one)
{
	is_old = true;
	must_eq(take_all(), 0);
	must_be_gone();
	must(!found.locked);
	must_eq(single, PAGES / 2);
	must_eq(many, 1);
	must_eq(take_all(), 0);
	must_eq(single, PAGES);
	must_eq(many, 1);
}

/* Wherever it stands among the others. */
CASE(what_is_refused_comes_first_and_the_rest_is_taken)
{
	static const u32 at[] = { 0, 1, PAGES / 4, PAGES / 2 - 1 };
	u32 i;

	for (i = 0; i < 2 * ARRAY_LEN(at); i++) {
		clean_up();
		before_each();
		is_old = i % 2;
		refused = range[at[i / 2]].iov_base;
		must_eq(take_all(), 1);
		must(range[0].iov_base == refused);
		must_eq(range[0].iov_len, bytes_of_page);
		must_be_gone();
		must(!found.locked);
	}
}

CASE(locked_memory_is_taken_and_said)
{
	u32 i;

	for (i = 0; i < 2; i++) {
		if (__real_madvise(mem, bytes_of_page, LOCKED))
			skip_because("the system gives no locked memory back");
		memset(mem, 1, bytes_of_page);
		is_locked = true;
		is_old = i;
		must_eq(take_all(), 0);
		must_be_gone();
		must(found.locked);
		must_eq(many, is_old ? 1 : 2);
		clean_up();
		before_each();
	}
}

/* With nothing but the wrapper's count between: this is the call as Linux knows it. */
CASE(this_system_takes_many_ranges_in_a_call_or_has_no_such_call)
{
	is_real = true;
	must_eq(take_all(), 0);
	must_be_gone();
	must_eq(many, 1);
	if (found.no_many) {
		print_message("# this system has no such call\n");
		must_eq(single, PAGES / 2);
		skip();
	}
	must_eq(single, 0);
}

static u32 pages_there(void *at, u32 pages)
{
	unsigned char there[PAGES];
	u32 i, n = 0;

	must_be_at_most(pages, PAGES);
	must_eq(mincore(at, (size_t)pages * bytes_of_page, there), 0);
	for (i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

static bool fills_ahead(void)
{
	if (!__real_madvise(mem, bytes_of_page, FILL))
		return true;
	print_message("# the system fills nothing ahead\n");
	return false;
}

CASE(a_range_is_filled_ahead)
{
	if (!fills_ahead())
		skip();
	must_eq(take_all(), 0);
	must_eq(pages_there(mem, PAGES), PAGES / 2);
	advise_fill(&found, mem, PAGES / 2 * bytes_of_page);
	must_eq(pages_there(mem, PAGES / 2), PAGES / 2);
	must_eq(pages_there(page_of_mem(PAGES / 2), PAGES / 2), PAGES / 4);
	must(!found.no_fill);
}

/* ---- the zone's use of both ---- */

static struct host_pages *zone;
static host_page page[PAGES];

static u32 take_now(u32 n)
{
	return zone_pages_alloc(zone, page, n, 0);
}

static void take_waiting(u32 n)
{
	must_eq(zone_pages_alloc(zone, page, n, HOST_MAY_WAIT), n);
}

/* A zone with a block that is accessible, none of whose pages anybody has touched. */
static void open_zone(void)
{
	if (!fills_ahead() || bytes_of_page > PAGE_SIZE)
		skip_because("and not by pages of ours");
	must_eq(zone_open(&zone), 0);
	take_waiting(1);
	zone_pages_free(zone, page, 1);
	zone_trim(zone, NULL);
	single = many = fills = 0;
	filled = 0;
}

/* Who does not wait gets 32 KiB at most, or a page, that are there already. */
CASE(fresh_pages_of_the_zone_are_there)
{
	const u32 most = PAGE_SIZE < 32768 ? 32768 / PAGE_SIZE : 1;
	u32 i, n;

	open_zone();
	n = take_now(PAGES);
	must_eq(n, most);
	for (i = 0; i < n; i++)
		must_eq(pages_there(host_page_addr(zone, page[i]), PAGE_SIZE / bytes_of_page),
			PAGE_SIZE / bytes_of_page);
	must_eq(fills, 1);
	must_eq(filled, n * PAGE_SIZE);
	zone_close(zone);
}

/* Who waits is short of pages, and gets all that it asks for. */
CASE(who_waits_gets_all_and_nothing_is_filled)
{
	const u32 n = PAGE_SIZE < 65536 ? PAGES : PAGES / 4;

	open_zone();
	take_waiting(n);
	must_eq(fills, 0);
	zone_close(zone);
}

/* Each other one is gone: what lies between has an owner, who may have given it on. */
CASE(pages_that_do_not_lie_side_by_side_are_filled_alone_or_not_at_all)
{
	u32 i, got, n = PAGE_SIZE < 65536 ? PAGES : PAGES / 4;

	open_zone();
	take_waiting(n);
	for (i = 0; i < n; i += 2)
		zone_pages_free(zone, &page[i], 1);
	zone_trim(zone, NULL);
	got = take_now(n / 4);
	must(got > 0);
	/* A page of ours is several of the system's, which lie side by side. */
	must_eq(fills, PAGE_SIZE == bytes_of_page ? 0 : got);
	must_eq(filled, fills * PAGE_SIZE);
	zone_close(zone);
}

/* Then nobody gets less for it, either. */
CASE(where_the_system_fills_nothing_it_is_asked_once)
{
	u32 n = PAGE_SIZE < 65536 ? PAGES / 4 : 4;

	open_zone();
	is_old = true;
	must(take_now(n) > 0);
	must_eq(fills, 1);
	must_eq(take_now(n), n);
	must_eq(fills, 1);
	zone_close(zone);
}

/* Each other page of a block is free: as many ranges as there can be in one. */
CASE(a_block_goes_in_few_calls)
{
	const u32 pages = (u32)(ZONE_BLOCK_BYTES / PAGE_SIZE);
	host_page *of = calloc(pages, sizeof(*of));
	struct zone_stat stat;
	char why[64];
	u64 bytes;
	u32 i;

	must(of != NULL);
	open_zone();
	must_eq(zone_pages_alloc(zone, of, pages, HOST_MAY_WAIT), pages);
	for (i = 0; i < pages; i++)
		memset(host_page_addr(zone, of[i]), 1, PAGE_SIZE);
	for (i = 0; i < pages; i += 2)
		zone_pages_free(zone, &of[i], 1);
	single = many = 0;
	zone_trim(zone, &bytes);
	must_eq(bytes, (u64)pages / 2 * PAGE_SIZE);
	must_eq(many, (pages / 2 + ADVISE_RANGES - 1) / ADVISE_RANGES);
	must_eq(single, 0);
	zone_stat(zone, &stat);
	must_eq(stat.free_resident, 0);
	must_eq(stat.free_pages, pages / 2);

	/* One that the system keeps is free, and not gone. */
	take_waiting(2);
	refused = host_page_addr(zone, page[1]);
	zone_pages_free(zone, page, 1);
	zone_pages_free(zone, page + 1, 1);
	zone_trim(zone, &bytes);
	must_eq(bytes, PAGE_SIZE);
	zone_stat(zone, &stat);
	must_eq(stat.free_resident, 1);
	must_eq(zone_check(zone, why, sizeof(why)), 0);
	zone_close(zone);
	free(of);
}
