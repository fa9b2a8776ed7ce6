// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ops.c - the operations that every home has: writes, reads, frees, and what disturbs them.
 */
#include "stress.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static u32 pick_slot(u64 *r)
{
	if (one_in(r, 2))
		return (round_now.hot_at + (u32)below(r, round_now.hot)) % round_now.slots;
	return (u32)below(r, round_now.slots);
}

/* A run of at most max slots that ends within the store. */
static u32 pick_run(u64 *r, u32 *slot, u32 max)
{
	u32 n = 1 + (u32)below(r, max);

	*slot = pick_slot(r);
	return n < round_now.slots - *slot ? n : round_now.slots - *slot;
}

static void write_failed(struct worker *w, u32 slot, u32 n, const u64 *version, int err)
{
	if (!home.may_fail(err) || !(round_now.short_of_memory || options.tolerate))
		wrong("writing slots %u to %u: %s, and there is no shortage", slot, slot + n - 1, strerror(-err));
	oracle_count_failed_write();
	for (u32 i = 0; i < n; i++)
		oracle_failed(w, slot + i, version[i], n > 1 || !home.page_by_page);
}

static enum outcome write_run(struct worker *w, u32 slot, u32 n)
{
	u64 version[RUN_MAX];
	u32 got = 0;
	int err;

	/* As many as are to be had in a row; who waits for none cannot be in a deadlock. */
	while (got < n && slot_take(slot + got))
		got++;
	if (!got)
		return BUSY;
	for (u32 i = 0; i < got; i++) {
		version[i] = oracle_new(slot + i, pick_kind(&w->r, slot + i));
		make_version(w->pages + i * page_size, slot + i, version[i]);
	}
	err = home.write(slot, w->pages, got);
	if (err)
		write_failed(w, slot, got, version, err);
	for (u32 i = 0; i < got; i++) {
		if (!err)
			oracle_done(slot + i, version[i]);
		slot_leave(slot + i);
	}
	return err ? FAILED : DONE;
}

static enum outcome op_write(struct worker *w)
{
	return write_run(w, pick_slot(&w->r), 1);
}

static enum outcome op_write_run(struct worker *w)
{
	u32 slot, n = pick_run(&w->r, &slot, RUN_MAX);

	return write_run(w, slot, n);
}

static enum outcome op_put(struct worker *w)
{
	u32 slot = pick_slot(&w->r);
	u64 version;
	int err;

	if (!slot_take(slot))
		return BUSY;
	version = oracle_new(slot, OBJECT);
	err = home.put(slot, w->pages, make_version(w->pages, slot, version));
	if (err)
		write_failed(w, slot, 1, &version, err);
	else
		oracle_done(slot, version);
	slot_leave(slot);
	return err ? FAILED : DONE;
}

static enum outcome op_read(struct worker *w)
{
	return oracle_read(w, pick_slot(&w->r), 1, one_in(&w->r, 4));
}

static enum outcome op_read_run(struct worker *w)
{
	u32 slot, n = pick_run(&w->r, &slot, RUN_MAX);

	return oracle_read(w, slot, n, false);
}

/* With the slot to itself there is but one answer. */
static enum outcome op_verify(struct worker *w)
{
	u32 slot = pick_slot(&w->r);
	enum outcome out;

	if (!slot_take(slot))
		return BUSY;
	out = oracle_read(w, slot, 1, false);
	slot_leave(slot);
	return out;
}

/* Frees what of a run is to be had, in calls as long as can be. */
static enum outcome free_run(struct worker *w, u32 slot, u32 n)
{
	enum outcome out = BUSY;
	u32 end = slot + n, got;

	while (slot < end) {
		for (got = 0; slot + got < end && slot_take(slot + got); got++)
			;
		if (got) {
			oracle_free(w, slot, got);
			out = DONE;
		}
		for (u32 i = 0; i < got; i++)
			slot_leave(slot + i);
		slot += got + 1;
	}
	return out;
}

static enum outcome op_free(struct worker *w)
{
	return free_run(w, pick_slot(&w->r), 1);
}

static enum outcome op_discard(struct worker *w)
{
	u32 slot, n = pick_run(&w->r, &slot, 64);

	return free_run(w, slot, n);
}

/* As a process that ends: thousands of slots at once, more than a release buffer has room for. */
static enum outcome op_exit(struct worker *w)
{
	u32 slot, n = pick_run(&w->r, &slot, 4096);

	return free_run(w, slot, n);
}

/* The other half of op_exit: pages of one kind in a row, so that it has something to free. */
static enum outcome op_fill(struct worker *w)
{
	u32 slot, n = pick_run(&w->r, &slot, 1024);
	enum outcome out = BUSY;

	for (u32 i = 0; i < n && !stopping(); i += RUN_MAX) {
		enum outcome one = write_run(w, slot + i, n - i < RUN_MAX ? n - i : RUN_MAX);

		if (one != BUSY)
			out = one;
	}
	return out;
}

/* To another CPU, now, or to where the scheduler likes. */
static enum outcome op_migrate(struct worker *w)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	cpu_set_t set;
	u32 to = (u32)below(&w->r, (u64)cpus + 1);

	CPU_ZERO(&set);
	for (long i = 0; i < cpus && i < CPU_SETSIZE; i++)
		if (to == cpus || i == to)
			CPU_SET((size_t)i, &set);
	/* A CPU that this process may not use. */
	return sched_setaffinity(0, sizeof(set), &set) ? BUSY : DONE;
}

/* Long enough for timers to fire and for lists to become idle. */
static enum outcome op_nap(struct worker *w)
{
	struct timespec t = { .tv_nsec = (long)below(&w->r, 4000000) };

	nanosleep(&t, NULL);
	return DONE;
}

/* Memory that is wanted, touched and given back. */
static enum outcome op_hog(struct worker *w)
{
	size_t bytes = (1 + below(&w->r, options.hog_mb)) << 20, i;
	volatile char *p =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return BUSY;
	for (i = 0; i < bytes && !stopping(); i += 4096)
		p[i] = (char)i | 1;
	munmap((void *)p, bytes);
	return DONE;
}

const struct op common_ops[] = {
	/* name      weight */
	{ "write",     2000, op_write },
	{ "write-run",  400, op_write_run },
	{ "put",        800, op_put },
	{ "read",      3000, op_read },
	{ "read-run",   400, op_read_run },
	{ "verify",     800, op_verify },
	{ "free",      1200, op_free },
	{ "discard",    200, op_discard },
	{ "fill",         4, op_fill },
	{ "exit",         6, op_exit },
	{ "migrate",     40, op_migrate },
	{ "nap",          4, op_nap },
	{ "hog",          1, op_hog },
	{ NULL, 0, NULL },
};

/* ---- a store beside the one that all work on; its pages say that they are its own ---- */

static bool is_version(struct worker *w, const struct small_store *s, u32 slot, u64 version)
{
	int err = s->read(s->ctx, slot, w->pages);

	make_version(w->want, SLOTS_MAX + slot, version);
	if (!err && !memcmp(w->pages, w->want, page_size))
		return true;
	wrong("%s: page %u: %s", s->name, slot, err ? strerror(-err) : "not what was written");
	return false;
}

enum outcome use_small_store(struct worker *w, const struct small_store *s, u32 n)
{
	u64 version[64] = { 0 }, seed = next(&w->r);
	enum outcome out = DONE;

	for (u32 step = 0; step < n * 3 && !stopping(); step++) {
		u32 slot = (u32)below(&seed, n);
		u64 v = ((below(&seed, 1000) + 1) << 4) | pick_kind(&seed, slot);
		int err;

		switch (below(&seed, 4)) {
		case 0:
			if (!is_version(w, s, slot, version[slot]))
				return FAILED;
			break;
		case 1:
			err = s->free(s->ctx, slot);
			if (err)
				wrong("%s: freeing page %u: %s", s->name, slot, strerror(-err));
			version[slot] = EMPTY;
			break;
		default:
			make_version(w->pages, SLOTS_MAX + slot, v);
			err = s->write(s->ctx, slot, w->pages);
			if (!err)
				version[slot] = v;
			else if (!s->may_fail || !home.may_fail(err))
				wrong("%s: writing page %u: %s", s->name, slot, strerror(-err));
			else
				out = FAILED;
		}
	}
	for (u32 slot = 0; slot < n && !stopping(); slot++)
		if (!is_version(w, s, slot, version[slot]))
			return FAILED;
	return out;
}
