// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_zspool.c - a client that keeps to a limit, over kernel/zsmalloc/zs.c: how many pages go to
 * its disk, with frees deferred and without.
 *
 * The client is what zswap is: it asks for the total before each store, refuses at the limit, and
 * then writes its oldest objects to the disk until the total is at 90 %.  What is held back must
 * not make it write more: at most 1.05 times what it writes if nothing is.  No worker runs here, so
 * what is held back stays so, but for what the calls themselves do.
 */
#include "support.h"
#include "check.h"
#include "zsmalloc/zspool.h"

/* Of 4 KiB: a machine of 640 MiB.  Objects are larger with the page, so as many. */
#define LIMIT_PAGES 32768u
#define START (LIMIT_PAGES / 10 * 9)
/* A quarter of what lies between the two, as main.c has it of zswap's. */
#define BUDGET ((u64)(LIMIT_PAGES - START) / 4 * HOST_PAGE_SIZE)
#define OBJECTS (1u << 18)
#define POOLS 2

struct task_struct shim_task;

unsigned int memalloc_noio_save(void)
{
	return 0;
}

void memalloc_noio_restore(unsigned int was)
{
	must_eq(was, 0);
}

/* Oldest first; 0: it was freed.  Both pools' objects are in one line, as in zswap's. */
struct client {
	struct host_pages *zone;
	struct release_budget budget;
	struct pcp movable[POOLS];
	struct zs_pool pool[POOLS];
	struct {
		struct zs_pool *of;
		unsigned long handle;
	} line[OBJECTS];
	unsigned int first, end;
	u64 written;                    /* to its disk: refused, or shrunk away */
};

static struct client client;

static void no_tags(void *ctx, host_page page, u64 tag)
{
	(void)ctx;
	(void)page;
	must(tag);
}

static void no_work(struct host_work *w)
{
	(void)w;
}

static void open_client(u64 budget)
{
	struct client *c = &client;

	if (HOST_PAGE_SIZE > 16384) {
		printf("# a pool of that many pages of 64 KiB is too large for a test\n");
		skip();
	}
	memset(c, 0, sizeof(*c));
	must_eq(zone_open(&c->zone), 0);
	must_eq(release_budget_init(&c->budget, budget), 0);
	for (unsigned int k = 0; k < POOLS; k++) {
		struct cells_config cfg = {
			.chain = CHAIN_MAX,
			.release_limit = budget,
			.release_budget = &c->budget,
			.most = OBJECTS,
			.movable = &c->movable[k],
			.tag = no_tags,
		};

		must_eq(pcp_init(&c->pool[k].pcp, c->zone, 16, 64, 0), 0);
		must_eq(pcp_init(&c->movable[k], c->zone, 16, 64, 0), 0);
		must_eq(host_work_init(&c->pool[k].tend, no_work, 0), 0);
		must_eq(cells_init(&c->pool[k].cells, &c->pool[k].pcp, &cfg), 0);
	}
}

static void close_client(void)
{
	struct client *c = &client;

	for (unsigned int k = 0; k < POOLS; k++) {
		let_workers(&c->pool[k].cells.release);
		release_quiesce(&c->pool[k].cells.release);
		must_hold(cells_check(&c->pool[k].cells));
		host_work_destroy(&c->pool[k].tend);
		cells_destroy(&c->pool[k].cells);
		pcp_destroy(&c->movable[k]);
		pcp_destroy(&c->pool[k].pcp);
	}
	release_budget_destroy(&c->budget);
	zone_close(c->zone);
}

static unsigned long total(void)
{
	unsigned long pages = 0;

	for (unsigned int k = 0; k < POOLS; k++)
		pages += zs_get_total_pages(&client.pool[k]);
	return pages;
}

static void drop(unsigned int i)
{
	zs_free(client.line[i].of, client.line[i].handle);
	client.line[i].handle = 0;
}

/* Until the total is at 90 %. */
static void shrink(void)
{
	struct client *c = &client;

	while (total() > START) {
		must(c->first < c->end);
		if (c->line[c->first].handle) {
			drop(c->first);
			c->written++;
		}
		c->first++;
	}
}

/* Stores a page that compresses to so many bytes; at the limit it goes to the disk. */
static void store(struct zs_pool *of, size_t bytes)
{
	struct client *c = &client;
	unsigned long handle;

	if (total() >= LIMIT_PAGES) {
		c->written++;
		shrink();
		return;
	}
	handle = zs_malloc(of, bytes, GFP_KERNEL | __GFP_MOVABLE, 0);
	must(handle && !IS_ERR_VALUE(handle));
	must(c->end < OBJECTS);
	c->line[c->end].of = of;
	c->line[c->end++].handle = handle;
}

/* What compressed pages are: few are small, few do not compress. */
static size_t some_size(struct rng *rng)
{
	return (300 + rng_below(rng, 1200) + rng_below(rng, 1200)) * (HOST_PAGE_SIZE / 4096);
}

/*
 * To `room` pages below the limit; some objects go in between, so that zspages have holes.  They
 * are released at once: where the holes are does not depend on when a worker runs.
 */
static void fill(struct rng *rng, unsigned int pools, unsigned int room)
{
	struct client *c = &client;

	while (total() < LIMIT_PAGES - room) {
		store(&c->pool[rng_below(rng, pools)], some_size(rng));
		if (rng_below(rng, 8))
			continue;
		drop(rng_below(rng, c->end));
		for (unsigned int k = 0; k < pools; k++)
			release_quiesce(&c->pool[k].cells.release);
	}
	must_eq(c->written, 0);
	/* The workers made buffers; from here on nothing is drained but by the calls themselves. */
	for (unsigned int k = 0; k < POOLS; k++) {
		release_quiesce(&c->pool[k].cells.release);
		hold_workers(&c->pool[k].cells.release);
	}
}

static u64 held(void)
{
	return cells_held(&client.pool[0].cells) + cells_held(&client.pool[1].cells);
}

/* What one CPU gets of a budget: all, unless it is so small for all CPUs that buffers run out. */
static u64 one_cpu_holds(const struct release *r)
{
	u64 bytes = r->node[0].spare * r->buf_bytes;

	return bytes < r->limit ? bytes : r->limit;
}

/* The limit is met three times. */
static u64 written_at_the_limit(u64 budget, unsigned int pools)
{
	struct rng rng = { use_seed(7) };
	u64 most = 0;

	open_client(budget);
	fill(&rng, pools, 8);
	for (unsigned int met = 0; met < 3;) {
		u64 before = client.written;

		store(&client.pool[rng_below(&rng, pools)], some_size(&rng));
		met += client.written != before;
		most = held() > most ? held() : most;
	}
	/* It was put to the test: much was held back where that is allowed, and nothing else. */
	if (budget) {
		must(client.pool[0].cells.release.node[0].spare);
		must(most >= one_cpu_holds(&client.pool[0].cells.release) / 2);
	} else {
		must_eq(most, 0);
	}
	close_client();
	return client.written;
}

static void a_shrinking_client_writes_no_more_for_what_is_held_back(void **state)
{
	for (unsigned int pools = 1; pools <= POOLS; pools++) {
		u64 at_once = written_at_the_limit(0, pools);
		u64 later = written_at_the_limit(BUDGET, pools);

		printf("# %u pools: %llu pages written with frees at once, %llu with deferred ones\n",
		       pools, (unsigned long long)at_once, (unsigned long long)later);
		must(at_once > 1000);
		must_be_at_most(later * 100, at_once * 105);
	}
}

/* Just below the limit some go and as many come: nothing has to be written. */
static void what_others_let_go_of_is_room_for_the_next(void **state)
{
	static const u64 budgets[] = { 0, BUDGET };
	static size_t size[2048];
	struct client *c = &client;

	for (unsigned int b = 0; b < ARRAY_LEN(budgets); b++) {
		struct rng rng = { use_seed(11) };
		unsigned int i = 0;

		open_client(budgets[b]);
		fill(&rng, 1, LIMIT_PAGES / 64);
		for (unsigned int round = 0; round < 16; round++) {
			unsigned int n = 0;

			for (; n < ARRAY_LEN(size); i++) {
				if (!c->line[i].handle)
					continue;
				size[n++] = cells_size(&c->pool[0].cells, c->line[i].handle);
				drop(i);
			}
			while (n)
				store(&c->pool[0], size[--n]);
		}
		must_eq(c->written, 0);
		close_client();
	}
}

/* Long chains where they save much, and the sizes in one page at most that zs_* tells of. */
static void a_pool_has_the_classes_of_cells(void **state)
{
	struct class_table t;

	open_client(BUDGET);
	must_eq(class_table_init(&t, HOST_PAGE_SIZE, CHAIN_MAX,
				 class_cells_rule(HOST_PAGE_SIZE)), 0);
	must(!memcmp(&client.pool[0].cells.pool.table, &t, sizeof(t)));
	must_eq(zs_huge_class_size(&client.pool[0]), t.largest - POOL_HEADER + 1);
	close_client();
}

/* One budget for all pools: the second one does not get as much again. */
static void pools_hold_back_no_more_together_than_one_may(void **state)
{
	struct rng rng = { use_seed(13) };
	struct client *c = &client;
	u64 queued = 0;

	open_client(BUDGET);
	fill(&rng, POOLS, 8);
	for (unsigned int i = 0; i < c->end; i++) {
		if (!c->line[i].handle)
			continue;
		drop(i);
		queued = release_queued(&c->pool[0].cells.release) +
			 release_queued(&c->pool[1].cells.release);
		must_be_at_most(queued, BUDGET);
	}
	must(queued > BUDGET / 4);
	for (unsigned int k = 0; k < POOLS; k++)
		must(stats_of(&c->pool[k].cells.release).in_place > 0);
	close_client();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shrinking_client_writes_no_more_for_what_is_held_back),
		cmocka_unit_test(what_others_let_go_of_is_room_for_the_next),
		cmocka_unit_test(a_pool_has_the_classes_of_cells),
		cmocka_unit_test(pools_hold_back_no_more_together_than_one_may),
	};

	return cmocka_run_group_tests_name("zspool", tests, NULL, NULL);
}
