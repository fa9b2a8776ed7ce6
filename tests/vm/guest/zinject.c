// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Pages go out and come back while allocations of this process fail, every page checked.
 *
 *   zinject [--mb M] [--seconds S]
 *
 * Memory is filled first, and freed last; in between the process asks for failures of its own
 * (make-it-fail) and does nothing but page out, read, check and write.  A fault that finds no
 * memory is tried again by the kernel.
 */
#define _GNU_SOURCE
#include "options.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE_NOISE(word) ((unsigned)((word) & 7) * 60)

static int fail_me(char c)
{
	int fd = open("/proc/self/make-it-fail", O_WRONLY);
	int bad = fd < 0 || write(fd, &c, 1) != 1;

	if (fd >= 0)
		close(fd);
	return bad;
}

int main(int argc, char **argv)
{
	static unsigned long mb = 32, seconds = 5;
	static const struct option known[] = {
		{ "mb", &mb, 1, 1024 }, { "seconds", &seconds, 1, 3600 }, { }
	};
	static uint64_t want[PAGE / 8];
	unsigned long n, bad = 0, looked = 0, out = 0, refused = 0;
	uint64_t rnd = 0x9e3779b97f4a7c15ULL;
	uint64_t *word;
	time_t end;
	char *p;

	options(argc, argv, 1, known);
	n = mb * 256;
	p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	word = mmap(NULL, n * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || word == MAP_FAILED || mlock(word, n * 8))
		return fprintf(stderr, "zinject: %s\n", strerror(errno)), 1;
	for (unsigned long i = 0; i < n; i++) {
		word[i] = next(&rnd);
		page_fill((uint64_t *)(p + i * PAGE), word[i], PAGE_NOISE(word[i]));
	}
	if (fail_me('1'))
		return fprintf(stderr, "zinject: make-it-fail: %s\n", strerror(errno)), 1;
	end = time(NULL) + (time_t)seconds;
	while (time(NULL) < end && !bad) {
		unsigned long at = next(&rnd) % n, len = 1 + next(&rnd) % 2048;

		if (len > n - at)
			len = n - at;
		if (madvise(p + at * PAGE, len * PAGE, MADV_PAGEOUT))
			refused++;
		out += len;
		for (unsigned long k = 0; k < len / 2; k++) {
			unsigned long i = at + next(&rnd) % len;

			page_fill(want, word[i], PAGE_NOISE(word[i]));
			bad += memcmp(p + i * PAGE, want, PAGE) != 0;
			looked++;
			if (k % 4)
				continue;
			word[i] = next(&rnd);
			page_fill((uint64_t *)(p + i * PAGE), word[i], PAGE_NOISE(word[i]));
		}
	}
	fail_me('0');
	printf("# zinject: %lu pages looked at, %lu asked out, %lu calls refused, %lu wrong\n", looked,
	       out, refused, bad);
	return bad != 0;
}
