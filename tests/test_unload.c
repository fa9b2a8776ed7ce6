// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unload.c - libebb.so as a program has it that opens it and closes it again (dlclose).
 *
 * A thread that took an item by a restartable sequence leaves the address of that sequence's
 * description with the kernel, which reads it when the thread next loses its CPU.
 */
#include "process.h"
#include "api/ebb.h"

#include <pthread.h>
#include <stdlib.h>

#define TURNS 20
#define WRITES_NS 2000000

static struct ebb_store *store;
static __typeof__(&ebb_write) write_page;
static bool stop, stopped, closed;

/* No call into the system from the last write to the end: that would be a switch. */
static void *write_then_run_on(void *arg)
{
	static const char page[PAGE_SIZE];

	while (!seen(&stop))
		if (write_page(store, 1, page, PAGE_SIZE))
			abort();
	tell(&stopped, true);
	while (!seen(&closed))
		;
	return NULL;
}

static void one_turn(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct ebb_config cfg;
	pthread_t thread;
	u64 begun;

	must(lib != NULL);
	((__typeof__(&ebb_config_init))symbol(lib, "ebb_config_init"))(&cfg);
	cfg.slots = 16;
	must_eq(((__typeof__(&ebb_open))symbol(lib, "ebb_open"))(&store, &cfg), 0);
	write_page = (__typeof__(&ebb_write))symbol(lib, "ebb_write");
	stop = stopped = closed = false;
	must_eq(pthread_create(&thread, NULL, write_then_run_on, NULL), 0);
	for (begun = ktime_get_ns(); ktime_get_ns() - begun < WRITES_NS; )
		;
	tell(&stop, true);
	while (!seen(&stopped))
		;
	((__typeof__(&ebb_close))symbol(lib, "ebb_close"))(store);
	must_eq(dlclose(lib), 0);
	tell(&closed, true);
	must_eq(pthread_join(thread, NULL), 0);
}

CASE(a_thread_that_used_the_library_outlives_its_dlclose)
{
	const char *path = getenv("LIBEBB");
	unsigned int i;

	if (!path)
		skip_because("LIBEBB does not say where libebb.so is");
	for (i = 0; i < TURNS; i++)
		one_turn(path);
}

/* ---- copies ---- */

#define COPIES 3

/* One copy's way in. */
struct copy {
	__typeof__(&ebb_open) open;
	__typeof__(&ebb_config_init) config_init;
	__typeof__(&ebb_put) put;
	__typeof__(&ebb_get) get;
	__typeof__(&ebb_free) free;
	__typeof__(&ebb_check) check;
	__typeof__(&ebb_close) close;
	struct ebb_store *store;
};

static struct copy copy[COPIES];

static void find_copy(struct copy *c, void *lib)
{
	c->open = (__typeof__(c->open))symbol(lib, "ebb_open");
	c->config_init = (__typeof__(c->config_init))symbol(lib, "ebb_config_init");
	c->put = (__typeof__(c->put))symbol(lib, "ebb_put");
	c->get = (__typeof__(c->get))symbol(lib, "ebb_get");
	c->free = (__typeof__(c->free))symbol(lib, "ebb_free");
	c->check = (__typeof__(c->check))symbol(lib, "ebb_check");
	c->close = (__typeof__(c->close))symbol(lib, "ebb_close");
}

static void *use_all_copies(void *arg)
{
	u64 me = (uintptr_t)arg, got = 0, what;
	unsigned long i, turns = scaled(50000);
	size_t bytes;

	for (i = 0; i < turns; i++) {
		struct copy *c = &copy[i % COPIES];

		what = i * 8 + me;
		if (c->put(c->store, me * 8 + i % 8, &what, sizeof(what)) ||
		    c->get(c->store, me * 8 + i % 8, &got, sizeof(got), &bytes) || got != what ||
		    c->free(c->store, me * 8 + i % 8, 1))
			return arg;
	}
	return NULL;
}

CASE(copies_of_the_library_know_nothing_of_each_other)
{
	const char *path = getenv("LIBEBB");
	char name[] = "/tmp/ebb-copy-XXXXXX", command[600], why[200];
	void *lib[2], *bad;
	pthread_t id[4];
	uintptr_t i;
	int fd;

	if (!path)
		skip_because("LIBEBB does not say where libebb.so is");
	fd = mkstemp(name);
	must(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "cp '%s' %s", path, name);
	must_eq(system(command), 0);
	lib[0] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	lib[1] = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	must(lib[0] && lib[1]);
	remove(name);
	/* The third is this program's own, of libebb.a. */
	copy[2] = (struct copy){ ebb_open, ebb_config_init, ebb_put, ebb_get, ebb_free, ebb_check,
				 ebb_close, NULL };
	for (i = 0; i < 2; i++)
		find_copy(&copy[i], lib[i]);
	must(copy[0].open != copy[1].open && copy[0].open != copy[2].open);
	for (i = 0; i < COPIES; i++) {
		struct ebb_config cfg;

		copy[i].config_init(&cfg);
		cfg.slots = 100;
		must_eq(copy[i].open(&copy[i].store, &cfg), 0);
	}
	for (i = 0; i < 4; i++)
		must_eq(pthread_create(&id[i], NULL, use_all_copies, (void *)i), 0);
	for (i = 0; i < 4; i++) {
		must_eq(pthread_join(id[i], &bad), 0);
		must(!bad);
	}
	for (i = 0; i < COPIES; i++) {
		must_eq(copy[i].check(copy[i].store, why, sizeof(why)), 0);
		copy[i].close(copy[i].store);
	}
	dlclose(lib[0]);
	dlclose(lib[1]);
}
