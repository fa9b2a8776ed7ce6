/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* params.h - what stands behind `nbdkit ebb`: each parameter, read and checked. */
#ifndef EBB_PLUGINS_NBDKIT_PARAMS_H
#define EBB_PLUGINS_NBDKIT_PARAMS_H

#include <stdint.h>

struct params {
	uint64_t size;          /* bytes of the disk; 0: not given */
	const char *codec;      /* a name that libebb has */
	int32_t level;          /* of the codec; EBB_LEVEL_DEFAULT: its own */
	uint32_t unit;          /* bytes: 4096 to 65536, a power of two */
	uint64_t mem_limit;     /* bytes; 0: none */
	char *dump, *load;      /* absolute names of files; NULL: not given */
};

#define PARAMS_HELP \
	"size=SIZE        (required, or load)  The size of the disk, such as 10G.\n" \
	"codec=NAME       How it is compressed (default: zstd); see --dump-plugin.\n" \
	"level=N          The codec's level (default: the codec's own).\n" \
	"unit=SIZE        How much is compressed together: 4k, 8k, 16k, 32k (default), 64k.\n" \
	"mem-limit=SIZE   Most memory for what is stored; then writes fail with ENOSPC.\n" \
	"load=FILE        Begin with the disk that dump=FILE wrote.\n" \
	"dump=FILE        Write the disk to FILE when nbdkit ends."

/* What there is before any is read. */
void params_init(struct params *p);

/* Reads one.  -1: it is wrong, and nbdkit_error() was told what there is instead. */
int params_read(struct params *p, const char *key, const char *value);

/* Checks what concerns more than one of them.  -1 as above. */
int params_complete(const struct params *p);

void params_free(struct params *p);

/* The names of libebb's codecs, with commas.  In a buffer of its own. */
const char *params_codecs(void);

#endif
