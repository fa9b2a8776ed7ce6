// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Processes that hold more than memory does, every page checked when it comes back.
 *
 *   swapcheck [--mb M] [--procs N] [--passes K] [--forks F] [--seed X] [--loop SECONDS]
 *             [--end SECONDS]
 *
 * Each of N processes fills M MiB, then K times: reads its pages in random order, checks
 * each, rewrites some, unmaps and remaps a part, and asks for a part to be paged out. F
 * forked children check the same pages copy-on-write while the parent rewrites its own,
 * and end by exit, exec's sibling (_exit) or SIGKILL. With --loop the whole repeats.
 * With --end it does no more than finish the page in hand once that time is over.
 */
#define _GNU_SOURCE
#include "options.h"
#include "pages.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


static time_t end;
static unsigned long mb = 64, procs = 2, passes = 3, forks = 1, seed = 1;

static int over(void)
{
	return end && time(NULL) >= end;
}

static void make(uint64_t word, uint64_t *page)
{
	static const unsigned random_words[8] = { 0, 1, 8, 60, 120, 240, 400, 512 };

	page_fill(page, word, random_words[word & 7]);
}

static uint64_t *before;        /* of each page, the word that it was made of before */

static void remake(uint64_t *word, unsigned long at, uint64_t new, char *p)
{
	before[at] = word[at];
	make(word[at] = new, (uint64_t *)(p + at * PAGE));
}

static int check(uint64_t word, const uint64_t *page, unsigned long n, const char *who)
{
	uint64_t want[PAGE / 8], old[PAGE / 8];
	unsigned i, end;

	make(word, want);
	if (!memcmp(page, want, PAGE))
		return 0;
	make(before[n], old);
	for (i = 0; page[i] == want[i]; i++)
		;
	for (end = PAGE / 8; page[end - 1] == want[end - 1]; end--)
		;
	fprintf(stderr, "swapcheck: %s: page %lu differs in bytes %u to %u: %016llx, not %016llx; that is %s\n", who, n, i * 8,
		end * 8, (unsigned long long)page[i], (unsigned long long)want[i],
		memcmp(page + i, old + i, (end - i) * 8) ? "not what it held before" : "what it held before");
	return -1;
}

static int look_all(char *p, const uint64_t *word, unsigned long n, uint64_t rnd, const char *who)
{
	unsigned long i, at = next(&rnd) % n, step = (next(&rnd) % n) | 1;

	/* A step that shares no factor with n visits every page once, in no order. */
	for (unsigned long a = n, b = step; ; step += 2, a = n, b = step) {
		while (b) {
			unsigned long r = a % b;
			a = b;
			b = r;
		}
		if (a == 1)
			break;
	}
	for (i = 0; i < n && !over(); i++, at = (at + step) % n)
		if (check(word[at], (uint64_t *)(p + at * PAGE), at, who))
			return -1;
	return 0;
}

static int process(unsigned who)
{
	unsigned long n = mb * 256, i, at, len;
	uint64_t rnd = (seed * 1000 + who) * 0x9e3779b97f4a7c15ULL | 1;
	uint64_t *word = calloc(n, 8);
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid[16];
	int status, bad = 0;

	before = calloc(n, 8);
	if (p == MAP_FAILED || !word || !before)
		return fprintf(stderr, "swapcheck: mmap: %s\n", strerror(errno)), 1;
	for (i = 0; i < n; i++)
		remake(word, i, next(&rnd), p);
	for (unsigned pass = 0; pass < passes && !bad && !over(); pass++) {
		at = next(&rnd) % n;
		len = 1 + next(&rnd) % (n - at);
		page_widen(&at, &len);
		madvise(p + at * PAGE, len * PAGE, MADV_PAGEOUT);
		for (unsigned f = 0; f < forks; f++) {
			pid[f] = fork();
			if (pid[f])
				continue;
			if (f % 3 == 2) {
				/* To be killed amid its swap-ins. */
				while (!over())
					if (look_all(p, word, n, rnd + f + 1, "a child to be killed"))
						_exit(1);
				_exit(0);
			}
			_exit(look_all(p, word, n, rnd + f + 1, "a child") ? 1 : 0);
		}
		for (i = 0; i < n / 4; i++) {
			at = next(&rnd) % n;
			remake(word, at, next(&rnd), p);
		}
		bad |= look_all(p, word, n, rnd, "a process") != 0;
		at = next(&rnd) % n;
		len = 1 + next(&rnd) % (n - at);
		page_widen(&at, &len);
		munmap(p + at * PAGE, len * PAGE);
		if (mmap(p + at * PAGE, len * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return fprintf(stderr, "swapcheck: remap: %s\n", strerror(errno)), 1;
		for (i = at; i < at + len; i++) {
			word[i] = 0;
			remake(word, i, next(&rnd), p);
		}
		for (unsigned f = 0; f < forks; f++) {
			if (pid[f] < 0)
				continue;
			if (f % 3 == 2)
				kill(pid[f], SIGKILL);
			if (waitpid(pid[f], &status, 0) < 0 ||
			    (status && !(f % 3 == 2 && WIFSIGNALED(status))))
				bad = 1;
		}
	}
	munmap(p, n * PAGE);
	return bad;
}

int main(int argc, char **argv)
{
	static unsigned long loop, seconds;
	static const struct option known[] = {
		{ "mb", &mb, 1, 1 << 16 }, { "procs", &procs, 1, 64 }, { "passes", &passes, 0, 1 << 30 }, { "forks", &forks, 0, 16 },
		{ "seed", &seed, 0, ~0UL }, { "loop", &loop, 0, 1 << 20 }, { "end", &seconds, 1, 1 << 20 }, { }
	};
	time_t start = time(NULL);
	unsigned rounds = 0;
	int status, bad = 0;

	options(argc, argv, 1, known);
	if (seconds)
		end = start + (time_t)seconds;
	do {
		for (unsigned i = 0; i < procs; i++) {
			pid_t p = fork();

			if (p < 0)
				return fprintf(stderr, "swapcheck: fork: %s\n", strerror(errno)), 1;
			if (!p)
				_exit(process(i));
		}
		while (wait(&status) > 0)
			if (status) {
				fprintf(stderr, "swapcheck: a process ended with %s %d\n",
					WIFSIGNALED(status) ? "signal" : "status",
					WIFSIGNALED(status) ? WTERMSIG(status) :
					WEXITSTATUS(status));
				bad = 1;
			}
		seed++;
		rounds++;
	} while (!bad && (unsigned long)(time(NULL) - start) < loop && !over());
	printf("# swapcheck: %u rounds of %lu processes of %lu MiB\n", rounds, procs, mb);
	return bad;
}
