// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* team.c - owns the threads of a run, whose times are taken in them. */
#define _GNU_SOURCE
#include "team.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ebb.h"
#include "tool.h"

/* That the process may use; 8192 are as many as a kernel is built for. */
static union { cpu_set_t first; unsigned long bits[8192 / 8 / sizeof(long)]; } cpus, none;

/* The first call is by the only thread that there is yet. */
unsigned int team_cpus(void)
{
	static unsigned int n;

	if (n)
		return n;
	if (sched_getaffinity(0, sizeof(cpus), &cpus.first))
		fail("cannot tell which CPUs may be used: %s", strerror(errno));
	n = (unsigned int)CPU_COUNT_S(sizeof(cpus), &cpus.first);
	return n;
}

/* To the i-th of them.  It fails if the CPU went away meanwhile: the figures are what they are. */
static void pin(unsigned int i)
{
	typeof(none) one = none;
	unsigned int cpu = 0;

	for (i %= team_cpus(); i || !CPU_ISSET_S(cpu, sizeof(cpus), &cpus.first); cpu++)
		i -= CPU_ISSET_S(cpu, sizeof(cpus), &cpus.first) ? 1 : 0;
	CPU_SET_S(cpu, sizeof(one), &one.first);
	sched_setaffinity(0, sizeof(one), &one.first);
}

struct member {
	pthread_barrier_t *barrier;
	int (*fn)(void *arg, unsigned int i);
	void *arg;
	pthread_t thread;
	unsigned int i;
	int ret;
	uint64_t start_ns, end_ns;
};

static void *member_main(void *arg)
{
	struct member *m = arg;

	pin(m->i);
	pthread_barrier_wait(m->barrier);
	m->start_ns = now_ns();
	m->ret = m->fn(m->arg, m->i);
	m->end_ns = now_ns();
	return NULL;
}

struct team_times team_run(unsigned int n, int (*fn)(void *arg, unsigned int i), void *arg,
			   const char *what)
{
	struct team_times times = { .first_ns = UINT64_MAX };
	struct member *members = xalloc(n, sizeof(*members));
	pthread_barrier_t barrier;
	int ret = pthread_barrier_init(&barrier, NULL, n + 1);

	if (ret)
		fail("cannot make a barrier: %s", strerror(ret));
	team_cpus();
	for (unsigned int i = 0; i < n; i++) {
		members[i] = (struct member){ .barrier = &barrier, .fn = fn, .arg = arg, .i = i };
		ret = pthread_create(&members[i].thread, NULL, member_main, &members[i]);
		if (ret)
			fail("cannot start thread %u of %u: %s", i + 1, n, strerror(ret));
	}
	times.start_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	pthread_barrier_wait(&barrier);
	for (unsigned int i = 0; i < n; i++) {
		const struct member *m = &members[i];

		pthread_join(m->thread, NULL);
		if (m->ret < 0)
			ret = m->ret;
		if (m->start_ns < times.first_ns)
			times.first_ns = m->start_ns;
		if (m->end_ns > times.last_ns)
			times.last_ns = m->end_ns;
		times.mean_ns += (double)(m->end_ns - m->start_ns) / n;
	}
	pthread_barrier_destroy(&barrier);
	free(members);
	stop_if_interrupted();
	must(ret, what);
	return times;
}

size_t slots_page(const struct team_slots *s, unsigned int i, size_t p)
{
	return (i * (s->each / s->threads) + p) % s->set->count;
}

int slots_fill(void *arg, unsigned int i)
{
	const struct team_slots *s = arg;
	int ret = 0;

	for (size_t p = 0; p < s->each && !ret && !interrupted(); p++)
		ret = ebb_write(s->store, i * s->each + p, data_page(s->set, slots_page(s, i, p)),
				ebb_page_size());
	return ret;
}

int slots_verify(void *arg, unsigned int i)
{
	const struct team_slots *s = arg;
	size_t page = ebb_page_size();
	unsigned char buf[65536];
	int ret = 0;

	for (size_t p = 0; p < s->each && !ret && !interrupted(); p++) {
		ret = ebb_read(s->store, i * s->each + p, buf, page);
		if (!ret && memcmp(buf, data_page(s->set, slots_page(s, i, p)), page))
			fail("slot %zu does not read back as it was written", i * s->each + p);
	}
	return ret;
}

uint64_t resident_bytes(void)
{
	char text[4096] = "", *at;
	int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	at = n > 0 ? strstr(text, "\nAnonymous:") : NULL;
	if (!at)
		fail("/proc/self/smaps_rollup: expected a line that starts with Anonymous:");
	return strtoull(at + 11, NULL, 10) * 1024;
}
