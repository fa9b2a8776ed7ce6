/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zram_stat.h - what the files of all zram devices say at one moment, in-tree's and Ebb's alike.
 *
 * A size is in bytes, whatever the file counts in; a time is in microseconds.  A figure whose file
 * or field is not there is not known, and neither is one whose file cannot be made sense of; the
 * file is then named.  Nothing that is not known is ever given as 0.
 *
 * A look at a device holds its folder open, so that all figures are of the same device; one that
 * goes away meanwhile is left out.
 */
#ifndef EBB_ZRAM_STAT_H
#define EBB_ZRAM_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum zram_figure {
	ZRAM_DISKSIZE,
	ZRAM_STORED,            /* pages that hold something, written-back ones too */
	ZRAM_COMPRESSED,
	ZRAM_USED,              /* memory that the pool takes */
	ZRAM_LIMIT,             /* 0: none */
	ZRAM_USED_MAX,
	ZRAM_SAME,
	ZRAM_COMPACTED,
	ZRAM_HUGE,
	ZRAM_OBJECTS,           /* computed: stored, and neither same-filled nor backed */
	ZRAM_READ,
	ZRAM_WRITTEN,
	ZRAM_FAILED_READS,
	ZRAM_FAILED_WRITES,
	ZRAM_FREED,
	ZRAM_BACKED,
	ZRAM_BACKING_READ,
	ZRAM_BACKING_WRITTEN,
	ZRAM_BUDGET,
	ZRAM_BUDGET_ON,
	ZRAM_HELD,
	ZRAM_HELD_MAX,
	ZRAM_HELD_LIMIT,
	/* By `ebb tierd`, if it runs; in the order of its file. */
	ZRAM_DAY_BUDGET,        /* of what is written back in 24 hours; 0: none */
	ZRAM_DAY_SPENT,         /* written back in 24 hours, by whom ever */
	ZRAM_AGED,              /* written back for its age, and ahead of need */
	ZRAM_AHEAD,
	ZRAM_SAVED,             /* by recompression */
	ZRAM_DISKSEQ,           /* differs between two devices of one name; not for showing */
	ZRAM_FIGURES
};

/* How a figure is called where it is shown. */
struct zram_figure_info {
	const char *key;        /* with its unit; NULL: it is not shown */
	bool counter;           /* it only grows, until the device is reset */
	const char *help;       /* one sentence */
};

extern const struct zram_figure_info zram_figure_infos[ZRAM_FIGURES];

struct zram_look {
	unsigned int number;    /* of zramN */
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

/* The device of that number, or NULL. */
const struct zram_look *zram_find(const struct zram_looks *looks, unsigned int number);

#endif
