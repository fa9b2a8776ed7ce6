// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_unload.c - libebb.so as a program has it that opens it and closes it again (dlclose).
 *
 * A thread that took an item by a restartable sequence leaves the address of that sequence's
 * description with the kernel, which reads it when the thread next loses its CPU.
 */
#include "support.h"
#include "ebb.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define TURNS 20
#define WRITES_NS 2000000

static struct ebb_store *store;
static __typeof__(&ebb_write) write_page;
static bool stop, stopped, closed;

static bool seen(bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void tell(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* No call into the system from the last write to the end: that would be a switch. */
static void *write_then_run_on(void *arg)
{
	static const char page[HOST_PAGE_SIZE];

	while (!seen(&stop))
		if (write_page(store, 1, page, HOST_PAGE_SIZE))
			abort();
	tell(&stopped, true);
	while (!seen(&closed))
		;
	return NULL;
}

static void *symbol(void *lib, const char *name)
{
	void *p = dlsym(lib, name);

	must(p != NULL);
	return p;
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
	for (begun = host_now_ns(); host_now_ns() - begun < WRITES_NS; )
		;
	tell(&stop, true);
	while (!seen(&stopped))
		;
	((__typeof__(&ebb_close))symbol(lib, "ebb_close"))(store);
	must_eq(dlclose(lib), 0);
	tell(&closed, true);
	must_eq(pthread_join(thread, NULL), 0);
}

static void a_thread_that_used_the_library_outlives_its_dlclose(void **state)
{
	const char *path = getenv("LIBEBB");
	unsigned int i;

	if (!path) {
		print_message("# LIBEBB does not say where libebb.so is\n");
		skip();
	}
	for (i = 0; i < TURNS; i++)
		one_turn(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_used_the_library_outlives_its_dlclose),
	};

	return cmocka_run_group_tests_name("unload", tests, NULL, NULL);
}
