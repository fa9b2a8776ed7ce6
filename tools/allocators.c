// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocators.c - see allocators.h. */
#define _GNU_SOURCE
#include "allocators.h"

#include <dlfcn.h>
#include <string.h>

#include "ebb.h"

const struct allocator allocators[ALLOCATORS] = {
	{ .name = "ebb", .store = true, .release_limit = EBB_DEFAULT },
	{ .name = "ebb-sync", .store = true },
	{ .name = "mimalloc", .library = "libmimalloc.so.2" },
	{ .name = "jemalloc", .library = "libjemalloc.so.2" },
	{ .name = "tcmalloc", .library = "libtcmalloc_minimal.so.4" },
	{ .name = "glibc" },
	/* On huge pages, if the system has them for who asks. */
	{ .name = "glibc-huge", .setting = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1" },
};

const struct allocator *allocator_find(const char *name)
{
	for (size_t i = 0; i < ALLOCATORS; i++)
		if (!strcmp(allocators[i].name, name))
			return &allocators[i];
	return NULL;
}

bool allocator_is_here(const struct allocator *a)
{
	void *symbol = dlsym(RTLD_DEFAULT, "malloc");
	Dl_info info;

	if (!a->library)
		return true;
	/* The file behind libx.so.2 may be libx.so.2.0. */
	return symbol && dladdr(symbol, &info) && info.dli_fname &&
	       strstr(info.dli_fname, a->library);
}
