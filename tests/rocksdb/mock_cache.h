// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * mock_cache.h - what stands above the plugin in its tests: objects that know how to be saved and
 * made, for each version of RocksDB, and a primary cache of a few of them.
 */
#ifndef EBB_TESTS_ROCKSDB_MOCK_CACHE_H
#define EBB_TESTS_ROCKSDB_MOCK_CACHE_H

#include <unistd.h>

#include <atomic>
#include <deque>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "../../plugins/rocksdb/ebb_secondary_cache.h"
#include "../../plugins/rocksdb/versions.h"

namespace ebb_test {

using ebb::EbbCacheOf;
using ebb::EbbSecondaryCacheOptions;
using ebb::NewEbbSecondaryCache;
using rocksdb::Cache;
using rocksdb::Slice;
using rocksdb::Status;
using Blocks = std::shared_ptr<rocksdb::SecondaryCache>;
using Found = std::unique_ptr<rocksdb::SecondaryCacheResultHandle>;

/* ---- bytes ---- */

/* That do not compress. */
inline std::string noise(unsigned seed, std::size_t n)
{
	std::minstd_rand rng(seed + 1);
	std::string s(n, 0);

	for (char &c : s)
		c = static_cast<char>(rng() >> 8);
	return s;
}

/* That compress to a third or so. */
inline std::string text(unsigned seed, std::size_t n)
{
	std::minstd_rand rng(seed + 1);
	std::string s;

	while (s.size() < n)
		s += "{\"key\":" + std::to_string(rng()) + ",\"name\":\"compressed memory\"},";
	s.resize(n);
	return s;
}

inline std::string key_of(unsigned i)
{
	std::string s = std::to_string(i);

	return std::string(16 - s.size(), 'k') + s;
}

/* ---- objects ---- */

struct Object {
	explicit Object(std::string b) : bytes(std::move(b)) { live++; }
	~Object() { live--; }
	Object(const Object &) = delete;

	std::string bytes;
	bool fails = false;             /* to be saved */
	static inline std::atomic<int> live{0};
};

inline std::atomic<bool> create_fails{false};

/* Another one than the saved bytes', as a block's is. */
inline std::size_t charge_of(std::size_t bytes)
{
	return bytes * 2 + 100;
}

inline std::size_t size_cb(void *o)
{
	return static_cast<Object *>(o)->bytes.size();
}

#if EBB_ROCKSDB_OBJECTS
using SavedTo = char *;
#else
using SavedTo = void *;
#endif

inline Status saveto_cb(void *o, std::size_t from, std::size_t n, SavedTo out)
{
	auto *object = static_cast<Object *>(o);

	if (object->fails)
		return Status::NotSupported();
	object->bytes.copy(static_cast<char *>(out), n, from);
	return Status::OK();
}

inline Status create(const char *bytes, std::size_t n, void **out, std::size_t *charge)
{
	if (create_fails)
		return Status::NotSupported();
	*out = new Object(std::string(bytes, n));
	*charge = charge_of(n);
	return Status::OK();
}

#if EBB_ROCKSDB_OBJECTS
inline void del_cb(void *o, rocksdb::MemoryAllocator *)
{
	delete static_cast<Object *>(o);
}

#if EBB_ROCKSDB_TYPES
/* Of the object that was made last. */
inline std::atomic<rocksdb::CompressionType> created_type{rocksdb::kNoCompression};
inline std::atomic<rocksdb::CacheTier> created_source{rocksdb::CacheTier::kVolatileTier};

inline Status create_cb(const Slice &saved, rocksdb::CompressionType type,
			rocksdb::CacheTier source, Cache::CreateContext *,
			rocksdb::MemoryAllocator *, void **out, std::size_t *charge)
{
	created_type = type;
	created_source = source;
	return create(saved.data(), saved.size(), out, charge);
}
#else
inline Status create_cb(const Slice &saved, Cache::CreateContext *, rocksdb::MemoryAllocator *,
			void **out, std::size_t *charge)
{
	return create(saved.data(), saved.size(), out, charge);
}
#endif

inline const Cache::CacheItemHelper *helper()
{
	static const Cache::CacheItemHelper without{rocksdb::CacheEntryRole::kMisc, del_cb};
	static const Cache::CacheItemHelper with{rocksdb::CacheEntryRole::kMisc, del_cb, size_cb,
						 saveto_cb, create_cb, &without};

	return &with;
}
#else
inline void del_cb(const Slice &, void *o)
{
	delete static_cast<Object *>(o);
}

inline const Cache::CacheItemHelper *helper()
{
	static const Cache::CacheItemHelper with{size_cb, saveto_cb, del_cb};

	return &with;
}
#endif

/* ---- calls, for each version ---- */

inline Status blocks_insert(const Blocks &blocks, const Slice &key, Object *o,
			    const Cache::CacheItemHelper *how)
{
#if EBB_ROCKSDB_FORCE
	return blocks->Insert(key, o, how, false);
#else
	return blocks->Insert(key, o, how);
#endif
}

inline Status insert(const Blocks &blocks, const Slice &key, Object *o)
{
	return blocks_insert(blocks, key, o, helper());
}

inline Found look(const Blocks &blocks, const Slice &key, bool advise_erase, bool *kept)
{
#if EBB_ROCKSDB_STATS
	return blocks->Lookup(key, helper(), nullptr, true, advise_erase, nullptr, *kept);
#elif EBB_ROCKSDB_OBJECTS
	return blocks->Lookup(key, helper(), nullptr, true, advise_erase, *kept);
#else
	auto make = [](const void *bytes, std::size_t n, void **out, std::size_t *charge) {
		return create(static_cast<const char *>(bytes), n, out, charge);
	};

	return blocks->Lookup(key, make, true, advise_erase, *kept);
#endif
}

/* The bytes of what was found, which is freed. */
inline std::string take(Found found)
{
	if (!found || !found->Value())
		throw std::runtime_error("nothing was found");
	std::unique_ptr<Object> object(static_cast<Object *>(found->Value()));

	return object->bytes;
}

inline struct ebb_cache_stat stat_of(const Blocks &blocks)
{
	struct ebb_cache_stat stat = {};

	stat.struct_size = sizeof(stat);
	if (ebb_cache_stat(EbbCacheOf(blocks.get()), &stat))
		throw std::runtime_error("there is no ebb_cache below");
	return stat;
}

/* ---- a primary cache ---- */

/*
 * The newest so many objects.  As in RocksDB, what comes from below for the first time is noted
 * and handed out; the second time it moves up.  Calls to below are made without the lock.
 */
class MockCache {
public:
	MockCache(Blocks below, std::size_t most) : below_(std::move(below)), most_(most) {}

	bool Get(const std::string &key, std::string *bytes)
	{
		bool noted, kept = false;
		{
			std::lock_guard<std::mutex> lock(mutex_);
			auto at = objects_.find(key);

			if (at != objects_.end()) {
				*bytes = at->second->bytes;
				return true;
			}
			noted = noted_.erase(key);
		}
		Found found = look(below_, key, noted, &kept);

		if (!found)
			return false;
		auto *object = static_cast<Object *>(found->Value());

		*bytes = object->bytes;
		if (noted) {
			Put(key, object);
			return true;
		}
		delete object;
		std::lock_guard<std::mutex> lock(mutex_);

		noted_.insert(key);
		return true;
	}

	/* It is the cache's from now on. */
	void Put(const std::string &key, Object *object)
	{
		std::string last;
		std::unique_ptr<Object> out(object);
		{
			std::lock_guard<std::mutex> lock(mutex_);

			if (!objects_.emplace(key, nullptr).second)
				return;
			objects_[key].swap(out);
			order_.push_back(key);
			if (order_.size() <= most_)
				return;
			last = order_.front();
			order_.pop_front();
			out.swap(objects_[last]);
			objects_.erase(last);
		}
		insert(below_, last, out.get()).PermitUncheckedError();
	}

	void Clear()
	{
		objects_.clear();
		order_.clear();
	}

private:
	Blocks below_;
	std::size_t most_;
	std::mutex mutex_;
	std::unordered_map<std::string, std::unique_ptr<Object>> objects_;
	std::unordered_set<std::string> noted_;
	std::deque<std::string> order_;
};

/* ---- the process ---- */

/* Bytes of its own memory that are there. */
inline std::size_t resident()
{
	std::ifstream f("/proc/self/status");
	std::string word;

	while (f >> word)
		if (word == "RssAnon:") {
			std::size_t kib;

			f >> kib;
			return kib << 10;
		}
	return 0;
}

inline bool sanitized()
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#else
	return false;
#endif
}

}  // namespace ebb_test

#endif
