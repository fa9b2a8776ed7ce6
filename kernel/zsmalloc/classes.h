/* SPDX-License-Identifier: GPL-2.0-only */
/* classes.h - the table of a pool's size classes, as zsmalloc has shown it for years. */
#ifndef EBB_ZSMALLOC_CLASSES_H
#define EBB_ZSMALLOC_CLASSES_H

#include "pool.h"

struct seq_file;

/*
 * Writes a row for each class, and their sum.  Process context; the pool is there until it returns.
 * -ENOMEM.
 */
int pool_classes_show(struct seq_file *m, struct pool *p);

#endif
