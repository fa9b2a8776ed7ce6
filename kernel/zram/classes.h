/* SPDX-License-Identifier: GPL-2.0-only */
/* classes.h - the table of a pool's size classes, as zsmalloc has shown it for years. */
#ifndef EBB_ZRAM_CLASSES_H
#define EBB_ZRAM_CLASSES_H

#include "mm/pool.h"

struct seq_file;

#define POOL_CLASSES_BYTES (CLASS_RAW_MAX * sizeof(struct pool_class_stat))
#define POOL_CLASSES_TEXT ((size_t)1 << 16)     /* that single_open_size() is told */

/*
 * Writes a row for each class, and their sum.  rows: POOL_CLASSES_BYTES of zeros to work in.  Looks
 * at each zspage.  Process context; the pool is there until it returns.
 */
void pool_classes_show(struct seq_file *m, struct pool *p, struct pool_class_stat *rows);

#endif
