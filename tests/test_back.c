// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_back.c - memory comes back, by what the system says of this process.
 *
 *     zone mappings == those that are neither huge nor there after fork(): VmFlags "nh" and "dc";
 *                      a large slot table is one, too
 *
 * The pool is at most a quarter larger than what lives in it, the zone a few lists larger than the
 * pool; neither takes a call.
 */
#include "box.h"
#include "api/ebb.h"
#include "process.h"

#include <sys/resource.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static unsigned char page[PAGE_SIZE];

struct seen {
	uint64_t resident, huge, mappings;      /* of zones; bytes, bytes, accessible ones */
};

/* What smaps says of the zones of this process. */
static struct seen look(void)
{
	uint64_t rss = 0, huge = 0, kb;
	struct seen sum = { 0 };
	bool open = false;
	char line[512];
	FILE *f = fopen("/proc/self/smaps", "r");

	must(f);
	while (fgets(line, sizeof(line), f)) {
		char perms[5];

		if (sscanf(line, "%*x-%*x %4s", perms) == 1)
			open = perms[1] == 'w';
		else if (sscanf(line, "Rss: %" SCNu64, &kb) == 1)
			rss = kb << 10;
		else if (sscanf(line, "AnonHugePages: %" SCNu64, &kb) == 1)
			huge = kb << 10;
		else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " nh") && strstr(line, " dc")) {
			sum.resident += rss;
			sum.huge += huge;
			sum.mappings += open;
		}
	}
	fclose(f);
	return sum;
}

static struct ebb_store *open_for(uint64_t slots, uint32_t flags)
{
	struct ebb_store *store;
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = slots;
	cfg.flags = flags;
	must_eq(ebb_open(&store, &cfg), 0);
	return store;
}

/* Objects of 600 to 3,600 bytes. */
static void fill(struct ebb_store *store, uint64_t slots)
{
	fill_random(page, PAGE_SIZE, 1);
	for (uint64_t i = 0; i < slots; i++)
		must_eq(ebb_put(store, i, page, (600 + i * 769 % 3000) * PAGE_SIZE / 4096), 0);
}

/* Frees all but every tenth or so. */
static void thin_out(struct ebb_store *store, uint64_t slots)
{
	struct rng r = { use_seed(7) };

	for (uint64_t i = 0; i < slots; i++)
		if (rng_below(&r, 10))
			must_eq(ebb_free(store, i, 1), 0);
}

static struct box box;

static int ask_in_the_box(void)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct ebb_store *store;

	ANSWERS(box_enter(&box), true);
	store = open_for((uint64_t)1 << 26, 0);
	ANSWERS(ebb_stat(store, &stat), 0);
	ebb_close(store);
	ANSWERS(stat.release_limit, box.limit / 32);
	return 0;
}

/* The first of all: what the machine has is looked up once. */
CASE(a_container_has_as_much_memory_as_it_may_take)
{
	int status;

	if (!box_make(&box, 96 * MIB))
		skip_because("no control group with a limit on memory can be made here");
	status = status_of_child(ask_in_the_box);
	box_remove(&box);
	must_eq(status, 0);
}

/* A write that fails may have freed something before. */
CASE(a_write_that_fails_wakes_the_tick_as_well)
{
	const uint64_t slots = 16 * MIB / PAGE_SIZE;
	unsigned char *zeros = calloc(slots + 1, PAGE_SIZE);
	struct ebb_store *store = open_for(slots + 1, 0);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	must(zeros);
	fill(store, slots);
	must_eq(ebb_set_mem_limit(store, 1), 0);
	fill_random(zeros + slots * PAGE_SIZE, PAGE_SIZE, 1);
	must_eq(ebb_write(store, 0, zeros, (slots + 1) * PAGE_SIZE), -ENOMEM);
	must_become(ebb_stat(store, &stat) == 0 && !stat.zone_free_bytes);
	must_eq(stat.mem_used_total, 0);
	free(zeros);
	ebb_close(store);
}

static bool is_back(struct ebb_store *store)
{
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	must_eq(ebb_stat(store, &stat), 0);
	/* A class may have a page that is not full. */
	return stat.mem_used_total <=
		       stat.compr_data_size / 4 * 5 + EBB_CLASSES_MAX * PAGE_SIZE &&
	       look().resident <= stat.mem_used_total + stat.mem_used_total / 16 + 4 * MIB;
}

CASE(what_random_frees_leave_is_compacted_and_given_on)
{
	const uint64_t slots = 128 * MIB / PAGE_SIZE, churn = 4 * MIB / PAGE_SIZE;
	struct ebb_store *store = open_for(slots + churn, 0);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	fill(store, slots);
	must(look().resident > 60 * MIB);
	thin_out(store, slots);
	/* Meanwhile the store is in use. */
	for (unsigned int i = 0; i < 200 && !is_back(store); i++) {
		for (uint64_t k = 0; k < churn; k++)
			must_eq(ebb_put(store, slots + k, page, PAGE_SIZE / 2), 0);
		must_eq(ebb_free(store, slots, churn), 0);
		usleep(30000);
	}
	must_become(is_back(store));
	must_eq(ebb_stat(store, &stat), 0);
	must(stat.pages_compacted > 0 && stat.compr_data_size > 4 * MIB);
	must_eq(ebb_check(store, NULL, 0), 0);
	ebb_close(store);
	must_eq(look().resident, 0);
}

CASE(a_store_that_is_told_so_is_not_compacted)
{
	const uint64_t slots = 16 * MIB / PAGE_SIZE;
	struct ebb_store *store = open_for(slots, EBB_NO_COMPACT);
	struct ebb_stat stat = { .struct_size = sizeof(stat) };

	fill(store, slots);
	thin_out(store, slots);
	must_become(ebb_stat(store, &stat) == 0 && !stat.zone_free_bytes && !stat.pcp_pages);
	must_eq(stat.pages_compacted, 0);
	must(stat.mem_used_total > stat.compr_data_size * 2);
	ebb_close(store);
}

CASE(what_trim_says_is_what_the_process_has_less)
{
	const uint64_t slots = 96 * MIB / PAGE_SIZE, table = slots * 8;
	struct ebb_store *store = open_for(slots, EBB_NO_COMPACT);
	uint64_t bytes, fall;
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct seen before;

	for (uint64_t i = 0; i < slots; i++) {
		fill_random(page, PAGE_SIZE, i);
		must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
	}
	before = look();
	must_eq(ebb_stat(store, &stat), 0);
	must_be_at_most(before.resident, stat.zone_bytes + table);
	must_be_at_most(stat.zone_bytes, before.resident + before.resident / 20);
	/* Every other page, so that each is a hole of its own. */
	for (uint64_t i = 0; i < slots; i += 2)
		must_eq(ebb_free(store, i, 1), 0);
	must_eq(ebb_trim(store, &bytes), 0);
	fall = before.resident - look().resident;
	/* The tick may have given on a part before. */
	must_be_at_most(bytes, fall + fall / 20);
	must(fall >= 40 * MIB);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.zone_free_bytes, 0);
	must_be_at_most(look().resident, stat.zone_bytes + table);
	must_be_at_most(stat.zone_bytes, look().resident + look().resident / 20);

	/* Holes are not mappings of their own, and nothing fills them. */
	must_be_at_most(look().mappings, before.mappings);
	must_eq(look().huge, 0);
	for (uint64_t i = 1; i < slots; i += 2) {
		unsigned char got[PAGE_SIZE];

		fill_random(page, PAGE_SIZE, i);
		must_eq(ebb_read(store, i, got, sizeof(got)), 0);
		must(!memcmp(page, got, sizeof(got)));
	}
	must_eq(ebb_check(store, NULL, 0), 0);
	ebb_close(store);
}

/* Contexts of lz4 come and go with the threads, and lie beside what stays. */
CASE(what_comes_and_goes_leaves_nothing_beside_what_stays)
{
	const size_t bytes = 20000;
	void *stays[64], *goes;
	uint64_t before = status_bytes("RssAnon");
	unsigned int i, k;

	for (i = 0; i < ARRAY_LEN(stays); i++) {
		must((stays[i] = host_zalloc(100)) != NULL);
		for (k = 0; k < 20; k++) {
			must((goes = host_zalloc(bytes)) != NULL);
			memset(goes, 1, bytes);
			host_free(goes, bytes);
		}
	}
	if (!SHADOWED)
		must_be_at_most(status_bytes("RssAnon"), before + 2 * MIB);
	for (i = 0; i < ARRAY_LEN(stays); i++)
		host_free(stays[i], 100);
}

/* flags: of mlockall(), which is called before all, or when the store is full. */
static void free_what_is_locked(int before, int full)
{
	const uint64_t slots = 32 * MIB / PAGE_SIZE;
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct ebb_store *store;

	if (SHADOWED)
		skip_because("a sanitizer's shadow is too large to be locked");
	if (before && mlockall(before)) {
		print_message("# mlockall(): %s\n", strerror(errno));
		skip();
	}
	store = open_for(slots, 0);
	fill(store, slots);
	/* A hole that the system was given, and fills again. */
	must_eq(ebb_free(store, 0, slots / 2), 0);
	must_eq(ebb_trim(store, NULL), 0);
	if (full && mlockall(full)) {
		print_message("# mlockall(): %s\n", strerror(errno));
		ebb_close(store);
		skip();
	}
	must(look().resident > (full ? 24 : 8) * MIB);
	must_eq(ebb_free(store, slots / 2, slots / 2), 0);
	must_become(ebb_stat(store, &stat) == 0 && stat.zone_bytes < MIB + 32 * PAGE_SIZE &&
		    look().resident < MIB + 32 * PAGE_SIZE);
	must_eq(ebb_check(store, NULL, 0), 0);
	fill(store, slots);
	must_eq(ebb_check(store, NULL, 0), 0);
	ebb_close(store);
	munlockall();
}

CASE(a_process_that_locks_its_memory_gets_it_back_too)
{
	free_what_is_locked(MCL_CURRENT | MCL_FUTURE, 0);
}

CASE(what_is_locked_after_it_was_taken_comes_back_too)
{
	free_what_is_locked(0, MCL_CURRENT);
	free_what_is_locked(0, MCL_CURRENT | MCL_FUTURE);
}

CASE(a_small_store_takes_little)
{
	enum { STORES = 100 };
	static struct ebb_store *store[STORES];
	uint64_t size = status_bytes("VmSize"), rss = status_bytes("VmRSS");

	for (unsigned int i = 0; i < STORES; i++) {
		store[i] = open_for(1000, 0);
		must_eq(ebb_write(store[i], 999, page, PAGE_SIZE), 0);
	}
	print_message("# a store of 1,000 slots: %" PRIu64 " KiB of address space, %" PRIu64 " KiB of memory\n",
		      (status_bytes("VmSize") - size) / STORES >> 10,
		      (status_bytes("VmRSS") - rss) / STORES >> 10);
	if (!SHADOWED)
		must_be_at_most((status_bytes("VmSize") - size) / STORES, 8 * MIB);
	for (unsigned int i = 0; i < STORES; i++)
		ebb_close(store[i]);
}

/*
 * Closed stores leave nothing, although the program's own memory lies between what each of them
 * took.
 */
CASE(stores_that_are_closed_leave_nothing)
{
	enum { STORES = 1000 };
	static struct ebb_store *store[STORES];
	static void *own[STORES];
	uint64_t rss;

	if (SHADOWED)
		skip_because("a sanitizer keeps what was freed");
	fill_random(page, PAGE_SIZE, 1);
	for (unsigned int together = 1; together <= STORES; together += STORES - 1) {
		/* The second time, since the first takes the code into memory. */
		for (unsigned int turn = 0; turn < 2; turn++) {
			rss = status_bytes("VmRSS");
			for (unsigned int i = 0; i < STORES; i++) {
				store[i] = open_for(1000, 0);
				must_eq(ebb_write(store[i], 999, page, PAGE_SIZE), 0);
				own[i] = malloc(100);
				must(own[i]);
				if (together == 1)
					ebb_close(store[i]);
			}
			for (unsigned int i = 0; together > 1 && i < STORES; i++)
				ebb_close(store[i]);
			print_message("# %u stores closed, %u at a time: %" PRIu64 " KiB more than before\n",
				      STORES, together, (status_bytes("VmRSS") - rss) >> 10);
			if (turn)
				must_be_at_most(status_bytes("VmRSS"), rss + MIB);
			for (unsigned int i = 0; i < STORES; i++)
				free(own[i]);
		}
	}
}

/* What was never written costs neither memory nor time. */
CASE(a_large_store_costs_what_it_holds)
{
	const uint64_t slots = (uint64_t)1 << 30;
	uint64_t rss = status_bytes("VmRSS"), ns;
	struct ebb_store *store;

	if (SHADOWED)
		skip_because("a sanitizer has no room for such a table");
	ns = ktime_get_ns();
	store = open_for(slots, 0);
	must_eq(ebb_write(store, slots - 7, page, PAGE_SIZE), 0);
	must_be_at_most(status_bytes("VmRSS"), rss + 4 * MIB);
	must_eq(ebb_check(store, NULL, 0), 0);
	must_eq(ebb_reset(store), 0);
	must_eq(ebb_read(store, slots - 7, page, PAGE_SIZE), 0);
	ebb_close(store);
	ns = ktime_get_ns() - ns;
	print_message("# 2^30 slots, one page: all in %.1f ms\n", (double)ns / 1e6);
	/* To look at each slot takes seconds. */
	must_be_at_most(ns, 500000000);
}

/* A host with 64 CPUs and a budget of 16 GiB, whose buffers are 140 MB. */
CASE(buffers_come_and_go_with_what_is_stored)
{
	const uint64_t slots = 64 * MIB / PAGE_SIZE;
	struct ebb_stat stat = { .struct_size = sizeof(stat) };
	struct ebb_store *store;
	struct ebb_config cfg;
	uint64_t empty, rss;

	if (SHADOWED)
		skip_because("a sanitizer has no room for such a table");
	host_user_set_nr_cpus(64);
	ebb_config_init(&cfg);
	cfg.slots = 1 << 26;
	cfg.release_limit = (uint64_t)16 << 30;
	rss = status_bytes("RssAnon");
	must_eq(ebb_open(&store, &cfg), 0);
	print_message("# an empty store of 2^26 slots: %" PRIu64 " KiB\n",
		      (status_bytes("RssAnon") - rss) >> 10);
	must_be_at_most(status_bytes("RssAnon"), rss + 8 * MIB);
	must_eq(ebb_stat(store, &stat), 0);
	must_eq(stat.release_limit, cfg.release_limit);
	empty = stat.meta_bytes;
	for (uint64_t i = 0; i < slots; i++) {
		fill_random(page, PAGE_SIZE, i);
		must_eq(ebb_write(store, i, page, PAGE_SIZE), 0);
	}
	/* The table's first part and the descriptors are half of it; larger pages take less. */
	must_become(ebb_stat(store, &stat) == 0 &&
		    stat.meta_bytes >= empty + (1400 << 10 >> (PAGE_SHIFT - 12)));
	must_eq(ebb_free(store, 0, slots), 0);
	/* The table's first part stays, and a directory; 16 MiB of budget have their buffers. */
	must_become(ebb_stat(store, &stat) == 0 && stat.meta_bytes <= empty + (320 << 10));
	ebb_close(store);
	host_user_set_nr_cpus(0);
}

/* In a child: a limit on address space, of which a store gets most, and then says so. */
static int filled_under_a_limit(void)
{
	const uint64_t limit = 400 * MIB, slots = 1024 * MIB / PAGE_SIZE;
	struct rlimit rl = { status_bytes("VmSize") + limit, RLIM_INFINITY };
	struct ebb_store *store;
	uint64_t i = 0;
	int err = 0;

	if (setrlimit(RLIMIT_AS, &rl))
		return 2;
	store = open_for(slots, 0);
	for (; !err && i < slots; i++) {
		fill_random(page, PAGE_SIZE, i);
		err = ebb_write(store, i, page, PAGE_SIZE);
	}
	if (err != -ENOMEM || ebb_check(store, NULL, 0))
		return 3;
	/* The rest is threads' stacks, the slot table, and what a last extent could not have. */
	if (i * PAGE_SIZE < limit / 2)
		return 4;
	/* What is there stays, and makes room. */
	if (ebb_free(store, 0, i / 2) || ebb_write(store, slots - 1, page, PAGE_SIZE))
		return 5;
	for (uint64_t k = i / 2; k < i - 1; k++) {
		unsigned char got[PAGE_SIZE];

		fill_random(page, PAGE_SIZE, k);
		if (ebb_read(store, k, got, sizeof(got)) || memcmp(page, got, sizeof(got)))
			return 6;
	}
	if (ebb_check(store, NULL, 0))
		return 7;
	ebb_close(store);
	return 0;
}

CASE(a_limit_on_address_space_is_used_up)
{
	if (SHADOWED)
		skip_because("a sanitizer has taken the address space");
	child_does(filled_under_a_limit);
}
