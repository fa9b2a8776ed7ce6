// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb bench release: N threads fill their own slots of one store, then free them all at once.
 *
 * What is measured, from the moment a barrier lets the threads go:
 *   wall_ms              first start to last end of the threads' ebb_free() loops
 *   mean_ms              mean over the threads
 *   ns_per_slot          mean over the threads of their time / their slots
 *   cpu_ns_per_slot      CPU time of the whole process until drained and flushed / all slots
 *   drained_ms           first start until nothing is held back and the pool has no page
 *   held_back_peak_bytes
 *   os_return_ms         ebb_trim() after that, by itself
 */
#include <sys/prctl.h>

#include "bench.h"
#include "config.h"
#include "memory.h"

enum variant { SYNC, DEFERRED, VARIANTS };

static const char *const variant_names[] = { "sync", "deferred", NULL };

struct release_opts {
	struct store_opts store;
	struct bench_opts bench;
	struct count_list threads;
	struct word_list modes;
	const char *data;
	uint64_t size, limit, range;
};

struct sample {
	double store_ns_per_slot, wall_ms, mean_ms, ns_per_slot, cpu_ns_per_slot, drained_ms;
	double os_return_ms, held_back_peak, os_return_bytes, compr_per_slot, poll_cpu_ns_per_slot;
};

struct release_run {
	const struct release_opts *o;
	struct team_slots slots;
};

static int release(void *arg, unsigned int i)
{
	const struct release_run *run = arg;
	uint64_t slot = (uint64_t)i * run->slots.each, end = slot + run->slots.each;
	uint64_t step = run->o->range;
	int ret = 0;

	if (step == 1) {
		for (; slot < end; slot++)
			ret |= ebb_free(run->slots.store, slot, 1);
	} else {
		for (; slot < end; slot += step)
			ret |= ebb_free(run->slots.store, slot,
					step < end - slot ? step : end - slot);
	}
	return ret;
}

/*
 * Waits until every page is back, without asking for it: a flush would end the drain sooner
 * than its owner sees it end.  Looking costs CPU time, which the process's clock counts too:
 * so the sleeps are 50 us at first and a sixteenth of the time passed later, drained_ms is
 * exact to that, and the price of looking is reported as poll_cpu_ns_per_slot.
 */
static uint64_t wait_until_drained(struct ebb_store *store, uint64_t first_ns)
{
	uint64_t limit = first_ns + 30000000000u, now;
	struct ebb_stat st;

	for (;;) {
		uint64_t pause;

		store_stat(store, &st);
		now = now_ns();
		if (!st.held_back_bytes && !st.mem_used_total)
			return now;
		if (now > limit)
			fail("%llu bytes are held back and %llu in the pool 30 s after the "
			     "release; expected none", (unsigned long long)st.held_back_bytes,
			     (unsigned long long)st.mem_used_total);
		stop_if_interrupted();
		pause = (now - first_ns) / 16000;
		sleep_us(pause < 50 ? 50 : pause);
	}
}

static void run_store(struct release_run *run, enum variant variant, struct sample *s)
{
	static struct team_times times;
	double slots = (double)run->slots.threads * (double)run->slots.each;
	uint64_t poll_cpu, drained, cpu, bytes;
	struct ebb_stat st;

	run->slots.store = store_open(&run->o->store,
				      (uint64_t)run->slots.threads * run->slots.each,
				      variant == SYNC ? 0 : run->o->limit);
	team_run(run->slots.threads, slots_fill, &run->slots, &times, "cannot store a page");
	s->store_ns_per_slot = times.mean_ns / (double)run->slots.each;
	team_run(run->slots.threads, slots_verify, &run->slots, &times, "cannot read a page back");
	store_stat(run->slots.store, &st);
	s->compr_per_slot = (double)st.compr_data_size / slots;
	must(ebb_reset_held_back_peak(run->slots.store), "cannot reset the peak");

	team_run(run->slots.threads, release, run, &times, "cannot free a slot");
	poll_cpu = thread_cpu_ns();
	drained = wait_until_drained(run->slots.store, times.first_ns);
	poll_cpu = thread_cpu_ns() - poll_cpu;
	/* What the worker has left to do counts, too; pages are in per-CPU lists or the zone. */
	must(ebb_flush(run->slots.store), "cannot flush");
	cpu = process_cpu_ns() - times.start_cpu_ns;

	store_stat(run->slots.store, &st);
	s->wall_ms = (double)(times.last_ns - times.first_ns) / 1e6;
	s->mean_ms = times.mean_ns / 1e6;
	s->ns_per_slot = times.mean_ns / (double)run->slots.each;
	s->cpu_ns_per_slot = (double)cpu / slots;
	s->poll_cpu_ns_per_slot = (double)poll_cpu / slots;
	s->drained_ms = (double)(drained - times.first_ns) / 1e6;
	s->held_back_peak = (double)st.held_back_peak;

	drained = now_ns();
	must(ebb_trim(run->slots.store, &bytes), "cannot trim");
	s->os_return_ms = (double)(now_ns() - drained) / 1e6;
	s->os_return_bytes = (double)bytes;
	ebb_close(run->slots.store);
}

static const struct column columns[] = {
	{ "variant", "variant", COL_TEXT, 0 },
	{ "threads", "threads", COL_INT, 0 },
	{ "data", NULL, COL_TEXT, 0 },
	{ "codec", NULL, COL_TEXT, 0 },
	{ "slots_per_thread", NULL, COL_INT, 0 },
	{ "range", NULL, COL_INT, 0 },
	{ "rounds", NULL, COL_INT, 0 },
	{ "store_ns_per_slot", "store ns/slot", COL_SPREAD, 0 },
	{ "wall_ms", "wall ms", COL_SPREAD, 2 },
	{ "mean_ms", "mean ms", COL_SPREAD, 2 },
	{ "ns_per_slot", "ns/slot", COL_SPREAD, 1 },
	{ "cpu_ns_per_slot", "CPU ns/slot", COL_SPREAD, 1 },
	{ "drained_ms", "drained ms", COL_SPREAD, 2 },
	{ "held_back_peak_bytes", "held back MiB", COL_MIB, 1 },
	{ "os_return_ms", "to OS ms", COL_SPREAD, 2 },
	{ "os_return_bytes", NULL, COL_INT, 0 },
	{ "compr_bytes_per_slot", "B/slot", COL_REAL, 0 },
	{ "poll_cpu_ns_per_slot", NULL, COL_REAL, 1 },
	{ NULL, NULL, COL_TEXT, 0 },
};

/* One figure of every round, for the table. */
#define EACH(samples, n, field, out) do { \
	for (size_t each = 0; each < (n); each++) \
		(out)[each] = (samples)[each].field; \
} while (0)

static void add_row(struct table *t, const struct release_run *run, enum variant v,
		    const struct sample *s, size_t n)
{
	double *x = xalloc(n, sizeof(*x));

	table_row(t);
	table_text(t, "variant", variant_names[v]);
	table_int(t, "threads", run->slots.threads);
	table_text(t, "data", run->slots.set->name);
	table_text(t, "codec", run->o->store.codec);
	table_int(t, "slots_per_thread", run->slots.each);
	table_int(t, "rounds", n);
	EACH(s, n, wall_ms, x);
	table_spread(t, "wall_ms", x, n);
	EACH(s, n, ns_per_slot, x);
	table_spread(t, "ns_per_slot", x, n);
	EACH(s, n, cpu_ns_per_slot, x);
	table_spread(t, "cpu_ns_per_slot", x, n);
	EACH(s, n, drained_ms, x);
	table_spread(t, "drained_ms", x, n);
	EACH(s, n, compr_per_slot, x);
	table_real(t, "compr_bytes_per_slot", median(x, n));
	EACH(s, n, held_back_peak, x);
	table_int(t, "held_back_peak_bytes", (uint64_t)median(x, n));
	table_int(t, "range", run->o->range);
	EACH(s, n, store_ns_per_slot, x);
	table_spread(t, "store_ns_per_slot", x, n);
	EACH(s, n, os_return_ms, x);
	table_spread(t, "os_return_ms", x, n);
	EACH(s, n, os_return_bytes, x);
	table_int(t, "os_return_bytes", (uint64_t)median(x, n));
	EACH(s, n, poll_cpu_ns_per_slot, x);
	table_real(t, "poll_cpu_ns_per_slot", median(x, n));
	EACH(s, n, mean_ms, x);
	table_spread(t, "mean_ms", x, n);
	free(x);
}

static struct table *measure(const struct release_opts *o, const struct page_set *set,
			     const bool *want)
{
	size_t rounds = o->bench.rounds, lists = o->threads.n;
	struct sample *samples = xalloc(lists * VARIANTS * rounds, sizeof(*samples));
	struct release_run run = {
		.o = o, .slots = { .set = set, .each = o->size / ebb_page_size() },
	};
	struct table *t = table_new(columns);

#define SAMPLES(list, v) (&samples[((list) * VARIANTS + (v)) * rounds])
	for (size_t round = 0; round < rounds; round++) {
		for (size_t list = 0; list < lists; list++) {
			run.slots.threads = (unsigned int)o->threads.v[list];
			for (int v = 0; v < VARIANTS; v++) {
				if (!want[v])
					continue;
				progress("round %zu of %zu: %s, %u threads", round + 1, rounds,
					 variant_names[v], run.slots.threads);
				run_store(&run, v, &SAMPLES(list, v)[round]);
				stop_if_interrupted();
			}
		}
	}
	for (size_t list = 0; list < lists; list++) {
		run.slots.threads = (unsigned int)o->threads.v[list];
		for (int v = 0; v < VARIANTS; v++)
			if (want[v])
				add_row(t, &run, v, SAMPLES(list, v), rounds);
	}
#undef SAMPLES
	free(samples);
	return t;
}

static int bench_release(const struct command *cmd, int argc, char **argv)
{
	struct release_opts o = {
		.store = STORE_OPTS_DEFAULT,
		.bench = { .rounds = 5 },
		.threads = { { 1, 2, 4 }, 3 },
		.modes = { { "sync", "deferred" }, 2 },
		.data = "system",
		.size = 256 << 20,
		.limit = EBB_DEFAULT,
		.range = 1,
	};
	const struct opt opts[] = {
		OPT_THREADS(o.threads),
		{ "size", OPT_SIZE, &o.size, ebb_page_size(), SIZE_MOST, ebb_page_size(),
		  NULL, "SIZE", "what each thread stores" },
		{ "data", OPT_WORD, &o.data, 0, 0, 0, NULL, "SET", DATA_WORDS },
		{ "mode", OPT_WORD_LIST, &o.modes, 0, 0, 0, variant_names, "MODE,...",
		  "sync, deferred" },
		{ "limit", OPT_SIZE, &o.limit, 1, SIZE_MOST, 0, NULL, "SIZE",
		  "most bytes held back by deferred frees [the library's]" },
		{ "range", OPT_COUNT, &o.range, 1, UINT32_MAX, 0, NULL, "N",
		  "slots freed by one call" },
		OPTS_STORE(o.store),
		OPTS_BENCH(o.bench),
		{ .name = NULL },
	};
	bool want[VARIANTS] = { false };
	struct page_set set;
	struct table *t;
	int status;

	args_parse_only(cmd, opts, argc, argv);
	bench_start(&o.bench);
	/* Sleeps end within a microsecond; by default the kernel adds 50. */
	prctl(PR_SET_TIMERSLACK, 1000);
	store_opts_check(&o.store);
	/* As if no page shrank. */
	memory_check_size(o.size, count_list_max(&o.threads) + 1,
			  "the data and the slots of all threads");
	data_check(o.data);
	for (unsigned int i = 0; i < o.modes.n; i++)
		want[o.modes.v[i] == variant_names[DEFERRED] ? DEFERRED : SYNC] = true;

	data_load(&set, o.data, o.size);
	t = measure(&o, &set, want);
	status = bench_report(&o.bench, t);
	table_free(t);
	data_unload(&set);
	return status;
}

const struct command bench_release_command = {
	.name = "bench release",
	.operands = "",
	.summary = "free everything at once: time, CPU time, time until the memory is back",
	.about =
"N threads each fill their own slots of one store with real pages, read every page back and\n"
"compare, wait for each other and then free all slots at once, one call per slot, as a kernel\n"
"does when swapped-out processes exit.  In mode `sync` ebb_free() gives the memory back itself;\n"
"in mode `deferred` it detaches the slot and a worker gives back in batches.\n"
"\n"
"`store ns/slot` is the filling, codec included, in memory that the system has to zero first.\n"
"CPU ns/slot counts all of the process, the worker too, until every page is back; `drained` is\n"
"when that is; `to OS` is handing the free memory on to the system, timed by itself.",
	.examples =
"  ebb bench release                              1, 2 and 4 threads, 256 MiB each\n"
"  ebb bench release --threads 2 --data mix       pages made to compress unevenly\n"
"  ebb bench release --mode deferred --limit 1M   a small budget: more is freed in place",
	.run = bench_release,
};
