# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Arrays and other objects as a head and buffers: pack(), unpack() and ArrayStore.

    object --pickle 5--> head: the pickle without its buffers
                         buffers: the object's own memory, not copied

An ArrayStore keeps each buffer as a value of its own under a number that was not used before (or as
several, if it is large and another codec compresses it), and the head, with those numbers, under
the key.  So a put is one step, when the head is put; and a get
that finds a buffer gone begins anew.
"""
import errno
import itertools
import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Protocol, Self

from ._core import CorruptError, plain_key, unpacked_size
from ._store import Key, Store, check_codec


_MISSING: Any = object()
PIECE = 1 << 30     # bytes of a buffer that another codec gets at once; Blosc takes less than 2 GiB
Frame = tuple[list[int], int, int]      # the numbers of its pieces, its bytes, and those of an item


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


class ArrayStore(MutableMapping[Key, Any]):
    """A mapping from str, bytes or int to numpy arrays and other objects, kept compressed.

        arrays = pyebb.ArrayStore(codec="zstd")
        arrays["t"] = numpy.linspace(0, 1, 10**6)
        arrays["t"]             # an array of its own, of the same shape, dtype and order

    Any object that pickle takes is a value; the buffers that it hands out (protocol 5: arrays of
    numpy, and of those who do as it does) are compressed without a copy.  What comes back is a new
    object whose arrays can be written.

    codec: "lz4", "lz4hc" or "zstd", libebb's; "blosc2": each array is shuffled by its dtype's items
    and compressed by blosc2; or an object with encode() and decode() as numcodecs' codecs have
    them.  level, capacity, spill: as Store has them.

    Errors: as Store's; a value that cannot be pickled is what pickle raises.  When a put fails, all
    is as it was before.  Any thread may use it at any time.
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
        # A head is no array: the numbers that name buffers are libebb's ids, the keys are not.
        self.store = Store(codec=str(codec) if own else "lz4", level=level if own else None,
                           capacity=capacity, spill=spill)
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it and gives all its memory back."""
        self.store.close()

    @staticmethod
    def _name(key: Key) -> str | bytes:
        if isinstance(key, str):
            return key
        if isinstance(key, bytes):
            return b"b" + key
        number = plain_key(key)
        if number is not None:
            return b"i%d" % number
        raise TypeError(f"a key is str, bytes or int, not {type(key).__name__}")

    @classmethod
    def _find(cls, key: Key) -> str | bytes:
        """The same for who looks: what cannot be a key is not there."""
        hash(key)           # a TypeError, as in a dict
        if plain_key(key) is None:
            raise KeyError(key)
        return cls._name(key)

    def _put_buffer(self, numbers: list[int], buffer: memoryview, itemsize: int) -> None:
        """numbers: where it puts those that it takes."""
        if self._make is None:
            numbers.append(next(self._numbers))
            self.store[numbers[-1]] = buffer
            return
        for at in range(0, max(buffer.nbytes, 1), PIECE):
            numbers.append(next(self._numbers))
            piece = _items(buffer[at:at + PIECE], itemsize)
            self.store[numbers[-1]] = self._make(itemsize).encode(piece)

    def __setitem__(self, key: Key, value: Any) -> None:
        name = self._name(key)
        head, buffers = _pickle(value)
        frames: list[Frame] = []
        try:
            for buffer in buffers:
                raw, itemsize = buffer.raw(), memoryview(buffer).itemsize
                frames.append(([], raw.nbytes, itemsize))
                self._put_buffer(frames[-1][0], raw, itemsize)
            text = pickle.dumps((head, frames))
            old = self._exchange(name, text)
        except BaseException:
            self._free(frames)
            raise
        if old:
            self._free(old[1])

    def _exchange(self, name: str | bytes, text: bytes | None,
                  only: tuple[bytes, list[Frame]] | None = None,
                  ) -> tuple[bytes, list[Frame]] | None:
        """Puts a head, or deletes it, and returns the one before: whoever gets it frees it.  only:
        if it is another than this one nothing is done, and None returned."""
        name in self.store      # in a forked child, where the lock may be taken, it is an error
        with self._lock:
            old = self._head(name)
            if only and old != only:
                return None
            if text is not None:
                self.store[name] = text
            elif old:
                self.store._delete(name)
        return old

    def _free(self, frames: list[Frame]) -> None:
        for numbers, _, _ in frames:
            for number in numbers:
                self.store._delete(number)

    def _head(self, name: str | bytes) -> tuple[bytes, list[Frame]] | None:
        found = self.store.get(name)
        return None if found is None else pickle.loads(found)

    def _read_buffer(self, numbers: list[int], size: int, itemsize: int) -> Any:
        room = _room(size)
        if self._make is None:
            if self.store.get_into(numbers[0], room) != size:
                raise KeyError(numbers[0])
            return room
        for at, number in zip(range(0, size, PIECE), numbers):
            piece = room if len(numbers) == 1 else memoryview(room)[at:at + PIECE]
            self._make(itemsize).decode(self.store[number], out=piece)
        return room

    def pop(self, key: Key, default: Any = _MISSING) -> Any:
        """The object under the key, which is deleted in the same step; or the default.  What cannot
        be read stays."""
        try:
            while True:
                name, found, value = self._read(key)
                if self._exchange(name, None, found):
                    self._free(found[1])
                    return value
        except KeyError:
            if default is _MISSING or key in self:
                raise
            return default

    def __getitem__(self, key: Key) -> Any:
        return self._read(key)[2]

    def _read(self, key: Key) -> tuple[str | bytes, tuple[bytes, list[Frame]], Any]:
        """The key's name and head, and the object."""
        name = self._find(key)
        last = None
        while True:
            found = self._head(name)
            if found is None:
                raise KeyError(key)
            if found == last:
                raise OSError(errno.EIO, f"a buffer of the value under {key!r} is gone")
            last = found
            head, frames = found
            try:
                buffers = [self._read_buffer(*frame) for frame in frames]
            except KeyError:
                continue        # it was replaced or deleted meanwhile
            return name, found, pickle.loads(head, buffers=buffers)

    def __delitem__(self, key: Key) -> None:
        name = self._find(key)
        old = self._exchange(name, None)
        if old is None:
            raise KeyError(key)
        self._free(old[1])

    def clear(self) -> None:
        """Deletes all objects that are there when it is called; none is decompressed."""
        for name in [name for name in self.store if not isinstance(name, int)]:
            old = self._exchange(name, None)
            if old:
                self._free(old[1])

    def __contains__(self, key: object) -> bool:
        try:
            return self._find(key) in self.store  # type: ignore[arg-type]
        except KeyError:
            return False

    def __iter__(self) -> Iterator[Key]:
        for name in self.store:
            if isinstance(name, str):
                yield name
            elif isinstance(name, bytes):
                yield name[1:] if name[:1] == b"b" else int(name[1:])

    def __len__(self) -> int:
        return sum(1 for name in self.store if not isinstance(name, int))

    @property
    def nbytes(self) -> int:
        """Bytes of arrays and heads; of another codec than libebb's, what it made of them."""
        return self.store.nbytes

    @property
    def resident(self) -> int:
        """Bytes of memory that it has from the system."""
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


def _codec_store(codec: str, level: int | None) -> Store:
    """A Store for its codec; nothing stays in it.  A forked child has its own."""
    key = os.getpid(), codec, check_codec(codec, level)
    found = _stores.get(key)
    if found is None:
        found = _stores.setdefault(key, Store(codec=codec, level=level))
    return found


_stores: dict[tuple[int, str, int], Store] = {}
_numbers = itertools.count()


def pack(obj: Any, *, codec: str = "lz4", level: int | None = None) -> bytes:
    """An array, or any object that pickle takes, as compressed bytes, for unpack().

    codec, level: as Store has them.  Damage to the bytes is found when they are unpacked.
    """
    store = _codec_store(codec, level)
    head, buffers = _dump(obj)
    frames: list[Any] = [head, *buffers]
    parts = [_MAGIC, struct.pack("<B", len(codec)), codec.encode(), struct.pack("<Q", len(frames))]
    for data in frames:
        number = next(_numbers)
        store[number] = data
        try:
            form = store.read_packed(number)
        finally:
            store._delete(number)
        parts += [struct.pack("<Q", len(form)), form]
    return b"".join(parts)


def unpack(data: Any) -> Any:
    """The object that pack() was given.

    It is as pickle.loads(): who made the bytes can have any code run, so bytes of strangers are not
    for it.  CorruptError: the bytes are damaged, or are none of pack().
    """
    view = memoryview(data).cast("B")
    at = len(_MAGIC) + 1
    if len(view) < at or view[:len(_MAGIC)] != _MAGIC:
        raise CorruptError("these bytes are none that pack() made")
    end = at + view[at - 1]
    try:
        store = _codec_store(str(view[at:end], "ascii"), None)
    except (ValueError, UnicodeDecodeError):
        raise CorruptError("these bytes name no codec that there is") from None
    (count,), end = struct.unpack("<Q", _cut(view, end, 8)), end + 8
    parts: list[Any] = []
    while end < len(view) and len(parts) < count:
        (n,) = struct.unpack("<Q", _cut(view, end, 8))
        form = _cut(view, end + 8, n)
        room = _room(unpacked_size(form))
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
