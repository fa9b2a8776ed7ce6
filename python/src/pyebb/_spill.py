# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Store whose oldest values go to files when its capacity is reached.

    _at: each key --> a number, under which libebb has the value, or a File

    put:   the value under a new number --exchange(_at)--> what was there before is freed
    move:  the oldest number --packed form, as it is--> a file --exchange(_at, only=number)--> the
           number is freed

A value goes to a file once, and never back: a get reads the file.  A number or a file is never used
for another value.  So a get that finds it gone looks into _at again, and who frees it twice does no
harm.

The store has no lock: _at changes by exchange() alone, in which no finalizer runs.  So one that
garbage collection runs within a call here may put, get and delete in the same store, and waits for
nobody.  What takes a number or a file, until a key has it, is in _steps.pxi: there Ctrl-C is no
exception, so nothing is lost by it.
"""
import errno
import itertools
import os
import shutil
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ._core import (ANY, CorruptError, Values, bytes_of, drop_stale, find_key, forks, items_of,
                    move_oldest, nbytes_of, place, place_in_file, put_key, remove, some_keys,
                    unpacked_size)
from ._store import _MISSING, SOME, Key, Store, packed_form

STALE = 1000        # of those that are in `_order` and gone, so many may be there in any case


class File(NamedTuple):
    """A value in a file of its own."""
    path: str
    size: int           # bytes of the value
    packed: int         # bytes of the file


def _remove(folder: str, owner: int) -> None:
    """A forked child, which has other forks(), must not remove its parent's files.  Nobody finds
    the folder by its new name, so a thread that goes on while the interpreter ends puts no file
    there any more, but the one that it may be about to make."""
    if forks() == owner:
        try:
            os.rename(folder, folder + ".ended")
            folder += ".ended"
        except OSError:
            pass
        for tries in range(10):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(tries / 1000)


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
        # Absolute, which mkdtemp() makes of it from 3.12 on: the process may change its directory.
        self.spill = tempfile.mkdtemp(prefix="pyebb-", dir=os.path.abspath(spill))
        self._end = weakref.finalize(self, _remove, self.spill, forks())
        if items:
            self.update(items)

    def close(self) -> None:
        super().close()
        self._end()
        self._at = {}
        self._order = deque()

    def _table(self) -> dict[Key, int | File]:
        """_at, if the store may be used: it is not closed, and no parent process's."""
        super().__len__()
        return self._at

    # ---- to the files ----

    def _path(self) -> str:
        """The name of a new file."""
        return os.path.join(self.spill, str(next(self._numbers)))

    def _write(self, path: str, form: Any) -> File:
        try:
            # A write(2) takes at most 2 GiB; what is buffered is written on until all of it is.
            with open(path, "wb") as f:
                f.write(form)
        except OSError as e:
            self._table()           # if it was closed meanwhile, that is the reason
            raise MemoryError(f"the capacity is reached, and the spill takes no more: {e}") from e
        return File(path, unpacked_size(form), len(form))

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
        half of the capacity goes to a file at once, and no other value moves.

        packed: whether data is a value's packed form.
        """
        placed = place(self, key, data, packed, only)
        if placed is not None:
            return placed
        capacity = self._stats_of_memory()["capacity"]
        form = None
        if nbytes_of(data) > capacity // 2:
            data = form = self._form(data, packed)
            packed = True
            if len(form) > capacity // 2:
                return place_in_file(self, key, form, only)
        while self._make_room(min(nbytes_of(data), capacity // 16) + 1):
            placed = place(self, key, data, packed, only)
            if placed is not None:
                return placed
        return place_in_file(self, key, form or self._form(data, packed), only)

    def _form(self, data: Any, packed: bool) -> bytes:
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

    # ---- from the files ----

    def _look(self, key: Key, in_memory: Callable[[int], Any],
              in_file: Callable[[File], Any]) -> Any:
        """What in_memory() says of a key's number, or in_file() of its file."""
        return self._find(key, in_memory, in_file)[1]

    def _find(self, key: Key, in_memory: Callable[[int], Any],
              in_file: Callable[[File], Any]) -> tuple[int | File, Any]:
        """The same after the number or the file."""
        key = find_key(key)
        while True:
            where = self._table().get(key)
            if where is None:
                raise KeyError(key)
            try:
                return where, in_file(where) if isinstance(where, File) else in_memory(where)
            except (KeyError, OSError, CorruptError) as e:
                if self._table().get(key) is not where:
                    continue        # it was moved, replaced or deleted meanwhile
                what = "does not decompress"
                if isinstance(where, File):
                    what = "was spilled, and its file is damaged" \
                        if isinstance(e, CorruptError) \
                        else f"was spilled, and its file cannot be read: {e}"
                raise OSError(errno.EIO, f"the value under {key!r} {what}") from e

    def __getitem__(self, key: Key) -> bytes:
        return self._look(key, super().__getitem__, lambda file: self.unpack(_read(file)))

    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """The value under the key, which is deleted in the same step; or the default.  KeyError."""
        read = super().__getitem__
        while True:
            try:
                where, value = self._find(key, read, lambda file: self.unpack(_read(file)))
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
                          lambda file: self.unpack_into(_read(file), buf))

    def _read_part(self, key: Key, part: Callable[[int], tuple[int, int]]) -> bytes:
        read = super()._read_part

        def from_file(file: File) -> bytes:
            offset, size = part(file.size)
            return self.unpack(_read(file))[offset:offset + size]
        return self._look(key, lambda number: read(number, part), from_file)

    def read_packed(self, key: Key) -> bytes:
        return self._look(key, super().read_packed, _read)

    def size_of(self, key: Key) -> int:
        return self._look(key, super().size_of, lambda file: file.size)

    def packed_size_of(self, key: Key) -> int:
        return self._look(key, super().packed_size_of, lambda file: file.packed)

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
        files = self._files().values()
        s["spilled"] = len(files)
        s["spilled_nbytes"] = sum(file.size for file in files)
        s["spilled_packed"] = sum(file.packed for file in files)
        s["values"] += s["spilled"]
        s["nbytes"] += s["spilled_nbytes"]
        return s

    @property
    def nbytes(self) -> int:
        """Bytes of all values, as they were put; those in files, too."""
        return self._stats()["nbytes"]

    @property
    def ratio(self) -> float:
        """Bytes of the values in memory / resident; 0.0 if it is empty."""
        s = self._stats()
        return (s["nbytes"] - s["spilled_nbytes"]) / s["resident"] if s["resident"] else 0.0

    def check(self) -> None:
        """Checks all that is stored, and reads each file; no other thread may use it meanwhile."""
        super().check()
        for key in self._files():
            try:
                self[key]
            except KeyError:        # a finalizer deleted it
                pass
            except OSError as e:
                raise RuntimeError(str(e)) from e


def _read(file: File) -> bytes:
    with open(file.path, "rb") as f:
        form = f.read()
    if len(form) != file.packed:
        raise CorruptError(f"its file has {len(form)} bytes, and had {file.packed}")
    return form
