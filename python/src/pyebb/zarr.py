# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stores of zarr 3 in compressed memory, and a cache in front of another store.

    import zarr, pyebb.zarr
    store = pyebb.zarr.EbbStore(codec="zstd")           # in the place of zarr.storage.MemoryStore
    remote = pyebb.zarr.cached(other_store, "1 GiB")    # in front of a store that is slow

zarr's own codecs compress each chunk, if they are asked to, and what they compressed gets no
smaller here.  So an array for an EbbStore is made with compressors=None, or what only shuffles.
"""
import asyncio
import itertools
import os
import struct
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store as _Base,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.buffer.core import default_buffer_prototype

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


def _part(data: bytes, byte_range: ByteRequest | None) -> bytes:
    offset, size = _bounds(byte_range, len(data))
    return data if size == len(data) else data[offset:offset + size]


def _checked(value: Any) -> Any:
    if not isinstance(value, Buffer):
        raise TypeError(f"`value` must be a Buffer instance. Got an instance of {type(value)} "
                        "instead.")
    return value.as_numpy_array()


# ---- what is sent within a process ----

# What was pickled, by its number: a pickle has the process's name and the number.
_sent: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
_sent_numbers = itertools.count()
_process = os.urandom(16)


def _in_child() -> None:
    global _process
    _process = os.urandom(16)
    _sent.clear()


os.register_at_fork(after_in_child=_in_child)


def _number_of(memory: Any) -> tuple[bytes, int]:
    """The process, and a number that no other memory of it has had."""
    number = memory.__dict__.setdefault("_sent_number", next(_sent_numbers))
    _sent[number] = memory
    return _process, number


def _received(process: bytes, number: int) -> Any:
    memory = _sent.get(number) if process == _process else None
    if memory is None:
        raise RuntimeError("this store is in the memory of the process that sent it, and only that "
                           "one can use it, as long as it has the store: use one on a disk to "
                           "share an array with other processes")
    return memory


class _OneProcess(_Base):
    """A store that is pickled as what finds its memory again, in this process alone.

    A scheduler of threads sends its tasks so, and Dask has a name of the store by its pickle.
    """

    def _memory(self) -> Any:
        """The object that stores which are equal share."""
        raise NotImplementedError

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return type(self).__qualname__, *_number_of(self._memory()), self.read_only


class EbbStore(_OneProcess):
    """A zarr store in compressed memory.

    store: a pyebb.Store with text keys, which several may share; None: one of its own, opened with
    the other arguments.  Its memory is given back with the last reference, or by store.close() of
    that.  A pickle of it is for the same process, while that has the store: a Dask cluster of
    threads takes it, and another process raises a RuntimeError.  MemoryError: there is no room; all
    is as it was before.  ValueError, of any call: a key has more than pyebb.MAX_KEY bytes.
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

    def _memory(self) -> Any:
        return self.store

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _ebb_store, (type(self), *_number_of(self.store), self.read_only)

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


def _ebb_store(cls: type[EbbStore], process: bytes, number: int, read_only: bool) -> EbbStore:
    return cls(_received(process, number), read_only=read_only)


# ---- a cache before another store ----

class _Turn(NamedTuple):
    """What a value is called by in the cache, from its key's first read to its next write."""
    number: int
    since: float        # time.monotonic()
    ready: bool         # False: it is being written


_TURN = struct.Struct("<Qd?")
_NAME = struct.Struct("<Qcqq")


def _name(turn: _Turn, byte_range: ByteRequest | None) -> bytes:
    """The cache's key of a value's bytes."""
    match byte_range:
        case None:
            return _NAME.pack(turn.number, b"w", 0, 0)
        case RangeByteRequest(start, end):
            return _NAME.pack(turn.number, b"r", start, end)
        case OffsetByteRequest(offset):
            return _NAME.pack(turn.number, b"o", offset, 0)
        case SuffixByteRequest(suffix):
            return _NAME.pack(turn.number, b"s", suffix, 0)
    raise ValueError(f"Unexpected byte_range, got {byte_range!r}.")


class _Kept:
    """What is kept of the values of a store, in a Cache.

        key --> its turn                    both are the cache's values, so either may be evicted
        turn, byte range --> bytes

    Who reads takes the turn first, then asks the store, then puts the bytes.  Who writes ends the
    turn when the store has the new value.  So bytes from before a write have a name that nobody
    looks for any more, however late they are put.  While a value is being written its turn is not
    ready: readers pass the cache by.  If two writers are at work at once, neither's value is kept.
    """

    def __init__(self, cache: Cache, max_age: float) -> None:
        self.cache = cache
        self.max_age = max_age
        self.hits = self.misses = 0
        self._numbers = itertools.count()
        self._lock = threading.RLock()      # of a look at a turn and a change that goes by it

    def _key(self, key: str) -> bytes | None:
        """None: the cache takes no key as long as that."""
        name = key.encode("utf-8", "surrogatepass")
        return name if len(name) <= MAX_CACHE_KEY else None

    def _turn(self, name: bytes) -> _Turn | None:
        found = self.cache.get(name)
        turn = None if found is None else _Turn._make(_TURN.unpack(found))
        if turn and time.monotonic() - turn.since >= self.max_age:
            return None
        return turn

    def _new(self, name: bytes, ready: bool) -> _Turn | None:
        """A turn that begins now; None: the cache has no room for it."""
        turn = _Turn(next(self._numbers), time.monotonic(), ready)
        return turn if self.cache.put(name, _TURN.pack(*turn)) else None

    def look(self, key: str, ranges: Sequence[ByteRequest | None]
             ) -> tuple[_Turn | None, list[bytes | None]]:
        """The turn of a key, and what there is of its value.  No turn: nothing is to be kept."""
        found: list[bytes | None] = [None] * len(ranges)
        name = self._key(key)
        if name is None:
            return None, found
        turn = self._turn(name)
        if turn is None:
            with self._lock:
                turn = self._turn(name) or self._new(name, True)
        if turn is None or not turn.ready:
            return None, found
        found = [self.cache.get(_name(turn, r)) for r in ranges]
        if any(data is None and r is not None for data, r in zip(found, ranges)):
            whole = self.cache.get(_name(turn, None))
            if whole is not None:
                found = [_part(whole, r) if data is None else data
                         for data, r in zip(found, ranges)]
        return turn, found

    def keep(self, turn: _Turn, byte_range: ByteRequest | None, value: Buffer) -> None:
        """Puts what the store said."""
        self.cache.put(_name(turn, byte_range), value.as_numpy_array())

    def forget(self, key: str) -> None:
        """Ends the turn of a key whose value has changed."""
        name = self._key(key)
        if name is not None:
            self.cache._delete(name)

    def begin(self, key: str) -> _Turn | None:
        """The turn of a value that is about to be written."""
        name = self._key(key)
        if name is None:
            return None
        with self._lock:
            return self._new(name, False)

    def end(self, key: str, turn: _Turn, value: Buffer) -> None:
        """The store has it."""
        self.keep(turn, None, value)
        name = self._key(key)
        if name is None:
            return
        with self._lock:
            if self._turn(name) == turn:
                self.cache.put(name, _TURN.pack(*turn._replace(ready=True)))
            else:
                self.cache._delete(name)


class CachedStore(_OneProcess):
    """What cached() opens."""

    def __init__(self, store: _Base, kept: _Kept, cache_set_data: bool = True) -> None:
        super().__init__(read_only=store.read_only)
        self.store = store
        self.cache_set_data = cache_set_data
        self._kept = kept

    @property
    def cache(self) -> Cache:
        """The pyebb.Cache that has the copies."""
        return self._kept.cache

    def stats(self) -> dict[str, int]:
        """The cache's figures, as Cache.stats(); hits and misses are of what was read."""
        return self.cache.stats() | {"hits": self._kept.hits, "misses": self._kept.misses}

    def with_read_only(self, read_only: bool = False) -> "CachedStore":
        """The same store and cache, read-only or not."""
        return type(self)(self.store.with_read_only(read_only), self._kept, self.cache_set_data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._kept is other._kept and \
            self.store == other.store

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"cached-{self.store}"

    def __repr__(self) -> str:
        return f"CachedStore({self.store!r}, {self.cache!r})"

    def _repr_html_(self) -> str:
        return self.cache._repr_html_()

    def _memory(self) -> Any:
        return self._kept

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _cached_store, (type(self), self.store, *_number_of(self._kept),
                               self.cache_set_data)

    async def _open(self) -> None:
        await super()._open()
        await self.store._ensure_open()

    def close(self) -> None:
        # docstring inherited
        self.store.close()
        super().close()

    # ---- reads ----

    async def _look(self, key: str, ranges: Sequence[ByteRequest | None]
                    ) -> tuple[_Turn | None, list[bytes | None]]:
        await self._ensure_open()
        turn, found = await asyncio.to_thread(self._kept.look, key, ranges)
        misses = found.count(None)
        self._kept.misses += misses
        self._kept.hits += len(found) - misses
        return turn, found

    async def get(self, key: str, prototype: BufferPrototype | None = None,
                  byte_range: ByteRequest | None = None) -> Buffer | None:
        # docstring inherited
        prototype = prototype or default_buffer_prototype()
        turn, (data,) = await self._look(key, [byte_range])
        if data is not None:
            return prototype.buffer.from_bytes(data)
        value = await self.store.get(key, prototype, byte_range)
        if turn and value is not None:
            await asyncio.to_thread(self._kept.keep, turn, byte_range, value)
        return value

    async def get_ranges(self, key: str, byte_ranges: Sequence[ByteRequest | None], *,
                         prototype: BufferPrototype, **limits: Any
                         ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Several ranges of a value: zarr 3.3 and later reads a shard so.  Each is kept by itself,
        and the store may read those that are missing together."""
        turn, found = await self._look(key, byte_ranges)
        there = [(i, prototype.buffer.from_bytes(data)) for i, data in enumerate(found)
                 if data is not None]
        if there:
            yield there
        missing = [i for i, data in enumerate(found) if data is None]
        if not missing:
            return
        source: Any = self.store
        async for group in source.get_ranges(key, [byte_ranges[i] for i in missing],
                                             prototype=prototype, **limits):
            group = [(missing[i], value) for i, value in group]
            for i, value in group:
                if turn and value is not None:
                    await asyncio.to_thread(self._kept.keep, turn, byte_ranges[i], value)
            yield group

    async def get_partial_values(
            self, prototype: BufferPrototype,
            key_ranges: Iterable[tuple[str, ByteRequest | None]]) -> list[Buffer | None]:
        # docstring inherited
        return await asyncio.gather(*(self.get(key, prototype, r) for key, r in key_ranges))

    # ---- writes ----

    async def set(self, key: str, value: Buffer) -> None:
        # docstring inherited
        self._check_writable()
        _checked(value)
        await self._ensure_open()
        turn = self._kept.begin(key) if self.cache_set_data else None
        try:
            await self.store.set(key, value)
        except BaseException:
            self._kept.forget(key)
            raise
        if turn:
            await asyncio.to_thread(self._kept.end, key, turn, value)
        else:
            self._kept.forget(key)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        # docstring inherited
        self._check_writable()
        await self._ensure_open()
        try:
            await self.store.set_if_not_exists(key, value)
        finally:
            self._kept.forget(key)

    async def delete(self, key: str) -> None:
        # docstring inherited
        self._check_writable()
        await self._ensure_open()
        try:
            await self.store.delete(key)
        finally:
            self._kept.forget(key)

    async def clear(self) -> None:
        # docstring inherited
        self._check_writable()
        await self._ensure_open()
        try:
            await self.store.clear()
        finally:
            self.cache.clear()

    # ---- what the store says ----

    @property
    def supports_writes(self) -> bool:
        # docstring inherited
        return self.store.supports_writes

    @property
    def supports_deletes(self) -> bool:
        # docstring inherited
        return self.store.supports_deletes

    @property
    def supports_listing(self) -> bool:
        # docstring inherited
        return self.store.supports_listing

    @property
    def supports_consolidated_metadata(self) -> bool:
        # docstring inherited
        return self.store.supports_consolidated_metadata

    async def exists(self, key: str) -> bool:
        # docstring inherited
        return await self.store.exists(key)

    async def getsize(self, key: str) -> int:
        # docstring inherited
        return await self.store.getsize(key)

    async def is_empty(self, prefix: str) -> bool:
        # docstring inherited
        return await self.store.is_empty(prefix)

    def list(self) -> AsyncIterator[str]:
        # docstring inherited
        return self.store.list()

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        # docstring inherited
        return self.store.list_prefix(prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        # docstring inherited
        return self.store.list_dir(prefix)


def _cached_store(cls: type[CachedStore], store: _Base, process: bytes, number: int,
                  cache_set_data: bool) -> CachedStore:
    return cls(store, _received(process, number), cache_set_data)


def cached(store: _Base, capacity: int | str, *, max_age_seconds: float | str = "infinity",
           cache_set_data: bool = True, **arguments: Any) -> CachedStore:
    """The store behind a compressed cache of so many bytes of memory.

    It keeps whole values and byte ranges, so chunks of shards, too, and of each what was read last
    or most; all of it counts.  A value with a key of more than 1,019 bytes is not kept.  A value
    that is written or deleted by another program, or past this store, is told by max_age_seconds:
    what was read so long ago is read anew.  cache_set_data: whether what is written is kept, too.
    Other arguments are Cache's: codec, level, spill, spill_capacity.  A pickle of it is for the
    same process, as one of an EbbStore is.
    """
    try:
        max_age = float(max_age_seconds)
    except (TypeError, ValueError):
        max_age = -1.0
    if not max_age > 0:
        raise ValueError(f"max_age_seconds {max_age_seconds!r}: expected seconds above 0, or "
                         "'infinity'")
    return CachedStore(store, _Kept(Cache(capacity, **arguments), max_age), cache_set_data)
