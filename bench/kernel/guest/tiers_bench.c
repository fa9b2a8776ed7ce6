// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What moving pages between zram's tiers costs.
 *
 *   tiers_bench --part writeback  --mb M --packed 0|1 [--device MIB]
 *   tiers_bench --part swapin     --mb M --packed 0|1 [--device MIB]
 *   tiers_bench --part recompress --mb M [--second CODEC]
 *                                 [--data uniform|mixed|text] [--codec NAME] [--tag TEXT]
 *
 * writeback: M MiB on the device, all idle, go to the backing device; MB/s, and a part of the pages
 * is checked.  swapin: so do M MiB of a process, which then touches its pages in random order, each
 * once; how long one takes.  recompress: M MiB are recompressed; MB/s, and the memory afterwards.
 *
 * The console is marked before and after what is timed, so that its CPU time can be told.
 *
 * packed is compressed_writeback.  The backing device has room for M MiB, or MIB if that is more.
 * One line of JSON goes to the console: "bench: {...}".
 */
#include "backing.h"

static unsigned long mb = 1024, device;
static const char *codec = "lz4", *second = "zstd", *data_name = "mixed", *packed, *part = "",
		  *tag = "-";
static enum data_kind data;

static void zram_open(int *fd)
{
	*fd = open("/dev/zram0", O_RDWR | O_DIRECT);
	if (*fd < 0)
		die("/dev/zram0: %s", strerror(errno));
}

static void *buffer(unsigned long bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	return p;
}

/* Writes the whole device; MB/s of that. */
static double zram_fill(void)
{
	char *buf = buffer(MB);
	double ms = 0, t;
	int fd;

	zram_open(&fd);
	for (unsigned long i = 0; i < mb; i++) {
		for (unsigned long k = 0; k < MB / PAGE; k++)
			data_fill(buf + k * PAGE, data, i * (MB / PAGE) + k);
		t = now_ms();
		if (pwrite(fd, buf, MB, (off_t)(i * MB)) != (ssize_t)MB)
			die("a write at MiB %lu: %s", i, strerror(errno));
		ms += now_ms() - t;
	}
	close(fd);
	munmap(buf, MB);
	return (double)mb / ms * 1e3;
}

/* Reads one MiB of each 16 back. */
static void zram_check(const char *when)
{
	char *buf = buffer(MB);
	int fd;

	zram_open(&fd);
	for (unsigned long i = 0; i < mb; i += 16) {
		if (pread(fd, buf, MB, (off_t)(i * MB)) != (ssize_t)MB)
			die("%s: a read at MiB %lu: %s", when, i, strerror(errno));
		for (unsigned long k = 0; k < MB / PAGE; k++)
			if (data_check(buf + k * PAGE, data, i * (MB / PAGE) + k) >= 0)
				die("%s: page %lu is not as written", when, i * (MB / PAGE) + k);
	}
	close(fd);
	munmap(buf, MB);
}

static void must_be_backed(unsigned long pages)
{
	struct bd_stat bd = zram_bd_stat(0);

	if (bd.blocks < pages)
		die("only %llu of %lu pages went to the backing device", bd.blocks, pages);
}

static void bench_writeback(const struct zram_setup *setup)
{
	double speed = backing_make(device), fill, ms;
	struct mm_stat before, after;

	zram_make(0, setup, mb * MB);
	fill = zram_fill();
	zram_mm_stat(0, &before);
	mark("start", tag);
	ms = backing_write_all(0);
	mark("stop", tag);
	zram_mm_stat(0, &after);
	must_be_backed(mb * MB / PAGE);
	zram_check("after writeback");
	printf("bench: {\"tag\": \"%s\", \"kind\": \"writeback\", \"mb\": %lu, \"packed\": %s, "
	       "\"data\": \"%s\", \"codec\": \"%s\", \"writeback_mb_per_s\": %.1f, "
	       "\"device_mb_per_s\": %.0f, \"fill_mb_per_s\": %.1f, \"used_before_mb\": %.1f, "
	       "\"used_after_mb\": %.1f}\n",
	       tag, mb, packed, data_name, codec, (double)mb / ms * 1e3, speed, fill,
	       before.used / 1048576.0, after.used / 1048576.0);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void bench_swapin(const struct zram_setup *setup)
{
	double speed = backing_make(device), wb, t, ns;
	unsigned long n = mb * MB / PAGE, sum = 0;
	uint64_t *took = buffer(n * sizeof(*took)), start, s = 1;
	uint32_t *order = buffer(n * sizeof(*order));
	struct bd_stat bd;
	char *p;

	/* Both are here from the first, and stay. */
	memset(took, 0, n * sizeof(*took));
	for (unsigned long i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (unsigned long i = n - 1; i; i--) {
		unsigned long k = next(&s) % (i + 1);
		uint32_t o = order[i];

		order[i] = order[k];
		order[k] = o;
	}
	zram_swapon(0, setup, 2 * mb * MB);
	p = buffer(mb * MB);
	for (unsigned long i = 0; i < n; i++)
		data_fill(p + i * PAGE, data, i);
	if (page_out(p, mb * MB) < mb * MB / 100 * 99)
		die("the region did not go to swap");
	wb = backing_write_all(0);
	must_be_backed(n / 100 * 99);
	bd = zram_bd_stat(0);
	start = ticks();
	t = now_ms();
	for (unsigned long i = 0; i < n; i++) {
		uint64_t at = ticks();

		sum += *(volatile char *)(p + order[i] * PAGE);
		took[i] = ticks() - at;
	}
	t = now_ms() - t;
	ns = t * 1e6 / (double)(ticks() - start);
	if (zram_bd_stat(0).reads - bd.reads < n / 100 * 99)
		die("only %llu pages were read from the backing device", zram_bd_stat(0).reads - bd.reads);
	for (unsigned long i = 0; i < n; i++)
		if (data_check(p + i * PAGE, data, i) >= 0)
			die("page %lu is not as written", i);
	qsort(took, n, sizeof(*took), by_size);
	printf("bench: {\"tag\": \"%s\", \"kind\": \"swapin\", \"mb\": %lu, \"packed\": %s, "
	       "\"data\": \"%s\", \"codec\": \"%s\", \"swapin_p50_us\": %.2f, \"swapin_p90_us\": %.2f, "
	       "\"swapin_p99_us\": %.2f, \"swapin_mean_us\": %.2f, \"writeback_mb_per_s\": %.1f, "
	       "\"device_mb_per_s\": %.0f, \"sum\": %lu}\n",
	       tag, mb, packed, data_name, codec, took[n / 2] * ns / 1e3,
	       took[n / 10 * 9] * ns / 1e3, took[n / 100 * 99] * ns / 1e3, t * 1e3 / (double)n,
	       (double)mb / wb * 1e3, speed, sum & 0xff);
	swapoff("/dev/zram0");
}

static void bench_recompress(const struct zram_setup *setup)
{
	struct mm_stat before, after, compacted;
	char text[64];
	double ms, fill;

	zram_make(0, setup, mb * MB);
	fill = zram_fill();
	zram_mm_stat(0, &before);
	snprintf(text, sizeof(text), "algo=%s", second);
	mark("start", tag);
	ms = now_ms();
	zram_must_set(0, "recompress", text);
	ms = now_ms() - ms;
	sleep_ms(200);
	mark("stop", tag);
	zram_mm_stat(0, &after);
	zram_check("after recompression");
	zram_must_set(0, "compact", "1");
	zram_mm_stat(0, &compacted);
	printf("bench: {\"tag\": \"%s\", \"kind\": \"recompress\", \"mb\": %lu, \"data\": \"%s\", "
	       "\"codec\": \"%s\", \"second\": \"%s\", \"recompress_mb_per_s\": %.1f, "
	       "\"fill_mb_per_s\": %.1f, \"used_before_mb\": %.2f, \"used_after_mb\": %.2f, "
	       "\"compr_before_mb\": %.2f, \"compr_after_mb\": %.2f, \"used_compacted_mb\": %.2f}\n",
	       tag, mb, data_name, codec, second, (double)mb / ms * 1e3, fill,
	       before.used / 1048576.0, after.used / 1048576.0, before.compr / 1048576.0,
	       after.compr / 1048576.0, compacted.used / 1048576.0);
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{ "part", .text = &part }, { "mb", &mb, 1, 1 << 16 }, { "device", &device, 1, 1 << 16 },
		{ "packed", .text = &packed }, { "second", .text = &second }, { "data", .text = &data_name },
		{ "codec", .text = &codec }, { "tag", .text = &tag }, { }
	};
	struct zram_setup setup = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	data = data_parse(data_name);
	setup.codec = codec;
	if (device < mb + 16)
		device = mb + 16;
	if (!strcmp(part, "recompress")) {
		setup.second = second;
		bench_recompress(&setup);
	} else if (packed && (!strcmp(part, "writeback") || !strcmp(part, "swapin"))) {
		setup.packed = packed;
		setup.backing = BACKING;
		if (*part == 'w')
			bench_writeback(&setup);
		else
			bench_swapin(&setup);
	} else {
		die("part '%s' is none of recompress, and with --packed writeback, swapin", part);
	}
	zram_must_set(0, "reset", "1");
	return 0;
}
