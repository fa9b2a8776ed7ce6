/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tierd.h - the configuration of `ebb tierd`: lines "key = value" for all devices, then sections
 * "[zramN]" with what is different for one.
 */
#ifndef EBB_TIERD_H
#define EBB_TIERD_H

#include <stdint.h>

#include "tool.h"

#define TIERD_STATE "/run/ebb/tierd"
#define TIERD_SECTIONS 64

struct tierd_mark {
	uint64_t bytes;
	uint64_t percent;       /* of mem_limit, if it is not 0; bytes do not count then */
};

/* By the names of their keys. */
struct tierd_settings {
	uint64_t writeback_age, recompress_age;         /* seconds; 0: none */
	uint64_t recompress_cpu;                        /* percent of one CPU */
	uint64_t writeback_budget;                      /* bytes in 24 hours; 0: no bound */
	struct tierd_mark writeback_high, writeback_low;
};

struct tierd_config {
	struct tierd_settings all;
	unsigned int n;
	struct {
		unsigned int number;
		struct tierd_settings set;
	} sections[TIERD_SECTIONS];
};

/* Reads a file; what is wrong with it ends the program. */
void tierd_config_read(struct tierd_config *config, const char *path);
const struct tierd_settings *tierd_settings_of(const struct tierd_config *config,
					       unsigned int number);

#endif
