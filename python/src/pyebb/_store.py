# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Store: a mapping whose values are compressed in memory."""
import itertools
import os
from collections.abc import (ItemsView, Iterable, Iterator, Mapping, MutableMapping, Sized,
                             ValuesView)
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self, TypeVar

from . import _core
from ._show import parse_size, size_text, table_html

Key = str | bytes | int

UNITS = (16384, 32768, 65536)
_MISSING: Any = object()
_TAKEN: Any = object()
V = TypeVar("V")
SOME = 1000         # keys that popitem() has looked up at most


def check_codec(codec: str, level: int | None) -> int:
    """The level for libebb.  ValueError: there is no such codec, or it has no such level."""
    known = _core.codecs()
    if codec not in known:
        raise ValueError(f"codec {codec!r}: there are {', '.join(known)}")
    if level is None:
        return _core.DEFAULT_LEVEL
    least, most, _ = known[codec]
    if isinstance(level, bool) or not isinstance(level, int) or not least <= level <= most:
        raise ValueError(f"level {level!r} of codec {codec}: expected an int of {least} to {most}")
    return level


class _Items(ItemsView[Key, V]):
    """Pairs; a key that goes before its turn is left out."""
    _mapping: Mapping[Key, V]

    def __iter__(self) -> Iterator[tuple[Key, V]]:
        for key in self._mapping:
            value: Any = self._mapping.get(key, _MISSING)
            if value is not _MISSING:
                yield key, value


class _Values(ValuesView[V]):
    """The values of these pairs."""
    _mapping: Mapping[Key, V]

    def __iter__(self) -> Iterator[V]:
        for _, value in _Items(self._mapping):
            yield value

    def __contains__(self, value: object) -> bool:
        return any(v is value or v == value for v in self)


class Shared(MutableMapping[Key, V]):
    """What all stores have, beside which other threads and finalizers may change them."""

    def items(self) -> ItemsView[Key, V]:
        """All keys with their values; a key that is deleted before its turn is left out."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """The values of items()."""
        return _Values(self)

    def _some_keys(self) -> list[Key]:
        """At most SOME keys; []: there is none."""
        return list(itertools.islice(self, SOME))

    def popitem(self) -> tuple[Key, V]:
        """A key and its value, which is deleted, as pop() has it: no two threads get the same key,
        unless it is put anew.  KeyError: there is none.

        What is raised for a value that cannot be read leaves it where it is, and the next call
        tries another key first.
        """
        # Keys that were there a while ago: to look for one in each call would take long.
        ahead: list[Key] = self.__dict__.setdefault("_ahead", [])
        while True:
            try:
                key = ahead.pop()
            except IndexError:
                some = self._some_keys()
                if not some:
                    raise KeyError(f"the {type(self).__name__} is empty") from None
                ahead += some
                continue
            value: Any = self.pop(key, _TAKEN)
            if value is not _TAKEN:
                return key, value


def progress_of(items: Iterable[Any], progress: Any, total: int | None, what: str) -> Iterable[Any]:
    """The items, with a bar if progress is true: tqdm's, or what a callable like tqdm makes."""
    if not progress:
        return items
    if progress is True:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError("progress=True needs tqdm: pip install pyebb[progress]") from None
    bar = tqdm if progress is True else progress
    return bar(items, total=total, desc=what)


class Store(_core.Values, Shared[bytes]):
    """A mapping from str, bytes or int to bytes, which are kept compressed in memory.

        with pyebb.Store(codec="zstd", capacity="1 GiB") as store:
            store["a"] = numpy.arange(1000)     # anything bytes-like: its bytes, in C order
            store["a"]                          # bytes of their own
            store.get_into("a", array)          # the same into a buffer

    A put replaces in one step: who gets meanwhile gets the old or the new value, whole.  Memory of
    deleted values goes back to the system without a call.  Keys of different types are different
    keys, and their order is that of secret hashes, which it tells who sees it.  An iteration meets
    each key that is there all the time once, and others or not; it may go on while the store
    changes, and so may one over items() or values(), and ==.  (dict(store) looks up what keys()
    has, and a KeyError says that one went meanwhile; copy() is for that.)

    codec: a name of pyebb.codecs().  level: the codec's; None: its default.  unit: bytes that are
    compressed together, of a larger value: 16384, 32768 or 65536, which None stands for; with a
    smaller one, read() of a part costs less, and values compress less.  capacity: bytes that the
    compressed values may take, as an int or a text ("1 GiB"); None: as many as there are.  spill: a
    folder; past the capacity the values that were put first go to a file there, as they are
    compressed, and are read from there.  A value that needs more than half of the capacity goes
    there at once, and moves no other.  The file has no name: nobody else can open it, and it ends
    with the store, or with the process, even one that is killed.  With a spill, MemoryError is what
    the folder does not take.

    Errors: KeyError: there is no such key.  TypeError: a key that is put is not str, bytes or int,
    or a value not bytes-like.  ValueError: an argument is out of its range, a key has more than
    MAX_KEY bytes, or the store is closed.  MemoryError: there is no room; all is as it was before.
    OSError (EIO): what is stored does not decompress.  RuntimeError: the store was opened before a
    fork, and this is the child.

    Any thread may use it at any time, and so may a finalizer that interrupts a call; it may be
    closed at any time.  It cannot be pickled.
    """

    def __new__(cls, *args: Any, spill: Any = None, **kwargs: Any) -> Self:
        from ._spill import SpillingStore
        if spill is not None and cls is Store:
            cls = SpillingStore  # type: ignore[assignment]
        elif spill is not None and not issubclass(cls, SpillingStore):
            raise TypeError(f"spill: derive {cls.__name__} from pyebb.SpillingStore")
        return super().__new__(cls)

    def __init__(self, items: Any = (), /, *, codec: str = "lz4", level: int | None = None,
                 unit: int | None = None, capacity: int | str | None = None,
                 spill: str | os.PathLike[str] | None = None) -> None:
        number = check_codec(codec, level)
        if unit is not None and unit not in UNITS:
            raise ValueError(f"unit {unit!r}: expected one of {UNITS}, or None")
        limit = 0 if capacity is None else parse_size(capacity, "capacity")
        if capacity is not None and not limit:
            raise ValueError("capacity 0: expected at least one byte, or None for no limit")
        self._open(codec, number, unit or 0, limit)
        self.codec = codec
        self.level = level if level is not None else _core.codecs()[codec][2]
        self.unit = unit or UNITS[-1]
        if items:
            self.update(items)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it and gives all its memory back, as soon as no thread is in a call any more.

        Any use after that is a ValueError.  It may be closed again.
        """
        super().close()
        self.__dict__.pop("_ahead", None)

    # What MutableMapping makes of the above, where libebb does it in one step.

    def setdefault(self, key: Key, default: Any = b"") -> bytes:
        """The value under the key; if there is none, the default is put, in the same step."""
        while True:
            found = self.get(key)
            if found is not None:
                return found
            if self._put(key, default, 1):
                return _core.bytes_of(default)

    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """The value under the key, which is deleted; or the default.  KeyError.

        Of threads that pop the same value, one gets it.  But it is two steps, unless there is a
        spill: a value that another thread puts between them is deleted, and of two threads that
        pop meanwhile both may get the one before.
        """
        while True:
            found = self.get(key)
            if found is None:
                if default is _MISSING:
                    raise KeyError(key)
                return default
            if self._delete(key):
                return found

    def clear(self) -> None:
        """Deletes all values that are there when it is called."""
        for key in list(self):
            self._delete(key)

    def copy(self) -> dict[Key, bytes]:
        """All keys and values, uncompressed, in a dict."""
        return dict(self.items())

    def fill(self, items: Mapping[Key, Any] | Iterable[tuple[Key, Any]], *, threads: int = 1,
             progress: Any = False) -> int:
        """Puts many values, compressed by so many threads; returns how many.

        progress: True shows tqdm's bar; or a callable that is called as tqdm.tqdm is.  The first
        error ends it; what was put before is there.
        """
        if threads < 1:
            raise ValueError(f"threads {threads!r}: expected at least 1")
        total = len(items) if isinstance(items, Sized) else None
        pairs: Iterable[tuple[Key, Any]] = items.items() if isinstance(items, Mapping) else items
        pairs = progress_of(pairs, progress, total, "compressing")
        n = 0
        if threads == 1:
            for key, value in pairs:
                self[key] = value
                n += 1
            return n
        with ThreadPoolExecutor(threads) as pool:
            for _ in _bounded(pool, self.__setitem__, pairs, 2 * threads):
                n += 1
        return n

    # Figures.

    @property
    def capacity(self) -> int | None:
        """Bytes that compressed values may take; None: no limit.  It may be changed.

        Below what is used, a put that needs memory is a MemoryError.
        """
        return self._stats()["capacity"] or None

    @capacity.setter
    def capacity(self, capacity: int | str | None) -> None:
        limit = 0 if capacity is None else parse_size(capacity, "capacity")
        if capacity is not None and not limit:
            raise ValueError("capacity 0: expected at least one byte, or None for no limit")
        self._set_capacity(limit)

    @property
    def resident(self) -> int:
        """Bytes of memory that it has from the system: values, tables, buffers, and what is free
        but was not given back yet."""
        return self._stats()["resident"]

    @property
    def ratio(self) -> float:
        """nbytes / resident: how much more fits into the same memory; 0.0 if it is empty."""
        stats = self._stats()
        return stats["nbytes"] / stats["resident"] if stats["resident"] else 0.0

    def stats(self) -> dict[str, int]:
        """Figures, in bytes but for values.

        values: how many.  nbytes: of all values.  packed: what the codec made of them.  pool: pages
        that have them; capacity limits these (0: it does not).  pool_peak: the most there were.
        idle: free memory, not yet given back.  held_back: deleted a moment ago.  meta: tables and
        buffers.  resident: all that it has from the system.  With a spill: spilled: values that are
        in the file; spilled_nbytes, spilled_packed: their bytes, as they were put and in the file.
        """
        return self._stats()

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            s = self._stats()
        except (ValueError, RuntimeError):
            return f"<{name}, {'closed' if self.closed else 'of another process'}>"
        return (f"<{name} of {s['values']} values: {size_text(s['nbytes'])} "
                f"in {size_text(s['resident'])}, {self.codec}>")

    def _repr_html_(self) -> str:
        try:
            s = self._stats()
        except (ValueError, RuntimeError):
            return f"<div>{repr(self)[1:-1]}</div>"
        saved = max(s["nbytes"] - s["resident"], 0)
        if "spilled" in s:
            saved = max(saved - s["spilled_nbytes"], 0)
        rows = [("values", f"{s['values']:,}"), ("bytes of values", size_text(s["nbytes"])),
                ("compressed", size_text(s["packed"])), ("resident", size_text(s["resident"])),
                ("ratio", f"{s['nbytes'] / s['resident']:.2f}" if s["resident"] else "-"),
                ("capacity", size_text(s["capacity"]) if s["capacity"] else "no limit"),
                ("codec", f"{self.codec}, level {self.level}")]
        if "spilled" in s:
            rows.append(("in the file",
                         f"{s['spilled']:,} values, {size_text(s['spilled_packed'])}"))
        bar = [("compressed values", s["pool"], "#2a6fb0"),
               ("free, on its way back", s["idle"], "#9cc3e6"), ("tables", s["meta"], "#e0a030"),
               ("in the file", s.get("spilled_packed", 0), "#b05050"), ("saved", saved, "#eeeeee")]
        return table_html(f"pyebb.{type(self).__name__}", rows, bar, s["nbytes"])


def _bounded(pool: ThreadPoolExecutor, call: Any, pairs: Iterable[tuple[Any, Any]],
             most: int) -> Iterator[None]:
    """Calls in the pool, at most so many of them ahead: not all values are there at once."""
    ahead: list[Any] = []
    for pair in pairs:
        if len(ahead) == most:
            yield ahead.pop(0).result()
        ahead.append(pool.submit(call, *pair))
    for future in ahead:
        yield future.result()


# ---- values that no store keeps ----

_stores: dict[tuple[str, int, int, int], Store] = {}
_numbers = itertools.count()
os.register_at_fork(after_in_child=_stores.clear)      # these are the parent's


def codec_store(codec: str, level: int | None, unit: int = UNITS[-1]) -> Store:
    """The process's Store for a codec, in which nothing stays.  ValueError: as Store's."""
    key = codec, check_codec(codec, level), unit, _core.forks()
    found = _stores.get(key)
    if found is None:
        found = _stores.setdefault(key, Store(codec=codec, level=level, unit=unit))
    return found


def packed_form(data: Any, codec: str, level: int | None, unit: int = UNITS[-1]) -> bytes:
    """What read_packed() of a store with these arguments says of a value, which no store keeps."""
    store = codec_store(codec, level, unit)
    number = next(_numbers)
    try:
        store[number] = data
        return store.read_packed(number)
    finally:
        store._delete(number)
