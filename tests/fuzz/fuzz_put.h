/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fuzz_put.h - what fuzzers of values share: the library's own puts, which may fail.
 *
 * The linker has ebb_put() of all fuzzers wrapped, so that one which does not choose failures has
 * this, too.
 */
#ifndef EBB_TESTS_FUZZ_PUT_H
#define EBB_TESTS_FUZZ_PUT_H

#include "api/ebb.h"
#include "fuzz.h"

static unsigned int failing;            /* the put, counted from 1, that fails; 0: none */

int __real_ebb_put(struct ebb_store *store, uint64_t slot, const void *p, size_t bytes);
int __wrap_ebb_put(struct ebb_store *store, uint64_t slot, const void *p, size_t bytes);
int __wrap_ebb_put(struct ebb_store *store, uint64_t slot, const void *p, size_t bytes)
{
	if (failing && !--failing)
		return -ENOMEM;
	return __real_ebb_put(store, slot, p, bytes);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_init();
	return 0;
}

#endif
