// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ebb_secondary_cache.h - a SecondaryCache of RocksDB on ebb_cache, for programs that link it.
 *
 *     std::shared_ptr<rocksdb::SecondaryCache> blocks;
 *     ebb::EbbSecondaryCacheOptions options;
 *     options.capacity = size_t{1} << 30;
 *     rocksdb::Status s = ebb::NewEbbSecondaryCache(options, &blocks);
 *
 *     rocksdb::LRUCacheOptions primary(size_t{256} << 20, -1, false, 0.5);
 *     primary.secondary_cache = blocks;
 *     table_options.block_cache = rocksdb::NewLRUCache(primary);
 *
 * Programs that do not link it have the same by a text, once librocksdb_ebb.so is loaded:
 *
 *     SecondaryCache::CreateFromString(config, "ebb://capacity=1G;codec=zstd", &blocks)
 *     SecondaryCache::CreateFromString(config, "id=ebb;capacity=1G;codec=zstd", &blocks)
 *
 * It is built for one version of RocksDB: that of the headers that it saw.
 */
#ifndef EBB_SECONDARY_CACHE_H
#define EBB_SECONDARY_CACHE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <rocksdb/secondary_cache.h>

#include <ebb_cache.h>

#define EBB_ROCKSDB_API __attribute__((visibility("default")))

namespace ROCKSDB_NAMESPACE {
class ObjectLibrary;
}

namespace ebb {

/* Each is an option of the text, too, by the same name but for one. */
struct EbbSecondaryCacheOptions {
	/*
	 * Bytes of memory, at least EBB_CACHE_CAPACITY_MIN: compressed blocks, their keys, tables,
	 * buffers; all that is resident.
	 */
	std::size_t capacity = 0;
	std::string codec = "lz4";             /* a name of ebb_codec_name() */
	std::int32_t level = EBB_LEVEL_DEFAULT; /* of the codec; "default" in a text */
	/*
	 * admission=second-miss in a text: the first Insert() of a key only notes it, the next one
	 * stores, as RocksDB's own compressed cache does it.  Else admission=always: each stores.
	 */
	bool second_miss = true;
	/*
	 * A block that goes up to the primary cache is erased here, and comes back when it is
	 * evicted there.  False: it stays here, too, and need not be compressed again.
	 */
	bool exclusive = true;
	bool dictionary = true;                /* with zstd: see EBB_CACHE_NO_DICTIONARY */
	std::string spill;                     /* path of a file for what is evicted; "": none */
	std::uint64_t spill_capacity = 0;      /* its bytes, at least EBB_CACHE_SPILL_MIN */
};

/*
 * Makes a cache.  InvalidArgument: an option is not as it must be, which the status says; Busy: the
 * spill is another cache's; IOError: it cannot be opened; MemoryLimit.
 */
EBB_ROCKSDB_API ROCKSDB_NAMESPACE::Status NewEbbSecondaryCache(
	const EbbSecondaryCacheOptions &options,
	std::shared_ptr<ROCKSDB_NAMESPACE::SecondaryCache> *cache);

/*
 * What is below, for ebb_cache_stat() and ebb_cache_flush(); it lives as long as the cache.  NULL:
 * it is another kind of cache.
 */
EBB_ROCKSDB_API struct ebb_cache *EbbCacheOf(ROCKSDB_NAMESPACE::SecondaryCache *cache);

}  // namespace ebb

/* A registrar of RocksDB's kind.  The library calls it for ObjectLibrary::Default() itself. */
extern "C" EBB_ROCKSDB_API int register_EbbSecondaryCache(ROCKSDB_NAMESPACE::ObjectLibrary &library,
							  const std::string &arg);

#endif
