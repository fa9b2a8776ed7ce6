// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Memory in large folios that goes out whole and comes back by pages; each page is checked.
 *
 *   large [--mb M] [--rounds N]
 *
 * M MiB are filled and paged out.  Of the slots that are then in use, "reach: IN OF" says how many
 * are in units of zram0 and how many there are.  Then, N times: all is read in order; it is paged
 * out, and children read it while the parent rewrites a part; it is paged out, and three of four
 * pages of a part are given back; it is paged out, and a child that reads is killed.
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
#include <unistd.h>

#define HUGE (2UL << 20)

static unsigned long mb = 64, rounds = 1, npages;
static char *mem;
static uint64_t *version;       /* of each page; 0: it is given back */

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

/* A third of the page is noise, and it says which it is. */
static void fill(uint64_t *page, uint64_t nr, uint64_t v)
{
	uint64_t s = nr * 1000003 + v;
	unsigned i;

	for (i = 0; i < PAGE / 8; i++)
		page[i] = i % 3 ? nr << 20 | v : next(&s);
}

static void write_page(uint64_t nr, uint64_t v)
{
	version[nr] = v;
	fill((uint64_t *)(mem + nr * PAGE), nr, v);
}

static int check(uint64_t nr)
{
	static uint64_t want[PAGE / 8];

	if (version[nr])
		fill(want, nr, version[nr]);
	else
		memset(want, 0, PAGE);
	if (!memcmp(mem + nr * PAGE, want, PAGE))
		return 0;
	printf("page %lu of version %lu is another\n", (unsigned long)nr, (unsigned long)version[nr]);
	return 1;
}

static int check_all(void)
{
	int bad = 0;

	for (uint64_t i = 0; i < npages && !bad; i++)
		bad = check(i);
	return bad;
}

static void page_out(void)
{
	if (madvise(mem, npages * PAGE, MADV_PAGEOUT))
		die("MADV_PAGEOUT");
}

static unsigned long figure(const char *file, int which)
{
	unsigned long v[4] = { 0 };
	FILE *f = fopen(file, "r");

	if (!f || fscanf(f, "%lu %lu %lu %lu", &v[0], &v[1], &v[2], &v[3]) < 4)
		return 0;
	fclose(f);
	return v[which];
}

/* A child that checks all pages; killed: it is, in the midst. */
static pid_t child(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(check_all());
	return pid;
}

static int end(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return !WIFEXITED(status) || WEXITSTATUS(status);
}

static int one_round(uint64_t round)
{
	int bad = check_all();
	pid_t a, b;

	page_out();
	a = child();
	b = child();
	for (uint64_t i = round % 5; i < npages; i += 5)
		write_page(i, version[i] + 1);
	bad |= check_all();
	bad |= end(a) | end(b);

	page_out();
	for (uint64_t i = 0; i < npages / 4; i++)
		if (i % 4) {
			madvise(mem + i * PAGE, PAGE, MADV_DONTNEED);
			version[i] = 0;
		}
	bad |= check_all();

	for (uint64_t i = 0; i < npages / 4; i++)
		if (!version[i])
			write_page(i, round + 7);
	page_out();
	a = child();
	usleep(2000 * (round % 7));
	kill(a, SIGKILL);
	end(a);
	return bad | check_all();
}

int main(int argc, char **argv)
{
	const struct option o[] = {
		{ "mb", &mb, 1, 1UL << 20, NULL },
		{ "rounds", &rounds, 0, 1UL << 20, NULL },
		{ NULL, NULL, 0, 0, NULL },
	};
	uint64_t round;
	int bad = 0;

	options(argc, argv, 1, o);
	npages = mb * 256;
	mem = mmap(NULL, npages * PAGE + HUGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	version = calloc(npages, sizeof(*version));
	if (mem == MAP_FAILED || !version)
		die("memory");
	mem += -(uintptr_t)mem & (HUGE - 1);
	for (uint64_t i = 0; i < npages; i++)
		write_page(i, 1);
	page_out();
	printf("reach: %lu %lu\n", figure("/sys/block/zram0/unit_stat", 1),
	       figure("/sys/block/zram0/mm_stat", 0) / PAGE);
	fflush(stdout);
	for (round = 0; round < rounds && !bad; round++)
		bad = one_round(round);
	return bad;
}
