// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_pcp.c - per-CPU page lists: batch, high, decay, drain, a source that runs dry.
 *
 *     pages out of the zone == pages that the test has + pages in lists
 */
#include "stay.h"

#define BLOCK_PAGES (ZONE_BLOCK_BYTES / PAGE_SIZE)
#define MOST 5000

static struct source s;         /* of the case */
static bool is_open;
static host_page held[MOST];

static void open_lists(unsigned int batch, unsigned int high)
{
	source_open_with(&s, batch, high);
	is_open = true;
}

static void close_lists(void)
{
	source_close(&s);
	host_user_set_nr_cpus(0);
	is_open = false;
}

void after_each(void)
{
	if (is_open)
		close_lists();
}

/* n pages, all or none. */
static int alloc(host_page *out, unsigned int n)
{
	unsigned int got = host_pages_alloc(s.zone, out, n, ANYHOW);

	if (got < n)
		host_pages_free(s.zone, out, got);
	return got < n ? -ENOMEM : 0;
}

static u64 max_per_hold(void)
{
	struct zone_stat stat;

	zone_stat(s.zone, &stat);
	return stat.max_pages_per_hold;
}

static void must_account(u64 n)
{
	must_eq(pages_out(&s), n + pcp_count(&s.pcp));
}

CASE(parameters_out_of_range_are_refused)
{
	struct host_pages *zone;
	struct pcp pcp;

	must_eq(zone_open(&zone), 0);
	must_eq(pcp_init(&pcp, zone, 0, 64), -EINVAL);
	must_eq(pcp_init(&pcp, zone, PCP_BATCH_MAX + 1, 1000), -EINVAL);
	must_eq(pcp_init(&pcp, zone, 16, 15), -EINVAL);
	must_eq(pcp_init(&pcp, zone, 16, (1u << 20) + 1), -EINVAL);
	must_eq(pcp_init(&pcp, zone, PCP_BATCH_MAX, PCP_BATCH_MAX), 0);
	pcp_destroy(&pcp);
	zone_close(zone);
}

CASE(no_hold_of_the_source_moves_more_than_a_batch)
{
	static const unsigned int batch[] = { 1, 7, 31, PCP_BATCH_MAX };

	for (size_t i = 0; i < ARRAY_LEN(batch); i++) {
		open_lists(batch[i], 4 * batch[i]);
		must_eq(alloc(held, MOST), 0);
		must_account(MOST);
		host_pages_free(s.zone, held, MOST);
		must(max_per_hold() > 0);
		must_be_at_most(max_per_hold(), batch[i]);
		must_account(0);
		while (pcp_decay(&s.pcp))
			;
		pcp_drain(&s.pcp);
		must_be_at_most(max_per_hold(), batch[i]);
		close_lists();
	}
}

CASE(a_list_is_never_longer_than_its_high_after_a_free)
{
	open_lists(8, 40);
	must_eq(alloc(held, 1000), 0);
	for (unsigned int i = 0; i < 1000; i++) {
		host_pages_free(s.zone, held + i, 1);
		must_be_at_most(pcp_count(&s.pcp), (u64)40 * nr_cpu_ids);
	}
	/* A list that is used keeps pages: else it would be of no use. */
	must(pcp_count(&s.pcp) >= 40 - 8);
}

CASE(a_warm_list_serves_without_the_source)
{
	struct zone_stat before, after;

	host_user_set_nr_cpus(1);
	open_lists(8, 64);
	must_eq(alloc(held, 200), 0);
	host_pages_free(s.zone, held, 200);
	zone_stat(s.zone, &before);
	for (unsigned int i = 0; i < 1000; i++) {
		must_eq(alloc(held, 8), 0);
		host_pages_free(s.zone, held, 8);
	}
	zone_stat(s.zone, &after);
	must_eq(after.holds, before.holds);
	must_eq(after.pages_out, before.pages_out);
}

CASE(idle_lists_decay_to_nothing_and_then_report_no_change)
{
	unsigned int ticks = 0;
	u64 before;

	open_lists(8, 256);
	must_eq(alloc(held, 2000), 0);
	host_pages_free(s.zone, held, 2000);
	must((before = pcp_count(&s.pcp)) > 64);
	pcp_decay(&s.pcp);
	must_eq(pcp_count(&s.pcp), before);     /* used since the last tick: spared */
	while (pcp_decay(&s.pcp)) {
		u64 now = pcp_count(&s.pcp);

		must(now <= before);
		before = now;
		must(++ticks < 20);
	}
	must_eq(ticks, 2);                      /* half first, then the rest */
	must_eq(pcp_count(&s.pcp), 0);
	must(!pcp_decay(&s.pcp));
}

CASE(a_dry_source_fails_the_whole_request_and_loses_nothing)
{
	u64 before;

	open_lists(16, 64);
	WRITE_ONCE(s.zone->max_blocks, 1);
	must_eq(alloc(held, BLOCK_PAGES - 4), 0);
	for (unsigned int i = 0; i < 5; i++) {
		before = pages_out(&s);
		must_eq(alloc(held + BLOCK_PAGES - 4, 5), -ENOMEM);
		must(pages_out(&s) >= before);
		must_account(BLOCK_PAGES - 4);
	}
	/* What is there can still be had, and what comes back again. */
	must_eq(alloc(held + BLOCK_PAGES - 4, 4), 0);
	host_pages_free(s.zone, held, 4);
	must_eq(alloc(held, 4), 0);
	WRITE_ONCE(s.zone->max_blocks, 2);
	must_eq(alloc(held + BLOCK_PAGES, 5), 0);
	must_account(BLOCK_PAGES + 5);
	host_pages_free(s.zone, held, BLOCK_PAGES + 5);
}

/* Pages that wait in another CPU's list are free pages: they are no reason to fail. */
CASE(a_dry_source_is_helped_out_by_the_other_cpus_lists)
{
	cpu_set_t all = stay_two_cpus();

	open_lists(16, 1024);
	WRITE_ONCE(s.zone->max_blocks, 1);
	stay_on(&all, 0);
	must_eq(alloc(held, BLOCK_PAGES), 0);
	host_pages_free(s.zone, held, BLOCK_PAGES);
	must(pcp_count(&s.pcp) > 0);
	stay_on(&all, 1);
	must_eq(alloc(held, BLOCK_PAGES), 0);
	must_eq(sched_setaffinity(0, sizeof(all), &all), 0);
	must_account(BLOCK_PAGES);
	host_pages_free(s.zone, held, BLOCK_PAGES);
}

/* A zone all of whose pages are held, and lists of so many CPUs. */
static void open_dry(unsigned int cpus)
{
	host_user_set_nr_cpus(cpus);
	open_lists(16, 64);
	WRITE_ONCE(s.zone->max_blocks, 1);
	must_eq(alloc(held, BLOCK_PAGES), 0);
}

/* Moves a page that is held to the list of CPU cpu. */
static void put_on(unsigned int cpu, host_page page)
{
	struct pcp_list *l = s.pcp.list[cpu];

	l->page[l->count++] = page;
}

/* Who finds nothing looks at a bounded number of lists; who looks again, at others. */
CASE(a_page_in_any_list_is_found_by_looks_at_few)
{
	const unsigned int cpus = 512;
	host_page page;

	open_dry(cpus);
	for (unsigned int i = 0; i < 8; i++) {
		u64 cursor = host_a64_read(&s.pcp.cursor);
		unsigned int at = (unsigned int)(cursor + PCP_LOOK + 10 * i) % cpus, calls = 0;

		/* Not this CPU's own, which is looked at first. */
		if (at < PCP_LOOK)
			at += PCP_LOOK;
		put_on(at, held[0]);
		must_eq(alloc(&page, 1), -ENOMEM);
		while (alloc(&page, 1))
			must_be_at_most(++calls, cpus / PCP_LOOK + 1);
		must_eq(page, held[0]);
	}
	host_pages_free(s.zone, held, BLOCK_PAGES);
}

CASE(a_list_that_is_locked_is_passed_over)
{
	host_page page;

	open_dry(4);
	for (unsigned int cpu = 0; cpu < 4; cpu++) {
		if (cpu == raw_smp_processor_id())
			continue;
		put_on(cpu, held[0]);
		spin_lock(&s.pcp.list[cpu]->lock);
		must_eq(alloc(&page, 1), -ENOMEM);
		spin_unlock(&s.pcp.list[cpu]->lock);
		must_eq(alloc(&page, 1), 0);
		must_eq(page, held[0]);
	}
	host_pages_free(s.zone, held, BLOCK_PAGES);
}

CASE(who_may_need_none_takes_what_is_at_hand)
{
	u64 before;

	open_lists(8, 64);
	must_eq(alloc(held, 1), 0);
	host_pages_free(s.zone, held, 1);
	/* The zone has pages that could be had without waiting. */
	pcp_drain(&s.pcp);
	must_eq(host_pages_alloc(s.zone, held, 2, NUMA_NO_NODE, HOST_AT_HAND), 0);
	must_eq(pages_out(&s), 0);
	must_eq(alloc(held, 3), 0);
	before = pages_out(&s);
	must(before > 4);
	must_eq(host_pages_alloc(s.zone, held + 3, 2, NUMA_NO_NODE, HOST_AT_HAND), 2);
	must_eq(pages_out(&s), before);
	host_pages_free(s.zone, held, 5);
}

CASE(a_drain_gives_a_batch_a_hold)
{
	struct zone_stat before, after;
	u64 listed;

	open_lists(8, 256);
	must_eq(alloc(held, 2000), 0);
	host_pages_free(s.zone, held, 2000);
	listed = pcp_count(&s.pcp);
	must(listed > 64);
	zone_stat(s.zone, &before);
	pcp_drain(&s.pcp);
	zone_stat(s.zone, &after);
	must_be_at_most(after.holds - before.holds, listed / 8 + nr_cpu_ids);
	must_be_at_most(after.max_pages_per_hold, 8);
}

CASE(lists_age_with_time)
{
	bool aged, again;

	open_lists(8, 256);
	must_eq(alloc(held, 100), 0);
	host_pages_free(s.zone, held, 100);
	while (pcp_decay(&s.pcp))
		;
	/* Too early: nothing ages, and somebody has to come again. */
	do {
		s.pcp.aged = ktime_get_ns();
		again = pcp_tend(&s.pcp, &aged);
	} while (aged);
	must(again);
	s.pcp.aged = ktime_get_ns() - PCP_PERIOD_US * 1000;
	must(!pcp_tend(&s.pcp, &aged));
	must(aged);
}

CASE(every_page_has_one_owner_at_a_time)
{
	struct rng rng = { use_seed(3) };
	unsigned long steps = scaled(5000), n = 0;
	static uint64_t stamp[MOST];

	open_lists(5, 50);
	for (unsigned long i = 0; i < steps; i++) {
		unsigned long k = 1 + rng_below(&rng, rng_below(&rng, 8) ? 8 : 300), at;
		host_page back[300];

		if (rng_below(&rng, 2) && n + k <= 1000) {
			must_eq(alloc(held + n, (unsigned int)k), 0);
			for (; k; k--, n++) {
				stamp[n] = rng_next(&rng);
				*(uint64_t *)host_page_addr(s.zone, held[n]) = stamp[n];
			}
		} else if (k <= n) {
			for (at = 0; at < k; at++) {
				unsigned long j = rng_below(&rng, n--);

				must_eq(*(uint64_t *)host_page_addr(s.zone, held[j]), stamp[j]);
				back[at] = held[j];
				held[j] = held[n];
				stamp[j] = stamp[n];
			}
			host_pages_free(s.zone, back, (unsigned int)k);
		}
		if (!rng_below(&rng, 100))
			pcp_decay(&s.pcp);
		if (!rng_below(&rng, 500))
			pcp_drain(&s.pcp);
		must_account(n);
	}
	must_be_at_most(max_per_hold(), 5);
	while (n--)
		must_eq(*(uint64_t *)host_page_addr(s.zone, held[n]), stamp[n]);
	host_pages_free(s.zone, held, (unsigned int)(pages_out(&s) - pcp_count(&s.pcp)));
}
