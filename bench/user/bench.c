// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user: measures the library on real data.  This file owns the options, the turns, what the
 * rounds found, and the file that it is written to, which is whole or not there.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "allocators.h"
#include "codec.h"
#include "commit.h"
#include "memory.h"
#include "team.h"

static const struct bench *bench;
static char *typed;             /* the command line, as it was */
static double load_at_start;

/* ---- options ---- */

/* The table of those that the bench has. */
static void options_of(struct bench_opts *o, struct opt *opts)
{
	const uint64_t page = ebb_page_size(), least = strcmp(bench->threads_key, "others") ? 1 : 0;
#define WORDS(name, list, words, help) \
	{ o->list.n, { name, OPT_WORD_LIST, &o->list, 0, 0, 0, words, "NAME,...", help } }
#define NUMBER(name, field, kind, min, max, step, help) \
	{ o->field, { name, kind, &o->field, min, max, step, NULL, "N", help } }
	const struct { bool has; struct opt opt; } all[] = {
		WORDS("variant", variants, bench->variants, "some of those above"),
		WORDS("trace", traces, NULL, "zipf-A, once-A, scan-A, loop"),
		WORDS("data", data, NULL, DATA_WORDS),
		WORDS("codec", codecs, NULL, codec_words()),
		{ o->threads.n && !bench->init, { bench->threads_key, OPT_COUNT_LIST, &o->threads,
		  least, THREADS_MAX - 1, 0, NULL, "N,...", "a list is measured one by one" } },
		NUMBER("size", size, OPT_SIZE, page, SIZE_MOST, page, "of the data, for each thread"),
		NUMBER("capacity", capacity, OPT_SIZE, 1, SIZE_MOST, 0, "memory that each may take"),
		NUMBER("values", values, OPT_COUNT, 1000, 1000000000, 0, "how many"),
		NUMBER("from", least, OPT_COUNT, 1, CODEC_MOST, 0, "bytes of the shortest value"),
		NUMBER("to", most, OPT_COUNT, 1, CODEC_MOST, 0, "of the longest"),
		NUMBER("keys", keys, OPT_COUNT, 1000, 100000000, 0, "that come again"),
		NUMBER("requests", requests, OPT_COUNT, 1000, 1000000000, 0,
		       "of which the first quarter is not counted"),
		NUMBER("rounds", rounds, OPT_COUNT, 1, 1000, 0, "of everything; medians are shown"),
		{ bench == &density_bench, { "vs-kernel", OPT_FLAG, &o->vs_kernel, 0, 0, 0, NULL, NULL,
		  "measure the kernel's zram too (root)" } },
		{ true, { "json", OPT_FLAG, &o->json, 0, 0, 0, NULL, NULL,
		  "print JSON instead of a table" } },
		{ true, { "out", OPT_WORD, &o->out, 0, 0, 0, NULL, "FILE", "write JSON there, too" } },
		{ bench->preloads, { "one", OPT_FLAG, &o->one, 0, 0, 0, NULL, NULL,
		  "the first run alone, whose figures go to standard output as they are" } },
	};
#undef WORDS
#undef NUMBER

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].has)
			*opts++ = all[i].opt;
	*opts = (struct opt){ .name = NULL };
}

/* Before anything is measured: what cannot be written to. */
static void check_out(const char *path)
{
	const char *end = strrchr(path, '/');
	char *folder = !end ? xprintf(".") : xprintf("%.*s", (int)(end - path) + 1, path);
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		usage_fail("--out %s: is no regular file; expected one, or none yet", path);
	if (access(folder, W_OK | X_OK) || (end && !end[1]))
		usage_fail("--out %s: %s; expected a file in a folder that can be written to", path,
			   strerror(errno ? errno : EISDIR));
	free(folder);
}

static void check_size(const struct bench_opts *o)
{
	uint64_t n = bench->copies, threads = 0, most;
	char size[32], text[32];

	for (unsigned int i = 0; bench->copies_each && i < o->threads.n; i++)
		threads = o->threads.v[i] > threads ? o->threads.v[i] : threads;
	n += threads;
	most = memory_bytes() / n;
	if (o->size > most)
		usage_fail("--size %s: so much is needed %llu times; expected at most %s",
			   size_text(o->size, size), (unsigned long long)n,
			   size_text(most >> 20 ? most >> 20 << 20 : most >> 16 << 16, text));
}

static void check_opts(const struct bench_opts *o)
{
	struct store_opts store = STORE_OPTS_DEFAULT;

	for (unsigned int i = 0; i < o->codecs.n; i++) {
		store.codec = o->codecs.v[i];
		store_opts_check(&store);
	}
	if (o->most < o->least)
		usage_fail("--to %llu: expected at least what --from says, %llu",
			   (unsigned long long)o->most, (unsigned long long)o->least);
	if (o->size)
		check_size(o);
	if (bench->check)
		bench->check(o);
	if (o->out)
		check_out(o->out);
	for (unsigned int i = 0; i < o->data.n; i++)
		data_check(o->data.v[i]);
}

/* ---- runs ---- */

static int result_fd;           /* of a process for one run */

/* One run; of an allocator, in this program started again with that preloaded. */
static void run_one(void *arg, void *found)
{
	const struct bench_run *r = arg;
	const struct allocator *a = bench->preloads ? allocator_find(r->variant) : NULL;
	char *argv[] = {
		program_invocation_name, xprintf("%s", bench->command.name), xprintf("--one"),
		xprintf("--variant=%s", r->variant ? r->variant : ""),
		xprintf("--data=%s", r->set->name), xprintf("--%s=%u", bench->threads_key, r->threads),
		xprintf("--size=%llu", (unsigned long long)r->o->size), NULL,
	};

	if (!a) {
		bench->run(r, found);
		return;
	}
	unsetenv("LD_PRELOAD");
	if ((!a->library || !setenv("LD_PRELOAD", a->library, 1)) &&
	    dup2(result_fd, STDOUT_FILENO) >= 0)
		execv("/proc/self/exe", argv);
	fail("cannot start again: %s", strerror(errno));
}

void bench_apart(void (*fn)(void *arg, void *found), void *arg, void *found, size_t bytes)
{
	int status = 0, fd = memfd_create("found", MFD_CLOEXEC);
	pid_t pid;

	fflush(NULL);
	pid = fd < 0 ? -1 : fork();
	if (pid < 0)
		fail("cannot start a process: %s", strerror(errno));
	if (!pid) {
		result_fd = fd;
		fn(arg, found);
		_exit(write(fd, found, bytes) != (ssize_t)bytes);
	}
	/* A signal to this program ends the other process, too. */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		kill(pid, SIGTERM);
	stop_if_interrupted();
	/* It has said why. */
	if (WIFEXITED(status) && status)
		exit(WEXITSTATUS(status));
	if (status || pread(fd, found, bytes, 0) != (ssize_t)bytes)
		fail("a run ended by signal %d", WTERMSIG(status));
	close(fd);
}

/* ---- the table ---- */

/* What tells rows apart: a text, or a number. */
struct label {
	const char *key, *text;
	uint64_t number;
};

static unsigned int labels_of(const struct bench_run *r, unsigned int part, struct label *l)
{
	unsigned int n = 0;

	if (r->variant)
		l[n++] = (struct label){ bench->variant_key, r->variant, 0 };
	if (r->trace)
		l[n++] = (struct label){ "benchmark", r->trace, 0 };
	if (r->o->threads.n)
		l[n++] = (struct label){ bench->threads_key, NULL, r->threads };
	if (bench->parts)
		l[n++] = (struct label){ bench->part_key, bench->parts[part], 0 };
	l[n++] = (struct label){ bench->data_key, r->set->name, 0 };
	l[n++] = (struct label){ "codec", r->store.codec, 0 };
	l[n++] = (struct label){ "rounds", NULL, r->o->rounds };
	return n;
}

static struct table *table_for(const struct bench_run *r)
{
	static struct column all[BENCH_COLUMNS + 8];
	struct label labels[8];
	unsigned int n = labels_of(r, 0, labels);

	for (unsigned int i = 0; i < n; i++)
		all[i] = (struct column){ labels[i].key, labels[i].key,
					  labels[i].text ? COL_TEXT : COL_INT, 0 };
	for (const struct column *c = bench->columns; c->key; c++)
		all[n++] = *c;
	return table_new(all);
}

static void add_row(struct table *t, const struct bench_run *r, unsigned int part,
		    bench_figures *found)
{
	size_t n = r->o->rounds;
	double *x = xalloc(n, sizeof(*x));
	struct label labels[8];
	unsigned int nlabels = labels_of(r, part, labels);

	table_row(t);
	for (unsigned int i = 0; i < nlabels; i++)
		table_set(t, labels[i].key, labels[i].text ? json_string(labels[i].text) :
			  json_integer((json_int_t)labels[i].number));
	for (const struct column *c = bench->columns; c->key; c++) {
		size_t col = nlabels + (size_t)(c - bench->columns);
		bool none = false;

		for (size_t i = 0; i < n; i++) {
			x[i] = found[i][part][c - bench->columns];
			none |= isnan(x[i]);
		}
		if (none)
			continue;
		if (c->kind == COL_SPREAD)
			table_spread(t, col, x, n);
		else
			table_number(t, col, median(x, n));
	}
	free(x);
}

static const char *nth(const struct word_list *list, size_t i)
{
	return list->n ? list->v[i % list->n] : NULL;
}

static size_t at_least_one(size_t n)
{
	return n ? n : 1;
}

/* All variants and numbers of threads, by turns. */
static void measure(const struct bench_run *base, struct table **t)
{
	const struct bench_opts *o = base->o;
	size_t variants = at_least_one(o->variants.n), rounds = o->rounds;
	size_t runs = variants * at_least_one(o->threads.n);
	bench_figures *found = xalloc(runs * rounds, sizeof(*found));
	struct bench_run *r = xalloc(runs, sizeof(*r));

	for (size_t k = 0; k < runs; k++) {
		r[k] = *base;
		r[k].variant = nth(&o->variants, k);
		r[k].threads = o->threads.n ? (unsigned int)o->threads.v[k / variants] : 0;
	}
	for (size_t i = 0; i < runs * rounds * BENCH_PARTS * BENCH_COLUMNS; i++)
		(&found[0][0][0])[i] = NAN;
	for (size_t round = 0; round < rounds; round++)
		/* Each begins with another: the first finds the machine colder. */
		for (size_t i = 0; i < runs; i++) {
			size_t k = (i + round) % runs;

			progress("%s, %s, round %zu of %zu: %s%s%s, %u", bench->command.name,
				 base->set->name, round + 1, rounds, base->trace ? base->trace : "",
				 base->trace ? ", " : "", r[k].variant ? r[k].variant : "all",
				 r[k].threads);
			bench_apart(run_one, &r[k], found[k * rounds + round], sizeof(*found));
		}
	if (!*t)
		*t = table_for(r);
	for (size_t k = 0; k < runs; k++)
		for (unsigned int part = 0; part < bench->rows; part++)
			add_row(*t, &r[k], part, &found[k * rounds]);
	free(found);
	free(r);
}

/* Loads what the runs have in common; what has one run only writes it down and is done. */
static struct table *measure_all(const struct bench_opts *o)
{
	size_t codecs = at_least_one(o->codecs.n), traces = at_least_one(o->traces.n);
	struct table *t = NULL;

	for (size_t i = 0; i < o->data.n; i++) {
		struct page_set set = { .name = o->data.v[i] };

		/* Who starts again loads it again. */
		if (!bench->preloads || o->one)
			data_load(&set, o->data.v[i], o->size ? o->size : DATA_LIMIT, o->most);
		for (size_t k = 0; k < codecs * traces; k++) {
			struct bench_run r = {
				.o = o, .set = &set, .store = STORE_OPTS_DEFAULT,
				.trace = nth(&o->traces, k), .variant = nth(&o->variants, 0),
				.threads = (unsigned int)o->threads.v[0],
			};
			bench_figures v = { { 0 } };

			if (o->codecs.n)
				r.store.codec = o->codecs.v[k / traces];
			if (bench->load && (!bench->preloads || o->one))
				r.loaded = bench->load(&r);
			if (!o->one) {
				measure(&r, &t);
				continue;
			}
			bench->run(&r, v);
			exit(write(STDOUT_FILENO, v, sizeof(v)) != (ssize_t)sizeof(v));
		}
		data_unload(&set);
	}
	return t;
}

/* ---- results ---- */

/* The processor's name; "" if the system does not tell it. */
static void read_model(char *model, size_t len)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[512];

	*model = '\0';
	while (f && !*model && fgets(line, sizeof(line), f))
		if (!strncmp(line, "model name", 10))
			snprintf(model, len, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"),
				 strchr(line, ':') + 2);
	if (f)
		fclose(f);
}

/* Facts of this machine, and of this run, that a figure depends on. */
static json_t *machine_facts(void)
{
	char cpu[256], date[64];
	json_t *facts = json_object();
	time_t now = time(NULL);
	struct utsname u;
	struct tm tm;

	read_model(cpu, sizeof(cpu));
	if (uname(&u) || !gmtime_r(&now, &tm) ||
	    !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &tm))
		fail("cannot tell the kernel's name or the date");
	json_set(facts, "cpu_model", json_name(*cpu ? cpu : u.machine));
	json_set(facts, "cpus", json_integer(team_cpus()));
	json_set(facts, "memory_bytes", json_integer((json_int_t)machine_bytes()));
	json_set(facts, "kernel", json_sprintf("%s %s %s", u.sysname, u.release, u.machine));
	json_set(facts, "ebb_version", json_string(ebb_version()));
	json_set(facts, "page_bytes", json_integer((json_int_t)ebb_page_size()));
	json_set(facts, "load_at_start", json_real(load_at_start));
	json_set(facts, "commit", json_string(EBB_COMMIT));
	json_set(facts, "command", json_name(typed));
	json_set(facts, "date", json_string(date));
	return facts;
}

/*
 * Written beside path and renamed, so that a reader sees the old file or the new one, and a link
 * that someone puts there is replaced and not followed.
 */
static int write_document(json_t *doc, const char *path)
{
	char *part = xprintf("%s.XXXXXX", path);
	mode_t mask = umask(0);
	int fd = mkostemp(part, O_CLOEXEC), status = 0;
	FILE *f = NULL;

	umask(mask);
	if (fd < 0 || fchmod(fd, 0666 & ~mask) || !(f = fdopen(fd, "w")) ||
	    json_dumpf(doc, f, JSON_INDENT(2) | JSON_REAL_PRECISION(7)) || fputc('\n', f) == EOF ||
	    fclose(f) || rename(part, path)) {
		note("%s: cannot write the results: %s", path, strerror(errno));
		if (fd >= 0)
			unlink(part);
		status = EXIT_FAILED;
	}
	free(part);
	return status;
}

static int report(const struct bench_opts *o, const struct table *t)
{
	json_t *doc = json_object();
	int status;

	progress_end();
	json_set(doc, "machine", machine_facts());
	json_set(doc, "rows", table_rows(t));
	if (o->json)
		json_print(json_incref(doc), JSON_INDENT(2), stdout);
	else
		table_print(t, stdout);
	status = o->out ? write_document(doc, o->out) : 0;
	json_decref(doc);
	return status;
}

/* ---- the program ---- */

int bench_main(const struct command *cmd, int argc, char **argv)
{
	struct bench_opts o;
	struct opt opts[20];
	struct table *t;
	int status;

	bench = (const struct bench *)cmd;
	o = bench->defaults;
	while (bench->variants && bench->variants[o.variants.n]) {
		o.variants.v[o.variants.n] = bench->variants[o.variants.n];
		o.variants.n++;
	}
	if (bench->init)
		bench->init(&o);
	options_of(&o, opts);
	args_parse_only(cmd, opts, argc, argv);
	check_opts(&o);
	if (bench->preloads && !o.one)
		allocators_choose(&o.variants);
	if (getloadavg(&load_at_start, 1) != 1)
		load_at_start = 0;
	t = measure_all(&o);
	status = report(&o, t);
	table_free(t);
	return status;
}

int main(int argc, char **argv)
{
	static const struct command *const benches[] = {
		&release_bench.command, &store_bench.command, &density_bench.command,
		&units_bench.command, &malloc_bench.command, &latency_bench.command,
		&values_bench.command, &cache_bench.command, NULL,
	};
	const struct program program = {
		.noun = "bench", .usage = "Usage: bench-user BENCH [OPTION]...\n\nBenches:",
		.commands = benches,
		.more = "`bench-user BENCH --help` explains one.  Sizes take K, M, G and T.",
	};

	for (int k = 0; k < argc; k++)
		typed = text_append(typed, " ", argv[k]);
	return run_command(&program, argc - 1, argv + 1);
}
