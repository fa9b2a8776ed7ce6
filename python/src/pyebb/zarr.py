# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stores of zarr 3 in compressed memory, and a cache in front of another store.

    import zarr, pyebb.zarr
    store = pyebb.zarr.EbbStore(codec="zstd")           # in the place of zarr.storage.MemoryStore
    remote = pyebb.zarr.cached(other_store, "1 GiB")    # in front of a store that is slow

zarr's own codecs compress each chunk, if they are asked to, and what they compressed gets no
smaller here.  So an array for an EbbStore is made with compressors=None, or what only shuffles.
"""
import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store as _Base,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype
from zarr.experimental.cache_store import CacheStore

from ._cache import Cache
from ._core import MAX_CACHE_KEY
from ._store import Store

# Bytes of a value from which on a thread is worth its while: the event loop goes on meanwhile.
THREAD = 256 << 10


def _bounds(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """Offset and bytes of a request on a value of a size, cut to it."""
    match byte_range:
        case None:
            return 0, size
        case RangeByteRequest(start, end):
            return min(start, size), max(min(end, size) - min(start, size), 0)
        case OffsetByteRequest(offset):
            return min(offset, size), size - min(offset, size)
        case SuffixByteRequest(suffix):
            return max(size - suffix, 0), min(suffix, size)
    raise ValueError(f"Unexpected byte_range, got {byte_range!r}.")


def _checked(value: Any) -> Any:
    if not isinstance(value, Buffer):
        raise TypeError(f"`value` must be a Buffer instance. Got an instance of {type(value)} "
                        "instead.")
    return value.as_numpy_array()


class EbbStore(_Base):
    """A zarr store in compressed memory.

    store: a pyebb.Store with text keys, which several may share; None: one of its own, opened with
    the other arguments.  Its memory is given back with the last reference, or by store.close() of
    that.  It cannot be pickled.  MemoryError: there is no room; all is as it was before.
    ValueError, of any call: a key has more than pyebb.MAX_KEY bytes.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(self, store: Store | None = None, *, read_only: bool = False,
                 **arguments: Any) -> None:
        if store is not None and arguments:
            raise TypeError(f"{', '.join(arguments)}: these are for a store of its own")
        super().__init__(read_only=read_only)
        self.store = Store(**arguments) if store is None else store

    def with_read_only(self, read_only: bool = False) -> "EbbStore":
        """The same store, read-only or not."""
        return type(self)(self.store, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.store is other.store and \
            self.read_only == other.read_only

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"ebb://{id(self.store)}"

    def __repr__(self) -> str:
        return f"EbbStore('{self}')"

    def _repr_html_(self) -> str:
        return self.store._repr_html_()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an EbbStore cannot be pickled: its memory is one process's")

    # ---- one value ----

    def get_sync(self, key: str, *, prototype: BufferPrototype | None = None,
                 byte_range: ByteRequest | None = None) -> Buffer | None:
        """The value, or the part of it; None: there is none."""
        self._is_open = True
        try:
            if byte_range is None:
                data = self.store[key]
            else:
                data = self.store._read_part(key, lambda total: _bounds(byte_range, total))
        except KeyError:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Puts a value."""
        self._check_writable()
        self._is_open = True
        self.store[key] = _checked(value)

    def delete_sync(self, key: str) -> None:
        """Deletes a value, if there is one."""
        self._check_writable()
        self._is_open = True
        self.store._delete(key)

    async def get(self, key: str, prototype: BufferPrototype | None = None,
                  byte_range: ByteRequest | None = None) -> Buffer | None:
        # docstring inherited
        if not self._is_open:
            await self._open()
        try:
            large = self.store.size_of(key) >= THREAD
        except KeyError:
            return None
        if large:
            return await asyncio.to_thread(self.get_sync, key, prototype=prototype,
                                           byte_range=byte_range)
        return self.get_sync(key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
            self, prototype: BufferPrototype,
            key_ranges: Iterable[tuple[str, ByteRequest | None]]) -> list[Buffer | None]:
        # docstring inherited
        return await asyncio.gather(*(self.get(key, prototype, r) for key, r in key_ranges))

    async def exists(self, key: str) -> bool:
        # docstring inherited
        return key in self.store

    async def getsize(self, key: str) -> int:
        # docstring inherited
        try:
            return self.store.size_of(key)
        except KeyError:
            raise FileNotFoundError(key) from None

    async def set(self, key: str, value: Buffer) -> None:
        # docstring inherited
        self._check_writable()
        await self._ensure_open()
        data = _checked(value)
        if len(value) >= THREAD:
            await asyncio.to_thread(self.store.__setitem__, key, data)
        else:
            self.store[key] = data

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        # docstring inherited
        self._check_writable()
        await self._ensure_open()
        if key not in self.store:
            self.store._put(key, _checked(value), 1)

    async def delete(self, key: str) -> None:
        # docstring inherited
        self.delete_sync(key)

    async def clear(self) -> None:
        # docstring inherited
        self._check_writable()
        self.store.clear()

    # ---- all of them ----

    def _keys(self) -> Iterable[str]:
        """Those that are text, which all of zarr's are."""
        return [key for key in self.store if isinstance(key, str)]

    async def list(self) -> AsyncIterator[str]:
        # docstring inherited
        for key in self._keys():
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        # docstring inherited
        for key in self._keys():
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        # docstring inherited
        folder = prefix.rstrip("/") + "/" if prefix.rstrip("/") else ""
        for name in {k[len(folder):].split("/")[0] for k in self._keys() if k.startswith(folder)}:
            yield name


def _is_short(key: str) -> bool:
    """Whether a Cache takes the key."""
    return len(key.encode("utf-8", "surrogatepass")) <= MAX_CACHE_KEY


class EbbCacheStore(_Base):
    """A zarr store that may forget values: what zarr's CacheStore keeps its copies in.

    cache: a pyebb.Cache, or bytes of memory for one of its own, with the other arguments.  A value
    that does not fit is forgotten at once, and so is one whose key has more than 1,019 bytes.  It
    cannot list its keys, nor be pickled.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = False

    def __init__(self, cache: Cache | int | str, *, read_only: bool = False,
                 **arguments: Any) -> None:
        super().__init__(read_only=read_only)
        self.cache = cache if isinstance(cache, Cache) else Cache(cache, **arguments)

    def with_read_only(self, read_only: bool = False) -> "EbbCacheStore":
        """The same cache, read-only or not."""
        return type(self)(self.cache, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.cache is other.cache and \
            self.read_only == other.read_only

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EbbCacheStore({self.cache!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an EbbCacheStore cannot be pickled: its memory is one process's")

    def _get(self, key: str, prototype: BufferPrototype | None,
             byte_range: ByteRequest | None) -> Buffer | None:
        data = self.cache.get(key) if _is_short(key) else None
        if data is None:
            return None
        offset, size = _bounds(byte_range, len(data))
        return (prototype or default_buffer_prototype()).buffer.from_bytes(
            data if size == len(data) else data[offset:offset + size])

    async def get(self, key: str, prototype: BufferPrototype | None = None,
                  byte_range: ByteRequest | None = None) -> Buffer | None:
        # docstring inherited
        return await asyncio.to_thread(self._get, key, prototype, byte_range)

    async def get_partial_values(
            self, prototype: BufferPrototype,
            key_ranges: Iterable[tuple[str, ByteRequest | None]]) -> list[Buffer | None]:
        # docstring inherited
        return await asyncio.gather(*(self.get(key, prototype, r) for key, r in key_ranges))

    async def exists(self, key: str) -> bool:
        # docstring inherited
        return _is_short(key) and key in self.cache

    async def set(self, key: str, value: Buffer) -> None:
        # docstring inherited
        self._check_writable()
        data = _checked(value)
        if _is_short(key):
            await asyncio.to_thread(self.cache._put, key, data, False)

    async def delete(self, key: str) -> None:
        # docstring inherited
        self._check_writable()
        if _is_short(key):
            self.cache._delete(key)

    async def clear(self) -> None:
        # docstring inherited
        self._check_writable()
        self.cache.clear()

    def list(self) -> AsyncIterator[str]:
        # docstring inherited
        raise NotImplementedError("a cache cannot list its keys")

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        # docstring inherited
        raise NotImplementedError("a cache cannot list its keys")

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        # docstring inherited
        raise NotImplementedError("a cache cannot list its keys")


def cached(store: _Base, capacity: int | str, **arguments: Any) -> CacheStore:
    """The store behind a compressed cache of so many bytes of memory.

    Other arguments are zarr's CacheStore's: max_age_seconds, cache_set_data.  For a cache with
    arguments of its own, give CacheStore an EbbCacheStore.
    """
    return CacheStore(store, cache_store=EbbCacheStore(capacity), **arguments)
