// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How many pages does zswap write to its disk when its pool shrinks?
 *
 *   shrink_bench --mb M --zswap DISK [--data uniform|mixed] [--codec NAME] [--times N] [--holes N]
 *                [--tag TEXT]
 *
 * A process pages its memory out, from its beginning to its end. When zswap refuses a page at its
 * limit, its worker writes pages to the disk, the oldest first, until the pool is at 90 %. The
 * worker gives up when it has met 16 pages in a row that have a second chance, as all have at
 * first, and begins again with the next page that is refused. So meanwhile single pages are paged
 * out. Then the process goes on, up to the limit again, `times` times. Of `holes` pages that go out
 * one comes back, any of all that are out: what it leaves is a hole among older ones (0: none).
 *
 * written_pages are those that the worker wrote, refused_pages those that went past the pool. These
 * are counts, so other work on this machine hardly changes them. One line of JSON goes to the
 * console: "bench: {...}".
 */
#include "client.h"

#include <sys/sysinfo.h>

#define PIECE (64 * 1024UL)
#define ACCEPT 90               /* percent of the limit, as zswap comes */

static void out(char *p, unsigned long bytes)
{
	if (madvise(p, bytes, MADV_PAGEOUT))
		die("MADV_PAGEOUT: %s", strerror(errno));
}

/* Pages that go to the disk, those that zswap's worker writes among them. */
static unsigned long long to_disk(void)
{
	return keyed("/proc/vmstat", "\npswpout ");
}

/* At the limit: single pages go out until the pool is small enough. Says how far it got. */
static unsigned long until_small(char *p, unsigned long at, unsigned long size,
				 unsigned long long limit)
{
	while (at < size && zswap_stat("pool_total_size") > limit / 100 * ACCEPT) {
		out(p + at, PAGE);
		at += PAGE;
		sleep_ms(1);
	}
	/* What the worker is at. */
	for (unsigned long long was = 0; was != to_disk(); sleep_ms(100))
		was = to_disk();
	return at;
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
	unsigned long long written, refused, limit, hits, full = 0, stored = 0, sum = 0;
	unsigned long met = 0, at = 0, size, percent;
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
	/* A sixth of it: pages compress to a half and less, and some is for what follows. */
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
	hits = zswap_stat("pool_limit_hit");
	written = zswap_stat("written_back_pages");
	refused = to_disk();
	srandom(7);
	while (at < size && met < times) {
		out(p + at, PIECE);
		at += PIECE;
		if (zswap_stat("pool_limit_hit") != hits) {
			if (!met++) {
				full = zswap_stat("pool_total_size");
				stored = zswap_stat("stored_pages");
			}
			at = until_small(p, at, size, limit);
			at += -at % PIECE;
			hits = zswap_stat("pool_limit_hit");
		}
		for (unsigned long i = 0; holes && i < PIECE / PAGE / holes; i++)
			sum += *(volatile char *)(p + random() % (long)(at / PAGE) * (long)PAGE);
	}
	if (met < times || zswap_stat("pool_total_size") > limit / 100 * ACCEPT)
		die("the limit of %llu bytes was met %lu times with %lu MiB: the pool has %llu, of "
		    "%llu pages; %llu went to the disk", limit, met, mb, zswap_stat("pool_total_size"), zswap_stat("stored_pages"),
		    to_disk() - refused);
	written = zswap_stat("written_back_pages") - written;
	refused = to_disk() - refused - written;
	printf("bench: {\"tag\": \"%s\", \"mode\": \"shrink\", \"np\": 1, \"mb\": %lu, \"data\": \"%s\", "
	       "\"codec\": \"%s\", \"times\": %lu, \"written_pages\": %llu, "
	       "\"refused_pages\": %llu, \"full_pages\": %llu, "
	       "\"stored_pages\": %llu, \"sum\": %llu}\n",
	       tag, mb, data_name, codec, times, written, refused, full / PAGE, stored, sum & 0xff);
	munmap(p, size);
	client_off(zswap);
	return 0;
}
