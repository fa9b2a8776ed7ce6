// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* config.c - checks the options that describe a store, and opens it as they say. */
#include "config.h"

#include <stdio.h>
#include <string.h>

const char *codec_words(void)
{
	static char words[128];
	size_t len = 0;

	for (unsigned int i = 0; ebb_codec_name(i) && len < sizeof(words); i++)
		len += (size_t)snprintf(words + len, sizeof(words) - len, "%s%s",
					!i ? "" : ebb_codec_name(i + 1) ? ", " : " or ",
					ebb_codec_name(i));
	return words;
}

void store_opts_check(const struct store_opts *opts)
{
	int32_t min, max, def;

	if (ebb_codec_levels(opts->codec, &min, &max, &def))
		usage_fail("--codec %s: no such codec; expected %s", opts->codec, codec_words());
	if (opts->level == EBB_LEVEL_DEFAULT)
		return;
	if (!min && !max)
		usage_fail("--level %d: %s has no levels; expected no --level", opts->level,
			   opts->codec);
	if (opts->level < min || opts->level > max)
		usage_fail("--level %d: expected a level of %s, %d to %d", opts->level,
			   opts->codec, min, max);
}

struct ebb_store *store_open(const struct store_opts *opts, uint64_t slots,
			     uint64_t release_limit)
{
	struct ebb_store *store;
	struct ebb_config cfg;

	ebb_config_init(&cfg);
	cfg.slots = slots;
	cfg.codec = opts->codec;
	cfg.level = opts->level;
	cfg.release_limit = release_limit;
	must(ebb_open(&store, &cfg), "cannot open a store");
	return store;
}

void store_stat(struct ebb_store *store, struct ebb_stat *st)
{
	st->struct_size = sizeof(*st);
	must(ebb_stat(store, st), "cannot read the store's figures");
}
