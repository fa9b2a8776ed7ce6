# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Cache: values that may be evicted, in so much memory; and cache(), which keeps results."""
import functools
import inspect
import os
import pickle
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple, ParamSpec, Protocol, Self, TypeVar, cast, overload

from . import _core
from ._arrays import _dump
from ._digest import digest
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
    second_miss: the first put of a key only notes it.  The notes take 1/512 of the capacity from
    the beginning, and 1/32 of the machine's memory at the most.

    It is used as a cachetools.Cache is, but that it cannot be iterated (TypeError), and that `in`
    counts as neither a hit nor a miss.  A value fits if it has at
    most 64 MiB, and compressed at most a quarter of the capacity.  One that does not is a
    ValueError, as there, but then its key has no value: one from before is deleted, too.  Other
    errors are Store's.
    """

    __iter__: ClassVar[None] = None         # or Python would try the keys 0, 1, 2
    __reversed__: ClassVar[None] = None

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


def _key_maker(function: Callable[..., Any], ignore: Iterable[str]) -> Callable[..., bytes]:
    """What makes a key of a call: a digest of its arguments, by their names."""
    name = getattr(function, "__qualname__", repr(function))
    parameters: list[str] = []
    try:
        signature: inspect.Signature | None = inspect.signature(function)
        parameters = list(signature.parameters) if signature else []
    except (TypeError, ValueError):     # some builtins have none
        signature = None
    ignored = list(ignore)
    for word in ignored:
        if word not in parameters:
            raise ValueError(f"ignore {word!r}: {name} has the parameters {', '.join(parameters)}")
    in_class = "." in name.rpartition("<locals>.")[2]
    if in_class and parameters[:1] == ["self"] and "self" not in ignored:
        raise TypeError(f"{name} is a method, and its results are of an object, which may change: "
                        "leave it out with ignore=['self'], or make a key with key=")

    def make(*args: Any, **kwargs: Any) -> bytes:
        named: dict[str, Any] = {"args": args, "kwargs": kwargs}
        try:
            if signature:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                named = bound.arguments
        except TypeError:               # which the function will say better
            pass
        digests = []
        for word, value in named.items():
            if word in ignored:
                continue
            try:
                digests.append(digest(value))
            except Exception as e:      # pickle raises what the object's own methods do
                raise TypeError(f"{name}(): argument {word} makes no key, since it cannot be "
                                "pickled: leave it out with ignore=, or make a key with key= "
                                f"({type(e).__name__}: {e})") from e
        return b"".join(digests) if len(digests) < 16 else digest(digests)

    return make


def _check_function(function: Any) -> None:
    """TypeError: what it returns cannot be kept."""
    if not callable(function):
        raise TypeError(f"@pyebb.cache() is for functions, not {type(function).__name__}")
    for kind, what in ((inspect.iscoroutinefunction, "a coroutine"),
                       (inspect.isgeneratorfunction, "a generator"),
                       (inspect.isasyncgenfunction, "an asynchronous generator")):
        if kind(function):
            raise TypeError(f"{function.__qualname__} makes {what}, which is used up and cannot be "
                            "kept: cache a function that returns what it computes")


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
          ignore: Iterable[str] = (), **arguments: Any) -> Callable[[Callable[P, R]], Cached[P, R]]:
    """A decorator that keeps a function's results, arrays among them, compressed.

        @pyebb.cache(capacity="1 GiB", codec="zstd")
        def field(year: int) -> numpy.ndarray: ...

    Each call returns an object of its own, whose arrays can be written as those of an ArrayStore.
    key: makes the str, bytes or int of a call's arguments; None: a digest of their pickles, so
    arguments may be arrays.  As joblib has it, equal arguments are the same however the call names
    them and whatever the order of a dict or a set is, and arrays whether they are read-only or not;
    but 1 and 1.0 are different, and so are arrays in C's and in Fortran's order.  ignore: names of
    arguments that make no difference to the result, and may be what cannot be pickled.
    Other arguments are Cache's.  With a spill, a result that comes back from the file is unpickled:
    its owner and root alone can write to it, and a checksum with a secret tells damage, but it is
    no signature.  So the spill must not be on a disk whose bytes others can change.

    A result that pickle does not take or give back, or that does not fit into a Cache as one value
    (more than 64 MiB, say), is returned and not kept: each call computes it again.

    The function has cache_info(), cache_clear() and __wrapped__, as functools.lru_cache() has
    them, and cache, which is the Cache.  In a forked child it begins with an empty one, which is
    not `cache`, and whose spill, if it has one, is a file without a name in the same folder.

    TypeError: what is decorated is a coroutine function or a generator function; or a method, if
    neither key nor ignore says what its `self` is to the result; or a call's argument cannot be
    pickled.  ValueError: ignore names no argument.
    """
    if callable(capacity):
        raise TypeError("write @pyebb.cache(), with parentheses")
    if key and ignore:
        raise TypeError("key and ignore: expected one of them, since key leaves out what it likes")
    if arguments.get("spill") is not None:      # a child may be in another directory
        arguments["spill"] = os.path.abspath(arguments["spill"])

    def decorate(function: Callable[P, R]) -> Cached[P, R]:
        _check_function(function)
        key_of = key or _key_maker(function, ignore)
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
            name = key_of(*args, **kwargs)
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
