// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb pack: stores all regular files under some paths, checks them, and shows what they take.
 *
 * Two passes over the paths: the first adds up sizes, since a store's slots are counted when
 * it is opened; the second reads and stores page by page, but for holes of sparse files.  Of each
 * page stored a 64-bit hash is kept, so that what is read back is compared with what was read, also
 * if the file changes meanwhile, and without holding all files in memory.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "memory.h"
#include "table.h"
#include "walk.h"

struct pack {
	struct store_opts opts;
	struct ebb_store *store;
	uint64_t *hashes;        /* of the page in each slot */
	uint64_t slots, used;    /* pages stored so far */
	uint64_t files, skipped, problems;
	uint64_t holes;          /* pages that are not there */
	uint64_t left_out;       /* files that grew meanwhile */
	bool json;
	json_t *doc;
};

/*
 * Each step is a bijection of the hash for a given word and of the word for a given hash: two
 * pages that differ in one word never collide, others with chance 2^-64.
 */
static uint64_t hash_page(const unsigned char *page, size_t bytes)
{
	uint64_t h = bytes, word;

	for (size_t i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, page + i, sizeof(word));
		h = (h ^ word) * 0x9fb21c651e98df25u;
		h ^= h >> 29;
	}
	return h;
}

static bool count_file(void *arg, const char *path, const struct stat *st)
{
	struct pack *p = arg;

	p->slots += walk_data_pages(path, st, ebb_page_size());
	return true;
}

static void __attribute__((noreturn)) fail_full(const struct pack *p, const char *path)
{
	struct ebb_stat st;

	store_stat(p->store, &st);
	fail("%s: there is no room for more: %llu MiB hold what came before; expected to get by "
	     "with the %llu MiB that this process may take", path,
	     (unsigned long long)(st.mem_used_total + st.meta_bytes) >> 20,
	     (unsigned long long)memory_bytes() >> 20);
}

static bool store_file(void *arg, const char *path, const struct stat *st)
{
	struct pack *p = arg;
	size_t page = ebb_page_size();
	unsigned char buf[65536];
	uint64_t end = p->used + walk_pages(st, page);
	struct walk_file f;
	int ret = walk_open(&f, path);
	long n = 0;

	if (end > p->slots)
		end = p->slots;
	if (ret) {
		note("%s: cannot be opened: %s", path, strerror(-ret));
		p->problems++;
		return true;
	}
	while (p->used < end && (n = walk_read_page(&f, buf, page)) > 0) {
		ret = ebb_write(p->store, p->used, buf, page);
		if (ret == -ENOMEM)
			fail_full(p, path);
		if (ret)
			fail("%s: cannot store a page in slot %llu: %s", path,
			     (unsigned long long)p->used, strerror(-ret));
		p->hashes[p->used++] = hash_page(buf, page);
		if (p->used % 4096 == 0)
			progress("storing: %llu of %llu MiB",
				 (unsigned long long)(p->used * page >> 20),
				 (unsigned long long)(p->slots * page >> 20));
		stop_if_interrupted();
	}
	if (p->used == end && walk_read_page(&f, buf, page) > 0)
		p->left_out++;
	p->holes += f.holes;
	walk_close(&f);
	stop_if_interrupted();
	if (n < 0) {
		note("%s: cannot be read: %s", path, strerror((int)-n));
		p->problems++;
	}
	p->files++;
	return true;
}

static void report_other(void *arg, const char *path, bool named, const char *what)
{
	struct pack *p = arg;

	if (named) {
		note("%s: %s; expected a file or folder that can be read", path, what);
		p->problems++;
	} else {
		p->skipped++;
	}
}

static void verify(const struct pack *p)
{
	size_t page = ebb_page_size();
	unsigned char buf[65536];

	for (uint64_t s = 0; s < p->used; s++) {
		int ret = ebb_read(p->store, s, buf, page);

		if (ret)
			fail("slot %llu cannot be read back: %s", (unsigned long long)s,
			     strerror(-ret));
		if (hash_page(buf, page) != p->hashes[s])
			fail("slot %llu does not read back as it was written; expected hash %016llx",
			     (unsigned long long)s, (unsigned long long)p->hashes[s]);
		if (s % 4096 == 0) {
			progress("reading back: %llu of %llu MiB",
				 (unsigned long long)(s * page >> 20),
				 (unsigned long long)(p->used * page >> 20));
			stop_if_interrupted();
		}
	}
}

#define FIGURE(name) { #name, #name, COL_INT, 0 }

static const struct column mm_columns[] = {
	FIGURE(orig_data_size), FIGURE(compr_data_size), FIGURE(mem_used_total), FIGURE(mem_limit),
	FIGURE(mem_used_max), FIGURE(same_pages), FIGURE(pages_compacted), FIGURE(huge_pages),
	FIGURE(huge_pages_since), { NULL, NULL, COL_TEXT, 0 },
};

static const struct column density_columns[] = {
	{ "orig_bytes", "stored MiB", COL_MIB, 1 },
	{ "compr_bytes", "compressed MiB", COL_MIB, 1 },
	{ "pool_bytes", "pool MiB", COL_MIB, 1 },
	{ "meta_bytes", "tables and buffers MiB", COL_MIB, 2 },
	{ "pool_per_byte", "pool/B", COL_REAL, 4 },
	{ "all_in_per_byte", "all in/B", COL_REAL, 4 },
	{ NULL, NULL, COL_TEXT, 0 },
};

/* Prints a table of one row, or puts it into the document. */
static void show(struct pack *p, const char *key, const struct column *cols, const double *v)
{
	struct table *t = table_new(cols);

	table_row(t);
	for (size_t i = 0; cols[i].key; i++)
		table_number(t, i, v[i]);
	if (p->doc) {
		json_set(p->doc, key, table_rows(t));
	} else {
		table_print(t, stdout);
		putchar('\n');
	}
	table_free(t);
}

static void show_figures(struct pack *p)
{
	struct ebb_stat st;
	double compr, pool, meta;

	store_stat(p->store, &st);
	compr = (double)st.compr_data_size;
	pool = (double)st.mem_used_total;
	meta = (double)st.meta_bytes;
	show(p, "density", density_columns, (const double[]) {
		(double)st.orig_data_size, compr, pool, meta, compr > 0 ? pool / compr : NAN,
		compr > 0 ? (pool + meta) / compr : NAN,
	});
	show(p, "mm_stat", mm_columns, (const double[]) {
		(double)st.orig_data_size, compr, pool, (double)st.mem_limit,
		(double)st.mem_used_max, (double)st.same_pages, (double)st.pages_compacted,
		(double)st.huge_pages, (double)st.huge_pages_since,
	});
}

/* The answer: what went in, what it takes, and that it is the same. */
static void show_summary(struct pack *p)
{
	struct ebb_stat st;
	uint64_t taken;

	if (p->json) {
		p->doc = json_pack("{sI sI sI sI sI ss sb}", "files", (json_int_t)p->files,
				   "pages", (json_int_t)p->used,
				   "hole_pages", (json_int_t)p->holes,
				   "skipped", (json_int_t)p->skipped,
				   "problems", (json_int_t)p->problems,
				   "codec", p->opts.codec, "verified", true);
		if (!p->doc)
			no_memory();
		return;
	}
	store_stat(p->store, &st);
	taken = st.mem_used_total + st.meta_bytes;
	printf("%llu files, %llu pages, %.1f MiB, take %.1f MiB with all tables: %.1f %%.\n",
	       (unsigned long long)p->files, (unsigned long long)p->used,
	       (double)st.orig_data_size / (1 << 20), (double)taken / (1 << 20),
	       (double)taken * 100 / (double)st.orig_data_size);
	puts("Every page was read back and is the same.");
	if (p->holes)
		printf("%llu pages that are holes of sparse files were left out.\n",
		       (unsigned long long)p->holes);
	if (p->skipped)
		printf("%llu entries that are no files were skipped.\n",
		       (unsigned long long)p->skipped);
	putchar('\n');
}

static void store_all(struct pack *p, char **paths)
{
	uint64_t tables;

	/* What is no file is for the second pass to report. */
	walk(paths, count_file, NULL, p);
	/* Room for files that grow between the passes. */
	if (p->slots)
		p->slots += p->slots / 64 + 16;
	if (p->slots >= UINT32_MAX)
		fail("%llu pages are under the paths; expected fewer than 2^32",
		     (unsigned long long)p->slots);
	/* A hash and a slot each; what is left is the pool's. */
	tables = p->slots * (sizeof(*p->hashes) + 8);
	memory_check(tables, "pages under the paths:", p->slots);
	p->hashes = xmap((p->slots + 1) * sizeof(*p->hashes));
	p->store = store_open(&p->opts, p->slots ? p->slots : 1, EBB_DEFAULT);
	must(ebb_set_mem_limit(p->store, memory_bytes() - tables + 1), "cannot limit the store");
	walk(paths, store_file, report_other, p);
	must(ebb_set_mem_limit(p->store, 0), "cannot free the store of its limit");
	progress_end();
	if (p->left_out)
		note("%llu files grew while they were read; what is past the size they had is left "
		     "out", (unsigned long long)p->left_out);
	if (!p->used && p->problems)
		exit(EXIT_FAILED);
	if (!p->used)
		fail("%s%s: nothing to store; expected regular files that hold data", paths[0],
		     paths[1] ? " and the other paths" : "");
}

static void pack_all(struct pack *p, char **paths)
{
	store_all(p, paths);
	verify(p);
	must(ebb_flush(p->store), "cannot flush");
	progress_end();
	show_summary(p);
	show_figures(p);
	if (p->doc)
		json_print(p->doc, JSON_INDENT(2), stdout);
	ebb_close(p->store);
}

static int pack(const struct command *cmd, int argc, char **argv)
{
	struct pack p = { .opts = STORE_OPTS_DEFAULT };
	const struct opt opts[] = {
		{ "codec", OPT_WORD, &p.opts.codec, 0, 0, 0, NULL, "NAME", codec_words() },
		{ "level", OPT_LEVEL, &p.opts.level, 0, 0, 0, NULL, "N",
		  "the codec's level; lz4's 1 packs best, more is faster" },
		{ "json", OPT_FLAG, &p.json, 0, 0, 0, NULL, NULL, "print JSON instead of tables" },
		{ .name = NULL },
	};
	int paths = args_parse(cmd, opts, argc, argv);

	if (!paths)
		usage_fail("pack: no path given; expected files or folders to store");
	store_opts_check(&p.opts);
	argv[paths] = NULL;
	pack_all(&p, argv);
	return p.problems ? EXIT_FAILED : 0;
}

const struct command pack_command = {
	.name = "pack",
	.operands = "PATH...",
	.summary = "store the files under some paths, check them, show what they take",
	.about =
"Reads all regular files under the paths as pages, stores them, reads every page back and\n"
"compares, then prints what they take, the density (pool bytes per compressed byte, and all-in,\n"
"with all tables and buffers) and zram's mm_stat.\n"
"Holes of sparse files are left out.  A path that is a symbolic link is followed, links below\n"
"are not; FIFOs, sockets and devices below are skipped.  What cannot be read is named on stderr,\n"
"the rest is stored, and the exit status is 1.",
	.examples =
"  ebb pack /usr/lib/x86_64-linux-gnu\n"
"  ebb pack --codec zstd --level 3 ~/src\n"
"  ebb pack --json /usr/include",
	.run = pack,
};
