// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How many pages does zswap write to its disk when its pool shrinks?
 *
 *   shrink_bench --mb M --zswap DISK [--data uniform|mixed] [--codec NAME] [--times N] [--holes N]
 *                [--tag TEXT]
 *
 * A process pages its memory out, from its beginning to its end. At its limit zswap writes pages to
 * the disk, the oldest first, until the pool is at 90 %; nobody pages out meanwhile. Then it goes
 * on, up to the limit again, `times` times. Of `holes` pages that go out one comes back, any of all
 * that are out: what it leaves is a hole among older objects (0: none).
 *
 * These are counts, so other work on this machine does not change them, but for a page that is
 * refused at the limit. One line of JSON goes to the console: "bench: {...}".
 */
#include "client.h"

#include <sys/sysinfo.h>

#define PIECE (128 * 1024UL)
#define ACCEPT 90               /* percent of the limit, as zswap comes */

static unsigned long long limit, seen;

static unsigned long long to_disk(void)
{
	return keyed("/proc/vmstat", "\npswpout ");
}

/* Until zswap's worker has done its part; it began if the limit was met. */
static void wait_for_shrink(void)
{
	unsigned long long was;

	for (unsigned int tries = 0; zswap_stat("pool_total_size") > limit / 100 * ACCEPT; tries++) {
		if (tries > 6000)
			die("the pool has %llu bytes after a minute, its limit is %llu",
			    zswap_stat("pool_total_size"), limit);
		sleep_ms(10);
	}
	do {
		was = to_disk();
		sleep_ms(200);
	} while (to_disk() != was);
}

/* Pages out a piece; true if the limit was met. */
static bool out(char *p)
{
	unsigned long long hits;

	if (madvise(p, PIECE, MADV_PAGEOUT))
		die("MADV_PAGEOUT: %s", strerror(errno));
	hits = zswap_stat("pool_limit_hit");
	if (hits == seen)
		return false;
	wait_for_shrink();
	seen = zswap_stat("pool_limit_hit");
	return true;
}

int main(int argc, char **argv)
{
	static unsigned long mb = 256, times = 3, holes = 8;
	static const char *data_name = "mixed", *codec = "lzo", *zswap, *tag = "-";
	static const struct option known[] = {
		{ "mb", &mb, 16, 1 << 14 }, { "times", &times, 1, 100 }, { "holes", &holes, 0, 1 << 16 },
		{ "data", .text = &data_name }, { "codec", .text = &codec }, { "zswap", .text = &zswap },
		{ "tag", .text = &tag }, { }
	};
	unsigned long long written, full = 0, stored = 0, sum = 0;
	unsigned long met = 0, at, size, percent;
	enum data_kind data;
	struct sysinfo si;
	char text[16], *p;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options(argc, argv, 1, known);
	if (!zswap)
		die("--zswap: the disk that it writes to is missing");
	data = data_parse(data_name);
	size = mb * MB;
	client_on(zswap, &(struct zram_setup){ .codec = codec }, (mb + 64) * MB * 2);
	if (sysinfo(&si))
		die("sysinfo: %s", strerror(errno));
	/* A sixth of the memory: pages compress to a half and less, and some is for what follows. */
	percent = size / 6 * 100 / (si.totalram * si.mem_unit);
	snprintf(text, sizeof(text), "%lu", percent ? percent : 1);
	zswap_set("max_pool_percent", text);
	zswap_set("accept_threshold_percent", "90");
	limit = si.totalram * si.mem_unit / PAGE * (percent ? percent : 1) / 100 * PAGE;

	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die("mmap of %lu MiB: %s", mb, strerror(errno));
	for (unsigned long i = 0; i < size / PAGE; i++)
		data_fill(p + i * PAGE, data, i);
	seen = zswap_stat("pool_limit_hit");
	written = to_disk();
	srandom(7);
	for (at = 0; at < size && met < times; at += PIECE) {
		if (out(p + at))
			met++;
		if (!met) {
			full = zswap_stat("pool_total_size");
			stored = zswap_stat("stored_pages");
		}
		for (unsigned long i = 0; holes && at && i < PIECE / PAGE / holes; i++)
			sum += *(volatile unsigned char *)(p + (unsigned long)random() % (at / PAGE) * PAGE);
	}
	if (met < times)
		die("the limit of %llu bytes was met %lu times with %lu MiB", limit, met, mb);
	written = to_disk() - written;
	printf("bench: {\"tag\": \"%s\", \"mode\": \"shrink\", \"np\": 1, \"mb\": %lu, \"data\": \"%s\", "
	       "\"codec\": \"%s\", \"times\": %lu, \"written_pages\": %llu, \"full_pages\": %llu, "
	       "\"stored_pages\": %llu, \"sum\": %llu}\n",
	       tag, mb, data_name, codec, times, written, full / PAGE, stored, sum & 0xff);
	munmap(p, size);
	client_off(zswap);
	return 0;
}
