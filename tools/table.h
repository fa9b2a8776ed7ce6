/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * table.h - rows that are JSON objects, and that are printed as a text table, too.
 *
 * A column has a key, which is its name in JSON and carries the unit, and a title for the text
 * table.  A cell that was not set is "-" in text and null in JSON.
 */
#ifndef EBB_TABLE_H
#define EBB_TABLE_H

#include <jansson.h>
#include <stddef.h>
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
	int digits;   /* after the point in text; of a text the most characters, 0: all */
};

struct table;

/* cols ends with a column whose key is NULL and must outlive the table. */
struct table *table_new(const struct column *cols);
void table_free(struct table *t);

/* Starts a row; the setters fill cells of the last one, by key or by the place of the column. */
void table_row(struct table *t);
void table_set(struct table *t, const char *key, json_t *value);
/* As the column's kind has it; NAN: none. */
void table_number(struct table *t, size_t col, double value);
/* The median of v[n], which is sorted, and its range. */
void table_spread(struct table *t, size_t col, double *v, size_t n);

/* Prints the first column and those from first to before end. */
void table_print_part(const struct table *t, size_t first, size_t end, FILE *out);
void table_print(const struct table *t, FILE *out);
/* Characters of a line of all columns. */
size_t table_width(const struct table *t);

/* The array of all rows, for json_set(). */
json_t *table_rows(const struct table *t);

/* Sorts v[n] and returns the middle one, or the mean of the middle two. */
double median(double *v, size_t n);

/* json_object_set_new() that ends the program when memory is short. */
void json_set(json_t *object, const char *key, json_t *value);
/* A name as JSON takes it: printable() if it is not UTF-8. */
json_t *json_name(const char *name);
/* Prints a document, with JSON_INDENT(2) or JSON_COMPACT, and frees it. */
void json_print(json_t *doc, size_t how, FILE *out);

#endif
