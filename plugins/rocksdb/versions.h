// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * versions.h - what RocksDB's SecondaryCache has from which version on; nothing else here asks for
 * a version.  Tried with 7.8, and with the headers of 8.0 to 11.8.
 */
#ifndef EBB_ROCKSDB_VERSIONS_H
#define EBB_ROCKSDB_VERSIONS_H

#include <rocksdb/version.h>

#define EBB_ROCKSDB_FROM(major, minor) \
	(ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

#if !EBB_ROCKSDB_FROM(7, 8)
#error "RocksDB 7.8 or newer is needed"
#endif

/* The helper of an entry makes the object, too, and Cache::ObjectPtr is its type; InsertSaved(). */
#define EBB_ROCKSDB_OBJECTS EBB_ROCKSDB_FROM(8, 0)
/* Deflate() and Inflate(). */
#define EBB_ROCKSDB_DEFLATE EBB_ROCKSDB_FROM(8, 4)
/* Insert() is told to store at once. */
#define EBB_ROCKSDB_FORCE EBB_ROCKSDB_FROM(8, 6)
/* What is inserted as it was saved may be compressed; CacheTier::kVolatileCompressedTier. */
#define EBB_ROCKSDB_TYPES EBB_ROCKSDB_FROM(8, 7)
/* Lookup() is given the statistics of the database. */
#define EBB_ROCKSDB_STATS EBB_ROCKSDB_FROM(8, 10)

#endif
