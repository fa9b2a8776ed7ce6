// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What does a slot cost that is let go, on a machine that others use as well?
 *
 *   pieces_bench --np N --mb M [--data uniform|mixed] [--codec NAME] [--piece KIB]
 *                [--zswap DISK] [--tag TEXT]
 *
 * As munmap_bench, but each process unmaps its memory piece by piece and takes the time of each. A
 * piece is over in much less than a time slice, so most are not disturbed by other programs on this
 * machine, and the quartiles say what an undisturbed one costs. A mean would not. The memory of one
 * piece was filled and compressed long before, as everything around it: it is as cold as in one
 * munmap.
 *
 * One line of JSON goes to the console per run: "bench: {...}".
 */
#include "client.h"

#include <pthread.h>
#include <sys/wait.h>

#define MAX_NP 16
#define MAX_PIECES 4096

struct shared {
	pthread_barrier_t out, go;
	unsigned long swapped[MAX_NP];
	double ns[MAX_NP * MAX_PIECES];
};

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void child(struct shared *s, unsigned who, unsigned long mb, unsigned long piece,
		  enum data_kind data)
{
	unsigned long size = mb * MB, n = size / piece;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap of %lu MiB: %s", mb, strerror(errno));
	for (unsigned long i = 0; i < size / PAGE; i++)
		data_fill(p + i * PAGE, data, (uint64_t)who << 32 | i);
	s->swapped[who] = page_out(p, size);
	pthread_barrier_wait(&s->out);
	pthread_barrier_wait(&s->go);
	for (unsigned long i = 0; i < n; i++) {
		double t = now_ms();

		if (munmap(p + i * piece, piece))
			die("munmap: %s", strerror(errno));
		s->ns[who * n + i] = (now_ms() - t) * 1e6 / (piece / PAGE);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	static unsigned long np = 1, mb = 256, kib = 2048;
	static const char *data_name = "uniform", *codec = "lzo-rle", *zswap, *tag = "-";
	static const struct option known[] = {
		{ "np", &np, 1, MAX_NP }, { "mb", &mb, 1, 1 << 12 }, { "piece", &kib, 4, 1 << 16 },
		{ "data", .text = &data_name }, { "codec", .text = &codec }, { "zswap", .text = &zswap },
		{ "tag", .text = &tag }, { }
	};
	struct shared *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long n, swapped = 0;
	pthread_barrierattr_t attr;
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	n = np * (mb * 1024 / kib);
	if (s == MAP_FAILED || mb * 1024 / kib > MAX_PIECES || !n)
		die("at most %d pieces a process, and one", MAX_PIECES);
	client_on(zswap, &(struct zram_setup){ .codec = codec }, (np * mb + 64) * MB * 2);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->out, &attr, np + 1);
	pthread_barrier_init(&s->go, &attr, np + 1);
	for (unsigned i = 0; i < np; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (!pid)
			child(s, i, mb, kib * 1024, data_parse(data_name));
	}
	pthread_barrier_wait(&s->out);
	sleep_ms(50);
	pthread_barrier_wait(&s->go);
	while (wait(&status) > 0 || errno == EINTR)
		if (status)
			return 1;
	for (unsigned i = 0; i < np; i++)
		swapped += s->swapped[i];
	if (swapped < np * mb * MB / 100 * 99)
		die("only %lu of %lu MiB went to swap", swapped / MB, np * mb);
	qsort(s->ns, n, sizeof(s->ns[0]), by_size);
	printf("bench: {\"tag\": \"%s\", \"mode\": \"pieces\", \"np\": %lu, \"mb\": %lu, \"data\": \"%s\", \"codec\": \"%s\", "
	       "\"slots\": %lu, \"piece_ns\": %.2f, \"piece_q1_ns\": %.2f, \"piece_q3_ns\": %.2f}\n", tag, np, mb, data_name,
	       codec, swapped / PAGE, s->ns[n / 2], s->ns[n / 4], s->ns[n * 3 / 4]);
	client_off(zswap);
	return 0;
}
