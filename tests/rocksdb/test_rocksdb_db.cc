// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * test_rocksdb_db.cc [DIR] - a database with the plugin beside one without a block cache: the same
 * random operations on both, which must answer alike; prints TAP.  EBB_TEST_SEED chooses others.
 */
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

#include "mock_cache.h"
#include "tap.h"

using namespace ebb_test;
using rocksdb::DB;
using rocksdb::SecondaryCache;

namespace {

std::string folder = "/tmp";

struct Open {
	Open(const std::string &name, const std::shared_ptr<Cache> &cache)
		: path(folder + "/ebb-rocksdb-" + name + "." + std::to_string(getpid()))
	{
		rocksdb::BlockBasedTableOptions table;

		table.block_cache = cache;
		table.no_block_cache = !cache;
		table.block_size = 4096;
		table.checksum = rocksdb::kXXH3;
		table.cache_index_and_filter_blocks = cache != nullptr;
		table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
		options.create_if_missing = true;
		options.write_buffer_size = 256 << 10;
		options.compression = rocksdb::kNoCompression;
		options.paranoid_checks = true;
#if EBB_ROCKSDB_FROM(8, 2)
		/* Each block in memory has checksums of its entries, too. */
		options.block_protection_bytes_per_key = 8;
#endif
		options.statistics = rocksdb::CreateDBStatistics();
		options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
		rocksdb::DestroyDB(path, options).PermitUncheckedError();
		Again();
	}
	~Open()
	{
		db.reset();
		rocksdb::DestroyDB(path, options).PermitUncheckedError();
	}
	void Again()
	{
		DB *opened = nullptr;

		db.reset();
		Status s = DB::Open(options, path, &opened);
		if (!s.ok())
			throw std::runtime_error(s.ToString());
		db.reset(opened);
	}

	std::string path;
	rocksdb::Options options;
	std::unique_ptr<DB> db;
};

std::shared_ptr<Cache> cache_with(const Blocks &blocks, bool hyper)
{
	std::size_t capacity = 256 << 10;

#if EBB_ROCKSDB_FROM(8, 8)
	if (hyper) {
		rocksdb::HyperClockCacheOptions o(capacity, 0);

		o.secondary_cache = blocks;
		return o.MakeSharedCache();
	}
#endif
	rocksdb::LRUCacheOptions o(capacity, 0, false, 0.5);

	o.secondary_cache = blocks;
	return rocksdb::NewLRUCache(o);
}

rocksdb::ReadOptions checked()
{
	rocksdb::ReadOptions o;

	o.verify_checksums = true;
	return o;
}

/* Of both, the entries from a key on. */
void scan(DB *a, DB *b, const std::string &from, bool backwards)
{
	std::unique_ptr<rocksdb::Iterator> x(a->NewIterator(checked()));
	std::unique_ptr<rocksdb::Iterator> y(b->NewIterator(checked()));

	for (auto *i : {x.get(), y.get()})
		backwards ? i->SeekForPrev(from) : i->Seek(from);
	for (unsigned n = 0; n < 100 && y->Valid(); n++) {
		check(x->Valid() && x->key() == y->key() && x->value() == y->value(),
		      "at " + y->key().ToString());
		for (auto *i : {x.get(), y.get()})
			backwards ? i->Prev() : i->Next();
	}
	check(x->Valid() == y->Valid() || y->Valid(), "one has more");
	check(x->status().ok() && y->status().ok(), x->status().ToString());
}

void multi_get(DB *a, DB *b, std::mt19937 &rng, unsigned keys)
{
	std::vector<std::string> names(16);
	std::vector<Slice> slices;
	std::vector<rocksdb::PinnableSlice> x(16), y(16);
	std::vector<Status> sx(16), sy(16);

	for (auto &name : names)
		name = key_of(rng() % keys);
	for (auto &name : names)
		slices.emplace_back(name);
	a->MultiGet(checked(), a->DefaultColumnFamily(), 16, slices.data(), x.data(), sx.data());
	b->MultiGet(checked(), b->DefaultColumnFamily(), 16, slices.data(), y.data(), sy.data());
	for (unsigned i = 0; i < 16; i++)
		check(sx[i] == sy[i] && (!sx[i].ok() || x[i] == y[i]), names[i] + sx[i].ToString());
}

void random_operations(const std::string &uri, bool hyper, unsigned steps)
{
	constexpr unsigned KEYS = 8000;
	const char *seed = std::getenv("EBB_TEST_SEED");
	std::mt19937 rng(seed ? static_cast<unsigned>(std::atoi(seed)) : 1);
	Blocks blocks;
	Status s = SecondaryCache::CreateFromString(rocksdb::ConfigOptions(), uri, &blocks);

	check(s.ok() && EbbCacheOf(blocks.get()), s.ToString());
	Open with("with", cache_with(blocks, hyper)), plain("plain", nullptr);
	DB *a = with.db.get(), *b = plain.db.get();
	std::string x, y;

	for (unsigned i = 0; i < steps; i++) {
		std::string key = key_of(rng() % KEYS);
		unsigned what = rng() % 100;

		if (what < 30 || i < steps / 10) {
			unsigned n = rng() % 4000;
			std::string value = what % 2 ? text(i, n) : noise(i, n);

			check(a->Put({}, key, value).ok() && b->Put({}, key, value).ok(), "put");
		} else if (what < 35) {
			check(a->Delete({}, key).ok() && b->Delete({}, key).ok(), "delete");
		} else if (what < 38) {
			scan(a, b, key, what % 2);
		} else if (what < 42) {
			multi_get(a, b, rng, KEYS);
		} else {
			Status p = a->Get(checked(), key, &x), q = b->Get(checked(), key, &y);

			check(p == q && (!p.ok() || x == y), key + ": " + p.ToString());
		}
		if (i % (steps / 4) == steps / 8) {
			check(a->CompactRange({}, nullptr, nullptr).ok(), "compact");
			blocks->SetCapacity((8 + rng() % 4) << 20).PermitUncheckedError();
		}
	}
	with.Again();
	scan(with.db.get(), b, "", false);
	std::uint64_t hits = with.options.statistics->getTickerCount(rocksdb::SECONDARY_CACHE_HITS);

	check(hits > steps / 20, std::to_string(hits) + " hits in " + std::to_string(steps) + " steps");
#if EBB_ROCKSDB_STATS
	check(with.options.statistics->getTickerCount(rocksdb::COMPRESSED_SECONDARY_CACHE_HITS) ==
	      hits, "the tickers differ");
#endif
}

unsigned steps()
{
	return full_dose() ? 200000 : 20000;
}

void it_answers_as_a_database_without_a_cache()
{
	random_operations("ebb://capacity=8M", false, steps());
}

void so_it_does_with_zstd_and_all_admitted()
{
	random_operations("ebb://capacity=8M;codec=zstd;admission=always", false, steps());
}

void so_it_does_with_a_spill_and_blocks_in_both_caches()
{
	std::string spill = folder + "/ebb-rocksdb-db-spill." + std::to_string(getpid());

	random_operations("ebb://capacity=8M;exclusive=false;spill_capacity=8M;spill=" + spill, false,
			  steps());
	unlink(spill.c_str());
}

#if EBB_ROCKSDB_FROM(8, 8)
void so_it_does_below_a_hyper_clock_cache()
{
	random_operations("ebb://capacity=8M", true, steps());
}
#endif

#if EBB_ROCKSDB_FROM(9, 0)
/* RocksDB divides what memory there is between both caches, and changes the part of each. */
void a_tiered_cache_can_be_filled_and_moved()
{
	rocksdb::LRUCacheOptions primary;
	rocksdb::TieredCacheOptions tiers;
	Blocks below;

	check(rocksdb::SecondaryCache::CreateFromString(rocksdb::ConfigOptions(), "ebb://capacity=8M",
							&below).ok(), "");
	tiers.cache_opts = &primary;
	tiers.cache_type = rocksdb::PrimaryCacheType::kCacheTypeLRU;
	tiers.adm_policy = rocksdb::TieredAdmissionPolicy::kAdmPolicyThreeQueue;
	tiers.total_capacity = 2 << 20;
	tiers.compressed_secondary_ratio = 0.5;
	tiers.nvm_sec_cache = below;
	auto cache = rocksdb::NewTieredCache(tiers);
	check(cache, "there is no tiered cache");
	Open with("tiered", cache);
	std::string got;

	with.options.compression = rocksdb::kLZ4Compression;
	with.options.lowest_used_cache_tier = rocksdb::CacheTier::kNonVolatileBlockTier;
	with.Again();
	for (unsigned i = 0; i < 20000; i++)
		check(with.db->Put({}, key_of(i), text(i, 400)).ok(), "");
	check(with.db->CompactRange({}, nullptr, nullptr).ok(), "");
	for (unsigned round = 0; round < 4; round++)
		for (unsigned i = 0; i < 20000; i += 7)
			check(with.db->Get(checked(), key_of(i), &got).ok() && got == text(i, 400),
			      key_of(i));
	check(stat_of(below).hits > 0 && stat_of(below).puts > 0,
	      std::to_string(stat_of(below).puts) + " puts");
}
#endif

}  // namespace

int main(int argc, char **argv)
{
	if (argc > 1)
		folder = argv[1];
	return run_cases({
		CASE(it_answers_as_a_database_without_a_cache),
		CASE(so_it_does_with_zstd_and_all_admitted),
		CASE(so_it_does_with_a_spill_and_blocks_in_both_caches),
#if EBB_ROCKSDB_FROM(8, 8)
		CASE(so_it_does_below_a_hyper_clock_cache),
#endif
#if EBB_ROCKSDB_FROM(9, 0)
		CASE(a_tiered_cache_can_be_filled_and_moved),
#endif
	});
}
