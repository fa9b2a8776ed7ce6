// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocators.c - see allocators.h. */
#define _GNU_SOURCE
#include "allocators.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct allocator allocators[] = {
	{ .name = "ebb", .store = true, .release_limit = EBB_DEFAULT },
	{ .name = "ebb-sync", .store = true },
	{ .name = "mimalloc", .library = "libmimalloc.so.2" },
	{ .name = "jemalloc", .library = "libjemalloc.so.2" },
	{ .name = "tcmalloc", .library = "libtcmalloc_minimal.so.4" },
	{ .name = "glibc" },
	{ .name = "nothing", .nothing = true },
};

const struct allocator *allocator_find(const char *name)
{
	const struct allocator *a = allocators;

	while (strcmp(a->name, name))
		a++;
	return a;
}

/* Whether it can be preloaded.  Later there may be no room left for its thread-local variables. */
static bool is_installed(const char *library)
{
	int status = 1;
	pid_t pid = fork();

	if (!pid)
		_exit(!dlopen(library, RTLD_LAZY) && !strstr(dlerror(), "static TLS"));
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

void allocators_choose(struct word_list *names)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < names->n; i++) {
		const struct allocator *a = allocator_find(names->v[i]);

		if (!a->library || is_installed(a->library))
			names->v[n++] = names->v[i];
		else
			note("%s is left out: expected %s to be installed", a->name, a->library);
	}
	names->n = n;
	if (!n)
		fail("none of the allocators asked for is installed");
}

void objects_open(struct objects *o, const struct allocator *a, uint64_t slots)
{
	if (a->library && !dlopen(a->library, RTLD_LAZY | RTLD_NOLOAD))
		fail("%s: expected it to be preloaded", a->library);
	*o = (struct objects){ .a = a, .slots = slots };
	if (a->store || a->nothing)
		return;
	o->held = xmap(slots * sizeof(*o->held));
	memset(o->held, 1, slots * sizeof(*o->held));
}

void objects_open_store(struct objects *o)
{
	struct ebb_config cfg;

	if (!o->a->store)
		return;
	ebb_config_init(&cfg);
	cfg.slots = o->slots;
	cfg.release_limit = o->a->release_limit;
	must(ebb_open(&o->store, &cfg), "cannot open a store");
}

void objects_close(struct objects *o)
{
	ebb_close(o->store);
	xunmap(o->held, o->slots * sizeof(*o->held));
}

int objects_put(struct objects *o, uint64_t slot, const void *data, size_t n)
{
	if (o->a->nothing)
		return 0;
	if (o->store)
		return ebb_put(o->store, slot, data, n);
	o->held[slot] = malloc(n);
	if (!o->held[slot])
		return -ENOMEM;
	memcpy(o->held[slot], data, n);
	return 0;
}

int objects_get(struct objects *o, uint64_t slot, void *buf, size_t n)
{
	size_t found;

	if (o->a->nothing)
		return 0;
	if (o->store)
		return ebb_get(o->store, slot, buf, ebb_page_size(), &found);
	memcpy(buf, o->held[slot], n);
	return 0;
}

int objects_drop(struct objects *o, uint64_t slot)
{
	if (o->a->nothing)
		return 0;
	if (o->store)
		return ebb_free(o->store, slot, 1);
	free(o->held[slot]);
	return 0;
}
