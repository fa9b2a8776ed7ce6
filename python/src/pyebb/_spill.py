# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Store whose oldest values go to a file when its capacity is reached.

    _at: each key --> a number, under which libebb has the value, or a File, its place in the file

    put:   the value under a new number --exchange(_at)--> what was there before is freed
    move:  the oldest number --packed form, as it is--> a place --exchange(_at, only=number)--> the
           number is freed

A value goes to the file once, and never back: a get reads the file.  A number is never used for
another value, but a place is.  So who has read one looks whether the key still has that File: then
nobody gave the place up meanwhile.  A get that finds it gone looks into _at again.

The store has no lock: _at changes by exchange() alone, in which no finalizer runs.  So one that
garbage collection runs within a call here may put, get and delete in the same store, and waits for
nobody.  What takes a number or a place, until a key has it, is in _steps.pxi: there Ctrl-C is no
exception, so nothing is lost by it.
"""
import errno
import itertools
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ._core import (ANY, CorruptError, File, SpillFile, Values, bytes_of, drop_stale, find_key,
                    items_of, move_oldest, nbytes_of, place, place_in_file, put_key, remove,
                    some_keys)
from ._store import _MISSING, SOME, Key, Store, packed_form

STALE = 1000        # of those that are in `_order` and gone, so many may be there in any case


class SpillingStore(Store):
    """What Store(..., spill=folder) opens."""

    def __init__(self, items: Any = (), /, *, spill: str | os.PathLike[str],
                 **arguments: Any) -> None:
        if arguments.get("capacity") is None:
            raise ValueError("spill needs a capacity, past which values go there")
        super().__init__(**arguments)
        self._at: dict[Key, int | File] = {}
        self._order: deque[tuple[int, Key]] = deque()   # those in memory, the oldest first
        self._numbers = itertools.count()
        # It has no name, so it ends with the process, too.
        with tempfile.TemporaryFile(dir=os.fspath(spill), buffering=0) as f:
            self._file = SpillFile(os.dup(f.fileno()))
        if items:
            self.update(items)

    def close(self) -> None:
        super().close()
        self._file.close()
        self._at = {}
        self._order = deque()

    def _table(self) -> dict[Key, int | File]:
        """_at, if the store may be used: it is not closed, and no parent process's."""
        super().__len__()
        return self._at

    # ---- to the file ----

    def _make_room(self, want: int) -> bool:
        """Moves old values out until so many bytes are free.  False: there was none."""
        freed = 0
        while freed < want:
            moved = move_oldest(self)
            if not moved:
                break
            freed += moved
        return freed > 0

    def _place(self, key: Key, data: Any, packed: bool, only: Any = ANY) -> bool:
        """Keeps a value for a key that has `only`, and makes room for it.  What needs more than
        half of the capacity goes to the file at once, and no other value moves.

        packed: whether data is a value's packed form.
        """
        placed = place(self, key, data, packed, only)
        if placed is not None:
            return placed
        capacity = self._stats_of_memory()["capacity"]
        form = None
        if nbytes_of(data) > capacity // 2:
            data = form = self._pack(data, packed)
            packed = True
            if len(form) > capacity // 2:
                return place_in_file(self, key, form, only)
        while self._make_room(min(nbytes_of(data), capacity // 16) + 1):
            placed = place(self, key, data, packed, only)
            if placed is not None:
                return placed
        return place_in_file(self, key, form or self._pack(data, packed), only)

    def _pack(self, data: Any, packed: bool) -> bytes:
        return bytes_of(data) if packed else packed_form(data, self.codec, self.level, self.unit)

    def _put(self, key: Key, data: Any, flags: int) -> bool:
        key = put_key(key)
        if flags and key in self._table():
            return False
        placed = self._place(key, data, False, None if flags else ANY)
        self._drop_stale()
        return placed

    def __setitem__(self, key: Key, data: Any) -> None:
        self._put(key, data, 0)

    def put_packed(self, key: Key, data: Any) -> None:
        self._place(put_key(key), data, True)
        self._drop_stale()

    def _drop_stale(self) -> None:
        """Drops from `_order` what was replaced or deleted, if that is much."""
        n = len(self._order)
        if n > STALE and n > 2 * super().__len__() + STALE:
            for at in range(0, n, STALE):
                # Each once, or their order is another, as it may be beside other threads.
                drop_stale(self, min(STALE, n - at))

    def _delete(self, key: Key) -> bool:
        try:
            key = find_key(key)
        except KeyError:
            return False
        self._table()
        deleted = remove(self, key)
        self._drop_stale()
        return deleted

    def __delitem__(self, key: Key) -> None:
        if not self._delete(key):
            raise KeyError(key)

    # ---- from the file ----

    def _look(self, key: Key, in_memory: Callable[[int], Any],
              in_file: Callable[[Key, File], Any]) -> Any:
        """What in_memory() says of a key's number, or in_file() of its File."""
        return self._find(key, in_memory, in_file)[1]

    def _find(self, key: Key, in_memory: Callable[[int], Any],
              in_file: Callable[[Key, File], Any]) -> tuple[int | File, Any]:
        """The same after the number or the File."""
        key = find_key(key)
        while True:
            where = self._table().get(key)
            if where is None:
                raise KeyError(key)
            try:
                return where, in_file(key, where) if isinstance(where, File) else in_memory(where)
            except (KeyError, OSError, CorruptError) as e:
                if self._table().get(key) is not where:
                    continue        # it was moved, replaced or deleted meanwhile
                what = "does not decompress"
                if isinstance(where, File):
                    what = f"was spilled, and the file is damaged: {e}" \
                        if isinstance(e, CorruptError) \
                        else f"was spilled, and the file cannot be read: {e}"
                raise OSError(errno.EIO, f"the value under {key!r} {what}") from e

    def _form(self, key: Key, file: File) -> bytes:
        """The packed form of a key's value.  KeyError: the key has another one by now."""
        form = self._file.read(file)
        if self._table().get(key) is not file:
            raise KeyError(key)
        return form

    def _from_file(self, key: Key, file: File) -> bytes:
        return self.unpack(self._form(key, file))

    def __getitem__(self, key: Key) -> bytes:
        return self._look(key, super().__getitem__, self._from_file)

    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """The value under the key, which is deleted in the same step; or the default.  KeyError."""
        read = super().__getitem__
        while True:
            try:
                where, value = self._find(key, read, self._from_file)
            except KeyError:
                if default is _MISSING:
                    raise
                return default
            if remove(self, find_key(key), where):
                self._drop_stale()
                return value

    def get(self, key: Key, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def get_into(self, key: Key, buf: Any) -> int:
        read = super().get_into
        return self._look(key, lambda number: read(number, buf),
                          lambda key, file: self.unpack_into(self._form(key, file), buf))

    def _read_part(self, key: Key, part: Callable[[int], tuple[int, int]]) -> bytes:
        read = super()._read_part

        def from_file(key: Key, file: File) -> bytes:
            offset, size = part(file.size)
            return self._from_file(key, file)[offset:offset + size]
        return self._look(key, lambda number: read(number, part), from_file)

    def read_packed(self, key: Key) -> bytes:
        return self._look(key, super().read_packed, self._form)

    def size_of(self, key: Key) -> int:
        return self._look(key, super().size_of, lambda _, file: file.size)

    def packed_size_of(self, key: Key) -> int:
        return self._look(key, super().packed_size_of, lambda _, file: file.packed)

    def __contains__(self, key: object) -> bool:
        try:
            return find_key(key) in self._table()
        except KeyError:
            return False

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._table()))

    def _some_keys(self) -> list[Key]:
        return some_keys(self._table(), SOME)

    def __len__(self) -> int:
        return len(self._table())

    # ---- figures ----

    def _stats_of_memory(self) -> dict[str, int]:
        return Values._stats(self)

    def _files(self) -> dict[Key, File]:
        return {key: where for key, where in items_of(self._at) if isinstance(where, File)}

    def _stats(self) -> dict[str, int]:
        s = super()._stats()
        s["spilled"], s["spilled_nbytes"], s["spilled_packed"] = self._file.counts()
        s["values"] += s["spilled"]
        s["nbytes"] += s["spilled_nbytes"]
        return s

    @property
    def nbytes(self) -> int:
        """Bytes of all values, as they were put; those in the file, too."""
        return self._stats()["nbytes"]

    @property
    def ratio(self) -> float:
        """Bytes of the values in memory / resident; 0.0 if it is empty."""
        s = self._stats()
        return (s["nbytes"] - s["spilled_nbytes"]) / s["resident"] if s["resident"] else 0.0

    def check(self) -> None:
        """Checks all that is stored, in the file, too; no other thread may use it meanwhile."""
        super().check()
        for key in self._files():
            try:
                self[key]
            except KeyError:        # a finalizer deleted it
                pass
            except OSError as e:
                raise RuntimeError(str(e)) from e
