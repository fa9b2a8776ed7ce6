/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* classes.h - the class table as zsmalloc's "classes" file shows it. */
#ifndef EBB_CLASSES_H
#define EBB_CLASSES_H

#include "ebb.h"
#include "table.h"

/* The classes that hold a page, and a row of totals. */
struct table *classes_in_use(struct ebb_store *store);

#endif
