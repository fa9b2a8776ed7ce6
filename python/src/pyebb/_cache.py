# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cache: values that may be evicted, in so much memory; and cache(), which keeps results."""
import functools
import hashlib
import os
import pickle
import struct
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, Protocol, Self, TypeVar, cast, overload

from . import _core
from ._arrays import _dump
from ._show import parse_size, size_text, table_html
from ._store import Key, check_codec

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_MISSING: Any = object()
SPILL_LEAST = 1 << 20


def _capacity(value: int | str) -> int:
    capacity = parse_size(value, "capacity")
    if 0 < capacity < _core.CACHE_CAPACITY_MIN:
        least = size_text(_core.CACHE_CAPACITY_MIN)
        raise ValueError(f"capacity {value!r}: expected at least {least}, or 0 for nothing")
    return capacity


class Cache(_core.CacheValues):
    """Compressed values under str, bytes or int in at most so many bytes of memory.

        cache = pyebb.Cache("1 GiB")
        cache["k"] = data           # what is asked for least goes, if there is no room
        cache.get("k")              # bytes, or None

    capacity: bytes of memory, as an int or a text: at least 8 MiB, or 0.  Everything counts:
    values, keys, tables, buffers, and what the allocator keeps free.  What is evicted is chosen by
    S3-FIFO.  codec, level: as Store has them.
    spill: path of a file for what is evicted, of at most spill_capacity bytes (1 MiB at least);
    it is read again from there.  Nobody else can read it, and a symbolic link is refused.
    second_miss: the first put of a key only notes it.

    It is used as a cachetools.Cache is, but that it cannot be iterated.  A value fits if it has at
    most 64 MiB, and compressed at most a quarter of the capacity.  One that does not is a
    ValueError, as there, but then its key has no value: one from before is deleted, too.  Other
    errors are Store's.
    """

    def __init__(self, capacity: int | str, *, codec: str = "lz4", level: int | None = None,
                 spill: str | os.PathLike[str] | None = None, spill_capacity: int | str = "1 GiB",
                 second_miss: bool = False) -> None:
        spilled = parse_size(spill_capacity, "spill_capacity")
        if spill is not None and spilled < SPILL_LEAST:
            raise ValueError(f"spill_capacity {spill_capacity!r}: expected at least 1 MiB")
        self._open(codec, check_codec(codec, level), _capacity(capacity), spill,
                   spilled, second_miss)
        self.codec = codec

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __missing__(self, key: Key) -> bytes:
        raise KeyError(key)

    def __getitem__(self, key: Key) -> bytes:
        found = self._get(key)
        return self.__missing__(key) if found is None else found

    def __setitem__(self, key: Key, value: Any) -> None:
        if self._put(key, value, False) is False:
            maxsize = self.maxsize
            raise ValueError(f"value too large: {_core.nbytes_of(value)} bytes in a cache of "
                             f"{maxsize}, which takes values of at most {_core.MAX_CACHE_VALUE} "
                             f"bytes, and of {maxsize // 4} compressed")

    def put(self, key: Key, value: Any) -> bool:
        """Stores the value if it fits, at its first miss, too; returns whether it did.

        If it did not, the key has no value.
        """
        return bool(self._put(key, value, True))

    def __delitem__(self, key: Key) -> None:
        if not self._delete(key):
            raise KeyError(key)

    def __contains__(self, key: Key) -> bool:
        return self._has(key)

    def __len__(self) -> int:
        """How many values are in memory."""
        return self.stats()["values"]

    def __bool__(self) -> bool:
        return True

    def get(self, key: Key, default: Any = None) -> Any:
        """The value as bytes, or the default."""
        found = self._get(key)
        return default if found is None else found

    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """The value as bytes, which is deleted in the same step; or the default.  KeyError.

        It evicts no other, unless more threads are in calls at once than a short while ago: the
        memory that a call works in counts, and room is made for it.  A MemoryError for want of
        memory for the bytes may come after the value was deleted.
        """
        found = self._take(key)
        if found is None and default is _MISSING:
            raise KeyError(key)
        return default if found is None else found

    def setdefault(self, key: Key, default: Any = b"") -> bytes:
        """The value; if there is none, the default, which is put.

        It is two steps: what another thread puts between them is replaced.
        """
        found = self._get(key)
        if found is None:
            self[key] = default
            found = _core.bytes_of(default)
        return found

    @property
    def maxsize(self) -> int:
        """The capacity in bytes.  It may be changed: to a smaller one, values are evicted."""
        return self.stats()["capacity"]

    @maxsize.setter
    def maxsize(self, capacity: int | str) -> None:
        self._set_capacity(_capacity(capacity))

    @property
    def currsize(self) -> int:
        """Bytes of memory that it takes; at most maxsize."""
        return self.stats()["used_bytes"]

    def __repr__(self) -> str:
        try:
            s = self.stats()
        except (ValueError, RuntimeError):
            return f"<Cache, {'closed' if self.closed else 'of another process'}>"
        return (f"<Cache of {s['values']} values in {size_text(s['used_bytes'])} of "
                f"{size_text(s['capacity'])}, {self.codec}>")

    def _repr_html_(self) -> str:
        try:
            s = self.stats()
        except (ValueError, RuntimeError):
            return f"<div>{repr(self)[1:-1]}</div>"
        asked = s["hits"] + s["misses"]
        rows = [("values", f"{s['values']:,}"), ("used", size_text(s["used_bytes"])),
                ("capacity", size_text(s["capacity"])),
                ("hits", f"{s['hits']:,} of {asked:,}" if asked else "-"),
                ("evicted", f"{s['evicted']:,}"), ("in the spill", f"{s['spill_values']:,}")]
        bar = [("values", s["pool_bytes"], "#2a6fb0"), ("free", s["idle_bytes"], "#9cc3e6"),
               ("tables", s["index_bytes"] + s["meta_bytes"], "#e0a030")]
        return table_html("pyebb.Cache", rows, bar, s["capacity"])


class CacheInfo(NamedTuple):
    """What cache_info() of a function returns, as functools has it; sizes are bytes."""
    hits: int
    misses: int
    maxsize: int
    currsize: int


def _default_key(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """A digest of the arguments' pickles: of arrays, of all their bytes."""
    digest = hashlib.blake2b(digest_size=32)
    # f(("x", 1)) is not f(x=1).
    digest.update(struct.pack("<Q", len(args)))
    for word in (*args, *sorted(kwargs.items())):
        head, buffers = _dump(word)
        parts: list[Any] = [head, *buffers]
        digest.update(struct.pack("<Q", len(parts)))
        for part in parts:
            digest.update(struct.pack("<Q", memoryview(part).nbytes))
            digest.update(part)
    return digest.digest()


_FRAME = struct.Struct("<I")
_ALIGNED = 64       # each part begins at a multiple of it, since arrays stay where they are


def _padding(size: int) -> int:
    return -size % _ALIGNED


def _freeze(obj: Any) -> bytes:
    """An object as one run of bytes: how many parts, how long each is, and they."""
    head, buffers = _dump(obj)
    parts: list[Any] = [head, *buffers]
    lengths = [memoryview(p).nbytes for p in parts]
    sizes = struct.pack(f"<{len(parts)}Q", *lengths)
    run: list[Any] = [_FRAME.pack(len(parts)), sizes, bytes(_padding(_FRAME.size + len(sizes)))]
    for part, length in zip(parts, lengths):
        run += [part, bytes(_padding(length))]
    return b"".join(run)


def _thaw(data: bytearray) -> Any:
    (n,) = _FRAME.unpack_from(data)
    sizes = struct.unpack_from(f"<{n}Q", data, _FRAME.size)
    view, at, parts = memoryview(data), _FRAME.size + 8 * n, []
    for size in sizes:
        at += _padding(at)
        parts.append(view[at:at + size])
        at += size
    return pickle.loads(parts[0], buffers=parts[1:])


class Cached(Protocol[P, R_co]):
    """What cache() makes of a function."""
    cache: Cache
    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[..., R_co]: ...

    def cache_info(self) -> CacheInfo:
        """Hits, misses, and bytes of memory."""

    def cache_clear(self) -> None:
        """Forgets all results, and what cache_info() counted."""


def _of_child(capacity: int | str, arguments: dict[str, Any]) -> Cache:
    """A cache in a forked child.  The spill's file is the parent's, so this one has another beside
    it, which loses its name at once and so ends with the child."""
    if arguments.get("spill") is None:
        return Cache(capacity, **arguments)
    path = f"{os.fsdecode(arguments['spill'])}.{os.getpid()}-{threading.get_ident()}"
    opened = Cache(capacity, **{**arguments, "spill": path})
    os.unlink(path)
    return opened


def cache(capacity: int | str = "1 GiB", *, key: Callable[..., Key] | None = None,
          **arguments: Any) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """A decorator that keeps a function's results, arrays among them, compressed.

        @pyebb.cache(capacity="1 GiB", codec="zstd")
        def field(year: int) -> numpy.ndarray: ...

    Each call returns an object of its own, whose arrays can be written as those of an ArrayStore.
    key: makes the str, bytes or int of a call's arguments; None: a digest of their pickles, so
    arguments may be arrays, and equal arguments that pickle otherwise (1 and 1.0) are different.
    Other arguments are Cache's.  A result that pickle does not take or give back, or that does not
    fit into a Cache as one value (more than 64 MiB, say), is returned and not kept: each call
    computes it again.

    The function has cache_info(), cache_clear() and __wrapped__, as functools.lru_cache() has
    them, and cache, which is the Cache.  In a forked child it begins with an empty one, which is
    not `cache`, and whose spill, if it has one, is a file without a name in the same folder.
    """
    if callable(capacity):
        raise TypeError("write @pyebb.cache(), with parentheses")
    if arguments.get("spill") is not None:      # a child may be in another directory
        arguments["spill"] = os.path.abspath(arguments["spill"])

    def decorate(function: Callable[P, R]) -> Cached[P, R]:
        first = Cache(capacity, **arguments)
        opened = {_core.forks(): first}         # this process's; a child drops its ancestors'
        counted: dict[int, tuple[int, int]] = {}        # the same of what cache_clear() forgot

        def current() -> Cache:
            forks = _core.forks()
            found = opened.get(forks)
            if found is None:
                found = opened.setdefault(forks, _of_child(capacity, arguments))
                for ancestor in [n for n in list(opened) if n != forks]:
                    opened.pop(ancestor, None)
            return found

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            name = key(*args, **kwargs) if key else _default_key(args, kwargs)
            store = current()
            found = store._get_writable(name)
            if found is not None:
                try:
                    return _thaw(found)
                except Exception:   # so does what makes an object of a pickle
                    pass
            result = function(*args, **kwargs)
            try:
                frozen = _freeze(result)
            except Exception:       # pickle raises what the object's own methods do
                return result
            store._put(name, frozen, False)
            return result

        def cache_info() -> CacheInfo:
            s = current().stats()
            hits, misses = counted.get(_core.forks(), (0, 0))
            return CacheInfo(s["hits"] - hits, s["misses"] - misses, s["capacity"],
                             s["used_bytes"])

        def cache_clear() -> None:
            store = current()
            store.clear()
            s = store.stats()
            counted[_core.forks()] = s["hits"], s["misses"]

        made = cast(Any, wrapper)
        made.cache_info = cache_info
        made.cache_clear = cache_clear
        made.cache = first
        return cast(Cached[P, R], made)

    return decorate
