// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * scale.c - scenarios on the counting home.
 *
 *     scale SCENARIO CPUS NODES REMOTE_NS sync|deferred [ACCESS_PS RMW_PS]
 *
 * makes a store, fills it, lets all CPUs do the scenario in simulated time, and prints what was
 * counted as one JSON object.
 */
#include "check.h"
#include "home.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>

#define EACH 2048u              /* objects of a CPU */
#define WARM 32u
#define FEW 4u
#define RECLAIMERS 64u
#define COMPRESS_PS 2000000
#define DECOMPRESS_PS 600000

struct scenario {
	const char *name;
	void (*act)(void *arg);         /* of a CPU that takes part */
	unsigned int (*takes_part)(unsigned int cpu);
	unsigned int run;	/* pages that a CPU stores before it is the next one's turn */
	u64 budget_kb;                  /* for each CPU; 0: as much as there is by default */
};

/* In memory whose lines are watched. */
static struct store *store;
static struct pages *pages;
static struct host_pages source;
static u64 objects, reclaims, reclaim_ps, reclaim_max_ps;
static unsigned int busy;

static host_a64 *slot_at(u64 i)
{
	return store_slot(store, i);
}

/* ---- contents: a page tells its slot and how long it gets ---- */

#define WORDS (PAGE_SIZE / sizeof(u64))

static u64 mix(u64 x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* One in 64 does not compress; the others get 64 to 1,087 bytes long, as swap's do on average. */
static u32 length(u64 i)
{
	u64 r = mix(i + 1);

	return r % 64 ? 64 + (u32)(r >> 8) % 1024 : (u32)PAGE_SIZE;
}

static void make_page(u64 *page, u64 i)
{
	page[0] = i;
	page[1] = length(i);
	page[WORDS - 1] = ~i;
}

static void *codec_create(const struct codec_params *p)
{
	(void)p;
	return host_zalloc(64);
}

static void codec_destroy(void *ctx)
{
	host_free(ctx, 64);
}

static int codec_compress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	const u64 *page = src;

	(void)ctx;
	(void)n;
	sim_pass(COMPRESS_PS);
	if (page[1] > cap)
		return -ENOSPC;
	sim_access(dst, page[1], true);
	memcpy(dst, src, page[1]);
	return (int)page[1];
}

static int codec_decompress(void *ctx, const void *src, size_t n, void *dst, size_t cap)
{
	(void)ctx;
	(void)cap;
	sim_pass(DECOMPRESS_PS);
	sim_access(src, n, false);
	memcpy(dst, src, n);
	return 0;
}

static const struct codec_ops codec = {
	.name = "counting",
	.create = codec_create,
	.destroy = codec_destroy,
	.compress = codec_compress,
	.decompress = codec_decompress,
};

static void put(u64 i)
{
	u64 page[WORDS];

	make_page(page, i);
	if (store_try_write(store, i, page, numa_mem_id()))
		sim_fail("slot %llu cannot be written", (unsigned long long)i);
}

static void get(u64 i)
{
	u64 page[WORDS];

	if (store_read(store, i, page) || page[0] != i)
		sim_fail("slot %llu is not what was written", (unsigned long long)i);
}

/* ---- what CPUs do; arg is the CPU ---- */

static unsigned int everybody(unsigned int cpu)
{
	(void)cpu;
	return SIM_OP;
}

/* FEW of them, each as far from the next as can be. */
static unsigned int few(unsigned int cpu)
{
	unsigned int apart = sim_cpus() > FEW ? sim_cpus() / FEW : 1;

	return cpu % apart ? SIM_SETUP : SIM_OP;
}

/* Every other one until there are RECLAIMERS; a CPU alone frees. */
static unsigned int some_reclaim(unsigned int cpu)
{
	return cpu % 2 && cpu / 2 < RECLAIMERS ? SIM_RECLAIM : SIM_OP;
}

static void free_from(unsigned int cpu)
{
	u64 i;

	for (i = 0; i < EACH; i++)
		store_free(store, (u64)cpu * EACH + i);
	objects += EACH;
}

static void frees_own(void *arg)
{
	free_from((unsigned int)(size_t)arg);
}

static void frees_remote(void *arg)
{
	free_from(((unsigned int)(size_t)arg + sim_cpus() / 2) % sim_cpus());
}

static void faults(void *arg)
{
	u64 first = (u64)(size_t)arg * EACH, i;

	for (i = first; i < first + EACH; i++) {
		get(i);
		store_free(store, i);
	}
	objects += EACH;
}

/* A third each of writes, reads and frees, of own slots in no order. */
static void mixes(void *arg)
{
	u64 first = (u64)(size_t)arg * EACH, i, at;

	for (i = 0; i < EACH; i++) {
		at = first + mix(first + i) % EACH;
		if (i % 3 == 0)
			put(at);
		else if (i % 3 == 1 && host_a64_read(slot_at(at)))
			get(at);
		else
			store_free(store, at);
	}
	objects += EACH;
}

/* What the shrinker's count and scan call (kernel/zram/shrink.c). */
static void shrink(void)
{
	/* Whatever the figure says: it may be old when somebody acts on it. */
	shrink_count(&store->shrink);
	shrink_some(&store->shrink);
}

/* What the home's timer does for it meanwhile; the first of those who reclaim plays the timer. */
static void look(void)
{
	if (sim_cpu() == 1)
		shrink_look(&store->shrink, store_count(store, CNT_ROOM));
}

static void reclaims_or_frees(void *arg)
{
	if (some_reclaim((unsigned int)(size_t)arg) == SIM_OP) {
		free_from((unsigned int)(size_t)arg);
		busy--;
		return;
	}
	while (busy) {
		u64 from;

		look();
		from = sim_now();
		shrink();
		sim_order();
		reclaims++;
		reclaim_ps += sim_now() - from;
		if (reclaim_max_ps < sim_now() - from)
			reclaim_max_ps = sim_now() - from;
	}
}

static const struct scenario scenarios[] = {
	{ "exit-storm", frees_own, everybody, EACH, 0 },
	{ "exit-scattered", frees_own, everybody, 1, 0 },
	{ "exit-few", frees_own, few, EACH, 0 },
	{ "mixed", mixes, everybody, EACH, 0 },
	{ "refault", faults, everybody, EACH, 0 },
	{ "reclaim-storm", reclaims_or_frees, some_reclaim, EACH, 0 },
	{ "remote", frees_remote, everybody, EACH, 0 },
	{ "spent-budget", frees_own, everybody, EACH, 256 },
};

/* ---- from the start to the end ---- */

/* Each CPU has read what it reads at every turn, and has used its buffer and its list. */
static void warm_up(void)
{
	unsigned int cpu, k;

	for (cpu = 0; cpu < sim_cpus(); cpu++) {
		sim_be(cpu);
		for (k = 0; k < WARM; k++) {
			put((u64)cpu * EACH + k);
			get((u64)cpu * EACH + k);
			store_free(store, (u64)cpu * EACH + k);
		}
	}
	sim_be(0);
	release_flush(&store->release);
}

static void fill(unsigned int run)
{
	unsigned int cpu, i, k;

	for (i = 0; i < EACH; i += run)
		for (cpu = 0; cpu < sim_cpus(); cpu++) {
			sim_be(cpu);
			for (k = 0; k < run; k++)
				put((u64)cpu * EACH + i + k);
		}
	sim_be(0);
}

static void open_store(const struct scenario *s, bool sync)
{
	struct store_config cfg = {
		.slots = (u64)sim_cpus() * EACH, .codec[0] = { .ops = &codec }, .chain = CHAIN_MAX,
		.release_limit = s->budget_kb ? s->budget_kb * 1024 * sim_cpus()
					      : host_total_bytes() / RELEASE_LIMIT_SHARE,
	};

	store = sim_memory(sizeof(*store));
	pages = sim_memory(sizeof(*pages));
	if (sync)
		cfg.release_limit = 0;
	struct release_budget *budget = sim_memory(sizeof(*budget));

	if (release_budget_init(budget, cfg.release_limit))
		sim_fail("no budget");
	cfg.release_budget = budget;
	if (pages_init(pages, &source, pages_reserve_for(host_total_bytes(), sim_cpus()), NULL))
		sim_fail("no reserve");
	if (store_init(store, pages, &cfg))
		sim_fail("no store");
}

static void close_store(void)
{
	const char *why = store_check(store);

	if (why)
		sim_fail("%s", why);
	store_destroy(store);
	pages_destroy(pages);
	if (home_pages_out())
		sim_fail("%u pages did not come back", home_pages_out());
}

static void print_role(const char *name, enum sim_role role)
{
	const struct sim_counts *n = sim_counts(role);
	unsigned int i;
	const char *sep = "";

	printf(", \"%s\": {\"remote_own\": %llu, \"remote_other\": %llu, \"taken_back\": %llu, "
	       "\"accesses\": %llu, \"locked\": %llu, \"refused\": %llu, \"sleeps\": %llu, "
	       "\"visits\": %llu, \"wakes\": %llu, \"max_hold_objects\": %llu, "
	       "\"max_hold_locked\": %llu, \"max_hold_ns\": %llu, \"holds\": {", name,
	       (unsigned long long)n->remote_own, (unsigned long long)n->remote_other,
	       (unsigned long long)n->taken_back, (unsigned long long)n->accesses,
	       (unsigned long long)n->rmws, (unsigned long long)n->refused,
	       (unsigned long long)n->sleeps, (unsigned long long)n->visits,
	       (unsigned long long)n->wakes,
	       (unsigned long long)n->hold_objects, (unsigned long long)n->hold_rmws,
	       (unsigned long long)n->hold_ps / 1000);
	for (i = 0; sim_lock_name(i); i++) {
		if (!n->holds[i] || !strcmp(sim_lock_name(i), SIM_ITEM))
			continue;
		printf("%s\"%s\": [%llu, %llu]", sep, sim_lock_name(i),
		       (unsigned long long)n->holds[i], (unsigned long long)n->waits[i]);
		sep = ", ";
	}
	printf("}}");
}

/* For addr2line, those that cost most first. */
static void print_where(void)
{
	unsigned int i, k, top = 0;

	for (k = 0; k < 12; k++) {
		for (i = 0; i < SIM_WHERE; i++)
			if (sim_where[i].n > sim_where[top].n)
				top = i;
		fprintf(stderr, "%#llx %.4f\n", (unsigned long long)sim_where[top].pc,
			(double)sim_where[top].n / (double)objects);
		sim_where[top].n = 0;
	}
}

static void run(const struct scenario *s)
{
	unsigned int cpu, role;
	u64 from, end, all;

	for (cpu = 0; cpu < sim_cpus(); cpu++) {
		role = s->takes_part(cpu);
		busy += role == SIM_OP;
		if (role != SIM_SETUP)
			sim_begin(cpu, role, s->act, (void *)(size_t)cpu);
	}
	home_start_works();
	sim_reset_counts();
	from = sim_run();
	end = sim_ended(SIM_OP);
	all = sim_ended(SIM_WORKER) > end ? sim_ended(SIM_WORKER) : end;
	printf("\"objects\": %llu, \"ns\": %.1f, \"all_back_ns\": %.1f, \"reclaims\": %llu, "
	       "\"reclaim_ns\": %llu, \"reclaim_max_ns\": %llu",
	       (unsigned long long)objects, (double)(end - from) / 1000,
	       (double)(all - from) / 1000, (unsigned long long)reclaims,
	       (unsigned long long)(reclaims ? reclaim_ps / reclaims / 1000 : 0),
	       (unsigned long long)reclaim_max_ps / 1000);
	print_role("op", SIM_OP);
	print_role("worker", SIM_WORKER);
	print_role("reclaim", SIM_RECLAIM);
	if (getenv("SCALE_WHERE"))
		print_where();
}

int main(int argc, char **argv)
{
	const struct scenario *s = NULL;
	bool sync;
	size_t i;

	if (argc != 6 && argc != 8) {
		fputs("usage: scale SCENARIO CPUS NODES REMOTE_NS sync|deferred [ACCESS_PS RMW_PS]\n", stderr);
		return 2;
	}
	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (!strcmp(scenarios[i].name, argv[1]))
			s = &scenarios[i];
	if (!s)
		sim_fail("no scenario %s", argv[1]);
	sync = !strcmp(argv[5], "sync");
	sim_cost.remote = (u64)strtoul(argv[4], NULL, 10) * 1000;
	if (argc == 8) {
		sim_cost.access = strtoul(argv[6], NULL, 10);
		sim_cost.rmw = strtoul(argv[7], NULL, 10);
	}
	sim_open((unsigned int)strtoul(argv[2], NULL, 10),
		 (unsigned int)strtoul(argv[3], NULL, 10));
	open_store(s, sync);
	warm_up();
	fill(s->run);
	printf("{\"scenario\": \"%s\", \"cpus\": %u, \"nodes\": %u, ", s->name, sim_cpus(), sim_nodes());
	run(s);
	printf("}\n");
	close_store();
	return 0;
}
