// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * home_table.c - the hostile home's tables: whole, or made page by page, with a word that nobody
 * may write in the place of those that are not there.  And its pages that break.
 */
#include "home.h"
#include "explore.h"

static const host_a64 no_page;

static u64 table_pages(const struct host_table *t)
{
	return (t->n + HOST_TABLE_PIECE - 1) / HOST_TABLE_PIECE;
}

int host_table_init(struct host_table *t, u64 n)
{
	*t = (struct host_table){ .n = n };
	if (home->sparse)
		t->page = host_zalloc(table_pages(t) * sizeof(*t->page));
	else
		t->word = host_zalloc(n * sizeof(*t->word));
	return t->page || t->word ? 0 : -ENOMEM;
}

void host_table_destroy(struct host_table *t)
{
	if (host_table_take(t))
		explore_fail("a table ends with pages that it was given");
	host_free(t->word, t->n * sizeof(*t->word));
	host_free(t->page, table_pages(t) * sizeof(*t->page));
}

host_a64 *host_table_at(const struct host_table *t, u64 i)
{
	host_page page;

	if (i >= t->n)
		explore_fail("word %lu of a table of %lu", i, t->n);
	if (t->word)
		return t->word + i;
	page = (host_page)host_a64_read(&t->page[i / HOST_TABLE_PIECE]);
	if (!page)
		return (host_a64 *)(uintptr_t)&no_page;
	return (host_a64 *)host_page_addr(NULL, page) + i % HOST_TABLE_PIECE;
}

bool host_table_has(const struct host_table *t, u64 i)
{
	return t->word || host_a64_read(&t->page[i / HOST_TABLE_PIECE]);
}

u64 host_table_skip(const struct host_table *t, u64 i)
{
	return host_table_has(t, i) ? 0 : HOST_TABLE_PIECE - i % HOST_TABLE_PIECE;
}

bool host_table_give(struct host_table *t, u64 i, struct host_pages *src, host_page p)
{
	const char *bytes = host_page_addr(src, p);
	u64 none = 0;

	if (t->word || bytes[0] || memcmp(bytes, bytes + 1, PAGE_SIZE - 1))
		explore_fail("a table is given a page that is not zero, or needs none");
	return host_a64_cas(&t->page[i / HOST_TABLE_PIECE], &none, p);
}

host_page host_table_take(struct host_table *t)
{
	host_page page = 0;
	u64 i;

	for (i = 0; t->page && i < table_pages(t) && !page; i++) {
		page = (host_page)t->page[i].v;
		t->page[i].v = 0;
	}
	return page;
}

size_t host_table_bytes(const struct host_table *t)
{
	return t->word ? t->n * sizeof(*t->word) : table_pages(t) * sizeof(*t->page);
}

/* ---- pages that break ---- */

static bool *bad_of(host_page p)
{
	if (!p || p > home->frames || !home->frame_live[p - 1])
		explore_fail("whether page %u is bad is nobody's to say", p);
	return &home->frame_bad[p - 1];
}

bool host_page_is_bad(struct host_pages *src, host_page p)
{
	(void)src;
	return *bad_of(p);
}

void home_spoil(host_page page)
{
	*bad_of(page) = true;
}
