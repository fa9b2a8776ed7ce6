// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * home_zram.c - the stress program's home on a zram device: direct I/O, its sysfs files, a
 * second device that is reset and a third that comes and goes.  For a guest with devtmpfs and
 * debugfs, as root.  In-tree zram will do as well; what is ours alone falls out.
 */
#include "stress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PAGE 4096u

static int fd = -1;
static bool ebb;

/* ---- files ---- */

/* Writes text to a file; 0 or a negative error number. */
static int put_file(const char *path, const char *text)
{
	int f = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (f < 0)
		return -errno;
	if (write(f, text, strlen(text)) < 0)
		err = -errno;
	close(f);
	return err;
}

/* The first cap - 1 bytes of a file; 0 or a negative error number. */
static int get_file(const char *path, char *buf, size_t cap)
{
	int f = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	ssize_t n;

	if (f < 0)
		return -errno;
	n = read(f, buf, cap - 1);
	if (n < 0)
		err = -errno;
	buf[n > 0 ? n : 0] = 0;
	close(f);
	return err;
}

/* The sysfs file of a device node "/dev/zramN". */
static const char *of(const char *device, const char *name, char *path)
{
	snprintf(path, 96, "/sys/block/%.32s/%.32s", strrchr(device, '/') + 1, name);
	return path;
}

static int set(const char *device, const char *name, const char *text)
{
	char path[96];

	return put_file(of(device, name, path), text);
}

static int set_number(const char *device, const char *name, u64 n)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu", n);
	return set(device, name, text);
}

static void must(int err, const char *what)
{
	if (err)
		wrong("%s: %s", what, strerror(-err));
}

static void must_be_busy(int err, const char *what)
{
	if (err != -EBUSY)
		wrong("%s: %s, and not busy", what, err ? strerror(-err) : "done");
}

/* ---- the device ---- */

static int open_device(const char *device)
{
	int f = open(device, O_RDWR | O_DIRECT | O_CLOEXEC);

	if (f < 0)
		wrong("%s: %s", device, strerror(errno));
	return f;
}

static int write_at(int f, u32 slot, const void *pages, u32 n)
{
	ssize_t did = pwrite(f, pages, (size_t)n * PAGE, (off_t)slot * PAGE);

	return did == (ssize_t)(n * PAGE) ? 0 : did < 0 ? -errno : -EIO;
}

static int read_at(int f, u32 slot, void *pages, u32 n)
{
	ssize_t did = pread(f, pages, (size_t)n * PAGE, (off_t)slot * PAGE);

	return did == (ssize_t)(n * PAGE) ? 0 : did < 0 ? -errno : -EIO;
}

/* Either empties whole pages. */
static int free_at(int f, u32 slot, u32 n)
{
	u64 range[2] = { (u64)slot * PAGE, (u64)n * PAGE };

	return ioctl(f, slot & 1 ? BLKZEROOUT : BLKDISCARD, range) ? -errno : 0;
}

static int zram_write(u32 slot, const void *pages, u32 n)
{
	return write_at(fd, slot, pages, n);
}

static int zram_read(u32 slot, void *pages, u32 n)
{
	return read_at(fd, slot, pages, n);
}

static int zram_free(u32 slot, u32 n)
{
	return free_at(fd, slot, n);
}

static bool may_be_short(int err)
{
	return err == -EIO || err == -ENOMEM || err == -ENOSPC;
}

static size_t zram_page_size(void)
{
	return PAGE;
}

static u64 pick_release_limit(u64 *r)
{
	static const u64 limit[] = { 0, 1, 5000, 100000, 1 << 20, 16 << 20 };

	return PICK(limit, r);
}

static u64 pick_mem_limit(u64 *r)
{
	return (1 + below(r, round_now.slots)) * PAGE / 2;
}

/* One of the codecs that the file lists, brackets off; mostly the quick ones. */
static void pick_codec(const char *device, u64 *r, char *codec)
{
	char path[96], text[256], *name[16], *p, *save;
	u32 n = 0;

	must(get_file(of(device, "comp_algorithm", path), text, sizeof(text)), "comp_algorithm");
	for (p = strtok_r(text, " []\n", &save); p && n < 16; p = strtok_r(NULL, " []\n", &save))
		name[n++] = p;
	snprintf(codec, 32, "%s", !n ? "" : one_in(r, 3) ? name[below(r, n)] : strstr(name[0], "lz") ? name[0] : "lzo");
}

static int start(const char *device, const char *codec, u32 slots)
{
	int err = set(device, "reset", "1");

	if (!err)
		err = set(device, "comp_algorithm", codec);
	return err ? err : set_number(device, "disksize", (u64)slots * PAGE);
}

static void zram_home_open(struct round *r)
{
	char codec[32] = "";
	u64 limit = pick_release_limit(&r->r);

	pick_codec(options.device, &r->r, codec);
	must(start(options.device, codec, r->slots), "setting up the device");
	if (ebb)
		must(set_number(options.device, "release_limit", limit), "release_limit");
	fd = open_device(options.device);
	snprintf(r->text, sizeof(r->text), "%s, %u slots, release_limit %lu", codec, r->slots,
		 limit);
}

static void zram_home_close(void)
{
	close(fd);
	fd = -1;
	must(set(options.device, "reset", "1"), "reset of the closed device");
}

static void zram_home_begin(struct round *r)
{
	must(set_number(options.device, "mem_limit", r->short_of_memory ? pick_mem_limit(&r->r) : 0), "mem_limit");
}

static void zram_home_end(void)
{
	must(set(options.device, "mem_limit", "0"), "mem_limit");
}

/* ---- figures ---- */

enum { ORIG, COMPR, USED, LIMIT, PEAK, SAME, COMPACTED, HUGE_NOW, HUGE_EVER, MM_FIELDS };

static void read_figures(u64 *mm, u64 *io)
{
	char path[96], text[256], *p;
	int i;

	must(get_file(of(options.device, "mm_stat", path), text, sizeof(text)), "mm_stat");
	for (p = text, i = 0; i < MM_FIELDS; i++)
		mm[i] = strtoull(p, &p, 10);
	must(get_file(of(options.device, "io_stat", path), text, sizeof(text)), "io_stat");
	for (p = text, i = 0; i < 4; i++)
		io[i] = strtoull(p, &p, 10);
}

static void within(const char *what, u64 got, u64 min, u64 max)
{
	if (got < min || got > max)
		wrong("%s is %lu, and not %lu to %lu", what, got, min, max);
}

/* ---- its operations ---- */

static enum outcome op_compact(struct worker *w)
{
	(void)w;
	must(set(options.device, "compact", "1"), "compact");
	return DONE;
}

static enum outcome op_stat(struct worker *w)
{
	/* Each thread may be between counting in and counting out a page. */
	u64 slots = round_now.slots + options.threads, mm[MM_FIELDS], io[4];

	(void)w;
	read_figures(mm, io);
	within("orig_data_size", mm[ORIG], 0, slots * PAGE);
	within("same_pages", mm[SAME], 0, slots);
	within("huge_pages", mm[HUGE_NOW], 0, slots);
	within("failed_reads", io[0], 0, 0);
	if (mm[USED] % PAGE)
		wrong("mem_used_total is %lu", mm[USED]);
	return DONE;
}

static enum outcome op_mem_limit(struct worker *w)
{
	if (!round_now.short_of_memory)
		return BUSY;
	must(set_number(options.device, "mem_limit", one_in(&w->r, 3) ? 0 : pick_mem_limit(&w->r)), "mem_limit");
	return DONE;
}

static enum outcome op_release_limit(struct worker *w)
{
	must(set_number(options.device, "release_limit", pick_release_limit(&w->r)), "release_limit");
	return DONE;
}

static enum outcome op_peak(struct worker *w)
{
	(void)w;
	must(set(options.device, "mem_used_max", "0"), "mem_used_max");
	return DONE;
}

/* What an open device refuses. */
static enum outcome op_refused(struct worker *w)
{
	switch (below(&w->r, 4)) {
	case 0:
		must_be_busy(set(options.device, "reset", "1"), "reset while open");
		break;
	case 1:
		must_be_busy(set(options.device, "disksize", "1M"), "disksize while there is one");
		break;
	case 2:
		must_be_busy(put_file("/sys/class/zram-control/hot_remove", strrchr(options.device, 'm') + 1),
			     "hot_remove while open");
		break;
	default:
		must_be_busy(set(options.device, "comp_algorithm", "lzo"), "comp_algorithm while there is a size");
	}
	return DONE;
}

/* All shrinkers are asked for what they have. */
static enum outcome op_shrink(struct worker *w)
{
	(void)w;
	must(put_file("/proc/sys/vm/drop_caches", "2"), "drop_caches");
	return DONE;
}

static int small_write(void *ctx, u32 slot, const void *page)
{
	return write_at(*(int *)ctx, slot, page, 1);
}

static int small_read(void *ctx, u32 slot, void *page)
{
	return read_at(*(int *)ctx, slot, page, 1);
}

static int small_free(void *ctx, u32 slot)
{
	return free_at(*(int *)ctx, slot, 1);
}

/* One life of a device: set up, used, reset; a reset while it is open is refused. */
static enum outcome life(struct worker *w, const char *device)
{
	u32 slots = 8 + (u32)below(&w->r, 56);
	enum outcome out = FAILED;
	char codec[32];
	int f;
	struct small_store s = {
		.write = small_write, .read = small_read, .free = small_free,
		.ctx = &f, .name = device,
		.may_fail = round_now.short_of_memory || options.tolerate,
	};
	int err;

	pick_codec(device, &w->r, codec);
	err = start(device, codec, slots);
	if (err) {
		if (err != -ENOMEM || !options.tolerate)
			wrong("setting up %s: %s", device, strerror(-err));
		return out;
	}
	f = open_device(device);
	if (f >= 0) {
		out = use_small_store(w, &s, slots);
		must_be_busy(set(device, "reset", "1"), "reset of the other device while open");
		close(f);
	}
	must(set(device, "reset", "1"), "reset of the other device");
	return out;
}

static enum outcome op_second(struct worker *w)
{
	static bool taken;
	enum outcome out;

	if (__atomic_exchange_n(&taken, true, __ATOMIC_SEQ_CST))
		return BUSY;
	out = life(w, options.second);
	__atomic_store_n(&taken, false, __ATOMIC_SEQ_CST);
	return out;
}

/* A device is made, lives and is removed; several at once, and of any number. */
static enum outcome op_hot(struct worker *w)
{
	char text[32], device[64];
	enum outcome out;
	int err = get_file("/sys/class/zram-control/hot_add", text, sizeof(text));

	if (err) {
		if (err != -ENOMEM || !options.tolerate)
			wrong("hot_add: %s", strerror(-err));
		return FAILED;
	}
	snprintf(device, sizeof(device), "/dev/zram%lu", strtoul(text, NULL, 10));
	out = life(w, device);
	must(put_file("/sys/class/zram-control/hot_remove", text), "hot_remove");
	return out;
}

static const struct op zram_ops[] = {
	/* name          weight */
	{ "compact",        20, op_compact },
	{ "stat",           40, op_stat },
	{ "mem-limit",      20, op_mem_limit },
	{ "release-limit",  10, op_release_limit },
	{ "peak",            5, op_peak },
	{ "refused",         5, op_refused },
	{ "shrink",          5, op_shrink },
	{ "second",          2, op_second },
	{ "hot",             1, op_hot },
	{ NULL, 0, NULL },
};

static bool zram_offers(const char *name)
{
	if (!strcmp(name, "release-limit"))
		return ebb;
	if (!strcmp(name, "second"))
		return options.second;
	return strcmp(name, "put");
}

/* ---- when nobody is at work ---- */

static void zram_home_check(const struct tally *t)
{
	u64 mm[MM_FIELDS], io[4];
	char path[96], text[256] = "";

	must(set(options.device, "compact", "1"), "compact");
	read_figures(mm, io);
	within("orig_data_size", mm[ORIG], t->bytes, t->bytes);
	within("same_pages", mm[SAME], t->same, t->same);
	within("huge_pages", mm[HUGE_NOW], t->raw_min, t->raw_max);
	within("mem_used_total", mm[USED], t->raw_min * PAGE, mm[PEAK]);
	within("failed_reads", io[0], 0, 0);
	if (!io[1] != !t->failed_writes)
		wrong("failed_writes is %lu, and %lu failed", io[1], t->failed_writes);
	if (!ebb)
		return;
	/* In-tree counts empty slots that a discard names, too. */
	within("notify_free", io[3], t->freed_min, t->freed_max);
	/* The invariants are for a device that nobody has open. */
	close(fd);
	snprintf(path, sizeof(path), "/sys/kernel/debug/zram/%.32s/check", strrchr(options.device, '/') + 1);
	must(get_file(path, text, sizeof(text)), path);
	if (strcmp(text, "ok\n"))
		wrong("check: %s", text);
	fd = open_device(options.device);
}

static void zram_home_check_empty(void)
{
	u64 mm[MM_FIELDS], io[4];

	must(set(options.device, "compact", "1"), "compact");
	read_figures(mm, io);
	within("orig_data_size of an empty device", mm[ORIG], 0, 0);
	within("compr_data_size of an empty device", mm[COMPR], 0, 0);
	within("same_pages of an empty device", mm[SAME], 0, 0);
	within("huge_pages of an empty device", mm[HUGE_NOW], 0, 0);
	within("mem_used_total of an empty device", mm[USED], 0, 0);
}

static int zram_init(void)
{
	char path[96];

	if (!options.device || strncmp(options.device, "/dev/zram", 9) ||
	    access(of(options.device, "mm_stat", path), R_OK)) {
		printf("Bail out! --device names no zram device\n");
		return -EINVAL;
	}
	ebb = !access(of(options.device, "release_limit", path), R_OK);
	return 0;
}

const struct home home = {
	.name = "zram",
	.ops = zram_ops,
	.init = zram_init,
	.offers = zram_offers,
	.page_size = zram_page_size,
	.open = zram_home_open,
	.close = zram_home_close,
	.begin = zram_home_begin,
	.end = zram_home_end,
	.write = zram_write,
	.read = zram_read,
	.free = zram_free,
	.may_fail = may_be_short,
	.check = zram_home_check,
	.check_empty = zram_home_check_empty,
};
