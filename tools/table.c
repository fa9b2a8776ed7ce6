// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * table.c - owns the rows of a table, and prints them as text.  Medians and what JSON needs are
 * here, too.
 */
#include "table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct table {
	const struct column *cols;
	size_t ncols;
	json_t *rows;           /* an array of objects, whose keys are those of the columns */
};

struct table *table_new(const struct column *cols)
{
	struct table *t = xalloc(1, sizeof(*t));

	t->cols = cols;
	while (cols[t->ncols].key)
		t->ncols++;
	t->rows = json_array();
	return t;
}

void table_free(struct table *t)
{
	json_decref(t->rows);
	free(t);
}

/* "KEY_min" and "KEY_max" beside KEY. */
static const char *end_key(const struct column *c, const char *end, char key[64])
{
	snprintf(key, 64, "%s_%s", c->key, end);
	return key;
}

static void set_cell(json_t *row, const struct column *c, json_t *value, json_t *min, json_t *max)
{
	char key[64];

	json_set(row, c->key, value);
	if (c->kind != COL_SPREAD)
		return;
	json_set(row, end_key(c, "min", key), min);
	json_set(row, end_key(c, "max", key), max);
}

void table_row(struct table *t)
{
	json_t *row = json_object();

	for (const struct column *c = t->cols; c->key; c++)
		set_cell(row, c, json_null(), json_null(), json_null());
	if (json_array_append_new(t->rows, row))
		no_memory();
}

static json_t *last_row(const struct table *t)
{
	return json_array_get(t->rows, json_array_size(t->rows) - 1);
}

void table_set(struct table *t, const char *key, json_t *value)
{
	json_set(last_row(t), key, value);
}

void table_number(struct table *t, size_t col, double value)
{
	const struct column *c = &t->cols[col];
	json_t *v;

	if (isnan(value))
		return;
	if (c->kind == COL_BOOL)
		v = json_boolean(value > 0);
	else
		v = c->kind == COL_REAL ? json_real(value) : json_integer((json_int_t)value);
	table_set(t, c->key, v);
}

void table_spread(struct table *t, size_t col, double *v, size_t n)
{
	double middle = median(v, n);

	set_cell(last_row(t), &t->cols[col], json_real(middle), json_real(v[0]),
		 json_real(v[n - 1]));
}

/* What a terminal gets of a cell; to be freed. */
static char *cell_text(const struct column *c, const json_t *row)
{
	const json_t *v = json_object_get(row, c->key);
	double real = json_number_value(v), min, max;
	char key[64], *text;
	size_t end;

	if (json_is_null(v))
		return xprintf("-");
	switch (c->kind) {
	case COL_TEXT:
	case COL_RIGHT:
		text = printable(json_string_value(v));
		end = text_cut(text, strlen(text), (unsigned int)c->digits);
		if (c->digits && text[end])
			strcpy(text + text_cut(text, end, (unsigned int)c->digits - 1), "~");
		return text;
	case COL_INT:
		return xprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v));
	case COL_SPREAD:
		min = json_real_value(json_object_get(row, end_key(c, "min", key)));
		max = json_real_value(json_object_get(row, end_key(c, "max", key)));
		if (min < max)
			return xprintf("%.*f [%.*f-%.*f]", c->digits, real, c->digits, min,
				       c->digits, max);
		break;
	case COL_MIB:
		real /= 1 << 20;
		break;
	case COL_BOOL:
		return xprintf("%s", json_is_true(v) ? "yes" : "no");
	case COL_REAL:
		break;
	}
	return xprintf("%.*f", c->digits, real);
}

static size_t column_width(const struct table *t, const struct column *c)
{
	size_t width = strlen(c->title), i;
	json_t *row;

	json_array_foreach(t->rows, i, row) {
		char *text = cell_text(c, row);

		if (strlen(text) > width)
			width = strlen(text);
		free(text);
	}
	return width;
}

size_t table_width(const struct table *t)
{
	size_t width = 0;

	for (const struct column *c = t->cols; c->key; c++)
		width += column_width(t, c) + (c > t->cols ? strlen("  ") : 0);
	return width;
}

void table_print_part(const struct table *t, size_t first, size_t end, FILE *out)
{
	int *width = xalloc(t->ncols, sizeof(*width));

	for (size_t c = 0; c < t->ncols; c++)
		width[c] = (int)column_width(t, &t->cols[c]);
	for (size_t r = 0; r <= json_array_size(t->rows); r++) {
		for (size_t c = 0; c < end; c = c ? c + 1 : first) {
			const struct column *col = &t->cols[c];
			char *text = !r ? xprintf("%s", col->title) :
				     cell_text(col, json_array_get(t->rows, r - 1));

			fprintf(out, "%s%*s", c ? "  " : "",
				col->kind == COL_TEXT ? -width[c] : width[c], text);
			free(text);
		}
		fputc('\n', out);
	}
	free(width);
}

void table_print(const struct table *t, FILE *out)
{
	table_print_part(t, 1, t->ncols, out);
}

json_t *table_rows(const struct table *t)
{
	return json_incref(t->rows);
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

json_t *json_name(const char *name)
{
	json_t *text = json_string(name);
	char *escaped;

	if (text)
		return text;
	escaped = printable(name);
	text = json_string(escaped);
	free(escaped);
	return text;
}

void json_print(json_t *doc, size_t how, FILE *out)
{
	if (json_dumpf(doc, out, how | JSON_REAL_PRECISION(7)) || fputc('\n', out) == EOF)
		fail("cannot write JSON: the output is closed or full");
	json_decref(doc);
}
