// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * secondary_cache.cc - owns EbbSecondaryCache: RocksDB's calls on an ebb_cache.
 *
 *     primary cache --evicts--> Insert: saveto_cb, compress, keep
 *                   <--create_cb-- Lookup: decompress; the object is the primary cache's
 *
 * A block's bytes are the value, its key the key.  The value's charge has what the bytes are: the
 * compression that whoever saved them used, and the tier that is to undo it.
 *
 * Lookups are synchronous: a handle is ready when it is made.  Decompressing a block takes less
 * than handing it to another thread.
 *
 * Lock: capacity_mutex_ guards options_.capacity and deflated_.  cache_ and opened_ are set once,
 * before anyone else sees the object; calls go by opened_.
 */
#include "ebb_secondary_cache.h"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include <rocksdb/configurable.h>
#include <rocksdb/convenience.h>
#include <rocksdb/utilities/object_registry.h>

#include "config.h"
#include "versions.h"

namespace ebb {

using ROCKSDB_NAMESPACE::Cache;
using ROCKSDB_NAMESPACE::ConfigOptions;
using ROCKSDB_NAMESPACE::ObjectLibrary;
using ROCKSDB_NAMESPACE::SecondaryCache;
using ROCKSDB_NAMESPACE::SecondaryCacheResultHandle;
using ROCKSDB_NAMESPACE::Slice;
using ROCKSDB_NAMESPACE::Statistics;
using ROCKSDB_NAMESPACE::Status;

#if EBB_ROCKSDB_OBJECTS
using Object = Cache::ObjectPtr;
#else
using Object = void *;
#endif

namespace {

/*
 * What was found: an object that is the caller's once he took its Value(), and its charge in the
 * primary cache.  del deletes what nobody took; before 8.0 a Lookup is not told how.
 */
class Found : public SecondaryCacheResultHandle {
public:
	Found(Object object, std::size_t charge, Cache::DeleterFn del)
		: object_(object), charge_(charge), del_(del) {}
	~Found() override
	{
#if EBB_ROCKSDB_OBJECTS
		if (del_)
			del_(object_, nullptr);
#endif
	}
	Found(const Found &) = delete;
	bool IsReady() override { return true; }
	void Wait() override {}
	Object Value() override
	{
		del_ = nullptr;
		return object_;
	}
	std::size_t Size() override { return charge_; }

private:
	Object object_;
	std::size_t charge_;
	Cache::DeleterFn del_;
};

Status status_of(int err, const std::string &what)
{
	switch (-err) {
	case 0:
		return Status::OK();
	case ENOMEM:
		return Status::MemoryLimit(what, "there is no room");
	case EFBIG:
		return Status::NotSupported(what, "it is larger than a value of this cache may be");
	case EBUSY:
		return Status::Busy(what, "it is the spill of another cache");
	case EEXIST:
		return Status::InvalidArgument(what, "the file is no spill, and was left as it is");
	case ELOOP:
		return Status::InvalidArgument(what, "it is a symbolic link, which is not followed");
	case EPERM:
		return Status::IOError(what, "it cannot be kept from other users there");
	case EINVAL:
		return Status::InvalidArgument(what, "out of range");
	default:
		return Status::IOError(what, std::strerror(-err));
	}
}

}  // namespace

class EbbSecondaryCache : public SecondaryCache {
public:
	EbbSecondaryCache() { RegisterOptions(kClassName(), &options_, &option_types()); }
	explicit EbbSecondaryCache(const EbbSecondaryCacheOptions &options) : EbbSecondaryCache()
	{
		options_ = options;
	}
	~EbbSecondaryCache() override { ebb_cache_close(cache_); }

	static const char *kClassName() { return "EbbSecondaryCache"; }
	static const char *kNickName() { return "ebb"; }
	const char *Name() const override { return kClassName(); }
	const char *NickName() const override { return kNickName(); }

	struct ebb_cache *Below() const { return cache_; }

	/* Opens the cache.  Called again when options were set, of which the capacity may be. */
	Status PrepareOptions(const ConfigOptions &config) override
	{
		Status s = check_options(options_);

		if (s.ok())
			s = cache_ ? Changed() : Open();
		return s.ok() ? SecondaryCache::PrepareOptions(config) : s;
	}

#if EBB_ROCKSDB_FORCE
	Status Insert(const Slice &key, Object object, const Cache::CacheItemHelper *helper,
		      bool force) override
	{
		return Save(key, object, helper, force);
	}
#else
	Status Insert(const Slice &key, Object object,
		      const Cache::CacheItemHelper *helper) override
	{
		return Save(key, object, helper, false);
	}
#endif

#if EBB_ROCKSDB_TYPES
	Status InsertSaved(const Slice &key, const Slice &saved,
			   ROCKSDB_NAMESPACE::CompressionType type,
			   ROCKSDB_NAMESPACE::CacheTier source) override
	{
		return Put(key, saved, Kind(type, source), false);
	}
#elif EBB_ROCKSDB_OBJECTS
	Status InsertSaved(const Slice &key, const Slice &saved) override
	{
		return Put(key, saved, 0, false);
	}
#endif

#if EBB_ROCKSDB_OBJECTS
	std::unique_ptr<SecondaryCacheResultHandle> Lookup(
		const Slice &key, const Cache::CacheItemHelper *helper,
		Cache::CreateContext *context, bool /* wait */, bool advise_erase,
#if EBB_ROCKSDB_STATS
		Statistics *stats,
#endif
		bool &kept) override
	{
		auto create = [&](const struct ebb_cache_pin *pin, Object *object,
				  std::size_t *charge) {
			Slice saved(static_cast<const char *>(pin->data), pin->bytes);
#if EBB_ROCKSDB_TYPES
			using namespace ROCKSDB_NAMESPACE;
			auto type = static_cast<CompressionType>(pin->charge & 0xff);
			auto source = static_cast<CacheTier>(pin->charge >> 8);

			return helper->create_cb(saved, type, source, context, nullptr, object,
						 charge);
#else
			return helper->create_cb(saved, context, nullptr, object, charge);
#endif
		};

		kept = false;
		if (!helper || !helper->create_cb)
			return nullptr;
		auto found = Find(key, advise_erase, kept, create, helper->del_cb);
#if EBB_ROCKSDB_STATS
		if (found && stats)
			stats->recordTick(ROCKSDB_NAMESPACE::COMPRESSED_SECONDARY_CACHE_HITS, 1);
#endif
		return found;
	}
#else
	std::unique_ptr<SecondaryCacheResultHandle> Lookup(
		const Slice &key, const Cache::CreateCallback &create_cb, bool /* wait */,
		bool advise_erase, bool &kept) override
	{
		auto create = [&](const struct ebb_cache_pin *pin, Object *object,
				  std::size_t *charge) {
			return create_cb(pin->data, pin->bytes, object, charge);
		};

		kept = false;
		return create_cb ? Find(key, advise_erase, kept, create, nullptr) : nullptr;
	}
#endif

	/*
	 * True: a block that is found for the first time is then not kept by the primary cache, but
	 * handed to who asked; it goes up, with advise_erase, when it is asked for again.
	 */
	bool SupportForceErase() const override { return true; }

	void Erase(const Slice &key) override
	{
		if (cache_)
			ebb_cache_delete(cache_, key.data(), key.size());
	}

	void WaitAll(std::vector<SecondaryCacheResultHandle *> /* all are ready */) override {}

	Status SetCapacity(std::size_t capacity) override
	{
		std::lock_guard<std::mutex> lock(capacity_mutex_);
		Status s = Resize(capacity, deflated_);

		if (s.ok())
			options_.capacity = capacity;
		return s;
	}

	Status GetCapacity(std::size_t &capacity) override
	{
		std::lock_guard<std::mutex> lock(capacity_mutex_);

		capacity = options_.capacity;
		return Status::OK();
	}

#if EBB_ROCKSDB_DEFLATE
	Status Deflate(std::size_t decrease) override
	{
		std::lock_guard<std::mutex> lock(capacity_mutex_);
		Status s = Resize(options_.capacity, deflated_ + decrease);

		if (s.ok())
			deflated_ += decrease;
		return s;
	}

	Status Inflate(std::size_t increase) override
	{
		std::lock_guard<std::mutex> lock(capacity_mutex_);

		if (increase > deflated_)
			return Status::InvalidArgument("Inflate of more than was deflated");
		Status s = Resize(options_.capacity, deflated_ - increase);

		if (s.ok())
			deflated_ -= increase;
		return s;
	}
#endif

	std::string GetPrintableOptions() const override;

protected:
	Status ConfigureOptions(const ConfigOptions &config,
				const std::unordered_map<std::string, std::string> &options,
				std::unordered_map<std::string, std::string> *unused) override
	{
		Status s;

		if (!config.ignore_unknown_options && !unused)
			s = check_names(options);
		return s.ok() ? SecondaryCache::ConfigureOptions(config, options, unused) : s;
	}

private:
	Status Open();
	Status Changed();
	Status Resize(std::size_t capacity, std::size_t deflated);
	Status Save(const Slice &key, Object object, const Cache::CacheItemHelper *helper,
		    bool force);
	Status Put(const Slice &key, const Slice &saved, std::uint64_t kind, bool force);
	template <typename Create>
	std::unique_ptr<SecondaryCacheResultHandle> Find(const Slice &key, bool advise_erase,
							 bool &kept, const Create &create,
							 Cache::DeleterFn del);

#if EBB_ROCKSDB_TYPES
	/* What saved bytes are; 0: as they came from saveto_cb. */
	static std::uint64_t Kind(ROCKSDB_NAMESPACE::CompressionType type,
				  ROCKSDB_NAMESPACE::CacheTier source)
	{
		return static_cast<std::uint64_t>(type) | static_cast<std::uint64_t>(source) << 8;
	}
#endif

	EbbSecondaryCacheOptions options_;
	EbbSecondaryCacheOptions opened_;       /* options_ as they were then */
	mutable std::mutex capacity_mutex_;
	std::size_t deflated_ = 0;
	struct ebb_cache *cache_ = nullptr;
};

/* ---- opening and changing ---- */

Status EbbSecondaryCache::Open()
{
	struct ebb_cache_config config;
	int err;

	ebb_cache_config_init(&config);
	config.capacity = options_.capacity;
	config.codec = options_.codec.c_str();
	config.level = options_.level;
	config.flags = (options_.second_miss ? EBB_CACHE_SECOND_MISS : 0) |
		       (options_.dictionary ? 0 : EBB_CACHE_NO_DICTIONARY);
	if (!options_.spill.empty()) {
		config.spill = options_.spill.c_str();
		config.spill_capacity = options_.spill_capacity;
	}
	err = ebb_cache_open(&cache_, &config);
	if (!err)
		opened_ = options_;
	if (options_.spill.empty() || err == -ENOMEM)
		return status_of(err, "capacity=" + std::to_string(options_.capacity));
	return status_of(err, "spill=" + options_.spill);
}

Status EbbSecondaryCache::Changed()
{
	std::lock_guard<std::mutex> lock(capacity_mutex_);
	std::size_t capacity = options_.capacity;
	bool same = options_.codec == opened_.codec && options_.level == opened_.level &&
		    options_.second_miss == opened_.second_miss &&
		    options_.exclusive == opened_.exclusive &&
		    options_.dictionary == opened_.dictionary && options_.spill == opened_.spill &&
		    options_.spill_capacity == opened_.spill_capacity;

	if (!same) {
		options_ = opened_;
		options_.capacity = capacity;
		return Status::InvalidArgument("only the capacity of an open cache can be changed");
	}
	return Resize(capacity, deflated_);
}

/* The lock is held.  What is deflated to less than a cache can have has nothing. */
Status EbbSecondaryCache::Resize(std::size_t capacity, std::size_t deflated)
{
	std::size_t bytes = capacity > deflated ? capacity - deflated : 0;

	if (capacity && capacity < EBB_CACHE_CAPACITY_MIN)
		return Status::InvalidArgument("capacity=" + std::to_string(capacity),
					       "a cache has at least " +
					       std::to_string(EBB_CACHE_CAPACITY_MIN) + " bytes, or 0");
	if (bytes < EBB_CACHE_CAPACITY_MIN)
		bytes = 0;
	if (!cache_)
		return Status::OK();
	return status_of(ebb_cache_set_capacity(cache_, bytes), "capacity=" + std::to_string(bytes));
}

std::string EbbSecondaryCache::GetPrintableOptions() const
{
	std::lock_guard<std::mutex> lock(capacity_mutex_);
	struct ebb_cache_stat stat = {};
	std::string text, value;
	ConfigOptions config;

	for (const auto &type : option_types()) {
		value.clear();
		type.second.Serialize(config, type.first, &options_, &value).PermitUncheckedError();
		text += "    " + type.first + " : " + value + "\n";
	}
	stat.struct_size = sizeof(stat);
	if (cache_ && !ebb_cache_stat(cache_, &stat))
		text += "    usage : " + std::to_string(stat.used_bytes) + "\n    blocks : " +
			std::to_string(stat.values) + "\n    hits : " + std::to_string(stat.hits) +
			"\n    misses : " + std::to_string(stat.misses) + "\n";
	return text;
}

/* ---- blocks ---- */

Status EbbSecondaryCache::Save(const Slice &key, Object object,
			       const Cache::CacheItemHelper *helper, bool force)
{
	if (!object || !helper || !helper->size_cb || !helper->saveto_cb)
		return Status::InvalidArgument("Insert: there is no object, or no way to save it");
	std::size_t bytes = helper->size_cb(object);
	std::unique_ptr<char[]> saved(new (std::nothrow) char[bytes ? bytes : 1]);

	if (!saved)
		return Status::MemoryLimit("Insert: there is no memory to save the object to");
	Status s = helper->saveto_cb(object, 0, bytes, saved.get());

	return s.ok() ? Put(key, Slice(saved.get(), bytes), 0, force) : s;
}

Status EbbSecondaryCache::Put(const Slice &key, const Slice &saved, std::uint64_t kind, bool force)
{
	int err;

	if (!cache_)
		return Status::InvalidArgument("Insert: the cache's options were not prepared");
	err = ebb_cache_put(cache_, key.data(), key.size(), saved.data(), saved.size(), kind,
			    force ? EBB_CACHE_ADMIT : 0);
	/* That it was noted is as good as that it was stored. */
	return err == -EAGAIN ? Status::OK() : status_of(err, "Insert");
}

template <typename Create>
std::unique_ptr<SecondaryCacheResultHandle> EbbSecondaryCache::Find(const Slice &key,
								    bool advise_erase, bool &kept,
								    const Create &create,
								    Cache::DeleterFn del)
{
	bool take = advise_erase && opened_.exclusive;
	std::unique_ptr<SecondaryCacheResultHandle> found;
	struct ebb_cache_pin *pin = nullptr;
	Object object = nullptr;
	std::size_t charge = 0;

	if (!cache_ ||
	    ebb_cache_pin(cache_, key.data(), key.size(), take ? EBB_CACHE_TAKE : 0, &pin))
		return nullptr;
	Status s = create(pin, &object, &charge);

	ebb_cache_unpin(cache_, pin);
	if (!s.ok()) {
		if (!take)
			Erase(key);
		return nullptr;
	}
	found.reset(new Found(object, charge, del));
	kept = !take;
	return found;
}

/* ---- making one ---- */

Status NewEbbSecondaryCache(const EbbSecondaryCacheOptions &options,
			    std::shared_ptr<SecondaryCache> *cache)
{
	auto made = std::make_shared<EbbSecondaryCache>(options);
	Status s = made->PrepareOptions(ConfigOptions());

	if (s.ok())
		*cache = std::move(made);
	return s;
}

struct ebb_cache *EbbCacheOf(SecondaryCache *cache)
{
	EbbSecondaryCache *ours = cache ? cache->CheckedCast<EbbSecondaryCache>() : nullptr;

	return ours ? ours->Below() : nullptr;
}

namespace {

const char uri_scheme[] = "ebb://";

/* From "ebb://OPTIONS", or from the name alone: then the options come later. */
SecondaryCache *make(const std::string &uri, std::unique_ptr<SecondaryCache> *guard,
		     std::string *why)
{
	std::size_t scheme = sizeof(uri_scheme) - 1;
	std::unique_ptr<EbbSecondaryCache> made(new EbbSecondaryCache());

	if (!uri.compare(0, scheme, uri_scheme)) {
		Status s = made->ConfigureFromString(ConfigOptions(), uri.substr(scheme));

		if (!s.ok()) {
			*why = s.getState() ? s.getState() : s.ToString();
			return nullptr;
		}
	}
	*guard = std::move(made);
	return guard->get();
}

const int registered = register_EbbSecondaryCache(*ObjectLibrary::Default(), "");

}  // namespace
}  // namespace ebb

int register_EbbSecondaryCache(ROCKSDB_NAMESPACE::ObjectLibrary &library,
			       const std::string & /* arg */)
{
	using ebb::EbbSecondaryCache;

	library.AddFactory<ROCKSDB_NAMESPACE::SecondaryCache>(
		ROCKSDB_NAMESPACE::ObjectLibrary::PatternEntry(EbbSecondaryCache::kNickName())
			.AnotherName(EbbSecondaryCache::kClassName())
			.AddSeparator("://", false),
		ebb::make);
	return 1;
}
