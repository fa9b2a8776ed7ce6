// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One CPU pages out what a process on another one is writing.
 *
 *   pageout [--mb M] [--seconds S] [--call]
 *
 * The writer goes through M MiB in order, word by word: each word must be what it wrote the
 * round before. Its parent, on another CPU, asks for the pages to be paged out all the while.
 * A word that holds an older round was written after its page had gone (a lost write); any
 * other value is of another page. With --call the words are written by read() from a pipe,
 * that is by the kernel.
 */
#define _GNU_SOURCE
#include "options.h"
#include "pages.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS (PAGE / 8)

static unsigned long mb = 16, seconds = 5, call;

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fprintf(stderr, "pageout: CPU %d: %s\n", cpu, strerror(errno));
}

static uint64_t value(uint64_t round, unsigned long at)
{
	return round ? round << 40 | at : 0;
}

static int writer(volatile uint64_t *p, unsigned long words)
{
	time_t end = time(NULL) + (time_t)seconds;
	uint64_t round, page[WORDS];
	int fd[2];

	if (pipe(fd))
		return fprintf(stderr, "pageout: pipe: %s\n", strerror(errno)), 1;
	for (round = 1; time(NULL) < end; round++)
		for (unsigned long i = 0; i < words; i++) {
			if (p[i] != value(round - 1, i)) {
				fprintf(stderr,
					"pageout: page %lu differs at byte %lu in round %llu: %016llx; that is %s\n",
					i / WORDS, i % WORDS * 8, (unsigned long long)round,
					(unsigned long long)p[i],
					p[i] >> 40 < round && p[i] == value(p[i] >> 40, i)
						? "what it held before"
						: "not what it held before");
				return 1;
			}
			if (!call) {
				p[i] = value(round, i);
				continue;
			}
			page[i % WORDS] = value(round, i);
			if (i % WORDS < WORDS - 1)
				continue;
			if (write(fd[1], page, sizeof(page)) != sizeof(page) ||
			    read(fd[0], (void *)(p + i + 1 - WORDS), sizeof(page)) != sizeof(page))
				return fprintf(stderr, "pageout: read: %s\n", strerror(errno)), 1;
		}
	printf("# pageout: %llu rounds of %lu MiB\n", (unsigned long long)round - 1, mb);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "mb", &mb, 1, 1 << 10 }, { "seconds", &seconds, 1, 1 << 20 }, { "call", &call }, { }
	};
	unsigned long words, asked = 0;
	struct iovec v;
	int fd, status;
	char *p;
	pid_t pid;

	options(argc, argv, 1, known);
	words = mb << 17;
	p = mmap(NULL, mb << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return fprintf(stderr, "pageout: mmap of %lu MiB: %s\n", mb, strerror(errno)), 1;
	v = (struct iovec){ p, mb << 20 };
	pid = fork();
	if (pid < 0)
		return fprintf(stderr, "pageout: fork: %s\n", strerror(errno)), 1;
	if (!pid) {
		on_cpu(1);
		_exit(writer((uint64_t *)p, words));
	}
	on_cpu(0);
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0) {
		kill(pid, SIGKILL);
		return fprintf(stderr, "pageout: pidfd_open: %s\n", strerror(errno)), 1;
	}
	while (!waitpid(pid, &status, WNOHANG)) {
		if (syscall(SYS_process_madvise, fd, &v, 1, MADV_PAGEOUT, 0) < 0 &&
		    errno != ESRCH) {
			fprintf(stderr, "pageout: process_madvise: %s\n", strerror(errno));
			kill(pid, SIGKILL);
		} else {
			asked++;
		}
	}
	printf("# pageout: asked %lu times\n", asked);
	return !WIFEXITED(status) || WEXITSTATUS(status);
}
