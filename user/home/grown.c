// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* grown.c - see grown.h.  Owns nothing. */
#include "grown.h"

static size_t elements(unsigned int part)
{
	return (size_t)1 << (part + GROWN_SHIFT);
}

bool grown_need(struct grown *g, u32 n, size_t bytes)
{
	unsigned int k, last;
	void *none, *p;
	u32 at;

	if (!n)
		return true;
	last = grown_part(n - 1, &at);
	if (likely(__atomic_load_n(&g->part[last], __ATOMIC_ACQUIRE) != NULL))
		return true;
	for (k = 0; k <= last; k++) {
		if (__atomic_load_n(&g->part[k], __ATOMIC_ACQUIRE))
			continue;
		p = host_user_zalloc_sparse(elements(k) * bytes);
		if (!p)
			return false;
		none = NULL;
		if (!__atomic_compare_exchange_n(&g->part[k], &none, p, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
			host_free(p, elements(k) * bytes);
	}
	return true;
}

void grown_give(struct grown *g, u32 from, u32 to, size_t bytes)
{
	while (from < to) {
		u32 at;
		unsigned int k = grown_part(from, &at);
		size_t n = elements(k) - at;
		char *p = (char *)__atomic_load_n(&g->part[k], __ATOMIC_RELAXED) + at * bytes;

		n = n < to - from ? n : to - from;
		/* What the system does not take stays as it is, and is used again. */
		(void)host_user_discard(p, p + n * bytes);
		from += (u32)n;
	}
}

void grown_end(struct grown *g, size_t bytes)
{
	unsigned int k;

	for (k = 0; k < GROWN_PARTS; k++) {
		host_free(g->part[k], elements(k) * bytes);
		g->part[k] = NULL;
	}
}
