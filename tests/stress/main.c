// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * main.c - rounds of stress, in TAP.
 *
 *   stress [--seed N] [--seconds S] [--threads N] [--ops NAME,...] [--hog MiB] [--verbose]
 *          [--device /dev/zramN] [--second /dev/zramM] [--tolerate]
 *
 *   plan from the seed -> threads run a while -> all stop -> every slot and every invariant
 *        ^                                                      checked
 *        +--- the next round, on the same store and contents, or on a new store once all was
 *             freed and nothing of it was left
 *
 * A case is a round.  The last ones, if there was time: every operation came up, and writes have
 * failed for want of memory (or the failure paths were not tested).  --tolerate: memory may be
 * short at any time.
 */
#include "stress.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STUCK_S 120             /* no thread takes this long to end an operation */

struct round round_now;
struct options options = { .seconds = 10, .hog_mb = 16 };
size_t page_size;

static struct op table[OPS_MAX];
static u32 nops;
static struct worker worker[THREADS_MAX], inspector;
static bool stop_round, failed;
static char why[600];
static u32 cases;
static struct worker total;
/* How often each operation must have come up, by the tables of the rounds. */
static double expected[OPS_MAX];
static u64 ops_when_short;      /* operations of rounds that were short of memory */

bool stopping(void)
{
	return __atomic_load_n(&stop_round, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&failed, __ATOMIC_RELAXED);
}

void wrong(const char *fmt, ...)
{
	static bool first = true;
	va_list ap;

	if (__atomic_exchange_n(&first, false, __ATOMIC_SEQ_CST)) {
		va_start(ap, fmt);
		vsnprintf(why, sizeof(why), fmt, ap);
		va_end(ap);
		__atomic_store_n(&failed, true, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&stop_round, true, __ATOMIC_SEQ_CST);
}

u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

/* ---- the table and the plan ---- */

static void add_ops(const struct op *ops)
{
	for (; ops->name; ops++)
		if (nops < OPS_MAX)
			table[nops++] = *ops;
}

/* Whether --ops has the name, or is not given. */
static bool chosen(const char *name)
{
	size_t len = strlen(name);
	const char *p = options.ops;

	while (p && *p) {
		if (!strncmp(p, name, len) && (!p[len] || p[len] == ','))
			return true;
		p = strchr(p, ',');
		p += p != NULL;
	}
	return !options.ops;
}

static int make_table(void)
{
	u32 n = 0;

	add_ops(common_ops);
	add_ops(home.ops);
	for (u32 i = 0; i < nops; i++)
		if (chosen(table[i].name) && (!home.offers || home.offers(table[i].name)))
			table[n++] = table[i];
	nops = n;
	return n ? 0 : -EINVAL;
}

/* The parameters of round nr; slots stay as they are unless the store is new. */
static void plan(u32 nr, bool new_store)
{
	static const u32 times[] = { 0, 1, 1, 1, 1, 1, 5, 25 };
	struct round *r = &round_now;
	u64 sum = 0;

	r->nr = nr;
	r->r = mix(options.seed + 1) ^ mix(nr * 0x10001u + 7);
	if (new_store)
		r->slots = 64u << below(&r->r, 9);
	r->hot = 1u << below(&r->r, 6);
	r->hot_at = (u32)below(&r->r, r->slots);
	r->wild = (u32)below(&r->r, 4);
	/* One of two, so that a run of few rounds has both. */
	r->short_of_memory = (mix(options.seed ^ (nr / 2)) ^ nr) & 1;
	for (u32 i = 0; i < nops; i++) {
		r->weight[i] = table[i].weight * PICK(times, &r->r);
		sum += r->weight[i];
	}
	/* Half of the rounds, and one that fell out empty, have the table as it is. */
	if (one_in(&r->r, 2) || !sum)
		for (u32 i = 0; i < nops; i++)
			r->weight[i] = table[i].weight;
}

/* ---- threads ---- */

static u32 pick_op(u64 *r)
{
	u64 sum = 0, at;
	u32 i;

	for (i = 0; i < nops; i++)
		sum += round_now.weight[i];
	at = below(r, sum);
	for (i = 0; at >= round_now.weight[i]; i++)
		at -= round_now.weight[i];
	return i;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!__atomic_load_n(&stop_round, __ATOMIC_RELAXED)) {
		enum outcome out;
		u64 start, took;
		u32 op;

		/* From the seed and n alone: what happened before has no say in it. */
		w->r = mix(round_now.r ^ mix((u64)w->nr << 48 | ++w->n));
		op = pick_op(&w->r);
		__atomic_store_n(&w->doing, table[op].name, __ATOMIC_RELAXED);
		start = now_ns();
		out = table[op].run(w);
		took = now_ns() - start;
		w->count[op][out]++;
		w->ns[op] += took;
		if (took > w->longest[op])
			w->longest[op] = took;
	}
	__atomic_store_n(&w->doing, NULL, __ATOMIC_RELAXED);
	return NULL;
}

static void make_worker(struct worker *w, u32 nr)
{
	w->nr = nr;
	w->want = malloc(page_size);
	if (!w->want || posix_memalign((void **)&w->pages, 65536, RUN_MAX * page_size)) {
		printf("Bail out! no memory for a thread's buffers\n");
		exit(1);
	}
}

/* A thread that hangs cannot be joined; what it hangs in is what there is to say. */
static void join_all(pthread_t *id, u32 n)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += STUCK_S;
	for (u32 i = 0; i < n; i++) {
		if (!pthread_timedjoin_np(id[i], NULL, &until))
			continue;
		printf("# seed %lu, round %u (%s): %s\nnot ok %u - every operation ends\n",
		       options.seed, round_now.nr, round_now.text, why, ++cases);
		for (u32 k = 0; k < n; k++) {
			const char *doing = __atomic_load_n(&worker[k].doing, __ATOMIC_RELAXED);

			printf("# thread %u: %s\n", k, doing ? doing : "ended");
		}
		fflush(stdout);
		_exit(1);
	}
}

static void run_round(double seconds)
{
	u64 until = now_ns() + (u64)(seconds * 1e9);
	pthread_t id[THREADS_MAX];
	u32 n;

	home.begin(&round_now);
	oracle_begin(&inspector);
	for (n = 0; n < options.threads; n++) {
		worker[n].n = 0;
		if (pthread_create(&id[n], NULL, work, &worker[n])) {
			wrong("a thread could not be started");
			break;
		}
	}
	while (now_ns() < until && !__atomic_load_n(&stop_round, __ATOMIC_RELAXED))
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	__atomic_store_n(&stop_round, true, __ATOMIC_SEQ_CST);
	join_all(id, n);
	home.end();
	__atomic_store_n(&stop_round, failed, __ATOMIC_SEQ_CST);
}

/* ---- results ---- */

static u64 sum_up(struct worker *to)
{
	u64 n = 0;

	memset(to, 0, sizeof(*to));
	for (u32 k = 0; k < options.threads; k++)
		for (u32 i = 0; i < nops; i++) {
			for (int o = 0; o < OUTCOMES; o++) {
				to->count[i][o] += worker[k].count[i][o];
				n += worker[k].count[i][o];
			}
			to->ns[i] += worker[k].ns[i];
			if (worker[k].longest[i] > to->longest[i])
				to->longest[i] = worker[k].longest[i];
		}
	return n;
}

static void print_table(void)
{
	printf("# %-14s %10s %9s %9s %11s %11s\n", "operation", "done", "failed", "busy", "mean us", "longest us");
	for (u32 i = 0; i < nops; i++) {
		u64 n = total.count[i][DONE] + total.count[i][FAILED] + total.count[i][BUSY];

		printf("# %-14s %10lu %9lu %9lu %11.1f %11.1f\n", table[i].name,
		       total.count[i][DONE], total.count[i][FAILED], total.count[i][BUSY],
		       n ? (double)total.ns[i] / (double)n / 1e3 : 0,
		       (double)total.longest[i] / 1e3);
	}
}

static void result(bool good, const char *fmt, ...)
{
	va_list ap;

	if (!good)
		printf("# %s\n# again: --seed %llu --threads %u%s%s\n", why, (unsigned long long)options.seed,
		       options.threads, options.ops ? " --ops " : "", options.ops ? options.ops : "");
	printf("%s %u - ", good ? "ok" : "not ok", ++cases);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

/* All slots are freed, by another way each time, and nothing may be left. */
static void empty_store(void)
{
	u32 step = 1u << below(&round_now.r, 12);

	for (u32 i = 0; i < round_now.slots && !failed; i += step)
		oracle_free(&inspector, i, step < round_now.slots - i ? step : round_now.slots - i);
	home.check_empty();
}

static void check_all(void)
{
	struct tally t;

	oracle_settle(&inspector, &t);
	if (!failed)
		home.check(&t);
}

static void expect(u64 ops)
{
	u64 weights = 0;

	for (u32 i = 0; i < nops; i++)
		weights += round_now.weight[i];
	for (u32 i = 0; i < nops; i++)
		expected[i] += (double)ops * round_now.weight[i] / (double)weights;
	if (round_now.short_of_memory)
		ops_when_short += ops;
}

/* Whether all that must have come up has; false with the names of what has not. */
static bool all_came_up(void)
{
	size_t len = 0;

	for (u32 i = 0; i < nops; i++)
		if (expected[i] >= 50 && !total.count[i][DONE] && len < sizeof(why) - 40)
			len += (size_t)snprintf(why + len, sizeof(why) - len, "%s%s", len ? ", " : "never done: ",
						table[i].name);
	return !len;
}

static bool some_write_failed(void)
{
	for (u32 i = 0; i < nops; i++)
		if (!strncmp(table[i].name, "write", 5) && total.count[i][FAILED])
			return true;
	snprintf(why, sizeof(why), "no write failed in all this time");
	return false;
}

/* ---- the command line ---- */

static u64 number(const char *name, const char *text, u64 min, u64 max)
{
	char *end;
	u64 n;

	errno = 0;
	n = text ? strtoull(text, &end, 0) : 0;
	if (!text || end == text || *end || errno || n < min || n > max) {
		fprintf(stderr, "stress: %s wants a number from %lu to %lu\n", name, min, max);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv)
{
	struct options *o = &options;
	const char *seconds = getenv("EBB_STRESS_SECONDS"), *seed = getenv("EBB_TEST_SEED");
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	o->seed = seed ? number("EBB_TEST_SEED", seed, 0, UINT64_MAX)
		       : (u64)t.tv_sec ^ (u64)t.tv_nsec << 20 >> 12;
	if (seconds)
		o->seconds = (double)number("EBB_STRESS_SECONDS", seconds, 1, 1000000);
	o->threads = 2 * (u32)sysconf(_SC_NPROCESSORS_ONLN);
	if (o->threads < 4)
		o->threads = 4;
	if (o->threads > THREADS_MAX)
		o->threads = THREADS_MAX;
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i];

		if (!strcmp(name, "--verbose")) {
			o->verbose = true;
			continue;
		} else if (!strcmp(name, "--tolerate")) {
			o->tolerate = true;
			continue;
		}
		if (!strcmp(name, "--seed"))
			o->seed = number(name, argv[++i], 0, UINT64_MAX);
		else if (!strcmp(name, "--seconds"))
			o->seconds = (double)number(name, argv[++i], 1, 1000000);
		else if (!strcmp(name, "--threads"))
			o->threads = (u32)number(name, argv[++i], 1, THREADS_MAX);
		else if (!strcmp(name, "--hog"))
			o->hog_mb = number(name, argv[++i], 1, 1 << 20);
		else if (!strcmp(name, "--ops"))
			o->ops = argv[++i];
		else if (!strcmp(name, "--device"))
			o->device = argv[++i];
		else if (!strcmp(name, "--second"))
			o->second = argv[++i];
		else
			name = NULL;
		if (!name || i >= argc) {
			fprintf(stderr, "stress: '%s' %s\n", argv[i < argc ? i : argc - 1],
				name ? "wants a value" : "is no option");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	u64 start = now_ns(), ops = 0;
	double slice, left;
	u32 nr;

	parse(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (home.init())
		return 1;
	page_size = home.page_size();
	if (make_table()) {
		fprintf(stderr, "stress: --ops %s names no operation\n", options.ops);
		return 2;
	}
	for (u32 i = 0; i < options.threads; i++)
		make_worker(&worker[i], i);
	make_worker(&inspector, THREADS_MAX);
	printf("# stress of %s: --seed %llu, %u threads\n", home.name, (unsigned long long)options.seed, options.threads);

	/*
	 * Enough rounds that tables of all sorts come up, long enough that each is more than a
	 * start.
	 */
	slice = options.seconds / 16;
	slice = slice < 0.25 ? 0.25 : slice > 5 ? 5 : slice;
	for (nr = 0; !failed; nr++) {
		bool new_store = nr % 4 == 0;
		u64 before = ops;

		left = options.seconds - (double)(now_ns() - start) / 1e9;
		if (nr && left <= 0)
			break;
		if (new_store && nr) {
			empty_store();
			home.close();
		}
		plan(nr, new_store);
		if (new_store) {
			oracle_open();
			home.open(&round_now);
		}
		if (!failed)
			run_round(slice);
		if (!failed)
			check_all();
		ops = sum_up(&total);
		expect(ops - before);
		result(!failed, "round %u: %s, %u/8 wild%s: %llu operations", nr, round_now.text, round_now.wild,
		       round_now.short_of_memory ? ", short of memory" : "", (unsigned long long)(ops - before));
	}
	if (!failed) {
		empty_store();
		home.close();
		result(!failed, "nothing is left in the end");
	}
	/* Of chosen operations not all may have had what they need. */
	if (!failed && !options.ops) {
		result(all_came_up(), "every operation of the table came up");
		if (ops_when_short >= 50000)
			result(some_write_failed(), "writes have failed for want of memory, too");
		failed = *why;
	}
	if (options.verbose || failed)
		print_table();
	printf("# stress: %lu operations, %.0f seconds\n1..%u\n", ops,
	       (double)(now_ns() - start) / 1e9, cases);
	return failed;
}
