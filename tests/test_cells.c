// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_cells.c - cells: growth, reuse, exhaustion, what is held back, frees under readers, and
 * random operations beside a plain array that says what each handle holds.
 */
#include "cells_rig.h"

#include <pthread.h>

#define MOST 6000
#define LIMIT ((u64)16 << 20)

/* The oracle: what each handle should hold. */
static struct known {
	cell_handle h;
	size_t size;
	uint64_t seed;
} known[MOST];

static unsigned char bytes[HOST_PAGE_SIZE], copy[HOST_PAGE_SIZE];

static int try_make(struct cells *s, struct known *k, size_t size, uint64_t seed)
{
	int err = cells_alloc(s, size, HOST_ANY_NODE, HOST_MAY_WAIT | HOST_MOVABLE, &k->h);

	if (err)
		return err;
	must(k->h && k->h % sizeof(u64) == 0);
	k->size = size;
	k->seed = seed;
	fill_random(bytes, size, seed);
	cells_write(s, k->h, bytes, size);
	return 0;
}

static void make(struct cells *s, struct known *k, size_t size, uint64_t seed)
{
	must_eq(try_make(s, k, size, seed), 0);
}

static void must_be_known(struct cells *s, const struct known *k)
{
	const void *at = cells_read_begin(s, k->h, copy);

	must(at);
	must_eq(cells_size(s, k->h), k->size);
	fill_random(bytes, k->size, k->seed);
	must(!memcmp(at, bytes, k->size));
	cells_end(s, k->h);
}

static void forget(struct cells *s, struct known *k)
{
	must_be_known(s, k);
	cells_free(s, k->h);
	k->h = 0;
}

static void objects_of_every_size_are_kept_as_they_are(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });

	for (size_t size = 1; size <= HOST_PAGE_SIZE; size += HOST_PAGE_SIZE / 512 - 1)
		for (unsigned int i = 0; i < 3; i++)
			make(s, &known[i], size, size + i), must_be_known(s, &known[i]);
	make(s, known, HOST_PAGE_SIZE, 7);
	must_be_known(s, known);
	must_eq(cells_alloc(s, 0, ANYHOW, &known[0].h), -EINVAL);
	must_eq(cells_alloc(s, HOST_PAGE_SIZE + 1, ANYHOW, &known[0].h), -EINVAL);
	rig_check();
	/* It ends with all that is there. */
	rig_close();
}

static void a_write_may_be_of_fewer_bytes(void **state)
{
	struct cells *s = rig_open((struct cells_config){ 0 });
	struct cells_piece piece[2];
	const unsigned char *at;

	make(s, known, 3000, 1);
	memset(copy, 0xaa, sizeof(copy));
	cells_write(s, known->h, copy, 10);
	at = cells_read_begin(s, known->h, copy);
	fill_random(bytes, 3000, 1);
	must_eq(at[9], 0xaa);
	must_eq(at[10], bytes[10]);
	must(!memcmp(at + 10, bytes + 10, 2990));
	cells_end(s, known->h);
	must_eq(cells_begin(s, known->h, piece), 1);
	must_eq(piece[0].bytes, 3000);
	cells_end(s, known->h);
	rig_close();
}

static void classes_are_in_the_order_of_sizes(void **state)
{
	struct cells *s = rig_open((struct cells_config){ 0 });
	unsigned int last = 0, place;

	for (size_t size = 1; size <= HOST_PAGE_SIZE; size++) {
		place = cells_class(s, size);
		must(place >= last && place - last <= 1);
		last = place;
	}
	must_eq(last, s->pool.table.nclasses - 1);
	rig_close();
}

static void cells_grow_and_are_used_again(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });
	u64 chunks;

	for (unsigned int i = 0; i < MOST; i++)
		make(s, &known[i], 40, i);
	chunks = s->chunks_cut;
	must_be_at_most(chunks, MOST / CELLS_OF_CHUNK + 2);
	for (unsigned int i = 0; i < MOST; i++)
		must_be_known(s, &known[i]);
	must_eq(cells_objects(s), MOST);
	rig_check();
	for (unsigned int turn = 0; turn < 4; turn++) {
		for (unsigned int i = 0; i < MOST; i++)
			if (rng_below(&(struct rng){ turn * MOST + i }, 2))
				forget(s, &known[i]);
		for (unsigned int i = 0; i < MOST; i++)
			if (!known[i].h)
				make(s, &known[i], 40 + turn, i * turn);
	}
	/* What other CPUs keep is beyond this one's reach. */
	must_be_at_most(s->chunks_cut, chunks + 1 + host_nr_cpus() * CELLS_MAG / CELLS_OF_CHUNK);
	rig_check();
	for (unsigned int i = 0; i < MOST; i++)
		forget(s, &known[i]);
	rig_check();
	must_eq(cells_pages(s), 0);
	must_eq(cells_room(s), 0);
	rig_close();
}

static void exhaustion_is_told_apart_and_ends(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .most = 2 * CELLS_OF_CHUNK });
	struct known *more = calloc(2 * CELLS_OF_CHUNK + 1, sizeof(*more));
	cpu_set_t all = stay_on_this_cpu();
	unsigned int i;

	must(more);
	must_eq(cells_init(&(struct cells){ 0 }, &rig.fixed,
			   &(struct cells_config){ .chain = 8, .most = (u64)1 << 32 }), -EINVAL);
	for (i = 0; i < 2 * CELLS_OF_CHUNK; i++)
		make(s, &more[i], 33, i);
	must_eq(try_make(s, &more[i], 33, i), -ENOSPC);
	rig_check();
	forget(s, &more[3]);
	make(s, &more[3], 100, 4);
	must_eq(try_make(s, &more[i], 33, i), -ENOSPC);
	for (i = 0; i < 2 * CELLS_OF_CHUNK; i++)
		must_be_known(s, &more[i]);
	rig_check();
	free(more);
	rig_close();
	must_eq(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* A number may be anything, and the head, with the page's address, may look like any word. */
static void a_chunk_s_head_is_no_cell(void **state)
{
	struct cells *s = rig_open((struct cells_config){ 0 });
	const struct pool_owner *owner = &s->pool.owner;
	host_a64 *cell, *head;

	make(s, known, 100, 1);
	cell = (host_a64 *)known->h;
	head = (host_a64 *)((size_t)cell & ~HOST_PAGE_MASK);
	must(owner->look(owner->ctx, (u32)(cell - head)));
	for (u32 i = 0; i < CELL_FIRST; i++) {
		u64 was = host_a64_xchg(&head[i], host_a64_read(cell));

		must_eq(owner->look(owner->ctx, i), 0);
		host_a64_xchg(&head[i], was);
	}
	rig_check();
	rig_close();
}

static void who_may_not_wait_finds_spare_cells(void **state)
{
	struct cells *s = rig_open((struct cells_config){ 0 });
	cell_handle h;

	must_eq(s->nspare, CELLS_SPARES);
	must_eq(cells_alloc(s, 100, HOST_ANY_NODE, HOST_MAY_WAIT, &h), 0);
	must_be_at_most(CELLS_SPARES - 2, host_read_once(s->nspare));
	must_become(host_read_once(s->nspare) == CELLS_SPARES);
	cells_free(s, h);
	rig_check();
	rig_close();
}

static void what_is_held_back_is_known(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });
	u64 slack = CELLS_TELL * host_percpu_items(&s->cpus), room;

	hold_workers(&s->release);
	for (unsigned int i = 0; i < 2000; i++)
		make(s, &known[i], 2000, i);
	must_eq(cells_held(s), 0);
	room = cells_room(s);
	for (unsigned int i = 0; i < 2000; i++)
		cells_free(s, known[i].h);
	must_be_at_most(cells_held(s), room);
	must_be_at_most(room, cells_held(s) + slack);
	must_eq(cells_objects(s), 0);
	must(cells_pages(s) << HOST_PAGE_SHIFT >= room);
	let_workers(&s->release);
	cells_kick(s);
	must_become(!release_held(&s->release));
	must_be_at_most(cells_held(s), slack);
	rig_check();
	rig_close();
}

/* Nothing was freed, so no timer runs that would call them. */
static void a_kick_calls_a_worker_of_each_node(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });
	unsigned int k, nodes = 0;

	must_eq(stats_of(&s->release).flush_timer, 0);
	cells_kick(s);
	for (k = 0; k < s->release.nodes; k++) {
		if (!s->release.node[k].nitems)
			continue;
		host_work_flush(&s->release.node[k].worker->work);
		nodes++;
	}
	must_be_at_most(nodes, stats_of(&s->release).flush_timer);
	rig_check();
	rig_close();
}

static void a_bulk_of_frees_is_as_many_frees(void **state)
{
	static cell_handle h[1000];

	for (unsigned int sync = 0; sync < 2; sync++) {
		const struct cells_config cfg = { .release_limit = sync ? 0 : LIMIT };
		struct cells *s = rig_open(cfg);

		for (unsigned int i = 0; i < 1000; i++) {
			make(s, &known[i], 20 + 4 * i, i);
			h[i] = known[i].h;
		}
		cells_free_bulk(s, h, 0);
		cells_free_bulk(s, h, 1);
		cells_free_bulk(s, h + 1, 700);
		rig_check();
		for (unsigned int i = 701; i < 1000; i++)
			must_be_known(s, &known[i]);
		must_eq(cells_objects(s), 299);
		cells_free_bulk(s, h + 701, 299);
		rig_check();
		must_eq(cells_pages(s), 0);
		rig_close();
	}
}

/* It is the caller's fault, and harms nobody else. */
static void an_object_that_is_freed_under_its_readers_stays_for_them(void **state)
{
	for (unsigned int readers = 1; readers <= 20; readers++) {
		const struct cells_config cfg = { .release_limit = readers % 2 * LIMIT };
		struct cells *s = rig_open(cfg);
		struct cells_piece piece[2];
		struct known old;
		unsigned int i;

		make(s, &known[0], 1000, 1);
		old = known[0];
		for (i = 0; i < readers; i++)
			must(cells_begin(s, old.h, piece));
		cells_free(s, old.h);
		for (i = 1; i < 200; i++) {
			make(s, &known[i], 1000, i + 1);
			must(known[i].h != old.h);
		}
		cells_compact(s);
		fill_random(bytes, 1000, 1);
		must(!memcmp(piece[0].at, bytes, piece[0].bytes));
		for (i = 0; i < readers; i++)
			cells_end(s, old.h);
		for (i = 1; i < 200; i++)
			must_be_known(s, &known[i]);
		/* Both are anybody's by now: all cells with a word of 0 are on lists. */
		must_eq(host_a64_read((host_a64 *)old.h), 0);
		rig_check();
		rig_close();
	}
}

static void compaction_finds_objects_by_their_cells(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });
	u64 pages;

	for (unsigned int i = 0; i < 3000; i++)
		make(s, &known[i], 200 + i % 7 * 100, i);
	for (unsigned int i = 0; i < 3000; i++)
		if (i % 5)
			forget(s, &known[i]);
	release_flush(&s->release);
	pages = cells_pages(s);
	must(cells_compact(s) > pages / 3);
	must_be_at_most(cells_pages(s), pages / 2);
	rig_check();
	for (unsigned int i = 0; i < 3000; i += 5)
		must_be_known(s, &known[i]);
	rig_close();
}

static void no_memory_is_no_harm(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });
	unsigned int made = 0;

	rig.zone->max_blocks = (u32)(512 / (ZONE_BLOCK_BYTES / HOST_PAGE_SIZE));
	while (made < MOST && !try_make(s, &known[made], HOST_PAGE_SIZE * 3 / 8, made))
		made++;
	must(made > 1000 && made < MOST);
	for (unsigned int i = 0; i < made; i++)
		must_be_known(s, &known[i]);
	forget(s, &known[0]);
	/* What is held back is found. */
	make(s, &known[0], HOST_PAGE_SIZE * 3 / 8, 9);
	rig_check();
	rig_close();
}

/* ---- pages that move ---- */

/* Whether all pages of zspages move, but as many as may not. */
static unsigned int move_all(unsigned int *busy)
{
	unsigned int moved = 0;

	*busy = 0;
	for (host_page page = 1; page < RIG_PAGES; page++) {
		int err = tags[page].v ? rig_move(page) : -EAGAIN;

		/* The page that took its place may be the next. */
		if (!err || err == -EAGAIN)
			host_a64_set(&tags[page], 0);
		moved += !err;
		*busy += err == -EBUSY;
	}
	return moved;
}

static void pages_of_every_class_move(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });
	unsigned int n = 0, busy;
	u64 pages;

	for (size_t size = 1; size <= HOST_PAGE_SIZE && n < MOST; size += HOST_PAGE_SIZE / 700)
		for (unsigned int i = 0; i < 7 && n < MOST; i++, n++)
			make(s, &known[n], size, n);
	for (unsigned int i = 0; i < n; i += 3)
		forget(s, &known[i]);
	pages = cells_pages(s);
	must_be_at_most(pages / 2, move_all(&busy));
	must_eq(busy, 0);
	for (unsigned int i = 0; i < n; i++)
		if (i % 3)
			must_be_known(s, &known[i]);
	rig_check();
	cells_compact(s);
	for (unsigned int i = 0; i < n; i++)
		if (i % 3)
			forget(s, &known[i]);
	rig_check();
	must_eq(cells_pages(s), 0);
	rig_close();
}

static u64 tag_of(struct cells *s, cell_handle h, host_page *page)
{
	struct pool *p = &s->pool;
	u64 ref = slot_ref(host_a64_read((host_a64 *)h));
	struct pool_class *c = ref_class(p, ref);
	struct zspage *z = class_at(c, ref_zspage(c, ref));

	*page = zspage_pages(z, c->words)[(size_t)ref_obj(c, ref) * c->size >> HOST_PAGE_SHIFT];
	must(tags[*page].v);
	return tags[*page].v;
}

static void a_page_that_is_read_stays(void **state)
{
	for (unsigned int readers = 1; readers <= 9; readers++) {
		struct cells *s = rig_open((struct cells_config){ 0 });
		struct cells_piece piece[2];
		host_page page;

		for (unsigned int i = 0; i < 40; i++)
			make(s, &known[i], 500, i);
		tag_of(s, known[5].h, &page);
		for (unsigned int i = 0; i < readers; i++)
			cells_begin(s, known[5].h, piece);
		must_eq(rig_move(page), -EBUSY);
		for (unsigned int i = 0; i < 40; i++)
			must_be_known(s, &known[i]);
		for (unsigned int i = 0; i < readers; i++)
			cells_end(s, known[5].h);
		/* Nor does it while as many move as may. */
		host_a64_set(&s->moves, CELLS_MOVES);
		must_eq(rig_move(page), -EAGAIN);
		host_a64_set(&s->moves, 0);
		must_eq(rig_move(page), 0);
		for (unsigned int i = 0; i < 40; i++)
			must_be_known(s, &known[i]);
		rig_check();
		rig_close();
	}
}

static void a_pinned_zspage_is_left_alone_and_reaped_by_the_last_pin(void **state)
{
	static const size_t sizes[] = { 20, 28, 60, 100, 124, 500, 2000, 3000, HOST_PAGE_SIZE };

	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		struct cells *s = rig_open((struct cells_config){ 0 });
		struct pool_class *c = &s->pool.class[cells_class(s, sizes[k])];
		unsigned int n = c->objs;
		struct known other;
		host_page page;
		u64 tag;

		for (unsigned int i = 0; i < n; i++)
			make(s, &known[i], sizes[k], i);
		tag = tag_of(s, known[0].h, &page);
		for (unsigned int full = 0; full < 2 && n > 2; full++) {
			/* Full, and, once more, with one object less. */
			must_eq(cells_pin(s, page, tag), 0);
			must_eq(cells_pin(s, page, tag), 0);
			forget(s, &known[full]);
			make(s, &other, sizes[k], 99);
			must(ref_zspage(c, slot_ref(*(u64 *)other.h)) != (u32)tag);
			cells_compact(s);
			cells_unpin(s, tag);
			make(s, &known[full], sizes[k], full);
			must(ref_zspage(c, slot_ref(*(u64 *)known[full].h)) != (u32)tag);
			forget(s, &known[full]);
			cells_unpin(s, tag);
			forget(s, &other);
			rig_check();
		}
		must_eq(cells_pin(s, page, tag), 0);
		for (unsigned int i = 0; i < n; i++)
			if (known[i].h)
				forget(s, &known[i]);
		must_eq(rig_move(page), 0);
		must(cells_pages(s) > 0);
		cells_unpin(s, tag);
		must_eq(cells_pages(s), 0);
		must_eq(cells_pin(s, page, tag), -EAGAIN);
		rig_check();
		rig_close();
	}
}

/* ---- at random, and by threads ---- */

static void any_operations_beside_an_array_that_knows(void **state)
{
	for (unsigned int turn = 0; turn < 3; turn++) {
		const struct cells_config cfg = { .release_limit = turn * (LIMIT / 8) };
		struct rng r = { use_seed(0xce11 + turn) };
		struct cells *s = rig_open(cfg);
		unsigned long steps = scaled(200000);
		static cell_handle bulk[100];
		unsigned int most = turn ? MOST : 300;

		memset(known, 0, sizeof(known));
		while (steps--) {
			unsigned int i = (unsigned int)rng_below(&r, most), k = 0;
			uint64_t what = rng_below(&r, 1000);
			host_page page;

			if (what < 8) {
				for (; k < ARRAY_LEN(bulk) && i < most; i++) {
					if (known[i].h)
						bulk[k++] = known[i].h;
					known[i].h = 0;
				}
				cells_free_bulk(s, bulk, k);
			} else if (what < 30 && known[i].h) {
				tag_of(s, known[i].h, &page);
				must_eq(rig_move(page), 0);
			} else if (what < 32) {
				cells_compact(s);
			} else if (what < 35) {
				release_flush(&s->release);
			} else if (known[i].h) {
				forget(s, &known[i]);
			} else {
				size_t most_bytes = HOST_PAGE_SIZE / (1 + !!rng_below(&r, 9));

				make(s, &known[i], 1 + rng_below(&r, most_bytes), rng_next(&r));
			}
			if (!rng_below(&r, 20000))
				rig_check();
		}
		for (unsigned int i = 0; i < most; i++)
			if (known[i].h)
				forget(s, &known[i]);
		rig_check();
		must_eq(cells_pages(s), 0);
		rig_close();
	}
}

#define THREADS 4
#define OF_A_THREAD 300

static host_a64 stop, wrong, moves;

static void *work_on(void *arg)
{
	struct cells *s = &rig.cells;
	struct rng r = { (uint64_t)(size_t)arg * 0x9e37 };
	struct known mine[OF_A_THREAD] = { 0 };
	unsigned char *want = malloc(HOST_PAGE_SIZE), *got = malloc(HOST_PAGE_SIZE);
	unsigned long steps = scaled(60000);

	/* On a busy machine all may be done before those who move pages had a CPU. */
	for (unsigned long n = 0; n < steps || (n < 500 * steps && !host_a64_read(&moves)); n++) {
		struct known *k = &mine[rng_below(&r, OF_A_THREAD)];
		const void *at;

		if (!k->h) {
			k->size = 1 + rng_below(&r, HOST_PAGE_SIZE);
			k->seed = rng_next(&r);
			if (cells_alloc(s, k->size, ANYHOW, &k->h)) {
				host_a64_add(&wrong, 1);
				continue;
			}
			fill_random(want, k->size, k->seed);
			cells_write(s, k->h, want, k->size);
			continue;
		}
		at = cells_read_begin(s, k->h, got);
		fill_random(want, k->size, k->seed);
		if (memcmp(at, want, k->size))
			host_a64_add(&wrong, 1);
		cells_end(s, k->h);
		if (rng_below(&r, 2)) {
			cells_free(s, k->h);
			k->h = 0;
		}
	}
	for (unsigned int i = 0; i < OF_A_THREAD; i++)
		if (mine[i].h)
			cells_free(s, mine[i].h);
	free(want);
	free(got);
	return NULL;
}

static void *move_pages(void *arg)
{
	struct rng r = { (uint64_t)(size_t)arg };

	while (!host_a64_read(&stop)) {
		host_page page = (host_page)rng_below(&r, 4096) + 1;

		if (host_a64_read(&tags[page]) && !rig_move(page))
			host_a64_add(&moves, 1);
	}
	return NULL;
}

static void *compact_them(void *arg)
{
	while (!host_a64_read(&stop)) {
		if (arg)
			cells_compact(&rig.cells);
		cells_held(&rig.cells);
		sched_yield();
	}
	return NULL;
}

static void threads_that_read_write_free_move_and_compact(void **state)
{
	struct cells *s = rig_open((struct cells_config){ .release_limit = LIMIT });
	pthread_t worker[THREADS], mover[2], compactor;

	host_a64_set(&stop, 0);
	host_a64_set(&moves, 0);
	for (size_t i = 0; i < THREADS; i++)
		must_eq(pthread_create(&worker[i], NULL, work_on, (void *)(i + 1)), 0);
	for (size_t i = 0; i < 2; i++)
		must_eq(pthread_create(&mover[i], NULL, move_pages, (void *)(i + 1)), 0);
	must_eq(pthread_create(&compactor, NULL, compact_them, s), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(worker[i], NULL);
	host_a64_set(&stop, 1);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(mover[i], NULL);
	pthread_join(compactor, NULL);
	must_eq(host_a64_read(&wrong), 0);
	must(host_a64_read(&moves) > 0);
	rig_check();
	must_eq(cells_pages(s), 0);
	rig_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_of_every_size_are_kept_as_they_are),
		cmocka_unit_test(a_write_may_be_of_fewer_bytes),
		cmocka_unit_test(classes_are_in_the_order_of_sizes),
		cmocka_unit_test(cells_grow_and_are_used_again),
		cmocka_unit_test(exhaustion_is_told_apart_and_ends),
		cmocka_unit_test(a_chunk_s_head_is_no_cell),
		cmocka_unit_test(who_may_not_wait_finds_spare_cells),
		cmocka_unit_test(what_is_held_back_is_known),
		cmocka_unit_test(a_kick_calls_a_worker_of_each_node),
		cmocka_unit_test(a_bulk_of_frees_is_as_many_frees),
		cmocka_unit_test(an_object_that_is_freed_under_its_readers_stays_for_them),
		cmocka_unit_test(compaction_finds_objects_by_their_cells),
		cmocka_unit_test(no_memory_is_no_harm),
		cmocka_unit_test(pages_of_every_class_move),
		cmocka_unit_test(a_page_that_is_read_stays),
		cmocka_unit_test(a_pinned_zspage_is_left_alone_and_reaped_by_the_last_pin),
		cmocka_unit_test(any_operations_beside_an_array_that_knows),
		cmocka_unit_test(threads_that_read_write_free_move_and_compact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
