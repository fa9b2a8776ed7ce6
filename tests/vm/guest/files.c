// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every file of a device is written and read at once, while it is reset and set up again.
 *
 *   files N [--ms MS] [--procs P] [--seed X] [--shared]       of /dev/zramN
 *
 * Each process opens a file of /sys/block/zramN, of its queue or of debugfs at random, and reads it
 * or writes a text, right or wrong. A call may be refused, for a reason in the list; what `check`
 * says must be ok. A file that was tried often must have been read, or taken a text, once, unless
 * the device is open all the while.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "options.h"
#include "pages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A text that is right as a rule, and what else there is. */
static const struct { const char *name, *text[8]; } texts[] = {
	{ "disksize", { "32M", "48M", "32M", "0", "x" } },
	{ "reset", { "1", "1", "0", "x" } },
	{ "comp_algorithm", { "lz4", "zstd", "lzo-rle", "none" } },
	{ "algorithm_params", { "priority=0 level=1", "priority=1 level=3", "priority=9", "level=x" } },
	{ "recomp_algorithm", { "algo=zstd priority=1", "algo=lz4hc priority=2", "algo=none priority=1" } },
	{ "recompress", { "type=idle", "type=huge", "type=huge_idle max_pages=20",
			  "type=idle priority=1", "threshold=900", "type=none" } },
	{ "mem_limit", { "0", "2M", "64M", "x" } },
	{ "mem_used_max", { "0", "1" } },
	{ "compact", { "1" } },
	{ "idle", { "all", "1", "5000", "x" } },
	{ "release_limit", { "0", "4096", "1M", "64M", "x" } },
	{ "max_comp_streams", { "1", "8", "0" } },
	{ "backing_dev", { "/dev/loop0", "/dev/loop0", "/dev/none", "/dev/null" } },
	{ "compressed_writeback", { "0", "1", "x" } },
	{ "writeback", { "idle", "huge", "huge_idle", "incompressible", "page_index=3",
			 "page_indexes=0-400", "page_index=9999999", "none" } },
	{ "writeback_limit", { "0", "100", "100000", "x" } },
	{ "writeback_limit_enable", { "0", "1", "x" } },
	{ "writeback_batch_size", { "1", "32", "0" } },
	{ "writeback_auto", { "0", "1", "x" } },
};
#define MANY 500        /* tries: one in twenty writes finds the device as it has to be */
#define NTEXTS (sizeof(texts) / sizeof(*texts))

static const int refusals[] = {
	EBUSY, EINVAL, ENOMEM, EIO, ENOSPC, ENODEV, ENOENT, ENOTBLK, EAGAIN, EINTR, EACCES, ENODATA,
	EOPNOTSUPP, ERANGE, EPERM,
};

static struct file {
	char path[160];
	int can;                /* 4: read, 2: written */
	int text;               /* of texts[], or -1 */
} file[128];
static struct count { unsigned long good[2], bad[2]; } *count;
static unsigned long *faults;
static unsigned nfiles, nown;    /* the first ones are the module's */

static const char *base(const char *path)
{
	return strrchr(path, '/') + 1;
}

static void add_folder(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d)) && nfiles < sizeof(file) / sizeof(*file)) {
		struct file *f = &file[nfiles];

		snprintf(f->path, sizeof(f->path), "%.80s/%.60s", folder, e->d_name);
		if (lstat(f->path, &st) || !S_ISREG(st.st_mode))
			continue;
		f->can = st.st_mode >> 6 & 6;
		f->text = -1;
		for (unsigned k = 0; k < NTEXTS; k++)
			if (!strcmp(texts[k].name, e->d_name))
				f->text = (int)k;
		/* What else is written is the kernel's, not the device's. */
		if (f->text < 0)
			f->can &= 4;
		nfiles += f->can != 0;
	}
	if (d)
		closedir(d);
}

static void fault(const char *what, const struct file *f, const char *why)
{
	__atomic_add_fetch(faults, 1, __ATOMIC_RELAXED);
	printf("# files: %s of %s: %s\n", what, f->path, why);
	fflush(stdout);
}

static void touch(const struct file *f, int write_it, const char *text)
{
	static char buf[1 << 16];
	struct count *c = &count[f - file];
	int fd = open(f->path, write_it ? O_WRONLY : O_RDONLY);
	ssize_t n = -1;
	int err;
	unsigned k;

	if (fd >= 0)
		n = write_it ? write(fd, text, strlen(text)) : read(fd, buf, sizeof(buf) - 1);
	err = n < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	__atomic_add_fetch(err ? &c->bad[write_it] : &c->good[write_it], 1, __ATOMIC_RELAXED);
	for (k = 0; err && k < sizeof(refusals) / sizeof(*refusals) && refusals[k] != err; k++)
		;
	if (k == sizeof(refusals) / sizeof(*refusals))
		fault(write_it ? text : "a read", f, strerror(err));
	buf[n > 0 && !write_it ? n : 0] = 0;
	/* Without a size there is nothing to be said. */
	if (!write_it && n > 0 && !strcmp(base(f->path), "check") && strcmp(buf, "ok\n"))
		fault("what is said", f, buf);
}

/* Else a device is hardly ever one that pages are written back or recompressed on. */
static void set_up(void)
{
	static const char *const order[] = {
		"reset", "backing_dev", "recomp_algorithm", "disksize", "idle", "recompress", "writeback",
	};

	for (unsigned i = 0; i < sizeof(order) / sizeof(*order); i++)
		for (unsigned k = 0; k < nown; k++)
			if (file[k].text >= 0 && !strcmp(base(file[k].path), order[i]))
				touch(&file[k], 1, texts[file[k].text].text[0]);
}

static void work(uint64_t rnd, long end)
{
	while (ms() < end) {
		uint64_t r = next(&rnd);
		const struct file *f = &file[(r >> 8) % (r % 8 ? nown : nfiles)];
		int write_it = f->can == 6 ? (int)(next(&rnd) >> 20 & 1) : f->can == 2;
		const char *const *text = f->text < 0 ? NULL : texts[f->text].text;
		unsigned n = 0;

		if ((r >> 32) % 64 == 0)
			set_up();
		while (text && n < 8 && text[n])
			n++;
		touch(f, write_it, text ? text[next(&rnd) >> 8 & 1 ? 0 : (next(&rnd) >> 20) % n] : "");
	}
}

/* --shared: others decide, too, whether a write is refused, so it may be each time. */
int main(int argc, char **argv)
{
	static unsigned long lasts = 4000, procs = 4, seed = 1, is_shared;
	static const struct option known[] = {
		{ "ms", &lasts, 1, 3600000 }, { "procs", &procs, 1, 32 }, { "seed", &seed, 1, 1u << 31 },
		{ "shared", &is_shared, 0, 0 }, { }
	};
	unsigned long good = 0, bad = 0;
	char folder[80];
	long end;

	if (argc < 2)
		return fprintf(stderr, "usage: files N [--ms MS] [--procs P] [--seed X] [--shared]\n"), 2;
	options(argc, argv, 2, known);
	for (unsigned k = 0; k < 3; k++) {
		static const char *const of[] = { "/sys/block/zram%.8s",
						  "/sys/kernel/debug/zram/zram%.8s",
						  "/sys/block/zram%.8s/queue" };

		nown = nfiles;
		snprintf(folder, sizeof(folder), of[k], argv[1]);
		add_folder(folder);
	}
	count = mmap(NULL, sizeof(file) / sizeof(*file) * sizeof(*count) + sizeof(*faults),
		     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!nfiles || count == MAP_FAILED)
		return fprintf(stderr, "files: no device %s\n", argv[1]), 2;
	faults = (unsigned long *)&count[sizeof(file) / sizeof(*file)];
	end = ms() + (long)lasts;
	for (unsigned long p = 0; p < procs; p++)
		if (!fork()) {
			work(seed * 0x9e3779b97f4a7c15ULL ^ (p + 1) * 0x2545f4914f6cdd1dULL, end);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	for (unsigned k = 0; k < nfiles; k++) {
		struct count *c = &count[k];

		for (int w = 0; w < 2; w++) {
			good += c->good[w], bad += c->bad[w];
			if (c->bad[w] >= MANY && !c->good[w] && !is_shared)
				fault(w ? "each write" : "each read", &file[k], "refused");
		}
	}
	printf("# files: %u files, %lu calls, %lu refused, %lu wrong\n", nfiles, good + bad, bad, *faults);
	return *faults != 0;
}
