/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * table.h - rows that are printed as a text table and as JSON from the same cells.
 *
 * A column has a key, which is its name in JSON and carries the unit, and a title for the
 * text table; a column without a title is in JSON only.  A cell that was not set is "-" in
 * text and null in JSON.
 */
#ifndef EBB_TABLE_H
#define EBB_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum column_kind {
	COL_TEXT,
	COL_RIGHT,    /* text as a number stands: at the right margin */
	COL_INT,
	COL_REAL,
	COL_SPREAD,   /* reals: the median in JSON, with key_min and key_max beside it */
	COL_MIB,      /* bytes in JSON, MiB in text */
	COL_BOOL,
};

struct column {
	const char *key, *title;
	enum column_kind kind;
	int digits;   /* after the point in text */
};

struct table;

/* cols ends with a column whose key is NULL and must outlive the table. */
struct table *table_new(const struct column *cols);
void table_free(struct table *t);

/* Starts a row; the setters fill cells of the last one. */
void table_row(struct table *t);
void table_text(struct table *t, const char *key, const char *value);
void table_int(struct table *t, const char *key, uint64_t value);
void table_real(struct table *t, const char *key, double value);
void table_bool(struct table *t, const char *key, bool value);
/* v[n] is sorted; the cell is its median and its range. */
void table_spread(struct table *t, const char *key, double *v, size_t n);

void table_print(const struct table *t, FILE *out);
json_t *table_rows(const struct table *t);

/* Sorts v[n] and returns the middle one, or the mean of the middle two. */
double median(double *v, size_t n);

/* json_object_set_new() that ends the program when memory is short. */
void json_set(json_t *object, const char *key, json_t *value);
/* Prints a document, indented. */
void json_print(json_t *doc, FILE *out);

#endif
