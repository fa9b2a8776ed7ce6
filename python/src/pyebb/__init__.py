# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compressed memory for Python: mappings, caches and arrays on libebb."""
from ._arrays import ArrayStore, Blosc2, pack, unpack
from ._cache import Cache, CacheInfo, cache
from ._core import MAX_KEY, CorruptError, codecs, unpacked_size, version
from ._spill import SpillingStore
from ._store import Key, Store

__version__ = "0.1.0"

__all__ = ["MAX_KEY", "ArrayStore", "Blosc2", "Cache", "CacheInfo", "CorruptError", "Key",
           "SpillingStore", "Store", "cache", "codecs", "pack", "unpack", "unpacked_size",
           "version"]
