// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * steps.c - frees that scripts/steps has callgrind count, step by step.
 *
 *   steps deferred|sync uniform|mixed SLOTS
 *
 * Fills the slots of a store with objects of about 600 bytes, or of 64 to 3,500 (the kernel's bench
 * has pages of such sizes), then frees them one by one in order, and flushes.  What is counted runs
 * within steps_free() and steps_flush(); of the library's worker, in release_worker_run().
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/ebb.h"

void steps_free(struct ebb_store *s, uint64_t slots);
void steps_flush(struct ebb_store *s);

__attribute__((noinline))
void steps_free(struct ebb_store *s, uint64_t slots)
{
	for (uint64_t i = 0; i < slots; i++)
		if (ebb_free(s, i, 1))
			abort();
}

__attribute__((noinline))
void steps_flush(struct ebb_store *s)
{
	if (ebb_flush(s))
		abort();
}

/* Sizes without order: a step of a prime through the range. */
static size_t size_of(uint64_t i, int mixed)
{
	return mixed ? 64 + (size_t)(i * 2654435761u >> 7) % 3437 : 560 + (size_t)(i * 7919) % 64;
}

int main(int argc, char **argv)
{
	static unsigned char object[4096];
	struct ebb_config cfg;
	struct ebb_store *s;
	uint64_t slots;
	int mixed;

	if (argc != 4 || (strcmp(argv[1], "deferred") && strcmp(argv[1], "sync")) ||
	    (strcmp(argv[2], "uniform") && strcmp(argv[2], "mixed"))) {
		fprintf(stderr, "usage: %s deferred|sync uniform|mixed SLOTS\n", argv[0]);
		return 2;
	}
	mixed = !strcmp(argv[2], "mixed");
	slots = strtoull(argv[3], NULL, 10);
	ebb_config_init(&cfg);
	cfg.slots = slots;
	if (!strcmp(argv[1], "sync"))
		cfg.release_limit = 0;
	if (!slots || ebb_open(&s, &cfg)) {
		fprintf(stderr, "%s: no store of %s slots\n", argv[0], argv[3]);
		return 1;
	}
	memset(object, 0x5a, sizeof(object));
	for (uint64_t i = 0; i < slots; i++) {
		memcpy(object, &i, sizeof(i));
		if (ebb_put(s, i, object, size_of(i, mixed)))
			abort();
	}
	steps_free(s, slots);
	steps_flush(s);
	ebb_close(s);
	return 0;
}
