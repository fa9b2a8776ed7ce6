// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* config.h - the options of a cache as text: their names, what they may be. */
#ifndef EBB_ROCKSDB_CONFIG_H
#define EBB_ROCKSDB_CONFIG_H

#include <string>
#include <unordered_map>

#include <rocksdb/utilities/options_type.h>

#include "ebb_secondary_cache.h"

namespace ebb {

/* By name, for Configurable::RegisterOptions(). */
const std::unordered_map<std::string, ROCKSDB_NAMESPACE::OptionTypeInfo> &option_types();

/* InvalidArgument: one of these is no option; it names it and lists what there is. */
ROCKSDB_NAMESPACE::Status check_names(const std::unordered_map<std::string, std::string> &options);

/* InvalidArgument: a cache cannot have these. */
ROCKSDB_NAMESPACE::Status check_options(const EbbSecondaryCacheOptions &options);

}  // namespace ebb

#endif
