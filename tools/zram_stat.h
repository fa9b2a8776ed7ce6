/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zram_stat.h - what the files of all zram devices say at one moment, in-tree's and Ebb's alike.
 *
 * A size is in bytes, whatever the file counts in.  A figure whose file or field is not there is
 * not known, and neither is one whose file cannot be made sense of; the file is then named.
 * Nothing that is not known is ever given as 0.
 *
 * A look at a device holds its folder open, so that all figures are of the same device; one that
 * goes away meanwhile is left out.
 */
#ifndef EBB_ZRAM_STAT_H
#define EBB_ZRAM_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * X(name, file, field, unit, key, kind, help): where a figure stands, and how it is called where it
 * is shown; a COUNTER only grows, until the device is reset.  Those of one file stand together.
 * Kernels add fields at a line's end, and what comes after the last one here is not looked at.
 * The five from DAY_BUDGET on are of `ebb tierd`, if it runs, in the order of its file.  DISKSEQ
 * differs between two devices of one name; it is not for showing.
 */
#define ZRAM_FIGURES_ALL(X) \
	X(DISKSIZE, "disksize", 0, ONE, "disksize_bytes", GAUGE, "Size of the device.") \
	X(STORED, "mm_stat", 0, ONE, "stored_bytes", GAUGE, \
	  "Pages that hold something, before compression, written-back ones included.") \
	X(COMPRESSED, "mm_stat", 1, ONE, "compressed_bytes", GAUGE, \
	  "Compressed size of what is in memory.") \
	X(USED, "mm_stat", 2, ONE, "memory_used_bytes", GAUGE, "Memory that the pool takes.") \
	X(LIMIT, "mm_stat", 3, ONE, "memory_limit_bytes", GAUGE, \
	  "Most memory the pool may take; 0 is no limit.") \
	X(USED_MAX, "mm_stat", 4, ONE, "memory_used_max_bytes", GAUGE, \
	  "Most memory the pool took.") \
	X(SAME, "mm_stat", 5, PAGE, "same_bytes", GAUGE, \
	  "Stored pages of one repeated word, which take no memory.") \
	X(COMPACTED, "mm_stat", 6, PAGE, "compacted_bytes", COUNTER, \
	  "Memory that compaction gave back.") \
	X(HUGE, "mm_stat", 7, PAGE, "huge_bytes", GAUGE, \
	  "Those of the objects that did not compress.") \
	X(OBJECTS, NULL, 0, ONE, "objects_bytes", GAUGE, \
	  "Stored pages that are objects in memory: neither same-filled nor written back.") \
	X(READ, "stat", 2, SECTOR, "read_bytes", COUNTER, "Read from the device.") \
	X(WRITTEN, "stat", 6, SECTOR, "written_bytes", COUNTER, "Written to the device.") \
	X(FAILED_READS, "io_stat", 0, ONE, "failed_reads", COUNTER, "Reads that failed.") \
	X(FAILED_WRITES, "io_stat", 1, ONE, "failed_writes", COUNTER, "Writes that failed.") \
	X(FREED, "io_stat", 3, PAGE, "freed_bytes", COUNTER, \
	  "Pages freed by swap or by a discard.") \
	X(BACKED, "bd_stat", 0, BLOCK, "backed_bytes", GAUGE, \
	  "Stored pages that are on the backing device.") \
	X(BACKING_READ, "bd_stat", 1, BLOCK, "backing_read_bytes", COUNTER, \
	  "Read from the backing device.") \
	X(BACKING_WRITTEN, "bd_stat", 2, BLOCK, "backing_written_bytes", COUNTER, \
	  "Written to the backing device.") \
	X(BUDGET, "writeback_limit", 0, BLOCK, "writeback_limit_bytes", GAUGE, \
	  "What may still be written to the backing device, if the limit is enabled.") \
	X(BUDGET_ON, "writeback_limit_enable", 0, ONE, "writeback_limit_enabled", GAUGE, \
	  "1 if writeback_limit holds.") \
	X(HELD, "release_stat", 0, ONE, "held_back_bytes", GAUGE, \
	  "Freed objects that wait for Ebb's worker.") \
	X(HELD_MAX, "release_stat", 1, ONE, "held_back_max_bytes", GAUGE, \
	  "Most bytes that were held back.") \
	X(HELD_LIMIT, "release_limit", 0, ONE, "held_back_limit_bytes", GAUGE, \
	  "Most bytes that may be held back.") \
	X(DAY_BUDGET, NULL, 0, ONE, "writeback_budget_bytes", GAUGE, \
	  "What ebb tierd may have written back in any 24 hours; 0 is no bound.") \
	X(DAY_SPENT, NULL, 0, ONE, "writeback_24h_bytes", GAUGE, \
	  "Written back in the last 24 hours.") \
	X(AGED, NULL, 0, ONE, "writeback_aged_bytes", COUNTER, \
	  "Written back by ebb tierd for its age.") \
	X(AHEAD, NULL, 0, ONE, "writeback_ahead_bytes", COUNTER, \
	  "Written back by it ahead of need.") \
	X(SAVED, NULL, 0, ONE, "recompress_saved_bytes", COUNTER, \
	  "Compressed bytes that its recompression saved.") \
	X(DISKSEQ, "diskseq", 0, ONE, NULL, GAUGE, NULL)

enum zram_figure {
#define ZRAM_NAME(name, ...) ZRAM_##name,
	ZRAM_FIGURES_ALL(ZRAM_NAME)
#undef ZRAM_NAME
	ZRAM_FIGURES
};

struct zram_figure_info {
	const char *file;       /* NULL: it is not of one of the device's */
	unsigned int field;
	enum { ONE = 1, SECTOR = 512, BLOCK = 4096, PAGE = 0 } unit;
	const char *key;        /* with its unit; NULL: it is not shown */
	enum { GAUGE, COUNTER } kind;
	const char *help;       /* one sentence */
};

extern const struct zram_figure_info zram_figure_infos[ZRAM_FIGURES];

struct zram_look {
	char name[16];          /* zramN */
	uint64_t at_ns;         /* now_ns() when it was read */
	uint64_t known;         /* bit of each figure that v has */
	uint64_t v[ZRAM_FIGURES];
	char *algorithm;        /* NULL: not known */
	char *backing_dev;      /* path; NULL: none, or not known */
};

struct zram_looks {
	struct zram_look *dev;  /* by number */
	size_t n;
	char **wrong;           /* "PATH: what is wrong with it", one for each file */
	size_t nwrong;
};

/*
 * Looks at all devices below sysfs, the folder /sys or another; fails when it has no block/.  state
 * is the file of `ebb tierd`.
 */
void zram_look_all(const char *sysfs, const char *state, struct zram_looks *looks);
void zram_looks_free(struct zram_looks *looks);

static inline bool zram_knows(const struct zram_look *dev, enum zram_figure f)
{
	return dev->known >> f & 1;
}

/* Seconds between two looks; false: there is no earlier one (NULL), or it is of another device. */
bool zram_interval(const struct zram_look *before, const struct zram_look *now, double *s);

/* What a counter grew by each second meanwhile; false also when it fell, as by a reset. */
bool zram_rate(const struct zram_look *before, const struct zram_look *now, enum zram_figure f,
	       double *per_s);

/* The device of that name, or NULL. */
struct zram_look *zram_find(const struct zram_looks *looks, const char *name);

/* ---- what a daemon reads, too: nothing here allocates ---- */

/* N of "zramN"; -1: it is another name, which is of no zram device, whoever made it. */
int zram_number(const char *name);

#define ZRAM_TEXT 4096          /* of a file of sysfs: a page */

/*
 * The text of a file below a folder without its last newline.  Returns NULL, or what is wrong with
 * it; "": it is not there.
 */
const char *zram_read(int dir, const char *file, char text[ZRAM_TEXT + 1]);

/* Reads numbers at *text, which is moved past them, up to most; returns how many. */
unsigned int zram_read_numbers(const char **text, uint64_t *v, unsigned int most);

#endif
