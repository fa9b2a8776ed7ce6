// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How long does one call take at most, and how long are interrupts off, while processes exit?
 *
 *   latency_bench --np N [--mb M] [--exits E] [--turns T] [--codec NAME]
 *                 [--release-limit BYTES] [--tag TEXT]
 *   latency_bench --tracer NAME --np N [...]
 *
 * N processes have M MiB each on a zram device as swap, and exit at once; E times.
 *
 *   main      | set-up | ........... | page out, touch, page out, drop: one page at a time |
 *   processes |        | fill, out   | exit |  (the device releases what they had)         |
 *
 * The main process times each page-out (MADV_PAGEOUT), swap-in (a touch), and free (MADV_DONTNEED
 * of a page that is out), until AFTER_MS after the last process has ended.  A give-back is the free
 * of a page that does not compress: zram has a page for it alone, which goes back.  A call in which
 * the main process lost its CPU to another one is counted by itself.  With N = 0 it is alone, for T
 * turns.
 *
 * With --tracer (irqsoff, preemptoff, preemptirqsoff) nothing is timed: the tracer says how long
 * interrupts or preemption were off at most, while the processes were paged out, and while they
 * exited and what they had was released.
 *
 * One line of JSON goes to the console: "bench: {...}".
 */
#include "zramdev.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MAX_NP    16
#define RING      2048          /* pages of the main process, one after another */
#define SAMPLES   200000
#define PAGE_EVERY 8            /* of so many pages one does not compress */
#define AFTER_MS  10
#define TRACING   "/sys/kernel/tracing/"

enum op { PAGE_OUT, SWAP_IN, FREE, GIVE_BACK, OPS };

static const char *const op_names[OPS] = {
	[PAGE_OUT] = "page-out", [SWAP_IN] = "swap-in", [FREE] = "free", [GIVE_BACK] = "give-back",
};

static struct samples {
	uint32_t t[SAMPLES];
	unsigned long n, lost;
	uint64_t lost_max;
} op[OPS];

struct shared { pthread_barrier_t filled, out, go; };

static unsigned long np = 4, mb = 64, exits = 20, alone = 20000;
static const char *codec = "lzo-rle", *limit, *tracer, *tag = "-";
static char *ring;
static int pagemap;
static uint64_t turns;

/* Page i of those that the main process writes; one that does not compress is random to its end. */
static bool raw(uint64_t i)
{
	return i % PAGE_EVERY == 0;
}

static void write_page(char *page, uint64_t i)
{
	uint64_t s = mix64(i) | 1, *w = (uint64_t *)page;

	if (!raw(i)) {
		data_fill(page, DATA_MIXED, i);
		return;
	}
	for (unsigned k = 0; k < PAGE / 8; k++)
		w[k] = next(&s);
}

static bool is_out(const char *page)
{
	uint64_t entry;

	if (pread(pagemap, &entry, 8, (off_t)((uintptr_t)page / PAGE * 8)) != 8)
		die("/proc/self/pagemap: %s", strerror(errno));
	return entry >> 62 & 1;
}

static long cpu_losses(void)
{
	struct rusage use;

	getrusage(RUSAGE_THREAD, &use);
	return use.ru_nivcsw;
}

static void add(enum op which, uint64_t took, bool lost)
{
	struct samples *s = &op[which];

	if (lost) {
		s->lost++;
		s->lost_max = took > s->lost_max ? took : s->lost_max;
	} else if (s->n < SAMPLES) {
		s->t[s->n++] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
	}
}

static void must_advise(char *page, int advice, const char *what)
{
	if (madvise(page, PAGE, advice))
		die("%s: %s", what, strerror(errno));
}

/* Whether the page went; what did not go (it was on its way to a list) is no sample. */
static bool time_page_out(char *page)
{
	long losses = cpu_losses();
	uint64_t at = ticks(), took;

	must_advise(page, MADV_PAGEOUT, "MADV_PAGEOUT");
	took = ticks() - at;
	losses = cpu_losses() - losses;
	if (!is_out(page))
		return false;
	add(PAGE_OUT, took, losses);
	return true;
}

static void turn(void)
{
	uint64_t i = turns++, at, took, want[PAGE / 8];
	char *page = ring + i % RING * PAGE;
	long losses;

	write_page(page, i);
	if (!time_page_out(page))
		return;
	losses = cpu_losses();
	at = ticks();
	(void)*(volatile char *)page;
	took = ticks() - at;
	add(SWAP_IN, took, cpu_losses() != losses);
	write_page((char *)want, i);
	if (memcmp(page, want, PAGE))
		die("page %llu is not what was written", (unsigned long long)i);
	/* A clean page would go without a write. */
	write_page(page, i);
	if (!time_page_out(page))
		return;
	losses = cpu_losses();
	at = ticks();
	must_advise(page, MADV_DONTNEED, "MADV_DONTNEED");
	took = ticks() - at;
	add(raw(i) ? GIVE_BACK : FREE, took, cpu_losses() != losses);
}

__attribute__((noreturn))
static void child(struct shared *s, uint64_t who)
{
	char *p = mmap(NULL, mb * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap of %lu MiB: %s", mb, strerror(errno));
	for (unsigned long i = 0; i < mb * MB / PAGE; i++)
		write_page(p + i * PAGE, who << 32 | i);
	pthread_barrier_wait(&s->filled);
	if (page_out(p, mb * MB) < mb * MB / 100 * 98)
		die("the region did not go to swap");
	pthread_barrier_wait(&s->out);
	pthread_barrier_wait(&s->go);
	_exit(0);
}

static struct shared *shared_make(void)
{
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	if (s == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->filled, &attr, (unsigned)np + 1);
	pthread_barrier_init(&s->out, &attr, (unsigned)np + 1);
	pthread_barrier_init(&s->go, &attr, (unsigned)np + 1);
	return s;
}

/* Processes that have ended since; one that failed has said why, and ends this one. */
static unsigned ended(void)
{
	unsigned n = 0;
	int status;

	while (waitpid(-1, &status, WNOHANG) > 0) {
		if (status)
			exit(1);
		n++;
	}
	return n;
}

static void start_all(struct shared *s, unsigned long round)
{
	for (unsigned long i = 0; i < np; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (!pid)
			child(s, round * MAX_NP + i);
	}
	pthread_barrier_wait(&s->filled);
}

/* Until all processes have ended and AFTER_MS more; ms until the last one was gone. */
static double while_they_exit(struct shared *s, void (*each)(void))
{
	unsigned long gone = 0;
	double start, end = 0;

	pthread_barrier_wait(&s->go);
	start = now_ms();
	while (gone < np || now_ms() - end < AFTER_MS) {
		each();
		if (gone < np) {
			gone += ended();
			end = now_ms();
		}
	}
	return end - start;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Of sorted samples the least that so many thousandths do not pass, in us. */
static double rank(const struct samples *s, unsigned long thousandths, double us)
{
	return s->t[(s->n * thousandths + 999) / 1000 - 1] * us;
}

static void print_op(enum op which, double us)
{
	struct samples *s = &op[which];

	if (!s->n)
		die("no %s was timed", op_names[which]);
	qsort(s->t, s->n, sizeof(*s->t), by_size);
	printf("%s\"%s\": {\"calls\": %lu, \"p50_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, "
	       "\"max_us\": %.2f, \"lost\": %lu, \"lost_max_us\": %.1f}",
	       which ? ", " : "", op_names[which], s->n, rank(s, 500, us), rank(s, 990, us),
	       rank(s, 999, us), rank(s, 1000, us), s->lost, (double)s->lost_max * us);
}

static void bench_calls(void)
{
	struct shared *s = shared_make();
	double t = now_ms(), exit_ms = 0;
	uint64_t start = ticks();

	pagemap = open("/proc/self/pagemap", O_RDONLY);
	ring = mmap(NULL, RING * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pagemap < 0 || ring == MAP_FAILED || madvise(ring, RING * PAGE, MADV_DONTFORK))
		die("no memory to time: %s", strerror(errno));
	/* A kernel without huge pages does not know it. */
	madvise(ring, RING * PAGE, MADV_NOHUGEPAGE);
	for (unsigned k = 0; !np && k < alone; k++)
		turn();
	for (unsigned long e = 0; np && e < exits; e++) {
		start_all(s, e);
		pthread_barrier_wait(&s->out);
		exit_ms += while_they_exit(s, turn) / (double)exits;
	}
	t = (now_ms() - t) * 1e3 / (double)(ticks() - start);
	printf("bench: {\"tag\": \"%s\", \"mode\": \"calls\", \"np\": %lu, \"mb\": %lu, "
	       "\"codec\": \"%s\", \"exit_ms\": %.2f, \"ops\": {", tag, np, mb, codec, exit_ms);
	for (enum op o = 0; o < OPS; o++)
		print_op(o, t);
	printf("}}\n");
}

/* -------------------------------------------------------------- the tracers */

static void trace_set(const char *file, const char *text)
{
	char path[128];
	int err;

	snprintf(path, sizeof(path), TRACING "%s", file);
	err = file_write(path, text);
	if (err)
		die("%s '%s': %s", path, text, strerror(-err));
}

static void trace_get(const char *file, char *text, size_t size)
{
	char path[128];
	int err;

	snprintf(path, sizeof(path), TRACING "%s", file);
	err = file_read(path, text, size);
	if (err)
		die("%s: %s", path, strerror(-err));
}

/* What stands behind `key` in a line of the trace, as far as it can be put between quotes. */
static void trace_word(const char *trace, const char *key, char *word, size_t size)
{
	const char *at = strstr(trace, key);
	size_t n = 0;

	if (at)
		for (at += strlen(key) + strspn(at + strlen(key), " "); n + 1 < size; at++) {
			if (*at <= ' ' || *at == '"' || *at == '\\')
				break;
			word[n++] = *at;
		}
	word[n] = 0;
}

struct longest { unsigned long us; char start[64], end[64], task[64]; };

/* The longest since the last call, if it is longer than what is there. */
static void trace_take(struct longest *l)
{
	static char trace[8192], text[64];
	unsigned long us;

	trace_set("tracing_on", "0");
	trace_get("tracing_max_latency", text, sizeof(text));
	us = strtoul(text, NULL, 10);
	if (us > l->us) {
		l->us = us;
		trace_get("trace", trace, sizeof(trace));
		trace_word(trace, "=> started at:", l->start, sizeof(l->start));
		trace_word(trace, "=> ended at:", l->end, sizeof(l->end));
		trace_word(trace, "| task:", l->task, sizeof(l->task));
	}
}

static void trace_begin(void)
{
	trace_set("tracing_max_latency", "0");
	trace_set("tracing_on", "1");
}

static void rest(void)
{
	sleep_ms(1);
}

static void bench_off(void)
{
	struct longest out = { 0 }, gone = { 0 };
	struct shared *s = shared_make();

	mount("trace", "/sys/kernel/tracing", "tracefs", 0, NULL);
	trace_set("tracing_on", "0");
	trace_set("current_tracer", tracer);
	for (unsigned long e = 0; e < exits; e++) {
		start_all(s, e);
		trace_begin();
		pthread_barrier_wait(&s->out);
		trace_take(&out);
		trace_begin();
		while_they_exit(s, rest);
		trace_take(&gone);
	}
	trace_set("current_tracer", "nop");
	printf("bench: {\"tag\": \"%s\", \"mode\": \"off\", \"tracer\": \"%s\", \"np\": %lu, \"mb\": %lu, "
	       "\"codec\": \"%s\", \"page_out_us\": %lu, \"page_out_in\": \"%s to %s, %s\", "
	       "\"exit_us\": %lu, \"exit_in\": \"%s to %s, %s\"}\n", tag, tracer, np, mb, codec,
	       out.us, out.start, out.end, out.task, gone.us, gone.start, gone.end, gone.task);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "np", &np, 0, MAX_NP }, { "mb", &mb, 1, 1 << 16 }, { "exits", &exits, 1, 10000 },
		{ "turns", &alone, 1, SAMPLES }, { "codec", .text = &codec },
		{ "release-limit", .text = &limit },
		{ "tracer", .text = &tracer }, { "tag", .text = &tag }, { }
	};
	struct zram_setup setup = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	setup.codec = codec;
	setup.release_limit = limit;
	zram_swapon(0, &setup, (np * mb + 64) * MB * 2);
	if (tracer)
		bench_off();
	else
		bench_calls();
	swapoff("/dev/zram0");
	zram_must_set(0, "reset", "1");
	return 0;
}
