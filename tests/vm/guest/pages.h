/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Random numbers, and pages that are known by a word, of the programs that run in a guest. */
#ifndef EBB_GUEST_PAGES_H
#define EBB_GUEST_PAGES_H

#include <stdint.h>
#include <unistd.h>

/* What contents are made and checked in: zram's block. The kernel's page is some of these. */
#define PAGE 4096UL

/*
 * [*at, *at + *n) wider, to whole pages of the kernel: what can be unmapped, paged out or
 * discarded.
 */
static inline void page_widen(unsigned long *at, unsigned long *n)
{
	unsigned long per = (unsigned long)sysconf(_SC_PAGESIZE) / PAGE, over = *at % per;

	*at -= over;
	*n = (*n + over + per - 1) / per * per;
}

/* Marsaglia's xorshift; *s is not 0. */
static inline uint64_t next(uint64_t *s)
{
	*s ^= *s << 13; *s ^= *s >> 7; *s ^= *s << 17;
	return *s;
}

/* As many words of noise as `noise` says, which the word decides, and then the word to the end. */
static inline void page_fill(uint64_t *page, uint64_t word, unsigned noise)
{
	uint64_t s = word * 0x9e3779b97f4a7c15ULL | 1;
	unsigned i;

	for (i = 0; i < noise; i++)
		page[i] = next(&s);
	for (; i < PAGE / 8; i++)
		page[i] = word;
}

#endif
