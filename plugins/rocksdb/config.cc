// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* config.cc - reads, writes and checks the options of a cache; see config.h. */
#include "config.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>

using ROCKSDB_NAMESPACE::ConfigOptions;
using ROCKSDB_NAMESPACE::OptionType;
using ROCKSDB_NAMESPACE::OptionTypeFlags;
using ROCKSDB_NAMESPACE::OptionTypeInfo;
using ROCKSDB_NAMESPACE::OptionVerificationType;
using ROCKSDB_NAMESPACE::Status;

namespace ebb {
namespace {

Status refuse(const std::string &name, const std::string &value, const std::string &why)
{
	return Status::InvalidArgument(name + "=" + value + ": " + why);
}

/* 64, 64K, 64M, 64G or 64T; what RocksDB's own reader makes of 64Q is 64. */
template <typename T>
Status parse_size(const ConfigOptions &, const std::string &name, const std::string &value,
		  void *addr)
{
	static const std::string units = "kmgt";
	const char *at = value.c_str();
	char *end = nullptr;
	unsigned int shift = 0;

	errno = 0;
	unsigned long long n = std::strtoull(at, &end, 10);
	bool digits = *at >= '0' && *at <= '9';

	if (digits && *end) {
		size_t unit = units.find(static_cast<char>(*end | 0x20));

		digits = unit != std::string::npos && !end[1];
		shift = digits ? 10 * (static_cast<unsigned int>(unit) + 1) : 0;
	}
	if (!digits)
		return refuse(name, value, "this is no size such as 4096, 64K, 512M or 1G");
	if (errno == ERANGE || n > std::numeric_limits<T>::max() >> shift)
		return refuse(name, value, "the size is too large");
	*static_cast<T *>(addr) = static_cast<T>(n << shift);
	return Status::OK();
}

Status parse_level(const ConfigOptions &, const std::string &name, const std::string &value,
		   void *addr)
{
	char *end = nullptr;

	if (value == "default") {
		*static_cast<std::int32_t *>(addr) = EBB_LEVEL_DEFAULT;
		return Status::OK();
	}
	errno = 0;
	long n = std::strtol(value.c_str(), &end, 10);

	if (value.empty() || *end || errno == ERANGE || n < INT32_MIN || n > INT32_MAX)
		return refuse(name, value, "this is no level; it is a number, or default");
	*static_cast<std::int32_t *>(addr) = static_cast<std::int32_t>(n);
	return Status::OK();
}

Status write_level(const ConfigOptions &, const std::string &, const void *addr, std::string *value)
{
	std::int32_t level = *static_cast<const std::int32_t *>(addr);

	*value = level == EBB_LEVEL_DEFAULT ? "default" : std::to_string(level);
	return Status::OK();
}

/* One of two words. */
Status parse_word(const std::string &name, const std::string &value, const char *no,
		  const char *yes, void *addr)
{
	if (value != no && value != yes)
		return refuse(name, value, std::string("it is ") + no + " or " + yes);
	*static_cast<bool *>(addr) = value == yes;
	return Status::OK();
}

OptionTypeInfo two_words(size_t offset, const char *no, const char *yes)
{
	OptionTypeInfo info(static_cast<int>(offset), OptionType::kBoolean);

	info.SetParseFunc([no, yes](const ConfigOptions &, const std::string &name,
				    const std::string &value, void *addr) {
		return parse_word(name, value, no, yes, addr);
	});
	info.SetSerializeFunc([no, yes](const ConfigOptions &, const std::string &,
					const void *addr, std::string *value) {
		*value = *static_cast<const bool *>(addr) ? yes : no;
		return Status::OK();
	});
	return info;
}

std::string codecs()
{
	std::string names;
	const char *name;

	for (unsigned int i = 0; (name = ebb_codec_name(i)) != nullptr; i++)
		names += std::string(i ? ", " : "") + name;
	return names;
}

Status check_level(const EbbSecondaryCacheOptions &o)
{
	std::int32_t min, max, def;

	if (ebb_codec_levels(o.codec.c_str(), &min, &max, &def))
		return refuse("codec", o.codec, "there is no such codec; there are " + codecs());
	if (o.level == EBB_LEVEL_DEFAULT || (o.level >= min && o.level <= max && (min || max)))
		return Status::OK();
	if (!min && !max)
		return refuse("level", std::to_string(o.level), o.codec + " has no levels");
	return refuse("level", std::to_string(o.level), o.codec + " has levels from " +
		      std::to_string(min) + " to " + std::to_string(max));
}

}  // namespace

const std::unordered_map<std::string, OptionTypeInfo> &option_types()
{
	using Options = EbbSecondaryCacheOptions;
	static const std::unordered_map<std::string, OptionTypeInfo> types = {
		{"capacity", OptionTypeInfo(offsetof(Options, capacity), OptionType::kSizeT,
					    OptionVerificationType::kNormal,
					    OptionTypeFlags::kMutable)
				     .SetParseFunc(parse_size<std::size_t>)},
		{"codec", OptionTypeInfo(offsetof(Options, codec), OptionType::kString)},
		{"level", OptionTypeInfo(offsetof(Options, level), OptionType::kInt32T)
				  .SetParseFunc(parse_level)
				  .SetSerializeFunc(write_level)},
		{"admission", two_words(offsetof(Options, second_miss), "always", "second-miss")},
		{"exclusive", two_words(offsetof(Options, exclusive), "false", "true")},
		{"dictionary", two_words(offsetof(Options, dictionary), "false", "true")},
		{"spill", OptionTypeInfo(offsetof(Options, spill), OptionType::kString)},
		{"spill_capacity",
		 OptionTypeInfo(offsetof(Options, spill_capacity), OptionType::kUInt64T)
			 .SetParseFunc(parse_size<std::uint64_t>)},
	};
	return types;
}

Status check_names(const std::unordered_map<std::string, std::string> &options)
{
	for (const auto &option : options)
		if (!option_types().count(option.first))
			return refuse(option.first, option.second,
				      "there is no such option; there are capacity, codec, level, "
				      "admission, exclusive, dictionary, spill, spill_capacity");
	return Status::OK();
}

Status check_options(const EbbSecondaryCacheOptions &o)
{
	if (!o.capacity)
		return Status::InvalidArgument("capacity is missing: it is bytes of memory, such as "
					       "capacity=1G");
	if (o.capacity < EBB_CACHE_CAPACITY_MIN)
		return refuse("capacity", std::to_string(o.capacity), "a cache has at least " +
			      std::to_string(EBB_CACHE_CAPACITY_MIN) + " bytes");
	if (o.spill.empty() && o.spill_capacity)
		return refuse("spill_capacity", std::to_string(o.spill_capacity),
			      "there is no spill=FILE that it is for");
	if (!o.spill.empty() && o.spill_capacity < EBB_CACHE_SPILL_MIN)
		return refuse("spill_capacity", std::to_string(o.spill_capacity), "a spill has at least " +
			      std::to_string(EBB_CACHE_SPILL_MIN) + " bytes");
	return check_level(o);
}

}  // namespace ebb
