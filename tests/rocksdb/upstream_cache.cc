// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * upstream_cache.cc - what RocksDB's own test of its compressed cache calls to make one.
 *
 * tests/rocksdb_upstream.py compiles the test with NewCompressedSecondaryCache defined as this
 * function's name, so each cache that it makes by options is the plugin's.
 */
#include <cstdio>

#include <rocksdb/cache.h>

#include "../../plugins/rocksdb/ebb_secondary_cache.h"

namespace ROCKSDB_NAMESPACE {

std::shared_ptr<SecondaryCache> NewEbbUnderTest(const CompressedSecondaryCacheOptions &theirs);

/*
 * A cache of the least capacity, since theirs are of a few blocks.  Where they ask for no
 * compression, which this cache always does, it has another codec.
 */
std::shared_ptr<SecondaryCache> NewEbbUnderTest(const CompressedSecondaryCacheOptions &theirs)
{
	std::shared_ptr<SecondaryCache> cache;
	ebb::EbbSecondaryCacheOptions options;

	options.capacity = EBB_CACHE_CAPACITY_MIN;
	options.codec = theirs.compression_type == kNoCompression ? "zstd" : "lz4";
	Status s = ebb::NewEbbSecondaryCache(options, &cache);
	if (!s.ok())
		std::fprintf(stderr, "no cache: %s\n", s.ToString().c_str());
	return cache;
}

}  // namespace ROCKSDB_NAMESPACE
