/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ebb_units.h - a disk in compressed memory: bytes at offsets, compressed in units of 4 to 64 KiB.
 *
 * A larger unit compresses better, and costs more to change in part.  A unit is compressed as a
 * whole and kept as objects of at most a page, so that memory is used as densely as by small
 * objects.  A unit that was never written, or only with zeros, takes 8 bytes at most.
 *
 * Each unit is written in one step: who reads it meanwhile gets it as it was or as it is then,
 * whole, and waits for no writer.  A call that goes over several units is not one step.
 *
 * Threads, signals, cancellation, fork() and dlclose() are as ebb.h says, and so are errors.
 * -ERANGE: past the end.
 */
#ifndef EBB_UNITS_H
#define EBB_UNITS_H

#include "ebb.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ebb_units;

struct ebb_units_config {
	size_t struct_size;      /* sizeof(struct ebb_units_config); ebb_units_config_init() */
	uint64_t bytes;          /* of the disk; a multiple of unit_bytes */
	const char *codec;       /* a name of ebb_codec_name(); NULL: lz4 */
	int32_t level;           /* of the codec; EBB_LEVEL_DEFAULT: the codec's own */
	uint32_t unit_bytes;     /* 4096, 8192, 16384, 32768 or 65536; 0: 32768 */
	uint32_t chain_size;     /* as in ebb_config */
	uint32_t flags;          /* as in ebb_config */
	uint64_t mem_limit;      /* as in ebb_config */
	uint64_t release_limit;  /* as in ebb_config */
};

/* Fills *cfg with the defaults; bytes is 0 and must be set. */
void ebb_units_config_init(struct ebb_units_config *cfg);

/*
 * Makes a disk of zeros.  -EINVAL: a field is out of its range, or there are more than 2^38 units;
 * -ENOENT: no such codec; -ENOMEM.
 */
int ebb_units_open(struct ebb_units **units, const struct ebb_units_config *cfg);

/* Ends it and returns all its memory.  Nobody else may use it any more.  NULL is allowed. */
void ebb_units_close(struct ebb_units *units);

/*
 * Writes bytes from buf, at any offset.  A unit that is covered in part is read, changed and
 * written again; one that is covered whole is not read.  Units before one that fails are written,
 * and that one is as it was.  -ENOMEM: memory or mem_limit is exhausted; -EIO: the codec failed.
 */
int ebb_units_write(struct ebb_units *units, uint64_t offset, const void *buf, size_t bytes);

/*
 * Reads bytes to buf, from any offset.  A unit of which a part is read is decompressed whole, and
 * kept for the next part that is read or written on that CPU.
 * -EIO: what is stored does not decompress.
 */
int ebb_units_read(struct ebb_units *units, uint64_t offset, void *buf, size_t bytes);

/*
 * Makes bytes from offset on zeros.  Units that are covered whole are freed, which needs no memory;
 * the others are written, and may fail as ebb_units_write() does.
 */
int ebb_units_zero(struct ebb_units *units, uint64_t offset, uint64_t bytes);

/*
 * How many bytes from offset on are alike: *bytes, which is 0 only at the end of the disk.  *data
 * says what they are: 1 if they take memory, 0 if they are zeros that do not.  A call looks at 4096
 * units, or stretches where none was ever written, and no further, so what comes after *bytes may
 * be like them: the next call, from there, tells.
 */
int ebb_units_extent(struct ebb_units *units, uint64_t offset, uint64_t *bytes, int *data);

struct ebb_units_stat {
	size_t struct_size;      /* sizeof(struct ebb_units_stat), set by the caller */
	uint64_t units;          /* that take memory */
	uint64_t packed_bytes;   /* of the objects that they are */
	uint64_t meta_bytes;     /* tables and buffers, beside those of the store */
	uint64_t rereads;        /* times a reader began anew: the unit was written meanwhile */
};

/* Fills *stat, but for struct_size, which the caller has set (-EINVAL: it has not). */
int ebb_units_stat(struct ebb_units *units, struct ebb_units_stat *stat);

/*
 * The store that has the objects, for ebb_stat(), ebb_flush(), ebb_compact(), ebb_trim() and the
 * functions that set limits or begin a peak anew.  Its slots are not the caller's.  It ends with
 * the units.  NULL: not opened.
 */
struct ebb_store *ebb_units_store(struct ebb_units *units);

/*
 * Checks all that is stored; no other thread may use it meanwhile.  0, or -EUCLEAN with a sentence
 * in why[len] (cut to fit); -ENOMEM.
 */
int ebb_units_check(struct ebb_units *units, char *why, size_t len);

#ifdef __cplusplus
}
#endif
#endif
