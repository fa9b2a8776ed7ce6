// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* data.c - owns the table of named sets: which files are in each, and how made pages are made. */
#define _GNU_SOURCE
#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ebb.h"
#include "table.h"
#include "tool.h"
#include "walk.h"

/* The files of a set: below a root; some have words in their path. */
struct part {
	const char *set, *root, *ends, *path;
};

#define PROGRAM "" /* no ends: what may be run, and is ELF */

static const struct part parts[] = {
	{ "system", "/usr/lib", " .so ", "" },
	{ "system", "/usr/bin", PROGRAM, "" },
	{ "libs", "/usr/lib", " .so ", "" },
	{ "source", "/usr/include", " .h .c .hh .cc .hpp .cpp .hxx .cxx .inl .ipp .tcc ", "" },
	{ "source", "/usr/src", " .h .c .hh .cc .hpp .cpp .hxx .cxx .inl .ipp .tcc ", "" },
	{ "python", "/usr/lib", " .py .pyc ", "/python3" },
	{ "python", "/usr/local/lib", " .py .pyc ", "/python3" },
	{ "exec", "/usr/bin", PROGRAM, "" },
	{ "exec", "/usr/sbin", PROGRAM, "" },
};

struct loader {
	struct page_set *set;
	size_t most;            /* pages */
	const struct part *part;    /* NULL: any file */
};

static bool wanted(const struct part *p, const char *path, const struct stat *st)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *dot;
	char end[16];

	if (!p)
		return true;
	if (!*p->ends)
		return st->st_mode & S_IXUSR;
	/* name.so.1.2, too */
	dot = strstr(name, ".so.") ? ".so" : strrchr(name, '.');
	return dot && dot != name && strlen(dot) < sizeof(end) - 2 && strstr(path, p->path) &&
	       sprintf(end, " %s ", dot) > 0 && strstr(p->ends, end);
}

static bool is_elf(const unsigned char *page)
{
	return !memcmp(page, "\177ELF", 4);
}

static bool load_file(void *arg, const char *path, const struct stat *st)
{
	struct loader *l = arg;
	struct page_set *set = l->set;
	size_t page = ebb_page_size(), first = set->count;
	struct walk_file f;

	if (!wanted(l->part, path, st) || walk_open(&f, path))
		return true;
	while (set->count < l->most && !interrupted()) {
		unsigned char *to = set->pages + set->count * page;

		if (walk_read_page(&f, to, page) <= 0)
			break;
		if (l->part && !*l->part->ends && set->count == first && !is_elf(to))
			break;
		set->count++;
	}
	walk_close(&f);
	if (set->count / 4096 != first / 4096)
		progress("reading %s: %zu MiB", set->name, set->count * page >> 20);
	return set->count < l->most;
}

static void load_tree(struct page_set *set, size_t most, const char *root,
		      const struct part *part)
{
	struct loader l = { .set = set, .most = most, .part = part };
	char *path = xprintf("%s", root);
	char *const paths[] = { path, NULL };

	if (set->count < most)
		walk(paths, load_file, NULL, &l);
	free(path);
}

/*
 * Random bytes, then one repeated word: a codec leaves the first part as it is.  Two draws,
 * and in 3 of 8 pages the larger: the mean is 2 KiB for lengths of 48 to 3536.
 */
static void make_mix(struct page_set *set, size_t most)
{
	size_t page = ebb_page_size();
	uint64_t state = 1;

	for (set->count = 0; set->count < most && !interrupted(); set->count++) {
		unsigned char *to = set->pages + set->count * page;
		uint64_t shortest = 48, lengths = 3536 - shortest + 1, word;
		size_t len = (size_t)(shortest + rng_below(&state, lengths));
		size_t other = (size_t)(shortest + rng_below(&state, lengths));

		if (rng_below(&state, 8) < 3 && other > len)
			len = other;
		for (size_t i = 0; i < page; i += sizeof(word)) {
			word = i < len ? rng_next(&state) : set->count;
			memcpy(to + i, &word, sizeof(word));
		}
	}
}

void data_check(const char *name)
{
	json_t *text = json_string(name);
	struct page_set first;

	if (!text)
		usage_fail("--data %s: is not UTF-8; expected a name that JSON can hold", name);
	json_decref(text);
	data_load(&first, name, ebb_page_size(), 0);
	data_unload(&first);
}

void data_load(struct page_set *set, const char *name, uint64_t limit, uint64_t least)
{
	size_t page = ebb_page_size(), most = limit / page;
	bool named = false;

	memset(set, 0, sizeof(*set));
	set->name = name;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		named |= !strcmp(parts[i].set, name);
	if (!named && strcmp(name, "mix") && access(name, F_OK))
		usage_fail("--data %s: %s; expected " DATA_WORDS, name, strerror(errno));
	set->mapped = most * page;
	set->pages = xmap(set->mapped);
	if (!strcmp(name, "mix"))
		make_mix(set, most);
	else if (!named)
		load_tree(set, most, name, NULL);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (!strcmp(parts[i].set, name))
			load_tree(set, most, parts[i].root, &parts[i]);
	stop_if_interrupted();
	progress_end();
	if (!set->count || set->count * page < least)
		fail("--data %s: %zu pages could be read; expected regular files, and not less", name,
		     set->count);
}

void data_unload(struct page_set *set)
{
	xunmap(set->pages, set->mapped);
	memset(set, 0, sizeof(*set));
}

const unsigned char *data_page(const struct page_set *set, size_t i)
{
	return set->pages + i % set->count * ebb_page_size();
}

const unsigned char *data_value(const struct page_set *set, uint64_t i, uint64_t values,
				uint64_t least, uint64_t most, size_t *n)
{
	uint64_t of_size = i, of_place = i + values, all = set->count * ebb_page_size();

	*n = least + (rng_next(&of_size) >> 20) % (most - least + 1);
	return set->pages + rng_next(&of_place) % (all - *n + 1);
}
