/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fuzz.h - what every fuzzer uses: its input as a row of choices.
 *
 * A fuzzer is one file with LLVMFuzzerTestOneInput().  Every input is a valid one: what is
 * missing at its end reads as zeros, what is left over is not used.  A violated must() aborts,
 * so that libFuzzer keeps the input (build/fuzz/artifacts/).
 */
#ifndef EBB_TESTS_FUZZ_H
#define EBB_TESTS_FUZZ_H

#include "support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct choices {
	const uint8_t *at, *end;
};

static inline size_t left(const struct choices *c)
{
	return (size_t)(c->end - c->at);
}

static inline uint64_t take(struct choices *c, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes && c->at < c->end; i++)
		v |= (uint64_t)*c->at++ << 8 * i;
	return v;
}

/* 0 .. n - 1, n <= 65536. */
static inline unsigned int take_below(struct choices *c, unsigned int n)
{
	return n > 1 ? (unsigned int)take(c, n > 256 ? 2 : 1) % n : 0;
}

/* Memory of exactly n bytes, so that the next one faults under ASan. */
static inline void *exactly(const void *data, size_t n)
{
	void *p = malloc(n ? n : 1);

	must(p);
	if (n && data)
		memcpy(p, data, n);
	return p;
}

static inline bool same_byte(const unsigned char *p, unsigned char byte, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte)
			return false;
	return true;
}

/* In place of the user home's, by the linker: here an internal fault is a finding. */
void __wrap_host_user_warn(u32 *seen, const char *what, const char *file, int line);
void __wrap_host_user_warn(u32 *seen, const char *what, const char *file, int line)
{
	(void)seen;
	must_failed(file, line, what, 0, 1);
}

/* For support.h: outside of a cmocka test its failures abort if this is set. */
static inline void fuzz_init(void)
{
	setenv("CMOCKA_TEST_ABORT", "1", 1);
}

#endif
