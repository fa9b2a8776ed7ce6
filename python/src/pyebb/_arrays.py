# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Arrays and other objects as a head and buffers: pack(), unpack() and ArrayStore.

    object --pickle 5--> head: the pickle without its buffers
                         buffers: the object's own memory, not copied

An ArrayStore has a Store below it, which keeps each buffer as a value of its own (or as several, if
it is large and another codec compresses it), and the head as another.  All have numbers, which are
used once.  A dict has those of each key's object, and changes by exchange() alone, in one step: who
takes numbers out of it frees their values, with no signal's handler between the two (_steps.pxi).
So there is no lock that a finalizer could wait for, which garbage collection may run anywhere; and
a get that finds a value gone begins anew.
"""
import errno
import itertools
import os
import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, Self

from ._core import (ANY, CorruptError, bytes_of, exchange_object, find_key, give_up_object, put_key,
                    some_keys, unpacked_size)
from ._store import SOME, Key, Shared, Store, codec_store, packed_form


_MISSING: Any = object()
PIECE = 1 << 30     # bytes of a buffer that another codec gets at once; Blosc takes less than 2 GiB
SHUFFLED = 16 << 20     # that are shuffled at once, into a copy
SAMPLE, SAMPLES = 4 << 10, 8    # a buffer is tried by so many pieces of so many bytes
# The numbers of its pieces, its bytes, and those of an item; libebb's codecs: 1 if not shuffled.
Frame = tuple[list[int], int, int]


class Kept(NamedTuple):
    """Where an object is."""
    head: int                   # its number
    frames: list[Frame]         # _steps.pxi knows this form, too

    def numbers(self) -> Iterator[int]:
        """Of all values that it has."""
        yield self.head
        for numbers, _, _ in self.frames:
            yield from numbers


class Codec(Protocol):
    """What numcodecs' codecs are: another way to compress a buffer."""

    def encode(self, buf: Any) -> Any:
        """Compressed bytes of a buffer, or an array of 1 dimension."""

    def decode(self, buf: Any, out: Any = None) -> Any:
        """The buffer's bytes again, in out."""


def _pickle(obj: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """The head and the buffers of an object.  Errors are pickle's."""
    numpy = sys.modules.get("numpy")
    if numpy and type(obj) is numpy.ndarray and not obj.flags.forc:
        obj = numpy.ascontiguousarray(obj)      # pickle would copy it into the head
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
    return head, buffers


def _dump(obj: Any) -> tuple[bytes, list[memoryview]]:
    """The same with the buffers' bytes."""
    head, buffers = _pickle(obj)
    return head, [b.raw() for b in buffers]


def _room(n: int) -> Any:
    """Writable memory of n bytes that nobody has filled: an array of it is aligned."""
    try:
        import numpy
    except ImportError:
        return bytearray(n)
    return numpy.empty(n, "u1")


def _shuffle(buffer: Any, itemsize: int) -> Any:
    """The first bytes of all items, then the second ones, and so on."""
    import numpy
    return numpy.ascontiguousarray(numpy.frombuffer(buffer, "u1").reshape(-1, itemsize).T)


def _unshuffle(shuffled: Any, room: Any, itemsize: int) -> None:
    import numpy
    items = numpy.frombuffer(room, "u1").reshape(-1, itemsize)
    items[:] = numpy.frombuffer(shuffled, "u1").reshape(itemsize, -1).T


class Blosc2:
    """blosc2 as a codec: shuffles the bytes of items of a size, then compresses.

    itemsize: bytes of an item.  codec: a name of blosc2.Codec in small letters.
    """

    def __init__(self, itemsize: int = 8, codec: str = "lz4", level: int = 5) -> None:
        import blosc2
        self._blosc2 = blosc2
        self.arguments = {"typesize": itemsize, "codec": getattr(blosc2.Codec, codec.upper()),
                          "clevel": level, "filters": [blosc2.Filter.SHUFFLE]}

    def encode(self, buf: Any) -> Any:
        """See Codec."""
        return self._blosc2.compress2(buf, **self.arguments)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """See Codec."""
        return self._blosc2.decompress2(buf, dst=out)


class ArrayStore(Shared[Any]):
    """A mapping from str, bytes or int to numpy arrays and other objects, kept compressed.

        arrays = pyebb.ArrayStore(codec="zstd")
        arrays["t"] = numpy.linspace(0, 1, 10**6)
        arrays["t"]             # an array of its own, of the same shape, dtype and order

    Any object that pickle takes is a value; the buffers that it hands out (protocol 5: arrays of
    numpy, and of those who do as it does) are compressed without a copy.  What comes back is a new
    object.  Its arrays can be written, but for plain ones (of the class numpy.ndarray) of numbers,
    text or records that were read-only and in one piece, in C's or Fortran's order: these are
    read-only again.  What else was read-only comes back writable, as pickle has it: what has gaps
    (a[::2]) or another order of its axes, dates and time differences, Python objects, and
    numpy.recarray, numpy.matrix and masked arrays.

    codec: "lz4", "lz4hc" or "zstd", libebb's: numbers are shuffled by their dtype's items before,
    if a sample of the array gets smaller by it; "blosc2": each array is shuffled by its dtype's
    items and compressed by blosc2; or an object with encode() and decode() as numcodecs' codecs
    have them.  level, capacity, spill: as Store has them.

    Errors: as Store's; a value that cannot be pickled is what pickle raises, and so is one that
    cannot be unpickled, but that a KeyError is an OSError then.  When a put fails, all is as it was
    before.  Any thread may use it at any time.
    """

    def __init__(self, *, codec: str | Codec = "lz4", level: int | None = None,
                 capacity: int | str | None = None,
                 spill: str | os.PathLike[str] | None = None) -> None:
        self._make: Callable[[int], Codec] | None = None
        self.codec = codec
        if codec == "blosc2":
            import blosc2  # noqa: F401 - a missing one is told here
            self._make = lambda itemsize: Blosc2(itemsize, level=5 if level is None else level)
        elif not isinstance(codec, str):
            if not (hasattr(codec, "encode") and hasattr(codec, "decode")):
                raise ValueError(f"codec {codec!r}: expected a name, or an object with encode() "
                                 "and decode()")
            if level is not None:
                raise ValueError(f"level {level!r}: a codec that is an object has its own")
            self._make = lambda itemsize: codec
        own = self._make is None
        self.store = Store(codec=str(codec) if own else "lz4", level=level if own else None,
                           capacity=capacity, spill=spill)
        self._at: dict[Key, Kept] = {}
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it and gives all its memory back."""
        self.store.close()
        self._at = {}
        self.__dict__.pop("_ahead", None)

    def _table(self) -> dict[Key, Kept]:
        """_at, if the store may be used: it is not closed, and no parent process's."""
        len(self.store)
        return self._at

    def _itemsize(self, buffer: memoryview, itemsize: int) -> int:
        """What a Frame says: libebb's codecs get a buffer shuffled if a sample gains by it."""
        if self._make:
            return itemsize
        n = buffer.nbytes
        if itemsize not in (2, 4, 8, 16) or n < SAMPLE or "numpy" not in sys.modules:
            return 1
        step = max((n - SAMPLE) // (SAMPLES - 1) // 64 * 64, SAMPLE)
        sample = b"".join(buffer[at:at + SAMPLE] for at in range(0, n - SAMPLE + 1, step))
        plain, shuffled = (len(packed_form(data, self.store.codec, self.store.level))
                           for data in (sample, _shuffle(sample, itemsize)))
        return itemsize if shuffled < 0.95 * plain else 1

    def _put_buffer(self, numbers: list[int], buffer: memoryview, itemsize: int) -> None:
        """numbers: where it puts those that it takes."""
        if self._make is None and itemsize == 1:
            numbers.append(next(self._numbers))
            self.store[numbers[-1]] = buffer
            return
        step = PIECE if self._make else SHUFFLED
        for at in range(0, max(buffer.nbytes, 1), step):
            numbers.append(next(self._numbers))
            piece = buffer[at:at + step]
            self.store[numbers[-1]] = self._make(itemsize).encode(_items(piece, itemsize)) \
                if self._make else _shuffle(piece, itemsize)

    def __setitem__(self, key: Key, value: Any) -> None:
        self._put(key, value, ANY)

    def _put(self, key: Key, value: Any, only: Any) -> bool:
        """Keeps an object for a key that has `only`.  False: it has something else."""
        key = put_key(key)
        head, buffers = _pickle(value)
        kept = Kept(next(self._numbers), [])
        try:
            for buffer in buffers:
                raw = buffer.raw()
                itemsize = self._itemsize(raw, memoryview(buffer).itemsize)
                kept.frames.append(([], raw.nbytes, itemsize))
                self._put_buffer(kept.frames[-1][0], raw, itemsize)
            self.store[kept.head] = head
            was = exchange_object(self.store, self._table(), key, kept, only)
            if only is ANY or was is only:
                return True
        except BaseException:
            give_up_object(self.store, self._at, key, kept)
            raise
        give_up_object(self.store, self._at, key, kept)
        return False

    def _read_buffer(self, numbers: list[int], size: int, itemsize: int) -> Any:
        room = _room(size)
        if self._make is None:
            step = SHUFFLED if itemsize > 1 else max(size, 1)
            for at, number in zip(range(0, max(size, 1), step), numbers):
                piece = memoryview(room)[at:at + step]
                into = _room(len(piece)) if itemsize > 1 else piece
                if self.store.get_into(number, into) != len(piece):
                    raise KeyError(number)
                if itemsize > 1:
                    _unshuffle(into, piece, itemsize)
            return room
        for at, number in zip(range(0, size, PIECE), numbers):
            piece = room if len(numbers) == 1 else memoryview(room)[at:at + PIECE]
            data = self.store[number]
            try:
                self._make(itemsize).decode(data, out=piece)
            except KeyError as e:       # which would say that a part is gone
                raise OSError(errno.EIO, f"{type(e).__name__} of the codec: {e}") from e
        return room

    def get(self, key: Key, default: Any = None) -> Any:
        """The object under the key; the default if there is none."""
        found = self._read(key)
        return default if found is None else found[2]

    def setdefault(self, key: Key, default: Any = None) -> Any:
        """The object under the key; if there is none, the default is put, in the same step."""
        while True:
            found = self._read(key)
            if found is not None:
                return found[2]
            if self._put(key, default, None):
                return default

    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """The object under the key, which is deleted in the same step; or the default.  What cannot
        be read stays."""
        while True:
            found = self._read(key)
            if found is None:
                if default is _MISSING:
                    raise KeyError(key)
                return default
            plain, kept, value = found
            if exchange_object(self.store, self._at, plain, None, kept) is kept:
                return value

    def __getitem__(self, key: Key) -> Any:
        found = self._read(key)
        if found is None:
            raise KeyError(key)
        return found[2]

    def _read(self, key: Key) -> tuple[Key, Kept, Any] | None:
        """The plain key, where its object is, and the object; None: there is none."""
        try:
            key = find_key(key)
        except KeyError:
            return None
        while True:
            kept = self._table().get(key)
            if kept is None:
                return None
            try:
                head = self.store[kept.head]
                buffers = [self._read_buffer(*frame) for frame in kept.frames]
            except KeyError:
                if self._table().get(key) is kept:
                    raise OSError(errno.EIO, f"a part of the value under {key!r} is gone") from None
                continue        # it was replaced or deleted meanwhile
            try:
                return key, kept, pickle.loads(head, buffers=buffers)
            except KeyError as e:       # which would say that there is no such key
                raise OSError(errno.EIO, f"the value under {key!r} cannot be unpickled: "
                                         f"{type(e).__name__}: {e}") from e

    def __delitem__(self, key: Key) -> None:
        plain = find_key(key)
        if exchange_object(self.store, self._table(), plain, None) is None:
            raise KeyError(key)

    def clear(self) -> None:
        """Deletes all objects that are there when it is called; none is decompressed."""
        for key in self:
            exchange_object(self.store, self._at, key, None)

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

    @property
    def nbytes(self) -> int:
        """Bytes of arrays and heads; of another codec than libebb's, what it made of them."""
        return self.store.nbytes

    @property
    def resident(self) -> int:
        """Bytes of memory that it has from the system, but for the dict of its keys."""
        return self.store.resident

    def stats(self) -> dict[str, int]:
        """Figures of the Store below, as its stats(); a value there is a head or a buffer."""
        return self.store.stats()

    def trim(self) -> int:
        """As Store.trim()."""
        return self.store.trim()

    def __repr__(self) -> str:
        return f"<ArrayStore in {self.store!r}>"

    def _repr_html_(self) -> str:
        return self.store._repr_html_()


def _items(buffer: memoryview, itemsize: int) -> Any:
    """A buffer as codecs want it: an array of 1 dimension whose items are of a size."""
    try:
        import numpy
    except ImportError:
        return buffer
    kind = f"u{itemsize}" if itemsize in (1, 2, 4, 8) and not buffer.nbytes % itemsize else "u1"
    return numpy.frombuffer(buffer, kind) if buffer.nbytes else numpy.empty(0, kind)


# ---- one object, as bytes ----

_MAGIC = b"pyebb\2"     # then the codec's name, how many parts, and these, each after its length


def pack(obj: Any, *, codec: str = "lz4", level: int | None = None) -> bytes:
    """An array, or any object that pickle takes, as compressed bytes, for unpack().

    codec, level: as Store has them.  Damage to the bytes is found when they are unpacked.
    """
    codec_store(codec, level)       # a wrong argument is told before pickle's work
    head, buffers = _dump(obj)
    frames: list[Any] = [head, *buffers]
    parts = [_MAGIC, struct.pack("<B", len(codec)), codec.encode(), struct.pack("<Q", len(frames))]
    for data in frames:
        form = packed_form(data, codec, level)
        parts += [struct.pack("<Q", len(form)), form]
    return b"".join(parts)


def unpack(data: Any) -> Any:
    """The object that pack() was given.

    It is as pickle.loads(): who made the bytes can have any code run, so bytes of strangers are not
    for it.  CorruptError: the bytes are damaged, or are none of pack().  ValueError: a later
    version made them.
    """
    view = memoryview(data)
    # Of any shape; what has gaps is copied.
    view = pickle.PickleBuffer(view if view.contiguous else bytes_of(view)).raw()
    at = len(_MAGIC) + 1
    if len(view) < at or view[:len(_MAGIC)] != _MAGIC:
        raise CorruptError("these bytes are none that pack() made")
    end = at + view[at - 1]
    try:
        store = codec_store(str(view[at:end], "ascii"), None)
    except (ValueError, UnicodeDecodeError):
        raise CorruptError("these bytes name no codec that there is") from None
    (count,), end = struct.unpack("<Q", _cut(view, end, 8)), end + 8
    parts: list[Any] = []
    while end < len(view) and len(parts) < count:
        (n,) = struct.unpack("<Q", _cut(view, end, 8))
        form = _cut(view, end + 8, n)
        try:
            room = _room(unpacked_size(form))
        except CorruptError:
            raise
        except ValueError:
            store.unpack_into(form, bytearray())    # its sum tells whether that is damage
            raise
        store.unpack_into(form, room)
        parts.append(room)
        end += 8 + n
    if not parts or len(parts) != count or end != len(view):
        raise CorruptError("packed bytes have other parts than were packed")
    return pickle.loads(parts[0], buffers=parts[1:])


def _cut(view: memoryview, at: int, n: int) -> memoryview:
    if len(view) - at < n:
        raise CorruptError("packed bytes end within a part")
    return view[at:at + n]
