// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * table.c - owns the cells of a table, and prints them as text or as JSON.  Medians and what JSON
 * needs are here, too.
 */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "tool.h"

struct cell {
	bool set, ranged;
	char *text, *shown;   /* as it is, and as a terminal may get it */
	uint64_t count;
	double real, min, max;
};

struct table {
	const struct column *cols;
	size_t ncols, nrows;
	struct cell *cells;   /* nrows times ncols */
};

struct table *table_new(const struct column *cols)
{
	struct table *t = xalloc(1, sizeof(*t));

	t->cols = cols;
	while (cols[t->ncols].key)
		t->ncols++;
	return t;
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->nrows * t->ncols; i++) {
		free(t->cells[i].text);
		free(t->cells[i].shown);
	}
	free(t->cells);
	free(t);
}

void table_row(struct table *t)
{
	struct cell *cells = xalloc((t->nrows + 1) * t->ncols, sizeof(*cells));

	if (t->nrows)
		memcpy(cells, t->cells, t->nrows * t->ncols * sizeof(*cells));
	free(t->cells);
	t->cells = cells;
	t->nrows++;
}

static struct cell *find_cell(struct table *t, const char *key)
{
	for (size_t c = 0; c < t->ncols; c++) {
		if (!strcmp(t->cols[c].key, key)) {
			struct cell *cell = &t->cells[(t->nrows - 1) * t->ncols + c];

			cell->set = true;
			return cell;
		}
	}
	fail("internal error: no column %s", key);
}

void table_text(struct table *t, const char *key, const char *value)
{
	struct cell *cell = find_cell(t, key);

	free(cell->text);
	cell->text = xprintf("%s", value);
	free(cell->shown);
	cell->shown = printable(value);
	if (!cell->shown)
		fail("out of memory for a line of text");
}

void table_int(struct table *t, const char *key, uint64_t value)
{
	find_cell(t, key)->count = value;
}

void table_real(struct table *t, const char *key, double value)
{
	find_cell(t, key)->real = value;
}

void table_bool(struct table *t, const char *key, bool value)
{
	find_cell(t, key)->count = value;
}

void table_spread(struct table *t, const char *key, double *v, size_t n)
{
	struct cell *cell = find_cell(t, key);

	cell->real = median(v, n);
	cell->min = v[0];
	cell->max = v[n - 1];
	cell->ranged = n > 1;
}

static void format_cell(const struct column *col, const struct cell *cell, char *buf, size_t len)
{
	if (!cell->set) {
		snprintf(buf, len, "-");
		return;
	}
	switch (col->kind) {
	case COL_TEXT:
	case COL_RIGHT:
		snprintf(buf, len, "%s", cell->shown);
		break;
	case COL_INT:
		snprintf(buf, len, "%llu", (unsigned long long)cell->count);
		break;
	case COL_REAL:
		snprintf(buf, len, "%.*f", col->digits, cell->real);
		break;
	case COL_SPREAD:
		if (cell->ranged)
			snprintf(buf, len, "%.*f [%.*f-%.*f]", col->digits, cell->real,
				 col->digits, cell->min, col->digits, cell->max);
		else
			snprintf(buf, len, "%.*f", col->digits, cell->real);
		break;
	case COL_MIB:
		snprintf(buf, len, "%.*f", col->digits, (double)cell->count / (1 << 20));
		break;
	case COL_BOOL:
		snprintf(buf, len, "%s", cell->count ? "yes" : "no");
		break;
	}
}

void table_print(const struct table *t, FILE *out)
{
	size_t *width = xalloc(t->ncols, sizeof(*width));
	char buf[256];

	for (size_t c = 0; c < t->ncols; c++) {
		if (!t->cols[c].title)
			continue;
		width[c] = strlen(t->cols[c].title);
		for (size_t r = 0; r < t->nrows; r++) {
			size_t len;

			format_cell(&t->cols[c], &t->cells[r * t->ncols + c], buf, sizeof(buf));
			len = strlen(buf);
			if (len > width[c])
				width[c] = len;
		}
	}
	for (size_t r = 0; r <= t->nrows; r++) {
		const char *gap = "";

		for (size_t c = 0; c < t->ncols; c++) {
			const struct column *col = &t->cols[c];

			if (!col->title)
				continue;
			if (r)
				format_cell(col, &t->cells[(r - 1) * t->ncols + c], buf,
					    sizeof(buf));
			else
				snprintf(buf, sizeof(buf), "%s", col->title);
			fprintf(out, "%s%*s", gap,
				col->kind == COL_TEXT ? -(int)width[c] : (int)width[c], buf);
			gap = "  ";
		}
		fputc('\n', out);
	}
	free(width);
}

static json_t *cell_json(const struct column *col, const struct cell *cell)
{
	if (!cell->set)
		return json_null();
	switch (col->kind) {
	case COL_TEXT:
	case COL_RIGHT:
		return json_string(cell->text);
	case COL_INT:
	case COL_MIB:
		return json_integer((json_int_t)cell->count);
	case COL_REAL:
	case COL_SPREAD:
		return json_real(cell->real);
	case COL_BOOL:
		return json_boolean(cell->count);
	}
	return NULL;
}

json_t *table_rows(const struct table *t)
{
	json_t *rows = json_array();

	for (size_t r = 0; r < t->nrows; r++) {
		json_t *row = json_object();

		for (size_t c = 0; c < t->ncols; c++) {
			const struct column *col = &t->cols[c];
			const struct cell *cell = &t->cells[r * t->ncols + c];

			json_set(row, col->key, cell_json(col, cell));
			if (col->kind == COL_SPREAD) {
				char *min = xprintf("%s_min", col->key);
				char *max = xprintf("%s_max", col->key);

				json_set(row, min, cell->set ? json_real(cell->min) : json_null());
				json_set(row, max, cell->set ? json_real(cell->max) : json_null());
				free(min);
				free(max);
			}
		}
		if (json_array_append_new(rows, row))
			fail("out of memory for JSON");
	}
	return rows;
}

static int compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare_reals);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void json_set(json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new(object, key, value))
		fail("out of memory for JSON, or %s is not UTF-8", key);
}

void json_print(json_t *doc, FILE *out)
{
	if (json_dumpf(doc, out, JSON_INDENT(2) | JSON_REAL_PRECISION(7)) ||
	    fputc('\n', out) == EOF)
		fail("cannot write JSON: the output is closed or full");
}
