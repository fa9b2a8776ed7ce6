# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Store whose oldest values go to files when its capacity is reached.

    put: no room -> the oldest values: memory --packed form, as it is--> a file each -> put again

A value goes that way once, and never back: a get reads the file.  Lock order: a stripe > _lock.
A stripe is held while the value of one of its keys changes or moves; _lock while _order and _files
change, so that each key is always in exactly one of them.
"""
import errno
import os
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from ._core import CorruptError, Values, nbytes_of, plain_key, unpacked_size
from ._store import Key, Store

STRIPES = 16


def _remove(folder: str, owner: int) -> None:
    """A forked child must not remove its parent's files."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class SpillingStore(Store):
    """What Store(..., spill=folder) opens."""

    def __init__(self, items: Any = (), /, *, spill: str | os.PathLike[str],
                 **arguments: Any) -> None:
        if arguments.get("capacity") is None:
            raise ValueError("spill needs a capacity, past which values go there")
        super().__init__(**arguments)
        self._order: OrderedDict[Key, None] = OrderedDict()     # in memory, the oldest first
        self._files: dict[Key, tuple[str, int, int]] = {}       # path, bytes, packed bytes
        self._number = 0
        self._lock = threading.Lock()
        self._stripes = [threading.Lock() for _ in range(STRIPES)]
        self.spill = tempfile.mkdtemp(prefix="pyebb-", dir=spill)
        self._end = weakref.finalize(self, _remove, self.spill, os.getpid())
        if items:
            self.update(items)

    def close(self) -> None:
        super().close()
        self._end()

    def _stripe(self, key: Key) -> threading.Lock:
        super().__len__()       # not closed, and no parent's: nobody there would let go of a lock
        try:
            return self._stripes[hash(key) % STRIPES]
        except TypeError:
            return self._stripes[0]     # not hashable, so no key: libebb's call says so

    # ---- to the files ----

    def _write(self, key: Key, packed: bytes) -> None:
        """Its stripe is held."""
        with self._lock:
            self._number += 1
            path = os.path.join(self.spill, str(self._number))
        try:
            # A write(2) takes at most 2 GiB; what is buffered is written on until all of it is.
            with open(path, "wb") as f:
                f.write(packed)
        except OSError as e:
            try:
                os.unlink(path)
            except OSError:
                pass
            raise MemoryError(f"the capacity is reached, and the spill takes no more: {e}") from e
        with self._lock:
            self._files[key] = path, unpacked_size(packed), len(packed)
            self._order.pop(key, None)

    def _make_room(self, want: int) -> bool:
        """Moves old values out until so many bytes are free.  False: there was none."""
        freed = 0
        while freed < want:
            with self._lock:
                key = next(iter(self._order), None)
            if key is None:
                break
            with self._stripe(key):
                with self._lock:
                    if key not in self._order:
                        continue
                packed = super().read_packed(key)
                self._write(key, packed)
                super()._delete(key)
                freed += len(packed)
        return freed > 0

    def _store(self, key: Key, size: int, put: Any) -> Any:
        """Calls put() until there is room for what it puts under the key."""
        while True:
            with self._stripe(key):
                try:
                    done = put()
                except MemoryError:
                    pass
                else:
                    if done is not False:
                        self._forget_file(key, new=True)
                    return done
            if not self._make_room(min(size, self._stats_of_memory()["capacity"] // 16) + 1):
                with self._stripe(key):
                    done = put()
                    if done is not False:
                        self._forget_file(key, new=True)
                    return done

    def _forget_file(self, key: Key, *, new: bool) -> bool:
        with self._lock:
            file = self._files.pop(key, None)
            if new:
                self._order[plain_key(key)] = None
                self._order.move_to_end(key)
            else:
                self._order.pop(key, None)
        if file:
            try:
                os.unlink(file[0])
            except OSError:
                pass
        return file is not None

    def _put(self, key: Key, data: Any, flags: int) -> bool:
        put = super()._put
        if flags:
            return self._store(key, _size_of(data), lambda: key not in self._files and
                               put(key, data, flags))
        return self._store(key, _size_of(data), lambda: put(key, data, flags))

    def __setitem__(self, key: Key, data: Any) -> None:
        self._put(key, data, 0)

    def put_packed(self, key: Key, data: Any) -> None:
        put = super().put_packed
        self._store(key, _size_of(data), lambda: put(key, data))

    def _delete(self, key: Key) -> bool:
        with self._stripe(key):
            there = super()._delete(key)
            return self._forget_file(key, new=False) or there

    def __delitem__(self, key: Key) -> None:
        if not self._delete(key):
            raise KeyError(key)

    # ---- from the files ----

    def _packed_file(self, key: Key) -> bytes | None:
        """The file's bytes.  The stripe is held."""
        file = self._files.get(key)
        if file is None:
            return None
        try:
            with open(file[0], "rb") as f:
                return f.read()
        except OSError as e:
            super().__len__()           # if it was closed meanwhile, that is the reason
            raise OSError(errno.EIO, f"the value under {key!r} was spilled, and its file cannot be "
                          f"read: {e}") from e

    def _either(self, key: Key, from_memory: Any, from_form: Any) -> Any:
        """What from_memory() returns, or if there is no such key, from_form() of the file."""
        try:
            return from_memory()
        except KeyError:
            pass
        with self._stripe(key):
            try:
                return from_memory()    # it may have been put meanwhile
            except KeyError:
                packed = self._packed_file(key)
                if packed is None:
                    raise
        try:
            return from_form(packed)
        except CorruptError as e:
            raise OSError(errno.EIO, f"the value under {key!r} was spilled, and its file is "
                          "damaged") from e

    def __getitem__(self, key: Key) -> bytes:
        read = super().__getitem__
        return self._either(key, lambda: read(key), self.unpack)

    def get(self, key: Key, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def get_into(self, key: Key, buf: Any) -> int:
        read = super().get_into
        return self._either(key, lambda: read(key, buf), lambda form: self.unpack_into(form, buf))

    def _read_part(self, key: Key, part: Callable[[int], tuple[int, int]]) -> bytes:
        read = super()._read_part

        def from_form(form: bytes) -> bytes:
            offset, size = part(unpacked_size(form))
            return self.unpack(form)[offset:offset + size]
        return self._either(key, lambda: read(key, part), from_form)

    def read_packed(self, key: Key) -> bytes:
        read = super().read_packed
        return self._either(key, lambda: read(key), lambda form: form)

    def _known(self, key: Key, from_memory: Any, nth: int) -> int:
        with self._stripe(key):
            try:
                return from_memory(key)
            except KeyError:
                if key not in self._files:
                    raise
                return int(self._files[key][nth])

    def size_of(self, key: Key) -> int:
        return self._known(key, super().size_of, 1)

    def packed_size_of(self, key: Key) -> int:
        return self._known(key, super().packed_size_of, 2)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._files

    def __iter__(self) -> Iterator[Key]:
        super().__len__()
        with self._lock:
            return iter([*self._order, *self._files])

    def __len__(self) -> int:
        super().__len__()
        with self._lock:
            return len(self._order) + len(self._files)

    # ---- figures ----

    def _stats_of_memory(self) -> dict[str, int]:
        return Values._stats(self)

    def _stats(self) -> dict[str, int]:
        s = super()._stats()
        with self._lock:
            files = list(self._files.values())
        s["spilled"] = len(files)
        s["spilled_nbytes"] = sum(f[1] for f in files)
        s["spilled_packed"] = sum(f[2] for f in files)
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
        with self._lock:
            files = list(self._files)
        for key in files:
            try:
                self[key]
            except OSError as e:
                raise RuntimeError(str(e)) from e


def _size_of(data: Any) -> int:
    """Bytes of a buffer; 0 if it is none, which is the put's to refuse."""
    try:
        return nbytes_of(data)
    except TypeError:
        return 0
