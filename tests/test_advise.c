// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_advise.c - memory that the system takes back, many ranges in a call where it can, and memory
 * that it fills ahead.
 *
 * Between advise.c and the system stand wrappers.  They count the calls, refuse what a case has
 * refused, and do what a new system does with many ranges where this one is old.
 */
#include "support.h"
#include "user/advise.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 64u
#define PAGE 4096u              /* of the system's, or a multiple of it */

static unsigned int single, many;       /* calls */
static bool is_old;                     /* the system takes no more than one range in a call */
static char *refused;                   /* it refuses the range that begins here */
static bool is_locked;                  /* it refuses what does not ask for locked memory, too */

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);
long __real_syscall(long n, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f);

static int refuse(void)
{
	errno = EINVAL;
	return -1;
}

static int advise_one(void *at, size_t bytes, int advice)
{
	if (at == refused || (is_locked && advice == MADV_DONTNEED))
		return refuse();
	return __real_madvise(at, bytes, advice);
}

int __wrap_madvise(void *at, size_t bytes, int advice)
{
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
	if (is_old)
		return refuse();
	for (i = 0; i < c && !advise_one(range[i].iov_base, range[i].iov_len, (int)d); i++)
		bytes += (long)range[i].iov_len;
	return bytes ? bytes : refuse();
}

static char *mem;
static struct iovec range[PAGES / 2];

/* Each other page of mem is a range. */
static int map_ranges(void **state)
{
	u32 i;

	mem = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(mem != MAP_FAILED);
	memset(mem, 1, PAGES * PAGE);
	for (i = 0; i < PAGES / 2; i++)
		range[i] = (struct iovec){ mem + 2 * i * PAGE, PAGE };
	single = many = 0;
	is_old = is_locked = false;
	refused = NULL;
	return 0;
}

static int unmap(void **state)
{
	return munmap(mem, PAGES * PAGE);
}

/* What was a range is gone, but for the one that was refused; all else is as it was. */
static void must_be_gone(void)
{
	u32 i;

	for (i = 0; i < PAGES; i++)
		must_eq(mem[i * PAGE], i % 2 || mem + i * PAGE == refused);
}

static void many_ranges_are_one_call(void **state)
{
	bool locked = false;

	must_eq(advise_take(range, PAGES / 2, &locked), 0);
	must_be_gone();
	must(!locked);
	must_eq(many, 1);
	must_eq(single, 0);
}

static void one_range_is_a_call_that_each_system_knows(void **state)
{
	bool locked = false;

	must_eq(advise_take(range, 1, &locked), 0);
	must_eq(mem[0], 0);
	must_eq(mem[2 * PAGE], 1);
	must_eq(many, 0);
	must_eq(single, 1);
}

static void an_old_system_takes_them_one_by_one(void **state)
{
	bool locked = false;

	is_old = true;
	must_eq(advise_take(range, PAGES / 2, &locked), 0);
	must_be_gone();
	must(!locked);
	must_eq(single, PAGES / 2);
	must_be_at_most(many, 2);
}

/* Wherever it stands among the others. */
static void what_is_refused_comes_first_and_the_rest_is_taken(void **state)
{
	static const u32 at[] = { 0, 1, PAGES / 4, PAGES / 2 - 1 };
	bool locked = false;
	u32 i;

	for (i = 0; i < 2 * ARRAY_LEN(at); i++) {
		map_ranges(state);
		is_old = i % 2;
		refused = range[at[i / 2]].iov_base;
		must_eq(advise_take(range, PAGES / 2, &locked), 1);
		must(range[0].iov_base == refused);
		must_eq(range[0].iov_len, PAGE);
		must_be_gone();
		must(!locked);
		unmap(state);
	}
	map_ranges(state);
}

static void locked_memory_is_taken_and_said(void **state)
{
	bool locked = false;

	if (__real_madvise(mem, PAGE, 24)) {
		print_message("# the system gives no locked memory back\n");
		skip();
	}
	memset(mem, 1, PAGE);
	is_locked = true;
	must_eq(advise_take(range, PAGES / 2, &locked), 0);
	must_be_gone();
	must(locked);
	must_eq(many, 2);
}

/* Past the wrapper, so this says what this system has. */
static void this_system_takes_many_ranges_in_a_call_or_refuses_them_all(void **state)
{
	long n = __real_syscall(SYS_process_madvise, -10000, (long)range, PAGES / 2, MADV_DONTNEED,
				0, 0);

	if (n < 0) {
		must_eq(mem[0], 1);
		print_message("# this system does not: %s\n", strerror(errno));
		skip();
	}
	must_eq(n, PAGES / 2 * PAGE);
	must_be_gone();
}

static u32 pages_there(void *at, u32 pages)
{
	unsigned char there[PAGES];
	u32 i, n = 0;

	must_be_at_most(pages, PAGES);
	must_eq(mincore(at, pages * PAGE, there), 0);
	for (i = 0; i < pages; i++)
		n += there[i] & 1;
	return n;
}

static void a_range_is_filled_ahead(void **state)
{
	advise_take(range, 1, &is_locked);
	must_eq(pages_there(mem, 1), 0);
	if (__real_madvise(mem, PAGE, 23)) {
		print_message("# the system fills nothing ahead\n");
		skip();
	}
	must_eq(advise_take(range, PAGES / 2, &is_locked), 0);
	advise_fill(mem, PAGES / 2 * PAGE);
	must_eq(pages_there(mem, PAGES / 2), PAGES / 2);
	must_eq(pages_there(mem + PAGES / 2 * PAGE, PAGES / 2), PAGES / 4);
}

/* ---- the zone's use of both ---- */

/* Who does not wait gets a few that are there already; who waits gets all that it asks for. */
static void fresh_pages_of_the_zone_are_there(void **state)
{
	struct host_pages *zone;
	host_page page[PAGES];
	u32 i, n;

	if (HOST_PAGE_SIZE != PAGE || __real_madvise(mem, PAGE, 23)) {
		print_message("# the system fills nothing ahead, or not by pages of ours\n");
		skip();
	}
	must_eq(zone_open(&zone), 0);
	must_eq(host_pages_alloc(zone, page, 1, HOST_ANY_NODE, HOST_MAY_WAIT), 1);
	single = 0;
	n = host_pages_alloc(zone, page + 1, PAGES - 1, HOST_ANY_NODE, 0);
	must(n > 1);
	must_be_at_most(n, 16);
	for (i = 1; i <= n; i++)
		must_eq(pages_there(host_page_addr(zone, page[i]), 1), 1);
	must_eq(single, 1);
	must_eq(host_pages_alloc(zone, page + 1 + n, PAGES - 1 - n, HOST_ANY_NODE, HOST_MAY_WAIT),
		PAGES - 1 - n);
	host_pages_free(zone, page, PAGES);
	zone_close(zone);
}

/* Each other page of a block is free: as many ranges as there can be in one. */
static void a_block_goes_in_one_call(void **state)
{
	const u32 pages = (u32)(ZONE_BLOCK_BYTES / HOST_PAGE_SIZE);
	host_page *page = calloc(pages, sizeof(*page));
	struct zone_stat stat;
	struct host_pages *zone;
	u64 bytes;
	u32 i;

	must(page != NULL);
	must_eq(zone_open(&zone), 0);
	must_eq(host_pages_alloc(zone, page, pages, HOST_ANY_NODE, HOST_MAY_WAIT), pages);
	for (i = 0; i < pages; i++)
		memset(host_page_addr(zone, page[i]), 1, HOST_PAGE_SIZE);
	for (i = 0; i < pages; i += 2)
		host_pages_free(zone, &page[i], 1);
	single = many = 0;
	zone_trim(zone, &bytes);
	must_eq(bytes, (u64)pages / 2 * HOST_PAGE_SIZE);
	must_eq(many, 1);
	must_eq(single, 0);
	zone_stat(zone, &stat);
	must_eq(stat.free_resident, 0);
	must_eq(stat.free_pages, pages / 2);

	/* One that the system keeps is free, and not gone. */
	must_eq(host_pages_alloc(zone, page, 2, HOST_ANY_NODE, HOST_MAY_WAIT), 2);
	refused = host_page_addr(zone, page[1]);
	host_pages_free(zone, page, 1);
	host_pages_free(zone, page + 1, 1);
	zone_trim(zone, &bytes);
	must_eq(bytes, HOST_PAGE_SIZE);
	zone_stat(zone, &stat);
	must_eq(stat.free_resident, 1);
	must_eq(zone_check(zone, (char[64]){ 0 }, 64), 0);
	zone_close(zone);
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(many_ranges_are_one_call, map_ranges, unmap),
		cmocka_unit_test_setup_teardown(one_range_is_a_call_that_each_system_knows,
						map_ranges, unmap),
		cmocka_unit_test_setup_teardown(an_old_system_takes_them_one_by_one, map_ranges,
						unmap),
		cmocka_unit_test_setup_teardown(what_is_refused_comes_first_and_the_rest_is_taken,
						NULL, unmap),
		cmocka_unit_test_setup_teardown(locked_memory_is_taken_and_said, map_ranges, unmap),
		cmocka_unit_test_setup_teardown(
			this_system_takes_many_ranges_in_a_call_or_refuses_them_all, map_ranges,
			unmap),
		cmocka_unit_test_setup_teardown(a_range_is_filled_ahead, map_ranges, unmap),
		cmocka_unit_test_setup_teardown(fresh_pages_of_the_zone_are_there, map_ranges,
						unmap),
		cmocka_unit_test_setup_teardown(a_block_goes_in_one_call, map_ranges, unmap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
