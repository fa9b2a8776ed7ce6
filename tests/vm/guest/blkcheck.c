// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Random reads, writes, discards and zeroings of a block device, every page checked.
 *
 *   blkcheck DEVICE [--mb M] [--threads N] [--ms MS] [--seed X] [--tolerate] [--fail-me]
 *                   [--buffered] [--keep]
 *
 * Each thread owns every Nth run of 16 pages, so that it alone knows what must be there:
 * one word per page that says how the page was made. With --tolerate an operation may fail;
 * then each of its pages holds what it held or what was being written, whole, and the next
 * read settles which. --fail-me asks the kernel's fault injection for this task's
 * allocations, from the first operation on and not before. Ends with a last look at all pages;
 * without --keep it discards them.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "options.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define RUN 16UL
/* What must succeed at last is tried for so long where operations may fail. */
#define TRIES_MS 30000

static int fd;
static unsigned long tolerate, nthreads = 2, lasts = 5000;
static unsigned long npages;
/* What a page was made from: 0 is zeros. `maybe` is the other candidate after a failure. */
static uint64_t *is, *maybe;
static const uint64_t NONE = ~0ULL;
static volatile int failed;

struct thread { pthread_t id; unsigned who; uint64_t rnd; unsigned long ops, errors; };

/* The low bits of the word choose the kind: same-filled, short, half, incompressible. */
static void make(uint64_t word, uint64_t *page)
{
	static const unsigned random_words[8] = { 0, 0, 2, 30, 100, 200, 380, 512 };

	page_fill(page, word, word ? random_words[word & 7] : 0);
}

static int look(unsigned long p, const void *data)
{
	uint64_t want[PAGE / 8];
	const uint64_t *got = data;
	unsigned i;

	make(is[p], want);
	if (!memcmp(data, want, PAGE)) {
		maybe[p] = NONE;
		return 0;
	}
	if (maybe[p] != NONE) {
		make(maybe[p], want);
		if (!memcmp(data, want, PAGE)) {
			is[p] = maybe[p];
			maybe[p] = NONE;
			return 0;
		}
		make(is[p], want);
	}
	for (i = 0; got[i] == want[i]; i++)
		;
	fprintf(stderr, "blkcheck: page %lu differs at byte %u: %016llx, not %016llx (made from %llx%s)\n", p, i * 8,
		(unsigned long long)got[i], (unsigned long long)want[i], (unsigned long long)is[p],
		maybe[p] != NONE ? ", or what a failed write left" : "");
	failed = 1;
	return -1;
}

/* After a failure: is it worth another try?  from: when the first one was. */
static int again(long from)
{
	if (!tolerate || ms() - from > TRIES_MS)
		return 0;
	nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	return 1;
}

static int read_page(unsigned long p, void *buf)
{
	long from = ms();

	while (pread(fd, buf, PAGE, p * PAGE) != (ssize_t)PAGE)
		if (!again(from))
			return -1;
	return 0;
}

static void *work(void *arg)
{
	struct thread *t = arg;
	unsigned long runs = npages / RUN;
	long end = ms() + (long)lasts;
	uint64_t word[RUN];
	char *buf;

	if (posix_memalign((void **)&buf, PAGE, RUN * PAGE))
		abort();
	for (; !failed; t->ops++) {
		unsigned long run = next(&t->rnd) % runs, first, n, i;
		unsigned op = next(&t->rnd) % 100;
		ssize_t done;
		int err = 0;

		run = run - run % nthreads + t->who;
		if (run >= runs)
			continue;
		first = run * RUN + next(&t->rnd) % RUN;
		n = 1 + next(&t->rnd) % (run * RUN + RUN - first);
		if (op < 45) {
			for (i = 0; i < n; i++) {
				word[i] = next(&t->rnd) | 8;
				make(word[i], (uint64_t *)(buf + i * PAGE));
			}
			done = pwrite(fd, buf, n * PAGE, first * PAGE);
			err = done == (ssize_t)(n * PAGE) ? 0 : done < 0 ? errno : EIO;
		} else if (op < 85) {
			done = pread(fd, buf, n * PAGE, first * PAGE);
			if (done != (ssize_t)(n * PAGE)) {
				err = done < 0 ? errno : EIO;
				goto error;
			}
			for (i = 0; i < n; i++)
				look(first + i, buf + i * PAGE);
			continue;
		} else {
			uint64_t range[2];

			/*
			 * Of a part of its page the device discards nothing; a run is whole ones.
			 */
			if (op < 95)
				page_widen(&first, &n);
			range[0] = first * PAGE, range[1] = n * PAGE;
			memset(word, 0, sizeof(word));
			if (ioctl(fd, op < 95 ? BLKDISCARD : BLKZEROOUT, range))
				err = errno;
		}
		for (i = 0; i < n; i++) {
			/* Still unsettled after a second failure: settle it by a read first. */
			if (err && maybe[first + i] != NONE && maybe[first + i] != word[i]) {
				char *one = buf + i * PAGE;

				if (!read_page(first + i, one)) {
					uint64_t made[PAGE / 8];

					make(word[i], made);
					if (!memcmp(one, made, PAGE)) {
						is[first + i] = word[i];
						maybe[first + i] = NONE;
						continue;
					}
					look(first + i, one);
				} else {
					fprintf(stderr, "blkcheck: page %lu cannot be settled\n", first + i);
					failed = 1;
				}
			}
			if (err) {
				maybe[first + i] = word[i];
			} else {
				is[first + i] = word[i];
				maybe[first + i] = NONE;
			}
		}
error:
		if (err) {
			t->errors++;
			if (!tolerate) {
				fprintf(stderr, "blkcheck: op %u of %lu pages at %lu: %s\n", op, n, first, strerror(err));
				failed = 1;
			}
		}
		if (ms() > end)
			break;
	}
	free(buf);
	return NULL;
}

int main(int argc, char **argv)
{
	static unsigned long mb, seed = 1, buffered, keep, fail_me;
	static const struct option known[] = {
		{ "mb", &mb, 1, 1 << 20 }, { "threads", &nthreads, 1, 64 },
		{ "ms", &lasts, 1, 1 << 30 }, { "seed", &seed, 0, ~0UL },
		{ "tolerate", &tolerate }, { "fail-me", &fail_me }, { "keep", &keep }, { "buffered", &buffered }, { }
	};
	unsigned long ops = 0, errors = 0, refused = 0, p, i;
	uint64_t size, range[2];
	struct thread t[64];
	char *buf;
	long from;

	if (argc < 2)
		return fprintf(stderr, "usage: blkcheck DEVICE [options]\n"), 2;
	options(argc, argv, 2, known);
	fd = open(argv[1], buffered ? O_RDWR : O_RDWR | O_DIRECT);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size))
		return fprintf(stderr, "blkcheck: %s: %s\n", argv[1], strerror(errno)), 1;
	npages = (mb && mb << 20 < size ? mb << 20 : size) / PAGE;
	is = calloc(npages, 8);
	maybe = malloc(npages * 8);
	memset(maybe, 0xff, npages * 8);
	if (posix_memalign((void **)&buf, PAGE, PAGE))
		return 1;

	/* From zeros, whatever was there. */
	range[0] = 0, range[1] = npages * PAGE;
	if (ioctl(fd, BLKDISCARD, range) && !tolerate)
		return fprintf(stderr, "blkcheck: discard of all: %s\n", strerror(errno)), 1;
	if (fail_me) {
		int f = open("/proc/self/make-it-fail", O_WRONLY);

		if (f < 0 || write(f, "1", 1) != 1)
			return fprintf(stderr, "blkcheck: /proc/self/make-it-fail: %s\n", strerror(errno)), 1;
		close(f);
	}
	for (i = 0; i < nthreads; i++) {
		t[i] = (struct thread){ .who = i,
					.rnd = (seed * 64 + i) * 0x9e3779b97f4a7c15ULL | 1 };
		/* The kernel may fail to make a thread, too. */
		while (pthread_create(&t[i].id, NULL, work, &t[i]))
			if (!tolerate || ++refused > 1000)
				return fprintf(stderr, "blkcheck: no thread\n"), 1;
	}
	for (i = 0; i < nthreads; i++) {
		pthread_join(t[i].id, NULL);
		ops += t[i].ops;
		errors += t[i].errors;
	}
	for (p = 0; p < npages && !failed; p++) {
		if (read_page(p, buf))
			return fprintf(stderr, "blkcheck: last read of page %lu: %s\n", p, strerror(errno)), 1;
		look(p, buf);
	}
	if (!keep && !failed) {
		for (from = ms(); ioctl(fd, BLKDISCARD, range);)
			if (!again(from))
				return fprintf(stderr, "blkcheck: last discard: %s\n", strerror(errno)), 1;
	}
	printf("# blkcheck: %lu operations, %lu failed, %lu pages\n", ops, errors, npages);
	return failed;
}
