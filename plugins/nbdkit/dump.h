/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * dump.h - a disk in a file: what dump=FILE writes and load=FILE reads.
 *
 *     head    "ebb-disk" | u32 version | u32 0 | u64 size | sum of these
 *     record  u64 offset | u32 bytes | u32 packed | sum of the packed bytes | sum of these
 *             packed bytes: by zstd, or as they are if packed == bytes
 *     ...
 *     end     u64 ~0 | u32 0 | u32 0 | u64 number of records | sum of these
 *
 * All is little-endian.  A sum is XXH64, seeded with the number of the record, so that none can
 * be missing, doubled or in the place of another.  Records go by growing offset, do not overlap and
 * have RECORD_MOST bytes at most; what is between them is zeros.  After the end there is nothing.
 * A file says nothing of units and codec, so that a disk can go on with others.
 */
#ifndef EBB_PLUGINS_NBDKIT_DUMP_H
#define EBB_PLUGINS_NBDKIT_DUMP_H

#include <stdint.h>

struct ebb_units;
struct dump_writer;

/*
 * Opens a file to load from, and reads all of it to see that it is whole.  Returns a descriptor,
 * and *size is the disk's.  -1: it is not, and nbdkit_error() was told where.
 */
int dump_open(const char *name, uint64_t *size);

/* Writes what is in the file to units, which are zeros and large enough.  -1 as above. */
int dump_load(int fd, const char *name, struct ebb_units *units);

/*
 * Makes ready to write a file: name.tmp, which is to replace it, which only its owner can read, and
 * which no other server may write to meanwhile.  name is absolute.  NULL: it cannot, and
 * nbdkit_error() was told.
 */
struct dump_writer *dump_create(const char *name);

/*
 * Writes a disk of so many bytes, and puts the file into its place in one step.  Nobody else
 * writes to units meanwhile.  -1: it failed, nbdkit_error() was told, and the file is as it was,
 * unless it is in its place and its folder could not be put on the disk.
 */
int dump_write(struct dump_writer *w, struct ebb_units *units, uint64_t size);

/* Removes name.tmp, if it was not put into its place.  NULL is allowed. */
void dump_end(struct dump_writer *w);

#endif
