// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs in turn on a machine that holds half of them: does a write of swap fail?
 *
 *   apps_bench --np N --mb M --steps S [--codec NAME] [--disk MIB]
 *              [--zswap DISK] [--tag TEXT]
 *
 * N processes hold M MiB each.  At each step the next one goes through all of its pages, checks and
 * changes them; at each fourth it is killed instead, and a new one takes its place.  One that the
 * kernel killed is counted and replaced, too.  Swap is zram of --disk MiB, or zswap over DISK.
 *
 * One line of JSON goes to the console: "bench: {...}".
 */
#include "client.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#define MAX_NP    64
#define MAX_STEPS 4096
#define LAST      (PAGE / 8 - 1)

static struct { pid_t pid; int to, from; } app[MAX_NP];
static struct { double ms[MAX_STEPS + MAX_NP]; unsigned n; } touches, kills;
static unsigned long np = 8, mb = 90, steps = 64, disk = 1536, killed;

/* The last word of a page counts the changes. */
static bool go_through(uint64_t *p, uint64_t who, uint64_t round)
{
	uint64_t want[PAGE / 8];

	for (unsigned long i = 0; i < mb * MB / PAGE; i++, p += PAGE / 8) {
		data_fill(want, DATA_MIXED, who << 32 | i);
		want[LAST] += round;
		if (memcmp(p, want, PAGE))
			return false;
		p[LAST]++;
	}
	return true;
}

__attribute__((noreturn))
static void live(uint64_t who, int to, int from)
{
	char *p = mmap(NULL, mb * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), c = 'd';

	if (p == MAP_FAILED || file_write("/proc/self/oom_score_adj", "0"))
		_exit(1);
	for (unsigned long i = 0; i < mb * MB / PAGE; i++)
		data_fill(p + i * PAGE, DATA_MIXED, who << 32 | i);
	for (uint64_t round = 0; write(from, &c, 1) == 1 && read(to, &c, 1) == 1; round++)
		c = go_through((uint64_t *)p, who, round) ? 'd' : 'w';
	_exit(0);
}

/* What the process answers; false if the kernel has killed it. */
static bool answers(unsigned i)
{
	char c;

	if (read(app[i].from, &c, 1) != 1)
		return false;
	if (c != 'd')
		die("a page of process %u is not what it wrote", i);
	return true;
}

static double end(unsigned i)
{
	double t = now_ms();

	kill(app[i].pid, SIGKILL);
	waitpid(app[i].pid, NULL, 0);
	close(app[i].to);
	close(app[i].from);
	return now_ms() - t;
}

static void begin(unsigned i, uint64_t who)
{
	int to[2], from[2];

	for (;;) {
		if (pipe(to) || pipe(from))
			die("pipe: %s", strerror(errno));
		app[i].pid = fork();
		if (app[i].pid < 0)
			die("fork: %s", strerror(errno));
		if (!app[i].pid) {
			close(to[1]);
			close(from[0]);
			live(who, to[0], from[1]);
		}
		close(to[0]);
		close(from[1]);
		app[i].to = to[1];
		app[i].from = from[0];
		if (answers(i))
			return;
		end(i);
		killed++;
	}
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double part(double *ms, unsigned n, double q)
{
	if (!n)
		return -1;
	qsort(ms, n, sizeof(*ms), by_size);
	return ms[(unsigned)(q * (n - 1))];
}

int main(int argc, char **argv)
{
	static const char *codec = "lz4", *zswap, *tag = "-";
	static const struct option known[] = {
		{ "np", &np, 1, MAX_NP }, { "mb", &mb, 1, 1 << 16 }, { "disk", &disk, 1, 1 << 20 },
		{ "steps", &steps, 4, MAX_STEPS }, { "codec", .text = &codec }, { "zswap", .text = &zswap },
		{ "tag", .text = &tag },
		{ }
	};
	unsigned long long out, in;
	double t, held;
	struct client_use use;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	file_write("/proc/self/oom_score_adj", "-1000");
	signal(SIGPIPE, SIG_IGN);
	client_on(zswap, &(struct zram_setup){ .codec = codec }, disk * MB);
	out = client_out(zswap);
	in = client_in(zswap);
	t = now_ms();
	for (unsigned i = 0; i < np; i++)
		begin(i, i);
	for (unsigned s = 0; s < steps; s++) {
		unsigned i = s % np;

		held = now_ms();
		if (s % 4 == 3) {
			kills.ms[kills.n++] = end(i);
			begin(i, np + s);
		} else if (write(app[i].to, "t", 1) != 1 || !answers(i)) {
			killed++;
			end(i);
			begin(i, np + s);
		} else {
			touches.ms[touches.n++] = now_ms() - held;
		}
	}
	t = now_ms() - t;
	use = client_use(zswap);
	for (unsigned i = 0; i < np; i++)
		kills.ms[kills.n++] = end(i);
	printf("bench: {\"tag\": \"%s\", \"kind\": \"apps\", \"np\": %lu, \"mb\": %lu, \"steps\": %lu, "
	       "\"codec\": \"%s\", \"seconds\": %.2f, \"pages_out\": %llu, \"pages_in\": %llu, "
	       "\"failed_writes\": %llu, \"failed_reads\": %lu, \"oom_kills\": %lu, "
	       "\"touch_p50_ms\": %.2f, \"touch_max_ms\": %.2f, \"kill_p50_ms\": %.3f, "
	       "\"pool_mb\": %.1f}\n",
	       tag, np, mb, steps, codec, t / 1e3, client_out(zswap) - out,
	       client_in(zswap) - in, client_refused(zswap), client_failed_reads(zswap), killed,
	       part(touches.ms, touches.n, 0.5), part(touches.ms, touches.n, 1),
	       part(kills.ms, kills.n, 0.5), use.pool / 1048576.0);
	client_off(zswap);
	return 0;
}
