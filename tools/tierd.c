// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb tierd: writes back and recompresses what lies untouched in zram devices, over the files of
 * in-tree zram alone.
 *
 *     high round   mem_used_total is over the high mark: the coldest pages are written, one age
 *                  after the other and in pieces, until it is at the low one
 *     pass         each eighth of the least age: pages of writeback_age are written, a piece a
 *                  turn; then those of recompress_age are recompressed, in slices of a CPU's share
 *
 * It works when memory is short.  So its memory is locked, and once it runs it allocates nothing:
 * all that it knows of devices is in one table, files are opened by openat() and read into arrays
 * on the stack, and messages are written there, too.  One thread does all, a turn a device.
 */
#define _GNU_SOURCE
#include "tierd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "args.h"
#include "zram_stat.h"

#define DEVICES_MOST 64
#define TEXT 128                        /* of a name or a number */
#define UNIT 4096u                      /* bytes: what bd_stat and writeback_limit count in */
#define SECOND 1000000000u
#define PIECE_MOST 8192u                /* units that are written before another look */
#define PIECE_LEAST 32u
#define HOURS 25u                       /* this one and 24 before: any 24 hours are in them */
#define PAUSE_S 5u                      /* after a high round that was of no use */
#define SLICE_SHORT (SECOND / 50)       /* CPU time of a slice of recompression */
#define SLICE_LONG (SECOND / 10)
#define SLICES_FOR_NOTHING 4u           /* that end a pass */
#define STATE_LINE 128

enum step { STEP_REST, STEP_WRITE, STEP_RECOMPRESS };

/* Files that are written; of each an error is said once. */
enum knob { KNOB_IDLE, KNOB_WRITEBACK, KNOB_LIMIT, KNOB_LIMIT_ON, KNOB_RECOMPRESS, KNOB_COMPACT,
	    KNOBS };

static const char *const knob_files[KNOBS] = { "idle", "writeback", "writeback_limit",
					       "writeback_limit_enable", "recompress", "compact" };

struct device {
	unsigned int number;
	bool listed;                    /* in the last listing of block/ */
	struct tierd_settings set;
	bool has_ages;                  /* `idle` takes seconds */
	bool is_begun;                  /* it has a size, and was asked to keep ages */
	int told[KNOBS];                /* the error that was said last */

	enum step step;
	uint64_t next_pass;             /* ns */
	/* Without ages: ns when all were marked (0: never); whether recompression had its turn. */
	uint64_t marked;
	bool tried;

	bool in_round;                  /* above the high mark */
	uint64_t cut;                   /* seconds: the age that the round is at; 0: all pages */
	uint64_t next_round;            /* ns */

	uint64_t next_slice;            /* ns: recompression has used its share until then */
	unsigned int slice;             /* pages */
	unsigned int for_nothing;       /* slices that made nothing smaller, in a row */

	uint64_t hour, written[HOURS];  /* units, by hour modulo HOURS */
	uint64_t bd_writes;             /* as it was last */
	bool knows_writes;

	uint64_t aged, ahead, saved;    /* units, units, bytes: what was done by this process */
};

static struct tierd {
	struct tierd_config config;
	const char *sysfs;
	bool dry_run;
	bool clears_marks;              /* `idle SECONDS` takes the marks of younger pages away */
	int block, state;               /* open files */
	uint64_t page_units;
	unsigned int n;
	struct device devices[DEVICES_MOST];
} tierd;

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Time that goes on while the machine sleeps, as the kernel's ages do. */
static uint64_t uptime_s(void)
{
	return clock_ns(CLOCK_BOOTTIME) / SECOND;
}

/* ---- files of a device ---- */

/* What is said here allocates nothing; each line is one write. */
static void say(int fd, const char *line, int len)
{
	if (len > 0 && write(fd, line, least((uint64_t)len, TEXT * 4 - 1)) < 0)
		return;         /* there is nobody else to tell */
}

/* Below block/. */
static const char *path_of(const struct device *d, const char *file, char path[TEXT])
{
	snprintf(path, TEXT, "zram%u/%s", d->number, file);
	return path;
}

static bool read_text(const struct device *d, const char *file, char text[ZRAM_TEXT + 1])
{
	char path[TEXT];

	return !zram_read(tierd.block, path_of(d, file, path), text);
}

/* The number at that place of a file's line; UINT64_MAX: there is none. */
static uint64_t read_number(const struct device *d, const char *file, unsigned int place)
{
	char text[ZRAM_TEXT + 1];
	const char *at = text;
	uint64_t v[4];

	if (!read_text(d, file, text) || zram_read_numbers(&at, v, place + 1) <= place)
		return UINT64_MAX;
	return v[place];
}

static bool has_size(const struct device *d)
{
	uint64_t size = read_number(d, "disksize", 0);

	return size && size != UINT64_MAX;
}

/*
 * Says an error that is not the last one of this file.  A device that goes away or is reset
 * meanwhile refuses all, and somebody else may be at work on it; neither is an error.
 */
static void tell(struct device *d, enum knob k, const char *value, int err)
{
	char line[TEXT * 4];

	if (err == -EINTR || err == -EAGAIN || err == -EBUSY || d->told[k] == err || !has_size(d))
		return;
	d->told[k] = err;
	say(STDERR_FILENO, line,
	    snprintf(line, sizeof(line), "ebb: %s/block/zram%u/%s: cannot write \"%s\": %s\n",
		     tierd.sysfs, d->number, knob_files[k], value, strerror(-err)));
}

/* 0, or -errno, which is not said yet.  In a dry run it shows what it would write. */
static int turn_knob(const struct device *d, enum knob k, const char *value)
{
	char line[TEXT * 4], path[TEXT];
	int fd, err = 0;

	if (tierd.dry_run) {
		say(STDOUT_FILENO, line,
		    snprintf(line, sizeof(line), "echo %s >%s/block/zram%u/%s\n", value,
			     tierd.sysfs, d->number, knob_files[k]));
		return 0;
	}
	fd = openat(tierd.block, path_of(d, knob_files[k], path),
		    O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int set_knob(struct device *d, enum knob k, uint64_t v)
{
	char value[TEXT];
	int err;

	snprintf(value, sizeof(value), "%llu", (unsigned long long)v);
	err = turn_knob(d, k, value);
	if (err)
		tell(d, k, value, err);
	return err;
}

/*
 * Marks what was not touched for so many seconds as idle, and nothing else; 0: all.  False: nothing
 * is so old, and marks are as they were, or an error.
 */
static bool mark(struct device *d, uint64_t seconds)
{
	char value[TEXT] = "all";
	int err;

	if (seconds >= uptime_s())
		return false;
	if (seconds)
		snprintf(value, sizeof(value), "%llu", (unsigned long long)seconds);
	err = turn_knob(d, KNOB_IDLE, value);
	if (err == -EINVAL && seconds && has_size(d))
		d->has_ages = false;    /* the kernel keeps none */
	else if (err)
		tell(d, KNOB_IDLE, value, err);
	return !err;
}

static bool has_backing(const struct device *d)
{
	char text[ZRAM_TEXT + 1];

	return read_text(d, "backing_dev", text) && strcmp(text, "none");
}

/* ---- how much is written ---- */

/* Looks at what was written to the backing device, by whom ever; the units since the last look. */
static uint64_t count_writes(struct device *d)
{
	uint64_t now = read_number(d, "bd_stat", 2), hour = uptime_s() / 3600, n;

	while (d->hour < hour)
		d->written[++d->hour % HOURS] = 0;
	if (now == UINT64_MAX)
		return 0;
	/* A reset begins anew with 0. */
	n = !d->knows_writes ? 0 : now >= d->bd_writes ? now - d->bd_writes : now;
	d->bd_writes = now;
	d->knows_writes = true;
	d->written[hour % HOURS] += n;
	return n;
}

static uint64_t day_spent(const struct device *d)
{
	uint64_t units = 0;

	for (unsigned int i = 0; i < HOURS; i++)
		units += d->written[i];
	return units;
}

static uint64_t budget_left(const struct device *d)
{
	uint64_t budget = d->set.writeback_budget / UNIT, spent = day_spent(d);

	if (!d->set.writeback_budget)
		return UINT64_MAX;
	return budget > spent ? budget - spent : 0;
}

/*
 * What earlier processes wrote is not known.  As if it had been the whole budget, evenly: a start
 * is worth a 24th of it, and each hour another, so that restarts wear nothing out.
 */
static void begin_budget(struct device *d)
{
	d->hour = uptime_s() / 3600;
	for (unsigned int i = 1; i < HOURS - 1; i++)
		d->written[(d->hour + i) % HOURS] = d->set.writeback_budget / UNIT / 24;
}

/*
 * Writes a piece of what is idle: so many units, as writeback_limit has them, which is the only
 * bound that all kernels know.  A device with writeback_auto has none, for a write without room
 * would fail at it.  Returns the units that were written; *over: there are no more.
 */
static uint64_t write_piece(struct device *d, uint64_t units, bool *over)
{
	bool is_auto = read_number(d, "writeback_auto", 0) == 1, limited = false;
	uint64_t limit = UINT64_MAX, wrote;
	int err;

	*over = true;
	count_writes(d);
	units = least(units, budget_left(d));
	if (!is_auto) {
		limited = read_number(d, "writeback_limit_enable", 0) == 1;
		limit = read_number(d, "writeback_limit", 0);
		if (limited)
			units = least(units, limit);
	}
	units -= units % tierd.page_units;
	if (!units)
		return 0;
	if (!is_auto && (set_knob(d, KNOB_LIMIT, units) || set_knob(d, KNOB_LIMIT_ON, 1)))
		return 0;
	err = turn_knob(d, KNOB_WRITEBACK, "idle");
	wrote = count_writes(d);
	/* The limit is the user's again. */
	if (!is_auto && limited)
		set_knob(d, KNOB_LIMIT, limit - least(limit, wrote));
	else if (!is_auto)
		set_knob(d, KNOB_LIMIT_ON, 0);
	*over = is_auto || wrote < units;
	if (err && (*over || err != -EIO))
		tell(d, KNOB_WRITEBACK, "idle", err);
	return wrote;
}

/* ---- water marks ---- */

/* Bytes; 0: there is none. */
static uint64_t mark_bytes(const struct tierd_mark *m, uint64_t limit)
{
	return m->percent ? limit / 100 * m->percent : m->bytes;
}

static bool has_high(const struct device *d)
{
	return d->set.writeback_high.bytes || d->set.writeback_high.percent;
}

static void end_round(struct device *d, uint64_t now, bool in_vain)
{
	d->in_round = false;
	d->next_round = now + (in_vain ? PAUSE_S * (uint64_t)SECOND : 0);
	/* Marks are others now: what a pass was at begins anew. */
	d->step = STEP_REST;
}

static void begin_round(struct device *d)
{
	d->in_round = true;
	/* The last round ended at this age; what is older is found by it, too. */
	d->cut = least((d->cut ? d->cut : 1) * 4, uptime_s() - 1);
	/* Without ages what is marked goes first. */
	if (d->has_ages)
		mark(d, d->cut);
}

/* The next younger age; false: there is none.  Where pieces have no bound, steps are smaller. */
static bool next_cut(struct device *d, bool is_auto)
{
	if (!d->cut || (is_auto && (d->cut == 1 || !d->has_ages)))
		return false;
	d->cut = !d->has_ages ? 0 : is_auto ? d->cut - (d->cut + 3) / 4 : d->cut / 2;
	if (!d->cut) {
		d->marked = now_ns();
		d->tried = false;
	}
	return mark(d, d->cut);
}

/* A piece of a round, if one is due; after each the size decides (what others free counts). */
static bool turn_of_round(struct device *d, uint64_t now)
{
	uint64_t limit = read_number(d, "mm_stat", 3), used = read_number(d, "mm_stat", 2);
	uint64_t high = mark_bytes(&d->set.writeback_high, limit);
	uint64_t low = mark_bytes(&d->set.writeback_low, limit);
	bool is_auto = read_number(d, "writeback_auto", 0) == 1, over;
	uint64_t wrote;

	if (!low || low > high)
		low = high - high / 16;
	if (!high || limit == UINT64_MAX || now < d->next_round ||
	    used <= (d->in_round ? low : high) || !has_backing(d)) {
		if (d->in_round)
			end_round(d, now, false);
		return false;
	}
	if (!d->in_round)
		begin_round(d);
	wrote = write_piece(d, least((used - low) / UNIT + PIECE_LEAST, PIECE_MOST), &over);
	d->ahead += wrote;
	if (wrote)
		set_knob(d, KNOB_COMPACT, 1);
	if (over && (read_number(d, "mm_stat", 2) <= low || !budget_left(d) ||
		     !next_cut(d, is_auto)))
		end_round(d, now, read_number(d, "mm_stat", 2) > low);
	return true;
}

/* ---- passes ---- */

static uint64_t period_s(const struct device *d)
{
	uint64_t w = d->set.writeback_age, r = d->set.recompress_age;
	uint64_t age = w && r ? least(w, r) : w + r;

	return age < 8 ? 1 : least(age / 8, 300);
}

/* The highest priority of recomp_algorithm, "#1: lzo [zstd]" a line; 0: none. */
static unsigned int last_priority(const struct device *d)
{
	char text[ZRAM_TEXT + 1], *at = text;
	unsigned int last = 0;

	if (!read_text(d, "recomp_algorithm", text))
		return 0;
	while ((at = strchr(at, '#'))) {
		at++;
		if (strchr(at, '[') && *at > '0' && *at <= '3')
			last = (unsigned int)(*at - '0');
	}
	return last;
}

static void begin_recompression(struct device *d)
{
	d->step = STEP_REST;
	d->for_nothing = 0;
	if (d->set.recompress_age && last_priority(d) &&
	    (!d->has_ages || mark(d, d->set.recompress_age)))
		d->step = STEP_RECOMPRESS;
}

/* As many pages as take some hundredths of a second; then it sleeps for the rest of its share. */
static void recompress_slice(struct device *d, uint64_t now)
{
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), took;
	uint64_t before = read_number(d, "mm_stat", 1), after;
	char value[TEXT];
	int err;

	snprintf(value, sizeof(value), "type=idle priority=%u max_pages=%u", last_priority(d),
		 d->slice);
	err = turn_knob(d, KNOB_RECOMPRESS, value);
	after = read_number(d, "mm_stat", 1);
	took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	d->next_slice = now + took * 100 / d->set.recompress_cpu;
	if (err)
		tell(d, KNOB_RECOMPRESS, value, err);
	d->for_nothing = after < before ? 0 : d->for_nothing + 1;
	if (after < before)
		d->saved += before - after;
	if (took < SLICE_SHORT && d->slice < 4096)
		d->slice *= 2;
	else if (took > SLICE_LONG && d->slice > 16)
		d->slice /= 2;
	if (err || tierd.dry_run || d->for_nothing == SLICES_FOR_NOTHING)
		d->step = STEP_REST;
}

/*
 * Without ages a mark tells that a page was not touched since all were marked: when that is long
 * enough ago, what has its mark is as old.
 */
static void begin_by_marks(struct device *d, uint64_t now, uint64_t write_age)
{
	uint64_t age = (now - d->marked) / SECOND;

	if (!d->marked || (!write_age && d->tried)) {
		if (mark(d, 0))
			d->marked = now;
		d->tried = false;
	} else if (write_age && age >= write_age) {
		d->marked = 0;
		d->step = STEP_WRITE;
	} else if (d->set.recompress_age && !d->tried && age >= d->set.recompress_age) {
		d->tried = true;
		begin_recompression(d);
	}
}

static void begin_pass(struct device *d, uint64_t now)
{
	uint64_t write_age = has_backing(d) ? d->set.writeback_age : 0;

	d->next_pass = now + period_s(d) * SECOND;
	if (!write_age && !(d->set.recompress_age && last_priority(d)))
		return;
	if (!d->has_ages)
		begin_by_marks(d, now, write_age);
	else if (write_age && mark(d, write_age))
		d->step = STEP_WRITE;
	else if (d->has_ages)
		begin_recompression(d);
}

/* One step of a pass.  True: another may come at once. */
static bool turn_of_pass(struct device *d, uint64_t now)
{
	bool over;

	switch (d->step) {
	case STEP_REST:
		if (now >= d->next_pass)
			begin_pass(d, now);
		break;
	case STEP_WRITE:
		d->aged += write_piece(d, PIECE_MOST, &over);
		d->step = over ? STEP_REST : STEP_WRITE;
		if (over && d->has_ages)
			begin_recompression(d);
		break;
	case STEP_RECOMPRESS:
		if (now >= d->next_slice)
			recompress_slice(d, now);
		return d->step == STEP_REST;
	}
	return d->step != STEP_REST;
}

/* Milliseconds until its next turn. */
static uint64_t turn(struct device *d)
{
	uint64_t now = now_ns(), ms = has_high(d) ? 100 : 1000;

	if (!has_size(d)) {
		d->step = STEP_REST;
		d->in_round = d->is_begun = false;
		d->marked = 0;
		return 1000;
	}
	count_writes(d);
	if (!d->set.writeback_age && !d->set.recompress_age && !has_high(d))
		return 1000;
	if (!d->is_begun) {
		d->is_begun = true;
		/* Ebb's is like the newest in-tree one, whatever the kernel. */
		d->has_ages = tierd.clears_marks ||
			      read_number(d, "release_limit", 0) != UINT64_MAX;
		/* And keeps ages from when somebody first asks for one. */
		if (d->has_ages)
			mark(d, uptime_s() - 1);
	}
	if (turn_of_round(d, now) || turn_of_pass(d, now))
		return 0;
	if (d->step == STEP_RECOMPRESS && d->next_slice > now)
		ms = least(ms, (d->next_slice - now) / 1000000 + 1);
	return ms;
}

/* ---- all devices ---- */

static void add_device(unsigned int number)
{
	struct device *d;

	for (unsigned int i = 0; i < tierd.n; i++)
		if (tierd.devices[i].number == number) {
			tierd.devices[i].listed = true;
			return;
		}
	if (tierd.n == DEVICES_MOST)
		return;
	d = &tierd.devices[tierd.n++];
	memset(d, 0, sizeof(*d));
	d->number = number;
	d->listed = true;
	d->set = *tierd_settings_of(&tierd.config, number);
	d->cut = 1u << 30;
	d->slice = 64;
	begin_budget(d);
}

/* Devices come and go: those that are no longer listed are forgotten. */
static void list_devices(void)
{
	char buf[4096];
	ssize_t n;

	for (unsigned int i = 0; i < tierd.n; i++)
		tierd.devices[i].listed = false;
	lseek(tierd.block, 0, SEEK_SET);
	while ((n = getdents64(tierd.block, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *e = (const void *)(buf + at);
			int number;

			at += e->d_reclen;
			number = zram_number(e->d_name);
			if (number >= 0)
				add_device((unsigned int)number);
		}
	for (unsigned int i = 0; i < tierd.n;)
		if (tierd.devices[i].listed)
			i++;
		else
			tierd.devices[i] = tierd.devices[--tierd.n];
}

/*
 * A line for each device, for `ebb top`: its name, the budget and what was written in 24 hours;
 * what was written for its age, and ahead of need; and what recompression saved, all in bytes.
 */
static void write_state(void)
{
	char text[DEVICES_MOST * STATE_LINE];
	size_t len = 0;

	if (tierd.state < 0)
		return;
	for (unsigned int i = 0; i < tierd.n; i++) {
		const struct device *d = &tierd.devices[i];

		len += (size_t)snprintf(text + len, STATE_LINE, "zram%u %llu %llu %llu %llu %llu\n",
					d->number, (unsigned long long)d->set.writeback_budget,
					(unsigned long long)day_spent(d) * UNIT,
					(unsigned long long)d->aged * UNIT,
					(unsigned long long)d->ahead * UNIT,
					(unsigned long long)d->saved);
	}
	if (pwrite(tierd.state, text, len, 0) < 0 || ftruncate(tierd.state, (off_t)len))
		return;         /* it is for showing only */
}

static void watch(void)
{
	uint64_t next_list = 0;

	while (!interrupted()) {
		uint64_t ms = 1000;

		if (now_ns() >= next_list) {
			list_devices();
			write_state();
			next_list = now_ns() + SECOND;
		}
		for (unsigned int i = 0; i < tierd.n && !interrupted(); i++)
			ms = least(ms, turn(&tierd.devices[i]));
		/* A signal ends the sleep; one that came just before it waits a second at most. */
		if (ms && !interrupted())
			sleep_us(ms * 1000);
	}
}

/*
 * Before Linux 6.13 `idle SECONDS` leaves the marks that younger pages have.  So pages would go for
 * the age of an earlier mark; there ages are told by marks of all pages instead.
 */
static bool kernel_clears_marks(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname u;

	return !uname(&u) && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 13));
}

static void open_all(const char *state)
{
	char *path = xprintf("%s/block", tierd.sysfs);

	tierd.block = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tierd.block < 0)
		fail("%s: %s; expected the block devices of a sysfs", path, strerror(errno));
	free(path);
	tierd.state = -1;
	if (tierd.dry_run)
		return;
	tierd.state = open(state, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (tierd.state < 0)
		fail("--state %s: %s; expected a file that can be made", state, strerror(errno));
	/* Last: from here on nothing is allocated. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fail("cannot lock memory: %s; expected root, or an unlimited RLIMIT_MEMLOCK",
		     strerror(errno));
}

static int run(const struct command *cmd, int argc, char **argv)
{
	const char *config = "/etc/ebb/tierd.conf", *state = TIERD_STATE;
	const struct opt opts[] = {
		{ "config", OPT_WORD, &config, 0, 0, 0, NULL, "FILE", "what to do, and when" },
		{ "dry-run", OPT_FLAG, &tierd.dry_run, 0, 0, 0, NULL, NULL,
		  "show what would be written, as lines for a shell, and write nothing" },
		{ "state", OPT_WORD, &state, 0, 0, 0, NULL, "FILE", "where `ebb top` finds it" },
		{ "sysfs", OPT_WORD, &tierd.sysfs, 0, 0, 0, NULL, "DIR", "where sysfs is mounted" },
		{ .name = NULL },
	};

	tierd.sysfs = "/sys";
	args_parse_only(cmd, opts, argc, argv);
	tierd_config_read(&tierd.config, config);
	tierd.clears_marks = kernel_clears_marks();
	tierd.page_units = (uint64_t)sysconf(_SC_PAGESIZE) / UNIT;
	open_all(state);
	watch();
	if (tierd.state >= 0)
		unlink(state);
	return 0;
}

const struct command tierd_command = {
	.name = "tierd",
	.operands = "",
	.summary = "a daemon: writes back and recompresses what lies untouched in zram",
	.about =
"Does for all zram devices, in-tree's and Ebb's alike, what the configuration says: writes pages\n"
"that nobody touched for so long to the backing device, recompresses them, keeps to a budget of\n"
"writes a day, and writes the coldest pages back when a device takes too much memory.  It runs in\n"
"the foreground until SIGTERM; to read another configuration it is started again.",
	.examples =
"  ebb tierd --config tierd.conf --dry-run    what it would write\n"
"  systemctl enable --now ebb-tierd           with /etc/ebb/tierd.conf",
	.run = run,
};
