/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * config.h - the options that describe a store, the same for every subcommand that opens one.
 */
#ifndef EBB_CONFIG_H
#define EBB_CONFIG_H

#include "args.h"
#include "ebb.h"

struct store_opts {
	const char *codec;
	int32_t level;
};

#define STORE_OPTS_DEFAULT { .codec = "lz4", .level = EBB_LEVEL_DEFAULT }

/* "lz4, lz4hc or zstd": what the library was built with. */
const char *codec_words(void);

/* Ends the program with one line unless the library knows the codec and the level. */
void store_opts_check(const struct store_opts *opts);

/* Opens a store; a failure ends the program. */
struct ebb_store *store_open(const struct store_opts *opts, uint64_t slots,
			     uint64_t release_limit);

/* Fills *st; a failure ends the program. */
void store_stat(struct ebb_store *store, struct ebb_stat *st);

#endif
