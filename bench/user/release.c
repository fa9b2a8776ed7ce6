// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bench-user release: N threads fill their own slots of one store, then free them all at once.
 */
#include <string.h>
#include <sys/prctl.h>

#include "bench.h"
#include "team.h"

enum { SLOTS, STORE, WALL, MEAN, NS, CPU, DRAINED, PEAK, OS_RETURN };

static const struct column columns[] = {
	COUNT(SLOTS, "slots_per_thread"), SPREAD(STORE, "store_ns_per_slot", 0),
	SPREAD(WALL, "wall_ms", 2), SPREAD(MEAN, "mean_ms", 2), SPREAD(NS, "ns_per_slot", 1),
	SPREAD(CPU, "cpu_ns_per_slot", 1), SPREAD(DRAINED, "drained_ms", 2),
	MIB(PEAK, "held_back_peak"), SPREAD(OS_RETURN, "os_return_ms", 2),
	{ .key = NULL },
};

static int release(void *arg, unsigned int i)
{
	const struct team_slots *s = arg;
	uint64_t slot = (uint64_t)i * s->each, end = slot + s->each;
	int ret = 0;

	for (; slot < end; slot++)
		ret |= ebb_free(s->store, slot, 1);
	return ret;
}

/*
 * Waits until every page is back, without asking for it: a flush would end the drain sooner
 * than its owner sees it end.  Looking costs CPU time, which the process's clock counts too:
 * so the sleeps are 50 us at first and a sixteenth of the time passed later.
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

static void release_run(const struct bench_run *r, bench_figures v)
{
	struct team_slots slots = {
		.set = r->set, .threads = r->threads, .each = r->o->size / ebb_page_size(),
	};
	double n = (double)slots.threads * (double)slots.each;
	struct team_times times;
	struct ebb_stat st;
	uint64_t at;

	/* Sleeps end within a microsecond; by default the kernel adds 50. */
	prctl(PR_SET_TIMERSLACK, 1000);
	slots.store = store_open(&r->store, (uint64_t)slots.threads * slots.each,
				 strcmp(r->variant, "sync") ? EBB_DEFAULT : 0);
	times = team_run(slots.threads, slots_fill, &slots, "cannot store a page");
	v[0][SLOTS] = (double)slots.each;
	v[0][STORE] = times.mean_ns / (double)slots.each;
	team_run(slots.threads, slots_verify, &slots, "cannot read a page back");
	must(ebb_reset_held_back_peak(slots.store), "cannot reset the peak");

	times = team_run(slots.threads, release, &slots, "cannot free a slot");
	at = wait_until_drained(slots.store, times.first_ns);
	/* What the worker has left to do counts, too; pages are in per-CPU lists or the zone. */
	must(ebb_flush(slots.store), "cannot flush");
	v[0][CPU] = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - times.start_cpu_ns) / n;
	v[0][WALL] = (double)(times.last_ns - times.first_ns) / 1e6;
	v[0][MEAN] = times.mean_ns / 1e6;
	v[0][NS] = times.mean_ns / (double)slots.each;
	v[0][DRAINED] = (double)(at - times.first_ns) / 1e6;
	store_stat(slots.store, &st);
	v[0][PEAK] = (double)st.held_back_peak;

	at = now_ns();
	must(ebb_trim(slots.store, NULL), "cannot trim");
	v[0][OS_RETURN] = (double)(now_ns() - at) / 1e6;
	ebb_close(slots.store);
}

static const char *const variants[] = { "sync", "deferred", NULL };

const struct bench release_bench = {
	BENCH("release", "free everything at once: time, CPU time, time until the memory is back",
"N threads each fill their own slots of one store with real pages, read every page back and\n"
"compare, wait for each other and then free all slots at once, one call per slot, as a kernel\n"
"does when swapped-out processes exit.  `sync`: ebb_free() gives the memory back itself;\n"
"`deferred`: it detaches the slot and a worker gives back in batches.\n"
"\n"
"From the moment a barrier lets the threads go:\n"
"  wall_ms          first start to last end of the threads' ebb_free() loops; mean_ms: their mean\n"
"  ns_per_slot      mean over the threads of their time / their slots\n"
"  cpu_ns_per_slot  CPU time of the whole process, the worker too, until every page is back\n"
"  drained_ms       until nothing is held back and the pool has no page\n"
"  os_return_ms     handing the free memory on to the system after that, by itself\n"
"store_ns_per_slot is the filling, codec included, in memory that the system has to zero first."),
	.variant_key = "variant", .threads_key = "threads", .data_key = "data", .rows = 1,
	.defaults = {
		.threads = { { 1, 2, 4 }, 3 }, .data = { { "system" }, 1 }, .size = 256 << 20,
		.codecs = { { "lz4" }, 1 }, .rounds = 5,
	},
	.variants = variants, .columns = columns,
	.copies = 1, .copies_each = true,
	.run = release_run,
};
