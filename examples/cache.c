/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* cache.c - pages of a shop, made when they are asked for, and kept in 16 MiB and a file. */
#include <ebb_cache.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES 20000u
#define VISITS 100000u
#define LONGEST 20000

/* A page of 3 to some 14 KB, which takes a while to make. */
static size_t make(unsigned int page, char *text)
{
	size_t n = (size_t)sprintf(text, "<h1>Shelf %u</h1>", page);

	for (unsigned int i = 0; i < 40 + page % 150; i++)
		n += (size_t)sprintf(text + n, "<li><a href=\"/buy/%u\">article no. %u, %u left</a>",
				     page * 7919 % 10007 * (i + 1), page + i * i, i * page % 97);
	return n;
}

static void fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-err));
	exit(1);
}

int main(int argc, char **argv)
{
	struct ebb_cache_stat stat = { .struct_size = sizeof(stat) };
	static char text[LONGEST], got[LONGEST];
	struct ebb_cache_config cfg;
	struct ebb_cache *cache;
	unsigned int i, page;
	size_t n, bytes;
	int err;

	ebb_cache_config_init(&cfg);
	cfg.capacity = (uint64_t)16 << 20;
	cfg.spill = argc > 1 ? argv[1] : NULL;
	cfg.spill_capacity = (uint64_t)64 << 20;
	err = ebb_cache_open(&cache, &cfg);
	if (err)
		fail("ebb_cache_open", err);
	for (i = 0; i < VISITS; i++) {
		/* Few pages have most of the visits. */
		page = (unsigned int)rand() % (1 + (unsigned int)rand() % PAGES);
		err = ebb_cache_get(cache, &page, sizeof(page), got, sizeof(got), &bytes);
		if (err && err != -ENOENT)
			fail("ebb_cache_get", err);
		n = make(page, text);
		if (err)
			err = ebb_cache_put(cache, &page, sizeof(page), text, n, n, 0);
		else if (bytes != n || memcmp(got, text, n))
			fail("ebb_cache_get: other bytes", -EIO);
		if (err)
			fail("ebb_cache_put", err);
	}
	ebb_cache_stat(cache, &stat);
	printf("%u visits: %.1f %% hit, %.1f %% in the file; %.1f of %.1f MiB used for %u pages\n",
	       VISITS, 100.0 * (double)stat.hits / VISITS, 100.0 * (double)stat.spill_hits / VISITS,
	       (double)stat.used_bytes / 1048576, (double)stat.capacity / 1048576,
	       (unsigned int)stat.values);
	ebb_cache_close(cache);
	return 0;
}
