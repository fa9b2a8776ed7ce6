// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* data.c - owns the table of named sets: which files are in each, and how made pages are made. */
#define _GNU_SOURCE
#include "data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ebb.h"
#include "text.h"
#include "tool.h"
#include "walk.h"

#define VALUES_LIMIT ((uint64_t)64 << 20)       /* bytes of data that values are cut from */

/* Which files of a tree belong to a set. */
enum filter { ANY, SHARED_LIBRARY, C_SOURCE, PYTHON, PROGRAM };

struct part {
	const char *root;
	enum filter filter;
};

#define PARTS_MAX 2

static const struct named_set {
	const char *name;
	struct part parts[PARTS_MAX];
} named_sets[] = {
	{ "system", { { "/usr/lib", SHARED_LIBRARY }, { "/usr/bin", PROGRAM } } },
	{ "libs", { { "/usr/lib", SHARED_LIBRARY } } },
	{ "source", { { "/usr/include", C_SOURCE }, { "/usr/src", C_SOURCE } } },
	{ "python", { { "/usr/lib", PYTHON }, { "/usr/local/lib", PYTHON } } },
	{ "exec", { { "/usr/bin", PROGRAM }, { "/usr/sbin", PROGRAM } } },
};

struct loader {
	struct page_set *set;
	size_t most;            /* pages */
	enum filter filter;
};

static bool ends_with_one_of(const char *name, const char *const *ends)
{
	size_t len = strlen(name);

	for (; *ends; ends++) {
		size_t n = strlen(*ends);

		if (len > n && !strcmp(name + len - n, *ends))
			return true;
	}
	return false;
}

/* name.so, name.so.1.2 */
static bool is_library_name(const char *name)
{
	static const char *const so[] = { ".so", NULL };

	return strstr(name, ".so.") || ends_with_one_of(name, so);
}

static bool wanted(enum filter filter, const char *path, const struct stat *st)
{
	static const char *const c[] = { ".h", ".c", ".hh", ".cc", ".hpp", ".cpp", ".hxx",
					 ".cxx", ".inl", ".ipp", ".tcc", NULL };
	static const char *const py[] = { ".py", ".pyc", NULL };
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	switch (filter) {
	case ANY:
		return true;
	case SHARED_LIBRARY:
		return is_library_name(name);
	case C_SOURCE:
		return ends_with_one_of(name, c);
	case PYTHON:
		return strstr(path, "/python3") && ends_with_one_of(name, py);
	case PROGRAM:
		return st->st_mode & S_IXUSR;
	}
	return false;
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

	if (!wanted(l->filter, path, st) || walk_open(&f, path))
		return true;
	while (set->count < l->most && !interrupted()) {
		unsigned char *to = set->pages + set->count * page;

		if (walk_read_page(&f, to, page) <= 0)
			break;
		if (l->filter == PROGRAM && set->count == first && !is_elf(to))
			break;
		set->count++;
	}
	walk_close(&f);
	if (set->count / 4096 != first / 4096)
		progress("reading %s: %zu MiB", set->name, set->count * page >> 20);
	return set->count < l->most;
}

static void skip_other(void *arg, const char *path, bool named, const char *what)
{
	(void)arg, (void)path, (void)named, (void)what;
}

static void load_tree(struct page_set *set, size_t most, const char *root, enum filter filter)
{
	static const struct walk_ops ops = { .file = load_file, .other = skip_other };
	struct loader l = { .set = set, .most = most, .filter = filter };
	char *path = xprintf("%s", root);
	char *const paths[] = { path, NULL };

	if (set->count < most)
		walk(paths, &ops, &l);
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
		if (set->count % 4096 == 0)
			progress("making %s: %zu MiB", set->name, set->count * page >> 20);
	}
}

void data_check(const char *name)
{
	struct page_set first;

	if (!is_utf8(name))
		usage_fail("--data %s: is not UTF-8; expected a name that JSON can hold", name);
	data_load(&first, name, ebb_page_size());
	data_unload(&first);
}

void data_load(struct page_set *set, const char *name, uint64_t limit)
{
	size_t page = ebb_page_size(), most = limit / page;
	const struct named_set *named = NULL;

	memset(set, 0, sizeof(*set));
	set->name = name;
	for (size_t i = 0; i < ARRAY_LEN(named_sets); i++)
		if (!strcmp(named_sets[i].name, name))
			named = &named_sets[i];
	if (!named && strcmp(name, "mix") && access(name, F_OK))
		usage_fail("--data %s: %s; expected " DATA_WORDS, name, strerror(errno));
	set->mapped = most * page;
	set->pages = xmap(set->mapped);
	if (!strcmp(name, "mix"))
		make_mix(set, most);
	else if (!named)
		load_tree(set, most, name, ANY);
	else
		for (size_t i = 0; i < PARTS_MAX && named->parts[i].root; i++)
			load_tree(set, most, named->parts[i].root, named->parts[i].filter);
	stop_if_interrupted();
	progress_end();
	if (!set->count)
		fail("--data %s: no page could be read; expected regular files that are not empty",
		     name);
}

void data_unload(struct page_set *set)
{
	xunmap(set->pages, set->mapped);
	memset(set, 0, sizeof(*set));
}

void data_load_values(struct page_set *set, const char *name, uint64_t least, uint64_t most)
{
	if (most < least)
		usage_fail("--to %llu: expected at least what --from says, %llu",
			   (unsigned long long)most, (unsigned long long)least);
	data_check(name);
	data_load(set, name, VALUES_LIMIT);
	if (set->count * ebb_page_size() < most)
		usage_fail("--data %s: expected at least as much as --to says", name);
}

void data_touch(const struct page_set *set)
{
	volatile unsigned char sum = 0;

	/* The machine's pages may be smaller than Ebb's. */
	for (size_t i = 0; i < set->count * ebb_page_size(); i += 4096)
		sum ^= set->pages[i];
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
