// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb classes: the sizes that objects are rounded up to, for a page size and a chain size.
 */
#include <math.h>
#include <stdlib.h>

#include "args.h"
#include "ebb.h"
#include "table.h"

static const struct column size_columns[] = {
	{ "class", "class", COL_INT, 0 },
	{ "size_bytes", "size", COL_INT, 0 },
	{ "pages_per_zspage", "pages_per_zspage", COL_INT, 0 },
	{ "objs_per_zspage", "objs_per_zspage", COL_INT, 0 },
	{ "waste_bytes_per_zspage", "waste", COL_INT, 0 },
	{ "waste_percent", "waste %", COL_REAL, 2 },
	{ NULL, NULL, COL_TEXT, 0 },
};

static int classes(const struct command *cmd, int argc, char **argv)
{
	uint64_t page_size = 4096, chain_size = 8;
	static const char *const rules[] = { "documented", "store", NULL };
	const char *rule = rules[0];
	bool json = false;
	const struct opt opts[] = {
		{ "page-size", OPT_SIZE, &page_size, 4096, 65536, 0, NULL, "SIZE",
		  "4K, 8K, 16K, 32K or 64K" },
		{ "chain-size", OPT_COUNT, &chain_size, 4, 16, 0, NULL, "N",
		  "most pages in a zspage, 4 to 16" },
		{ "rule", OPT_WORD, &rule, 0, 0, 0, rules, "RULE",
		  "documented: zsmalloc's documentation; store: what stores use, and Linux 7.3" },
		{ "json", OPT_FLAG, &json, 0, 0, 0, NULL, NULL, "print JSON instead of a table" },
		{ .name = NULL },
	};
	struct ebb_class *rows = xalloc(EBB_CLASSES_MAX, sizeof(*rows));
	struct table *t = table_new(size_columns);
	unsigned int n, largest;

	args_parse_only(cmd, opts, argc, argv);
	if (page_size & (page_size - 1))
		usage_fail("--page-size %llu: expected a power of two from 4K to 64K",
			   (unsigned long long)page_size);
	rows->struct_size = sizeof(*rows);
	must((rule == rules[0] ? ebb_class_table : ebb_store_class_table)
	     (page_size, (unsigned int)chain_size, rows, &n, &largest),
	     "cannot compute the class table");
	for (unsigned int i = 0; i < n; i++) {
		const struct ebb_class *c = &rows[i];
		uint64_t zspage = page_size * c->pages_per_zspage;
		uint64_t waste = zspage - (uint64_t)c->size * c->objs_per_zspage;

		const double v[] = {
			c->index, c->size, c->pages_per_zspage, c->objs_per_zspage, (double)waste,
			zspage ? (double)waste * 100 / (double)zspage : NAN,
		};

		table_row(t);
		for (size_t k = 0; k < ARRAY_LEN(v); k++)
			table_number(t, k, v[k]);
	}
	if (json) {
		json_print(json_pack("{sI sI ss si si so}",
				     "page_size_bytes", (json_int_t)page_size,
				     "chain_size_pages", (json_int_t)chain_size, "rule", rule,
				     "classes", n, "largest_not_huge_bytes", largest,
				     "rows", table_rows(t)), JSON_INDENT(2), stdout);
	} else {
		table_print(t, stdout);
		printf("%u classes, largest not huge %u\n", n, largest);
	}
	table_free(t);
	free(rows);
	return 0;
}

const struct command classes_command = {
	.name = "classes",
	.operands = "",
	.summary = "the size classes for a page size and a chain size",
	.about =
"Objects are rounded up to a size class; a class places its objects in groups of single pages\n"
"(zspages), and takes the number of pages, up to the chain size, that wastes least, by one\n"
"of two rules.  Classes that come out the same are one.  Objects that are larger than the last\n"
"line says take a page each.",
	.examples =
"  ebb classes                               pages of 4 KiB, zspages of up to 8 pages\n"
"  ebb classes --rule store --chain-size 16  what a store uses unless told otherwise\n"
"  ebb classes --page-size 16K --json",
	.run = classes,
};
