// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What pages cost that are compressed together (comp_unit), with the bytes of a file.
 *
 *   unit_bench --heap NAME --codec NAME --unit BYTES [--second NAME] [--release-limit BYTES]
 *
 * The file is /heaps/NAME.  Its bytes go to the device in writes of 64 KiB; then they are read by
 * 64 KiB, by pages in order and by pages in no order.  Of each unit all but one page are discarded
 * then: apart_ms is how long it takes until waste is an eighth, and left what is taken then.  Last
 * all is written again, and discarded; and once more, and recompressed by the second codec, which
 * takes again_us a page, and leaves `again` once it was compacted.  empty_us is what a read of a
 * page takes that was never written.  --unit 4096 is the device without units, in-tree's, too.  One
 * line of JSON goes to the console: "bench: {...}".
 */
#include "zramdev.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define CHUNK 65536UL

static const char *heap = "", *codec = "lz4", *second, *limit;
static unsigned long unit = 4096;

static void *load(unsigned long *bytes)
{
	char path[96];
	struct stat st;
	void *p;
	int fd;

	snprintf(path, sizeof(path), "/heaps/%s", heap);
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		die("%s: %s", path, strerror(errno));
	*bytes = (unsigned long)st.st_size & ~(CHUNK - 1);
	p = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	for (unsigned long at = 0; at < *bytes; at += CHUNK)
		if (read(fd, (char *)p + at, CHUNK) != (ssize_t)CHUNK)
			die("%s: %s", path, strerror(errno));
	close(fd);
	return p;
}

/* A chunk whose memory is in a row, as a large folio's is, in a kernel with huge pages. */
static void *in_a_row(void)
{
	const uintptr_t huge = 2 << 20;
	char *p = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	p = (char *)(((uintptr_t)p + huge - 1) & ~(huge - 1));
	memset(p, 1, CHUNK);
	return p;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Reads each page once, in the order of at[]; us a page, and the quantile of 999 of 1,000. */
static double read_pages(int fd, char *to, const unsigned long *at, unsigned long n, double *p999)
{
	double *us = malloc(n * sizeof(*us)), start = now_ms(), t, all;

	for (unsigned long i = 0; i < n; i++) {
		t = now_ms();
		if (pread(fd, to, PAGE, (off_t)(at[i] * PAGE)) != PAGE)
			die("page %lu: %s", at[i], strerror(errno));
		us[i] = (now_ms() - t) * 1e3;
	}
	all = (now_ms() - start) * 1e3 / (double)n;
	qsort(us, n, sizeof(*us), by_value);
	*p999 = us[n - 1 - n / 1000];
	free(us);
	return all;
}

static struct mm_stat figures(void)
{
	struct mm_stat s;

	if (zram_mm_stat(0, &s))
		die("mm_stat");
	return s;
}

static void write_all(int fd, const char *mem, unsigned long bytes)
{
	for (unsigned long i = 0; i < bytes; i += CHUNK)
		if (pwrite(fd, mem + i, CHUNK, (off_t)i) != (ssize_t)CHUNK)
			die("a write: %s", strerror(errno));
}

static int wasteful(void)
{
	FILE *f = fopen("/sys/block/zram0/unit_stat", "r");
	unsigned long pages, dead, room;

	if (!f || fscanf(f, "%*u %lu %lu %lu", &pages, &dead, &room) != 3)
		die("unit_stat");
	fclose(f);
	return pages && room / (pages + dead) * dead > figures().used / 8;
}

/* All pages but one of each unit go; ms until waste is down. */
static double take_apart(int fd, unsigned long bytes)
{
	double t = now_ms();

	for (unsigned long i = 0; i < bytes; i += unit) {
		uint64_t range[2] = { i, unit - PAGE };

		if (ioctl(fd, BLKDISCARD, range))
			die("discard: %s", strerror(errno));
	}
	while (wasteful() && now_ms() - t < 60e3)
		sleep_ms(5);
	return now_ms() - t;
}

int main(int argc, char **argv)
{
	const struct option o[] = {
		{ "heap", .text = &heap },
		{ "codec", .text = &codec },
		{ "unit", &unit, PAGE, CHUNK, NULL },
		{ "second", .text = &second },
		{ "release-limit", .text = &limit },
		{ NULL, NULL, 0, 0, NULL },
	};
	double t, apart_ms = 0, empty_us, write_us, whole_us, order_us, random_us, p999, free_ns;
	double again_us = 0;
	unsigned long bytes, n, left = 0, again = 0, *at, seed = 1;
	uint64_t range[2] = { 0 };
	struct zram_setup setup = { 0 };
	struct mm_stat full;
	char *mem, *buf, text[32];
	int fd;

	options(argc, argv, 1, o);
	mem = load(&bytes);
	n = bytes / PAGE;
	snprintf(text, sizeof(text), "%lu", unit);
	setup.codec = codec;
	setup.second = second;
	setup.release_limit = limit;
	setup.comp_unit = unit > PAGE ? text : NULL;
	zram_make(0, &setup, bytes);
	fd = open("/dev/zram0", O_RDWR | O_DIRECT);
	buf = in_a_row();
	at = calloc(n, sizeof(*at));
	if (fd < 0 || !at)
		die("/dev/zram0: %s", strerror(errno));

	for (unsigned long i = 0; i < n; i++)
		at[i] = i;
	empty_us = read_pages(fd, buf, at, n, &p999);
	t = now_ms();
	write_all(fd, mem, bytes);
	write_us = (now_ms() - t) * 1e3 / (double)n;
	full = figures();

	t = now_ms();
	for (unsigned long i = 0; i < bytes; i += CHUNK)
		if (pread(fd, buf, CHUNK, (off_t)i) != (ssize_t)CHUNK ||
		    memcmp(buf, mem + i, CHUNK))
			die("a read: not as written");
	whole_us = (now_ms() - t) * 1e3 / (double)n;
	order_us = read_pages(fd, buf, at, n, &p999);
	for (unsigned long i = n - 1; i; i--) {
		unsigned long k = mix64(seed++) % (i + 1), other = at[i];

		at[i] = at[k];
		at[k] = other;
	}
	random_us = read_pages(fd, buf, at, n, &p999);

	if (unit > PAGE) {
		apart_ms = take_apart(fd, bytes);
		left = figures().used;
	}
	write_all(fd, mem, bytes);
	range[1] = bytes;
	t = now_ms();
	if (ioctl(fd, BLKDISCARD, range))
		die("discard: %s", strerror(errno));
	free_ns = (now_ms() - t) * 1e6 / (double)n;
	if (second) {
		write_all(fd, mem, bytes);
		t = now_ms();
		zram_must_set(0, "recompress", "priority=1");
		again_us = (now_ms() - t) * 1e3 / (double)n;
		zram_must_set(0, "compact", "1");
		again = figures().used;
	}
	close(fd);
	printf("bench: {\"heap\": \"%s\", \"codec\": \"%s\", \"unit\": %lu, \"pages\": %lu, "
	       "\"empty_us\": %.3f, \"used\": %.5f, \"compr\": %.5f, \"write_us\": %.3f, "
	       "\"whole_us\": %.3f, "
	       "\"order_us\": %.3f, \"random_us\": %.3f, \"random_p999_us\": %.1f, "
	       "\"free_ns\": %.1f, \"apart_ms\": %.1f, \"left\": %.5f, \"again_us\": %.3f, "
	       "\"again\": %.5f}\n",
	       heap, codec, unit, n, empty_us, (double)full.used / (double)bytes,
	       (double)full.compr / (double)bytes, write_us, whole_us, order_us, random_us, p999,
	       free_ns, apart_ms, (double)left / (double)bytes, again_us,
	       (double)again / (double)bytes);
	return 0;
}
